/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one CPU sends and how far it has come: a thread for each CPU, which keeps the time, and for
 * each thread a lane for each stream. The control process writes them while the CPU sends nothing;
 * while it sends, only that CPU touches them.
 *
 * The control process reads and writes words (crates/weir-bpf/src/generator): every field has 64
 * bits. The spare words at the end keep the structures of two CPUs out of one cache line.
 */
#ifndef WEIR_LANE_H
#define WEIR_LANE_H

#include <weir/pacing.h>
#include <weir/sizes.h>
#include <weir/vmlinux.h>
#include <weir/walk.h>

/* weir_thread.flags */
enum weir_thread_flag {
	WEIR_THREAD_ENABLED = 1 << 0,
	WEIR_THREAD_PACED = 1 << 1,
	WEIR_THREAD_STAMPED = 1 << 2,
	WEIR_THREAD_WINDOWED = 1 << 3,	/* nth_end is how far room.h lets it go */
};

/* The layouts of packets: the transport, and WEIR_LAYOUT_IPV6 added for IPv6. */
enum weir_layout {
	WEIR_LAYOUT_UDP,
	WEIR_LAYOUT_TCP,
	WEIR_LAYOUT_ECHO,
	WEIR_LAYOUT_IPV6,
};

enum weir_lane_constant {
	/*
	 * Ethernet header and two tags, in whole words: the rest of the last one is overwritten.
	 * These are also the words of a plain frame up to the IPv4 checksum.
	 */
	WEIR_LINK_WORDS = 3,
	/* The longest headers of a tunnel: Ethernet, IPv6, UDP, VXLAN, Ethernet. */
	WEIR_TUNNEL_WORDS = 11,
};

/* An IPv6 address: the constant part, and what the group that varies is multiplied by. */
struct weir_address6 {
	__u64 high;
	__u64 low;
	__u64 high_unit;
	__u64 low_unit;
};

/*
 * In the lane of a plain set (see gen.bpf.c), whose frames have one size, what depends on the size
 * is part of the constants: `link` goes up to the IPv4 checksum, both sums cover the lengths, and
 * `plain_length` and `plain_signature` are the UDP length and the signature's first 6 bytes.
 */
struct weir_lane {
	__u64 sequence;		/* of the next packet */
	__u64 sequence_step;	/* number of threads */
	__u64 layout;		/* WEIR_LAYOUT_* */
	__u64 stream_thread;	/* stream << 8 | thread */
	__u64 link_bytes;	/* Ethernet header, and tags or a tunnel's headers */
	__u64 link[WEIR_LINK_WORDS];	/* as they lie in the frame */
	__u64 ip_head;		/* first word of the IP header, without length and identification */
	__u64 ip_tail;		/* IPv4: TTL and protocol, in the place of its second word */
	__u64 ident_mask;	/* IPv4: which bits of the sequence number identify a packet */
	__u64 ip_sum;		/* IPv4: of all header words that never change */
	__u64 transport_sum;	/* of all words that it covers and that never change */
	__u64 transport_word;	/* TCP: from the header length to the window; echo: type */
	__u64 plain_length;
	__u64 plain_signature;
	struct weir_address6 src;
	struct weir_address6 dst;
	struct weir_walk walk;
	struct weir_sizes sizes;
	__u64 tunnel[WEIR_TUNNEL_WORDS];	/* as link, of a set with tunnels */
};

struct weir_thread_counters {
	__u64 offered_bytes;		/* only if frames differ in size */
	__u64 over_limit_packets;	/* asked for beyond nth_end */
	__u64 refused_packets;		/* no output device, no thread, no lane */
	struct weir_pacer_counters pacer;
};

/* The words of plain frames that are not constant: bytes 24..32, 32..40, 40..48 and 48..56. */
#define WEIR_RUN_WORDS 4

/* Packets that only their number tells apart: see plain.h. */
struct weir_run {
	__u64 end;		/* the first packet that is not in it */
	__u64 base[WEIR_RUN_WORDS];	/* of packet 0, in host order, as if the run went so far */
	__u64 turn[WEIR_RUN_WORDS];	/* what each packet adds */
	__u64 tail;		/* bytes 56..60, as they lie in the frame */
};

struct weir_thread {
	__u64 flags;		/* WEIR_THREAD_* */
	__u64 nth;		/* the next packet of this thread, all streams counted */
	__u64 nth_end;		/* the first one that is not sent; zero without a thread */
	__u64 nth_counted;	/* the first one that the counters cover */
	__u64 place;		/* in the order of streams */
	__u64 stamp_ns;		/* of the present burst, modulo 2^48 */
	struct weir_run run;	/* of a plain set; empty before its first packet */
	struct weir_pacer pacer;
	struct weir_thread_counters counters;
	struct weir_lane lane;	/* of a set of one stream */
	__u64 spare[7];
};

#endif /* WEIR_LANE_H */

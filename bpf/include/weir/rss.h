/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a card with receive side scaling spreads packets: settings, and what was seen of it. The
 * Toeplitz hash is looked up byte by byte; the control process makes the tables of the key.
 *
 * Source: "RSS Hashing Types" in Microsoft's documentation of network drivers. Fragments, and what
 * is neither TCP nor UDP, are hashed by their addresses; what is not IP goes to queue 0.
 */
#ifndef WEIR_RSS_H
#define WEIR_RSS_H

#include <weir/vmlinux.h>

enum weir_rss_constant {
	/* The longest input of the hash: addresses and ports of an IPv6 packet. */
	WEIR_RSS_INPUT_BYTES = 36,
	WEIR_RSS_KEY_WORDS = 7,
	WEIR_RSS_BUCKET_COUNT_MAX = 1 << 16,
};

/* Index of weir_rss.ports. */
enum weir_rss_kind {
	WEIR_RSS_TCP4 = 0,
	WEIR_RSS_UDP4 = 1,
	WEIR_RSS_TCP6 = 2,
	WEIR_RSS_UDP6 = 3,
	WEIR_RSS_KIND_COUNT = 4,
};

/* What is done to source and destination before they are hashed. */
enum weir_rss_symmetry {
	WEIR_RSS_AS_IS = 0,
	WEIR_RSS_XOR = 1,
	WEIR_RSS_OR_XOR = 2,
};

struct weir_rss {
	/* The device that the packets arrive at; programs do not look at these two. */
	__u64 receiver_netns;
	__u64 receiver_ifindex;
	__u64 bucket_count;
	__u64 symmetry;
	__u64 ports[WEIR_RSS_KIND_COUNT]; /* not 0: ports are hashed, too */
	/* What __sk_buff.queue_mapping is above the number of the queue, when a packet comes in. */
	__u64 queue_offset;
	/* Of what is echoed, in the order of the network. */
	__u64 port;
	__u64 address_bytes; /* 4 or 16; 0: any address of both families */
	__u64 address[2];    /* IPv4: in the first 4 bytes, zeros for any */
	__u64 key_bytes;
	__u64 key[WEIR_RSS_KEY_WORDS]; /* bytes, for the control process */
	__u32 table[WEIR_RSS_INPUT_BYTES][256];
	__u16 queue[WEIR_RSS_BUCKET_COUNT_MAX];
};

/* Of a bucket, on one CPU. */
struct weir_rss_bucket {
	__u64 packets;
	__u64 misplaced_packets; /* of those: on another queue than the table has for the bucket */
	__u64 refused_packets;	 /* of those: to be returned by a program, which does not */
};

/* Where a flow's packets were seen; a flow is what a sequence number says. */
struct weir_rss_arrival {
	__u64 packets;
	__u64 queue;		/* of the last one */
	__u64 hash;		/* the kernel's, of the last one; 0: it has none */
	__u64 cpu;		/* of the last one */
	__u64 changes;		/* packets on another queue than the one before */
};

#endif /* WEIR_RSS_H */

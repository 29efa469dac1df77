/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Room of each CPU for one packet, beside the stack, whose 512 bytes are for the paths through the
 * programs: its descriptor, what is known of its state, and what rare packets need. Programs of one
 * CPU never interrupt each other.
 */
#ifndef WEIR_FW_SCRATCH_H
#define WEIR_FW_SCRATCH_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/headers.h>
#include <weir/fw/next_hop.h>
#include <weir/fw/packet.h>
#include <weir/fw/request.h>
#include <weir/fw/rules.h>
#include <weir/fw/state.h>
#include <weir/fw/system.h>

/* Sums are taken over pieces of this size. */
#define WEIR_FW_CHUNK_BYTES 64

#define WEIR_FW_SCRATCH_FRAGMENTS_BYTES 144
#define WEIR_FW_SCRATCH_ANSWER_BYTES 1280
/* Aliases that end with the records of a bucket, as far as they are noted; a power of two. */
#define WEIR_FW_SCRATCH_ENDED 8

/* What a packet had before rules translated it at the hook where it is judged. */
struct weir_fw_before {
	__be32 src[4];
	__be32 dst[4];
	__be16 src_port;
	__be16 dst_port;
	__u32 rule;		/* id of the rule that translated last */
	__u64 hash;
	__u32 is_translated;	/* 0: none has, and nothing else here is set */
	__u32 is_listed;	/* that rule is one of FreeBSD's lists */
	__u32 uses;		/* WEIR_ALIAS_*, as that rule has it */
	__u32 chosen_at;	/* its translation, if that has chosen a port; 0: it has not */
	__u32 flags;		/* WEIR_PACKET_TRANSLATED, if it had that */
	__u32 changes_family;	/* a rule has made weir_fw_scratch.other of it: 0: none has */
};

struct weir_fw_scratch {
	struct weir_fw_packet packet;	/* that is being judged */
	struct weir_fw_before before;	/* of that packet */
	struct weir_fw_packet wire;	/* its ends on the wire, as rules have them */
	struct weir_fw_packet other;	/* what it becomes in its other family: family.h */
	struct weir_icmp other_icmp;	/* the message of that, of ICMP */
	__be32 flow_src[4];		/* of that, an error: the end that it tells of */
	struct weir_fw_hit hit;		/* of that packet, as the route is */
	struct weir_fw_route route;
	struct weir_fw_sweep sweep;	/* what the control process asks for */
	struct weir_fw_packet quoted;	/* by an ICMP error */
	struct weir_fw_packet quick;	/* of an established connection */
	struct weir_fw_decision decision;
	struct weir_fw_walk walk;	/* through the rules */
	struct bpf_fib_lookup fib;	/* for the source of an answer */
	/*
	 * What the packet is changed by: at the hook where it is. On the quick way, which knows it
	 * before: where it comes in, and where it leaves.
	 */
	__u64 scrub[2];
	/*
	 * What is added to the packet's sequence number, and taken from what it acknowledges, when
	 * it leaves the hook (modulate.h). Both 0: nothing.
	 */
	__u32 modulation[2];
	struct weir_ipv4 ipv4;
	struct weir_ipv6 ipv6;
	__u8 chunk[WEIR_FW_CHUNK_BYTES];
	/* struct weir_fw_fragments, before it is in its map. */
	__u64 fragments[WEIR_FW_SCRATCH_FRAGMENTS_BYTES / 8];
	__u64 answer[WEIR_FW_SCRATCH_ANSWER_BYTES / 8]; /* to a packet of the kernel's */
	__u64 ended[WEIR_FW_SCRATCH_ENDED]; /* hashes of the wire keys of records that ended */
	__u32 ended_count;
	__u32 copy_at;		/* of the packet where it is: dup.h; 0: it is sent once */
	__u32 mac[3];		/* addresses that such an answer goes by */
	struct weir_fw_syn syn;	/* whose system rules ask for */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_fw_scratch);
} weir_scratch SEC(".maps");

static __always_inline struct weir_fw_scratch *weir_fw_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&weir_scratch, &zero);
}

/* The descriptor of a packet that nothing is known of yet. */
static __always_inline struct weir_fw_packet *weir_fw_packet_of(struct weir_fw_scratch *scratch)
{
	__builtin_memset(&scratch->packet, 0, sizeof(scratch->packet));
	return &scratch->packet;
}

/* Reads from the frame of either hook. */
static __always_inline long weir_fw_load(void *ctx, bool is_skb, __u32 at, void *to, __u32 bytes)
{
	return is_skb ? bpf_skb_load_bytes(ctx, at, to, bytes) :
			bpf_xdp_load_bytes(ctx, at, to, bytes);
}

#endif /* WEIR_FW_SCRATCH_H */

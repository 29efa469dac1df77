/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which flows of a stream have been seen. Packet number s carries flow s modulo the number of
 * flows, so that a bit for each flow says it exactly; addresses and ports, which a DUT may
 * translate, are not looked at. Without the number of flows nothing can be said.
 *
 * The bits of all streams are in one array of blocks, each stream's beginning with a block.
 */
#ifndef WEIR_FLOWS_H
#define WEIR_FLOWS_H

#include <bpf/bpf_helpers.h>
#include <weir/arrival.h>
#include <weir/vmlinux.h>

#define WEIR_STREAM_COUNT 256
#define WEIR_FLOW_BLOCK_WORDS 512
#define WEIR_FLOW_BLOCK_FLOWS (WEIR_FLOW_BLOCK_WORDS * 64)

struct weir_stream_flows {
	__u64 flow_count;	/* zero: not known */
	__u64 first_block;
	__u64 seen;
};

struct weir_flow_block {
	__u64 word[WEIR_FLOW_BLOCK_WORDS];
};

/*
 * The flow of a packet, from that of the sender's packet before it: a division of 64 bits costs
 * more than all else that is done for a packet, and numbers rarely go back or leap.
 */
static __always_inline __u64 weir_flow_of(struct weir_sender *sender, __u64 sequence)
{
	__u64 flow_count = sender->flow_count;
	__u64 ahead = sequence - sender->flow_sequence;
	__u64 flow;

	if (ahead <= flow_count) {
		flow = sender->flow + ahead;
		if (flow >= flow_count)
			flow -= flow_count;
	} else {
		flow = sequence % flow_count;
	}
	sender->flow = flow;
	sender->flow_sequence = sequence;
	return flow;
}

/*
 * Marks flows that follow each other, all in one word; returns how many of them are new. CPUs that
 * see the same new flow agree on one.
 */
static __always_inline __u64 weir_flow_mark(struct weir_flow_block *block, __u64 flow, __u64 count)
{
	__u64 *word = &block->word[(flow / 64) % WEIR_FLOW_BLOCK_WORDS];
	__u64 bits = (count < 64 ? (1ULL << (count & 63)) - 1 : ~0ULL) << (flow % 64);

	if (!(bits & ~*word))
		return 0;
	return weir_bit_count(bits & ~__sync_fetch_and_or(word, bits));
}

/* How many flows behind this one are in the same word, and of the stream. */
static __always_inline __u64 weir_flows_behind(__u64 flow, __u64 flow_count)
{
	__u64 in_word = 63 - flow % 64, of_stream = flow_count - 1 - flow;

	return in_word < of_stream ? in_word : of_stream;
}

#endif /* WEIR_FLOWS_H */

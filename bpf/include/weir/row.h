/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rows: packets of one sender that come one after the other, each with the number after the last
 * one's. Nearly all packets of a fast stream do. The full mode of the sink only counts them, and
 * enters them into the sender's state together when the row ends.
 *
 * A row ends at the latest with the window's word, with the word of flows as long as some are not
 * marked, and before a packet that is to be measured. Rows are for one receive queue: with
 * several, another CPU may ask for the sender's state at any time. The control process adds the row
 * that it finds (crates/weir-bpf/src/sink/observe.rs); while packets arrive, a sender's state may
 * be behind by one row, and is consistent in itself.
 */
#ifndef WEIR_ROW_H
#define WEIR_ROW_H

#include <bpf/bpf_helpers.h>
#include <weir/arrival.h>
#include <weir/sampling.h>
#include <weir/vmlinux.h>

struct weir_row {
	__u64 next;	/* stream, thread and sequence number of the packet that continues it */
	__u64 left;	/* packets that it may still take */
	__u64 packets;	/* that it has taken */
	__u64 bytes;	/* of those */
	__u64 number;	/* the sender's, from 1 */
};

/*
 * Takes a packet into the row; false if it is not the next one, or the row is over, or so much time
 * has passed that the packet is to be measured (see weir_sampler_time()).
 */
static __always_inline bool weir_row_take(struct weir_row *row, const struct weir_sampler *sampler,
					  __u64 head, __u64 bytes)
{
	if (head != row->next || !row->left || bpf_jiffies64() != sampler->tick)
		return false;
	row->next = head + 1;
	row->left--;
	row->packets++;
	row->bytes += bytes;
	return true;
}

/* Begins a row of at most `left` packets behind one that has just become its sender's highest. */
static __always_inline void weir_row_begin(struct weir_row *row, __u64 head, __u64 left,
					   __u32 number)
{
	row->next = head + 1;
	row->left = left;
	row->number = number;
}

/* Enters a row into its sender's state. */
static __always_inline void weir_row_settle(struct weir_row *row, struct weir_sampler *sampler,
					    struct weir_sender *sender)
{
	__u64 packets = row->packets;

	/*
	 * A reader takes the sender's state and the row together, and has to see a packet in one of
	 * them: the row is empty before `packets`, which is changed last, has what was in it.
	 */
	sender->begun += packets;
	barrier();
	/* Below 64: a row stays within a word. */
	sender->pending |= ((1ULL << (packets & 63)) - 1) << ((sender->highest + 1) & 63);
	sender->highest += packets;
	sender->bytes += row->bytes;
	sender->last_ns = 0;
	sampler->skip -= packets;
	row->packets = 0;
	row->bytes = 0;
	barrier();
	sender->packets += packets;
}

#endif /* WEIR_ROW_H */

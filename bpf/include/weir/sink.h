/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sink's counters, one set per receive queue. The control process knows the layout by its
 * offsets (crates/weir-bpf/src/sink.rs): every field has 64 bits, in this order. What the full mode
 * needs for every packet on a CPU is behind them, so that it is found with the same lookup.
 */
#ifndef WEIR_SINK_H
#define WEIR_SINK_H

#include <weir/row.h>
#include <weir/sampling.h>
#include <weir/vmlinux.h>

/* Bits of weir_sink_mode. */
#define WEIR_SINK_OBSERVE (1ULL << 0)
/* Several CPUs may receive at the same time: senders need their locks. */
#define WEIR_SINK_SHARED (1ULL << 1)
/* The clock is read for every packet, however fast they come. */
#define WEIR_SINK_EVERY (1ULL << 2)

/* Queues beyond the last one are counted with it. */
#define WEIR_SINK_QUEUE_COUNT 64

struct weir_sink_queue {
	__u64 packets;		/* with weir's signature */
	__u64 bytes;		/* of those, without FCS */
	__u64 foreign_packets;	/* all others, passed to the stack */
	__u64 foreign_bytes;	/* of those, without FCS */
};

/* What the full mode needs for every packet: one for each CPU, or one for the only queue. */
struct weir_follower {
	struct weir_sampler sampler;
	__u64 recent;		/* see weir_sender_find() */
	struct weir_row row;	/* of the only queue */
};

struct weir_sink_counters {
	struct weir_sink_queue queue[WEIR_SINK_QUEUE_COUNT];
	struct weir_follower follower;
};

_Static_assert(sizeof(struct weir_follower) == 8 * 12, "observe.rs reads 12 words");
_Static_assert(sizeof(struct weir_sink_counters) == 8 * (4 * 64 + 12),
	       "sink.rs reads 4 words a queue, and skips 12");

#endif /* WEIR_SINK_H */

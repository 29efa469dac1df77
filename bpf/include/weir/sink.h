/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sink's counters, one set per receive queue. The control process reads words: every field has
 * 64 bits. What the full mode needs for every packet on a CPU is behind them, so that it is found
 * with the same lookup.
 */
#ifndef WEIR_SINK_H
#define WEIR_SINK_H

#include <weir/row.h>
#include <weir/sampling.h>
#include <weir/vmlinux.h>

/* weir_sink_mode */
enum weir_sink_flag {
	WEIR_SINK_OBSERVE = 1 << 0, /* the full mode */
	WEIR_SINK_SHARED = 1 << 1, /* several CPUs may receive at a time: senders need locks */
	WEIR_SINK_EVERY = 1 << 2, /* the clock is read for every packet, however fast they come */
};

enum weir_sink_constant {
	/* Queues beyond the last one are counted with it. */
	WEIR_SINK_QUEUE_COUNT = 64,
};

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

#endif /* WEIR_SINK_H */

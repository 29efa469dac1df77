/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is counted of a source (source.h), and what the control process is told of it. */
#ifndef WEIR_FW_NODE_H
#define WEIR_FW_NODE_H

#include <weir/vmlinux.h>

struct weir_source_key {
	__be32 addr[4];
	/* Id; WEIR_FW_RULE_NONE: all rules with `source-track global`. Of a limiter's: its id. */
	__u32 rule;
	__u32 family;		/* and WEIR_SOURCE_OF_LIMITER */
};

enum weir_source_constant {
	/* weir_source_key.family, beside it: the network of a source, which a limiter counts */
	WEIR_SOURCE_OF_LIMITER = 1 << 2,
	/* weir_source_overload.family, beside that: it leaves the limiter's table */
	WEIR_SOURCE_LEAVES = 1 << 3,
};

struct weir_source {
	struct bpf_spin_lock lock;
	__u32 states;
	__u32 connections;	/* with a complete handshake */
	__u32 rate;		/* connections of late, in thousandths */
	__u32 rate_s;		/* when that was counted */
	__u32 owner;		/* the rule that made the node */
	__u32 is_dead;		/* it is about to be deleted */
	__u32 blocked_tick;	/* when it went over a limit; 0: it did not */
	/* Limits, of the rule that last kept a state here. */
	__u32 connections_max;
	__u32 rate_count;
	__u32 rate_seconds;
	__u32 overloads;
	__u32 keep_ticks;	/* `src.track` */
	__u32 expires_tick;	/* of a node without states */
	__u32 created_tick;
	/*
	 * Whose it is, of a node of a source. One that goes may be another's at once, while another
	 * CPU still holds it: who has the lock asks whether it is the one that was looked up.
	 */
	struct weir_source_key key;
	/* Of a source limiter's: */
	__u32 is_listed;	/* it was put into the limiter's table */
	__u64 paced;		/* its states by now: weir_limiter_pace() */
};

/* To the control process: a source over the limits of a rule with overload, or of a limiter. */
struct weir_source_overload {
	__u64 time_ns;		/* CLOCK_BOOTTIME */
	__u32 rule;		/* id, or that of the limiter */
	__u32 family;		/* and WEIR_SOURCE_* */
	__be32 addr[4];
};

#endif /* WEIR_FW_NODE_H */

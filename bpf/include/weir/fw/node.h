/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is counted of a source (source.h), and what the control process is told of it. */
#ifndef WEIR_FW_NODE_H
#define WEIR_FW_NODE_H

#include <weir/vmlinux.h>

struct weir_source_key {
	__be32 addr[4];
	__u32 rule;		/* id; WEIR_FW_RULE_NONE: all rules with `source-track global` */
	__u32 family;
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
};

/* To the control process: a source over the limits of a rule with overload. */
struct weir_source_overload {
	__u64 time_ns;		/* CLOCK_BOOTTIME */
	__u32 rule;
	__u32 family;
	__be32 addr[4];
};

#endif /* WEIR_FW_NODE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the control process asks weir_fw_sweep (sweep.h), and what it answers. */
#ifndef WEIR_FW_REQUEST_H
#define WEIR_FW_REQUEST_H

#include <weir/vmlinux.h>

enum weir_fw_sweep_mode {
	WEIR_SWEEP_EXPIRE,
	WEIR_SWEEP_KILL,
	WEIR_SWEEP_UNTRACK,	/* halves whose source fits are no longer counted in its node */
	/* Nodes of sources go, `to` of them, whose keys follow the request: all of these if `rule`
	 * says so, else those that src.track has kept for long enough. */
	WEIR_SWEEP_SOURCES,
	WEIR_SWEEP_SPLIT,	/* the index gets buckets, one by one, until there are `to` */
	WEIR_SWEEP_JOIN,	/* it loses its last ones, until there are `to` */
	/* Requests of these three stand one behind the other, `to` of the first one: restore.h */
	WEIR_SWEEP_RESTORE,	/* a state that was stored is made again */
	WEIR_SWEEP_GONE,	/* a state that another firewall has sent ends */
	WEIR_SWEEP_TELL,	/* the other firewall is to hear of a state once more */
	WEIR_SWEEP_COPY,	/* records become events: copy.h; `to` slots follow the request */
	WEIR_SWEEP_STAMP,	/* what another firewall has sent lives on as if it were used now */
	/* The same: what it has not sent since its bulk began ends if `rule` says so and no packet
	 * came since the tick `port[0]`; else it becomes one of this firewall. */
	WEIR_SWEEP_FORGET,
};

/* What became of that: weir_fw_sweep.next. */
enum weir_fw_restored {
	WEIR_RESTORED_MADE,
	WEIR_RESTORED_PRESENT,	/* there is one with these ends, of this firewall */
	WEIR_RESTORED_LIMIT,	/* `set limit states` */
	WEIR_RESTORED_MEMORY,	/* no slot has memory */
	WEIR_RESTORED_BUSY,	/* the bucket's lock was not to be had */
	WEIR_RESTORED_UPDATED,	/* the other firewall knows more of it */
	WEIR_RESTORED_ENDED,
	WEIR_RESTORED_ABSENT,	/* what is to end is not there, or is one of this firewall */
};

enum weir_fw_sweep_constant {
	/* weir_fw_sweep.flags: version (4, 6) in the lowest byte, protocol, interface slot. */
	WEIR_SWEEP_PROTOCOL_SHIFT = 8,
	WEIR_SWEEP_INTERFACE_SHIFT = 16,
	WEIR_SWEEP_RULE = 1 << 24,
	WEIR_SWEEP_EITHER_WAY = 1 << 25,
	/* The first end is that of a translation's outside: an address that rules have given. */
	WEIR_SWEEP_OUTSIDE = 1 << 26,
	/* Of RESTORE: another firewall sends it, and in an odd bulk. Of COPY: also what has not
	 * changed. */
	WEIR_SWEEP_IMPORT = 1 << 27,
	WEIR_SWEEP_ODD = 1 << 28,
	WEIR_SWEEP_ALL = 1 << 29,
	/* Of an IMPORT: the other firewall has it from elsewhere, and has had no packet of it. */
	WEIR_SWEEP_SECOND_HAND = 1 << 30,
	/* Requests in a row, and slots of COPY. */
	WEIR_SWEEP_GROUP_MAX = 16,
	WEIR_SWEEP_SLOTS_MAX = 256,
	/* Keys of SOURCES. */
	WEIR_SWEEP_KEYS_MAX = 32,
	/* The request stands behind room for an Ethernet header. */
	WEIR_SWEEP_AT = 16,
	/* One run ends about then: its CPU handles no packets meanwhile. */
	WEIR_SWEEP_NS_MAX = 300000,
};

struct weir_fw_sweep {
	__u32 mode;
	__u32 from;		/* buckets */
	__u32 to;
	__u32 flags;		/* WEIR_SWEEP_*; 0: all records fit */
	__u32 rule;
	__u32 port[2];		/* network order; 0: any */
	__be16 wire_port[2];	/* of RESTORE, with `mask` as their addresses: the ends on the wire
				 * of halves that are `translated`, end 1 of half A, end 0 of B */
	__be32 addr[2][4];
	__be32 mask[2][4];
	/* Of RESTORE, as a record has it; its ends are `port` and `addr`. */
	__u64 packets[2];
	__u64 bytes[2];
	__u32 control;		/* halves, SLOPPY, FIRST, WATCHED, timeout table */
	__u32 half[2];		/* WEIR_HALF_* */
	__u32 created_tick;
	__u32 last_tick;
	__u32 seq[2][2];
	__u16 max_win[2];
	__u8 phase[2];
	__u8 wscale[2];
	__u8 interface[2];
	__u8 translated[2];
	/* The answer. */
	__u32 live;
	__u32 removed;
	__u32 busy;
	__u32 next;		/* the bucket to go on with; SPLIT, JOIN: buckets there are;
				 * RESTORE, GONE: WEIR_RESTORED_*; COPY: slots that are done */
	__u32 translator[2];	/* of RESTORE: the rules that have translated both halves */
	__u8 gateway[2];	/* of RESTORE: numbers of those towards end 1 and end 0 */
	__u16 unused[3];
};

#endif /* WEIR_FW_REQUEST_H */

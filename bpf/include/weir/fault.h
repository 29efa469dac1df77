/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the fault element is told and what it counts. The control process knows the layouts by their
 * offsets (crates/weir-bpf/src/fault.rs): every field has 64 bits, in this order.
 */
#ifndef WEIR_FAULT_H
#define WEIR_FAULT_H

#include <weir/vmlinux.h>

/* Packets to which something happens. */
#define WEIR_FAULT_COUNT_MAX 8192
/* Packets that can be held back. */
#define WEIR_HELD_COUNT_MAX 1024
/* Frames that can be held back: those of a 1,500-byte MTU with two VLAN tags. */
#define WEIR_HELD_BYTES_MAX 1522

#define WEIR_FAULT_DROP 1
#define WEIR_FAULT_DUPLICATE 2
#define WEIR_FAULT_HOLD 3
#define WEIR_FAULT_RELEASE 4

struct weir_fault {
	__u64 action;		/* WEIR_FAULT_* */
	__u64 slot;		/* of the packet that is held or released */
};

#define WEIR_HELD_EMPTY 0
#define WEIR_HELD_FULL 1
#define WEIR_HELD_OVERTAKEN 2	/* the packet that it waited for has left */
#define WEIR_HELD_GONE 3

struct weir_held {
	__u64 state;		/* WEIR_HELD_* */
	__u64 size_bytes;
	__u8 frame[1528];
};

struct weir_fault_counters {
	__u64 forwarded_packets;	/* received and handed on, once or twice */
	__u64 dropped_packets;
	__u64 duplicated_packets;
	__u64 held_packets;
	__u64 released_packets;
	__u64 refused_packets;		/* what was chosen could not be done to them */
};

_Static_assert(sizeof(struct weir_fault) == 8 * 2, "fault.rs writes 2 words");
_Static_assert(sizeof(struct weir_fault_counters) == 8 * 6, "fault.rs reads 6 words");

#endif /* WEIR_FAULT_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the fault element is told and what it counts. The control process reads and writes words:
 * every field of weir_fault and weir_fault_counters has 64 bits.
 */
#ifndef WEIR_FAULT_H
#define WEIR_FAULT_H

#include <weir/vmlinux.h>

/* In the key of a TCP segment: its flags are in bits 32 to 39, its ports in the lowest 32. */
#define WEIR_FAULT_SEGMENT (1ULL << 63)

/* Packets to which something happens. */
#define WEIR_FAULT_COUNT_MAX 8192
/* Frames that can be held back: those of a 1,500-byte MTU with two VLAN tags. */
#define WEIR_HELD_BYTES_MAX 1522

enum weir_held_constant {
	WEIR_HELD_COUNT_MAX = 1024, /* packets that can be held back */
};

/* weir_fault.action */
enum weir_fault_action {
	WEIR_FAULT_DROP = 1,
	WEIR_FAULT_DUPLICATE,
	WEIR_FAULT_HOLD,
	WEIR_FAULT_RELEASE,
};

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

#endif /* WEIR_FAULT_H */

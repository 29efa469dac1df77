/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a set of streams has: the constants for which the generator is loaded. The control process
 * writes words (crates/weir-bpf/src/generator/features.rs): every field has 64 bits.
 */
#ifndef WEIR_SET_H
#define WEIR_SET_H

#include <weir/vmlinux.h>

enum weir_set_constant {
	/* The largest frame that the kernel takes on machines with pages of 4 KiB, without FCS. */
	WEIR_FRAME_BYTES_MAX = 3408,
};

/* weir_set.walks */
enum weir_set_walk {
	WEIR_SET_WALK_ODOMETER = 1 << 0,
	WEIR_SET_WALK_RANDOM = 1 << 1,
};

struct weir_set {
	__u64 stream_count;
	__u64 layouts;		/* a bit for each WEIR_LAYOUT_* */
	__u64 walks;		/* WEIR_SET_WALK_* */
	__u64 tagged;		/* any stream has VLAN tags */
	__u64 tunnelled;	/* any stream is in a tunnel */
	__u64 resized;		/* frames differ in size */
	__u64 size_bytes_max;
};

#endif /* WEIR_SET_H */

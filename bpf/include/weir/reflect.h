/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reflector's counters. The control process knows the layout by its offsets
 * (crates/weir-bpf/src/reflect.rs): every field has 64 bits, in this order.
 */
#ifndef WEIR_REFLECT_H
#define WEIR_REFLECT_H

#include <weir/vmlinux.h>

struct weir_reflect_counters {
	__u64 reflected_packets;	/* handed back to the device */
	__u64 reflected_bytes;		/* of those, without FCS */
	__u64 passed_packets;		/* all others, passed to the stack */
};

_Static_assert(sizeof(struct weir_reflect_counters) == 8 * 3, "reflect.rs reads 3 words");

#endif /* WEIR_REFLECT_H */

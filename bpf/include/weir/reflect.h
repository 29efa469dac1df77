/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reflector's counters. The control process reads words: every field has 64 bits.
 */
#ifndef WEIR_REFLECT_H
#define WEIR_REFLECT_H

#include <weir/vmlinux.h>

struct weir_reflect_counters {
	__u64 reflected_packets;	/* handed back to the device */
	__u64 reflected_bytes;		/* of those, without FCS */
	__u64 passed_packets;		/* all others, passed to the stack */
};

#endif /* WEIR_REFLECT_H */

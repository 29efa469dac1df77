/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The firewall's clock: ticks of 2^24 ns. The kernel's coarse clock (CLOCK_MONOTONIC_COARSE) is
 * exact to its timer's tick, a few ms, and costs a fifth of the exact one.
 */
#ifndef WEIR_FW_CLOCK_H
#define WEIR_FW_CLOCK_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/arena.h>

static __always_inline __u32 weir_fw_tick(__u32 clock_offset)
{
	return (__u32)(bpf_ktime_get_coarse_ns() >> WEIR_FW_TICK_SHIFT) + clock_offset;
}

/*
 * Ticks of about a second, where the control page has no other number for a test: rates count by
 * it, and a source over its limits makes no states for it, until its table is asked.
 */
#define WEIR_FW_SECOND_TICKS 60

static __always_inline __u32 weir_fw_second_ticks(void)
{
	return weir_at(struct weir_fw_control, 0)->second_ticks ?: WEIR_FW_SECOND_TICKS;
}

#endif /* WEIR_FW_CLOCK_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asks for the memory of records that a request of the control process is about. It never looks at
 * what comes.
 */
#ifndef WEIR_FW_TOUCH_H
#define WEIR_FW_TOUCH_H

#include <weir/fw/account.h>
#include <weir/fw/request.h>
#include <weir/fw/table.h>

/* Asks for lines, and for what stands beside them: nobody waits for one alone. */
static __always_inline void weir_touch_slots(const __u32 *slots, __u32 count)
{
	__u32 touched = 0, i;

	for (i = 0; i < WEIR_SWEEP_SLOTS_MAX; i++) {
		if (i >= count)
			break;
		touched += weir_read_once(weir_state_line(slots[i])->control);
		touched += weir_read_once(weir_account_at(slots[i])->packets_rule[0]);
	}
	asm volatile("" ::"r"(touched));
}

#endif /* WEIR_FW_TOUCH_H */

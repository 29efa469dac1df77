/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The numbers by which states keep the gateways of `route-to` and `reply-to`. What they stand for
 * is in the control page; the control process writes it, and at a load takes a number for another
 * gateway if no state has it any more (weir-fw's compile/known.rs).
 */
#ifndef WEIR_FW_GATEWAYS_H
#define WEIR_FW_GATEWAYS_H

#include <weir/fw/counters.h>

typedef struct weir_fw_gateway __weir_arena weir_gateway;

static __always_inline weir_gateway *weir_gateway_at(__u32 number)
{
	return weir_at(struct weir_fw_gateway,
		       WEIR_FW_GATEWAYS_AT + (number & WEIR_FW_GATEWAY_COUNT_MAX) *
						     (__u32)sizeof(struct weir_fw_gateway));
}

_Static_assert((WEIR_FW_GATEWAY_COUNT_MAX & (WEIR_FW_GATEWAY_COUNT_MAX + 1)) == 0,
	       "a number is masked");

/* Whether a packet's state may have a gateway. */
static __always_inline bool weir_fw_has_gateways(void)
{
	return weir_fw_control()->flags & WEIR_FW_CONTROL_ROUTED;
}

_Static_assert(WEIR_FW_SCRUBS_AT + (WEIR_FW_SCRUB_COUNT_MAX + 1) * sizeof(__u64) <=
			       WEIR_FW_GATEWAYS_AT &&
		       WEIR_FW_GATEWAYS_AT + (WEIR_FW_GATEWAY_COUNT_MAX + 1) *
						     sizeof(struct weir_fw_gateway) <=
			       4096,
	       "both are in the control page");

#endif /* WEIR_FW_GATEWAYS_H */

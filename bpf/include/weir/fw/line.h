/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slots of the state table, as what stands in them: a record, an alias, addresses of IPv6.
 */
#ifndef WEIR_FW_LINE_H
#define WEIR_FW_LINE_H

#include <weir/fw/account.h>
#include <weir/fw/arena.h>
#include <weir/fw/layout.h>

static __always_inline weir_line *weir_state_line(__u32 slot)
{
	return weir_at(struct weir_state,
		       weir_fw_control()->states_at + slot * (__u32)sizeof(struct weir_state));
}

typedef struct weir_alias __weir_arena weir_alias_line;

static __always_inline weir_alias_line *weir_alias_at(__u32 slot)
{
	return (weir_alias_line *)weir_state_line(slot);
}

/* The IPv6 addresses in a slot. */
static __always_inline struct weir_state_v6 __weir_arena *weir_addresses_at(__u32 slot)
{
	return (struct weir_state_v6 __weir_arena *)weir_state_line(slot);
}

#endif /* WEIR_FW_LINE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records that have changed in what another firewall has to know: made, another half, another phase
 * of an end, the first answer. No packet that changes none of these does anything here.
 *
 * The mark is in the record, which keeps it until a copy of it is taken (copy.h); a byte for 256
 * slots says where to look. Whoever looks sets the byte to 0 before; so it is written after the
 * mark, and whether or not it is there. (Where stores are not seen in their order, it may be missed
 * so; the control process looks everywhere from time to time.)
 */
#ifndef WEIR_FW_DIRTY_H
#define WEIR_FW_DIRTY_H

#include <weir/fw/account.h>

/* Says where a mark stands that is in the record by now. */
static __always_inline void weir_dirty_hint(__u32 slot)
{
	__u32 at = weir_fw_control()->dirty_at + (slot >> WEIR_FW_DIRTY_SHIFT);

	weir_compiler_barrier();
	weir_write_once(*weir_at(__u8, at), 1);
}

/* Marks a record whose bucket is locked. */
__noinline int weir_dirty_mark(__u32 slot)
{
	weir_line *s = weir_at(struct weir_state, weir_fw_control()->states_at) + slot;

	weir_write_once(s->control, s->control | WEIR_STATE_DIRTY);
	weir_dirty_hint(slot);
	return 0;
}

/* Whether another firewall has sent a record. */
static __always_inline bool weir_is_imported(weir_line *s)
{
	return (s->interface[0] & WEIR_STATE_IMPORTED_MASK) == WEIR_STATE_IMPORTED;
}

/* WEIR_FW_SYNC_IN_ODD or 0, as it was when the record was sent last. */
static __always_inline __u32 weir_imported_in(weir_line *s)
{
	return (s->interface[1] & WEIR_STATE_IMPORTED_MASK) == WEIR_STATE_IMPORTED ?
		       WEIR_FW_SYNC_IN_ODD :
		       0;
}

/* Whether a record lives as long as the firewall has it that has sent it. */
static __always_inline bool weir_is_kept(weir_line *s)
{
	__u32 sync = weir_fw_control()->sync_in;

	return sync & WEIR_FW_SYNC_IN_LIVE && weir_is_imported(s) &&
	       (sync & WEIR_FW_SYNC_IN_ALL ||
		weir_imported_in(s) == (sync & WEIR_FW_SYNC_IN_ODD));
}

/* A record becomes one of this firewall. */
static __always_inline void weir_import_end(weir_line *s)
{
	__u32 i;

	for (i = 0; i < 2; i++)
		if ((s->interface[i] & WEIR_STATE_IMPORTED_MASK) == WEIR_STATE_IMPORTED)
			s->interface[i] &= ~WEIR_STATE_IMPORTED;
}

#endif /* WEIR_FW_DIRTY_H */

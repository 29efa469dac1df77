/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records that have changed in what another firewall has to know: made, another half, another phase
 * of an end, the first answer, taken over from it. No packet that changes none of these does
 * anything here.
 *
 * The mark is in the record, which keeps it until a copy of it is taken (copy.h); a byte for 16
 * slots says where to look. Whoever looks sets the byte to 0 before; so it is written after the
 * mark, and whether or not it is there. (Where stores are not seen in their order, it may be missed
 * so; the control process looks everywhere from time to time.)
 */
#ifndef WEIR_FW_DIRTY_H
#define WEIR_FW_DIRTY_H

#include <weir/fw/account.h>

/* About a second. */
#define WEIR_IMPORT_TURN_TICKS 64

/* What no other firewall gets copies of. */
#define WEIR_COPY_NEVER (WEIR_STATE_SCRUB | WEIR_STATE_TRACKED)

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

/* A record that another firewall has sent: as of an odd bulk, or of an even one. */
static __always_inline void weir_import_date(weir_line *s, bool is_odd)
{
	s->interface[1] &= WEIR_STATE_INTERFACE_MASK;
	if (is_odd)
		s->interface[1] |= WEIR_STATE_IMPORTED;
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

/*
 * A record that another firewall has sent, after a packet of it that came here: this firewall has
 * it from now on, and the other one is to know. `last_tick` is that of the packet before. Where
 * packets come to both firewalls, each has it once in WEIR_IMPORT_TURN_TICKS at the most, but for
 * what marks it.
 */
__noinline int weir_import_take(__u32 slot, __u32 last_tick)
{
	weir_line *s = weir_at(struct weir_state, weir_fw_control()->states_at) + slot;

	if (!(s->control & WEIR_STATE_DIRTY) &&
	    last_tick / WEIR_IMPORT_TURN_TICKS == s->last_tick / WEIR_IMPORT_TURN_TICKS)
		return 0;
	weir_import_end(s);
	weir_dirty_mark(slot);
	return 0;
}

#endif /* WEIR_FW_DIRTY_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Copies of records for another firewall: as events in the ring of event.h, under the lock of the
 * record's bucket, which is unmarked by that. The control process says in which slots it has seen
 * some (WEIR_SWEEP_COPY), by marks (dirty.h) or because all records are to be sent. It never
 * decides which records the other firewall gets: that is done where the copies are read.
 */
#ifndef WEIR_FW_COPY_H
#define WEIR_FW_COPY_H

#include <weir/fw/index.h>
#include <weir/fw/request.h>
#include <weir/fw/scratch.h>
#include <weir/fw/touch.h>

/* Of what weir_copy_slot() does. */
#define WEIR_COPY_DONE 0
#define WEIR_COPY_FULL 1
#define WEIR_COPY_BUSY 2

static __always_inline bool weir_copy_is_due(__u32 control, __u32 flags)
{
	return control & WEIR_STATE_LIVE && !weir_is_alias(control) &&
	       (control & WEIR_STATE_DIRTY || flags & WEIR_SWEEP_ALL);
}

/* A record that hangs in the locked bucket `home`. */
static __always_inline int weir_copy_record(weir_line *s, __u32 slot)
{
	__u32 control = s->control & ~WEIR_STATE_DIRTY;

	if (!weir_change_tell(slot, WEIR_FW_EVENT_CHANGED))
		return WEIR_COPY_FULL;
	weir_write_once(s->control, control & WEIR_COPY_NEVER ? control :
							       control | WEIR_STATE_ACKED);
	return WEIR_COPY_DONE;
}

/* Copies what stands in a slot, if it is to be. Returns WEIR_COPY_*. */
__noinline int weir_copy_slot(struct weir_fw_packet *key __arg_nonnull, __u32 slot, __u32 flags)
{
	weir_line *s = weir_state_line(slot);
	int result = WEIR_COPY_DONE;
	__u32 home;

	if (!weir_copy_is_due(weir_read_once(s->control), flags))
		return WEIR_COPY_DONE;
	/* Another one may stand there by now: then its bucket is not this one, or it is found. */
	key->cpu = bpf_get_smp_processor_id();
	key->hash = weir_index_hash(key, slot);
	home = weir_state_lock_bucket(key->hash, key->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return WEIR_COPY_BUSY;
	if (weir_copy_is_due(s->control, flags)) {
		result = WEIR_COPY_BUSY;
		if (weir_bucket_find(key, home, false) == slot)
			result = weir_copy_record(s, slot);
	}
	weir_state_unlock(home, weir_state_line(home)->control);
	return result;
}

/* Copies what stands in the slots that follow the request. Returns how many of them are done. */
__noinline __u32 weir_copy(struct xdp_md *ctx, struct weir_fw_sweep *r __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 i, count = r->to;
	__u32 *slots;
	int result;

	if (!scratch)
		return 0;
	slots = (__u32 *)scratch->answer;
	if (bpf_xdp_load_bytes(ctx, WEIR_SWEEP_AT + sizeof(*r), slots,
			       WEIR_SWEEP_SLOTS_MAX * sizeof(*slots)))
		return 0;
	weir_touch_slots(slots, count);
	/* Read again, so that the verifier does not go on from each count by itself. */
	count = weir_read_once(r->to);
	for (i = 0; i < WEIR_SWEEP_SLOTS_MAX && weir_fw_may_loop; i++) {
		if (i >= count)
			break;
		result = weir_copy_slot(&scratch->quoted, slots[i], r->flags);
		if (result == WEIR_COPY_FULL)
			return i;
		r->busy += result == WEIR_COPY_BUSY;
	}
	return count;
}

_Static_assert(WEIR_SWEEP_SLOTS_MAX * sizeof(__u32) <= WEIR_FW_SCRATCH_ANSWER_BYTES,
	       "the slots have room");

#endif /* WEIR_FW_COPY_H */

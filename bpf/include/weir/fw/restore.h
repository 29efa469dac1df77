/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A state that was stored becomes one again: a record with all that is known of it, in one step,
 * under the lock of its bucket as the data path takes it. `set limit states` holds, less what is
 * reserved for rules with `reserve`, and a record with the same ends, inside or on the wire, stays
 * as it is, but one that another firewall has sent before, or has had the last packet of
 * (WEIR_SWEEP_IMPORT, update.h). A translated one gets aliases with the ends on the wire that it
 * had (rewire.h), if nobody has these. What it never does: it counts for no source.
 */
#ifndef WEIR_FW_RESTORE_H
#define WEIR_FW_RESTORE_H

#include <weir/fw/account.h>
#include <weir/fw/alias.h>
#include <weir/fw/insert.h>
#include <weir/fw/lookup.h>
#include <weir/fw/request.h>
#include <weir/fw/rewire.h>
#include <weir/fw/touch.h>
#include <weir/fw/update.h>

/* What of a control word a request may say. */
#define WEIR_RESTORE_FLAGS                                                                      \
	(WEIR_STATE_HALF_A | WEIR_STATE_HALF_B | WEIR_STATE_IF_BOUND_A |                        \
	 WEIR_STATE_IF_BOUND_B | WEIR_STATE_SLOPPY | WEIR_STATE_FIRST | WEIR_STATE_WATCHED |    \
	 0xffu << WEIR_STATE_PROFILE_SHIFT)

/* What finds the record. */
static __always_inline void weir_restore_key(const struct weir_fw_sweep *r,
					     struct weir_fw_packet *p, __u32 ruleset)
{
	__builtin_memset(p, 0, sizeof(*p));
	p->family = (r->flags & 0xff) == 6 ? WEIR_FW_INET6 : WEIR_FW_INET;
	p->protocol = r->flags >> WEIR_SWEEP_PROTOCOL_SHIFT & 0xff;
	p->src_port = r->port[0];
	p->dst_port = r->port[1];
	weir_copy_address(p->src, r->addr[0]);
	weir_copy_address(p->dst, r->addr[1]);
	p->ruleset = ruleset;
	p->cpu = bpf_get_smp_processor_id();
	p->hash = weir_fw_hash(p);
}

/* The id of the rule that made a half. */
static __always_inline __u32 weir_restore_rule(const struct weir_fw_sweep *r, __u32 half)
{
	__u32 flag = half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A;

	return r->control & flag ? r->half[half] & WEIR_FW_RULE_NONE : WEIR_FW_RULE_NONE;
}

/* One more state of the rules that made its halves; weir_bucket_close() takes it off again. */
static __always_inline void weir_restore_count(const struct weir_fw_sweep *r,
					       const struct weir_fw_packet *p)
{
	__u32 half, rule, first, at;

	for (half = 0; half < 2; half++) {
		rule = weir_restore_rule(r, half);
		first = weir_fw_counters_of(p->ruleset, rule, 0);
		if (!first || (half && rule == weir_restore_rule(r, 0)))
			continue;
		at = weir_fw_counters_of(p->ruleset, rule, p->cpu);
		weir_at(struct weir_fw_rule_counters, at)->states_created++;
		__sync_fetch_and_add(&weir_at(struct weir_fw_rule_counters, first)->states_live, 1);
	}
	weir_limited_restore(p->ruleset, weir_restore_rule(r, 0), WEIR_FW_RULE_NONE);
	weir_limited_restore(p->ruleset, weir_restore_rule(r, 1), weir_restore_rule(r, 0));
}

/* What it has counted so far goes to its account. */
static __always_inline void weir_restore_account(const struct weir_fw_sweep *r, weir_line *s,
						 __u32 slot, bool is_tcp)
{
	struct weir_account __weir_arena *account = weir_account_at(slot);
	__u32 end;

	if (!is_tcp) {
		weir_line_account_of(s)->has_account = 1;
		weir_write_once(account->packets_rule[0], 0);
		weir_write_once(account->packets_rule[1], 0);
		weir_write_once(account->bytes_created[0], 0);
		weir_write_once(account->bytes_created[1], 0);
	}
	for (end = 0; end < 2; end++) {
		account->packets_rule[end] |=
			r->packets[end] & ((1ull << WEIR_ACCOUNT_RULE_SHIFT) - 1);
		account->bytes_created[end] |=
			r->bytes[end] & ((1ull << WEIR_ACCOUNT_SCRUB_SHIFT) - 1);
	}
}

/* Fills a slot that is empty. Returns its control word, not yet written. */
__noinline __u32 weir_restore_fill(const struct weir_fw_sweep *r __arg_nonnull,
				   const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
				   __u32 addresses, struct weir_rewire *w __arg_nonnull)
{
	__u32 control = WEIR_STATE_LIVE | (r->control & WEIR_RESTORE_FLAGS) |
			(__u32)p->protocol << WEIR_STATE_PROTOCOL_SHIFT;
	bool is_tcp = p->protocol == WEIR_PROTOCOL_TCP;
	weir_line *s = weir_state_line(slot);
	__u32 i;

	s->port[0] = p->src_port;
	s->port[1] = p->dst_port;
	s->last_tick = r->last_tick;
	weir_bucket_clear(s);
	if (is_tcp)
		weir_account_open(slot, r->created_tick);
	else
		weir_line_account_open(s, r->created_tick);
	for (i = 0; i < 2; i++) {
		s->phase[i] = r->phase[i];
		weir_bucket_give_gateway(s, i, r->gateway[i]);
		s->interface[i] = r->interface[i] & WEIR_STATE_INTERFACE_MASK;
		if (is_tcp) {
			s->seq[i].lo = r->seq[i][0];
			s->seq[i].hi = r->seq[i][1];
			s->max_win[i] = r->max_win[i];
			s->wscale[i] = r->wscale[i];
		}
		if (r->control & (i ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A))
			weir_half_give(s, slot, control, i, r->half[i]);
	}
	weir_restore_account(r, s, slot, is_tcp);
	control = weir_rewire_attach(s, control, 0, w);
	control = weir_rewire_attach(s, control, 1, w);
	if (r->flags & WEIR_SWEEP_IMPORT) {
		weir_update_sender(r, s);
		if (is_tcp && !(control & WEIR_STATE_SLOPPY) &&
		    weir_update_is_open(r->phase[0], r->phase[1]))
			weir_update_relearn(s);
	} else {
		control |= WEIR_STATE_DIRTY;
	}
	if (is_tcp && !(s->wscale[0] & WEIR_WSCALE_CONNECTED))
		__sync_fetch_and_add(&weir_fw_control()->half_open_count, 1);
	return control | weir_bucket_address(s, slot, addresses, p);
}

/* Makes the record in a locked bucket: WEIR_RESTORED_*. */
__noinline int weir_restore_insert(const struct weir_fw_sweep *r __arg_nonnull,
				   const struct weir_fw_packet *p __arg_nonnull, __u32 home,
				   struct weir_rewire *w __arg_nonnull)
{
	weir_line *line = weir_state_line(home), *s;
	__u32 slot = home, addresses = 0, control;
	bool is_first = !(line->control & WEIR_STATE_LIVE) || weir_is_alias(line->control);

	if (!is_first) {
		slot = weir_slot_take();
		if (!slot)
			return WEIR_RESTORED_MEMORY;
	}
	if (p->family != WEIR_FW_INET) {
		addresses = weir_slot_take();
		if (!addresses) {
			if (!is_first)
				weir_slot_give(slot);
			return WEIR_RESTORED_MEMORY;
		}
	}
	s = weir_state_line(slot);
	control = weir_restore_fill(r, p, slot, addresses, w);
	weir_bucket_hang(line, s, slot, control, is_first);
	if (control & WEIR_STATE_DIRTY)
		weir_dirty_hint(slot);
	weir_restore_count(r, p);
	weir_fw_table_counters(p->cpu)->inserts++;
	return WEIR_RESTORED_MADE;
}

/* Whether what another firewall says of a record is more than what is known of it here. */
static __always_inline bool weir_restore_is_news(const struct weir_fw_sweep *r, weir_line *s)
{
	if (!(r->flags & WEIR_SWEEP_IMPORT))
		return false;
	if (weir_is_imported(s))
		return true;
	return !(r->flags & WEIR_SWEEP_SECOND_HAND) && !(s->control & WEIR_COPY_NEVER) &&
	       (__s32)(r->last_tick - s->last_tick) > 0;
}

/*
 * Makes a record, if its place in a locked bucket is free and the limit allows it, or brings up to
 * date what another firewall knows more of: WEIR_RESTORED_*. `found`: what stands there.
 */
__noinline int weir_restore_make(const struct weir_fw_sweep *r __arg_nonnull,
				 const struct weir_fw_packet *p __arg_nonnull, __u32 home,
				 __u64 found, struct weir_rewire *w __arg_nonnull)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, p->ruleset);
	__u64 limit = image->state_limit, reserved = image->reserved_count;
	int lacks = weir_rewire_lacks(r, w), result;

	if (found < WEIR_FOUND_REVERSE && weir_restore_is_news(r, weir_state_line((__u32)found))) {
		if (!weir_update_is_another(r, p, (__u32)found)) {
			if (lacks == WEIR_RESTORED_MEMORY)
				return lacks;
			if (!weir_rewire_fits(r, p, (__u32)found))
				return WEIR_RESTORED_PRESENT;
			return weir_update(r, p, (__u32)found, w);
		}
		weir_bucket_remove(home, (__u32)found, p->cpu);
		found = WEIR_FOUND_NONE;
		/* What it had on the wire is free from now on, and asked for once more. */
		if (lacks == WEIR_RESTORED_PRESENT)
			return WEIR_RESTORED_BUSY;
	}
	if (found != WEIR_FOUND_NONE || (weir_state_line(home)->control & WEIR_STATE_LIVE &&
					 weir_bucket_find(p, home, true) != WEIR_FOUND_NONE))
		return WEIR_RESTORED_PRESENT;
	if (lacks != WEIR_RESTORED_MADE)
		return lacks;
	result = WEIR_RESTORED_LIMIT;
	limit = limit > reserved ? limit - reserved : 0;
	if (__sync_fetch_and_add(&weir_fw_control()->state_count, 1) < limit)
		result = weir_restore_insert(r, p, home, w);
	if (result != WEIR_RESTORED_MADE)
		__sync_fetch_and_sub(&weir_fw_control()->state_count, 1);
	return result;
}

/* Ends the record that was found, if another firewall has sent it, and not another one. */
static __always_inline int weir_restore_end(const struct weir_fw_packet *p, __u32 home, __u64 found)
{
	if (found >= WEIR_FOUND_REVERSE || !weir_is_imported(weir_state_line((__u32)found)))
		return WEIR_RESTORED_ABSENT;
	weir_bucket_remove(home, (__u32)found, p->cpu);
	return WEIR_RESTORED_ENDED;
}

/* Has the other firewall hear once more of the record that was found, if it is this firewall's. */
static __always_inline int weir_restore_tell(__u64 found)
{
	if (found >= WEIR_FOUND_REVERSE || weir_is_imported(weir_state_line((__u32)found)))
		return WEIR_RESTORED_ABSENT;
	weir_dirty_mark((__u32)found);
	return WEIR_RESTORED_PRESENT;
}

/* Does what a request asks for with the record of its ends: WEIR_RESTORED_*. */
__noinline int weir_restore(const struct weir_fw_sweep *r __arg_nonnull,
			    struct weir_fw_packet *p __arg_nonnull, __u32 ruleset)
{
	bool is_translated = r->mode == WEIR_SWEEP_RESTORE && weir_rewire_is_due(r);
	struct weir_rewire wire = {};
	__u64 found = WEIR_FOUND_NONE;
	__u32 home;
	int result;

	weir_restore_key(r, p, ruleset);
	if (is_translated) {
		wire.alias[0] = weir_rewire_half(r, p, 0);
		wire.alias[1] = weir_rewire_half(r, p, 1);
	}
	home = weir_state_lock_bucket(p->hash, p->cpu);
	if (home == WEIR_STATE_BUCKET_NONE) {
		if (is_translated)
			weir_rewire_end(r, p, &wire);
		return WEIR_RESTORED_BUSY;
	}
	if (weir_state_line(home)->control & WEIR_STATE_LIVE)
		found = weir_bucket_find(p, home, false);
	if (r->mode == WEIR_SWEEP_GONE)
		result = weir_restore_end(p, home, found);
	else if (r->mode == WEIR_SWEEP_TELL)
		result = weir_restore_tell(found);
	else
		result = weir_restore_make(r, p, home, found, &wire);
	weir_state_unlock(home, weir_state_line(home)->control);
	if (is_translated)
		weir_rewire_end(r, p, &wire);
	return result;
}

/* Asks for the buckets that requests are about; gives how many requests there are. */
__noinline int weir_restore_touch(struct xdp_md *ctx, struct weir_fw_scratch *scratch __arg_nonnull,
				  __u32 ruleset)
{
	__u32 *homes = (__u32 *)scratch->answer, i, at = WEIR_SWEEP_AT;
	struct weir_fw_sweep *r = &scratch->sweep;
	__u32 count = r->to;

	for (i = 0; i < WEIR_SWEEP_GROUP_MAX && weir_fw_may_loop; i++) {
		if (i >= count ||
		    bpf_xdp_load_bytes(ctx, at, r, offsetof(struct weir_fw_sweep, mask)))
			break;
		weir_restore_key(r, &scratch->quoted, ruleset);
		homes[i] = weir_state_bucket(scratch->quoted.hash);
		at += sizeof(*r);
	}
	weir_touch_slots(homes, i);
	return i;
}

/* One request after the other, as long as they stand there. */
__noinline int weir_restore_group(struct xdp_md *ctx, struct weir_fw_scratch *scratch __arg_nonnull,
				  __u32 ruleset)
{
	struct weir_fw_sweep *r = &scratch->sweep;
	__u32 i, at = WEIR_SWEEP_AT, count = weir_restore_touch(ctx, scratch, ruleset);

	for (i = 0; i < WEIR_SWEEP_GROUP_MAX && weir_fw_may_loop; i++) {
		if (i >= count || bpf_xdp_load_bytes(ctx, at, r, sizeof(*r)))
			break;
		r->next = weir_restore(r, &scratch->quoted, ruleset);
		if (bpf_xdp_store_bytes(ctx, at, r, sizeof(*r)))
			return false;
		at += sizeof(*r);
	}
	return true;
}

#endif /* WEIR_FW_RESTORE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * New records, and further halves of those that are there.
 *
 * A packet that makes a record and is forwarded takes its bucket's lock twice: for the half of its
 * way in, and for the other one when the rules of its way out have passed it. One lock would do
 * only if nothing could tell the difference, and something can:
 *
 * - Held from the one to the other, it would be held while rules run, which wait for the locks of
 *   sources, write to the log and ask for routes; everybody else at that bucket would spin.
 * - Both ways judged first, and both halves made at once: a packet that a limit, a full table or
 *   another CPU's lock stops on its way in would have met the rules of its way out, which pf never
 *   asks then; they would have counted it, logged it, and counted its source.
 * - Where the way out is blocked, pf keeps the state of the way in all the same.
 *
 * In between another CPU may find the record, extend or end it; so the second time it is looked for
 * again, and made anew if it has gone.
 */
#ifndef WEIR_FW_INSERT_H
#define WEIR_FW_INSERT_H

#include <weir/fw/account.h>
#include <weir/fw/gateways.h>
#include <weir/fw/limit.h>
#include <weir/fw/limited.h>
#include <weir/fw/lookup.h>

/* What makes a half: WEIR_HALF_*. */
static __always_inline __u32 weir_half_maker(const struct weir_fw_decision *d)
{
	return d->rule | (__u32)d->kept_tag << WEIR_HALF_TAG_SHIFT |
	       (__u32)!!(d->flags & WEIR_DECISION_NO_SYNC) << WEIR_HALF_NO_SYNC_SHIFT |
	       (__u32)!!(d->flags & WEIR_DECISION_LOG_ALL) << WEIR_HALF_LOG_SHIFT |
	       (__u32)!!(d->flags & WEIR_DECISION_ALLOW_OPTIONS) << WEIR_HALF_OPTIONS_SHIFT |
	       (__u32)!!(d->flags & WEIR_DECISION_PFLOW) << WEIR_HALF_PFLOW_SHIFT |
	       (__u32)d->scrub_number << WEIR_HALF_SCRUB_SHIFT;
}

/* The next hop of the gateway that was is forgotten. */
static __always_inline void weir_bucket_give_gateway(weir_line *s, __u32 reverse, __u16 gateway)
{
	__u16 kept = weir_state_is_proxied(s) ? s->next_hop[reverse] & WEIR_STATE_NEXT_HOP_MASK : 0;

	s->next_hop[reverse] = gateway << WEIR_STATE_GATEWAY_SHIFT | kept;
}

/*
 * A record gets the gateways of a half. Where a packet leaves has the last word: `route-to` of a
 * rule for that side, as `reply-to` of one for the other.
 */
static __always_inline void weir_bucket_give_gateways(weir_line *s,
						      const struct weir_fw_packet *p,
						      const struct weir_fw_decision *d,
						      __u32 reverse)
{
	bool is_last = p->direction == WEIR_FW_OUT;

	if (d->gateway && (is_last || !(s->next_hop[reverse] >> WEIR_STATE_GATEWAY_SHIFT)))
		weir_bucket_give_gateway(s, reverse, d->gateway);
	if (d->gateway_back && (!is_last || !(s->next_hop[!reverse] >> WEIR_STATE_GATEWAY_SHIFT)))
		weir_bucket_give_gateway(s, !reverse, d->gateway_back);
}

static __always_inline bool weir_bucket_has_family(const struct weir_fw_decision *d)
{
	return d->alias && weir_is_other_family(weir_alias_at(d->alias)->control);
}

/* A record of two families gets half B with its first one: family.h. */
static __always_inline __u32 weir_bucket_add_family(weir_line *s, __u32 slot, __u32 control,
						    const struct weir_fw_decision *d)
{
	control |= WEIR_STATE_HALF_B;
	weir_half_give(s, slot, control, 1, weir_half_maker(d));
	return weir_alias_attach(s, control, 1, d->alias);
}

/* What a half's interface says of who has sent the record. */
static __always_inline __u32 weir_half_mark(weir_line *s, __u32 half)
{
	__u32 sent = s->interface[half] & WEIR_STATE_IMPORTED_MASK;

	return sent == WEIR_STATE_IMPORTED ? sent : 0;
}

/* Of what weir_bucket_add_half() does. */
#define WEIR_ADD_REVERSE (1 << 0) /* the packet is one from the record's other end */
#define WEIR_ADD_TRACKED (1 << 1) /* its source counts the half */
/* Of what weir_bucket_mark() does, beside the half. */
#define WEIR_MARK_END_1 (1 << 1)

/*
 * Adds what a rule asks for to a record: a half, its rule, its interface and its alias. Returns the
 * control word, of which `control` is what it was. A function of its own, so that the verifier does
 * not go on from each of its ways.
 */
__noinline __u32 weir_bucket_add_half(const struct weir_fw_packet *p __arg_nonnull,
				      const struct weir_fw_decision *d __arg_nonnull, __u32 slot,
				      __u32 control, __u32 how)
{
	__u32 reverse = how & WEIR_ADD_REVERSE, half = weir_half_of(p, reverse), bound;
	weir_line *s = weir_state_line(slot);

	bound = half ? WEIR_STATE_IF_BOUND_B : WEIR_STATE_IF_BOUND_A;
	control |= WEIR_STATE_DIRTY | (half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A);
	control = d->flags & WEIR_DECISION_IF_BOUND ? control | bound : control & ~bound;
	if (d->flags & (WEIR_DECISION_LOG_ALL | WEIR_DECISION_COUNTED | WEIR_DECISION_RATED |
			WEIR_DECISION_COPIED))
		control |= WEIR_STATE_WATCHED;
	if (d->scrub & ~WEIR_SCRUB_SYNS)
		control |= WEIR_STATE_SCRUB;
	/* It stays what it is whoever has sent it. */
	bound = weir_half_mark(s, half);
	s->interface[half] = (weir_fw_slot(p) & WEIR_STATE_INTERFACE_MASK) | bound;
	if (d->gateway | d->gateway_back)
		weir_bucket_give_gateways(s, p, d, reverse);
	if (how & WEIR_ADD_TRACKED) {
		s->interface[half] &= WEIR_STATE_INTERFACE_MASK;
		s->interface[half] |= WEIR_STATE_SOURCE_TRACKED;
		if (weir_source_is_global(d))
			s->interface[half] |= WEIR_STATE_SOURCE_GLOBAL;
		/* They may have had another meaning before. */
		if (!(control & WEIR_STATE_TRACKED))
			s->wscale[1] &= ~(WEIR_WSCALE_LEARNED | WEIR_WSCALE_SETTLES);
		s->wscale[1] &= ~WEIR_WSCALE_SOURCE_IS_1(half);
		if (reverse)
			s->wscale[1] |= WEIR_WSCALE_SOURCE_IS_1(half);
		control |= WEIR_STATE_TRACKED;
	}
	weir_half_give(s, slot, control, half, weir_half_maker(d));
	if (weir_bucket_has_family(d))
		return weir_bucket_add_family(s, slot, control, d);
	return d->alias ? weir_alias_attach(s, control, half, d->alias) : control;
}

/*
 * Clears all behind the last packet's tick. Word by word: clang would make a memset of plain
 * stores, and forget that it goes to an arena.
 */
static __always_inline void weir_bucket_clear(weir_line *s)
{
	__u64 __weir_arena *words = (__u64 __weir_arena *)s;
	int i;

#pragma unroll
	for (i = 3; i < 8; i++)
		weir_write_once(words[i], 0);
}

/* Writes a record's addresses, of IPv6 into their slot. Returns what its control word gets. */
static __always_inline __u32 weir_bucket_address(weir_line *s, __u32 slot, __u32 addresses,
						 const struct weir_fw_packet *p)
{
	struct weir_state_v6 __weir_arena *a;

	if (!addresses) {
		s->addr[0] = p->src[0];
		s->addr[1] = p->dst[0];
		return 0;
	}
	a = weir_addresses_at(addresses);
	a->control = WEIR_STATE_ADDRESSES;
	a->owner = slot;
	weir_copy_address(a->addr[0], p->src);
	weir_copy_address(a->addr[1], p->dst);
	s->addr[0] = (__u32)p->hash;
	s->addr[1] = addresses;
	return WEIR_STATE_IPV6;
}

/* Hangs a record that is filled into its locked bucket. */
static __always_inline void weir_bucket_hang(weir_line *line, weir_line *s, __u32 slot,
					     __u32 control, bool is_first)
{
	if (is_first) {
		if (!(line->control & WEIR_STATE_LIVE))
			s->next = 0;
		s->control = control | WEIR_STATE_LOCK;
	} else {
		s->control = control;
		s->next = line->next;
		line->next = slot;
	}
}

/* Fills a slot that is empty. Returns its control word, not yet written. */
static __always_inline __u32 weir_bucket_fill(weir_line *s, __u32 slot, __u32 addresses,
					      const struct weir_fw_packet *p,
					      const struct weir_fw_decision *d)
{
	__u32 control = WEIR_STATE_LIVE | WEIR_STATE_FIRST |
			(__u32)p->protocol << WEIR_STATE_PROTOCOL_SHIFT |
			(__u32)d->profile << WEIR_STATE_PROFILE_SHIFT;

	/* How it is tracked is up to the rule that makes it, as its timeouts are. */
	if (d->flags & WEIR_DECISION_SLOPPY)
		control |= WEIR_STATE_SLOPPY;
	s->port[0] = p->src_port;
	s->port[1] = p->dst_port;
	s->last_tick = p->tick;
	weir_bucket_clear(s);
	if (p->protocol == WEIR_PROTOCOL_TCP) {
		weir_account_open(slot, p->tick);
		weir_tcp_open(p, s);
		__sync_fetch_and_add(&weir_fw_control()->half_open_count, 1);
	} else {
		weir_line_account_open(s, p->tick);
		s->phase[0] = WEIR_PHASE_SINGLE;
		s->phase[1] = WEIR_PHASE_NO_TRAFFIC;
	}
	return control | weir_bucket_address(s, slot, addresses, p);
}

/*
 * Notes the source of a half (`how`: 0 A, 1 B, and WEIR_MARK_END_1) if a source limiter counts it,
 * as weir_limited_join() has found. Returns the record's control word, of which `control` is what
 * it was.
 */
__noinline __u32 weir_bucket_mark(__u32 slot, __u32 control, __u32 how)
{
	weir_line *s = weir_state_line(slot);
	__u32 half = how & 1;

	if (!weir_limited_marks())
		return control;
	if (!(control & WEIR_STATE_TRACKED))
		s->wscale[1] &= ~(WEIR_WSCALE_LEARNED | WEIR_WSCALE_SETTLES);
	s->wscale[1] &= ~WEIR_WSCALE_SOURCE_IS_1(half);
	if (how & WEIR_MARK_END_1)
		s->wscale[1] |= WEIR_WSCALE_SOURCE_IS_1(half);
	return control | WEIR_STATE_TRACKED;
}

/*
 * Makes a record in a locked bucket. Returns 0, or the drop's reason + 1. A function of its own, so
 * that its stack is not also that of what ends a record.
 */
__noinline int weir_bucket_insert(const struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_decision *d __arg_nonnull, __u32 home,
				  struct weir_fw_hit *hit __arg_nonnull)
{
	weir_line *line = weir_state_line(home), *s;
	__u32 slot = home, addresses = 0, control;
	/* A line that only begins the bucket has room for a record, too. */
	bool is_first = !(line->control & WEIR_STATE_LIVE) || weir_is_alias(line->control);

	if (!is_first) {
		slot = weir_slot_take();
		if (!slot)
			return WEIR_FW_REASON_MEMORY + 1;
	}
	if (p->family != WEIR_FW_INET) {
		addresses = weir_slot_take();
		if (!addresses) {
			if (!is_first)
				weir_slot_give(slot);
			return WEIR_FW_REASON_MEMORY + 1;
		}
	}
	s = weir_state_line(slot);
	control = weir_bucket_fill(s, slot, addresses, p, d);
	control = weir_bucket_add_half(
		p, d, slot, control, d->flags & WEIR_DECISION_SOURCE_TRACK ? WEIR_ADD_TRACKED : 0);
	if (d->flags & WEIR_DECISION_LIMITED)
		control = weir_bucket_mark(slot, control, weir_half_of(p, 0));
	weir_bucket_count_in(d->alias ? weir_state_line(d->alias) : s, slot, 0, p->ip_bytes);
	weir_bucket_hang(line, s, slot, control, is_first);
	weir_dirty_hint(slot);
	weir_bucket_report(s, slot, control, 0, p, hit);
	hit->flags |= WEIR_HIT_TRACKED;
	return 0;
}

/* Whether a connection is over and this packet begins another one, as weir_tcp_track() says. */
static __always_inline bool weir_bucket_is_reused(const struct weir_fw_packet *p, weir_line *s)
{
	return p->protocol == WEIR_PROTOCOL_TCP && s->phase[0] >= WEIR_TCPS_FIN_WAIT_2 &&
	       s->phase[1] >= WEIR_TCPS_FIN_WAIT_2 && weir_tcp_opens(p->tcp_flags);
}

/* Whether the other half of a record is counted in the node that this one would be counted in. */
static __always_inline bool weir_bucket_shares_source(weir_line *s, __u32 slot,
						      const struct weir_fw_decision *d,
						      __u32 half, __u32 reverse)
{
	bool is_global = s->interface[!half] & WEIR_STATE_SOURCE_GLOBAL;
	bool is_end_1 = s->wscale[1] & WEIR_WSCALE_SOURCE_IS_1(!half);

	if (!(s->interface[!half] & WEIR_STATE_SOURCE_TRACKED) || is_end_1 != reverse ||
	    is_global != weir_source_is_global(d))
		return false;
	return is_global || weir_half_rule(s, slot, !half) == d->rule;
}

/* Whether a half is bound to another interface than the packet's. */
static __always_inline bool weir_bucket_is_elsewhere(const struct weir_fw_packet *p, weir_line *s,
						     __u32 half)
{
	__u32 bound = half ? WEIR_STATE_IF_BOUND_B : WEIR_STATE_IF_BOUND_A;
	__u32 slot = s->interface[half] & WEIR_STATE_INTERFACE_MASK;

	return s->control & bound && slot && slot != weir_fw_slot(p);
}

/*
 * Takes a half away from a record that lives on, which has left its limiters. A function of its
 * own, so that its stack is not also that of what makes a half.
 */
__noinline int weir_bucket_drop_half(__u32 slot, __u32 half)
{
	weir_line *s = weir_state_line(slot);
	__u32 rule = weir_half_rule(s, slot, half);
	__u32 other = weir_half_rule(s, slot, !half);
	__u32 active = weir_fw_control()->active, first;

	if (s->interface[half] & WEIR_STATE_SOURCE_TRACKED)
		weir_source_leave(slot, half);
	if (s->control & WEIR_STATE_TRACKED)
		s->wscale[0] &= ~WEIR_WSCALE_COUNTED(half);
	s->interface[half] = weir_half_mark(s, half);
	s->control &= ~(half ? WEIR_STATE_HALF_B | WEIR_STATE_IF_BOUND_B :
			       WEIR_STATE_HALF_A | WEIR_STATE_IF_BOUND_A);
	weir_half_give(s, slot, s->control, half, WEIR_FW_RULE_NONE);
	first = weir_fw_counters_of(active, rule, 0);
	if (rule != other && first)
		__sync_fetch_and_sub(&weir_at(struct weir_fw_rule_counters, first)->states_live, 1);
	return 0;
}

/*
 * Whether a record that is there cannot be that of a packet which has an alias at this hook, or has
 * none: translation is settled when a half is made.
 */
static __always_inline bool weir_bucket_is_other(weir_line *s, __u32 half,
						 const struct weir_fw_decision *d)
{
	__u32 flag = half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A;

	/* That is made with its record, or not at all. */
	if (weir_bucket_has_family(d))
		return true;
	/* Who has made the record meanwhile may have come from the other end. */
	if (d->alias)
		return s->control & flag || !(weir_alias_at(d->alias)->control & flag);
	return s->control & WEIR_STATE_TRANSLATED && s->count[half & 1];
}

/*
 * The half of this hook for a record that is there, or that somebody else has made meanwhile.
 * Returns 0, or the drop's reason + 1.
 */
__noinline int weir_bucket_extend(const struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_decision *d __arg_nonnull, __u64 found,
				  struct weir_fw_hit *hit __arg_nonnull)
{
	__u32 slot = (__u32)found, reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
	weir_line *s = weir_state_line(slot);
	__u32 half = weir_half_of(p, reverse);
	bool is_tracked, is_new, shares, is_other;
	int drop = 0;

	is_other = d->flags & WEIR_DECISION_TAKEN || weir_bucket_is_other(s, half, d);

	if (is_other || !(s->control & (half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A)) ||
	    weir_bucket_is_elsewhere(p, s, half)) {
		is_tracked = d->flags & WEIR_DECISION_SOURCE_TRACK;
		shares = is_tracked && weir_bucket_shares_source(s, slot, d, half, reverse);
		is_tracked &= !shares;
		/* What another record is in the way of would be one more of the rule. */
		is_new = is_other || weir_limit_is_new(d, slot, half);
		if (is_new && !weir_limit_take_rule(p, d))
			return WEIR_FW_REASON_STATE_LIMIT + 1;
		if (shares)
			drop = weir_source_check(p, d);
		else if (is_tracked)
			drop = weir_source_join(p, d);
		if (!drop && d->flags & WEIR_DECISION_LIMITED) {
			drop = weir_limited_join(p, d, slot,
						 reverse | WEIR_LIMITED_IS_THERE |
							 (is_other ? WEIR_LIMITED_IS_OTHER : 0));
			if (drop && is_tracked)
				weir_source_return(p, d);
		}
		if (drop) {
			if (is_new)
				weir_limit_return_rule(p, d);
			return drop;
		}
		/* Limits come first, as in pf. */
		if (is_other) {
			if (is_new)
				weir_limit_return_rule(p, d);
			if (is_tracked)
				weir_source_return(p, d);
			if (d->flags & WEIR_DECISION_LIMITED)
				weir_limited_undo(p);
			return weir_fw_control()->state_count < weir_limit_of_table(p, d) ?
				       WEIR_FW_REASON_STATE_INSERT + 1 :
				       WEIR_FW_REASON_STATE_LIMIT + 1;
		}
		/* A half that is bound to another interface moves to this one. */
		if (s->control & (half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A)) {
			if (weir_limiter_is_any())
				weir_limited_leave(slot, half | (d->flags & WEIR_DECISION_LIMITED ?
									 WEIR_LIMITED_MOVES :
									 0));
			weir_bucket_drop_half(slot, half);
		}
		s->control = weir_bucket_add_half(
			p, d, slot, s->control, reverse | (is_tracked ? WEIR_ADD_TRACKED : 0));
		if (d->flags & WEIR_DECISION_LIMITED)
			s->control = weir_bucket_mark(
				slot, s->control, half | (reverse ? WEIR_MARK_END_1 : 0));
		weir_dirty_hint(slot);
	}
	weir_bucket_report(s, slot, s->control, reverse, p, hit);
	return 0;
}

/*
 * Changes the numbers of a record's ends from its first SYN on: of that it is not known before the
 * rules of the last hook have passed it, which may be the first to ask for that.
 */
static __always_inline void weir_state_modulate(const struct weir_fw_packet *p,
						const struct weir_fw_decision *d,
						struct weir_fw_hit *hit)
{
	weir_line *s = weir_state_line(hit->slot);

	if (p->flags & WEIR_PACKET_PROXIED && !weir_state_is_proxied(s)) {
		weir_proxied_open(s, p->ack - 1);
		hit->flags |= WEIR_HIT_PROXIED;
		return;
	}
	if (!(d->flags & WEIR_DECISION_MODULATE) || p->protocol != WEIR_PROTOCOL_TCP ||
	    !weir_tcp_opens(p->tcp_flags) || weir_state_is_modulated(s))
		return;
	s->wscale[1] |= WEIR_WSCALE_MODULATED;
	s->control |= WEIR_STATE_SCRUB;
	weir_modulate_packet(p, hit->slot, hit->reverse);
}

/* Whether an alias was made for the other half than that of a new record's first packet. */
static __always_inline bool weir_alias_is_turned(const struct weir_fw_packet *p, __u32 alias)
{
	__u32 control = alias ? weir_alias_at(alias)->control : 0;

	return alias && !weir_is_other_family(control) &&
	       !(control & (weir_half_of(p, 0) ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A));
}

/*
 * A new record, if limits allow it: those of the rule, of the source and of the table, in the order
 * of `pf_create_state`, and if its place is nobody else's. The record that it takes the place of,
 * if one was found, ends then, and counts until then. Returns 0, or the drop's reason + 1: then
 * nothing is counted.
 */
static __always_inline int weir_bucket_admit(const struct weir_fw_packet *p,
					     const struct weir_fw_decision *d, __u32 home,
					     struct weir_fw_hit *hit, bool is_taken, __u64 found)
{
	bool is_tracked = d->flags & WEIR_DECISION_SOURCE_TRACK;
	int drop;

	if (!weir_limit_take_rule(p, d))
		return WEIR_FW_REASON_STATE_LIMIT + 1;
	drop = is_tracked ? weir_source_join(p, d) : 0;
	if (drop)
		goto return_rule;
	if (d->flags & WEIR_DECISION_LIMITED)
		drop = weir_limited_join(p, d, home, 0);
	if (drop)
		goto return_source;
	drop = WEIR_FW_REASON_STATE_LIMIT + 1;
	if (weir_limit_take_table(p, d)) {
		if (found != WEIR_FOUND_NONE && !is_taken)
			weir_bucket_remove(home, (__u32)found, p->cpu);
		drop = is_taken ? WEIR_FW_REASON_STATE_INSERT + 1 :
				  weir_bucket_insert(p, d, home, hit);
		if (!drop) {
			weir_fw_table_counters(p->cpu)->inserts++;
			return 0;
		}
		weir_limit_return_table();
	}
	if (d->flags & WEIR_DECISION_LIMITED)
		weir_limited_undo(p);
return_source:
	if (is_tracked)
		weir_source_return(p, d);
return_rule:
	weir_limit_return_rule(p, d);
	return drop;
}

__noinline int weir_state_insert(const struct weir_fw_packet *p __arg_nonnull,
				 const struct weir_fw_decision *d __arg_nonnull,
				 struct weir_fw_hit *hit __arg_nonnull)
{
	__u32 home = weir_state_lock_bucket(p->hash, p->cpu);
	bool is_taken = d->flags & WEIR_DECISION_TAKEN;
	__u64 found = WEIR_FOUND_NONE;
	weir_line *line;
	int drop = 0;

	if (home == WEIR_STATE_BUCKET_NONE)
		return WEIR_FW_REASON_CONGESTION + 1;
	line = weir_state_line(home);
	if (line->control & WEIR_STATE_LIVE)
		found = weir_bucket_find(p, home, false);
	/* The ends of a new record may be on the wire of a translated one. */
	if (found == WEIR_FOUND_LOST ||
	    (found == WEIR_FOUND_NONE && weir_fw_translates() &&
	     weir_bucket_find(p, home, true) != WEIR_FOUND_NONE)) {
		is_taken = true;
		found = WEIR_FOUND_NONE;
	}
	if (found != WEIR_FOUND_NONE &&
	    (hit->flags & WEIR_HIT_TRACKED ||
	     !weir_bucket_is_reused(p, weir_state_line((__u32)found)))) {
		drop = weir_bucket_extend(p, d, found, hit);
	} else {
		/* An alias that is turned was made for a record that has just ended. */
		is_taken |= weir_alias_is_turned(p, d->alias);
		if (!is_taken)
			weir_hit_clear(hit);
		drop = weir_bucket_admit(p, d, home, hit, is_taken, found);
	}
	if (!drop)
		weir_state_modulate(p, d, hit);
	weir_state_unlock(home, line->control);
	return drop;
}

#endif /* WEIR_FW_INSERT_H */

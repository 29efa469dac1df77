/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hit path: from a packet to its record, once for every packet. An IPv4 flow whose record is
 * the first of its bucket costs one cache line.
 */
#ifndef WEIR_FW_LOOKUP_H
#define WEIR_FW_LOOKUP_H

#include <weir/fw/account.h>
#include <weir/fw/alias.h>
#include <weir/fw/hash.h>
#include <weir/fw/image.h>
#include <weir/fw/scrubs.h>
#include <weir/fw/table.h>
#include <weir/fw/tcp.h>

static __always_inline void weir_state_touch(struct weir_fw_packet *p)
{
	weir_line *line;
	__u32 touched;

	p->hash = weir_fw_hash(p);
	line = weir_state_line(weir_state_bucket(p->hash));
	/* Nobody waits for this load: it only brings the line. */
	touched = weir_read_once(line->control);
	asm volatile("" ::"r"(touched));
}

/* What few records want of the rules of their halves. */
__noinline int weir_bucket_report_rules(__u32 slot, struct weir_fw_hit *hit __arg_nonnull)
{
	weir_line *s = weir_state_line(slot);
	__u32 a = weir_half(s, slot, 0), b = weir_half(s, slot, 1);

	if (a >> WEIR_HALF_OPTIONS_SHIFT & 1)
		hit->flags |= WEIR_HIT_ALLOW_OPTIONS_A;
	if (b >> WEIR_HALF_OPTIONS_SHIFT & 1)
		hit->flags |= WEIR_HIT_ALLOW_OPTIONS_B;
	if (a >> WEIR_HALF_LOG_SHIFT & 1)
		hit->flags |= WEIR_HIT_LOG_ALL_A;
	if (b >> WEIR_HALF_LOG_SHIFT & 1)
		hit->flags |= WEIR_HIT_LOG_ALL_B;
	hit->rule[0] = a & WEIR_FW_RULE_NONE;
	hit->rule[1] = b & WEIR_FW_RULE_NONE;
	hit->scrub[0] = a >> WEIR_HALF_SCRUB_SHIFT & WEIR_ACCOUNT_SCRUB_MASK;
	hit->scrub[1] = b >> WEIR_HALF_SCRUB_SHIFT & WEIR_ACCOUNT_SCRUB_MASK;
	return 0;
}

/* A hit's copy of what its record says, for a packet in a direction. */
static __always_inline void weir_bucket_report(weir_line *s, __u32 slot, __u32 control,
					       __u32 reverse, const struct weir_fw_packet *p,
					       struct weir_fw_hit *hit)
{
	bool is_bound_a = control & WEIR_STATE_IF_BOUND_A;
	bool is_bound_b = control & WEIR_STATE_IF_BOUND_B;
	bool a = control & WEIR_STATE_HALF_A, b = control & WEIR_STATE_HALF_B;

	hit->slot = slot;
	hit->reverse = reverse;
	hit->next_hop = s->next_hop[reverse & 1] & WEIR_STATE_NEXT_HOP_MASK;
	hit->gateway = s->next_hop[reverse & 1] >> WEIR_STATE_GATEWAY_SHIFT;
	hit->generation = s->generation;
	if (is_bound_a | is_bound_b) {
		/* A half that is not bound has no interface: it then covers the packet's own. */
		hit->if_bound = 1;
		hit->interface[reverse & 1] =
			is_bound_a ? s->interface[0] & WEIR_STATE_INTERFACE_MASK : 0;
		hit->interface[!reverse] =
			is_bound_b ? s->interface[1] & WEIR_STATE_INTERFACE_MASK : 0;
	}
	/* Half A: forward packets in, reverse ones out. */
	hit->covered[WEIR_FW_IN] = reverse ? b : a;
	hit->covered[WEIR_FW_OUT] = reverse ? a : b;
	if (hit->if_bound && hit->interface[WEIR_FW_IN] &&
	    hit->interface[WEIR_FW_IN] != p->interface)
		hit->covered[WEIR_FW_IN] = 0;
	/* What few packets need. */
	if (control & WEIR_STATE_SCRUB && weir_state_is_proxied(s)) {
		hit->flags |= WEIR_HIT_PROXIED;
		hit->next_hop = 0;
	}
	if (control & (WEIR_STATE_WATCHED | WEIR_STATE_SCRUB) || p->flags & WEIR_PACKET_OPTIONS ||
	    (p->tcp_flags & WEIR_TCP_SYN && weir_fw_scrubs_states()))
		weir_bucket_report_rules(slot, hit);
	if (control & WEIR_STATE_WATCHED)
		hit->flags |= WEIR_HIT_WATCHED;
	if (control & WEIR_STATE_TRANSLATED)
		weir_alias_report(slot, reverse, hit);
}

/* UDP, ICMP queries and all else: who has sent, and whether the other end answered. */
static __always_inline __u32 weir_bucket_track_other(weir_line *s, __u32 slot, __u32 reverse,
						     __u32 tick)
{
	bool is_changed = s->control & WEIR_STATE_FIRST;

	if (s->phase[reverse] < WEIR_PHASE_SINGLE) {
		s->phase[reverse] = WEIR_PHASE_SINGLE;
		is_changed = true;
	}
	if (s->phase[!reverse] == WEIR_PHASE_SINGLE) {
		s->phase[!reverse] = WEIR_PHASE_MULTIPLE;
		is_changed = true;
	}
	if (is_changed)
		weir_dirty_mark(slot);
	s->last_tick = tick;
	return s->control & ~WEIR_STATE_FIRST;
}

/* Finds a record that is not the first of its bucket, or has IPv6 addresses. */
static __always_inline __u64 weir_bucket_search(const struct weir_fw_packet *p, weir_line *line,
						__u32 home, __u32 control)
{
	__u32 match;

	if (p->family == WEIR_FW_INET) {
		match = weir_state_match4(line, control, p);
		if (match)
			return home | (match == WEIR_MATCH_REVERSE ? WEIR_FOUND_REVERSE : 0);
		if (!line->next)
			return WEIR_FOUND_NONE;
	}
	return weir_bucket_find(p, home, false);
}

/* Takes a record whose connection is over out of its bucket, so that a new one can be made. */
__noinline int weir_bucket_remove(__u32 home, __u32 slot, __u32 cpu)
{
	__u32 before = home, i, next;

	for (i = weir_fw_bound(WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		if (before == slot)
			break;
		next = weir_state_line(before)->next;
		if (next == slot)
			break;
		before = next;
		if (!before)
			return 0;
	}
	return weir_bucket_delete(home, before, slot, cpu);
}

static __always_inline int weir_state_drop(struct weir_fw_hit *hit, __u32 reason)
{
	hit->reason = reason;
	return WEIR_STATE_DROP;
}

/* Whether a packet at the egress hook was judged as it came in. */
static __always_inline bool weir_state_was_judged(const struct weir_fw_packet *p)
{
	struct weir_fw_interface __weir_arena *interface;

	if (!p->interface)
		return false;
	interface = weir_at(struct weir_fw_interface,
			    weir_fw_control()->interfaces_at + p->interface * sizeof(*interface));
	return interface->read_as && !weir_fw_skips(p->ruleset, interface->read_as);
}

/* Whether a packet is tracked at this hook: where its record covers it first. */
static __always_inline bool weir_state_is_tracked_here(const struct weir_fw_packet *p,
						       const struct weir_fw_hit *hit)
{
	/* A piece of a packet that is only looked up to be translated. */
	if (p->flags & WEIR_PACKET_UNTRACKED)
		return false;
	if (p->direction == WEIR_FW_IN)
		return hit->covered[WEIR_FW_IN] && !(p->flags & WEIR_PACKET_SKIPPED);
	if (!weir_state_covers_out(p, hit))
		return false;
	/* What the kernel forwards was tracked when it came in, if it was judged there. */
	return !(p->flags & WEIR_PACKET_SKB) || !hit->covered[WEIR_FW_IN] ||
	       !weir_state_was_judged(p);
}

/* Tracks a packet of a record that was found; returns what weir_tcp_follow() does. */
static __always_inline int weir_bucket_track(const struct weir_fw_packet *p, weir_line *s,
					     __u32 slot, __u32 reverse)
{
	__u32 last_tick = s->last_tick;

	if (p->protocol == WEIR_PROTOCOL_TCP) {
		int result = weir_tcp_follow(p, slot, reverse);

		if (result)
			return result;
	} else {
		s->control = weir_bucket_track_other(s, slot, reverse, p->tick);
	}
	weir_bucket_count(s, slot, reverse, p->ip_bytes);
	if (weir_is_imported(s))
		weir_import_take(slot, last_tick);
	return WEIR_TCP_FITS;
}

static __always_inline void weir_hit_clear(struct weir_fw_hit *hit)
{
	__builtin_memset(hit, 0, sizeof(*hit));
	hit->slot = WEIR_FW_SLOT_NONE;
}

/* How far an end has sent, as who has sent a packet to it sees that. */
__noinline __u32 weir_bucket_seen(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
				  __u32 end)
{
	weir_line *s = weir_state_line(slot);
	__u32 lo = s->seq[end & 1].lo;

	if (!weir_state_is_modulated(s))
		return lo;
	return lo + weir_modulator_of(weir_modulator(s, p->hash), end);
}

/* What a packet that does not fit its record means. */
static __always_inline int weir_bucket_misfit(const struct weir_fw_packet *p, __u32 home,
					      __u32 slot, int tracked, struct weir_fw_hit *hit)
{
	if (tracked == WEIR_TCP_REUSED || tracked == WEIR_TCP_OVER) {
		weir_bucket_remove(home, slot, p->cpu);
		weir_hit_clear(hit);
		if (tracked == WEIR_TCP_OVER)
			return weir_state_drop(hit, WEIR_FW_REASON_SRC_LIMIT);
		return WEIR_STATE_MISS;
	}
	if (tracked == WEIR_PROXIED_WAITS) {
		hit->flags |= WEIR_HIT_PROXY_WAITS;
		return WEIR_STATE_HIT;
	}
	if (tracked & WEIR_TCP_SEND_RST)
		hit->flags |= WEIR_HIT_SEND_RST;
	if (tracked & WEIR_TCP_CHALLENGE) {
		hit->flags |= WEIR_HIT_CHALLENGE;
		hit->numbers[0] = weir_bucket_seen(p, slot, !hit->reverse);
		hit->numbers[1] = weir_state_line(slot)->seq[hit->reverse & 1].lo;
	}
	return weir_state_drop(hit, (tracked & 0xff) - 1);
}

/*
 * Fills the hit of a packet whose record was found in a locked bucket, and tracks the packet; the
 * bucket is unlocked. `alias` is the slot of the alias that has led here; 0: none has.
 */
static __always_inline int weir_state_found(struct weir_fw_packet *p, struct weir_fw_hit *hit,
					    __u32 home, __u64 found, __u32 alias)
{
	__u32 slot = (__u32)found, reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
	int result = WEIR_STATE_HIT, tracked;
	weir_line *s = weir_state_line(slot);

	if (weir_alias_is_other(s, p, reverse, alias)) {
		weir_state_unlock(home, weir_state_line(home)->control);
		return WEIR_STATE_MISS;
	}
	weir_bucket_report(s, slot, s->control, reverse, p, hit);
	if (weir_state_is_tracked_here(p, hit)) {
		hit->flags |= WEIR_HIT_TRACKED;
		tracked = weir_bucket_track(p, s, slot, reverse);
		if (tracked != WEIR_TCP_FITS)
			result = weir_bucket_misfit(p, home, slot, tracked, hit);
	}
	/* By now it may have been answered. */
	if (hit->flags & WEIR_HIT_PROXIED && !(hit->flags & WEIR_HIT_CHALLENGE)) {
		hit->numbers[0] = weir_proxied_number(s);
		hit->numbers[1] = s->seq[0].lo;
	}
	weir_state_unlock(home, weir_state_line(home)->control);
	return result;
}

/* The record that an alias has led to, by which the packet has the inside destination. */
static __always_inline int weir_alias_follow(struct weir_fw_packet *p, struct weir_fw_hit *hit,
					     __u32 alias)
{
	__u32 home = weir_state_lock_bucket(p->hash, p->cpu);
	__u64 found = WEIR_FOUND_NONE;

	if (home == WEIR_STATE_BUCKET_NONE)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	if (weir_state_line(home)->control & WEIR_STATE_LIVE)
		found = weir_bucket_find(p, home, false);
	if (found < WEIR_FOUND_NONE)
		return weir_state_found(p, hit, home, found, alias);
	weir_state_unlock(home, weir_state_line(home)->control);
	return WEIR_STATE_MISS;
}

/* Looks for a packet that comes in among the aliases: as weir_state_lookup(). */
__noinline int weir_alias_lookup(struct weir_fw_packet *p __arg_nonnull,
				 struct weir_fw_hit *hit __arg_nonnull)
{
	/* Kept across the calls below as two words of stack, not four. */
	union {
		__u64 kept[2];
		__be32 dst[4];
	} came;
	__u64 came_hash = p->hash;
	__be16 came_port = p->dst_port;
	int result = WEIR_STATE_MISS;
	__u32 alias;

	__builtin_memcpy(came.kept, p->dst, sizeof(came.kept));
	alias = weir_alias_enter(p);
	if (!alias)
		return WEIR_STATE_MISS;
	/* Who has a state is nobody for the rules to judge. */
	if (alias == WEIR_ALIAS_CONTENDED)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	if (alias & WEIR_ALIAS_ELSEWHERE) {
		hit->numbers[0] = alias & ~WEIR_ALIAS_ELSEWHERE;
		return WEIR_STATE_ELSEWHERE;
	}
	result = weir_alias_follow(p, hit, alias);
	/* A slot that has become another alias's, or a half that is bound to another interface. */
	if (result == WEIR_STATE_HIT &&
	    (!hit->covered[WEIR_FW_IN] ||
	     !weir_alias_leads(alias, !hit->reverse, came.dst[0], came_port, came_hash))) {
		weir_hit_clear(hit);
		result = WEIR_STATE_MISS;
	}
	if (result == WEIR_STATE_HIT) {
		p->flags |= WEIR_PACKET_TRANSLATED;
		return result;
	}
	__builtin_memcpy(p->dst, came.kept, sizeof(came.kept));
	p->dst_port = came_port;
	p->hash = came_hash;
	return result;
}

/*
 * What a look-up of the record that an alias of the other family has led to comes to: the slot may
 * have become another alias's, or the record be bound elsewhere. `along` has the alias's ends.
 */
static __always_inline int weir_family_found(const struct weir_fw_packet *along,
					     struct weir_fw_hit *hit, __u32 alias, int result)
{
	if (result != WEIR_STATE_HIT)
		return result;
	if (!hit->covered[WEIR_FW_IN] || !weir_family_leads(alias, along, WEIR_MATCH_REVERSE)) {
		weir_hit_clear(hit);
		return WEIR_STATE_MISS;
	}
	hit->flags |= WEIR_HIT_FAMILY;
	return WEIR_STATE_HIT;
}

/*
 * Looks for the record of the other family that an alias, hit->numbers[0], leads a packet to: as
 * weir_state_lookup(). The packet stays as it is.
 */
__noinline int weir_family_lookup(const struct weir_fw_packet *p __arg_nonnull,
				  struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 alias = hit->numbers[0];

	weir_hit_clear(hit);
	if (!scratch)
		return WEIR_STATE_MISS;
	weir_family_inside(&scratch->other, p, alias);
	return weir_family_found(p, hit, alias, weir_alias_follow(&scratch->other, hit, alias));
}

/*
 * Whether ends, those of a packet that leaves by way of the kernel and that no record has, are what
 * one of the other family has become: it was judged where it came in.
 */
__noinline int weir_family_leaves(const struct weir_fw_packet *ends __arg_nonnull)
{
	__u32 home = weir_state_lock_bucket(ends->hash, ends->cpu);
	__u64 found = WEIR_FOUND_NONE;
	int is_it;

	if (home == WEIR_STATE_BUCKET_NONE)
		return 0;
	if (weir_state_line(home)->control & WEIR_STATE_LIVE)
		found = weir_bucket_find(ends, home, true);
	/* Without WEIR_FOUND_REVERSE: from end 0. */
	is_it = !(found >> 32) && weir_is_other_family(weir_state_line((__u32)found)->control);
	weir_state_unlock(home, weir_state_line(home)->control);
	return is_it;
}

/* Whether a packet that no record has may come in by a wire key. */
static __always_inline bool weir_alias_is_asked(const struct weir_fw_packet *p)
{
	return weir_fw_translates() && p->direction == WEIR_FW_IN &&
	       !(p->flags & (WEIR_PACKET_SKIPPED | WEIR_PACKET_TRANSLATED));
}

/*
 * weir_state_lookup() for a packet that has its inside ends. A function of its own, so that what it
 * needs of the stack is not also that of rules and aliases, which are asked after it.
 */
__noinline int weir_state_lookup_inside(struct weir_fw_packet *p __arg_nonnull,
					struct weir_fw_hit *hit __arg_nonnull)
{
	__u32 home = weir_state_bucket(p->hash), control;
	weir_line *line;
	__u64 found;

	weir_fw_table_counters(p->cpu)->searches++;
	if (!(weir_read_once(weir_state_line(home)->control) & WEIR_STATE_LIVE) &&
	    weir_state_is_at(home, p->hash))
		return WEIR_STATE_MISS;
	home = weir_state_lock_bucket(p->hash, p->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	line = weir_state_line(home);
	control = line->control;
	found = control & WEIR_STATE_LIVE ? weir_bucket_search(p, line, home, control) :
					    WEIR_FOUND_NONE;
	if (found < WEIR_FOUND_NONE)
		return weir_state_found(p, hit, home, found, 0);
	weir_state_unlock(home, control);
	if (found == WEIR_FOUND_LOST)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	return WEIR_STATE_MISS;
}

static __always_inline int weir_state_lookup(struct weir_fw_packet *p, struct weir_fw_hit *hit)
{
	int result = weir_state_lookup_inside(p, hit);

	if (result == WEIR_STATE_MISS && weir_alias_is_asked(p))
		result = weir_alias_lookup(p, hit);
	return result == WEIR_STATE_ELSEWHERE ? weir_family_lookup(p, hit) : result;
}

static __always_inline int weir_state_track_out(struct weir_fw_packet *p, struct weir_fw_hit *hit)
{
	return weir_state_lookup_inside(p, hit);
}

static __always_inline int weir_state_follow(struct weir_fw_packet *p, struct weir_fw_hit *hit)
{
	if (hit->slot == WEIR_FW_SLOT_NONE || hit->flags & WEIR_HIT_TRACKED ||
	    p->flags & (WEIR_PACKET_ICMP_ERROR | WEIR_PACKET_UNTRACKED))
		return WEIR_STATE_HIT;
	if (weir_state_track_out(p, hit) == WEIR_STATE_DROP &&
	    hit->reason == WEIR_FW_REASON_SRC_LIMIT)
		return WEIR_STATE_DROP;
	hit->flags &= ~(WEIR_HIT_SEND_RST | WEIR_HIT_CHALLENGE);
	return WEIR_STATE_HIT;
}

static __always_inline void weir_state_next_hop(const struct weir_fw_packet *p,
						const struct weir_fw_hit *hit, __u16 index,
						__u16 generation)
{
	__u32 home, match;
	weir_line *s;

	if (hit->slot == WEIR_FW_SLOT_NONE || hit->flags & WEIR_HIT_PROXIED)
		return;
	home = weir_state_lock_bucket(p->hash, p->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return;
	/*
	 * The slot may be somebody else's by now. If it is ours, its record is in this bucket: both
	 * are those of the hash.
	 */
	s = weir_state_line(hit->slot);
	match = weir_state_match(s, s->control, p);
	/* It may have got another gateway by now. */
	if (match == (hit->reverse ? WEIR_MATCH_REVERSE : WEIR_MATCH_FORWARD) &&
	    s->next_hop[hit->reverse & 1] >> WEIR_STATE_GATEWAY_SHIFT == hit->gateway) {
		__u32 direction = hit->reverse & 1;

		if (s->generation != generation)
			s->next_hop[!direction] &= ~WEIR_STATE_NEXT_HOP_MASK;
		s->next_hop[direction] &= ~WEIR_STATE_NEXT_HOP_MASK;
		s->next_hop[direction] |= index;
		s->generation = generation;
	}
	weir_state_unlock(home, weir_state_line(home)->control);
}

#endif /* WEIR_FW_LOOKUP_H */

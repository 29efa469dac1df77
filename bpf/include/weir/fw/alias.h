/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Translated flows: how one record is found by more than one pair of ends.
 *
 * A record is found by its *inside* key: its ends as they are between the translation of a
 * destination, where a packet comes in, and that of a source, where it leaves (pf's stack key). So
 * the kernel, which is between the two, only ever sees inside keys. What stands on the wire at the
 * interface of a half may differ at one end: of half A at end 1, of half B at end 0, in both
 * directions. That wire key is in an *alias*, a line in an overflow slot, which hangs in the bucket
 * of the wire key's hash. A packet that comes in and is nobody's by its ends as they are is looked
 * for among the aliases; one that leaves finds its half's alias by the record.
 *
 *   record.count[half] --slot--> alias --inside key, by its hash--> record
 *
 * A record may move, and is therefore looked for; an alias stays in its slot until it ends. Two
 * locks are taken one after the other, never one inside the other: that of the alias's bucket
 * covers its place in the chain, that of the record's bucket whether it lives, and its counts.
 *
 * - An alias is made and hung first, and only then its record made or extended. Who finds it in
 *   between finds no record that has it, and goes by the rules as if it were not there; if these
 *   keep state, the wire key is taken, and the packet dropped (`state-insert`).
 * - A record that ends takes the half's flag from its aliases in the same step, under its own
 *   lock. From then on nobody finds them: a half-removed pair never translates. Whoever found one
 *   just before that finds no record, or one that does not have this alias, and goes by the rules.
 * - A slot that was taken again meanwhile is told by the ends that it has then
 *   (weir_alias_leads()).
 * - What belongs to nobody hangs in its bucket until something that has its lock takes it out: the
 *   sweep that ended the record, the next one that comes by, or who looks for a place there.
 */
#ifndef WEIR_FW_ALIAS_H
#define WEIR_FW_ALIAS_H

#include <weir/fw/family.h>
#include <weir/fw/hash.h>
#include <weir/fw/table.h>

/* Whether there may be aliases at all. */
static __always_inline bool weir_fw_translates(void)
{
	return weir_fw_control()->flags & WEIR_FW_CONTROL_TRANSLATED;
}

/* The half of a record that covers a packet's hook: 0 A, 1 B. */
static __always_inline __u32 weir_half_of(const struct weir_fw_packet *p, __u32 reverse)
{
	return (p->direction == WEIR_FW_OUT) ^ (reverse & 1);
}

/*
 * Whether nobody has these ends, in either direction, as far as can be seen without a lock: who
 * takes them looks again. Sets the key's hash.
 */
__noinline int weir_key_is_free(struct weir_fw_packet *key __arg_nonnull)
{
	__u32 slot, control, i;

	key->hash = weir_fw_hash(key);
	slot = weir_state_bucket(key->hash);
	for (i = weir_fw_bound(WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		weir_line *s = weir_state_line(slot);

		control = weir_read_once(s->control);
		if (!(control & WEIR_STATE_LIVE))
			return 1;
		if (weir_state_match(s, weir_match_control(control, weir_is_alias(control)), key))
			return 0;
		slot = weir_read_once(s->next);
		if (!slot)
			return 1;
	}
	return 0;
}

/* Whether a packet's ends are one and the same: then it matches both ways round. */
static __always_inline bool weir_key_is_even(const struct weir_fw_packet *p)
{
	return p->src_port == p->dst_port &&
	       !((p->src[0] ^ p->dst[0]) | (p->src[1] ^ p->dst[1]) | (p->src[2] ^ p->dst[2]) |
		 (p->src[3] ^ p->dst[3]));
}

/* Of what weir_alias_enter() returns: the packet's record is of the other family. */
#define WEIR_ALIAS_ELSEWHERE (1u << 31)
/* Or nobody could look, as the bucket was locked: no slot has this number. */
#define WEIR_ALIAS_CONTENDED WEIR_ALIAS_ELSEWHERE

/*
 * A packet that comes in by a wire key: gives it the inside destination, and its hash. Returns the
 * alias's slot; 0: there is none, and the packet is as it was; as it is with WEIR_ALIAS_ELSEWHERE
 * besides, and WEIR_ALIAS_CONTENDED.
 */
__noinline __u32 weir_alias_enter(struct weir_fw_packet *p __arg_nonnull)
{
	__u32 home = weir_state_lock_bucket(p->hash, p->cpu), slot = 0, reverse;
	__u64 found = WEIR_FOUND_NONE;
	weir_alias_line *a;

	if (home == WEIR_STATE_BUCKET_NONE)
		return WEIR_ALIAS_CONTENDED;
	if (weir_state_line(home)->control & WEIR_STATE_LIVE)
		found = weir_bucket_find(p, home, true);
	if (found < WEIR_FOUND_NONE) {
		a = weir_alias_at((__u32)found);
		reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
		/* Forward packets come in by half A, reverse ones by half B. */
		if (a->control & (reverse ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A) ||
		    weir_key_is_even(p)) {
			slot = (__u32)found;
			if (weir_is_other_family(a->control)) {
				slot |= WEIR_ALIAS_ELSEWHERE;
			} else {
				weir_copy_address(p->dst, a->inside);
				p->dst_port = a->inside_port;
			}
		}
	}
	weir_state_unlock(home, weir_state_line(home)->control);
	if (slot)
		p->hash = weir_fw_hash(p);
	return slot;
}

/* Whether an alias has such an end on the wire; of IPv6 the hash of its ends says it. */
static __always_inline bool weir_alias_leads(__u32 slot, __u32 end, __be32 address, __be16 port,
					     __u64 hash)
{
	weir_alias_line *a = weir_alias_at(slot);

	end &= 1;
	if (a->port[end] != port)
		return false;
	return a->control & WEIR_STATE_IPV6 ? a->addr[0] == (__u32)hash : a->addr[end] == address;
}

/*
 * Whether a record that was found by a packet's ends is not the packet's: it came in by the inside
 * key where there is a wire key (`alias` is 0), or by an alias that the record does not have.
 */
static __always_inline bool weir_alias_is_other(weir_line *s, const struct weir_fw_packet *p,
						__u32 reverse, __u32 alias)
{
	if (!(s->control & WEIR_STATE_TRANSLATED))
		return alias;
	if (!alias && (p->direction == WEIR_FW_OUT ||
		       p->flags & (WEIR_PACKET_SKIPPED | WEIR_PACKET_TRANSLATED)))
		return false;
	return s->count[reverse & 1] != alias;
}

/* What of a record's alias a packet on its way out gets: the source on the wire. */
__noinline int weir_alias_report(__u32 record, __u32 reverse, struct weir_fw_hit *hit __arg_nonnull)
{
	__u32 slot = weir_state_line(record)->count[!(reverse & 1)], end = reverse & 1;
	weir_alias_line *a = weir_alias_at(slot);

	if (!slot)
		return 0;
	if (weir_is_other_family(a->control))
		return weir_family_report(slot, hit);
	hit->flags |= WEIR_HIT_TRANSLATED;
	hit->wire_port = a->port[end];
	if (a->control & WEIR_STATE_IPV6)
		weir_copy_address(hit->wire, weir_addresses_at(a->addr[1])->addr[end]);
	else
		hit->wire[0] = a->addr[end];
	return 0;
}

/* Gives the slots of an alias back that is in no bucket. */
static __always_inline void weir_alias_free(__u32 slot)
{
	weir_alias_line *a = weir_alias_at(slot);

	if (a->control & WEIR_STATE_IPV6)
		weir_slot_give(a->addr[1]);
	else if (weir_is_other_family(a->control))
		weir_slot_give(a->inside[0]);
	weir_slot_give(slot);
}

/*
 * Takes out of a locked bucket what belongs to nobody, behind its first line, and lets the first
 * line go if it only begins an empty bucket.
 */
__noinline int weir_bucket_reap(__u32 home)
{
	weir_line *line = weir_state_line(home);
	__u32 before = home, slot = line->next, control, next, i;

	for (i = weir_fw_bound(2 * WEIR_STATE_CHAIN_MAX); i && slot && weir_fw_may_loop; i--) {
		control = weir_state_line(slot)->control;
		next = weir_state_line(slot)->next;
		if (weir_is_alias(control) && !(control & WEIR_ALIAS_HALVES)) {
			weir_state_line(before)->next = next;
			weir_alias_free(slot);
		} else {
			before = slot;
		}
		slot = next;
	}
	if (!weir_is_alias(line->control))
		return 0;
	next = line->next;
	if (!next) {
		weir_write_once(line->control, WEIR_STATE_LOCK);
	} else if (!weir_is_alias(weir_state_line(next)->control)) {
		weir_bucket_move(home, next);
		weir_slot_give(next);
	}
	return 0;
}

/* A rule that translates a flow has one state more. Whether it counts them. */
static __always_inline bool weir_alias_count(const struct weir_fw_packet *p, __u32 rule)
{
	__u32 first = weir_fw_counters_of(p->ruleset, rule, 0);
	__u32 at = weir_fw_counters_of(p->ruleset, rule, p->cpu);

	if (!first)
		return false;
	weir_at(struct weir_fw_rule_counters, at)->states_created++;
	__sync_fetch_and_add(&weir_at(struct weir_fw_rule_counters, first)->states_live, 1);
	return true;
}

/* The line of an alias, but for its control word. */
static __always_inline void weir_alias_fill(__u32 slot, __u32 addresses,
					    const struct weir_fw_packet *p,
					    const struct weir_fw_packet *key, __u32 reverse,
					    __u32 rule)
{
	bool is_in = p->direction == WEIR_FW_IN;
	weir_alias_line *a = weir_alias_at(slot);
	__u32 source = reverse & 1;

	a->port[source] = key->src_port;
	a->port[!source] = key->dst_port;
	a->rule = rule;
	a->is_counted = 0;
	a->uses = 0;
	if (is_in)
		weir_copy_address(a->inside, p->dst);
	else
		weir_copy_address(a->inside, p->src);
	a->inside_port = is_in ? p->dst_port : p->src_port;
	a->count[0] = 0;
	a->count[1] = 0;
	if (addresses) {
		struct weir_state_v6 __weir_arena *v6 = weir_addresses_at(addresses);

		v6->control = WEIR_STATE_ADDRESSES;
		v6->owner = slot;
		weir_copy_address(v6->addr[source], key->src);
		weir_copy_address(v6->addr[!source], key->dst);
		a->addr[0] = (__u32)key->hash;
		a->addr[1] = addresses;
	} else {
		a->addr[source] = key->src[0];
		a->addr[!source] = key->dst[0];
	}
}

/* Hangs an alias in the bucket of its key; false if somebody has that key. */
static __always_inline int weir_alias_hang(__u32 slot, __u32 control,
					   const struct weir_fw_packet *key)
{
	__u32 home = weir_state_lock_bucket(key->hash, key->cpu);
	weir_line *line, *s = weir_state_line(slot);

	if (home == WEIR_STATE_BUCKET_NONE)
		return WEIR_FW_REASON_CONGESTION + 1;
	line = weir_state_line(home);
	if (!(line->control & WEIR_STATE_LIVE)) {
		weir_write_once(line->next, 0);
		weir_bucket_begin(home);
	} else if (weir_bucket_find(key, home, false) != WEIR_FOUND_NONE ||
		   weir_bucket_find(key, home, true) != WEIR_FOUND_NONE) {
		weir_state_unlock(home, line->control);
		return WEIR_FW_REASON_STATE_INSERT + 1;
	} else {
		weir_bucket_reap(home);
		if (!(line->control & WEIR_STATE_LIVE))
			weir_bucket_begin(home);
	}
	weir_write_once(s->next, line->next);
	weir_write_once(s->control, control);
	weir_write_once(line->next, slot);
	weir_state_unlock(home, line->control);
	return 0;
}

/*
 * Makes the alias for a packet at the hook of its direction: `p` has the inside key, `key` the one
 * on the wire, with its hash; `is_counted`: among the states of the rule. Returns its slot, or the
 * reason of a drop + 1 as a negative number.
 */
__noinline int weir_alias_make(const struct weir_fw_packet *p __arg_nonnull,
			       const struct weir_fw_packet *key __arg_nonnull, __u32 reverse,
			       __u32 rule, __u32 is_counted)
{
	__u32 slot = weir_slot_take(), addresses = 0, control;
	int drop;

	if (!slot)
		return -(WEIR_FW_REASON_MEMORY + 1);
	if (p->family != WEIR_FW_INET) {
		addresses = weir_slot_take();
		if (!addresses) {
			weir_slot_give(slot);
			return -(WEIR_FW_REASON_MEMORY + 1);
		}
	}
	control = WEIR_STATE_LIVE | WEIR_STATE_ALIAS |
		  (weir_half_of(p, reverse) ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A) |
		  (addresses ? WEIR_STATE_IPV6 : 0) |
		  (__u32)p->protocol << WEIR_STATE_PROTOCOL_SHIFT;
	weir_alias_fill(slot, addresses, p, key, reverse, rule);
	drop = weir_alias_hang(slot, control, key);
	if (drop) {
		if (addresses)
			weir_slot_give(addresses);
		weir_slot_give(slot);
		return -drop;
	}
	if (is_counted)
		weir_alias_at(slot)->is_counted = weir_alias_count(p, rule);
	__sync_fetch_and_add(&weir_fw_control()->alias_count, 1);
	weir_fw_table_counters(p->cpu)->translations++;
	return slot;
}

/* Takes an alias back that was made for a key with this hash, and that no record has got. */
__noinline int weir_alias_take_back(__u32 slot, __u64 hash, __u32 cpu)
{
	__u32 home;

	weir_alias_end(slot);
	home = weir_state_lock_bucket(hash, cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return 0;
	if (weir_state_line(home)->control & WEIR_STATE_LIVE)
		weir_bucket_reap(home);
	weir_state_unlock(home, weir_state_line(home)->control);
	return 0;
}

/*
 * Gives a record the alias of a half, which it does not have yet; returns its control word. What
 * the record counts, the first of its aliases counts from then on.
 */
static __always_inline __u32 weir_alias_attach(weir_line *s, __u32 control, __u32 half,
					       __u32 alias)
{
	weir_line *counter = s, *a = weir_state_line(alias);

	half &= 1;
	if (control & WEIR_STATE_TRANSLATED)
		counter = weir_state_line(s->count[0] ? s->count[0] : s->count[1]);
	if (counter == s || !half) {
		a->count[0] = counter->count[0];
		a->count[1] = counter->count[1];
	}
	if (counter == s) {
		s->count[0] = 0;
		s->count[1] = 0;
	}
	s->count[half] = alias;
	return control | WEIR_STATE_TRANSLATED;
}

#endif /* WEIR_FW_ALIAS_H */

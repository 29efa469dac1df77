/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Translation of addresses, as rules say it and states keep it.
 *
 * Where a packet comes in its destination is translated, where it leaves its source, and nothing
 * else. FreeBSD's lists are asked before all other rules, and the first rule of a list that matches
 * counts; OpenBSD's `match` rules translate as they match, so that the rules behind them see it,
 * and what decides translates at the end. A state keeps what was decided for each of its halves as
 * long as it lives (alias.h).
 *
 * While a packet is judged, its descriptor has the ends that it is going to have (its source where
 * it leaves only until a state is made, which is found by the inside ones). The frame is written
 * last, and once (rewrite.h): until then, it has the ends that the packet came with.
 */
#ifndef WEIR_FW_TRANSLATE_H
#define WEIR_FW_TRANSLATE_H

#include <weir/fw/alias.h>
#include <weir/fw/family_choose.h>
#include <weir/fw/image.h>
#include <weir/fw/insert.h>
#include <weir/fw/parse.h>
#include <weir/fw/pool.h>
#include <weir/fw/quoted.h>
#include <weir/fw/rules.h>
#include <weir/fw/scratch.h>

/* A descriptor of nothing but the ends of a packet. */
static __always_inline void weir_key_of(struct weir_fw_packet *key, const struct weir_fw_packet *p)
{
	key->family = p->family;
	key->protocol = p->protocol;
	key->cpu = p->cpu;
	key->src_port = p->src_port;
	key->dst_port = p->dst_port;
	weir_copy_address(key->src, p->src);
	weir_copy_address(key->dst, p->dst);
}

/* Gives a packet the ends back that it had before rules translated it here. */
static __always_inline void weir_fw_untranslate(struct weir_fw_packet *p,
						struct weir_fw_before *before)
{
	if (!before->is_translated)
		return;
	weir_copy_address(p->src, before->src);
	weir_copy_address(p->dst, before->dst);
	p->src_port = before->src_port;
	p->dst_port = before->dst_port;
	p->hash = before->hash;
	p->flags = (p->flags & ~WEIR_PACKET_TRANSLATED) | before->flags;
	before->is_translated = 0;
}

/*
 * Chooses the ends that the translation at an offset, of the rule of an id, gives to a packet: in
 * the CPU's scratch. 0, or the reason of a drop + 1.
 */
__noinline int weir_fw_choose_ends(struct weir_fw_packet *p __arg_nonnull, __u32 at, __u32 rule)
{
	struct weir_fw_translation __weir_arena *t = weir_at(struct weir_fw_translation, at);
	bool is_source = t->flags & WEIR_FW_TRANSLATION_SOURCE;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *key;
	__u64 turn;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	/* It has no ports, and leaves as its first fragment, which has not come, or not at all. */
	if (p->flags & WEIR_PACKET_LATER_FRAGMENT)
		return WEIR_DROP(MAP_FAILED);
	key = &scratch->wire;
	weir_key_of(key, p);
	if (is_source && weir_pool_is_mapped(p, t)) {
		if (scratch->before.is_translated) {
			weir_copy_address(key->src, scratch->before.src);
			key->src_port = scratch->before.src_port;
		}
		if (weir_pool_mapped(key))
			return weir_key_is_free(key) ? 0 : WEIR_DROP(MAP_FAILED);
	}
	turn = weir_pool_turn(p, t);
	if (!(is_source ? weir_pool_source(p, key, at, turn, rule) :
			  weir_pool_pick(p, key, at, turn, rule)))
		return WEIR_DROP(MAP_FAILED);
	if (!is_source)
		key->dst_port = weir_pool_redirected(p, t);
	return 0;
}

/* Gives a packet the ends that the translation at an offset, of a rule, has chosen for it. */
__noinline int weir_fw_take_ends(struct weir_fw_packet *p __arg_nonnull, __u32 at, __u32 rule)
{
	struct weir_fw_translation __weir_arena *t = weir_at(struct weir_fw_translation, at);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_before *before;
	struct weir_fw_packet *key;
	__u32 differ, i;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	before = &scratch->before;
	key = &scratch->wire;
	differ = (__u32)(key->src_port ^ p->src_port) | (key->dst_port ^ p->dst_port);
	for (i = 0; i < 4; i++)
		differ |= (key->src[i] ^ p->src[i]) | (key->dst[i] ^ p->dst[i]);
	/* A translation that changes nothing is none. */
	if (!differ)
		return 0;
	/* What another rule has translated before cannot be chosen again by this one alone. */
	before->chosen_at = !before->is_translated && weir_pool_chooses(p, t) ? at : 0;
	if (!before->is_translated) {
		weir_copy_address(before->src, p->src);
		weir_copy_address(before->dst, p->dst);
		before->src_port = p->src_port;
		before->dst_port = p->dst_port;
		before->hash = p->hash;
		before->flags = p->flags & WEIR_PACKET_TRANSLATED;
		before->is_translated = 1;
	}
	before->rule = rule;
	before->is_listed = 0;
	before->uses = (weir_pool_is_mapped(p, t) ? WEIR_ALIAS_MAPPED : 0) |
		       (t->choice == WEIR_FW_CHOICE_LEAST_STATES ? WEIR_ALIAS_OF_POOL : 0);
	if (before->uses & WEIR_ALIAS_OF_POOL && t->flags & WEIR_FW_TRANSLATION_SOURCE)
		before->uses |= WEIR_ALIAS_OF_SOURCES;
	weir_copy_address(p->src, key->src);
	weir_copy_address(p->dst, key->dst);
	p->src_port = key->src_port;
	p->dst_port = key->dst_port;
	p->flags |= WEIR_PACKET_TRANSLATED;
	/* Nor are several that end where the first one began. */
	if (weir_fw_same_address(p->src, before->src) &&
	    weir_fw_same_address(p->dst, before->dst) && p->src_port == before->src_port &&
	    p->dst_port == before->dst_port) {
		weir_fw_untranslate(p, before);
		return 0;
	}
	/* Where it leaves, its state is found by what it was before. */
	if (p->direction == WEIR_FW_IN)
		p->hash = weir_fw_hash(p);
	return 0;
}

/*
 * Translates a packet as the translation at an offset says, for the rule of an id. 0, or the
 * reason of a drop + 1.
 */
static __always_inline int weir_fw_translate_by(struct weir_fw_packet *p, __u32 at, __u32 rule)
{
	int drop = weir_fw_choose_ends(p, at, rule);

	return drop ? drop : weir_fw_take_ends(p, at, rule);
}

/* What weir_fw_ask_lists() returns besides reasons + 1. */
#define WEIR_FW_LISTS_PASS (-1)

/*
 * FreeBSD's lists for the hook of a packet: `rdr` and then `binat`, or `binat` and then `nat`. A
 * `no` rule ends its list. 0, WEIR_FW_LISTS_PASS if no other rule is to be asked, or the reason of
 * a drop + 1.
 */
__noinline int weir_fw_ask_lists(struct weir_fw_packet *p __arg_nonnull,
				 struct weir_fw_walk *walk __arg_nonnull,
				 struct weir_fw_decision *d __arg_nonnull)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	bool is_in = p->direction == WEIR_FW_IN;
	__u32 first = is_in ? image->rule_count : image->binat_in_end;
	__u32 middle = is_in ? image->rdr_end : image->binat_out_end;
	__u32 end = is_in ? image->binat_in_end : image->nat_end;
	struct weir_fw_rule __weir_arena *rule;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 number, at, flags, list;
	int drop;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	for (list = 0; list < 2; list++) {
		number = weir_fw_first_of(p, walk, list ? middle : first, list ? end : middle);
		if (!number)
			continue;
		number--;
		rule = weir_fw_list_rule(p, walk, number);
		at = weir_fw_translation_of(p->ruleset, number);
		if (!at)
			continue;
		flags = weir_at(struct weir_fw_translation, at)->flags;
		if (flags & WEIR_FW_TRANSLATION_NO)
			continue;
		drop = weir_fw_translate_by(p, at, rule->id);
		if (drop)
			return drop;
		if (!scratch->before.is_translated)
			return 0;
		scratch->before.is_listed = 1;
		if (rule->log) {
			weir_fw_rule_logs(rule, d);
			d->flags |= rule->decision & WEIR_DECISION_LOG_ALL;
		}
		return flags & WEIR_FW_TRANSLATION_PASS ? WEIR_FW_LISTS_PASS : 0;
	}
	return 0;
}

/* Nothing is left of what rules have said but that the packet is dropped, and logged. */
static __always_inline void weir_fw_refuse_translation(struct weir_fw_decision *d, int drop)
{
	d->flags = (d->flags & WEIR_DECISION_LOG) | WEIR_DECISION_BLOCK;
	d->reason = drop - 1;
}

/*
 * Makes the alias of a packet that rules have translated at this hook, which has the inside ends
 * from then on; `maker` is the id of the rule that makes the state's half. Returns its slot, or the
 * reason of a drop + 1 as a negative number.
 */
__noinline int weir_fw_make_alias(struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_hit *hit __arg_nonnull, __u32 maker)
{
	__u32 reverse = hit->slot == WEIR_FW_SLOT_NONE ? 0 : hit->reverse;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_before *before;
	struct weir_fw_packet *key;
	int slot;

	if (!scratch)
		return -WEIR_DROP(INTERNAL);
	before = &scratch->before;
	key = &scratch->wire;
	weir_key_of(key, p);
	if (p->direction == WEIR_FW_IN) {
		weir_copy_address(key->dst, before->dst);
		key->dst_port = before->dst_port;
	} else {
		weir_fw_untranslate(p, before);
	}
	key->hash = weir_fw_hash(key);
	slot = weir_alias_make(p, key, reverse, before->rule, before->rule != maker);
	if (slot > 0 && before->uses)
		weir_uses_take(slot, before->uses);
	return slot;
}

/* Attempts to give a packet a port that another CPU has not taken at the same moment. */
#define WEIR_FW_CHOICES_MAX 3

/*
 * As weir_fw_make_alias(). A port is chosen without a lock: where another CPU has taken the one
 * that was free just now, another is chosen.
 */
static __always_inline int weir_fw_make_chosen_alias(struct weir_fw_packet *p,
						     const struct weir_fw_hit *hit,
						     struct weir_fw_scratch *scratch)
{
	int alias = weir_fw_make_alias(p, hit, scratch->decision.rule);
	__u32 i;

	for (i = weir_fw_bound(1); i < WEIR_FW_CHOICES_MAX && weir_fw_may_loop; i++) {
		if (alias != -WEIR_DROP(STATE_INSERT) || !scratch->before.chosen_at)
			break;
		if (weir_fw_translate_by(p, scratch->before.chosen_at, scratch->before.rule) ||
		    !scratch->before.is_translated)
			break;
		alias = weir_fw_make_alias(p, hit, scratch->decision.rule);
	}
	return alias;
}

/* A packet on its way out gets the source that its state has for the wire. */
static __always_inline void weir_fw_translate_out(struct weir_fw_packet *p,
						  const struct weir_fw_hit *hit)
{
	const __u32 either = WEIR_PACKET_FOLLOWS | WEIR_PACKET_FOLLOWS_TRANSLATED;
	struct weir_fw_scratch *scratch;

	/* Its first fragment may have left before there was a state. */
	if (!(hit->flags & WEIR_HIT_TRANSLATED) || (p->flags & either) == WEIR_PACKET_FOLLOWS)
		return;
	p->flags |= WEIR_PACKET_TRANSLATED;
	if (!(p->flags & WEIR_PACKET_ICMP_ERROR)) {
		weir_copy_address(p->src, hit->wire);
		p->src_port = hit->wire_port;
		return;
	}
	scratch = weir_fw_scratch();
	if (!scratch)
		return;
	/* An error has the address of the end that it tells of, whoever has sent it, as in pf. */
	if (!weir_fw_same_address(scratch->quoted.src, hit->wire))
		weir_copy_address(p->src, hit->wire);
	weir_copy_address(scratch->quoted.src, hit->wire);
	scratch->quoted.src_port = hit->wire_port;
}

#endif /* WEIR_FW_TRANSLATE_H */

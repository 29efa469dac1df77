/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slow path of both hooks: what a packet meets that no state covers.
 */
#ifndef WEIR_FW_JUDGE_H
#define WEIR_FW_JUDGE_H

#include <weir/fw/dup.h>
#include <weir/fw/gateway.h>
#include <weir/fw/os.h>
#include <weir/fw/owner.h>
#include <weir/fw/parse.h>
#include <weir/fw/routable.h>
#include <weir/fw/rules.h>
#include <weir/fw/scratch.h>
#include <weir/fw/scrub.h>
#include <weir/fw/state.h>
#include <weir/fw/translate.h>

static __always_inline void weir_fw_hit_none(struct weir_fw_hit *hit)
{
	__builtin_memset(hit, 0, sizeof(*hit));
	hit->slot = WEIR_FW_SLOT_NONE;
}

/* Whether a hook is covered by the packet's state. */
static __always_inline bool weir_fw_is_covered(const struct weir_fw_packet *p,
					       const struct weir_fw_hit *hit)
{
	if (p->direction == WEIR_FW_IN)
		return hit->covered[WEIR_FW_IN];
	return weir_state_covers_out(p, hit);
}

/* The half of the packet's state that covers p->direction: 0 is A, 1 is B. */
static __always_inline __u32 weir_fw_half(const struct weir_fw_packet *p,
					  const struct weir_fw_hit *hit)
{
	return (p->direction == WEIR_FW_OUT) ^ (hit->reverse & 1);
}

/* Whether the rule of the half that covers p->direction logs every packet. */
static __always_inline bool weir_fw_logs_all(const struct weir_fw_packet *p,
					     const struct weir_fw_hit *hit)
{
	return hit->flags & (weir_fw_half(p, hit) ? WEIR_HIT_LOG_ALL_B : WEIR_HIT_LOG_ALL_A);
}

/*
 * Whether a packet has IP options that the half which covers p->direction does not allow. What the
 * first fragment may have the later ones may have.
 */
static __always_inline bool weir_fw_has_wrong_options(const struct weir_fw_packet *p,
						      const struct weir_fw_hit *hit)
{
	const __u32 wanted = WEIR_PACKET_OPTIONS | WEIR_PACKET_FOLLOWS;

	if ((p->flags & wanted) != WEIR_PACKET_OPTIONS)
		return false;
	return !(hit->flags & (weir_fw_half(p, hit) ? WEIR_HIT_ALLOW_OPTIONS_B :
						      WEIR_HIT_ALLOW_OPTIONS_A));
}

/*
 * Why a state does not let a packet through that it covers at p->direction: the reason + 1; 0: it
 * does. A rule's rate is that of the packets from who has made the state, which has counted and
 * followed them by now; pf drops what is too much before that.
 */
static __always_inline int weir_fw_refused_by_state(const struct weir_fw_packet *p,
						    const struct weir_fw_hit *hit)
{
	const __u32 others = WEIR_PACKET_FOLLOWS | WEIR_PACKET_ICMP_ERROR;

	if (hit->flags & WEIR_HIT_WATCHED && !(hit->reverse & 1) && !(p->flags & others) &&
	    weir_rate_is_over(p, hit->rule[weir_fw_half(p, hit) & 1]))
		return WEIR_DROP(PKT_RATE);
	return weir_fw_has_wrong_options(p, hit) ? WEIR_DROP(IP_OPTION) : 0;
}

/* What a state does with a packet that it covers at p->direction: it is counted, and changed. */
static __always_inline void weir_fw_apply_state(const struct weir_fw_packet *p,
						const struct weir_fw_hit *hit)
{
	__u32 half = weir_fw_half(p, hit);

	if (hit->flags & WEIR_HIT_WATCHED) {
		weir_counted_packet(p, hit->rule[half & 1],
				    hit->reverse & 1 ? WEIR_COUNTED_REVERSE : 0);
		weir_dup_by(p, hit->rule[half & 1]);
	}
	weir_fw_scrub_by_state(hit, half);
}

/* Finds what rules ask of systems, sockets and routes, if they do. */
static __always_inline void weir_fw_ask_kernel(void *ctx, bool is_skb, struct weir_fw_packet *p)
{
	if (weir_fw_asks_system(p)) {
		if (is_skb)
			weir_fw_system_skb(ctx, p);
		else
			weir_fw_system_ingress(ctx, p);
	}
	if (weir_fw_asks_owner(p)) {
		if (is_skb)
			weir_owner_skb(ctx, p);
		else
			weir_owner_ingress(ctx, p);
	}
	if (!weir_fw_asks_routes(p))
		return;
	if (is_skb)
		weir_fw_routes_skb(ctx, p);
	else
		weir_fw_routes_ingress(ctx, p);
}

/*
 * The rules behind the lists. In the caller itself, as what calls it: programs call functions eight
 * deep at most, and rules need most of that. 0, or the reason of a drop + 1 that no rule has asked
 * for.
 */
static __always_inline int weir_fw_ask_rules(void *ctx, bool is_skb, struct weir_fw_packet *p,
					     struct weir_fw_walk *walk, struct weir_fw_decision *d)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	__u32 at, number;
	int drop;

	while (weir_fw_walk_rules(p, walk, d) && weir_fw_may_loop) {
		number = walk->translator - 1;
		at = p->ruleset + image->rules_at + number * (__u32)sizeof(struct weir_fw_rule);
		drop = weir_fw_translate_by(p, weir_fw_translation_of(p->ruleset, number),
					    weir_at(struct weir_fw_rule, at)->id);
		if (drop)
			return drop;
		/* It is another packet now: of it tables and the kernel are asked again. */
		weir_fw_ask_kernel(ctx, is_skb, p);
		walk->asking.known[0] = 0;
		walk->asking.known[1] = 0;
		walk->asking.held[0] = 0;
		walk->asking.held[1] = 0;
	}
	if (walk->refused || !walk->winner)
		return 0;
	number = walk->winner - 1;
	at = weir_fw_translation_of(p->ruleset, number);
	if (!at)
		return 0;
	if (weir_at(struct weir_fw_translation, at)->flags & WEIR_FW_TRANSLATION_FAMILY)
		return weir_family_choose(p, at);
	number = p->ruleset + image->rules_at + number * (__u32)sizeof(struct weir_fw_rule);
	return weir_fw_translate_by(p, at, weir_at(struct weir_fw_rule, number)->id);
}

/*
 * As weir_fw_evaluate(), for a ruleset that translates; the decision is all zero but for its tag.
 * FreeBSD keeps state of every packet that it translates, and its lists translate ICMP errors
 * without one; OpenBSD translates only what keeps state.
 */
static __always_inline void weir_fw_ask_translating(void *ctx, bool is_skb,
						    struct weir_fw_packet *p,
						    struct weir_fw_scratch *scratch)
{
	const __u32 stateless = WEIR_PACKET_UNTRACKED | WEIR_PACKET_ICMP_ERROR;
	struct weir_fw_decision *d = &scratch->decision;
	struct weir_fw_walk *walk = &scratch->walk;
	bool is_judged = weir_fw_begin(p, walk, d), is_logged;
	__u32 log_rule;
	int drop = 0;

	if (!(weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OPENBSD)) {
		drop = weir_fw_ask_lists(p, walk, d);
		if (walk->list_tag) {
			d->tag = walk->list_tag;
			d->kept_tag = walk->list_tag;
		}
		if (drop > 0) {
			weir_fw_refuse_translation(d, drop);
			return;
		}
		is_logged = d->flags & WEIR_DECISION_LOG;
		log_rule = d->log_rule;
		/* It is another packet now. */
		if (scratch->before.is_translated)
			weir_fw_ask_kernel(ctx, is_skb, p);
		is_judged = weir_fw_begin(p, walk, d);
		if (scratch->before.is_translated)
			weir_copy_address(walk->limited.source, scratch->before.src);
		if (is_logged)
			d->log_rule = log_rule;
	}
	if (drop != WEIR_FW_LISTS_PASS && is_judged) {
		drop = weir_fw_ask_rules(ctx, is_skb, p, walk, d);
		if (drop) {
			weir_fw_untranslate(p, &scratch->before);
			weir_fw_refuse_translation(d, drop);
			return;
		}
		weir_fw_end(p, walk, d);
	}
	if (scratch->before.is_translated && !(p->flags & stateless) &&
	    !(weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OPENBSD) &&
	    !(d->flags & (WEIR_DECISION_BLOCK | WEIR_DECISION_KEEP_STATE)))
		d->flags |= WEIR_DECISION_KEEP_STATE |
			    (weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_BOUND ?
				     WEIR_DECISION_IF_BOUND :
				     0);
	weir_fw_count_decided(p, d);
	weir_fw_refuse_options(p, d);
	if (!scratch->before.is_translated || d->flags & WEIR_DECISION_BLOCK)
		return;
	/* Without a state only lists translate. */
	if (!(d->flags & WEIR_DECISION_KEEP_STATE) && !scratch->before.is_listed)
		weir_fw_untranslate(p, &scratch->before);
}

/*
 * Asks the rules of p->direction; what they say stands in the CPU's scratch. In the caller itself:
 * what rules need of the stack begins where that of the program ends.
 */
static __always_inline void weir_fw_ask(void *ctx, bool is_skb, struct weir_fw_packet *p,
					const struct weir_fw_hit *hit)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!scratch)
		return;
	__builtin_memset(&scratch->decision, 0, sizeof(scratch->decision));
	scratch->decision.tag = p->tag;
	/* An error is about a record, and no packet of it. */
	if (hit->slot != WEIR_FW_SLOT_NONE && !(p->flags & WEIR_PACKET_ICMP_ERROR))
		scratch->decision.record = (hit->slot + 1) << 1 | (hit->reverse & 1);
	scratch->before.is_translated = 0;
	scratch->before.changes_family = 0;
	weir_fw_ask_kernel(ctx, is_skb, p);
	if (p->ruleset && weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_TRANSLATES)
		weir_fw_ask_translating(ctx, is_skb, p, scratch);
	else
		weir_fw_evaluate(p, &scratch->walk, &scratch->decision);
	p->tag = scratch->decision.tag;
}

/*
 * Whether a packet's state is looked for. A piece of a packet that none would know follows its
 * first one, but that may be translated, changed or copied by its state.
 */
static __always_inline bool weir_fw_is_looked_up(const struct weir_fw_packet *p)
{
	return !(p->flags & WEIR_PACKET_UNTRACKED) ||
	       (p->flags & WEIR_PACKET_FOLLOWS &&
		(weir_fw_translates() || weir_fw_scrubs_states() || weir_fw_copies(p)));
}

/* Fragments without ports, and errors about other flows, make no state. */
static __always_inline bool weir_fw_makes_state(const struct weir_fw_packet *p,
						const struct weir_fw_decision *d)
{
	return d->flags & WEIR_DECISION_KEEP_STATE &&
	       !(p->flags & (WEIR_PACKET_UNTRACKED | WEIR_PACKET_ICMP_ERROR));
}

/* `reassemble tcp` of a rule, or of FreeBSD's list, is for connections that begin under it. */
static __always_inline void weir_fw_begin_timestamps(const struct weir_fw_packet *p,
						     struct weir_fw_scratch *scratch)
{
	__u64 *word = &scratch->decision.scrub;

	if (!((*word | scratch->scrub[0]) & WEIR_SCRUB_REASSEMBLE))
		return;
	*word &= ~WEIR_SCRUB_REASSEMBLE;
	if (p->protocol == WEIR_PROTOCOL_TCP && weir_tcp_opens(p->tcp_flags))
		*word |= WEIR_SCRUB_TIMESTAMPS;
}

/* Keeps state as a decision asks; 0, or the reason of the drop + 1. */
static __always_inline int weir_fw_keep(struct weir_fw_packet *p, struct weir_fw_hit *hit,
					struct weir_fw_scratch *scratch)
{
	__u32 number = 0;
	int alias = 0, drop;

	if (!weir_fw_makes_state(p, &scratch->decision)) {
		if (scratch->before.changes_family)
			return WEIR_DROP(AF_TO);
		/* The rules have changed since the box has answered. */
		return p->flags & WEIR_PACKET_PROXIED && hit->slot == WEIR_FW_SLOT_NONE ?
			       WEIR_DROP(STATE_MISMATCH) :
			       0;
	}
	weir_fw_begin_timestamps(p, scratch);
	if (scratch->decision.scrub)
		number = weir_scrub_keep(scratch->decision.scrub);
	/* What there is no room for is done to the first packet alone; or to none. */
	scratch->decision.scrub_number = number;
	if (!number)
		scratch->decision.scrub &= ~WEIR_SCRUB_TIMESTAMPS;
	if (scratch->before.is_translated | scratch->before.changes_family) {
		alias = scratch->before.changes_family ?
				weir_family_make_alias(p, scratch->decision.rule) :
				weir_fw_make_chosen_alias(p, hit, scratch);
		/* Limits come first, as in pf: they are asked where the state would be made. */
		if (alias == -WEIR_DROP(STATE_INSERT)) {
			scratch->decision.flags |= WEIR_DECISION_TAKEN;
			alias = 0;
		}
		if (alias < 0)
			return -alias;
	}
	scratch->decision.alias = alias;
	drop = weir_state_insert(p, &scratch->decision, hit);
	if (drop && alias)
		weir_alias_take_back(alias,
				     scratch->before.changes_family ? scratch->other.hash :
								      scratch->wire.hash,
				     p->cpu);
	return drop;
}

/* Whether a drop is that of a packet of which no state could be made as rules ask. */
static __always_inline bool weir_fw_is_failure(int drop)
{
	return drop == WEIR_DROP(STATE_LIMIT) || drop == WEIR_DROP(SRC_LIMIT) ||
	       drop == WEIR_DROP(STATE_INSERT) || drop == WEIR_DROP(MEMORY);
}

/* Whether rules have said that a packet which is dropped for a reason is answered. */
static __always_inline bool weir_fw_is_answered(int drop, const struct weir_fw_decision *d)
{
	return (drop == WEIR_DROP(MATCH) || weir_fw_is_failure(drop)) &&
	       d->flags & (WEIR_DECISION_RETURN_RST | WEIR_DECISION_RETURN_ICMP);
}

/*
 * Of a packet that a rule has passed, and of which no state could be made: what `set fail-policy`
 * answers. No answer where a list alone has passed it (`pf_test_rule` of pf.c).
 */
__noinline int weir_fw_answer_failure(const struct weir_fw_packet *p __arg_nonnull,
				      struct weir_fw_decision *d __arg_nonnull)
{
	bool openbsd = weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OPENBSD;

	if (d->rule_at)
		weir_fw_answer(p, weir_at(struct weir_fw_rule, d->rule_at), d, openbsd, false);
	return 0;
}

/*
 * Does what the decision in the CPU's scratch says of states. Returns 0, or the reason of the drop
 * + 1: the decision says what to log, and how to answer; the packet then has the ends that it had
 * before it was translated here.
 */
static __always_inline int weir_fw_obey(struct weir_fw_packet *p, struct weir_fw_hit *hit,
					struct weir_fw_scratch *scratch)
{
	struct weir_fw_decision *d = &scratch->decision;
	int drop;

	if (d->flags & WEIR_DECISION_BLOCK)
		drop = d->reason + 1;
	else if (p->flags & WEIR_PACKET_OPTIONS && !(d->flags & WEIR_DECISION_ALLOW_OPTIONS))
		drop = WEIR_DROP(IP_OPTION);
	else
		drop = weir_gateway_choose(p, d);
	if (!drop) {
		if (d->scrub & WEIR_SCRUB_DIRECTED && hit->reverse & 1)
			d->scrub = weir_queues_turn(d->scrub);
		drop = weir_fw_keep(p, hit, scratch);
		if (weir_fw_is_failure(drop))
			weir_fw_answer_failure(p, d);
	}
	if (drop) {
		weir_fw_untranslate(p, &scratch->before);
		return drop;
	}
	scratch->scrub[0] = weir_scrub_join(scratch->scrub[0], d->scrub);
	if (d->routing_table)
		p->routing_table = d->routing_table;
	weir_dup_by(p, d->rule);
	/* What makes no state goes there all the same. */
	if (d->gateway && !weir_fw_makes_state(p, d)) {
		p->gateway = d->gateway;
		p->flags |= WEIR_PACKET_ROUTED;
	}
	return 0;
}

#endif /* WEIR_FW_JUDGE_H */

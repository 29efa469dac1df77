/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The slow path of both hooks: what a packet meets that no state covers.
 */
#ifndef WEIR_FW_JUDGE_H
#define WEIR_FW_JUDGE_H

#include <weir/fw/parse.h>
#include <weir/fw/rules.h>
#include <weir/fw/scratch.h>
#include <weir/fw/state.h>

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
 * Asks the rules of p->direction; what they say stands in the CPU's scratch. In the caller itself:
 * what rules need of the stack begins where that of the program ends.
 */
static __always_inline void weir_fw_ask(struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!scratch)
		return;
	__builtin_memset(&scratch->decision, 0, sizeof(scratch->decision));
	scratch->decision.tag = p->tag;
	weir_fw_evaluate(p, &scratch->walk, &scratch->decision);
	p->tag = scratch->decision.tag;
}

/*
 * Keeps state as a decision says. Returns 0, or the reason of the drop + 1; the decision says what
 * to log, and how to answer.
 */
static __always_inline int weir_fw_obey(struct weir_fw_packet *p, struct weir_fw_hit *hit,
					const struct weir_fw_decision *d)
{
	int drop;

	if (d->flags & WEIR_DECISION_BLOCK)
		return d->reason + 1;
	if (p->flags & WEIR_PACKET_OPTIONS && !(d->flags & WEIR_DECISION_ALLOW_OPTIONS))
		return WEIR_DROP(IP_OPTION);
	/* Fragments without ports, and errors about other flows, make no state. */
	if (d->flags & WEIR_DECISION_KEEP_STATE &&
	    !(p->flags & (WEIR_PACKET_UNTRACKED | WEIR_PACKET_ICMP_ERROR))) {
		drop = weir_state_insert(p, d, hit);
		if (drop)
			return drop;
	}
	if (d->routing_table)
		p->routing_table = d->routing_table;
	return 0;
}

#endif /* WEIR_FW_JUDGE_H */

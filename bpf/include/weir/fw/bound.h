/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules that end: `once` by its first match, `max-pkt-rate` as long as there are too many packets
 * (pf.conf(5); pf_match_rule(), pf_add_threshold() and pf_find_state() of OpenBSD's pf.c). What
 * they have had stands beside their counters, so that it lives as long as the rule and not as its
 * image.
 */
#ifndef WEIR_FW_BOUND_H
#define WEIR_FW_BOUND_H

#include <weir/fw/clock.h>
#include <weir/fw/image.h>
#include <weir/fw/loop.h>

/* A packet's weight, so that its fading is exact to a thousandth: PF_THRESHOLD_MULT. */
#define WEIR_RATE_PACKET 1000u
/* A word of which other CPUs have the better this often is let be: one packet is not counted. */
#define WEIR_RATE_TRIES 8

/* A CPU's coarse clock may be behind that of another by so many ticks. */
#define WEIR_RATE_BEHIND_TICKS 16u

/* The word with one packet more: the tick of the last one << 32 | packets that have not faded. */
static __always_inline __u64 weir_rate_add(__u64 word, __u32 tick, __u64 window_ticks)
{
	__u64 count = (__u32)word;
	__u32 passed = tick - (__u32)(word >> 32);

	if (passed >= -WEIR_RATE_BEHIND_TICKS) {
		tick += -passed;
		passed = 0;
	}
	count = passed < window_ticks ? count - count * passed / window_ticks : 0;
	count += WEIR_RATE_PACKET;
	if (count > 0xffffffffu)
		count = 0xffffffffu;
	return (__u64)tick << 32 | count;
}

/* Counts a packet of a rule, by its id, and says whether there are too many. */
__noinline int weir_rate_is_over(const struct weir_fw_packet *p __arg_nonnull, __u32 rule)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	__u32 first = weir_fw_counters_of(p->ruleset, rule, 0), tries;
	struct weir_fw_rate __weir_arena *rate;
	__u64 __weir_arena *word;
	__u64 before, after = 0, window_ticks;

	/* Behind weir_fw_counters_of() the id is one of the image. */
	if (!first || !(image->flags & WEIR_FW_IMAGE_RATES))
		return 0;
	rate = weir_at(struct weir_fw_rate,
		       p->ruleset + image->rates_at + rule * (__u32)sizeof(*rate));
	if (!rate->count)
		return 0;
	window_ticks = (__u64)rate->seconds * weir_fw_second_ticks();
	word = &weir_at(struct weir_fw_rule_counters, first)->packet_rate;
	for (tries = 0; tries < WEIR_RATE_TRIES && weir_fw_may_loop; tries++) {
		before = *word;
		after = weir_rate_add(before, p->tick, window_ticks);
		if (__sync_val_compare_and_swap(word, before, after) == before)
			break;
	}
	return (__u32)after > (__u64)rate->count * WEIR_RATE_PACKET;
}

/*
 * Whether a rule whose criteria hold does not match any more. It counts this match, so it is the
 * last thing that is asked. A function of its own, so that the verifier need not go on from each of
 * its ways.
 */
__noinline int weir_rule_has_ended(const struct weir_fw_packet *p __arg_nonnull, __u32 rule_at)
{
	struct weir_fw_rule __weir_arena *rule = weir_at(struct weir_fw_rule, rule_at);
	__u32 first;

	if (rule->decision & WEIR_DECISION_RATED && weir_rate_is_over(p, rule->id))
		return 1;
	if (!(rule->decision & WEIR_DECISION_ONCE))
		return 0;
	first = weir_fw_counters_of(p->ruleset, rule->id, 0);
	/* One CPU alone is the first. */
	return first && __sync_val_compare_and_swap(
				&weir_at(struct weir_fw_rule_counters, first)->is_spent, 0, 1);
}

#endif /* WEIR_FW_BOUND_H */

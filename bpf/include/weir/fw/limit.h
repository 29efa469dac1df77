/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of the number of states: `set limit states`, the part of it that is reserved, and `max` of
 * a rule. Counted before a record is made, so that no limit is ever passed.
 */
#ifndef WEIR_FW_LIMIT_H
#define WEIR_FW_LIMIT_H

#include <weir/fw/account.h>
#include <weir/fw/counters.h>
#include <weir/fw/image.h>
#include <weir/fw/table.h>

/* The rule's counters: of this CPU, and the count of its live states over all CPUs. */
static __always_inline struct weir_fw_rule_counters __weir_arena *
weir_limit_rule(const struct weir_fw_packet *p, const struct weir_fw_decision *d, __u32 cpu)
{
	return weir_at(struct weir_fw_rule_counters, weir_fw_counters_of(p->ruleset, d->rule, cpu));
}

/* One more state of the decision's rule, if its `max` allows it. */
static __always_inline bool weir_limit_take_rule(const struct weir_fw_packet *p,
						 const struct weir_fw_decision *d)
{
	__u32 live;

	if (!weir_fw_counters_of(p->ruleset, d->rule, 0))
		return true;
	live = __sync_fetch_and_add(&weir_limit_rule(p, d, 0)->states_live, 1);
	if (d->state_max && live >= d->state_max) {
		__sync_fetch_and_sub(&weir_limit_rule(p, d, 0)->states_live, 1);
		weir_fw_table_counters(p->cpu)->limits[WEIR_FW_LIMIT_STATES]++;
		return false;
	}
	weir_limit_rule(p, d, p->cpu)->states_created++;
	return true;
}

/* Takes back what weir_limit_take_rule() counted. */
static __always_inline void weir_limit_return_rule(const struct weir_fw_packet *p,
						   const struct weir_fw_decision *d)
{
	if (!weir_fw_counters_of(p->ruleset, d->rule, 0))
		return;
	__sync_fetch_and_sub(&weir_limit_rule(p, d, 0)->states_live, 1);
	weir_limit_rule(p, d, p->cpu)->states_created--;
}

/* Whether a further half of a record is one state more of its rule: it has not got this one yet. */
static __always_inline bool weir_limit_is_new(const struct weir_fw_decision *d, __u32 slot,
					      __u32 half)
{
	return weir_half_rule(weir_state_line(slot), slot, !half) != d->rule;
}

/* With how many states the table is full for a decision: `set limit states`, but for a reserve. */
static __always_inline __u64 weir_limit_of_table(const struct weir_fw_packet *p,
						 const struct weir_fw_decision *d)
{
	__u64 limit = weir_fw_image_of(p)->state_limit;
	__u32 reserved = weir_fw_image_of(p)->reserved_count;

	if (d->flags & WEIR_DECISION_RESERVED)
		return limit;
	return limit > reserved ? limit - reserved : 0;
}

/* One more state of the table, if its limit allows it. */
static __always_inline bool weir_limit_take_table(const struct weir_fw_packet *p,
						  const struct weir_fw_decision *d)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();

	if (__sync_fetch_and_add(&control->state_count, 1) < weir_limit_of_table(p, d))
		return true;
	__sync_fetch_and_sub(&control->state_count, 1);
	return false;
}

/* Takes back what weir_limit_take_table() counted: there was no slot. */
static __always_inline void weir_limit_return_table(void)
{
	__sync_fetch_and_sub(&weir_fw_control()->state_count, 1);
}

#endif /* WEIR_FW_LIMIT_H */

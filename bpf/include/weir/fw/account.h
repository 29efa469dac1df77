/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a record says of its halves beside its line: the rule that made each, the tag that rules
 * gave the packet then, whether they allow IP options, log all, say no-sync and pflow, and what
 * they change in packets; when it was made; and what the line's counts could not hold. Never read
 * for a packet whose state covers it, but for one with options, of a rule that logs all, or that is
 * changed.
 *
 * TCP fills its line, and has all this in its account. A record of another protocol has it in the
 * line (struct weir_line_account), and uses its account only from the first time on that a count
 * outgrows the line: so that a new one costs one line of memory.
 */
#ifndef WEIR_FW_ACCOUNT_H
#define WEIR_FW_ACCOUNT_H

#include <weir/fw/arena.h>
#include <weir/fw/counters.h>
#include <weir/fw/headers.h>
#include <weir/fw/layout.h>

typedef struct weir_state __weir_arena weir_line;

static __always_inline struct weir_account __weir_arena *weir_account_at(__u32 slot)
{
	return weir_at(struct weir_account,
		       weir_fw_control()->accounts_at + slot * (__u32)sizeof(struct weir_account));
}

/* Only of a record that is not TCP's. */
static __always_inline struct weir_line_account __weir_arena *weir_line_account_of(weir_line *s)
{
	return (struct weir_line_account __weir_arena *)s->seq;
}

/* Whether a record has it all in its account, by its control word. */
static __always_inline bool weir_has_no_line_account(__u32 control)
{
	return (control >> WEIR_STATE_PROTOCOL_SHIFT & 0xff) == WEIR_PROTOCOL_TCP;
}

/* What is known of a half, 0 A or 1 B: WEIR_HALF_*. */
static __always_inline __u32 weir_half(weir_line *s, __u32 slot, __u32 half)
{
	struct weir_account __weir_arena *account;

	if (!weir_has_no_line_account(s->control))
		return weir_line_account_of(s)->half[half];
	account = weir_account_at(slot);
	return (__u32)(account->packets_rule[half] >> WEIR_ACCOUNT_RULE_SHIFT) |
	       (__u32)(account->bytes_created[half] >> WEIR_ACCOUNT_SCRUB_SHIFT &
		       WEIR_ACCOUNT_SCRUB_MASK)
		       << WEIR_HALF_SCRUB_SHIFT;
}

_Static_assert(WEIR_ACCOUNT_TAG_SHIFT - WEIR_ACCOUNT_RULE_SHIFT == WEIR_HALF_TAG_SHIFT &&
		       WEIR_ACCOUNT_RULE_SHIFT + WEIR_HALF_SCRUB_SHIFT == 64 &&
		       (int)WEIR_FW_SCRUB_COUNT_MAX <= (int)WEIR_ACCOUNT_SCRUB_MASK,
	       "an account has rule and tag as a half has them");

/* The id of the rule of a half. */
static __always_inline __u32 weir_half_rule(weir_line *s, __u32 slot, __u32 half)
{
	return weir_half(s, slot, half) & WEIR_FW_RULE_NONE;
}

/* The tag of a half; 0: none. */
static __always_inline __u32 weir_half_tag(weir_line *s, __u32 slot, __u32 half)
{
	return weir_half(s, slot, half) >> WEIR_HALF_TAG_SHIFT & WEIR_FW_TAG_COUNT_MAX;
}

/* The number of what packets of a half are changed by; 0: nothing. */
static __always_inline __u32 weir_half_scrub(weir_line *s, __u32 slot, __u32 half)
{
	return weir_half(s, slot, half) >> WEIR_HALF_SCRUB_SHIFT & WEIR_ACCOUNT_SCRUB_MASK;
}

/*
 * Whose half it is from now on (`maker` is WEIR_HALF_*): of a record with this control word, which
 * need not be written yet. Its packets stay.
 */
static __always_inline void weir_half_give(weir_line *s, __u32 slot, __u32 control, __u32 half,
					   __u32 maker)
{
	const __u64 packets_mask = (1ull << WEIR_ACCOUNT_RULE_SHIFT) - 1;
	const __u64 scrub_mask = (__u64)WEIR_ACCOUNT_SCRUB_MASK << WEIR_ACCOUNT_SCRUB_SHIFT;
	struct weir_account __weir_arena *account;

	if (!weir_has_no_line_account(control)) {
		weir_line_account_of(s)->half[half] = maker;
		return;
	}
	account = weir_account_at(slot);
	account->packets_rule[half] = (account->packets_rule[half] & packets_mask) |
				      (__u64)maker << WEIR_ACCOUNT_RULE_SHIFT;
	account->bytes_created[half] = (account->bytes_created[half] & ~scrub_mask) |
				       (__u64)(maker >> WEIR_HALF_SCRUB_SHIFT)
					       << WEIR_ACCOUNT_SCRUB_SHIFT;
}

/* A new record of TCP, at a tick: nothing is known of its halves. */
static __always_inline void weir_account_open(__u32 slot, __u32 tick)
{
	struct weir_account __weir_arena *account = weir_account_at(slot);
	const __u64 none = (__u64)WEIR_FW_RULE_NONE << WEIR_ACCOUNT_RULE_SHIFT;

	account->packets_rule[0] = none;
	account->packets_rule[1] = none;
	account->bytes_created[0] = (__u64)(tick & 0xffff) << WEIR_ACCOUNT_CREATED_SHIFT;
	account->bytes_created[1] = (__u64)(tick >> 16) << WEIR_ACCOUNT_CREATED_SHIFT;
}

/* A new record of another protocol. */
static __always_inline void weir_line_account_open(weir_line *s, __u32 tick)
{
	struct weir_line_account __weir_arena *line = weir_line_account_of(s);

	line->half[0] = WEIR_FW_RULE_NONE;
	line->half[1] = WEIR_FW_RULE_NONE;
	line->created_tick = tick;
	line->has_account = 0;
}

/* Whether anything stands in a record's account. */
static __always_inline bool weir_uses_account(weir_line *s)
{
	return weir_has_no_line_account(s->control) || weir_line_account_of(s)->has_account;
}

/* What an account has counted of the packets from an end, and of their bytes. */
static __always_inline __u64 weir_account_packets(weir_line *s, __u32 slot, __u32 end)
{
	const __u64 mask = (1ull << WEIR_ACCOUNT_RULE_SHIFT) - 1;

	return weir_uses_account(s) ? weir_account_at(slot)->packets_rule[end] & mask : 0;
}

static __always_inline __u64 weir_account_bytes(weir_line *s, __u32 slot, __u32 end)
{
	const __u64 mask = (1ull << WEIR_ACCOUNT_SCRUB_SHIFT) - 1;

	return weir_uses_account(s) ? weir_account_at(slot)->bytes_created[end] & mask : 0;
}

/* Adds to the lowest bits of a word; a count that they cannot hold stays at its largest. */
static __always_inline void weir_account_add(__u64 __weir_arena *word, __u32 bits, __u32 count)
{
	const __u64 mask = (1ull << bits) - 1;
	__u64 before = *word, sum = (before & mask) + count;

	*word = (before & ~mask) | (sum > mask ? mask : sum);
}

#endif /* WEIR_FW_ACCOUNT_H */

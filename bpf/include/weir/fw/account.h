/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a record's account says of its halves: the rule that made each, the tag that rules gave the
 * packet then, and whether they allow IP options. Never read for a packet whose state covers it, but
 * for one with options.
 */
#ifndef WEIR_FW_ACCOUNT_H
#define WEIR_FW_ACCOUNT_H

#include <weir/fw/arena.h>
#include <weir/fw/layout.h>

/* The id of the rule of a half: 0 A, 1 B. */
static __always_inline __u32 weir_account_rule(struct weir_account __weir_arena *account,
					       __u32 half)
{
	return (__u32)(account->packets_rule[half] >> WEIR_ACCOUNT_RULE_SHIFT) & WEIR_FW_RULE_NONE;
}

/* The tag of a half; 0: none. */
static __always_inline __u32 weir_account_tag(struct weir_account __weir_arena *account,
					      __u32 half)
{
	return (__u32)(account->packets_rule[half] >> WEIR_ACCOUNT_TAG_SHIFT);
}

/* Whether packets of a half may have IP options. */
static __always_inline bool weir_account_allows_options(struct weir_account __weir_arena *account,
							__u32 half)
{
	return account->bytes_created[half] >> WEIR_ACCOUNT_OPTIONS_SHIFT & 1;
}

/* Adds to the lowest bits of a word; a count that they cannot hold stays at its largest. */
static __always_inline void weir_account_add(__u64 __weir_arena *word, __u32 bits, __u32 count)
{
	const __u64 mask = (1ull << bits) - 1;
	__u64 before = *word, sum = (before & mask) + count;

	*word = (before & ~mask) | (sum > mask ? mask : sum);
}

/* Whose half it is from now on; its packets stay. */
static __always_inline void weir_account_give(struct weir_account __weir_arena *account,
					      __u32 half, __u32 rule, __u32 tag)
{
	const __u64 packets_mask = (1ull << WEIR_ACCOUNT_RULE_SHIFT) - 1;

	account->packets_rule[half] = (account->packets_rule[half] & packets_mask) |
				      ((__u64)tag << 20 | rule) << WEIR_ACCOUNT_RULE_SHIFT;
}

_Static_assert(WEIR_ACCOUNT_TAG_SHIFT - WEIR_ACCOUNT_RULE_SHIFT == 20 &&
		       WEIR_FW_RULE_NONE == (1u << 20) - 1,
	       "rule and tag share 24 bits");

/* Says whether packets of a half may have IP options. */
static __always_inline void weir_account_allow_options(struct weir_account __weir_arena *account,
						       __u32 half, bool allows)
{
	const __u64 bit = 1ull << WEIR_ACCOUNT_OPTIONS_SHIFT;

	account->bytes_created[half] &= ~bit;
	if (allows)
		account->bytes_created[half] |= bit;
}

#endif /* WEIR_FW_ACCOUNT_H */

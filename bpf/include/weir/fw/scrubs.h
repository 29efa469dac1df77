/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The numbers by which states keep what their packets are changed by (enum weir_fw_scrub). The
 * words stand in the control page: programs enter them, and the control process takes those out
 * again that no state has any more (weir-fw's engine/scrubs.rs).
 */
#ifndef WEIR_FW_SCRUBS_H
#define WEIR_FW_SCRUBS_H

#include <weir/fw/account.h>
#include <weir/fw/queue_word.h>
#include <weir/fw/table.h>

/* Of a word: what SYNs alone are changed by. */
#define WEIR_SCRUB_SYNS (0xffffull << WEIR_FW_SCRUB_MSS_SHIFT)
/* Of a word: `reassemble tcp` of a rule, and of a state. */
#define WEIR_SCRUB_REASSEMBLE (1ull << WEIR_FW_SCRUB_REASSEMBLE_SHIFT)
#define WEIR_SCRUB_TIMESTAMPS (1ull << WEIR_FW_SCRUB_TIMESTAMPS_SHIFT)
/* Of a word: what the IP headers of all other packets are changed by, too. */
#define WEIR_SCRUB_ALL_PACKETS                                                                  \
	(~(WEIR_SCRUB_SYNS | WEIR_SCRUB_QUEUES | WEIR_SCRUB_PRIOS | WEIR_SCRUB_REASSEMBLE | \
	   WEIR_SCRUB_TIMESTAMPS))

/* Of a word: what a second time changes nothing, or not for the better. */
#define WEIR_SCRUB_ONCE                                                                         \
	(1ull << WEIR_FW_SCRUB_NO_DF_SHIFT | 1ull << WEIR_FW_SCRUB_RANDOM_ID_SHIFT)

static __always_inline __u64 __weir_arena *weir_scrub_at(__u32 number)
{
	return weir_at(__u64, WEIR_FW_SCRUBS_AT +
				      (number & WEIR_ACCOUNT_SCRUB_MASK) * (__u32)sizeof(__u64));
}

/* The word of a number that a state has. */
static __always_inline __u64 weir_scrub_kept(__u32 number)
{
	return weir_read_once(*weir_scrub_at(number)) & ~(1ull << WEIR_FW_SCRUB_ENDS_SHIFT);
}

/* Whether states may have such numbers: the control process keeps the first one as long as any. */
static __always_inline bool weir_fw_scrubs_states(void)
{
	return weir_read_once(*weir_scrub_at(1));
}

/* The number by which a state keeps a word; 0: there is no room for it. */
__noinline __u32 weir_scrub_keep(__u64 word)
{
	__u64 before, found;
	__u32 i;

	for (i = 1; i <= WEIR_FW_SCRUB_COUNT_MAX; i++) {
		before = weir_read_once(*weir_scrub_at(i));
		if (before == word)
			return i;
		/* One that was to end stays, unless it has just been taken out. */
		if (before && before != (word | 1ull << WEIR_FW_SCRUB_ENDS_SHIFT))
			continue;
		found = __sync_val_compare_and_swap(weir_scrub_at(i), before, word);
		if (found == before || found == word)
			return i;
	}
	return 0;
}

#endif /* WEIR_FW_SCRUBS_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues and priorities in a word (enum weir_fw_scrub): two queues each, of which the second is for
 * packets that are to be fast (`queue`, `set queue` of pf.conf(5)); or, if the word says that it is
 * directed, for those that go back (`dnpipe`, `dnqueue`). Numbers alone; no packet is touched here.
 */
#ifndef WEIR_FW_QUEUE_WORD_H
#define WEIR_FW_QUEUE_WORD_H

#include <weir/fw/layout.h>

#define WEIR_SCRUB_DIRECTED (1ull << WEIR_FW_SCRUB_DIRECTED_SHIFT)
/* Of a word: all that is of queues, and the priorities. */
#define WEIR_SCRUB_QUEUES (0xffffull << WEIR_FW_SCRUB_QUEUE_SHIFT | WEIR_SCRUB_DIRECTED)
#define WEIR_SCRUB_PRIOS (0xffull << WEIR_FW_SCRUB_PRIO_SHIFT)

/*
 * The queues of two words, of which one counts after the other: it takes the place of that. Of two
 * that are directed a direction without a queue keeps its earlier one (`pf_rule_to_actions` of
 * pf.c).
 */
static __always_inline __u64 weir_queues_join(__u64 first, __u64 then)
{
	const __u64 forward = 0xffull << WEIR_FW_SCRUB_QUEUE_SHIFT;
	const __u64 back = 0xffull << WEIR_FW_SCRUB_FAST_QUEUE_SHIFT;

	if (!(then & WEIR_SCRUB_QUEUES))
		then = first;
	if (first & then & WEIR_SCRUB_DIRECTED) {
		if (!(then & forward))
			then |= first & forward;
		if (!(then & back))
			then |= first & back;
	}
	return then & WEIR_SCRUB_QUEUES;
}

/* A directed word for who looks the other way. */
static __always_inline __u64 weir_queues_turn(__u64 word)
{
	const __u32 apart = WEIR_FW_SCRUB_FAST_QUEUE_SHIFT - WEIR_FW_SCRUB_QUEUE_SHIFT;
	const __u64 forward = 0xffull << WEIR_FW_SCRUB_QUEUE_SHIFT;
	const __u64 back = 0xffull << WEIR_FW_SCRUB_FAST_QUEUE_SHIFT;

	return (word & ~(forward | back)) | (word & forward) << apart | (word & back) >> apart;
}

#endif /* WEIR_FW_QUEUE_WORD_H */

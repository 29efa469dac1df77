/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loops over what the verifier knows nothing of (Linux >= 6.9, "may_goto").
 *
 * `for (i = 0; i < count && weir_fw_may_loop; i++)` is accepted whatever `count` is: the kernel
 * ends a loop that goes on for millions of rounds.
 */
#ifndef WEIR_FW_LOOP_H
#define WEIR_FW_LOOP_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/arena.h>

/* The instruction by its bytes: assemblers before cpu v4 do not know its name. */
#define weir_fw_may_loop                                                    \
	({                                                                  \
		__label__ ended, goes_on;                                   \
		bool may = true;                                            \
		asm volatile goto("1:.byte 0xe5; .byte 0;"                  \
				  ".long ((%l[ended] - 1b - 8) / 8) & 0xffff;" \
				  ".short 0"                                \
				  :                                         \
				  :                                         \
				  :                                         \
				  : ended);                                 \
		goto goes_on;                                               \
	ended:                                                              \
		may = false;                                                \
	goes_on:;                                                           \
		may;                                                        \
	})

/*
 * A bound as the verifier must see it: not as a constant, or it goes through every round by itself.
 */
#define weir_fw_bound(rounds) ((__u32)(rounds) + weir_at(struct weir_fw_control, 0)->zero)

#endif /* WEIR_FW_LOOP_H */

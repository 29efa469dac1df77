/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `dup-to`: what a rule passes is also sent elsewhere (`pf_route` of pf.c). Here is what rules ask
 * for; dup_skb.h does it.
 *
 * As in pf, a packet is copied where a rule with the word passes it, or the half of a state that
 * such a rule has made: in the rule's direction where it comes in (or leaves), the answers where
 * they leave (or come in). The half's rule says so, as the active ruleset has it: a state whose
 * rule is gone has its packets copied no more.
 *
 * XDP sends nothing twice: such a packet goes by way of the kernel, with a note of what is left to
 * do (errand.h).
 */
#ifndef WEIR_FW_DUP_H
#define WEIR_FW_DUP_H

#include <weir/fw/image.h>
#include <weir/fw/scratch.h>

/* Whether some rule has packets copied. */
static __always_inline bool weir_fw_copies(const struct weir_fw_packet *p)
{
	return p->ruleset && weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_COPIES;
}

/* Where struct weir_fw_copy of a rule stands in the arena, by the rule's id; 0: it has none. */
__noinline __u32 weir_dup_of(const struct weir_fw_packet *p __arg_nonnull, __u32 rule)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	__u32 at;

	if (!weir_fw_copies(p) || rule >= image->id_count)
		return 0;
	at = *weir_at(__u32, p->ruleset + image->copies_at + rule * (__u32)sizeof(__u32));
	return at ? p->ruleset + at : 0;
}

/* Notes to whom a packet is copied that a rule passes where it is, if it is to anybody. */
static __always_inline void weir_dup_by(const struct weir_fw_packet *p, __u32 rule)
{
	struct weir_fw_scratch *scratch;

	if (!weir_fw_copies(p))
		return;
	scratch = weir_fw_scratch();
	if (scratch)
		scratch->copy_at = weir_dup_of(p, rule);
}

/*
 * Has a packet that came in stay with the kernel if it is copied there, or may be where it leaves:
 * all but what a state covers at both hooks, and copies at neither.
 */
__noinline int weir_dup_settle(struct weir_fw_packet *p __arg_nonnull,
				const struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 other = (hit->reverse & 1) ^ 1;

	if (!scratch)
		return 0;
	if (scratch->copy_at || p->flags & WEIR_PACKET_SKIPPED || !hit->covered[WEIR_FW_IN] ||
	    !weir_state_covers_out(p, hit) ||
	    (hit->flags & WEIR_HIT_WATCHED && weir_dup_of(p, hit->rule[other & 1])))
		p->flags |= WEIR_PACKET_STAY;
	return 0;
}

#endif /* WEIR_FW_DUP_H */

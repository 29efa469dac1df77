/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tags of packets that a state lets in: the one that its rules gave (pf_test() of pf.c gives every
 * packet of a state the state's tag). Only asked for where rules judge the packet on its way out,
 * so that a packet whose state covers both ways never pays for it.
 */
#ifndef WEIR_FW_TAG_H
#define WEIR_FW_TAG_H

#include <weir/fw/account.h>
#include <weir/fw/fib.h>
#include <weir/fw/image.h>
#include <weir/fw/lookup.h>
#include <weir/fw/scratch.h>

/* The tag of the half that covers the way in; `flow` is the packet by which the record is found. */
static __always_inline __u32 weir_state_tag(const struct weir_fw_packet *flow,
					    const struct weir_fw_hit *hit)
{
	__u32 home, tag = 0;
	__u64 found;

	if (hit->slot == WEIR_FW_SLOT_NONE)
		return 0;
	home = weir_state_lock_bucket(flow->hash, flow->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return 0;
	/* The record may stand in another slot by now. */
	found = weir_state_line(home)->control & WEIR_STATE_LIVE ?
			weir_bucket_find(flow, home, false) :
			WEIR_FOUND_NONE;
	if (found < WEIR_FOUND_NONE)
		tag = weir_half_tag(weir_state_line((__u32)found), (__u32)found, hit->reverse & 1);
	weir_state_unlock(home, weir_state_line(home)->control);
	return tag;
}

/* Gives a packet that its state has let in the state's tag, before rules judge its way out. */
__noinline int weir_fw_recall_tag(struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_hit *hit __arg_nonnull)
{
	const struct weir_fw_packet *flow = p;
	struct weir_fw_scratch *scratch;

	if (p->tag || !hit->covered[WEIR_FW_IN] || p->flags & WEIR_PACKET_SKIPPED)
		return 0;
	if (p->flags & WEIR_PACKET_SKB && !weir_state_was_judged(p))
		return 0;
	/* The record of an error is that of the packet which it quotes. */
	if (p->flags & WEIR_PACKET_ICMP_ERROR) {
		scratch = weir_fw_scratch();
		if (!scratch)
			return 0;
		flow = &scratch->quoted;
	}
	p->tag = weir_state_tag(flow, hit);
	return 0;
}

static __always_inline bool weir_fw_has_tags(const struct weir_fw_packet *p)
{
	return weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_TAGS;
}

#endif /* WEIR_FW_TAG_H */

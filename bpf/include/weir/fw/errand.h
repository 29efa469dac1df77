/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is left to do for a packet that XDP hands to the kernel, and that no state would tell: a
 * copy (dup.h), or the gateway of a rule that made no state. It stands before the frame until
 * weir_fw_divert does it (errand_skb.h); a driver that has no room there leaves it undone.
 */
#ifndef WEIR_FW_ERRAND_H
#define WEIR_FW_ERRAND_H

#include <weir/fw/gateways.h>
#include <weir/fw/reply_skb.h>
#include <weir/fw/scratch.h>
#include <weir/fw/stage.h>

/* Whether a packet has one. */
static __always_inline bool weir_errand_is_due(const struct weir_fw_packet *p)
{
	return p->ruleset && weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_ERRANDS;
}

/* Puts it before the frame. Pointers into that are stale then. */
__noinline int weir_errand_leave(struct xdp_md *ctx, const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_errand *errand;
	__u32 copy_at, gateway;

	if (!scratch)
		return 0;
	/* What leaves is copied where it does. */
	copy_at = p->direction == WEIR_FW_IN ? scratch->copy_at : 0;
	gateway = p->flags & WEIR_PACKET_ROUTED ? p->gateway : 0;
	if (weir_gateway_at(gateway)->flags & WEIR_FW_GATEWAY_SOCKET)
		gateway = 0;
	if (!copy_at && !gateway)
		return 0;
	if (!weir_stage_clear(ctx) || bpf_xdp_adjust_meta(ctx, -(int)sizeof(*errand)))
		goto lost;
	errand = (void *)(long)ctx->data_meta;
	if ((void *)(errand + 1) > weir_xdp_data(ctx))
		goto lost;
	errand->magic = WEIR_FW_MAGIC;
	errand->secret = weir_fw_answer_mark();
	errand->copy_at = copy_at;
	errand->gateway = gateway;
	return 0;
lost:
	if (copy_at)
		weir_fw_table_counters(p->cpu)->copies_lost++;
	return 0;
}

#endif /* WEIR_FW_ERRAND_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does what XDP has left to do (errand.h), behind it, before the kernel sees the packet.
 */
#ifndef WEIR_FW_ERRAND_SKB_H
#define WEIR_FW_ERRAND_SKB_H

#include <weir/fw/dup_skb.h>
#include <weir/fw/skb.h>

/* Reads what stands before the frame; false: it is nothing of ours. */
static __always_inline bool weir_errand_take(struct __sk_buff *skb, struct weir_fw_errand *to)
{
	struct weir_fw_errand *errand = (void *)(long)skb->data_meta;

	if ((void *)(errand + 1) > weir_skb_data(skb))
		return false;
	*to = *errand;
	return to->magic == WEIR_FW_MAGIC && to->secret == weir_fw_answer_mark();
}

/* TCX_NEXT, or what became of the packet. */
__noinline int weir_errand_run(struct __sk_buff *skb)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_errand errand;
	struct weir_fw_packet *p;

	if (!scratch || !weir_errand_take(skb, &errand))
		return TCX_NEXT;
	p = weir_fw_begin_skb(skb, scratch, WEIR_FW_IN);
	p->interface = weir_fw_ifslot(skb->ifindex);
	/* Of interfaces without a link header no frame comes by XDP. */
	if (weir_fw_read_skb(skb, p, true))
		return TCX_NEXT;
	if (errand.copy_at && weir_dup_send(skb, p, errand.copy_at))
		return weir_dup_fails(p);
	p->gateway = errand.gateway & WEIR_FW_GATEWAY_COUNT_MAX;
	return p->gateway ? weir_gateway_pass_on(skb, p) : TCX_NEXT;
}

#endif /* WEIR_FW_ERRAND_SKB_H */

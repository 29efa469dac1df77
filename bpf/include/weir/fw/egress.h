/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * weir_fw_egress: packets that leave an interface by way of the kernel, on the same tables as the
 * others: those of the box itself, and those that the kernel had to forward, which have been judged
 * on their way in. What weir_fw_ingress redirects does not come by here. weir_fw_egress3 is the
 * same for interfaces without link headers.
 *
 * A tagged frame is not judged: it has been, at its VLAN interface.
 */
#ifndef WEIR_FW_EGRESS_H
#define WEIR_FW_EGRESS_H

#include <weir/fw/skb.h>

static __always_inline int weir_fw_judge_egress(struct __sk_buff *skb, bool has_link)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *p;
	__u32 kept = 0;
	int drop;

	weir_uses_arena();
	if (has_link && (skb->vlan_present || skb->protocol == bpf_htons(WEIR_ETH_TYPE_8021Q) ||
			 skb->protocol == bpf_htons(WEIR_ETH_TYPE_8021AD)))
		return TCX_NEXT;
	if (weir_fw_is_answer(skb, true))
		return TCX_NEXT;
	/* It is translated as any other. */
	weir_proxy_takes_mark(skb);
	if (!scratch)
		return TCX_DROP;
	p = weir_fw_begin_skb(skb, scratch, WEIR_FW_OUT);
	p->interface = weir_fw_ifslot(skb->ingress_ifindex);
	p->out_interface = weir_fw_ifslot(skb->ifindex);
	if (!skb->ingress_ifindex)
		p->flags |= WEIR_PACKET_LOCAL;
	else if (skb->pkt_type != PACKET_HOST)
		/* Of a bridge: for somebody else, who may answer it. */
		p->flags |= WEIR_PACKET_FOREIGN;
	drop = weir_fw_read_skb(skb, p, has_link);
	if (drop == WEIR_PARSE_NOT_IP)
		return TCX_NEXT;
	if (!drop)
		kept = weir_gateway_kept(p);
	p->gateway = kept & WEIR_FW_GATEWAY_COUNT_MAX;
	if (p->gateway && !(kept & WEIR_GATEWAY_COVERED)) {
		__u8 slot = weir_fw_ifslot(weir_gateway_exit(skb, p));

		/* No rule is about an interface that is not there. */
		if (!slot) {
			weir_fw_count_drop(p, WEIR_DROP(NO_ROUTE));
			return TCX_DROP;
		}
		p->out_interface = slot;
	}
	return weir_fw_judge_skb(skb, p, scratch, WEIR_FW_OUT, drop);
}

SEC("tcx/egress")
int weir_fw_egress(struct __sk_buff *skb)
{
	return weir_fw_judge_egress(skb, true);
}

SEC("tcx/egress")
int weir_fw_egress3(struct __sk_buff *skb)
{
	return weir_fw_judge_egress(skb, false);
}

#endif /* WEIR_FW_EGRESS_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * weir_fw_entry: packets that come in by an interface whose driver has no XDP, judged on the same
 * tables as those of weir_fw_ingress, and then left to the kernel, which forwards them: where they
 * leave, weir_fw_egress goes on. weir_fw_entry3 is the same for interfaces without link headers.
 *
 * A frame with a tag is judged as that of its VLAN interface, for which there is no program.
 */
#ifndef WEIR_FW_ENTRY_H
#define WEIR_FW_ENTRY_H

#include <weir/fw/ingress.h>
#include <weir/fw/skb.h>

/* The VLAN interface of a packet whose tag the kernel keeps beside it; for whom the frame is. */
static __always_inline void weir_fw_receive_skb(struct __sk_buff *skb, struct weir_fw_packet *p)
{
	if (skb->vlan_present) {
		p->vlan_tci = skb->vlan_tci;
		p->priority = p->vlan_tci >> WEIR_VLAN_PRIORITY_SHIFT;
	}
	if (p->vlan_tci & WEIR_VLAN_ID_MASK)
		p->interface = weir_fw_vlan_slot(p->interface, p->vlan_tci & WEIR_VLAN_ID_MASK);
	weir_fw_see_address(p, weir_skb_data(skb), weir_skb_data_end(skb));
}

static __always_inline int weir_fw_judge_entry(struct __sk_buff *skb, bool has_link)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *p;
	int drop;

	weir_uses_arena();
	/* A copy of what the box has sent to a group, which was judged there. */
	if (skb->pkt_type == PACKET_LOOPBACK || weir_fw_is_answer(skb, false) ||
	    weir_proxy_takes_mark(skb))
		return TCX_NEXT;
	if (!scratch)
		return TCX_DROP;
	p = weir_fw_begin_skb(skb, scratch, WEIR_FW_IN);
	p->interface = weir_fw_ifslot(skb->ifindex);
	drop = weir_fw_read_skb(skb, p, has_link);
	if (drop == WEIR_PARSE_NOT_IP)
		return TCX_NEXT;
	if (has_link)
		weir_fw_receive_skb(skb, p);
	drop = weir_fw_judge_skb(skb, p, scratch, WEIR_FW_IN, drop);
	if (drop == TCX_NEXT)
		weir_fw_table_counters(p->cpu)->passed_packets++;
	return drop;
}

SEC("tcx/ingress")
int weir_fw_entry(struct __sk_buff *skb)
{
	return weir_fw_judge_entry(skb, true);
}

SEC("tcx/ingress")
int weir_fw_entry3(struct __sk_buff *skb)
{
	return weir_fw_judge_entry(skb, false);
}

#endif /* WEIR_FW_ENTRY_H */

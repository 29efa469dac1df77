/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends a packet of the kernel's elsewhere as well (`dup-to`: dup.h). The copy is the packet as it
 * is at its hook, behind what rules change; one that comes in has its TTL counted down, as pf does.
 * It carries a mark that no other packet has, and which it keeps: no program of ours judges it, or
 * copies it again, on whatever interfaces it goes on its way out. What cannot be sent is counted,
 * and the packet goes on.
 */
#ifndef WEIR_FW_DUP_SKB_H
#define WEIR_FW_DUP_SKB_H

#include <weir/fw/dup.h>
#include <weir/fw/gateway_skb.h>
#include <weir/fw/ttl_skb.h>

/* How a packet's frame becomes that of its copy. */
struct weir_dup_frame {
	__u32 mac[3];		/* as they are to be */
	__u32 ifindex;
	__u8 has_mac;
	__u8 is_vlan;		/* the packet has a tag, which the copy has not */
	__u16 vlan_tci;
	__be16 vlan_proto;
	__u16 unused;
};

/* Whether an interface has no link header: nor has what leaves by it MAC addresses. */
static __always_inline bool weir_dup_is_bare(__u8 slot)
{
	struct weir_fw_interface __weir_arena *interface = weir_fw_interface(slot);
	__u32 __weir_arena *mac = (__u32 __weir_arena *)interface->mac;

	return !mac[0] && !(__u16)mac[1];
}

/* The way of a copy; false: there is none. */
__noinline int weir_dup_way(struct __sk_buff *skb, const struct weir_fw_packet *p __arg_nonnull,
			     __u32 to_at, struct weir_dup_frame *frame __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	weir_gateway *to = weir_at(struct weir_fw_gateway, to_at);
	bool is_bare = to->interface && weir_dup_is_bare(to->interface);
	struct bpf_fib_lookup *f;
	const __u16 *dst, *src;
	__u32 flags;

	if (!scratch || to->flags & WEIR_FW_GATEWAY_ABSENT)
		return false;
	if (p->direction == WEIR_FW_IN && p->ttl <= WEIR_FW_TTL_LAST)
		return false;
	f = &scratch->fib;
	flags = weir_gateway_ask(f, p, to, skb->ifindex);
	/* The kernel compares the packet itself with the MTU, merged segments one by one. */
	f->tot_len = 0;
	if (bpf_fib_lookup(skb, f, sizeof(*f),
			   flags | (is_bare ? BPF_FIB_LOOKUP_SKIP_NEIGH : 0)))
		return false;
	frame->ifindex = f->ifindex;
	frame->has_mac = !is_bare;
	/* From an interface without link headers to one with them. */
	if (frame->has_mac && !p->l3_at)
		return false;
	dst = (const __u16 *)f->dmac;
	src = (const __u16 *)f->smac;
	frame->mac[0] = dst[0] | (__u32)dst[1] << 16;
	frame->mac[1] = dst[2] | (__u32)src[0] << 16;
	frame->mac[2] = src[1] | (__u32)src[2] << 16;
	frame->is_vlan = !!skb->vlan_present;
	frame->vlan_tci = skb->vlan_tci;
	frame->vlan_proto = skb->vlan_proto;
	return true;
}

/* Makes the frame that of the copy, and (`is_back`) that of the packet again. */
static __always_inline bool weir_dup_turn(struct __sk_buff *skb, const struct weir_fw_packet *p,
					   const struct weir_dup_frame *frame, const __u32 *mac,
					   bool is_back)
{
	if (p->direction == WEIR_FW_IN && !weir_ttl_step(skb, p, is_back))
		return false;
	if (frame->has_mac && bpf_skb_store_bytes(skb, 0, mac, sizeof(frame->mac), 0))
		return false;
	if (!frame->is_vlan)
		return true;
	return is_back ? !bpf_skb_vlan_push(skb, frame->vlan_proto, frame->vlan_tci) :
			 !bpf_skb_vlan_pop(skb);
}

/*
 * Copies a packet to whom stands at a place of the arena. Not 0: the packet cannot be what it was
 * any more, for want of memory.
 */
__noinline int weir_dup_send(struct __sk_buff *skb, const struct weir_fw_packet *p __arg_nonnull,
			      __u32 copy_at)
{
	struct weir_dup_frame frame = {};
	__u32 mac[3], mark = skb->mark;
	bool is_sent;

	/* Of a frame for somebody else pf would see nothing. */
	if (p->direction == WEIR_FW_IN && skb->pkt_type == PACKET_OTHERHOST)
		return 0;
	copy_at += (p->family & 1) * (__u32)sizeof(struct weir_fw_gateway);
	if (!weir_dup_way(skb, p, copy_at, &frame) ||
	    (frame.has_mac && bpf_skb_load_bytes(skb, 0, mac, sizeof(mac)))) {
		weir_fw_table_counters(p->cpu)->copies_lost++;
		return 0;
	}
	if (!weir_dup_turn(skb, p, &frame, frame.mac, false))
		return -1;
	skb->mark = weir_fw_copy_mark();
	is_sent = !bpf_clone_redirect(skb, frame.ifindex, 0);
	skb->mark = mark;
	if (is_sent)
		weir_fw_table_counters(p->cpu)->copies++;
	else
		weir_fw_table_counters(p->cpu)->copies_lost++;
	return weir_dup_turn(skb, p, &frame, mac, true) ? 0 : -1;
}

/* What becomes of a packet that a copy has spoilt. */
static __always_inline int weir_dup_fails(const struct weir_fw_packet *p)
{
	weir_fw_count_drop(p, WEIR_DROP(MEMORY));
	return TCX_DROP;
}

#endif /* WEIR_FW_DUP_SKB_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gateways of packets that leave by way of the kernel: those of the box, and those that the kernel
 * had to forward. It has brought them to the interface of its own route. Unless their state covers
 * that one alone, they are judged there as what leaves by the gateway's, and then sent on
 * (bpf_redirect_neigh(), which finds out the gateway's MAC address). Where they leave nothing is
 * asked again: they carry the mark of answers (reply_skb.h).
 */
#ifndef WEIR_FW_GATEWAY_SKB_H
#define WEIR_FW_GATEWAY_SKB_H

#include <weir/fw/fragment.h>
#include <weir/fw/gateway.h>
#include <weir/fw/lookup.h>
#include <weir/fw/reply_skb.h>
#include <weir/fw/rewrite.h>
#include <weir/fw/ttl_skb.h>

/* Code of ICMP's unreachable (RFC 1191); ICMPv6 has a type for it. */
#define WEIR_ICMP_NEEDS_FRAGMENT 4

/* Of what weir_gateway_kept() returns: the state is bound to the interface where the packet is. */
#define WEIR_GATEWAY_COVERED (1 << 8)

/* Whether a record is bound to the interface by which the kernel would send a packet. */
static __always_inline bool weir_gateway_is_covered(const struct weir_fw_packet *p, weir_line *s,
						    __u32 reverse)
{
	__u32 has = reverse ? WEIR_STATE_HALF_A : WEIR_STATE_HALF_B;
	__u32 bound = reverse ? WEIR_STATE_IF_BOUND_A : WEIR_STATE_IF_BOUND_B;

	return s->control & has && s->control & bound &&
	       (s->interface[!reverse] & WEIR_STATE_INTERFACE_MASK) == p->out_interface;
}

/*
 * The gateway that the state of a packet has, before anything is asked of that state; 0: none. What
 * is found by what it quotes, or by its first fragment, is not looked for here.
 */
__noinline __u32 weir_gateway_kept(struct weir_fw_packet *p __arg_nonnull)
{
	__u32 home, reverse, number = 0;
	weir_line *s;
	__u64 found;

	if (!weir_fw_has_gateways() ||
	    !(weir_fw_control()->flags & WEIR_FW_CONTROL_ENABLED) ||
	    !weir_fw_filters(p->ruleset) ||
	    p->flags & (WEIR_PACKET_ICMP_ERROR | WEIR_PACKET_LATER_FRAGMENT))
		return 0;
	weir_state_touch(p);
	home = weir_state_lock_bucket(p->hash, p->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return 0;
	found = weir_state_line(home)->control & WEIR_STATE_LIVE ?
			weir_bucket_find(p, home, false) :
			WEIR_FOUND_NONE;
	if (found < WEIR_FOUND_NONE) {
		s = weir_state_line((__u32)found);
		reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
		number = s->next_hop[reverse] >> WEIR_STATE_GATEWAY_SHIFT;
		if (number && weir_gateway_is_covered(p, s, reverse))
			number |= WEIR_GATEWAY_COVERED;
	}
	weir_state_unlock(home, weir_state_line(home)->control);
	return number;
}

/* The index of the interface that a packet's gateway is reached by; 0: it cannot be. */
__noinline __u32 weir_gateway_exit(struct __sk_buff *skb,
				   const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	weir_gateway *gateway = weir_gateway_at(p->gateway);
	struct bpf_fib_lookup *f;

	if (!scratch || gateway->flags & (WEIR_FW_GATEWAY_ABSENT | WEIR_FW_GATEWAY_SOCKET))
		return 0;
	if (gateway->interface)
		return weir_fw_interface(gateway->interface)->ifindex;
	f = &scratch->fib;
	weir_gateway_question(f, p, skb->ifindex);
	/* Of any length but 0 the kernel asks nothing of the packet. */
	f->tot_len = 1;
	if (bpf_fib_lookup(skb, f, sizeof(*f), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return 0;
	return f->ifindex;
}

/* Whether a packet, merged segments one by one, is longer than an MTU. */
static __always_inline bool weir_gateway_is_above(struct __sk_buff *skb,
						  const struct weir_fw_packet *p, __u32 mtu_bytes)
{
	__u32 bytes = skb->len - p->l3_at;

	if (p->flags & WEIR_PACKET_MERGED)
		bytes = p->l4_at - p->l3_at + skb->gso_size +
			(p->protocol == WEIR_PROTOCOL_TCP ? p->tcp_header_bytes :
							    sizeof(struct weir_udp));
	return mtu_bytes && bytes > mtu_bytes;
}

/* Whether a packet must not be fragmented on its way. */
static __always_inline bool weir_gateway_keeps_whole(struct __sk_buff *skb,
						  const struct weir_fw_packet *p)
{
	__be16 fragment;

	if (p->family != WEIR_FW_INET)
		return true;
	return !bpf_skb_load_bytes(skb, p->l3_at + __builtin_offsetof(struct weir_ipv4, fragment),
				   &fragment, sizeof(fragment)) &&
	       fragment & bpf_htons(WEIR_IPV4_DONT_FRAGMENT);
}

/* A packet that is too long for the way to its gateway: the sender is told. */
static __always_inline int weir_gateway_too_big(struct __sk_buff *skb, struct weir_fw_packet *p,
						struct weir_fw_scratch *scratch, __u32 mtu_bytes)
{
	weir_fw_count_drop(p, WEIR_DROP(TOO_BIG));
	if (!weir_gateway_keeps_whole(skb, p))
		return TCX_DROP;
	if (p->flags & WEIR_PACKET_TRANSLATED && weir_fw_recall_skb(skb, p))
		return TCX_DROP;
	__builtin_memset(&scratch->decision, 0, sizeof(scratch->decision));
	scratch->decision.flags = WEIR_DECISION_RETURN_ICMP;
	scratch->decision.icmp_code = p->family == WEIR_FW_INET ? WEIR_ICMP_NEEDS_FRAGMENT : 0;
	scratch->decision.mtu_bytes = mtu_bytes;
	return weir_fw_reply_skb(skb, p);
}

/*
 * Whether a packet that was judged can go to its gateway, whose interface it leaves by: TCX_NEXT,
 * or what became of it. A function of its own, so that its stack is not everybody's.
 */
__noinline int weir_gateway_admit(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 ifindex = weir_gateway_exit(skb, p), mtu_bytes;

	if (!scratch || !ifindex) {
		weir_fw_count_drop(p, WEIR_DROP(NO_ROUTE));
		return TCX_DROP;
	}
	scratch->route.ifindex = ifindex;
	p->out_interface = weir_fw_ifslot(ifindex);
	mtu_bytes = weir_fw_interface(p->out_interface)->mtu_bytes;
	if (weir_gateway_is_above(skb, p, mtu_bytes))
		return weir_gateway_too_big(skb, p, scratch, mtu_bytes);
	return TCX_NEXT;
}

/* Sends a packet that was admitted to its gateway, or to its destination out of its interface. */
__noinline int weir_gateway_send(struct __sk_buff *skb,
				 const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	weir_gateway *gateway = weir_gateway_at(p->gateway);
	struct bpf_redir_neigh to = {};
	__u32 ifindex;

	if (!scratch)
		return TCX_DROP;
	ifindex = scratch->route.ifindex;
	to.nh_family = p->family == WEIR_FW_INET ? WEIR_AF_INET : WEIR_AF_INET6;
	if (gateway->flags & WEIR_FW_GATEWAY_ADDRESS)
		weir_copy_address(to.ipv6_nh, gateway->addr);
	else
		weir_copy_address(to.ipv6_nh, p->dst);
	/* The kernel takes a link header off. */
	if (!p->l3_at && bpf_skb_change_head(skb, sizeof(struct weir_eth), 0))
		return TCX_DROP;
	/* Without a program there nobody would take the mark off. What has come in is judged. */
	if (p->direction == WEIR_FW_OUT &&
	    weir_fw_interface(weir_fw_ifslot(ifindex))->flags & WEIR_FW_INTERFACE_EGRESS)
		skb->mark = weir_fw_answer_mark();
	return bpf_redirect_neigh(ifindex, &to, sizeof(to), 0);
}

/*
 * Sends a packet that has come in on to its gateway, which no state keeps: as the kernel would, if
 * the kernel forwards it at all. Where it leaves it is judged.
 */
__noinline int weir_gateway_pass_on(struct __sk_buff *skb,
				    struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct bpf_fib_lookup *f;
	int drop;

	if (!scratch || skb->pkt_type != PACKET_HOST || p->ttl <= WEIR_FW_TTL_LAST ||
	    weir_fw_is_martian(p))
		return TCX_NEXT;
	f = &scratch->fib;
	__builtin_memset(f, 0, sizeof(*f));
	weir_fw_fib_ask(f, p, skb->ifindex);
	/* The MTU of that way is of no account. */
	f->tot_len = 1;
	if (bpf_fib_lookup(skb, f, sizeof(*f), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return TCX_NEXT;
	drop = weir_gateway_admit(skb, p);
	if (drop != TCX_NEXT)
		return drop;
	if (!weir_ttl_step(skb, p, false) || (skb->vlan_present && bpf_skb_vlan_pop(skb))) {
		weir_fw_count_drop(p, WEIR_DROP(MEMORY));
		return TCX_DROP;
	}
	return weir_gateway_send(skb, p);
}

#endif /* WEIR_FW_GATEWAY_SKB_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `divert-to` and `divert-reply`: packets for other hosts go to sockets of this one, which see
 * where they were sent to (pf.conf(5) of OpenBSD).
 *
 * A state keeps such a socket by a number, as it does a gateway. What comes by such a state is left
 * to the kernel by the program that judges it; weir_fw_divert, behind that, gives it to the
 * connection that it belongs to, or to who listens at the rule's address (bpf_sk_assign()), and a
 * mark, for which the control process has made all addresses local. weir_fw_divert3 is the same for
 * interfaces without link headers.
 *
 * Pieces of a packet, which have no ports, are not put together: they are dropped.
 *
 * What has become IPv4 by `af-to`, and XDP has not sent, these programs send (family_skb.h). So
 * they do what XDP has left to do otherwise (errand_skb.h).
 */
#ifndef WEIR_FW_DIVERT_H
#define WEIR_FW_DIVERT_H

#include <weir/fw/errand_skb.h>
#include <weir/fw/owner.h>
#include <weir/fw/skb.h>

/*
 * Gives a packet to the socket that is found by these ends, if it is one that listens, or one that
 * does not. A function for each protocol: the verifier wants different instructions for what they
 * find.
 */
static __noinline bool weir_divert_tcp(struct __sk_buff *skb, struct bpf_sock_tuple *tuple,
				       __u32 bytes, bool listens)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, tuple, bytes, BPF_F_CURRENT_NETNS, 0);
	bool is_given;

	if (!sk)
		return false;
	is_given = listens == (sk->state == BPF_TCP_LISTEN) && !bpf_sk_assign(skb, sk, 0);
	bpf_sk_release(sk);
	return is_given;
}

/* The same of UDP, where others than those that are connected take all that comes to their port. */
static __noinline bool weir_divert_udp(struct __sk_buff *skb, struct bpf_sock_tuple *tuple,
				       __u32 bytes, bool listens)
{
	struct bpf_sock *sk = bpf_sk_lookup_udp(skb, tuple, bytes, BPF_F_CURRENT_NETNS, 0);
	bool is_given;

	if (!sk)
		return false;
	is_given = listens == (sk->state != BPF_TCP_ESTABLISHED) && !bpf_sk_assign(skb, sk, 0);
	bpf_sk_release(sk);
	return is_given;
}

static __always_inline bool weir_divert_give(struct __sk_buff *skb, const struct weir_fw_packet *p,
					     const __be32 *to, __be16 port, bool listens)
{
	struct bpf_sock_tuple tuple;
	__u32 bytes = weir_fw_socket_ends(&tuple, p, to, port);

	if (p->protocol == WEIR_PROTOCOL_TCP)
		return weir_divert_tcp(skb, &tuple, bytes, listens);
	return weir_divert_udp(skb, &tuple, bytes, listens);
}

/* One that the verifier checks by itself. */
__noinline int weir_divert_assign(struct __sk_buff *skb, const struct weir_fw_packet *p
				  __arg_nonnull, __u32 number)
{
	weir_gateway *socket = weir_gateway_at(number);
	__be32 to[4];

	if (weir_divert_give(skb, p, p->dst, p->dst_port, false))
		return true;
	if (!(socket->flags & WEIR_FW_GATEWAY_ADDRESS))
		return false;
	weir_copy_address(to, socket->addr);
	return weir_divert_give(skb, p, to, socket->port, true);
}

static __always_inline int weir_fw_divert_any(struct __sk_buff *skb, bool has_link)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *p;
	__u32 number;
	int action;

	weir_uses_arena();
	if (skb->pkt_type == PACKET_LOOPBACK || !scratch)
		return TCX_NEXT;
	if (weir_fw_changes_families() && skb->protocol == bpf_htons(WEIR_ETH_TYPE_IPV4) &&
	    weir_family_may_send(skb, has_link))
		return weir_family_send_skb(skb, &scratch->packet);
	if (has_link) {
		action = weir_errand_run(skb);
		if (action != TCX_NEXT)
			return action;
	}
	if (!weir_fw_has_gateways())
		return TCX_NEXT;
	p = weir_fw_begin_skb(skb, scratch, WEIR_FW_IN);
	p->interface = weir_fw_ifslot(skb->ifindex);
	if (weir_fw_read_skb(skb, p, has_link) ||
	    (p->protocol != WEIR_PROTOCOL_TCP && p->protocol != WEIR_PROTOCOL_UDP) ||
	    weir_fw_skips(p->ruleset, p->interface))
		return TCX_NEXT;
	number = weir_gateway_kept(p) & WEIR_FW_GATEWAY_COUNT_MAX;
	if (!number || !(weir_gateway_at(number)->flags & WEIR_FW_GATEWAY_SOCKET))
		return TCX_NEXT;
	if (p->flags & WEIR_PACKET_FRAGMENT) {
		weir_fw_count_drop(p, WEIR_DROP(FRAGMENT));
		return TCX_DROP;
	}
	if (weir_divert_assign(skb, p, number)) {
		skb->mark = WEIR_FW_SOCKET_MARK;
		return TCX_NEXT;
	}
	weir_fw_count_drop(p, WEIR_DROP(NO_SOCKET));
	if (p->protocol != WEIR_PROTOCOL_TCP || p->tcp_flags & WEIR_TCP_RST)
		return TCX_DROP;
	__builtin_memset(&scratch->decision, 0, sizeof(scratch->decision));
	scratch->decision.flags = WEIR_DECISION_RETURN_RST;
	return weir_fw_reply_skb(skb, p);
}

SEC("tcx/ingress")
int weir_fw_divert(struct __sk_buff *skb)
{
	return weir_fw_divert_any(skb, true);
}

SEC("tcx/ingress")
int weir_fw_divert3(struct __sk_buff *skb)
{
	return weir_fw_divert_any(skb, false);
}

#endif /* WEIR_FW_DIVERT_H */

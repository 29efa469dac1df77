/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers to packets of the box itself that rules with `return` block on their way out: the same
 * RST and ICMP errors, from the address that the packet was for, into the interface's receive
 * path.
 *
 * Nothing is written to the packet directly: a program that does so makes the kernel copy the
 * headers of every packet that TCP sends.
 */
#ifndef WEIR_FW_REPLY_LOCAL_H
#define WEIR_FW_REPLY_LOCAL_H

#include <weir/fw/reply.h>

/* The longest headers of an answer: Ethernet, IPv6, TCP. */
#define WEIR_FW_REPLY_HEADERS_BYTES                                                             \
	(sizeof(struct weir_eth) + sizeof(struct weir_ipv6) + sizeof(struct weir_tcp))

_Static_assert(WEIR_FW_REPLY_HEADERS_BYTES <= WEIR_FW_SCRATCH_HEADERS_BYTES,
	       "an answer's headers have room beside the stack");

__noinline int weir_fw_sum_skb(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	return weir_fw_sum(skb, true, at, bytes);
}

static __always_inline bool weir_fw_reply_local_rst(struct __sk_buff *skb, __u8 *headers,
						    const struct weir_fw_packet *p, __u8 ttl)
{
	__u32 bytes = sizeof(struct weir_eth) + weir_fw_ip_header_bytes(p->family) +
		      sizeof(struct weir_tcp);

	return weir_fw_fill_rst(headers, headers + WEIR_FW_REPLY_HEADERS_BYTES,
				sizeof(struct weir_eth), p, ttl) &&
	       !bpf_skb_change_tail(skb, bytes, 0) &&
	       !bpf_skb_store_bytes(skb, 0, headers, bytes, 0);
}

static __always_inline bool weir_fw_reply_local_error(struct __sk_buff *skb, __u8 *headers,
						      const struct weir_fw_packet *p, __u8 code)
{
	__u32 room_bytes = weir_fw_ip_header_bytes(p->family) + sizeof(struct weir_icmp);
	__u32 quote_bytes = weir_fw_quote_bytes(p), l3_at = sizeof(struct weir_eth);
	__u32 sum = weir_fw_sum_skb(skb, l3_at, quote_bytes);

	weir_fw_turn_mac((__u32 *)headers);
	return weir_fw_fill_error(headers, headers + WEIR_FW_REPLY_HEADERS_BYTES, l3_at, p, p->dst,
				  code, quote_bytes, sum) &&
	       !bpf_skb_change_tail(skb, l3_at + quote_bytes, 0) &&
	       !bpf_skb_change_head(skb, room_bytes, 0) &&
	       !bpf_skb_store_bytes(skb, 0, headers, l3_at + room_bytes, 0);
}

/* Answers a packet that has been counted as dropped; what to return for it. */
__noinline int weir_fw_reply_local(struct __sk_buff *skb,
				   const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	const struct weir_fw_decision *d;
	bool is_made = false;
	__u8 *headers;

	if (!scratch || !weir_fw_may_answer(p))
		return TCX_DROP;
	d = &scratch->decision;
	headers = (__u8 *)scratch->headers;
	if (bpf_skb_load_bytes(skb, 0, headers, sizeof(struct weir_eth)))
		return TCX_DROP;
	if (d->flags & WEIR_DECISION_RETURN_RST && p->protocol == WEIR_PROTOCOL_TCP) {
		if (p->tcp_flags & WEIR_TCP_RST)
			return TCX_DROP;
		is_made = weir_fw_reply_local_rst(skb, headers, p, d->rst_ttl);
	} else if (d->flags & WEIR_DECISION_RETURN_ICMP) {
		is_made = weir_fw_reply_local_error(skb, headers, p, d->icmp_code);
	} else {
		return TCX_DROP;
	}
	if (!is_made) {
		weir_fw_table_counters(p->cpu)->unanswered++;
		return TCX_DROP;
	}
	weir_fw_table_counters(p->cpu)->replies++;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

#endif /* WEIR_FW_REPLY_LOCAL_H */

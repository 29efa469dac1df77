/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The TTL of a packet of the kernel's, where it is not the kernel that counts it down. The caller
 * has seen that it stays above 0.
 */
#ifndef WEIR_FW_TTL_SKB_H
#define WEIR_FW_TTL_SKB_H

#include <weir/fw/headers.h>
#include <weir/fw/packet.h>

/* Counts it down, or up again (`is_back`), and IPv4's checksum with it; false if it cannot be. */
static __always_inline bool weir_ttl_step(struct __sk_buff *skb, const struct weir_fw_packet *p,
					  bool is_back)
{
	__u32 at = p->l3_at + __builtin_offsetof(struct weir_ipv4, ttl);
	__be16 from, to;
	__u8 hops;

	if (p->family != WEIR_FW_INET) {
		at = p->l3_at + __builtin_offsetof(struct weir_ipv6, hop_limit);
		if (bpf_skb_load_bytes(skb, at, &hops, sizeof(hops)))
			return false;
		hops += is_back ? 1 : -1;
		return !bpf_skb_store_bytes(skb, at, &hops, sizeof(hops), BPF_F_RECOMPUTE_CSUM);
	}
	if (bpf_skb_load_bytes(skb, at, &from, sizeof(from)))
		return false;
	/* TTL and protocol are one word. */
	to = is_back ? from + bpf_htons(0x0100) : from - bpf_htons(0x0100);
	return !bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0) &&
	       !bpf_l3_csum_replace(skb,
				    p->l3_at + __builtin_offsetof(struct weir_ipv4, checksum),
				    from, to, sizeof(to));
}

#endif /* WEIR_FW_TTL_SKB_H */

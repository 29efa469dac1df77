/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors (RFC 792, RFC 4443): the state of the packet that they quote.
 */
#ifndef WEIR_FW_QUOTED_H
#define WEIR_FW_QUOTED_H

#include <bpf/bpf_endian.h>
#include <weir/fw/parse.h>
#include <weir/fw/scratch.h>
#include <weir/fw/state.h>

/* What every error quotes behind the IP header: ports, and TCP's sequence number. */
struct weir_fw_quoted_message {
	__be16 src;
	__be16 dst;
	__be32 seq;
};

/* Whether the error, not only its frame, reaches so far. */
static __always_inline bool weir_fw_quotes(const struct weir_fw_packet *p, __u32 at, __u32 bytes)
{
	return at + bytes <= p->l3_at + p->ip_bytes;
}

/* The quoted IP header; the reason of a drop + 1 if it is not there. */
static __always_inline int weir_fw_quoted_ip(void *ctx, bool is_skb,
					     const struct weir_fw_packet *p,
					     struct weir_fw_scratch *scratch)
{
	struct weir_fw_packet *q = &scratch->quoted;
	__u32 i;

	__builtin_memset(q, 0, sizeof(*q));
	q->family = p->family;
	q->l3_at = p->quoted_at;
	if (p->family == WEIR_FW_INET) {
		struct weir_ipv4 *ip = &scratch->ipv4;
		__u32 header_bytes;

		if (!weir_fw_quotes(p, q->l3_at, sizeof(*ip)) ||
		    weir_fw_load(ctx, is_skb, q->l3_at, ip, sizeof(*ip)) ||
		    ip->version_words >> 4 != 4)
			return WEIR_DROP(SHORT);
		header_bytes = (ip->version_words & 0xf) * 4;
		if (header_bytes < sizeof(*ip))
			header_bytes = sizeof(*ip);
		if (!weir_fw_quotes(p, q->l3_at, header_bytes))
			return WEIR_DROP(SHORT);
		q->src[0] = ip->src;
		q->dst[0] = ip->dst;
		q->protocol = ip->protocol;
		q->ip_bytes = bpf_ntohs(ip->total_bytes);
		q->l4_at = q->l3_at + header_bytes;
		if (ip->fragment & bpf_htons(WEIR_IPV4_OFFSET_MASK))
			return WEIR_DROP(FRAGMENT);
		return 0;
	}
	if (!weir_fw_quotes(p, q->l3_at, sizeof(scratch->ipv6)) ||
	    weir_fw_load(ctx, is_skb, q->l3_at, &scratch->ipv6, sizeof(scratch->ipv6)) ||
	    bpf_ntohl(scratch->ipv6.version_class_flow) >> 28 != 6)
		return WEIR_DROP(SHORT);
	for (i = 0; i < 4; i++) {
		q->src[i] = scratch->ipv6.src[i];
		q->dst[i] = scratch->ipv6.dst[i];
	}
	q->protocol = scratch->ipv6.next_header;
	q->ip_bytes = sizeof(scratch->ipv6) + bpf_ntohs(scratch->ipv6.payload_bytes);
	q->l4_at = q->l3_at + sizeof(scratch->ipv6);
	return 0;
}

/*
 * Steps over the extension headers of a quoted packet, of a fragment if it is the first one;
 * nothing is asked of them but their sizes. 0, or the reason of a drop + 1.
 */
static __always_inline int weir_fw_quoted_extensions(void *ctx, bool is_skb,
						     const struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_ipv6_fragment header;
	struct weir_fw_packet *q;
	__u32 i, bytes;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	q = &scratch->quoted;
	for (i = 0; i < WEIR_EXTENSION_COUNT_MAX; i++) {
		if (!weir_is_extension(p->family, q->protocol))
			break;
		if (!weir_fw_quotes(p, q->l4_at, sizeof(header)) ||
		    weir_fw_load(ctx, is_skb, q->l4_at, &header, sizeof(header)))
			return WEIR_DROP(SHORT);
		/* The byte behind the first one is the size, but for fragments. */
		bytes = (header.unused + 1) * 8;
		if (q->protocol == WEIR_IPV6_AUTHENTICATION)
			bytes = (header.unused + 2) * 4;
		if (q->protocol == WEIR_IPV6_FRAGMENT) {
			if (header.offset & bpf_htons(WEIR_IPV6_OFFSET_MASK))
				return WEIR_DROP(FRAGMENT);
			bytes = sizeof(header);
		}
		q->protocol = header.next_header;
		q->l4_at += bytes;
	}
	return weir_is_extension(p->family, q->protocol) ? WEIR_DROP(IP_OPTION) : 0;
}

/* Of each hook one that the verifier checks by itself. */
__noinline int weir_fw_quoted_extensions_ingress(struct xdp_md *ctx,
						 const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_quoted_extensions(ctx, false, p);
}

__noinline int weir_fw_quoted_extensions_skb(struct __sk_buff *skb,
					     const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_quoted_extensions(skb, true, p);
}

/* The ends of the quoted packet. */
static __always_inline int weir_fw_quoted_ends(void *ctx, bool is_skb,
					       const struct weir_fw_packet *p,
					       struct weir_fw_packet *q)
{
	struct weir_fw_quoted_message message;
	bool is_icmp = weir_is_icmp(q->protocol);

	if (!is_icmp && q->protocol != WEIR_PROTOCOL_TCP && q->protocol != WEIR_PROTOCOL_UDP &&
	    q->protocol != WEIR_PROTOCOL_SCTP)
		return 0;
	if (!weir_fw_quotes(p, q->l4_at, sizeof(message)) ||
	    weir_fw_load(ctx, is_skb, q->l4_at, &message, sizeof(message)))
		return WEIR_DROP(SHORT);
	if (is_icmp) {
		q->icmp_type = (__u8)message.src;
		/* The identifier stands where TCP's sequence number begins. */
		weir_icmp_ends(q, q->icmp_type, (__be16)message.seq);
		return 0;
	}
	q->src_port = message.src;
	q->dst_port = message.dst;
	q->seq = bpf_ntohl(message.seq);
	return 0;
}

static __always_inline bool weir_fw_same_address(const __be32 *a, const __be32 *b)
{
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

static __always_inline int weir_fw_error(void *ctx, bool is_skb, struct weir_fw_packet *p,
					 struct weir_fw_hit *hit)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *q;
	int drop, found;

	if (!scratch)
		return WEIR_STATE_MISS;
	q = &scratch->quoted;
	drop = weir_fw_quoted_ip(ctx, is_skb, p, scratch);
	if (!drop && weir_is_extension(p->family, q->protocol))
		drop = is_skb ? weir_fw_quoted_extensions_skb(ctx, p) :
				weir_fw_quoted_extensions_ingress(ctx, p);
	if (!drop)
		drop = weir_fw_quoted_ends(ctx, is_skb, p, q);
	/* An error goes to who sent what it quotes. */
	if (!drop && !weir_fw_same_address(q->src, p->dst))
		drop = WEIR_DROP(STATE_MISMATCH);
	if (drop) {
		hit->reason = drop - 1;
		return WEIR_STATE_DROP;
	}
	q->cpu = p->cpu;
	q->tick = p->tick;
	q->ruleset = p->ruleset;
	q->interface = p->interface;
	q->out_interface = p->out_interface;
	q->direction = p->direction;
	found = weir_state_error(p, q, hit);
	return found == WEIR_STATE_ELSEWHERE ? weir_family_error(p, q, hit) : found;
}

__noinline int weir_fw_error_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull,
				     struct weir_fw_hit *hit __arg_nonnull)
{
	return weir_fw_error(ctx, false, p, hit);
}

__noinline int weir_fw_error_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
				 struct weir_fw_hit *hit __arg_nonnull)
{
	return weir_fw_error(skb, true, p, hit);
}

#endif /* WEIR_FW_QUOTED_H */

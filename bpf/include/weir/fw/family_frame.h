/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes a packet one of the other family in its frame (RFC 7915): other headers, the ports or the
 * identifier that its state says (weir_fw_scratch.other), what an ICMP error quotes, and every
 * checksum by what has changed.
 *
 * Only headers without options or extensions are changed, and never fragments: all else is dropped
 * (`af-to`). What lies behind the headers stays where it is; the frame grows or shrinks at its
 * beginning.
 */
#ifndef WEIR_FW_FAMILY_FRAME_H
#define WEIR_FW_FAMILY_FRAME_H

#include <bpf/bpf_endian.h>
#include <weir/fw/family_icmp.h>
#include <weir/fw/fib.h>
#include <weir/fw/reply.h>
#include <weir/fw/rewrite.h>
#include <weir/fw/scratch.h>

/* Bytes of IPv4 that a router may have to fragment: they come from an IPv6 host (RFC 7915, 5.1). */
#define WEIR_FAMILY_WHOLE_BYTES 1260
/* Ethernet with two tags. */
#define WEIR_FAMILY_LINK_BYTES_MAX (sizeof(struct weir_eth) + 2 * sizeof(struct weir_vlan))
/* The longest headers: of an ICMPv6 error and of what that quotes. */
#define WEIR_FAMILY_HEADERS_BYTES_MAX (2 * sizeof(struct weir_ipv6) + sizeof(struct weir_icmp))

_Static_assert(WEIR_FAMILY_LINK_BYTES_MAX <= WEIR_FW_CHUNK_BYTES &&
		       WEIR_FAMILY_HEADERS_BYTES_MAX <= WEIR_FW_SCRATCH_ANSWER_BYTES,
	       "what is moved has room beside the stack");

static __always_inline bool weir_family_is_error(const struct weir_fw_packet *p)
{
	return p->flags & WEIR_PACKET_ICMP_ERROR;
}

/* By how much longer a packet is as one of IPv6, with what it quotes. */
static __always_inline __u32 weir_family_growth(const struct weir_fw_packet *p)
{
	return WEIR_FAMILY_BYTES * (weir_family_is_error(p) ? 2 : 1);
}

/* The same as of a packet that changes, as a signed number. */
static __always_inline __s32 weir_family_difference(const struct weir_fw_packet *p)
{
	__s32 bytes = weir_family_growth(p);

	return p->family == WEIR_FW_INET ? bytes : -bytes;
}

/*
 * Whether the headers of a packet, and of what it quotes, are as short as they may be, and it is
 * none that no router forwards.
 */
static __always_inline bool weir_family_is_plain(const struct weir_fw_packet *p,
						 const struct weir_fw_packet *quoted)
{
	__u32 bytes = weir_fw_ip_header_bytes(p->family);

	if (!weir_family_is_short(p) || p->l3_at > WEIR_FAMILY_LINK_BYTES_MAX ||
	    weir_fw_is_martian(p))
		return false;
	return !weir_family_is_error(p) || quoted->l4_at - quoted->l3_at == bytes;
}

/* The message of ICMP that a packet becomes; false if there is none. */
static __always_inline bool weir_family_message(void *ctx, bool is_skb,
						const struct weir_fw_packet *p,
						struct weir_fw_scratch *scratch)
{
	struct weir_icmp *icmp = &scratch->other_icmp;

	if (weir_fw_load(ctx, is_skb, p->l4_at, icmp, sizeof(*icmp)))
		return false;
	if (weir_family_is_error(p))
		return p->family == WEIR_FW_INET ? weir_family_error6(icmp) :
						   weir_family_error4(icmp);
	icmp->type = weir_family_echo(p->family, p->icmp_type);
	icmp->id = weir_fw_icmp_id(&scratch->other, icmp->type);
	return icmp->type != WEIR_FAMILY_NONE;
}

/*
 * The source of an error that a router on the way has sent, of whom nothing is known in the other
 * family. As in pf it is the end that the error tells of; towards who began the flow, which sees
 * IPv4 addresses in the last 32 bits, the router's stands there: traceroute shows it.
 */
static __always_inline void weir_family_router(const struct weir_fw_packet *p,
					       struct weir_fw_scratch *scratch,
					       const struct weir_fw_hit *hit)
{
	weir_copy_address(scratch->flow_src, scratch->other.src);
	if (p->family == WEIR_FW_INET && hit->reverse && p->src[0] != scratch->quoted.src[0])
		scratch->other.src[3] = p->src[0];
}

/* Completes what is known of what a packet becomes. 0, or the reason of a drop + 1. */
static __always_inline int weir_family_describe(void *ctx, bool is_skb,
						const struct weir_fw_packet *p,
						const struct weir_fw_hit *hit)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *other;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	other = &scratch->other;
	if (!weir_family_is_plain(p, &scratch->quoted) ||
	    (weir_is_icmp(p->protocol) && !weir_family_message(ctx, is_skb, p, scratch)))
		return WEIR_DROP(AF_TO);
	if (weir_family_is_error(p)) {
		weir_family_router(p, scratch, hit);
		other->protocol = p->family == WEIR_FW_INET ? WEIR_PROTOCOL_ICMPV6 :
							      WEIR_PROTOCOL_ICMP;
	}
	other->flags = p->flags;
	other->tos = p->tos;
	other->ttl = p->ttl;
	other->cpu = p->cpu;
	other->interface = p->interface;
	other->l3_at = p->l3_at;
	other->ip_bytes = p->ip_bytes + weir_family_difference(p);
	other->routing_table = 0;
	/* No error of IPv6 is longer (RFC 4443, section 2.4). */
	if (weir_family_is_error(p) && other->ip_bytes > WEIR_FAMILY_MTU_MIN)
		return WEIR_DROP(AF_TO);
	return 0;
}

/* What a header says besides addresses and protocol. */
struct weir_family_header {
	__u8 tos;
	__u8 ttl;
	__u16 message_bytes;
};

/* Reads one, and gives its sum, which is less than 2^36. */
static __always_inline bool weir_family_read(void *ctx, bool is_skb, __u32 family, __u32 at,
					     struct weir_fw_scratch *scratch,
					     struct weir_family_header *header, __u64 *sum)
{
	struct weir_ipv4 *ip4 = &scratch->ipv4;
	struct weir_ipv6 *ip6 = &scratch->ipv6;

	if (family == WEIR_FW_INET) {
		if (weir_fw_load(ctx, is_skb, at, ip4, sizeof(*ip4)))
			return false;
		header->tos = ip4->tos;
		header->ttl = ip4->ttl;
		header->message_bytes = bpf_ntohs(ip4->total_bytes) - sizeof(*ip4);
		*sum = weir_fw_sum_words((__u32 *)ip4, sizeof(*ip4) / 4);
		return true;
	}
	if (weir_fw_load(ctx, is_skb, at, ip6, sizeof(*ip6)))
		return false;
	header->tos = bpf_ntohl(ip6->version_class_flow) >> 20;
	header->ttl = ip6->hop_limit;
	header->message_bytes = bpf_ntohs(ip6->payload_bytes);
	*sum = weir_fw_sum_words((__u32 *)ip6, sizeof(*ip6) / 4);
	return true;
}

/* Writes one of a family; gives its sum. */
static __always_inline __u64 weir_family_put(void *to, __u32 family, const __be32 *src,
					     const __be32 *dst, __u8 protocol,
					     const struct weir_family_header *header,
					     bool is_quoted)
{
	struct weir_ipv4 *ip4 = to;
	struct weir_ipv6 *ip6 = to;
	__u32 bytes = sizeof(*ip4) + header->message_bytes;

	if (family == WEIR_FW_INET6) {
		weir_fw_put_ipv6(ip6, src, dst, protocol, header->ttl, header->message_bytes);
		ip6->version_class_flow = bpf_htonl(6u << 28 | (__u32)header->tos << 20);
		return weir_fw_sum_words((__u32 *)ip6, sizeof(*ip6) / 4);
	}
	ip4->version_words = WEIR_IPV4_NO_OPTIONS;
	ip4->tos = header->tos;
	ip4->total_bytes = bpf_htons(bytes);
	/* What may be fragmented has to be told from others. */
	ip4->id = bytes > WEIR_FAMILY_WHOLE_BYTES || is_quoted ? 0 : bpf_get_prandom_u32();
	ip4->fragment = bytes > WEIR_FAMILY_WHOLE_BYTES ? bpf_htons(WEIR_IPV4_DONT_FRAGMENT) : 0;
	ip4->ttl = header->ttl;
	ip4->protocol = protocol;
	ip4->checksum = 0;
	ip4->src = src[0];
	ip4->dst = dst[0];
	ip4->checksum = weir_checksum(weir_fw_sum_words((__u32 *)ip4, sizeof(*ip4) / 4));
	return weir_fw_sum_words((__u32 *)ip4, sizeof(*ip4) / 4);
}

/* A sum below 2^63 as one of 32 bits. */
static __always_inline __u32 weir_family_fold(__u64 sum)
{
	return weir_sum_fold(weir_sum_fold(weir_sum_fold(sum)));
}

/* What is added where something is taken away whose sum this is. */
static __always_inline __u64 weir_family_minus(__u64 sum)
{
	return (__u32)~weir_family_fold(sum);
}

/* What of a packet's IP header the checksum of its message covers: of so many bytes. */
static __always_inline __u64 weir_family_pseudo(const struct weir_fw_packet *p, __u32 bytes)
{
	if (!weir_is_icmp(p->protocol))
		return weir_fw_sum_ends(p);
	if (p->family == WEIR_FW_INET)
		return 0;
	return weir_fw_sum_ends(p) + bpf_htons(WEIR_PROTOCOL_ICMPV6) + bpf_htons(bytes);
}

/* The sum of a message's header of ICMP but for its checksum. */
static __always_inline __u64 weir_family_sum_icmp(const struct weir_icmp *icmp)
{
	return (__u64) * (const __u16 *)icmp + icmp->id + icmp->seq;
}

/* Makes room for the new headers, or takes it away; the frame is stale then. */
static __always_inline bool weir_family_resize(void *ctx, bool is_skb,
					       const struct weir_fw_packet *p)
{
	const __s32 bytes = WEIR_FAMILY_BYTES;

	if (!is_skb)
		return !bpf_xdp_adjust_head(ctx, -weir_family_difference(p));
	if (p->family == WEIR_FW_INET)
		return !bpf_skb_change_proto(ctx, bpf_htons(WEIR_ETH_TYPE_IPV6), 0) &&
		       (!weir_family_is_error(p) ||
			!bpf_skb_adjust_room(ctx, bytes, BPF_ADJ_ROOM_MAC, 0));
	return (!weir_family_is_error(p) ||
		!bpf_skb_adjust_room(ctx, -bytes, BPF_ADJ_ROOM_MAC, 0)) &&
	       !bpf_skb_change_proto(ctx, bpf_htons(WEIR_ETH_TYPE_IPV4), 0);
}

/* The link's header, which the kernel's packets keep, and what it says is behind it. */
static __always_inline bool weir_family_put_link(void *ctx, bool is_skb,
						 const struct weir_fw_packet *other,
						 struct weir_fw_scratch *scratch)
{
	__u32 bytes = other->l3_at;
	__be16 type = other->family == WEIR_FW_INET ? bpf_htons(WEIR_ETH_TYPE_IPV4) :
						      bpf_htons(WEIR_ETH_TYPE_IPV6);

	if (is_skb)
		return !bytes || !bpf_skb_store_bytes(ctx, bytes - 2, &type, sizeof(type), 0);
	asm volatile("" : "+r"(bytes));
	if (bytes < sizeof(struct weir_eth) || bytes > WEIR_FAMILY_LINK_BYTES_MAX)
		return false;
	return !bpf_xdp_store_bytes(ctx, 0, scratch->chunk, bytes) &&
	       !bpf_xdp_store_bytes(ctx, bytes - 2, &type, sizeof(type));
}

static __always_inline bool weir_family_take_link(void *ctx, bool is_skb,
						  const struct weir_fw_packet *p,
						  struct weir_fw_scratch *scratch)
{
	__u32 bytes = p->l3_at;

	if (is_skb)
		return true;
	asm volatile("" : "+r"(bytes));
	if (bytes < sizeof(struct weir_eth) || bytes > WEIR_FAMILY_LINK_BYTES_MAX)
		return false;
	return !bpf_xdp_load_bytes(ctx, 0, scratch->chunk, bytes);
}

/*
 * Puts the headers of the other family into the CPU's scratch, and the link's header aside. Returns
 * what the sum of all that is replaced has changed by for the checksum of the message, below 2^35;
 * or -1.
 */
static __always_inline __s64 weir_family_headers(void *ctx, bool is_skb,
						 const struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_family_header header = {}, quoted = {};
	const struct weir_fw_packet *other, *q;
	__u64 added, removed, sum, inner = 0;
	void *to;
	__u32 at;

	if (!scratch)
		return -1;
	other = &scratch->other;
	q = &scratch->quoted;
	to = scratch->answer;
	at = weir_fw_ip_header_bytes(other->family);
	if (!weir_family_take_link(ctx, is_skb, p, scratch) ||
	    !weir_family_read(ctx, is_skb, p->family, p->l3_at, scratch, &header, &sum))
		return -1;
	removed = weir_family_pseudo(p, header.message_bytes);
	if (weir_family_is_error(p))
		header.message_bytes += p->family == WEIR_FW_INET ? WEIR_FAMILY_BYTES :
								    -WEIR_FAMILY_BYTES;
	added = weir_family_pseudo(other, header.message_bytes);
	weir_family_put(to, other->family, other->src, other->dst, other->protocol, &header,
			false);
	if (weir_is_icmp(p->protocol)) {
		struct weir_icmp *icmp = to + at, old;

		if (weir_fw_load(ctx, is_skb, p->l4_at, &old, sizeof(old)))
			return -1;
		*icmp = scratch->other_icmp;
		removed += weir_family_sum_icmp(&old);
		added += weir_family_sum_icmp(icmp);
	}
	if (weir_family_is_error(p)) {
		if (!weir_family_read(ctx, is_skb, p->family, q->l3_at, scratch, &quoted, &inner))
			return -1;
		removed += inner;
		/* It went the other way. */
		added += weir_family_put(to + at + sizeof(struct weir_icmp), other->family,
					 other->dst, scratch->flow_src,
					 weir_family_protocol(q->protocol), &quoted, true);
	}
	return weir_family_fold(added) + weir_family_minus(removed);
}

/* Writes them into the frame. */
static __always_inline bool weir_family_store(void *ctx, bool is_skb,
					      const struct weir_fw_packet *p,
					      struct weir_fw_scratch *scratch)
{
	__u32 bytes = weir_fw_ip_header_bytes(scratch->other.family);

	if (weir_family_is_error(p))
		bytes += bytes;
	if (weir_is_icmp(p->protocol))
		bytes += sizeof(struct weir_icmp);
	asm volatile("" : "+r"(bytes));
	if (bytes < sizeof(struct weir_ipv4) || bytes > WEIR_FAMILY_HEADERS_BYTES_MAX)
		return false;
	return !weir_fw_store_uncovered(ctx, is_skb, scratch->other.l3_at, scratch->answer, bytes);
}

/* The ports of a message at an offset; returns what its sum has changed by, or -1. */
static __always_inline __s64 weir_family_ports(void *ctx, bool is_skb, __u32 at, __u32 to)
{
	__u32 from;

	if (weir_fw_load(ctx, is_skb, at, &from, sizeof(from)) ||
	    weir_fw_store(ctx, is_skb, at, &to, sizeof(to)))
		return -1;
	return weir_sum_change(from, to);
}

/* The first bytes of a message that is quoted, at its new place; as before. */
static __always_inline __s64 weir_family_quoted(void *ctx, bool is_skb, __u32 at,
						struct weir_fw_scratch *scratch)
{
	const struct weir_fw_packet *other = &scratch->other, *q = &scratch->quoted;
	struct weir_icmp icmp;
	__u64 before;

	if (q->protocol == WEIR_PROTOCOL_TCP || q->protocol == WEIR_PROTOCOL_UDP)
		return weir_family_ports(ctx, is_skb, at,
					 weir_ports(other->dst_port, other->src_port));
	if (weir_fw_load(ctx, is_skb, at, &icmp, sizeof(icmp)))
		return -1;
	before = weir_family_sum_icmp(&icmp);
	icmp.type = weir_family_echo(q->family, q->icmp_type);
	icmp.id = weir_icmp_query(q->family, q->icmp_type) ? other->src_port : other->dst_port;
	if (weir_fw_store(ctx, is_skb, at, &icmp, sizeof(icmp)))
		return -1;
	return weir_family_fold(weir_family_sum_icmp(&icmp)) + weir_family_minus(before);
}

/* A datagram without a checksum gets one: IPv6 has none without. */
static __always_inline bool weir_family_sum_udp(void *ctx, bool is_skb,
						const struct weir_fw_packet *other, __u32 at)
{
	__u32 bytes = other->ip_bytes - sizeof(struct weir_ipv6), sum;
	__u16 checksum;

	if (weir_fw_load(ctx, is_skb, at + WEIR_UDP_CHECKSUM_AT, &checksum, sizeof(checksum)))
		return false;
	if (checksum)
		return true;
	sum = is_skb ? weir_fw_sum_skb(ctx, at, bytes) : weir_fw_sum_frame(ctx, at, bytes);
	checksum = weir_checksum_udp(weir_fw_sum_ends(other) + sum +
				     bpf_htons(WEIR_PROTOCOL_UDP) + bpf_htons(bytes));
	return !weir_fw_store_uncovered(ctx, is_skb, at + WEIR_UDP_CHECKSUM_AT, &checksum,
					sizeof(checksum));
}

/* The message behind the headers that were stored, whose sum has changed so. */
static __always_inline int weir_family_finish(void *ctx, bool is_skb,
					      const struct weir_fw_packet *p, __u64 headers)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	const struct weir_fw_packet *other;
	__s64 message = 0;
	__u32 at, checksum_at;

	if (!scratch)
		return -1;
	other = &scratch->other;
	at = other->l3_at + weir_fw_ip_header_bytes(other->family);
	checksum_at = weir_is_icmp(p->protocol) ? WEIR_ICMP_CHECKSUM_AT :
						  weir_fw_checksum_at(p->protocol);
	if (weir_family_is_error(p))
		message = weir_family_quoted(ctx, is_skb,
					     at + sizeof(struct weir_icmp) +
						     weir_fw_ip_header_bytes(other->family),
					     scratch);
	else if (!weir_is_icmp(p->protocol))
		message = weir_family_ports(ctx, is_skb, at,
					    weir_ports(other->src_port, other->dst_port));
	if (message < 0)
		return -1;
	if (!weir_fw_rewrite_sum(ctx, is_skb, p, at + checksum_at, headers, message))
		return -1;
	if (p->protocol == WEIR_PROTOCOL_UDP && other->family == WEIR_FW_INET6 &&
	    !weir_family_sum_udp(ctx, is_skb, other, at))
		return -1;
	return 0;
}

/* Of each hook functions that the verifier checks by themselves. */
__noinline int weir_family_describe_ingress(struct xdp_md *ctx,
					    const struct weir_fw_packet *p __arg_nonnull,
					    const struct weir_fw_hit *hit __arg_nonnull)
{
	return weir_family_describe(ctx, false, p, hit);
}

__noinline int weir_family_describe_skb(struct __sk_buff *skb,
					const struct weir_fw_packet *p __arg_nonnull,
					const struct weir_fw_hit *hit __arg_nonnull)
{
	return weir_family_describe(skb, true, p, hit);
}

__noinline __s64 weir_family_headers_ingress(struct xdp_md *ctx,
					     const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_family_headers(ctx, false, p);
}

__noinline __s64 weir_family_headers_skb(struct __sk_buff *skb,
					 const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_family_headers(skb, true, p);
}

__noinline int weir_family_finish_ingress(struct xdp_md *ctx,
					  const struct weir_fw_packet *p __arg_nonnull,
					  __u64 headers)
{
	return weir_family_finish(ctx, false, p, headers);
}

__noinline int weir_family_finish_skb(struct __sk_buff *skb,
				      const struct weir_fw_packet *p __arg_nonnull, __u64 headers)
{
	return weir_family_finish(skb, true, p, headers);
}

/* Changes a packet that is described. 0, or the reason of a drop + 1: it is no packet then. */
static __always_inline int weir_family_change(void *ctx, bool is_skb,
					      const struct weir_fw_packet *p,
					      struct weir_fw_scratch *scratch)
{
	__s64 headers = is_skb ? weir_family_headers_skb(ctx, p) :
				 weir_family_headers_ingress(ctx, p);

	if (headers < 0)
		return WEIR_DROP(SHORT);
	if (!weir_family_resize(ctx, is_skb, p))
		return WEIR_DROP(MEMORY);
	if (!weir_family_put_link(ctx, is_skb, &scratch->other, scratch) ||
	    !weir_family_store(ctx, is_skb, p, scratch))
		return WEIR_DROP(SHORT);
	headers = is_skb ? weir_family_finish_skb(ctx, p, headers) :
			   weir_family_finish_ingress(ctx, p, headers);
	return headers ? WEIR_DROP(SHORT) : 0;
}

/* Asks the kernel where a packet goes that is described; what bpf_fib_lookup() says. */
static __always_inline long weir_family_ask(void *ctx, const struct weir_fw_packet *other,
					    struct weir_fw_scratch *scratch, __u32 ifindex)
{
	struct bpf_fib_lookup *f = &scratch->fib;

	__builtin_memset(f, 0, sizeof(*f));
	weir_fw_fib_ask(f, other, ifindex);
	weir_fw_table_counters(other->cpu)->fib_lookups++;
	return bpf_fib_lookup(ctx, f, sizeof(*f), 0);
}

/*
 * Whether what the kernel says keeps a packet here: it is too long for its way, and must not be
 * fragmented. What came as IPv4 never is, since nobody would put it together as IPv6.
 */
static __always_inline bool weir_family_is_too_big(const struct weir_fw_packet *other, long found)
{
	return found == BPF_FIB_LKUP_RET_FRAG_NEEDED &&
	       (other->family == WEIR_FW_INET6 || other->ip_bytes > WEIR_FAMILY_WHOLE_BYTES);
}

/* The answer to who has sent such a packet, or one whose TTL ends here. */
static __always_inline void weir_family_say(struct weir_fw_scratch *scratch,
					    const struct weir_fw_packet *p, int drop)
{
	struct weir_fw_decision *d = &scratch->decision;
	__u32 mtu_bytes = scratch->fib.mtu_result;
	bool is_ipv4 = p->family == WEIR_FW_INET;

	__builtin_memset(d, 0, sizeof(*d));
	d->flags = WEIR_DECISION_RETURN_ICMP;
	if (drop == WEIR_DROP(TTL)) {
		d->icmp_type = is_ipv4 ? WEIR_ICMP_TIME_EXCEEDED : WEIR_ICMP_TIME_EXCEEDED_6;
		return;
	}
	d->icmp_code = is_ipv4 ? WEIR_ICMP_NEEDS_FRAGMENT_CODE : 0;
	d->mtu_bytes = is_ipv4 ? mtu_bytes - WEIR_FAMILY_BYTES : weir_family_mtu6(mtu_bytes);
}

#endif /* WEIR_FW_FAMILY_FRAME_H */

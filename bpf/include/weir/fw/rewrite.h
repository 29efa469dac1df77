/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes the ends that a packet has got by translation into its frame, and the other way round:
 * addresses, ports, identifiers of ICMP queries, what ICMP errors quote of them, and every checksum
 * by what has changed (RFC 1624).
 *
 * Later fragments have nothing but addresses. SCTP's checksum does not cover the addresses, and its
 * ports are never translated.
 */
#ifndef WEIR_FW_REWRITE_H
#define WEIR_FW_REWRITE_H

#include <bpf/bpf_endian.h>
#include <weir/checksum.h>
#include <weir/fw/parse.h>
#include <weir/fw/quoted.h>
#include <weir/fw/scratch.h>
#include <weir/fw/table.h>

/* Of bpf(2), bpf_l4_csum_replace(). */
#define WEIR_FW_BPF_F_PSEUDO_HDR (1u << 4)
#define WEIR_FW_BPF_F_MARK_MANGLED_0 (1u << 5)

/* Writes to the frame of either hook. */
static __always_inline long weir_fw_store(void *ctx, bool is_skb, __u32 at, void *from,
					  __u32 bytes)
{
	return is_skb ? bpf_skb_store_bytes(ctx, at, from, bytes, 0) :
			bpf_xdp_store_bytes(ctx, at, from, bytes);
}

/*
 * The same for a header that no checksum of its own covers, so that the sum which hardware may have
 * made of the whole packet follows (CHECKSUM_COMPLETE of the kernel's skbuff.h).
 */
static __always_inline long weir_fw_store_uncovered(void *ctx, bool is_skb, __u32 at, void *from,
						    __u32 bytes)
{
	return is_skb ? bpf_skb_store_bytes(ctx, at, from, bytes, BPF_F_RECOMPUTE_CSUM) :
			bpf_xdp_store_bytes(ctx, at, from, bytes);
}

/* What a sum changes by where one word takes the place of another: less than 2^33. */
static __always_inline __u64 weir_sum_change(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

/* Brings a sum of some changes below 2^33. */
static __always_inline __u64 weir_sum_fold(__u64 sum)
{
	return (sum & 0xffffffff) + (sum >> 32);
}

/* A checksum after such a change. */
static __always_inline __u16 weir_sum_apply(__u16 checksum, __u64 change)
{
	return weir_checksum((__u16)~checksum + change);
}

/*
 * Puts addresses into the IP header at an offset, and its checksum; returns what the sum of the
 * addresses has changed by, or -1. One that is quoted is covered by the checksum of who quotes it.
 */
static __always_inline __s64 weir_fw_rewrite_ip(void *ctx, bool is_skb, __u32 at, bool is_quoted,
						__u32 family, const __be32 *src,
						const __be32 *dst)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u64 change = 0;
	__u32 i;

	if (!scratch)
		return -1;
	if (family == WEIR_FW_INET) {
		struct weir_ipv4 *ip = &scratch->ipv4;

		if (weir_fw_load(ctx, is_skb, at, ip, sizeof(*ip)))
			return -1;
		change = weir_sum_change(ip->src, src[0]) + weir_sum_change(ip->dst, dst[0]);
		change = weir_sum_fold(change);
		ip->src = src[0];
		ip->dst = dst[0];
		ip->checksum = weir_sum_apply(ip->checksum, change);
		return weir_fw_store(ctx, is_skb, at, ip, sizeof(*ip)) ? -1 : (__s64)change;
	}
	if (weir_fw_load(ctx, is_skb, at, &scratch->ipv6, sizeof(scratch->ipv6)))
		return -1;
	for (i = 0; i < 4; i++) {
		change += weir_sum_change(scratch->ipv6.src[i], src[i]) +
			  weir_sum_change(scratch->ipv6.dst[i], dst[i]);
		scratch->ipv6.src[i] = src[i];
		scratch->ipv6.dst[i] = dst[i];
	}
	change = weir_sum_fold(change);
	if (is_quoted ?
		    weir_fw_store(ctx, is_skb, at, &scratch->ipv6, sizeof(scratch->ipv6)) :
		    weir_fw_store_uncovered(ctx, is_skb, at, &scratch->ipv6,
					    sizeof(scratch->ipv6)))
		return -1;
	return change;
}

/* The same of ICMP, whose checksum covers no addresses. */
static __always_inline bool weir_fw_is_icmp4(const struct weir_fw_packet *p)
{
	return p->protocol == WEIR_PROTOCOL_ICMP && p->family == WEIR_FW_INET;
}

/*
 * Changes the checksum at an offset: by that of the addresses, which the kernel's own packets may
 * have in it alone so far, and by that of the message. False if it cannot be.
 */
static __always_inline bool weir_fw_rewrite_sum(void *ctx, bool is_skb,
						const struct weir_fw_packet *p, __u32 at,
						__u64 addresses, __u64 message)
{
	bool is_udp = p->protocol == WEIR_PROTOCOL_UDP;
	__u64 flags = is_udp ? WEIR_FW_BPF_F_MARK_MANGLED_0 : 0;
	__u16 checksum;

	if (is_skb) {
		addresses = weir_sum_fold(weir_sum_fold(addresses));
		message = weir_sum_fold(weir_sum_fold(message));
		return !bpf_l4_csum_replace(ctx, at, 0, addresses,
					    flags | WEIR_FW_BPF_F_PSEUDO_HDR) &&
		       !bpf_l4_csum_replace(ctx, at, 0, message, flags);
	}
	if (weir_fw_load(ctx, is_skb, at, &checksum, sizeof(checksum)))
		return false;
	if (is_udp && !checksum)
		return true;
	if (p->flags & WEIR_PACKET_PARTIAL)
		checksum = ~weir_checksum(checksum + addresses);
	else
		checksum = weir_sum_apply(checksum, weir_sum_fold(addresses + message));
	if (is_udp && !checksum)
		checksum = 0xffff;
	return !weir_fw_store(ctx, is_skb, at, &checksum, sizeof(checksum));
}

/* The identifier of an ICMP query or of its answer stands for the port of who asks. */
static __always_inline __be16 weir_fw_icmp_id(const struct weir_fw_packet *p, __u8 type)
{
	return weir_icmp_query(p->family, type) ? p->dst_port : p->src_port;
}

/* The ports or the identifier of a message; returns what its sum has changed by, or -1. */
static __always_inline __s64 weir_fw_rewrite_ends(void *ctx, bool is_skb,
						  const struct weir_fw_packet *p)
{
	__u32 from, to;

	if (p->protocol == WEIR_PROTOCOL_TCP || p->protocol == WEIR_PROTOCOL_UDP) {
		to = weir_ports(p->src_port, p->dst_port);
		if (weir_fw_load(ctx, is_skb, p->l4_at, &from, sizeof(from)) ||
		    (from != to && weir_fw_store(ctx, is_skb, p->l4_at, &to, sizeof(to))))
			return -1;
		return weir_sum_change(from, to);
	}
	if (weir_is_icmp(p->protocol) &&
	    weir_icmp_has_id(p->family, p->icmp_type)) {
		__u32 at = p->l4_at + WEIR_ICMP_ID_AT;
		__be16 old, id = weir_fw_icmp_id(p, p->icmp_type);

		if (weir_fw_load(ctx, is_skb, at, &old, sizeof(old)) ||
		    (old != id && weir_fw_store(ctx, is_skb, at, &id, sizeof(id))))
			return -1;
		return weir_sum_change(old, id);
	}
	return 0;
}

/* Where the checksum of a message stands. */
static __always_inline __u32 weir_fw_sum_offset(__u8 protocol)
{
	return protocol == WEIR_PROTOCOL_TCP ? 16 : protocol == WEIR_PROTOCOL_UDP ? 6 : 2;
}

/*
 * The checksum of a quoted message, by which programs know what they have sent (paris-traceroute):
 * those of the addresses and the ends have changed by so much. What is not quoted whole may lack
 * it. Returns what it has changed by itself, or -1.
 */
static __always_inline __s64 weir_fw_rewrite_quoted_sum(void *ctx, bool is_skb,
							const struct weir_fw_packet *p,
							const struct weir_fw_packet *along,
							__u64 addresses, __u64 ends)
{
	__u32 at = along->l4_at + weir_fw_sum_offset(along->protocol);
	__u16 from, to;

	if (!weir_fw_quotes(p, at, sizeof(from)))
		return 0;
	if (weir_fw_load(ctx, is_skb, at, &from, sizeof(from)))
		return -1;
	/* There is none of UDP. */
	if (along->protocol == WEIR_PROTOCOL_UDP && !from)
		return 0;
	to = weir_sum_apply(from,
			    weir_sum_fold(weir_fw_is_icmp4(along) ? ends : addresses + ends));
	if (along->protocol == WEIR_PROTOCOL_UDP && !to)
		to = 0xffff;
	if (weir_fw_store(ctx, is_skb, at, &to, sizeof(to)))
		return -1;
	return weir_sum_change(from, to);
}

/*
 * What an ICMP error quotes, described by scratch->quoted as of the other direction. Returns what
 * the sum of the error has changed by, or -1.
 */
static __always_inline __s64 weir_fw_rewrite_quoted(void *ctx, bool is_skb,
						    const struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *along;
	__u64 ends = 0, change;
	__u32 from, to, at;
	__s64 addresses, sum = 0;
	__u16 before;
	__be16 id;

	if (!scratch)
		return -1;
	along = &scratch->quoted;
	if (along->family == WEIR_FW_INET &&
	    weir_fw_load(ctx, is_skb, along->l3_at, &scratch->ipv4, sizeof(scratch->ipv4)))
		return -1;
	before = scratch->ipv4.checksum;
	addresses = weir_fw_rewrite_ip(ctx, is_skb, along->l3_at, true, along->family, along->dst,
				       along->src);
	if (addresses < 0)
		return -1;
	change = addresses;
	if (along->family == WEIR_FW_INET)
		change += weir_sum_change(before, scratch->ipv4.checksum);
	if (along->protocol == WEIR_PROTOCOL_TCP || along->protocol == WEIR_PROTOCOL_UDP) {
		to = weir_ports(along->dst_port, along->src_port);
		if (weir_fw_load(ctx, is_skb, along->l4_at, &from, sizeof(from)) ||
		    weir_fw_store(ctx, is_skb, along->l4_at, &to, sizeof(to)))
			return -1;
		ends = weir_sum_change(from, to);
	} else if (weir_is_icmp(along->protocol) &&
		   weir_icmp_has_id(along->family, along->icmp_type)) {
		/* It is described turned round. */
		id = weir_icmp_query(along->family, along->icmp_type) ? along->src_port :
									along->dst_port;
		at = along->l4_at + WEIR_ICMP_ID_AT;
		if (weir_fw_load(ctx, is_skb, at, &before, sizeof(before)) ||
		    weir_fw_store(ctx, is_skb, at, &id, sizeof(id)))
			return -1;
		ends = weir_sum_change(before, id);
	} else {
		return weir_sum_fold(change);
	}
	sum = weir_fw_rewrite_quoted_sum(ctx, is_skb, p, along, addresses, ends);
	if (sum < 0)
		return -1;
	return weir_sum_fold(change + ends + sum);
}

/* One that the verifier checks by itself, of each hook. */
__noinline __s64 weir_fw_rewrite_quoted_ingress(struct xdp_md *ctx,
						const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_rewrite_quoted(ctx, false, p);
}

__noinline __s64 weir_fw_rewrite_quoted_skb(struct __sk_buff *skb,
					    const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_rewrite_quoted(skb, true, p);
}

/* All of a packet. 0, or -1 if the frame is not what it was. */
static __always_inline int weir_fw_rewrite(void *ctx, bool is_skb, const struct weir_fw_packet *p)
{
	__s64 addresses, message = 0;
	__u32 at;

	addresses = weir_fw_rewrite_ip(ctx, is_skb, p->l3_at, false, p->family, p->src, p->dst);
	if (addresses < 0)
		return -1;
	if (p->flags & WEIR_PACKET_LATER_FRAGMENT)
		return 0;
	if (p->flags & WEIR_PACKET_ICMP_ERROR)
		message = is_skb ? weir_fw_rewrite_quoted_skb(ctx, p) :
				   weir_fw_rewrite_quoted_ingress(ctx, p);
	else
		message = weir_fw_rewrite_ends(ctx, is_skb, p);
	if (message < 0)
		return -1;
	at = weir_fw_checksum_at(p->protocol);
	if (weir_fw_is_icmp4(p)) {
		at = WEIR_ICMP_CHECKSUM_AT;
		addresses = 0;
	}
	if (!at)
		return 0;
	return weir_fw_rewrite_sum(ctx, is_skb, p, p->l4_at + at, addresses, message) ? 0 : -1;
}

__noinline int weir_fw_rewrite_ingress(struct xdp_md *ctx,
				       const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_rewrite(ctx, false, p);
}

__noinline int weir_fw_rewrite_skb(struct __sk_buff *skb,
				   const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_rewrite(skb, true, p);
}

/* Gives a descriptor the ends that stand in the frame. 0, or -1 if it is not what it was. */
static __always_inline int weir_fw_recall(void *ctx, bool is_skb, struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 ports;

	if (!scratch)
		return -1;
	if (p->family == WEIR_FW_INET) {
		if (weir_fw_load(ctx, is_skb, p->l3_at, &scratch->ipv4, sizeof(scratch->ipv4)))
			return -1;
		p->src[0] = scratch->ipv4.src;
		p->dst[0] = scratch->ipv4.dst;
	} else {
		if (weir_fw_load(ctx, is_skb, p->l3_at, &scratch->ipv6, sizeof(scratch->ipv6)))
			return -1;
		weir_copy_address(p->src, scratch->ipv6.src);
		weir_copy_address(p->dst, scratch->ipv6.dst);
	}
	/* Of later fragments they are never looked at again. */
	if (p->flags & WEIR_PACKET_LATER_FRAGMENT)
		return 0;
	if (weir_is_icmp(p->protocol) &&
	    !(p->flags & WEIR_PACKET_ICMP_ERROR)) {
		__be16 id;

		if (weir_fw_load(ctx, is_skb, p->l4_at + WEIR_ICMP_ID_AT, &id, sizeof(id)))
			return -1;
		weir_icmp_ends(p, p->icmp_type, id);
		return 0;
	}
	if (p->protocol != WEIR_PROTOCOL_TCP && p->protocol != WEIR_PROTOCOL_UDP)
		return 0;
	if (weir_fw_load(ctx, is_skb, p->l4_at, &ports, sizeof(ports)))
		return -1;
	p->src_port = (__be16)ports;
	p->dst_port = (__be16)(ports >> 16);
	return 0;
}

__noinline int weir_fw_recall_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_recall(ctx, false, p);
}

__noinline int weir_fw_recall_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_recall(skb, true, p);
}

#endif /* WEIR_FW_REWRITE_H */

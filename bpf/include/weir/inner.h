/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a packet carries: from header to header through VLAN tags (IEEE 802.1Q), PPPoE sessions
 * (RFC 2516), MPLS labels (RFC 3032, in IP: RFC 4023), GRE (RFC 2784, 2890), IP in IP (RFC 2003,
 * 2473, 4213), VXLAN (RFC 7348) and GENEVE (RFC 8926), to the innermost IP header that is reached.
 * weir_wire::rss::inner is the reference; both are compared, frame by frame.
 *
 * Where a tunnel carries no IP, or not all of its headers, the innermost IP header before counts.
 * Nothing is looked up and nothing is changed here. A function that the verifier checks by itself
 * keeps what it has to go through small: a header's place is any to it. There is one call for each
 * IP header, and none for the commonest packets, because returns are guarded, and dear, on many
 * CPUs.
 */
#ifndef WEIR_INNER_H
#define WEIR_INNER_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/vmlinux.h>

enum weir_inner_constant {
	/* IP headers, one within the other. */
	WEIR_INNER_LEVEL_COUNT = 4,
	WEIR_INNER_LABEL_COUNT = 4,
	WEIR_INNER_EXTENSION_COUNT = 4,
	/* What begins further behind the start of the frame is not read. */
	WEIR_INNER_AT_MAX = 512,
};

/* Why a walk ended. */
enum weir_inner_end {
	WEIR_INNER_WHOLE = 0,	/* what follows is no header of a tunnel */
	WEIR_INNER_NOT_IP = 1,	/* neither IP nor a header that leads to it */
	WEIR_INNER_TRUNCATED = 2, /* the frame ends within a header */
	WEIR_INNER_MALFORMED = 3, /* a header has a version or length that there is not */
	WEIR_INNER_TOO_DEEP = 4, /* more headers than are followed, or too far behind */
	WEIR_INNER_END_COUNT = 5,
};

/* What a packet's hash is. */
enum weir_inner_hashed {
	WEIR_INNER_UNHASHED = 0,	/* no IP header was reached */
	WEIR_INNER_HASHED = 1,
	WEIR_INNER_FOLLOWED = 2,	/* a later fragment, with the hash of its first one */
	WEIR_INNER_EARLY = 3,		/* a later fragment, whose first one is not known */
};

/* EtherTypes beside those of headers.h. */
#define WEIR_INNER_ETHERNET 0x6558 /* transparent Ethernet bridging: an Ethernet header */
#define WEIR_INNER_MPLS 0x8847
#define WEIR_INNER_MPLS_UPSTREAM 0x8848
#define WEIR_INNER_NONE 0 /* no header to follow */

#define WEIR_PPPOE_SESSION 0x1100 /* version 1, type 1, code 0 */
#define WEIR_PPP_MPLS 0x0281

#define WEIR_MPLS_BYTES 4
/* Routing (RFC 1701), and any version but 0. */
#define WEIR_GRE_FOREIGN 0x4007
#define WEIR_GRE_CHECKSUM 0x8000
#define WEIR_GRE_KEY 0x2000
#define WEIR_GRE_SEQUENCE 0x1000

#define WEIR_VXLAN_HAS_ID 0x08
#define WEIR_GENEVE_PORT 6081
/* Of both, without GENEVE's options. */
#define WEIR_OVERLAY_BYTES 8

/* IP protocols beside those of headers.h. */
#define WEIR_INNER_HOP_BY_HOP 0
#define WEIR_INNER_IPV4 4
#define WEIR_INNER_IPV6 41
#define WEIR_INNER_ROUTING 43
#define WEIR_INNER_FRAGMENT 44
#define WEIR_INNER_OPTIONS 60
#define WEIR_INNER_MPLS_IN_IP 137
#define WEIR_INNER_NO_PROTOCOL 255 /* reserved: it was not reached */

/* What a walk has found. Places count from the start of the frame. */
struct weir_inner {
	__u32 end;		/* enum weir_inner_end */
	__u32 level_count;	/* IP headers; what follows is of the innermost one */
	__u32 ip_at;
	__u32 is_ipv6;
	__u32 protocol;		/* behind all extension headers */
	__u32 message_at;	/* what is behind it */
	__u32 is_later;		/* a fragment, but not the first one */
	__u32 ident;		/* of a fragment */
	/* The IP headers, from the outermost, of which this is the first fragment. */
	__u32 first_count;
	__u32 first_at[WEIR_INNER_LEVEL_COUNT];
	__u32 first_ident[WEIR_INNER_LEVEL_COUNT];
};

/* A header to look at next: what it is, as an EtherType, and its place. 0: there is none. */
static __always_inline __u64 weir_inner_header(__u32 type, __u32 at)
{
	return (__u64)type << 32 | at;
}

static __always_inline __u64 weir_inner_stop(struct weir_inner *inner, __u32 end)
{
	inner->end = end;
	return 0;
}

static __always_inline __u32 weir_inner_type_of_ppp(__u32 protocol)
{
	switch (protocol) {
	case WEIR_PPP_IPV4:
		return WEIR_ETH_TYPE_IPV4;
	case WEIR_PPP_IPV6:
		return WEIR_ETH_TYPE_IPV6;
	case WEIR_PPP_MPLS:
		return WEIR_INNER_MPLS;
	default:
		return WEIR_INNER_NONE;
	}
}

static __always_inline __u32 weir_inner_u16(const void *at)
{
	return bpf_ntohs(*(const __be16 *)at);
}

/* The IP header that a header leads to: over Ethernet, tags, PPPoE and labels. */
static __always_inline __u64 weir_inner_lead(struct xdp_md *ctx, struct weir_inner *inner,
					     __u64 header)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *at = (void *)(long)ctx->data;
	__u32 offset = header, type = header >> 32, version, i;
	bool is_bottom = false;

	if (offset > WEIR_INNER_AT_MAX)
		return weir_inner_stop(inner, WEIR_INNER_TOO_DEEP);
	at += offset;
	if (type == WEIR_INNER_ETHERNET) {
		if (at + WEIR_ETH_BYTES > data_end)
			return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
		type = weir_inner_u16(at + WEIR_ETH_TYPE_OFFSET);
		at += WEIR_ETH_BYTES;
		offset += WEIR_ETH_BYTES;
	}
	for (i = 0; i < WEIR_VLAN_COUNT_MAX; i++) {
		if (type != WEIR_ETH_TYPE_8021Q && type != WEIR_ETH_TYPE_8021AD)
			break;
		if (at + WEIR_VLAN_BYTES > data_end)
			return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
		type = weir_inner_u16(at + WEIR_VLAN_TYPE_OFFSET);
		at += WEIR_VLAN_BYTES;
		offset += WEIR_VLAN_BYTES;
	}
	if (type == WEIR_ETH_TYPE_PPPOE) {
		if (at + WEIR_PPPOE_BYTES > data_end)
			return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
		if (weir_inner_u16(at) != WEIR_PPPOE_SESSION)
			return weir_inner_stop(inner, WEIR_INNER_MALFORMED);
		type = weir_inner_type_of_ppp(weir_inner_u16(at + WEIR_PPPOE_PROTOCOL_OFFSET));
		at += WEIR_PPPOE_BYTES;
		offset += WEIR_PPPOE_BYTES;
	}
	if (type == WEIR_INNER_MPLS || type == WEIR_INNER_MPLS_UPSTREAM) {
		for (i = 0; i < WEIR_INNER_LABEL_COUNT && !is_bottom; i++) {
			if (at + WEIR_MPLS_BYTES > data_end)
				return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
			is_bottom = *(__u8 *)(at + 2) & 1;
			at += WEIR_MPLS_BYTES;
			offset += WEIR_MPLS_BYTES;
		}
		if (!is_bottom)
			return weir_inner_stop(inner, WEIR_INNER_TOO_DEEP);
		if (at + 1 > data_end)
			return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
		/* The labels do not say what is behind them; other values are no IP. */
		version = *(__u8 *)at >> 4;
		type = version == 4 ? WEIR_ETH_TYPE_IPV4 :
		       version == 6 ? WEIR_ETH_TYPE_IPV6 :
				      WEIR_INNER_NONE;
	}
	if (type != WEIR_ETH_TYPE_IPV4 && type != WEIR_ETH_TYPE_IPV6)
		return weir_inner_stop(inner, WEIR_INNER_NOT_IP);
	return weir_inner_header(type, offset);
}

static __always_inline void weir_inner_first(struct weir_inner *inner, __u32 ip_at, __u32 ident)
{
	__u32 index = inner->first_count;

	if (index >= WEIR_INNER_LEVEL_COUNT)
		return;
	inner->first_at[index] = ip_at;
	inner->first_ident[index] = ident;
	inner->first_count = index + 1;
}

/* Whether the frame has an IPv4 header at `ip`; what it says is noted. */
static __always_inline bool weir_inner_ipv4(struct weir_inner *inner, __u32 ip_at, void *ip,
					    void *data_end)
{
	__u32 field, bytes;

	if (ip + WEIR_IPV4_BYTES_MIN > data_end) {
		weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
		return false;
	}
	bytes = (*(__u8 *)ip & 0xf) * 4;
	if (*(__u8 *)ip >> 4 != 4 || bytes < WEIR_IPV4_BYTES_MIN) {
		weir_inner_stop(inner, WEIR_INNER_MALFORMED);
		return false;
	}
	field = weir_inner_u16(ip + WEIR_IPV4_FRAGMENT_OFFSET);
	inner->is_ipv6 = false;
	inner->protocol = *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET);
	inner->message_at = ip_at + bytes;
	inner->ident = weir_inner_u16(ip + WEIR_IPV4_IDENT_OFFSET);
	inner->is_later = !!(field & WEIR_IPV4_OFFSET_MASK);
	if (!inner->is_later && field & WEIR_IPV4_MORE_FRAGMENTS)
		weir_inner_first(inner, ip_at, inner->ident);
	return true;
}

static __always_inline bool weir_inner_is_extension(__u32 next)
{
	return next == WEIR_INNER_HOP_BY_HOP || next == WEIR_INNER_ROUTING ||
	       next == WEIR_INNER_OPTIONS || next == WEIR_INNER_FRAGMENT;
}

/* Steps over extension headers as far as the frame has them, to a fragment's at most. */
__noinline int weir_inner_extensions(struct xdp_md *ctx, struct weir_inner *inner __arg_nonnull,
				     __u32 ip_at)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u32 next = inner->protocol, offset = inner->message_at, field, i;
	void *at;

	for (i = 0; i < WEIR_INNER_EXTENSION_COUNT; i++) {
		if (!weir_inner_is_extension(next) || offset > WEIR_INNER_AT_MAX)
			break;
		at = data + offset;
		if (at + 8 > data_end) {
			next = WEIR_INNER_NO_PROTOCOL;
			inner->end = WEIR_INNER_TRUNCATED;
			break;
		}
		if (next == WEIR_INNER_FRAGMENT) {
			field = weir_inner_u16(at + 2);
			inner->ident = bpf_ntohl(*(__be32 *)(at + 4));
			inner->is_later = !!(field & 0xfff8);
			next = *(__u8 *)at;
			offset += 8;
			if (inner->is_later)
				break;
			if (field & 1)
				weir_inner_first(inner, ip_at, inner->ident);
		} else {
			next = *(__u8 *)at;
			offset += (*(__u8 *)(at + 1) + 1) * 8;
		}
	}
	inner->protocol = next;
	inner->message_at = offset;
	return 0;
}

/* As weir_inner_ipv4(). */
static __always_inline bool weir_inner_ipv6(struct xdp_md *ctx, struct weir_inner *inner,
					    __u32 ip_at, void *ip, void *data_end)
{
	if (ip + WEIR_IPV6_BYTES > data_end) {
		weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
		return false;
	}
	if (*(__u8 *)ip >> 4 != 6) {
		weir_inner_stop(inner, WEIR_INNER_MALFORMED);
		return false;
	}
	inner->is_ipv6 = true;
	inner->protocol = *(__u8 *)(ip + WEIR_IPV6_NEXT_HEADER_OFFSET);
	inner->message_at = ip_at + WEIR_IPV6_BYTES;
	inner->ident = 0;
	inner->is_later = false;
	if (weir_inner_is_extension(inner->protocol))
		weir_inner_extensions(ctx, inner, ip_at);
	return true;
}

/* What follows GRE's header; nothing if that is none of a tunnel that is known. */
static __always_inline __u64 weir_inner_gre(struct weir_inner *inner, __u32 offset, void *at,
					  void *data_end)
{
	__u32 flags, type;

	if (at + WEIR_GRE_BYTES > data_end)
		return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
	flags = weir_inner_u16(at);
	type = weir_inner_u16(at + 2);
	if (flags & WEIR_GRE_FOREIGN)
		return 0;
	if (type != WEIR_ETH_TYPE_IPV4 && type != WEIR_ETH_TYPE_IPV6 &&
	    type != WEIR_INNER_ETHERNET && type != WEIR_INNER_MPLS &&
	    type != WEIR_INNER_MPLS_UPSTREAM)
		return 0;
	offset += WEIR_GRE_BYTES;
	if (flags & WEIR_GRE_CHECKSUM)
		offset += 4;
	if (flags & WEIR_GRE_KEY)
		offset += 4;
	if (flags & WEIR_GRE_SEQUENCE)
		offset += 4;
	return weir_inner_header(type, offset);
}

/* The same of UDP's, and of what follows it. */
static __always_inline __u64 weir_inner_overlay(struct weir_inner *inner, __u32 offset, void *at,
					      void *data_end)
{
	void *header = at + WEIR_UDP_BYTES;
	__u32 port, type, first;

	if (header > data_end)
		return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
	port = weir_inner_u16(at + 2);
	if (port != WEIR_VXLAN_PORT && port != WEIR_GENEVE_PORT)
		return 0;
	if (header + WEIR_OVERLAY_BYTES > data_end)
		return weir_inner_stop(inner, WEIR_INNER_TRUNCATED);
	first = *(__u8 *)header;
	offset += WEIR_UDP_BYTES + WEIR_OVERLAY_BYTES;
	if (port == WEIR_VXLAN_PORT) {
		if (!(first & WEIR_VXLAN_HAS_ID))
			return 0;
		type = WEIR_INNER_ETHERNET;
	} else {
		type = weir_inner_u16(header + 2);
		if (first >> 6 || (type != WEIR_INNER_ETHERNET && type != WEIR_ETH_TYPE_IPV4 &&
				   type != WEIR_ETH_TYPE_IPV6))
			return 0;
		offset += (first & 0x3f) * 4;
	}
	return weir_inner_header(type, offset);
}

/* What an IP header leads into, if that is a tunnel. */
static __always_inline __u64 weir_inner_tunnel(struct weir_inner *inner, void *data,
					       void *data_end, __u32 offset)
{
	switch (inner->protocol) {
	case WEIR_INNER_IPV4:
		return weir_inner_header(WEIR_ETH_TYPE_IPV4, offset);
	case WEIR_INNER_IPV6:
		return weir_inner_header(WEIR_ETH_TYPE_IPV6, offset);
	case WEIR_INNER_MPLS_IN_IP:
		return weir_inner_header(WEIR_INNER_MPLS, offset);
	case WEIR_PROTOCOL_GRE:
		return weir_inner_gre(inner, offset, data + offset, data_end);
	case WEIR_PROTOCOL_UDP:
		return weir_inner_overlay(inner, offset, data + offset, data_end);
	default:
		return 0;
	}
}

/* Notes an IP header; the next one, if it leads into a tunnel. */
__noinline __u64 weir_inner_ip(struct xdp_md *ctx, struct weir_inner *inner __arg_nonnull,
			       __u64 header)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	bool is_ipv6 = header >> 32 == WEIR_ETH_TYPE_IPV6;
	__u32 ip_at = header, offset;

	/* It is not, but the verifier does not know. */
	if (ip_at > 2 * WEIR_INNER_AT_MAX)
		return weir_inner_stop(inner, WEIR_INNER_TOO_DEEP);
	if (is_ipv6 ? !weir_inner_ipv6(ctx, inner, ip_at, data + ip_at, data_end) :
		      !weir_inner_ipv4(inner, ip_at, data + ip_at, data_end))
		return 0;
	inner->ip_at = ip_at;
	inner->level_count++;
	offset = inner->message_at;
	if (offset > WEIR_INNER_AT_MAX) {
		inner->protocol = WEIR_INNER_NO_PROTOCOL;
		inner->end = WEIR_INNER_TOO_DEEP;
		return 0;
	}
	if (inner->is_later)
		return 0;
	header = weir_inner_tunnel(inner, data, data_end, offset);
	if (!header)
		return 0;
	if (inner->level_count >= WEIR_INNER_LEVEL_COUNT)
		return weir_inner_stop(inner, WEIR_INNER_TOO_DEEP);
	return weir_inner_lead(ctx, inner, header);
}

/* Whether there is an IPv4 header without options, no fragment's, and eight bytes behind it. */
static __always_inline bool weir_inner_is_plain(void *ip, void *data_end)
{
	return ip + WEIR_IPV4_BYTES_MIN + WEIR_UDP_BYTES <= data_end &&
	       *(__u8 *)ip == WEIR_IPV4_NO_OPTIONS &&
	       !(*(__be16 *)(ip + WEIR_IPV4_FRAGMENT_OFFSET) & bpf_htons(WEIR_IPV4_FRAGMENT_MASK));
}

/* What weir_inner_carried() returns where more has to be looked at. */
#define WEIR_INNER_UNKNOWN (~0U)

/* The same of VXLAN and GENEVE. */
static __always_inline __u32 weir_inner_overlaid(void *ip, void *data_end, bool is_vxlan)
{
	void *header = ip + WEIR_IPV4_BYTES_MIN + WEIR_UDP_BYTES;
	__u32 bytes = WEIR_IPV4_BYTES_MIN + WEIR_UDP_BYTES + WEIR_OVERLAY_BYTES + WEIR_ETH_BYTES;
	__u32 first;

	if (header + WEIR_OVERLAY_BYTES > data_end)
		return WEIR_INNER_UNKNOWN;
	first = *(__u8 *)header;
	if (is_vxlan) {
		if (!(first & WEIR_VXLAN_HAS_ID))
			return WEIR_INNER_UNKNOWN;
	} else {
		if (first >> 6 || *(__be16 *)(header + 2) != bpf_htons(WEIR_INNER_ETHERNET))
			return WEIR_INNER_UNKNOWN;
		bytes += (first & 0x3f) * 4;
	}
	ip += bytes;
	if (ip > data_end || *(__be16 *)(ip - 2) != bpf_htons(WEIR_ETH_TYPE_IPV4))
		return WEIR_INNER_UNKNOWN;
	return bytes;
}

/* How far behind a plain IPv4 header the one is that it carries; 0 if it carries none. */
static __always_inline __u32 weir_inner_carried(void *ip, void *data_end)
{
	void *message = ip + WEIR_IPV4_BYTES_MIN;
	__be16 port;

	switch (*(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET)) {
	case WEIR_INNER_IPV4:
		return WEIR_IPV4_BYTES_MIN;
	case WEIR_PROTOCOL_GRE:
		if (*(__be32 *)message != bpf_htonl(WEIR_ETH_TYPE_IPV4))
			return WEIR_INNER_UNKNOWN;
		return WEIR_IPV4_BYTES_MIN + WEIR_GRE_BYTES;
	case WEIR_PROTOCOL_UDP:
		port = *(__be16 *)(message + 2);
		if (port == bpf_htons(WEIR_VXLAN_PORT))
			return weir_inner_overlaid(ip, data_end, true);
		if (port == bpf_htons(WEIR_GENEVE_PORT))
			return weir_inner_overlaid(ip, data_end, false);
		return 0;
	case WEIR_INNER_IPV6:
	case WEIR_INNER_MPLS_IN_IP:
		return WEIR_INNER_UNKNOWN;
	default:
		return 0;
	}
}

/*
 * The walk through the commonest packets: plain IPv4, alone or in another one. False for all
 * others, of which nothing is known then.
 */
static __always_inline bool weir_inner_quick(struct xdp_md *ctx, struct weir_inner *inner)
{
	__u64 header = weir_inner_header(WEIR_INNER_ETHERNET, 0);
	void *data_end = (void *)(long)ctx->data_end;
	void *ip = (void *)(long)ctx->data;
	__u32 at, bytes;

	header = weir_inner_lead(ctx, inner, header);
	if (header >> 32 != WEIR_ETH_TYPE_IPV4)
		return false;
	at = header;
	ip += at;
	if (!weir_inner_is_plain(ip, data_end))
		return false;
	bytes = weir_inner_carried(ip, data_end);
	if (bytes == WEIR_INNER_UNKNOWN)
		return false;
	inner->level_count = 1;
	if (bytes) {
		ip += bytes;
		at += bytes;
		if (!weir_inner_is_plain(ip, data_end) || weir_inner_carried(ip, data_end))
			return false;
		inner->level_count = 2;
	}
	inner->ip_at = at;
	inner->protocol = *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET);
	inner->message_at = at + WEIR_IPV4_BYTES_MIN;
	return true;
}

/* Walks through a frame; `inner` is zeros. */
static __always_inline void weir_inner_walk(struct xdp_md *ctx, struct weir_inner *inner)
{
	__u64 header = weir_inner_header(WEIR_INNER_ETHERNET, 0);
	__u32 level;

	if (weir_inner_quick(ctx, inner))
		return;
	inner->end = WEIR_INNER_WHOLE;
	inner->level_count = 0;
	header = weir_inner_lead(ctx, inner, header);
	for (level = 0; level < WEIR_INNER_LEVEL_COUNT && header; level++)
		header = weir_inner_ip(ctx, inner, header);
}

#endif /* WEIR_INNER_H */

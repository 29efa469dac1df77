/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Headers that the firewall reads and writes: VLAN tags (IEEE 802.1Q), IPv4 (RFC 791), IPv6
 * (RFC 8200), TCP (RFC 9293), UDP (RFC 768), ICMP (RFC 792), ICMPv6 (RFC 4443). Their fields are
 * naturally aligned among themselves, so that the structs need no packing; unaligned access to the
 * frame is allowed where the kernel says so (x86-64, arm64).
 */
#ifndef WEIR_FW_HEADERS_H
#define WEIR_FW_HEADERS_H

#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/vmlinux.h>

struct weir_eth {
	__u8 dst[6];
	__u8 src[6];
	__be16 type;
};

struct weir_vlan {
	__be16 tci;		/* priority (3 bits), drop eligible, identifier (12 bits) */
	__be16 type;		/* of what follows */
};

#define WEIR_VLAN_ID_MASK 0xfff
#define WEIR_VLAN_PRIORITY_SHIFT 13

struct weir_ipv4 {
	__u8 version_words;	/* size of the header in 32-bit words */
	__u8 tos;
	__be16 total_bytes;
	__be16 id;
	__be16 fragment;	/* flags (3 bits), offset in units of 8 bytes */
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__be32 src;
	__be32 dst;
};

#define WEIR_IPV4_MORE_FRAGMENTS 0x2000
#define WEIR_IPV4_DONT_FRAGMENT 0x4000
#define WEIR_IPV4_OFFSET_MASK 0x1fff

struct weir_ipv6 {
	__be32 version_class_flow;
	__be16 payload_bytes;
	__u8 next_header;
	__u8 hop_limit;
	__be32 src[4];
	__be32 dst[4];
};

/* Extension headers (RFC 8200, section 4.1) and the end of them. */
enum {
	WEIR_IPV6_HOP_BY_HOP = 0,
	WEIR_IPV6_ROUTING = 43,
	WEIR_IPV6_FRAGMENT = 44,
	WEIR_IPV6_AUTHENTICATION = 51,
	WEIR_IPV6_DESTINATION = 60,
};

/* What all extension headers begin with. */
struct weir_ipv6_extension {
	__u8 next_header;
	__u8 words;		/* in units of 8 bytes less one; authentication: 4 bytes less two */
	__u8 kind;		/* of a routing header */
};

#define WEIR_IPV6_ROUTING_SOURCE 0

struct weir_ipv6_fragment {
	__u8 next_header;
	__u8 unused;
	__be16 offset;		/* offset (13 bits, in units of 8 bytes), 2 bits unused, more */
	__be32 id;
};

#define WEIR_IPV6_MORE_FRAGMENTS 0x0001
#define WEIR_IPV6_OFFSET_MASK 0xfff8

struct weir_tcp {
	__be16 src;
	__be16 dst;
	__be32 seq;
	__be32 ack;
	__u8 offset;		/* size of the header in 32-bit words (4 bits), 4 bits unused */
	__u8 flags;
	__be16 window;
	__u16 checksum;
	__be16 urgent;
};

enum {
	WEIR_TCP_FIN = 0x01,
	WEIR_TCP_SYN = 0x02,
	WEIR_TCP_RST = 0x04,
	WEIR_TCP_PSH = 0x08,
	WEIR_TCP_ACK = 0x10,
	WEIR_TCP_URG = 0x20,
};

enum {
	WEIR_TCP_OPTION_END = 0,
	WEIR_TCP_OPTION_NOP = 1,
	WEIR_TCP_OPTION_MSS = 2,
	WEIR_TCP_OPTION_WSCALE = 3,
	WEIR_TCP_OPTION_SACK = 5,
	WEIR_TCP_OPTION_TIMESTAMP = 8,
};

#define WEIR_TCP_OPTIONS_BYTES_MAX 40
#define WEIR_TCP_OPTION_MSS_BYTES 4
#define WEIR_TCP_OPTION_TIMESTAMP_BYTES 10

/*
 * The size of the option at a place in so many bytes of options (RFC 9293, section 3.2), 1 of
 * padding; 0: there is none. What is read lies inside, for the verifier too.
 */
static __always_inline __u32 weir_tcp_option(const __u8 *options, __u32 at, __u32 bytes)
{
	__u32 size;

	if (at + 1 >= bytes || at >= WEIR_TCP_OPTIONS_BYTES_MAX ||
	    options[at] == WEIR_TCP_OPTION_END)
		return 0;
	if (options[at] == WEIR_TCP_OPTION_NOP)
		return 1;
	size = options[at + 1];
	return size < 2 || at + size > bytes ? 0 : size;
}

/* Whether a segment with these flags is the first one of a connection. */
static __always_inline bool weir_tcp_opens(__u32 flags)
{
	return (flags & (WEIR_TCP_SYN | WEIR_TCP_ACK)) == WEIR_TCP_SYN;
}

/* RFC 7323, section 2.3 */
#define WEIR_TCP_WSCALE_MAX 14

struct weir_udp {
	__be16 src;
	__be16 dst;
	__be16 bytes;
	__u16 checksum;
};

struct weir_icmp {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__be16 id;		/* of echo messages */
	__be16 seq;
};

/* The part of SCTP's header that every packet has (RFC 9260, section 3.1); it begins with ports. */
#define WEIR_SCTP_BYTES 12

enum {
	WEIR_ICMP_UNREACHABLE = 3,
	WEIR_ICMP_QUENCH = 4,
	WEIR_ICMP_REDIRECT = 5,
	WEIR_ICMP_TIME_EXCEEDED = 11,
	WEIR_ICMP_PARAMETER = 12,
	WEIR_ICMP_TIMESTAMP = 13,
	WEIR_ICMP_MASK_REPLY = 18,
};

enum {
	WEIR_ICMPV6_UNREACHABLE = 1,
	WEIR_ICMPV6_TOO_BIG = 2,
	WEIR_ICMPV6_PARAMETER = 4,	/* the last type that is an error in use */
	WEIR_ICMPV6_ROUTER_SOLICITATION = 133,
	WEIR_ICMPV6_NEIGHBOUR_SOLICITATION = 135,
	WEIR_ICMPV6_NEIGHBOUR_ADVERTISEMENT = 136,
};

/* Neighbour discovery comes from the link itself: no router has counted it down (RFC 4861). */
#define WEIR_IPV6_HOPS_OF_LINK 255

/*
 * Where a frame begins and ends. The loads are written out because the compiler would otherwise
 * keep 32-bit halves of the pointers over calls, which the verifier takes for numbers.
 */
static __always_inline void *weir_xdp_data(const struct xdp_md *ctx)
{
	void *data;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(data)
		     : "r"(ctx), "i"(__builtin_offsetof(struct xdp_md, data)));
	return data;
}

static __always_inline void *weir_xdp_data_end(const struct xdp_md *ctx)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(end)
		     : "r"(ctx), "i"(__builtin_offsetof(struct xdp_md, data_end)));
	return end;
}

static __always_inline void *weir_skb_data(const struct __sk_buff *skb)
{
	void *data;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(data)
		     : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, data)));
	return data;
}

static __always_inline void *weir_skb_data_end(const struct __sk_buff *skb)
{
	void *end;

	asm volatile("%0 = *(u32 *)(%1 + %2)"
		     : "=r"(end)
		     : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, data_end)));
	return end;
}

/* Whether a protocol is the ICMP of a family. */
static __always_inline bool weir_is_icmp(__u8 protocol)
{
	return protocol == WEIR_PROTOCOL_ICMP || protocol == WEIR_PROTOCOL_ICMPV6;
}

/* Where checksums stand behind the beginning of a message, and the identifier of an ICMP query. */
#define WEIR_TCP_CHECKSUM_AT 16
#define WEIR_UDP_CHECKSUM_AT 6
#define WEIR_ICMP_CHECKSUM_AT 2
#define WEIR_ICMP_ID_AT 4

/* Where the checksum of a protocol's message stands; 0: it has none that covers its addresses. */
static __always_inline __u32 weir_fw_checksum_at(__u8 protocol)
{
	switch (protocol) {
	case WEIR_PROTOCOL_TCP:
		return WEIR_TCP_CHECKSUM_AT;
	case WEIR_PROTOCOL_UDP:
		return WEIR_UDP_CHECKSUM_AT;
	case WEIR_PROTOCOL_ICMPV6:
		return WEIR_ICMP_CHECKSUM_AT;
	default:
		return 0;
	}
}

#endif /* WEIR_FW_HEADERS_H */

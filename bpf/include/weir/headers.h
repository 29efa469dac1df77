/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Offsets and constants of Ethernet II, VLAN tags (IEEE 802.1Q), IPv4 (RFC 791), IPv6 (RFC 8200),
 * UDP (RFC 768), TCP (RFC 9293), ICMP (RFC 792) and ICMPv6 (RFC 4443) headers, and of tunnels:
 * PPPoE sessions (RFC 2516), GRE (RFC 2784), VXLAN (RFC 7348).
 *
 * Programs read and write whole words at these offsets: a packed C struct would make the compiler
 * emit one store per byte.
 */
#ifndef WEIR_HEADERS_H
#define WEIR_HEADERS_H

#include <weir/vmlinux.h>

#define WEIR_ETH_BYTES 14
#define WEIR_ETH_TYPE_OFFSET 12
#define WEIR_ETH_TYPE_IPV4 0x0800
#define WEIR_ETH_TYPE_IPV6 0x86dd
#define WEIR_ETH_TYPE_8021Q 0x8100
#define WEIR_ETH_TYPE_8021AD 0x88a8
/* In the first byte of a MAC address: multicast or broadcast. */
#define WEIR_ETH_GROUP_BIT 0x01

#define WEIR_ETH_TYPE_PPPOE 0x8864
/* A session's header, PPP's protocol included. */
#define WEIR_PPPOE_BYTES 8
#define WEIR_PPPOE_PROTOCOL_OFFSET 6
#define WEIR_PPP_IPV4 0x0021
#define WEIR_PPP_IPV6 0x0057

#define WEIR_GRE_BYTES 4

#define WEIR_VXLAN_PORT 4789
#define WEIR_VXLAN_BYTES 8

/* A tag's type field is that of what follows. */
#define WEIR_VLAN_BYTES 4
#define WEIR_VLAN_TYPE_OFFSET 2
#define WEIR_VLAN_COUNT_MAX 2

#define WEIR_IPV4_BYTES_MIN 20
/* Version and header size, the first byte of a header without options. */
#define WEIR_IPV4_NO_OPTIONS 0x45
#define WEIR_IPV4_PROTOCOL_OFFSET 9
#define WEIR_IPV4_IDENT_OFFSET 4
#define WEIR_IPV4_FRAGMENT_OFFSET 6
/* "More fragments" and the fragment offset: zero in a whole datagram. */
#define WEIR_IPV4_FRAGMENT_MASK 0x3fff
#define WEIR_IPV4_MORE_FRAGMENTS 0x2000
#define WEIR_IPV4_OFFSET_MASK 0x1fff
#define WEIR_IPV4_SRC_OFFSET 12
#define WEIR_IPV4_DST_OFFSET 16

#define WEIR_IPV6_BYTES 40
#define WEIR_IPV6_NEXT_HEADER_OFFSET 6
#define WEIR_IPV6_SRC_OFFSET 8
#define WEIR_IPV6_DST_OFFSET 24

/* IP protocols, of both versions. */
enum {
	WEIR_PROTOCOL_ICMP = 1,
	WEIR_PROTOCOL_TCP = 6,
	WEIR_PROTOCOL_UDP = 17,
	WEIR_PROTOCOL_GRE = 47,
	WEIR_PROTOCOL_ICMPV6 = 58,
	WEIR_PROTOCOL_SCTP = 132,
};

#define WEIR_UDP_BYTES 8

#define WEIR_TCP_BYTES_MIN 20
#define WEIR_TCP_DATA_OFFSET 12

#define WEIR_ICMP_BYTES 8
#define WEIR_ICMP_CHECKSUM_OFFSET 2
#define WEIR_ICMP_ECHO_REQUEST 8
#define WEIR_ICMP_ECHO_REPLY 0
#define WEIR_ICMPV6_ECHO_REQUEST 128
#define WEIR_ICMPV6_ECHO_REPLY 129

#endif /* WEIR_HEADERS_H */

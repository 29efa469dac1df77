/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Offsets and constants of Ethernet II, IPv4 (RFC 791) and UDP (RFC 768) headers.
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

#define WEIR_IPV4_BYTES_MIN 20
#define WEIR_IPV4_PROTOCOL_OFFSET 9
#define WEIR_IPV4_FRAGMENT_OFFSET 6
/* "More fragments" and the fragment offset: zero in a whole datagram. */
#define WEIR_IPV4_FRAGMENT_MASK 0x3fff
#define WEIR_IPV4_PROTOCOL_UDP 17

#define WEIR_UDP_BYTES 8

#endif /* WEIR_HEADERS_H */

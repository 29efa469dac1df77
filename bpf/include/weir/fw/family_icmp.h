/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages of ICMP in the place of those of ICMPv6, and the other way round (RFC 7915, sections 4.2
 * and 5.2). What has no counterpart is dropped.
 */
#ifndef WEIR_FW_FAMILY_ICMP_H
#define WEIR_FW_FAMILY_ICMP_H

#include <bpf/bpf_endian.h>
#include <weir/fw/headers.h>

/* ICMPv6's "time exceeded". */
#define WEIR_ICMP_TIME_EXCEEDED_6 3
/* Codes of ICMP's "unreachable". */
#define WEIR_ICMP_NEEDS_FRAGMENT_CODE 4
#define WEIR_ICMP_PROTOCOL_CODE 2
/* Where the next header stands in IPv6's. */
#define WEIR_FAMILY_NEXT_HEADER_AT 6
#define WEIR_FAMILY_NONE 0xff

/* By how much a packet is longer in IPv6. */
#define WEIR_FAMILY_BYTES (sizeof(struct weir_ipv6) - sizeof(struct weir_ipv4))
/* Every link carries so much (RFC 8200, section 5). */
#define WEIR_FAMILY_MTU_MIN 1280

/* What an MTU of IPv4 means to who sends IPv6; a router that tells of none is an old one. */
static __always_inline __u32 weir_family_mtu6(__u32 mtu_bytes)
{
	mtu_bytes += WEIR_FAMILY_BYTES;
	return mtu_bytes < WEIR_FAMILY_MTU_MIN ? WEIR_FAMILY_MTU_MIN : mtu_bytes;
}

/* The code of ICMPv6's "unreachable" for one of ICMP's. */
static __always_inline __u8 weir_family_unreachable6(__u8 code)
{
	switch (code) {
	case 0:
	case 1:
	case 5:
	case 6:
	case 7:
	case 8:
	case 11:
	case 12:
		return 0;
	case 3:
		return 4;
	case 9:
	case 10:
	case 13:
	case 15:
		return 1;
	default:
		return WEIR_FAMILY_NONE;
	}
}

/* The field of IPv6's header that a byte of IPv4's belongs to. */
static __always_inline __u8 weir_family_pointer6(__u8 at)
{
	if (at < 2)
		return at;
	if (at < 4)
		return 4;
	if (at == 8)
		return 7;
	if (at == 9)
		return WEIR_FAMILY_NEXT_HEADER_AT;
	if (at >= 12 && at < 20)
		return at < 16 ? 8 : 24;
	return WEIR_FAMILY_NONE;
}

/* The other way round. */
static __always_inline __u8 weir_family_pointer4(__u32 at)
{
	if (at < 2)
		return at;
	if (at == 4 || at == 5)
		return 2;
	if (at == WEIR_FAMILY_NEXT_HEADER_AT)
		return 9;
	if (at == 7)
		return 8;
	if (at >= 8 && at < 40)
		return at < 24 ? 12 : 16;
	return WEIR_FAMILY_NONE;
}

/* Sets the word behind the checksum. */
static __always_inline void weir_family_icmp_word(struct weir_icmp *icmp, __u32 word)
{
	icmp->id = bpf_htons(word >> 16);
	icmp->seq = bpf_htons(word);
}

/* Makes an ICMPv6 error of one of ICMP's; false if there is none. */
static __always_inline bool weir_family_error6(struct weir_icmp *icmp)
{
	__u32 mtu_bytes = bpf_ntohs(icmp->seq), word = 0;
	__u8 pointer = bpf_ntohs(icmp->id) >> 8;

	if (icmp->type == WEIR_ICMP_UNREACHABLE && icmp->code == WEIR_ICMP_NEEDS_FRAGMENT_CODE) {
		icmp->type = WEIR_ICMPV6_TOO_BIG;
		icmp->code = 0;
		word = weir_family_mtu6(mtu_bytes);
	} else if (icmp->type == WEIR_ICMP_UNREACHABLE && icmp->code == WEIR_ICMP_PROTOCOL_CODE) {
		icmp->type = WEIR_ICMPV6_PARAMETER;
		icmp->code = 1;
		word = WEIR_FAMILY_NEXT_HEADER_AT;
	} else if (icmp->type == WEIR_ICMP_UNREACHABLE) {
		icmp->type = WEIR_ICMPV6_UNREACHABLE;
		icmp->code = weir_family_unreachable6(icmp->code);
		if (icmp->code == WEIR_FAMILY_NONE)
			return false;
	} else if (icmp->type == WEIR_ICMP_TIME_EXCEEDED) {
		icmp->type = WEIR_ICMP_TIME_EXCEEDED_6;
	} else if (icmp->type == WEIR_ICMP_PARAMETER && (icmp->code == 0 || icmp->code == 2)) {
		icmp->type = WEIR_ICMPV6_PARAMETER;
		icmp->code = 0;
		word = weir_family_pointer6(pointer);
		if (word == WEIR_FAMILY_NONE)
			return false;
	} else {
		return false;
	}
	weir_family_icmp_word(icmp, word);
	return true;
}

/* The code of ICMP's "unreachable" for one of ICMPv6's. */
static __always_inline __u8 weir_family_unreachable4(__u8 code)
{
	switch (code) {
	case 0:
	case 2:
	case 3:
		return 1;
	case 1:
		return 10;
	case 4:
		return 3;
	default:
		return WEIR_FAMILY_NONE;
	}
}

/* Makes an ICMP error of one of ICMPv6's; false if there is none. */
static __always_inline bool weir_family_error4(struct weir_icmp *icmp)
{
	__u32 before = (__u32)bpf_ntohs(icmp->id) << 16 | bpf_ntohs(icmp->seq), word = 0;

	if (icmp->type == WEIR_ICMPV6_UNREACHABLE) {
		icmp->type = WEIR_ICMP_UNREACHABLE;
		icmp->code = weir_family_unreachable4(icmp->code);
		if (icmp->code == WEIR_FAMILY_NONE)
			return false;
	} else if (icmp->type == WEIR_ICMPV6_TOO_BIG) {
		icmp->type = WEIR_ICMP_UNREACHABLE;
		icmp->code = WEIR_ICMP_NEEDS_FRAGMENT_CODE;
		if (before < WEIR_FAMILY_MTU_MIN)
			return false;
		word = before - WEIR_FAMILY_BYTES;
		if (word > 0xffff)
			word = 0xffff;
	} else if (icmp->type == WEIR_ICMP_TIME_EXCEEDED_6) {
		icmp->type = WEIR_ICMP_TIME_EXCEEDED;
	} else if (icmp->type == WEIR_ICMPV6_PARAMETER && icmp->code == 0) {
		icmp->type = WEIR_ICMP_PARAMETER;
		word = weir_family_pointer4(before);
		if (word == WEIR_FAMILY_NONE)
			return false;
		word <<= 24;
	} else if (icmp->type == WEIR_ICMPV6_PARAMETER && icmp->code == 1) {
		icmp->type = WEIR_ICMP_UNREACHABLE;
		icmp->code = WEIR_ICMP_PROTOCOL_CODE;
	} else {
		return false;
	}
	weir_family_icmp_word(icmp, word);
	return true;
}

/* The type of an echo message in the other family; 0xff: it is none. */
static __always_inline __u8 weir_family_echo(__u32 family, __u8 type)
{
	if (family == WEIR_FW_INET)
		return type == WEIR_ICMP_ECHO_REQUEST ? WEIR_ICMPV6_ECHO_REQUEST :
		       type == WEIR_ICMP_ECHO_REPLY   ? WEIR_ICMPV6_ECHO_REPLY :
							WEIR_FAMILY_NONE;
	return type == WEIR_ICMPV6_ECHO_REQUEST ? WEIR_ICMP_ECHO_REQUEST :
	       type == WEIR_ICMPV6_ECHO_REPLY	? WEIR_ICMP_ECHO_REPLY :
						  WEIR_FAMILY_NONE;
}

#endif /* WEIR_FW_FAMILY_ICMP_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Internet checksum (RFC 1071): one's complement sums that may be taken over words of any
 * width, in host order, and folded once at the end.
 */
#ifndef WEIR_CHECKSUM_H
#define WEIR_CHECKSUM_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

/*
 * Folds a sum of less than 2^36 and complements it.
 *
 * Let a, b and c be its 16-bit digits from the lowest up, of which c is below 16. The product's
 * highest 16 bits are a + b + c, plus the carry out of the 16 bits below. These hold a + b + c too,
 * plus the carry of a + b; so the carry is that of a + b + c itself, except where a + b + c is
 * 0x1ffff: there it is one more, as the second carry of the end-around addition would be. One
 * multiplication is thus as good as three rounds of adding the upper part to the lower.
 */
static __always_inline __u16 weir_checksum(__u64 sum)
{
	return (__u16)~((sum * 0x0001000100010001ULL) >> 48);
}

/* As weir_checksum(), but zero, which in UDP says "none", is sent as all ones (RFC 768). */
static __always_inline __u16 weir_checksum_udp(__u64 sum)
{
	__u16 checksum = weir_checksum(sum);

	return checksum ? checksum : 0xffff;
}

#endif /* WEIR_CHECKSUM_H */

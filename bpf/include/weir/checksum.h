/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Internet checksum (RFC 1071): one's complement sums that may be taken over words of any
 * width, in host order, and folded once at the end.
 */
#ifndef WEIR_CHECKSUM_H
#define WEIR_CHECKSUM_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

/* Folds a sum of less than 2^36 and complements it. */
static __always_inline __u16 weir_checksum(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* As weir_checksum(), but zero, which in UDP says "none", is sent as all ones (RFC 768). */
static __always_inline __u16 weir_checksum_udp(__u64 sum)
{
	__u16 checksum = weir_checksum(sum);

	return checksum ? checksum : 0xffff;
}

#endif /* WEIR_CHECKSUM_H */

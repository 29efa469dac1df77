/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pseudo-random numbers that are functions of a seed and a position, the same as
 * weir_wire::random's: any packet can be made without the ones before it.
 */
#ifndef WEIR_RANDOM_H
#define WEIR_RANDOM_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

/* Output number `position`, from 0, of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static __always_inline __u64 weir_splitmix64(__u64 seed, __u64 position)
{
	__u64 z = seed + (position + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Maps 32 random bits to 0..count; count is at most 2^32. */
static __always_inline __u64 weir_below(__u64 count, __u32 draw)
{
	return (__u64)draw * count >> 32;
}

#endif /* WEIR_RANDOM_H */

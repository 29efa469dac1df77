/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A log-linear histogram: 32 buckets for each power of two. Values below 64 have a bucket each; a
 * bucket above is at most 1/32 of its lower bound wide, so that its middle is within 1/64 of every
 * value in it. Values of 2^40 (18 minutes in nanoseconds) and more are in the last bucket.
 */
#ifndef WEIR_HISTOGRAM_H
#define WEIR_HISTOGRAM_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

enum weir_histogram_constant {
	WEIR_HISTOGRAM_LINEAR_BITS = 5,
	/* Buckets for each power of two. */
	WEIR_HISTOGRAM_LINEAR = 1 << WEIR_HISTOGRAM_LINEAR_BITS,
	WEIR_HISTOGRAM_VALUE_BITS = 40,
	WEIR_HISTOGRAM_BUCKETS = (WEIR_HISTOGRAM_VALUE_BITS - WEIR_HISTOGRAM_LINEAR_BITS + 1) *
				 WEIR_HISTOGRAM_LINEAR,
};

#define WEIR_HISTOGRAM_VALUE_MAX ((1ULL << WEIR_HISTOGRAM_VALUE_BITS) - 1)

struct weir_histogram {
	__u64 sum;
	__u64 max;
	__u64 complement_max;	/* of all values' complements: the smallest value, starting at 0 */
	__u64 bucket[WEIR_HISTOGRAM_BUCKETS];
};

/* The place of the highest bit of a value from 1 to WEIR_HISTOGRAM_VALUE_MAX. */
static __always_inline __u32 weir_log2(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) {
		bits = 32;
		value >>= 32;
	}
	if (value >> 16) {
		bits += 16;
		value >>= 16;
	}
	if (value >> 8) {
		bits += 8;
		value >>= 8;
	}
	if (value >> 4) {
		bits += 4;
		value >>= 4;
	}
	if (value >> 2) {
		bits += 2;
		value >>= 2;
	}
	return bits + (value >> 1);
}

static __always_inline __u32 weir_histogram_index(__u64 value)
{
	__u32 shift;

	if (value < WEIR_HISTOGRAM_LINEAR)
		return value;
	if (value > WEIR_HISTOGRAM_VALUE_MAX)
		value = WEIR_HISTOGRAM_VALUE_MAX;
	shift = weir_log2(value) - WEIR_HISTOGRAM_LINEAR_BITS;
	return (shift + 1) * WEIR_HISTOGRAM_LINEAR +
	       ((value >> (shift & 63)) & (WEIR_HISTOGRAM_LINEAR - 1));
}

static __always_inline void weir_histogram_add(struct weir_histogram *histogram, __u64 value)
{
	__u64 index = weir_histogram_index(value);

	/* The compiler must not find the check superfluous: the verifier would miss it. */
	barrier_var(index);
	if (index >= WEIR_HISTOGRAM_BUCKETS)
		return;
	histogram->bucket[index]++;
	histogram->sum += value;
	if (value > histogram->max)
		histogram->max = value;
	if (~value > histogram->complement_max)
		histogram->complement_max = ~value;
}

#endif /* WEIR_HISTOGRAM_H */

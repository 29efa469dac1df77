/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A token bucket, kept as the time at which it would be full again (the virtual scheduling form of
 * the generic cell rate algorithm, ITU-T I.371 appendix): a packet conforms if that time is not
 * further away than the depth of the bucket, and moves it by one interval. The control process
 * reads and writes words: every field has 64 bits.
 */
#ifndef WEIR_SHAPER_H
#define WEIR_SHAPER_H

#include <weir/vmlinux.h>

struct weir_bucket {
	__u64 interval_ns;	/* between two packets at the rate; zero: nothing passes */
	__u64 interval_fraction;	/* 2^-32 ns, below 2^32 */
	__u64 depth_ns;		/* packets of this time may come at once */
	__u64 due_ns;		/* CLOCK_MONOTONIC; the bucket is full from then on */
	__u64 due_fraction;
	__u64 passed_packets;
	__u64 dropped_packets;
};

/* True if the packet conforms; it is then taken from the bucket. */
static __always_inline bool weir_bucket_take(struct weir_bucket *bucket, __u64 now_ns)
{
	__u64 due_ns = bucket->due_ns;
	__u64 fraction = bucket->due_fraction;

	if (!bucket->interval_ns)
		return false;
	if (due_ns > now_ns + bucket->depth_ns)
		return false;
	if (due_ns < now_ns) {
		due_ns = now_ns;
		fraction = 0;
	}
	fraction += bucket->interval_fraction;
	bucket->due_ns = due_ns + bucket->interval_ns + (fraction >> 32);
	bucket->due_fraction = fraction & 0xffffffff;
	return true;
}

#endif /* WEIR_SHAPER_H */

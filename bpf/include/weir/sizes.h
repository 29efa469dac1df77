/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frame sizes of a stream (weir_wire::sizes): one, a cycle that is gone through by sequence
 * number, or a uniform draw from a seed and the sequence number.
 *
 * A cycle's sizes are in a map of their own, those of all streams one behind the other. As with
 * the odometer, a lane's place in the cycle moves by the number of threads modulo its length.
 */
#ifndef WEIR_SIZES_H
#define WEIR_SIZES_H

#include <bpf/bpf_helpers.h>
#include <weir/random.h>
#include <weir/vmlinux.h>

enum weir_sizes_kind {
	WEIR_SIZES_FIXED,
	WEIR_SIZES_CYCLE,
	WEIR_SIZES_UNIFORM,
};

struct weir_sizes {
	__u64 kind;		/* WEIR_SIZES_* */
	__u64 first_bytes;	/* fixed: the size; uniform: the smallest one */
	__u64 count;		/* sizes of a cycle, or of the uniform draw */
	__u64 seed;		/* of the uniform draw */
	__u64 base;		/* of a cycle: where its first size stands in the map */
	__u64 place;		/* of a cycle: the next packet's, below count */
	__u64 step;		/* of a cycle: below count */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_cycle_sizes SEC(".maps");

/* The size of packet number `sequence`, for which a cycle must stand at its place. */
static __always_inline __u64 weir_sizes_read(const struct weir_sizes *sizes, __u64 sequence)
{
	__u64 *size_bytes;
	__u32 index;

	if (sizes->kind == WEIR_SIZES_FIXED)
		return sizes->first_bytes;
	if (sizes->kind == WEIR_SIZES_UNIFORM)
		return sizes->first_bytes +
		       weir_below(sizes->count, weir_splitmix64(sizes->seed, sequence) >> 32);
	index = sizes->base + sizes->place;
	size_bytes = bpf_map_lookup_elem(&weir_cycle_sizes, &index);
	return size_bytes ? *size_bytes : 0;
}

static __always_inline void weir_sizes_turn(struct weir_sizes *sizes)
{
	__u64 place = sizes->place + sizes->step;

	if (sizes->kind == WEIR_SIZES_CYCLE)
		sizes->place = place < sizes->count ? place : place - sizes->count;
}

#endif /* WEIR_SIZES_H */

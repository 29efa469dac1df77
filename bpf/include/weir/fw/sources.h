/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the nodes of sources are (node.h): those that rules track (source.h), and those that source
 * limiters count (limiter.h). Here are the map, room for keys, and the ring for what the control
 * process is told. What a node counts is up to those who use it.
 */
#ifndef WEIR_FW_SOURCES_H
#define WEIR_FW_SOURCES_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/node.h>

/* More than a thousand sources at a time that went over a limit. */
#define WEIR_SOURCE_RING_BYTES (1u << 16)
/* A node that ends while it is looked up is looked up again this often. */
#define WEIR_SOURCE_TRIES 4

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__uint(max_entries, 1); /* set when it is loaded */
	__type(key, struct weir_source_key);
	__type(value, struct weir_source);
} weir_sources SEC(".maps");

/* Room of each CPU for keys and a new node, which the stack has not under all that calls this. */
struct weir_source_room {
	struct weir_source_key key;
	struct weir_source_key count_key;
	/* struct weir_source, before it is in its map, where the lock in it means something. */
	__u32 fresh[sizeof(struct weir_source) / sizeof(__u32)];
	/* What a node gets of the rule: as its fields of these names. */
	__u32 connections_max;
	__u32 rate_count;
	__u32 rate_seconds;
	__u32 overloads;
	__u32 keep_ticks;
	/* What a source limiter allows: as its fields of these names; and its rate (limiter.h). */
	__u32 limit;
	__u32 above;
	__u64 bucket;
	/* What a half will hold of limiters, and what it has taken of that: limited.h. */
	__u64 held;
	__u64 needs;
	__u64 refund;
};

#define WEIR_SOURCE_OWNER_AT (__builtin_offsetof(struct weir_source, owner) / sizeof(__u32))
#define WEIR_SOURCE_CREATED_AT                                                                    \
	(__builtin_offsetof(struct weir_source, created_tick) / sizeof(__u32))
#define WEIR_SOURCE_KEY_AT (__builtin_offsetof(struct weir_source, key) / sizeof(__u32))

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_source_room);
} weir_source_rooms SEC(".maps");

static __always_inline struct weir_source_room *weir_source_room(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&weir_source_rooms, &zero);
}

/* A ring of their own, so that no flood of packets that are logged displaces them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WEIR_SOURCE_RING_BYTES);
} weir_overloads SEC(".maps");

/* Whether a node, which is locked, is still the one that a key has led to. */
static __always_inline bool weir_source_is_of(const struct weir_source *node,
					      const struct weir_source_key *key)
{
	const __u32 *a = (const __u32 *)&node->key, *b = (const __u32 *)key;
	__u32 differ = node->is_dead, i;

#pragma unroll
	for (i = 0; i < sizeof(*key) / sizeof(__u32); i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

#endif /* WEIR_FW_SOURCES_H */

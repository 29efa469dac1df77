/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Routes that a CPU keeps where nothing is filtered, and no state could: which next hop the kernel
 * named for a flow of UDP or TCP over IPv4. A flow has the whole of what bpf_fib_lookup() asks for,
 * so that rules by address, port, TOS or interface, and several ways at once, are decided as the
 * kernel decided.
 *
 * Three flows share a line; more of them push each other out. A flow that finds no room is asked
 * for, packet by packet, and gets into a full set only now and then: with more flows than room,
 * those that are there shall stay long enough to be of use, and the others not pay for it.
 *
 * As next hops of states these are of one generation, and forgotten with it. A generation's number
 * comes again: before that, the control process empties sets that nobody came by (its sweeper).
 */
#ifndef WEIR_FW_KEPT_H
#define WEIR_FW_KEPT_H

#include <weir/fw/hash.h>
#include <weir/fw/next_hop.h>
#include <weir/fw/parse.h>
#include <weir/fw/table.h>

/* A full set takes one of this many that it has no room for; a power of two. */
#define WEIR_KEPT_PATIENCE 4

/* weir_fw_kept.what, above the index of the next hop */
#define WEIR_KEPT_SLOT_SHIFT 16
#define WEIR_KEPT_TOS_SHIFT 22
#define WEIR_KEPT_TCP_SHIFT 30
#define WEIR_KEPT_NEXT_HOP_MASK 0xffff

_Static_assert(WEIR_FW_INTERFACE_COUNT_MAX <= 1 << (WEIR_KEPT_TOS_SHIFT - WEIR_KEPT_SLOT_SHIFT),
	       "a slot has room");
_Static_assert(WEIR_FW_NEXT_HOP_COUNT_MAX <= WEIR_KEPT_NEXT_HOP_MASK + 1, "so has a next hop");

static __always_inline struct weir_fw_kept_set __weir_arena *weir_kept_set_at(__u32 at)
{
	return weir_at(struct weir_fw_kept_set, at);
}

/* What is known of a flow, and no next hop yet. */
static __always_inline void weir_kept_key(struct weir_fw_kept *key, const struct weir_ipv4 *ip,
					  __u8 slot)
{
	const struct weir_udp *ports = (const void *)(ip + 1);

	key->src = ip->src;
	key->dst = ip->dst;
	key->ports = weir_ports(ports->src, ports->dst);
	key->what = (__u32)slot << WEIR_KEPT_SLOT_SHIFT |
		    (__u32)ip->tos << WEIR_KEPT_TOS_SHIFT |
		    (__u32)(ip->protocol == WEIR_PROTOCOL_TCP) << WEIR_KEPT_TCP_SHIFT;
}

/* Where a CPU's set for a flow stands. */
static __always_inline __u32 weir_kept_at(__u32 cpu, const struct weir_fw_kept *key)
{
	__u64 hash = weir_hash_words((__u64)key->src << 32 | key->ports,
				     (__u64)key->dst << 32 | key->what, weir_fw_seed[0],
				     weir_fw_seed[1]);
	__u32 index;

	hash ^= hash >> 32;
	hash *= weir_fw_seed[2] | 1;
	index = cpu * WEIR_FW_KEPT_SET_COUNT + (hash >> (64 - WEIR_FW_KEPT_SET_BITS));
	return weir_fw_control()->kept_at + index * (__u32)sizeof(struct weir_fw_kept_set);
}

/* The index of a flow's next hop; 0 if none is kept. */
static __always_inline __u32 weir_kept_find(__u32 at, const struct weir_fw_kept *key,
					    __u16 generation)
{
	struct weir_fw_kept_set __weir_arena *set = weir_kept_set_at(at);
	__u32 i;

	if (set->generation != generation)
		return 0;
#pragma unroll
	for (i = 0; i < WEIR_FW_KEPT_WAYS; i++) {
		struct weir_fw_kept __weir_arena *way = &set->way[i];
		__u32 next_hop = way->what ^ key->what;

		if (way->ports == key->ports && way->src == key->src && way->dst == key->dst &&
		    next_hop <= WEIR_KEPT_NEXT_HOP_MASK)
			return next_hop;
	}
	return 0;
}

/* Whether a flow that was not found may have a place. */
static __always_inline bool weir_kept_has_room(__u32 at, __u16 generation)
{
	struct weir_fw_kept_set __weir_arena *set = weir_kept_set_at(at);

	return set->generation != generation || !set->way[WEIR_FW_KEPT_WAYS - 1].what ||
	       !(bpf_get_prandom_u32() & (WEIR_KEPT_PATIENCE - 1));
}

/* Keeps the index of a flow's next hop, which is not 0. */
static __always_inline void weir_kept_keep(__u32 at, const struct weir_fw_kept *key, __u32 next_hop,
					   __u16 generation)
{
	struct weir_fw_kept_set __weir_arena *set = weir_kept_set_at(at);
	struct weir_fw_kept __weir_arena *way;
	__u32 i;

	if (set->generation != generation) {
		for (i = 0; i < WEIR_FW_KEPT_WAYS; i++)
			set->way[i].what = 0;
		set->oldest = 0;
		set->generation = generation;
	}
	i = set->oldest < WEIR_FW_KEPT_WAYS ? set->oldest : 0;
	set->oldest = i + 1;
	way = &set->way[i];
	way->src = key->src;
	way->dst = key->dst;
	way->ports = key->ports;
	way->what = key->what | next_hop;
}

#endif /* WEIR_FW_KEPT_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sets of prefixes: what a table of addresses is in the data path; weir-fw's prefix.rs builds them.
 *
 * For each family there is one hash table with open addressing, keyed by the masked address and the
 * length of the prefix, and the list of the lengths that occur, longest first. A lookup takes one
 * probe, mostly one cache line, for each length until one fits: the longest prefix wins, and if it
 * is negated the address is not in the table (pf.conf(5), TABLES).
 *
 * A set is written whole, and then replaced; but entries of a length that it has come and go in it,
 * one at a time, as long as there are enough empty slots (prefix/change.rs).
 *
 * Typed tables are such sets, too (prefix/typed.rs): each slot has the number of its values beside
 * the length. A number is a slot of IPv4, an interface's name one of IPv6, and so is a flow: both
 * addresses of IPv4, ports and protocol are 104 bits. Those of IPv6 have numbers there, by slots of
 * the same set.
 */
#ifndef WEIR_FW_PREFIX_H
#define WEIR_FW_PREFIX_H

#include <bpf/bpf_endian.h>
#include <weir/fw/arena.h>
#include <weir/fw/loop.h>
#include <weir/fw/packet.h>

enum weir_fw_prefix_constant {
	WEIR_FW_PREFIX_MAGIC = 0x77667078,
	/* Nothing lies further from its place; the builder takes more room instead. */
	WEIR_FW_PREFIX_PROBE_MAX = 256,
	/* In the upper half of a slot's last word; a slot with 0 there is empty. */
	WEIR_FW_PREFIX_USED = 1u << 31,
	WEIR_FW_PREFIX_NOT = 1u << 30,
	/* The length of an entry that has gone: none is looked for, but others lie behind it. */
	WEIR_FW_PREFIX_GONE = 0xff,
	/* "Lengths" of what is no prefix: a flow of IPv6, and an address of one. */
	WEIR_FW_PREFIX_FLOW6 = 0xf0,
	WEIR_FW_PREFIX_FLOW6_ADDRESS = 0xf1,
	/* What a slot is found by in its last word, and the number of its values. */
	WEIR_FW_PREFIX_KEY_MASK = 0x800000ff,
	WEIR_FW_PREFIX_VALUE_SHIFT = 8,
	WEIR_FW_PREFIX_VALUE_MASK = 0x3fffff,
};

/* weir_fw_prefix_set.flow: the parts of a packet's flow that are in a key */
enum weir_fw_prefix_flow {
	WEIR_FW_FLOW_SRC_IP = 1 << 0,
	WEIR_FW_FLOW_PROTO = 1 << 1,
	WEIR_FW_FLOW_SRC_PORT = 1 << 2,
	WEIR_FW_FLOW_DST_IP = 1 << 3,
	WEIR_FW_FLOW_DST_PORT = 1 << 4,
};

/* Offsets count from the set's own start. */
struct weir_fw_prefix_set {
	__u32 magic;
	__u32 bytes;		/* the whole set */
	__u32 count[2];		/* entries, by family */
	__u32 slots_at[2];	/* __u64[] for IPv4, struct weir_fw_prefix6[] for IPv6 */
	__u32 slot_count[2];	/* 0: no entries */
	__u64 seed;
	__u8 length_count[2];
	__u8 lengths4[33];	/* bits, the longest first */
	__u8 lengths6[129];
	__u32 gone[2];		/* slots with WEIR_FW_PREFIX_GONE */
	__u8 is_typed;		/* of a typed table, and not of an image: it stays when that goes */
	__u8 flow;		/* WEIR_FW_FLOW_* of a table of flows */
	__u8 unused[10];
};

/* A slot of IPv4 is one word: the network in host order | (WEIR_FW_PREFIX_* | bits) << 32. */
struct weir_fw_prefix6 {
	__u64 network[2];	/* host order, the upper half first */
	__u32 bits;		/* WEIR_FW_PREFIX_* | bits */
	__u32 unused;
};

enum weir_fw_prefix_multiplier {
	WEIR_FW_PREFIX_MULTIPLIER = 0x9e3779b97f4a7c15ull,
	WEIR_FW_PREFIX_MULTIPLIER_2 = 0xc2b2ae3d27d4eb4full,
};

/* The first slot to look at. */
static __always_inline __u32 weir_fw_prefix_slot(__u64 key, __u32 slot_count)
{
	key *= WEIR_FW_PREFIX_MULTIPLIER;
	key ^= key >> 32;
	key *= WEIR_FW_PREFIX_MULTIPLIER_2;
	return (__u32)(((key >> 32) * slot_count) >> 32);
}

/* What is in a slot's last word of the longest prefix that an address is in; 0: it is in none. */
static __always_inline __u32 weir_fw_prefix_find4(struct weir_fw_prefix_set __weir_arena *set,
						  __u32 set_at, __u32 address)
{
	__u32 slots_at = set_at + set->slots_at[WEIR_FW_INET];
	__u32 slot_count = set->slot_count[WEIR_FW_INET];
	__u32 length_count = set->length_count[WEIR_FW_INET];
	__u32 probes = weir_fw_bound(WEIR_FW_PREFIX_PROBE_MAX);
	__u64 seed = set->seed;

	for (__u32 i = 0; i < length_count && weir_fw_may_loop; i++) {
		__u32 bits = set->lengths4[i];
		__u32 network = address & (__u32)(0xffffffff00000000ull >> (bits & 63));
		__u64 wanted = (__u64)(WEIR_FW_PREFIX_USED | bits) << 32 | network;
		__u32 slot = weir_fw_prefix_slot(wanted ^ seed, slot_count);

		for (__u32 left = probes; left && weir_fw_may_loop; left--) {
			__u64 found = *weir_at(__u64, slots_at + slot * 8);

			if (!found)
				break;
			if ((found & ((__u64)WEIR_FW_PREFIX_KEY_MASK << 32 | 0xffffffff)) == wanted)
				return (__u32)(found >> 32);
			slot++;
			if (slot >= slot_count)
				slot = 0;
		}
	}
	return 0;
}

/* The last word of the slot of a prefix of IPv6, which has no bits of hosts; 0: there is none. */
static __always_inline __u32 weir_fw_prefix_probe6(struct weir_fw_prefix_set __weir_arena *set,
						   __u32 set_at, __u64 first, __u64 second,
						   __u32 bits)
{
	__u32 slots_at = set_at + set->slots_at[WEIR_FW_INET6];
	__u32 slot_count = set->slot_count[WEIR_FW_INET6];
	__u64 key = (first ^ bits) * WEIR_FW_PREFIX_MULTIPLIER_2 ^ second ^ set->seed;
	__u32 slot = weir_fw_prefix_slot(key, slot_count);
	__u32 left;

	if (!slot_count)
		return 0;
	for (left = weir_fw_bound(WEIR_FW_PREFIX_PROBE_MAX); left && weir_fw_may_loop; left--) {
		struct weir_fw_prefix6 __weir_arena *found =
			weir_at(struct weir_fw_prefix6, slots_at + slot * 24);
		__u32 meta = found->bits;

		if (!meta)
			break;
		if (found->network[0] == first && found->network[1] == second &&
		    (meta & WEIR_FW_PREFIX_KEY_MASK) == (WEIR_FW_PREFIX_USED | bits))
			return meta;
		slot++;
		if (slot >= slot_count)
			slot = 0;
	}
	return 0;
}

static __always_inline __u32 weir_fw_prefix_find6(struct weir_fw_prefix_set __weir_arena *set,
						  __u32 set_at, __u64 upper, __u64 lower)
{
	__u32 length_count = set->length_count[WEIR_FW_INET6];

	for (__u32 i = 0; i < length_count && weir_fw_may_loop; i++) {
		__u32 bits = set->lengths6[i];
		__u64 first = bits >= 64 ? upper : bits ? upper & ~0ull << (64 - bits) : 0;
		__u64 second = bits >= 128 ? lower
			       : bits > 64 ? lower & ~0ull << (128 - bits)
					   : 0;
		__u32 meta = weir_fw_prefix_probe6(set, set_at, first, second, bits);

		if (meta)
			return meta;
	}
	return 0;
}

/*
 * What is in a slot's last word of the longest prefix that an end of a packet (0 the source, 1 the
 * destination) is in; 0: it is not in the set at an offset. A function of its own, so that the
 * verifier looks at it once.
 */
__noinline __u32 weir_fw_prefix_found(const struct weir_fw_packet *p, __u32 set_at, __u32 end)
{
	struct weir_fw_prefix_set __weir_arena *set = weir_at(struct weir_fw_prefix_set, set_at);
	__be32 a[4];
	__u32 found;

	if (!p || !set_at)
		return 0;
	a[0] = end ? p->dst[0] : p->src[0];
	if (p->family == WEIR_FW_INET) {
		found = weir_fw_prefix_find4(set, set_at, bpf_ntohl(a[0]));
		return found & WEIR_FW_PREFIX_NOT ? 0 : found;
	}
	a[1] = end ? p->dst[1] : p->src[1];
	a[2] = end ? p->dst[2] : p->src[2];
	a[3] = end ? p->dst[3] : p->src[3];
	found = weir_fw_prefix_find6(set, set_at, (__u64)bpf_ntohl(a[0]) << 32 | bpf_ntohl(a[1]),
				     (__u64)bpf_ntohl(a[2]) << 32 | bpf_ntohl(a[3]));
	return found & WEIR_FW_PREFIX_NOT ? 0 : found;
}

#endif /* WEIR_FW_PREFIX_H */

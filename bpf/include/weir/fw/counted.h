/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of what stands in tables with `counters`: packets and bytes of the entry that a rule has
 * found an end of the packet in (pfr_update_stats of pf_table.c). Each packet is counted as it
 * comes, also those of states: for their rule, which is looked up in the ruleset of the moment.
 */
#ifndef WEIR_FW_COUNTED_H
#define WEIR_FW_COUNTED_H

#include <bpf/bpf_endian.h>
#include <weir/fw/counters.h>
#include <weir/fw/image.h>
#include <weir/fw/prefix.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__uint(max_entries, WEIR_FW_COUNTED_MAX);
	__type(key, struct weir_fw_counted_key);
	__type(value, struct weir_fw_counts);
} weir_counted SEC(".maps");

/* Room of each CPU for a key and a new entry, which the stack has not under all that calls this. */
struct weir_counted_room {
	struct weir_fw_counted_key key;
	struct weir_fw_counts none;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_counted_room);
} weir_counted_rooms SEC(".maps");

static __always_inline struct weir_counted_room *weir_counted_room(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&weir_counted_rooms, &zero);
}

static __always_inline bool weir_counts_entries(__u32 ruleset)
{
	return weir_at(struct weir_fw_image, ruleset)->flags & WEIR_FW_IMAGE_COUNTED;
}

/* The part of a prefix's mask that is for one of the words of an address. */
static __always_inline __be32 weir_counted_mask(__u32 bits, __u32 word)
{
	__u32 left = bits > 32 * word ? bits - 32 * word : 0;

	return left >= 32 ? ~0u : bpf_htonl((__u32)(0xffffffff00000000ull >> left));
}

/* What a set has for the address in the room's key: as weir_fw_prefix_find4(). */
static __noinline __u32 weir_counted_find(__u32 set_at)
{
	struct weir_fw_prefix_set __weir_arena *set = weir_at(struct weir_fw_prefix_set, set_at);
	struct weir_counted_room *room = weir_counted_room();

	if (!room || !set_at)
		return 0;
	if (room->key.family == WEIR_FW_INET)
		return weir_fw_prefix_find4(set, set_at, bpf_ntohl(room->key.addr[0]));
	return weir_fw_prefix_find6(set, set_at,
				    (__u64)bpf_ntohl(room->key.addr[0]) << 32 |
					    bpf_ntohl(room->key.addr[1]),
				    (__u64)bpf_ntohl(room->key.addr[2]) << 32 |
					    bpf_ntohl(room->key.addr[3]));
}

/* Counts a packet for the entry of the map that is the room's key. */
static __noinline void weir_counted_put(const struct weir_fw_packet *p, __u32 outcome)
{
	struct weir_counted_room *room = weir_counted_room();
	struct weir_fw_counts *counts;

	if (!room)
		return;
	counts = bpf_map_lookup_elem(&weir_counted, &room->key);
	if (!counts) {
		/* BPF_NOEXIST: another CPU may have been faster. */
		bpf_map_update_elem(&weir_counted, &room->key, &room->none, 1);
		counts = bpf_map_lookup_elem(&weir_counted, &room->key);
	}
	if (!counts) {
		weir_fw_table_counters(p->cpu)->uncounted++;
		return;
	}
	__sync_fetch_and_add(&counts->packets[p->direction & 1][outcome & 1], 1);
	__sync_fetch_and_add(&counts->bytes[p->direction & 1][outcome & 1], p->ip_bytes);
}

/* Of weir_counted_packet(). */
#define WEIR_COUNTED_BLOCKED (1 << 0)
#define WEIR_COUNTED_REVERSE (1 << 1) /* it goes to who was the source when the rule was asked */

/* A packet that a rule of its ruleset has decided, or the rule of its state. */
__noinline int weir_counted_packet(const struct weir_fw_packet *p __arg_nonnull, __u32 rule,
				   __u32 how)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	struct weir_counted_room *room = weir_counted_room();
	struct weir_fw_counted __weir_arena *counted;
	__u32 end, found, i;

	if (!room || !weir_counts_entries(p->ruleset) || rule >= image->id_count)
		return 0;
	counted = weir_at(struct weir_fw_counted,
			  p->ruleset + image->counted_at + rule * 2 * (__u32)sizeof(*counted));
	for (end = 0; end < 2; end++, counted++) {
		if (!counted->table || counted->index >= image->table_count)
			continue;
		for (i = 0; i < 4; i++)
			room->key.addr[i] = !end == !(how & WEIR_COUNTED_REVERSE) ? p->src[i] :
										    p->dst[i];
		room->key.family = p->family;
		found = weir_counted_find(
			*weir_at(__u32, p->ruleset + image->tables_at + counted->index * 4));
		/* What is in no entry has made a rule with `!` match. */
		if (!found || !(found & WEIR_FW_PREFIX_NOT) != !counted->is_not)
			continue;
		room->key.bits = found & 0xff;
		for (i = 0; i < 4; i++)
			room->key.addr[i] &= weir_counted_mask(room->key.bits, i);
		room->key.table = counted->table;
		weir_counted_put(p, how & WEIR_COUNTED_BLOCKED ? WEIR_FW_BLOCK : WEIR_FW_PASS);
	}
	return 0;
}

#endif /* WEIR_FW_COUNTED_H */

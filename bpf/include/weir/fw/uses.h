/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What translated states use together: an address of a pool with `least-states`, which is chosen by
 * the number of its states, and the outer end that `endpoint-independent` gives to a host's UDP
 * port for all destinations (pf.conf(5); `pf_map_addr` and `pf_udp_mapping_*` of pf_lb.c and pf.c).
 *
 * A use counts the aliases (alias.h) that have it, and goes with the last of them. It is taken when
 * an alias is made, and an alias says which it has; one for which there was no room has none.
 */
#ifndef WEIR_FW_USES_H
#define WEIR_FW_USES_H

#include <weir/fw/headers.h>
#include <weir/fw/line.h>
#include <weir/fw/packet.h>

/* Of mappings each has two: by the end inside, and by the one outside. */
#define WEIR_USE_COUNT_MAX (1u << 17)
/* In weir_use.count: the last one has gone, and it is about to be deleted. */
#define WEIR_USE_ENDED 0xffffffffu
#define WEIR_USE_TRIES 4

/* weir_use_key.kind */
enum weir_use_kind {
	WEIR_USE_POOL,		/* of the pool of a rule: an address */
	WEIR_USE_INSIDE,	/* the outer end of one inside */
	WEIR_USE_OUTSIDE,	/* the other way round */
};

struct weir_use_key {
	__be32 addr[4];
	__u32 rule;
	__be16 port;
	__u8 family;
	__u8 kind;		/* enum weir_use_kind */
};

struct weir_use {
	__be32 addr[4];		/* the other end of a mapping */
	__be16 port;
	__u16 unused;
	__u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__uint(max_entries, WEIR_USE_COUNT_MAX);
	__type(key, struct weir_use_key);
	__type(value, struct weir_use);
} weir_uses SEC(".maps");

/* Room of each CPU for keys and a new use, which the stack has not under all that calls this. */
struct weir_use_room {
	struct weir_use_key inside;
	struct weir_use_key outside;
	struct weir_use fresh;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_use_room);
} weir_use_rooms SEC(".maps");

static __always_inline struct weir_use_room *weir_use_room(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&weir_use_rooms, &first);
}

static __always_inline bool weir_use_is_of(const struct weir_use *use, const struct weir_use *other)
{
	return use->port == other->port &&
	       !((use->addr[0] ^ other->addr[0]) | (use->addr[1] ^ other->addr[1]) |
		 (use->addr[2] ^ other->addr[2]) | (use->addr[3] ^ other->addr[3]));
}

/* Takes a use that has this other end, or makes it. Whether it has it now. */
static __always_inline bool weir_use_take(const struct weir_use_key *key,
					  const struct weir_use *fresh)
{
	struct weir_use *use;
	__u32 count, i;

	for (i = 0; i < WEIR_USE_TRIES; i++) {
		use = bpf_map_lookup_elem(&weir_uses, key);
		if (!use) {
			if (!bpf_map_update_elem(&weir_uses, key, fresh, 1)) /* BPF_NOEXIST */
				return true;
			continue;
		}
		if (!weir_use_is_of(use, fresh))
			return false;
		count = weir_read_once(use->count);
		if (count != WEIR_USE_ENDED &&
		    __sync_val_compare_and_swap(&use->count, count, count + 1) == count)
			return true;
	}
	return false;
}

/* Gives a use back. Whether it was the last, and nobody takes it any more: it is to be deleted. */
static __always_inline bool weir_use_give(const struct weir_use_key *key,
					  const struct weir_use *other)
{
	struct weir_use *use = bpf_map_lookup_elem(&weir_uses, key);

	if (!use || !weir_use_is_of(use, other))
		return false;
	if (__sync_fetch_and_add(&use->count, -1) != 1)
		return false;
	return __sync_val_compare_and_swap(&use->count, 0, WEIR_USE_ENDED) == 0;
}

/* The ends of the packet of a flow that a mapping joins. */
static __always_inline void weir_use_ends(struct weir_use_key *inside, struct weir_use_key *outside)
{
	outside->rule = 0;
	outside->family = inside->family;
	outside->kind = WEIR_USE_OUTSIDE;
	inside->rule = 0;
	inside->kind = WEIR_USE_INSIDE;
}

/* What one end of a mapping says of the other. */
static __always_inline void weir_use_other(struct weir_use *use, const struct weir_use_key *other)
{
	weir_copy_address(use->addr, other->addr);
	use->port = other->port;
	use->unused = 0;
	use->count = 1;
}

/* Takes a mapping for one more state; false: somebody else has one of its ends, or no room. */
static __always_inline bool weir_mapping_take(struct weir_use_room *room)
{
	struct weir_use *there;

	weir_use_ends(&room->inside, &room->outside);
	weir_use_other(&room->fresh, &room->outside);
	if (!weir_use_take(&room->inside, &room->fresh))
		return false;
	weir_use_other(&room->fresh, &room->inside);
	if (!bpf_map_update_elem(&weir_uses, &room->outside, &room->fresh, 1))
		return true;
	there = bpf_map_lookup_elem(&weir_uses, &room->outside);
	if (there && weir_use_is_of(there, &room->fresh))
		return true;
	weir_use_other(&room->fresh, &room->outside);
	if (weir_use_give(&room->inside, &room->fresh))
		bpf_map_delete_elem(&weir_uses, &room->inside);
	return false;
}

static __always_inline void weir_mapping_give(struct weir_use_room *room)
{
	weir_use_ends(&room->inside, &room->outside);
	weir_use_other(&room->fresh, &room->outside);
	if (!weir_use_give(&room->inside, &room->fresh))
		return;
	bpf_map_delete_elem(&weir_uses, &room->outside);
	bpf_map_delete_elem(&weir_uses, &room->inside);
}

/* The ends of an alias: inside, and on the wire. Of IPv4 the first word is the address. */
static __always_inline void weir_alias_ends(weir_alias_line *a,
					    struct weir_use_key *inside,
					    struct weir_use_key *outside)
{
	__u32 end = a->control & WEIR_STATE_HALF_B ? 0 : 1;

	__builtin_memset(inside, 0, sizeof(*inside));
	__builtin_memset(outside, 0, sizeof(*outside));
	inside->port = a->inside_port;
	outside->port = a->port[end];
	weir_copy_address(inside->addr, a->inside);
	if (a->control & WEIR_STATE_IPV6) {
		inside->family = WEIR_FW_INET6;
		weir_copy_address(outside->addr, weir_addresses_at(a->addr[1])->addr[end]);
	} else {
		inside->family = WEIR_FW_INET;
		outside->addr[0] = a->addr[end];
	}
}

/* The address of a pool that an alias has: of sources on the wire, of destinations inside. */
static __always_inline void weir_use_of_pool(weir_alias_line *a, struct weir_use_room *room,
					     __u32 uses)
{
	if (uses & WEIR_ALIAS_OF_SOURCES)
		weir_copy_address(room->inside.addr, room->outside.addr);
	room->inside.port = 0;
	room->inside.rule = a->rule;
	room->inside.kind = WEIR_USE_POOL;
	__builtin_memset(&room->fresh, 0, sizeof(room->fresh));
	room->fresh.count = 1;
}

/* What an alias that nobody knows yet uses from now on, of what its rule has asked for. */
__noinline int weir_uses_take(__u32 slot, __u32 asked)
{
	struct weir_use_room *room = weir_use_room();
	weir_alias_line *a = weir_alias_at(slot);
	__u32 uses = 0;

	if (!room)
		return 0;
	weir_alias_ends(a, &room->inside, &room->outside);
	if (asked & WEIR_ALIAS_MAPPED && weir_mapping_take(room))
		uses |= WEIR_ALIAS_MAPPED;
	if (asked & WEIR_ALIAS_OF_POOL) {
		weir_use_of_pool(a, room, asked);
		if (weir_use_take(&room->inside, &room->fresh))
			uses |= asked & (WEIR_ALIAS_OF_POOL | WEIR_ALIAS_OF_SOURCES);
	}
	a->uses = uses;
	return 0;
}

/* Gives it back, as the alias ends. */
__noinline int weir_uses_give(__u32 slot)
{
	struct weir_use_room *room = weir_use_room();
	weir_alias_line *a = weir_alias_at(slot);

	if (!room)
		return 0;
	weir_alias_ends(a, &room->inside, &room->outside);
	if (a->uses & WEIR_ALIAS_MAPPED)
		weir_mapping_give(room);
	if (a->uses & WEIR_ALIAS_OF_POOL) {
		weir_use_of_pool(a, room, a->uses);
		if (weir_use_give(&room->inside, &room->fresh))
			bpf_map_delete_elem(&weir_uses, &room->inside);
	}
	a->uses = 0;
	return 0;
}

#endif /* WEIR_FW_USES_H */

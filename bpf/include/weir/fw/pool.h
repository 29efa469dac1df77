/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which address and which port a translation gives (`pf_map_addr` and `pf_get_sport` of pf_lb.c;
 * weir_rules::evaluate::translate is the reference).
 */
#ifndef WEIR_FW_POOL_H
#define WEIR_FW_POOL_H

#include <bpf/bpf_endian.h>
#include <weir/fw/alias.h>
#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/scratch.h>

/*
 * Ports that are looked at, at most: of a range that is not larger each of them, in turn from a
 * random one on; of a larger one as many at random. With 60,000 of 64,512 in use, 14 are needed on
 * average, and all of them are in use once in 10^7 times.
 */
#define WEIR_POOL_PROBES_MAX 256
/*
 * Addresses of a pool that takes turns, or draws them, of which a free port is looked for, at most:
 * they share the probes. pf looks at all of them.
 */
#define WEIR_POOL_ADDRESSES_MAX 8

typedef struct weir_fw_translation __weir_arena weir_translation;

/* FNV-1a over the key (that is `seed`) and the address, mixed (the finaliser of splitmix64). */
__noinline __u64 weir_pool_hash(const struct weir_fw_packet *p __arg_nonnull, __u64 seed)
{
	const __u8 *octets = (const __u8 *)p->src;
	__u64 hash = seed;
	__u32 i;

#pragma unroll
	for (i = 0; i < 16; i++) {
		__u8 octet = octets[i];

		/* An IPv4 address is the last four of sixteen. */
		if (p->family == WEIR_FW_INET)
			octet = i < 12 ? 0 : octets[i - 12];
		hash = (hash ^ octet) * 0x100000001b3ull;
	}
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ull;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebull;
	return hash ^ hash >> 31;
}

/* Whose turn it is in a pool of several addresses. */
static __always_inline __u64 weir_pool_turn(const struct weir_fw_packet *p, weir_translation *t)
{
	if (t->choice == WEIR_FW_CHOICE_ROUND_ROBIN)
		return __sync_fetch_and_add(&t->turn, 1);
	if (t->choice == WEIR_FW_CHOICE_SOURCE_HASH)
		return weir_pool_hash(p, t->seed);
	if (t->choice == WEIR_FW_CHOICE_RANDOM)
		return (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	return 0;
}

/* An address of a network: that of a number, or one with the rest of another address. */
static __always_inline void weir_pool_address(struct weir_fw_target __weir_arena *target,
					      __be32 *to, const __be32 *rest, __u64 number,
					      bool is_ipv6)
{
	__u32 i;

	for (i = 0; i < 4; i++) {
		__be32 host = 0;

		if (rest)
			host = rest[i];
		else if (is_ipv6)
			host = i == 3 ? bpf_htonl((__u32)number) :
			       i == 2 ? bpf_htonl((__u32)(number >> 32)) :
					0;
		else if (i == 0)
			host = bpf_htonl((__u32)number);
		to[i] = (target->addr[i] & target->mask[i]) | (host & ~target->mask[i]);
	}
	if (!is_ipv6)
		to[1] = to[2] = to[3] = 0;
}

/*
 * Puts the address of a rule's pool that has the fewest states for its weight into `key`; of
 * several the first one from the last turn on. 0: there is no address.
 */
__noinline int weir_pool_least(const struct weir_fw_packet *p __arg_nonnull,
			       struct weir_fw_packet *key __arg_nonnull, __u32 at, __u32 rule)
{
	weir_translation *t = weir_at(struct weir_fw_translation, at);
	__u32 family = p->family & 1, address_count = (__u32)t->seed, number = 0, index, i, states;
	struct weir_use_room *room = weir_use_room();
	__u32 least = 0, nearest = 0, weight, weight_of_least = 0, distance, start;
	__u32 target_at = p->ruleset + t->targets_at[family];
	bool is_source = t->flags & WEIR_FW_TRANSLATION_SOURCE;
	struct weir_fw_target __weir_arena *target;
	__be32 *to = is_source ? key->src : key->dst;
	struct weir_use_key *use;
	struct weir_use *found;
	__u64 before = 0;

	if (!address_count || !room)
		return 0;
	use = &room->inside;
	use->rule = rule;
	use->port = 0;
	use->family = family;
	use->kind = WEIR_USE_POOL;
	start = __sync_fetch_and_add(&t->turn, 1) % address_count;
	for (i = weir_fw_bound(0); i < t->target_count[family] && weir_fw_may_loop; i++) {
		target = weir_at(struct weir_fw_target, target_at);
		weight = target->size ? (__u32)((target->reach - before) / target->size) : 1;
		for (index = weir_fw_bound(0); index < target->size && weir_fw_may_loop; index++) {
			weir_pool_address(target, use->addr, 0, index, family == WEIR_FW_INET6);
			found = bpf_map_lookup_elem(&weir_uses, use);
			states = found && found->count != WEIR_USE_ENDED ? found->count : 0;
			distance = number - start + (number < start ? address_count : 0);
			number++;
			if (weight_of_least &&
			    ((__u64)states * weight_of_least > (__u64)least * weight ||
			     ((__u64)states * weight_of_least == (__u64)least * weight &&
			      distance > nearest)))
				continue;
			weight_of_least = weight;
			least = states;
			nearest = distance;
			weir_copy_address(to, use->addr);
		}
		before = target->reach;
		target_at += sizeof(struct weir_fw_target);
	}
	return weight_of_least != 0;
}

/*
 * Puts the address of a turn (weir_pool_turn()) into `key`, as its source or destination. Returns
 * the first turn of the next address; 0: there is no address.
 */
__noinline __u64 weir_pool_turned(const struct weir_fw_packet *p __arg_nonnull,
				  struct weir_fw_packet *key __arg_nonnull, __u32 at, __u64 turn)
{
	struct weir_fw_target __weir_arena *target;
	weir_translation *t = weir_at(struct weir_fw_translation, at);
	bool is_source = t->flags & WEIR_FW_TRANSLATION_SOURCE;
	__u32 family = p->family & 1, count = t->target_count[family], i;
	__u64 before = 0, total = t->total[family], next;
	__be32 *to = is_source ? key->src : key->dst;
	__u32 target_at = p->ruleset + t->targets_at[family];
	bool is_ipv6 = family == WEIR_FW_INET6;

	if (!count || !total)
		return 0;
	target = weir_at(struct weir_fw_target, target_at);
	if (t->choice == WEIR_FW_CHOICE_BITMASK) {
		weir_pool_address(target, to, is_source ? p->src : p->dst, 0, is_ipv6);
		return 1;
	}
	if (t->choice == WEIR_FW_CHOICE_FIRST) {
		weir_copy_address(to, target->addr);
		return 1;
	}
	turn %= total;
	for (i = weir_fw_bound(0); i + 1 < count && weir_fw_may_loop; i++) {
		if (turn < target->reach)
			break;
		before = target->reach;
		target_at += sizeof(struct weir_fw_target);
		target = weir_at(struct weir_fw_target, target_at);
	}
	next = target->size == 1 ? target->reach : turn + 1;
	turn -= before;
	if (target->size)
		turn %= target->size;
	weir_pool_address(target, to, 0, turn, is_ipv6);
	return next;
}

/* Whether the outer end that a packet's source gets is one for all destinations. */
static __always_inline bool weir_pool_is_mapped(const struct weir_fw_packet *p,
						weir_translation *t)
{
	return t->flags & WEIR_FW_TRANSLATION_MAPPED && p->protocol == WEIR_PROTOCOL_UDP;
}

/* What there is of the source of `key`, as an end inside or outside. */
static __always_inline struct weir_use *weir_use_by_source(const struct weir_fw_packet *key,
							   __u8 kind)
{
	struct weir_use_room *room = weir_use_room();

	if (!room)
		return 0;
	room->inside.rule = 0;
	room->inside.port = key->src_port;
	room->inside.family = key->family & 1;
	room->inside.kind = kind;
	weir_copy_address(room->inside.addr, key->src);
	return bpf_map_lookup_elem(&weir_uses, &room->inside);
}

/* Whether the source of `key` is the outer end of a mapping. */
static __noinline int weir_pool_is_reserved(const struct weir_fw_packet *key __arg_nonnull)
{
	return weir_use_by_source(key, WEIR_USE_OUTSIDE) != 0;
}

/* Gives `key` the outer end that its source has for all destinations, if it has one. */
static __noinline int weir_pool_mapped(struct weir_fw_packet *key __arg_nonnull)
{
	struct weir_use *found = weir_use_by_source(key, WEIR_USE_INSIDE);

	if (!found || found->count == WEIR_USE_ENDED)
		return 0;
	weir_copy_address(key->src, found->addr);
	key->src_port = found->port;
	return 1;
}

/* Puts an address of a rule's pool into `key`: as weir_pool_turned(), or by its states. */
static __always_inline __u64 weir_pool_pick(const struct weir_fw_packet *p,
					    struct weir_fw_packet *key, __u32 at, __u64 turn,
					    __u32 rule)
{
	if (weir_at(struct weir_fw_translation, at)->choice == WEIR_FW_CHOICE_LEAST_STATES)
		return weir_pool_least(p, key, at, rule);
	return weir_pool_turned(p, key, at, turn);
}

static __always_inline bool weir_pool_is_echo(const struct weir_fw_packet *p)
{
	if (p->protocol == WEIR_PROTOCOL_ICMPV6)
		return p->icmp_type == WEIR_ICMPV6_ECHO_REQUEST;
	return p->protocol == WEIR_PROTOCOL_ICMP && p->icmp_type == WEIR_ICMP_ECHO_REQUEST;
}

/* The port of a number: of a range, or of the blocks of a `map-e-portset`, but for block 0. */
static __always_inline __u32 weir_pool_port_of(weir_translation *t, bool is_in_blocks, __u32 low,
					       __u32 number)
{
	__u32 id_shift = t->id_shift & 15;

	if (!is_in_blocks)
		return low + number;
	return ((number >> id_shift) + 1) << (t->block_shift & 15) | low |
	       (number & ((1u << id_shift) - 1));
}

/*
 * Whether nobody has the ends of `key`, and nobody but the packet's source has the outer end if it
 * is to be one for all destinations.
 */
static __always_inline int weir_pool_is_free(const struct weir_fw_packet *p,
					     struct weir_fw_packet *key, bool is_mapped)
{
	return weir_key_is_free(key) && (!is_mapped || !weir_pool_is_reserved(key));
}

/* Whether a translation chooses a packet's source port, or identifier, among several. */
static __always_inline bool weir_pool_chooses(const struct weir_fw_packet *p, weir_translation *t)
{
	const __u32 kept = WEIR_FW_TRANSLATION_KEEP_PORT | WEIR_FW_TRANSLATION_BINAT;

	if (!(t->flags & WEIR_FW_TRANSLATION_SOURCE) || t->flags & kept)
		return false;
	return p->protocol == WEIR_PROTOCOL_TCP || p->protocol == WEIR_PROTOCOL_UDP ||
	       weir_pool_is_echo(p);
}

/*
 * Gives `key`, whose source is there, a source port that nobody has, with so many probes at most;
 * 0: there is none.
 */
__noinline int weir_pool_port(const struct weir_fw_packet *p __arg_nonnull,
			      struct weir_fw_packet *key __arg_nonnull, __u32 at, __u32 max)
{
	weir_translation *t = weir_at(struct weir_fw_translation, at);
	bool is_icmp = weir_is_icmp(p->protocol);
	bool has_ports = p->protocol == WEIR_PROTOCOL_TCP || p->protocol == WEIR_PROTOCOL_UDP;
	__u32 low = t->port[0], count, start, probes, port, i;
	bool is_echo = weir_pool_is_echo(p), is_in_blocks;
	bool is_mapped = weir_pool_is_mapped(p, t);

	key->src_port = p->src_port;
	if (t->flags & WEIR_FW_TRANSLATION_BINAT || (is_icmp && !is_echo))
		return 1;
	if (!is_echo && (!has_ports || t->flags & WEIR_FW_TRANSLATION_KEEP_PORT))
		return weir_pool_is_free(p, key, is_mapped);
	count = t->port_count;
	is_in_blocks = count && !is_echo;
	if (!is_in_blocks)
		count = t->port[1] - low + 1;
	if (is_echo) {
		low = 1;
		count = 65535;
	}
	if ((__s32)count < 1)
		return 0;
	probes = count < max ? count : max;
	start = bpf_get_prandom_u32() % count;
	for (i = weir_fw_bound(0); i < probes && weir_fw_may_loop; i++) {
		port = count <= WEIR_POOL_PROBES_MAX ? (start + i) % count :
						       bpf_get_prandom_u32() % count;
		key->src_port = bpf_htons(weir_pool_port_of(t, is_in_blocks, low, port));
		weir_fw_table_counters(p->cpu)->port_probes++;
		if (weir_pool_is_free(p, key, is_mapped))
			return 1;
	}
	return 0;
}

/*
 * Gives `key` a source address of the pool and a port that nobody has; 0: there are none. As in
 * `pf_get_sport`, a pool that takes turns or draws goes on to its next address.
 */
static __always_inline int weir_pool_source(const struct weir_fw_packet *p,
					    struct weir_fw_packet *key, __u32 at, __u64 turn,
					    __u32 rule)
{
	weir_translation *t = weir_at(struct weir_fw_translation, at);
	bool has_next = t->choice == WEIR_FW_CHOICE_ROUND_ROBIN ||
			t->choice == WEIR_FW_CHOICE_RANDOM;
	__u64 total = t->total[p->family & 1];
	__u32 count = has_next ? WEIR_POOL_ADDRESSES_MAX : 1, probes, i;

	if (count > total)
		count = (__u32)total;
	probes = count ? WEIR_POOL_PROBES_MAX / count : 0;
	for (i = weir_fw_bound(0); i < count && weir_fw_may_loop; i++) {
		turn = weir_pool_pick(p, key, at, turn, rule);
		if (!turn)
			return 0;
		if (weir_pool_port(p, key, at, probes))
			return 1;
	}
	return 0;
}

/* The new destination port: the distance from the first port that is redirected stays. */
static __always_inline __be16 weir_pool_redirected(const struct weir_fw_packet *p,
						   weir_translation *t)
{
	__s32 distance = (__s32)bpf_ntohs(p->dst_port) - t->port_base;
	__u32 count = t->port[1] - t->port[0] + 1, port;

	/* SCTP's checksum covers its ports, and would have to be made anew. */
	if (!t->port[1] || (p->protocol != WEIR_PROTOCOL_TCP && p->protocol != WEIR_PROTOCOL_UDP))
		return p->dst_port;
	if (distance >= 0)
		return bpf_htons(t->port[0] + (__u32)distance % count);
	port = (__u32)-distance % count;
	return bpf_htons(port > t->port[0] ? t->port[0] : t->port[0] - port);
}

#endif /* WEIR_FW_POOL_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a rule with `af-to` makes of the first packet of a flow (`pf_get_transaddr_af` of pf_lb.c;
 * weir_rules::evaluate::translate is the reference), and the alias of the new state: family.h.
 */
#ifndef WEIR_FW_FAMILY_CHOOSE_H
#define WEIR_FW_FAMILY_CHOOSE_H

#include <bpf/bpf_endian.h>
#include <weir/fw/alias.h>
#include <weir/fw/family.h>
#include <weir/fw/pool.h>
#include <weir/fw/sanity.h>

/* The octet of an IPv6 address that no IPv4 address reaches into (RFC 6052, section 2.2). */
#define WEIR_FAMILY_GAP 8
/* So many octets and more stand before the last 32 bits. */
#define WEIR_FAMILY_WHOLE_OCTETS 12

/* Where the octet of an IPv4 address stands in an IPv6 address with a prefix of so many octets. */
static __always_inline __u32 weir_family_octet(__u32 prefix_octets, __u32 i)
{
	__u32 at = prefix_octets + i;

	if (prefix_octets < WEIR_FAMILY_WHOLE_OCTETS && at >= WEIR_FAMILY_GAP)
		at++;
	return at & 15;
}

/* A word of a target, and behind its prefix that of another address. */
static __always_inline __be32 weir_family_rest(struct weir_fw_target __weir_arena *target,
					       __u32 i, __be32 rest)
{
	return (target->addr[i] & target->mask[i]) | (rest & ~target->mask[i]);
}

/* The new destination, of the other family; false if the rule has none. */
static __always_inline bool weir_family_destination(const struct weir_fw_packet *p,
						    struct weir_fw_packet *other, __u32 at)
{
	weir_translation *t = weir_at(struct weir_fw_translation, at);
	__u32 family = p->family & 1, octets = t->prefix_octets, i;
	bool has_target = t->target_count[family];
	struct weir_fw_target __weir_arena *target =
		weir_at(struct weir_fw_target, p->ruleset + t->targets_at[family]);
	const __u8 *from = (const __u8 *)p->dst;
	__u8 *to = (__u8 *)other->dst;

	__builtin_memset(other->dst, 0, sizeof(other->dst));
	if (family == WEIR_FW_INET6 && !has_target) {
		for (i = 0; i < 4; i++)
			to[i] = from[weir_family_octet(octets, i)];
		return true;
	}
	if (!has_target)
		return false;
	if (family == WEIR_FW_INET6) {
		other->dst[0] = weir_family_rest(target, 0, p->dst[3]);
		return true;
	}
	for (i = 0; i < 4; i++)
		other->dst[i] = target->addr[i] & target->mask[i];
	if (octets >= WEIR_FAMILY_WHOLE_OCTETS) {
		other->dst[3] = weir_family_rest(target, 3, p->dst[0]);
		return true;
	}
	for (i = 0; i < 4; i++)
		to[weir_family_octet(octets, i)] = from[i];
	return true;
}

/* Whether a packet without a state can become one of the other family. */
static __always_inline bool weir_family_fits(const struct weir_fw_packet *p)
{
	if (p->flags & WEIR_PACKET_ICMP_ERROR || !weir_family_is_short(p) || weir_fw_is_martian(p))
		return false;
	return p->protocol == WEIR_PROTOCOL_TCP || p->protocol == WEIR_PROTOCOL_UDP ||
	       weir_pool_is_echo(p);
}

/* Describes what the `af-to` at an offset makes of a packet. 0, or the reason of a drop + 1. */
__noinline int weir_family_choose(const struct weir_fw_packet *p __arg_nonnull, __u32 at)
{
	weir_translation *t = weir_at(struct weir_fw_translation, at);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *other, *asked;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	if (scratch->before.is_translated || !weir_family_fits(p))
		return WEIR_DROP(AF_TO);
	other = &scratch->other;
	/* Pools are asked as by a packet of the family that it gets. */
	asked = &scratch->quoted;
	*asked = *p;
	asked->family = !(p->family & 1);
	*other = *asked;
	other->protocol = weir_family_protocol(p->protocol);
	if (!weir_family_destination(p, other, at))
		return WEIR_DROP(MAP_FAILED);
	if (p->protocol == WEIR_PROTOCOL_ICMPV6)
		other->dst_port = bpf_htons(WEIR_ICMP_ECHO_REQUEST);
	if (p->protocol == WEIR_PROTOCOL_ICMP)
		other->dst_port = bpf_htons(WEIR_ICMPV6_ECHO_REQUEST);
	if (!weir_pool_source(asked, other, at, weir_pool_turn(p, t), 0))
		return WEIR_DROP(MAP_FAILED);
	if (weir_fw_is_martian(other))
		return WEIR_DROP(AF_TO);
	scratch->before.changes_family = 1;
	return 0;
}

/* The line of an alias of another family, but for its control word. */
static __always_inline void weir_family_fill(__u32 slot, __u32 addresses,
					     const struct weir_fw_packet *p,
					     const struct weir_fw_packet *other, __u32 rule)
{
	struct weir_state_v6 __weir_arena *v6 = weir_addresses_at(addresses);
	weir_alias_line *a = weir_alias_at(slot);

	a->port[0] = other->src_port;
	a->port[1] = other->dst_port;
	a->rule = rule;
	a->is_counted = 0;
	a->uses = 0;
	a->inside_port = p->src_port;
	a->inside_port_1 = p->dst_port;
	a->inside[2] = 0;
	a->inside[3] = 0;
	a->count[0] = 0;
	a->count[1] = 0;
	v6->control = WEIR_STATE_ADDRESSES;
	v6->owner = slot;
	if (other->family == WEIR_FW_INET6) {
		weir_copy_address(v6->addr[0], other->src);
		weir_copy_address(v6->addr[1], other->dst);
		a->addr[0] = (__u32)other->hash;
		a->addr[1] = addresses;
		a->inside[0] = p->src[0];
		a->inside[1] = p->dst[0];
	} else {
		weir_copy_address(v6->addr[0], p->src);
		weir_copy_address(v6->addr[1], p->dst);
		a->addr[0] = other->src[0];
		a->addr[1] = other->dst[0];
		a->inside[0] = addresses;
		a->inside[1] = 0;
	}
}

/*
 * Makes the alias of what weir_family_choose() has described, for the rule of an id. Returns its
 * slot, or the reason of a drop + 1 as a negative number.
 */
__noinline int weir_family_make_alias(const struct weir_fw_packet *p __arg_nonnull, __u32 rule)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 slot, addresses, control;
	struct weir_fw_packet *other;
	int drop;

	if (!scratch)
		return -WEIR_DROP(INTERNAL);
	other = &scratch->other;
	other->hash = weir_fw_hash(other);
	slot = weir_slot_take();
	if (!slot)
		return -WEIR_DROP(MEMORY);
	addresses = weir_slot_take();
	if (!addresses) {
		weir_slot_give(slot);
		return -WEIR_DROP(MEMORY);
	}
	control = WEIR_STATE_LIVE | WEIR_STATE_ALIAS | WEIR_STATE_HALF_B |
		  WEIR_STATE_OTHER_FAMILY |
		  (other->family == WEIR_FW_INET6 ? WEIR_STATE_IPV6 : 0) |
		  (__u32)other->protocol << WEIR_STATE_PROTOCOL_SHIFT;
	weir_family_fill(slot, addresses, p, other, rule);
	drop = weir_alias_hang(slot, control, other);
	if (drop) {
		weir_slot_give(addresses);
		weir_slot_give(slot);
		return -drop;
	}
	__sync_fetch_and_add(&weir_fw_control()->alias_count, 1);
	weir_fw_table_counters(p->cpu)->translations++;
	return slot;
}

#endif /* WEIR_FW_FAMILY_CHOOSE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `af-to`: flows whose two sides are of different families.
 *
 * There is one record, of the side that began the flow. Both of its halves are made at once, where
 * the first packet came in: nobody is asked about a packet where it leaves, as in pf. The other
 * side stands in an alias of half B (alias.h) with WEIR_STATE_OTHER_FAMILY: its packets come in by
 * that. Other aliases differ from their record at one end; this one has nothing in common with it,
 * and therefore both of the record's ends besides. Two slots have room for that: what is IPv6 of
 * the two, the alias's ends or the record's, stands in one of its own.
 *
 * A packet stays what it is in its descriptor and in its frame until it is judged. What it becomes
 * is described beside that (weir_fw_scratch.other), as soon as its state is found or made, and the
 * frame is changed last (family_frame.h). Such a record never has a next hop, so that the quick way
 * leaves its packets alone.
 */
#ifndef WEIR_FW_FAMILY_H
#define WEIR_FW_FAMILY_H

#include <weir/fw/hash.h>
#include <weir/fw/headers.h>
#include <weir/fw/scratch.h>
#include <weir/fw/table.h>

/* Whether there may be such flows at all. */
static __always_inline bool weir_fw_changes_families(void)
{
	return weir_fw_control()->flags & WEIR_FW_CONTROL_FAMILIES;
}

/* Whether a packet is whole, and its header as short as it may be: no other one changes family. */
static __always_inline bool weir_family_is_short(const struct weir_fw_packet *p)
{
	const __u32 more = WEIR_PACKET_FRAGMENT | WEIR_PACKET_OPTIONS | WEIR_PACKET_SAW_FRAGMENT |
			   WEIR_PACKET_SAW_ROUTING;

	return !(p->flags & more) &&
	       p->l4_at - p->l3_at == (p->family == WEIR_FW_INET ? sizeof(struct weir_ipv4) :
								   sizeof(struct weir_ipv6));
}

/*
 * Whether a packet that has come in changes its family. What follows its first fragment goes where
 * that has gone, as it is: none has changed.
 */
static __always_inline bool weir_family_changes(const struct weir_fw_packet *p,
						const struct weir_fw_hit *hit)
{
	return hit->flags & WEIR_HIT_FAMILY && !(p->flags & WEIR_PACKET_FOLLOWS);
}

/* The protocol that a packet has in the other family. */
static __always_inline __u8 weir_family_protocol(__u8 protocol)
{
	if (protocol == WEIR_PROTOCOL_ICMP)
		return WEIR_PROTOCOL_ICMPV6;
	return protocol == WEIR_PROTOCOL_ICMPV6 ? WEIR_PROTOCOL_ICMP : protocol;
}

/* The addresses of both ends of one side: IPv4's, or those in the slot of IPv6's. */
static __always_inline void weir_family_ends(__be32 *end_0, __be32 *end_1, bool is_ipv6,
					     __u32 slot, __be32 first, __be32 second)
{
	struct weir_state_v6 __weir_arena *v6 = weir_addresses_at(slot);

	if (is_ipv6) {
		weir_copy_address(end_0, v6->addr[0]);
		weir_copy_address(end_1, v6->addr[1]);
		return;
	}
	end_0[0] = first;
	end_1[0] = second;
	end_0[1] = end_0[2] = end_0[3] = 0;
	end_1[1] = end_1[2] = end_1[3] = 0;
}

/* The ends in the other family of a packet from end 0: those of the alias in a slot. */
static __always_inline int weir_family_report(__u32 slot, struct weir_fw_hit *hit)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	weir_alias_line *a = weir_alias_at(slot);
	struct weir_fw_packet *other;

	if (!scratch)
		return 0;
	other = &scratch->other;
	other->protocol = a->control >> WEIR_STATE_PROTOCOL_SHIFT;
	other->src_port = a->port[0];
	other->dst_port = a->port[1];
	other->family = a->control & WEIR_STATE_IPV6 ? WEIR_FW_INET6 : WEIR_FW_INET;
	weir_family_ends(other->src, other->dst, other->family == WEIR_FW_INET6, a->addr[1],
			 a->addr[0], a->addr[1]);
	hit->flags |= WEIR_HIT_FAMILY;
	/* It leaves as another packet; as it is nobody has let it out. */
	hit->covered[WEIR_FW_OUT] = 0;
	return 0;
}

/*
 * The same of a packet from end 1, which came by the alias in a slot: the ends of its record, and
 * their hash. The slot may be another one's by now: who has found the record by them looks again.
 */
__noinline int weir_family_inside(struct weir_fw_packet *other __arg_nonnull,
				  const struct weir_fw_packet *p __arg_nonnull, __u32 slot)
{
	weir_alias_line *a = weir_alias_at(slot);

	*other = *p;
	other->family = !(p->family & 1);
	other->protocol = weir_family_protocol(p->protocol);
	other->src_port = a->inside_port_1;
	other->dst_port = a->inside_port;
	weir_family_ends(other->dst, other->src, other->family == WEIR_FW_INET6, a->inside[0],
			 a->inside[0], a->inside[1]);
	other->hash = weir_fw_hash(other);
	return 0;
}

/* Whether an alias has the ends of a packet, which comes from end 1, or from end 0. */
__noinline int weir_family_leads(__u32 slot, const struct weir_fw_packet *p __arg_nonnull,
				 __u32 match)
{
	weir_line *line = weir_state_line(slot);
	__u32 control = weir_read_once(line->control);

	return weir_is_other_family(control) &&
	       weir_state_match(line, weir_match_control(control, true), p) == match;
}

#endif /* WEIR_FW_FAMILY_H */

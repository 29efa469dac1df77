/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Typed tables (weir-fw's engine/typed.rs): entries by address or by flow, and what they say of a
 * packet. Values of entries that rules use stand in the image, as numbers of tags and gateways.
 */
#ifndef WEIR_FW_TYPED_H
#define WEIR_FW_TYPED_H

#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/prefix.h>

/* One address of IPv6 of a packet as two numbers. */
static __always_inline void weir_fw_flow_halves(const __be32 *address, __u64 *first, __u64 *second)
{
	*first = (__u64)bpf_ntohl(address[0]) << 32 | bpf_ntohl(address[1]);
	*second = (__u64)bpf_ntohl(address[2]) << 32 | bpf_ntohl(address[3]);
}

/* Ports and protocol as the lower half of a flow's key has them. */
static __always_inline __u64 weir_fw_flow_lower(const struct weir_fw_packet *p, __u32 parts)
{
	bool has_ports = p->protocol == WEIR_PROTOCOL_TCP || p->protocol == WEIR_PROTOCOL_UDP ||
			 p->protocol == WEIR_PROTOCOL_SCTP;
	__u64 lower = 0;

	if (has_ports && parts & WEIR_FW_FLOW_SRC_PORT)
		lower |= (__u64)bpf_ntohs(p->src_port) << 48;
	if (has_ports && parts & WEIR_FW_FLOW_DST_PORT)
		lower |= (__u64)bpf_ntohs(p->dst_port) << 32;
	if (parts & WEIR_FW_FLOW_PROTO)
		lower |= (__u64)p->protocol << 24;
	return lower;
}

/*
 * What is in the last word of a packet's flow, in the set at an offset; 0: it is not there. Of
 * IPv6 first the numbers of both addresses are looked for, by the same loop as the flow.
 */
__noinline __u32 weir_fw_flow_found(const struct weir_fw_packet *p, __u32 set_at)
{
	struct weir_fw_prefix_set __weir_arena *set = weir_at(struct weir_fw_prefix_set, set_at);
	__u32 bits = WEIR_FW_PREFIX_FLOW6, meta = 0, step, parts;
	__u64 first, second, upper = 0;

	if (!p || !set_at)
		return 0;
	parts = set->flow;
	if (p->flags & WEIR_PACKET_LATER_FRAGMENT &&
	    parts & (WEIR_FW_FLOW_SRC_PORT | WEIR_FW_FLOW_DST_PORT))
		return 0;
	if (p->family == WEIR_FW_INET || !(parts & (WEIR_FW_FLOW_SRC_IP | WEIR_FW_FLOW_DST_IP))) {
		bits = 128;
		if (parts & WEIR_FW_FLOW_SRC_IP)
			upper |= (__u64)bpf_ntohl(p->src[0]) << 32;
		if (parts & WEIR_FW_FLOW_DST_IP)
			upper |= bpf_ntohl(p->dst[0]);
	}
	for (step = bits == 128 ? 2 : 0; step < 3 && weir_fw_may_loop; step++) {
		__u32 code = WEIR_FW_PREFIX_FLOW6_ADDRESS;

		if (step == 2) {
			code = bits;
			first = upper;
			second = weir_fw_flow_lower(p, parts);
		} else if (!(parts & (step ? WEIR_FW_FLOW_DST_IP : WEIR_FW_FLOW_SRC_IP))) {
			continue;
		} else if (step) {
			weir_fw_flow_halves(p->dst, &first, &second);
		} else {
			weir_fw_flow_halves(p->src, &first, &second);
		}
		meta = weir_fw_prefix_probe6(set, set_at, first, second, code);
		if (!meta)
			return 0;
		if (step < 2)
			upper |= (__u64)(meta >> WEIR_FW_PREFIX_VALUE_SHIFT &
					 WEIR_FW_PREFIX_VALUE_MASK)
				 << (step ? 0 : 32);
	}
	return meta;
}

/* Whether a set that is there has flows as keys. */
static __always_inline bool weir_fw_has_flows(__u32 set_at)
{
	return set_at && weir_at(struct weir_fw_prefix_set, set_at)->flow;
}

/* What is in the last word of the entry of a set that an end of a packet, or its flow, is in. */
static __always_inline __u32 weir_fw_set_found(const struct weir_fw_packet *p, __u32 set_at,
					       __u32 end)
{
	return weir_fw_has_flows(set_at) ? weir_fw_flow_found(p, set_at) :
					   weir_fw_prefix_found(p, set_at, end);
}

/*
 * What the entry that covers a packet has, in a typed table that rules use: the number of a tag,
 * and that of a gateway from WEIR_FW_TYPED_GATEWAY_SHIFT on; each 0 if there is none.
 */
__noinline __u32 weir_fw_typed_value(const struct weir_fw_packet *p, __u32 index, __u32 end)
{
	struct weir_fw_image __weir_arena *image;
	__u32 set_at, at, found;

	if (!p)
		return 0;
	image = weir_fw_image_of(p);
	if (!(image->flags & WEIR_FW_IMAGE_TYPED) || index >= image->table_count)
		return 0;
	at = *weir_at(__u32, p->ruleset + image->typed_at + index * (__u32)sizeof(__u32));
	set_at = *weir_at(__u32, p->ruleset + image->tables_at + index * (__u32)sizeof(__u32));
	if (!at)
		return 0;
	found = weir_fw_set_found(p, set_at, end & 1);
	if (!found)
		return 0;
	found = found >> WEIR_FW_PREFIX_VALUE_SHIFT & WEIR_FW_PREFIX_VALUE_MASK;
	/* In front stands how many there are. */
	at += p->ruleset;
	if (found >= *weir_at(__u32, at))
		return 0;
	return *weir_at(__u32, at + (found + 1) * (__u32)sizeof(__u32));
}

#endif /* WEIR_FW_TYPED_H */

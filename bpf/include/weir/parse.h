/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the IP header of a frame with up to two VLAN tags, and what is behind it.
 *
 * IPv6 extension headers are not stepped over: a packet with any has that header as its message.
 * Where the driver takes VLAN tags out of the frame, it is an untagged one here.
 */
#ifndef WEIR_PARSE_H
#define WEIR_PARSE_H

#include <bpf/bpf_endian.h>
#include <weir/headers.h>
#include <weir/vmlinux.h>

struct weir_packet {
	void *ip;
	void *message;		/* behind the IP header; whether the frame has it must be checked */
	__u8 protocol;		/* the IP header's */
	bool is_ipv6;
	bool is_fragment;	/* the first one of a packet, too */
};

static __always_inline bool weir_parse_ipv4(struct weir_packet *packet, void *data_end)
{
	void *ip = packet->ip;
	__u64 ip_bytes;

	if (ip + WEIR_IPV4_BYTES_MIN > data_end || *(__u8 *)ip >> 4 != 4)
		return false;
	ip_bytes = (*(__u8 *)ip & 0xf) * 4;
	if (ip_bytes < WEIR_IPV4_BYTES_MIN)
		return false;
	packet->protocol = *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET);
	packet->is_fragment = *(__be16 *)(ip + WEIR_IPV4_FRAGMENT_OFFSET) &
			      bpf_htons(WEIR_IPV4_FRAGMENT_MASK);
	packet->message = ip + ip_bytes;
	packet->is_ipv6 = false;
	return true;
}

static __always_inline bool weir_parse_ipv6(struct weir_packet *packet, void *data_end)
{
	void *ip = packet->ip;

	if (ip + WEIR_IPV6_BYTES > data_end || *(__u8 *)ip >> 4 != 6)
		return false;
	packet->protocol = *(__u8 *)(ip + WEIR_IPV6_NEXT_HEADER_OFFSET);
	packet->is_fragment = false;
	packet->message = ip + WEIR_IPV6_BYTES;
	packet->is_ipv6 = true;
	return true;
}

/* False if the frame carries no IP packet, or not all of its IP header. */
static __always_inline bool weir_parse(struct weir_packet *packet, void *data, void *data_end)
{
	void *at = data + WEIR_ETH_BYTES;
	__be16 type;
	__u32 i;

	if (at > data_end)
		return false;
	type = *(__be16 *)(data + WEIR_ETH_TYPE_OFFSET);
	for (i = 0; i < WEIR_VLAN_COUNT_MAX; i++) {
		if (type != bpf_htons(WEIR_ETH_TYPE_8021Q) &&
		    type != bpf_htons(WEIR_ETH_TYPE_8021AD))
			break;
		if (at + WEIR_VLAN_BYTES > data_end)
			return false;
		type = *(__be16 *)(at + WEIR_VLAN_TYPE_OFFSET);
		at += WEIR_VLAN_BYTES;
	}
	packet->ip = at;
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV4))
		return weir_parse_ipv4(packet, data_end);
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV6))
		return weir_parse_ipv6(packet, data_end);
	return false;
}

/* Whether the message is an ICMP one for the IP version that carries it. */
static __always_inline bool weir_is_icmp(const struct weir_packet *packet)
{
	return packet->protocol == (packet->is_ipv6 ? WEIR_PROTOCOL_ICMPV6 : WEIR_PROTOCOL_ICMP);
}

#endif /* WEIR_PARSE_H */

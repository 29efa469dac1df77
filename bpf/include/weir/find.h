/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds weir's signature in a frame: behind UDP, TCP and ICMP echo over IPv4 and IPv6, with up to
 * two VLAN tags, or in one of the tunnels that weir's streams travel in (PPPoE, GRE, VXLAN).
 */
#ifndef WEIR_FIND_H
#define WEIR_FIND_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/parse.h>
#include <weir/signature.h>
#include <weir/vmlinux.h>

/* Where the signature begins behind an IP header; 0 if it has none. */
static __always_inline void *weir_signed_packet(const struct weir_packet *packet, void *data_end)
{
	void *payload, *message = packet->message;
	__u64 tcp_bytes;
	__u8 type;

	if (packet->is_fragment || message + WEIR_UDP_BYTES > data_end)
		return 0;
	if (packet->protocol == WEIR_PROTOCOL_UDP) {
		payload = message + WEIR_UDP_BYTES;
	} else if (packet->protocol == WEIR_PROTOCOL_TCP) {
		if (message + WEIR_TCP_BYTES_MIN > data_end)
			return 0;
		tcp_bytes = (*(__u8 *)(message + WEIR_TCP_DATA_OFFSET) >> 4) * 4;
		if (tcp_bytes < WEIR_TCP_BYTES_MIN)
			return 0;
		payload = message + tcp_bytes;
	} else if (weir_is_icmp(packet)) {
		type = *(__u8 *)message;
		if (packet->is_ipv6 ? type != WEIR_ICMPV6_ECHO_REQUEST &&
					     type != WEIR_ICMPV6_ECHO_REPLY :
				     type != WEIR_ICMP_ECHO_REQUEST &&
					     type != WEIR_ICMP_ECHO_REPLY)
			return 0;
		payload = message + WEIR_ICMP_BYTES;
	} else {
		return 0;
	}
	if (payload + WEIR_SIGNATURE_BYTES > data_end)
		return 0;
	return *(__be32 *)payload == bpf_htonl(WEIR_SIGNATURE_MAGIC) ? payload : 0;
}

/* The type of what is in a PPPoE session, and where it begins; 0 if there is none. */
static __always_inline __be16 weir_find_session(struct weir_packet *packet, void *data,
						void *data_end)
{
	void *session = data + WEIR_ETH_BYTES;
	__be16 protocol;

	if (session + WEIR_PPPOE_BYTES > data_end ||
	    *(__be16 *)(data + WEIR_ETH_TYPE_OFFSET) != bpf_htons(WEIR_ETH_TYPE_PPPOE))
		return 0;
	protocol = *(__be16 *)(session + WEIR_PPPOE_PROTOCOL_OFFSET);
	packet->ip = session + WEIR_PPPOE_BYTES;
	return protocol == bpf_htons(WEIR_PPP_IPV4) ? bpf_htons(WEIR_ETH_TYPE_IPV4) :
	       protocol == bpf_htons(WEIR_PPP_IPV6) ? bpf_htons(WEIR_ETH_TYPE_IPV6) :
						      0;
}

/* The same of what a packet carries in GRE without options, or in VXLAN. */
static __always_inline __be16 weir_find_carried(struct weir_packet *packet, void *data_end)
{
	void *message = packet->message;

	if (packet->is_fragment)
		return 0;
	if (packet->protocol == WEIR_PROTOCOL_GRE) {
		packet->ip = message + WEIR_GRE_BYTES;
		if (packet->ip > data_end || *(__be16 *)message)
			return 0;
		return *(__be16 *)(message + 2);
	}
	if (packet->protocol != WEIR_PROTOCOL_UDP)
		return 0;
	packet->ip = message + WEIR_UDP_BYTES + WEIR_VXLAN_BYTES + WEIR_ETH_BYTES;
	if (packet->ip > data_end || *(__be16 *)(message + 2) != bpf_htons(WEIR_VXLAN_PORT))
		return 0;
	return *(__be16 *)(packet->ip - 2);
}

/* As weir_signed_payload(), for everything but what that one expects first. */
static __noinline void *weir_signed_message(void *data, void *data_end)
{
	struct weir_packet packet;
	__be16 type;

	if (weir_parse(&packet, data, data_end)) {
		/* What is no tunnel stays as it is. */
		type = weir_find_carried(&packet, data_end);
	} else {
		type = weir_find_session(&packet, data, data_end);
		if (!type)
			return 0;
		/* Nothing, until it is read. */
		packet.message = data;
		packet.protocol = 0;
		packet.is_ipv6 = false;
		packet.is_fragment = true;
	}
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV4))
		weir_parse_ipv4(&packet, data_end);
	else if (type == bpf_htons(WEIR_ETH_TYPE_IPV6))
		weir_parse_ipv6(&packet, data_end);
	return weir_signed_packet(&packet, data_end);
}

/*
 * Where weir's signature begins, all of it in the frame; 0 if it has none. An untagged UDP/IPv4
 * datagram without options, which is what most streams consist of, is recognised at once.
 */
static __always_inline void *weir_signed_payload(void *data, void *data_end)
{
	void *ip = data + WEIR_ETH_BYTES;
	void *payload = ip + WEIR_IPV4_BYTES_MIN + WEIR_UDP_BYTES;

	if (payload + WEIR_SIGNATURE_BYTES > data_end ||
	    *(__be16 *)(data + WEIR_ETH_TYPE_OFFSET) != bpf_htons(WEIR_ETH_TYPE_IPV4) ||
	    *(__u8 *)ip != WEIR_IPV4_NO_OPTIONS ||
	    *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET) != WEIR_PROTOCOL_UDP)
		return weir_signed_message(data, data_end);
	if (*(__be16 *)(ip + WEIR_IPV4_FRAGMENT_OFFSET) & bpf_htons(WEIR_IPV4_FRAGMENT_MASK))
		return 0;
	if (*(__be32 *)payload == bpf_htonl(WEIR_SIGNATURE_MAGIC))
		return payload;
	return weir_signed_message(data, data_end);
}

#endif /* WEIR_FIND_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds weir's signature in a frame: behind UDP, TCP and ICMP echo over IPv4 and IPv6, with up to
 * two VLAN tags.
 */
#ifndef WEIR_FIND_H
#define WEIR_FIND_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/parse.h>
#include <weir/signature.h>
#include <weir/vmlinux.h>

/* As weir_signed_payload(), for everything but what that one expects first. */
static __noinline void *weir_signed_message(void *data, void *data_end)
{
	struct weir_packet packet;
	void *payload, *message;
	__u64 tcp_bytes;
	__u8 type;

	if (!weir_parse(&packet, data, data_end) || packet.is_fragment)
		return 0;
	message = packet.message;
	if (message + WEIR_UDP_BYTES > data_end)
		return 0;
	if (packet.protocol == WEIR_PROTOCOL_UDP) {
		payload = message + WEIR_UDP_BYTES;
	} else if (packet.protocol == WEIR_PROTOCOL_TCP) {
		if (message + WEIR_TCP_BYTES_MIN > data_end)
			return 0;
		tcp_bytes = (*(__u8 *)(message + WEIR_TCP_DATA_OFFSET) >> 4) * 4;
		if (tcp_bytes < WEIR_TCP_BYTES_MIN)
			return 0;
		payload = message + tcp_bytes;
	} else if (weir_is_icmp(&packet)) {
		type = *(__u8 *)message;
		if (packet.is_ipv6 ? type != WEIR_ICMPV6_ECHO_REQUEST &&
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
	return *(__be32 *)payload == bpf_htonl(WEIR_SIGNATURE_MAGIC) ? payload : 0;
}

#endif /* WEIR_FIND_H */

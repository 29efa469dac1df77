// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_reflect: sends IP packets back to where they came from, with MAC addresses, IP addresses and
 * UDP or TCP ports exchanged, under the same VLAN tags (two at most). All else of the packet stays
 * as it is, the checksums included: those are sums, which do not change when two of their terms
 * change places. An ICMP or ICMPv6 echo request becomes the reply to it, and its checksum is
 * corrected by the difference (RFC 1624); an echo reply is returned as it is.
 *
 * What goes up the stack instead: what is not IPv4 or IPv6, other ICMP and ICMPv6 messages (so that
 * ARP and neighbour discovery keep working, and errors are not answered), group and broadcast
 * frames (a group cannot be a source), and headers that are cut or malformed. Fragments other than
 * the first have no ports; neither they nor the first one's message are changed. What is behind
 * IPv6 extension headers is not looked for.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/exchange.h>
#include <weir/headers.h>
#include <weir/parse.h>
#include <weir/reflect.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_reflect_counters);
} weir_counters SEC(".maps");

/* Makes a reply of an echo request; a reply stays. False if it is neither, or is cut. */
static __always_inline bool weir_answer_echo(void *icmp, void *data_end, bool is_ipv6)
{
	__u8 request = is_ipv6 ? WEIR_ICMPV6_ECHO_REQUEST : WEIR_ICMP_ECHO_REQUEST;
	__u8 reply = is_ipv6 ? WEIR_ICMPV6_ECHO_REPLY : WEIR_ICMP_ECHO_REPLY;
	__u16 *checksum = icmp + WEIR_ICMP_CHECKSUM_OFFSET;
	__u16 before, after;
	__u32 sum;

	if (icmp + WEIR_ICMP_BYTES > data_end)
		return false;
	if (*(__u8 *)icmp == reply)
		return true;
	if (*(__u8 *)icmp != request)
		return false;
	before = *(__u16 *)icmp;
	*(__u8 *)icmp = reply;
	after = *(__u16 *)icmp;
	sum = (__u16)~*checksum + (__u16)~before + after;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*checksum = ~sum;
	return true;
}

static __always_inline bool weir_reflect_packet(const struct weir_packet *packet, void *data_end)
{
	void *ip = packet->ip;

	if (packet->is_fragment) {
		/* Only addresses. */
	} else if (packet->protocol == WEIR_PROTOCOL_UDP ||
		   packet->protocol == WEIR_PROTOCOL_TCP) {
		if (!weir_swap_ports(packet->message, data_end))
			return false;
	} else if (weir_is_icmp(packet)) {
		if (!weir_answer_echo(packet->message, data_end, packet->is_ipv6))
			return false;
	}
	if (packet->is_ipv6) {
		if (ip + WEIR_IPV6_BYTES > data_end)
			return false;
		weir_swap(ip + WEIR_IPV6_SRC_OFFSET, ip + WEIR_IPV6_DST_OFFSET, 4);
	} else {
		if (ip + WEIR_IPV4_BYTES_MIN > data_end)
			return false;
		weir_swap(ip + WEIR_IPV4_SRC_OFFSET, ip + WEIR_IPV4_DST_OFFSET, 1);
	}
	return true;
}

SEC("xdp")
int weir_reflect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct weir_reflect_counters *counters;
	struct weir_packet packet;
	__u32 zero = 0;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	if (data + WEIR_ETH_BYTES > data_end || *(__u8 *)data & WEIR_ETH_GROUP_BIT ||
	    !weir_parse(&packet, data, data_end) || !weir_reflect_packet(&packet, data_end)) {
		counters->passed_packets++;
		return XDP_PASS;
	}
	weir_swap_mac(data);
	counters->reflected_packets++;
	counters->reflected_bytes += data_end - data;
	return XDP_TX;
}

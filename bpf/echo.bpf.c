// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The UDP datagrams to one address and port, where they come in: each is counted with its bucket,
 * and as misplaced if it is on another queue than the table has for the bucket. weir_echo_count
 * then lets them go on to the stack, weir_echo_xsk hands them to the AF_XDP socket of their queue,
 * and weir_echo_reflect sends them back with addresses and ports exchanged, but for those from the
 * same port, which another such server may have sent. All else goes up the stack: fragments, what
 * is behind IPv6 extension headers, and for the latter two what is to a group's MAC address.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/exchange.h>
#include <weir/headers.h>
#include <weir/parse.h>
#include <weir/rss.h>
#include <weir/toeplitz.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rss);
} weir_echo_set SEC(".maps");

/* As many as the table has entries. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rss_bucket);
} weir_echo_buckets SEC(".maps");

/* As many as there are queues. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_echo_sockets SEC(".maps");

/* Ethernet, two VLAN tags, the longest IPv4 header, UDP's. */
#define WEIR_ECHO_HEADERS_BYTES                                                                    \
	(WEIR_ETH_BYTES + WEIR_VLAN_COUNT_MAX * WEIR_VLAN_BYTES + 60 + WEIR_UDP_BYTES)

/* Whether the packet's destination is an address that is listened at. */
static __always_inline bool weir_echo_is_address(const struct weir_rss *rss,
						 const struct weir_packet *packet, void *data_end)
{
	const __u32 *listened = (const __u32 *)rss->address, *to;
	void *ip = packet->ip;

	if (packet->is_ipv6) {
		if (ip + WEIR_IPV6_BYTES > data_end)
			return false;
		to = ip + WEIR_IPV6_DST_OFFSET;
		return !rss->address_bytes ||
		       (rss->address_bytes == 16 && to[0] == listened[0] &&
			to[1] == listened[1] && to[2] == listened[2] && to[3] == listened[3]);
	}
	if (ip + WEIR_IPV4_BYTES_MIN > data_end)
		return false;
	to = ip + WEIR_IPV4_DST_OFFSET;
	return !rss->address_bytes ||
	       (rss->address_bytes == 4 && (!listened[0] || to[0] == listened[0]));
}

/* To a MAC address of one station: what is forwarded by flooding is nobody's to take. */
static __always_inline bool weir_echo_is_unicast(void *data, void *data_end)
{
	return data + WEIR_ETH_BYTES <= data_end && !(*(__u8 *)data & WEIR_ETH_GROUP_BIT);
}

/* Whether it is a whole UDP datagram to the address and port. */
static __always_inline bool weir_echo_is_asked(const struct weir_rss *rss,
					       struct weir_packet *packet, void *data,
					       void *data_end)
{
	void *udp;

	if (!weir_parse(packet, data, data_end) || packet->is_fragment ||
	    packet->protocol != WEIR_PROTOCOL_UDP)
		return false;
	udp = packet->message;
	return udp + WEIR_UDP_BYTES <= data_end && *(__be16 *)(udp + 2) == (__be16)rss->port &&
	       weir_echo_is_address(rss, packet, data_end);
}

/* Notes datagrams of one flow, which GRO may have put together. */
static __always_inline void weir_echo_note(const struct weir_rss *rss, void *data, void *data_end,
					   __u32 queue, __u32 packets, bool is_refused)
{
	struct weir_rss_bucket *counts;
	__u32 hash = 0, bucket = 0, key, expected;

	if (!weir_rss_hash(rss, data, data_end, &hash) ||
	    !weir_rss_bucket_of(rss, hash, &bucket))
		return;
	/* Before the look-up, behind which the verifier does not know the bucket any more. */
	expected = rss->queue[bucket];
	key = bucket;
	counts = bpf_map_lookup_elem(&weir_echo_buckets, &key);
	if (!counts)
		return;
	counts->packets += packets;
	if (queue != expected)
		counts->misplaced_packets += packets;
	if (is_refused)
		counts->refused_packets += packets;
}

SEC("tcx/ingress")
int weir_echo_count(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_echo_set, &zero);
	struct weir_packet packet;
	void *data, *data_end;

	if ((void *)(long)skb->data + WEIR_ECHO_HEADERS_BYTES > (void *)(long)skb->data_end)
		bpf_skb_pull_data(skb, skb->len < WEIR_ECHO_HEADERS_BYTES ?
					       skb->len :
					       WEIR_ECHO_HEADERS_BYTES);
	data = (void *)(long)skb->data;
	data_end = (void *)(long)skb->data_end;
	if (rss && weir_echo_is_asked(rss, &packet, data, data_end))
		weir_echo_note(rss, data, data_end,
			       skb->queue_mapping - (__u32)rss->queue_offset, skb->gso_segs ?: 1,
			       false);
	return TCX_NEXT;
}

SEC("xdp")
int weir_echo_xsk(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_echo_set, &zero);
	struct weir_packet packet;

	if (!rss || !weir_echo_is_unicast(data, data_end) ||
	    !weir_echo_is_asked(rss, &packet, data, data_end))
		return XDP_PASS;
	weir_echo_note(rss, data, data_end, ctx->rx_queue_index, 1, false);
	/* A queue without a socket is the stack's. */
	return bpf_redirect_map(&weir_echo_sockets, ctx->rx_queue_index, XDP_PASS);
}

SEC("xdp")
int weir_echo_reflect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_echo_set, &zero);
	struct weir_packet packet;
	bool is_refused;
	void *ip, *udp;

	if (!rss || !weir_echo_is_unicast(data, data_end) ||
	    !weir_echo_is_asked(rss, &packet, data, data_end))
		return XDP_PASS;
	ip = packet.ip;
	if (packet.is_ipv6 && ip + WEIR_IPV6_BYTES > data_end)
		return XDP_PASS;
	if (!packet.is_ipv6 && ip + WEIR_IPV4_BYTES_MIN > data_end)
		return XDP_PASS;
	udp = packet.message;
	if (udp + WEIR_UDP_BYTES > data_end)
		return XDP_PASS;
	is_refused = *(__be16 *)udp == (__be16)rss->port;
	weir_echo_note(rss, data, data_end, ctx->rx_queue_index, 1, is_refused);
	if (is_refused)
		return XDP_DROP;
	if (!weir_swap_ports(packet.message, data_end))
		return XDP_PASS;
	if (packet.is_ipv6)
		weir_swap(ip + WEIR_IPV6_SRC_OFFSET, ip + WEIR_IPV6_DST_OFFSET, 4);
	else
		weir_swap(ip + WEIR_IPV4_SRC_OFFSET, ip + WEIR_IPV4_DST_OFFSET, 1);
	if (data + WEIR_ETH_BYTES > data_end)
		return XDP_PASS;
	weir_swap_mac(data);
	return XDP_TX;
}

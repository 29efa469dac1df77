// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The UDP datagrams to one port, where they come in: each is counted with its bucket, and as
 * misplaced if it is on another queue than the table has for the bucket. weir_echo_count then lets
 * them go on to the stack, weir_echo_xsk hands them to the AF_XDP socket of their queue, and
 * weir_echo_reflect sends them back with addresses and ports exchanged. All else goes up the stack.
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

/* Whether it is a whole UDP datagram to the port. */
static __always_inline bool weir_echo_is_asked(const struct weir_rss *rss,
					       struct weir_packet *packet, void *data,
					       void *data_end)
{
	void *udp;

	if (!weir_parse(packet, data, data_end) || packet->is_fragment ||
	    packet->protocol != WEIR_PROTOCOL_UDP)
		return false;
	udp = packet->message;
	return udp + WEIR_UDP_BYTES <= data_end && *(__be16 *)(udp + 2) == (__be16)rss->port;
}

static __always_inline void weir_echo_note(const struct weir_rss *rss, void *data, void *data_end,
					   __u32 queue)
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
	counts->packets++;
	if (queue != expected)
		counts->misplaced_packets++;
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
			       skb->queue_mapping - (__u32)rss->queue_offset);
	return TCX_NEXT;
}

SEC("xdp")
int weir_echo_xsk(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_echo_set, &zero);
	struct weir_packet packet;

	if (!rss || !weir_echo_is_asked(rss, &packet, data, data_end))
		return XDP_PASS;
	weir_echo_note(rss, data, data_end, ctx->rx_queue_index);
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
	void *ip;

	if (!rss || !weir_echo_is_asked(rss, &packet, data, data_end))
		return XDP_PASS;
	ip = packet.ip;
	if (packet.is_ipv6 && ip + WEIR_IPV6_BYTES > data_end)
		return XDP_PASS;
	if (!packet.is_ipv6 && ip + WEIR_IPV4_BYTES_MIN > data_end)
		return XDP_PASS;
	weir_echo_note(rss, data, data_end, ctx->rx_queue_index);
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

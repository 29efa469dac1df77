// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_sink: counts the packets that carry weir's signature and ends their way; all others are
 * counted as foreign and go up the stack, so that ARP, neighbour discovery and ping keep working.
 *
 * Only the signature decides: a router in between may have changed MAC addresses, TTL, addresses
 * and ports, or added IP options. Fragments are foreign, for only the first one has the signature.
 *
 * In its full mode (weir/observe.h) it also follows each sender's sequence numbers, marks flows,
 * and measures latency. The mode is set before the program is loaded, and is a constant to the
 * verifier, which removes the code that it rules out: bare counting pays nothing for it.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/observe.h>
#include <weir/signature.h>
#include <weir/sink.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_sink_counters);
} weir_counters SEC(".maps");

/* WEIR_SINK_*; in a section of its own, so that it is found at offset 0 of it. */
const volatile __u64 weir_sink_mode SEC(".rodata.mode") = 0;

/* Where weir's signature begins if the frame is a whole UDP/IPv4 datagram with one. */
static __always_inline void *weir_signed_payload(void *data, void *data_end)
{
	void *ip = data + WEIR_ETH_BYTES;
	__u64 ip_bytes;
	void *payload;

	if (ip + WEIR_IPV4_BYTES_MIN > data_end)
		return 0;
	if (*(__be16 *)(data + WEIR_ETH_TYPE_OFFSET) != bpf_htons(WEIR_ETH_TYPE_IPV4))
		return 0;
	if (*(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET) != WEIR_IPV4_PROTOCOL_UDP)
		return 0;
	if (*(__be16 *)(ip + WEIR_IPV4_FRAGMENT_OFFSET) & bpf_htons(WEIR_IPV4_FRAGMENT_MASK))
		return 0;
	if (*(__u8 *)ip >> 4 != 4)
		return 0;
	ip_bytes = (*(__u8 *)ip & 0xf) * 4;
	if (ip_bytes < WEIR_IPV4_BYTES_MIN)
		return 0;
	payload = ip + ip_bytes + WEIR_UDP_BYTES;
	if (payload + WEIR_SIGNATURE_BYTES > data_end)
		return 0;
	return *(__be32 *)payload == bpf_htonl(WEIR_SIGNATURE_MAGIC) ? payload : 0;
}

SEC("xdp")
int weir_sink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 queue = ctx->rx_queue_index;
	struct weir_sink_counters *counters;
	struct weir_sink_queue *counts;
	__u32 zero = 0;
	void *payload;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	if (queue >= WEIR_SINK_QUEUE_COUNT)
		queue = WEIR_SINK_QUEUE_COUNT - 1;
	counts = &counters->queue[queue];

	payload = weir_signed_payload(data, data_end);
	if (!payload) {
		counts->foreign_packets++;
		return XDP_PASS;
	}
	counts->packets++;
	counts->bytes += data_end - data;
	if (weir_sink_mode & WEIR_SINK_OBSERVE)
		weir_observe(payload, data_end - data);
	return XDP_DROP;
}

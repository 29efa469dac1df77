// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_sink: counts the packets that carry weir's signature and ends their way; all others are
 * counted as foreign and go up the stack, so that ARP, neighbour discovery and ping keep working.
 *
 * Only the signature decides: a router in between may have changed MAC addresses, VLAN tags, TTL,
 * addresses and ports, added IP options, or answered an echo. It is looked for behind UDP, TCP and
 * ICMP echo (requests and replies) over IPv4 and IPv6, with up to two VLAN tags. Fragments are
 * foreign, for only the first one has the signature; so is what has IPv6 extension headers.
 *
 * In its full mode (weir/observe.h) it also follows each sender's sequence numbers, marks flows,
 * and measures latency. The mode is set before the program is loaded, and is a constant to the
 * verifier, which removes the code that it rules out: bare counting pays nothing for it.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <weir/find.h>
#include <weir/observe.h>
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

/* Of a frame of several pages the headers and the signature are in the first. */
SEC("xdp.frags")
int weir_sink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 queue = ctx->rx_queue_index;
	struct weir_sink_counters *counters;
	struct weir_sink_queue *counts;
	__u64 bytes;
	__u32 zero = 0;
	void *payload;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	counts = &counters->queue[queue < WEIR_SINK_QUEUE_COUNT ? queue :
							  WEIR_SINK_QUEUE_COUNT - 1];

	bytes = bpf_xdp_get_buff_len(ctx);
	payload = weir_signed_payload(data, data_end);
	if (!payload) {
		counts->foreign_packets++;
		counts->foreign_bytes += bytes;
		return XDP_PASS;
	}
	counts->packets++;
	counts->bytes += bytes;
	if (weir_sink_mode & WEIR_SINK_OBSERVE)
		weir_observe(payload, bytes, weir_sink_mode, queue,
			     &counters->follower);
	return XDP_DROP;
}

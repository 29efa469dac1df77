// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Receive side scaling without a card that has it, and a look at cards that have.
 *
 * weir_rss_spread, where packets leave by a veth with several queues, does what a card does where
 * they come in: it hashes, looks the queue up, and sets both in the packet, so that the peer
 * receives it on that queue with that hash. weir_rss_watch, where packets come in, counts those of
 * each bucket, and those that are on another queue than the settings say. weir_rss_arrive notes
 * where weir's own packets came in, flow by flow, and ends their way. None changes a packet.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/find.h>
#include <weir/rss.h>
#include <weir/toeplitz.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rss);
} weir_rss_set SEC(".maps");

/* As many as the table has entries. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rss_bucket);
} weir_rss_buckets SEC(".maps");

/* As many as there are flows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rss_arrival);
} weir_rss_arrivals SEC(".maps");

/* Ethernet, two VLAN tags, the longest IPv4 header, ports. */
#define WEIR_RSS_HEADERS_BYTES (WEIR_ETH_BYTES + WEIR_VLAN_COUNT_MAX * WEIR_VLAN_BYTES + 60 + 4)
/* The same without options, with a TCP header without any, and the signature. */
#define WEIR_RSS_SIGNED_BYTES (WEIR_RSS_HEADERS_BYTES + WEIR_TCP_BYTES_MIN + WEIR_SIGNATURE_BYTES)

/* The first bytes of a packet, in one piece. */
static __always_inline void weir_rss_pull(struct __sk_buff *skb, __u32 bytes)
{
	if ((void *)(long)skb->data + bytes > (void *)(long)skb->data_end)
		bpf_skb_pull_data(skb, skb->len < bytes ? skb->len : bytes);
}

/* The queue for a packet, and its bucket; false if it is no IP packet. */
static __always_inline bool weir_rss_place(const struct weir_rss *rss, struct __sk_buff *skb,
					   __u32 *hash, __u32 *bucket, __u32 *queue)
{
	weir_rss_pull(skb, WEIR_RSS_HEADERS_BYTES);
	if (!weir_rss_hash(rss, (void *)(long)skb->data, (void *)(long)skb->data_end, hash) ||
	    !weir_rss_bucket_of(rss, *hash, bucket))
		return false;
	*queue = rss->queue[*bucket];
	return true;
}

SEC("tcx/egress")
int weir_rss_spread(struct __sk_buff *skb)
{
	__u32 hash = 0, bucket = 0, queue = 0, zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_rss_set, &zero);

	if (!rss)
		return TCX_NEXT;
	if (weir_rss_place(rss, skb, &hash, &bucket, &queue))
		bpf_set_hash(skb, hash);
	/* The stack takes what is one above the queue for a choice that was made. */
	skb->queue_mapping = queue + 1;
	return TCX_NEXT;
}

SEC("tcx/ingress")
int weir_rss_watch(struct __sk_buff *skb)
{
	__u32 hash = 0, bucket = 0, queue = 0, zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_rss_set, &zero);
	struct weir_rss_bucket *counts;

	if (!rss || !weir_rss_place(rss, skb, &hash, &bucket, &queue))
		return TCX_NEXT;
	counts = bpf_map_lookup_elem(&weir_rss_buckets, &bucket);
	if (!counts)
		return TCX_NEXT;
	counts->packets++;
	if (skb->queue_mapping - (__u32)rss->queue_offset != queue)
		counts->misplaced_packets++;
	return TCX_NEXT;
}

SEC("tcx/ingress")
int weir_rss_arrive(struct __sk_buff *skb)
{
	__u32 zero = 0, flow, queue;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_rss_set, &zero);
	struct weir_rss_arrival *arrival;
	__u8 *payload;

	if (!rss)
		return TCX_NEXT;
	weir_rss_pull(skb, WEIR_RSS_SIGNED_BYTES);
	payload = weir_signed_payload((void *)(long)skb->data, (void *)(long)skb->data_end);
	if (!payload || (void *)payload + WEIR_SIGNATURE_BYTES > (void *)(long)skb->data_end)
		return TCX_NEXT;
	/* The low bits of the sequence number. */
	flow = bpf_ntohl(*(__be32 *)(payload + 8));
	arrival = bpf_map_lookup_elem(&weir_rss_arrivals, &flow);
	if (!arrival)
		return TCX_DROP;
	queue = skb->queue_mapping - (__u32)rss->queue_offset;
	if (arrival->packets && arrival->queue != queue)
		__sync_fetch_and_add(&arrival->changes, 1);
	__sync_fetch_and_add(&arrival->packets, 1);
	arrival->queue = queue;
	arrival->hash = skb->hash;
	arrival->cpu = bpf_get_smp_processor_id();
	return TCX_DROP;
}

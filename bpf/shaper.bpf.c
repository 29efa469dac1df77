// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_shaper: for tests of the rate search. Sends what arrives at one device out of another, at a
 * known rate: a token bucket drops the rest. No packet is changed.
 *
 * All packets must come on one queue, so that they are handled one after the other: the bucket has
 * no lock.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <weir/shaper.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_bucket);
} weir_buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_out SEC(".maps");

SEC("xdp")
int weir_shaper(struct xdp_md *ctx)
{
	struct weir_bucket *bucket;
	__u32 zero = 0;

	bucket = bpf_map_lookup_elem(&weir_buckets, &zero);
	if (!bucket)
		return XDP_ABORTED;
	if (!weir_bucket_take(bucket, bpf_ktime_get_ns())) {
		bucket->dropped_packets++;
		return XDP_DROP;
	}
	bucket->passed_packets++;
	return bpf_redirect_map(&weir_out, 0, XDP_ABORTED);
}

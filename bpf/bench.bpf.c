// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The two programs that the generator is measured against: the least that a sender and a receiver
 * can do. They are never used to measure anything else.
 *
 * weir_bench_fixed redirects the frame that it is given, as it is: no header is written, so that
 * every packet is the same. weir_bench_drop counts what arrives and drops it, whatever it is.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>

#define WEIR_LOOPBACK_IFINDEX 1

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_output SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_dropped SEC(".maps");

SEC("xdp")
int weir_bench_fixed(struct xdp_md *ctx)
{
	/* As the generator: attached to an idle device only to stay in the XDP dispatcher. */
	if (ctx->ingress_ifindex != WEIR_LOOPBACK_IFINDEX)
		return XDP_PASS;
	return bpf_redirect_map(&weir_output, 0, XDP_DROP);
}

SEC("xdp")
int weir_bench_drop(struct xdp_md *ctx)
{
	__u32 zero = 0;
	__u64 *dropped = bpf_map_lookup_elem(&weir_dropped, &zero);

	if (dropped)
		(*dropped)++;
	return XDP_DROP;
}

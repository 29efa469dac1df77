// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs that the generator and the firewall are measured against: the least that a sender, a
 * receiver and a router can do. They are never used to measure anything else.
 *
 * weir_bench_fixed redirects the frame that it is given, as it is: no header is written, so that
 * every packet is the same. weir_bench_drop counts what arrives and drops it, whatever it is.
 * weir_bench_route asks the kernel's routing table about every IPv4 packet and redirects it: what
 * the kernel has to see (options, an expiring TTL, no neighbour) goes up the stack.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>

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

/* Of sys/socket.h. */
#define WEIR_AF_INET 2

struct weir_ethernet {
	__u8 dst[6];
	__u8 src[6];
	__be16 type;
} __attribute__((packed));

struct weir_ipv4 {
	__u8 version_size;
	__u8 tos;
	__be16 bytes;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 src;
	__be32 dst;
} __attribute__((packed, aligned(2)));

/* RFC 1624: the TTL is the high byte of its word, so the checksum grows by 0x0100. */
static __always_inline void weir_decrease_ttl(struct weir_ipv4 *ip)
{
	__u32 checksum = ip->checksum;

	checksum += bpf_htons(0x0100);
	ip->checksum = (__be16)(checksum + (checksum >= 0xffff));
	ip->ttl--;
}

SEC("xdp")
int weir_bench_route(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct weir_ethernet *ethernet = data;
	struct weir_ipv4 *ip = (void *)(ethernet + 1);
	struct bpf_fib_lookup fib = {};

	if ((void *)(ip + 1) > end || ethernet->type != bpf_htons(WEIR_ETH_TYPE_IPV4))
		return XDP_PASS;
	if (ip->version_size != WEIR_IPV4_NO_OPTIONS || ip->ttl <= 1)
		return XDP_PASS;
	fib.family = WEIR_AF_INET;
	fib.tos = ip->tos;
	fib.l4_protocol = ip->protocol;
	fib.tot_len = bpf_ntohs(ip->bytes);
	fib.ipv4_src = ip->src;
	fib.ipv4_dst = ip->dst;
	fib.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0))
		return XDP_PASS;
	weir_decrease_ttl(ip);
	__builtin_memcpy(ethernet->dst, fib.dmac, sizeof(fib.dmac));
	__builtin_memcpy(ethernet->src, fib.smac, sizeof(fib.smac));
	return bpf_redirect(fib.ifindex, 0);
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The two smallest XDP programs, with which weir asks the kernel what it can do: one that may be
 * run on live frames without sending anything, one that may be attached without stopping anything.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int weir_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp")
int weir_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A fixed piece of work, to tell how fast a CPU is at the moment. It must never change: stores of
 * different versions of weir are compared by it.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>

#define WEIR_YARDSTICK_STEPS 4096

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Each step needs the one before (xorshift64, Marsaglia 2003), and the verdict needs the last. */
SEC("xdp")
int weir_yardstick(struct xdp_md *ctx)
{
	__u64 word = 88172645463325252ULL ^ ctx->rx_queue_index;

#pragma clang loop unroll(disable)
	for (__u32 step = 0; step < WEIR_YARDSTICK_STEPS; step++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
	}
	return word & 1 ? XDP_DROP : XDP_PASS;
}

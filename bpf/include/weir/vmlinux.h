/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that weir's programs use, and no others.
 *
 * Everything here is stable user API (include/uapi/linux/{types,bpf}.h of Linux): the layout of
 * struct xdp_md is the verifier's, not the kernel's own struct xdp_buff, so that nothing needs
 * relocating at load time. bpf_helpers.h expects these names to exist before it is included.
 */
#ifndef WEIR_VMLINUX_H
#define WEIR_VMLINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

typedef _Bool bool;
enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_DEVMAP = 14,
};

enum xdp_action {
	XDP_ABORTED = 0,
	XDP_DROP,
	XDP_PASS,
	XDP_TX,
	XDP_REDIRECT,
};

/* Of bpf_redirect_map(): send a copy to each entry of the map. */
enum { BPF_F_BROADCAST = 1 << 3 };

/* An entry of a device map: the device, and the program that sees each frame before it leaves. */
struct bpf_devmap_val {
	__u32 ifindex;
	union {
		int fd;
		__u32 id;
	} bpf_prog;
};

/* The verifier knows it by its name. */
struct bpf_spin_lock {
	__u32 val;
};

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

#endif /* WEIR_VMLINUX_H */

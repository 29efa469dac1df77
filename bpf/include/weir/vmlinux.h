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
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_CPUMAP = 16,
	BPF_MAP_TYPE_XSKMAP = 17,
	BPF_MAP_TYPE_REUSEPORT_SOCKARRAY = 20,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_ARENA = 33,
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

/* Of bpf_map_update_elem(): whether or not there is such an element. */
enum { BPF_ANY };

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

/* What a traffic control program sees of a packet; fields that weir does not use are not named. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	struct bpf_sock *sk;
	__u32 gso_size;
};

/* __sk_buff.pkt_type (packet(7)), as far as weir asks. */
enum {
	PACKET_HOST = 0,
	PACKET_OTHERHOST = 3,
	PACKET_LOOPBACK = 5,
};

/*
 * What a program sees of a packet for sockets that share an address: from the transport header on.
 * Fields that weir does not use are not named; the verifier knows the places of pointers.
 */
struct sk_reuseport_md {
	__u64 data;
	__u64 data_end;
	__u32 len;
	__u32 eth_protocol;
	__u32 ip_protocol;
	__u32 bind_inany;
	__u32 hash;
};

/* What such a program answers. */
enum sk_action {
	SK_DROP = 0,
	SK_PASS,
};

/* Of bpf_skb_load_bytes_relative(): from the network header on. */
enum bpf_hdr_start_off {
	BPF_HDR_START_MAC = 0,
	BPF_HDR_START_NET = 1,
};

/* What a traffic control program answers. */
enum tcx_action_base {
	TCX_NEXT = -1,
	TCX_PASS = 0,
	TCX_DROP = 2,
	TCX_REDIRECT = 7,
};

/* bpf_redirect_neigh() */
struct bpf_redir_neigh {
	__u32 nh_family;	/* AF_* */
	union {
		__be32 ipv4_nh;
		__be32 ipv6_nh[4];
	};
};

/* bpf_skc_lookup_tcp(), bpf_sk_lookup_udp(): the ends of a packet that is looked for a socket. */
struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
};

/* What they find: its address is the kernel's, which knows fields by their places here. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__be16 dst_port;
	__u16 : 16;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
	__s32 rx_queue_mapping;
};

/* The kernel's own, as far as is read of them: where fields are it says at the load. */
struct cred {
	struct {
		__u32 val;
	} fsgid;
} __attribute__((preserve_access_index));

struct file {
	const struct cred *f_cred;
} __attribute__((preserve_access_index));

struct socket {
	struct file *file;
} __attribute__((preserve_access_index));

struct sock {
	struct socket *sk_socket;
	struct {
		__u32 val;
	} sk_uid;
} __attribute__((preserve_access_index));

/* bpf_sock.state */
enum { BPF_TCP_ESTABLISHED = 1, BPF_TCP_LISTEN = 10 };

/* In the packet's network namespace. */
enum { BPF_F_CURRENT_NETNS = -1 };

/* bpf_redirect(): into the interface's receive path instead of out of it. */
enum { BPF_F_INGRESS = 1 << 0 };

/* bpf_skb_store_bytes(): what the sum of the whole packet changes by is taken into account. */
enum { BPF_F_RECOMPUTE_CSUM = 1 << 0 };

/* bpf_csum_level() */
enum { BPF_CSUM_LEVEL_QUERY };

/* bpf_skb_adjust_room() */
enum bpf_adj_room_mode {
	BPF_ADJ_ROOM_NET,
	BPF_ADJ_ROOM_MAC,
};

/* bpf_fib_lookup() */
enum {
	BPF_FIB_LOOKUP_DIRECT = 1 << 0,
	BPF_FIB_LOOKUP_OUTPUT = 1 << 1,
	BPF_FIB_LOOKUP_SKIP_NEIGH = 1 << 2,
	BPF_FIB_LOOKUP_TBID = 1 << 3,
	BPF_FIB_LOOKUP_SRC = 1 << 4,
};

enum {
	BPF_FIB_LKUP_RET_SUCCESS,
	BPF_FIB_LKUP_RET_BLACKHOLE,
	BPF_FIB_LKUP_RET_UNREACHABLE,
	BPF_FIB_LKUP_RET_PROHIBIT,
	BPF_FIB_LKUP_RET_NOT_FWDED,
	BPF_FIB_LKUP_RET_FWD_DISABLED,
	BPF_FIB_LKUP_RET_UNSUPP_LWT,
	BPF_FIB_LKUP_RET_NO_NEIGH,
	BPF_FIB_LKUP_RET_FRAG_NEEDED,
	BPF_FIB_LKUP_RET_NO_SRC_ADDR,
};

struct bpf_fib_lookup {
	__u8 family;
	__u8 l4_protocol;
	__be16 sport;
	__be16 dport;
	union {
		__u16 tot_len;
		__u16 mtu_result;
	};
	__u32 ifindex;
	union {
		__u8 tos;
		__be32 flowinfo;
		__u32 rt_metric;
	};
	union {
		__be32 ipv4_src;
		__u32 ipv6_src[4];
	};
	union {
		__be32 ipv4_dst;
		__u32 ipv6_dst[4];
	};
	union {
		struct {
			__be16 h_vlan_proto;
			__be16 h_vlan_TCI;
		};
		__u32 tbid;
	};
	__u8 smac[6];
	__u8 dmac[6];
};

#endif /* WEIR_VMLINUX_H */

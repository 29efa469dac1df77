/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a test asks the rules alone (rules.bpf.c), and what they answer. */
#ifndef WEIR_FW_EXCHANGE_H
#define WEIR_FW_EXCHANGE_H

#include <weir/fw/packet.h>
#include <weir/vmlinux.h>

struct weir_rules_subject {
	__be32 src[4];
	__be32 dst[4];
	__be16 src_port;
	__be16 dst_port;
	__u8 family;
	__u8 protocol;
	__u8 tcp_flags;
	__u8 icmp_type;
	__u8 icmp_code;
	__u8 tos;
	__u8 direction;
	__u8 interface;
	__u8 out_interface;
	__u8 priority;
	__u16 vlan_bytes;
	__u16 tag;
	__u16 system;
	__u32 flags;
	__u32 ip_bytes;
	__u32 ruleset;
	__u32 user;
	__u32 group;
};

struct weir_rules_exchange {
	struct weir_rules_subject subject;
	struct weir_fw_decision decision;
};

#endif /* WEIR_FW_EXCHANGE_H */

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rules alone, for tests and benchmarks: the packet of a test run is a struct weir_fw_packet,
 * and comes back as the decision.
 */
#include <weir/vmlinux.h>

#include <bpf/bpf_helpers.h>

#include <weir/fw/rules.h>

/* As weir-bpf's judge.rs writes it. */
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
	__u16 unused;
	__u32 flags;
	__u32 ip_bytes;
	__u32 ruleset;
};

struct weir_rules_exchange {
	struct weir_rules_subject subject;
	struct weir_fw_decision decision;
};

/* weir-bpf's judge.rs has the same places. */
_Static_assert(sizeof(struct weir_rules_subject) == 64, "judge.rs");
_Static_assert(sizeof(struct weir_fw_decision) == 36, "judge.rs");

/* weir-fw's image.rs and prefix.rs write these structs field by field. */
#define WEIR_STANDS_AT(type, field, at) \
	_Static_assert(__builtin_offsetof(struct type, field) == (at), "image.rs, prefix.rs")

WEIR_STANDS_AT(weir_fw_image, judged, 16);
WEIR_STANDS_AT(weir_fw_image, skipped, 32);
WEIR_STANDS_AT(weir_fw_image, tables_at, 40);
WEIR_STANDS_AT(weir_fw_image, table_count, 44);
WEIR_STANDS_AT(weir_fw_image, counters_at, 48);
WEIR_STANDS_AT(weir_fw_image, classes_at, 56);
WEIR_STANDS_AT(weir_fw_image, criteria_at, 60);
WEIR_STANDS_AT(weir_fw_image, rules_at, 64);
WEIR_STANDS_AT(weir_fw_image, profiles_at, 72);
WEIR_STANDS_AT(weir_fw_image, state_limit, 80);
WEIR_STANDS_AT(weir_fw_image, adaptive_end, 96);
WEIR_STANDS_AT(weir_fw_criteria, received, 8);
WEIR_STANDS_AT(weir_fw_criteria, to, 24);
WEIR_STANDS_AT(weir_fw_criteria, to_port, 36);
WEIR_STANDS_AT(weir_fw_criteria, probability, 40);
WEIR_STANDS_AT(weir_fw_criteria, end, 44);
WEIR_STANDS_AT(weir_fw_criteria, flags, 48);
WEIR_STANDS_AT(weir_fw_criteria, hooks, 52);
WEIR_STANDS_AT(weir_fw_criteria, icmp_type, 56);
WEIR_STANDS_AT(weir_fw_criteria, from_kind, 60);
WEIR_STANDS_AT(weir_fw_criteria, tagged, 62);
WEIR_STANDS_AT(weir_fw_rule, counters_at, 8);
WEIR_STANDS_AT(weir_fw_rule, state_max, 20);
WEIR_STANDS_AT(weir_fw_rule, kind, 28);
WEIR_STANDS_AT(weir_fw_rule, rst_ttl, 32);
WEIR_STANDS_AT(weir_fw_rule, prio, 36);
WEIR_STANDS_AT(weir_fw_rule, tag, 38);
WEIR_STANDS_AT(weir_fw_rule, overload, 40);
WEIR_STANDS_AT(weir_fw_rule, source_flags, 42);
WEIR_STANDS_AT(weir_fw_rule, source_states_max, 44);
WEIR_STANDS_AT(weir_fw_rule, source_rate_s, 60);
WEIR_STANDS_AT(weir_fw_prefix_set, slots_at, 16);
WEIR_STANDS_AT(weir_fw_prefix_set, slot_count, 24);
WEIR_STANDS_AT(weir_fw_prefix_set, seed, 32);
WEIR_STANDS_AT(weir_fw_prefix_set, length_count, 40);
WEIR_STANDS_AT(weir_fw_prefix_set, lengths4, 42);
WEIR_STANDS_AT(weir_fw_prefix_set, lengths6, 75);
WEIR_STANDS_AT(weir_fw_classes, dimension, 40);

SEC("xdp")
int weir_rules_judge(struct xdp_md *ctx)
{
	struct weir_rules_exchange *own = (void *)(long)ctx->data;
	struct weir_fw_decision decision = {};
	struct weir_fw_packet packet = {};

	weir_uses_arena();
	if ((void *)(own + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		packet.src[i] = own->subject.src[i];
		packet.dst[i] = own->subject.dst[i];
	}
	packet.src_port = own->subject.src_port;
	packet.dst_port = own->subject.dst_port;
	packet.family = own->subject.family;
	packet.protocol = own->subject.protocol;
	packet.tcp_flags = own->subject.tcp_flags;
	packet.icmp_type = own->subject.icmp_type;
	packet.icmp_code = own->subject.icmp_code;
	packet.tos = own->subject.tos;
	packet.direction = own->subject.direction;
	packet.interface = own->subject.interface;
	packet.out_interface = own->subject.out_interface;
	packet.priority = own->subject.priority;
	packet.vlan_bytes = own->subject.vlan_bytes;
	packet.flags = own->subject.flags;
	packet.ip_bytes = own->subject.ip_bytes;
	packet.ruleset = own->subject.ruleset;
	decision.tag = own->subject.tag;
	weir_fw_evaluate(&packet, &decision);
	own->decision = decision;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

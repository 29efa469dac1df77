// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rules alone, for tests and benchmarks: the packet of a test run is a struct weir_fw_packet,
 * and comes back as the decision.
 */
#include <weir/vmlinux.h>

#include <bpf/bpf_helpers.h>

#include <weir/fw/exchange.h>
#include <weir/fw/rules.h>
#include <weir/fw/scratch.h>

SEC("xdp")
int weir_rules_judge(struct xdp_md *ctx)
{
	struct weir_rules_exchange *exchange = (void *)(long)ctx->data;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_decision *decision;
	struct weir_fw_packet *packet;

	weir_uses_arena();
	if (!scratch || (void *)(exchange + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	packet = weir_fw_packet_of(scratch);
	decision = &scratch->decision;
	__builtin_memset(decision, 0, sizeof(*decision));
#pragma unroll
	for (int i = 0; i < 4; i++) {
		packet->src[i] = exchange->subject.src[i];
		packet->dst[i] = exchange->subject.dst[i];
	}
	packet->src_port = exchange->subject.src_port;
	packet->dst_port = exchange->subject.dst_port;
	packet->family = exchange->subject.family;
	packet->protocol = exchange->subject.protocol;
	packet->tcp_flags = exchange->subject.tcp_flags;
	packet->icmp_type = exchange->subject.icmp_type;
	packet->icmp_code = exchange->subject.icmp_code;
	packet->tos = exchange->subject.tos;
	packet->direction = exchange->subject.direction;
	packet->interface = exchange->subject.interface;
	packet->out_interface = exchange->subject.out_interface;
	packet->priority = exchange->subject.priority;
	packet->vlan_bytes = exchange->subject.vlan_bytes;
	packet->flags = exchange->subject.flags;
	packet->ip_bytes = exchange->subject.ip_bytes;
	packet->ruleset = exchange->subject.ruleset;
	packet->user = exchange->subject.user;
	packet->group = exchange->subject.group;
	packet->system = exchange->subject.system;
	decision->tag = exchange->subject.tag;
	weir_fw_evaluate(packet, &scratch->walk, decision);
	exchange->decision = *decision;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

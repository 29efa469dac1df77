/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of packets, by CPU: plain increments, because programs of one CPU never interrupt each
 * other (they run with bottom halves off).
 */
#ifndef WEIR_FW_COUNTERS_H
#define WEIR_FW_COUNTERS_H

#include <weir/fw/arena.h>
#include <weir/fw/layout.h>
#include <weir/fw/packet.h>

#define weir_fw_control() weir_at(struct weir_fw_control, 0)

static __always_inline __u32 weir_fw_cpu_at(__u32 cpu)
{
	return weir_fw_control()->counters_at + cpu * (__u32)sizeof(struct weir_fw_cpu);
}

static __always_inline struct weir_fw_table_counters __weir_arena *weir_fw_table_counters(__u32 cpu)
{
	return weir_at(struct weir_fw_table_counters, weir_fw_cpu_at(cpu));
}

static __always_inline struct weir_fw_interface_counters __weir_arena *
weir_fw_interface_counters(__u32 cpu, __u8 slot)
{
	__u32 at = weir_fw_cpu_at(cpu) + (__u32)sizeof(struct weir_fw_table_counters);

	return weir_at(struct weir_fw_interface_counters,
		       at + slot * (__u32)sizeof(struct weir_fw_interface_counters));
}

/* A packet that crosses an interface, or is stopped there. */
static __always_inline void weir_fw_count(const struct weir_fw_packet *p, __u8 slot,
					  __u32 direction, __u32 outcome)
{
	struct weir_fw_interface_counters __weir_arena *c =
		weir_fw_interface_counters(p->cpu, slot);
	__u32 family = p->family & 1;

	c->packets[direction][outcome][family]++;
	c->bytes[direction][outcome][family] += p->ip_bytes;
}

/* The slot of the hook at which a packet is being judged. */
static __always_inline __u8 weir_fw_slot(const struct weir_fw_packet *p)
{
	return p->direction == WEIR_FW_OUT ? p->out_interface : p->interface;
}

/* A packet that is dropped where it is being judged; `drop` is a reason + 1. */
static __always_inline void weir_fw_count_drop(const struct weir_fw_packet *p, __u32 drop)
{
	struct weir_fw_interface_counters __weir_arena *c =
		weir_fw_interface_counters(p->cpu, weir_fw_slot(p));
	__u32 direction = p->direction & 1;

	weir_fw_count(p, weir_fw_slot(p), direction, WEIR_FW_BLOCK);
	c->dropped_packets[direction][(drop - 1) & (WEIR_FW_REASON_COUNT_MAX - 1)]++;
}

#endif /* WEIR_FW_COUNTERS_H */

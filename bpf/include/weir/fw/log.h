/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets of rules with `log`: a record for the control process, which writes them as pcap. A
 * record that finds no room in the ring is counted.
 */
#ifndef WEIR_FW_LOG_H
#define WEIR_FW_LOG_H

#include <weir/fw/counters.h>
#include <weir/fw/packet.h>

/* What pflogd takes of a packet if it is not told otherwise. */
#define WEIR_FW_LOG_SNAP_BYTES 160

enum weir_fw_log_constant {
	WEIR_FW_RECORD_PACKET = 1, /* what a record of a packet begins with */
};

struct weir_fw_log_record {
	__u32 kind;		/* WEIR_FW_RECORD_PACKET */
	__u32 interface;	/* slot of the hook */
	__u64 time_ns;		/* CLOCK_BOOTTIME */
	__u32 rule;		/* id; WEIR_FW_RULE_NONE: the default rule */
	__u32 ip_bytes;
	__u16 captured_bytes;
	__u8 direction;		/* WEIR_FW_IN, WEIR_FW_OUT */
	__u8 outcome;		/* WEIR_FW_PASS, WEIR_FW_BLOCK */
	__u8 reason;		/* WEIR_FW_REASON_* */
	__u8 family;		/* WEIR_FW_INET, WEIR_FW_INET6 */
	__u16 unused;
	__u8 packet[WEIR_FW_LOG_SNAP_BYTES]; /* from the IP header on */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1); /* set when it is loaded */
} weir_log SEC(".maps");

/* The record, but for its packet; NULL, and counted, if there is no room. */
static __always_inline struct weir_fw_log_record *
weir_fw_log_begin(const struct weir_fw_packet *p, __u32 rule, __u32 outcome, __u32 reason)
{
	struct weir_fw_log_record *record;
	__u32 bytes = p->ip_bytes;

	record = bpf_ringbuf_reserve(&weir_log, sizeof(*record), 0);
	if (!record) {
		weir_fw_table_counters(p->cpu)->log_lost++;
		return record;
	}
	record->kind = WEIR_FW_RECORD_PACKET;
	record->time_ns = bpf_ktime_get_boot_ns();
	record->rule = rule;
	record->ip_bytes = bytes;
	record->interface = weir_fw_slot(p);
	record->captured_bytes = bytes < WEIR_FW_LOG_SNAP_BYTES ? bytes : WEIR_FW_LOG_SNAP_BYTES;
	record->direction = p->direction;
	record->outcome = outcome;
	record->reason = reason;
	record->family = p->family;
	return record;
}

/* How much of a packet is copied, in bounds that the verifier sees. */
static __always_inline __u32 weir_fw_log_bytes(const struct weir_fw_packet *p)
{
	__u32 bytes = p->ip_bytes;

	if (bytes < 1)
		return 1;
	return bytes < WEIR_FW_LOG_SNAP_BYTES ? bytes : WEIR_FW_LOG_SNAP_BYTES;
}

static __always_inline void weir_fw_log_xdp(struct xdp_md *ctx, const struct weir_fw_packet *p,
					    __u32 rule, __u32 outcome, __u32 reason)
{
	struct weir_fw_log_record *record = weir_fw_log_begin(p, rule, outcome, reason);

	if (!record)
		return;
	if (bpf_xdp_load_bytes(ctx, p->l3_at, record->packet, weir_fw_log_bytes(p)))
		record->captured_bytes = 0;
	bpf_ringbuf_submit(record, 0);
}

static __always_inline void weir_fw_log_skb(struct __sk_buff *skb, const struct weir_fw_packet *p,
					    __u32 rule, __u32 outcome, __u32 reason)
{
	struct weir_fw_log_record *record = weir_fw_log_begin(p, rule, outcome, reason);

	if (!record)
		return;
	if (bpf_skb_load_bytes(skb, p->l3_at, record->packet, weir_fw_log_bytes(p)))
		record->captured_bytes = 0;
	bpf_ringbuf_submit(record, 0);
}

#endif /* WEIR_FW_LOG_H */

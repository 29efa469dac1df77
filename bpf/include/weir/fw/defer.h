/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers that come before their states, where the two directions of a connection go by two
 * firewalls: the other one has let the first packet through just now. While that is expected
 * (weir_fw_control.defers), what rules do not let in, and what may be an answer, goes into a ring.
 * The control process keeps it for a moment and then has weir_fw_deferred judge it for good: that
 * leaves what passes to the kernel, which forwards it whatever the interfaces can do. An answer
 * that finds no room in the ring, or is too long for it, is judged at once. So is one whose rule
 * says `once` or `max-pkt-rate`, which has counted it by now.
 */
#ifndef WEIR_FW_DEFER_H
#define WEIR_FW_DEFER_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/counters.h>
#include <weir/fw/headers.h>
#include <weir/fw/packet.h>

#define WEIR_FW_DEFER_RING_BYTES (1 << 20)
#define WEIR_FW_DEFER_FRAME_BYTES_MAX 2000

/* A frame as it has come. */
struct weir_fw_deferred {
	__u64 time_ns;		/* CLOCK_BOOTTIME */
	__u32 ifindex;
	__u16 bytes;
	/* If its checksum is missing (partial.h): where it belongs, else 0; what it is of. */
	__u16 checksum_at;
	__u16 message_at;
	__u16 message_end;
	__u32 unused;
	__u8 frame[WEIR_FW_DEFER_FRAME_BYTES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WEIR_FW_DEFER_RING_BYTES);
} weir_deferred SEC(".maps");

/* Whether a packet may answer one that has gone the other way. */
static __always_inline bool weir_defer_is_answer(const struct weir_fw_packet *p)
{
	const __u8 hands = WEIR_TCP_SYN | WEIR_TCP_ACK;

	if (p->flags & WEIR_PACKET_FRAGMENT)
		return false;
	if (p->protocol == WEIR_PROTOCOL_TCP)
		return (p->tcp_flags & hands) != WEIR_TCP_SYN;
	if (p->protocol == WEIR_PROTOCOL_ICMP)
		return p->flags & WEIR_PACKET_ICMP_ERROR || p->icmp_type == WEIR_ICMP_ECHO_REPLY;
	if (p->protocol == WEIR_PROTOCOL_ICMPV6)
		return p->flags & WEIR_PACKET_ICMP_ERROR || p->icmp_type == WEIR_ICMPV6_ECHO_REPLY;
	return true;
}

/* Whether a packet waits for its state, which rules do not let in by an interface. */
static __always_inline bool weir_defer_is_due(const struct weir_fw_packet *p,
					      const struct weir_fw_decision *d,
					      struct weir_fw_interface __weir_arena *interface)
{
	const __u32 asked = WEIR_DECISION_BLOCK | WEIR_DECISION_ONCE | WEIR_DECISION_RATED;

	return weir_fw_control()->defers && (d->flags & asked) == WEIR_DECISION_BLOCK &&
	       p->direction == WEIR_FW_IN && !(p->flags & WEIR_PACKET_DEFERRED) &&
	       interface->flags & WEIR_FW_INTERFACE_WHOLE && weir_defer_is_answer(p);
}

/* Puts a frame into the ring; false, and counted, if it has no room there. */
__noinline int weir_defer(struct xdp_md *ctx, const struct weir_fw_packet *p __arg_nonnull)
{
	__u32 bytes = weir_xdp_data_end(ctx) - weir_xdp_data(ctx);
	struct weir_fw_table_counters __weir_arena *counters = weir_fw_table_counters(p->cpu);
	struct weir_fw_deferred *kept;

	/* What SCTP has in its place is no sum. */
	if (bytes < 1 || bytes > WEIR_FW_DEFER_FRAME_BYTES_MAX ||
	    (p->flags & WEIR_PACKET_PARTIAL && p->protocol == WEIR_PROTOCOL_SCTP))
		goto lost;
	kept = bpf_ringbuf_reserve(&weir_deferred, sizeof(*kept), 0);
	if (!kept)
		goto lost;
	kept->time_ns = bpf_ktime_get_boot_ns();
	kept->ifindex = ctx->ingress_ifindex;
	kept->bytes = bytes;
	kept->checksum_at = 0;
	if (p->flags & WEIR_PACKET_PARTIAL)
		kept->checksum_at = p->l4_at + weir_fw_checksum_at(p->protocol);
	kept->message_at = p->l4_at;
	kept->message_end = p->l3_at + p->ip_bytes;
	kept->unused = 0;
	if (bpf_xdp_load_bytes(ctx, 0, kept->frame, bytes)) {
		bpf_ringbuf_discard(kept, 0);
		goto lost;
	}
	bpf_ringbuf_submit(kept, 0);
	counters->deferred++;
	return true;
lost:
	counters->defer_lost++;
	return false;
}

#endif /* WEIR_FW_DEFER_H */

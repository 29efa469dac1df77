// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_fault: for tests of the sink and of connections. Sends what arrives at one device out of
 * another, and drops, duplicates or delays the packets of chosen sequence numbers on the way, or
 * TCP segments without weir's signature by their flags and ports. What is not chosen is sent on as
 * it is.
 *
 * XDP cannot clone a frame, but a device map can: redirecting to all entries of a map sends a copy
 * to each, and two entries may have the same device. A duplicate is that.
 *
 * A delayed packet is to leave right after another one that arrives later. Its bytes are kept, and
 * its frame is dropped; the later packet is sent twice, and the second copy, on its way out, gets
 * the bytes that were kept. That is exact whatever the timing. The program that exchanges them runs
 * for all frames, for the kernel takes the first one's program for all frames of a bulk.
 *
 * All packets must come on one queue, so that they are handled one after the other.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <weir/fault.h>
#include <weir/find.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_FAULT_COUNT_MAX);
	__type(key, __u64);
	__type(value, struct weir_fault);
} weir_faults SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_HELD_COUNT_MAX);
	__type(key, __u32);
	__type(value, struct weir_held);
} weir_held SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_fault_counters);
} weir_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} weir_once SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} weir_twice SEC(".maps");

/* The key of a TCP segment without a signature; false if it is none. */
static __always_inline bool weir_segment_key(void *data, void *data_end, __u64 *key)
{
	struct weir_packet packet;
	void *tcp;

	if (!weir_parse(&packet, data, data_end) || packet.is_fragment ||
	    packet.protocol != WEIR_PROTOCOL_TCP)
		return false;
	tcp = packet.message;
	if (tcp + WEIR_TCP_BYTES_MIN > data_end)
		return false;
	*key = WEIR_FAULT_SEGMENT | (__u64)*(__u8 *)(tcp + WEIR_TCP_DATA_OFFSET + 1) << 32 |
	       bpf_ntohl(*(__be32 *)tcp);
	return true;
}

/* What was chosen for the packet; 0 if nothing was. */
static __always_inline struct weir_fault *weir_chosen(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	void *payload = weir_signed_payload(data, data_end);
	__u64 key;

	if (payload)
		key = bpf_be64_to_cpu(*(__u64 *)(payload + 4)) & WEIR_SIGNATURE_MASK48;
	else if (!weir_segment_key(data, data_end, &key))
		return 0;
	return bpf_map_lookup_elem(&weir_faults, &key);
}

static __always_inline struct weir_held *weir_slot(const struct weir_fault *fault)
{
	__u32 slot = fault->slot;

	return bpf_map_lookup_elem(&weir_held, &slot);
}

static __always_inline bool weir_hold(struct xdp_md *ctx, const struct weir_fault *fault)
{
	struct weir_held *held = weir_slot(fault);
	__u64 size_bytes = ctx->data_end - ctx->data;

	if (!held || held->state != WEIR_HELD_EMPTY)
		return false;
	if (size_bytes < WEIR_ETH_BYTES || size_bytes > WEIR_HELD_BYTES_MAX)
		return false;
	if (bpf_xdp_load_bytes(ctx, 0, held->frame, size_bytes))
		return false;
	held->size_bytes = size_bytes;
	held->state = WEIR_HELD_FULL;
	return true;
}

/* Whether the packet that waits for this one can leave in a copy of it. */
static __always_inline bool weir_can_release(struct xdp_md *ctx, const struct weir_fault *fault)
{
	const struct weir_held *held = weir_slot(fault);

	return held && held->state == WEIR_HELD_FULL &&
	       held->size_bytes == (__u64)(ctx->data_end - ctx->data);
}

SEC("xdp")
int weir_fault(struct xdp_md *ctx)
{
	struct weir_fault *fault = weir_chosen(ctx);
	struct weir_fault_counters *counters;
	__u64 action = fault ? fault->action : 0;
	__u32 zero = 0;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	if (action == WEIR_FAULT_DROP) {
		counters->dropped_packets++;
		return XDP_DROP;
	}
	if (fault && action == WEIR_FAULT_HOLD && weir_hold(ctx, fault)) {
		counters->held_packets++;
		return XDP_DROP;
	}
	counters->forwarded_packets++;
	if (action == WEIR_FAULT_DUPLICATE) {
		counters->duplicated_packets++;
		return bpf_redirect_map(&weir_twice, 0, BPF_F_BROADCAST);
	}
	if (fault && action == WEIR_FAULT_RELEASE && weir_can_release(ctx, fault)) {
		counters->released_packets++;
		return bpf_redirect_map(&weir_twice, 0, BPF_F_BROADCAST);
	}
	if (action)
		counters->refused_packets++;
	return bpf_redirect_map(&weir_once, 0, XDP_ABORTED);
}

/* Sees every frame that leaves, in order. */
SEC("xdp/devmap")
int weir_fault_out(struct xdp_md *ctx)
{
	struct weir_fault *fault = weir_chosen(ctx);
	struct weir_held *held;
	__u64 size_bytes;

	if (!fault || fault->action != WEIR_FAULT_RELEASE)
		return XDP_PASS;
	held = weir_slot(fault);
	if (!held)
		return XDP_PASS;
	if (held->state == WEIR_HELD_FULL) {
		held->state = WEIR_HELD_OVERTAKEN;
	} else if (held->state == WEIR_HELD_OVERTAKEN) {
		size_bytes = held->size_bytes;
		if (size_bytes < WEIR_ETH_BYTES || size_bytes > WEIR_HELD_BYTES_MAX ||
		    bpf_xdp_store_bytes(ctx, 0, held->frame, size_bytes))
			return XDP_ABORTED;
		held->state = WEIR_HELD_GONE;
	}
	return XDP_PASS;
}

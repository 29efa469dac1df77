// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_gen, weir_gen_plain: make the packets of one or several streams out of nothing, one per
 * run, and send them to a device.
 *
 * It is run by BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES: the kernel calls it over and over
 * on pages of its own and transmits those for which it returns XDP_REDIRECT. The kernel recycles
 * the pages without cleaning them, and whoever received a frame may have written to it: a router
 * lowers the TTL and exchanges MAC addresses, a firewall translates addresses and ports, a tunnel
 * encrypts the payload in place. Nothing of the last frame is therefore relied on. Every byte of
 * every packet is written: headers and signature as whole words, the rest of the payload as zeros
 * by one helper call (the smallest frames have no rest).
 *
 * Pages have the size of the largest frame; a smaller one is cut from its tail. The kernel restores
 * a page's start and length by itself. It fails to notice one case: a receiver that cut the tail in
 * XDP and redirected the same frame; the receiver's byte count shows that.
 *
 * What is sent is weir_wire::stream::StreamSet, byte for byte. The program is loaded for one set:
 * constants say which layouts, walks and kinds of sizes the set has, and the verifier takes out the
 * code for all others. The commonest set, a single stream of untagged UDP over IPv4 in frames of
 * one size that walks as an odometer and forbids fragments, is called plain and has a program of
 * its own (plain.h): what the verifier leaves of a branch that is never taken (reading the
 * constant) costs too.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/frame.h>
#include <weir/lane.h>
#include <weir/plain.h>
#include <weir/room.h>
#include <weir/sending.h>
#include <weir/set.h>

#define WEIR_FRAME_BYTES_MIN 60
#define WEIR_ZERO_BYTES (WEIR_FRAME_BYTES_MAX - WEIR_FRAME_BYTES_MIN)
#define WEIR_LINK_BYTES_MAX (WEIR_ETH_BYTES + 8)
#define WEIR_TUNNEL_BYTES_MAX (WEIR_TUNNEL_WORDS * 8)

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* In a section of its own, so that it is found at offset 0 of it. */
const volatile struct weir_set weir_set SEC(".rodata.set") = { .stream_count = 1 };

/* Never written. Not const, because older verifiers refuse read-only memory to the helper. */
static __u8 weir_zeros[WEIR_ZERO_BYTES];

/* Of a set of several streams: those of CPU 0 first, in the order of the streams. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_lane);
} weir_lanes SEC(".maps");

/* The order of streams that every thread goes through. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_order SEC(".maps");

/* Zeros the payload behind the signature; false if the buffer does not have it. */
static __always_inline bool weir_clear_payload(struct xdp_md *ctx, __u64 offset, __u64 size_bytes)
{
	__u64 rest_bytes = size_bytes - offset;

	if (!rest_bytes)
		return true;
	/* The compiler must not merge the two checks: the verifier would miss one bound. */
	barrier_var(rest_bytes);
	if (rest_bytes > WEIR_ZERO_BYTES || !rest_bytes)
		return false;
	return !bpf_xdp_store_bytes(ctx, offset, weir_zeros, rest_bytes);
}

/* Writes what is in front of a packet of a set with tunnels; false if the page does not fit it. */
static __always_inline bool weir_write_tunnel(void *data, void *data_end,
					      const struct weir_lane *lane, __u64 link_bytes)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < WEIR_TUNNEL_WORDS; i++) {
		if (i * 8 >= link_bytes)
			break;
		/* The rest of the last one is overwritten. */
		if (data + (i + 1) * 8 > data_end)
			return false;
		*(__u64 *)(data + i * 8) = lane->tunnel[i];
	}
	return true;
}

/* Writes a frame of one layout; false if the page does not fit it. */
static __always_inline bool weir_write_layout(struct xdp_md *ctx, const struct weir_lane *lane,
					      struct weir_packet *packet, __u64 size_bytes,
					      __u32 layout)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u64 link_bytes = WEIR_ETH_BYTES;

	if (data + WEIR_LINK_WORDS * 8 > data_end)
		return false;
	if (weir_set.tunnelled) {
		link_bytes = lane->link_bytes;
		if (link_bytes > WEIR_TUNNEL_BYTES_MAX ||
		    !weir_write_tunnel(data, data_end, lane, link_bytes))
			return false;
	} else {
		*(__u64 *)(data + 0) = lane->link[0];
		*(__u64 *)(data + 8) = lane->link[1];
	}
	if (weir_set.tagged && !weir_set.tunnelled) {
		link_bytes = lane->link_bytes;
		if (link_bytes > WEIR_LINK_BYTES_MAX)
			return false;
		*(__u64 *)(data + 16) = lane->link[2];
	}
	packet->packet_bytes = size_bytes - link_bytes;
	if (!weir_write_packet(data + link_bytes, data_end, lane, packet, layout))
		return false;
	return weir_clear_payload(ctx, link_bytes + weir_written_bytes(layout), size_bytes);
}

/* True if the packet's layout is this one; known beforehand if the set has one layout only. */
static __always_inline bool weir_has_layout(const struct weir_lane *lane, __u32 layout)
{
	if (!(weir_set.layouts & (1ULL << layout)))
		return false;
	return weir_set.layouts == (1ULL << layout) || lane->layout == layout;
}

static __always_inline bool weir_write_frame(struct xdp_md *ctx, const struct weir_lane *lane,
					     struct weir_packet *packet, __u64 size_bytes)
{
	if (weir_has_layout(lane, WEIR_LAYOUT_UDP))
		return weir_write_layout(ctx, lane, packet, size_bytes, WEIR_LAYOUT_UDP);
	if (weir_has_layout(lane, WEIR_LAYOUT_TCP))
		return weir_write_layout(ctx, lane, packet, size_bytes, WEIR_LAYOUT_TCP);
	if (weir_has_layout(lane, WEIR_LAYOUT_ECHO))
		return weir_write_layout(ctx, lane, packet, size_bytes, WEIR_LAYOUT_ECHO);
	if (weir_has_layout(lane, WEIR_LAYOUT_IPV6 + WEIR_LAYOUT_UDP))
		return weir_write_layout(ctx, lane, packet, size_bytes,
					 WEIR_LAYOUT_IPV6 + WEIR_LAYOUT_UDP);
	if (weir_has_layout(lane, WEIR_LAYOUT_IPV6 + WEIR_LAYOUT_TCP))
		return weir_write_layout(ctx, lane, packet, size_bytes,
					 WEIR_LAYOUT_IPV6 + WEIR_LAYOUT_TCP);
	if (weir_has_layout(lane, WEIR_LAYOUT_IPV6 + WEIR_LAYOUT_ECHO))
		return weir_write_layout(ctx, lane, packet, size_bytes,
					 WEIR_LAYOUT_IPV6 + WEIR_LAYOUT_ECHO);
	return false;
}

/* The lane of the stream whose turn it is. */
static __always_inline struct weir_lane *weir_next_lane(struct weir_thread *thread, __u32 cpu)
{
	__u32 place = thread->place;
	__u64 *stream;
	__u32 index;

	if (weir_set.stream_count == 1)
		return &thread->lane;
	stream = bpf_map_lookup_elem(&weir_order, &place);
	if (!stream)
		return 0;
	index = cpu * (__u32)weir_set.stream_count + (__u32)*stream;
	return bpf_map_lookup_elem(&weir_lanes, &index);
}

static __always_inline bool weir_is_odometer(const struct weir_lane *lane)
{
	return weir_set.walks == WEIR_SET_WALK_ODOMETER ||
	       (weir_set.walks & WEIR_SET_WALK_ODOMETER && !lane->walk.random);
}

/* Makes the next packet of any lane; false if it cannot be sent. */
static __always_inline bool weir_make(struct xdp_md *ctx, const struct weir_lane *lane,
				      __u64 size_bytes, __u64 stamp)
{
	struct weir_packet packet = {
		.sequence = lane->sequence & WEIR_SIGNATURE_MASK48,
		.stamp_ns = stamp,
		.ident = lane->sequence & lane->ident_mask,
	};
	long cut_bytes;

	if (weir_set.resized) {
		cut_bytes = (long)size_bytes - (long)weir_set.size_bytes_max;
		if (cut_bytes && bpf_xdp_adjust_tail(ctx, cut_bytes))
			return false;
	}
	if (weir_is_odometer(lane))
		weir_walk_read(&lane->walk, &packet.flow);
	else
		weir_walk_draw(&lane->walk, lane->sequence, &packet.flow);
	return weir_write_frame(ctx, lane, &packet, size_bytes);
}

/* Sends the next packet of any set; false if it cannot be sent. */
static __always_inline bool weir_send(struct xdp_md *ctx, struct weir_thread *thread, __u32 cpu,
				      __u64 stamp)
{
	__u64 size_bytes = weir_set.size_bytes_max;
	struct weir_lane *lane = weir_next_lane(thread, cpu);
	__u32 place;

	if (!lane)
		return false;
	if (weir_set.resized)
		size_bytes = weir_sizes_read(&lane->sizes, lane->sequence);
	if (!weir_make(ctx, lane, size_bytes, stamp) ||
	    bpf_redirect_map(&weir_output, 0, XDP_DROP) != XDP_REDIRECT)
		return false;
	lane->sequence += lane->sequence_step;
	if (weir_is_odometer(lane))
		weir_odometer_turn(&lane->walk.odometer);
	if (weir_set.resized) {
		weir_sizes_turn(&lane->sizes);
		thread->counters.offered_bytes += size_bytes;
	}
	if (weir_set.stream_count > 1) {
		place = thread->place + 1;
		thread->place = bpf_map_lookup_elem(&weir_order, &place) ? place : 0;
	}
	return true;
}

SEC("xdp")
int weir_gen(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct weir_thread *thread;
	__u64 stamp;
	int verdict;

	thread = weir_thread_of(ctx, cpu, &verdict);
	if (!thread)
		return verdict;
	if (!weir_room_is_left(thread) || !weir_may_send(thread, &stamp))
		return XDP_DROP;
	if (!weir_send(ctx, thread, cpu, stamp)) {
		thread->counters.refused_packets++;
		return XDP_DROP;
	}
	thread->nth++;
	return XDP_REDIRECT;
}

/*
 * Whether the thread's next packet of a plain set may go now; its run has begun then. The run of a
 * paced thread is one packet. A function of its own, because it is called once in a run.
 */
static __noinline bool weir_begin_plain(struct weir_thread *thread)
{
	__u64 count, stamp;

	if (!thread || !weir_room_is_left(thread) || !weir_may_send(thread, &stamp))
		return false;
	count = thread->flags & WEIR_THREAD_PACED ? 1 : WEIR_BURST - thread->nth % WEIR_BURST;
	weir_run_begin(thread, weir_run_fit(count, thread->nth + 1, thread->nth_end, 1), stamp);
	return true;
}

/* Makes and sends the next packet of a plain set, which is in a run; false if it cannot be sent. */
static __always_inline bool weir_send_plain(struct xdp_md *ctx, const struct weir_thread *thread)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;

	if (!weir_write_plain(data, data_end, thread))
		return false;
	if (data + WEIR_PLAIN_BYTES < data_end &&
	    !weir_clear_payload(ctx, WEIR_PLAIN_BYTES, weir_set.size_bytes_max))
		return false;
	return bpf_redirect_map(&weir_output, 0, XDP_DROP) == XDP_REDIRECT;
}

SEC("xdp")
int weir_gen_plain(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct weir_thread *thread;
	int verdict;

	thread = weir_thread_of(ctx, cpu, &verdict);
	if (!thread)
		return verdict;
	if (thread->nth >= thread->run.end && !weir_begin_plain(thread))
		return XDP_DROP;
	if (!weir_send_plain(ctx, thread)) {
		thread->counters.refused_packets++;
		return XDP_DROP;
	}
	thread->nth++;
	return XDP_REDIRECT;
}

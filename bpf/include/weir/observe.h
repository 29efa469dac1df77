/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The full mode of the sink: senders, flows, latency and time between arrivals. Maps and the one
 * function that looks at a packet.
 *
 * Latency is the time of arrival less the stamp in the packet, modulo 2^48 ns: both are of
 * CLOCK_MONOTONIC of one host. A difference of 2^47 ns (39 hours) or more means that the stamp is
 * ahead of this clock, so that it is of another host's; it is counted apart. Both are measured of
 * those packets whose time of arrival is read (weir/sampling.h); all else is of every packet.
 */
#ifndef WEIR_OBSERVE_H
#define WEIR_OBSERVE_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/arrival.h>
#include <weir/flows.h>
#include <weir/histogram.h>
#include <weir/sampling.h>
#include <weir/signature.h>
#include <weir/sink.h>
#include <weir/vmlinux.h>

enum weir_observe_constant {
	/* Senders, which are threads of streams, that are followed; others are counted. */
	WEIR_SENDER_COUNT_MAX = 64,
};

/* Every pair of a stream and a thread. */
#define WEIR_DIRECTORY_ENTRIES 65536

/* What is kept for each CPU. */
struct weir_observation {
	__u64 untracked;	/* packets of senders beyond the last one that is followed */
	__u64 elsewhere;	/* packets of queues that came into being later, not followed */
	__u64 unstamped;	/* packets without a time of sending */
	__u64 measured;		/* packets whose time of arrival was read */
	__u64 ahead;		/* of those, packets whose stamp is later than their arrival */
	struct weir_histogram latency_ns;
	struct weir_histogram gap_ns;	/* between two packets of one sender */
	struct weir_histogram extent;	/* of reordered packets, in packets */
};

/* A value of a per-CPU map has at most 32 KiB. */
_Static_assert(sizeof(struct weir_observation) <= 32768, "limit of the kernel");

/* The sizes are those of the full mode; the bare mode loads each map with a single entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_DIRECTORY_ENTRIES);
	__type(key, __u32);
	__type(value, __u32);
} weir_directory SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_SENDER_COUNT_MAX);
	__type(key, __u32);
	__type(value, struct weir_sender);
} weir_senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_SENDER_COUNT_MAX);
	__type(key, __u32);
	__type(value, struct weir_window);
} weir_windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_STREAM_COUNT);
	__type(key, __u32);
	__type(value, struct weir_stream_flows);
} weir_streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_flow_block);
} weir_flows SEC(".maps");

/*
 * Of the only queue. Its receiver runs on one CPU at a time, but may move to another one, where its
 * row goes on.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_follower);
} weir_followers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_observation);
} weir_observations SEC(".maps");

/* Senders that have been given a number. */
static __u32 weir_sender_count;

/*
 * A sender's number from 1; those beyond the limit have one too, but no entry. Two CPUs that meet
 * a new sender at the same time agree on one number, and the other one stays unused.
 */
static __always_inline __u32 weir_sender_number(__u32 *entry)
{
	__u32 number = *entry;
	__u32 other;

	if (number)
		return number;
	number = __sync_fetch_and_add(&weir_sender_count, 1) + 1;
	other = __sync_val_compare_and_swap(entry, 0, number);
	return other ? other : number;
}

/* What is known of a sender's stream beforehand. To do it twice does no harm. */
static __always_inline void weir_sender_begin(struct weir_sender *sender, __u32 stream_thread)
{
	__u32 stream = stream_thread >> 8;
	struct weir_stream_flows *flows = bpf_map_lookup_elem(&weir_streams, &stream);

	sender->stream_thread = stream_thread;
	if (flows) {
		sender->first_block = flows->first_block;
		sender->flow_count = flows->flow_count;
	}
}

/* Whether there are flows of the stream that have not been seen. */
static __always_inline bool weir_lacks_flows(__u32 stream)
{
	struct weir_stream_flows *flows = bpf_map_lookup_elem(&weir_streams, &stream);

	return flows && flows->seen < flows->flow_count;
}

/* Marks `count` flows from `flow` on, which have their bits in one word. */
static __always_inline void weir_observe_flows(__u32 stream, __u64 first_block, __u64 flow,
					       __u64 count)
{
	__u32 index = first_block + flow / WEIR_FLOW_BLOCK_FLOWS;
	struct weir_flow_block *block = bpf_map_lookup_elem(&weir_flows, &index);
	struct weir_stream_flows *flows;
	__u64 new_count;

	if (!block)
		return;
	new_count = weir_flow_mark(block, flow, count);
	if (!new_count)
		return;
	flows = bpf_map_lookup_elem(&weir_streams, &stream);
	if (flows)
		__sync_fetch_and_add(&flows->seen, new_count);
}

/* One packet, as its signature and the clock describe it, and what a sender's state says of it. */
struct weir_arrived {
	__u64 bytes;
	__u64 sequence;
	__u64 stamp_ns;		/* zero: not stamped */
	__u64 now_ns;		/* zero: not measured */
	__u64 last_ns;		/* when the sender's last packet came; zero if that is not known */
	__u32 stream_thread;
	__u32 extent;		/* zero: not reordered */
	bool untracked;
};

/* What does not happen to every packet of a fast stream. */
static __always_inline void weir_observe_rest(const struct weir_arrived *packet)
{
	__u64 now_ns = packet->now_ns;
	__u64 latency_ns = (now_ns - packet->stamp_ns) & WEIR_SIGNATURE_MASK48;
	struct weir_observation *seen;
	__u32 zero = 0;

	seen = bpf_map_lookup_elem(&weir_observations, &zero);
	if (!seen)
		return;
	seen->untracked += packet->untracked;
	if (packet->extent)
		weir_histogram_add(&seen->extent, packet->extent);
	if (!packet->stamp_ns)
		seen->unstamped++;
	if (!now_ns)
		return;
	seen->measured++;
	if (packet->stamp_ns && latency_ns >> 47)
		seen->ahead++;
	else if (packet->stamp_ns)
		weir_histogram_add(&seen->latency_ns, latency_ns);
	/* Clocks are read before the lock is taken, so that CPUs may overtake each other. */
	if (packet->last_ns)
		weir_histogram_add(&seen->gap_ns,
				   now_ns > packet->last_ns ? now_ns - packet->last_ns : 0);
}

/*
 * The number of a sender. `recent` is the last one that this CPU has asked for, with its number in
 * the lower half: mostly it is the same again.
 */
static __always_inline __u32 weir_sender_find(__u64 *recent, __u32 stream_thread)
{
	__u64 known = *recent;
	__u32 *entry;
	__u32 number;

	if ((__u32)known && known >> 32 == stream_thread)
		return known;
	entry = bpf_map_lookup_elem(&weir_directory, &stream_thread);
	if (!entry)
		return 0;
	number = weir_sender_number(entry);
	*recent = (__u64)stream_thread << 32 | number;
	return number;
}

/* Ends the row, if there is one. */
static __always_inline void weir_observe_row(struct weir_follower *follower)
{
	__u32 index = follower->row.number - 1;
	struct weir_sender *sender;
	__u32 stream;

	follower->row.left = 0;
	if (!follower->row.packets)
		return;
	sender = bpf_map_lookup_elem(&weir_senders, &index);
	if (!sender)
		return;
	stream = sender->stream_thread >> 8;
	/* A row that began when all had been seen may have gone on beyond a word. */
	if (sender->flow_count && weir_lacks_flows(stream))
		weir_observe_flows(stream, sender->first_block,
				   weir_flow_of(sender, sender->highest + 1),
				   follower->row.packets);
	weir_row_settle(&follower->row, &follower->sampler, sender);
}

/* Begins a row behind a packet, if that was in order; `flow` is its flow, if flows are known. */
static __always_inline void weir_observe_next(struct weir_follower *follower,
					      const struct weir_sender *sender,
					      const struct weir_arrived *packet, __u32 number,
					      __u64 flow)
{
	__u64 left = 63 - packet->sequence % 64, behind;

	if (!weir_is_in_order(sender, packet->sequence))
		return;
	if (sender->flow_count && weir_lacks_flows(packet->stream_thread >> 8)) {
		behind = weir_flows_behind(flow, sender->flow_count);
		if (behind < left)
			left = behind;
	}
	if (follower->sampler.skip < left)
		left = follower->sampler.skip;
	weir_row_begin(&follower->row, (__u64)packet->stream_thread << 48 | packet->sequence, left,
		       number);
}

/* Follows the packet's sender. False if it cannot be followed. */
static __always_inline bool weir_observe_sender(struct weir_arrived *packet, bool shared,
						struct weir_follower *follower)
{
	__u32 index = weir_sender_find(&follower->recent, packet->stream_thread) - 1;
	struct weir_sender *sender = bpf_map_lookup_elem(&weir_senders, &index);
	struct weir_window *window = 0;
	__u64 flow_count, flow = 0;

	if (!sender)
		return false;
	if (!sender->packets)
		weir_sender_begin(sender, packet->stream_thread);
	flow_count = sender->flow_count;
	if (shared) {
		/* Not under the lock, which allows no call. */
		window = bpf_map_lookup_elem(&weir_windows, &index);
		if (!window)
			return false;
		bpf_spin_lock(&sender->lock);
	}
	sender->begun++;
	barrier();
	if (!weir_arrive_next(sender, packet->sequence)) {
		if (!shared)
			window = bpf_map_lookup_elem(&weir_windows, &index);
		/* There are as many windows as senders. */
		if (window)
			packet->extent = weir_arrive(sender, window, packet->sequence);
	}
	sender->bytes += packet->bytes;
	packet->last_ns = sender->last_ns;
	sender->last_ns = packet->now_ns;
	if (flow_count)
		flow = weir_flow_of(sender, packet->sequence);
	barrier();
	sender->packets++;
	if (shared)
		bpf_spin_unlock(&sender->lock);
	if (flow_count)
		weir_observe_flows(packet->stream_thread >> 8, sender->first_block, flow, 1);
	if (!shared)
		weir_observe_next(follower, sender, packet, index + 1, flow);
	return true;
}

/* A packet of another queue than the one that the sink was loaded for. */
static __always_inline void weir_observe_elsewhere(void)
{
	struct weir_observation *seen;
	__u32 zero = 0;

	seen = bpf_map_lookup_elem(&weir_observations, &zero);
	if (seen)
		seen->elsewhere++;
}

/*
 * Looks at a packet whose signature begins at `payload`, all of which is there.
 *
 * Without WEIR_SINK_SHARED only queue 0 is followed: the kernel never runs one queue's receiver on
 * two CPUs at a time. Queues that were added after the sink was loaded must not interfere.
 */
static __always_inline void weir_observe(const void *payload, __u64 bytes, __u64 mode, __u32 queue,
					 struct weir_follower *follower)
{
	__u64 head = bpf_be64_to_cpu(*(const __u64 *)(payload + 4));
	__u64 stamp_ns = bpf_be64_to_cpu(*(const __u64 *)(payload + 10)) & WEIR_SIGNATURE_MASK48;
	bool shared = mode & WEIR_SINK_SHARED;
	struct weir_arrived packet = {
		.bytes = bytes,
		.sequence = head & WEIR_SIGNATURE_MASK48,
		.stamp_ns = stamp_ns,
		.stream_thread = head >> 48,
	};
	__u32 zero = 0;

	if (!shared) {
		if (queue) {
			weir_observe_elsewhere();
			return;
		}
		follower = bpf_map_lookup_elem(&weir_followers, &zero);
		if (!follower)
			return;
		if (stamp_ns && weir_row_take(&follower->row, &follower->sampler, head, bytes))
			return;
		weir_observe_row(follower);
	}
	packet.now_ns = mode & WEIR_SINK_EVERY ? bpf_ktime_get_ns() :
						 weir_sampler_time(&follower->sampler);
	packet.untracked = !weir_observe_sender(&packet, shared, follower);
	if (packet.now_ns || packet.extent || !packet.stamp_ns || packet.untracked)
		weir_observe_rest(&packet);
}

#endif /* WEIR_OBSERVE_H */

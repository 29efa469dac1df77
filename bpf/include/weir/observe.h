/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The full mode of the sink: senders, flows, latency and time between arrivals. Maps and the one
 * function that looks at a packet.
 *
 * Latency is the time of arrival less the stamp in the packet, modulo 2^48 ns: both are of
 * CLOCK_MONOTONIC of one host. A difference of 2^47 ns (39 hours) or more means that the stamp is
 * ahead of this clock, so that it is of another host's; it is counted apart.
 */
#ifndef WEIR_OBSERVE_H
#define WEIR_OBSERVE_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/arrival.h>
#include <weir/flows.h>
#include <weir/histogram.h>
#include <weir/signature.h>
#include <weir/vmlinux.h>

/* Senders, which are threads of streams, that are followed; packets of others are counted. */
#define WEIR_SENDER_COUNT_MAX 64
/* Every pair of a stream and a thread. */
#define WEIR_DIRECTORY_ENTRIES 65536

/* What is kept for each CPU. Layout known to crates/weir-bpf/src/sink/observe.rs. */
struct weir_observation {
	__u64 untracked;	/* packets of senders beyond the last one that is followed */
	__u64 unstamped;	/* packets without a time of sending */
	__u64 ahead;		/* packets whose stamp is later than their arrival */
	struct weir_histogram latency_ns;
	struct weir_histogram gap_ns;	/* between two packets of one sender */
	struct weir_histogram extent;	/* of reordered packets, in packets */
};

/* A value of a per-CPU map has at most 32 KiB. */
_Static_assert(sizeof(struct weir_observation) == 8 * (3 + 3 * 1155), "observe.rs reads these");
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

static __always_inline void weir_observe_flow(__u32 stream, __u64 sequence)
{
	struct weir_stream_flows *flows = bpf_map_lookup_elem(&weir_streams, &stream);
	struct weir_flow_block *block;
	__u64 flow;
	__u32 index;

	if (!flows || !flows->flow_count)
		return;
	flow = sequence % flows->flow_count;
	index = flows->first_block + flow / WEIR_FLOW_BLOCK_FLOWS;
	block = bpf_map_lookup_elem(&weir_flows, &index);
	if (block && weir_flow_mark(block, flow))
		__sync_fetch_and_add(&flows->seen, 1);
}

static __always_inline void weir_observe_latency(struct weir_observation *seen, __u64 stamp_ns,
						 __u64 now_ns)
{
	__u64 latency_ns = (now_ns - stamp_ns) & WEIR_SIGNATURE_MASK48;

	if (!stamp_ns)
		seen->unstamped++;
	else if (latency_ns >> 47)
		seen->ahead++;
	else
		weir_histogram_add(&seen->latency_ns, latency_ns);
}

static __always_inline void weir_observe_sender(struct weir_observation *seen, __u32 stream_thread,
						__u64 sequence, __u64 bytes, __u64 now_ns)
{
	__u32 *entry = bpf_map_lookup_elem(&weir_directory, &stream_thread);
	struct weir_sender *sender;
	struct weir_window *window;
	__u32 index, extent;
	__u64 last_ns;

	if (!entry)
		return;
	index = weir_sender_number(entry) - 1;
	sender = bpf_map_lookup_elem(&weir_senders, &index);
	window = bpf_map_lookup_elem(&weir_windows, &index);
	if (!sender || !window) {
		seen->untracked++;
		return;
	}
	bpf_spin_lock(&sender->lock);
	extent = weir_arrive(sender, window, sequence);
	sender->stream_thread = stream_thread;
	sender->packets++;
	sender->bytes += bytes;
	last_ns = sender->last_ns;
	sender->last_ns = now_ns;
	bpf_spin_unlock(&sender->lock);
	if (extent)
		weir_histogram_add(&seen->extent, extent);
	/* Clocks are read before the lock is taken, so that CPUs may overtake each other. */
	if (last_ns)
		weir_histogram_add(&seen->gap_ns, now_ns > last_ns ? now_ns - last_ns : 0);
}

/* Looks at a packet whose signature begins at `payload`, all of which is there. */
static __always_inline void weir_observe(const void *payload, __u64 bytes)
{
	__u64 head = bpf_be64_to_cpu(*(const __u64 *)(payload + 4));
	__u64 tail = bpf_be64_to_cpu(*(const __u64 *)(payload + 10));
	__u64 sequence = head & WEIR_SIGNATURE_MASK48;
	__u64 now_ns = bpf_ktime_get_ns();
	struct weir_observation *seen;
	__u32 zero = 0;

	seen = bpf_map_lookup_elem(&weir_observations, &zero);
	if (!seen)
		return;
	weir_observe_latency(seen, tail & WEIR_SIGNATURE_MASK48, now_ns);
	weir_observe_sender(seen, head >> 48, sequence, bytes, now_ns);
	weir_observe_flow(head >> 56, sequence);
}

#endif /* WEIR_OBSERVE_H */

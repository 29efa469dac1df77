// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Receive side scaling by what packets carry: each goes to the CPU of its innermost flow's bucket,
 * through that CPU's queue (BPF_MAP_TYPE_CPUMAP), before the stack has seen it. A packet that is
 * on its CPU already goes on there; so does one without an IP header.
 *
 * weir_rerss is at an interface. weir_rerss_enqueue and weir_rerss_take are told by the kernel what
 * became of packets in the queues (include/trace/events/xdp.h), which the former cannot see: they
 * are put there in bulk when a poll ends. weir_rerss_hash, which no interface gets, only hashes,
 * and notes what it has found: tests and benchmarks run it, and weir_rerss_drop, against which its
 * time is taken. Packets are not changed.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/inner.h>
#include <weir/inner_hash.h>
#include <weir/rerss.h>
#include <weir/rss.h>
#include <weir/toeplitz.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* `queue` of these is a CPU, or WEIR_RERSS_LOCAL. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_RERSS_SLOT_COUNT);
	__type(key, __u32);
	__type(value, struct weir_rss);
} weir_rerss_sets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rerss_control);
} weir_rerss_ctl SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rerss_counters);
} weir_rerss_cnt SEC(".maps");

/* Packets of each bucket; as many as the table has entries. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_rerss_bkts SEC(".maps");

/* The queues, and what is counted of them: as many as there may be CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_rerss_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rerss_queue);
} weir_rerss_que SEC(".maps");

/* What weir_rerss_hash has found. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rerss_seen);
} weir_rerss_saw SEC(".maps");

static __always_inline struct weir_rerss_queue *weir_rerss_queue_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&weir_rerss_que, &cpu);
}

static __always_inline void weir_rerss_count(struct weir_rerss_counters *counters,
					     const struct weir_inner *inner,
					     enum weir_inner_hashed hashed)
{
	__u32 end = inner->end;

	if (end && end < WEIR_INNER_END_COUNT)
		counters->end_packets[end]++;
	if (inner->first_count)
		counters->first_packets++;
	if (hashed == WEIR_INNER_FOLLOWED)
		counters->followed_packets++;
	if (hashed == WEIR_INNER_EARLY)
		counters->early_packets++;
}

/* The CPU of a bucket, seen from this one. */
static __always_inline __u32 weir_rerss_place(const struct weir_rss *rss, __u32 bucket, __u32 here)
{
	__u32 place;

	/* It is not, but the verifier forgets bounds. */
	barrier_var(bucket);
	if (bucket >= WEIR_RSS_BUCKET_COUNT_MAX)
		return here;
	place = rss->queue[bucket];
	return place == WEIR_RERSS_LOCAL ? here : place;
}

/* Whether a bucket is to have had another CPU. */
static __always_inline bool weir_rerss_moves(__u64 state, __u32 bucket, __u32 place, __u32 here)
{
	__u32 other = !(state & WEIR_RERSS_SLOT);
	const struct weir_rss *rss = bpf_map_lookup_elem(&weir_rerss_sets, &other);

	return rss && weir_rerss_place(rss, bucket, here) != place;
}

/* Hands the packet to another CPU. */
static __always_inline int weir_rerss_send(struct weir_rerss_counters *counters, __u32 cpu)
{
	struct weir_rerss_queue *queue = weir_rerss_queue_of(cpu);

	if (!queue || bpf_redirect_map(&weir_rerss_cpus, cpu, XDP_PASS) != XDP_REDIRECT) {
		counters->unplaced_packets++;
		return XDP_PASS;
	}
	queue->sent_packets++;
	return XDP_REDIRECT;
}

SEC("xdp")
int weir_rerss(struct xdp_md *ctx)
{
	__u32 zero = 0, hash = 0, bucket = 0, here = bpf_get_smp_processor_id(), slot, place, key;
	struct weir_rerss_control *control = bpf_map_lookup_elem(&weir_rerss_ctl, &zero);
	struct weir_rerss_counters *counters = bpf_map_lookup_elem(&weir_rerss_cnt, &zero);
	struct weir_inner inner = {};
	enum weir_inner_hashed hashed;
	struct weir_rss *rss;
	__u64 state, *packets;

	if (!control || !counters)
		return XDP_PASS;
	counters->received_packets++;
	state = *(volatile __u64 *)&control->state;
	if (!(state & WEIR_RERSS_ON)) {
		counters->passed_packets++;
		return XDP_PASS;
	}
	slot = state & WEIR_RERSS_SLOT;
	rss = bpf_map_lookup_elem(&weir_rerss_sets, &slot);
	if (!rss)
		return XDP_PASS;
	weir_inner_walk(ctx, &inner);
	hashed = weir_inner_hash(rss, ctx, &inner, control->timeout_ns, &hash);
	weir_rerss_count(counters, &inner, hashed);
	if (hashed == WEIR_INNER_UNHASHED || !weir_rss_bucket_of(rss, hash, &bucket)) {
		counters->unhashed_packets++;
		return XDP_PASS;
	}
	place = weir_rerss_place(rss, bucket, here);
	if (state & WEIR_RERSS_DRAINS && weir_rerss_moves(state, bucket, place, here)) {
		counters->drained_packets++;
		return XDP_DROP;
	}
	key = bucket;
	packets = bpf_map_lookup_elem(&weir_rerss_bkts, &key);
	if (packets)
		(*packets)++;
	if (place != here)
		return weir_rerss_send(counters, place);
	counters->local_packets++;
	return XDP_PASS;
}

static __always_inline bool weir_rerss_is_ours(__u64 map_id)
{
	__u32 zero = 0;
	struct weir_rerss_control *control = bpf_map_lookup_elem(&weir_rerss_ctl, &zero);

	return control && (__u32)map_id == (__u32)control->map_id;
}

/* xdp_cpumap_enqueue: map_id, packets, those of them that were dropped, CPU. */
SEC("raw_tp/xdp_cpumap_enqueue")
int weir_rerss_enqueue(__u64 *ctx)
{
	__u32 packets = ctx[1], drops = ctx[2];
	struct weir_rerss_queue *queue;

	if (!weir_rerss_is_ours(ctx[0]))
		return 0;
	queue = weir_rerss_queue_of(ctx[3]);
	if (queue) {
		queue->queued_packets += packets - drops;
		queue->dropped_packets += drops;
	}
	return 0;
}

/* xdp_cpumap_kthread: map_id, packets, drops; on the CPU itself. */
SEC("raw_tp/xdp_cpumap_kthread")
int weir_rerss_take(__u64 *ctx)
{
	__u32 packets = ctx[1], drops = ctx[2];
	struct weir_rerss_queue *queue;

	if (!(packets | drops) || !weir_rerss_is_ours(ctx[0]))
		return 0;
	queue = weir_rerss_queue_of(bpf_get_smp_processor_id());
	if (queue) {
		queue->taken_packets += packets;
		queue->failed_packets += drops;
	}
	return 0;
}

SEC("xdp")
int weir_rerss_hash(struct xdp_md *ctx)
{
	__u32 zero = 0, hash = 0;
	struct weir_rerss_control *control = bpf_map_lookup_elem(&weir_rerss_ctl, &zero);
	struct weir_rerss_seen *seen = bpf_map_lookup_elem(&weir_rerss_saw, &zero);
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_rerss_sets, &zero);
	struct weir_inner inner = {};

	if (!control || !seen || !rss)
		return XDP_ABORTED;
	weir_inner_walk(ctx, &inner);
	seen->hashed = weir_inner_hash(rss, ctx, &inner, control->timeout_ns, &hash);
	seen->hash = hash;
	seen->end = inner.end;
	seen->levels = inner.level_count;
	return XDP_DROP;
}

SEC("xdp")
int weir_rerss_drop(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct weir_rerss_seen *seen = bpf_map_lookup_elem(&weir_rerss_saw, &zero);

	if (seen)
		seen->hash = 0;
	return XDP_DROP;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every program has that makes packets out of live frames: its threads, the device that it
 * sends to, and the question whether the next packet may go now.
 *
 * Time is read for every packet of a paced thread. One that sends as fast as it can reads it once
 * in WEIR_BURST packets, because a clock costs a third of a packet: as many frames leave together
 * anyway, for the kernel makes that many before it has the device send them.
 */
#ifndef WEIR_SENDING_H
#define WEIR_SENDING_H

#include <bpf/bpf_helpers.h>
#include <weir/histogram.h>
#include <weir/lane.h>
#include <weir/pacing.h>
#include <weir/signature.h>
#include <weir/vmlinux.h>

/* Test runs come in on the loopback device, whose index is 1 in every namespace. */
#define WEIR_LOOPBACK_IFINDEX 1

/* The kernel's default batch of live frames, which senders at full speed use. */
#define WEIR_BURST 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_thread);
} weir_threads SEC(".maps");

/* Times between two packets of paced threads. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_histogram);
} weir_gaps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_output SEC(".maps");

/* Attached to an idle device, a program is only known to the kernel's XDP dispatcher. */
static __always_inline bool weir_is_parked(struct xdp_md *ctx)
{
	return ctx->ingress_ifindex != WEIR_LOOPBACK_IFINDEX;
}

/* The thread of a test run on this CPU. Without one, the program returns the verdict. */
static __always_inline struct weir_thread *weir_thread_of(struct xdp_md *ctx, __u32 cpu,
							  int *verdict)
{
	if (weir_is_parked(ctx)) {
		*verdict = XDP_PASS;
		return 0;
	}
	*verdict = XDP_ABORTED;
	return bpf_map_lookup_elem(&weir_threads, &cpu);
}

/* Whether a paced thread's next packet may go now; the time between packets is counted if so. */
static __always_inline bool weir_is_due(struct weir_thread *thread, __u64 now_ns)
{
	__u64 sent_ns = thread->pacer.sent_ns;
	struct weir_histogram *gaps;
	__u32 zero = 0;

	if (!weir_pacer_take(&thread->pacer, &thread->counters.pacer, now_ns))
		return false;
	gaps = bpf_map_lookup_elem(&weir_gaps, &zero);
	if (gaps && sent_ns)
		weir_histogram_add(gaps, now_ns - sent_ns);
	return true;
}

/*
 * Whether the thread's next packet may go now; otherwise it is counted why not. The stamp is then
 * the present time, or for a thread that is not paced the time at which its burst began.
 */
static __always_inline bool weir_may_send(struct weir_thread *thread, __u64 *stamp)
{
	__u64 nth = thread->nth, flags = thread->flags;
	__u64 now_ns;

	if (nth >= thread->nth_end) {
		if (flags & WEIR_THREAD_ENABLED)
			thread->counters.over_limit_packets++;
		else
			thread->counters.refused_packets++;
		return false;
	}
	if (flags & WEIR_THREAD_PACED) {
		now_ns = bpf_ktime_get_ns();
		if (!weir_is_due(thread, now_ns))
			return false;
		*stamp = flags & WEIR_THREAD_STAMPED ? now_ns & WEIR_SIGNATURE_MASK48 : 0;
		return true;
	}
	*stamp = thread->stamp_ns;
	if ((!(nth % WEIR_BURST) || !*stamp) && flags & WEIR_THREAD_STAMPED) {
		*stamp = bpf_ktime_get_ns() & WEIR_SIGNATURE_MASK48;
		thread->stamp_ns = *stamp;
	}
	return true;
}

#endif /* WEIR_SENDING_H */

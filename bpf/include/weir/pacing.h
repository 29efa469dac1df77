/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pacing: one packet per interval, an interval being whole nanoseconds and a fraction of 2^-32 ns.
 *
 * The first packet is due when it is asked for. A packet that is late shortens the wait for the
 * next ones, so that the rate holds over time, with two bounds: packets are never closer than half
 * an interval, so that a stall is made up for at twice the rate and not by a burst at full speed
 * that overflows the next queue; and what a stall of more than catch_up_ns held up is lost, and
 * counted.
 */
#ifndef WEIR_PACING_H
#define WEIR_PACING_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

struct weir_pacer {
	__u64 interval_ns;
	__u64 interval_fraction;	/* 2^-32 ns, below 2^32 */
	__u64 catch_up_ns;
	__u64 due_ns;			/* CLOCK_MONOTONIC; zero before the first packet */
	__u64 due_fraction;
	__u64 sent_ns;			/* when the last packet went; zero before the first */
};

struct weir_pacer_counters {
	__u64 early;		/* asked for a packet before it was due */
	__u64 stalls;		/* packets later than catch_up_ns */
	__u64 lost_ns;		/* time that stalls took out of the schedule */
	__u64 gap_max_ns;	/* longest time between two packets */
};

/* True if a packet may go now; it is then taken off the schedule. */
static __always_inline bool weir_pacer_take(struct weir_pacer *pacer,
					    struct weir_pacer_counters *counters, __u64 now_ns)
{
	__u64 due_ns = pacer->due_ns;
	__u64 fraction;

	if (now_ns < due_ns || now_ns - pacer->sent_ns < pacer->interval_ns / 2) {
		counters->early++;
		return false;
	}
	if (!due_ns) {
		due_ns = now_ns;
	} else {
		if (now_ns - pacer->sent_ns > counters->gap_max_ns)
			counters->gap_max_ns = now_ns - pacer->sent_ns;
		if (now_ns - due_ns > pacer->catch_up_ns) {
			counters->stalls++;
			counters->lost_ns += now_ns - due_ns - pacer->catch_up_ns;
			due_ns = now_ns - pacer->catch_up_ns;
		}
	}
	fraction = pacer->due_fraction + pacer->interval_fraction;
	pacer->due_ns = due_ns + pacer->interval_ns + (fraction >> 32);
	pacer->due_fraction = fraction & 0xffffffff;
	pacer->sent_ns = now_ns;
	return true;
}

#endif /* WEIR_PACING_H */

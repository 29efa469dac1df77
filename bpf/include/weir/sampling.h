/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When the sink reads the clock. This is the one place with the rule and its constants.
 *
 * Reading the clock costs about 30 ns, a quarter of what it costs to receive a small packet: to
 * read it for every packet would make the sink the bottleneck that it must not be. So a CPU that
 * receives more than a packet per microsecond (WEIR_EPOCH_PACKETS within WEIR_EPOCH_NS) reads it
 * for WEIR_SAMPLE_RUN packets in a row out of WEIR_SAMPLE_PERIOD; below that, for every packet. A
 * row, because the time between two packets of one sender needs both their times, and the packets
 * of several senders may alternate. The period is a prime, so that it beats against the kernel's
 * batches of 64 packets and against regular streams: no place in a batch is preferred.
 *
 * A packet whose time was not read is not measured; no time is ever used for another packet. What
 * was measured is counted. After a pause the next packet is measured at once: the kernel's tick,
 * which costs a load from memory, has moved on since the clock was last read.
 */
#ifndef WEIR_SAMPLING_H
#define WEIR_SAMPLING_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

/* The rate over which packets are sampled, packets per second: 1,024 in 1,024 µs are 1 Mpps. */
#define WEIR_EPOCH_PACKETS 1024
#define WEIR_EPOCH_NS 1024000
#define WEIR_SAMPLE_RUN 8
#define WEIR_SAMPLE_PERIOD 251
#define WEIR_SAMPLE_SKIP (WEIR_SAMPLE_PERIOD - WEIR_SAMPLE_RUN)

/* One for each CPU. An epoch ends with the first of both: enough packets, or enough time. */
struct weir_sampler {
	__u64 epoch_ns;		/* when this epoch began */
	__u64 epoch_packets;	/* that came since, those to be skipped included */
	__u64 tick;		/* jiffies when the clock was last read */
	__u64 skip;		/* packets that are not to be measured before the next one is */
	__u64 run;		/* packets measured in a row */
	__u64 sampling;		/* whether the last epoch ended with packets */
};

/* The time, nanoseconds of CLOCK_MONOTONIC, or 0: this packet is not measured. */
static __always_inline __u64 weir_sampler_time(struct weir_sampler *sampler)
{
	__u64 tick = bpf_jiffies64();
	__u64 now_ns;

	if (sampler->skip) {
		sampler->skip--;
		if (tick == sampler->tick)
			return 0;
		sampler->epoch_packets -= sampler->skip;
		sampler->skip = 0;
	}
	now_ns = bpf_ktime_get_ns();
	sampler->tick = tick;
	sampler->epoch_packets++;
	if (now_ns - sampler->epoch_ns >= WEIR_EPOCH_NS) {
		sampler->sampling = 0;
		sampler->epoch_ns = now_ns;
		sampler->epoch_packets = 0;
	} else if (sampler->epoch_packets >= WEIR_EPOCH_PACKETS) {
		sampler->sampling = 1;
		sampler->epoch_ns = now_ns;
		sampler->epoch_packets = 0;
	}
	if (sampler->sampling && ++sampler->run >= WEIR_SAMPLE_RUN) {
		sampler->run = 0;
		sampler->skip = WEIR_SAMPLE_SKIP;
		sampler->epoch_packets += WEIR_SAMPLE_SKIP;
	}
	return now_ns;
}

#endif /* WEIR_SAMPLING_H */

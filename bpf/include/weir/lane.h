/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lane: what one CPU sends and how far it has come. The control process writes a lane while its
 * CPU sends nothing; while it sends, only that CPU touches it.
 *
 * The control process knows these layouts by their offsets (crates/weir-bpf/src/generator/lane.rs
 * and counters.rs): every field has 64 bits, in this order.
 */
#ifndef WEIR_LANE_H
#define WEIR_LANE_H

#include <weir/odometer.h>
#include <weir/pacing.h>
#include <weir/vmlinux.h>

#define WEIR_LANE_COUNT_MAX 1024

#define WEIR_LANE_ENABLED (1ULL << 0)
#define WEIR_LANE_PACED (1ULL << 1)
#define WEIR_LANE_STAMPED (1ULL << 2)

/* Bytes 0..24 of a frame, up to the IPv4 checksum, are the same in every packet of a stream. */
#define WEIR_FRAME_CONSTANT_WORDS 3

struct weir_lane {
	__u64 flags;
	__u64 size_bytes;	/* of the frame, without FCS */
	__u64 sequence;		/* of the next packet */
	__u64 sequence_end;	/* first sequence number that is not sent */
	__u64 sequence_step;	/* number of threads */
	/* As they lie in the frame. */
	__u64 constant[WEIR_FRAME_CONSTANT_WORDS];
	__u64 udp_bytes;	/* UDP length field */
	__u64 stream_thread;	/* stream << 8 | thread */
	__u64 ipv4_sum;		/* of all header words but the addresses */
	__u64 udp_sum;		/* of pseudo-header, header and payload words that never change */
	struct weir_odometer odometer;
	struct weir_pacer pacer;
};

struct weir_lane_counters {
	__u64 offered_packets;		/* handed to the output device */
	__u64 offered_bytes;
	__u64 over_limit_packets;	/* asked for beyond sequence_end */
	__u64 refused_packets;		/* no output device, no lane, or a buffer of another size */
	struct weir_pacer_counters pacer;
};

_Static_assert(sizeof(struct weir_lane) == 8 * 35, "lane.rs writes 35 words");
_Static_assert(sizeof(struct weir_lane_counters) == 8 * 8, "counters.rs reads 8 words");

#endif /* WEIR_LANE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The order in which a stream visits its flows: an odometer that turns from packet to packet, or
 * four digits drawn for each packet from a seed and its sequence number (weir_wire::walk).
 *
 * A digit's value is a port, an IPv4 address, or the one group of an IPv6 address that varies.
 */
#ifndef WEIR_WALK_H
#define WEIR_WALK_H

#include <bpf/bpf_helpers.h>
#include <weir/odometer.h>
#include <weir/random.h>
#include <weir/vmlinux.h>

struct weir_walk {
	__u64 random;	/* zero: odometer */
	__u64 seed;
	struct weir_odometer odometer;
};

/* One packet's flow. */
struct weir_flow {
	__u64 src_port;
	__u64 src;
	__u64 dst_port;
	__u64 dst;
};

static __always_inline __u64 weir_digit_draw(const struct weir_digit *digit, __u32 draw)
{
	return digit->last + 1 - digit->count + weir_below(digit->count, draw);
}

/* The flow of the packet that the odometer stands at. */
static __always_inline void weir_walk_read(const struct weir_walk *walk, struct weir_flow *flow)
{
	const struct weir_digit *digit = walk->odometer.digit;

	flow->src_port = digit[WEIR_DIGIT_SRC_PORT].value;
	flow->src = digit[WEIR_DIGIT_SRC_ADDR].value;
	flow->dst_port = digit[WEIR_DIGIT_DST_PORT].value;
	flow->dst = digit[WEIR_DIGIT_DST_ADDR].value;
}

/* The flow of packet number `sequence` of a random walk. */
static __always_inline void weir_walk_draw(const struct weir_walk *walk, __u64 sequence,
					   struct weir_flow *flow)
{
	const struct weir_digit *digit = walk->odometer.digit;
	__u64 src = weir_splitmix64(walk->seed, 2 * sequence);
	__u64 dst = weir_splitmix64(walk->seed, 2 * sequence + 1);

	flow->src_port = weir_digit_draw(&digit[WEIR_DIGIT_SRC_PORT], src >> 32);
	flow->src = weir_digit_draw(&digit[WEIR_DIGIT_SRC_ADDR], src);
	flow->dst_port = weir_digit_draw(&digit[WEIR_DIGIT_DST_PORT], dst >> 32);
	flow->dst = weir_digit_draw(&digit[WEIR_DIGIT_DST_ADDR], dst);
}

#endif /* WEIR_WALK_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow odometer: four digits, of which the source port turns fastest, then the source address,
 * the destination port and the destination address.
 *
 * A turn adds a step to every digit, with carry: the step of a single thread is one flow (1, 0, 0,
 * 0); that of n threads, each of which sends every n-th packet, is n written in the digits'
 * radices. The step of a digit is below its count, so that one subtraction brings it back into its
 * range.
 */
#ifndef WEIR_ODOMETER_H
#define WEIR_ODOMETER_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

enum weir_digit_index {
	WEIR_DIGIT_SRC_PORT,
	WEIR_DIGIT_SRC_ADDR,
	WEIR_DIGIT_DST_PORT,
	WEIR_DIGIT_DST_ADDR,
	WEIR_DIGIT_COUNT,
};

struct weir_digit {
	__u64 value;	/* what the next packet carries */
	__u64 last;	/* highest value */
	__u64 count;	/* number of values */
	__u64 step;	/* what a turn adds, below count */
};

struct weir_odometer {
	struct weir_digit digit[WEIR_DIGIT_COUNT];
	__u64 steps;	/* digits up to the last one whose step is not zero */
	__u64 first;	/* the first digit whose step is not zero: those before it never turn */
};

/* Adds the digit's step and a carry; returns the carry into the next digit. */
static __always_inline __u64 weir_digit_add(struct weir_digit *digit, __u64 carry)
{
	__u64 value = digit->value + digit->step + carry;

	carry = value > digit->last;
	digit->value = carry ? value - digit->count : value;
	return carry;
}

/* Written out, because compilers do not unroll a loop with this exit, and it runs per packet. */
static __always_inline void weir_odometer_turn(struct weir_odometer *odometer)
{
	__u64 carry = 0;

	/* Ports are often the same in all flows. */
	if (odometer->first == WEIR_DIGIT_SRC_PORT) {
		carry = weir_digit_add(&odometer->digit[WEIR_DIGIT_SRC_PORT], 0);
		if (!carry && odometer->steps <= WEIR_DIGIT_SRC_ADDR)
			return;
	}
	carry = weir_digit_add(&odometer->digit[WEIR_DIGIT_SRC_ADDR], carry);
	if (!carry && odometer->steps <= WEIR_DIGIT_DST_PORT)
		return;
	carry = weir_digit_add(&odometer->digit[WEIR_DIGIT_DST_PORT], carry);
	if (!carry && odometer->steps <= WEIR_DIGIT_DST_ADDR)
		return;
	weir_digit_add(&odometer->digit[WEIR_DIGIT_DST_ADDR], carry);
}

#endif /* WEIR_ODOMETER_H */

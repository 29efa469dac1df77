/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short way to write a plain frame (see gen.bpf.c): packets of one thread come in runs, in
 * which every word of the frame grows by the same amount from packet to packet, checksums included.
 * What a run's words begin with and grow by is worked out once; a packet then costs one
 * multiplication a word.
 *
 * A run ends where that stops being true: at the end of a burst, whose packets carry one time;
 * where a digit of the flow would leave its range; and where a checksum would reach zero, for what
 * comes after is not one less but 0xfffe (and a zero in UDP means that there is none).
 */
#ifndef WEIR_PLAIN_H
#define WEIR_PLAIN_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/checksum.h>
#include <weir/lane.h>
#include <weir/signature.h>
#include <weir/vmlinux.h>

/* Bytes of a plain frame up to the end of its signature. */
#define WEIR_PLAIN_BYTES 60

/* As many packets of `count` as a value can go through before it exceeds `last`. */
static __always_inline __u64 weir_run_fit(__u64 count, __u64 value, __u64 last, __u64 step)
{
	if (value + (count - 1) * step <= last)
		return count;
	/* One thread steps by one, and a division costs as much as half a packet. */
	return (step == 1 ? last - value : (last - value) / step) + 1;
}

static __always_inline __u64 weir_run_fit_digit(__u64 count, const struct weir_digit *digit)
{
	return weir_run_fit(count, digit->value, digit->last, digit->step);
}

/* Word `index` of the run's first packet, and what is added to it with each packet after it. */
static __always_inline void weir_run_word(struct weir_run *run, __u32 index, __u64 nth, __u64 word,
					  __u64 turn)
{
	/* All modulo 2^64: no part of a word leaves its bits within a run. */
	run->base[index] = word - nth * turn;
	run->turn[index] = turn;
}

/* Takes the lane past the run. */
static __always_inline void weir_run_pass(struct weir_lane *lane, __u64 count)
{
	struct weir_digit *digit = lane->walk.odometer.digit;

	lane->sequence += count * lane->sequence_step;
	digit[WEIR_DIGIT_SRC_PORT].value += (count - 1) * digit[WEIR_DIGIT_SRC_PORT].step;
	digit[WEIR_DIGIT_SRC_ADDR].value += (count - 1) * digit[WEIR_DIGIT_SRC_ADDR].step;
	digit[WEIR_DIGIT_DST_PORT].value += (count - 1) * digit[WEIR_DIGIT_DST_PORT].step;
	digit[WEIR_DIGIT_DST_ADDR].value += (count - 1) * digit[WEIR_DIGIT_DST_ADDR].step;
	weir_odometer_turn(&lane->walk.odometer);
}

/* Begins a run of at most `count` packets with the thread's next one, all with the same stamp. */
static __always_inline void weir_run_begin(struct weir_thread *thread, __u64 count, __u64 stamp)
{
	struct weir_lane *lane = &thread->lane;
	const struct weir_digit *digit = lane->walk.odometer.digit;
	const struct weir_digit *src = &digit[WEIR_DIGIT_SRC_ADDR];
	const struct weir_digit *dst = &digit[WEIR_DIGIT_DST_ADDR];
	const struct weir_digit *src_port = &digit[WEIR_DIGIT_SRC_PORT];
	const struct weir_digit *dst_port = &digit[WEIR_DIGIT_DST_PORT];
	__u64 sequence = lane->sequence & WEIR_SIGNATURE_MASK48;
	__u64 addr_turn = src->step + dst->step;
	__u64 turn = addr_turn + src_port->step + dst_port->step + lane->sequence_step;
	__u64 ip_checksum = weir_checksum(lane->ip_sum + src->value + dst->value);
	__u64 checksum = weir_checksum_udp(lane->transport_sum + src->value + dst->value +
					   src_port->value + dst_port->value +
					   (sequence >> 32) + (__u32)sequence +
					   (stamp >> 32) + (__u32)stamp);
	struct weir_run *run = &thread->run;
	__u64 nth = thread->nth;

	count = weir_run_fit_digit(count, src_port);
	count = weir_run_fit_digit(count, src);
	count = weir_run_fit_digit(count, dst_port);
	count = weir_run_fit_digit(count, dst);
	/* The destination address lies in two words. */
	count = weir_run_fit(count, (__u16)dst->value, 0xffff, dst->step);
	count = weir_run_fit(count, sequence, WEIR_SIGNATURE_MASK48, lane->sequence_step);
	count = weir_run_fit(count, 0, ip_checksum, addr_turn);
	count = weir_run_fit(count, 1, checksum, turn);

	weir_run_word(run, 0, nth, ip_checksum << 48 | src->value << 16 | dst->value >> 16,
		      (src->step << 16) - (addr_turn << 48));
	weir_run_word(run, 1, nth,
		      dst->value << 48 | src_port->value << 32 | dst_port->value << 16 |
			      lane->plain_length,
		      (dst->step << 48) + (src_port->step << 32) + (dst_port->step << 16));
	weir_run_word(run, 2, nth, checksum << 48 | lane->plain_signature, -(turn << 48));
	weir_run_word(run, 3, nth, sequence << 16 | stamp >> 32, lane->sequence_step << 16);
	run->tail = bpf_htonl((__u32)stamp);
	run->end = nth + count;
	weir_run_pass(lane, count);
}

static __always_inline void weir_run_store(void *at, const struct weir_run *run, __u32 index,
					   __u64 nth)
{
	*(__u64 *)at = bpf_cpu_to_be64(run->base[index] + nth * run->turn[index]);
}

/* Writes bytes 0..60 of the thread's next frame, which is in its run. False if it has no room. */
static __always_inline bool weir_write_plain(void *data, void *data_end,
					     const struct weir_thread *thread)
{
	const struct weir_run *run = &thread->run;
	__u64 nth = thread->nth;

	if (data + WEIR_PLAIN_BYTES > data_end)
		return false;
	*(__u64 *)(data + 0) = thread->lane.link[0];
	*(__u64 *)(data + 8) = thread->lane.link[1];
	*(__u64 *)(data + 16) = thread->lane.link[2];
	weir_run_store(data + 24, run, 0, nth);
	weir_run_store(data + 32, run, 1, nth);
	weir_run_store(data + 40, run, 2, nth);
	weir_run_store(data + 48, run, 3, nth);
	*(__u32 *)(data + 56) = (__u32)run->tail;
	return true;
}

#endif /* WEIR_PLAIN_H */

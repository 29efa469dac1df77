/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What became of the packets of one sender, which is one thread of one stream: duplicated,
 * reordered (RFC 4737), too late to tell. Loss follows from these: the control process subtracts.
 *
 * A window of sequence numbers below the highest one that has arrived says of each whether it has
 * arrived. It moves by words of 64 numbers and reaches back at least WEIR_WINDOW_REACH numbers;
 * a packet from before it may be late or a duplicate, which cannot be told, and counts as too
 * late. A packet is reordered if a higher number has arrived before it. Its extent is the number
 * of packets that arrived from the first higher one on; that one raised the highest number when it
 * came, so that only such packets' places in the order of arrival are kept. Duplicates take no
 * part: only the first copy of a packet is considered, as RFC 4737 has it.
 *
 * Several CPUs may receive one sender's packets: each packet is judged under the sender's lock,
 * and the order in which CPUs take it is the order of arrival. Packets of different queues have no
 * other order that could be known.
 *
 * Sequence numbers are those on the wire, of 48 bits: a sender is followed up to number 2^48 - 1,
 * which takes 300 days at 10 Mpps, and not beyond.
 */
#ifndef WEIR_ARRIVAL_H
#define WEIR_ARRIVAL_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

#define WEIR_WINDOW_WORDS 1024
#define WEIR_WINDOW_NUMBERS (WEIR_WINDOW_WORDS * 64)
#define WEIR_WINDOW_REACH (WEIR_WINDOW_NUMBERS - 64)

/* Layout known to crates/weir-bpf/src/sink/observe.rs. */
struct weir_sender {
	struct bpf_spin_lock lock;
	__u32 reserved;
	__u64 stream_thread;	/* stream << 8 | thread */
	__u64 packets;		/* all; zero if the sender is not in use */
	__u64 bytes;
	__u64 duplicated;
	__u64 reordered;
	__u64 too_late;
	__u64 first;		/* lowest sequence number that has arrived */
	__u64 highest;		/* highest one */
	__u64 extent_max;
	__u64 last_ns;		/* when the last packet arrived */
};

/* 64 sequence numbers: which have arrived, and which raised the highest number when they came. */
struct weir_window_word {
	__u64 arrived;
	__u64 raised;
};

struct weir_window {
	struct weir_window_word word[WEIR_WINDOW_WORDS];
	__u32 place[WEIR_WINDOW_NUMBERS];	/* in the order of arrival, of those that raised */
	__u64 found_number;			/* of weir_window_overtaker() */
	__u64 found_raised;
};

/* Forgets what the words after word number `from`, up to `to`, have said of older numbers. */
static __always_inline void weir_window_advance(struct weir_window *window, __u64 from, __u64 to)
{
	__u64 count = to - from;
	__u32 i;

	for (i = 1; i <= WEIR_WINDOW_WORDS && i <= count; i++) {
		struct weir_window_word *word = &window->word[(from + i) % WEIR_WINDOW_WORDS];

		word->arrived = 0;
		word->raised = 0;
	}
}

/* Place of the lowest bit of a word that is not zero. */
static __always_inline __u32 weir_lowest_bit(__u64 word)
{
	__u32 place = 0;

	if (!(__u32)word) {
		place = 32;
		word >>= 32;
	}
	if (!(__u16)word) {
		place += 16;
		word >>= 16;
	}
	if (!(__u8)word) {
		place += 8;
		word >>= 8;
	}
	if (!(word & 0xf)) {
		place += 4;
		word >>= 4;
	}
	if (!(word & 0x3)) {
		place += 2;
		word >>= 2;
	}
	return place + !(word & 1);
}

/*
 * Place in the order of arrival of the first packet with a higher number than `sequence`.
 *
 * What is found goes through memory, so that the verifier forgets in which turn of the loop it was
 * found: it would otherwise follow each turn to the program's end.
 */
static __always_inline __u32 weir_window_overtaker(struct weir_window *window, __u64 sequence)
{
	__u64 number = sequence / 64;
	/* The bits above the packet's own. */
	__u64 mask = ~1ULL << (sequence % 64);
	__u64 found;
	__u32 i;

	for (i = 0; i < WEIR_WINDOW_WORDS; i++) {
		__u64 raised = window->word[(number + i) % WEIR_WINDOW_WORDS].raised & mask;

		/* The highest number is in the window, and has raised itself: there is one. */
		if (raised) {
			window->found_raised = raised;
			window->found_number = number + i;
			break;
		}
		mask = ~0ULL;
	}
	barrier();
	found = window->found_number * 64 + weir_lowest_bit(window->found_raised);
	return window->place[found % WEIR_WINDOW_NUMBERS];
}

/* A packet with a number above all others. */
static __always_inline void weir_arrive_ahead(struct weir_sender *sender,
					      struct weir_window *window, __u64 sequence,
					      __u32 place)
{
	struct weir_window_word *word = &window->word[(sequence / 64) % WEIR_WINDOW_WORDS];
	__u64 bit = 1ULL << (sequence % 64);

	if (sender->packets && sequence / 64 != sender->highest / 64)
		weir_window_advance(window, sender->highest / 64, sequence / 64);
	sender->highest = sequence;
	word->arrived |= bit;
	word->raised |= bit;
	window->place[sequence % WEIR_WINDOW_NUMBERS] = place;
}

/*
 * Judges one packet, under the sender's lock. Returns its extent: zero unless it is reordered.
 */
static __always_inline __u32 weir_arrive(struct weir_sender *sender, struct weir_window *window,
					 __u64 sequence)
{
	__u32 place = sender->packets - sender->duplicated - sender->too_late;
	struct weir_window_word *word;
	__u64 bit = 1ULL << (sequence % 64);
	__u32 extent;

	if (!sender->packets || sequence > sender->highest) {
		if (!sender->packets)
			sender->first = sequence;
		weir_arrive_ahead(sender, window, sequence, place);
		return 0;
	}
	if (sender->highest / 64 - sequence / 64 >= WEIR_WINDOW_WORDS) {
		sender->too_late++;
		return 0;
	}
	word = &window->word[(sequence / 64) % WEIR_WINDOW_WORDS];
	if (word->arrived & bit) {
		sender->duplicated++;
		return 0;
	}
	word->arrived |= bit;
	sender->reordered++;
	if (sequence < sender->first)
		sender->first = sequence;
	extent = place - weir_window_overtaker(window, sequence);
	if (extent > sender->extent_max)
		sender->extent_max = extent;
	return extent;
}

_Static_assert(sizeof(struct weir_sender) == 8 * 11, "observe.rs reads 11 words");

#endif /* WEIR_ARRIVAL_H */

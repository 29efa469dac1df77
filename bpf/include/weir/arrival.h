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
 * other order that could be known. Where one queue is all there is, no lock is taken; `begun` and
 * `packets` then tell a reader whether it has met a packet half-way: they are the first and the
 * last thing that a packet changes, and are read in the opposite order.
 *
 * Sequence numbers are those on the wire, of 48 bits: a sender is followed up to number 2^48 - 1,
 * which takes 300 days at 10 Mpps, and not beyond.
 */
#ifndef WEIR_ARRIVAL_H
#define WEIR_ARRIVAL_H

#include <bpf/bpf_helpers.h>
#include <weir/vmlinux.h>

enum weir_window_constant {
	WEIR_WINDOW_WORDS = 1024,
	WEIR_WINDOW_NUMBERS = WEIR_WINDOW_WORDS * 64,
	WEIR_WINDOW_REACH = WEIR_WINDOW_NUMBERS - 64,
};

/* The control process reads words: but for the first two, every field has 64 bits. */
struct weir_sender {
	struct bpf_spin_lock lock;
	__u32 block_reordered;	/* word.reordered of the window's word of `highest` */
	__u64 stream_thread;	/* stream << 8 | thread */
	__u64 packets;		/* all; zero if the sender is not in use */
	__u64 bytes;
	__u64 duplicated;
	__u64 reordered;
	__u64 too_late;
	__u64 first;		/* lowest sequence number that has arrived */
	__u64 highest;		/* highest one */
	__u64 extent_max;
	__u64 last_ns;		/* when the last packet arrived; zero if it was not measured */
	__u64 flow_count;	/* of the stream; zero if it is not known */
	__u64 first_block;	/* of the stream's flows */
	__u64 flow;		/* of number flow_sequence */
	__u64 flow_sequence;	/* the last number whose flow was looked for */
	__u64 pending;		/* bits of the window's word of `highest`, not yet set there */
	__u64 begun;		/* packets, counted before anything else is changed */
};

/*
 * 64 sequence numbers: which have arrived, and which raised the highest number when they came. The
 * place of the first that raised it is `first_place`. One that came later has a place higher by
 * the number of those between them, unless reordered packets have come in between: only then is it
 * written down. A stream in order thus touches no memory but these words.
 */
struct weir_window_word {
	__u64 arrived;
	__u64 raised;
	__u64 placed;		/* those whose place is in weir_window.place */
	__u32 first_place;
	__u32 reordered;	/* of the sender, when the first one came; modulo 2^32 */
};

struct weir_window {
	struct weir_window_word word[WEIR_WINDOW_WORDS];
	__u32 place[WEIR_WINDOW_NUMBERS];	/* in the order of arrival, of those `placed` */
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
		word->placed = 0;
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

static __always_inline __u32 weir_bit_count(__u64 word)
{
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return word * 0x0101010101010101ULL >> 56;
}

/* Place of a packet that raised the highest number. */
static __always_inline __u32 weir_window_place(const struct weir_window *window, __u64 sequence)
{
	const struct weir_window_word *word = &window->word[(sequence / 64) % WEIR_WINDOW_WORDS];
	__u64 bit = 1ULL << (sequence % 64);

	if (word->placed & bit)
		return window->place[sequence % WEIR_WINDOW_NUMBERS];
	return word->first_place + weir_bit_count(word->raised & (bit - 1));
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
	return weir_window_place(window, found);
}

/*
 * The short way for a packet with a number above all others, in the same word as the highest one,
 * in which nothing was reordered: it is only noted in the sender. False if it is not such a one.
 */
static __always_inline bool weir_arrive_next(struct weir_sender *sender, __u64 sequence)
{
	__u64 highest = sender->highest;

	if (!sender->packets || sequence <= highest || (sequence ^ highest) / 64 ||
	    sender->block_reordered != (__u32)sender->reordered)
		return false;
	sender->highest = sequence;
	sender->pending |= 1ULL << (sequence % 64);
	return true;
}

/* Whether that is the highest number, and the next one may come the short way. */
static __always_inline bool weir_is_in_order(const struct weir_sender *sender, __u64 sequence)
{
	return sender->highest == sequence &&
	       sender->block_reordered == (__u32)sender->reordered;
}

/* Brings the window up to what was noted in the sender. */
static __always_inline void weir_window_settle(struct weir_sender *sender,
					       struct weir_window *window)
{
	struct weir_window_word *word =
		&window->word[(sender->highest / 64) % WEIR_WINDOW_WORDS];

	word->arrived |= sender->pending;
	word->raised |= sender->pending;
	sender->pending = 0;
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
	if (!word->raised) {
		word->first_place = place;
		word->reordered = sender->reordered;
	} else if (word->reordered != (__u32)sender->reordered) {
		word->placed |= bit;
		window->place[sequence % WEIR_WINDOW_NUMBERS] = place;
	}
	sender->block_reordered = word->reordered;
	word->arrived |= bit;
	word->raised |= bit;
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

	weir_window_settle(sender, window);
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

#endif /* WEIR_ARRIVAL_H */

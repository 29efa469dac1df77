/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which rules may take a packet, by bit vectors (T. V. Lakshman, D. Stiliadis: High-speed
 * policy-based packet forwarding using efficient multi-dimensional range matching, SIGCOMM 1998).
 *
 * Each of seven dimensions of a packet (hook and interface, family and protocol, source,
 * destination, source port, destination port, TCP flags or ICMP type) has for each of its values
 * the set of the rules that the value does not rule out. Their intersection, word by word, leaves
 * the candidates; they are asked in their order, as if the others were not there. A set may hold
 * too many rules, never too few: tables, negations, tags and chance are left to the asking. A rule
 * in an anchor is in no set that the anchor's own rule is not in.
 *
 * A summary, a bit for each word that is not zero, skips words. Where a dimension has many values
 * (addresses, ports), a set is the dimension's base, the rules that do not look at it, and the few
 * words by which the value's set differs, so that memory grows with the rules, not their square.
 */
#ifndef WEIR_FW_CLASSIFY_H
#define WEIR_FW_CLASSIFY_H

#include <bpf/bpf_endian.h>
#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/loop.h>

/* Words of a set that one word of its summary covers. */
enum weir_fw_classify_constant {
	WEIR_FW_CHUNK_WORDS = 64,
};

/* A dimension whose values are ranges of numbers. */
struct weir_fw_dimension {
	__u32 base;		/* set of the rules that do not look at it */
	__u32 bound_count;
	__u32 bounds_at;	/* ascending: __u32[], of IPv6 __u64[][2] */
	__u32 sets_at;		/* __u32[bound_count + 1]: what comes to the base: by how many
				 * bounds are not above the value */
};

enum weir_fw_dimension_index {
	WEIR_FW_DIMENSION_FROM4,
	WEIR_FW_DIMENSION_TO4,
	WEIR_FW_DIMENSION_FROM6,
	WEIR_FW_DIMENSION_TO6,
	WEIR_FW_DIMENSION_FROM_PORT,
	WEIR_FW_DIMENSION_TO_PORT,
	WEIR_FW_DIMENSION_COUNT,
};

/*
 * Sets are offsets in the image of __u64 summary[chunk_count], __u64 words[word_count]; what comes
 * to a base is a struct weir_fw_addition[chunk_count].
 */
struct weir_fw_classes {
	__u32 word_count;
	__u32 chunk_count;
	__u32 hooks_at;		/* __u32[2][64]: sets by direction and slot */
	__u32 kinds_at;		/* __u32[2][256]: sets by family and protocol */
	__u32 tcp_at;		/* __u32[256]: sets by flags */
	__u32 icmp_at;		/* __u32[256]: sets by type */
	__u32 fragment;		/* set of the rules that may take a fragment */
	__u32 all;		/* set of all rules */
	__u32 nothing;		/* what comes to a base where nothing does */
	__u32 unused;
	struct weir_fw_dimension dimension[WEIR_FW_DIMENSION_COUNT];
};

struct weir_fw_addition {
	__u64 summary;
	__u32 words_at;		/* as many words as the summary has bits, in the image */
	__u32 unused;
};

/* The number of bounds that are not above a value, less one if it is above 0: without branches. */
static __always_inline __u32 weir_fw_bounds_below(__u32 bounds_at, __u32 count, __u32 value)
{
	__u32 first = 0;

	while (count > 1 && weir_fw_may_loop) {
		__u32 half = count >> 1;
		__s64 over = (__s64)(__u64)value -
			     (__s64)(__u64)*weir_at(__u32, bounds_at + (first + half) * 4);

		first += half & ~(__u32)(over >> 63);
		count -= half;
	}
	return first;
}

/* What comes to the base for a value of a dimension, whose description is at an offset. */
__noinline __u32 weir_fw_class_of(__u32 ruleset, __u32 at, __u32 value)
{
	struct weir_fw_dimension __weir_arena *dimension = weir_at(struct weir_fw_dimension, at);
	__u32 count = dimension->bound_count, bounds_at = ruleset + dimension->bounds_at, first = 0;

	if (count) {
		first = weir_fw_bounds_below(bounds_at, count, value);
		first += *weir_at(__u32, bounds_at + first * 4) <= value;
	}
	return ruleset + *weir_at(__u32, ruleset + dimension->sets_at + first * 4);
}

static __always_inline bool weir_fw_bound6_holds(__u32 at, __u64 upper, __u64 lower)
{
	__u64 __weir_arena *bound = weir_at(__u64, at);

	return bound[0] < upper || (bound[0] == upper && bound[1] <= lower);
}

/* The same for an address of IPv6. */
__noinline __u32 weir_fw_class6_of(__u32 ruleset, __u32 at, __u64 upper, __u64 lower)
{
	struct weir_fw_dimension __weir_arena *dimension = weir_at(struct weir_fw_dimension, at);
	__u32 count = dimension->bound_count, bounds_at = ruleset + dimension->bounds_at, first = 0;

	while (count > 1 && weir_fw_may_loop) {
		__u32 half = count >> 1;

		if (weir_fw_bound6_holds(bounds_at + (first + half) * 16, upper, lower))
			first += half;
		count -= half;
	}
	if (count)
		first += weir_fw_bound6_holds(bounds_at + first * 16, upper, lower);
	return ruleset + *weir_at(__u32, ruleset + dimension->sets_at + first * 4);
}

/* A packet's set in one dimension: offsets from the arena's start. */
struct weir_fw_set {
	__u32 base;
	__u32 addition;
};

enum {
	WEIR_FW_SET_TO,
	WEIR_FW_SET_FROM,
	WEIR_FW_SET_TO_PORT,
	WEIR_FW_SET_HOOK,
	WEIR_FW_SET_KIND,
	WEIR_FW_SET_HEADER,
	WEIR_FW_SET_FROM_PORT,
	WEIR_FW_SET_COUNT,
};

struct weir_fw_candidates {
	struct weir_fw_set sets[WEIR_FW_SET_COUNT];
	__u32 words_at;		/* behind a set's summary */
};

/* Offset of a dimension's description from the arena's start. */
#define weir_fw_dimension_at(at, name)                              \
	((at) + (__u32)__builtin_offsetof(struct weir_fw_classes,   \
					  dimension[WEIR_FW_DIMENSION_##name]))

#define weir_fw_upper(a) ((__u64)bpf_ntohl((a)[0]) << 32 | bpf_ntohl((a)[1]))
#define weir_fw_lower(a) ((__u64)bpf_ntohl((a)[2]) << 32 | bpf_ntohl((a)[3]))

static __always_inline void weir_fw_classify_addresses(const struct weir_fw_packet *p, __u32 at,
						       struct weir_fw_candidates *found)
{
	struct weir_fw_set *sets = found->sets;
	__u32 from, to, ruleset = p->ruleset;

	if (p->family == WEIR_FW_INET) {
		from = weir_fw_dimension_at(at, FROM4);
		to = weir_fw_dimension_at(at, TO4);
		sets[WEIR_FW_SET_FROM].addition =
			weir_fw_class_of(ruleset, from, bpf_ntohl(p->src[0]));
		sets[WEIR_FW_SET_TO].addition =
			weir_fw_class_of(ruleset, to, bpf_ntohl(p->dst[0]));
	} else {
		from = weir_fw_dimension_at(at, FROM6);
		to = weir_fw_dimension_at(at, TO6);
		sets[WEIR_FW_SET_FROM].addition = weir_fw_class6_of(
			ruleset, from, weir_fw_upper(p->src), weir_fw_lower(p->src));
		sets[WEIR_FW_SET_TO].addition = weir_fw_class6_of(
			ruleset, to, weir_fw_upper(p->dst), weir_fw_lower(p->dst));
	}
	sets[WEIR_FW_SET_FROM].base = ruleset + weir_at(struct weir_fw_dimension, from)->base;
	sets[WEIR_FW_SET_TO].base = ruleset + weir_at(struct weir_fw_dimension, to)->base;
}

static __always_inline void weir_fw_classify_header(const struct weir_fw_packet *p, bool fragment,
						    __u32 at, struct weir_fw_candidates *found)
{
	struct weir_fw_classes __weir_arena *classes = weir_at(struct weir_fw_classes, at);
	__u32 ruleset = p->ruleset, set = classes->all, from, to;
	struct weir_fw_set *sets = found->sets;

	sets[WEIR_FW_SET_FROM_PORT].base = ruleset + set;
	sets[WEIR_FW_SET_TO_PORT].base = ruleset + set;
	if (fragment)
		set = classes->fragment;
	else if (p->protocol == WEIR_PROTOCOL_TCP)
		set = *weir_at(__u32, ruleset + classes->tcp_at + p->tcp_flags * 4);
	else if (weir_is_icmp(p->protocol))
		set = *weir_at(__u32, ruleset + classes->icmp_at + p->icmp_type * 4);
	sets[WEIR_FW_SET_HEADER].base = ruleset + set;
	if (fragment ||
	    (p->protocol != WEIR_PROTOCOL_TCP && p->protocol != WEIR_PROTOCOL_UDP))
		return;
	from = weir_fw_dimension_at(at, FROM_PORT);
	to = weir_fw_dimension_at(at, TO_PORT);
	sets[WEIR_FW_SET_FROM_PORT].base = ruleset + weir_at(struct weir_fw_dimension, from)->base;
	sets[WEIR_FW_SET_FROM_PORT].addition =
		weir_fw_class_of(ruleset, from, bpf_ntohs(p->src_port));
	sets[WEIR_FW_SET_TO_PORT].base = ruleset + weir_at(struct weir_fw_dimension, to)->base;
	sets[WEIR_FW_SET_TO_PORT].addition =
		weir_fw_class_of(ruleset, to, bpf_ntohs(p->dst_port));
}

/* Finds the packet's set in each dimension. */
static __always_inline void weir_fw_classify(const struct weir_fw_packet *p, __u32 slot,
					     bool fragment, struct weir_fw_candidates *found)
{
	__u32 ruleset = p->ruleset, at = ruleset + weir_fw_image_of(p)->classes_at;
	struct weir_fw_classes __weir_arena *classes = weir_at(struct weir_fw_classes, at);
	__u32 hook = (p->direction & 1) * WEIR_FW_INTERFACE_COUNT_MAX + (slot & 63);
	__u32 kind = (p->family & 1) * 256 + p->protocol;
	__u32 nothing = ruleset + classes->nothing;

#pragma unroll
	for (int i = 0; i < WEIR_FW_SET_COUNT; i++)
		found->sets[i].addition = nothing;
	found->words_at = classes->chunk_count * 8;
	found->sets[WEIR_FW_SET_HOOK].base =
		ruleset + *weir_at(__u32, ruleset + classes->hooks_at + hook * 4);
	found->sets[WEIR_FW_SET_KIND].base =
		ruleset + *weir_at(__u32, ruleset + classes->kinds_at + kind * 4);
	weir_fw_classify_addresses(p, at, found);
	weir_fw_classify_header(p, fragment, at, found);
}

static __always_inline __u32 weir_fw_ones(__u64 word)
{
	word -= word >> 1 & 0x5555555555555555ull;
	word = (word & 0x3333333333333333ull) + (word >> 2 & 0x3333333333333333ull);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return word * 0x0101010101010101ull >> 56;
}

/* The number of the lowest bit of a word that has one. */
static __always_inline __u32 weir_fw_lowest(__u64 word)
{
	return weir_fw_ones(~word & (word - 1));
}

/*
 * Which words of a chunk have candidates. This and the next are functions of their own, so that the
 * verifier goes through their branches once.
 */
__noinline __u64 weir_fw_summary(const struct weir_fw_candidates *candidates, __u32 chunk)
{
	__u64 summary = ~0ull;

	if (!candidates)
		return 0;
#pragma unroll
	for (int i = 0; i < WEIR_FW_SET_COUNT; i++)
		summary &= *weir_at(__u64, candidates->sets[i].base + chunk * 8) |
			   weir_at(struct weir_fw_addition,
				   candidates->sets[i].addition)[chunk].summary;
	return summary;
}

/* The candidates of one word of a chunk. */
__noinline __u64 weir_fw_word(const struct weir_fw_candidates *candidates, __u32 ruleset,
			       __u32 chunk, __u32 bit)
{
	__u64 word = ~0ull;
	__u32 word_at;

	if (!candidates)
		return 0;
	bit &= 63;
	word_at = candidates->words_at + (chunk * WEIR_FW_CHUNK_WORDS + bit) * 8;
#pragma unroll
	for (int i = 0; i < WEIR_FW_SET_COUNT; i++) {
		struct weir_fw_addition __weir_arena *more =
			&weir_at(struct weir_fw_addition, candidates->sets[i].addition)[chunk];
		__u64 one = *weir_at(__u64, candidates->sets[i].base + word_at);
		__u64 summary = more->summary;

		if (summary >> bit & 1)
			one |= *weir_at(__u64, ruleset + more->words_at +
						       weir_fw_ones(summary & ((1ull << bit) - 1)) *
							       8);
		word &= one;
		if (!word)
			return 0;
	}
	return word;
}

#endif /* WEIR_FW_CLASSIFY_H */

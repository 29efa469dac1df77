/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `state limiter` and `source limiter`: what rules ask of them, and how their rates are kept
 * (pf.conf(5) of OpenBSD 7.9; pf_match_rule() and pf_source_key() of its pf.c). A limiter's counts
 * outlive rulesets; what it allows stands in the image. Nothing is taken here: limited.h does that
 * when a state is made, and gives it back when that ends.
 */
#ifndef WEIR_FW_LIMITER_H
#define WEIR_FW_LIMITER_H

#include <bpf/bpf_endian.h>
#include <weir/fw/account.h>
#include <weir/fw/clock.h>
#include <weir/fw/dirty.h>
#include <weir/fw/image.h>
#include <weir/fw/loop.h>
#include <weir/fw/packet.h>
#include <weir/fw/sources.h>

/* Rates are kept in this part of a tick: exact to a hundredth for 100,000 states a second. */
#define WEIR_LIMITER_TICK_SHIFT 20
#define WEIR_LIMITER_TIME_MASK ((1ull << (32 + WEIR_LIMITER_TICK_SHIFT)) - 1)
/* A CPU's coarse clock may be behind that of another by so many ticks. */
#define WEIR_LIMITER_BEHIND (16ull << WEIR_LIMITER_TICK_SHIFT)

/* What is known of a packet that rules with limiters are asked for. */
struct weir_limiter_asked {
	__be32 source[4];	/* before rules translated it */
	__u32 record;		/* weir_fw_decision.record */
};

/* What weir_limiter_refuses() says; above it: the reason of the drop + 2. */
#define WEIR_LIMITER_NO_MATCH 1

/* What a record holds of a limiter of states, and of one of sources: parts of one word. */
#define WEIR_LIMITER_STATE_MASK 0xffull
#define WEIR_LIMITER_SOURCE_MASK (0x3fffff00ull | WEIR_LIMITER_END_1)
#define WEIR_LIMITER_END_1 (1ull << 32) /* the source is end 1, not end 0 */

/* What limiters the rule of an id has: WEIR_FW_LIMITED_*. */
static __always_inline __u32 weir_limiter_word(__u32 ruleset, __u32 rule)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);

	if (!ruleset || rule >= image->id_count || !(image->flags & WEIR_FW_IMAGE_LIMITERS))
		return 0;
	return *weir_at(__u32, ruleset + image->limited_at + rule * (__u32)sizeof(__u32));
}

/* Whether some rule has limiters, or a state one of a rule that is gone. */
static __always_inline bool weir_limiter_is_any(void)
{
	struct weir_fw_image __weir_arena *image =
		weir_at(struct weir_fw_image, weir_fw_control()->active);

	return image->flags & WEIR_FW_IMAGE_LIMITERS;
}

static __always_inline __u32 weir_limiter_state_id(__u64 word)
{
	return word >> WEIR_FW_LIMITED_STATE_SHIFT & 0xff;
}

static __always_inline __u32 weir_limiter_source_id(__u64 word)
{
	return word >> WEIR_FW_LIMITED_SOURCE_SHIFT & 0xff;
}

/* What the ruleset says of a limiter: of states by its id, of sources behind those. */
static __always_inline struct weir_fw_limiter __weir_arena *weir_limiter_of(__u32 ruleset,
									    __u32 number)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);

	return weir_at(struct weir_fw_limiter,
		       ruleset + image->limiters_at +
			       number * (__u32)sizeof(struct weir_fw_limiter));
}

static __always_inline struct weir_fw_limiter_counts __weir_arena *
weir_limiter_counts(__u32 ruleset, __u32 number)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);

	return weir_at(struct weir_fw_limiter_counts,
		       image->limiter_counts_at +
			       number * (__u32)sizeof(struct weir_fw_limiter_counts));
}

/* The whole of a limiter's rate: in pf's words, its bucket. */
static __always_inline __u64 weir_limiter_bucket(__u32 rate_seconds)
{
	return (__u64)rate_seconds * weir_fw_second_ticks() << WEIR_LIMITER_TICK_SHIFT;
}

/*
 * A rate with one state more: `paced` is when as many as there are would all have had their time,
 * and 0 before the first. Up to `count` may come at once. Returns 0 if it is too early.
 */
static __always_inline __u64 weir_limiter_pace(__u64 paced, __u32 tick, __u64 bucket, __u32 count)
{
	__u64 now = (__u64)tick << WEIR_LIMITER_TICK_SHIFT, token = bucket / count;
	__u64 passed = (now - paced) & WEIR_LIMITER_TIME_MASK;

	if (passed >= WEIR_LIMITER_TIME_MASK - WEIR_LIMITER_BEHIND)
		passed = 0;
	if (!paced || passed > bucket)
		passed = bucket;
	if (passed < token)
		return 0;
	return ((now - passed + token) & WEIR_LIMITER_TIME_MASK) ?: 1;
}

/* Keeps of an address in a key what a limiter's masks keep. */
static __always_inline void weir_limiter_mask(struct weir_source_key *key, __u64 word)
{
	__u32 bits = key->family & WEIR_FW_INET6 ? word >> WEIR_FW_LIMITED_INET6_SHIFT & 0xff :
						   word >> WEIR_FW_LIMITED_INET_SHIFT & 0x3f;
	__u32 i;

#pragma unroll
	for (i = 0; i < 4; i++) {
		if (bits <= 32 * i)
			key->addr[i] = 0;
		else if (bits < 32 * (i + 1))
			key->addr[i] &= bpf_htonl(0xffffffffu << (32 * (i + 1) - bits));
	}
	key->family |= WEIR_SOURCE_OF_LIMITER;
	key->rule = weir_limiter_source_id(word);
}

/*
 * What a half holds, 0 if it is not there. Of a record that another firewall has sent no source is
 * counted.
 */
static __noinline __u64 weir_limiter_held(__u32 slot, __u32 half)
{
	weir_line *s = weir_at(struct weir_state, weir_fw_control()->states_at) + slot;
	__u64 word, held;

	if (!(s->control & (half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A)))
		return 0;
	word = weir_limiter_word(weir_fw_control()->active, weir_half_rule(s, slot, half));
	held = word & WEIR_LIMITER_STATE_MASK;
	if (!weir_limiter_source_id(word) || !(s->control & WEIR_STATE_TRACKED) ||
	    weir_is_imported(s))
		return held;
	held |= word & WEIR_LIMITER_SOURCE_MASK;
	if (s->wscale[1] & WEIR_WSCALE_SOURCE_IS_1(half))
		held |= WEIR_LIMITER_END_1;
	return held;
}

/* What a rule's word would have a half hold, of a packet from an end. */
static __always_inline __u64 weir_limiter_holds(__u32 word, __u32 end)
{
	__u64 held = word & WEIR_LIMITER_STATE_MASK;

	if (!weir_limiter_source_id(word))
		return held;
	held |= word & WEIR_LIMITER_SOURCE_MASK;
	return end ? held | WEIR_LIMITER_END_1 : held;
}

/* Of one word of what is held, what another one has not. */
static __always_inline __u64 weir_limiter_less(__u64 held, __u64 other)
{
	if (!((held ^ other) & WEIR_LIMITER_STATE_MASK))
		held &= ~WEIR_LIMITER_STATE_MASK;
	if (!((held ^ other) & WEIR_LIMITER_SOURCE_MASK))
		held &= ~WEIR_LIMITER_SOURCE_MASK;
	return held;
}

/* What a state by a rule with such a word would take, beside what the packet's record holds. */
static __always_inline __u64 weir_limiter_needs(__u32 word, __u32 record)
{
	__u64 needs = weir_limiter_holds(word, record & 1);
	__u32 slot = (record >> 1) - 1;

	if (!record)
		return needs;
	needs = weir_limiter_less(needs, weir_limiter_held(slot, 0));
	return weir_limiter_less(needs, weir_limiter_held(slot, 1));
}

/* Whether a limiter of states has no room. */
static __noinline bool weir_limiter_is_full(const struct weir_fw_packet *p, __u32 id)
{
	struct weir_fw_limiter_counts __weir_arena *c = weir_limiter_counts(p->ruleset, id);
	struct weir_fw_limiter __weir_arena *l = weir_limiter_of(p->ruleset, id);

	if (weir_read_once(c->in_use) >= l->limit) {
		__sync_fetch_and_add(&c->hard_limited, 1);
		return true;
	}
	if (!l->rate_count || weir_limiter_pace(weir_read_once(c->paced), p->tick,
						weir_limiter_bucket(l->rate_seconds),
						l->rate_count))
		return false;
	__sync_fetch_and_add(&c->rate_limited, 1);
	return true;
}

/* What a state of a source meets in its node. */
enum weir_limiter_try {
	WEIR_LIMITER_GONE,	/* there is no such node */
	WEIR_LIMITER_FITS,
	WEIR_LIMITER_ENTERS,	/* and the source goes into the table */
	WEIR_LIMITER_FULL,
	WEIR_LIMITER_EARLY,
};

/* Notes in the room what the limiter of its key allows. */
static __always_inline void weir_limiter_allow(struct weir_source_room *room, __u32 ruleset)
{
	struct weir_fw_limiter __weir_arena *l =
		weir_limiter_of(ruleset, WEIR_FW_LIMITER_SOURCES + (room->key.rule & 0xff));

	room->limit = l->limit;
	room->above = l->has_table ? l->above : 0xffffffffu;
	room->rate_count = l->rate_count;
	room->bucket = weir_limiter_bucket(l->rate_seconds);
	room->keep_ticks = l->rate_count ? l->rate_seconds * weir_fw_second_ticks() : 0;
}

/* Asks the node of the room's key, and counts a state there if that `takes` one. */
static __noinline int weir_limiter_try(struct weir_source_room *room, __u32 tick, bool takes)
{
	struct weir_source *node = bpf_map_lookup_elem(&weir_sources, &room->key);
	int result = WEIR_LIMITER_FITS;
	__u64 paced = 0;

	if (!node)
		return WEIR_LIMITER_GONE;
	bpf_spin_lock(&node->lock);
	if (room->rate_count)
		paced = weir_limiter_pace(node->paced, tick, room->bucket, room->rate_count);
	if (!weir_source_is_of(node, &room->key)) {
		result = WEIR_LIMITER_GONE;
	} else if (node->states >= room->limit) {
		result = WEIR_LIMITER_FULL;
	} else if (room->rate_count && !paced) {
		result = WEIR_LIMITER_EARLY;
	} else if (takes) {
		if (node->states && node->states >= room->above && !node->is_listed) {
			node->is_listed = 1;
			result = WEIR_LIMITER_ENTERS;
		}
		node->states++;
		node->paced = paced;
		node->keep_ticks = room->keep_ticks;
	}
	bpf_spin_unlock(&node->lock);
	return result;
}

/* Whether a limiter of sources has none for the source in the room's key. */
static __noinline bool weir_limiter_is_source_full(const struct weir_fw_packet *p,
						   struct weir_source_room *room)
{
	__u32 number = WEIR_FW_LIMITER_SOURCES + (room->key.rule & 0xff);
	struct weir_fw_limiter_counts __weir_arena *c = weir_limiter_counts(p->ruleset, number);
	int result;

	weir_limiter_allow(room, p->ruleset);
	result = weir_limiter_try(room, p->tick, false);
	if (result == WEIR_LIMITER_FITS)
		return false;
	if (result == WEIR_LIMITER_FULL) {
		__sync_fetch_and_add(&c->hard_limited, 1);
	} else if (result == WEIR_LIMITER_EARLY) {
		__sync_fetch_and_add(&c->rate_limited, 1);
	} else {
		if (weir_read_once(c->source_count) <
		    weir_limiter_of(p->ruleset, number)->entries)
			return false;
		__sync_fetch_and_add(&c->sources_limited, 1);
	}
	return true;
}

/*
 * Whether a limiter of a rule, whose criteria hold, has no room for a state of the packet: 0, or
 * WEIR_LIMITER_NO_MATCH, or what is said there. One that the ruleset does not have has no room, and
 * the rule then does not match, as in pf. A function of its own, so that the verifier need not go
 * on from each of its ways.
 */
__noinline int weir_limiter_refuses(const struct weir_fw_packet *p __arg_nonnull,
				    const struct weir_limiter_asked *asked __arg_nonnull,
				    __u32 rule)
{
	__u32 word = weir_limiter_word(p->ruleset, rule), id;
	__u64 needs = weir_limiter_needs(word, asked->record);
	struct weir_source_room *room = weir_source_room();

	id = weir_limiter_state_id(needs);
	if (id && !weir_limiter_of(p->ruleset, id)->limit)
		return WEIR_LIMITER_NO_MATCH;
	if (id && weir_limiter_is_full(p, id))
		return word >> WEIR_FW_LIMITED_STATE_NO_MATCH_SHIFT & 1 ?
			       WEIR_LIMITER_NO_MATCH :
			       WEIR_FW_REASON_STATE_LIMIT + 2;
	id = weir_limiter_source_id(needs);
	if (!id || !room)
		return 0;
	if (!weir_limiter_of(p->ruleset, WEIR_FW_LIMITER_SOURCES + id)->limit)
		return WEIR_LIMITER_NO_MATCH;
	weir_copy_address(room->key.addr, asked->source);
	room->key.family = p->family;
	weir_limiter_mask(&room->key, word);
	if (!weir_limiter_is_source_full(p, room))
		return 0;
	return word >> WEIR_FW_LIMITED_SOURCE_NO_MATCH_SHIFT & 1 ? WEIR_LIMITER_NO_MATCH :
								   WEIR_FW_REASON_SRC_LIMIT + 2;
}

#endif /* WEIR_FW_LIMITER_H */

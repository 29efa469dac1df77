/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What states take of limiters (limiter.h), and give back: under the lock of the state's bucket,
 * when a half is made, and when it or its record ends, whoever ends it. A limit is taken by one
 * atomic addition, or under the lock of the source's node, so that none is ever passed: where two
 * CPUs have both found room for the last state, the packet of one is dropped.
 *
 * What a half holds follows from its rule, whose limiters do not change as long as it has its id.
 */
#ifndef WEIR_FW_LIMITED_H
#define WEIR_FW_LIMITED_H

#include <weir/fw/limiter.h>

/* A word that other CPUs have the better of this often is let be: one state is not paced. */
#define WEIR_LIMITER_TRIES 8

/* Counts a state against a limiter's rate. False if it is too early. */
static __always_inline bool weir_limited_pace(__u64 __weir_arena *word, __u32 tick, __u64 bucket,
					      __u32 count)
{
	__u64 before, after;
	int tries;

	for (tries = 0; tries < WEIR_LIMITER_TRIES && weir_fw_may_loop; tries++) {
		before = weir_read_once(*word);
		after = weir_limiter_pace(before, tick, bucket, count);
		if (!after)
			return false;
		if (__sync_val_compare_and_swap(word, before, after) == before)
			break;
	}
	return true;
}

/* One more state of a limiter of states. Returns 0, or the reason of the drop + 1. */
static __noinline int weir_limited_take(const struct weir_fw_packet *p, __u32 id)
{
	struct weir_fw_limiter_counts __weir_arena *c = weir_limiter_counts(p->ruleset, id);
	struct weir_fw_limiter __weir_arena *l = weir_limiter_of(p->ruleset, id);

	if (__sync_fetch_and_add(&c->in_use, 1) >= l->limit) {
		__sync_fetch_and_sub(&c->in_use, 1);
		__sync_fetch_and_add(&c->hard_limited, 1);
		return WEIR_FW_REASON_STATE_LIMIT + 1;
	}
	if (l->rate_count && !weir_limited_pace(&c->paced, p->tick,
						weir_limiter_bucket(l->rate_seconds),
						l->rate_count)) {
		__sync_fetch_and_sub(&c->in_use, 1);
		__sync_fetch_and_add(&c->rate_limited, 1);
		return WEIR_FW_REASON_STATE_LIMIT + 1;
	}
	__sync_fetch_and_add(&c->admitted, 1);
	return 0;
}

/* Takes back what weir_limited_take() counted: its time, too. */
static __noinline void weir_limited_return(const struct weir_fw_packet *p, __u32 id)
{
	struct weir_fw_limiter_counts __weir_arena *c = weir_limiter_counts(p->ruleset, id);
	struct weir_fw_limiter __weir_arena *l = weir_limiter_of(p->ruleset, id);
	__u64 before, after;
	int tries;

	__sync_fetch_and_sub(&c->in_use, 1);
	__sync_fetch_and_sub(&c->admitted, 1);
	if (!l->rate_count)
		return;
	for (tries = 0; tries < WEIR_LIMITER_TRIES && weir_fw_may_loop; tries++) {
		before = weir_read_once(c->paced);
		after = before - weir_limiter_bucket(l->rate_seconds) / l->rate_count;
		after = (after & WEIR_LIMITER_TIME_MASK) ?: 1;
		if (__sync_val_compare_and_swap(&c->paced, before, after) == before)
			break;
	}
}

/* Makes the node of the room's key. False if there are too many. */
static __noinline bool weir_limited_make(struct weir_source_room *room, __u32 ruleset, __u32 tick)
{
	__u32 number = WEIR_FW_LIMITER_SOURCES + (room->key.rule & 0xff);
	struct weir_fw_limiter_counts __weir_arena *c = weir_limiter_counts(ruleset, number);

	if (__sync_fetch_and_add(&c->source_count, 1) >=
	    weir_limiter_of(ruleset, number)->entries) {
		__sync_fetch_and_sub(&c->source_count, 1);
		__sync_fetch_and_add(&c->sources_limited, 1);
		return false;
	}
	room->fresh[WEIR_SOURCE_OWNER_AT] = 0;
	room->fresh[WEIR_SOURCE_CREATED_AT] = tick;
	__builtin_memcpy(&room->fresh[WEIR_SOURCE_KEY_AT], &room->key, sizeof(room->key));
	/* Somebody else was faster, or there is no memory; the next look tells. */
	if (bpf_map_update_elem(&weir_sources, &room->key, room->fresh, 1)) { /* BPF_NOEXIST */
		__sync_fetch_and_sub(&c->source_count, 1);
		return true;
	}
	__sync_fetch_and_add(&weir_fw_control()->limited_count, 1);
	__sync_fetch_and_add(&c->source_makes, 1);
	return true;
}

/* Tells that a source has to go into the limiter's table, or (WEIR_SOURCE_LEAVES) out of it. */
static __always_inline void weir_limited_tell(const struct weir_source_key *key, __u32 what)
{
	struct weir_source_overload *change = bpf_ringbuf_reserve(&weir_overloads, sizeof(*change),
								  0);

	if (!change) {
		weir_fw_table_counters(bpf_get_smp_processor_id())->log_lost++;
		return;
	}
	change->time_ns = bpf_ktime_get_boot_ns();
	change->rule = key->rule;
	change->family = key->family | what;
	weir_copy_address(change->addr, key->addr);
	bpf_ringbuf_submit(change, 0);
}

/* Counts what a try has come to. Returns 0, or the reason of the drop + 1. */
static __noinline int weir_limited_account(struct weir_source_room *room, __u32 ruleset, int result)
{
	__u32 number = WEIR_FW_LIMITER_SOURCES + (room->key.rule & 0xff);
	struct weir_fw_limiter_counts __weir_arena *c = weir_limiter_counts(ruleset, number);

	if (result == WEIR_LIMITER_FITS || result == WEIR_LIMITER_ENTERS) {
		__sync_fetch_and_add(&c->in_use, 1);
		__sync_fetch_and_add(&c->admitted, 1);
		if (result == WEIR_LIMITER_ENTERS)
			weir_limited_tell(&room->key, 0);
		return 0;
	}
	if (result == WEIR_LIMITER_FULL)
		__sync_fetch_and_add(&c->hard_limited, 1);
	else if (result == WEIR_LIMITER_EARLY)
		__sync_fetch_and_add(&c->rate_limited, 1);
	else
		__sync_fetch_and_add(&c->no_memory, 1);
	return WEIR_FW_REASON_SRC_LIMIT + 1;
}

/* One more state of the source of the room's key. Returns 0, or the reason of the drop + 1. */
static __noinline int weir_limited_take_source(struct weir_source_room *room, __u32 ruleset,
					       __u32 tick)
{
	int result = WEIR_LIMITER_GONE, tries;

	weir_limiter_allow(room, ruleset);
	for (tries = 0; tries < WEIR_SOURCE_TRIES && result == WEIR_LIMITER_GONE; tries++) {
		result = weir_limiter_try(room, tick, true);
		if (result == WEIR_LIMITER_GONE && !weir_limited_make(room, ruleset, tick))
			return WEIR_FW_REASON_SRC_LIMIT + 1;
	}
	return weir_limited_account(room, ruleset, result);
}

/* Takes away a node that was marked dead. */
static __always_inline void weir_limited_remove(const struct weir_source_key *key)
{
	__u32 number = WEIR_FW_LIMITER_SOURCES + (key->rule & 0xff);
	__u32 active = weir_fw_control()->active;

	bpf_map_delete_elem(&weir_sources, key);
	__sync_fetch_and_sub(&weir_fw_control()->limited_count, 1);
	/* No rule may have limiters any more. */
	if (weir_at(struct weir_fw_image, active)->limiter_counts_at)
		__sync_fetch_and_sub(&weir_limiter_counts(active, number)->source_count, 1);
}

/* What one state less of a source comes to; flags. */
enum weir_limited_parted {
	WEIR_LIMITED_PARTED = 1 << 0,
	WEIR_LIMITED_WAS_LAST = 1 << 1,
	WEIR_LIMITED_UNLISTED = 1 << 2,
};

/*
 * One state less of the source of the room's key; the node goes with its last one, or when its time
 * is over. The room's `refund` is the time of a state that was not made after all, or 0.
 */
static __noinline int weir_limited_part(struct weir_source_room *room)
{
	__u32 number = WEIR_FW_LIMITER_SOURCES + (room->key.rule & 0xff);
	struct weir_source *node = bpf_map_lookup_elem(&weir_sources, &room->key);
	int result = 0;

	if (!node || !weir_limiter_is_any())
		return 0;
	room->limit = weir_limiter_of(weir_fw_control()->active, number)->below;
	room->keep_ticks = weir_fw_tick(weir_fw_control()->clock_offset);
	bpf_spin_lock(&node->lock);
	if (weir_source_is_of(node, &room->key) && node->states) {
		result = WEIR_LIMITED_PARTED;
		node->states--;
		if (room->refund)
			node->paced = ((node->paced - room->refund) & WEIR_LIMITER_TIME_MASK) ?: 1;
		if (node->is_listed && node->states < room->limit) {
			node->is_listed = 0;
			result |= WEIR_LIMITED_UNLISTED;
		}
		if (!node->states && !node->keep_ticks) {
			node->is_dead = 1;
			result |= WEIR_LIMITED_WAS_LAST;
		}
		node->expires_tick = room->keep_ticks + node->keep_ticks;
	}
	bpf_spin_unlock(&node->lock);
	if (!result)
		return 0;
	__sync_fetch_and_sub(&weir_limiter_counts(weir_fw_control()->active, number)->in_use, 1);
	if (result & WEIR_LIMITED_UNLISTED)
		weir_limited_tell(&room->key, WEIR_SOURCE_LEAVES);
	if (result & WEIR_LIMITED_WAS_LAST)
		weir_limited_remove(&room->key);
	return 0;
}

/*
 * Ends a limiter's node that has no states, if its time is over or (`is_any`) in any case. Returns
 * whether it did.
 */
__noinline int weir_limited_end_source(const struct weir_source_key *key __arg_nonnull, __u32 now,
				       __u32 is_any)
{
	struct weir_source *node = bpf_map_lookup_elem(&weir_sources, key);
	bool ends;

	if (!node)
		return false;
	bpf_spin_lock(&node->lock);
	ends = weir_source_is_of(node, key) && !node->states &&
	       (is_any || (__s32)(node->expires_tick - now) <= 0);
	if (ends)
		node->is_dead = 1;
	bpf_spin_unlock(&node->lock);
	if (ends)
		weir_limited_remove(key);
	return ends;
}

static __always_inline void weir_limited_key(const struct weir_fw_packet *p, __u64 needs,
					     struct weir_source_key *key)
{
	weir_copy_address(key->addr, p->src);
	key->family = p->family;
	weir_limiter_mask(key, needs);
}

/* Takes what the room says that a state needs: of states first, as pf does. */
static __always_inline int weir_limited_take_all(const struct weir_fw_packet *p,
						 struct weir_source_room *room)
{
	__u32 id = weir_limiter_state_id(room->needs);
	int drop = id ? weir_limited_take(p, id) : 0;

	if (drop || !weir_limiter_source_id(room->needs))
		return drop;
	weir_limited_key(p, room->needs, &room->key);
	drop = weir_limited_take_source(room, p->ruleset, p->tick);
	if (drop && id)
		weir_limited_return(p, id);
	return drop;
}

/* Flags of weir_limited_join(), beside that of the packet's end. */
#define WEIR_LIMITED_IS_THERE (1 << 1) /* of a record that has a half already */
#define WEIR_LIMITED_IS_OTHER (1 << 2) /* of one that it would not share */

/*
 * Takes what a half by the decision's rule needs of limiters, of the record in a slot; what that
 * holds already it needs not. Returns 0, or the reason of the drop + 1; then nothing is taken.
 */
__noinline int weir_limited_join(const struct weir_fw_packet *p __arg_nonnull,
				 const struct weir_fw_decision *d __arg_nonnull, __u32 slot,
				 __u32 how)
{
	weir_line *s = weir_at(struct weir_state, weir_fw_control()->states_at) + slot;
	struct weir_source_room *room = weir_source_room();
	__u64 needs;

	if (!room)
		return WEIR_FW_REASON_MEMORY + 1;
	needs = weir_limiter_holds(weir_limiter_word(p->ruleset, d->rule), how & 1);
	if (how & WEIR_LIMITED_IS_THERE && weir_is_imported(s))
		needs &= WEIR_LIMITER_STATE_MASK;
	room->held = needs;
	if (how & WEIR_LIMITED_IS_THERE && !(how & WEIR_LIMITED_IS_OTHER)) {
		needs = weir_limiter_less(needs, weir_limiter_held(slot, 0));
		needs = weir_limiter_less(needs, weir_limiter_held(slot, 1));
	}
	room->needs = needs;
	return needs ? weir_limited_take_all(p, room) : 0;
}

/* Whether a source limiter counts the half that weir_limited_join() was asked for. */
static __always_inline bool weir_limited_marks(void)
{
	struct weir_source_room *room = weir_source_room();

	return room && weir_limiter_source_id(room->held);
}

/* Takes back what weir_limited_join() has taken. */
__noinline int weir_limited_undo(const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_source_room *room = weir_source_room();
	struct weir_fw_limiter __weir_arena *l;
	__u64 refund = 0;
	__u32 id;

	if (!room)
		return 0;
	id = weir_limiter_state_id(room->needs);
	if (id)
		weir_limited_return(p, id);
	id = weir_limiter_source_id(room->needs);
	if (!id)
		return 0;
	l = weir_limiter_of(p->ruleset, WEIR_FW_LIMITER_SOURCES + id);
	if (l->rate_count)
		refund = weir_limiter_bucket(l->rate_seconds) / l->rate_count;
	__sync_fetch_and_sub(
		&weir_limiter_counts(p->ruleset, WEIR_FW_LIMITER_SOURCES + id)->admitted, 1);
	weir_limited_key(p, room->needs, &room->key);
	room->refund = refund;
	return weir_limited_part(room);
}

/* The address of a record's end, as a limiter counts it. */
static __always_inline void weir_limited_key_of(weir_line *s, __u64 held,
						struct weir_source_key *key)
{
	__u32 end = !!(held & WEIR_LIMITER_END_1);
	struct weir_state_v6 __weir_arena *a;

	if (s->control & WEIR_STATE_IPV6) {
		a = weir_at(struct weir_state_v6, weir_fw_control()->states_at) + s->addr[1];
		weir_copy_address(key->addr, a->addr[end]);
		key->family = WEIR_FW_INET6;
	} else {
		key->addr[0] = s->addr[end];
		key->addr[1] = 0;
		key->addr[2] = 0;
		key->addr[3] = 0;
		key->family = WEIR_FW_INET;
	}
	weir_limiter_mask(key, held);
}

/* Flags of weir_limited_leave(), beside that of the half. */
#define WEIR_LIMITED_LAST (1 << 1)  /* the record ends, and the other half has left */
#define WEIR_LIMITED_MOVES (1 << 2) /* the half gets the rule that weir_limited_join() took for */

/*
 * A half of a record ends, under its bucket's lock: it gives back what the other half does not
 * hold, nor what takes its place.
 */
__noinline int weir_limited_leave(__u32 slot, __u32 how)
{
	weir_line *s = weir_at(struct weir_state, weir_fw_control()->states_at) + slot;
	struct weir_source_room *room = weir_source_room();
	__u64 held = weir_limiter_held(slot, how & 1);
	__u32 id;

	if (!held || !room)
		return 0;
	if (!(how & WEIR_LIMITED_LAST))
		held = weir_limiter_less(held, weir_limiter_held(slot, !(how & 1)));
	if (how & WEIR_LIMITED_MOVES)
		held = weir_limiter_less(held, room->held);
	id = weir_limiter_state_id(held);
	if (id)
		__sync_fetch_and_sub(&weir_limiter_counts(weir_fw_control()->active, id)->in_use,
				     1);
	if (!weir_limiter_source_id(held))
		return 0;
	weir_limited_key_of(s, held, &room->key);
	room->refund = 0;
	return weir_limited_part(room);
}

/*
 * A record that was stored, or that another firewall has sent, has a half by a rule: it counts
 * among the states of its limiter whatever that allows, as it does for `max`. `other`: the rule of
 * its other half.
 */
static __always_inline void weir_limited_restore(__u32 ruleset, __u32 rule, __u32 other)
{
	__u32 id = weir_limiter_state_id(weir_limiter_word(ruleset, rule));

	if (id && id != weir_limiter_state_id(weir_limiter_word(ruleset, other)))
		__sync_fetch_and_add(&weir_limiter_counts(ruleset, id)->in_use, 1);
}

#endif /* WEIR_FW_LIMITED_H */

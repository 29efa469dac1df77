/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sources of states, where rules track them: `source-track`, max-src-nodes, max-src-states,
 * max-src-conn and max-src-conn-rate (pf.conf(5); pf_insert_src_node, pf_src_connlimit and
 * pf_add_threshold of pf.c).
 *
 * A node counts the states of one source, for one rule or for all. It goes with its last state, or
 * `src.track` later.
 */
#ifndef WEIR_FW_SOURCE_H
#define WEIR_FW_SOURCE_H

#include <weir/fw/account.h>
#include <weir/fw/clock.h>
#include <weir/fw/counters.h>
#include <weir/fw/image.h>
#include <weir/fw/log.h>
#include <weir/fw/sources.h>
#include <weir/fw/state.h>

/* `set limit src-nodes` is held by count; the map is made with room for it. */
#define WEIR_SOURCE_COUNT_DEFAULT 10000
/* In weir_source.overloads, beside the rule's table: states of the source end, too. */
#define WEIR_SOURCE_FLUSHES (1u << 16)
/* Connections are counted in thousandths, because they fade. */
#define WEIR_SOURCE_RATE_UNIT 1000

/* weir_source_key.family, beside WEIR_FW_INET and WEIR_FW_INET6: the number of nodes of a rule. */
#define WEIR_SOURCE_NODES_OF_RULE 2

static __always_inline void weir_source_count_limit(__u32 cpu, enum weir_fw_limit limit)
{
	weir_fw_table_counters(cpu)->limits[limit]++;
}

static __always_inline struct weir_fw_rule __weir_arena *
weir_source_rule(const struct weir_fw_decision *d)
{
	return weir_at(struct weir_fw_rule, d->rule_at);
}

static __always_inline bool weir_source_is_global(const struct weir_fw_decision *d)
{
	return weir_source_rule(d)->source_flags & WEIR_FW_SOURCE_GLOBAL;
}

static __always_inline void weir_source_key_of_packet(const struct weir_fw_packet *p,
						      const struct weir_fw_decision *d,
						      struct weir_source_key *key)
{
	key->addr[0] = p->src[0];
	key->addr[1] = p->src[1];
	key->addr[2] = p->src[2];
	key->addr[3] = p->src[3];
	key->rule = weir_source_is_global(d) ? WEIR_FW_RULE_NONE : d->rule;
	key->family = p->family;
}

/* Counts a node of a rule up or down; false if the rule may have no more. */
static __noinline bool weir_source_count_nodes(__u32 owner, __u32 nodes_max, int step)
{
	struct weir_source_room *room = weir_source_room();
	struct weir_source *count;
	bool fits = true;

	if (!room)
		return false;
	room->count_key.rule = owner;
	room->count_key.family = WEIR_SOURCE_NODES_OF_RULE;
	count = bpf_map_lookup_elem(&weir_sources, &room->count_key);
	if (!count) {
		bpf_map_update_elem(&weir_sources, &room->count_key, room->fresh, 1);
		count = bpf_map_lookup_elem(&weir_sources, &room->count_key);
		if (!count)
			return false;
	}
	bpf_spin_lock(&count->lock);
	if (step > 0 && nodes_max && count->states >= nodes_max)
		fits = false;
	else
		count->states += step;
	bpf_spin_unlock(&count->lock);
	return fits;
}

/* Makes a node. False if there are too many. */
static __noinline bool weir_source_make(struct weir_source_room *room, __u32 owner,
					__u32 nodes_max, __u32 ruleset)
{
	struct weir_fw_control __weir_arena *control = weir_at(struct weir_fw_control, 0);
	__u32 limit = weir_at(struct weir_fw_image, ruleset)->source_limit ?:
			      WEIR_SOURCE_COUNT_DEFAULT;

	if (__sync_fetch_and_add(&control->source_count, 1) >= limit) {
		__sync_fetch_and_sub(&control->source_count, 1);
		return false;
	}
	if (!weir_source_count_nodes(owner, nodes_max, 1)) {
		__sync_fetch_and_sub(&control->source_count, 1);
		weir_source_count_limit(bpf_get_smp_processor_id(), WEIR_FW_LIMIT_SRC_NODES);
		return false;
	}
	room->fresh[WEIR_SOURCE_OWNER_AT] = owner;
	room->fresh[WEIR_SOURCE_CREATED_AT] = weir_fw_tick(control->clock_offset);
	__builtin_memcpy(&room->fresh[WEIR_SOURCE_KEY_AT], &room->key, sizeof(room->key));
	if (bpf_map_update_elem(&weir_sources, &room->key, room->fresh, 1)) { /* BPF_NOEXIST */
		/* Somebody else was faster, or there is no memory; the next look tells. */
		__sync_fetch_and_sub(&control->source_count, 1);
		weir_source_count_nodes(owner, 0, -1);
	} else {
		weir_fw_table_counters(bpf_get_smp_processor_id())->source_inserts++;
	}
	return true;
}

/* One more state of the packet's source. Returns 0, or the reason of the drop + 1. */
__noinline int weir_source_join(const struct weir_fw_packet *p __arg_nonnull,
				const struct weir_fw_decision *d __arg_nonnull)
{
	struct weir_fw_rule __weir_arena *rule = weir_source_rule(d);
	__u32 states_max = rule->source_states_max, tick = p->tick;
	__u32 second = weir_fw_second_ticks();
	struct weir_source_room *room = weir_source_room();
	struct weir_source *node;
	bool fits = false, is_full = false, is_own;
	int i;

	if (!room)
		return WEIR_FW_REASON_SRC_LIMIT + 1;
	room->connections_max = rule->source_conn_max;
	room->rate_count = rule->source_rate_count;
	room->rate_seconds = rule->source_rate_s;
	room->overloads = rule->overload;
	if (rule->source_flags & (WEIR_FW_SOURCE_FLUSH_RULE | WEIR_FW_SOURCE_FLUSH_GLOBAL))
		room->overloads |= WEIR_SOURCE_FLUSHES;
	weir_fw_table_counters(p->cpu)->source_searches++;
	room->keep_ticks =
		weir_fw_timeout_ticks(p->ruleset, d->profile, WEIR_FW_TIMEOUT_SRC_TRACK);
	weir_source_key_of_packet(p, d, &room->key);
	for (i = 0; i < WEIR_SOURCE_TRIES; i++) {
		node = bpf_map_lookup_elem(&weir_sources, &room->key);
		if (!node) {
			if (!weir_source_make(room, d->rule, rule->source_nodes_max,
					      p->ruleset))
				break;
			continue;
		}
		bpf_spin_lock(&node->lock);
		is_own = weir_source_is_of(node, &room->key);
		is_full = is_own && states_max && node->states >= states_max;
		if (is_own && (!states_max || node->states < states_max) &&
		    (!node->blocked_tick ||
		     tick - node->blocked_tick >= second)) {
			node->states++;
			node->blocked_tick = 0;
			node->connections_max = room->connections_max;
			node->rate_count = room->rate_count;
			node->rate_seconds = room->rate_seconds;
			node->overloads = room->overloads;
			node->keep_ticks = room->keep_ticks;
			fits = true;
		}
		bpf_spin_unlock(&node->lock);
		if (is_own)
			break;
	}
	if (!fits && is_full)
		weir_source_count_limit(p->cpu, WEIR_FW_LIMIT_SRC_STATES);
	return fits ? 0 : WEIR_FW_REASON_SRC_LIMIT + 1;
}

/*
 * Whether a further half of a record, which the source's node counts already, is within its rule's
 * limit of states. Returns 0, or the reason of the drop + 1.
 */
__noinline int weir_source_check(const struct weir_fw_packet *p __arg_nonnull,
				 const struct weir_fw_decision *d __arg_nonnull)
{
	__u32 states_max = weir_source_rule(d)->source_states_max;
	struct weir_source_room *room = weir_source_room();
	struct weir_source *node;
	bool is_full;

	if (!room || !states_max)
		return 0;
	weir_source_key_of_packet(p, d, &room->key);
	node = bpf_map_lookup_elem(&weir_sources, &room->key);
	if (!node)
		return 0;
	bpf_spin_lock(&node->lock);
	is_full = weir_source_is_of(node, &room->key) && node->states > states_max;
	bpf_spin_unlock(&node->lock);
	if (!is_full)
		return 0;
	weir_source_count_limit(p->cpu, WEIR_FW_LIMIT_SRC_STATES);
	return WEIR_FW_REASON_SRC_LIMIT + 1;
}

/* One state less in the node that a key has led to. Returns whether that was the last one. */
static __always_inline bool weir_source_subtract(struct weir_source *node,
						 const struct weir_source_key *key,
						 bool is_connection, __u32 now, __u32 *owner)
{
	bool is_last = false;

	bpf_spin_lock(&node->lock);
	if (weir_source_is_of(node, key)) {
		if (node->states)
			node->states--;
		if (is_connection && node->connections)
			node->connections--;
		if (!node->states && node->keep_ticks) {
			node->expires_tick = now + node->keep_ticks;
		} else if (!node->states) {
			node->is_dead = 1;
			is_last = true;
		}
	}
	*owner = node->owner;
	bpf_spin_unlock(&node->lock);
	return is_last;
}

/* Takes away a node that was marked dead. */
static __always_inline void weir_source_remove(const struct weir_source_key *key, __u32 owner)
{
	bpf_map_delete_elem(&weir_sources, key);
	weir_fw_table_counters(bpf_get_smp_processor_id())->source_removals++;
	__sync_fetch_and_sub(&weir_at(struct weir_fw_control, 0)->source_count, 1);
	weir_source_count_nodes(owner, 0, -1);
}

/* One state less; the node goes with its last one. */
static __always_inline int weir_source_part(const struct weir_source_key *key, bool is_connection)
{
	struct weir_source *node = bpf_map_lookup_elem(&weir_sources, key);
	__u32 now = weir_fw_tick(weir_at(struct weir_fw_control, 0)->clock_offset);
	__u32 owner = 0;

	if (node && weir_source_subtract(node, key, is_connection, now, &owner))
		weir_source_remove(key, owner);
	return 0;
}

/*
 * Ends a node: whatever it counts, or only if it has had no states for `src.track`. Returns whether
 * it did.
 */
__noinline int weir_source_end(const struct weir_source_key *key __arg_nonnull, __u32 now,
			       __u32 is_any)
{
	struct weir_source *node;
	bool ends = false;
	__u32 owner;

	if (key->family == WEIR_SOURCE_NODES_OF_RULE)
		return false;
	node = bpf_map_lookup_elem(&weir_sources, key);
	if (!node)
		return false;
	bpf_spin_lock(&node->lock);
	if (weir_source_is_of(node, key) &&
	    (is_any || (!node->states && (__s32)(node->expires_tick - now) <= 0)))
		ends = true;
	if (ends)
		node->is_dead = 1;
	owner = node->owner;
	bpf_spin_unlock(&node->lock);
	if (ends)
		weir_source_remove(key, owner);
	return ends;
}

/* Takes back what weir_source_join() counted. */
__noinline int weir_source_return(const struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_decision *d __arg_nonnull)
{
	struct weir_source_room *room = weir_source_room();

	if (!room)
		return 0;
	weir_source_key_of_packet(p, d, &room->key);
	return weir_source_part(&room->key, false);
}

/* The node of a record's half. */
static __always_inline void
weir_source_key_of_half(weir_line *s, __u32 slot, __u32 half, struct weir_source_key *key)
{
	bool is_global = s->interface[half] & WEIR_STATE_SOURCE_GLOBAL;
	__u32 control = s->control;
	__u32 end = !!(s->wscale[1] & WEIR_WSCALE_SOURCE_IS_1(half));

	key->family = control & WEIR_STATE_IPV6 ? WEIR_FW_INET6 : WEIR_FW_INET;
	key->rule = is_global ? WEIR_FW_RULE_NONE : weir_half_rule(s, slot, half);
	if (control & WEIR_STATE_IPV6) {
		__u32 states_at = weir_at(struct weir_fw_control, 0)->states_at;
		struct weir_state_v6 __weir_arena *a;

		a = weir_at(struct weir_state_v6, states_at + s->addr[1] * sizeof(*a));
		key->addr[0] = a->addr[end][0];
		key->addr[1] = a->addr[end][1];
		key->addr[2] = a->addr[end][2];
		key->addr[3] = a->addr[end][3];
	} else {
		key->addr[0] = s->addr[end];
		key->addr[1] = 0;
		key->addr[2] = 0;
		key->addr[3] = 0;
	}
}

static __always_inline struct weir_state __weir_arena *weir_source_line(__u32 slot)
{
	return weir_at(struct weir_state, weir_at(struct weir_fw_control, 0)->states_at +
						  slot * (__u32)sizeof(struct weir_state));
}

/* A record ends, under its bucket's lock. */
__noinline int weir_source_leave(__u32 slot, __u32 half)
{
	struct weir_state __weir_arena *s = weir_source_line(slot);
	struct weir_source_room *room = weir_source_room();

	half &= 1;
	if (!room || !(s->interface[half] & WEIR_STATE_SOURCE_TRACKED))
		return 0;
	weir_source_key_of_half(s, slot, half, &room->key);
	return weir_source_part(&room->key, s->wscale[0] & WEIR_WSCALE_COUNTED(half));
}

static __always_inline void weir_source_tell(const struct weir_source_key *key, __u32 rule,
					     __u32 cpu)
{
	struct weir_source_overload *told = bpf_ringbuf_reserve(&weir_overloads, sizeof(*told), 0);

	if (!told) {
		weir_fw_table_counters(cpu)->log_lost++;
		return;
	}
	told->time_ns = bpf_ktime_get_boot_ns();
	told->rule = rule;
	told->family = key->family;
	told->addr[0] = key->addr[0];
	told->addr[1] = key->addr[1];
	told->addr[2] = key->addr[2];
	told->addr[3] = key->addr[3];
	bpf_ringbuf_submit(told, 0);
}

/*
 * The handshake of a record is complete, as far as one of its halves counts it. Returns whether
 * the source has more connections than the rule allows.
 */
__noinline int weir_source_connect(__u32 slot, __u32 half, __u32 tick, __u32 cpu)
{
	struct weir_state __weir_arena *s = weir_source_line(slot);
	__u32 now_s = tick / weir_fw_second_ticks();
	bool is_over = false, is_often = false, is_own;
	struct weir_source_room *room = weir_source_room();
	struct weir_source *node;
	__u32 passed_s;

	half &= 1;
	if (!room || !(s->interface[half] & WEIR_STATE_SOURCE_TRACKED))
		return 0;
	weir_source_key_of_half(s, slot, half, &room->key);
	node = bpf_map_lookup_elem(&weir_sources, &room->key);
	if (!node)
		return 0;
	bpf_spin_lock(&node->lock);
	is_own = weir_source_is_of(node, &room->key);
	if (is_own)
		node->connections++;
	if (is_own && node->connections_max && node->connections > node->connections_max)
		is_over = true;
	if (is_own && node->rate_count && node->rate_seconds) {
		passed_s = now_s - node->rate_s;
		if (passed_s >= node->rate_seconds)
			node->rate = 0;
		else
			node->rate -= (__u64)node->rate * passed_s / node->rate_seconds;
		node->rate += WEIR_SOURCE_RATE_UNIT;
		node->rate_s = now_s;
		if (node->rate > (__u64)node->rate_count * WEIR_SOURCE_RATE_UNIT)
			is_often = true;
	}
	room->overloads = is_over || is_often ? node->overloads : 0;
	if (room->overloads)
		node->blocked_tick = tick ?: 1;
	bpf_spin_unlock(&node->lock);
	if (is_own)
		s->wscale[0] |= WEIR_WSCALE_COUNTED(half);
	if (is_over)
		weir_source_count_limit(cpu, WEIR_FW_LIMIT_SRC_CONN);
	if (is_often)
		weir_source_count_limit(cpu, WEIR_FW_LIMIT_SRC_CONN_RATE);
	if (room->overloads)
		weir_source_count_limit(cpu, WEIR_FW_LIMIT_OVERLOAD_TABLE);
	if (room->overloads & WEIR_SOURCE_FLUSHES)
		weir_source_count_limit(cpu, WEIR_FW_LIMIT_OVERLOAD_FLUSH);
	if (room->overloads)
		weir_source_tell(&room->key, weir_half_rule(s, slot, half), cpu);
	return is_over || is_often;
}

#endif /* WEIR_FW_SOURCE_H */

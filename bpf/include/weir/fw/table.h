/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state table: buckets, their locks, chains, and slots.
 *
 * Bucket b is slot b, which holds the bucket's first record; the others hang on `next`. The lock is
 * a bit of the first slot's control word. Who holds it is never interrupted by another holder: all
 * programs run with bottom halves off. Functions whose names begin with weir_bucket_ want the lock.
 *
 * The number of buckets follows that of states, one bucket at a time (index.h). So whoever has
 * computed a bucket may come too late: its records may be in another one by then. A record that is
 * found is right wherever it is found, because it is found under the lock of the bucket that it is
 * in. Who finds nothing looks whether the hash still leads to the same bucket (weir_state_is_at()):
 * under the lock that is certain, because a bucket only changes its records under its lock.
 */
#ifndef WEIR_FW_TABLE_H
#define WEIR_FW_TABLE_H

#include <weir/fw/account.h>
#include <weir/fw/counters.h>
#include <weir/fw/dirty.h>
#include <weir/fw/event.h>
#include <weir/fw/image.h>
#include <weir/fw/limited.h>
#include <weir/fw/line.h>
#include <weir/fw/loop.h>
#include <weir/fw/source.h>
#include <weir/fw/state.h>
#include <weir/fw/uses.h>

/* Rounds for a lock: well under a millisecond. */
#define WEIR_STATE_SPIN_MAX 30000
/* Rounds for the lists of free slots. */
#define WEIR_STATE_LIST_SPIN_MAX 1000
/* Records of a bucket. weir-fw's limits refuse an index so small that chance could lead here. */
#define WEIR_STATE_CHAIN_MAX 1024

/* weir_fw_control.index of so many buckets; the mask is the least 2^k - 1 that all are within. */
static __always_inline __u64 weir_index_of(__u32 count, __u32 mask)
{
	return (__u64)mask << 32 | count;
}

/*
 * The bucket of a hash in an index of `count` buckets: linear hashing (W. Litwin, 1980). Those
 * behind the last one have not been split off yet from those without the highest bit. The bits are
 * taken from the top of the hash, which are the best (hash.h), in another order.
 */
static __always_inline __u32 weir_index_bucket(__u64 index, __u64 hash)
{
	__u32 count = (__u32)index, mask = index >> 32;
	__u32 bucket = __builtin_bswap32((__u32)(hash >> 32)) & mask;

	return bucket < count ? bucket : bucket & mask >> 1;
}

static __always_inline __u64 weir_index(void)
{
	return weir_read_once(weir_fw_control()->index);
}

/* The bucket of a hash as of now. */
static __always_inline __u32 weir_state_bucket(__u64 hash)
{
	return weir_index_bucket(weir_index(), hash);
}

/*
 * Whether a bucket is still that of a hash. To be asked under its lock, or after its first line was
 * read: then the records of the hash were there as it was read, unless the bucket has been split
 * and joined again in between. Thousands of others are before it is its turn again, for which the
 * number of states has to halve or double; and a packet that such a thing happened to is judged as
 * one of an unknown flow.
 */
static __always_inline bool weir_state_is_at(__u32 home, __u64 hash)
{
#ifdef __TARGET_ARCH_x86
	/* Loads are made in their order. */
	weir_compiler_barrier();
#else
	__sync_fetch_and_or(&weir_fw_control()->own_unused[0], 0);
#endif
	return weir_state_bucket(hash) == home;
}

static __noinline bool weir_state_lock_slowly(__u32 home, __u32 cpu)
{
	weir_line *line = weir_state_line(home);
	__u32 i, old;

	weir_fw_table_counters(cpu)->lock_waits++;
	for (i = weir_fw_bound(WEIR_STATE_SPIN_MAX); i && weir_fw_may_loop; i--) {
		old = weir_read_once(line->control);
		if (old & WEIR_STATE_LOCK)
			continue;
		if (__sync_val_compare_and_swap(&line->control, old, old | WEIR_STATE_LOCK) == old)
			return true;
	}
	return false;
}

/* Locks a bucket; false if somebody else has it for too long. */
static __always_inline bool weir_state_lock(__u32 home, __u32 cpu)
{
	weir_line *line = weir_state_line(home);
	__u32 old = weir_read_once(line->control) & ~WEIR_STATE_LOCK;

	if (__sync_val_compare_and_swap(&line->control, old, old | WEIR_STATE_LOCK) == old)
		return true;
	return weir_state_lock_slowly(home, cpu);
}

/* Unlocks a bucket, and sets the other bits of its first slot's control word. */
static __always_inline void weir_state_unlock(__u32 home, __u32 control)
{
	weir_line *line = weir_state_line(home);

	weir_compiler_barrier();
#ifdef __TARGET_ARCH_x86
	/* Stores become visible in their order. */
	weir_write_once(line->control, control & ~WEIR_STATE_LOCK);
#else
	__sync_lock_test_and_set(&line->control, control & ~WEIR_STATE_LOCK);
#endif
	weir_compiler_barrier();
}

/* How often somebody looks where a bucket's records have gone: they go once in a long time. */
#define WEIR_STATE_MOVES_MAX 4
/* Instead of a bucket: its lock could not be had. */
#define WEIR_STATE_BUCKET_NONE 0xffffffffu

/* Locks the bucket of a hash that was in another one a moment ago. */
__noinline __u32 weir_state_lock_moved(__u64 hash, __u32 cpu)
{
	__u32 home, i;

	for (i = weir_fw_bound(WEIR_STATE_MOVES_MAX); i && weir_fw_may_loop; i--) {
		home = weir_state_bucket(hash);
		if (!weir_state_lock(home, cpu))
			break;
		if (weir_state_is_at(home, hash))
			return home;
		weir_state_unlock(home, weir_state_line(home)->control);
	}
	return WEIR_STATE_BUCKET_NONE;
}

/* Locks the bucket of a hash, and returns it. */
static __always_inline __u32 weir_state_lock_bucket(__u64 hash, __u32 cpu)
{
	__u32 home = weir_state_bucket(hash);

	if (!weir_state_lock(home, cpu))
		return WEIR_STATE_BUCKET_NONE;
	if (weir_state_is_at(home, hash))
		return home;
	weir_state_unlock(home, weir_state_line(home)->control);
	return weir_state_lock_moved(hash, cpu);
}

/* Takes an overflow slot; 0 if there is none that has memory. */
static __noinline __u32 weir_slot_take(void)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();
	__u64 head, next;
	__u32 i, slot;

	for (i = weir_fw_bound(WEIR_STATE_LIST_SPIN_MAX); i && weir_fw_may_loop; i--) {
		head = weir_read_once(control->free_head);
		slot = (__u32)head;
		if (!slot)
			break;
		next = ((head >> 32) + 1) << 32 | weir_read_once(weir_state_line(slot)->next);
		if (__sync_val_compare_and_swap(&control->free_head, head, next) == head) {
			__sync_fetch_and_sub(&control->free_count, 1);
			return slot;
		}
	}
	/* Memory may come meanwhile: the count never passes what is there, not for a moment. */
	for (i = weir_fw_bound(WEIR_STATE_LIST_SPIN_MAX); i && weir_fw_may_loop; i--) {
		slot = weir_read_once(control->fresh_count);
		if (slot >= weir_read_once(control->overflow_ready))
			return 0;
		if (__sync_val_compare_and_swap(&control->fresh_count, slot, slot + 1) == slot)
			return control->bucket_count + slot;
	}
	return 0;
}

/* Gives an overflow slot back. One that cannot be is lost until the table is made anew. */
static __noinline void weir_slot_give(__u32 slot)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();
	weir_line *line = weir_state_line(slot);
	__u64 head, next;
	__u32 i;

	weir_write_once(line->control, 0);
	for (i = weir_fw_bound(WEIR_STATE_SPIN_MAX); i && weir_fw_may_loop; i--) {
		head = weir_read_once(control->free_head);
		weir_write_once(line->next, (__u32)head);
		next = ((head >> 32) + 1) << 32 | slot;
		if (__sync_val_compare_and_swap(&control->free_head, head, next) == head) {
			__sync_fetch_and_add(&control->free_count, 1);
			return;
		}
	}
}

#define WEIR_MATCH_NONE 0
#define WEIR_MATCH_FORWARD 1
#define WEIR_MATCH_REVERSE 2

/* What of a control word says whether a line can be a packet's record. */
#define WEIR_STATE_KIND                                                                         \
	(WEIR_STATE_LIVE | WEIR_STATE_ALIAS | WEIR_STATE_IPV6 |                                 \
	 0xffu << WEIR_STATE_PROTOCOL_SHIFT)

/* An alias with neither belongs to nobody. */
#define WEIR_ALIAS_HALVES (WEIR_STATE_HALF_A | WEIR_STATE_HALF_B)

/* Whether a line that is live is no record, but an alias, or only begins a bucket (alias.h). */
static __always_inline bool weir_is_alias(__u32 control)
{
	return control & WEIR_STATE_ALIAS;
}

/* Whether an alias is of another family than its record (family.h). */
static __always_inline bool weir_is_other_family(__u32 alias_control)
{
	return alias_control & WEIR_STATE_OTHER_FAMILY;
}

/*
 * The control word of a line as weir_state_match() takes it, of records or of aliases; 0, which
 * matches nothing: it is an alias that belongs to nobody, or a record where aliases are meant.
 */
static __always_inline __u32 weir_match_control(__u32 control, bool is_alias)
{
	if (!is_alias)
		return control;
	return weir_is_alias(control) && control & WEIR_ALIAS_HALVES ?
		       control & ~WEIR_STATE_ALIAS :
		       0;
}

/* Both ports as they stand in a packet and in a record. */
static __always_inline __u32 weir_ports(__be16 src, __be16 dst)
{
	return (__u32)dst << 16 | src;
}

static __always_inline __u32 weir_state_match4(weir_line *s, __u32 control,
					       const struct weir_fw_packet *p)
{
	const __u32 kind = WEIR_STATE_KIND;
	__u32 wanted = WEIR_STATE_LIVE | (__u32)p->protocol << WEIR_STATE_PROTOCOL_SHIFT;
	__u32 ports = weir_ports(s->port[0], s->port[1]);

	if ((control & kind) != wanted)
		return WEIR_MATCH_NONE;
	if (!((s->addr[0] ^ p->src[0]) | (s->addr[1] ^ p->dst[0]) |
	      (ports ^ weir_ports(p->src_port, p->dst_port))))
		return WEIR_MATCH_FORWARD;
	if (!((s->addr[0] ^ p->dst[0]) | (s->addr[1] ^ p->src[0]) |
	      (ports ^ weir_ports(p->dst_port, p->src_port))))
		return WEIR_MATCH_REVERSE;
	return WEIR_MATCH_NONE;
}

static __always_inline bool weir_same_addr6(const __u32 __weir_arena *a, const __be32 *b)
{
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

static __always_inline __u32 weir_state_match6(weir_line *s, __u32 control,
					       const struct weir_fw_packet *p)
{
	const __u32 kind = WEIR_STATE_KIND;
	__u32 wanted = WEIR_STATE_LIVE | WEIR_STATE_IPV6 |
		       (__u32)p->protocol << WEIR_STATE_PROTOCOL_SHIFT;
	__u32 ports = weir_ports(s->port[0], s->port[1]);
	struct weir_state_v6 __weir_arena *a;

	if ((control & kind) != wanted || s->addr[0] != (__u32)p->hash)
		return WEIR_MATCH_NONE;
	a = weir_addresses_at(s->addr[1]);
	if (ports == weir_ports(p->src_port, p->dst_port) && weir_same_addr6(a->addr[0], p->src) &&
	    weir_same_addr6(a->addr[1], p->dst))
		return WEIR_MATCH_FORWARD;
	if (ports == weir_ports(p->dst_port, p->src_port) && weir_same_addr6(a->addr[0], p->dst) &&
	    weir_same_addr6(a->addr[1], p->src))
		return WEIR_MATCH_REVERSE;
	return WEIR_MATCH_NONE;
}

static __always_inline __u32 weir_state_match(weir_line *s, __u32 control,
					      const struct weir_fw_packet *p)
{
	return p->family == WEIR_FW_INET ? weir_state_match4(s, control, p) :
					   weir_state_match6(s, control, p);
}

/* Where weir_bucket_find() found a record. */
#define WEIR_FOUND_REVERSE (1ull << 32)
#define WEIR_FOUND_NONE (1ull << 33)
#define WEIR_FOUND_LOST (1ull << 34) /* the chain is longer than it may be */

/* The slot of a packet's record, or of the alias with its ends, and WEIR_FOUND_* besides. */
__noinline __u64 weir_bucket_find(const struct weir_fw_packet *p, __u32 home, __u32 is_alias)
{
	__u32 i, slot = home, match;
	weir_line *s;

	if (!p)
		return WEIR_FOUND_NONE;
	for (i = weir_fw_bound(WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		s = weir_state_line(slot);
		match = weir_state_match(s, weir_match_control(s->control, is_alias), p);
		if (match)
			return slot | (match == WEIR_MATCH_REVERSE ? WEIR_FOUND_REVERSE : 0);
		slot = s->next;
		if (!slot)
			return WEIR_FOUND_NONE;
		weir_fw_table_counters(p->cpu)->overflow_steps++;
	}
	return WEIR_FOUND_LOST;
}

/* The line that counts for a record, as far as its account does not: its own, or an alias's. */
static __always_inline weir_line *weir_bucket_counter(weir_line *s)
{
	if (!(s->control & WEIR_STATE_TRANSLATED))
		return s;
	return weir_state_line(s->count[0] ? s->count[0] : s->count[1]);
}

/* Moves what a line has counted in a direction to its account. */
__noinline int weir_bucket_carry(__u32 slot, __u32 reverse)
{
	struct weir_account __weir_arena *account = weir_account_at(slot);
	weir_line *s = weir_state_line(slot), *counter = weir_bucket_counter(s);
	__u32 count = counter->count[reverse & 1];

	if (!weir_uses_account(s)) {
		weir_write_once(account->packets_rule[0], 0);
		weir_write_once(account->packets_rule[1], 0);
		weir_write_once(account->bytes_created[0], 0);
		weir_write_once(account->bytes_created[1], 0);
		weir_line_account_of(s)->has_account = 1;
	}
	weir_account_add(&account->packets_rule[reverse & 1], WEIR_ACCOUNT_RULE_SHIFT,
			 count >> WEIR_STATE_COUNT_PACKETS_SHIFT);
	weir_account_add(&account->bytes_created[reverse & 1], WEIR_ACCOUNT_SCRUB_SHIFT,
			 count & WEIR_STATE_COUNT_BYTES_MAX);
	counter->count[reverse & 1] = 0;
	return 0;
}

/* Counts a packet in a line: that of the record in the slot, or the one that counts for it. */
static __always_inline void weir_bucket_count_in(weir_line *counter, __u32 slot, __u32 reverse,
						 __u32 bytes)
{
	__u32 count = counter->count[reverse];

	bytes &= 0xfffff;
	if (count >= 0xffu << WEIR_STATE_COUNT_PACKETS_SHIFT ||
	    (count & WEIR_STATE_COUNT_BYTES_MAX) + bytes > WEIR_STATE_COUNT_BYTES_MAX) {
		weir_bucket_carry(slot, reverse);
		count = 0;
	}
	counter->count[reverse] = count + (1u << WEIR_STATE_COUNT_PACKETS_SHIFT) + bytes;
}

static __always_inline void weir_bucket_count(weir_line *s, __u32 slot, __u32 reverse, __u32 bytes)
{
	weir_bucket_count_in(weir_bucket_counter(s), slot, reverse, bytes);
}

/* Adds the packets from an end, over the life of a record, to those of its rule in a direction. */
static __noinline void weir_bucket_hand_over(__u32 slot, __u32 end, __u32 counters_at,
					     __u32 direction)
{
	struct weir_fw_rule_counters __weir_arena *c =
		weir_at(struct weir_fw_rule_counters, counters_at);
	weir_line *s = weir_state_line(slot);
	__u32 count = weir_bucket_counter(s)->count[end & 1];

	c->packets[direction & 1] += weir_account_packets(s, slot, end & 1) +
				     (count >> WEIR_STATE_COUNT_PACKETS_SHIFT);
	c->bytes[direction & 1] +=
		weir_account_bytes(s, slot, end & 1) + (count & WEIR_STATE_COUNT_BYTES_MAX);
}

/* Whether a record's other side is of another family. */
static __always_inline bool weir_has_two_families(weir_line *s)
{
	return s->control & WEIR_STATE_TRANSLATED && s->count[1] &&
	       weir_is_other_family(weir_state_line(s->count[1])->control);
}

/*
 * A half's rule has one state less. Returns where its counters of a CPU are, which get the packets;
 * 0: nowhere.
 */
static __noinline __u32 weir_bucket_settle(__u32 slot, __u32 half, __u32 cpu)
{
	weir_line *s = weir_state_line(slot);
	__u32 rule = weir_half_rule(s, slot, half & 1), active = weir_fw_control()->active;
	__u32 at = weir_fw_counters_of(active, rule, cpu), first;

	if (rule == WEIR_FW_RULE_NONE || !at)
		return 0;
	/* A rule that made both halves has had one state; of two families, one half of it. */
	if (half && weir_half_rule(s, slot, 0) == rule)
		return weir_has_two_families(s) ? 0 : at;
	first = at - cpu * (__u32)sizeof(struct weir_fw_rule_counters);
	__sync_fetch_and_sub(&weir_at(struct weir_fw_rule_counters, first)->states_live, 1);
	return at;
}

/* Where the counters of the rule are that has translated a half, if it counts the state. */
static __always_inline __u32 weir_alias_counters(weir_line *s, __u32 half, __u32 cpu)
{
	weir_alias_line *alias = weir_alias_at(s->count[half]);

	if (!(s->control & WEIR_STATE_TRANSLATED) || !s->count[half] || !alias->is_counted)
		return 0;
	return weir_fw_counters_of(weir_fw_control()->active, alias->rule, cpu);
}

/*
 * What a record has counted becomes its rules' own: of those that made its halves, and of those
 * that translated them.
 */
static __always_inline void weir_bucket_close(__u32 slot, __u32 cpu)
{
	__u32 half, at, i;

	/* Half A sees forward packets come in, half B sees them leave. */
	for (i = 0; i < 4; i++) {
		half = i & 1;
		at = i < 2 ? weir_bucket_settle(slot, half, cpu) :
			     weir_alias_counters(weir_state_line(slot), half, cpu);
		if (!at)
			continue;
		weir_bucket_hand_over(slot, half, at, WEIR_FW_IN);
		weir_bucket_hand_over(slot, !half, at, WEIR_FW_OUT);
	}
}

/* Copies a record into another slot, where it lives from then on. */
static __always_inline void weir_bucket_move(__u32 to, __u32 from)
{
	weir_line *target = weir_state_line(to), *source = weir_state_line(from);
	__u64 __weir_arena *a = (__u64 __weir_arena *)target;
	__u64 __weir_arena *b = (__u64 __weir_arena *)source;
	__u32 control = source->control;
	int i;

	target->next = source->next;
#pragma unroll
	for (i = 1; i < 8; i++)
		a[i] = b[i];
	if (weir_uses_account(source)) {
		a = (__u64 __weir_arena *)weir_account_at(to);
		b = (__u64 __weir_arena *)weir_account_at(from);
#pragma unroll
		for (i = 0; i < 4; i++)
			a[i] = b[i];
	}
	if (control & WEIR_STATE_IPV6)
		weir_addresses_at(target->addr[1])->owner = to;
	/* Who sends all records slot by slot may have been at the new one already. */
	if (weir_fw_control()->sync_out & WEIR_FW_SYNC_OUT_ALL)
		control |= WEIR_STATE_DIRTY;
	weir_write_once(target->control, control | WEIR_STATE_LOCK);
	if (control & WEIR_STATE_DIRTY)
		weir_dirty_hint(to);
}

/* A rule that has translated a flow has one state less. */
static __noinline void weir_alias_settle(__u32 rule)
{
	__u32 first = weir_fw_counters_of(weir_fw_control()->active, rule, 0);

	if (first)
		__sync_fetch_and_sub(&weir_at(struct weir_fw_rule_counters, first)->states_live, 1);
}

/* An alias that belongs to nobody any more: alias.h says who takes it out of its bucket. */
static __always_inline void weir_alias_end(__u32 slot)
{
	weir_alias_line *alias = weir_alias_at(slot);

	if (alias->is_counted)
		weir_alias_settle(alias->rule);
	if (alias->uses)
		weir_uses_give(slot);
	weir_write_once(alias->control, alias->control & ~WEIR_ALIAS_HALVES);
	__sync_fetch_and_sub(&weir_fw_control()->alias_count, 1);
}

static __always_inline void weir_bucket_end_aliases(weir_line *s)
{
	if (s->count[0])
		weir_alias_end(s->count[0]);
	if (s->count[1])
		weir_alias_end(s->count[1]);
}

/* A first line that only begins its bucket, whose lock is held. Others follow it, or will. */
static __always_inline void weir_bucket_begin(__u32 home)
{
	__u64 __weir_arena *words = (__u64 __weir_arena *)weir_state_line(home);
	int i;

#pragma unroll
	for (i = 1; i < 8; i++)
		weir_write_once(words[i], 0);
	weir_write_once(weir_state_line(home)->control,
			WEIR_STATE_LOCK | WEIR_STATE_LIVE | WEIR_STATE_ALIAS);
}

/* Whether a record is of a TCP connection whose ends have not shaken hands so far. */
static __always_inline bool weir_is_half_open(weir_line *s, __u32 control)
{
	return (control >> WEIR_STATE_PROTOCOL_SHIFT & 0xff) == WEIR_PROTOCOL_TCP &&
	       !(s->wscale[0] & WEIR_WSCALE_CONNECTED);
}

/*
 * Ends a record: `before` is the slot before it in its bucket, or the same for the first one. The
 * bucket stays locked. Returns whether another record has moved into the slot; if not, the one that
 * now stands behind `before` is the next.
 */
__noinline int weir_bucket_delete(__u32 home, __u32 before, __u32 slot, __u32 cpu)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();
	weir_line *s = weir_state_line(slot);
	__u32 flags = s->control, next = s->next;

	if (weir_state_is_exported(s, slot))
		weir_event_end(slot, cpu);
	weir_change_end(slot, flags, cpu);
	weir_bucket_close(slot, cpu);
	if (weir_is_half_open(s, flags))
		__sync_fetch_and_sub(&control->half_open_count, 1);
	if (flags & WEIR_STATE_TRACKED) {
		weir_source_leave(slot, 0);
		weir_source_leave(slot, 1);
	}
	if (weir_limiter_is_any()) {
		weir_limited_leave(slot, 0);
		weir_limited_leave(slot, 1 | WEIR_LIMITED_LAST);
	}
	if (flags & WEIR_STATE_TRANSLATED)
		weir_bucket_end_aliases(s);
	if (flags & WEIR_STATE_IPV6)
		weir_slot_give(s->addr[1]);
	weir_fw_table_counters(cpu)->removals++;
	__sync_fetch_and_sub(&control->state_count, 1);
	if (slot != home) {
		weir_state_line(before)->next = next;
		weir_slot_give(slot);
		return 0;
	}
	if (!next) {
		weir_write_once(s->control, WEIR_STATE_LOCK);
		return 0;
	}
	/* Aliases never move. */
	if (weir_is_alias(weir_state_line(next)->control)) {
		weir_bucket_begin(home);
		return 0;
	}
	weir_bucket_move(home, next);
	weir_slot_give(next);
	return 1;
}

#endif /* WEIR_FW_TABLE_H */

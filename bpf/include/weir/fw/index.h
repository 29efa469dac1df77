/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The index follows the number of states: it gets a bucket, or loses its last one, as the control
 * process asks the sweeping program (WEIR_SWEEP_SPLIT, WEIR_SWEEP_JOIN). That is the only writer of
 * weir_fw_control.index, and the control process runs it once at a time.
 *
 * The records of a new bucket come from a lower one, that of its number without the highest bit
 * (table.h); the records of the last bucket go back there. Both buckets are locked, the lower one
 * first: nobody else holds two. Then, in this order,
 *   1. what is to move is put where it is going to be, with its bucket's control word last;
 *   2. the index says so, in one store;
 *   3. it is taken away from where it was, and both are unlocked.
 *
 * Why nobody misses a record:
 * - Who waits for the lock of either bucket looks again where the hash leads, once it has it.
 * - Who finds a bucket empty without its lock has read that before 1 or after 3. Before 1 its
 *   records were not there; after 3 the index that is read next leads elsewhere.
 * - The first stage notes a bucket that may have been split when the second looks into it. What is
 *   not found there goes the long way, which computes the bucket again (quick.h).
 * - Sweeps go through the buckets upwards. What a split moves, it moves to the end, where a sweep
 *   comes later; one that must not miss a record keeps the control process from joining meanwhile,
 *   and goes to the end as it is then.
 * - The control process reads without locks. It reads a range again if a bucket of it was split
 *   meanwhile, and knows by the number of buckets that there were then which of those behind it has
 *   seen (weir-fw, states.rs).
 *
 * A bucket is only split off into memory that is there (`bucket_ready`). Of a run that is killed
 * nothing is left half done: the kernel lets it end.
 */
#ifndef WEIR_FW_INDEX_H
#define WEIR_FW_INDEX_H

#include <weir/fw/alias.h>
#include <weir/fw/lookup.h>
#include <weir/fw/request.h>
#include <weir/fw/scratch.h>

/* The hash of a record: weir_fw_hash() of its packets. Needs the lock of its bucket. */
__noinline __u64 weir_index_hash(struct weir_fw_packet *key __arg_nonnull, __u32 slot)
{
	weir_line *s = weir_state_line(slot);
	__u32 control = s->control;
	struct weir_state_v6 __weir_arena *a;

	key->protocol = control >> WEIR_STATE_PROTOCOL_SHIFT & 0xff;
	key->src_port = s->port[0];
	key->dst_port = s->port[1];
	if (!(control & WEIR_STATE_IPV6)) {
		key->family = WEIR_FW_INET;
		key->src[0] = s->addr[0];
		key->dst[0] = s->addr[1];
		return weir_fw_hash(key);
	}
	a = weir_addresses_at(s->addr[1]);
	key->family = WEIR_FW_INET6;
	weir_copy_address(key->src, a->addr[0]);
	weir_copy_address(key->dst, a->addr[1]);
	return weir_fw_hash(key);
}

/* Locks two buckets, the lower one first. */
static __always_inline bool weir_index_lock(__u32 low, __u32 high, __u32 cpu)
{
	if (!weir_state_lock(low, cpu))
		return false;
	if (weir_state_lock(high, cpu))
		return true;
	weir_state_unlock(low, weir_state_line(low)->control);
	return false;
}

static __always_inline void weir_index_unlock(__u32 low, __u32 high)
{
	weir_state_unlock(high, weir_state_line(high)->control);
	weir_state_unlock(low, weir_state_line(low)->control);
}

static __always_inline void weir_index_publish(__u64 index)
{
	weir_compiler_barrier();
#ifdef __TARGET_ARCH_x86
	/* Stores become visible in their order. */
	weir_write_once(weir_fw_control()->index, index);
#else
	__sync_lock_test_and_set(&weir_fw_control()->index, index);
#endif
	weir_compiler_barrier();
}

/* A bucket that nothing is in, and that stays locked. */
static __always_inline void weir_index_clear(__u32 home)
{
	weir_line *line = weir_state_line(home);

	weir_write_once(line->next, 0);
	weir_write_once(line->control, WEIR_STATE_LOCK);
}

/*
 * Unhangs the further records of a bucket that belong to another one by an index. Returns the first
 * of them, from which the others hang; 0: there is none.
 */
__noinline __u32 weir_index_part(struct weir_fw_packet *key __arg_nonnull, __u64 index, __u32 from,
				 __u32 to)
{
	__u32 before = from, moved = 0, slot = weir_state_line(from)->next, next, i;

	for (i = weir_fw_bound(2 * WEIR_STATE_CHAIN_MAX); i && slot && weir_fw_may_loop; i--) {
		next = weir_state_line(slot)->next;
		if (weir_index_bucket(index, weir_index_hash(key, slot)) == to) {
			weir_state_line(before)->next = next;
			weir_state_line(slot)->next = moved;
			moved = slot;
		} else {
			before = slot;
		}
		slot = next;
	}
	return moved;
}

/*
 * Has a chain stand in an empty bucket: its first record in the first line, whose slot is then free
 * (true), or the chain behind the first line where it begins with an alias, which never moves.
 */
static __always_inline bool weir_index_fill(__u32 home, __u32 chain)
{
	if (!weir_is_alias(weir_state_line(chain)->control)) {
		weir_bucket_move(home, chain);
		return true;
	}
	weir_write_once(weir_state_line(home)->next, chain);
	weir_bucket_begin(home);
	return false;
}

/* The same for a bucket whose first record has gone, and that the rest of its chain stays in. */
static __always_inline void weir_index_refill(__u32 home, __u32 chain)
{
	if (!chain)
		weir_index_clear(home);
	else if (weir_index_fill(home, chain))
		weir_slot_give(chain);
}

/* One bucket more, at the end. Returns 0 if it cannot be at the moment. */
__noinline int weir_index_split(struct weir_fw_packet *key __arg_nonnull, __u32 cpu)
{
	__u64 index = weir_index();
	__u32 mask = index >> 32, high = (__u32)index, low, moved = 0, next;
	weir_line *line, *target = weir_state_line(high);
	bool is_moved = false;

	if (high >= weir_fw_control()->bucket_ready)
		return 0;
	if (high > mask)
		mask = mask << 1 | 1;
	index = weir_index_of(high + 1, mask);
	low = high & mask >> 1;
	line = weir_state_line(low);
	if (!weir_index_lock(low, high, cpu))
		return 0;
	if (!(line->control & WEIR_STATE_LIVE)) {
		weir_index_publish(index);
		weir_index_unlock(low, high);
		return 1;
	}
	if (line->next)
		moved = weir_index_part(key, index, low, high);
	/* What only begins a bucket has no ends. */
	if (!weir_is_alias(line->control) &&
	    weir_index_bucket(index, weir_index_hash(key, low)) == high) {
		next = line->next;
		weir_bucket_move(high, low);
		target->next = moved;
		weir_index_publish(index);
		weir_index_refill(low, next);
	} else {
		if (moved)
			is_moved = weir_index_fill(high, moved);
		weir_index_publish(index);
		if (is_moved)
			weir_slot_give(moved);
		if (weir_is_alias(line->control) && !line->next)
			weir_index_clear(low);
	}
	weir_index_unlock(low, high);
	return 1;
}

/* Hangs the records of a bucket into another one in which there are some. False: no slot. */
static __always_inline bool weir_index_append(__u32 low, __u32 high)
{
	weir_line *target = weir_state_line(low), *line = weir_state_line(high);
	__u32 slot, last, next, i;

	if (weir_is_alias(line->control)) {
		slot = line->next;
		if (!slot)
			return true;
	} else {
		slot = weir_slot_take();
		if (!slot)
			return false;
		weir_bucket_move(slot, high);
		weir_state_line(slot)->control &= ~WEIR_STATE_LOCK;
	}
	last = slot;
	for (i = weir_fw_bound(2 * WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		next = weir_state_line(last)->next;
		if (!next)
			break;
		last = next;
	}
	weir_state_line(last)->next = target->next;
	target->next = slot;
	return true;
}

/* One bucket less, the last one. Returns 0 if it cannot be at the moment. */
__noinline int weir_index_join(__u32 cpu)
{
	__u64 index = weir_index();
	__u32 mask = index >> 32, high = (__u32)index - 1, low = high & mask >> 1;
	weir_line *line = weir_state_line(high);
	bool is_done = true;

	if (high <= 1)
		return 0;
	if (high - 1 <= mask >> 1)
		mask >>= 1;
	index = weir_index_of(high, mask);
	if (!weir_index_lock(low, high, cpu))
		return 0;
	if (line->control & WEIR_STATE_LIVE) {
		if (weir_state_line(low)->control & WEIR_STATE_LIVE)
			is_done = weir_index_append(low, high);
		else
			weir_bucket_move(low, high);
	}
	if (is_done) {
		weir_index_publish(index);
		weir_index_clear(high);
	}
	weir_index_unlock(low, high);
	return is_done;
}

#endif /* WEIR_FW_INDEX_H */

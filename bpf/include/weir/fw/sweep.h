/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * weir_fw_sweep: goes through some buckets for the control process, which runs it by
 * BPF_PROG_TEST_RUN, or has the index grow or shrink. The request stands in the "frame", and so
 * does the answer.
 *
 * XDP programs run with bottom halves off, and the lock of a bucket is taken as the data path does.
 */
#ifndef WEIR_FW_SWEEP_H
#define WEIR_FW_SWEEP_H

#include <weir/fw/account.h>
#include <weir/fw/clock.h>
#include <weir/fw/copy.h>
#include <weir/fw/index.h>
#include <weir/fw/lookup.h>
#include <weir/fw/request.h>
#include <weir/fw/restore.h>
#include <weir/fw/scratch.h>
#include <weir/fw/timeout.h>

/* Buckets whose lines are read side by side. */
#define WEIR_SWEEP_GROUP 32
/* Records between two looks at the clock. */
#define WEIR_SWEEP_RECORDS 64
/* Splits between them, less one: a power of two, less one. */
#define WEIR_SWEEP_CLOCK_MASK 7

/* A next hop this many generations old is forgotten, long before its number comes again. */
#define WEIR_SWEEP_GENERATION_AGE_MAX 0x2000

static __always_inline bool weir_sweep_end_fits(const struct weir_fw_sweep *r, __u32 wanted,
						__u32 __weir_arena *addr, __be16 port, __u32 words)
{
	__u32 differ = 0, i;

	if (r->port[wanted] && r->port[wanted] != port)
		return false;
	for (i = 0; i < 4; i++)
		if (i < words)
			differ |= (addr[i] ^ r->addr[wanted][i]) & r->mask[wanted][i];
	return !differ;
}

/* Whether a record has an address outside, where it is another one than inside, that fits. */
__noinline int weir_sweep_outside_fits(const struct weir_fw_sweep *r __arg_nonnull, __u32 slot)
{
	weir_line *s = weir_state_line(slot);
	__u32 half, end, words, differ, i, version = r->flags & 0xff;

	if (!(s->control & WEIR_STATE_TRANSLATED))
		return false;
	for (half = 0; half < 2; half++) {
		__u32 __weir_arena *addr;
		weir_alias_line *a;

		if (!s->count[half])
			continue;
		a = weir_alias_at(s->count[half]);
		if (version && version != (a->control & WEIR_STATE_IPV6 ? 6 : 4))
			continue;
		end = !half;
		addr = a->addr + end;
		words = 1;
		if (a->control & WEIR_STATE_IPV6) {
			addr = weir_addresses_at(a->addr[1])->addr[end];
			words = 4;
		}
		/* Of another family they are never the same. */
		differ = weir_is_other_family(a->control);
		for (i = 0; i < 4; i++)
			if (i < words)
				differ |= addr[i] ^ a->inside[i];
		if (differ && weir_sweep_end_fits(r, 0, addr, a->port[end], words))
			return true;
	}
	return false;
}

static __always_inline bool weir_sweep_fits(const struct weir_fw_sweep *r, weir_line *s,
					    __u32 slot, __u32 control)
{
	bool is_ipv6 = control & WEIR_STATE_IPV6;
	__u32 version = r->flags & 0xff, words = is_ipv6 ? 4 : 1;
	__u32 protocol = r->flags >> WEIR_SWEEP_PROTOCOL_SHIFT & 0xff;
	__u32 interface = r->flags >> WEIR_SWEEP_INTERFACE_SHIFT & 0xff;
	__u32 __weir_arena *one = s->addr, *two = s->addr + 1;

	/* An address outside may be of another family. */
	if (version && version != (is_ipv6 ? 6 : 4) && !(r->flags & WEIR_SWEEP_OUTSIDE))
		return false;
	if (protocol && protocol != (control >> WEIR_STATE_PROTOCOL_SHIFT & 0xff))
		return false;
	if (interface && (s->interface[0] & WEIR_STATE_INTERFACE_MASK) != interface &&
	    (s->interface[1] & WEIR_STATE_INTERFACE_MASK) != interface)
		return false;
	if (r->flags & WEIR_SWEEP_RULE) {
		if (weir_half_rule(s, slot, 0) != r->rule && weir_half_rule(s, slot, 1) != r->rule)
			return false;
	}
	if (r->flags & WEIR_SWEEP_OUTSIDE)
		return weir_sweep_outside_fits(r, slot);
	if (is_ipv6) {
		struct weir_state_v6 __weir_arena *a = weir_addresses_at(s->addr[1]);

		one = a->addr[0];
		two = a->addr[1];
	}
	if (weir_sweep_end_fits(r, 0, one, s->port[0], words) &&
	    weir_sweep_end_fits(r, 1, two, s->port[1], words))
		return true;
	return r->flags & WEIR_SWEEP_EITHER_WAY &&
	       weir_sweep_end_fits(r, 0, two, s->port[1], words) &&
	       weir_sweep_end_fits(r, 1, one, s->port[0], words);
}

/* Whether a source limiter counts a record: that goes on. */
static __always_inline bool weir_sweep_is_limited(__u32 slot)
{
	return weir_limiter_is_any() &&
	       (weir_limiter_held(slot, 0) | weir_limiter_held(slot, 1)) &
		       WEIR_LIMITER_SOURCE_MASK;
}

/* Takes a record's halves out of their sources' nodes, where the source fits. */
static __always_inline void weir_sweep_untrack(const struct weir_fw_sweep *r, weir_line *s,
					       __u32 slot, __u32 control)
{
	bool is_ipv6 = control & WEIR_STATE_IPV6;
	__u32 version = r->flags & 0xff, words = is_ipv6 ? 4 : 1, half, end;
	__u32 __weir_arena *addr;

	if (!(control & WEIR_STATE_TRACKED) || (version && version != (is_ipv6 ? 6 : 4)))
		return;
	for (half = 0; half < 2; half++) {
		end = !!(s->wscale[1] & WEIR_WSCALE_SOURCE_IS_1(half));
		addr = s->addr + end;
		if (is_ipv6)
			addr = weir_addresses_at(s->addr[1])->addr[end];
		if (weir_sweep_end_fits(r, 0, addr, s->port[end], words))
			s->interface[half] &=
				~(WEIR_STATE_SOURCE_TRACKED | WEIR_STATE_SOURCE_GLOBAL);
	}
	if (!((s->interface[0] | s->interface[1]) & WEIR_STATE_SOURCE_TRACKED) &&
	    !weir_sweep_is_limited(slot)) {
		s->control = control & ~WEIR_STATE_TRACKED;
		s->wscale[1] &= ~(WEIR_WSCALE_LEARNED | WEIR_WSCALE_SETTLES);
	}
}

/* Ends the nodes of sources whose keys follow the request, if `rule` says so or they are over. */
__noinline int weir_sweep_sources(struct xdp_md *ctx, struct weir_fw_sweep *r __arg_nonnull,
				  __u32 now)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_source_key *keys;
	__u32 i, count = r->to;

	if (!scratch)
		return 0;
	keys = (struct weir_source_key *)scratch->answer;
	if (bpf_xdp_load_bytes(ctx, WEIR_SWEEP_AT + sizeof(*r), keys,
			       WEIR_SWEEP_KEYS_MAX * sizeof(*keys)))
		return 0;
	for (i = 0; i < WEIR_SWEEP_KEYS_MAX && weir_fw_may_loop; i++) {
		if (i >= count)
			break;
		r->removed += keys[i].family & WEIR_SOURCE_OF_LIMITER ?
				      weir_limited_end_source(&keys[i], now, r->rule) :
				      weir_source_end(&keys[i], now, r->rule);
	}
	return 0;
}

_Static_assert(WEIR_SWEEP_KEYS_MAX * sizeof(struct weir_source_key) <=
		       WEIR_FW_SCRATCH_ANSWER_BYTES,
	       "the keys have room");

/* What one run of the program keeps in mind. */
struct weir_sweep_run {
	__u32 now;
	__u32 cpu;
	__u32 generation;
	__u32 ruleset;
	__u32 stay;		/* of weir_sweep_peek() */
	__u64 state_count;
	__u64 began_ns;
};

static __always_inline bool weir_sweep_is_stale(weir_line *s, __u32 generation)
{
	return s->generation &&
	       (__u16)(generation - s->generation) > WEIR_SWEEP_GENERATION_AGE_MAX &&
	       !weir_state_is_proxied(s);
}

/* Whether windows were learned a short time ago. */
static __always_inline bool weir_sweep_is_settling(weir_line *s, __u32 control)
{
	return (control >> WEIR_STATE_PROTOCOL_SHIFT & 0xff) == WEIR_PROTOCOL_TCP &&
	       !(control & WEIR_STATE_TRACKED) && s->wscale[1] & WEIR_WSCALE_LEARNED;
}

/* From the second sweep on they are like others. */
static __always_inline void weir_sweep_settle(weir_line *s)
{
	if (s->wscale[1] & WEIR_WSCALE_SETTLES)
		s->wscale[1] &= ~(WEIR_WSCALE_LEARNED | WEIR_WSCALE_SETTLES);
	else
		s->wscale[1] |= WEIR_WSCALE_SETTLES;
}

static __always_inline bool weir_sweep_is_over(weir_line *s, __u32 control,
					       const struct weir_sweep_run *run)
{
	return !weir_is_kept(s) &&
	       weir_state_expired(s, control, run->ruleset, run->now, run->state_count);
}

/* What another firewall has sent, when it is there no longer. Returns whether the record goes. */
__noinline int weir_sweep_sent(const struct weir_fw_sweep *r __arg_nonnull, __u32 slot, __u32 now)
{
	__u32 odd = weir_fw_control()->sync_in & WEIR_FW_SYNC_IN_ODD;
	weir_line *s = weir_state_line(slot);

	if (!weir_is_imported(s))
		return false;
	if (r->mode == WEIR_SWEEP_STAMP) {
		s->last_tick = now;
		/* A bulk may have been cut, so that some are still of the one before. */
		weir_import_date(s, odd);
		return false;
	}
	if (weir_imported_in(s) == odd)
		return false;
	if (r->rule && (__s32)(s->last_tick - r->port[0]) <= 0)
		return true;
	weir_import_end(s);
	return false;
}

/* Whether a record has to go; forgets a next hop that is too old. */
__noinline int weir_sweep_judge(const struct weir_fw_sweep *r __arg_nonnull,
				const struct weir_sweep_run *run __arg_nonnull, __u32 slot)
{
	weir_line *s = weir_state_line(slot);
	__u32 control = s->control;

	if (weir_sweep_is_stale(s, run->generation)) {
		s->next_hop[0] &= ~WEIR_STATE_NEXT_HOP_MASK;
		s->next_hop[1] &= ~WEIR_STATE_NEXT_HOP_MASK;
		s->generation = 0;
	}
	if (r->mode == WEIR_SWEEP_EXPIRE) {
		if (weir_sweep_is_settling(s, control))
			weir_sweep_settle(s);
		return weir_sweep_is_over(s, control, run);
	}
	if (r->mode == WEIR_SWEEP_STAMP || r->mode == WEIR_SWEEP_FORGET)
		return weir_sweep_sent(r, slot, run->now);
	if (r->mode == WEIR_SWEEP_UNTRACK) {
		weir_sweep_untrack(r, s, slot, control);
		return false;
	}
	return weir_sweep_fits(r, s, slot, control);
}

/* Notes where the aliases of a record hang that is about to end. */
__noinline int weir_sweep_note(struct weir_fw_scratch *scratch __arg_nonnull, __u32 slot)
{
	weir_line *s = weir_state_line(slot);
	__u32 half, alias, count;

	if (!(s->control & WEIR_STATE_TRANSLATED))
		return 0;
	for (half = 0; half < 2; half++) {
		alias = s->count[half];
		count = scratch->ended_count;
		/* Those that find no room here hang until the next sweep comes by. */
		if (!alias || count >= WEIR_FW_SCRATCH_ENDED)
			continue;
		scratch->ended[count & (WEIR_FW_SCRATCH_ENDED - 1)] =
			weir_index_hash(&scratch->wire, alias);
		scratch->ended_count = count + 1;
	}
	return 0;
}

/* Takes the aliases out of their buckets that were noted; no bucket is locked. */
__noinline int weir_sweep_aliases(struct weir_fw_scratch *scratch __arg_nonnull, __u32 cpu)
{
	__u32 count = scratch->ended_count, home, i;

	for (i = 0; i < WEIR_FW_SCRATCH_ENDED; i++) {
		if (i >= count)
			break;
		home = weir_state_lock_bucket(scratch->ended[i], cpu);
		if (home == WEIR_STATE_BUCKET_NONE)
			continue;
		if (weir_state_line(home)->control & WEIR_STATE_LIVE)
			weir_bucket_reap(home);
		weir_state_unlock(home, weir_state_line(home)->control);
	}
	return 0;
}

/* One bucket, under its lock. */
__noinline int weir_sweep_bucket(struct weir_fw_sweep *r __arg_nonnull,
				 const struct weir_sweep_run *run __arg_nonnull, __u32 home)
{
	__u32 before = home, slot = home, i;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	weir_line *line = weir_state_line(home);
	bool has_aliases = false;

	if (!scratch)
		return 0;
	scratch->ended_count = 0;
	if (!weir_state_lock(home, run->cpu)) {
		r->busy++;
		return 0;
	}
	for (i = weir_fw_bound(2 * WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		__u32 control = weir_state_line(slot)->control;

		if (!(control & WEIR_STATE_LIVE))
			break;
		if (weir_is_alias(control)) {
			has_aliases = true;
			before = slot;
			slot = weir_state_line(slot)->next;
		} else if (weir_sweep_judge(r, run, slot)) {
			r->removed++;
			weir_sweep_note(scratch, slot);
			/* Another record stands here now. */
			if (weir_bucket_delete(home, before, slot, run->cpu))
				continue;
			slot = weir_state_line(before)->next;
		} else {
			r->live++;
			before = slot;
			slot = weir_state_line(slot)->next;
		}
		if (!slot)
			break;
	}
	if (has_aliases || weir_is_alias(line->control))
		weir_bucket_reap(home);
	weir_state_unlock(home, line->control);
	if (scratch->ended_count)
		weir_sweep_aliases(scratch, run->cpu);
	return 0;
}

/*
 * Whether all records of a bucket stay, as far as can be seen without its lock; then `stay` has
 * their number. What is missed so is found the next time; but killing must find all there is, and
 * only trusts its eyes where there is one record.
 */
__noinline int weir_sweep_peek(const struct weir_fw_sweep *r __arg_nonnull,
			       struct weir_sweep_run *run __arg_nonnull, __u32 home)
{
	bool is_expiring = r->mode == WEIR_SWEEP_EXPIRE;
	__u32 slot = home, control, next, i;
	weir_line *s;

	run->stay = 0;
	if (!is_expiring && (r->mode != WEIR_SWEEP_KILL || weir_state_line(home)->next))
		return false;
	for (i = weir_fw_bound(WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		s = weir_state_line(slot);
		control = weir_read_once(s->control);
		if (!(control & WEIR_STATE_LIVE))
			return false;
		if (weir_is_alias(control)) {
			next = weir_read_once(s->next);
			/* Nobody's; or it begins a bucket with nothing behind it. */
			if (!(control & WEIR_ALIAS_HALVES) && (slot != home || !next))
				return false;
			slot = next;
			if (!slot)
				return true;
			continue;
		}
		if (weir_sweep_is_stale(s, run->generation) ||
		    (is_expiring && weir_sweep_is_settling(s, control)))
			return false;
		if (is_expiring ? weir_sweep_is_over(s, control, run) :
				  weir_sweep_fits(r, s, slot, control))
			return false;
		run->stay++;
		slot = weir_read_once(s->next);
		if (!slot)
			return true;
	}
	return false;
}

/* Most buckets need no lock: nothing is in them, or only records that stay. */
static __always_inline void weir_sweep_look(struct weir_fw_sweep *r, struct weir_sweep_run *run,
					    __u32 home)
{
	__u64 __weir_arena *first = (__u64 __weir_arena *)weir_state_line(home);
	__u64 before = weir_read_once(*first);

	if (!(before & WEIR_STATE_LIVE))
		return;
	/* Who changes a bucket has its lock meanwhile. */
	if (!(before & WEIR_STATE_LOCK) && weir_sweep_peek(r, run, home) &&
	    weir_read_once(*first) == before)
		r->live += run->stay;
	else
		weir_sweep_bucket(r, run, home);
}

/* Asks for the second line of some buckets, as second.h does: nobody waits for one alone. */
__noinline int weir_sweep_touch(__u32 from, __u32 to)
{
	__u32 touched = 0, home;
	__u64 first;

	for (home = from; home < to && weir_fw_may_loop; home++) {
		first = weir_read_once(*(__u64 __weir_arena *)weir_state_line(home));
		if (first & WEIR_STATE_LIVE && first >> 32)
			touched += weir_read_once(weir_state_line(first >> 32)->control);
	}
	asm volatile("" ::"r"(touched));
	return 0;
}

static __always_inline bool weir_sweep_is_late(const struct weir_sweep_run *run)
{
	return bpf_ktime_get_ns() - run->began_ns >= WEIR_SWEEP_NS_MAX;
}

/* Goes through buckets until all that were asked for are done, or it takes long. */
__noinline int weir_sweep_range(struct weir_fw_sweep *r __arg_nonnull,
				struct weir_sweep_run *run __arg_nonnull)
{
	__u32 home = r->from, end, records;

	while (home < r->to && weir_fw_may_loop) {
		end = r->to - home > WEIR_SWEEP_GROUP ? home + WEIR_SWEEP_GROUP : r->to;
		weir_sweep_touch(home, end);
		records = r->live + r->removed + WEIR_SWEEP_RECORDS;
		while (home < end && (__s32)(r->live + r->removed - records) < 0 &&
		       weir_fw_may_loop)
			weir_sweep_look(r, run, home++);
		if (weir_sweep_is_late(run))
			break;
	}
	r->next = home;
	return 0;
}

/* Has the index grow or shrink, until it is as large as was asked for, or it takes long. */
__noinline int weir_sweep_index(struct weir_fw_sweep *r __arg_nonnull,
				const struct weir_sweep_run *run __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	bool is_split = r->mode == WEIR_SWEEP_SPLIT;
	__u32 count = (__u32)weir_index();
	int is_done = 1;

	if (!scratch)
		return 0;
	while (is_done && weir_fw_may_loop) {
		if (is_split ? count >= r->to : count <= r->to)
			break;
		if (!(count & WEIR_SWEEP_CLOCK_MASK) && weir_sweep_is_late(run))
			break;
		is_done = is_split ? weir_index_split(&scratch->quoted, run->cpu) :
				     weir_index_join(run->cpu);
		count = (__u32)weir_index();
	}
	if (!is_done)
		r->busy++;
	r->next = count;
	return 0;
}

SEC("xdp")
int weir_fw_sweep(struct xdp_md *ctx)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();
	struct weir_sweep_run run = {
		.now = weir_fw_tick(control->clock_offset),
		.cpu = bpf_get_smp_processor_id(),
		.generation = control->generation,
		.ruleset = control->active,
		.state_count = control->state_count,
		.began_ns = bpf_ktime_get_ns(),
	};
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_sweep *r;

	weir_uses_arena();
	if (!scratch)
		return XDP_ABORTED;
	r = &scratch->sweep;
	if (bpf_xdp_load_bytes(ctx, WEIR_SWEEP_AT, r, sizeof(*r)))
		return XDP_ABORTED;
	if (r->mode == WEIR_SWEEP_RESTORE || r->mode == WEIR_SWEEP_GONE ||
	    r->mode == WEIR_SWEEP_TELL)
		return weir_restore_group(ctx, scratch, run.ruleset) ? XDP_PASS : XDP_ABORTED;
	r->live = r->removed = r->busy = 0;
	if (r->mode == WEIR_SWEEP_SPLIT || r->mode == WEIR_SWEEP_JOIN) {
		weir_sweep_index(r, &run);
	} else if (r->mode == WEIR_SWEEP_COPY) {
		r->next = weir_copy(ctx, r);
	} else if (r->mode == WEIR_SWEEP_SOURCES) {
		weir_sweep_sources(ctx, r, run.now);
	} else {
		if (r->to > (__u32)weir_index())
			r->to = (__u32)weir_index();
		weir_sweep_range(r, &run);
	}
	if (bpf_xdp_store_bytes(ctx, WEIR_SWEEP_AT, r, sizeof(*r)))
		return XDP_ABORTED;
	return XDP_PASS;
}

#endif /* WEIR_FW_SWEEP_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * States of rules with `pflow` that end, and those that another firewall has, or is to get: what
 * the control process needs of each, as it stands in the table (weir-fw's states/ended.rs reads it
 * as it reads the table). An event that finds no room in its ring is counted. Nothing here is run
 * for a packet that has a state.
 */
#ifndef WEIR_FW_EVENT_H
#define WEIR_FW_EVENT_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/account.h>
#include <weir/fw/counters.h>
#include <weir/fw/layout.h>

/* Of bpf(2): BPF_RB_NO_WAKEUP. */
#define WEIR_RINGBUF_NO_WAKEUP 1

enum weir_fw_event_constant {
	WEIR_FW_EVENT_ENDED = 1, /* what an event of a state's end begins with */
	/* weir_fw_change.kind */
	WEIR_FW_EVENT_CHANGED = 2,
	WEIR_FW_EVENT_GONE = 3,
};

/* The alias of a half: all 0 where there is none. */
struct weir_fw_event_alias {
	__u64 line[8];		/* struct weir_alias */
	__u64 addr[4];		/* of an IPv6 one: weir_state_v6.addr */
};

struct weir_fw_event {
	__u32 kind;		/* WEIR_FW_EVENT_* */
	__u32 slot;
	__u64 line[8];		/* struct weir_state */
	__u64 account[4];	/* struct weir_account; 0 if the record does not use it */
	__u64 addr[4];		/* of an IPv6 one: weir_state_v6.addr */
	struct weir_fw_event_alias alias[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1); /* set when it is loaded */
} weir_events SEC(".maps");

/*
 * A record that is copied for another firewall (copy.h), or that it has and that ends. Both are put
 * into the ring under the lock of the record's bucket, so that what stands there of one flow stands
 * in its order.
 */
struct weir_fw_change {
	__u32 kind;		/* WEIR_FW_EVENT_* */
	__u32 slot;
	__u64 line[8];
	__u64 account[4];
	__u64 addr[4];
};

/* The same of a translated record that is copied. */
struct weir_fw_translated_change {
	struct weir_fw_change change;
	struct weir_fw_event_alias alias[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1); /* set when it is loaded */
} weir_changes SEC(".maps");

/* Whether the rule of a half says `pflow`. */
static __always_inline bool weir_state_is_exported(weir_line *s, __u32 slot)
{
	return (weir_half(s, slot, 0) | weir_half(s, slot, 1)) >> WEIR_HALF_PFLOW_SHIFT & 1;
}

static __always_inline void weir_event_words(__u64 *to, __u64 __weir_arena *from, int count)
{
	int i;

#pragma unroll
	for (i = 0; i < 8; i++)
		if (i < count)
			to[i] = *(volatile __u64 __weir_arena *)(from + i);
}

/* The IPv6 addresses that stand in a slot. */
static __always_inline void weir_event_addresses(__u64 *to, __u32 slot)
{
	__u32 at = weir_fw_control()->states_at + slot * (__u32)sizeof(struct weir_state_v6);

	weir_event_words(to, (__u64 __weir_arena *)weir_at(struct weir_state_v6, at)->addr, 4);
}

/* The alias of a half, where there is one. */
static __always_inline void weir_event_alias(struct weir_fw_event_alias *to, weir_line *lines,
					     weir_line *s, __u32 half)
{
	weir_line *alias = lines + s->count[half];

	if (!(s->control & WEIR_STATE_TRANSLATED) || !s->count[half])
		return;
	weir_event_words(to->line, (__u64 __weir_arena *)alias, 8);
	if (alias->control & WEIR_STATE_IPV6)
		weir_event_addresses(to->addr, alias->addr[1]);
}

/* A record that is about to end, whose bucket is locked. */
__noinline int weir_event_end(__u32 slot, __u32 cpu)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();
	weir_line *lines = weir_at(struct weir_state, control->states_at), *s = lines + slot;
	struct weir_fw_event *event;
	__u32 half;

	event = bpf_ringbuf_reserve(&weir_events, sizeof(*event), 0);
	if (!event) {
		weir_fw_table_counters(cpu)->events_lost++;
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = WEIR_FW_EVENT_ENDED;
	event->slot = slot;
	weir_event_words(event->line, (__u64 __weir_arena *)s, 8);
	if (weir_uses_account(s))
		weir_event_words(event->account, (__u64 __weir_arena *)weir_account_at(slot), 4);
	if (s->control & WEIR_STATE_IPV6)
		weir_event_addresses(event->addr, s->addr[1]);
#pragma unroll
	for (half = 0; half < 2; half++)
		weir_event_alias(event->alias + half, lines, s, half);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void weir_change_fill(struct weir_fw_change *change, weir_line *s,
					     __u32 slot, __u32 kind)
{
	__builtin_memset(change->account, 0, sizeof(change->account) + sizeof(change->addr));
	change->kind = kind;
	change->slot = slot;
	weir_event_words(change->line, (__u64 __weir_arena *)s, 8);
	if (weir_uses_account(s))
		weir_event_words(change->account, (__u64 __weir_arena *)weir_account_at(slot), 4);
	if (s->control & WEIR_STATE_IPV6)
		weir_event_addresses(change->addr, s->addr[1]);
}

/* A translated record that is copied. False if there is no room. */
__noinline int weir_change_tell_translated(__u32 slot)
{
	weir_line *lines = weir_at(struct weir_state, weir_fw_control()->states_at);
	struct weir_fw_translated_change *change;
	weir_line *s = lines + slot;
	__u32 half;

	change = bpf_ringbuf_reserve(&weir_changes, sizeof(*change), 0);
	if (!change)
		return false;
	__builtin_memset(change->alias, 0, sizeof(change->alias));
	weir_change_fill(&change->change, s, slot, WEIR_FW_EVENT_CHANGED);
#pragma unroll
	for (half = 0; half < 2; half++)
		weir_event_alias(change->alias + half, lines, s, half);
	bpf_ringbuf_submit(change, WEIR_RINGBUF_NO_WAKEUP);
	return true;
}

/* False if there is no room. Nobody is woken: who reads the ring looks often. */
__noinline int weir_change_tell(__u32 slot, __u32 kind)
{
	weir_line *s = weir_at(struct weir_state, weir_fw_control()->states_at) + slot;
	struct weir_fw_change *change;

	if (kind == WEIR_FW_EVENT_CHANGED && s->control & WEIR_STATE_TRANSLATED)
		return weir_change_tell_translated(slot);
	change = bpf_ringbuf_reserve(&weir_changes, sizeof(*change), 0);
	if (!change)
		return false;
	weir_change_fill(change, s, slot, kind);
	bpf_ringbuf_submit(change, WEIR_RINGBUF_NO_WAKEUP);
	return true;
}

/* A record that the other firewall has is about to end. */
static __always_inline void weir_change_end(__u32 slot, __u32 control, __u32 cpu)
{
	if (control & WEIR_STATE_ACKED && weir_fw_control()->sync_out &&
	    !weir_change_tell(slot, WEIR_FW_EVENT_GONE))
		weir_fw_table_counters(cpu)->sync_lost++;
}

#endif /* WEIR_FW_EVENT_H */

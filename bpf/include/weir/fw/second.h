/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two stages, for tables that no cache holds.
 *
 * A packet waits for its state's line in memory longer than for all else, and XDP sees one packet
 * at a time. So the first stage (weir_stage_first(), in the ingress program) judges nothing: for a
 * packet of the form that the quick way takes, it finds where its destination leads, notes the
 * bucket of its state, and hands it to the device that it would leave by. That device runs
 * weir_fw_second when it has 16 frames, or the poll ends. For the first of them the program reads
 * the lines of all that are noted: they come from memory side by side. Then each frame is judged as
 * ever, and leaves, or is dropped: the program can do nothing else with a frame.
 *
 * Therefore what may need anything else is judged in the ingress program as ever: what is for the
 * box, or exceeds an MTU, or ends or begins a connection, or is not of that form. The ruleset must
 * not answer what it blocks, nor choose routing tables or gateways, nor translate
 * (WEIR_FW_IMAGE_STAGES), nor may a state be translated or have a gateway that an earlier one has
 * made; and the destination alone must determine the way (the control process sees to that). A
 * packet whose way has changed in between is dropped. A segment that pf would answer by a RST in
 * the middle of a handshake is dropped without (`unanswered`).
 */
#ifndef WEIR_FW_SECOND_H
#define WEIR_FW_SECOND_H

#include <weir/fw/ingress.h>
#include <weir/fw/quick.h>
#include <weir/fw/stage.h>

/*
 * Ways are kept by destination and interface, in the sets of kept.h: where anything is filtered
 * nobody else uses them.
 */
static __always_inline void weir_stage_key(struct weir_fw_kept *key, __be32 dst, __u8 slot)
{
	key->src = 0;
	key->dst = dst;
	key->ports = 0;
	key->what = (__u32)slot << WEIR_KEPT_SLOT_SHIFT;
}

/* The index of the way that the kernel has for a destination, which is kept; 0: none of ours. */
static __noinline __u32 weir_stage_ask(struct xdp_md *ctx, __u32 kept_at, __u8 slot)
{
	/* Before the kernel is asked: what changes meanwhile is of the next one. */
	__u16 generation = weir_fw_control()->generation;
	struct weir_ipv4 *ip = weir_xdp_data(ctx) + sizeof(struct weir_eth);
	const struct weir_udp *ports = (void *)(ip + 1);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct bpf_fib_lookup *f;
	struct weir_fw_kept key;
	int next_hop;

	if (!scratch || (void *)(ports + 1) > weir_xdp_data_end(ctx))
		return 0;
	f = &scratch->fib;
	weir_quick_question(f, ctx, ip);
	weir_stage_key(&key, ip->dst, slot);
	weir_fw_table_counters(bpf_get_smp_processor_id())->fib_lookups++;
	if (bpf_fib_lookup(ctx, f, sizeof(*f), 0) != BPF_FIB_LKUP_RET_SUCCESS ||
	    weir_fw_fib_found(f, &scratch->route, ctx->ingress_ifindex) != WEIR_ROUTE_FORWARD)
		return 0;
	next_hop = weir_fw_next_hop_index(&scratch->route, generation);
	if (next_hop <= WEIR_FW_NEXT_HOP_KERNEL)
		return 0;
	weir_kept_keep(kept_at, &key, next_hop, generation);
	return next_hop;
}

/* A packet that has no way out any more: routes or interfaces have changed. */
static __noinline int weir_second_lost(struct xdp_md *ctx, struct weir_fw_scratch *scratch)
{
	void *data = weir_xdp_data(ctx), *data_end = weir_xdp_data_end(ctx);
	struct weir_fw_packet *p = weir_fw_packet_of(scratch);
	struct weir_ipv4 *ip = data + sizeof(struct weir_eth);

	p->cpu = bpf_get_smp_processor_id();
	p->interface = weir_fw_ifslot(ctx->ingress_ifindex);
	if ((void *)(ip + 1) <= data_end)
		p->ip_bytes = bpf_ntohs(ip->total_bytes);
	return weir_fw_drop(p, WEIR_DROP(NO_ROUTE));
}

/* Notes a packet's bucket and its way, and hands it to the device that it leaves by. */
static __always_inline int weir_stage_hand_over(struct xdp_md *ctx, __u32 home, __u32 next_hop,
						__u32 generation, __u8 slot)
{
	struct weir_stage_lines *lines = weir_stage_lines();
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_stage_note *note;
	int action;
	__u32 at;

	/* A driver that has no room for it leaves the frame to one stage. */
	if (!lines || !scratch || !weir_stage_clear(ctx) ||
	    bpf_xdp_adjust_meta(ctx, -(int)sizeof(*note)))
		return WEIR_QUICK_NOT;
	note = (void *)(long)ctx->data_meta;
	if ((void *)(note + 1) > weir_xdp_data(ctx))
		return XDP_ABORTED;
	note->home = home;
	note->next_hop = next_hop;
	note->generation = generation;
	note->unused = 0;
	action = bpf_redirect_map(&weir_exits, slot & (WEIR_FW_INTERFACE_COUNT_MAX - 1), 0);
	if (action != XDP_REDIRECT)
		return weir_second_lost(ctx, scratch);
	at = lines->count & (WEIR_STAGE_LINES_MAX - 1);
	lines->home[at] = home;
	lines->count = at + 1;
	return action;
}

/* Of the flags two stages are only right with the first. */
#define WEIR_STAGES_ASK                                                                         \
	(WEIR_FW_CONTROL_ENABLED | WEIR_FW_CONTROL_TRANSLATED | WEIR_FW_CONTROL_ROUTED)

/* The first stage. WEIR_QUICK_NOT: the packet, which is as it was, is judged at once. */
static __noinline int weir_stage_first(struct xdp_md *ctx)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .data_end = weir_xdp_data_end(ctx) };
	__u16 generation = weir_fw_control()->generation;
	struct weir_fw_next_hop __weir_arena *hop;
	struct weir_fw_packet key = {};
	__u32 kept_at, next_hop, ip_bytes;
	struct weir_fw_kept dst;
	__u8 slot;

	q.ruleset = weir_fw_control()->active;
	if (!(weir_at(struct weir_fw_image, q.ruleset)->flags & WEIR_FW_IMAGE_STAGES) ||
	    (weir_fw_control()->flags & WEIR_STAGES_ASK) != WEIR_FW_CONTROL_ENABLED ||
	    !weir_fw_filters(q.ruleset) || !weir_quick_read(&q) ||
	    !weir_quick_is_ours(ctx, &q) || !weir_quick_is_sane(&q) || weir_quick_is_partial(&q) ||
	    weir_is_martian4(bpf_ntohl(q.ip->src), bpf_ntohl(q.ip->dst)))
		return WEIR_QUICK_NOT;
	ip_bytes = q.ip_bytes;
	slot = q.slot;
	weir_quick_key(&q, &key);
	key.hash = weir_fw_hash(&key);
	weir_stage_key(&dst, q.ip->dst, slot);
	kept_at = weir_kept_at(bpf_get_smp_processor_id(), &dst);
	next_hop = weir_kept_find(kept_at, &dst, generation);
	if (!next_hop) {
		/* More destinations than are kept: the states know their ways. */
		if (!weir_kept_has_room(kept_at, generation))
			return WEIR_QUICK_NOT;
		next_hop = weir_stage_ask(ctx, kept_at, slot);
		if (!next_hop)
			return WEIR_QUICK_NOT;
	}
	hop = weir_fw_next_hop_at(next_hop & (WEIR_FW_NEXT_HOP_COUNT_MAX - 1));
	slot = hop->interface;
	if (ip_bytes > hop->mtu_bytes || hop->flags & WEIR_FW_NEXT_HOP_BACK ||
	    hop->generation != generation)
		return WEIR_QUICK_NOT;
	return weir_stage_hand_over(ctx, weir_state_bucket(key.hash), next_hop, generation, slot);
}

/*
 * Reads the line of the overflow slot that is taken next of those that came back: a new state whose
 * bucket has a record is written there. (In an empty bucket it is written into the line of the
 * bucket, which is read anyway. Slots that were never taken lie in a row, which the processor sees
 * coming. An account is only written for TCP, whose first segment is judged at once, and when a
 * count outgrows its line, once in 255 packets.)
 */
static __always_inline __u32 weir_slot_touch(void)
{
	__u32 slot = (__u32)weir_read_once(weir_fw_control()->free_head);

	return weir_read_once(weir_state_line(slot)->control);
}

/*
 * Reads the lines that are noted, and then those of the records that stand next in their buckets.
 * Nobody waits for one of them before the next is asked for, and no branch depends on what comes:
 * behind the last record stands 0, and the line of slot 0 is at hand. A function of its own, so
 * that the frame of what is called after it stays small.
 */
static __noinline int weir_second_touch(struct weir_stage_lines *lines)
{
	struct weir_fw_table_counters __weir_arena *counters;
	__u32 count = lines->count, touched, next, i;

	touched = weir_slot_touch();
	for (i = 0; i < WEIR_STAGE_LINES_MAX; i++) {
		if (i >= count)
			break;
		touched += weir_read_once(weir_state_line(lines->home[i])->control);
	}
	/* Read again, so that the verifier does not go on from each count by itself. */
	count = weir_read_once(lines->count);
	for (i = 0; i < WEIR_STAGE_LINES_MAX; i++) {
		if (i >= count)
			break;
		next = weir_read_once(weir_state_line(lines->home[i])->next);
		touched += weir_read_once(weir_state_line(next)->control);
	}
	asm volatile("" ::"r"(touched));
	lines->count = 0;
	counters = weir_fw_table_counters(bpf_get_smp_processor_id());
	counters->staged_packets += count;
	counters->stage_groups++;
	return 0;
}

/* What is known of the packet, and its state if that covers it; WEIR_QUICK_NOT as in quick.h. */
static __always_inline int weir_second_quick(struct xdp_md *ctx, __u32 home,
					     const struct weir_fw_route *route)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .data_end = weir_xdp_data_end(ctx) };
	struct weir_fw_packet key = {};

	q.ruleset = weir_fw_control()->active;
	q.slot = weir_fw_ifslot(ctx->ingress_ifindex);
	if (!(weir_fw_control()->flags & WEIR_FW_CONTROL_ENABLED) ||
	    !weir_fw_filters(q.ruleset) || weir_fw_skips(q.ruleset, q.slot) ||
	    !weir_quick_read(&q))
		return WEIR_QUICK_NOT;
	weir_quick_key(&q, &key);
	q.cpu = bpf_get_smp_processor_id();
	return weir_quick_hit(ctx, &q, &key, home, route);
}

static __always_inline int weir_fw_judge_first(struct xdp_md *ctx)
{
	int action;

	weir_uses_arena();
	if (weir_fw_stages() == WEIR_FW_STAGES_TWO) {
		action = weir_stage_first(ctx);
		if (action != WEIR_QUICK_NOT)
			return action;
	}
	action = weir_fw_quick(ctx);
	if (action == WEIR_QUICK_TRANSLATED)
		action = weir_quick_translate(ctx);
	return action != WEIR_QUICK_NOT ? action : weir_fw_receive_any(ctx, 0);
}

/* What the device's program says of a packet that was judged: it leaves by that, or not at all. */
static __always_inline int weir_second_verdict(int action)
{
	return action == XDP_REDIRECT ? XDP_PASS : XDP_DROP;
}

/*
 * The second stage of a packet that the quick way is for; WEIR_QUICK_NOT: it is not. A function of
 * its own, so that its stack is not the longer way's as well. `is_sent`: by a device, which must be
 * the one that the way leads to.
 */
static __noinline int weir_second_stage(struct xdp_md *ctx, bool is_sent)
{
	struct weir_stage_note *note = (void *)(long)ctx->data_meta;
	struct weir_stage_lines *lines = weir_stage_lines();
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 home, next_hop, generation;
	int action;

	/* While all are judged at once, what stands before a frame may be somebody else's. */
	if (weir_fw_stages() == WEIR_FW_STAGES_ONE || (void *)(note + 1) > weir_xdp_data(ctx))
		return XDP_PASS;
	if (!lines || !scratch)
		return XDP_DROP;
	if (lines->count)
		weir_second_touch(lines);
	home = note->home;
	next_hop = note->next_hop;
	generation = note->generation;
	/* Nobody behind us is to see it. */
	if (bpf_xdp_adjust_meta(ctx, sizeof(*note)))
		return XDP_DROP;
	if (!weir_fw_next_hop_load(&scratch->route, next_hop, generation) ||
	    (is_sent && scratch->route.ifindex != ctx->egress_ifindex) ||
	    (__u16)weir_fw_control()->generation != (__u16)generation)
		return weir_second_lost(ctx, scratch);
	action = weir_second_quick(ctx, home, &scratch->route);
	return action == WEIR_QUICK_NOT ? action : weir_second_verdict(action);
}

static __always_inline int weir_fw_judge_second(struct xdp_md *ctx, bool is_sent)
{
	int action = weir_second_stage(ctx, is_sent);

	if (action != WEIR_QUICK_NOT)
		return action;
	return weir_second_verdict(weir_fw_receive_any(ctx, WEIR_PACKET_SECOND));
}

SEC("xdp")
int weir_fw_ingress(struct xdp_md *ctx)
{
	return weir_fw_judge_first(ctx);
}

SEC("xdp/devmap")
int weir_fw_second(struct xdp_md *ctx)
{
	weir_uses_arena();
	return weir_fw_judge_second(ctx, true);
}

/*
 * A packet that has waited for its state (defer.h), in a test run of the control process. Never
 * attached.
 */
SEC("xdp")
int weir_fw_deferred(struct xdp_md *ctx)
{
	weir_uses_arena();
	return weir_fw_receive_any(ctx, WEIR_PACKET_DEFERRED | WEIR_PACKET_STAY);
}

/*
 * Both, one after the other: for test runs, of which the kernel makes none with a device's program.
 * Never attached.
 */
SEC("xdp")
int weir_fw_rehearsal(struct xdp_md *ctx)
{
	int action = weir_fw_judge_first(ctx);
	struct weir_stage_note *note = (void *)(long)ctx->data_meta;

	if (action != XDP_REDIRECT || weir_fw_stages() != WEIR_FW_STAGES_TWO ||
	    (void *)(note + 1) > weir_xdp_data(ctx))
		return action;
	action = weir_fw_judge_second(ctx, false);
	return action == XDP_PASS ? XDP_REDIRECT : XDP_DROP;
}

#endif /* WEIR_FW_SECOND_H */

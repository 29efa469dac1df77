/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * weir_fw_ingress: one packet from its interface to the next one, or to the kernel.
 */
#ifndef WEIR_FW_INGRESS_H
#define WEIR_FW_INGRESS_H

#include <weir/fw/clock.h>
#include <weir/fw/defer.h>
#include <weir/fw/errand.h>
#include <weir/fw/family_ingress.h>
#include <weir/fw/fib.h>
#include <weir/fw/forward.h>
#include <weir/fw/fragment.h>
#include <weir/fw/gateway.h>
#include <weir/fw/judge.h>
#include <weir/fw/log.h>
#include <weir/fw/modulate.h>
#include <weir/fw/partial.h>
#include <weir/fw/proxy.h>
#include <weir/fw/quick.h>
#include <weir/fw/quoted.h>
#include <weir/fw/reply.h>
#include <weir/fw/rewrite.h>
#include <weir/fw/routable.h>
#include <weir/fw/sanity.h>
#include <weir/fw/tag.h>
#include <weir/fw/translated.h>

/* "Go on": none of enum xdp_action that the functions below return. */
#define WEIR_FW_CONTINUE 0
/* "Go on, nothing is left to judge": neither of these. */
#define WEIR_FW_FOLLOWS (-1)

static __always_inline int weir_fw_drop(const struct weir_fw_packet *p, __u32 drop)
{
	weir_fw_count_drop(p, drop);
	return XDP_DROP;
}

/* Remembers a packet whose first fragment has passed, by the ends of the frame. */
__noinline int weir_fw_open_ingress(struct xdp_md *ctx,
				    const struct weir_fw_packet *p __arg_nonnull, __u32 to_kernel)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!(p->flags & WEIR_PACKET_TRANSLATED))
		return weir_fw_fragment_open(p, to_kernel);
	if (!scratch)
		return WEIR_DROP(INTERNAL);
	scratch->wire = *p;
	if (weir_fw_recall_ingress(ctx, &scratch->wire))
		return WEIR_DROP(SHORT);
	return weir_fw_fragment_open(&scratch->wire, to_kernel);
}

/* Hands a packet to the kernel: to the box itself, or to be forwarded by it. */
static __always_inline int weir_fw_to_kernel(struct xdp_md *ctx, const struct weir_fw_packet *p)
{
	/* What has changed since the first stage cannot be left to the kernel any more. */
	if (p->flags & WEIR_PACKET_SECOND)
		return weir_fw_drop(p, WEIR_DROP(NO_ROUTE));
	if (weir_fw_is_first_fragment(p) && p->ruleset) {
		int drop = weir_fw_open_ingress(ctx, p, true);

		if (drop)
			return weir_fw_drop(p, drop);
	}
	if (weir_fw_fragment_is_lost(p))
		return weir_fw_drop(p, WEIR_DROP(FRAGMENT));
	if ((p->flags & WEIR_PACKET_TRANSLATED && weir_fw_rewrite_ingress(ctx, p)) ||
	    weir_fw_modulate_ingress(ctx, p))
		return weir_fw_drop(p, WEIR_DROP(SHORT));
	/* One that was on its way out is counted already. */
	if (p->direction == WEIR_FW_IN)
		weir_fw_count(p, p->interface, WEIR_FW_IN, WEIR_FW_PASS);
	weir_fw_table_counters(p->cpu)->passed_packets++;
	if (weir_errand_is_due(p))
		weir_errand_leave(ctx, p);
	return XDP_PASS;
}

/* The answer to a packet that was dropped. From the second stage nothing can be sent back. */
static __always_inline int weir_fw_answer_ingress(struct xdp_md *ctx, struct weir_fw_packet *p,
						  const struct weir_fw_decision *d)
{
	/* It goes to who sent the frame, from whom that was sent to. */
	if (p->flags & WEIR_PACKET_TRANSLATED && weir_fw_recall_ingress(ctx, p))
		return XDP_DROP;
	if (!(p->flags & WEIR_PACKET_SECOND))
		return weir_fw_reply(ctx, p, d);
	weir_fw_table_counters(p->cpu)->unanswered++;
	return XDP_DROP;
}

/* Does what the rules have said. */
__noinline int weir_fw_obey_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull,
				    struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_decision *d;
	int drop;

	if (!scratch)
		return weir_fw_drop(p, WEIR_DROP(INTERNAL));
	d = &scratch->decision;
	if (weir_proxy_is_asked(p, d))
		return weir_proxy_greet_ingress(ctx, p);
	if (weir_defer_is_due(p, d, weir_fw_interface(weir_fw_ifslot(ctx->ingress_ifindex))) &&
	    weir_defer(ctx, p))
		return XDP_DROP;
	drop = weir_fw_obey(p, hit, scratch);
	if (drop && p->flags & WEIR_PACKET_TRANSLATED)
		weir_fw_recall_ingress(ctx, p);
	if (weir_fw_is_answered(drop, d) && d->flags & WEIR_DECISION_RETURN_RST &&
	    !weir_fw_tcp_checksum_fits(ctx, p))
		drop = WEIR_DROP(PROTO_CKSUM);
	if (d->flags & WEIR_DECISION_LOG)
		weir_fw_log_xdp(ctx, p, d->log_rule, drop ? WEIR_FW_BLOCK : WEIR_FW_PASS,
				drop ? drop - 1 : 0);
	if (!drop)
		return WEIR_FW_CONTINUE;
	weir_fw_count_drop(p, drop);
	if (weir_fw_is_answered(drop, d))
		return weir_fw_answer_ingress(ctx, p, d);
	return XDP_DROP;
}

/* A packet that its state refuses. */
__noinline int weir_fw_refuse_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull,
				      const struct weir_fw_hit *hit __arg_nonnull)
{
	weir_fw_count_drop(p, hit->reason + 1);
	weir_fw_note_challenge(p, hit);
	if (hit->flags & (WEIR_HIT_SEND_RST | WEIR_HIT_CHALLENGE)) {
		struct weir_fw_decision d = { .flags = WEIR_DECISION_RETURN_RST };

		return weir_fw_answer_ingress(ctx, p, &d);
	}
	return XDP_DROP;
}

/* What few packets have: IPv4 options, extension headers. */
__noinline int weir_fw_extensions_ingress(struct xdp_md *ctx,
					  struct weir_fw_packet *p __arg_nonnull)
{
	if (p->family == WEIR_FW_INET) {
		__u32 sum = weir_fw_sum_frame(ctx, p->l3_at, p->l4_at - p->l3_at);

		if (weir_checksum(sum))
			return WEIR_DROP(PROTO_CKSUM);
	}
	return weir_fw_parse_extensions(p, weir_xdp_data(ctx), weir_xdp_data_end(ctx));
}

/* The options of a SYN. */
__noinline int weir_fw_options_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_tcp_options options = {};
	__u32 bytes = p->tcp_header_bytes - sizeof(struct weir_tcp);

	if (bytes < 1 || bytes > WEIR_TCP_OPTIONS_BYTES_MAX)
		return 0;
	if (bpf_xdp_load_bytes(ctx, p->l4_at + sizeof(struct weir_tcp), options.bytes, bytes))
		return 0;
	weir_fw_parse_options(p, &options, bytes);
	return 0;
}

/* A packet of a rule that logs all packets of its states. */
__noinline int weir_fw_log_ingress(struct xdp_md *ctx, const struct weir_fw_packet *p __arg_nonnull,
				   const struct weir_fw_hit *hit __arg_nonnull)
{
	weir_fw_log_xdp(ctx, p, hit->rule[weir_fw_half(p, hit)], WEIR_FW_PASS, 0);
	return 0;
}

/* The descriptor. */
static __always_inline int weir_fw_read(struct xdp_md *ctx, struct weir_fw_packet *p)
{
	void *data = weir_xdp_data(ctx);
	void *data_end = weir_xdp_data_end(ctx);
	int result = weir_fw_parse_ip(p, data, data_end, data_end - data);

	if (result == WEIR_PARSE_EXTENSIONS) {
		result = weir_fw_extensions_ingress(ctx, p);
		data = weir_xdp_data(ctx);
		data_end = weir_xdp_data_end(ctx);
	}
	if (result != WEIR_PARSE_DONE)
		return result;
	return weir_fw_parse_message(p, data, data_end);
}

/* The slot of a VLAN interface over the one that received the packet; its own if there is none. */
__noinline int weir_fw_vlan_slot(__u32 slot, __u32 vlan_id)
{
	__u32 at = weir_fw_interface(slot)->vlan_first, i;

	for (i = 0; i < WEIR_FW_INTERFACE_COUNT_MAX && at; i++) {
		struct weir_fw_interface __weir_arena *vlan = weir_fw_interface(at);

		if (vlan->vlan_id == vlan_id)
			return at;
		at = vlan->vlan_next;
	}
	return slot;
}

/* What the frame's destination says: whether it is for the interface that the packet came by. */
static __always_inline void weir_fw_see_address(struct weir_fw_packet *p, void *data,
						void *data_end)
{
	bool is_other;

	if (data + sizeof(struct weir_eth) > data_end)
		return;
	is_other = !weir_fw_is_address(weir_fw_interface(p->interface), data);
	if (is_other || p->vlan_bytes)
		p->flags |= WEIR_PACKET_STAY;
	if (*(__u8 *)data & WEIR_ETH_GROUP_BIT)
		p->flags |= WEIR_PACKET_GROUP;
	else if (is_other)
		p->flags |= WEIR_PACKET_FOREIGN;
}

/*
 * By which interface the packet has come. What is not for its MAC address, or has a tag, is judged
 * like all else and then left to the kernel, which knows its VLAN interfaces and drops what belongs
 * to none. Returns whether the ruleset skips the interface.
 */
static __always_inline bool weir_fw_receive(struct xdp_md *ctx, struct weir_fw_packet *p)
{
	struct weir_fw_interface __weir_arena *interface;
	__u8 slot = weir_fw_ifslot(ctx->ingress_ifindex);

	p->interface = slot;
	if (p->vlan_tci & WEIR_VLAN_ID_MASK)
		p->interface = weir_fw_vlan_slot(slot, p->vlan_tci & WEIR_VLAN_ID_MASK);
	weir_fw_see_address(p, weir_xdp_data(ctx), weir_xdp_data_end(ctx));
	interface = weir_fw_interface(slot);
	if (interface->flags & WEIR_FW_INTERFACE_VETH && weir_fw_is_partial(ctx, p)) {
		p->flags |= WEIR_PACKET_STAY | WEIR_PACKET_PARTIAL;
		if (!interface->saw_partial)
			interface->saw_partial = 1;
	}
	return weir_fw_skips(p->ruleset, p->interface);
}

/* Sanity and what follows from it, before the state is looked for. */
static __always_inline int weir_fw_inspect(struct xdp_md *ctx, struct weir_fw_packet *p,
					   bool is_skipped)
{
	int drop = weir_fw_sane(p);

	if (drop && !is_skipped)
		return weir_fw_drop(p, drop);
	if (drop)
		p->flags |= WEIR_PACKET_INSANE;
	if (weir_fw_is_discovery(p))
		return weir_fw_to_kernel(ctx, p);
	if (p->flags & WEIR_PACKET_CLEAR_FIN && !is_skipped)
		weir_fw_clear_fin(p, weir_xdp_data(ctx), weir_xdp_data_end(ctx));
	if (p->tcp_flags & WEIR_TCP_SYN)
		weir_fw_options_ingress(ctx, p);
	return WEIR_FW_CONTINUE;
}

/* Rules for a packet whose state, if it has one, does not cover p->direction. */
static __always_inline int weir_fw_judge_ingress(struct xdp_md *ctx, struct weir_fw_packet *p,
						 struct weir_fw_hit *hit)
{
	weir_fw_ask(ctx, false, p, hit);
	return weir_fw_obey_ingress(ctx, p, hit);
}

/*
 * A fragment. One that goes where its first one went needs no rules; its state counts it, but for
 * TCP, which would look for a header. One that the kernel gets may have to be translated or changed
 * first.
 */
static __always_inline int weir_fw_gather(struct xdp_md *ctx, struct weir_fw_packet *p)
{
	int fate = weir_fw_fragment_follow(p);

	/* No state need have it. */
	if (fate == WEIR_FRAGMENT_KERNEL && p->gateway)
		p->flags |= WEIR_PACKET_ROUTED;
	if (fate == WEIR_FRAGMENT_KERNEL && !weir_fw_translates() && !weir_fw_scrubs(p) &&
	    !weir_fw_copies(p))
		return weir_fw_to_kernel(ctx, p);
	if (fate == WEIR_FRAGMENT_KERNEL) {
		p->flags |= WEIR_PACKET_STAY | WEIR_PACKET_UNTRACKED;
		return WEIR_FW_CONTINUE;
	}
	if (fate != WEIR_FRAGMENT_FOLLOWS && fate != WEIR_FRAGMENT_UNKNOWN)
		return weir_fw_drop(p, fate);
	if (fate == WEIR_FRAGMENT_FOLLOWS && p->protocol == WEIR_PROTOCOL_TCP)
		p->flags |= WEIR_PACKET_UNTRACKED;
	return WEIR_FW_CONTINUE;
}

/* The rules; a state that they have extended then looks at the packet. */
static __always_inline int weir_fw_judge_new(struct xdp_md *ctx, struct weir_fw_packet *p,
					     struct weir_fw_hit *hit)
{
	int action = weir_fw_judge_ingress(ctx, p, hit);

	if (action == WEIR_FW_CONTINUE && weir_state_follow(p, hit) == WEIR_STATE_DROP)
		return weir_fw_refuse_ingress(ctx, p, hit);
	return action;
}

/* An ICMP error that came by an interface with `set skip`. */
static __always_inline bool weir_fw_is_skipped_error(const struct weir_fw_packet *p)
{
	const __u32 both = WEIR_PACKET_ICMP_ERROR | WEIR_PACKET_SKIPPED;

	return (p->flags & both) == both;
}

/* The state of the packet, and the rules if it does not cover the way in. */
static __always_inline int weir_fw_admit(struct xdp_md *ctx, struct weir_fw_packet *p,
					 struct weir_fw_hit *hit, bool is_skipped)
{
	int found = WEIR_STATE_MISS, drop;

	if (is_skipped)
		p->flags |= WEIR_PACKET_SKIPPED;
	if (p->flags & WEIR_PACKET_ICMP_ERROR)
		found = weir_fw_error_ingress(ctx, p, hit);
	else if (weir_fw_is_looked_up(p))
		found = weir_state_lookup(p, hit);
	/* Where nothing is filtered, the way out looks at an error again. */
	if (found == WEIR_STATE_DROP && !weir_fw_is_skipped_error(p))
		return weir_fw_refuse_ingress(ctx, p, hit);
	if (weir_proxy_may_call(p, hit) && weir_proxy_call_ingress(ctx, p, hit))
		return weir_fw_drop(p, WEIR_DROP(PROTO_CKSUM));
	if (weir_proxy_completes(p, hit))
		p->flags |= WEIR_PACKET_STAY;
	drop = hit->covered[WEIR_FW_IN] && !is_skipped ? weir_fw_refused_by_state(p, hit) : 0;
	if (drop)
		return weir_fw_drop(p, drop);
	if (p->flags & WEIR_PACKET_FOLLOWS) {
		hit->covered[WEIR_FW_IN] = 1;
		hit->covered[WEIR_FW_OUT] = 1;
		hit->if_bound = 0;
		/* The first one stands in the log for the whole packet. */
		hit->flags &= ~(WEIR_HIT_LOG_ALL_A | WEIR_HIT_LOG_ALL_B);
	}
	if (is_skipped)
		return WEIR_FW_CONTINUE;
	if (hit->covered[WEIR_FW_IN] && weir_fw_logs_all(p, hit))
		weir_fw_log_ingress(ctx, p, hit);
	if (!hit->covered[WEIR_FW_IN])
		return weir_fw_judge_new(ctx, p, hit);
	weir_fw_apply_state(p, hit);
	return WEIR_FW_CONTINUE;
}

/*
 * The route: the state's own if it is fresh, else that by the packet's gateway, or the kernel's,
 * which the state then keeps. In the second stage it is there.
 */
static __always_inline int weir_fw_route(struct xdp_md *ctx, struct weir_fw_packet *p,
					 const struct weir_fw_hit *hit,
					 struct weir_fw_route *route)
{
	__u16 generation = weir_fw_control()->generation;
	int found, index;

	/* The route that is known was that of the destination on the wire. */
	if (p->flags & WEIR_PACKET_SECOND)
		return p->flags & WEIR_PACKET_TRANSLATED || p->gateway ? WEIR_ROUTE_KERNEL :
									 WEIR_ROUTE_FORWARD;
	if (hit->next_hop && hit->generation == generation && hit->gateway == p->gateway) {
		if (hit->next_hop == WEIR_FW_NEXT_HOP_KERNEL)
			return WEIR_ROUTE_KERNEL;
		if (weir_fw_next_hop_load(route, hit->next_hop, generation))
			return p->ip_bytes > route->mtu_bytes ||
					       weir_fw_next_hop_is_closed(
						       route, ctx->ingress_ifindex) ?
				       WEIR_ROUTE_KERNEL_ONCE :
				       WEIR_ROUTE_FORWARD;
	}
	weir_fw_table_counters(p->cpu)->fib_lookups++;
	found = p->gateway ? weir_fw_fib_gateway(ctx, p, route) : weir_fw_fib(ctx, p, route);
	if (hit->slot == WEIR_FW_SLOT_NONE || hit->gateway != p->gateway ||
	    p->flags & WEIR_PACKET_ICMP_ERROR ||
	    found > WEIR_ROUTE_KERNEL)
		return found;
	index = found == WEIR_ROUTE_KERNEL ? WEIR_FW_NEXT_HOP_KERNEL :
					     weir_fw_next_hop_index(route, generation);
	if (index)
		weir_state_next_hop(p, hit, index, generation);
	return found;
}

/*
 * The way out of a packet whose state covers it: tracked there, if it was not on the way in. A
 * connection that is over may make room for a new one, and then the state covers nothing any more.
 */
static __always_inline int weir_fw_track_out(struct xdp_md *ctx, struct weir_fw_packet *p,
					     struct weir_fw_hit *hit)
{
	int found = WEIR_STATE_HIT;

	if (p->flags & WEIR_PACKET_ICMP_ERROR)
		found = weir_fw_error_ingress(ctx, p, hit);
	else if (weir_fw_is_looked_up(p))
		found = weir_state_track_out(p, hit);
	return found == WEIR_STATE_DROP ? weir_fw_refuse_ingress(ctx, p, hit) : WEIR_FW_CONTINUE;
}

/* A fragment that came by an interface with `set skip`. */
static __always_inline bool weir_fw_is_skipped_fragment(const struct weir_fw_packet *p)
{
	const __u32 both = WEIR_PACKET_FRAGMENT | WEIR_PACKET_SKIPPED;

	return (p->flags & both) == both;
}

/*
 * weir_fw_gather() for such a fragment, where it is judged first: on its way out. WEIR_FW_FOLLOWS:
 * its first one has left there.
 */
static __always_inline int weir_fw_gather_out(struct weir_fw_packet *p, struct weir_fw_hit *hit)
{
	int fate = weir_fw_fragment_follow(p);

	if (fate == WEIR_FRAGMENT_KERNEL) {
		weir_fw_table_counters(p->cpu)->passed_packets++;
		return XDP_PASS;
	}
	if (fate == WEIR_FRAGMENT_UNKNOWN) {
		/* What was found without ports is not its state. */
		if (p->flags & WEIR_PACKET_UNTRACKED)
			weir_fw_hit_none(hit);
		return WEIR_FW_CONTINUE;
	}
	if (fate != WEIR_FRAGMENT_FOLLOWS)
		return weir_fw_drop(p, fate);
	if (p->protocol == WEIR_PROTOCOL_TCP)
		p->flags |= WEIR_PACKET_UNTRACKED;
	if (weir_fw_is_looked_up(p)) {
		weir_state_touch(p);
		weir_state_track_out(p, hit);
	}
	return WEIR_FW_FOLLOWS;
}

/*
 * Whether a packet that has come in without a state may leave with one, which comes in by another
 * key: where addresses are translated.
 */
static __always_inline bool weir_fw_is_asked_out(const struct weir_fw_packet *p,
						 const struct weir_fw_hit *hit)
{
	return weir_fw_translates() && hit->slot == WEIR_FW_SLOT_NONE && weir_fw_is_looked_up(p);
}

/* State and rules of the interface by which a packet leaves. */
static __always_inline int weir_fw_release(struct xdp_md *ctx, struct weir_fw_packet *p,
					   struct weir_fw_hit *hit)
{
	int action, drop;

	if (weir_fw_is_skipped_fragment(p)) {
		action = weir_fw_gather_out(p, hit);
		if (action == WEIR_FW_FOLLOWS)
			weir_fw_apply_state(p, hit);
		if (action != WEIR_FW_CONTINUE)
			return action == WEIR_FW_FOLLOWS ? WEIR_FW_CONTINUE : action;
	}
	if (!(hit->flags & WEIR_HIT_TRACKED)) {
		if (p->flags & WEIR_PACKET_INSANE)
			return weir_fw_drop(p, WEIR_DROP(NORMALIZE));
		if ((weir_state_covers_out(p, hit) && hit->slot != WEIR_FW_SLOT_NONE) ||
		    weir_fw_is_skipped_error(p) || weir_fw_is_asked_out(p, hit)) {
			action = weir_fw_track_out(ctx, p, hit);
			if (action != WEIR_FW_CONTINUE)
				return action;
		}
	}
	/* It leaves as its first one did: whom the state lets out by now is of no account. */
	if (p->flags & WEIR_PACKET_FOLLOWS) {
		weir_fw_apply_state(p, hit);
		return WEIR_FW_CONTINUE;
	}
	if (!weir_state_covers_out(p, hit)) {
		if (weir_fw_has_tags(p))
			weir_fw_recall_tag(p, hit);
		return weir_fw_judge_new(ctx, p, hit);
	}
	drop = weir_fw_refused_by_state(p, hit);
	if (drop)
		return weir_fw_drop(p, drop);
	if (weir_fw_logs_all(p, hit))
		weir_fw_log_ingress(ctx, p, hit);
	weir_fw_apply_state(p, hit);
	return WEIR_FW_CONTINUE;
}

/*
 * Rules of the way out have passed a packet, and may have chosen another gateway: it leaves there
 * instead, and no rule is asked about that. WEIR_FW_CONTINUE, or what becomes of it.
 */
static __always_inline int weir_fw_reroute(struct xdp_md *ctx, struct weir_fw_packet *p,
					   struct weir_fw_hit *hit,
					   struct weir_fw_scratch *scratch, __u32 before)
{
	int found;

	if (weir_state_covers_out(p, hit))
		weir_gateway_settle(p, hit);
	if (p->gateway == before && !scratch->copy_at)
		return WEIR_FW_CONTINUE;
	/* The device that has it cannot send it elsewhere any more. */
	if (p->flags & WEIR_PACKET_SECOND)
		return weir_fw_drop(p, WEIR_DROP(NO_ROUTE));
	found = scratch->copy_at ? WEIR_ROUTE_KERNEL_ONCE :
				   weir_fw_fib_gateway(ctx, p, &scratch->route);
	p->out_interface = scratch->route.interface;
	if (found == WEIR_ROUTE_FORWARD)
		return WEIR_FW_CONTINUE;
	if (found == WEIR_ROUTE_BLACKHOLE)
		return weir_fw_drop(p, WEIR_DROP(NO_ROUTE));
	/* Where it leaves it is translated by its state, and asks for its gateway there. */
	weir_fw_untranslate(p, &scratch->before);
	p->gateway = before;
	return weir_fw_to_kernel(ctx, p);
}

/* From the route on: the way out. Where nothing is filtered, the packet has no ruleset. */
static __always_inline int weir_fw_leave(struct xdp_md *ctx, struct weir_fw_packet *p,
					 struct weir_fw_hit *hit, struct weir_fw_scratch *scratch)
{
	struct weir_fw_route *route = &scratch->route;
	__u32 gateway;
	int action;

	if (weir_fw_copies(p))
		weir_dup_settle(p, hit);
	/* The kernel answers where the TTL ends, and knows IPv4 options and other MAC addresses. */
	if (p->ttl <= WEIR_FW_TTL_LAST || p->flags & WEIR_PACKET_STAY ||
	    (p->family == WEIR_FW_INET && p->flags & WEIR_PACKET_OPTIONS) ||
	    weir_fw_is_martian(p))
		return weir_fw_to_kernel(ctx, p);
	if (hit->covered[WEIR_FW_IN] && !(p->flags & WEIR_PACKET_SKIPPED))
		weir_gateway_settle(p, hit);
	action = weir_fw_route(ctx, p, hit, route);
	if (action == WEIR_ROUTE_BLACKHOLE)
		return weir_fw_drop(p, WEIR_DROP(NO_ROUTE));
	if (action != WEIR_ROUTE_FORWARD)
		return weir_fw_to_kernel(ctx, p);
	weir_fw_count(p, p->interface, WEIR_FW_IN, WEIR_FW_PASS);
	p->direction = WEIR_FW_OUT;
	p->out_interface = route->interface;
	scratch->scrub[0] = 0;
	if (p->ruleset && !weir_fw_skips(p->ruleset, route->interface)) {
		weir_fw_ask_scrub(p);
		gateway = p->gateway;
		action = weir_fw_release(ctx, p, hit);
		if (action == WEIR_FW_CONTINUE)
			action = weir_fw_reroute(ctx, p, hit, scratch, gateway);
		if (action != WEIR_FW_CONTINUE)
			return action;
		weir_fw_translate_out(p, hit);
	}
	if (p->ruleset && weir_fw_is_first_fragment(p)) {
		action = weir_fw_open_ingress(ctx, p, false);
		if (action)
			return weir_fw_drop(p, action);
	}
	if (weir_fw_fragment_is_lost(p))
		return weir_fw_drop(p, WEIR_DROP(FRAGMENT));
	if ((p->flags & WEIR_PACKET_TRANSLATED && weir_fw_rewrite_ingress(ctx, p)) ||
	    weir_fw_modulate_ingress(ctx, p))
		return weir_fw_drop(p, WEIR_DROP(SHORT));
	if (!weir_fw_readdress(ctx, p, route))
		return XDP_ABORTED;
	if (weir_fw_scrub_ingress(ctx, p, scratch->scrub[0]))
		return weir_fw_drop(p, WEIR_DROP(SHORT));
	weir_fw_count(p, p->out_interface, WEIR_FW_OUT, WEIR_FW_PASS);
	weir_fw_table_counters(p->cpu)->forwarded_packets++;
	return weir_fw_forward(ctx, p, route);
}

/*
 * The longer way, for every packet that the quick one is not for. A function of its own, so that
 * neither has the other's stack. `flags` are those that the packet has before it is looked at.
 */
static __noinline int weir_fw_receive_any(struct xdp_md *ctx, __u32 flags)
{
	bool is_enabled = weir_fw_control()->flags & WEIR_FW_CONTROL_ENABLED;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	bool is_filtered, is_skipped;
	struct weir_fw_packet *p;
	struct weir_fw_hit *hit;
	int result;

	if (!scratch)
		return XDP_ABORTED;
	p = weir_fw_packet_of(scratch);
	hit = &scratch->hit;
	weir_modulate_none(scratch);
	p->flags = flags;
	p->cpu = bpf_get_smp_processor_id();
	/* Once: whatever is asked of the ruleset below is asked of this one. */
	p->ruleset = weir_fw_control()->active;
	is_filtered = is_enabled && weir_fw_filters(p->ruleset);
	result = weir_fw_read(ctx, p);
	if (result == WEIR_PARSE_NOT_IP)
		return XDP_PASS;
	is_skipped = weir_fw_receive(ctx, p);
	if (!is_filtered || result != WEIR_PARSE_DONE)
		p->ruleset = 0;
	if (result != WEIR_PARSE_DONE) {
		if (is_enabled && !is_skipped)
			return weir_fw_drop(p, result);
		return weir_fw_to_kernel(ctx, p);
	}
	weir_fw_hit_none(hit);
	scratch->scrub[0] = 0;
	scratch->copy_at = 0;
	if (is_filtered) {
		p->tick = weir_fw_tick(weir_fw_control()->clock_offset);
		if (p->flags & WEIR_PACKET_FRAGMENT && !is_skipped) {
			result = weir_fw_gather(ctx, p);
			if (result != WEIR_FW_CONTINUE)
				return result;
		}
		weir_state_touch(p);
		result = weir_fw_inspect(ctx, p, is_skipped);
		if (result == WEIR_FW_CONTINUE && !is_skipped)
			weir_fw_ask_scrub(p);
		if (result == WEIR_FW_CONTINUE)
			result = weir_fw_admit(ctx, p, hit, is_skipped);
		if (result != WEIR_FW_CONTINUE)
			return result;
		if (weir_fw_scrub_ingress(ctx, p, scratch->scrub[0]))
			return weir_fw_drop(p, WEIR_DROP(SHORT));
		if (weir_family_changes(p, hit) && !is_skipped)
			return weir_family_ingress(ctx, p, hit);
	}
	return weir_fw_leave(ctx, p, hit, scratch);
}

#endif /* WEIR_FW_INGRESS_H */

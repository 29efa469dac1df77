/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that the kernel has made of frames (tcx): how they are read, judged, changed and
 * answered, where they come in (entry.h) as where they leave (egress.h). All of it is said of the
 * hook at which the packet is, p->direction.
 *
 * A packet may be several segments in one: it is judged once, and counted once, with all its bytes;
 * the window of its connection has to have room for all of it. Interfaces that have no link header
 * (tun, WireGuard, PPP) have programs of their own: these say whether there is one.
 */
#ifndef WEIR_FW_SKB_H
#define WEIR_FW_SKB_H

#include <weir/fw/clock.h>
#include <weir/fw/dup_skb.h>
#include <weir/fw/errand.h>
#include <weir/fw/error.h>
#include <weir/fw/family_skb.h>
#include <weir/fw/fib.h>
#include <weir/fw/fragment.h>
#include <weir/fw/gateway_skb.h>
#include <weir/fw/judge.h>
#include <weir/fw/log.h>
#include <weir/fw/modulate.h>
#include <weir/fw/proxy_skb.h>
#include <weir/fw/queue.h>
#include <weir/fw/quoted.h>
#include <weir/fw/reply_skb.h>
#include <weir/fw/rewrite.h>
#include <weir/fw/routable.h>
#include <weir/fw/sanity.h>
#include <weir/fw/tag.h>

/* As much of a packet as its headers may take: the kernel may keep the rest elsewhere. */
#define WEIR_FW_PULL_BYTES 256

/* Does what the rules have said. */
__noinline int weir_fw_obey_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
				struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_decision *d;
	int drop;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	d = &scratch->decision;
	if (weir_proxy_is_asked(p, d))
		return WEIR_PROXY_GREETS;
	drop = weir_fw_obey(p, hit, scratch);
	if (drop && p->direction == WEIR_FW_IN && p->flags & WEIR_PACKET_TRANSLATED)
		weir_fw_recall_skb(skb, p);
	if (weir_fw_is_answered(drop, d) && p->direction == WEIR_FW_IN &&
	    p->protocol == WEIR_PROTOCOL_TCP && d->flags & WEIR_DECISION_RETURN_RST &&
	    !weir_fw_tcp_checksum_fits_skb(skb, p))
		drop = WEIR_DROP(PROTO_CKSUM);
	if (d->flags & WEIR_DECISION_LOG)
		weir_fw_log_skb(skb, p, d->log_rule, drop ? WEIR_FW_BLOCK : WEIR_FW_PASS,
				drop ? drop - 1 : 0);
	return drop;
}

/* A packet that is dropped: who has sent it is told, the box itself as anybody else. */
__noinline int weir_fw_refuse_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_hit *hit __arg_nonnull, int drop)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	weir_fw_count_drop(p, drop);
	if (!scratch)
		return TCX_DROP;
	weir_fw_note_challenge(p, hit);
	if (hit->flags & (WEIR_HIT_SEND_RST | WEIR_HIT_CHALLENGE)) {
		__builtin_memset(&scratch->decision, 0, sizeof(scratch->decision));
		scratch->decision.flags = WEIR_DECISION_RETURN_RST;
	} else if (!weir_fw_is_answered(drop, &scratch->decision)) {
		return TCX_DROP;
	}
	/* It goes to who sent the packet, from whom that was sent to. */
	if (p->direction == WEIR_FW_IN && p->flags & WEIR_PACKET_TRANSLATED &&
	    weir_fw_recall_skb(skb, p))
		return TCX_DROP;
	return weir_fw_reply_skb(skb, p);
}

/* A packet of a rule that logs all packets of its states. */
__noinline int weir_fw_log_all_skb(struct __sk_buff *skb,
				   const struct weir_fw_packet *p __arg_nonnull,
				   const struct weir_fw_hit *hit __arg_nonnull)
{
	weir_fw_log_skb(skb, p, hit->rule[weir_fw_half(p, hit)], WEIR_FW_PASS, 0);
	return 0;
}

/* IPv4 options, extension headers. What leaves has a right checksum, or gets it. */
__noinline int weir_fw_extensions_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	if (p->family == WEIR_FW_INET && p->direction == WEIR_FW_IN &&
	    weir_checksum((__u32)weir_fw_sum_skb(skb, p->l3_at, p->l4_at - p->l3_at)))
		return WEIR_DROP(PROTO_CKSUM);
	return weir_fw_parse_extensions(p, weir_skb_data(skb), weir_skb_data_end(skb));
}

/* The options of a SYN. */
__noinline int weir_fw_options_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_tcp_options options = {};
	__u32 bytes = p->tcp_header_bytes - sizeof(struct weir_tcp);

	if (bytes < 1 || bytes > WEIR_TCP_OPTIONS_BYTES_MAX)
		return 0;
	if (bpf_skb_load_bytes(skb, p->l4_at + sizeof(struct weir_tcp), options.bytes, bytes))
		return 0;
	weir_fw_parse_options(p, &options, bytes);
	return 0;
}

/* Takes the FIN out of a SYN with FIN, as weir_fw_clear_fin(). */
__noinline int weir_fw_clear_fin_skb(struct __sk_buff *skb,
				     const struct weir_fw_packet *p __arg_nonnull)
{
	/* The word of offset and flags. */
	__u32 at = p->l4_at + __builtin_offsetof(struct weir_tcp, offset);
	__be16 from, to;

	if (bpf_skb_load_bytes(skb, at, &from, sizeof(from)))
		return -1;
	to = from & ~bpf_htons(WEIR_TCP_FIN);
	if (bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0))
		return -1;
	return bpf_l4_csum_replace(skb, p->l4_at + WEIR_TCP_CHECKSUM_AT, from, to, sizeof(to));
}

/* The descriptor. */
static __always_inline int weir_fw_read_skb(struct __sk_buff *skb, struct weir_fw_packet *p,
					    bool has_link)
{
	void *data, *data_end;
	int result;

	/* It is no loss if it fails: what the parser then misses makes the packet short. */
	bpf_skb_pull_data(skb, skb->len < WEIR_FW_PULL_BYTES ? skb->len : WEIR_FW_PULL_BYTES);
	if (skb->gso_size)
		p->flags |= WEIR_PACKET_MERGED;
	data = weir_skb_data(skb);
	data_end = weir_skb_data_end(skb);
	if (has_link)
		result = weir_fw_parse_ip(p, data, data_end, skb->len);
	else
		result = weir_fw_parse_l3(p, data, data_end, skb->len, (__be16)skb->protocol);
	if (result == WEIR_PARSE_EXTENSIONS) {
		result = weir_fw_extensions_skb(skb, p);
		data = weir_skb_data(skb);
		data_end = weir_skb_data_end(skb);
	}
	if (result != WEIR_PARSE_DONE)
		return result;
	result = weir_fw_parse_message(p, data, data_end);
	if (result == WEIR_PARSE_DONE && weir_fw_filters(p->ruleset))
		result = weir_fw_sane(p);
	if (result == WEIR_PARSE_DONE && p->tcp_flags & WEIR_TCP_SYN)
		weir_fw_options_skb(skb, p);
	return result;
}

/*
 * Remembers a packet whose first fragment has passed, by the ends that the later ones come with:
 * where it came in and was translated, those in the packet.
 */
__noinline int weir_fw_open_skb(struct __sk_buff *skb, const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (p->direction == WEIR_FW_OUT || !(p->flags & WEIR_PACKET_TRANSLATED))
		return weir_fw_fragment_open(p, false);
	if (!scratch)
		return WEIR_DROP(INTERNAL);
	scratch->wire = *p;
	if (weir_fw_recall_skb(skb, &scratch->wire))
		return WEIR_DROP(SHORT);
	return weir_fw_fragment_open(&scratch->wire, false);
}

/* A descriptor of which nothing is known but the hook at which the packet is. */
static __always_inline struct weir_fw_packet *weir_fw_begin_skb(struct __sk_buff *skb,
								struct weir_fw_scratch *scratch,
								__u32 direction)
{
	struct weir_fw_packet *p = weir_fw_packet_of(scratch);

	p->direction = direction;
	p->flags = WEIR_PACKET_SKB;
	p->cpu = bpf_get_smp_processor_id();
	/* Once: whatever is asked of the ruleset below is asked of this one. */
	p->ruleset = weir_fw_control()->active;
	weir_fw_hit_none(&scratch->hit);
	scratch->scrub[0] = 0;
	scratch->copy_at = 0;
	/* Of the packet before this one: nobody is answered by that. */
	scratch->decision.flags = 0;
	weir_modulate_none(scratch);
	return p;
}

/*
 * Whether a packet of IPv4 is one that af-to has made where it came in: the kernel takes none from
 * an address of its box, which that has.
 */
__noinline int weir_family_may_send(struct __sk_buff *skb, __u32 has_link)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *p, *q;

	/* Nor does it forward what is for the MAC address of somebody else, or for many. */
	if (!scratch || skb->pkt_type != PACKET_HOST)
		return false;
	p = weir_fw_begin_skb(skb, scratch, WEIR_FW_IN);
	if (weir_fw_read_skb(skb, p, has_link) || p->ttl <= WEIR_FW_TTL_LAST)
		return false;
	if (weir_family_is_error(p)) {
		q = &scratch->quoted;
		if (weir_fw_quoted_ip(skb, true, p, scratch) ||
		    weir_fw_quoted_ends(skb, true, p, q))
			return false;
		q->cpu = p->cpu;
		weir_error_turn(q);
		q->hash = weir_fw_hash(q);
	} else {
		p->hash = weir_fw_hash(p);
	}
	return weir_family_has_come(p, scratch);
}

/* Rules for a packet whose state, if it has one, does not cover the hook. */
static __always_inline int weir_fw_judge_new_skb(struct __sk_buff *skb, struct weir_fw_packet *p,
						 struct weir_fw_hit *hit, __u32 direction)
{
	int drop;

	if (direction == WEIR_FW_OUT && weir_fw_has_tags(p))
		weir_fw_recall_tag(p, hit);
	weir_fw_ask(skb, true, p, hit);
	drop = weir_fw_obey_skb(skb, p, hit);
	if (drop)
		return drop;
	return weir_state_follow(p, hit) == WEIR_STATE_DROP ? hit->reason + 1 : 0;
}

/* State and rules; 0, or the reason of the drop + 1. */
static __always_inline int weir_fw_let_through(struct __sk_buff *skb, struct weir_fw_packet *p,
					       struct weir_fw_hit *hit, __u32 direction)
{
	bool is_out = direction == WEIR_FW_OUT;
	int found = WEIR_STATE_MISS, drop;

	if (p->flags & WEIR_PACKET_FRAGMENT) {
		int fate = weir_fw_fragment_follow(p);

		if (fate != WEIR_FRAGMENT_UNKNOWN && fate != WEIR_FRAGMENT_FOLLOWS)
			return fate;
		/* As in weir_fw_gather(): the state counts it, but for TCP. */
		if (p->flags & WEIR_PACKET_FOLLOWS && p->protocol == WEIR_PROTOCOL_TCP)
			p->flags |= WEIR_PACKET_UNTRACKED;
		weir_state_touch(p);
	}
	weir_fw_ask_scrub(p);
	if (p->flags & WEIR_PACKET_ICMP_ERROR)
		found = weir_fw_error_skb(skb, p, hit);
	else if (weir_fw_is_looked_up(p))
		found = weir_state_lookup(p, hit);
	if (p->flags & WEIR_PACKET_FOLLOWS) {
		weir_fw_apply_state(p, hit);
		if (is_out)
			weir_fw_translate_out(p, hit);
		return weir_fw_fragment_is_lost(p) ? WEIR_DROP(FRAGMENT) : 0;
	}
	if (found == WEIR_STATE_DROP)
		return hit->reason + 1;
	if (is_out && found == WEIR_STATE_MISS && weir_family_has_come(p, weir_fw_scratch()))
		return 0;
	if (!is_out && weir_proxy_may_call(p, hit) && weir_proxy_call_skb(skb, p, hit))
		return WEIR_DROP(PROTO_CKSUM);
	if (is_out && weir_proxy_completes(p, hit) && weir_proxy_complete_skb(skb, p, hit))
		return WEIR_DROP(MEMORY);
	/* The state that had the gateway has just ended. */
	if (is_out && p->gateway && hit->slot == WEIR_FW_SLOT_NONE) {
		p->gateway = 0;
		p->out_interface = weir_fw_ifslot(skb->ifindex);
	}
	if (is_out ? !weir_state_covers_out(p, hit) : !hit->covered[WEIR_FW_IN]) {
		drop = weir_fw_judge_new_skb(skb, p, hit, direction);
		if (drop)
			return drop;
	} else {
		drop = weir_fw_refused_by_state(p, hit);
		if (drop)
			return drop;
		if (weir_fw_logs_all(p, hit))
			weir_fw_log_all_skb(skb, p, hit);
		weir_fw_apply_state(p, hit);
	}
	if (is_out && weir_state_covers_out(p, hit))
		weir_gateway_settle(p, hit);
	/* Its entry has the ends that the later ones come with. */
	if (is_out && hit->flags & WEIR_HIT_TRANSLATED)
		p->flags |= WEIR_PACKET_TRANSLATED;
	drop = weir_fw_is_first_fragment(p) ? weir_fw_open_skb(skb, p) : 0;
	if (!drop && is_out)
		weir_fw_translate_out(p, hit);
	return drop;
}

/*
 * What becomes of a packet whose descriptor is filled, with the result of reading it. What passes
 * goes on to other programs at the hook, and then its way, or to its gateway.
 */
static __always_inline int weir_fw_judge_skb(struct __sk_buff *skb, struct weir_fw_packet *p,
					     struct weir_fw_scratch *scratch, __u32 direction,
					     int drop)
{
	__u8 slot = direction == WEIR_FW_OUT ? p->out_interface : p->interface;
	struct weir_fw_hit *hit = &scratch->hit;

	if (!(weir_fw_control()->flags & WEIR_FW_CONTROL_ENABLED) ||
	    weir_fw_skips(p->ruleset, slot)) {
		drop = 0;
	} else if (!drop && weir_fw_filters(p->ruleset) && !weir_fw_is_discovery(p)) {
		p->tick = weir_fw_tick(weir_fw_control()->clock_offset);
		if (direction == WEIR_FW_IN && p->flags & WEIR_PACKET_CLEAR_FIN)
			weir_fw_clear_fin_skb(skb, p);
		weir_state_touch(p);
		drop = weir_fw_let_through(skb, p, hit, direction);
	}
	if (drop == WEIR_PROXY_GREETS)
		return weir_proxy_greet_skb(skb, p);
	if (drop)
		return weir_fw_refuse_skb(skb, p, hit, drop);
	if (direction == WEIR_FW_IN && weir_family_changes(p, hit))
		return weir_family_skb(skb, p, hit);
	/* What is for many goes where the kernel sends it. */
	if (direction == WEIR_FW_OUT && weir_fw_is_martian(p))
		p->gateway = 0;
	if (direction == WEIR_FW_OUT && p->gateway) {
		drop = weir_gateway_admit(skb, p);
		if (drop != TCX_NEXT)
			return drop;
		slot = p->out_interface;
	}
	if ((p->flags & WEIR_PACKET_TRANSLATED && weir_fw_rewrite_skb(skb, p)) ||
	    weir_fw_modulate_skb(skb, p) ||
	    weir_fw_scrub_skb(skb, p, scratch->scrub[0])) {
		weir_fw_count_drop(p, WEIR_DROP(MEMORY));
		return TCX_DROP;
	}
	weir_fw_count(p, slot, direction, WEIR_FW_PASS);
	if (scratch->copy_at && weir_dup_send(skb, p, scratch->copy_at))
		return weir_dup_fails(p);
	if (direction == WEIR_FW_IN && p->gateway && weir_errand_is_due(p) &&
	    p->flags & (WEIR_PACKET_ROUTED | WEIR_PACKET_FOLLOWS))
		return weir_gateway_pass_on(skb, p);
	if (direction == WEIR_FW_OUT)
		weir_queue_skb(skb, p, hit, slot);
	if (direction == WEIR_FW_OUT && p->gateway)
		return weir_gateway_send(skb, p);
	return TCX_NEXT;
}

#endif /* WEIR_FW_SKB_H */

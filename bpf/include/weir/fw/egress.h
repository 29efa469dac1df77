/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * weir_fw_egress: packets that leave an interface by way of the kernel, on the same tables as the
 * others: those of the box itself, and those that the kernel had to forward, which have been judged
 * on their way in. What weir_fw_ingress redirects does not come by here.
 *
 * A tagged frame is not judged: it has been, at its VLAN interface.
 */
#ifndef WEIR_FW_EGRESS_H
#define WEIR_FW_EGRESS_H

#include <weir/fw/clock.h>
#include <weir/fw/fib.h>
#include <weir/fw/fragment.h>
#include <weir/fw/judge.h>
#include <weir/fw/log.h>
#include <weir/fw/quoted.h>
#include <weir/fw/reply_local.h>
#include <weir/fw/rewrite.h>
#include <weir/fw/routable.h>
#include <weir/fw/sanity.h>
#include <weir/fw/tag.h>

/* As much of a packet as its headers may take: the kernel may keep the rest elsewhere. */
#define WEIR_FW_PULL_BYTES 256

/* Does what the rules have said. */
__noinline int weir_fw_obey_egress(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
				   struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_decision *d;
	int drop;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	d = &scratch->decision;
	drop = weir_fw_obey(p, hit, scratch);
	if (d->flags & WEIR_DECISION_LOG)
		weir_fw_log_skb(skb, p, d->log_rule, drop ? WEIR_FW_BLOCK : WEIR_FW_PASS,
				drop ? drop - 1 : 0);
	return drop;
}

/* A packet that is dropped: the box itself is told as anybody else would be. */
__noinline int weir_fw_refuse_egress(struct __sk_buff *skb,
				     struct weir_fw_packet *p __arg_nonnull,
				     const struct weir_fw_hit *hit __arg_nonnull, int drop)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	weir_fw_count_drop(p, drop);
	if (!scratch || !(p->flags & WEIR_PACKET_LOCAL))
		return TCX_DROP;
	weir_fw_note_challenge(p, hit);
	if (hit->flags & (WEIR_HIT_SEND_RST | WEIR_HIT_CHALLENGE)) {
		__builtin_memset(&scratch->decision, 0, sizeof(scratch->decision));
		scratch->decision.flags = WEIR_DECISION_RETURN_RST;
	} else if (drop != WEIR_DROP(MATCH)) {
		return TCX_DROP;
	}
	return weir_fw_reply_local(skb, p);
}

/* A packet of a rule that logs all packets of its states. */
__noinline int weir_fw_log_egress(struct __sk_buff *skb,
				  const struct weir_fw_packet *p __arg_nonnull,
				  const struct weir_fw_hit *hit __arg_nonnull)
{
	weir_fw_log_skb(skb, p, hit->rule[weir_fw_half(p, hit)], WEIR_FW_PASS, 0);
	return 0;
}

__noinline int weir_fw_extensions_egress(struct __sk_buff *skb,
					 struct weir_fw_packet *p __arg_nonnull)
{
	/* Whose IPv4 options these are has been checked. */
	return weir_fw_parse_extensions(p, weir_skb_data(skb), weir_skb_data_end(skb));
}

__noinline int weir_fw_options_egress(struct __sk_buff *skb,
				      struct weir_fw_packet *p __arg_nonnull)
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

/* The descriptor. */
static __always_inline int weir_fw_read_skb(struct __sk_buff *skb, struct weir_fw_packet *p)
{
	void *data, *data_end;
	int result;

	/* It is no loss if it fails: what the parser then misses makes the packet short. */
	bpf_skb_pull_data(skb, skb->len < WEIR_FW_PULL_BYTES ? skb->len : WEIR_FW_PULL_BYTES);
	data = weir_skb_data(skb);
	data_end = weir_skb_data_end(skb);
	result = weir_fw_parse_ip(p, data, data_end, skb->len);
	if (result == WEIR_PARSE_EXTENSIONS) {
		result = weir_fw_extensions_egress(skb, p);
		data = weir_skb_data(skb);
		data_end = weir_skb_data_end(skb);
	}
	if (result != WEIR_PARSE_DONE)
		return result;
	result = weir_fw_parse_message(p, data, data_end);
	if (result == WEIR_PARSE_DONE)
		result = weir_fw_sane(p);
	if (result == WEIR_PARSE_DONE && p->tcp_flags & WEIR_TCP_SYN)
		weir_fw_options_egress(skb, p);
	return result;
}

/* State and rules; 0, or the reason of the drop + 1. */
static __always_inline int weir_fw_let_out(struct __sk_buff *skb, struct weir_fw_packet *p,
					   struct weir_fw_hit *hit)
{
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
		found = weir_fw_error_egress(skb, p, hit);
	else if (weir_fw_is_looked_up(p))
		found = weir_state_lookup(p, hit);
	if (p->flags & WEIR_PACKET_FOLLOWS) {
		weir_fw_scrub_by_state(hit, weir_fw_half(p, hit));
		weir_fw_translate_out(p, hit);
		return weir_fw_fragment_is_lost(p) ? WEIR_DROP(FRAGMENT) : 0;
	}
	if (found == WEIR_STATE_DROP)
		return hit->reason + 1;
	if (!weir_state_covers_out(p, hit)) {
		if (weir_fw_has_tags(p))
			weir_fw_recall_tag(p, hit);
		weir_fw_ask(skb, true, p);
		drop = weir_fw_obey_egress(skb, p, hit);
		if (drop)
			return drop;
		if (weir_state_follow(p, hit) == WEIR_STATE_DROP)
			return hit->reason + 1;
	} else if (weir_fw_has_wrong_options(p, hit)) {
		return WEIR_DROP(IP_OPTION);
	} else {
		if (weir_fw_logs_all(p, hit))
			weir_fw_log_egress(skb, p, hit);
		weir_fw_scrub_by_state(hit, weir_fw_half(p, hit));
	}
	/* Its entry has the ends that the later ones come with. */
	if (hit->flags & WEIR_HIT_TRANSLATED)
		p->flags |= WEIR_PACKET_TRANSLATED;
	drop = weir_fw_is_first_fragment(p) ? weir_fw_fragment_open(p, false) : 0;
	if (!drop)
		weir_fw_translate_out(p, hit);
	return drop;
}

SEC("tcx/egress")
int weir_fw_egress(struct __sk_buff *skb)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 control_flags = weir_fw_control()->flags;
	struct weir_fw_packet *p;
	struct weir_fw_hit *hit;
	int drop;

	weir_uses_arena();
	if (skb->vlan_present || skb->protocol == bpf_htons(WEIR_ETH_TYPE_8021Q) ||
	    skb->protocol == bpf_htons(WEIR_ETH_TYPE_8021AD))
		return TCX_NEXT;
	if (!scratch)
		return TCX_DROP;
	p = weir_fw_packet_of(scratch);
	hit = &scratch->hit;
	p->direction = WEIR_FW_OUT;
	p->flags = WEIR_PACKET_SKB;
	p->cpu = bpf_get_smp_processor_id();
	p->interface = weir_fw_ifslot(skb->ingress_ifindex);
	p->out_interface = weir_fw_ifslot(skb->ifindex);
	if (!skb->ingress_ifindex)
		p->flags |= WEIR_PACKET_LOCAL;
	/* Once: whatever is asked of the ruleset below is asked of this one. */
	p->ruleset = weir_fw_control()->active;
	drop = weir_fw_read_skb(skb, p);
	if (drop == WEIR_PARSE_NOT_IP)
		return TCX_NEXT;
	weir_fw_hit_none(hit);
	scratch->scrub[0] = 0;
	if (!(control_flags & WEIR_FW_CONTROL_ENABLED) ||
	    weir_fw_skips(p->ruleset, p->out_interface)) {
		drop = 0;
	} else if (!drop && weir_fw_filters(p->ruleset) && !weir_fw_is_discovery(p)) {
		p->tick = weir_fw_tick(weir_fw_control()->clock_offset);
		weir_state_touch(p);
		drop = weir_fw_let_out(skb, p, hit);
	}
	if (drop)
		return weir_fw_refuse_egress(skb, p, hit, drop);
	if ((p->flags & WEIR_PACKET_TRANSLATED && weir_fw_rewrite_egress(skb, p)) ||
	    weir_fw_scrub_egress(skb, p, scratch->scrub[0])) {
		weir_fw_count_drop(p, WEIR_DROP(MEMORY));
		return TCX_DROP;
	}
	weir_fw_count(p, p->out_interface, WEIR_FW_OUT, WEIR_FW_PASS);
	return TCX_NEXT;
}

#endif /* WEIR_FW_EGRESS_H */

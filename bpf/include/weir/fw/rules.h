/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the rules say about a packet: pf's evaluation, last match with `quick`, anchors in their
 * places (pf.conf(5); `pf_test_rule` and `pf_match_rule` of pf.c). weir_rules::evaluate is the
 * reference, and tests hold this against it.
 */
#ifndef WEIR_FW_RULES_H
#define WEIR_FW_RULES_H

#include <weir/fw/bound.h>
#include <weir/fw/classify.h>
#include <weir/fw/counted.h>
#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/limiter.h>
#include <weir/fw/loop.h>
#include <weir/fw/prefix.h>
#include <weir/fw/queue_word.h>
#include <weir/fw/typed.h>

/* What holds for one packet while rules are asked. */
struct weir_fw_asking {
	__u64 known[2];		/* by end: tables that have been asked */
	__u64 held[2];		/* of them, those that hold it */
	__u32 tag;
	__u8 hooks;		/* bits that a rule's `hooks` must have */
	__u8 slot;		/* of the interface that is judged */
	__u8 fragment;		/* nothing is known of its header */
	__u8 icmp_reply;	/* answers a query: OpenBSD's rules with state do not take it */
};

/* Whether an end of the packet is in a table of the ruleset: 0 the source, 1 the destination. */
__noinline int weir_fw_table_holds(const struct weir_fw_packet *p, struct weir_fw_asking *asking,
				   __u32 index, __u32 end)
{
	struct weir_fw_image __weir_arena *image;
	__u64 bit = index < 64 ? 1ull << index : 0;
	__u32 set_at;
	int holds;

	if (!p || !asking)
		return 0;
	image = weir_fw_image_of(p);
	end &= 1;
	if (asking->known[end] & bit)
		return (asking->held[end] & bit) != 0;
	if (index >= image->table_count)
		return 0;
	set_at = *weir_at(__u32, p->ruleset + image->tables_at + index * 4);
	holds = weir_fw_set_found(p, set_at, end) != 0;
	asking->known[end] |= bit;
	if (holds)
		asking->held[end] |= bit;
	return holds;
}

/* Whether an end of the packet is in a place of a kind with operands of IPv6. */
__noinline int weir_fw_place6_holds(const struct weir_fw_packet *p, __u32 at, __u32 is_range,
				    __u32 end)
{
	__be32 a[4];

	if (!p)
		return 0;
	a[0] = end ? p->dst[0] : p->src[0];
	a[1] = end ? p->dst[1] : p->src[1];
	a[2] = end ? p->dst[2] : p->src[2];
	a[3] = end ? p->dst[3] : p->src[3];
	if (is_range) {
		__u64 __weir_arena *range = weir_at(__u64, at);
		__u64 upper = (__u64)bpf_ntohl(a[0]) << 32 | bpf_ntohl(a[1]);
		__u64 lower = (__u64)bpf_ntohl(a[2]) << 32 | bpf_ntohl(a[3]);

		if (upper < range[0] || (upper == range[0] && lower < range[1]))
			return 0;
		return upper < range[2] || (upper == range[2] && lower <= range[3]);
	} else {
		__be32 __weir_arena *net = weir_at(__be32, at);

		return !(((a[0] & net[4]) ^ net[0]) | ((a[1] & net[5]) ^ net[1]) |
			 ((a[2] & net[6]) ^ net[2]) | ((a[3] & net[7]) ^ net[3]));
	}
}

static __always_inline int weir_fw_place_holds(const struct weir_fw_packet *p,
					       struct weir_fw_asking *asking, __u32 kind,
					       __u32 first, __u32 second, __u32 end)
{
	__be32 address = end ? p->dst[0] : p->src[0];
	bool is_v4 = p->family == WEIR_FW_INET;
	__u32 flag;

	switch (kind) {
	case WEIR_FW_PLACE_ANY:
		return 1;
	case WEIR_FW_PLACE_NET4:
		return is_v4 && (address & second) == first;
	case WEIR_FW_PLACE_RANGE4:
		address = bpf_ntohl(address);
		return is_v4 && first <= address && address <= second;
	case WEIR_FW_PLACE_NET6:
	case WEIR_FW_PLACE_RANGE6:
		return !is_v4 && weir_fw_place6_holds(p, p->ruleset + first,
						      kind == WEIR_FW_PLACE_RANGE6, end);
	case WEIR_FW_PLACE_TABLE:
		return weir_fw_table_holds(p, asking, first, end);
	case WEIR_FW_PLACE_NO_ROUTE:
	case WEIR_FW_PLACE_URPF_FAILED:
		/* It says something of sources alone: every destination is one. */
		if (kind == WEIR_FW_PLACE_URPF_FAILED && end)
			return 1;
		/* Link-local addresses count as routed (`pf_routable` of pf.c). */
		if (!is_v4 && (address & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000))
			return 0;
		/*
		 * What the kernel does not route for being the box is routed all the same: it
		 * stands in the operand's table of the networks that the box is in, or, of
		 * `urpf-failed`, in the table of the interface's slot, of which the operand is the
		 * first. In pf the route of such an address is that interface's (`nh_aifp`,
		 * `rt_ifidx`).
		 */
		if (kind == WEIR_FW_PLACE_URPF_FAILED)
			first += asking->slot & 63;
		flag = kind == WEIR_FW_PLACE_URPF_FAILED ? WEIR_PACKET_URPF_FAILED :
		       end				 ? WEIR_PACKET_NO_ROUTE_TO :
							   WEIR_PACKET_NO_ROUTE_BACK;
		return p->flags & flag && !weir_fw_table_holds(p, asking, first, end);
	default:
		return 0;
	}
}

static __always_inline bool weir_fw_ports_hold(const struct weir_fw_packet *p, __u32 flags,
					       struct weir_fw_criteria __weir_arena *c)
{
	__u16 port;

	if (flags & WEIR_FW_ASKS_FROM_PORT) {
		port = bpf_ntohs(p->src_port);
		if ((port >= c->from_port[0] && port <= c->from_port[1]) ==
		    !!(flags & WEIR_FW_ASKS_FROM_PORT_NOT))
			return false;
	}
	if (flags & WEIR_FW_ASKS_TO_PORT) {
		port = bpf_ntohs(p->dst_port);
		if ((port >= c->to_port[0] && port <= c->to_port[1]) ==
		    !!(flags & WEIR_FW_ASKS_TO_PORT_NOT))
			return false;
	}
	return true;
}

/* Criteria of the protocol's header; fragments have none. */
static __always_inline bool weir_fw_header_holds(const struct weir_fw_packet *p,
						 struct weir_fw_asking *asking, __u32 flags,
						 struct weir_fw_criteria __weir_arena *c)
{
	if (asking->fragment)
		return !(flags & WEIR_FW_ASKS_HEADER) &&
		       !(p->protocol == WEIR_PROTOCOL_TCP && c->tcp_set);
	switch (p->protocol) {
	case WEIR_PROTOCOL_TCP:
		return (p->tcp_flags & c->tcp_mask) == c->tcp_set &&
		       weir_fw_ports_hold(p, flags, c);
	case WEIR_PROTOCOL_UDP:
		return weir_fw_ports_hold(p, flags, c);
	case WEIR_PROTOCOL_SCTP:
		return !(flags & WEIR_FW_ASKS_SCTP_PORTS) || weir_fw_ports_hold(p, flags, c);
	case WEIR_PROTOCOL_ICMP:
	case WEIR_PROTOCOL_ICMPV6:
		if (flags & WEIR_FW_ASKS_ICMP_TYPE && p->icmp_type != c->icmp_type)
			return false;
		if (flags & WEIR_FW_ASKS_ICMP_CODE && p->icmp_code != c->icmp_code)
			return false;
		return !(flags & WEIR_FW_ASKS_NO_REPLY && asking->icmp_reply);
	default:
		return true;
	}
}

/* pf_match_uid() of pf.c. */
static __always_inline bool weir_fw_id_holds(__u32 id, __u32 first, __u32 last, __u32 how)
{
	if (!(how & WEIR_FW_OWNER_ASKED))
		return true;
	if (id == WEIR_FW_OWNER_UNKNOWN && !(how & WEIR_FW_OWNER_EQUALITY))
		return false;
	return (first <= id && id <= last) != !!(how & WEIR_FW_OWNER_NOT);
}

/* Whether a packet is one of those that have a socket. */
static __always_inline bool weir_fw_has_socket(const struct weir_fw_packet *p)
{
	return p->protocol == WEIR_PROTOCOL_TCP || p->protocol == WEIR_PROTOCOL_UDP;
}

/* Whether the system that sent a packet is in a set (`pf_osfp_match` of pf_osfp.c). */
static __always_inline bool weir_fw_system_holds(const struct weir_fw_packet *p, __u32 set_at)
{
	__u64 __weir_arena *set = weir_at(__u64, p->ruleset + set_at);

	return set[p->system / 64] >> (p->system & 63) & 1;
}

/*
 * Whether a rule is about the owner of the packet's socket, and about the system that sent it.
 * FreeBSD asks for owners of SCTP, too.
 */
static __always_inline bool weir_fw_owner_holds(const struct weir_fw_packet *p, __u32 number)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	struct weir_fw_owner __weir_arena *owner;

	if (!weir_fw_has_socket(p) && (p->protocol != WEIR_PROTOCOL_SCTP ||
			    image->flags & WEIR_FW_IMAGE_OPENBSD))
		return true;
	owner = weir_at(struct weir_fw_owner,
			p->ruleset + image->owners_at + (number - 1) * (__u32)sizeof(*owner));
	if (p->protocol == WEIR_PROTOCOL_TCP && owner->systems_at &&
	    !weir_fw_system_holds(p, owner->systems_at))
		return false;
	return weir_fw_id_holds(p->user, owner->user[0], owner->user[1], owner->user_how) &&
	       weir_fw_id_holds(p->group, owner->group[0], owner->group[1], owner->group_how);
}

/* What few rules ask for; chance is the last. */
static __always_inline bool weir_fw_rest_holds(const struct weir_fw_packet *p,
					       struct weir_fw_asking *asking, __u32 flags,
					       struct weir_fw_criteria __weir_arena *c)
{
	__u32 slot = p->interface & 63;

	if (!(c->received >> slot & 1))
		return false;
	if (flags >> WEIR_FW_ASKS_OWNER_SHIFT && !asking->fragment &&
	    !weir_fw_owner_holds(p, flags >> WEIR_FW_ASKS_OWNER_SHIFT))
		return false;
	if (flags & WEIR_FW_ASKS_FRAGMENT && !asking->fragment)
		return false;
	if (flags & WEIR_FW_ASKS_TOS && (p->tos & 0xfc) != c->tos)
		return false;
	if (flags & WEIR_FW_ASKS_TAG &&
	    (asking->tag == c->tagged) == !!(flags & WEIR_FW_ASKS_TAG_NOT))
		return false;
	if (flags & WEIR_FW_ASKS_PRIO) {
		bool openbsd = weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OPENBSD;

		/* Without a tag of 802.1Q: OpenBSD's default 3, and in FreeBSD none. */
		if (!p->vlan_bytes && (!openbsd || c->prio != 3))
			return false;
		if (p->vlan_bytes && c->prio != p->priority)
			return false;
	}
	return !(flags & WEIR_FW_ASKS_CHANCE) || bpf_get_prandom_u32() < c->probability;
}

/* Whether a rule, whose criteria are at an offset from the arena's start, takes the packet. */
__noinline int weir_fw_rule_holds(const struct weir_fw_packet *p, struct weir_fw_asking *asking,
				  __u32 at)
{
	struct weir_fw_criteria __weir_arena *c = weir_at(struct weir_fw_criteria, at);
	__u32 flags;

	if (!p || !asking)
		return 0;
	if ((c->hooks & asking->hooks) != asking->hooks)
		return 0;
	if (!(c->interfaces >> (asking->slot & 63) & 1))
		return 0;
	if (c->protocol && c->protocol != p->protocol)
		return 0;
	flags = c->flags;
	if (weir_fw_place_holds(p, asking, c->from_kind, c->from[0], c->from[1], 0) ==
	    !!(flags & WEIR_FW_ASKS_FROM_NOT))
		return 0;
	if (weir_fw_place_holds(p, asking, c->to_kind, c->to[0], c->to[1], 1) ==
	    !!(flags & WEIR_FW_ASKS_TO_NOT))
		return 0;
	return weir_fw_header_holds(p, asking, flags, c) &&
	       weir_fw_rest_holds(p, asking, flags, c);
}

/* Whether an ICMP message answers a query (`pf_icmp_mapping` of pf.c). Neighbour advertisements do
 * too, but OpenBSD's rules with state take them. */
static __always_inline bool weir_fw_icmp_is_reply(const struct weir_fw_packet *p)
{
	if (p->protocol == WEIR_PROTOCOL_ICMPV6)
		return p->icmp_type == 129 || p->icmp_type == 200;
	/* 0, 9, 14, 16, 18, 34, 36 */
	return p->protocol == WEIR_PROTOCOL_ICMP && p->icmp_type < 64 &&
	       0x1400054201ull >> p->icmp_type & 1;
}

/* Whether it reports an error (the same). */
static __always_inline bool weir_fw_icmp_is_error(const struct weir_fw_packet *p)
{
	if (p->protocol == WEIR_PROTOCOL_ICMPV6)
		return p->icmp_type >= 1 && p->icmp_type <= 4;
	/* 3, 4, 5, 11, 12 */
	return p->protocol == WEIR_PROTOCOL_ICMP && p->icmp_type < 64 &&
	       0x1838ull >> p->icmp_type & 1;
}

/* ICMP that OpenBSD answers by ICMP: ICMP_INFOTYPE of ip_icmp.h, and of ICMPv6 all from echo
 * request on but redirects. */
static __always_inline bool weir_fw_icmp_is_info(const struct weir_fw_packet *p)
{
	if (p->protocol == WEIR_PROTOCOL_ICMPV6)
		return p->icmp_type >= 128 && p->icmp_type != 137;
	return p->icmp_type < 64 && 0x7e701ull >> p->icmp_type & 1;
}

/* What a rule that matches changes (`pf_rule_to_actions` of pf.c). */
static __always_inline void weir_fw_rule_acts(struct weir_fw_rule __weir_arena *rule,
					      struct weir_fw_decision *d, bool openbsd)
{
	__u32 does = rule->decision;

	if (rule->routing_table)
		d->routing_table = rule->routing_table - 1;
	/* OpenBSD asks the last matching rule alone. */
	if (openbsd)
		d->flags &= ~WEIR_DECISION_ALLOW_OPTIONS;
	d->flags |= does & (WEIR_DECISION_ALLOW_OPTIONS | WEIR_DECISION_LOG_ALL);
}

/* What the rule of a number, also one of a list, changes in packets: enum weir_fw_scrub. */
static __always_inline __u64 weir_fw_scrub_of(const struct weir_fw_packet *p, __u32 number)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);

	if (!(image->flags & WEIR_FW_IMAGE_SCRUBS))
		return 0;
	return *weir_at(__u64, p->ruleset + image->scrubs_at + number * (__u32)sizeof(__u64));
}

/*
 * The same of a rule that matches: what it has takes the place of what those before it had. A
 * function of its own, so that the verifier need not go on from each of its ways.
 */
__noinline int weir_fw_rule_scrubs(const struct weir_fw_packet *p __arg_nonnull,
				   struct weir_fw_decision *d __arg_nonnull, __u32 number)
{
	const __u64 mss = 0xffffull << WEIR_FW_SCRUB_MSS_SHIFT;
	const __u64 ttl = 0xffull << WEIR_FW_SCRUB_TTL_SHIFT;
	const __u64 tos = 0xffull << WEIR_FW_SCRUB_TOS_SHIFT;
	__u64 word = weir_fw_scrub_of(p, number);

	if (word & mss)
		d->scrub &= ~mss;
	if (word & ttl)
		d->scrub &= ~ttl;
	if (word >> WEIR_FW_SCRUB_SETS_TOS_SHIFT & 1)
		d->scrub &= ~tos;
	if (word & WEIR_SCRUB_PRIOS)
		d->scrub &= ~WEIR_SCRUB_PRIOS;
	word = (word & ~WEIR_SCRUB_QUEUES) | weir_queues_join(d->scrub, word);
	d->scrub = (d->scrub & ~WEIR_SCRUB_QUEUES) | word;
	return 0;
}

static __always_inline void weir_fw_rule_logs(struct weir_fw_rule __weir_arena *rule,
					      struct weir_fw_decision *d)
{
	d->flags |= WEIR_DECISION_LOG;
	d->log_rule = rule->id;
}

/* Offset of a rule's counters on the packet's CPU. */
static __always_inline __u32 weir_fw_counters_at(const struct weir_fw_packet *p,
						 struct weir_fw_rule __weir_arena *rule)
{
	return rule->counters_at + p->cpu * (__u32)sizeof(struct weir_fw_rule_counters);
}

/* The answer to a blocked packet (`pf_return` of pf.c). */
static __always_inline void weir_fw_answer(const struct weir_fw_packet *p,
					   struct weir_fw_rule __weir_arena *rule,
					   struct weir_fw_decision *d, bool openbsd, bool fragment)
{
	bool is_icmp = weir_is_icmp(p->protocol);
	bool is_tcp = p->protocol == WEIR_PROTOCOL_TCP;
	__u32 answers = rule->answers;

	if (fragment)
		return;
	if (is_tcp && answers & WEIR_FW_ANSWERS_RST && !(p->tcp_flags & WEIR_TCP_RST)) {
		d->flags |= WEIR_DECISION_RETURN_RST;
		d->rst_ttl = rule->rst_ttl;
		return;
	}
	if (!(answers & WEIR_FW_ANSWERS_ICMP))
		return;
	/* FreeBSD answers SCTP by an ABORT, which is not made here. */
	if (!openbsd && p->protocol == WEIR_PROTOCOL_SCTP && answers & WEIR_FW_ANSWERS_RST)
		return;
	if (is_icmp && (!openbsd || !weir_fw_icmp_is_info(p)))
		return;
	d->flags |= WEIR_DECISION_RETURN_ICMP;
	d->icmp_type = p->family == WEIR_FW_INET ? 3 : 1;
	d->icmp_code = rule->icmp_code[p->family & 1];
}

/* Where the evaluation stands. */
struct weir_fw_walk {
	struct weir_fw_asking asking;
	struct weir_fw_candidates candidates;
	__u32 winner;		/* the last that passes or blocks: its number + 1; 0: none */
	__u32 logs_matches;	/* a rule with `log (matches)` has matched */
	__u32 next;		/* candidates before this number are in anchors not entered */
	__u32 translator;	/* number + 1 of a `match` at which the walk has stopped */
	__u32 list_tag;		/* the tag that a rule of FreeBSD's lists has given; 0: none */
	__u32 refused;		/* a limiter has no room: the reason of the drop + 1; 0: none */
	struct weir_limiter_asked limited;
};

#define WEIR_FW_WALK_ENDS 0xffffffffu

/* Where the translation of the rule of a number stands in an image; 0: it has none. */
static __always_inline __u32 weir_fw_translation_of(__u32 ruleset, __u32 number)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);
	__u32 at;

	if (!(image->flags & WEIR_FW_IMAGE_TRANSLATES))
		return 0;
	at = *weir_at(__u32, ruleset + image->translations_at + number * (__u32)sizeof(__u32));
	return at ? ruleset + at : 0;
}

/* The tag that the entry of a rule's typed table has, by an end of the packet. */
static __always_inline __u32 weir_fw_rule_tag(const struct weir_fw_packet *p,
					      struct weir_fw_criteria __weir_arena *c, __u32 end)
{
	return weir_fw_typed_value(p, end ? c->to[0] : c->from[0], end) &
	       ((1u << WEIR_FW_TYPED_GATEWAY_SHIFT) - 1);
}

/*
 * Whether a rule whose criteria hold does not match for what its limiters, or it itself, have had.
 * One of a limiter that blocks ends the walk.
 */
static __always_inline bool weir_fw_rule_is_off(const struct weir_fw_packet *p,
						struct weir_fw_walk *walk, __u32 rule_at)
{
	struct weir_fw_rule __weir_arena *rule = weir_at(struct weir_fw_rule, rule_at);
	int refused = 0;

	if (rule->decision & WEIR_DECISION_LIMITED)
		refused = weir_limiter_refuses(p, &walk->limited, rule->id);
	if (refused > WEIR_LIMITER_NO_MATCH)
		walk->refused = refused - 1;
	if (refused)
		return true;
	return rule->decision & (WEIR_DECISION_ONCE | WEIR_DECISION_RATED) &&
	       weir_rule_has_ended(p, rule_at);
}

/*
 * Asks the rule of a number, and does what follows from it. Returns the number of the next rule,
 * or WEIR_FW_WALK_ENDS.
 */
__noinline __u32 weir_fw_rule_step(const struct weir_fw_packet *p, struct weir_fw_walk *walk,
				   struct weir_fw_decision *d, __u32 number)
{
	struct weir_fw_criteria __weir_arena *criteria;
	struct weir_fw_image __weir_arena *image;
	struct weir_fw_rule __weir_arena *rule;
	__u32 kind, at, tag;

	if (!p || !walk || !d)
		return WEIR_FW_WALK_ENDS;
	image = weir_fw_image_of(p);
	at = p->ruleset + image->criteria_at + number * (__u32)sizeof(*criteria);
	criteria = weir_at(struct weir_fw_criteria, at);
	if (!weir_fw_rule_holds(p, &walk->asking, at))
		return criteria->end ? criteria->end : number + 1;
	at = p->ruleset + image->rules_at + number * (__u32)sizeof(*rule);
	rule = weir_at(struct weir_fw_rule, at);
	kind = rule->kind;
	if (rule->decision &
		    (WEIR_DECISION_ONCE | WEIR_DECISION_RATED | WEIR_DECISION_LIMITED) &&
	    weir_fw_rule_is_off(p, walk, at))
		return walk->refused	 ? WEIR_FW_WALK_ENDS :
		       criteria->end ? criteria->end :
				       number + 1;
	if (kind == WEIR_FW_RULE_ANCHOR_END)
		return walk->winner > rule->number ? WEIR_FW_WALK_ENDS : number + 1;
	tag = rule->tag;
	/* Of a typed table: an entry without a tag changes none. */
	if (tag >= WEIR_FW_TAG_OF_SOURCE)
		tag = weir_fw_rule_tag(p, criteria, tag == WEIR_FW_TAG_OF_DESTINATION);
	if (tag) {
		walk->asking.tag = tag;
		d->kept_tag = tag;
	}
	if (rule->counters_at)
		weir_at(struct weir_fw_rule_counters, weir_fw_counters_at(p, rule))->evaluations++;
	if (kind == WEIR_FW_RULE_ANCHOR)
		return number + 1;
	if (kind == WEIR_FW_RULE_MATCH) {
		weir_fw_rule_acts(rule, d, image->flags & WEIR_FW_IMAGE_OPENBSD);
		weir_fw_rule_scrubs(p, d, number);
		if (weir_fw_translation_of(p->ruleset, number))
			walk->translator = number + 1;
		if (rule->log) {
			weir_fw_rule_logs(rule, d);
			walk->logs_matches |= rule->log & WEIR_FW_LOG_MATCHES;
		}
	} else {
		walk->winner = number + 1;
	}
	if (walk->logs_matches)
		weir_fw_rule_logs(rule, d);
	return rule->quick ? WEIR_FW_WALK_ENDS : number + 1;
}

/* What the last matching rule comes to (the second half of `pf_test_rule`). */
static __always_inline void weir_fw_finish(const struct weir_fw_packet *p, __u32 rule_at,
					   bool fragment, struct weir_fw_decision *d)
{
	bool openbsd = weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OPENBSD;
	struct weir_fw_rule __weir_arena *rule = weir_at(struct weir_fw_rule, rule_at);

	weir_fw_rule_acts(rule, d, openbsd);
	d->rule = rule->id;
	d->rule_at = rule_at;
	if (rule->log)
		weir_fw_rule_logs(rule, d);
	if (rule->kind == WEIR_FW_RULE_BLOCK) {
		d->flags |= WEIR_DECISION_BLOCK;
		d->reason = WEIR_FW_REASON_MATCH;
		weir_fw_answer(p, rule, d, openbsd, fragment);
	} else if (!fragment && !weir_fw_icmp_is_error(p)) {
		d->flags |= rule->decision & WEIR_FW_DECISIONS_OF_STATES;
		d->profile = rule->profile;
		d->state_max = rule->state_max;
	}
}

/*
 * Counts a packet for the rule that has decided it, and for the entries of tables that this has
 * found it in. What makes a state is counted there for the rule.
 */
static __always_inline void weir_fw_count_decided(const struct weir_fw_packet *p,
						  const struct weir_fw_decision *d)
{
	struct weir_fw_rule __weir_arena *rule = weir_at(struct weir_fw_rule, d->rule_at);
	struct weir_fw_rule_counters __weir_arena *counters;

	if (!d->rule_at)
		return;
	if (rule->decision & WEIR_DECISION_COUNTED)
		weir_counted_packet(p, rule->id,
				    d->flags & WEIR_DECISION_BLOCK ? WEIR_COUNTED_BLOCKED : 0);
	if (!rule->counters_at || d->flags & WEIR_DECISION_KEEP_STATE)
		return;
	counters = weir_at(struct weir_fw_rule_counters, weir_fw_counters_at(p, rule));
	counters->packets[p->direction & 1]++;
	counters->bytes[p->direction & 1] += p->ip_bytes;
}

/* Asks rule by rule. */
static __always_inline void weir_fw_walk_all(const struct weir_fw_packet *p,
					     struct weir_fw_walk *walk, struct weir_fw_decision *d)
{
	__u32 count = weir_fw_image_of(p)->rule_count;

	while (walk->next < count && !walk->translator && weir_fw_may_loop)
		walk->next = weir_fw_rule_step(p, walk, d, walk->next);
}

/*
 * Asks the candidates among the rules, or all of them, from walk->next on. Returns whether it has
 * stopped at a `match` that translates (walk->translator), with more to ask: of the packet as it is
 * then.
 */
__noinline int weir_fw_walk_rules(const struct weir_fw_packet *p __arg_nonnull,
				  struct weir_fw_walk *walk __arg_nonnull,
				  struct weir_fw_decision *d __arg_nonnull)
{
	struct weir_fw_candidates *candidates = &walk->candidates;

	walk->translator = 0;
	if (walk->next == WEIR_FW_WALK_ENDS)
		return 0;
	if (!(weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_CLASSES)) {
		weir_fw_walk_all(p, walk, d);
		return walk->translator != 0;
	}
	weir_fw_classify(p, walk->asking.slot, walk->asking.fragment, candidates);
	for (__u32 chunk = 0; chunk < candidates->words_at / 8 && weir_fw_may_loop; chunk++) {
		__u64 summary = weir_fw_summary(candidates, chunk);

		while (summary && weir_fw_may_loop) {
			__u32 bit = weir_fw_lowest(summary);
			__u64 word = weir_fw_word(candidates, p->ruleset, chunk, bit);
			__u32 first = (chunk * WEIR_FW_CHUNK_WORDS + bit) * 64;

			summary &= summary - 1;
			while (word && weir_fw_may_loop) {
				__u32 number = first + weir_fw_lowest(word);

				word &= word - 1;
				if (number < walk->next)
					continue;
				walk->next = weir_fw_rule_step(p, walk, d, number);
				if (walk->translator)
					return 1;
				if (walk->next == WEIR_FW_WALK_ENDS)
					return 0;
			}
		}
	}
	return 0;
}

/* What rules ask of a packet at the hook of its direction; `tag` is the one that it has. */
static __always_inline void weir_fw_asking_begin(const struct weir_fw_packet *p,
						 struct weir_fw_asking *asking, __u32 tag)
{
	__builtin_memset(asking, 0, sizeof(*asking));
	asking->slot = p->direction == WEIR_FW_IN ? p->interface : p->out_interface;
	asking->tag = tag;
	asking->hooks = 1 << (p->direction & 1) |
			1 << (WEIR_FW_HOOKS_FAMILY_SHIFT + (p->family & 1));
	/* A first fragment has a header, and is judged as the whole packet. */
	asking->fragment = !!(p->flags & WEIR_PACKET_LATER_FRAGMENT);
	asking->icmp_reply = weir_fw_icmp_is_reply(p);
}

/* What a rule of a list, which takes the packet, does but translate: a tag, and it is counted. */
static __always_inline struct weir_fw_rule __weir_arena *
weir_fw_list_rule(const struct weir_fw_packet *p, struct weir_fw_walk *walk, __u32 number)
{
	__u32 at = p->ruleset + weir_fw_image_of(p)->rules_at +
		   number * (__u32)sizeof(struct weir_fw_rule);
	struct weir_fw_rule __weir_arena *rule = weir_at(struct weir_fw_rule, at);

	if (rule->tag) {
		walk->asking.tag = rule->tag;
		walk->list_tag = rule->tag;
	}
	if (rule->counters_at)
		weir_at(struct weir_fw_rule_counters, weir_fw_counters_at(p, rule))->evaluations++;
	return rule;
}

/*
 * The first rule of a list, from one number to another, that takes a packet: its number + 1. Rules
 * of anchors stand behind the call, which leads behind them if it does not take the packet.
 */
__noinline __u32 weir_fw_first_of(const struct weir_fw_packet *p __arg_nonnull,
				  struct weir_fw_walk *walk __arg_nonnull, __u32 first, __u32 end)
{
	__u32 criteria_at = p->ruleset + weir_fw_image_of(p)->criteria_at, at, after;
	__u32 number = first;

	while (number < end && weir_fw_may_loop) {
		at = criteria_at + number * (__u32)sizeof(struct weir_fw_criteria);
		after = weir_at(struct weir_fw_criteria, at)->end;
		if (!weir_fw_rule_holds(p, &walk->asking, at)) {
			number = after ? after : number + 1;
			continue;
		}
		if (!after)
			return number + 1;
		weir_fw_list_rule(p, walk, number);
		number++;
	}
	return 0;
}

/* Prepares the walk. Returns whether some rule can match. */
__noinline int weir_fw_begin(const struct weir_fw_packet *p __arg_nonnull,
			     struct weir_fw_walk *walk __arg_nonnull,
			     struct weir_fw_decision *d __arg_nonnull)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);

	__builtin_memset(walk, 0, sizeof(*walk));
	d->rule = WEIR_FW_RULE_NONE;
	d->log_rule = WEIR_FW_RULE_NONE;
	if (!p->ruleset)
		return false;
	weir_fw_asking_begin(p, &walk->asking, d->tag);
	if (image->flags & WEIR_FW_IMAGE_LIMITERS) {
		weir_copy_address(walk->limited.source, p->src);
		walk->limited.record = d->record;
	}
	return image->judged[p->direction & 1] >> (walk->asking.slot & 63) & 1;
}

/* A limiter that blocks has no room: the packet counts for the rule that had won by then. */
static __always_inline void weir_fw_refuse_limited(const struct weir_fw_packet *p,
						   const struct weir_fw_walk *walk,
						   struct weir_fw_decision *d)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);

	if (walk->winner) {
		d->rule_at = p->ruleset + image->rules_at +
			     (walk->winner - 1) * (__u32)sizeof(struct weir_fw_rule);
		d->rule = weir_at(struct weir_fw_rule, d->rule_at)->id;
	}
	d->flags |= WEIR_DECISION_BLOCK | WEIR_DECISION_BLOCK_LIMIT;
	d->reason = walk->refused - 1;
}

/* What the walk comes to. */
__noinline int weir_fw_end(const struct weir_fw_packet *p __arg_nonnull,
			   const struct weir_fw_walk *walk __arg_nonnull,
			   struct weir_fw_decision *d __arg_nonnull)
{
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);

	d->tag = walk->asking.tag;
	if (walk->refused) {
		weir_fw_refuse_limited(p, walk, d);
	} else if (walk->winner) {
		weir_fw_rule_scrubs(p, d, walk->winner - 1);
		weir_fw_finish(p, p->ruleset + image->rules_at +
				       (walk->winner - 1) * (__u32)sizeof(struct weir_fw_rule),
			       walk->asking.fragment, d);
	} else if (image->flags & WEIR_FW_IMAGE_OPENBSD) {
		d->flags &= ~WEIR_DECISION_ALLOW_OPTIONS;
	}
	return 0;
}

/* A packet with IP options that no rule allows, which is not blocked so far. */
static __always_inline void weir_fw_refuse_options(const struct weir_fw_packet *p,
						   struct weir_fw_decision *d)
{
	if (p->ruleset && !(d->flags & WEIR_DECISION_BLOCK) && p->flags & WEIR_PACKET_OPTIONS &&
	    !(d->flags & WEIR_DECISION_ALLOW_OPTIONS)) {
		d->flags &= ~WEIR_DECISION_KEEP_STATE;
		d->flags |= WEIR_DECISION_BLOCK | WEIR_DECISION_BLOCK_LIMIT;
		d->reason = WEIR_FW_REASON_IP_OPTION;
	}
}

/*
 * Judges a packet on the interface of its direction: `interface` of one that comes in,
 * `out_interface` of one that leaves. `d` is all zero but for `tag`, the packet's own so far, and
 * `walk` is room. In three functions that do not call each other: what rules need of the stack
 * begins where that of the caller ends.
 */
static __always_inline void weir_fw_evaluate(const struct weir_fw_packet *p,
					     struct weir_fw_walk *walk, struct weir_fw_decision *d)
{
	if (weir_fw_begin(p, walk, d)) {
		/* Who translates (translate.h) does not call this. */
		while (weir_fw_walk_rules(p, walk, d) && weir_fw_may_loop)
			;
		weir_fw_end(p, walk, d);
		weir_fw_count_decided(p, d);
	}
	weir_fw_refuse_options(p, d);
}

#endif /* WEIR_FW_RULES_H */

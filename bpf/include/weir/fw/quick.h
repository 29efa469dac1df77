/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The quick way through the box, for what most packets are: IPv4 without tags, options or
 * fragments, for the box's own MAC address, with time to live; and then either of a flow of UDP or
 * of established TCP whose state covers both interfaces and knows a fresh next hop, or where
 * nothing is filtered; there the next hops of flows are kept beside (kept.h).
 *
 * It decides nothing that weir_fw_ingress would decide otherwise: whatever else it meets it leaves
 * as it was, before it has counted or changed anything, to the longer way. What it saves is the
 * descriptor: a packet's few fields stay in registers.
 */
#ifndef WEIR_FW_QUICK_H
#define WEIR_FW_QUICK_H

#include <weir/fw/clock.h>
#include <weir/fw/fib.h>
#include <weir/fw/forward.h>
#include <weir/fw/image.h>
#include <weir/fw/kept.h>
#include <weir/fw/lookup.h>
#include <weir/fw/parse.h>
#include <weir/fw/partial.h>
#include <weir/fw/scrub.h>

/* "The longer way": none of enum xdp_action that is returned here. */
#define WEIR_QUICK_NOT 0
/* "The quick way of translated flows" (translated.h): nor is this. */
#define WEIR_QUICK_TRANSLATED (-1)

/* A record that covers both interfaces, and asks for nothing on a hit. */
#define WEIR_QUICK_CONTROL_MASK                                                                 \
	(WEIR_STATE_HALF_A | WEIR_STATE_HALF_B | WEIR_STATE_IF_BOUND_A | WEIR_STATE_IF_BOUND_B | \
	 WEIR_STATE_WATCHED | WEIR_STATE_TRANSLATED)
#define WEIR_QUICK_CONTROL (WEIR_STATE_HALF_A | WEIR_STATE_HALF_B)

/* What is known of the packet, in registers as far as the compiler can. */
struct weir_quick {
	struct weir_ipv4 *ip;
	void *data;
	void *data_end;
	__u32 ip_bytes;
	__u32 cpu;
	__u8 slot;
	__u32 ruleset;
};

/*
 * Tracks a segment without SYN, FIN or RST of a record whose both ends are established, and stay
 * so. Of its descriptor only that is filled in which tracking reads.
 */
static __always_inline int weir_quick_tcp(struct xdp_md *ctx, __u32 slot, __u32 reverse, __u32 tick)
{
	void *data = weir_xdp_data(ctx), *data_end = weir_xdp_data_end(ctx);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_ipv4 *ip = data + sizeof(struct weir_eth);
	struct weir_fw_packet *p;

	if (!scratch)
		return WEIR_DROP(INTERNAL);
	p = &scratch->quick;
	p->tick = tick;
	if ((void *)(ip + 1) > data_end ||
	    weir_fw_parse_tcp(p, ip + 1, data_end,
			      bpf_ntohs(ip->total_bytes) - sizeof(*ip)) != WEIR_PARSE_DONE)
		return WEIR_DROP(SHORT);
	return weir_tcp_track(p, slot, reverse);
}

/* Whether it is a packet for the quick way by its form; fills what is known of it. */
static __always_inline bool weir_quick_read(struct weir_quick *q)
{
	struct weir_eth *eth = q->data;
	struct weir_ipv4 *ip = (void *)(eth + 1);

	/* Both messages begin with ports, and UDP's header is the shorter one. */
	if ((void *)(ip + 1) + sizeof(struct weir_udp) > q->data_end ||
	    eth->type != bpf_htons(WEIR_ETH_TYPE_IPV4) ||
	    ip->version_words != WEIR_IPV4_NO_OPTIONS ||
	    ip->fragment & bpf_htons(WEIR_IPV4_FRAGMENT_MASK) || ip->ttl <= WEIR_FW_TTL_LAST)
		return false;
	q->ip = ip;
	q->ip_bytes = bpf_ntohs(ip->total_bytes);
	return sizeof(*eth) + q->ip_bytes <= (__u64)(q->data_end - q->data);
}

/* Whether it is right, for the box, and came by an interface that filters. */
static __always_inline bool weir_quick_is_ours(struct xdp_md *ctx, struct weir_quick *q)
{
	if (!weir_fw_ipv4_checksum_fits(q->ip))
		return false;
	q->slot = weir_fw_ifslot(ctx->ingress_ifindex);
	return weir_fw_is_address(weir_fw_interface(q->slot), q->data) &&
	       !weir_fw_skips(q->ruleset, q->slot);
}

/* Whether the message is one that sanity checks have nothing against. */
static __always_inline bool weir_quick_is_sane(const struct weir_quick *q)
{
	const struct weir_udp *udp = (void *)(q->ip + 1);
	const struct weir_tcp *tcp = (void *)(q->ip + 1);
	const __u8 hand_flags = WEIR_TCP_SYN | WEIR_TCP_FIN | WEIR_TCP_RST | WEIR_TCP_ACK;
	__u32 message_bytes = q->ip_bytes - sizeof(*q->ip), bytes;

	if (q->ip_bytes < sizeof(*q->ip) + sizeof(*udp))
		return false;
	if (q->ip->protocol == WEIR_PROTOCOL_UDP) {
		bytes = bpf_ntohs(udp->bytes);
		return udp->dst && bytes >= sizeof(*udp) && bytes <= message_bytes;
	}
	if (q->ip->protocol != WEIR_PROTOCOL_TCP || message_bytes < sizeof(*tcp) ||
	    (void *)(tcp + 1) > q->data_end)
		return false;
	bytes = (tcp->offset >> 4) * 4;
	return (tcp->flags & hand_flags) == WEIR_TCP_ACK && bytes >= sizeof(*tcp) &&
	       bytes <= message_bytes;
}

/* Whether the checksum of a sane message may be missing still: the longer way looks closer. */
static __always_inline bool weir_quick_is_partial(const struct weir_quick *q)
{
	const struct weir_udp *udp = (void *)(q->ip + 1);
	const struct weir_tcp *tcp = (void *)(q->ip + 1);
	__u64 sum = (__u64)q->ip->src + q->ip->dst;

	if (!(weir_fw_interface(q->slot)->flags & WEIR_FW_INTERFACE_VETH))
		return false;
	sum += bpf_htons(q->ip->protocol) + bpf_htons(q->ip_bytes - sizeof(*q->ip));
	if (q->ip->protocol == WEIR_PROTOCOL_UDP)
		return weir_fw_is_pseudo(sum, udp->checksum);
	return (void *)(tcp + 1) > q->data_end || weir_fw_is_pseudo(sum, tcp->checksum);
}

/* Counters, and the frame as it leaves. */
static __always_inline void weir_quick_write(const struct weir_quick *q,
					     const struct weir_fw_route *route)
{
	struct weir_fw_interface_counters __weir_arena *in, *out;
	__u32 *mac = q->data;
	__u32 sum;

	in = weir_fw_interface_counters(q->cpu, q->slot);
	in->packets[WEIR_FW_IN][WEIR_FW_PASS][WEIR_FW_INET]++;
	in->bytes[WEIR_FW_IN][WEIR_FW_PASS][WEIR_FW_INET] += q->ip_bytes;
	out = weir_fw_interface_counters(q->cpu, route->interface);
	out->packets[WEIR_FW_OUT][WEIR_FW_PASS][WEIR_FW_INET]++;
	out->bytes[WEIR_FW_OUT][WEIR_FW_PASS][WEIR_FW_INET] += q->ip_bytes;
	weir_fw_table_counters(q->cpu)->forwarded_packets++;
	/* As in weir_fw_readdress(). */
	q->ip->ttl--;
	sum = q->ip->checksum + bpf_htons(0x0100);
	q->ip->checksum = sum + (sum >= 0xffff);
	mac[0] = route->mac[0];
	mac[1] = route->mac[1];
	mac[2] = route->mac[2];
}

static __always_inline int weir_quick_send(struct xdp_md *ctx, const struct weir_quick *q,
					   const struct weir_fw_route *route)
{
	weir_quick_write(q, route);
	if (route->ifindex == ctx->ingress_ifindex)
		return weir_fw_send_back(ctx);
	return weir_fw_redirect(ctx, route->ifindex, route->interface);
}

/*
 * Tracks the packet in its record, and counts it in a line, under the lock. Returns the record's
 * control word, not yet written where UDP changes it; 0: the packet is not for the quick way.
 */
static __always_inline __u32 weir_quick_track(struct xdp_md *ctx, const struct weir_quick *q,
					      __u32 slot, __u32 reverse, weir_line *counter)
{
	__u32 tick = weir_fw_tick(weir_fw_control()->clock_offset), control;
	weir_line *s = weir_state_line(slot);

	/* The longer way may take it over. */
	if (weir_is_imported(s))
		return 0;
	if (q->ip->protocol == WEIR_PROTOCOL_TCP) {
		if (s->phase[0] != WEIR_TCPS_ESTABLISHED ||
		    s->phase[1] != WEIR_TCPS_ESTABLISHED ||
		    /* The longer way learns where it is, and counts connections. */
		    !s->seq[!(reverse & 1)].lo || !(s->wscale[0] & WEIR_WSCALE_CONNECTED) ||
		    weir_quick_tcp(ctx, slot, reverse, tick) != WEIR_TCP_FITS)
			return 0;
		control = s->control;
	} else {
		control = weir_bucket_track_other(s, slot, reverse, tick);
	}
	weir_bucket_count_in(counter, slot, reverse, q->ip_bytes);
	weir_fw_table_counters(q->cpu)->searches++;
	return control;
}

/* What a record is found by. */
static __always_inline void weir_quick_key(const struct weir_quick *q, struct weir_fw_packet *key)
{
	const struct weir_udp *ports = (void *)(q->ip + 1);

	key->family = WEIR_FW_INET;
	key->protocol = q->ip->protocol;
	key->src[0] = q->ip->src;
	key->dst[0] = q->ip->dst;
	key->src_port = ports->src;
	key->dst_port = ports->dst;
}

/*
 * weir_bucket_find() from a line of a bucket on, for a packet of IPv4 without a descriptor: `ports`
 * are the packet's (weir_ports()), `what` is its protocol, and WEIR_STATE_ALIAS if an alias is
 * looked for.
 */
__noinline __u64 weir_quick_search(__u32 first, __u32 src, __u32 dst, __u32 ports, __u32 what)
{
	struct weir_fw_packet key = {
		.src = { src },
		.dst = { dst },
		.src_port = (__be16)ports,
		.dst_port = (__be16)(ports >> 16),
		.protocol = (__u8)what,
	};
	__u32 slot = first, match, i;

	for (i = weir_fw_bound(WEIR_STATE_CHAIN_MAX); i && weir_fw_may_loop; i--) {
		weir_line *s = weir_state_line(slot);
		__u32 control = weir_match_control(s->control, what & WEIR_STATE_ALIAS);

		match = weir_state_match4(s, control, &key);
		if (match)
			return slot | (match == WEIR_MATCH_REVERSE ? WEIR_FOUND_REVERSE : 0);
		slot = s->next;
		if (!slot)
			break;
	}
	return WEIR_FOUND_NONE;
}

/* A packet that was tracked, and that the kernel forwards. */
static __always_inline int weir_quick_pass(const struct weir_quick *q)
{
	struct weir_fw_interface_counters __weir_arena *in =
		weir_fw_interface_counters(q->cpu, q->slot);

	in->packets[WEIR_FW_IN][WEIR_FW_PASS][WEIR_FW_INET]++;
	in->bytes[WEIR_FW_IN][WEIR_FW_PASS][WEIR_FW_INET] += q->ip_bytes;
	weir_fw_table_counters(q->cpu)->passed_packets++;
	return XDP_PASS;
}

/* What IPv4 packets of an interface are changed by in a direction: by lists, but for SYNs. */
static __always_inline __u64 weir_quick_listed(__u32 ruleset, __u32 direction, __u32 slot)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);
	__u32 number = image->scrub_end + direction * WEIR_FW_INTERFACE_COUNT_MAX +
		       (slot & (WEIR_FW_INTERFACE_COUNT_MAX - 1));

	if (!(image->flags & WEIR_FW_IMAGE_SCRUB_ALL))
		return 0;
	return *weir_at(__u64, ruleset + image->scrubs_at + number * (__u32)sizeof(__u64));
}

/*
 * Whether a packet of a record with this control word may be one that is changed. It is asked again
 * once the packet is tracked: the verifier would go through that twice for what it knows from
 * before.
 */
static __always_inline bool weir_quick_is_changed(__u32 ruleset, __u32 control)
{
	return control & WEIR_STATE_SCRUB ||
	       weir_at(struct weir_fw_image, ruleset)->flags & WEIR_FW_IMAGE_SCRUB_ALL;
}

/* The slot by which a packet of a record leaves that knows its next hop, or that has a route. */
static __always_inline __u32 weir_quick_exit(weir_line *s, __u32 reverse,
					     const struct weir_fw_route *route)
{
	if (route)
		return route->interface;
	return weir_fw_next_hop_at(weir_read_once(s->next_hop[reverse & 1]) &
				   (WEIR_FW_NEXT_HOP_COUNT_MAX - 1))
		->interface;
}

/*
 * Finds what a packet of a record, whose bucket is locked, is changed by where it comes in and
 * where it leaves: in the CPU's scratch. False if the longer way has to find that.
 */
__noinline int weir_quick_scrub(__u32 ruleset, __u32 in, __u32 out, __u32 slot, __u32 reverse)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	weir_line *s = weir_state_line(slot);
	__u64 first, last;

	if (!scratch)
		return false;
	first = weir_quick_listed(ruleset, WEIR_FW_IN, in);
	last = weir_quick_listed(ruleset, WEIR_FW_OUT, out);
	if (weir_scrub_has(first | last, WEIR_FW_SCRUB_ASKS_SHIFT))
		return false;
	if (s->control & WEIR_STATE_SCRUB) {
		/* Its segments' numbers are changed, too. */
		if (weir_state_is_modulated(s))
			return false;
		first = weir_scrub_join(
			first, weir_scrub_kept(weir_half_scrub(s, slot, reverse & 1)));
		last = weir_scrub_join(
			last, weir_scrub_kept(weir_half_scrub(s, slot, !(reverse & 1))));
		if ((first | last) & WEIR_SCRUB_TIMESTAMPS)
			return false;
	}
	scratch->scrub[WEIR_FW_IN] = first;
	/* What has been done on the way in need not be done again. */
	last &= ~(first & WEIR_SCRUB_ONCE);
	scratch->scrub[WEIR_FW_OUT] = weir_fw_skips(ruleset, out) ? 0 : last;
	return true;
}

/* Changes the packet as is found there. It is no SYN, nor a fragment. */
__noinline int weir_quick_change(struct xdp_md *ctx, __u32 direction)
{
	void *data = weir_xdp_data(ctx), *data_end = weir_xdp_data_end(ctx);
	struct weir_ipv4 *ip = data + sizeof(struct weir_eth);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u64 word;

	if (!scratch || (void *)(ip + 1) > data_end)
		return 0;
	word = scratch->scrub[direction & 1];
	if (word & WEIR_SCRUB_ALL_PACKETS)
		weir_scrub_ipv4(ip, word);
	return 0;
}

/*
 * Sends a packet that was tracked: in the second stage by the route that is known, which leads out
 * of the device whose program this is, else by a next hop of a generation. What is known of it is
 * found out again: kept across the calls before, it would take too much of the stack.
 */
static __always_inline int weir_quick_leave(struct xdp_md *ctx, const struct weir_fw_route *known,
					    __u32 next_hop, __u16 generation)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .data_end = weir_xdp_data_end(ctx) };
	struct weir_fw_route route;

	q.ip = q.data + sizeof(struct weir_eth);
	if ((void *)(q.ip + 1) > q.data_end)
		return XDP_ABORTED;
	q.ip_bytes = bpf_ntohs(q.ip->total_bytes);
	q.cpu = bpf_get_smp_processor_id();
	q.slot = weir_fw_ifslot(ctx->ingress_ifindex);
	if (known) {
		weir_quick_write(&q, known);
		return XDP_REDIRECT;
	}
	if (weir_fw_next_hop_load(&route, next_hop, generation) &&
	    !weir_fw_next_hop_is_closed(&route, ctx->ingress_ifindex))
		return weir_quick_send(ctx, &q, &route);
	/* The routes have changed meanwhile, and the kernel knows them. */
	return weir_quick_pass(&q);
}

/* The same of a packet that is changed. What the kernel sends is changed there as it leaves. */
static __noinline int weir_quick_leave_changed(struct xdp_md *ctx,
					       const struct weir_fw_route *known, __u32 next_hop,
					       __u16 generation)
{
	int action;

	weir_quick_change(ctx, WEIR_FW_IN);
	action = weir_quick_leave(ctx, known, next_hop, generation);
	if (action != XDP_PASS)
		weir_quick_change(ctx, WEIR_FW_OUT);
	return action;
}

/* The slot of a packet's record in its locked bucket, and WEIR_FOUND_* besides. */
static __always_inline __u64 weir_quick_find(const struct weir_fw_packet *key, weir_line *line,
					     __u32 home)
{
	__u32 match = weir_state_match4(line, line->control, key), next = line->next;

	if (match)
		return home | (match == WEIR_MATCH_REVERSE ? WEIR_FOUND_REVERSE : 0);
	if (!next)
		return WEIR_FOUND_NONE;
	return weir_quick_search(next, key->src[0], key->dst[0],
				 weir_ports(key->src_port, key->dst_port), key->protocol);
}

/* Whether a record covers both interfaces, and asks for nothing. */
static __always_inline bool weir_quick_covers(weir_line *s)
{
	return (s->control & WEIR_QUICK_CONTROL_MASK) == WEIR_QUICK_CONTROL;
}

/* The same, and a packet goes where the routes say. */
static __always_inline bool weir_quick_follows(weir_line *s, __u32 reverse)
{
	return weir_quick_covers(s) && !(s->next_hop[reverse] >> WEIR_STATE_GATEWAY_SHIFT);
}

/* It covers both, and knows where the packet goes. */
static __always_inline bool weir_quick_is_ready(const struct weir_quick *q, weir_line *s,
						__u32 reverse)
{
	__u16 generation = weir_fw_control()->generation;
	__u32 next_hop = weir_read_once(s->next_hop[reverse]);
	struct weir_fw_next_hop __weir_arena *hop;

	hop = weir_fw_next_hop_at(next_hop & (WEIR_FW_NEXT_HOP_COUNT_MAX - 1));
	return weir_quick_covers(s) && s->generation == generation &&
	       (next_hop & WEIR_STATE_NEXT_HOP_MASK) > WEIR_FW_NEXT_HOP_KERNEL &&
	       hop->generation == generation &&
	       q->ip_bytes <= hop->mtu_bytes;
}

/* A packet of a flow that is known; in the second stage with its route, else without. */
static __always_inline int weir_quick_hit(struct xdp_md *ctx, const struct weir_quick *q,
					  const struct weir_fw_packet *key, __u32 home,
					  const struct weir_fw_route *route)
{
	weir_line *line = weir_state_line(home), *s;
	__u32 control = 0, slot, reverse, next_hop;
	__u16 generation;
	bool is_changed;
	__u64 found;

	/* An empty bucket is left as it is: what makes a record looks again. */
	if (!(weir_read_once(line->control) & WEIR_STATE_LIVE) || !weir_state_lock(home, q->cpu))
		return WEIR_QUICK_NOT;
	found = weir_quick_find(key, line, home);
	slot = (__u32)found;
	s = weir_state_line(slot);
	reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
	if (!(found & WEIR_FOUND_NONE) &&
	    (route ? weir_quick_follows(s, reverse) : weir_quick_is_ready(q, s, reverse)) &&
	    (!weir_quick_is_changed(q->ruleset, s->control) ||
	     weir_quick_scrub(q->ruleset, q->slot, weir_quick_exit(s, reverse, route), slot,
			      reverse)))
		control = weir_quick_track(ctx, q, slot, reverse, s);
	if (!control) {
		weir_state_unlock(home, weir_state_line(home)->control);
		return WEIR_QUICK_NOT;
	}
	is_changed = weir_quick_is_changed(q->ruleset, control);
	/* Read again: kept across the call above, they would take too much of the stack. */
	next_hop = weir_read_once(weir_state_line(slot)->next_hop[reverse]);
	generation = weir_read_once(weir_state_line(slot)->generation);
	if (slot != home) {
		weir_state_line(slot)->control = control;
		control = weir_state_line(home)->control;
	}
	weir_state_unlock(home, control);
	if (is_changed)
		return weir_quick_leave_changed(ctx, route, next_hop, generation);
	return weir_quick_leave(ctx, route, next_hop, generation);
}

/* What the kernel is asked of a packet. */
static __always_inline void weir_quick_question(struct bpf_fib_lookup *f, struct xdp_md *ctx,
						const struct weir_ipv4 *ip)
{
	const struct weir_udp *ports = (const void *)(ip + 1);

	__builtin_memset(f, 0, sizeof(*f));
	f->family = WEIR_AF_INET;
	f->l4_protocol = ip->protocol;
	f->sport = ports->src;
	f->dport = ports->dst;
	f->tot_len = bpf_ntohs(ip->total_bytes);
	f->ifindex = ctx->ingress_ifindex;
	f->tos = ip->tos;
	f->ipv4_src = ip->src;
	f->ipv4_dst = ip->dst;
}

/* Asks the kernel for a packet's route, where nothing is filtered; its flow keeps it. */
static __noinline int weir_quick_ask(struct xdp_md *ctx, __u32 ip_bytes, __u32 cpu, __u8 slot,
				     __u32 kept_at)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .ip_bytes = ip_bytes, .cpu = cpu,
				.slot = slot };
	/* Before the kernel is asked: what changes meanwhile is of the next one. */
	__u16 generation = weir_fw_control()->generation;
	struct weir_ipv4 *ip = q.data + sizeof(struct weir_eth);
	const struct weir_udp *ports = (void *)(ip + 1);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_route *route;
	struct bpf_fib_lookup *f;

	if (!scratch || (void *)(ports + 1) > weir_xdp_data_end(ctx))
		return WEIR_QUICK_NOT;
	q.ip = ip;
	if (weir_is_martian4(bpf_ntohl(ip->src), bpf_ntohl(ip->dst)))
		return WEIR_QUICK_NOT;
	/* On the stack there is no room for the question. */
	route = &scratch->route;
	f = &scratch->fib;
	weir_quick_question(f, ctx, ip);
	if (bpf_fib_lookup(ctx, f, sizeof(*f), 0) != BPF_FIB_LKUP_RET_SUCCESS ||
	    weir_fw_fib_found(f, route, ctx->ingress_ifindex) != WEIR_ROUTE_FORWARD)
		return WEIR_QUICK_NOT;
	weir_fw_table_counters(cpu)->fib_lookups++;
	if (weir_kept_has_room(kept_at, generation)) {
		int next_hop = weir_fw_next_hop_index(route, generation);
		struct weir_fw_kept key;

		weir_kept_key(&key, ip, slot);
		if (next_hop > WEIR_FW_NEXT_HOP_KERNEL)
			weir_kept_keep(kept_at, &key, next_hop, generation);
	}
	return weir_quick_send(ctx, &q, route);
}

/* A packet where nothing is filtered: by the route that is kept for its flow, or the kernel's. */
static __noinline int weir_quick_route(struct xdp_md *ctx, __u32 ip_bytes, __u32 cpu, __u8 slot)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .ip_bytes = ip_bytes, .cpu = cpu,
				.slot = slot };
	__u16 generation = weir_fw_control()->generation;
	struct weir_fw_route route;
	struct weir_fw_kept key;
	__u32 kept_at, next_hop;

	q.ip = q.data + sizeof(struct weir_eth);
	if ((void *)(q.ip + 1) + sizeof(struct weir_udp) > weir_xdp_data_end(ctx))
		return WEIR_QUICK_NOT;
	weir_kept_key(&key, q.ip, slot);
	kept_at = weir_kept_at(cpu, &key);
	next_hop = weir_kept_find(kept_at, &key, generation);
	if (next_hop && weir_fw_next_hop_load(&route, next_hop, generation) &&
	    ip_bytes <= route.mtu_bytes &&
	    !weir_fw_next_hop_is_closed(&route, ctx->ingress_ifindex))
		return weir_quick_send(ctx, &q, &route);
	return weir_quick_ask(ctx, ip_bytes, cpu, slot, kept_at);
}

/* The whole of it. A function of its own, so that its stack is not the longer way's as well. */
static __noinline int weir_fw_quick(struct xdp_md *ctx)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .data_end = weir_xdp_data_end(ctx) };
	bool is_enabled = weir_fw_control()->flags & WEIR_FW_CONTROL_ENABLED, is_filtered;
	struct weir_fw_packet key = {};

	q.ruleset = weir_fw_control()->active;
	is_filtered = is_enabled && weir_fw_filters(q.ruleset);
	if (!weir_quick_read(&q))
		return WEIR_QUICK_NOT;
	weir_quick_key(&q, &key);
	/* The line of the bucket is on its way while the rest is checked. */
	if (is_filtered)
		weir_state_touch(&key);
	if (!weir_quick_is_ours(ctx, &q) || !weir_quick_is_sane(&q) || weir_quick_is_partial(&q))
		return WEIR_QUICK_NOT;
	q.cpu = bpf_get_smp_processor_id();
	if (is_filtered && weir_fw_translates())
		return WEIR_QUICK_TRANSLATED;
	if (is_filtered)
		return weir_quick_hit(ctx, &q, &key, weir_state_bucket(key.hash), 0);
	return weir_quick_route(ctx, q.ip_bytes, q.cpu, q.slot);
}

#endif /* WEIR_FW_QUICK_H */

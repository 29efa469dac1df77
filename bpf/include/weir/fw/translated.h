/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The quick way (quick.h) where addresses are translated: the same packets, of flows whose states
 * may have aliases (alias.h), and again nothing that the longer way would decide otherwise.
 */
#ifndef WEIR_FW_TRANSLATED_H
#define WEIR_FW_TRANSLATED_H

#include <weir/fw/alias.h>
#include <weir/fw/quick.h>
#include <weir/fw/rewrite.h>

/*
 * Goes on from a locked bucket without the packet's record to that of the alias that leads there;
 * its bucket is then locked instead. Returns the alias's slot; 0: no bucket is locked.
 */
static __always_inline __u32 weir_quick_enter(struct weir_fw_packet *key, __u32 *home, __u32 cpu)
{
	__u64 found = weir_quick_search(*home, key->src[0], key->dst[0],
					weir_ports(key->src_port, key->dst_port),
					key->protocol | WEIR_STATE_ALIAS);
	weir_alias_line *a = weir_alias_at((__u32)found);
	__u32 half = found & WEIR_FOUND_REVERSE ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A;

	if (found & WEIR_FOUND_NONE ||
	    (a->control & (WEIR_STATE_OTHER_FAMILY | half)) != half) {
		weir_state_unlock(*home, weir_state_line(*home)->control);
		return 0;
	}
	key->dst[0] = a->inside[0];
	key->dst_port = a->inside_port;
	weir_state_unlock(*home, weir_state_line(*home)->control);
	key->hash = weir_fw_hash(key);
	*home = weir_state_lock_bucket(key->hash, cpu);
	return *home == WEIR_STATE_BUCKET_NONE ? 0 : (__u32)found;
}

/* Whether a record is one that the quick way is for, and the packet's. */
static __always_inline bool weir_quick_is_theirs(const struct weir_quick *q, weir_line *s,
						 __u32 reverse, __u32 alias)
{
	const __u32 mask = WEIR_QUICK_CONTROL_MASK & ~WEIR_STATE_TRANSLATED;
	__u16 generation = weir_fw_control()->generation;
	__u32 next_hop = weir_read_once(s->next_hop[reverse & 1]);
	struct weir_fw_next_hop __weir_arena *hop;

	if ((s->control & mask) != WEIR_QUICK_CONTROL)
		return false;
	if (s->control & WEIR_STATE_TRANSLATED ? s->count[reverse & 1] != alias : alias != 0)
		return false;
	hop = weir_fw_next_hop_at(next_hop & (WEIR_FW_NEXT_HOP_COUNT_MAX - 1));
	/* Where nothing is filtered, nothing is translated. */
	if (weir_fw_skips(weir_fw_control()->active, hop->interface))
		return false;
	return s->generation == generation &&
	       (next_hop & WEIR_STATE_NEXT_HOP_MASK) > WEIR_FW_NEXT_HOP_KERNEL &&
	       hop->generation == generation && q->ip_bytes <= hop->mtu_bytes;
}

/* The ends that the packet gets: its destination inside, its source on the other wire. */
static __always_inline void weir_quick_ends(struct weir_fw_packet *key, weir_line *s, __u32 reverse)
{
	__u32 slot = s->control & WEIR_STATE_TRANSLATED ? s->count[!(reverse & 1)] : 0;
	weir_alias_line *a = weir_alias_at(slot);

	if (!slot)
		return;
	key->src[0] = a->addr[reverse & 1];
	key->src_port = a->port[reverse & 1];
}

/* Writes them into the frame. */
static __always_inline bool weir_quick_rewrite(struct xdp_md *ctx, __be32 src, __be32 dst,
					       __u32 ports)
{
	void *data = weir_xdp_data(ctx), *data_end = weir_xdp_data_end(ctx);
	struct weir_ipv4 *ip = data + sizeof(struct weir_eth);
	struct weir_tcp *tcp = (void *)(ip + 1);
	struct weir_udp *udp = (void *)(ip + 1);
	__u32 *both = (void *)(ip + 1);
	__u64 change;

	if ((void *)(udp + 1) > data_end)
		return false;
	change = weir_sum_fold(weir_sum_change(ip->src, src) + weir_sum_change(ip->dst, dst));
	ip->src = src;
	ip->dst = dst;
	ip->checksum = weir_sum_apply(ip->checksum, change);
	change = weir_sum_fold(change + weir_sum_change(*both, ports));
	*both = ports;
	if (ip->protocol == WEIR_PROTOCOL_UDP) {
		if (udp->checksum)
			udp->checksum = weir_checksum_udp((__u16)~udp->checksum + change);
		return true;
	}
	if ((void *)(tcp + 1) > data_end)
		return false;
	tcp->checksum = weir_sum_apply(tcp->checksum, change);
	return true;
}

/* In the next hop of weir_quick_send_to(): the packet is changed besides. */
#define WEIR_QUICK_CHANGED (1ull << 63)

/*
 * Sends a packet that was tracked, by a next hop of a generation, with its new ends. Where the
 * routes have changed meanwhile the kernel sends it, which translates its source then.
 */
static __noinline int weir_quick_send_to(struct xdp_md *ctx, __u64 addresses, __u32 ports,
					 __u64 next_hop, __u32 src_port_inside)
{
	struct weir_quick q = {};
	__u16 generation = next_hop >> 32;
	struct weir_fw_route route;
	bool is_known;
	int action;

	if (next_hop & WEIR_QUICK_CHANGED)
		weir_quick_change(ctx, WEIR_FW_IN);
	q.data = weir_xdp_data(ctx);
	q.data_end = weir_xdp_data_end(ctx);
	q.ip = q.data + sizeof(struct weir_eth);
	if ((void *)(q.ip + 1) > q.data_end)
		return XDP_ABORTED;
	is_known = weir_fw_next_hop_load(&route, (__u32)next_hop, generation) &&
		   !weir_fw_next_hop_is_closed(&route, ctx->ingress_ifindex);
	if (!is_known) {
		addresses = (addresses >> 32) << 32 | q.ip->src;
		ports = (ports & 0xffff0000) | src_port_inside;
	}
	if (!weir_quick_rewrite(ctx, (__be32)addresses, (__be32)(addresses >> 32), ports))
		return XDP_ABORTED;
	q.ip_bytes = bpf_ntohs(q.ip->total_bytes);
	q.cpu = bpf_get_smp_processor_id();
	q.slot = weir_fw_ifslot(ctx->ingress_ifindex);
	if (!is_known)
		return weir_quick_pass(&q);
	action = weir_quick_send(ctx, &q, &route);
	if (next_hop & WEIR_QUICK_CHANGED)
		weir_quick_change(ctx, WEIR_FW_OUT);
	return action;
}

/* A packet of a flow that is known, as weir_quick_hit(): of the form that weir_fw_quick() takes. */
static __noinline int weir_quick_translate(struct xdp_md *ctx)
{
	struct weir_quick q = { .data = weir_xdp_data(ctx), .data_end = weir_xdp_data_end(ctx) };
	__u32 home, alias = 0, slot, reverse, ports, inside, control = 0;
	__u32 ruleset = weir_fw_control()->active;
	struct weir_fw_packet key = {};
	__u64 found, next_hop;
	weir_line *s;

	q.ip = q.data + sizeof(struct weir_eth);
	if ((void *)(q.ip + 1) + sizeof(struct weir_udp) > q.data_end)
		return WEIR_QUICK_NOT;
	q.ip_bytes = bpf_ntohs(q.ip->total_bytes);
	q.cpu = bpf_get_smp_processor_id();
	weir_quick_key(&q, &key);
	inside = key.src_port;
	home = weir_state_bucket(weir_fw_hash(&key));
	if (!(weir_read_once(weir_state_line(home)->control) & WEIR_STATE_LIVE) ||
	    !weir_state_lock(home, q.cpu))
		return WEIR_QUICK_NOT;
	found = weir_quick_find(&key, weir_state_line(home), home);
	if (found & WEIR_FOUND_NONE) {
		alias = weir_quick_enter(&key, &home, q.cpu);
		if (!alias)
			return WEIR_QUICK_NOT;
		found = weir_quick_find(&key, weir_state_line(home), home);
	}
	slot = (__u32)found;
	s = weir_state_line(slot);
	reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
	if (!(found & WEIR_FOUND_NONE) && weir_quick_is_theirs(&q, s, reverse, alias) &&
	    (!weir_quick_is_changed(ruleset, s->control) ||
	     weir_quick_scrub(ruleset, weir_fw_ifslot(ctx->ingress_ifindex),
			      weir_quick_exit(s, reverse, 0), slot, reverse)))
		control = weir_quick_track(ctx, &q, slot, reverse, weir_bucket_counter(s));
	if (!control) {
		weir_state_unlock(home, weir_state_line(home)->control);
		return WEIR_QUICK_NOT;
	}
	s = weir_state_line(slot);
	next_hop = weir_read_once(s->next_hop[reverse]) |
		   (__u64)weir_read_once(s->generation) << 32 |
		   (weir_quick_is_changed(ruleset, control) ? WEIR_QUICK_CHANGED : 0);
	weir_quick_ends(&key, s, reverse);
	ports = weir_ports(key.src_port, key.dst_port);
	if (slot != home) {
		s->control = control;
		control = weir_state_line(home)->control;
	}
	weir_state_unlock(home, control);
	return weir_quick_send_to(ctx, (__u64)key.dst[0] << 32 | key.src[0], ports, next_hop,
				  inside);
}

#endif /* WEIR_FW_TRANSLATED_H */

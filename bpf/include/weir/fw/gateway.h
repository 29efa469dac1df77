/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `route-to` and `reply-to`: a packet goes to a gateway that its rule names, instead of the one
 * that the kernel's routes have (`pf_route` of pf.c).
 *
 * The kernel still says whether a packet is forwarded at all: what is for the box stays, and so
 * does what no route leads to. A state keeps the number of the gateway of each direction, in the
 * word that has its next hop, so that a packet which is forwarded by its state costs nothing more.
 * What the kernel has to forward, or the box itself sends, gets its gateway where it leaves:
 * gateway_skb.h. A socket of `divert-to` has the place of a gateway: divert.h.
 */
#ifndef WEIR_FW_GATEWAY_H
#define WEIR_FW_GATEWAY_H

#include <weir/fw/fib.h>
#include <weir/fw/gateways.h>
#include <weir/fw/image.h>
#include <weir/fw/pool.h>
#include <weir/fw/scratch.h>
#include <weir/fw/typed.h>

/*
 * A packet whose state covers the hook goes to the gateway of that, unless a rule that made none
 * has chosen one. A later fragment goes where its first one went.
 */
static __always_inline void weir_gateway_settle(struct weir_fw_packet *p,
						const struct weir_fw_hit *hit)
{
	if (hit->gateway && !(p->flags & (WEIR_PACKET_ROUTED | WEIR_PACKET_FOLLOWS)))
		p->gateway = hit->gateway;
}

/*
 * Whether a state of this packet hands to a socket what comes in by it: where the connection begins
 * by coming in, or, for answers, by leaving.
 */
static __always_inline bool weir_gateway_is_for_socket(const struct weir_fw_packet *p,
						       bool is_reply)
{
	if (p->protocol != WEIR_PROTOCOL_TCP && p->protocol != WEIR_PROTOCOL_UDP)
		return false;
	return !(p->flags & WEIR_PACKET_UNTRACKED) && (p->direction == WEIR_FW_OUT) == is_reply;
}

/*
 * A packet on its way out leaves by the gateway's interface; its state may be bound to that, if it
 * is known.
 */
static __always_inline int weir_gateway_goes_out(struct weir_fw_packet *p,
						 struct weir_fw_decision *d)
{
	if (p->direction == WEIR_FW_IN)
		return 0;
	if (weir_gateway_at(d->gateway)->interface)
		p->out_interface = weir_gateway_at(d->gateway)->interface;
	else
		d->flags &= ~WEIR_DECISION_IF_BOUND;
	return 0;
}

typedef struct weir_fw_gateways __weir_arena weir_gateways;

/* Whose turn it is, of a pool that has a network. */
static __always_inline __u64 weir_gateways_turn(const struct weir_fw_packet *p,
						weir_gateways *pool)
{
	if (pool->choice == WEIR_FW_CHOICE_ROUND_ROBIN)
		return __sync_fetch_and_add(&pool->turn, 1);
	if (pool->choice == WEIR_FW_CHOICE_SOURCE_HASH)
		return weir_pool_hash(p, pool->seed);
	if (pool->choice == WEIR_FW_CHOICE_RANDOM)
		return bpf_get_prandom_u32();
	/* The last bits of the source: of a network with a few of them, whose size divides all. */
	if (pool->choice == WEIR_FW_CHOICE_BITMASK)
		return bpf_ntohl(p->src[p->family == WEIR_FW_INET ? 0 : 3]);
	return 0;
}

/* The number of the gateway that a turn falls on. */
static __always_inline __u32 weir_gateways_at(weir_gateways *pool, __u32 family, __u64 turn)
{
	__u32 last = (pool->count[family] - 1) & (WEIR_FW_POOL_GATEWAY_COUNT_MAX - 1);
	struct weir_fw_share __weir_arena *share = pool->share[family];
	__u32 left = (__u32)(turn % share[last].reach), before = 0, i;

	for (i = 0; i < last && left >= share[i].reach && weir_fw_may_loop; i++)
		before = share[i].reach;
	share = &share[i & (WEIR_FW_POOL_GATEWAY_COUNT_MAX - 1)];
	i = share->first + (left - before) % share->count;
	return pool->number[family][i & (WEIR_FW_POOL_GATEWAY_COUNT_MAX - 1)];
}

/*
 * Chooses the gateway of a packet that a rule with `route-to` or `reply-to` passes, or its socket.
 * 0, or the reason of a drop + 1.
 */
__noinline int weir_gateway_choose(struct weir_fw_packet *p __arg_nonnull,
				   struct weir_fw_decision *d __arg_nonnull)
{
	__u32 family = p->family & 1, at;
	weir_gateways *pool;

	if (!d->rule_at)
		return 0;
	at = weir_at(struct weir_fw_rule, d->rule_at)->gateways;
	if (!at)
		return 0;
	at = p->ruleset + weir_fw_image_of(p)->gateways_at +
	     (at - 1) * (__u32)sizeof(struct weir_fw_gateways);
	pool = weir_at(struct weir_fw_gateways, at);
	if (pool->is_socket && !weir_gateway_is_for_socket(p, pool->is_reply))
		return 0;
	if (pool->table) {
		/* What has no entry goes by the kernel's routes. */
		d->gateway = weir_fw_typed_value(p, pool->table - 1, 1) >>
			     WEIR_FW_TYPED_GATEWAY_SHIFT;
		if (!d->gateway)
			return 0;
		return weir_gateway_goes_out(p, d);
	}
	if (!pool->count[family])
		return WEIR_DROP(MAP_FAILED);
	at = weir_gateways_at(pool, family, weir_gateways_turn(p, pool));
	if (pool->is_reply) {
		d->gateway_back = at;
		return 0;
	}
	d->gateway = at;
	return weir_gateway_goes_out(p, d);
}

/* What the kernel is asked of a gateway: the way to its address, out of its interface. */
static __always_inline __u32 weir_gateway_ask(struct bpf_fib_lookup *f,
					      const struct weir_fw_packet *p,
					      weir_gateway *gateway, __u32 ifindex)
{
	__u32 slot = gateway->interface;

	__builtin_memset(f, 0, sizeof(*f));
	weir_fw_fib_ask(f, p, slot ? weir_fw_interface(slot)->ifindex : ifindex);
	if (gateway->flags & WEIR_FW_GATEWAY_ADDRESS && p->family == WEIR_FW_INET)
		f->ipv4_dst = gateway->addr[0];
	else if (gateway->flags & WEIR_FW_GATEWAY_ADDRESS)
		weir_copy_address(f->ipv6_dst, gateway->addr);
	return slot ? BPF_FIB_LOOKUP_OUTPUT : 0;
}

/* The same of a packet's gateway. */
static __always_inline __u32 weir_gateway_question(struct bpf_fib_lookup *f,
						   const struct weir_fw_packet *p, __u32 ifindex)
{
	return weir_gateway_ask(f, p, weir_gateway_at(p->gateway), ifindex);
}

/*
 * The route by the packet's gateway, as weir_fw_fib(). Where the neighbour is not known yet, or the
 * interface takes no frames, the kernel sends the packet.
 */
__noinline int weir_fw_fib_gateway(struct xdp_md *ctx, const struct weir_fw_packet *p __arg_nonnull,
				   struct weir_fw_route *route __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct bpf_fib_lookup *f;
	__u32 flags;
	long found;

	if (!scratch)
		return WEIR_ROUTE_BLACKHOLE;
	if (weir_gateway_at(p->gateway)->flags & WEIR_FW_GATEWAY_SOCKET)
		return WEIR_ROUTE_KERNEL;
	f = &scratch->fib;
	__builtin_memset(f, 0, sizeof(*f));
	weir_fw_fib_ask(f, p, ctx->ingress_ifindex);
	/* Its own neighbour and MTU are of no account. */
	f->tot_len = 0;
	found = bpf_fib_lookup(ctx, f, sizeof(*f), BPF_FIB_LOOKUP_SKIP_NEIGH);
	if (found == BPF_FIB_LKUP_RET_NOT_FWDED)
		return WEIR_ROUTE_KERNEL;
	if (found != BPF_FIB_LKUP_RET_SUCCESS)
		return found == BPF_FIB_LKUP_RET_BLACKHOLE ? WEIR_ROUTE_BLACKHOLE :
							     WEIR_ROUTE_KERNEL_ONCE;
	if (weir_gateway_at(p->gateway)->flags & WEIR_FW_GATEWAY_ABSENT)
		return WEIR_ROUTE_BLACKHOLE;
	flags = weir_gateway_question(f, p, ctx->ingress_ifindex);
	found = bpf_fib_lookup(ctx, f, sizeof(*f), flags);
	if (found != BPF_FIB_LKUP_RET_SUCCESS)
		return WEIR_ROUTE_KERNEL_ONCE;
	return weir_fw_fib_found(f, route, ctx->ingress_ifindex);
}

#endif /* WEIR_FW_GATEWAY_H */

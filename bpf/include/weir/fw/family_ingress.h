/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A frame whose packet has passed, and leaves in the other family (family.h): the rest of its way.
 * What is not to be is said to who has sent it as long as the packet is what it was.
 */
#ifndef WEIR_FW_FAMILY_INGRESS_H
#define WEIR_FW_FAMILY_INGRESS_H

#include <weir/fw/family_frame.h>
#include <weir/fw/forward.h>
#include <weir/fw/modulate.h>

/* Drops a packet, and answers it. */
static __always_inline int weir_family_refuse_ingress(struct xdp_md *ctx,
						      const struct weir_fw_packet *p,
						      struct weir_fw_scratch *scratch, int drop)
{
	weir_fw_count_drop(p, drop);
	weir_family_say(scratch, p, drop);
	return weir_fw_reply(ctx, p, &scratch->decision);
}

/* The packet is that of the other family, and leaves by a route of ours, or by the kernel's. */
static __always_inline int weir_family_send(struct xdp_md *ctx, struct weir_fw_scratch *scratch,
					    int found)
{
	struct weir_fw_packet *other = &scratch->other;
	struct weir_fw_route *route = &scratch->route;

	if (found != WEIR_ROUTE_FORWARD) {
		weir_fw_table_counters(other->cpu)->passed_packets++;
		return XDP_PASS;
	}
	other->out_interface = route->interface;
	if (!weir_fw_readdress(ctx, other, route))
		return XDP_ABORTED;
	weir_fw_count(other, route->interface, WEIR_FW_OUT, WEIR_FW_PASS);
	weir_fw_table_counters(other->cpu)->forwarded_packets++;
	return weir_fw_forward(ctx, other, route);
}

__noinline int weir_family_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull,
				   const struct weir_fw_hit *hit __arg_nonnull)
{
	int drop = weir_family_describe_ingress(ctx, p, hit), route = WEIR_ROUTE_KERNEL_ONCE;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	long found;

	if (!scratch || drop) {
		weir_fw_count_drop(p, drop ? drop : WEIR_DROP(INTERNAL));
		return XDP_DROP;
	}
	if (p->ttl <= WEIR_FW_TTL_LAST)
		return weir_family_refuse_ingress(ctx, p, scratch, WEIR_DROP(TTL));
	found = weir_family_ask(ctx, &scratch->other, scratch, ctx->ingress_ifindex);
	if (weir_family_is_too_big(&scratch->other, found))
		return weir_family_refuse_ingress(ctx, p, scratch, WEIR_DROP(TOO_BIG));
	if (found == BPF_FIB_LKUP_RET_BLACKHOLE) {
		weir_fw_count_drop(p, WEIR_DROP(NO_ROUTE));
		return XDP_DROP;
	}
	if (found == BPF_FIB_LKUP_RET_SUCCESS && !(p->flags & WEIR_PACKET_STAY))
		route = weir_fw_fib_found(&scratch->fib, &scratch->route, ctx->ingress_ifindex);
	drop = weir_fw_modulate_ingress(ctx, p) ? WEIR_DROP(SHORT) :
						  weir_family_change(ctx, false, p, scratch);
	if (drop) {
		weir_fw_count_drop(p, drop);
		return XDP_DROP;
	}
	weir_fw_count(p, p->interface, WEIR_FW_IN, WEIR_FW_PASS);
	return weir_family_send(ctx, scratch, route);
}

#endif /* WEIR_FW_FAMILY_INGRESS_H */

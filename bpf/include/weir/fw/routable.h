/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What rules with `no-route` and `urpf-failed` ask of a packet (`pf_routable` of pf.c): only looked
 * up for rulesets that have such rules, and for packets that rules judge. What the kernel does not
 * forward for want of a route is told from what is its own by the rule: see rules.h.
 */
#ifndef WEIR_FW_ROUTABLE_H
#define WEIR_FW_ROUTABLE_H

#include <weir/fw/image.h>
#include <weir/fw/reply.h>

#define WEIR_PACKET_ROUTABLE_MASK                                                               \
	(WEIR_PACKET_NO_ROUTE_BACK | WEIR_PACKET_NO_ROUTE_TO | WEIR_PACKET_URPF_FAILED)

/* Whether no route leads to an end of the packet, or it is on this host or its networks. */
static __always_inline bool weir_fw_has_no_route(void *ctx, struct weir_fw_scratch *scratch,
						 const struct weir_fw_packet *p, bool is_to,
						 __u32 ifindex)
{
	struct bpf_fib_lookup *f = &scratch->fib;
	const __be32 *address = is_to ? p->dst : p->src;

	__builtin_memset(f, 0, sizeof(*f));
	f->ifindex = ifindex;
	if (p->family == WEIR_FW_INET) {
		f->family = WEIR_AF_INET;
		f->ipv4_dst = address[0];
	} else {
		f->family = WEIR_AF_INET6;
		__builtin_memcpy(f->ipv6_dst, address, sizeof(f->ipv6_dst));
	}
	return bpf_fib_lookup(ctx, f, sizeof(*f), BPF_FIB_LOOKUP_SKIP_NEIGH) ==
	       BPF_FIB_LKUP_RET_NOT_FWDED;
}

/* The questions of the packet's ruleset; 0: none. */
static __always_inline __u32 weir_fw_asks_routes(const struct weir_fw_packet *p)
{
	return weir_fw_image_of(p)->flags & (WEIR_FW_IMAGE_ROUTES | WEIR_FW_IMAGE_NO_ROUTE_BACK |
					     WEIR_FW_IMAGE_NO_ROUTE_TO);
}

/*
 * Whether the packet is at another interface than its source's route leads to. On a box that does
 * not forward, the kernel does not say where it leads, and nothing has failed.
 */
static __always_inline bool weir_fw_urpf_fails(void *ctx, struct weir_fw_scratch *scratch,
					       const struct weir_fw_packet *p, __u32 ifindex)
{
	long found = weir_fw_find_own_address(ctx, scratch, p, ifindex);

	if (found == BPF_FIB_LKUP_RET_FWD_DISABLED)
		return false;
	/* A route by an interface without an address is one. */
	return (found != BPF_FIB_LKUP_RET_SUCCESS && found != BPF_FIB_LKUP_RET_NO_SRC_ADDR) ||
	       scratch->fib.ifindex != weir_fw_interface(weir_fw_slot(p))->ifindex;
}

/* Finds what the ruleset asks for, of the interface at which the packet is judged. */
static __always_inline void weir_fw_find_routes(void *ctx, struct weir_fw_packet *p, __u32 ifindex)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 asked = weir_fw_asks_routes(p);

	p->flags &= ~WEIR_PACKET_ROUTABLE_MASK;
	if (!scratch)
		return;
	if (asked & WEIR_FW_IMAGE_ROUTES && weir_fw_urpf_fails(ctx, scratch, p, ifindex))
		p->flags |= WEIR_PACKET_URPF_FAILED;
	if (asked & WEIR_FW_IMAGE_NO_ROUTE_BACK &&
	    weir_fw_has_no_route(ctx, scratch, p, false, ifindex))
		p->flags |= WEIR_PACKET_NO_ROUTE_BACK;
	if (asked & WEIR_FW_IMAGE_NO_ROUTE_TO &&
	    weir_fw_has_no_route(ctx, scratch, p, true, ifindex))
		p->flags |= WEIR_PACKET_NO_ROUTE_TO;
}

__noinline int weir_fw_routes_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull)
{
	weir_fw_find_routes(ctx, p, ctx->ingress_ifindex);
	return 0;
}

__noinline int weir_fw_routes_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	weir_fw_find_routes(skb, p, skb->ifindex);
	return 0;
}

#endif /* WEIR_FW_ROUTABLE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a packet goes: the kernel's routes and neighbours (bpf_fib_lookup()), with its policy
 * rules, or the table that a rule's `rtable` names.
 *
 * Whatever the kernel has to do something about is its own: packets for the box, neighbours that
 * are not known yet, frames over the MTU, routes that answer with an ICMP error, interfaces to
 * which frames cannot be redirected, or whose queues they have to wait in.
 */
#ifndef WEIR_FW_FIB_H
#define WEIR_FW_FIB_H

#include <bpf/bpf_endian.h>
#include <weir/fw/counters.h>
#include <weir/fw/next_hop.h>
#include <weir/fw/stage.h>

/* Of socket(2); the helper wants them. */
#define WEIR_AF_INET 2
#define WEIR_AF_INET6 10

/* What weir_fw_fib() returns. */
enum {
	WEIR_ROUTE_FORWARD,
	WEIR_ROUTE_KERNEL,	/* for good: as long as the routes stay what they are */
	WEIR_ROUTE_KERNEL_ONCE,	/* this packet */
	WEIR_ROUTE_BLACKHOLE,
};

static __always_inline void weir_fw_fib_ask(struct bpf_fib_lookup *f,
					    const struct weir_fw_packet *p, __u32 ifindex)
{
	f->l4_protocol = p->protocol;
	f->sport = p->src_port;
	f->dport = p->dst_port;
	/* For a packet that 16 bits cannot tell nothing is asked of the MTU. */
	f->tot_len = p->ip_bytes > 0xffff ? 0 : p->ip_bytes;
	f->ifindex = ifindex;
	if (p->family == WEIR_FW_INET) {
		f->family = WEIR_AF_INET;
		f->tos = p->tos;
		f->ipv4_src = p->src[0];
		f->ipv4_dst = p->dst[0];
	} else {
		f->family = WEIR_AF_INET6;
		f->flowinfo = bpf_htonl((__u32)p->tos << 20);
		__builtin_memcpy(f->ipv6_src, p->src, sizeof(f->ipv6_src));
		__builtin_memcpy(f->ipv6_dst, p->dst, sizeof(f->ipv6_dst));
	}
}

static __always_inline __u8 weir_fw_ifslot(__u32 ifindex)
{
	__u8 __weir_arena *slots = weir_at(__u8, weir_fw_control()->ifslots_at);

	return ifindex < WEIR_FW_IFINDEX_COUNT_MAX ? slots[ifindex] : 0;
}

static __always_inline struct weir_fw_interface __weir_arena *weir_fw_interface(__u8 slot)
{
	return weir_at(struct weir_fw_interface,
		       weir_fw_control()->interfaces_at +
			       (slot & (WEIR_FW_INTERFACE_COUNT_MAX - 1)) *
				       (__u32)sizeof(struct weir_fw_interface));
}

static __always_inline bool weir_fw_is_mac(const __u32 *address, __u8 __weir_arena *mac)
{
	__u32 __weir_arena *words = (__u32 __weir_arena *)mac;

	return address[0] == words[0] && (__u16)address[1] == (__u16)words[1];
}

/* Whether a frame that begins with this address is for an interface by which it has come. */
static __always_inline bool weir_fw_is_address(struct weir_fw_interface __weir_arena *interface,
					       const __u32 *address)
{
	if (weir_fw_is_mac(address, interface->mac))
		return true;
	return interface->flags & WEIR_FW_INTERFACE_VIRTUAL &&
	       (weir_fw_is_mac(address, interface->virtual_mac[0]) ||
		weir_fw_is_mac(address, interface->virtual_mac[1]));
}

/* Whether what is sent back by an interface is lost. */
static __always_inline bool weir_fw_is_deaf(__u32 interface_flags)
{
	const __u32 both = WEIR_FW_INTERFACE_VETH | WEIR_FW_INTERFACE_XMIT;

	return (interface_flags & both) == WEIR_FW_INTERFACE_VETH;
}

/*
 * Sends a frame back by the interface that it came from. A veth takes redirected frames as soon as
 * its peer has GRO, but XDP_TX only if the peer has an XDP program; some drivers have XDP_TX alone.
 */
static __always_inline int weir_fw_send_back(struct xdp_md *ctx)
{
	__u32 ifindex = ctx->ingress_ifindex;
	__u8 slot = weir_fw_ifslot(ifindex);

	if (weir_fw_interface(slot)->flags & WEIR_FW_INTERFACE_XMIT)
		return weir_fw_redirect(ctx, ifindex, slot);
	return XDP_TX;
}

/* What the kernel has found, as a route of ours. */
static __always_inline int weir_fw_fib_found(const struct bpf_fib_lookup *f,
					     struct weir_fw_route *route, __u32 ifindex)
{
	const __u16 *dst = (const __u16 *)f->dmac;
	const __u16 *src = (const __u16 *)f->smac;
	__u32 flags;

	route->ifindex = f->ifindex;
	route->interface = weir_fw_ifslot(f->ifindex);
	flags = weir_fw_interface(route->interface)->flags;
	if (flags & WEIR_FW_INTERFACE_QUEUED)
		return WEIR_ROUTE_KERNEL;
	/* Back out of the same interface needs nothing of its driver but XDP itself. */
	if (!route->interface || weir_fw_is_deaf(flags) ||
	    (!(flags & WEIR_FW_INTERFACE_XMIT) && f->ifindex != ifindex))
		return WEIR_ROUTE_KERNEL_ONCE;
	route->flags = flags & WEIR_FW_INTERFACE_XMIT ? 0 : WEIR_FW_NEXT_HOP_BACK;
	route->mtu_bytes = f->mtu_result;
	route->mac[0] = dst[0] | (__u32)dst[1] << 16;
	route->mac[1] = dst[2] | (__u32)src[0] << 16;
	route->mac[2] = src[1] | (__u32)src[2] << 16;
	return WEIR_ROUTE_FORWARD;
}

/* Asks the kernel. A function of its own, so that its question is not on everybody's stack. */
static __noinline int weir_fw_fib(struct xdp_md *ctx, const struct weir_fw_packet *p,
				  struct weir_fw_route *route)
{
	struct bpf_fib_lookup f = {};
	__u32 flags = 0;
	long found;

	weir_fw_fib_ask(&f, p, ctx->ingress_ifindex);
	if (p->routing_table) {
		f.tbid = p->routing_table;
		flags = BPF_FIB_LOOKUP_DIRECT | BPF_FIB_LOOKUP_TBID;
	}
	found = bpf_fib_lookup(ctx, &f, sizeof(f), flags);
	if (found == BPF_FIB_LKUP_RET_SUCCESS)
		return weir_fw_fib_found(&f, route, ctx->ingress_ifindex);
	if (found == BPF_FIB_LKUP_RET_NOT_FWDED)
		return WEIR_ROUTE_KERNEL;
	return found == BPF_FIB_LKUP_RET_BLACKHOLE ? WEIR_ROUTE_BLACKHOLE : WEIR_ROUTE_KERNEL_ONCE;
}

#endif /* WEIR_FW_FIB_H */

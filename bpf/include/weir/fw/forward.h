/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends a packet on: TTL, the IPv4 header's checksum by its increment (RFC 1141), MAC addresses. A
 * packet whose TTL ends here never comes so far: the kernel answers it.
 */
#ifndef WEIR_FW_FORWARD_H
#define WEIR_FW_FORWARD_H

#include <bpf/bpf_endian.h>
#include <weir/fw/fib.h>
#include <weir/fw/parse.h>
#include <weir/fw/next_hop.h>

/* The TTL of a packet that can still be forwarded is above this. */
#define WEIR_FW_TTL_LAST 1

/* Makes a packet what it is on its way out; false if the frame is not what it was. */
static __always_inline bool weir_fw_readdress(struct xdp_md *ctx, const struct weir_fw_packet *p,
					      const struct weir_fw_route *route)
{
	void *data = weir_xdp_data(ctx);
	void *data_end = weir_xdp_data_end(ctx);
	void *l3 = data + (p->l3_at & WEIR_FW_OFFSET_MASK);
	__u32 *mac = data;

	if (data + sizeof(struct weir_eth) > data_end)
		return false;
	if (p->family == WEIR_FW_INET) {
		struct weir_ipv4 *ip = l3;
		__u32 sum;

		if ((void *)(ip + 1) > data_end)
			return false;
		ip->ttl--;
		/* The TTL is the upper byte of its word: the sum of the others grows by 0x100. */
		sum = ip->checksum + bpf_htons(0x0100);
		ip->checksum = sum + (sum >= 0xffff);
	} else {
		struct weir_ipv6 *ip = l3;

		if ((void *)(ip + 1) > data_end)
			return false;
		ip->hop_limit--;
	}
	mac[0] = route->mac[0];
	mac[1] = route->mac[1];
	mac[2] = route->mac[2];
	return true;
}

/* Sends it. */
static __always_inline int weir_fw_forward(struct xdp_md *ctx, const struct weir_fw_packet *p,
					   const struct weir_fw_route *route)
{
	/* Of a device's program the device sends what passes. */
	if (p->flags & WEIR_PACKET_SECOND)
		return XDP_REDIRECT;
	if (route->ifindex == ctx->ingress_ifindex)
		return weir_fw_send_back(ctx);
	return weir_fw_redirect(ctx, route->ifindex, route->interface);
}

#endif /* WEIR_FW_FORWARD_H */

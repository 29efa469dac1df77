/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What pf drops before it asks states or rules (pf_normalize_tcp() of pf_norm.c, and the first
 * half of pf_test() of pf.c): TCP flags that no sender may use, ICMP of the other family. (UDP to
 * port 0 is `short` to pf: parse.h.)
 *
 * The IPv4 header's checksum is checked while it is parsed. Those of TCP, UDP and ICMP are not, as
 * in pf, but TCP's before an answer by a RST (reply.h).
 */
#ifndef WEIR_FW_SANITY_H
#define WEIR_FW_SANITY_H

#include <weir/fw/parse.h>

static __always_inline int weir_fw_sane_tcp(struct weir_fw_packet *p)
{
	__u8 flags = p->tcp_flags;

	if (flags & WEIR_TCP_SYN) {
		if (flags & WEIR_TCP_RST)
			return WEIR_DROP(NORMALIZE);
		if (flags & WEIR_TCP_FIN) {
			flags &= ~WEIR_TCP_FIN;
			p->tcp_flags = flags;
			p->flags |= WEIR_PACKET_CLEAR_FIN;
		}
	} else if (!(flags & (WEIR_TCP_ACK | WEIR_TCP_RST))) {
		return WEIR_DROP(NORMALIZE);
	}
	if (!(flags & WEIR_TCP_ACK) && flags & (WEIR_TCP_FIN | WEIR_TCP_PSH | WEIR_TCP_URG))
		return WEIR_DROP(NORMALIZE);
	return WEIR_PARSE_DONE;
}

/* 0, or the reason + 1. Fragments other than the first have nothing to look at. */
static __always_inline int weir_fw_sane(struct weir_fw_packet *p)
{
	__u8 foreign_icmp =
		p->family == WEIR_FW_INET6 ? WEIR_PROTOCOL_ICMP : WEIR_PROTOCOL_ICMPV6;

	if (p->flags & WEIR_PACKET_LATER_FRAGMENT)
		return WEIR_PARSE_DONE;
	if (p->protocol == WEIR_PROTOCOL_TCP)
		return weir_fw_sane_tcp(p);
	return p->protocol == foreign_icmp ? WEIR_DROP(NORMALIZE) : WEIR_PARSE_DONE;
}

/* Takes the FIN out of a SYN with FIN, as pf does, and corrects the checksum (RFC 1624). */
static __always_inline void weir_fw_clear_fin(const struct weir_fw_packet *p, void *data,
					      void *data_end)
{
	struct weir_tcp *tcp = data + (p->l4_at & WEIR_FW_OFFSET_MASK);
	__u32 sum;

	if ((void *)(tcp + 1) > data_end)
		return;
	tcp->flags &= ~WEIR_TCP_FIN;
	/* The word of offset and flags is less by one, in network order. */
	sum = tcp->checksum + bpf_htons(WEIR_TCP_FIN);
	tcp->checksum = sum + (sum >> 16);
}

/*
 * IPv4 addresses in host order that no router forwards from or to (RFC 1812, section 5.3.7; RFC
 * 1122, section 3.2.1.3), and groups, which the kernel routes by tables of their own.
 */
static __always_inline bool weir_is_martian4(__u32 src, __u32 dst)
{
	return src >> 24 == 0 || src >> 24 == 127 || src >> 28 == 0xe || src == 0xffffffff ||
	       !dst || dst >> 24 == 127 || dst >> 28 == 0xe || dst == 0xffffffff;
}

/* The same of IPv6 (RFC 4291, section 2.5): unspecified, loopback, mapped; link-local; groups. */
static __always_inline bool weir_is_martian6(__u32 first)
{
	return first == 0 || first >> 22 == 0xfe80 >> 6 || first >> 24 == 0xff;
}

/* Packets that are the kernel's, whatever its routes say; nor is anybody to be answered there. */
static __always_inline bool weir_fw_is_martian(const struct weir_fw_packet *p)
{
	__u32 src = bpf_ntohl(p->src[0]), dst = bpf_ntohl(p->dst[0]);

	if (p->family == WEIR_FW_INET)
		return weir_is_martian4(src, dst);
	return weir_is_martian6(src) || weir_is_martian6(dst);
}

/*
 * What neighbours find each other by, and how hosts ask for routers: the kernel's, and never a
 * matter of rules. What a router says of addresses and routes is one.
 */
static __always_inline bool weir_fw_is_discovery(const struct weir_fw_packet *p)
{
	return p->protocol == WEIR_PROTOCOL_ICMPV6 && p->family == WEIR_FW_INET6 &&
	       p->ttl == WEIR_IPV6_HOPS_OF_LINK && !(p->flags & WEIR_PACKET_FRAGMENT) &&
	       (p->icmp_type == WEIR_ICMPV6_ROUTER_SOLICITATION ||
		p->icmp_type == WEIR_ICMPV6_NEIGHBOUR_SOLICITATION ||
		p->icmp_type == WEIR_ICMPV6_NEIGHBOUR_ADVERTISEMENT);
}

#endif /* WEIR_FW_SANITY_H */

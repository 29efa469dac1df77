/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fills the descriptor of a packet from its frame: Ethernet, up to two VLAN tags, IPv4 with
 * options, IPv6 with extension headers, TCP, UDP, ICMP, ICMPv6, the ports of SCTP.
 *
 * Lengths are the IP header's, and must lie within the frame; what the link padded is not seen.
 * weir_fw_parse() does what every packet needs; where it finds extension headers or the options of
 * a SYN, weir_fw_parse_rest() goes on, which is a function of its own for each hook.
 */
#ifndef WEIR_FW_PARSE_H
#define WEIR_FW_PARSE_H

#include <bpf/bpf_endian.h>
#include <weir/fw/counters.h>
#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/loop.h>
#include <weir/fw/packet.h>

/* What parsers return; anything else is the reason of a drop + 1. */
enum {
	WEIR_PARSE_DONE = 0,
	WEIR_PARSE_NOT_IP = -1,	      /* ARP and all else that rules are not about */
	WEIR_PARSE_EXTENSIONS = -2,   /* IPv4 options or extension headers come first */
};

#define WEIR_DROP(reason) (WEIR_FW_REASON_##reason + 1)

/* How many extension headers are read, as pf does (`pf_hdr_limit`, which counts the message). */
#define WEIR_EXTENSION_COUNT_MAX 19

/* The end of the longest packet. */
#define WEIR_FW_PIECE_END_MAX 65535

/* Of weir_fw_packet.fragment_gap. */
#define WEIR_FRAGMENT_GAP_MAX 255

/* Offsets of headers stay below this: the verifier has to know it of each. */
#define WEIR_FW_OFFSET_MASK 0x7ff

static __always_inline bool weir_is_icmp_error(__u8 family, __u8 type)
{
	if (family == WEIR_FW_INET6)
		return type >= WEIR_ICMPV6_UNREACHABLE && type <= WEIR_ICMPV6_PARAMETER;
	return type == WEIR_ICMP_UNREACHABLE || type == WEIR_ICMP_QUENCH ||
	       type == WEIR_ICMP_REDIRECT || type == WEIR_ICMP_TIME_EXCEEDED ||
	       type == WEIR_ICMP_PARAMETER;
}

/* Types that carry an identifier: echo, timestamp, information, address mask. */
static __always_inline bool weir_icmp_has_id(__u8 family, __u8 type)
{
	if (family == WEIR_FW_INET6)
		return type == WEIR_ICMPV6_ECHO_REQUEST || type == WEIR_ICMPV6_ECHO_REPLY;
	return type == WEIR_ICMP_ECHO_REQUEST || type == WEIR_ICMP_ECHO_REPLY ||
	       (type >= WEIR_ICMP_TIMESTAMP && type <= WEIR_ICMP_MASK_REPLY);
}

/* The type that this one answers; 0 if it is no answer. */
static __always_inline __u8 weir_icmp_query(__u8 family, __u8 type)
{
	if (family == WEIR_FW_INET6) {
		if (type == WEIR_ICMPV6_ECHO_REPLY || type == 134 || type == 136 || type == 140)
			return type - 1;
		return type == 200 ? 201 : 0;
	}
	if (type == WEIR_ICMP_ECHO_REPLY)
		return WEIR_ICMP_ECHO_REQUEST;
	if (type == 9)
		return 10;
	return type == 14 || type == 16 || type == 18 || type == 34 || type == 36 ? type - 1 : 0;
}

/*
 * The ends of a message that is no error, as pf_icmp_mapping() of pf.c has them: a query has its
 * identifier where others have the source port, and its type where they have the destination port;
 * the answer to it has them turned round.
 */
static __always_inline void weir_icmp_ends(struct weir_fw_packet *p, __u8 type, __be16 id)
{
	__u8 query = weir_icmp_query(p->family, type);

	if (!weir_icmp_has_id(p->family, type))
		id = 0;
	p->src_port = query ? bpf_htons(query) : id;
	p->dst_port = query ? id : bpf_htons(type);
}

/* Bytes of the packet behind its IP headers. */
static __always_inline __u32 weir_fw_message_bytes(const struct weir_fw_packet *p)
{
	return p->ip_bytes - (__u32)(p->l4_at - p->l3_at);
}

/* What the fragment carries, headers of the whole packet included. */
static __always_inline __u32 weir_fw_fragment_bytes(const struct weir_fw_packet *p)
{
	return weir_fw_message_bytes(p) + p->fragment_gap * 4;
}

/* Whether no sender makes such a piece. */
static __always_inline bool weir_fw_fragment_is_bad(const struct weir_fw_packet *p)
{
	__u32 bytes = weir_fw_fragment_bytes(p);

	return !bytes || p->fragment_at + bytes > WEIR_FW_PIECE_END_MAX ||
	       (p->flags & WEIR_PACKET_MORE_FRAGMENTS && bytes % 8);
}

static __always_inline int weir_fw_parse_tcp(struct weir_fw_packet *p, void *message,
					     void *data_end, __u32 message_bytes)
{
	struct weir_tcp *tcp = message;
	__u32 header_bytes;

	if (message_bytes < sizeof(*tcp) || (void *)(tcp + 1) > data_end)
		return WEIR_DROP(SHORT);
	header_bytes = (tcp->offset >> 4) * 4;
	if (header_bytes < sizeof(*tcp))
		return WEIR_DROP(NORMALIZE);
	if (header_bytes > message_bytes)
		return WEIR_DROP(SHORT);
	p->src_port = tcp->src;
	p->dst_port = tcp->dst;
	p->tcp_flags = tcp->flags;
	p->seq = bpf_ntohl(tcp->seq);
	p->ack = bpf_ntohl(tcp->ack);
	p->window = bpf_ntohs(tcp->window);
	p->tcp_header_bytes = header_bytes;
	p->payload_bytes = message_bytes - header_bytes;
	return WEIR_PARSE_DONE;
}

static __always_inline int weir_fw_parse_udp(struct weir_fw_packet *p, void *message,
					     void *data_end, __u32 message_bytes)
{
	struct weir_udp *udp = message;
	__u32 bytes;

	if (message_bytes < sizeof(*udp) || (void *)(udp + 1) > data_end)
		return WEIR_DROP(SHORT);
	bytes = bpf_ntohs(udp->bytes);
	/* The length of a datagram in fragments is that of the whole. */
	if (bytes < sizeof(*udp) ||
	    (bytes > message_bytes && !(p->flags & WEIR_PACKET_FRAGMENT)) || !udp->dst)
		return WEIR_DROP(SHORT);
	p->src_port = udp->src;
	p->dst_port = udp->dst;
	p->payload_bytes = message_bytes - sizeof(*udp);
	return WEIR_PARSE_DONE;
}

static __always_inline int weir_fw_parse_icmp(struct weir_fw_packet *p, void *message,
					      void *data_end, __u32 message_bytes)
{
	struct weir_icmp *icmp = message;

	if (message_bytes < sizeof(*icmp) || (void *)(icmp + 1) > data_end)
		return WEIR_DROP(SHORT);
	p->icmp_type = icmp->type;
	p->icmp_code = icmp->code;
	if (weir_is_icmp_error(p->family, icmp->type)) {
		p->flags |= WEIR_PACKET_ICMP_ERROR;
		p->quoted_at = p->l4_at + sizeof(*icmp);
	} else {
		weir_icmp_ends(p, icmp->type, icmp->id);
	}
	return WEIR_PARSE_DONE;
}

/* What is behind the IP headers. Fragments other than the first have none of it. */
static __always_inline int weir_fw_parse_message(struct weir_fw_packet *p, void *data,
						 void *data_end)
{
	void *message = data + (p->l4_at & WEIR_FW_OFFSET_MASK);
	__u32 message_bytes = weir_fw_message_bytes(p);
	__u8 own_icmp = p->family == WEIR_FW_INET6 ? WEIR_PROTOCOL_ICMPV6 : WEIR_PROTOCOL_ICMP;

	if (p->flags & WEIR_PACKET_FRAGMENT) {
		if (weir_fw_fragment_is_bad(p))
			return WEIR_DROP(FRAGMENT);
		if (p->flags & WEIR_PACKET_LATER_FRAGMENT)
			return WEIR_PARSE_DONE;
	}
	if (p->protocol == WEIR_PROTOCOL_UDP)
		return weir_fw_parse_udp(p, message, data_end, message_bytes);
	if (p->protocol == WEIR_PROTOCOL_TCP)
		return weir_fw_parse_tcp(p, message, data_end, message_bytes);
	if (p->protocol == own_icmp)
		return weir_fw_parse_icmp(p, message, data_end, message_bytes);
	if (p->protocol == WEIR_PROTOCOL_SCTP) {
		if (message_bytes < WEIR_SCTP_BYTES || message + WEIR_SCTP_BYTES > data_end)
			return WEIR_DROP(SHORT);
		p->src_port = *(__be16 *)message;
		p->dst_port = *(__be16 *)(message + sizeof(__be16));
	}
	return WEIR_PARSE_DONE;
}

/*
 * The one's complement sum of a header without options is all ones with its checksum in it
 * (RFC 1071). Two words are added to at most 2^37, which three folds bring below 2^16.
 */
static __always_inline bool weir_fw_ipv4_checksum_fits(const struct weir_ipv4 *ip)
{
	const __u32 *word = (const __u32 *)ip;
	__u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static __always_inline bool weir_is_extension(__u8 family, __u8 next_header)
{
	if (next_header == WEIR_IPV6_AUTHENTICATION)
		return true;
	return family == WEIR_FW_INET6 &&
	       (next_header == WEIR_IPV6_HOP_BY_HOP || next_header == WEIR_IPV6_ROUTING ||
		next_header == WEIR_IPV6_FRAGMENT || next_header == WEIR_IPV6_DESTINATION);
}

static __always_inline int weir_fw_parse_ipv4(struct weir_fw_packet *p, void *data, void *data_end,
					      __u32 frame_bytes)
{
	struct weir_ipv4 *ip = data + (p->l3_at & WEIR_FW_OFFSET_MASK);
	int result = WEIR_PARSE_DONE;
	__u32 header_bytes, ip_bytes;
	__u16 fragment;

	if ((void *)(ip + 1) > data_end)
		return WEIR_DROP(SHORT);
	header_bytes = (ip->version_words & 0xf) * 4;
	ip_bytes = bpf_ntohs(ip->total_bytes);
	/* Merged segments of more than 64 KiB (BIG TCP) have no length. */
	if (ip_bytes == 0 && p->flags & WEIR_PACKET_MERGED)
		ip_bytes = frame_bytes - p->l3_at;
	if (ip->version_words >> 4 != 4 || header_bytes < sizeof(*ip) ||
	    ip_bytes < header_bytes || p->l3_at + ip_bytes > frame_bytes)
		return WEIR_DROP(SHORT);
	p->family = WEIR_FW_INET;
	p->src[0] = ip->src;
	p->dst[0] = ip->dst;
	p->protocol = ip->protocol;
	p->ip_protocol = ip->protocol;
	p->ttl = ip->ttl;
	p->tos = ip->tos;
	p->ip_bytes = ip_bytes;
	p->l4_at = p->l3_at + header_bytes;
	if (header_bytes != sizeof(*ip)) {
		p->flags |= WEIR_PACKET_OPTIONS;
		result = WEIR_PARSE_EXTENSIONS;
	} else if (p->direction == WEIR_FW_IN && !weir_fw_ipv4_checksum_fits(ip)) {
		return WEIR_DROP(PROTO_CKSUM);
	}
	fragment = bpf_ntohs(ip->fragment);
	if (fragment & WEIR_IPV4_FRAGMENT_MASK) {
		p->fragment_id = ip->id;
		p->fragment_at = (fragment & WEIR_IPV4_OFFSET_MASK) * 8;
		p->flags |= WEIR_PACKET_FRAGMENT;
		if (p->fragment_at)
			p->flags |= WEIR_PACKET_LATER_FRAGMENT;
		if (fragment & WEIR_IPV4_MORE_FRAGMENTS)
			p->flags |= WEIR_PACKET_MORE_FRAGMENTS;
	}
	return weir_is_extension(WEIR_FW_INET, p->protocol) ? WEIR_PARSE_EXTENSIONS : result;
}

static __always_inline int weir_fw_parse_ipv6(struct weir_fw_packet *p, void *data, void *data_end,
					      __u32 frame_bytes)
{
	struct weir_ipv6 *ip = data + (p->l3_at & WEIR_FW_OFFSET_MASK);
	__u32 ip_bytes, first, i;

	if ((void *)(ip + 1) > data_end)
		return WEIR_DROP(SHORT);
	first = bpf_ntohl(ip->version_class_flow);
	if (first >> 28 != 6)
		return WEIR_DROP(SHORT);
	ip_bytes = sizeof(*ip) + bpf_ntohs(ip->payload_bytes);
	if (ip->payload_bytes == 0 && p->flags & WEIR_PACKET_MERGED)
		ip_bytes = frame_bytes - p->l3_at;
	if (p->l3_at + ip_bytes > frame_bytes)
		return WEIR_DROP(SHORT);
	p->family = WEIR_FW_INET6;
	for (i = 0; i < 4; i++) {
		p->src[i] = ip->src[i];
		p->dst[i] = ip->dst[i];
	}
	p->protocol = ip->next_header;
	p->ttl = ip->hop_limit;
	p->tos = first >> 20;
	p->ip_bytes = ip_bytes;
	p->l4_at = p->l3_at + sizeof(*ip);
	return weir_is_extension(WEIR_FW_INET6, ip->next_header) ? WEIR_PARSE_EXTENSIONS :
								   WEIR_PARSE_DONE;
}

/* Steps over VLAN tags. The outer one gives the priority and the VLAN interface. */
static __always_inline int weir_fw_parse_vlan(struct weir_fw_packet *p, void *data, void *data_end,
					      __be16 *type)
{
	struct weir_vlan *tag = data + sizeof(struct weir_eth);
	__u32 i;

#pragma unroll
	for (i = 0; i < WEIR_VLAN_COUNT_MAX; i++, tag++) {
		if (*type != bpf_htons(WEIR_ETH_TYPE_8021Q) &&
		    *type != bpf_htons(WEIR_ETH_TYPE_8021AD))
			break;
		if ((void *)(tag + 1) > data_end)
			return WEIR_DROP(SHORT);
		if (i == 0) {
			p->vlan_tci = bpf_ntohs(tag->tci);
			p->priority = p->vlan_tci >> WEIR_VLAN_PRIORITY_SHIFT;
		}
		*type = tag->type;
		p->vlan_bytes += sizeof(*tag);
	}
	p->l3_at = sizeof(struct weir_eth) + p->vlan_bytes;
	return WEIR_PARSE_DONE;
}

/* From the IP header at p->l3_at on, which is one by the type that the link gives it. */
static __always_inline int weir_fw_parse_l3(struct weir_fw_packet *p, void *data, void *data_end,
					    __u32 frame_bytes, __be16 type)
{
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV4))
		return weir_fw_parse_ipv4(p, data, data_end, frame_bytes);
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV6))
		return weir_fw_parse_ipv6(p, data, data_end, frame_bytes);
	return WEIR_PARSE_NOT_IP;
}

/* All but the message: the caller goes on with weir_fw_parse_message(). */
static __always_inline int weir_fw_parse_ip(struct weir_fw_packet *p, void *data, void *data_end,
					    __u32 frame_bytes)
{
	struct weir_eth *eth = data;
	__be16 type;

	if ((void *)(eth + 1) > data_end)
		return WEIR_PARSE_NOT_IP;
	type = eth->type;
	p->l3_at = sizeof(*eth);
	if (type == bpf_htons(WEIR_ETH_TYPE_8021Q) || type == bpf_htons(WEIR_ETH_TYPE_8021AD)) {
		int drop = weir_fw_parse_vlan(p, data, data_end, &type);

		if (drop != WEIR_PARSE_DONE)
			return drop;
	}
	return weir_fw_parse_l3(p, data, data_end, frame_bytes, type);
}

/* Whether pf has nothing against an extension header behind those before it (pf_walk_header6()). */
static __always_inline int weir_fw_extension_fits(struct weir_fw_packet *p, bool is_first)
{
	__u32 saw = p->flags;

	switch (p->protocol) {
	case WEIR_IPV6_FRAGMENT:
		p->flags |= WEIR_PACKET_SAW_FRAGMENT;
		return saw & WEIR_PACKET_SAW_FRAGMENT ? WEIR_DROP(FRAGMENT) : WEIR_PARSE_DONE;
	case WEIR_IPV6_ROUTING:
		p->flags |= WEIR_PACKET_SAW_ROUTING;
		return saw & WEIR_PACKET_SAW_ROUTING ? WEIR_DROP(IP_OPTION) : WEIR_PARSE_DONE;
	case WEIR_IPV6_HOP_BY_HOP:
		return is_first ? WEIR_PARSE_DONE : WEIR_DROP(IP_OPTION);
	default:
		return WEIR_PARSE_DONE;
	}
}

/* Notes an extension header, and returns its size; 0: no packet may have it. */
static __always_inline __u32 weir_fw_extension(struct weir_fw_packet *p, bool is_openbsd,
					       const void *header)
{
	const struct weir_ipv6_extension *extension = header;
	const struct weir_ipv6_fragment *fragment = header;
	__u16 offset;

	switch (p->protocol) {
	case WEIR_IPV6_AUTHENTICATION:
		return (extension->words + 2) * 4;
	case WEIR_IPV6_FRAGMENT:
		offset = bpf_ntohs(fragment->offset);
		/* One that is all of its packet is no fragment (RFC 6946). */
		if (!(offset & (WEIR_IPV6_OFFSET_MASK | WEIR_IPV6_MORE_FRAGMENTS)))
			return sizeof(*fragment);
		p->fragment_id = fragment->id;
		p->fragment_at = offset & WEIR_IPV6_OFFSET_MASK;
		p->flags |= WEIR_PACKET_FRAGMENT;
		if (p->fragment_at)
			p->flags |= WEIR_PACKET_LATER_FRAGMENT;
		if (offset & WEIR_IPV6_MORE_FRAGMENTS)
			p->flags |= WEIR_PACKET_MORE_FRAGMENTS;
		return sizeof(*fragment);
	case WEIR_IPV6_ROUTING:
		/* RFC 5095. */
		if (extension->kind == WEIR_IPV6_ROUTING_SOURCE)
			return 0;
		if (!is_openbsd)
			p->flags |= WEIR_PACKET_OPTIONS;
		break;
	default:
		if (is_openbsd)
			p->flags |= WEIR_PACKET_OPTIONS;
	}
	return (extension->words + 1) * 8;
}

/*
 * Steps over extension headers (of IPv4: authentication, RFC 4302) from p->l4_at on, up to the
 * message, or to the fragment header of a fragment other than the first. pf.conf(5) of the dialect
 * says which of them are options.
 */
static __always_inline int weir_fw_parse_extensions(struct weir_fw_packet *p, void *data,
						    void *data_end)
{
	bool is_openbsd = weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OPENBSD;
	__u32 end = p->l3_at + p->ip_bytes, first_at = p->l4_at;
	__u32 i;

	for (i = weir_fw_bound(WEIR_EXTENSION_COUNT_MAX); i && weir_fw_may_loop; i--) {
		void *header = data + (p->l4_at & WEIR_FW_OFFSET_MASK);
		bool is_behind = p->flags & WEIR_PACKET_FRAGMENT;
		__u32 next_at, bytes;
		int drop;

		if (!weir_is_extension(p->family, p->protocol) ||
		    p->flags & WEIR_PACKET_LATER_FRAGMENT)
			return WEIR_PARSE_DONE;
		if (p->l4_at + 8u > end || header + 8 > data_end)
			return WEIR_DROP(SHORT);
		drop = weir_fw_extension_fits(p, p->l4_at == first_at);
		if (drop != WEIR_PARSE_DONE)
			return drop;
		bytes = weir_fw_extension(p, is_openbsd, header);
		if (!bytes)
			return WEIR_DROP(IP_OPTION);
		next_at = p->l4_at + bytes;
		if (next_at > end)
			return WEIR_DROP(SHORT);
		if (next_at > WEIR_FW_OFFSET_MASK)
			return WEIR_DROP(BAD_OFFSET);
		if (is_behind) {
			bytes = p->fragment_gap + bytes / 4;
			if (bytes > WEIR_FRAGMENT_GAP_MAX)
				return WEIR_DROP(BAD_OFFSET);
			p->fragment_gap = bytes;
		}
		p->protocol = *(__u8 *)header;
		p->l4_at = next_at;
	}
	return weir_is_extension(p->family, p->protocol) &&
			       !(p->flags & WEIR_PACKET_LATER_FRAGMENT) ?
		       WEIR_DROP(IP_OPTION) :
		       WEIR_PARSE_DONE;
}

/* The options of a TCP header, copied out of the frame, and what may be read behind them. */
struct weir_fw_tcp_options {
	__u8 bytes[WEIR_TCP_OPTIONS_BYTES_MAX + 4];
};

/* Maximum segment size and window scale, as pf_get_wscale() and pf_get_mss() read them. */
static __always_inline void weir_fw_parse_options(struct weir_fw_packet *p,
						  const struct weir_fw_tcp_options *options,
						  __u32 bytes)
{
	__u32 at = 0, i;

	for (i = weir_fw_bound(WEIR_TCP_OPTIONS_BYTES_MAX); i && weir_fw_may_loop; i--) {
		__u32 size = weir_tcp_option(options->bytes, at, bytes);
		__u8 kind;

		if (!size)
			break;
		kind = options->bytes[at];
		if (kind == WEIR_TCP_OPTION_MSS && size == 4) {
			p->mss = options->bytes[at + 2] << 8 | options->bytes[at + 3];
		} else if (kind == WEIR_TCP_OPTION_WSCALE && size == 3) {
			__u8 shift = options->bytes[at + 2];

			p->wscale = WEIR_WSCALE_FLAG |
				    (shift > WEIR_TCP_WSCALE_MAX ? WEIR_TCP_WSCALE_MAX : shift);
		}
		at += size;
	}
}

#endif /* WEIR_FW_PARSE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers to blocked packets: a TCP RST (pf_send_tcp() of pf.c), an ACK to a SYN in the middle of a
 * connection (pf_send_challenge_ack(); not limited in its rate, as there: it is no longer than what
 * it answers), or an ICMP or ICMPv6 unreachable
 * (RFC 792, RFC 4443), made of the packet itself and sent back by the interface that it came from.
 *
 * As pf, a segment is only answered if its own checksum is right, or is not there yet (partial.h).
 */
#ifndef WEIR_FW_REPLY_H
#define WEIR_FW_REPLY_H

#include <bpf/bpf_endian.h>
#include <weir/checksum.h>
#include <weir/fw/fib.h>
#include <weir/fw/parse.h>
#include <weir/fw/sanity.h>
#include <weir/fw/scratch.h>
#include <weir/fw/state.h>
#include <weir/fw/sum.h>

/* net.inet.ip.ttl, and what hosts use. */
#define WEIR_FW_REPLY_TTL 64

/* An IPv4 error has at most 576 bytes (RFC 1812, section 4.3.2.3). */
#define WEIR_FW_QUOTE_BYTES_MAX (576 - sizeof(struct weir_ipv4) - sizeof(struct weir_icmp))
/* An ICMPv6 error has at most 1280 (RFC 4443, section 3.1). */
#define WEIR_FW_QUOTE6_BYTES_MAX (1280 - sizeof(struct weir_ipv6) - sizeof(struct weir_icmp))

/* Destination and source of the frame change places. */
static __always_inline void weir_fw_turn_mac(__u32 *mac)
{
	__u32 a = mac[0], b = mac[1], c = mac[2];

	mac[0] = b >> 16 | c << 16;
	mac[1] = c >> 16 | a << 16;
	mac[2] = a >> 16 | b << 16;
}

static __always_inline void weir_fw_put_ipv4(struct weir_ipv4 *ip, __be32 src, __be32 dst,
					     __u8 protocol, __u8 ttl, __u32 bytes)
{
	ip->version_words = WEIR_IPV4_NO_OPTIONS;
	ip->tos = 0;
	ip->total_bytes = bpf_htons(bytes);
	ip->id = 0;
	ip->fragment = bpf_htons(WEIR_IPV4_DONT_FRAGMENT);
	ip->ttl = ttl;
	ip->protocol = protocol;
	ip->checksum = 0;
	ip->src = src;
	ip->dst = dst;
	ip->checksum = weir_checksum(weir_fw_sum_words((__u32 *)ip, sizeof(*ip) / 4));
}

static __always_inline void weir_fw_put_ipv6(struct weir_ipv6 *ip, const __be32 *src,
					     const __be32 *dst, __u8 protocol, __u8 ttl,
					     __u32 payload_bytes)
{
	__u32 i;

	ip->version_class_flow = bpf_htonl(6u << 28);
	ip->payload_bytes = bpf_htons(payload_bytes);
	ip->next_header = protocol;
	ip->hop_limit = ttl;
	for (i = 0; i < 4; i++) {
		ip->src[i] = src[i];
		ip->dst[i] = dst[i];
	}
}

/* Has a packet that its state refuses answered by an ACK, if it is to be. */
static __always_inline void weir_fw_note_challenge(struct weir_fw_packet *p,
						   const struct weir_fw_hit *hit)
{
	if (!(hit->flags & WEIR_HIT_CHALLENGE))
		return;
	p->flags |= WEIR_PACKET_CHALLENGE;
	p->ack = hit->numbers[0];
	p->seq = hit->numbers[1];
}

/* A TCP segment without data, from who has sent a packet to whom that is for, or the other way. */
struct weir_fw_segment {
	__u32 seq;
	__u32 ack;
	__u16 window;
	__u16 mss;		/* as an option; 0: there is none */
	__u8 flags;		/* WEIR_TCP_* */
	__u8 ttl;
	__u8 is_answer;		/* it goes back */
	__u8 is_partial;	/* its checksum is made later: partial.h */
};

/* Of its TCP header. */
static __always_inline __u32 weir_fw_segment_bytes(const struct weir_fw_segment *t)
{
	return sizeof(struct weir_tcp) + (t->mss ? WEIR_TCP_OPTION_MSS_BYTES : 0);
}

static __always_inline bool weir_fw_put_segment(struct weir_tcp *tcp, void *data_end,
						const struct weir_fw_packet *p,
						const struct weir_fw_segment *t)
{
	__u32 bytes = weir_fw_segment_bytes(t);
	__be32 *option = (void *)(tcp + 1);
	__u64 sum = 0, pseudo;

	if ((void *)(tcp + 1) > data_end)
		return false;
	if (t->mss) {
		if ((void *)(option + 1) > data_end)
			return false;
		*option = bpf_htonl((__u32)WEIR_TCP_OPTION_MSS << 24 |
				    WEIR_TCP_OPTION_MSS_BYTES << 16 | t->mss);
		sum += *option;
	}
	tcp->src = t->is_answer ? p->dst_port : p->src_port;
	tcp->dst = t->is_answer ? p->src_port : p->dst_port;
	tcp->seq = bpf_htonl(t->seq);
	tcp->ack = bpf_htonl(t->ack);
	tcp->offset = bytes / 4 << 4;
	tcp->flags = t->flags;
	tcp->window = bpf_htons(t->window);
	tcp->checksum = 0;
	tcp->urgent = 0;
	sum += weir_fw_sum_words((__u32 *)tcp, sizeof(*tcp) / 4);
	pseudo = weir_fw_sum_pseudo(p, bytes);
	tcp->checksum = t->is_partial ? ~weir_checksum(pseudo) : weir_checksum(sum + pseudo);
	return true;
}

static __always_inline __u32 weir_fw_ip_header_bytes(__u32 family)
{
	return family == WEIR_FW_INET ? sizeof(struct weir_ipv4) : sizeof(struct weir_ipv6);
}

/* Fills a packet of the right size. */
static __always_inline bool weir_fw_fill_segment(void *l3, void *data_end,
						 const struct weir_fw_packet *p,
						 const struct weir_fw_segment *t)
{
	const __be32 *src = t->is_answer ? p->dst : p->src;
	const __be32 *dst = t->is_answer ? p->src : p->dst;
	__u32 bytes = weir_fw_segment_bytes(t);

	if (p->family == WEIR_FW_INET) {
		struct weir_ipv4 *ip = l3;

		if ((void *)(ip + 1) > data_end)
			return false;
		weir_fw_put_ipv4(ip, src[0], dst[0], WEIR_PROTOCOL_TCP, t->ttl,
				 sizeof(*ip) + bytes);
		return weir_fw_put_segment((void *)(ip + 1), data_end, p, t);
	} else {
		struct weir_ipv6 *ip = l3;

		if ((void *)(ip + 1) > data_end)
			return false;
		weir_fw_put_ipv6(ip, src, dst, WEIR_PROTOCOL_TCP, t->ttl, bytes);
		return weir_fw_put_segment((void *)(ip + 1), data_end, p, t);
	}
}

/* The segment that refuses a packet, as pf_return() makes it, or the ACK. */
static __always_inline void weir_fw_refusal(struct weir_fw_segment *t,
					    const struct weir_fw_packet *p, __u8 ttl)
{
	bool is_challenge = p->flags & WEIR_PACKET_CHALLENGE;

	t->seq = p->ack;
	t->ack = p->seq;
	t->flags = is_challenge ? WEIR_TCP_ACK : WEIR_TCP_RST | WEIR_TCP_ACK;
	t->ttl = ttl ? ttl : WEIR_FW_REPLY_TTL;
	t->is_answer = true;
	if (!is_challenge)
		t->ack += p->payload_bytes + !!(p->tcp_flags & WEIR_TCP_SYN) +
			  !!(p->tcp_flags & WEIR_TCP_FIN);
}

/* Whether a segment that is to be answered by a RST has the right checksum. */
__noinline int weir_fw_tcp_checksum_fits(struct xdp_md *ctx,
					 const struct weir_fw_packet *p __arg_nonnull)
{
	__u64 sum;

	/* It is that of the whole segment. */
	if (p->flags & (WEIR_PACKET_FRAGMENT | WEIR_PACKET_PARTIAL))
		return true;
	sum = (__u32)weir_fw_sum_frame(ctx, p->l4_at, weir_fw_message_bytes(p));
	return weir_checksum(sum + weir_fw_sum_pseudo(p, weir_fw_message_bytes(p))) == 0;
}

/* What the kernel never looks a route up for, as a source or destination (`rt6_need_strict`). */
static __always_inline bool weir_fw_is_strict(const __be32 *address)
{
	__u32 high = bpf_ntohl(address[0]);

	return high >> 24 == 0xff || high >> 22 == 0xfe80 >> 6 ||
	       !(address[0] | address[1] | address[2] | (address[3] ^ bpf_htonl(1)));
}

/* The box's own address towards the sender, in scratch->fib; what bpf_fib_lookup() says. */
static __always_inline long weir_fw_find_own_address(void *ctx, struct weir_fw_scratch *scratch,
						     const struct weir_fw_packet *p, __u32 ifindex)
{
	struct bpf_fib_lookup *f = &scratch->fib;

	__builtin_memset(f, 0, sizeof(*f));
	f->ifindex = ifindex;
	/* With none the kernel would say whether the packet, which is not sent, fits the MTU. */
	f->tot_len = 1;
	if (p->family == WEIR_FW_INET) {
		f->family = WEIR_AF_INET;
		f->ipv4_src = p->dst[0];
		f->ipv4_dst = p->src[0];
	} else {
		f->family = WEIR_AF_INET6;
		if (!weir_fw_is_strict(p->dst))
			__builtin_memcpy(f->ipv6_src, p->dst, sizeof(f->ipv6_src));
		__builtin_memcpy(f->ipv6_dst, p->src, sizeof(f->ipv6_dst));
	}
	return bpf_fib_lookup(ctx, f, sizeof(*f),
			      BPF_FIB_LOOKUP_SRC | BPF_FIB_LOOKUP_SKIP_NEIGH);
}

/* The same; false if it has none, or does not forward. */
static __always_inline bool weir_fw_own_address(void *ctx, struct weir_fw_scratch *scratch,
						const struct weir_fw_packet *p, __u32 ifindex)
{
	return weir_fw_find_own_address(ctx, scratch, p, ifindex) == BPF_FIB_LKUP_RET_SUCCESS;
}

/* Ethernet header and tags of the frame that follows `room_bytes` later, turned round. */
static __always_inline bool weir_fw_move_link(void *data, void *data_end, __u32 room_bytes,
					      __u32 l3_at)
{
	__u16 *from = data + room_bytes, *to = data;
	__u32 i, count = l3_at / 2;

	for (i = 0; i < (sizeof(struct weir_eth) + 2 * sizeof(struct weir_vlan)) / 2; i++) {
		if (i >= count)
			break;
		if ((void *)(from + i + 1) > data_end)
			return false;
		to[i] = from[i];
	}
	if (data + sizeof(struct weir_eth) > data_end)
		return false;
	weir_fw_turn_mac(data);
	return true;
}

/* The headers of an error around what it quotes, whose sum is given. */
static __always_inline bool weir_fw_fill_error(void *l3, void *data_end,
					       const struct weir_fw_packet *p,
					       const __be32 *our_address,
					       const struct weir_fw_decision *d,
					       __u32 quote_bytes, __u64 sum)
{
	__u32 mtu_bytes = d->mtu_bytes;
	struct weir_icmp *icmp = l3 + weir_fw_ip_header_bytes(p->family);
	__u32 bytes = sizeof(*icmp) + quote_bytes;

	if ((void *)(icmp + 1) > data_end)
		return false;
	if (p->family == WEIR_FW_INET) {
		weir_fw_put_ipv4(l3, our_address[0], p->src[0], WEIR_PROTOCOL_ICMP,
				 WEIR_FW_REPLY_TTL, sizeof(struct weir_ipv4) + bytes);
		icmp->type = d->icmp_type ? d->icmp_type : WEIR_ICMP_UNREACHABLE;
	} else {
		weir_fw_put_ipv6(l3, our_address, p->src, WEIR_PROTOCOL_ICMPV6, WEIR_FW_REPLY_TTL,
				 bytes);
		icmp->type = mtu_bytes	  ? WEIR_ICMPV6_TOO_BIG :
			     d->icmp_type ? d->icmp_type :
					    WEIR_ICMPV6_UNREACHABLE;
		sum += weir_fw_sum_address(our_address, p->family) +
		       weir_fw_sum_address(p->src, p->family);
		sum += bpf_htons(WEIR_PROTOCOL_ICMPV6) + bpf_htons(bytes);
	}
	icmp->code = d->icmp_code;
	icmp->checksum = 0;
	/* Of IPv6 an MTU has 32 bits, of IPv4 the lower 16 (RFC 1191, section 4). */
	icmp->id = p->family == WEIR_FW_INET ? 0 : bpf_htons(mtu_bytes >> 16);
	icmp->seq = bpf_htons(mtu_bytes);
	sum += *(__u16 *)icmp + icmp->id + icmp->seq;
	icmp->checksum = weir_checksum(sum);
	return true;
}

static __always_inline int weir_fw_frame_bytes(struct xdp_md *ctx)
{
	long bytes = weir_xdp_data_end(ctx) - weir_xdp_data(ctx);

	/* The verifier allows only 64-bit arithmetic with pointers: let nothing be made of it. */
	asm volatile("" : "+r"(bytes));
	return bytes;
}

/* How much of a packet its error quotes. */
static __always_inline __u32 weir_fw_quote_bytes(const struct weir_fw_packet *p)
{
	__u32 bytes_max = p->family == WEIR_FW_INET ? WEIR_FW_QUOTE_BYTES_MAX :
						      WEIR_FW_QUOTE6_BYTES_MAX;

	return p->ip_bytes < bytes_max ? p->ip_bytes : bytes_max;
}

/* Has the frame hold a segment in the place of its packet. */
static __always_inline bool weir_fw_put_frame(struct xdp_md *ctx, const struct weir_fw_packet *p,
					      const struct weir_fw_segment *t)
{
	__u32 bytes = p->l3_at + weir_fw_ip_header_bytes(p->family) + weir_fw_segment_bytes(t);
	int now = weir_fw_frame_bytes(ctx);

	return !bpf_xdp_adjust_tail(ctx, (int)bytes - now) &&
	       weir_fw_fill_segment(weir_xdp_data(ctx) + (p->l3_at & WEIR_FW_OFFSET_MASK),
				    weir_xdp_data_end(ctx), p, t);
}

/* The same, and back to where the frame came from: what to return for it. */
static __always_inline int weir_fw_reply_segment(struct xdp_md *ctx,
						 const struct weir_fw_packet *p,
						 const struct weir_fw_segment *t)
{
	void *data;

	if (!weir_fw_put_frame(ctx, p, t))
		return XDP_DROP;
	data = weir_xdp_data(ctx);
	if (data + sizeof(struct weir_eth) > weir_xdp_data_end(ctx))
		return XDP_DROP;
	weir_fw_turn_mac(data);
	return weir_fw_send_back(ctx);
}

static __always_inline int weir_fw_reply_rst(struct xdp_md *ctx, const struct weir_fw_packet *p,
					     __u8 ttl)
{
	struct weir_fw_segment t = {};

	weir_fw_refusal(&t, p, ttl);
	return weir_fw_reply_segment(ctx, p, &t);
}

static __always_inline int weir_fw_reply_error(struct xdp_md *ctx, const struct weir_fw_packet *p,
					       const struct weir_fw_decision *d)
{
	__u32 room_bytes = weir_fw_ip_header_bytes(p->family) + sizeof(struct weir_icmp);
	__u32 quote_bytes = weir_fw_quote_bytes(p);
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	int now = weir_fw_frame_bytes(ctx);
	__u32 sum;

	if (!scratch || !weir_fw_own_address(ctx, scratch, p, ctx->ingress_ifindex))
		return XDP_DROP;
	sum = weir_fw_sum_frame(ctx, p->l3_at, quote_bytes);
	if (bpf_xdp_adjust_tail(ctx, (int)(p->l3_at + quote_bytes) - now) ||
	    bpf_xdp_adjust_head(ctx, -(int)room_bytes))
		return XDP_DROP;
	if (!weir_fw_move_link(weir_xdp_data(ctx), weir_xdp_data_end(ctx), room_bytes,
			       p->l3_at) ||
	    !weir_fw_fill_error(weir_xdp_data(ctx) + (p->l3_at & WEIR_FW_OFFSET_MASK),
				weir_xdp_data_end(ctx), p, scratch->fib.ipv6_src, d, quote_bytes,
				sum))
		return XDP_DROP;
	return weir_fw_send_back(ctx);
}

/*
 * Whether a packet may be answered at all: never one to a group or from one, because nobody could
 * tell whom the answer would reach, nor a piece of a packet, nor an error. Nor what was sent to
 * another MAC address, and has only been flooded to this interface: somebody else is going to
 * answer that, and would be contradicted.
 */
static __always_inline bool weir_fw_may_answer(const struct weir_fw_packet *p)
{
	return !(p->flags & (WEIR_PACKET_GROUP | WEIR_PACKET_FOREIGN |
			     WEIR_PACKET_LATER_FRAGMENT | WEIR_PACKET_ICMP_ERROR)) &&
	       !weir_fw_is_martian(p);
}

/* Answers a packet that has been counted as dropped; what to return for it. */
__noinline int weir_fw_reply(struct xdp_md *ctx, const struct weir_fw_packet *p __arg_nonnull,
			     const struct weir_fw_decision *d __arg_nonnull)
{
	int action;

	if (!weir_fw_may_answer(p))
		return XDP_DROP;
	if (weir_fw_is_deaf(weir_fw_interface(weir_fw_ifslot(ctx->ingress_ifindex))->flags)) {
		weir_fw_table_counters(p->cpu)->unanswered++;
		return XDP_DROP;
	}
	if (d->flags & WEIR_DECISION_RETURN_RST && p->protocol == WEIR_PROTOCOL_TCP) {
		if (p->tcp_flags & WEIR_TCP_RST)
			return XDP_DROP;
		action = weir_fw_reply_rst(ctx, p, d->rst_ttl);
	} else {
		action = weir_fw_reply_error(ctx, p, d);
	}
	if (action != XDP_DROP)
		weir_fw_table_counters(p->cpu)->replies++;
	else
		weir_fw_table_counters(p->cpu)->unanswered++;
	return action;
}

#endif /* WEIR_FW_REPLY_H */

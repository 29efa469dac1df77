/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `synproxy state` of pf.conf(5): who wants to connect shakes hands with the box first, so that
 * those who never answer reach no server, and take no memory here.
 *
 * 1. A SYN that such a rule passes is answered by a SYN of the box, whose number is a cookie (RFC
 *    4987, section 3.6): nothing else is kept. It opens no window, so that no data comes yet.
 * 2. The ACK that brings a cookie back becomes the SYN that it has followed, and is judged like any
 *    other. Its record is a proxied one (proxied.h).
 * 3. The SYN of the other end becomes an ACK that opens the window; and the other end gets the ACK
 *    that it waits for, from where its SYN leaves. As that takes two packets, the kernel gets it to
 *    forward, and egress.h makes them (proxy_skb.h).
 *
 * As pf's, such a connection has no options but the size of segments: no scaled windows, no
 * selective acknowledgements, no timestamps.
 */
#ifndef WEIR_FW_PROXY_H
#define WEIR_FW_PROXY_H

#include <weir/fw/image.h>
#include <weir/fw/reply.h>
#include <weir/fw/translated.h>

/* A cookie is good for one or two periods: 2^12 ticks are about 69 seconds. */
#define WEIR_COOKIE_PERIOD_SHIFT 12
#define WEIR_COOKIE_AGE_MAX 1

/* From the lowest bit up: 3 bits of the segment's size, 2 of the period; the rest is a secret. */
#define WEIR_COOKIE_MSS_MASK 7
#define WEIR_COOKIE_PERIOD_AT 3
#define WEIR_COOKIE_PERIOD_MASK 3
#define WEIR_COOKIE_OPEN_MASK 0x1f

/* The sizes that a cookie can keep: that of a SYN without one, and those of common links. */
static __always_inline __u16 weir_cookie_mss(__u32 cookie)
{
	switch (cookie & WEIR_COOKIE_MSS_MASK) {
	case 0:
		return 536;
	case 1:
		return 1220;
	case 2:
		return 1300;
	case 3:
		return 1360;
	case 4:
		return 1400;
	case 5:
		return 1440;
	case 6:
		return 1460;
	default:
		return 8940;
	}
}

/* The largest of them that is not above the one of a SYN. */
static __always_inline __u32 weir_cookie_mss_index(__u16 mss)
{
	__u32 index = 0, i;

#pragma unroll
	for (i = 1; i <= WEIR_COOKIE_MSS_MASK; i++)
		if (mss >= weir_cookie_mss(i))
			index = i;
	return index;
}

/* For a connection by the first number of who asks for it. */
static __always_inline __u32 weir_cookie(const struct weir_fw_packet *p, __u32 first, __u32 period,
					 __u32 mss_index)
{
	__u64 known = (__u64)first << 32 | period << WEIR_COOKIE_PERIOD_AT | mss_index;
	__u32 open = (period & WEIR_COOKIE_PERIOD_MASK) << WEIR_COOKIE_PERIOD_AT | mss_index;

	return ((__u32)weir_siphash(p->hash, known, 2) & ~WEIR_COOKIE_OPEN_MASK) | open;
}

static __always_inline __u32 weir_cookie_period(const struct weir_fw_packet *p)
{
	return p->tick >> WEIR_COOKIE_PERIOD_SHIFT;
}

/* Whether an ACK acknowledges a cookie of ours that is not too old. */
static __always_inline bool weir_cookie_is_ours(const struct weir_fw_packet *p)
{
	__u32 cookie = p->ack - 1, now = weir_cookie_period(p);
	__u32 age = (now - (cookie >> WEIR_COOKIE_PERIOD_AT)) & WEIR_COOKIE_PERIOD_MASK;

	return age <= WEIR_COOKIE_AGE_MAX &&
	       cookie == weir_cookie(p, p->seq - 1, now - age, cookie & WEIR_COOKIE_MSS_MASK);
}

/*
 * Whether half-open states fill the table: from one number of them on, until there are fewer than
 * another (`pf_synflood_check`).
 */
static __always_inline bool weir_proxy_is_flooded(const struct weir_fw_packet *p)
{
	struct weir_fw_control __weir_arena *control = weir_fw_control();
	struct weir_fw_image __weir_arena *image = weir_fw_image_of(p);
	__u32 count = weir_read_once(control->half_open_count);

	if (control->is_flooded ? count < image->flood_until : count > image->flood_from)
		control->is_flooded = !control->is_flooded;
	return control->is_flooded;
}

/* Whether a packet is one that the rules have the box answer by a cookie. */
static __always_inline bool weir_proxy_is_asked(const struct weir_fw_packet *p,
						const struct weir_fw_decision *d)
{
	const __u32 either = WEIR_DECISION_SYNPROXY | WEIR_DECISION_ADAPTIVE;

	if (!(d->flags & either) || d->flags & WEIR_DECISION_BLOCK ||
	    p->direction != WEIR_FW_IN || p->protocol != WEIR_PROTOCOL_TCP ||
	    !weir_tcp_opens(p->tcp_flags) || p->flags & WEIR_PACKET_PROXIED)
		return false;
	return d->flags & WEIR_DECISION_SYNPROXY || weir_proxy_is_flooded(p);
}

/* The box's SYN. Segments are not longer than `max-mss` of the rule allows. */
static __always_inline void weir_proxy_greeting(struct weir_fw_segment *t,
						const struct weir_fw_packet *p,
						const struct weir_fw_decision *d)
{
	__u16 max = d->scrub >> WEIR_FW_SCRUB_MSS_SHIFT, mss = p->mss;
	__u32 index;

	if (max && mss > max)
		mss = max;
	index = weir_cookie_mss_index(mss);
	t->seq = weir_cookie(p, p->seq, weir_cookie_period(p), index);
	t->ack = p->seq + 1;
	t->window = 0;
	t->mss = weir_cookie_mss(index);
	t->flags = WEIR_TCP_SYN | WEIR_TCP_ACK;
	t->ttl = WEIR_FW_REPLY_TTL;
	t->is_answer = true;
}

/* Whether a packet that comes in may be one of which weir_proxy_calls() makes a SYN. */
static __always_inline bool weir_proxy_may_call(const struct weir_fw_packet *p,
						const struct weir_fw_hit *hit)
{
	const __u8 hand_flags = WEIR_TCP_SYN | WEIR_TCP_FIN | WEIR_TCP_RST | WEIR_TCP_ACK;

	if (hit->flags & WEIR_HIT_PROXY_WAITS)
		return true;
	return hit->slot == WEIR_FW_SLOT_NONE && (p->tcp_flags & hand_flags) == WEIR_TCP_ACK &&
	       !(p->flags & WEIR_PACKET_SKIPPED) && p->ruleset &&
	       weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_PROXIES;
}

/*
 * What a packet that has just been looked up is to the proxy: an ACK that no record has, with a
 * cookie, or one whose SYN has not been answered. Then `t` is the SYN that it becomes.
 */
static __always_inline bool weir_proxy_calls(const struct weir_fw_packet *p,
					     const struct weir_fw_hit *hit,
					     struct weir_fw_segment *t)
{
	__u32 cookie = p->ack - 1;

	t->seq = p->seq - 1;
	if (hit->flags & WEIR_HIT_PROXY_WAITS) {
		t->seq = hit->numbers[1];
		cookie = hit->numbers[0];
	} else if (p->flags & WEIR_PACKET_FRAGMENT || !weir_cookie_is_ours(p)) {
		return false;
	}
	t->ack = 0;
	t->window = p->window;
	t->mss = weir_cookie_mss(cookie);
	t->flags = WEIR_TCP_SYN;
	t->ttl = p->ttl;
	t->is_answer = false;
	return true;
}

/* The packet is that segment now. What it acknowledged stays known: who refuses it says so. */
static __always_inline void weir_proxy_become(struct weir_fw_packet *p,
					      const struct weir_fw_segment *t)
{
	__u32 header_bytes = weir_fw_ip_header_bytes(p->family);

	p->l4_at = p->l3_at + header_bytes;
	p->tcp_header_bytes = weir_fw_segment_bytes(t);
	p->ip_bytes = header_bytes + p->tcp_header_bytes;
	p->payload_bytes = 0;
	p->seq = t->seq;
	p->tcp_flags = t->flags;
	p->mss = t->mss;
	p->tos = 0;
	p->flags &= ~(WEIR_PACKET_OPTIONS | WEIR_PACKET_SAW_ROUTING);
}

/* Answers a SYN that the rules have passed to the proxy; what to return for it. */
__noinline int weir_proxy_greet_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_segment t = {};
	int action = XDP_DROP;

	if (!scratch)
		return XDP_DROP;
	weir_fw_untranslate(p, &scratch->before);
	if (p->flags & WEIR_PACKET_TRANSLATED && weir_fw_recall_ingress(ctx, p))
		return XDP_DROP;
	if (!weir_fw_tcp_checksum_fits(ctx, p)) {
		weir_fw_count_drop(p, WEIR_DROP(PROTO_CKSUM));
		return XDP_DROP;
	}
	weir_proxy_greeting(&t, p, &scratch->decision);
	if (weir_fw_may_answer(p) && !(p->flags & WEIR_PACKET_SECOND) &&
	    !weir_fw_is_deaf(weir_fw_interface(weir_fw_ifslot(ctx->ingress_ifindex))->flags))
		action = weir_fw_reply_segment(ctx, p, &t);
	if (action == XDP_DROP) {
		weir_fw_table_counters(p->cpu)->unanswered++;
		return XDP_DROP;
	}
	weir_fw_count(p, p->interface, WEIR_FW_IN, WEIR_FW_PASS);
	weir_fw_table_counters(p->cpu)->replies++;
	return action;
}

/* Makes the SYN of an ACK, if it is one; -1 if the frame cannot be changed. */
__noinline int weir_proxy_call_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull,
				       const struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_segment t = {};

	if (!weir_proxy_calls(p, hit, &t))
		return 0;
	t.is_partial = !!(p->flags & WEIR_PACKET_PARTIAL);
	if (!weir_fw_tcp_checksum_fits(ctx, p) || !weir_fw_put_frame(ctx, p, &t))
		return -1;
	weir_proxy_become(p, &t);
	p->flags |= WEIR_PACKET_PROXIED;
	return 0;
}

/* Whether a packet is the other end's SYN, of which the kernel's way out makes two. */
static __always_inline bool weir_proxy_completes(const struct weir_fw_packet *p,
						 const struct weir_fw_hit *hit)
{
	const __u8 both = WEIR_TCP_SYN | WEIR_TCP_ACK;

	return hit->flags & WEIR_HIT_PROXIED && hit->reverse && (p->tcp_flags & both) == both;
}

#endif /* WEIR_FW_PROXY_H */

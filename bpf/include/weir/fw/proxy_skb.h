/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `synproxy state` (proxy.h) at tcx programs: SYNs that come in there, and the last step of all
 * handshakes, where the kernel sends the other end's SYN on.
 *
 * The ACK for the other end goes into the receive path of the interface that its SYN leaves by, as
 * if whom that is for had sent it: the kernel brings it to the box itself, or forwards it.
 */
#ifndef WEIR_FW_PROXY_SKB_H
#define WEIR_FW_PROXY_SKB_H

#include <weir/fw/proxy.h>
#include <weir/fw/reply_skb.h>

/* What weir_fw_obey_skb() returns besides reasons + 1: the packet is answered by a cookie. */
#define WEIR_PROXY_GREETS 0x2000

/* The mark of such an ACK on its way, as that of answers (reply_skb.h). */
static __always_inline __u32 weir_proxy_mark(void)
{
	return weir_fw_answer_mark() ^ 0x10;
}

/* Whether a packet is such an ACK. It has no mark any more then. */
static __always_inline bool weir_proxy_takes_mark(struct __sk_buff *skb)
{
	if (skb->mark != weir_proxy_mark())
		return false;
	skb->mark = 0;
	return true;
}

/* A segment takes the packet's place. */
static __always_inline bool weir_proxy_put_skb(struct __sk_buff *skb,
					       struct weir_fw_scratch *scratch,
					       const struct weir_fw_packet *p,
					       const struct weir_fw_segment *t, bool turns)
{
	__u32 bytes = weir_fw_make_segment(scratch, p, t);

	return bytes && weir_fw_put_answer(skb, scratch, p, bytes, turns);
}

/* As weir_proxy_greet_ingress(). */
__noinline int weir_proxy_greet_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_segment t = {};

	if (!scratch)
		return TCX_DROP;
	weir_fw_untranslate(p, &scratch->before);
	if (p->flags & WEIR_PACKET_TRANSLATED && weir_fw_recall_skb(skb, p))
		return TCX_DROP;
	if (!weir_fw_tcp_checksum_fits_skb(skb, p)) {
		weir_fw_count_drop(p, WEIR_DROP(PROTO_CKSUM));
		return TCX_DROP;
	}
	weir_proxy_greeting(&t, p, &scratch->decision);
	if (!weir_fw_may_answer(p) || !weir_proxy_put_skb(skb, scratch, p, &t, true)) {
		weir_fw_table_counters(p->cpu)->unanswered++;
		return TCX_DROP;
	}
	weir_fw_count(p, p->interface, WEIR_FW_IN, WEIR_FW_PASS);
	weir_fw_table_counters(p->cpu)->replies++;
	skb->mark = weir_fw_answer_mark();
	return bpf_redirect(skb->ifindex, 0);
}

/* As weir_proxy_call_ingress(). */
__noinline int weir_proxy_call_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
				   const struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_segment t = {};

	if (!scratch || !weir_proxy_calls(p, hit, &t))
		return 0;
	if (!weir_fw_tcp_checksum_fits_skb(skb, p) ||
	    !weir_proxy_put_skb(skb, scratch, p, &t, false))
		return -1;
	weir_proxy_become(p, &t);
	p->flags |= WEIR_PACKET_PROXIED;
	return 0;
}

/* Makes the two ACKs of the other end's SYN where that leaves; -1 if it cannot be changed. */
__noinline int weir_proxy_complete_skb(struct __sk_buff *skb,
				       struct weir_fw_packet *p __arg_nonnull,
				       const struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_segment t = {
		.seq = p->ack,
		.ack = p->seq + 1,
		.window = weir_state_line(hit->slot)->max_win[0],
		.flags = WEIR_TCP_ACK,
		.ttl = WEIR_FW_REPLY_TTL,
		.is_answer = true,
	};
	__u32 mark = skb->mark;

	/* Where it was tracked before, its number was changed there. */
	if (!(hit->flags & WEIR_HIT_TRACKED))
		t.ack -= hit->numbers[0];
	if (!scratch || !weir_proxy_put_skb(skb, scratch, p, &t, true))
		return -1;
	skb->mark = weir_proxy_mark();
	/* If it is lost, the other end repeats its SYN. */
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	skb->mark = mark;
	t.seq = p->seq + 1;
	t.ack = p->ack;
	t.window = p->window;
	t.ttl = p->ttl;
	t.is_answer = false;
	if (!weir_proxy_put_skb(skb, scratch, p, &t, true))
		return -1;
	weir_proxy_become(p, &t);
	return 0;
}

#endif /* WEIR_FW_PROXY_SKB_H */

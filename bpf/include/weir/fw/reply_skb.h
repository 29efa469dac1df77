/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers to packets that rules with `return` block at a tcx program: the same RST, ACK and ICMP
 * errors as reply.h makes of frames. What came in is answered by the interface that it came from.
 * What leaves is answered into the receive path of the interface that it would have left by, from
 * the address that it was for: the kernel brings the answer to the box itself, or to whom it
 * forwards for. No rule is asked about an answer: it carries a mark that no other packet has.
 *
 * The packet becomes the answer. Nothing is written to it directly: a program that does so makes
 * the kernel copy the headers of every packet that it sees.
 */
#ifndef WEIR_FW_REPLY_SKB_H
#define WEIR_FW_REPLY_SKB_H

#include <weir/fw/hash.h>
#include <weir/fw/reply.h>

_Static_assert(sizeof(struct weir_ipv6) + sizeof(struct weir_icmp) + WEIR_FW_QUOTE6_BYTES_MAX <=
		       WEIR_FW_SCRATCH_ANSWER_BYTES,
	       "an answer has room beside the stack");

/* So much of a packet is kept until it is cut down to an answer. */
#define WEIR_FW_CUT_BYTES 1500
/* What is put behind it for that, and what is left of that: no IP header is longer. */
#define WEIR_FW_CUT_ROOM_BYTES 128
#define WEIR_FW_CUT_REST_BYTES 64

/*
 * The mark (SO_MARK of socket(7)) of answers on their way: nobody can know it. The kernel takes
 * marks off what enters another network namespace.
 */
static __always_inline __u32 weir_fw_answer_mark(void)
{
	return (__u32)(weir_fw_seed[7] >> 32) | 1;
}

/* The mark of copies (dup_skb.h). */
static __always_inline __u32 weir_fw_copy_mark(void)
{
	return weir_fw_answer_mark() ^ 2;
}

/* Whether a packet is an answer, which loses the mark where it leaves, or a copy. */
static __always_inline bool weir_fw_is_answer(struct __sk_buff *skb, bool is_leaving)
{
	if (skb->mark == weir_fw_copy_mark())
		return true;
	if (skb->mark != weir_fw_answer_mark())
		return false;
	if (is_leaving)
		skb->mark = 0;
	return true;
}

/*
 * Whether a segment that came in and is to be answered by a RST has the right checksum, or has none
 * yet (partial.h), which the kernel does not say. It has looked at that of merged ones.
 */
__noinline int weir_fw_tcp_checksum_fits_skb(struct __sk_buff *skb,
					     const struct weir_fw_packet *p __arg_nonnull)
{
	__u64 pseudo = weir_fw_sum_pseudo(p, weir_fw_message_bytes(p)), sum;
	__u16 checksum;

	if (p->flags & (WEIR_PACKET_FRAGMENT | WEIR_PACKET_MERGED) ||
	    bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0)
		return true;
	sum = (__u32)weir_fw_sum_skb(skb, p->l4_at, weir_fw_message_bytes(p));
	if (!weir_checksum(sum + pseudo))
		return true;
	return !bpf_skb_load_bytes(skb, p->l4_at + __builtin_offsetof(struct weir_tcp, checksum),
				   &checksum, sizeof(checksum)) &&
	       checksum == (__u16)~weir_checksum(pseudo);
}

/*
 * Makes room for so many bytes of IP in the place of a packet, which is neither merged segments any
 * more, nor one whose checksum hardware has to make: that is forgotten when the place where it
 * belongs is cut off (skb_postpull_rcsum() of the kernel's skbuff.h).
 */
static __always_inline bool weir_fw_reshape(struct __sk_buff *skb, __u32 l3_at, __u32 bytes)
{
	__u32 now = skb->len < WEIR_FW_CUT_BYTES ? skb->len : WEIR_FW_CUT_BYTES;
	__s32 cut = now - l3_at + WEIR_FW_CUT_ROOM_BYTES - WEIR_FW_CUT_REST_BYTES;

	return !bpf_skb_change_tail(skb, now, 0) &&
	       !bpf_skb_change_tail(skb, now + WEIR_FW_CUT_ROOM_BYTES, 0) &&
	       !bpf_skb_adjust_room(skb, -cut, BPF_ADJ_ROOM_MAC, 0) &&
	       !bpf_skb_change_tail(skb, l3_at + bytes, 0);
}

/* What the CPU's scratch has takes the packet's place; the link's header may be turned round. */
static __always_inline bool weir_fw_put_answer(struct __sk_buff *skb,
					       struct weir_fw_scratch *scratch,
					       const struct weir_fw_packet *p, __u32 bytes,
					       bool turns)
{
	__u32 *mac = scratch->mac;

	if (bytes < 1 || bytes > WEIR_FW_SCRATCH_ANSWER_BYTES)
		return false;
	if (p->l3_at) {
		if (bpf_skb_load_bytes(skb, 0, mac, sizeof(scratch->mac)))
			return false;
		if (turns)
			weir_fw_turn_mac(mac);
	}
	if (!weir_fw_reshape(skb, p->l3_at, bytes))
		return false;
	if (p->l3_at && bpf_skb_store_bytes(skb, 0, mac, sizeof(scratch->mac), 0))
		return false;
	return !bpf_skb_store_bytes(skb, p->l3_at, scratch->answer, bytes, 0);
}

/* The box's address for an error: where the packet came in its own, else whom it was for. */
static __always_inline bool weir_fw_error_address(struct __sk_buff *skb,
						  struct weir_fw_scratch *scratch,
						  const struct weir_fw_packet *p)
{
	if (p->direction == WEIR_FW_IN)
		return weir_fw_own_address(skb, scratch, p, skb->ifindex);
	weir_copy_address(scratch->fib.ipv6_src, p->dst);
	return true;
}

/* A segment in the CPU's scratch; its size, 0 if there is none. */
static __always_inline __u32 weir_fw_make_segment(struct weir_fw_scratch *scratch,
						  const struct weir_fw_packet *p,
						  const struct weir_fw_segment *t)
{
	void *to = scratch->answer;

	if (!weir_fw_fill_segment(to, to + sizeof(scratch->answer), p, t))
		return 0;
	return weir_fw_ip_header_bytes(p->family) + weir_fw_segment_bytes(t);
}

/* A RST or an ACK there. */
static __always_inline __u32 weir_fw_make_rst(struct weir_fw_scratch *scratch,
					      const struct weir_fw_packet *p, __u8 ttl)
{
	struct weir_fw_segment t = {};

	weir_fw_refusal(&t, p, ttl);
	return weir_fw_make_segment(scratch, p, &t);
}

/* The same of an error. */
static __always_inline __u32 weir_fw_make_error(struct __sk_buff *skb,
						struct weir_fw_scratch *scratch,
						const struct weir_fw_packet *p,
						const struct weir_fw_decision *d)
{
	__u32 room_bytes = weir_fw_ip_header_bytes(p->family) + sizeof(struct weir_icmp);
	__u32 quote_bytes = weir_fw_quote_bytes(p);
	void *to = scratch->answer;
	__u32 sum;

	if (quote_bytes < 1 || quote_bytes > WEIR_FW_QUOTE6_BYTES_MAX ||
	    !weir_fw_error_address(skb, scratch, p) ||
	    bpf_skb_load_bytes(skb, p->l3_at, to + room_bytes, quote_bytes))
		return 0;
	sum = weir_fw_sum_skb(skb, p->l3_at, quote_bytes);
	if (!weir_fw_fill_error(to, to + sizeof(scratch->answer), p, scratch->fib.ipv6_src, d,
				quote_bytes, sum))
		return 0;
	return room_bytes + quote_bytes;
}

/* Answers a packet that has been counted as dropped; what to return for it. */
__noinline int weir_fw_reply_skb(struct __sk_buff *skb,
				 const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	const struct weir_fw_decision *d;
	__u32 bytes;

	if (!scratch || !weir_fw_may_answer(p))
		return TCX_DROP;
	d = &scratch->decision;
	if (d->flags & WEIR_DECISION_RETURN_RST && p->protocol == WEIR_PROTOCOL_TCP) {
		if (p->tcp_flags & WEIR_TCP_RST)
			return TCX_DROP;
		bytes = weir_fw_make_rst(scratch, p, d->rst_ttl);
	} else if (d->flags & WEIR_DECISION_RETURN_ICMP) {
		bytes = weir_fw_make_error(skb, scratch, p, d);
	} else {
		return TCX_DROP;
	}
	if (!bytes || !weir_fw_put_answer(skb, scratch, p, bytes, true)) {
		weir_fw_table_counters(p->cpu)->unanswered++;
		return TCX_DROP;
	}
	weir_fw_table_counters(p->cpu)->replies++;
	skb->mark = weir_fw_answer_mark();
	return bpf_redirect(skb->ifindex, p->direction == WEIR_FW_IN ? 0 : BPF_F_INGRESS);
}

#endif /* WEIR_FW_REPLY_SKB_H */

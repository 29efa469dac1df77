/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * `modulate state` of pf.conf(5): an end of a TCP connection that chooses sequence numbers which
 * can be guessed seems to choose others.
 *
 * What is added to the numbers of either end is a function of the flow and of a secret, as RFC 6528
 * makes the numbers themselves: the record keeps one bit for it, and it is the same for the next
 * connection of the same ends. A record follows the numbers that the ends choose. A packet is
 * changed once, by the hook where it is tracked: of its numbers that of the sender, and those that
 * acknowledge the other end's, also where it acknowledges selectively (RFC 2018). An ICMP error
 * quotes a changed packet, and gets the number back that its reader has sent.
 *
 * What is never done here: a record that was not made by a SYN is not modulated.
 */
#ifndef WEIR_FW_MODULATE_H
#define WEIR_FW_MODULATE_H

#include <bpf/bpf_endian.h>
#include <weir/fw/modulator.h>
#include <weir/fw/rewrite.h>

/* Selective acknowledgements that the options of a header have room for, two numbers each. */
#define WEIR_TCP_SACK_COUNT_MAX 4

/* Adds to a number in network order, at any place. */
static __always_inline void weir_modulate_number(__u8 *at, __u32 difference)
{
	__be32 number;

	__builtin_memcpy(&number, at, sizeof(number));
	number = bpf_htonl(bpf_ntohl(number) + difference);
	__builtin_memcpy(at, &number, sizeof(number));
}

/* Takes from what so many bytes of a TCP header's options acknowledge selectively. */
static __always_inline void weir_modulate_sack(__u8 *options, __u32 bytes, __u32 minus)
{
	__u32 at = 0, i, number;

	for (i = weir_fw_bound(WEIR_TCP_OPTIONS_BYTES_MAX); i && weir_fw_may_loop; i--) {
		__u32 size = weir_tcp_option(options, at, bytes);

		if (!size)
			break;
		for (number = 0; number < 2 * WEIR_TCP_SACK_COUNT_MAX; number++) {
			__u32 end = 2 + (number + 1) * sizeof(__be32);

			if (options[at] != WEIR_TCP_OPTION_SACK || end > size ||
			    at + end > WEIR_TCP_OPTIONS_BYTES_MAX)
				break;
			weir_modulate_number(options + at + end - sizeof(__be32), -minus);
		}
		at += size;
	}
}

/* What a sum has changed by if what stands in scratch->answer has become scratch->chunk. */
__noinline __u64 weir_modulate_change(void)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 *before, *after, i;
	__u64 change = 0;

	if (!scratch)
		return 0;
	before = (__u32 *)scratch->answer;
	after = (__u32 *)scratch->chunk;
	for (i = 0; i < WEIR_FW_CHUNK_BYTES / sizeof(__u32); i++)
		change += weir_sum_change(before[i], after[i]);
	return weir_sum_fold(change);
}

/* The header of a TCP segment; returns what its sum has changed by, or -1. */
static __always_inline __s64 weir_modulate_segment(void *ctx, bool is_skb,
						   const struct weir_fw_packet *p,
						   struct weir_fw_scratch *scratch)
{
	__u32 *before = (__u32 *)scratch->answer, *after = (__u32 *)scratch->chunk;
	__u32 bytes = p->tcp_header_bytes, minus = scratch->modulation[1];
	__u64 change;

	if (bytes < sizeof(struct weir_tcp))
		return -1;
	/* For the verifier: each limit is asked of the number itself. */
	asm volatile("" : "+r"(bytes));
	if (bytes < 1 || bytes > WEIR_FW_CHUNK_BYTES)
		return -1;
	if (weir_fw_load(ctx, is_skb, p->l4_at, after, bytes))
		return -1;
	__builtin_memcpy(before, after, WEIR_FW_CHUNK_BYTES);
	weir_modulate_number(scratch->chunk + __builtin_offsetof(struct weir_tcp, seq),
			     scratch->modulation[0]);
	if (weir_modulates_ack(p->tcp_flags, p->ack))
		weir_modulate_number(scratch->chunk + __builtin_offsetof(struct weir_tcp, ack),
				     -minus);
	if (bytes > sizeof(struct weir_tcp))
		weir_modulate_sack(scratch->chunk + sizeof(struct weir_tcp),
				   bytes - sizeof(struct weir_tcp), minus);
	/* What lies behind the header is the same in both. */
	change = weir_modulate_change();
	return weir_fw_store(ctx, is_skb, p->l4_at, after, bytes) ? -1 : (__s64)change;
}

/* The number that an ICMP error quotes; returns what its sum has changed by, or -1. */
static __always_inline __s64 weir_modulate_quoted(void *ctx, bool is_skb,
						  struct weir_fw_scratch *scratch)
{
	__u32 at = scratch->quoted.l4_at + __builtin_offsetof(struct weir_tcp, seq);
	__be32 from, to;

	if (weir_fw_load(ctx, is_skb, at, &from, sizeof(from)))
		return -1;
	to = bpf_htonl(bpf_ntohl(from) + scratch->modulation[0]);
	if (weir_fw_store(ctx, is_skb, at, &to, sizeof(to)))
		return -1;
	return weir_sum_change(from, to);
}

/*
 * Changes a packet's numbers in its frame, if they are to be: its descriptor stays, so that who has
 * sent it can be answered. 0, or -1 if the frame is not what it was.
 */
static __always_inline int weir_fw_modulate(void *ctx, bool is_skb, const struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 at = p->l4_at + WEIR_TCP_CHECKSUM_AT;
	__s64 change;

	if (!scratch)
		return -1;
	if (!scratch->modulation[0] && !scratch->modulation[1])
		return 0;
	if (p->flags & WEIR_PACKET_ICMP_ERROR) {
		at = p->l4_at + WEIR_ICMP_CHECKSUM_AT;
		change = weir_modulate_quoted(ctx, is_skb, scratch);
	} else {
		change = weir_modulate_segment(ctx, is_skb, p, scratch);
	}
	weir_modulate_none(scratch);
	if (change < 0)
		return -1;
	return weir_fw_rewrite_sum(ctx, is_skb, p, at, 0, weir_sum_fold(change)) ? 0 : -1;
}

/* One that the verifier checks by itself, of each hook. */
__noinline int weir_fw_modulate_ingress(struct xdp_md *ctx,
					const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_modulate(ctx, false, p);
}

__noinline int weir_fw_modulate_skb(struct __sk_buff *skb,
				    const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_fw_modulate(skb, true, p);
}

#endif /* WEIR_FW_MODULATE_H */

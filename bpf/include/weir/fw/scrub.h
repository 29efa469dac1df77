/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What rules change in a packet but its ends: the don't-fragment bit, identification, TTL and TOS
 * of its IP header, and the segment size that a SYN asks for (`scrub` and `set tos` of pf.conf(5);
 * pf_scrub() and pf_normalize_mss() of pf_norm.c). Every checksum follows by what has changed
 * (RFC 1624). Of IPv6 there is no don't-fragment bit, and no identification but of fragments.
 *
 * All that is changed at one hook is one word (enum weir_fw_scrub). It comes from FreeBSD's `scrub`
 * rules, of which the first that takes a packet counts, whatever state the packet has; and from the
 * rules that pass it, or from its state, which keeps what the rules of each of its halves have said
 * (scrubs.h).
 *
 * `reassemble tcp` of a rule changes the timestamps (RFC 7323) of the connections that begin under
 * it, so that nobody can tell from them how long a host has run (pf_normalize_tcp_stateful()): what
 * is added is a function of the flow and of a secret, as that to sequence numbers (modulate.h).
 *
 * What is never done here: fragments are not put together; no TTL is raised to that of an earlier
 * packet, and no packet is dropped for its timestamp.
 */
#ifndef WEIR_FW_SCRUB_H
#define WEIR_FW_SCRUB_H

#include <bpf/bpf_endian.h>
#include <weir/fw/image.h>
#include <weir/fw/modulate.h>
#include <weir/fw/rewrite.h>
#include <weir/fw/rules.h>
#include <weir/fw/scratch.h>
#include <weir/fw/scrubs.h>

/* Whether anything changes packets: of a packet's ruleset, or of states of earlier ones. */
static __always_inline bool weir_fw_scrubs(const struct weir_fw_packet *p)
{
	return weir_fw_image_of(p)->flags & (WEIR_FW_IMAGE_SCRUB_LIST | WEIR_FW_IMAGE_NO_DF) ||
	       weir_fw_scrubs_states();
}

static __always_inline __u16 weir_scrub_mss(__u64 word)
{
	return word >> WEIR_FW_SCRUB_MSS_SHIFT;
}

static __always_inline __u8 weir_scrub_ttl(__u64 word)
{
	return word >> WEIR_FW_SCRUB_TTL_SHIFT;
}

static __always_inline bool weir_scrub_has(__u64 word, __u32 shift)
{
	return word >> shift & 1;
}

/*
 * What two words come to, of which one is done after the other. A function of its own, so that the
 * verifier need not go on from each of its ways.
 */
__noinline __u64 weir_scrub_join(__u64 first, __u64 then)
{
	const __u64 tos_mask = 0xffull << WEIR_FW_SCRUB_TOS_SHIFT;
	const __u64 leaving = WEIR_SCRUB_QUEUES | WEIR_SCRUB_PRIOS;
	__u64 flags = (first | then) & ~0ull << WEIR_FW_SCRUB_SETS_TOS_SHIFT & ~leaving;
	__u64 queues = weir_queues_join(first, then);
	__u64 prios = (then & WEIR_SCRUB_PRIOS ? then : first) & WEIR_SCRUB_PRIOS;
	__u16 mss = weir_scrub_mss(first), other = weir_scrub_mss(then);
	__u8 ttl = weir_scrub_ttl(first);

	if (!mss || (other && other < mss))
		mss = other;
	if (ttl < weir_scrub_ttl(then))
		ttl = weir_scrub_ttl(then);
	if (weir_scrub_has(then, WEIR_FW_SCRUB_SETS_TOS_SHIFT))
		first = then;
	return flags | queues | prios | (first & tos_mask) | (__u64)ttl << WEIR_FW_SCRUB_TTL_SHIFT |
	       (__u64)mss << WEIR_FW_SCRUB_MSS_SHIFT;
}

/* A TOS byte, or a traffic class: congestion notification stays. */
static __always_inline __u8 weir_scrub_new_tos(__u8 tos, __u64 word)
{
	if (!weir_scrub_has(word, WEIR_FW_SCRUB_SETS_TOS_SHIFT))
		return tos;
	return (__u8)(word >> WEIR_FW_SCRUB_TOS_SHIFT) | (tos & 3);
}

static __always_inline __u8 weir_scrub_new_ttl(__u8 ttl, __u64 word)
{
	return ttl < weir_scrub_ttl(word) ? weir_scrub_ttl(word) : ttl;
}

/* An IPv4 header, in the frame or copied out of it. Of fragments the identification stays. */
static __always_inline void weir_scrub_ipv4(struct weir_ipv4 *ip, __u64 word)
{
	__u8 tos = weir_scrub_new_tos(ip->tos, word), ttl = weir_scrub_new_ttl(ip->ttl, word);
	__be16 fragment = ip->fragment, id = ip->id;
	__u64 change;

	if (weir_scrub_has(word, WEIR_FW_SCRUB_NO_DF_SHIFT))
		fragment &= ~bpf_htons(WEIR_IPV4_DONT_FRAGMENT);
	if (weir_scrub_has(word, WEIR_FW_SCRUB_RANDOM_ID_SHIFT) &&
	    !(fragment & bpf_htons(WEIR_IPV4_FRAGMENT_MASK)))
		id = bpf_get_prandom_u32();
	/* Most packets are as they are meant to be. */
	if (tos == ip->tos && ttl == ip->ttl && fragment == ip->fragment && id == ip->id)
		return;
	/* TOS is the lower byte of its word, TTL the upper one. */
	change = weir_sum_change(bpf_htons(ip->tos), bpf_htons(tos)) +
		 weir_sum_change(bpf_htons(ip->ttl << 8), bpf_htons(ttl << 8)) +
		 weir_sum_change(ip->fragment, fragment) + weir_sum_change(ip->id, id);
	ip->tos = tos;
	ip->ttl = ttl;
	ip->fragment = fragment;
	ip->id = id;
	ip->checksum = weir_sum_apply(ip->checksum, weir_sum_fold(change));
}

/* The IP header of a packet, and what its descriptor says of it. 0, or -1 if it is not there. */
static __always_inline int weir_scrub_ip(void *ctx, bool is_skb, struct weir_fw_packet *p,
					 struct weir_fw_scratch *scratch, __u64 word)
{
	struct weir_ipv6 *ipv6 = &scratch->ipv6;
	struct weir_ipv4 *ip = &scratch->ipv4;
	__u32 classes;

	if (p->family == WEIR_FW_INET) {
		if (weir_fw_load(ctx, is_skb, p->l3_at, ip, sizeof(*ip)))
			return -1;
		weir_scrub_ipv4(ip, word);
		p->tos = ip->tos;
		p->ttl = ip->ttl;
		return weir_fw_store(ctx, is_skb, p->l3_at, ip, sizeof(*ip)) ? -1 : 0;
	}
	if (weir_fw_load(ctx, is_skb, p->l3_at, ipv6, sizeof(*ipv6)))
		return -1;
	classes = bpf_ntohl(ipv6->version_class_flow);
	p->tos = weir_scrub_new_tos(classes >> 20, word);
	p->ttl = weir_scrub_new_ttl(ipv6->hop_limit, word);
	ipv6->version_class_flow = bpf_htonl((classes & 0xf00fffff) | (__u32)p->tos << 20);
	ipv6->hop_limit = p->ttl;
	return weir_fw_store_uncovered(ctx, is_skb, p->l3_at, ipv6, sizeof(*ipv6)) ? -1 : 0;
}

/*
 * Lowers the segment sizes in so many bytes of a TCP header's options to `max`; returns what their
 * sum has changed by, 0 if nothing has.
 */
static __always_inline __u64 weir_scrub_options(__u8 *options, __u32 bytes, __u16 max)
{
	__u64 change = 0;
	__u32 at = 0, i;

	for (i = weir_fw_bound(WEIR_TCP_OPTIONS_BYTES_MAX); i && weir_fw_may_loop; i--) {
		__u32 size = weir_tcp_option(options, at, bytes);
		__u16 from, to;

		if (!size)
			break;
		from = options[at + 2] << 8 | options[at + 3];
		if (options[at] == WEIR_TCP_OPTION_MSS && size == 4 && from > max) {
			options[at + 2] = max >> 8;
			options[at + 3] = max;
			to = max;
			/* At an odd place its bytes are the other halves of words. */
			if (at & 1) {
				from = bpf_htons(from);
				to = bpf_htons(to);
			}
			change = weir_sum_fold(change +
					       weir_sum_change(bpf_htons(from), bpf_htons(to)));
		}
		at += size;
	}
	return change;
}

/* A SYN's segment size, and its checksum. 0, or -1 if the frame is not what it was. */
static __always_inline int weir_scrub_syn(void *ctx, bool is_skb, const struct weir_fw_packet *p,
					  struct weir_fw_scratch *scratch, __u16 max)
{
	__u32 bytes = p->tcp_header_bytes - sizeof(struct weir_tcp);
	__u32 at = p->l4_at + sizeof(struct weir_tcp);
	__u64 change;

	if (bytes < 1 || bytes > WEIR_TCP_OPTIONS_BYTES_MAX)
		return 0;
	if (weir_fw_load(ctx, is_skb, at, scratch->chunk, bytes))
		return -1;
	change = weir_scrub_options(scratch->chunk, bytes, max);
	if (!change)
		return 0;
	if (weir_fw_store(ctx, is_skb, at, scratch->chunk, bytes))
		return -1;
	at = p->l4_at + WEIR_TCP_CHECKSUM_AT;
	return weir_fw_rewrite_sum(ctx, is_skb, p, at, 0, change) ? 0 : -1;
}

/* What is added to the timestamps of end 0 at this hook (lower half), and of end 1. */
static __always_inline __u64 weir_timestamp_modulator(const struct weir_fw_packet *p,
						      __u32 reverse)
{
	__u32 half = (p->direction == WEIR_FW_OUT) ^ (reverse & 1);

	return weir_siphash(p->hash, 1 + half, 2);
}

/* Where in so many bytes of options the timestamps stand, behind the option's size; 0: nowhere. */
static __always_inline __u32 weir_scrub_find_stamps(const __u8 *options, __u32 bytes)
{
	__u32 at = 0, i;

	for (i = weir_fw_bound(WEIR_TCP_OPTIONS_BYTES_MAX); i && weir_fw_may_loop; i--) {
		__u32 size = weir_tcp_option(options, at, bytes);

		if (!size)
			break;
		if (options[at] == WEIR_TCP_OPTION_TIMESTAMP &&
		    size == WEIR_TCP_OPTION_TIMESTAMP_BYTES)
			return at + 2;
		at += size;
	}
	return 0;
}

/* Adds to a timestamp. None, which is 0, stays none. */
static __always_inline void weir_scrub_stamp(__u8 *at, __u32 difference)
{
	__u32 stamp;

	__builtin_memcpy(&stamp, at, sizeof(stamp));
	/* Without a branch, for the verifier. */
	weir_modulate_number(at, difference & -((stamp | -stamp) >> 31));
}

/* The timestamps of a segment, and its checksum. 0, or -1 if the frame is not what it was. */
static __always_inline int weir_scrub_timestamps(void *ctx, bool is_skb,
						 const struct weir_fw_packet *p)
{
	__u32 bytes = p->tcp_header_bytes - sizeof(struct weir_tcp);
	__u32 at = p->l4_at + sizeof(struct weir_tcp), reverse, found;
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u64 modulator, change;

	if (!scratch)
		return -1;
	reverse = scratch->hit.reverse;
	if (bytes < WEIR_TCP_OPTION_TIMESTAMP_BYTES || bytes > WEIR_TCP_OPTIONS_BYTES_MAX)
		return 0;
	if (weir_fw_load(ctx, is_skb, at, scratch->chunk, bytes))
		return -1;
	__builtin_memcpy(scratch->answer, scratch->chunk, WEIR_FW_CHUNK_BYTES);
	found = weir_scrub_find_stamps(scratch->chunk, bytes);
	if (!found || found > WEIR_TCP_OPTIONS_BYTES_MAX)
		return 0;
	modulator = weir_timestamp_modulator(p, reverse);
	weir_scrub_stamp(scratch->chunk + found, weir_modulator_of(modulator, reverse));
	weir_scrub_stamp(scratch->chunk + found + sizeof(__be32),
			 -weir_modulator_of(modulator, !(reverse & 1)));
	/* What lies behind the options is the same in both. */
	change = weir_modulate_change();
	if (weir_fw_store(ctx, is_skb, at, scratch->chunk, bytes))
		return -1;
	at = p->l4_at + WEIR_TCP_CHECKSUM_AT;
	return weir_fw_rewrite_sum(ctx, is_skb, p, at, 0, change) ? 0 : -1;
}

/* One that the verifier checks by itself, of each hook. */
__noinline int weir_scrub_timestamps_ingress(struct xdp_md *ctx,
					     const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_scrub_timestamps(ctx, false, p);
}

__noinline int weir_scrub_timestamps_skb(struct __sk_buff *skb,
					 const struct weir_fw_packet *p __arg_nonnull)
{
	return weir_scrub_timestamps(skb, true, p);
}

/* Changes a packet as a word says. 0, or -1 if the frame is not what it was. */
static __always_inline int weir_fw_scrub(void *ctx, bool is_skb, struct weir_fw_packet *p,
					 __u64 word)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!word)
		return 0;
	if (!scratch)
		return -1;
	if (word & WEIR_SCRUB_ALL_PACKETS && weir_scrub_ip(ctx, is_skb, p, scratch, word))
		return -1;
	if (word & WEIR_SCRUB_TIMESTAMPS && p->protocol == WEIR_PROTOCOL_TCP &&
	    !(p->flags & WEIR_PACKET_LATER_FRAGMENT) &&
	    (is_skb ? weir_scrub_timestamps_skb(ctx, p) : weir_scrub_timestamps_ingress(ctx, p)))
		return -1;
	if (!weir_scrub_mss(word) || p->protocol != WEIR_PROTOCOL_TCP ||
	    !(p->tcp_flags & WEIR_TCP_SYN) || p->flags & WEIR_PACKET_LATER_FRAGMENT)
		return 0;
	return weir_scrub_syn(ctx, is_skb, p, scratch, weir_scrub_mss(word));
}

__noinline int weir_fw_scrub_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull,
				     __u64 word)
{
	return weir_fw_scrub(ctx, false, p, word);
}

__noinline int weir_fw_scrub_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
				 __u64 word)
{
	return weir_fw_scrub(skb, true, p, word);
}

/* The word of the first rule of a list, from one number to another, that takes a packet. */
static __always_inline __u64 weir_scrub_first(const struct weir_fw_packet *p,
					      struct weir_fw_walk *walk, __u32 first, __u32 end)
{
	__u32 number = weir_fw_first_of(p, walk, first, end);

	return number ? weir_fw_scrub_of(p, number - 1) : 0;
}

/*
 * What `set reassemble yes no-df` and FreeBSD's `scrub` rules say of a packet at the hook where it
 * is; in the CPU's scratch. The former is for fragments alone (pf_normalize_ip()). Each of the
 * latter stands in the image twice: of the IP header it says the same for all ports, and of the
 * segment size for its own (pf_normalize_ip(), pf_normalize_tcp()).
 */
__noinline int weir_fw_ask_scrub(const struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 first, end, middle, flags;

	if (!scratch)
		return 0;
	scratch->scrub[0] = 0;
	flags = weir_fw_image_of(p)->flags;
	if (flags & WEIR_FW_IMAGE_NO_DF && p->flags & WEIR_PACKET_FRAGMENT)
		scratch->scrub[0] = 1ull << WEIR_FW_SCRUB_NO_DF_SHIFT;
	if (!(flags & WEIR_FW_IMAGE_SCRUB_LIST))
		return 0;
	first = weir_fw_image_of(p)->nat_end;
	end = weir_fw_image_of(p)->scrub_end;
	middle = first + (end - first) / 2;
	weir_fw_asking_begin(p, &scratch->walk.asking, 0);
	if (flags & WEIR_FW_IMAGE_SCRUB_ALL)
		scratch->scrub[0] |= weir_scrub_first(p, &scratch->walk, first, middle);
	if (p->protocol == WEIR_PROTOCOL_TCP && p->tcp_flags & WEIR_TCP_SYN &&
	    !(p->flags & WEIR_PACKET_LATER_FRAGMENT))
		scratch->scrub[0] |= weir_scrub_first(p, &scratch->walk, middle, end);
	return 0;
}

/*
 * What the state says that covers the hook: after that. `half` is the one that does, 0 is A. As
 * those above it is called always, and asks here: each branch of its callers doubles what the
 * verifier goes through.
 */
__noinline int weir_fw_scrub_by_state(const struct weir_fw_hit *hit __arg_nonnull, __u32 half)
{
	__u8 number = half & 1 ? hit->scrub[1] : hit->scrub[0];
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (number && scratch)
		scratch->scrub[0] = weir_scrub_join(scratch->scrub[0], weir_scrub_kept(number));
	return 0;
}

#endif /* WEIR_FW_SCRUB_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which system has sent a SYN: `os` of pf.conf(5), by fingerprints (pf_osfp_fingerprint_hdr() and
 * pf_osfp_find() of pf_osfp.c). Only looked for under rulesets that ask for it, and once for each
 * SYN, before rules judge it; it is that of the packet as it has come, whatever rules change in it.
 */
#ifndef WEIR_FW_OS_H
#define WEIR_FW_OS_H

#include <bpf/bpf_endian.h>
#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/loop.h>
#include <weir/fw/scratch.h>
#include <weir/fw/system.h>

#define WEIR_FW_OPTION_SACK_PERMITTED 4
#define WEIR_FW_NO_MULTIPLE 0xffffffffu

/* Whether rules of the packet's ruleset ask for it, and nobody has looked. */
static __always_inline bool weir_fw_asks_system(const struct weir_fw_packet *p)
{
	return weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_SYSTEMS && !p->system;
}

/* Notes the option at a place; returns its size, 0: it cannot be read, or is in no fingerprint. */
static __always_inline __u32 weir_fw_syn_option(struct weir_fw_syn *syn, __u32 at)
{
	const __u8 *option = &syn->bytes[at];
	__u32 size = 1, kind = WEIR_FW_SYSTEM_NOP;

	if (option[0] != WEIR_TCP_OPTION_NOP) {
		if (at + 1 >= syn->option_bytes)
			return 0;
		size = option[1];
		if (size < 2 || at + size > syn->option_bytes)
			return 0;
	}
	switch (option[0]) {
	case WEIR_TCP_OPTION_NOP:
		break;
	case WEIR_TCP_OPTION_MSS:
		kind = WEIR_FW_SYSTEM_MSS;
		if (size >= 4)
			syn->mss = option[2] << 8 | option[3];
		break;
	case WEIR_TCP_OPTION_WSCALE:
		kind = WEIR_FW_SYSTEM_WSCALE;
		if (size >= 3)
			syn->wscale = option[2];
		break;
	case WEIR_FW_OPTION_SACK_PERMITTED:
		kind = WEIR_FW_SYSTEM_SACK;
		break;
	case WEIR_TCP_OPTION_TIMESTAMP:
		kind = WEIR_FW_SYSTEM_TIMESTAMP;
		if (size >= WEIR_TCP_OPTION_TIMESTAMP_BYTES &&
		    !(option[2] | option[3] | option[4] | option[5]))
			syn->flags |= WEIR_FW_SYSTEM_ZERO_TIMESTAMP;
		break;
	default:
		return 0;
	}
	syn->options = syn->options << 3 | kind;
	syn->option_count++;
	return size;
}

/* How often a window is so many bytes. */
static __always_inline __u32 weir_fw_multiple(__u32 window, __u32 bytes)
{
	return window % bytes ? WEIR_FW_NO_MULTIPLE : window / bytes;
}

static __always_inline void weir_fw_syn_windows(struct weir_fw_syn *syn, __u32 window)
{
	const __u32 usual = WEIR_FW_SYSTEM_USUAL_MSS, more = WEIR_FW_SYSTEM_HEADERS_BYTES;

	syn->segments[0] = syn->mss ? weir_fw_multiple(window, syn->mss) : 0;
	syn->segments[1] = weir_fw_multiple(window, usual);
	syn->packets[0] = weir_fw_multiple(window, syn->mss + more);
	syn->packets[1] = weir_fw_multiple(window, usual + more);
}

static __always_inline bool weir_fw_number_holds(__u32 how, __u32 asked, __u32 number)
{
	if (how == WEIR_FW_SYSTEM_ANY)
		return true;
	if (how == WEIR_FW_SYSTEM_MULTIPLE)
		return asked && !(number % asked);
	return asked == number;
}

static __always_inline bool weir_fw_fingerprint_fits(const struct weir_fw_packet *p,
						     const struct weir_fw_syn *syn,
						     struct weir_fw_system __weir_arena *f)
{
	__u32 window = f->window, how = f->window_how;

	if (f->ttl < p->ttl || f->ttl - p->ttl > WEIR_FW_SYSTEM_HOP_COUNT_MAX ||
	    !weir_fw_number_holds(f->bytes_how, f->bytes, p->ip_bytes) ||
	    !weir_fw_number_holds(f->mss_how, f->mss, syn->mss) ||
	    !weir_fw_number_holds(f->wscale_how, f->wscale, syn->wscale))
		return false;
	if (how == WEIR_FW_SYSTEM_SEGMENTS)
		return syn->mss && (window == syn->segments[0] || window == syn->segments[1]);
	if (how == WEIR_FW_SYSTEM_PACKETS)
		return syn->mss && (window == syn->packets[0] || window == syn->packets[1]);
	return weir_fw_number_holds(how, window, p->window);
}

/* The number of the first fingerprint that fits. */
static __always_inline __u16 weir_fw_system_find(const struct weir_fw_packet *p,
						 const struct weir_fw_syn *syn)
{
	__u32 rest = syn->option_count << 8 | syn->flags;
	__u32 at = p->ruleset + weir_fw_image_of(p)->systems_at, place, i;
	struct weir_fw_systems __weir_arena *head = weir_at(struct weir_fw_systems, at);
	struct weir_fw_system_order __weir_arena *order;
	struct weir_fw_system __weir_arena *f;

	place = weir_fw_system_hash(syn->options, rest) & head->order_mask;
	/* There is always a place with nothing in it. */
	for (;; place = (place + 1) & head->order_mask) {
		order = weir_at(struct weir_fw_system_order,
				p->ruleset + head->orders_at + place * (__u32)sizeof(*order));
		if (!order->count || !weir_fw_may_loop)
			return WEIR_FW_SYSTEM_UNKNOWN;
		if (order->options == syn->options &&
		    ((__u32)order->option_count << 8 | order->flags) == rest)
			break;
	}
	f = weir_at(struct weir_fw_system,
		    p->ruleset + head->systems_at + order->first * (__u32)sizeof(*f));
	for (i = 0; i < order->count && weir_fw_may_loop; i++) {
		if (weir_fw_fingerprint_fits(p, syn, &f[i]))
			return WEIR_FW_SYSTEM_FIRST + order->first + i;
	}
	return WEIR_FW_SYSTEM_UNKNOWN;
}

static __always_inline void weir_fw_system_of(void *ctx, bool is_skb, struct weir_fw_packet *p)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_syn *syn;
	__be16 fragment;
	__u32 at = 0, bytes, i;

	p->system = WEIR_FW_SYSTEM_UNKNOWN;
	/* Of a packet in pieces the length is not known. */
	if (!scratch || p->protocol != WEIR_PROTOCOL_TCP || !weir_tcp_opens(p->tcp_flags) ||
	    p->flags & WEIR_PACKET_FRAGMENT)
		return;
	syn = &scratch->syn;
	__builtin_memset(syn, 0, sizeof(*syn));
	syn->flags = WEIR_FW_SYSTEM_DF;
	if (p->family == WEIR_FW_INET) {
		if (weir_fw_load(ctx, is_skb,
				 p->l3_at + __builtin_offsetof(struct weir_ipv4, fragment),
				 &fragment, sizeof(fragment)))
			return;
		if (!(fragment & bpf_htons(WEIR_IPV4_DONT_FRAGMENT)))
			syn->flags = 0;
	}
	bytes = p->tcp_header_bytes - sizeof(struct weir_tcp);
	if (bytes > WEIR_TCP_OPTIONS_BYTES_MAX)
		return;
	if (bytes &&
	    weir_fw_load(ctx, is_skb, p->l4_at + sizeof(struct weir_tcp), syn->bytes, bytes))
		return;
	syn->option_bytes = bytes;
	for (i = weir_fw_bound(WEIR_TCP_OPTIONS_BYTES_MAX); i && weir_fw_may_loop; i--) {
		__u32 size;

		if (at >= syn->option_bytes || at >= WEIR_TCP_OPTIONS_BYTES_MAX ||
		    syn->bytes[at] == WEIR_TCP_OPTION_END)
			break;
		size = weir_fw_syn_option(syn, at);
		if (!size)
			return;
		at += size;
	}
	weir_fw_syn_windows(syn, p->window);
	p->system = weir_fw_system_find(p, syn);
}

__noinline int weir_fw_system_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull)
{
	weir_fw_system_of(ctx, false, p);
	return 0;
}

__noinline int weir_fw_system_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	weir_fw_system_of(skb, true, p);
	return 0;
}

#endif /* WEIR_FW_OS_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hash of what a packet carries: that of its innermost flow. A fragment has that of the whole
 * packet: the first one has all the headers, and is remembered for those that follow it. A later
 * one whose first is not known is hashed by its addresses.
 */
#ifndef WEIR_INNER_HASH_H
#define WEIR_INNER_HASH_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/inner.h>
#include <weir/rss.h>
#include <weir/toeplitz.h>
#include <weir/vmlinux.h>

/* What the fragments of one packet have in common (RFC 791, RFC 8200 section 4.5). */
struct weir_inner_key {
	__be32 src[4];
	__be32 dst[4];
	__u32 ident;
	__u32 protocol;		/* of IPv4; 256: of IPv6, where it is no part of that */
};

/* The first fragment of a packet. */
struct weir_inner_first {
	__u64 seen_ns;
	__u64 hash;
};

/* The oldest one goes when there is no room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set when it is loaded */
	__type(key, struct weir_inner_key);
	__type(value, struct weir_inner_first);
} weir_inner_firsts SEC(".maps");

/* False if the frame has no IP header there, which is never so. */
static __always_inline bool weir_inner_key(struct weir_inner_key *key, struct xdp_md *ctx,
					   __u32 ip_at, __u32 ident)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *ip = (void *)(long)ctx->data;
	__u32 i;

	if (ip_at > 2 * WEIR_INNER_AT_MAX)
		return false;
	ip += ip_at;
	if (ip + WEIR_IPV4_BYTES_MIN > data_end)
		return false;
	key->ident = ident;
	if (*(__u8 *)ip >> 4 == 4) {
		key->protocol = *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET);
		key->src[0] = *(__be32 *)(ip + WEIR_IPV4_SRC_OFFSET);
		key->dst[0] = *(__be32 *)(ip + WEIR_IPV4_DST_OFFSET);
		return true;
	}
	if (ip + WEIR_IPV6_BYTES > data_end)
		return false;
	key->protocol = 256;
	for (i = 0; i < 4; i++) {
		key->src[i] = *(__be32 *)(ip + WEIR_IPV6_SRC_OFFSET + 4 * i);
		key->dst[i] = *(__be32 *)(ip + WEIR_IPV6_DST_OFFSET + 4 * i);
	}
	return true;
}

/* Remembers that fragments which follow this first one have its hash. */
__noinline int weir_inner_remember(struct xdp_md *ctx, struct weir_inner *inner __arg_nonnull,
				   __u32 hash)
{
	struct weir_inner_first first = { .seen_ns = bpf_ktime_get_ns(), .hash = hash };
	struct weir_inner_key key;
	__u32 i;

	for (i = 0; i < WEIR_INNER_LEVEL_COUNT; i++) {
		if (i >= inner->first_count)
			break;
		__builtin_memset(&key, 0, sizeof(key));
		if (weir_inner_key(&key, ctx, inner->first_at[i], inner->first_ident[i]))
			bpf_map_update_elem(&weir_inner_firsts, &key, &first, BPF_ANY);
	}
	return 0;
}

/* The hash of a later fragment's first one, and bit 32; 0 if it is not known. */
__noinline __u64 weir_inner_follow(struct xdp_md *ctx, struct weir_inner *inner __arg_nonnull,
				   __u64 timeout_ns)
{
	struct weir_inner_key key = {};
	struct weir_inner_first *first;

	if (!weir_inner_key(&key, ctx, inner->ip_at, inner->ident))
		return 0;
	first = bpf_map_lookup_elem(&weir_inner_firsts, &key);
	if (!first || bpf_ktime_get_ns() - first->seen_ns > timeout_ns)
		return 0;
	return first->hash | 1ULL << 32;
}

/* The hash of the innermost IP header's addresses and, where the settings say so, ports. */
static __always_inline bool weir_inner_flow(const struct weir_rss *rss, struct xdp_md *ctx,
					    const struct weir_inner *inner, __u32 *hash)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__u32 ip_at = inner->ip_at, message_at = inner->message_at, kind;
	__u8 *ip, *ports;

	if (ip_at > 2 * WEIR_INNER_AT_MAX)
		return false;
	ip = data + ip_at;
	if (inner->is_ipv6) {
		if ((void *)ip + WEIR_IPV6_BYTES > data_end)
			return false;
		*hash = weir_rss_pair(rss, 0, ip + WEIR_IPV6_SRC_OFFSET, ip + WEIR_IPV6_DST_OFFSET,
				      16);
	} else {
		if ((void *)ip + WEIR_IPV4_BYTES_MIN > data_end)
			return false;
		*hash = weir_rss_pair(rss, 0, ip + WEIR_IPV4_SRC_OFFSET, ip + WEIR_IPV4_DST_OFFSET,
				      4);
	}
	if (inner->is_later || message_at > WEIR_INNER_AT_MAX ||
	    (inner->protocol != WEIR_PROTOCOL_TCP && inner->protocol != WEIR_PROTOCOL_UDP))
		return true;
	kind = inner->protocol == WEIR_PROTOCOL_UDP ? WEIR_RSS_UDP4 : WEIR_RSS_TCP4;
	if (inner->is_ipv6)
		kind += WEIR_RSS_TCP6;
	ports = data + message_at;
	if (!rss->ports[kind & 3] || (void *)ports + 4 > data_end)
		return true;
	if (inner->is_ipv6)
		*hash ^= weir_rss_pair(rss, 32, ports, ports + 2, 2);
	else
		*hash ^= weir_rss_pair(rss, 8, ports, ports + 2, 2);
	return true;
}

/* Hashes what a walk has found. */
static __always_inline enum weir_inner_hashed
weir_inner_hash(const struct weir_rss *rss, struct xdp_md *ctx, struct weir_inner *inner,
		__u64 timeout_ns, __u32 *hash)
{
	enum weir_inner_hashed hashed = WEIR_INNER_HASHED;
	__u64 followed;

	if (!inner->level_count)
		return WEIR_INNER_UNHASHED;
	followed = inner->is_later ? weir_inner_follow(ctx, inner, timeout_ns) : 0;
	if (followed) {
		*hash = followed;
		hashed = WEIR_INNER_FOLLOWED;
	} else {
		if (!weir_inner_flow(rss, ctx, inner, hash))
			return WEIR_INNER_UNHASHED;
		if (inner->is_later)
			hashed = WEIR_INNER_EARLY;
	}
	if (inner->first_count)
		weir_inner_remember(ctx, inner, *hash);
	return hashed;
}

#endif /* WEIR_INNER_HASH_H */

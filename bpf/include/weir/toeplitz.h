/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Toeplitz hash of a packet, by the tables that the control process made of the key. Fragments,
 * and what is neither TCP nor UDP, are hashed by their addresses.
 */
#ifndef WEIR_TOEPLITZ_H
#define WEIR_TOEPLITZ_H

#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/parse.h>
#include <weir/rss.h>
#include <weir/vmlinux.h>

/* What `pair` bytes of source and of destination contribute, from `place` of the input on. */
static __always_inline __u32 weir_rss_pair(const struct weir_rss *rss, __u32 place,
					   const __u8 *src, const __u8 *dst, __u32 pair)
{
	__u32 hash = 0, i;
	__u8 s, d, both;

	/* The commonest, without a question for each byte. */
	if (rss->symmetry == WEIR_RSS_AS_IS) {
#pragma unroll
		for (i = 0; i < pair; i++)
			hash ^= rss->table[place + i][src[i]] ^
				rss->table[place + pair + i][dst[i]];
		return hash;
	}
#pragma unroll
	for (i = 0; i < pair; i++) {
		s = src[i];
		d = dst[i];
		both = s ^ d;
		if (rss->symmetry == WEIR_RSS_XOR)
			s = both;
		else if (rss->symmetry == WEIR_RSS_OR_XOR)
			s |= d;
		if (rss->symmetry != WEIR_RSS_AS_IS)
			d = both;
		hash ^= rss->table[place + i][s] ^ rss->table[place + pair + i][d];
	}
	return hash;
}

/* False if it is no IP packet, which is not hashed. */
static __always_inline bool weir_rss_hash(const struct weir_rss *rss, void *data, void *data_end,
					  __u32 *hash)
{
	struct weir_packet packet;
	__u32 kind, ports_at;
	__u8 *ip, *ports;

	if (!weir_parse(&packet, data, data_end))
		return false;
	ip = packet.ip;
	if (packet.is_ipv6) {
		if ((void *)ip + WEIR_IPV6_BYTES > data_end)
			return false;
		*hash = weir_rss_pair(rss, 0, ip + WEIR_IPV6_SRC_OFFSET, ip + WEIR_IPV6_DST_OFFSET,
				      16);
		ports_at = 32;
	} else {
		if ((void *)ip + WEIR_IPV4_BYTES_MIN > data_end)
			return false;
		*hash = weir_rss_pair(rss, 0, ip + WEIR_IPV4_SRC_OFFSET, ip + WEIR_IPV4_DST_OFFSET,
				      4);
		ports_at = 8;
	}
	if (packet.is_fragment ||
	    (packet.protocol != WEIR_PROTOCOL_TCP && packet.protocol != WEIR_PROTOCOL_UDP))
		return true;
	kind = packet.protocol == WEIR_PROTOCOL_UDP ? WEIR_RSS_UDP4 : WEIR_RSS_TCP4;
	if (packet.is_ipv6)
		kind += WEIR_RSS_TCP6;
	ports = packet.message;
	if (!rss->ports[kind & 3] || (void *)ports + 4 > data_end)
		return true;
	if (ports_at == 32)
		*hash ^= weir_rss_pair(rss, 32, ports, ports + 2, 2);
	else
		*hash ^= weir_rss_pair(rss, 8, ports, ports + 2, 2);
	return true;
}

/* The bucket of a hash; false if there is none. */
static __always_inline bool weir_rss_bucket_of(const struct weir_rss *rss, __u32 hash,
					       __u32 *bucket)
{
	__u64 index;

	if (!rss->bucket_count)
		return false;
	/* The verifier knows nothing of a remainder. */
	index = (__u64)hash % rss->bucket_count;
	if (index >= WEIR_RSS_BUCKET_COUNT_MAX)
		return false;
	*bucket = index;
	return true;
}

#endif /* WEIR_TOEPLITZ_H */

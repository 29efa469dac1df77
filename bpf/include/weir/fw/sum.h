/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums for checksums (RFC 1071): of words, of addresses, of parts of frames. */
#ifndef WEIR_FW_SUM_H
#define WEIR_FW_SUM_H

#include <bpf/bpf_endian.h>
#include <weir/checksum.h>
#include <weir/fw/loop.h>
#include <weir/fw/parse.h>
#include <weir/fw/scratch.h>

/* No packet that is summed is longer than its header can say. */
#define WEIR_FW_CHUNK_COUNT_MAX (65536 / WEIR_FW_CHUNK_BYTES)

/* The sum of words in memory, in their own order; never above 2^36. */
static __always_inline __u64 weir_fw_sum_words(const __u32 *words, __u32 count)
{
	__u64 sum = 0;
	__u32 i;

	for (i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

/* The same of an address of a family. */
static __always_inline __u64 weir_fw_sum_address(const __be32 *address, __u32 family)
{
	return family == WEIR_FW_INET ? address[0] : weir_fw_sum_words(address, 4);
}

/* The sum over a part of either hook's frame, whose words begin where the part does. */
static __always_inline int weir_fw_sum(void *ctx, bool is_skb, __u32 at, __u32 bytes)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 sum = 0, i;

	if (!scratch)
		return 0;
	for (i = weir_fw_bound(WEIR_FW_CHUNK_COUNT_MAX); i && bytes && weir_fw_may_loop; i--) {
		__u32 part = bytes < WEIR_FW_CHUNK_BYTES ? bytes : WEIR_FW_CHUNK_BYTES;

		if (part < WEIR_FW_CHUNK_BYTES)
			__builtin_memset(scratch->chunk, 0, sizeof(scratch->chunk));
		if (part < 1 || part > WEIR_FW_CHUNK_BYTES ||
		    weir_fw_load(ctx, is_skb, at, scratch->chunk, part))
			break;
		sum = bpf_csum_diff(0, 0, (__be32 *)scratch->chunk, sizeof(scratch->chunk), sum);
		at += part;
		bytes -= part;
	}
	return sum;
}

__noinline int weir_fw_sum_frame(struct xdp_md *ctx, __u32 at, __u32 bytes)
{
	return weir_fw_sum(ctx, false, at, bytes);
}

__noinline int weir_fw_sum_skb(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	return weir_fw_sum(skb, true, at, bytes);
}

/* The same of both ends of a packet. */
static __always_inline __u64 weir_fw_sum_ends(const struct weir_fw_packet *p)
{
	return weir_fw_sum_address(p->src, p->family) + weir_fw_sum_address(p->dst, p->family);
}

/* The sum of the pseudo-header of a TCP segment of so many bytes, in either direction. */
static __always_inline __u64 weir_fw_sum_pseudo(const struct weir_fw_packet *p, __u32 bytes)
{
	return weir_fw_sum_ends(p) + bpf_htons(WEIR_PROTOCOL_TCP) + bpf_htons(bytes);
}

#endif /* WEIR_FW_SUM_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hash of a flow: the same for both directions, and of no use to who does not know the key.
 *
 * NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway, 1999): products of keyed 32-bit words. Two
 * given flows share all 64 bits with a probability of at most 2^-32 over the key. Of addresses in a
 * row it makes sums of multiples, which fill some buckets and leave others: so its halves are mixed
 * before the last product, with an odd key, spreads them over the upper bits, from which buckets
 * are taken.
 */
#ifndef WEIR_FW_HASH_H
#define WEIR_FW_HASH_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/packet.h>

/* Set by the loader. The last two words are not for this hash: modulator.h. */
volatile const __u64 weir_fw_seed[8] SEC(".rodata.seed");

static __always_inline __u64 weir_hash_words(__u64 a, __u64 b, __u64 key_a, __u64 key_b)
{
	__u32 a0 = (__u32)a + (__u32)key_a, a1 = (__u32)(a >> 32) + (__u32)(key_a >> 32);
	__u32 b0 = (__u32)b + (__u32)key_b, b1 = (__u32)(b >> 32) + (__u32)(key_b >> 32);

	return (__u64)a0 * a1 + (__u64)b0 * b1;
}

/* One end of an IPv6 flow. */
static __always_inline __u64 weir_hash_end6(const __be32 *addr, __be16 port)
{
	__u64 upper = (__u64)addr[1] << 32 | addr[0], lower = (__u64)addr[3] << 32 | addr[2];

	return weir_hash_words(upper, lower, weir_fw_seed[3], weir_fw_seed[4]) +
	       port * (weir_fw_seed[5] | 1);
}

static __always_inline __u64 weir_fw_hash(const struct weir_fw_packet *p)
{
	__u64 one, two, low, high, mixed;

	if (p->family == WEIR_FW_INET) {
		one = (__u64)p->src_port << 32 | p->src[0];
		two = (__u64)p->dst_port << 32 | p->dst[0];
	} else {
		one = weir_hash_end6(p->src, p->src_port);
		two = weir_hash_end6(p->dst, p->dst_port);
	}
	low = one < two ? one : two;
	high = one < two ? two : one;
	mixed = weir_hash_words(low, high, weir_fw_seed[0], weir_fw_seed[1]);
	mixed += (__u64)p->protocol << 8 | p->family;
	mixed ^= mixed >> 32;
	mixed *= weir_fw_seed[2] | 1;
	return mixed ^ mixed >> 32;
}

#endif /* WEIR_FW_HASH_H */

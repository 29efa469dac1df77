/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * By how much the sequence numbers of a flow's ends are changed (modulate.h): SipHash-2-4 (Aumasson
 * and Bernstein, 2012) of the flow's hash (hash.h). That is no secret function by itself, but which
 * two flows share one nobody knows.
 */
#ifndef WEIR_FW_MODULATOR_H
#define WEIR_FW_MODULATOR_H

#include <weir/fw/hash.h>
#include <weir/fw/headers.h>
#include <weir/fw/scratch.h>
#include <weir/fw/table.h>

/* The message is one word, of 8 bytes. */
#define WEIR_SIPHASH_LAST (8ull << 56)

static __always_inline __u64 weir_rotate(__u64 word, __u32 bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void weir_siphash_round(__u64 *v)
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = weir_rotate(v[1], 13) ^ v[0];
	v[3] = weir_rotate(v[3], 16) ^ v[2];
	v[0] = weir_rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = weir_rotate(v[3], 21) ^ v[0];
	v[1] = weir_rotate(v[1], 17) ^ v[2];
	v[2] = weir_rotate(v[2], 32);
}

/* What is added to the numbers of end 0 of a flow with this hash (lower half), and of end 1. */
__noinline __u64 weir_modulator(__u64 hash)
{
	__u64 key0 = weir_fw_seed[6], key1 = weir_fw_seed[7];
	__u64 v[4] = { key0 ^ 0x736f6d6570736575, key1 ^ 0x646f72616e646f6d,
		       key0 ^ 0x6c7967656e657261, key1 ^ 0x7465646279746573 };

	v[3] ^= hash;
	weir_siphash_round(v);
	weir_siphash_round(v);
	v[0] ^= hash;
	v[3] ^= WEIR_SIPHASH_LAST;
	weir_siphash_round(v);
	weir_siphash_round(v);
	v[0] ^= WEIR_SIPHASH_LAST;
	v[2] ^= 0xff;
	weir_siphash_round(v);
	weir_siphash_round(v);
	weir_siphash_round(v);
	weir_siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* What is added to the numbers of an end. */
static __always_inline __u32 weir_modulator_of(__u64 modulator, __u32 end)
{
	return end & 1 ? modulator >> 32 : modulator;
}

/* No packet is to be changed. */
static __always_inline void weir_modulate_none(struct weir_fw_scratch *scratch)
{
	scratch->modulation[0] = 0;
	scratch->modulation[1] = 0;
}

/* Whether the numbers of a record's ends are changed: only ever of TCP. */
static __always_inline bool weir_state_is_modulated(weir_line *s)
{
	return s->wscale[1] & WEIR_WSCALE_MODULATED;
}

/* Whether a segment acknowledges anything: some stacks send a RST with zero. */
static __always_inline bool weir_modulates_ack(__u32 tcp_flags, __u32 ack)
{
	return tcp_flags & WEIR_TCP_ACK && (ack || !(tcp_flags & WEIR_TCP_RST));
}

/*
 * Has a packet of a modulated record changed when it leaves the hook, one that the end `reverse`
 * has sent. Returns what it acknowledges of what the other end has sent.
 */
__noinline __u32 weir_modulate_packet(const struct weir_fw_packet *p __arg_nonnull, __u32 reverse)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u64 modulator = weir_modulator(p->hash);
	__u32 minus = weir_modulator_of(modulator, !(reverse & 1));

	if (!scratch)
		return p->ack;
	scratch->modulation[0] = weir_modulator_of(modulator, reverse);
	scratch->modulation[1] = minus;
	return weir_modulates_ack(p->tcp_flags, p->ack) ? p->ack - minus : p->ack;
}

/*
 * Has the number changed that an ICMP error quotes, when the error leaves the hook: one of the end
 * `from`. Returns what that has sent.
 */
__noinline __u32 weir_modulate_error(const struct weir_fw_packet *along __arg_nonnull, __u32 from)
{
	__u32 minus = weir_modulator_of(weir_modulator(along->hash), from);
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!scratch)
		return along->seq;
	scratch->modulation[0] = -minus;
	scratch->modulation[1] = 0;
	return along->seq - minus;
}

#endif /* WEIR_FW_MODULATOR_H */

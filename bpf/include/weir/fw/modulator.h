/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * By how much the sequence numbers of a flow's ends are changed (modulate.h): SipHash-2-4 (Aumasson
 * and Bernstein, 2012) of the flow's hash (hash.h). That is no secret function by itself, but which
 * two flows share one nobody knows. Of a connection whose handshake the box has made, it is what
 * the record says (proxied.h).
 */
#ifndef WEIR_FW_MODULATOR_H
#define WEIR_FW_MODULATOR_H

#include <weir/fw/hash.h>
#include <weir/fw/headers.h>
#include <weir/fw/proxied.h>
#include <weir/fw/scratch.h>
#include <weir/fw/table.h>

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

static __always_inline void weir_siphash_word(__u64 *v, __u64 word)
{
	v[3] ^= word;
	weir_siphash_round(v);
	weir_siphash_round(v);
	v[0] ^= word;
}

/* Of one word, or two. */
__noinline __u64 weir_siphash(__u64 first, __u64 second, __u32 count)
{
	__u64 key0 = weir_fw_seed[6], key1 = weir_fw_seed[7];
	__u64 v[4] = { key0 ^ 0x736f6d6570736575, key1 ^ 0x646f72616e646f6d,
		       key0 ^ 0x6c7967656e657261, key1 ^ 0x7465646279746573 };

	weir_siphash_word(v, first);
	if (count > 1)
		weir_siphash_word(v, second);
	/* The last word has the size of the message, in bytes. */
	weir_siphash_word(v, (__u64)(count > 1 ? 16 : 8) << 56);
	v[2] ^= 0xff;
	weir_siphash_round(v);
	weir_siphash_round(v);
	weir_siphash_round(v);
	weir_siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/*
 * What is added to the numbers of end 0 (lower half), and of end 1, of a modulated record that a
 * flow with this hash has.
 */
static __always_inline __u64 weir_modulator(weir_line *s, __u64 hash)
{
	if (weir_state_is_proxied(s))
		return (__u64)weir_proxied_number(s) << 32;
	return weir_siphash(hash, 0, 1);
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

/* Whether a segment acknowledges anything: some stacks send a RST with zero. */
static __always_inline bool weir_modulates_ack(__u32 tcp_flags, __u32 ack)
{
	return tcp_flags & WEIR_TCP_ACK && (ack || !(tcp_flags & WEIR_TCP_RST));
}

/*
 * Has a packet of a modulated record changed when it leaves the hook, one that the end `reverse`
 * has sent. Returns what it acknowledges of what the other end has sent.
 */
__noinline __u32 weir_modulate_packet(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
				      __u32 reverse)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u64 modulator = weir_modulator(weir_state_line(slot), p->hash);
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
__noinline __u32 weir_modulate_error(const struct weir_fw_packet *along __arg_nonnull, __u32 slot,
				     __u32 from)
{
	__u64 modulator = weir_modulator(weir_state_line(slot), along->hash);
	__u32 minus = weir_modulator_of(modulator, from);
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (!scratch)
		return along->seq;
	scratch->modulation[0] = -minus;
	scratch->modulation[1] = 0;
	return along->seq - minus;
}

#endif /* WEIR_FW_MODULATOR_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records of connections for which the box has answered in the place of end 1: it has chosen the
 * number that end 0 takes for the first of end 1 (proxy.h). End 1 chooses another, and from then on
 * the difference is added to its numbers, as a modulated record's are changed (modulate.h).
 *
 * That number, or the difference, has the place of the next hops: such a record has none, and asks
 * for its route with every packet.
 */
#ifndef WEIR_FW_PROXIED_H
#define WEIR_FW_PROXIED_H

#include <weir/fw/headers.h>
#include <weir/fw/table.h>

/* In next_hop[1]: end 1 has answered, and the number is the difference. */
#define WEIR_PROXIED_ANSWERED (1 << 4)

/* What weir_proxied_track() returns besides reasons + 1. */
#define WEIR_PROXIED_FITS 0
/* End 1 has not answered: the packet becomes the SYN for it. */
#define WEIR_PROXIED_WAITS 0x1000

/* Whether the numbers of a record's ends are changed: only ever of TCP. */
static __always_inline bool weir_state_is_modulated(weir_line *s)
{
	return s->wscale[1] & WEIR_WSCALE_MODULATED;
}

static __always_inline bool weir_state_is_proxied(weir_line *s)
{
	const __u8 all = WEIR_WSCALE_MODULATED | WEIR_WSCALE_FLAG | WEIR_WSCALE_MASK;

	return (s->wscale[1] & all) == (WEIR_WSCALE_MODULATED | WEIR_WSCALE_PROXIED);
}

static __always_inline __u32 weir_proxied_number(weir_line *s)
{
	return s->generation | (__u32)(s->next_hop[0] & WEIR_STATE_NEXT_HOP_MASK) << 16 |
	       (__u32)s->next_hop[1] << 28;
}

/* `answered` is WEIR_PROXIED_ANSWERED or 0. */
static __always_inline void weir_proxied_note(weir_line *s, __u32 number, __u32 answered)
{
	const __u16 gateway = (__u16)~WEIR_STATE_NEXT_HOP_MASK;

	s->generation = number;
	s->next_hop[0] = (s->next_hop[0] & gateway) | (number >> 16 & WEIR_STATE_NEXT_HOP_MASK);
	s->next_hop[1] = (s->next_hop[1] & gateway) | number >> 28 | answered;
}

/* A new record, of a SYN that was made of the packet which has completed the handshake. */
static __always_inline void weir_proxied_open(weir_line *s, __u32 number)
{
	s->wscale[1] |= WEIR_WSCALE_MODULATED | WEIR_WSCALE_PROXIED;
	s->control |= WEIR_STATE_SCRUB;
	weir_proxied_note(s, number, 0);
}

/* A packet of such a record, before it is tracked as others are. */
__noinline int weir_proxied_track(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
				  __u32 reverse)
{
	__u32 flags = p->tcp_flags & (WEIR_TCP_SYN | WEIR_TCP_ACK | WEIR_TCP_RST), number;
	weir_line *s = weir_state_line(slot);
	bool is_answered = s->next_hop[1] & WEIR_PROXIED_ANSWERED;

	if (!(reverse & 1)) {
		/* Its handshake is over. */
		if (flags & WEIR_TCP_SYN)
			return WEIR_FW_REASON_STATE_MISMATCH + 1;
		return is_answered || flags & WEIR_TCP_RST ? WEIR_PROXIED_FITS :
							     WEIR_PROXIED_WAITS;
	}
	if (is_answered)
		return WEIR_PROXIED_FITS;
	/* The number is taken for good: from nobody who does not know that of the SYN. */
	if (!(flags & WEIR_TCP_ACK) || p->ack != s->seq[0].lo + 1)
		return WEIR_FW_REASON_STATE_MISMATCH + 1;
	number = weir_proxied_number(s) - p->seq;
	/* What refuses the connection ends one that end 0 takes for established. */
	if (flags & WEIR_TCP_RST)
		number++;
	else if (!(flags & WEIR_TCP_SYN))
		return WEIR_FW_REASON_STATE_MISMATCH + 1;
	weir_proxied_note(s, number, WEIR_PROXIED_ANSWERED);
	return WEIR_PROXIED_FITS;
}

#endif /* WEIR_FW_PROXIED_H */

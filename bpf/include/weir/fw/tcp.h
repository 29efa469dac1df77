/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP: pf's state machine with sequence windows (Guido van Rooij, "Real stateful TCP packet
 * filtering in IP Filter", 2000; pf.conf(5)) and window scaling (RFC 7323). `source` is the end
 * that the packet comes from, `other` the one that it goes to.
 *
 * A packet is let through if it ends inside the window that the other end has opened, does not
 * begin more than a window before what was seen, and acknowledges what can have been sent. A RST
 * must stand at the edge of what its sender has sent.
 */
#ifndef WEIR_FW_TCP_H
#define WEIR_FW_TCP_H

#include <weir/fw/headers.h>
#include <weir/fw/modulator.h>
#include <weir/fw/table.h>
#include <weir/fw/timeout.h>

/* How far an acknowledgement may lie behind: a window without scaling and a packet. */
#define WEIR_TCP_ACK_WINDOW (0xffff + 1500)

#define WEIR_SEQ_GEQ(a, b) ((__s32)((a) - (b)) >= 0)
#define WEIR_SEQ_GT(a, b) ((__s32)((a) - (b)) > 0)

/* What weir_tcp_follow() returns besides reasons + 1. */
#define WEIR_TCP_FITS 0
/* The connection is over and a new one begins: the record has to go. */
#define WEIR_TCP_REUSED 0x100
/* The source has too many connections: the record has to go, and the packet. */
#define WEIR_TCP_OVER 0x400
/* Besides a drop: the sender shall be told by a RST. */
#define WEIR_TCP_SEND_RST 0x200
/* Besides a drop: the sender shall be asked by an ACK whether it still knows the connection. */
#define WEIR_TCP_CHALLENGE 0x800
/* Besides all of weir_tcp_track(): the source has one connection more. */
#define WEIR_TCP_CONNECTS 0x2000

/*
 * One end, where it stands in its record: copies would need more stack than there is below the data
 * path's other functions.
 */
struct weir_tcp_peer {
	__u32 __weir_arena *seq; /* lo, hi */
	__u16 __weir_arena *max_win;
	__u8 __weir_arena *phase; /* and wscale, two bytes behind */
};

#define WEIR_TCP_LO(peer) ((peer)->seq[0])
#define WEIR_TCP_HI(peer) ((peer)->seq[1])
#define WEIR_TCP_WIN(peer) (*(peer)->max_win)
#define WEIR_TCP_PHASE(peer) ((peer)->phase[0])
#define WEIR_TCP_WSCALE(peer) ((peer)->phase[2])

_Static_assert(__builtin_offsetof(struct weir_state, wscale) ==
		       __builtin_offsetof(struct weir_state, phase) + 2,
	       "WEIR_TCP_WSCALE");

static __always_inline struct weir_tcp_peer weir_tcp_peer_of(weir_line *s, __u32 end)
{
	struct weir_tcp_peer peer = {
		.seq = (__u32 __weir_arena *)s->seq + 2 * end,
		.max_win = s->max_win + end,
		.phase = s->phase + end,
	};

	return peer;
}

/* What a packet says, as far as the window check wants it. */
struct weir_tcp_segment {
	__u32 seq;
	__u32 end;
	__u32 data_end;	/* without a FIN, which needs no room in the window */
	__u32 ack;
	__u32 win;
	__u32 source_scale; /* shift of the sender's window */
	__u32 other_scale;
	__u32 flags;
};

static __always_inline __u32 weir_max(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

/* The first packet of an end: from here on its sequence numbers are known. */
static __always_inline void weir_tcp_begin(struct weir_tcp_peer *source,
					   struct weir_tcp_peer *other,
					   struct weir_tcp_segment *t, __u32 offered_wscale)
{
	__u32 reach;

	if (t->flags & WEIR_TCP_SYN && WEIR_TCP_WSCALE(other) & WEIR_WSCALE_FLAG) {
		WEIR_TCP_WSCALE(source) &= WEIR_WSCALE_NOTES;
		WEIR_TCP_WSCALE(source) |= offered_wscale;
		if (offered_wscale & WEIR_WSCALE_FLAG) {
			/* The window of a SYN is not scaled; what is kept is. */
			t->source_scale = offered_wscale & WEIR_WSCALE_MASK;
			t->win = (t->win + (1u << t->source_scale) - 1) >> t->source_scale;
			t->other_scale = WEIR_TCP_WSCALE(other) & WEIR_WSCALE_MASK;
		} else {
			/* No scaling in either direction, then. */
			reach = WEIR_TCP_WIN(other) << (WEIR_TCP_WSCALE(other) & WEIR_WSCALE_MASK);
			WEIR_TCP_WIN(other) = reach < 0xffff ? reach : 0xffff;
			WEIR_TCP_WSCALE(other) &= WEIR_WSCALE_NOTES;
		}
	}
	WEIR_TCP_LO(source) = t->seq;
	if (WEIR_TCP_PHASE(source) < WEIR_TCPS_SYN_SENT)
		WEIR_TCP_PHASE(source) = WEIR_TCPS_SYN_SENT;
	reach = t->end + weir_max(1, WEIR_TCP_WIN(other) << t->other_scale);
	if (WEIR_TCP_HI(source) == 1 || WEIR_SEQ_GEQ(reach, WEIR_TCP_HI(source)))
		WEIR_TCP_HI(source) = reach;
	if (t->win > WEIR_TCP_WIN(source))
		WEIR_TCP_WIN(source) = t->win;
}

/*
 * Of a connection that another firewall has had so far it is known that it is established, and not
 * where (restore.h): the first packet of either end says where it is, and what it acknowledges,
 * where the other one is. Returns whether something is learned.
 */
__noinline int weir_tcp_learn(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
			      __u32 reverse)
{
	weir_line *s = weir_state_line(slot);
	__u32 other = !(reverse & 1);

	/* Of one that is sloppy there are no windows; one whose numbers are changed is not sent. */
	if (s->control & (WEIR_STATE_SLOPPY | WEIR_STATE_SCRUB))
		return false;
	if (s->seq[other].hi == 1 && s->phase[other] >= WEIR_TCPS_ESTABLISHED &&
	    p->tcp_flags & WEIR_TCP_ACK && p->ack) {
		s->seq[other].lo = p->ack;
		s->seq[other].hi = p->ack + 1;
		if (!(s->control & WEIR_STATE_TRACKED)) {
			s->wscale[1] &= ~WEIR_WSCALE_SETTLES;
			s->wscale[1] |= WEIR_WSCALE_LEARNED;
		}
		return true;
	}
	return false;
}

/*
 * What an end of a connection that was learned acknowledges may have come to it by the other
 * firewall, out of order, up to the window that it offers: once the gap before it is filled, that
 * is far ahead of what was seen here. Takes it for where the other end is, if the packet fits but
 * for that, also one without data. Returns whether it does. A sweep soon ends that (sweep.h).
 */
__noinline int weir_tcp_reach(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
			      __u32 reverse)
{
	weir_line *s = weir_state_line(slot);
	__u32 source = reverse & 1, other = !source, scaled, end = p->seq + p->payload_bytes;
	__s32 ahead = (__s32)(p->ack - s->seq[other].lo), most;

	if (s->control & WEIR_STATE_TRACKED || !(s->wscale[1] & WEIR_WSCALE_LEARNED) ||
	    (p->tcp_flags & (WEIR_TCP_SYN | WEIR_TCP_RST | WEIR_TCP_ACK)) != WEIR_TCP_ACK)
		return false;
	scaled = s->wscale[0] & s->wscale[1] & WEIR_WSCALE_FLAG ? WEIR_WSCALE_MASK : 0;
	most = (__s32)weir_max(s->seq[other].hi - s->seq[other].lo,
			       p->window << (s->wscale[source] & scaled));
	if (ahead <= WEIR_TCP_ACK_WINDOW || ahead > most + WEIR_TCP_ACK_WINDOW)
		return false;
	if (!WEIR_SEQ_GEQ(s->seq[source].hi, end) ||
	    !WEIR_SEQ_GEQ(p->seq, s->seq[source].lo -
					  (s->max_win[other] << (s->wscale[other] & scaled))))
		return false;
	s->seq[other].lo = p->ack;
	if (WEIR_SEQ_GT(p->ack, s->seq[other].hi))
		s->seq[other].hi = p->ack;
	return true;
}

/* What both ways of being let through have in common. */
static __always_inline void weir_tcp_advance(struct weir_tcp_peer *source,
					     struct weir_tcp_peer *other,
					     const struct weir_tcp_segment *t)
{
	__u32 opened = t->win << t->source_scale;

	if (WEIR_TCP_WIN(source) < t->win)
		WEIR_TCP_WIN(source) = t->win;
	if (WEIR_SEQ_GT(t->end, WEIR_TCP_LO(source)))
		WEIR_TCP_LO(source) = t->end;
	if (WEIR_SEQ_GEQ(t->ack + opened, WEIR_TCP_HI(other)))
		WEIR_TCP_HI(other) = t->ack + weir_max(opened, 1);
}

/* pf_tcp_track_full(): WEIR_TCP_FITS, or a drop. In its window, a packet keeps the state alive. */
static __always_inline int weir_tcp_full(const struct weir_fw_packet *p, __u32 ack,
					 struct weir_tcp_peer *source, struct weir_tcp_peer *other,
					 bool *is_in_window)
{
	struct weir_tcp_segment t = {
		.seq = p->seq,
		.ack = ack,
		.win = p->window,
		.flags = p->tcp_flags,
	};
	__s32 skew;

	if (WEIR_TCP_WSCALE(source) & WEIR_WSCALE_FLAG &&
	    WEIR_TCP_WSCALE(other) & WEIR_WSCALE_FLAG && !(t.flags & WEIR_TCP_SYN)) {
		t.source_scale = WEIR_TCP_WSCALE(source) & WEIR_WSCALE_MASK;
		t.other_scale = WEIR_TCP_WSCALE(other) & WEIR_WSCALE_MASK;
	}
	t.data_end = t.seq + p->payload_bytes + !!(t.flags & WEIR_TCP_SYN);
	t.end = t.data_end + !!(t.flags & WEIR_TCP_FIN);
	if (!WEIR_TCP_LO(source))
		weir_tcp_begin(source, other, &t, p->wscale);
	/* Without an acknowledgement, or where some stacks send zero, there is none to check. */
	if (!(t.flags & WEIR_TCP_ACK) || (!t.ack && t.flags & WEIR_TCP_RST) ||
	    WEIR_TCP_PHASE(other) < WEIR_TCPS_SYN_SENT)
		t.ack = WEIR_TCP_LO(other);
	/* Packets without data may stand anywhere. */
	if (t.seq == t.end)
		t.seq = t.end = t.data_end = WEIR_TCP_LO(source);
	skew = (__s32)(WEIR_TCP_LO(other) - t.ack);
	if (WEIR_SEQ_GEQ(WEIR_TCP_HI(source), t.data_end) &&
	    WEIR_SEQ_GEQ(t.seq, WEIR_TCP_LO(source) - (WEIR_TCP_WIN(other) << t.other_scale)) &&
	    skew >= -WEIR_TCP_ACK_WINDOW && skew <= WEIR_TCP_ACK_WINDOW << t.source_scale &&
	    (!(t.flags & WEIR_TCP_RST) || p->seq == WEIR_TCP_LO(source) ||
	     p->seq == WEIR_TCP_LO(source) + 1 ||
	     p->seq + 1 == WEIR_TCP_LO(source))) {
		weir_tcp_advance(source, other, &t);
		if (t.flags & WEIR_TCP_SYN && WEIR_TCP_PHASE(source) < WEIR_TCPS_SYN_SENT)
			WEIR_TCP_PHASE(source) = WEIR_TCPS_SYN_SENT;
		if (t.flags & WEIR_TCP_FIN && WEIR_TCP_PHASE(source) < WEIR_TCPS_CLOSING)
			WEIR_TCP_PHASE(source) = WEIR_TCPS_CLOSING;
		if (t.flags & WEIR_TCP_ACK) {
			if (WEIR_TCP_PHASE(other) == WEIR_TCPS_SYN_SENT)
				WEIR_TCP_PHASE(other) = WEIR_TCPS_ESTABLISHED;
			else if (WEIR_TCP_PHASE(other) == WEIR_TCPS_CLOSING)
				WEIR_TCP_PHASE(other) = WEIR_TCPS_FIN_WAIT_2;
		}
		*is_in_window = true;
		return WEIR_TCP_FITS;
	}
	/*
	 * A SYN that crosses another one, a connection that was there before us, and what some
	 * stacks send after its end.
	 */
	if ((WEIR_TCP_PHASE(other) < WEIR_TCPS_SYN_SENT ||
	     WEIR_TCP_PHASE(other) >= WEIR_TCPS_FIN_WAIT_2 ||
	     WEIR_TCP_PHASE(source) >= WEIR_TCPS_FIN_WAIT_2) &&
	    WEIR_SEQ_GEQ(WEIR_TCP_HI(source) + WEIR_TCP_ACK_WINDOW, t.data_end) &&
	    WEIR_SEQ_GEQ(t.seq, WEIR_TCP_LO(source) - WEIR_TCP_ACK_WINDOW)) {
		weir_tcp_advance(source, other, &t);
		if (t.flags & WEIR_TCP_FIN && WEIR_TCP_PHASE(source) < WEIR_TCPS_CLOSING)
			WEIR_TCP_PHASE(source) = WEIR_TCPS_CLOSING;
		if (t.flags & WEIR_TCP_RST)
			WEIR_TCP_PHASE(source) = WEIR_TCP_PHASE(other) = WEIR_TCPS_TIME_WAIT;
		return WEIR_TCP_FITS;
	}
	if (WEIR_TCP_PHASE(other) == WEIR_TCPS_SYN_SENT &&
	    WEIR_TCP_PHASE(source) == WEIR_TCPS_SYN_SENT) {
		WEIR_TCP_LO(source) = 0;
		WEIR_TCP_HI(source) = 1;
		WEIR_TCP_WIN(source) = 1;
		if (!(t.flags & WEIR_TCP_RST))
			return (WEIR_FW_REASON_STATE_MISMATCH + 1) | WEIR_TCP_SEND_RST;
	}
	return WEIR_FW_REASON_STATE_MISMATCH + 1;
}

/* pf_tcp_track_sloppy(): phases alone, also where only one direction is seen. */
static __always_inline void weir_tcp_sloppy(__u32 flags, struct weir_tcp_peer *source,
					    struct weir_tcp_peer *other)
{
	if (flags & WEIR_TCP_SYN && WEIR_TCP_PHASE(source) < WEIR_TCPS_SYN_SENT)
		WEIR_TCP_PHASE(source) = WEIR_TCPS_SYN_SENT;
	if (flags & WEIR_TCP_FIN && WEIR_TCP_PHASE(source) < WEIR_TCPS_CLOSING)
		WEIR_TCP_PHASE(source) = WEIR_TCPS_CLOSING;
	if (flags & WEIR_TCP_ACK) {
		if (WEIR_TCP_PHASE(other) == WEIR_TCPS_SYN_SENT)
			WEIR_TCP_PHASE(other) = WEIR_TCPS_ESTABLISHED;
		else if (WEIR_TCP_PHASE(other) == WEIR_TCPS_CLOSING)
			WEIR_TCP_PHASE(other) = WEIR_TCPS_FIN_WAIT_2;
		else if (WEIR_TCP_PHASE(source) == WEIR_TCPS_SYN_SENT &&
			 WEIR_TCP_PHASE(other) < WEIR_TCPS_SYN_SENT)
			WEIR_TCP_PHASE(other) = WEIR_TCP_PHASE(source) = WEIR_TCPS_ESTABLISHED;
		else if (WEIR_TCP_PHASE(source) == WEIR_TCPS_CLOSING &&
			 WEIR_TCP_PHASE(other) == WEIR_TCPS_ESTABLISHED && !WEIR_TCP_LO(other))
			WEIR_TCP_PHASE(other) = WEIR_TCPS_CLOSING;
	}
}

/* A handshake is over, one way or the other: the record is half-open no more. */
static __always_inline void weir_tcp_connected(weir_line *s)
{
	s->wscale[0] |= WEIR_WSCALE_CONNECTED;
	__sync_fetch_and_sub(&weir_fw_control()->half_open_count, 1);
}

/*
 * Whether a handshake has just been completed; says so once, also of a record of which no half is
 * tracked: one that is added later has not seen the handshake, and does not count it.
 */
static __always_inline bool weir_tcp_connects(weir_line *s, const struct weir_tcp_peer *source,
					      const struct weir_tcp_peer *other)
{
	if (s->wscale[0] & WEIR_WSCALE_CONNECTED ||
	    WEIR_TCP_PHASE(source) != WEIR_TCPS_ESTABLISHED ||
	    WEIR_TCP_PHASE(other) != WEIR_TCPS_ESTABLISHED)
		return false;
	weir_tcp_connected(s);
	return true;
}

/* Tracks one packet under its bucket's lock, and nothing else that follows from it. */
__noinline int weir_tcp_track(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
			      __u32 reverse)
{
	weir_line *s = weir_state_line(slot);
	__u32 control = s->control, flags = p->tcp_flags, ack = p->ack;
	struct weir_tcp_peer source = weir_tcp_peer_of(s, reverse & 1);
	struct weir_tcp_peer other = weir_tcp_peer_of(s, !(reverse & 1));
	bool is_in_window = false, is_proxied = false, connects;
	int result = WEIR_TCP_FITS;

	if (weir_tcp_opens(flags)) {
		if (WEIR_TCP_PHASE(&source) >= WEIR_TCPS_FIN_WAIT_2 &&
		    WEIR_TCP_PHASE(&other) >= WEIR_TCPS_FIN_WAIT_2)
			return WEIR_TCP_REUSED;
		/* An end that has lost its connection answers the ACK by a RST that ends it. */
		if (WEIR_TCP_PHASE(&source) >= WEIR_TCPS_ESTABLISHED &&
		    WEIR_TCP_PHASE(&other) >= WEIR_TCPS_ESTABLISHED)
			return (WEIR_FW_REASON_STATE_MISMATCH + 1) | WEIR_TCP_CHALLENGE;
	}
	if (control & WEIR_STATE_SCRUB && weir_state_is_modulated(s)) {
		is_proxied = weir_state_is_proxied(s);
		result = is_proxied ? weir_proxied_track(p, slot, reverse) : WEIR_PROXIED_FITS;
		if (result != WEIR_PROXIED_FITS)
			return result;
		ack = weir_modulate_packet(p, slot, reverse);
	}
	if (control & WEIR_STATE_SLOPPY) {
		weir_tcp_sloppy(flags, &source, &other);
		is_in_window = true;
	} else {
		result = weir_tcp_full(p, ack, &source, &other, &is_in_window);
	}
	/* To whom the box has answered before, nothing is missing in the handshake. */
	if (is_proxied && is_in_window && flags & WEIR_TCP_SYN &&
	    WEIR_TCP_PHASE(&source) == WEIR_TCPS_SYN_SENT)
		WEIR_TCP_PHASE(&source) = WEIR_TCPS_ESTABLISHED;
	connects = weir_tcp_connects(s, &source, &other) && control & WEIR_STATE_TRACKED;
	if (is_in_window) {
		/* A RST may have completed the handshake before it ends the connection. */
		if (flags & WEIR_TCP_RST) {
			WEIR_TCP_PHASE(&source) = WEIR_TCP_PHASE(&other) = WEIR_TCPS_TIME_WAIT;
			if (!(s->wscale[0] & WEIR_WSCALE_CONNECTED))
				weir_tcp_connected(s);
		}
		s->last_tick = p->tick;
		s->control = control & ~WEIR_STATE_FIRST;
	}
	return connects ? result | WEIR_TCP_CONNECTS : result;
}

/* The phases of both ends, and whether there was a second packet. */
static __always_inline __u32 weir_tcp_phases(__u32 slot)
{
	weir_line *s = weir_state_line(slot);

	return *(__u16 __weir_arena *)s->phase | (s->control & WEIR_STATE_FIRST) << 16;
}

/* Tracks one packet under its bucket's lock, with what follows from it for others. */
__noinline int weir_tcp_follow(const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
			       __u32 reverse)
{
	__u32 before = weir_tcp_phases(slot);
	int result, is_over;

	/* What is learned is a change as well: as if there had been no phases. */
	if (!weir_state_line(slot)->seq[!(reverse & 1)].lo && weir_tcp_learn(p, slot, reverse))
		before = ~0u;
	result = weir_tcp_track(p, slot, reverse);
	if (result == WEIR_FW_REASON_STATE_MISMATCH + 1 && weir_tcp_reach(p, slot, reverse))
		result = weir_tcp_track(p, slot, reverse);
	if (weir_tcp_phases(slot) != before)
		weir_dirty_mark(slot);
	if (!(result & WEIR_TCP_CONNECTS))
		return result;
	is_over = weir_source_connect(slot, 0, p->tick, p->cpu);
	is_over |= weir_source_connect(slot, 1, p->tick, p->cpu);
	return is_over ? WEIR_TCP_OVER : result & ~WEIR_TCP_CONNECTS;
}

/* A new record: what is known after its first packet. */
static __always_inline void weir_tcp_open(const struct weir_fw_packet *p, weir_line *s)
{
	__u32 win = weir_max(p->window, 1), scale = 0, hi = p->seq + p->payload_bytes + 1;

	s->wscale[0] = 0;
	if (p->tcp_flags & WEIR_TCP_SYN) {
		hi++;
		s->wscale[0] = p->wscale;
		scale = p->wscale & WEIR_WSCALE_MASK;
	}
	if (p->tcp_flags & WEIR_TCP_FIN)
		hi++;
	s->wscale[1] = 0;
	s->seq[0].lo = p->seq;
	s->seq[0].hi = hi;
	s->seq[1].lo = 0;
	s->seq[1].hi = 1;
	s->max_win[0] = (win + (1u << scale) - 1) >> scale;
	s->max_win[1] = 1;
	s->phase[0] = WEIR_TCPS_SYN_SENT;
	s->phase[1] = WEIR_TCPS_CLOSED;
}

#endif /* WEIR_FW_TCP_H */

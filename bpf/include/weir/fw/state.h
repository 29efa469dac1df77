/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state table, as the rest of the data path sees it.
 *
 * A packet's way: weir_state_touch() as soon as the addresses are parsed, so that the bucket's line
 * is on its way while other work goes on; weir_state_lookup(); where it finds nothing, or a record
 * that does not cover the hook, the rules, then weir_state_insert(). Nobody else reads or changes
 * records: what is needed of them is copied into struct weir_fw_hit under the bucket's lock.
 */
#ifndef WEIR_FW_STATE_H
#define WEIR_FW_STATE_H

#include <weir/fw/arena.h>
#include <weir/fw/layout.h>
#include <weir/fw/packet.h>

#define WEIR_FW_SLOT_NONE 0xffffffffu

/* weir_fw_hit.flags */
enum {
	WEIR_HIT_LOG_ALL_A = 1 << 0, /* half A's rule logs every packet */
	WEIR_HIT_SEND_RST = 1 << 1,  /* of a drop: answer with a RST, as pf in a handshake */
	WEIR_HIT_ALLOW_OPTIONS_A = 1 << 2, /* half A's packets may have IP options */
	WEIR_HIT_LOG_ALL_B = 1 << 3, /* half B's rule logs every packet */
	WEIR_HIT_TRACKED = 1 << 4,   /* the packet was tracked and counted */
	WEIR_HIT_ALLOW_OPTIONS_B = 1 << 5, /* half B's packets may have IP options */
	WEIR_HIT_CHALLENGE = 1 << 6, /* of a drop: answer with an ACK, of `numbers` */
	WEIR_HIT_TRANSLATED = 1 << 7, /* on its way out the packet gets the source `wire` */
	WEIR_HIT_PROXIED = 1 << 8,    /* proxied.h: `numbers` are there */
	WEIR_HIT_PROXY_WAITS = 1 << 9, /* the packet becomes the SYN that is not answered yet */
	WEIR_HIT_WATCHED = 1 << 10,   /* its rules may count for tables: counted.h */
	WEIR_HIT_FAMILY = 1 << 11,    /* where it came in: it becomes weir_fw_scratch.other */
};

/* What is known of a packet's record. Made by weir_state_lookup(), also if there is none. */
struct weir_fw_hit {
	__u32 slot;		/* WEIR_FW_SLOT_NONE: no record */
	__u32 rule[2];		/* rules of half A and of half B, only with WEIR_HIT_WATCHED */
	/* WEIR_HIT_CHALLENGE: sequence and acknowledgement. Of WEIR_HIT_PROXIED else: the record's
	 * number, and that of the SYN that may wait. */
	__u32 numbers[2];
	__be32 wire[4];		/* WEIR_HIT_TRANSLATED: source where the packet leaves */
	__be16 wire_port;
	__u16 next_hop;		/* in the packet's direction; 0: not known */
	__u16 generation;	/* in which next_hop was found */
	__u8 reverse;		/* the packet goes from end 1 to end 0 */
	__u8 covered[2];	/* by WEIR_FW_IN, WEIR_FW_OUT: no rules are needed. For a record
				 * that is bound to interfaces IN is exact, and OUT is judged by
				 * weir_state_covers_out() */
	__u8 if_bound;
	__u8 interface[2];	/* slots that halves are bound to, by the packet's hook; 0: any */
	__u16 flags;		/* WEIR_HIT_* */
	__u8 reason;		/* of WEIR_STATE_DROP: WEIR_FW_REASON_* */
	__u8 scrub[2];		/* numbers of what packets of half A, half B are changed by */
	__u8 gateway;		/* number of that of the packet's direction; 0: none */
};

/* What weir_state_lookup() and weir_state_error() return. */
enum weir_state_found { WEIR_STATE_MISS, WEIR_STATE_HIT, WEIR_STATE_DROP };

/* What they say besides: the record is of the other family, by the alias numbers[0]. */
#define WEIR_STATE_ELSEWHERE 3

/* Computes p->hash and asks for the line of its bucket; does not wait for it. */
static __always_inline void weir_state_touch(struct weir_fw_packet *p);

/*
 * Finds the packet's record. If it covers the hook, the connection is tracked and the packet
 * counted; WEIR_STATE_DROP if the packet does not fit then (hit->reason). A record that does not
 * cover the hook has no say before the rules. A packet that comes in by the wire key of a
 * translated record gets the inside destination if it is a hit (alias.h).
 * Uses p->hash, p->direction, p->interface; at the egress hook also p->out_interface. What was
 * tracked as it came in is not tracked there again.
 */
static __always_inline int weir_state_lookup(struct weir_fw_packet *p, struct weir_fw_hit *hit);

/*
 * For the way out of a packet whose record covers it, after a way in that was not tracked
 * (WEIR_HIT_TRACKED): the same again with p->direction == WEIR_FW_OUT.
 */
static __always_inline int weir_state_track_out(struct weir_fw_packet *p, struct weir_fw_hit *hit);

/*
 * Keeps state as a decision with WEIR_DECISION_KEEP_STATE asks: makes a record, or adds the half of
 * p->direction to the one in hit, which it updates. Returns 0, or the drop's reason + 1.
 */
__noinline int weir_state_insert(const struct weir_fw_packet *p,
				 const struct weir_fw_decision *d,
		      struct weir_fw_hit *hit);

/*
 * To be called after rules have passed a packet: a record that they have extended looks at the
 * packet too, but has no say. WEIR_STATE_DROP only for the limits of its source.
 */
static __always_inline int weir_state_follow(struct weir_fw_packet *p, struct weir_fw_hit *hit);

/* Remembers the next hop of the packet's direction. */
static __always_inline void weir_state_next_hop(const struct weir_fw_packet *p,
						const struct weir_fw_hit *hit, __u16 index,
						__u16 generation);

/*
 * The record of the flow that an ICMP error quotes. `quoted` describes the quoted packet (family,
 * protocol, addresses, ports, and for TCP seq), and is turned round, so that it goes where the
 * error goes; hit is filled for that direction. WEIR_STATE_DROP if the quoted packet lies outside
 * its window. Where the flow is translated, both get the inside destination; of what
 * WEIR_STATE_ELSEWHERE says, weir_family_error() is asked.
 */
__noinline int weir_state_error(struct weir_fw_packet *p, struct weir_fw_packet *quoted,
				struct weir_fw_hit *hit);
__noinline int weir_family_error(const struct weir_fw_packet *p,
				 const struct weir_fw_packet *along, struct weir_fw_hit *hit);

/* Whether the record covers the packet's way out by p->out_interface. */
static __always_inline bool weir_state_covers_out(const struct weir_fw_packet *p,
						  const struct weir_fw_hit *hit)
{
	if (!hit->covered[WEIR_FW_OUT])
		return false;
	return !hit->if_bound || !hit->interface[WEIR_FW_OUT] ||
	       hit->interface[WEIR_FW_OUT] == p->out_interface;
}

#endif /* WEIR_FW_STATE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the firewall knows of one packet: filled once by the parser, read by everybody after it.
 * It is made of values, never of pointers into the frame, so that functions that are verified on
 * their own can take it.
 */
#ifndef WEIR_FW_PACKET_H
#define WEIR_FW_PACKET_H

#include <weir/fw/layout.h>
#include <weir/vmlinux.h>

/* Copies an address, all four words of it; either may be in the arena. */
#define weir_copy_address(to, from)    \
	do {                           \
		(to)[0] = (from)[0];   \
		(to)[1] = (from)[1];   \
		(to)[2] = (from)[2];   \
		(to)[3] = (from)[3];   \
	} while (0)

/* weir_fw_packet.flags */
enum weir_packet_flag {
	WEIR_PACKET_FRAGMENT = 1 << 0,	     /* any fragment */
	WEIR_PACKET_LATER_FRAGMENT = 1 << 1, /* not the first one: no ports */
	WEIR_PACKET_OPTIONS = 1 << 2,	     /* IP options, or the extension headers like them */
	WEIR_PACKET_ICMP_ERROR = 1 << 3,     /* quotes a packet */
	WEIR_PACKET_LOCAL = 1 << 4,	     /* for the box, or (egress) from it */
	WEIR_PACKET_GROUP = 1 << 5,	     /* broadcast or multicast frame or address */
	WEIR_PACKET_SKB = 1 << 6,	     /* the kernel's: of a tcx program */
	/* Of routes, only known if the ruleset asks for it, and where rules judge: routable.h. */
	WEIR_PACKET_NO_ROUTE_BACK = 1 << 8,  /* no route to the source */
	WEIR_PACKET_NO_ROUTE_TO = 1 << 9,    /* no route to the destination */
	WEIR_PACKET_URPF_FAILED = 1 << 10,   /* the route to the source leaves elsewhere */
	WEIR_PACKET_CLEAR_FIN = 1 << 7,	     /* a SYN with FIN: pf takes the FIN out */
	WEIR_PACKET_UNTRACKED = 1 << 11,     /* its state is none of its own: fragments, errors */
	WEIR_PACKET_STAY = 1 << 12,	     /* tagged, partial, or for another MAC: never forwarded
					      * here */
	WEIR_PACKET_MORE_FRAGMENTS = 1 << 13,
	WEIR_PACKET_FOLLOWS = 1 << 14,	     /* its first fragment has passed */
	WEIR_PACKET_INSANE = 1 << 16,	     /* the first interface that filters drops it */
	WEIR_PACKET_SKIPPED = 1 << 15,	     /* `set skip` is on the interface it came by */
	WEIR_PACKET_FOREIGN = 1 << 17,	     /* for the MAC address of somebody else */
	WEIR_PACKET_SECOND = 1 << 18,	     /* in the second stage, where its route is known */
	WEIR_PACKET_PARTIAL = 1 << 19,	     /* its checksum is missing still: partial.h */
	WEIR_PACKET_CHALLENGE = 1 << 20,     /* answered by an ACK, of these seq and ack */
	WEIR_PACKET_SAW_FRAGMENT = 1 << 21,  /* has a fragment header, if only of the whole */
	WEIR_PACKET_SAW_ROUTING = 1 << 22,   /* has a routing header */
	WEIR_PACKET_TRANSLATED = 1 << 23,    /* its ends are not those in the frame */
	WEIR_PACKET_FOLLOWS_TRANSLATED = 1 << 24, /* its first fragment has been translated */
	WEIR_PACKET_MERGED = 1 << 25,	     /* segments in one (GSO): longer than the MTU */
	WEIR_PACKET_ROUTED = 1 << 26,	     /* its gateway is a rule's, and in no state */
	WEIR_PACKET_PROXIED = 1 << 27,	     /* a SYN, made of an ACK with this `ack`: proxy.h */
	WEIR_PACKET_DEFERRED = 1 << 28,	     /* it has waited for its state: defer.h */
};

struct weir_fw_packet {
	/* Addresses in network order; IPv4 in the first word, the others 0. */
	__be32 src[4];
	__be32 dst[4];
	__be16 src_port;	/* ICMP echo: the identifier, in both */
	__be16 dst_port;
	__u8 family;		/* WEIR_FW_INET, WEIR_FW_INET6 */
	__u8 protocol;		/* behind extension headers */
	__u8 tcp_flags;
	__u8 ttl;
	__u8 icmp_type;
	__u8 icmp_code;
	__u8 tos;
	__u8 direction;		/* WEIR_FW_IN, WEIR_FW_OUT: of the hook that is being judged */
	__u32 flags;		/* WEIR_PACKET_* */
	__u16 l3_at;		/* bytes from the frame's start */
	__u16 l4_at;
	__u16 quoted_at;	/* ICMP errors: the quoted IP header */
	__u16 vlan_bytes;
	__u32 ip_bytes;		/* length of the packet from the IP header on, by that header */
	__u32 payload_bytes;	/* behind the TCP or UDP header */
	__u32 seq;		/* TCP, host order */
	__u32 ack;
	__u16 window;
	__u16 fragment_at;	/* offset, bytes */
	__u32 fragment_id;
	__u8 tcp_header_bytes;
	__u8 fragment_gap;	/* from the fragment header to the message, 4 bytes each */
	__u16 mss;		/* of a SYN; 0: none */
	__u8 wscale;		/* of a SYN: WEIR_WSCALE_* */
	__u8 interface;		/* slot by which it came; 0: it is the box's own */
	__u8 out_interface;	/* slot by which it leaves; 0: not known yet, or the box itself */
	__u8 priority;		/* of the VLAN tag, 0 to 7 */
	__u32 ruleset;		/* offset of the active image, read once; 0: nothing is judged */
	__u32 tick;		/* now */
	__u64 hash;		/* the same for both directions of the flow */
	__u16 cpu;
	__u16 vlan_tci;		/* of the outer tag, host order; 0: none */
	__u16 routing_table;	/* rtable of the rules; 0: the main one */
	__u16 tag;		/* number of the tag that rules gave it; 0: none */
	__u8 ip_protocol;	/* of IPv4's header: its fragments are told apart by it */
	__u8 gateway;		/* number of the one that it goes to; 0: as the routes say */
	/* Of the system that sent it: os.h. 0: nobody has looked; WEIR_FW_SYSTEM_UNKNOWN. */
	__u16 system;
	/* Of its socket: owner.h. Only known where rules ask; WEIR_FW_OWNER_UNKNOWN. */
	__u32 user;
	__u32 group;
};

/* What rules say about a packet. All zero: the default pass without a state. */
enum weir_decision_flag {
	WEIR_DECISION_BLOCK = 1 << 0,
	WEIR_DECISION_KEEP_STATE = 1 << 1,
	WEIR_DECISION_LOG = 1 << 2,
	WEIR_DECISION_LOG_ALL = 1 << 3,
	WEIR_DECISION_ALLOW_OPTIONS = 1 << 4,
	WEIR_DECISION_RETURN_RST = 1 << 5,   /* answer TCP with RST */
	WEIR_DECISION_RETURN_ICMP = 1 << 6,  /* answer with ICMP unreachable, code below */
	WEIR_DECISION_SLOPPY = 1 << 7,
	WEIR_DECISION_IF_BOUND = 1 << 8,
	WEIR_DECISION_NO_SYNC = 1 << 9,
	WEIR_DECISION_SOURCE_TRACK = 1 << 10,
	WEIR_DECISION_RESERVED = 1 << 11,    /* a management rule: may use reserved states */
	WEIR_DECISION_MODULATE = 1 << 12,    /* sequence numbers are changed */
	WEIR_DECISION_SYNPROXY = 1 << 13,    /* the box shakes hands first: proxy.h */
	WEIR_DECISION_BLOCK_LIMIT = 1 << 14, /* the drop's reason stands in `reason` */
	WEIR_DECISION_COUNTED = 1 << 15,     /* packets are counted for tables: counted.h */
	WEIR_DECISION_TAKEN = 1 << 16,	     /* on the wire the state's place is another's */
	WEIR_DECISION_ADAPTIVE = 1 << 17,    /* the same as SYNPROXY, while SYNs flood the table */
	WEIR_DECISION_PFLOW = 1 << 18,	     /* the end of its states is told: event.h */
	WEIR_DECISION_RATED = 1 << 19,	     /* `max-pkt-rate`: bound.h */
	WEIR_DECISION_ONCE = 1 << 20,	     /* of a rule: it matches one packet */
	WEIR_DECISION_COPIED = 1 << 21,	     /* `dup-to`: dup.h */
	WEIR_DECISION_LIMITED = 1 << 22,     /* the rule has limiters: limiter.h */
};

struct weir_fw_decision {
	__u32 flags;		/* WEIR_DECISION_* */
	__u32 rule;		/* id of the last matching rule; WEIR_FW_RULE_NONE: the default */
	__u32 rule_at;		/* offset of its record in the image; 0: the default rule */
	__u32 log_rule;		/* id of the rule that logs */
	__u8 reason;		/* WEIR_FW_REASON_* of a block */
	__u8 rst_ttl;
	__u8 icmp_type;
	__u8 icmp_code;
	__u8 profile;		/* timeout table of the state */
	__u8 scrub_number;	/* of `scrub`, in a state; 0: none */
	__u8 gateway;		/* number of `route-to`; 0: none */
	__u8 gateway_back;	/* number of `reply-to`; 0: none */
	__u32 state_max;	/* `max`; 0: none */
	__u32 routing_table;
	__u16 tag;		/* number of the packet's tag; 0: none */
	__u16 kept_tag;		/* that these rules gave, which a state of them keeps; 0: none */
	__u32 alias;		/* slot of the state's alias at this hook; 0: none */
	__u64 scrub;		/* what the packet is changed by: enum weir_fw_scrub */
	__u32 mtu_bytes;	/* that an ICMP error tells of; 0: it says unreachable */
	__u32 record;		/* of the packet: slot + 1 << 1 | it goes from end 1; 0: none */
};

#endif /* WEIR_FW_PACKET_H */

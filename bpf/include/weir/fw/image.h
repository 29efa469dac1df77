/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A compiled ruleset: what the control process writes into the heap and points
 * weir_fw_control.active at. weir-fw's image.rs writes it.
 *
 * Offsets called _at count from the image's own start, so that it can stand anywhere; only what
 * lives longer than one image (contents of tables, counters of rules) is addressed from the
 * arena's start. Nothing in an image changes once it is active, but for the directory of tables,
 * where one 32-bit store replaces a table's whole content, and whose turn it is in a pool.
 *
 * All that a ruleset says is in its image, also what stands beside its rules: `set skip`, limits
 * and timeouts. So no packet meets the rules of one ruleset with the settings of another.
 * Interfaces are slots in it; a slot that gets another interface gets another image too, and no
 * packet comes by that slot before (weir-fw's engine/interfaces.rs).
 */
#ifndef WEIR_FW_IMAGE_H
#define WEIR_FW_IMAGE_H

#include <weir/fw/arena.h>
#include <weir/fw/counters.h>
#include <weir/fw/packet.h>

enum weir_fw_image_constant {
	WEIR_FW_IMAGE_MAGIC = 0x77667269,
	WEIR_FW_IMAGE_VERSION = 11,
	WEIR_FW_HOOKS_FAMILY_SHIFT = 4, /* weir_fw_criteria.hooks */
	WEIR_FW_POOL_GATEWAY_COUNT_MAX = 16, /* of a rule, by family; a power of two */
	/* weir_fw_rule.tag: that of the entry of its typed table, by source or destination */
	WEIR_FW_TAG_OF_SOURCE = 0xfffe,
	WEIR_FW_TAG_OF_DESTINATION = 0xffff,
	/* Of a typed table's values, below the shift the number of a tag. */
	WEIR_FW_TYPED_GATEWAY_SHIFT = 16,
};

/* weir_fw_image.flags */
enum weir_fw_image_flag {
	WEIR_FW_IMAGE_OPENBSD = 1 << 0,	  /* the dialect; else FreeBSD's */
	WEIR_FW_IMAGE_ROUTES = 1 << 2,	  /* rules ask for WEIR_PACKET_URPF_FAILED */
	WEIR_FW_IMAGE_TAGS = 1 << 3,	  /* rules give tags */
	WEIR_FW_IMAGE_CLASSES = 1 << 4,	  /* evaluated by bit vectors, not rule by rule */
	WEIR_FW_IMAGE_STATES = 1 << 5,	  /* some rule keeps state */
	WEIR_FW_IMAGE_SOURCES = 1 << 6,	  /* some rule tracks sources */
	WEIR_FW_IMAGE_IF_BOUND = 1 << 7,  /* some rule's states are bound to their interface */
	WEIR_FW_IMAGE_NO_ROUTE_BACK = 1 << 8, /* rules ask for WEIR_PACKET_NO_ROUTE_BACK */
	WEIR_FW_IMAGE_NO_ROUTE_TO = 1 << 9, /* and for WEIR_PACKET_NO_ROUTE_TO */
	/* No rule answers, translates, or chooses a routing table or a gateway. */
	WEIR_FW_IMAGE_STAGES = 1 << 10,
	WEIR_FW_IMAGE_TRANSLATES = 1 << 11, /* some rule translates */
	WEIR_FW_IMAGE_BOUND = 1 << 12, /* `set state-policy if-bound`: of states without a rule */
	WEIR_FW_IMAGE_SCRUBS = 1 << 13, /* some rule changes packets, one of a list or another */
	WEIR_FW_IMAGE_SCRUB_LIST = 1 << 14, /* some rule of FreeBSD's list `scrub` does */
	WEIR_FW_IMAGE_SCRUB_ALL = 1 << 15, /* and not SYNs alone */
	WEIR_FW_IMAGE_GATEWAYS = 1 << 16, /* some rule has `route-to` or `reply-to` */
	WEIR_FW_IMAGE_OWNERS = 1 << 17, /* some rule asks for `user` or `group` */
	WEIR_FW_IMAGE_PROXIES = 1 << 18, /* some rule has `synproxy state`, or may act so */
	WEIR_FW_IMAGE_COUNTED = 1 << 19, /* some rule asks a table with `counters` */
	WEIR_FW_IMAGE_NO_DF = 1 << 20, /* `set reassemble yes no-df`: of fragments */
	WEIR_FW_IMAGE_TYPED = 1 << 21, /* some rule asks a typed table */
	WEIR_FW_IMAGE_FAMILIES = 1 << 22, /* some rule has `af-to` */
	WEIR_FW_IMAGE_RATES = 1 << 23, /* some rule has `max-pkt-rate` */
	WEIR_FW_IMAGE_COPIES = 1 << 24, /* some rule has `dup-to` */
	WEIR_FW_IMAGE_ERRANDS = 1 << 25, /* or `route-to` without a state: errand.h */
	WEIR_FW_IMAGE_SYSTEMS = 1 << 26, /* some rule asks for `os` */
	/* Some rule has limiters, or one that is gone, of which there are states. */
	WEIR_FW_IMAGE_LIMITERS = 1 << 27,
};

struct weir_fw_image {
	__u32 magic;
	__u32 version;
	__u32 flags;		/* WEIR_FW_IMAGE_* */
	__u32 rule_count;	/* 0: only states filter, if there are some */
	__u64 judged[2];	/* by direction: slots on which some rule can match */
	__u64 skipped;		/* `set skip`: slots that are forwarded by, and never filtered */
	__u32 tables_at;	/* __u32[table_count]: struct weir_fw_prefix_set, from the arena's
				 * start; 0: an empty table */
	__u32 table_count;
	__u32 counters_at;	/* __u32[id_count], by rule id: struct weir_fw_rule_counters for
				 * each CPU, from the arena's start; 0: no such rule */
	__u32 id_count;
	__u32 classes_at;	/* struct weir_fw_classes */
	__u32 criteria_at;	/* struct weir_fw_criteria for each rule, those of lists too */
	/* The second line: what few packets read. */
	__u32 rules_at;		/* struct weir_fw_rule, as many */
	__u32 bytes;		/* the whole image */
	__u32 profiles_at;	/* struct weir_fw_profile[profile_count] */
	__u32 profile_count;	/* at least 1 */
	__u32 state_limit;	/* records, reserved ones included */
	__u32 reserved_count;	/* of them, for rules with `reserve` */
	__u32 source_limit;	/* `set limit src-nodes`; 0: 10000 */
	__u32 adaptive_start;	/* states; 0 with end 0: timeouts never scale */
	__u32 adaptive_end;
	/* FreeBSD's lists of translation stand behind the other rules, in this order. */
	__u32 translations_at;	/* __u32 for each rule, those of lists too: struct
				 * weir_fw_translation; 0: it does not translate */
	__u32 rdr_end;		/* behind the last rule of `rdr` */
	__u32 binat_in_end;
	__u32 binat_out_end;
	__u32 nat_end;
	/*
	 * And FreeBSD's `scrub`, twice: for the IP header, and for segment sizes. Then, in the
	 * place of further words at scrubs_at, those of IPv4 that the IP header has by interface:
	 * __u64[WEIR_FW_DIRECTION_COUNT][WEIR_FW_INTERFACE_COUNT_MAX].
	 */
	__u32 scrub_end;
	__u32 scrubs_at;	/* __u64 for each rule, those of lists too: enum weir_fw_scrub */
	/* The third line. */
	__u32 gateways_at;	/* struct weir_fw_gateways, by weir_fw_rule.gateways */
	__u32 owners_at;	/* struct weir_fw_owner, by weir_fw_criteria.flags */
	__u32 counted_at;	/* struct weir_fw_counted[id_count][2], by rule id and end; there
				 * with WEIR_FW_IMAGE_COUNTED */
	__u32 flood_from;	/* `set syncookies adaptive`: more half-open states than this */
	__u32 flood_until;	/* and then as long as there are not fewer than this */
	__u32 typed_at;		/* __u32[table_count]: of a typed table how many values it has, and
				 * behind that these, __u32 (typed.h); 0: another one. There with
				 * WEIR_FW_IMAGE_TYPED */
	__u32 rates_at;		/* struct weir_fw_rate[id_count], by rule id; there with
				 * WEIR_FW_IMAGE_RATES */
	__u32 copies_at;	/* __u32[id_count], by rule id: struct weir_fw_copy, 0: none; there
				 * with WEIR_FW_IMAGE_COPIES */
	__u32 systems_at;	/* struct weir_fw_systems (system.h); there with
				 * WEIR_FW_IMAGE_SYSTEMS */
	/* There with WEIR_FW_IMAGE_LIMITERS: */
	__u32 limiters_at;	/* struct weir_fw_limiter[WEIR_FW_LIMITER_COUNT], by kind and id */
	__u32 limited_at;	/* __u32[id_count], by rule id: enum weir_fw_limited */
	/* struct weir_fw_limiter_counts, as many as limiters, from the arena's start; 0: there
	 * never was one */
	__u32 limiter_counts_at;
	__u32 unused[4];
};

_Static_assert(sizeof(struct weir_fw_image) == 192, "what every packet reads is its first line");
_Static_assert(WEIR_FW_BLANK_AT + sizeof(struct weir_fw_image) + sizeof(struct weir_fw_profile) <=
		       WEIR_FW_SCRUBS_AT,
	       "the blank image ends before the control page goes on");

/* weir_fw_criteria.from_kind, .to_kind */
enum weir_fw_place {
	WEIR_FW_PLACE_ANY,
	WEIR_FW_PLACE_NET4,	/* from[0] under the mask from[1], in network order */
	WEIR_FW_PLACE_RANGE4,	/* from[0] to from[1], in host order */
	WEIR_FW_PLACE_NET6,	/* from[0]: offset in the image of __be32 address[4], mask[4] */
	WEIR_FW_PLACE_RANGE6,	/* from[0]: offset in the image of __u64 first[2], last[2] */
	WEIR_FW_PLACE_TABLE,	/* from[0]: index in the directory */
	WEIR_FW_PLACE_NO_ROUTE,	/* from[0]: index of the table of the box's own networks */
	WEIR_FW_PLACE_URPF_FAILED,
	WEIR_FW_PLACE_NOTHING,
};

/* weir_fw_criteria.flags: what is looked at besides */
enum weir_fw_ask {
	WEIR_FW_ASKS_FROM_NOT = 1 << 0,
	WEIR_FW_ASKS_TO_NOT = 1 << 1,
	WEIR_FW_ASKS_FROM_PORT = 1 << 2,
	WEIR_FW_ASKS_FROM_PORT_NOT = 1 << 3,
	WEIR_FW_ASKS_TO_PORT = 1 << 4,
	WEIR_FW_ASKS_TO_PORT_NOT = 1 << 5,
	WEIR_FW_ASKS_ICMP_TYPE = 1 << 6,
	WEIR_FW_ASKS_ICMP_CODE = 1 << 7,
	WEIR_FW_ASKS_HEADER = 1 << 8,	  /* ports, ICMP: never holds for a fragment */
	WEIR_FW_ASKS_FRAGMENT = 1 << 9,	  /* fragments alone */
	WEIR_FW_ASKS_TOS = 1 << 10,
	WEIR_FW_ASKS_PRIO = 1 << 11,
	WEIR_FW_ASKS_TAG = 1 << 12,
	WEIR_FW_ASKS_TAG_NOT = 1 << 13,
	WEIR_FW_ASKS_CHANCE = 1 << 14,
	WEIR_FW_ASKS_NO_REPLY = 1 << 15,  /* OpenBSD: no ICMP replies but neighbour adverts */
	WEIR_FW_ASKS_SCTP_PORTS = 1 << 16, /* FreeBSD: SCTP has ports too */
	WEIR_FW_ASKS_OWNER_SHIFT = 20, /* number of a struct weir_fw_owner; 0: none */
};

/* Whom a rule is about: one line, which a scan of the rules reads. */
struct weir_fw_criteria {
	__u64 interfaces;	/* set of slots; bit 0 is an unknown interface */
	__u64 received;		/* `received-on`: set of slots; bit 0 is the box itself */
	__u32 from[2];		/* by from_kind */
	__u32 to[2];
	__u16 from_port[2];	/* first and last, host order */
	__u16 to_port[2];
	__u32 probability;	/* of 2^32 - 1 */
	__u32 end;		/* of an anchor: the rule after its last one */
	__u32 flags;		/* WEIR_FW_ASKS_* */
	__u8 hooks;		/* bits 0, 1: in, out; bits 4, 5: inet, inet6 */
	__u8 protocol;		/* 0: any */
	__u8 tcp_set;
	__u8 tcp_mask;
	__u8 icmp_type;
	__u8 icmp_code;
	__u8 tos;
	__u8 prio;
	__u8 from_kind;		/* WEIR_FW_PLACE_* */
	__u8 to_kind;
	__u16 tagged;
};

_Static_assert(sizeof(struct weir_fw_criteria) == 64, "criteria are one line");

/* weir_fw_owner.user_how, .group_how */
enum weir_fw_owner_how {
	WEIR_FW_OWNER_ASKED = 1 << 0,
	WEIR_FW_OWNER_NOT = 1 << 1,	  /* none of these */
	WEIR_FW_OWNER_EQUALITY = 1 << 2,  /* an unknown one is compared, too */
};

#define WEIR_FW_OWNER_UNKNOWN 0xffffffffu

/* Whose packets a rule is about: `user`, `group` and `os`. */
struct weir_fw_owner {
	__u32 user[2];		/* first and last */
	__u32 group[2];
	__u32 user_how;		/* WEIR_FW_OWNER_* */
	__u32 group_how;
	__u32 systems_at;	/* a set of numbers of systems, in __u64, by weir_fw_packet.system;
				 * 0: any */
	__u32 unused;
};

/* A table with `counters` that a rule asks for an end: 0 the source, 1 the destination. */
struct weir_fw_counted {
	__u32 table;		/* its number, weir_fw_counted_key.table; 0: none */
	__u32 index;		/* in the directory */
	__u32 is_not;		/* `!`: entries with `!` count */
	__u32 unused;
};

/* `max-pkt-rate count/seconds` */
struct weir_fw_rate {
	__u32 count;		/* packets; 0: any number */
	__u32 seconds;
};

/* What limiters a rule has, as one word, from the lowest bit up. */
enum weir_fw_limited {
	WEIR_FW_LIMITED_STATE_SHIFT = 0,   /* 8 bits: id of the state limiter; 0: none */
	WEIR_FW_LIMITED_SOURCE_SHIFT = 8,  /* 8 bits: id of the source limiter; 0: none */
	WEIR_FW_LIMITED_INET_SHIFT = 16,   /* 6 bits: of that, `inet mask` */
	WEIR_FW_LIMITED_INET6_SHIFT = 22,  /* 8 bits: and `inet6 mask` */
	/* Without room the rule does not match; if not, its packets are dropped. */
	WEIR_FW_LIMITED_STATE_NO_MATCH_SHIFT = 30,
	WEIR_FW_LIMITED_SOURCE_NO_MATCH_SHIFT = 31,
};

enum weir_fw_limiter_constant {
	WEIR_FW_LIMITER_SOURCES = 256,	/* the first source limiter, behind all of states */
	WEIR_FW_LIMITER_COUNT = 512,
};

/* A `state limiter` or `source limiter`. */
struct weir_fw_limiter {
	__u32 limit;		/* states, of each source; 0: there is no such limiter */
	__u32 entries;		/* sources */
	__u32 rate_count;	/* `rate count/seconds`; 0: none */
	__u32 rate_seconds;
	__u32 has_table;	/* `table <t> above n below n` */
	__u32 above;
	__u32 below;
	__u32 unused;
};

/* weir_fw_rule.kind */
enum weir_fw_rule_kind {
	WEIR_FW_RULE_PASS,
	WEIR_FW_RULE_BLOCK,
	WEIR_FW_RULE_MATCH,
	WEIR_FW_RULE_ANCHOR,	 /* its rules follow, up to criteria.end */
	WEIR_FW_RULE_ANCHOR_END, /* of an anchor with `quick`, whose own place is in `number` */
	WEIR_FW_RULE_TRANSLATE,	 /* of FreeBSD's lists */
};

/* weir_fw_rule.log */
enum weir_fw_log_flag {
	WEIR_FW_LOG_FIRST = 1 << 0,
	WEIR_FW_LOG_ALL = 1 << 1,
	WEIR_FW_LOG_MATCHES = 1 << 2,
};

/* weir_fw_rule.source_flags */
enum weir_fw_source_flag {
	WEIR_FW_SOURCE_TRACK = 1 << 0,
	WEIR_FW_SOURCE_GLOBAL = 1 << 1,	      /* counted over all rules */
	WEIR_FW_SOURCE_FLUSH_RULE = 1 << 2,   /* overload: the source's states of this rule go */
	WEIR_FW_SOURCE_FLUSH_GLOBAL = 1 << 3, /* overload: all the source's states go */
};

/* weir_fw_rule.answers */
enum weir_fw_answer {
	WEIR_FW_ANSWERS_RST = 1 << 0,  /* to TCP, but never to an RST */
	WEIR_FW_ANSWERS_ICMP = 1 << 1, /* unreachable, to what gets no RST */
};

/* The parts of weir_fw_rule.decision that a passing rule's state is made by. */
#define WEIR_FW_DECISIONS_OF_STATES                                                       \
	(WEIR_DECISION_KEEP_STATE | WEIR_DECISION_SLOPPY | WEIR_DECISION_IF_BOUND |       \
	 WEIR_DECISION_NO_SYNC | WEIR_DECISION_SOURCE_TRACK | WEIR_DECISION_RESERVED |    \
	 WEIR_DECISION_MODULATE | WEIR_DECISION_SYNPROXY | WEIR_DECISION_COUNTED |        \
	 WEIR_DECISION_ADAPTIVE | WEIR_DECISION_RATED | WEIR_DECISION_PFLOW |             \
	 WEIR_DECISION_COPIED | WEIR_DECISION_LIMITED)

/* What a rule does: one line, read when it has matched. weir_fw_decision.rule_at points here. */
struct weir_fw_rule {
	__u32 id;		/* the same as long as the rule's text, anchor and ordinal are */
	__u32 decision;		/* WEIR_DECISION_* if it wins */
	__u32 counters_at;	/* struct weir_fw_rule_counters by CPU, from the arena's start */
	__u32 number;		/* pfctl's, in its anchor */
	__u32 anchor;		/* index of the anchor's path; 0: the main ruleset */
	__u32 state_max;	/* `max`; 0: none */
	__u32 routing_table;	/* `rtable` + 1; 0: none */
	__u8 kind;		/* WEIR_FW_RULE_* */
	__u8 quick;
	__u8 log;		/* WEIR_FW_LOG_* */
	__u8 profile;		/* timeout table */
	__u8 rst_ttl;
	__u8 icmp_code[2];	/* of unreachable, by family */
	__u8 gateways;		/* number of its pool of gateways + 1; 0: none */
	__u16 unused;
	__u16 tag;		/* that it gives; 0: none */
	__u16 overload;		/* index of a table + 1; 0: none */
	__u8 source_flags;	/* WEIR_FW_SOURCE_* */
	__u8 answers;		/* WEIR_FW_ANSWERS_* */
	__u32 source_states_max; /* `max-src-states`; 0: none, as for those below */
	__u32 source_nodes_max;
	__u32 source_conn_max;
	__u32 source_rate_count; /* `max-src-conn-rate count/seconds` */
	__u32 source_rate_s;
};

_Static_assert(sizeof(struct weir_fw_rule) == 64, "a rule is one line");

/* weir_fw_translation.flags */
enum weir_fw_translation_flag {
	WEIR_FW_TRANSLATION_SOURCE = 1 << 0, /* of the source; else of the destination */
	WEIR_FW_TRANSLATION_NO = 1 << 1,     /* `no nat` and the like */
	WEIR_FW_TRANSLATION_PASS = 1 << 2,   /* the packet needs no other rule */
	WEIR_FW_TRANSLATION_KEEP_PORT = 1 << 3, /* `static-port` */
	WEIR_FW_TRANSLATION_BINAT = 1 << 4,  /* whole addresses: nobody else has the port */
	/* `af-to`: targets of the family it leads to are sources, those of the other one are of
	 * the family it leads to as well, and the destination: none or one */
	WEIR_FW_TRANSLATION_FAMILY = 1 << 5,
	WEIR_FW_TRANSLATION_MAPPED = 1 << 6, /* `endpoint-independent`, of UDP */
};

/* weir_fw_translation.choice: which address of a pool */
enum weir_fw_choice {
	WEIR_FW_CHOICE_FIRST,
	WEIR_FW_CHOICE_ROUND_ROBIN,
	WEIR_FW_CHOICE_RANDOM,
	WEIR_FW_CHOICE_SOURCE_HASH,
	WEIR_FW_CHOICE_BITMASK,
	WEIR_FW_CHOICE_LEAST_STATES,
};

/* What a rule translates to: one line. */
struct weir_fw_translation {
	__u32 targets_at[WEIR_FW_FAMILY_COUNT]; /* struct weir_fw_target */
	__u32 target_count[WEIR_FW_FAMILY_COUNT];
	__u64 total[WEIR_FW_FAMILY_COUNT]; /* turns of all targets */
	/* Of the hash of sources: its key, hashed; of `least-states`: how many addresses */
	__u64 seed;
	__u32 turn;		/* of WEIR_FW_CHOICE_ROUND_ROBIN: counts up */
	/* First and last, host order: of a source those to choose from, of a destination the new
	 * ones; 0, 0 of a destination: as it is. */
	__u16 port[2];
	__u16 port_base;	/* of a destination: the first port that is redirected */
	__u8 flags;		/* WEIR_FW_TRANSLATION_* */
	__u8 choice;		/* WEIR_FW_CHOICE_* */
	/* Of `af-to`: octets of IPv6 destinations before the IPv4 address in them (RFC 6052) */
	__u8 prefix_octets;
	/* Of `map-e-portset` (RFC 7597, appendix B): a port's bits behind its block's number, and
	 * those behind the identifier, which stands in port[0] in its place */
	__u8 block_shift;
	__u8 id_shift;
	__u8 unused_octet;
	__u32 port_count;	/* of `map-e-portset`: ports of all blocks; 0: of no such set */
	__u32 unused;
};

_Static_assert(sizeof(struct weir_fw_translation) == 64, "a translation is one line");

/* A network of a pool: one line. */
struct weir_fw_target {
	__be32 addr[4];
	__be32 mask[4];
	__u64 reach;		/* turns of it and of those before it */
	__u64 size;		/* addresses; 0: 2^64 or more */
	__u32 unused[4];
};

_Static_assert(sizeof(struct weir_fw_target) == 64, "a target is one line");

/* A network of a pool of gateways. */
struct weir_fw_share {
	__u32 reach;		/* turns of it and of those before it */
	__u8 first;		/* place of its first gateway in the pool */
	__u8 count;		/* of its gateways, which have their turns one after another */
	__u16 unused;
};

/*
 * The gateways of a rule with `route-to` or `reply-to`, or the socket of one with `divert-to` or
 * `divert-reply`.
 */
struct weir_fw_gateways {
	__u8 number[WEIR_FW_FAMILY_COUNT][WEIR_FW_POOL_GATEWAY_COUNT_MAX];
	__u8 count[WEIR_FW_FAMILY_COUNT]; /* networks */
	__u8 is_reply;		/* of what comes back: `reply-to`, `divert-reply` */
	__u8 choice;		/* WEIR_FW_CHOICE_* */
	__u32 turn;		/* of WEIR_FW_CHOICE_ROUND_ROBIN: counts up */
	__u64 seed;		/* of the hash of sources */
	__u32 is_socket;
	__u32 table;		/* typed, with next hops: its index in the directory + 1; 0: none */
	__u32 unused[2];
	struct weir_fw_share share[WEIR_FW_FAMILY_COUNT][WEIR_FW_POOL_GATEWAY_COUNT_MAX];
};

_Static_assert(__builtin_offsetof(struct weir_fw_gateways, share) == 64 &&
		       sizeof(struct weir_fw_gateways) % 64 == 0,
	       "what a choice begins with is one line");

/* To whom a rule with `dup-to` has packets copied, by family: one line. */
struct weir_fw_copy {
	struct weir_fw_gateway to[WEIR_FW_FAMILY_COUNT];
};

_Static_assert(sizeof(struct weir_fw_copy) == 64, "both are one line");

/* The image of a packet; only if weir_fw_packet.ruleset is not 0. */
#define weir_fw_image_of(p) weir_at(struct weir_fw_image, (p)->ruleset)

/* Whether a ruleset has `set skip` on the interface in a slot. */
static __always_inline bool weir_fw_skips(__u32 ruleset, __u8 slot)
{
	return weir_at(struct weir_fw_image, ruleset)->skipped >>
		       (slot & (WEIR_FW_INTERFACE_COUNT_MAX - 1)) &
	       1;
}

/* A timeout, in ticks, of a ruleset's table; of `set timeout` where the ruleset has no such. */
static __always_inline __u32 weir_fw_timeout_ticks(__u32 ruleset, __u32 profile, __u32 timeout)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);

	if (profile >= image->profile_count)
		profile = 0;
	return weir_at(struct weir_fw_profile,
		       ruleset + image->profiles_at +
			       profile * (__u32)sizeof(struct weir_fw_profile))
		->ticks[timeout & (WEIR_FW_TIMEOUT_COUNT - 1)];
}

/* A rule's counters on a CPU, by its id: of the ruleset at an offset; 0 if there are none. */
static __always_inline __u32 weir_fw_counters_of(__u32 ruleset, __u32 id, __u32 cpu)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);
	__u32 at;

	if (!ruleset || id >= image->id_count)
		return 0;
	at = *weir_at(__u32, ruleset + image->counters_at + id * sizeof(__u32));
	return at ? at + cpu * (__u32)sizeof(struct weir_fw_rule_counters) : 0;
}

/*
 * Whether packets are filtered by a ruleset. Without rules they are as long as there are states
 * of rules before: what passes by them is tracked for the rules that come.
 */
static __always_inline bool weir_fw_filters(__u32 ruleset)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);

	return image->rule_count ||
	       image->flags & (WEIR_FW_IMAGE_TRANSLATES | WEIR_FW_IMAGE_SCRUB_LIST |
			       WEIR_FW_IMAGE_NO_DF) ||
	       weir_fw_control()->state_count;
}

#endif /* WEIR_FW_IMAGE_H */

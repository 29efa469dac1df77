/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory that the firewall's programs share with its control process: one BPF arena.
 *
 * This header is the only definition of that layout: weir-bpf's build script makes constants of
 * its structures and enumerations, by way of BTF.
 *
 * Everything is addressed by byte offsets from the arena's start, which fit into 32 bits. The
 * control process decides where regions are (weir_fw_control.*_at), and populates their pages:
 * before a program is attached, but for states and accounts, where that is done as the table grows,
 * before programs are told (*_ready). The programs never allocate.
 *
 * Who may write: the programs write states, accounts, next hops, kept routes and counters, the
 * control process everything else. A record of a state is only read or changed by a program that
 * holds the lock of its bucket. The control process reads without it, and reads again until it is
 * sure.
 */
#ifndef WEIR_FW_LAYOUT_H
#define WEIR_FW_LAYOUT_H

#include <weir/fw/reasons.h>
#include <weir/vmlinux.h>

enum weir_fw_constant {
	WEIR_FW_MAGIC = 0x77656972, /* "weir" */
	WEIR_FW_LAYOUT_VERSION = 22,
	/*
	 * Where a ruleset image stands that says nothing: the active one until there is another.
	 * Behind the control page's structure and in the same page; its one timeout table follows
	 * it.
	 */
	WEIR_FW_BLANK_AT = 512,
	/* In the same page: what states' packets are changed by, __u64 for each number. */
	WEIR_FW_SCRUBS_AT = 1024,
	/* Different changes that states can keep: the numbers 1 to this; 0 is none. */
	WEIR_FW_SCRUB_COUNT_MAX = 15,
	/* In the same page: struct weir_fw_gateway for each number. */
	WEIR_FW_GATEWAYS_AT = 1280,
	/* Gateways that states can keep: the numbers 1 to this; 0 is none. */
	WEIR_FW_GATEWAY_COUNT_MAX = 15,
	/* Queues that rules can name: the numbers 1 to this; 0 is none. */
	WEIR_FW_QUEUE_COUNT_MAX = 250,
	/* The tree of queues on an interface: the upper half of a packet's priority. */
	WEIR_FW_QUEUE_MAJOR = 0x7765,
	/* Mark of packets for sockets of `divert-to`, and the table by which all is local. */
	WEIR_FW_SOCKET_MARK = 0x77656972,
	/* Slots of interfaces; slot 0 is "unknown". A set of interfaces is one 64-bit word. */
	WEIR_FW_INTERFACE_COUNT_MAX = 64,
	WEIR_FW_VIRTUAL_MACS_MAX = 2, /* of one interface */
	/* Interfaces with a larger index are refused. */
	WEIR_FW_IFINDEX_COUNT_MAX = 65536,
	/* A power of two; entry 0 is "not known yet". */
	WEIR_FW_NEXT_HOP_COUNT_MAX = 4096,
	/* An index without an entry: the kernel takes those, above all what is for the box. */
	WEIR_FW_NEXT_HOP_KERNEL = 1,
	/* Timeout tables of an image, at most: 0 is `set timeout`, the others are rules' own. */
	WEIR_FW_PROFILE_COUNT_MAX = 256,
	/*
	 * A tick is 2^24 ns, about 16.8 ms: one shift instead of a division; 32 bits last 2.28
	 * years.
	 */
	WEIR_FW_TICK_SHIFT = 24,
	/* "no rule": the default rule's id */
	WEIR_FW_RULE_NONE = 0xfffff,
	/* Tags that states can keep: the numbers 1 to this. */
	WEIR_FW_TAG_COUNT_MAX = 15,
	/* Slots that one byte of `dirty_at` stands for: 16. */
	WEIR_FW_DIRTY_SHIFT = 4,
};

/*
 * What is changed in a packet, as one word, from the lowest bit up; 0: nothing. scrub.h does it.
 * Beside that stand the queue by which it leaves, and its priority (queue.h).
 */
enum weir_fw_scrub {
	WEIR_FW_SCRUB_MSS_SHIFT = 0,	/* 16 bits: `max-mss`; 0: none */
	WEIR_FW_SCRUB_TTL_SHIFT = 16,	/* 8 bits: `min-ttl`; 0: none */
	WEIR_FW_SCRUB_TOS_SHIFT = 24,	/* 8 bits: `set tos`, if the next bit says so */
	WEIR_FW_SCRUB_SETS_TOS_SHIFT = 32,
	WEIR_FW_SCRUB_NO_DF_SHIFT = 33,
	WEIR_FW_SCRUB_RANDOM_ID_SHIFT = 34,
	/* 8 bits each: the number of `queue`, and of that for what has no payload or low delay */
	WEIR_FW_SCRUB_QUEUE_SHIFT = 36,
	WEIR_FW_SCRUB_FAST_QUEUE_SHIFT = 44,
	/* 4 bits each: 8 and `set prio`; the same of what has no payload or low delay */
	WEIR_FW_SCRUB_PRIO_SHIFT = 52,
	WEIR_FW_SCRUB_FAST_PRIO_SHIFT = 56,
	/* `dnpipe`, `dnqueue`: the first queue is for one direction, the second for the other */
	WEIR_FW_SCRUB_DIRECTED_SHIFT = 62,
	/* `reassemble tcp`: of rules; and of states that began under such a rule, by a SYN */
	WEIR_FW_SCRUB_REASSEMBLE_SHIFT = 60,
	WEIR_FW_SCRUB_TIMESTAMPS_SHIFT = 61,
	/* Of an interface in the image: what is changed depends on more than the interface. */
	WEIR_FW_SCRUB_ASKS_SHIFT = 35,
	/* Of what states keep: it is taken out if nobody gets it (weir-fw's engine/scrubs.rs). */
	WEIR_FW_SCRUB_ENDS_SHIFT = 63,
};

/* pf's timeouts, in the order of weir_rules::names::TIMEOUTS as far as the data path needs them. */
enum weir_fw_timeout {
	WEIR_FW_TIMEOUT_TCP_FIRST,
	WEIR_FW_TIMEOUT_TCP_OPENING,
	WEIR_FW_TIMEOUT_TCP_ESTABLISHED,
	WEIR_FW_TIMEOUT_TCP_CLOSING,
	WEIR_FW_TIMEOUT_TCP_FINWAIT,
	WEIR_FW_TIMEOUT_TCP_CLOSED,
	WEIR_FW_TIMEOUT_UDP_FIRST,
	WEIR_FW_TIMEOUT_UDP_SINGLE,
	WEIR_FW_TIMEOUT_UDP_MULTIPLE,
	WEIR_FW_TIMEOUT_ICMP_FIRST,
	WEIR_FW_TIMEOUT_ICMP_ERROR,
	WEIR_FW_TIMEOUT_OTHER_FIRST,
	WEIR_FW_TIMEOUT_OTHER_SINGLE,
	WEIR_FW_TIMEOUT_OTHER_MULTIPLE,
	WEIR_FW_TIMEOUT_FRAG,
	WEIR_FW_TIMEOUT_SRC_TRACK,
	WEIR_FW_TIMEOUT_COUNT,
};

struct weir_fw_profile {
	__u32 ticks[WEIR_FW_TIMEOUT_COUNT];
};

_Static_assert(sizeof(struct weir_fw_profile) == 64, "a profile is one line");

/* weir_fw_control.flags */
enum weir_fw_control_flag {
	WEIR_FW_CONTROL_ENABLED = 1 << 0, /* pfctl -e; off: nothing is filtered */
	/* The ruleset translates, or states of earlier ones are translated: there are aliases. */
	WEIR_FW_CONTROL_TRANSLATED = 1 << 1,
	/* The ruleset has `route-to` or `reply-to`, or states of earlier ones may have gateways. */
	WEIR_FW_CONTROL_ROUTED = 1 << 2,
	/* The ruleset has `af-to`, or states of earlier ones may be of two families. */
	WEIR_FW_CONTROL_FAMILIES = 1 << 3,
};

/* weir_fw_control.sync_out: states go to another firewall. */
enum weir_fw_sync_out {
	WEIR_FW_SYNC_OUT_TELLS = 1 << 0, /* ends of those that it has are told (event.h) */
	/* All that are there are sent, by their slots: one that moves may have to be sent again. */
	WEIR_FW_SYNC_OUT_ALL = 1 << 1,
};

/* weir_fw_control.sync_in: states come from another firewall. */
enum weir_fw_sync_in {
	WEIR_FW_SYNC_IN_LIVE = 1 << 0,
	WEIR_FW_SYNC_IN_ODD = 1 << 1, /* those that it has sent since its bulk began are odd */
	WEIR_FW_SYNC_IN_ALL = 1 << 2, /* a bulk is under way: it may still send the others */
};

/* weir_fw_control.stages: how packets are judged, and frames leave (stage.h). */
enum weir_fw_stages_kind {
	WEIR_FW_STAGES_ONE, /* at once, by bpf_redirect() */
	WEIR_FW_STAGES_MAP, /* at once, by the map of exits: between the two others */
	WEIR_FW_STAGES_TWO, /* known flows and what may become one in the second stage */
};

/*
 * Page 0. The first line is what every packet reads, and hardly ever changes. What a ruleset says
 * is not here, but in its image (image.h): one store to `active` changes all of it.
 */
struct weir_fw_control {
	__u32 magic;
	__u32 version;
	__u32 active;		/* offset of the ruleset image, never 0 */
	__u32 flags;		/* WEIR_FW_CONTROL_* */
	__u32 generation;	/* of next hops, 16 bits used, never 0 */
	__u32 clock_offset;	/* ticks that are added to the clock; for tests */
	__u32 stages;		/* WEIR_FW_STAGES_* */
	__u32 zero;		/* always 0, which the verifier does not know: see loop.h */
	__u64 index;		/* buckets in use, and a mask above: table.h; never 0 */
	__u32 second_ticks;	/* how many ticks count as a second for rates; 0: 60; for tests */
	__u32 sync_out;		/* WEIR_FW_SYNC_OUT_* */
	__u32 sync_in;		/* WEIR_FW_SYNC_IN_* */
	__u32 dirty_at;		/* a byte for 16 slots: not 0 if one may be DIRTY */
	__u32 defers;		/* answers may come before their states: defer.h */
	__u32 hot_unused;

	/* Where the regions are. Set once. */
	__u32 counters_at;	/* struct weir_fw_cpu for each possible CPU */
	__u32 interfaces_at;	/* struct weir_fw_interface[WEIR_FW_INTERFACE_COUNT_MAX] */
	__u32 ifslots_at;	/* __u8[WEIR_FW_IFINDEX_COUNT_MAX] */
	__u32 next_hops_at;	/* struct weir_fw_next_hop[WEIR_FW_NEXT_HOP_COUNT_MAX] */
	__u32 kept_at;		/* struct weir_fw_kept_set[WEIR_FW_KEPT_SET_COUNT] for each CPU */
	__u32 states_at;	/* struct weir_state[bucket_count + overflow_count] */
	__u32 accounts_at;	/* struct weir_account, as many */
	__u32 heap_at;
	__u32 heap_bytes;
	__u32 bucket_count;	/* as many as the index can have */
	__u32 overflow_count;	/* as many as there can be */
	__u32 cpu_count;
	/* What of that has memory: only ever more. */
	__u32 bucket_ready;
	__u32 overflow_ready;
	/* What the ruleset's limit allows the index, and the slots besides, to grow to. */
	__u32 bucket_limit;
	__u32 overflow_limit;

	/* What packets change. Each in a line of its own. */
	__u64 state_count;	/* records that are live */
	__u64 alias_count;	/* aliases that are live */
	__u32 half_open_count;	/* TCP records whose ends have not shaken hands so far */
	__u32 is_flooded;	/* `set syncookies adaptive`: they were too many */
	__u64 count_unused[5];
	__u64 free_head;	/* overflow slots that came back: tag << 32 | slot, slot 0: none */
	__u64 free_unused[7];
	__u32 fresh_count;	/* overflow slots that were ever taken: those behind are free too */
	__u32 free_count;	/* of those in the list */
	__u32 limited_count;	/* nodes of limiters' sources */
	__u32 source_count;	/* nodes of other sources */
	__u32 fresh_unused[12];
	__u64 next_hop_lock;	/* bit 0; makers of next hops */
	__u32 next_hop_count;
	__u32 hop_unused[13];

	/* The control process's own, so that a restarted one can go on. */
	__u64 started_ns;	/* CLOCK_BOOTTIME */
	__u64 enabled_ns;	/* CLOCK_BOOTTIME of -e or -d */
	__u32 host_id;
	__u32 next_rule_id;
	__u32 heap_index_at;	/* the heap's book-keeping, inside the heap */
	__u32 document_at;	/* JSON about what runs: text of the rules, names of tables, ... */
	__u32 document_bytes;
	__u32 bucket_floor;	/* fewer buckets there never are; bucket_count: the size is fixed */
	__u32 own_unused[22];
};

/* What goes before a frame from the first stage to the second. */
struct weir_stage_note {
	__u32 home;		/* bucket of its state */
	__u32 next_hop;		/* index of the way that its destination has */
	__u32 generation;	/* of that way */
	__u32 unused;
};

/* What goes before a frame from XDP to the kernel: errand.h. */
struct weir_fw_errand {
	__u32 magic;		/* WEIR_FW_MAGIC */
	__u32 secret;		/* that nobody else knows */
	__u32 copy_at;		/* struct weir_fw_copy, from the arena's start; 0: none */
	__u32 gateway;		/* number of the one that it goes to; 0: none */
};

/* ---- states ---- */

/* weir_state.control */
enum weir_state_flag {
	WEIR_STATE_LOCK = 1 << 0,	/* of the bucket: only meaningful in a home slot */
	WEIR_STATE_LIVE = 1 << 1,	/* there is a record in this slot */
	WEIR_STATE_IPV6 = 1 << 2,	/* addr[0] is a tag of the hash, addr[1] the slot of the
					 * addresses (struct weir_state_v6) */
	WEIR_STATE_HALF_A = 1 << 3,	/* covers forward in, reverse out */
	WEIR_STATE_HALF_B = 1 << 4,	/* covers forward out, reverse in */
	WEIR_STATE_IF_BOUND_A = 1 << 5, /* half A only covers its interface */
	WEIR_STATE_SLOPPY = 1 << 6,
	WEIR_STATE_FIRST = 1 << 7,	/* one packet only so far: the timeouts called "first" */
	WEIR_STATE_TRACKED = 1 << 8,	/* a half is counted in its source's node */
	WEIR_STATE_WATCHED = 1 << 9,	/* some half's rule logs, counts, or limits all */
	WEIR_STATE_SCRUB = 1 << 10,	/* every packet is changed, not SYNs alone */
	WEIR_STATE_DIRTY = 1 << 11,	/* changed since a copy of it was sent: for sync */
	WEIR_STATE_ACKED = 1 << 12,	/* another firewall has a copy: for sync */
	WEIR_STATE_ADDRESSES = 1 << 13,	/* this overflow slot holds addresses of another record */
	WEIR_STATE_ALIAS = 1 << 13,	/* of what is live: not a record, but an alias (alias.h) */
	WEIR_STATE_IF_BOUND_B = 1 << 14, /* half B only covers its interface */
	WEIR_STATE_OTHER_FAMILY = 1 << 14, /* of an alias: not its record's (family.h) */
	WEIR_STATE_TRANSLATED = 1 << 15, /* `count` has the slots of aliases, which count for it */
	WEIR_STATE_PROTOCOL_SHIFT = 16,	/* 8 bits: IP protocol */
	WEIR_STATE_PROFILE_SHIFT = 24,	/* 8 bits: timeout table */
};

/* weir_state.wscale[]: pf's PF_WSCALE_* */
enum weir_wscale {
	WEIR_WSCALE_MASK = 0x0f,
	WEIR_WSCALE_CONNECTED = 0x20, /* in wscale[0]: the handshake is complete */
	WEIR_WSCALE_NOTES = 0x70,     /* what is noted beside the end's own */
	WEIR_WSCALE_FLAG = 0x80,      /* the option was in the SYN */
	/* In wscale[1]: half A's source is end 1, not end 0; half B's is. */
	WEIR_WSCALE_SOURCE_A_IS_1 = 0x10,
	/* Without TRACKED: the windows were learned in the middle (tcp.h); that ends soon. */
	WEIR_WSCALE_LEARNED = 0x10,
	WEIR_WSCALE_SETTLES = 0x40,
	WEIR_WSCALE_MODULATED = 0x20, /* `modulate state`: modulate.h */
	WEIR_WSCALE_SOURCE_B_IS_1 = 0x40,
	/* In wscale[1] of a modulated record, in the place of a scale: proxied.h. */
	WEIR_WSCALE_PROXIED = 0x0f,
};

/* In wscale[0]: a half that is counted among its source's connections. */
#define WEIR_WSCALE_COUNTED(half) ((half) ? 0x40 : 0x10)
/* In wscale[1]: the source of a half is end 1, not end 0. */
#define WEIR_WSCALE_SOURCE_IS_1(half)                                                           \
	((half) ? WEIR_WSCALE_SOURCE_B_IS_1 : WEIR_WSCALE_SOURCE_A_IS_1)

enum weir_state_constant {
	/* weir_state.interface[] */
	WEIR_STATE_INTERFACE_MASK = 0x3f, /* the slot */
	WEIR_STATE_SOURCE_GLOBAL = 0x40,  /* `source-track global` */
	WEIR_STATE_SOURCE_TRACKED = 0x80, /* counted in its source's node */
	/* GLOBAL without TRACKED. Of half A's: another firewall has sent the record; then, of half
	 * B's: in an odd bulk (WEIR_FW_SYNC_IN_ODD) */
	WEIR_STATE_IMPORTED = 0x40,
	WEIR_STATE_IMPORTED_MASK = 0xc0,
	/* weir_state.next_hop[] */
	WEIR_STATE_NEXT_HOP_MASK = 0xfff, /* the index */
	WEIR_STATE_GATEWAY_SHIFT = 12,	  /* and above it the number of a gateway */
	/* weir_state.count[] */
	WEIR_STATE_COUNT_PACKETS_SHIFT = 24,
	/*
	 * weir_line_account.half[]: what made the half, from the lowest bit up: id of its rule (20
	 * bits), its tag (4), whether the rule says `no-sync`, `log (all)`, `allow-opts` and
	 * `pflow`, and the number of what its packets are changed by (4).
	 */
	WEIR_HALF_TAG_SHIFT = 20,
	WEIR_HALF_NO_SYNC_SHIFT = 24,
	WEIR_HALF_LOG_SHIFT = 25,
	WEIR_HALF_OPTIONS_SHIFT = 26,
	WEIR_HALF_PFLOW_SHIFT = 27,
	WEIR_HALF_SCRUB_SHIFT = 28,
	/* weir_account: the same in two pieces; the second one is WEIR_HALF_SCRUB */
	WEIR_ACCOUNT_RULE_SHIFT = 36,
	WEIR_ACCOUNT_TAG_SHIFT = 56,
	WEIR_ACCOUNT_SCRUB_SHIFT = 44,
	WEIR_ACCOUNT_SCRUB_MASK = 15,
	WEIR_ACCOUNT_CREATED_SHIFT = 48,
};

/*
 * One flow, one cache line. End 0 is the maker's: the source of the first packet. Ports are in
 * network order; an ICMP query has its identifier at the end that asks, and its type at the other;
 * other protocols have none.
 */
struct weir_state {
	__u32 control;		/* WEIR_STATE_* */
	__u32 next;		/* slot of the bucket's next record; 0: the last */
	__u32 addr[2];
	__be16 port[2];
	__u32 last_tick;	/* of the last packet */
	struct {
		__u32 lo;	/* pf's seqlo */
		__u32 hi;	/* pf's seqhi */
	} seq[2];
	__u16 max_win[2];	/* pf's, after scaling down as pf keeps it */
	__u8 phase[2];		/* TCP: enum weir_tcp_phase; others: enum weir_phase */
	__u8 wscale[2];
	/* Of packets towards end 1, towards end 0: gateway << 12 | index of a next hop; index 0: it
	 * is not known */
	__u16 next_hop[2];
	__u16 generation;	/* of both */
	__u8 interface[2];	/* slots: of half A, of half B */
	/*
	 * From end 0, from end 1: packets << 24 | bytes. Of a translated record: slots of the
	 * aliases of half A and half B, 0: none; the first that is there counts instead.
	 */
	__u32 count[2];
};

_Static_assert(sizeof(struct weir_state) == 64, "a state is one cache line");

/* weir_alias.uses */
enum weir_alias_use {
	WEIR_ALIAS_OF_POOL = 1,	/* it counts for its address of a pool */
	WEIR_ALIAS_OF_SOURCES = 4, /* and that is a source: its end on the wire */
	WEIR_ALIAS_MAPPED = 2,	/* its inner end has the same outer one for all destinations */
};

/*
 * The wire key of a translated record's half, in an overflow slot of its own: alias.h. What it is
 * found by, and what it counts, stand where a record has them. Its control word has the flag of the
 * half that it is of; one without belongs to nobody any more, or (`home`) only begins a bucket.
 */
struct weir_alias {
	__u32 control;		/* WEIR_STATE_LIVE | WEIR_STATE_ALIAS, half, family, protocol */
	__u32 next;
	__u32 addr[2];		/* as those of a record */
	__be16 port[2];
	__u32 rule;		/* id of the rule that translated */
	/*
	 * What stands inside instead, of the one end that is translated: half A's 1, half B's 0.
	 * Of an alias of the other family both ends: IPv4 addresses, or the slot of those of IPv6;
	 * and inside_port is that of end 0.
	 */
	__be32 inside[4];
	__be16 inside_port;
	__u16 is_counted;	/* among the states of that rule, which has not made the half */
	__be16 inside_port_1;	/* of the other family: of end 1 */
	__u16 uses;		/* WEIR_ALIAS_OF_POOL, WEIR_ALIAS_MAPPED */
	__u32 unused[2];
	__u32 count[2];
};

_Static_assert(sizeof(struct weir_alias) == sizeof(struct weir_state) &&
		       __builtin_offsetof(struct weir_alias, addr) ==
			       __builtin_offsetof(struct weir_state, addr) &&
		       __builtin_offsetof(struct weir_alias, port) ==
			       __builtin_offsetof(struct weir_state, port) &&
		       __builtin_offsetof(struct weir_alias, count) ==
			       __builtin_offsetof(struct weir_state, count),
	       "an alias is searched and counted as a record is");

#define WEIR_STATE_COUNT_BYTES_MAX ((1u << 24) - 1)
#define WEIR_STATE_COUNT_PACKETS_MAX 255

/* The addresses of an IPv6 record, in an overflow slot of its own. */
struct weir_state_v6 {
	__u32 control;		/* WEIR_STATE_ADDRESSES */
	__u32 owner;		/* slot of the record */
	__u32 unused[6];
	__u32 addr[2][4];
};

_Static_assert(sizeof(struct weir_state_v6) == 64, "addresses take one slot");

/* Phases of what is not TCP: pf's PFUDPS_* and PFOTHERS_*. */
enum weir_phase {
	WEIR_PHASE_NO_TRAFFIC,
	WEIR_PHASE_SINGLE,
	WEIR_PHASE_MULTIPLE,
};

/* What a hit does not need. Index 0 is for packets from end 0. */
struct weir_account {
	/* packets (36 bits) | id of half A's / B's rule << 36 | its tag << 56 | `no-sync` << 60 |
	 * `log (all)` << 61 | `allow-opts` << 62 | `pflow` << 63 */
	__u64 packets_rule[2];
	/* bytes (44 bits) | number of half A's / B's changes << 44 | low / high half of the tick of
	 * creation << 48 */
	__u64 bytes_created[2];
};

_Static_assert(sizeof(struct weir_account) == 32, "two accounts in a line");

/* What the line of a record that is not TCP's has in the place of `seq`: account.h says why. */
struct weir_line_account {
	__u32 half[2];		/* WEIR_HALF_*: half A, half B */
	__u32 created_tick;
	__u32 has_account;	/* 0: all that was counted is in the line */
};

_Static_assert(sizeof(struct weir_line_account) == sizeof(((struct weir_state *)0)->seq),
	       "it has the place of the sequence numbers");

/* ---- next hops, interfaces, counters ---- */

/* weir_fw_next_hop.flags */
enum {
	WEIR_FW_NEXT_HOP_BACK = 1 << 0, /* its interface takes only what came by it */
};

struct weir_fw_next_hop {
	__u32 ifindex;
	__u16 generation;	/* the one in which it was made */
	__u8 interface;		/* slot of the interface */
	__u8 flags;		/* WEIR_FW_NEXT_HOP_* */
	__u8 dst_mac[6];	/* as they stand in the frame */
	__u8 src_mac[6];
	__u32 mtu_bytes;
	__u32 unused[2];
};

_Static_assert(sizeof(struct weir_fw_next_hop) == 32, "a next hop is half a line");

/* weir_fw_gateway.flags */
enum weir_fw_gateway_flag {
	WEIR_FW_GATEWAY_ADDRESS = 1 << 0, /* it has one; if not, packets go to their destination */
	WEIR_FW_GATEWAY_ABSENT = 1 << 1,  /* its interface is not there */
	/* No gateway, but a socket: who listens at the address, or without one the flow's own. */
	WEIR_FW_GATEWAY_SOCKET = 1 << 2,
};

/*
 * Where `route-to` and `reply-to` send packets (gateway.h), `divert-to` and `divert-reply` hand
 * them to (divert.h). The control process writes it.
 */
struct weir_fw_gateway {
	__be32 addr[4];
	__u8 interface;		/* slot; 0: the route to the address leads to it */
	__u8 flags;		/* WEIR_FW_GATEWAY_* */
	__be16 port;		/* of a socket */
	__u8 unused[12];
};

_Static_assert(sizeof(struct weir_fw_gateway) == 32, "a gateway is half a line");

/* What one CPU found out for one flow where nothing is filtered. */
struct weir_fw_kept {
	__be32 src;
	__be32 dst;
	__u32 ports;		/* as they stand in the packet */
	__u32 what;		/* upper half: TCP, TOS, slot (kept.h); lower half: next hop */
};

enum weir_fw_kept_constant {
	WEIR_FW_KEPT_WAYS = 3,		/* flows in one set */
	WEIR_FW_KEPT_SET_BITS = 12,
	WEIR_FW_KEPT_SET_COUNT = 1 << WEIR_FW_KEPT_SET_BITS, /* sets for each CPU */
};

/*
 * Flows of one hash. Only its CPU writes it, but for the generation: the control process may put 0
 * there, which forgets all of it.
 */
struct weir_fw_kept_set {
	__u32 generation;	/* the one in which all of it was found; 0: none */
	__u32 oldest;		/* the way that is overwritten next */
	__u32 unused[2];
	struct weir_fw_kept way[WEIR_FW_KEPT_WAYS];
};

_Static_assert(sizeof(struct weir_fw_kept_set) == 64, "a set is one line");

/* weir_fw_interface.flags */
enum weir_fw_interface_flag {
	WEIR_FW_INTERFACE_PRESENT = 1 << 0,
	WEIR_FW_INTERFACE_ATTACHED = 1 << 2, /* a program of ours judges what comes in there */
	WEIR_FW_INTERFACE_GENERIC = 1 << 3,  /* XDP's, in generic mode */
	/* Frames can be redirected to it; if not, the kernel forwards what leaves by it. */
	WEIR_FW_INTERFACE_XMIT = 1 << 4,
	/* A veth in native mode: what its peer sends may have no checksum yet (partial.h), and what
	 * is sent back to a peer that takes no redirected frames is lost. */
	WEIR_FW_INTERFACE_VETH = 1 << 5,
	/* What leaves by it has to wait in queues of tc(8): the kernel sends it. */
	WEIR_FW_INTERFACE_QUEUED = 1 << 6,
	WEIR_FW_INTERFACE_EGRESS = 1 << 7,   /* a program of ours judges what leaves by it */
	WEIR_FW_INTERFACE_VIRTUAL = 1 << 8,  /* it takes frames for `virtual_mac`, too */
	/* What the driver hands to the program is all of a frame, and nobody judges it once more
	 * behind that: an answer may wait (defer.h). */
	WEIR_FW_INTERFACE_WHOLE = 1 << 9,
};

struct weir_fw_interface {
	__u32 ifindex;
	__u32 flags;		/* WEIR_FW_INTERFACE_* */
	__u32 mtu_bytes;
	/* A VLAN interface has a slot of its own, in a list that begins at its parent's. */
	__u16 vlan_id;		/* of a VLAN interface */
	__u8 vlan_first;	/* slot of a parent's first VLAN interface; 0: none */
	__u8 vlan_next;		/* slot of the next one of the same parent; 0: the last */
	__u8 mac[6];		/* frames for others than this one, and `virtual_mac`, stay */
	/*
	 * The slot as which a program of ours (XDP or tcx) reads what comes by it, there or below a
	 * VLAN interface; 0: none reads it. It is judged as it comes unless the ruleset skips that
	 * slot.
	 */
	__u8 read_as;
	__u8 saw_partial;	/* of a veth: a packet came without its checksum (partial.h) */
	__u8 name[16];
	/* Six bytes each: MAC addresses of macvlan interfaces on it. */
	__u8 virtual_mac[WEIR_FW_VIRTUAL_MACS_MAX][8];
	__u32 name_unused[2];
};

_Static_assert(sizeof(struct weir_fw_interface) == 64, "an interface is one line");

enum weir_fw_direction { WEIR_FW_IN, WEIR_FW_OUT, WEIR_FW_DIRECTION_COUNT };
enum weir_fw_outcome { WEIR_FW_PASS, WEIR_FW_BLOCK, WEIR_FW_OUTCOME_COUNT };
enum weir_fw_family { WEIR_FW_INET, WEIR_FW_INET6, WEIR_FW_FAMILY_COUNT };

/* What one CPU counted on one interface. Only that CPU writes it. */
struct weir_fw_interface_counters {
	/* by direction, outcome, family */
	__u64 packets[2][2][2];
	__u64 bytes[2][2][2];
	__u64 dropped_packets[WEIR_FW_DIRECTION_COUNT][WEIR_FW_REASON_COUNT_MAX];
};

/* Limits that were met: pf's LCNT_*, in pf's order (pfvar.h of FreeBSD). */
enum weir_fw_limit {
	WEIR_FW_LIMIT_STATES,		/* `max` of a rule */
	WEIR_FW_LIMIT_SRC_STATES,
	WEIR_FW_LIMIT_SRC_NODES,
	WEIR_FW_LIMIT_SRC_CONN,
	WEIR_FW_LIMIT_SRC_CONN_RATE,
	WEIR_FW_LIMIT_OVERLOAD_TABLE,	/* a source into a table */
	WEIR_FW_LIMIT_OVERLOAD_FLUSH,	/* and its states end */
	WEIR_FW_LIMIT_COUNT,
};

/* What one CPU counted of the state table: pf's FCNT_*, SCNT_* and LCNT_*, and weir's own. */
struct weir_fw_table_counters {
	__u64 searches;
	__u64 inserts;
	__u64 removals;
	__u64 overflow_steps;	/* records looked at behind the first of a bucket */
	__u64 lock_waits;
	__u64 evaluations;	/* rulesets gone through */
	__u64 fib_lookups;
	__u64 forwarded_packets;
	__u64 passed_packets;	/* handed to the kernel */
	__u64 replies;		/* RST and ICMP that we made */
	__u64 log_lost;		/* records that found no room in the ring */
	__u64 unanswered;	/* drops whose RST or ICMP could not be made */
	__u64 source_searches;	/* nodes of sources */
	__u64 source_inserts;
	__u64 source_removals;
	__u64 limits[WEIR_FW_LIMIT_COUNT];
	__u64 staged_packets;	/* judged in the second stage */
	__u64 stage_groups;	/* whose lines were read side by side */
	__u64 translations;	/* aliases made */
	__u64 port_probes;	/* ports that were looked at for them */
	__u64 events_lost;	/* ends of states with `pflow` that found no room in the ring */
	__u64 uncounted;	/* no room for counters of another entry of a table */
	__u64 sync_lost;	/* ends of states that were sent, without room in the ring */
	__u64 deferred;		/* answers that waited for their states */
	__u64 defer_lost;	/* those that would have, without room for them */
	__u64 copies;		/* of `dup-to` */
	__u64 copies_lost;	/* that could not be sent */
};

struct weir_fw_cpu {
	struct weir_fw_table_counters table;
	struct weir_fw_interface_counters interface[WEIR_FW_INTERFACE_COUNT_MAX];
};

/* What one CPU counted of one rule; in the heap, cpu_count in a row for each rule id. */
struct weir_fw_rule_counters {
	__u64 evaluations;
	__u64 packets[WEIR_FW_DIRECTION_COUNT];
	__u64 bytes[WEIR_FW_DIRECTION_COUNT];
	__u64 states_created;
	/* Of all CPUs, in the first one's line: */
	__u64 packet_rate;	/* `max-pkt-rate` (bound.h) */
	__u32 states_live;	/* for `max` */
	__u32 is_spent;		/* a `once` rule has had its match (bound.h) */
};

_Static_assert(sizeof(struct weir_fw_rule_counters) == 64, "one line per CPU");

/*
 * What a state limiter or source limiter has counted, over all CPUs and reloads: pf's
 * pf_statelim and pf_sourcelim (pfvar_priv.h of OpenBSD). One line.
 */
struct weir_fw_limiter_counts {
	__u64 paced;		/* of a state limiter: its states by now: weir_limiter_pace() */
	__u32 in_use;		/* states that it counts */
	__u32 source_count;	/* sources that it knows */
	__u64 admitted;		/* states that it has let through */
	__u64 hard_limited;	/* packets that met `limit` */
	__u64 rate_limited;	/* packets that met `rate` */
	__u64 sources_limited;	/* packets that met `entries` */
	__u64 source_makes;	/* sources that it began to count */
	__u64 no_memory;	/* and those that found no room */
};

_Static_assert(sizeof(struct weir_fw_limiter_counts) == 64, "a limiter's counts are one line");

/* Entries of tables with `counters` that have been counted (counted.h). */
#define WEIR_FW_COUNTED_MAX 65536

struct weir_fw_counted_key {
	__be32 addr[4];		/* the network */
	__u32 bits;
	__u32 family;
	__u32 table;		/* a number, from 1, that the control process has given it */
};

/* What was let through, or stopped, by an entry of a table: by direction and outcome. */
struct weir_fw_counts {
	__u64 packets[WEIR_FW_DIRECTION_COUNT][WEIR_FW_OUTCOME_COUNT];
	__u64 bytes[WEIR_FW_DIRECTION_COUNT][WEIR_FW_OUTCOME_COUNT];
};

#endif /* WEIR_FW_LAYOUT_H */

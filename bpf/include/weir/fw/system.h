/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fingerprints of operating systems in an image (weir-fw's compile/systems.rs writes them): what
 * `os` of pf.conf(5) is decided by. os.h looks for that of a SYN.
 *
 * They are sorted by what a SYN has to have exactly, the order of its options above all, and for
 * each such order stand in the order of the file. The number of the one that fits is a packet's
 * `system`, and a rule has the set of those that it takes.
 */
#ifndef WEIR_FW_SYSTEM_H
#define WEIR_FW_SYSTEM_H

#include <weir/vmlinux.h>

/* Options of a SYN, 40 bytes, and what may be read behind them. */
#define WEIR_FW_SYN_BYTES 56

enum weir_fw_system_constant {
	/* weir_fw_packet.system: of what no fingerprint fits, and of what is no SYN; the set of a
	 * rule has 0 as it has this */
	WEIR_FW_SYSTEM_UNKNOWN = 1,
	WEIR_FW_SYSTEM_FIRST = 2, /* the first fingerprint */
	WEIR_FW_SYSTEM_HOP_COUNT_MAX = 40, /* PF_OSFP_MAXTTL_OFFSET */
	WEIR_FW_SYSTEM_USUAL_MSS = 1460, /* SMART_MSS of pf_osfp.c */
	WEIR_FW_SYSTEM_HEADERS_BYTES = 40, /* what a packet is larger by than its segment */
	/* Of options by their order, three bits each: PF_OSFP_TCPOPT_* */
	WEIR_FW_SYSTEM_NOP = 0,
	WEIR_FW_SYSTEM_WSCALE = 1,
	WEIR_FW_SYSTEM_MSS = 2,
	WEIR_FW_SYSTEM_SACK = 3,
	WEIR_FW_SYSTEM_TIMESTAMP = 4,
	/* weir_fw_system_order.flags */
	WEIR_FW_SYSTEM_DF = 1 << 0,
	WEIR_FW_SYSTEM_ZERO_TIMESTAMP = 1 << 1,
};

/* weir_fw_system.*_how */
enum weir_fw_system_how {
	WEIR_FW_SYSTEM_EQUAL,
	WEIR_FW_SYSTEM_ANY,
	WEIR_FW_SYSTEM_MULTIPLE,
	WEIR_FW_SYSTEM_SEGMENTS, /* of a window: so many segments */
	WEIR_FW_SYSTEM_PACKETS,	 /* or so many packets */
};

/* The head: behind it a power of two of struct weir_fw_system_order, by their hash, then systems */
struct weir_fw_systems {
	__u32 order_mask;	/* of places in the table of orders */
	__u32 orders_at;
	__u32 systems_at;	/* struct weir_fw_system[] */
	__u32 unused;
};

/* Fingerprints that have the same order of options and the same flags. */
struct weir_fw_system_order {
	__u64 options;		/* three bits each, the last one lowest */
	__u8 option_count;
	__u8 flags;		/* WEIR_FW_SYSTEM_DF and the like */
	__u16 first;		/* index in systems */
	__u16 count;		/* 0: nothing is in this place */
	__u16 unused;
};

struct weir_fw_system {
	__u16 window;
	__u16 bytes;
	__u16 mss;
	__u8 wscale;
	__u8 ttl;
	__u8 window_how;	/* WEIR_FW_SYSTEM_* */
	__u8 bytes_how;
	__u8 mss_how;
	__u8 wscale_how;
	__u32 unused;
};

_Static_assert(sizeof(struct weir_fw_system_order) == 16, "four orders are one line");
_Static_assert(sizeof(struct weir_fw_system) == 16, "four systems are one line");

/* What of a SYN fingerprints look at, beside its descriptor. */
struct weir_fw_syn {
	__u64 options;		/* three bits each, the last one lowest */
	__u32 option_count;
	__u32 flags;		/* WEIR_FW_SYSTEM_DF and the like */
	__u32 mss;
	__u32 wscale;
	__u32 segments[2];	/* that the window is, of its size, and of the usual one */
	__u32 packets[2];	/* the same of packets */
	__u32 option_bytes;
	__u8 bytes[WEIR_FW_SYN_BYTES]; /* of the options, and what is read behind */
};

/* Where the search for an order begins, by its options and by option_count << 8 | flags. */
static __always_inline __u32 weir_fw_system_hash(__u64 options, __u32 rest)
{
	return ((options ^ (__u64)rest << 48) * 0x9e3779b97f4a7c15ull) >> 32;
}

#endif /* WEIR_FW_SYSTEM_H */

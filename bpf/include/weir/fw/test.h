/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What tests of the state table ask its program (bpf/states.bpf.c), and what it answers. */
#ifndef WEIR_FW_TEST_H
#define WEIR_FW_TEST_H

#include <weir/fw/packet.h>
#include <weir/fw/reasons.h>
#include <weir/fw/state.h>

/* weir_test_request.operation */
enum weir_test_operation {
	WEIR_TEST_KEEP,		/* look up; where nothing is found, insert */
	WEIR_TEST_LOOK,		/* only look up */
	WEIR_TEST_ERROR,	/* an ICMP error that quotes the packet */
	WEIR_TEST_NEXT_HOP,	/* look up, and remember `index` as next hop */
	WEIR_TEST_REUSE_FRAGMENT, /* weir_test_reuse_fragment() */
	WEIR_TEST_REUSE_SOURCE,	/* weir_test_reuse_source() */
};

enum weir_test_constant {
	/* The request stands behind room for an Ethernet header. */
	WEIR_TEST_AT = 16,
	/* In a result: the reason of an insert that was refused is added to it. */
	WEIR_TEST_REFUSED = 16,
};

struct weir_test_request {
	__u32 operation;	/* WEIR_TEST_* */
	__u32 count;		/* flows; their number is added to the source's last word */
	__u32 shuffle;		/* odd: flow numbers are multiplied by it, modulo 2^24 */
	__u32 index;
	/* What rules redirect to: the last word of the destination is changed by it; 0: nothing. */
	__u32 redirect;
	__u32 unused;
	__u64 wire_hash;	/* of the key that was redirected */
	struct weir_fw_packet packet;
	struct weir_fw_decision decision;
	/* The answer. */
	struct weir_fw_hit hit; /* of the last packet */
	__u32 result;		/* of the last packet: enum weir_state_found or WEIR_TEST_REFUSED */
	__u32 hits;
	__u32 misses;
	__u32 inserts;
	__u32 drops[WEIR_FW_REASON_COUNT_MAX];
};

#endif /* WEIR_FW_TEST_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why the firewall drops a packet: the one list that code, counters, help and documents come from.
 * weir-bpf's build script reads the lines of WEIR_FW_REASONS.
 *
 * The first sixteen are pf's own, in pf's order (pfvar.h of FreeBSD, PFRES_*), because `pfctl -si`
 * prints them so. Order is layout: new reasons go to the end.
 */
#ifndef WEIR_FW_REASONS_H
#define WEIR_FW_REASONS_H

/* X(constant, "name", "what it means") */
#define WEIR_FW_REASONS(X)                                                                      \
	X(MATCH, "match", "a rule blocks it")                                                   \
	X(BAD_OFFSET, "bad-offset", "a header's length or offset points outside the packet")    \
	X(FRAGMENT, "fragment", "a fragment that overlaps, is impossible, or found no room")    \
	X(SHORT, "short", "the packet ends before its headers do")                              \
	X(NORMALIZE, "normalize", "flags, ports or addresses that no sender may use")           \
	X(MEMORY, "memory", "the state table has no slot left though the limit allows more")    \
	X(BAD_TIMESTAMP, "bad-timestamp", "a TCP timestamp outside its window")                 \
	X(CONGESTION, "congestion", "a lock was held for too long")                             \
	X(IP_OPTION, "ip-option", "IP options without allow-opts")                              \
	X(PROTO_CKSUM, "proto-cksum", "a wrong checksum")                                       \
	X(STATE_MISMATCH, "state-mismatch", "the packet does not fit its state")                \
	X(STATE_INSERT, "state-insert", "the new state's place was taken meanwhile")            \
	X(STATE_LIMIT, "state-limit", "the limit of states, or a rule's max, is reached")       \
	X(SRC_LIMIT, "src-limit", "a limit of states or connections of one source")             \
	X(SYNPROXY, "synproxy", "taken by the SYN proxy")                                       \
	X(MAP_FAILED, "map-failed", "no address or port to translate to")                       \
	X(NO_ROUTE, "no-route", "a route says blackhole, or a gateway cannot be reached")        \
	X(INTERNAL, "internal", "the configuration is damaged; never expected")                 \
	X(TOO_BIG, "too-big", "longer than the MTU where route-to, reply-to or af-to leads")     \
	X(NO_SOCKET, "no-socket", "nobody listens where divert-to leads, or asks for what came")  \
	X(AF_TO, "af-to", "fragments, options, messages that af-to has no other family for")     \
	X(TTL, "ttl", "its TTL ends here, and af-to would bring it into the other family")   \
	X(PKT_RATE, "pkt-rate", "packets of a state above the max-pkt-rate of its rule")

enum weir_fw_reason {
#define WEIR_FW_REASON_ENUM(constant, name, text) WEIR_FW_REASON_##constant,
	WEIR_FW_REASONS(WEIR_FW_REASON_ENUM)
#undef WEIR_FW_REASON_ENUM
	WEIR_FW_REASON_COUNT,
	/* Room that counters keep for reasons, so that a new one moves nothing. */
	WEIR_FW_REASON_COUNT_MAX = 32,
};

_Static_assert(WEIR_FW_REASON_COUNT <= WEIR_FW_REASON_COUNT_MAX, "too many reasons");

#endif /* WEIR_FW_REASONS_H */

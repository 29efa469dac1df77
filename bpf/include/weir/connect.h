/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP connections without sockets: what both ends know beforehand, and what they count.
 *
 * Neither end keeps anything of a connection. The numbers with which the ends of a connection begin
 * are a hash of its addresses and ports, so that the acknowledgement in any later packet says how
 * far it has come. What fits no step of a connection is counted by kind.
 *
 * The server has to know one thing of a client that its later packets do not say: whether the first
 * packet behind the SYN-ACK is all that will acknowledge it, and who closes. weir's client says so
 * in its SYN, where nobody else looks: in the echoed timestamp, which has no meaning there (RFC
 * 7323 section 3.2). The server puts what it was told into the highest bits of its own first
 * number, and gets it back with every acknowledgement.
 *
 * The control process writes and reads words (crates/weir-bpf/src/connect.rs): every field has 64
 * bits.
 */
#ifndef WEIR_CONNECT_H
#define WEIR_CONNECT_H

#include <bpf/bpf_helpers.h>
#include <weir/random.h>
#include <weir/vmlinux.h>

/* weir_connect_set.close: what the client does with a connection in the end. */
enum weir_connect_close {
	WEIR_CONNECT_CLOSE_NONE,
	WEIR_CONNECT_CLOSE_FIN,
	WEIR_CONNECT_CLOSE_RST,
};

/* weir_connect_set.kind, and bits 30 and 31 of the server's first number. */
enum weir_connect_kind {
	WEIR_CONNECT_KIND_WEIR = 1 << 0, /* weir's client: it acknowledges the SYN-ACK once */
	WEIR_CONNECT_KIND_KEEP = 1 << 1, /* the server does not close behind its reply */
};

enum weir_connect_constant {
	/* Of a request or a reply: within an MTU of 1,500 bytes behind the largest headers. */
	WEIR_CONNECT_PAYLOAD_BYTES_MAX = 1400,
	/* One byte less and the acknowledgement of a reply would be that of a FIN. */
	WEIR_CONNECT_REPLY_BYTES_MIN = 2,
	/* How often a SYN is sent again at most. */
	WEIR_CONNECT_RETRIES_MAX = 4,
	/* A timestamp is the time of CLOCK_MONOTONIC in units of 2^10 ns, modulo 2^32. */
	WEIR_CONNECT_TICK_SHIFT = 10,
};

/* weir_connect_latency: entries. */
enum weir_connect_latency_kind {
	WEIR_CONNECT_HANDSHAKE,
	WEIR_CONNECT_REPLY,
	WEIR_CONNECT_LATENCY_COUNT,
};

/* In the echoed timestamp of a SYN of weir's client; the lowest bits are its kind. */
#define WEIR_CONNECT_MARK 0x77656970
#define WEIR_CONNECT_MARK_MASK 0xfffffffc

/* The server's first number: kind in the highest bits, then a zero, so that no step carries. */
#define WEIR_CONNECT_KIND_SHIFT 30
#define WEIR_CONNECT_HASH_MASK 0x1fffffff
#define WEIR_CONNECT_STEP_MASK 0x3fffffff

/*
 * Addresses and ports. An address is two words; that of IPv4 is in the lower one. Where the words
 * have ones in the masks the address varies, and what stands there is a number within bounds.
 */
struct weir_connect_range {
	__u64 family;		/* 4 or 6; 0: all addresses and ports */
	__u64 high;		/* what does not vary, zeros where it does */
	__u64 low;
	__u64 high_mask;
	__u64 low_mask;
	__u64 shift;		/* of what varies, within its word */
	__u64 first;
	__u64 last;
	__u64 port_first;
	__u64 port_last;
};

struct weir_connect_set {
	__u64 close;		/* WEIR_CONNECT_CLOSE_* */
	__u64 kind;		/* the client's: WEIR_CONNECT_KIND_* */
	__u64 hold_ns;		/* from a connection's SYN to its end; zero: it is not held */
	__u64 request_bytes;
	__u64 reply_bytes;
	__u64 payload_bytes;	/* of what this end sends: a request or a reply */
	__u64 payload_sum;
	__u64 key;		/* of the hash */
	__u64 cpu_count;
	__u64 retries;		/* how often a SYN is sent again that nobody answers */
	__u64 retry_ns;		/* when first; the time between doubles */
	struct weir_connect_range client;
	struct weir_connect_range server;
};

/* Either end's, for each CPU. What an end has no part in stays zero. */
struct weir_connect_counters {
	__u64 syns;		/* server: seen */
	__u64 syn_acks;		/* client: seen; server: sent */
	__u64 established;
	__u64 requests;		/* client: sent; server: seen */
	__u64 replies;		/* client: seen; server: sent */
	__u64 fins;		/* the client's: sent there, seen here */
	__u64 closed;		/* both FINs acknowledged */
	__u64 resets;		/* the client's: sent there, seen here */
	__u64 retries;		/* client: SYNs that were sent again */
	__u64 repeated;		/* client: SYN-ACKs that had been answered before, if it knows */
	__u64 refused;		/* client: a RST in answer to a SYN */
	__u64 strangers;	/* the other end is not weir's, or addresses are translated */
	__u64 peer_resets;	/* client: a RST after the handshake */
	__u64 peer_closes;	/* client: a FIN for a connection that it was to end itself */
	__u64 bad_number;	/* an acknowledgement that is no step of a connection */
	__u64 bad_flags;	/* flags that are no step of a connection */
	__u64 malformed;	/* no whole TCP header */
	__u64 unanswered;	/* no room for the answer, or no device */
	__u64 passed;		/* not for this end: it went on to the network stack */
};

/* A connection's ends, as its client sees them. */
struct weir_connect_tuple {
	__u64 client_high;
	__u64 client_low;
	__u64 server_high;
	__u64 server_low;
	__u64 client_port;
	__u64 server_port;
};

/*
 * The hash of a connection: the lower half is the number with which its client begins, the upper
 * one is for the server's. It keeps connections apart; it is no defence.
 */
static __always_inline __u64 weir_connect_hash(const struct weir_connect_tuple *tuple, __u64 key,
					       bool is_ipv6)
{
	if (is_ipv6) {
		key = weir_splitmix64(key ^ tuple->client_high, tuple->server_high);
		key = weir_splitmix64(key ^ (tuple->client_low >> 32), tuple->server_low >> 32);
	}
	return weir_splitmix64(key ^ (tuple->client_low << 32 | (__u32)tuple->server_low),
			       tuple->client_port << 16 | tuple->server_port);
}

/* The number with which the server begins. */
static __always_inline __u32 weir_connect_server_first(__u64 hash, __u64 kind)
{
	return ((hash >> 32) & WEIR_CONNECT_HASH_MASK) | (__u32)(kind << WEIR_CONNECT_KIND_SHIFT);
}

/* What of an address varies: a number from `first` to `last` if it is within the range. */
static __always_inline __u64 weir_connect_varies(const volatile struct weir_connect_range *range,
						 __u64 high, __u64 low)
{
	return ((high & range->high_mask) | (low & range->low_mask)) >> (range->shift & 63);
}

static __always_inline bool weir_connect_within(const volatile struct weir_connect_range *range,
						__u64 high, __u64 low, __u64 port, bool is_ipv6)
{
	__u64 varies;

	if (!range->family)
		return true;
	if (range->family != (is_ipv6 ? 6 : 4) || (high & ~range->high_mask) != range->high ||
	    (low & ~range->low_mask) != range->low)
		return false;
	varies = weir_connect_varies(range, high, low);
	return varies >= range->first && varies <= range->last && port >= range->port_first &&
	       port <= range->port_last;
}

/* The number of a flow, from 0, in the order of the odometer (odometer.h). */
static __always_inline __u64 weir_connect_flow(const volatile struct weir_connect_set *set,
					       const struct weir_connect_tuple *tuple)
{
	const volatile struct weir_connect_range *client = &set->client, *server = &set->server;
	__u64 src = weir_connect_varies(client, tuple->client_high, tuple->client_low);
	__u64 dst = weir_connect_varies(server, tuple->server_high, tuple->server_low);
	__u64 flow = dst - server->first;

	flow = flow * (server->port_last - server->port_first + 1) + tuple->server_port -
	       server->port_first;
	flow = flow * (client->last - client->first + 1) + src - client->first;
	return flow * (client->port_last - client->port_first + 1) + tuple->client_port -
	       client->port_first;
}

#endif /* WEIR_CONNECT_H */

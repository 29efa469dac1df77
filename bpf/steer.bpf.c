// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Steers packets to one of several sockets that share an address (SO_REUSEPORT).
 *
 * weir_steer_hash goes by the packet's bucket, as a card with receive side scaling would: it hashes
 * addresses and ports anew, because the kernel's own hash is the card's on some drivers only.
 * weir_steer_cpu goes by the CPU that receives the packet. Where no socket has the place that a
 * packet is for, the kernel chooses among all.
 *
 * weir_steer_tap goes by the bucket, too, and names the queue of a tap that a packet is read from
 * by whoever has the tap's other end: a card with receive side scaling for a program.
 *
 * A card hashes fragments by their addresses; here they are whole again, and hashed with their
 * ports.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/rss.h>
#include <weir/toeplitz.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Here `queue` is the place of a socket, of a bucket or of a CPU; or the queue of a tap. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_rss);
} weir_steer_set SEC(".maps");

/* As many as there are sockets. */
struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_steer_sockets SEC(".maps");

/* False if the packet has not all of what is hashed. */
static __always_inline bool weir_steer_hash_of(const struct weir_rss *rss,
					       struct sk_reuseport_md *md, __u32 *hash)
{
	bool is_ipv6 = md->eth_protocol == bpf_htons(WEIR_ETH_TYPE_IPV6);
	__u32 kind = md->ip_protocol == WEIR_PROTOCOL_UDP ? WEIR_RSS_UDP4 : WEIR_RSS_TCP4;
	__u8 addresses[32], ports[4];

	if (is_ipv6) {
		if (bpf_skb_load_bytes_relative(md, WEIR_IPV6_SRC_OFFSET, addresses, 32,
						BPF_HDR_START_NET))
			return false;
		*hash = weir_rss_pair(rss, 0, addresses, addresses + 16, 16);
		kind += WEIR_RSS_TCP6;
	} else {
		if (bpf_skb_load_bytes_relative(md, WEIR_IPV4_SRC_OFFSET, addresses, 8,
						BPF_HDR_START_NET))
			return false;
		*hash = weir_rss_pair(rss, 0, addresses, addresses + 4, 4);
	}
	if (!rss->ports[kind & 3])
		return true;
	/* TCP's and UDP's headers both begin with them. */
	if (bpf_skb_load_bytes(md, 0, ports, 4))
		return false;
	if (is_ipv6)
		*hash ^= weir_rss_pair(rss, 32, ports, ports + 2, 2);
	else
		*hash ^= weir_rss_pair(rss, 8, ports, ports + 2, 2);
	return true;
}

static __always_inline int weir_steer_to(const struct weir_rss *rss, struct sk_reuseport_md *md,
					 __u32 index)
{
	__u32 place;

	/* Behind its end the table has zeros, which are nobody's choice. */
	if (index >= rss->bucket_count || index >= WEIR_RSS_BUCKET_COUNT_MAX)
		return SK_PASS;
	place = rss->queue[index];
	/* If it fails, nothing is selected. */
	bpf_sk_select_reuseport(md, &weir_steer_sockets, &place, 0);
	return SK_PASS;
}

SEC("sk_reuseport")
int weir_steer_hash(struct sk_reuseport_md *md)
{
	__u32 hash = 0, bucket = 0, zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_steer_set, &zero);

	if (!rss || !weir_steer_hash_of(rss, md, &hash) ||
	    !weir_rss_bucket_of(rss, hash, &bucket))
		return SK_PASS;
	return weir_steer_to(rss, md, bucket);
}

/* False if it is no IP packet, which is not hashed. Fragments are hashed by their addresses. */
static __always_inline bool weir_steer_frame_hash(const struct weir_rss *rss,
						  struct __sk_buff *skb, __u32 *hash)
{
	bool is_ipv6 = skb->protocol == bpf_htons(WEIR_ETH_TYPE_IPV6);
	__u8 header[WEIR_IPV6_BYTES], ports[4], protocol;
	__u32 kind, message;

	if (is_ipv6) {
		if (bpf_skb_load_bytes_relative(skb, 0, header, WEIR_IPV6_BYTES,
						BPF_HDR_START_NET))
			return false;
		*hash = weir_rss_pair(rss, 0, header + WEIR_IPV6_SRC_OFFSET,
				      header + WEIR_IPV6_DST_OFFSET, 16);
		protocol = header[WEIR_IPV6_NEXT_HEADER_OFFSET];
		message = WEIR_IPV6_BYTES;
	} else {
		if (skb->protocol != bpf_htons(WEIR_ETH_TYPE_IPV4) ||
		    bpf_skb_load_bytes_relative(skb, 0, header, WEIR_IPV4_BYTES_MIN,
						BPF_HDR_START_NET))
			return false;
		*hash = weir_rss_pair(rss, 0, header + WEIR_IPV4_SRC_OFFSET,
				      header + WEIR_IPV4_DST_OFFSET, 4);
		if ((header[WEIR_IPV4_FRAGMENT_OFFSET] << 8 |
		     header[WEIR_IPV4_FRAGMENT_OFFSET + 1]) &
		    WEIR_IPV4_FRAGMENT_MASK)
			return true;
		protocol = header[WEIR_IPV4_PROTOCOL_OFFSET];
		message = (header[0] & 0xf) * 4;
	}
	if (protocol != WEIR_PROTOCOL_UDP && protocol != WEIR_PROTOCOL_TCP)
		return true;
	kind = protocol == WEIR_PROTOCOL_UDP ? WEIR_RSS_UDP4 : WEIR_RSS_TCP4;
	if (is_ipv6)
		kind += WEIR_RSS_TCP6;
	if (!rss->ports[kind & 3] ||
	    bpf_skb_load_bytes_relative(skb, message, ports, 4, BPF_HDR_START_NET))
		return true;
	if (is_ipv6)
		*hash ^= weir_rss_pair(rss, 32, ports, ports + 2, 2);
	else
		*hash ^= weir_rss_pair(rss, 8, ports, ports + 2, 2);
	return true;
}

/* The kernel takes the queue modulo the number of those that are open. */
SEC("socket")
int weir_steer_tap(struct __sk_buff *skb)
{
	__u32 hash = 0, bucket = 0, zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_steer_set, &zero);

	if (!rss || !weir_steer_frame_hash(rss, skb, &hash) ||
	    !weir_rss_bucket_of(rss, hash, &bucket))
		return 0;
	return rss->queue[bucket];
}

SEC("sk_reuseport")
int weir_steer_cpu(struct sk_reuseport_md *md)
{
	__u32 zero = 0;
	struct weir_rss *rss = bpf_map_lookup_elem(&weir_steer_set, &zero);

	if (!rss)
		return SK_PASS;
	return weir_steer_to(rss, md, bpf_get_smp_processor_id());
}

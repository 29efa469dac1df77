/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes a packet into a page whose contents are not known: link header, IP header, transport
 * header and signature, every byte of them, as whole words that are composed in host order and
 * stored big-endian. The bytes are those of weir_wire::stream::StreamFrames::build().
 *
 * Layouts are arguments that the compiler knows, so that each gets straight code of its own.
 */
#ifndef WEIR_FRAME_H
#define WEIR_FRAME_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/checksum.h>
#include <weir/headers.h>
#include <weir/lane.h>
#include <weir/signature.h>
#include <weir/vmlinux.h>

#define WEIR_TCP_BYTES 20
#define WEIR_ECHO_BYTES 8

/* What differs from packet to packet. */
struct weir_packet {
	struct weir_flow flow;
	__u64 sequence;		/* modulo 2^48 */
	__u64 stamp_ns;		/* modulo 2^48 */
	__u64 ident;
	__u64 packet_bytes;	/* IP header and all behind it */
};

static __always_inline void weir_store(void *at, __u64 word)
{
	*(__u64 *)at = bpf_cpu_to_be64(word);
}

static __always_inline __u64 weir_ip_header_bytes(__u32 layout)
{
	return layout >= WEIR_LAYOUT_IPV6 ? WEIR_IPV6_BYTES : WEIR_IPV4_BYTES_MIN;
}

static __always_inline __u32 weir_transport(__u32 layout)
{
	return layout >= WEIR_LAYOUT_IPV6 ? layout - WEIR_LAYOUT_IPV6 : layout;
}

static __always_inline __u64 weir_transport_bytes(__u32 layout)
{
	switch (weir_transport(layout)) {
	case WEIR_LAYOUT_TCP:
		return WEIR_TCP_BYTES;
	case WEIR_LAYOUT_ECHO:
		return WEIR_ECHO_BYTES;
	default:
		return WEIR_UDP_BYTES;
	}
}

/* All that is written behind the link header. */
static __always_inline __u64 weir_written_bytes(__u32 layout)
{
	return weir_ip_header_bytes(layout) + weir_transport_bytes(layout) + WEIR_SIGNATURE_BYTES;
}

static __always_inline void weir_write_ipv4(void *ip, const struct weir_lane *lane,
					    const struct weir_packet *packet)
{
	__u64 src = packet->flow.src, dst = packet->flow.dst;
	__u64 checksum = weir_checksum(lane->ip_sum + packet->packet_bytes + packet->ident +
				       src + dst);

	weir_store(ip, lane->ip_head | packet->packet_bytes << 32 | packet->ident << 16);
	weir_store(ip + 8, lane->ip_tail | checksum << 32 | src);
	*(__u32 *)(ip + 16) = bpf_htonl((__u32)dst);
}

static __always_inline void weir_write_address6(void *at, const struct weir_address6 *address,
						__u64 group)
{
	weir_store(at, address->high + group * address->high_unit);
	weir_store(at + 8, address->low + group * address->low_unit);
}

static __always_inline void weir_write_ipv6(void *ip, const struct weir_lane *lane,
					    const struct weir_packet *packet)
{
	weir_store(ip, lane->ip_head | (packet->packet_bytes - WEIR_IPV6_BYTES) << 16);
	weir_write_address6(ip + WEIR_IPV6_SRC_OFFSET, &lane->src, packet->flow.src);
	weir_write_address6(ip + WEIR_IPV6_DST_OFFSET, &lane->dst, packet->flow.dst);
}

/* The sum of the transport's checksum; that of ICMP over IPv4 knows no addresses. */
static __always_inline __u64 weir_transport_sum(const struct weir_lane *lane,
						const struct weir_packet *packet, __u32 layout)
{
	const struct weir_flow *flow = &packet->flow;
	__u64 length = packet->packet_bytes - weir_ip_header_bytes(layout);
	__u64 sum = lane->transport_sum + flow->src_port + flow->dst_port +
		    (packet->sequence >> 32) + (__u32)packet->sequence +
		    (packet->stamp_ns >> 32) + (__u32)packet->stamp_ns;

	if (layout == WEIR_LAYOUT_ECHO)
		return sum;
	sum += flow->src + flow->dst + length;
	return weir_transport(layout) == WEIR_LAYOUT_UDP ? sum + length : sum;
}

static __always_inline void weir_write_transport(void *at, const struct weir_lane *lane,
						 const struct weir_packet *packet, __u32 layout)
{
	__u64 sum = weir_transport_sum(lane, packet, layout);
	__u64 src_port = packet->flow.src_port, dst_port = packet->flow.dst_port;
	__u64 length;

	switch (weir_transport(layout)) {
	case WEIR_LAYOUT_TCP:
		/* Sequence and acknowledgement number, and the urgent pointer, are zero. */
		weir_store(at, src_port << 48 | dst_port << 32);
		weir_store(at + 8, lane->transport_word);
		*(__u32 *)(at + 16) = bpf_htonl((__u32)weir_checksum(sum) << 16);
		return;
	case WEIR_LAYOUT_ECHO:
		weir_store(at, lane->transport_word | (__u64)weir_checksum(sum) << 32 |
			       src_port << 16 | dst_port);
		return;
	default:
		length = packet->packet_bytes - weir_ip_header_bytes(layout);
		weir_store(at, src_port << 48 | dst_port << 32 | length << 16 |
			       weir_checksum_udp(sum));
	}
}

static __always_inline void weir_write_signature(void *at, const struct weir_lane *lane,
						 const struct weir_packet *packet)
{
	weir_store(at, (__u64)WEIR_SIGNATURE_MAGIC << 32 | lane->stream_thread << 16 |
		       packet->sequence >> 32);
	weir_store(at + 8, packet->sequence << 32 | packet->stamp_ns >> 16);
	*(__u16 *)(at + 16) = bpf_htons((__u16)packet->stamp_ns);
}

/* Writes what stands behind the link header; false if the page is too short for it. */
static __always_inline bool weir_write_packet(void *ip, void *data_end,
					      const struct weir_lane *lane,
					      const struct weir_packet *packet, __u32 layout)
{
	void *transport = ip + weir_ip_header_bytes(layout);

	if (ip + weir_written_bytes(layout) > data_end)
		return false;
	if (layout >= WEIR_LAYOUT_IPV6)
		weir_write_ipv6(ip, lane, packet);
	else
		weir_write_ipv4(ip, lane, packet);
	weir_write_transport(transport, lane, packet, layout);
	weir_write_signature(transport + weir_transport_bytes(layout), lane, packet);
	return true;
}

#endif /* WEIR_FRAME_H */

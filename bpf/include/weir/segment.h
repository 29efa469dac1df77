/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP segments in untagged frames: read where they come in, and written over what a frame holds,
 * every byte of them, with right checksums.
 *
 * Of the options only timestamps (RFC 7323) are looked at. IPv4 options, fragments and IPv6
 * extension headers are not read: such packets are not for these programs. What is behind the
 * packet in a frame (the padding of small ones) does not count: its length is the IP header's.
 */
#ifndef WEIR_SEGMENT_H
#define WEIR_SEGMENT_H

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/checksum.h>
#include <weir/frame.h>
#include <weir/headers.h>
#include <weir/vmlinux.h>

enum weir_tcp_flag {
	WEIR_TCP_FIN = 1 << 0,
	WEIR_TCP_SYN = 1 << 1,
	WEIR_TCP_RST = 1 << 2,
	WEIR_TCP_PSH = 1 << 3,
	WEIR_TCP_ACK = 1 << 4,
};

/* Those that say what a segment is; URG, ECE and CWR do not. */
#define WEIR_TCP_FLAGS                                                                            \
	(WEIR_TCP_FIN | WEIR_TCP_SYN | WEIR_TCP_RST | WEIR_TCP_PSH | WEIR_TCP_ACK)

/* The options that are written, by their bytes. */
enum weir_tcp_options {
	WEIR_TCP_OPTIONS_NONE = 0,
	WEIR_TCP_OPTIONS_MSS = 4,	/* of a SYN-ACK to a client without timestamps */
	WEIR_TCP_OPTIONS_TIMES = 12,	/* timestamps */
	WEIR_TCP_OPTIONS_SYN_ACK = 16,	/* MSS, timestamps */
	WEIR_TCP_OPTIONS_SYN = 20,	/* MSS, SACK permitted, timestamps, window scale */
};

#define WEIR_TCP_OPTIONS_BYTES_MAX 40
#define WEIR_TCP_OPTION_END 0
#define WEIR_TCP_OPTION_NOTHING 1
#define WEIR_TCP_OPTION_TIMES 8
#define WEIR_TCP_OPTION_TIMES_BYTES 10
/* Words of options: two NOPs and the head of timestamps; the same behind "SACK permitted". */
#define WEIR_TCP_TIMES_WORD 0x0101080a
#define WEIR_TCP_SACK_TIMES_WORD 0x0402080a
#define WEIR_TCP_MSS_WORD 0x02040000
/* NOP and a window scale of 7. */
#define WEIR_TCP_SCALE_WORD 0x01030307

#define WEIR_MSS_IPV4 1460
#define WEIR_MSS_IPV6 1440
#define WEIR_TCP_WINDOW 0xffff
#define WEIR_HOPS 64
#define WEIR_IPV4_DONT_FRAGMENT 0x4000
#define WEIR_ETHERNET_BYTES_MIN 60

struct weir_segment {
	/* IPv4 addresses are in the lower words. */
	__u64 from_high;
	__u64 from_low;
	__u64 to_high;
	__u64 to_low;
	__u64 from_port;
	__u64 to_port;
	__u32 number;		/* the sequence number */
	__u32 ack;
	__u32 flags;		/* WEIR_TCP_* */
	__u32 payload_bytes;
	__u32 options;		/* written: WEIR_TCP_OPTIONS_* */
	__u32 time;		/* timestamps: the sender's */
	__u32 time_echo;	/* and the one that it echoes */
	bool has_times;
	bool is_ipv6;
};

/* What has come in. */
enum weir_segment_found {
	WEIR_SEGMENT_OTHER,	/* no TCP that these programs read */
	WEIR_SEGMENT_MALFORMED,
	WEIR_SEGMENT_WHOLE,
};

/*
 * Where in the frame the timestamps of a TCP header are whose options do not stand as the common
 * stacks write them; zero if there are none. The verifier checks it by itself.
 */
__noinline int weir_segment_find_times(struct xdp_md *ctx, __u32 offset, __u32 bytes)
{
	__u8 options[64] = {};
	__u32 at = 0, i, size;

	if (!bytes || bytes > WEIR_TCP_OPTIONS_BYTES_MAX || offset > 128)
		return 0;
	if (bpf_xdp_load_bytes(ctx, offset, options, bytes))
		return 0;
	for (i = 0; i < WEIR_TCP_OPTIONS_BYTES_MAX; i++) {
		if (at + 1 >= bytes || options[at & 63] == WEIR_TCP_OPTION_END)
			return 0;
		if (options[at & 63] == WEIR_TCP_OPTION_NOTHING) {
			at++;
			continue;
		}
		size = options[(at + 1) & 63];
		if (size < 2 || at + size > bytes)
			return 0;
		if (options[at & 63] == WEIR_TCP_OPTION_TIMES &&
		    size == WEIR_TCP_OPTION_TIMES_BYTES)
			return offset + at + 2;
		at += size;
	}
	return 0;
}

static __always_inline void weir_segment_take_times(struct weir_segment *segment, void *at)
{
	segment->time = bpf_ntohl(*(__be32 *)at);
	segment->time_echo = bpf_ntohl(*(__be32 *)(at + 4));
	segment->has_times = true;
}

/* Reads the timestamps; at once where Linux, the BSDs and this file put them. */
static __always_inline void weir_segment_read_times(struct xdp_md *ctx,
						    struct weir_segment *segment, void *tcp,
						    void *data_end, __u64 tcp_bytes)
{
	void *options = tcp + WEIR_TCP_BYTES_MIN;
	__be32 times[2];
	__u32 offset;
	int at;

	if (tcp_bytes == WEIR_TCP_BYTES_MIN)
		return;
	if (options + 12 <= data_end &&
	    tcp_bytes == WEIR_TCP_BYTES_MIN + WEIR_TCP_OPTIONS_TIMES &&
	    *(__be32 *)options == bpf_htonl(WEIR_TCP_TIMES_WORD)) {
		weir_segment_take_times(segment, options + 4);
		return;
	}
	if (options + 16 <= data_end && tcp_bytes >= WEIR_TCP_BYTES_MIN + 16 &&
	    (*(__be32 *)(options + 4) == bpf_htonl(WEIR_TCP_SACK_TIMES_WORD) ||
	     *(__be32 *)(options + 4) == bpf_htonl(WEIR_TCP_TIMES_WORD)) &&
	    *(__be16 *)options == bpf_htons(WEIR_TCP_MSS_WORD >> 16)) {
		weir_segment_take_times(segment, options + 8);
		return;
	}
	offset = WEIR_ETH_BYTES + WEIR_TCP_BYTES_MIN +
		 (segment->is_ipv6 ? WEIR_IPV6_BYTES : WEIR_IPV4_BYTES_MIN);
	at = weir_segment_find_times(ctx, offset, tcp_bytes - WEIR_TCP_BYTES_MIN);
	if (at > 0 && !bpf_xdp_load_bytes(ctx, at, times, sizeof(times)))
		weir_segment_take_times(segment, times);
}

static __always_inline enum weir_segment_found
weir_segment_read_tcp(struct xdp_md *ctx, struct weir_segment *segment, void *tcp, void *data_end,
		      __u64 bytes)
{
	__u64 ports, numbers, tcp_bytes;

	if (tcp + WEIR_TCP_BYTES_MIN > data_end)
		return WEIR_SEGMENT_MALFORMED;
	ports = bpf_be64_to_cpu(*(__u64 *)tcp);
	numbers = bpf_be64_to_cpu(*(__u64 *)(tcp + 8));
	tcp_bytes = (numbers >> 28 & 0xf) * 4;
	segment->from_port = ports >> 48;
	segment->to_port = ports >> 32 & 0xffff;
	if (tcp_bytes < WEIR_TCP_BYTES_MIN || tcp_bytes > bytes)
		return WEIR_SEGMENT_MALFORMED;
	segment->number = ports;
	segment->ack = numbers >> 32;
	segment->flags = numbers >> 16 & WEIR_TCP_FLAGS;
	segment->payload_bytes = bytes - tcp_bytes;
	weir_segment_read_times(ctx, segment, tcp, data_end, tcp_bytes);
	return WEIR_SEGMENT_WHOLE;
}

static __always_inline enum weir_segment_found
weir_segment_read_ipv4(struct xdp_md *ctx, struct weir_segment *segment, void *ip, void *data_end)
{
	__u64 bytes;

	if (ip + WEIR_IPV4_BYTES_MIN > data_end || *(__u8 *)ip != WEIR_IPV4_NO_OPTIONS ||
	    *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET) != WEIR_PROTOCOL_TCP ||
	    *(__be16 *)(ip + WEIR_IPV4_FRAGMENT_OFFSET) & bpf_htons(WEIR_IPV4_FRAGMENT_MASK))
		return WEIR_SEGMENT_OTHER;
	bytes = bpf_ntohs(*(__be16 *)(ip + 2));
	if (bytes < WEIR_IPV4_BYTES_MIN)
		return WEIR_SEGMENT_MALFORMED;
	segment->from_low = bpf_ntohl(*(__be32 *)(ip + WEIR_IPV4_SRC_OFFSET));
	segment->to_low = bpf_ntohl(*(__be32 *)(ip + WEIR_IPV4_DST_OFFSET));
	return weir_segment_read_tcp(ctx, segment, ip + WEIR_IPV4_BYTES_MIN, data_end,
				     bytes - WEIR_IPV4_BYTES_MIN);
}

static __always_inline enum weir_segment_found
weir_segment_read_ipv6(struct xdp_md *ctx, struct weir_segment *segment, void *ip, void *data_end)
{
	if (ip + WEIR_IPV6_BYTES > data_end || *(__u8 *)ip >> 4 != 6 ||
	    *(__u8 *)(ip + WEIR_IPV6_NEXT_HEADER_OFFSET) != WEIR_PROTOCOL_TCP)
		return WEIR_SEGMENT_OTHER;
	segment->is_ipv6 = true;
	segment->from_high = bpf_be64_to_cpu(*(__u64 *)(ip + WEIR_IPV6_SRC_OFFSET));
	segment->from_low = bpf_be64_to_cpu(*(__u64 *)(ip + WEIR_IPV6_SRC_OFFSET + 8));
	segment->to_high = bpf_be64_to_cpu(*(__u64 *)(ip + WEIR_IPV6_DST_OFFSET));
	segment->to_low = bpf_be64_to_cpu(*(__u64 *)(ip + WEIR_IPV6_DST_OFFSET + 8));
	return weir_segment_read_tcp(ctx, segment, ip + WEIR_IPV6_BYTES, data_end,
				     bpf_ntohs(*(__be16 *)(ip + 4)));
}

/* Reads the segment of a frame; `segment` is all zeros before. */
static __always_inline enum weir_segment_found weir_segment_read(struct xdp_md *ctx,
								 struct weir_segment *segment)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	__be16 type;

	if (data + WEIR_ETH_BYTES > data_end || *(__u8 *)data & WEIR_ETH_GROUP_BIT)
		return WEIR_SEGMENT_OTHER;
	type = *(__be16 *)(data + WEIR_ETH_TYPE_OFFSET);
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV4))
		return weir_segment_read_ipv4(ctx, segment, data + WEIR_ETH_BYTES, data_end);
	if (type == bpf_htons(WEIR_ETH_TYPE_IPV6))
		return weir_segment_read_ipv6(ctx, segment, data + WEIR_ETH_BYTES, data_end);
	return WEIR_SEGMENT_OTHER;
}

/* Bytes of a segment's frame up to its payload. */
static __always_inline __u64 weir_segment_headers_bytes(const struct weir_segment *segment)
{
	return WEIR_ETH_BYTES + WEIR_TCP_BYTES_MIN + segment->options +
	       (segment->is_ipv6 ? WEIR_IPV6_BYTES : WEIR_IPV4_BYTES_MIN);
}

/* Bytes of the frame that holds a segment. */
static __always_inline __u64 weir_segment_frame_bytes(const struct weir_segment *segment)
{
	__u64 bytes = weir_segment_headers_bytes(segment) + segment->payload_bytes;

	return bytes < WEIR_ETHERNET_BYTES_MIN ? WEIR_ETHERNET_BYTES_MIN : bytes;
}

static __always_inline void weir_store32(void *at, __u32 word)
{
	*(__be32 *)at = bpf_htonl(word);
}

/* Writes the options, and adds them to the sum; false if the frame ends before them. */
static __always_inline bool weir_segment_write_options(void *at, void *data_end,
						       const struct weir_segment *segment,
						       __u64 *sum)
{
	__u64 mss = WEIR_TCP_MSS_WORD | (segment->is_ipv6 ? WEIR_MSS_IPV6 : WEIR_MSS_IPV4);
	__u64 time = segment->time, time_echo = segment->time_echo;

	switch (segment->options) {
	case WEIR_TCP_OPTIONS_NONE:
		return true;
	case WEIR_TCP_OPTIONS_MSS:
		if (at + WEIR_TCP_OPTIONS_MSS > data_end)
			return false;
		weir_store32(at, mss);
		*sum += mss;
		return true;
	case WEIR_TCP_OPTIONS_TIMES:
		if (at + WEIR_TCP_OPTIONS_TIMES > data_end)
			return false;
		weir_store32(at, WEIR_TCP_TIMES_WORD);
		weir_store32(at + 4, time);
		weir_store32(at + 8, time_echo);
		*sum += WEIR_TCP_TIMES_WORD + time + time_echo;
		return true;
	case WEIR_TCP_OPTIONS_SYN_ACK:
		if (at + WEIR_TCP_OPTIONS_SYN_ACK > data_end)
			return false;
		weir_store32(at, mss);
		weir_store32(at + 4, WEIR_TCP_TIMES_WORD);
		weir_store32(at + 8, time);
		weir_store32(at + 12, time_echo);
		*sum += mss + WEIR_TCP_TIMES_WORD + time + time_echo;
		return true;
	default:
		if (at + WEIR_TCP_OPTIONS_SYN > data_end)
			return false;
		weir_store32(at, mss);
		weir_store32(at + 4, WEIR_TCP_SACK_TIMES_WORD);
		weir_store32(at + 8, time);
		weir_store32(at + 12, time_echo);
		weir_store32(at + 16, WEIR_TCP_SCALE_WORD);
		*sum += mss + WEIR_TCP_SACK_TIMES_WORD + time + time_echo + WEIR_TCP_SCALE_WORD;
		return true;
	}
}

/* Writes ports to options; `sum` is that of the payload and of the addresses. */
static __always_inline bool weir_segment_write_tcp(void *tcp, void *data_end,
						   const struct weir_segment *segment, __u64 sum)
{
	__u64 tcp_bytes = WEIR_TCP_BYTES_MIN + segment->options;
	__u64 ports = segment->from_port << 16 | segment->to_port;
	__u64 head = (tcp_bytes / 4) << 28 | (__u64)segment->flags << 16 | WEIR_TCP_WINDOW;

	if (tcp + WEIR_TCP_BYTES_MIN > data_end ||
	    !weir_segment_write_options(tcp + WEIR_TCP_BYTES_MIN, data_end, segment, &sum))
		return false;
	sum += WEIR_PROTOCOL_TCP + tcp_bytes + segment->payload_bytes;
	sum += ports + segment->number + segment->ack + head;
	weir_store(tcp, ports << 32 | segment->number);
	weir_store(tcp + 8, (__u64)segment->ack << 32 | head);
	weir_store32(tcp + 16, (__u32)weir_checksum(sum) << 16);
	return true;
}

static __always_inline __u64 weir_segment_address_sum(const struct weir_segment *segment)
{
	__u64 sum = (segment->from_low >> 32) + (__u32)segment->from_low;

	sum += (segment->to_low >> 32) + (__u32)segment->to_low;
	if (segment->is_ipv6) {
		sum += (segment->from_high >> 32) + (__u32)segment->from_high;
		sum += (segment->to_high >> 32) + (__u32)segment->to_high;
	}
	return sum;
}

static __always_inline void weir_segment_write_ipv4(void *ip, const struct weir_segment *segment)
{
	__u64 bytes = WEIR_IPV4_BYTES_MIN + WEIR_TCP_BYTES_MIN + segment->options +
		      segment->payload_bytes;
	__u64 head = (__u64)WEIR_IPV4_NO_OPTIONS << 56 | bytes << 32 | WEIR_IPV4_DONT_FRAGMENT;
	__u64 tail = WEIR_HOPS << 8 | WEIR_PROTOCOL_TCP;
	__u64 checksum = weir_checksum((head >> 32) + (__u32)head + tail + segment->from_low +
				       segment->to_low);

	weir_store(ip, head);
	weir_store(ip + 8, tail << 48 | checksum << 32 | segment->from_low);
	weir_store32(ip + WEIR_IPV4_DST_OFFSET, segment->to_low);
}

static __always_inline void weir_segment_write_ipv6(void *ip, const struct weir_segment *segment)
{
	__u64 bytes = WEIR_TCP_BYTES_MIN + segment->options + segment->payload_bytes;

	weir_store(ip, 6ULL << 60 | bytes << 16 | WEIR_PROTOCOL_TCP << 8 | WEIR_HOPS);
	weir_store(ip + WEIR_IPV6_SRC_OFFSET, segment->from_high);
	weir_store(ip + WEIR_IPV6_SRC_OFFSET + 8, segment->from_low);
	weir_store(ip + WEIR_IPV6_DST_OFFSET, segment->to_high);
	weir_store(ip + WEIR_IPV6_DST_OFFSET + 8, segment->to_low);
}

/*
 * Writes what is behind the link header into a frame that has the right size, but for the payload,
 * whose sum is `sum`; false if the frame is shorter.
 */
static __always_inline bool weir_segment_write(void *data, void *data_end,
					       const struct weir_segment *segment, __u64 sum)
{
	void *ip = data + WEIR_ETH_BYTES;

	/* Headers may end before the smallest frame does. */
	if (data + WEIR_ETHERNET_BYTES_MIN > data_end)
		return false;
	*(__u64 *)(data + WEIR_ETHERNET_BYTES_MIN - 8) = 0;
	/* Words of other sizes are written over it. */
	barrier();
	sum += weir_segment_address_sum(segment);
	if (segment->is_ipv6) {
		if (ip + WEIR_IPV6_BYTES > data_end)
			return false;
		weir_segment_write_ipv6(ip, segment);
		return weir_segment_write_tcp(ip + WEIR_IPV6_BYTES, data_end, segment, sum);
	}
	if (ip + WEIR_IPV4_BYTES_MIN > data_end)
		return false;
	weir_segment_write_ipv4(ip, segment);
	return weir_segment_write_tcp(ip + WEIR_IPV4_BYTES_MIN, data_end, segment, sum);
}

#endif /* WEIR_SEGMENT_H */

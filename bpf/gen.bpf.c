// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_gen: makes UDP/IPv4 packets out of nothing, one per run, and sends them to a device.
 *
 * It is run by BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES: the kernel calls it over and over
 * on pages of its own and transmits those for which it returns XDP_REDIRECT. The kernel recycles
 * the pages without cleaning them, and whoever received a frame may have written to it: a router
 * lowers the TTL and exchanges MAC addresses, a firewall translates addresses and ports, a tunnel
 * encrypts the payload in place. Nothing of the last frame is therefore relied on. Every byte of
 * every packet is written: headers and signature as whole words, the rest of the payload as zeros
 * by one helper call (frames of 60 bytes have no rest).
 *
 * The kernel restores a page's start and length by itself. It fails to notice one case: a receiver
 * that cut the tail in XDP and redirected the same frame; the receiver's byte count shows that.
 *
 * Packet number s carries flow s modulo the number of flows, and is the same bytes as
 * weir_wire::frame::UdpStream::build(s). Of n threads, thread t sends numbers t, t + n, t + 2n, ...
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/checksum.h>
#include <weir/lane.h>
#include <weir/signature.h>

/* Test runs come in on the loopback device, whose index is 1 in every namespace. */
#define WEIR_LOOPBACK_IFINDEX 1

#define WEIR_FRAME_BYTES_MIN 60
#define WEIR_FRAME_BYTES_MAX 3408
#define WEIR_ZERO_BYTES (WEIR_FRAME_BYTES_MAX - WEIR_FRAME_BYTES_MIN)

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Never written. Not const, because older verifiers refuse read-only memory to the helper. */
static __u8 weir_zeros[WEIR_ZERO_BYTES];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_LANE_COUNT_MAX);
	__type(key, __u32);
	__type(value, struct weir_lane);
} weir_lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_lane_counters);
} weir_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_output SEC(".maps");

static __always_inline void weir_store(void *at, __u64 word)
{
	*(__u64 *)at = bpf_cpu_to_be64(word);
}

/*
 * Writes bytes 0..60: constant header words, then from the IPv4 checksum on what differs from
 * packet to packet. The words are composed in host order and stored big-endian.
 */
static __always_inline void weir_write_frame(void *data, const struct weir_lane *lane,
					     __u64 stamp_ns)
{
	const struct weir_digit *digit = lane->odometer.digit;
	__u64 src_addr = digit[WEIR_DIGIT_SRC_ADDR].value;
	__u64 dst_addr = digit[WEIR_DIGIT_DST_ADDR].value;
	__u64 src_port = digit[WEIR_DIGIT_SRC_PORT].value;
	__u64 dst_port = digit[WEIR_DIGIT_DST_PORT].value;
	__u64 sequence = lane->sequence & WEIR_SIGNATURE_MASK48;
	__u64 stamp = stamp_ns & WEIR_SIGNATURE_MASK48;
	__u64 addr_sum = src_addr + dst_addr;
	__u64 ipv4_checksum, udp_checksum;

	ipv4_checksum = weir_checksum(lane->ipv4_sum + addr_sum);
	udp_checksum = weir_checksum_udp(lane->udp_sum + addr_sum + src_port + dst_port +
					 (sequence >> 32) + (sequence & 0xffffffff) +
					 (stamp >> 32) + (stamp & 0xffffffff));

	*(__u64 *)(data + 0) = lane->constant[0];
	*(__u64 *)(data + 8) = lane->constant[1];
	*(__u64 *)(data + 16) = lane->constant[2];
	weir_store(data + 24, ipv4_checksum << 48 | src_addr << 16 | dst_addr >> 16);
	weir_store(data + 32, dst_addr << 48 | src_port << 32 | dst_port << 16 | lane->udp_bytes);
	weir_store(data + 40, udp_checksum << 48 | (__u64)WEIR_SIGNATURE_MAGIC << 16 |
			      lane->stream_thread);
	weir_store(data + 48, sequence << 16 | stamp >> 32);
	*(__u32 *)(data + 56) = bpf_htonl((__u32)stamp);
}

/* Zeros the payload behind the signature; false if the buffer does not have it. */
static __always_inline bool weir_clear_payload(struct xdp_md *ctx, __u64 size_bytes)
{
	__u64 rest_bytes = size_bytes - WEIR_FRAME_BYTES_MIN;

	if (!rest_bytes)
		return true;
	if (rest_bytes > WEIR_ZERO_BYTES)
		return false;
	return !bpf_xdp_store_bytes(ctx, WEIR_FRAME_BYTES_MIN, weir_zeros, rest_bytes);
}

/* Whether the lane's next packet may go now; otherwise counts why not. */
static __always_inline bool weir_may_send(struct weir_lane *lane,
					  struct weir_lane_counters *counters, __u64 now_ns)
{
	if (lane->sequence >= lane->sequence_end) {
		counters->over_limit_packets++;
		return false;
	}
	if (!(lane->flags & WEIR_LANE_PACED))
		return true;
	return weir_pacer_take(&lane->pacer, &counters->pacer, now_ns);
}

SEC("xdp")
int weir_gen(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u32 cpu = bpf_get_smp_processor_id();
	struct weir_lane_counters *counters;
	struct weir_lane *lane;
	__u64 now_ns = 0;
	__u32 zero = 0;

	/* Attached to an idle device only to be known to the kernel's XDP dispatcher. */
	if (ctx->ingress_ifindex != WEIR_LOOPBACK_IFINDEX)
		return XDP_PASS;

	lane = bpf_map_lookup_elem(&weir_lanes, &cpu);
	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!lane || !counters)
		return XDP_ABORTED;
	if (!(lane->flags & WEIR_LANE_ENABLED) || data + WEIR_FRAME_BYTES_MIN > data_end ||
	    (__u64)(data_end - data) != lane->size_bytes) {
		counters->refused_packets++;
		return XDP_DROP;
	}
	if (lane->flags & (WEIR_LANE_PACED | WEIR_LANE_STAMPED))
		now_ns = bpf_ktime_get_ns();
	if (!weir_may_send(lane, counters, now_ns))
		return XDP_DROP;

	weir_write_frame(data, lane, lane->flags & WEIR_LANE_STAMPED ? now_ns : 0);
	if (!weir_clear_payload(ctx, lane->size_bytes) ||
	    bpf_redirect_map(&weir_output, 0, XDP_DROP) != XDP_REDIRECT) {
		counters->refused_packets++;
		return XDP_DROP;
	}
	lane->sequence += lane->sequence_step;
	weir_odometer_turn(&lane->odometer);
	counters->offered_packets++;
	counters->offered_bytes += lane->size_bytes;
	return XDP_REDIRECT;
}

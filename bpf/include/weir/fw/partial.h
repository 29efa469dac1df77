/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets whose checksum is not there yet. A sender with checksum offload leaves it to its
 * hardware: where it belongs stands the sum of the pseudo-header (CHECKSUM_PARTIAL of the kernel's
 * skbuff.h), or of SCTP nothing. A veth has no hardware; the kernel remembers beside the packet
 * what is missing. A frame that XDP redirects loses that, and its receiver drops it. So what comes
 * by a veth and looks so is judged as ever, and forwarded by the kernel. A right checksum that
 * happens to be that sum (one in 65,536) is no missing one: what is changed in such a packet has to
 * be changed in its checksum, too.
 */
#ifndef WEIR_FW_PARTIAL_H
#define WEIR_FW_PARTIAL_H

#include <weir/checksum.h>
#include <weir/fw/fib.h>
#include <weir/fw/parse.h>
#include <weir/fw/sum.h>

/* Where SCTP's checksum stands. */
#define WEIR_SCTP_CHECKSUM_AT 8

/* Whether a checksum is nothing but a pseudo-header's sum, which is less than 2^36. */
static __always_inline bool weir_fw_is_pseudo(__u64 sum, __u16 checksum)
{
	return (__u16)~weir_checksum(sum) == checksum;
}

/* Whether the checksum of a packet is still missing. */
__noinline int weir_fw_is_partial(struct xdp_md *ctx, const struct weir_fw_packet *p __arg_nonnull)
{
	void *message = weir_xdp_data(ctx) + (p->l4_at & WEIR_FW_OFFSET_MASK);
	void *data_end = weir_xdp_data_end(ctx);
	__u32 bytes = weir_fw_message_bytes(p), i;
	struct weir_tcp *tcp = message;
	struct weir_udp *udp = message;
	__u16 checksum;
	__u64 sum;

	if (p->flags & WEIR_PACKET_FRAGMENT)
		return false;
	if (p->protocol == WEIR_PROTOCOL_TCP) {
		if ((void *)(tcp + 1) > data_end)
			return false;
		checksum = tcp->checksum;
	} else if (p->protocol == WEIR_PROTOCOL_UDP) {
		if ((void *)(udp + 1) > data_end)
			return false;
		checksum = udp->checksum;
	} else if (p->protocol == WEIR_PROTOCOL_SCTP) {
		return message + WEIR_SCTP_BYTES <= data_end &&
		       !*(__u32 *)(message + WEIR_SCTP_CHECKSUM_AT);
	} else {
		return false;
	}
	sum = bpf_htons(p->protocol) + bpf_htons(bytes);
	for (i = 0; i < 4; i++)
		sum += (__u64)p->src[i] + p->dst[i];
	return weir_fw_is_pseudo(sum, checksum) &&
	       weir_checksum((__u32)weir_fw_sum_frame(ctx, p->l4_at, bytes) + sum);
}

#endif /* WEIR_FW_PARTIAL_H */

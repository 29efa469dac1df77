/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues: which class of tc(8) a packet belongs to where it leaves. The control process makes the
 * trees of classes (weir-fw's engine/queues.rs); the class has the number of the queue that rules
 * have named (`queue`, `set queue` of pf.conf(5)), and the kernel finds it by the packet's
 * priority. The queue that the rules of the way out have named comes before that of the way in.
 *
 * Only what the kernel sends comes by queues: it forwards what leaves by an interface that has any.
 */
#ifndef WEIR_FW_QUEUE_H
#define WEIR_FW_QUEUE_H

#include <weir/fw/headers.h>
#include <weir/fw/judge.h>
#include <weir/fw/scratch.h>
#include <weir/fw/scrubs.h>

/* IPTOS_LOWDELAY */
#define WEIR_TOS_LOW_DELAY 0x10

/* Whether a packet is one for the second of a rule's queues (`pf_route` of pf.c). */
static __always_inline bool weir_queue_is_fast(const struct weir_fw_packet *p)
{
	return p->tos & WEIR_TOS_LOW_DELAY ||
	       (p->protocol == WEIR_PROTOCOL_TCP && p->tcp_flags & WEIR_TCP_ACK &&
		!p->payload_bytes);
}

/* Has a packet that leaves wait in the queue of its rules. */
__noinline int weir_queue_skb(struct __sk_buff *skb, const struct weir_fw_packet *p __arg_nonnull,
			      const struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u8 number, fast;
	__u64 word;

	if (!scratch)
		return 0;
	word = scratch->scrub[0];
	if (!(word & WEIR_SCRUB_QUEUES)) {
		/* The half of the way in. */
		number = weir_fw_half(p, hit) ? hit->scrub[0] : hit->scrub[1];
		word = number ? weir_scrub_kept(number) : 0;
	}
	number = word >> WEIR_FW_SCRUB_QUEUE_SHIFT;
	fast = word >> WEIR_FW_SCRUB_FAST_QUEUE_SHIFT;
	if (fast && weir_queue_is_fast(p))
		number = fast;
	if (number)
		skb->priority = (__u32)WEIR_FW_QUEUE_MAJOR << 16 | number;
	return 0;
}

#endif /* WEIR_FW_QUEUE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues: which class of tc(8) a packet belongs to where it leaves. The control process makes the
 * trees of classes (weir-fw's engine/queues.rs); the class has the number of the queue that rules
 * have named (`queue`, `set queue`, `dnpipe`, `dnqueue` of pf.conf(5)), and the kernel finds it by
 * the packet's priority. `set prio` gives a packet a priority of its own, 0 to 7, which its VLAN's
 * tag gets.
 *
 * Only what the kernel sends has either: it forwards what leaves by interfaces with queues, and
 * what leaves by VLANs.
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

/*
 * Gives a packet that leaves by an interface in a slot the queue and the priority of its rules:
 * those of the way in hold as far as those of the way out name none.
 */
__noinline int weir_queue_skb(struct __sk_buff *skb, const struct weir_fw_packet *p __arg_nonnull,
			      const struct weir_fw_hit *hit __arg_nonnull, __u8 slot)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u8 number, fast;
	__u64 word;

	if (!scratch)
		return 0;
	number = weir_fw_half(p, hit) ? hit->scrub[0] : hit->scrub[1];
	word = weir_scrub_join(number ? weir_scrub_kept(number) : 0, scratch->scrub[0]);
	number = word >> WEIR_FW_SCRUB_QUEUE_SHIFT;
	fast = word >> WEIR_FW_SCRUB_FAST_QUEUE_SHIFT;
	if (word & WEIR_SCRUB_DIRECTED ? hit->reverse & 1 : fast && weir_queue_is_fast(p))
		number = fast;
	if (number && weir_fw_interface(slot)->flags & WEIR_FW_INTERFACE_QUEUED) {
		skb->priority = (__u32)WEIR_FW_QUEUE_MAJOR << 16 | number;
		return 0;
	}
	number = word >> WEIR_FW_SCRUB_PRIO_SHIFT & 15;
	fast = word >> WEIR_FW_SCRUB_FAST_PRIO_SHIFT & 15;
	if (fast && weir_queue_is_fast(p))
		number = fast;
	if (number)
		skb->priority = number & 7;
	return 0;
}

#endif /* WEIR_FW_QUEUE_H */

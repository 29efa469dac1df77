/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet of the kernel's that has passed where it came in, and goes on in the other family
 * (family.h): as family_ingress.h. The kernel sends it on; where it leaves it is known by its ends.
 */
#ifndef WEIR_FW_FAMILY_SKB_H
#define WEIR_FW_FAMILY_SKB_H

#include <weir/fw/family_frame.h>
#include <weir/fw/forward.h>
#include <weir/fw/modulate.h>
#include <weir/fw/reply_skb.h>
#include <weir/fw/scrub.h>
#include <weir/fw/ttl_skb.h>

/* Whether a packet that leaves is one that has become of the other family where it came in. */
static __always_inline bool weir_family_has_come(const struct weir_fw_packet *p,
						 const struct weir_fw_scratch *scratch)
{
	if (!scratch || !weir_fw_changes_families() || p->flags & WEIR_PACKET_FRAGMENT)
		return false;
	return weir_family_leaves(weir_family_is_error(p) ? &scratch->quoted : p);
}

/* How long a packet is as the kernel's routes see it: of merged segments one. */
static __always_inline __u32 weir_family_sent_bytes(struct __sk_buff *skb,
						    const struct weir_fw_packet *p,
						    const struct weir_fw_packet *other)
{
	if (!(p->flags & WEIR_PACKET_MERGED))
		return other->ip_bytes;
	return weir_fw_ip_header_bytes(other->family) + p->tcp_header_bytes + skb->gso_size;
}

static __always_inline int weir_family_refuse_skb(struct __sk_buff *skb, struct weir_fw_packet *p,
						  struct weir_fw_scratch *scratch, int drop)
{
	weir_fw_count_drop(p, drop);
	weir_family_say(scratch, p, drop);
	return weir_fw_reply_skb(skb, p);
}

__noinline int weir_family_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull,
			       const struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	int drop = weir_family_describe_skb(skb, p, hit);
	__u32 ip_bytes;
	long found;

	if (!scratch || drop) {
		weir_fw_count_drop(p, drop ? drop : WEIR_DROP(INTERNAL));
		return TCX_DROP;
	}
	if (p->ttl <= WEIR_FW_TTL_LAST)
		return weir_family_refuse_skb(skb, p, scratch, WEIR_DROP(TTL));
	ip_bytes = scratch->other.ip_bytes;
	scratch->other.ip_bytes = weir_family_sent_bytes(skb, p, &scratch->other);
	found = weir_family_ask(skb, &scratch->other, scratch, skb->ifindex);
	if (weir_family_is_too_big(&scratch->other, found))
		return weir_family_refuse_skb(skb, p, scratch, WEIR_DROP(TOO_BIG));
	scratch->other.ip_bytes = ip_bytes;
	if (weir_fw_modulate_skb(skb, p) || weir_fw_scrub_skb(skb, p, scratch->scrub[0]))
		drop = WEIR_DROP(MEMORY);
	else
		drop = weir_family_change(skb, true, p, scratch);
	if (drop) {
		weir_fw_count_drop(p, drop);
		return TCX_DROP;
	}
	weir_fw_count(p, p->interface, WEIR_FW_IN, WEIR_FW_PASS);
	return TCX_NEXT;
}

/*
 * Sends a packet that has become IPv4: as the kernel would, which finds out its neighbour, but that
 * it asks nobody whose the source is. What it has no way for it gets as it is.
 */
__noinline int weir_family_send_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct bpf_fib_lookup *f;

	if (!scratch)
		return TCX_DROP;
	f = &scratch->fib;
	__builtin_memset(f, 0, sizeof(*f));
	weir_fw_fib_ask(f, p, skb->ifindex);
	/* It was compared with the MTU before. */
	f->tot_len = 0;
	if (bpf_fib_lookup(skb, f, sizeof(*f), BPF_FIB_LOOKUP_SKIP_NEIGH) !=
	    BPF_FIB_LKUP_RET_SUCCESS)
		return TCX_NEXT;
	/* The kernel takes a link header off. */
	if (!weir_ttl_step(skb, p, false) ||
	    (!p->l3_at && bpf_skb_change_head(skb, sizeof(struct weir_eth), 0))) {
		weir_fw_count_drop(p, WEIR_DROP(MEMORY));
		return TCX_DROP;
	}
	return bpf_redirect_neigh(f->ifindex, 0, 0, 0);
}

#endif /* WEIR_FW_FAMILY_SKB_H */

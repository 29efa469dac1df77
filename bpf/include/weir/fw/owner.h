/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose socket sends a packet of the box, or gets one that is for the box: `user` and `group` of
 * pf.conf(5) (pf_socket_lookup() of pf.c). Only looked up for rulesets that ask for it, and for
 * packets that rules judge. Of what is forwarded neither is known.
 */
#ifndef WEIR_FW_OWNER_H
#define WEIR_FW_OWNER_H

#include <bpf/bpf_core_read.h>
#include <weir/fw/image.h>
#include <weir/fw/routable.h>

/* The kernel's socket behind one of its handles. It may be read, and holds nothing. */
extern void *bpf_rdonly_cast(const void *what, __u32 btf_id) __ksym;

/* Who has made a socket. Its file is gone once the program behind it has let go of it. */
static __always_inline void weir_owner_read(struct weir_fw_packet *p, struct bpf_sock *sk)
{
	struct sock *sock = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	struct socket *socket = sock->sk_socket;
	struct file *file;

	p->user = sock->sk_uid.val;
	if (!socket)
		return;
	file = socket->file;
	if (file)
		p->group = file->f_cred->fsgid.val;
}

/* Ends of a packet, for the kernel: towards an address and port. */
static __always_inline __u32 weir_fw_socket_ends(struct bpf_sock_tuple *tuple,
						 const struct weir_fw_packet *p, const __be32 *to,
						 __be16 port)
{
	__builtin_memset(tuple, 0, sizeof(*tuple));
	if (p->family == WEIR_FW_INET) {
		tuple->ipv4.saddr = p->src[0];
		tuple->ipv4.daddr = to[0];
		tuple->ipv4.sport = p->src_port;
		tuple->ipv4.dport = port;
		return sizeof(tuple->ipv4);
	}
	weir_copy_address(tuple->ipv6.saddr, p->src);
	weir_copy_address(tuple->ipv6.daddr, to);
	tuple->ipv6.sport = p->src_port;
	tuple->ipv6.dport = port;
	return sizeof(tuple->ipv6);
}

/* The socket that gets a packet which is for the box. */
static __always_inline void weir_owner_find(void *ctx, struct weir_fw_packet *p)
{
	struct bpf_sock_tuple tuple;
	__u32 bytes = weir_fw_socket_ends(&tuple, p, p->dst, p->dst_port);
	struct bpf_sock *sk;

	if (p->protocol == WEIR_PROTOCOL_TCP)
		sk = bpf_sk_lookup_tcp(ctx, &tuple, bytes, BPF_F_CURRENT_NETNS, 0);
	else
		sk = bpf_sk_lookup_udp(ctx, &tuple, bytes, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return;
	weir_owner_read(p, sk);
	bpf_sk_release(sk);
}

/* Whether rules of the packet's ruleset ask for that. */
static __always_inline bool weir_fw_asks_owner(const struct weir_fw_packet *p)
{
	return weir_fw_image_of(p)->flags & WEIR_FW_IMAGE_OWNERS;
}

/* Nothing is known so far; whether something may be. */
static __always_inline bool weir_owner_begin(struct weir_fw_packet *p)
{
	p->user = WEIR_FW_OWNER_UNKNOWN;
	p->group = WEIR_FW_OWNER_UNKNOWN;
	return weir_fw_has_socket(p) && !(p->flags & WEIR_PACKET_LATER_FRAGMENT);
}

/* What comes in for the box: no route leads there. */
static __always_inline void weir_owner_of_incoming(void *ctx, struct weir_fw_packet *p,
						   __u32 ifindex)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();

	if (scratch && weir_fw_has_no_route(ctx, scratch, p, true, ifindex))
		weir_owner_find(ctx, p);
}

__noinline int weir_owner_ingress(struct xdp_md *ctx, struct weir_fw_packet *p __arg_nonnull)
{
	if (weir_owner_begin(p) && p->direction == WEIR_FW_IN)
		weir_owner_of_incoming(ctx, p, ctx->ingress_ifindex);
	return 0;
}

__noinline int weir_owner_skb(struct __sk_buff *skb, struct weir_fw_packet *p __arg_nonnull)
{
	struct bpf_sock *sk;

	if (!weir_owner_begin(p))
		return 0;
	if (p->direction == WEIR_FW_IN) {
		weir_owner_of_incoming(skb, p, skb->ifindex);
		return 0;
	}
	if (!(p->flags & WEIR_PACKET_LOCAL))
		return 0;
	sk = skb->sk;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		weir_owner_read(p, sk);
	return 0;
}

#endif /* WEIR_FW_OWNER_H */

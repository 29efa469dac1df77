/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fragments: the first one of a packet is judged as if it were the whole, and the later ones follow
 * it as long as `set timeout frag` and `set limit frags` say, as if the packet had been put
 * together. What overlaps, goes beyond the end, or comes in more pieces out of order than are
 * remembered, is dropped. A later one whose first is not known is judged by rules without ports,
 * and dropped where one of them translates. One whose first was translated is translated by the
 * same state, or dropped.
 */
#ifndef WEIR_FW_FRAGMENT_H
#define WEIR_FW_FRAGMENT_H

#include <weir/fw/counters.h>
#include <weir/fw/parse.h>
#include <weir/fw/scratch.h>

/* Pieces that do not join the one before them. */
#define WEIR_FW_PIECE_COUNT_MAX 16

struct weir_fw_fragment_key {
	__be32 src[4];
	__be32 dst[4];
	__u32 id;
	__u8 protocol;
	__u8 family;
	__u8 hook;		/* what the kernel forwards is seen at two */
	__u8 unused;
};

struct weir_fw_piece {
	__u16 first;
	__u16 end;
};

struct weir_fw_fragments {
	struct bpf_spin_lock lock;
	__u32 expires_tick;
	__u32 total_bytes;	/* of the whole, once its last piece has come; 0: not yet */
	__u32 seen_bytes;
	__be16 src_port;
	__be16 dst_port;
	__u8 piece_count;
	__u8 is_translated;	/* the first one left with other ends */
	__u8 to_kernel;		/* the first one was left to it */
	__u8 protocol;		/* behind all headers of the first one */
	__u32 gateway;		/* where the first one went; 0: as the routes say */
	/*
	 * Whose it is. An entry that goes may be another packet's at once, while another CPU still
	 * holds it: who has the lock asks whether it is the one that was looked up.
	 */
	struct weir_fw_fragment_key key;
	__u32 is_over;		/* it is about to be deleted */
	struct weir_fw_piece pieces[WEIR_FW_PIECE_COUNT_MAX];
};

_Static_assert(sizeof(struct weir_fw_fragments) <= WEIR_FW_SCRATCH_FRAGMENTS_BYTES,
	       "there is room beside the stack");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set when it is loaded */
	__type(key, struct weir_fw_fragment_key);
	__type(value, struct weir_fw_fragments);
} weir_fragments SEC(".maps");

/* When expired packets were last looked for: once in a tick is enough. */
static __u32 weir_fw_fragments_purged_tick;

/* What weir_fw_fragment_follow() returns; anything else is the reason of a drop + 1. */
enum {
	WEIR_FRAGMENT_UNKNOWN = 0,	/* the rules decide */
	WEIR_FRAGMENT_FOLLOWS = -1,	/* as its first one: forwarded */
	WEIR_FRAGMENT_KERNEL = -2,	/* as its first one: left to the kernel */
};

static __always_inline void weir_fw_fragment_key(struct weir_fw_fragment_key *key,
						 const struct weir_fw_packet *p)
{
	__builtin_memcpy(key->src, p->src, sizeof(key->src));
	__builtin_memcpy(key->dst, p->dst, sizeof(key->dst));
	key->id = p->fragment_id;
	/*
	 * Of IPv6 it is 0, and no part of what names a packet (RFC 8200, section 4.5): a first
	 * fragment may have extension headers behind that of fragments, and then its protocol is
	 * another one than that of the later ones.
	 */
	key->protocol = p->ip_protocol;
	key->family = p->family;
	key->hook = p->flags & WEIR_PACKET_SKB ? 1 + p->direction : 0;
	key->unused = 0;
}

/* Enters a piece; false if it does not fit those that have come. */
static __always_inline bool weir_fw_fragment_enter(struct weir_fw_fragments *fragments,
						   const struct weir_fw_packet *p)
{
	__u32 first = p->fragment_at, end = first + weir_fw_fragment_bytes(p), i, count;
	bool is_last = !(p->flags & WEIR_PACKET_MORE_FRAGMENTS), joined = false;

	if (fragments->total_bytes && (is_last || end > fragments->total_bytes))
		return false;
	count = fragments->piece_count;
	for (i = 0; i < WEIR_FW_PIECE_COUNT_MAX; i++) {
		struct weir_fw_piece *piece = &fragments->pieces[i];

		if (i >= count)
			break;
		if ((first < piece->end && piece->first < end) || (is_last && piece->end > end))
			return false;
	}
	for (i = 0; i < WEIR_FW_PIECE_COUNT_MAX && !joined; i++) {
		struct weir_fw_piece *piece = &fragments->pieces[i];

		if (i < count && piece->end == first) {
			piece->end = end;
			joined = true;
		} else if (i == count) {
			piece->first = first;
			piece->end = end;
			fragments->piece_count = count + 1;
			joined = true;
		}
	}
	if (!joined)
		return false;
	fragments->seen_bytes += end - first;
	if (is_last)
		fragments->total_bytes = end;
	return true;
}

/* What weir_fw_fragment_join() returns; 0: the entry is another packet's, or about to go. */
enum {
	WEIR_JOIN_KNOWN = 1 << 0,	/* the entry is the packet's */
	WEIR_JOIN_FITS = 1 << 1,	/* and so is the piece */
	WEIR_JOIN_KERNEL = 1 << 2,	/* the first one was left to the kernel */
	WEIR_JOIN_OVER = 1 << 3,	/* the entry has to go: it is complete, or too old */
	WEIR_JOIN_TRANSLATED = 1 << 4,	/* the first one was translated */
};

static __always_inline bool weir_fw_fragment_is_of(const struct weir_fw_fragments *fragments,
						   const struct weir_fw_fragment_key *key)
{
	const __u32 *a = (const __u32 *)&fragments->key, *b = (const __u32 *)key;
	__u32 differ = fragments->is_over, i;

#pragma unroll
	for (i = 0; i < sizeof(*key) / sizeof(__u32); i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

/* Enters a fragment into the entry that was found for it, and gives it what its first one has. */
static __always_inline __u32 weir_fw_fragment_join(struct weir_fw_fragments *fragments,
						   const struct weir_fw_fragment_key *key,
						   struct weir_fw_packet *p)
{
	__u32 joined = 0;

	bpf_spin_lock(&fragments->lock);
	if (!weir_fw_fragment_is_of(fragments, key)) {
		joined = 0;
	} else if ((__s32)(fragments->expires_tick - p->tick) <= 0) {
		joined = WEIR_JOIN_OVER;
	} else {
		joined = WEIR_JOIN_KNOWN;
		if (weir_fw_fragment_enter(fragments, p))
			joined |= WEIR_JOIN_FITS;
		if (fragments->total_bytes && fragments->seen_bytes == fragments->total_bytes)
			joined |= WEIR_JOIN_OVER;
		if (fragments->to_kernel)
			joined |= WEIR_JOIN_KERNEL;
		if (fragments->is_translated)
			joined |= WEIR_JOIN_TRANSLATED;
		p->src_port = fragments->src_port;
		p->dst_port = fragments->dst_port;
		p->protocol = fragments->protocol;
		p->gateway = fragments->gateway;
	}
	if (joined & WEIR_JOIN_OVER)
		fragments->is_over = 1;
	bpf_spin_unlock(&fragments->lock);
	return joined;
}

/*
 * Looks a fragment up, also a first one, of which a second copy overlaps. One that follows has the
 * protocol and the ports of its first.
 */
__noinline int weir_fw_fragment_follow(struct weir_fw_packet *p __arg_nonnull)
{
	struct weir_fw_fragment_key key;
	struct weir_fw_fragments *fragments;
	__u32 joined = 0;

	weir_fw_fragment_key(&key, p);
	fragments = bpf_map_lookup_elem(&weir_fragments, &key);
	if (fragments)
		joined = weir_fw_fragment_join(fragments, &key, p);
	if (joined & WEIR_JOIN_OVER)
		bpf_map_delete_elem(&weir_fragments, &key);
	if (!(joined & WEIR_JOIN_KNOWN)) {
		if (p->flags & WEIR_PACKET_LATER_FRAGMENT)
			p->flags |= WEIR_PACKET_UNTRACKED;
		return WEIR_FRAGMENT_UNKNOWN;
	}
	if (!(joined & WEIR_JOIN_FITS))
		return WEIR_DROP(FRAGMENT);
	p->flags |= WEIR_PACKET_FOLLOWS;
	if (joined & WEIR_JOIN_TRANSLATED)
		p->flags |= WEIR_PACKET_FOLLOWS_TRANSLATED;
	return joined & WEIR_JOIN_KERNEL ? WEIR_FRAGMENT_KERNEL : WEIR_FRAGMENT_FOLLOWS;
}

static long weir_fw_fragment_purge_one(void *map, struct weir_fw_fragment_key *key,
				       struct weir_fw_fragments *fragments, __u32 *tick)
{
	bool is_over;

	bpf_spin_lock(&fragments->lock);
	is_over = (__s32)(fragments->expires_tick - *tick) <= 0;
	if (is_over)
		fragments->is_over = 1;
	bpf_spin_unlock(&fragments->lock);
	if (is_over)
		bpf_map_delete_elem(map, key);
	return 0;
}

/* Remembers a packet whose first fragment has passed. 0, or the reason of a drop + 1. */
__noinline int weir_fw_fragment_open(const struct weir_fw_packet *p __arg_nonnull, __u32 to_kernel)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_fragments *fragments;
	struct weir_fw_fragment_key key;
	__u32 tick = p->tick;

	if (!scratch)
		return WEIR_DROP(MEMORY);
	fragments = (struct weir_fw_fragments *)scratch->fragments;
	__builtin_memset(fragments, 0, sizeof(*fragments));
	weir_fw_fragment_key(&key, p);
	fragments->key = key;
	fragments->expires_tick = tick + weir_fw_timeout_ticks(p->ruleset, 0, WEIR_FW_TIMEOUT_FRAG);
	fragments->src_port = p->src_port;
	fragments->dst_port = p->dst_port;
	fragments->to_kernel = !!to_kernel;
	fragments->is_translated = !!(p->flags & WEIR_PACKET_TRANSLATED);
	fragments->protocol = p->protocol;
	fragments->gateway = p->gateway;
	weir_fw_fragment_enter(fragments, p);
	if (!bpf_map_update_elem(&weir_fragments, &key, fragments, BPF_ANY))
		return 0;
	if (weir_fw_fragments_purged_tick == tick)
		return WEIR_DROP(MEMORY);
	weir_fw_fragments_purged_tick = tick;
	bpf_for_each_map_elem(&weir_fragments, weir_fw_fragment_purge_one, &tick, 0);
	if (bpf_map_update_elem(&weir_fragments, &key, fragments, BPF_ANY))
		return WEIR_DROP(MEMORY);
	return 0;
}

/*
 * Whether a later fragment would leave with the ends that it came with, unlike its first one: the
 * state that says which others is gone.
 */
static __always_inline bool weir_fw_fragment_is_lost(const struct weir_fw_packet *p)
{
	const __u32 both = WEIR_PACKET_FOLLOWS_TRANSLATED | WEIR_PACKET_TRANSLATED;

	return (p->flags & both) == WEIR_PACKET_FOLLOWS_TRANSLATED;
}

/* A first fragment, whose packet is not known yet. */
static __always_inline bool weir_fw_is_first_fragment(const struct weir_fw_packet *p)
{
	return (p->flags & (WEIR_PACKET_FRAGMENT | WEIR_PACKET_LATER_FRAGMENT)) ==
	       WEIR_PACKET_FRAGMENT;
}

#endif /* WEIR_FW_FRAGMENT_H */

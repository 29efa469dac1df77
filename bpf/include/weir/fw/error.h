/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors (RFC 792, RFC 4443) about a flow: they pass with its record if the packet that they
 * quote can have been sent. They keep nothing alive, and change no window.
 */
#ifndef WEIR_FW_ERROR_H
#define WEIR_FW_ERROR_H

#include <weir/fw/lookup.h>

/* Whether the end `from` can have sent a TCP packet that begins at a sequence number. */
static __always_inline bool weir_error_in_window(weir_line *s, __u32 from, __u32 seq)
{
	struct weir_tcp_peer source = weir_tcp_peer_of(s, from);
	struct weir_tcp_peer other = weir_tcp_peer_of(s, !from);
	__u32 scale = 0;

	if (WEIR_TCP_WSCALE(&source) & WEIR_WSCALE_FLAG &&
	    WEIR_TCP_WSCALE(&other) & WEIR_WSCALE_FLAG)
		scale = WEIR_TCP_WSCALE(&other) & WEIR_WSCALE_MASK;
	return WEIR_SEQ_GEQ(WEIR_TCP_HI(&source), seq) &&
	       WEIR_SEQ_GEQ(seq, WEIR_TCP_LO(&source) - (WEIR_TCP_WIN(&other) << scale));
}

/* Turns a description of a packet round: of one that goes against it. */
static __always_inline void weir_error_turn(struct weir_fw_packet *quoted)
{
	__be16 port = quoted->src_port;
	__u32 i;

	for (i = 0; i < 4; i++) {
		__be32 word = quoted->src[i];

		quoted->src[i] = quoted->dst[i];
		quoted->dst[i] = word;
	}
	quoted->src_port = quoted->dst_port;
	quoted->dst_port = port;
}

/* The record of the ends of `along`, which go where the error goes. `alias` as in lookup.h. */
__noinline int weir_error_find(const struct weir_fw_packet *p __arg_nonnull,
			       const struct weir_fw_packet *along __arg_nonnull,
			       struct weir_fw_hit *hit __arg_nonnull, __u32 alias)
{
	__u32 home, slot, from, control, reverse, seq = along->seq;
	int result = WEIR_STATE_HIT;
	weir_line *line, *s;
	__u64 found;

	home = weir_state_bucket(along->hash);
	if (!(weir_read_once(weir_state_line(home)->control) & WEIR_STATE_LIVE) &&
	    weir_state_is_at(home, along->hash))
		return WEIR_STATE_MISS;
	home = weir_state_lock_bucket(along->hash, p->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	line = weir_state_line(home);
	control = line->control;
	found = control & WEIR_STATE_LIVE ? weir_bucket_find(along, home, false) :
					    WEIR_FOUND_NONE;
	reverse = found & WEIR_FOUND_REVERSE ? 1 : 0;
	s = weir_state_line((__u32)found);
	if (found >= WEIR_FOUND_NONE || weir_alias_is_other(s, p, reverse, alias)) {
		weir_state_unlock(home, control);
		return WEIR_STATE_MISS;
	}
	slot = (__u32)found;
	/* The end that sent the quoted packet, and that the error travels towards. */
	from = !reverse;
	weir_bucket_report(s, slot, s->control, reverse, p, hit);
	if (weir_state_is_tracked_here(p, hit)) {
		hit->flags |= WEIR_HIT_TRACKED;
		if (weir_state_is_modulated(s))
			seq = weir_modulate_error(along, slot, from);
		if (along->protocol == WEIR_PROTOCOL_TCP && !(s->control & WEIR_STATE_SLOPPY) &&
		    !weir_error_in_window(s, from, seq))
			result = weir_state_drop(hit, WEIR_FW_REASON_STATE_MISMATCH);
		else
			weir_bucket_count(s, slot, reverse, p->ip_bytes);
	}
	weir_state_unlock(home, line->control);
	return result;
}

/* The record of the other family that an alias, hit->numbers[0], leads to: family.h. */
__noinline int weir_family_error(const struct weir_fw_packet *p __arg_nonnull,
				 const struct weir_fw_packet *along __arg_nonnull,
				 struct weir_fw_hit *hit __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	__u32 alias = hit->numbers[0];

	weir_hit_clear(hit);
	if (!scratch)
		return WEIR_STATE_MISS;
	weir_family_inside(&scratch->other, along, alias);
	return weir_family_found(along, hit, alias,
				 weir_error_find(p, &scratch->other, hit, alias));
}

__noinline int weir_state_error(struct weir_fw_packet *p __arg_nonnull,
				struct weir_fw_packet *quoted __arg_nonnull,
				struct weir_fw_hit *hit __arg_nonnull)
{
	__be16 came_port;
	__u64 came_hash;
	__be32 came[4];
	__u32 alias;
	int result;

	weir_error_turn(quoted);
	quoted->hash = weir_fw_hash(quoted);
	weir_fw_table_counters(p->cpu)->searches++;
	result = weir_error_find(p, quoted, hit, 0);
	if (result != WEIR_STATE_MISS || !weir_alias_is_asked(p))
		return result;
	weir_copy_address(came, quoted->dst);
	came_port = quoted->dst_port;
	came_hash = quoted->hash;
	alias = weir_alias_enter(quoted);
	if (!alias)
		return WEIR_STATE_MISS;
	if (alias == WEIR_ALIAS_CONTENDED)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	if (alias & WEIR_ALIAS_ELSEWHERE) {
		hit->numbers[0] = alias & ~WEIR_ALIAS_ELSEWHERE;
		return WEIR_STATE_ELSEWHERE;
	}
	result = weir_error_find(p, quoted, hit, alias);
	if (result == WEIR_STATE_HIT && hit->covered[WEIR_FW_IN] &&
	    weir_alias_leads(alias, !hit->reverse, came[0], came_port, came_hash)) {
		weir_copy_address(p->dst, quoted->dst);
		p->flags |= WEIR_PACKET_TRANSLATED;
		return WEIR_STATE_HIT;
	}
	weir_copy_address(quoted->dst, came);
	quoted->dst_port = came_port;
	quoted->hash = came_hash;
	if (result == WEIR_STATE_HIT)
		weir_hit_clear(hit);
	return result == WEIR_STATE_HIT ? WEIR_STATE_MISS : result;
}

#endif /* WEIR_FW_ERROR_H */

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

__noinline int weir_state_error(const struct weir_fw_packet *p __arg_nonnull,
				struct weir_fw_packet *quoted __arg_nonnull,
				struct weir_fw_hit *hit __arg_nonnull)
{
	__u32 home, slot, from, control, reverse;
	int result = WEIR_STATE_HIT;
	weir_line *line, *s;
	__u64 found;

	quoted->hash = weir_fw_hash(quoted);
	home = weir_state_bucket(quoted->hash);
	weir_fw_table_counters(p->cpu)->searches++;
	if (!(weir_read_once(weir_state_line(home)->control) & WEIR_STATE_LIVE) &&
	    weir_state_is_at(home, quoted->hash))
		return WEIR_STATE_MISS;
	home = weir_state_lock_bucket(quoted->hash, p->cpu);
	if (home == WEIR_STATE_BUCKET_NONE)
		return weir_state_drop(hit, WEIR_FW_REASON_CONGESTION);
	line = weir_state_line(home);
	control = line->control;
	found = control & WEIR_STATE_LIVE ? weir_bucket_find(quoted, home) : WEIR_FOUND_NONE;
	if (found >= WEIR_FOUND_NONE) {
		weir_state_unlock(home, control);
		return WEIR_STATE_MISS;
	}
	slot = (__u32)found;
	s = weir_state_line(slot);
	/* The end that sent the quoted packet; the error travels towards it. */
	from = found & WEIR_FOUND_REVERSE ? 1 : 0;
	reverse = !from;
	weir_bucket_report(s, slot, s->control, reverse, p, hit);
	if (weir_state_is_tracked_here(p, hit)) {
		hit->flags |= WEIR_HIT_TRACKED;
		if (quoted->protocol == WEIR_PROTOCOL_TCP && !(s->control & WEIR_STATE_SLOPPY) &&
		    !weir_error_in_window(s, from, quoted->seq))
			result = weir_state_drop(hit, WEIR_FW_REASON_STATE_MISMATCH);
		else
			weir_bucket_count(s, slot, reverse, p->ip_bytes);
	}
	weir_state_unlock(home, line->control);
	return result;
}

#endif /* WEIR_FW_ERROR_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What another firewall says of a record that is here: again, or because it has taken it over
 * (weir_import_take()). Phases go on, and never back; a half that has come is added, counts grow.
 * Sequence windows are those of the handshake until both ends are established. From then on they
 * are not sent any more, but learned from the first packet of either end that comes here
 * (weir_tcp_learn()): once, so what follows has to fit.
 */
#ifndef WEIR_FW_UPDATE_H
#define WEIR_FW_UPDATE_H

#include <weir/fw/account.h>
#include <weir/fw/dirty.h>
#include <weir/fw/insert.h>
#include <weir/fw/lookup.h>
#include <weir/fw/request.h>
#include <weir/fw/rewire.h>

/* Notes that another firewall has sent a record, and when. */
static __always_inline void weir_update_sender(const struct weir_fw_sweep *r, weir_line *s)
{
	s->interface[0] = (s->interface[0] & WEIR_STATE_INTERFACE_MASK) | WEIR_STATE_IMPORTED;
	weir_import_date(s, r->flags & WEIR_SWEEP_ODD);
}

/* Whether both ends of a connection are established, or were. */
static __always_inline bool weir_update_is_open(__u8 one, __u8 two)
{
	return one >= WEIR_TCPS_ESTABLISHED && two >= WEIR_TCPS_ESTABLISHED;
}

/*
 * Nothing is known of its windows, nor how far they were opened since the handshake: as far as
 * either end can, until the connection has moved on by as much. While paths change, packets of one
 * end alone may come here.
 */
static __always_inline void weir_update_relearn(weir_line *s)
{
	__u32 i;

	for (i = 0; i < 2; i++) {
		s->seq[i].lo = 0;
		s->seq[i].hi = 1;
		s->max_win[i] = 0xffff;
	}
}

/* A half of a record, which is new, or may be at another interface. Returns its control word. */
static __always_inline __u32 weir_update_half(const struct weir_fw_sweep *r,
					      const struct weir_fw_packet *p, weir_line *s,
					      __u32 slot, __u32 control, __u32 half,
					      struct weir_rewire *w)
{
	__u32 flag = half ? WEIR_STATE_HALF_B : WEIR_STATE_HALF_A, at;
	__u32 bound = half ? WEIR_STATE_IF_BOUND_B : WEIR_STATE_IF_BOUND_A;
	__u32 rule = r->half[half] & WEIR_FW_RULE_NONE;
	bool is_there;

	if (!(r->control & flag))
		return control;
	is_there = control & flag;
	/* Somebody else has what it has on the wire: it comes later, or never. */
	if (!is_there && r->translated[half] && !w->alias[half])
		return control;
	control = (control & ~bound) | flag | (r->control & bound);
	s->interface[half] = (s->interface[half] & WEIR_STATE_IMPORTED_MASK) |
			     (r->interface[half] & WEIR_STATE_INTERFACE_MASK);
	if (is_there)
		return control;
	weir_half_give(s, slot, control, half, r->half[half]);
	at = weir_fw_counters_of(p->ruleset, rule, 0);
	if (at && weir_half_rule(s, slot, !half) != rule)
		__sync_fetch_and_add(&weir_at(struct weir_fw_rule_counters, at)->states_live, 1);
	weir_limited_restore(p->ruleset, rule, weir_half_rule(s, slot, !half));
	return weir_rewire_attach(s, control, half, w);
}

/* TCP, but for its phases. `is_known`: the other firewall has sent it as an open one before. */
__noinline int weir_update_tcp(const struct weir_fw_sweep *r __arg_nonnull, __u32 slot,
			       __u32 is_known)
{
	weir_line *s = weir_state_line(slot);
	const __u8 scale = WEIR_WSCALE_MASK | WEIR_WSCALE_FLAG;
	__u32 i;

	if (is_known)
		return 0;
	for (i = 0; i < 2; i++) {
		if (r->max_win[i] > s->max_win[i])
			s->max_win[i] = r->max_win[i];
		s->wscale[i] = (s->wscale[i] & ~scale) | (r->wscale[i] & scale);
		if (!s->seq[i].lo || WEIR_SEQ_GT(r->seq[i][0], s->seq[i].lo)) {
			s->seq[i].lo = r->seq[i][0];
			s->seq[i].hi = r->seq[i][1];
		}
	}
	if (weir_update_is_open(r->phase[0], r->phase[1]) && !(s->control & WEIR_STATE_SLOPPY))
		weir_update_relearn(s);
	if (r->wscale[0] & WEIR_WSCALE_CONNECTED && !(s->wscale[0] & WEIR_WSCALE_CONNECTED))
		weir_tcp_connected(s);
	return 0;
}

/* What both firewalls have counted is what the one has that has counted more. */
__noinline int weir_update_counts(const struct weir_fw_sweep *r __arg_nonnull, __u32 slot)
{
	const __u64 packets = (1ull << WEIR_ACCOUNT_RULE_SHIFT) - 1;
	const __u64 bytes = (1ull << WEIR_ACCOUNT_SCRUB_SHIFT) - 1;
	struct weir_account __weir_arena *account = weir_account_at(slot);
	weir_line *s = weir_state_line(slot);
	__u32 end;

	for (end = 0; end < 2; end++)
		weir_bucket_carry(slot, end);
	for (end = 0; end < 2; end++) {
		if (r->packets[end] <= packets &&
		    r->packets[end] > (account->packets_rule[end] & packets))
			account->packets_rule[end] =
				(account->packets_rule[end] & ~packets) | r->packets[end];
		if (r->bytes[end] <= bytes && r->bytes[end] > (account->bytes_created[end] & bytes))
			account->bytes_created[end] =
				(account->bytes_created[end] & ~bytes) | r->bytes[end];
	}
	if ((__s32)(r->last_tick - s->last_tick) > 0)
		s->last_tick = r->last_tick;
	return 0;
}

/* Whether a record is of a connection that is over, and another one has begun. */
static __always_inline bool weir_update_is_another(const struct weir_fw_sweep *r,
						   const struct weir_fw_packet *p, __u32 slot)
{
	weir_line *s = weir_state_line(slot);

	return p->protocol == WEIR_PROTOCOL_TCP && s->phase[0] >= WEIR_TCPS_FIN_WAIT_2 &&
	       s->phase[1] >= WEIR_TCPS_FIN_WAIT_2 &&
	       (r->phase[0] < WEIR_TCPS_FIN_WAIT_2 || r->phase[1] < WEIR_TCPS_FIN_WAIT_2);
}

/* A gateway that the other firewall's rules have chosen, if those here have chosen none. */
static __always_inline void weir_update_gateway(const struct weir_fw_sweep *r, weir_line *s,
						__u32 i, bool is_theirs)
{
	__u32 gateway = s->next_hop[i] >> WEIR_STATE_GATEWAY_SHIFT;

	if (r->gateway[i] && r->gateway[i] != gateway && (is_theirs || !gateway))
		weir_bucket_give_gateway(s, i, r->gateway[i]);
}

/* Brings a record in a locked bucket up to date. */
__noinline int weir_update(const struct weir_fw_sweep *r __arg_nonnull,
			   const struct weir_fw_packet *p __arg_nonnull, __u32 slot,
			   struct weir_rewire *w __arg_nonnull)
{
	bool is_tcp = p->protocol == WEIR_PROTOCOL_TCP, is_theirs;
	weir_line *s = weir_state_line(slot);
	__u32 control = s->control, i;
	bool is_known;

	is_theirs = weir_is_imported(s);
	is_known = is_theirs && weir_update_is_open(s->phase[0], s->phase[1]);
	control = weir_update_half(r, p, s, slot, control, 0, w);
	control = weir_update_half(r, p, s, slot, control, 1, w);
	control |= r->control & WEIR_STATE_WATCHED;
	if (!(r->control & WEIR_STATE_FIRST))
		control &= ~WEIR_STATE_FIRST;
	weir_write_once(s->control, control);
	weir_update_sender(r, s);
	if (is_tcp)
		weir_update_tcp(r, slot, is_known);
	for (i = 0; i < 2; i++) {
		if (r->phase[i] > s->phase[i])
			s->phase[i] = r->phase[i];
		weir_update_gateway(r, s, i, is_theirs);
	}
	weir_update_counts(r, slot);
	return WEIR_RESTORED_UPDATED;
}

#endif /* WEIR_FW_UPDATE_H */

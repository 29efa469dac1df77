/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a state lives without a packet: pf's timeouts (pf.conf(5), `set timeout`), with pf's
 * adaptive scaling.
 */
#ifndef WEIR_FW_TIMEOUT_H
#define WEIR_FW_TIMEOUT_H

#include <weir/fw/counters.h>
#include <weir/fw/headers.h>
#include <weir/fw/image.h>
#include <weir/fw/layout.h>

/* Phases of TCP: BSD's numbers (tcp_fsm.h), which pfctl prints the names of. */
enum weir_tcp_phase {
	WEIR_TCPS_CLOSED = 0,
	WEIR_TCPS_LISTEN = 1,
	WEIR_TCPS_SYN_SENT = 2,
	WEIR_TCPS_SYN_RECEIVED = 3,
	WEIR_TCPS_ESTABLISHED = 4,
	WEIR_TCPS_CLOSE_WAIT = 5,
	WEIR_TCPS_FIN_WAIT_1 = 6,
	WEIR_TCPS_CLOSING = 7,
	WEIR_TCPS_LAST_ACK = 8,
	WEIR_TCPS_FIN_WAIT_2 = 9,
	WEIR_TCPS_TIME_WAIT = 10,
};

static __always_inline __u32 weir_timeout_tcp(__u32 control, __u32 one, __u32 two)
{
	__u32 least = one < two ? one : two, most = one < two ? two : one;

	if (control & WEIR_STATE_FIRST)
		return WEIR_FW_TIMEOUT_TCP_FIRST;
	if (least >= WEIR_TCPS_FIN_WAIT_2)
		return WEIR_FW_TIMEOUT_TCP_CLOSED;
	if (least >= WEIR_TCPS_CLOSING)
		return WEIR_FW_TIMEOUT_TCP_FINWAIT;
	if (least < WEIR_TCPS_ESTABLISHED)
		return WEIR_FW_TIMEOUT_TCP_OPENING;
	if (most >= WEIR_TCPS_CLOSING)
		return WEIR_FW_TIMEOUT_TCP_CLOSING;
	return WEIR_FW_TIMEOUT_TCP_ESTABLISHED;
}

/* The timeout that a record is under. */
static __always_inline __u32 weir_timeout_class(__u32 control, __u32 one, __u32 two)
{
	__u32 protocol = control >> WEIR_STATE_PROTOCOL_SHIFT & 0xff;
	__u32 class;

	if (protocol == WEIR_PROTOCOL_TCP)
		return weir_timeout_tcp(control, one, two);
	if (weir_is_icmp(protocol))
		return control & WEIR_STATE_FIRST ? WEIR_FW_TIMEOUT_ICMP_FIRST :
						    WEIR_FW_TIMEOUT_ICMP_ERROR;
	class = protocol == WEIR_PROTOCOL_UDP ? WEIR_FW_TIMEOUT_UDP_FIRST :
						WEIR_FW_TIMEOUT_OTHER_FIRST;
	if (control & WEIR_STATE_FIRST)
		return class;
	return one == WEIR_PHASE_MULTIPLE && two == WEIR_PHASE_MULTIPLE ? class + 2 : class + 1;
}

/* Connections that nobody has answered, or completed, yet. */
static __always_inline bool weir_timeout_is_half_open(__u32 class)
{
	return class == WEIR_FW_TIMEOUT_TCP_FIRST || class == WEIR_FW_TIMEOUT_TCP_OPENING ||
	       class == WEIR_FW_TIMEOUT_UDP_FIRST || class == WEIR_FW_TIMEOUT_ICMP_FIRST ||
	       class == WEIR_FW_TIMEOUT_OTHER_FIRST;
}

/*
 * pf's adaptive scaling by (end - n) / (end - start), where n is the number of states; none at all
 * if the end is not above the start (pf_state_expires() of pf.c). What is half open is scaled
 * twice, so that it goes before connections do.
 */
static __always_inline __u32 weir_timeout_scale(__u32 ruleset, __u32 ticks, __u32 class,
						__u64 state_count)
{
	struct weir_fw_image __weir_arena *image = weir_at(struct weir_fw_image, ruleset);
	__u32 start = image->adaptive_start, end = image->adaptive_end;
	__u64 scaled = ticks;

	if (!end || state_count <= start || start >= end)
		return ticks;
	if (state_count >= end)
		return 0;
	scaled = scaled * (end - (__u32)state_count) / (end - start);
	if (weir_timeout_is_half_open(class))
		scaled = scaled * (end - (__u32)state_count) / (end - start);
	return (__u32)scaled;
}

/* Whether a record's time is over, by a ruleset. */
static __always_inline bool weir_state_expired(struct weir_state __weir_arena *s, __u32 control,
					       __u32 ruleset, __u32 now,
					       __u64 state_count)
{
	__u32 class = weir_timeout_class(control, s->phase[0], s->phase[1]);
	__u32 profile = control >> WEIR_STATE_PROFILE_SHIFT;
	__s32 idle = (__s32)(now - s->last_tick);
	__u32 ticks;

	if (idle < 0)
		return false;
	ticks = weir_fw_timeout_ticks(ruleset, profile, class);
	return (__u32)idle >= weir_timeout_scale(ruleset, ticks, class, state_count);
}

#endif /* WEIR_FW_TIMEOUT_H */

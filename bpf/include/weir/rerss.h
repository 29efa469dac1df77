/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What hands packets to CPUs by their innermost flow, and the control process tell each other. It
 * reads and writes words: every field has 64 bits.
 */
#ifndef WEIR_RERSS_H
#define WEIR_RERSS_H

#include <weir/inner.h>
#include <weir/vmlinux.h>

enum weir_rerss_constant {
	/* In the place of a bucket's CPU: that on which its packets come in. */
	WEIR_RERSS_LOCAL = 0xffff,
	/* Of settings: those that are in effect, and those that are to be. */
	WEIR_RERSS_SLOT_COUNT = 2,
};

/* weir_rerss_control.state; without WEIR_RERSS_ON, packets are only counted. */
enum weir_rerss_state {
	WEIR_RERSS_SLOT = 1 << 0,	/* the settings in effect: 0 or 1 */
	WEIR_RERSS_ON = 1 << 1,
	/*
	 * What the other settings give to another CPU is dropped, so that nothing of it is under
	 * way any more when it goes to its new one.
	 */
	WEIR_RERSS_DRAINS = 1 << 2,
};

struct weir_rerss_control {
	__u64 state;		/* enum weir_rerss_state; written as one word */
	__u64 timeout_ns;	/* how long later fragments may follow their first one */
	__u64 map_id;		/* of the queues, by which the kernel's tracepoints name them */
};

/* Of one CPU that receives. */
struct weir_rerss_counters {
	__u64 received_packets;	/* all, also while it is off */
	__u64 passed_packets;	/* while it was off: they stay on their CPU */
	__u64 local_packets;	/* whose bucket is this CPU's */
	__u64 unhashed_packets;	/* without an IP header: they stay, too */
	__u64 drained_packets;	/* dropped while buckets change their CPU */
	__u64 unplaced_packets;	/* for a CPU that has no queue: they stay */
	__u64 first_packets;	/* first fragments */
	__u64 followed_packets;	/* later fragments with the hash of their first one */
	__u64 early_packets;	/* later fragments whose first one is not known */
	__u64 end_packets[WEIR_INNER_END_COUNT]; /* by enum weir_inner_end */
};

/* Of the queue to a CPU, as one CPU sees it. */
struct weir_rerss_queue {
	__u64 sent_packets;	/* handed to it */
	__u64 queued_packets;	/* of those: they are in it, or were */
	__u64 dropped_packets;	/* of those: there was no room in it */
	__u64 taken_packets;	/* of the queued ones: the CPU took them */
	__u64 failed_packets;	/* of those: there was no memory for them */
};

/* What was found in one packet, where only that is asked. */
struct weir_rerss_seen {
	__u64 hashed;		/* enum weir_inner_hashed */
	__u64 hash;
	__u64 end;		/* enum weir_inner_end */
	__u64 levels;		/* IP headers */
};

#endif /* WEIR_RERSS_H */

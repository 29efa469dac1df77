/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A bound on the packets under way: as many as the rings behind the generator have room for, so
 * that a receiver that stands still for a moment loses none. Like TCP's window, it paces by what
 * arrives, which the sinks' counters say. It is for filling tables, never for measurements: it says
 * nothing of what a device can do, and hides what it would lose.
 *
 * Room is found here, in the middle of a test run, and not between two runs: each run takes memory
 * of the kernel, which a worker gives back a second later, and slowly if there were many
 * (mem_allocator_disconnect() of net/core/xdp.c looks through all that are left).
 */
#ifndef WEIR_ROOM_H
#define WEIR_ROOM_H

#include <bpf/bpf_helpers.h>
#include <weir/lane.h>
#include <weir/sending.h>
#include <weir/sink.h>
#include <weir/vmlinux.h>

/* How long nothing arrives until all that is under way counts as lost. */
#define WEIR_ROOM_PATIENCE_NS 50000000

enum weir_room_constant {
	WEIR_ROOM_SINKS = 16,
};

/* Of the only thread. */
struct weir_room {
	__u64 packets;		/* that may be under way, at least WEIR_BURST */
	__u64 cpu_count;	/* of sinks' counters */
	__u64 nth_first;
	__u64 nth_end;		/* the first packet that is not sent at all */
	/* What is known so far: zero at first. */
	__u64 since_ns;
	__u64 arrived_before;
	__u64 arrived;
	__u64 lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_room);
} weir_room SEC(".maps");

/* As weir_counters of sink.bpf.c. Of a type here, BTF would have the name alone. */
struct weir_room_counters {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct weir_sink_counters));
};

/* The counters of sinks, from the first place on. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, WEIR_ROOM_SINKS);
	__type(key, __u32);
	__array(values, struct weir_room_counters);
} weir_arrivals SEC(".maps");

struct weir_room_sum {
	__u64 packets;
	__u32 cpu_count;
};

/* Adds what has arrived at a sink on a CPU. Ends the loop behind the last sink. */
static long weir_room_add(__u32 index, struct weir_room_sum *sum)
{
	__u32 cpu_count = sum->cpu_count ?: 1, sink = index / cpu_count, zero = 0, queue;
	struct weir_sink_counters *counters;
	void *counters_of_sink;

	counters_of_sink = bpf_map_lookup_elem(&weir_arrivals, &sink);
	if (!counters_of_sink)
		return 1;
	counters = bpf_map_lookup_percpu_elem(counters_of_sink, &zero, index % cpu_count);
	if (!counters)
		return 1;
	for (queue = 0; queue < WEIR_SINK_QUEUE_COUNT; queue++)
		sum->packets += counters->queue[queue].packets;
	return 0;
}

static __always_inline __u64 weir_room_arrived(const struct weir_room *window)
{
	struct weir_room_sum sum = { .cpu_count = window->cpu_count };

	bpf_loop(WEIR_ROOM_SINKS * sum.cpu_count, weir_room_add, &sum, 0);
	return sum.packets;
}

/* Takes note of what has arrived since the run began. */
static __always_inline void weir_room_look(struct weir_room *window, __u64 now_ns)
{
	__u64 arrived = weir_room_arrived(window);

	if (!window->since_ns)
		window->arrived_before = arrived;
	arrived -= window->arrived_before;
	if (!window->since_ns || arrived != window->arrived) {
		window->arrived = arrived;
		window->since_ns = now_ns;
	}
}

/* Lets a thread that has come to its end send some more; false if there is no room for that. */
static __noinline bool weir_room_find(struct weir_thread *thread)
{
	__u64 now_ns = bpf_ktime_get_ns(), sent, gone, under_way, room;
	struct weir_room *window;
	__u32 zero = 0;

	window = bpf_map_lookup_elem(&weir_room, &zero);
	if (!thread || !window)
		return false;
	/* There is no more; that is counted elsewhere. */
	if (thread->nth >= window->nth_end)
		return true;
	weir_room_look(window, now_ns);
	sent = thread->nth - window->nth_first;
	/* What was given up may arrive in the end. */
	gone = window->arrived + window->lost;
	under_way = sent > gone ? sent - gone : 0;
	if (under_way && now_ns - window->since_ns >= WEIR_ROOM_PATIENCE_NS) {
		window->lost += under_way;
		window->since_ns = now_ns;
		under_way = 0;
	}
	room = window->packets > under_way ? window->packets - under_way : 0;
	if (room > window->nth_end - thread->nth)
		room = window->nth_end - thread->nth;
	else if (room < WEIR_BURST)
		room = 0;
	if (!room)
		thread->counters.pacer.early++;
	thread->nth_end = thread->nth + room;
	return room;
}

/* Whether the thread may go on, as far as a window says so. */
static __always_inline bool weir_room_is_left(struct weir_thread *thread)
{
	return thread->nth < thread->nth_end || !(thread->flags & WEIR_THREAD_WINDOWED) ||
	       weir_room_find(thread);
}

#endif /* WEIR_ROOM_H */

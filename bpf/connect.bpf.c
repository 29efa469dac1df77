// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_connect_send, weir_connect_client, weir_connect_serve: TCP connections without sockets.
 *
 * The first makes SYNs out of live frames, as weir_gen makes packets (gen.bpf.c), and after a time
 * that connections are held it makes what ends them: it walks the same flows once more. The other
 * two see what comes in at an interface and answer from the packet alone (connect.h):
 *
 *	client		server
 *	SYN
 *			SYN-ACK
 *	ACK, request
 *			reply, FIN
 *	FIN, ACK
 *			ACK
 *
 * or without a request, or with a RST in the place of the client's FIN, or without an end. Either
 * end may be another one's stack: the client acknowledges what is sent to it, and the server
 * answers a request that comes behind the acknowledgement of its SYN-ACK.
 *
 * Nothing is kept, so that nothing is sent again: what is lost is seen in the counters. A segment
 * that the other end sends again is answered again, and counted again. There is one exception: if
 * SYNs are to be sent again, the client has a bit for each flow that says whether it was answered,
 * and walks the flows once more for each time that they may be.
 *
 * Answers go out by a redirect to the interface that the packet came in by and not by XDP_TX, which
 * a veth delivers only while the far end has an XDP program too.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/connect.h>
#include <weir/exchange.h>
#include <weir/segment.h>
#include <weir/sending.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* In a section of its own, so that it is found at offset 0 of it. */
const volatile struct weir_connect_set weir_connect SEC(".rodata.connect") = {};

/* What this end sends behind the headers. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[WEIR_CONNECT_PAYLOAD_BYTES_MAX]);
} weir_connect_payload SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_connect_counters);
} weir_counters SEC(".maps");

/* A bit for each flow: its SYN was answered. Only if SYNs are sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_connect_answered SEC(".maps");

/* The client's: WEIR_CONNECT_HANDSHAKE, WEIR_CONNECT_REPLY. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WEIR_CONNECT_LATENCY_COUNT);
	__type(key, __u32);
	__type(value, struct weir_histogram);
} weir_latency SEC(".maps");

/*
 * Changes the size of a frame. Behind what a socket sent over a veth there is next to no room, but
 * before it there are some 200 bytes; what the frame holds is written anew in any case.
 */
static __always_inline bool weir_connect_resize(struct xdp_md *ctx, __u64 bytes)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	long more = (long)bytes - (data_end - data);

	if (!more || !bpf_xdp_adjust_tail(ctx, more))
		return true;
	return more > 0 && !bpf_xdp_adjust_head(ctx, -more);
}

/* Puts the payload behind the headers of a segment that has one. */
static __always_inline bool weir_connect_put_payload(struct xdp_md *ctx,
						     const struct weir_segment *segment)
{
	__u64 bytes = weir_connect.payload_bytes;
	__u32 offset, zero = 0;
	void *payload;

	if (!segment->payload_bytes)
		return true;
	offset = weir_segment_headers_bytes(segment);
	payload = bpf_map_lookup_elem(&weir_connect_payload, &zero);
	if (!payload || !bytes || bytes > WEIR_CONNECT_PAYLOAD_BYTES_MAX)
		return false;
	return !bpf_xdp_store_bytes(ctx, offset, payload, bytes);
}

/* Ethernet header and the two bytes behind it, as they lie in the frame. */
struct weir_connect_link {
	__u64 word[2];
};

/* Writes a segment over the frame, whatever it holds; the payload is this end's. */
static __noinline bool weir_connect_write(struct xdp_md *ctx, const struct weir_segment *segment,
					  const struct weir_connect_link *link)
{
	__u64 sum = segment->payload_bytes ? weir_connect.payload_sum : 0;
	void *data_end, *data;

	if (!weir_connect_resize(ctx, weir_segment_frame_bytes(segment)))
		return false;
	data_end = (void *)(long)ctx->data_end;
	data = (void *)(long)ctx->data;
	if (data + sizeof(*link) > data_end)
		return false;
	/* The IP header is written over what is behind the link header. */
	*(__u64 *)data = link->word[0];
	*(__u64 *)(data + 8) = link->word[1];
	if (!weir_segment_write(data, data_end, segment, sum))
		return false;
	return weir_connect_put_payload(ctx, segment);
}

/* Sends the answer to the frame's sender. */
static __always_inline int weir_connect_answer(struct xdp_md *ctx,
					       struct weir_connect_counters *counters,
					       const struct weir_segment *answer)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct weir_connect_link link;

	if (data + sizeof(link) > data_end)
		goto failed;
	weir_swap_mac(data);
	/* Its words are of another size. */
	barrier();
	link.word[0] = *(__u64 *)data;
	link.word[1] = *(__u64 *)(data + 8);
	if (weir_connect_write(ctx, answer, &link) &&
	    bpf_redirect_map(&weir_output, 0, XDP_DROP) == XDP_REDIRECT)
		return XDP_REDIRECT;
failed:
	counters->unanswered++;
	return XDP_DROP;
}

/* An answer to a segment: an acknowledgement of all of it, at the place where its sender is. */
static __always_inline void weir_connect_begin_answer(struct weir_segment *answer,
						      const struct weir_segment *segment,
						      __u32 time)
{
	answer->from_high = segment->to_high;
	answer->from_low = segment->to_low;
	answer->to_high = segment->from_high;
	answer->to_low = segment->from_low;
	answer->from_port = segment->to_port;
	answer->to_port = segment->from_port;
	answer->number = segment->ack;
	answer->ack = segment->number + segment->payload_bytes;
	if (segment->flags & (WEIR_TCP_SYN | WEIR_TCP_FIN))
		answer->ack++;
	answer->flags = WEIR_TCP_ACK;
	answer->options = segment->has_times ? WEIR_TCP_OPTIONS_TIMES : WEIR_TCP_OPTIONS_NONE;
	answer->time = time;
	answer->time_echo = segment->time;
	answer->is_ipv6 = segment->is_ipv6;
}

static __always_inline __u32 weir_connect_time(__u64 now_ns)
{
	return now_ns >> WEIR_CONNECT_TICK_SHIFT;
}

/* --- The client: SYNs, and the ends of connections that are held --- */

/* Whether the server is to close behind its reply, or behind the client's FIN. */
static __always_inline bool weir_connect_ends(void)
{
	return !(weir_connect.kind & WEIR_CONNECT_KIND_KEEP);
}

/* The word that says of a flow whether its SYN was answered, and the flow's bit in it. */
static __always_inline __u64 *weir_connect_find_answered(const struct weir_connect_tuple *tuple,
							 __u64 *bit)
{
	__u64 flow = weir_connect_flow(&weir_connect, tuple);
	__u32 index = flow >> 6;

	*bit = 1ULL << (flow & 63);
	return bpf_map_lookup_elem(&weir_connect_answered, &index);
}

/* Marks a flow as answered; true if it is the first time, or nobody looks. */
static __always_inline bool weir_connect_is_first(const struct weir_connect_tuple *tuple)
{
	__u64 *word, bit;

	if (!weir_connect.retries)
		return true;
	word = weir_connect_find_answered(tuple, &bit);
	return !word || !(__sync_fetch_and_or(word, bit) & bit);
}

/* The addresses and ports at which a walk stands; returns the hash of the connection. */
static __always_inline __u64 weir_connect_flow_of(const struct weir_lane *lane,
						  struct weir_segment *segment,
						  struct weir_connect_tuple *tuple)
{
	struct weir_flow flow;

	weir_walk_read(&lane->walk, &flow);
	segment->is_ipv6 = weir_connect.client.family == 6;
	if (segment->is_ipv6) {
		segment->from_high = lane->src.high + flow.src * lane->src.high_unit;
		segment->from_low = lane->src.low + flow.src * lane->src.low_unit;
		segment->to_high = lane->dst.high + flow.dst * lane->dst.high_unit;
		segment->to_low = lane->dst.low + flow.dst * lane->dst.low_unit;
	} else {
		segment->from_low = flow.src;
		segment->to_low = flow.dst;
	}
	segment->from_port = flow.src_port;
	segment->to_port = flow.dst_port;
	tuple->client_high = segment->from_high;
	tuple->client_low = segment->from_low;
	tuple->server_high = segment->to_high;
	tuple->server_low = segment->to_low;
	tuple->client_port = flow.src_port;
	tuple->server_port = flow.dst_port;
	return weir_connect_hash(tuple, weir_connect.key, segment->is_ipv6);
}

/* Sends a segment of the lane's flow, and turns the lane to the next one. */
static __always_inline bool weir_connect_send_segment(struct xdp_md *ctx, struct weir_lane *lane,
						      const struct weir_segment *segment)
{
	struct weir_connect_link link = { .word = { lane->link[0], lane->link[1] } };

	if (!weir_connect_write(ctx, segment, &link) ||
	    bpf_redirect_map(&weir_output, 0, XDP_DROP) != XDP_REDIRECT)
		return false;
	weir_odometer_turn(&lane->walk.odometer);
	return true;
}

/* What becomes of a call. */
enum weir_connect_sent {
	WEIR_CONNECT_SENT,
	WEIR_CONNECT_SKIPPED,	/* the flow needs nothing */
	WEIR_CONNECT_FAILED,
};

static __noinline enum weir_connect_sent
weir_connect_send_syn(struct xdp_md *ctx, struct weir_thread *thread, __u64 now_ns, bool is_again)
{
	struct weir_connect_tuple tuple = {};
	struct weir_segment syn = {};
	__u64 *word, bit;

	if (!thread)
		return WEIR_CONNECT_FAILED;
	syn.number = weir_connect_flow_of(&thread->lane, &syn, &tuple);
	if (weir_connect.retries) {
		word = weir_connect_find_answered(&tuple, &bit);
		if (!word)
			return WEIR_CONNECT_FAILED;
		if (is_again && *word & bit) {
			weir_odometer_turn(&thread->lane.walk.odometer);
			return WEIR_CONNECT_SKIPPED;
		}
		if (!is_again)
			__sync_fetch_and_and(word, ~bit);
	}
	syn.flags = WEIR_TCP_SYN;
	syn.options = WEIR_TCP_OPTIONS_SYN;
	syn.time = weir_connect_time(now_ns);
	syn.time_echo = WEIR_CONNECT_MARK | (__u32)weir_connect.kind;
	return weir_connect_send_segment(ctx, &thread->lane, &syn) ? WEIR_CONNECT_SENT :
								     WEIR_CONNECT_FAILED;
}

/* Ends a connection that was held: by a FIN, for which the server's numbers must be weir's. */
static __always_inline bool weir_connect_send_end(struct xdp_md *ctx, struct weir_thread *thread,
						  __u64 now_ns)
{
	struct weir_connect_tuple tuple = {};
	struct weir_segment end = {};
	__u64 hash = weir_connect_flow_of(&thread->lane, &end, &tuple);

	end.number = (__u32)hash + 1 + (__u32)weir_connect.request_bytes;
	end.flags = WEIR_TCP_RST;
	if (weir_connect.close == WEIR_CONNECT_CLOSE_FIN) {
		end.flags = WEIR_TCP_FIN | WEIR_TCP_ACK;
		end.ack = weir_connect_server_first(hash, weir_connect.kind) + 1;
		if (weir_connect.request_bytes)
			end.ack += (__u32)weir_connect.reply_bytes;
		end.options = WEIR_TCP_OPTIONS_TIMES;
		end.time = weir_connect_time(now_ns);
	}
	return weir_connect_send_segment(ctx, &thread->lane, &end);
}

/*
 * What follows the thread that opens connections over the same flows are threads of their own on
 * the same CPU: number 0 ends connections that were held, those from 1 on send SYNs again.
 */
static __always_inline struct weir_thread *weir_connect_follower(__u32 cpu, __u32 number)
{
	__u32 index = cpu + (__u32)weir_connect.cpu_count * (1 + number);

	return bpf_map_lookup_elem(&weir_threads, &index);
}

/* How long after its SYN a connection's turn is; the time between SYNs doubles. */
static __always_inline __u64 weir_connect_delay_ns(__u32 number)
{
	return number ? weir_connect.retry_ns * ((1ULL << (number & 7)) - 1) :
			weir_connect.hold_ns;
}

/*
 * Keeps the followers' schedules with that of the thread: they begin when it does, and time that is
 * lost between its SYNs passes between their segments, too.
 */
static __noinline void weir_connect_keep_time(const struct weir_thread *thread, __u32 cpu,
					      __u64 lost_ns)
{
	struct weir_thread *follower;
	__u32 number;

	if (!thread)
		return;
	for (number = 0; number <= WEIR_CONNECT_RETRIES_MAX; number++) {
		if (number > weir_connect.retries)
			return;
		follower = weir_connect_follower(cpu, number);
		if (!follower)
			return;
		if (thread->nth == thread->nth_counted)
			follower->pacer.due_ns = thread->pacer.sent_ns +
						 weir_connect_delay_ns(number) +
						 thread->pacer.catch_up_ns;
		else
			follower->pacer.due_ns += lost_ns;
	}
}

/* Makes the next SYN if it is due. Its connection is held from then on. */
static __always_inline bool weir_connect_open(struct xdp_md *ctx, struct weir_thread *thread,
					      __u32 cpu)
{
	__u64 lost_ns = thread->counters.pacer.lost_ns;
	__u64 now_ns;

	if (!weir_may_send(thread, &now_ns))
		return false;
	lost_ns = thread->counters.pacer.lost_ns - lost_ns;
	if ((weir_connect.hold_ns || weir_connect.retries) &&
	    (lost_ns || thread->nth == thread->nth_counted))
		weir_connect_keep_time(thread, cpu, lost_ns);
	if (weir_connect_send_syn(ctx, thread, now_ns, false) != WEIR_CONNECT_SENT) {
		thread->counters.refused_packets++;
		return false;
	}
	thread->nth++;
	return true;
}

/* Ends the next connection whose time is over. */
static __always_inline bool weir_connect_end(struct xdp_md *ctx, const struct weir_thread *thread,
					     __u32 cpu)
{
	struct weir_thread *ending = weir_connect_follower(cpu, 0);
	__u64 now_ns;

	if (!ending || ending->nth >= thread->nth || !weir_may_send(ending, &now_ns))
		return false;
	if (!weir_connect_send_end(ctx, ending, now_ns)) {
		ending->counters.refused_packets++;
		return false;
	}
	ending->nth++;
	return true;
}

/* Sends the next SYN again that nobody has answered in time. */
static __noinline bool weir_connect_retry(struct xdp_md *ctx, const struct weir_thread *thread,
					  __u32 cpu)
{
	struct weir_connect_counters *counters;
	enum weir_connect_sent sent;
	struct weir_thread *again;
	__u32 number, zero = 0;
	__u64 now_ns;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters || !thread)
		return false;
	for (number = 1; number <= WEIR_CONNECT_RETRIES_MAX; number++) {
		if (number > weir_connect.retries)
			return false;
		again = weir_connect_follower(cpu, number);
		if (!again)
			return false;
		if (again->nth >= thread->nth || !weir_may_send(again, &now_ns))
			continue;
		sent = weir_connect_send_syn(ctx, again, now_ns, true);
		if (sent == WEIR_CONNECT_FAILED) {
			again->counters.refused_packets++;
			return false;
		}
		again->nth++;
		if (sent == WEIR_CONNECT_SENT)
			counters->retries++;
		return sent == WEIR_CONNECT_SENT;
	}
	return false;
}

SEC("xdp")
int weir_connect_send(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct weir_thread *thread;
	int verdict;

	thread = weir_thread_of(ctx, cpu, &verdict);
	if (!thread)
		return verdict;
	if (weir_connect_open(ctx, thread, cpu))
		return XDP_REDIRECT;
	if (weir_connect.retries && weir_connect_retry(ctx, thread, cpu))
		return XDP_REDIRECT;
	if (weir_connect.hold_ns && weir_connect_end(ctx, thread, cpu))
		return XDP_REDIRECT;
	return XDP_DROP;
}

/* --- The client: answers --- */

static __always_inline void
weir_connect_note_latency(__u32 kind, const struct weir_segment *segment, __u32 time)
{
	struct weir_histogram *latency;

	if (!segment->has_times)
		return;
	latency = bpf_map_lookup_elem(&weir_latency, &kind);
	if (latency)
		weir_histogram_add(latency, (__u64)(time - segment->time_echo)
						    << WEIR_CONNECT_TICK_SHIFT);
}

/* The answer to a SYN-ACK: the first segment of the plan behind it. */
static __always_inline void weir_connect_take_syn_ack(struct weir_connect_counters *counters,
						      const struct weir_segment *segment,
						      struct weir_segment *answer, __u64 hash,
						      bool is_first)
{
	/* What has been counted is answered once more, and not counted. */
	__u64 once = is_first;

	counters->syn_acks += once;
	counters->established += once;
	counters->repeated += !once;
	if (segment->number != weir_connect_server_first(hash, weir_connect.kind))
		counters->strangers += once;
	if (is_first)
		weir_connect_note_latency(WEIR_CONNECT_HANDSHAKE, segment, answer->time);
	if (weir_connect.request_bytes) {
		counters->requests += once;
		answer->flags |= WEIR_TCP_PSH;
		answer->payload_bytes = weir_connect.request_bytes;
	} else if (weir_connect_ends()) {
		counters->fins += once;
		answer->flags |= WEIR_TCP_FIN;
	} else if (weir_connect.close == WEIR_CONNECT_CLOSE_RST && !weir_connect.hold_ns) {
		counters->resets += once;
		answer->flags |= WEIR_TCP_RST;
	}
}

/* What the server says behind the request, or of its own accord; false if nobody answers it. */
static __always_inline bool weir_connect_take_reply(struct weir_connect_counters *counters,
						    const struct weir_segment *segment,
						    struct weir_segment *answer)
{
	bool is_end = segment->flags & WEIR_TCP_FIN;
	bool is_pushed = segment->payload_bytes && segment->flags & WEIR_TCP_PSH;
	/* A reply of several segments is over with the server's FIN, or with what it pushes. */
	bool is_reply = weir_connect.request_bytes && (weir_connect_ends() ? is_end : is_pushed);

	if (!segment->payload_bytes && !is_end)
		return false;
	if (is_reply) {
		counters->replies++;
		weir_connect_note_latency(WEIR_CONNECT_REPLY, segment, answer->time);
	}
	if (is_reply && weir_connect_ends()) {
		counters->fins++;
		answer->flags |= WEIR_TCP_FIN;
	} else if (is_reply && weir_connect.close == WEIR_CONNECT_CLOSE_RST &&
		   !weir_connect.hold_ns) {
		counters->resets++;
		answer->flags |= WEIR_TCP_RST;
	} else if (is_end) {
		counters->peer_closes++;
	}
	return true;
}

/* What comes behind the client's FIN; true if it is to be acknowledged. */
static __always_inline bool weir_connect_take_end(struct weir_connect_counters *counters,
						  const struct weir_segment *segment)
{
	bool client_last = weir_connect_ends() && weir_connect.request_bytes;

	if (segment->flags & WEIR_TCP_FIN) {
		if (client_last)
			counters->peer_closes++;
		else
			counters->closed++;
		return true;
	}
	if (client_last && !segment->payload_bytes)
		counters->closed++;
	return segment->payload_bytes;
}

/* What the client does about a segment; true if it answers. */
static __always_inline bool weir_connect_client_step(struct weir_connect_counters *counters,
						     const struct weir_segment *segment,
						     struct weir_segment *answer,
						     const struct weir_connect_tuple *tuple)
{
	__u64 hash = weir_connect_hash(tuple, weir_connect.key, segment->is_ipv6);
	__u32 step = segment->ack - (__u32)hash;
	__u32 request_bytes = weir_connect.request_bytes;

	if (segment->flags & WEIR_TCP_RST) {
		/* RFC 9293 section 3.10.7.1: where nobody listens, zero answers a SYN. */
		if (!(segment->flags & WEIR_TCP_ACK) || step != 1 || segment->number)
			counters->peer_resets++;
		else if (weir_connect_is_first(tuple))
			counters->refused++;
		return false;
	}
	if (!(segment->flags & WEIR_TCP_ACK)) {
		counters->bad_flags++;
		return false;
	}
	if (segment->flags & WEIR_TCP_SYN) {
		if (step != 1) {
			counters->bad_number++;
			return false;
		}
		weir_connect_take_syn_ack(counters, segment, answer, hash,
					  weir_connect_is_first(tuple));
		return true;
	}
	if (step == 1 + request_bytes)
		return weir_connect_take_reply(counters, segment, answer);
	if (step == 2 + request_bytes && weir_connect.close == WEIR_CONNECT_CLOSE_FIN)
		return weir_connect_take_end(counters, segment);
	/* The acknowledgement of less than a request. */
	if (!step || step > 1 + request_bytes)
		counters->bad_number++;
	return false;
}

SEC("xdp")
int weir_connect_client(struct xdp_md *ctx)
{
	struct weir_segment segment = {}, answer = {};
	struct weir_connect_counters *counters;
	struct weir_connect_tuple tuple;
	enum weir_segment_found found;
	__u32 zero = 0, time = 0;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	found = weir_segment_read(ctx, &segment);
	if (found == WEIR_SEGMENT_OTHER ||
	    !weir_connect_within(&weir_connect.client, segment.to_high, segment.to_low,
				 segment.to_port, segment.is_ipv6) ||
	    !weir_connect_within(&weir_connect.server, segment.from_high, segment.from_low,
				 segment.from_port, segment.is_ipv6)) {
		counters->passed++;
		return XDP_PASS;
	}
	if (found == WEIR_SEGMENT_MALFORMED) {
		counters->malformed++;
		return XDP_DROP;
	}
	tuple.client_high = segment.to_high;
	tuple.client_low = segment.to_low;
	tuple.server_high = segment.from_high;
	tuple.server_low = segment.from_low;
	tuple.client_port = segment.to_port;
	tuple.server_port = segment.from_port;
	if (segment.has_times)
		time = weir_connect_time(bpf_ktime_get_ns());
	weir_connect_begin_answer(&answer, &segment, time);
	if (!weir_connect_client_step(counters, &segment, &answer, &tuple))
		return XDP_DROP;
	return weir_connect_answer(ctx, counters, &answer);
}

/* --- The server --- */

/* The answer to a SYN. The server's time is coarse: nobody measures by it. */
static __always_inline void weir_connect_take_syn(struct weir_connect_counters *counters,
						  const struct weir_segment *segment,
						  struct weir_segment *answer, __u64 hash)
{
	__u64 kind = 0;

	if (segment->has_times &&
	    (segment->time_echo & WEIR_CONNECT_MARK_MASK) == WEIR_CONNECT_MARK)
		kind = segment->time_echo & ~WEIR_CONNECT_MARK_MASK;
	else
		counters->strangers++;
	counters->syns++;
	counters->syn_acks++;
	answer->number = weir_connect_server_first(hash, kind);
	/* What comes with a SYN is sent again: it is not acknowledged. */
	answer->ack = segment->number + 1;
	answer->flags |= WEIR_TCP_SYN;
	answer->options = segment->has_times ? WEIR_TCP_OPTIONS_SYN_ACK : WEIR_TCP_OPTIONS_MSS;
}

/* What comes first behind the SYN-ACK; true if it is answered. */
static __always_inline bool weir_connect_take_first(struct weir_connect_counters *counters,
						    const struct weir_segment *segment,
						    struct weir_segment *answer, __u64 kind)
{
	bool is_end = segment->flags & WEIR_TCP_FIN;

	if (!segment->payload_bytes && !is_end) {
		counters->established++;
		return false;
	}
	if (!segment->payload_bytes) {
		if (kind == WEIR_CONNECT_KIND_WEIR)
			counters->established++;
		counters->fins++;
		answer->flags |= WEIR_TCP_FIN;
		return true;
	}
	if (kind & WEIR_CONNECT_KIND_WEIR)
		counters->established++;
	else if (!(segment->flags & WEIR_TCP_PSH) && !is_end)
		return true;
	counters->requests++;
	counters->replies++;
	answer->flags |= WEIR_TCP_PSH;
	if (!(kind & WEIR_CONNECT_KIND_KEEP))
		answer->flags |= WEIR_TCP_FIN;
	answer->payload_bytes = weir_connect.reply_bytes;
	return true;
}

/* What the server does about a segment with an acknowledgement; true if it answers. */
static __always_inline bool weir_connect_server_step(struct weir_connect_counters *counters,
						     const struct weir_segment *segment,
						     struct weir_segment *answer, __u64 hash)
{
	__u32 step = (segment->ack & WEIR_CONNECT_STEP_MASK) -
		     (__u32)(hash >> 32 & WEIR_CONNECT_HASH_MASK);
	__u32 reply_bytes = weir_connect.reply_bytes;
	__u64 kind = segment->ack >> WEIR_CONNECT_KIND_SHIFT;
	bool is_end = segment->flags & WEIR_TCP_FIN;

	if (step == 1)
		return weir_connect_take_first(counters, segment, answer, kind);
	if (step == 2 && !is_end) {
		/* The server has closed without a reply, behind the client. */
		counters->closed++;
		return false;
	}
	if (step == 1 + reply_bytes) {
		if (is_end) {
			counters->fins++;
			answer->flags |= WEIR_TCP_FIN;
		}
		return is_end;
	}
	if (step == 2 + reply_bytes) {
		if (is_end)
			counters->fins++;
		if (is_end || kind & WEIR_CONNECT_KIND_KEEP)
			counters->closed++;
		return is_end;
	}
	counters->bad_number++;
	return false;
}

SEC("xdp")
int weir_connect_serve(struct xdp_md *ctx)
{
	struct weir_segment segment = {}, answer = {};
	struct weir_connect_counters *counters;
	struct weir_connect_tuple tuple;
	enum weir_segment_found found;
	__u32 zero = 0;
	__u64 hash;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	found = weir_segment_read(ctx, &segment);
	if (found == WEIR_SEGMENT_OTHER ||
	    !weir_connect_within(&weir_connect.server, segment.to_high, segment.to_low,
				 segment.to_port, segment.is_ipv6)) {
		counters->passed++;
		return XDP_PASS;
	}
	if (found == WEIR_SEGMENT_MALFORMED) {
		counters->malformed++;
		return XDP_DROP;
	}
	if (segment.flags & WEIR_TCP_RST) {
		counters->resets++;
		return XDP_DROP;
	}
	tuple.client_high = segment.from_high;
	tuple.client_low = segment.from_low;
	tuple.server_high = segment.to_high;
	tuple.server_low = segment.to_low;
	tuple.client_port = segment.from_port;
	tuple.server_port = segment.to_port;
	hash = weir_connect_hash(&tuple, weir_connect.key, segment.is_ipv6);
	weir_connect_begin_answer(&answer, &segment, bpf_jiffies64());
	if (segment.flags & WEIR_TCP_SYN && !(segment.flags & WEIR_TCP_ACK)) {
		weir_connect_take_syn(counters, &segment, &answer, hash);
	} else if (!(segment.flags & WEIR_TCP_ACK) || segment.flags & WEIR_TCP_SYN) {
		counters->bad_flags++;
		return XDP_DROP;
	} else if (!weir_connect_server_step(counters, &segment, &answer, hash)) {
		return XDP_DROP;
	}
	return weir_connect_answer(ctx, counters, &answer);
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * For tests of the state table alone: the data path's own functions, called as a request in the
 * "frame" says, for one packet or for many flows in a row. Never attached anywhere.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <weir/fw/defer.h> /* the loader wants all rings */
#include <weir/fw/error.h>
#include <weir/fw/fragment.h> /* and tables */
#include <weir/fw/insert.h>
#include <weir/fw/lookup.h>
#include <weir/fw/stage.h> /* and all exits */
#include <weir/fw/sweep.h>
#include <weir/fw/test.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define WEIR_TEST_FLOW_MASK 0xffffffu

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_test_request);
} weir_test_requests SEC(".maps");

__noinline int weir_test_lookup(struct weir_fw_packet *p __arg_nonnull,
				struct weir_fw_hit *hit __arg_nonnull)
{
	return weir_state_lookup(p, hit);
}

/*
 * Redirects a packet as translate.h does: gives it the inside destination, and the decision an
 * alias. 0, or the reason of a drop + 1.
 */
__noinline int weir_test_redirect(struct weir_test_request *r __arg_nonnull)
{
	struct weir_fw_scratch *scratch = weir_fw_scratch();
	struct weir_fw_packet *p = &r->packet;
	__u32 reverse, word = p->family == WEIR_FW_INET ? 0 : 3;
	int alias;

	if (!scratch)
		return WEIR_FW_REASON_INTERNAL + 1;
	scratch->wire = *p;
	p->dst[word] ^= r->redirect;
	p->hash = weir_fw_hash(p);
	p->flags |= WEIR_PACKET_TRANSLATED;
	reverse = r->hit.slot == WEIR_FW_SLOT_NONE ? 0 : r->hit.reverse;
	alias = weir_alias_make(p, &scratch->wire, reverse, r->decision.rule, 0);
	if (alias < 0)
		return -alias;
	r->decision.alias = alias;
	r->wire_hash = scratch->wire.hash;
	return 0;
}

/* Keeps state of a packet that no record covers. */
__noinline int weir_test_keep(struct weir_test_request *r __arg_nonnull)
{
	struct weir_fw_packet *p = &r->packet;
	int drop = r->redirect ? weir_test_redirect(r) : 0;

	if (!drop) {
		drop = weir_state_insert(p, &r->decision, &r->hit);
		if (drop && r->decision.alias)
			weir_alias_take_back(r->decision.alias, r->wire_hash, p->cpu);
	}
	r->decision.alias = 0;
	if (drop) {
		r->result = WEIR_TEST_REFUSED + drop - 1;
		r->drops[(drop - 1) & (WEIR_FW_REASON_COUNT_MAX - 1)]++;
	} else {
		r->inserts++;
		weir_state_follow(p, &r->hit);
	}
	return 0;
}

__noinline int weir_test_next_hop(struct weir_test_request *r __arg_nonnull)
{
	weir_state_next_hop(&r->packet, &r->hit, r->index, weir_fw_control()->generation);
	return 0;
}

__noinline int weir_test_touch(struct weir_fw_packet *p __arg_nonnull)
{
	weir_state_touch(p);
	return 0;
}

static __always_inline void weir_test_one(struct weir_test_request *r, struct weir_fw_packet *p)
{
	struct weir_fw_hit *hit = &r->hit;
	int result;

	p->flags &= ~WEIR_PACKET_TRANSLATED;
	__builtin_memset(hit, 0, sizeof(*hit));
	hit->slot = WEIR_FW_SLOT_NONE;
	weir_test_touch(p);
	result = weir_test_lookup(p, hit);
	r->result = result;
	if (result == WEIR_STATE_DROP)
		r->drops[hit->reason & (WEIR_FW_REASON_COUNT_MAX - 1)]++;
	else if (result == WEIR_STATE_HIT)
		r->hits++;
	else
		r->misses++;
	if (r->operation == WEIR_TEST_NEXT_HOP)
		weir_test_next_hop(r);
	if (r->operation != WEIR_TEST_KEEP || result == WEIR_STATE_DROP ||
	    hit->covered[p->direction & 1])
		return;
	weir_test_keep(r);
}

__noinline int weir_test_run(struct weir_test_request *r __arg_nonnull)
{
	struct weir_fw_packet *p = &r->packet;
	__u32 i, count = r->count, flow, first_src = p->src[0], first_last = p->src[3];
	__u32 word = p->family == WEIR_FW_INET ? 0 : 3, dst = p->dst[word];

	for (i = 0; i < count && weir_fw_may_loop; i++) {
		flow = r->shuffle ? i * r->shuffle & WEIR_TEST_FLOW_MASK : i;
		if (p->family == WEIR_FW_INET)
			p->src[0] = first_src + flow;
		else
			p->src[3] = first_last + flow;
		p->dst[word] = dst;
		weir_test_one(r, p);
	}
	return 0;
}

__noinline int weir_test_error(struct weir_test_request *r __arg_nonnull)
{
	__builtin_memset(&r->hit, 0, sizeof(r->hit));
	r->hit.slot = WEIR_FW_SLOT_NONE;
	r->result = weir_state_error(&r->packet, &r->packet, &r->hit);
	return 0;
}

/*
 * A later fragment that has looked its packet up, while others end that packet, and begin one that
 * gets its memory (`hits`). Says what is joined, and in `index` the pieces of the new packet.
 */
__noinline int weir_test_reuse_fragment(struct weir_test_request *r __arg_nonnull)
{
	struct weir_fw_packet *p = &r->packet;
	struct weir_fw_fragments *held, *fresh;
	struct weir_fw_fragment_key key;

	weir_fw_fragment_open(p, false);
	weir_fw_fragment_key(&key, p);
	held = bpf_map_lookup_elem(&weir_fragments, &key);
	if (!held)
		return 0;
	bpf_map_delete_elem(&weir_fragments, &key);
	p->fragment_id++;
	weir_fw_fragment_open(p, false);
	p->fragment_id--;
	p->fragment_at = 4000;
	p->flags |= WEIR_PACKET_LATER_FRAGMENT;
	r->result = weir_fw_fragment_join(held, &key, p);
	key.id++;
	fresh = bpf_map_lookup_elem(&weir_fragments, &key);
	if (!fresh)
		return 0;
	r->hits = held == fresh;
	r->index = fresh->piece_count;
	return 0;
}

/*
 * The same of a source whose last state ends, with another source's node. Says whether that was the
 * last state of the node that is held, and in `index` how many the new one has.
 */
__noinline int weir_test_reuse_source(struct weir_test_request *r __arg_nonnull)
{
	struct weir_fw_packet *p = &r->packet;
	struct weir_source *held, *fresh;
	struct weir_source_key key;
	__u32 owner = 0;

	weir_source_join(p, &r->decision);
	weir_source_key_of_packet(p, &r->decision, &key);
	held = bpf_map_lookup_elem(&weir_sources, &key);
	if (!held)
		return 0;
	bpf_map_delete_elem(&weir_sources, &key);
	p->src[0] ^= 1;
	weir_source_join(p, &r->decision);
	r->result = weir_source_subtract(held, &key, false, p->tick, &owner);
	key.addr[0] ^= 1;
	fresh = bpf_map_lookup_elem(&weir_sources, &key);
	if (!fresh)
		return 0;
	r->hits = held == fresh;
	r->index = fresh->states;
	return 0;
}

SEC("xdp")
int weir_fw_ingress(struct xdp_md *ctx)
{
	struct weir_test_request *r;
	__u32 zero = 0;

	weir_uses_arena();
	asm volatile("" ::"r"(&weir_log));
	r = bpf_map_lookup_elem(&weir_test_requests, &zero);
	if (!r || bpf_xdp_load_bytes(ctx, WEIR_TEST_AT, r, sizeof(*r)))
		return XDP_ABORTED;
	r->packet.cpu = bpf_get_smp_processor_id();
	if (r->operation == WEIR_TEST_ERROR)
		weir_test_error(r);
	else if (r->operation == WEIR_TEST_REUSE_FRAGMENT)
		weir_test_reuse_fragment(r);
	else if (r->operation == WEIR_TEST_REUSE_SOURCE)
		weir_test_reuse_source(r);
	else
		weir_test_run(r);
	if (bpf_xdp_store_bytes(ctx, WEIR_TEST_AT, r, sizeof(*r)))
		return XDP_ABORTED;
	return XDP_PASS;
}

SEC("tcx/egress")
int weir_fw_egress(struct __sk_buff *skb)
{
	weir_uses_arena();
	return 0;
}

SEC("xdp/devmap")
int weir_fw_second(struct xdp_md *ctx)
{
	weir_uses_arena();
	return XDP_DROP;
}

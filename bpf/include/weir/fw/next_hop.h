/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of next hops: where packets leave, and with which MAC addresses, as the kernel's FIB
 * said in one generation. States keep an index into it.
 *
 * The control process counts up weir_fw_control.generation whenever a route, a neighbour, a link or
 * an address changes. From then on no entry of an older generation is used, and any of them may be
 * overwritten.
 */
#ifndef WEIR_FW_NEXT_HOP_H
#define WEIR_FW_NEXT_HOP_H

#include <weir/fw/counters.h>

/* How many entries are looked at from the one that the hash points to. */
#define WEIR_FW_NEXT_HOP_PROBES 8
/* Turns of waiting for another maker; without an entry the packet is forwarded all the same. */
#define WEIR_FW_NEXT_HOP_SPINS 64

/* Where one packet goes. */
struct weir_fw_route {
	__u32 ifindex;
	__u32 mac[3];		/* destination, then source, as they stand in the frame */
	__u16 mtu_bytes;
	__u8 interface;		/* slot */
	__u8 flags;		/* WEIR_FW_NEXT_HOP_* */
};

#define weir_fw_next_hop_at(index)                                                              \
	weir_at(struct weir_fw_next_hop,                                                        \
		weir_fw_control()->next_hops_at +                                               \
			(index) * (__u32)sizeof(struct weir_fw_next_hop))

static __always_inline __u32 __weir_arena *weir_fw_next_hop_mac(struct weir_fw_next_hop
								__weir_arena *hop)
{
	return (__u32 __weir_arena *)hop->dst_mac;
}

/*
 * Whether a packet that came by an interface cannot take a route: the interface that it leads to
 * takes only what came by itself.
 */
static __always_inline bool weir_fw_next_hop_is_closed(const struct weir_fw_route *route,
						       __u32 ingress_ifindex)
{
	return route->flags & WEIR_FW_NEXT_HOP_BACK && route->ifindex != ingress_ifindex;
}

/* The route that an index stands for; false if its generation has passed. */
static __always_inline bool weir_fw_next_hop_load(struct weir_fw_route *route, __u32 index,
						  __u16 generation)
{
	struct weir_fw_next_hop __weir_arena *hop =
		weir_fw_next_hop_at(index & (WEIR_FW_NEXT_HOP_COUNT_MAX - 1));
	__u32 __weir_arena *mac = weir_fw_next_hop_mac(hop);

	route->ifindex = hop->ifindex;
	route->mac[0] = mac[0];
	route->mac[1] = mac[1];
	route->mac[2] = mac[2];
	route->mtu_bytes = hop->mtu_bytes;
	route->interface = hop->interface;
	route->flags = hop->flags;
	/* Last: an entry that is being overwritten has no generation. */
	asm volatile("" ::: "memory");
	return *(volatile __u16 __weir_arena *)&hop->generation == generation;
}

static __always_inline bool weir_fw_next_hop_is(struct weir_fw_next_hop __weir_arena *hop,
						const struct weir_fw_route *route,
						__u16 generation)
{
	__u32 __weir_arena *mac = weir_fw_next_hop_mac(hop);

	return hop->generation == generation && hop->ifindex == route->ifindex &&
	       hop->interface == route->interface && hop->flags == route->flags &&
	       hop->mtu_bytes == route->mtu_bytes && mac[0] == route->mac[0] &&
	       mac[1] == route->mac[1] && mac[2] == route->mac[2];
}

static __always_inline void weir_fw_next_hop_fill(struct weir_fw_next_hop __weir_arena *hop,
						  const struct weir_fw_route *route,
						  __u16 generation)
{
	__u32 __weir_arena *mac = weir_fw_next_hop_mac(hop);

	/* Whoever still reads the entry of an older generation shall not have half of each. */
	*(volatile __u16 __weir_arena *)&hop->generation = 0;
	asm volatile("" ::: "memory");
	hop->ifindex = route->ifindex;
	hop->interface = route->interface;
	hop->flags = route->flags;
	mac[0] = route->mac[0];
	mac[1] = route->mac[1];
	mac[2] = route->mac[2];
	hop->mtu_bytes = route->mtu_bytes;
	/* Readers that find the generation find the rest: the processor keeps stores in order. */
	asm volatile("" ::: "memory");
	*(volatile __u16 __weir_arena *)&hop->generation = generation;
	weir_fw_control()->next_hop_count++;
}

static __always_inline bool weir_fw_next_hop_lock(void)
{
	__u64 __weir_arena *lock = &weir_fw_control()->next_hop_lock;
	__u32 i;

	for (i = 0; i < WEIR_FW_NEXT_HOP_SPINS; i++) {
		if (__sync_val_compare_and_swap(lock, 0, 1) == 0)
			return true;
	}
	return false;
}

static __always_inline void weir_fw_next_hop_unlock(void)
{
	__sync_val_compare_and_swap(&weir_fw_control()->next_hop_lock, 1, 0);
}

/*
 * The index of a route's entry, which is made if there is none; 0 if there is no room near where
 * it belongs, or somebody else is making one.
 */
__noinline int weir_fw_next_hop_index(const struct weir_fw_route *route __arg_nonnull,
				      __u16 generation)
{
	__u32 hash = (route->ifindex + route->mac[0] + route->mac[1] * 3) * 0x9e3779b1u;
	struct weir_fw_next_hop __weir_arena *hop;
	__u32 free_index = 0, i;

	for (i = 0; i < WEIR_FW_NEXT_HOP_PROBES; i++) {
		__u32 index = ((hash >> 16) + i) & (WEIR_FW_NEXT_HOP_COUNT_MAX - 1);

		if (index <= WEIR_FW_NEXT_HOP_KERNEL)
			continue;
		hop = weir_fw_next_hop_at(index);
		if (weir_fw_next_hop_is(hop, route, generation))
			return index;
		if (!free_index && hop->generation != generation)
			free_index = index;
	}
	if (!free_index || !weir_fw_next_hop_lock())
		return 0;
	hop = weir_fw_next_hop_at(free_index);
	if (hop->generation != generation)
		weir_fw_next_hop_fill(hop, route, generation);
	else if (!weir_fw_next_hop_is(hop, route, generation))
		free_index = 0; /* another CPU has taken it meanwhile */
	weir_fw_next_hop_unlock();
	return free_index;
}

#endif /* WEIR_FW_NEXT_HOP_H */

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * weir_reflect: sends IP packets back to where they came from, with MAC addresses, IP addresses and
 * UDP or TCP ports exchanged. All else of the packet stays as it is, the checksums included: those
 * are sums, which do not change when two of their terms change places.
 *
 * What goes up the stack instead: everything that is not IPv4 or IPv6 behind an untagged Ethernet
 * header (so that ARP keeps working, but not IPv6's neighbour discovery to unicast addresses),
 * group and broadcast frames (a group cannot be a source), and headers that are cut or malformed.
 * Fragments other than the first have no ports; neither they nor the first one's are exchanged.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/headers.h>
#include <weir/reflect.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_reflect_counters);
} weir_counters SEC(".maps");

/* Exchanges two fields of whole 32-bit words. */
static __always_inline void weir_swap(__u32 *a, __u32 *b, __u32 words)
{
	__u32 i;

	for (i = 0; i < words; i++) {
		__u32 word = a[i];

		a[i] = b[i];
		b[i] = word;
	}
}

static __always_inline void weir_swap_mac(void *data)
{
	__u16 *mac = data;
	__u32 i;

	for (i = 0; i < 3; i++) {
		__u16 word = mac[i];

		mac[i] = mac[i + 3];
		mac[i + 3] = word;
	}
}

/* Ports are the first two fields of UDP and of TCP. False if the packet ends before them. */
static __always_inline bool weir_swap_ports(void *ports, void *data_end, __u8 protocol)
{
	__u32 both;

	if (protocol != WEIR_IPV4_PROTOCOL_UDP && protocol != WEIR_IPV4_PROTOCOL_TCP)
		return true;
	if (ports + sizeof(both) > data_end)
		return false;
	both = *(__u32 *)ports;
	*(__u32 *)ports = both << 16 | both >> 16;
	return true;
}

static __always_inline bool weir_reflect_ipv4(void *ip, void *data_end)
{
	__u64 ip_bytes;

	if (ip + WEIR_IPV4_BYTES_MIN > data_end || *(__u8 *)ip >> 4 != 4)
		return false;
	ip_bytes = (*(__u8 *)ip & 0xf) * 4;
	if (ip_bytes < WEIR_IPV4_BYTES_MIN)
		return false;
	if (!(*(__be16 *)(ip + WEIR_IPV4_FRAGMENT_OFFSET) & bpf_htons(WEIR_IPV4_FRAGMENT_MASK)) &&
	    !weir_swap_ports(ip + ip_bytes, data_end, *(__u8 *)(ip + WEIR_IPV4_PROTOCOL_OFFSET)))
		return false;
	weir_swap(ip + WEIR_IPV4_SRC_OFFSET, ip + WEIR_IPV4_DST_OFFSET, 1);
	return true;
}

/* Ports behind extension headers are not looked for. */
static __always_inline bool weir_reflect_ipv6(void *ip, void *data_end)
{
	if (ip + WEIR_IPV6_BYTES > data_end || *(__u8 *)ip >> 4 != 6)
		return false;
	if (!weir_swap_ports(ip + WEIR_IPV6_BYTES, data_end,
			     *(__u8 *)(ip + WEIR_IPV6_NEXT_HEADER_OFFSET)))
		return false;
	weir_swap(ip + WEIR_IPV6_SRC_OFFSET, ip + WEIR_IPV6_DST_OFFSET, 4);
	return true;
}

SEC("xdp")
int weir_reflect(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct weir_reflect_counters *counters;
	void *ip = data + WEIR_ETH_BYTES;
	bool reflected = false;
	__u32 zero = 0;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return XDP_ABORTED;
	if (ip <= data_end && !(*(__u8 *)data & WEIR_ETH_GROUP_BIT)) {
		__be16 type = *(__be16 *)(data + WEIR_ETH_TYPE_OFFSET);

		if (type == bpf_htons(WEIR_ETH_TYPE_IPV4))
			reflected = weir_reflect_ipv4(ip, data_end);
		else if (type == bpf_htons(WEIR_ETH_TYPE_IPV6))
			reflected = weir_reflect_ipv6(ip, data_end);
	}
	if (!reflected) {
		counters->passed_packets++;
		return XDP_PASS;
	}
	weir_swap_mac(data);
	counters->reflected_packets++;
	counters->reflected_bytes += data_end - data;
	return XDP_TX;
}

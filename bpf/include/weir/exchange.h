/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Exchanges source and destination of a packet. Checksums are sums, which do not change when two of
 * their terms change places.
 */
#ifndef WEIR_EXCHANGE_H
#define WEIR_EXCHANGE_H

#include <weir/vmlinux.h>

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
static __always_inline bool weir_swap_ports(void *ports, void *data_end)
{
	__u32 both;

	if (ports + sizeof(both) > data_end)
		return false;
	both = *(__u32 *)ports;
	*(__u32 *)ports = both << 16 | both >> 16;
	return true;
}

#endif /* WEIR_EXCHANGE_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The 18 bytes with which weir marks the payload of its packets, all big-endian:
 *
 *	0  magic     4 bytes, "weir"
 *	4  stream    1
 *	5  thread    1
 *	6  sequence  6
 *	12 timestamp 6, nanoseconds of CLOCK_MONOTONIC modulo 2^48, zero when not stamped
 */
#ifndef WEIR_SIGNATURE_H
#define WEIR_SIGNATURE_H

#include <weir/vmlinux.h>

#define WEIR_SIGNATURE_MAGIC 0x77656972
#define WEIR_SIGNATURE_BYTES 18
#define WEIR_SIGNATURE_MASK48 ((1ULL << 48) - 1)

#endif /* WEIR_SIGNATURE_H */

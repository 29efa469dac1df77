/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The arena (Linux >= 6.9, Documentation/bpf/map_arena): its map, and pointers from offsets.
 *
 * Accesses are never checked by the verifier and never fault: a wrong offset reads zeroes and
 * writes nothing, which the kernel counts. Keep offsets inside their regions all the same.
 */
#ifndef WEIR_FW_ARENA_H
#define WEIR_FW_ARENA_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/layout.h>

#define __weir_arena __attribute__((address_space(1)))

/* Of bpf(2): user space may map it. */
#define WEIR_FW_BPF_F_MMAPABLE (1u << 10)

enum weir_fw_arena_constant {
	/* 4 GiB: all that a map can have; pages cost memory only when they are populated. */
	WEIR_FW_ARENA_PAGE_COUNT = 1 << 20,
	/*
	 * The user space address: its low 32 bits are zero, so that offsets are the same on both
	 * sides. The loader takes another one where that is taken.
	 */
	WEIR_FW_ARENA_USER_AT = 1ull << 44,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, WEIR_FW_BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_FW_ARENA_PAGE_COUNT);
	__ulong(map_extra, WEIR_FW_ARENA_USER_AT);
} weir_arena SEC(".maps");

/* A pointer to what stands at an offset. */
#define weir_at(type, offset) ((type __weir_arena *)(__u64)(__u32)(offset))

/* The kernel finds a program's arena by the maps that its code names: each one names it once. */
#define weir_uses_arena() asm volatile("" ::"r"(&weir_arena))

#define weir_read_once(x) (*(volatile typeof(x) *)&(x))
#define weir_write_once(x, v) (*(volatile typeof(x) *)&(x) = (v))
#define weir_compiler_barrier() asm volatile("" ::: "memory")

#endif /* WEIR_FW_ARENA_H */

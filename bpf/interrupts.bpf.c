// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long each CPU spends in interrupt handlers, by line, and in softirqs, by vector.
 *
 * The kernel's own times of these are sampled by ticks on most kernels, which never happen in an
 * interrupt handler. The tracepoints are those of include/trace/events/irq.h. Interrupts without a
 * line (the timer of a CPU, calls from another one) do not come by them. Nothing is changed.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_helpers.h>

/* As many as enum of include/linux/interrupt.h has; the Rust side names them. */
#define WEIR_SOFTIRQ_COUNT 10

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What one CPU did. A handler is never interrupted by another one, nor a softirq by another. */
struct weir_interrupts {
	__u64 softirq_ns[WEIR_SOFTIRQ_COUNT];
	/* When the one that is under way began; 0: none that was seen to begin. */
	__u64 softirq_since_ns;
	__u64 handler_since_ns;
	/* In handlers, of all lines: a softirq is interrupted by them. */
	__u64 handlers_ns;
	__u64 handlers_before_softirq_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_interrupts);
} weir_interrupts SEC(".maps");

/* In handlers: of all lines that are not in here, and from 1 on of line 0, 1, 2 … */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} weir_lines SEC(".maps");

static __always_inline struct weir_interrupts *weir_this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&weir_interrupts, &zero);
}

SEC("tp_btf/softirq_entry")
int weir_softirq_entry(__u64 *ctx)
{
	struct weir_interrupts *cpu = weir_this_cpu();

	if (cpu) {
		cpu->handlers_before_softirq_ns = cpu->handlers_ns;
		cpu->softirq_since_ns = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int weir_softirq_exit(__u64 *ctx)
{
	struct weir_interrupts *cpu = weir_this_cpu();
	__u64 vector = ctx[0], spent_ns;

	if (!cpu || !cpu->softirq_since_ns || vector >= WEIR_SOFTIRQ_COUNT)
		return 0;
	spent_ns = bpf_ktime_get_ns() - cpu->softirq_since_ns;
	spent_ns -= cpu->handlers_ns - cpu->handlers_before_softirq_ns;
	cpu->softirq_ns[vector] += spent_ns;
	cpu->softirq_since_ns = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int weir_handler_entry(__u64 *ctx)
{
	struct weir_interrupts *cpu = weir_this_cpu();

	if (cpu)
		cpu->handler_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int weir_handler_exit(__u64 *ctx)
{
	struct weir_interrupts *cpu = weir_this_cpu();
	__u32 others = 0, line = (__u32)ctx[0] + 1;
	__u64 spent_ns, *line_ns;

	if (!cpu || !cpu->handler_since_ns)
		return 0;
	spent_ns = bpf_ktime_get_ns() - cpu->handler_since_ns;
	cpu->handler_since_ns = 0;
	cpu->handlers_ns += spent_ns;
	line_ns = bpf_map_lookup_elem(&weir_lines, &line);
	if (!line_ns)
		line_ns = bpf_map_lookup_elem(&weir_lines, &others);
	if (line_ns)
		*line_ns += spent_ns;
	return 0;
}

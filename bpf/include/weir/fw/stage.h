/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How frames leave, and what the two stages of the data path share (second.h says why there are
 * two).
 *
 * A device keeps what is redirected to it until it has 16 frames or the poll ends, and then runs
 * one program over all of them: that of the first one. A frame by bpf_redirect() has none. So as
 * long as some frame may have to be judged there, every frame goes by the map of exits, whose
 * program lets pass what has been judged. The control process changes weir_fw_control.stages one
 * step at a time, and lets every poll end in between.
 */
#ifndef WEIR_FW_STAGE_H
#define WEIR_FW_STAGE_H

#include <bpf/bpf_helpers.h>
#include <weir/fw/counters.h>
#include <weir/fw/headers.h>

/* Lines that are noted between two runs of the program: no device keeps more; a power of two. */
#define WEIR_STAGE_LINES_MAX 64

/* Where frames leave, by slot of the interface: its index, and the program of the second stage. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, WEIR_FW_INTERFACE_COUNT_MAX);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 2 * sizeof(__u32));
} weir_exits SEC(".maps");

/* The buckets of a CPU's frames that the second stage has not seen. */
struct weir_stage_lines {
	__u32 count;
	__u32 home[WEIR_STAGE_LINES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_stage_lines);
} weir_lines SEC(".maps");

static __always_inline struct weir_stage_lines *weir_stage_lines(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&weir_lines, &zero);
}

static __always_inline __u32 weir_fw_stages(void)
{
	return *(volatile __u32 __weir_arena *)&weir_fw_control()->stages;
}

/*
 * Takes away what somebody else has written before a frame (a veth keeps it), which would be taken
 * for ours. Pointers into the frame are stale then. False if it cannot be.
 */
static __always_inline bool weir_stage_clear(struct xdp_md *ctx)
{
	void *data = weir_xdp_data(ctx), *meta = (void *)(long)ctx->data_meta;

	return meta >= data || !bpf_xdp_adjust_meta(ctx, (int)(data - meta));
}

/* Sends a frame that has been judged out of an interface, whose slot is given too. */
static __always_inline int weir_fw_redirect(struct xdp_md *ctx, __u32 ifindex, __u32 slot)
{
	if (weir_fw_stages() == WEIR_FW_STAGES_ONE)
		return bpf_redirect(ifindex, 0);
	if (!weir_stage_clear(ctx))
		return XDP_ABORTED;
	return bpf_redirect_map(&weir_exits, slot & (WEIR_FW_INTERFACE_COUNT_MAX - 1), 0);
}

#endif /* WEIR_FW_STAGE_H */

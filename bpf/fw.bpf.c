// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The firewall's data path: pf's semantics in XDP.
 *
 * weir_fw_ingress judges what an interface receives, on its way in and, if it is forwarded, on its
 * way out, and sends it on. For large tables it hands most packets to weir_fw_second, which does
 * that where they leave (second.h). weir_fw_egress (tcx) judges what leaves an interface by way of
 * the kernel: packets of the box itself, and those that the kernel had to forward. weir_fw_entry
 * (tcx) judges what an interface receives whose driver has no XDP, and leaves it to the kernel.
 * weir_fw_divert (tcx) hands what comes by states of `divert-to` to sockets.
 *
 * A packet's way: descriptor (parse.h), sanity (sanity.h), state (state.h), rules only where no
 * state covers it (rules.h), route (fib.h, or the next hop that its state keeps), state and rules
 * for the other interface, forwarding (forward.h). What happens to every packet is inlined; all
 * else is in functions that the verifier checks by themselves.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <weir/fw/clock.h>
#include <weir/fw/counters.h>
#include <weir/fw/fib.h>
#include <weir/fw/forward.h>
#include <weir/fw/log.h>
#include <weir/fw/parse.h>
#include <weir/fw/reply.h>
#include <weir/fw/rules.h>
#include <weir/fw/sanity.h>
#include <weir/fw/state.h>
#include <weir/fw/error.h>
#include <weir/fw/insert.h>
#include <weir/fw/lookup.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#include <weir/fw/ingress.h>
#include <weir/fw/second.h>
#include <weir/fw/egress.h>
#include <weir/fw/entry.h>
#include <weir/fw/divert.h>
#include <weir/fw/sweep.h>

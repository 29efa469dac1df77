// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Nothing but types: what weir-bpf's test compares its constants with. It is never loaded.
 */
#include <weir/vmlinux.h>

#include <weir/fw/image.h>
#include <weir/fw/layout.h>

struct weir_fw_control control;
struct weir_fw_image image;
struct weir_fw_profile profile;
struct weir_state state;
struct weir_state_v6 addresses;
struct weir_account account;
struct weir_own own;
struct weir_fw_next_hop next_hop;
struct weir_fw_kept kept;
struct weir_fw_kept_set kept_set;
struct weir_fw_interface interface;
struct weir_fw_cpu cpu;
struct weir_fw_rule_counters rule_counters;

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Nothing but types: what the build scripts of weir-bpf and, for tests, of weir-oracle make
 * constants of, by way of this object's BTF. It is never loaded.
 */
#include <weir/vmlinux.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <weir/connect.h>
#include <weir/fault.h>
#include <weir/fw/classify.h>
#include <weir/fw/defer.h>
#include <weir/fw/event.h>
#include <weir/fw/exchange.h>
#include <weir/fw/fragment.h>
#include <weir/fw/image.h>
#include <weir/fw/layout.h>
#include <weir/fw/log.h>
#include <weir/fw/node.h>
#include <weir/fw/prefix.h>
#include <weir/fw/request.h>
#include <weir/fw/system.h>
#include <weir/fw/test.h>
#include <weir/fw/timeout.h>
#include <weir/histogram.h>
#include <weir/inner.h>
#include <weir/lane.h>
#include <weir/observe.h>
#include <weir/reflect.h>
#include <weir/rerss.h>
#include <weir/room.h>
#include <weir/rss.h>
#include <weir/set.h>
#include <weir/shaper.h>
#include <weir/sink.h>

/* BTF has what a variable needs. */
#define WEIR_STRUCT(name) struct name name##_v
#define WEIR_ENUM(name) enum name name##_v

WEIR_STRUCT(weir_fw_control);
WEIR_STRUCT(weir_stage_note);
WEIR_STRUCT(weir_fw_image);
WEIR_STRUCT(weir_fw_criteria);
WEIR_STRUCT(weir_fw_rule);
WEIR_STRUCT(weir_fw_translation);
WEIR_STRUCT(weir_fw_target);
WEIR_STRUCT(weir_fw_gateways);
WEIR_STRUCT(weir_fw_share);
WEIR_STRUCT(weir_fw_copy);
WEIR_STRUCT(weir_fw_errand);
WEIR_STRUCT(weir_fw_owner);
WEIR_STRUCT(weir_fw_systems);
WEIR_STRUCT(weir_fw_system_order);
WEIR_STRUCT(weir_fw_system);
WEIR_STRUCT(weir_fw_counted);
WEIR_STRUCT(weir_fw_gateway);
WEIR_STRUCT(weir_fw_classes);
WEIR_STRUCT(weir_fw_addition);
WEIR_STRUCT(weir_fw_prefix_set);
WEIR_STRUCT(weir_fw_prefix6);
WEIR_STRUCT(weir_fw_profile);
WEIR_STRUCT(weir_state);
WEIR_STRUCT(weir_state_v6);
WEIR_STRUCT(weir_alias);
WEIR_STRUCT(weir_account);
WEIR_STRUCT(weir_line_account);
WEIR_STRUCT(weir_fw_next_hop);
WEIR_STRUCT(weir_fw_kept);
WEIR_STRUCT(weir_fw_kept_set);
WEIR_STRUCT(weir_fw_interface);
WEIR_STRUCT(weir_fw_cpu);
WEIR_STRUCT(weir_fw_rule_counters);
WEIR_STRUCT(weir_fw_log_record);
WEIR_STRUCT(weir_fw_event);
WEIR_STRUCT(weir_fw_change);
WEIR_STRUCT(weir_fw_translated_change);
WEIR_STRUCT(weir_fw_deferred);
WEIR_STRUCT(weir_fw_sweep);
WEIR_STRUCT(weir_fw_fragments);
WEIR_STRUCT(weir_fw_counted_key);
WEIR_STRUCT(weir_fw_counts);
WEIR_STRUCT(weir_fw_limiter);
WEIR_STRUCT(weir_fw_limiter_counts);
WEIR_STRUCT(weir_source);
WEIR_STRUCT(weir_source_overload);
WEIR_STRUCT(weir_rules_subject);
WEIR_STRUCT(weir_fw_decision);
WEIR_STRUCT(weir_thread);
WEIR_STRUCT(weir_room);
WEIR_STRUCT(weir_set);
WEIR_STRUCT(weir_sink_counters);
WEIR_STRUCT(weir_reflect_counters);
WEIR_STRUCT(weir_rss);
WEIR_STRUCT(weir_rss_bucket);
WEIR_STRUCT(weir_rss_arrival);
WEIR_STRUCT(weir_rerss_control);
WEIR_STRUCT(weir_rerss_counters);
WEIR_STRUCT(weir_rerss_queue);
WEIR_STRUCT(weir_rerss_seen);
WEIR_STRUCT(weir_connect_set);
WEIR_STRUCT(weir_connect_counters);
WEIR_STRUCT(weir_fault);
WEIR_STRUCT(weir_fault_counters);
WEIR_STRUCT(weir_bucket);

WEIR_ENUM(weir_fw_constant);
WEIR_ENUM(weir_fw_control_flag);
WEIR_ENUM(weir_fw_stages_kind);
WEIR_ENUM(weir_fw_sync_out);
WEIR_ENUM(weir_fw_sync_in);
WEIR_ENUM(weir_fw_scrub);
WEIR_ENUM(weir_fw_timeout);
WEIR_ENUM(weir_state_flag);
WEIR_ENUM(weir_state_constant);
WEIR_ENUM(weir_fw_gateway_flag);
WEIR_ENUM(weir_fw_owner_how);
WEIR_ENUM(weir_fw_system_constant);
WEIR_ENUM(weir_fw_system_how);
WEIR_ENUM(weir_fw_kept_constant);
WEIR_ENUM(weir_fw_interface_flag);
WEIR_ENUM(weir_fw_image_constant);
WEIR_ENUM(weir_fw_image_flag);
WEIR_ENUM(weir_fw_place);
WEIR_ENUM(weir_fw_ask);
WEIR_ENUM(weir_fw_limited);
WEIR_ENUM(weir_fw_limiter_constant);
WEIR_ENUM(weir_source_constant);
WEIR_ENUM(weir_fw_rule_kind);
WEIR_ENUM(weir_fw_log_flag);
WEIR_ENUM(weir_fw_source_flag);
WEIR_ENUM(weir_fw_answer);
WEIR_ENUM(weir_fw_translation_flag);
WEIR_ENUM(weir_fw_choice);
WEIR_ENUM(weir_decision_flag);
WEIR_ENUM(weir_fw_prefix_constant);
WEIR_ENUM(weir_fw_prefix_flow);
WEIR_ENUM(weir_fw_prefix_multiplier);
WEIR_ENUM(weir_fw_classify_constant);
WEIR_ENUM(weir_fw_dimension_index);
WEIR_ENUM(weir_fw_sweep_constant);
WEIR_ENUM(weir_fw_sweep_mode);
WEIR_ENUM(weir_fw_restored);
WEIR_ENUM(weir_fw_log_constant);
WEIR_ENUM(weir_fw_event_constant);
WEIR_ENUM(weir_fw_arena_constant);
WEIR_ENUM(weir_fw_reason);
WEIR_ENUM(weir_fw_direction);
WEIR_ENUM(weir_fw_outcome);
WEIR_ENUM(weir_fw_family);
WEIR_ENUM(weir_fw_limit);
WEIR_ENUM(weir_packet_flag);
WEIR_ENUM(weir_wscale);
WEIR_ENUM(weir_phase);
WEIR_ENUM(weir_tcp_phase);
WEIR_ENUM(weir_state_found);
WEIR_ENUM(weir_test_operation);
WEIR_ENUM(weir_test_constant);
WEIR_ENUM(weir_layout);
WEIR_ENUM(weir_lane_constant);
WEIR_ENUM(weir_thread_flag);
WEIR_ENUM(weir_room_constant);
WEIR_ENUM(weir_digit_index);
WEIR_ENUM(weir_sizes_kind);
WEIR_ENUM(weir_set_constant);
WEIR_ENUM(weir_set_walk);
WEIR_ENUM(weir_histogram_constant);
WEIR_ENUM(weir_window_constant);
WEIR_ENUM(weir_observe_constant);
WEIR_ENUM(weir_sink_flag);
WEIR_ENUM(weir_sink_constant);
WEIR_ENUM(weir_rss_constant);
WEIR_ENUM(weir_rss_kind);
WEIR_ENUM(weir_rss_symmetry);
WEIR_ENUM(weir_inner_end);
WEIR_ENUM(weir_inner_hashed);
WEIR_ENUM(weir_rerss_constant);
WEIR_ENUM(weir_rerss_state);
WEIR_ENUM(weir_connect_close);
WEIR_ENUM(weir_connect_kind);
WEIR_ENUM(weir_connect_constant);
WEIR_ENUM(weir_connect_latency_kind);
WEIR_ENUM(weir_held_constant);
WEIR_ENUM(weir_fault_action);

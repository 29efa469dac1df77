//! Lists what weir-bpf knows of the C headers: sizes of structures, offsets of their fields, values
//! of enumerations. The object file of `bpf/layout.bpf.c` has them all.

use std::path::Path;

use crate::types::{Types, Unit, WORDS};

/// Of structures that are read and written by bytes.
const BYTES: Unit = Unit { bytes: 1, size: "SIZE_BYTES", kind: "u32" };

/// Structures, and the modules that get their sizes and the offsets of their fields.
const STRUCTURES: [(&str, &str); 53] = [
    ("weir_fw_control", "control"),
    ("weir_stage_note", "stage_note"),
    ("weir_fw_errand", "errand"),
    ("weir_fw_image", "image"),
    ("weir_fw_criteria", "criteria"),
    ("weir_fw_rule", "rule"),
    ("weir_fw_translation", "translation"),
    ("weir_fw_target", "target"),
    ("weir_fw_gateways", "gateways"),
    ("weir_fw_share", "share"),
    ("weir_fw_owner", "owner"),
    ("weir_fw_systems", "systems"),
    ("weir_fw_system_order", "system_order"),
    ("weir_fw_system", "system"),
    ("weir_fw_counted", "counted"),
    ("weir_fw_gateway", "gateway"),
    ("weir_fw_copy", "copy"),
    ("weir_fw_classes", "classes"),
    ("weir_fw_dimension", "dimension"),
    ("weir_fw_addition", "addition"),
    ("weir_fw_prefix_set", "prefix_set"),
    ("weir_fw_prefix6", "prefix6"),
    ("weir_fw_profile", "profile"),
    ("weir_state", "state"),
    ("weir_state_v6", "addresses"),
    ("weir_alias", "alias"),
    ("weir_account", "account"),
    ("weir_line_account", "line_account"),
    ("weir_fw_next_hop", "next_hop"),
    ("weir_fw_kept", "kept"),
    ("weir_fw_kept_set", "kept_set"),
    ("weir_fw_interface", "interface"),
    ("weir_fw_cpu", "cpu"),
    ("weir_fw_table_counters", "table"),
    ("weir_fw_interface_counters", "interface_counters"),
    ("weir_fw_rule_counters", "rule_counters"),
    ("weir_fw_log_record", "log_record"),
    ("weir_fw_event", "event"),
    ("weir_fw_change", "change"),
    ("weir_fw_translated_change", "translated_change"),
    ("weir_fw_deferred", "deferred"),
    ("weir_fw_event_alias", "event_alias"),
    ("weir_fw_sweep", "sweep"),
    ("weir_fw_fragments", "fragments"),
    ("weir_fw_counted_key", "counted_key"),
    ("weir_fw_counts", "counts"),
    ("weir_fw_limiter", "limiter"),
    ("weir_fw_limiter_counts", "limiter_counts"),
    ("weir_source_key", "source_key"),
    ("weir_source", "source"),
    ("weir_source_overload", "source_overload"),
    ("weir_rules_subject", "subject"),
    ("weir_fw_decision", "decision"),
];

/// Enumerations, the modules that get their values, the prefix that falls away, and their type.
const ENUMERATIONS: [(&str, &str, &str, &str); 24] = [
    ("weir_fw_image_flag", "image_flags", "WEIR_FW_IMAGE_", "u32"),
    ("weir_fw_ask", "asks", "WEIR_FW_ASKS_", "u32"),
    ("weir_decision_flag", "decision_flags", "WEIR_DECISION_", "u32"),
    ("weir_packet_flag", "packet_flags", "WEIR_PACKET_", "u32"),
    ("weir_fw_dimension_index", "dimensions", "WEIR_FW_DIMENSION_", "usize"),
    ("weir_fw_place", "place", "WEIR_FW_PLACE_", "u8"),
    ("weir_fw_rule_kind", "rule_kind", "WEIR_FW_RULE_", "u8"),
    ("weir_fw_log_flag", "log_flags", "WEIR_FW_LOG_", "u8"),
    ("weir_fw_source_flag", "source_flags", "WEIR_FW_SOURCE_", "u8"),
    ("weir_fw_answer", "answers", "WEIR_FW_ANSWERS_", "u8"),
    ("weir_fw_translation_flag", "translation_flags", "WEIR_FW_TRANSLATION_", "u8"),
    ("weir_fw_choice", "choice", "WEIR_FW_CHOICE_", "u8"),
    ("weir_fw_gateway_flag", "gateway_flags", "WEIR_FW_GATEWAY_", "u8"),
    ("weir_fw_owner_how", "owner_how", "WEIR_FW_OWNER_", "u32"),
    ("weir_fw_system_how", "system_how", "WEIR_FW_SYSTEM_", "u8"),
    ("weir_fw_prefix_flow", "flow", "WEIR_FW_FLOW_", "u8"),
    ("weir_fw_timeout", "timeout", "WEIR_FW_TIMEOUT_", "u32"),
    ("weir_fw_limit", "limit", "WEIR_FW_LIMIT_", "usize"),
    ("weir_fw_reason", "reason", "WEIR_FW_REASON_", "u8"),
    ("weir_fw_direction", "direction", "WEIR_FW_", "u8"),
    ("weir_fw_outcome", "outcome", "WEIR_FW_", "u8"),
    ("weir_fw_family", "family", "WEIR_FW_", "u8"),
    ("weir_tcp_phase", "tcp_phase", "WEIR_TCPS_", "u8"),
    ("weir_phase", "phase", "WEIR_PHASE_", "u8"),
];

/// Enumerations whose values stand beside the modules, without `WEIR_FW_` or `WEIR_`, and their
/// type.
const CONSTANTS: [(&str, &str); 25] = [
    ("weir_fw_constant", "u32"),
    ("weir_fw_scrub", "u32"),
    ("weir_fw_image_constant", "u32"),
    ("weir_fw_system_constant", "u32"),
    ("weir_fw_prefix_constant", "u32"),
    ("weir_fw_prefix_multiplier", "u64"),
    ("weir_fw_classify_constant", "u32"),
    ("weir_fw_sweep_constant", "u32"),
    ("weir_fw_sweep_mode", "u32"),
    ("weir_fw_restored", "u32"),
    ("weir_fw_control_flag", "u32"),
    ("weir_fw_stages_kind", "u32"),
    ("weir_fw_sync_out", "u32"),
    ("weir_fw_sync_in", "u32"),
    ("weir_fw_arena_constant", "u64"),
    ("weir_state_flag", "u32"),
    ("weir_state_constant", "u32"),
    ("weir_wscale", "u8"),
    ("weir_fw_kept_constant", "u32"),
    ("weir_fw_interface_flag", "u32"),
    ("weir_fw_log_constant", "u32"),
    ("weir_fw_event_constant", "u32"),
    ("weir_fw_limited", "u32"),
    ("weir_fw_limiter_constant", "u32"),
    ("weir_source_constant", "u32"),
];

/// The Rust text of what the firewall has in its memory.
pub(crate) fn constants(object: &Path) -> Result<String, String> {
    let mut types = Types::open(object, "pub")?;
    for (name, module) in STRUCTURES {
        types.structure(name, module, &BYTES)?;
    }
    for (name, module, prefix, kind) in ENUMERATIONS {
        types.enumeration(name, module, prefix, kind)?;
    }
    for (name, kind) in CONSTANTS {
        types.values(name, &["WEIR_FW_", "WEIR_"], kind)?;
    }
    Ok(types.text)
}

/// Structures in values of maps, which are read and written as 64-bit words.
const WORD_STRUCTURES: [(&str, &str); 33] = [
    ("weir_set", "set"),
    ("weir_thread", "thread"),
    ("weir_thread_counters", "thread_counters"),
    ("weir_pacer", "pacer"),
    ("weir_pacer_counters", "pacer_counters"),
    ("weir_room", "room"),
    ("weir_lane", "lane"),
    ("weir_address6", "address6"),
    ("weir_walk", "walk"),
    ("weir_odometer", "odometer"),
    ("weir_digit", "digit"),
    ("weir_sizes", "sizes"),
    ("weir_histogram", "histogram"),
    ("weir_sink_queue", "sink_queue"),
    ("weir_sink_counters", "sink_counters"),
    ("weir_follower", "follower"),
    ("weir_sampler", "sampler"),
    ("weir_row", "row"),
    ("weir_sender", "sender"),
    ("weir_stream_flows", "stream_flows"),
    ("weir_flow_block", "flow_block"),
    ("weir_observation", "observation"),
    ("weir_reflect_counters", "reflect_counters"),
    ("weir_rss", "rss"),
    ("weir_rss_bucket", "rss_bucket"),
    ("weir_rss_arrival", "rss_arrival"),
    ("weir_rerss_control", "rerss_control"),
    ("weir_rerss_counters", "rerss_counters"),
    ("weir_rerss_queue", "rerss_queue"),
    ("weir_rerss_seen", "rerss_seen"),
    ("weir_connect_set", "connect_set"),
    ("weir_connect_range", "connect_range"),
    ("weir_connect_counters", "connect_counters"),
];

/// Enumerations of what stands in them: as [`ENUMERATIONS`].
const WORD_ENUMERATIONS: [(&str, &str, &str, &str); 13] = [
    ("weir_set_walk", "set_walks", "WEIR_SET_WALK_", "u64"),
    ("weir_thread_flag", "thread_flags", "WEIR_THREAD_", "u64"),
    ("weir_layout", "layout", "WEIR_LAYOUT_", "u64"),
    ("weir_digit_index", "digits", "WEIR_DIGIT_", "usize"),
    ("weir_sizes_kind", "sizes_kind", "WEIR_SIZES_", "u64"),
    ("weir_sink_flag", "sink_flags", "WEIR_SINK_", "u64"),
    ("weir_rss_kind", "rss_kinds", "WEIR_RSS_", "usize"),
    ("weir_rss_symmetry", "rss_symmetries", "WEIR_RSS_", "u64"),
    ("weir_inner_end", "inner_ends", "WEIR_INNER_", "usize"),
    ("weir_inner_hashed", "inner_hashed", "WEIR_INNER_", "u64"),
    ("weir_rerss_state", "rerss_states", "WEIR_RERSS_", "u64"),
    ("weir_connect_close", "connect_close", "WEIR_CONNECT_CLOSE_", "u64"),
    ("weir_connect_kind", "connect_kinds", "WEIR_CONNECT_KIND_", "u64"),
];

/// Constants of their headers, without `WEIR_`, and their type.
const WORD_CONSTANTS: [(&str, &str); 11] = [
    ("weir_set_constant", "u16"),
    ("weir_lane_constant", "usize"),
    ("weir_histogram_constant", "u32"),
    ("weir_window_constant", "u64"),
    ("weir_observe_constant", "u32"),
    ("weir_sink_constant", "usize"),
    ("weir_room_constant", "u32"),
    ("weir_rss_constant", "usize"),
    ("weir_rerss_constant", "u16"),
    ("weir_connect_constant", "u16"),
    ("weir_connect_latency_kind", "u32"),
];

/// The Rust text of what the other programs have in their maps.
pub(crate) fn words(object: &Path) -> Result<String, String> {
    let mut types = Types::open(object, "pub(crate)")?;
    for (name, module) in WORD_STRUCTURES {
        types.structure(name, module, &WORDS)?;
    }
    for (name, module, prefix, kind) in WORD_ENUMERATIONS {
        types.enumeration(name, module, prefix, kind)?;
    }
    for (name, kind) in WORD_CONSTANTS {
        types.values(name, &["WEIR_"], kind)?;
    }
    Ok(types.text)
}

/// The Rust text of what tests ask the program of `bpf/states.bpf.c`.
pub(crate) fn states(object: &Path) -> Result<String, String> {
    let mut types = Types::open(object, "pub(crate)")?;
    for name in ["weir_test_operation", "weir_test_constant", "weir_state_found"] {
        types.values(name, &["WEIR_TEST_", "WEIR_STATE_"], "u32")?;
    }
    Ok(types.text)
}

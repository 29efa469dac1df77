//! The bytes of a compiled ruleset: the structs of `bpf/include/weir/fw/image.h`, field by field.
//! Assertions in `bpf/rules.bpf.c` hold the offsets.

/// `struct weir_fw_image`.
pub const IMAGE_BYTES: usize = 128;
/// `struct weir_fw_criteria` and `struct weir_fw_rule`.
pub const RULE_BYTES: usize = 64;
/// `WEIR_FW_IMAGE_MAGIC`.
pub const MAGIC: u32 = 0x7766_7269;
/// `WEIR_FW_IMAGE_VERSION`.
pub const VERSION: u32 = 2;
/// `struct weir_fw_rule_counters`.
pub const COUNTERS_BYTES: usize = 64;

/// `weir_fw_image.flags`.
pub mod image_flags {
    /// OpenBSD's dialect.
    pub const OPENBSD: u32 = 1 << 0;
    /// Rules ask for `urpf-failed`.
    pub const ROUTES: u32 = 1 << 2;
    /// Rules give tags.
    pub const TAGS: u32 = 1 << 3;
    /// Evaluated by bit vectors.
    pub const CLASSES: u32 = 1 << 4;
    /// Some rule keeps state.
    pub const STATES: u32 = 1 << 5;
    /// Some rule tracks sources.
    pub const SOURCES: u32 = 1 << 6;
    /// Some rule's states are bound to interfaces.
    pub const IF_BOUND: u32 = 1 << 7;
    /// Rules ask for sources with `no-route`.
    pub const NO_ROUTE_BACK: u32 = 1 << 8;
    /// Rules ask for destinations with `no-route`.
    pub const NO_ROUTE_TO: u32 = 1 << 9;
}

/// `weir_fw_criteria.flags`.
pub mod asks {
    #![allow(missing_docs, reason = "image.h describes them")]
    pub const FROM_NOT: u32 = 1 << 0;
    pub const TO_NOT: u32 = 1 << 1;
    pub const FROM_PORT: u32 = 1 << 2;
    pub const FROM_PORT_NOT: u32 = 1 << 3;
    pub const TO_PORT: u32 = 1 << 4;
    pub const TO_PORT_NOT: u32 = 1 << 5;
    pub const ICMP_TYPE: u32 = 1 << 6;
    pub const ICMP_CODE: u32 = 1 << 7;
    pub const HEADER: u32 = 1 << 8;
    pub const FRAGMENT: u32 = 1 << 9;
    pub const TOS: u32 = 1 << 10;
    pub const PRIO: u32 = 1 << 11;
    pub const TAG: u32 = 1 << 12;
    pub const TAG_NOT: u32 = 1 << 13;
    pub const CHANCE: u32 = 1 << 14;
    pub const NO_REPLY: u32 = 1 << 15;
    pub const SCTP_PORTS: u32 = 1 << 16;
}

/// `weir_fw_decision.flags`, as far as rules give them.
pub mod decision {
    #![allow(missing_docs, reason = "packet.h describes them")]
    pub const BLOCK: u32 = 1 << 0;
    pub const KEEP_STATE: u32 = 1 << 1;
    pub const LOG: u32 = 1 << 2;
    pub const LOG_ALL: u32 = 1 << 3;
    pub const ALLOW_OPTIONS: u32 = 1 << 4;
    pub const RETURN_RST: u32 = 1 << 5;
    pub const RETURN_ICMP: u32 = 1 << 6;
    pub const SLOPPY: u32 = 1 << 7;
    pub const IF_BOUND: u32 = 1 << 8;
    pub const NO_SYNC: u32 = 1 << 9;
    pub const SOURCE_TRACK: u32 = 1 << 10;
    pub const RESERVED: u32 = 1 << 11;
    pub const SET_TOS: u32 = 1 << 12;
    pub const SET_PRIO: u32 = 1 << 13;
}

/// `WEIR_FW_PLACE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
#[allow(missing_docs, reason = "image.h describes them")]
pub enum PlaceKind {
    #[default]
    Any,
    Net4,
    Range4,
    Net6,
    Range6,
    Table,
    NoRoute,
    UrpfFailed,
    Nothing,
}

/// `WEIR_FW_RULE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
#[allow(missing_docs, reason = "image.h describes them")]
pub enum RuleKind {
    #[default]
    Pass,
    Block,
    Match,
    Anchor,
    AnchorEnd,
}

/// `struct weir_fw_criteria`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "image.h describes them")]
pub struct Criteria {
    pub interfaces: u64,
    pub received: u64,
    pub from: [u32; 2],
    pub to: [u32; 2],
    pub from_port: [u16; 2],
    pub to_port: [u16; 2],
    pub probability: u32,
    pub end: u32,
    pub flags: u32,
    pub hooks: u8,
    pub protocol: u8,
    pub tcp_set: u8,
    pub tcp_mask: u8,
    pub icmp_type: u8,
    pub icmp_code: u8,
    pub tos: u8,
    pub prio: u8,
    pub from_kind: PlaceKind,
    pub to_kind: PlaceKind,
    pub tagged: u16,
}

/// `weir_fw_criteria.hooks` of a rule for both directions and both families.
pub const HOOKS_ALL: u8 = 0x33;

impl Default for Criteria {
    /// Takes every packet.
    fn default() -> Self {
        Self {
            interfaces: u64::MAX,
            received: u64::MAX,
            from: [0; 2],
            to: [0; 2],
            from_port: [0; 2],
            to_port: [0; 2],
            probability: 0,
            end: 0,
            flags: 0,
            hooks: HOOKS_ALL,
            protocol: 0,
            tcp_set: 0,
            tcp_mask: 0,
            icmp_type: 0,
            icmp_code: 0,
            tos: 0,
            prio: 0,
            from_kind: PlaceKind::Any,
            to_kind: PlaceKind::Any,
            tagged: 0,
        }
    }
}

impl Criteria {
    /// Appends the struct.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for word in [self.interfaces, self.received] {
            out.extend(word.to_ne_bytes());
        }
        for word in [self.from, self.to].as_flattened() {
            out.extend(word.to_ne_bytes());
        }
        for port in [self.from_port, self.to_port].as_flattened() {
            out.extend(port.to_ne_bytes());
        }
        for word in [self.probability, self.end, self.flags] {
            out.extend(word.to_ne_bytes());
        }
        out.extend([self.hooks, self.protocol, self.tcp_set, self.tcp_mask]);
        out.extend([self.icmp_type, self.icmp_code, self.tos, self.prio]);
        out.extend([self.from_kind as u8, self.to_kind as u8]);
        out.extend(self.tagged.to_ne_bytes());
        assert_eq!(out.len() - start, RULE_BYTES, "criteria are one line");
    }
}

/// `struct weir_fw_rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "image.h describes them")]
pub struct Rule {
    pub id: u32,
    pub decision: u32,
    pub counters_at: u32,
    pub number: u32,
    pub anchor: u32,
    pub state_max: u32,
    pub routing_table: u32,
    pub kind: RuleKind,
    pub quick: bool,
    pub log: u8,
    pub profile: u8,
    pub rst_ttl: u8,
    pub icmp_code: [u8; 2],
    pub tos: u8,
    pub prio: [u8; 2],
    pub tag: u16,
    pub overload: u16,
    pub source_flags: u8,
    pub answers: u8,
    pub source_states_max: u32,
    pub source_nodes_max: u32,
    pub source_conn_max: u32,
    pub source_rate_count: u32,
    pub source_rate_s: u32,
}

impl Rule {
    /// Appends the struct.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for word in [
            self.id,
            self.decision,
            self.counters_at,
            self.number,
            self.anchor,
            self.state_max,
            self.routing_table,
        ] {
            out.extend(word.to_ne_bytes());
        }
        out.extend([self.kind as u8, u8::from(self.quick), self.log, self.profile]);
        out.extend([self.rst_ttl, self.icmp_code[0], self.icmp_code[1], self.tos]);
        out.extend(self.prio);
        out.extend(self.tag.to_ne_bytes());
        out.extend(self.overload.to_ne_bytes());
        out.extend([self.source_flags, self.answers]);
        for word in [
            self.source_states_max,
            self.source_nodes_max,
            self.source_conn_max,
            self.source_rate_count,
            self.source_rate_s,
        ] {
            out.extend(word.to_ne_bytes());
        }
        assert_eq!(out.len() - start, RULE_BYTES, "a rule is one line");
    }
}

/// `struct weir_fw_image`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "image.h describes them")]
pub struct Header {
    pub flags: u32,
    pub rule_count: u32,
    pub judged: [u64; 2],
    pub skipped: u64,
    pub tables_at: u32,
    pub table_count: u32,
    pub counters_at: u32,
    pub id_count: u32,
    pub classes_at: u32,
    pub criteria_at: u32,
    pub rules_at: u32,
    pub bytes: u32,
    pub profiles_at: u32,
    pub profile_count: u32,
}

/// What a ruleset says beside its rules, as far as packets are judged by it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `set limit states`, reserved ones included.
    pub state_limit: u32,
    /// `set state-reserve`
    pub reserved_count: u32,
    /// `set limit src-nodes`; 0: 10000
    pub source_limit: u32,
    /// `adaptive.start` and `adaptive.end`, states.
    pub adaptive: [u32; 2],
    /// Timeout tables in ticks; the first is that of `set timeout`.
    pub profiles: Vec<[u32; 16]>,
}

/// Offset of [`Header::tables_at`] in the image.
pub const TABLES_FIELD_AT: u32 = 40;
/// Offset of [`Header::table_count`] in the image.
pub const TABLE_COUNT_FIELD_AT: u32 = 44;

impl Header {
    /// The struct's bytes.
    #[must_use]
    pub fn to_bytes(&self, settings: &Settings) -> Vec<u8> {
        let mut out = Vec::with_capacity(IMAGE_BYTES);
        for word in [MAGIC, VERSION, self.flags, self.rule_count] {
            out.extend(word.to_ne_bytes());
        }
        for word in [self.judged[0], self.judged[1], self.skipped] {
            out.extend(word.to_ne_bytes());
        }
        for word in [
            self.tables_at,
            self.table_count,
            self.counters_at,
            self.id_count,
            self.classes_at,
            self.criteria_at,
            self.rules_at,
            self.bytes,
            self.profiles_at,
            self.profile_count,
            settings.state_limit,
            settings.reserved_count,
            settings.source_limit,
            settings.adaptive[0],
            settings.adaptive[1],
        ] {
            out.extend(word.to_ne_bytes());
        }
        out.resize(IMAGE_BYTES, 0);
        out
    }
}

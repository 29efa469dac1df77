//! The bytes of a compiled ruleset: the structs of `bpf/include/weir/fw/image.h`, field by field.

use weir_bpf::firewall::layout::{
    HOOKS_FAMILY_SHIFT, IMAGE_MAGIC, IMAGE_VERSION, POOL_GATEWAY_COUNT_MAX, TIMEOUT_COUNT, choice,
    counted, criteria, direction, family, gateways, image, owner, place, rule, rule_kind, share,
    target, translation,
};
use weir_rules::value::MapEPortSet;

pub use weir_bpf::firewall::layout::{
    asks, decision_flags as decision, image_flags, owner_how as ids,
};

/// Size of `struct weir_fw_image`.
pub(crate) const IMAGE_BYTES: usize = image::SIZE_BYTES as usize;
/// Size of `struct weir_fw_criteria`, and of `struct weir_fw_rule`.
pub const RULE_BYTES: usize = criteria::SIZE_BYTES as usize;
const _: () = assert!(criteria::SIZE_BYTES == rule::SIZE_BYTES, "both are one line");

/// `WEIR_FW_PLACE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PlaceKind {
    #[default]
    Any = place::ANY,
    Net4 = place::NET4,
    Range4 = place::RANGE4,
    Net6 = place::NET6,
    Range6 = place::RANGE6,
    Table = place::TABLE,
    NoRoute = place::NO_ROUTE,
    UrpfFailed = place::URPF_FAILED,
    Nothing = place::NOTHING,
}

/// `WEIR_FW_RULE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum RuleKind {
    #[default]
    Pass = rule_kind::PASS,
    Block = rule_kind::BLOCK,
    Match = rule_kind::MATCH,
    Anchor = rule_kind::ANCHOR,
    AnchorEnd = rule_kind::ANCHOR_END,
    Translate = rule_kind::TRANSLATE,
}

/// `WEIR_FW_CHOICE_*`: which address of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Choice {
    #[default]
    First = choice::FIRST,
    RoundRobin = choice::ROUND_ROBIN,
    Random = choice::RANDOM,
    SourceHash = choice::SOURCE_HASH,
    Bitmask = choice::BITMASK,
    LeastStates = choice::LEAST_STATES,
}

/// `struct weir_fw_criteria`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// `weir_fw_criteria.hooks`: the directions and the families that a rule is for.
pub(crate) mod hooks {
    use super::{HOOKS_FAMILY_SHIFT, direction, family};

    pub(crate) const IN: u8 = 1 << direction::IN;
    pub(crate) const OUT: u8 = 1 << direction::OUT;
    pub(crate) const INET: u8 = 1 << HOOKS_FAMILY_SHIFT << family::INET;
    pub(crate) const INET6: u8 = 1 << HOOKS_FAMILY_SHIFT << family::INET6;
    pub(crate) const ALL: u8 = IN | OUT | INET | INET6;
}

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
            hooks: hooks::ALL,
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

/// The bytes of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes<const SIZE: usize>(pub(crate) [u8; SIZE]);

impl<const SIZE: usize> Bytes<SIZE> {
    pub(crate) const fn new() -> Self {
        Self([0; SIZE])
    }

    /// Writes a field at its offset.
    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) {
        let at = at as usize;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl Criteria {
    /// Appends the struct.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut line = Bytes::<RULE_BYTES>::new();
        line.put(criteria::INTERFACES, &self.interfaces.to_ne_bytes());
        line.put(criteria::RECEIVED, &self.received.to_ne_bytes());
        line.put(criteria::FROM, self.from.map(u32::to_ne_bytes).as_flattened());
        line.put(criteria::TO, self.to.map(u32::to_ne_bytes).as_flattened());
        line.put(criteria::FROM_PORT, self.from_port.map(u16::to_ne_bytes).as_flattened());
        line.put(criteria::TO_PORT, self.to_port.map(u16::to_ne_bytes).as_flattened());
        line.put(criteria::PROBABILITY, &self.probability.to_ne_bytes());
        line.put(criteria::END, &self.end.to_ne_bytes());
        line.put(criteria::FLAGS, &self.flags.to_ne_bytes());
        line.put(criteria::HOOKS, &[self.hooks]);
        line.put(criteria::PROTOCOL, &[self.protocol]);
        line.put(criteria::TCP_SET, &[self.tcp_set]);
        line.put(criteria::TCP_MASK, &[self.tcp_mask]);
        line.put(criteria::ICMP_TYPE, &[self.icmp_type]);
        line.put(criteria::ICMP_CODE, &[self.icmp_code]);
        line.put(criteria::TOS, &[self.tos]);
        line.put(criteria::PRIO, &[self.prio]);
        line.put(criteria::FROM_KIND, &[self.from_kind as u8]);
        line.put(criteria::TO_KIND, &[self.to_kind as u8]);
        line.put(criteria::TAGGED, &self.tagged.to_ne_bytes());
        out.extend(line.0);
    }
}

/// `struct weir_fw_rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    pub gateways: u8,
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
        let mut line = Bytes::<RULE_BYTES>::new();
        line.put(rule::ID, &self.id.to_ne_bytes());
        line.put(rule::DECISION, &self.decision.to_ne_bytes());
        line.put(rule::COUNTERS_AT, &self.counters_at.to_ne_bytes());
        line.put(rule::NUMBER, &self.number.to_ne_bytes());
        line.put(rule::ANCHOR, &self.anchor.to_ne_bytes());
        line.put(rule::STATE_MAX, &self.state_max.to_ne_bytes());
        line.put(rule::ROUTING_TABLE, &self.routing_table.to_ne_bytes());
        line.put(rule::KIND, &[self.kind as u8]);
        line.put(rule::QUICK, &[u8::from(self.quick)]);
        line.put(rule::LOG, &[self.log]);
        line.put(rule::PROFILE, &[self.profile]);
        line.put(rule::RST_TTL, &[self.rst_ttl]);
        line.put(rule::ICMP_CODE, &self.icmp_code);
        line.put(rule::GATEWAYS, &[self.gateways]);
        line.put(rule::TAG, &self.tag.to_ne_bytes());
        line.put(rule::OVERLOAD, &self.overload.to_ne_bytes());
        line.put(rule::SOURCE_FLAGS, &[self.source_flags]);
        line.put(rule::ANSWERS, &[self.answers]);
        line.put(rule::SOURCE_STATES_MAX, &self.source_states_max.to_ne_bytes());
        line.put(rule::SOURCE_NODES_MAX, &self.source_nodes_max.to_ne_bytes());
        line.put(rule::SOURCE_CONN_MAX, &self.source_conn_max.to_ne_bytes());
        line.put(rule::SOURCE_RATE_COUNT, &self.source_rate_count.to_ne_bytes());
        line.put(rule::SOURCE_RATE_S, &self.source_rate_s.to_ne_bytes());
        out.extend(line.0);
    }
}

/// `struct weir_fw_target`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// As on the wire; of IPv4 the first four.
    pub(crate) addr: [u8; 16],
    pub(crate) mask: [u8; 16],
    pub(crate) reach: u64,
    pub(crate) size: u64,
}

impl Target {
    fn write(&self, out: &mut Vec<u8>) {
        let mut line = Bytes::<{ target::SIZE_BYTES as usize }>::new();
        line.put(target::ADDR, &self.addr);
        line.put(target::MASK, &self.mask);
        line.put(target::REACH, &self.reach.to_ne_bytes());
        line.put(target::SIZE, &self.size.to_ne_bytes());
        out.extend(line.0);
    }
}

/// `struct weir_fw_translation` and its targets, by family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Translation {
    pub(crate) targets: [Vec<Target>; 2],
    pub(crate) seed: u64,
    pub(crate) port: [u16; 2],
    pub(crate) port_base: u16,
    /// `map-e-portset`.
    pub(crate) port_set: Option<MapEPortSet>,
    pub(crate) flags: u8,
    pub(crate) choice: Choice,
    /// Of `af-to`: octets of IPv6 destinations before the IPv4 address in them.
    pub(crate) prefix_octets: Option<u8>,
}

impl Translation {
    /// Appends the targets and then the struct, of which it gives the place.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> u32 {
        let place = |out: &Vec<u8>| u32::try_from(out.len()).unwrap_or(u32::MAX);
        let targets_at = self.targets.each_ref().map(|targets| {
            let at = place(out);
            targets.iter().for_each(|target| target.write(out));
            at
        });
        let count = |targets: &Vec<Target>| u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let counts = self.targets.each_ref().map(count);
        let totals = self.targets.each_ref().map(|all| all.last().map_or(0, |last| last.reach));
        let mut line = Bytes::<{ translation::SIZE_BYTES as usize }>::new();
        line.put(translation::TARGETS_AT, targets_at.map(u32::to_ne_bytes).as_flattened());
        line.put(translation::TARGET_COUNT, counts.map(u32::to_ne_bytes).as_flattened());
        line.put(translation::TOTAL, totals.map(u64::to_ne_bytes).as_flattened());
        line.put(translation::SEED, &self.seed.to_ne_bytes());
        line.put(translation::PORT, self.port.map(u16::to_ne_bytes).as_flattened());
        if let Some(MapEPortSet { offset, length, id }) = self.port_set {
            let block_shift = 16_u8.saturating_sub(offset);
            let id_shift = block_shift.saturating_sub(length);
            let id_bits = u32::from(id) & ((1 << length.min(16)) - 1);
            let port = u16::try_from(id_bits << id_shift).unwrap_or(0);
            let count = ((1_u32 << offset.min(16)) - 1) << id_shift;
            line.put(translation::PORT, [port, 0].map(u16::to_ne_bytes).as_flattened());
            line.put(translation::BLOCK_SHIFT, &[block_shift]);
            line.put(translation::ID_SHIFT, &[id_shift]);
            line.put(translation::PORT_COUNT, &count.to_ne_bytes());
        }
        line.put(translation::PORT_BASE, &self.port_base.to_ne_bytes());
        line.put(translation::FLAGS, &[self.flags]);
        line.put(translation::CHOICE, &[self.choice as u8]);
        line.put(translation::PREFIX_OCTETS, &[self.prefix_octets.unwrap_or(0)]);
        let at = place(out);
        out.extend(line.0);
        at
    }
}

/// A pool's gateways of one family, `POOL_GATEWAY_COUNT_MAX` at most, and their turns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shares {
    /// Network by network, the numbers of the gateways.
    pub(crate) numbers: Vec<u8>,
    /// Of each network: the turns of it and of those before it, and how many gateways it has.
    shares: Vec<(u32, u8)>,
}

impl Shares {
    /// Appends a network, of which each gateway has as many turns as it weighs.
    pub(crate) fn add(&mut self, numbers: impl IntoIterator<Item = u8>, weight: u16) {
        let before = self.shares.last().map_or(0, |share| share.0);
        let start = self.numbers.len();
        self.numbers.extend(numbers);
        let count = u8::try_from(self.numbers.len() - start).unwrap_or(u8::MAX);
        self.shares.push((before + u32::from(count) * u32::from(weight), count));
    }

    /// `number`, and the `struct weir_fw_share` of each network.
    fn put(&self, line: &mut Bytes<GATEWAYS_BYTES>, family: u32) {
        line.put(gateways::NUMBER + family * POOL_GATEWAY_COUNT_MAX, &self.numbers);
        let mut at = gateways::SHARE + family * POOL_GATEWAY_COUNT_MAX * share::SIZE_BYTES;
        let mut first = 0;
        for (reach, count) in &self.shares {
            line.put(at + share::REACH, &reach.to_ne_bytes());
            line.put(at + share::FIRST, &[first]);
            line.put(at + share::COUNT, &[*count]);
            first += count;
            at += share::SIZE_BYTES;
        }
    }
}

/// Size of `struct weir_fw_gateways`.
const GATEWAYS_BYTES: usize = gateways::SIZE_BYTES as usize;

/// `struct weir_fw_gateways`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Gateways {
    pub(crate) families: [Shares; 2],
    pub(crate) is_reply: bool,
    pub(crate) is_socket: bool,
    pub(crate) choice: Choice,
    pub(crate) seed: u64,
    /// The typed table of its next hops: the index in the directory + 1; 0: none.
    pub(crate) table: u32,
}

impl Gateways {
    /// Appends the struct.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut line = Bytes::<GATEWAYS_BYTES>::new();
        for (at, shares) in (0..).zip(&self.families) {
            shares.put(&mut line, at);
        }
        let count = |family: &Shares| u8::try_from(family.shares.len()).unwrap_or(0);
        line.put(gateways::COUNT, &self.families.each_ref().map(count));
        line.put(gateways::IS_REPLY, &[u8::from(self.is_reply)]);
        line.put(gateways::IS_SOCKET, &u32::from(self.is_socket).to_ne_bytes());
        line.put(gateways::CHOICE, &[self.choice as u8]);
        line.put(gateways::SEED, &self.seed.to_ne_bytes());
        line.put(gateways::TABLE, &self.table.to_ne_bytes());
        out.extend(line.0);
    }
}

/// Users or groups of `struct weir_fw_owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ids {
    /// First and last.
    pub(crate) range: [u32; 2],
    /// `WEIR_FW_OWNER_*`
    pub(crate) how: u32,
}

/// `struct weir_fw_owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) user: Ids,
    pub(crate) group: Ids,
    /// The number of its set of operating systems, from 1; 0: any.
    pub(crate) systems: u32,
}

impl Owner {
    /// Whether it is about sockets.
    pub(crate) fn is_of_socket(&self) -> bool {
        self.user.how != 0 || self.group.how != 0
    }

    /// Appends the struct; its set of systems stands at an offset of the image.
    pub(crate) fn write(&self, systems_at: u32, out: &mut Vec<u8>) {
        let mut line = Bytes::<{ owner::SIZE_BYTES as usize }>::new();
        line.put(owner::SYSTEMS_AT, &systems_at.to_ne_bytes());
        line.put(owner::USER, self.user.range.map(u32::to_ne_bytes).as_flattened());
        line.put(owner::GROUP, self.group.range.map(u32::to_ne_bytes).as_flattened());
        line.put(owner::USER_HOW, &self.user.how.to_ne_bytes());
        line.put(owner::GROUP_HOW, &self.group.how.to_ne_bytes());
        out.extend(line.0);
    }
}

/// `struct weir_fw_counted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    /// The table's number; 0: none.
    pub(crate) table: u32,
    /// In the directory.
    pub(crate) index: u32,
    /// `!`
    pub(crate) is_not: bool,
}

impl Counted {
    /// Appends the struct.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut line = Bytes::<{ counted::SIZE_BYTES as usize }>::new();
        line.put(counted::TABLE, &self.table.to_ne_bytes());
        line.put(counted::INDEX, &self.index.to_ne_bytes());
        line.put(counted::IS_NOT, &u32::from(self.is_not).to_ne_bytes());
        out.extend(line.0);
    }
}

/// `struct weir_fw_image`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    pub translations_at: u32,
    /// Where the lists `rdr`, `binat` in, `binat` out and `nat` end.
    pub list_ends: [u32; 4],
    /// Where `scrub` ends, which stands there twice.
    pub scrub_end: u32,
    pub scrubs_at: u32,
    pub gateways_at: u32,
    pub owners_at: u32,
    pub systems_at: u32,
    pub counted_at: u32,
    pub rates_at: u32,
    pub copies_at: u32,
    pub typed_at: u32,
    pub limiters_at: u32,
    pub limited_at: u32,
    pub limiter_counts_at: u32,
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
    /// `set syncookies adaptive`: from how many half-open states on, and until how few.
    pub flood: [u32; 2],
    /// Timeout tables in ticks; the first is that of `set timeout`.
    pub profiles: Vec<[u32; TIMEOUT_COUNT]>,
}

impl Header {
    /// The struct's bytes.
    #[must_use]
    pub fn to_bytes(&self, settings: &Settings) -> [u8; IMAGE_BYTES] {
        let mut head = Bytes::<IMAGE_BYTES>::new();
        head.put(image::JUDGED, self.judged.map(u64::to_ne_bytes).as_flattened());
        head.put(image::SKIPPED, &self.skipped.to_ne_bytes());
        for (at, word) in [
            (image::MAGIC, IMAGE_MAGIC),
            (image::VERSION, IMAGE_VERSION),
            (image::FLAGS, self.flags),
            (image::RULE_COUNT, self.rule_count),
            (image::TABLES_AT, self.tables_at),
            (image::TABLE_COUNT, self.table_count),
            (image::COUNTERS_AT, self.counters_at),
            (image::ID_COUNT, self.id_count),
            (image::CLASSES_AT, self.classes_at),
            (image::CRITERIA_AT, self.criteria_at),
            (image::RULES_AT, self.rules_at),
            (image::BYTES, self.bytes),
            (image::PROFILES_AT, self.profiles_at),
            (image::PROFILE_COUNT, self.profile_count),
            (image::TRANSLATIONS_AT, self.translations_at),
            (image::RDR_END, self.list_ends[0]),
            (image::BINAT_IN_END, self.list_ends[1]),
            (image::BINAT_OUT_END, self.list_ends[2]),
            (image::NAT_END, self.list_ends[3]),
            (image::SCRUB_END, self.scrub_end),
            (image::SCRUBS_AT, self.scrubs_at),
            (image::GATEWAYS_AT, self.gateways_at),
            (image::OWNERS_AT, self.owners_at),
            (image::SYSTEMS_AT, self.systems_at),
            (image::COUNTED_AT, self.counted_at),
            (image::RATES_AT, self.rates_at),
            (image::COPIES_AT, self.copies_at),
            (image::TYPED_AT, self.typed_at),
            (image::LIMITERS_AT, self.limiters_at),
            (image::LIMITED_AT, self.limited_at),
            (image::LIMITER_COUNTS_AT, self.limiter_counts_at),
            (image::STATE_LIMIT, settings.state_limit),
            (image::RESERVED_COUNT, settings.reserved_count),
            (image::SOURCE_LIMIT, settings.source_limit),
            (image::ADAPTIVE_START, settings.adaptive[0]),
            (image::ADAPTIVE_END, settings.adaptive[1]),
            (image::FLOOD_FROM, settings.flood[0]),
            (image::FLOOD_UNTIL, settings.flood[1]),
        ] {
            head.put(at, &word.to_ne_bytes());
        }
        head.0
    }
}

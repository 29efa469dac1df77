//! The syntax tree: what was written, macros replaced, lists not yet multiplied, names not yet
//! looked up. Every part that a message may point at keeps its span.

use std::net::IpAddr;

use crate::dialect::Dialect;
use crate::source::Span;
use crate::value::{
    Af, BlockReturn, Direction, Divert, KeepState, LimiterKind, Log, MapEPortSet, Modifiers,
    Operator, PoolKind, Rate, RouteKind, RuleOptions, Setting, Spanned, Text,
};

/// A whole file with what it includes.
#[derive(Debug, Clone, Default)]
pub struct Ast {
    /// The dialect it was read in.
    pub dialect: Dialect,
    /// In order; the statements of an included file follow its `include`.
    pub statements: Vec<Statement>,
    /// All macros with their uses, in the order of their definitions.
    pub macros: Vec<Macro>,
    /// What was read although a system's grammar has it otherwise ([`crate::system`]).
    pub oddities: Vec<(Span, Oddity)>,
}

/// What the parser passes over, and pfctl does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// A comma without an item before or behind it.
    Comma,
    /// `log` or `quick` a second time.
    LogTwice,
    /// `set prio` and its like a second time.
    SetTwice,
    /// A route in front of the family, the protocol or the addresses.
    RouteFirst,
}

/// One statement.
#[derive(Debug, Clone)]
pub struct Statement {
    /// From its first word to its last.
    pub span: Span,
    /// What it is.
    pub kind: StatementKind,
}

/// The kinds of statements.
#[derive(Debug, Clone)]
pub enum StatementKind {
    /// `name = value`: index in [`Ast::macros`].
    Macro(usize),
    /// `include "path"`
    Include(Spanned<Text>),
    /// `set ...`; one with a list in braces is several.
    Set(Vec<Setting>),
    /// `table <name> ...`
    Table(Table),
    /// A filter, scrub or translation rule.
    Rule(Box<Rule>),
    /// `antispoof for ...`
    Antispoof(Box<Antispoof>),
    /// `anchor`, `nat-anchor`, `rdr-anchor`, `binat-anchor`, `ether anchor`.
    Anchor(Box<Anchor>),
    /// `load anchor name from file`
    LoadAnchor {
        /// Path of the anchor.
        name: Spanned<Text>,
        file: Spanned<Text>,
    },
    /// `ether ...` (FreeBSD).
    Ether(Box<EtherRule>),
    /// `altq on ...` (FreeBSD).
    Altq(Box<Altq>),
    /// `queue ...` of either dialect.
    Queue(Box<Queue>),
    /// `state limiter`, `source limiter`.
    Limiter(Box<Limiter>),
}

#[derive(Debug, Clone)]
pub struct Macro {
    pub name: Spanned<Text>,
    /// Its value, words joined by one blank.
    pub value: Spanned<Text>,
    /// Where it is used.
    pub uses: Vec<Span>,
    /// Given on the command line (`-D`), which a definition in the file does not change.
    pub is_fixed: bool,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub name: Spanned<Text>,
    /// It cannot be changed later.
    pub is_const: bool,
    /// It stays when no rule uses it.
    pub is_persist: bool,
    /// Its entries count packets.
    pub has_counters: bool,
    /// Lists and files, in order.
    pub sources: Vec<TableSource>,
    /// It has typed keys, with values.
    pub typed: Option<TypedTable>,
}

/// What a `table` statement says of a typed table.
#[derive(Debug, Clone, Copy)]
pub struct TypedTable {
    pub shape: crate::typed::Shape,
    /// Entries that it may have.
    pub limit: Option<u32>,
}

/// Where a table's entries come from.
#[derive(Debug, Clone)]
pub enum TableSource {
    /// A list in braces.
    List(Vec<Host>),
    File(Spanned<Text>),
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `pass`
    Pass,
    /// `block`; `None` is `set block-policy`.
    Block(Option<BlockReturn>),
    /// `match`
    Match,
    /// `scrub` and `no scrub` (FreeBSD).
    Scrub {
        /// `no scrub`
        no: bool,
    },
    /// `nat`, `rdr`, `binat` and their `no` forms (FreeBSD).
    Translate {
        /// Which.
        kind: Translation,
        /// `no nat`
        no: bool,
        /// `nat pass`: the packet is passed without a filter rule.
        pass: bool,
    },
}

/// Kinds of translation rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Translation {
    /// `nat`
    Nat,
    /// `rdr`
    Rdr,
    /// `binat`
    Binat,
}

impl Translation {
    /// The word in front of a rule.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Rdr => "rdr",
            Self::Binat => "binat",
        }
    }
}

/// A rule with its lists.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it does, and the word that says so.
    pub action: Spanned<Action>,
    /// What it looks at and carries.
    pub filter: Filter,
    /// The pool after `->` of an old translation rule.
    pub target: Option<Pool>,
}

/// What rules and anchors have in common.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// `in` or `out`.
    pub direction: Option<Direction>,
    /// `log`
    pub log: Option<Log>,
    /// `quick`
    pub quick: bool,
    /// `on`; empty for any.
    pub interfaces: Vec<Interface>,
    /// `on [!] rdomain` (OpenBSD).
    pub rdomain: Option<(bool, u32)>,
    /// `inet`, `inet6`
    pub af: Option<Spanned<Af>>,
    /// `proto`; empty for any.
    pub protocols: Vec<Spanned<Name>>,
    /// `from`
    pub from: Peer,
    /// `os`, after `from`; empty for any.
    pub os: Vec<Spanned<Text>>,
    /// `to`
    pub to: Peer,
    /// `user`
    pub users: Vec<IdComparison>,
    /// `group`
    pub groups: Vec<IdComparison>,
    /// `icmp-type` and `icmp6-type`
    pub icmp: Vec<IcmpType>,
    /// `received-on`
    pub received_on: Option<Interface>,
    /// Everything that no list multiplies.
    pub options: RuleOptions,
    /// `divert-to host`, which has to be resolved; the port is in `options`.
    pub divert_host: Option<Host>,
    /// The port of a divert by name, which has to be looked up; it is 0 in `options`.
    pub divert_port: Option<Spanned<Name>>,
    /// Where words of the options are, for messages.
    pub option_spans: Vec<(&'static str, Span)>,
    /// `route-to` and its like.
    pub route: Option<Route>,
    /// `nat-to`, `rdr-to`, `binat-to`, `af-to`
    pub translations: Vec<TranslateTo>,
}

impl Filter {
    /// Where the option `name` stands.
    #[must_use]
    pub(crate) fn option_span(&self, name: &str) -> Option<Span> {
        self.option_spans.iter().find(|(word, _)| *word == name).map(|(_, span)| *span)
    }
}

/// A name or a number: a protocol, a port, a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// To be looked up.
    Name(Text),
    /// As it is.
    Number(u64),
}

/// An interface or a group of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Every interface but this.
    pub not: bool,
    pub name: Spanned<Text>,
    /// `(if)`, in `antispoof` alone.
    pub is_dynamic: bool,
}

/// One end of a packet.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Empty for any.
    pub hosts: Vec<Host>,
    /// Empty for any.
    pub ports: Vec<PortComparison>,
}

/// An address as written.
#[derive(Debug, Clone)]
pub struct Host {
    /// The words.
    pub span: Span,
    /// `!`
    pub not: bool,
    /// What it is.
    pub kind: HostKind,
    /// `/bits`
    pub bits: Option<u8>,
    /// `weight`, in a pool of OpenBSD's.
    pub weight: Option<u16>,
}

/// The forms of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// `any`
    Any,
    /// `no-route`
    NoRoute,
    /// `urpf-failed`
    UrpfFailed,
    /// An address, with `%scope`.
    Address(IpAddr, Option<Text>),
    /// `a - b`
    Range(IpAddr, IpAddr),
    /// `<table>`
    Table(Text),
    /// An interface, a group, `self` or a host name; what it is shows when it is looked up.
    Name(Text, Modifiers),
    /// `(interface)`
    Dynamic(Text, Modifiers),
    /// `route label` (OpenBSD).
    RouteLabel(Text),
}

/// A comparison of ports, before names are looked up.
#[derive(Debug, Clone)]
pub struct PortComparison {
    /// The words.
    pub span: Span,
    /// How.
    pub operator: Operator,
    /// The port, or the lower end.
    pub first: Name,
    /// The upper end of two; `first` otherwise.
    pub second: Name,
}

/// A comparison of users or groups.
#[derive(Debug, Clone)]
pub struct IdComparison {
    /// The words.
    pub span: Span,
    /// How.
    pub operator: Operator,
    /// The identifier, or the lower end.
    pub first: Name,
    /// The upper end of two; `first` otherwise.
    pub second: Name,
}

/// An ICMP type with its code.
#[derive(Debug, Clone)]
pub struct IcmpType {
    /// The words.
    pub span: Span,
    /// Of `icmp6-type`.
    pub is_icmp6: bool,
    /// The type.
    pub kind: u8,
    pub code: Option<u8>,
}

/// A pool of addresses.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The words.
    pub span: Span,
    /// The addresses; of a route, each with an interface.
    pub hosts: Vec<PoolHost>,
    /// `port a[:b]`
    pub ports: Option<PoolPorts>,
    /// How it picks.
    pub kind: Option<Spanned<PoolKind>>,
    /// One source keeps its address.
    pub sticky: bool,
    /// Ports stay as they are.
    pub static_port: Option<Span>,
    /// Ports of a MAP-E customer edge.
    pub map_e: Option<Spanned<MapEPortSet>>,
    /// Options of the endpoint (FreeBSD's `endpoint-independent`).
    pub endpoint_independent: bool,
}

/// An address in a pool.
#[derive(Debug, Clone)]
pub struct PoolHost {
    /// The interface of a route.
    pub interface: Option<Spanned<Text>>,
    /// The address; a route may do without.
    pub host: Option<Host>,
}

/// Ports of a pool.
#[derive(Debug, Clone)]
pub struct PoolPorts {
    /// The words.
    pub span: Span,
    pub first: Name,
    pub last: PoolPortEnd,
}

/// How a range of ports of a pool ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolPortEnd {
    /// One port alone.
    None,
    /// `:b`
    Port(Name),
    /// `:*`: as far as the range that is redirected.
    Star,
}

/// `route-to`, `reply-to`, `dup-to`.
#[derive(Debug, Clone)]
pub struct Route {
    /// Which.
    pub kind: Spanned<RouteKind>,
    /// Where to.
    pub pool: Pool,
}

/// `nat-to` and its like.
#[derive(Debug, Clone)]
pub struct TranslateTo {
    /// Which, with its word.
    pub kind: Spanned<TranslateToKind>,
    /// The new address: of `af-to`, the source.
    pub pool: Pool,
    /// The destination of `af-to`.
    pub to: Option<Pool>,
}

/// The new forms of translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranslateToKind {
    /// `nat-to`
    Nat,
    /// `rdr-to`
    Rdr,
    /// `binat-to`
    Binat,
    /// `af-to`, to this family.
    Af(Af),
}

/// `antispoof`.
#[derive(Debug, Clone)]
pub struct Antispoof {
    /// `log`
    pub log: Option<Log>,
    /// `quick`
    pub quick: bool,
    pub interfaces: Vec<Interface>,
    /// `inet`, `inet6`
    pub af: Option<Af>,
    /// `label`
    pub labels: Vec<Text>,
    /// `ridentifier`
    pub ridentifier: Option<u32>,
    /// `rtable`
    pub rtable: Option<u32>,
}

/// Which rules an anchor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnchorKind {
    /// `anchor`
    Filter,
    /// `nat-anchor`, `rdr-anchor`, `binat-anchor`
    Translate(Translation),
    /// `ether anchor`
    Ether,
}

#[derive(Debug, Clone)]
pub struct Anchor {
    /// Which rules.
    pub kind: AnchorKind,
    /// Its path; `None` for one without a name.
    pub name: Option<Spanned<Text>>,
    /// When it is entered.
    pub filter: Filter,
    /// Layer 2 conditions of an `ether anchor`.
    pub ether: Option<EtherFilter>,
    /// The rules in braces.
    pub body: Option<Vec<Statement>>,
}

/// What a layer 2 rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EtherAction {
    /// `pass`
    Pass,
    /// `block`
    Block,
    /// `match`
    Match,
}

/// A layer 2 rule (FreeBSD).
#[derive(Debug, Clone)]
pub struct EtherRule {
    /// What it does.
    pub action: EtherAction,
    /// When.
    pub filter: EtherFilter,
}

/// Conditions and options of a layer 2 rule.
#[derive(Debug, Clone, Default)]
pub struct EtherFilter {
    /// `in` or `out`.
    pub direction: Option<Direction>,
    /// `quick`
    pub quick: bool,
    /// `on`
    pub interfaces: Vec<Interface>,
    /// `bridge-to`
    pub bridge_to: Option<Text>,
    /// Ether types.
    pub protocols: Vec<u16>,
    /// `from`
    pub from: Vec<MacHost>,
    /// `to`
    pub to: Vec<MacHost>,
    /// `l3 from`
    pub l3_from: Vec<Host>,
    /// `l3 to`
    pub l3_to: Vec<Host>,
    /// `tag`, `tagged`, `queue`, `label`, `ridentifier`, `dnpipe`
    pub options: RuleOptions,
}

/// A MAC address with a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacHost {
    /// `!`
    pub not: bool,
    pub address: [u8; 6],
    pub mask: [u8; 6],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bandwidth {
    /// Bits per second.
    Absolute(u64),
    /// Percent of the parent.
    Percent(u8),
}

/// An ALTQ discipline (FreeBSD) with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// `cbq`, `priq`, `hfsc`, `fairq`, `codel`
    pub name: &'static str,
    /// Flags among [`crate::names::SCHEDULER_FLAGS`], sorted as they are there.
    pub flags: Vec<&'static str>,
    /// Curves and numbers, as `realtime (1Mb 10 2Mb)`, in the order of writing.
    pub curves: Vec<(&'static str, ServiceCurve)>,
    /// `buckets`, `target`, `interval`, `hogs`
    pub numbers: Vec<(&'static str, u64)>,
}

/// A service curve: first slope, its length, second slope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceCurve {
    /// First slope and its length in milliseconds, if there are two.
    pub first: Option<(Bandwidth, u32)>,
    /// The lasting slope.
    pub second: Bandwidth,
}

/// `altq on ...`.
#[derive(Debug, Clone)]
pub struct Altq {
    pub interfaces: Vec<Interface>,
    /// The discipline.
    pub scheduler: Option<Scheduler>,
    /// `bandwidth`
    pub bandwidth: Option<Bandwidth>,
    /// `qlimit`, in packets.
    pub queue_limit: Option<u32>,
    /// `tbrsize`, in bytes.
    pub token_bucket_size_bytes: Option<u32>,
    pub queues: Vec<Spanned<Text>>,
}

/// `queue ...`: FreeBSD's ALTQ queues and OpenBSD's.
#[derive(Debug, Clone)]
pub struct Queue {
    pub name: Spanned<Text>,
    /// `on`
    pub interfaces: Vec<Interface>,
    /// `parent` (OpenBSD).
    pub parent: Option<Spanned<Text>>,
    /// `bandwidth` (linkshare in OpenBSD).
    pub bandwidth: Option<QueueRate>,
    /// `min` (OpenBSD).
    pub min: Option<QueueRate>,
    /// `max` (OpenBSD).
    pub max: Option<QueueRate>,
    /// `priority` (FreeBSD).
    pub priority: Option<u32>,
    /// `qlimit`, in packets.
    pub queue_limit: Option<u32>,
    /// `default` (OpenBSD).
    pub is_default: bool,
    /// `flows` (OpenBSD).
    pub flow_count: Option<u32>,
    /// `quantum`, in bytes (OpenBSD).
    pub quantum_bytes: Option<u32>,
    /// `interval`, in milliseconds (OpenBSD).
    pub interval_ms: Option<u32>,
    /// `target`, in milliseconds (OpenBSD).
    pub target_ms: Option<u32>,
    /// The discipline (FreeBSD).
    pub scheduler: Option<Scheduler>,
    /// Its queues (FreeBSD).
    pub queues: Vec<Spanned<Text>>,
}

/// A rate with a burst: `10M burst 90M for 100ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRate {
    /// The lasting rate.
    pub rate: Bandwidth,
    /// The burst and its length in milliseconds.
    pub burst: Option<(Bandwidth, u32)>,
}

/// A limiter of states or sources.
#[derive(Debug, Clone)]
pub struct Limiter {
    /// What it counts.
    pub kind: LimiterKind,
    pub name: Spanned<Text>,
    /// Its number.
    pub id: u32,
    /// `entries` of a source limiter: sources.
    pub entries: Option<u32>,
    /// `limit`: states, of each source if it is one of sources.
    pub limit: Option<u32>,
    /// `rate`
    pub rate: Option<Rate>,
    /// `inet mask`
    pub inet_bits: Option<u8>,
    /// `inet6 mask`
    pub inet6_bits: Option<u8>,
    /// `table <name> above n below n`
    pub table: Option<LimiterTable>,
}

/// The table that a source limiter fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimiterTable {
    /// The table.
    pub name: Text,
    /// Entered above this many states.
    pub above: u32,
    /// Left below this many.
    pub below: Option<u32>,
}

impl KeepState {
    /// The words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no state",
            Self::Keep => "keep state",
            Self::Modulate => "modulate state",
            Self::Synproxy => "synproxy state",
        }
    }
}

impl Divert {
    /// The port, if it has one.
    #[must_use]
    pub fn port(self) -> Option<u16> {
        match self {
            Self::To(_, port) | Self::Packet(port) => Some(port),
            Self::Reply => None,
        }
    }
}

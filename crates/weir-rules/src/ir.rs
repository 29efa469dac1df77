//! The ruleset after lookup and expansion: one value where the text had a list. The printer, the
//! checker, the optimiser, the evaluator and the data path all read this.
//!
//! Whoever compares or classifies rules destructures [`Rule`] without `..`, so that a new field
//! does not compile until it has been thought of.

use std::net::IpAddr;
use std::sync::Arc;

use crate::ast::{
    Altq, AnchorKind, Bandwidth, EtherAction, Limiter, MacHost, Macro, Queue, Translation,
};
use crate::dialect::Dialect;
use crate::fingerprint::Fingerprints;
use crate::source::Span;
use crate::value::{
    Af, BlockReturn, Comparison, Direction, KeepState, LimiterUse, Log, MapEPortSet, Modifiers,
    PoolKind, RouteKind, RuleOptions, Setting, Syncookies, Text, WeirStages,
};

/// A compiled ruleset.
#[derive(Debug, Clone, Default)]
pub struct Ruleset {
    /// The dialect it was written in: it decides the order of translation and the printed form.
    pub dialect: Dialect,
    /// Everything that is no rule, in the order of the file.
    pub prelude: Vec<Prelude>,
    /// What the `set` statements come to.
    pub settings: Settings,
    /// The tables of the main ruleset and of anchors.
    pub tables: Vec<Table>,
    /// The rules outside anchors.
    pub main: Rules,
    /// `load anchor` statements.
    pub loads: Vec<LoadAnchor>,
    /// The macros, for whoever reports on them.
    pub macros: Vec<Macro>,
    /// What `os` is looked up in; `None` if there are none.
    pub fingerprints: Option<Arc<Fingerprints>>,
}

impl Ruleset {
    /// The limiters that it defines; of several with one number the last holds.
    pub fn limiters(&self) -> impl DoubleEndedIterator<Item = &Limiter> {
        self.prelude.iter().filter_map(|prelude| match prelude {
            Prelude::Limiter(limiter) => Some(&**limiter),
            _ => None,
        })
    }

    /// The limiter that a rule names.
    #[must_use]
    pub fn limiter(&self, named: &LimiterUse) -> Option<&Limiter> {
        let is_it = |one: &&Limiter| one.kind == named.kind && Some(one.id) == named.id();
        self.limiters().rev().find(is_it)
    }
}

/// What is printed before the rules.
#[derive(Debug, Clone)]
pub enum Prelude {
    /// A macro: name and value.
    Macro(Text, Text),
    /// A setting, with its place.
    Set(Setting, Span),
    /// A table: index in [`Ruleset::tables`].
    Table(usize),
    /// An ALTQ discipline on one interface.
    Altq(Box<AltqOn>),
    Queue(Box<Queue>),
    Limiter(Box<Limiter>),
}

/// An ALTQ discipline on one interface, with the defaults that pfctl computes.
#[derive(Debug, Clone)]
pub struct AltqOn {
    /// The statement.
    pub altq: Altq,
    pub interface: Text,
    /// `bandwidth`; `None` leaves it to the interface's speed.
    pub bandwidth: Option<Bandwidth>,
    /// `tbrsize`, given or computed from the bandwidth; `None` if neither is known.
    pub token_bucket_size_bytes: Option<u32>,
}

/// `load anchor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadAnchor {
    /// Path of the anchor.
    pub name: Text,
    pub file: Text,
    /// Where it stands.
    pub span: Span,
    /// Why its file cannot be read, in the system's words.
    pub absence: Option<String>,
}

/// What the `set` statements come to, with pf's defaults where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What `block` alone does.
    pub block_policy: BlockReturn,
    /// What is sent where a rule passes a packet whose state cannot be made.
    pub fail_policy: BlockReturn,
    /// States hold on one interface.
    pub if_bound: bool,
    /// Interfaces that are not filtered.
    pub skip: Vec<Text>,
    /// Seconds, in the order of [`crate::names::TIMEOUTS`].
    pub timeouts: Vec<u32>,
    /// Counts, in the order of [`crate::names::LIMITS`].
    pub limits: Vec<u32>,
    /// Interface that is counted.
    pub log_interface: Option<Text>,
    /// Fragments are put together: not at all in FreeBSD's default, always in OpenBSD's.
    pub reassemble: bool,
    /// `set reassemble yes no-df`: fragments lose their don't-fragment bit.
    pub reassemble_no_df: bool,
    /// Buckets of the state table, weir's own; `None` leaves it to the limit of states.
    pub hash_size: Option<u32>,
    /// States, of the limit, that only rules with `reserve` may make, weir's own.
    pub state_reserve: u32,
    /// `set weir-stages`
    pub stages: WeirStages,
    /// `set syncookies`
    pub syncookies: Syncookies,
    /// `set optimization`
    pub optimization: Text,
    /// `set ruleset-optimization`
    pub ruleset_optimization: Option<Text>,
    /// `set debug`
    pub debug: Option<Text>,
    /// `set hostid`
    pub host_id: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            block_policy: BlockReturn::Drop,
            fail_policy: BlockReturn::Drop,
            if_bound: false,
            skip: Vec::new(),
            timeouts: crate::names::TIMEOUTS.iter().map(|(_, seconds)| *seconds).collect(),
            limits: crate::names::LIMITS.iter().map(|(_, count)| *count).collect(),
            log_interface: None,
            reassemble: false,
            reassemble_no_df: false,
            hash_size: None,
            state_reserve: 0,
            stages: WeirStages::default(),
            syncookies: Syncookies::Never,
            optimization: "normal".into(),
            ruleset_optimization: None,
            debug: None,
            host_id: None,
        }
    }
}

/// The rules of one ruleset or anchor, by the kind of their processing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Layer 2 rules (FreeBSD).
    pub ether: Vec<EtherRule>,
    /// `scrub` (FreeBSD).
    pub scrub: Vec<Rule>,
    /// `nat` (FreeBSD).
    pub nat: Vec<Rule>,
    /// `rdr` (FreeBSD).
    pub rdr: Vec<Rule>,
    /// `binat` (FreeBSD).
    pub binat: Vec<Rule>,
    /// `pass`, `block`, `match`, `anchor`.
    pub filter: Vec<Rule>,
}

impl Rules {
    /// The lists of rules in the order in which pfctl prints them, layer 2 left out.
    #[must_use]
    pub fn lists(&self) -> [&Vec<Rule>; 5] {
        let Self { ether: _, scrub, nat, rdr, binat, filter } = self;
        [scrub, nat, rdr, binat, filter]
    }

    /// How many rules there are, anchors included.
    #[must_use]
    pub fn count(&self) -> usize {
        let mut count = 0;
        let mut open = vec![self];
        while let Some(rules) = open.pop() {
            count += rules.ether.len();
            let bodies = rules.ether.iter().filter_map(|rule| rule.anchor.as_ref());
            open.extend(bodies.filter_map(|anchor| anchor.body.as_deref()));
            for list in rules.lists() {
                count += list.len();
                let anchors = list.iter().filter_map(|rule| rule.anchor.as_ref());
                open.extend(anchors.filter_map(|anchor| anchor.body.as_deref()));
            }
        }
        count
    }
}

/// What an expanded rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Passes.
    Pass,
    Block(BlockReturn),
    /// Matches: the options hold for what comes.
    Match,
    /// Normalises.
    Scrub,
    /// Is left as it is by `scrub` rules.
    NoScrub,
    Translate {
        /// Which way.
        kind: Translation,
        /// `no`: the packet is not translated.
        no: bool,
        /// `pass`: the packet needs no filter rule.
        pass: bool,
    },
}

/// A rule without lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The statement it comes from.
    pub span: Span,
    /// What it does.
    pub action: Action,
    /// The anchor that it enters, if it is an anchor's rule; its action is then without meaning.
    pub anchor: Option<AnchorCall>,
    /// `in` or `out`.
    pub direction: Option<Direction>,
    /// `log`
    pub log: Option<Log>,
    /// `quick`
    pub quick: bool,
    /// `on`
    pub interface: Option<Interface>,
    /// `on [!] rdomain`
    pub rdomain: Option<(bool, u32)>,
    /// `inet`, `inet6`, or as the addresses are.
    pub af: Option<Af>,
    /// IP protocol; `None` for any.
    pub protocol: Option<u8>,
    /// `from`
    pub from: Peer,
    /// `to`
    pub to: Peer,
    /// `os`
    pub os: Option<Text>,
    /// `received-on`
    pub received_on: Option<Interface>,
    /// `user`
    pub user: Option<Comparison<u32>>,
    /// `group`
    pub group: Option<Comparison<u32>>,
    /// `icmp-type`, `icmp6-type`
    pub icmp: Option<IcmpMatch>,
    /// The other options. Flags and state are explicit: `keep_state` is never `None` in a `pass`
    /// rule, and labels have their macros replaced.
    pub options: RuleOptions,
    /// New source: `nat-to`, `af-to from`, or `->` of `nat` and `binat`.
    pub nat: Option<Box<Pool>>,
    /// New destination: `rdr-to`, `af-to to`, or `->` of `rdr`.
    pub rdr: Option<Box<Pool>>,
    /// The new family of `af-to`.
    pub af_to: Option<Af>,
    /// `route-to` and its like.
    pub route: Option<Box<Route>>,
}

impl Rule {
    /// A rule that matches everything.
    #[must_use]
    pub fn new(action: Action, span: Span) -> Self {
        Self {
            span,
            action,
            anchor: None,
            direction: None,
            log: None,
            quick: false,
            interface: None,
            rdomain: None,
            af: None,
            protocol: None,
            from: Peer::default(),
            to: Peer::default(),
            os: None,
            received_on: None,
            user: None,
            group: None,
            icmp: None,
            options: RuleOptions::default(),
            nat: None,
            rdr: None,
            af_to: None,
            route: None,
        }
    }

    /// Whether it makes a state.
    #[must_use]
    pub fn keeps_state(&self) -> bool {
        let kept = self.options.keep_state;
        matches!(kept, Some(KeepState::Keep | KeepState::Modulate | KeepState::Synproxy))
    }
}

/// An anchor that a rule enters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorCall {
    /// Which rules of it.
    pub kind: AnchorKind,
    /// Its path as written: `/` in front is absolute, `/*` behind is all anchors below. `None` for
    /// one without a name.
    pub name: Option<Text>,
    /// The rules in braces.
    pub body: Option<Box<Rules>>,
}

/// An interface, a group, or all but one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Interface {
    /// All but this.
    pub not: bool,
    pub name: Text,
}

/// One end of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// `!`
    pub not: bool,
    pub address: Address,
    pub port: Option<Comparison<u16>>,
}

impl Peer {
    /// Whether any packet's end is this.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.not && self.address == Address::Any && self.port.is_none()
    }
}

/// An address after lookup.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub enum Address {
    #[default]
    Any,
    /// A network; the bits after the prefix are zero.
    Network(IpAddr, u8),
    /// From the first to the last.
    Range(IpAddr, IpAddr),
    /// A table, by name.
    Table(Text),
    /// What an interface has when the packet comes.
    Dynamic(Dynamic),
    /// Addresses without a route back.
    NoRoute,
    /// Addresses whose route goes elsewhere.
    UrpfFailed,
    /// Addresses whose route has this label.
    RouteLabel(Text),
    /// A name that could not be looked up: nothing matches it, and the ruleset cannot run.
    Unresolved(Text),
}

impl Address {
    /// The family, where the address has one of its own.
    #[must_use]
    pub fn af(&self) -> Option<Af> {
        match self {
            Self::Network(IpAddr::V4(_), _) | Self::Range(IpAddr::V4(_), _) => Some(Af::Inet),
            Self::Network(IpAddr::V6(_), _) | Self::Range(IpAddr::V6(_), _) => Some(Af::Inet6),
            _ => None,
        }
    }
}

/// `(interface)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dynamic {
    /// Interface, group or `self`.
    pub name: Text,
    /// Which of its addresses.
    pub modifiers: Modifiers,
    /// Bits of the network around each address; those over the family's width are without
    /// meaning, so 128 is the address itself.
    pub bits: u8,
}

impl Dynamic {
    /// Whether it may be several addresses: an interface's, unless `:0` says the first, or a
    /// group's, whose names do not end in a digit.
    #[must_use]
    pub(crate) fn may_be_several(&self) -> bool {
        let is_group = !self.name.ends_with(|c: char| c.is_ascii_digit());
        !self.modifiers.no_alias || is_group
    }
}

/// ICMP type and code; the family says which ICMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IcmpMatch {
    /// The type.
    pub kind: u8,
    /// The code; `None` for any.
    pub code: Option<u8>,
}

/// A pool of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The addresses, in order.
    pub hosts: Vec<PoolHost>,
    /// How it picks; `None` where there is one address.
    pub kind: Option<PoolKind>,
    /// One source keeps its address.
    pub sticky: bool,
    /// Ports: of `nat` the range to choose from, of `rdr` the new ones.
    pub ports: PoolPorts,
    /// Ports of a MAP-E customer edge.
    pub map_e: Option<MapEPortSet>,
    /// FreeBSD's `endpoint-independent`.
    pub endpoint_independent: bool,
}

/// The ports of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PoolPorts {
    /// As the kind of translation has it: [`Self::NAT`] for `nat`, unchanged for `rdr`.
    #[default]
    Default,
    /// These, both ends included.
    Range(u16, u16),
    /// `static-port`: unchanged.
    Static,
}

impl PoolPorts {
    /// Ports that `nat` chooses from where the rule does not say (`PF_NAT_PROXY_PORT_LOW` and
    /// `PF_NAT_PROXY_PORT_HIGH` of pfvar.h): first and last.
    pub const NAT: (u16, u16) = (50_001, 65_535);
}

/// One address of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolHost {
    /// The interface of a route.
    pub interface: Option<Text>,
    /// The address; a route may do without.
    pub address: Option<Address>,
    /// `weight`
    pub weight: Option<u16>,
}

/// A route of a rule's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Which.
    pub kind: RouteKind,
    /// Where to.
    pub pool: Pool,
}

/// A table with its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: Text,
    /// The anchor that it is in; empty for the main ruleset.
    pub anchor: Text,
    /// Where it is defined.
    pub span: Span,
    /// It cannot be changed later.
    pub is_const: bool,
    /// It stays when no rule uses it.
    pub is_persist: bool,
    /// Its entries count packets.
    pub has_counters: bool,
    /// Lists and files, in order.
    pub sources: Vec<TableSource>,
    /// A file of it could not be read: the table cannot run.
    pub lacks_file: bool,
    /// Names in its lists and files without an address, and where they stand: the table cannot
    /// run.
    pub unresolved: Vec<(Text, Span)>,
    /// It has typed keys, with values; [`Table::entries`] are none then.
    pub typed: Option<Arc<TypedTable>>,
}

/// A typed table with its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedTable {
    pub shape: crate::typed::Shape,
    /// Entries that it may have.
    pub limit: Option<u32>,
    /// Those of its files, in order; `None`: it names no file, and has what it had.
    pub entries: Option<Vec<(crate::typed::Key, crate::typed::Value)>>,
}

impl Table {
    /// Whether it lacks entries that it is to have.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.lacks_file || !self.unresolved.is_empty()
    }

    /// All entries, lists and files in order.
    pub fn entries(&self) -> impl Iterator<Item = &TableEntry> {
        self.sources.iter().flat_map(|source| match source {
            TableSource::List(entries) | TableSource::File(_, entries) => entries.iter(),
        })
    }
}

/// Where entries of a table come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableSource {
    /// A list in braces.
    List(Vec<TableEntry>),
    /// A file, with what it holds.
    File(Text, Vec<TableEntry>),
}

/// An entry of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableEntry {
    /// The network's address.
    pub address: IpAddr,
    /// Bits of the prefix.
    pub bits: u8,
    /// `!`: addresses here are not in the table.
    pub not: bool,
}

/// A layer 2 rule without lists (FreeBSD).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtherRule {
    /// The statement it comes from.
    pub span: Span,
    /// What it does.
    pub action: EtherAction,
    /// The anchor that it enters.
    pub anchor: Option<AnchorCall>,
    /// `in` or `out`.
    pub direction: Option<Direction>,
    /// `quick`
    pub quick: bool,
    /// `on`
    pub interface: Option<Interface>,
    /// `bridge-to`
    pub bridge_to: Option<Text>,
    /// Ether type.
    pub protocol: Option<u16>,
    /// `from`
    pub from: Option<MacHost>,
    /// `to`
    pub to: Option<MacHost>,
    /// Family of the addresses in `l3`.
    pub af: Option<Af>,
    /// `l3 from`
    pub l3_from: Peer,
    /// `l3 to`
    pub l3_to: Peer,
    /// `tag`, `tagged`, `queue`, `label`, `ridentifier`, `dnpipe`
    pub options: RuleOptions,
}

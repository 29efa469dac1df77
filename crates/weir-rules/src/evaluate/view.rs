//! What the evaluator asks of the world: states, counters, routes and chance. Everything that
//! changes from packet to packet is an argument, so that the same arguments give the same verdict.

use std::net::IpAddr;

use super::packet::Packet;
use crate::value::{LimiterUse, Rate, Text};

/// A rule of one [`super::Evaluator`]: its place among all rules in the order of compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

/// A state that a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateHit {
    /// The packet fits the state and passes without a rule.
    Pass {
        /// The rule that made the state, if it is still there.
        rule: Option<RuleId>,
        /// That rule had `allow-opts`.
        allow_opts: bool,
    },
    /// The packet has the state's addresses but does not fit it (out of the sequence window).
    Mismatch,
}

/// What is known of a source that is tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCount {
    pub state_count: u32,
}

/// A mapping that `nat` would make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// IP protocol.
    pub protocol: u8,
    /// The new source.
    pub source: IpAddr,
    /// The new source port, or the identifier of an ICMP echo.
    pub source_port: u16,
    pub destination: IpAddr,
    pub destination_port: u16,
}

/// Which end of a packet a pool gives an address to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolEnd {
    Source,
    Destination,
}

/// States and counters. Each method has the answer of an empty state table; `&mut self` lets an
/// implementation count what is asked. `now_ns` is the time of the packet, from any epoch.
pub trait StateView {
    /// The state of a packet. This is asked before any rule, with the addresses as they are on
    /// the wire.
    fn find(&mut self, _packet: &Packet, _now_ns: u64) -> Option<StateHit> {
        None
    }

    /// States that the rule has, for `max`.
    fn rule_state_count(&mut self, _rule: RuleId) -> u32 {
        0
    }

    /// A tracked source; `rule` is `None` for `source-track global`. `None` if it is not tracked.
    fn source(&mut self, _rule: Option<RuleId>, _address: IpAddr) -> Option<SourceCount> {
        None
    }

    /// Sources that the rule tracks, for `max-src-nodes`.
    fn source_count(&mut self, _rule: RuleId) -> u32 {
        0
    }

    /// Counts a packet against `max-pkt-rate`, and says whether it is over.
    fn packet_rate_exceeded(&mut self, _rule: RuleId, _rate: Rate, _now_ns: u64) -> bool {
        false
    }

    /// Whether a `once` rule has had its match. The caller marks it when the verdict is in.
    fn once_is_spent(&mut self, _rule: RuleId) -> bool {
        false
    }

    /// Whether a state or source limiter has no room for the packet.
    fn limiter_exceeded(&mut self, _limiter: &LimiterUse, _source: IpAddr, _now_ns: u64) -> bool {
        false
    }

    /// Whether no state has this mapping yet.
    fn mapping_is_free(&mut self, _mapping: &Mapping) -> bool {
        true
    }

    /// The outer end that `endpoint-independent` has given to an inner end of UDP.
    fn mapped(&mut self, _inside: (IpAddr, u16)) -> Option<(IpAddr, u16)> {
        None
    }

    /// Whether an outer end is one that `endpoint-independent` has given to somebody.
    fn is_mapped(&mut self, _outside: (IpAddr, u16)) -> bool {
        false
    }

    /// How often a pool in turn (round-robin, least-states) has given an address before: the
    /// number of the next address, counted over all addresses of the pool.
    fn turn(&mut self, _rule: RuleId) -> u64 {
        0
    }

    /// The address that a `sticky-address` pool gave this source before.
    fn sticky(&mut self, _rule: RuleId, _source: IpAddr) -> Option<IpAddr> {
        None
    }

    /// The address that a pool which chooses at random is to give, if it has it: a choice that
    /// somebody else has made.
    fn given(&mut self, _end: PoolEnd) -> Option<IpAddr> {
        None
    }

    /// The source port, or the identifier of an ICMP echo, that is to be taken where it may be
    /// chosen and is free: a choice that somebody else has made.
    fn given_port(&mut self) -> Option<u16> {
        None
    }
}

/// An empty state table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoStates;

impl StateView for NoStates {}

/// Routes, for `no-route`, `urpf-failed` and `route`.
pub trait RoutingView {
    /// Whether any route leads to the address in the routing table.
    fn has_route(&self, address: IpAddr, table: u32) -> bool;

    /// Whether the route to the address leads out of the interface.
    fn leads_out(&self, address: IpAddr, interface: &str, table: u32) -> bool;

    /// The label of the route to the address.
    fn label(&self, _address: IpAddr, _table: u32) -> Option<Text> {
        None
    }
}

/// Every address is routed, and out of every interface: `no-route` and `urpf-failed` match
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllRouted;

impl RoutingView for AllRouted {
    fn has_route(&self, _address: IpAddr, _table: u32) -> bool {
        true
    }

    fn leads_out(&self, _address: IpAddr, _interface: &str, _table: u32) -> bool {
        true
    }
}

/// A routing table as a list of prefixes, longest match first whatever their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    /// Network, its bits, and the interface.
    pub entries: Vec<(IpAddr, u8, Text)>,
}

impl Routes {
    fn best(&self, address: IpAddr) -> Option<&(IpAddr, u8, Text)> {
        let fits = |entry: &&(IpAddr, u8, Text)| super::prefix_holds(entry.0, entry.1, address);
        self.entries.iter().filter(fits).max_by_key(|entry| entry.1)
    }

    /// The interface that the route to an address leads out of.
    #[must_use]
    pub fn interface(&self, address: IpAddr) -> Option<&Text> {
        self.best(address).map(|(_, _, interface)| interface)
    }
}

impl RoutingView for Routes {
    fn has_route(&self, address: IpAddr, _table: u32) -> bool {
        self.best(address).is_some()
    }

    fn leads_out(&self, address: IpAddr, interface: &str, _table: u32) -> bool {
        self.best(address).is_some_and(|(_, _, best)| &**best == interface)
    }
}

/// Everything about a moment that a verdict depends on besides ruleset and packet.
pub struct Moment<'a> {
    /// Time of the packet in nanoseconds, from any epoch.
    pub now_ns: u64,
    /// A random number, evenly spread over all 32 bits. It is asked once for each rule with
    /// `probability` whose other criteria hold, and by pools that choose at random.
    pub random: &'a mut dyn FnMut() -> u32,
    /// States and counters.
    pub states: &'a mut dyn StateView,
    pub routes: &'a dyn RoutingView,
}

//! The state table of the reference: one record for each flow, with two halves.
//!
//! The *in-half* is made by a rule that passed the flow's packets `in`: it holds for packets of
//! the flow's direction that come in, and for answers that go out. The *out-half* is made by a
//! rule that passed them `out`, and holds for packets of the flow's direction that go out and for
//! answers that come in. Where pf has two states, this is one; verdicts are the same. A packet of
//! the other direction that makes a state of its own adds the half that is missing.
//!
//! A record is named by its flow as the box routes it: behind the translation of what comes in, and
//! before that of what goes out (pf's stack key). Each half knows the flow as it is outside (pf's
//! wire key), by which packets that come in are found. Where the two are the same nothing is
//! translated.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::key::Key;
use super::tcp::{Peer, Phase};
use super::timeout;
use crate::outcome::StateInfo;
use weir_rules::evaluate::{Actions, RouteChoice, RuleId};
use weir_rules::value::{Direction, Divert, Flush, LimiterKind, Rate, Text};
use weir_wire::protocol::{ICMP, ICMP6, TCP, UDP};

/// A rule of one load of the ruleset: states of earlier loads are no longer its own.
pub(super) type LoadedRule = (u32, RuleId);

/// What a rule limits by source, kept by the half that it made.
#[derive(Debug, Clone)]
pub(super) struct SourceLimits {
    pub(super) conn_max: Option<u32>,
    pub(super) conn_rate: Option<Rate>,
    pub(super) overload: Option<(Text, Flush)>,
    /// Where the rule's tables are looked up.
    pub(super) anchor: Text,
}

/// The address that a pool gave to a source, which keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) rule: LoadedRule,
    pub(super) source: IpAddr,
    pub(super) address: IpAddr,
}

/// What a half holds: of which limiter, and of which source if it is one of sources.
pub(super) type Held = (LimiterKind, u32, Option<IpAddr>);

/// Half of a record.
#[derive(Debug, Clone)]
pub(super) struct Half {
    /// The flow outside of the interface, in the record's direction.
    pub(super) wire: Key,
    pub(super) rule: Option<LoadedRule>,
    /// The interface that it is bound to.
    pub(super) interface: Option<Text>,
    /// Which way its first packet went.
    pub(super) direction: Direction,
    pub(super) actions: Actions,
    pub(super) route: Option<RouteChoice>,
    pub(super) divert: Option<Divert>,
    pub(super) node: Option<(NodeKey, SourceLimits)>,
    /// What it holds of limiters.
    pub(super) limited: Vec<Held>,
    /// Of a pool with `sticky-address`.
    pub(super) given: Option<Given>,
    /// Its source has one outer end for all destinations: `endpoint-independent`.
    pub(super) is_mapped: bool,
    /// The connection counts as established with its source.
    pub(super) is_counted: bool,
}

/// How a record is followed.
#[derive(Debug, Clone)]
pub(super) enum Tracking {
    /// Source, destination.
    Tcp(Peer, Peer),
    /// How much each end has sent: nothing, something, something after an answer.
    Pair(u8, u8),
    Icmp,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) halves: [Option<Half>; 2],
    pub(super) tracking: Tracking,
    pub(super) is_sloppy: bool,
    /// What is added to the numbers of either end: `modulate state`.
    pub(super) modulation: Option<[u32; 2]>,
    /// The timeouts that the rule has of its own.
    pub(super) timeouts: Vec<(u8, u32)>,
    /// Whose states adaptive timeouts of the rule's own count.
    pub(super) rule: Option<LoadedRule>,
    /// Index of the timeout that runs.
    pub(super) phase: u8,
    pub(super) touched_ns: u64,
    pub(super) packets: [u64; 2],
}

/// Which half a packet meets.
pub(super) fn half_index(direction: Direction, forward: bool) -> usize {
    usize::from((direction == Direction::In) != forward)
}

impl Half {
    /// Whether what comes in by it is for a socket of the box.
    pub(super) fn diverts(&self) -> bool {
        match self.divert {
            Some(Divert::To(..)) => self.direction == Direction::In,
            Some(Divert::Reply) => self.direction == Direction::Out,
            Some(Divert::Packet(_)) | None => false,
        }
    }
}

impl Record {
    fn has_rule(&self, rule: LoadedRule) -> bool {
        self.halves.iter().flatten().any(|half| half.rule == Some(rule))
    }

    /// What it holds of limiters.
    pub(super) fn held(&self) -> Vec<Held> {
        let halves = self.halves.iter().flatten();
        let mut all: Vec<Held> = halves.flat_map(|half| half.limited.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn rule_timeout(&self, index: u8) -> Option<u32> {
        self.timeouts.iter().find(|timeout| timeout.0 == index).map(|timeout| timeout.1)
    }

    /// By which packet that comes in a half is met.
    fn incoming(&self, index: usize) -> Option<Key> {
        let wire = self.halves[index].as_ref()?.wire;
        Some(if index == half_index(Direction::In, true) { wire } else { wire.reversed() })
    }

    /// The flow of a record in the other family, if `af-to` has given it one.
    pub(super) fn other_family(&self, key: Key) -> Option<Key> {
        let wire = self.halves[1].as_ref()?.wire;
        (wire.source.0.is_ipv4() != key.source.0.is_ipv4()).then_some(wire)
    }

    /// Whether a key is one of a half's, in either direction.
    fn is_outside(&self, key: Key) -> bool {
        let is_it = |half: &Half| half.wire == key || half.wire == key.reversed();
        self.halves.iter().flatten().any(is_it)
    }

    fn info(&self, key: &Key, expires_s: u64) -> StateInfo {
        let state = match &self.tracking {
            Tracking::Tcp(source, destination) => {
                format!("{}:{}", source.phase.as_str(), destination.phase.as_str())
            }
            Tracking::Pair(source, destination) => {
                let name =
                    |number: u8| ["NO_TRAFFIC", "SINGLE", "MULTIPLE"][usize::from(number.min(2))];
                format!("{}:{}", name(*source), name(*destination))
            }
            Tracking::Icmp => "0:0".to_owned(),
        };
        let outside = |index: usize| {
            let wire = self.halves[index].as_ref().map(|half| half.wire);
            wire.filter(|wire| wire != key).map(|wire| [wire.source, wire.destination])
        };
        StateInfo {
            protocol: key.protocol,
            source: key.source.0,
            source_port: key.source.1,
            destination: key.destination.0,
            destination_port: key.destination.1,
            outside: [outside(0), outside(1)],
            modulation: self.modulation,
            state,
            has_in: self.halves[0].is_some(),
            has_out: self.halves[1].is_some(),
            packets: (self.packets[0], self.packets[1]),
            expires_s,
        }
    }

    /// Moves an untracked protocol on, and chooses the timeout.
    pub(super) fn follow_pair(&mut self, protocol: u8, forward: bool) {
        let Tracking::Pair(source, destination) = &mut self.tracking else {
            self.phase = timeout::ICMP_ERROR;
            return;
        };
        let (sender, other) = if forward { (source, destination) } else { (destination, source) };
        *sender = (*sender).max(1);
        if *other == 1 {
            *other = 2;
        }
        let is_multiple = *sender == 2 && *other == 2;
        self.phase = match (protocol == UDP, is_multiple) {
            (true, true) => timeout::UDP_MULTIPLE,
            (true, false) => timeout::UDP_SINGLE,
            (false, true) => timeout::OTHER_MULTIPLE,
            (false, false) => timeout::OTHER_SINGLE,
        };
    }

    /// The timeout of a TCP connection in its present state.
    pub(super) fn tcp_phase(source: &Peer, destination: &Peer) -> u8 {
        let (low, high) = if source.phase < destination.phase {
            (source.phase, destination.phase)
        } else {
            (destination.phase, source.phase)
        };
        if low >= Phase::FinWait2 {
            timeout::TCP_CLOSED
        } else if low >= Phase::Closing {
            timeout::TCP_FIN_WAIT
        } else if low < Phase::Established {
            timeout::TCP_OPENING
        } else if high >= Phase::Closing {
            timeout::TCP_CLOSING
        } else {
            timeout::TCP_ESTABLISHED
        }
    }
}

/// A source that a rule tracks; `None` for all rules together.
pub(super) type NodeKey = (Option<LoadedRule>, IpAddr);

/// What is counted of a source.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The rule that made it.
    pub(super) owner: LoadedRule,
    pub(super) state_count: u32,
    conn_count: u32,
    /// Thousandths of connections, and when they were counted: they fade with time.
    rate: (u64, u64),
}

/// All records, and the sources that rules track.
#[derive(Debug, Clone, Default)]
pub(super) struct States {
    records: BTreeMap<Key, Record>,
    pub(super) nodes: BTreeMap<NodeKey, Node>,
    pub(super) insert_count: u64,
    pub(super) removal_count: u64,
    /// Values of `set timeout`.
    pub(super) timeouts: Vec<u32>,
}

impl States {
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    /// The record that a packet meets as it crosses an interface, and whether the packet goes in
    /// its direction. Where the half is missing that it would meet nothing is translated yet.
    pub(super) fn meet(&self, key: Key, direction: Direction) -> Option<(Key, bool)> {
        if direction == Direction::Out {
            return self.find(key);
        }
        for forward in [true, false] {
            let index = half_index(Direction::In, forward);
            let is_met = |entry: &(&Key, &Record)| entry.1.incoming(index) == Some(key);
            if let Some((found, _)) = self.records.iter().find(is_met) {
                return Some((*found, forward));
            }
        }
        let (found, forward) = self.find(key)?;
        let half = &self.records.get(&found)?.halves[half_index(Direction::In, forward)];
        half.is_none().then_some((found, forward))
    }

    /// Whether a record other than the one at `but` has a key, on either side of the box and in
    /// either direction.
    pub(super) fn is_taken(&self, key: Key, but: Option<Key>) -> bool {
        let has = |(at, record): (&Key, &Record)| {
            Some(*at) != but && (*at == key || *at == key.reversed() || record.is_outside(key))
        };
        self.records.iter().any(has)
    }

    /// The address that a rule's pool gave to a source that still has states by it.
    pub(super) fn sticky(&self, rule: LoadedRule, source: IpAddr) -> Option<IpAddr> {
        let halves = self.records.values().flat_map(|record| record.halves.iter().flatten());
        let mut given = halves.filter_map(|half| half.given);
        given.find(|given| (given.rule, given.source) == (rule, source)).map(|given| given.address)
    }

    /// The inner and the outer ends that `endpoint-independent` has joined.
    pub(super) fn mapped(&self) -> impl Iterator<Item = [(IpAddr, u16); 2]> {
        let ends = |(key, record): (&Key, &Record)| {
            let end =
                |key: Key, index: usize| if index == 1 { key.source } else { key.destination };
            let halves = record.halves.iter().enumerate();
            let mapped = halves.filter_map(|(index, half)| Some((index, half.as_ref()?)));
            let mapped = mapped.filter(|(_, half)| half.is_mapped);
            let joined = mapped.map(|(index, half)| [end(*key, index), end(half.wire, index)]);
            joined.collect::<Vec<_>>()
        };
        self.records.iter().flat_map(ends)
    }

    /// Whether a flow is one that `af-to` has made, in its direction.
    pub(super) fn is_other_family(&self, flow: Key) -> bool {
        self.records.iter().any(|(key, record)| record.other_family(*key) == Some(flow))
    }

    /// The record of a flow as the box routes it, and whether this is its direction.
    pub(super) fn find(&self, key: Key) -> Option<(Key, bool)> {
        if self.records.contains_key(&key) {
            return Some((key, true));
        }
        let reversed = key.reversed();
        self.records.contains_key(&reversed).then_some((reversed, false))
    }

    pub(super) fn get(&self, key: Key) -> Option<&Record> {
        self.records.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Record> {
        self.records.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: Key, record: Record) {
        self.insert_count += 1;
        self.records.insert(key, record);
    }

    /// Records of a rule, without the one of the flow itself.
    pub(super) fn count_of(&self, rule: LoadedRule, but: Option<Key>) -> u32 {
        let counts = |entry: &(&Key, &Record)| Some(*entry.0) != but && entry.1.has_rule(rule);
        u32::try_from(self.records.iter().filter(counts).count()).unwrap_or(u32::MAX)
    }

    pub(super) fn remove(&mut self, key: Key) {
        let Some(record) = self.records.remove(&key) else {
            return;
        };
        self.removal_count += 1;
        for half in record.halves.into_iter().flatten() {
            self.leave(&half);
        }
    }

    /// Puts a half in its place, and counts it with its source.
    pub(super) fn attach(&mut self, key: Key, index: usize, half: Half) {
        let Some(record) = self.records.get_mut(&key) else {
            return;
        };
        let other = record.halves[1 - index].as_ref().and_then(|half| half.node.as_ref());
        let shares_node =
            other.is_some_and(|other| half.node.as_ref().is_some_and(|node| node.0 == other.0));
        let mut half = half;
        if shares_node {
            half.node = None;
        }
        let node = half.node.clone().map(|node| node.0);
        let owner = half.rule;
        let before = record.halves[index].replace(half);
        if let (Some(node), Some(owner)) = (node, owner) {
            let fresh = Node { owner, state_count: 0, conn_count: 0, rate: (0, 0) };
            self.nodes.entry(node).or_insert(fresh).state_count += 1;
        }
        if let Some(before) = before {
            self.leave(&before);
        }
    }

    fn leave(&mut self, half: &Half) {
        let Some((key, _)) = &half.node else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(key) {
            node.state_count = node.state_count.saturating_sub(1);
            if half.is_counted {
                node.conn_count = node.conn_count.saturating_sub(1);
            }
            // `src.track` is how long a source without states stays; it is 0 unless it is set.
            if node.state_count == 0 {
                self.nodes.remove(key);
            }
        }
    }

    /// Counts a connection whose handshake is complete; a limit that it goes over kills it, and
    /// is returned with the source (`pf_src_connlimit` of pf.c).
    pub(super) fn established(
        &mut self,
        key: Key,
        now_ns: u64,
    ) -> Vec<(IpAddr, SourceLimits, Option<LoadedRule>)> {
        let Some(record) = self.records.get_mut(&key) else {
            return Vec::new();
        };
        // One that is added later has not seen the handshake.
        record.halves.iter_mut().flatten().for_each(|half| half.is_counted = true);
        let halves: Vec<_> = record.halves.iter().flatten().cloned().collect();
        let mut over = Vec::new();
        for half in halves {
            let Some((node_key, limits)) = half.node else {
                continue;
            };
            let Some(node) = self.nodes.get_mut(&node_key) else {
                continue;
            };
            node.conn_count += 1;
            let mut is_over = limits.conn_max.is_some_and(|max| node.conn_count > max);
            if let Some(rate) = limits.conn_rate {
                is_over |= node.add(rate, now_ns);
            }
            if is_over {
                over.push((node_key.1, limits, half.rule));
            }
        }
        over
    }

    /// Removes the states that a source opened: of one rule, or all.
    pub(super) fn flush(&mut self, source: IpAddr, rule: Option<LoadedRule>) {
        let of_rule = |record: &Record| rule.is_none_or(|rule| record.has_rule(rule));
        let doomed: Vec<Key> = self
            .records
            .iter()
            .filter(|(key, record)| key.source.0 == source && of_rule(record))
            .map(|(key, _)| *key)
            .collect();
        for key in doomed {
            self.remove(key);
        }
    }

    pub(super) fn setting(&self, index: u8) -> u32 {
        self.timeouts.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// When a record expires, with `count` states in the table (`pf_state_expires` of pf.c).
    fn expires_ns(&self, record: &Record, count: u64) -> u64 {
        let seconds = record.rule_timeout(record.phase).filter(|seconds| *seconds != 0);
        let timeout_s = u64::from(seconds.unwrap_or_else(|| self.setting(record.phase)));
        let rule_start =
            record.rule_timeout(timeout::ADAPTIVE_START).filter(|seconds| *seconds != 0);
        let (start, end, count) = match rule_start {
            Some(start) => {
                let end = record.rule_timeout(timeout::ADAPTIVE_END).unwrap_or(0);
                let count = record.rule.map_or(0, |rule| u64::from(self.count_of(rule, None)));
                (u64::from(start), u64::from(end), count)
            }
            None => (
                u64::from(self.setting(timeout::ADAPTIVE_START)),
                u64::from(self.setting(timeout::ADAPTIVE_END)),
                count,
            ),
        };
        let mut scaled_ms = timeout_s * 1000;
        if end != 0 && count > start && start < end {
            if count >= end {
                return 0;
            }
            let times = if timeout::HALF_OPEN.contains(&record.phase) { 2 } else { 1 };
            for _ in 0..times {
                scaled_ms = scaled_ms * (end - count) / (end - start);
            }
        }
        record.touched_ns + scaled_ms * 1_000_000
    }

    /// Removes what has expired. All records see the number of states as it was before.
    pub(super) fn expire(&mut self, now_ns: u64) {
        let count = self.records.len() as u64;
        let doomed: Vec<Key> = self
            .records
            .iter()
            .filter(|(_, record)| self.expires_ns(record, count) <= now_ns)
            .map(|(key, _)| *key)
            .collect();
        for key in doomed {
            self.remove(key);
        }
    }

    pub(super) fn list(&self, now_ns: u64) -> Vec<StateInfo> {
        let count = self.records.len() as u64;
        let info = |(key, record): (&Key, &Record)| {
            let left_ns = self.expires_ns(record, count).saturating_sub(now_ns);
            record.info(key, left_ns / 1_000_000_000)
        };
        self.records.iter().map(info).collect()
    }
}

impl Node {
    /// Adds a connection to those of the last `rate.seconds`; whether there are more than
    /// `rate.limit` (`pf_add_threshold` of pf.c, in seconds as there).
    fn add(&mut self, rate: Rate, now_ns: u64) -> bool {
        let (seconds, now_s) = (u64::from(rate.seconds), now_ns / 1_000_000_000);
        let (count, last_s) = self.rate;
        let passed_s = now_s.saturating_sub(last_s);
        let faded = if passed_s >= seconds { 0 } else { count - count * passed_s / seconds };
        self.rate = (faded + 1000, now_s);
        self.rate.0 > u64::from(rate.limit) * 1000
    }
}

/// How a flow begins, and with which timeout.
pub(super) fn begin(protocol: u8, tcp: Option<(Peer, Peer)>) -> (Tracking, u8) {
    match (protocol, tcp) {
        (TCP, Some((source, destination))) => {
            (Tracking::Tcp(source, destination), timeout::TCP_FIRST)
        }
        (ICMP | ICMP6, _) => (Tracking::Icmp, timeout::ICMP_FIRST),
        (UDP, _) => (Tracking::Pair(1, 0), timeout::UDP_FIRST),
        _ => (Tracking::Pair(1, 0), timeout::OTHER_FIRST),
    }
}

//! What the data path has counted: the counters of all CPUs, added up.
//!
//! Only the CPU that owns a counter writes it, so none is ever set back here: what `pfctl -F info`
//! clears is remembered as a baseline instead.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{
    self, INTERFACE_COUNT_MAX, cpu, interface_counters, limit, table,
};
use weir_bpf::firewall::reasons::REASON_COUNT_MAX;

use crate::compile::known::Known;
use crate::show::rules::RuleCounts;
use crate::states::{Record, View};

/// Counters of the state table, and of packets as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TableTotals {
    /// States looked for.
    pub search_count: u64,
    /// States made.
    pub insert_count: u64,
    /// States that ended.
    pub removal_count: u64,
    /// Records looked at behind the first of a bucket.
    pub overflow_step_count: u64,
    /// Times that a bucket's lock was held by another CPU.
    pub lock_wait_count: u64,
    /// Rulesets gone through.
    pub evaluation_count: u64,
    /// Routes asked for.
    pub fib_lookup_count: u64,
    /// Packets forwarded by XDP.
    pub forwarded_packets: u64,
    /// Packets handed to the kernel.
    pub passed_packets: u64,
    /// RST and ICMP made.
    pub reply_count: u64,
    /// Drops whose RST or ICMP could not be made.
    pub unanswered_count: u64,
    /// Log records that found no room.
    pub log_lost_count: u64,
    /// Nodes of sources looked for.
    pub source_search_count: u64,
    /// Nodes of sources made.
    pub source_insert_count: u64,
    /// Nodes of sources that went.
    pub source_removal_count: u64,
    /// Packets judged in the second stage.
    pub staged_packets: u64,
    /// Groups of them whose lines were read side by side.
    pub stage_group_count: u64,
    /// Flows that were translated.
    pub translation_count: u64,
    /// Ports that were looked at until one was free.
    pub port_probe_count: u64,
    /// Ends of states with `pflow` that found no room.
    pub events_lost_count: u64,
    /// Packets of entries of tables without room for counters.
    pub uncounted_count: u64,
    /// Ends of states that another firewall has, and that found no room.
    pub sync_lost_count: u64,
    /// Answers that waited for states of another firewall.
    pub deferred_packets: u64,
    /// Those that would have, and found no room.
    pub defer_lost_packets: u64,
    /// Packets that `dup-to` has sent elsewhere as well.
    pub copied_packets: u64,
    /// Those that it could not.
    pub copy_lost_packets: u64,
    /// Limits that were met, as [`LIMIT_NAMES`] has them.
    pub limits: [u64; limit::COUNT],
}

/// pf's names of limits (FreeBSD, `LCNT_NAMES`).
pub(crate) const LIMIT_NAMES: [&str; limit::COUNT] = {
    let mut names = [""; limit::COUNT];
    names[limit::STATES] = "max states per rule";
    names[limit::SRC_STATES] = "max-src-states";
    names[limit::SRC_NODES] = "max-src-nodes";
    names[limit::SRC_CONN] = "max-src-conn";
    names[limit::SRC_CONN_RATE] = "max-src-conn-rate";
    names[limit::OVERLOAD_TABLE] = "overload table insertion";
    names[limit::OVERLOAD_FLUSH] = "overload flush states";
    names
};

/// Counters of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceTotals {
    /// Packets by direction, outcome (passed, blocked) and family (IPv4, IPv6).
    pub packets: [[[u64; 2]; 2]; 2],
    /// Their bytes.
    pub bytes: [[[u64; 2]; 2]; 2],
    /// Drops by direction and reason.
    pub dropped: [[u64; REASON_COUNT_MAX]; 2],
}

impl Default for InterfaceTotals {
    fn default() -> Self {
        let (packets, bytes) = ([[[0; 2]; 2]; 2], [[[0; 2]; 2]; 2]);
        Self { packets, bytes, dropped: [[0; REASON_COUNT_MAX]; 2] }
    }
}

/// All counters but those of rules.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Of the state table.
    pub table: TableTotals,
    /// By slot of the interface.
    pub interfaces: Vec<InterfaceTotals>,
}

impl Totals {
    /// Adds up what there is now.
    #[must_use]
    pub fn read(firewall: &Firewall) -> Self {
        let arena = firewall.arena();
        let regions = firewall.regions();
        let slots = usize::try_from(INTERFACE_COUNT_MAX).unwrap_or(0);
        let mut totals = Self {
            table: TableTotals::default(),
            interfaces: vec![InterfaceTotals::default(); slots],
        };
        for number in 0..regions.sizes.cpu_count {
            let counters_at = regions.counters.at + number * cpu::SIZE_BYTES;
            for (field, word) in totals.table.fields() {
                *field += arena.read64(counters_at + cpu::TABLE + word);
            }
            let mut at = counters_at + cpu::INTERFACE;
            for interface in &mut totals.interfaces {
                add_interface(interface, |word| arena.read64(at + word));
                at += interface_counters::SIZE_BYTES;
            }
        }
        totals
    }

    /// What was counted since a baseline was taken.
    #[must_use]
    pub fn since(mut self, base: &Self) -> Self {
        let mut base = base.clone();
        for ((field, _), (before, _)) in self.table.fields().into_iter().zip(base.table.fields()) {
            *field = field.saturating_sub(*before);
        }
        for (totals, base) in self.interfaces.iter_mut().zip(&base.interfaces) {
            for (field, before) in totals.fields().zip(base.clone().fields()) {
                *field = field.saturating_sub(*before);
            }
        }
        self
    }

    /// Drops of one reason over all interfaces and directions.
    #[must_use]
    pub fn dropped(&self, reason: usize) -> u64 {
        let dropped = self.interfaces.iter().flat_map(|totals| totals.dropped.iter());
        dropped.map(|direction| direction.get(reason).copied().unwrap_or(0)).sum()
    }
}

/// One counter of the state table, over all CPUs: an offset of [`table`].
pub(super) fn table_counter(firewall: &Firewall, counter: u32) -> u64 {
    let regions = firewall.regions();
    let at = |number: u32| regions.counters.at + number * cpu::SIZE_BYTES + cpu::TABLE + counter;
    (0..regions.sizes.cpu_count).map(|number| firewall.arena().read64(at(number))).sum()
}

impl TableTotals {
    /// Each counter with its place in the memory.
    fn fields(&mut self) -> Vec<(&mut u64, u32)> {
        let mut all = vec![
            (&mut self.search_count, table::SEARCHES),
            (&mut self.insert_count, table::INSERTS),
            (&mut self.removal_count, table::REMOVALS),
            (&mut self.overflow_step_count, table::OVERFLOW_STEPS),
            (&mut self.lock_wait_count, table::LOCK_WAITS),
            (&mut self.evaluation_count, table::EVALUATIONS),
            (&mut self.fib_lookup_count, table::FIB_LOOKUPS),
            (&mut self.forwarded_packets, table::FORWARDED_PACKETS),
            (&mut self.passed_packets, table::PASSED_PACKETS),
            (&mut self.reply_count, table::REPLIES),
            (&mut self.unanswered_count, table::UNANSWERED),
            (&mut self.log_lost_count, table::LOG_LOST),
            (&mut self.source_search_count, table::SOURCE_SEARCHES),
            (&mut self.source_insert_count, table::SOURCE_INSERTS),
            (&mut self.source_removal_count, table::SOURCE_REMOVALS),
            (&mut self.staged_packets, table::STAGED_PACKETS),
            (&mut self.stage_group_count, table::STAGE_GROUPS),
            (&mut self.translation_count, table::TRANSLATIONS),
            (&mut self.port_probe_count, table::PORT_PROBES),
            (&mut self.events_lost_count, table::EVENTS_LOST),
            (&mut self.uncounted_count, table::UNCOUNTED),
            (&mut self.sync_lost_count, table::SYNC_LOST),
            (&mut self.deferred_packets, table::DEFERRED),
            (&mut self.defer_lost_packets, table::DEFER_LOST),
            (&mut self.copied_packets, table::COPIES),
            (&mut self.copy_lost_packets, table::COPIES_LOST),
        ];
        all.extend(self.limits.iter_mut().zip((table::LIMITS..).step_by(8)));
        all
    }
}

impl InterfaceTotals {
    /// All counters, in the order in which they lie in the memory.
    fn fields(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self { packets, bytes, dropped } = self;
        let both = packets.iter_mut().chain(bytes);
        both.flatten().flatten().chain(dropped.iter_mut().flatten())
    }
}

/// Adds the counters of one CPU on one interface; they lie one behind the other.
fn add_interface(totals: &mut InterfaceTotals, word: impl Fn(u32) -> u64) {
    let mut at = 0;
    for field in totals.fields() {
        *field += word(at);
        at += 8;
    }
}

/// What rules have counted by themselves: packets of their states that live are not in it.
#[must_use]
pub fn of_rule(firewall: &Firewall, known: &Known, id: u32) -> RuleCounts {
    use layout::rule_counters;
    let cpu_count = firewall.regions().sizes.cpu_count;
    let arena = firewall.arena();
    let mut counts = RuleCounts::default();
    let Some(first) = known.counters_at(id, cpu_count) else { return counts };
    for number in 0..cpu_count {
        let at = first + number * rule_counters::SIZE_BYTES;
        let word = |field: u32| arena.read64(at + field);
        counts.evaluation_count += word(rule_counters::EVALUATIONS);
        for direction in 0..2_u32 {
            let index = usize::try_from(direction).unwrap_or(0);
            counts.packet_count[index] += word(rule_counters::PACKETS + direction * 8);
            counts.size_bytes[index] += word(rule_counters::BYTES + direction * 8);
        }
        counts.created_count += word(rule_counters::STATES_CREATED);
    }
    // Programs of all CPUs add to and take from one word.
    counts.state_count = u64::from(arena.read32(first + rule_counters::STATES_LIVE));
    counts.is_spent = arena.read32(first + rule_counters::IS_SPENT) != 0;
    counts
}

/// What the states that live add to their rules: packets and bytes, by identifier.
pub type LiveCounts = HashMap<u32, RuleCounts>;

/// Looks at all states, which takes a second for some millions: the engine is not needed for it.
#[must_use]
pub fn live_counts(firewall: &Firewall) -> LiveCounts {
    let mut counts = LiveCounts::new();
    View::new(firewall).for_all(|record| add_live(&mut counts, record));
    counts
}

/// What one state adds: to the rules that made its halves, and to those that translated them.
fn add_live(counts: &mut LiveCounts, record: &Record) {
    // Of two families all packets come in, and none is counted again where it leaves.
    let half_count = if record.other_family().is_some() { 1 } else { 2 };
    for half in 0..half_count {
        let translator = record.translator[half].filter(|_| record.is_translator_counted[half]);
        let rules = [record.rules[half].filter(|_| record.has_half(half)), translator];
        for id in rules.into_iter().flatten() {
            let count = counts.entry(id).or_default();
            // Half A has forward packets in and reverse ones out, half B the other way round.
            for direction in 0..2 {
                let end = direction ^ half;
                count.packet_count[direction] += record.packets[end];
                count.size_bytes[direction] += record.bytes[end];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_lie_in_the_order_of_the_layout() {
        let mut totals = InterfaceTotals::default();
        add_interface(&mut totals, u64::from);
        assert_eq!(totals.packets[0][0][0], u64::from(interface_counters::PACKETS));
        assert_eq!(totals.bytes[0][0][0], u64::from(interface_counters::BYTES));
        assert_eq!(totals.dropped[0][0], u64::from(interface_counters::DROPPED_PACKETS));
        let last = totals.dropped[1][REASON_COUNT_MAX - 1];
        assert_eq!(last + 8, u64::from(interface_counters::SIZE_BYTES));
    }

    #[test]
    fn a_baseline_is_taken_away() {
        let mut now = Totals { interfaces: vec![InterfaceTotals::default()], ..Totals::default() };
        now.table.search_count = 10;
        now.interfaces[0].dropped[1][2] = 7;
        let mut base = now.clone();
        base.table.search_count = 4;
        base.interfaces[0].dropped[1][2] = 5;
        let since = now.since(&base);
        assert_eq!((since.table.search_count, since.dropped(2), since.dropped(0)), (6, 2, 0));
    }
}

//! Within a block: rules that another one covers, and rules that differ in one address.

use std::collections::HashMap;

use super::{TABLE_ADDRESS_COUNT_MIN, Work};
use crate::check::cover::{Leniency, covers};
use crate::check::index::{Budget, Index};
use crate::fields::{Conditions, fields, same_effects};
use crate::ir::{Address, Rule, Table, TableEntry, TableSource};
use crate::source::Span;
use crate::value::Text;

/// Removes duplicates but the first, and rules that another one covers. Where the budget is spent,
/// rules stay that could go.
pub(super) fn remove_covered(block: &mut Vec<Rule>, reassembles: bool, budget: &mut Budget) {
    let leniency = Leniency { new_connections: false, reassembles };
    let index = Index::new(block, |_| true);
    let count = block.len();
    let mut is_covered = vec![false; count];
    for at in 0..count {
        // Of two that cover each other, the first stays; one that is gone covers nothing, so that
        // the last of a chain is always there.
        let accepts = |other: usize| {
            !is_covered[other] && (other < at || !covers(&block[at], &block[other], leniency))
        };
        let cover = index.first_cover(block, at, 0..count, leniency, budget, accepts);
        is_covered[at] = cover.is_some();
    }
    let mut is_covered = is_covered.into_iter();
    block.retain(|_| !is_covered.next().unwrap_or(false));
}

/// Which end of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    From,
    To,
}

/// Everything that rules have in common which can become one: all but the address of a side.
type Key<'a> = (Side, Conditions<'a>, &'a Address);

/// An address that a table can hold.
fn entry(rule: &Rule, side: Side) -> Option<TableEntry> {
    let peer = match side {
        Side::From => &rule.from,
        Side::To => &rule.to,
    };
    match &peer.address {
        Address::Network(address, bits) if !peer.not => {
            Some(TableEntry { address: *address, bits: *bits, not: false })
        }
        _ => None,
    }
}

fn key(rule: &Rule, side: Side) -> Option<Key<'_>> {
    entry(rule, side)?;
    let fields = fields(rule);
    let other = match side {
        Side::From => fields.to,
        Side::To => fields.from,
    };
    Some((side, fields.conditions, other))
}

/// Rules of a block that become one, by their places, or are too few for it.
struct Group {
    side: Side,
    members: Vec<usize>,
}

impl Work<'_> {
    /// Puts addresses into tables. Each rule belongs to one group at most: that which the first
    /// rule that differs from it in one address alone makes with it.
    pub(super) fn combine(&mut self, mut block: Vec<Rule>) -> Vec<Rule> {
        let groups = groups(&block);
        let mut is_gone = vec![false; block.len()];
        for group in groups {
            let number = self.next_table;
            self.next_table += 1;
            if group.members.len() < TABLE_ADDRESS_COUNT_MIN {
                continue;
            }
            let entries = group.members.iter().filter_map(|at| entry(&block[*at], group.side));
            let entries: Vec<TableEntry> = entries.collect();
            let (first, rest) = (group.members[0], &group.members[1..]);
            let name = self.table_name(number);
            self.tables.push(table(name.clone(), entries, block[first].span));
            self.summary.table_count += 1;
            self.summary.combined_count += rest.len();
            for at in rest {
                is_gone[*at] = true;
            }
            let rule = &mut block[first];
            let peer = match group.side {
                Side::From => &mut rule.from,
                Side::To => &mut rule.to,
            };
            peer.address = Address::Table(name);
        }
        let mut is_gone = is_gone.into_iter();
        block.retain(|_| !is_gone.next().unwrap_or(false));
        block
    }
}

fn groups(block: &[Rule]) -> Vec<Group> {
    let mut by_key: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
    for (at, rule) in block.iter().enumerate() {
        for side in [Side::To, Side::From] {
            if let Some(key) = key(rule, side) {
                by_key.entry(key).or_default().push(at);
            }
        }
    }
    let mut is_taken = vec![false; block.len()];
    let mut groups = Vec::new();
    for (at, rule) in block.iter().enumerate() {
        if is_taken[at] {
            continue;
        }
        let candidates = |side: Side| {
            let all = key(rule, side).and_then(|key| by_key.get(&key)).map_or(&[][..], |all| all);
            let start = all.partition_point(|index| *index <= at);
            (side, &all[start..])
        };
        let free = |index: &&usize| !is_taken[**index];
        let sides = [candidates(Side::To), candidates(Side::From)];
        let firsts = sides.iter().filter_map(|(side, all)| {
            let first = all.iter().find(free)?;
            Some((*first, *side))
        });
        let Some((_, side)) = firsts.min_by_key(|(first, _)| *first) else { continue };
        let rest = if side == Side::To { sides[0].1 } else { sides[1].1 };
        let mut members = vec![at];
        members.extend(rest.iter().copied().filter(|index| !is_taken[*index]));
        for member in &members {
            is_taken[*member] = true;
        }
        groups.push(Group { side, members });
    }
    groups
}

/// Parts a list into blocks of rules in a row with the same effects.
pub(super) fn blocks(rules: Vec<Rule>) -> Vec<Vec<Rule>> {
    let mut blocks: Vec<Vec<Rule>> = Vec::new();
    let mut is_closed = true;
    for rule in rules {
        let is_barrier = fields(&rule).is_barrier;
        match blocks.last_mut() {
            Some(last) if !is_closed && !is_barrier && same_effects(&last[0], &rule) => {
                last.push(rule);
            }
            _ => blocks.push(vec![rule]),
        }
        is_closed = is_barrier;
    }
    blocks
}

/// A table of single entries.
fn table(name: Text, entries: Vec<TableEntry>, span: Span) -> Table {
    Table {
        name,
        anchor: "".into(),
        span,
        is_const: true,
        is_persist: false,
        has_counters: false,
        sources: vec![TableSource::List(entries)],
        lacks_file: false,
        unresolved: Vec::new(),
        typed: None,
    }
}

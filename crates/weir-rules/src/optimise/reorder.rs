//! The order of a block's rules in which the kernel can skip most: rules that share a field stand
//! together, those with the most in common first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::ir::{Address, Peer, Rule};

/// Fields of pf's skip steps, in the order in which ties are decided.
const FIELD_COUNT: usize = 8;

/// Groups of at least this size are split off and looked at again; smaller ones keep their place
/// behind those.
const SPLIT_COUNT_MIN: usize = 3;

/// Orders a block, and says how many rules stand elsewhere than before.
pub(super) fn reorder(block: Vec<Rule>) -> (Vec<Rule>, usize) {
    let mut order = Vec::with_capacity(block.len());
    let all: Vec<usize> = (0..block.len()).collect();
    arrange(&block, &all, &mut order);
    let moved = order.iter().enumerate().filter(|(at, before)| *at != **before).count();
    let mut rules: Vec<Option<Rule>> = block.into_iter().map(Some).collect();
    let ordered = order.into_iter().filter_map(|at| rules[at].take()).collect();
    (ordered, moved)
}

/// The values by which rules are grouped.
#[derive(PartialEq, Eq, Hash)]
enum Value<'a> {
    Interface(&'a crate::ir::Interface),
    Direction(crate::value::Direction),
    Af(crate::value::Af),
    Protocol(u8),
    Address(bool, &'a Address),
    Port(crate::value::Comparison<u16>),
    /// Any, which has nothing in common with another any.
    Wild(usize),
}

fn value(rule: &Rule, field: usize, at: usize) -> Value<'_> {
    let address = |peer: &'_ Peer| -> bool { peer.address != Address::Any };
    let known = match field {
        0 => rule.interface.as_ref().map(Value::Interface),
        1 => rule.direction.map(Value::Direction),
        2 => rule.af.map(Value::Af),
        3 => rule.protocol.map(Value::Protocol),
        4 if address(&rule.from) => Some(Value::Address(rule.from.not, &rule.from.address)),
        5 => rule.from.port.map(Value::Port),
        6 if address(&rule.to) => Some(Value::Address(rule.to.not, &rule.to.address)),
        7 => rule.to.port.map(Value::Port),
        _ => None,
    };
    known.unwrap_or(Value::Wild(at))
}

/// Groups of one field's values: which group a rule is in, and who is in each.
struct Grouping {
    group_of: Vec<usize>,
    members: Vec<Vec<usize>>,
    left_counts: Vec<usize>,
}

fn grouping(rules: &[Rule], places: &[usize], field: usize) -> Grouping {
    let mut numbers: HashMap<Value<'_>, usize> = HashMap::new();
    let mut grouping =
        Grouping { group_of: Vec::new(), members: Vec::new(), left_counts: Vec::new() };
    for (nth, at) in places.iter().enumerate() {
        let fresh = grouping.members.len();
        let group = *numbers.entry(value(&rules[*at], field, *at)).or_insert(fresh);
        if group == fresh {
            grouping.members.push(Vec::new());
            grouping.left_counts.push(0);
        }
        grouping.group_of.push(group);
        grouping.members[group].push(nth);
        grouping.left_counts[group] += 1;
    }
    grouping
}

/// Appends the places of `own` to `order`. Each level fixes one more field, so that it is at most
/// as deep as there are fields.
fn arrange(rules: &[Rule], all: &[usize], order: &mut Vec<usize>) {
    let mut groupings: Vec<Grouping> =
        (0..FIELD_COUNT).map(|field| grouping(rules, all, field)).collect();
    // The largest groups; a field in which all rules agree parts nothing.
    let mut queue: BTreeSet<(Reverse<usize>, usize, usize)> = BTreeSet::new();
    for (field, grouping) in groupings.iter().enumerate() {
        for (group, count) in grouping.left_counts.iter().enumerate() {
            if *count > 1 && *count < all.len() {
                queue.insert((Reverse(*count), field, group));
            }
        }
    }
    let mut is_placed = vec![false; all.len()];
    let mut rest = Vec::new();
    while let Some((Reverse(count), field, group)) = queue.pop_first() {
        let members: Vec<usize> = groupings[field].members[group]
            .iter()
            .copied()
            .filter(|nth| !is_placed[*nth])
            .collect();
        debug_assert_eq!(members.len(), count, "counts follow what is placed");
        for nth in &members {
            is_placed[*nth] = true;
            for (other, grouping) in groupings.iter_mut().enumerate() {
                let of = grouping.group_of[*nth];
                let before = grouping.left_counts[of];
                grouping.left_counts[of] -= 1;
                if queue.remove(&(Reverse(before), other, of)) && before > 2 {
                    queue.insert((Reverse(before - 1), other, of));
                }
            }
        }
        let places: Vec<usize> = members.iter().map(|nth| all[*nth]).collect();
        if places.len() >= SPLIT_COUNT_MIN {
            arrange(rules, &places, order);
        } else {
            rest.extend(places);
        }
    }
    rest.extend((0..all.len()).filter(|nth| !is_placed[*nth]).map(|nth| all[nth]));
    order.append(&mut rest);
}

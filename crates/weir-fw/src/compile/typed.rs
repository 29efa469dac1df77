//! Typed tables in rules: which uses there are, and the numbers that stand for values.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_bpf::firewall::layout::{self, TYPED_GATEWAY_SHIFT};
use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::evaluate::{RuleRef, ValueEnd};
use weir_rules::ir::{Action, Address, Peer, Rule, Ruleset};
use weir_rules::typed::{Components, Key, KeyType, NextHop, Value, ValueKind};
use weir_rules::value::{RouteKind, Text};

use super::criteria::{Names, TableName};
use super::known::Gateway;
use super::{Builder, Compiled, Input, Refused, padded};

/// What the entries of typed tables have by number; those of the main ruleset, by name.
pub type TypedValues = HashMap<Text, Arc<[Value]>>;

/// Entries of a typed table with the numbers of their values, and these. Of two for one key the
/// last holds.
#[must_use]
pub fn numbered_values(entries: &[(Key, Value)]) -> (Vec<(Key, u32)>, Arc<[Value]>) {
    let (mut numbers, mut values) = (HashMap::new(), Vec::new());
    let mut found = BTreeMap::new();
    for (key, value) in entries {
        let number = *numbers.entry(value).or_insert_with(|| {
            values.push(value.clone());
            u32::try_from(values.len() - 1).unwrap_or(u32::MAX)
        });
        found.insert(key.clone(), number);
    }
    (found.into_iter().collect(), values.into())
}

/// What the entries have that a ruleset gives its typed tables itself.
#[must_use]
pub fn declared_values(ruleset: &Ruleset) -> TypedValues {
    let tables = ruleset.tables.iter().filter_map(|table| Some((table, table.typed.as_ref()?)));
    let values = tables.map(|(table, typed)| {
        let entries = typed.entries.as_deref().unwrap_or_default();
        (table.name.clone(), numbered_values(entries).1)
    });
    values.collect()
}

/// Refuses uses of typed tables that mean nothing.
pub(super) fn check(input: &Input<'_>) -> Result<(), Refused> {
    let mut found = Vec::new();
    for RuleRef { rule, anchor, .. } in input.evaluator.rule_refs() {
        let why = wrong_end(input, rule, anchor).or_else(|| wrong_pool(input, rule, anchor));
        let why = why.or_else(|| wrong_tag(input, rule, anchor));
        found.extend(why.map(|why| Diagnostic::error(Code::BadValue, rule.span, why)));
    }
    found.dedup();
    if found.is_empty() { Ok(()) } else { Err(Refused(found)) }
}

fn wrong_end(input: &Input<'_>, rule: &Rule, anchor: &str) -> Option<String> {
    let of = |peer: &Peer, is_source: bool| {
        let Some((name, table)) = input.evaluator.typed_of(&peer.address, anchor) else {
            return undeclared(input, peer, anchor);
        };
        match table.shape.key {
            KeyType::Addr => None,
            KeyType::Flow(_) if !is_source => None,
            KeyType::Flow(_) => Some(format!(
                "<{name}> is a table of flows, each of which has both ends: write `to <{name}>`"
            )),
            key => Some(format!(
                "<{name}> has keys of type {key}, which no rule asks: rules ask tables of type \
                 addr and flow"
            )),
        }
    };
    let filled = rule.options.state.as_ref().and_then(|state| state.overload.as_ref());
    let filled = filled.map(|(name, _)| name).filter(|name| {
        input.evaluator.tables.typed(anchor, name).is_some() || input.typed.contains_key(*name)
    });
    let overload =
        || filled.map(|name| format!("<{name}> is a typed table, which `overload` cannot fill"));
    of(&rule.from, true).or_else(|| of(&rule.to, false)).or_else(overload)
}

/// A typed table that the ruleset does not declare is no table of pf's.
fn undeclared(input: &Input<'_>, peer: &Peer, anchor: &str) -> Option<String> {
    let Address::Table(name) = &peer.address else { return None };
    let is_main = input.evaluator.table_anchor(anchor, name).is_empty();
    let is_typed = is_main && input.typed.contains_key(name);
    let why = || format!("<{name}> is a typed table: declare it, as `table <{name}> type addr`");
    is_typed.then(why)
}

fn wrong_pool(input: &Input<'_>, rule: &Rule, anchor: &str) -> Option<String> {
    for pool in [&rule.nat, &rule.rdr].into_iter().flatten() {
        let mut addresses = pool.hosts.iter().filter_map(|host| host.address.as_ref());
        let found = addresses.find_map(|address| input.evaluator.typed_of(address, anchor));
        if let Some((name, _)) = found {
            return Some(format!("<{name}> is a typed table, which no translation takes"));
        }
    }
    let route = rule.route.as_deref()?;
    let (name, table) = input.evaluator.typed_pool(&route.pool, anchor)?;
    let has_family = match table.shape.key {
        KeyType::Addr => true,
        KeyType::Flow(parts) => parts.has(Components::SRC_IP) || parts.has(Components::DST_IP),
        KeyType::Number | KeyType::Iface => false,
    };
    let why = if route.kind != RouteKind::RouteTo {
        "only `route-to` takes one"
    } else if !table.shape.values.has(ValueKind::NextHop) {
        "it has no value `nexthop`"
    } else if !has_family {
        "its keys are no addresses, and no flows with addresses"
    } else {
        return None;
    };
    Some(format!("<{name}> has no next hops for this rule: {why}"))
}

fn wrong_tag(input: &Input<'_>, rule: &Rule, anchor: &str) -> Option<String> {
    let (_, name, _) = input.evaluator.value_end(rule, anchor)?;
    let is_filter = matches!(rule.action, Action::Pass | Action::Block(_) | Action::Match);
    let is_plain = is_filter && rule.anchor.is_none();
    let why = || {
        format!("`tag value` of <{name}> is for `match`, `pass` and `block` that are no anchors")
    };
    (!is_plain).then(why)
}

fn values<'i>(input: &'i Input<'_>, name: &Text) -> &'i [Value] {
    input.typed.get(name).map_or(&[], |values| values)
}

/// The tags of the entries of a rule's table, if it has `tag value`; else its tag.
pub(super) fn tags_of(input: &Input<'_>) -> BTreeSet<String> {
    let mut given = BTreeSet::new();
    for RuleRef { rule, anchor, .. } in input.evaluator.rule_refs() {
        match input.evaluator.value_end(rule, anchor) {
            Some((_, name, _)) => {
                let tags = values(input, name).iter().filter_map(|value| value.tag.as_ref());
                given.extend(tags.map(ToString::to_string));
            }
            None => given.extend(rule.options.tag.as_ref().map(ToString::to_string)),
        }
    }
    given
}

fn gateway(next_hop: &NextHop) -> Gateway {
    let interface = next_hop.interface.as_ref().map(ToString::to_string);
    Gateway { interface, address: Some(next_hop.address), socket: None }
}

/// The next hops of the tables of rules that pass.
pub(super) fn gateways_of(input: &Input<'_>) -> BTreeSet<Gateway> {
    let mut given = BTreeSet::new();
    for RuleRef { rule, anchor, .. } in input.evaluator.rule_refs() {
        let route = rule.route.as_deref().filter(|_| rule.action == Action::Pass);
        let pool = route.and_then(|route| input.evaluator.typed_pool(&route.pool, anchor));
        let Some((name, _)) = pool else { continue };
        given.extend(
            values(input, name).iter().filter_map(|value| value.next_hop.as_ref()).map(gateway),
        );
    }
    given
}

impl Names<'_> {
    /// `weir_fw_rule.tag` of a rule of an anchor.
    pub(super) fn tag_of(&mut self, rule: &Rule, anchor: &str) -> u16 {
        let number = |word: u32| u16::try_from(word).unwrap_or(u16::MAX);
        match self.evaluator.value_end(rule, anchor) {
            Some((ValueEnd::Source, ..)) => number(layout::TAG_OF_SOURCE),
            Some((ValueEnd::Destination, ..)) => number(layout::TAG_OF_DESTINATION),
            None => rule.options.tag.as_ref().map_or(0, |tag| self.tag(tag)),
        }
    }

    /// The index in the directory of the table that has the next hops of a rule's pool.
    pub(super) fn typed_pool(&mut self, rule: &Rule, anchor: &str) -> Option<u32> {
        let route = rule.route.as_deref()?;
        let (name, _) = self.evaluator.typed_pool(&route.pool, anchor)?;
        Some(self.table(TableName::Typed(name.clone())))
    }
}

impl Builder<'_> {
    /// What the entries of typed tables have, by the tables' places in the directory.
    pub(super) fn typed_words(&self, input: &Input<'_>) -> Vec<(usize, Vec<u32>)> {
        let word = |value: &Value| {
            let tag = value.tag.as_ref().map_or(0, |tag| self.names.given_tag(tag));
            let hop = value.next_hop.as_ref().map(gateway);
            let hop = hop.and_then(|hop| self.gateway_numbers.get(&hop).copied()).unwrap_or(0);
            u32::from(hop) << TYPED_GATEWAY_SHIFT | u32::from(tag)
        };
        let tables = self.names.tables.iter().enumerate();
        let typed = tables.filter_map(|(at, table)| match table {
            TableName::Typed(name) => Some((at, values(input, name).iter().map(word).collect())),
            _ => None,
        });
        typed.collect()
    }
}

impl Compiled {
    /// Appends what entries of typed tables have, and gives the place of the tables' places.
    pub(super) fn link_typed(&self, out: &mut Vec<u8>) -> u32 {
        if self.typed.is_empty() {
            return 0;
        }
        let mut places = vec![0; self.tables.len()];
        for (index, words) in &self.typed {
            places[*index] = padded(out);
            out.extend(u32::try_from(words.len()).unwrap_or(u32::MAX).to_ne_bytes());
            out.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }
        let at = padded(out);
        out.extend(places.iter().flat_map(|place| place.to_ne_bytes()));
        at
    }
}

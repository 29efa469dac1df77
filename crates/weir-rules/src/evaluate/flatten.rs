//! What whoever compiles a ruleset for another evaluator needs of this one: the filter rules in
//! the order in which a packet meets them, and what their names mean. So both read one meaning.

use std::net::IpAddr;

use super::compile::{Evaluator, dynamic_prefixes, names_interface};
use super::ready::List;
use super::view::RuleId;
use crate::ir::Dynamic;
use crate::resolve::InterfaceFacts;
use crate::value::{Af, Text};

/// A place in the order of evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A rule that is no anchor's.
    Rule(RuleId),
    /// An anchor's rule; its rules follow, up to the [`Step::Leave`] of the same rule.
    Enter(RuleId),
    /// The end of an anchor's rules.
    Leave(RuleId),
}

impl Evaluator<'_> {
    /// The rules of a list with anchors' rules in their places; an anchor that is entered twice is
    /// there twice. There are no more of all lists than [`super::compile::EVALUATION_COUNT_MAX`].
    #[must_use]
    pub fn steps(&self, list: List) -> Vec<Step> {
        let mut steps = Vec::new();
        self.block_steps(list, 0, &mut steps);
        steps
    }

    fn block_steps(&self, list: List, block: u32, steps: &mut Vec<Step>) {
        let (first, end) = self.blocks[block as usize].lists[list as usize];
        for at in first..end {
            let Some(call) = &self.rules[at as usize].call else {
                steps.push(Step::Rule(RuleId(at)));
                continue;
            };
            steps.push(Step::Enter(RuleId(at)));
            for callee in call {
                self.block_steps(list, *callee, steps);
            }
            steps.push(Step::Leave(RuleId(at)));
        }
    }

    /// Whether a name in `on` or `received-on` means an interface.
    #[must_use]
    pub fn names_interface(&self, name: &str, interface: &InterfaceFacts) -> bool {
        names_interface(name, &interface.name, Some(interface), self.ruleset.dialect)
    }

    /// Whether the name would mean an interface of which nothing but its name is known.
    #[must_use]
    pub fn names_unknown_interface(&self, name: &str, interface: &str) -> bool {
        names_interface(name, interface, None, self.ruleset.dialect)
    }

    /// The networks that `(interface)` stands for now.
    #[must_use]
    pub fn networks_of(&self, dynamic: &Dynamic) -> Vec<(IpAddr, u8)> {
        dynamic_prefixes(self.resolver, dynamic)
    }

    /// The same as a pool gives them: no link-local ones of IPv6, which nobody behind the next
    /// router could answer (`pf_islinklocal` of pf_lb.c).
    #[must_use]
    pub fn pool_networks_of(&self, dynamic: &Dynamic) -> Vec<(IpAddr, u8)> {
        let mut networks = self.networks_of(dynamic);
        networks.retain(|(address, _)| match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        });
        networks
    }

    /// The networks of the table that a rule of an anchor means, as a pool gives them: without
    /// those that are negated.
    #[must_use]
    pub fn networks_of_table(&self, anchor: &str, name: &Text) -> Vec<(IpAddr, u8)> {
        let table = self.tables.find(anchor, name).map(|at| self.tables.at(at));
        let families = [Af::Inet, Af::Inet6];
        let networks = table.into_iter().flat_map(|table| families.map(|af| table.networks(af)));
        networks.flatten().map(|(ip, bits)| (ip.into(), bits)).collect()
    }

    /// The anchor whose table a rule of this anchor means: its own, or the main ruleset (empty).
    /// One that is nowhere defined is the main ruleset's.
    #[must_use]
    pub fn table_anchor(&self, anchor: &str, name: &Text) -> Text {
        let is_in_anchor = self.tables.is_defined(anchor, name);
        if is_in_anchor { anchor.into() } else { "".into() }
    }
}

//! A rule with its lists, before they are multiplied.

use super::address::Found;
use super::pool::PoolTemplate;
use crate::ast::{Filter, IcmpType, Translation};
use crate::ir::{Interface, Rule, Rules};
use crate::value::{Comparison, RouteKind, Text};

/// Which list of a ruleset a rule goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleList {
    Scrub,
    Translate(Translation),
    Filter,
}

impl RuleList {
    pub(super) fn of(self, rules: &mut Rules) -> &mut Vec<Rule> {
        match self {
            Self::Scrub => &mut rules.scrub,
            Self::Translate(Translation::Nat) => &mut rules.nat,
            Self::Translate(Translation::Rdr) => &mut rules.rdr,
            Self::Translate(Translation::Binat) => &mut rules.binat,
            Self::Filter => &mut rules.filter,
        }
    }
}

/// The lists of a rule; one that was not written has one value, which is any.
#[derive(Debug, Clone)]
pub(super) struct Lists {
    pub(super) interfaces: Vec<Option<Interface>>,
    pub(super) protocols: Vec<Option<u8>>,
    pub(super) icmp: Vec<Option<IcmpType>>,
    pub(super) from: Vec<Found>,
    pub(super) to: Vec<Found>,
    pub(super) from_ports: Vec<Option<Comparison<u16>>>,
    pub(super) os: Vec<Option<Text>>,
    pub(super) to_ports: Vec<Option<Comparison<u16>>>,
    pub(super) users: Vec<Option<Comparison<u32>>>,
    pub(super) groups: Vec<Option<Comparison<u32>>>,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            interfaces: vec![None],
            protocols: vec![None],
            icmp: vec![None],
            from: vec![Found::any()],
            to: vec![Found::any()],
            from_ports: vec![None],
            os: vec![None],
            to_ports: vec![None],
            users: vec![None],
            groups: vec![None],
        }
    }
}

/// A rule before its lists are multiplied.
#[derive(Debug, Clone)]
pub(super) struct Template<'f> {
    pub(super) base: Rule,
    pub(super) list: RuleList,
    pub(super) filter: &'f Filter,
    pub(super) lists: Lists,
    pub(super) nat: Option<PoolTemplate>,
    pub(super) rdr: Option<PoolTemplate>,
    pub(super) route: Option<(RouteKind, PoolTemplate)>,
}

impl<'f> Template<'f> {
    pub(super) fn new(base: Rule, list: RuleList, filter: &'f Filter) -> Self {
        let lists = Lists::default();
        Self { base, list, filter, lists, nat: None, rdr: None, route: None }
    }
}

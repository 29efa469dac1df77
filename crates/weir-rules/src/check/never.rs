//! Rules that no packet can match.

use std::collections::{BTreeMap, BTreeSet};

use super::cover::{is_one_interface, port_intervals};
use super::{Finding, List, names};
use crate::Compiled;
use crate::diagnostic::{Code, Severity};
use crate::ir::{Address, Peer, Prelude, Rule, Table};
use crate::resolve::{Resolver, interfaces_named};
use crate::source::Span;
use crate::value::{Af, Direction, Setting, Text};

/// A table with what is in it: looked at once, however many rules ask.
struct Content<'a> {
    table: &'a Table,
    has_inet: bool,
    has_inet6: bool,
}

impl<'a> Content<'a> {
    fn of(table: &'a Table) -> Self {
        let mut content = Self { table, has_inet: false, has_inet6: false };
        // What can change later is not asked about.
        let entries = table.entries().take_while(|_| table.is_const);
        for entry in entries.filter(|entry| !entry.not) {
            let is_v4 = entry.address.is_ipv4();
            content.has_inet |= is_v4;
            content.has_inet6 |= !is_v4;
            if content.has_inet && content.has_inet6 {
                break;
            }
        }
        content
    }
}

/// What the rules are judged against.
pub(super) struct World<'a> {
    resolver: &'a dyn Resolver,
    /// Interfaces under `set skip`, with the statement.
    skipped: Vec<(&'a Text, Span)>,
    /// By anchor and name.
    tables: BTreeMap<(&'a str, &'a str), Content<'a>>,
    /// Tables that change while the firewall runs, though they are `const`.
    filled: BTreeSet<Text>,
    /// Tags that rules set.
    tags: BTreeSet<&'a Text>,
    /// Tags may come from elsewhere, or from rules that are left out for an error.
    has_foreign_tags: bool,
}

impl<'a> World<'a> {
    pub(super) fn new(compiled: &'a Compiled, resolver: &'a dyn Resolver) -> Self {
        let ruleset = &compiled.ruleset;
        let mut skipped: Vec<(&Text, Span)> = Vec::new();
        for prelude in &ruleset.prelude {
            match prelude {
                Prelude::Set(Setting::Skip(names), _) if names.is_empty() => skipped.clear(),
                Prelude::Set(Setting::Skip(names), span) => {
                    skipped.extend(names.iter().map(|name| (name, *span)));
                }
                _ => {}
            }
        }
        let tables = ruleset.tables.iter();
        let tables =
            tables.map(|table| ((&*table.anchor, &*table.name), Content::of(table))).collect();
        let mut tags = BTreeSet::new();
        let has_errors = compiled.error_count > 0;
        let mut has_foreign_tags = has_errors || names::has_outside_rules(ruleset);
        for list in super::lists(ruleset) {
            tags.extend(list.rules.iter().filter_map(|rule| rule.options.tag.as_ref()));
        }
        has_foreign_tags |= !ruleset.main.ether.is_empty();
        let filled = names::filled(ruleset);
        Self { resolver, skipped, tables, filled, tags, has_foreign_tags }
    }

    /// Why nothing matches this rule of `list`; `None` if something may.
    pub(super) fn never(&self, rule: &Rule, list: &List<'_>) -> Option<Finding> {
        self.skipped_interface(rule)
            .or_else(|| self.peer(&rule.from, rule.af, list, "source"))
            .or_else(|| self.peer(&rule.to, rule.af, list, "destination"))
            .or_else(|| received_on(rule))
            .or_else(|| self.tagged(rule))
    }

    fn skipped_interface(&self, rule: &Rule) -> Option<Finding> {
        let on = rule.interface.as_ref().filter(|interface| !interface.not)?;
        let takes = |name: &str| {
            *name == *on.name
                || (is_one_interface(&on.name)
                    && interfaces_named(self.resolver, name)
                        .any(|interfaces_named| *interfaces_named.name == *on.name))
        };
        let (_, span) = self.skipped.iter().find(|(name, _)| takes(name))?;
        let message = format!("no packet comes to this rule: `{}` is not filtered", on.name);
        let place = (*span, "`set skip` takes it out here".to_owned());
        Some(finding(message, "remove the rule, or the interface from `set skip`", Some(place)))
    }

    fn peer(&self, peer: &Peer, af: Option<Af>, list: &List<'_>, what: &str) -> Option<Finding> {
        if peer.not && peer.address == Address::Any {
            let message = format!("no packet matches: its {what} is `! any`");
            return Some(finding(message, "", None));
        }
        if peer.port.is_some_and(|port| port_intervals(port).next().is_none()) {
            let message = format!("no packet matches: its {what} allows no port");
            let help = "`a >< b` leaves out both ends; `a:b` includes them";
            return Some(finding(message, help, None));
        }
        let Address::Table(name) = &peer.address else { return None };
        let local = self.tables.get(&(list.anchor.as_str(), &**name));
        let content = local.or_else(|| self.tables.get(&("", &**name)))?;
        let table = content.table;
        let is_fixed = table.is_const && !table.is_incomplete() && !self.filled.contains(name);
        let has_some = match af {
            Some(Af::Inet) => content.has_inet,
            Some(Af::Inet6) => content.has_inet6,
            None => content.has_inet || content.has_inet6,
        };
        if peer.not || !is_fixed || has_some {
            return None;
        }
        let without = match af {
            Some(af) if content.has_inet || content.has_inet6 => {
                format!("no {} address", af.as_str())
            }
            _ => "no address".to_owned(),
        };
        let message = format!("no packet matches: the table <{name}> is `const` and has {without}");
        Some(finding(message, "", Some((table.span, "the table".to_owned()))))
    }

    fn tagged(&self, rule: &Rule) -> Option<Finding> {
        let (not, tag) = rule.options.tagged.as_ref()?;
        if *not || self.has_foreign_tags || self.tags.contains(tag) {
            return None;
        }
        let message = format!("nothing here sets the tag `{tag}`");
        let known = self.tags.iter().map(|tag| &***tag);
        let near = crate::diagnostic::nearest(tag, known);
        let help = match near {
            Some(near) => format!("there is a tag `{near}`"),
            None => {
                "the rule matches only what iked(8), a bridge or the like has tagged".to_owned()
            }
        };
        let severity = if near.is_some() { Severity::Warning } else { Severity::Note };
        Some(Finding { severity, ..finding(message, &help, None) })
    }
}

fn finding(message: String, help: &str, related: Option<(Span, String)>) -> Finding {
    let (code, severity, label) = (Code::NeverMatches, Severity::Warning, String::new());
    Finding { code, severity, message, label, help: help.to_owned(), related }
}

/// A packet that comes in was received where it comes in.
fn received_on(rule: &Rule) -> Option<Finding> {
    let (on, received_on) = (rule.interface.as_ref()?, rule.received_on.as_ref()?);
    let is_in = rule.direction == Some(Direction::In);
    let single = is_one_interface(&on.name) && is_one_interface(&received_on.name);
    if !is_in || !single || on.not {
        return None;
    }
    if (on.name == received_on.name) != received_on.not {
        return None;
    }
    let message =
        "no packet matches: a packet that comes in here was not received elsewhere".to_owned();
    Some(finding(message, "`received-on` is for `out` rules", None))
}

//! Rules that the order of the list makes pointless.

use std::collections::BTreeMap;

use super::cover::{Leniency, covers, overlaps};
use super::index::{Budget, COMPARISON_COUNT_MAX, Index};
use super::never::World;
use super::{Decides, Finding, List, by_statement};
use crate::ast::Translation;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::fields::same_effects;
use crate::ir::{Action, Rule, Ruleset};
use crate::source::Span;

/// Redirections of one list that are compared pair by pair.
const REDIRECT_COUNT_MAX: usize = 2000;

/// Looks through lists with one budget.
pub(super) struct Checker {
    leniency: Leniency,
    budget: Budget,
    /// The first list that the budget did not reach.
    unfinished: Option<Span>,
}

/// One list with what is known of it.
struct Scene<'a> {
    rules: &'a [Rule],
    /// Whether nothing can match the rule at this place.
    is_never: Vec<bool>,
    /// How many rules before a place may set tags.
    tagging: Vec<usize>,
    /// How many rules before a place may change addresses or ports.
    moving: Vec<usize>,
}

impl<'a> Scene<'a> {
    fn new(rules: &'a [Rule], is_never: Vec<bool>) -> Self {
        let (mut tagging, mut moving) = (vec![0], vec![0]);
        for rule in rules {
            let may_tag = rule.anchor.is_some() || rule.options.tag.is_some();
            let translates = rule.nat.is_some() || rule.rdr.is_some();
            let may_move = rule.anchor.is_some() || (rule.action == Action::Match && translates);
            tagging.push(tagging[tagging.len() - 1] + usize::from(may_tag));
            moving.push(moving[moving.len() - 1] + usize::from(may_move));
        }
        Self { rules, is_never, tagging, moving }
    }

    /// Whether what `wide` looks at stays as it is from the rule at `first` to that at `last`.
    fn is_steady(&self, wide: &Rule, first: usize, last: usize) -> bool {
        let between = |counts: &[usize]| counts[last] > counts[first + 1];
        let has_addresses = !wide.from.is_any() || !wide.to.is_any();
        (wide.options.tagged.is_none() || !between(&self.tagging))
            && (!has_addresses || !between(&self.moving))
    }
}

/// Whether a rule can end or win the evaluation of a filter list.
fn decides(rule: &Rule) -> bool {
    rule.anchor.is_none() && matches!(rule.action, Action::Pass | Action::Block(_))
}

/// Whether a rule does something though it does not win.
fn acts_anyway(rule: &Rule) -> bool {
    let options = &rule.options;
    options.tag.is_some()
        || options.rtable.is_some()
        || options.once
        || rule.log.is_some_and(|log| log.matches)
}

/// Whether a rule has no condition but direction, interface and family.
fn is_default(rule: &Rule) -> bool {
    let mut bare = Rule::new(rule.action, rule.span);
    bare.direction = rule.direction;
    bare.interface.clone_from(&rule.interface);
    bare.af = rule.af;
    decides(rule)
        && !rule.quick
        && covers(rule, &bare, Leniency { new_connections: true, reassembles: true })
}

impl Checker {
    pub(super) fn new(ruleset: &Ruleset) -> Self {
        let reassembles = ruleset.settings.reassemble;
        let leniency = Leniency { new_connections: false, reassembles };
        Self { leniency, budget: Budget::default(), unfinished: None }
    }

    pub(super) fn list(&mut self, list: &List<'_>, world: &World<'_>, found: &mut Vec<Diagnostic>) {
        let rules = list.rules;
        let mut totals: BTreeMap<Span, usize> = BTreeMap::new();
        let mut nevers = Vec::new();
        let mut is_never = Vec::with_capacity(rules.len());
        for rule in rules {
            *totals.entry(rule.span).or_default() += 1;
            let never = world.never(rule, list);
            is_never.push(never.is_some());
            nevers.extend(never.map(|finding| (rule.span, finding)));
        }
        by_statement(&totals, nevers, found);
        for (rule, _) in rules.iter().zip(&is_never).filter(|(_, is_never)| **is_never) {
            if let Some(count) = totals.get_mut(&rule.span) {
                *count -= 1;
            }
        }
        let scene = Scene::new(rules, is_never);
        let findings = match list.decides {
            Decides::First => self.first(&scene),
            Decides::Last => self.last(&scene),
        };
        by_statement(&totals, findings, found);
        self.overlaps(&scene, found);
        if self.budget.is_spent() && self.unfinished.is_none() {
            self.unfinished = rules.first().map(|rule| rule.span);
        }
    }

    /// A note where the budget did not suffice.
    pub(super) fn finish(self) -> Option<Diagnostic> {
        let span = self.unfinished?;
        let message = format!(
            "the search for pointless rules stopped after {COMPARISON_COUNT_MAX} comparisons"
        );
        let mut note = Diagnostic::warning(Code::Limit, span, message);
        note.severity = Severity::Note;
        Some(note.help("put long lists of addresses into tables"))
    }

    /// Of scrub and translation rules, the first that matches holds.
    fn first(&mut self, scene: &Scene<'_>) -> Vec<(Span, Finding)> {
        let rules = scene.rules;
        let index = Index::new(rules, |at| rules[at].anchor.is_none() && !scene.is_never[at]);
        let mut findings = Vec::new();
        for (at, rule) in rules.iter().enumerate().filter(|(at, _)| !scene.is_never[*at]) {
            // A `binat` works both ways: with another address, it takes other packets in.
            let is_binat =
                matches!(rule.action, Action::Translate { kind: Translation::Binat, .. });
            let other = |count: usize| {
                rules[count].span != rule.span && (!is_binat || rules[count].nat == rule.nat)
            };
            let Some(before) =
                index.first_cover(rules, at, 0..at, self.leniency, &mut self.budget, other)
            else {
                continue;
            };
            let is_redirect =
                matches!(rule.action, Action::Translate { kind: Translation::Rdr, .. });
            let code = if is_redirect { Code::OverlappingRedirect } else { Code::Unreachable };
            let finding = Finding {
                code,
                severity: Severity::Warning,
                message: "no packet reaches this rule: an earlier one takes all that it matches"
                    .to_owned(),
                label: "never reached".to_owned(),
                help:
                    "the first rule of this kind that matches applies: put the narrower one first"
                        .to_owned(),
                related: Some((rules[before].span, "this one takes them".to_owned())),
            };
            findings.push((rule.span, finding));
        }
        findings
    }

    /// Of filter rules, the last that matches decides, or one with `quick`.
    fn last(&mut self, scene: &Scene<'_>) -> Vec<(Span, Finding)> {
        let rules = scene.rules;
        let may = |at: usize| decides(&rules[at]) && !scene.is_never[at];
        let quick = Index::new(rules, |at| may(at) && rules[at].quick);
        let all = Index::new(rules, may);
        let mut findings = Vec::new();
        for (at, rule) in rules.iter().enumerate().filter(|(at, _)| !scene.is_never[*at]) {
            let hidden = self.hidden_default(scene, &quick, at);
            let finding = hidden
                .or_else(|| self.unreachable(scene, &quick, at))
                .or_else(|| self.shadowed(scene, &all, at));
            findings.extend(finding.map(|finding| (rule.span, finding)));
        }
        findings
    }

    fn hidden_default(&mut self, scene: &Scene<'_>, quick: &Index, at: usize) -> Option<Finding> {
        let rules = scene.rules;
        let rule = &rules[at];
        if !is_default(rule) {
            return None;
        }
        let passes = |rule: &Rule| rule.action == Action::Pass;
        let accepts = |count: usize| {
            passes(&rules[count]) != passes(rule) && scene.is_steady(&rules[count], count, at)
        };
        let leniency = Leniency { new_connections: true, ..self.leniency };
        let before = quick.first_cover(rules, at, 0..at, leniency, &mut self.budget, accepts)?;
        Some(Finding {
            code: Code::QuickHides,
            severity: Severity::Warning,
            message: "this default decides nothing: an earlier `quick` rule takes every new \
                      connection"
                .to_owned(),
            label: "comes too late".to_owned(),
            help: "put the default first and leave out `quick`: the last match wins".to_owned(),
            related: Some((rules[before].span, "this `quick` decides".to_owned())),
        })
    }

    fn unreachable(&mut self, scene: &Scene<'_>, quick: &Index, at: usize) -> Option<Finding> {
        let rules = scene.rules;
        let rule = &rules[at];
        let accepts = |count: usize| {
            rules[count].span != rule.span && scene.is_steady(&rules[count], count, at)
        };
        let before =
            quick.first_cover(rules, at, 0..at, self.leniency, &mut self.budget, accepts)?;
        let what = if rule.anchor.is_some() { "anchor" } else { "rule" };
        Some(Finding {
            code: Code::Unreachable,
            severity: Severity::Warning,
            message: format!(
                "no packet reaches this {what}: an earlier `quick` rule takes all that it matches"
            ),
            label: "never reached".to_owned(),
            help: if same_effects(&rules[before], rule) {
                "this one can go".to_owned()
            } else {
                "put the narrower one first".to_owned()
            },
            related: Some((rules[before].span, "this `quick` decides".to_owned())),
        })
    }

    fn shadowed(&mut self, scene: &Scene<'_>, all: &Index, at: usize) -> Option<Finding> {
        let rules = scene.rules;
        let rule = &rules[at];
        if !decides(rule) || rule.quick || acts_anyway(rule) {
            return None;
        }
        let accepts = |count: usize| {
            rules[count].span != rule.span && scene.is_steady(&rules[count], at, count)
        };
        let range = at + 1..rules.len();
        let later = all.first_cover(rules, at, range, self.leniency, &mut self.budget, accepts)?;
        let is_same = same_effects(&rules[later], rule);
        let help = if is_same {
            "this one can go"
        } else {
            "the last match wins: put the narrower rule later, or make it `quick`"
        };
        let redirect = rule.rdr.is_some() && rules[later].rdr.is_some();
        Some(Finding {
            code: if redirect { Code::OverlappingRedirect } else { Code::Shadowed },
            severity: Severity::Warning,
            message: "this rule never decides: a later one matches everything that it does"
                .to_owned(),
            label: "never decides".to_owned(),
            help: help.to_owned(),
            related: Some((rules[later].span, "this one decides".to_owned())),
        })
    }

    /// Redirections of which neither covers the other, but that have packets in common.
    fn overlaps(&mut self, scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
        let redirects = |rule: &Rule| {
            let old =
                matches!(rule.action, Action::Translate { kind: Translation::Rdr, no: false, .. });
            rule.anchor.is_none() && rule.rdr.is_some() && (old || rule.action == Action::Match)
        };
        let places: Vec<usize> = (0..scene.rules.len())
            .filter(|at| !scene.is_never[*at] && redirects(&scene.rules[*at]))
            .take(REDIRECT_COUNT_MAX)
            .collect();
        let mut reported: Vec<Span> = Vec::new();
        for (nth, second) in places.iter().enumerate() {
            let rule = &scene.rules[*second];
            if reported.contains(&rule.span) {
                continue;
            }
            let crosses = |first: &&usize| {
                let before = &scene.rules[**first];
                let is_match = rule.action == Action::Match;
                let is_within = covers(before, rule, self.leniency);
                let nested = if is_match {
                    covers(rule, before, self.leniency) && !is_within
                } else {
                    covers(rule, before, self.leniency) || is_within
                };
                before.span != rule.span
                    && before.action == rule.action
                    && before.rdr != rule.rdr
                    && !nested
                    && overlaps(before, rule)
            };
            if let Some(first) = places[..nth].iter().find(crosses) {
                reported.push(rule.span);
                let message = "an earlier redirection takes packets of this one";
                let mut note = Diagnostic::warning(Code::OverlappingRedirect, rule.span, message);
                note.severity = Severity::Note;
                let place = scene.rules[*first].span;
                found.push(note.related(place, "this one comes first"));
            }
        }
    }
}

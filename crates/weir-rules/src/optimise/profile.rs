//! Counters of rules from an earlier run, by the rules' text: it stays the same when numbers do
//! not.

use std::collections::HashMap;

use crate::ir::Rule;
use crate::print::{PrintOptions, Printer};

/// Packets that each rule matched.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    packets_by_rule: HashMap<String, u64>,
}

/// What a profile cannot be read for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Reads what `pfctl -vsr` prints: each rule, with or without `@N` in front and with ports
    /// and protocols by name or number, and below it `[ Evaluations: … Packets: N … ]`. Other
    /// lines in brackets are passed over. Rules that stand there several times add up.
    ///
    /// # Errors
    ///
    /// Counters without a rule above them, and packets that are no number.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let mut profile = Self::default();
        let mut rule: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let fail = |cause: &str| ProfileError { line: index + 1, cause: cause.to_owned() };
            let Some(inside) = line.strip_prefix('[') else {
                if !line.is_empty() {
                    rule = Some(without_number(line).to_owned());
                }
                continue;
            };
            let Some((_, counters)) = inside.split_once("Packets:") else { continue };
            let word = counters.split_whitespace().next().unwrap_or("");
            let packets =
                word.parse().map_err(|_| fail("`Packets:` is not followed by a number"))?;
            let Some(rule) = &rule else {
                return Err(fail("counters come before all rules"));
            };
            profile.add(rule, packets);
        }
        Ok(profile)
    }

    /// Whether no rule was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets_by_rule.is_empty()
    }

    /// Adds packets to a rule, named by its text as [`Printer::rule`] gives it.
    pub fn add(&mut self, rule: &str, packets: u64) {
        let sum = self.packets_by_rule.entry(rule.to_owned()).or_default();
        *sum = sum.saturating_add(packets);
    }

    /// Orders rules by their packets, most first; those without a count stay in order behind. Says
    /// how many moved; `None` if none of them was counted.
    pub(super) fn order(&self, block: &mut Vec<Rule>, printer: Printer<'_>) -> Option<usize> {
        let counts: Vec<Option<u64>> =
            block.iter().map(|rule| self.packets(rule, printer)).collect();
        if counts.iter().all(Option::is_none) {
            return None;
        }
        let mut order: Vec<usize> = (0..block.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(counts[*at].unwrap_or(0)));
        let moved = order.iter().enumerate().filter(|(at, before)| *at != **before).count();
        let mut rules: Vec<Option<Rule>> = block.drain(..).map(Some).collect();
        block.extend(order.into_iter().filter_map(|at| rules[at].take()));
        Some(moved)
    }

    fn packets(&self, rule: &Rule, printer: Printer<'_>) -> Option<u64> {
        let text = |numeric_ports: bool| {
            let options = PrintOptions { numeric_ports, ..PrintOptions::default() };
            Printer { options, ..printer }.rule(rule)
        };
        let named = self.packets_by_rule.get(&text(false));
        named.or_else(|| self.packets_by_rule.get(&text(true))).copied()
    }
}

/// The rule behind `@N`.
fn without_number(line: &str) -> &str {
    let Some(rest) = line.strip_prefix('@') else { return line };
    rest.split_once(' ').map_or(line, |(_, rule)| rule.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_listing() {
        let text = "@0 pass in quick all flags S/SA keep state\n  \
             [ Evaluations: 12        Packets: 7         Bytes: 420         States: 1     ]\n  \
             [ Inserted: uid 0 pid 0 State Creations: 1     ]\n\
             block drop in quick all\n  [ Evaluations: 1 Packets: 2 Bytes: 0 States: 0 ]\n";
        let profile = Profile::parse(text).unwrap();
        let mut found: Vec<_> = profile.packets_by_rule.into_iter().collect();
        found.sort();
        let first = "block drop in quick all".to_owned();
        let second = "pass in quick all flags S/SA keep state".to_owned();
        assert_eq!(found, [(first, 2), (second, 7)]);
        let error = Profile::parse("  [ Evaluations: 1 Packets: 2 ]").unwrap_err();
        assert_eq!(error.to_string(), "line 1: counters come before all rules");
        let error = Profile::parse("pass\n[ Packets: many ]").unwrap_err();
        assert_eq!(error.line, 2);
    }
}

//! Skip steps: where the kernel goes on when a rule fails in a field, as it computes them itself:
//! the next rule that differs in that field.

use std::fmt::Write as _;

use crate::dialect::Dialect;
use crate::ir::Rule;

/// Fields that have skip steps: OpenBSD's nine, of which FreeBSD lacks the routing domain.
pub(crate) const SKIP_FIELD_COUNT: usize = 9;

/// Letters of the fields in pfctl's output, in the order of [`SkipSteps::next`].
const LETTERS: [&str; SKIP_FIELD_COUNT] = ["i", "d", "r", "f", "p", "sa", "da", "sp", "dp"];

/// The fields in the order of each dialect's kernel, as places in [`SkipSteps::next`].
const FREEBSD: &[usize] = &[0, 1, 3, 4, 5, 7, 6, 8];
const OPENBSD: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8];

/// The skip steps of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkipSteps {
    /// The rule's own number in its list.
    pub number: usize,
    /// The next rule that differs; `None` is the end of the list. In the order: interface,
    /// direction, routing domain, family, protocol, source, destination, source port,
    /// destination port.
    pub next: [Option<usize>; SKIP_FIELD_COUNT],
}

/// The skip steps of a list of rules.
#[must_use]
pub fn skip_steps(rules: &[Rule]) -> Vec<SkipSteps> {
    let mut steps: Vec<SkipSteps> = Vec::with_capacity(rules.len());
    for (number, rule) in rules.iter().enumerate().rev() {
        let mut next = [None; SKIP_FIELD_COUNT];
        // The list is built from its end: the last entry is the rule after this one.
        if let (Some(after), Some(behind)) = (rules.get(number + 1), steps.last()) {
            for (field, slot) in next.iter_mut().enumerate() {
                *slot =
                    if agrees(rule, after, field) { behind.next[field] } else { Some(number + 1) };
            }
        }
        steps.push(SkipSteps { number, next });
    }
    steps.reverse();
    steps
}

fn agrees(one: &Rule, other: &Rule, field: usize) -> bool {
    match field {
        0 => one.interface == other.interface,
        1 => one.direction == other.direction,
        2 => one.rdomain == other.rdomain,
        3 => one.af == other.af,
        4 => one.protocol == other.protocol,
        5 => one.from.not == other.from.not && one.from.address == other.from.address,
        6 => one.to.not == other.to.not && one.to.address == other.to.address,
        7 => one.from.port == other.from.port,
        _ => one.to.port == other.to.port,
    }
}

impl SkipSteps {
    /// `  [ Skip steps: i=3 d=end ]`, as pfctl prints it, without a newline. Steps to the very
    /// next rule are left out.
    #[must_use]
    pub fn line(&self, dialect: Dialect) -> String {
        let order = match dialect {
            Dialect::FreeBsd => FREEBSD,
            Dialect::OpenBsd => OPENBSD,
        };
        let mut text = "  [ Skip steps: ".to_owned();
        for field in order {
            // Writing to a string cannot fail.
            let _ = match self.next[*field] {
                Some(next) if next == self.number + 1 => Ok(()),
                Some(next) => write!(text, "{}={next} ", LETTERS[*field]),
                None => write!(text, "{}=end ", LETTERS[*field]),
            };
        }
        text.push(']');
        text
    }
}

//! What follows an evaluation, rule by rule.

use super::Ip;
use super::criterion::Criterion;
use crate::value::Text;

/// What the rules see of the packet at a moment: translation changes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) source: Ip,
    pub(crate) destination: Ip,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

/// What came of looking at a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// It does not match, for this.
    Failed(Criterion),
    /// It matches.
    Matched,
    /// It matches, and its anchor is entered.
    Entered,
    /// Its anchor is left; whether a rule in it decided the packet.
    Left(bool),
}

/// What follows an evaluation.
pub(crate) trait Tracer {
    /// Whether it wants to know of every rule that is asked.
    const IS_ON: bool;

    /// A rule was looked at, `depth` anchors deep.
    fn rule(&mut self, at: u32, depth: usize, outcome: Outcome, seen: &Seen<'_>);
}

/// What a tracer may look at.
pub(crate) struct Seen<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) tag: Option<&'a Text>,
    pub(crate) tcp_flags: u8,
}

/// Follows nothing.
pub(crate) struct Silent;

impl Tracer for Silent {
    const IS_ON: bool = false;

    #[inline]
    fn rule(&mut self, _: u32, _: usize, _: Outcome, _: &Seen<'_>) {}
}

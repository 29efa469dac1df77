//! Why a packet meets its fate: every rule that was asked, what it failed at with both values, and
//! what the winner does. As values, for whoever writes JSON, and as text.

mod does;
mod why;

use std::fmt::Write as _;

use crate::evaluate::{
    Criterion, Evaluator, List, Moment, Outcome, Packet, Reason, RuleId, RuleRef, Seen, Subject,
    Tracer, Verdict,
};
use crate::ir::Action;
use crate::print::Printer;
use crate::source::{SourceMap, Span};
use crate::value::Text;

/// Steps that a trace keeps; what comes after is counted, not kept.
pub(crate) const STEP_COUNT_MAX: usize = 200_000;

/// What came of asking a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// It does not match.
    Failed {
        /// The first criterion that failed.
        criterion: Criterion,
        /// In words, with the packet's value and the rule's.
        why: String,
    },
    /// It matches.
    Matched,
    /// It matches, and the rules of its anchor are asked.
    Entered,
    /// The rules of its anchor have been asked.
    Left {
        /// Whether a `pass` or `block` among them matched.
        decided: bool,
    },
}

impl StepOutcome {
    /// One word for it, for JSON.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "no-match",
            Self::Matched => "match",
            Self::Entered => "entered",
            Self::Left { .. } => "left",
        }
    }
}

/// Old `scrub` rules are asked twice about a packet of TCP: how IP is normalised, without a look at
/// ports, and how TCP is. Each time the first that matches holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubPass {
    /// Fragments, TTL, the don't-fragment bit, and so on.
    Ip,
    /// TCP's flags, timestamps and largest segment.
    Tcp,
}

impl ScrubPass {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "IP",
            Self::Tcp => "TCP",
        }
    }
}

/// One rule that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The rule.
    pub id: RuleId,
    /// The list it is in.
    pub list: List,
    /// Of FreeBSD's old `scrub` rules: what they are asked about.
    pub pass: Option<ScrubPass>,
    /// The path of its anchor; empty for the main ruleset.
    pub anchor: String,
    /// How many anchors deep it is asked.
    pub depth: usize,
    /// Its number in its list, as pfctl counts from 0.
    pub number: u32,
    /// Its text, as pfctl prints it.
    pub rule: String,
    /// Where its statement stands.
    pub span: Span,
    /// File and line of that, if the files are at hand.
    pub place: Option<(String, u32)>,
    /// It has `quick`, and is no translation rule, where that means nothing.
    pub quick: bool,
    /// What came of it.
    pub outcome: StepOutcome,
    /// It is the rule that decides.
    pub wins: bool,
}

/// Why a packet meets its fate.
#[derive(Debug, Clone)]
pub struct Explanation<'a> {
    /// The packet, in the words that [`Packet::parse`] reads.
    pub packet: String,
    /// The rules that were asked, in order.
    pub steps: Vec<Step>,
    /// Steps beyond [`STEP_COUNT_MAX`].
    pub dropped_count: usize,
    /// Filter rules of the main ruleset that are not asked, because `quick` ended the evaluation.
    pub unasked_count: usize,
    /// The step of the rule that decides, found from the steps alone. `None` where no rule
    /// decides, or its step was dropped.
    pub winner: Option<usize>,
    pub verdict: Verdict<'a>,
    /// The verdict in a sentence.
    pub conclusion: String,
    /// What becomes of the packet besides: translation, state, answer, log, and so on.
    pub effects: Vec<String>,
}

/// What a trace keeps of a step until it is put into words.
struct Raw {
    at: u32,
    depth: usize,
    outcome: Outcome,
    subject: Subject,
    tag: Option<Text>,
    tcp_flags: u8,
}

#[derive(Default)]
struct Recorder {
    steps: Vec<Raw>,
    dropped_count: usize,
}

impl Tracer for Recorder {
    const IS_ON: bool = true;

    fn rule(&mut self, at: u32, depth: usize, outcome: Outcome, seen: &Seen<'_>) {
        if self.steps.len() >= STEP_COUNT_MAX {
            self.dropped_count += 1;
            return;
        }
        let (subject, tag) = (*seen.subject, seen.tag.cloned());
        self.steps.push(Raw { at, depth, outcome, subject, tag, tcp_flags: seen.tcp_flags });
    }
}

/// Evaluates a packet and says why. `sources` gives the places of rules, where the ruleset was
/// read from files; those of loaded anchors have none.
#[must_use]
pub fn explain<'a>(
    evaluator: &'a Evaluator<'_>,
    printer: &Printer<'_>,
    sources: Option<&SourceMap>,
    packet: &Packet,
    moment: &mut Moment<'_>,
) -> Explanation<'a> {
    let mut recorder = Recorder::default();
    let verdict = evaluator.run(packet, moment, &mut recorder);
    let narrator = why::Narrator { evaluator, packet };
    let mut steps = Vec::with_capacity(recorder.steps.len());
    let mut scrub = Passes::default();
    for raw in &recorder.steps {
        let Some(rule) = evaluator.rule(RuleId(raw.at)) else {
            continue;
        };
        let outcome = match raw.outcome {
            Outcome::Failed(criterion) => {
                let seen =
                    Seen { subject: &raw.subject, tag: raw.tag.as_ref(), tcp_flags: raw.tcp_flags };
                StepOutcome::Failed { criterion, why: narrator.why(&rule, criterion, &seen) }
            }
            Outcome::Matched => StepOutcome::Matched,
            Outcome::Entered => StepOutcome::Entered,
            Outcome::Left(decided) => StepOutcome::Left { decided },
        };
        let pass = (rule.list == List::Scrub).then(|| scrub.pass(raw.at));
        steps.push(Step { pass, ..step(&rule, raw.depth, outcome, printer, sources) });
    }
    let winner = winner(&steps, evaluator, verdict.reason);
    if let Some(at) = winner {
        steps[at].wins = true;
    }
    let place = |rule: &RuleRef<'_>| name_of(rule, sources);
    let last = steps.iter().rfind(|step| step.list == List::Filter && step.depth == 0);
    let asked = last.map_or(0, |step| step.number as usize + 1);
    let unasked_count = evaluator.ruleset().main.filter.len().saturating_sub(asked);
    let mut effects = does::effects(&verdict, packet, &place);
    if packet.syn.is_some() && evaluator.rules().any(|rule| rule.os.is_some()) {
        effects.push(format!("by its fingerprint the SYN is of {}", evaluator.os_of(packet)));
    }
    let ether_count = evaluator.ruleset().main.ether.len();
    if ether_count > 0 {
        // A packet here has no MAC addresses.
        let are = if ether_count == 1 { "rule is" } else { "rules are" };
        effects
            .push(format!("{ether_count} `ether` {are} not evaluated: they come before all this"));
    }
    Explanation {
        packet: packet.to_string(),
        unasked_count: if verdict.quick && recorder.dropped_count == 0 { unasked_count } else { 0 },
        dropped_count: recorder.dropped_count,
        winner,
        conclusion: does::conclusion(&verdict, printer, &place),
        effects,
        steps,
        verdict,
    }
}

/// Tells the passes over `scrub` rules apart: each begins with the first rule.
#[derive(Default)]
struct Passes {
    last: Option<u32>,
    is_second: bool,
}

impl Passes {
    fn pass(&mut self, at: u32) -> ScrubPass {
        self.is_second |= self.last.is_some_and(|last| at <= last);
        self.last = Some(at);
        if self.is_second { ScrubPass::Tcp } else { ScrubPass::Ip }
    }
}

fn step(
    rule: &RuleRef<'_>,
    depth: usize,
    outcome: StepOutcome,
    printer: &Printer<'_>,
    sources: Option<&SourceMap>,
) -> Step {
    Step {
        id: rule.id,
        list: rule.list,
        pass: None,
        anchor: rule.anchor.to_owned(),
        depth,
        number: rule.number,
        rule: printer.rule(rule.rule),
        span: rule.rule.span,
        place: place_of(rule, sources),
        quick: rule.rule.quick && rule.list == List::Filter,
        outcome,
        wins: false,
    }
}

/// The step of the rule that decides: the last `pass` or `block` that matched, or the translation
/// rule with `pass`.
fn winner(steps: &[Step], evaluator: &Evaluator<'_>, reason: Reason) -> Option<usize> {
    let by_translation = reason == Reason::TranslationPass;
    steps.iter().rposition(|step| {
        let action = evaluator.rule(step.id).map(|rule| rule.rule.action);
        let decides = match action {
            Some(Action::Pass | Action::Block(_)) => true,
            Some(Action::Translate { pass: true, .. }) => by_translation,
            _ => false,
        };
        step.outcome == StepOutcome::Matched && decides
    })
}

fn place_of(rule: &RuleRef<'_>, sources: Option<&SourceMap>) -> Option<(String, u32)> {
    let sources = sources.filter(|_| !rule.is_loaded)?;
    let span = rule.rule.span;
    let file = sources.file(span.file)?;
    let line = sources.position(span.file, span.start).line;
    Some((file.name.clone(), line))
}

/// `@3 of anchor x (pf.conf:12)`.
fn name_of(rule: &RuleRef<'_>, sources: Option<&SourceMap>) -> String {
    let mut name = match rule.list {
        List::Filter => format!("@{}", rule.number),
        other => format!("{} @{}", other.as_str(), rule.number),
    };
    if !rule.anchor.is_empty() {
        let _ = write!(name, " of anchor `{}`", rule.anchor);
    }
    if let Some((file, line)) = place_of(rule, sources) {
        let _ = write!(name, " ({file}:{line})");
    }
    name
}

impl Explanation<'_> {
    /// The trace for people: the packet, each rule with what came of it, the verdict.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("packet: {}\n", self.packet);
        let mut list = None;
        for step in &self.steps {
            if list != Some((step.list, step.pass)) {
                let about =
                    step.pass.map_or(String::new(), |pass| format!(", for {}", pass.as_str()));
                let _ = writeln!(out, "\n{} rules{about}:", step.list.as_str());
                list = Some((step.list, step.pass));
            }
            step.write(&mut out);
        }
        if self.dropped_count > 0 {
            let _ = writeln!(out, "  and {} more steps", self.dropped_count);
        }
        if self.unasked_count > 0 {
            let s = if self.unasked_count == 1 { "" } else { "s" };
            let _ = writeln!(out, "  ({} more rule{s} not evaluated)", self.unasked_count);
        }
        let _ = writeln!(out, "\nverdict: {}", self.conclusion);
        for effect in &self.effects {
            let _ = writeln!(out, "  {effect}");
        }
        out
    }
}

impl Step {
    fn write(&self, out: &mut String) {
        let margin = 2 + self.depth * 2;
        let mark = if self.wins { '*' } else { ' ' };
        let mut name = format!("@{}", self.number);
        if let Some((file, line)) = &self.place {
            let _ = write!(name, " {file}:{line}");
        }
        let said = match &self.outcome {
            StepOutcome::Failed { why, .. } => format!("no: {why}"),
            StepOutcome::Matched if self.quick => "matches, and is quick".into(),
            StepOutcome::Matched if self.wins => "matches, and is the last one that does".into(),
            StepOutcome::Matched => "matches".into(),
            StepOutcome::Entered => "matches: its rules are evaluated".into(),
            StepOutcome::Left { decided } => {
                let end = if *decided { "a rule in it matched" } else { "no rule in it decided" };
                let _ = writeln!(out, "{mark}{:1$}{name} end of the anchor: {end}", "", margin - 1);
                return;
            }
        };
        let _ = writeln!(out, "{mark}{:1$}{name} {2}", "", margin - 1, self.rule);
        let _ = writeln!(out, " {:1$}{said}", "", margin + 3);
    }
}

#[cfg(test)]
mod tests;

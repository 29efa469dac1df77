//! `weir fw explain`: what becomes of packets, and why.
//!
//! `weir-rules` evaluates; here are the packets, the anchors that `load anchor` names, and the
//! output.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use weir_rules::Compiled;
use weir_rules::diagnostic::Severity;
use weir_rules::evaluate::{AllRouted, Evaluator, LoadedAnchor, Moment, Packet, Reason};
use weir_rules::explain::{Explanation, ScrubPass, Step, StepOutcome};
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::source::{SourceMap, SourceProvider as _};
use weir_rules::value::{Direction, Text};
use weir_wire::{MacAddr, ethernet, pcap};

use super::files;
use super::load::Language;
use super::show;
use crate::cli::fw::ExplainArgs;
use crate::exit::Outcome;

mod states;

use states::States;

/// One rule that was asked.
#[derive(Debug, Serialize)]
struct StepRow<'a> {
    anchor: &'a str,
    list: &'static str,
    /// Of `scrub` rules: `IP` or `TCP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'static str>,
    number: u32,
    depth: usize,
    rule: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// `no-match`, `match`, `entered` or `left`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    criterion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    wins: bool,
}

impl<'a> StepRow<'a> {
    fn new(step: &'a Step) -> Self {
        let (criterion, why) = match &step.outcome {
            StepOutcome::Failed { criterion, why } => (Some(criterion.as_str()), Some(&**why)),
            _ => (None, None),
        };
        Self {
            anchor: &step.anchor,
            list: step.list.as_str(),
            pass: step.pass.map(ScrubPass::as_str),
            number: step.number,
            depth: step.depth,
            rule: &step.rule,
            file: step.place.as_ref().map(|(file, _)| file.as_str()),
            line: step.place.as_ref().map(|(_, line)| *line),
            outcome: step.outcome.as_str(),
            criterion,
            why,
            wins: step.wins,
        }
    }
}

/// What becomes of a packet: one line of JSON.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    /// Place in the capture file or on the command line, from 1.
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    packet: &'a str,
    /// `pass` or `block`.
    decision: &'static str,
    /// Why: `rule`, `default`, `skip` and so on.
    reason: &'static str,
    quick: bool,
    conclusion: &'a str,
    effects: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepRow<'a>>,
    not_listed_count: usize,
}

/// A frame of a capture file that holds no packet for the rules.
#[derive(Debug, Serialize)]
struct Passed {
    number: u64,
    time_ns: u64,
    error: String,
}

/// Runs the command.
pub(super) fn command(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let language = Language::new(&args.language)?;
    let compiled = language.compile(&args.file)?;
    let errors =
        compiled.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let errors: Vec<_> = errors.cloned().collect();
    show::diagnostics(&errors, &compiled.sources, compiled.dropped_count);
    if compiled.error_count > 0 {
        return Ok(Outcome::Refused);
    }
    let loaded = loaded(&language, &compiled)?;
    let loaded_anchor =
        |(path, compiled): (Text, Compiled)| LoadedAnchor { path, ruleset: compiled.ruleset };
    let anchors: Vec<LoadedAnchor> = loaded.into_iter().map(loaded_anchor).collect();
    let evaluator = Evaluator::new(&compiled.ruleset, &anchors, &language.facts)?;
    let session = Session {
        evaluator: &evaluator,
        sources: &compiled.sources,
        printer: Printer {
            dialect: compiled.ruleset.dialect,
            resolver: &language.facts,
            options: PrintOptions::default(),
        },
        is_json: args.language.json.json,
        is_brief: args.brief,
    };
    let mut states = States::new(args.states);
    match (&args.pcap, &args.on) {
        (Some(path), Some(interface)) => {
            let way = Way { interface, out: args.out, mac: args.mac };
            session.capture(path, &way, &mut states)
        }
        _ => session.words(&args.packets, &mut states),
    }
}

/// The files that `load anchor` names, compiled, each with its anchor.
fn loaded(language: &Language, compiled: &Compiled) -> anyhow::Result<Vec<(Text, Compiled)>> {
    let mut loaded = Vec::new();
    for load in &compiled.ruleset.loads {
        let from = compiled.sources.file(load.span.file).map_or("", |file| &file.name);
        // That it is missing has been a warning of the check; the anchor is then empty.
        let Ok(bytes) = language.disk.read(&load.file, from) else { continue };
        let compiled = language.compile_bytes(&load.file, &bytes);
        if compiled.error_count > 0 {
            show::diagnostics(&compiled.diagnostics, &compiled.sources, compiled.dropped_count);
            bail!("the file of anchor `{}` has errors: {}", load.name, load.file);
        }
        loaded.push((load.name.clone(), compiled));
    }
    Ok(loaded)
}

/// How the packets of a capture file cross their interface.
struct Way<'a> {
    interface: &'a str,
    /// All of them leave.
    out: bool,
    /// The address of the interface: what it sent leaves.
    mac: Option<MacAddr>,
}

impl Way<'_> {
    fn direction(&self, frame: &[u8]) -> Direction {
        let sender = ethernet::Packet::new_checked(frame).ok().map(|header| header.src());
        let is_sent = self.mac.is_some() && sender == self.mac;
        if self.out || is_sent { Direction::Out } else { Direction::In }
    }
}

/// A ruleset that packets are put to.
struct Session<'a> {
    evaluator: &'a Evaluator<'a>,
    sources: &'a SourceMap,
    printer: Printer<'a>,
    is_json: bool,
    is_brief: bool,
}

impl Session<'_> {
    /// Packets in words.
    fn words(&self, packets: &[String], states: &mut States) -> anyhow::Result<Outcome> {
        let mut parsed = Vec::new();
        for text in packets {
            let packet = Packet::parse(text, self.printer.resolver).map_err(|error| {
                let before = text.get(..error.at.start).unwrap_or("").chars().count();
                let under = text.get(error.at.clone()).unwrap_or("").chars().count().max(1);
                let (blank, carets) = (" ".repeat(before), "^".repeat(under));
                anyhow::anyhow!("--packet: {}\n  {text}\n  {blank}{carets}", error.message)
            })?;
            parsed.push(packet);
        }
        let mut out = std::io::BufWriter::new(std::io::stdout());
        for (number, packet) in (1..).zip(&parsed) {
            self.packet(&mut out, (number, None), packet, states)?;
        }
        out.flush().context(crate::exit::NO_OUTPUT)?;
        Ok(Outcome::Done)
    }

    /// Packets of a capture file.
    fn capture(&self, path: &Path, way: &Way<'_>, states: &mut States) -> anyhow::Result<Outcome> {
        let name = path.display();
        let bytes = std::fs::read(path)
            .map_err(|error| anyhow::anyhow!("cannot read {name}: {}", files::message(&error)))?;
        let reader = pcap::Reader::new(&bytes).with_context(|| name.to_string())?;
        let mut out = std::io::BufWriter::new(std::io::stdout());
        for (number, record) in (1..).zip(reader) {
            let record = record.with_context(|| format!("{name}: packet {number}"))?;
            let direction = way.direction(record.frame);
            match Packet::from_frame(record.frame, direction, way.interface) {
                Ok(packet) => {
                    self.packet(&mut out, (number, Some(record.time_ns)), &packet, states)?;
                }
                Err(error) => {
                    let (time_ns, error) = (record.time_ns, error.to_string());
                    let text = if self.is_json {
                        serde_json::to_string(&Passed { number, time_ns, error })?
                    } else {
                        format!("#{number}: not evaluated by the rules: {error}")
                    };
                    writeln!(out, "{text}").context(crate::exit::NO_OUTPUT)?;
                }
            }
        }
        out.flush().context(crate::exit::NO_OUTPUT)?;
        Ok(Outcome::Done)
    }

    fn packet(
        &self,
        out: &mut impl std::io::Write,
        (number, time_ns): (u64, Option<u64>),
        packet: &Packet,
        states: &mut States,
    ) -> anyhow::Result<()> {
        let mut random = || 0;
        let mut moment = Moment {
            now_ns: time_ns.unwrap_or(0),
            random: &mut random,
            states,
            routes: &AllRouted,
        };
        let (evaluator, printer) = (self.evaluator, &self.printer);
        let sources = Some(self.sources);
        let mut explanation =
            weir_rules::explain::explain(evaluator, printer, sources, packet, &mut moment);
        if explanation.verdict.reason == Reason::State {
            explanation.effects.extend(states.translation(packet));
        }
        states.keep(packet, &explanation.verdict)?;
        let text = if self.is_json {
            serde_json::to_string(&self.answer(number, time_ns, &explanation))? + "\n"
        } else if self.is_brief {
            format!("#{number}: {}: {}\n", explanation.packet, explanation.conclusion)
        } else if number > 1 {
            format!("\n{}", explanation.text())
        } else {
            explanation.text()
        };
        out.write_all(text.as_bytes()).context(crate::exit::NO_OUTPUT)
    }

    fn answer<'e>(
        &self,
        number: u64,
        time_ns: Option<u64>,
        explanation: &'e Explanation<'_>,
    ) -> Answer<'e> {
        let steps = if self.is_brief { &[][..] } else { &explanation.steps };
        Answer {
            number,
            time_ns,
            packet: &explanation.packet,
            decision: explanation.verdict.decision.as_str(),
            reason: explanation.verdict.reason.as_str(),
            quick: explanation.verdict.quick,
            conclusion: &explanation.conclusion,
            effects: &explanation.effects,
            steps: steps.iter().map(StepRow::new).collect(),
            not_listed_count: explanation.dropped_count,
        }
    }
}

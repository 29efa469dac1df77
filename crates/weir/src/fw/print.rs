//! `weir fw print`: a ruleset as pfctl -nvf prints it, or its rules with the lines they come from.

use anyhow::{Error, bail};
use serde::Serialize;
use weir_rules::Compiled;
use weir_rules::ir::{AnchorCall, EtherRule, Rules};
use weir_rules::optimise::Level;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::source::Span;

use super::json::{self, Diagnostic, Place};
use super::load::Language;
use super::{optimise, put, put_json, show};
use crate::cli::fw::{Level as LevelOption, PrintArgs};
use crate::exit::Outcome;

/// A rule with where it stands.
#[derive(Debug, Serialize)]
struct Row {
    /// Path of the anchor; empty for the main ruleset.
    anchor: String,
    /// `ether`, `scrub`, `nat`, `rdr`, `binat` or `filter`: each counts from 0.
    list: &'static str,
    number: usize,
    text: String,
    #[serde(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Answer {
    dialect: &'static str,
    /// All that pfctl -nvf prints.
    text: String,
    rules: Vec<Row>,
    diagnostics: Vec<Diagnostic>,
}

/// Runs the command.
pub(super) fn command(args: &PrintArgs) -> anyhow::Result<Outcome> {
    let profile = match (args.optimise, &args.profile) {
        (LevelOption::Profile, Some(path)) => Some(optimise::profile(path).map_err(Error::msg)?),
        (LevelOption::Profile, None) => bail!(
            "-o profile orders rules by their packets: write those of the running firewall into \
             a file (pfctl -vsr > FILE), and give it with --profile FILE"
        ),
        (_, Some(_)) => bail!("--profile is only for -o profile"),
        (_, None) => None,
    };
    let language = Language::new(&args.language)?;
    let mut compiled = language.compile(&args.file)?;
    show::diagnostics(&compiled.diagnostics, &compiled.sources, compiled.dropped_count);
    if compiled.error_count > 0 {
        return Ok(Outcome::Refused);
    }
    match (args.optimise, &profile) {
        (LevelOption::None, _) => {}
        (_, Some(profile)) => optimise::apply(&mut compiled, Level::Profile(profile), &language),
        (_, None) => optimise::apply(&mut compiled, Level::Basic, &language),
    }
    let printer = Printer {
        dialect: compiled.ruleset.dialect,
        resolver: &language.facts,
        options: PrintOptions::default(),
    };
    if args.language.json.json {
        put_json(&Answer {
            dialect: compiled.ruleset.dialect.as_str(),
            text: printer.ruleset(&compiled.ruleset),
            rules: rows(&compiled, printer),
            diagnostics: json::list(&compiled.diagnostics, &compiled.sources),
        })?;
    } else if args.expanded {
        let lines = rows(&compiled, printer).into_iter().map(|row| {
            let depth = if row.anchor.is_empty() { String::new() } else { row.anchor + ": " };
            format!("{depth}@{} {}  # {}\n", row.number, row.text, row.place.short())
        });
        put(&lines.collect::<String>())?;
    } else {
        put(&printer.ruleset(&compiled.ruleset))?;
    }
    Ok(Outcome::Done)
}

/// All rules, those of an anchor behind the rule that enters it.
fn rows(compiled: &Compiled, printer: Printer<'_>) -> Vec<Row> {
    let mut list = Listing { compiled, printer, rows: Vec::new() };
    list.rules(&compiled.ruleset.main, "");
    list.rows
}

struct Listing<'a> {
    compiled: &'a Compiled,
    printer: Printer<'a>,
    rows: Vec<Row>,
}

impl Listing<'_> {
    fn rules(&mut self, rules: &Rules, path: &str) {
        for (number, rule) in rules.ether.iter().enumerate() {
            let text = self.ether(rule);
            self.push(path, "ether", number, text, rule.span);
            self.body(rule.anchor.as_ref(), path, number);
        }
        let Rules { ether: _, scrub, nat, rdr, binat, filter } = rules;
        let lists =
            [("scrub", scrub), ("nat", nat), ("rdr", rdr), ("binat", binat), ("filter", filter)];
        for (list, rules) in lists {
            for (number, rule) in rules.iter().enumerate() {
                let text = self.printer.rule(rule);
                self.push(path, list, number, text, rule.span);
                self.body(rule.anchor.as_ref(), path, number);
            }
        }
    }

    /// The line of a layer 2 rule, without the body of an anchor.
    fn ether(&self, rule: &EtherRule) -> String {
        let mut rule = rule.clone();
        if let Some(anchor) = &mut rule.anchor {
            anchor.body = None;
        }
        let mut text = String::new();
        let rules = Rules { ether: vec![rule], ..Rules::default() };
        self.printer.rules(&mut text, &rules, 0);
        text.trim_end().to_owned()
    }

    fn push(&mut self, path: &str, list: &'static str, number: usize, text: String, span: Span) {
        let place = Place::new(span, &self.compiled.sources);
        self.rows.push(Row { anchor: path.to_owned(), list, number, text, place });
    }

    fn body(&mut self, anchor: Option<&AnchorCall>, path: &str, number: usize) {
        let Some(AnchorCall { name, body: Some(body), .. }) = anchor else { return };
        // pf gives an anchor without a name one of its own; here the rule's number stands for it.
        let name = name.as_deref().map_or_else(|| format!("_{number}"), str::to_owned);
        let inner = if path.is_empty() { name } else { format!("{path}/{name}") };
        self.rules(body, &inner);
    }
}

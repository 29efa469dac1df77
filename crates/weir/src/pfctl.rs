//! `weir pfctl`: pfctl's command line and output lines, of a file (`-n`) and of the firewall that
//! runs in this network namespace.
//!
//! Followed is FreeBSD's `pfctl(8)` and its source; messages are in its form, and exit codes are
//! its own, except for what weir does not have (2).

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use weir_rules::diagnostic::Severity;
use weir_rules::ir::{AnchorCall, Prelude, Rules, Ruleset};
use weir_rules::optimise::{self as optimiser, Profile};
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::{Compiled, Dialect};

use crate::cli::pfctl::{self as arguments, Level, Parsed, Parts, Plan, Refusal};
use crate::exit::{Outcome, put};
use crate::fw::load::Language;
use crate::fw::{files, machine, optimise, show};

mod failure;
mod runtime;
mod stored;
#[cfg(test)]
mod tests;

/// What the binary is called to be pfctl without a command, and what its messages begin with.
const NAME: &str = "pfctl";

/// Whether the program was called by pfctl's name.
pub(crate) fn is_called_by(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == NAME)
}

/// Says something on standard error, behind the program's name.
fn say(message: impl std::fmt::Display) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(std::io::stderr(), "{NAME}: {message}"));
}

/// Runs the command. The words are those behind the name.
pub(crate) fn command(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Outcome> {
    let words: Vec<OsString> = words.into_iter().collect();
    match arguments::parse(&words) {
        Ok(Parsed::Help) => {
            put(&format!("Usage: {}\n\n{}\n", arguments::USAGE, arguments::HELP))?;
            Ok(Outcome::Done)
        }
        Ok(Parsed::Plan(plan)) if plan.is_dry => dry_run(&plan),
        Ok(Parsed::Plan(plan)) => runtime::run(&plan),
        Err(Refusal::Usage(message)) => {
            say(message);
            drop(writeln!(std::io::stderr(), "usage: {}", arguments::USAGE));
            Ok(Outcome::No)
        }
        Err(Refusal::NotHere(message)) => {
            say(message);
            Ok(Outcome::Refused)
        }
    }
}

/// `-n`: reads a file, and prints it.
fn dry_run(plan: &Plan) -> anyhow::Result<Outcome> {
    let Some(path) = plan.file.as_deref() else { return Ok(Outcome::Refused) };
    let profile = match plan.profile.as_deref().map(optimise::profile).transpose() {
        Ok(profile) => profile,
        Err(cause) => {
            say(cause);
            return Ok(Outcome::Refused);
        }
    };
    let facts = machine::facts(plan.facts.as_deref())?;
    // What is printed must not depend on a guess.
    let dialect = Some(plan.dialect.unwrap_or(Dialect::FreeBsd));
    let (macros, disk) = (plan.macros.clone(), files::Disk::default());
    let is_strict = plan.dialect.is_some();
    let language = Language { dialect, is_strict, macros, facts, disk, names: None };
    let (name, bytes) = match files::first(path) {
        Ok(file) => file,
        Err(cause) => {
            say(format_args!("{}: {cause}", path.display()));
            return Ok(Outcome::No);
        }
    };
    let mut compiled = language.compile_bytes(&name, &bytes);
    tell(&compiled, plan);
    if compiled.error_count > 0 {
        say("Syntax error in config file: pf rules not loaded");
        return Ok(Outcome::No);
    }
    let anchors = language.anchors(&compiled, &name, &language.disk);
    for (_, anchor) in &anchors {
        tell(anchor, plan);
    }
    let is_wrong = anchors.iter().any(|(_, anchor)| anchor.error_count > 0);
    if tell_absences(&compiled) || is_wrong {
        say("load anchors");
        return Ok(Outcome::No);
    }
    let level = level(plan, &compiled, profile.as_ref());
    let is_optimised = !matches!(level, optimiser::Level::None);
    let Parts { filter, tables, .. } = plan.parts;
    if is_optimised && filter && !tables && optimiser::has_work(&compiled.ruleset) {
        say("Must enable table loading for optimizations: with -R, give -o none");
        return Ok(Outcome::No);
    }
    if plan.verbosity == 0 {
        return Ok(Outcome::Done);
    }
    optimise::apply(&mut compiled, level, &language);
    keep(&mut compiled.ruleset, plan.parts);
    let printer = Printer {
        dialect: compiled.ruleset.dialect,
        resolver: &language.facts,
        options: PrintOptions {
            numbered: plan.verbosity > 1,
            numeric_ports: plan.numeric_ports,
            skip_steps: plan.skip_steps,
        },
    };
    put(&printer.ruleset(&compiled.ruleset))?;
    Ok(Outcome::Done)
}

/// How far to optimise: as the command line says, or else the file, or else basic, as pfctl.
fn level<'a>(
    plan: &Plan,
    compiled: &Compiled,
    profile: Option<&'a Profile>,
) -> optimiser::Level<'a> {
    let in_file = || match compiled.ruleset.settings.ruleset_optimization.as_deref() {
        Some("none") => Level::None,
        Some("profile") => Level::Profile,
        _ => Level::Basic,
    };
    match (plan.level.unwrap_or_else(in_file), profile) {
        (Level::None, _) => optimiser::Level::None,
        (Level::Profile, Some(profile)) => optimiser::Level::Profile(profile),
        (Level::Profile, None) => {
            if !plan.is_quiet && plan.verbosity > 0 {
                say("the file sets ruleset-optimization profile: without --profile=FILE, rules \
                     are printed as with -o basic");
            }
            optimiser::Level::Basic
        }
        (Level::Basic, _) => optimiser::Level::Basic,
    }
}

/// Errors as pfctl's lines; on a terminal everything drawn as well.
fn tell(compiled: &Compiled, plan: &Plan) {
    let list = &compiled.diagnostics;
    let sources = &compiled.sources;
    for error in list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error) {
        drop(writeln!(std::io::stderr(), "{}: {}", sources.place(error.span), error.message));
    }
    if std::io::stderr().is_terminal() && !plan.is_quiet {
        show::diagnostics(list, sources, compiled.dropped_count);
    } else if compiled.dropped_count > 0 {
        say(format_args!("{} more messages are not shown", compiled.dropped_count));
    }
}

/// Names the files of `load anchor` that cannot be read; whether there are any. pfctl goes no
/// further then, also with `-n` (`pfctl_load_anchors` of its parse.y).
fn tell_absences(compiled: &Compiled) -> bool {
    let loads = compiled.ruleset.loads.iter();
    let absences = loads.filter_map(|load| load.absence.as_ref().map(|cause| (load, cause)));
    let mut is_any = false;
    for (load, cause) in absences {
        let place = compiled.sources.place(load.span);
        drop(writeln!(std::io::stderr(), "{place}: {}: {cause}", load.file));
        is_any = true;
    }
    is_any
}

/// Leaves out what is not asked for.
fn keep(ruleset: &mut Ruleset, parts: Parts) {
    ruleset.prelude.retain(|prelude| match prelude {
        Prelude::Macro(..) => true,
        Prelude::Set(..) | Prelude::Limiter(_) => parts.options,
        Prelude::Table(_) => parts.tables,
        Prelude::Altq(_) | Prelude::Queue(_) => parts.queues,
    });
    if !parts.filter {
        ruleset.loads.clear();
    }
    keep_rules(&mut ruleset.main, parts);
}

fn keep_rules(rules: &mut Rules, parts: Parts) {
    let Rules { ether, scrub, nat, rdr, binat, filter } = rules;
    for (list, is_kept) in [
        (scrub, parts.filter),
        (nat, parts.translation),
        (rdr, parts.translation),
        (binat, parts.translation),
    ] {
        if !is_kept {
            list.clear();
        }
    }
    if !parts.ether {
        ether.clear();
    }
    // An anchor's body holds translation rules too.
    if parts.filter {
        let anchors = filter.iter_mut().filter_map(|rule| rule.anchor.as_mut());
        for AnchorCall { body, .. } in anchors {
            if let Some(body) = body {
                keep_rules(body, parts);
            }
        }
    } else {
        filter.clear();
    }
}

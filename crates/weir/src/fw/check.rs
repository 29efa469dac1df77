//! `weir fw check`: what is wrong with files.

use std::io::Write as _;

use anyhow::bail;
use serde::Serialize;

use super::json::Findings;
use super::load::Language;
use super::{put, put_json, show};
use crate::cli::fw::CheckArgs;
use crate::exit::Outcome;

/// A file that cannot be read.
#[derive(Debug, Serialize)]
struct Unreadable {
    file: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Answer {
    error_count: usize,
    warning_count: usize,
    files: Vec<Findings>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unreadable>,
}

/// Runs the command.
pub(super) fn command(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let mut language = Language::new(&args.language)?;
    if let Some(dialect) = args.target.dialect() {
        if language.dialect.is_some_and(|given| given != dialect) {
            bail!(
                "--for names a system with another dialect than --dialect: leave one of them out"
            );
        }
        language.dialect = Some(dialect);
    }
    let is_json = args.language.json.json;
    // Other facts are of another machine.
    let unfilterable = match args.language.facts {
        None => weir_fw::engine::unfilterable(),
        Some(_) => Vec::new(),
    };
    let mut answer =
        Answer { error_count: 0, warning_count: 0, files: Vec::new(), unreadable: Vec::new() };
    for path in &args.files {
        let mut compiled = match language.compile(path) {
            Ok(compiled) => compiled,
            Err(error) => {
                // Nobody is left to tell if standard error is closed.
                drop(writeln!(anstream::stderr(), "weir fw check: {error}"));
                let (file, message) = (path.display().to_string(), error.to_string());
                answer.unreadable.push(Unreadable { file, message });
                continue;
            }
        };
        language.examine(&mut compiled);
        let from = path.display().to_string();
        let mut anchors = language.anchors(&compiled, &from, &language.disk);
        language.judge(&mut compiled, &mut anchors, args.target, &unfilterable);
        for compiled in std::iter::once(&compiled).chain(anchors.iter().map(|(_, anchor)| anchor)) {
            let findings = Findings::new(compiled);
            answer.error_count += findings.error_count;
            answer.warning_count += findings.warning_count;
            if !is_json {
                show::diagnostics(&compiled.diagnostics, &compiled.sources, compiled.dropped_count);
                put(&summary(compiled, &findings))?;
            }
            answer.files.push(findings);
        }
    }
    if is_json {
        put_json(&answer)?;
    }
    let denied = args.deny.is_some() && answer.warning_count > 0;
    Ok(if !answer.unreadable.is_empty() {
        Outcome::Refused
    } else if answer.error_count > 0 || denied {
        Outcome::No
    } else {
        Outcome::Done
    })
}

/// A line about a file.
fn summary(compiled: &weir_rules::Compiled, findings: &Findings) -> String {
    let count = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    let verdict = if findings.error_count == 0 { "ok" } else { "refused" };
    format!(
        "{}: {verdict} ({}, {}, {}, {})\n",
        findings.file,
        compiled.ast.dialect,
        count(compiled.ruleset.main.count(), "rule"),
        count(findings.error_count, "error"),
        count(findings.warning_count, "warning"),
    )
}

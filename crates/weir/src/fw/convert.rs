//! `weir fw convert`: a ruleset in the other dialect.

use anyhow::bail;
use serde::Serialize;
use weir_rules::Dialect;
use weir_rules::convert::{self, Conversion};

use super::json::{self, Diagnostic, Place};
use super::load::Language;
use super::{put, put_json, show};
use crate::cli::fw::ConvertArgs;
use crate::exit::Outcome;

/// Words that were replaced.
#[derive(Debug, Serialize)]
struct Change {
    #[serde(flatten)]
    place: Place,
    old: String,
    new: String,
}

#[derive(Debug, Serialize)]
struct Answer {
    from: &'static str,
    to: &'static str,
    /// The new text; absent if it was refused.
    text: Option<String>,
    changes: Vec<Change>,
    diagnostics: Vec<Diagnostic>,
}

/// Runs the command.
pub(super) fn command(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let mut language = Language::new(&args.language)?;
    let to = Dialect::from(args.to);
    let compiled = language.compile(&args.file)?;
    let sources = &compiled.sources;
    if compiled.error_count > 0 {
        show::diagnostics(&compiled.diagnostics, sources, compiled.dropped_count);
        bail!("{} has errors: nothing is converted", args.file.display());
    }
    let name = sources.files().first().map_or_else(String::new, |file| file.name.clone());
    language.dialect = Some(to);
    let recompile = |text: &str| language.compile_bytes(&name, text.as_bytes());
    let result = convert::convert(&compiled, to, &language.facts, &recompile);
    let (found, outcome) = match &result {
        Ok(conversion) => (&conversion.notes, Outcome::Done),
        Err(problems) => (problems, Outcome::Refused),
    };
    show::diagnostics(found, sources, 0);
    if args.language.json.json {
        let conversion = result.as_ref().ok();
        put_json(&Answer {
            from: compiled.ast.dialect.as_str(),
            to: to.as_str(),
            text: conversion.map(|conversion| conversion.text.clone()),
            changes: conversion.map_or_else(Vec::new, |conversion| changes(conversion, sources)),
            diagnostics: json::list(found, sources),
        })?;
    } else if let Ok(conversion) = &result {
        put(&conversion.text)?;
    }
    Ok(outcome)
}

fn changes(conversion: &Conversion, sources: &weir_rules::source::SourceMap) -> Vec<Change> {
    let change = |edit: &convert::Change| Change {
        place: Place::new(edit.span, sources),
        old: sources.text(edit.span).to_owned(),
        new: edit.text.clone(),
    };
    conversion.changes.iter().map(change).collect()
}

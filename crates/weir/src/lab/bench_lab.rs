//! `weir lab import-config` and `weir bench-lab`: a bench-lab.config as a specification, and run.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::json;
use weir_lab::bench_lab::{Request, Sets};
use weir_machine::cancel::Cancel;
use weir_machine::digest::Reader;
use weir_machine::ssh::quote;

use super::left::tell_reading;
use crate::cli::bench_lab::{BenchLabSets, ImportConfigArgs};
use crate::exit::{self, Outcome};
use crate::progress;

mod direct;
mod mail;

pub(crate) use direct::{command, is_called_by};

/// `weir lab import-config`.
pub(super) fn import(arguments: &ImportConfigArgs) -> anyhow::Result<Outcome> {
    refuse_variables_of_the_environment()?;
    let request = request(&arguments.config, &arguments.sets, arguments.system.name());
    progress::note(&format!(
        "{} and its sets are shell scripts: sh runs them, as you, to read what they set",
        arguments.config.display()
    ));
    // A signal ends this command at once: nothing is there that would have to be put away.
    let reader = Reader { cancel: &Cancel::default(), tell: &tell_reading };
    let made = Sets::read(&request, &reader)?.specification(&request)?;
    let out = &arguments.out;
    let mut file = File::create_new(out).with_context(|| {
        format!("cannot make {}: remove it, or give another name", out.display())
    })?;
    file.write_all(made.text.as_bytes())
        .with_context(|| format!("cannot write {}", out.display()))?;
    for note in &made.notes {
        progress::warn(note);
    }
    let next = next(arguments);
    let text = if arguments.json.json {
        let summary = json!({ "specification": out, "notes": made.notes, "next": next });
        exit::json(&summary)?
    } else {
        format!("specification: {}\nnext: {next}\n", out.display())
    };
    exit::put(&text)?;
    Ok(Outcome::Done)
}

/// bench-lab.sh takes what its environment sets before its files' own defaults; here the files
/// alone count, so that a campaign does not depend on who runs it.
fn refuse_variables_of_the_environment() -> anyhow::Result<()> {
    // Login shells set MAIL for other reasons.
    let is_set = |name: &&&str| {
        **name != "MAIL" && std::env::var_os(name).is_some_and(|value| !value.is_empty())
    };
    let Some(name) = weir_lab::bench_lab::VARIABLES.iter().find(is_set) else { return Ok(()) };
    bail!(
        "{name} is set in the environment, which is not read, so that a campaign is what its files \
         say: put `{name}=…` into the configuration or a set of packets, and unset it here"
    );
}

/// The request that bench-lab.sh's options make.
fn request(config: &Path, sets: &BenchLabSets, system: &str) -> Request {
    Request {
        config: config.to_owned(),
        pktgen_dir: sets.pktgen_dir.clone(),
        config_dir: sets.config_dir.clone(),
        images_dir: sets.images_dir.clone(),
        iterations: sets.iterations,
        warmup: sets.warmup,
        duration: sets.duration,
        profile: sets.profile,
        ssh_config: sets.ssh_config.clone(),
        system: system.to_owned(),
    }
}

/// The command that runs it as bench-lab.sh would have.
fn next(arguments: &ImportConfigArgs) -> String {
    let quoted = |path: &Path| quote(&path.display().to_string());
    let mut line = format!("weir lab run {}", quoted(&arguments.out));
    let results = arguments.results.as_deref();
    if let Some(results) = results {
        line = format!("{line} --out {}", quoted(results));
    }
    if arguments.sets.yes {
        line.push_str(" --yes");
    }
    if let Some(address) = &arguments.sets.report_to {
        let results = results.map_or_else(|| "RESULTS".to_owned(), quoted);
        let address = quote(address);
        line = format!("{line}; mail -s 'weir: done' {address} < {results}/summary.md");
    }
    line
}

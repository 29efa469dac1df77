//! `weir lab`: plans, runs, resumes, reports, imports, exports and cleans up.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use serde_json::Value;
use weir_lab::derive::{self, Account, StoredPlanError};
use weir_lab::diagnostic::has_errors;
use weir_lab::model::{Plan, TestbedSpec};
use weir_lab::plan::{self, Overrides};
use weir_lab::spec::files::DiskFiles;
use weir_lab::store::Store;
use weir_lab::task::Task;
use weir_lab::testbed;
use weir_net::registry::Registry;
use weir_results::bisect::Answer;

use crate::cli::{LabCommand, Selection};
use crate::exit::{self, Outcome};
use crate::{draw, progress};
use show::Shown;

mod archive;
pub(crate) mod bench_lab;
mod bisect;
mod compare;
#[cfg(test)]
mod document;
mod hosts;
mod image;
mod left;
mod plot;
mod run;
mod search;
mod show;
mod stores;
mod watch;

/// Runs a command of the lab.
pub(crate) fn command(command: LabCommand) -> anyhow::Result<Outcome> {
    // Whatever is asked for, and whether it can be honoured or not.
    if !matches!(command, LabCommand::Clean { .. }) {
        clean_leftovers()?;
    }
    match command {
        LabCommand::Plan { selection, verbose, json } => {
            let Some(plan) = read_plan(&selection) else {
                return Ok(Outcome::Refused);
            };
            check_host(&plan, &selection.spec)?;
            show::plan(&plan, &placements(&plan)?, verbose, json.json)?;
            Ok(Outcome::Done)
        }
        LabCommand::Run { selection, out, resume, yes, wait, verbose, json } => {
            let Some(plan) = read_plan(&selection) else {
                return Ok(Outcome::Refused);
            };
            let asked = run::Asked {
                command: "weir lab run",
                selection: &selection,
                plan: &plan,
                task: Task::Campaign,
                out,
                resume,
            };
            let (yes, wait, shown) = (yes.yes, wait.duration(), Shown::of(verbose, json));
            run::new(asked, run::How { yes, wait, shown })
        }
        LabCommand::Bisect(args) => bisect::command(&args),
        LabCommand::Resume { dir, iterations, yes, wait, verbose, json } => {
            let (yes, wait, shown) = (yes.yes, wait.duration(), Shown::of(verbose, json));
            run::resume(&dir, iterations, run::How { yes, wait, shown })
        }
        LabCommand::Report { dir, json, .. } if weir_lab::archive::is_archive(&dir) => {
            archive::report(&dir, json.json)
        }
        LabCommand::Report { dir, verbose, json } => report(&dir, Shown::of(verbose, json)),
        LabCommand::Compare(args) => compare::command(&args),
        LabCommand::Plot(args) => plot::command(&args),
        LabCommand::Import(arguments) => archive::import(&arguments),
        LabCommand::ImportConfig(arguments) => bench_lab::import(&arguments),
        LabCommand::Export(arguments) => archive::export(&arguments),
        LabCommand::Search(args) => search::command(&args),
        LabCommand::Image(arguments) => image::command(&arguments),
        LabCommand::Clean { json } => clean(json.json),
    }
}

/// What a run would be refused for on this host, apart from privileges and another lab.
fn check_host(plan: &Plan, spec: &Path) -> anyhow::Result<()> {
    let folder = spec.parent().unwrap_or(Path::new(""));
    for place in plan.testbeds() {
        match place {
            // As [`placements`] says.
            TestbedSpec::Netns(_) => {}
            TestbedSpec::Qemu(qemu) => testbed::qemu::check(qemu, folder)?,
            TestbedSpec::Hosts(hosts) => testbed::hosts::check(hosts, plan, folder)?,
        }
    }
    Ok(())
}

/// Which CPUs of this host do what, for each testbed of namespaces.
fn placements(plan: &Plan) -> anyhow::Result<Vec<Value>> {
    let netns = plan.testbeds().into_iter().filter_map(|place| match place {
        TestbedSpec::Netns(netns) => Some(netns),
        TestbedSpec::Qemu(_) | TestbedSpec::Hosts(_) => None,
    });
    let placement = |netns| {
        testbed::netns::placement(netns).map_err(|error| match error.field {
            Some(field) => anyhow!("{}: {}", plan.place_in_testbed(field), error.what),
            None => error.into(),
        })
    };
    netns.map(placement).collect()
}

/// Reads a specification; `None` if it is refused, which has been shown then.
fn read_plan(selection: &Selection) -> Option<Plan> {
    let overrides = Overrides { iterations: selection.iterations, only: selection.only.clone() };
    match plan::load(&selection.spec, &DiskFiles, &overrides) {
        Ok((plan, warnings)) => {
            draw::diagnostics(&warnings);
            Some(plan)
        }
        Err(diagnostics) => {
            draw::diagnostics(&diagnostics);
            debug_assert!(has_errors(&diagnostics), "a refused specification has an error");
            None
        }
    }
}

/// The plan of a store; `None` if its specification is refused, which has been shown then.
fn stored_plan(store: &Store, iterations: Option<u32>) -> anyhow::Result<Option<Plan>> {
    match derive::stored_plan(store, iterations) {
        Ok(plan) => Ok(Some(plan)),
        Err(StoredPlanError::Refused(diagnostics)) => {
            draw::diagnostics(&diagnostics);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn report(dir: &Path, shown: Shown) -> anyhow::Result<Outcome> {
    let store = Store::open(dir).map_err(weir_lab::open::OpenError::from)?;
    store.check_begun()?;
    let task = Task::of(&store)?;
    let Some(plan) = stored_plan(&store, None)? else {
        return Ok(Outcome::Refused);
    };
    let account = derive::account(&store, &plan, &task)?;
    show::account(&store, &account, shown)?;
    Ok(outcome(&account))
}

/// Whether the answer stands: a result that is invalid, or cannot be read, makes it a no, and so
/// does a question without an answer.
fn outcome(account: &Account) -> Outcome {
    let is_yes = match account {
        Account::Campaign(derived) => {
            // What disturbs a trial takes nothing from settings that took turns in it.
            let (summary, counts) = (&derived.summary, &derived.summary.counts);
            let is_toggled = summary.series.iter().any(|series| series.toggle.is_some());
            let void = if is_toggled { counts.invalid_cells } else { counts.void_cells() };
            void == 0 && derived.damaged.is_empty()
        }
        Account::Bisection(account) => account.0.answer == Answer::Found,
        Account::Search(report) => report.summary.is_whole(),
    };
    if is_yes { Outcome::Done } else { Outcome::No }
}

#[derive(Serialize)]
struct Cleaned {
    namespaces: Vec<String>,
    processes_ended: usize,
    records: Vec<String>,
    problems: Vec<String>,
}

fn clean(json: bool) -> anyhow::Result<Outcome> {
    require_root("weir lab clean", "removes network namespaces and ends the processes in them")?;
    let report = Registry::default().clean_leftovers()?;
    let cleaned = Cleaned {
        namespaces: report.namespaces,
        processes_ended: report.processes_ended,
        records: report.records.iter().map(|r| r.display().to_string()).collect(),
        problems: report.problems.iter().map(ToString::to_string).collect(),
    };
    let text = if json {
        exit::json(&cleaned)?
    } else if cleaned.records.is_empty() && cleaned.problems.is_empty() {
        "nothing was left behind\n".to_owned()
    } else {
        let removed =
            cleaned.namespaces.iter().map(|name| format!("removed network namespace {name}\n"));
        let count = cleaned.processes_ended;
        let noun = if count == 1 { "process" } else { "processes" };
        removed.collect::<String>() + &format!("ended {count} {noun} in them\n")
    };
    exit::put(&text)?;
    for problem in &cleaned.problems {
        progress::warn(problem);
    }
    Ok(if cleaned.problems.is_empty() { Outcome::Done } else { Outcome::No })
}

/// Removes what a lab that was killed has left, before anything else is done. Without privilege
/// it cannot, and commands that only read go on.
fn clean_leftovers() -> anyhow::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let report = Registry::default().clean_leftovers()?;
    if !report.namespaces.is_empty() {
        progress::warn(&format!(
            "removed what a killed lab had left behind: {}",
            report.namespaces.join(", ")
        ));
    }
    for problem in &report.problems {
        progress::warn(&problem.to_string());
    }
    Ok(())
}

pub(crate) fn is_root() -> bool {
    // The effective user id is the owner of what this process shows of itself.
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// Refuses to go on without root, which `command` needs because it `does` something.
pub(crate) fn require_root(command: &str, does: &str) -> anyhow::Result<()> {
    if !is_root() {
        bail!("`{command}` needs root, because it {does}: run it with sudo");
    }
    Ok(())
}

/// Refuses a place for results whose parent is not there: one folder is made, so that a slip in a
/// path does not make several.
fn check_place(out: &Path) -> anyhow::Result<()> {
    match out.parent() {
        Some(parent) if parent != Path::new("") && !parent.is_dir() => bail!(
            "cannot create {}: the directory {} does not exist; only the last part of a path is \
             created, so create it first, or correct the path",
            out.display(),
            parent.display()
        ),
        _ => Ok(()),
    }
}

/// An existing directory's absolute path, for messages that are read elsewhere.
fn absolute(path: &Path) -> anyhow::Result<std::path::PathBuf> {
    std::path::absolute(path)
        .with_context(|| format!("{} cannot be made an absolute path", path.display()))
}

//! `weir bench-lab`: a campaign of bench-lab.sh, run where it stands.
//!
//! The specification is that of `weir lab import-config`, and the campaign is begun and run by the
//! code of `weir lab run`; nothing here measures.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_lab::archive;
use weir_lab::bench_lab::{self, Request, Sets, Specification};
use weir_lab::model::Plan;
use weir_lab::plan::{self, Overrides};
use weir_lab::spec::files::DiskFiles;
use weir_lab::task::Task;
use weir_machine::access::RemoteSpec;
use weir_machine::cancel::Cancel;
use weir_machine::digest::Reader;
use weir_machine::ssh::{Secrets, connect};
use weir_results::number::counted_len;

use super::mail::Mail;
use super::request;
use crate::cli::Selection;
use crate::cli::bench_lab::{BenchLabArgs, System};
use crate::exit::{self, Outcome};
use crate::lab::left::tell_reading;
use crate::lab::show::Shown;
use crate::lab::{clean_leftovers, run};
use crate::{draw, progress, signals};

/// What the binary is called to be bench-lab without a command.
const NAMES: [&str; 2] = ["bench-lab", "bench-lab.sh"];

/// The specification, among the results.
const SPECIFICATION: &str = "lab.toml";

/// The folder of files with bench-lab-ministat.sh's names, among the results.
const NETBENCHES: &str = "netbenches";

/// What bench-lab.sh takes out of its environment, and runs on the DUT.
const CUSTOM_COMMAND: &str = "CUSTOM_CMD";

/// Whether the program was called by bench-lab's name.
pub(crate) fn is_called_by(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// `weir bench-lab`.
pub(crate) fn command(arguments: &BenchLabArgs) -> anyhow::Result<Outcome> {
    clean_leftovers()?;
    let results = arguments.results.as_path();
    let resumes = look_at(results)?;
    refuse_custom_command()?;
    super::refuse_variables_of_the_environment()?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    let named = arguments.system.unwrap_or(System::Generic);
    let mut asked = request(&arguments.config, &arguments.sets, named.name());
    // What is wrong with the files is told before a machine is asked.
    let sets = Sets::read(&asked, &Reader { cancel: &cancel, tell: &tell_reading })
        .map_err(|error| exit::or_stopped(&cancel, error.into()))?;
    let mut made = sets.specification(&asked)?;
    let mail = mail(arguments, &made)?;
    if arguments.system.is_none() {
        asked.system = ask_system(&asked, sets.dut_address()?, &cancel)?;
        made = sets.specification(&asked)?;
    }
    for note in &made.notes {
        progress::warn(note);
    }
    let spec = results.join(SPECIFICATION);
    let plan = match plan::from_text(&spec, &made.text, &DiskFiles, &Overrides::default()) {
        Ok((plan, warnings)) => {
            draw::diagnostics(&warnings);
            plan
        }
        Err(refused) => {
            draw::diagnostics(&refused);
            return Ok(Outcome::Refused);
        }
    };
    if resumes {
        refuse_other_series(results, &plan)?;
        progress::note(&format!("{}: finished runs are not repeated", results.display()));
    }
    if arguments.sets.statistics {
        progress::note(
            "-S: the DUT's counters before and after each run will be in its trial.json, as always",
        );
    }
    let selection = Selection { spec: spec.clone(), iterations: None, only: None };
    let campaign = run::Asked {
        command: "weir bench-lab",
        selection: &selection,
        plan: &plan,
        task: Task::Campaign,
        out: Some(results.to_owned()),
        resume: resumes,
    };
    let shown = Shown::brief(arguments.json);
    let how = run::How { yes: arguments.sets.yes, wait: Duration::ZERO, shown };
    let begun = run::begin(campaign, how, cancel)?;
    fs::write(&spec, &made.text).with_context(|| format!("cannot write {}", spec.display()))?;
    let ran = begun.run(&plan, how);
    if let Ok(Outcome::Done | Outcome::No) = ran {
        publish(begun.root(), &asked);
    }
    if let Some(mail) = mail {
        tell(&mail, results, &ran);
    }
    ran
}

/// Whether there are results to go on with. A folder with anything else is refused.
fn look_at(results: &Path) -> anyhow::Result<bool> {
    if results.join("campaign.toml").is_file() {
        return Ok(true);
    }
    let entries = match fs::read_dir(results) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries.with_context(|| format!("cannot look into {}", results.display()))?,
    };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    if let Some(name) = names.find(|name| !weir_lab::store::is_begun(&name.to_string_lossy())) {
        bail!(
            "{} holds something other than a campaign of weir ({}): give another directory with \
             -d. \
             Results of bench-lab.sh itself are read by `weir lab import`",
            results.display(),
            name.display()
        );
    }
    Ok(false)
}

/// bench-lab.sh runs it on the DUT in every run.
fn refuse_custom_command() -> anyhow::Result<()> {
    if std::env::var_os(CUSTOM_COMMAND).is_some_and(|line| !line.is_empty()) {
        bail!(
            "{CUSTOM_COMMAND} is set, which bench-lab.sh runs on the DUT in every run: weir runs \
             nothing of the kind while it measures; unset it, or start it from a file of a \
             configuration set"
        );
    }
    Ok(())
}

/// Asks the DUT what it runs.
fn ask_system(asked: &Request, address: String, cancel: &Cancel) -> anyhow::Result<String> {
    let config = asked.ssh_config.as_deref().map(std::path::absolute).transpose()?;
    let remote = RemoteSpec {
        name: "dut".to_owned(),
        ssh: Some(address),
        config: config.map(|path| path.to_string_lossy().into_owned()),
        processes: Vec::new(),
    };
    let system = connect(&remote, &Secrets::default(), cancel).and_then(|host| host.system_now());
    let system = system.context(
        "the DUT cannot be asked what it runs, and nothing was run; with --system it is not asked, \
         and all machines are checked together",
    )?;
    Ok(system.name().to_owned())
}

/// Who is told at the end: `-r`, or else the configuration's `MAIL`.
fn mail(arguments: &BenchLabArgs, made: &Specification) -> anyhow::Result<Option<Mail>> {
    let address = arguments.sets.report_to.as_deref().or(made.mail.as_deref());
    let mail = address.map(Mail::to).transpose()?;
    if let Some(lack) = mail.as_ref().and_then(Mail::lack) {
        progress::warn(&lack);
    }
    Ok(mail)
}

/// Refuses results of other sets: going on with them would make one campaign of two.
fn refuse_other_series(results: &Path, plan: &Plan) -> anyhow::Result<()> {
    let cells = results.join("cells");
    let names = fs::read_dir(&cells).into_iter().flatten().flatten();
    let names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    let is_planned = |name: &String| plan.series.iter().any(|series| series.name == *name);
    match names.iter().min() {
        Some(first) if !names.iter().any(is_planned) => bail!(
            "{} holds figures of other sets, such as {first}: give another directory with -d",
            results.display()
        ),
        _ => Ok(()),
    }
}

/// Writes the figures under their old names. They can be written again, so a failure is no end.
fn publish(results: &Path, asked: &Request) {
    let out = results.join(NETBENCHES);
    match archive::refresh(results, &bench_lab::unnamed(asked), &out) {
        Ok(exported) => {
            for reason in &exported.left_out {
                progress::warn(&format!("{NETBENCHES}: left out: {reason}"));
            }
            let count = exported.files.len();
            progress::note(&format!(
                "netbenches: {} in {}",
                counted_len(count, "file"),
                out.display()
            ));
        }
        Err(error) => progress::warn(&format!("{NETBENCHES}: {}", exit::message(&error.into()))),
    }
}

/// Mails how it ended.
fn tell(mail: &Mail, results: &Path, ran: &anyhow::Result<Outcome>) {
    let (how, text) = match ran {
        Ok(Outcome::Signal(signal)) => ("stopped", format!("It was stopped by signal {signal}.")),
        Ok(_) => {
            let summary = fs::read_to_string(results.join("summary.md"));
            ("done", summary.unwrap_or_else(|error| format!("summary.md: {error}")))
        }
        Err(error) => ("failed", exit::message(error)),
    };
    let sent = mail.send(&format!("Benchs {} {how}", results.display()), &format!("{text}\n"));
    if let Err(error) = sent {
        progress::warn(&format!("the mail was not sent: {}", exit::message(&error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_its_own() {
        for name in ["bench-lab", "/opt/scripts/bench-lab.sh"] {
            assert!(is_called_by(OsStr::new(name)), "{name}");
        }
        for name in ["weir", "bench-lab.config", "/bench-lab/weir"] {
            assert!(!is_called_by(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn only_new_empty_and_own_folders_take_results() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("results");
        assert!(!look_at(&results).unwrap());
        fs::create_dir(&results).unwrap();
        assert!(!look_at(&results).unwrap());
        fs::write(results.join("bench.1.receiver"), "").unwrap();
        let refusal = look_at(&results).unwrap_err().to_string();
        assert!(
            refusal.contains("(bench.1.receiver)") && refusal.contains("weir lab import"),
            "{refusal}"
        );
        fs::write(results.join("campaign.toml"), "").unwrap();
        assert!(look_at(&results).unwrap());
    }
}

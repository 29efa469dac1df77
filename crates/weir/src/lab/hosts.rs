//! What comes before a campaign on machines: one table of what is reachable, how long it will
//! take, and the question whether to begin.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use weir_gen::units::format_duration;
use weir_lab::cancel::Cancel;
use weir_lab::model::{HostsSpec, Plan, Reset};
use weir_lab::plan::view::estimated_duration;
use weir_lab::testbed::Testbed;
use weir_lab::testbed::hosts::{HostsTestbed, Reach};

use crate::progress;

/// Looks at every machine, shows what was found, and asks whether to begin.
pub(super) fn preflight(
    plan: &Plan,
    spec: &HostsSpec,
    folder: &Path,
    yes: bool,
    cancel: &Cancel,
) -> anyhow::Result<Box<dyn Testbed>> {
    let testbed = HostsTestbed::new(spec, plan, folder, cancel)?;
    let rows = testbed.look();
    if cancel.signal().is_some() {
        bail!("stopped while the machines were looked at; nothing was run");
    }
    progress::note(table(&rows).trim_end());
    let failed: Vec<&Reach> = rows.iter().filter(|row| !row.passed).collect();
    if let Some(first) = failed.first() {
        bail!(
            "{} of {} things that a trial needs are not there, the first: {} {}, {}: {}; mend \
             them and try again: nothing was run",
            failed.len(),
            rows.len(),
            first.role,
            first.machine,
            first.what,
            first.detail
        );
    }
    progress::note(&intent(plan, spec));
    if !yes {
        ask()?;
    }
    Ok(Box::new(testbed))
}

/// The rows as a table.
fn table(rows: &[Reach]) -> String {
    let head = ["role", "machine", "at", "what", "", "seen"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let passed = if row.passed { "ok" } else { "FAILED" };
        let role = row.role.to_owned();
        let (machine, at) = (row.machine.clone(), row.at.clone());
        [role, machine, at, row.what.to_owned(), passed.to_owned(), row.detail.clone()]
    });
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(&line[5]);
        text.push('\n');
    }
    text
}

/// What is about to happen, and for how long.
fn intent(plan: &Plan, spec: &HostsSpec) -> String {
    let dut = &spec.dut;
    let name = &dut.remote.name;
    let boots = match dut.reboot {
        Reset::None => format!("{name} is not rebooted"),
        _ => format!("{name} is rebooted before each"),
    };
    let images = match plan.images.len() {
        0 => String::new(),
        count => format!(", {count} images are installed on it"),
    };
    let time = progress::whole_seconds(estimated_duration(plan));
    format!("{} cells, about {}: {boots}{images}", plan.cells.len(), format_duration(time))
}

/// Asks on the terminal. Without one, nobody can be asked.
fn ask() -> anyhow::Result<()> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        bail!("nobody can be asked whether to begin: there is no terminal; begin with --yes");
    }
    let mut out = io::stderr();
    write!(out, "Begin? [y/N] ").and_then(|()| out.flush()).context("cannot ask")?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).context("cannot read the answer")?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("not begun: nothing was run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up_and_names_what_failed() {
        let row = |role, machine: &str, passed, detail: &str| Reach {
            role,
            machine: machine.to_owned(),
            at: "root@there".to_owned(),
            what: "ssh",
            passed,
            detail: detail.to_owned(),
        };
        let rows =
            [row("generator", "g", true, "Linux 6.1"), row("dut", "long-name", false, "refused")];
        let shown = table(&rows);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "role       machine    at          what          seen");
        assert_eq!(lines[1], "generator  g          root@there  ssh   ok      Linux 6.1");
        assert_eq!(lines[2], "dut        long-name  root@there  ssh   FAILED  refused");
    }
}

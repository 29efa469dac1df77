//! What comes before a campaign on machines: one table of what is reachable, how long it will
//! take, and the question whether to begin.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_lab::model::{HostsSpec, Plan};
use weir_lab::plan::view::duration_of;
use weir_lab::testbed::Testbed;
use weir_lab::testbed::hosts::{HostsTestbed, Reach};
use weir_machine::access::Reset;
use weir_machine::cancel::Cancel;
use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::number::{self, counted_len};
use weir_wire::units::whole_ns;

use super::left::Left;
use crate::progress;

/// Looks at every machine, shows what was found, and asks whether to begin.
pub(super) fn preflight(
    plan: &Plan,
    spec: &HostsSpec,
    folder: &Path,
    (yes, left): (bool, &Left),
    cancel: &Cancel,
) -> anyhow::Result<Box<dyn Testbed>> {
    let testbed = HostsTestbed::new(spec, plan, folder, cancel)?;
    let rows = testbed.look();
    if cancel.signal().is_some() {
        bail!("stopped while the machines were being checked; nothing was run");
    }
    progress::note(table(&rows).trim_end());
    let failed: Vec<&Reach> = rows.iter().filter(|row| !row.passed).collect();
    if let Some(first) = failed.first() {
        bail!(
            "{} of {} things that a trial needs are missing, the first: {} {}, {}: {}; fix them \
             and try again: nothing was run",
            failed.len(),
            rows.len(),
            first.role,
            first.machine,
            first.what,
            first.detail
        );
    }
    progress::note(&intent(plan, spec, left));
    if !yes {
        ask(cancel)?;
    }
    Ok(Box::new(testbed))
}

/// The rows as a table.
fn table(rows: &[Reach]) -> String {
    let columns = ["role", "machine", "at", "what", "", "seen"].map(Column::words).to_vec();
    let row = |row: &Reach| {
        let passed = if row.passed { "ok" } else { "FAILED" };
        Row::from_iter([row.role, &row.machine, &row.at, row.what, passed, &row.detail])
    };
    Table::new(columns, rows.iter().map(row)).text(Terminal::default())
}

/// What is about to happen, and for how long.
fn intent(plan: &Plan, spec: &HostsSpec, left: &Left) -> String {
    let dut = &spec.dut;
    let name = &dut.remote.name;
    let boots = match dut.reboot {
        Reset::None => format!("{name} is not rebooted"),
        _ => format!("{name} is rebooted before each"),
    };
    let images = match left.images(plan).len() {
        0 => String::new(),
        1 => ", 1 image is installed on it".to_owned(),
        count => format!(", {count} images are installed on it"),
    };
    let count = left.cell_count_max;
    if left.is_open {
        let time = number::duration(whole_ns(progress::whole_seconds(duration_of(plan, 1))));
        let count = plan.series.len();
        return format!(
            "series: {count}, with as many trials as it takes, about {time} each: {boots}{images}"
        );
    }
    let cells = match plan.cells.len() {
        all if all == count => counted_len(all, "cell"),
        all => format!("{count} of {all} cells are left"),
    };
    // Machines have no path without the DUT: nothing is calibrated.
    let time = progress::whole_seconds(duration_of(plan, count));
    format!("{cells}, about {}: {boots}{images}", number::duration(whole_ns(time)))
}

/// How often the question looks whether a signal has come.
const POLL: Duration = Duration::from_millis(50);

/// Asks on the terminal. Without one, nobody can be asked.
fn ask(cancel: &Cancel) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("cannot ask whether to begin: there is no terminal; use --yes");
    }
    let mut out = io::stderr();
    write!(out, "Begin? [y/N] ").and_then(|()| out.flush()).context("cannot ask")?;
    let answer = answer(cancel, || {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    })?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("not started: nothing was run"),
    }
}

/// What `read` gives, unless a signal comes first: a read of the terminal goes on after one. The
/// thread that still reads then ends with the process.
fn answer(
    cancel: &Cancel,
    read: impl FnOnce() -> io::Result<String> + Send + 'static,
) -> anyhow::Result<String> {
    let (tell, answers) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more where a signal came first.
        let _ = tell.send(read());
    });
    loop {
        match answers.recv_timeout(POLL) {
            _ if cancel.signal().is_some() => {
                bail!("not started: stopped by a signal; nothing was run")
            }
            Ok(answer) => return answer.context("cannot read the answer"),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("cannot read the answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_the_question() {
        let cancel = Cancel::default();
        assert_eq!(answer(&cancel, || Ok("y\n".to_owned())).unwrap(), "y\n");
        let (_keep, never) = mpsc::channel::<()>();
        let other = cancel.clone();
        let asked = move || {
            other.request(2);
            // Nobody types anything.
            let _ = never.recv();
            Ok(String::new())
        };
        let refusal = answer(&cancel, asked).unwrap_err().to_string();
        assert!(refusal.contains("nothing was run"), "{refusal}");
        assert!(answer(&cancel, || Ok("y".to_owned())).is_err(), "a yes does not take it back");
    }

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

//! `weir rss doctor`: why flows concentrate on few CPUs, and what mends it.

use std::fmt::Write as _;

use serde::Serialize;
use weir_machine::rss::findings::{Finding, Subject, findings};
use weir_results::number::counted;

use super::{answer, show};
use crate::cli::rss::ShowArgs;
use crate::exit::Outcome;

#[derive(Debug, Serialize)]
struct Answer {
    interface: String,
    findings: Vec<Finding>,
}

pub(super) fn command(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let seen = show::look(&args.interface)?;
    let found = findings(&Subject {
        interface: &seen.interface,
        state: seen.state.as_ref(),
        places: &seen.places,
        hashes: seen.hashes,
        cpu_count: weir_net::cpu::online()?.count(),
    });
    let found = Answer { interface: seen.interface, findings: found };
    answer(args.json.json, &found, || found.text())?;
    Ok(if found.findings.is_empty() { Outcome::Done } else { Outcome::No })
}

impl Answer {
    fn text(&self) -> String {
        let name = &self.interface;
        if self.findings.is_empty() {
            return format!(
                "{name}: nothing in its settings keeps flows from spreading; whether it follows \
                 them, `weir rss probe` tells\n"
            );
        }
        let mut text = format!("{name}: {}\n", counted(self.findings.len() as u64, "finding"));
        for Finding { what, command, .. } in &self.findings {
            // Writing to a text cannot fail.
            let _ = write!(text, "\n{what}\n    {command}\n");
        }
        text
    }
}

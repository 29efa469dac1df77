//! `weir doctor`: runs the checks and prints them.

use std::io::Write as _;

use anyhow::Context as _;

use crate::doctor;
use crate::exit::Outcome;

/// Runs the command.
pub(crate) fn command(json: bool) -> anyhow::Result<Outcome> {
    let report = doctor::run();
    let mut out = anstream::stdout();
    if json {
        let text = serde_json::to_string_pretty(&report)
            .context("the report cannot be written as JSON")?;
        writeln!(out, "{text}").context(crate::exit::NO_OUTPUT)?;
    } else {
        doctor::render_text(&report, &mut out).context(crate::exit::NO_OUTPUT)?;
    }
    Ok(if report.exit_code() == 0 { Outcome::Done } else { Outcome::No })
}

//! The report as text for people.
//!
//! Writes colours always; the caller's stream (anstream) takes them out where they do not belong:
//! no terminal, or `NO_COLOR`.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::list::group;
use super::{Check, Report, Status};

const TITLE_WIDTH: usize = 30;

/// Writes the report, grouped, and a verdict as its last line.
///
/// # Errors
///
/// What `output` says.
pub(crate) fn render_text(report: &Report, output: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    let mut previous = "";
    for check in &report.checks {
        let group = group(check.id);
        if group != previous {
            if !previous.is_empty() {
                writeln!(output)?;
            }
            writeln!(output, "{bold}{group}{bold:#}")?;
            previous = group;
        }
        write_check(check, output)?;
    }
    writeln!(output)?;
    write_verdict(report, output)
}

fn write_check(check: &Check, output: &mut impl Write) -> io::Result<()> {
    let style = style(check.status);
    let word = word(check.status);
    let Check { title, seen, .. } = check;
    writeln!(output, "  {style}{word:<4}{style:#}  {title:<TITLE_WIDTH$}  {seen}")?;
    if check.status < Status::Warn {
        return Ok(());
    }
    for (label, text) in [("costs", check.cost), ("fix", check.fix)] {
        if let Some(text) = text {
            let dim = Style::new().dimmed();
            writeln!(output, "        {dim}{label:>5}:{dim:#} {text}")?;
        }
    }
    Ok(())
}

fn write_verdict(report: &Report, output: &mut impl Write) -> io::Result<()> {
    let warnings = match report.count(Status::Warn) {
        0 => "no warnings".to_owned(),
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    if report.ready {
        let style = style(Status::Ok);
        return writeln!(
            output,
            "{style}ready{style:#}: everything that `weir lab` requires is here ({warnings})"
        );
    }
    let style = style(Status::Fail);
    let failed = report.checks.iter().filter(|check| check.status == Status::Fail);
    let failed: Vec<&str> = failed.map(|check| check.id).collect();
    writeln!(
        output,
        "{style}not ready{style:#}: `weir lab` cannot run here: {} ({warnings})",
        failed.join(", ")
    )
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Info => "info",
        Status::Warn => "warn",
        Status::Fail => "fail",
    }
}

fn style(status: Status) -> Style {
    let color = match status {
        Status::Ok => AnsiColor::Green,
        Status::Info => AnsiColor::Cyan,
        Status::Warn => AnsiColor::Yellow,
        Status::Fail => AnsiColor::Red,
    };
    color.on_default().bold()
}

//! How a running campaign looks: a bar on a terminal, plain lines elsewhere.
//!
//! Everything here goes to standard error, so that standard output stays clean for results. It
//! shows what events say and computes nothing but the time that is left.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_gen::units::{format_duration, format_pps};
use weir_lab::event::{Event, Observer};
use weir_lab::record::{TrialRecord, VerdictKind};

/// Shows a campaign's events.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    estimate: Duration,
    finished: usize,
    to_run: usize,
    current: String,
}

impl Progress {
    /// A bar if standard error is a terminal, plain lines if not.
    pub(crate) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            bar: terminal.then(|| {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                let style =
                    ProgressStyle::with_template("{bar:20.cyan/dim} {pos}/{len}  {wide_msg}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar
            }),
            started: Instant::now(),
            estimate: Duration::ZERO,
            finished: 0,
            to_run: 0,
            current: String::new(),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            // A closed standard error must not end a measurement.
            None => drop(writeln!(anstream::stderr(), "{text}")),
        }
    }

    /// Time that is left: the estimate at first, then what the finished trials took.
    fn left(&self) -> Duration {
        let remaining = self.to_run.saturating_sub(self.finished);
        match u32::try_from(self.finished) {
            Ok(done) if done > 0 => {
                self.started.elapsed() / done * u32::try_from(remaining).unwrap_or(u32::MAX)
            }
            _ => self.estimate,
        }
    }

    fn message(&self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} left  {}  {detail}", rounded(self.left()), self.current));
        }
    }

    fn finished(&mut self, name: &str, record: &TrialRecord) {
        self.finished += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        let colour = style(record.verdict.kind);
        let left = if self.bar.is_none() && self.finished < self.to_run {
            format!("  ({} left)", rounded(self.left()))
        } else {
            String::new()
        };
        self.line(&format!(
            "[{}/{}] {name:<28} {:>12}  {colour}{}{colour:#}{left}",
            self.finished,
            self.to_run,
            format_pps(record.result.rate_pps),
            record.verdict.kind.name(),
        ));
        if record.verdict.kind == VerdictKind::Invalid {
            self.line(&format!("        {}", record.verdict.reason));
        }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { to_run, done, planned, estimate } => {
                self.to_run = *to_run;
                self.estimate = *estimate;
                if let Some(bar) = &self.bar {
                    bar.set_length(*to_run as u64);
                }
                if *to_run > 0 {
                    self.line(&format!(
                        "{planned} cells, {done} done; {to_run} trials to run, about {}",
                        rounded(*estimate)
                    ));
                }
            }
            Event::TrialStarted { name, .. } => {
                (*name).clone_into(&mut self.current);
                self.message("");
            }
            Event::Phase { name } => self.message(name),
            Event::Live { rx_pps, tx_pps } => {
                self.message(&format!("{} of {}", format_pps(*rx_pps), format_pps(*tx_pps)));
            }
            Event::TrialFinished { name, record } => self.finished(name, record),
            Event::Warning(text) => self.line(&warning(text)),
        }
    }
}

/// Shows a warning on standard error.
pub(crate) fn warn(text: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(anstream::stderr(), "{}", warning(text)));
}

fn warning(text: &str) -> String {
    let yellow = AnsiColor::Yellow.on_default();
    format!("{yellow}warning:{yellow:#} {text}")
}

/// A time in whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64().round()).unwrap_or(duration)
}

/// A time in whole seconds, for people.
fn rounded(duration: Duration) -> String {
    format_duration(whole_seconds(duration))
}

/// Colour of a verdict.
fn style(kind: VerdictKind) -> Style {
    match kind {
        VerdictKind::DutBound => AnsiColor::Green.on_default(),
        VerdictKind::GeneratorBound | VerdictKind::LinkBound => AnsiColor::Cyan.on_default(),
        VerdictKind::SinkBound | VerdictKind::Overloaded | VerdictKind::Unstable => {
            AnsiColor::Yellow.on_default()
        }
        VerdictKind::Invalid => AnsiColor::Red.on_default().bold(),
    }
}

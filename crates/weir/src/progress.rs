//! How a running campaign looks: a bar on a terminal, plain lines elsewhere.
//!
//! Everything here goes to standard error, so that standard output stays clean for results. It
//! shows what events say and computes nothing but the time that is left.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_gen::units::{format_duration, format_pps};
use weir_lab::event::{Event, Observer};
use weir_lab::record::{TrialRecord, VerdictKind};

/// The bar, short enough for its line to fit 80 columns.
const TEMPLATE: &str = "{bar:10.cyan/dim} {pos}/{len}  {wide_msg}";

/// Shows a campaign's events.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    time: TimeLeft,
    /// When the current trial began.
    began: Instant,
    current: String,
}

impl Progress {
    /// A bar if standard error is a terminal that can move its cursor, plain lines if not.
    pub(crate) fn new() -> Self {
        Self {
            bar: std::io::stderr().is_terminal().then(bar).flatten(),
            time: TimeLeft::default(),
            began: Instant::now(),
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
            // The bar writes past anstream, which takes colours out elsewhere.
            Some(bar) if has_colour() => bar.println(text),
            Some(bar) => bar.println(anstream::adapter::strip_str(text).to_string()),
            // A closed standard error must not end a measurement.
            None => drop(writeln!(anstream::stderr(), "{text}")),
        }
    }

    fn message(&self, detail: &str) {
        if let Some(bar) = &self.bar {
            let left = rounded(self.time.left(self.began.elapsed()));
            bar.set_message(format!("{left} left  {}  {detail}", self.current));
        }
    }

    fn finished(&mut self, name: &str, record: &TrialRecord) {
        self.time.finish(self.began.elapsed());
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        let TimeLeft { finished, to_run, .. } = self.time;
        let colour = style(record.verdict.kind);
        let left = if self.bar.is_none() && finished < to_run {
            format!("  ({} left)", rounded(self.time.left(Duration::ZERO)))
        } else {
            String::new()
        };
        self.line(&format!(
            "[{finished}/{to_run}] {name:<28} {:>12}  {colour}{}{colour:#}{left}",
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
            Event::Started { to_run, to_run_min, done, planned, estimate } => {
                self.time = TimeLeft::new(*to_run, *estimate);
                if let Some(bar) = &self.bar {
                    bar.set_length(*to_run as u64);
                }
                if *to_run > 0 {
                    let (least, up_to) = match to_run_min == to_run {
                        true => (String::new(), ""),
                        false => (format!("{to_run_min} to "), "up to "),
                    };
                    self.line(&format!(
                        "{up_to}{planned} cells, {done} done; {least}{to_run} trials to run, \
                         {up_to}about {}",
                        rounded(*estimate)
                    ));
                }
            }
            Event::TrialStarted { name, to_run, .. } => {
                // Less than at first, where series have been measured often enough.
                self.time.shrink(*to_run);
                if let Some(bar) = &self.bar {
                    bar.set_length(*to_run as u64);
                }
                self.began = Instant::now();
                (*name).clone_into(&mut self.current);
                self.message("");
            }
            Event::Phase { name } => self.message(name),
            Event::Live { rx_pps, tx_pps } => {
                self.message(&format!("{} of {}", format_pps(*rx_pps), format_pps(*tx_pps)));
            }
            Event::TrialFinished { name, record } => self.finished(name, record),
            Event::SeriesStopped { series, iterations, half_width_percent } => {
                self.line(&format!(
                    "        {series}: known to ±{half_width_percent} % after {iterations} \
                     iterations"
                ));
            }
            Event::Warning(text) => self.line(&warning(text)),
        }
    }
}

/// Steps of the same kind: a bar, or a line now and then.
pub(crate) struct Steps {
    bar: Option<ProgressBar>,
    what: &'static str,
    every: Duration,
    said: Cell<Instant>,
}

impl Steps {
    /// `what` says what is counted; without a bar, a line says so after each span of `every`.
    pub(crate) fn new(what: &'static str, every: Duration, now: Instant) -> Self {
        let bar = std::io::stderr().is_terminal().then(bar).flatten();
        if let Some(bar) = &bar {
            bar.set_message(what);
        }
        Self { bar, what, every, said: Cell::new(now) }
    }

    /// Shows how far it is.
    pub(crate) fn show(&self, done: usize, all: usize, now: Instant) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
            }
            None if now.duration_since(self.said.get()) >= self.every => {
                self.said.set(now);
                // A closed standard error must not end the work.
                drop(writeln!(anstream::stderr(), "{done} of {all} {}", self.what));
            }
            None => {}
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How much time is left, by what the finished trials took.
#[derive(Debug, Clone, Copy, Default)]
struct TimeLeft {
    estimate: Duration,
    to_run: usize,
    finished: usize,
    spent: Duration,
}

impl TimeLeft {
    fn new(to_run: usize, estimate: Duration) -> Self {
        Self { estimate, to_run, ..Self::default() }
    }

    /// Fewer trials than at first are to run.
    fn shrink(&mut self, to_run: usize) {
        let count = |trials: usize| u32::try_from(trials).unwrap_or(u32::MAX);
        self.estimate = self.estimate / count(self.to_run).max(1) * count(to_run);
        self.to_run = to_run;
    }

    /// One more trial is finished, and took this long.
    fn finish(&mut self, took: Duration) {
        self.finished += 1;
        self.spent += took;
    }

    /// The time that is left when the current trial has been running for `current`: never more
    /// than a moment earlier in the same trial.
    fn left(&self, current: Duration) -> Duration {
        // Before any is finished, the estimate stands for what they take.
        let (time, count) = match self.finished {
            0 => (self.estimate, self.to_run),
            finished => (self.spent, finished),
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let remaining = u32::try_from(self.to_run.saturating_sub(self.finished));
        let mean = time / count;
        // A trial that takes longer than the others takes nothing off those that follow it.
        mean.saturating_mul(remaining.unwrap_or(u32::MAX)).saturating_sub(current.min(mean))
    }
}

/// The bar; `None` where it would not show (`TERM=dumb`).
fn bar() -> Option<ProgressBar> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if bar.is_hidden() {
        return None;
    }
    let style = ProgressStyle::with_template(TEMPLATE);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    Some(bar)
}

/// Whether standard error is to show colours (`NO_COLOR`, `CLICOLOR`, `TERM`, a terminal).
pub(crate) fn has_colour() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Shows a warning on standard error.
pub(crate) fn warn(text: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(anstream::stderr(), "{}", warning(text)));
}

/// Says on standard error where something is.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(anstream::stderr(), "{text}"));
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

/// A time in the unit that suits it, rounded.
pub(crate) fn time(time_ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "times stay far below 2^53")]
    let ns = time_ns as f64;
    match time_ns {
        0..1_000 => format!("{time_ns}ns"),
        1_000..1_000_000 => format!("{:.1}us", ns / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}ms", ns / 1e6),
        _ => format!("{:.2}s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_time_left_is_the_estimate_until_a_trial_is_finished() {
        let time = TimeLeft::new(10, 40 * S);
        assert_eq!(time.left(Duration::ZERO), 40 * S);
        assert_eq!(time.left(3 * S), 37 * S);
    }

    #[test]
    fn the_time_left_follows_the_finished_trials() {
        let mut time = TimeLeft::new(4, 4 * S);
        time.finish(5 * S);
        assert_eq!(time.left(Duration::ZERO), 15 * S);
        time.finish(7 * S);
        assert_eq!(time.left(2 * S), 10 * S);
    }

    #[test]
    fn the_time_left_never_grows_during_a_trial() {
        let mut time = TimeLeft::new(3, 9 * S);
        time.finish(4 * S);
        let shown: Vec<Duration> = (0..10).map(|second| time.left(second * S)).collect();
        assert!(shown.is_sorted_by(|earlier, later| earlier >= later), "{shown:?}");
        // The current trial is late; the one after it still takes its time.
        assert_eq!(shown.last(), Some(&(4 * S)));
        time.finish(10 * S);
        time.finish(S);
        assert_eq!(time.left(9 * S), Duration::ZERO);
        assert_eq!(TimeLeft::default().left(S), Duration::ZERO);
    }
}

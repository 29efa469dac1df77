//! How a run looks, of a campaign, a bisection or a search: a bar on a terminal, plain lines
//! elsewhere.
//!
//! It shows what events say and computes nothing but the time that is left.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use weir_lab::event::{Event, Observer};
use weir_lab::store::Kind;
use weir_results::bisect::{CandidateReport, Report};
use weir_results::machine_use::CpuUse;
use weir_results::number::{self, counted_len, probability};
use weir_results::record::{Point, TrialRecord, VerdictKind};
use weir_results::search::record::ItemResult;
use weir_results::search::show::figure;
use weir_results::yardstick::Yardstick;
use weir_wire::units::whole_ns;

use crate::progress::{OPEN_TEMPLATE, TEMPLATE, bar, has_colour, warning, whole_seconds};

/// Shows a run's events.
pub(super) struct Progress {
    kind: Kind,
    bar: Option<ProgressBar>,
    time: TimeLeft,
    /// Of a bisection, the run that has just ended: what it means is told with it.
    ended: Option<String>,
    /// When the current trial began.
    began: Instant,
    current: String,
}

impl Progress {
    /// A bar if standard error is a terminal that can move its cursor, plain lines if not.
    pub(super) fn new(kind: Kind) -> Self {
        let template = if kind == Kind::Campaign { TEMPLATE } else { OPEN_TEMPLATE };
        Self {
            kind,
            bar: std::io::stderr().is_terminal().then(|| bar(template)).flatten(),
            time: TimeLeft::default(),
            ended: None,
            began: Instant::now(),
            current: String::new(),
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
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
        let Some(bar) = &self.bar else {
            return;
        };
        if self.kind == Kind::Campaign {
            let left = rounded(self.time.left(self.began.elapsed()));
            bar.set_message(format!("{left} left  {}  {detail}", self.current));
        } else {
            bar.set_message(format!("{}  {detail}", self.current));
        }
    }

    fn finished(&mut self, name: &str, record: &TrialRecord, kept: bool) {
        match self.kind {
            Kind::Campaign => self.cell_finished(name, record),
            Kind::Bisection if record.iteration > 0 => {
                self.ended = Some(run_line(name, record));
            }
            // A calibration, or a run for a profile.
            Kind::Bisection => self.line(&run_line(name, record)),
            Kind::Search => self.line(&trial_line(name, record, kept)),
        }
    }

    fn assessed(&mut self, report: &Report) {
        match self.ended.take() {
            None => self.line(&begin_line(report)),
            Some(ended) => {
                self.line(&format!("[{}] {ended}  {}", report.runs, places(report)));
            }
        }
    }

    fn item_finished(&self, result: &ItemResult) {
        for goal in &result.goals {
            let (name, limit) = (&goal.name, goal.limit.name());
            self.line(&format!("  {name}: {}, {limit}", figure(goal, result.unit)));
        }
    }

    fn cell_finished(&mut self, name: &str, record: &TrialRecord) {
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
            figure_of(record),
            record.verdict.kind.name(),
        ));
        if record.verdict.kind.is_void() {
            self.line(&format!("        {}", record.verdict.reason));
        }
    }

    fn started(&mut self, (least, most): (usize, usize), cells: (usize, usize), time: Duration) {
        self.time = TimeLeft::new(most, time);
        if let Some(bar) = &self.bar {
            bar.set_length(most as u64);
        }
        if most == 0 {
            return;
        }
        let (at_least, up_to) = match least == most {
            true => (String::new(), ""),
            false => (format!("{least} to "), "up to "),
        };
        let (planned, done) = cells;
        self.line(&format!(
            "{up_to}{}, {done} done; {at_least}{} to run, {up_to}about {}",
            counted_len(planned, "cell"),
            counted_len(most, "trial"),
            rounded(time)
        ));
    }

    /// Says what is waited for: again and again on a terminal, once elsewhere.
    fn waiting(&mut self, reason: &str) {
        const WAITING: &str = "waiting for a quiet host";
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{WAITING}: {reason}"));
        } else if self.current != WAITING {
            self.line(&format!("{WAITING}: {reason}"));
        }
        WAITING.clone_into(&mut self.current);
    }

    fn trial_started(&mut self, name: &str, to_run: Option<usize>) {
        if let Some(to_run) = to_run {
            // Less than at first, where series have been measured often enough.
            self.time.shrink(to_run);
            if let Some(bar) = &self.bar {
                bar.set_length(to_run as u64);
            }
        }
        self.began = Instant::now();
        name.clone_into(&mut self.current);
        self.message("");
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { to_run, to_run_min, done, planned, estimate } => {
                self.started((*to_run_min, *to_run), (*planned, *done), *estimate);
            }
            Event::Looked(reading) => self.line(&look_line(reading)),
            Event::Waiting(reason) => self.waiting(reason),
            Event::SearchStarted { items, done } => {
                self.line(&format!("{items} searches, {done} done"));
            }
            Event::ItemStarted { position, to_do, name } => {
                self.line(&format!("[{position}/{to_do}] {name}"));
            }
            Event::TrialStarted { name, to_run, .. } => self.trial_started(name, *to_run),
            Event::Phase { name } => self.message(name),
            Event::Live { rx_pps, tx_pps, unit } => {
                let (through, offered) = (unit.written(*rx_pps), unit.written(*tx_pps));
                self.message(&format!("{through} of {offered}"));
            }
            Event::TrialFinished { name, record, kept } => self.finished(name, record, *kept),
            Event::SeriesStopped { series, iterations, half_width_percent } => {
                self.line(&format!(
                    "        {series}: known to ±{half_width_percent} % after {iterations} \
                     iterations"
                ));
            }
            Event::ItemFinished(result) => self.item_finished(result),
            Event::Assessed(report) => self.assessed(report),
            Event::Warning(text) => self.line(&warning(text)),
        }
    }
}

/// What a look at the host found.
fn look_line(reading: &Yardstick) -> String {
    let most = |of: fn(&CpuUse) -> Option<f64>| {
        let cpus = reading.machine.cpus.values();
        number::share(cpus.filter_map(of).fold(0.0, f64::max))
    };
    format!(
        "host: the same few milliseconds of work varied by ±{} in a CPU's cache and ±{} in memory; \
         at most {} of a CPU was stolen, and {} went to something else",
        number::share(reading.xdp.spread_ratio),
        number::share(reading.memory.spread_ratio),
        most(|used| Some(used.stolen_ratio)),
        most(|used| used.foreign_ratio),
    )
}

/// The figure of a trial with its unit.
fn figure_of(record: &TrialRecord) -> String {
    record.traffic.kind.unit().written(record.result.rate_pps)
}

/// A line for a run that has ended.
fn run_line(name: &str, record: &TrialRecord) -> String {
    let verdict = record.verdict.kind.name();
    let line = format!("{name:<28} {:>12}  {verdict}", figure_of(record));
    match record.verdict.kind {
        kind if kind.is_void() => format!("{line}: {}", record.verdict.reason),
        _ => line,
    }
}

/// A line for what is asked and has been done.
fn begin_line(report: &Report) -> String {
    let list = &report.candidates;
    format!(
        "{} candidates from {} to {}, {} done, {} at most",
        list.len(),
        list[0].name,
        list[list.len() - 1].name,
        counted_len(report.runs, "run"),
        report.runs_max
    )
}

/// Where the change may be, the most probable places first.
fn places(report: &Report) -> String {
    let mut places: Vec<&CandidateReport> = report.candidates.iter().skip(1).collect();
    places.sort_by(|a, b| b.first_bad_probability.total_cmp(&a.first_bad_probability));
    let shown = places.iter().take(3).filter(|c| c.first_bad_probability >= 0.005);
    let mut posterior: Vec<String> =
        shown.map(|c| format!("{} {}", c.name, probability(c.first_bad_probability))).collect();
    posterior.push(format!("no change {}", probability(report.no_change_probability)));
    posterior.join(", ")
}

/// A line for a trial that is done.
fn trial_line(name: &str, record: &TrialRecord, kept: bool) -> String {
    let (ledger, kind) = (&record.ledger, &record.traffic.kind);
    let count = |point: Option<&Point>| point.map_or(0, |point| point.packets);
    let offered = count(ledger.points.first());
    let delivered = count(ledger.points.last());
    let lost = number::count(offered.abs_diff(delivered));
    let minus = if delivered > offered { "\u{2212}" } else { "" };
    let note = match (kept, record.verdict.kind) {
        (true, _) => "  (kept)".to_owned(),
        (false, kind) if kind.is_void() => format!("  {}: {}", kind.name(), record.verdict.reason),
        (false, _) => String::new(),
    };
    format!(
        "  {name:<40} {:>13} for {:>7}  lost {minus}{lost} of {}{note}",
        // Of all directions together.
        record
            .result
            .requested_pps
            .map_or_else(|| kind.rate_text(record.traffic.rate), |rate| kind.unit().written(rate)),
        number::duration(record.times.duration_ns),
        number::count(offered),
    )
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

/// A time in whole seconds, for people.
fn rounded(duration: Duration) -> String {
    number::duration(whole_ns(whole_seconds(duration)))
}

/// Colour of a verdict.
fn style(kind: VerdictKind) -> Style {
    match kind {
        VerdictKind::DutBound => AnsiColor::Green.on_default(),
        VerdictKind::GeneratorBound | VerdictKind::LinkBound => AnsiColor::Cyan.on_default(),
        VerdictKind::RingBound
        | VerdictKind::SinkBound
        | VerdictKind::Overloaded
        | VerdictKind::Unstable => AnsiColor::Yellow.on_default(),
        VerdictKind::Disturbed | VerdictKind::Invalid => AnsiColor::Red.on_default().bold(),
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

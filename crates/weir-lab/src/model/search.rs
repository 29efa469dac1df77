//! The `[search]` table: what is searched for, and how; what the command line puts before it, and
//! the preset's values for what both leave open. Arithmetic only.

use std::time::Duration;

use weir_results::search::{FrameSize, Terms, Test};
use weir_stats::search::goal::{Goal, Preset};

/// The `[search]` table as far as it is written; the rest is the preset's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchTable {
    /// Durations and exceed ratio of all goals.
    pub preset: Option<Preset>,
    /// The goals' loss ratios.
    pub loss_ratios: Option<Vec<f64>>,
    /// Length of a full trial.
    pub trial: Option<Duration>,
    /// Trial time that decides about a load.
    pub duration_sum: Option<Duration>,
    /// The share of trial time that may be bad.
    pub exceed_ratio: Option<f64>,
    /// How close bounds are in the end.
    pub width_ratio: Option<f64>,
    /// Length of the first trials.
    pub first_trial: Option<Duration>,
    /// What is found out.
    pub tests: Option<Vec<Test>>,
    /// With which frames.
    pub sizes: Option<Vec<FrameSize>>,
    /// The lowest load.
    pub min_load_pps: Option<f64>,
    /// The highest load; absent: what the path carries without a DUT.
    pub max_load_pps: Option<f64>,
    /// Length of the warm-up trial; zero: none.
    pub warmup: Option<Duration>,
    /// The longest that one test of one item may take.
    pub time_max: Option<Duration>,
    /// The most trials of it.
    pub trials_max: Option<u32>,
    /// Step of the loss-rate curve, as a share of its maximum.
    pub curve_step_ratio: Option<f64>,
    /// Length of its trials.
    pub curve_trial: Option<Duration>,
    /// Length of a latency measurement.
    pub latency_trial: Option<Duration>,
    /// Repetitions of it.
    pub latency_repeats: Option<u32>,
    /// The longest burst, packets.
    pub burst_packets_max: Option<u64>,
    /// Repetitions of the search for the longest burst.
    pub burst_repeats: Option<u32>,
    /// How close the lengths of bursts are in the end.
    pub burst_width_ratio: Option<f64>,
    /// How often all of it is done for each item.
    pub repeats: Option<u32>,
}

/// What the command line asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// The no-drop rate (`--ndr`).
    pub ndr: bool,
    /// Partial-drop rates at these loss ratios (`--pdr`).
    pub pdr: Vec<f64>,
    /// The throughput of RFC 2544 (`--rfc2544`).
    pub rfc2544: bool,
}

/// Values that do not go together: which field of `[search]` is told, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TableError {
    pub field: &'static str,
    /// What is wrong.
    pub message: String,
}

/// A share written in per cent: `0.5%`.
#[must_use]
pub fn parse_percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = number.parse().ok().filter(|_| is_plain)?;
    Some(value / 100.0)
}

/// Puts table, command line and preset together.
///
/// # Errors
/// [`TableError`] where values do not go together.
pub fn resolve(table: &SearchTable, asked: &Asked) -> Result<Terms, TableError> {
    let preset = if asked.rfc2544 { Preset::Rfc2544 } else { table.preset.unwrap_or(Preset::Csit) };
    let seconds = |time: Duration| time.as_secs_f64();
    let mut loss_ratios = asked.pdr.clone();
    if asked.ndr || asked.rfc2544 {
        loss_ratios.push(0.0);
    }
    if loss_ratios.is_empty() {
        loss_ratios = match &table.loss_ratios {
            Some(ratios) => ratios.clone(),
            None => preset.loss_ratios().to_vec(),
        };
    }
    loss_ratios.sort_by(f64::total_cmp);
    loss_ratios.dedup();
    let goal = |loss_ratio: &f64| -> Result<Goal, TableError> {
        let base = preset.goal(*loss_ratio);
        let final_trial_s = table.trial.map_or(base.final_trial_s, seconds);
        // A table that says how long a trial is, and no more, still means the preset's proportion.
        let whole = base.duration_sum_s / base.final_trial_s;
        let initial = base.initial_trial_s.map(|initial_s| initial_s.min(final_trial_s));
        let goal = Goal {
            loss_ratio: *loss_ratio,
            exceed_ratio: table.exceed_ratio.unwrap_or(base.exceed_ratio),
            final_trial_s,
            duration_sum_s: table.duration_sum.map_or(final_trial_s * whole, seconds),
            width_ratio: table.width_ratio.unwrap_or(base.width_ratio),
            initial_trial_s: table.first_trial.map(seconds).or(initial),
        };
        goal.check()
            .map_err(|error| TableError { field: "duration_sum", message: error.to_string() })?;
        Ok(goal)
    };
    let goals = loss_ratios.iter().map(goal).collect::<Result<Vec<Goal>, TableError>>()?;
    let trial_s = goals.first().map_or(1.0, |goal| goal.final_trial_s);
    if let (Some(min), Some(max)) = (table.min_load_pps, table.max_load_pps)
        && min > max
    {
        let message = "`min_load` must not be above `max_load`".to_owned();
        return Err(TableError { field: "min_load", message });
    }
    // RFC 2544 section 26.2 asks for two minutes and twenty repetitions.
    let is_short = preset == Preset::Csit;
    let (latency_s, latency_repeats) = if is_short { (2.0, 3) } else { (120.0, 20) };
    let mut tests = table.tests.clone().unwrap_or_else(|| vec![Test::Throughput]);
    if !tests.contains(&Test::Throughput) && tests.iter().any(|test| test.needs_throughput()) {
        let message = "\"latency\" and \"back-to-back\" need \"throughput\" beside them".to_owned();
        return Err(TableError { field: "tests", message });
    }
    tests.sort_unstable();
    Ok(Terms {
        preset: preset.name().to_owned(),
        goals,
        tests,
        sizes: table.sizes.clone().unwrap_or_else(|| vec![FrameSize::OfTraffic]),
        min_load_pps: table.min_load_pps,
        max_load_pps: table.max_load_pps,
        warmup_s: Some(table.warmup.map_or(1.0, seconds)).filter(|&s| s > 0.0),
        time_max_s: table.time_max.map_or(if is_short { 1_800.0 } else { 86_400.0 }, seconds),
        trials_max: table.trials_max.unwrap_or(5_000),
        curve_step_ratio: table.curve_step_ratio.unwrap_or(0.1),
        curve_trial_s: table.curve_trial.map_or(trial_s, seconds),
        latency_trial_s: table.latency_trial.map_or(latency_s, seconds),
        latency_repeats: table.latency_repeats.unwrap_or(latency_repeats),
        burst_packets_max: table.burst_packets_max,
        burst_repeats: table.burst_repeats.unwrap_or(if is_short { 5 } else { 50 }),
        burst_width_ratio: table.burst_width_ratio.unwrap_or(0.01),
        repeats: table.repeats.unwrap_or(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(asked: &Asked) -> Terms {
        resolve(&SearchTable::default(), asked).expect("nothing is wrong with it")
    }

    #[test]
    fn without_any_wish_it_is_csits_ndr_and_pdr() {
        let terms = resolved(&Asked::default());
        let names: Vec<String> = terms.goals.iter().map(Goal::name).collect();
        assert_eq!(names, ["NDR", "PDR 0.5 %"]);
        assert_eq!((terms.goals[0].final_trial_s, terms.goals[0].duration_sum_s), (1.0, 21.0));
        assert_eq!(
            (terms.tests, terms.sizes),
            (vec![Test::Throughput], vec![FrameSize::OfTraffic])
        );
    }

    #[test]
    fn the_command_line_goes_before_the_table() {
        let table = SearchTable {
            loss_ratios: Some(vec![0.1]),
            trial: Some(Duration::from_secs(2)),
            ..SearchTable::default()
        };
        let asked = Asked { pdr: vec![0.01], ndr: true, ..Asked::default() };
        let terms = resolve(&table, &asked).expect("resolved");
        let ratios: Vec<f64> = terms.goals.iter().map(|goal| goal.loss_ratio).collect();
        assert_eq!(ratios, [0.0, 0.01]);
        // The table's trials, in the preset's number.
        assert_eq!(terms.goals[0].duration_sum_s, 42.0);
        let ratios = resolve(&table, &Asked::default()).expect("resolved").goals;
        assert_eq!(ratios[0].loss_ratio, 0.1);
        let plain = resolved(&Asked { rfc2544: true, ..Asked::default() });
        assert_eq!((plain.goals.len(), plain.goals[0].final_trial_s), (1, 60.0));
        assert_eq!(plain.goals[0].initial_trial_s, None);
        assert_eq!((plain.latency_trial_s, plain.latency_repeats), (120.0, 20));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let refused = |table: SearchTable| {
            resolve(&table, &Asked::default()).expect_err("it is refused").field
        };
        let short = Some(Duration::from_millis(500));
        assert_eq!(
            refused(SearchTable { duration_sum: short, ..SearchTable::default() }),
            "duration_sum"
        );
        let (min_load_pps, max_load_pps) = (Some(2.0), Some(1.0));
        let crossed = SearchTable { min_load_pps, max_load_pps, ..SearchTable::default() };
        assert_eq!(refused(crossed), "min_load");
        let tests = Some(vec![Test::Latency]);
        assert_eq!(refused(SearchTable { tests, ..SearchTable::default() }), "tests");
    }

    #[test]
    fn per_cents_are_read() {
        assert_eq!(parse_percent("0.5%"), Some(0.005));
        assert_eq!(parse_percent("0%"), Some(0.0));
        for bad in ["", "%", "5", "-1%", "1e3%", "nan%", "inf%", "0.5 %"] {
            assert_eq!(parse_percent(bad), None, "{bad}");
        }
    }
}

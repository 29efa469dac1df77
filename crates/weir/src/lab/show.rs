//! What the lab prints: a plan, a result, a hint after an interruption.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use weir_lab::derive::{Account, Derived};
use weir_lab::model::search::{Asked, resolve};
use weir_lab::model::{Plan, SearchTable};
use weir_lab::plan::estimate::Estimate;
use weir_lab::plan::view::{self, PlanView, estimated_duration};
use weir_lab::search::{Expected, expected};
use weir_lab::store::Store;
use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::matrix::Series;
use weir_results::number::{self, counted, counted_len, counted_text, or_dash, pps, share};
use weir_results::summary::{CampaignSummary, DirectionSummary, SeriesSummary};
use weir_results::traffic::Traffic;
use weir_wire::units::{format_count, whole_ns};

use super::absolute;
use crate::cli::{JsonFlag, VerboseFlag};
use crate::exit;
use crate::progress;

mod bisection;
mod search;

/// How a result is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// As JSON.
    json: bool,
    /// Comparisons in ministat's layout, too.
    verbose: bool,
}

/// How long a run has taken, beside what was estimated, where more is to be shown.
pub(super) fn took(shown: Shown, estimate: Duration, taken: Duration) {
    if shown.verbose {
        progress::note(&format!("estimated {}, took {}", duration(estimate), duration(taken)));
    }
}

impl Shown {
    pub(super) fn of(verbose: VerboseFlag, json: JsonFlag) -> Self {
        Self { json: json.json, verbose: verbose.verbose }
    }

    /// By a command that has no more to show.
    pub(super) fn brief(json: JsonFlag) -> Self {
        Self { json: json.json, verbose: false }
    }
}

/// Prints a plan and where it would run on this host, with the order of its trials if it is to be
/// `verbose`.
pub(super) fn plan(
    plan: &Plan,
    placements: &[Value],
    verbose: bool,
    json: bool,
) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    if json {
        let mut view = serde_json::to_value(PlanView::new(plan))?;
        view["placements"] = placements.into();
        if let Some(Ok(search)) = searches(plan) {
            let duration_ns = whole_ns(search.duration);
            view["search"] = serde_json::json!({
                "item_count": search.item_count,
                "trial_count": search.trial_count,
                "estimated_duration_ns": duration_ns,
            });
        }
        let text = serde_json::to_string_pretty(&view)?;
        return writeln!(out, "{text}").context(exit::NO_OUTPUT);
    }
    let mut text = String::new();
    let campaign = &plan.campaign;
    text += &format!(
        "campaign {}: {} series × {} = {}, {}; about {}\n",
        campaign.name,
        plan.series.len(),
        counted_text(&campaign.iterations_text(), "iteration"),
        counted_text(&range(&view::cell_count_min(plan), &plan.cells.len()), "cell"),
        counted_len(plan.calibrations().len(), "calibration"),
        range(&duration(view::estimated_duration_min(plan)), &duration(estimated_duration(plan))),
    );
    if let Some(auto) = campaign.auto {
        text += &format!(
            "a series stops once its mean is known to ±{} % at {} % confidence\n",
            auto.half_width_percent(),
            auto.confidence_percent
        );
    }
    let estimate = Estimate::of(plan, plan.cells.iter());
    let parts = estimate.parts().into_iter().filter(|(_, time)| !time.is_zero());
    let parts: Vec<String> =
        parts.map(|(name, time)| format!("{name} {}", duration(time))).collect();
    text += &format!("of that (docs/lab.md): {}", parts.join(", "));
    if plan.retries > 0 {
        text += "; what something else on the machine disturbs is repeated, and comes on top";
    }
    text += "\n";
    text += &placements.iter().map(placement).collect::<String>();
    text += "\n";
    text += &series_table(plan);
    if verbose {
        text += &format!("\norder ({:?}, seed {}):\n", campaign.order, campaign.seed);
        for (index, cell) in plan.cells.iter().enumerate() {
            text += &format!("{:>5}  {}\n", index + 1, plan.cell_name(cell));
        }
    }
    text += &of_searches(plan);
    out.write_all(text.as_bytes()).context(exit::NO_OUTPUT)
}

/// How long a time is, for people.
fn duration(time: Duration) -> String {
    number::duration(whole_ns(progress::whole_seconds(time)))
}

/// What is said of the searches of a plan.
fn of_searches(plan: &Plan) -> String {
    let mut text = String::new();
    if let Some(search) = searches(plan) {
        text += "\n[search] is not part of `weir lab run`: `weir lab search` with this \
                 specification searches every series at each of its frame sizes";
        text += &match search {
            Ok(Expected { item_count, trial_count, duration: time }) => format!(
                ": {item_count} in all, with about {}, in about {}\n",
                counted(u64::from(trial_count), "trial"),
                duration(time)
            ),
            Err(why) => format!("; it would be refused: {why}\n"),
        };
    }
    text
}

/// What the searches of a plan that has a table for them would cost, or why there can be none.
fn searches(plan: &Plan) -> Option<anyhow::Result<Expected>> {
    if plan.search == SearchTable::default() {
        return None;
    }
    let terms = resolve(&plan.search, &Asked::default());
    let terms = terms.map_err(anyhow::Error::from);
    Some(terms.and_then(|terms| Ok(expected(plan, &terms)?)))
}

/// Which CPUs of this host do what.
fn placement(placement: &Value) -> String {
    let cpus = |part: &str| match placement[part].as_str() {
        Some(cpus) if cpus.contains([',', '-']) => format!("CPUs {cpus}"),
        Some(cpus) => format!("CPU {cpus}"),
        None => "the CPU that delivers to it, as a part of the DUT's CPU time".to_owned(),
    };
    let [generator, dut, sink] = ["generator_cpus", "dut_cpus", "sink_cpus"].map(cpus);
    format!("on this host: generator on {generator}, DUT on {dut}, sink on {sink}\n")
}

/// What a plan measures.
fn series_table(plan: &Plan) -> String {
    let columns = vec![
        Column::words("series"),
        Column::numbers("flows"),
        Column::numbers("size"),
        Column::words("rate"),
        Column::words("id"),
    ];
    let row = |series: &Series| -> Row {
        Row::from_iter([
            series.name.clone(),
            format_count(series.traffic.flow_count()),
            one_or_both(series.traffic.streams.size_bytes_range()),
            rates(&series.traffic),
            series.id[..12].to_owned(),
        ])
    };
    Table::new(columns, plan.series.iter().map(row)).text(Terminal::default())
}

/// What the generators of a traffic are asked for: `50kpps`, `4 × max`, `4kpps + 2kpps`.
fn rates(traffic: &Traffic) -> String {
    let mut rates: Vec<(String, usize)> = Vec::new();
    for sender in traffic.each_sender() {
        let rate = traffic.kind.rate_text(sender.rate);
        match rates.iter_mut().find(|(other, _)| *other == rate) {
            Some((_, count)) => *count += 1,
            None => rates.push((rate, 1)),
        }
    }
    let shown = rates.into_iter().map(|(rate, count)| match count {
        1 => rate,
        count => format!("{count} × {rate}"),
    });
    shown.collect::<Vec<String>>().join(" + ")
}

/// One value, or the least and the most.
fn range<T: PartialEq + std::fmt::Display>(least: &T, most: &T) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// A size, or the smallest and the largest.
fn one_or_both((min_bytes, max_bytes): (u16, u16)) -> String {
    if min_bytes == max_bytes { min_bytes.to_string() } else { format!("{min_bytes}-{max_bytes}") }
}

/// Shows what a store comes to, whose files are written: that they are is said if it cannot be
/// shown.
pub(super) fn account(store: &Store, account: &Account, shown: Shown) -> anyhow::Result<()> {
    let json = shown.json;
    let result = match account {
        Account::Campaign(derived) => {
            for problem in &derived.damaged {
                progress::warn(&format!("{problem}; it is left out of the figures"));
            }
            for warning in &derived.warnings {
                progress::warn(warning);
            }
            result(store, derived, shown)
        }
        Account::Bisection(account) => bisection::show(store, &account.0, json),
        Account::Search(report) => search::show(store, report, json),
    };
    result.map_err(|error| {
        if exit::reader_has_gone(&error) {
            return error;
        }
        let dir = store.root().display();
        anyhow!("{}; the results are complete in {dir}", exit::message(&error))
    })
}

/// Prints the result of a campaign: the answers, the table, where the report is.
fn result(store: &Store, derived: &Derived, shown: Shown) -> anyhow::Result<()> {
    let report = absolute(&store.root().join("report.html"))?;
    let mut out = anstream::stdout();
    if shown.json {
        let mut value = serde_json::to_value(&derived.summary)?;
        value["report"] = report.display().to_string().into();
        let text = serde_json::to_string_pretty(&value)?;
        return writeln!(out, "{text}").and_then(|()| out.flush()).context(exit::NO_OUTPUT);
    }
    let mut text = String::from("\n");
    if shown.verbose {
        for (title, block) in &derived.ministat {
            text += &format!("{title}\n{block}");
            text += if block.ends_with('\n') { "\n" } else { "\n\n" };
        }
        for (title, words) in &derived.words {
            text += &format!("{title}: {words}\n\n");
        }
    }
    for answer in &derived.answers {
        text += &format!("{answer}\n");
    }
    text += &format!("\n{}", table(&derived.summary));
    text += &format!("\nreport: {}\n", report.display());
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context(exit::NO_OUTPUT)
}

/// The table of the series, how much of the campaign it is, and the latencies.
fn table(summary: &CampaignSummary) -> String {
    let columns = vec![
        Column::words("series"),
        Column::numbers("n"),
        Column::numbers("median"),
        Column::numbers("minimum"),
        Column::numbers("maximum"),
        Column::numbers("lost"),
        Column::numbers("of path"),
        Column::numbers("CPU/packet"),
        Column::words("verdict"),
    ];
    let mut text = Table::new(columns, summary.series.iter().map(row)).text(Terminal::default());
    let counts = &summary.counts;
    text += &format!("{} of {}", counts.finished_cells, counted_len(counts.planned_cells, "cell"));
    for (count, what) in [(counts.invalid_cells, "invalid"), (counts.disturbed_cells, "disturbed")]
    {
        if count > 0 {
            text += &format!(", {count} of them {what} and left out of the figures");
        }
    }
    text += &match summary.unit().is_of_packets() {
        true => format!("; frames of {} bytes\n", sizes(summary)),
        false => "\n".to_owned(),
    };
    text += &directions(summary);
    text += &latencies(summary);
    text
}

/// The table of the directions of traffics that have several; empty without any.
fn directions(summary: &CampaignSummary) -> String {
    let heads = ["median", "minimum", "maximum", "offered", "of path"].map(Column::numbers);
    let columns = [Column::words("series"), Column::words("direction")].into_iter().chain(heads);
    let row = |series: &SeriesSummary, each: &DirectionSummary| -> Row {
        let rate = each.rate_pps;
        let path = rate.zip(each.calibration_pps.filter(|&path_pps| path_pps > 0.0));
        Row::from_iter([
            series.name.clone(),
            each.name.clone(),
            or_dash(rate.map(|r| pps(r.median))),
            or_dash(rate.map(|r| pps(r.min))),
            or_dash(rate.map(|r| pps(r.max))),
            or_dash(each.offered_pps.map(|r| pps(r.median))),
            or_dash(path.map(|(rate, path_pps)| share(rate.median / path_pps))),
        ])
    };
    let rows = summary
        .series
        .iter()
        .flat_map(|series| series.directions.iter().map(move |each| row(series, each)));
    let table = Table::new(columns.collect(), rows);
    if table.is_empty() { String::new() } else { format!("\n{}", table.text(Terminal::default())) }
}

/// The table of the latencies; empty without any.
fn latencies(summary: &CampaignSummary) -> String {
    let heads = ["at", "min", "p50", "p90", "p99", "p99.9", "max"].map(Column::numbers);
    let columns = [Column::words("latency")].into_iter().chain(heads).collect();
    let row = |series: &SeriesSummary| -> Option<Row> {
        let latency = series.latency?;
        let start = [series.name.clone(), series.unit.written(latency.rate_pps)];
        Some(start.into_iter().chain(latency.delays.in_order().map(number::delay_ns)).collect())
    };
    let table = Table::new(columns, summary.series.iter().filter_map(row));
    if table.is_empty() { String::new() } else { format!("\n{}", table.text(Terminal::default())) }
}

fn row(series: &SeriesSummary) -> Row {
    let rate = series.rate_pps;
    let verdict = |(name, count): (&String, &usize)| {
        if *count == series.iterations { name.clone() } else { format!("{count} {name}") }
    };
    let verdicts: Vec<String> = series.verdicts.iter().map(verdict).collect();
    Row::from_iter([
        series.name.clone(),
        series.valid_iterations.to_string(),
        or_dash(rate.map(|r| series.unit.written(r.median))),
        or_dash(rate.map(|r| series.unit.written(r.min))),
        or_dash(rate.map(|r| series.unit.written(r.max))),
        or_dash(series.loss_ratio.map(|s| share(s.median))),
        or_dash(series.calibration_ratio.map(share)),
        or_dash(series.cost_ns.map(|cost| number::cost(cost.median))),
        verdicts.join(", "),
    ])
}

/// Frame sizes of the campaign, without and with FCS.
fn sizes(summary: &CampaignSummary) -> String {
    let range =
        |s: &SeriesSummary| ((s.size_bytes_min, s.size_bytes_max), s.size_with_fcs_bytes_range());
    let mut sizes: Vec<_> = summary.series.iter().map(range).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let both =
        |(without, with)| format!("{} ({} with FCS)", one_or_both(without), one_or_both(with));
    let parts: Vec<String> = sizes.into_iter().map(both).collect();
    parts.join(", ")
}

/// Says how to go on after an interruption.
pub(super) fn interrupted(store: &Store) {
    progress::warn(&format!(
        "interrupted; finished trials are kept. Go on with: weir lab resume {}",
        store.root().display()
    ));
}

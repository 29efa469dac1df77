//! The tables of a campaign's report: figures, latencies, ledgers, iterations.

use super::{Report, about, answer, dut_label, group_label, words};
use crate::document::{
    Block, Cell, Column, Fold, Group, Line, Outputs, Row, Table, link, linked, prose,
};
use crate::machine_use::CpuUse;
use crate::number::{self, or_dash, share};
use crate::record::{TrialRecord, VerdictKind};
use crate::summary::analysis::ComparisonAnalysis;
use crate::summary::{LatencySummary, LedgerSummary, SeriesSummary, Spread};
use crate::unit::Unit;

/// What a table of latencies rests on.
pub(super) const fn latency_note(unit: Unit) -> &'static str {
    match unit {
        Unit::Rps => OF_REQUESTS,
        Unit::Pps | Unit::Bps | Unit::Cps | Unit::Connections => ONE_WAY,
    }
}

const OF_REQUESTS: &str = "\
    From when a request was due to the end of its answer, at the client; medians over the valid \
    iterations, quantiles of the requests answered, to three digits. It is measured in a phase of \
    its own after the figures: traffic with a rate keeps it, traffic at `max` is sent at half of \
    what was answered, at even distances. A request without an answer has no latency.";

const ONE_WAY: &str = "\
    One way, from the generator to the sink, by the clock of the one host that both are on; \
    medians over the valid iterations, quantiles of the packets measured, to within 1/64. It is \
    measured in a phase of its own after the figures, because a sink that looks at every packet is \
    slower than one that counts them: traffic with a rate keeps it, traffic at `max` is sent at \
    half of what was delivered. A packet that was lost has no latency.";

/// A DUT with the colour that it has in every figure.
pub(super) fn dut(report: &Report<'_>, series: &SeriesSummary) -> Line {
    Line::new().swatch(report.colour(series)).text(dut_label(series))
}

/// A verdict, and what it says of the figure beside it.
fn badge(kind: VerdictKind, text: impl Into<Line>) -> Line {
    Line::new().styled(format!("badge v-{}", kind.name()), Line::new().strong(text)).text(": ")
}

fn min_max(unit: Unit, rate: Spread) -> String {
    unit.range(rate.min, rate.max)
}

/// Rows in the groups whose members are compared.
fn groups<'a>(
    report: &'a Report<'_>,
    row: impl Fn(&'a SeriesSummary) -> Option<Row>,
) -> Vec<Group> {
    let tagged = |series| Some(Row { tag: about::tag(series), ..row(series)? });
    let groups = report.summary.groups().into_iter().map(|series| Group {
        title: group_label(series[0]).into(),
        rows: series.into_iter().filter_map(tagged).collect(),
    });
    groups.filter(|group| !group.rows.is_empty()).collect()
}

/// One large figure per traffic and DUT, and the difference between the DUTs, of some groups.
pub(super) fn key_figures(report: &Report<'_>, groups: &[Vec<&SeriesSummary>]) -> Table {
    let summary = &report.summary;
    let mut duts: Vec<(&str, usize)> = Vec::new();
    let is_plain = summary.series.iter().all(|series| series.image.is_none());
    for series in &summary.series {
        if !duts.iter().any(|(name, _)| *name == series.dut) {
            duts.push((&series.dut, report.colour(series)));
        }
    }
    let has_comparisons = !summary.comparisons.is_empty();
    let unit = summary.unit();
    let names = duts.iter().map(|(name, colour)| {
        let column = Column::numbers(Line::new().swatch(*colour).text(*name)).raw(unit.name());
        if is_plain { column.of_dut(*name) } else { column }
    });
    let difference = has_comparisons.then(|| Column::numbers("Difference").style("answer"));
    let columns = [Column::words(unit.done())].into_iter().chain(names).chain(difference);
    let row = |group: &Vec<&SeriesSummary>| -> Row {
        let figures = duts.iter().map(|(name, _)| {
            let series = group.iter().find(|s| s.dut == *name);
            series.map_or_else(|| "–".into(), |s| key_figure(report, s))
        });
        let difference = has_comparisons.then(|| key_difference(report, group));
        let cells = [key_label(group[0])].into_iter().chain(figures).chain(difference);
        Row { tag: about::group_tag(group), ..cells.collect() }
    };
    Table::new(columns.collect(), groups.iter().map(row)).style("key")
}

fn key_label(series: &SeriesSummary) -> Cell {
    let image = series.image.as_ref().map_or_else(String::new, |image| format!("{image} "));
    let label = format!("{image}{}", group_label(series));
    let (name, flows) = label.rsplit_once(" · ").unwrap_or((&label, ""));
    Cell::from(name).under(flows)
}

fn key_figure(report: &Report<'_>, series: &SeriesSummary) -> Cell {
    let median =
        series.median_pps().map_or_else(|| "–".into(), |median| large(series.unit.written(median)));
    let under = match series.rate_pps {
        Some(rate) if rate.count > 1 => min_max(series.unit, rate),
        Some(_) => "one iteration".to_owned(),
        None => "no valid iteration".to_owned(),
    };
    let link = report.iterations_link(series);
    Cell::from(Line::new().link(link, median)).under(under).sorted(series.median_pps())
}

/// A figure whose unit is smaller than its digits.
fn large(text: String) -> Line {
    match text.rsplit_once(' ') {
        Some((digits, unit)) => Line::new().text(digits).styled("in", format!(" {unit}")),
        None => text.into(),
    }
}

fn key_difference(report: &Report<'_>, group: &[&SeriesSummary]) -> Cell {
    let comparisons = report.summary.comparisons.iter();
    let of_group: Vec<_> =
        comparisons.filter(|c| group.iter().any(|s| s.name == c.other)).collect();
    let mut line = Line::from(if of_group.is_empty() { "–" } else { "" });
    for comparison in &of_group {
        let proven = comparison.analysis.as_ref().is_some_and(ComparisonAnalysis::is_proven);
        let name = group.iter().find(|s| s.name == comparison.other).map(|s| dut_label(s));
        let name = name.filter(|_| of_group.len() > 1);
        let name = name.map(|name| Line::new().styled("of", format!("{name} ")));
        let style = if proven { "difference" } else { "difference open" };
        let (size, interval) = answer::short(comparison);
        let mut text = name.unwrap_or_default().text(size);
        if !interval.is_empty() {
            text = text.styled("interval", format!(" {interval}"));
        }
        line = line.styled(style, text);
    }
    line.into()
}

/// Every series with all of its figures and its verdict.
pub(super) fn series(report: &Report<'_>) -> Table {
    let has_costs = report.summary.series.iter().any(|series| series.cost_ns.is_some());
    let unit = report.summary.unit().name();
    let mut columns = vec![
        Column::words("DUT"),
        Column::numbers("Median").strong().raw(unit),
        Column::numbers("Min–max"),
        Column::numbers("CV").unit("of mean").raw("ratio"),
    ];
    columns.extend(has_costs.then(|| Column::numbers("CPU time").unit("per packet").raw("ns")));
    columns.extend([
        Column::numbers("Offered").raw(unit),
        Column::numbers("Lost").unit("of offered").raw("ratio"),
        Column::numbers("Calibrated").raw(unit),
        Column::numbers("Ratio").unit("of calibr.").raw("ratio"),
        Column::numbers("Frame").unit("B / with FCS"),
        Column::numbers("Valid").unit("iterations"),
        Column::numbers("Worst residual").only(Outputs::TEXTS),
    ]);
    let groups = groups(report, |series| Some(series_row(report, series, has_costs)));
    Table::grouped("Traffic", columns, groups).style("series").sortable()
}

/// The DUT's CPU time per packet, and how much of it is the sink's.
fn cost(series: &SeriesSummary) -> Cell {
    let median = series.cost_ns.map(|cost| cost.median);
    let sink = series.apparatus_ratio.map(|ratio| format!("{} sink", share(ratio)));
    Cell::from(or_dash(median.map(number::cost))).sorted(median).under(sink.unwrap_or_default())
}

fn series_row(report: &Report<'_>, series: &SeriesSummary, has_costs: bool) -> Row {
    let rate = series.rate_pps;
    let written = |value: f64| series.unit.written(value);
    let raw = report.iterations_link(series);
    let raw = |text: Option<String>| Cell::from(Line::new().link(&raw, or_dash(text)));
    let variation = rate.and_then(|s| s.variation_ratio());
    let (offered, loss) = (series.offered_pps.map(|s| s.median), series.loss_ratio);
    let requested = requested_pps(report, series);
    let requested = requested.map(|rate_pps| format!("{} requested", written(rate_pps)));
    let lost = series.lost_packets.filter(|s| s.median > 0.0);
    let calibration = calibration_link(report, series);
    let mut because = badge(series.verdict.kind, verdict_counts(series));
    because = because.prose(&series.reason());
    if let Some(rate_pps) = series.median_pps().filter(|_| series.unit == Unit::Pps) {
        because = because.text(format!("; {}", words::enough(rate_pps)));
    }
    let mut cells = vec![
        dut(report, series).into(),
        raw(series.median_pps().map(written)).sorted(series.median_pps()),
        raw(rate.map(|rate| min_max(series.unit, rate))).sorted(rate.map(|r| r.min)),
        Cell::from(or_dash(variation.map(share))).sorted(variation),
    ];
    cells.extend(has_costs.then(|| cost(series)));
    cells.extend([
        raw(offered.map(written)).sorted(offered).under(requested.unwrap_or_default()),
        raw(loss.map(|s| share(s.median)))
            .sorted(loss.map(|s| s.median))
            .under(lost.map_or_else(String::new, |s| number::signed(s.median, 0))),
        Cell::from(linked(calibration.as_deref(), or_dash(series.calibration_pps.map(written))))
            .sorted(series.calibration_pps),
        Cell::from(or_dash(series.calibration_ratio.map(share))).sorted(series.calibration_ratio),
        frame(series).into(),
        format!("{} of {}", series.valid_iterations, series.iterations).into(),
        share(series.residual_ratio_worst).into(),
    ]);
    Row { cells, because: vec![because], ..Row::default() }
}

/// How often each verdict was given, the deciding one first: `dut-bound 4 of 5, invalid 1 of 5`.
fn verdict_counts(series: &SeriesSummary) -> String {
    let mut kinds: Vec<(&String, &usize)> = series.verdicts.iter().collect();
    kinds.sort_by_key(|(name, count)| (*name != series.verdict.kind.name(), usize::MAX - **count));
    let kinds =
        kinds.iter().map(|(name, count)| format!("{name} {count} of {}", series.iterations));
    kinds.collect::<Vec<_>>().join(", ")
}

/// The rate that the specification asks for; absent where it asks for all there is.
fn requested_pps(report: &Report<'_>, series: &SeriesSummary) -> Option<f64> {
    report.cells(series).first()?.0.result.requested_pps
}

/// The raw records of the calibration that a series is held against, if there is one.
fn calibration_link(report: &Report<'_>, series: &SeriesSummary) -> Option<String> {
    series.calibration_pps?;
    let traffic = &report.cells(series).first()?.0.traffic;
    let is_there = report.data.calibrations.iter().any(|(r, _)| r.traffic.id == traffic.id);
    is_there.then(|| link(&format!("calibration/{}/trial.json", traffic.name)))
}

/// The frame sizes of a series of packets, without and with FCS.
fn frame(series: &SeriesSummary) -> String {
    if series.unit != Unit::Pps {
        return or_dash(None);
    }
    let without = number::sizes((series.size_bytes_min, series.size_bytes_max));
    format!("{without} / {}", number::sizes(series.size_with_fcs_bytes_range()))
}

/// The latency of every series that has one.
pub(super) fn latency(report: &Report<'_>) -> Table {
    let delays = ["Min", "p50", "p90", "p99", "p99.9", "Max"].map(|name| match name {
        "p50" => Column::numbers(name).strong(),
        _ => Column::numbers(name),
    });
    let ends = [
        Column::numbers("Measured").unit(report.summary.unit().things()),
        Column::numbers("Lost").unit("of offered"),
    ];
    let columns = [Column::words("DUT"), Column::numbers("At")];
    let columns = columns.into_iter().chain(delays).chain(ends).collect();
    let groups = groups(report, |s| Some(latency_row(report, s, s.latency.as_ref()?)));
    Table::grouped("Traffic", columns, groups).style("series")
}

fn latency_row(report: &Report<'_>, series: &SeriesSummary, latency: &LatencySummary) -> Row {
    let delays = latency.delays.in_order().map(|ns| number::delay_ns(ns).into());
    let measured = number::count(latency.delays.sample_count);
    let cells: Vec<Cell> = [
        dut(report, series).into(),
        Line::new()
            .link(report.iterations_link(series), series.unit.written(latency.rate_pps))
            .into(),
    ]
    .into_iter()
    .chain(delays)
    .chain([measured.into(), share(latency.loss_ratio).into()])
    .collect();
    Row { cells, style: "figures", ..Row::default() }
}

/// The ledger of every group as a table: counting points in order, the drops after each, the
/// residual.
pub(super) fn ledgers(report: &Report<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for group in report.summary.groups() {
        let of: Vec<_> = group.iter().map(|series| (*series, series.ledger.as_ref())).collect();
        let fold = if blocks.is_empty() { Fold::Open } else { Fold::Closed };
        let title = group_label(group[0]);
        blocks.extend(ledger(report, &of).map(|block| {
            let block = Block::Titled(fold, title.into(), vec![block]);
            Block::Tagged(about::group_tag(&group), vec![block])
        }));
    }
    blocks
}

/// A series beside one of its ledgers.
pub(super) type Accounted<'a> = (&'a SeriesSummary, Option<&'a LedgerSummary>);

/// The ledgers of a group side by side; `None` where nobody has one.
pub(super) fn ledger(report: &Report<'_>, group: &[Accounted<'_>]) -> Option<Block> {
    let rows = ledger_rows(report, group);
    let duts = group
        .iter()
        .map(|(s, _)| Column::numbers(dut(report, s)).with_aside().of_dut(dut_label(s)));
    let things = report.summary.unit().things_title();
    let words = [Column::words(things), Column::words("Counted by").style("source")];
    let columns = words.into_iter().chain(duts).collect();
    (!rows.is_empty()).then(|| Table::new(columns, rows).style("ledger").into())
}

fn ledger_rows(report: &Report<'_>, group: &[Accounted<'_>]) -> Vec<Row> {
    let Some(first) = group.iter().find_map(|(_, ledger)| *ledger) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for point in &first.points {
        rows.push(ledger_row(
            report,
            group,
            (words::words(&point.name), &point.source, false),
            |ledger| ledger.points.iter().find(|p| p.name == point.name).map_or(0, |p| p.packets),
        ));
        let all = group.iter().filter_map(|(_, ledger)| *ledger).flat_map(|l| &l.drops);
        let mut seen = Vec::new();
        for drop in all.filter(|d| d.after == point.name) {
            if seen.contains(&(&drop.name, drop.place)) {
                continue;
            }
            seen.push((&drop.name, drop.place));
            let name = format!("{} ({})", drop.name, words::place(drop.place));
            rows.push(ledger_row(report, group, (name, &drop.source, true), |ledger| {
                let same = ledger.drops.iter().filter(|d| {
                    d.name == drop.name && d.place == drop.place && d.after == drop.after
                });
                same.map(|d| d.packets).sum()
            }));
        }
    }
    let residual = ("residual".to_owned(), "no counter explains it", true);
    rows.push(ledger_row(report, group, residual, |ledger| ledger.residual_packets));
    rows
}

fn ledger_row(
    report: &Report<'_>,
    group: &[Accounted<'_>],
    (name, source, is_inner): (String, &str, bool),
    packets: impl Fn(&LedgerSummary) -> u64,
) -> Row {
    let cell = |(series, ledger): &Accounted<'_>| -> Cell {
        let Some(ledger) = ledger else { return "–".into() };
        let offered = ledger.points.first().map_or(0, |p| p.packets);
        let text = number::count(packets(ledger));
        Cell::from(Line::new().link(report.iterations_link(series), text))
            .under(share(ratio(packets(ledger), offered)))
    };
    let cells = [name.into(), source.into()].into_iter().chain(group.iter().map(cell)).collect();
    let style = if is_inner { "" } else { "point" };
    Row { cells, is_inner, style, ..Row::default() }
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Every iteration of every series, folded away.
pub(super) fn iterations(report: &Report<'_>) -> Vec<Block> {
    let block = |(index, series): (usize, &SeriesSummary)| {
        let title = format!("{} · {}", dut_label(series), group_label(series));
        let title = Line::from(title).styled("count", format!(" {}", verdict_counts(series)));
        let raw = Line::new().code(format!("cells/{}/", series.name));
        let raw = Line::from("Raw records: ").link(link(&format!("cells/{}/", series.name)), raw);
        let columns = vec![
            Column::numbers("#"),
            Column::numbers("Median").strong().raw(series.unit.name()),
            Column::numbers("Samples").unit("min–max").style("range"),
            Column::numbers("Offered").raw(series.unit.name()),
            Column::numbers("Lost").unit("of offered").raw("ratio"),
            Column::numbers("Trend").unit("of median").raw("ratio"),
            Column::numbers("Jump").unit("of median").raw("ratio"),
            Column::numbers("Residual").unit("of offered").raw("ratio"),
            Column::numbers("CPU time").unit("per packet").raw("ns"),
            Column::numbers("Softirq").unit("of a CPU").raw("ratio"),
            Column::numbers("Stolen").unit("of a CPU").raw("ratio"),
            Column::numbers("Foreign").unit("of a CPU").raw("ratio"),
            Column::numbers("CPU wait").unit("of the time").raw("ratio"),
            Column::numbers("Began").unit("UTC"),
        ];
        let trials = about::trials(report, series);
        let rows = trials.iter().map(|(folder, (record, _), _)| iteration_row(folder, record));
        let table = Table::new(columns, rows).style("iterations").sortable();
        let block = Block::Titled(Fold::Closed, title, vec![Block::note(raw), table.into()]);
        Block::Anchored(format!("iterations-{index}"), about::tag(series), vec![block])
    };
    let blocks = report.summary.series.iter().enumerate().map(block);
    blocks.chain(rejected_calibrations(report)).collect()
}

fn iteration_row(folder: &str, record: &TrialRecord) -> Row {
    let (r, unit) = (&record.result, record.traffic.kind.unit());
    let raw = |file| link(&format!("{folder}/{file}"));
    let (trial, samples) = (raw("trial.json"), raw("samples.csv"));
    let trial = |text: String| Cell::from(Line::new().link(&trial, text));
    // A measure of stability that a trial does not have; a loss that no counter gave.
    let ratio = |ratio: Option<f64>| trial(or_dash(ratio.map(share))).sorted(ratio);
    let lost = (!record.ledger.points.is_empty()).then(|| record.ledger.loss_ratio());
    let cost_ns = record.cost.map(|cost| cost.cost_ns);
    let range = unit.range(r.rate_pps_min, r.rate_pps_max);
    let range = Line::new().link(samples, range);
    let count = number::counted_len(r.sample_count, "sample");
    let (began, day) = clock(&record.times.started_utc);
    let interrupts = most(record, |used| Some(used.irq_ratio));
    let interrupts = interrupts.map(|ratio| format!("{} irq", share(ratio)));
    let distance = record.machine.as_ref().and_then(|machine| machine.distance);
    let distance = distance.map(|distance| format!("{:.0} ns away", distance.ns.max));
    let cells = vec![
        trial(record.iteration.to_string()),
        trial(unit.written(r.rate_pps)).sorted(r.rate_pps),
        Cell::from(range).under(count).sorted(r.rate_pps_min),
        trial(unit.written(r.offered_pps)).sorted(r.offered_pps),
        ratio(lost),
        ratio(r.trend_ratio),
        ratio(r.jump_ratio),
        ratio(Some(record.ledger.residual_ratio)),
        trial(or_dash(cost_ns.map(number::cost))).sorted(cost_ns),
        ratio(most(record, |used| Some(used.softirq_ratio))).under(interrupts.unwrap_or_default()),
        ratio(most(record, |used| Some(used.stolen_ratio))).under(distance.unwrap_or_default()),
        ratio(most(record, |used| used.foreign_ratio)),
        ratio(record.machine.as_ref().and_then(|machine| Some(machine.pressure?.cpu_ratio))),
        Cell::from(began).under(day),
    ];
    let verdict = &record.verdict;
    // What decided the verdict stands in its reason already.
    let failed = record.checks.iter();
    let failed = failed.filter(|c| !c.passed && !verdict.reason.contains(&c.detail));
    let failed = failed.map(|c| prose(&format!("Check {} failed: {}", c.name, c.detail)));
    let faults = record.ledger.faults.iter().filter(|f| !verdict.reason.contains(f.as_str()));
    let faults = faults.map(|fault| prose(&format!("Fault: {fault}")));
    let notes = record.ledger.notes.iter().map(|note| prose(&format!("Losses: {note}")));
    let repeated = if folder.starts_with("rejected/") { ", repeated" } else { "" };
    let kind = format!("{}{repeated}", verdict.kind.name());
    let reason = badge(verdict.kind, kind).prose(&verdict.reason);
    let because = [reason].into_iter().chain(faults).chain(failed).chain(notes).collect();
    let style = if verdict.kind.is_void() { "void" } else { "" };
    Row { cells, because, style, ..Row::default() }
}

/// Calibrations that were of no use, with the reason.
fn rejected_calibrations(report: &Report<'_>) -> Option<Block> {
    let unit = report.summary.unit();
    let columns = vec![Column::words("Traffic"), Column::numbers("Median").raw(unit.name())];
    let rejected = report.data.rejected.iter().filter(|r| r.trial.0.dut.is_none());
    let rows = rejected.map(|rejected| {
        let record = &rejected.trial.0;
        let link = link(&format!("{}/trial.json", rejected.folder));
        let verdict = &record.verdict;
        let reason = badge(verdict.kind, verdict.kind.name()).prose(&verdict.reason);
        let rate_pps = record.result.rate_pps;
        let rate = record.traffic.kind.unit().written(rate_pps);
        let rate = Cell::from(Line::new().link(link, rate)).sorted(rate_pps);
        let cells = vec![record.traffic.name.as_str().into(), rate];
        Row { because: vec![reason], style: "void", ..Row::from(cells) }
    });
    let table = Table::new(columns, rows).style("iterations");
    let title = Line::from("Rejected calibrations");
    (!table.is_empty()).then(|| Block::Titled(Fold::Closed, title, vec![table.into()]))
}

/// A time of day, and the day.
fn clock(time_utc: &str) -> (String, String) {
    let time = number::utc(time_utc);
    match time.split_once(' ') {
        Some((day, clock)) => (clock.trim_end_matches(" UTC").to_owned(), day.to_owned()),
        None => (time, String::new()),
    }
}

/// The largest of what the CPUs of a trial show; `None` where none shows it.
fn most(record: &TrialRecord, of: impl Fn(&CpuUse) -> Option<f64>) -> Option<f64> {
    let cpus = record.machine.as_ref()?.cpus.values();
    cpus.filter_map(of).max_by(f64::total_cmp)
}

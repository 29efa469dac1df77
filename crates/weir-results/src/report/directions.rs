//! The directions of a traffic that several generators send: the parts of the sum that stands
//! elsewhere.

use super::tables::{dut, ledger};
use super::{Report, group_label};
use crate::document::{Block, Cell, Column, Fold, Group, Row, Table};
use crate::number::{delay_ns, or_dash, pps, share};
use crate::record::Delays;
use crate::summary::{DirectionSummary, SeriesSummary};

/// What the table shows.
pub(super) const NOTE: &str = "\
    Medians over the valid iterations of what was measured at once; the figures of a series are \
    taken from the sum of its directions, moment by moment, so their medians need not add up to \
    its.";

/// Every direction of every series that has several.
pub(super) fn table(report: &Report<'_>) -> Table {
    let all = report.summary.series.iter().flat_map(|series| &series.directions);
    let has_latency = all.into_iter().any(|each| each.latency.is_some());
    let mut columns = vec![
        Column::words("DUT"),
        Column::words("Direction"),
        Column::numbers("Delivered").strong(),
        Column::numbers("Offered"),
        Column::numbers("Lost").unit("of offered"),
        Column::numbers("Calibrated"),
        Column::numbers("Ratio").unit("of calibr."),
    ];
    if has_latency {
        columns.extend(["p50", "p99", "p99.9"].map(|name| Column::numbers(name).unit("latency")));
    }
    let group = |group: Vec<&SeriesSummary>| Group {
        title: group_label(group[0]).into(),
        rows: group
            .into_iter()
            .flat_map(|series| {
                series.directions.iter().map(move |each| row(report, series, each, has_latency))
            })
            .collect(),
    };
    let groups = report.summary.groups().into_iter().map(group);
    let groups = groups.filter(|group: &Group| !group.rows.is_empty()).collect();
    Table::grouped("Traffic", columns, groups).style("series")
}

fn row(
    report: &Report<'_>,
    series: &SeriesSummary,
    direction: &DirectionSummary,
    has_latency: bool,
) -> Row {
    let DirectionSummary { name, rate_pps, offered_pps, calibration_pps, ledger, latency } =
        direction;
    let rate = |rate_pps: Option<f64>| Cell::from(or_dash(rate_pps.map(pps))).sorted(rate_pps);
    let median = rate_pps.map(|spread| spread.median);
    let ends = ledger.as_ref().and_then(|l| Some((l.points.first()?, l.points.last()?)));
    // In a full mesh nobody counts what was offered to a port.
    let ends = ends.filter(|(first, _)| first.name == "offered");
    let lost =
        ends.map(|(first, last)| (first.packets.saturating_sub(last.packets), first.packets));
    let lost = lost.filter(|(_, offered)| *offered > 0);
    #[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
    let lost = lost.map(|(lost, offered)| lost as f64 / offered as f64);
    let ratio = median.zip(calibration_pps.filter(|&rate| rate > 0.0)).map(|(a, b)| a / b);
    let mut cells = vec![
        dut(report, series).into(),
        name.as_str().into(),
        rate(median),
        rate(offered_pps.map(|spread| spread.median)),
        or_dash(lost.map(share)).into(),
        rate(*calibration_pps),
        or_dash(ratio.map(share)).into(),
    ];
    if has_latency {
        let delays = latency.map(|latency| latency.delays);
        let shown = |of: fn(&Delays) -> u64| -> Cell {
            or_dash(delays.map(|delays| delay_ns(of(&delays)))).into()
        };
        cells.extend([shown(|all| all.p50_ns), shown(|all| all.p99_ns), shown(|all| all.p999_ns)]);
    }
    Row { cells, style: "figures", ..Row::default() }
}

/// The ledger of each direction, folded away.
pub(super) fn ledgers(report: &Report<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for group in report.summary.groups() {
        for (index, direction) in group[0].directions.iter().enumerate() {
            let of = group.iter().map(|series| {
                (*series, series.directions.get(index).and_then(|each| each.ledger.as_ref()))
            });
            let title = format!("{} · {}", group_label(group[0]), direction.name);
            let block = ledger(report, &of.collect::<Vec<_>>());
            blocks.extend(block.map(|b| Block::Titled(Fold::Closed, title.into(), vec![b])));
        }
    }
    blocks
}

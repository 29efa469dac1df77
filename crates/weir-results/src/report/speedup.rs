//! What more CPUs of the DUT bring: each rate against that with the fewest of them, and against the
//! straight line. In a campaign one of whose sweeps is the number of CPUs, and nowhere else.

use std::collections::BTreeSet;

use super::Report;
use super::tables::dut;
use crate::document::{Cell, Column, Group, Row, Table};
use crate::number::{self, or_dash};
use crate::summary::SeriesSummary;

/// Heading of the section.
pub(super) const TITLE: &str = "Speed-up by CPUs";

/// What stands under its table.
pub(super) const NOTE: &str = "Medians over the valid iterations. The straight line goes from \
    nothing through the rate with the fewest CPUs: twice as many CPUs, twice the rate. \
    `weir lab plot --ideal` draws it.";

/// A row for each series that has a rate; `None` if no sweep is the number of CPUs.
pub(super) fn table(report: &Report<'_>) -> Option<Table> {
    let all = &report.summary.series;
    let axis = (0..all.first()?.sweep.len()).find(|&index| is_number_of_cpus(report, index))?;
    let mut titles: Vec<String> = Vec::new();
    for series in all {
        let title = title(series, axis);
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let cpus = |series: &SeriesSummary| report.data.dut_cpus.get(&series.name).copied();
    let group = |name: &String| {
        let mut members: Vec<_> = all.iter().filter(|s| title(s, axis) == *name).collect();
        members.sort_by_key(|series| (&series.image, &series.dut, cpus(series)));
        let rows = members.into_iter().filter_map(|series| row(report, series, axis)).collect();
        Group { title: name.as_str().into(), rows }
    };
    let columns = vec![
        Column::words("DUT"),
        Column::numbers("CPUs"),
        Column::numbers("Delivered").strong(),
        Column::numbers("Speed-up").unit("times"),
        Column::numbers("Of the straight line"),
    ];
    Some(Table::grouped("Traffic", columns, titles.iter().map(group).collect()).style("series"))
}

/// Whether a sweep alone decides how many CPUs a DUT has: one number for each value, and not the
/// same for all.
fn is_number_of_cpus(report: &Report<'_>, index: usize) -> bool {
    let point = |series: &SeriesSummary| {
        let (_, value) = series.sweep.get(index)?;
        Some((value.label.clone(), *report.data.dut_cpus.get(&series.name)?))
    };
    let points: Option<BTreeSet<(String, usize)>> =
        report.summary.series.iter().map(point).collect();
    points.is_some_and(|points| {
        let labels: BTreeSet<&str> = points.iter().map(|(label, _)| label.as_str()).collect();
        let counts: BTreeSet<usize> = points.iter().map(|(_, count)| *count).collect();
        labels.len() == points.len() && counts.len() > 1
    })
}

/// What series have in common that differ in DUT and CPUs alone.
fn title(series: &SeriesSummary, axis: usize) -> String {
    let others = series.sweep.iter().enumerate().filter(|(index, _)| *index != axis);
    let others = others.map(|(_, (name, value))| format!("{name}={}", value.label));
    let parts: Vec<String> = [series.traffic_base.clone()].into_iter().chain(others).collect();
    parts.join(" · ")
}

fn row(report: &Report<'_>, series: &SeriesSummary, axis: usize) -> Option<Row> {
    let cpus = |series: &SeriesSummary| report.data.dut_cpus.get(&series.name).copied();
    let rate = |series: &SeriesSummary| Some(series.rate_pps?.median);
    let (count, rate_pps) = (cpus(series)?, rate(series)?);
    let is_same = |other: &&SeriesSummary| {
        (&other.dut, &other.image, title(other, axis))
            == (&series.dut, &series.image, title(series, axis))
    };
    let fewest = report.summary.series.iter().filter(is_same).min_by_key(|s| cpus(s))?;
    let base = rate(fewest).zip(cpus(fewest)).filter(|(base_pps, _)| *base_pps > 0.0);
    let times = base.map(|(base_pps, _)| rate_pps / base_pps);
    #[expect(clippy::cast_precision_loss, reason = "machines have far fewer CPUs than 2^53")]
    let of_line = base.zip(times).map(|((_, least), times)| times * least as f64 / count as f64);
    let cells = vec![
        dut(report, series).into(),
        count.to_string().into(),
        Cell::from(series.unit.written(rate_pps)).sorted(Some(rate_pps)),
        Cell::from(or_dash(times.map(|times| format!("{times:.2}")))).sorted(times),
        Cell::from(or_dash(of_line.map(number::percent))).sorted(of_line),
    ];
    Some(Row { cells, style: "figures", ..Row::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::fixture;

    #[test]
    fn rates_stand_beside_the_straight_line_where_a_sweep_is_the_cpus() {
        let mut data = fixture::swept();
        assert!(table(&Report::new(&data)).is_none(), "nobody said how many CPUs there are");
        // The sweep's values, 128, 4Ki and 64Ki, stand for one, two and four.
        for (record, _) in &mut data.cells {
            let count = match record.sweep[0].1.label.as_str() {
                "128" => 1,
                "4Ki" => 2,
                _ => 4,
            };
            data.dut_cpus.insert(record.series.clone(), count);
            let rates = [0.0, 400e3, 600e3, 0.0, 1.2e6];
            record.result.rate_pps = rates[count];
        }
        let document = Report::new(&data).document();
        let text = document.markdown();
        let rows = "\
            | udp | linux | 1 | **0.4000 Mpps** | 1.00 | 100 % |\n\
            | udp | linux | 2 | **0.6000 Mpps** | 1.50 | 75 % |\n\
            | udp | linux | 4 | **1.200 Mpps** | 3.00 | 75 % |\n\
            | udp | nft | 1 | **0.4000 Mpps** | 1.00 | 100 % |\n";
        assert!(text.contains(rows), "{text}");
        assert!(document.html().contains(TITLE));
        // With the same number for all, it is another axis.
        data.dut_cpus.values_mut().for_each(|count| *count = 1);
        assert!(table(&Report::new(&data)).is_none());
    }
}

//! The CPU time per packet of matched series, beside their rates.

use weir_stats::comparison::{Comparison, Question};
use weir_stats::welch::WelchError;

use super::{
    Asked, HostChange, Matched, Report, difference_cell, host, is_tested, matching, toggles,
    verdict_cell,
};
use crate::document::{Block, Cell, Column, Line, Row, Table, Voice};
use crate::number;
use crate::proof::{self, Claim};
use crate::summary::cost::{self, CostFigure};

/// What packets cost in a series of the baseline and in its partner.
#[derive(Debug)]
pub struct CostMatched {
    pub baseline: CostFigure,
    pub other: CostFigure,
    /// The comparison, or why there is none.
    pub result: Result<Comparison, WelchError>,
    /// What it proves; absent where there is no comparison.
    pub claim: Option<Claim>,
    /// Whether a rise beyond what is allowed is proven.
    pub regressed: bool,
    /// Why it does not say what the rates say; absent where it does.
    pub contradiction: Option<String>,
}

/// The costs of all pairs, as one family, with the criterion for failure.
pub(super) fn of(
    pairs: &[matching::Pair<'_>],
    question: &Question,
    (asked, hosts): (&Asked, &[HostChange]),
    rates: &[Option<Claim>],
) -> Vec<Option<CostMatched>> {
    let costs: Vec<_> = pairs.iter().map(|p| (p.baseline.costs(), p.other.costs())).collect();
    let results = cost::family(&costs, question);
    let mut matched = Vec::new();
    for (((pair, result), rate), (a, b)) in pairs.iter().zip(results).zip(rates).zip(&costs) {
        let figures = CostFigure::of(a).zip(CostFigure::of(b));
        matched.push(result.zip(figures).map(|(result, (baseline, other))| {
            let claim = |comparison: &Comparison| match host::differs(hosts, pair.other_index) {
                true => Claim::HostDiffers,
                false => proof::of_costs(comparison, asked.cost_ratio),
            };
            let claim = result.as_ref().ok().map(claim);
            let words = rate.as_ref().zip(claim.as_ref()).filter(|(rate, _)| rate.is_tested());
            let contradiction = words.and_then(|(rate, cost)| {
                cost::contradiction((rate.name(), cost.name()), (&baseline, &other))
            });
            let beyond = claim.as_ref().zip(asked.cost_ratio);
            let regressed = beyond.is_some_and(|(claim, ratio)| claim.is_regression_beyond(ratio));
            CostMatched { baseline, other, result, claim, regressed, contradiction }
        }));
    }
    matched
}

/// The answer to the rise that makes a failure.
pub(super) fn verdict(report: &Report<'_>, ratio: f64) -> String {
    let costs = || report.matched.iter().filter_map(|m| m.cost.as_ref());
    let untested = report.matched.len() - costs().filter(|c| is_tested(c.claim.as_ref())).count()
        + toggles::untested(report);
    let regressed = costs().filter(|c| c.regressed).count()
        + report.toggled.iter().filter(|toggled| toggled.regressed).count();
    let rise = number::percent(ratio);
    let answer = match regressed {
        0 => format!("no rise of the CPU time per packet beyond {rise} is proven"),
        1 => format!("1 rise of the CPU time per packet beyond {rise} is proven"),
        n => format!("{n} rises of the CPU time per packet beyond {rise} are proven"),
    };
    match untested {
        0 => answer,
        n => format!("{answer}, and {n} could not be tested"),
    }
}

/// What stands under the table.
const NOTE: &str = "CPU time of the DUT by the packets that it received: medians, with the part \
    that is the sink's work on the DUT's CPUs, which both sides have. Differences are tested as \
    those of the rates are, as a family of their own.";

/// The section of the report: the table, and what rates and costs say apart.
pub(super) fn blocks(report: &Report<'_>) -> Vec<Block> {
    let rows: Vec<(&Matched<'_>, &CostMatched)> =
        report.matched.iter().filter_map(|m| Some((m, m.cost.as_ref()?))).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let apart = rows.iter().filter_map(|(m, cost)| {
        let why = cost.contradiction.as_ref()?;
        Some(Line::new().strong(&m.baseline.name).text(format!(": {why}.")))
    });
    let apart: Vec<Line> = apart.collect();
    let mut blocks = vec![table(report, &rows).into(), Block::note(NOTE)];
    if !apart.is_empty() {
        blocks.push(Block::List(Voice::Plain, apart));
    }
    blocks
}

fn table(report: &Report<'_>, rows: &[(&Matched<'_>, &CostMatched)]) -> Table {
    let several = report.collections.len() > 2;
    let against = several.then(|| Column::words("Against"));
    let columns = [Column::words("Series")].into_iter().chain(against).chain([
        Column::numbers("Baseline"),
        Column::numbers("Other"),
        Column::numbers("Difference").unit("of means"),
        Column::words("Verdict"),
    ]);
    let side = |figure: &CostFigure| {
        let count = format!("n = {}", figure.count);
        let under = [figure.apparatus(), count].into_iter().filter(|part| !part.is_empty());
        Cell::from(number::cost(figure.median_ns))
            .under(under.collect::<Vec<_>>().join(", "))
            .sorted(figure.median_ns)
    };
    let row = |(m, cost): &(&Matched<'_>, &CostMatched)| -> Row {
        let against = several.then(|| Cell::from(&report.collections[m.other_index].name));
        let cells = [Cell::from(&m.baseline.name)].into_iter().chain(against).chain([
            side(&cost.baseline),
            side(&cost.other),
            difference_cell(&cost.result),
            verdict_cell(&cost.result, cost.claim.as_ref(), cost.regressed),
        ]);
        cells.collect()
    };
    Table::new(columns.collect(), rows.iter().map(row)).style("compared").sortable()
}

//! What the two settings of DUTs with a toggle come to: sentences and their table.

use super::{dut_label, group_label};
use crate::document::{Block, Cell, Column, Line, Row, Table, prose};
use crate::number;
use crate::summary::turns::{Change, ToggleSummary};
use crate::summary::{CampaignSummary, SeriesSummary};

/// The answer of a series; `under` says with which traffic.
pub(super) fn sentence(under: &str, series: &SeriesSummary, toggle: &ToggleSummary) -> Line {
    let line = Line::new().strong(dut_label(series)).text(": ");
    let (Some(cost), Some(on_ns), Some(off_ns)) = (&toggle.cost, toggle.on_ns, toggle.off_ns)
    else {
        let reason = series.reason();
        return line
            .strong("too few pairs of windows")
            .prose(&format!(" to compare `on` with `off` {under}: "))
            .prose(&reason)
            .text(".");
    };
    let change =
        |change: Option<&Change>| change.map_or_else(|| "too few pairs".to_owned(), Change::text);
    let beside = format!(
        "; A/A control {}; rate {}",
        change(toggle.control.as_ref()),
        change(toggle.rate.as_ref())
    );
    let (on, off) = (number::cost(on_ns), number::cost(off_ns));
    let pairs = format!("{} pairs", cost.pairs);
    let line = match toggle.word.as_str() {
        "cheaper" | "dearer" => line
            .prose(&format!("a packet costs {on} of CPU time with `on`, "))
            .strong(cost.text())
            .prose(&format!(" against {off} with `off`, {under}, in {pairs}{beside}")),
        "control-failed" => line.strong("the control fails").prose(&format!(
            " {under}: it finds a difference where nothing differs, as large as that of `on` \
                 ({}, in {pairs}){beside}",
            cost.text()
        )),
        _ => line.strong("no difference is proven").prose(&format!(
            " between `on` ({on} of CPU time per packet) and `off` ({off}) {under}: {} in \
                 {pairs}{beside}",
            cost.text()
        )),
    };
    line.text(".")
}

/// What stands under the table.
const NOTE: &str = "CPU time of the DUT per packet that it received, in windows of one live DUT: \
    `on` and `off` in pairs, in random order, and a control of two windows with `off` after the \
    same commands. Costs are geometric means over the pairs; differences are of the pairs' ratios \
    (geometric mean, Student's interval at 95 % for all series together). The sink's work on the \
    DUT's CPUs is in both. Disturbed trials count: the control shows what a disturbance does.";

/// The section of the report; nothing without a toggle.
pub(super) fn blocks(summary: &CampaignSummary) -> Vec<Block> {
    let toggled = || summary.series.iter().filter_map(|s| Some((s, s.toggle.as_ref()?)));
    let columns = vec![
        Column::words("Series"),
        Column::numbers("on").unit("per packet"),
        Column::numbers("off").unit("per packet"),
        Column::numbers("Difference").strong(),
        Column::numbers("A/A control"),
        Column::numbers("Rate").unit("on against off"),
        Column::numbers("Pairs").unit("control"),
        Column::words("Answer"),
    ];
    let row = |(series, toggle): (&SeriesSummary, &ToggleSummary)| -> Row {
        let cost = |ns: Option<f64>| Cell::from(number::or_dash(ns.map(number::cost))).sorted(ns);
        let change = |change: Option<&Change>| {
            Cell::from(number::or_dash(change.map(Change::text)))
                .sorted(change.map(|c| c.difference_percent))
        };
        let pairs = |change: Option<&Change>| change.map_or(0, |change| change.pairs);
        let sink = toggle.apparatus_ratio.map(|r| format!("{} sink", number::share(r)));
        let (both, control) = (pairs(toggle.cost.as_ref()), pairs(toggle.control.as_ref()));
        let name = format!("{} · {}", dut_label(series), group_label(series));
        let cells = vec![
            Cell::from(name),
            cost(toggle.on_ns),
            cost(toggle.off_ns).under(sink.unwrap_or_default()),
            change(toggle.cost.as_ref()),
            change(toggle.control.as_ref()),
            change(toggle.rate.as_ref()),
            format!("{both} / {control}").into(),
            toggle.word.as_str().into(),
        ];
        let settings = Line::new().text("on: ").code(&toggle.toggle.on);
        let settings = settings.text(", off: ").code(&toggle.toggle.off);
        Row { cells, because: vec![settings], ..Row::default() }
    };
    let table = Table::new(columns, toggled().map(row)).style("toggles");
    if table.is_empty() {
        return Vec::new();
    }
    vec![table.into(), Block::note(prose(NOTE))]
}

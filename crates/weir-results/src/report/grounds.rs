//! What the report of a campaign and that of a search rest on alike: the environment with the
//! yardsticks of the host, and the thresholds of the verdicts.

use serde_json::Value;
use weir_stats::Threshold;

use super::environment;
use crate::document::{Block, Cell, Column, Fold, Line, Outputs, Row, Table, prose};
use crate::machine_use::CpuUse;
use crate::number;
use crate::yardstick::{Pace, Yardstick};

/// Title of the section of the thresholds.
pub(crate) const THRESHOLDS: &str = "Thresholds of the verdicts";

/// The section of what it was measured on.
pub(crate) fn environment(environment: &Value, readings: &[Yardstick]) -> Vec<Block> {
    let entries = environment::short(environment).into_iter();
    let entries = entries.map(|(name, value)| (name.into(), value.into())).collect();
    let all = serde_json::to_string_pretty(environment).unwrap_or_default();
    let title = prose("All of it, as recorded in `env.json`");
    let all = Block::Titled(Fold::Closed, title, vec![Block::Preformatted(all)]);
    let readings = Some(yardsticks(readings)).filter(|table| !table.is_empty());
    let readings = readings.map(Block::from).into_iter().collect();
    vec![
        Block::Facts("list", entries),
        Block::Only(Outputs::ALL, readings),
        Block::Only(Outputs::PAGE, vec![all]),
        Block::Only(Outputs::TEXTS, vec![Block::plain(prose("Everything else: `env.json`."))]),
    ]
}

/// How fast the host was, and what else it did.
fn yardsticks(readings: &[Yardstick]) -> Table {
    let columns = vec![
        Column::words("Yardstick"),
        Column::numbers("CPU"),
        Column::numbers("XDP").unit("a pass"),
        Column::numbers("Spread").unit("quartiles"),
        Column::numbers("Memory").unit("a step"),
        Column::numbers("Spread").unit("quartiles"),
        Column::numbers("Stolen").unit("of a CPU"),
        Column::numbers("Foreign").unit("of a CPU"),
    ];
    let row = |reading: &Yardstick| -> Row {
        let pace = |pace: Pace| {
            let spread = format!("±{}", number::share(pace.spread_ratio));
            [Cell::from(number::cost(pace.median_ns)), spread.into()]
        };
        let most = |of: fn(&CpuUse) -> Option<f64>| -> Cell {
            let cpus = reading.machine.cpus.values();
            let most = cpus.filter_map(of).max_by(f64::total_cmp);
            number::or_dash(most.map(number::share)).into()
        };
        let cells = [number::utc(&reading.time_utc).into(), reading.cpu.to_string().into()];
        let cells = cells.into_iter().chain(pace(reading.xdp)).chain(pace(reading.memory));
        let others = [most(|used| Some(used.stolen_ratio)), most(|used| used.foreign_ratio)];
        cells.chain(others).collect()
    };
    Table::new(columns, readings.iter().map(row))
}

/// The numbers that verdicts were reached with.
pub(crate) fn thresholds(all: &[Threshold]) -> Table {
    let columns =
        vec![Column::words("Threshold"), Column::words("Meaning"), Column::numbers("Value")];
    let rows = all.iter().map(|threshold| {
        let name = Line::new().code(threshold.name.as_ref());
        let value = threshold_value(threshold.value, &threshold.unit);
        Row::from(vec![name.into(), threshold.meaning.as_ref().into(), value.into()])
    });
    Table::new(columns, rows).style("thresholds")
}

/// A share in per cent of what it is a share of; any other value as it is.
fn threshold_value(value: f64, unit: &str) -> String {
    if unit.starts_with("of ") {
        format!("{} {unit}", number::percent(value))
    } else {
        format!("{value} {unit}").trim_end().to_owned()
    }
}

//! An imported store as a collection of series.

use weir_results::collection::{CollectedPoint, CollectedSeries, Collection, Opened, Origin};

use weir_results::label::natural_order;

use super::{Archive, ImportedTrial};

/// The series of an imported store, 1K before 10K.
#[must_use]
pub(crate) fn of_archive(archive: &Archive) -> Opened {
    let record = archive.record();
    let mut damaged = Vec::new();
    let mut series = Vec::with_capacity(record.series.len());
    for imported in &record.series {
        let mut points = Vec::with_capacity(imported.iterations.len());
        for &iteration in &imported.iterations {
            match archive.read_trial(&imported.name, iteration) {
                Ok(trial) => points.push(point(&trial)),
                Err(error) => damaged.push(error.to_string()),
            }
        }
        series.push(CollectedSeries {
            name: imported.name.clone(),
            levels: imported.levels.clone(),
            unit: imported.unit,
            points,
            toggle: None,
        });
    }
    series.sort_by(|a, b| natural_order(&a.name, &b.name));
    let collection = Collection {
        name: record.name.clone(),
        origin: Origin::Archive,
        environment: environment(archive),
        yardsticks: Vec::new(),
        series,
    };
    Opened { collection, damaged }
}

/// A run without a figure is there with 0 and the verdict that says why.
fn point(trial: &ImportedTrial) -> CollectedPoint {
    CollectedPoint {
        iteration: trial.iteration,
        value: trial.figure.map_or(0.0, |figure| figure.median),
        has_figure: trial.figure.is_some(),
        offered: trial.offered,
        cost: None,
        sizes: std::collections::BTreeMap::new(),
        foreign: std::collections::BTreeMap::new(),
        verdict: trial.verdict.clone(),
        cell: Archive::cell(&trial.series, trial.iteration),
    }
}

/// What the archive says of its machines: the DUT's `uname -a`, one or all that occur.
fn environment(archive: &Archive) -> serde_json::Value {
    let record = archive.record();
    let mut unames: Vec<&str> = record.series.iter().filter_map(|s| s.uname.as_deref()).collect();
    unames.sort_unstable();
    unames.dedup();
    let uname = match unames.as_slice() {
        [] => serde_json::Value::Null,
        [one] => (*one).into(),
        all => all.into(),
    };
    serde_json::json!({
        "archive": { "format": record.format, "source": record.source, "weir": record.weir },
        "dut": { "uname": uname },
    })
}

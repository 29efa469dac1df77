//! What a store keeps of searches: `items/<item>/<test>/<number>/…`, and a result for each item
//! that is done.
//!
//! A trial is written when it is finished, and never touched again. `search.json` says what is
//! searched; it marks the store.

use std::path::PathBuf;
use std::time::Duration;

use super::item::Item;
use crate::identity;
use crate::store::{Store, StoreError};
use weir_results::search::Terms;
use weir_results::search::Test;
use weir_results::search::record::ItemResult;
use weir_wire::units::whole_ns;

/// Directory of a trial.
pub(super) fn trial_dir(store: &Store, item: &str, test: Test, number: u32) -> PathBuf {
    item_dir(store, item).join(test.name()).join(format!("{number:04}"))
}

fn item_dir(store: &Store, item: &str) -> PathBuf {
    store.root().join("items").join(item)
}

/// The finished result of an item; `None` while it has none.
///
/// # Errors
/// When it is damaged, or was taken under other conditions.
pub(super) fn result(store: &Store, item: &Item) -> Result<Option<ItemResult>, StoreError> {
    let dir = item_dir(store, &item.name);
    let path = dir.join("result.json");
    if !path.is_file() {
        return Ok(None);
    }
    let result: ItemResult = store.read_json(&path)?;
    if result.item_id == item.id {
        Ok(Some(result))
    } else {
        Err(StoreError::Conflict { path: dir })
    }
}

/// Trials of an item that were disturbed and put aside, to be repeated.
pub(super) fn repeated_trials(store: &Store, item: &Item) -> u32 {
    let folder = store.root().join("rejected").join(&item.name);
    let is_free = |attempt: &u32| !folder.join((attempt + 1).to_string()).is_dir();
    (0..u32::MAX).find(is_free).unwrap_or(u32::MAX)
}

/// Writes the result of an item.
///
/// # Errors
/// When it cannot be written.
pub(super) fn keep_result(store: &Store, result: &ItemResult) -> Result<(), StoreError> {
    store.write_json(&format!("items/{}/result.json", result.name), result)
}

/// Checks that an item without a result can go on from the trials that it has. The first of a
/// test speaks for the rest: nothing goes on in a store that it does not fit. Bursts, whose
/// length no record holds, come after a test that is checked.
///
/// # Errors
/// When a trial or a calibration was taken under other conditions, or is damaged.
pub(super) fn check_unfinished(
    store: &Store,
    item: &Item,
    terms: &Terms,
) -> Result<(), StoreError> {
    let traffic = &item.series.traffic;
    store.holds(&store.calibration_dir(&traffic.name), &traffic.id)?;
    let latency = Duration::from_secs_f64(terms.latency_trial_s);
    for (test, latency) in
        [(Test::Throughput, None), (Test::LossCurve, None), (Test::Latency, Some(latency))]
    {
        let dir = trial_dir(store, &item.name, test, 1);
        if !dir.join("trial.json").is_file() {
            continue;
        }
        let (record, _) = store.read_trial(&dir)?;
        let id = identity::trial_id(
            &item.id,
            test.name(),
            1,
            &record.traffic.rate.to_string(),
            record.times.duration_ns,
            latency.map(whole_ns),
            None,
        );
        if record.cell_id != id {
            return Err(StoreError::Conflict { path: dir });
        }
    }
    Ok(())
}

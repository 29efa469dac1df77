//! Which series of two collections belong together.

use std::collections::HashMap;

use crate::collection::{CollectedSeries, Collection, Level};

/// A series and its partner.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub(super) other_index: usize,
    pub(super) baseline: &'a CollectedSeries,
    pub(super) other: &'a CollectedSeries,
}

/// A dimension in which two collections differ as wholes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub dimension: String,
    /// The baseline's only level.
    pub baseline: String,
    /// Number of the other collection.
    pub other_index: usize,
    /// Its only level.
    pub other: String,
}

/// A series without a partner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    /// Number of the collection that has it.
    pub owner_index: usize,
    /// Number of the collection that has no partner for it.
    pub lacking_index: usize,
    /// Its name.
    pub series: String,
    /// Why there is no partner.
    pub reason: String,
}

impl Unmatched {
    /// In one line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}: {}", self.series, self.reason)
    }
}

/// What was found.
pub(super) struct Found<'a> {
    pub(super) pairs: Vec<Pair<'a>>,
    pub(super) unmatched: Vec<Unmatched>,
    pub(super) changed: Vec<Changed>,
}

/// Matches the series of `baseline` with those of `other`, which is number `index`.
pub(super) fn of<'a>(baseline: &'a Collection, other: &'a Collection, index: usize) -> Found<'a> {
    let mut changed = Vec::new();
    let mut keys = Vec::new();
    let theirs = other.dimensions();
    for dimension in baseline.dimensions() {
        if !theirs.contains(&dimension) {
            continue;
        }
        match (only(baseline, dimension), only(other, dimension)) {
            (Some(a), Some(b)) => {
                if value(a) != value(b) {
                    changed.push(Changed {
                        dimension: dimension.to_owned(),
                        baseline: a.label.clone(),
                        other_index: index,
                        other: b.label.clone(),
                    });
                }
            }
            _ => keys.push(dimension),
        }
    }
    let (ours, theirs) = (by_key(baseline, &keys), by_key(other, &keys));
    let mut found = Found { pairs: Vec::new(), unmatched: Vec::new(), changed };
    for series in &baseline.series {
        let place = key(series, &keys);
        let partners = theirs.get(&place).map_or(&[][..], Vec::as_slice);
        let peers = ours.get(&place).map_or(1, Vec::len);
        match (partners, peers) {
            ([partner], 1) if partner.unit == series.unit => {
                found.pairs.push(Pair { other_index: index, baseline: series, other: partner });
            }
            _ => {
                let reason = reason(series, partners, peers, other);
                found.unmatched.push(unmatched(0, index, series, reason));
            }
        }
    }
    for series in &other.series {
        let place = key(series, &keys);
        let partners = ours.get(&place).map_or(&[][..], Vec::as_slice);
        let peers = theirs.get(&place).map_or(1, Vec::len);
        let is_matched = partners.len() == 1 && peers == 1 && partners[0].unit == series.unit;
        if !is_matched {
            let reason = reason(series, partners, peers, baseline);
            found.unmatched.push(unmatched(index, 0, series, reason));
        }
    }
    found
}

fn unmatched(owner: usize, lacking: usize, series: &CollectedSeries, reason: String) -> Unmatched {
    let series = series.name.clone();
    Unmatched { owner_index: owner, lacking_index: lacking, series, reason }
}

fn reason(
    series: &CollectedSeries,
    partners: &[&CollectedSeries],
    peers: usize,
    lacking: &Collection,
) -> String {
    match partners {
        [] => format!("not in {}", lacking.name),
        [one] if one.unit != series.unit => format!(
            "counts {}, but {} of {} counts {}",
            series.unit.name(),
            one.name,
            lacking.name,
            one.unit.name()
        ),
        [_] => format!("{peers} series of its own collection have the same levels"),
        more => {
            let names: Vec<&str> = more.iter().map(|s| s.name.as_str()).collect();
            format!("{} has several with the same levels: {}", lacking.name, names.join(", "))
        }
    }
}

/// A level as it is compared: the number where it has one, so that `65536` and `64Ki` agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    Number(u64),
    Label(String),
}

fn value(level: &Level) -> Value {
    match level.number {
        // 0 and −0 are one place.
        Some(number) => Value::Number((number + 0.0).to_bits()),
        None => Value::Label(level.label.clone()),
    }
}

fn key(series: &CollectedSeries, dimensions: &[&str]) -> Vec<Option<Value>> {
    dimensions.iter().map(|d| series.level(d).map(value)).collect()
}

type ByKey<'a> = HashMap<Vec<Option<Value>>, Vec<&'a CollectedSeries>>;

fn by_key<'a>(collection: &'a Collection, dimensions: &[&str]) -> ByKey<'a> {
    let mut map = ByKey::new();
    for series in &collection.series {
        map.entry(key(series, dimensions)).or_default().push(series);
    }
    map
}

/// The level that every series has in a dimension, if it is one.
fn only<'a>(collection: &'a Collection, dimension: &str) -> Option<&'a Level> {
    let first = collection.series.first()?.level(dimension)?;
    let is_same =
        |s: &CollectedSeries| s.level(dimension).is_some_and(|l| value(l) == value(first));
    collection.series.iter().all(is_same).then_some(first)
}

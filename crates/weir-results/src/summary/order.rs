//! The order in which a report names things: that of the specification.
//!
//! A store lists its cells by folder, and an incomplete campaign lacks some of them; the reader
//! still expects the DUT that was written first to come first. Names that the specification does
//! not have come last, in the order in which the cells have them.

use crate::record::TrialRecord;
use crate::summary::Trial;

/// Names in the order of the specification.
#[derive(Debug, Default)]
pub(super) struct SpecOrder {
    images: Vec<String>,
    duts: Vec<String>,
    traffics: Vec<String>,
    sweeps: Vec<(String, Vec<String>)>,
}

impl SpecOrder {
    /// Reads the order from the specification, as far as it can be read, then from the cells.
    pub(super) fn of(spec_text: &str, cells: &[Trial]) -> Self {
        let table: toml::Table = spec_text.parse().unwrap_or_default();
        let mut order = Self {
            images: names(&table, "image"),
            duts: names(&table, "dut"),
            traffics: names(&table, "traffic"),
            sweeps: sweeps(&table),
        };
        for (record, _) in cells {
            order.add(record);
        }
        for (name, labels) in &mut order.sweeps {
            sort_numbers(name, labels, cells);
        }
        order
    }

    fn add(&mut self, record: &TrialRecord) {
        if let Some(image) = &record.image {
            push_new(&mut self.images, image);
        }
        if let Some(dut) = &record.dut {
            push_new(&mut self.duts, &dut.name);
        }
        push_new(&mut self.traffics, traffic_base(record));
        for (name, value) in &record.sweep {
            match self.sweeps.iter_mut().find(|(n, _)| n == name) {
                Some((_, values)) => push_new(values, &value.label),
                None => self.sweeps.push((name.clone(), vec![value.label.clone()])),
            }
        }
    }

    /// The first DUT that any cell has.
    pub(super) fn first_dut(&self, cells: &[Trial]) -> Option<&str> {
        let is_there = |name: &&String| {
            cells.iter().any(|(r, _)| r.dut.as_ref().is_some_and(|d| d.name == **name))
        };
        self.duts.iter().find(is_there).map(String::as_str)
    }

    /// The cells by series, each series in the order of its iterations.
    pub(super) fn series<'a>(&self, cells: &'a [Trial]) -> Vec<Vec<&'a Trial>> {
        let mut groups: Vec<Vec<&Trial>> = Vec::new();
        for cell in cells {
            match groups.iter_mut().find(|g| g[0].0.series == cell.0.series) {
                Some(group) => group.push(cell),
                None => groups.push(vec![cell]),
            }
        }
        for group in &mut groups {
            group.sort_by_key(|(record, _)| record.iteration);
        }
        groups.sort_by_cached_key(|group| self.rank(&group[0].0));
        groups
    }

    /// Image, traffic, sweep values, DUT: what is compared stands together.
    fn rank(&self, record: &TrialRecord) -> (Vec<usize>, String) {
        let mut ranks = vec![
            record.image.as_ref().map_or(0, |i| position(&self.images, i)),
            position(&self.traffics, traffic_base(record)),
        ];
        for (name, value) in &record.sweep {
            let values = self.sweeps.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_slice());
            ranks.push(position(values.unwrap_or_default(), &value.label));
        }
        ranks.push(record.dut.as_ref().map_or(0, |d| position(&self.duts, &d.name)));
        (ranks, record.series.clone())
    }
}

/// Name of the traffic without the `.<sweep>=<value>` that a sweep adds to it.
pub(super) fn traffic_base(record: &TrialRecord) -> &str {
    let mut name = record.traffic.name.as_str();
    for (sweep, value) in record.sweep.iter().rev() {
        let suffix = format!(".{sweep}={}", value.label);
        name = name.strip_suffix(suffix.as_str()).unwrap_or(name);
    }
    name
}

/// Brings the values of a sweep in the order of their numbers, if the cells have one for each.
fn sort_numbers(sweep: &str, labels: &mut [String], cells: &[Trial]) {
    let values = || {
        let of_sweep = cells.iter().flat_map(|(r, _)| &r.sweep).filter(|(name, _)| name == sweep);
        of_sweep.map(|(_, value)| value)
    };
    let number = |label: &str| values().find(|v| v.label == label).and_then(|v| v.number);
    if values().all(|v| v.number.is_some()) {
        labels.sort_by(|a, b| {
            let (a, b) = (number(a).unwrap_or(f64::MAX), number(b).unwrap_or(f64::MAX));
            a.total_cmp(&b)
        });
    }
}

fn names(table: &toml::Table, key: &str) -> Vec<String> {
    let entries = table.get(key).and_then(toml::Value::as_array).map(Vec::as_slice);
    let name = |entry: &toml::Value| entry.get("name")?.as_str().map(str::to_owned);
    entries.unwrap_or_default().iter().filter_map(name).collect()
}

fn sweeps(table: &toml::Table) -> Vec<(String, Vec<String>)> {
    let entries = table.get("sweep").and_then(toml::Value::as_array).map(Vec::as_slice);
    let sweep = |entry: &toml::Value| {
        let values = entry.get("values")?.as_array()?.iter().map(label).collect();
        Some((entry.get("name")?.as_str()?.to_owned(), values))
    };
    entries.unwrap_or_default().iter().filter_map(sweep).collect()
}

fn label(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn position(names: &[String], name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or(names.len())
}

fn push_new(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|n| n == name) {
        names.push(name.to_owned());
    }
}

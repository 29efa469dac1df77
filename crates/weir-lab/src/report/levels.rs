//! What DUTs tell of their sizes: states, buckets, bytes of their tables.

use std::collections::BTreeSet;

use super::{dut_label, group_label};
use crate::summary::CampaignSummary;

/// Heading of the section.
pub(super) const TITLE: &str = "Sizes";

/// What stands under its table.
pub(super) const NOTE: &str = "What the DUT said itself after each measurement: the median of the \
    valid iterations.";

/// The table: a row for each series of which a DUT told something.
pub(super) struct Levels {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Levels {
    /// `None` if no DUT told anything.
    pub(super) fn of(summary: &CampaignSummary) -> Option<Self> {
        let names: BTreeSet<&str> =
            summary.series.iter().flat_map(|s| s.levels.keys().map(String::as_str)).collect();
        if names.is_empty() {
            return None;
        }
        let words = ["Traffic", "DUT"].map(str::to_owned);
        let header = words.into_iter().chain(names.iter().map(|name| title(name))).collect();
        let told = summary.series.iter().filter(|series| !series.levels.is_empty());
        let rows = told.map(|series| {
            let value =
                |name: &&str| series.levels.get(*name).map_or("–".to_owned(), |v| grouped(*v));
            let labels = [group_label(series), dut_label(series)];
            labels.into_iter().chain(names.iter().map(value)).collect()
        });
        Some(Self { header, rows: rows.collect() })
    }
}

/// `index_size_bytes` as `Index size, bytes`.
fn title(name: &str) -> String {
    let (words, unit) = match name.strip_suffix("_bytes") {
        Some(words) => (words, ", bytes"),
        None => (name, ""),
    };
    let mut text = words.replace('_', " ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + unit
}

/// `1234567` as `1,234,567`.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::summary::fixture;

    #[test]
    fn sizes_stand_in_both_reports_where_a_dut_told_any() {
        let mut data = fixture::swept();
        assert!(Levels::of(&Report::new(&data).summary).is_none());
        for (index, (record, _)) in data.cells.iter_mut().enumerate() {
            record.levels.insert("index_size_bytes".to_owned(), 1_234_567);
            record.levels.insert("states".to_owned(), index as u64);
        }
        let report = Report::new(&data);
        let levels = Levels::of(&report.summary).expect("they are told");
        assert_eq!(levels.header[2..], ["Index size, bytes", "States"]);
        assert_eq!(levels.rows.len(), report.summary.series.len());
        for page in [report.markdown(), report.html()] {
            assert!(page.contains("1,234,567") && page.contains("Index size"), "{page}");
        }
    }
}

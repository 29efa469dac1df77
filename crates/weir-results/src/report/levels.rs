//! What DUTs tell of their sizes: states, buckets, bytes of their tables.

use std::collections::BTreeSet;

use super::{dut_label, group_label};
use crate::document::{Column, Row, Table};
use crate::label::size_title;
use crate::number::{self, or_dash};
use crate::summary::CampaignSummary;

/// Heading of the section.
pub(super) const TITLE: &str = "Sizes";

/// What stands under its table.
pub(super) const NOTE: &str = "What the DUT itself reported after each measurement: the median of \
    the valid iterations.";

/// A row for each series of which a DUT told something; `None` if none did.
pub(super) fn table(summary: &CampaignSummary) -> Option<Table> {
    let names: BTreeSet<&str> =
        summary.series.iter().flat_map(|s| s.levels.keys().map(String::as_str)).collect();
    if names.is_empty() {
        return None;
    }
    let words = ["Traffic", "DUT"].map(Column::words);
    let columns =
        words.into_iter().chain(names.iter().map(|name| Column::numbers(size_title(name))));
    let shown = summary.series.iter().filter(|series| !series.levels.is_empty());
    let rows = shown.map(|series| -> Row {
        let value = |name: &&str| or_dash(series.levels.get(*name).map(|v| number::count(*v)));
        let labels = [group_label(series), dut_label(series)];
        labels.into_iter().chain(names.iter().map(value)).collect()
    });
    Some(Table::new(columns.collect(), rows).style("figures"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::summary::fixture;

    #[test]
    fn sizes_stand_in_both_reports_where_a_dut_told_any() {
        let mut data = fixture::swept();
        assert!(table(&Report::new(&data).summary).is_none());
        for (index, (record, _)) in data.cells.iter_mut().enumerate() {
            record.levels.insert("index_size_bytes".to_owned(), 1_234_567);
            record.levels.insert("states".to_owned(), index as u64);
        }
        let report = Report::new(&data);
        let document = report.document();
        let count = document.markdown().matches("1,234,567").count();
        assert_eq!(count, report.summary.series.len());
        let heads = "| Traffic | DUT | Index size, bytes | States |";
        assert!(document.markdown().contains(heads), "{}", document.markdown());
        assert!(document.html().contains("1,234,567"), "{}", document.html());
    }
}

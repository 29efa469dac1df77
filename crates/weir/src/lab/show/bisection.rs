//! What a bisection comes to, for a terminal or as JSON.

use weir_lab::store::Store;
use weir_results::bisect::Report;

use crate::lab::absolute;
use crate::{exit, progress};

/// Prints the result.
pub(in crate::lab) fn show(store: &Store, report: &Report, json: bool) -> anyhow::Result<()> {
    let html = absolute(&store.root().join("report.html"))?;
    let text = if json {
        let mut value = serde_json::to_value(report)?;
        value["store"] = absolute(store.root())?.display().to_string().into();
        value["report"] = html.display().to_string().into();
        exit::json(&value)?
    } else {
        format!("\n{}\nreport: {}\n", progress::text(&report.document()), html.display())
    };
    exit::put(&text)
}

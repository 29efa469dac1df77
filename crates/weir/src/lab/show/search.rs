//! What a search comes to, for a terminal or as JSON.

use weir_lab::store::Store;
use weir_results::search::show::SearchSummary;

use crate::lab::absolute;
use crate::{exit, progress};

/// Prints the result.
pub(in crate::lab) fn show(
    store: &Store,
    summary: &SearchSummary,
    json: bool,
) -> anyhow::Result<()> {
    let path = absolute(&store.root().join("summary.md"))?;
    let text = if json {
        let mut value = serde_json::to_value(summary)?;
        value["summary"] = path.display().to_string().into();
        serde_json::to_string_pretty(&value)? + "\n"
    } else {
        format!("\n{}\nsummary: {}\n", progress::text(&summary.document()), path.display())
    };
    exit::put(&text)
}

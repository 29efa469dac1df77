//! The rows of the result, and their limits. This is the one list.

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// Time and memory of an import.
pub(crate) const IMPORT_TIME: &str = "import_50000_files";
pub(crate) const IMPORT_MEMORY: &str = "import_50000_files_memory";

/// Time of a report, and of a comparison.
pub(crate) const REPORT_TIME: &str = "report_1000_cells";
pub(crate) const COMPARE_TIME: &str = "compare_10000_cells";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: IMPORT_TIME,
        what: "`weir lab import` of 50,000 files",
        unit: "s",
        limit: Limit::AtMost(60.0),
    },
    RowSpec {
        name: IMPORT_MEMORY,
        what: "the same, resident at most",
        unit: "MiB",
        limit: Limit::AtMost(512.0),
    },
    RowSpec {
        name: REPORT_TIME,
        what: "`weir lab report` of 1,000 cells",
        unit: "s",
        limit: Limit::AtMost(3.0),
    },
    RowSpec {
        name: COMPARE_TIME,
        what: "`weir lab compare` of two archives of 10,000 cells",
        unit: "s",
        limit: Limit::AtMost(10.0),
    },
];

/// The rows of these names; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(limits::selected(ROWS, names)?)
}

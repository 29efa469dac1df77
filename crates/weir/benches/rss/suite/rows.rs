//! The rows of the result, and their limits. This is the one list.

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// Hashes of addresses and ports, as many flows at once as the CPU's instructions allow.
pub(crate) const HASH_V4: &str = "hash_v4";
pub(crate) const HASH_V6: &str = "hash_v6";
/// The same from tables, one flow after the other.
pub(crate) const TABLES_V4: &str = "hash_v4_tables";
pub(crate) const TABLES_V6: &str = "hash_v6_tables";
/// Flows on the predicted queue, with the predicted hash.
pub(crate) const PLACED_V4: &str = "placed_v4";
pub(crate) const PLACED_V6: &str = "placed_v6";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: HASH_V4,
        what: "hash of an IPv4 4-tuple, many at once",
        unit: "hashes/s",
        limit: Limit::AtLeast(100e6),
    },
    RowSpec {
        name: HASH_V6,
        what: "hash of an IPv6 4-tuple, many at once",
        unit: "hashes/s",
        limit: Limit::AtLeast(100e6),
    },
    RowSpec {
        name: TABLES_V4,
        what: "hash of an IPv4 4-tuple, from tables",
        unit: "hashes/s",
        limit: Limit::None,
    },
    RowSpec {
        name: TABLES_V6,
        what: "hash of an IPv6 4-tuple, from tables",
        unit: "hashes/s",
        limit: Limit::None,
    },
    RowSpec {
        name: PLACED_V4,
        what: "IPv4 flows on the predicted queue, all sizes of tables",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: PLACED_V6,
        what: "the same of IPv6",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
];

/// The rows of these names; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(limits::selected(ROWS, names)?)
}

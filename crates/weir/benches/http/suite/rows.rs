//! The rows of the result, and their limits. This is the one list.

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// Connections without sockets that were opened, used and closed, per second of CPU time.
pub(crate) const CONNECT: &str = "connect";
/// The same with sockets, per second of the client's CPU time.
pub(crate) const SOCKETS: &str = "sockets";
/// The one against the other.
pub(crate) const TIMES_SOCKETS: &str = "connect_sockets";
/// Connections without sockets through firewalls that keep state, and their ratio.
pub(crate) const FW: &str = "connect_fw";
pub(crate) const NFT: &str = "connect_nft";
pub(crate) const TIMES_FW: &str = "connect_fw_nft";
/// Connections that the client counts against the states that the firewall has made.
pub(crate) const LEDGER_FW: &str = "ledger_fw";
pub(crate) const LEDGER_NFT: &str = "ledger_nft";

const CONNECTIONS: &str = "connections/s";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: CONNECT,
        what: "weir connect, nothing between: full connections",
        unit: CONNECTIONS,
        limit: Limit::None,
    },
    RowSpec {
        name: SOCKETS,
        what: "kernel sockets, a blocking client: the same",
        unit: CONNECTIONS,
        limit: Limit::None,
    },
    RowSpec {
        name: TIMES_SOCKETS,
        what: "weir connect against kernel sockets",
        unit: "times",
        limit: Limit::AtLeast(60.0),
    },
    RowSpec {
        name: FW,
        what: "weir connect through weir fw, keep state",
        unit: CONNECTIONS,
        limit: Limit::None,
    },
    RowSpec {
        name: NFT,
        what: "weir connect through nftables, ct state",
        unit: CONNECTIONS,
        limit: Limit::None,
    },
    RowSpec {
        name: TIMES_FW,
        what: "through weir fw against through nftables",
        unit: "times",
        limit: Limit::AtLeast(2.5),
    },
    RowSpec {
        name: LEDGER_FW,
        what: "ledger against the states that weir fw has made",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: LEDGER_NFT,
        what: "ledger against the connections that Linux tracks",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
];

/// The rows of these names; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(limits::selected(ROWS, names)?)
}

//! The rows of the result, and their limits. This is the one list.

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// Connections without sockets that were opened, used and closed, per second of CPU time.
pub(crate) const CONNECT: &str = "connect";
/// The same with sockets, per second of the client's CPU time.
pub(crate) const SOCKETS: &str = "sockets";
/// The one against the other.
pub(crate) const TIMES_SOCKETS: &str = "connect_sockets";
/// Against connections of weir http that carry a request each, per second of its CPU time.
pub(crate) const TIMES_HTTP: &str = "connect_http";
/// Connections without sockets through firewalls that keep state, and their ratio.
pub(crate) const FW: &str = "connect_fw";
pub(crate) const NFT: &str = "connect_nft";
pub(crate) const TIMES_FW: &str = "connect_fw_nft";
/// Connections that the client counts against the states that the firewall has made.
pub(crate) const LEDGER_FW: &str = "ledger_fw";
pub(crate) const LEDGER_NFT: &str = "ledger_nft";

/// Requests over HTTP with 64 connections that are kept, by weir, by wrk and by oha, and their
/// ratios.
pub(crate) const HTTP_64: &str = "http_64";
pub(crate) const WRK_64: &str = "wrk_64";
pub(crate) const TIMES_WRK_64: &str = "http_64_wrk";
pub(crate) const OHA_64: &str = "oha_64";
pub(crate) const TIMES_OHA_64: &str = "http_64_oha";
/// The same with 1,000.
pub(crate) const HTTP_1000: &str = "http_1000";
pub(crate) const WRK_1000: &str = "wrk_1000";
pub(crate) const TIMES_WRK_1000: &str = "http_1000_wrk";
pub(crate) const OHA_1000: &str = "oha_1000";
pub(crate) const TIMES_OHA_1000: &str = "http_1000_oha";
/// With 64 connections at a time, and one for each request.
pub(crate) const HTTP_CLOSE: &str = "http_close";
pub(crate) const WRK_CLOSE: &str = "wrk_close";
pub(crate) const TIMES_WRK_CLOSE: &str = "http_close_wrk";

/// Requests that `weir http serve` and nginx answer, per second of their CPU time, and their ratio.
pub(crate) const SERVE: &str = "serve_64";
pub(crate) const NGINX: &str = "nginx_64";
pub(crate) const TIMES_NGINX: &str = "serve_nginx";
/// Memory of the client for each connection that has nothing to do, in user space.
pub(crate) const MEMORY: &str = "memory_connection";
/// Very many connections at a time: the share of them that was open and had no error, and how long
/// it took to open them.
pub(crate) const HELD: &str = "held";
pub(crate) const OPENING: &str = "held_opening";

const CONNECTIONS: &str = "connections/s";
const REQUESTS: &str = "requests/s";

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
        name: TIMES_HTTP,
        what: "weir connect against weir http, a connection for each request",
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
        name: HTTP_64,
        what: "weir http, 64 connections, kept",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec { name: WRK_64, what: "wrk, 64 connections, kept", unit: REQUESTS, limit: Limit::None },
    RowSpec {
        name: TIMES_WRK_64,
        what: "weir http against wrk, 64 connections, kept",
        unit: "times",
        limit: Limit::AtLeast(1.2),
    },
    RowSpec { name: OHA_64, what: "oha, 64 connections, kept", unit: REQUESTS, limit: Limit::None },
    RowSpec {
        name: TIMES_OHA_64,
        what: "weir http against oha, 64 connections, kept",
        unit: "times",
        limit: Limit::AtLeast(1.7),
    },
    RowSpec {
        name: HTTP_1000,
        what: "weir http, 1,000 connections, kept",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec {
        name: WRK_1000,
        what: "wrk, 1,000 connections, kept",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec {
        name: TIMES_WRK_1000,
        what: "weir http against wrk, 1,000 connections, kept",
        unit: "times",
        limit: Limit::AtLeast(1.3),
    },
    RowSpec {
        name: OHA_1000,
        what: "oha, 1,000 connections, kept",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec {
        name: TIMES_OHA_1000,
        what: "weir http against oha, 1,000 connections, kept",
        unit: "times",
        limit: Limit::AtLeast(2.2),
    },
    RowSpec {
        name: HTTP_CLOSE,
        what: "weir http, a connection for each request",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec {
        name: WRK_CLOSE,
        what: "wrk, a connection for each request",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec {
        name: TIMES_WRK_CLOSE,
        what: "weir http against wrk, a connection for each request",
        unit: "times",
        limit: Limit::AtLeast(1.15),
    },
    RowSpec {
        name: SERVE,
        what: "weir http serve, 64 connections, kept",
        unit: REQUESTS,
        limit: Limit::None,
    },
    RowSpec { name: NGINX, what: "nginx, the same", unit: REQUESTS, limit: Limit::None },
    RowSpec {
        name: TIMES_NGINX,
        what: "weir http serve against nginx",
        unit: "times",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: MEMORY,
        what: "memory of an idle connection of weir http, user space",
        unit: "B",
        limit: Limit::AtMost(256.0),
    },
    RowSpec {
        name: HELD,
        what: "250,000 connections at a time: open and without error",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: OPENING,
        what: "250,000 connections at a time: opened within",
        unit: "s",
        limit: Limit::AtMost(60.0),
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

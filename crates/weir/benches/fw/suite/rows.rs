//! The rows of the result: what each is compared with, and its floor. This is the one list.

use super::Result;
use crate::support::rows::{self, Against, RowSpec, pps};

/// Flows of the rows' names.
pub(crate) const FEW: u64 = 128;
pub(crate) const SOME: u64 = 4_900;
pub(crate) const MANY: u64 = 5_000_000;
pub(crate) const MOST: u64 = 10_000_000;
/// A limit of states that few flows come nowhere near.
pub(crate) const ROOMY: u64 = 12_000_000;

/// Rules of the rows' names.
pub(crate) const RULE_COUNT: u64 = 1_000;

/// Most memory for a flow, its share of the index included, bytes.
const FLOW_BYTES_MAX: f64 = 128.0;
/// Most memory for a translated flow, bytes.
const TRANSLATED_BYTES_MAX: f64 = 230.0;
/// Most memory of a firewall without states, MiB.
const REST_MIB_MAX: f64 = 64.0;
/// How long it may take until a firewall for ten million states forwards, seconds.
const START_SECONDS_MAX: f64 = 1.0;
/// How long the listing of ten million states may take, seconds.
const DUMP_SECONDS_MAX: f64 = 5.0;
/// Most of a CPU that expiry may take among ten million states, %.
const SWEEP_PERCENT_MAX: f64 = 10.0;
/// How long it may take to end those of a host among ten million states, seconds.
const KILL_SECONDS_MAX: f64 = 1.0;

/// Series of routing without rules.
pub(crate) const MINIMAL: &str = "minimal";
pub(crate) const LINUX: &str = "linux";
pub(crate) const ROUTE: &str = "route";
/// Series with a state for each flow. The controls are the same device and load once more.
pub(crate) const NFT_4900: &str = "nft_4900";
pub(crate) const STATEFUL_4900: &str = "stateful_4900";
pub(crate) const STATEFUL_4900_ROOMY: &str = "stateful_4900_limit_12m";
pub(crate) const STATEFUL_128: &str = "stateful_128";
pub(crate) const STATEFUL_5M: &str = "stateful_5m";
pub(crate) const STATEFUL_10M: &str = "stateful_10m";
pub(crate) const ONE_STAGE_5M: &str = "one_stage_5m";
pub(crate) const NFT_5M: &str = "nft_5m";
/// Series with another source for each flow.
pub(crate) const NFT_NAT_4900: &str = "nft_nat_4900";
pub(crate) const NAT_4900: &str = "nat_4900";
/// A series in which every packet's header is changed.
pub(crate) const SCRUB_4900: &str = "scrub_4900";
/// The same devices and loads, where nobody wakes the sink.
pub(crate) const NFT_4900_POLLED: &str = "nft_4900_polled";
pub(crate) const STATEFUL_4900_POLLED: &str = "stateful_4900_polled";
pub(crate) const NFT_5M_POLLED: &str = "nft_5m_polled";
pub(crate) const STATEFUL_5M_POLLED: &str = "stateful_5m_polled";
pub(crate) const CONTROL_128: &str = "control_128";
pub(crate) const CONTROL_4900: &str = "control_4900";
pub(crate) const CONTROL_5M: &str = "control_5m";
/// Series of the other `weir` that `--before` names.
pub(crate) const BEFORE_128: &str = "before_128";
pub(crate) const BEFORE_4900: &str = "before_4900";
/// Series in which every packet is of a new flow.
pub(crate) const NFT_NEW: &str = "nft_new_states";
pub(crate) const NEW: &str = "new_states";
/// The same where nobody wakes the sink.
pub(crate) const NFT_NEW_POLLED: &str = "nft_new_states_polled";
pub(crate) const NEW_POLLED: &str = "new_states_polled";
pub(crate) const NFT_NAT_NEW: &str = "nft_nat_new_states";
pub(crate) const NAT_NEW: &str = "nat_new_states";
pub(crate) const NFT_RULES: &str = "nft_1000_rules";
pub(crate) const RULES: &str = "rules_1000";
/// Series of one command.
pub(crate) const MEMORY_10M: &str = "memory_10m";
pub(crate) const MEMORY_NAT_5M: &str = "memory_nat_5m";
pub(crate) const MEMORY_REST: &str = "memory_rest";
pub(crate) const MEMORY_REST_10M: &str = "memory_rest_10m";
pub(crate) const START_10M: &str = "start_10m";
pub(crate) const SWEEP_10M: &str = "sweep_10m";
pub(crate) const KILL_10M: &str = "kill_10m";
pub(crate) const DUMP_10M: &str = "dump_10m";

const fn limit(name: &'static str, what: &'static str, unit: &'static str, limit: f64) -> RowSpec {
    let against = Against::limit(limit);
    RowSpec { name, series: name, what, unit, against, floor: Some(1.0) }
}

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    pps(MINIMAL, "minimal XDP router, 4,900 flows"),
    pps(LINUX, "Linux forwarding, 4,900 flows"),
    pps(ROUTE, "weir fw, no rules, 4,900 flows").against(Against::Series(MINIMAL)).floor(0.95),
    pps("route_vs_linux", "weir fw, no rules, again")
        .of(ROUTE)
        .against(Against::Series(LINUX))
        .floor(2.0),
    pps(NFT_4900, "nftables `ct state`, 4,900 flows"),
    pps(STATEFUL_4900, "weir fw, stateful, 4,900 flows")
        .against(Against::Series(MINIMAL))
        .floor(1.1),
    pps("stateful_4900_vs_nft", "weir fw, stateful, 4,900 flows, again")
        .of(STATEFUL_4900)
        .against(Against::Series(NFT_4900))
        .floor(6.0),
    pps(CONTROL_4900, "the same, control").against(Against::Series(STATEFUL_4900)),
    pps(NFT_NAT_4900, "nftables `masquerade`, 4,900 flows"),
    pps(NAT_4900, "weir fw, `nat`, 4,900 flows")
        .against(Against::Series(STATEFUL_4900))
        .floor(0.85),
    pps("nat_4900_vs_nft", "weir fw, `nat`, 4,900 flows, again")
        .of(NAT_4900)
        .against(Against::Series(NFT_NAT_4900))
        .floor(4.5),
    pps(SCRUB_4900, "weir fw, `scrub all no-df max-mss 1440`, 4,900 flows")
        .against(Against::Series(STATEFUL_4900))
        .floor(0.9),
    pps(STATEFUL_4900_ROOMY, "weir fw, stateful, 4,900 flows, limit of 12,000,000")
        .against(Against::Series(STATEFUL_4900))
        .floor(0.97),
    pps(NFT_4900_POLLED, "nftables `ct state`, 4,900 flows, sink polled"),
    pps(STATEFUL_4900_POLLED, "weir fw, stateful, 4,900 flows, sink polled")
        .against(Against::Series(NFT_4900_POLLED)),
    pps(NFT_5M, "nftables `ct state`, 5,000,000 flows"),
    pps(STATEFUL_5M, "weir fw, stateful, 5,000,000 flows")
        .against(Against::Series(NFT_5M))
        .floor(6.0),
    pps("stateful_5m_vs_minimal", "weir fw, stateful, 5,000,000 flows, again")
        .of(STATEFUL_5M)
        .against(Against::Series(MINIMAL))
        .floor(0.85),
    pps(STATEFUL_10M, "weir fw, stateful, 10,000,000 flows")
        .against(Against::Series(MINIMAL))
        .floor(0.85),
    pps(CONTROL_5M, "the same, control").against(Against::Series(STATEFUL_5M)),
    pps(NFT_5M_POLLED, "nftables `ct state`, 5,000,000 flows, sink polled"),
    pps(STATEFUL_5M_POLLED, "weir fw, stateful, 5,000,000 flows, sink polled")
        .against(Against::Series(NFT_5M_POLLED)),
    pps(ONE_STAGE_5M, "weir fw, stateful, one stage, 5,000,000 flows"),
    pps("stateful_5m_vs_one_stage", "weir fw, stateful, 5,000,000 flows, again")
        .of(STATEFUL_5M)
        .against(Against::Series(ONE_STAGE_5M))
        .floor(1.7),
    pps(STATEFUL_128, "weir fw, stateful, 128 flows"),
    pps(CONTROL_128, "the same, control").against(Against::Series(STATEFUL_128)),
    pps("stateful_5m_vs_128", "weir fw, stateful, 5,000,000 flows, again")
        .of(STATEFUL_5M)
        .against(Against::Series(STATEFUL_128))
        .floor(0.60),
    pps(BEFORE_128, "weir fw of --before, stateful, 128 flows"),
    pps("stateful_128_vs_before", "weir fw, stateful, 128 flows, again")
        .of(STATEFUL_128)
        .against(Against::Series(BEFORE_128))
        .floor(0.98),
    pps(BEFORE_4900, "weir fw of --before, stateful, 4,900 flows"),
    pps("stateful_4900_vs_before", "weir fw, stateful, 4,900 flows, again")
        .of(STATEFUL_4900)
        .against(Against::Series(BEFORE_4900))
        .floor(0.98),
    pps(NFT_NEW, "nftables, new states"),
    pps(NEW, "weir fw, new states").against(Against::Series(NFT_NEW)).floor(4.2),
    pps(NFT_NEW_POLLED, "nftables, new states, sink polled"),
    pps(NEW_POLLED, "weir fw, new states, sink polled").against(Against::Series(NFT_NEW_POLLED)),
    pps(NFT_NAT_NEW, "nftables, `snat` to four addresses, new states"),
    pps(NAT_NEW, "weir fw, `nat` to four addresses, new states")
        .against(Against::Series(NFT_NAT_NEW))
        .floor(2.0),
    pps(NFT_RULES, "nftables, 1,000 rules, new states"),
    pps(RULES, "weir fw, 1,000 rules, new states").against(Against::Series(NFT_RULES)).floor(4.0),
    limit(MEMORY_10M, "weir fw, 10,000,000 states: memory of each", "B", FLOW_BYTES_MAX),
    limit(
        MEMORY_NAT_5M,
        "weir fw, 5,000,000 translated states: memory of each",
        "B",
        TRANSLATED_BYTES_MAX,
    ),
    limit(MEMORY_REST, "weir fw with the default limit, at rest", "MiB", REST_MIB_MAX),
    limit(MEMORY_REST_10M, "weir fw with room for 10,000,000 states, at rest", "MiB", REST_MIB_MAX),
    limit(START_10M, "weir fw, start with room for 10,000,000 states", "s", START_SECONDS_MAX),
    limit(DUMP_10M, "`weir pfctl -ss` of 10,000,000 states", "s", DUMP_SECONDS_MAX),
    limit(SWEEP_10M, "expiry among 10,000,000 states, of one CPU", "%", SWEEP_PERCENT_MAX),
    limit(KILL_10M, "`weir pfctl -k HOST` among 10,000,000 states", "s", KILL_SECONDS_MAX),
];

/// Whether a series is of the other `weir`.
pub(crate) fn is_before(series: &str) -> bool {
    series == BEFORE_128 || series == BEFORE_4900
}

/// The rows of these names, and those that they are compared with; all if none is named. Those of
/// the other `weir` are only there if there is one.
pub(crate) fn selected(names: &[String], has_before: bool) -> Result<Vec<&'static RowSpec>> {
    let needs_before = |row: &RowSpec| match row.against {
        Against::Series(other) => is_before(other) || is_before(row.series),
        _ => is_before(row.series),
    };
    let mut rows = rows::selected(ROWS, names)?;
    if !has_before {
        let named = |row: &&&RowSpec| needs_before(row) && names.iter().any(|n| n == row.name);
        if let Some(row) = rows.iter().find(named) {
            return Err(
                format!("row `{}` compares with another weir: --before=FILE", row.name).into()
            );
        }
        rows.retain(|row| !needs_before(row));
    }
    Ok(rows)
}

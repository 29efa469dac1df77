//! The rows of the result, and their limits. This is the one list.

use std::time::Duration;

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// States that a bulk has.
pub(crate) const BULK_STATES: u32 = 10_000_000;
/// New flows per second that a second firewall follows.
pub(crate) const NEW_FLOWS_PPS: u32 = 200_000;
/// Flows whose packets cost the first firewall no more because it has a second one.
pub(crate) const KNOWN_FLOWS: u32 = 5_000_000;
/// Packets of these per second while all states are sent: more than half of what one CPU forwards.
pub(crate) const BULK_LOAD_PPS: u32 = 1_000_000;
/// New flows per second of a flood, and connections that end meanwhile.
pub(crate) const FLOOD_PPS: u32 = 1_000_000;
pub(crate) const CONNECTIONS: u32 = 10_000;
/// For how long both are sent.
pub(crate) const LOAD: Duration = Duration::from_secs(5);
/// Connections that go over to the second firewall.
pub(crate) const TRANSFERS: u32 = 1000;
/// For how long the process that carries states is stopped.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);

pub(crate) const BULK: &str = "bulk_10m";
pub(crate) const BULK_RATE: &str = "bulk_rate";
pub(crate) const NEW_RATE: &str = "new_flows";
pub(crate) const NEW_LAG: &str = "new_flows_lag";
pub(crate) const NEW_KEPT: &str = "new_flows_kept";
pub(crate) const CATCH_UP: &str = "catch_up";
pub(crate) const COST: &str = "known_cost";
pub(crate) const COST_CONTROL: &str = "known_cost_control";
pub(crate) const BULK_COST: &str = "bulk_cost";
pub(crate) const BULK_FORWARDED: &str = "bulk_forwarded";
pub(crate) const FLOOD_RATE: &str = "flood";
pub(crate) const FLOOD_LAG: &str = "flood_lag";
pub(crate) const FLOOD_CHANGES: &str = "flood_changes";
pub(crate) const UNDISTURBED: &str = "undisturbed";
pub(crate) const UNDISTURBED_KEPT: &str = "undisturbed_kept";
pub(crate) const HANDOVER: &str = "handover";
pub(crate) const HANDOVER_KEPT: &str = "handover_kept";
pub(crate) const DEATH: &str = "death";
pub(crate) const DEATH_KEPT: &str = "death_kept";

const fn row(name: &'static str, what: &'static str, unit: &'static str, limit: Limit) -> RowSpec {
    RowSpec { name, what, unit, limit }
}

pub(crate) const ROWS: &[RowSpec] = &[
    row(BULK, "10,000,000 states to a firewall that has none", "s", Limit::AtMost(6.0)),
    row(BULK_RATE, "the same, states per second", "states/s", Limit::None),
    row(
        NEW_RATE,
        "new answered flows that the first firewall has let through",
        "flows/s",
        Limit::AtLeast(NEW_FLOWS_PPS as f64 * 0.98),
    ),
    row(NEW_LAG, "the same: lag of the second firewall, 99 % of looks", "ms", Limit::AtMost(250.0)),
    row(NEW_KEPT, "the same: states that both have, of all", "share", Limit::AtLeast(1.0)),
    row(
        CATCH_UP,
        "new answered flows while `to` is stopped for five seconds: until both have all",
        "s",
        Limit::AtMost(10.0),
    ),
    row(
        COST,
        "5,000,000 known flows: CPU time for each packet, against that without synchronisation",
        "ratio",
        Limit::AtMost(1.03),
    ),
    row(COST_CONTROL, "the same: without it after that, against before", "ratio", Limit::None),
    row(
        BULK_COST,
        "1,000,000 packets of these a second while all are sent: CPU time for each, against before",
        "ratio",
        Limit::None,
    ),
    row(BULK_FORWARDED, "the same: let through, against before", "ratio", Limit::AtLeast(0.85)),
    row(
        FLOOD_RATE,
        "1,000,000 unanswered flows a second: let through, against without synchronisation",
        "ratio",
        Limit::AtLeast(0.9),
    ),
    row(
        FLOOD_LAG,
        "the same: lag of the second firewall, 99 % of looks",
        "ms",
        Limit::AtMost(1000.0),
    ),
    row(
        FLOOD_CHANGES,
        "the same: ends of 10,000 connections that have come",
        "share",
        Limit::AtLeast(1.0),
    ),
    row(UNDISTURBED, "1,000 connections: the longest wait for an answer", "ms", Limit::None),
    row(UNDISTURBED_KEPT, "the same: connections without a failure", "share", Limit::None),
    row(HANDOVER, "they go over by plan: the longest wait", "ms", Limit::AtMost(300.0)),
    row(HANDOVER_KEPT, "the same: connections without a failure", "share", Limit::AtLeast(1.0)),
    row(DEATH, "the first firewall dies: the longest wait", "ms", Limit::AtMost(1000.0)),
    row(DEATH_KEPT, "the same: connections without a failure", "share", Limit::AtLeast(1.0)),
];

/// The rows of these names; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(limits::selected(ROWS, names)?)
}

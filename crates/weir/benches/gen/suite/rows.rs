//! The rows of the result: what each is compared with, and its floor. This is the one list.

use super::Result;
pub(crate) use crate::support::rows::Against;
use crate::support::rows::{self, RowSpec, pps};

/// Largest resident memory of `weir gen` with five million flows, MiB.
const MEMORY_MIB_MAX: f64 = 64.0;

/// A rate that was asked for, packets per second.
const fn requested(value: f64) -> Against {
    Against::Value { what: "requested", value, is_limit: false }
}

/// Series of the regime in which one CPU sends and receives: packets delivered.
pub(crate) const MINIMAL: &str = "minimal";
pub(crate) const FLOWS_4900: &str = "flows_4900";
pub(crate) const FLOWS_5M: &str = "flows_5m";
pub(crate) const TRAFGEN: &str = "trafgen";
pub(crate) const THREADS_2: &str = "threads_2";
pub(crate) const SINK_BARE_SHARED: &str = "sink_bare_shared";
pub(crate) const SINK_FULL_SHARED: &str = "sink_full_shared";
/// Series of the regime in which the receiver has a CPU of its own.
pub(crate) const MINIMAL_OFFERED: &str = "minimal_offered";
pub(crate) const MINIMAL_DELIVERED: &str = "minimal_delivered";
pub(crate) const FLOWS_4900_OFFERED: &str = "flows_4900_offered";
pub(crate) const FLOWS_4900_DELIVERED: &str = "flows_4900_delivered";
pub(crate) const FLOWS_5M_OFFERED: &str = "flows_5m_offered";
pub(crate) const FLOWS_5M_DELIVERED: &str = "flows_5m_delivered";
pub(crate) const SINK_BARE: &str = "sink_bare";
pub(crate) const SINK_BARE_OFFERED: &str = "sink_bare_offered";
pub(crate) const SINK_FULL: &str = "sink_full";
pub(crate) const SINK_FULL_OFFERED: &str = "sink_full_offered";
/// Series that belong to no regime.
pub(crate) const RATE_100K: &str = "rate_100k";
pub(crate) const RATE_500K: &str = "rate_500k";
pub(crate) const MEMORY_5M: &str = "memory_5m";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    pps(MINIMAL, "one CPU: a program that redirects one fixed frame"),
    pps(FLOWS_4900, "one CPU: 4,900 flows, checksums, signature")
        .against(Against::Series(MINIMAL))
        .floor(0.90),
    pps(FLOWS_5M, "one CPU: 5,000,000 flows").against(Against::Series(MINIMAL)).floor(0.85),
    pps(TRAFGEN, "one CPU: trafgen, the same packet"),
    pps("flows_4900_vs_trafgen", "one CPU: 4,900 flows, again")
        .of(FLOWS_4900)
        .against(Against::Series(TRAFGEN))
        .floor(8.0),
    pps(THREADS_2, "two threads on two queues, each CPU as above")
        .against(Against::Series(FLOWS_4900))
        .floor(1.6),
    pps(SINK_BARE_SHARED, "one CPU: bare sink, stamped packets"),
    pps(SINK_FULL_SHARED, "one CPU: full sink, stamped packets")
        .against(Against::Series(SINK_BARE_SHARED)),
    pps(MINIMAL_OFFERED, "two CPUs, offered: fixed frame"),
    pps(FLOWS_4900_OFFERED, "two CPUs, offered: 4,900 flows")
        .against(Against::Series(MINIMAL_OFFERED)),
    pps(FLOWS_5M_OFFERED, "two CPUs, offered: 5,000,000 flows")
        .against(Against::Series(MINIMAL_OFFERED)),
    pps(MINIMAL_DELIVERED, "two CPUs, delivered: fixed frame"),
    pps(FLOWS_4900_DELIVERED, "two CPUs, delivered: 4,900 flows")
        .against(Against::Series(MINIMAL_DELIVERED)),
    pps(FLOWS_5M_DELIVERED, "two CPUs, delivered: 5,000,000 flows")
        .against(Against::Series(MINIMAL_DELIVERED)),
    pps(SINK_BARE, "two CPUs, delivered: bare sink"),
    pps(SINK_FULL, "two CPUs, delivered: sink with sequence and latency")
        .against(Against::Series(SINK_BARE))
        .floor(0.85),
    pps(SINK_BARE_OFFERED, "two CPUs, offered to the bare sink")
        .against(Against::Series(SINK_BARE)),
    pps(SINK_FULL_OFFERED, "two CPUs, offered to that sink").against(Against::Series(SINK_FULL)),
    pps(RATE_100K, "100 kpps held, delivered").against(requested(100_000.0)).floor(0.995),
    pps(RATE_500K, "500 kpps held, delivered").against(requested(500_000.0)).floor(0.995),
    RowSpec {
        name: MEMORY_5M,
        series: MEMORY_5M,
        what: "`weir gen` with 5,000,000 flows, resident at most",
        unit: "MiB",
        against: Against::limit(MEMORY_MIB_MAX),
        floor: Some(1.0),
    },
];

/// The rows of these names, and those that they are compared with; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(rows::selected(ROWS, names)?)
}

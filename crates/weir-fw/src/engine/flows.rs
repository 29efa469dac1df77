//! What was exported of flows since the daemon began, or since `pfctl -F info`. It only counts.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// What was exported.
#[derive(Debug, Default)]
pub(crate) struct FlowCounters {
    pub(crate) records: AtomicU64,
    pub(crate) packets: AtomicU64,
    pub(crate) send_errors: AtomicU64,
}

impl FlowCounters {
    /// With the events that found no room in the ring.
    pub(crate) fn value(&self, lost_count: u64) -> Value {
        let [records, packets, errors] =
            [&self.records, &self.packets, &self.send_errors].map(|it| it.load(Ordering::Relaxed));
        json!({
            "records_count": records,
            "packets_count": packets,
            "send_errors_count": errors,
            "lost_states_count": lost_count,
        })
    }

    /// The same for pfctl.
    pub(crate) fn list(&self, lost_count: u64) -> Vec<(&'static str, u64)> {
        let counters = [
            ("records", &self.records),
            ("packets", &self.packets),
            ("send errors", &self.send_errors),
        ];
        let counters = counters.into_iter().map(|(name, it)| (name, it.load(Ordering::Relaxed)));
        counters.chain([("lost states", lost_count)]).collect()
    }

    pub(crate) fn clear(&self) {
        for it in [&self.records, &self.packets, &self.send_errors] {
            it.store(0, Ordering::Relaxed);
        }
    }
}

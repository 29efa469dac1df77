//! What firewalls have sent each other since the daemon began, or since `pfctl -F info`. It only
//! counts.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};

/// A counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchanged {
    SentStates,
    SentDeletes,
    SentBytes,
    SentBulks,
    Inserts,
    Updates,
    Deletes,
    Present,
    LeftOut,
    Skipped,
    Errors,
    /// Of ends of states that were sent: the data path counts those that found no room.
    LostDeletes,
}

/// How many there are.
const COUNT: usize = Exchanged::LostDeletes as usize + 1;

/// Of each counter, in its order: its name for people, that in JSON, and what it is.
pub(crate) const EXCHANGED: [(&str, &str, &str); COUNT] = [
    ("states sent", "sent_states_count", "States sent to another firewall."),
    ("deletes sent", "sent_deletes_count", "Ends of states sent to another firewall."),
    ("bytes sent", "sent_bytes", "Bytes sent to another firewall."),
    ("bulks sent", "sent_bulks_count", "Times that all states were sent."),
    ("inserts", "inserts_count", "States made that another firewall has sent."),
    ("updates", "updates_count", "States that it has sent again."),
    ("deletes", "deletes_count", "States that it has ended."),
    ("present", "present_count", "States sent that this firewall has made itself."),
    ("left out", "left_out_count", "States sent that could not be made."),
    ("records skipped", "skipped_count", "Records of unknown kinds."),
    ("errors", "errors_count", "Sessions that an error has ended."),
    ("deletes lost", "lost_deletes_count", "Ends of states without room to be sent."),
];

/// What was counted of each; the last one is not kept here.
#[derive(Debug, Default)]
pub(crate) struct SyncCounters([AtomicU64; COUNT]);

impl SyncCounters {
    pub(crate) fn add(&self, which: Exchanged, count: u64) {
        self.0[which as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// All of them for pfctl, with what the data path has counted.
    pub(crate) fn list(&self, lost_count: u64) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let mut list: Vec<_> = EXCHANGED.iter().map(|(name, ..)| *name).zip(counts).collect();
        list[Exchanged::LostDeletes as usize].1 = lost_count;
        list
    }

    /// The same by their names in JSON.
    pub(crate) fn value(&self, lost_count: u64) -> Value {
        let counts = self.list(lost_count).into_iter().zip(EXCHANGED);
        let fields = counts.map(|((_, count), (_, key, _))| (key.to_owned(), count.into()));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    pub(crate) fn clear(&self) {
        for count in &self.0 {
            count.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_its_name() {
        let counters = SyncCounters::default();
        counters.add(Exchanged::Deletes, 7);
        counters.add(Exchanged::LostDeletes, 9);
        let value = counters.value(3);
        assert_eq!(
            (value["deletes_count"].as_u64(), value["lost_deletes_count"].as_u64()),
            (Some(7), Some(3))
        );
        assert!(counters.list(3).contains(&("deletes", 7)));
        counters.clear();
        assert!(counters.list(0).iter().all(|(_, count)| *count == 0));
    }
}

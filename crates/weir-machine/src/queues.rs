//! Packets per second of each receive queue of an interface, from two readings of its counters.
//!
//! What is read is the driver's own: [`linux`] has the names that Linux drivers give their
//! per-queue statistics, [`freebsd`] the variables of FreeBSD's. Nothing is changed, and a counter
//! that went backwards (an interface that was set down and up) is no rate.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

pub mod freebsd;
pub mod linux;
mod moment;
mod name;
pub mod remote;
pub mod softnet;

pub use moment::{Moment, Unfit};

/// What an interface has counted since it was made, or its driver loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that each receive queue has handed up, by its number.
    pub rx_packets: BTreeMap<u32, u64>,
    /// Packets that each receive queue has lost, where the driver tells them apart.
    pub rx_drops: BTreeMap<u32, u64>,
    /// Packets that the interface took from the line, those included that it lost for want of a
    /// buffer.
    pub rx_total_packets: Option<u64>,
    /// Packets that the interface sent.
    pub tx_total_packets: Option<u64>,
    /// Losses of the whole interface, by the name of the counter.
    pub drops: BTreeMap<String, u64>,
}

/// The rates of a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QueueRate {
    /// Number of the queue.
    pub queue: u32,
    /// Packets per second; `None` if the counter went backwards or is new.
    pub rx_rate_pps: Option<f64>,
    /// Lost packets per second, where the driver counts them for each queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_rate_pps: Option<f64>,
}

/// What happened between two readings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueRates {
    /// Time between the readings.
    pub interval_ns: u64,
    /// Each receive queue, by its number.
    pub queues: Vec<QueueRate>,
    /// All queues together; `None` if the driver has no counters for queues, or one has no rate.
    pub queues_rx_rate_pps: Option<f64>,
    /// What the interface took from the line.
    pub rx_rate_pps: Option<f64>,
    /// What it sent.
    pub tx_rate_pps: Option<f64>,
    /// Losses per second by the name of the counter; only those that are not zero.
    pub drop_rates_pps: BTreeMap<String, f64>,
}

/// The rates between two readings that are `elapsed` apart.
#[must_use]
pub fn rates(before: &QueueCounters, after: &QueueCounters, elapsed: Duration) -> QueueRates {
    let rate = |before: Option<u64>, after: Option<u64>| {
        let rise = after?.checked_sub(before?)?;
        #[expect(clippy::cast_precision_loss, reason = "packets of an interval are below 2^53")]
        let packets = rise as f64;
        (!elapsed.is_zero()).then(|| packets / elapsed.as_secs_f64())
    };
    let of = |map: fn(&QueueCounters) -> &BTreeMap<u32, u64>, queue: u32| {
        rate(map(before).get(&queue).copied(), map(after).get(&queue).copied())
    };
    let queues: Vec<QueueRate> = after
        .rx_packets
        .keys()
        .map(|&queue| QueueRate {
            queue,
            rx_rate_pps: of(|c| &c.rx_packets, queue),
            drop_rate_pps: of(|c| &c.rx_drops, queue),
        })
        .collect();
    let sum: Option<f64> = queues.iter().map(|q| q.rx_rate_pps).sum();
    let drop_rates_pps = after
        .drops
        .iter()
        .filter_map(|(name, &value)| {
            let rate = rate(before.drops.get(name).copied(), Some(value))?;
            (rate > 0.0).then(|| (name.clone(), rate))
        })
        .collect();
    QueueRates {
        interval_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        queues_rx_rate_pps: sum.filter(|_| !queues.is_empty()),
        queues,
        rx_rate_pps: rate(before.rx_total_packets, after.rx_total_packets),
        tx_rate_pps: rate(before.tx_total_packets, after.tx_total_packets),
        drop_rates_pps,
    }
}

/// `[Q0 856K/s] [Q1 0/s] [QT 856K/s 901K/s -> 13K/s] [rx_missed_errors 45K/s]`: each queue, all
/// queues, what came from the line and what was sent, and losses if there are any.
impl fmt::Display for QueueRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for queue in &self.queues {
            write!(f, "[Q{} {}", queue.queue, short(queue.rx_rate_pps))?;
            if let Some(drops) = queue.drop_rate_pps.filter(|&drops| drops > 0.0) {
                write!(f, " lost {}", short(Some(drops)))?;
            }
            write!(f, "] ")?;
        }
        write!(
            f,
            "[QT {} {} -> {}]",
            short(self.queues_rx_rate_pps),
            short(self.rx_rate_pps),
            short(self.tx_rate_pps)
        )?;
        for (name, &rate_pps) in &self.drop_rates_pps {
            write!(f, " [{name} {}]", short(Some(rate_pps)))?;
        }
        Ok(())
    }
}

/// Thousands of packets per second, or packets below one thousand; `-` for what is not known.
fn short(rate_pps: Option<f64>) -> String {
    match rate_pps {
        None => "-".to_owned(),
        Some(rate) if rate < 1000.0 => format!("{rate:.0}/s"),
        Some(rate) => format!("{:.0}K/s", (rate / 1000.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(queues: &[u64], rx: u64, tx: u64, missed: u64) -> QueueCounters {
        QueueCounters {
            rx_packets: (0..).zip(queues.iter().copied()).collect(),
            rx_drops: BTreeMap::new(),
            rx_total_packets: Some(rx),
            tx_total_packets: Some(tx),
            drops: BTreeMap::from([("rx_missed_errors".to_owned(), missed)]),
        }
    }

    #[test]
    fn a_line_has_each_queue_their_sum_and_the_interface() {
        let before = counters(&[1_000, 2_000], 5_000, 10, 7);
        let after = counters(&[1_713_000, 2_500], 4_005_000, 26_010, 7);
        let rates = rates(&before, &after, Duration::from_secs(2));
        assert_eq!(rates.to_string(), "[Q0 856K/s] [Q1 250/s] [QT 856K/s 2000K/s -> 13K/s]");
        assert_eq!(rates.queues_rx_rate_pps, Some(856_250.0));
        assert!(rates.drop_rates_pps.is_empty());
    }

    #[test]
    fn losses_are_told_and_a_reset_is_no_rate() {
        let before = counters(&[10, 20], 30, 0, 5);
        let after = counters(&[4, 30], 40, 0, 3_005);
        let rates = rates(&before, &after, Duration::from_secs(1));
        assert_eq!(rates.queues[0].rx_rate_pps, None);
        assert_eq!(rates.queues_rx_rate_pps, None);
        let line = rates.to_string();
        assert_eq!(line, "[Q0 -] [Q1 10/s] [QT - 10/s -> 0/s] [rx_missed_errors 3K/s]");
    }

    #[test]
    fn without_queues_or_time_there_is_no_rate() {
        let none = counters(&[], 0, 0, 0);
        assert_eq!(rates(&none, &none, Duration::from_secs(1)).queues_rx_rate_pps, None);
        let some = counters(&[1], 1, 1, 0);
        assert_eq!(rates(&some, &some, Duration::ZERO).rx_rate_pps, None);
    }
}

//! The sink's program on its device: the bare one while rates are measured, the full one while
//! latency is.
//!
//! The full one looks at every packet's number and time, and takes a CPU longer for it. That CPU is
//! the DUT's where the sink has none of its own, so the full one is never there while packets per
//! second are measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_bpf::attach::Mode;
use weir_bpf::histogram::Histogram;
use weir_gen::expect::Expectation;
use weir_gen::observer::Observer;
use weir_gen::receiver::{Receiver, Snapshot};
use weir_net::Netns;
use weir_results::record::Delays;

use super::wiring::{ifindex, inside};
use crate::testbed::{Observed, Reading, TestbedError};

/// One of the two programs; none after a failed exchange.
#[derive(Debug)]
pub(in crate::testbed) enum Sink {
    Counting(Arc<Receiver>),
    Observing(Box<Observer>),
    Detached,
}

impl Sink {
    /// Attaches the bare one to a device of a namespace.
    pub(in crate::testbed) fn attach(netns: &Netns, device: &str) -> Result<Self, TestbedError> {
        let receiver = inside(netns, || {
            let ifindex = ifindex(device)?;
            Receiver::attach(ifindex).map_err(|e| e.to_string())
        })?;
        Ok(Self::Counting(Arc::new(receiver)))
    }

    /// The bare one, for a window; `None` while it is not there.
    pub(in crate::testbed) fn receiver(&self) -> Option<Arc<Receiver>> {
        match self {
            Self::Counting(receiver) => Some(Arc::clone(receiver)),
            Self::Observing(_) | Self::Detached => None,
        }
    }

    /// What the bare one has counted.
    fn snapshot(&self) -> Result<Snapshot, TestbedError> {
        match self {
            Self::Counting(receiver) => receiver.snapshot().map_err(TestbedError::new),
            Self::Observing(_) | Self::Detached => {
                Err(TestbedError::new("the sink does not count while it measures latency"))
            }
        }
    }

    /// A reading for samples, beside what the generator has offered.
    pub(in crate::testbed) fn reading(&self, tx_packets: u64) -> Result<Reading, TestbedError> {
        let snapshot = self.snapshot()?;
        let total = snapshot.total();
        Ok(Reading {
            t_ns: snapshot.t_ns,
            rx_packets: total.packets,
            rx_bytes: total.bytes,
            tx_packets,
        })
    }

    /// Every count by name.
    pub(in crate::testbed) fn counters(&self) -> Result<BTreeMap<String, u64>, TestbedError> {
        let snapshot = self.snapshot()?;
        let total = snapshot.total();
        let mut counters: BTreeMap<String, u64> = [
            ("packets", total.packets),
            ("bytes", total.bytes),
            ("foreign_packets", total.foreign_packets),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (index, queue) in snapshot.counters.queues.iter().enumerate() {
            counters.insert(format!("queue_{index}_packets"), queue.packets);
        }
        Ok(counters)
    }

    /// Puts the full one in the place of the bare one, whose counts end here.
    pub(in crate::testbed) fn observe(
        &mut self,
        netns: &Netns,
        device: &str,
    ) -> Result<(), TestbedError> {
        *self = Self::Detached;
        let observer = inside(netns, || {
            let ifindex = ifindex(device)?;
            let expectation = Expectation::default();
            Observer::attach(ifindex, Mode::Native, expectation).map_err(|e| e.to_string())
        })?;
        *self = Self::Observing(Box::new(observer));
        Ok(())
    }

    /// Puts the bare one back, which counts from zero, and returns what the full one has seen:
    /// packets, and how long those took that were measured.
    pub(in crate::testbed) fn observed(
        &mut self,
        netns: &Netns,
        device: &str,
    ) -> Result<(u64, Histogram), TestbedError> {
        let Self::Observing(mut observer) = std::mem::replace(self, Self::Detached) else {
            return Err(TestbedError::new("the sink does not measure latency"));
        };
        observer.detach();
        let observed = observer.observed().map_err(TestbedError::new)?;
        drop(observer);
        *self = Self::attach(netns, device)?;
        Ok((observed.counters.total().packets, observed.observations.latency_ns))
    }
}

/// What sinks have seen together, and each of them where they are several.
pub(in crate::testbed) fn together(
    seen: impl IntoIterator<Item = Result<(u64, Histogram), TestbedError>>,
) -> Result<Observed, TestbedError> {
    let (mut packets, mut histogram, mut directions) = (0, Histogram::default(), Vec::new());
    for each in seen {
        let (count, latency_ns) = each?;
        packets += count;
        histogram.add(&latency_ns);
        let delays = delays(&latency_ns);
        directions.push(Observed { packets: count, delays, directions: Vec::new() });
    }
    if directions.len() < 2 {
        directions.clear();
    }
    Ok(Observed { packets, delays: delays(&histogram), directions })
}

pub(super) fn delays(histogram: &Histogram) -> Delays {
    let quantile = |per_mille| histogram.quantile(per_mille).unwrap_or(0);
    Delays {
        sample_count: histogram.count(),
        min_ns: histogram.min().unwrap_or(0),
        p50_ns: quantile(500),
        p90_ns: quantile(900),
        p99_ns: quantile(990),
        p999_ns: quantile(999),
        max_ns: histogram.max().unwrap_or(0),
    }
}

//! Hashes per second: each way is called with the same flows again and again.

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use weir_bpf::toeplitz::BatchToeplitz;
use weir_machine::cancel::Cancel;
use weir_wire::flow::Flow;
use weir_wire::random::splitmix64;
use weir_wire::rss::{Fields, Key, Symmetry, Toeplitz};

use super::rows::{HASH_V4, HASH_V6, TABLES_V4, TABLES_V6};
use super::{Result, Samples, Settings, add, check};

/// As many random flows as are hashed at a time: their bytes fit the nearest caches.
const FLOW_COUNT: u64 = 1024;

/// The flows, and both ways to hash them.
pub(crate) struct Hashes {
    v4: Vec<Flow<Ipv4Addr>>,
    v6: Vec<Flow<Ipv6Addr>>,
    batch: BatchToeplitz,
    table: Toeplitz,
}

impl Hashes {
    pub(crate) fn new() -> Self {
        let word = |flow: u64, place: u64| splitmix64(1, flow * 8 + place);
        let low = |word: u64| u16::try_from(word & 0xffff).unwrap_or(0);
        let half = |word: u64| u32::try_from(word >> 32).unwrap_or(0);
        let v4 = |flow: u64| Flow {
            src: Ipv4Addr::from(half(word(flow, 0))),
            dst: Ipv4Addr::from(half(word(flow, 1))),
            src_port: low(word(flow, 2)),
            dst_port: low(word(flow, 3)),
        };
        let long = |flow, place| {
            Ipv6Addr::from(u128::from(word(flow, place)) << 64 | u128::from(word(flow, place + 1)))
        };
        let v6 = |flow: u64| Flow {
            src: long(flow, 4),
            dst: long(flow, 6),
            src_port: low(word(flow, 2)),
            dst_port: low(word(flow, 3)),
        };
        Self {
            v4: (0..FLOW_COUNT).map(v4).collect(),
            v6: (0..FLOW_COUNT).map(v6).collect(),
            batch: BatchToeplitz::new(&Key::microsoft()),
            table: Toeplitz::new(&Key::microsoft()),
        }
    }

    /// A sample of each way.
    pub(crate) fn measure(
        &self,
        settings: &Settings,
        cancel: &Cancel,
        samples: &mut Samples,
    ) -> Result<()> {
        let mut hashes = vec![0; self.v4.len()];
        let mut sample = |name: &'static str, pass: &mut dyn FnMut(&mut [u32])| {
            check(cancel)?;
            if settings.wants(name) {
                let rate = rate(settings, &mut || pass(black_box(&mut hashes)));
                add(samples, name, rate);
            }
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        };
        let one = (Fields::FourTuple, Symmetry::None);
        sample(HASH_V4, &mut |hashes| {
            self.batch.hash_v4(black_box(&self.v4), hashes);
        })?;
        sample(TABLES_V4, &mut |hashes| {
            for (hash, flow) in hashes.iter_mut().zip(black_box(&self.v4)) {
                *hash = self.table.hash(*flow, one.0, one.1);
            }
        })?;
        sample(HASH_V6, &mut |hashes| {
            self.batch.hash_v6(black_box(&self.v6), hashes);
        })?;
        sample(TABLES_V6, &mut |hashes| {
            for (hash, flow) in hashes.iter_mut().zip(black_box(&self.v6)) {
                *hash = self.table.hash(*flow, one.0, one.1);
            }
        })
    }
}

/// Hashes per second of passes over all flows. The time that this thread waited for its CPU is
/// other programs'.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn rate(settings: &Settings, pass: &mut dyn FnMut()) -> f64 {
    let (begin, waited_before, mut passes) = (Instant::now(), waited(), 0_u64);
    loop {
        for _ in 0..16 {
            pass();
        }
        passes += 16;
        let elapsed = begin.elapsed();
        if elapsed >= settings.sample {
            let here = elapsed.saturating_sub(waited().saturating_sub(waited_before));
            return (passes * FLOW_COUNT) as f64 / here.as_secs_f64().max(1e-9);
        }
    }
}

/// How long this thread has waited for its CPU so far (Documentation/scheduler/sched-stats.rst).
fn waited() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited_ns = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    std::time::Duration::from_nanos(waited_ns.unwrap_or(0))
}

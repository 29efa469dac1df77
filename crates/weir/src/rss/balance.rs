//! `weir rss balance`: moves buckets from busy queues to idle ones, by what arrives.
//!
//! The load of a bucket is the packets that a program for traffic control counts where they come
//! in, hashed as the interface says it does. Where that is not what it does, most packets are
//! misplaced, and moving buckets would help nothing: then nothing is moved.

use std::time::Instant;

use anyhow::{Context as _, bail};
use serde::Serialize;
use weir_bpf::ethtool;
use weir_bpf::rss::{BucketCount, QueueMark, Watch};
use weir_machine::rss::card::receiver;
use weir_machine::rss::change::{Change, apply, check};
use weir_machine::rss::open;
use weir_machine::rss::record::Records;
use weir_results::number::{count, counted, share};
use weir_wire::rss::balance::{Bounds, heaviest_ratio, moves};
use weir_wire::rss::{FlowKind, Settings, Table};

use crate::cli::rss::BalanceArgs;
use crate::exit::{self, Outcome};
use crate::progress;
use crate::signals;

/// With more misplaced packets than this, the interface does not do what it says.
const MISPLACED_RATIO_MAX: f64 = 0.1;
/// Fewer packets of an interval say nothing about loads.
const PACKETS_MIN: u64 = 100;

/// What one interval had.
#[derive(Debug, Serialize)]
struct Step {
    packets: u64,
    misplaced_packets: u64,
    /// Packets of the busiest queue, divided by the mean of all queues.
    heaviest_queue_ratio: f64,
    /// The same, had the buckets been where they are now.
    balanced_ratio: f64,
    moves: Vec<Moved>,
}

#[derive(Debug, Serialize)]
struct Moved {
    bucket: usize,
    from_queue: u16,
    to_queue: u16,
}

pub(super) fn command(args: &BalanceArgs) -> anyhow::Result<Outcome> {
    let name = &args.interface;
    let cancel = signals::listen_alone()?;
    let mut records = Records::here()?;
    records.hold(name)?;
    let card = open(name)?;
    let state = card.read()?;
    check(name, &state, &Change::default())?;
    // The table and the key are those of all kinds; which fields count is the program's to know.
    let mut settings = state.settings(name, FlowKind::Udp4)?;
    let queue_count = state.queue_count.map_or(settings.table.queue_count(), |n| n as usize);
    let queue_count = u16::try_from(queue_count).context("the number of its queues")?;
    if queue_count < 2 {
        bail!("interface `{name}` has one receive queue: there is nothing to balance");
    }
    let mark = QueueMark::of_driver(&ethtool::driver(name)?);
    let watch = Watch::load(&settings, mark)?;
    let _link = watch.attach(receiver(name)?.ifindex)?;
    let bounds = Bounds { heaviest_ratio: args.ratio, moves_max: args.moves };
    let (mut before, mut shown, mut next) = (watch.counts()?, 0, Instant::now());
    while args.count.is_none_or(|count| shown < count) {
        next += args.every;
        if !cancel.sleep_until(next) {
            return Ok(Outcome::Signal(cancel.signal().unwrap_or_default()));
        }
        let now = watch.counts()?;
        // Others may have changed it, by ethtool: what was counted then says nothing of it.
        let shown_now = card.read()?.settings(name, FlowKind::Udp4)?;
        if shown_now != settings {
            settings = shown_now;
            watch.believe(&settings)?;
            before = watch.counts()?;
            progress::warn(&format!("{name}: it was changed meanwhile: counted anew"));
            continue;
        }
        let interval = Interval::between(&before, &now);
        let (step, table) = interval.step(&settings, queue_count, bounds);
        if let Some(table) = table {
            let change = Change { table: Some(table.clone()), ..Change::default() };
            apply(card.as_ref(), &change, &records)?;
            settings.table = table;
            watch.believe(&settings)?;
        }
        before = watch.counts()?;
        show(args, name, &step)?;
        shown += 1;
    }
    Ok(Outcome::Done)
}

/// Packets of each bucket between two readings.
struct Interval {
    loads: Vec<u64>,
    misplaced_packets: u64,
}

impl Interval {
    fn between(before: &[BucketCount], now: &[BucketCount]) -> Self {
        let pairs = || before.iter().zip(now);
        let rise = |before: u64, now: u64| now.saturating_sub(before);
        Self {
            loads: pairs().map(|(before, now)| rise(before.packets, now.packets)).collect(),
            misplaced_packets: pairs()
                .map(|(before, now)| rise(before.misplaced_packets, now.misplaced_packets))
                .sum(),
        }
    }

    /// What to say of it, and the table to set, if another one is better.
    fn step(&self, settings: &Settings, queue_count: u16, bounds: Bounds) -> (Step, Option<Table>) {
        let packets: u64 = self.loads.iter().sum();
        let ratio = heaviest_ratio(&self.loads, &settings.table, queue_count);
        let moves = if packets < PACKETS_MIN || self.misplaced_ratio() > MISPLACED_RATIO_MAX {
            Vec::new()
        } else {
            moves(&self.loads, &settings.table, queue_count, bounds)
        };
        let table = settings.table.with(&moves);
        let step = Step {
            packets,
            misplaced_packets: self.misplaced_packets,
            heaviest_queue_ratio: ratio,
            balanced_ratio: heaviest_ratio(&self.loads, &table, queue_count),
            moves: moves
                .iter()
                .map(|one| Moved { bucket: one.bucket, from_queue: one.from, to_queue: one.to })
                .collect(),
        };
        (step, (!moves.is_empty()).then_some(table))
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
    fn misplaced_ratio(&self) -> f64 {
        self.misplaced_packets as f64 / self.loads.iter().sum::<u64>().max(1) as f64
    }
}

fn show(args: &BalanceArgs, name: &str, step: &Step) -> anyhow::Result<()> {
    if args.json.json {
        return exit::put(&format!("{}\n", serde_json::to_string(step)?));
    }
    let mut text = format!(
        "{name}: {}, busiest queue {:.2} times the mean",
        counted(step.packets, "packet"),
        step.heaviest_queue_ratio
    );
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
    let misplaced = step.misplaced_packets as f64 / step.packets.max(1) as f64;
    if step.packets < PACKETS_MIN {
        text += "; too few to tell";
    } else if misplaced > MISPLACED_RATIO_MAX {
        text += &format!(
            "; {} of them on other queues than its settings say: nothing is moved; `weir rss probe \
             {name}` looks closer",
            share(misplaced)
        );
    } else if step.moves.is_empty() {
        text += "; nothing to move";
    } else {
        let moves = count(step.moves.len() as u64);
        text += &format!("; {moves} buckets moved, which makes it {:.2}", step.balanced_ratio);
    }
    exit::put(&(text + "\n"))
}

#[cfg(test)]
mod tests {
    use weir_wire::rss::{Fields, Key, Symmetry};

    use super::*;

    fn settings() -> Settings {
        Settings {
            key: Key::microsoft(),
            table: Table::equal(2, 4).unwrap(),
            symmetry: Symmetry::None,
            fields: [Fields::FourTuple; 4],
        }
    }

    const BOUNDS: Bounds = Bounds { heaviest_ratio: 1.1, moves_max: 8 };

    #[test]
    fn a_busy_queue_gives_buckets_away() {
        let interval = Interval { loads: vec![400, 10, 380, 10], misplaced_packets: 3 };
        let (step, table) = interval.step(&settings(), 2, BOUNDS);
        assert!(step.heaviest_queue_ratio > 1.9 && step.balanced_ratio < 1.1, "{step:?}");
        let [moved] = &step.moves[..] else { panic!("one is enough: {step:?}") };
        assert_eq!((moved.from_queue, moved.to_queue), (0, 1));
        assert_eq!(table.unwrap().queue(moved.bucket), 1);
    }

    #[test]
    fn nothing_moves_where_loads_are_not_known() {
        for interval in [
            Interval { loads: vec![40, 0, 20, 0], misplaced_packets: 0 },
            Interval { loads: vec![4_000, 0, 2_000, 0], misplaced_packets: 3_000 },
        ] {
            let (step, table) = interval.step(&settings(), 2, BOUNDS);
            assert!(step.moves.is_empty() && table.is_none(), "{step:?}");
        }
    }

    #[test]
    fn counters_that_begin_anew_are_no_load() {
        let count =
            |packets| BucketCount { packets, misplaced_packets: 1, ..BucketCount::default() };
        let interval = Interval::between(&[count(9), count(5)], &[count(12), count(0)]);
        assert_eq!((interval.loads, interval.misplaced_packets), (vec![3, 0], 0));
    }
}

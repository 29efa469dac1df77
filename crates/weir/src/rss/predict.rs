//! `weir rss predict`: how flows spread over buckets, queues and CPUs.

use std::collections::BTreeMap;

use anyhow::bail;
use serde::Serialize;
use weir_machine::rss::places::{Roots, with_threads};
use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::number::{bar, count, counted, heights, share};
use weir_wire::flow::FlowSpace;
use weir_wire::rss::pick::distinct_count;
use weir_wire::rss::{Fields, Steering};

use super::{answer, settings};
use crate::cli::rss::FlowsArgs;
use crate::exit::Outcome;

/// Most flows that are counted: about ten seconds' work.
const FLOWS_MAX: u64 = 1 << 30;

/// Characters of the picture of all buckets.
const BUCKET_WIDTH: usize = 64;

/// The answer.
#[derive(Debug, Serialize)]
struct Prediction {
    flow_count: u64,
    fields: String,
    symmetry: String,
    bucket_count: usize,
    queue_count: usize,
    /// Flows of the busiest queue, divided by the mean of all queues.
    heaviest_queue_ratio: f64,
    /// Flows of the busiest bucket, divided by the mean of all buckets.
    heaviest_bucket_ratio: f64,
    empty_bucket_count: usize,
    /// Flows of the busiest CPUs, divided by the mean of all that take packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    heaviest_cpus_ratio: Option<f64>,
    queues: Vec<Queue>,
    /// Empty unless it is known of all queues which CPUs take packets from them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cpus: Vec<Cpus>,
    /// Flows of each bucket, from bucket 0.
    buckets: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Queue {
    queue: usize,
    bucket_count: usize,
    flow_count: u64,
    flow_ratio: f64,
    /// The CPUs that take packets from it, if an interface says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
}

/// The flows of all queues that the same CPUs take packets from.
#[derive(Debug, Serialize)]
struct Cpus {
    cpus: String,
    queue_count: usize,
    flow_count: u64,
    flow_ratio: f64,
}

pub(super) fn command(args: &FlowsArgs) -> anyhow::Result<Outcome> {
    let space = FlowSpace::new(args.src, args.dst)?;
    let steering = settings::steering(&args.steering, args.src.is_ipv6())?;
    if space.flow_count() > FLOWS_MAX {
        bail!(
            "{} are more than are counted one by one ({}): use smaller ranges, whose flows \
             spread in the same way",
            counted(space.flow_count(), "flow"),
            count(FLOWS_MAX)
        );
    }
    let mut buckets = vec![0; steering.table.bucket_count()];
    for (_, place) in steering.places(&space) {
        buckets[place.bucket] += 1;
    }
    let cpus = args.steering.interface.as_deref().map(cpus_of_queues).unwrap_or_default();
    let prediction = Prediction::new(&steering, buckets, &cpus);
    let distinct = distinct_count(&steering, &space);
    answer(args.json.json, &prediction, || prediction.text(&steering, distinct))?;
    Ok(Outcome::Done)
}

/// The CPUs that take packets from the queues of an interface, of those that it is known of.
fn cpus_of_queues(interface: &str) -> BTreeMap<usize, String> {
    let mut places = Roots::default().places(interface);
    with_threads(&mut places, interface);
    let known = places
        .queues
        .iter()
        .filter_map(|place| Some((usize::try_from(place.queue).ok()?, place.cpus()?.to_owned())));
    known.collect()
}

/// The flows of the queues, by their CPUs.
fn by_cpus(queues: &[Queue]) -> Vec<Cpus> {
    let mut all = BTreeMap::<&str, Cpus>::new();
    for queue in queues {
        let Some(cpus) = &queue.cpus else { return Vec::new() };
        let none = || Cpus { cpus: cpus.clone(), queue_count: 0, flow_count: 0, flow_ratio: 0.0 };
        let sum = all.entry(cpus).or_insert_with(none);
        sum.queue_count += 1;
        sum.flow_count += queue.flow_count;
        sum.flow_ratio += queue.flow_ratio;
    }
    all.into_values().collect()
}

/// The share of the busiest of all, divided by the mean.
#[expect(clippy::cast_precision_loss, reason = "there are few CPUs")]
fn busiest(cpus: &[Cpus]) -> Option<f64> {
    let most = cpus.iter().map(|one| one.flow_ratio).reduce(f64::max)?;
    Some(most * cpus.len() as f64)
}

impl Prediction {
    #[expect(clippy::cast_precision_loss, reason = "ratios need no more than 53 bits")]
    fn new(steering: &Steering, buckets: Vec<u64>, cpus: &BTreeMap<usize, String>) -> Self {
        let flow_count: u64 = buckets.iter().sum();
        // Also those that the table leaves out.
        let last = cpus.keys().max().map_or(0, |queue| queue + 1);
        let queue_count = steering.table.queue_count().max(last);
        let mut queues: Vec<Queue> = (0..queue_count)
            .map(|queue| Queue {
                queue,
                bucket_count: 0,
                flow_count: 0,
                flow_ratio: 0.0,
                cpus: cpus.get(&queue).cloned(),
            })
            .collect();
        for (flows, queue) in buckets.iter().zip(steering.table.queues()) {
            let queue = &mut queues[usize::from(*queue)];
            queue.bucket_count += 1;
            queue.flow_count += flows;
        }
        let total = flow_count.max(1) as f64;
        for queue in &mut queues {
            queue.flow_ratio = queue.flow_count as f64 / total;
        }
        let heaviest = |loads: &mut dyn Iterator<Item = u64>, count: usize| {
            loads.max().unwrap_or(0) as f64 * count as f64 / total
        };
        let by_cpus = by_cpus(&queues);
        Self {
            flow_count,
            fields: steering.fields.to_string(),
            symmetry: steering.symmetry.to_string(),
            bucket_count: buckets.len(),
            queue_count,
            heaviest_queue_ratio: heaviest(&mut queues.iter().map(|q| q.flow_count), queue_count),
            heaviest_bucket_ratio: heaviest(&mut buckets.iter().copied(), buckets.len()),
            empty_bucket_count: buckets.iter().filter(|flows| **flows == 0).count(),
            heaviest_cpus_ratio: busiest(&by_cpus),
            cpus: by_cpus,
            queues,
            buckets,
        }
    }

    fn text(&self, steering: &Steering, distinct: u64) -> String {
        let columns = vec![
            Column::numbers("queue"),
            Column::numbers("buckets"),
            Column::numbers("flows"),
            Column::numbers("share"),
            Column::words(""),
        ];
        let most = self.queues.iter().map(|queue| queue.flow_ratio).fold(0.0, f64::max);
        let rows = self.queues.iter().map(|queue| {
            Row::from_iter([
                queue.queue.to_string(),
                queue.bucket_count.to_string(),
                count(queue.flow_count),
                share(queue.flow_ratio),
                bar(queue.flow_ratio, most),
            ])
        });
        let mut text = format!(
            "{} over {} and {}, by the {}\n\n{}\n",
            counted(self.flow_count, "flow"),
            counted(self.bucket_count as u64, "bucket"),
            counted(self.queue_count as u64, "queue"),
            steering.fields,
            Table::new(columns, rows).text(Terminal::default())
        );
        if !self.cpus.is_empty() {
            text += &format!("{}\n", self.cpu_table());
        }
        text += &self.bucket_lines();
        text += &format!(
            "The busiest queue has {:.2} times the mean of all queues, the busiest bucket {:.2} \
             times that of all buckets; {} of {} get no flow.\n",
            self.heaviest_queue_ratio,
            self.heaviest_bucket_ratio,
            self.empty_bucket_count,
            counted(self.bucket_count as u64, "bucket"),
        );
        if let Some(ratio) = self.heaviest_cpus_ratio {
            text += &format!("The busiest CPU has {ratio:.2} times the mean of those in use.\n");
        }
        if steering.fields == Fields::TwoTuple && distinct < self.flow_count {
            text += &format!(
                "Ports are not hashed: these are {} to the hash.\n",
                counted(distinct, "address pair")
            );
        }
        text
    }

    /// How full each bucket is.
    #[expect(clippy::cast_precision_loss, reason = "a picture needs no more than 53 bits")]
    fn bucket_lines(&self) -> String {
        let flows: Vec<f64> = self.buckets.iter().map(|flows| *flows as f64).collect();
        let each = flows.len().div_ceil(BUCKET_WIDTH);
        let heading = match each {
            0 | 1 => "buckets".to_owned(),
            _ => format!("buckets, {each} each"),
        };
        format!("{heading}  {}\n\n", heights(&flows, BUCKET_WIDTH))
    }

    fn cpu_table(&self) -> String {
        let mut columns = ["CPUs", "queues", "flows", "share"].map(Column::numbers).to_vec();
        columns.push(Column::words(""));
        let most = self.cpus.iter().map(|one| one.flow_ratio).fold(0.0, f64::max);
        let rows = self.cpus.iter().map(|one| {
            Row::from_iter([
                one.cpus.clone(),
                one.queue_count.to_string(),
                count(one.flow_count),
                share(one.flow_ratio),
                bar(one.flow_ratio, most),
            ])
        });
        Table::new(columns, rows).text(Terminal::default())
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::rss::{Key, Symmetry, Table, Toeplitz};

    use super::*;

    fn prediction(cpus: &[(usize, &str)]) -> (Prediction, Steering) {
        let steering = Steering {
            toeplitz: Toeplitz::new(&Key::microsoft()),
            fields: Fields::FourTuple,
            symmetry: Symmetry::None,
            table: Table::equal(4, 4).unwrap(),
        };
        let cpus = cpus.iter().map(|(queue, cpus)| (*queue, (*cpus).to_owned())).collect();
        (Prediction::new(&steering, vec![10, 20, 30, 40], &cpus), steering)
    }

    #[test]
    fn the_queues_of_a_cpu_are_added_up() {
        let (prediction, steering) = prediction(&[(0, "0"), (1, "1"), (2, "0"), (3, "2-3")]);
        let found: Vec<_> =
            prediction.cpus.iter().map(|one| (one.cpus.as_str(), one.flow_count)).collect();
        assert_eq!(found, [("0", 40), ("1", 20), ("2-3", 40)]);
        assert_eq!(prediction.cpus[0].queue_count, 2);
        let text = prediction.text(&steering, 100);
        assert!(text.contains("\nCPUs  queues"), "{text}");
        assert!(text.contains("\nbuckets  ▃▅▆█\n"), "{text}");
    }

    #[test]
    fn a_queue_that_the_table_leaves_out_counts_in_the_mean() {
        let cpus = [(0, "0"), (1, "1"), (2, "2"), (3, "3"), (7, "0")];
        let (prediction, _) = prediction(&cpus);
        assert_eq!((prediction.queue_count, prediction.queues[7].flow_count), (8, 0));
        assert!((prediction.heaviest_queue_ratio - 3.2).abs() < 1e-9, "{prediction:?}");
    }

    #[test]
    fn without_all_of_them_no_cpu_is_shown() {
        for some in [&[][..], &[(0, "0"), (1, "1"), (2, "0")]] {
            let (prediction, steering) = prediction(some);
            assert!(prediction.cpus.is_empty(), "{prediction:?}");
            assert!(!prediction.text(&steering, 100).contains("CPUs"));
        }
    }
}

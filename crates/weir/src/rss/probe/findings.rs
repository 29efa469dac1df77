//! What a probe has found: prediction and observation side by side. Nothing is sent or read here.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use weir_bpf::rss::Arrival;
use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::number::{count, counted, share};
use weir_wire::flow::Flow;
use weir_wire::rss::{Fields, FlowKind, Key, Settings, Steering};

/// One flow.
#[derive(Debug, Serialize)]
pub(super) struct Probed {
    pub(super) src: SocketAddr,
    pub(super) dst: SocketAddr,
    /// Absent where nothing can be predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_queue: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_hash: Option<String>,
    /// Absent if it did not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seen_queue: Option<u32>,
    /// The card's, where it shows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_cpu: Option<u32>,
}

/// Flows of a queue.
#[derive(Debug, Serialize)]
struct Queue {
    queue: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_flow_count: Option<usize>,
    seen_flow_count: usize,
    /// CPUs that received them.
    cpus: Vec<u32>,
}

/// Whose key flows are predicted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeySource {
    /// The card's, as its driver shows it.
    Card,
    /// The kernel's, which drivers take that have none; this one does not show any.
    Kernel,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    interface: String,
    flow_count: usize,
    lost_flow_count: usize,
    /// Absent where nothing can be predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_source: Option<KeySource>,
    /// On another queue than predicted; absent where nothing can be predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced_flow_count: Option<usize>,
    /// Flows that came with a hash, and those of them whose hash was as predicted.
    hash_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    right_hash_count: Option<usize>,
    /// Settings by which all flows would be where they are, where those that are shown are wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
    /// Whether hash modulo size and the table give the queue that was seen, of flows with a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    table_holds: Option<bool>,
    queues: Vec<Queue>,
    pub(super) flows: Vec<Probed>,
}

impl Findings {
    pub(super) fn new(
        interface: &str,
        flows: &[Flow<IpAddr>],
        seen: &[Option<Arrival>],
        settings: Option<&Settings>,
        kind: FlowKind,
    ) -> Self {
        let steering = settings.map(|settings| settings.steering(kind));
        let probed: Vec<Probed> = flows
            .iter()
            .zip(seen)
            .map(|(flow, arrival)| Probed::new(*flow, *arrival, steering.as_ref()))
            .collect();
        let misplaced = |steering: &Steering| misplaced_count(steering, flows, seen);
        let misplaced_flow_count = steering.as_ref().map(misplaced);
        let explanation = settings
            .filter(|_| misplaced_flow_count.is_some_and(|count| count > 0))
            .and_then(|settings| explain(settings, kind, &misplaced));
        let hashes = || flows.iter().zip(seen).filter_map(|(flow, one)| Some((flow, (*one)?)));
        let hashes = || hashes().filter(|(_, arrival)| arrival.hash != 0);
        Self {
            interface: interface.to_owned(),
            flow_count: flows.len(),
            lost_flow_count: seen.iter().filter(|arrival| arrival.is_none()).count(),
            key_source: None,
            misplaced_flow_count,
            hash_count: hashes().count(),
            right_hash_count: steering.as_ref().map(|steering| {
                hashes().filter(|(flow, seen)| steering.hash(**flow) == seen.hash).count()
            }),
            explanation,
            table_holds: steering.as_ref().filter(|_| hashes().count() > 0).map(|steering| {
                hashes().all(|(_, seen)| u32::from(steering.place(seen.hash).queue) == seen.queue)
            }),
            queues: queues(&probed, steering.is_some()),
            flows: probed,
        }
    }

    /// Whether every flow arrived, and where it was predicted to, if that is asked for.
    pub(super) fn is_good(&self, is_learning: bool) -> bool {
        self.lost_flow_count == 0 && (is_learning || self.misplaced_flow_count == Some(0))
    }

    pub(super) fn text(&self) -> String {
        let columns = ["queue", "predicted", "seen", "by CPU"].map(Column::numbers).to_vec();
        let rows = self.queues.iter().map(|queue| {
            let cpus: Vec<String> = queue.cpus.iter().map(ToString::to_string).collect();
            let predicted = queue.predicted_flow_count.map(|flows| count(flows as u64));
            Row::from_iter([
                queue.queue.to_string(),
                predicted.unwrap_or_else(|| "-".into()),
                count(queue.seen_flow_count as u64),
                cpus.join(","),
            ])
        });
        let mut text = format!(
            "{}: a packet of each of {}\n\n{}\n",
            self.interface,
            counted(self.flow_count as u64, "flow"),
            Table::new(columns, rows).text(Terminal::default())
        );
        // Writing to a text cannot fail.
        if self.lost_flow_count > 0 {
            let lost = counted(self.lost_flow_count as u64, "flow");
            let _ = writeln!(text, "{lost} did not arrive.");
        }
        if self.key_source == Some(KeySource::Kernel) {
            text += "The driver shows no key: it is predicted by the kernel's (netdev_rss_key).\n";
        }
        match self.misplaced_flow_count {
            None => text += "Nothing is predicted: the interface does not show by what.\n",
            Some(0) => text += "Every flow that arrived is on the queue that was predicted.\n",
            Some(misplaced) => {
                let arrived = self.flow_count - self.lost_flow_count;
                #[expect(clippy::cast_precision_loss, reason = "counts of flows are small")]
                let part = share(misplaced as f64 / arrived.max(1) as f64);
                let misplaced = counted(misplaced as u64, "flow");
                let _ = writeln!(text, "{misplaced} ({part}) on another queue than predicted.");
                match &self.explanation {
                    Some(why) => {
                        let _ = writeln!(text, "All are where they would be by {why}.");
                    }
                    None => {
                        text += "The interface does not do what it shows: --learn goes by what \
                                 is seen.\n";
                    }
                }
            }
        }
        text += &match (self.hash_count as u64, self.right_hash_count) {
            (0, _) => "The card shows no hash.\n".to_owned(),
            (hashes, Some(right)) => {
                format!(
                    "The hash that was computed: {} of {}.\n",
                    count(right as u64),
                    counted(hashes, "flow")
                )
            }
            (hashes, None) => format!("The card shows the hash of {}.\n", counted(hashes, "flow")),
        };
        text
    }
}

impl Probed {
    fn new(flow: Flow<IpAddr>, arrival: Option<Arrival>, steering: Option<&Steering>) -> Self {
        let place = steering.map(|steering| steering.place(steering.hash(flow)));
        let hash = |hash: u32| format!("{hash:08x}");
        Self {
            src: (flow.src, flow.src_port).into(),
            dst: (flow.dst, flow.dst_port).into(),
            predicted_queue: place.map(|place| place.queue),
            predicted_hash: place.map(|place| hash(place.hash)),
            seen_queue: arrival.map(|arrival| arrival.queue),
            seen_hash: arrival.map(|a| a.hash).filter(|hash| *hash != 0).map(hash),
            seen_cpu: arrival.map(|arrival| arrival.cpu),
        }
    }
}

fn queues(flows: &[Probed], is_predicted: bool) -> Vec<Queue> {
    let numbers = flows
        .iter()
        .flat_map(|flow| flow.seen_queue.into_iter().chain(flow.predicted_queue.map(u32::from)));
    let numbers: std::collections::BTreeSet<u32> = numbers.collect();
    let queue = |queue: u32| {
        let seen = || flows.iter().filter(move |flow| flow.seen_queue == Some(queue));
        let predicted =
            flows.iter().filter(|flow| flow.predicted_queue.map(u32::from) == Some(queue));
        let cpus: std::collections::BTreeSet<u32> = seen().filter_map(|f| f.seen_cpu).collect();
        Queue {
            queue,
            predicted_flow_count: is_predicted.then(|| predicted.count()),
            seen_flow_count: seen().count(),
            cpus: cpus.into_iter().collect(),
        }
    };
    numbers.into_iter().map(queue).collect()
}

fn misplaced_count(steering: &Steering, flows: &[Flow<IpAddr>], seen: &[Option<Arrival>]) -> usize {
    let is_elsewhere = |(flow, arrival): (&Flow<IpAddr>, &Option<Arrival>)| {
        arrival.is_some_and(|arrival| {
            u32::from(steering.place(steering.hash(*flow)).queue) != arrival.queue
        })
    };
    flows.iter().zip(seen).filter(|pair| is_elsewhere(*pair)).count()
}

/// Other settings, near those that are shown, by which every flow is where it was seen.
fn explain(
    shown: &Settings,
    kind: FlowKind,
    misplaced: &dyn Fn(&Steering) -> usize,
) -> Option<String> {
    let other = match shown.fields_of(kind) {
        Fields::TwoTuple => Fields::FourTuple,
        Fields::FourTuple => Fields::TwoTuple,
    };
    let with = |key: Key, fields: Fields| Settings { key, fields: [fields; 4], ..shown.clone() };
    let guesses = [
        (with(shown.key.clone(), other), format!("the {other}")),
        (with(Key::microsoft(), shown.fields_of(kind)), "Microsoft's key".to_owned()),
        (with(Key::microsoft(), other), format!("Microsoft's key and the {other}")),
    ];
    let guess = guesses.into_iter().find(|(guess, _)| misplaced(&guess.steering(kind)) == 0);
    guess.map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use weir_wire::flow::FlowSpace;
    use weir_wire::range::AddrRange;
    use weir_wire::rss::Symmetry;

    use super::*;

    fn settings(fields: Fields) -> Settings {
        Settings {
            key: Key::random(3, 40, 128).unwrap().0,
            table: "equal:4".parse().unwrap(),
            symmetry: Symmetry::None,
            fields: [fields; 4],
        }
    }

    fn flows() -> Vec<Flow<IpAddr>> {
        let range = |text: &str| text.parse::<AddrRange>().unwrap();
        let space =
            FlowSpace::new(range("10.0.0.1:1000-10.0.0.9:1009"), range("10.0.1.1:7")).unwrap();
        space.iter().collect()
    }

    /// Where a card with these settings puts the flows.
    fn seen(settings: &Settings) -> Vec<Option<Arrival>> {
        let steering = settings.steering(FlowKind::Udp4);
        let arrival = |flow: Flow<IpAddr>| {
            let place = steering.place(steering.hash(flow));
            let (queue, hash) = (place.queue.into(), place.hash);
            Some(Arrival { packets: 1, queue, hash, cpu: 1, change_count: 0 })
        };
        flows().into_iter().map(arrival).collect()
    }

    #[test]
    fn what_is_where_it_should_be_is_good() {
        let shown = settings(Fields::FourTuple);
        let mut seen = seen(&shown);
        let found = Findings::new("x", &flows(), &seen, Some(&shown), FlowKind::Udp4);
        assert_eq!((found.misplaced_flow_count, found.right_hash_count), (Some(0), Some(90)));
        assert!(found.is_good(false) && found.text().contains("computed: 90 of 90 flows"));
        seen[5] = None;
        let found = Findings::new("x", &flows(), &seen, Some(&shown), FlowKind::Udp4);
        assert!(!found.is_good(false) && found.text().contains("1 flow did not arrive"));
    }

    #[test]
    fn another_key_or_other_fields_are_recognised() {
        let shown = settings(Fields::FourTuple);
        let found = |done: &Settings| {
            Findings::new("x", &flows(), &seen(done), Some(&shown), FlowKind::Udp4)
        };
        let addresses = found(&settings(Fields::TwoTuple));
        assert_eq!(addresses.explanation.as_deref(), Some("the 2-tuple"));
        assert!(!addresses.is_good(false) && addresses.is_good(true));
        let key = found(&Settings { key: Key::microsoft(), ..shown.clone() });
        assert_eq!(key.explanation.as_deref(), Some("Microsoft's key"));
        assert_eq!(key.table_holds, Some(true));
        let other = Key::random(9, 40, 128).unwrap().0;
        let unknown = found(&Settings { key: other, ..shown.clone() });
        assert_eq!(unknown.explanation, None);
        assert!(unknown.text().contains("does not do what it shows"), "{}", unknown.text());
    }

    #[test]
    fn without_settings_it_is_only_looked() {
        let done = settings(Fields::FourTuple);
        let found = Findings::new("x", &flows(), &seen(&done), None, FlowKind::Udp4);
        assert!(found.is_good(true) && !found.is_good(false));
        assert_eq!(found.queues.iter().map(|queue| queue.seen_flow_count).sum::<usize>(), 90);
        assert!(found.text().contains("Nothing is predicted"));
    }
}

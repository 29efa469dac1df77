//! Why flows concentrate on few CPUs, by what an interface says of itself. Pure.
//!
//! Each finding has the command that mends it. Nothing is a finding that cannot be seen in the
//! settings: whether a card follows them, only a probe tells.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weir_bpf::ethtool::rss::{HashFields, HashFunction};
use weir_wire::rss::{FlowKind, Key};

use super::places::{Places, QueuePlace};
use weir_rss::card::State;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The interface has no receive side scaling.
    NoRss,
    /// It has one receive queue.
    OneQueue,
    /// The kernel's switch for the hash is off.
    HashOff,
    /// UDP is hashed by its addresses alone.
    UdpByAddresses,
    /// UDP is hashed by ports, and fragments, which have none, come in.
    Fragments,
    /// The table has no bucket for some queue.
    FewQueues,
    /// A queue has more buckets than others.
    UnevenTable,
    /// The key leaves out buckets for a run of addresses or ports.
    WeakKey,
    /// The hash is not Toeplitz's.
    OtherHash,
    /// The CPUs of several queues are the same.
    SharedCpu,
    /// Software spreads again what the card has spread.
    RpsOnRss,
    /// Interrupts are moved while packets come in.
    Irqbalance,
}

/// Something that keeps flows from spreading, or packets in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    /// What is so, and what follows from it.
    pub what: String,
    /// What mends it.
    pub command: String,
}

/// What is looked at.
#[derive(Debug)]
pub struct Subject<'a> {
    pub interface: &'a str,
    /// `None` if it has no receive side scaling.
    pub state: Option<&'a State>,
    pub places: &'a Places,
    /// The feature `rx-hashing` (`ethtool -k`); `None` if the driver has none.
    pub hashes: Option<bool>,
    /// CPUs of this host.
    pub cpu_count: usize,
}

/// What is wrong with how an interface spreads its packets, the gravest first.
#[must_use]
pub fn findings(subject: &Subject<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    let queue_count = subject.queue_count();
    if let Some(state) = subject.state {
        hashing(subject, state, queue_count, &mut all);
    } else if queue_count > 1 {
        all.push(subject.no_rss(queue_count));
    }
    if queue_count == 1 {
        let name = subject.interface;
        all.push(Finding {
            kind: Kind::OneQueue,
            what: "one receive queue: one CPU takes all packets from the card".into(),
            command: format!("ethtool -L {name} combined {}", subject.cpu_count),
        });
    }
    working(subject, queue_count, &mut all);
    all
}

impl Subject<'_> {
    fn queue_count(&self) -> u32 {
        let counted = self.state.and_then(|state| state.queue_count);
        counted.unwrap_or_else(|| u32::try_from(self.places.queues.len()).unwrap_or(u32::MAX))
    }

    fn no_rss(&self, queue_count: u32) -> Finding {
        Finding {
            kind: Kind::NoRss,
            what: format!(
                "{queue_count} receive queues, but the driver shows no receive side scaling: what \
                 decides on the queue is not known"
            ),
            command: format!(
                "weir rss probe {} --learn --from NETNS|HOST --src RANGE --dst ADDRESS:PORT",
                self.interface
            ),
        }
    }
}

/// Findings of hash, key and table.
fn hashing(subject: &Subject<'_>, state: &State, queue_count: u32, all: &mut Vec<Finding>) {
    let name = subject.interface;
    let mut add = |kind, what: String, command: String| all.push(Finding { kind, what, command });
    if subject.hashes == Some(false) && !state.is_wire {
        add(
            Kind::HashOff,
            "the feature rx-hashing is off: some drivers (virtio) then do not do what they show"
                .into(),
            format!("ethtool -K {name} rxhash on"),
        );
    }
    let by_addresses = |kind: &FlowKind| {
        state.fields[*kind as usize].map(HashFields::of).is_some_and(|fields| !fields.src_port)
    };
    let udp = [FlowKind::Udp4, FlowKind::Udp6];
    let two: Vec<FlowKind> = udp.into_iter().filter(by_addresses).collect();
    if !two.is_empty() {
        let names: Vec<String> = two.iter().map(ToString::to_string).collect();
        let fields: Vec<String> = names.iter().map(|name| format!("{name}=4-tuple")).collect();
        add(
            Kind::UdpByAddresses,
            format!(
                "{}: hashed by addresses alone, so that all UDP between two hosts shares a queue",
                names.join(" and ")
            ),
            format!("weir rss set {name} --fields {}", fields.join(",")),
        );
    }
    if two.len() < udp.len() && subject.places.fragment_count > 0 {
        add(
            Kind::Fragments,
            format!(
                "{} fragments came to this host: they are hashed by addresses, so packets of one \
                 UDP flow take two ways and may overtake each other",
                subject.places.fragment_count
            ),
            format!("weir rerss run -i {name}"),
        );
    }
    table(name, state, queue_count, &mut add);
    if let Some(function) = state.function.filter(|one| *one != HashFunction::Toeplitz) {
        add(
            Kind::OtherHash,
            format!("the hash is {function:?}, which cannot be predicted here"),
            format!("ethtool -X {name} hfunc toeplitz"),
        );
    } else if let Ok(key) = Key::new(&state.key) {
        let weak = key.weaknesses(state.table.len().max(1));
        let fields: Vec<String> = weak
            .iter()
            .map(|w| format!("{w} ({} of {} buckets)", w.reached_count, w.reachable_count))
            .collect();
        if !weak.is_empty() {
            add(
                Kind::WeakKey,
                format!("the key is weak for runs of 256 {}", fields.join(", ")),
                format!("weir rss set {name} --key random"),
            );
        }
    }
}

fn table(name: &str, state: &State, queue_count: u32, add: &mut dyn FnMut(Kind, String, String)) {
    let mut buckets: BTreeMap<u32, usize> = BTreeMap::new();
    for queue in &state.table {
        *buckets.entry(*queue).or_default() += 1;
    }
    let (Some(most), Some(least)) = (buckets.values().max(), buckets.values().min()) else {
        return;
    };
    let even = format!("weir rss set {name} --table equal:{queue_count}");
    if (buckets.len() as u64) < u64::from(queue_count) {
        add(
            Kind::FewQueues,
            format!("the table gives buckets to {} of {queue_count} queues", buckets.len()),
            even,
        );
    } else if most - least > 1 {
        add(
            Kind::UnevenTable,
            format!("a queue has {most} buckets of the table, another {least}"),
            even,
        );
    }
}

/// Findings of the CPUs that work on queues.
fn working(subject: &Subject<'_>, queue_count: u32, all: &mut Vec<Finding>) {
    let places = subject.places;
    let mut by_cpus: BTreeMap<&str, Vec<&QueuePlace>> = BTreeMap::new();
    for place in &places.queues {
        if let Some(cpus) = place.cpus() {
            by_cpus.entry(cpus).or_default().push(place);
        }
    }
    // Where every CPU has queues, some have to share one.
    let free = free_cpu(&by_cpus, subject.cpu_count);
    let shared = by_cpus.iter().filter(|(_, shared)| shared.len() > 1);
    for (free, (cpus, shared)) in free.into_iter().cycle().zip(shared) {
        let numbers: Vec<String> = shared.iter().map(|place| place.queue.to_string()).collect();
        let last = shared[shared.len() - 1];
        let command = match (last.napi_thread, last.irq) {
            (Some(pid), _) => format!("taskset --pid --cpu-list {free} {pid}"),
            (None, Some(irq)) => {
                format!("echo {free} > /proc/irq/{irq}/smp_affinity_list")
            }
            (None, None) => continue,
        };
        all.push(Finding {
            kind: Kind::SharedCpu,
            what: format!("queues {} are worked on by CPU {cpus}", numbers.join(", ")),
            command,
        });
    }
    let steered: Vec<u32> =
        places.queues.iter().filter(|q| q.rps_cpus.is_some()).map(|q| q.queue).collect();
    if queue_count > 1 && !steered.is_empty() {
        let files = format!("/sys/class/net/{}/queues/rx-*/rps_cpus", subject.interface);
        all.push(Finding {
            kind: Kind::RpsOnRss,
            what: format!(
                "receive packet steering is on for {} of {queue_count} queues: software moves \
                 packets to other CPUs than the card chose",
                steered.len()
            ),
            command: format!("echo 0 | tee {files}"),
        });
    }
    let has_interrupts = places.queues.iter().any(|place| place.irq.is_some());
    if let Some(pid) = places.irqbalance.filter(|_| has_interrupts) {
        all.push(Finding {
            kind: Kind::Irqbalance,
            what: format!("irqbalance runs (process {pid}): it moves interrupts between CPUs"),
            command: "systemctl stop irqbalance".into(),
        });
    }
}

/// A CPU that works on no queue.
fn free_cpu(by_cpus: &BTreeMap<&str, Vec<&QueuePlace>>, cpu_count: usize) -> Option<usize> {
    let used: BTreeSet<usize> = by_cpus
        .keys()
        .filter_map(|cpus| cpus.parse::<weir_net::CpuList>().ok())
        .flat_map(|cpus| cpus.iter().collect::<Vec<_>>())
        .collect();
    (0..cpu_count).find(|cpu| !used.contains(cpu))
}

#[cfg(test)]
mod tests {
    use weir_bpf::ethtool::rss::HashInput;

    use super::*;

    /// A card of two queues with nothing wrong.
    fn good() -> (State, Places) {
        let state = State {
            function: Some(HashFunction::Toeplitz),
            input: HashInput::AsIs,
            key: Key::random(1, 40, 4).unwrap().0.bytes().to_vec(),
            table: vec![0, 1, 0, 1],
            fields: [Some(0xf0); 4],
            queue_count: Some(2),
            contexts: Vec::new(),
            is_wire: false,
        };
        let queue = |queue: u32| QueuePlace {
            queue,
            irq: Some(40 + queue),
            irq_cpus: Some(queue.to_string()),
            ..QueuePlace::default()
        };
        (state, Places { queues: vec![queue(0), queue(1)], ..Places::default() })
    }

    fn found(spoil: impl FnOnce(&mut State, &mut Places), hashes: bool) -> Vec<Finding> {
        let (mut state, mut places) = good();
        spoil(&mut state, &mut places);
        let subject = Subject {
            interface: "eth1",
            state: Some(&state),
            places: &places,
            hashes: Some(hashes),
            cpu_count: 2,
        };
        findings(&subject)
    }

    #[test]
    fn what_is_right_is_no_finding() {
        assert_eq!(found(|_, _| {}, true), []);
    }

    #[test]
    fn each_fault_is_found_alone_with_what_mends_it() {
        type Spoil = fn(&mut State, &mut Places);
        let cases: [(Kind, Spoil, &str); 9] = [
            (
                Kind::UdpByAddresses,
                |state, _| state.fields[1] = Some(0x30),
                "weir rss set eth1 --fields udp4=4-tuple",
            ),
            (Kind::Fragments, |_, places| places.fragment_count = 9, "weir rerss run -i eth1"),
            (
                Kind::FewQueues,
                |state, _| state.table = vec![1; 4],
                "weir rss set eth1 --table equal:2",
            ),
            (
                Kind::UnevenTable,
                |state, _| state.table = vec![0, 1, 1, 1],
                "weir rss set eth1 --table equal:2",
            ),
            (Kind::WeakKey, |state, _| state.key = vec![0; 40], "weir rss set eth1 --key random"),
            (
                Kind::OtherHash,
                |state, _| state.function = Some(HashFunction::Crc32),
                "ethtool -X eth1 hfunc toeplitz",
            ),
            (
                Kind::RpsOnRss,
                |_, places| places.queues[1].rps_cpus = Some("0-1".into()),
                "echo 0 | tee /sys/class/net/eth1/queues/rx-*/rps_cpus",
            ),
            (
                Kind::Irqbalance,
                |_, places| places.irqbalance = Some(77),
                "systemctl stop irqbalance",
            ),
            (
                Kind::SharedCpu,
                |_, places| places.queues[0].irq_cpus = Some("1".into()),
                "echo 0 > /proc/irq/41/smp_affinity_list",
            ),
        ];
        for (kind, spoil, command) in cases {
            let found = found(spoil, true);
            let [finding] = &found[..] else { panic!("{kind:?}: {found:?}") };
            assert_eq!(finding.kind, kind);
            assert!(finding.command.contains(command), "{finding:?}");
        }
        let off = found(|_, _| {}, false);
        assert_eq!((off[0].kind, off.len()), (Kind::HashOff, 1));
    }

    #[test]
    fn an_interface_without_it_has_too_few_queues_or_none_that_is_known() {
        let (_, mut places) = good();
        let of = |places: &Places| {
            findings(&Subject {
                interface: "eth1",
                state: None,
                places,
                hashes: None,
                cpu_count: 2,
            })
        };
        assert_eq!(of(&places)[0].kind, Kind::NoRss);
        places.queues.truncate(1);
        let found = of(&places);
        assert_eq!((found[0].kind, found.len()), (Kind::OneQueue, 1));
        assert!(found[0].command.starts_with("ethtool -L eth1 combined"));
    }
}

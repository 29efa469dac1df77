//! A wire that spreads packets as a card with receive side scaling: every flow arrives on the queue
//! and with the hash that is computed for it.

use std::thread;
use std::time::{Duration, Instant};

use weir_bpf::ethtool;
use weir_bpf::rss::{Arrival, Arrivals, QueueMark, Receiver, Watch, Wire, WireSettings};
use weir_gen::backend::{Backend as _, RunOptions};
use weir_gen::packet::PacketGenerator;
use weir_wire::flow::FlowSpace;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::rss::{Fields, FlowKind, Key, Settings, Symmetry, Table};
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamSpec, size_bytes_min};
use weir_wire::traffic::Traffic;

use crate::support::{Namespace, privileged};

const QUEUE_COUNT: u16 = 4;
/// Slow enough for rings of 256 packets on a busy machine that empties them in its own time.
const RATE: &str = "20kpps";
const PATIENCE: Duration = Duration::from_secs(20);

/// `out` and `in` in a namespace, with four queues each.
struct Bed {
    namespace: Namespace,
    out: u32,
    arrives: u32,
}

impl Bed {
    fn new() -> Self {
        let namespace = Namespace::new();
        let queues = format!("numtxqueues {QUEUE_COUNT} numrxqueues {QUEUE_COUNT}");
        namespace.ip(&format!("link add out {queues} type veth peer name in {queues}"));
        namespace.ip("link set in up");
        namespace.ip("link set out up");
        namespace.inside(|| {
            ethtool::set_gro("in", true).expect("a veth has GRO");
            ethtool::set_tso("out", false).expect("a veth has TSO");
        });
        let (out, arrives) = (namespace.ifindex("out"), namespace.ifindex("in"));
        Self { namespace, out, arrives }
    }

    fn receiver(&self) -> Receiver {
        Receiver { netns: self.namespace.inode(), ifindex: self.arrives }
    }

    /// Sends a packet of each flow, and says where each arrived.
    fn send(&self, spec: &StreamSpec, flow_count: u32) -> Vec<Option<Arrival>> {
        let arrivals = Arrivals::load(flow_count, QueueMark::Number).expect("it loads");
        self.namespace.inside(|| {
            let _link = arrivals.attach(self.arrives).expect("it attaches");
            let traffic = Traffic::one(spec.clone()).expect("it can be sent");
            let sender = PacketGenerator::through_stack(&traffic, self.out, &[0]);
            let mut sender = sender.expect("it is set up");
            let options = RunOptions {
                rate: RATE.parse().expect("a rate"),
                ramp: Duration::ZERO,
                packet_limit: Some(u64::from(flow_count)),
                first_sequence: 0,
                timestamps: false,
            };
            sender.start(options).expect("it starts");
            sender.wait().expect("it ends by itself");
            let deadline = Instant::now() + PATIENCE;
            loop {
                let seen = arrivals.read().expect("it is read");
                if seen.iter().all(Option::is_some) || Instant::now() > deadline {
                    return seen;
                }
                thread::sleep(Duration::from_millis(10));
            }
        })
    }
}

fn stream(kind: FlowKind) -> StreamSpec {
    let (src, dst) = match kind {
        FlowKind::Tcp4 | FlowKind::Udp4 => {
            ("198.18.10.1:2000-198.18.10.30:2099", "198.19.10.1:53-198.19.10.2:60")
        }
        FlowKind::Tcp6 | FlowKind::Udp6 => {
            ("[2001:2::1]:2000-[2001:2::30]:2099", "[2001:2:0:8000::1]:53-[2001:2:0:8000::2]:60")
        }
    };
    let range = |text: &str| text.parse().expect("a range");
    let macs = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));
    let spec = StreamSpec::new(macs.0, macs.1, range(src), range(dst));
    let is_udp = matches!(kind, FlowKind::Udp4 | FlowKind::Udp6);
    let protocol = if is_udp { Protocol::Udp } else { Protocol::TCP_SYN };
    let smallest = size_bytes_min(0, spec.src.is_ipv6(), protocol);
    StreamSpec { protocol, sizes: Sizes::Fixed(smallest), ..spec }
}

fn settings(seed: u64, table: Table, symmetry: Symmetry, fields: Fields) -> Settings {
    let key = Key::random(seed, 40, 128).expect("a length that keys have").0;
    Settings { key, table, symmetry, fields: [fields; 4] }
}

/// Flows that arrived elsewhere than these settings say, or with another hash.
fn misplaced(settings: &Settings, kind: FlowKind, seen: &[Option<Arrival>]) -> usize {
    let spec = stream(kind);
    let space = FlowSpace::new(spec.src, spec.dst).expect("flows");
    let steering = settings.steering(kind);
    let places = steering.places(&space).zip(seen);
    let is_there = |place: weir_wire::rss::steering::Place, arrival: &Option<Arrival>| {
        arrival.is_some_and(|arrival| {
            (arrival.queue, arrival.hash) == (place.queue.into(), place.hash)
                && (arrival.packets, arrival.change_count) == (1, 0)
        })
    };
    places.filter(|((_, place), arrival)| !is_there(*place, arrival)).count()
}

#[test]
fn every_flow_arrives_where_it_is_predicted_to() {
    if !privileged() {
        return;
    }
    let bed = Bed::new();
    let tables = ["equal:4", "equal:3/7", "0,3,0,1", "weights:1,0,2,5/48", "equal:4/2048"];
    for (seed, table) in (1..).zip(tables) {
        let table: Table = table.parse().expect("a table");
        let (symmetry, fields) = match seed {
            2 => (Symmetry::Xor, Fields::FourTuple),
            3 => (Symmetry::OrXor, Fields::FourTuple),
            4 => (Symmetry::None, Fields::TwoTuple),
            _ => (Symmetry::None, Fields::FourTuple),
        };
        let settings = settings(seed, table, symmetry, fields);
        let wire = Wire::load(&settings, bed.receiver()).expect("it loads");
        let _link = bed.namespace.inside(|| wire.attach(bed.out)).expect("it attaches");
        let watch = Watch::load(&settings, QueueMark::Number).expect("it loads");
        let _watching = bed.namespace.inside(|| watch.attach(bed.arrives)).expect("it attaches");
        for kind in FlowKind::ALL {
            let seen = bed.send(&stream(kind), 500);
            assert_eq!(misplaced(&settings, kind, &seen), 0, "{kind} {}: {seen:?}", settings.table);
        }
        let counts = watch.counts().expect("they are read");
        assert_eq!(counts.len(), settings.table.bucket_count());
        assert_eq!(counts.iter().map(|bucket| bucket.packets).sum::<u64>(), 2_000);
        assert_eq!(counts.iter().map(|bucket| bucket.misplaced_packets).sum::<u64>(), 0);
    }
}

#[test]
fn a_wire_is_found_by_its_end_and_changed_while_it_is_in_use() {
    if !privileged() {
        return;
    }
    let bed = Bed::new();
    let first =
        settings(1, Table::equal(2, 16).expect("a table"), Symmetry::None, Fields::TwoTuple);
    let wire = Wire::load(&first, bed.receiver()).expect("it loads");
    let _link = bed.namespace.inside(|| wire.attach(bed.out)).expect("it attaches");
    let elsewhere = Receiver { netns: bed.receiver().netns, ifindex: bed.out };
    assert!(WireSettings::find(elsewhere).expect("maps are listed").is_none());
    let found = WireSettings::find(bed.receiver()).expect("maps are listed").expect("it is there");
    assert_eq!(found.read().expect("settings"), first);
    let table = Table::equal(4, 16).expect("a table");
    let second = settings(2, table, Symmetry::None, Fields::FourTuple);
    found.write(&second).expect("it is changed");
    let seen = bed.send(&stream(FlowKind::Udp4), 200);
    assert_eq!(misplaced(&second, FlowKind::Udp4, &seen), 0);
    let larger =
        settings(2, Table::equal(4, 32).expect("a table"), Symmetry::None, Fields::FourTuple);
    let error = found.write(&larger).expect_err("a table keeps its size").to_string();
    assert!(error.contains("has 16 entries") && error.contains("cannot have 32"), "{error}");
}

/// What some cards do, and only packets can tell.
#[test]
fn a_key_that_is_shown_but_not_used_is_found_out() {
    if !privileged() {
        return;
    }
    let bed = Bed::new();
    let real =
        settings(1, Table::equal(4, 64).expect("a table"), Symmetry::None, Fields::FourTuple);
    let shown = Settings { key: Key::microsoft(), ..real.clone() };
    let wire = Wire::load_as(&real, &shown.key, bed.receiver()).expect("it loads");
    let _link = bed.namespace.inside(|| wire.attach(bed.out)).expect("it attaches");
    let watch = Watch::load(&shown, QueueMark::Number).expect("it loads");
    let _watching = bed.namespace.inside(|| watch.attach(bed.arrives)).expect("it attaches");
    let seen = bed.send(&stream(FlowKind::Tcp6), 400);
    assert_eq!(misplaced(&real, FlowKind::Tcp6, &seen), 0);
    // A guess is right for one flow in four.
    assert!(misplaced(&shown, FlowKind::Tcp6, &seen) > 200);
    let counts = watch.counts().expect("they are read");
    assert!(counts.iter().map(|bucket| bucket.misplaced_packets).sum::<u64>() > 200);
}

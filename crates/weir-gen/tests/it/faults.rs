//! Generator, fault element and observing receiver, each in a namespace of its own: what the fault
//! element drops, duplicates and delays is reported exactly. Nothing here asserts on time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::{Namespace, privileged, wait_for_packets};
use weir_bpf::attach::Mode;
use weir_gen::backend::{Backend, RunOptions};
use weir_gen::expect::{Expectation, ExpectedStream};
use weir_gen::live::LiveGenerator;
use weir_gen::observer::{Observed, Observer};
use weir_oracle::fault::{Fault, FaultCounters, FaultProgram};
use weir_wire::mac::MacAddr;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

const SRC: &str = "198.18.10.1:2000-198.18.10.70";
const DST: &str = "198.19.10.1:2000-198.19.10.70";
const FLOW_COUNT: u64 = 4_900;
const PACKETS: u64 = 10_000;

/// Sends from this CPU, which every machine has.
const CPU: u32 = 0;

/// Drops, duplicates, swaps and longer delays, at random, from a generator of numbers that is the
/// same each time. No packet has a part in two faults.
fn faults(mut state: u64, count: usize) -> BTreeMap<u64, Fault> {
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut faults = BTreeMap::new();
    let mut taken = BTreeSet::new();
    while faults.len() < count {
        let sequence = random(PACKETS);
        let (fault, other) = match random(4) {
            0 => (Fault::Drop, sequence),
            1 => (Fault::Duplicate, sequence),
            2 => (Fault::DelayUntil(sequence + 1), sequence + 1),
            _ => {
                let other = sequence + 2 + random(500);
                (Fault::DelayUntil(other), other)
            }
        };
        if other < PACKETS && !taken.contains(&sequence) && !taken.contains(&other) {
            taken.extend([sequence, other]);
            faults.insert(sequence, fault);
        }
    }
    faults
}

/// The sequence numbers in their order of arrival behind the fault element.
fn arrivals(faults: &BTreeMap<u64, Fault>) -> Vec<u64> {
    let mut waiting = BTreeMap::new();
    let mut arrivals = Vec::new();
    for sequence in 0..PACKETS {
        match faults.get(&sequence) {
            Some(Fault::Drop) => {}
            Some(Fault::Duplicate) => arrivals.extend([sequence; 2]),
            Some(Fault::DelayUntil(other)) => drop(waiting.insert(*other, sequence)),
            None => arrivals.push(sequence),
        }
        arrivals.extend(waiting.remove(&sequence));
    }
    arrivals
}

/// Extents of the reordered packets, by RFC 4737's definition, and how often each occurs.
fn extents(arrivals: &[u64]) -> BTreeMap<u64, u64> {
    let mut extents = BTreeMap::new();
    let (mut first_copies, mut known, mut highest) = (Vec::new(), BTreeSet::new(), 0);
    for &sequence in arrivals {
        if !known.insert(sequence) {
            continue;
        }
        if sequence < highest {
            let first_higher = first_copies.iter().position(|other| *other > sequence);
            let first_higher = first_higher.expect("the highest one is among them");
            *extents.entry((first_copies.len() - first_higher) as u64).or_default() += 1;
        }
        highest = highest.max(sequence);
        first_copies.push(sequence);
    }
    extents
}

/// Sends the stream through the fault element; what the receiver saw, and what was done.
fn through(faults: &BTreeMap<u64, Fault>) -> (Observed, FaultCounters) {
    let (sender, middle, end) = (Namespace::new(), Namespace::new(), Namespace::new());
    sender.ip("link add park type veth peer name park-peer");
    sender.ip(&format!("link add out type veth peer name left netns {}", middle.name()));
    middle.ip(&format!("link add right type veth peer name in netns {}", end.name()));
    sender.ip("link set out up");
    middle.ip("link set left up");
    middle.ip("link set right up");
    end.ip("link set in up");

    let expected = ExpectedStream {
        stream: 0,
        src: SRC.into(),
        dst: DST.into(),
        flow_count: FLOW_COUNT,
        thread_count: 1,
        first_sequence: 0,
        packets: Some(PACKETS),
        random: false,
    };
    let expectation = Expectation { streams: vec![expected] };
    let ifindex = end.ifindex("in");
    let mut observer = end
        .inside(|| Observer::attach(ifindex, Mode::Native, expectation))
        .expect("the sink is attached");
    let mut element = FaultProgram::load().expect("it loads");
    for (sequence, fault) in faults {
        element.choose(*sequence, *fault).expect("each packet is chosen once");
    }
    let (left, right) = (middle.ifindex("left"), middle.ifindex("right"));
    let link = middle.inside(|| {
        element.connect(right).expect("connected");
        element.attach(left).expect("attached")
    });
    send(&sender);
    wait_for_packets(arrivals(faults).len() as u64, || {
        observer.observed().expect("readable").counters.total().packets
    });
    drop(link);
    observer.detach();
    (observer.observed().expect("readable"), element.counters().expect("readable"))
}

/// Sends packets 0 to before [`PACKETS`], at a pace that leaves the veths' rings time.
fn send(sender: &Namespace) {
    let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));
    let spec = StreamSpec::new(src_mac, dst_mac, range(SRC), range(DST));
    let stream = Traffic::one(spec).expect("it can be sent");
    let (out, park) = (sender.ifindex("out"), sender.ifindex("park"));
    let generator = sender.inside(|| LiveGenerator::new(&stream, out, park, &[CPU]));
    let mut generator = generator.expect("it is set up");
    let run = RunOptions {
        rate: Rate::Pps(20_000.0),
        ramp: Duration::ZERO,
        packet_limit: Some(PACKETS),
        first_sequence: 0,
        timestamps: true,
    };
    generator.start(run).expect("it starts");
    let report = generator.wait().expect("it ends by itself");
    assert_eq!(report.counters.offered_packets, PACKETS);
}

/// Compares everything that the sink says about arrival with what was done to the packets.
#[track_caller]
fn assert_reported(faults: &BTreeMap<u64, Fault>) {
    let (seen, done) = through(faults);
    let count = |is: fn(&Fault) -> bool| faults.values().filter(|fault| is(fault)).count() as u64;
    let dropped = count(|fault| matches!(fault, Fault::Drop));
    let duplicated = count(|fault| matches!(fault, Fault::Duplicate));
    let delayed = count(|fault| matches!(fault, Fault::DelayUntil(_)));
    let expected = FaultCounters {
        forwarded_packets: PACKETS - dropped - delayed,
        dropped_packets: dropped,
        duplicated_packets: duplicated,
        held_packets: delayed,
        released_packets: delayed,
        refused_packets: 0,
    };
    assert_eq!(done, expected, "the fault element did not do what was chosen");

    let arrivals = arrivals(faults);
    let extents = extents(&arrivals);
    let [stream] = seen.streams[..] else { panic!("one stream: {:?}", seen.streams) };
    assert_eq!(stream.packets, arrivals.len() as u64);
    assert_eq!(stream.bytes, 60 * stream.packets);
    assert_eq!((stream.lost, stream.duplicated), (dropped, duplicated));
    assert_eq!(stream.reordered, extents.values().sum::<u64>());
    assert_eq!(stream.extent_max, extents.keys().max().copied().unwrap_or(0));
    assert_eq!((stream.surplus, stream.too_late), (0, 0));
    let flows: BTreeSet<u64> = arrivals.iter().map(|sequence| sequence % FLOW_COUNT).collect();
    assert_eq!(stream.flows_seen, Some(flows.len() as u64));
    for (first, last, count) in seen.observations.extent.buckets() {
        let expected: u64 = extents.range(first..=last).map(|(_, count)| count).sum();
        assert_eq!(count, expected, "extents {first} to {last}");
    }
    let total = seen.counters.total();
    assert_eq!((total.packets, total.foreign_packets), (stream.packets, 0));
}

#[test]
fn each_kind_of_fault_is_reported_alone() {
    if !privileged() {
        return;
    }
    assert_reported(&BTreeMap::new());
    let last = PACKETS - 1;
    assert_reported(&[(0, Fault::Drop), (77, Fault::Drop), (last, Fault::Drop)].into());
    assert_reported(
        &[(0, Fault::Duplicate), (1, Fault::Duplicate), (last, Fault::Duplicate)].into(),
    );
    let swaps = [(0, 1), (40, 41), (42, 43), (63, 64), (last - 1, last)];
    assert_reported(&swaps.map(|(packet, other)| (packet, Fault::DelayUntil(other))).into());
}

#[test]
fn chosen_drops_duplicates_and_delays_are_reported_exactly() {
    if !privileged() {
        return;
    }
    for (seed, count) in [(0x2545_f491_4f6c_dd1d, 50), (0x9e37_79b9_7f4a_7c15, 800)] {
        assert_reported(&faults(seed, count));
    }
}

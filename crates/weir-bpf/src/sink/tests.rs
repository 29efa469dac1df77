//! The full mode of the sink against a reference, packet by packet, through test runs: any order
//! of arrival can be given exactly, and no device is needed.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore as _, MapFlags, MapType};
use proptest::test_runner::TestRunner;
use weir_wire::flow::FlowSpace;
use weir_wire::frame::UdpStream;
use weir_wire::mac::MacAddr;
use weir_wire::stream::StreamFrames;

use super::*;
use crate::words::{WINDOW_REACH, follower, row, sampler};
use crate::{streams, sys};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn observer(streams: &[StreamFlows]) -> Option<SinkObserver> {
    match SinkObserver::load(streams, Arrival::AnyCpu) {
        Ok(observer) => Some(observer),
        Err(ObserveError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: loading BPF programs needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn frames(stream: u8, thread: u8) -> UdpStream {
    let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    UdpStream {
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        src_mac: MacAddr([2, 0, 0, 0, 0, 9]),
        ttl: 64,
        tos: 0,
        flows: FlowSpace::new(range("198.18.10.1:2000-198.18.10.70"), range("198.19.10.1:2000"))
            .expect("few flows"),
        size_bytes: 60,
        stream,
        thread,
    }
}

/// Makes a sink that was loaded forget what it has seen: the verifier takes a tenth of a second for
/// another one. Streams that were named are not named any more.
fn forget(observer: &SinkObserver) {
    let path = format!("/proc/self/fdinfo/{}", observer.sink.program.as_fd().as_raw_fd());
    let id = program_id(&path);
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let program = ProgInfoIter::with_query_opts(options).find(|program| program.id == id);
    let senders = observer.observations().expect("readable").senders;
    for id in program.expect("it is loaded").map_ids {
        let map = MapHandle::from_map_id(id).expect("the program has it");
        match map.map_type() {
            MapType::PercpuArray => map::clear_per_cpu(&map).expect("writable"),
            // Constants are never written.
            _ if map.name().to_string_lossy().contains(".rodata") => {}
            // 65,536 entries, of which few are used.
            _ if map.name() == "weir_directory" => {
                for sender in &senders {
                    let entry = u32::from(sender.stream) << 8 | u32::from(sender.thread);
                    map::write(&map, entry, &[0; 4]).expect("writable");
                }
            }
            _ => {
                let count = map.max_entries();
                let keys: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
                let zeros = vec![0; map.value_size() as usize * count as usize];
                map.update_batch(&keys, &zeros, count, MapFlags::ANY, MapFlags::ANY)
                    .expect("writable");
            }
        }
    }
}

/// The kernel's number of a program, by what it says of its file descriptor.
fn program_id(path: &str) -> u32 {
    let info = std::fs::read_to_string(path).expect("readable");
    let id = info.lines().find_map(|line| line.strip_prefix("prog_id:")).expect("an id");
    id.trim().parse().expect("a number")
}

/// Lets the sink see one frame.
fn arrive(observer: &SinkObserver, frame: &[u8]) -> u32 {
    let mut output = [0; 2048];
    let result = sys::test_run_once(observer.sink.program.as_fd(), frame, &mut output);
    result.expect("the program runs").0
}

/// Lets the sink see packets of one sender with these numbers.
fn arrive_all(observer: &SinkObserver, frames: &UdpStream, sequences: &[u64]) {
    for &sequence in sequences {
        assert_eq!(arrive(observer, &frames.build(sequence)), XDP_DROP, "sequence {sequence}");
    }
}

#[test]
fn packets_in_tunnels_of_streams_are_seen() {
    use weir_wire::encap::{Encap, Tunnel};
    use weir_wire::frame::Protocol;
    use weir_wire::sizes::Sizes;
    use weir_wire::stream::StreamSpec;

    let Some(observer) = observer(&[]) else { return };
    let mut expected = 0;
    for tunnel in Tunnel::ALL {
        for (src, dst) in
            [("198.18.10.1:2000", "198.19.10.1:53"), ("[2001:2::1]:2000", "[2001:2::9]:53")]
        {
            for protocol in [Protocol::Udp, Protocol::TCP_SYN, Protocol::IcmpEcho] {
                let range = |text: &str| text.parse().expect("a range");
                let macs = [9, 1].map(|last| MacAddr([2, 0, 0, 0, 0, last]));
                let spec = StreamSpec::new(macs[0], macs[1], range(src), range(dst));
                let sizes = Sizes::Fixed(200);
                let spec = StreamSpec { encap: Some(tunnel), protocol, sizes, ..spec };
                let frames = StreamFrames::new(spec).expect("it can be sent");
                let frame = frames.build(expected);
                assert_eq!(arrive(&observer, &frame), XDP_DROP, "{tunnel} {protocol} {src}");
                expected += 1;
                let mut other = frame.clone();
                // The first byte of the magic number.
                let at = frames.link_bytes()
                    + if src.starts_with('[') { 40 } else { 20 }
                    + protocol.header_bytes();
                other[at] ^= 1;
                assert_eq!(arrive(&observer, &other), XDP_PASS, "no signature");
                let tag = Encap::Vlan { id: 5 }.wrap(&frame).expect("it is wrapped");
                if tunnel == Tunnel::Pppoe {
                    assert_eq!(arrive(&observer, &tag), XDP_PASS, "none of weir's");
                }
            }
        }
    }
    let counters = observer.counters().expect("readable").total();
    assert_eq!((counters.packets, expected), (expected, 18));
}

/// RFC 4737 by its definitions, without a window: every packet is compared with all before it.
fn reference(sequences: &[u64]) -> (SenderCounters, BTreeMap<u64, u64>) {
    let mut counters = SenderCounters { first_sequence: u64::MAX, ..Default::default() };
    let mut extents = BTreeMap::new();
    let mut arrived: Vec<u64> = Vec::new();
    for &sequence in sequences {
        counters.packets += 1;
        counters.bytes += 60;
        if arrived.contains(&sequence) {
            counters.duplicated += 1;
            continue;
        }
        counters.first_sequence = counters.first_sequence.min(sequence);
        counters.highest_sequence = counters.highest_sequence.max(sequence);
        if let Some(first_higher) = arrived.iter().position(|other| *other > sequence) {
            let extent = (arrived.len() - first_higher) as u64;
            counters.reordered += 1;
            counters.extent_max = counters.extent_max.max(extent);
            *extents.entry(extent).or_default() += 1;
        }
        arrived.push(sequence);
    }
    (counters, extents)
}

/// A sink for several CPUs, and one for a single queue.
fn both() -> Option<[SinkObserver; 2]> {
    let shared = observer(&[])?;
    let single = SinkObserver::load(&[], Arrival::SingleQueue).expect("it was loaded before");
    Some([shared, single])
}

/// Compares everything. Both sinks have to agree; that for a single queue takes packets in rows.
/// Returns how often a packet was in one.
#[track_caller]
fn assert_as_reference([shared, single]: &[SinkObserver; 2], sequences: &[u64]) -> usize {
    forget(shared);
    forget(single);
    arrive_all(shared, &frames(0, 0), sequences);
    assert_observed(shared, sequences);
    let mut in_rows = 0;
    for (place, &sequence) in sequences.iter().enumerate() {
        arrive(single, &frames(0, 0).build_stamped(sequence, 1));
        in_rows += usize::from(hurry(single));
        let [sender] = single.observations().expect("readable").senders[..] else {
            panic!("one sender after {sequence} of {sequences:?}")
        };
        assert_eq!(sender.packets, place as u64 + 1, "{sequence} of {sequences:?}");
    }
    assert_observed(single, sequences);
    in_rows
}

/// Flows are marked once for a row: each is counted once and at once, in streams of few and of many
/// flows, from any number on, also across the last flow and the end of a word.
#[test]
fn flows_of_rows_are_counted() {
    if observer(&[]).is_none() {
        return;
    }
    for flow_count in [1, 2, 63, 64, 65, 100, 4_900] {
        for first in [0, 37, 4_890] {
            let named = StreamFlows { stream: 0, flow_count };
            let single = SinkObserver::load(&[named], Arrival::SingleQueue).expect("it loads");
            let mut seen_flows = std::collections::BTreeSet::new();
            // With a gap, whose flows do not come.
            for sequence in (first..first + 70).chain(first + 75..first + 210) {
                arrive(&single, &frames(0, 0).build_stamped(sequence, 1));
                hurry(&single);
                seen_flows.insert(sequence % flow_count);
                let seen = single.observations().expect("readable").flows_seen[0].flow_count;
                let case = format!("{flow_count} flows from {first}, at {sequence}");
                assert_eq!(seen, seen_flows.len() as u64, "{case}");
            }
        }
    }
}

/// Makes the sink of a single queue believe that it is between two samples of a fast stream.
/// Returns whether the last packet was taken into a row.
fn hurry(observer: &SinkObserver) -> bool {
    let mut words = map::read(&observer.followers, 0).expect("readable");
    let row_packets = words[follower::ROW + row::PACKETS];
    words[follower::SAMPLER + sampler::SKIP] = 200 + row_packets;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    map::write(&observer.followers, 0, &bytes).expect("writable");
    row_packets > 0
}

/// Compares with the reference, extents by bucket: those below 64 have one each.
#[track_caller]
fn assert_observed(observer: &SinkObserver, sequences: &[u64]) {
    let (expected, extents) = reference(sequences);
    let seen = observer.observations().expect("readable");
    assert_eq!(seen.senders, [expected], "arrival of {sequences:?}");
    let mut extents_seen = 0;
    for (first, last, count) in seen.extent.buckets() {
        let expected: u64 = extents.range(first..=last).map(|(_, count)| count).sum();
        assert_eq!(count, expected, "extents {first} to {last}, arrival of {sequences:?}");
        extents_seen += count;
    }
    assert_eq!(extents_seen, expected.reordered, "arrival of {sequences:?}");
}

#[test]
fn arrivals_are_judged_as_rfc_4737_defines() {
    let Some(sinks) = both() else { return };
    assert_as_reference(&sinks, &[7]);
    assert_as_reference(&sinks, &[0, 1, 2, 3, 4]);
    // The RFC's own example of section 4.2: packet 4 comes three places late.
    assert_as_reference(&sinks, &[1, 2, 3, 5, 6, 7, 4, 8]);
    assert_as_reference(&sinks, &[1, 2, 4, 3, 5, 5, 3, 1]);
    assert_as_reference(&sinks, &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert_as_reference(&sinks, &[63, 64, 62, 128, 127, 65, 0, 64, 191, 192]);
    assert_as_reference(&sinks, &[100, 0, 200, 150, 199, 50, 201]);
    let top = (1 << 48) - 1;
    assert_as_reference(&sinks, &[top - 70, top, top - 64, top - 1, top]);
}

/// Drops, duplicates and swaps at random, from a generator of numbers that is the same each time.
#[test]
fn random_faults_are_reported_exactly() {
    let Some(sinks) = both() else { return };
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut in_rows = 0;
    for round in 0..40 {
        let first = random(1 << 40);
        let mut sequences: Vec<u64> = (first..first + 300).collect();
        for _ in 0..round {
            let at = usize::try_from(random(sequences.len() as u64 - 40)).expect("small");
            let other = at + usize::try_from(random(40)).expect("small");
            match random(3) {
                0 => drop(sequences.remove(at)),
                1 => sequences.insert(other, sequences[at]),
                _ => sequences.swap(at, other),
            }
        }
        in_rows += assert_as_reference(&sinks, &sequences);
    }
    // The clock's tick ends a row now and then, and reordering ends all of a word's.
    assert!(in_rows > 300, "{in_rows} of 12,000 packets were in rows");
}

#[test]
fn the_window_reaches_as_far_as_stated() {
    let Some(observer) = observer(&[]) else { return };
    let highest = 1_000_000;
    let edge = highest - WINDOW_REACH;
    arrive_all(&observer, &frames(0, 0), &[edge + 1, highest, edge, edge, edge + 1, edge - 64, 3]);
    let sender = observer.observations().expect("readable").senders[0];
    assert_eq!((sender.reordered, sender.duplicated, sender.too_late), (1, 2, 2));
    assert_eq!(sender.distinct_packets(), 3);
    assert_eq!((sender.first_sequence, sender.highest_sequence), (edge, highest));
}

/// What the window said of older numbers is forgotten when it moves over them, step by step and
/// in leaps of less, more and exactly its size.
#[test]
fn the_window_forgets_what_it_leaves() {
    let size = WINDOW_REACH + 64;
    let Some(observer) = observer(&[]) else { return };
    for leap in [1, 63, 64, 65, size - 64, size - 1, size, size + 1, 3 * size, 1 << 40] {
        let sequences: Vec<u64> = (0..130).chain((0..130).map(|i| 130 + leap + i)).collect();
        forget(&observer);
        arrive_all(&observer, &frames(0, 0), &sequences);
        let sender = observer.observations().expect("readable").senders[0];
        assert_eq!((sender.duplicated, sender.reordered, sender.too_late), (0, 0, 0), "{leap}");
        assert_eq!(sender.packets, 260);
        // A hole in the second part, in words that the first part had filled before.
        let hole = 130 + leap - 1;
        arrive_all(&observer, &frames(0, 0), &[hole, hole]);
        let sender = observer.observations().expect("readable").senders[0];
        assert_eq!((sender.reordered, sender.duplicated), (1, 1), "{leap}");
        assert_eq!(sender.extent_max, 130, "{leap}");
    }
}

#[test]
fn senders_are_told_apart_up_to_a_limit() {
    let Some(observer) = observer(&[]) else { return };
    let sender_count = u64::from(SENDER_COUNT_MAX);
    for number in 0..sender_count + 3 {
        let stream = u8::try_from(number / 16).expect("small");
        let thread = u8::try_from(number % 16).expect("small");
        arrive_all(&observer, &frames(stream, thread), &[number, number + 2, number + 1]);
    }
    let seen = observer.observations().expect("readable");
    assert_eq!(seen.senders.len() as u64, sender_count);
    assert_eq!(seen.untracked_packets, 9);
    for (number, sender) in seen.senders.iter().enumerate() {
        assert_eq!(
            (usize::from(sender.stream), usize::from(sender.thread)),
            (number / 16, number % 16)
        );
        assert_eq!((sender.packets, sender.reordered), (3, 1));
        assert_eq!(sender.first_sequence, number as u64);
    }
    assert_eq!(observer.counters().expect("readable").total().packets, 3 * (sender_count + 3));
}

#[test]
fn flows_are_counted_by_the_streams_own_index() {
    let streams = [
        StreamFlows { stream: 3, flow_count: 70_000 },
        StreamFlows { stream: 0, flow_count: 100 },
        StreamFlows { stream: 255, flow_count: 1 },
    ];
    let Some(observer) = observer(&streams) else { return };
    let seen = |observer: &SinkObserver| {
        let seen = observer.observations().expect("readable").flows_seen;
        seen.iter().map(|flows| (flows.stream, flows.flow_count)).collect::<Vec<_>>()
    };
    assert_eq!(seen(&observer), [(3, 0), (0, 0), (255, 0)]);
    arrive_all(&observer, &frames(3, 0), &[0, 1, 69_999, 70_000, 70_001, 32_768, 65_536, 7]);
    arrive_all(&observer, &frames(0, 0), &(0..150).collect::<Vec<_>>());
    arrive_all(&observer, &frames(255, 0), &[5, 6]);
    arrive_all(&observer, &frames(9, 0), &[1, 2, 3]);
    assert_eq!(seen(&observer), [(3, 6), (0, 100), (255, 1)]);
}

#[test]
fn latency_is_measured_where_there_is_a_stamp() {
    let Some(observer) = observer(&[]) else { return };
    let now_ns = || {
        let uptime = std::fs::read_to_string("/proc/uptime").expect("readable");
        let seconds: f64 = uptime.split(' ').next().and_then(|s| s.parse().ok()).expect("a number");
        u64::try_from(std::time::Duration::from_secs_f64(seconds).as_nanos()).expect("small")
    };
    // The boot-time clock is the monotonic one on a host that never slept, and is ahead otherwise.
    let hour_ns = 3_600_000_000_000;
    let frames = frames(0, 0);
    arrive(&observer, &frames.build(0));
    arrive(&observer, &frames.build_stamped(1, now_ns() + (1 << 45)));
    let seen = observer.observations().expect("readable");
    assert_eq!((seen.unstamped_packets, seen.ahead_packets), (1, 1));
    assert_eq!(seen.measured_packets, 2, "sampling begins after 1,024 packets at the earliest");
    assert_eq!(seen.latency_ns.count(), 0);
    assert_eq!(seen.gap_ns.count(), 1, "the gap needs no stamps");

    // Wraps at 2^48 ns: a stamp from before the last wrap is as good as any other.
    let wrap = 1_u64 << 48;
    arrive(&observer, &frames.build_stamped(2, (now_ns() + wrap - hour_ns) % wrap));
    let seen = observer.observations().expect("readable");
    assert_eq!(seen.latency_ns.count(), 1);
    let latency_ns = seen.latency_ns.max().expect("a value");
    assert!(latency_ns > hour_ns / 2 && latency_ns < wrap / 2, "{latency_ns}");
    let [(_, last, 1)] = seen.latency_ns.buckets().collect::<Vec<_>>()[..] else {
        panic!("one value is in one bucket")
    };
    assert_eq!(last, (1 << 40) - 1, "an hour is beyond the last bucket's bound");
    assert_eq!(seen.latency_ns.quantile(500), Some(latency_ns));
}

/// Two CPUs receive alternate packets of one sender: none is lost or counted twice.
#[test]
fn several_cpus_share_a_sender() {
    const COUNT: u64 = 20_000;
    let Some(observer) = observer(&[StreamFlows { stream: 0, flow_count: COUNT }]) else { return };
    std::thread::scope(|scope| {
        for start in 0..2 {
            let observer = &observer;
            scope.spawn(move || {
                let sequences: Vec<u64> = (start..COUNT).step_by(2).collect();
                arrive_all(observer, &frames(0, 0), &sequences);
                arrive_all(observer, &frames(0, 0), &[start]);
            });
        }
    });
    let seen = observer.observations().expect("readable");
    let [sender] = seen.senders[..] else { panic!("one sender: {:?}", seen.senders) };
    assert_eq!(sender.packets, COUNT + 2);
    assert_eq!(sender.distinct_packets(), COUNT);
    assert_eq!((sender.duplicated, sender.too_late), (2, 0));
    assert_eq!((sender.first_sequence, sender.highest_sequence), (0, COUNT - 1));
    assert_eq!(seen.extent.count(), sender.reordered);
    assert_eq!(seen.flows_seen[0].flow_count, COUNT);
    // Of 251 packets on a CPU, 8 at least are measured, however fast they come.
    assert!((COUNT + 2) / 251 * 8 - 16 <= seen.measured_packets, "{}", seen.measured_packets);
    assert!(seen.gap_ns.count() < seen.measured_packets && seen.measured_packets <= COUNT + 2);
}

/// Every frame of the stream model is found, with its stream, thread, sequence number and size;
/// so is one that a DUT has given IPv4 options, and an echo's reply. A third tag is one too many.
#[test]
fn every_frame_of_the_stream_model_is_found() {
    let Some(observer) = observer(&[]) else { return };
    let arrivals = |spec: &weir_wire::stream::StreamSpec, first: u64| {
        forget(&observer);
        let frames = StreamFrames::new(spec.clone()).expect("it can be sent");
        let mut sent: BTreeMap<u8, Vec<(u64, usize)>> = BTreeMap::new();
        for sequence in first..first + 5 {
            let frame = frames.build(sequence);
            assert_eq!(arrive(&observer, &frame), XDP_DROP, "{frame:02x?}");
            sent.entry(frames.thread(sequence)).or_default().push((sequence, frame.len()));
        }
        let seen = observer.observations().expect("readable").senders;
        let expected: Vec<SenderCounters> = sent
            .iter()
            .map(|(thread, sent)| SenderCounters {
                stream: spec.stream,
                thread: *thread,
                packets: sent.len() as u64,
                bytes: sent.iter().map(|(_, size_bytes)| *size_bytes as u64).sum(),
                first_sequence: sent[0].0,
                highest_sequence: sent[sent.len() - 1].0,
                ..Default::default()
            })
            .collect();
        assert_eq!(seen, expected);

        let mut three = frames.build(first);
        for _ in spec.tags.len()..3 {
            three.splice(12..12, [0x81, 0, 0, 7]);
        }
        assert_eq!(arrive(&observer, &three), XDP_PASS, "three tags");
        let ip_at = 14 + 4 * spec.tags.len();
        let mut changed = frames.build(first);
        if spec.src.is_ipv6() {
            changed[ip_at + 6] = 0; // hop-by-hop options, says the header
            assert_eq!(arrive(&observer, &changed), XDP_PASS, "an extension header");
        } else {
            changed.splice(ip_at + 20..ip_at + 20, [1; 8]);
            changed[ip_at] = 0x47;
            assert_eq!(arrive(&observer, &changed), XDP_DROP, "IPv4 options");
        }
        if spec.protocol == weir_wire::frame::Protocol::IcmpEcho {
            let message_at = ip_at + if spec.src.is_ipv6() { 40 } else { 20 };
            let mut reply = frames.build(first);
            reply[message_at] = if spec.src.is_ipv6() { 129 } else { 0 };
            assert_eq!(arrive(&observer, &reply), XDP_DROP, "an echo reply");
            reply[message_at] = 3;
            assert_eq!(arrive(&observer, &reply), XDP_PASS, "an ICMP error");
        }
    };
    TestRunner::default()
        .run(&(streams::specs(true), 0..(1_u64 << 47)), |(spec, first)| {
            arrivals(&spec, first);
            Ok(())
        })
        .expect("every frame is found");
}

/// Without locks and with them, the same arrivals have the same figures.
#[test]
fn one_queue_needs_no_lock() {
    let streams = [StreamFlows { stream: 0, flow_count: 70 }];
    let Some(shared) = observer(&streams) else { return };
    let single = SinkObserver::load(&streams, Arrival::SingleQueue).expect("it loads");
    let sequences = [0, 1, 2, 5, 3, 3, 70, 69, 200, 130, 131, 1 << 40, 199, 1 << 41];
    let figures = [&shared, &single].map(|observer| {
        arrive_all(observer, &frames(0, 0), &sequences);
        let seen = observer.observations().expect("readable");
        (seen.senders, seen.flows_seen, seen.extent, seen.measured_packets, seen.elsewhere_packets)
    });
    assert_eq!(figures[0], figures[1]);
    let flows: std::collections::BTreeSet<u64> = sequences.iter().map(|s| s % 70).collect();
    assert_eq!(figures[0].1[0].flow_count, flows.len() as u64);
}

#[test]
fn foreign_frames_are_passed_and_not_observed() {
    let Some(observer) = observer(&[]) else { return };
    let frame = frames(0, 0).build(0);
    let mut foreign = vec![vec![0; 60], frame[..59].to_vec()];
    for (at, value) in [
        (12, 0x86), // IPv6, with another version in its header
        (13, 0x06), // ARP
        (23, 6),    // TCP, whose header would be longer
        (23, 1),    // ICMP, of type 7
        (23, 47),   // GRE
        (23, 58),   // ICMPv6 over IPv4
        (20, 0x20), // more fragments
        (21, 1),    // not the first fragment
        (14, 0x55),
        (14, 0x44),
        (14, 0x46), // options, so that the signature is not where it should be
        (42, 0),
    ] {
        let mut changed = frame.clone();
        changed[at] = value;
        foreign.push(changed);
    }
    for frame in &foreign {
        assert_eq!(arrive(&observer, frame), XDP_PASS, "{frame:02x?}");
    }
    let total = observer.counters().expect("readable").total();
    assert_eq!((total.packets, total.foreign_packets), (0, foreign.len() as u64));
    let foreign_bytes: usize = foreign.iter().map(Vec::len).sum();
    assert_eq!(total.foreign_bytes, foreign_bytes as u64);
    assert_eq!(observer.observations().expect("readable"), Observations::default());
}

#[test]
fn the_bare_mode_only_counts() {
    let Some(observer) = observer(&[]) else { return };
    drop(observer);
    let sink = SinkProgram::load().expect("it loads");
    let mut output = [0; 2048];
    for sequence in [5, 5, 3] {
        let frame = frames(0, 0).build(sequence);
        let result = sys::test_run_once(sink.program.as_fd(), &frame, &mut output);
        assert_eq!(result.expect("the program runs").0, XDP_DROP);
    }
    let total = sink.counters().expect("readable").total();
    assert_eq!((total.packets, total.bytes, total.foreign_packets), (3, 180, 0));
}

#[test]
fn impossible_streams_are_refused() {
    let refused = |streams: &[StreamFlows]| {
        SinkObserver::load(streams, Arrival::AnyCpu).expect_err("refused")
    };
    let stream = |stream, flow_count| StreamFlows { stream, flow_count };
    assert!(matches!(refused(&[stream(1, 0)]), ObserveError::Stream(1)));
    assert!(matches!(refused(&[stream(1, 5), stream(1, 5)]), ObserveError::Stream(1)));
    let many = refused(&[stream(0, FLOW_COUNT_MAX), stream(1, 1)]).to_string();
    assert!(many.contains("1073741825 flows"), "{many}");
    assert!(matches!(refused(&[stream(0, u64::MAX), stream(1, 9)]), ObserveError::FlowCount(_)));
}

/// Bare counting pays nothing for the full mode: the verifier has removed its code. Both look for
/// the signature, also in tunnels, which is most of what is left.
#[test]
fn the_bare_mode_has_no_code_of_the_full_one() {
    let Some(observer) = observer(&[]) else { return };
    let sink = SinkProgram::load().expect("it loads");
    let size_bytes = |program: &OwnedFd| {
        let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
        let id = program_id(&path);
        let options = ProgInfoQueryOptions::default().include_xlated_prog_insns(true);
        let program = ProgInfoIter::with_query_opts(options).find(|program| program.id == id);
        program.expect("it is loaded").xlated_prog_insns.len()
    };
    let (bare, full) = (size_bytes(&sink.program), size_bytes(&observer.sink.program));
    assert!(bare * 4 < full, "{bare} bytes of instructions, {full} in the full mode");
}

//! The three backends against each other: the same bytes for the same stream, the same exact
//! counts, whatever the number of threads.
//!
//! What live frames and packet sockets send is captured at the far end of a veth pair.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Namespace, privileged, wait_for_packets};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_gen::backend::{Backend, GeneratorReport, RunOptions};
use weir_gen::error::GeneratorError;
use weir_gen::live::LiveGenerator;
use weir_gen::packet::PacketGenerator;
use weir_gen::pcap::PcapGenerator;
use weir_gen::receiver::Receiver;
use weir_gen::replay::{Replay, ReplayTiming};
use weir_gen::window::Window;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::pcap::{ByteOrder, Reader, Resolution, Writer};
use weir_wire::sizes::Sizes;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;
use weir_wire::vlan::{Tag, TagKind};
use weir_wire::walk::Walk;

fn spec() -> StreamSpec {
    StreamSpec::new(
        MacAddr([2, 0, 0, 0, 0, 9]),
        MacAddr([2, 0, 0, 0, 0, 1]),
        "198.18.10.1:2000-198.18.10.70".parse().expect("a range"),
        "198.19.10.1:2000-198.19.10.70".parse().expect("a range"),
    )
}

fn stream() -> Traffic {
    Traffic::one(spec()).expect("it can be sent")
}

/// A namespace with `out` connected to `in`, both up.
fn wire() -> Namespace {
    let namespace = Namespace::new();
    namespace.ip("link add out type veth peer name in");
    namespace.ip("link set in up");
    namespace.ip("link set out up");
    namespace
}

fn options(rate: Rate, packet_limit: u64, first_sequence: u64) -> RunOptions {
    RunOptions {
        rate,
        ramp: Duration::ZERO,
        packet_limit: Some(packet_limit),
        first_sequence,
        timestamps: false,
    }
}

fn run(backend: &mut dyn Backend, options: RunOptions) -> GeneratorReport {
    backend.start(options).expect("it starts");
    backend.wait().expect("it ends by itself")
}

/// The frames in a capture file of either byte order and resolution.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("the file is there");
    let word =
        |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    assert!([0xa1b2_c3d4, 0xa1b2_3c4d].contains(&word(0)), "a capture file in this byte order");
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let size = word(at + 8);
        assert_eq!(size, word(at + 12), "no frame is cut");
        frames.push(bytes[at + 16..at + 16 + size].to_vec());
        at += 16 + size;
    }
    frames
}

/// Streams of every kind: both families, all protocols, tags, walks and kinds of sizes.
fn traffics() -> impl Strategy<Value = Traffic> {
    let range = |network: u8| {
        (1_u8..=200, 0_u8..50, 1_u16.., 0_u16..300).prop_map(move |(host, more, port, ports)| {
            let (last, last_port) = (host + more, port.saturating_add(ports));
            let v4 = format!("198.{network}.10.{host}:{port}-198.{network}.10.{last}:{last_port}");
            let v6 = format!(
                "[2001:2::{network}:{host:x}]:{port}-[2001:2::{network}:{last:x}]:{last_port}"
            );
            (v4, v6)
        })
    };
    let sizes = prop_oneof![
        (100_u16..1_500).prop_map(Sizes::Fixed),
        (100_u16..600, 0_u16..900).prop_map(|(first_bytes, more)| Sizes::Uniform {
            first_bytes,
            last_bytes: first_bytes + more
        }),
        prop::collection::vec(100_u16..1_500, 1..6).prop_map(Sizes::List),
        Just(Sizes::Imix),
    ];
    let protocol =
        prop_oneof![Just(Protocol::Udp), Just(Protocol::TCP_SYN), Just(Protocol::IcmpEcho)];
    let tags = prop::collection::vec(
        (1_u16..4095).prop_map(|id| Tag { kind: TagKind::Customer, pcp: 0, dei: false, id }),
        0..3,
    );
    let walk =
        prop_oneof![Just(Walk::Odometer), any::<u64>().prop_map(|seed| Walk::Random { seed })];
    let stream = (range(18), range(19), any::<bool>(), sizes, protocol, tags, walk, 1_u8..)
        .prop_map(|(src, dst, over_ipv6, sizes, protocol, tags, walk, ttl)| {
            let range = |(v4, v6): (String, String)| {
                (if over_ipv6 { v6 } else { v4 }).parse().expect("a range")
            };
            let (src, dst) = (range(src), range(dst));
            StreamSpec { src, dst, sizes, protocol, tags, walk, ttl, ..spec() }
        });
    prop::collection::vec((stream, 1_u32..4), 1..4).prop_map(|mut streams| {
        for (number, (stream, _)) in (0..).zip(&mut streams) {
            stream.stream = number;
        }
        Traffic::new(streams).expect("it can be sent")
    })
}

/// For any traffic, the kernel's program, the reference and the file agree on every byte.
#[test]
fn live_and_pcap_make_the_same_bytes() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stream.pcap");
    let namespace = Namespace::new();
    namespace.ip("link add out type veth peer name in");
    let out = namespace.ifindex("out");
    let strategy = (traffics(), 1_u32..5, 0_u64..1 << 50);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(24));
    let result = runner.run(&strategy, |(traffic, threads, first)| {
        let cpus: Vec<u32> = (0..threads).collect();
        let live = namespace.inside(|| LiveGenerator::with_private_park(&traffic, out, &cpus));
        let live = live.expect("it is set up");
        let mut pcap = PcapGenerator::new(&traffic, &path, cpus.len()).expect("it is set up");
        let report = run(&mut pcap, options(Rate::Max, 20, first));
        prop_assert_eq!(report.next_sequence, first + 20);
        let written = frames(&path);
        prop_assert_eq!(written.len(), 20);
        for (sequence, frame) in (first..).zip(written) {
            prop_assert_eq!(&live.frame(sequence).expect("it is made"), &frame);
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// What a replay writes is what was recorded, but for the addresses that were to be rewritten.
#[test]
fn a_replayed_file_is_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("copy.pcap");
    let frames = prop::collection::vec(
        (0_u64..10_000_000_000, prop::collection::vec(any::<u8>(), 14..200)),
        1..40,
    );
    let mac = || prop::option::of(any::<[u8; 6]>().prop_map(MacAddr));
    let strategy = (frames, mac(), mac(), any::<bool>(), any::<bool>(), 1_u64..4);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let result = runner.run(&strategy, |(frames, src, dst, little, nanoseconds, loops)| {
        let unit_ns = if nanoseconds { 1 } else { 1_000 };
        let writer = Writer {
            resolution: if nanoseconds {
                Resolution::Nanoseconds
            } else {
                Resolution::Microseconds
            },
            byte_order: if little { ByteOrder::Little } else { ByteOrder::Big },
        };
        let mut file = Vec::new();
        writer.header(&mut file);
        for (time_ns, frame) in &frames {
            writer.record(&mut file, *time_ns, frame).expect("it fits");
        }
        let mut replay = Replay::parse(file).expect("it can be replayed");
        replay.rewrite(src, dst);
        let mut pcap = PcapGenerator::replay(Arc::new(replay), ReplayTiming::Recorded, &path);
        let count = frames.len() as u64 * loops;
        let report = run(&mut pcap, options(Rate::Max, count, 0));
        prop_assert_eq!(report.counters.offered_packets, count);
        let written = std::fs::read(&path).expect("it is there");
        let written: Vec<_> = Reader::new(&written).expect("a file").map(Result::unwrap).collect();
        prop_assert_eq!(written.len() as u64, count);
        for (number, record) in written.iter().enumerate() {
            let (time_ns, frame) = &frames[number % frames.len()];
            let mut expected = frame.clone();
            for (mac, field) in [(dst, 0..6), (src, 6..12)] {
                if let Some(MacAddr(bytes)) = mac {
                    expected[field].copy_from_slice(&bytes);
                }
            }
            prop_assert_eq!(record.frame, expected);
            if number < frames.len() {
                prop_assert_eq!(record.time_ns, time_ns / unit_ns * unit_ns);
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let mut file = Vec::new();
    Writer::default().header(&mut file);
    Writer::default().record(&mut file, 0, &[0; 60]).expect("it fits");
    let replay = Arc::new(Replay::parse(file).expect("it can be replayed"));
    let mut pcap = PcapGenerator::replay(replay, ReplayTiming::Recorded, &path);
    let error = pcap.start(options(Rate::Pps(1.0), 1, 0)).expect_err("two timings");
    assert!(matches!(error, GeneratorError::RecordedWithRate), "{error}");
}

/// A ring reports a device that is down, and frames that no device takes, and goes on when asked to
/// once the device is up.
#[test]
fn a_packet_socket_reports_what_fails() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let out = namespace.ifindex("out");
    let mut sizes = spec();
    sizes.sizes = Sizes::Fixed(1_519);
    let large = Traffic::one(sizes).expect("it can be sent");
    let error = namespace.inside(|| PacketGenerator::new(&large, out, &[0])).map(|_| ());
    let error = error.expect_err("the MTU is 1500").to_string();
    assert!(error.contains("1519") && error.contains("1518"), "{error}");
    let mut packet =
        namespace.inside(|| PacketGenerator::new(&stream(), out, &[0])).expect("it is set up");
    namespace.ip("link set out down");
    packet.start(options(Rate::Max, 1_000, 0)).expect("it starts");
    let error = packet.wait().expect_err("the device is down");
    assert!(matches!(&error, GeneratorError::Send(_)), "{error}");
    assert_eq!(packet.counters().expect("there are some").offered_packets, 0);
    namespace.ip("link set out up");
    let report = run(&mut packet, options(Rate::Max, 1_000, 0));
    assert_eq!((report.counters.offered_packets, report.counters.offered_bytes), (1_000, 60_000));
    // Frames of many sizes, up to the MTU, round and round the ring.
    let mut mixed = spec();
    mixed.sizes = Sizes::Uniform { first_bytes: 60, last_bytes: 9_014 };
    let mixed = Traffic::one(mixed).expect("it can be sent");
    namespace.ip("link set in mtu 9000");
    namespace.ip("link set out mtu 9000");
    let receiver = namespace.ifindex("in");
    let receiver = namespace.inside(|| Receiver::attach(receiver));
    let mut packet =
        namespace.inside(|| PacketGenerator::new(&mixed, out, &[0])).expect("it is set up");
    let report = run(&mut packet, options(Rate::Pps(20_000.0), 2_000, 0));
    assert_eq!(report.counters.offered_packets, 2_000);
    let set = mixed.set(1).expect("one thread");
    let bytes: u64 = (0..2_000).map(|number| set.build(number).len() as u64).sum();
    assert_eq!(report.counters.offered_bytes, bytes);
    drop(receiver);
}

/// A run that is stopped leaves nothing in the ring: the next one sends exactly its own packets.
#[test]
fn a_stopped_run_leaves_nothing_behind() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let (out, ifindex_in) = (namespace.ifindex("out"), namespace.ifindex("in"));
    let receiver = namespace.inside(|| Receiver::attach(ifindex_in)).expect("attached");
    let mut packet =
        namespace.inside(|| PacketGenerator::new(&stream(), out, &[0])).expect("it is set up");
    let mut offered = 0;
    for _ in 0..3 {
        let endless = RunOptions { packet_limit: None, ..options(Rate::Pps(20_000.0), 1, 0) };
        packet.start(endless).expect("it starts");
        while packet.counters().expect("readable").offered_packets < 200 {
            std::thread::sleep(Duration::from_millis(1));
        }
        offered += packet.stop().expect("it stops").counters.offered_packets;
    }
    offered += run(&mut packet, options(Rate::Pps(20_000.0), 300, 0)).counters.offered_packets;
    let arrived = || receiver.snapshot().expect("readable").total().packets;
    wait_for_packets(offered, arrived);
    assert_eq!(arrived(), offered);
}

/// A capture at one end of a pair; it ends when `count` packets are in the file.
struct Capture(Child);

impl Capture {
    fn start(namespace: &Namespace, path: &Path, count: usize) -> Self {
        let mut child = Command::new("ip")
            .args(["netns", "exec", namespace.name(), "tcpdump", "-i", "in", "-s", "0", "-U"])
            .args(["-Z", "root", "-c", &count.to_string(), "-w"])
            .arg(path)
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump runs");
        let mut said = String::new();
        let mut stderr = std::io::BufReader::new(child.stderr.take().expect("piped"));
        while !said.contains("listening on") {
            let read = std::io::BufRead::read_line(&mut stderr, &mut said).expect("readable");
            assert!(read > 0, "tcpdump ended: {said}");
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Self(child)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What arrives from live frames and from packet sockets is what the file says.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn what_arrives_is_what_the_file_says() {
    const COUNT: u64 = 500;
    if !privileged() {
        return;
    }
    if Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("skipped: tcpdump is not installed");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let slowly = options(Rate::Pps(5_000.0), COUNT, 4_700);
    let mut pcap = PcapGenerator::new(&stream(), &file("pcap"), 1).expect("it is set up");
    run(&mut pcap, slowly);
    let expected = frames(&file("pcap"));
    for name in ["live", "packet"] {
        let namespace = wire();
        namespace.inside(|| weir_bpf::ethtool::set_gro("in", true).expect("GRO is settable"));
        let out = namespace.ifindex("out");
        let mut capture = Capture::start(&namespace, &file(name), expected.len());
        let mut backend: Box<dyn Backend + Send> = namespace.inside(|| match name {
            "live" => Box::new(
                LiveGenerator::with_private_park(&stream(), out, &[0]).expect("it is set up"),
            ) as Box<dyn Backend + Send>,
            _ => Box::new(PacketGenerator::new(&stream(), out, &[0]).expect("it is set up")),
        });
        assert_eq!(run(backend.as_mut(), slowly).counters.offered_packets, COUNT);
        assert!(capture.0.wait().expect("it ends").success());
        assert_eq!(frames(&file(name)), expected, "{name}");
    }
}

/// Threads share the numbers: the count is exact over all of them, and all of it arrives.
#[test]
fn threads_partition_what_is_sent() {
    if !privileged() {
        return;
    }
    let cpu_count = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    let cpus: Vec<u32> = [0, 1][..cpu_count].to_vec();
    for (name, limit) in [("live", 10_001), ("live", 1), ("packet", 10_001)] {
        let namespace = Namespace::new();
        namespace.ip("link add out numtxqueues 2 numrxqueues 2 type veth peer name in \
                      numtxqueues 2 numrxqueues 2");
        namespace.ip("link set in up");
        namespace.ip("link set out up");
        let (out, ifindex_in) = (namespace.ifindex("out"), namespace.ifindex("in"));
        let receiver = namespace.inside(|| Receiver::attach(ifindex_in)).expect("attached");
        let mut backend: Box<dyn Backend + Send> = namespace.inside(|| match name {
            "live" => Box::new(
                LiveGenerator::with_private_park(&stream(), out, &cpus).expect("it is set up"),
            ) as Box<dyn Backend + Send>,
            _ => Box::new(PacketGenerator::new(&stream(), out, &cpus).expect("it is set up")),
        });
        let report = run(backend.as_mut(), options(Rate::Pps(20_000.0), limit, 0));
        assert_eq!(report.counters.offered_packets, limit, "{name}");
        assert_eq!(report.next_sequence, limit, "{name}");
        assert_eq!(report.threads.len(), cpus.len());
        for (index, thread) in (0..).zip(&report.threads) {
            let share = (limit + cpus.len() as u64 - 1 - index) / cpus.len() as u64;
            assert_eq!(thread.counters.offered_packets, share, "{name}, thread {index}");
        }
        let arrived = || receiver.snapshot().expect("readable").total().packets;
        wait_for_packets(limit, arrived);
        assert_eq!(arrived(), limit, "{name}");
    }
}

/// A rate that rises linearly offers half of the packets of a constant one.
#[test]
fn a_ramp_sends_what_its_schedule_says() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let (out, ifindex_in) = (namespace.ifindex("out"), namespace.ifindex("in"));
    let receiver = namespace.inside(|| Receiver::attach(ifindex_in)).expect("attached");
    let generator = namespace.inside(|| LiveGenerator::with_private_park(&stream(), out, &[0]));
    let mut generator = generator.expect("it is set up");
    let ramp = Duration::from_millis(400);
    let ramped = RunOptions { ramp, ..options(Rate::Pps(10_000.0), 3_000, 0) };
    let report = run(&mut generator, ramped);
    assert_eq!(report.counters.offered_packets, 3_000);
    // 2,000 packets in the ramp and 1,000 behind it take 500 ms; without a ramp, 300 ms.
    assert!(report.duration > Duration::from_millis(450), "{:?}", report.duration);
    drop(receiver);
    let endless = RunOptions { ramp, ..options(Rate::Max, 10, 0) };
    assert!(matches!(generator.start(endless), Err(GeneratorError::RampWithoutRate)));
}

#[test]
fn a_window_paces_by_what_arrives() {
    if !privileged() {
        return;
    }
    let wire = wire();
    let (out, receiving) = (wire.ifindex("out"), wire.ifindex("in"));
    let mut generator =
        wire.inside(|| LiveGenerator::with_private_park(&stream(), out, &[0]).expect("it loads"));
    let receiver = Arc::new(wire.inside(|| Receiver::attach(receiving).expect("it attaches")));
    let arrived = || receiver.snapshot().expect("counters").total().packets;
    let within = |generator: &mut LiveGenerator, receivers: Vec<Arc<Receiver>>, limit| {
        let window = Window { packets: 192, receivers };
        generator.start_within(options(Rate::Max, limit, 0), &window).expect("it starts");
        generator.wait().expect("it ends by itself").counters.offered_packets
    };
    // A veth's ring has room for 256: without a window, some of so many find none.
    const COUNT: u64 = 200_000;
    for round in 1..=2 {
        assert_eq!(within(&mut generator, vec![Arc::clone(&receiver)], COUNT), COUNT);
        wait_for_packets(COUNT * round, arrived);
    }
    // What does not arrive is given up after a while, a window at a time.
    let begin = Instant::now();
    assert_eq!(within(&mut generator, Vec::new(), 500), 500);
    assert!(begin.elapsed() >= Duration::from_millis(100), "two windows' worth of patience");
    let paced = options("1kpps".parse().expect("a rate"), 1, 0);
    let refused = generator.start_within(paced, &Window { packets: 192, receivers: Vec::new() });
    assert!(matches!(refused, Err(GeneratorError::State(_))), "{refused:?}");
}

#[test]
fn a_file_needs_an_end_and_a_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = directory.path().join("missing/stream.pcap");
    let mut pcap = PcapGenerator::new(&stream(), &nowhere, 1).expect("it is set up");
    let endless = RunOptions { packet_limit: None, ..options(Rate::Max, 1, 0) };
    assert!(matches!(pcap.start(endless), Err(GeneratorError::Endless)));
    let error = pcap.start(options(Rate::Max, 1, 0)).expect_err("there is no such directory");
    assert!(error.to_string().contains("missing/stream.pcap"), "{error}");
}

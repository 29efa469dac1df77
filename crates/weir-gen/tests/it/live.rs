//! Generator and receiver over real veth pairs, in namespaces made for the purpose.
//!
//! Nothing here asserts on time: the rates are low enough for any machine, and what is checked are
//! counts.

use std::time::Duration;

use crate::support::{Namespace, privileged, wait_for_packets};
use weir_bpf::ethtool;
use weir_bpf::probe;
use weir_gen::backend::{Backend, RunOptions};
use weir_gen::error::GeneratorError;
use weir_gen::live::LiveGenerator;
use weir_gen::receiver::Receiver;
use weir_wire::mac::MacAddr;
use weir_wire::sizes::Sizes;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

const DUT_MAC: &str = "02:00:00:00:00:01";
const SINK_MAC: &str = "02:00:00:00:00:02";

/// Sends from this CPU, which every machine has.
const CPU: u32 = 0;

fn stream(size_bytes: u16) -> Traffic {
    Traffic::one(StreamSpec { sizes: Sizes::Fixed(size_bytes), ..spec() }).expect("it can be sent")
}

fn spec() -> StreamSpec {
    let range = |text: &str| text.parse().expect("a range");
    StreamSpec::new(
        MacAddr([2, 0, 0, 0, 0, 9]),
        DUT_MAC.parse().expect("a MAC address"),
        range("198.18.10.1:2000-198.18.10.70"),
        range("198.19.10.1:2000-198.19.10.70"),
    )
}

/// A namespace with `out` connected to `in`, and an idle `park`.
fn wire() -> Namespace {
    let namespace = Namespace::new();
    namespace.ip("link add out type veth peer name in");
    namespace.ip("link add park type veth peer name park-peer");
    namespace.ip("link set in up");
    namespace.ip("link set out up");
    namespace
}

fn generator(namespace: &Namespace, stream: &Traffic) -> Result<LiveGenerator, GeneratorError> {
    let (out, park) = (namespace.ifindex("out"), namespace.ifindex("park"));
    namespace.inside(|| LiveGenerator::new(stream, out, park, &[CPU]))
}

fn receiver(namespace: &Namespace, name: &str) -> Receiver {
    let ifindex = namespace.ifindex(name);
    namespace.inside(|| Receiver::attach(ifindex)).expect("the sink is attached")
}

/// Waits until the receiver has counted so many packets, foreign ones too, and returns its totals.
#[track_caller]
fn received(receiver: &Receiver, packets: u64) -> weir_bpf::sink::QueueCounters {
    let total = || receiver.snapshot().expect("counters").total();
    wait_for_packets(packets, || total().packets + total().foreign_packets);
    total()
}

#[test]
fn a_counted_run_is_delivered_exactly() {
    if !privileged() {
        return;
    }
    for size_bytes in [60, 1514] {
        let namespace = wire();
        let receiver = receiver(&namespace, "in");
        let mut generator = generator(&namespace, &stream(size_bytes)).expect("it is set up");
        let run = RunOptions {
            rate: Rate::Pps(20_000.0),
            ramp: Duration::ZERO,
            packet_limit: Some(10_000),
            first_sequence: 0,
            timestamps: false,
        };
        generator.start(run).expect("it starts");
        let report = generator.wait().expect("it ends by itself");
        assert_eq!(report.counters.offered_packets, 10_000);
        assert_eq!(report.counters.offered_bytes, 10_000 * u64::from(size_bytes));
        assert_eq!(report.counters.refused_packets, 0);
        assert_eq!(report.next_sequence, 10_000);
        let total = received(&receiver, 10_000);
        assert_eq!(total.packets, 10_000);
        assert_eq!(total.bytes, 10_000 * u64::from(size_bytes));
        assert_eq!(total.foreign_packets, 0);
    }
}

/// One program, several runs: a limit at full speed, going on where it ended, starting over.
#[test]
fn runs_follow_each_other_on_one_program() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let receiver = receiver(&namespace, "in");
    let mut generator = generator(&namespace, &stream(60)).expect("it is set up");
    let mut offered = 0;
    for (rate, limit) in [(Rate::Max, 1), (Rate::Max, 129), (Rate::Pps(20_000.0), 777)] {
        let first_sequence = offered;
        let run = RunOptions {
            rate,
            ramp: Duration::ZERO,
            packet_limit: Some(limit),
            first_sequence,
            timestamps: false,
        };
        generator.start(run).expect("it starts");
        let report = generator.wait().expect("it ends by itself");
        assert_eq!(report.first_sequence, offered, "it goes on where the last run ended");
        assert_eq!(report.counters.offered_packets, limit, "the limit is exact");
        assert!(!generator.is_running());
        offered += limit;
    }
    generator
        .start(RunOptions {
            rate: Rate::Pps(1_000.0),
            ramp: Duration::ZERO,
            packet_limit: Some(0),
            first_sequence: 0,
            timestamps: false,
        })
        .expect("it starts");
    let report = generator.wait().expect("it ends by itself");
    assert_eq!(report.counters.offered_packets, 0, "a limit of zero sends nothing");
    assert_eq!(report.next_sequence, 0, "it has started over");
    assert_eq!(received(&receiver, offered).packets, offered);
}

#[test]
fn an_endless_run_is_stopped() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let receiver = receiver(&namespace, "in");
    let mut generator = generator(&namespace, &stream(60)).expect("it is set up");
    let endless = RunOptions {
        rate: Rate::Pps(5_000.0),
        ramp: Duration::ZERO,
        packet_limit: None,
        first_sequence: 0,
        timestamps: false,
    };
    assert!(matches!(generator.stop(), Err(GeneratorError::State(_))), "nothing to stop");
    generator.start(endless).expect("it starts");
    assert!(matches!(generator.start(endless), Err(GeneratorError::State(_))), "it runs already");
    while generator.counters().expect("readable while it runs").offered_packets < 100 {
        std::thread::yield_now();
    }
    assert!(generator.is_running());
    let report = generator.stop().expect("it stops");
    assert!(!generator.is_running());
    assert_eq!(report.counters.over_limit_packets, 0);
    let offered = report.counters.offered_packets;
    assert_eq!(received(&receiver, offered).packets, offered);
    generator.start(endless).expect("it starts again");
    drop(generator);
}

/// The kernel's router lowers the TTL and exchanges MAC addresses in the very pages that the
/// generator gets back: stale bytes would fail the router's checks.
#[test]
fn recycled_pages_are_rewritten_behind_a_router() {
    if !privileged() {
        return;
    }
    let (namespace, dut, sink) = (Namespace::new(), Namespace::new(), Namespace::new());
    namespace.ip("link add park type veth peer name park-peer");
    namespace.ip(&format!("link add out type veth peer name left netns {}", dut.name()));
    dut.ip(&format!("link add right type veth peer name in netns {}", sink.name()));
    namespace.ip("link set out up");
    dut.ip(&format!("link set left address {DUT_MAC} up"));
    dut.ip("link set right up");
    sink.ip(&format!("link set in address {SINK_MAC} up"));
    dut.ip("address add 198.18.0.1/16 dev left");
    dut.ip("address add 198.19.0.1/24 dev right");
    dut.ip(&format!("neighbour add 198.19.0.2 lladdr {SINK_MAC} dev right"));
    dut.ip("route add 198.19.10.0/24 via 198.19.0.2");
    dut.inside(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("the sysctl is written");
        // With GRO, a veth has the NAPI instance that XDP transmission to it needs.
        ethtool::set_gro("left", true).expect("GRO can be set");
        assert!(ethtool::gro("left").expect("GRO can be read"));
    });
    for size_bytes in [60, 512] {
        let receiver = receiver(&sink, "in");
        let mut generator = generator(&namespace, &stream(size_bytes)).expect("it is set up");
        let run = RunOptions {
            rate: Rate::Pps(20_000.0),
            ramp: Duration::ZERO,
            packet_limit: Some(10_000),
            first_sequence: 0,
            timestamps: false,
        };
        generator.start(run).expect("it starts");
        let report = generator.wait().expect("it ends by itself");
        assert_eq!(report.counters.offered_packets, 10_000);
        let total = received(&receiver, 10_000);
        assert_eq!(total.packets, 10_000);
        assert_eq!(total.bytes, 10_000 * u64::from(size_bytes));
    }
}

#[test]
fn foreign_packets_are_told_apart() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let receiver = receiver(&namespace, "in");
    namespace.ip("address add 198.18.0.1/24 dev out");
    namespace.ip("neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 dev out");
    namespace.inside(|| {
        let socket = std::net::UdpSocket::bind("198.18.0.1:0").expect("a socket");
        for size in [0, 17, 18, 1_000] {
            socket.send_to(&vec![0x77; size], "198.18.0.2:9").expect("sent");
        }
    });
    let total = received(&receiver, 4);
    assert_eq!((total.packets, total.foreign_packets), (0, 4));
}

#[test]
fn what_cannot_be_done_is_said() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let (out, park) = (namespace.ifindex("out"), namespace.ifindex("park"));
    let new = |stream: &Traffic, out, park, cpus: &[u32]| {
        namespace
            .inside(|| LiveGenerator::new(stream, out, park, cpus))
            .expect_err("it cannot be set up")
            .to_string()
    };
    assert!(new(&stream(60), out, park, &[]).contains("0 CPUs"));
    assert!(new(&stream(60), out, park, &[0, 1, 0]).contains("0,1,0"));
    assert!(new(&stream(3409), out, park, &[0]).contains("3408"));
    assert!(new(&stream(60), 9_999, park, &[0]).contains("9999"));
    assert!(new(&stream(60), out, 9_999, &[0]).contains("9999"));

    let mut lost = namespace
        .inside(|| LiveGenerator::new(&stream(60), out, park, &[1_000]))
        .expect("the CPU is only needed later");
    let endless = RunOptions {
        rate: Rate::Max,
        ramp: Duration::ZERO,
        packet_limit: None,
        first_sequence: 0,
        timestamps: false,
    };
    let error = lost.start(endless).expect_err("there is no such CPU");
    assert!(error.to_string().contains("CPU 1000"), "{error}");
    let refused = RunOptions { rate: Rate::Percent(10.0), ..endless };
    assert!(lost.start(refused).expect_err("no line").to_string().contains("line rate"));
}

/// An output that disappears ends the run with an error instead of an endless loop.
#[test]
fn a_lost_output_is_reported() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let mut generator = generator(&namespace, &stream(60)).expect("it is set up");
    let limited = RunOptions {
        rate: Rate::Pps(1_000.0),
        ramp: Duration::ZERO,
        packet_limit: Some(u64::MAX),
        first_sequence: 0,
        timestamps: false,
    };
    generator.start(limited).expect("it starts");
    namespace.ip("link delete out");
    assert!(matches!(generator.wait(), Err(GeneratorError::Refused(_))));
}

#[test]
fn the_kernel_and_the_driver_answer() {
    if !privileged() {
        return;
    }
    let namespace = wire();
    let [park, out, far] = ["park", "out", "in"].map(|name| namespace.ifindex(name));
    probe::live_frames().expect("this kernel has live frames");
    namespace.inside(|| {
        probe::xdp_native(park).expect("a veth has native XDP");
        probe::xdp_native(park).expect("nothing was left behind");
        assert!(probe::xdp_native(9_999).is_err());
        assert_eq!(ethtool::driver("out").expect("it has a driver"), "veth");
        let stats = ethtool::stats("out").expect("it has statistics");
        assert!(stats.iter().any(|(name, _)| name == "tx_queue_0_xdp_xmit"), "{stats:?}");
        let index = stats.iter().find(|(name, _)| name == "peer_ifindex").expect("a peer");
        assert_eq!(index.1, u64::from(far));
        assert!(!ethtool::gro("out").expect("readable"));
        ethtool::set_gro("out", true).expect("settable");
        assert!(ethtool::gro("out").expect("readable"));
    });
    assert_ne!(park, out);
}

//! The observing receiver over real veth pairs: faults made by sending chosen sequence numbers are
//! reported exactly. Nothing here asserts on time.

use crate::support::{Namespace, privileged, wait_for_packets};
use weir_bpf::attach::{self, Mode};
use weir_bpf::generator::{CATCH_UP_NS, GeneratorProgram, Interval, ThreadConfig};
use weir_gen::expect::{Expectation, ExpectedStream};
use weir_gen::observer::{Observed, Observer};
use weir_wire::mac::MacAddr;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;

/// Sends from this CPU, which every machine has.
const CPU: u32 = 0;

const SRC: &str = "198.18.10.1:2000-198.18.10.70";
const DST: &str = "198.19.10.1:2000-198.19.10.70";

/// A namespace with `out` connected to `in`, both with `queues` queues, and an idle `park`.
fn wire(queues: u32) -> Namespace {
    let namespace = Namespace::new();
    let size = format!("numrxqueues {queues} numtxqueues {queues}");
    namespace.ip(&format!("link add out {size} type veth peer name in {size}"));
    namespace.ip("link add park type veth peer name park-peer");
    namespace.ip("link set in up");
    namespace.ip("link set out up");
    namespace
}

fn expectation(thread_count: u16, packets: Option<u64>) -> Expectation {
    let stream = ExpectedStream {
        stream: 0,
        src: SRC.into(),
        dst: DST.into(),
        flow_count: 4_900,
        thread_count,
        first_sequence: 0,
        packets,
        random: false,
    };
    Expectation { streams: vec![stream] }
}

fn observer(namespace: &Namespace, expectation: Expectation) -> Observer {
    let ifindex = namespace.ifindex("in");
    namespace
        .inside(|| Observer::attach(ifindex, Mode::Native, expectation))
        .unwrap_or_else(|error| panic!("{}: {error}", namespace.name()))
}

/// The generator of a stream that so many threads share.
fn generator(namespace: &Namespace, thread_count: usize) -> GeneratorProgram {
    let (out, park) = (namespace.ifindex("out"), namespace.ifindex("park"));
    let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));
    let spec = StreamSpec::new(src_mac, dst_mac, range(SRC), range(DST));
    let set = Traffic::one(spec).and_then(|traffic| traffic.set(thread_count));
    let mut program = GeneratorProgram::load(set.expect("it can be sent")).expect("it loads");
    namespace.inside(|| {
        program.connect(out).expect("it is connected");
        program.park(park).expect("it is parked");
    });
    program
}

/// Sends the numbers of a thread from `first` to before `end`.
///
/// At a pace that leaves a veth's ring of 256 packets time: this is about order, not speed.
fn send(program: &GeneratorProgram, thread: u8, first: u64, end: u64) {
    let step = u64::from(program.set().thread_count());
    let end_nth = (end - u64::from(thread)).div_ceil(step);
    let config = ThreadConfig {
        thread,
        first_nth: first / step,
        end_nth: Some(end_nth),
        interval: Some(Interval { whole_ns: 5_000, fraction: 0 }),
        catch_up_ns: CATCH_UP_NS,
        timestamps: true,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cpus = nix::sched::CpuSet::new();
            cpus.set(CPU as usize).expect("a CPU number");
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).expect("pinned");
            program.configure(CPU, &config).expect("configured");
            while program.next_nth(CPU).expect("readable") < end_nth {
                program.run(4_096, 64).expect("it runs");
            }
        });
    });
}

/// Waits until so many packets have arrived, detaches, and returns the final figures.
fn ended(mut observer: Observer, packets: u64) -> Observed {
    wait_for_packets(packets, || observer.observed().expect("readable").counters.total().packets);
    observer.detach();
    observer.observed().expect("readable")
}

#[test]
fn a_faultless_stream_has_all_its_flows_and_no_faults() {
    if !privileged() {
        return;
    }
    let namespace = wire(1);
    let observer = observer(&namespace, expectation(1, Some(10_000)));
    send(&generator(&namespace, 1), 0, 0, 10_000);
    let seen = ended(observer, 10_000);
    let [stream] = seen.streams[..] else { panic!("one stream: {:?}", seen.streams) };
    assert_eq!((stream.packets, stream.bytes), (10_000, 600_000));
    assert_eq!((stream.lost, stream.surplus, stream.duplicated), (0, 0, 0));
    assert_eq!((stream.reordered, stream.too_late), (0, 0));
    assert_eq!((stream.flows_seen, stream.flow_count), (Some(4_900), Some(4_900)));
    let observations = &seen.observations;
    // A sender that catches up after a stall may come fast enough to be sampled.
    let measured = observations.measured_packets;
    assert!((1_024..=10_000).contains(&measured), "{measured}");
    assert_eq!(observations.latency_ns.count(), measured);
    assert!((1_000..measured).contains(&observations.gap_ns.count()), "{measured}");
    assert_eq!((observations.unstamped_packets, observations.ahead_packets), (0, 0));
    let quantile = |per_mille| observations.latency_ns.quantile(per_mille).expect("a value");
    let (min, max) = (observations.latency_ns.min(), observations.latency_ns.max());
    assert!(min.expect("a value") > 0, "light takes time");
    assert!(min <= Some(quantile(500)) && quantile(500) <= quantile(999));
    assert!(Some(quantile(999)) <= max);
}

/// Drops, duplicates and late packets, made by sending their numbers.
#[test]
fn faults_are_reported_exactly() {
    if !privileged() {
        return;
    }
    let namespace = wire(1);
    let observer = observer(&namespace, expectation(1, Some(3_000)));
    let program = generator(&namespace, 1);
    send(&program, 0, 10, 1_000); // 0..10 never come
    send(&program, 0, 500, 600); // again
    send(&program, 0, 1_100, 2_000); // 1000..1100 are missing,
    send(&program, 0, 1_050, 1_070); // until these come late
    send(&program, 0, 1_050, 1_055); // and some of them twice
    send(&program, 0, 2_000, 2_500); // the last 500 never come
    let packets = 990 + 100 + 900 + 20 + 5 + 500;
    let seen = ended(observer, packets);
    let [stream] = seen.streams[..] else { panic!("one stream: {:?}", seen.streams) };
    assert_eq!(stream.packets, packets);
    assert_eq!(stream.duplicated, 105);
    assert_eq!(stream.reordered, 20);
    assert_eq!(stream.lost, 10 + 80 + 500);
    assert_eq!((stream.surplus, stream.too_late), (0, 0));
    // 1050 came 900 packets after 1100, and each later one a packet more.
    assert_eq!(stream.extent_max, 919);
    assert_eq!(seen.observations.extent.min(), Some(900));
    assert_eq!(stream.flows_seen, Some(2_500 - 10 - 80));
}

/// Two threads' numbers on two queues, of which one delivers less.
#[test]
fn threads_share_a_stream_over_queues() {
    if !privileged() {
        return;
    }
    for announced in [true, false] {
        let namespace = wire(2);
        let expectation = if announced { expectation(2, None) } else { Expectation::default() };
        let observer = observer(&namespace, expectation);
        let program = generator(&namespace, 2);
        send(&program, 0, 0, 2_000);
        send(&program, 1, 1, 1_001);
        send(&program, 1, 1_501, 2_001);
        let packets = 1_000 + 500 + 250;
        let seen = ended(observer, packets);
        let [stream] = seen.streams[..] else { panic!("one stream: {:?}", seen.streams) };
        assert_eq!((stream.thread_count, stream.packets), (2, packets));
        assert_eq!((stream.lost, stream.surplus, stream.reordered), (250, 0, 0));
        assert_eq!(stream.flows_seen, announced.then_some(1_750));
        assert_eq!(seen.counters.total().packets, stream.packets);
    }
}

#[test]
fn generic_mode_works_where_native_does_not() {
    if !privileged() {
        return;
    }
    let namespace = wire(1);
    let loopback = namespace.ifindex("lo");
    let attach =
        |mode| namespace.inside(|| Observer::attach(loopback, mode, Expectation::default()));
    let error = attach(Mode::Native).expect_err("a loopback has no native XDP");
    assert!(error.to_string().contains("native XDP"), "{error}");
    assert_eq!(namespace.inside(|| attach::attached(loopback)).expect("readable"), None);
    let mut observer = attach(Mode::Generic).expect("generic XDP is for every device");
    let attached = namespace.inside(|| attach::attached(loopback)).expect("readable");
    assert_eq!(attached.expect("it is there").name, "weir_sink");
    observer.detach();
    // A process that another test is about to start has the descriptors until it runs its program.
    let is_gone = || namespace.inside(|| attach::attached(loopback)).expect("readable").is_none();
    let is_over = (0..200).any(|_| {
        let is_gone = is_gone();
        if !is_gone {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        is_gone
    });
    assert!(is_over, "the program stays attached");
}

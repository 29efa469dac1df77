//! The program's frames against `weir_wire::stream`, byte for byte, and the limits of a thread.
//!
//! These run the real program in the kernel, without devices, and so need the privileges that
//! loading it needs; without them they say so and pass.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weir_wire::encap::Tunnel;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::signature::Signature;
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamFrames, StreamSpec, size_bytes_min};
use weir_wire::tcp::Flags;
use weir_wire::vlan::{Tag, TagKind};
use weir_wire::walk::Walk;

use super::*;

const REDIRECT: u32 = 4;
const LOOPBACK_IFINDEX: u32 = 1;

const RANGES: [(&str, &str); 6] = [
    ("198.18.10.1:2000", "198.19.10.1:2000"),
    ("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70"),
    ("198.18.0.1:65530-198.18.0.3:65535", "198.19.0.1:1-198.19.0.5:4"),
    ("0.0.0.0:9-255.255.255.255:9", "10.255.255.250:80-11.0.0.9:81"),
    ("[2001:2::1]:2000-[2001:2::64]:2003", "[2001:2:1::ffff]:53"),
    ("3@[2001:2::1]:9-[2001:2:0:7::1]:9", "0@[2001:2:1::1]:7-[20f1:2:1::1]:8"),
];

/// Loads the program, or says that the test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn program(set: StreamSet) -> Option<GeneratorProgram> {
    match GeneratorProgram::load(set) {
        Ok(program) => Some(program),
        Err(GeneratorLoadError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn spec(src: &str, dst: &str) -> StreamSpec {
    let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let (src_mac, dst_mac) =
        (MacAddr([2, 0xfe, 0xed, 0xfa, 0xce, 2]), MacAddr([2, 0xde, 0, 0, 0, 1]));
    StreamSpec { stream: 7, dscp: 4, ..StreamSpec::new(src_mac, dst_mac, range(src), range(dst)) }
}

fn set(specs: Vec<(StreamSpec, u32)>) -> StreamSet {
    let streams = specs.into_iter().map(|(spec, weight)| {
        (StreamFrames::new(spec).unwrap_or_else(|error| panic!("{error}")), weight)
    });
    StreamSet::new(streams.collect()).unwrap_or_else(|error| panic!("{error}"))
}

fn one(spec: StreamSpec) -> StreamSet {
    set(vec![(spec, 1)])
}

fn config(thread: u8, first_nth: u64) -> ThreadConfig {
    ThreadConfig {
        thread,
        first_nth,
        end_nth: None,
        interval: None,
        catch_up_ns: CATCH_UP_NS,
        timestamps: false,
    }
}

/// Runs `count` packets of one thread, one at a time, and compares each with the reference.
fn turn_and_compare(program: &GeneratorProgram, config: &ThreadConfig, count: u64) {
    // A test run happens on any CPU, so that each CPU's thread is set to the packet that is
    // expected next, as the program itself left it.
    let cpu_count = program.threads.max_entries();
    for cpu in 0..cpu_count {
        program.configure(cpu, config).expect("the thread is configured");
    }
    program.connect(LOOPBACK_IFINDEX).expect("loopback is a device");
    let share =
        Share::new(config.thread, program.set.thread_count()).expect("there is such a thread");
    let page = vec![0xff; program.template().len()];
    let mut output = vec![0; usize::from(SIZE_BYTES_MAX)];
    for turn in 0..count {
        let nth = |cpu| program.next_nth(cpu).expect("there is such a CPU");
        let before: Vec<u64> = (0..cpu_count).map(nth).collect();
        let (verdict, size) =
            sys::test_run_once(program.program.as_fd(), &page, &mut output).expect("it runs");
        assert_eq!(verdict, REDIRECT, "the packet is redirected");
        let moved = (0..cpu_count).find(|&cpu| nth(cpu) != before[cpu as usize]);
        let moved = moved.expect("one thread has moved on");
        let sent = before[moved as usize];
        assert_eq!(nth(moved), sent + 1);
        let (stream, sequence) = program.set.pick_of(&share, sent);
        let frames = &program.set.streams()[stream];
        assert_eq!(
            output[..size],
            frames.build(sequence),
            "turn {turn}, packet {sequence} of {:?}",
            frames.spec()
        );
    }
}

#[test]
fn frames_in_tunnels_are_the_references_frames() {
    for tunnel in Tunnel::ALL {
        for (src, dst) in RANGES {
            for protocol in [Protocol::Udp, Protocol::TCP_SYN, Protocol::IcmpEcho] {
                let base = StreamSpec { protocol, encap: Some(tunnel), ..spec(src, dst) };
                let smallest = size_bytes_min(0, base.src.is_ipv6(), protocol);
                for size_bytes in [smallest + base.tunnel_bytes(), 300, 1514] {
                    let sizes = Sizes::Fixed(size_bytes);
                    let spec = StreamSpec { sizes, ..base.clone() };
                    let Some(program) = program(one(spec)) else { return };
                    for nth in [0, 69, 4_900, (1 << 48) + 12_345] {
                        let frame = program.single_frame(&config(0, nth)).expect("it is made");
                        let reference = program.set.streams()[0].build(nth);
                        assert_eq!(frame, reference, "{src} > {dst}, {tunnel}, {nth}");
                    }
                }
            }
        }
    }
}

#[test]
fn frames_are_the_references_frames() {
    const FIRST: [u64; 13] = [
        0,
        69,
        4_899,
        4_900,
        65_535,
        65_536,
        1_000_003,
        (1 << 32) - 1,
        1 << 32,
        (1 << 48) - 1,
        1 << 48,
        (1 << 48) + 12_345,
        1 << 62,
    ];
    for (src, dst) in RANGES {
        for size_bytes in [92, 93, 128, 1514, 1515, 3408] {
            for protocol in [Protocol::Udp, Protocol::TCP_SYN, Protocol::IcmpEcho] {
                let sizes = Sizes::Fixed(size_bytes);
                let spec = StreamSpec { protocol, sizes, ..spec(src, dst) };
                let Some(program) = program(one(spec)) else { return };
                for nth in FIRST {
                    let frame = program.single_frame(&config(0, nth)).expect("it is made");
                    let reference = program.set.streams()[0].build(nth);
                    assert_eq!(frame, reference, "{src} > {dst}, {size_bytes} bytes, {nth}");
                }
            }
        }
    }
}

/// Any range of addresses of one family, of up to 300 of them.
fn ranges(over_ipv6: bool) -> impl Strategy<Value = String> {
    (any::<u128>(), 0_u16..300, 1_u16.., 0_u16..300, 0_u32..8).prop_map(
        move |(addr, more, port, ports, group)| {
            let last_port = port.saturating_add(ports);
            if over_ipv6 {
                let shift = 16 * (7 - group);
                let low = u16::try_from(addr >> shift & 0xffff).expect("16 bits");
                let high = low.saturating_add(more);
                let last = addr & !(0xffff << shift) | u128::from(high) << shift;
                let (addr, last) =
                    (std::net::Ipv6Addr::from_bits(addr), std::net::Ipv6Addr::from_bits(last));
                return format!("{group}@[{addr}]:{port}-[{last}]:{last_port}");
            }
            let addr = u32::try_from(addr >> 96).expect("32 bits");
            let last = std::net::Ipv4Addr::from_bits(addr.saturating_add(more.into()));
            format!("{}:{port}-{last}:{last_port}", std::net::Ipv4Addr::from_bits(addr))
        },
    )
}

/// Sizes that fit any frame with the smallest size, up to about 2,000 bytes.
fn sizes(smallest_bytes: u16) -> impl Strategy<Value = Sizes> {
    let size = smallest_bytes..2_000;
    prop_oneof![
        size.clone().prop_map(Sizes::Fixed),
        Just(Sizes::Fixed(smallest_bytes)),
        (size.clone(), 0_u16..1_400).prop_map(|(first_bytes, more)| Sizes::Uniform {
            first_bytes,
            last_bytes: first_bytes + more
        }),
        prop::collection::vec(size, 1..9).prop_map(Sizes::List),
        Just(Sizes::Imix),
    ]
}

fn protocols() -> impl Strategy<Value = Protocol> {
    prop_oneof![
        Just(Protocol::Udp),
        Just(Protocol::IcmpEcho),
        any::<u8>().prop_map(|bits| Protocol::Tcp { flags: Flags(bits) }),
    ]
}

fn tags() -> impl Strategy<Value = Vec<Tag>> {
    let kinds = prop_oneof![Just(TagKind::Customer), Just(TagKind::Service)];
    let tag = (kinds, 0_u8..8, any::<bool>(), 0_u16..4095).prop_map(|(kind, pcp, dei, id)| Tag {
        kind,
        pcp,
        dei,
        id,
    });
    prop::collection::vec(tag, 0..3)
}

prop_compose! {
    fn specs(thread_count: u16)(
        over_ipv6 in any::<bool>(), protocol in protocols(), tags in tags()
    )(
        ranges in (ranges(over_ipv6), ranges(over_ipv6)),
        sizes in sizes(size_bytes_min(tags.len(), over_ipv6, protocol)),
        walk in prop_oneof![
            Just(Walk::Odometer),
            any::<u64>().prop_map(|seed| Walk::Random { seed })
        ],
        (ttl, dscp, dont_fragment, size_seed) in (1_u8.., 0_u8..64, any::<bool>(), any::<u64>()),
        (over_ipv6, protocol, tags) in Just((over_ipv6, protocol, tags)),
        encap in prop_oneof![3 => Just(None), 1 => prop::sample::select(&Tunnel::ALL[..])
            .prop_map(Some)],
    ) -> StreamSpec {
        // In a tunnel there are no tags, and one size that holds all headers.
        let sizes = if encap.is_some() { Sizes::Fixed(180 + u16::from(ttl)) } else { sizes };
        StreamSpec {
            tags: if encap.is_some() { Vec::new() } else { tags },
            encap,
            protocol,
            ttl,
            dscp,
            dont_fragment: dont_fragment || over_ipv6,
            walk,
            sizes,
            size_seed,
            thread_count,
            ..spec(&ranges.0, &ranges.1)
        }
    }
}

/// For any streams together, any thread and any place, packet after packet is the reference's.
#[test]
fn any_set_is_sent_as_the_reference_says() {
    let strategy = (1_u16..6).prop_flat_map(|thread_count| {
        let streams = prop::collection::vec((specs(thread_count), 1_u32..5), 1..4);
        (streams, 0..thread_count, 0_u64..1 << 50)
    });
    if program(one(spec(RANGES[0].0, RANGES[0].1))).is_none() {
        return;
    }
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let result = runner.run(&strategy, |(mut specs, thread, first)| {
        for (number, (spec, _)) in (0..).zip(&mut specs) {
            spec.stream = number;
        }
        let program = program(set(specs)).expect("it was loaded before");
        turn_and_compare(&program, &config(u8::try_from(thread).expect("few"), first), 40);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Follows the odometer itself, packet after packet, for one and for several threads.
#[test]
fn the_odometer_turns_as_the_flow_space_says() {
    for (src, dst) in RANGES {
        for thread_count in [1, 2, 3, 7, 64, 256] {
            let spec = StreamSpec { thread_count, ..spec(src, dst) };
            let Some(program) = program(one(spec)) else { return };
            for first_nth in [0, 1, 4_890, 1_000_000_007] {
                turn_and_compare(&program, &config(0, first_nth), 40);
            }
        }
    }
}

/// A UDP checksum that comes out as zero is sent as all ones: one packet in 65,536.
#[test]
fn a_checksum_of_zero_is_sent_as_ones() {
    let Some(program) = program(one(spec(RANGES[1].0, RANGES[1].1))) else { return };
    let stream = &program.set.streams()[0];
    let all_ones = |sequence: &u64| stream.build(*sequence)[40..42] == [0xff, 0xff];
    let sequence = (0..1_000_000).find(all_ones).expect("it happens within a million packets");
    let frame = program.single_frame(&config(0, sequence)).expect("the frame is made");
    assert_eq!(frame, stream.build(sequence), "sequence {sequence}");
}

/// Plain packets come in runs of up to 64, whose words all grow evenly. A run has to end before one
/// does not: where either checksum comes to zero, a digit or half an address is full, or the
/// sequence number starts anew. Each is gone through from within a burst.
#[test]
fn a_run_ends_where_its_words_stop_growing_evenly() {
    let destinations = [("198.18.0.1:9", "10.0.255.200:9-10.1.0.99:9")];
    for (src, dst) in RANGES[..4].iter().chain(&destinations) {
        for thread_count in [1, 3] {
            let spec = StreamSpec { thread_count, ..spec(src, dst) };
            let Some(program) = program(one(spec)) else { return };
            assert_eq!(features::program(&program.set), "weir_gen_plain");
            let stream = &program.set.streams()[0];
            let share = Share::new(1 % u8::try_from(thread_count).expect("few"), thread_count);
            let share = share.expect("there is such a thread");
            // Where a checksum jumps upwards it has passed zero.
            let field = |nth: u64, at: usize| {
                let frame = stream.build(share.sequence(nth));
                u16::from_be_bytes([frame[at], frame[at + 1]])
            };
            let passes_zero = |at: usize| {
                let jumps = |nth: &u64| field(*nth, at).abs_diff(field(nth + 1, at)) > 0xf000;
                (0..70_000_u64).find(jumps)
            };
            let last = (1 << 48) / u64::from(thread_count);
            let places = [Some(0), passes_zero(24), passes_zero(40), Some(65_530), Some(last - 40)];
            for place in places.into_iter().flatten() {
                let first_nth = place.saturating_sub(35);
                turn_and_compare(&program, &config(share.thread(), first_nth), 140);
            }
        }
    }
}

/// The fold of `bpf/include/weir/checksum.h` against adding the upper part to the lower until it is
/// gone, for sums around every multiple of 2^16 that matters, and for any sum.
#[test]
fn one_multiplication_folds_a_sum() {
    let fold = |sum: u64| sum.wrapping_mul(0x0001_0001_0001_0001) >> 48;
    let reference = |mut sum: u64| {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    };
    for upper in (0..1 << 20).chain([(1 << 20) - 1]) {
        for lower in [0, 1, 2, 15, 16, 17, 0x7fff, 0x8000, 0xfff0, 0xfffd, 0xfffe, 0xffff] {
            let sum = upper << 16 | lower;
            assert_eq!(fold(sum), reference(sum), "{sum:#x}");
        }
        // Where the digits add up to 0xffff, 0x10000 and 0x1ffff.
        let digits = (upper >> 16) + (upper & 0xffff);
        for folded in [0xfffe_u64, 0xffff, 0x1_0000, 0x1_fffe, 0x1_ffff, 0x2_0000] {
            if let Some(lower) = folded.checked_sub(digits).filter(|lower| *lower <= 0xffff) {
                let sum = upper << 16 | lower;
                assert_eq!(fold(sum), reference(sum), "{sum:#x}");
            }
        }
    }
}

#[test]
fn a_timestamp_is_of_the_monotonic_clock() {
    let Some(program) = program(one(spec(RANGES[0].0, RANGES[0].1))) else { return };
    for interval in [None, Some(Interval { whole_ns: 1, fraction: 0 })] {
        let config = ThreadConfig { timestamps: true, interval, ..config(0, 0) };
        let first = program.single_frame(&config).expect("the frame is made");
        let second = program.single_frame(&config).expect("the frame is made");
        let stamp = |frame: &[u8]| Signature::parse(&frame[42..]).expect("signed").timestamp_ns;
        assert!(stamp(&second) > stamp(&first), "time passes between two frames");
        let expected = program.set.streams()[0].build_stamped(0, stamp(&first));
        assert_eq!(first, expected, "the checksum covers the stamp");
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let large = StreamSpec { sizes: Sizes::Fixed(3409), ..spec(RANGES[0].0, RANGES[0].1) };
    let error = GeneratorProgram::load(one(large)).expect_err("the size is refused");
    assert!(error.to_string().contains("3409"), "{error}");
    let Some(program) = program(one(spec(RANGES[0].0, RANGES[0].1))) else { return };
    let error = program.configure(0, &config(1, 0)).expect_err("there is no such thread");
    assert!(matches!(error, ConfigError::Thread(_)), "{error}");
    let error = program.configure(u32::MAX, &config(0, 0)).expect_err("no such CPU");
    assert!(matches!(error, ConfigError::Cpu { .. }), "{error}");
    assert!(program.connect(u32::MAX).is_err(), "there is no such interface");
    assert!(program.run(64, 257).is_err(), "the batch is too large");
}

/// Live frames on a CPU without a thread, and without an output: all are refused, none is sent.
#[test]
fn an_unconfigured_thread_sends_nothing() {
    let Some(program) = program(one(spec(RANGES[0].0, RANGES[0].1))) else { return };
    program.run(100, 0).expect("live frames run");
    let counters = program.counters().expect("counters");
    assert_eq!(counters, GeneratorCounters { refused_packets: 100, ..Default::default() });
    program.clear_counters().expect("cleared");
    assert_eq!(program.counters().expect("counters"), GeneratorCounters::default());
}

/// The gaps of a paced thread are between its packets, and one fewer than these.
#[test]
fn gaps_are_counted() {
    let Some(program) = program(one(spec(RANGES[0].0, RANGES[0].1))) else { return };
    program.connect(LOOPBACK_IFINDEX).expect("loopback is a device");
    let interval = Some(Interval { whole_ns: 1_000, fraction: 0 });
    for cpu in 0..program.threads.max_entries() {
        program.configure(cpu, &ThreadConfig { interval, ..config(0, 0) }).expect("configured");
    }
    program.clear_counters().expect("cleared");
    let page = vec![0; program.template().len()];
    let mut output = vec![0; page.len()];
    for _ in 0..200 {
        sys::test_run_once(program.program.as_fd(), &page, &mut output).expect("it runs");
    }
    let counters: Vec<GeneratorCounters> = (0..program.threads.max_entries())
        .map(|cpu| program.thread_counters(cpu).expect("counters"))
        .filter(|counters| counters.offered_packets > 0)
        .collect();
    let gaps = program.gaps_ns().expect("gaps");
    let between: u64 = counters.iter().map(|counters| counters.offered_packets - 1).sum();
    assert_eq!(gaps.count(), between);
    assert_eq!(gaps.max(), counters.iter().map(|counters| counters.gap_max_ns).max());
}

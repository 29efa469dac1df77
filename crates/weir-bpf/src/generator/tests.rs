//! The program's frames against `weir_wire::frame`, byte for byte, and the limits of a lane.
//!
//! These run the real program in the kernel, without devices, and so need the privileges that
//! loading it needs; without them they say so and pass.

use weir_wire::checksum;
use weir_wire::flow::FlowSpace;
use weir_wire::frame::UdpStream;
use weir_wire::mac::MacAddr;
use weir_wire::range::Range;

use super::*;

/// Loads the program, or says that the test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn program() -> Option<GeneratorProgram> {
    match GeneratorProgram::load() {
        Ok(program) => Some(program),
        Err(error) if error.is_permission() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn range(text: &str) -> Range {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn config(src: &str, dst: &str, size_bytes: u16) -> GeneratorConfig {
    let flows = FlowSpace::new(range(src), range(dst)).expect("the ranges are small enough");
    GeneratorConfig {
        stream: UdpStream {
            dst_mac: MacAddr([0x02, 0xde, 0xad, 0xbe, 0xef, 0x01]),
            src_mac: MacAddr([0x02, 0xfe, 0xed, 0xfa, 0xce, 0x02]),
            ttl: 64,
            tos: 0x10,
            flows,
            size_bytes,
            stream: 7,
            thread: 0,
        },
        first_sequence: 0,
        end_sequence: None,
        sequence_step: 1,
        interval: None,
        catch_up_ns: CATCH_UP_NS,
        timestamps: false,
    }
}

/// The reference frame; beyond what `UdpStream::build` makes, its largest one is stretched.
fn reference(stream: &UdpStream, sequence: u64) -> Vec<u8> {
    const BUILT_BYTES_MAX: u16 = 1514;
    let size_bytes = stream.size_bytes;
    let built = UdpStream { size_bytes: size_bytes.min(BUILT_BYTES_MAX), ..*stream };
    let mut frame = built.build(sequence);
    if size_bytes > BUILT_BYTES_MAX {
        let flow = stream.flows.flow(sequence);
        frame.resize(usize::from(size_bytes), 0);
        frame[16..18].copy_from_slice(&(size_bytes - 14).to_be_bytes());
        frame[38..40].copy_from_slice(&(size_bytes - 34).to_be_bytes());
        let checksum = checksum::ipv4_header(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        let checksum = checksum::udp_v4(flow.src, flow.dst, &frame[34..]);
        frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    }
    frame
}

const RANGES: [(&str, &str); 5] = [
    ("198.18.10.1:2000", "198.19.10.1:2000"),
    ("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70"),
    ("198.18.0.1:65530-198.18.0.3:65535", "198.19.0.1:1-198.19.0.5:4"),
    ("0.0.0.0:0-0.0.0.0:65535", "255.255.255.254:65535-255.255.255.255:65535"),
    ("0.0.0.0:9-255.255.255.255:9", "10.255.255.250:80-11.0.0.9:81"),
];

#[test]
fn frames_are_the_references_frames() {
    let Some(program) = program() else { return };
    let sequences = (0..40)
        .chain([69, 70, 4_899, 4_900, 4_901, 65_535, 65_536, 1_000_003])
        .chain([(1 << 32) - 1, 1 << 32, (1 << 48) - 1, 1 << 48, (1 << 48) + 12_345]);
    let sequences: Vec<u64> = sequences.collect();
    for (src, dst) in RANGES {
        for size_bytes in [60, 61, 64, 128, 1514, 1515, 3408] {
            let mut config = config(src, dst, size_bytes);
            for &sequence in &sequences {
                config.first_sequence = sequence;
                let frame = program.single_frame(&config).expect("the frame is made");
                assert_eq!(
                    frame,
                    reference(&config.stream, sequence),
                    "{src} > {dst}, {size_bytes} bytes, sequence {sequence}"
                );
            }
        }
    }
}

/// A UDP checksum that comes out as zero is sent as all ones: one packet in 65,536.
#[test]
fn a_checksum_of_zero_is_sent_as_ones() {
    let Some(program) = program() else { return };
    let mut config = config(RANGES[1].0, RANGES[1].1, 60);
    let all_ones = |sequence: &u64| config.stream.build(*sequence)[40..42] == [0xff, 0xff];
    let sequence = (0..1_000_000).find(all_ones).expect("it happens within a million packets");
    config.first_sequence = sequence;
    let frame = program.single_frame(&config).expect("the frame is made");
    assert_eq!(frame, config.stream.build(sequence), "sequence {sequence}");
}

/// Follows the odometer itself, packet after packet, for one and for several threads.
#[test]
fn the_odometer_turns_as_the_flow_space_says() {
    let Some(program) = program() else { return };
    for (src, dst) in RANGES {
        for sequence_step in [1, 2, 3, 7, 64, 5_000] {
            for first_sequence in [0, 1, 4_890, 1_000_000_007] {
                let mut config = config(src, dst, 60);
                config.first_sequence = first_sequence;
                config.sequence_step = sequence_step;
                turn_and_compare(&program, &config, 40);
            }
        }
    }
}

/// Runs `count` packets of one lane one at a time and compares each.
fn turn_and_compare(program: &GeneratorProgram, config: &GeneratorConfig, count: u64) {
    // A test run goes to the lane of the CPU on which it happens to run, so that each CPU's lane is
    // set to the packet that is expected next, as the program itself left it.
    let cpu_count = u32::try_from(libbpf_rs::num_possible_cpus().expect("CPUs")).expect("few");
    for cpu in 0..cpu_count {
        program.configure(cpu, config).expect("the lane is configured");
    }
    let loopback = 1;
    program.connect(loopback).expect("loopback is a device");
    let mut output = vec![0; usize::from(SIZE_BYTES_MAX)];
    for turn in 0..count {
        let before: Vec<u64> =
            (0..cpu_count).map(|cpu| program.next_sequence(cpu).expect("lane")).collect();
        let page = [0xff; 60];
        let (verdict, size) =
            sys::test_run_once(program.program.as_fd(), &page, &mut output).expect("it runs");
        assert_eq!(verdict, 4, "the packet is redirected");
        let moved = (0..cpu_count)
            .find(|&cpu| program.next_sequence(cpu).expect("lane") != before[cpu as usize])
            .expect("one lane has moved on");
        let sequence = before[moved as usize];
        assert_eq!(
            output[..size],
            reference(&config.stream, sequence),
            "turn {turn} of step {}: sequence {sequence}",
            config.sequence_step
        );
        let next = program.next_sequence(moved).expect("lane");
        assert_eq!(next, sequence + config.sequence_step);
    }
}

#[test]
fn a_timestamp_is_of_the_monotonic_clock() {
    let Some(program) = program() else { return };
    let mut config = config("198.18.10.1:2000", "198.19.10.1:2000", 60);
    config.timestamps = true;
    let first = program.single_frame(&config).expect("the frame is made");
    let second = program.single_frame(&config).expect("the frame is made");
    let stamp = |frame: &[u8]| {
        weir_wire::signature::Signature::parse(&frame[42..]).expect("signed").timestamp_ns
    };
    assert!(stamp(&second) > stamp(&first), "time passes between two frames");
    let expected = config.stream.build_stamped(0, stamp(&first));
    assert_eq!(first, expected, "the checksum covers the stamp");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let Some(program) = program() else { return };
    for size_bytes in [0, 59, 3409] {
        let bad = config("198.18.10.1:2000", "198.19.10.1:2000", size_bytes);
        let error = program.configure(0, &bad).expect_err("the size is refused");
        assert!(error.to_string().contains(&size_bytes.to_string()), "{error}");
    }
    let mut bad = config("198.18.10.1:2000", "198.19.10.1:2000", 60);
    bad.sequence_step = 0;
    assert!(matches!(program.configure(0, &bad), Err(ConfigError::Step)));
    bad.sequence_step = 1;
    let error = program.configure(u32::MAX, &bad).expect_err("there is no such CPU");
    assert!(error.to_string().contains("weir_lanes"), "{error}");
    assert!(program.connect(u32::MAX).is_err(), "there is no such interface");
    assert!(program.run(60, 64, BATCH_MAX + 1).is_err(), "the batch is too large");
}

/// Live frames on a CPU without a lane, and without an output: all are refused, none is sent.
#[test]
fn an_unconfigured_lane_sends_nothing() {
    let Some(program) = program() else { return };
    program.run(60, 100, 0).expect("live frames run");
    let counters = program.counters().expect("counters");
    assert_eq!(counters, GeneratorCounters { refused_packets: 100, ..Default::default() });
    program.clear_counters().expect("cleared");
    assert_eq!(program.counters().expect("counters"), GeneratorCounters::default());
}

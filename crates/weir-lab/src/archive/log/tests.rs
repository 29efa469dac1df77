//! Lines of every era, and what must not be taken for one.

use super::*;

fn one(text: &str) -> Line {
    let log = Log::parse(text.as_bytes());
    assert_eq!(log.skipped, [], "{text}");
    assert_eq!(log.samples.len(), 1, "{text}");
    log.samples[0]
}

#[test]
fn old_and_new_samples_are_read() {
    let old = one("850.417140 main_thread [1550] 273302 pps (273820 pkts in 1001895 usec)\n");
    let expected = Line {
        line: 1,
        time_s: Some(850.417_14),
        rate_pps: 273_302.0,
        packets: Some(273_820.0),
        interval_us: Some(1_001_895),
        is_plain: true,
    };
    assert_eq!(old, expected);
    let new = one("538.647098 main_thread [2655] 1488945 pps (1490432 pkts 512708608 bps in \
                   1000999 usec) 492.38 avg_batch 99999 min_space\n");
    assert_eq!((new.rate_pps, new.packets), (1_488_945.0, Some(1_490_432.0)));
    assert_eq!(new.interval_us, Some(1_000_999));
    assert!(!one("1.0 main_thread [1] 0 pps (0 pkts in 1000 usec)\n").is_plain);
}

#[test]
fn scaled_units_are_understood_and_flagged() {
    let text = "1.5 main_thread [2639] 1.067 Mpps (1.068 Mpkts 512.782 Mbps in 1001007 usec) \
                510.61 avg_batch 99999 min_space\n";
    let log = Log::parse(text.as_bytes());
    assert_eq!(log.flags, BTreeSet::from([Flag::ScaledUnits]));
    let sample = log.samples[0];
    assert_eq!((sample.rate_pps, sample.is_plain), (1_067_000.0, false));
    assert_eq!((sample.packets, sample.interval_us), (Some(1_068_000.0), Some(1_001_007)));
    let slow = format!("{text}2.5 main_thread [2639] 512.000 pps (513.000 pkts in 1 usec)\n");
    assert!(!Log::parse(slow.as_bytes()).flags.contains(&Flag::MixedUnits));
    let mixed = format!("{text}2.5 main_thread [2639] 900000 pps (1 pkts in 1 usec)\n");
    let log = Log::parse(mixed.as_bytes());
    assert!(log.flags.contains(&Flag::MixedUnits));
    assert_eq!((log.samples.len(), log.samples[0].rate_pps), (1, 900_000.0));
    assert_eq!(log.skipped[0].0, 1);
}

#[test]
fn what_is_no_rate_is_named_with_its_line() {
    for wrong in ["nan", "inf", "-5", "1e9", "12x", ""] {
        let text = format!("CMD: pkt-gen\n1.0 main_thread [9] {wrong} pps (1 pkts in 1 usec)\n");
        let log = Log::parse(text.as_bytes());
        assert!(log.samples.is_empty(), "{wrong}");
        assert_eq!(log.skipped.len(), 1, "{wrong}");
        assert_eq!(log.skipped[0].0, 2);
    }
    for other in ["main_thread starts", "main_thread [12]", "main_thread [1] waiting for pps"] {
        let log = Log::parse(format!("1.0 {other}\n").as_bytes());
        assert_eq!((log.samples.len(), log.skipped.len()), (0, 0), "{other}");
    }
}

#[test]
fn traces_commands_and_totals_are_told_apart() {
    let text = "CMD on sm1.lab: pkt-gen -f tx\n+ eval /usr/bin/ssh\nSent 80000000 packets, 60 \
                bytes each\n+ return 0\n";
    let log = Log::parse(text.as_bytes());
    assert_eq!(log.command.as_deref(), Some("pkt-gen -f tx"));
    assert_eq!(log.host.as_deref(), Some("sm1.lab"));
    assert_eq!(log.total_packets, Some(80_000_000));
    assert_eq!(log.flags, BTreeSet::from([Flag::ShellTrace]));
    assert_eq!(log.line_count, 4);
    assert_eq!(log.crash, None);
}

#[test]
fn the_last_words_of_a_program_are_seen() {
    let text = "CMD: pkt-gen\n1.0 main [1] ouch, thread 0 exited with error\n";
    let crash = Log::parse(text.as_bytes()).crash.unwrap();
    assert_eq!(crash, (2, "1.0 main [1] ouch, thread 0 exited with error".to_owned()));
}

#[test]
fn searches_end_with_an_estimate() {
    let text = "Estimated Equilibrium Ethernet throughput= 473 Mb/s (maximum value seen: 484 \
                Mb/s)\n";
    let estimate = Log::parse(text.as_bytes()).estimate.unwrap();
    assert_eq!((estimate.rate, estimate.rate_max), (473e6, Some(484e6)));
    assert!(estimate.is_bits);
    let log = Log::parse(b"Estimated Equilibrium Ethernet throughput= \n");
    assert_eq!((log.estimate, log.skipped.len()), (None, 1));
}

#[test]
fn terminals_leave_codes_that_are_taken_out() {
    let text = "\x1b[?1034h\x1b]0;title\x07\x1b[32m1.0 main_thread [9] 5 pps\x1b[0m (5 pkts in 1 \
                usec)\n";
    let log = Log::parse(text.as_bytes());
    assert_eq!(log.samples[0].rate_pps, 5.0);
    assert_eq!(log.flags, BTreeSet::from([Flag::EscapeCodes]));
    assert_eq!(without_escapes("a\x1b"), "a");
    assert_eq!(without_escapes("a\x1b]0;b\x1b\\c"), "ac");
}

#[test]
fn cut_binary_and_endless_lines_are_named() {
    let mut bytes = b"CMD: pkt-gen\n\xff\xfe main_thread\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 10_000_000));
    bytes.extend(b"\n1.0 main_thread [9] 5 pps (5 pkts in 1 usec)\n1.0 main_thread [9] 4");
    let log = Log::parse(&bytes);
    assert_eq!(log.samples.len(), 1);
    assert_eq!(log.samples[0].line, 4);
    assert_eq!(log.line_count, 4);
    let lines: Vec<u64> = log.skipped.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3]);
    for flag in [Flag::CutShort, Flag::NotUtf8, Flag::LongLine] {
        assert!(log.flags.contains(&flag), "{flag:?}");
    }
    assert_eq!(Log::parse(b""), Log::default());
    let noise = Log::parse(&[0xff, b'\n'].repeat(9));
    assert_eq!((noise.skipped.len(), noise.skipped_more), (PROBLEMS_MAX, 4));
}

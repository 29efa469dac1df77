//! The lines, byte by byte.

use super::*;

const PLAIN: Style = Style { plain: true, averages: false, framing: false };
const SCALED: Style = Style { plain: false, averages: false, framing: false };

fn counters(packets: u64, batches: u64) -> Counters {
    Counters { packets, bytes: packets * 60, batches }
}

/// Figures of the line in pkt-gen's documentation of its format.
fn documented() -> Counters {
    Counters { packets: 30_572_827, bytes: 1_834_369_620, batches: 80_592 }
}

#[test]
fn a_report_in_plain_numbers() {
    let mut reporter = Reporter::new(PLAIN);
    let text = reporter.report(documented(), 2_059_751).unwrap();
    assert_eq!(
        text,
        "14842972 pps (30572827 pkts 7124626695 bps in 2059751 usec) 379.35 avg_batch 99999 \
         min_space"
    );
    let line = log_line(Duration::new(1_700_000_367, 956_838_999), "main_thread", 2786, &text);
    assert_eq!(line, format!("367.956838 main_thread [2786] {text}\n"));
    // What scripts cut out of it.
    let field = |number: usize| line.split(' ').nth(number - 1).unwrap();
    assert_eq!([field(2), field(4), field(5)], ["main_thread", "14842972", "pps"]);
    assert_eq!([field(6), field(8), field(9)], ["(30572827", "7124626695", "bps"]);
}

#[test]
fn a_report_in_scaled_numbers() {
    let text = Reporter::new(SCALED).report(documented(), 2_059_751).unwrap();
    assert_eq!(
        text,
        "14.843 Mpps (30.573 Mpkts 7.125 Gbps in 2059751 usec) 379.35 avg_batch 99999 min_space"
    );
    // The prefix is chosen before rounding, and under 1000 there is none but its space.
    assert_eq!(SCALED.number(999.4), "999.400 ");
    assert_eq!(SCALED.number(999.9999), "1000.000 ");
    assert_eq!(SCALED.number(1000.0), "1.000 K");
    assert_eq!(SCALED.number(0.0), "0.000 ");
    assert_eq!(SCALED.number(2.5e15), "2500.000 T");
    assert_eq!(PLAIN.number(0.5), "0 ");
}

#[test]
fn reports_are_of_the_time_since_the_last() {
    let mut reporter = Reporter::new(PLAIN);
    let first = reporter.report(counters(1000, 10), 1_000_000).unwrap();
    assert!(first.starts_with("1000 pps (1000 pkts 480000 bps in 1000000 usec) 100.00 "));
    // Too short an interval is put off, with what was counted in it.
    assert_eq!(reporter.report(counters(1500, 20), 9_999), None);
    let second = reporter.report(counters(3000, 30), 2_000_000).unwrap();
    assert!(second.starts_with("1000 pps (2000 pkts 480000 bps in 2000000 usec) 100.00 "));
    let idle = reporter.report(counters(3000, 30), 1_000_000).unwrap();
    assert_eq!(idle, "0 pps (0 pkts 0 bps in 1000000 usec) 0.00 avg_batch 99999 min_space");
}

#[test]
fn framing_counts_as_bits() {
    let style = Style { framing: true, ..PLAIN };
    let text = Reporter::new(style).report(counters(1000, 1), 1_000_000).unwrap();
    assert!(text.contains("(1000 pkts 672000 bps in"), "{text}");
}

#[test]
fn mean_and_deviation_go_before_the_parenthesis() {
    let style = Style { averages: true, ..PLAIN };
    let mut reporter = Reporter::new(style);
    let text = reporter.report(counters(1000, 1), 1_000_000).unwrap();
    assert!(text.starts_with("1000 pps [avg/std 1000 /0  pps](1000 pkts "), "{text}");
    let text = reporter.report(counters(4000, 1), 1_000_000).unwrap();
    assert!(text.starts_with("3000 pps [avg/std 2000 /1000  pps](3000 pkts "), "{text}");
    // A report without packets does not count, and is no division by zero when it is the only one.
    let text = reporter.report(counters(4000, 1), 1_000_000).unwrap();
    assert!(text.starts_with("0 pps [avg/std 2000 /1000  pps](0 pkts "), "{text}");
    let text = Reporter::new(style).report(Counters::default(), 1_000_000).unwrap();
    assert!(text.starts_with("0 pps [avg/std 0 /0  pps](0 pkts "), "{text}");

    let mut reporter = Reporter::new(Style { averages: true, ..SCALED });
    let text = reporter.report(counters(2_500_000, 1), 1_000_000).unwrap();
    assert!(text.starts_with("2.500 Mpps [avg/std 2.500 M/0.000  pps](2.500 Mpkts "), "{text}");
}

#[test]
fn the_window_has_fifteen_reports() {
    let mut reporter = Reporter::new(Style { averages: true, ..PLAIN });
    let mut packets = 1_000_000;
    reporter.report(counters(packets, 1), 1_000_000).unwrap();
    for number in 1..=WINDOW_REPORTS {
        packets += 10;
        let text = reporter.report(counters(packets, 1), 1_000_000).unwrap();
        let all_alike = text.contains("[avg/std 10 /0  pps]");
        assert_eq!(all_alike, number == WINDOW_REPORTS, "report {number}: {text}");
    }
}

#[test]
fn totals_of_tx_and_rx() {
    let all = Counters { packets: 300_000_000, bytes: 18_000_000_000, batches: 795_544 };
    let elapsed = Duration::from_micros(201_590_000);
    assert_eq!(
        totals(Function::Tx, SCALED, all, elapsed),
        "Sent 300000000 packets 18000000000 bytes 795544 events 60 bytes each in 201.59 seconds.\n\
         Speed: 1.488 Mpps Bandwidth: 714.321 Mbps (raw 714.321 Mbps). Average batch: 377.10 pkts\n"
    );
    let framed = totals(Function::Tx, Style { framing: true, ..SCALED }, all, elapsed);
    assert!(framed.contains("714.321 Mbps (raw 1.000 Gbps). "), "{framed}");
    assert_eq!(
        totals(Function::Rx, PLAIN, counters(7, 7), Duration::from_millis(500)),
        "Received 7 packets 420 bytes 7 events 60 bytes each in 0.50 seconds.\n\
         Speed: 14 pps Bandwidth: 6720 bps (raw 6720 bps). Average batch: 1.00 pkts\n"
    );
    assert_eq!(totals(Function::Tx, PLAIN, Counters::default(), elapsed), "Sent nothing.\n");
    assert_eq!(totals(Function::Rx, PLAIN, Counters::default(), elapsed), "Received nothing.\n");
    // No time and no batch are no division by zero.
    let text = totals(Function::Rx, PLAIN, counters(1, 0), Duration::ZERO);
    assert!(
        text.ends_with(
            "Speed: 1000000 pps Bandwidth: 480000000 bps (raw 480000000 bps). \
                            Average batch: 0.00 pkts\n"
        ),
        "{text}"
    );
}

#[test]
fn opening_lines() {
    assert_eq!(
        opening(Function::Tx, "netmap:igb2", 4, 1, 1),
        "Sending on netmap:igb2: 4 queues, 1 threads and 1 cpus.\n"
    );
    assert_eq!(
        opening(Function::Rx, "netmap:igb3", 2, 2, 4),
        "Receiving from netmap:igb3: 2 queues, 2 threads and 4 cpus.\n"
    );
    assert!(opening(Function::Ping, "x", 1, 1, 1).starts_with("Working on x: "));
    assert!(opening(Function::Pong, "x", 1, 1, 1).starts_with("Working on x: "));
    assert_eq!(
        ends("10.0.0.1", "10.1.0.1", "00:00:00:00:00:00", "00:08:a2:09:33:da"),
        "10.0.0.1 -> 10.1.0.1 (00:00:00:00:00:00 -> 00:08:a2:09:33:da)\n"
    );
}

#[test]
fn times_are_padded() {
    let line = log_line(Duration::new(1_700_000_005, 42_000), "main", 7, "x");
    assert_eq!(line, "005.000042 main [7] x\n");
}

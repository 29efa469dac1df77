//! pkt-gen's own lines, from published benchmarks, are printed again byte by byte.
//!
//! The benchmarks (BSDRP's netbenches) are not part of this repository: they are read where they
//! are. Lines of the oldest versions, which have no eighth field, are left out; in those of the
//! next ones that field holds the bits of the interval, although it says bits per second.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Where the report stands in the source of the first version whose bits are per second.
const FIRST_PER_SECOND: u32 = 2786;

const PLAIN: Style = Style { plain: true, averages: false, framing: false };

/// Logs of senders and receivers; `None` if they are not there.
fn logs() -> Option<Vec<String>> {
    let data = std::env::var_os("WEIR_TEST_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let mut folders = vec![data.join("netbenches")];
    let mut logs = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()? {
            let path = entry.ok()?.path();
            let kind = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() {
                folders.push(path);
            } else if matches!(kind, Some("sender" | "receiver")) {
                logs.push(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned());
            }
        }
    }
    (!logs.is_empty()).then_some(logs)
}

/// The logs, or a word that there are none.
fn logs_or_skip() -> Option<Vec<String>> {
    let logs = logs();
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    if logs.is_none() {
        eprintln!("skipped: there are no netbenches in ../shared/data or $WEIR_TEST_DATA");
    }
    logs
}

/// A field of a line, from 1, as `cut -d ' ' -f N` has it.
fn cut(line: &str, field: usize) -> &str {
    line.split(' ').nth(field - 1).unwrap_or_default()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and microseconds are far below 2^53"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Number of batches that gives a mean that is printed so.
fn batches(packets: u64, per_batch: f64) -> u64 {
    if per_batch == 0.0 { 0 } else { rounded(packets as f64 / per_batch) }
}

/// Reads a report with the fields that scripts cut, and prints it again.
fn again(line: &str) -> String {
    let number = |field| cut(line, field).trim_start_matches('(').parse::<u64>().unwrap();
    let (packets, bits, elapsed_us) = (number(6), number(8), number(11));
    let place = cut(line, 3).trim_matches(['[', ']']).parse().unwrap();
    let per_second = place >= FIRST_PER_SECOND;
    let interval_s = if per_second { elapsed_us as f64 / 1e6 } else { 1.0 };
    let counted = Counters {
        packets,
        bytes: rounded(bits as f64 * interval_s / 8.0),
        batches: batches(packets, cut(line, 13).parse().unwrap()),
    };
    let mut text = report(PLAIN, counted, elapsed_us, None, number(15));
    if !per_second {
        let rate_bps = text.split(' ').nth(4).unwrap().to_owned();
        text = text.replacen(&rate_bps, &(counted.bytes * 8).to_string(), 1);
    }
    let (seconds, micros) = cut(line, 1).split_once('.').unwrap();
    let time = Duration::new(seconds.parse().unwrap(), micros.parse::<u32>().unwrap() * 1000);
    log_line(time, cut(line, 2), place, &text)
}

#[test]
fn reports_are_printed_as_recorded() {
    let Some(logs) = logs_or_skip() else { return };
    let mut count = 0;
    for line in logs.iter().flat_map(|log| log.lines()) {
        if line.contains("main_thread [") && line.ends_with(" min_space") {
            assert_eq!(again(line), format!("{line}\n"));
            count += 1;
        }
    }
    assert!(count > 1000, "{count} reports were found");
}

#[test]
fn totals_are_printed_as_recorded() {
    let Some(logs) = logs_or_skip() else { return };
    let mut count = 0;
    for log in &logs {
        let lines: Vec<_> = log.lines().collect();
        for pair in lines.windows(2) {
            let (sentence, speed) = (pair[0], pair[1]);
            let function = match cut(sentence, 1) {
                "Sent" => Function::Tx,
                "Received" => Function::Rx,
                _ => continue,
            };
            if cut(sentence, 7) != "events" || cut(speed, 3) != "pps" {
                continue;
            }
            let number = |line, field| cut(line, field).parse::<u64>().unwrap();
            let all = Counters {
                packets: number(sentence, 2),
                bytes: number(sentence, 4),
                batches: number(sentence, 6),
            };
            // pkt-gen measures in microseconds, and the bandwidth has enough digits to tell them.
            let elapsed_us = rounded(all.bytes as f64 * 8e6 / number(speed, 5) as f64);
            let elapsed = Duration::from_micros(elapsed_us);
            let recorded = format!("{sentence}\n{speed}\n");
            let style = Style { framing: cut(speed, 5) != cut(speed, 8), ..PLAIN };
            assert_eq!(totals(function, style, all, elapsed), recorded);
            count += 1;
        }
    }
    assert!(count > 10, "{count} totals were found");
}

#[test]
fn opening_lines_are_printed_as_recorded() {
    let Some(logs) = logs_or_skip() else { return };
    let mut count = 0;
    for line in logs.iter().flat_map(|log| log.lines()) {
        let function = match (cut(line, 1), cut(line, 2)) {
            ("Sending", "on") => Function::Tx,
            ("Receiving", "from") => Function::Rx,
            _ => continue,
        };
        let Ok(cpu_count) = cut(line, 9).parse() else { continue };
        let [queues, threads] = [4, 6].map(|field| cut(line, field).parse::<u16>().unwrap());
        let interface = cut(line, 3).trim_end_matches(':');
        let printed = opening(function, interface, queues.into(), threads, cpu_count);
        assert_eq!(printed, format!("{line}\n"));
        count += 1;
    }
    assert!(count > 10, "{count} opening lines were found");
}

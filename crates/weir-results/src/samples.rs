//! `samples.csv`: cumulative counts since the start of the measurement, one line a sample.
//!
//! Four whole numbers a line under a fixed header; nothing else is written, and anything else is
//! refused when read.

use std::fmt::Write as _;

use crate::record::Sample;

const HEADER: &str = "t_ns,rx_packets,rx_bytes,tx_packets";

/// The text of the file.
#[must_use]
pub fn render(samples: &[Sample]) -> String {
    let mut text = String::with_capacity(samples.len() * 48 + HEADER.len() + 1);
    text.push_str(HEADER);
    text.push('\n');
    for s in samples {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{},{},{},{}", s.t_ns, s.rx_packets, s.rx_bytes, s.tx_packets);
    }
    text
}

/// Reads the file.
///
/// # Errors
/// When it is not such a file; the error names the line.
pub fn parse(text: &str) -> Result<Vec<Sample>, String> {
    if !text.ends_with('\n') {
        return Err(format!("line {} is cut short", text.lines().count().max(1)));
    }
    let mut lines = text.lines().zip(1..);
    match lines.next() {
        Some((HEADER, _)) => {}
        other => return Err(format!("line 1 is {other:?} instead of `{HEADER}`")),
    }
    lines
        .map(|(line, number)| {
            let fields: Result<Vec<u64>, _> = line.split(',').map(str::parse).collect();
            match fields.as_deref() {
                Ok(&[t_ns, rx_packets, rx_bytes, tx_packets]) => {
                    Ok(Sample { t_ns, rx_packets, rx_bytes, tx_packets })
                }
                _ => Err(format!("line {number} is not four whole numbers: `{line}`")),
            }
        })
        .collect()
}

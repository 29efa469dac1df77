//! Logs of pkt-gen and equilibrium, as bench-lab.sh keeps them.
//!
//! A log begins with `CMD: …` or `CMD on HOST: …`; trace lines of the shell (`+ …`) may follow.
//! Samples are lines of pkt-gen's main thread: `SSS.uuuuuu main_thread [NNNN] P pps (K pkts in U
//! usec)`, of newer versions `… P pps (K pkts B bps in U usec) A avg_batch S min_space`. Without
//! `-N`, rates are scaled (`1.067 Mpps`), which the scripts of the archives take for 1.067.
//! equilibrium ends with `Estimated Equilibrium Ethernet throughput= 473 Mb/s (maximum value seen:
//! 484 Mb/s)`.
//!
//! Nothing here judges. Lines that cannot be read are named, and count in the positions of the
//! others.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Flag;
use weir_gen::pkt_gen::lines::{
    LINE_BYTES_MAX, Line, digits, multiplier, sample, total, without_escapes,
};

/// Lines that are named one by one; what more there are of them is counted.
pub(super) const PROBLEMS_MAX: usize = 5;

/// What a program or a kernel says when it dies.
const LAST_WORDS: [&str; 8] = [
    "exited with error",
    "Fatal trap",
    "panic: ",
    "Segmentation fault",
    "core dumped",
    "Bus error",
    "Abort trap",
    "Assertion failed",
];

/// The result of a search by equilibrium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Line, from 1.
    pub(super) line: u64,
    /// The rate, in `unit`.
    pub(super) rate: f64,
    /// The largest rate that was seen; absent if the line does not name it.
    pub(super) rate_max: Option<f64>,
    /// Whether it counts bits.
    pub(super) is_bits: bool,
}

/// What a log says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Log {
    /// The command, behind `CMD: ` or `CMD on HOST: `.
    pub(super) command: Option<String>,
    /// The host that ran it.
    pub(super) host: Option<String>,
    /// Line feeds in the file.
    pub(super) line_count: u64,
    /// Lines of the main thread, also those with nothing in them.
    pub(super) samples: Vec<Line>,
    /// The first line on which something dies, and what it says.
    pub(super) crash: Option<(u64, String)>,
    /// Packets in total, as pkt-gen sums up at its end.
    pub(super) total_packets: Option<u64>,
    /// The result of a search.
    pub(super) estimate: Option<Estimate>,
    /// What is special about it.
    pub(super) flags: BTreeSet<Flag>,
    /// Lines that were skipped: number and reason.
    pub(super) skipped: Vec<(u64, String)>,
    /// Lines that were skipped beyond those.
    pub(super) skipped_more: u64,
}

impl Log {
    /// Reads a log.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut log = Self::default();
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        let mut number = 0;
        while let Some(line) = lines.next() {
            number += 1;
            let is_cut = lines.peek().is_none();
            if is_cut && line.is_empty() {
                break;
            }
            if is_cut {
                log.flags.insert(Flag::CutShort);
            } else {
                log.line_count = number;
            }
            log.line(number, line);
        }
        log.part_units();
        log
    }

    /// Leaves the plain rates where there are scaled ones beside them: pkt-gen does not change its
    /// units, so two programs have written to the file, and the plain rates have all their digits.
    fn part_units(&mut self) {
        let is_scaled = |sample: &Line| !sample.is_plain && sample.rate_pps > 0.0;
        let scaled: Vec<u64> =
            self.samples.iter().filter(|s| is_scaled(s)).map(|s| s.line).collect();
        let (Some(first), true) = (scaled.first(), self.samples.iter().any(|s| s.is_plain)) else {
            return;
        };
        self.flags.insert(Flag::MixedUnits);
        let count = scaled.len();
        let reason = format!("mixed units: {count} scaled rates among plain ones are not read");
        self.skip(*first, reason);
        self.samples.retain(|sample| !is_scaled(sample));
    }

    fn skip(&mut self, number: u64, reason: String) {
        if self.skipped.len() < PROBLEMS_MAX {
            self.skipped.push((number, reason));
        } else {
            self.skipped_more += 1;
        }
    }

    fn line(&mut self, number: u64, bytes: &[u8]) {
        if bytes.len() > LINE_BYTES_MAX {
            self.flags.insert(Flag::LongLine);
            let reason = format!(
                "a line of {} bytes: those above {LINE_BYTES_MAX} are not read",
                bytes.len()
            );
            return self.skip(number, reason);
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.flags.insert(Flag::NotUtf8);
            return self.skip(number, "not UTF-8: the line is not read".to_owned());
        };
        let text = without_escapes(text.trim_end_matches('\r'));
        if matches!(text, Cow::Owned(_)) {
            self.flags.insert(Flag::EscapeCodes);
        }
        if let Some(at) = text.find("main_thread") {
            return match sample(number, &text, at) {
                Ok(Some((sample, is_scaled))) => {
                    if is_scaled {
                        self.flags.insert(Flag::ScaledUnits);
                    }
                    self.samples.push(sample);
                }
                Ok(None) => {}
                Err(reason) => self.skip(number, reason),
            };
        }
        self.other(number, &text);
    }

    /// A line that is no sample.
    fn other(&mut self, number: u64, text: &str) {
        if text.starts_with("+ ") {
            self.flags.insert(Flag::ShellTrace);
        } else if let Some((host, command)) = command(text) {
            if self.command.is_none() {
                self.command = Some(command.to_owned());
                self.host = host.map(str::to_owned);
            }
        } else if let Some(packets) = total(text) {
            self.total_packets = Some(packets);
        } else if text.starts_with("Estimated Equilibrium") {
            match estimate(number, text) {
                Some(estimate) => self.estimate = Some(estimate),
                None => self.skip(number, format!("`{text}` is not a rate")),
            }
        } else if self.crash.is_none() && LAST_WORDS.iter().any(|words| text.contains(words)) {
            self.crash = Some((number, text.trim().to_owned()));
        }
    }
}

/// `CMD: …` or `CMD on HOST: …`.
fn command(text: &str) -> Option<(Option<&str>, &str)> {
    if let Some(command) = text.strip_prefix("CMD: ") {
        return Some((None, command));
    }
    let (host, command) = text.strip_prefix("CMD on ")?.split_once(": ")?;
    Some((Some(host), command))
}

fn estimate(line: u64, text: &str) -> Option<Estimate> {
    let (_, rest) = text.split_once("= ")?;
    let (rate, is_bits) = rate(rest)?;
    let seen = rest.split_once("maximum value seen: ").and_then(|(_, seen)| self::rate(seen));
    let rate_max = seen.filter(|(_, bits)| *bits == is_bits).map(|(rate, _)| rate);
    Some(Estimate { line, rate, rate_max, is_bits })
}

/// `473 Mb/s` or `1.2 Mpps`: the rate, and whether it counts bits.
fn rate(text: &str) -> Option<(f64, bool)> {
    let (number, rest) = text.split_once(' ')?;
    let unit = rest.split([' ', ')']).next()?;
    let (prefix, is_bits) = match unit.strip_suffix("b/s").or_else(|| unit.strip_suffix("bps")) {
        Some(prefix) => (prefix, true),
        None => (unit.strip_suffix("pps")?, false),
    };
    Some((digits(number)? * multiplier(prefix)?, is_bits))
}

#[cfg(test)]
mod tests;

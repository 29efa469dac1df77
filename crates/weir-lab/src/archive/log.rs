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

/// The longest line that is read, in bytes.
pub(super) const LINE_BYTES_MAX: usize = 65_536;

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

/// A line of pkt-gen's main thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Number of the line in its file, from 1.
    pub(super) line: u64,
    /// Seconds on the clock of that machine, modulo 1000.
    pub(super) time_s: Option<f64>,
    /// Packets per second.
    pub(super) rate_pps: f64,
    /// Packets in the interval.
    pub(super) packets: Option<f64>,
    /// Length of the interval, microseconds.
    pub(super) interval_us: Option<u64>,
    /// Whether it has all its digits: whole packets per second, not zero.
    pub(super) is_plain: bool,
}

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
                None => self.skip(number, format!("`{text}` names no rate")),
            }
        } else if self.crash.is_none() && LAST_WORDS.iter().any(|words| text.contains(words)) {
            self.crash = Some((number, text.trim().to_owned()));
        }
    }
}

/// What one line of pkt-gen says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// A report: packets in an interval, and its length in microseconds.
    Interval {
        packets: f64,
        interval_us: u64,
        /// Whether the number of packets has all its digits.
        is_plain: bool,
    },
    /// The total at its end.
    Total(u64),
    /// Its last words.
    Dies,
    /// Nothing that counts.
    Nothing,
}

/// Reads one line of a pkt-gen that is running.
pub(crate) fn said(line: &str) -> Said {
    let log = Log::parse(format!("{line}\n").as_bytes());
    if let Some(sample) = log.samples.first() {
        return match (sample.packets, sample.interval_us) {
            (Some(packets), Some(interval_us)) => {
                // Nothing at all is printed as `0`, also where units are scaled.
                let is_plain = sample.is_plain || packets == 0.0;
                Said::Interval { packets, interval_us, is_plain }
            }
            _ => Said::Nothing,
        };
    }
    match (log.total_packets, log.crash) {
        (Some(packets), _) => Said::Total(packets),
        (None, Some(_)) => Said::Dies,
        (None, None) => Said::Nothing,
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

/// `Sent N packets …` or `Received N packets …`.
fn total(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("Sent ").or_else(|| text.strip_prefix("Received "))?;
    let (number, rest) = rest.split_once(' ')?;
    rest.starts_with("packets").then(|| number.parse().ok())?
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

/// The multiplier of pkt-gen's scaled numbers.
fn multiplier(prefix: &str) -> Option<f64> {
    match prefix {
        "" => Some(1.0),
        "K" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        _ => None,
    }
}

/// Digits with an optional fraction: no sign, no exponent, no infinity.
fn digits(text: &str) -> Option<f64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number.then(|| text.parse().ok())?
}

/// Reads a line of the main thread, `at` whose name is: the sample, and whether it is scaled.
/// `None` for a line of it that holds no rate; an error for a rate that is none.
fn sample(line: u64, text: &str, at: usize) -> Result<Option<(Line, bool)>, String> {
    let rest = text[at..].strip_prefix("main_thread").unwrap_or_default();
    // One space, a line number of pkt-gen's source in brackets, one space.
    let mut parts = rest.splitn(4, [' ', '\t']);
    let (lead, place) = (parts.next(), parts.next().unwrap_or_default());
    let (number, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let source = place.strip_prefix('[').and_then(|place| place.strip_suffix(']'));
    let is_report = source.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    if lead != Some("") || !is_report {
        return Ok(None);
    }
    let (unit, detail) = rest.split_once(' ').unwrap_or((rest, ""));
    let Some(prefix) = unit.strip_suffix("pps") else {
        return Ok(None);
    };
    let not_one = || Err(format!("`{number} {unit}` is not a rate: the line is not read"));
    let (Some(value), Some(multiplier)) = (digits(number), multiplier(prefix)) else {
        return not_one();
    };
    let rate_pps = value * multiplier;
    if !rate_pps.is_finite() {
        return not_one();
    }
    let (packets, interval_us) = interval(detail);
    let time_s = text[..at].split_whitespace().next_back().and_then(digits);
    let is_scaled = !prefix.is_empty();
    // Scaled rates under a thousand have a fraction, and no prefix.
    let is_plain = !is_scaled && !number.starts_with('0') && !number.contains('.');
    Ok(Some((Line { line, time_s, rate_pps, packets, interval_us, is_plain }, is_scaled)))
}

/// `(K pkts … in U usec)`: packets and microseconds.
fn interval(detail: &str) -> (Option<f64>, Option<u64>) {
    let mut words = detail.trim_start_matches('(').split(' ');
    let packets = words.next().and_then(digits);
    let unit = words.next().and_then(|unit| unit.strip_suffix("pkts")).and_then(multiplier);
    let packets = packets.zip(unit).map(|(packets, unit)| packets * unit);
    let mut previous = "";
    let found = words.find_map(|word| {
        let is_length = word.starts_with("usec");
        let value = std::mem::replace(&mut previous, word);
        is_length.then_some(value)
    });
    (packets, found.and_then(|value| value.parse().ok()))
}

/// A text without the escape sequences of terminals (ECMA-48): control sequences, command strings
/// and escapes of two bytes. Borrowed if there are none.
fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\x1b' {
            clean.push(character);
            continue;
        }
        match characters.next() {
            Some('[') => {
                let _ = characters.find(|c| ('\x40'..='\x7e').contains(c));
            }
            Some(']') => {
                // To BEL, or to the string terminator, an escape with a backslash.
                let end = characters.find(|c| matches!(c, '\x07' | '\x1b'));
                let _ = end.filter(|end| *end == '\x1b').and_then(|_| characters.next());
            }
            _ => {}
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests;

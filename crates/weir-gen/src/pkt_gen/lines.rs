//! What pkt-gen prints while it runs and when it ends, line by line.
//!
//! Reports are lines of its main thread: `SSS.uuuuuu main_thread [NNNN] P pps (K pkts in U usec)`,
//! of newer versions `… P pps (K pkts B bps in U usec) A avg_batch S min_space`. Without `-N`,
//! rates are scaled (`1.067 Mpps`). Nothing here judges.

use std::borrow::Cow;

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 65_536;

/// A line of pkt-gen's main thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Number of the line in its file, from 1.
    pub line: u64,
    /// Seconds on the clock of that machine, modulo 1000.
    pub time_s: Option<f64>,
    /// Packets per second.
    pub rate_pps: f64,
    /// Packets in the interval.
    pub packets: Option<f64>,
    /// Length of the interval, microseconds.
    pub interval_us: Option<u64>,
    /// Whether it has all its digits: whole packets per second, not zero.
    pub is_plain: bool,
}

/// What a line says of the packets so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Report {
    /// Packets in an interval, and its length in microseconds.
    Interval {
        packets: f64,
        interval_us: u64,
        /// Whether the number of packets has all its digits.
        is_plain: bool,
    },
    /// The total at its end.
    Total(u64),
}

/// Reads one line; `None` if it counts nothing.
pub fn report(line: &str) -> Option<Report> {
    if line.len() > LINE_BYTES_MAX {
        return None;
    }
    let text = without_escapes(line.trim_end_matches('\r'));
    let Some(at) = text.find("main_thread") else {
        return total(&text).map(Report::Total);
    };
    let (sample, _) = sample(1, &text, at).ok()??;
    let (packets, interval_us) = (sample.packets?, sample.interval_us?);
    // Nothing at all is printed as `0`, also where units are scaled.
    let is_plain = sample.is_plain || packets == 0.0;
    Some(Report::Interval { packets, interval_us, is_plain })
}

/// `Sent N packets …` or `Received N packets …`.
pub fn total(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("Sent ").or_else(|| text.strip_prefix("Received "))?;
    let (number, rest) = rest.split_once(' ')?;
    rest.starts_with("packets").then(|| number.parse().ok())?
}

/// The multiplier of pkt-gen's scaled numbers.
pub fn multiplier(prefix: &str) -> Option<f64> {
    match prefix {
        "" => Some(1.0),
        "K" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        _ => None,
    }
}

/// Digits with an optional fraction: no sign, no exponent, no infinity.
pub fn digits(text: &str) -> Option<f64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_number.then(|| text.parse().ok())?
}

/// Reads a line of the main thread, `at` whose name is: the sample, and whether it is scaled.
/// `None` for a line of it that holds no rate; an error for a rate that is none.
pub fn sample(line: u64, text: &str, at: usize) -> Result<Option<(Line, bool)>, String> {
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
pub fn without_escapes(text: &str) -> Cow<'_, str> {
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

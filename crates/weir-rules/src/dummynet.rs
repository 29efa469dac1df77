//! Pipes and queues of dummynet, which rules name by number (`dnpipe`, `dnqueue`), in the words of
//! dnctl(8) without its name:
//!
//! ```text
//! pipe 1 config bw 10Mbit/s queue 100KBytes
//! queue 2 config pipe 1 weight 10
//! ```
//!
//! Numbers and units are read as FreeBSD's sbin/ipfw/dummynet.c does. What dnctl has besides is
//! refused by its name, and never left out.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

/// `weight` of dnctl(8).
const WEIGHTS: RangeInclusive<u32> = 1..=100;
/// Fewer packets a queue of dnctl(8) does not have.
const LIMIT_PACKETS_MIN: u32 = 2;
/// Rates that the kernel's clock can keep, bits per second; 0 is none.
const RATES_BPS: RangeInclusive<u64> = 64..=1_000_000_000_000;

/// Words of dnctl(8) that shape nothing here, and why.
const REFUSED: [(&[&str], &str); 6] = [
    (&["delay"], "packets wait for their turn, and never for a time"),
    (&["plr", "pls"], "no packet is lost at random"),
    (&["mask", "flow_mask", "buckets"], "a pipe or queue is one for all flows"),
    (&["burst", "profile"], "a rate is the same at all times"),
    (&["sched", "type"], "queues of a pipe share it by their weights, and there is nothing else"),
    (
        &["red", "gred", "ecn", "codel", "pie", "fq_codel", "fq_pie", "noerror", "droptail"],
        "a queue that is full drops what comes, and senders are not told",
    ),
];

/// How much waits at most (`queue` of dnctl(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Packets, of whatever size.
    Packets(u32),
    /// All of them together, bytes.
    Bytes(u32),
}

impl Default for QueueLimit {
    /// That of dnctl(8).
    fn default() -> Self {
        Self::Packets(50)
    }
}

/// `pipe N config …`: a link of this rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipe {
    /// From 1 to 65,535.
    pub number: u16,
    /// Bits per second; `None`: nothing limits it.
    pub rate_bps: Option<u64>,
    /// How much waits before it.
    pub limit: QueueLimit,
}

/// `queue N config pipe M …`: what shares a pipe with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipeQueue {
    /// From 1 to 65,535; pipes have other numbers.
    pub number: u16,
    /// The number of its pipe, which need not be there.
    pub pipe: u16,
    /// Its share, from 1 to 100.
    pub weight: u32,
    /// How much waits in it.
    pub limit: QueueLimit,
}

/// All that are configured. A later line about a number replaces an earlier one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pipes {
    pipes: BTreeMap<u16, Pipe>,
    queues: BTreeMap<u16, PipeQueue>,
}

impl Pipes {
    pub(crate) fn pipe(&self, number: u16) -> Option<&Pipe> {
        self.pipes.get(&number)
    }

    pub(crate) fn queue(&self, number: u16) -> Option<&PipeQueue> {
        self.queues.get(&number)
    }

    /// Reads a line that begins with `pipe` or `queue`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or not done here.
    pub(crate) fn add(&mut self, line: &[&str]) -> Result<(), String> {
        let [kind, number, "config", words @ ..] = line else {
            let kind = line.first().unwrap_or(&"pipe");
            return Err(format!("`{kind}` is written as in `{}`", example(kind)));
        };
        let number = numbered(number)?;
        if *kind == "pipe" {
            let Parts { rate_bps, pipe, weight, limit } = parts(words)?;
            if pipe.is_some() || weight.is_some() {
                return Err("`pipe` and `weight` belong to a queue".to_owned());
            }
            let pipe = Pipe {
                number,
                rate_bps: rate_bps.filter(|rate_bps| *rate_bps != 0),
                limit: limit.unwrap_or_default(),
            };
            self.pipes.insert(number, pipe);
            return Ok(());
        }
        let Parts { rate_bps, pipe, weight, limit } = parts(words)?;
        if rate_bps.is_some() {
            return Err("`bw` belongs to a pipe".to_owned());
        }
        let Some(pipe) = pipe else {
            return Err(format!("queue {number} has no pipe: `{}`", example(kind)));
        };
        let (weight, limit) = (weight.unwrap_or(1), limit.unwrap_or_default());
        self.queues.insert(number, PipeQueue { number, pipe, weight, limit });
        Ok(())
    }
}

/// A line as it is meant to be.
fn example(kind: &str) -> &'static str {
    match kind {
        "queue" => "queue 2 config pipe 1 weight 10",
        _ => "pipe 1 config bw 10Mbit/s queue 50",
    }
}

/// What is said behind `config`.
#[derive(Default)]
struct Parts {
    rate_bps: Option<u64>,
    pipe: Option<u16>,
    weight: Option<u32>,
    limit: Option<QueueLimit>,
}

fn parts(words: &[&str]) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some((_, why)) = REFUSED.iter().find(|(names, _)| names.contains(word)) {
            return Err(format!("`{word}` is not done: {why}"));
        }
        if !["bw", "bandwidth", "queue", "pipe", "weight"].contains(word) {
            return Err(format!("`{word}` is not a known word of dnctl(8)"));
        }
        let value = words.next().ok_or_else(|| format!("`{word}` has no value"))?;
        match *word {
            "bw" | "bandwidth" => parts.rate_bps = Some(rate_bps(value)?),
            "queue" => parts.limit = Some(limit(value)?),
            "pipe" => parts.pipe = Some(numbered(value)?),
            _ => {
                let weight = value.parse::<u32>().ok();
                let weight = weight.filter(|weight| WEIGHTS.contains(weight));
                let wrong = || format!("`{value}` is not a weight from 1 to 100");
                parts.weight = Some(weight.ok_or_else(wrong)?);
            }
        }
    }
    Ok(parts)
}

/// The number of a pipe or queue.
fn numbered(word: &str) -> Result<u16, String> {
    let number = word.parse::<u16>().ok().filter(|number| *number != 0);
    number.ok_or_else(|| format!("`{word}` is not a number from 1 to 65535"))
}

/// A number, and what follows it.
fn split(word: &str) -> Option<(u64, &str)> {
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    Some((word[..end].parse().ok()?, &word[end..]))
}

/// `10Mbit/s` and its like, in bits per second; K, M and G are decimal.
fn rate_bps(word: &str) -> Result<u64, String> {
    let wrong = || format!("`{word}` is not a rate such as 10Mbit/s or 100KByte/s");
    let (number, unit) = split(word).ok_or_else(wrong)?;
    let (factor, unit) = match unit.as_bytes().first() {
        Some(b'K' | b'k') => (1_000, &unit[1..]),
        Some(b'M' | b'm') => (1_000_000, &unit[1..]),
        Some(b'G' | b'g') => (1_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    let bits = match unit {
        "" | "bit/s" | "Bit/s" | "bits/s" | "Bits/s" => 1,
        "Byte/s" | "Bytes/s" | "byte/s" | "bytes/s" => 8,
        _ => return Err(wrong()),
    };
    let rate_bps = number.checked_mul(factor * bits).ok_or_else(wrong)?;
    if rate_bps == 0 || RATES_BPS.contains(&rate_bps) {
        return Ok(rate_bps);
    }
    Err(format!("`{word}`: rates from 64 bit/s to 1000 Gbit/s can be kept"))
}

/// `50`, or `100KBytes`: here K is 1024, as in dnctl(8).
fn limit(word: &str) -> Result<QueueLimit, String> {
    let wrong = || format!("`{word}` is not a queue size such as 50 or 100KBytes");
    let (number, unit) = split(word).ok_or_else(wrong)?;
    let number = u32::try_from(number).map_err(|_| wrong())?;
    let bytes = match unit {
        "" if number >= LIMIT_PACKETS_MIN => return Ok(QueueLimit::Packets(number)),
        "B" | "Bytes" | "bytes" => Some(number),
        "K" | "k" | "KB" | "KBytes" | "Kbytes" | "kbytes" => number.checked_mul(1024),
        _ => None,
    };
    bytes.filter(|bytes| *bytes != 0).map(QueueLimit::Bytes).ok_or_else(wrong)
}

impl Display for QueueLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(count) => write!(f, "queue {count}"),
            Self::Bytes(bytes) if bytes.is_multiple_of(1024) => {
                write!(f, "queue {}KBytes", bytes / 1024)
            }
            Self::Bytes(bytes) => write!(f, "queue {bytes}Bytes"),
        }
    }
}

impl Display for Pipe {
    /// As the line that was read.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rate_bps = self.rate_bps.unwrap_or(0);
        let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")];
        let fits = |(factor, _): &&(u64, &str)| rate_bps != 0 && rate_bps.is_multiple_of(*factor);
        let (factor, unit) = units.iter().find(fits).unwrap_or(&(1, ""));
        let rate = rate_bps / factor;
        write!(f, "pipe {} config bw {rate}{unit}bit/s {}", self.number, self.limit)
    }
}

impl Display for PipeQueue {
    /// As the line that was read.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { number, pipe, weight, limit } = self;
        write!(f, "queue {number} config pipe {pipe} weight {weight} {limit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Pipes, String> {
        let mut pipes = Pipes::default();
        let words: Vec<&str> = line.split(' ').collect();
        pipes.add(&words).map(|()| pipes)
    }

    #[test]
    fn lines_of_dnctl_are_read_and_shown() {
        for (line, rate_bps, limit, shown) in [
            (
                "pipe 1 config bw 10Mbit/s",
                Some(10_000_000),
                QueueLimit::Packets(50),
                "pipe 1 config bw 10Mbit/s queue 50",
            ),
            (
                "pipe 1 config queue 100KBytes bw 30KByte/s",
                Some(240_000),
                QueueLimit::Bytes(102_400),
                "pipe 1 config bw 240Kbit/s queue 100KBytes",
            ),
            (
                "pipe 1 config bw 1001 queue 1500Bytes",
                Some(1_001),
                QueueLimit::Bytes(1_500),
                "pipe 1 config bw 1001bit/s queue 1500Bytes",
            ),
            (
                "pipe 1 config bw 0",
                None,
                QueueLimit::Packets(50),
                "pipe 1 config bw 0bit/s queue 50",
            ),
        ] {
            let pipes = read(line).unwrap();
            let pipe = pipes.pipe(1).unwrap();
            assert_eq!((pipe.rate_bps, pipe.limit), (rate_bps, limit), "{line}");
            assert_eq!(pipe.to_string(), shown);
            assert_eq!(read(shown).unwrap().pipe(1), Some(pipe), "it reads as itself");
        }
        let pipes = read("queue 7 config pipe 3 weight 10 queue 20").unwrap();
        let limit = QueueLimit::Packets(20);
        assert_eq!(pipes.queue(7), Some(&PipeQueue { number: 7, pipe: 3, weight: 10, limit }));
        assert_eq!(pipes.pipe(7), None);
        let shown = read("queue 7 config pipe 3").unwrap().queue(7).unwrap().to_string();
        assert_eq!(shown, "queue 7 config pipe 3 weight 1 queue 50");
    }

    #[test]
    fn what_is_not_done_is_named() {
        for (line, part) in [
            ("pipe 1", "`pipe` is written as in `pipe 1 config bw"),
            ("queue 1 delete", "`queue` is written as in `queue 2 config pipe"),
            ("pipe 0 config", "`0` is not a number from 1 to 65535"),
            ("pipe 65536 config", "`65536` is not a number"),
            ("pipe 1 config bw", "`bw` has no value"),
            ("pipe 1 config bw fast", "`fast` is not a rate"),
            ("pipe 1 config bw 1Mbyt", "`1Mbyt` is not a rate"),
            ("pipe 1 config bw 99999Gbit/s", "`99999Gbit/s`: rates from 64 bit/s"),
            ("pipe 1 config bw 7Byte/s", "`7Byte/s`: rates from 64 bit/s"),
            ("pipe 1 config queue 1", "`1` is not a queue size"),
            ("pipe 1 config queue 9999999KBytes", "is not a queue size"),
            ("pipe 1 config bw 1Mbit/s delay 10", "`delay` is not done: packets wait for their"),
            ("pipe 1 config plr 0.1", "`plr` is not done"),
            ("pipe 1 config mask src-ip 0xff", "`mask` is not done"),
            ("queue 1 config sched 1", "`sched` is not done"),
            ("pipe 1 config burst 10K", "`burst` is not done"),
            ("queue 1 config pipe 1 codel", "`codel` is not done"),
            ("pipe 1 config speed 1", "`speed` is not a known word"),
            ("pipe 1 config weight 2", "`weight` belong to a queue"),
            ("queue 1 config pipe 1 bw 1Mbit/s", "`bw` belongs to a pipe"),
            ("queue 1 config weight 2", "queue 1 has no pipe"),
            ("queue 1 config pipe 1 weight 101", "`101` is not a weight"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}

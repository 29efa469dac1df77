//! The kernel's protocol counters: `/proc/net/{snmp,snmp6,netstat}` and
//! `/proc/net/stat/nf_conntrack` of the calling thread's network namespace (RFC 4293, RFC 4113 for
//! the SNMP names), and how counters changed between two readings.
//!
//! It reads `/proc/thread-self/net`, because `/proc/net` is the main thread's namespace. It never
//! resets anything, and never sums what is not a sum.
//!
//! The names of all functions differ, so that their results can be merged into one map.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};

use crate::error::describe;

/// Counters by name.
pub(crate) type CounterMap = BTreeMap<String, u64>;

const DIRECTORY: &str = "/proc/thread-self/net";

/// Before the names of the connection tracker's counters.
pub const CONNTRACK_PREFIX: &str = "nf_conntrack.";

/// Names among the counters that are no counters but settings or levels: a difference of
/// them says nothing.
pub const LEVELS: [&str; 8] = [
    "Ip.Forwarding",
    "Ip.DefaultTTL",
    "Tcp.RtoAlgorithm",
    "Tcp.RtoMin",
    "Tcp.RtoMax",
    "Tcp.MaxConn",
    "Tcp.CurrEstab",
    "nf_conntrack.entries",
];

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CountersError {
    /// The file could not be read.
    #[error("cannot read the counters in {path}: {}", describe(source))]
    Read {
        /// The file.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is not of the form that is known.
    #[error("{path}, line {line}: {reason}; this kernel's format is not known")]
    Format {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// `/proc/net/snmp`: IP, ICMP, TCP and UDP counters, as `Ip.ForwDatagrams`.
///
/// # Errors
///
/// If the file cannot be read or understood.
pub fn snmp() -> Result<CounterMap, CountersError> {
    read("snmp", parse_pairs)
}

/// Connections that listening sockets had no room for, among the counters of [`netstat`].
pub const LISTEN_OVERFLOWS: &str = "TcpExt.ListenOverflows";

/// `/proc/net/netstat`: extended counters, as `IpExt.InNoRoutes`.
///
/// # Errors
///
/// If the file cannot be read or understood.
pub fn netstat() -> Result<CounterMap, CountersError> {
    read("netstat", parse_pairs)
}

/// The counters of [`netstat`] of one network namespace, to be read again by any thread.
#[derive(Debug)]
pub struct Netstat(File);

impl Netstat {
    /// Opens those of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If there are none.
    pub fn open() -> Result<Self, CountersError> {
        let path = format!("{DIRECTORY}/netstat");
        File::open(&path).map(Self).map_err(|source| CountersError::Read { path, source })
    }

    /// What they are now.
    ///
    /// # Errors
    ///
    /// As [`netstat`].
    pub fn read(&mut self) -> Result<CounterMap, CountersError> {
        let path = || format!("{DIRECTORY}/netstat");
        let mut text = String::new();
        let read = self.0.rewind().and_then(|()| self.0.read_to_string(&mut text));
        read.map_err(|source| CountersError::Read { path: path(), source })?;
        parse_pairs(&text).map_err(|(line, reason)| CountersError::Format {
            path: path(),
            line,
            reason,
        })
    }
}

/// `/proc/net/snmp6`: counters of IPv6, ICMPv6 and UDP over IPv6, as `Ip6InDiscards`. `None` if the
/// kernel has no IPv6.
///
/// # Errors
///
/// If the file cannot be read or understood.
pub fn snmp6() -> Result<Option<CounterMap>, CountersError> {
    match read("snmp6", parse_lines) {
        Ok(counters) => Ok(Some(counters)),
        Err(CountersError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// `/proc/net/stat/nf_conntrack`: the connection tracker's counters, summed over the CPUs, as
/// `nf_conntrack.insert_failed`; and `nf_conntrack.entries`, the number of entries now. `None` if
/// the connection tracker is not loaded.
///
/// # Errors
///
/// If the file cannot be read or understood.
pub fn conntrack() -> Result<Option<CounterMap>, CountersError> {
    match read("stat/nf_conntrack", parse_conntrack) {
        Ok(counters) => Ok(Some(counters)),
        Err(CountersError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A file of counters that another machine has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterFile {
    /// `/proc/net/snmp`.
    Snmp,
    /// `/proc/net/netstat`.
    Netstat,
    /// `/proc/net/snmp6`.
    Snmp6,
    /// `/proc/net/stat/nf_conntrack`.
    Conntrack,
}

impl CounterFile {
    /// Every file.
    pub const ALL: [Self; 4] = [Self::Snmp, Self::Netstat, Self::Snmp6, Self::Conntrack];

    /// Its path below `/proc/net`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Snmp => "snmp",
            Self::Netstat => "netstat",
            Self::Snmp6 => "snmp6",
            Self::Conntrack => "stat/nf_conntrack",
        }
    }

    /// The counters in its text.
    ///
    /// # Errors
    ///
    /// If the text cannot be understood.
    pub fn parse(self, text: &str) -> Result<CounterMap, CountersError> {
        let parsed = match self {
            Self::Snmp | Self::Netstat => parse_pairs(text),
            Self::Snmp6 => parse_lines(text),
            Self::Conntrack => parse_conntrack(text),
        };
        parsed.map_err(|(line, reason)| CountersError::Format {
            path: format!("/proc/net/{}", self.name()),
            line,
            reason,
        })
    }
}

/// What is wrong with a file's text: the line, from 1, and the reason.
type Wrong = (usize, String);

fn read(
    file: &str,
    parse: fn(&str) -> Result<CounterMap, Wrong>,
) -> Result<CounterMap, CountersError> {
    let path = format!("{DIRECTORY}/{file}");
    let text = fs::read_to_string(&path)
        .map_err(|source| CountersError::Read { path: path.clone(), source })?;
    parse(&text).map_err(|(line, reason)| CountersError::Format { path, line, reason })
}

/// Pairs of lines, `Ip: NAME NAME...` and `Ip: VALUE VALUE...`. A negative value is no counter
/// (`Tcp.MaxConn` is -1 for "no limit") and is left out.
fn parse_pairs(text: &str) -> Result<CounterMap, Wrong> {
    let mut counters = CounterMap::new();
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, names)) = lines.next() {
        let (_, values) =
            lines.next().ok_or_else(|| (number, "names without values".to_owned()))?;
        let mut names = names.split_ascii_whitespace();
        let mut values = values.split_ascii_whitespace();
        let group = names.next().and_then(|group| group.strip_suffix(':'));
        let group =
            group.ok_or_else(|| (number, "no group name followed by a colon".to_owned()))?;
        if values.next().and_then(|value| value.strip_suffix(':')) != Some(group) {
            return Err((number + 1, format!("expected the values of {group}")));
        }
        loop {
            match (names.next(), values.next()) {
                (Some(name), Some(value)) if value.starts_with('-') => {
                    value.parse::<i64>().map_err(|_| {
                        (number + 1, format!("value `{value}` of {group}.{name} is not a number"))
                    })?;
                }
                (Some(name), Some(value)) => {
                    let value = decimal(value, number + 1)?;
                    counters.insert(format!("{group}.{name}"), value);
                }
                (None, None) => break,
                _ => {
                    return Err((
                        number + 1,
                        format!("{group}: names and values differ in number"),
                    ));
                }
            }
        }
    }
    Ok(counters)
}

/// A name and a value on each line.
fn parse_lines(text: &str) -> Result<CounterMap, Wrong> {
    let line = |(index, line): (usize, &str)| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[name, value] = words.as_slice() else {
            return Err((index + 1, "not a name and a value".to_owned()));
        };
        Ok((name.to_owned(), decimal(value, index + 1)?))
    };
    text.lines().enumerate().map(line).collect()
}

/// A line of names, then a line of hexadecimal values for each CPU.
fn parse_conntrack(text: &str) -> Result<CounterMap, Wrong> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let (_, names) = lines.next().ok_or_else(|| (1, "the file is empty".to_owned()))?;
    let names: Vec<&str> = names.split_ascii_whitespace().collect();
    let mut counters = CounterMap::new();
    for (number, line) in lines {
        let values: Vec<&str> = line.split_ascii_whitespace().collect();
        if values.len() != names.len() {
            return Err((number, format!("{} names, {} values", names.len(), values.len())));
        }
        for (name, value) in names.iter().zip(values) {
            let value = hexadecimal(value, number)?;
            let sum = counters.entry(format!("{CONNTRACK_PREFIX}{name}")).or_insert(0);
            // Every CPU's line repeats the number of entries.
            *sum = if *name == "entries" { value } else { *sum + value };
        }
    }
    Ok(counters)
}

fn decimal(value: &str, line: usize) -> Result<u64, Wrong> {
    value.parse().map_err(|_| (line, format!("`{value}` is not a decimal number")))
}

fn hexadecimal(value: &str, line: usize) -> Result<u64, Wrong> {
    u64::from_str_radix(value, 16)
        .map_err(|_| (line, format!("`{value}` is not a hexadecimal number")))
}

#[cfg(test)]
mod tests;

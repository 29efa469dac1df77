//! `pfctl -s Stlimiters` and `-s Srclimiters`: what limiters allow, and what they have counted. The
//! words are those of OpenBSD's counters (`struct pfioc_statelim` and `pfioc_sourcelim` of
//! pfvar.h), the form is that of rules' counters.

use std::fmt::Write as _;
use std::net::IpAddr;

/// What a limiter has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// States that it holds.
    pub state_count: u32,
    /// Sources that it knows.
    pub source_count: u32,
    /// States that it has let through.
    pub admitted_count: u64,
    /// Packets that met `limit`.
    pub hard_limited_packets: u64,
    /// Packets that met `rate`.
    pub rate_limited_packets: u64,
    /// Packets that met `entries`.
    pub sources_limited_packets: u64,
    /// Sources that it began to count.
    pub source_makes_count: u64,
    /// Sources that found no room in the table of all.
    pub no_memory_count: u64,
}

/// A source that a limiter knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The network.
    pub address: IpAddr,
    pub bits: u8,
    pub state_count: u32,
    /// It is in the limiter's table.
    pub is_listed: bool,
}

/// Appends a limiter: `statement` as a file has it.
pub fn put(out: &mut String, statement: &str, counts: &Counts, sources: Option<&[Source]>) {
    let _ = write!(
        out,
        "{}\n  [ In use: {}  Admitted: {}  Hardlimited: {}  Ratelimited: {} ]\n",
        statement.trim_end(),
        counts.state_count,
        counts.admitted_count,
        counts.hard_limited_packets,
        counts.rate_limited_packets,
    );
    let Some(sources) = sources else { return };
    let _ = writeln!(
        out,
        "  [ Sources: {}  Allocated: {}  Addrlimited: {}  No memory: {} ]",
        counts.source_count,
        counts.source_makes_count,
        counts.sources_limited_packets,
        counts.no_memory_count,
    );
    for source in sources {
        let listed = if source.is_listed { ", in the table" } else { "" };
        let Source { address, bits, state_count, .. } = source;
        let _ = writeln!(out, "   {address}/{bits} ( states {state_count}{listed} )");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiters_are_statements_with_counters() {
        let counts = Counts {
            state_count: 2,
            admitted_count: 7,
            hard_limited_packets: 1,
            ..Counts::default()
        };
        let mut out = String::new();
        put(&mut out, "state limiter dns id 1 limit 2\n", &counts, None);
        let first = "state limiter dns id 1 limit 2\n  \
                     [ In use: 2  Admitted: 7  Hardlimited: 1  Ratelimited: 0 ]\n";
        assert_eq!(out, first);
        let source = Source {
            address: "192.0.2.0".parse().unwrap(),
            bits: 24,
            state_count: 2,
            is_listed: true,
        };
        let mut out = String::new();
        let counts = Counts { source_count: 1, source_makes_count: 3, ..counts };
        put(&mut out, "source limiter each", &counts, Some(&[source]));
        let (_, rest) = out.split_once("Ratelimited: 0 ]\n").unwrap();
        let sources = "  [ Sources: 1  Allocated: 3  Addrlimited: 0  No memory: 0 ]\n   \
                       192.0.2.0/24 ( states 2, in the table )\n";
        assert_eq!(rest, sources);
    }
}

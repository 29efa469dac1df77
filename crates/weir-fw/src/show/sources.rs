//! `pfctl -s Sources` (FreeBSD, `print_src_node`).

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::states::put_duration;

/// What is counted of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The source.
    pub address: IpAddr,
    pub state_count: u32,
    /// Its connections, handshakes complete.
    pub connection_count: u32,
    /// Connections of late, in thousandths.
    pub rate_thousandths: u32,
    /// In how many seconds they count.
    pub rate_seconds: u32,
    /// Seconds since the first state.
    pub age_s: u64,
    /// Seconds until it goes, of one without states.
    pub expires_in_s: u64,
    /// Packets of its states.
    pub packet_count: u64,
    /// Bytes of its states.
    pub size_bytes: u64,
    /// Number of the rule in the main ruleset, if one rule counts.
    pub rule: Option<u32>,
}

/// Appends a source; `verbosity` is how often `-v` was given.
pub fn put(out: &mut String, line: &Line, verbosity: u8) {
    // pf's other end is that of a translation.
    let other = match line.address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let _ = writeln!(
        out,
        "{} -> {other} ( states {}, connections {}, rate {}.{}/{}s )",
        line.address,
        line.state_count,
        line.connection_count,
        line.rate_thousandths / 1000,
        line.rate_thousandths % 1000 / 100,
        line.rate_seconds,
    );
    if verbosity == 0 {
        return;
    }
    out.push_str("   age ");
    put_duration(out, line.age_s);
    if line.state_count == 0 {
        out.push_str(", expires in ");
        put_duration(out, line.expires_in_s);
    }
    let _ = write!(out, ", {} pkts, {} bytes", line.packet_count, line.size_bytes);
    if let Some(rule) = line.rule {
        let _ = write!(out, ", filter rule {rule}");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_pfctls() {
        let line = Line {
            address: "10.0.0.5".parse().unwrap(),
            state_count: 3,
            connection_count: 2,
            rate_thousandths: 2345,
            rate_seconds: 10,
            age_s: 61,
            expires_in_s: 5,
            packet_count: 7,
            size_bytes: 420,
            rule: Some(4),
        };
        let text = |line: &Line, verbosity| {
            let mut out = String::new();
            put(&mut out, line, verbosity);
            out
        };
        let first = "10.0.0.5 -> 0.0.0.0 ( states 3, connections 2, rate 2.3/10s )\n";
        assert_eq!(text(&line, 0), first);
        let second = "   age 00:01:01, 7 pkts, 420 bytes, filter rule 4\n";
        assert_eq!(text(&line, 1), format!("{first}{second}"));
        let idle =
            Line { address: "2001:db8::5".parse().unwrap(), state_count: 0, rule: None, ..line };
        let text = text(&idle, 1);
        assert!(text.starts_with("2001:db8::5 -> :: ( states 0, "), "{text}");
        assert!(text.ends_with("   age 00:01:01, expires in 00:00:05, 7 pkts, 420 bytes\n"));
    }
}

//! `pfctl -s states` (FreeBSD, `print_state`).
//!
//! Made for millions of lines: a state is a plain value, and its line goes into a buffer that is
//! used again.

use std::fmt::Write as _;
use std::net::IpAddr;

use weir_bpf::firewall::layout::{WSCALE_FLAG, WSCALE_MASK, phase, tcp_phase};
use weir_wire::protocol::{ICMP, ICMP6, TCP};

/// `tcpstates` of tcp_fsm.h, by the numbers of the data path's phases.
pub const TCP_PHASES: &[&str] = &{
    let mut names = [""; tcp_phase::TIME_WAIT as usize + 1];
    names[tcp_phase::CLOSED as usize] = "CLOSED";
    names[tcp_phase::LISTEN as usize] = "LISTEN";
    names[tcp_phase::SYN_SENT as usize] = "SYN_SENT";
    names[tcp_phase::SYN_RECEIVED as usize] = "SYN_RCVD";
    names[tcp_phase::ESTABLISHED as usize] = "ESTABLISHED";
    names[tcp_phase::CLOSE_WAIT as usize] = "CLOSE_WAIT";
    names[tcp_phase::FIN_WAIT_1 as usize] = "FIN_WAIT_1";
    names[tcp_phase::CLOSING as usize] = "CLOSING";
    names[tcp_phase::LAST_ACK as usize] = "LAST_ACK";
    names[tcp_phase::FIN_WAIT_2 as usize] = "FIN_WAIT_2";
    names[tcp_phase::TIME_WAIT as usize] = "TIME_WAIT";
    names
};
/// `PFUDPS_NAMES`, `PFOTHERS_NAMES`.
pub const OTHER_PHASES: &[&str] = &{
    let mut names = [""; phase::MULTIPLE as usize + 1];
    names[phase::NO_TRAFFIC as usize] = "NO_TRAFFIC";
    names[phase::SINGLE as usize] = "SINGLE";
    names[phase::MULTIPLE as usize] = "MULTIPLE";
    names
};

/// One end of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub address: IpAddr,
    /// Its port, or the identifier of ICMP echo; 0: none.
    pub port: u16,
    /// How far it is: an index of [`TCP_PHASES`] or [`OTHER_PHASES`].
    pub phase: u8,
    /// The sequence window: first number, and the one behind the last.
    pub seq: [u32; 2],
    /// Window scaling as pf keeps it; 0: none.
    pub wscale: u8,
    /// Packets and bytes that it sent.
    pub packet_count: u64,
    /// Bytes of the packets that it sent.
    pub size_bytes: u64,
}

/// A state. `from` made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The interface; `all` where the state holds on all.
    pub interface: &'a str,
    /// The interface on which it was made, for `-vv`.
    pub made_on: &'a str,
    /// The first packet went out, not in.
    pub is_out: bool,
    /// IP protocol.
    pub protocol: u8,
    /// Its name, if it has one.
    pub protocol_name: Option<&'a str>,
    /// The end that made it.
    pub from: End,
    /// The other end.
    pub to: End,
    /// Address and port of `from` as it leaves, where that is translated.
    pub from_outside: Option<(IpAddr, u16)>,
    /// Address and port of `to` as it was asked for, where that is translated.
    pub to_outside: Option<(IpAddr, u16)>,
    /// Its ends as they leave, of the other family: `af-to`.
    pub other_family: Option<[(IpAddr, u16); 2]>,
    /// Seconds since it was made.
    pub age_s: u64,
    /// Seconds until it ends if no packet comes.
    pub expires_in_s: u64,
    /// Number of its rule, in what is loaded now.
    pub rule: Option<u32>,
    /// `sloppy`
    pub is_sloppy: bool,
    /// `no-sync`
    pub is_no_sync: bool,
    /// Counted for its source.
    pub is_source_tracked: bool,
    /// `log (all)`
    pub is_logged: bool,
    /// Where packets towards `to`, and those towards `from`, go instead of by the routes.
    pub gateways: [Option<&'a str>; 2],
    /// What names it for `-k id`.
    pub id: u64,
    /// `set hostid` of the firewall that made it.
    pub creator_id: u32,
}

/// Appends a state; `verbosity` is how often `-v` was given.
pub fn put(out: &mut String, line: &Line<'_>, verbosity: u8) {
    out.push_str(line.interface);
    out.push(' ');
    match line.protocol_name {
        Some(name) => out.push_str(name),
        None => put_number(out, line.protocol.into()),
    }
    out.push(' ');
    // pf puts the inner side first: where it comes in, that is the destination.
    let (left, right) = if line.is_out { (&line.from, &line.to) } else { (&line.to, &line.from) };
    put_ends(out, line);
    out.push_str("       ");
    put_phases(out, line.protocol, left.phase, right.phase);
    out.push('\n');
    if verbosity == 0 {
        return;
    }
    if line.protocol == TCP {
        out.push_str("   ");
        put_window(out, left, right);
        out.push_str("  ");
        put_window(out, right, left);
        out.push('\n');
    }
    out.push_str("   age ");
    put_duration(out, line.age_s);
    out.push_str(", expires in ");
    put_duration(out, line.expires_in_s);
    let (from, to) = (&line.from, &line.to);
    let _ = write!(
        out,
        ", {}:{} pkts, {}:{} bytes",
        from.packet_count, to.packet_count, from.size_bytes, to.size_bytes
    );
    if let Some(rule) = line.rule {
        let _ = write!(out, ", rule {rule}");
    }
    let flags = [
        (line.is_sloppy, ", sloppy"),
        (line.is_no_sync, ", no-sync"),
        (line.is_source_tracked, ", source-track"),
        (line.is_logged, ", log (all)"),
    ];
    for (_, word) in flags.into_iter().filter(|(is_set, _)| *is_set) {
        out.push_str(word);
    }
    out.push('\n');
    if verbosity > 1 {
        let _ = writeln!(out, "   id: {:016x} creatorid: {:08x}", line.id, line.creator_id);
        for (word, gateway) in ["route-to", "reply-to"].into_iter().zip(line.gateways) {
            if let Some(gateway) = gateway {
                let _ = writeln!(out, "   {word}: {gateway}");
            }
        }
        if line.interface != line.made_on {
            let _ = writeln!(out, "   origif: {}", line.made_on);
        }
    }
}

/// Both ends, in the order of pf.
fn put_ends(out: &mut String, line: &Line<'_>) {
    if let Some(ends) = line.other_family {
        put_translated(out, ends[0], (line.from.address, line.from.port));
        out.push_str(" -> ");
        put_translated(out, ends[1], (line.to.address, line.to.port));
    } else if line.is_out {
        put_from(out, line);
        out.push_str(" -> ");
        put_to(out, line);
    } else {
        put_to(out, line);
        out.push_str(" <- ");
        put_from(out, line);
    }
}

/// Who made it: as the world sees it, and in parentheses who that is.
fn put_from(out: &mut String, line: &Line<'_>) {
    let inside = (line.from.address, line.from.port);
    match line.from_outside {
        Some(outside) => put_translated(out, outside, inside),
        None => put_end(out, inside),
    }
}

/// Who is spoken to, and in parentheses who was asked for.
fn put_to(out: &mut String, line: &Line<'_>) {
    let inside = (line.to.address, line.to.port);
    match line.to_outside {
        Some(outside) => put_translated(out, inside, outside),
        None => put_end(out, inside),
    }
}

fn put_translated(out: &mut String, end: (IpAddr, u16), other: (IpAddr, u16)) {
    put_end(out, end);
    out.push_str(" (");
    put_end(out, other);
    out.push(')');
}

/// `print_host`: IPv6 has its port in brackets.
fn put_end(out: &mut String, end: (IpAddr, u16)) {
    match end {
        (IpAddr::V4(address), port) => {
            for (index, octet) in (0..).zip(address.octets()) {
                if index > 0 {
                    out.push('.');
                }
                put_number(out, octet.into());
            }
            if port != 0 {
                out.push(':');
                put_number(out, port);
            }
        }
        // Writing to a string cannot fail.
        (IpAddr::V6(address), 0) => drop(write!(out, "{address}")),
        (IpAddr::V6(address), port) => drop(write!(out, "{address}[{port}]")),
    }
}

/// A small number: formatting it in general takes several times as long.
fn put_number(out: &mut String, number: u16) {
    let mut divisor = match number {
        0..10 => 1,
        10..100 => 10,
        100..1000 => 100,
        1000..10_000 => 1000,
        10_000.. => 10_000,
    };
    while divisor > 0 {
        let digit = u8::try_from(number / divisor % 10).unwrap_or(0);
        out.push(char::from(b'0' + digit));
        divisor /= 10;
    }
}

fn put_phases(out: &mut String, protocol: u8, left: u8, right: u8) {
    let names = match protocol {
        TCP => TCP_PHASES,
        // ICMP has no phases in pf: numbers, that are always 0.
        ICMP | ICMP6 => {
            out.push_str("0:0");
            return;
        }
        _ => OTHER_PHASES,
    };
    let name = |phase: u8| names.get(usize::from(phase)).copied();
    let _ = match (name(left), name(right)) {
        (Some(left), Some(right)) => {
            out.push_str(left);
            out.push(':');
            out.push_str(right);
            Ok(())
        }
        _ if protocol == TCP => write!(out, "<BAD STATE LEVELS {left}:{right}>"),
        _ => write!(out, "{left}:{right}"),
    };
}

fn put_window(out: &mut String, end: &End, other: &End) {
    let [low, high] = end.seq;
    let _ = write!(out, "[{low} + {}]", high.wrapping_sub(low));
    if end.wscale & other.wscale & WSCALE_FLAG != 0 {
        let _ = write!(out, " wscale {}", end.wscale & WSCALE_MASK);
    }
}

/// Appends hours, minutes and seconds.
pub(super) fn put_duration(out: &mut String, seconds: u64) {
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(address: &str, port: u16, phase: u8) -> End {
        let address = address.parse().unwrap();
        End { address, port, phase, seq: [0; 2], wscale: 0, packet_count: 0, size_bytes: 0 }
    }

    fn line(protocol: u8, name: &'static str, from: End, to: End) -> Line<'static> {
        Line {
            interface: "all",
            made_on: "em0",
            is_out: false,
            protocol,
            protocol_name: Some(name),
            from,
            to,
            from_outside: None,
            to_outside: None,
            other_family: None,
            age_s: 10,
            expires_in_s: 86_400,
            rule: Some(3),
            is_sloppy: false,
            is_no_sync: false,
            is_source_tracked: false,
            is_logged: false,
            gateways: [None; 2],
            id: 0x0102,
            creator_id: 0xfeed,
        }
    }

    fn text(line: &Line<'_>, verbosity: u8) -> String {
        let mut out = String::new();
        put(&mut out, line, verbosity);
        out
    }

    #[test]
    fn lines_are_pfctls() {
        let client = end("10.0.0.5", 51234, 4);
        let server = end("198.51.100.7", 443, 4);
        let out = Line { interface: "em0", is_out: true, ..line(TCP, "tcp", client, server) };
        assert_eq!(
            text(&out, 0),
            "em0 tcp 10.0.0.5:51234 -> 198.51.100.7:443       ESTABLISHED:ESTABLISHED\n"
        );
        let ipv6 = line(17, "udp", end("2001:db8::5", 5353, 1), end("2001:db8::1", 53, 2));
        assert_eq!(
            text(&ipv6, 0),
            "all udp 2001:db8::1[53] <- 2001:db8::5[5353]       MULTIPLE:SINGLE\n"
        );
        let echo = line(ICMP, "icmp", end("10.0.0.5", 7, 1), end("198.51.100.7", 7, 0));
        assert_eq!(text(&echo, 0), "all icmp 198.51.100.7:7 <- 10.0.0.5:7       0:0\n");
        let gre = line(47, "gre", end("10.0.0.5", 0, 1), end("198.51.100.7", 0, 2));
        let unnamed = Line { protocol_name: None, ..gre };
        assert_eq!(text(&unnamed, 0), "all 47 198.51.100.7 <- 10.0.0.5       MULTIPLE:SINGLE\n");
        let broken = line(TCP, "tcp", end("10.0.0.5", 1, 20), end("10.0.0.6", 2, 0));
        assert!(text(&broken, 0).ends_with("<BAD STATE LEVELS 0:20>\n"));
    }

    #[test]
    fn translated_ends_are_shown_as_pfctl_does() {
        let (client, web) = (end("10.1.0.2", 1234, 4), end("198.51.100.7", 443, 4));
        let wan = |port: u16| Some(("192.0.2.1".parse().unwrap(), port));
        let nat = Line { is_out: true, from_outside: wan(54321), ..line(TCP, "tcp", client, web) };
        assert_eq!(
            text(&nat, 0),
            "all tcp 192.0.2.1:54321 (10.1.0.2:1234) -> 198.51.100.7:443       \
             ESTABLISHED:ESTABLISHED\n"
        );
        let inside = end("10.1.0.80", 8080, 4);
        let rdr = Line { to_outside: wan(80), ..line(TCP, "tcp", web, inside) };
        assert_eq!(
            text(&rdr, 0),
            "all tcp 10.1.0.80:8080 (192.0.2.1:80) <- 198.51.100.7:443       \
             ESTABLISHED:ESTABLISHED\n"
        );
        // One record stands for both of pf's.
        let from_outside = Some(("10.1.0.1".parse().unwrap(), 6000));
        let hairpin = line(TCP, "tcp", client, inside);
        let hairpin = Line { is_out: true, from_outside, to_outside: wan(80), ..hairpin };
        assert_eq!(
            text(&hairpin, 0),
            "all tcp 10.1.0.1:6000 (10.1.0.2:1234) -> 10.1.0.80:8080 (192.0.2.1:80)       \
             ESTABLISHED:ESTABLISHED\n"
        );
    }

    #[test]
    fn a_state_of_two_families_is_shown_as_pfctl_does() {
        let (client, server) = (end("2001:db8::9", 4000, 4), end("64:ff9b::c000:221", 80, 6));
        let other = |text: &str, port: u16| (text.parse().unwrap(), port);
        let other_family = Some([other("192.0.2.1", 50101), other("192.0.2.33", 80)]);
        let nat64 = Line { other_family, ..line(TCP, "tcp", client, server) };
        assert_eq!(
            text(&nat64, 0),
            "all tcp 192.0.2.1:50101 (2001:db8::9[4000]) -> 192.0.2.33:80 \
             (64:ff9b::c000:221[80])       FIN_WAIT_1:ESTABLISHED\n"
        );
    }

    #[test]
    fn more_is_told_on_request() {
        let client = End {
            seq: [100, 600],
            wscale: 0x87,
            packet_count: 5,
            size_bytes: 420,
            ..end("10.0.0.5", 51234, 4)
        };
        let server = End {
            seq: [u32::MAX, 9],
            wscale: 0x82,
            packet_count: 4,
            size_bytes: 380,
            ..end("198.51.100.7", 443, 9)
        };
        let sloppy = Line { is_sloppy: true, ..line(TCP, "tcp", client, server) };
        let expected = "\
all tcp 198.51.100.7:443 <- 10.0.0.5:51234       FIN_WAIT_2:ESTABLISHED
   [4294967295 + 10] wscale 2  [100 + 500] wscale 7
   age 00:00:10, expires in 24:00:00, 5:4 pkts, 420:380 bytes, rule 3, sloppy
   id: 0000000000000102 creatorid: 0000feed
   origif: em0
";
        assert_eq!(text(&sloppy, 2), expected);
        assert_eq!(text(&sloppy, 1).lines().count(), 3);
    }

    #[test]
    fn small_numbers_are_numbers() {
        for number in 0..=u16::MAX {
            let mut out = String::new();
            put_number(&mut out, number);
            assert_eq!(out, number.to_string());
        }
    }
}

//! The networks of the `netns` testbed: from where to where its traffic goes.
//!
//! IPv4 is out of 198.18.0.0/15 (RFC 2544 appendix C.2.2), IPv6 out of 2001:2::/48 (RFC 5180). The
//! generator's side has the lower half of each, the sink's the upper; the first networks of each
//! half are the testbed's own links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_results::traffic::parts;
use weir_wire::range::{AddrRange, Span as _};

use super::value::Value;
use crate::diagnostic::{Report, quote};

/// A part of the benchmarking networks that a field's addresses come from.
struct Part {
    /// Everything behind one of the testbed's ends.
    whole: &'static str,
    /// The first of its addresses, which is of the links.
    begin: IpAddr,
    links: &'static str,
    /// What traffic may have of it.
    first: IpAddr,
    last: IpAddr,
    /// Who reserves it.
    reserved: &'static str,
}

impl Part {
    /// The part of the first of so many links.
    fn of((is_src, links): (bool, u16), is_ipv6: bool) -> Self {
        let v6 = |network: u16, end: u16| -> IpAddr {
            Ipv6Addr::new(0x2001, 2, 0, network, end, end, end, end).into()
        };
        let v4 = |second: u8, third: u8, last: u8| Ipv4Addr::new(198, second, third, last).into();
        if is_ipv6 {
            let low = if is_src { 0 } else { 0x8000 };
            let high = low + (0x8000 / parts(links) - 1);
            return Self {
                whole: if is_src { "2001:2::/49" } else { "2001:2:0:8000::/49" },
                begin: v6(low, 0),
                links: if is_src { "2001:2::/63" } else { "2001:2:0:8000::/63" },
                first: v6(low + 2, 0),
                last: v6(high, 0xffff),
                reserved: "RFC 5180 reserves 2001:2::/48",
            };
        }
        let second = if is_src { 18 } else { 19 };
        Self {
            whole: if is_src { "198.18.0.0/16" } else { "198.19.0.0/16" },
            begin: v4(second, 0, 0),
            links: if is_src { "198.18.0.0/24" } else { "198.19.0.0/24" },
            first: v4(second, 1, 0),
            last: v4(second, u8::try_from(0x100 / parts(links) - 1).unwrap_or(u8::MAX), 255),
            reserved: "RFC 2544 reserves 198.18.0.0/15",
        }
    }
}

/// Whether a range is inside what traffic may have; reports it if not.
///
/// `place` says whether it is behind the ports that have sources behind them, and how many links
/// there are: what is written is for the first of them.
pub(super) fn check(
    name: &str,
    place: (bool, u16),
    value: &Value<'_>,
    range: &AddrRange,
    report: &mut Report,
) -> bool {
    let part = Part::of(place, range.is_ipv6());
    let (first, last) = (range.addr(0), range.addr(range.addr_count() - 1));
    if first >= part.first && last <= part.last {
        return true;
    }
    let (shown, origin) = (quote(&value.text), value.origin());
    let message = if last >= part.begin && first < part.first {
        format!("`{name}` {shown}{origin} reaches into {}, which is the testbed's link", part.links)
    } else {
        format!(
            "`{name}` {shown}{origin} is outside {}, the testbed's part of the benchmarking \
             network",
            part.whole
        )
    };
    let Part { first, last, reserved, .. } = part;
    let of = if place.1 > 1 { " on the first link" } else { "" };
    let help = format!("{reserved} for this; `{name}` is {first} to {last}{of}");
    value.error(report, message, Some(&help));
    false
}

//! Where packets come from and go to: `-s`, `-d`, `-4`, `-6`, `-z` and `-Z` together.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_wire::range::{AddrRange, Range, Range6, Span};
use weir_wire::walk::Walk;

use super::PktGenError;
use super::settings::Settings;

/// pkt-gen's defaults.
pub(super) const SRC_DEFAULT: &str = "10.0.0.1";
pub(super) const DST_DEFAULT: &str = "10.1.0.1";

/// All ports that can be used.
const PORTS: (u16, u16) = (1, u16::MAX);

/// Both ends, and the order of the flows between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) src: AddrRange,
    pub(super) dst: AddrRange,
    pub(super) walk: Walk,
}

/// Puts the options together; notes go to the settings.
pub(super) fn ends(settings: &mut Settings) -> Result<Ends, PktGenError> {
    let read = |letter, text: &Option<String>, default: &str| {
        let text = text.as_deref().unwrap_or(default);
        AddrRange::parse(text, Range::PORT_DEFAULT)
            .map(|(range, _)| range)
            .map_err(|error| PktGenError::value(letter, text, &error))
    };
    let mut src = read('s', &settings.src, SRC_DEFAULT)?;
    let mut dst = read('d', &settings.dst, DST_DEFAULT)?;
    families(settings, src, dst)?;
    let mut walk = Walk::Odometer;
    if settings.random_src || settings.random_dst {
        // pkt-gen's generator starts at one place too: runs can be repeated.
        walk = Walk::Random { seed: 0 };
        let (single_src, single_dst) = (src.pair_count() == 1, dst.pair_count() == 1);
        if settings.random_src && single_src {
            src = widened(src);
        }
        if settings.random_dst && single_dst {
            dst = widened(dst);
        }
        random_notes(settings, src, dst);
    }
    Ok(Ends { src, dst, walk })
}

/// Both ends must be of one family, and of the one that was asked for.
fn families(settings: &mut Settings, src: AddrRange, dst: AddrRange) -> Result<(), PktGenError> {
    let together = |text: String| Err(PktGenError::Together(text));
    if src.is_ipv6() != dst.is_ipv6() {
        return together(format!(
            "-s {src} and -d {dst} are of different address families: give two IPv4 or two IPv6 \
             ranges"
        ));
    }
    match settings.ipv6 {
        Some(false) if src.is_ipv6() => {
            together(format!("-4 does not go with the IPv6 ranges -s {src} and -d {dst}"))
        }
        Some(true) if !src.is_ipv6() => together(format!(
            "-6 needs IPv6 ranges: the source is {src}, the destination {dst}; give -s and -d"
        )),
        None if src.is_ipv6() => {
            settings.note(
                "-6 is implied by the ranges; pkt-gen would read them as IPv4 addresses".into(),
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A single address and port as the range that random ones are drawn from: all ports, and the /16
/// around the address without its first and last, or the group that varies of an IPv6 address
/// without its zero.
fn widened(range: AddrRange) -> AddrRange {
    match range {
        AddrRange::V4(range) => {
            let [a, b, ..] = range.addr_first.octets();
            let ends = (Ipv4Addr::new(a, b, 0, 1), Ipv4Addr::new(a, b, 255, 254));
            Range::new(ends, PORTS).into()
        }
        AddrRange::V6(single) => {
            let with = |value: u16| {
                let mut segments = single.addr_first.segments();
                segments[usize::from(single.group & 7)] = value;
                Ipv6Addr::from(segments)
            };
            // The ends differ in that group alone.
            Range6::new((with(1), with(u16::MAX)), single.group, PORTS).unwrap_or(single).into()
        }
    }
}

fn random_notes(settings: &mut Settings, src: AddrRange, dst: AddrRange) {
    let ends = [
        ('z', 's', "source", settings.random_src, src),
        ('Z', 'd', "destination", settings.random_dst, dst),
    ];
    for (letter, range_letter, name, random, range) in ends {
        if random {
            settings.note(format!(
                "-{letter}: the {name} of every packet is drawn from {range} (-{range_letter} sets \
                 it); pkt-gen draws any number, invalid addresses too, and without a range only \
                 once per slot of the ring"
            ));
        } else if range.pair_count() > 1 {
            settings.note(format!(
                "the {name} is drawn at random from {range}, too; pkt-gen would walk it in order"
            ));
        }
    }
}

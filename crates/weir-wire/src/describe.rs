//! A stream as a user writes it, field by field: on the command line, in a file of streams, in a
//! lab's traffic table. The fields and their texts are the same everywhere, and are read here.
//!
//! It never touches the system: what a stream does not say of MAC addresses, the caller does.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::encap::Tunnel;
use crate::flow::{Flow, FlowSpace};
use crate::frame::Protocol;
use crate::mac::MacAddr;
use crate::range::{AddrRange, Range, Swapped};
use crate::rss::spread::{Card, Spread};
use crate::sizes::Sizes;
use crate::stream::{StreamSpec, size_bytes_min};
use crate::tcp::Flags;
use crate::vlan::{Tag, TagKind};
use crate::walk::Walk;

use crate::units::parse_count;

/// One field of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in a table; the command line has hyphens for underscores.
    pub name: &'static str,
    /// What is written for it.
    pub value: &'static str,
    /// What it means, and what holds without it.
    pub meaning: &'static str,
}

const fn field(name: &'static str, value: &'static str, meaning: &'static str) -> Field {
    Field { name, value, meaning }
}

/// Every field of a stream.
pub const FIELDS: [Field; 17] = [
    field(
        "src",
        "RANGE",
        "source addresses and ports: `ADDR[:PORT][-ADDR[:PORT]]`, for IPv6 `[ADDR]:PORT[-[ADDR]]`; \
         port 1234 if none is given",
    ),
    field("dst", "RANGE", "destination addresses and ports, in the same form"),
    field("src_mac", "MAC", "source MAC address"),
    field("dst_mac", "MAC", "destination MAC address"),
    field("proto", "NAME", "`udp` (if not given), `tcp` or `icmp` (echo requests)"),
    field("tcp_flags", "FLAGS", "flags of TCP: letters of `FSRP.UEW` or `none`; `S` if not given"),
    field(
        "size",
        "SIZE",
        "frame size in bytes, without the 4 bytes of FCS: `N`, `A-B` (uniform), `N,N,...` (one \
         after the other), `imix`, `imix-genome:LETTERS`; if not given, the smallest that holds \
         the headers and weir's signature",
    ),
    field(
        "vlan",
        "TAGS",
        "802.1Q tag `ID[@PRIORITY]`, or two of them, outer and inner, joined by a comma (QinQ: \
         the outer one is an 802.1ad tag)",
    ),
    field(
        "encap",
        "TUNNEL",
        "`gre`, `vxlan` or `pppoe`: all packets travel in one tunnel, GRE's and VXLAN's from the \
         first source to the first destination address; frames have one size then, and no tags",
    ),
    field("ttl", "N", "time to live or hop limit, 1 to 255; 64 if not given"),
    field("dscp", "N", "differentiated services code point, 0 to 63; 0 if not given"),
    field("df", "BOOL", "IPv4's \"don't fragment\"; true if not given"),
    field(
        "random",
        "BOOL",
        "draw each packet's addresses and ports at random, instead of walking over them; false if \
         not given",
    ),
    field(
        "spread",
        "BUCKETS",
        "instead of all flows, one for each of so many buckets of a card's receive side scaling: \
         `buckets:N`, `buckets:N/KEY`; with Microsoft's key if none is written",
    ),
    field("seed", "N", "seed of random flows and sizes; 0 if not given"),
    field("weight", "N", "this stream's part of the packets of all; 1 if not given"),
    field("name", "TEXT", "what the stream is called in reports; its number if not given"),
];

/// A field that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// Name of the field, one of [`FIELDS`].
    pub field: &'static str,
    /// What is wrong, without the name.
    pub message: String,
}

/// The texts of a stream's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description(BTreeMap<&'static str, String>);

/// MAC addresses of a stream that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs {
    /// Source.
    pub src: MacAddr,
    /// Destination.
    pub dst: MacAddr,
}

/// A description that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The stream, to be sent by one thread.
    pub spec: StreamSpec,
    /// Its weight among others.
    pub weight: u32,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What the user should know: ranges that were written backwards.
    pub notes: Vec<String>,
}

impl Description {
    /// The name under which [`FIELDS`] has a field, if it does.
    #[must_use]
    pub fn field(name: &str) -> Option<&'static str> {
        FIELDS.iter().map(|field| field.name).find(|field| *field == name)
    }

    /// Gives a field its text.
    ///
    /// # Panics
    /// If there is no such field: ask [`Description::field`] first.
    pub fn set(&mut self, name: &str, text: impl Into<String>) {
        let field = Self::field(name).expect("the caller knows that there is such a field");
        self.0.insert(field, text.into());
    }

    /// The text of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A MAC address, if one is given.
    ///
    /// # Errors
    /// [`FieldError`] if it is malformed.
    pub fn mac(&self, name: &'static str) -> Result<Option<MacAddr>, FieldError> {
        self.parse(name)
    }

    /// The stream, as number `number`.
    ///
    /// # Errors
    /// [`FieldError`] if a field is malformed, or does not go with another one. Whether the whole
    /// can be sent, [`crate::traffic::Traffic`] says.
    pub fn spec(&self, number: u8, macs: Macs) -> Result<Described, FieldError> {
        let ((src, src_swapped), (dst, dst_swapped)) = (self.range("src")?, self.range("dst")?);
        let notes = [("src", src, src_swapped), ("dst", dst, dst_swapped)];
        let (protocol, tags) = (self.protocol()?, self.tags()?);
        let seed = self.number("seed", 0, u64::MAX)?.unwrap_or(0);
        let encap: Option<Tunnel> = self.parse("encap")?;
        let overhead_bytes = encap.map_or(0, |tunnel| tunnel.overhead_bytes(src.is_ipv6()));
        let smallest_bytes = size_bytes_min(tags.len(), src.is_ipv6(), protocol) + overhead_bytes;
        let sizes = self.parse("size")?.unwrap_or(Sizes::Fixed(smallest_bytes));
        let random = self.boolean("random")?.unwrap_or(false);
        let spec = StreamSpec {
            tags,
            encap,
            protocol,
            ttl: self.number("ttl", 1, 255)?.unwrap_or(64),
            dscp: self.number("dscp", 0, 63)?.unwrap_or(0),
            dont_fragment: self.boolean("df")?.unwrap_or(true),
            walk: if random { Walk::Random { seed } } else { Walk::Odometer },
            sizes,
            size_seed: seed,
            stream: number,
            ..StreamSpec::new(
                self.mac("src_mac")?.unwrap_or(macs.src),
                self.mac("dst_mac")?.unwrap_or(macs.dst),
                src,
                dst,
            )
        };
        Ok(Described {
            spec,
            weight: self.number("weight", 1, u32::MAX)?.unwrap_or(1),
            name: self.get("name").map(str::to_owned),
            notes: notes.into_iter().filter_map(|(n, r, swapped)| note(n, &r, swapped)).collect(),
        })
    }

    /// The streams, as number `first_number` and those after it: one, or with `spread` one for each
    /// bucket. What the card is, if that is known, holds where no key is written.
    ///
    /// # Errors
    /// As [`Description::spec`]; also if buckets are out of reach.
    pub fn specs(
        &self,
        first_number: u8,
        macs: Macs,
        card: Option<Card<'_>>,
    ) -> Result<Vec<Described>, FieldError> {
        let described = self.spec(first_number, macs)?;
        let Some(spread) = self.parse::<Spread>("spread")? else {
            return Ok(Vec::from([described]));
        };
        if described.spec.protocol == Protocol::IcmpEcho {
            return Err(refuse("spread", "ICMP has no ports to choose flows by: use udp or tcp"));
        }
        if described.spec.encap.is_some() {
            return Err(refuse("spread", "each flow would be in a tunnel of its own (`encap`)"));
        }
        if described.spec.walk != Walk::Odometer {
            return Err(refuse("spread", "flows are chosen, and cannot be `random` as well"));
        }
        let space = FlowSpace::new(described.spec.src, described.spec.dst)
            .map_err(|error| refuse("dst", error))?;
        let flows = spread.flows(&space, card).map_err(|error| refuse("spread", error))?;
        let numbers = usize::from(u8::MAX - first_number) + 1;
        if flows.len() > numbers {
            let message = format!(
                "{} buckets need as many streams, of which {numbers} are left",
                flows.len()
            );
            return Err(refuse("spread", message));
        }
        let one = |(number, (bucket, flow)): (u8, (usize, Flow<IpAddr>))| {
            let spec = StreamSpec {
                src: AddrRange::single(flow.src, flow.src_port),
                dst: AddrRange::single(flow.dst, flow.dst_port),
                stream: number,
                ..described.spec.clone()
            };
            let name = described.name.as_deref().unwrap_or("stream");
            let notes = if bucket == 0 { described.notes.clone() } else { Vec::new() };
            let name = Some(format!("{name} bucket {bucket}"));
            Described { spec, weight: described.weight, name, notes }
        };
        Ok((first_number..=u8::MAX).zip(flows.into_iter().enumerate()).map(one).collect())
    }

    /// Reads a field that knows how to read itself.
    fn parse<T: core::str::FromStr<Err: core::fmt::Display>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, FieldError> {
        let parse = |text: &str| text.parse().map_err(|error: T::Err| refuse(name, error));
        self.get(name).map(parse).transpose()
    }

    fn range(&self, name: &'static str) -> Result<(AddrRange, Swapped), FieldError> {
        let Some(text) = self.get(name) else {
            return Err(refuse(name, "it is missing: a stream needs a source and a destination"));
        };
        AddrRange::parse(text, Range::PORT_DEFAULT).map_err(|error| refuse(name, error))
    }

    fn boolean(&self, name: &'static str) -> Result<Option<bool>, FieldError> {
        match self.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => Err(refuse(name, format!("`{text}` is neither `true` nor `false`"))),
        }
    }

    fn number<T: TryFrom<u64> + Into<u64> + Copy>(
        &self,
        name: &'static str,
        least: T,
        most: T,
    ) -> Result<Option<T>, FieldError> {
        let (least, most) = (least.into(), most.into());
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = parse_count(text).map_err(|error| refuse(name, error))?;
        let inside = (least..=most).contains(&number);
        match T::try_from(number) {
            Ok(number) if inside => Ok(Some(number)),
            _ => Err(refuse(name, format!("{number} is not between {least} and {most}"))),
        }
    }

    fn protocol(&self) -> Result<Protocol, FieldError> {
        let flags: Option<Flags> = self.parse("tcp_flags")?;
        let protocol = match self.get("proto") {
            None | Some("udp") => Protocol::Udp,
            Some("tcp") => {
                return Ok(flags.map_or(Protocol::TCP_SYN, |flags| Protocol::Tcp { flags }));
            }
            Some("icmp") => Protocol::IcmpEcho,
            Some(other) => {
                let message =
                    format!("`{other}` cannot be sent: the protocols are `udp`, `tcp` and `icmp`");
                return Err(refuse("proto", message));
            }
        };
        match flags {
            Some(_) => Err(refuse("tcp_flags", format!("{protocol} has no flags: use `tcp`"))),
            None => Ok(protocol),
        }
    }

    fn tags(&self) -> Result<Vec<Tag>, FieldError> {
        let Some(text) = self.get("vlan") else { return Ok(Vec::new()) };
        let words: Vec<&str> = text.split(',').collect();
        if words.len() > 2 {
            let message = format!("`{text}` has {} tags: at most two", words.len());
            return Err(refuse("vlan", message));
        }
        let kind = |place| {
            if place + 1 < words.len() { TagKind::Service } else { TagKind::Customer }
        };
        words.iter().enumerate().map(|(place, word)| tag(word, kind(place))).collect()
    }
}

fn tag(word: &str, kind: TagKind) -> Result<Tag, FieldError> {
    let malformed = || {
        refuse(
            "vlan",
            format!("`{word}` is not a tag: write `ID` or `ID@PRIORITY`, such as `100@5`"),
        )
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (id, pcp) = word.split_once('@').unwrap_or((word, "0"));
    if !digits(id) || !digits(pcp) {
        return Err(malformed());
    }
    let (Ok(id), Ok(pcp)) = (id.parse(), pcp.parse()) else { return Err(malformed()) };
    let tag = Tag { kind, pcp, dei: false, id };
    tag.check().map_err(|error| refuse("vlan", error))?;
    Ok(tag)
}

fn refuse(field: &'static str, message: impl core::fmt::Display) -> FieldError {
    FieldError { field, message: message.to_string() }
}

fn note(name: &str, range: &AddrRange, swapped: Swapped) -> Option<String> {
    let what = match (swapped.addr, swapped.port) {
        (true, true) => "addresses and ports",
        (true, false) => "addresses",
        (false, true) => "ports",
        (false, false) => return None,
    };
    Some(format!("the {what} of `{name}` were in reverse order: read as {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: Macs = Macs { src: MacAddr([2, 0, 0, 0, 0, 1]), dst: MacAddr([2, 0, 0, 0, 0, 2]) };

    fn description(more: &[(&str, &str)]) -> Description {
        let mut description = Description::default();
        for (name, text) in [("src", "198.18.10.1"), ("dst", "198.19.10.1")].iter().chain(more) {
            description.set(name, *text);
        }
        description
    }

    fn spec(more: &[(&str, &str)]) -> StreamSpec {
        description(more).spec(3, MACS).unwrap_or_else(|error| panic!("{more:?}: {error}")).spec
    }

    #[test]
    fn a_spread_is_a_stream_for_each_bucket() {
        let specs = |first: u8, more: &[(&str, &str)]| description(more).specs(first, MACS, None);
        let ranges = [("src", "198.18.10.1:1024-198.18.10.1:2000"), ("spread", "buckets:8")];
        let named = [&ranges[..], &[("name", "even"), ("weight", "3")]].concat();
        let streams = specs(2, &named).unwrap();
        let numbers: Vec<u8> = streams.iter().map(|one| one.spec.stream).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(streams[7].name.as_deref(), Some("even bucket 7"));
        assert!(streams.iter().all(|one| one.weight == 3 && one.spec.sizes == Sizes::Fixed(60)));
        assert_eq!(specs(2, &[("name", "one")]).unwrap().len(), 1);
        for (more, why) in [
            (("proto", "icmp"), "ICMP has no ports"),
            (("random", "true"), "`random` as well"),
            (("encap", "gre"), "a tunnel of its own"),
            (("spread", "buckets:64/6d"), "40 to 52 bytes"),
            (("src", "198.18.10.1"), "reach 1 of 8 buckets"),
        ] {
            let error = specs(2, &[&ranges[..], &[more]].concat()).unwrap_err();
            assert!(error.message.contains(why) && error.field == "spread", "{error}");
        }
        let full = specs(250, &ranges).unwrap_err().message;
        assert!(full.contains("8 buckets need as many streams, of which 6 are left"), "{full}");
    }

    #[test]
    fn every_field_changes_what_it_says() {
        let plain = spec(&[]);
        assert_eq!((plain.stream, plain.sizes.clone()), (3, Sizes::Fixed(60)));
        let changed = [
            ("src", "198.18.10.1:7"),
            ("dst", "198.19.10.1:7"),
            ("src_mac", "02:00:00:00:00:11"),
            ("dst_mac", "02:00:00:00:00:12"),
            ("proto", "tcp"),
            ("size", "imix"),
            ("vlan", "100@5"),
            ("encap", "gre"),
            ("ttl", "3"),
            ("dscp", "46"),
            ("df", "false"),
            ("random", "true"),
            ("seed", "9"),
        ];
        for (name, text) in changed {
            assert_ne!(spec(&[(name, text)]), plain, "{name}");
        }
        let flags = spec(&[("proto", "tcp"), ("tcp_flags", "SF.")]).protocol;
        assert_eq!(flags, Protocol::Tcp { flags: Flags::SYN | Flags::FIN | Flags::ACK });
        let described = description(&[("weight", "4"), ("name", "attack")]).spec(0, MACS);
        let described = described.expect("it is read");
        assert_eq!((described.weight, described.name.as_deref()), (4, Some("attack")));
        let tested = changed.len() + ["tcp_flags", "spread", "weight", "name"].len();
        assert_eq!(tested, FIELDS.len());
    }

    #[test]
    fn sizes_fit_the_headers_unless_given() {
        let tcp = spec(&[("proto", "tcp"), ("vlan", "100,200")]);
        assert_eq!(tcp.sizes, Sizes::Fixed(80));
        let kinds: Vec<TagKind> = tcp.tags.iter().map(|tag| tag.kind).collect();
        assert_eq!(kinds, [TagKind::Service, TagKind::Customer]);
        let over_ipv6 = spec(&[("src", "[2001:2::1]:9"), ("dst", "[2001:2:1::1]:9")]);
        assert_eq!(over_ipv6.sizes, Sizes::Fixed(80));
        assert_eq!(spec(&[("encap", "vxlan")]).sizes, Sizes::Fixed(110));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |name: &'static str, text: &str| {
            let error = description(&[(name, text)]).spec(0, MACS).expect_err(text);
            assert_eq!(error.field, name, "{error}");
            error.message
        };
        assert!(refused("src", "198.18.10.1:0").contains("port"));
        assert!(refused("dst", "198.19.10.1:65536").contains("65536"));
        assert!(refused("proto", "sctp").contains("sctp"));
        assert!(refused("tcp_flags", "S").contains("UDP"));
        assert!(refused("size", "60-").contains("frame size"));
        assert!(refused("vlan", "4095").contains("4095"));
        assert!(refused("encap", "ipsec").contains("`vxlan`"));
        assert!(refused("vlan", "1,2,3").contains("two"));
        assert!(refused("vlan", "+5").contains("not a tag"));
        assert!(refused("ttl", "0").contains("between 1 and 255"));
        assert!(refused("dscp", "64").contains("between 0 and 63"));
        assert!(refused("df", "yes").contains("neither"));
        assert!(refused("seed", "-1").contains("-1"));
        assert!(refused("weight", "0").contains("between 1"));
        assert!(refused("src_mac", "02:00").contains("02:00"));
        let missing = Description::default().spec(0, MACS).expect_err("there is no source");
        assert_eq!(missing.field, "src");
        let swapped = description(&[("src", "198.18.10.9-198.18.10.1")]).spec(0, MACS);
        assert_eq!(swapped.expect("it is read").notes.len(), 1);
    }
}

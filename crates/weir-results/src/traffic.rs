//! Traffic, resolved: the streams of weir's stream model, and how fast they are sent together.
//!
//! In files a stream is the table that [`weir_wire::describe`] reads: texts by field, of which
//! those at their defaults are left out. Stores of before there was a list of streams are still
//! read. MAC addresses belong to the testbed; none stands here.
//!
//! A traffic of connections has one stream, of the SYNs that open them, and so has one of requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_wire::describe::{Described, Description, FieldError, Macs};
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::sizes::Sizes;
use weir_wire::stream::StreamSpec;
use weir_wire::tcp::Flags;
use weir_wire::traffic::{self, StreamError};
use weir_wire::units::Rate;
use weir_wire::vlan::Tag;
use weir_wire::walk::Walk;

use crate::unit::Unit;

pub mod connect;
pub mod http;
mod senders;

pub use connect::Connect;
pub use http::Http;
pub use senders::{LINKS_MAX, Reverse, Sender, Senders, mirrors, partner, parts};

/// The most streams of a generator: their numbers have eight bits in the packets' signature.
pub const STREAMS_MAX: usize = 256;

/// What stands for the MAC addresses until a testbed has its own.
pub const NO_MACS: Macs = Macs { src: MacAddr([0; 6]), dst: MacAddr([0; 6]) };

/// One traffic, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TrafficFile", into = "TrafficFile")]
pub struct Traffic {
    /// Name in the specification; with sweep values that change it, `<traffic>.<sweep>=<value>`.
    pub name: String,
    /// SHA-256 (hex) of everything that determines its calibration.
    pub id: String,
    /// What is sent.
    pub streams: Streams,
    /// Rate of each generator that sends it, total over its threads and streams: packets per
    /// second, or connections, or requests.
    pub rate: Rate,
    /// Who sends it, and what is sent against it.
    pub senders: Senders,
    /// What is measured with it.
    pub kind: TrafficKind,
}

/// What a traffic is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficKind {
    /// Packets, each by itself.
    #[default]
    Packets,
    /// TCP connections.
    Connect(Connect),
    /// HTTP requests.
    Http(Http),
}

impl TrafficKind {
    /// What its figures count.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Packets => Unit::Pps,
            Self::Connect(Connect { count: Some(_), .. }) => Unit::Connections,
            Self::Connect(_) => Unit::Cps,
            Self::Http(_) => Unit::Rps,
        }
    }

    /// How a rate of its is written in specifications: `50kpps`, or `50k` connections.
    #[must_use]
    pub fn rate_text(&self, rate: Rate) -> String {
        match self {
            Self::Packets => rate.to_string(),
            Self::Connect(_) | Self::Http(_) => connect::rate_text(rate),
        }
    }

    /// Reads a rate of its.
    fn parse_rate(&self, text: &str) -> Result<Rate, String> {
        match self {
            Self::Packets => text.parse::<Rate>().map_err(|error| error.to_string()),
            Self::Connect(_) | Self::Http(_) => connect::parse_rate(text, self.unit().things()),
        }
    }

    /// Whether it is of packets, each by itself.
    #[must_use]
    pub const fn is_packets(&self) -> bool {
        matches!(self, Self::Packets)
    }
}

/// Streams that can be sent together, with their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    names: Vec<Option<String>>,
    sent: traffic::Traffic,
}

impl Traffic {
    /// What connections are opened, if it is of connections.
    #[must_use]
    pub const fn connect(&self) -> Option<&Connect> {
        match &self.kind {
            TrafficKind::Connect(connect) => Some(connect),
            TrafficKind::Packets | TrafficKind::Http(_) => None,
        }
    }

    /// What is asked for, if it is of requests.
    #[must_use]
    pub const fn http(&self) -> Option<&Http> {
        match &self.kind {
            TrafficKind::Http(http) => Some(http),
            TrafficKind::Packets | TrafficKind::Connect(_) => None,
        }
    }

    /// Flows of all streams of all generators together; answers belong to the flow that they
    /// answer.
    #[must_use]
    pub fn flow_count(&self) -> u64 {
        let senders = self.each_sender();
        let distinct = self.distinct_streams().into_iter();
        let counts = distinct.map(|(at, index)| senders[at].streams.flow_count_of(index));
        counts.fold(0, u64::saturating_add)
    }
}

impl Streams {
    /// Streams that were read.
    ///
    /// # Errors
    /// [`StreamError`] if they cannot be sent.
    pub fn new(streams: Vec<Described>) -> Result<Self, StreamError> {
        let names = streams.iter().map(|stream| stream.name.clone()).collect();
        let specs = streams.into_iter().map(|stream| (stream.spec, stream.weight)).collect();
        Ok(Self { names, sent: traffic::Traffic::new(specs)? })
    }

    /// Each stream and its weight.
    #[must_use]
    pub fn specs(&self) -> &[(StreamSpec, u32)] {
        self.sent.streams()
    }

    /// The streams with the MAC addresses of a testbed.
    ///
    /// # Errors
    /// [`StreamError`] if the source is a group address.
    pub fn with_macs(&self, macs: Macs) -> Result<traffic::Traffic, StreamError> {
        let with = |(spec, weight): &(StreamSpec, u32)| {
            (StreamSpec { src_mac: macs.src, dst_mac: macs.dst, ..spec.clone() }, *weight)
        };
        traffic::Traffic::new(self.specs().iter().map(with).collect())
    }

    /// Flows of all streams together; streams that share flows count them twice.
    #[must_use]
    pub fn flow_count(&self) -> u64 {
        u64::try_from(self.sent.flow_count()).unwrap_or(u64::MAX)
    }

    /// Flows of the stream at `index`.
    ///
    /// # Panics
    /// If there is no such stream.
    #[must_use]
    pub fn flow_count_of(&self, index: usize) -> u64 {
        self.sent.whole().streams()[index].flows().flow_count()
    }

    /// The smallest and the largest frame, bytes without FCS.
    #[must_use]
    pub fn size_bytes_range(&self) -> (u16, u16) {
        self.sent.size_bytes_range()
    }

    /// The mean frame size, bytes without FCS.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.sent.mean_bytes()
    }

    fn alone(&self, index: usize) -> Self {
        let (spec, _) = self.specs()[index].clone();
        let described =
            Described { spec, weight: 1, name: self.names[index].clone(), notes: Vec::new() };
        Self::new(vec![described]).expect("a stream of a checked set can be sent alone")
    }

    /// The same streams with other frame sizes.
    ///
    /// # Errors
    /// [`StreamError`] if a stream's protocol does not fit into such frames.
    pub fn with_sizes(&self, sizes: &Sizes) -> Result<Self, StreamError> {
        let with = |((spec, weight), name): (&(StreamSpec, u32), &Option<String>)| Described {
            spec: StreamSpec { sizes: sizes.clone(), ..spec.clone() },
            weight: *weight,
            name: name.clone(),
            notes: Vec::new(),
        };
        Self::new(self.specs().iter().zip(&self.names).map(with).collect())
    }

    /// What each stream is, field by field, without what is at its default and without names.
    #[must_use]
    pub fn fields(&self) -> Vec<BTreeMap<&'static str, String>> {
        let several = self.specs().len() > 1;
        self.specs().iter().map(|(spec, weight)| fields(spec, several.then_some(*weight))).collect()
    }

    /// Source, destination and size of a single stream that has nothing else: what there was
    /// before the whole stream model, and what ids of that time are made of.
    #[must_use]
    pub fn plain(&self) -> Option<(String, String, u16)> {
        let [(spec, _)] = self.specs() else { return None };
        let Sizes::Fixed(size_bytes) = spec.sizes else { return None };
        let keys = fields(spec, None).into_keys();
        let is_plain = keys.eq(["dst", "size", "src"]);
        is_plain.then(|| (spec.src.to_string(), spec.dst.to_string(), size_bytes))
    }
}

/// A stream field by field; its weight only where it has others beside it.
fn fields(spec: &StreamSpec, weight: Option<u32>) -> BTreeMap<&'static str, String> {
    // Taken apart, so that a new field does not compile until it is decided upon. MAC addresses are
    // the testbed's, number and threads follow from the place in the list and from the backend.
    let StreamSpec {
        dst_mac: _,
        src_mac: _,
        tags,
        encap,
        src,
        dst,
        protocol,
        ttl,
        dscp,
        dont_fragment,
        walk,
        sizes,
        size_seed,
        stream: _,
        thread_count: _,
    } = spec;
    let mut fields = BTreeMap::from([
        ("src", src.to_string()),
        ("dst", dst.to_string()),
        ("size", sizes.to_string()),
    ]);
    match protocol {
        Protocol::Udp => {}
        Protocol::Tcp { flags } => {
            fields.insert("proto", "tcp".to_owned());
            if *flags != Flags::SYN {
                fields.insert("tcp_flags", flags.to_string());
            }
        }
        Protocol::IcmpEcho => {
            fields.insert("proto", "icmp".to_owned());
        }
    }
    let tag = |tag: &Tag| match tag.pcp {
        0 => tag.id.to_string(),
        pcp => format!("{}@{pcp}", tag.id),
    };
    let seed = match walk {
        Walk::Random { seed } => Some(*seed),
        Walk::Odometer if matches!(sizes, Sizes::Uniform { .. }) => Some(*size_seed),
        Walk::Odometer => None,
    };
    let more = [
        ("vlan", (!tags.is_empty()).then(|| tags.iter().map(tag).collect::<Vec<_>>().join(","))),
        ("encap", encap.map(|tunnel| tunnel.to_string())),
        ("ttl", (*ttl != 64).then(|| ttl.to_string())),
        ("dscp", (*dscp != 0).then(|| dscp.to_string())),
        ("df", (!dont_fragment).then(|| "false".to_owned())),
        ("random", (*walk != Walk::Odometer).then(|| "true".to_owned())),
        ("seed", seed.filter(|seed| *seed != 0).map(|seed| seed.to_string())),
        ("weight", weight.filter(|weight| *weight != 1).map(|weight| weight.to_string())),
    ];
    fields.extend(more.into_iter().filter_map(|(name, value)| Some((name, value?))));
    fields
}

/// A traffic as files hold it.
#[derive(Serialize, Deserialize)]
struct TrafficFile {
    name: String,
    id: String,
    /// As [`TrafficKind::rate_text`] writes it.
    rate: String,
    /// Absent where it is of packets.
    #[serde(default, skip_serializing_if = "TrafficKind::is_packets")]
    kind: TrafficKind,
    /// For readers; it follows from the streams.
    flow_count: u64,
    #[serde(default)]
    streams: Vec<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reverse: Option<ReverseFile>,
    /// 1 where they are absent, as all of the following.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threads: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<u16>,
    #[serde(default, skip_serializing_if = "is_false")]
    mesh: bool,
    /// Of stores that knew one stream of UDP over IPv4 only, in place of `streams`.
    #[serde(default, skip_serializing)]
    src: Option<String>,
    #[serde(default, skip_serializing)]
    dst: Option<String>,
    #[serde(default, skip_serializing)]
    size_bytes: Option<u16>,
}

/// What is sent the other way, as files hold it.
#[derive(Serialize, Deserialize)]
struct ReverseFile {
    #[serde(with = "display")]
    rate: Rate,
    streams: Vec<BTreeMap<String, String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Serialises through `Display` and `FromStr`.
mod display {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes `value` as its text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    /// Reads a value from its text.
    ///
    /// # Errors
    /// When the text is not one.
    pub(super) fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// Why a traffic in a file is none.
#[derive(Debug, thiserror::Error)]
enum TrafficFileError {
    #[error("a stream has no field `{0}`")]
    Unknown(String),
    #[error("stream {number}: `{}`: {source}", source.field)]
    Field { number: u8, source: FieldError },
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("{0} streams are too many")]
    Count(usize),
    #[error("{0} links: there are 1 to {LINKS_MAX}")]
    Links(u16),
    #[error("`rate`: {0}")]
    Rate(String),
}

impl From<Traffic> for TrafficFile {
    fn from(traffic: Traffic) -> Self {
        let flow_count = traffic.flow_count();
        let Traffic { name, id, streams, rate, senders, kind } = traffic;
        // A part of a traffic, which has another first port, is in no file.
        let Senders { reverse, threads, links, is_mesh, first_port: _ } = senders;
        let reverse = reverse
            .map(|Reverse { streams, rate }| ReverseFile { rate, streams: tables(&streams) });
        Self {
            name,
            id,
            rate: kind.rate_text(rate),
            kind,
            flow_count,
            streams: tables(&streams),
            reverse,
            threads: (threads != 1).then_some(threads),
            links: (links != 1).then_some(links),
            mesh: is_mesh,
            src: None,
            dst: None,
            size_bytes: None,
        }
    }
}

/// Each stream as a table of texts, with its name.
fn tables(streams: &Streams) -> Vec<BTreeMap<String, String>> {
    let named = streams.fields().into_iter().zip(&streams.names);
    let table = |(fields, name): (BTreeMap<&'static str, String>, &Option<String>)| {
        let name = name.iter().map(|name| ("name", name.clone()));
        fields.into_iter().chain(name).map(|(key, text)| (key.to_owned(), text)).collect()
    };
    named.map(table).collect()
}

/// The streams of such tables.
fn of_tables(listed: Vec<BTreeMap<String, String>>) -> Result<Streams, TrafficFileError> {
    let count = listed.len();
    let mut described = Vec::with_capacity(count);
    for (index, fields) in listed.into_iter().enumerate() {
        let number = u8::try_from(index).map_err(|_| TrafficFileError::Count(count))?;
        let mut description = Description::default();
        for (key, text) in fields {
            let field = Description::field(&key);
            description.set(field.ok_or(TrafficFileError::Unknown(key))?, text);
        }
        let read = description.spec(number, NO_MACS);
        described.push(read.map_err(|source| TrafficFileError::Field { number, source })?);
    }
    Ok(Streams::new(described)?)
}

impl TryFrom<TrafficFile> for Traffic {
    type Error = TrafficFileError;

    fn try_from(file: TrafficFile) -> Result<Self, TrafficFileError> {
        let mut listed = file.streams;
        if listed.is_empty() {
            let size = file.size_bytes.map(|size| size.to_string());
            let fields = [("src", file.src), ("dst", file.dst), ("size", size)];
            let fields = fields.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?)));
            listed.push(fields.collect());
        }
        let reverse = |ReverseFile { rate, streams }| {
            Ok::<_, TrafficFileError>(Reverse { streams: of_tables(streams)?, rate })
        };
        let links = file.links.unwrap_or(1);
        if !(1..=LINKS_MAX).contains(&links) {
            return Err(TrafficFileError::Links(links));
        }
        let senders = Senders {
            reverse: file.reverse.map(reverse).transpose()?,
            threads: file.threads.unwrap_or(1).max(1),
            links,
            is_mesh: file.mesh,
            first_port: 0,
        };
        let streams = of_tables(listed)?;
        let rate = file.kind.parse_rate(&file.rate).map_err(TrafficFileError::Rate)?;
        let TrafficFile { name, id, kind, .. } = file;
        let traffic = Self { name, id, streams, rate, senders, kind };
        match traffic.stream_count_max() {
            count if count > STREAMS_MAX => Err(TrafficFileError::Count(count)),
            _ => Ok(traffic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Traffic, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// As stores hold it that were made when a traffic was one stream of UDP over IPv4.
    const OLD: &str = r#"{"name":"t","id":"i","src":"198.18.10.1:2000-198.18.10.8",
        "dst":"198.19.10.1:2000-198.19.10.16","size_bytes":128,"rate":"50kpps","flow_count":128}"#;

    #[test]
    fn traffic_of_old_stores_is_read() {
        let traffic = read(OLD).expect("it is readable");
        assert_eq!((traffic.flow_count(), traffic.streams.size_bytes_range()), (128, (128, 128)));
        assert_eq!(traffic.streams.plain().map(|(_, _, size)| size), Some(128));
        let text = serde_json::to_string(&traffic).expect("it is writable");
        assert_eq!(read(&text).expect("it is readable"), traffic);
    }

    /// One text for every field, so that none is lost on the way through a file.
    #[test]
    fn every_field_goes_through_a_file() {
        let text = r#"{"name":"t","id":"i","rate":"max","flow_count":1,"streams":[
            {"src":"198.18.10.1:1","dst":"198.19.10.1:1","size":"60-100","seed":"7","df":"false"},
            {"src":"[2001:2:0:10::1]:1","dst":"[2001:2:0:8010::1]:80","size":"imix-genome:be",
             "proto":"tcp","tcp_flags":"SF","vlan":"100,200@3","ttl":"9","dscp":"46",
             "random":"true","seed":"3","weight":"9","name":"attack"}]}"#;
        let traffic = read(text).expect("it is readable");
        let back = serde_json::to_value(&traffic).expect("it is writable");
        let expected: serde_json::Value = serde_json::from_str(text).expect("it is JSON");
        // Sizes, ranges and flags are written in their canonical forms.
        let stream = &back["streams"][1];
        for field in ["proto", "vlan", "ttl", "dscp", "random", "seed", "weight", "name", "dst"] {
            assert_eq!(stream[field], expected["streams"][1][field], "{field}");
        }
        assert_eq!(back["streams"][0]["seed"], "7");
        assert_eq!(back["streams"][0]["df"], "false");
        assert_eq!(back["flow_count"], 2);
        assert_eq!(serde_json::from_value::<Traffic>(back).expect("it is readable"), traffic);
        assert_eq!(traffic.streams.plain(), None);
        assert_eq!(traffic.alone(0, 1).flow_count(), 1);
    }

    #[test]
    fn what_is_no_traffic_is_refused() {
        let refused = |from: &str, to: &str| {
            assert!(OLD.contains(from), "{from}");
            read(&OLD.replace(from, to)).expect_err("it is refused").to_string()
        };
        assert!(refused("\"src\"", "\"source\"").contains("`src`"));
        assert!(refused("128,\"rate", "59,\"rate").contains("59 bytes"));
        let stranger = r#"{"name":"t","id":"i","rate":"max","flow_count":1,"streams":[{"x":"y"}]}"#;
        assert!(read(stranger).expect_err("it is refused").to_string().contains("`x`"));
    }
}

//! One traffic at one point of the sweeps: substituted, read and checked.
//!
//! What a field may say is [`weir_wire::describe`]'s to know, and what can be sent
//! [`weir_wire::traffic`]'s. Added here are the places of errors in the specification, and the
//! limits of the testbed.

use weir_gen::connect::{SERVER_PORT, source_range};
use weir_results::traffic::{
    NO_MACS, Reverse, STREAMS_MAX, Senders, Streams, Traffic, TrafficKind,
};
use weir_results::unit::Unit;
use weir_wire::describe::{Described, Description};
use weir_wire::flow::FlowSpaceError;
use weir_wire::range::{AddrRange, Range};
use weir_wire::rss::Settings;
use weir_wire::stream::{StreamError, StreamFrames, StreamSpec};
use weir_wire::units::{Rate, UnitError, format_count, parse_count, parse_rate};

use super::connect::{self, ConnectValues};
use super::http::{self, HttpValues};
use super::senders;
use super::value::{RATE_PPS_MAX, Value, error_at};
use crate::diagnostic::{Diagnostic, Report, Span, quote};
use crate::model::TestbedSpec;
use crate::plan::network;
use crate::spec::senders::SendersSpec;

/// The most flows of a traffic.
const FLOWS_MAX: u64 = 1 << 32;

/// Fields that the `netns` testbed refuses, and why.
const REFUSED: [(&str, &str, &str); 2] = [
    (
        "src_mac",
        "the generator's device of a netns testbed has an address of its own",
        "leave it out",
    ),
    (
        "dst_mac",
        "frames go to the device of the DUT, which would not take any others",
        "leave it out",
    ),
];

/// The rates that a generator of a lab is asked for.
const ACCEPTED_RATE: &str = "`max`, or packets per second (`50kpps`, `1.5Mpps`, a bare number)";

/// The values of a traffic after substitution.
pub(crate) struct Values<'a> {
    pub(crate) rate: Option<Value<'a>>,
    pub(crate) streams: Vec<StreamValues<'a>>,
    /// The same of what is sent the other way.
    pub(crate) reverse: Option<(Option<Value<'a>>, Vec<StreamValues<'a>>)>,
    pub(crate) senders: &'a SendersSpec,
    /// What is done with connections, where it is of those.
    pub(crate) connect: Option<ConnectValues<'a>>,
    /// What is asked for, where it is of requests.
    pub(crate) http: Option<HttpValues<'a>>,
}

/// The values of a stream, in the order of the text; `src` and `dst` are among them.
pub(crate) struct StreamValues<'a> {
    /// Place of its table.
    pub(crate) span: &'a Span,
    pub(crate) fields: Vec<(&'static str, Value<'a>)>,
    /// Whether they are the SYNs of connections, which requests go over.
    pub(crate) is_of_connections: bool,
}

impl StreamValues<'_> {
    fn get(&self, field: &str) -> Option<&Value<'_>> {
        self.fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// Reports an error about a field, or about the table if the field is not in it.
    fn error(&self, field: &str, message: &str, help: Option<&str>, report: &mut Report) {
        match self.get(field) {
            Some(value) => {
                value.error(report, format!("`{field}`: {message}{}", value.origin()), help);
            }
            None => error_at(self.span, report, format!("`{field}`: {message}"), help),
        }
    }
}

impl Values<'_> {
    /// What its rate is of, where that is not packets.
    fn things(&self) -> Option<&'static str> {
        let connections = self.connect.as_ref().map(|_| Unit::Cps);
        let unit = connections.or(self.http.as_ref().map(|_| Unit::Rps));
        unit.map(Unit::things)
    }
}

/// The checked values of a traffic.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(crate) streams: Streams,
    pub(crate) rate: Rate,
    pub(crate) senders: Senders,
    pub(crate) kind: TrafficKind,
}

/// Reads and checks the values; what is wrong is reported.
pub(crate) fn check(
    values: &Values<'_>,
    testbed: Option<&TestbedSpec>,
    report: &mut Report,
) -> Option<Checked> {
    let things = values.things();
    let place = |way| (testbed, way, things);
    let there = one_way((values.rate.as_ref(), &values.streams), place(Way::There), report);
    let back = values.reverse.as_ref();
    let back =
        back.map(|(rate, streams)| one_way((rate.as_ref(), streams), place(Way::Back), report));
    let (streams, rate) = there?;
    let reverse = match back {
        None => None,
        Some(back) => back.map(|(streams, rate)| Some(Reverse { streams, rate }))?,
    };
    check_tags(values, (&streams, reverse.as_ref()), testbed, report)?;
    let senders = senders::check(values.senders, reverse, testbed, report)?;
    let last = values.streams.last()?;
    let kind = match (&values.connect, &values.http) {
        (Some(connect), _) => connect::check(connect, (&streams, rate), testbed, report)?,
        (None, Some(http)) => http::check(http, &streams, report)?,
        (None, None) => TrafficKind::Packets,
    };
    let all = (String::new(), String::new());
    let traffic = Traffic { name: all.0, id: all.1, streams, rate, senders, kind };
    if traffic.stream_count_max() > STREAMS_MAX {
        let count = traffic.stream_count_max();
        let message = format!(
            "each generator of a mesh would have {count} streams; {STREAMS_MAX} are the limit"
        );
        error_at(last.span, report, message, Some("a stream goes to each of the other ports"));
        return None;
    }
    if traffic.flow_count() > FLOWS_MAX {
        too_many_flows(last, Some(traffic.flow_count()), report);
        return None;
    }
    let Traffic { streams, rate, senders, kind, .. } = traffic;
    Some(Checked { streams, rate, senders, kind })
}

/// Which way a stream goes: from the networks of sources to those of destinations, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

/// Reads and checks what is sent one way.
fn one_way(
    (rate, written): (Option<&Value<'_>>, &[StreamValues<'_>]),
    (testbed, way, things): (Option<&TestbedSpec>, Way, Option<&str>),
    report: &mut Report,
) -> Option<(Streams, Rate)> {
    let mut streams: Vec<Option<Vec<Described>>> = Vec::new();
    let mut next_number = 0_usize;
    for stream in written {
        let Ok(number) = u8::try_from(next_number) else {
            stream.error("src", "a stream before it is spread over all there may be", None, report);
            return None;
        };
        let some = described(stream, number, (testbed, way), report);
        next_number += some.as_ref().map_or(1, Vec::len);
        streams.push(some);
    }
    let rate = match (rate, things) {
        (Some(value), Some(things)) => connect::rate(value, things, report),
        (Some(value), None) => self::rate(value, testbed, report),
        (None, _) => Some(Rate::Max),
    };
    let streams = streams.into_iter().collect::<Option<Vec<_>>>()?;
    let streams = streams.into_iter().flatten().collect();
    match Streams::new(streams) {
        Ok(streams) => Some((streams, rate?)),
        // Each of them can be sent; what is left are their weights.
        Err(error) => {
            written.last()?.error("weight", &error.to_string(), None, report);
            None
        }
    }
}

/// Refuses streams of one traffic with different VLANs: a DUT has its way out in one of them.
fn check_tags(
    values: &Values<'_>,
    (streams, reverse): (&Streams, Option<&Reverse>),
    testbed: Option<&TestbedSpec>,
    report: &mut Report,
) -> Option<()> {
    let Some(TestbedSpec::Netns(_)) = testbed else { return Some(()) };
    let back = reverse.iter().flat_map(|reverse| reverse.streams.specs());
    let ids = |(spec, _): &(StreamSpec, u32)| spec.tags.iter().map(|tag| tag.id).collect();
    let all: Vec<Vec<u16>> = streams.specs().iter().chain(back).map(ids).collect();
    let back = values.reverse.iter().flat_map(|(_, streams)| streams);
    let written = values.streams.iter().chain(back);
    let Some((other, _)) = written.zip(&all).find(|(_, ids)| **ids != all[0]) else {
        return Some(());
    };
    let help = "give all streams the same tags; other tags belong in another traffic";
    let message = "streams of one traffic have different tags: the DUT's routes lead into one VLAN";
    other.error("vlan", message, Some(help), report);
    None
}

/// Reads and checks one stream, so far as it can be checked alone; with `spread` it is several.
fn described(
    values: &StreamValues<'_>,
    number: u8,
    (testbed, way): (Option<&TestbedSpec>, Way),
    report: &mut Report,
) -> Option<Vec<Described>> {
    let mut is_good = true;
    let mut texts: Vec<(&'static str, String)> = Vec::new();
    // Devices of the lab's own have their own addresses.
    let direct_path = testbed.filter(|testbed| testbed.has_direct_path());
    for (name, value) in &values.fields {
        let refused = REFUSED.iter().find(|(refused, _, _)| refused == name);
        if let (Some(TestbedSpec::Hosts(_)), true) = (testbed, name.ends_with("_mac")) {
            let why = "addresses are those of the generators";
            let help = "write `mac` and `next_hop_mac` in [[testbed.generator]]";
            values.error(name, why, Some(help), report);
            is_good = false;
        } else if let (Some((_, why, help)), Some(_)) = (refused, direct_path) {
            values.error(name, why, Some(help), report);
            is_good = false;
        } else if let (Some(TestbedSpec::Qemu(_)), "vlan") = (testbed, *name) {
            let help = "leave it out, or measure on a testbed of kind \"netns\" or \"hosts\"";
            let why = "the lab gives a virtual machine's cards no VLANs";
            values.error(name, why, Some(help), report);
            is_good = false;
        } else if !["src", "dst"].contains(name) {
            texts.push((name, normal(name, &value.text)));
        }
    }
    let ends = ["src", "dst"].map(|name| {
        let value = values.get(name)?;
        let range = range(name, values.is_of_connections, value, report)?;
        let is_inside = match testbed {
            Some(testbed @ (TestbedSpec::Netns(_) | TestbedSpec::Qemu(_))) => {
                let is_source = (name == "src") == (way == Way::There);
                let place = (is_source, testbed.links());
                network::check(name, place, value, &range, report)
            }
            Some(TestbedSpec::Hosts(_)) | None => true,
        };
        is_good &= is_inside;
        Some(range)
    });
    // An end that is none is stood in for, so that the other fields are looked at as well.
    let stand_in =
        ends.iter().flatten().next().map_or("198.18.1.1".to_owned(), AddrRange::to_string);
    for (name, end) in ["src", "dst"].into_iter().zip(ends) {
        is_good &= end.is_some();
        texts.push((name, end.map_or_else(|| stand_in.clone(), |range| range.to_string())));
    }
    let card = card(testbed);
    let card = card.as_ref().map(|card| (&card.key, card.fields[0]));
    let described = loop {
        let mut description = Description::default();
        for (name, text) in &texts {
            description.set(name, text.clone());
        }
        match description.specs(number, NO_MACS, card) {
            Ok(described) => break described,
            // Without the field that is wrong, the others get their turn.
            Err(error) => {
                values.error(error.field, &error.message, None, report);
                is_good = false;
                texts.retain(|(name, _)| *name != error.field);
            }
        }
    };
    is_good &= described.iter().all(|one| can_be_sent(values, one, testbed, report));
    is_good.then_some(described)
}

/// The card whose receive side scaling the testbed has.
fn card(testbed: Option<&TestbedSpec>) -> Option<Settings> {
    match testbed {
        Some(TestbedSpec::Netns(netns)) => netns.rss.as_ref()?.settings().ok(),
        Some(TestbedSpec::Hosts(_) | TestbedSpec::Qemu(_)) | None => None,
    }
}

/// A number as every field has it: a size may be written with a multiplier here.
fn normal(name: &str, text: &str) -> String {
    match (name, parse_count(text)) {
        ("size", Ok(size)) => size.to_string(),
        _ => text.to_owned(),
    }
}

/// Whether the stream can be sent through the testbed.
fn can_be_sent(
    values: &StreamValues<'_>,
    described: &Described,
    testbed: Option<&TestbedSpec>,
    report: &mut Report,
) -> bool {
    const FCS: Option<&str> = Some("a frame's size is counted without its 4-byte FCS");
    // Without a testbed there is nothing to hold a size against; that was reported.
    let size_bytes_max = testbed.map_or(u32::MAX, TestbedSpec::size_bytes_max);
    let error = match StreamFrames::new(described.spec.clone()) {
        Ok(frames) if u32::from(frames.sizes().max_bytes()) <= size_bytes_max => return true,
        Ok(frames) => {
            let size_bytes = frames.sizes().max_bytes();
            let message = format!(
                "frames of {size_bytes} bytes are too large: the testbed's links carry \
                 at most {size_bytes_max}"
            );
            let help = match testbed {
                Some(TestbedSpec::Netns(_)) => Some(
                    "a frame's size is counted without its 4-byte FCS; `mtu` in [testbed] sets \
                     what the links carry",
                ),
                _ => FCS,
            };
            values.error("size", &message, help, report);
            return false;
        }
        Err(error) => error,
    };
    match &error {
        StreamError::Flows(FlowSpaceError::TooMany { .. }) => too_many_flows(values, None, report),
        StreamError::Size { .. } => values.error("size", &error.to_string(), FCS, report),
        other => values.error(field_of(other), &error.to_string(), None, report),
    }
    false
}

/// The field that an error is about.
fn field_of(error: &StreamError) -> &'static str {
    match error {
        StreamError::SizesEmpty => "size",
        StreamError::TagCount(_) | StreamError::Tag(_) => "vlan",
        StreamError::Ttl => "ttl",
        StreamError::Dscp(_) => "dscp",
        StreamError::FragmentV6 => "df",
        StreamError::SourceMac(_) => "src_mac",
        _ => "dst",
    }
}

fn range(
    name: &str,
    is_of_connections: bool,
    value: &Value<'_>,
    report: &mut Report,
) -> Option<AddrRange> {
    let parsed = match (is_of_connections, name) {
        (false, _) => AddrRange::parse(&value.text, Range::PORT_DEFAULT),
        (true, "src") => source_range(&value.text),
        (true, _) => AddrRange::parse(&value.text, SERVER_PORT),
    };
    match parsed {
        Ok((range, swapped)) => {
            let what = match (swapped.addr, swapped.port) {
                (false, false) => return Some(range),
                (true, false) => "addresses",
                (false, true) => "ports",
                (true, true) => "addresses and ports",
            };
            let message = format!(
                "`{name}`: the {what} of {}{} are reversed; it is read as {range}",
                quote(&value.text),
                value.origin()
            );
            let warning = Diagnostic::warning(&report.spec, message);
            report.push_once(warning.at(value.written.span.clone()));
            Some(range)
        }
        Err(error) => {
            let message = format!("`{name}`: {error}{}", value.origin());
            let span = value.written.inner(&report.spec, error.at());
            let span = if value.text == value.written.text { span } else { None };
            let span = span.unwrap_or_else(|| value.written.span.clone());
            report.push_once(Diagnostic::error(&report.spec, message).at(span));
            None
        }
    }
}

fn rate(value: &Value<'_>, testbed: Option<&TestbedSpec>, report: &mut Report) -> Option<Rate> {
    let origin = value.origin();
    match parse_rate(&value.text) {
        Ok(Rate::Max) => Some(Rate::Max),
        Ok(Rate::Pps(rate_pps)) if rate_pps <= RATE_PPS_MAX => Some(Rate::Pps(rate_pps)),
        Ok(Rate::Pps(_)) => {
            value.error(report, format!("`rate` must be at most 1Gpps{origin}"), None);
            None
        }
        Ok(Rate::Bps(_) | Rate::Percent(_)) => {
            let why = match testbed {
                Some(TestbedSpec::Hosts(_)) => "generators are asked for packets per second",
                _ => "a veth has no line rate",
            };
            let message = format!("`rate` {}{origin}: {why}", quote(&value.text));
            value.error(report, message, Some("give packets per second: \"50kpps\""));
            None
        }
        Err(error) => {
            let error = match error {
                // Not what would be refused then.
                UnitError::Malformed { text, what, reason, .. } => {
                    UnitError::Malformed { text, what, reason, accepted: ACCEPTED_RATE }
                }
                error @ UnitError::OutOfRange { .. } => error,
            };
            value.error(report, format!("`rate`: {error}{origin}"), None);
            None
        }
    }
}

fn too_many_flows(values: &StreamValues<'_>, flow_count: Option<u64>, report: &mut Report) {
    let shown = flow_count.map_or("2^64 or more".into(), format_count);
    let message =
        format!("the traffic has {shown} flows; {} are the limit", format_count(FLOWS_MAX));
    let help = "it has as many flows as source addresses × source ports × destination addresses × \
                destination ports";
    let span = values.get("dst").map_or(values.span, |value| &value.written.span);
    error_at(span, report, message, Some(help));
}

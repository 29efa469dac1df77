//! A traffic of connections at one point of the sweeps, and what it cannot be combined with.
//!
//! What can be opened is weir-gen's to know; added here are the places of errors and the limits of
//! the testbed.

use weir_gen::connect::frame_bytes;
use weir_results::traffic::connect::{self, Close, Connect};
use weir_results::traffic::{Streams, TrafficKind};
use weir_wire::units::{Rate, format_count, parse_count};

use super::value::{RATE_PPS_MAX, Value, error_at};
use crate::diagnostic::{Report, Span, quote};
use crate::model::TestbedSpec;
use crate::spec::Spec;
use crate::spec::connect::ConnectSpec;
use crate::spec::device::{DutSpec, KindSpec};
use crate::trial::PROBES_MAX;

/// What is done with connections, after substitution.
pub(crate) struct ConnectValues<'a> {
    pub(crate) spec: &'a ConnectSpec,
    /// How many are opened and stay open.
    pub(crate) count: Option<Value<'a>>,
}

/// Reads a rate of connections, or of other things by that name.
pub(super) fn rate(value: &Value<'_>, things: &str, report: &mut Report) -> Option<Rate> {
    let origin = value.origin();
    match connect::parse_rate(&value.text, things) {
        Ok(Rate::Pps(rate_cps)) if rate_cps > RATE_PPS_MAX => {
            value.error(report, format!("`rate` must be at most 1G{origin}"), None);
            None
        }
        Ok(rate) => Some(rate),
        Err(accepted) => {
            let message = format!("`rate` {}{origin} is none of {things}", quote(&value.text));
            value.error(report, message, Some(&accepted));
            None
        }
    }
}

/// Checks what is done with connections over these flows, opened at this rate.
pub(super) fn check(
    values: &ConnectValues<'_>,
    (streams, rate): (&Streams, Rate),
    testbed: Option<&TestbedSpec>,
    report: &mut Report,
) -> Option<TrafficKind> {
    let ConnectSpec { span, close, request_bytes, reply_bytes, .. } = values.spec;
    let is_ipv6 = streams.specs().iter().any(|(spec, _)| spec.src.is_ipv6());
    let needed = frame_bytes(is_ipv6, *request_bytes.max(reply_bytes));
    let most = testbed.map_or(u32::MAX, TestbedSpec::size_bytes_max);
    if u32::from(needed) > most {
        let message = format!(
            "requests and replies need frames of {needed} bytes, and the testbed's links carry at \
             most {most}"
        );
        error_at(span, report, message, Some("give a smaller `request` and `reply`"));
        return None;
    }
    let count = match close {
        Close::Fin | Close::Rst => None,
        Close::None if rate == Rate::Max => {
            let message = "connections that stay open need a `rate`, at which they are opened";
            error_at(span, report, message.to_owned(), Some("write one that the DUT can take"));
            return None;
        }
        Close::None => Some(count(values, streams.flow_count(), report)?),
    };
    let (close, request_bytes, reply_bytes) = (*close, *request_bytes, *reply_bytes);
    Some(TrafficKind::Connect(Connect { close, request_bytes, reply_bytes, count }))
}

/// How many connections are held. Each has a flow of its own, and so have those of probes.
fn count(values: &ConnectValues<'_>, flow_count: u64, report: &mut Report) -> Option<u64> {
    let most = flow_count.saturating_sub(PROBES_MAX);
    let help = "each connection has a flow of its own, and so have those of the probes before: \
                give more source addresses or ports";
    let Some(value) = &values.count else {
        if most == 0 {
            let message = format!("{flow_count} flows are too few to hold connections");
            error_at(&values.spec.span, report, message, Some(help));
        }
        return (most > 0).then_some(most);
    };
    let origin = value.origin();
    match parse_count(&value.text) {
        Ok(0) => {
            value.error(report, format!("`count` must be above 0{origin}"), None);
            None
        }
        Ok(count) if count > most => {
            let message = format!(
                "`count` is {}{origin}, and there are {} flows, {} of which are for probes",
                format_count(count),
                format_count(flow_count),
                format_count(PROBES_MAX),
            );
            value.error(report, message, Some(help));
            None
        }
        Ok(count) => Some(count),
        Err(error) => {
            value.error(report, format!("`count`: {error}{origin}"), None);
            None
        }
    }
}

/// Refuses what does not go together with connections, or with the requests over them.
pub(super) fn check_spec(spec: &Spec, report: &mut Report) {
    let connects = || spec.traffics.iter().filter_map(|traffic| traffic.connect.as_ref());
    let https = || spec.traffics.iter().filter_map(|traffic| traffic.http.as_ref());
    let (count, request_count) = (connects().count(), https().count());
    let first = connects().next().map(|connect| (&connect.span, "connections"));
    let Some((span, things)) = first.or(https().next().map(|http| (&http.span, "requests"))) else {
        return;
    };
    let mut refuse = |span: &Span, message: &str, help: &str| {
        report.error_help(span, message.to_owned(), help.to_owned());
    };
    let help = "figures of different units are not compared: write a specification for each";
    if count > 0 && request_count > 0 {
        refuse(span, "this specification has traffic of requests, too", help);
    }
    if count + request_count < spec.traffics.len() {
        refuse(span, "this specification has traffic of packets, too", help);
    }
    let holds = |connect: &ConnectSpec| connect.close == Close::None;
    let first_holds = connects().next().is_some_and(holds);
    if let Some(other) = connects().find(|connect| holds(connect) != first_holds) {
        let message = "some connections of this specification are closed, and others stay open";
        let help = "how many are held and how many are opened in a second are different figures: \
                    write a specification for each";
        refuse(&other.span, message, help);
    }
    let (kind, links) = spec.testbed.as_ref().map_or(("netns", 1), |t| (t.kind(), t.links()));
    if !["netns", "hosts"].contains(&kind) {
        let message = format!("{things} are not built for testbed kind \"{kind}\"");
        refuse(span, &message, "they need kind = \"netns\" or \"hosts\"");
    } else if links > 1 {
        let message = format!("{things} go over one link, and the testbed has several");
        refuse(span, &message, "leave `links` out of [testbed]");
    }
    let sends_through_stack = |testbed: &TestbedSpec| match testbed {
        TestbedSpec::Netns(netns) => netns.sends_through_stack(),
        TestbedSpec::Hosts(_) | TestbedSpec::Qemu(_) => false,
    };
    if count > 0 && spec.places.all().any(sends_through_stack) {
        let message = "connections are made of live frames, which this testbed does not have";
        let help = "leave `rss` and an `mtu` above 3380 out of [testbed]";
        refuse(span, message, help);
    }
    if first_holds && spec.trial.latency.is_some() {
        let message = "connections that stay open have no latency: a DUT that holds all it can has \
                       no room for more";
        refuse(span, message, "leave `latency` out of [trial]");
    }
    let forwards = |dut: &DutSpec| !matches!(dut.kind, KindSpec::Command { .. });
    let proxy = https().find_map(|http| http.proxy.as_ref());
    if let (Some(proxy), Some(dut)) = (proxy, spec.duts.iter().find(|dut| forwards(dut))) {
        let name = &dut.name.text;
        let message = format!("`proxy` is for DUTs of kind \"command\", and `{name}` is none");
        let help = "DUTs that forward belong in another specification, without `proxy`";
        refuse(&proxy.span, &message, help);
    }
    if spec.duts.iter().any(|dut| dut.toggle.is_some()) {
        let message = format!("a toggle counts packets, and this traffic is of {things}");
        refuse(span, &message, "compare with two DUTs instead");
    }
}

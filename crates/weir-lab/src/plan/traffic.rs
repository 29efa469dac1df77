//! One traffic at one point of the sweeps: substituted, read and checked.

use std::net::Ipv4Addr;

use weir_gen::units::{Rate, format_count, parse_count, parse_rate};
use weir_wire::flow::FlowSpace;
use weir_wire::range::Range;

use crate::diagnostic::{Diagnostic, Report, quote};
use crate::model::TestbedSpec;
use crate::spec::fields::Text;

/// The most flows of a traffic.
const FLOWS_MAX: u64 = 1 << 32;

/// Frame sizes without FCS: the smallest that Ethernet has, the largest without jumbo frames.
const SIZE_BYTES: std::ops::RangeInclusive<u64> = 60..=1514;

/// The rate that no software can be asked for in earnest.
const RATE_PPS_MAX: f64 = 1e9;

/// A substituted value and the place that it was written at.
pub(crate) struct Value<'a> {
    pub(crate) text: String,
    pub(crate) written: &'a Text,
}

impl Value<'_> {
    /// Reports an error about the value, unless another point of the sweeps already has one.
    fn error(&self, report: &mut Report, message: String, help: Option<&str>) {
        let diagnostic = Diagnostic::error(&report.spec, message).at(self.written.span.clone());
        report.push_once(Diagnostic { help: help.map(str::to_owned), ..diagnostic });
    }

    /// What the value came from, if the specification does not show it.
    fn origin(&self) -> String {
        if self.text == self.written.text {
            String::new()
        } else {
            format!(" (from {})", quote(&self.written.text))
        }
    }
}

/// The values of a traffic after substitution.
pub(crate) struct Values<'a> {
    pub(crate) src: Value<'a>,
    pub(crate) dst: Value<'a>,
    pub(crate) size: Option<Value<'a>>,
    pub(crate) rate: Option<Value<'a>>,
}

/// The checked values of a traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) src: Range,
    pub(crate) dst: Range,
    pub(crate) size_bytes: u16,
    pub(crate) rate: Rate,
    pub(crate) flow_count: u64,
}

/// Reads and checks the values; what is wrong is reported.
pub(crate) fn check(
    values: &Values<'_>,
    testbed: Option<&TestbedSpec>,
    report: &mut Report,
) -> Option<Checked> {
    let src = range("src", &values.src, report);
    let dst = range("dst", &values.dst, report);
    if let Some(TestbedSpec::Netns(_)) = testbed {
        for (name, value, range, network) in
            [("src", &values.src, src, 18), ("dst", &values.dst, dst, 19)]
        {
            if let Some(range) = range {
                refuse_foreign(name, value, range, network, report);
            }
        }
    }
    let size_bytes = match &values.size {
        Some(value) => size(value, report),
        None => Some(60),
    };
    let rate = match &values.rate {
        Some(value) => rate(value, report),
        None => Some(Rate::Max),
    };
    let (src, dst) = (src?, dst?);
    let flow_count = flows(src, dst, values, report);
    Some(Checked { src, dst, size_bytes: size_bytes?, rate: rate?, flow_count: flow_count? })
}

fn range(name: &str, value: &Value<'_>, report: &mut Report) -> Option<Range> {
    match Range::parse(&value.text, Range::PORT_DEFAULT) {
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

/// Refuses what is outside `198.<network>.0.0/16`, or in its first /24, which the testbed's own
/// links have.
fn refuse_foreign(name: &str, value: &Value<'_>, range: Range, network: u8, report: &mut Report) {
    let first = Ipv4Addr::new(198, network, 1, 0);
    let last = Ipv4Addr::new(198, network, 255, 255);
    if range.addr_first >= first && range.addr_last <= last {
        return;
    }
    let links = Ipv4Addr::new(198, network, 0, 0);
    let message = if range.addr_last >= links && range.addr_first < first {
        format!(
            "`{name}` {}{} reaches into {links}/24, which is the testbed's link",
            quote(&value.text),
            value.origin()
        )
    } else {
        format!(
            "`{name}` {}{} is outside {links}/16, the testbed's part of the benchmarking network",
            quote(&value.text),
            value.origin()
        )
    };
    let help = format!("RFC 2544 reserves 198.18.0.0/15 for this; `{name}` is {first} to {last}");
    value.error(report, message, Some(&help));
}

fn size(value: &Value<'_>, report: &mut Report) -> Option<u16> {
    let (least, most) = (SIZE_BYTES.start(), SIZE_BYTES.end());
    let size = match parse_count(&value.text) {
        Ok(size) => size,
        Err(error) => {
            value.error(report, format!("`size`: {error}{}", value.origin()), None);
            return None;
        }
    };
    if !SIZE_BYTES.contains(&size) {
        let message = format!("`size` must be {least} to {most}, not {size}{}", value.origin());
        let help = "a frame's size is counted without its 4-byte FCS";
        value.error(report, message, Some(help));
        return None;
    }
    u16::try_from(size).ok()
}

fn rate(value: &Value<'_>, report: &mut Report) -> Option<Rate> {
    let origin = value.origin();
    match parse_rate(&value.text) {
        Ok(Rate::Max) => Some(Rate::Max),
        Ok(Rate::Pps(rate_pps)) if rate_pps <= RATE_PPS_MAX => Some(Rate::Pps(rate_pps)),
        Ok(Rate::Pps(_)) => {
            value.error(report, format!("`rate` must be at most 1Gpps{origin}"), None);
            None
        }
        Ok(Rate::Bps(_) | Rate::Percent(_)) => {
            let message = format!("`rate` {}{origin}: a veth has no line rate", quote(&value.text));
            value.error(report, message, Some("give packets per second: \"50kpps\""));
            None
        }
        Err(error) => {
            value.error(report, format!("`rate`: {error}{origin}"), None);
            None
        }
    }
}

fn flows(src: Range, dst: Range, values: &Values<'_>, report: &mut Report) -> Option<u64> {
    let flow_count = FlowSpace::new(src, dst).map(|space| space.flow_count()).ok();
    match flow_count {
        Some(flow_count) if flow_count <= FLOWS_MAX => Some(flow_count),
        _ => {
            let shown = flow_count.map_or("2^64 or more".into(), format_count);
            let message =
                format!("the traffic has {shown} flows; {} are the limit", format_count(FLOWS_MAX));
            let help = "it has as many flows as source addresses × source ports × destination \
                addresses × destination ports";
            values.dst.error(report, message, Some(help));
            None
        }
    }
}

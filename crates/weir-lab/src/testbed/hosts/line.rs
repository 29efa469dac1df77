//! The shell lines that start generators and receivers, and which traffic a program can make.
//!
//! Options: weir's own; netmap's pkt-gen(8); netsniff-ng's trafgen(8), which steps through ports
//! but not through addresses.

use std::fmt::Write as _;
use std::time::Duration;

use weir_machine::ssh::quote;
use weir_results::traffic::Traffic;
use weir_wire::frame::Protocol;
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::sizes::Sizes;
use weir_wire::stream::StreamSpec;
use weir_wire::units::Rate;
use weir_wire::walk::Walk;

use super::variables::render;
use crate::model::{DriverKind, EndSpec};

/// What one generator is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) traffic: &'a Traffic,
    /// Its part of the rate.
    pub(super) rate: Rate,
    /// Its part of the packets; absent: until it is stopped.
    pub(super) count: Option<u64>,
    /// How often it reports.
    pub(super) sample: Duration,
}

/// Why a program cannot make a traffic; `None` if it can.
pub(crate) fn refusal(kind: DriverKind, traffic: &Traffic) -> Option<String> {
    let [(spec, _)] = traffic.streams.specs() else {
        return match kind {
            DriverKind::Weir | DriverKind::Command => None,
            _ => Some(format!("{} sends one stream", kind.name())),
        };
    };
    let fixed = matches!(spec.sizes, Sizes::Fixed(_));
    let plain = spec.tags.is_empty() && spec.dscp == 0;
    let why = match kind {
        DriverKind::Weir | DriverKind::Command => return None,
        _ if !matches!(spec.protocol, Protocol::Udp) => "sends UDP",
        _ if !fixed => "sends frames of one size",
        _ if !plain => "sends neither VLAN tags nor code points",
        DriverKind::Trafgen if spec.walk != Walk::Odometer => "does not draw flows at random",
        DriverKind::Trafgen if spec.src.is_ipv6() => "is driven over IPv4 only",
        DriverKind::Trafgen if !steps_one_port(spec) => {
            "steps through at most one range of ports, and through no addresses"
        }
        _ => return None,
    };
    Some(format!("{} {why}", kind.name()))
}

fn steps_one_port(spec: &StreamSpec) -> bool {
    let (src, dst) = (&spec.src, &spec.dst);
    let single = |range: &AddrRange| range.addr_count() == 1;
    single(src) && single(dst) && (src.port_count() == 1 || dst.port_count() == 1)
}

/// The line that starts a generator; `file` is where the description of its streams is.
pub(super) fn generator(end: &EndSpec, ask: Ask<'_>, file: &str) -> String {
    let values = values(end, ask);
    let driver = &end.driver;
    if let Some(start) = &driver.start {
        return render(start, &values);
    }
    let get = |name: &str| {
        values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value.as_str())
    };
    let program = program(end);
    let mut line = match driver.kind {
        DriverKind::Weir => {
            let mut line = format!(
                "exec {program} gen -i {} --stream {} --rate {} --interval {}ms --json",
                get("interface"),
                quote(file),
                ask.rate,
                get("sample_ms")
            );
            if let Some(count) = ask.count {
                let _ = write!(line, " --count {count}");
            }
            line
        }
        DriverKind::PktGen => {
            let mut line = format!(
                "exec {program} -f tx -N -i {} -l {} -s {} -d {} -D {} -T {} -n {}",
                get("interface"),
                get("size"),
                quote(get("src")),
                quote(get("dst")),
                get("dst_mac"),
                get("sample_ms"),
                get("count")
            );
            if !get("src_mac").is_empty() {
                let _ = write!(line, " -S {}", get("src_mac"));
            }
            if let Rate::Pps(_) = ask.rate {
                let _ = write!(line, " -R {}", get("rate_pps"));
            }
            if ask.traffic.streams.specs().iter().any(|(spec, _)| spec.src.is_ipv6()) {
                line.push_str(" -6");
            }
            line
        }
        DriverKind::Trafgen => {
            let mut line =
                format!("exec {program} -o {} -c {} -P 1", get("interface"), quote(file));
            if let Some(count) = ask.count {
                let _ = write!(line, " -n {count}");
            }
            if let Rate::Pps(_) = ask.rate {
                let _ = write!(line, " -b {}pps", get("rate_pps"));
            }
            line
        }
        DriverKind::Command => String::new(),
    };
    append(&mut line, driver.options.as_deref());
    line
}

/// The line that starts a receiver.
pub(super) fn receiver(end: &EndSpec, traffic: &str, sample: Duration) -> String {
    let sample_ms = sample.as_millis();
    if let Some(start) = &end.driver.start {
        return render(start, &receiver_values(end, traffic, sample));
    }
    let (program, interface) = (program(end), &end.interface);
    let mut line = match end.driver.kind {
        DriverKind::PktGen => format!("exec {program} -f rx -N -i {interface} -T {sample_ms}"),
        _ => format!("exec {program} sink -i {interface} --interval {sample_ms}ms --json"),
    };
    append(&mut line, end.driver.options.as_deref());
    line
}

/// The line that stops a program, if it has one of its own.
pub(super) fn stop(end: &EndSpec, traffic: &str, sample: Duration) -> Option<String> {
    let line = end.driver.stop.as_ref()?;
    Some(render(line, &receiver_values(end, traffic, sample)))
}

fn append(line: &mut String, options: Option<&str>) {
    if let Some(options) = options {
        line.push(' ');
        line.push_str(options);
    }
}

/// The program as a shell has it.
pub(super) fn program(end: &EndSpec) -> String {
    quote(end.driver.program.as_deref().unwrap_or(end.driver.kind.name()))
}

fn receiver_values(end: &EndSpec, traffic: &str, sample: Duration) -> Vec<(&'static str, String)> {
    vec![
        ("interface", end.interface.clone()),
        ("sample_ms", sample.as_millis().to_string()),
        ("traffic", traffic.to_owned()),
    ]
}

/// What a generator's lines may refer to.
fn values(end: &EndSpec, ask: Ask<'_>) -> Vec<(&'static str, String)> {
    let mut values = receiver_values(end, &ask.traffic.name, ask.sample);
    let (spec, _) = &ask.traffic.streams.specs()[0];
    let rate_pps = match ask.rate {
        Rate::Pps(rate_pps) => format!("{rate_pps:.0}"),
        _ => "0".to_owned(),
    };
    values.extend([
        ("src", spec.src.to_string()),
        ("dst", spec.dst.to_string()),
        ("size", ask.traffic.streams.size_bytes_range().1.to_string()),
        ("src_mac", end.mac.clone().unwrap_or_default()),
        ("dst_mac", end.next_hop_mac.clone().unwrap_or_default()),
        ("rate_pps", rate_pps),
        ("count", ask.count.unwrap_or(0).to_string()),
    ]);
    values
}

/// The description of a traffic that a program reads from a file: its name and content.
pub(super) fn description(end: &EndSpec, traffic: &Traffic) -> Option<(&'static str, String)> {
    if end.driver.start.is_some() {
        return None;
    }
    match end.driver.kind {
        DriverKind::Weir => Some(("traffic.toml", streams(end, traffic))),
        DriverKind::Trafgen => Some(("traffic.cfg", trafgen(end, traffic))),
        DriverKind::PktGen | DriverKind::Command => None,
    }
}

/// The file of `weir gen --stream`.
fn streams(end: &EndSpec, traffic: &Traffic) -> String {
    let mut text = String::new();
    let macs = [("src_mac", &end.mac), ("dst_mac", &end.next_hop_mac)];
    for fields in traffic.streams.fields() {
        text.push_str("[[stream]]\n");
        for (name, value) in &fields {
            let _ = writeln!(text, "{name} = {}", toml::Value::from(value.as_str()));
        }
        for (name, mac) in macs {
            if let Some(mac) = mac {
                let _ = writeln!(text, "{name} = \"{mac}\"");
            }
        }
    }
    text
}

/// The packet of trafgen's configuration.
fn trafgen(end: &EndSpec, traffic: &Traffic) -> String {
    let (spec, _) = &traffic.streams.specs()[0];
    let size_bytes = usize::from(traffic.streams.size_bytes_range().1);
    // Ethernet, IPv4 and UDP headers.
    let payload = size_bytes.saturating_sub(14 + 20 + 8);
    let ports = |range: &AddrRange| {
        let first = range.port_first();
        let last = u32::from(first) + range.port_count() - 1;
        if range.port_count() == 1 { first.to_string() } else { format!("dinc({first}, {last})") }
    };
    let source = end.mac.as_ref().map_or_else(String::new, |mac| format!(", sa={mac}"));
    format!(
        "{{ eth(da={}{source}), ipv4(ttl={}, df, sa={}, da={}), udp(sp={}, dp={}), \
         fill(0x00, {payload}) }}\n",
        end.next_hop_mac.as_deref().unwrap_or_default(),
        spec.ttl,
        spec.src.addr(0),
        spec.dst.addr(0),
        ports(&spec.src),
        ports(&spec.dst),
    )
}

#[cfg(test)]
mod tests;

//! A traffic of requests at one point of the sweeps: what is asked for, over which connections.

use std::net::{IpAddr, SocketAddr};

use weir_gen::connect::SOURCE_PORTS;
use weir_results::traffic::{Http, Streams, TrafficKind};
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::stream::StreamSpec;
use weir_wire::units::{format_count, parse_count};

use super::value::{Value, error_at};
use crate::diagnostic::{Report, quote};
use crate::spec::http::HttpSpec;

/// Connections at a time, if nothing says it.
const CONNECTIONS: u64 = 64;
/// The most of them: what the descriptors of a few hundred worker processes are enough for.
const CONNECTIONS_MAX: u64 = 4 << 20;
/// Bytes of a reply, if nothing says it, and the most.
const REPLY_BYTES: u64 = 128;
const REPLY_BYTES_MAX: u64 = 1 << 40;
/// Addresses that connections come from: a network of 24 bits behind each of the others.
const SOURCES_MAX: u64 = 1 << 16;

/// What is asked for, after substitution.
pub(crate) struct HttpValues<'a> {
    pub(crate) spec: &'a HttpSpec,
    pub(crate) connections: Option<Value<'a>>,
    pub(crate) keepalive: Option<Value<'a>>,
    pub(crate) reply: Option<Value<'a>>,
    pub(crate) proxy: Option<Value<'a>>,
}

/// Checks what is asked for over these flows.
pub(super) fn check(
    values: &HttpValues<'_>,
    streams: &Streams,
    report: &mut Report,
) -> Option<TrafficKind> {
    let count = |name: &str, value: &Option<Value<'_>>, (least, most), report: &mut Report| {
        let Some(value) = value else { return Some(None) };
        let (shown, origin) = (quote(&value.text), value.origin());
        match parse_count(&value.text).ok().filter(|count| (least..=most).contains(count)) {
            Some(count) => Some(Some(count)),
            None => {
                let most = format_count(most);
                let message = format!("`{name}` must be {least} to {most}, not {shown}{origin}");
                value.error(report, message, None);
                None
            }
        }
    };
    let connections = count("connections", &values.connections, (1, CONNECTIONS_MAX), report);
    let keepalive = count("keepalive", &values.keepalive, (1, u64::MAX), report);
    let reply_bytes = count("reply", &values.reply, (0, REPLY_BYTES_MAX), report);
    let proxy = match &values.proxy {
        None => None,
        Some(value) => match value.text.parse::<SocketAddr>() {
            Ok(proxy) => {
                let is_server = |spec: &StreamSpec| spec.dst.addr(0) == proxy.ip();
                let message = if proxy.is_ipv6() != is_ipv6(streams) {
                    format!("`proxy` {proxy} and `src` are of different IP versions")
                } else if proxy.port() == 0 {
                    format!("`proxy` {proxy} has no port that anybody could listen at")
                } else if streams.specs().iter().any(|(spec, _)| is_server(spec)) {
                    format!("`proxy` {proxy} is the server: the DUT would only forward")
                } else {
                    String::new()
                };
                if !message.is_empty() {
                    value.error(report, message, None);
                    return None;
                }
                Some(proxy)
            }
            Err(_) => {
                let (shown, origin) = (quote(&value.text), value.origin());
                let message = format!("`proxy` {shown}{origin} is not an address and a port");
                let help = "give what the DUT listens at: \"198.18.0.1:8080\"";
                value.error(report, message, Some(help));
                return None;
            }
        },
    };
    let connections = connections?.unwrap_or(CONNECTIONS);
    let http = Http {
        connections,
        keepalive: keepalive?,
        close: values.spec.close,
        reply_bytes: reply_bytes?.unwrap_or(REPLY_BYTES),
        proxy,
    };
    check_ends(values, streams, connections, report)?;
    Some(TrafficKind::Http(http))
}

fn is_ipv6(streams: &Streams) -> bool {
    streams.specs().iter().any(|(spec, _)| spec.src.is_ipv6())
}

/// Whether each address of a range is the one before it and one more.
fn is_contiguous(range: &AddrRange) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(u32::from(four)),
        IpAddr::V6(six) => u128::from(six),
    };
    let last = range.addr_count() - 1;
    number(range.addr(last)) - number(range.addr(0)) == u128::from(last)
}

/// Refuses ends that sockets cannot have.
fn check_ends(
    values: &HttpValues<'_>,
    streams: &Streams,
    connections: u64,
    report: &mut Report,
) -> Option<()> {
    let [(stream, _)] = streams.specs() else { return None };
    let ports = stream.src.port_count();
    let (message, help) = if stream.dst.pair_count() != 1 {
        ("`dst` of requests is one server", "give one address, and one port or none: it is 80 then")
    } else if ports != u32::from(SOURCE_PORTS.1 - SOURCE_PORTS.0) + 1 {
        ("`src` has ports, and those of requests are the kernel's choice", "leave them out")
    } else if stream.src.addr_count() > SOURCES_MAX {
        ("`src` has more than 65,536 addresses", "one is enough for 64,512 connections")
    } else if !is_contiguous(&stream.src) {
        ("the addresses of `src` do not follow each other", "give a range in the last group")
    } else if connections > stream.src.addr_count().saturating_mul(ports.into()) {
        (
            "there are more connections than ports of `src`",
            "give more addresses: each has 64,512 ports",
        )
    } else {
        return Some(());
    };
    error_at(&values.spec.span, report, message.to_owned(), Some(help));
    None
}

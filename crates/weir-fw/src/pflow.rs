//! Flows of states of rules with `pflow` go to a collector when their state ends: NetFlow version 5
//! or IPFIX, by UDP, as by `pflow(4)` of OpenBSD.
//!
//! The data path tells of such ends in a ring buffer (`bpf/include/weir/fw/event.h`), and this
//! thread reads nothing else. Without a collector, events are let go, as they are where no pflow
//! interface is up. Nothing is kept for a collector that does not listen.

mod flow;
mod packets;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{INTERFACE_COUNT_MAX, interface};

use crate::engine::{FlowCounters, boot_ns, monotonic_ns};
use crate::shared::Shared;
use crate::states::{self, ended};
use flow::{Now, flows};
use packets::{Exporter, Packet};

pub use packets::Protocol;

/// How long it waits for events before it looks whether something is due.
const POLL: Duration = Duration::from_millis(200);

/// What a collector looks like on the command line.
const FORM: &str = "flowdst=ADDRESS:PORT[,flowsrc=ADDRESS][,pflowproto=5|10]";

/// Where flows go, in the words of OpenBSD's ifconfig(8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collector {
    /// `flowdst`
    pub destination: SocketAddr,
    /// `flowsrc`; port 0 is any.
    pub source: SocketAddr,
    /// `pflowproto`
    pub protocol: Protocol,
}

/// An address with or without a port.
fn source(text: &str) -> Option<SocketAddr> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    address.or_else(|_| text.parse()).ok()
}

impl std::str::FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut to, mut from, mut protocol) = (None::<SocketAddr>, None, None);
        for part in text.split(',') {
            let (word, value) = part.split_once('=').ok_or_else(|| format!("use {FORM}"))?;
            let is_again = match word {
                "flowdst" => {
                    let address = value.parse().ok().filter(|to: &SocketAddr| to.port() != 0);
                    let address = address.ok_or_else(|| {
                        format!("flowdst is ADDRESS:PORT or [ADDRESS]:PORT, not {value:?}")
                    })?;
                    to.replace(address).is_some()
                }
                "flowsrc" => {
                    let address = source(value)
                        .ok_or_else(|| format!("flowsrc is an address, not {value:?}"))?;
                    from.replace(address).is_some()
                }
                "pflowproto" => {
                    let known = match value {
                        "5" => Protocol::V5,
                        "10" => Protocol::Ipfix,
                        _ => return Err(format!("pflowproto is 5 or 10, not {value:?}")),
                    };
                    protocol.replace(known).is_some()
                }
                _ => return Err(format!("there is no {word:?}: use {FORM}")),
            };
            if is_again {
                return Err(format!("{word} is there twice"));
            }
        }
        let destination = to.ok_or_else(|| format!("flowdst is missing: use {FORM}"))?;
        let any = match destination {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let source = from.unwrap_or(SocketAddr::new(any, 0));
        if source.is_ipv4() != destination.is_ipv4() {
            return Err("flowsrc and flowdst are of different families".to_owned());
        }
        Ok(Self { destination, source, protocol: protocol.unwrap_or_default() })
    }
}

/// The socket that a collector is sent to by.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: UdpSocket,
    collector: Collector,
    /// The last packet could not be sent, which was said.
    is_failing: bool,
}

impl Sender {
    pub(crate) fn open(collector: Collector) -> io::Result<Self> {
        let socket = UdpSocket::bind(collector.source).map_err(|error| {
            io::Error::new(error.kind(), format!("flowsrc {}: {error}", collector.source.ip()))
        })?;
        // Who does not take packets at once does not hold up what comes after them.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, collector, is_failing: false })
    }

    /// Sends a packet; gives what is to be said about it.
    fn send(&mut self, packet: &Packet, counters: &FlowCounters) -> Option<String> {
        let to = self.collector.destination;
        match self.socket.send_to(&packet.bytes, to) {
            Ok(_) => {
                counters.packets.fetch_add(1, Ordering::Relaxed);
                counters.records.fetch_add(packet.record_count.into(), Ordering::Relaxed);
                std::mem::take(&mut self.is_failing)
                    .then(|| format!("flows are exported to {to} again"))
            }
            Err(error) => {
                counters.send_errors.fetch_add(1, Ordering::Relaxed);
                let is_new = !std::mem::replace(&mut self.is_failing, true);
                is_new.then(|| format!("flows cannot be exported to {to}: {error}"))
            }
        }
    }
}

/// Reads the ring until the daemon stops, and exports what has come by then.
pub(crate) fn run(shared: &Arc<Shared>, sender: Option<Sender>) {
    let (firewall, counters) = {
        let engine = shared.engine();
        (Arc::clone(engine.firewall()), Arc::clone(engine.flow_counters()))
    };
    let failed = |error: io::Error| {
        shared.messages.tell(&format!("ends of states cannot be read: {error}"));
    };
    let mut reader = match firewall.event_reader() {
        Ok(reader) => reader,
        Err(error) => return failed(error),
    };
    let protocol = sender.as_ref().map_or(Protocol::V5, |sender| sender.collector.protocol);
    let (mut exporter, mut sender) = (Exporter::new(protocol), sender);
    loop {
        let is_last = shared.stop.is_requested();
        let events = reader.read(if is_last { Duration::ZERO } else { POLL });
        let events = events.unwrap_or_else(|error| {
            failed(error);
            shared.stop.wait(Duration::from_secs(1));
            Vec::new()
        });
        if let Some(sender) = &mut sender {
            let now = now(&firewall);
            let mut packets = Vec::new();
            for record in events.iter().filter_map(|event| ended(event)) {
                for flow in flows(&record, &now, |slot| ifindex(&firewall, slot)) {
                    packets.extend(exporter.add(&flow, &now));
                }
            }
            packets.extend(exporter.due(&now, is_last));
            for packet in &packets {
                let message = sender.send(packet, &counters);
                message.iter().for_each(|text| shared.messages.tell(text));
            }
        }
        if is_last {
            return;
        }
    }
}

fn now(firewall: &Firewall) -> Now {
    let unix_ns = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0);
    let tick = states::tick(firewall, monotonic_ns());
    Now { tick, uptime_ms: boot_ns() / 1_000_000, unix_ns }
}

/// The index of the interface in a slot now; 0: there is none.
fn ifindex(firewall: &Firewall, slot: u8) -> u32 {
    let slot = u32::from(slot);
    if slot == 0 || slot >= INTERFACE_COUNT_MAX {
        return 0;
    }
    let at = firewall.regions().interfaces.at + slot * interface::SIZE_BYTES;
    firewall.arena().read32(at + interface::IFINDEX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_written_as_for_ifconfig() {
        let read = |text: &str| text.parse::<Collector>();
        let all = read("flowdst=192.0.2.1:2055,flowsrc=192.0.2.9,pflowproto=10").unwrap();
        assert_eq!(all.destination, "192.0.2.1:2055".parse().unwrap());
        assert_eq!(all.source, "192.0.2.9:0".parse().unwrap());
        assert_eq!(all.protocol, Protocol::Ipfix);
        let short = read("flowdst=[2001:db8::1]:9995").unwrap();
        assert_eq!((short.protocol, short.source), (Protocol::V5, "[::]:0".parse().unwrap()));
        let port = read("flowsrc=192.0.2.9:3000,flowdst=192.0.2.1:1").unwrap();
        assert_eq!(port.source.port(), 3000);
        for (text, why) in [
            ("", "use flowdst="),
            ("flowdst=192.0.2.1", "flowdst is ADDRESS:PORT"),
            ("flowdst=192.0.2.1:0", "flowdst is ADDRESS:PORT"),
            ("flowdst=192.0.2.1:1,flowsrc=here", "flowsrc is an address"),
            ("flowdst=192.0.2.1:1,flowsrc=::1", "different families"),
            ("flowdst=192.0.2.1:1,pflowproto=9", "5 or 10"),
            ("flowdst=192.0.2.1:1,flowdst=192.0.2.1:1", "twice"),
            ("flowsrc=192.0.2.1", "flowdst is missing"),
            ("flowdest=192.0.2.1:1", "no \"flowdest\""),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

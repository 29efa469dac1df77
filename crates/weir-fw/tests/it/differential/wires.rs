//! The interfaces, addresses and routes of a test's network, in the calling thread's namespace.
//!
//! Every interface is one end of a veth pair whose other end is silent, and behind each is one
//! neighbour with an address of its own that no test uses: all routes lead to it. So whatever has a
//! route can be forwarded, and the neighbour's MAC address tells the interface that a frame leaves
//! by.

use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use weir_bpf::ethtool;
use weir_net::{Prefix, sysctl};
use weir_oracle::device::{DeviceError, Network};

/// MTU of an interface that has none of its own.
const MTU_BYTES: u32 = 1500;
/// Slots that the data path has for interfaces.
const INTERFACE_COUNT_MAX: usize = 63;

pub(crate) fn failed(what: &str, error: impl std::fmt::Display) -> DeviceError {
    DeviceError(format!("{what}: {error}"))
}

/// One interface of the box.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) name: String,
    pub(crate) slot: u8,
    pub(crate) ifindex: u32,
    pub(crate) mtu_bytes: u32,
    /// Its own MAC address.
    pub(crate) mac: [u8; 6],
    /// The one of the neighbour behind it.
    pub(crate) neighbour_mac: [u8; 6],
}

impl Wire {
    fn new(index: usize, name: &str, mtu_bytes: u32) -> Self {
        let slot = u8::try_from(index + 1).unwrap_or(u8::MAX);
        Self {
            name: name.to_owned(),
            slot,
            ifindex: 0,
            mtu_bytes,
            mac: [2, 0, 0, 0, 1, slot],
            neighbour_mac: [2, 0, 0, 0, 2, slot],
        }
    }

    fn neighbour(&self, is_v4: bool) -> IpAddr {
        if is_v4 {
            [198, 18, 0, self.slot].into()
        } else {
            [0xfe80, 0, 0, 0, 0, 0xffff, 0, u16::from(self.slot)].into()
        }
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Settings of a namespace that routes; interfaces that are made later have them too.
pub(crate) fn prepare_namespace() -> Result<(), DeviceError> {
    let mut settings = vec![("net.ipv4.ip_forward".to_owned(), "1")];
    for which in ["all", "default"] {
        settings.push((format!("net.ipv6.conf.{which}.accept_dad"), "0"));
        settings.push((format!("net.ipv6.conf.{which}.forwarding"), "1"));
        settings.push((format!("net.ipv4.conf.{which}.rp_filter"), "0"));
    }
    for (name, value) in settings {
        sysctl::write(&name, value).map_err(|error| failed(&name, error))?;
    }
    Ok(())
}

/// Commands of ip(8) that make an interface; `peer` is the silent end of its pair.
fn interface_lines(wire: &Wire, peer: &str, lines: &mut Vec<String>) {
    let (name, mac, mtu) = (&wire.name, mac_text(wire.mac), wire.mtu_bytes);
    lines.push(format!("link add {name} address {mac} mtu {mtu} type veth peer name {peer}"));
    lines.push(format!("link set {peer} addrgenmode none up"));
    lines.push(format!("link set {name} up"));
    for is_v4 in [true, false] {
        let (address, mac) = (wire.neighbour(is_v4), mac_text(wire.neighbour_mac));
        lines.push(format!("neigh replace {address} lladdr {mac} dev {name} nud permanent"));
    }
}

fn route_line(wire: &Wire, address: IpAddr, bits: u8) -> String {
    let (via, name) = (wire.neighbour(address.is_ipv4()), &wire.name);
    let network = Prefix::new(address, bits).expect("a prefix").network();
    format!("route replace {network} via {via} dev {name} onlink")
}

/// Commands that give an interface its addresses, and lead their networks to its neighbour.
fn address_lines(
    wire: &Wire,
    facts: &weir_rules::resolve::InterfaceFacts,
    lines: &mut Vec<String>,
) {
    let name = &wire.name;
    for entry in &facts.addresses {
        let (address, bits) = (entry.address, entry.bits);
        if address.is_loopback() {
            continue;
        }
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let tail = if address.is_ipv4() { "" } else { " nodad" };
        lines.push(format!("address add {address}/{whole} dev {name}{tail}"));
        if bits < whole {
            lines.push(route_line(wire, address, bits));
        }
        if let Some(broadcast) = entry.broadcast {
            lines
                .push(format!("route add broadcast {broadcast} dev {name} table local scope link"));
        }
    }
}

fn run(lines: &[String]) -> Result<(), DeviceError> {
    let command = || -> std::io::Result<std::process::Output> {
        let mut child = Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(lines.join("\n").as_bytes())?;
            input.write_all(b"\n")?;
        }
        child.wait_with_output()
    };
    let output = command().map_err(|error| failed("ip", error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed("ip -batch", String::from_utf8_lossy(&output.stderr)))
}

/// Takes interfaces away again.
pub(crate) fn remove(wires: &[Wire]) -> Result<(), DeviceError> {
    let lines: Vec<String> = wires.iter().map(|wire| format!("link del {}", wire.name)).collect();
    if lines.is_empty() { Ok(()) } else { run(&lines) }
}

/// Makes the interfaces of a network.
pub(crate) fn make(network: &Network) -> Result<Vec<Wire>, DeviceError> {
    if network.interfaces.len() > INTERFACE_COUNT_MAX {
        return Err(DeviceError(format!("more than {INTERFACE_COUNT_MAX} interfaces")));
    }
    let mut wires = Vec::new();
    let mut lines = Vec::new();
    for (index, facts) in network.interfaces.iter().enumerate() {
        let wire = Wire::new(index, &facts.name, facts.mtu_bytes.unwrap_or(MTU_BYTES));
        interface_lines(&wire, &format!("peer{index}"), &mut lines);
        wires.push(wire);
    }
    for (wire, facts) in wires.iter().zip(&network.interfaces) {
        address_lines(wire, facts, &mut lines);
    }
    for (address, bits, name) in &network.routes {
        let Some(wire) = wires.iter().find(|known| known.name == *name) else {
            return Err(DeviceError(format!("a route leads to `{name}`, which is not there")));
        };
        lines.push(route_line(wire, *address, *bits));
    }
    run(&lines)?;
    let netlink = weir_net::Netlink::open().map_err(|error| failed("netlink", error))?;
    for (index, wire) in wires.iter_mut().enumerate() {
        wire.ifindex = netlink.ifindex(&wire.name).map_err(|error| failed("netlink", error))?;
        // A veth takes redirected frames only while its peer has NAPI.
        ethtool::set_gro(&format!("peer{index}"), true).map_err(|error| failed("GRO", error))?;
    }
    Ok(wires)
}

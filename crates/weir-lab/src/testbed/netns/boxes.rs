//! A DUT that is two firewalls: their namespaces, and the link between them.
//!
//! ```text
//!   gen0 ──► dut0  first  dut1 ──► sink0         gen0 ──► dut0 ═╤═ first  ═╤═ dut1 ──► sink0
//!                    │ sync0                                      │    │     │
//!                  second                                         └═ second ═┘
//! ```
//!
//! Left, where the second one only gets the states: the first one is the DUT's namespace, as
//! without a second one, and the second one has ports of the same names and addresses that lead
//! nowhere. Right, where the second one takes over: `dut0` and `dut1` are ports of two switches,
//! behind which both firewalls are. The addresses that hosts send to are nobody's yet: VRRP gives
//! them to one of the two, with the MAC addresses that go with them ([`SHARED_MACS`]). What goes
//! into a switch and does not come out of the other one is a loss of the DUT.
//!
//! Nothing here runs a firewall, or VRRP.

use std::path::Path;

use weir_bpf::ethtool;
use weir_machine::cancel::Cancel;
use weir_net::{CpuList, Netlink, Netns, VethEnd};
use weir_results::dut::Backup;

use super::host::NetnsHost;
use super::layout::Port;
use super::wiring::{address, inside, namespace, neighbours, routes};
use crate::dut::pair::{LINK_ADDRESSES, LINK_DEVICE, PORTS_OF_FIRST, VRRP_ROUTERS, box_addresses};
use crate::testbed::TestbedError;

/// MAC addresses of the two addresses that VRRP moves (RFC 9568, section 7.3).
pub(super) const SHARED_MACS: [[u8; 6]; 2] =
    [[0, 0, 0x5e, 0, 1, VRRP_ROUTERS[0]], [0, 0, 0x5e, 0, 1, VRRP_ROUTERS[1]]];

/// The ports of the second firewall's switches, beside those of the first one.
const PORTS_OF_SECOND: [&str; 2] = ["second0", "second1"];
const SWITCHES: [&str; 2] = ["switch0", "switch1"];

/// The firewalls that are not in the DUT's namespace.
#[derive(Debug)]
pub(super) struct Boxes {
    /// `None`: that is the DUT's namespace.
    first: Option<Netns>,
    second: Netns,
}

impl Boxes {
    /// The last parts of their namespaces' names.
    pub(super) fn roles(backup: Option<Backup>) -> &'static [&'static str] {
        match backup {
            None => &[],
            Some(Backup { takeover: None }) => &["second"],
            Some(Backup { takeover: Some(_) }) => &["first", "second"],
        }
    }

    /// Makes their namespaces.
    pub(super) fn create(
        backup: Backup,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Self, TestbedError> {
        let first = backup.takeover.map(|_| namespace(&name("first"))).transpose()?;
        Ok(Self { first, second: namespace(&name("second"))? })
    }

    /// Whether both are behind switches.
    pub(super) fn are_behind(&self) -> bool {
        self.first.is_some()
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Netns> {
        self.first.iter().chain([&self.second])
    }

    /// The hosts of both: the second one beside or behind the DUT's, with a folder of its own.
    /// It runs on the CPUs of the generator, as another machine would not take the first one's.
    pub(super) fn hosts(
        &self,
        dut: NetnsHost,
        directory: &Path,
        (dut_cpus, other_cpus): (&CpuList, &CpuList),
        cancel: &Cancel,
    ) -> Result<NetnsHost, TestbedError> {
        let host = |netns: &Netns, folder: &str, cpus: &CpuList| {
            let directory = directory.join(folder);
            std::fs::create_dir_all(&directory).map_err(TestbedError::new)?;
            let netns = Netns::open(netns.name()).map_err(TestbedError::new)?;
            Ok::<_, TestbedError>(NetnsHost::new(netns, &directory, cpus.clone(), cancel.clone()))
        };
        let second = host(&self.second, "second", other_cpus)?;
        Ok(match &self.first {
            None => dut.with_boxes(true, vec![second]),
            Some(first) => dut.with_boxes(false, vec![host(first, "first", dut_cpus)?, second]),
        })
    }

    /// Connects them with the DUT's namespace and with each other.
    pub(super) fn connect(
        &self,
        dut: &Netns,
        ports: &[Port],
        mtu_bytes: u32,
    ) -> Result<(), TestbedError> {
        let first = self.first.as_ref().unwrap_or(dut);
        let ends = [(first, LINK_DEVICE), (&self.second, LINK_DEVICE)];
        wire(ends, mtu_bytes)?;
        for ((netns, device), link) in ends.into_iter().zip(LINK_ADDRESSES) {
            address(netns, device, &[format!("{link}/24")])?;
        }
        if self.first.is_some() {
            return self.connect_behind(dut, ports, mtu_bytes);
        }
        for port in ports {
            let away = format!("{}-away", port.dut_device);
            wire([(&self.second, port.dut_device), (&self.second, &away)], mtu_bytes)?;
            address(&self.second, port.dut_device, &port.dut_addresses)?;
        }
        Ok(())
    }

    /// Puts both behind switches.
    fn connect_behind(
        &self,
        dut: &Netns,
        ports: &[Port],
        mtu_bytes: u32,
    ) -> Result<(), TestbedError> {
        for (switch, port) in SWITCHES.into_iter().zip(ports) {
            inside(dut, || {
                let netlink = Netlink::open()?;
                netlink.create_bridge(switch)?;
                netlink.set_mtu(switch, mtu_bytes)?;
                netlink.add_port(switch, port.dut_device)?;
                netlink.set_up(switch)
            })?;
        }
        let both = [(self.first.as_ref(), PORTS_OF_FIRST), (Some(&self.second), PORTS_OF_SECOND)];
        for (number, (netns, plugs)) in (0..).zip(both) {
            let Some(netns) = netns else { continue };
            for (side, (port, plug)) in ports.iter().zip(plugs).enumerate() {
                wire([(netns, port.dut_device), (dut, plug)], mtu_bytes)?;
                inside(dut, || {
                    ethtool::set_tx_checksums(plug, false).map_err(|e| e.to_string())?;
                    let netlink = Netlink::open().map_err(|e| e.to_string())?;
                    netlink.add_port(SWITCHES[side], plug).map_err(|e| e.to_string())
                })?;
                address(netns, port.dut_device, &box_addresses(&port.dut_addresses, number))?;
                neighbours(netns, port.dut_device, &port.addresses, port.mac)?;
                routes(netns, port.dut_device, &port.networks, &port.addresses)?;
            }
        }
        Ok(())
    }
}

/// A pair of devices that take frames from XDP; both are up.
fn wire(ends: [(&Netns, &str); 2], mtu_bytes: u32) -> Result<(), TestbedError> {
    let [(here, one), (there, other)] = ends;
    inside(here, || {
        let peer = VethEnd::new(other).mtu(mtu_bytes).in_netns(there);
        Netlink::open()?.create_veth(&VethEnd::new(one).mtu(mtu_bytes), &peer, 1)
    })?;
    for (netns, device) in ends {
        inside(netns, || Netlink::open()?.set_up(device))?;
        inside(netns, || ethtool::set_gro(device, true))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dut::pair::SHARED_ADDRESSES;

    #[test]
    fn what_vrrp_moves_are_the_addresses_that_the_dut_has_without_a_second_one() {
        for (number, shared) in (0..).zip(SHARED_ADDRESSES) {
            let port = Port::of(number, 1);
            assert_eq!(port.dut_addresses[0], format!("{shared}/24"));
            let second = box_addresses(&port.dut_addresses, 1);
            assert_eq!(second[0], format!("{}252/24", shared.strip_suffix('1').unwrap()));
            assert!(second[1].ends_with("::252/64"), "{second:?}");
        }
    }
}

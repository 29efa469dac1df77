//! The namespaces of one trial and the devices in them, before anything runs.
//!
//! A record of the names is written before the first namespace is made, so that a later start
//! can remove what a killed process left. Whatever ends the parts, an error half-way through their
//! making included, removes the namespaces and what runs in them, and then the record.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use weir_bpf::ethtool;
use weir_bpf::rss::{Link, Receiver, Wire};
use weir_machine::host::STOP_PATIENCE;
use weir_net::registry::{Record, Registry};
use weir_net::{Netlink, NetlinkError, Netns, NetnsError, VethEnd, process};
use weir_results::dut::Backup;
use weir_wire::rss::Settings;
use weir_wire::vlan::{Tag, TagKind};

use super::boxes::{Boxes, SHARED_MACS};
use super::layout::{Leaving, MTU_BYTES, PARK_DEVICES, Port};
use super::wiring::{address, ifindex, inside, namespace, neighbours, routes};
use crate::model::NetnsSpec;
use crate::testbed::{TestbedError, Topology};

/// How long a veth pair may take to notice that both of its ends are up.
const CARRIER_PATIENCE: Duration = Duration::from_secs(2);

/// The kernel has no device of the kind.
const EOPNOTSUPP: i32 = 95;

/// The namespaces of one trial.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) topology: Topology,
    /// Queues of every device.
    pub(super) queues: u32,
    /// The ports of the DUT, in their order, which [`Topology::Direct`] has none of.
    pub(super) ports: Vec<Port>,
    /// How packets are spread over the queues of what receives them first; `None` if the CPU that
    /// sends them decides.
    rss: Option<Settings>,
    /// How packets leave the generators.
    pub(super) leaving: Leaving,
    /// What spreads them, at each device opposite a port.
    wires: Vec<(Wire, Link)>,
    mtu_bytes: u32,
    /// Tags of the traffic, for which the DUT's ports have VLAN devices.
    tags: Vec<Tag>,
    pub(super) generator: Netns,
    pub(super) dut: Option<Netns>,
    /// The firewalls beside the DUT's namespace, or behind it.
    pub(super) boxes: Option<Boxes>,
    pub(super) sink: Netns,
    /// Working directory of the DUT; it goes with the record.
    pub(super) directory: PathBuf,
    claim: Claim,
}

/// The names that are on record, and their removal.
#[derive(Debug)]
pub(in crate::testbed) struct Claim(Option<Record>);

impl Claim {
    /// Puts names of namespaces on record before they are made, in the order in which they are
    /// released, and makes a directory that goes with the record.
    pub(in crate::testbed) fn take(names: &[String]) -> Result<(Self, PathBuf), TestbedError> {
        let record = Registry::default().record(names).map_err(TestbedError::new)?;
        let directory = record.directory().map_err(TestbedError::new)?;
        Ok((Self(Some(record)), directory))
    }

    /// Ends what runs in the namespaces, and removes them and the record.
    pub(in crate::testbed) fn release(&mut self) -> Result<(), TestbedError> {
        let Some(record) = self.0.take() else { return Ok(()) };
        for name in record.namespaces() {
            let netns = match Netns::open(name) {
                Ok(netns) => netns,
                // It was not made yet when something failed.
                Err(NetnsError::Missing { .. }) => continue,
                Err(error) => return Err(TestbedError::new(error)),
            };
            process::end_processes_in(netns.inode(), STOP_PATIENCE).map_err(TestbedError::new)?;
            netns.delete().map_err(TestbedError::new)?;
        }
        record.close().map_err(TestbedError::new)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // An error is on its way already; what cannot be removed stays on record.
        drop(self.release());
    }
}

/// One end of a link.
#[derive(Clone, Copy)]
struct End<'a> {
    netns: &'a Netns,
    device: &'static str,
    mac: [u8; 6],
    addresses: &'a [String],
    /// Of the VLAN devices that are put on it, the outer one first; the last has the addresses.
    tags: &'a [Tag],
}

impl<'a> End<'a> {
    fn opposite(port: &'a Port, netns: &'a Netns) -> Self {
        let (device, mac, addresses) = (port.device, port.mac, &port.addresses);
        Self { netns, device, mac, addresses, tags: &[] }
    }

    fn of_dut(port: &'a Port, netns: &'a Netns, tags: &'a [Tag]) -> Self {
        let (device, mac, addresses) = (port.dut_device, port.dut_mac, &port.dut_addresses);
        Self { netns, device, mac, addresses, tags }
    }

    fn without_addresses(self) -> Self {
        Self { addresses: &[], ..self }
    }

    /// Every VLAN device by name, and the one below each.
    fn vlans(&self) -> Vec<(String, String, Tag)> {
        let mut below = self.device.to_owned();
        let above = self.tags.iter().map(|tag| {
            let name = format!("{below}.{}", tag.id);
            (name.clone(), std::mem::replace(&mut below, name), *tag)
        });
        above.collect()
    }

    /// The device that has the addresses.
    fn addressed(&self) -> String {
        self.vlans().pop().map_or_else(|| self.device.to_owned(), |(name, _, _)| name)
    }
}

impl Parts {
    /// Makes namespaces, links, addresses, neighbours and routes.
    pub(super) fn create(
        topology: Topology,
        spec: &NetnsSpec,
        tags: Vec<Tag>,
        backup: Option<Backup>,
    ) -> Result<Self, TestbedError> {
        let id = std::process::id();
        let name = |role: &str| format!("weir-{id}-{role}");
        let mut names = vec![name("gen"), name("sink")];
        if topology == Topology::Dut {
            // First, because names are released in this order, and its processes use the links.
            names.insert(0, name("dut"));
            names.splice(0..0, Boxes::roles(backup).iter().map(|role| name(role)));
        }
        let (claim, directory) = Claim::take(&names)?;
        let generator = namespace(&name("gen"))?;
        let sink = namespace(&name("sink"))?;
        let dut = match topology {
            Topology::Dut => Some(namespace(&name("dut"))?),
            Topology::Direct => None,
        };
        let boxes = match (&dut, backup) {
            (Some(_), Some(backup)) => Some(Boxes::create(backup, &name)?),
            _ => None,
        };
        let NetnsSpec { queues, links, .. } = *spec;
        let rss = spec.rss.as_ref().map(|rss| rss.settings().map_err(TestbedError::new));
        let rss = rss.transpose()?;
        let mtu_bytes = spec.mtu_bytes.unwrap_or(MTU_BYTES);
        let ports = (0..links * 2).map(|port| Port::of(port, links)).collect();
        let mut parts = Self {
            topology,
            queues,
            ports,
            rss,
            leaving: if spec.sends_through_stack() { Leaving::Stack } else { Leaving::Xdp },
            wires: Vec::new(),
            mtu_bytes,
            tags,
            generator,
            dut,
            boxes,
            sink,
            directory,
            claim,
        };
        parts.connect()?;
        parts.connect_boxes()?;
        parts.spread()?;
        Ok(parts)
    }

    /// The numbers of the ports.
    pub(super) fn port_numbers(&self) -> Range<u16> {
        0..u16::try_from(self.ports.len()).unwrap_or(u16::MAX)
    }

    /// The namespace of the device opposite a port.
    pub(super) fn netns_of(&self, port: u16) -> &Netns {
        if port.is_multiple_of(2) { &self.generator } else { &self.sink }
    }

    fn connect(&self) -> Result<(), TestbedError> {
        for pair in self.ports.chunks_exact(2) {
            let [left, right] = pair else { continue };
            self.connect_link(left, right)?;
        }
        park(&self.generator)
    }

    /// Puts two firewalls where the DUT has them.
    fn connect_boxes(&mut self) -> Result<(), TestbedError> {
        let (Some(dut), Some(boxes)) = (&self.dut, &self.boxes) else { return Ok(()) };
        boxes.connect(dut, &self.ports, self.mtu_bytes)?;
        if boxes.are_behind() {
            for (port, mac) in self.ports.iter_mut().zip(SHARED_MACS) {
                port.dut_mac = mac;
            }
        }
        Ok(())
    }

    /// Puts what spreads packets over queues at the devices that they leave by.
    fn spread(&mut self) -> Result<(), TestbedError> {
        if self.leaving == Leaving::Stack {
            // With it, a veth does not hand packets to the queues of its peer.
            for (number, port) in self.port_numbers().zip(&self.ports) {
                inside(self.netns_of(number), || {
                    ethtool::set_tso(port.device, false).map_err(|e| e.to_string())
                })?;
            }
        }
        let Some(settings) = &self.rss else { return Ok(()) };
        let mut wires = Vec::new();
        for (number, port) in self.port_numbers().zip(&self.ports) {
            let (netns, device) = match &self.dut {
                Some(dut) => (dut, port.dut_device),
                None if number % 2 == 0 => (&self.sink, self.ports[usize::from(number) + 1].device),
                None => (&self.generator, self.ports[usize::from(number) - 1].device),
            };
            let receiver =
                Receiver { netns: netns.inode(), ifindex: inside(netns, || ifindex(device))? };
            let wire = Wire::load(settings, receiver).map_err(TestbedError::new)?;
            let link = inside(self.netns_of(number), || {
                wire.attach(ifindex(port.device)?).map_err(|e| e.to_string())
            })?;
            wires.push((wire, link));
        }
        self.wires = wires;
        Ok(())
    }

    /// A link: from the generators' namespace through two ports of the DUT to the sinks'.
    fn connect_link(&self, left: &Port, right: &Port) -> Result<(), TestbedError> {
        let links = (self.queues, self.mtu_bytes);
        let (generator, sink) =
            (End::opposite(left, &self.generator), End::opposite(right, &self.sink));
        let Some(dut) = &self.dut else {
            // The sink stands where the DUT would, with its address.
            return join(&generator, &End { addresses: &left.dut_addresses, ..sink }, links);
        };
        let inward = End::of_dut(left, dut, &self.tags);
        let outward = End::of_dut(right, dut, &self.tags);
        if self.boxes.as_ref().is_some_and(Boxes::are_behind) {
            // The firewalls have the addresses; here are switches.
            join(&generator, &inward.without_addresses(), links)?;
            join(&outward.without_addresses(), &sink, links)?;
            for (end, port, mac) in
                [(&generator, left, SHARED_MACS[0]), (&sink, right, SHARED_MACS[1])]
            {
                neighbours(end.netns, end.device, &port.dut_addresses, mac)?;
            }
        } else {
            join(&generator, &inward, links)?;
            join(&outward, &sink, links)?;
            routes(dut, &inward.addressed(), &left.networks, &left.addresses)?;
            routes(dut, &outward.addressed(), &right.networks, &right.addresses)?;
        }
        routes(&self.generator, left.device, &right.networks, &left.dut_addresses)?;
        routes(&self.sink, right.device, &left.networks, &right.dut_addresses)
    }

    /// Lets each end of the first link reach what is behind the other where there is no DUT.
    pub(super) fn lead_to_ends(&self) -> Result<(), TestbedError> {
        let (left, right) = (&self.ports[0], &self.ports[1]);
        if self.dut.is_some() {
            return Ok(());
        }
        routes(&self.generator, left.device, &right.networks, &left.dut_addresses)?;
        routes(&self.sink, right.device, &left.networks, &left.addresses)
    }

    /// Ends what still runs in the namespaces, and removes everything.
    pub(super) fn remove(mut self) -> Result<(), TestbedError> {
        self.wires.clear();
        self.claim.release()
    }
}

/// A veth pair with its addresses, and each end as a static neighbour of the other.
fn join(a: &End<'_>, b: &End<'_>, (queues, mtu_bytes): (u32, u32)) -> Result<(), TestbedError> {
    inside(a.netns, || {
        let netlink = Netlink::open()?;
        let end = VethEnd::new(a.device).mac(a.mac).mtu(mtu_bytes);
        let peer = VethEnd::new(b.device).mac(b.mac).mtu(mtu_bytes).in_netns(b.netns);
        netlink.create_veth(&end, &peer, queues)
    })?;
    for (here, there) in [(a, b), (b, a)] {
        inside(here.netns, || {
            let netlink = Netlink::open().map_err(|e| e.to_string())?;
            netlink.set_up(here.device).map_err(|e| e.to_string())?;
            for (name, below, tag) in here.vlans() {
                let is_service = tag.kind == TagKind::Service;
                netlink
                    .create_vlan(&name, &below, tag.id, is_service)
                    .and_then(|()| netlink.set_up(&name))
                    .map_err(|e| format!("{e}{}", without_vlans(&e)))?;
            }
            Ok::<(), String>(())
        })?;
        address(here.netns, &here.addressed(), here.addresses)?;
        neighbours(here.netns, &here.addressed(), there.addresses, there.mac)?;
    }
    for end in [a, b] {
        inside(end.netns, || Netlink::open()?.wait_operational(end.device, CARRIER_PATIENCE))?;
    }
    Ok(())
}

/// What it means that a VLAN device cannot be made.
fn without_vlans(error: &NetlinkError) -> &'static str {
    match error {
        NetlinkError::Refused { source, .. } if source.raw_os_error() == Some(EOPNOTSUPP) => {
            "; this kernel has no VLAN devices (CONFIG_VLAN_8021Q): `vlan` in a traffic needs them"
        }
        _ => "",
    }
}

/// The unused pair that the generator's program stays attached to.
pub(in crate::testbed) fn park(netns: &Netns) -> Result<(), TestbedError> {
    inside(netns, || {
        let [a, b] = PARK_DEVICES;
        Netlink::open()?.create_veth(&VethEnd::new(a), &VethEnd::new(b), 1)
    })
}

/// After this pause the kernel has sent what it sends when a link comes up: see `QUIET_SYSCTLS`.
pub(in crate::testbed) const SETTLE: Duration = Duration::from_millis(50);

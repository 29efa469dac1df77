//! Two firewalls, what sends through the first one and what answers, each in a namespace.

use std::ops::Deref;

use weir_net::{Netlink, Netns, NetnsGuard, VethEnd, sysctl};
use weir_wire::mac::MacAddr;

use super::boxes::{Boxes, FIRST, PATIENCE, Process, polling};
use super::{Result, Settings};

/// The namespaces of the generator and of the reflector, behind those of the firewalls.
const GENERATOR: usize = 2;
const REFLECTOR: usize = 3;

/// Sources that no interface has; each with each port is a flow.
const SOURCES: &str = "198.18.0.2:1024-198.18.3.250:65535";
const SOURCE_NET: &str = "198.18.0.0/16";
const SINK_ADDRESS: &str = "10.2.0.2:7";

/// The bed; removed when dropped.
#[derive(Debug)]
pub(super) struct Bed {
    boxes: Boxes<4>,
    /// Where packets to the first firewall go.
    first_mac: MacAddr,
}

impl Bed {
    /// With room for so many states in both firewalls.
    pub(super) fn new(settings: &Settings, state_limit: u64) -> Result<Self> {
        let boxes = Boxes::new(settings)?;
        connect(boxes.all())?;
        let first_mac = mac(boxes.netns(FIRST), "a0")?;
        boxes.filter(&format!(
            "set limit states {state_limit}\nset skip on {{ a2 b2 }}\n\
             set timeout {{ udp.first 7200, udp.single 7200, udp.multiple 7200 }}\n\
             set timeout {{ adaptive.start 0, adaptive.end 0 }}\npass\n"
        ))?;
        Ok(Self { boxes, first_mac })
    }

    /// What comes to the reflector goes back.
    pub(super) fn reflect(&self) -> Result<Process> {
        self.boxes.start(REFLECTOR, &["reflect", "-i", "r0"])
    }

    /// Sends a packet of each of so many flows.
    pub(super) fn generate(&self, count: u64, rate_pps: u32) -> Result<Process> {
        let (mac, count) = (self.first_mac.to_string(), count.to_string());
        let rate = format!("{rate_pps}pps");
        let flows = ["gen", "-i", "g0", "--src", SOURCES, "--dst", SINK_ADDRESS];
        let how = ["--dst-mac", &mac, "--count", &count, "--rate", &rate];
        self.boxes.start(GENERATOR, &[&flows[..], &how].concat())
    }

    /// States that a firewall has now.
    pub(super) fn states(&self, which: usize) -> Result<u64> {
        let count = self.boxes.stats(which)?["states"]["current_count"].as_u64();
        Ok(count.ok_or("`weir fw stats` has no states")?)
    }
}

impl Deref for Bed {
    type Target = Boxes<4>;

    fn deref(&self) -> &Self::Target {
        &self.boxes
    }
}

/// Generator, first firewall, reflector; and from the first firewall to the second one.
fn connect([first, second, generator, reflector]: &[NetnsGuard; 4]) -> Result<()> {
    first.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        for (near, far, netns) in
            [("a0", "g0", generator), ("a1", "r0", reflector), ("a2", "b2", second)]
        {
            let far = VethEnd::new(far).in_netns(netns);
            netlink.create_veth(&VethEnd::new(near), &far, 1)?;
        }
        Ok(sysctl::write("net.ipv4.ip_forward", "1")?)
    })??;
    let ends = [
        (first, "a0", "10.1.0.1/24"),
        (first, "a1", "10.2.0.1/24"),
        (first, "a2", "192.0.2.1/24"),
        (generator, "g0", "10.1.0.2/24"),
        (reflector, "r0", "10.2.0.2/24"),
        (second, "b2", "192.0.2.2/24"),
    ];
    for (netns, name, address) in ends {
        netns.run(|| -> Result<()> {
            let netlink = Netlink::open()?;
            netlink.add_address(name, address.parse()?)?;
            polling(name)
        })??;
    }
    let macs = [mac(generator, "g0")?, mac(reflector, "r0")?];
    first.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        for (name, address, MacAddr(mac)) in
            [("a0", "10.1.0.2", macs[0]), ("a1", "10.2.0.2", macs[1])]
        {
            netlink.wait_operational(name, PATIENCE)?;
            netlink.add_neighbour(name, address.parse()?, mac)?;
        }
        Ok(netlink.add_route(SOURCE_NET.parse()?, Some("10.1.0.2".parse()?), "a0")?)
    })?
}

fn mac(netns: &Netns, name: &str) -> Result<MacAddr> {
    let link = netns.run(|| -> Result<_> { Ok(Netlink::open()?.link(name)?) })??;
    Ok(MacAddr(link.mac.ok_or("a veth has a MAC address")?))
}

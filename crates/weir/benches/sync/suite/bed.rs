//! Two firewalls, what sends through the first one and what answers, each in a namespace.

use std::ops::Deref;
use std::time::Duration;

use weir_fw::sync::{self, Half, Peer, State};
use weir_net::{CpuList, Netlink, Netns, NetnsGuard, VethEnd, cpu, napi, sysctl};
use weir_wire::mac::MacAddr;
use weir_wire::protocol::{TCP, UDP};

use super::boxes::{Boxes, FIRST, PATIENCE, Process, polling};
use super::{Result, Settings};

/// The namespaces of the generator and of the reflector, behind those of the firewalls.
const GENERATOR: usize = 2;
const REFLECTOR: usize = 3;

/// Sources that no interface has; each with each port is a flow.
const SOURCES: &str = "198.18.0.2:1024-198.18.3.250:65535";
const SOURCE_NET: &str = "198.18.0.0/16";
const SINK_ADDRESS: &str = "10.2.0.2:7";

/// The sources of a flood, more than there will be packets.
const FLOOD_SOURCES: &str = "12.0.0.0:1000-12.255.255.255";
const FLOOD_NET: &str = "12.0.0.0/8";

/// Flows whose states a firewall gets as from another one, each from its address of 11.0.0.0/8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flows {
    /// Connections that are established.
    Connections,
    /// Datagrams that were answered.
    Datagrams,
}

impl Flows {
    /// The address and port of one of them.
    fn source(number: u32) -> ([u8; 4], u16) {
        let [_, a, b, c] = number.to_be_bytes();
        ([11, a, b, c], 1000)
    }

    /// What a generator calls so many of them.
    fn sources(count: u32) -> String {
        let [(first, port), (last, _)] = [0, count - 1].map(Self::source);
        let [first, last] = [first, last].map(std::net::Ipv4Addr::from);
        format!("{first}:{port}-{last}")
    }

    /// So many of them as states, one after the other.
    pub(super) fn states(self, count: u32) -> impl ExactSizeIterator<Item = State> {
        (0..count).map(move |number| self.state(number))
    }

    fn state(self, number: u32) -> State {
        let (address, port) = Self::source(number);
        let (protocol, flags, peer) = match self {
            Self::Connections => {
                let peer = Peer { phase: 4, wscale: 0, max_win: 1000, seq: [1, 1000] };
                (TCP, sync::CONNECTED, peer)
            }
            Self::Datagrams => (UDP, 0, Peer { phase: 2, ..Peer::default() }),
        };
        State {
            protocol,
            flags,
            ends: [(address.into(), port), ([10, 2, 0, 2].into(), 7)],
            wire: [None; 2],
            gateways: [0; 2],
            peers: [peer; 2],
            halves: [Half { flags: sync::PRESENT, ..Half::default() }; 2],
            packets: [2; 2],
            bytes: [120; 2],
            age_ms: 1000,
            remaining_ms: 3_600_000,
            idle_ms: 1000,
        }
    }
}

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

    /// What comes to the reflector ends there.
    pub(super) fn sink(&self) -> Result<Process> {
        self.boxes.start(REFLECTOR, &["sink", "-i", "r0"])
    }

    /// From now on the first firewall handles what comes from the generator in a thread, which has
    /// another CPU than that.
    pub(super) fn thread(&self) -> Result<i32> {
        let cpu = cpu::online()?.iter().nth(1).ok_or("two CPUs are needed")?;
        let cpus = CpuList::new([cpu]).ok_or("there is a CPU")?;
        let placed = self.boxes.netns(FIRST).run(|| -> Result<_> {
            napi::set_threaded("a0", true)?;
            Ok(napi::pin_expecting("a0", 1, &cpus, PATIENCE)?)
        })??;
        Ok(placed.first().ok_or("there is a thread")?.0)
    }

    /// Starts a generator on the first CPU.
    fn generator(&self, words: &[&str]) -> Result<Process> {
        let cpu = cpu::online()?.iter().next().ok_or("there is a CPU")?.to_string();
        let mac = self.first_mac.to_string();
        let fixed = ["gen", "-i", "g0", "--dst", SINK_ADDRESS, "--dst-mac", &mac, "--cpus", &cpu];
        self.boxes.start(GENERATOR, &[&fixed[..], words].concat())
    }

    /// Sends packets of so many flows at a rate.
    pub(super) fn generate_all(&self, flows: Flows, count: u32, rate: &str) -> Result<Process> {
        let proto = if flows == Flows::Datagrams { "udp" } else { "tcp" };
        self.generator(&["--src", &Flows::sources(count), "--proto", proto, "--rate", rate])
    }

    /// Sends packets for a time, of which each is a flow.
    pub(super) fn flood(&self, rate_pps: u32, time: Duration) -> Result<Process> {
        let (rate, time) = (format!("{rate_pps}pps"), format!("{}ms", time.as_millis()));
        self.generator(&["--src", FLOOD_SOURCES, "--rate", &rate, "--duration", &time])
    }

    /// Ends the first firewall's states of a flood.
    pub(super) fn forget_flood(&self) -> Result<()> {
        self.boxes.run(FIRST, &["pfctl", "-k", FLOOD_NET]).map(drop)
    }

    /// Connections of a firewall that one end has ended.
    pub(super) fn closing(&self, which: usize) -> Result<usize> {
        let listing = self.boxes.run(which, &["pfctl", "-ss"])?.stdout;
        let listing = String::from_utf8(listing)?;
        let is_closing = |line: &&str| line.contains(" tcp ") && line.contains("CLOSING");
        Ok(listing.lines().filter(is_closing).count())
    }

    /// Sends a packet with these flags of one end of so many connections, over a time.
    pub(super) fn use_connections(
        &self,
        count: u32,
        time: Duration,
        tcp_flags: &str,
    ) -> Result<Process> {
        let rate = format!("{}pps", u128::from(count) * 1000 / time.as_millis().max(1));
        let (sources, count) = (Flows::sources(count), count.to_string());
        let ends = ["--src", &sources, "--proto", "tcp", "--tcp-flags", tcp_flags];
        self.generator(&[&ends[..], &["--rate", &rate, "--count", &count]].concat())
    }

    /// Packets that the first firewall has got from the generator.
    pub(super) fn received(&self) -> Result<u64> {
        self.packets(FIRST, "a0")
    }

    /// Packets that it has let through.
    pub(super) fn passed(&self) -> Result<u64> {
        self.packets(REFLECTOR, "r0")
    }

    fn packets(&self, which: usize, name: &str) -> Result<u64> {
        let count = || -> Result<u64> { Ok(Netlink::open()?.stats64(name)?.rx_packets) };
        self.boxes.netns(which).run(count)?
    }

    /// UDP states of a firewall, with their phases, in order.
    pub(super) fn listing(&self, which: usize) -> Result<Vec<String>> {
        let listing = String::from_utf8(self.boxes.run(which, &["pfctl", "-ss"])?.stdout)?;
        let is_udp = |line: &&str| line.contains(" udp ");
        let mut lines: Vec<String> = listing.lines().filter(is_udp).map(str::to_owned).collect();
        lines.sort_unstable();
        Ok(lines)
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

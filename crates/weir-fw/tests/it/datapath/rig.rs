//! A box with two interfaces in a namespace of its own, programs attached to them, and a namespace
//! behind each interface.

use std::net::IpAddr;

use weir_bpf::attach::Mode;
use weir_bpf::ethtool;
use weir_bpf::firewall::layout::{
    self, CONTROL_ENABLED, INTERFACE_ATTACHED, INTERFACE_PRESENT, INTERFACE_VIRTUAL,
    INTERFACE_WHOLE, INTERFACE_XMIT, Sizes, control, cpu, interface, interface_counters, table,
};
use weir_bpf::firewall::{Options, Verdict, reasons};
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd, sysctl};
use weir_oracle::netns::namespace;

use crate::programs::{Lent, possible_cpu_count};

/// Of a [`Verdict`] of the ingress program.
pub(crate) const DROP: i32 = 1;
pub(crate) const PASS: i32 = 2;
pub(crate) const REDIRECT: i32 = 4;
/// Of one of a program on the kernel's packets: it goes on.
pub(crate) const NEXT: i32 = -1;

/// MAC addresses of the box, by interface.
pub(crate) const BOX_MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 2, 1]];
/// MAC addresses of its neighbours.
pub(crate) const PEER_MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 2, 2]];
/// Slots of the interfaces.
pub(crate) const SLOT: [u32; 2] = [1, 2];
/// A neighbour on the right that is not the one routes lead to.
pub(crate) const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 9];

/// The key of the hash: any words, but as random as a real one's.
const SEED: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

pub(crate) struct Rig {
    pub(crate) firewall: Lent,
    pub(crate) ifindex: [u32; 2],
    pub(crate) inside: NetnsGuard,
    pub(crate) peers: [NetnsGuard; 2],
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn load(bucket_count: u32, overflow_count: u32) -> Option<Lent> {
    let options = Options {
        hash_seed: SEED,
        fragment_count_max: 64,
        source_count_max: 1024,
        log_bytes: 1 << 16,
        event_bytes: 1 << 16,
        change_bytes: 1 << 16,
    };
    let cpu_count = possible_cpu_count();
    let sizes = Sizes { bucket_count, overflow_count, heap_bytes: 1 << 20, cpu_count };
    Lent::new(options, sizes).unwrap_or_else(|error| panic!("{error}"))
}

impl Rig {
    /// `None`, and the reason is printed, without privileges.
    pub(crate) fn new(what: &str) -> Option<Self> {
        Self::with_slots(what, 1024, 4096)
    }

    /// The same, with room for so many states.
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    pub(crate) fn with_slots(what: &str, bucket_count: u32, overflow_count: u32) -> Option<Self> {
        let made = |end: &str| namespace(&format!("{what}-{end}-"));
        let inside = made("box")?;
        let peers = [made("left")?, made("right")?];
        let set_up = || {
            for which in ["all", "default"] {
                let name = |key: &str| format!("net.ipv6.conf.{which}.{key}");
                sysctl::write(&name("accept_dad"), "0").expect("a sysctl");
                sysctl::write(&name("forwarding"), "1").expect("a sysctl");
                let rp_filter = format!("net.ipv4.conf.{which}.rp_filter");
                sysctl::write(&rp_filter, "0").expect("a sysctl");
            }
            sysctl::write("net.ipv4.ip_forward", "1").expect("a sysctl");
            let netlink = Netlink::open().expect("netlink opens");
            for (side, peer) in peers.iter().enumerate() {
                set_up_side(&netlink, side, peer);
            }
            let firewall = load(bucket_count, overflow_count)?;
            let ifindex = ["b0", "b1"].map(|name| netlink.ifindex(name).expect("it exists"));
            Some((firewall, ifindex))
        };
        let Some((firewall, ifindex)) = inside.run(set_up).expect("the namespace is entered")
        else {
            eprintln!("skipped: BPF programs need privileges");
            return None;
        };
        let rig = Self { firewall, ifindex, inside, peers };
        rig.describe();
        rig.inside
            .run(|| {
                for ifindex in rig.ifindex {
                    rig.firewall.attach(ifindex, Mode::Native).expect("the program attaches");
                }
            })
            .expect("the namespace is entered");
        Some(rig)
    }

    /// Writes what the control process would into the arena: nothing filters, packets are routed.
    fn describe(&self) {
        for (side, ifindex) in self.ifindex.into_iter().enumerate() {
            self.describe_interface(SLOT[side], ifindex, BOX_MAC[side]);
        }
        self.firewall.arena().write32(control::GENERATION, 1);
        self.set_flags(CONTROL_ENABLED);
    }

    pub(crate) fn describe_interface(&self, slot: u32, ifindex: u32, mac: [u8; 6]) {
        let (arena, regions) = (self.firewall.arena(), self.firewall.regions());
        let at = regions.interfaces.at + slot * interface::SIZE_BYTES;
        let flags = INTERFACE_PRESENT | INTERFACE_ATTACHED | INTERFACE_XMIT | INTERFACE_WHOLE;
        arena.write32(at + interface::IFINDEX, ifindex);
        arena.write32(at + interface::FLAGS, flags);
        arena.write32(at + interface::MTU_BYTES, 1500);
        arena.write(at + interface::MAC, &mac);
        let slot = u8::try_from(slot).expect("a small number");
        arena.write(at + interface::READ_AS, &[slot]);
        arena.write(regions.ifslots.at + ifindex, &[slot]);
    }

    pub(crate) fn set_flags(&self, flags: u32) {
        self.firewall.arena().write32(control::FLAGS, flags);
    }

    /// What the ingress program makes of a frame that comes in by an interface.
    pub(crate) fn receive(&self, side: usize, frame: &[u8]) -> Verdict {
        let run = || self.firewall.run_ingress(self.ifindex[side], frame);
        self.inside.run(run).expect("the namespace is entered").expect("the program runs")
    }

    /// What the program that takes the ingress program's place where there is no XDP makes of a
    /// frame that comes in by an interface.
    pub(crate) fn enter(&self, side: usize, frame: &[u8]) -> Verdict {
        let run = || self.firewall.run_entry(self.ifindex[side], frame);
        self.inside.run(run).expect("the namespace is entered").expect("the program runs")
    }

    /// What the egress program makes of a frame that leaves by an interface.
    pub(crate) fn send(&self, side: usize, frame: &[u8]) -> Verdict {
        let run = || self.firewall.run_egress(self.ifindex[side], frame);
        self.inside.run(run).expect("the namespace is entered").expect("the program runs")
    }

    /// A counter of the state table, over all CPUs: an offset of [`table`].
    pub(crate) fn table_counter(&self, counter: u32) -> u64 {
        self.sum(cpu::TABLE + counter)
    }

    /// Packets that were dropped for a reason, over all CPUs.
    pub(crate) fn dropped(&self, side: usize, direction: u32, reason: &str) -> u64 {
        let index =
            reasons::REASONS.iter().position(|known| known.name == reason).expect("a reason");
        let row = direction * 32 + u32::try_from(index).expect("few");
        self.sum(interface_at(side) + interface_counters::DROPPED_PACKETS + row * 8)
    }

    /// Packets that passed, by direction and family.
    pub(crate) fn passed(&self, side: usize, direction: u32, family: u32) -> u64 {
        self.passed_at(SLOT[side], direction, family)
    }

    /// The same for a slot.
    pub(crate) fn passed_at(&self, slot: u32, direction: u32, family: u32) -> u64 {
        let at = cpu::INTERFACE + slot * interface_counters::SIZE_BYTES;
        self.sum(at + interface_counters::PACKETS + (direction * 4 + family) * 8)
    }

    /// Has one of the two take frames for these MAC addresses, too.
    pub(crate) fn add_virtual_macs(&self, side: usize, macs: [[u8; 6]; 2]) {
        let (arena, at) = (self.firewall.arena(), self.firewall.regions().interfaces.at);
        let at = at + SLOT[side] * interface::SIZE_BYTES;
        let flags = arena.read32(at + interface::FLAGS);
        arena.write32(at + interface::FLAGS, flags | INTERFACE_VIRTUAL);
        for (place, mac) in (at + interface::VIRTUAL_MAC..).step_by(8).zip(macs) {
            arena.write(place, &mac);
        }
    }

    /// Gives a VLAN interface over one of the two a slot.
    pub(crate) fn add_vlan(&self, side: usize, vlan: u16, slot: u8) {
        let (arena, at) = (self.firewall.arena(), self.firewall.regions().interfaces.at);
        let vlan_at = at + u32::from(slot) * interface::SIZE_BYTES;
        arena.write32(vlan_at + interface::FLAGS, INTERFACE_PRESENT);
        arena.write(vlan_at + interface::VLAN_ID, &vlan.to_ne_bytes());
        arena.write(vlan_at + interface::MAC, &BOX_MAC[side]);
        arena.write(at + SLOT[side] * interface::SIZE_BYTES + interface::VLAN_FIRST, &[slot]);
    }

    fn sum(&self, offset: u32) -> u64 {
        let arena = self.firewall.arena();
        let cpu_count = arena.read32(control::CPU_COUNT);
        let at = self.firewall.regions().counters.at;
        (0..cpu_count).map(|index| arena.read64(at + index * cpu::SIZE_BYTES + offset)).sum()
    }

    pub(crate) fn forwarded(&self) -> u64 {
        self.table_counter(table::FORWARDED_PACKETS)
    }
}

fn interface_at(side: usize) -> u32 {
    cpu::INTERFACE + SLOT[side] * interface_counters::SIZE_BYTES
}

fn set_up_side(netlink: &Netlink, side: usize, peer: &Netns) {
    let name = format!("b{side}");
    let end = VethEnd::new(&name).mac(BOX_MAC[side]);
    let there = VethEnd::new("p").mac(PEER_MAC[side]).in_netns(peer);
    netlink.create_veth(&end, &there, 1).expect("a veth pair");
    netlink.set_up(&name).expect("it goes up");
    let net = side + 1;
    for prefix in [format!("10.0.{net}.1/24"), format!("fd00:{net}::1/64")] {
        netlink.add_address(&name, prefix.parse().expect("a prefix")).expect("an address");
    }
    for host in [format!("10.0.{net}.2"), format!("fd00:{net}::2")] {
        netlink.add_neighbour(&name, address(&host), PEER_MAC[side]).expect("a neighbour");
    }
    if side == 1 {
        netlink.add_neighbour(&name, address("10.0.2.9"), OTHER_MAC).expect("a neighbour");
    }
    peer.run(|| {
        // Only the packets of the tests are to come.
        sysctl::write("net.ipv6.conf.all.disable_ipv6", "1").expect("a sysctl");
        let netlink = Netlink::open().expect("netlink opens");
        netlink.set_up("p").expect("it goes up");
        // A veth takes redirected frames only while its peer has NAPI.
        ethtool::set_gro("p", true).expect("GRO");
    })
    .expect("the namespace is entered");
}

/// The layout's own test is elsewhere; here it is only used.
const _: () = assert!(layout::INTERFACE_COUNT_MAX == 64, "a set of interfaces is one word");

//! Names, addresses and routes of the `netns` testbed, in one place.
//!
//! IPv4 is out of 198.18.0.0/15 (RFC 2544 appendix C.2.2), IPv6 out of 2001:2::/48 (RFC 5180).
//! The generators' side has the lower half of each, the sinks' the upper; of several links, each
//! has its part of both. Constants, and what follows from the number of a port.

use weir_results::traffic::parts;

/// MTU of every device, unless the specification has another: the size of an IP packet.
pub(in crate::testbed) const MTU_BYTES: u32 = crate::model::MTU_BYTES_DEFAULT;

/// The devices opposite each port of the DUT, in the generators' namespace and the sinks' by turns.
const END_DEVICES: [&str; 8] =
    [GENERATOR_DEVICE, SINK_DEVICE, "gen1", "sink1", "gen2", "sink2", "gen3", "sink3"];
/// The DUT's ports.
const DUT_DEVICES: [&str; 8] =
    [DUT_IN_DEVICE, DUT_OUT_DEVICE, "dut2", "dut3", "dut4", "dut5", "dut6", "dut7"];

/// Devices of the first link in their namespaces.
pub(in crate::testbed) const GENERATOR_DEVICE: &str = "gen0";
pub(in crate::testbed) const DUT_IN_DEVICE: &str = "dut0";
pub(in crate::testbed) const DUT_OUT_DEVICE: &str = "dut1";
pub(in crate::testbed) const SINK_DEVICE: &str = "sink0";
/// An unused pair in the generator's namespace that keeps its program attached.
pub(in crate::testbed) const PARK_DEVICES: [&str; 2] = ["park0", "park1"];

/// MAC addresses: locally administered, the last byte tells the device.
pub(in crate::testbed) const GENERATOR_MAC: [u8; 6] = [0x02, 0x77, 0x65, 0x69, 0x72, 0x01];
pub(in crate::testbed) const DUT_IN_MAC: [u8; 6] = [0x02, 0x77, 0x65, 0x69, 0x72, 0x02];
pub(in crate::testbed) const DUT_OUT_MAC: [u8; 6] = [0x02, 0x77, 0x65, 0x69, 0x72, 0x03];
pub(in crate::testbed) const SINK_MAC: [u8; 6] = [0x02, 0x77, 0x65, 0x69, 0x72, 0x04];

/// Addresses of a link's two ends, with their prefix lengths.
pub(in crate::testbed) const GENERATOR_ADDRESSES: [&str; 2] = ["198.18.0.2/24", "2001:2:0:1::2/64"];
pub(in crate::testbed) const DUT_IN_ADDRESSES: [&str; 2] = ["198.18.0.1/24", "2001:2:0:1::1/64"];
pub(in crate::testbed) const DUT_OUT_ADDRESSES: [&str; 2] =
    ["198.19.0.1/24", "2001:2:0:8001::1/64"];
pub(in crate::testbed) const SINK_ADDRESSES: [&str; 2] = ["198.19.0.2/24", "2001:2:0:8001::2/64"];

/// What lies behind the generator, and what behind the sink.
pub(in crate::testbed) const GENERATOR_NETWORKS: [&str; 2] = ["198.18.0.0/16", "2001:2::/49"];
pub(in crate::testbed) const SINK_NETWORKS: [&str; 2] = ["198.19.0.0/16", "2001:2:0:8000::/49"];

/// A port of the DUT, and what is opposite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::testbed) struct Port {
    /// The device opposite, its MAC address and its addresses.
    pub(in crate::testbed) device: &'static str,
    pub(in crate::testbed) mac: [u8; 6],
    pub(in crate::testbed) addresses: [String; 2],
    /// The same of the DUT's own.
    pub(in crate::testbed) dut_device: &'static str,
    pub(in crate::testbed) dut_mac: [u8; 6],
    pub(in crate::testbed) dut_addresses: [String; 2],
    /// What lies behind the device opposite.
    pub(in crate::testbed) networks: [String; 2],
}

impl Port {
    /// A port of a testbed with so many links.
    ///
    /// # Panics
    /// If there is no such port.
    pub(in crate::testbed) fn of(port: u16, links: u16) -> Self {
        let (link, side, parts) = (port / 2, port % 2, parts(links));
        // As many networks as a side has: of 24 bits in its /16, of 64 bits in its /49.
        let (v4, v6) = (0x100 / parts * link, 0x8000 / parts * link + 0x8000 * side);
        let second = 18 + side;
        let bits = parts.trailing_zeros();
        let addresses = |host: u16| {
            [format!("198.{second}.{v4}.{host}/24"), format!("2001:2:0:{:x}::{host}/64", v6 + 1)]
        };
        let network_v6 = if v6 == 0 { "2001:2::".to_owned() } else { format!("2001:2:0:{v6:x}::") };
        let last = |place: u16| {
            let mut mac = GENERATOR_MAC;
            mac[5] = u8::try_from(link * 4 + place).unwrap_or(u8::MAX);
            mac
        };
        let [here, dut] = if side == 0 { [1, 2] } else { [4, 3] };
        Self {
            device: END_DEVICES[usize::from(port)],
            mac: last(here),
            addresses: addresses(2),
            dut_device: DUT_DEVICES[usize::from(port)],
            dut_mac: last(dut),
            dut_addresses: addresses(1),
            networks: [
                format!("198.{second}.{v4}.0/{}", 16 + bits),
                format!("{network_v6}/{}", 49 + bits),
            ],
        }
    }
}

/// How packets leave a generator's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::testbed) enum Leaving {
    /// As XDP frames, on the queue of the sending CPU.
    Xdp,
    /// Through the stack: a program may choose the queue, and a frame may have several pages.
    Stack,
}

/// Settings of a namespace before it has devices. They keep the kernel from sending packets of
/// its own between the measured ones: no link-local address, no duplicate detection, no router
/// solicitation; and the multicast listener reports that remain come at once.
pub(in crate::testbed) const QUIET_SYSCTLS: [(&str, &str); 6] = [
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.mldv1_unsolicited_report_interval", "10"),
    ("net.ipv6.conf.default.mldv2_unsolicited_report_interval", "10"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_link_has_the_addresses_that_virtual_machines_have() {
        let (left, right) = (Port::of(0, 1), Port::of(1, 1));
        assert_eq!((left.device, left.mac), (GENERATOR_DEVICE, GENERATOR_MAC));
        assert_eq!((left.dut_device, left.dut_mac), (DUT_IN_DEVICE, DUT_IN_MAC));
        assert_eq!((right.device, right.mac), (SINK_DEVICE, SINK_MAC));
        assert_eq!((right.dut_device, right.dut_mac), (DUT_OUT_DEVICE, DUT_OUT_MAC));
        assert_eq!(left.addresses, GENERATOR_ADDRESSES);
        assert_eq!(left.dut_addresses, DUT_IN_ADDRESSES);
        assert_eq!(right.addresses, SINK_ADDRESSES);
        assert_eq!(right.dut_addresses, DUT_OUT_ADDRESSES);
        assert_eq!(left.networks, ["198.18.0.0/16", "2001:2::/49"]);
        assert_eq!(right.networks, ["198.19.0.0/16", "2001:2:0:8000::/49"]);
    }

    #[test]
    fn each_link_has_its_part_of_both_networks() {
        let port = Port::of(5, 3);
        assert_eq!((port.device, port.dut_device, port.mac[5]), ("sink2", "dut5", 12));
        assert_eq!(port.addresses, ["198.19.128.2/24", "2001:2:0:c001::2/64"]);
        assert_eq!(port.networks, ["198.19.128.0/18", "2001:2:0:c000::/51"]);
        assert_eq!(Port::of(2, 2).networks, ["198.18.128.0/17", "2001:2:0:4000::/50"]);
    }
}

//! Names, addresses and routes of the `netns` testbed, in one place.
//!
//! IPv4 is out of 198.18.0.0/15 (RFC 2544 appendix C.2.2), IPv6 out of 2001:2::/48 (RFC 5180).
//! The generator's side has the lower half of each, the sink's the upper. Constants only.

/// MTU of every device: the size of an IP packet.
pub(in crate::testbed) const MTU_BYTES: u32 = 1500;

/// Devices in their namespaces.
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

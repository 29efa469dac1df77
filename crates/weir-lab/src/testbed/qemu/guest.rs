//! What the lab does inside a Linux machine: names, addresses, neighbours and routes of its two
//! cards, as the testbed of namespaces has them, and a look at what it is.
//!
//! Scripts for a POSIX `sh` with iproute2; nothing here runs them.

use std::fmt::Write as _;

use weir_machine::image::bsd::Card;

use crate::testbed::TestbedError;
use crate::testbed::netns::layout::{
    DUT_IN_ADDRESSES, DUT_IN_DEVICE, DUT_IN_MAC, DUT_OUT_ADDRESSES, DUT_OUT_DEVICE, DUT_OUT_MAC,
    GENERATOR_ADDRESSES, GENERATOR_MAC, GENERATOR_NETWORKS, MTU_BYTES, SINK_ADDRESSES, SINK_MAC,
    SINK_NETWORKS,
};
use crate::testbed::netns::wiring::prefix;

/// One of the two cards.
struct Port {
    device: &'static str,
    mac: [u8; 6],
    addresses: [&'static str; 2],
    /// Who is at the other end.
    peer_mac: [u8; 6],
    peer_addresses: [&'static str; 2],
    /// What lies behind it.
    networks: [&'static str; 2],
}

const PORTS: [Port; 2] = [
    Port {
        device: DUT_IN_DEVICE,
        mac: DUT_IN_MAC,
        addresses: DUT_IN_ADDRESSES,
        peer_mac: GENERATOR_MAC,
        peer_addresses: GENERATOR_ADDRESSES,
        networks: GENERATOR_NETWORKS,
    },
    Port {
        device: DUT_OUT_DEVICE,
        mac: DUT_OUT_MAC,
        addresses: DUT_OUT_ADDRESSES,
        peer_mac: SINK_MAC,
        peer_addresses: SINK_ADDRESSES,
        networks: SINK_NETWORKS,
    },
];

/// The two cards as an image may have them configured.
pub(super) fn cards() -> [Card; 2] {
    PORTS.map(|port| Card {
        addresses: port.addresses,
        peer_mac: port.peer_mac,
        peers: port.peer_addresses,
        networks: port.networks,
    })
}

/// Finds a card by its address: `card MAC NAME` gives it the name, quietens it, and takes it up.
const HEAD: &str = "\
set -e
card() {
\tfound=
\tfor entry in /sys/class/net/*; do
\t\t[ \"$(cat \"$entry/address\")\" = \"$1\" ] && found=${entry##*/}
\tdone
\t[ -n \"$found\" ] || { echo \"no network card has the address $1\" >&2; exit 1; }
\tip link set dev \"$found\" down
\tip addr flush dev \"$found\"
\t[ \"$found\" = \"$2\" ] || ip link set dev \"$found\" name \"$2\"
\tif [ -d \"/proc/sys/net/ipv6/conf/$2\" ]; then
\t\techo 1 > \"/proc/sys/net/ipv6/conf/$2/addr_gen_mode\"
\t\techo 0 > \"/proc/sys/net/ipv6/conf/$2/accept_dad\"
\t\techo 0 > \"/proc/sys/net/ipv6/conf/$2/accept_ra\"
\tfi
\tip link set dev \"$2\" mtu MTU
\tip link set dev \"$2\" up
}
";

/// Waits until a card has its carrier.
const CARRIER: &str = "\
for port in dut0 dut1; do
\ttries=0
\tuntil [ \"$(cat /sys/class/net/$port/carrier 2>/dev/null)\" = 1 ]; do
\t\ttries=$((tries + 1))
\t\t[ $tries -lt 100 ] || { echo \"$port has no carrier\" >&2; exit 1; }
\t\tsleep 0.1
\tdone
done
";

/// The script that sets both cards up.
pub(super) fn set_up() -> Result<String, TestbedError> {
    let mut script = HEAD.replace("MTU", &MTU_BYTES.to_string());
    for port in &PORTS {
        lines(port, &mut script).map_err(TestbedError::new)?;
    }
    script.push_str(CARRIER);
    Ok(script)
}

fn lines(port: &Port, script: &mut String) -> Result<(), String> {
    let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let device = port.device;
    let mut add = |line: String| writeln!(script, "{line}").map_err(|e| e.to_string());
    add(format!("card {} {device}", mac(port.mac)))?;
    for address in port.addresses {
        let is_v6 = address.contains(':');
        // A system may be without IPv6, and still be measured with IPv4.
        let lacks = if is_v6 { " 2>/dev/null || true" } else { "" };
        let quiet = if is_v6 { " nodad" } else { "" };
        add(format!("ip addr add {address} dev {device}{quiet}{lacks}"))?;
    }
    for (address, network) in port.peer_addresses.into_iter().zip(port.networks) {
        let peer = prefix(address)?.address();
        let lacks = if peer.is_ipv6() { " 2>/dev/null || true" } else { "" };
        let peer_mac = mac(port.peer_mac);
        add(format!(
            "ip neigh replace {peer} lladdr {peer_mac} dev {device} nud permanent{lacks}"
        ))?;
        add(format!("ip route replace {network} via {peer} dev {device}{lacks}"))?;
    }
    Ok(())
}

/// What the machine is, for the record: every line of it may fail.
pub(super) const LOOK: &str = "\
uname -a
sed 's/^/boot_id /' /proc/sys/kernel/random/boot_id
cat /proc/cmdline
grep -m 1 '^model name' /proc/cpuinfo
grep '^MemTotal' /proc/meminfo
for card in dut0 dut1; do
\tip -d addr show dev $card
\tethtool -i $card 2>/dev/null
\tethtool -k $card 2>/dev/null | grep -E '^(rx|tx|generic|tcp|large)'
done
ip route show table all
ip neigh
true
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cards_are_set_up_as_in_a_testbed_of_namespaces() {
        let script = set_up().unwrap();
        for line in [
            "card 02:77:65:69:72:02 dut0\n",
            "card 02:77:65:69:72:03 dut1\n",
            "ip addr add 198.18.0.1/24 dev dut0\n",
            "ip addr add 2001:2:0:8001::1/64 dev dut1 nodad 2>/dev/null || true\n",
            "ip neigh replace 198.19.0.2 lladdr 02:77:65:69:72:04 dev dut1 nud permanent\n",
            "ip route replace 198.19.0.0/16 via 198.19.0.2 dev dut1\n",
            "ip route replace 198.18.0.0/16 via 198.18.0.2 dev dut0\n",
            "mtu 1500\n",
        ] {
            assert!(script.contains(line), "{line:?} is not in:\n{script}");
        }
        assert!(!script.contains("MTU"));
    }
}

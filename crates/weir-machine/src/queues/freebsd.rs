//! Queues of a FreeBSD machine's interfaces, from what `sysctl dev.DRIVER.UNIT` prints.
//!
//! The command is for whoever reaches that machine to run; here its output is read. The variables
//! are those of the drivers in FreeBSD's tree (sys/dev: ixgbe, e1000, ixl, ice, cxgbe, mlx5,
//! vmxnet3 through iflib).

use std::collections::BTreeMap;

use super::QueueCounters;
use super::name::queue_in;

/// Packets of a receive queue, below `dev.DRIVER.UNIT.`, `#` for its number; the first that is
/// there counts.
const PACKETS: [&str; 8] = [
    // ix, igb, em, igc.
    "queue#.rx_packets",
    // ixl, iavf, ice.
    "pf.rxq#.packets",
    "rxq#.packets",
    "pf.que#.rx_packets",
    "vf.rxq#.packets",
    // mce.
    "rxstat#.packets",
    // cxgbe has no packets, but nearly every packet's checksum is right.
    "rxq.#.rxcsum",
    // vmx.
    "rxq#.ucast_pkts",
];

/// Losses of a receive queue.
const DROPS: [&str; 4] =
    ["queue#.rx_dropped", "queue#.rx_discarded", "rxq#.error", "rxstat#.wqe_err"];

/// What the interface took from the line; the first that is there counts.
const RX_TOTALS: [&str; 6] = [
    "mac_stats.total_pkts_recvd",
    "mac_stats.total_pkts_rcvd",
    "total_pkts_rcvd",
    "stats.rx_frames",
    "pf.mac.ucast_pkts_rcvd",
    "hw_ctx_stats.rx_packets",
];

/// What it sent.
const TX_TOTALS: [&str; 5] = [
    "mac_stats.total_pkts_txd",
    "total_pkts_txd",
    "stats.tx_frames",
    "pf.mac.ucast_pkts_txd",
    "hw_ctx_stats.tx_packets",
];

/// Losses of the interface: nearly all for want of a descriptor.
const INTERFACE_DROPS: [&str; 9] = [
    "dropped",
    "mac_stats.rx_missed_packets",
    "mac_stats.missed_packets",
    "mac_stats.recv_no_buff",
    "mac_stats.rx_discards",
    "pf.mac.rx_discards",
    "stats.rx_ovflow0",
    "stats.rx_trunc0",
    "vstats.rx_out_of_buffer",
];

/// The variable below which `sysctl` finds an interface's counters: `dev.ix.0` for `ix0`. `None`
/// if the name is not a driver's with a unit.
#[must_use]
pub fn variable(interface: &str) -> Option<String> {
    let unit_at = interface.find(|c: char| c.is_ascii_digit())?;
    let (driver, unit) = interface.split_at(unit_at);
    let is_driver = !driver.is_empty() && driver.bytes().all(|b| b.is_ascii_lowercase());
    let is_unit = unit.bytes().all(|b| b.is_ascii_digit());
    (is_driver && is_unit).then(|| format!("dev.{driver}.{unit}"))
}

/// Reads what `sysctl dev.DRIVER.UNIT` has printed; lines of other variables are passed over.
#[must_use]
pub fn parse(variable: &str, text: &str) -> QueueCounters {
    let named: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let name = name.strip_prefix(variable)?.strip_prefix('.')?;
            Some((name, value.trim().parse().ok()?))
        })
        .collect();
    let queues = |pattern: &str| -> BTreeMap<u32, u64> {
        named.iter().filter_map(|(name, &v)| Some((queue_in(pattern, name)?, v))).collect()
    };
    let first = |names: &[&str]| names.iter().find_map(|name| named.get(name).copied());
    let mut rx_drops = BTreeMap::new();
    for (queue, drops) in DROPS.iter().flat_map(|pattern| queues(pattern)) {
        *rx_drops.entry(queue).or_default() += drops;
    }
    QueueCounters {
        rx_packets: PACKETS
            .iter()
            .map(|pattern| queues(pattern))
            .find(|queues| !queues.is_empty())
            .unwrap_or_default(),
        rx_drops,
        rx_total_packets: first(&RX_TOTALS),
        tx_total_packets: first(&TX_TOTALS),
        drops: INTERFACE_DROPS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), *named.get(name)?)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queues::rates;

    /// In the form of FreeBSD 14's ix(4).
    const IX: &str = "\
dev.ix.0.queue1.rx_copies: 0
dev.ix.0.queue1.rx_bytes: 21990231
dev.ix.0.queue1.rx_packets: 1713000
dev.ix.0.queue1.rxd_tail: 12
dev.ix.0.queue1.tx_packets: 0
dev.ix.0.queue0.rx_discarded: 500
dev.ix.0.queue0.rx_packets: 1712000
dev.ix.0.queue0.irqs: 81321
dev.ix.0.mac_stats.tx_frames_64: 5
dev.ix.0.mac_stats.good_pkts_txd: 26000
dev.ix.0.mac_stats.total_pkts_txd: 26000
dev.ix.0.mac_stats.total_pkts_rcvd: 32880000
dev.ix.0.mac_stats.rx_missed_packets: 29455000
dev.ix.0.%desc: Intel(R) X520 82599ES (SFI/SFP+)
dev.ix.0.%parent: pci1
dev.ix.0.dropped: 0
dev.ix.10.queue0.rx_packets: 77
";

    #[test]
    fn the_line_of_an_overloaded_card() {
        let zero = parse("dev.ix.0", &IX.replace(|c: char| c.is_ascii_digit(), "0"));
        assert!(zero.rx_packets.keys().eq([&0]), "all digits are 0, queues too: {zero:?}");
        let after = parse("dev.ix.0", IX);
        assert_eq!(after.rx_packets, BTreeMap::from([(0, 1_712_000), (1, 1_713_000)]));
        let mut before = after.clone();
        before.rx_packets.values_mut().for_each(|v| *v = 0);
        before.rx_drops.values_mut().for_each(|v| *v = 0);
        before.drops.values_mut().for_each(|v| *v = 0);
        (before.rx_total_packets, before.tx_total_packets) = (Some(0), Some(0));
        assert_eq!(
            rates(&before, &after, Duration::from_secs(2)).to_string(),
            "[Q0 856K/s lost 250/s] [Q1 856K/s] [QT 1712K/s 16440K/s -> 13K/s] \
             [mac_stats.rx_missed_packets 14727K/s]"
        );
    }

    #[test]
    fn other_drivers_have_their_own_variables() {
        let cxl = "dev.cxl.0.rxq.7.rxcsum: 5\ndev.cxl.0.stats.rx_frames: 9\n\
                   dev.cxl.0.stats.tx_frames: 3\ndev.cxl.0.rxq.7.fl.size: 64\n";
        let cxl = parse("dev.cxl.0", cxl);
        assert_eq!(cxl.rx_packets, BTreeMap::from([(7, 5)]));
        assert_eq!((cxl.rx_total_packets, cxl.tx_total_packets), (Some(9), Some(3)));
        let ixl = parse("dev.ixl.1", "dev.ixl.1.pf.rxq03.packets: 4\n");
        assert_eq!(ixl.rx_packets, BTreeMap::from([(3, 4)]));
        assert_eq!(parse("dev.ixl.1", "sysctl: unknown oid 'dev.ixl.1'").rx_total_packets, None);
    }

    #[test]
    fn an_interface_is_a_driver_with_a_unit() {
        assert_eq!(variable("ix0").as_deref(), Some("dev.ix.0"));
        assert_eq!(variable("cxl12").as_deref(), Some("dev.cxl.12"));
        for name in ["ix", "0", "", "ix0.100", "ix0; reboot", "Ix0"] {
            assert_eq!(variable(name), None, "{name}");
        }
    }
}

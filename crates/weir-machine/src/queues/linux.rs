//! Queues of this machine's interfaces: the drivers' own statistics (`ethtool -S`) and the
//! kernel's of the interface, in the network namespace of the calling thread.
//!
//! Every driver has names of its own. Those below are of the `ethtool_ops` of the drivers in the
//! kernel tree (drivers/net), each with the drivers that use it.

use std::collections::BTreeMap;

use weir_bpf::ethtool;
use weir_net::Netlink;

use super::QueueCounters;
use super::name::queue_in;

/// Names of the packets of a receive queue, `#` for its number; several that are added up. The
/// first entry that a driver has counts: a later one may be a part of it.
const PACKETS: [&[&str]; 13] = [
    // igb, igc, ixgbe, ixgbevf, fm10k, ice, hv_netvsc, virtio_net before 6.10.
    &["rx_queue_#_packets"],
    // i40e, iavf.
    &["rx-#.packets"],
    // sfc.
    &["rx-#.rx_packets"],
    // mlx4, mlx5, virtio_net.
    &["rx#_packets"],
    // ena.
    &["queue_#_rx_cnt"],
    // bnxt, bnx2x.
    &["[#]: rx_ucast_packets", "[#]: rx_mcast_packets", "[#]: rx_bcast_packets"],
    // be2net.
    &["rxq#: rx_pkts"],
    // nfp.
    &["rvec_#_rx_pkts"],
    // atlantic.
    &["Queue[#] InPackets"],
    // stmmac.
    &["q#_rx_pkt_n"],
    // qede.
    &["#: rcv_pkts"],
    // hns3.
    &["rxq#_packets"],
    // veth: what its NAPI has received, with and without a program.
    &["rx_queue_#_xdp_packets"],
];

/// Names of the losses of a receive queue; all that a driver has are added up. A program's own
/// verdict is no loss of the queue.
const DROPS: [&[&str]; 5] = [
    // igb, igc, veth, hv_netvsc, virtio_net before 6.10.
    &["rx_queue_#_drops"],
    // virtio_net.
    &["rx#_drops"],
    // mlx5: no descriptor posted, and failed allocations.
    &["rx#_wqe_err", "rx#_buff_alloc_err"],
    // bnxt.
    &["[#]: rx_discards"],
    // ena.
    &["queue_#_rx_page_alloc_fail"],
];

/// Losses of the whole interface, of `struct rtnl_link_stats64`.
const INTERFACE_DROPS: [&str; 4] =
    ["rx_dropped", "rx_missed_errors", "rx_over_errors", "tx_dropped"];

/// Reads an interface's counters.
///
/// # Errors
/// In words: there is no such interface, or the kernel refuses.
pub fn read(netlink: &Netlink, interface: &str) -> Result<QueueCounters, String> {
    let stats = netlink.stats64(interface).map_err(|error| error.to_string())?;
    // An interface without statistics of its driver still has its totals.
    let named = ethtool::stats(interface).unwrap_or_default();
    let kernel: BTreeMap<&str, u64> = stats.named().into_iter().collect();
    Ok(with_totals(&named, |name| kernel.get(name).copied()))
}

/// The queues in a driver's statistics, and the interface's totals by their names in
/// `struct rtnl_link_stats64`, which are those of sysfs too.
pub(super) fn with_totals(
    named: &[(String, u64)],
    kernel: impl Fn(&str) -> Option<u64>,
) -> QueueCounters {
    QueueCounters {
        rx_total_packets: kernel("rx_packets")
            .map(|packets| packets + kernel("rx_missed_errors").unwrap_or_default()),
        tx_total_packets: kernel("tx_packets"),
        drops: INTERFACE_DROPS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), kernel(name)?)))
            .collect(),
        ..from_named(named)
    }
}

/// The queues in a driver's statistics; the rest of the counters is left empty.
#[must_use]
pub(crate) fn from_named(named: &[(String, u64)]) -> QueueCounters {
    let mut rx_drops = BTreeMap::new();
    for patterns in DROPS {
        add(&mut rx_drops, patterns, named);
    }
    let packets = PACKETS.iter().map(|patterns| {
        let mut packets = BTreeMap::new();
        add(&mut packets, patterns, named);
        packets
    });
    let rx_packets = packets.into_iter().find(|packets| !packets.is_empty()).unwrap_or_default();
    QueueCounters { rx_packets, rx_drops, ..QueueCounters::default() }
}

/// Adds up, queue by queue, what is named by these patterns.
fn add(sums: &mut BTreeMap<u32, u64>, patterns: &[&str], named: &[(String, u64)]) {
    for (name, value) in named {
        if let Some(queue) = patterns.iter().find_map(|pattern| queue_in(pattern, name)) {
            *sums.entry(queue).or_default() += value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &[(&str, u64)]) -> Vec<(String, u64)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_packets_of_a_queue_count_once() {
        // virtio_net has the packets that a program saw beside all packets.
        let counters = from_named(&named(&[
            ("rx_queue_0_packets", 100),
            ("rx_queue_0_bytes", 6_000),
            ("rx_queue_0_drops", 3),
            ("rx_queue_0_xdp_packets", 60),
            ("rx_queue_1_packets", 50),
            ("rx_queue_1_drops", 0),
            ("tx_queue_0_packets", 9),
        ]));
        assert_eq!(counters.rx_packets, BTreeMap::from([(0, 100), (1, 50)]));
        assert_eq!(counters.rx_drops, BTreeMap::from([(0, 3), (1, 0)]));
    }

    #[test]
    fn each_family_of_names_is_known() {
        type Case = (&'static [(&'static str, u64)], &'static [(u32, u64)]);
        let cases: [Case; 6] = [
            (&[("rx-0.packets", 5), ("tx-0.packets", 9)], &[(0, 5)]),
            (&[("rx0_packets", 5), ("rx11_packets", 6), ("rx_packets", 11)], &[(0, 5), (11, 6)]),
            (&[("queue_2_rx_cnt", 5), ("queue_2_tx_cnt", 7)], &[(2, 5)]),
            (&[("[1]: rx_ucast_packets", 5), ("[1]: rx_bcast_packets", 2)], &[(1, 7)]),
            (&[("Queue[3] InPackets", 8), ("InPackets", 8)], &[(3, 8)]),
            (&[("rx_queue_4_xdp_packets", 8), ("rx_queue_4_xdp_drops", 8)], &[(4, 8)]),
        ];
        for (statistics, expected) in cases {
            let counters = from_named(&named(statistics));
            assert_eq!(counters.rx_packets, expected.iter().copied().collect(), "{statistics:?}");
            assert!(counters.rx_drops.is_empty(), "{statistics:?}");
        }
        assert!(from_named(&named(&[("rx_packets", 8)])).rx_packets.is_empty());
    }
}

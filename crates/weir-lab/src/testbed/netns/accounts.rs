//! Which counters of the testbed's devices are the counting points of a packet's way, and which are
//! losses: of one direction, and of several.
//!
//! A pair of devices counts each of its two directions by itself, so what goes both ways over one
//! link is told apart by the device that sends. Nothing here reads a counter.

use weir_results::counters::{DropRule, Place, PointRule, Selection};
use weir_results::traffic::partner;

use super::boxes::Boxes;
use super::layout::{Leaving, Port};
use super::parts::Parts;
use crate::testbed::{Accounting, DirectionRules, Topology};

/// Source of the counters of the generator opposite a port: plain where there is one only.
pub(super) fn generator(port: u16) -> String {
    if port == 0 { "generator".to_owned() } else { format!("generator at dut{port}") }
}

/// The same of a sink.
pub(super) fn sink(port: u16) -> String {
    if port == 1 { "sink".to_owned() } else { format!("sink at dut{port}") }
}

/// The counters of the packets that the DUT received from a device of its own.
pub(super) fn received(dut_device: &str) -> Selection {
    Selection::new(dut_device, &["rx_queue_*_xdp_packets"])
}

/// How the counters account for what is sent to these ports.
pub(super) fn accounting(parts: &Parts, senders: &[u16], is_mesh: bool) -> Accounting {
    let way = |port: u16| Way {
        port,
        left: &parts.ports[usize::from(port)],
        right: &parts.ports[usize::from(partner(port))],
        topology: parts.topology,
        is_xdp: parts.leaving == Leaving::Xdp,
        has_switches: parts.boxes.as_ref().is_some_and(Boxes::are_behind),
    };
    match senders {
        [] => Accounting::default(),
        [port] => {
            let way = way(*port);
            Accounting { points: way.points(), drops: way.drops(), ..Accounting::default() }
        }
        _ => {
            let directions = senders.iter().map(|&port| way(port).rules(is_mesh)).collect();
            Accounting { directions, ..Accounting::default() }
        }
    }
}

/// A direction: from what is opposite one port to what is opposite its partner.
struct Way<'a> {
    port: u16,
    left: &'a Port,
    right: &'a Port,
    topology: Topology,
    /// Whether the generator's packets leave as XDP frames, which devices count apart.
    is_xdp: bool,
    /// Whether the DUT's ports are those of switches, by which VRRP's packets leave as well.
    has_switches: bool,
}

impl Way<'_> {
    fn rules(&self, is_mesh: bool) -> DirectionRules {
        let (here, there) = (self.left.dut_device, self.right.dut_device);
        let name = if is_mesh { format!("to {there}") } else { format!("{here} → {there}") };
        DirectionRules { name, points: self.points(), drops: self.drops(), is_merged: is_mesh }
    }

    /// Counting points in the order of a packet's way.
    fn points(&self) -> Vec<PointRule> {
        let point = |name, source: &str, counters: &[&str]| PointRule {
            name,
            counters: Selection::new(source, counters),
        };
        let Self { port, left, right, topology, is_xdp, has_switches } = self;
        let mut points = if *is_xdp {
            vec![
                point("offered", &generator(*port), &["offered_packets"]),
                point("accepted", left.device, &["tx_queue_*_xdp_xmit"]),
            ]
        } else {
            // The generator tries again what the device refuses, which counts each attempt.
            vec![
                point("offered", left.device, &["tx_packets", "tx_dropped"]),
                point("accepted", left.device, &["tx_packets"]),
            ]
        };
        if *topology == Topology::Dut {
            let counters = received(left.dut_device);
            points.push(PointRule { name: "dut_received", counters });
            points.push(if *has_switches {
                // As many as the sink says that they are the traffic's.
                point("dut_forwarded", &sink(partner(*port)), &["packets"])
            } else {
                point("dut_forwarded", right.dut_device, &["tx_packets", "tx_dropped"])
            });
        }
        points.push(point("delivered", &sink(partner(*port)), &["packets"]));
        points
    }

    /// Losses that the devices and the sink count.
    fn drops(&self) -> Vec<DropRule> {
        let Self { port, left, right, topology, is_xdp, has_switches } = self;
        let refused = if *is_xdp { "tx_queue_*_xdp_xmit_errors" } else { "tx_dropped" };
        let refused = Selection::new(left.device, &[refused]);
        let device_drops = |device| Selection::new(device, &["rx_queue_*_drops"]);
        let sink_drops =
            |after| DropRule::new("sink_rx_drops", after, Place::Sink, device_drops(right.device));
        let dut_drops =
            || DropRule::new("dut_rx_drops", "accepted", Place::Dut, device_drops(left.dut_device));
        match topology {
            Topology::Direct => vec![
                DropRule::new("sink_rx_ring_full", "offered", Place::Sink, refused),
                sink_drops("accepted"),
            ],
            Topology::Dut if *has_switches => {
                vec![DropRule::new("dut_rx_ring_full", "offered", Place::Dut, refused), dut_drops()]
            }
            Topology::Dut => vec![
                DropRule::new("dut_rx_ring_full", "offered", Place::Dut, refused),
                dut_drops(),
                DropRule::new(
                    "dut_xdp_drops",
                    "dut_received",
                    Place::Dut,
                    Selection::new(left.dut_device, &["rx_queue_*_xdp_drops"]),
                ),
                DropRule::new(
                    "sink_rx_ring_full",
                    "dut_forwarded",
                    Place::Sink,
                    Selection::new(right.dut_device, &["tx_dropped"]),
                ),
                sink_drops("dut_forwarded"),
                // Frames that the DUT made itself: its device counts them, the sink tells them
                // apart.
                DropRule::new(
                    "foreign_packets",
                    "dut_forwarded",
                    Place::Dut,
                    Selection::new(&sink(partner(*port)), &["foreign_packets"]),
                ),
            ],
        }
    }
}

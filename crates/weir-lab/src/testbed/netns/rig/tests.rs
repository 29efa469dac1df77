//! Traffic over a built testbed without a campaign, and where its devices are placed.

use std::os::unix::fs::MetadataExt as _;
use std::time::Instant;

use super::*;
use crate::model::NetnsSpec;

#[test]
fn the_devices_of_several_ports_take_cpus_in_turn() {
    let cpus: CpuList = "2,5,7".parse().unwrap();
    let of = |port, queues| in_turn(&cpus, rank(port, 4, 0), queues).to_string();
    // dut0 and dut2, which every traffic comes in by, then dut1 and dut3.
    assert_eq!([0, 2, 1, 3].map(|port| of(port, 1)), ["2", "5", "7", "2"]);
    assert_eq!([0, 2].map(|port| of(port, 2)), ["2,5", "2,7"]);
    assert_eq!(of(3, 3), "2,5,7");
    // Of sinks, those that every traffic leaves to come first.
    assert_eq!([1, 3, 0, 2].map(|port| rank(port, 4, 1)), [0, 1, 2, 3]);
}

/// On a machine of two CPUs a campaign has none left for a second thread: here the DUT's CPU is
/// the generators' as well.
#[test]
fn generators_of_two_threads_send_to_every_port() {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let online = cpu::online().unwrap();
    if !is_root || !online.contains(0) || !online.contains(1) {
        #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
        {
            eprintln!("skipped: network namespaces need root, two threads CPUs 0 and 1");
        }
        return;
    }
    let spec = NetnsSpec {
        generator_cpus: None,
        dut_cpus: None,
        sink_cpus: None,
        queues: 1,
        links: 2,
        conntrack_max: None,
    };
    let mut placement = Placement::choose(&spec).unwrap();
    placement.generator = "0-1".parse().unwrap();
    let text = r#"{"name":"t","id":"i","rate":"max","flow_count":1,
        "links":2,"mesh":true,"threads":2,
        "streams":[{"src":"198.18.10.1","dst":"198.19.10.1","size":"60"}]}"#;
    let traffic: Traffic = serde_json::from_str(text).unwrap();
    let parts = Parts::create(Topology::Direct, spec.queues, spec.links).unwrap();
    let mut rig = NetnsRig::new(parts, &placement, &Cancel::default()).unwrap();
    rig.load(&traffic).unwrap();
    rig.start(Burst::new(weir_wire::units::Rate::Pps(2e3), Some(501))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !rig.finished() {
        assert!(Instant::now() < deadline, "it never ends");
        thread::sleep(Duration::from_millis(5));
    }
    rig.stop().unwrap();
    let readings = rig.readings().unwrap();
    assert_eq!(readings.iter().map(|each| each.tx_packets).collect::<Vec<_>>(), [501; 4]);
    assert!(readings.iter().all(|each| each.rx_packets > 0), "{readings:?}");
    let counters = rig.counters().unwrap();
    let accounting = rig.accounting();
    for each in &accounting.directions {
        let offered = each.points[0].counters.sum(&counters);
        assert_eq!(offered, Some(501), "{}: {:?}", each.name, each.points[0]);
    }
    let checks = rig.checks().unwrap();
    assert!(
        checks.iter().all(|check| check.passed || check.name == "cpu-throttling"),
        "{checks:?}"
    );
    Box::new(rig).teardown().unwrap();
}

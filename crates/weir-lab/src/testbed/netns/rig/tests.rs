//! Traffic over a built testbed without a campaign, and where its devices are placed.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// A rig's namespaces are named after this process, which can have one rig at a time.
static RIG: Mutex<()> = Mutex::new(());

/// The turn for a rig that uses CPUs 0 and 1; says so if there cannot be one.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let online = cpu::online().unwrap();
    let has_all = is_root && online.contains(0) && online.contains(1);
    if !has_all {
        #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
        {
            eprintln!("skipped: network namespaces need root, two threads CPUs 0 and 1");
        }
    }
    has_all.then(|| RIG.lock().unwrap_or_else(PoisonError::into_inner))
}

fn two_links() -> NetnsSpec {
    NetnsSpec {
        generator_cpus: None,
        dut_cpus: None,
        sink_cpus: None,
        napi_cpus: None,
        rps_cpus: None,
        queues: 1,
        links: 2,
        rss: None,
        mtu_bytes: None,
        conntrack_max: None,
    }
}

#[test]
fn every_port_has_its_napi_threads_and_its_steering() {
    let Some(_turn) = turn() else { return };
    let spec = NetnsSpec { queues: 2, ..two_links() };
    let mut placement = Placement::choose(&spec).unwrap();
    placement.napi = "1".parse().unwrap();
    placement.rps = Some("0-1".parse().unwrap());
    let parts = Parts::create(Topology::Dut, &spec, Vec::new(), None).unwrap();
    let nearness = Rc::new(Nearness::new([0, 0], false));
    let rig = NetnsRig::new(parts, (&placement, &nearness), &Cancel::default()).unwrap();
    let devices: Vec<&str> = rig.parts.ports.iter().map(|port| port.dut_device).collect();
    for device in &devices {
        let threads = rig.napi.iter().filter(|thread| thread.device == *device);
        assert_eq!(threads.map(|thread| thread.cpu).collect::<Vec<_>>(), [1, 1], "{device}");
        for queue in 0..2 {
            let path = format!("/sys/class/net/{device}/queues/rx-{queue}/rps_cpus");
            let dut = rig.parts.dut.as_ref().unwrap();
            let mask = inside(dut, || std::fs::read_to_string(&path)).unwrap();
            assert!(mask.trim().ends_with('3'), "{path}: {mask}");
        }
    }
    assert_eq!(devices.len(), 4);
    Box::new(rig).teardown().unwrap();
}

/// On a machine of two CPUs a campaign has none left for a second thread: here the DUT's CPU is
/// the generators' as well.
#[test]
fn generators_of_two_threads_send_to_every_port() {
    let Some(_turn) = turn() else { return };
    let spec = two_links();
    let mut placement = Placement::choose(&spec).unwrap();
    placement.generator = "0-1".parse().unwrap();
    let text = r#"{"name":"t","id":"i","rate":"max","flow_count":1,
        "links":2,"mesh":true,"threads":2,
        "streams":[{"src":"198.18.10.1","dst":"198.19.10.1","size":"60"}]}"#;
    let traffic: Traffic = serde_json::from_str(text).unwrap();
    let parts = Parts::create(Topology::Direct, &spec, Vec::new(), None).unwrap();
    let nearness = Rc::new(Nearness::new([0, 0], false));
    let mut rig = NetnsRig::new(parts, (&placement, &nearness), &Cancel::default()).unwrap();
    rig.load(&traffic).unwrap();
    rig.start(Burst::new(weir_wire::units::Rate::Pps(2e3), Some(501))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !rig.finished() {
        assert!(Instant::now() < deadline, "it never ends");
        std::thread::sleep(Duration::from_millis(5));
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

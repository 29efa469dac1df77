use std::collections::BTreeMap;
use std::time::Duration;

use weir_results::traffic::NO_MACS;
use weir_wire::describe::Description;

use super::*;
use crate::model::{NetnsSpec, RssSpec};
use weir_results::dut::Dut;

const PACKETS: TrafficKind = TrafficKind::Packets;

fn testbed() -> TestbedSpec {
    TestbedSpec::Netns(NetnsSpec {
        generator_cpus: None,
        dut_cpus: Some("1".into()),
        sink_cpus: None,
        napi_cpus: None,
        rps_cpus: None,
        queues: 1,
        links: 1,
        rss: None,
        mtu_bytes: None,
        conntrack_max: None,
    })
}

fn trial() -> TrialTimes {
    TrialTimes {
        warmup: Duration::from_millis(500),
        duration: Duration::from_secs(3),
        drain: Duration::from_millis(200),
        sample: Duration::from_millis(100),
        latency: None,
    }
}

fn linux(text: &str, path: &str) -> DutKind {
    let nft = Some(DutFile { path: path.into(), text: text.into() });
    let sysctls = BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]);
    DutKind::Linux { sysctls, nft }
}

fn streams(list: &[&[(&str, &str)]]) -> Streams {
    let described = list.iter().zip(0..).map(|(fields, number)| {
        let mut description = Description::default();
        for (name, text) in *fields {
            description.set(name, *text);
        }
        description.spec(number, NO_MACS).expect("a stream")
    });
    Streams::new(described.collect()).expect("they can be sent")
}

#[test]
fn the_settings_of_a_toggle_are_a_part_of_it() {
    let (testbed, trial, streams) = (testbed(), trial(), streams(&[&PLAIN]));
    let senders = Senders::default();
    let traffic =
        TrafficIdentity { streams: &streams, rate: Rate::Max, senders: &senders, kind: PACKETS };
    let id = |toggle: Option<(&str, &str)>| {
        let kind = DutKind::Linux { sysctls: BTreeMap::new(), nft: None };
        let toggle = toggle.map(|(on, off)| Toggle { on: on.into(), off: off.into() });
        let dut = Dut { name: "dut".to_owned(), kind, toggle };
        series_id(Setting { testbed: &testbed, trial: &trial }, None, &dut, &[], traffic)
    };
    assert_eq!(id(Some(("a", "b"))), id(Some(("a", "b"))));
    assert_ne!(id(Some(("a", "b"))), id(None));
    assert_ne!(id(Some(("a", "b"))), id(Some(("b", "a"))));
}

const PLAIN: [(&str, &str); 2] =
    [("src", "198.18.10.1:2000-198.18.10.70"), ("dst", "198.19.10.1:2000")];

fn id_of(testbed: &TestbedSpec, trial: &TrialTimes, dut: &DutKind, sweep: &[&str]) -> String {
    let streams = streams(&[&PLAIN]);
    let senders = Senders::default();
    let traffic =
        TrafficIdentity { streams: &streams, rate: Rate::Max, senders: &senders, kind: PACKETS };
    let sweep: Vec<String> = sweep.iter().map(|value| (*value).to_owned()).collect();
    let dut = Dut { name: "dut".to_owned(), kind: dut.clone(), toggle: None };
    series_id(Setting { testbed, trial }, None, &dut, &sweep, traffic)
}

fn traffic_id_of(streams: &Streams) -> String {
    let (testbed, trial) = (testbed(), trial());
    let setting = Setting { testbed: &testbed, trial: &trial };
    let senders = Senders::default();
    traffic_id(
        setting,
        TrafficIdentity { streams, rate: Rate::Max, senders: &senders, kind: PACKETS },
    )
}

/// Whatever changes a packet changes the id; a name or a default that is written out does not.
#[test]
fn every_field_of_a_stream_determines_its_traffic() {
    let with = |more: &[(&'static str, &'static str)]| {
        traffic_id_of(&streams(&[&[&PLAIN[..], more].concat()]))
    };
    let base = with(&[]);
    for same in [
        [("name", "x")],
        [("weight", "5")],
        [("seed", "9")],
        [("size", "60")],
        [("ttl", "64")],
        [("proto", "udp")],
        [("df", "true")],
        [("random", "false")],
        [("dscp", "0")],
    ] {
        assert_eq!(with(&same), base, "{same:?}");
    }
    let random = [("random", "true"), ("seed", "9")];
    let flags = [("proto", "tcp"), ("tcp_flags", "F")];
    let others: [&[(&str, &str)]; 11] = [
        &[("size", "61")],
        &[("size", "60-61")],
        &[("proto", "tcp")],
        &flags,
        &[("proto", "icmp")],
        &[("ttl", "63")],
        &[("dscp", "1")],
        &[("df", "false")],
        &random[..1],
        &random,
        &[("vlan", "3")],
    ];
    let mut seen = vec![base];
    for other in others {
        let id = with(other);
        assert!(!seen.contains(&id), "{other:?}");
        seen.push(id);
    }
    let other = [("src", "198.18.20.1"), ("dst", "198.19.10.1"), ("weight", "2")];
    let both = traffic_id_of(&streams(&[&PLAIN, &other]));
    let equal = traffic_id_of(&streams(&[&PLAIN, &other[..2]]));
    assert!(both != equal && !seen.contains(&both) && !seen.contains(&equal));
}

/// The ids were computed by a separate program from the description in the module's comment.
///
/// If this fails, every existing store loses its finished cells: raise [`IDENTITY_VERSION`] only
/// if the measurement itself has changed, and then change the ids here.
#[test]
fn ids_do_not_drift() {
    let id = id_of(&testbed(), &trial(), &linux("flush ruleset\n", "a.nft"), &["64"]);
    assert_eq!(id, "82739d9dce7cdfc0205c30316b96a3464415b180827f18f78a84764e9e39b4e2");
    assert_eq!(cell_id(&id, 1), "56ccf532345926e2e0acc6e7027b140bacd5f964d8d270694edf37954a9b273c");
}

#[test]
fn what_determines_a_series_changes_its_id() {
    let base = id_of(&testbed(), &trial(), &linux("a", "a.nft"), &[]);
    let longer = TrialTimes { duration: Duration::from_secs(4), ..trial() };
    let delayed = TrialTimes { latency: Some(Duration::from_secs(1)), ..trial() };
    let TestbedSpec::Netns(netns) = testbed() else { panic!("another kind") };
    let rss = RssSpec { key: String::new(), table: "0,1".into(), fields: "4-tuple".into() };
    let rss =
        TestbedSpec::Netns(NetnsSpec { queues: 2, rss: Some(Box::new(rss)), ..netns.clone() });
    let queues = TestbedSpec::Netns(NetnsSpec { queues: 2, ..netns });
    let others = [
        id_of(&testbed(), &trial(), &linux("b", "a.nft"), &[]),
        id_of(&testbed(), &trial(), &linux("a", "a.nft"), &["1"]),
        id_of(&testbed(), &longer, &linux("a", "a.nft"), &[]),
        id_of(&testbed(), &delayed, &linux("a", "a.nft"), &[]),
        id_of(&queues, &trial(), &linux("a", "a.nft"), &[]),
        id_of(&rss, &trial(), &linux("a", "a.nft"), &[]),
    ];
    for (index, other) in others.iter().enumerate() {
        assert_ne!(*other, base, "{index}");
        assert!(!others[..index].contains(other), "{index}");
    }
    assert_eq!(base, id_of(&testbed(), &trial(), &linux("a", "moved/b.nft"), &[]));
    assert_ne!(cell_id(&base, 1), cell_id(&base, 2));
}

#[test]
fn canonical_json_sorts_at_every_depth() {
    let value = json!({ "b": [{ "z": 1, "a": null }], "a": "é\"" });
    assert_eq!(canonical(&value), r#"{"a":"é\"","b":[{"a":null,"z":1}]}"#);
}

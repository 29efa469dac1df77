//! What is made of `weir fw stats --json`; the driver on a real firewall is tested end to end.

use super::*;

const STATS: &str = r#"{
    "states": {
        "current_count": 4900, "limit_count": 10000, "bucket_count": 8192, "index_bytes": 524288,
        "table_bytes": 1048576, "searches_count": 9, "inserts_count": 4905, "removals_count": 5
    },
    "drops": [
        {"interface": "dut0", "direction": "in", "reason": "match", "packets": 7},
        {"interface": "dut1", "direction": "in", "reason": "match", "packets": 2},
        {"interface": "dut1", "direction": "out", "reason": "memory", "packets": 0}
    ],
    "rules": [
        {"number": 0, "text": "block drop all", "evaluations": 3, "packets": 9, "bytes": 1},
        {"number": 1, "text": "pass in proto udp all keep state", "packets": 100, "bytes": 1}
    ],
    "interfaces": [{"name": "dut0", "mode": "native"}],
    "forwarded_packets": 91,
    "later": {}
}"#;

fn stats() -> Stats {
    serde_json::from_str(STATS).expect("the statistics are read")
}

fn driver() -> WeirFw {
    let rules = DutFile { path: "here/pf.conf".to_owned(), text: "pass\n".to_owned() };
    WeirFw::new(&Dut {
        name: "weir".to_owned(),
        kind: DutKind::WeirFw {
            sysctls: BTreeMap::new(),
            rules,
            files: Vec::new(),
            program: None,
            ready_timeout: Duration::from_secs(1),
            backup: None,
        },
        toggle: None,
    })
}

#[test]
fn drops_are_added_up_over_the_interfaces() {
    let counters = stats().counters();
    assert_eq!(counters["drop in match"], 9);
    assert_eq!(counters["drop out memory"], 0);
    assert_eq!(counters["rule 1 `pass in proto udp all keep state`"], 100);
    assert_eq!((counters["state_inserts"], counters["state_removals"]), (4905, 5));
}

#[test]
fn every_drop_that_was_seen_is_a_named_loss_of_the_dut() {
    let driver = driver();
    driver.drops.borrow_mut().extend(stats().drops.iter().map(drop_counter));
    let drops = driver.drops();
    let rule = drops.iter().find(|drop| drop.name == "weir-fw drop in match").expect("it is named");
    assert_eq!((rule.place, rule.after), (Place::Dut, "dut_received"));
    let run = Counters::from([(SOURCE.to_owned(), stats().counters())]);
    assert_eq!(rule.counters.sum(&run), Some(9));
}

#[test]
fn whether_states_are_kept_is_read_from_the_rules() {
    let with = |text: &str| {
        let rule = Rule { number: 0, text: text.to_owned(), packets: 0 };
        Stats { rules: vec![rule], ..Stats::default() }.keeps_state()
    };
    assert!(with("pass out all flags S/SA modulate state"));
    assert!(with("pass in all keep state"));
    assert!(!with("pass in all no state"));
    assert!(!with("block drop all"));
    assert!(!Stats::default().keeps_state());
}

#[test]
fn a_ruleset_that_no_packet_met_is_not_in_effect() {
    let check = |counters: BTreeMap<String, u64>, stats: &Stats| {
        driver().rules_check(stats, &Counters::from([(SOURCE.to_owned(), counters)]))
    };
    let met = check(stats().counters(), &stats());
    assert!(met.passed && met.name == "weir-fw here/pf.conf", "{met:?}");
    let idle = check(BTreeMap::new(), &stats());
    assert!(!idle.passed && idle.detail.contains("2 rules"), "{idle:?}");
    // Without rules there is nothing to meet but the router.
    let forwarded = BTreeMap::from([("forwarded_packets".to_owned(), 5)]);
    assert!(check(forwarded, &Stats::default()).passed);
    assert!(!check(BTreeMap::new(), &Stats::default()).passed);
}

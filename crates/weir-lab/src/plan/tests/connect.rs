//! Traffic of connections: read, and held against the testbed and the rest.

use weir_results::traffic::connect::{Close, Connect};
use weir_results::traffic::{Traffic, TrafficKind};
use weir_results::unit::Unit;
use weir_wire::units::Rate;

use super::*;
use crate::model::search;
use crate::search::items;

/// A specification with these fields in its testbed and its traffic, which is of connections.
fn with(testbed: &str, traffic: &str) -> String {
    format!(
        "[campaign]\nname = \"c\"\niterations = 1\n\
         [testbed]\nkind = \"netns\"\n{testbed}\n\
         [[dut]]\nname = \"a\"\nkind = \"linux\"\n\
         [[traffic]]\nname = \"t\"\nkind = \"connect\"\nsrc = \"198.18.10.1-198.18.10.3\"\n\
         dst = \"198.19.10.1\"\n{traffic}\n"
    )
}

fn traffic(fields: &str) -> Traffic {
    plan(&with("", fields), &[]).series.remove(0).traffic
}

#[test]
fn connections_have_the_defaults_of_the_command() {
    let plain = traffic("");
    let expected = Connect { close: Close::Fin, request_bytes: 64, reply_bytes: 128, count: None };
    assert_eq!(plain.kind, TrafficKind::Connect(expected));
    assert_eq!((plain.rate, plain.kind.unit()), (Rate::Max, Unit::Cps));
    assert_eq!(plain.flow_count(), 3 * 64_512, "ports that no server uses");
    let (spec, _) = &plain.streams.specs()[0];
    assert_eq!(spec.dst.to_string(), "198.19.10.1:80");

    let more = traffic("rate = \"1.5M\"\nclose = \"rst\"\nrequest = 0\nreply = \"1Ki\"\n");
    assert_eq!(more.rate, Rate::Pps(1.5e6));
    let expected = Connect { close: Close::Rst, request_bytes: 0, reply_bytes: 1024, count: None };
    assert_eq!(more.connect(), Some(&expected));
    assert_ne!(more.id, plain.id);
    let back = serde_json::to_string(&more).expect("writable");
    assert_eq!(serde_json::from_str::<Traffic>(&back).expect("readable"), more);
}

#[test]
fn connections_that_stay_open_are_counted() {
    let count = |fields: &str| traffic(fields).connect().expect("connections").count;
    assert_eq!(count("close = \"none\"\nrate = \"1k\"\ncount = \"100k\""), Some(100_000));
    // All flows but those of the probes.
    assert_eq!(count("close = \"none\"\nrate = 500"), Some(3 * 64_512 - 2_000));
    let held = traffic("close = \"none\"\nrate = 500");
    assert_eq!(held.kind.unit(), Unit::Connections);
}

#[test]
fn rates_and_counts_may_be_swept() {
    let swept = with("", "close = \"none\"\nrate = \"${rate}\"\ncount = \"${held}\"")
        + "[[sweep]]\nname = \"rate\"\nvalues = [\"1k\", \"2k\"]\n\
           [[sweep]]\nname = \"held\"\nvalues = [\"10k\", \"20k\"]\n";
    let plan = plan(&swept, &[]);
    let counts: Vec<Option<u64>> = plan
        .series
        .iter()
        .map(|series| series.traffic.connect().and_then(|connect| connect.count))
        .collect();
    assert_eq!(counts, [Some(10_000), Some(20_000), Some(10_000), Some(20_000)]);
    assert_eq!(plan.series[3].traffic.name, "t.rate=2k.held=20k");
    assert_eq!(plan.calibrations().len(), 4);
}

#[test]
fn what_connections_cannot_have_is_refused_where_it_stands() {
    let said = |testbed: &str, traffic: &str| {
        let list = try_plan(&with(testbed, traffic), &[]).expect_err("it is refused");
        list.join("\n")
    };
    for (testbed, traffic, part) in [
        ("", "size = 64", "lab.toml:15:1: error: `size` is for packets"),
        ("", "direction = \"both\"", "`direction` is for packets"),
        ("", "hold = \"1s\"", "`hold` is not built for connections in a lab"),
        ("", "close = \"slowly\"", "`close` cannot be `slowly`"),
        ("", "count = 5", "`count` is for connections that stay open"),
        ("", "close = \"none\"", "need a `rate`"),
        ("", "close = \"none\"\nrate = \"max\"", "need a `rate`"),
        ("", "close = \"none\"\nrate = 5\ncount = 0", "`count` must be above 0"),
        ("", "close = \"none\"\nrate = 5\ncount = \"1M\"", "2,000 of which are for probes"),
        ("", "rate = \"50kpps\"", "`rate` `50kpps` is none of connections"),
        ("", "request = 1401", "`request` must be 0 to 1400"),
        ("mtu = 1280", "reply = 1400", "frames of 1466 bytes"),
        ("", "srce = 5", "unknown field `srce`"),
        ("links = 2", "", "connections go over one link"),
        ("mtu = 9000", "", "made of live frames"),
        ("", "close = \"none\"\nrate = 5\n[trial]\nlatency = \"1s\"", "have no latency"),
        (
            "",
            "[[traffic]]\nname = \"u\"\nsrc = \"198.18.10.1\"\ndst = \"198.19.10.1\"",
            "has traffic of packets, too",
        ),
        (
            "",
            "[[traffic]]\nname = \"u\"\nkind = \"connect\"\nclose = \"none\"\nrate = 5\n\
             src = \"198.18.10.1\"\ndst = \"198.19.10.1\"",
            "others stay open",
        ),
    ] {
        let said = said(testbed, traffic);
        assert!(said.contains(part), "{traffic}: {said}");
    }
    let packets = GOOD.replace("name = \"t\"", "name = \"t\"\nclose = \"fin\"");
    let said = try_plan(&packets, &[]).expect_err("it is refused").join("\n");
    assert!(said.contains("`close` is for connections"), "{said}");
    let strange = GOOD.replace("name = \"t\"", "name = \"t\"\nkind = \"voice\"");
    let said = try_plan(&strange, &[]).expect_err("it is refused").join("\n");
    assert!(said.contains("use \"packets\", \"connect\" or \"http\""), "{said}");
}

#[test]
fn a_search_takes_connections_that_are_closed_up_to_a_load_that_is_given() {
    let found = |traffic: &str, search: &str| {
        let plan = plan(&format!("{}[search]\n{search}\n", with("", traffic)), &[]);
        let terms = search::resolve(&plan.search, &search::Asked::default()).expect("resolved");
        items(&plan, &terms).map(|items| (plan, items)).map_err(|error| error.to_string())
    };
    for (traffic, search, part) in [
        ("", "", "set `max_load` in [search]"),
        ("", "max_load = 5000\nsizes = [60]", "are those of packets"),
        (
            "",
            "max_load = 5000\ntests = [\"throughput\", \"back-to-back\"]",
            "no test \"back-to-back\"",
        ),
        ("close = \"none\"\nrate = 5", "max_load = 5000", "they stay open"),
        ("rate = \"1k\"", "max_load = 5000", "a search finds the rate"),
    ] {
        let said = found(traffic, search).expect_err("it is refused");
        assert!(said.contains(part), "{search}: {said}");
    }
    let (plan, items) = found("close = \"rst\"", "max_load = 5000").expect("it can be searched");
    let (asked, searched) = (&plan.series[0].traffic, &items[0].series.traffic);
    assert_eq!(searched.rate, Rate::Pps(5000.0), "the load at which the path is calibrated");
    assert_ne!(searched.id, asked.id);
}

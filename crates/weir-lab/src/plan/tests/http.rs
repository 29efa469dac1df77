//! Traffic of requests: read, and held against the testbed and the rest.

use weir_results::traffic::connect::Close;
use weir_results::traffic::{Http, Traffic};
use weir_results::unit::Unit;
use weir_wire::units::Rate;

use super::*;
use crate::model::search;
use crate::search::items;

/// A specification with these fields in its testbed and its traffic, which is of requests.
fn with(testbed: &str, traffic: &str) -> String {
    format!(
        "[campaign]\nname = \"c\"\niterations = 1\n\
         [testbed]\nkind = \"netns\"\n{testbed}\n\
         [[dut]]\nname = \"a\"\nkind = \"linux\"\n\
         [[traffic]]\nname = \"t\"\nkind = \"http\"\n{traffic}\n"
    )
}

const ENDS: &str = "src = \"198.18.10.1-198.18.10.3\"\ndst = \"198.19.10.1\"\n";

fn traffic(fields: &str) -> Traffic {
    plan(&with("", &format!("{ENDS}{fields}")), &[]).series.remove(0).traffic
}

fn through_a_proxy(fields: &str) -> Traffic {
    let text = with("", &format!("{ENDS}{fields}"));
    let text = text.replace("kind = \"linux\"", "kind = \"command\"\nstart = \"proxy\"");
    plan(&text, &[]).series.remove(0).traffic
}

#[test]
fn requests_have_defaults_and_take_all_that_they_are_given() {
    let plain = traffic("");
    let expected =
        Http { connections: 64, keepalive: None, close: Close::Fin, reply_bytes: 128, proxy: None };
    assert_eq!(plain.http(), Some(&expected));
    assert_eq!((plain.rate, plain.kind.unit()), (Rate::Max, Unit::Rps));
    let more = through_a_proxy(
        "rate = \"1.5k\"\nclose = \"rst\"\nconnections = \"100k\"\nreply = \"1Mi\"\n\
         keepalive = 3\nproxy = \"198.18.0.1:8080\"",
    );
    let expected = Http {
        connections: 100_000,
        keepalive: Some(3),
        close: Close::Rst,
        reply_bytes: 1 << 20,
        proxy: "198.18.0.1:8080".parse().ok(),
    };
    assert_eq!((more.http(), more.rate), (Some(&expected), Rate::Pps(1500.0)));
    assert_ne!(more.id, plain.id);
    let back = serde_json::to_string(&more).expect("writable");
    assert_eq!(serde_json::from_str::<Traffic>(&back).expect("readable"), more);
}

#[test]
fn what_requests_have_may_be_swept() {
    let fields = "reply = \"${reply}\"\nconnections = \"${at_once}\"";
    let swept = with("", &format!("{ENDS}{fields}"))
        + "[[sweep]]\nname = \"reply\"\nvalues = [128, \"16Ki\"]\n\
           [[sweep]]\nname = \"at_once\"\nvalues = [1, 64]\n";
    let plan = plan(&swept, &[]);
    let found: Vec<(u64, u64)> = plan
        .series
        .iter()
        .filter_map(|series| series.traffic.http())
        .map(|http| (http.reply_bytes, http.connections))
        .collect();
    assert_eq!(found, [(128, 1), (128, 64), (16_384, 1), (16_384, 64)]);
    assert_eq!(plan.series[3].traffic.name, "t.reply=16Ki.at_once=64");
    assert_eq!(plan.calibrations().len(), 4);
}

#[test]
fn what_requests_cannot_have_is_refused_where_it_stands() {
    let said = |testbed: &str, traffic: &str| {
        let list = try_plan(&with(testbed, traffic), &[]).expect_err("it is refused");
        list.join("\n")
    };
    for (testbed, traffic, part) in [
        ("", "size = 64", "`size` is for packets, and this traffic is of requests"),
        ("", "count = 5", "`count` is for connections, and this traffic is of requests"),
        ("", "close = \"none\"", "`close` cannot be `none`"),
        ("", "connections = 0", "`connections` must be 1 to"),
        ("", "connections = \"200k\"", "more connections than ports of `src`"),
        ("", "keepalive = 0", "`keepalive` must be 1 to"),
        ("", "reply = \"much\"", "`reply` must be 0 to"),
        ("", "proxy = \"198.18.0.1\"", "is not an address and a port"),
        ("", "proxy = \"[::1]:80\"", "of different IP versions"),
        ("", "proxy = \"198.18.0.1:0\"", "no port that anybody could listen at"),
        ("", "proxy = \"198.19.10.1:81\"", "is the server"),
        ("", "proxy = \"198.18.0.1:81\"", "for DUTs of kind \"command\", and `a` is none"),
        ("", "rate = \"50kpps\"", "`rate` `50kpps` is none of requests"),
        ("links = 2", "", "requests go over one link"),
        (
            "",
            "[[traffic]]\nname = \"u\"\nsrc = \"198.18.10.1\"\ndst = \"198.19.10.1\"",
            "has traffic of packets, too",
        ),
        (
            "",
            "[[traffic]]\nname = \"u\"\nkind = \"connect\"\nsrc = \"198.18.10.1\"\n\
             dst = \"198.19.10.1\"",
            "has traffic of requests, too",
        ),
    ] {
        let said = said(testbed, &format!("{ENDS}{traffic}"));
        assert!(said.contains(part), "{traffic}: {said}");
    }
    for (ends, part) in [
        ("src = \"198.18.10.1:5\"\ndst = \"198.19.10.1\"", "leave them out"),
        ("src = \"198.18.10.1\"\ndst = \"198.19.10.1-198.19.10.2\"", "is one server"),
        ("src = \"198.18.10.1\"\ndst = \"198.19.10.1:80-198.19.10.1:81\"", "is one server"),
        ("src = \"198.18.10.1\"", "has no `dst`"),
    ] {
        let said = said("", ends);
        assert!(said.contains(part), "{ends}: {said}");
    }
}

#[test]
fn a_search_takes_requests_up_to_a_load_that_is_given() {
    let found = |traffic: &str, search: &str| {
        let text = format!("{}[search]\n{search}\n", with("", &format!("{ENDS}{traffic}")));
        let plan = plan(&text, &[]);
        let terms = search::resolve(&plan.search, &search::Asked::default()).expect("resolved");
        items(&plan, &terms).map_err(|error| error.to_string())
    };
    let said = found("", "").expect_err("it is refused");
    assert!(said.contains("of requests: set `max_load` in [search]"), "{said}");
    let items = found("", "max_load = 5000").expect("it can be searched");
    assert_eq!(items[0].series.traffic.rate, Rate::Pps(5000.0));
}

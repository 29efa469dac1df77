use super::*;

/// A traffic of these streams: source, destination and further fields in JSON.
fn traffic(streams: &[(&str, &str, &str)]) -> Traffic {
    let streams: Vec<String> = streams
        .iter()
        .map(|(src, dst, more)| format!(r#"{{"src":"{src}","dst":"{dst}"{more}}}"#))
        .collect();
    let text = format!(
        r#"{{"name":"t","id":"i","rate":"max","flow_count":0,"streams":[{}]}}"#,
        streams.join(",")
    );
    serde_json::from_str(&text).expect("a traffic")
}

const LEGITIMATE: (&str, &str, &str) =
    ("198.18.10.1-198.18.10.7", "198.19.10.1:1-198.19.10.1:3", "");
const ATTACK: (&str, &str, &str) =
    ("198.18.20.1:1-198.18.20.9:99", "198.19.10.1:2", r#","proto":"tcp","random":"true""#);

/// What is expected after so many packets of probes.
fn expect(
    traffic: &Traffic,
    probe_packets: u64,
    flows_of: impl Fn(&StreamSpec) -> Result<u64, String>,
) -> Expected {
    Expected::of((traffic, &walked(traffic)), probe_packets, flows_of)
}

/// A DUT that keeps all flows apart.
fn all(spec: &StreamSpec) -> Result<u64, String> {
    let space = weir_wire::flow::FlowSpace::new(spec.src, spec.dst).expect("countable flows");
    Ok(space.flow_count())
}

#[test]
fn flows_of_all_walked_streams_are_expected() {
    let other = ("198.18.11.1-198.18.11.2", "198.19.10.1", "");
    let expected = expect(&traffic(&[LEGITIMATE, other]), 10, all);
    assert_eq!(expected, Expected::Flows { sent: 23, drawn_max: 0 });
    assert!(expected.holds(23) && !expected.holds(22) && !expected.holds(24));
    assert!(expected.check(22, 138).detail.starts_with("the DUT knows 22 of 23 flows"));
}

#[test]
fn random_streams_are_not_primed_but_probes_may_have_drawn_some() {
    let both = traffic(&[LEGITIMATE, ATTACK]);
    assert_eq!(walked(&both), [((0, 0), 21)]);
    let expected = expect(&both, 10, all);
    assert_eq!(expected, Expected::Flows { sent: 21, drawn_max: 10 });
    assert!(expected.holds(21) && expected.holds(31));
    assert!(!expected.holds(20) && !expected.holds(32));
    let alone = expect(&traffic(&[ATTACK]), 10, all);
    assert!(matches!(&alone, Expected::Unknown(why) if why.contains("at random")), "{alone:?}");
    assert!(alone.check(3, 1).passed);
}

#[test]
fn answers_belong_to_the_flows_that_they_answer() {
    let both = |more: &str, back: (&str, &str)| {
        let (src, dst, _) = LEGITIMATE;
        let text = format!(
            r#"{{"name":"t","id":"i","rate":"max","flow_count":0,
            "streams":[{{"src":"{src}","dst":"{dst}"{more}}}],"reverse":{{"rate":"max",
            "streams":[{{"src":"{}","dst":"{}"{more}}}]}}}}"#,
            back.0, back.1
        );
        expect(&serde_json::from_str(&text).expect("a traffic"), 0, all)
    };
    let turned = (LEGITIMATE.1, LEGITIMATE.0);
    assert_eq!(both("", turned), Expected::Flows { sent: 21, drawn_max: 0 });
    let apart = ("198.19.20.1", "198.18.10.1-198.18.10.2");
    assert_eq!(both("", apart), Expected::Flows { sent: 23, drawn_max: 0 });
    for (more, back) in [(r#","proto":"icmp""#, turned), ("", ("198.19.10.1:2", LEGITIMATE.0))] {
        let unknown = both(more, back);
        assert!(matches!(&unknown, Expected::Unknown(why) if why.contains("share")), "{unknown:?}");
    }
}

#[test]
fn what_cannot_be_foretold_is_not_checked() {
    let overlapping = ("198.18.10.7", "198.19.10.1:3-198.19.10.1:9", "");
    let shared = expect(&traffic(&[LEGITIMATE, overlapping]), 0, all);
    assert!(matches!(&shared, Expected::Unknown(why) if why.contains("share")), "{shared:?}");
    let tcp = (overlapping.0, overlapping.1, r#","proto":"tcp""#);
    let apart = expect(&traffic(&[LEGITIMATE, tcp]), 0, all);
    assert_eq!(apart, Expected::Flows { sent: 28, drawn_max: 0 });
    let refused = expect(&traffic(&[LEGITIMATE]), 0, |_| Err("no connection".to_owned()));
    assert_eq!(refused, Expected::Unknown("no connection".to_owned()));
    assert!(refused.check(0, 1).detail.contains("not checked: no connection"));
}

//! Anchors, and `match` rules that add up.

use super::*;

#[test]
fn anchors_stand_where_they_are_called() {
    table(
        BOTH,
        "block all\n\
         anchor \"web\" in proto tcp {\n  pass proto tcp to port 80\n  anchor \"inner\" {\n\
         block quick to 9.9.9.9\n  }\n}\n\
         anchor quick on em1 {\n  pass proto udp no state\n}\n\
         anchor \"nowhere\"\n\
         block proto udp to port 99\n",
        "in on em0 tcp 1.1.1.1:1 > 2.2.2.2:80 => pass web@0 state
         out on em0 tcp 1.1.1.1:1 > 2.2.2.2:80 => block @0
         in on em0 tcp 1.1.1.1:1 > 9.9.9.9:80 => block web/inner@0 quick
         in on em1 udp 1.1.1.1:1 > 2.2.2.2:99 => pass _@0 quick
         in on em1 tcp 1.1.1.1:1 > 2.2.2.2:99 => block @0
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:99 => block @4",
    );
}

#[test]
fn a_quick_anchor_ends_if_something_in_it_decided_however_deep() {
    table(
        BOTH,
        "pass no state\nanchor quick {\n  match tag seen\n  anchor {\n\
         block proto udp to port 7\n  }\n}\n\
         pass tagged seen no state\n",
        "in on em0 udp 1.1.1.1:1 > 2.2.2.2:7 => block _/_@0 quick tag=seen
         in on em0 udp 1.1.1.1:1 > 2.2.2.2:8 => pass @2 tag=seen",
    );
}

#[test]
fn anchors_are_loaded_by_path_and_called_by_star() {
    let facts = facts();
    let parts = [
        ("a/one", "table <t> { 7.7.7.7 }\npass proto udp to port 1\npass proto esp from <t>\n"),
        ("a/two", "block proto udp to port 2\n"),
        ("/b", "pass\n"),
    ];
    let loaded = parts.map(|(path, text)| LoadedAnchor {
        path: path.into(),
        ruleset: ruleset(text, Dialect::OpenBsd, &facts),
    });
    let text = "block\nanchor \"a/*\"\nanchor \"x\" {\n  anchor \"/b\" proto gre\n}\n";
    let ruleset = ruleset(text, Dialect::OpenBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &loaded, &facts).unwrap();
    for (text, expected) in [
        ("in on em0 udp 1.1.1.1:1 > 2.2.2.2:1", "pass a/one@0 state"),
        ("in on em0 udp 1.1.1.1:1 > 2.2.2.2:2", "block a/two@0"),
        ("in on em0 udp 1.1.1.1:1 > 2.2.2.2:3", "block @0"),
        ("in on em0 gre 1.1.1.1 > 2.2.2.2", "pass b@0 state"),
        ("in on em0 esp 1.1.1.1 > 2.2.2.2", "block @0"),
        ("in on em0 esp 7.7.7.7 > 2.2.2.2", "pass a/one@1 state"),
    ] {
        let packet = Packet::parse(text, &facts).unwrap();
        assert_eq!(run(&evaluator, &packet, &mut NoStates), expected, "{text}");
    }
}

#[test]
fn anchors_are_called_upwards() {
    let facts = facts();
    let parts = [("a/c", "block proto udp to port 1\n"), ("d", "block proto udp to port 2\n")];
    let loaded = parts.map(|(path, text)| LoadedAnchor {
        path: path.into(),
        ruleset: ruleset(text, Dialect::OpenBsd, &facts),
    });
    let text = "pass no state\nanchor \"a\" {\n  anchor \"b\" {\n    anchor \"../c\"\n    \
                anchor \"../../d\"\n  }\n}\n";
    let called = ruleset(text, Dialect::OpenBsd, &facts);
    let evaluator = Evaluator::new(&called, &loaded, &facts).unwrap();
    for (port, expected) in [(1, "block a/c@0"), (2, "block d@0"), (3, "pass @0")] {
        let text = format!("in on em0 udp 1.1.1.1:1 > 2.2.2.2:{port}");
        let packet = Packet::parse(&text, &facts).unwrap();
        assert_eq!(run(&evaluator, &packet, &mut NoStates), expected, "{text}");
    }
    let above = ruleset("anchor \"a\" {\n  anchor \"../../d\"\n}\n", Dialect::OpenBsd, &facts);
    let refused = Evaluator::new(&above, &loaded, &facts).err().unwrap();
    assert_eq!(refused.to_string(), "anchor `../../d` leads above the main ruleset");
}

#[test]
fn loops_and_multiplication_are_refused() {
    let facts = facts();
    let around = ruleset(
        "anchor \"a\" {\n  anchor \"/b\"\n}\nanchor \"b\" {\n  anchor \"/a\"\n}\n",
        Dialect::OpenBsd,
        &facts,
    );
    let refused = Evaluator::new(&around, &[], &facts).err().unwrap();
    assert_eq!(refused.to_string(), "anchor `a` contains itself");
    let mut text = String::new();
    for step in 0..30 {
        let next = step + 1;
        text +=
            &format!("anchor \"s{step}\" {{\n  anchor \"/s{next}\"\n  anchor \"/s{next}\"\n}}\n");
    }
    let doubled = ruleset(&text, Dialect::OpenBsd, &facts);
    let refused = Evaluator::new(&doubled, &[], &facts).err().unwrap();
    assert!(matches!(refused, EvaluateError::TooManyRules(_)), "{refused}");
}

#[test]
fn an_anchor_has_its_own_tables_first() {
    table(
        BOTH,
        "table <t> { 1.1.1.1 }\ntable <u> { 3.3.3.3 }\nblock all\n\
         anchor \"in\" {\n  table <t> { 2.2.2.2 }\n  pass from <t> no state\n\
         pass from <u> no state\n}\n",
        "in on em0 gre 1.1.1.1 > 9.9.9.9 => block @0
         in on em0 gre 2.2.2.2 > 9.9.9.9 => pass in@0
         in on em0 gre 3.3.3.3 > 9.9.9.9 => pass in@1",
    );
}

#[test]
fn match_rules_add_up() {
    let facts = facts();
    let text = "match log (matches) scrub (no-df max-mss 1400)\n\
         match in set prio 4 scrub (random-id min-ttl 64)\nmatch in set prio (5, 6) tag A\n\
         pass in rtable 0 tag B\nblock out\n";
    let ruleset = ruleset(text, Dialect::OpenBsd, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let packet = Packet::parse("in on em0 tcp 1.1.1.1:1 > 2.2.2.2:2", &facts).unwrap();
    let (mut random, mut states) = (|| 0, NoStates);
    let mut moment =
        Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &AllRouted };
    let verdict = evaluator.evaluate(&packet, &mut moment);
    let numbers = |rules: &[RuleRef<'_>]| rules.iter().map(|rule| rule.number).collect::<Vec<_>>();
    assert_eq!(numbers(&verdict.matches), [0, 1, 2]);
    assert_eq!(numbers(&verdict.logs), [0, 1, 2, 3], "log (matches) logs what follows");
    let actions = &verdict.actions;
    assert_eq!((actions.set_prio, actions.rtable), (Some((5, 6)), Some(0)));
    assert_eq!((actions.max_mss, actions.min_ttl), (Some(1400), Some(64)));
    assert!(actions.no_df && actions.random_id && !actions.reassemble_tcp);
    assert_eq!(actions.tag.as_deref(), Some("B"));
    assert_eq!(summary(&verdict), "pass @3 state tag=B");
}

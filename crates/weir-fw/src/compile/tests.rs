//! What a compilation refuses for want of numbers.

use super::*;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;
use weir_rules::value::Flush;

fn compiled(text: &str, known: &Known) -> Result<Compiled, Refused> {
    let facts = Facts::new();
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(Dialect::FreeBsd),
        macros: &[],
        provider: &MemorySources::default(),
        limits: Limits::default(),
    };
    let parsed = weir_rules::compile(input, &facts);
    assert_eq!(parsed.error_count, 0, "{:?}", parsed.diagnostics);
    let evaluator = Evaluator::new(&parsed.ruleset, &[], &facts).unwrap();
    compile(&Input { evaluator: &evaluator, resolver: &facts, slots: &[], known })
}

fn rules(names: std::ops::Range<u32>) -> String {
    names.map(|n| format!("pass in proto udp to port {} tag t{n}\n", n + 1)).collect()
}

#[test]
fn tags_beyond_those_of_states_are_refused_with_figures() {
    let none = Known::default();
    let most = compiled(&(rules(0..15) + "pass out tagged t3\nblock tagged never\n"), &none);
    let most = most.unwrap();
    assert_ne!(most.flags() & image_flags::TAGS, 0);
    assert_eq!(most.actions.iter().map(|action| action.tag).max(), Some(15));
    let asked: Vec<u16> = most.criteria.iter().map(|criterion| criterion.tagged).collect();
    assert_eq!(asked[15..], [most.actions[3].tag, u16::MAX], "what nobody gives nobody has");

    let refused = compiled(&rules(0..16), &none).unwrap_err().0;
    assert!(
        refused[0].message.contains("keep at most 15 different tags, and rules give 16"),
        "{refused:?}"
    );
    // States may still have the others.
    let refused = compiled(&rules(14..17), &most.known).unwrap_err().0;
    assert!(refused[0].message.contains("rules give 3, besides 14"), "{refused:?}");
    let mut known = most.known;
    assert!(!known.tags.is_short(TAG_COUNT_MAX), "all of them are given");
    known.tags.given.truncate(1);
    known.tags.release(|_| true);
    let other = compiled(&rules(14..17), &known).unwrap();
    assert_eq!(other.known.tags.held.iter().flatten().count(), 4);

    let without = compiled("pass\nblock tagged never\n", &none).unwrap();
    assert_eq!(without.flags() & image_flags::TAGS, 0);
}

#[test]
fn routes_are_only_asked_for_where_rules_ask() {
    let flags = |text: &str| {
        let all = image_flags::ROUTES | image_flags::NO_ROUTE_BACK | image_flags::NO_ROUTE_TO;
        compiled(text, &Known::default()).unwrap().flags() & all
    };
    assert_eq!(flags("pass\n"), 0);
    assert_eq!(flags("block in from urpf-failed\n"), image_flags::ROUTES);
    assert_eq!(flags("block from no-route\n"), image_flags::NO_ROUTE_BACK);
    assert_eq!(flags("block to no-route\n"), image_flags::NO_ROUTE_TO);
}

#[test]
fn what_states_need_of_rules_is_not_read_from_their_text() {
    let text = "pass in label \"overload <x> flush global\"\n\
                pass out proto tcp keep state (max-src-conn 1, overload <rude> flush) label two\n";
    let known = compiled(text, &Known::default()).unwrap().known;
    let overload = known.overload(known.rules[1].1).unwrap();
    assert_eq!((overload.table.as_str(), overload.flush), ("rude", Flush::Rule));
    assert_eq!(known.overload(known.rules[0].1), None);
    let gone = compiled("pass\n", &known).unwrap().known;
    let labelled = |label| gone.retired_with_label(label).collect::<Vec<_>>();
    assert_eq!(labelled("overload <x> flush global"), [known.rules[0].1]);
    assert_eq!(labelled("two"), [known.rules[1].1]);
    assert_eq!(gone.overload(known.rules[1].1), Some(overload));
}

#[test]
fn changes_beyond_those_of_states_are_refused() {
    let rules = |count: u32| -> String {
        let rule = |n| format!("pass in proto udp to port {n} scrub (min-ttl {n})\n");
        (1..=count).map(rule).collect()
    };
    let none = Known::default();
    let stateless = "pass out scrub (min-ttl 99) no state\nscrub out min-ttl 98\n";
    // Lists stand first.
    let (filter, list) = stateless.split_once('\n').unwrap();
    let most = format!("{list}{}match in scrub (min-ttl 15)\n{filter}\n", rules(15));
    compiled(&most, &none).unwrap();
    let refused = compiled(&rules(16), &none).unwrap_err().0;
    assert!(refused[0].message.contains("more than 15 different sets"), "{refused:?}");
}

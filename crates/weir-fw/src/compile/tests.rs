//! What a compilation refuses for want of numbers.

use super::*;
use weir_bpf::firewall::layout;
use weir_net::shaping::{Curve, Curves, Queue};
use weir_rules::facts::Facts;
use weir_rules::value::Flush;

fn compiled(text: &str, known: &Known) -> Result<Compiled, Refused> {
    compiled_as(Dialect::FreeBsd, text, known)
}

fn compiled_as(dialect: Dialect, text: &str, known: &Known) -> Result<Compiled, Refused> {
    let facts = Facts::new();
    let ruleset = crate::testing::ruleset(text, dialect, &facts);
    let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
    let counted = CountedTables::new();
    let (evaluator, resolver) = (&evaluator, &facts);
    let typed = declared_values(&ruleset);
    compile(&Input { evaluator, resolver, slots: &[], known, counted: &counted, typed: &typed })
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

fn to_gateways(numbers: std::ops::Range<u32>) -> String {
    let rule = |n| format!("pass in proto udp to port {n} route-to (em0 198.51.100.{n})\n");
    numbers.map(rule).collect()
}

#[test]
fn gateways_beyond_those_of_states_are_refused_with_figures() {
    let none = Known::default();
    let most = compiled(&(to_gateways(1..16) + &to_gateways(1..16)), &none).unwrap();
    assert_eq!(most.known.gateways.held.len(), 15);
    let refused = compiled(&to_gateways(1..17), &none).unwrap_err().0;
    let figures = "at most 15 different gateways and sockets, and rules have 16";
    assert!(refused[0].message.contains(figures), "{refused:?}");
    let refused = compiled(&to_gateways(15..17), &most.known).unwrap_err().0;
    assert!(refused[0].message.contains("rules have 2, besides 14"), "{refused:?}");
    // What is blocked goes nowhere.
    let blocked = to_gateways(1..17).replace("pass", "block");
    let blocked = compiled(&blocked, &none).map(|compiled| compiled.known.gateways.held.len());
    assert_eq!(blocked.unwrap_or(0), 0);
}

#[test]
fn gateways_of_a_link_need_its_name() {
    let compiled = |dialect, gateway: &str| {
        let text = format!("pass in route-to {gateway} inet6\n");
        compiled_as(dialect, &text, &Known::default())
    };
    let refused = compiled(Dialect::OpenBsd, "fe80::1").unwrap_err().0;
    assert!(refused[0].message.contains("`fe80::1%em0`"), "{refused:?}");
    for (dialect, gateway) in
        [(Dialect::FreeBsd, "(em0 fe80::1)"), (Dialect::OpenBsd, "fe80::1%em0")]
    {
        let compiled = compiled(dialect, gateway).unwrap();
        let held: Vec<String> =
            compiled.known.gateways.held.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(held, ["fe80::1@em0"]);
    }
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

/// What is told apart of a class: its parent, rate and ceiling in kbit/s, priority, and the packets
/// that wait at most where it has none below it.
fn classes(tree: &Tree, known: &Known) -> Vec<(String, u16, u64, u64, u8, Option<u32>)> {
    let name = |number: u16| {
        let held = known.queues.held.get(usize::from(number) - 1);
        held.and_then(Clone::clone).unwrap_or_else(|| "root".to_owned())
    };
    let limit = |queue: Queue| match queue {
        Queue::FifoBytes { limit_bytes } => limit_bytes,
        Queue::Fifo { limit_packets }
        | Queue::Codel { limit_packets, .. }
        | Queue::Red { limit_packets, .. } => limit_packets,
        Queue::Fair { flow_count, .. } => flow_count,
    };
    let classes = tree.classes.iter().map(|class| {
        let (rate, ceil) = (class.rate_bps / 1000, class.ceil_bps / 1000);
        (name(class.number), class.parent, rate, ceil, class.priority, class.queue.map(limit))
    });
    classes.collect()
}

#[test]
fn openbsd_queues_are_classes_with_rates() {
    let text = "queue main on { em0 em1 } bandwidth 100M max 20M\n\
                queue slow parent main bandwidth 4M min 5M max 6M qlimit 9\n\
                queue rest parent main bandwidth 10M burst 40M for 100ms default\n\
                queue whole on em2 bandwidth 50M flows 1024 default\n\
                match out on em0 set queue (slow, rest)\npass in set queue whole\n";
    let compiled = compiled_as(Dialect::OpenBsd, text, &Known::default()).unwrap();
    let known = &compiled.known;
    let [first, second, third] = &compiled.trees[..] else { panic!("{:?}", compiled.trees) };
    assert_eq!((first.interface.as_str(), second.interface.as_str()), ("em0", "em1"));
    assert_eq!(first.classes, second.classes);
    // In the order of their names: main, rest, slow, whole.
    assert_eq!(
        classes(first, known),
        [
            ("main".to_owned(), 0, 20_000, 20_000, 0, None),
            ("slow".to_owned(), 1, 5_000, 6_000, 0, Some(9)),
            ("rest".to_owned(), 1, 10_000, 20_000, 0, Some(50)),
        ]
    );
    assert_eq!((first.default, third.default), (2, 4));
    assert_eq!(first.classes[2].burst_bytes, 40_000_000 / 8 / 10);
    assert_eq!(first.classes[1].quantum_bytes * 2, first.classes[2].quantum_bytes);
    let limits = classes(third, known);
    assert_eq!(limits, [("whole".to_owned(), 0, 100_000_000, 100_000_000, 0, Some(1024))]);
    assert_eq!(compiled.scrubs[0] >> layout::SCRUB_QUEUE_SHIFT, 2 << 8 | 3);
    assert_eq!(compiled.scrubs[1] >> layout::SCRUB_QUEUE_SHIFT, 4);
}

#[test]
fn altq_is_classes_with_rates_or_priorities() {
    let text = "altq on em0 cbq bandwidth 10Mb queue { web, rest }\n\
                queue web bandwidth 60% priority 3 cbq(borrow) { bulk, swift }\n\
                queue bulk bandwidth 50%\nqueue swift bandwidth 1Mb priority 9\n\
                queue rest bandwidth 1Mb cbq(default)\n\
                altq on em1 priq bandwidth 1Mb queue { low, high }\n\
                queue low priq(default)\nqueue high priority 15 qlimit 20\n\
                altq on em2 hfsc bandwidth 1Mb queue { only }\n\
                queue only hfsc(default realtime 100Kb linkshare 50Kb upperlimit 80%)\npass\n";
    let compiled = compiled(text, &Known::default()).unwrap();
    let known = &compiled.known;
    let all: Vec<_> = compiled.trees.iter().map(|tree| classes(tree, known)).collect();
    let root = |rate: u64| ("root".to_owned(), 0, rate, rate, 0, None);
    let web = known.queues.held.iter().position(|name| name.as_deref() == Some("web")).unwrap();
    let web = u16::try_from(web + 1).unwrap();
    assert_eq!(
        all[0],
        [
            root(10_000),
            ("web".to_owned(), 256, 6_000, 10_000, 4, None),
            ("bulk".to_owned(), web, 3_000, 3_000, 6, Some(50)),
            ("swift".to_owned(), web, 1_000, 1_000, 0, Some(50)),
            ("rest".to_owned(), 256, 1_000, 1_000, 6, Some(50)),
        ]
    );
    let (low, high) = (("low", 1, 50), ("high", 0, 20));
    for (class, (name, priority, limit)) in all[1][1..].iter().zip([low, high]) {
        assert_eq!(*class, (name.to_owned(), 256, 8, 1_000, priority, Some(limit)));
    }
    assert_eq!(all[2][1], ("only".to_owned(), 256, 100, 800, 0, Some(50)));
}

#[test]
fn queues_with_two_slopes_have_curves() {
    let text = "queue main on em0 bandwidth 100M max 20M\n\
                queue slow parent main bandwidth 4M min 1M burst 2M for 10ms max 6M\n\
                queue rest parent main bandwidth 10M default\npass\n";
    let compiled = compiled_as(Dialect::OpenBsd, text, &Known::default()).unwrap();
    let straight = |megabits: u64| Curve::straight(megabits * 1_000_000);
    let curves = compiled.trees[0].classes.iter().map(|class| class.curves.unwrap());
    let bent = Curve { first_bps: 2_000_000, first_us: 10_000, second_bps: 1_000_000 };
    let expected = [
        Curves { realtime: None, linkshare: straight(20), upperlimit: Some(straight(20)) },
        Curves { realtime: Some(bent), linkshare: straight(4), upperlimit: Some(straight(6)) },
        Curves { realtime: None, linkshare: straight(10), upperlimit: None },
    ];
    assert_eq!(curves.collect::<Vec<_>>(), expected);

    let text = "altq on em0 hfsc bandwidth 10Mb queue { a b }\n\
                queue a bandwidth 50% hfsc(realtime (10% 20 1Mb)) { c }\n\
                queue c hfsc(default realtime 1Mb upperlimit 2Mb)\nqueue b bandwidth 1Mb\npass\n";
    let compiled = self::compiled(text, &Known::default()).unwrap();
    let curves: Vec<_> =
        compiled.trees[0].classes.iter().map(|class| class.curves.unwrap()).collect();
    let above = Curves { realtime: None, linkshare: straight(5), upperlimit: None };
    assert_eq!(curves[1], above, "what has queues below it has no rate in any case");
    assert_eq!((curves[2].realtime, curves[2].linkshare), (Some(straight(1)), straight(5)));
    assert_eq!((curves[0].upperlimit, curves[3].linkshare), (Some(straight(10)), straight(1)));
}

#[test]
fn altq_drops_early_where_it_says_so() {
    let text = "altq on em0 cbq bandwidth 10Mb queue { a b c d }\n\
                queue a bandwidth 1Mb cbq(default red)\nqueue b bandwidth 1Mb qlimit 30 cbq(ecn)\n\
                queue c bandwidth 1Mb cbq(codel)\nqueue d bandwidth 1Mb\n\
                altq on em1 codel(target 10 interval 200 ecn) bandwidth 1Mb queue\npass\n";
    let compiled = compiled(text, &Known::default()).unwrap();
    let queues: Vec<_> = compiled.trees[0].classes.iter().filter_map(|class| class.queue).collect();
    let time_us = None;
    let expected = [
        Queue::Red { limit_packets: 50, has_ecn: false },
        Queue::Red { limit_packets: 30, has_ecn: true },
        Queue::Codel {
            limit_packets: 50,
            target_us: time_us,
            interval_us: time_us,
            has_ecn: false,
        },
        Queue::Fifo { limit_packets: 50 },
    ];
    assert_eq!(queues, expected);
    let tree = &compiled.trees[1];
    assert_eq!((tree.default, tree.classes.len()), (256, 1));
    let codel = Queue::Codel {
        limit_packets: 50,
        target_us: Some(10_000),
        interval_us: Some(200_000),
        has_ecn: true,
    };
    assert_eq!(tree.classes[0].queue, Some(codel));
}

#[test]
fn fairq_is_fair_among_flows_and_shares_what_others_leave() {
    let text = "altq on em0 fairq bandwidth 10Mb queue { web, rest }\n\
                queue web bandwidth 4Mb priority 5 fairq(buckets 64)\n\
                queue rest bandwidth 1Mb qlimit 90 fairq(default)\npass\n";
    let compiled = compiled(text, &Known::default()).unwrap();
    let [_, web, rest] = &compiled.trees[0].classes[..] else { panic!("{:?}", compiled.trees) };
    assert_eq!((web.rate_bps, web.ceil_bps, web.priority), (4_000_000, 10_000_000, 2));
    assert_eq!((rest.rate_bps, rest.ceil_bps, rest.priority), (1_000_000, 10_000_000, 6));
    let fair = |flow_count, limit_packets| {
        let (quantum_bytes, target_us, interval_us) = (None, None, None);
        Some(Queue::Fair { flow_count, limit_packets, quantum_bytes, target_us, interval_us })
    };
    assert_eq!((web.queue, rest.queue), (fair(64, None), fair(256, Some(90))));
}

#[test]
fn all_that_is_wrong_with_queues_is_said_at_once() {
    let text = "queue main on em0 bandwidth 10M\n\
                queue a parent main bandwidth 5M default\n\
                queue b parent main bandwidth 5M default\n\
                queue c parent x bandwidth 5M\nqueue d parent c bandwidth 1M\n\
                pass in proto { tcp udp } set queue e\nmatch out set queue (a, f)\n";
    let refused = compiled_as(Dialect::OpenBsd, text, &Known::default()).unwrap_err();
    let said: Vec<&str> = refused.0.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "queue `c`: its parent `x` is not defined above it",
            "`em0` has 2 default queues",
            "queue `e` is not defined",
            "queue `f` is not defined",
        ]
    );
}

#[test]
fn queues_that_cannot_be_are_refused() {
    let refused = |dialect, text: &str| {
        compiled_as(dialect, text, &Known::default()).unwrap_err().0[0].message.clone()
    };
    for (text, said) in [
        ("queue a on em0 bandwidth 1M\n", "`em0` has 0 default queues"),
        (
            "queue a parent b bandwidth 1M default\n",
            "queue `a`: its parent `b` is not defined above it",
        ),
        ("queue a on em0 bandwidth 1M default\nqueue b parent a bandwidth 1K\n", "below it"),
        ("queue a on em0 bandwidth 1M default\npass set queue c\n", "queue `c` is not defined"),
        ("queue a on em0 bandwidth 1M quantum 9 default\n", "need `flows`"),
        ("queue a on em0 bandwidth 1M flows 70000 default\n", "70000 flows or buckets"),
        (
            "queue a on em0 bandwidth 1M default\nqueue a on em0 bandwidth 1M\n",
            "two queues at its root",
        ),
    ] {
        let message = refused(Dialect::OpenBsd, text);
        assert!(message.contains(said), "{text}: {message}");
    }
    for (text, said) in [
        ("altq on em0 cbq bandwidth 1Mb queue { a }\npass queue b\n", "queue `a` is not defined"),
        ("altq on em0 cbq queue { a }\nqueue a cbq(default)\n", "says no bandwidth"),
    ] {
        let message = refused(Dialect::FreeBsd, text);
        assert!(message.contains(said), "{text}: {message}");
    }
}

#[test]
fn uses_of_typed_tables_that_mean_nothing_are_refused() {
    let tables = "table <nets> type addr values tag\ntable <flows> type flow values tag,nexthop\n\
                  table <ports> type flow:dst-port values nexthop\ntable <if> type iface\n\
                  table <hops> type addr values nexthop,tag\ntable <pf> { 10.0.0.1 }\n";
    for (rule, why) in [
        ("pass from <flows>", "each of which has both ends: write `to <flows>`"),
        ("block to <if>", "<if> has keys of type iface, which no rule asks"),
        ("pass in route-to <nets>", "<nets> has no next hops for this rule: it has no value"),
        ("pass in route-to <ports>", "its keys are no addresses, and no flows with addresses"),
        ("pass in reply-to <hops>", "only `route-to` takes one"),
        ("nat on em0 from any to any -> <hops>", "<hops> is a typed table, which no translation"),
        ("rdr on em0 proto tcp to <nets> tag value -> 10.0.0.1", "`tag value` of <nets> is for"),
        ("pass keep state (max-src-conn 5, overload <nets>)", "which `overload` cannot fill"),
    ] {
        let refused = compiled(&format!("{tables}{rule}\n"), &Known::default()).unwrap_err().0;
        assert!(refused[0].message.contains(why), "{rule}: {refused:?}");
    }
    let most = "pass in route-to <hops> to <flows> tag value\nblock from <nets> tag value\n\
                match from ! <nets> tag value\npass from <pf> tag value\n";
    let compiled = compiled(&format!("{tables}{most}"), &Known::default()).unwrap();
    let tags: Vec<u16> = compiled.actions.iter().map(|action| action.tag).collect();
    // Of a table of pf's, and where the packet is in none, it is a tag as any other.
    assert_eq!(tags, [0xffff, 0xfffe, 1, 1]);
    assert_ne!(compiled.flags() & image_flags::TYPED, 0);
    assert_eq!(compiled.flags() & image_flags::STAGES, 0, "there are gateways");
}

/// Its packets go by the default queue, as those of a rule without one.
#[test]
fn freebsds_rules_may_name_a_queue_that_nothing_defines() {
    let altq = "altq on em0 cbq bandwidth 1Mb queue { a }\nqueue a cbq(default)\n";
    let words = |rule: &str| {
        let text = format!("{altq}{rule}\n");
        compiled_as(Dialect::FreeBsd, &text, &Known::default()).unwrap().scrubs
    };
    assert!(words("pass out queue b").iter().all(|word| *word == 0));
    assert!(words("pass out queue a").iter().any(|word| *word != 0));
}

//! Typed tables: random entries, half of them of the packets that are judged, by the data path as
//! by the reference.

use std::fmt::Write as _;

use weir_fw::compile::known::Known;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;

use super::random::{Random, packet};
use super::*;

/// The tables, and rules by whose tags it shows what was found.
const RULES: &str = "\
table <nets> type addr values tag,nexthop file \"nets\"
table <flows> type flow values tag file \"flows\"
table <services> type flow:proto,dst-port values tag file \"services\"
table <pairs> type flow:dst-ip,src-ip values tag,mark file \"pairs\"
pass no state
match to <nets> tag value
block tagged a
match from <nets> to any tag value
pass tagged b no state
match to <flows> tag value
block return tagged c
match in to <services> tag value
match from 10.0.0.0/8 to ! <pairs> tag other
block in tagged other
block to <pairs> tag value
pass out quick tagged a no state
";

/// Rules that no packet meets, for rules that are found by bit vectors.
const MORE: &str = "block proto 200 from 198.18.0.0/15\n";

/// One of four tags, or none.
fn tag(random: &mut Random) -> &'static str {
    random.pick(&["", " tag a", " tag b", " tag c", " tag other"])
}

/// What the files of the tables have.
fn files(random: &mut Random, packets: &[Packet]) -> MemorySources {
    let [mut nets, mut flows, mut services, mut pairs] = [const { String::new() }; 4];
    for packet in packets.iter().step_by(2) {
        let (source, destination) = (packet.source, packet.destination);
        let (from, to) = (packet.source_port, packet.destination_port);
        let protocol = packet.protocol;
        let bits = random.below(if source.is_ipv4() { 33 } else { 129 });
        let hop = if source.is_ipv4() { "192.0.2.1" } else { "2001:db8::1" };
        // Writing to a string does not fail.
        let _ = writeln!(nets, "{source}/{bits}{} nexthop {hop}", tag(random));
        let mut key = format!("{source},{protocol},{from},{destination},{to}");
        if random.one_in(4) {
            key = format!("{destination},{protocol},{to},{source},{from}");
        }
        let _ = writeln!(flows, "{key}{}", tag(random));
        let _ = writeln!(services, "{protocol},{to}{}", tag(random));
        let _ = writeln!(pairs, "{source},{destination}{} mark {to}", tag(random));
    }
    MemorySources::default()
        .with("nets", nets)
        .with("flows", flows)
        .with("services", services)
        .with("pairs", pairs)
}

#[test]
fn typed_tables_are_asked_as_by_the_reference() {
    let Some(judge) = judge() else { return };
    let scene = Scene::new();
    let mut filter = Box::new(&judge);
    let mut random = Random(77);
    let (mut tagged_count, mut blocked_count, mut count) = (0, 0, 0);
    for round in 0..60 {
        let dialect = if random.below(2) == 0 { Dialect::FreeBsd } else { Dialect::OpenBsd };
        let packets: Vec<Packet> = (0..100).map(|_| packet(&mut random)).collect();
        let provider = files(&mut random, &packets);
        // Few rules are asked one by one, many by bit vectors.
        let text = RULES.to_owned() + if random.one_in(2) { MORE } else { "" };
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(dialect),
            macros: &[],
            provider: &provider,
            limits: Limits::default(),
        };
        let read = weir_rules::compile(input, &scene.facts);
        assert_eq!(read.error_count, 0, "{:?}", read.diagnostics);
        let evaluator = Evaluator::new(&read.ruleset, &[], &scene.facts).unwrap();
        filter.known = Known::default();
        let compiled = filter.load(&evaluator, &scene, &Contents::new());
        for packet in &packets {
            let mut moment = Moment {
                now_ns: 0,
                random: &mut || 1_000_000,
                states: &mut NoStates,
                routes: &AllRouted,
            };
            let verdict = evaluator.evaluate(packet, &mut moment);
            let mut subject = subject_of(packet, &read.ruleset, &scene);
            subject.ruleset = judge.arena().read32(control::ACTIVE);
            let (found, _) = judge.run(&subject, 1).unwrap();
            let context = || format!("round {round}, {packet:?}\n{found:?}\n{verdict:?}");
            let judged = by_data_path(&found);
            assert_eq!(judged, by_reference(&verdict, &compiled), "{}", context());
            let number = |name: &str| {
                let held = &compiled.known.tags.held;
                let at = held.iter().position(|held| held.as_deref() == Some(name)).unwrap();
                u16::try_from(at + 1).unwrap()
            };
            let tag = verdict.actions.tag.as_deref().map_or(0, number);
            assert_eq!(found.tag, tag, "{}", context());
            count += 1;
            tagged_count += usize::from(found.tag != 0);
            blocked_count += usize::from(judged.blocked);
        }
    }
    // It shows nothing if nothing is found, or everything.
    assert!(tagged_count > count / 4 && tagged_count < count, "{tagged_count} of {count}");
    assert!(blocked_count > count / 10 && blocked_count < count, "{blocked_count} of {count}");
}

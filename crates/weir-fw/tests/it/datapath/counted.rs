//! Packets are counted for the entries of tables with `counters` in which rules have found them.

use weir_bpf::firewall::Counts;

use super::frames::Ends;
use super::rig::{DROP, NEXT, PASS, REDIRECT, Rig};

/// What was counted of the entries of the table with a number, by network, sorted.
fn counted(rig: &Rig, table: u32) -> Vec<(String, Counts)> {
    let found = rig.firewall.counted(table).expect("the kernel has it");
    let named =
        found.into_iter().map(|(key, counts)| (format!("{}/{}", key.address, key.bits), counts));
    let mut found: Vec<_> = named.collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// So many packets of a size each, by direction (in, out) and outcome (passed, blocked).
fn packets(packets: [[u64; 2]; 2], each_bytes: u64) -> Counts {
    Counts { packets, bytes: packets.map(|outcomes| outcomes.map(|count| count * each_bytes)) }
}

#[test]
fn what_rules_block_is_counted_for_the_longest_entry() {
    let rules = "table <bad> counters { 10.0.1.0/24 !10.0.1.8 10.0.1.16/28 }\n\
                 table <quiet> { 10.0.1.2 }\n\
                 block in from <bad>\nblock in quick proto udp from <quiet> to port 9\n\
                 pass in from ! <bad>\n";
    let Some(rig) = Rig::with_rules("counted", rules) else { return };
    let send = |src: &str, port: u16| {
        rig.receive(0, &Ends::new(src, "10.0.2.2").udp((1000, port), b"12345678")).action
    };
    for (src, port, action) in [
        ("10.0.1.2", 80, DROP),
        ("10.0.1.3", 80, DROP),
        ("10.0.1.17", 80, DROP),
        // Decided by a rule about another table, which does not count.
        ("10.0.1.2", 9, DROP),
        // In no entry, and in one that is excluded.
        ("10.0.1.8", 80, REDIRECT),
        ("10.0.3.1", 80, REDIRECT),
    ] {
        assert_eq!(send(src, port), action, "{src}:{port}");
    }
    let expected = [
        ("10.0.1.0/24", packets([[0, 2], [0, 0]], 36)),
        ("10.0.1.16/28", packets([[0, 1], [0, 0]], 36)),
        ("10.0.1.8/32", packets([[1, 0], [0, 0]], 36)),
    ];
    assert_eq!(counted(&rig, 1), expected.map(|(name, counts)| (name.to_owned(), counts)));
    assert_eq!(rig.firewall.counted(2).expect("the kernel has it"), []);
}

/// Every packet of a flow, in both directions, at the interface of the rule that has asked.
#[test]
fn flows_are_counted_packet_by_packet() {
    for (what, client, server, header_bytes) in
        [("counted4", "10.0.1.2", "10.0.2.2", 28), ("counted6", "fd00:1::2", "fd00:2::2", 48)]
    {
        let rules = "table <clients> counters { 10.0.1.0/25 fd00:1::/96 }\n\
                     table <servers> persist counters { 10.0.2.2 fd00:2::2 }\n\
                     pass in on b0 from <clients>\npass out on b1 to <servers>\n";
        let Some(rig) = Rig::with_rules(what, rules) else { return };
        let ends = Ends::new(client, server);
        let (there, back) = (ends.udp((1000, 80), b"12"), ends.back().udp((80, 1000), b"1234"));
        for (side, frame) in [(0, &there), (1, &back), (0, &there), (0, &there), (1, &back)] {
            assert_eq!(rig.receive(side, frame).action, REDIRECT, "{what}");
        }
        let (size, size_back) = (header_bytes + 2, header_bytes + 4);
        let expected = |there: usize| {
            let mut counts = Counts::default();
            (counts.packets[there][0], counts.bytes[there][0]) = (3, 3 * size);
            (counts.packets[1 - there][0], counts.bytes[1 - there][0]) = (2, 2 * size_back);
            counts
        };
        let is_v6 = client.contains(':');
        let clients = if is_v6 { "fd00:1::/96" } else { "10.0.1.0/25" };
        assert_eq!(counted(&rig, 1), [(clients.to_owned(), expected(0))], "{what}");
        let servers = format!("{server}/{}", if is_v6 { 128 } else { 32 });
        assert_eq!(counted(&rig, 2), [(servers, expected(1))], "{what}");
    }
}

/// A ruleset counts what comes by states of an earlier one, as far as its rules are the same.
#[test]
fn what_was_counted_stays_over_reloads_until_it_is_forgotten() {
    let rules = "table <clients> counters { 10.0.1.2 }\npass in on b0 from <clients>\n";
    let Some(rig) = Rig::with_rules("reloads", "pass\n") else { return };
    let frame = Ends::new("10.0.1.2", "10.0.2.2").udp((1000, 80), b"");
    let known = rig.load(rules);
    let send = || assert_eq!(rig.receive(0, &frame).action, REDIRECT);
    send();
    let known =
        rig.load_over(&known, weir_rules::Dialect::FreeBsd, &format!("{rules}block in on b1\n"));
    send();
    let count = || counted(&rig, 1).iter().map(|(_, counts)| counts.packets[0][0]).sum::<u64>();
    assert_eq!(count(), 2);
    // Without the table nothing is counted; a state stays.
    rig.load_over(&known, weir_rules::Dialect::FreeBsd, "pass\n");
    send();
    assert_eq!(count(), 2);
    rig.firewall.forget_counted(|key| key.table == 1).expect("the kernel forgets it");
    assert_eq!(count(), 0);
}

/// What the kernel hands over, and what it is handed, is counted as what XDP forwards.
#[test]
fn packets_of_the_box_are_counted() {
    let rules = "table <hosts> counters { 10.0.1.2 }\n\
                 pass in on b0 from <hosts> to (self)\npass out on b0 to <hosts>\n";
    let Some(rig) = Rig::with_rules("boxes", rules) else { return };
    let to_box = Ends::new("10.0.1.2", "10.0.1.1").udp((1000, 80), b"");
    assert_eq!(rig.receive(0, &to_box).action, PASS);
    let answer = Ends::new("10.0.1.1", "10.0.1.2").udp((80, 1000), b"");
    let call = Ends::new("10.0.1.1", "10.0.1.2").udp((81, 1000), b"");
    for frame in [&answer, &call, &call] {
        assert_eq!(rig.send(0, frame).action, NEXT, "it leaves");
    }
    assert_eq!(counted(&rig, 1), [("10.0.1.2/32".to_owned(), packets([[1, 0], [3, 0]], 28))]);
}

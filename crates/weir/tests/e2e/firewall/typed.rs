//! Typed tables: `weir fw table` on a firewall that runs, what is left after a reload and after the
//! daemon was killed, and rules that send packets by them.

use std::fmt::Write as _;

use super::nat::seen;
use super::network::{IMPATIENCE, Network, connect_from};
use super::uplinks::{Site, WORLD};
use crate::common::{assert_exit, can_run_lab, stderr, stdout};
use crate::turns::beside;

/// `weir fw table` with words between blanks, which has to work.
#[track_caller]
pub(super) fn table(net: &Network, words: &str) -> String {
    table_as(net, words, 0)
}

/// The same, with another exit code: what it said.
#[track_caller]
fn table_as(net: &Network, words: &str, code: i32) -> String {
    let arguments: Vec<&str> = ["fw", "table"].into_iter().chain(words.split(' ')).collect();
    let output = net.run(&arguments);
    assert_exit(&output, code);
    stdout(&output) + &stderr(&output)
}

#[track_caller]
fn assert_refused(net: &Network, words: &str, why: &str) {
    let said = table_as(net, words, 2);
    assert!(said.contains(why), "{words}: {said}");
}

fn json(net: &Network, words: &str) -> serde_json::Value {
    serde_json::from_str(&table(net, &format!("{words} --json"))).expect("JSON")
}

#[test]
fn tables_of_every_type_are_made_changed_and_asked() {
    let test = "tables_of_every_type_are_made_changed_and_asked";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("typed");
    net.start("table <pf> persist { 10.9.9.9 }\nblock in from <pf>\npass\n");
    for (name, kind, values, entry, asked) in [
        ("hops", "addr", "nexthop,tag", "10.0.0.0/8 tag office nexthop 192.0.2.1", "10.1.2.3"),
        ("ports", "number", "skipto,mark", "443 skipto web mark 7", "443"),
        ("lans", "iface", "dscp", "em0 dscp 46", "em0"),
        (
            "flows",
            "flow",
            "tag",
            "10.0.0.1,tcp,5,10.0.0.2,80 tag bad",
            "10.0.0.1,tcp,5,10.0.0.2,80",
        ),
        ("six", "flow:src-ip,dst-ip", "tag", "fd00::1,fd00::2 tag bad", "fd00::1,fd00::2"),
    ] {
        table(&net, &format!("create {name} --type {kind} --values {values}"));
        assert_eq!(table(&net, &format!("add {name} {entry}")), "1 added, 0 updated\n");
        // In its place, and in a new set.
        assert_eq!(table(&net, &format!("add {name} {entry}")), "0 added, 1 updated\n");
        assert_eq!(table(&net, &format!("list {name}")), format!("{entry}\n"));
        assert_eq!(table(&net, &format!("lookup {name} {asked}")), format!("{asked}: {entry}\n"));
    }
    // The longest network is the entry; what is not there makes the exit code 1.
    table(&net, "add hops 10.1.0.0/16 nexthop 192.0.2.2");
    let found = table_as(&net, "lookup hops 10.1.2.3 11.0.0.1", 1);
    assert_eq!(found, "10.1.2.3: 10.1.0.0/16 nexthop 192.0.2.2\n11.0.0.1: no entry\n");
    let list = json(&net, "list hops");
    assert_eq!(
        (&list["entry_count"], &list["entries"][1]["nexthop"]),
        (&2.into(), &"192.0.2.2".into())
    );

    assert_mistakes_are_refused(&net);
    assert_locks_and_limits_hold(&net);

    // Two sets change places.
    table(&net, "create hops --set 5 --values nexthop,tag");
    table(&net, "add hops --set 5 10.0.0.0/8 tag new");
    assert_eq!(table(&net, "swap-sets 5"), "6 swapped\n");
    assert_eq!(table(&net, "list hops"), "10.0.0.0/8 tag new\n");
    assert_eq!(json(&net, "info").as_array().map(Vec::len), Some(1));
    assert_eq!(table(&net, "list lans --set 5"), "em0 dscp 46\n");
}

fn assert_mistakes_are_refused(net: &Network) {
    for (words, why) in [
        ("create hops", "there is a table <hops> already"),
        ("create pf", "<pf> is a table of pf.conf already"),
        (&format!("create {}", "x".repeat(64)), "at most 63 bytes, and this one has 64"),
        ("create new --type mac", "`mac` is not a key type"),
        ("create new --values colour", "`colour` is not a value"),
        ("create new --set 32", "table set 32 is out of range"),
        ("add nobody 10.0.0.1", "no typed table <nobody> exists"),
        ("add hops em0", "`em0` is not an address or network"),
        ("add hops 10.0.0.1 mark 3", "the table has no value `mark`: its values are tag,nexthop"),
        ("add ports 1.2.3.4", "`1.2.3.4` is not a number"),
        ("delete hops 10.7.0.0/16", "10.7.0.0/16 is not in table <hops>: nothing was deleted"),
        ("swap hops ports", "only tables of one type and the same values are swapped"),
    ] {
        assert_refused(net, words, why);
    }
    let output = net.run(&["pfctl", "-t", "hops", "-T", "add", "10.0.0.1"]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("<hops> is a typed table"), "{}", stderr(&output));
}

fn assert_locks_and_limits_hold(net: &Network) {
    assert_eq!(table(net, "lock hops"), "locked\n");
    for words in ["add hops 10.3.0.0/16", "delete hops 10.0.0.0/8", "flush hops", "destroy hops"] {
        assert_refused(net, words, "table <hops> is locked: `weir fw table unlock hops`");
    }
    assert_eq!(table(net, "unlock hops"), "unlocked\n");
    table(net, "create small --type number --limit 2");
    table(net, "add small 1");
    let two_more = net.file("two", "2\n3\n");
    assert_refused(net, &format!("add small -f {two_more}"), "3 entries are more than the 2");
    table(net, "add small 2");
    assert_refused(net, "add small 3", "3 entries are more than the 2 that table <small>");
    table(net, "create large --type number");
    assert_eq!(table(net, &format!("add large -f {two_more}")), "2 added, 0 updated\n");
    table(net, "swap small large");
    assert_eq!(
        (table(net, "list small"), table(net, "list large")),
        ("2\n3\n".into(), "1\n2\n".into())
    );
    table(net, "add large 3");
    assert_refused(net, "swap small large", "3 entries are more than the 2");
    assert_eq!(json(net, "info small")[0]["limit"], 2);
    assert!(table(net, "info small").starts_with("small: type number, 2 entries of 2, "));

    // Entries go one by one, as a list, and all.
    assert_eq!(table(net, "delete small 2"), "1 deleted\n");
    assert_eq!(table(net, &format!("delete large -f {two_more}")), "2 deleted\n");
    assert_eq!(table(net, "flush large"), "1 deleted\n");
    assert_eq!(table(net, "list large"), "");
    assert_eq!(table(net, "destroy small large"), "2 destroyed\n");
    assert_refused(net, "info small", "no typed table <small> exists");
}

#[test]
fn a_batch_is_there_as_a_whole_or_not_at_all() {
    let test = "a_batch_is_there_as_a_whole_or_not_at_all";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("batch");
    net.start("set limit table-entries 200000\npass\n");
    table(&net, "create big --values mark");
    let list = |first: u32| {
        let mut list = String::new();
        for number in 0..100_000 {
            let address = std::net::Ipv4Addr::from(first + number);
            let _ = writeln!(list, "{address} mark {}", number % 1000);
        }
        list
    };
    let batch = list(0x0a00_0000);
    let bad = net.file("bad", &format!("{batch}10.0.0.0/8 mark x # the last one\n"));
    let why = format!("{bad}:100001: `x` is not a mark of 32 bits: nothing was changed");
    assert_refused(&net, &format!("add big -f {bad}"), &why);
    assert_eq!(table(&net, "list big"), "");
    let good = net.file("good", &batch);
    assert_eq!(table(&net, &format!("add big -f {good}")), "100000 added, 0 updated\n");
    let info = &json(&net, "info big")[0];
    assert_eq!((&info["entries"], &info["different_values"]), (&100_000.into(), &1000.into()));
    let bytes = info["memory_bytes"].as_u64().expect("a number");
    assert!(bytes <= 16 * 100_000, "{bytes} bytes");
    assert_eq!(table(&net, "lookup big 10.1.0.1"), "10.1.0.1: 10.1.0.1/32 mark 537\n");
    // What all tables may have together.
    let more = list(0x0b00_0000) + "12.0.0.1\n";
    let more = net.file("more", &more);
    assert_refused(&net, &format!("add big -f {more}"), "200001 entries of tables are more than");
    assert_eq!(json(&net, "info big")[0]["entries"], 100_000);

    // A reload changes none of it, and the next daemon has it, with what came in its place.
    table(&net, "add big 10.0.0.1 mark 999");
    table(&net, "lock big");
    net.reload("set limit table-entries 200000\nblock\n");
    net.kill_daemon();
    net.start("set limit table-entries 200000\npass\n");
    let info = &json(&net, "info big")[0];
    assert_eq!((&info["entries"], &info["locked"]), (&100_000.into(), &true.into()));
    assert_eq!(table(&net, "lookup big 10.0.0.1"), "10.0.0.1: 10.0.0.1/32 mark 999\n");
    assert_eq!(table(&net, "list big").lines().count(), 100_000);
}

#[test]
fn sixty_five_thousand_tables_have_long_names() {
    let test = "sixty_five_thousand_tables_have_long_names";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("names");
    net.start("pass\n");
    let mut names = String::new();
    for number in 0..65_000 {
        let _ = writeln!(names, "{number:0>63}");
    }
    let names = net.file("names", &names);
    let made = table(&net, &format!("create -f {names} --type number --values tag"));
    assert_eq!(made, "65000 created\n");
    let last = format!("{:0>63}", 64_999);
    table(&net, &format!("add {last} 7 tag x"));
    net.kill_daemon();
    net.start("pass\n");
    assert_eq!(table(&net, &format!("list {last}")), "7 tag x\n");
    assert_eq!(json(&net, "info").as_array().map(Vec::len), Some(65_000));
}

/// Destinations have next hops, and services verdicts. What comes back comes by the same uplink.
const BY_TABLES: &str = "\
table <hops> type addr values nexthop,tag limit 20
table <verdicts> type flow:proto,dst-port values tag
nat on b1 inet from b0:network to any -> (b1)
nat on b2 inet from b0:network to any -> (b2)
block return
match in on b0 to <verdicts> tag value
pass in on b0 inet route-to <hops>
block return in on b0 tagged refuse
pass out
";

/// By which uplink a new connection goes, and how.
fn uplink(site: &Site, port: u16) -> String {
    seen(&site.net.client, WORLD, port).ip().to_string()
}

#[test]
fn next_hops_and_verdicts_come_from_typed_tables() {
    let test = "next_hops_and_verdicts_come_from_typed_tables";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new("typed-up", true);
    let net = &site.net;
    let (first, second) = ("10.2.0.1", "10.3.0.1");
    net.start(BY_TABLES);
    assert_eq!(uplink(&site, 7001), first, "what has no entry goes by the kernel's routes");
    // The network, then the address in it; each in its place or in a new set.
    table(net, "add hops 203.0.113.0/24 nexthop 10.3.0.2");
    assert_eq!(uplink(&site, 7001), second);
    table(net, "add hops 203.0.113.9 nexthop 10.2.0.2");
    assert_eq!(uplink(&site, 7001), first);
    table(net, "delete hops 203.0.113.9");
    assert_eq!(uplink(&site, 7001), second);
    // Another table in its place.
    table(net, "create spare --values nexthop,tag");
    table(net, "add spare 203.0.113.9 nexthop 10.2.0.2");
    table(net, "swap hops spare");
    assert_eq!(uplink(&site, 7001), first);
    table(net, "swap hops spare");
    assert_eq!(uplink(&site, 7001), second);

    // A verdict by flow.
    let passes = || connect_from(&net.client, WORLD, 7002, IMPATIENCE).is_some();
    assert!(passes());
    table(net, "add verdicts tcp,7002 tag refuse");
    assert!(!passes() && uplink(&site, 7001) == second);
    table(net, "add verdicts tcp,7002 tag welcome");
    assert!(passes());
    table(net, "add verdicts udp,7002 tag refuse");
    assert!(passes(), "of another protocol");
    table(net, "add verdicts tcp,7002 tag refuse");
    assert!(!passes());

    // Over a reload, without a daemon, and with the next one.
    net.reload(BY_TABLES);
    assert!(!passes() && uplink(&site, 7001) == second);
    net.kill_daemon();
    assert!(!passes() && uplink(&site, 7001) == second);
    net.start(BY_TABLES);
    assert!(!passes() && uplink(&site, 7001) == second);
    assert_eq!(table(net, "list hops"), "203.0.113.0/24 nexthop 10.3.0.2\n");
    assert_eq!(json(net, "info hops")[0]["used_by_rules"], true);
    let states = net.pfctl("-vvss");
    assert!(states.contains("\n   route-to: 10.3.0.2"), "{states}");
    assert_uses_are_guarded(net);
    assert_eq!(uplink(&site, 7001), second, "nothing of that has changed anything");
    // Without rules that use it, it goes.
    net.reload("pass\n");
    assert_eq!(table(net, "destroy hops verdicts"), "2 destroyed\n");
}

/// What would change a table under its rules, or the rules under a table.
fn assert_uses_are_guarded(net: &Network) {
    assert_refused(net, "destroy hops", "table <hops> is used by the ruleset");
    let mut many = String::new();
    for number in 1..17 {
        let _ = writeln!(many, "198.51.100.{number} nexthop 10.2.0.{number}");
    }
    let many = net.file("many", &many);
    let why = "states keep at most 15 different gateways and sockets, and rules have 17";
    assert_refused(net, &format!("add hops -f {many}"), why);
    assert_eq!(json(net, "info hops")[0]["entries"], 1);
    assert_refused(net, "swap-sets 3", "rules use <hops>, and set 3 has no such table");
    for (rules, why) in [
        ("table <hops> type number\npass\n", "<hops> is declared `type number`, and it is `type"),
        ("table <hops> { 10.0.0.1 }\npass\n", "<hops> is a typed table here"),
        ("pass in from <hops>\n", "<hops> is a typed table: declare it"),
        ("table <hops> type addr values nexthop,tag limit 0\npass\n", "1 entries are more than"),
        ("table <if> type iface\nblock to <if>\n", "keys of type iface, which no rule asks"),
    ] {
        let path = net.file("wrong.conf", rules);
        let output = net.run(&["pfctl", "-f", &path]);
        assert_exit(&output, 1);
        assert!(stderr(&output).contains(why), "{rules}: {}", stderr(&output));
    }
    let path = net.file("by-tables.conf", BY_TABLES);
    assert_exit(&net.run(&["fw", "check", &path]), 0);
    for words in [["--dialect", "freebsd"], ["--for", "freebsd"]] {
        let output = net.run(&["fw", "check", words[0], words[1], &path]);
        assert_exit(&output, 1);
        let said = stdout(&output) + &stderr(&output);
        let why = "by-tables.conf:1:1: error: `table` with `type` is weir's own: no pf has it";
        assert!(said.contains(why) && said.contains("`route-to <table>`"), "{said}");
    }
    let output = net.run(&["pfctl", "--dialect=freebsd", "-f", &path]);
    assert_exit(&output, 1);
}

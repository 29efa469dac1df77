//! `weir pfctl`, option by option, on a firewall that runs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::network::{IMPATIENCE, Network, PATIENCE, SERVER, SERVER6, echo_server, wait_until};
use crate::common::{assert_exit, can_run_lab, stderr, stdout};
use crate::turns::beside;

/// Two tables, two labels, and everything in them.
const RULES: &str = "\
table <bad> persist
table <fixed> const { 192.0.2.0/24 }
block return
block in quick on b0 from { <bad> <fixed> }
pass proto icmp6 no state
pass in quick on b0 proto tcp to any port 7001 keep state label \"one\"
pass in quick on b0 proto tcp to any port 7002 keep state label \"other\"
pass out quick on b1 proto tcp keep state
";

fn network(tag: &str) -> Network {
    let net = Network::new(tag);
    for (host, port) in [(SERVER, 7001), (SERVER, 7002), (SERVER6, 7001)] {
        echo_server(&net.server, host, port);
    }
    net
}

/// What `pfctl` says where it is to fail with this code.
#[track_caller]
fn refused(net: &Network, words: &str, code: i32) -> String {
    let arguments: Vec<&str> = ["pfctl"].into_iter().chain(words.split(' ')).collect();
    let output = net.run(&arguments);
    assert_exit(&output, code);
    stdout(&output) + &stderr(&output)
}

#[test]
fn states_are_killed_by_host_label_and_id() {
    let test = "states_are_killed_by_host_label_and_id";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("kill");
    net.start(RULES);
    let open = |host: &str, port: u16| {
        let mut line = net.connect(host, port, PATIENCE).expect("passed");
        line.echo("hello");
        line.port()
    };
    let has = |port: u16| net.pfctl("-ss").contains(&format!(":{port} "));
    let has6 = |port: u16| net.pfctl("-ss").contains(&format!("[{port}]"));
    let (one, other, six) = (open(SERVER, 7001), open(SERVER, 7002), open(SERVER6, 7001));
    assert!(has(one) && has(other) && has6(six), "{}", net.pfctl("-ss"));

    // One host, then from one to the other, of one family alone; the second may be a network.
    assert_eq!(net.pfctl("-k 10.9.9.9"), "killed 0 states from 1 sources and 0 destinations\n");
    assert_eq!(
        net.pfctl("-k 10.1.0.2 -k 10.3.0.0/16"),
        "killed 0 states from 1 sources and 1 destinations\n"
    );
    assert_eq!(net.pfctl("-k fd01::2"), "killed 1 states from 1 sources and 0 destinations\n");
    assert!(has(one) && has(other) && !has6(six));
    assert_eq!(net.pfctl("-k label -k one"), "killed 1 states\n");
    assert!(!has(one) && has(other));

    // Identifiers are those that -vvss prints.
    let text = net.pfctl("-vvss");
    let id = text.split_whitespace().skip_while(|word| *word != "id:").nth(1).expect("an id");
    assert_eq!(net.pfctl("-k id -k 00000000000000ff"), "killed 0 states\n");
    assert_eq!(net.pfctl(&format!("-k id -k {id}")), "killed 1 states\n");
    assert!(!has(other));
    let third = open(SERVER, 7001);
    assert_eq!(
        net.pfctl("-k 0.0.0.0/0 -k 10.2.0.2"),
        "killed 1 states from 1 sources and 1 destinations\n"
    );
    assert!(!has(third));

    // States of one interface, where they are bound to it.
    net.reload(&format!("set state-policy if-bound\n{RULES}"));
    open(SERVER, 7001);
    assert!(net.pfctl("-ss -i b0").starts_with("b0 tcp "), "{}", net.pfctl("-ss"));
    assert_eq!(net.pfctl("-ss -i b9"), "");
    assert!(net.pfctl("-Fs").ends_with(" states cleared\n"));
    assert_eq!(net.pfctl("-ss"), "");
    for words in ["-k nobody.example", "-k 10.0.0.0/40", "-k label", "-k id -k zz", "-k gateway"] {
        refused(&net, words, 1);
    }
    refused(&net, "-k 1.1.1.1 -k 1.1.1.1 -k 1.1.1.1", 1);
}

#[test]
fn tables_are_changed_by_every_command() {
    let test = "tables_are_changed_by_every_command";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("tables");
    net.start(RULES);
    let of = |words: &str| net.pfctl(&format!("-t bad -T {words}"));
    assert_eq!(of("add 198.51.100.7 2001:db8::/32 198.51.100.7"), "2/3 addresses added.\n");
    assert_eq!(of("show"), "   198.51.100.7\n   2001:db8::/32\n");
    assert_eq!(of("test 198.51.100.7 2001:db8::9"), "2/2 addresses match.\n");
    assert_eq!(refused(&net, "-t bad -T test 198.51.100.7 10.0.0.1", 2), "1/2 addresses match.\n");
    let marked = refused(&net, "-t bad -v -T test 198.51.100.7 10.0.0.1", 2);
    assert_eq!(marked, "   198.51.100.7\n1/2 addresses match.\n");
    assert_eq!(of("delete 198.51.100.7 10.0.0.1"), "1/2 addresses deleted.\n");
    let printed = of("replace 10.0.0.0/8 !10.1.0.0/16 2001:db8::/32");
    assert_eq!(printed, "2 addresses added.\n");
    assert_eq!(of("replace 10.0.0.0/8 !10.1.0.0/16 2001:db8::/32"), "no changes.\n");
    assert_eq!(net.run(&["pfctl", "-t", "bad", "-T", "test", "10.1.0.2"]).status.code(), Some(2));
    assert!(net.connect(SERVER, 7001, PATIENCE).is_some(), "the negated network has it");

    // From a file, with comments.
    let path = net.file("list", "10.1.0.2 # the client\n\n203.0.113.0/24\n");
    assert_eq!(of(&format!("replace -f {path}")), "2 addresses added.\n3 addresses deleted.\n");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "it is in the table");
    assert_eq!(of("flush"), "2 addresses deleted.\n");
    net.connect(SERVER, 7001, PATIENCE).expect("the table is empty").echo("in");

    // When an entry was added, or cleared; what is older than so many seconds goes.
    of("add 198.51.100.7 198.51.100.8");
    let shown = of("show -v");
    assert_eq!(shown.matches("\tCleared:     ").count(), 2, "{shown}");
    assert_eq!(of("expire 3600"), "0/0 addresses expired.\n");
    assert_eq!(of("zero 198.51.100.7 192.0.2.1"), "1/2 addresses cleared.\n");
    assert_eq!(of("zero"), "1 table/stats cleared.\n");
    wait_until("they are older than a second", || of("expire 1") == "2/2 addresses expired.\n");
    assert_eq!(of("show"), "");
    for words in ["expire", "expire x", "expire 1 2"] {
        refused(&net, &format!("-t bad -T {words}"), 1);
    }

    // Tables as such.
    assert_eq!(net.pfctl("-sT"), "bad\nfixed\n");
    assert_eq!(net.pfctl("-vsT"), "-pa-r--\tbad\nc-a-r--\tfixed\n");
    assert!(net.pfctl("-vvsT").contains("\tAddresses:   1\n"), "{}", net.pfctl("-vvsT"));
    assert!(refused(&net, "-t fixed -T add 10.0.0.1", 1).contains("is const"));
    assert!(refused(&net, "-t none -T show", 1).contains("Table does not exist."));
    assert_eq!(net.pfctl("-t more -T add 10.0.0.1"), "1 table created.\n1/1 addresses added.\n");
    assert_eq!(net.pfctl("-t more -T kill"), "1 table deleted.\n");
    assert!(refused(&net, "-t more -T kill", 1).contains("Table does not exist."));

    // Of a file, the tables alone: rules stay.
    of("add 10.1.0.2");
    let path = net.file("tables.conf", "table <bad> persist { 192.0.2.9 }\nblock all\n");
    net.pfctl(&format!("-T load -f {path}"));
    assert_eq!(of("show"), "   192.0.2.9\n");
    net.connect(SERVER, 7001, PATIENCE).expect("the rules are the same").echo("in");
    of("add 10.1.0.2");
    assert!(net.pfctl("-FT").ends_with("tables deleted.\n"));
    net.connect(SERVER, 7001, PATIENCE).expect("the table is empty").echo("in");
}

/// A source that connects too often goes into a table, and its states end.
#[test]
fn a_source_that_comes_too_often_is_overloaded_and_forgiven() {
    let test = "a_source_that_comes_too_often_is_overloaded_and_forgiven";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("often");
    let rules = |limit: &str| {
        format!(
            "table <rude> persist\nset timeout {{ tcp.closed 1, tcp.finwait 1, interval 1 }}\n\
             block return\nblock in quick on b0 from <rude>\n\
             pass proto icmp6 no state\npass out quick on b1 proto tcp keep state\n\
             pass in on b0 proto tcp to any port 7001 keep state ({limit})\n"
        )
    };
    net.start(&rules("max-src-conn-rate 3/60, overload <rude> flush"));
    let mut lines = Vec::new();
    for _ in 0..3 {
        let mut line = net.connect(SERVER, 7001, PATIENCE).expect("not too often yet");
        line.echo("hello");
        lines.push(line);
    }
    // With its completion the fourth is one too many.
    drop(net.connect(SERVER, 7001, IMPATIENCE));
    wait_until("the source is in the table", || net.pfctl("-t rude -T show") == "   10.1.0.2\n");
    wait_until("its states have ended", || !net.pfctl("-ss").contains(":7001"));
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "it is blocked");
    let test = net.run(&["pfctl", "-t", "rude", "-T", "test", "10.1.0.2"]);
    assert_exit(&test, 0);

    // Sources are shown, and their entries ended: what they counted is forgotten.
    net.reload(&rules("source-track rule, max-src-states 2"));
    // The rule before remembers for a minute how often it came.
    assert_eq!(net.pfctl("-F Sources"), "source tracking entries cleared\n");
    assert_eq!(net.pfctl("-t rude -T delete 10.1.0.2"), "1/1 addresses deleted.\n");
    let mut one = net.connect(SERVER, 7001, PATIENCE).expect("the first");
    let mut two = net.connect(SERVER, 7001, PATIENCE).expect("the second");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "a third is one too many");
    assert!(net.dropped("src-limit") > 0);
    let shown = net.pfctl("-s Sources");
    assert!(shown.starts_with("10.1.0.2 -> 0.0.0.0 ( states 2, connections 2, rate "), "{shown}");
    let shown = net.pfctl("-v -s Sources");
    assert!(shown.contains("\n   age 00:0") && shown.contains(" bytes, filter rule "), "{shown}");
    let none = "killed 0 src nodes from 1 sources and 0 destinations\n";
    assert_eq!(net.pfctl("-K 10.1.0.9"), none);
    assert_eq!(
        net.pfctl("-K 10.1.0.0/24"),
        "killed 1 src nodes from 1 sources and 0 destinations\n"
    );
    assert_eq!(net.pfctl("-s Sources"), "");
    let mut three = net.connect(SERVER, 7001, PATIENCE).expect("nothing counts before it");
    for line in [&mut one, &mut two, &mut three] {
        line.echo("all go on");
    }
    // States that were counted before it end without being counted off.
    drop((one, two));
    wait_until("they are gone", || {
        net.pfctl("-ss").lines().filter(|state| state.contains(":7001")).count() == 1
    });
    three.echo("and this one goes on");
    let shown = net.pfctl("-s Sources");
    assert!(shown.contains("( states 1, connections 1,"), "{shown}");
    assert_eq!(net.pfctl("-F Sources"), "source tracking entries cleared\n");
    assert_eq!(net.pfctl("-s Sources"), "");
    three.echo("still");
}

#[test]
fn rules_counters_and_settings_are_shown_and_flushed() {
    let test = "rules_counters_and_settings_are_shown_and_flushed";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("show");
    net.start(RULES);
    net.connect(SERVER, 7001, PATIENCE).expect("passed").echo("hello");

    let sized = [("<bad>", "<bad:0>"), ("<fixed>", "<fixed:1>")];
    let rules =
        sized.iter().fold(net.pfctl("-sr"), |rules, (name, sized)| rules.replace(name, sized));
    let numbered = net.pfctl("-vvsr");
    let expected = rules.lines().enumerate().map(|(at, rule)| format!("@{at} {rule}"));
    let found: Vec<&str> = numbered.lines().filter(|line| line.starts_with('@')).collect();
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(numbered.matches("[ Inserted: uid 0 pid ").count(), found.len(), "{numbered}");
    let steps = net.pfctl("-gsr");
    assert!(steps.contains("  [ Skip steps: "), "{steps}");
    assert_eq!(net.pfctl("-st").lines().next(), Some("tcp.first                   120s"));
    let memory = net.pfctl("-sm");
    for name in ["states ", "src-nodes ", "frags ", "table-entries "] {
        let line = memory.lines().find(|line| line.starts_with(name)).expect(name);
        assert!(line.contains("hard limit "), "{memory}");
    }
    let interfaces = net.pfctl("-sI");
    for name in ["all", "b0", "b1"] {
        assert!(interfaces.lines().any(|line| line == name), "{name}: {interfaces}");
    }
    let counted = net.pfctl("-vvsI -i b0");
    assert!(counted.starts_with("b0\n\tCleared:     "), "{counted}");
    assert!(counted.contains("\tIn4/Pass:    [ Packets: "), "{counted}");
    assert_eq!(net.pfctl("-s Running"), "Enabled\n");
    assert_eq!(net.pfctl("-sn"), "");
    anchors_come_and_go(&net);
    settings_are_merged(&net);

    let printed = net.pfctl("-Fa");
    for part in ["rules cleared", "tables deleted", "states cleared", "pf: statistics cleared"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert_eq!(net.pfctl("-sr"), "");
    let output = net.run(&["pfctl", "-d"]);
    assert_exit(&output, 0);
    assert_eq!(refused(&net, "-s Running", 1), "Disabled\n");
}

/// A line of `-vsi` below a title: the number behind a name.
fn counted(info: &str, title: &str, name: &str) -> u64 {
    let mut lines = info.lines().skip_while(|line| *line != title).skip(1);
    let section = lines.by_ref().take_while(|line| line.starts_with("  "));
    let mut section = section.filter_map(|line| line.strip_prefix("  ")?.strip_prefix(name));
    let rest = section.next().unwrap_or_else(|| panic!("no {name} below {title}: {info}"));
    rest.split_whitespace().next().expect("a count").parse().expect("a number")
}

/// The first piece of a datagram of the client's to port 7009.
fn lone_fragment(net: &Network) {
    let lone = "use Socket; socket(S, AF_INET, SOCK_RAW, 255) or die; \
                my $ip = pack('C2n3C2n', 0x45, 0, 36, 7, 0x2000, 64, 17, 0) . \
                inet_aton('10.1.0.2') . inet_aton('10.2.0.2'); \
                my $udp = pack('n4', 1000, 7009, 3000, 0) . 'x' x 8; \
                send(S, $ip . $udp, 0, sockaddr_in(0, inet_aton('10.2.0.2'))) or die";
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", net.client.name(), "perl", "-e", lone]);
    assert_exit(&command.output().expect("ip runs"), 0);
}

/// Rules whose limits are met.
const COUNTED: &str = "\
table <rude> persist
set timeout { tcp.closed 1, tcp.finwait 1, interval 1 }
block return
block in quick on b0 from <rude>
pass proto icmp6 no state
pass out quick on b1 proto { tcp udp } keep state
pass in quick on b0 proto udp to any port 7009 keep state
pass in on b0 inet proto tcp to any port 7001 keep state (max-src-states 2)
pass in on b0 inet proto tcp to any port 7002 keep state (max-src-conn 1, overload <rude> flush)
pass in on b0 inet6 proto tcp to any port 7001 keep state (max 1)
";

/// pf's limits.
const LIMITS: [&str; 7] = [
    "max states per rule",
    "max-src-states",
    "max-src-nodes",
    "max-src-conn ",
    "max-src-conn-rate",
    "overload table insertion",
    "overload flush states",
];

/// What `-vsi` says of sources, of fragments, and of limits that were met.
#[test]
fn sources_fragments_and_limits_are_counted() {
    let test = "sources_fragments_and_limits_are_counted";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("count");
    net.start(COUNTED);
    let info = || net.pfctl("-vsi");
    let (sources, limits) = ("Source Tracking Table", "Limit Counters");
    let of = |title: &str, name: &str| counted(&info(), title, name);
    for name in ["current entries", "searches", "inserts", "removals"] {
        assert_eq!(of(sources, name), 0, "{name}");
    }
    assert_eq!(of("Fragments", "current entries"), 0);
    assert_eq!(LIMITS.map(|name| of(limits, name)), [0; 7]);

    // Two states of one source, and a third too many.
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
        line.echo("hello");
        kept.push(line);
    }
    let before = info();
    let of_sources = |name: &str| counted(&before, sources, name);
    assert_eq!((of_sources("current entries"), of_sources("inserts")), (1, 1));
    assert!(of_sources("searches") >= 2 && of_sources("removals") == 0, "{before}");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "a third is one too many");
    assert!(of(limits, "max-src-states") >= 1);

    // A rule's `max`.
    kept.push(net.connect(SERVER6, 7001, PATIENCE).expect("the only one"));
    assert!(net.connect(SERVER6, 7001, IMPATIENCE).is_none(), "it may have one");
    assert!(of(limits, "max states per rule") >= 1);

    // A datagram whose other pieces never come.
    lone_fragment(&net);
    wait_until("it is waited for the others", || of("Fragments", "current entries") == 1);

    // One connection is allowed, and the second one overloads.
    let mut line = net.connect(SERVER, 7002, PATIENCE).expect("passed");
    line.echo("hello");
    drop(net.connect(SERVER, 7002, IMPATIENCE));
    wait_until("the source is in the table", || net.pfctl("-t rude -T show") == "   10.1.0.2\n");
    let now = LIMITS.map(|name| of(limits, name));
    assert!(now[3] >= 1 && now[5] >= 1 && now[6] >= 1, "{now:?}");
    assert_eq!((now[2], now[4]), (0, 0), "the others were not met");
    // Nodes go with their last state, which the flush has ended.
    wait_until("nodes have gone", || of(sources, "removals") >= 1);
    assert_eq!(net.pfctl("-Fi"), "pf: statistics cleared\n");
    assert_eq!(of(sources, "inserts"), 0);
    assert_eq!(LIMITS.map(|name| of(limits, name)), [0; 7]);
}

#[test]
fn states_of_rules_that_are_gone_have_their_labels() {
    let test = "states_of_rules_that_are_gone_have_their_labels";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("gone");
    net.start(RULES);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("hello");
    net.reload("pass proto icmp6 no state\npass\n");
    line.echo("the state is there");
    assert_eq!(net.pfctl("-k label -k other"), "killed 0 states\n");
    assert_eq!(net.pfctl("-k label -k one"), "killed 1 states\n");
    assert_eq!(net.pfctl("-k label -k one"), "killed 0 states\n");
}

#[test]
fn rules_are_shown_with_what_they_call_and_how_large_tables_are() {
    let test = "rules_are_shown_with_what_they_call_and_how_large_tables_are";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("star");
    let rules = "table <bad> persist { 192.0.2.1 192.0.2.2 }\nblock in from <bad>\n\
                 anchor \"one\"\npass\n";
    net.start(rules);
    let path = net.file("one.conf", "block in proto tcp to port 7009\n");
    net.pfctl(&format!("-a one -f {path}"));
    assert_eq!(
        net.pfctl("-P -a * -sr"),
        "block drop in from <bad> to any\nanchor \"one\" all {\n  \
         block drop in proto tcp from any to any port = 7009\n}\npass all flags S/SA keep state\n"
    );
    assert_eq!(net.pfctl("-sr").lines().nth(1), Some("anchor \"one\" all"));
    let first = net.pfctl("-vvsr");
    assert!(first.starts_with("@0 block drop in from <bad:2> to any\n"), "{first}");
}

/// A `once` rule ends with its first connection, is hidden then, and begins anew with its anchor.
#[test]
fn a_rule_with_once_ends_and_begins_anew_when_it_is_loaded() {
    let test = "a_rule_with_once_ends_and_begins_anew_when_it_is_loaded";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("once");
    net.start(
        "block return\npass proto icmp6 no state\nanchor \"one\"\npass out on b1 proto tcp\n",
    );
    let rule =
        "pass in quick on b0 proto tcp from any to any port = 7001 flags S/SA keep state once\n";
    let path = net.file("one.conf", "pass in quick on b0 proto tcp to port 7001 once\n");
    net.pfctl(&format!("-a one -f {path}"));
    assert_eq!(net.pfctl("-P -a one -sr"), rule);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("the first one");
    line.echo("hello");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "the rule has ended");
    line.echo("the state goes on");
    assert_eq!(net.pfctl("-P -a one -sr"), "");
    let shown = net.pfctl("-P -a one -vsr");
    assert!(shown.starts_with(rule) && shown.contains("[ Expired"), "{shown}");
    net.pfctl(&format!("-a one -f {path}"));
    net.connect(SERVER, 7001, PATIENCE).expect("once more").echo("hello");
    assert_eq!(net.pfctl("-P -a one -sr"), "");
}

/// Anchors: rules of their own, and gone with them.
fn anchors_come_and_go(net: &Network) {
    let path = net.file("anchor.conf", "block in quick proto tcp to any port 7001\n");
    net.reload(&format!("anchor \"own/*\"\n{RULES}"));
    net.pfctl(&format!("-a own/one -f {path}"));
    assert_eq!(
        net.pfctl("-P -a own/one -sr"),
        "block drop in quick proto tcp from any to any port = 7001\n"
    );
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "blocked by the anchor");
    assert_eq!(net.pfctl("-s Anchors"), "  own\n");
    assert_eq!(net.pfctl("-a own -s Anchors"), "  own/one\n");
    assert_eq!(net.pfctl("-a own/one -Fr"), "rules cleared\n");
    net.connect(SERVER, 7001, PATIENCE).expect("the anchor is empty").echo("hello");
}

/// Settings alone are merged into what runs; rules are optimised, or as they are written.
fn settings_are_merged(net: &Network) {
    let path = net.file("set.conf", "set timeout tcp.first 77\n");
    net.pfctl(&format!("-mO -f {path}"));
    assert_eq!(net.pfctl("-st").lines().next(), Some("tcp.first                    77s"));
    assert!(net.pfctl("-sr").contains("block return"), "rules stay");
    assert_eq!(net.pfctl("-x loud"), "debug level set to 'loud'\n");
    assert!(net.pfctl("-si").contains("Debug: Loud"), "{}", net.pfctl("-si"));

    // Optimised, or as they are written.
    let many = "pass in quick on b0 from 10.1.0.2\npass in quick on b0 from 10.1.0.2\nblock\n";
    let path = net.file("many.conf", many);
    net.pfctl(&format!("-o none -f {path}"));
    assert_eq!(net.pfctl("-sr").lines().count(), 3);
    net.pfctl(&format!("-o basic -f {path}"));
    assert_eq!(net.pfctl("-sr").lines().count(), 2);
    net.pfctl(&format!("-o profile -f {path}"));
    assert_eq!(net.pfctl("-sr").lines().count(), 2);
    net.pfctl(&format!("-n -f {path}"));
}

/// A GET request in the firewall's namespace.
fn get(net: &Network, address: &str, path: &str) -> String {
    let stream = net.router.run(|| TcpStream::connect(address)).expect("entered");
    let mut stream = stream.expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text comes");
    answer
}

#[test]
fn metrics_come_by_http() {
    let test = "metrics_come_by_http";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("metrics");
    // The namespace's loopback is down until somebody asks for it.
    let up = || weir_net::Netlink::open().expect("netlink").set_up("lo").expect("up");
    net.router.run(up).expect("entered");
    let rules = net.file("pf.conf", RULES);
    // A port alone is one of the loopback address.
    let address = "127.0.0.1:9199";
    assert_exit(&net.run(&["fw", "run", "-f", &rules, "--metrics", "9199"]), 0);
    let elsewhere = || TcpStream::connect("10.1.0.1:9199");
    assert!(net.router.run(elsewhere).expect("entered").is_err(), "and of no other one");
    net.connect(SERVER, 7001, PATIENCE).expect("passed").echo("hello");
    assert!(net.connect(SERVER, 7009, IMPATIENCE).is_none(), "blocked");
    let answer = get(&net, address, "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let value = |name: &str| -> f64 {
        let line = body.lines().find(|line| line.starts_with(name)).expect(name);
        line.rsplit(' ').next().expect("a value").parse().expect("a number")
    };
    assert!(value("weir_fw_states ") >= 1.0, "{body}");
    let blocked = body.lines().filter(|line| line.contains("reason=\"match\""));
    let blocked = blocked.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(blocked.sum::<f64>() >= 1.0, "{body}");
    assert!(get(&net, address, "/other").starts_with("HTTP/1.1 404"), "nothing else is there");
}

/// What `pfctl -vT show` prints as counted of the only entry of a table: packets of each line.
#[track_caller]
fn entry_packets(net: &Network, table: &str) -> Vec<u64> {
    let shown = net.pfctl(&format!("-t {table} -v -T show"));
    let counts = shown.lines().filter_map(|line| line.split_once("Packets: "));
    let first = |(_, rest): (&str, &str)| rest.split_whitespace().next().map(str::parse::<u64>);
    counts.filter_map(first).map(|count| count.expect("a number")).collect()
}

/// Waits for the client's last acknowledgement, which may come late: nothing is left then that the
/// server waits for.
fn all_is_acknowledged(net: &Network) {
    let queues = || {
        let mut command = std::process::Command::new("ip");
        command.args(["netns", "exec", net.server.name()]);
        command.args(["ss", "-Htn", "state", "established", "sport", "=", ":7001"]);
        let output = command.output().expect("ip runs");
        assert_exit(&output, 0);
        stdout(&output)
    };
    // Bytes to be read, and bytes to be acknowledged.
    wait_until("all is acknowledged", || queues().split_whitespace().nth(1) == Some("0"));
}

#[test]
fn entries_of_tables_count_packets() {
    let test = "entries_of_tables_count_packets";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = network("counters");
    let rules = "table <clients> counters { 10.1.0.0/24 }\ntable <plain> { 10.1.0.2 }\n\
                 block return\npass out\n\
                 pass in on b0 proto tcp from <clients> to any port 7001\n\
                 block return in quick on b0 proto tcp from <clients> to any port 7002\n\
                 pass in quick on b0 proto udp from <plain>\n";
    net.start(rules);
    assert_eq!(entry_packets(&net, "clients"), [0; 4]);
    assert_eq!(net.pfctl("-vsT").lines().next(), Some("--a-r-C\tclients"));
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("counted");
    assert!(net.connect(SERVER, 7002, PATIENCE).is_none(), "blocked");
    // In/Block, In/Pass, Out/Block, Out/Pass: what the server sends leaves where the rule stands.
    let [1, sent, 0, answered] = entry_packets(&net, "clients")[..] else {
        panic!("{}", net.pfctl("-t clients -v -T show"))
    };
    assert!(sent >= 3 && answered >= 2, "{sent} {answered}");
    assert!(entry_packets(&net, "plain").is_empty(), "it has no `counters`");

    // They outlive the daemon, and rules that do not change.
    net.kill_daemon();
    line.echo("nobody is needed for it");
    net.start(rules);
    let counted = entry_packets(&net, "clients");
    assert!(counted[0] == 1 && counted[1] > sent && counted[3] > answered, "{counted:?}");
    // An entry that goes and comes again has counted nothing.
    assert_eq!(net.pfctl("-t clients -T delete 10.1.0.0/24"), "1/1 addresses deleted.\n");
    line.echo("its state stays");
    all_is_acknowledged(&net);
    net.pfctl("-t clients -T add 10.1.0.0/24");
    assert_eq!(entry_packets(&net, "clients"), [0; 4]);
    line.echo("in again");
    assert!(entry_packets(&net, "clients")[1] > 0);
    all_is_acknowledged(&net);
    assert_eq!(net.pfctl("-t clients -T zero 10.1.0.0/24"), "1/1 addresses cleared.\n");
    assert_eq!(entry_packets(&net, "clients"), [0; 4]);
}

//! Two firewalls with the same states, as people run them: keys, a link between the boxes, and
//! `weir fw sync` on each.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use weir_fw::protocol::SyncStatus;
use weir_net::{Netlink, VethEnd};

use super::badline::BadLine;
use super::ip;
use super::network::{Killed, Line, Network, SERVER, SERVER6, echo_server, wait_until};
use super::sync_stream::{IN, RULES, made_up, open, session, states, status, wait_for_the_same};
use crate::common::{assert_exit, can_run_lab, skipped, stderr, stdout};
use crate::turns::beside;

/// Where each box listens, on the link between them.
pub(super) const LISTEN: [&str; 2] = ["10.9.0.1:7467", "10.9.0.2:7467"];

/// Two boxes with a link `y0` between them, which is not filtered.
fn boxes(tags: [&str; 2]) -> [Network; 2] {
    let nets = tags.map(Network::new);
    let [one, two] = &nets;
    let make = || {
        let netlink = Netlink::open().expect("netlink");
        let peer = VethEnd::new("y0").in_netns(&two.router);
        netlink.create_veth(&VethEnd::new("y0"), &peer, 1).expect("a veth is made");
    };
    one.router.run(make).expect("entered");
    for (net, address) in [(one, "10.9.0.1/24"), (two, "10.9.0.2/24")] {
        let set = || {
            let netlink = Netlink::open().expect("netlink");
            netlink.add_address("y0", address.parse().expect("a prefix")).expect("added");
            netlink.set_up("y0").expect("up");
        };
        net.router.run(set).expect("entered");
    }
    for net in &nets {
        for host in [SERVER, SERVER6] {
            echo_server(&net.server, host, 7001);
        }
        net.start(&format!("set skip on y0\n{RULES}"));
    }
    nets
}

pub(super) fn link(net: &Network, state: &str) {
    ip(net, &format!("link set y0 {state}"));
}

fn key_file(net: &Network) -> String {
    net.dir.path().join("sync/key").to_string_lossy().into_owned()
}

/// Makes a box's key; gives the public one.
pub(super) fn keygen(net: &Network) -> String {
    net.printed(&["fw", "sync", "keygen", "--key", &key_file(net)]).trim_end().to_owned()
}

/// A `weir fw sync` that runs, and what it says.
pub(super) struct Running {
    child: Killed,
    log: PathBuf,
}

impl Running {
    pub(super) fn new(net: &Network, name: &str, arguments: &[&str]) -> Self {
        let log = net.dir.path().join(name);
        let key = key_file(net);
        let mut command = net.weir(&["fw", "sync"]);
        command.args(arguments).args(["--key", &key]);
        command.stderr(File::create(&log).expect("a file"));
        Self { child: Killed(command.spawn().expect("ip runs")), log }
    }

    pub(super) fn serve(net: &Network, listen: &str, peer: &str) -> Self {
        let running = Self::new(net, "serve.log", &["serve", "--listen", listen, "--peer", peer]);
        running.await_line("listening at");
        running
    }

    pub(super) fn to(net: &Network, host: &str, peer: &str) -> Self {
        Self::new(net, "to.log", &["to", host, "--peer", peer])
    }

    fn count(&self, part: &str) -> usize {
        let text = fs::read_to_string(&self.log).expect("readable");
        text.lines().filter(|line| line.contains(part)).count()
    }

    pub(super) fn await_line(&self, part: &str) {
        wait_until(part, || self.count(part) > 0);
    }

    fn stop(mut self) {
        assert_eq!(self.child.end().code(), Some(143));
    }
}

#[test]
fn a_backup_follows_by_tls_also_after_the_link_was_cut() {
    let test = "a_backup_follows_by_tls_also_after_the_link_was_cut";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["tls1", "tls2"]);
    let [key1, key2] = [keygen(&one), keygen(&two)];
    let mode = fs::metadata(key_file(&one)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let shown = one.printed(&["fw", "sync", "keygen", "--public", "--key", &key_file(&one)]);
    assert_eq!(shown.trim_end(), key1);
    assert_exit(&one.run(&["fw", "sync", "status"]), 1);

    let early = open(&one, SERVER, 7001);
    let serve = Running::serve(&two, LISTEN[1], &key1);
    let to = Running::to(&one, LISTEN[1], &two.file("peers", &format!("# two\n{key2}\n")));
    to.await_line("states go to 10.9.0.2:7467");
    serve.await_line("states come from 10.9.0.1:");
    wait_until("a bulk has come", || status(&two).incoming.bulk_count > 0);
    let lines: Vec<Line> = [SERVER, SERVER6].map(|host| open(&one, host, 7001)).into();
    let said = one.printed(&["fw", "sync", "drain"]);
    assert!(said.starts_with("the other firewall has all states, after "), "{said}");
    let found = states(&two);
    let established = found.iter().filter(|line| line.ends_with("ESTABLISHED:ESTABLISHED"));
    assert_eq!(established.count(), 3, "{found:?}");
    assert_eq!(wait_for_the_same(&one, &two, "they have the same"), found);

    let printed = one.printed(&["fw", "sync", "status"]);
    assert_eq!(printed.lines().next(), Some("to another firewall     live"), "{printed}");
    let shown = two.printed(&["fw", "sync", "status", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(
        (&shown["incoming"]["is_live"], &shown["out"]["is_live"]),
        (&true.into(), &false.into())
    );
    let drained = one.printed(&["fw", "sync", "drain", "--json"]);
    let drained: serde_json::Value = serde_json::from_str(&drained).expect("JSON");
    assert_eq!((&drained["drained"], &drained["out"]["is_live"]), (&true.into(), &true.into()));

    // Nobody says that the link is cut: both sides notice.
    link(&one, "down");
    let mut late = open(&one, SERVER, 7001);
    wait_until("both notice", || !status(&one).out.is_live && !status(&two).incoming.is_live);
    to.await_line("no states go to 10.9.0.2:7467 any more");
    serve.await_line("no states come from 10.9.0.1:");
    late.echo("the firewall goes on");
    one.pfctl("-k fd01::2");
    assert_ne!(states(&one), states(&two));
    link(&one, "up");
    wait_until("it is there again", || status(&one).out.is_live);
    let found = wait_for_the_same(&one, &two, "they are the same again");
    assert_eq!(found.len(), 3, "{found:?}");
    // One of two sessions, and one loss.
    assert_eq!((to.count(": states go to"), to.count("any more")), (2, 1));

    to.stop();
    serve.await_line("it has ended it");
    wait_until("it has ended", || !status(&two).incoming.is_live);
    assert_exit(&one.run(&["fw", "sync", "status"]), 1);
    let output = one.run(&["fw", "sync", "drain", "--timeout", "200ms"]);
    assert_exit(&output, 1);
    assert!(stdout(&output).contains("is weir fw sync to running?"), "{}", stdout(&output));
    assert_eq!(states(&two), found, "they stay, and live by their timeouts");
    serve.stop();
    drop((early, lines, late));
}

/// What both boxes do with their own connection, which takes the way of packets.
const OURS: &str = "\
set limit states 100000
set skip on z0
pass quick proto tcp from any to any port 7467 no state
pass quick proto tcp from any port 7467 to any no state
";

#[test]
fn a_backup_follows_over_a_line_that_loses_and_reorders() {
    let test = "a_backup_follows_over_a_line_that_loses_and_reorders";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = ["bad1", "bad2"].map(Network::new);
    let Some(bad) = BadLine::new(&one, "badsync") else {
        skipped(test, "the kernel has no VXLAN");
        return;
    };
    // From the first box by its client, the line and the host behind it to the second box.
    let make = || {
        let peer = VethEnd::new("z0").in_netns(&two.router);
        Netlink::open().expect("netlink").create_veth(&VethEnd::new("z1"), &peer, 1)
    };
    bad.far.run(make).expect("entered").expect("a veth is made");
    let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    bad.far.run(forward).expect("entered").expect("written");
    for (netns, words) in [
        (&*one.router, "address add 10.7.0.1/32 dev lo"),
        (&*one.router, "route add 10.8.0.0/24 via 10.1.0.2 src 10.7.0.1 mtu 1400"),
        (&*one.client, "route add 10.8.0.0/24 via 10.9.0.2"),
        (&*one.client, "route add 10.7.0.1/32 via 10.1.0.1"),
        (&*bad.far, "address add 10.8.0.1/24 dev z1"),
        (&*bad.far, "link set z1 up"),
        (&*two.router, "address add 10.8.0.2/24 dev z0"),
        (&*two.router, "link set z0 up"),
        (&*two.router, "route add 10.7.0.1/32 via 10.8.0.1 mtu 1400"),
    ] {
        let arguments = ["-n", netns.name()].into_iter().chain(words.split(' '));
        let done = Command::new("ip").args(arguments).output().expect("ip runs");
        assert!(done.status.success(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
    }
    echo_server(&one.server, SERVER, 7001);
    [&one, &two].iter().for_each(|net| net.start(&format!("{OURS}{RULES}")));
    let count = 20_000;
    let mut source = session(&one, IN).expect("accepted");
    source.write_all(&made_up(count)).expect("sent");
    wait_until("they are taken in", || status(&one).incoming.sequence == 1);
    drop(source);
    wait_until("that session has ended", || !status(&one).incoming.is_live);

    let [key1, key2] = [keygen(&one), keygen(&two)];
    let _serve = Running::serve(&two, "10.8.0.2:7467", &key1);
    let _to = Running::to(&one, "10.8.0.2:7467", &key2);
    wait_until("a bulk has come", || status(&two).incoming.bulk_count > 0);
    bad.assert_was_bad();
    assert!(status(&two).incoming.inserted_count >= u64::from(count));
    // Changes in both directions of a state's life.
    let mut lines: Vec<Line> = (0..20).map(|_| open(&one, SERVER, 7001)).collect();
    lines.drain(10..);
    one.pfctl("-k 10.0.0.0/18");
    let found = wait_for_the_same(&one, &two, "they have the same");
    assert!(found.len() > 3000 && found.len() < 20_000, "{}", found.len());
    assert_eq!(status(&two).incoming.session_count, 1, "one connection did it");
}

#[test]
fn two_firewalls_send_to_each_other() {
    let test = "two_firewalls_send_to_each_other";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["both1", "both2"]);
    let [key1, key2] = [keygen(&one), keygen(&two)];
    let _serve = [Running::serve(&one, LISTEN[0], &key2), Running::serve(&two, LISTEN[1], &key1)];
    let _to = [Running::to(&one, LISTEN[1], &key2), Running::to(&two, LISTEN[0], &key1)];
    wait_until("both directions live", || {
        [&one, &two].into_iter().map(status).all(|it| it.out.is_live && it.incoming.bulk_count > 0)
    });
    let mut lines = [open(&one, SERVER, 7001), open(&two, SERVER6, 7001)];
    wait_until("each has both", || states(&one).len() == 2 && states(&one) == states(&two));

    // Connections that are idle stay, whichever direction is there first after a cut.
    for _ in 0..3 {
        let sessions = || [&one, &two].map(|net| status(net).incoming.session_id);
        let before = sessions();
        link(&one, "down");
        wait_until("both notice", || {
            [&one, &two].into_iter().map(status).all(|it| !it.out.is_live && !it.incoming.is_live)
        });
        link(&one, "up");
        wait_until("both directions are there again, with all states", || {
            let are_new = sessions().iter().zip(before).all(|(now, before)| *now != before);
            let is_done = |it: SyncStatus| it.out.is_live && it.incoming.bulk_count > 0;
            are_new && [&one, &two].into_iter().map(status).all(is_done)
        });
        thread::sleep(Duration::from_millis(300));
        assert_eq!((states(&one).len(), states(&two).len()), (2, 2));
    }
    for line in &mut lines {
        line.echo("and go on");
    }
}

#[test]
fn a_wrong_key_is_refused_and_said() {
    let test = "a_wrong_key_is_refused_and_said";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["key1", "key2"]);
    let [key1, key2] = [keygen(&one), keygen(&two)];

    // The backup knows another key.
    let serve = Running::serve(&two, LISTEN[1], &key2);
    let to = Running::to(&one, LISTEN[1], &key2);
    serve.await_line(&format!("its key is {key1}, which --peer does not name"));
    to.await_line("the other firewall refuses this one's key");
    assert_eq!(status(&one).out.session_count + status(&two).incoming.session_count, 0);
    to.stop();
    serve.stop();

    // The master does.
    let serve = Running::serve(&two, LISTEN[1], &key1);
    let to = Running::to(&one, LISTEN[1], &key1);
    to.await_line(&format!("its key is {key2}, which --peer does not name"));
    assert_eq!(status(&one).out.session_count + status(&two).incoming.session_count, 0);
    drop(to);

    // A key that others may read is none, and one that is there is kept.
    let path = key_file(&one);
    let keygen = ["fw", "sync", "keygen", "--key", &path];
    let output = one.run(&keygen);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("--force"), "{}", stderr(&output));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
    let output = one.run(&["fw", "sync", "to", LISTEN[1], "--key", &path, "--peer", &key2]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("is not private"), "{}", stderr(&output));

    // With a new one, which the backup is told of, states go.
    let made = one.printed(&["fw", "sync", "keygen", "--force", "--key", &path]);
    let made = made.trim_end();
    assert_ne!(made, key1);
    serve.stop();
    let _serve = Running::serve(&two, LISTEN[1], made);
    let _to = Running::to(&one, LISTEN[1], &key2);
    wait_until("states go", || status(&one).out.is_live && status(&two).incoming.is_live);
}

#[test]
fn interfaces_may_have_other_names_on_the_other_firewall() {
    let test = "interfaces_may_have_other_names_on_the_other_firewall";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["names1", "names2"]);
    [&one, &two].into_iter().for_each(|net| assert_exit(&net.run(&["fw", "stop"]), 0));
    for line in ["link set b1 down", "link set b1 name wan0", "link set wan0 up"] {
        ip(&two, line);
    }
    let rules = format!("set state-policy if-bound\nset skip on y0\n{RULES}");
    one.start(&rules);
    two.start(&rules.replace("b1", "wan0"));
    let [key1, key2] = [keygen(&one), keygen(&two)];
    let line = open(&one, SERVER, 7001);
    let serve = |names: &[&str]| {
        let words = ["serve", "--listen", LISTEN[1], "--peer", &key1];
        Running::new(&two, "serve.log", &[&words, names].concat())
    };
    let strange = serve(&[]);
    let _to = Running::to(&one, LISTEN[1], &key2);
    wait_until("a bulk has come", || status(&two).incoming.bulk_count > 0);
    let left_out = status(&two).incoming.left_out;
    assert_eq!(left_out.keys().collect::<Vec<_>>(), ["interface b1 is not here"]);
    assert!(states(&two).is_empty());
    strange.stop();

    let serve = serve(&["--interface", "b1=wan0"]);
    wait_until("they are there", || !states(&two).is_empty());
    wait_for_the_same(&one, &two, "the same connection");
    let incoming = status(&two).incoming;
    assert!(incoming.left_out.is_empty() && incoming.default_rule_count == 0, "{incoming:?}");
    serve.stop();
    // The side that leaves is bound to the interface of this name.
    two.pfctl("-i wan0 -F states");
    assert!(states(&two).is_empty());
    drop(line);

    for (names, why) in [
        (["b1=wan0", "b2=wan0"], "two of the other firewall's interfaces are wan0 here"),
        (["b1=wan0", "b1=wan1"], "b1 has two names here"),
    ] {
        let words = ["fw", "sync", "serve", "--listen", LISTEN[1], "--peer", &key1, "--key"];
        let names = ["--interface", names[0], "--interface", names[1]];
        let output = two.run(&[&words[..], &[&key_file(&two)], &names].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

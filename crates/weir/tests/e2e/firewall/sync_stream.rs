//! Two firewalls with the same states: the streams of both, joined by the test.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_fw::protocol::{Client, ClientError, Names, Request, SyncDirection, SyncStatus};
use weir_fw::sync::stream::{self, Key, Mark, Session};
use weir_fw::sync::{self, Half, Peer, State};
use weir_net::Netlink;

use super::network::{
    IMPATIENCE, Line, Network, PATIENCE, ROUTER, SERVER, SERVER6, at, echo_server, wait_until,
};
use crate::common::{assert_exit, can_run_lab, wait_or_show};
use crate::turns::beside;

/// A connection needs its first packet, or a state.
pub(super) const RULES: &str = "\
block drop all
pass in on b0 proto tcp to any port 7001 flags S/SA keep state
pass out on b1 proto tcp to any port 7001 flags S/SA keep state
pass in on b0 proto tcp to any port 7002 flags S/SA keep state (no-sync)
pass out on b1 proto tcp to any port 7002 flags S/SA keep state
pass in on b0 proto udp to any port 7003 keep state
pass out on b1 proto udp to any port 7003 keep state
pass proto icmp6
";

/// States come, from a firewall with the same names of interfaces.
pub(super) const IN: SyncDirection = SyncDirection::In { interfaces: Names::new(), defers: false };
pub(super) const OUT: SyncDirection = SyncDirection::Out { defers: false };

/// Asks for a session on a box.
pub(super) fn session(net: &Network, direction: SyncDirection) -> Result<UnixStream, ClientError> {
    net.router.run(|| Client::connect()?.sync(direction)).expect("entered")
}

pub(super) fn status(net: &Network) -> SyncStatus {
    let ask = || Client::connect()?.ask(&Request::SyncStatus, |_| Ok(()));
    let answered = net.router.run(ask).expect("entered").expect("answered");
    serde_json::from_value(answered.value.expect("a value")).expect("a status")
}

/// What carries bytes from one box to another one and back, as a network would.
struct Relay {
    ends: [UnixStream; 2],
    /// Nothing is carried.
    is_held: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

fn carry(mut from: UnixStream, mut to: UnixStream, is_held: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = vec![0; 1000];
        loop {
            while is_held.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(5));
            }
            match from.read(&mut piece) {
                Ok(size) if size > 0 && to.write_all(&piece[..size]).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        // The other direction ends, too.
        drop(from.shutdown(std::net::Shutdown::Both));
        drop(to.shutdown(std::net::Shutdown::Both));
    })
}

impl Relay {
    /// States go from the first box to the second one.
    fn join(from: &Network, to: &Network) -> Self {
        let ends = [session(from, OUT).expect("accepted"), session(to, IN).expect("accepted")];
        let is_held = Arc::new(AtomicBool::new(false));
        let copy = |end: &UnixStream| end.try_clone().expect("a second handle");
        let threads = [(0, 1), (1, 0)].map(|(one, two): (usize, usize)| {
            carry(copy(&ends[one]), copy(&ends[two]), Arc::clone(&is_held))
        });
        let relay = Self { ends, is_held, threads: threads.into() };
        wait_until("a bulk has come", || status(to).incoming.bulk_count > 0);
        relay
    }

    fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Release);
    }

    /// Ends it; both boxes know of it.
    fn cut(mut self, from: &Network, to: &Network) {
        self.end();
        wait_until("both sessions have ended", || {
            !status(from).out.is_live && !status(to).incoming.is_live
        });
    }

    fn end(&mut self) {
        self.hold(false);
        for end in &self.ends {
            drop(end.shutdown(std::net::Shutdown::Both));
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("ended");
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

/// The states of connections and datagrams, as pfctl shows them.
pub(super) fn states(net: &Network) -> Vec<String> {
    let shown = net.pfctl("-ss");
    let is_one = |line: &&str| line.contains(" tcp ") || line.contains(" udp ");
    let mut lines: Vec<String> = shown.lines().filter(is_one).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Waits until both boxes have the same states, with the same phases.
#[track_caller]
pub(super) fn wait_for_the_same(one: &Network, two: &Network, what: &str) -> Vec<String> {
    wait_until(what, || states(one) == states(two));
    states(one)
}

/// Two boxes with the same names and rules, and servers behind the first one.
fn boxes(tags: [&str; 2]) -> [Network; 2] {
    let nets = tags.map(Network::new);
    for port in [7001, 7002] {
        for host in [SERVER, SERVER6] {
            echo_server(&nets[0].server, host, port);
        }
    }
    nets.iter().for_each(|net| net.start(RULES));
    nets
}

pub(super) fn open(net: &Network, host: &str, port: u16) -> Line {
    let mut line = net.connect(host, port, PATIENCE).expect("passed");
    line.echo("once");
    line
}

#[test]
fn a_second_box_has_the_same_connections() {
    let test = "a_second_box_has_the_same_connections";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["sync1", "sync2"]);
    let early = open(&one, SERVER, 7001);
    let relay = Relay::join(&one, &two);
    let found = wait_for_the_same(&one, &two, "what was there before has come");
    assert_eq!(found.len(), 1, "{found:?}");
    let refused = session(&one, OUT).expect_err("there is one").to_string();
    assert!(refused.contains("one session at a time"), "{refused}");
    assert!(session(&two, IN).is_err());

    let lines: Vec<Line> = [SERVER, SERVER6, SERVER].map(|host| open(&one, host, 7001)).into();
    let socket = one.client.run(|| UdpSocket::bind("0.0.0.0:0")).expect("entered").expect("bound");
    for _ in 0..2 {
        socket.send_to(b"one", at(SERVER, 7003)).expect("sent");
    }
    let found = wait_for_the_same(&one, &two, "new ones come");
    let established = found.iter().filter(|line| line.ends_with("ESTABLISHED:ESTABLISHED"));
    assert_eq!((established.count(), found.len()), (4, 5), "{found:?}");
    assert!(found.iter().any(|line| line.contains(" udp ")), "{found:?}");

    // One is closed, one is killed, and many come and go.
    early.finish();
    wait_until("it closes", || states(&one).iter().any(|line| line.contains("FIN_WAIT_2")));
    wait_for_the_same(&one, &two, "it is closed there, too");
    one.pfctl("-k fd01::2");
    let found = wait_for_the_same(&one, &two, "what is killed ends there, too");
    assert!(!found.iter().any(|line| line.contains("fd02::2")), "{found:?}");
    for number in 0..60 {
        let line = open(&one, if number % 3 == 0 { SERVER6 } else { SERVER }, 7001);
        if number % 2 == 0 {
            line.finish();
        }
    }
    one.pfctl("-k fd01::2");
    let found = wait_for_the_same(&one, &two, "after all of it they have the same");
    assert!(found.len() >= 40, "{found:?}");

    // What is not to go stays here, and is counted.
    let private = open(&one, SERVER, 7002);
    wait_until("it is left out", || {
        status(&one).out.left_out.get("their rules say no-sync").is_some_and(|count| *count > 0)
    });
    let theirs = format!(":{}", private.port());
    assert!(states(&one).iter().any(|line| line.contains(&theirs)));
    assert!(!states(&two).iter().any(|line| line.contains(&theirs)));
    drop((private, lines));

    wait_until("all is acknowledged", || status(&one).out.unacknowledged_count == 0);
    let (out, incoming) = (status(&one).out, status(&two).incoming);
    assert_eq!((out.session_id, out.last_error), (incoming.session_id, None));
    assert!(incoming.deleted_count > 0 && incoming.updated_count > 0, "{incoming:?}");
    assert_eq!((incoming.default_rule_count, incoming.skipped_count), (0, 0));
    assert!(two.json("stats")["sync"]["inserts_count"].as_u64() >= Some(60));
    assert!(two.pfctl("-vsi").contains("State Synchronisation"));
    relay.cut(&one, &two);
}

#[test]
fn after_a_cut_both_have_the_same_again() {
    let test = "after_a_cut_both_have_the_same_again";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["cut1", "cut2"]);
    let lines: Vec<Line> = [SERVER, SERVER, SERVER6].map(|host| open(&one, host, 7001)).into();
    let relay = Relay::join(&one, &two);
    wait_for_the_same(&one, &two, "they have come");
    wait_until("all were sent", || status(&one).out.bulk_count == 1);
    let all_count = one.json("stats")["states"]["current_count"].as_u64();
    assert!(Some(status(&one).out.sent_count) <= all_count, "each of them once");
    relay.cut(&one, &two);
    one.pfctl("-k fd01::2");
    let more = open(&one, SERVER, 7001);
    lines[0].finish();
    wait_until("it closes", || states(&one).iter().any(|line| line.contains("FIN_WAIT_2")));
    assert_ne!(states(&one), states(&two), "nothing goes");
    let relay = Relay::join(&one, &two);
    let found = wait_for_the_same(&one, &two, "they are the same again");
    assert_eq!(found.len(), 3, "{found:?}");

    // What comes and is no stream ends the session, and nothing else.
    relay.cut(&one, &two);
    let mut garbage = session(&two, IN).expect("accepted");
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    wait_until("it is refused", || status(&two).incoming.last_error.is_some());
    let error = status(&two).incoming.last_error.expect("an error");
    assert!(error.contains("byte 0"), "{error}");
    let mut nested = session(&two, IN).expect("accepted");
    let mut bytes = begun();
    [(); 2].iter().for_each(|()| stream::put_bulk_begin(&mut bytes, 0));
    nested.write_all(&bytes).expect("sent");
    wait_until("so is a bulk in a bulk", || {
        let error = status(&two).incoming.last_error.unwrap_or_default();
        error == "a bulk begins in another one"
    });
    assert_eq!(states(&two), found);
    let _relay = Relay::join(&one, &two);
    one.pfctl("-k 10.1.0.2");
    assert_eq!(wait_for_the_same(&one, &two, "it goes on"), Vec::<String>::new());
    drop(more);
}

#[test]
fn a_box_that_does_not_read_holds_nothing_up() {
    let test = "a_box_that_does_not_read_holds_nothing_up";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["slow1", "slow2"]);
    let relay = Relay::join(&one, &two);
    wait_until("all is acknowledged", || status(&one).out.unacknowledged_count == 0);
    relay.hold(true);
    let mut lines: Vec<Line> = (0..50).map(|_| open(&one, SERVER, 7001)).collect();
    wait_until("it falls behind", || {
        let out = status(&one).out;
        out.unacknowledged_count > 0 && out.lag_ms > 0
    });
    for line in &mut lines {
        line.echo("again");
    }
    one.pfctl("-k 10.1.0.2 -k 10.2.0.2");
    let _more: Vec<Line> = (0..10).map(|_| open(&one, SERVER, 7001)).collect();
    relay.hold(false);
    let found = wait_for_the_same(&one, &two, "it catches up");
    assert!(found.len() >= 10, "{found:?}");
    wait_until("nothing is behind", || {
        let out = status(&one).out;
        out.unacknowledged_count == 0 && out.lag_ms == 0
    });
}

/// How a stream begins.
pub(super) fn begun() -> Vec<u8> {
    let mut bytes = Vec::new();
    sync::put_header(&mut bytes);
    stream::put_session(&mut bytes, Session { id: 1, table: 1 });
    bytes
}

/// A stream with so many connections.
pub(super) fn made_up(count: u32) -> Vec<u8> {
    let mut bytes = begun();
    let peer = Peer { phase: 4, wscale: 0, max_win: 1000, seq: [1, 1000] };
    for number in 0..count {
        let [_, a, b, c] = number.to_be_bytes();
        let state = State {
            protocol: 6,
            flags: sync::CONNECTED,
            ends: [([10, a, b, c].into(), 1000), ([192, 0, 2, 1].into(), 80)],
            wire: [None; 2],
            gateways: [0; 2],
            peers: [peer; 2],
            halves: [Half { flags: sync::PRESENT, ..Half::default() }, Half::default()],
            packets: [1; 2],
            bytes: [60; 2],
            age_ms: 1000,
            remaining_ms: 3_600_000,
            idle_ms: 1000,
        };
        sync::put_state(&mut bytes, &state);
    }
    stream::put_mark(&mut bytes, Mark { sequence: 1, sent_ms: 0, record_count: count });
    bytes
}

#[test]
fn a_flow_that_comes_back_is_this_firewalls_again() {
    let test = "a_flow_that_comes_back_is_this_firewalls_again";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("back");
    net.start(RULES);
    let bind = || UdpSocket::bind("0.0.0.0:0");
    let socket = net.client.run(bind).expect("entered").expect("bound");
    let send = || assert_eq!(socket.send_to(b"one", at(SERVER, 7003)).expect("sent"), 3);
    // More than one, so that the quick way knows it.
    (0..10).for_each(|_| send());
    wait_until("it has a state", || states(&net).len() == 1);
    let client = ([10, 1, 0, 2].into(), socket.local_addr().expect("an address").port());
    let state = State {
        protocol: 17,
        flags: 0,
        ends: [client, ([10, 2, 0, 2].into(), 7003)],
        wire: [None; 2],
        gateways: [0; 2],
        peers: [2, 0].map(|phase| Peer { phase, ..Peer::default() }),
        halves: [Half { flags: sync::PRESENT, ..Half::default() }; 2],
        packets: [10, 0],
        bytes: [310, 0],
        age_ms: 1000,
        remaining_ms: 60_000,
        idle_ms: 0,
    };
    let mut source = session(&net, IN).expect("accepted");
    let mut sequence = 0;
    let mut say = |record: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = if sequence == 0 { begun() } else { Vec::new() };
        sequence += 1;
        record(&mut bytes);
        stream::put_mark(&mut bytes, Mark { sequence, sent_ms: 0, record_count: 1 });
        source.write_all(&bytes).expect("sent");
        wait_until("it is taken in", || status(&net).incoming.sequence == sequence);
        let incoming = status(&net).incoming;
        (incoming.updated_count, incoming.absent_count, incoming.deleted_count)
    };
    let key = Key { protocol: 17, ends: state.ends };
    // The other firewall has had it for a moment, and now it is here again.
    let moment = || thread::sleep(Duration::from_millis(200));
    moment();
    assert_eq!(say(&|bytes| sync::put_state(bytes, &state)), (1, 0, 0));
    thread::sleep(Duration::from_millis(1200));
    (0..10).for_each(|_| send());
    assert_eq!(say(&|bytes| stream::put_gone(bytes, &key)), (1, 1, 0));
    assert_eq!(states(&net).len(), 1, "an end over there says nothing");
    // The same, but that it stays there.
    moment();
    assert_eq!(say(&|bytes| sync::put_state(bytes, &state)), (2, 1, 0));
    assert_eq!(say(&|bytes| stream::put_gone(bytes, &key)), (2, 1, 1));
    assert_eq!(states(&net), Vec::<String>::new());
}

#[test]
fn connections_with_a_gateway_go_on_by_it_after_a_box_has_lost_its_states() {
    let test = "connections_with_a_gateway_go_on_by_it_after_a_box_has_lost_its_states";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = ["way1", "way2"].map(Network::new);
    for net in [&one, &two] {
        net.add_second_way();
        net.start(
            "block drop all\n\
             pass in on b0 route-to (b2 10.3.0.2) proto tcp to any port 7001 keep state\n\
             pass out on b2 proto tcp to any port 7001 keep state\n",
        );
    }
    echo_server(&one.server, SERVER, 7001);
    let mut line = open(&one, SERVER, 7001);
    let relay = Relay::join(&one, &two);
    let before = wait_for_the_same(&one, &two, "it has come");
    assert_eq!(before.len(), 1, "{before:?}");
    relay.cut(&one, &two);
    one.pfctl("-F states");
    let back = Relay::join(&two, &one);
    assert_eq!(wait_for_the_same(&two, &one, "it has come back"), before);
    back.cut(&two, &one);
    let by_the_second = || {
        let count = || Netlink::open()?.stats64("b2").map(|counted| counted.tx_packets);
        one.router.run(count).expect("entered").expect("counted")
    };
    let packets = by_the_second();
    line.bounce(300_000, "by its gateway");
    assert!(by_the_second() > packets + 100, "it goes another way");

    // Without that gateway nothing is made of it.
    two.pfctl("-F states");
    // By the second load, no state has one that no rule has.
    for _ in 0..2 {
        two.reload("block drop all\npass proto tcp to any port 7001 keep state\n");
    }
    let forth = Relay::join(&one, &two);
    wait_until("it is left out", || {
        let left_out = status(&two).incoming.left_out;
        left_out.contains_key("no rule here has the gateway 10.3.0.2@b2")
    });
    assert_eq!(states(&two), Vec::<String>::new());
    forth.cut(&one, &two);
}

/// What both boxes translate to the first one's address, and from it.
const TRANSLATION: &str = "\
nat on b1 inet from 10.1.0.0/24 to any -> 10.2.0.1
nat on b1 inet6 from fd01::/64 to any -> fd02::1
rdr on b0 inet proto tcp from any to 10.1.0.1 port 8001 -> 10.2.0.2 port 7001
";

#[test]
fn translated_connections_go_on_after_a_box_has_lost_its_states() {
    let test = "translated_connections_go_on_after_a_box_has_lost_its_states";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = ["nat1", "nat2"].map(Network::new);
    for host in [SERVER, SERVER6] {
        echo_server(&one.server, host, 7001);
    }
    let rules = format!("{TRANSLATION}{RULES}");
    [&one, &two].iter().for_each(|net| net.start(&rules));
    let mut lines = [(SERVER, 7001), (SERVER6, 7001), (ROUTER, 8001)]
        .map(|(host, port)| open(&one, host, port));
    let relay = Relay::join(&one, &two);
    let before = wait_for_the_same(&one, &two, "they have come");
    assert_eq!(before.len(), 3, "{before:?}");
    assert!(before.iter().all(|line| line.contains('(')), "{before:?}");
    let late = open(&one, SERVER, 7001);
    let before = wait_for_the_same(&one, &two, "a new one comes, too");
    assert_eq!(before.len(), 4, "{before:?}");
    for line in &mut lines {
        line.bounce(1_000_000, "through the first box");
    }
    relay.cut(&one, &two);
    // Not stopped: the box would say to the server that it has no such connections.
    one.pfctl("-F states");
    assert_eq!(states(&one), Vec::<String>::new());
    let _back = Relay::join(&two, &one);
    assert_eq!(wait_for_the_same(&two, &one, "they have come back"), before);
    assert_eq!(status(&one).incoming.default_rule_count, 0);
    for line in &mut lines {
        line.echo("and on");
        line.bounce(1_000_000, "and within new windows");
    }
    assert_eq!(one.dropped("state-mismatch"), 0);
    // A new one gets a port that nobody has.
    open(&one, SERVER, 7001).bounce(100_000, "a new one");
    drop(late);
}

/// Half of them are more ends than what waits to be written, their ring, twice, and sockets have
/// room for.
const COUNT: u32 = 1 << 18;

#[test]
fn ends_without_room_make_all_states_go_once_more() {
    let test = "ends_without_room_make_all_states_go_once_more";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = ["many1", "many2"].map(Network::new);
    for net in [&one, &two] {
        net.start(&format!("set limit states 500000\n{RULES}"));
    }
    let mut source = session(&one, IN).expect("accepted");
    source.write_all(&made_up(COUNT)).expect("sent");
    wait_until("they are taken in", || status(&one).incoming.sequence == 1);
    assert_eq!(status(&one).incoming.inserted_count, u64::from(COUNT));
    drop(source);
    wait_until("that session has ended", || !status(&one).incoming.is_live);

    let count = |net: &Network| net.json("stats")["states"]["current_count"].as_u64();
    let relay = Relay::join(&one, &two);
    assert_eq!(status(&two).incoming.left_out.values().sum::<u64>(), 0);
    assert!(count(&two) >= Some(COUNT.into()), "the bulk had all of them");
    let lost = || one.json("stats")["sync"]["lost_deletes_count"].as_u64();
    let mut lost_before = lost();
    for half in ["10.0.0.0/15", "10.2.0.0/15"] {
        relay.hold(true);
        one.pfctl(&format!("-k {half}"));
        assert!(lost() > lost_before, "{half}: {:?}", lost());
        lost_before = lost();
        relay.hold(false);
        // More is lost before it ends, where it takes long enough.
        wait_until("one more bulk begins", || {
            let out = status(&one).out;
            out.bulk_percent.is_some() || out.bulk_count > 1
        });
    }
    wait_or_show(
        "all has gone there, too",
        || count(&two) < Some(100),
        || format!(": {:?} of {:?}; {:?}", count(&two), count(&one), status(&two).incoming),
    );
    assert!(status(&two).incoming.bulk_count > 1);
    assert!(status(&two).incoming.deleted_count >= u64::from(COUNT));
}

#[test]
fn connections_go_on_after_a_box_has_lost_its_states() {
    let test = "connections_go_on_after_a_box_has_lost_its_states";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let [one, two] = boxes(["lost1", "lost2"]);
    let mut lines = [SERVER, SERVER6].map(|host| open(&one, host, 7001));
    let idle = open(&one, SERVER, 7001);
    let relay = Relay::join(&one, &two);
    let before = wait_for_the_same(&one, &two, "they have come");
    // Far beyond the windows of the handshake, of which the second box is not told.
    for line in &mut lines {
        line.bounce(3_000_000, "through the first box");
    }
    relay.cut(&one, &two);
    assert_exit(&one.run(&["fw", "stop"]), 0);
    one.start(RULES);
    assert_eq!(states(&one), Vec::<String>::new());
    assert!(one.connect(SERVER, 7009, IMPATIENCE).is_none(), "it filters");
    let back = Relay::join(&two, &one);
    assert_eq!(wait_for_the_same(&two, &one, "they have come back"), before);
    for line in &mut lines {
        line.echo("and on");
        line.bounce(1_000_000, "and within new windows");
    }
    // The first one sends again: what it has from the second one, and has had no packet of since,
    // is not sent back to it.
    let forth = Relay::join(&one, &two);
    let late = open(&one, SERVER, 7001);
    let found = wait_for_the_same(&one, &two, "a new one goes, too");
    assert_eq!(found.len(), 4, "{found:?}");
    let left_out = status(&one).out.left_out;
    assert!(left_out.contains_key("the other firewall has sent them"), "{left_out:?}");
    assert_eq!(status(&two).incoming.deleted_count, 0);
    forth.cut(&one, &two);
    back.cut(&two, &one);
    assert_eq!(states(&one).len(), 4, "they stay when the other one is gone");
    drop((idle, late));
}

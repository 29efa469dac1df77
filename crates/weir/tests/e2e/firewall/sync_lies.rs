//! What another firewall with the right key may say that is not so: the session ends, or what it
//! says is left out; it is counted, and the firewall goes on.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use weir_fw::protocol::{SyncInStatus, SyncOutStatus};
use weir_fw::sync::stream::{self, Mark, Session};

use super::network::{Line, Network, SERVER, echo_server, wait_until};
use super::sync_stream::{IN, OUT, RULES, begun, made_up, open, session, states, status};
use crate::common::can_run_lab;
use crate::turns::beside;

const LIMIT: u32 = 1000;

/// A box with one connection through it.
fn box_in_use(tag: &str) -> (Network, Line) {
    let net = Network::new(tag);
    echo_server(&net.server, SERVER, 7001);
    net.start(&format!("set limit states {LIMIT}\n{RULES}"));
    let line = open(&net, SERVER, 7001);
    (net, line)
}

fn errors(net: &Network) -> Option<u64> {
    net.json("stats")["sync"]["errors_count"].as_u64()
}

/// Sends states as another firewall, and ends; how that was.
fn send(net: &Network, bytes: &[u8]) -> SyncInStatus {
    let before = status(net).incoming.session_count;
    let mut other = session(net, IN).expect("accepted");
    // It may have ended by then.
    drop(other.write_all(bytes));
    drop(other.shutdown(Shutdown::Write));
    wait_until("the session has ended", || {
        let incoming = status(net).incoming;
        incoming.session_count > before && !incoming.is_live
    });
    status(net).incoming
}

/// Answers as another firewall; how that was.
fn answer(net: &Network, put: impl FnOnce(&mut Vec<u8>)) -> SyncOutStatus {
    let mut other = session(net, OUT).expect("accepted");
    let mut bytes = Vec::new();
    weir_fw::sync::put_header(&mut bytes);
    put(&mut bytes);
    other.write_all(&bytes).expect("sent");
    drop(other.read_to_end(&mut Vec::new()));
    wait_until("the session has ended", || !status(net).out.is_live);
    status(net).out
}

#[test]
fn what_is_not_so_ends_the_session_and_the_firewall_goes_on() {
    let test = "what_is_not_so_ends_the_session_and_the_firewall_goes_on";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let (net, mut line) = box_in_use("lies");
    let with = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = begun();
        put(&mut bytes);
        bytes
    };
    let mark = |sequence, record_count| Mark { sequence, sent_ms: 0, record_count };
    let half = made_up(2);
    let cases = [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "these are no states"),
        (half[..half.len() - 5].to_vec(), "it was cut in a record"),
        (with(&|out| stream::put_mark(out, mark(1, 7))), "says that it has 7 states, and has 0"),
        (with(&|out| stream::put_mark(out, mark(2, 0))), "mark 2 is not the next one"),
        (with(&|out| stream::put_acknowledgement(out, 1)), "acknowledges what was not sent"),
        (with(&|out| stream::put_bulk_end(out, 0)), "a bulk ends that has not begun"),
        (
            with(&|out| {
                stream::put_bulk_begin(out, 9);
                stream::put_bulk_end(out, 9);
            }),
            "says that it has 9 states, and has 0",
        ),
        (
            with(&|out| {
                stream::put_bulk_begin(out, 0);
                stream::put_bulk_begin(out, 0);
            }),
            "a bulk begins in another one",
        ),
        (
            with(&|out| stream::put_session(out, Session { id: 2, table: 1 })),
            "a session begins in another one",
        ),
    ];
    for (number, (bytes, why)) in (0..).zip(cases) {
        assert_eq!(errors(&net), Some(number));
        let failure = send(&net, &bytes).last_error.unwrap_or_default();
        assert!(failure.contains(why), "{why}: {failure:?}");
        line.echo(why);
    }
    let errors_before = errors(&net).expect("a count");
    let out = answer(&net, |out| stream::put_acknowledgement(out, 99));
    assert_eq!(out.last_error.as_deref(), Some("the other side acknowledges 99, which is not due"));
    let out = answer(&net, |out| stream::put_bulk_begin(out, 1));
    assert_eq!(out.last_error.as_deref(), Some("the other side answers with states"));
    assert_eq!(errors(&net), Some(errors_before + 2));
    line.echo("and on");
}

#[test]
fn more_states_than_the_limit_are_left_out() {
    let test = "more_states_than_the_limit_are_left_out";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let (net, mut line) = box_in_use("billion");
    let mut bytes = begun();
    let header = bytes.len();
    stream::put_bulk_begin(&mut bytes, u64::MAX);
    bytes.extend(&made_up(3 * LIMIT)[header..]);
    let incoming = send(&net, &bytes);
    assert_eq!(incoming.last_error, None);
    let left_out = incoming.left_out["set limit states is reached"];
    let all = u64::from(3 * LIMIT);
    assert_eq!(incoming.inserted_count + left_out, all);
    assert!(incoming.inserted_count < u64::from(LIMIT), "{incoming:?}");
    assert!(states(&net).len() <= LIMIT as usize);
    line.echo("the one that was there");
}

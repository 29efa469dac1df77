//! One stage and two in turns, again and again, while connections of the kernel's own TCP carry
//! data through the box, and what is blocked is sent beside them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use weir_bpf::firewall::Stages;
use weir_bpf::firewall::layout::table;
use weir_net::{Netlink, Netns};
use weir_oracle::count::is_quick;

use super::live::PATIENCE;
use super::rig::{BOX_MAC, PEER_MAC, Rig};
use super::stages::RULES;

const FLIP_COUNT: u32 = 1_000;
const QUICK_FLIP_COUNT: u32 = 100;
/// Among so many, each number of stages once stays until data has gone through it.
const STEADY_FLIP_COUNT: u32 = 50;
const CONNECTION_COUNT: usize = 3;
/// Bytes that go there and back in one piece.
const PIECE_BYTES: usize = 100_000;
const IN: u32 = 0;

/// Makes a neighbour a host that has TCP. What hardware would do to a frame is not done behind a
/// redirect.
fn host(netns: &Netns, side: usize) {
    let set_up = || {
        let netlink = Netlink::open().expect("netlink opens");
        let net = side + 1;
        let address = format!("10.0.{net}.2/24").parse().expect("a prefix");
        netlink.add_address("p", address).expect("an address");
        let gateway = format!("10.0.{net}.1").parse().expect("an address");
        netlink.add_neighbour("p", gateway, BOX_MAC[side]).expect("a neighbour");
        netlink
            .add_route("0.0.0.0/0".parse().expect("a prefix"), Some(gateway), "p")
            .expect("a way");
        let link = netlink.link("p").expect("it is there");
        assert_eq!(link.mac, Some(PEER_MAC[side]));
        let features = ["-K", "p", "tx", "off", "tso", "off", "gso", "off", "txvlan", "off"];
        assert!(Command::new("ethtool").args(features).status().expect("it runs").success());
    };
    netns.run(set_up).expect("the namespace is entered");
}

/// Sends back whatever comes by so many connections to a port.
fn echo(listener: &TcpListener, count: usize) {
    for stream in listener.incoming().take(count) {
        let Ok(mut stream) = stream else { return };
        thread::spawn(move || {
            let mut bytes = [0; 16_384];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..count]).is_err() {
                    return;
                }
            }
        });
    }
}

/// Sends pieces and reads them back until it is over; counts them.
fn transfer(stream: &TcpStream, is_over: &AtomicBool, piece_count: &AtomicU32) {
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
    while !is_over.load(Ordering::Relaxed) {
        thread::scope(|scope| {
            let (mut to, mut from, piece) = (stream, stream, &piece);
            scope.spawn(move || to.write_all(piece).expect("it is sent"));
            let mut back = vec![0; piece.len()];
            from.read_exact(&mut back).expect("it comes back");
            assert!(back == *piece, "what comes back was sent");
        });
        piece_count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Some of what is sent now comes back in this number of stages.
fn wait_for_pieces(piece_count: &AtomicU32) {
    let (before, begun) = (piece_count.load(Ordering::Relaxed), Instant::now());
    // Each connection may have one that began before.
    let enough = before + u32::try_from(CONNECTION_COUNT).expect("few") + 1;
    while piece_count.load(Ordering::Relaxed) < enough {
        assert!(begun.elapsed() < PATIENCE, "connections carry no data");
        thread::yield_now();
    }
}

/// Has the other threads end, also when this one fails.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn connections_carry_data_while_stages_change() {
    let Some(rig) = Rig::in_two_stages("tcp-flips", RULES) else { return };
    for (side, peer) in rig.peers.iter().enumerate() {
        host(peer, side);
    }
    let [left, right] = &rig.peers;
    let listener = right.run(|| TcpListener::bind("10.0.2.2:80")).expect("entered").expect("bound");
    thread::spawn(move || echo(&listener, CONNECTION_COUNT));
    let closed = right.run(|| UdpSocket::bind("10.0.2.2:54")).expect("entered").expect("bound");
    closed.set_nonblocking(true).expect("set");
    let blocked = left.run(|| UdpSocket::bind("10.0.1.2:0")).expect("entered").expect("bound");
    let connect = || {
        let stream =
            TcpStream::connect_timeout(&"10.0.2.2:80".parse().expect("it is one"), PATIENCE);
        let stream = stream.expect("passed");
        // Each retransmission that is lost, too, doubles the time to the next one.
        stream.set_read_timeout(Some(3 * PATIENCE)).expect("set");
        stream.set_write_timeout(Some(3 * PATIENCE)).expect("set");
        stream
    };
    let streams = [0; CONNECTION_COUNT].map(|_| left.run(connect).expect("entered"));
    let (is_over, piece_count) = (AtomicBool::new(false), AtomicU32::new(0));
    let flip_count = if is_quick() { QUICK_FLIP_COUNT } else { FLIP_COUNT };
    thread::scope(|scope| {
        let finish = Finish(&is_over);
        for stream in &streams {
            scope.spawn(|| transfer(stream, &is_over, &piece_count));
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..16 {
                    // What has no room is not sent.
                    drop(blocked.send_to(b"blocked", "10.0.2.2:54"));
                }
                thread::yield_now();
            }
        });
        for number in 0..flip_count {
            let stages = if number.is_multiple_of(2) { Stages::One } else { Stages::Two };
            rig.set_stages(stages);
            assert_eq!(rig.firewall.stages(), stages);
            if number % STEADY_FLIP_COUNT < 2 {
                wait_for_pieces(&piece_count);
            }
        }
        drop(finish);
    });
    let heard = closed.recv_from(&mut [0; 10]);
    assert!(heard.is_err(), "nothing that is blocked has come: {heard:?}");
    assert!(rig.dropped(0, IN, "match") > 0, "though some was sent");
    for side in 0..2 {
        assert_eq!(rig.dropped(side, IN, "state-mismatch"), 0, "each segment fits its connection");
        assert_eq!(rig.dropped(side, IN, "no-route"), 0, "and none is lost");
    }
    let staged = rig.table_counter(table::STAGED_PACKETS);
    let searches = rig.table_counter(table::SEARCHES);
    assert!(staged > 0 && staged < searches, "{staged} of {searches} were judged in two stages");
}

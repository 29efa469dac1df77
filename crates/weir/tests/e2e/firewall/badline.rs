//! A host behind a bad line: `far`, 10.9.0.2, whose packets the client routes. What it sends and
//! gets goes through this process, which loses some, repeats some, and lets some be overtaken.
//!
//! The line is a VXLAN whose datagrams two sockets here relay, in a namespace between. So any
//! kernel that has VXLAN has it, and every frame is one datagram.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_net::{Netns, NetnsGuard};

use super::network::{Network, namespace, wait_until};

/// One packet in so many is lost, and another one repeated.
const LOST_ONE_IN: u64 = 100;
/// One in so many is overtaken, by at most [`OVERTAKEN_BY_MAX`] packets.
const LATE_ONE_IN: u64 = 10;
const OVERTAKEN_BY_MAX: u64 = 12;
/// What is held back leaves after this silence.
const SILENCE: Duration = Duration::from_millis(5);
/// The port of VXLAN.
const PORT: u16 = 4789;

/// What the line did.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) lost: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) overtaken: AtomicU64,
}

/// The line, as long as it is kept.
pub(super) struct BadLine {
    pub(super) far: NetnsGuard,
    pub(super) done: Arc<Done>,
    ends: Arc<AtomicBool>,
    relays: Vec<JoinHandle<()>>,
    between: NetnsGuard,
}

/// Runs `ip` in a namespace; false if it failed.
fn ip(netns: &Netns, words: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["-n", netns.name()]).args(words.split(' '));
    command.output().expect("ip runs").status.success()
}

impl BadLine {
    /// Puts it behind the client. `None` if the kernel has no VXLAN.
    pub(super) fn new(net: &Network, tag: &str) -> Option<Self> {
        let far = namespace(tag, "f");
        let between = namespace(tag, "w");
        let ends = [
            (&*far, "f0", "192.0.2.2", "192.0.2.1", "10.9.0.2/24"),
            (&*net.client, "f1", "192.0.2.6", "192.0.2.5", "10.9.0.1/24"),
        ];
        for (netns, peer, local, remote, inner) in ends {
            let made =
                ip(&between, &format!("link add {peer} type veth peer w9 netns {}", netns.name()))
                    && ip(&between, &format!("address add {remote}/30 dev {peer}"))
                    && ip(&between, &format!("link set {peer} up"))
                    && ip(netns, &format!("address add {local}/30 dev w9"))
                    && ip(netns, "link set w9 up")
                    && ip(netns, "link set lo up");
            assert!(made, "the way of the datagrams");
            let vxlan = format!(
                "link add vx9 type vxlan id 9 local {local} remote {remote} dstport {PORT} dev w9"
            );
            if !ip(netns, &vxlan) {
                return None;
            }
            let mut command = Command::new("ip");
            command.args(["netns", "exec", netns.name(), "ethtool", "-K", "vx9"]);
            command.args(["tx", "off", "tso", "off", "gso", "off"]);
            assert!(command.output().expect("ip runs").status.success(), "one frame, one datagram");
            assert!(
                ip(netns, &format!("address add {inner} dev vx9")) && ip(netns, "link set vx9 up")
            );
        }
        assert!(ip(&far, "route add default via 10.9.0.1"));
        assert!(ip(&net.router, "route add 10.9.0.0/24 via 10.1.0.2"));
        let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        net.client.run(forward).expect("entered").expect("written");
        let mut line =
            Self { far, done: Arc::default(), ends: Arc::default(), relays: Vec::new(), between };
        line.relay();
        Some(line)
    }

    fn relay(&mut self) {
        let bound = |host: &str| {
            let address: SocketAddr = format!("{host}:{PORT}").parse().expect("an address");
            let socket = self.between.run(|| UdpSocket::bind(address));
            let socket = socket.expect("entered").expect("bound");
            socket.set_read_timeout(Some(SILENCE)).expect("set");
            socket
        };
        let (to_far, to_client) = (bound("192.0.2.1"), bound("192.0.2.5"));
        let pairs = [(&to_far, &to_client, "192.0.2.6"), (&to_client, &to_far, "192.0.2.2")];
        for (number, (from, to, peer)) in (1..).zip(pairs) {
            let peer: SocketAddr = format!("{peer}:{PORT}").parse().expect("an address");
            let mut relay = Relay {
                from: from.try_clone().expect("a second handle"),
                to: to.try_clone().expect("a second handle"),
                peer,
                random: number,
                held: Vec::new(),
                done: Arc::clone(&self.done),
            };
            let ends = Arc::clone(&self.ends);
            self.relays.push(thread::spawn(move || relay.run(&ends)));
        }
    }

    /// Fails unless everything that makes a line bad has happened, and then some.
    pub(super) fn assert_was_bad(&self) {
        let all = [&self.done.lost, &self.done.repeated, &self.done.overtaken];
        wait_until("packets are lost, repeated and overtaken", || {
            all.iter().all(|count| count.load(Ordering::Relaxed) > 3)
        });
    }
}

impl Drop for BadLine {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for relay in self.relays.drain(..) {
            // One that panicked has said so.
            drop(relay.join());
        }
    }
}

/// One direction.
struct Relay {
    from: UdpSocket,
    to: UdpSocket,
    peer: SocketAddr,
    random: u64,
    /// Packets that others overtake, and how many still may.
    held: Vec<(u64, Vec<u8>)>,
    done: Arc<Done>,
}

impl Relay {
    fn run(&mut self, ends: &AtomicBool) {
        let mut buffer = [0; 2048];
        while !ends.load(Ordering::Relaxed) {
            match self.from.recv(&mut buffer) {
                Ok(size) => self.take(&buffer[..size]),
                // Silence.
                Err(_) => self.release(u64::MAX),
            }
        }
    }

    /// Knuth's linear congruential generator (MMIX): the same draws in each run.
    fn one_in(&mut self, count: u64) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33).is_multiple_of(count)
    }

    fn take(&mut self, packet: &[u8]) {
        let count = |which: &AtomicU64| which.fetch_add(1, Ordering::Relaxed);
        if self.one_in(LOST_ONE_IN) {
            count(&self.done.lost);
            return;
        }
        if self.one_in(LATE_ONE_IN) {
            count(&self.done.overtaken);
            let by = 1 + (self.random >> 40) % OVERTAKEN_BY_MAX;
            self.held.push((by, packet.to_vec()));
            return;
        }
        self.send(packet);
        if self.one_in(LOST_ONE_IN) {
            count(&self.done.repeated);
            self.send(packet);
        }
        self.release(1);
    }

    /// So many more have overtaken.
    fn release(&mut self, count: u64) {
        for (left, packet) in std::mem::take(&mut self.held) {
            if left <= count {
                self.send(&packet);
            } else {
                self.held.push((left - count, packet));
            }
        }
    }

    fn send(&self, packet: &[u8]) {
        // An interface that is being taken down loses it, as lines do.
        drop(self.to.send_to(packet, self.peer));
    }
}

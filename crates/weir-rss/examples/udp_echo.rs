//! A UDP echo server with a thread for each receive queue: `udp_echo eth1 10.0.0.1:7`.
//!
//! Each thread has the socket that gets its queue's packets, and stays on a CPU; no packet is
//! handed from one CPU to another. Source: crates/weir-rss.

use std::error::Error;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use weir_rss::{Each, Options, Steer, open_udp};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, address] = &arguments[..] else {
        return Err("usage: udp_echo INTERFACE ADDRESS:PORT".into());
    };
    let options = Options::of_interface(interface, address.parse()?, Each::Queue, Steer::Hash)?;
    let (sockets, mut steering) = open_udp(&options)?.into_parts();
    let counts = &*sockets.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    for (queue, (socket, count)) in sockets.into_iter().zip(counts).enumerate() {
        thread::spawn(move || serve(queue, &socket, count));
    }
    loop {
        thread::sleep(Duration::from_secs(1));
        // Somebody may have changed the table; if there are not the sockets for it, all goes on.
        match steering.follow() {
            Ok(true) => say("the interface's settings have changed"),
            Ok(false) => {}
            Err(error) => say(&error.to_string()),
        }
        let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        say(&format!("echoed by queue: {counts:?}"));
    }
}

fn serve(queue: usize, socket: &UdpSocket, count: &AtomicU64) {
    let mut cpus = CpuSet::new();
    let cpu = queue % thread::available_parallelism().map_or(1, usize::from);
    let pinned = cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
    if pinned.is_err() {
        say(&format!("thread {queue} stays on any CPU"));
    }
    let mut buffer = [0; 65_536];
    while let Ok((bytes, peer)) = socket.recv_from(&mut buffer) {
        if socket.send_to(&buffer[..bytes], peer).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example says what it does")]
fn say(text: &str) {
    println!("{text}");
}

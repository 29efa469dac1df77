//! An HTTP server with a thread for each receive queue: `http_server eth1 10.0.0.1:8080`.
//!
//! A connection is served where its packets come in, from the first one on. Source:
//! crates/weir-rss.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use weir_rss::{Each, Options, Steer, open_tcp};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, address] = &arguments[..] else {
        return Err("usage: http_server INTERFACE ADDRESS:PORT".into());
    };
    let options = Options::of_interface(interface, address.parse()?, Each::Queue, Steer::Hash)?;
    let (listeners, mut steering) = open_tcp(&options)?.into_parts();
    for (queue, listener) in listeners.into_iter().enumerate() {
        thread::spawn(move || serve(queue, &listener));
    }
    loop {
        thread::sleep(Duration::from_secs(1));
        if let Err(error) = steering.follow() {
            complain(&error);
        }
    }
}

/// The server goes on, by what it knew of the interface.
#[expect(clippy::print_stderr, reason = "an example says what it does")]
fn complain(error: &dyn Error) {
    eprintln!("{error}");
}

fn serve(queue: usize, listener: &TcpListener) {
    for connection in listener.incoming().flatten() {
        // One connection at a time; a client that says nothing does not hold up the queue.
        let patience = Some(Duration::from_secs(5));
        if connection.set_read_timeout(patience).is_ok() {
            // What became of a connection is its client's business.
            drop(answer(queue, &connection));
        }
    }
}

fn answer(queue: usize, connection: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let text = format!("queue {queue}: {request}\n");
    let mut out = connection;
    write!(out, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

//! Workers as threads: what they say when they are told to stop early, late and twice.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;
use crate::client::config::example;

/// A worker that says nothing for so long has not heard.
const PATIENCE: Duration = Duration::from_secs(60);

/// The other side of a worker's line.
struct Boss {
    socket: UnixStream,
    said: BufReader<UnixStream>,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl Boss {
    /// Starts a worker. Its configuration and the orders come in one piece.
    fn new(config: &WorkerConfig, orders: &[Command]) -> Self {
        let (mut socket, theirs) = UnixStream::pair().unwrap();
        let mut text = serde_json::to_string(config).unwrap();
        for order in orders {
            text = text + "\n" + &serde_json::to_string(order).unwrap();
        }
        socket.write_all((text + "\n").as_bytes()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let said = BufReader::new(socket.try_clone().unwrap());
        let worker = thread::spawn(move || -> Result<(), WorkerError> {
            let (line, config) = Line::on::<WorkerConfig>(theirs)?;
            Worker::new(config, line)?.work()
        });
        Self { socket, said, worker }
    }

    fn tell(&mut self, order: Command) {
        let text = serde_json::to_string(&order).unwrap() + "\n";
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// Its next message; `None` behind the last.
    fn hear(&mut self) -> Option<Frame> {
        let mut text = String::new();
        let size = self.said.read_line(&mut text).unwrap();
        (size > 0).then(|| serde_json::from_str(&text).unwrap())
    }

    fn hear_done(&mut self) -> Done {
        loop {
            if let Frame::Done(done) = self.hear().expect("it has not ended") {
                return *done;
            }
        }
    }

    /// Lets it end, and makes sure that it has nothing more to say.
    fn end(mut self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(self.hear(), None);
        self.worker.join().unwrap().unwrap();
    }
}

#[test]
fn a_stop_that_comes_with_the_configuration_is_heard() {
    let mut boss = Boss::new(&example(), &[Command::Stop, Command::Stop]);
    let done = boss.hear_done();
    assert_eq!(done, Done::default());
    boss.end();
}

#[test]
fn nothing_is_counted_behind_the_account() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let config = WorkerConfig { server, connections: 2, timeout_ns: u64::MAX / 2, ..example() };
    let mut boss = Boss::new(&config, &[]);
    while !matches!(boss.hear().expect("it has not ended"), Frame::Opened { open: 2 }) {}
    let at_ns = now_ns();
    boss.tell(Command::Begin { at_ns, end_ns: at_ns + 3_600_000_000_000 });
    let mut streams: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
    for stream in &mut streams {
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0, "a request");
    }
    boss.tell(Command::Stop);
    let done = boss.hear_done();
    assert_eq!((done.figures.counts.due, done.figures.counts.unfinished), (2, 2));
    assert_eq!(done.figures.counts.unaccounted(), 0);
    // What it waited for ends, and it is told once more: neither is of this run.
    drop(streams);
    boss.tell(Command::Stop);
    boss.end();
}

//! What a server says of itself: how it spreads datagrams, and what it has counted.
//!
//! To whoever connects to its TCP port of the same number it writes that as one JSON object, and
//! closes; it reads nothing from a stranger, and waits for none.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_wire::rss::{Settings, Table};

/// The longest answer that is read: a table of 65,536 buckets, and their counts.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How long a peer may take for all of its side of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Those who are answered at a time; others wait for their turn.
const ASKER_COUNT_MAX: usize = 16;
/// How old an announcement may be.
const AGE_MAX: Duration = Duration::from_millis(100);

/// What one worker of a server did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCounts {
    /// The CPU that it stays on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<usize>,
    /// Datagrams that it took from its socket.
    pub read_packets: u64,
    /// Datagrams that the kernel, or for AF_XDP the transmit ring, took from it.
    pub sent_packets: u64,
    /// Datagrams that the kernel did not take, and those that are not returned: cut, or from the
    /// port that is listened at.
    pub refused_packets: u64,
    /// Datagrams that its socket had no room for.
    pub dropped_packets: u64,
    /// Time that its thread was on a CPU.
    pub cpu_time_ns: u64,
}

/// What came in for one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketCounts {
    /// Datagrams that arrived at the server's interface.
    pub arrived_packets: u64,
    /// Of those: on another queue than the table has for the bucket.
    pub misplaced_packets: u64,
    /// Of those: not returned by the program at the interface that returns the others.
    #[serde(default)]
    pub refused_packets: u64,
}

/// What a server has counted since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Since the start.
    pub duration_ns: u64,
    /// In the order of their queues or buckets.
    pub workers: Vec<WorkerCounts>,
    /// In their order; none where datagrams are not counted as they come in.
    pub buckets: Vec<BucketCounts>,
    /// Whether the program at the interface returns datagrams, and there are no workers.
    pub is_reflected: bool,
}

/// The sums of a server's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTotals {
    /// Arrived at the interface; `None` where that is not counted.
    pub arrived_packets: Option<u64>,
    /// Of those: on another queue than the settings say.
    pub misplaced_packets: u64,
    /// Read by workers.
    pub read_packets: u64,
    /// Sent by workers.
    pub sent_packets: u64,
    /// Of what was to be sent: not taken by the kernel.
    pub refused_packets: u64,
    /// Without room in a socket.
    pub dropped_packets: u64,
}

impl ServerCounts {
    /// The sums.
    #[must_use]
    pub fn totals(&self) -> ServerTotals {
        let arrived: u64 = self.buckets.iter().map(|bucket| bucket.arrived_packets).sum();
        let sum = |count: fn(&WorkerCounts) -> u64| -> u64 { self.workers.iter().map(count).sum() };
        let refused: u64 = self.buckets.iter().map(|bucket| bucket.refused_packets).sum();
        // A program returns what it does not refuse.
        let by_program = |sum: u64, all: u64| if self.is_reflected { all } else { sum };
        ServerTotals {
            arrived_packets: (!self.buckets.is_empty()).then_some(arrived),
            misplaced_packets: self.buckets.iter().map(|bucket| bucket.misplaced_packets).sum(),
            read_packets: by_program(sum(|worker| worker.read_packets), arrived),
            sent_packets: by_program(
                sum(|worker| worker.sent_packets),
                arrived.saturating_sub(refused),
            ),
            refused_packets: sum(|worker| worker.refused_packets) + refused,
            dropped_packets: sum(|worker| worker.dropped_packets),
        }
    }

    /// What was counted since an earlier reading of the same server.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let old = |index: usize| before.workers.get(index).cloned().unwrap_or_default();
        let worker = |(index, new): (usize, &WorkerCounts)| {
            let old = old(index);
            WorkerCounts {
                cpu: new.cpu,
                read_packets: new.read_packets.saturating_sub(old.read_packets),
                sent_packets: new.sent_packets.saturating_sub(old.sent_packets),
                refused_packets: new.refused_packets.saturating_sub(old.refused_packets),
                dropped_packets: new.dropped_packets.saturating_sub(old.dropped_packets),
                cpu_time_ns: new.cpu_time_ns.saturating_sub(old.cpu_time_ns),
            }
        };
        let bucket = |(index, new): (usize, &BucketCounts)| {
            let old = before.buckets.get(index).copied().unwrap_or_default();
            BucketCounts {
                arrived_packets: new.arrived_packets.saturating_sub(old.arrived_packets),
                misplaced_packets: new.misplaced_packets.saturating_sub(old.misplaced_packets),
                refused_packets: new.refused_packets.saturating_sub(old.refused_packets),
            }
        };
        Self {
            duration_ns: self.duration_ns.saturating_sub(before.duration_ns),
            workers: self.workers.iter().enumerate().map(worker).collect(),
            buckets: self.buckets.iter().enumerate().map(bucket).collect(),
            is_reflected: self.is_reflected,
        }
    }
}

/// Packets that were lost before a socket, since a server was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// By the interface: its rings were full, or frames were bad.
    pub device_packets: u64,
    /// By the host's CPUs: their backlogs were full.
    pub backlog_packets: u64,
}

impl Losses {
    /// What was lost since an earlier reading.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            device_packets: self.device_packets.saturating_sub(before.device_packets),
            backlog_packets: self.backlog_packets.saturating_sub(before.backlog_packets),
        }
    }
}

/// What a server tells a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The key of the hash, in hexadecimal digits.
    pub key: String,
    /// A queue for each bucket.
    pub table: Vec<u16>,
    /// What is done to the fields before they are hashed.
    pub symmetry: String,
    /// What is hashed: of tcp4, udp4, tcp6 and udp6.
    pub fields: [String; 4],
    /// Whether datagrams are returned.
    pub echoes: bool,
    /// What it has counted so far.
    pub counts: ServerCounts,
    /// What was lost before its sockets so far.
    pub losses: Losses,
}

/// An announcement that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum AnnouncementError {
    /// Nobody answers.
    #[error("{address} does not say how it spreads datagrams: {source}")]
    Unanswered { address: SocketAddr, source: io::Error },
    /// The answer is none of a server's.
    #[error("{address} is no `weir echo serve --announce`: {why}")]
    Foreign { address: SocketAddr, why: String },
}

impl Announcement {
    /// Of a server with these settings.
    #[must_use]
    pub fn new(settings: &Settings, echoes: bool, counts: ServerCounts, losses: Losses) -> Self {
        Self {
            key: settings.key.to_string(),
            table: settings.table.queues().to_vec(),
            symmetry: settings.symmetry.to_string(),
            fields: settings.fields.map(|fields| fields.to_string()),
            echoes,
            counts,
            losses,
        }
    }

    /// How datagrams are spread.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn settings(&self) -> Result<Settings, String> {
        let mut fields = [weir_wire::rss::Fields::FourTuple; 4];
        for (place, text) in fields.iter_mut().zip(&self.fields) {
            *place = text.parse().map_err(|error| format!("{error}"))?;
        }
        Ok(Settings {
            key: self.key.parse().map_err(|error| format!("{error}"))?,
            table: Table::new(self.table.clone()).map_err(|error| error.to_string())?,
            symmetry: self.symmetry.parse().map_err(|error| format!("{error}"))?,
            fields,
        })
    }
}

/// Asks a server.
///
/// # Errors
/// [`AnnouncementError`] if nobody answers, or somebody else.
pub fn ask(address: SocketAddr) -> Result<Announcement, AnnouncementError> {
    let failed = |source| AnnouncementError::Unanswered { address, source };
    let text = answer_of(address, PATIENCE).map_err(failed)?;
    serde_json::from_slice(&text)
        .map_err(|error| AnnouncementError::Foreign { address, why: error.to_string() })
}

/// What is heard until the peer closes, which it has to do in that time.
fn answer_of(address: SocketAddr, patience: Duration) -> io::Result<Vec<u8>> {
    let begin = Instant::now();
    let connection = TcpStream::connect_timeout(&address, patience)?;
    let mut connection = connection.take(ANSWER_BYTES_MAX);
    let (mut text, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        connection.get_ref().set_read_timeout(Some(left))?;
        match connection.read(&mut piece) {
            Ok(0) => return Ok(text),
            Ok(bytes) => text.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Somebody who has asked.
#[derive(Debug)]
struct Asker {
    connection: TcpStream,
    text: Arc<[u8]>,
    /// Bytes of it that were written.
    written: usize,
    deadline: Instant,
}

impl Asker {
    /// Writes what there is room for; says whether it has all. An error is the end, too.
    fn write(&mut self) -> io::Result<bool> {
        while self.written < self.text.len() {
            match self.connection.write(&self.text[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Tells those who ask, and never waits for them.
#[derive(Debug)]
pub struct Announcer {
    listener: TcpListener,
    askers: Vec<Asker>,
    /// What was last said, and when.
    said: Option<(Instant, Arc<[u8]>)>,
}

impl Announcer {
    /// Listens.
    ///
    /// # Errors
    /// What the system returned.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, askers: Vec::new(), said: None })
    }

    /// Answers those who have asked by now, as far as that goes without waiting; says how many now
    /// have all of it. Who does not take it in 5 s gets no more.
    pub fn answer(&mut self, mut announcement: impl FnMut() -> Option<Announcement>) -> usize {
        while self.askers.len() < ASKER_COUNT_MAX {
            let Ok((connection, _)) = self.listener.accept() else { break };
            let Some(text) = self.text(&mut announcement) else { break };
            if connection.set_nonblocking(true).is_ok() {
                let deadline = Instant::now() + PATIENCE;
                self.askers.push(Asker { connection, text, written: 0, deadline });
            }
        }
        let mut count = 0;
        self.askers.retain_mut(|asker| match asker.write() {
            Ok(true) => {
                count += 1;
                false
            }
            Ok(false) => Instant::now() < asker.deadline,
            // What becomes of an answer is the asker's business.
            Err(_) => false,
        });
        count
    }

    fn text(
        &mut self,
        announcement: &mut impl FnMut() -> Option<Announcement>,
    ) -> Option<Arc<[u8]>> {
        if let Some((_, text)) = self.said.as_ref().filter(|(when, _)| when.elapsed() < AGE_MAX) {
            return Some(text.clone());
        }
        let text: Arc<[u8]> = serde_json::to_vec(&announcement()?).ok()?.into();
        self.said = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use weir_wire::rss::{Fields, Key, Symmetry};

    use super::*;

    fn counts() -> ServerCounts {
        let worker = WorkerCounts {
            cpu: Some(1),
            read_packets: 10,
            sent_packets: 8,
            refused_packets: 2,
            dropped_packets: 5,
            cpu_time_ns: 99,
        };
        let bucket = BucketCounts { arrived_packets: 15, misplaced_packets: 3, refused_packets: 0 };
        ServerCounts {
            duration_ns: 7,
            workers: vec![worker],
            buckets: vec![bucket; 2],
            is_reflected: false,
        }
    }

    #[test]
    fn who_asks_is_told_settings_and_counts() {
        let settings = Settings {
            key: Key::microsoft(),
            table: "weights:1,2/16".parse().expect("a table"),
            symmetry: Symmetry::Xor,
            fields: [Fields::FourTuple, Fields::TwoTuple, Fields::FourTuple, Fields::TwoTuple],
        };
        let mut announcer = Announcer::listen("127.0.0.1:0".parse().expect("one")).expect("a port");
        let address = announcer.listener.local_addr().expect("it has one");
        let asking = thread::spawn(move || ask(address));
        let said = Announcement::new(&settings, true, counts(), Losses::default());
        while announcer.answer(|| Some(said.clone())) == 0 {
            thread::yield_now();
        }
        let heard = asking.join().expect("it ends").expect("an answer");
        assert_eq!((heard.settings(), &heard), (Ok(settings), &said));
    }

    #[test]
    fn who_asks_and_takes_nothing_holds_up_nobody() {
        let mut announcer = Announcer::listen("127.0.0.1:0".parse().expect("one")).expect("a port");
        let address = announcer.listener.local_addr().expect("it has one");
        let settings = Settings {
            key: Key::microsoft(),
            table: "equal:2/65536".parse().expect("a table"),
            symmetry: Symmetry::None,
            fields: [Fields::FourTuple; 4],
        };
        // More than any socket's buffer holds.
        let bucket = BucketCounts { arrived_packets: u64::MAX, ..BucketCounts::default() };
        let counts = ServerCounts { buckets: vec![bucket; 1 << 17], ..counts() };
        let said = Announcement::new(&settings, true, counts, Losses::default());
        let mut said_count = 0;
        let connect = |_| TcpStream::connect(address).expect("it listens");
        let mut silent: Vec<TcpStream> = (0..ASKER_COUNT_MAX + 4).map(connect).collect();
        while announcer.askers.len() < ASKER_COUNT_MAX {
            let answered = announcer.answer(|| {
                said_count += 1;
                Some(said.clone())
            });
            assert_eq!(answered, 0);
        }
        assert!(said_count < ASKER_COUNT_MAX, "most are told the same");
        assert_eq!(announcer.answer(|| panic!("there is no room for more")), 0);
        // They go, so that there is room.
        silent.clear();
        thread::sleep(AGE_MAX);
        let said = Announcement { counts: ServerCounts::default(), ..said };
        let asking = thread::spawn(move || ask(address));
        while !asking.is_finished() {
            announcer.answer(|| Some(said.clone()));
            thread::sleep(Duration::from_millis(5));
        }
        let heard = asking.join().expect("it ends").expect("an answer");
        assert_eq!(heard.table.len(), 1 << 16);
    }

    #[test]
    fn an_answer_that_does_not_end_is_not_waited_for() {
        let slow = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = slow.local_addr().expect("it has one");
        let talking = thread::spawn(move || {
            let (mut asker, _) = slow.accept().expect("it asks");
            while asker.write_all(b"[").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let error = answer_of(address, Duration::from_millis(200)).expect_err("it is endless");
        let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(kinds.contains(&error.kind()), "{error}");
        talking.join().expect("it ends with the asker");
    }

    #[test]
    fn others_are_told_apart() {
        let foreign = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = foreign.local_addr().expect("it has one");
        let asking = thread::spawn(move || ask(address));
        let (mut asker, _) = foreign.accept().expect("it asks");
        asker.write_all(b"SSH-2.0-x\r\n").expect("it listens");
        drop(asker);
        let error = asking.join().expect("it ends").expect_err("it is none").to_string();
        assert!(error.contains("is no `weir echo serve --announce`"), "{error}");
        drop(foreign);
        let error = ask(address).expect_err("nobody is there").to_string();
        assert!(error.contains("does not say how it spreads"), "{error}");
    }

    #[test]
    fn sums_and_differences() {
        let totals = counts().totals();
        assert_eq!((totals.arrived_packets, totals.misplaced_packets), (Some(30), 6));
        assert_eq!((totals.read_packets, totals.sent_packets), (10, 8));
        let since = counts().since(&counts());
        assert_eq!(since.totals().arrived_packets, Some(0));
        assert_eq!(since.workers[0], WorkerCounts { cpu: Some(1), ..WorkerCounts::default() });
        let reflected = ServerCounts { is_reflected: true, workers: Vec::new(), ..counts() };
        assert_eq!(reflected.totals().sent_packets, 30);
        let mut refusing = reflected;
        refusing.buckets[1].refused_packets = 4;
        let totals = refusing.totals();
        assert_eq!((totals.read_packets, totals.sent_packets), (30, 26));
        assert_eq!(totals.refused_packets, 4);
        let blind = ServerCounts { buckets: Vec::new(), ..counts() };
        assert_eq!(blind.totals().arrived_packets, None);
    }
}

//! What a server says of itself: how it spreads datagrams, and what it has counted.
//!
//! To whoever connects to its TCP port of the same number it writes that as one JSON object, and
//! closes; it reads nothing from a stranger.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_wire::rss::{Settings, Table};

/// The longest answer that is read: a table of 65,536 buckets, and their counts.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How long a peer may take for its side of it.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Datagrams that the kernel did not take.
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
        let by_program = |sum: u64| if self.is_reflected { arrived } else { sum };
        ServerTotals {
            arrived_packets: (!self.buckets.is_empty()).then_some(arrived),
            misplaced_packets: self.buckets.iter().map(|bucket| bucket.misplaced_packets).sum(),
            read_packets: by_program(sum(|worker| worker.read_packets)),
            sent_packets: by_program(sum(|worker| worker.sent_packets)),
            refused_packets: sum(|worker| worker.refused_packets),
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
    let connection = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut text = String::new();
    connection.take(ANSWER_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    serde_json::from_str(&text)
        .map_err(|error| AnnouncementError::Foreign { address, why: error.to_string() })
}

/// Tells those who ask.
#[derive(Debug)]
pub struct Announcer(TcpListener);

impl Announcer {
    /// Listens.
    ///
    /// # Errors
    /// What the system returned.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Answers those who have asked by now; says how many.
    pub fn answer(&self, mut announcement: impl FnMut() -> Option<Announcement>) -> usize {
        let mut count = 0;
        while let Ok((mut asker, _)) = self.0.accept() {
            let text = announcement().and_then(|said| serde_json::to_vec(&said).ok());
            let Some(text) = text else { break };
            // What becomes of an answer is the asker's business.
            let _ = asker.set_nonblocking(false);
            let _ = asker.set_write_timeout(Some(PATIENCE));
            let _ = asker.write_all(&text);
            count += 1;
        }
        count
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
        let bucket = BucketCounts { arrived_packets: 15, misplaced_packets: 3 };
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
        let announcer = Announcer::listen("127.0.0.1:0".parse().expect("one")).expect("a port");
        let address = announcer.0.local_addr().expect("it has one");
        let asking = thread::spawn(move || ask(address));
        let said = Announcement::new(&settings, true, counts(), Losses::default());
        while announcer.answer(|| Some(said.clone())) == 0 {
            thread::yield_now();
        }
        let heard = asking.join().expect("it ends").expect("an answer");
        assert_eq!((heard.settings(), &heard), (Ok(settings), &said));
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
        let blind = ServerCounts { buckets: Vec::new(), ..counts() };
        assert_eq!(blind.totals().arrived_packets, None);
    }
}

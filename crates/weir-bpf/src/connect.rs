//! TCP connections without sockets: `bpf/connect.bpf.c`, its client and its server.
//!
//! The client's SYNs are live frames: [`ConnectClient::run`] is called as
//! [`crate::generator::GeneratorProgram::run`] is, by threads pinned to the CPUs that were
//! configured. What comes back to an interface is answered there, by the program that
//! [`ConnectClient::attach`] puts at it; the server has that alone. Neither keeps anything of a
//! connection, so that nothing is sent again: counters say what was lost. Only SYNs may be sent
//! again, for which the client keeps a bit for each flow.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::MapHandle;
use weir_wire::checksum;
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::stream::StreamSet;
use weir_wire::walk::Share;

use crate::attach::{self, AttachError, Link, Mode};
use crate::generator::{ConfigError, GeneratorCounters, ThreadConfig, lane, thread, write_words};
use crate::histogram::Histogram;
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{LoadError, Loaded, resize};
use crate::sys;
use crate::words::{
    self, connect_close, connect_counters, connect_kinds, connect_range, connect_set,
};

#[cfg(test)]
mod tests;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/connect.bpf.o"));
const OBJECT_NAME: &str = "connect";
/// The section, and so the map, of the constants.
const SECTION: &str = ".rodata.connect";

/// Largest request or reply, bytes.
pub const PAYLOAD_BYTES_MAX: u16 = words::CONNECT_PAYLOAD_BYTES_MAX;
/// Smallest reply, bytes: the acknowledgement of less could be that of a FIN.
pub const REPLY_BYTES_MIN: u16 = words::CONNECT_REPLY_BYTES_MIN;

/// Most times that a SYN is sent again.
pub const RETRIES_MAX: u8 = words::CONNECT_RETRIES_MAX.to_le_bytes()[0];
/// Most flows of which is known whether their SYNs were answered: a bit for each, 16 MiB in all.
pub const RETRY_FLOWS_MAX: u64 = 1 << 27;
/// When a SYN that nobody has answered is sent again first; the time between two doubles (RFC 6298
/// section 2.1 and 5.5).
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Of the hash that gives connections their first numbers. Both ends have the same, so that the
/// client can tell where a server's numbers stand when it ends a connection that it held.
const KEY: u64 = 0x636f_6e6e_6563_7421;

/// What frames of the client start as: larger than any segment that it begins with. Each is cut,
/// and that has the kernel restore the length of pages that it uses again. It would not notice
/// otherwise that whoever received a frame has cut it and sent it on, as both ends do.
static TEMPLATE: [u8; 128] = [0; 128];

/// What the client does with a connection in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// Nothing: it stays open.
    None,
    /// The server closes behind its reply, and the client behind that; without a request, or when
    /// connections are held, the client closes first.
    Fin,
    /// The client resets it.
    Rst,
}

/// What a client does.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// The flows, in the order in which they are opened: one stream of TCP over an odometer.
    pub set: StreamSet,
    /// What becomes of a connection.
    pub close: Close,
    /// How long a connection is held, from its SYN to its end; zero if it is not.
    pub hold: Duration,
    /// Bytes of a request; zero if there is none. At most [`PAYLOAD_BYTES_MAX`].
    pub request_bytes: u16,
    /// Bytes of the replies that the server gives: what a FIN behind them has to acknowledge.
    pub reply_bytes: u16,
    /// How often a SYN that nobody answers is sent again, at most [`RETRIES_MAX`]; for more than
    /// zero there may be no more than [`RETRY_FLOWS_MAX`] flows.
    pub retries: u8,
    /// When first, after the SYN: [`RETRY_AFTER`], or less in a test.
    pub retry_after: Duration,
}

/// What a server does.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// The addresses and ports that it answers for; `None`: all that come in.
    pub listen: Option<AddrRange>,
    /// Bytes of a reply, from [`REPLY_BYTES_MIN`] to [`PAYLOAD_BYTES_MAX`].
    pub reply_bytes: u16,
}

/// Why an end could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConnectLoadError {
    /// The client goes over one stream of flows, in order.
    #[error("connections are opened over one stream of flows, in their order")]
    Stream,
    /// A request or a reply is too large or too small.
    #[error(
        "{what} of {bytes} bytes cannot be sent: it goes into one packet, which holds from {min} \
         to {PAYLOAD_BYTES_MAX} bytes"
    )]
    Payload {
        /// "a request" or "a reply".
        what: &'static str,
        bytes: u16,
        /// The fewest.
        min: u16,
    },
    /// There are more flows than can be told apart, or more tries.
    #[error(
        "SYNs are sent again {RETRIES_MAX} times at most, and of no more than {RETRY_FLOWS_MAX} \
         flows"
    )]
    Retries,
    /// The kernel refuses the program.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The payload could not be written.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// What an end counted; what it has no part in is zero. Segments, each counted where it is first
/// seen or made; one that the other end sends again is counted again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectCounters {
    /// SYNs: sent by the client, seen by the server.
    pub syns: u64,
    /// SYN-ACKs: seen by the client, sent by the server.
    pub syn_acks: u64,
    /// Connections that this end took for established: the client with the SYN-ACK, the server with
    /// the acknowledgement of that.
    pub established: u64,
    /// Requests: sent by the client, seen by the server.
    pub requests: u64,
    /// Replies: seen by the client, sent by the server.
    pub replies: u64,
    /// FINs of the client.
    pub fins: u64,
    /// Connections of which both FINs were acknowledged, as far as this end knows.
    pub closed: u64,
    /// RSTs of the client.
    pub resets: u64,
    /// Client: SYNs that were sent again. They are not among `syns`.
    pub retries: u64,
    /// Client, if SYNs are sent again: SYN-ACKs of connections that had been answered before. They
    /// are not among `syn_acks`.
    pub repeated: u64,
    /// Client: SYNs that were answered with a RST.
    pub refused: u64,
    /// SYN-ACKs or SYNs of another program than weir's, or that came through a translation of
    /// addresses.
    pub strangers: u64,
    /// Client: RSTs behind the handshake.
    pub peer_resets: u64,
    /// Client: FINs of the server for connections that the client was to end.
    pub peer_closes: u64,
    /// Acknowledgements that fit no step of a connection.
    pub bad_number: u64,
    /// Flags that fit no step of a connection.
    pub bad_flags: u64,
    /// Segments without a whole TCP header.
    pub malformed: u64,
    /// Segments that were to be answered and could not be.
    pub unanswered: u64,
    /// All other packets; they go on into the network stack.
    pub passed_packets: u64,
}

impl ConnectCounters {
    fn add_words(&mut self, words: &[u64]) {
        self.syns += words[connect_counters::SYNS];
        self.syn_acks += words[connect_counters::SYN_ACKS];
        self.established += words[connect_counters::ESTABLISHED];
        self.requests += words[connect_counters::REQUESTS];
        self.replies += words[connect_counters::REPLIES];
        self.fins += words[connect_counters::FINS];
        self.closed += words[connect_counters::CLOSED];
        self.resets += words[connect_counters::RESETS];
        self.retries += words[connect_counters::RETRIES];
        self.repeated += words[connect_counters::REPEATED];
        self.refused += words[connect_counters::REFUSED];
        self.strangers += words[connect_counters::STRANGERS];
        self.peer_resets += words[connect_counters::PEER_RESETS];
        self.peer_closes += words[connect_counters::PEER_CLOSES];
        self.bad_number += words[connect_counters::BAD_NUMBER];
        self.bad_flags += words[connect_counters::BAD_FLAGS];
        self.malformed += words[connect_counters::MALFORMED];
        self.unanswered += words[connect_counters::UNANSWERED];
        self.passed_packets += words[connect_counters::PASSED];
    }
}

/// What both ends have.
#[derive(Debug)]
struct End {
    program: OwnedFd,
    output: MapHandle,
    counters: MapHandle,
}

impl End {
    fn new(object: &Loaded, program: &str, payload: &[u8]) -> Result<Self, ConnectLoadError> {
        let room = object.map("weir_connect_payload", PAYLOAD_BYTES_MAX.into())?;
        let mut value = payload.to_vec();
        value.resize(PAYLOAD_BYTES_MAX.into(), 0);
        map::write(&room, 0, &value)?;
        Ok(Self {
            program: object.program(program)?,
            output: object.map("weir_output", size_of::<u32>())?,
            counters: object.map("weir_counters", connect_counters::WORDS * WORD_BYTES)?,
        })
    }

    fn attach(&self, ifindex: u32, mode: Mode) -> Result<Link, ConnectAttachError> {
        map::write(&self.output, 0, &ifindex.to_ne_bytes())?;
        Ok(attach::in_mode(self.program.as_fd(), ifindex, mode)?)
    }

    fn counters(&self) -> Result<ConnectCounters, MapError> {
        let mut total = ConnectCounters::default();
        for words in map::read_per_cpu(&self.counters)? {
            total.add_words(&words);
        }
        Ok(total)
    }
}

/// Why an end could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectAttachError {
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The driver does not transmit XDP frames.
    #[error("the interface cannot send XDP frames: {0}")]
    Output(#[from] MapError),
}

/// The server: it answers what comes in at an interface.
#[derive(Debug)]
pub struct ConnectServer {
    end: End,
}

impl ConnectServer {
    /// Loads the server; it is attached nowhere.
    ///
    /// # Errors
    /// [`ConnectLoadError`] if replies have no such size, or without privileges or kernel support.
    pub fn load(config: &ServerConfig) -> Result<Self, ConnectLoadError> {
        check_payload("a reply", config.reply_bytes, REPLY_BYTES_MIN)?;
        let payload = reply(config.reply_bytes);
        let mut set = vec![0; connect_set::WORDS];
        put_common(&mut set, 0, config.reply_bytes, &payload);
        put_range(&mut set[connect_set::SERVER..], config.listen.as_ref());
        let object = load(&set, "weir_connect_serve", Rooms { threads: 1, flows: 1 })?;
        Ok(Self { end: End::new(&object, "weir_connect_serve", &payload)? })
    }

    /// Attaches the server to an interface of the calling thread's network namespace until the link
    /// is dropped, and answers there.
    ///
    /// # Errors
    /// [`ConnectAttachError`] if the driver does not take the program, or has one already.
    pub fn attach(&self, ifindex: u32, mode: Mode) -> Result<Link, ConnectAttachError> {
        self.end.attach(ifindex, mode)
    }

    /// The counters since the server was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<ConnectCounters, MapError> {
        self.end.counters()
    }
}

/// What the threads of a client have sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentCounters {
    /// SYNs, and how their schedule was kept.
    pub syns: GeneratorCounters,
    /// What ends connections that were held.
    pub ends: GeneratorCounters,
    /// Packets of any kind that were not sent because the output device is gone. Zero unless
    /// something is wrong.
    pub refused_packets: u64,
}

/// How far a thread of a client has come, each with the connections before its first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientProgress {
    /// Connections that it has opened.
    pub opened: u64,
    /// Of how many it has sent the end; all if they are not held.
    pub ended: u64,
    /// Of how many all SYNs are over that may be sent again; all if none are.
    pub looked_after: u64,
}

impl ClientProgress {
    /// Whether nothing is left to do for the connections that were opened.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.ended >= self.opened && self.looked_after >= self.opened
    }
}

/// Opens connections and carries them on, as one end of them.
#[derive(Debug)]
pub struct ConnectClient {
    end: End,
    sender: OwnedFd,
    set: StreamSet,
    close: Close,
    is_holding: bool,
    retries: u32,
    cpu_count: u32,
    threads: MapHandle,
    gaps: MapHandle,
    latency: MapHandle,
    parked: Option<Link>,
}

impl ConnectClient {
    /// Loads the client: no thread is configured, nothing is attached.
    ///
    /// # Errors
    /// [`ConnectLoadError`] if the flows or the sizes are none that it can have, or without
    /// privileges or kernel support.
    pub fn load(config: &ClientConfig) -> Result<Self, ConnectLoadError> {
        let [stream] = config.set.streams() else { return Err(ConnectLoadError::Stream) };
        check_payload("a request", config.request_bytes, 0)?;
        check_payload("a reply", config.reply_bytes, REPLY_BYTES_MIN)?;
        let flow_count = stream.flows().flow_count();
        if config.retries > RETRIES_MAX || (config.retries > 0 && flow_count > RETRY_FLOWS_MAX) {
            return Err(ConnectLoadError::Retries);
        }
        let cpu_count = libbpf_rs::num_possible_cpus().ok().and_then(|n| u32::try_from(n).ok());
        let cpu_count = cpu_count.unwrap_or(1);
        let payload = request(config.request_bytes);
        let mut set = vec![0; connect_set::WORDS];
        put_common(&mut set, config.request_bytes, config.reply_bytes, &payload);
        set[connect_set::CLOSE] = match config.close {
            Close::None => connect_close::NONE,
            Close::Fin => connect_close::FIN,
            Close::Rst => connect_close::RST,
        };
        let ends = config.close == Close::Fin && config.hold.is_zero();
        set[connect_set::KIND] = connect_kinds::WEIR | if ends { 0 } else { connect_kinds::KEEP };
        set[connect_set::HOLD_NS] = nanoseconds(config.hold);
        set[connect_set::RETRIES] = config.retries.into();
        set[connect_set::RETRY_NS] = nanoseconds(config.retry_after);
        set[connect_set::CPU_COUNT] = cpu_count.into();
        put_range(&mut set[connect_set::CLIENT..], Some(&stream.spec().src));
        put_range(&mut set[connect_set::SERVER..], Some(&stream.spec().dst));
        let rooms = Rooms {
            threads: cpu_count.saturating_mul(2 + u32::from(config.retries)),
            flows: if config.retries > 0 { flow_count } else { 1 },
        };
        let object = load(&set, "weir_connect_client", rooms)?;
        Ok(Self {
            end: End::new(&object, "weir_connect_client", &payload)?,
            sender: object.program("weir_connect_send")?,
            set: config.set.clone(),
            close: config.close,
            is_holding: !config.hold.is_zero(),
            retries: config.retries.into(),
            cpu_count,
            threads: object.map("weir_threads", words::thread::WORDS * WORD_BYTES)?,
            gaps: object.map("weir_gaps", words::histogram::WORDS * WORD_BYTES)?,
            latency: object.map("weir_latency", words::histogram::WORDS * WORD_BYTES)?,
            parked: None,
        })
    }

    /// The flows for which the program was loaded.
    #[must_use]
    pub const fn set(&self) -> &StreamSet {
        &self.set
    }

    /// Attaches the client to an interface of the calling thread's network namespace until the link
    /// is dropped: it sends there, and answers what comes back there.
    ///
    /// # Errors
    /// [`ConnectAttachError`] if the driver does not take the program, or has one already.
    pub fn attach(&self, ifindex: u32) -> Result<Link, ConnectAttachError> {
        self.end.attach(ifindex, Mode::Native)
    }

    /// Attaches the sending program to an interface that carries no traffic; see
    /// [`crate::generator::GeneratorProgram::park`].
    ///
    /// # Errors
    /// [`AttachError`] if the interface has no native XDP or has a program already.
    pub fn park(&mut self, ifindex: u32) -> Result<(), AttachError> {
        self.parked = Some(attach::native(self.sender.as_fd(), ifindex)?);
        Ok(())
    }

    /// Says which connections the given CPU opens, and how fast; it must not be inside
    /// [`run`](Self::run). Connections that are held need an interval.
    ///
    /// # Errors
    /// [`ConfigError`] if the flows have no such thread, or the machine no such CPU.
    pub fn configure(&self, cpu: u32, config: &ThreadConfig) -> Result<(), ConfigError> {
        if cpu >= self.cpu_count {
            return Err(ConfigError::Cpu { cpu, count: self.cpu_count });
        }
        let share = Share::new(config.thread, self.set.thread_count())?;
        // A client is not loaded without a stream.
        let Some(stream) = self.set.streams().first() else { return Ok(()) };
        let lane = lane::encode(stream, share.sequence(config.first_nth), 0, false);
        // Their time is a part of the packets.
        let config = ThreadConfig { timestamps: true, ..*config };
        write_words(&self.threads, cpu, &thread::encode(&config, 0, Some(&lane)))?;
        // They follow it, and go no further.
        let following = ThreadConfig { end_nth: None, ..config };
        let words = thread::encode(&following, 0, Some(&lane));
        for index in self.followers(cpu) {
            write_words(&self.threads, index, &words)?;
        }
        Ok(())
    }

    /// Where in the map the threads are that follow a CPU's own over its flows: what ends
    /// connections, and what sends SYNs again.
    fn followers(&self, cpu: u32) -> impl Iterator<Item = u32> {
        let cpu_count = self.cpu_count;
        (1..=1 + self.retries).map(move |number| number * cpu_count + cpu)
    }

    /// Has a CPU's thread open no more connections; those that it holds are still ended. It must
    /// not be inside [`run`](Self::run).
    ///
    /// # Errors
    /// [`MapError`] if there is no such CPU.
    pub fn stop_opening(&self, cpu: u32) -> Result<(), MapError> {
        let mut thread = map::read(&self.threads, cpu)?;
        thread[words::thread::NTH_END] = thread[words::thread::NTH];
        write_words(&self.threads, cpu, &thread)
    }

    /// How far a CPU's thread has come.
    ///
    /// # Errors
    /// [`MapError`] if there is no such CPU.
    pub fn progress(&self, cpu: u32) -> Result<ClientProgress, MapError> {
        let nth = |index| Ok(map::read(&self.threads, index)?[words::thread::NTH]);
        let opened = nth(cpu)?;
        let mut progress = ClientProgress { opened, ended: opened, looked_after: opened };
        for (number, index) in self.followers(cpu).enumerate() {
            let reached = nth(index)?;
            if number > 0 {
                progress.looked_after = progress.looked_after.min(reached);
            } else if self.is_holding {
                progress.ended = reached;
            }
        }
        Ok(progress)
    }

    /// Runs the calling CPU's thread: as [`crate::generator::GeneratorProgram::run`].
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn run(&self, repeat: u32, batch: u32) -> io::Result<()> {
        match sys::test_run_live(self.sender.as_fd(), &TEMPLATE, repeat, batch) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// What one CPU's thread has sent since it was configured; bytes are not counted.
    ///
    /// # Errors
    /// [`MapError`] if it cannot be read, or there is no such CPU.
    pub fn thread_sent(&self, cpu: u32) -> Result<SentCounters, MapError> {
        let read = |index| Ok(thread::counters(&map::read(&self.threads, index)?, None));
        let mut sent = SentCounters { syns: read(cpu)?, ..Default::default() };
        for (number, index) in self.followers(cpu).enumerate() {
            let counters = read(index)?;
            sent.refused_packets += counters.refused_packets;
            if number == 0 {
                sent.ends = counters;
            }
        }
        sent.refused_packets += sent.syns.refused_packets;
        Ok(sent)
    }

    /// What all threads have sent since they were configured.
    ///
    /// # Errors
    /// [`MapError`] if it cannot be read.
    pub fn sent(&self) -> Result<SentCounters, MapError> {
        let mut total = SentCounters::default();
        for cpu in 0..self.cpu_count {
            let sent = self.thread_sent(cpu)?;
            total.syns.add(&sent.syns);
            total.ends.add(&sent.ends);
            total.refused_packets += sent.refused_packets;
        }
        Ok(total)
    }

    /// The counters since the client was loaded, with what its threads have sent.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<ConnectCounters, MapError> {
        let sent = self.sent()?;
        let mut counters = self.end.counters()?;
        counters.syns = sent.syns.offered_packets;
        match self.close {
            Close::Fin if self.is_holding => counters.fins += sent.ends.offered_packets,
            Close::Rst if self.is_holding => counters.resets += sent.ends.offered_packets,
            _ => {}
        }
        Ok(counters)
    }

    /// Times from the SYN to the SYN-ACK, and from the request to the reply, nanoseconds, by the
    /// timestamps that the server echoes: of connections whose server does.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn latency_ns(&self) -> Result<[Histogram; 2], MapError> {
        let read = |index| {
            let mut histogram = Histogram::default();
            for words in map::read_per_cpu_at(&self.latency, index)? {
                histogram.add_words(&words);
            }
            Ok(histogram)
        };
        Ok([read(words::CONNECT_HANDSHAKE)?, read(words::CONNECT_REPLY)?])
    }

    /// Times between two SYNs of each paced thread, and between two segments that end connections,
    /// nanoseconds, all threads together.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn gaps_ns(&self) -> Result<Histogram, MapError> {
        let mut gaps = Histogram::default();
        for words in map::read_per_cpu(&self.gaps)? {
            gaps.add_words(&words);
        }
        Ok(gaps)
    }
}

fn check_payload(what: &'static str, bytes: u16, min: u16) -> Result<(), ConnectLoadError> {
    if (min..=PAYLOAD_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(ConnectLoadError::Payload { what, bytes, min })
}

/// A request for the document at `/`, as HTTP/1.0 (RFC 1945), that is so long; letters if there is
/// no room for one.
fn request(bytes: u16) -> Vec<u8> {
    padded(b"GET /", b" HTTP/1.0\r\n\r\n", b"?", bytes)
}

/// A response of HTTP/1.0 that is so long; letters if there is no room for its head.
fn reply(bytes: u16) -> Vec<u8> {
    padded(b"HTTP/1.0 200 OK\r\n\r\n", b"", b"", bytes)
}

fn padded(head: &[u8], tail: &[u8], separator: &[u8], bytes: u16) -> Vec<u8> {
    const LETTER: u8 = b'w';
    let bytes = usize::from(bytes);
    let Some(room) = bytes.checked_sub(head.len() + tail.len()) else {
        return vec![LETTER; bytes];
    };
    let mut padding = vec![LETTER; room];
    for (at, byte) in padding.iter_mut().zip(separator) {
        *at = *byte;
    }
    [head, &padding, tail].concat()
}

fn put_common(set: &mut [u64], request_bytes: u16, reply_bytes: u16, payload: &[u8]) {
    set[connect_set::REQUEST_BYTES] = request_bytes.into();
    set[connect_set::REPLY_BYTES] = reply_bytes.into();
    set[connect_set::PAYLOAD_BYTES] = payload.len() as u64;
    set[connect_set::PAYLOAD_SUM] = checksum::sum(payload).into();
    set[connect_set::KEY] = KEY;
}

/// `struct weir_connect_range`; all of its words are zero before.
fn put_range(words: &mut [u64], range: Option<&AddrRange>) {
    const GROUP: u64 = 0xffff;
    let Some(range) = range else { return };
    let ends = (range.addr(0), range.addr(range.addr_count() - 1));
    match (range, ends) {
        (AddrRange::V6(six), (IpAddr::V6(first), IpAddr::V6(last))) => {
            let (at, is_high) = (six.group_shift() % 64, six.group_shift() >= 64);
            let value = |bits: u128| (bits >> six.group_shift()) & u128::from(GROUP);
            let base = first.to_bits() & !(u128::from(GROUP) << six.group_shift());
            words[connect_range::FAMILY] = 6;
            (words[connect_range::HIGH], words[connect_range::LOW]) = halves(base);
            let mask = if is_high { connect_range::HIGH_MASK } else { connect_range::LOW_MASK };
            words[mask] = GROUP << at;
            words[connect_range::SHIFT] = at.into();
            words[connect_range::FIRST] = halves(value(first.to_bits())).1;
            words[connect_range::LAST] = halves(value(last.to_bits())).1;
        }
        (_, (IpAddr::V4(first), IpAddr::V4(last))) => {
            words[connect_range::FAMILY] = 4;
            words[connect_range::LOW_MASK] = u32::MAX.into();
            words[connect_range::FIRST] = first.to_bits().into();
            words[connect_range::LAST] = last.to_bits().into();
        }
        _ => unreachable!("ranges have their own family"),
    }
    words[connect_range::PORT_FIRST] = range.port_first().into();
    words[connect_range::PORT_LAST] =
        u64::from(range.port_first()) + u64::from(range.port_count()) - 1;
}

/// The upper and the lower 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "the halves are what is asked for")]
const fn halves(bits: u128) -> (u64, u64) {
    ((bits >> 64) as u64, bits as u64)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// For how much an end has room.
#[derive(Debug, Clone, Copy)]
struct Rooms {
    threads: u32,
    /// Of which is known whether they were answered.
    flows: u64,
}

/// Loads one end, with these constants.
fn load(set: &[u64], program: &str, rooms: Rooms) -> Result<Loaded, LoadError> {
    let constants: Vec<u8> = set.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Loaded::load_prepared(OBJECT_NAME, OBJECT, |object| {
        let is_client = program == "weir_connect_client";
        for mut found in object.progs_mut() {
            let is_sender = is_client && found.name() == "weir_connect_send";
            let is_selected = found.name() == program || is_sender;
            found.set_autoload(is_selected);
        }
        for mut map in object.maps_mut() {
            if map.name().to_string_lossy().ends_with(SECTION) {
                map.set_initial_value(&constants)?;
            }
        }
        let words = u32::try_from(rooms.flows.div_ceil(64)).unwrap_or(u32::MAX);
        resize(object, "weir_connect_answered", words)?;
        resize(object, "weir_threads", rooms.threads)
    })
}

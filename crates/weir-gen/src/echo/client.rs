//! The client: threads that send datagrams from one socket for each flow, and count what comes back
//! to it.
//!
//! At a rate, latency is counted from when a datagram was due, so that a client that is late does
//! not hide that the server is; without one, from when it was sent. How late the client itself was
//! is counted, too. Datagrams carry a time of this process alone.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use weir_bpf::datagrams::{Batch, DropCounter};
use weir_bpf::histogram::Histogram;
use weir_net::{CpuList, cpu};
use weir_wire::units::whole_ns;

use super::EchoError;
use crate::pacing::Schedule;

/// Datagrams of a turn.
const TURN: usize = 32;
/// The largest datagram that is read: what is longer is none of these.
const DATAGRAM_BYTES_MAX: usize = 9216;
/// How long answers may take after the last datagram was sent.
const PATIENCE: Duration = Duration::from_secs(2);
/// Without an answer for so long after that, none is waited for.
const QUIET: Duration = Duration::from_millis(200);
/// A wait that is shorter is spent looking for answers.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// What a datagram begins with, before its time: not what a generator's does.
const MAGIC: [u8; 8] = *b"echoweir";
/// The shortest payload, bytes.
pub const PAYLOAD_BYTES_MIN: usize = 16;

/// What is to be sent.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Where to.
    pub server: SocketAddr,
    /// Where from: a socket for each.
    pub sources: Vec<SocketAddr>,
    /// Threads, of which each has a share of the sources.
    pub thread_count: usize,
    /// CPUs of the threads, in turn; none: they stay on none.
    pub cpus: Vec<usize>,
    /// Bytes of each datagram's payload, at least [`PAYLOAD_BYTES_MIN`].
    pub payload_bytes: usize,
    /// Datagrams per second of all threads together; `None`: as many as can be.
    pub rate_pps: Option<f64>,
    /// Datagrams of all threads together, at most.
    pub packet_limit: Option<u64>,
}

/// What became of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Datagrams that the kernel took.
    pub sent_packets: u64,
    /// Datagrams that it did not take.
    pub refused_packets: u64,
    /// Answers that were read.
    pub received_packets: u64,
    /// Answers that the socket had no room for.
    pub dropped_packets: u64,
}

impl FlowCounts {
    /// Adds another flow's.
    pub const fn add(&mut self, other: &Self) {
        self.sent_packets += other.sent_packets;
        self.refused_packets += other.refused_packets;
        self.received_packets += other.received_packets;
        self.dropped_packets += other.dropped_packets;
    }
}

/// What a client has counted.
#[derive(Debug, Clone)]
pub struct ClientCounts {
    /// By flow, in the order of the sources.
    pub flows: Vec<FlowCounts>,
    /// From the start to the last datagram, or until now.
    pub sending: Duration,
    /// Time to the answer, ns, by flow.
    pub latency_ns: Vec<Histogram>,
    /// How late datagrams were sent, ns; empty without a rate.
    pub lag_ns: Histogram,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    refused: AtomicU64,
    received: AtomicU64,
}

/// A flow of a thread.
#[derive(Debug)]
struct Flow {
    socket: Arc<UdpSocket>,
    counters: Arc<Counters>,
}

/// What threads and whoever asks them share.
#[derive(Debug)]
struct Shared {
    begin: Instant,
    /// No more is sent.
    is_over: AtomicBool,
    /// Nothing is waited for.
    is_ended: AtomicBool,
    latency_ns: Vec<Mutex<Histogram>>,
    /// By thread.
    lag_ns: Vec<Mutex<Histogram>>,
    /// When the last thread so far ended to send, ns from the start.
    sending_ns: AtomicU64,
    /// Threads that still send.
    sender_count: AtomicUsize,
}

fn locked(histogram: &Mutex<Histogram>) -> MutexGuard<'_, Histogram> {
    histogram.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that sends until it is stopped, or has sent what it was to send.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    counters: Vec<Arc<Counters>>,
    /// The flows' sockets, to ask for what they dropped.
    sockets: Vec<(Arc<UdpSocket>, DropCounter)>,
    threads: Vec<JoinHandle<Result<(), EchoError>>>,
}

impl Client {
    /// Opens the sockets, in the network namespace of the calling thread, and begins to send.
    ///
    /// # Errors
    /// [`EchoError`] if an address is not to be had, or a thread; nothing is sent then.
    ///
    /// # Panics
    /// Without a source, or with a payload that is too short.
    pub fn start(options: &ClientOptions) -> Result<Self, EchoError> {
        assert!(!options.sources.is_empty(), "there is a source");
        assert!(options.payload_bytes >= PAYLOAD_BYTES_MIN, "there is room for the time");
        let mut flows = Vec::with_capacity(options.sources.len());
        let mut sockets = Vec::with_capacity(options.sources.len());
        for source in &options.sources {
            let failed = |error| EchoError::Socket { address: *source, source: error };
            let socket = UdpSocket::bind(source).map_err(failed)?;
            socket.connect(options.server).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            let socket = Arc::new(socket);
            sockets.push((socket.clone(), DropCounter::default()));
            flows.push(Flow { socket, counters: Arc::default() });
        }
        let thread_count = options.thread_count.clamp(1, flows.len());
        let shared = Arc::new(Shared {
            begin: Instant::now(),
            is_over: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            latency_ns: flows.iter().map(|_| Mutex::default()).collect(),
            lag_ns: (0..thread_count).map(|_| Mutex::default()).collect(),
            sending_ns: AtomicU64::new(0),
            sender_count: AtomicUsize::new(thread_count),
        });
        let counters = flows.iter().map(|flow| flow.counters.clone()).collect();
        let mut client = Self { shared, counters, sockets, threads: Vec::new() };
        client.start_threads(options, flows)?;
        Ok(client)
    }

    fn start_threads(
        &mut self,
        options: &ClientOptions,
        flows: Vec<Flow>,
    ) -> Result<(), EchoError> {
        let thread_count = self.shared.lag_ns.len();
        let mut shares: Vec<Vec<(usize, Flow)>> = Vec::new();
        shares.resize_with(thread_count, Vec::new);
        for (index, flow) in flows.into_iter().enumerate() {
            shares[index % thread_count].push((index, flow));
        }
        let parts = thread_count as u64;
        for (number, flows) in shares.into_iter().enumerate() {
            // What cannot be divided goes to the first ones.
            let limit = options
                .packet_limit
                .map(|limit| limit / parts + u64::from((number as u64) < limit % parts));
            let schedule = options.rate_pps.map(|rate_pps| Schedule {
                rate_pps: rate_pps / thread_count as f64,
                ramp: Duration::ZERO,
            });
            let mut sender = Sender {
                shared: self.shared.clone(),
                number,
                batch: Batch::new(TURN, options.payload_bytes),
                answers: Batch::new(TURN, DATAGRAM_BYTES_MAX),
                epoll: watch(&flows).map_err(EchoError::Client)?,
                flows,
                payload_bytes: options.payload_bytes,
                schedule,
                left: limit.unwrap_or(u64::MAX),
                sent: 0,
                next: 0,
            };
            let cpus = match options.cpus.len() {
                0 => None,
                count => CpuList::new([options.cpus[number % count]]),
            };
            let thread = thread::Builder::new().name(format!("client {number}")).spawn(move || {
                if let Some(cpus) = cpus {
                    cpu::pin_current_thread(&cpus)?;
                }
                sender.run().map_err(EchoError::Client)
            });
            self.threads.push(thread.map_err(EchoError::Thread)?);
        }
        Ok(())
    }

    /// Whether it still sends, or waits for answers.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.threads.iter().any(|thread| !thread.is_finished())
    }

    /// Ends the sending; answers are waited for.
    pub fn finish(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }

    /// What it has counted.
    ///
    /// # Errors
    /// [`EchoError`] if a socket does not say what it dropped.
    pub fn counts(&self) -> Result<ClientCounts, EchoError> {
        let flows = self.flow_counts()?;
        let latency_ns = self.shared.latency_ns.iter().map(|one| locked(one).clone()).collect();
        let mut lag_ns = Histogram::default();
        self.shared.lag_ns.iter().for_each(|one| lag_ns.add(&locked(one)));
        let sending = match self.shared.sender_count.load(Ordering::Acquire) {
            0 => Duration::from_nanos(self.shared.sending_ns.load(Ordering::Relaxed)),
            _ => self.shared.begin.elapsed(),
        };
        Ok(ClientCounts { flows, sending, latency_ns, lag_ns })
    }

    /// The counts of each flow.
    fn flow_counts(&self) -> Result<Vec<FlowCounts>, EchoError> {
        let mut flows = Vec::with_capacity(self.counters.len());
        for (counters, (socket, drops)) in self.counters.iter().zip(&self.sockets) {
            let received_packets = counters.received.load(Ordering::Relaxed);
            let dropped = drops.read(socket.as_fd()).map_err(EchoError::Client)?;
            flows.push(FlowCounts {
                received_packets,
                dropped_packets: dropped,
                sent_packets: counters.sent.load(Ordering::Relaxed),
                refused_packets: counters.refused.load(Ordering::Relaxed),
            });
        }
        Ok(flows)
    }

    /// Waits for its end, which [`Client::finish`] or the limit brings, and returns what it has
    /// counted.
    ///
    /// # Errors
    /// [`EchoError`] if a thread has failed.
    pub fn join(mut self) -> Result<ClientCounts, EchoError> {
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        self.counts()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.is_ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Whoever drops it does not ask.
            drop(thread.join());
        }
    }
}

fn watch(flows: &[(usize, Flow)]) -> std::io::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (place, (_, flow)) in flows.iter().enumerate() {
        epoll.add(&*flow.socket, EpollEvent::new(EpollFlags::EPOLLIN, place as u64))?;
    }
    Ok(epoll)
}

/// What a thread works with.
struct Sender {
    shared: Arc<Shared>,
    /// Of the thread.
    number: usize,
    /// With the number of each among all.
    flows: Vec<(usize, Flow)>,
    epoll: Epoll,
    batch: Batch,
    answers: Batch,
    payload_bytes: usize,
    schedule: Option<Schedule>,
    /// Datagrams that are still to be sent.
    left: u64,
    /// Datagrams that were due and offered to the kernel.
    sent: u64,
    /// Place of the flow that is next.
    next: usize,
}

impl Sender {
    fn run(&mut self) -> std::io::Result<()> {
        while self.left > 0 && !self.shared.is_over.load(Ordering::Relaxed) {
            let due = self.due();
            if due > 0 {
                self.send(due);
                self.receive(Duration::ZERO)?;
            } else {
                self.receive(self.until_next())?;
            }
        }
        let now_ns = whole_ns(self.shared.begin.elapsed());
        self.shared.sending_ns.fetch_max(now_ns, Ordering::Relaxed);
        self.shared.sender_count.fetch_sub(1, Ordering::Release);
        let (end, mut quiet_from) = (Instant::now(), Instant::now());
        while !self.shared.is_ended.load(Ordering::Relaxed)
            && end.elapsed() < PATIENCE
            && quiet_from.elapsed() < QUIET
        {
            if self.receive(Duration::from_millis(10))? > 0 {
                quiet_from = Instant::now();
            }
        }
        Ok(())
    }

    /// How many datagrams to send now: not more than a turn's.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not below 0"
    )]
    fn due(&self) -> usize {
        let all = match &self.schedule {
            None => TURN as u64,
            // The first one is due at the start.
            Some(schedule) => {
                let by_now = schedule.packets_by(self.shared.begin.elapsed()) as u64 + 1;
                by_now.saturating_sub(self.sent)
            }
        };
        usize::try_from(all.min(self.left)).unwrap_or(TURN).min(TURN)
    }

    fn until_next(&self) -> Duration {
        let Some(schedule) = &self.schedule else { return Duration::ZERO };
        schedule.due(self.sent).saturating_sub(self.shared.begin.elapsed())
    }

    /// Sends so many: as few of one flow as flows allow, a turn of one flow without a rate.
    fn send(&mut self, count: usize) {
        let share = match self.schedule {
            None => count,
            Some(_) => count.div_ceil(self.flows.len()),
        };
        let mut left = count;
        while left > 0 {
            let of_flow = share.min(left);
            let now_ns = whole_ns(self.shared.begin.elapsed());
            for index in 0..of_flow {
                let due_ns = match &self.schedule {
                    None => now_ns,
                    Some(schedule) => {
                        let due_ns = whole_ns(schedule.due(self.sent + index as u64));
                        let late_ns = now_ns.saturating_sub(due_ns);
                        locked(&self.shared.lag_ns[self.number]).record(late_ns);
                        due_ns
                    }
                };
                let payload = self.batch.lay_out(index, self.payload_bytes);
                payload[..8].copy_from_slice(&MAGIC);
                payload[8..16].copy_from_slice(&due_ns.to_ne_bytes());
            }
            let (_, flow) = &self.flows[self.next];
            let done = self.batch.send(flow.socket.as_fd(), of_flow);
            flow.counters.sent.fetch_add(done.sent, Ordering::Relaxed);
            flow.counters.refused.fetch_add(done.refused, Ordering::Relaxed);
            self.next = (self.next + 1) % self.flows.len();
            self.sent += of_flow as u64;
            self.left -= of_flow as u64;
            left -= of_flow;
        }
    }

    /// Reads answers that are there, or come within that time; says how many.
    fn receive(&mut self, timeout: Duration) -> std::io::Result<u64> {
        let timeout = match timeout {
            short if short < SLEEP_MIN => EpollTimeout::ZERO,
            long => EpollTimeout::from(u8::try_from(long.as_millis()).unwrap_or(u8::MAX)),
        };
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, timeout) {
            Err(nix::errno::Errno::EINTR) => 0,
            other => other?,
        };
        let mut read = 0;
        for event in &events[..count] {
            let place = usize::try_from(event.data()).unwrap_or(usize::MAX);
            let (number, flow) = &self.flows[place];
            // An error is what came back of an earlier datagram: it has been sent and not answered.
            let messages = self.answers.receive(flow.socket.as_fd()).unwrap_or(0);
            let now_ns = whole_ns(self.shared.begin.elapsed());
            let mut latency_ns = locked(&self.shared.latency_ns[*number]);
            for index in 0..messages {
                let Some(then_ns) = time_of(self.answers.message(index)) else { continue };
                latency_ns.record(now_ns.saturating_sub(then_ns));
                read += 1;
                flow.counters.received.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(read)
    }
}

/// The time in an answer; `None` if it is none.
fn time_of(payload: &[u8]) -> Option<u64> {
    let (magic, rest) = payload.split_at_checked(8)?;
    let (time, _) = rest.split_at_checked(8)?;
    if magic != MAGIC {
        return None;
    }
    Some(u64::from_ne_bytes(time.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(server: SocketAddr, source_count: usize) -> ClientOptions {
        ClientOptions {
            server,
            sources: vec!["127.0.0.1:0".parse().expect("an address"); source_count],
            thread_count: 2,
            cpus: Vec::new(),
            payload_bytes: 18,
            rate_pps: Some(20_000.0),
            packet_limit: Some(701),
        }
    }

    /// Echoes so many datagrams, but every seventh twice as a stranger would, and ends.
    fn echo(socket: &UdpSocket, count: usize) {
        // One that is lost is a failure, and not waited for without end.
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be set");
        let mut buffer = [0; 64];
        for index in 0..count {
            let (bytes, peer) = socket.recv_from(&mut buffer).expect("there is one");
            assert_eq!(bytes, 18);
            socket.send_to(&buffer[..bytes], peer).expect("it is sent");
            if index % 7 == 0 {
                socket.send_to(b"something else", peer).expect("it is sent");
            }
        }
    }

    #[test]
    fn what_is_sent_and_echoed_is_counted_flow_by_flow() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("it has one");
        let echo = thread::spawn(move || echo(&server, 701));
        let begin = Instant::now();
        let client = Client::start(&options(address, 5)).expect("it starts");
        let counts = client.join().expect("it ends");
        echo.join().expect("it ends");
        let mut all = FlowCounts::default();
        for flow in &counts.flows {
            // Two threads with three and two flows, which take turns.
            assert!((110..190).contains(&flow.sent_packets), "{flow:?}");
            assert_eq!(flow.received_packets, flow.sent_packets);
            all.add(flow);
        }
        assert_eq!((all.sent_packets, all.refused_packets, all.dropped_packets), (701, 0, 0));
        // 350 times 100 µs; what it then waits for answers is not part of it.
        assert!(counts.sending >= Duration::from_millis(35), "{:?}", counts.sending);
        assert!(counts.sending + QUIET <= begin.elapsed(), "{:?}", counts.sending);
        let measured: u64 = counts.latency_ns.iter().map(Histogram::count).sum();
        assert_eq!((measured, counts.lag_ns.count()), (701, 701));
    }

    #[test]
    fn without_a_rate_it_sends_until_it_is_finished() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("it has one");
        let flood = ClientOptions { rate_pps: None, packet_limit: None, ..options(address, 1) };
        let client = Client::start(&flood).expect("it starts");
        while client.counts().expect("they are read").flows[0].sent_packets < 1000 {
            thread::yield_now();
        }
        assert!(client.is_running());
        client.finish();
        let counts = client.join().expect("it ends");
        assert!(counts.flows[0].sent_packets >= 1000);
        assert_eq!((counts.flows[0].received_packets, counts.lag_ns.count()), (0, 0));
    }

    #[test]
    fn an_address_of_nobody_is_refused() {
        let mut wrong = options("127.0.0.1:7".parse().expect("an address"), 1);
        wrong.sources = vec!["192.0.2.7:5".parse().expect("an address")];
        let error = Client::start(&wrong).expect_err("it is not ours").to_string();
        assert!(
            error.contains("192.0.2.7:5") && error.contains("not one of this host's"),
            "{error}"
        );
    }
}

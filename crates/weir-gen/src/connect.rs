//! TCP connections without sockets: the client's threads, and what both ends count.
//!
//! [`Client`] opens connections with live frames as [`crate::live`] sends packets, and the program
//! that it leaves at the interface carries them on; [`ledger`] says how many reached which step,
//! and where the others were lost. It never sends anything again but SYNs, if it is asked to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bpf::attach::{AttachError, Link};
use weir_bpf::connect::{
    ConnectAttachError, ConnectClient, ConnectCounters, ConnectLoadError, SentCounters,
};
use weir_bpf::generator::{CATCH_UP_NS, ThreadConfig};
use weir_bpf::histogram::Histogram;
use weir_bpf::map::MapError;
use weir_net::private::{PrivateNetns, PrivateNetnsError};
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::range::{AddrRange, Range, Range6, RangeError, RangeErrorKind, Swapped};
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamSpec, size_bytes_min};
use weir_wire::tcp::Flags;

use crate::backend::{BATCH_FRAMES, RunOptions};
use crate::clock;
use crate::error::GeneratorError;
use crate::live::{BATCH_PACED, CHUNK_PACKETS, park_link};
use crate::pacing;
use crate::workers::{Work, Workers, check_cpus};

pub mod ledger;

pub use weir_bpf::connect::{
    ClientConfig, Close, ConnectServer, PAYLOAD_BYTES_MAX, REPLY_BYTES_MIN, RETRIES_MAX,
    RETRY_AFTER, RETRY_FLOWS_MAX, ServerConfig,
};

/// Bytes of a request where none are asked for.
pub const REQUEST_BYTES_DEFAULT: u16 = 64;
/// Bytes of a reply where none are asked for.
pub const REPLY_BYTES_DEFAULT: u16 = 128;

/// Ports of the client's addresses where none are written: all that no server uses.
pub const SOURCE_PORTS: (u16, u16) = (1024, 65_535);
/// Port of the server's addresses where none is written.
pub const SERVER_PORT: u16 = 80;

/// Why a client could not be set up, or a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Load(#[from] ConnectLoadError),
    #[error(transparent)]
    Attach(#[from] ConnectAttachError),
    /// The program could not be attached to the parking interface.
    #[error("cannot keep the client ready: {0}")]
    Park(#[from] AttachError),
    /// The parking interface could not be made.
    #[error("cannot keep the client ready: {0}")]
    ParkNetns(#[from] PrivateNetnsError),
    /// A thread could not be configured or run.
    #[error(transparent)]
    Run(#[from] GeneratorError),
    /// Counters could not be read.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The clock could not be read.
    #[error("cannot read the monotonic clock: {0}")]
    Clock(io::Error),
}

/// Reads a range of the client's addresses: `ADDR[:PORT][-ADDR[:PORT]]`. Where no port is written,
/// they have [`SOURCE_PORTS`].
///
/// # Errors
/// [`RangeError`] if it is none.
pub fn source_range(text: &str) -> Result<(AddrRange, Swapped), RangeError> {
    match AddrRange::parse(text, 0) {
        Err(error) if *error.kind() == RangeErrorKind::PortMissing => {
            let (range, swapped) = AddrRange::parse(text, SOURCE_PORTS.0)?;
            Ok((with_source_ports(&range), swapped))
        }
        parsed => parsed,
    }
}

fn with_source_ports(range: &AddrRange) -> AddrRange {
    match range {
        AddrRange::V4(four) => {
            AddrRange::V4(Range::new((four.addr_first, four.addr_last), SOURCE_PORTS))
        }
        AddrRange::V6(six) => {
            let addrs = (six.addr_first, six.addr_last);
            // The addresses are a range's already.
            Range6::new(addrs, six.group, SOURCE_PORTS).map_or(*range, AddrRange::V6)
        }
    }
}

/// The largest frame of connections whose segments have so many bytes, bytes without FCS.
#[must_use]
pub const fn frame_bytes(is_ipv6: bool, payload_bytes: u16) -> u16 {
    const ETHERNET: u16 = 14;
    /// With timestamps.
    const TCP: u16 = 32;
    let ip = if is_ipv6 { 40 } else { 20 };
    ETHERNET + ip + TCP + payload_bytes
}

/// The flows of connections, as one stream of SYNs; `weir_wire` says whether they can be.
#[must_use]
pub fn flows(src_mac: MacAddr, dst_mac: MacAddr, src: AddrRange, dst: AddrRange) -> StreamSpec {
    let protocol = Protocol::Tcp { flags: Flags::SYN };
    let sizes = Sizes::Fixed(size_bytes_min(0, src.is_ipv6(), protocol));
    StreamSpec { protocol, sizes, ..StreamSpec::new(src_mac, dst_mac, src, dst) }
}

/// The client: programs loaded, attached to an interface, ready to open connections.
#[derive(Debug)]
pub struct Client {
    program: Arc<ConnectClient>,
    cpus: Vec<u32>,
    running: Option<Workers>,
    /// Set when no more connections are to be opened.
    is_ending: Arc<AtomicBool>,
    _link: Link,
    /// Where the sending program is parked.
    _park: PrivateNetns,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientReport {
    /// From the first call into the kernel to the return of the last one.
    pub duration: Duration,
    /// What the threads sent, and how they kept their schedule.
    pub sent: SentCounters,
    /// Times between two SYNs of one thread, or two of what ends connections, nanoseconds; empty if
    /// the run was not paced.
    pub gaps_ns: Histogram,
}

impl Client {
    /// Loads the client and attaches it to an interface of the calling thread's network namespace.
    /// A thread opens connections from each of `cpus`.
    ///
    /// # Errors
    /// [`ClientError`] if a size cannot be sent, or without privileges, kernel or driver support.
    pub fn attach(config: &ClientConfig, ifindex: u32, cpus: &[u32]) -> Result<Self, ClientError> {
        check_cpus(cpus)?;
        let mut program = ConnectClient::load(config)?;
        let link = program.attach(ifindex)?;
        let park = PrivateNetns::create()?;
        park.run(|| {
            let ifindex = park_link().map_err(GeneratorError::from)?;
            program.park(ifindex)?;
            Ok::<_, ClientError>(())
        })??;
        Ok(Self {
            program: Arc::new(program),
            cpus: cpus.to_vec(),
            running: None,
            is_ending: Arc::default(),
            _link: link,
            _park: park,
        })
    }

    /// Starts to open connections; returns when the threads are about to. They end by themselves
    /// when the limit is reached, what is held has been ended, and no SYN is to be sent again.
    ///
    /// # Errors
    /// [`ClientError`] if the rate cannot be had, or a thread cannot be started.
    pub fn start(&mut self, options: &RunOptions) -> Result<(), ClientError> {
        let count = self.program.set().thread_count();
        let schedule = options.thread_schedule(count.into())?;
        let mut jobs = Vec::with_capacity(self.cpus.len());
        for (index, &cpu) in self.cpus.iter().enumerate() {
            let part = options.part(index, count);
            let config = ThreadConfig {
                thread: part.share.thread(),
                first_nth: part.first_nth,
                end_nth: part.end_nth,
                interval: schedule.map(|schedule| pacing::interval(schedule.rate_pps, 1)),
                catch_up_ns: CATCH_UP_NS,
                timestamps: true,
            };
            self.program.configure(cpu, &config).map_err(GeneratorError::from)?;
            jobs.push(Job { cpu, is_paced: schedule.is_some(), end_nth: part.end_nth });
        }
        let cpus: Vec<Option<u32>> = self.cpus.iter().copied().map(Some).collect();
        let (program, is_ending) = (Arc::clone(&self.program), Arc::clone(&self.is_ending));
        let work: Work = Arc::new(move |index, stop| jobs[index].run(&program, &is_ending, stop));
        self.running = Some(Workers::start(&cpus, &work)?);
        Ok(())
    }

    /// Opens no more connections. Those that are open are looked after until their time is over.
    pub fn end_opening(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Whether the threads are at work.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(Workers::is_running)
    }

    /// Ends the run at once, with connections that are held still open, and says what was sent. The
    /// program at the interface goes on answering.
    ///
    /// # Errors
    /// [`ClientError`] if sending failed.
    pub fn stop(&mut self) -> Result<ClientReport, ClientError> {
        let duration = match self.running.take() {
            None => Duration::ZERO,
            Some(workers) => {
                workers.stop();
                workers.wait()?
            }
        };
        let (sent, gaps_ns) = (self.program.sent()?, self.program.gaps_ns()?);
        Ok(ClientReport { duration, sent, gaps_ns })
    }

    /// What the client has counted, and what its threads have sent. It may be read at any time.
    ///
    /// # Errors
    /// [`ClientError`] if it cannot be read.
    pub fn counters(&self) -> Result<(ConnectCounters, SentCounters), ClientError> {
        Ok((self.program.counters()?, self.program.sent()?))
    }

    /// [`Self::counters`], with the time at which they were read: CLOCK_MONOTONIC, nanoseconds.
    ///
    /// # Errors
    /// [`ClientError`] if it cannot be read.
    pub fn reading(&self) -> Result<(u64, ConnectCounters, SentCounters), ClientError> {
        let t_ns = clock::monotonic_ns().map_err(ClientError::Clock)?;
        let (counters, sent) = self.counters()?;
        Ok((t_ns, counters, sent))
    }

    /// Times from SYN to SYN-ACK and from request to reply, nanoseconds: see
    /// [`ConnectClient::latency_ns`].
    ///
    /// # Errors
    /// [`ClientError`] if they cannot be read.
    pub fn latency_ns(&self) -> Result<[Histogram; 2], ClientError> {
        Ok(self.program.latency_ns()?)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.running.is_some() {
            // Nobody is left to hear how the run went.
            let _ = self.stop();
        }
    }
}

/// What one thread of a run works on.
#[derive(Debug, Clone, Copy)]
struct Job {
    cpu: u32,
    is_paced: bool,
    end_nth: Option<u64>,
}

impl Job {
    /// Opens and ends connections until stopped or done.
    fn run(
        &self,
        program: &ConnectClient,
        is_ending: &AtomicBool,
        stop: &AtomicBool,
    ) -> Result<(), GeneratorError> {
        let batch = if self.is_paced { BATCH_PACED } else { BATCH_FRAMES };
        let mut has_ended = false;
        while !stop.load(Ordering::Relaxed) {
            if !has_ended && is_ending.load(Ordering::Relaxed) {
                program.stop_opening(self.cpu)?;
                has_ended = true;
            }
            let progress = program.progress(self.cpu)?;
            let left = match self.end_nth {
                _ if has_ended => 0,
                Some(end_nth) => end_nth.saturating_sub(progress.opened),
                None => u64::MAX,
            };
            if left == 0 && progress.is_done() {
                break;
            }
            // What is not due is declined; what is not paced is not asked for beyond the limit.
            let chunk = if self.is_paced { u64::MAX } else { left };
            let chunk = u32::try_from(chunk).unwrap_or(u32::MAX).min(CHUNK_PACKETS);
            program.run(chunk, batch).map_err(GeneratorError::Run)?;
            let refused_packets = program.thread_sent(self.cpu)?.refused_packets;
            if refused_packets > 0 {
                return Err(GeneratorError::Refused(refused_packets));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::range::Span as _;

    use super::*;

    #[test]
    fn sources_without_ports_have_those_of_clients() {
        for (text, ports, addresses) in [
            ("10.0.0.1-10.0.0.9", (1024, 64_512), 9),
            ("10.0.0.1:5-10.0.0.2", (5, 1), 2),
            ("[2001:2::1]-[2001:2::ff]", (1024, 64_512), 255),
        ] {
            let (range, _) = source_range(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((range.port_first(), range.port_count()), ports, "{text}");
            assert_eq!(range.addr_count(), addresses, "{text}");
        }
        assert!(source_range("10.0.0.1:0").is_err() && source_range("x").is_err());
    }
}

//! From a command line to what is to be done.

use std::ffi::OsString;
use std::time::Duration;

use weir_bpf::generator::CATCH_UP_NS;
use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::range::Span as _;
use weir_wire::sizes::Sizes;
use weir_wire::stream::{StreamFrames, StreamSpec, size_bytes_min};

use super::ends::{self, Ends};
use super::print::Style;
use super::settings::{Mac, Settings};
use super::{Function, Interface, PktGenError, given, options};

#[cfg(test)]
mod tests;

/// pkt-gen's defaults.
const SIZE_BYTES_DEFAULT: u16 = 60;
const REPORT_MS_DEFAULT: u64 = 1000;
const WAIT_S_DEFAULT: u64 = 2;

/// Type of service 0x10 ("low delay"), as a code point; IPv6 packets have 0.
const DSCP_LOW_DELAY: u8 = 0x10 >> 2;

/// Stands for the interface's address while a plan is checked.
const MAC_OF_CHECK: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// What the plan has to know of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Number of CPUs, at least 1.
    pub cpu_count: u32,
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// `-h`.
    Help,
    /// Something to do.
    Plan(Box<Plan>),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// rx, tx, ping or pong.
    pub function: Function,
    /// On which interface.
    pub interface: Interface,
    /// After how many packets to stop, over all threads; `None` means never.
    pub packet_count: Option<u64>,
    /// What to send; `None` for rx and pong.
    pub packets: Option<Packets>,
    /// Packets per second of each thread; `None` means no limit.
    pub thread_rate_pps: Option<u64>,
    /// How many packets ping sends at a time, 1 or more. Nothing to the other functions.
    pub burst: u32,
    /// Threads, 1 to 256. Only tx has any.
    pub threads: u16,
    /// Where they run.
    pub placement: Placement,
    /// How long to wait before the start.
    pub wait: Duration,
    /// Time between two reports, 10 ms or more.
    pub report_interval: Duration,
    /// Whether rx ends after a second without packets.
    pub stops_in_silence: bool,
    /// How numbers are printed.
    pub style: Style,
    /// Whether more lines are wanted (`-v`).
    pub verbose: bool,
    /// What to tell on standard error, a line each: what differs from pkt-gen, what has no effect.
    pub notes: Vec<String>,
}

/// The packets to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Packets {
    /// The stream; its source MAC address counts only if `src_mac_text` is there.
    stream: StreamSpec,
    /// Source range as it was written.
    pub src_text: String,
    /// Destination range as it was written.
    pub dst_text: String,
    /// Source MAC address as it was written; `None` means the interface's.
    pub src_mac_text: Option<String>,
    /// Destination MAC address as it was written.
    pub dst_mac_text: String,
}

impl Packets {
    /// The stream, from an interface with this MAC address.
    #[must_use]
    pub fn stream(&self, interface_mac: MacAddr) -> StreamSpec {
        let src_mac = match self.src_mac_text {
            Some(_) => self.stream.src_mac,
            None => interface_mac,
        };
        StreamSpec { src_mac, ..self.stream.clone() }
    }
}

/// On which CPUs threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    first: Option<u32>,
    spread: u32,
    cpu_count: u32,
    /// Number of CPUs that pkt-gen would print.
    pub shown: u32,
}

impl Placement {
    /// The CPU of a thread, from 0; `None` if it was left open.
    #[must_use]
    pub fn cpu(&self, thread: u16) -> Option<u32> {
        self.first.map(|first| (first + u32::from(thread) % self.spread) % self.cpu_count)
    }
}

impl Plan {
    /// Packets per second over all threads; `None` means no limit.
    #[must_use]
    pub fn rate_pps(&self) -> Option<u64> {
        self.thread_rate_pps.map(|rate_pps| rate_pps.saturating_mul(self.threads.into()))
    }
}

/// Reads a command line without the program's name.
///
/// # Errors
///
/// [`PktGenError`] says what cannot be honoured.
pub fn parse(words: impl IntoIterator<Item = OsString>, host: Host) -> Result<Parsed, PktGenError> {
    let mut settings = Settings::read(given::split(words)?)?;
    if settings.help {
        return Ok(Parsed::Help);
    }
    let interface = settings.interface.take().ok_or(PktGenError::InterfaceMissing)?;
    let function = settings.function;
    elsewhere_notes(&mut settings);
    let threads = threads(&mut settings)?;
    let placement = placement(&mut settings, threads, host)?;
    let packets = if function.sends() { Some(packets(&mut settings, threads)?) } else { None };
    function_notes(&mut settings, threads);
    let rate_pps = if function.sends() { settings.rate_pps } else { 0 };
    Ok(Parsed::Plan(Box::new(Plan {
        function,
        interface,
        packet_count: (settings.packet_count > 0).then_some(settings.packet_count),
        packets,
        thread_rate_pps: (rate_pps > 0).then_some(rate_pps),
        burst: settings.burst.unwrap_or(1),
        threads,
        placement,
        wait: Duration::from_secs(settings.wait_s.unwrap_or(WAIT_S_DEFAULT)),
        report_interval: Duration::from_millis(settings.report_ms.unwrap_or(REPORT_MS_DEFAULT)),
        stops_in_silence: settings.silence && function == Function::Rx,
        style: Style {
            plain: settings.plain,
            averages: settings.averages,
            framing: settings.framing,
        },
        verbose: settings.verbose,
        notes: settings.notes,
    })))
}

/// Options that mean nothing to the function.
fn elsewhere_notes(settings: &mut Settings) {
    let function = settings.function;
    for letter in settings.letters.clone() {
        let Some(option) = options::option(letter) else { continue };
        if !option.functions.contains(&function) {
            settings.note(format!(
                "-{letter} changes nothing with -f {function}: {}",
                option.elsewhere
            ));
        }
    }
}

fn threads(settings: &mut Settings) -> Result<u16, PktGenError> {
    let threads = settings.threads.unwrap_or(1);
    match settings.function {
        Function::Ping | Function::Pong if threads > 1 => Err(PktGenError::Together(format!(
            "-f {} has one thread: leave -p out",
            settings.function
        ))),
        Function::Rx if threads > 1 => {
            settings.note(
                "-p changes nothing with -f rx: the kernel counts on all queues at once".into(),
            );
            Ok(threads)
        }
        _ => Ok(threads),
    }
}

fn placement(settings: &mut Settings, threads: u16, host: Host) -> Result<Placement, PktGenError> {
    let host = Host { cpu_count: host.cpu_count.max(1) };
    let have = format!("this machine has {} CPUs", host.cpu_count);
    if let Some(cpu) = settings.cpu.filter(|cpu| *cpu >= host.cpu_count) {
        let reason = format!("{have}, counted from 0");
        return Err(PktGenError::value('a', &cpu.to_string(), &reason));
    }
    if let Some(count) = settings.cpu_count.filter(|count| *count > host.cpu_count) {
        return Err(PktGenError::value('c', &count.to_string(), &have));
    }
    let given = settings.cpu_count.map(|count| if count == 0 { host.cpu_count } else { count });
    let placement = Placement {
        first: if settings.function.sends() { settings.cpu } else { None },
        spread: given.unwrap_or(host.cpu_count),
        cpu_count: host.cpu_count,
        shown: given.unwrap_or(1),
    };
    if let Some(first) = placement.first {
        let theirs = |thread: u16| (first + u32::from(thread)) % placement.shown;
        if (0..threads).any(|thread| placement.cpu(thread) != Some(theirs(thread))) {
            settings.note(format!(
                "-a {first}: the first thread runs on CPU {first}, the others on those after it; \
                 pkt-gen takes CPU {} for the first one, because it computes modulo -c",
                theirs(0)
            ));
        }
    } else if settings.function.sends() && given.is_some() {
        settings.note("-c changes nothing without -a, in pkt-gen either".into());
    }
    Ok(placement)
}

fn packets(settings: &mut Settings, threads: u16) -> Result<Packets, PktGenError> {
    let Ends { src, dst, walk } = ends::ends(settings)?;
    let sizes = sizes(settings, src.is_ipv6())?;
    let (src_mac, dst_mac) = (settings.src_mac.take(), settings.dst_mac.take());
    let dst_mac = dst_mac
        .unwrap_or_else(|| Mac { addr: MacAddr::BROADCAST, text: MacAddr::BROADCAST.to_string() });
    let src_addr = src_mac.as_ref().map_or(MAC_OF_CHECK, |mac| mac.addr);
    let stream = StreamSpec {
        walk,
        sizes,
        thread_count: threads,
        dscp: if src.is_ipv6() { 0 } else { DSCP_LOW_DELAY },
        ..StreamSpec::new(src_addr, dst_mac.addr, src, dst)
    };
    StreamFrames::new(stream.clone())?;
    if threads > 1 && src.pair_count() * dst.pair_count() > 1 && settings.function == Function::Tx {
        settings.note(format!(
            "-p {threads}: the threads share the flows out among themselves; pkt-gen's all start \
             with the first flow and repeat one another"
        ));
    }
    Ok(Packets {
        stream,
        src_text: settings.src.take().unwrap_or_else(|| ends::SRC_DEFAULT.into()),
        dst_text: settings.dst.take().unwrap_or_else(|| ends::DST_DEFAULT.into()),
        src_mac_text: src_mac.map(|mac| mac.text),
        dst_mac_text: dst_mac.text,
    })
}

/// `-l`, given up to twice.
fn sizes(settings: &mut Settings, over_ipv6: bool) -> Result<Sizes, PktGenError> {
    let smallest_bytes = size_bytes_min(0, over_ipv6, Protocol::Udp);
    let given = settings.sizes_bytes.clone();
    let (first, last) = match given[..] {
        [] => (SIZE_BYTES_DEFAULT, SIZE_BYTES_DEFAULT),
        [size_bytes] => (size_bytes, size_bytes),
        [last, first, ..] => (first, last),
    };
    if first > last {
        return Err(PktGenError::Together(format!(
            "-l {last} -l {first}: the first is the largest size, the second the smallest"
        )));
    }
    if first < smallest_bytes {
        let family = if over_ipv6 { "IPv6" } else { "IPv4" };
        let why = if over_ipv6 {
            "headers and weir's signature need that many; pkt-gen's headers need 62"
        } else {
            "a smaller one is padded on the wire"
        };
        settings.note(format!(
            "-l {first}: frames over {family} have at least {smallest_bytes} bytes: {why}"
        ));
    }
    let (first, last) = (first.max(smallest_bytes), last.max(smallest_bytes));
    if given.len() < 2 {
        return Ok(Sizes::Fixed(last));
    }
    settings.note(
        "-l twice: every packet has its own size, both ends included, with correct headers; \
         pkt-gen draws one per batch, and never the largest"
            .into(),
    );
    Ok(if first == last {
        Sizes::Fixed(last)
    } else {
        Sizes::Uniform { first_bytes: first, last_bytes: last }
    })
}

/// What else differs from pkt-gen.
fn function_notes(settings: &mut Settings, threads: u16) {
    let function = settings.function;
    if function == Function::Tx && settings.rate_pps > 0 {
        settings.note(format!(
            "-R {}: packets are spread evenly and start at once, and up to {} ms of a stall are \
             made up for; pkt-gen sends bursts, starts 1 to 2 s later, and makes up for all of it",
            settings.rate_pps,
            CATCH_UP_NS / 1_000_000
        ));
    }
    if function == Function::Tx && !settings.packet_count.is_multiple_of(threads.into()) {
        settings.note(format!(
            "-n {} -p {threads}: that many packets are sent in all; pkt-gen loses the remainder of \
             the division, and never ends with fewer packets than threads",
            settings.packet_count
        ));
    }
    if function == Function::Rx && settings.silence {
        settings.note(
            "-W: a second without packets ends the wait for the first one too; pkt-gen waits for \
             it forever"
                .into(),
        );
    }
    if function == Function::Ping {
        settings.note(
            "-f ping: packets have correct checksums, and all replies count; pkt-gen's UDP \
             checksum is that of another packet, and it leaves out the last second"
                .into(),
        );
    }
}

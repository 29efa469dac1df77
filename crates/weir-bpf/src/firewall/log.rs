//! Reads the ring buffers into which programs write records: logged packets, overloaded sources,
//! states that ended, answers that wait for their states.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::deferred::Deferred;
use super::layout::source_overload;
use super::{Firewall, limited, sources};

/// The reading end of the ring buffer of logged packets; there may be one at a time.
#[derive(Debug)]
pub struct LogReader(Reader);

/// The reading end of the ring buffer of overloaded sources; there may be one at a time.
#[derive(Debug)]
pub struct OverloadReader(Reader);

/// The reading end of the ring buffer of states that ended; there may be one at a time.
#[derive(Debug)]
pub struct EventReader(Reader);

/// The reading end of the ring buffer of answers that wait; there may be one at a time.
#[derive(Debug)]
pub struct DeferredReader(Reader);

#[derive(Debug)]
struct Reader {
    ring: RingBuffer<'static>,
    records: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A source that went over the limits of a rule with `overload`: it belongs into the rule's table.
/// Or one of a source limiter, which goes into the limiter's table, or out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    /// When it happened: `CLOCK_BOOTTIME`, ns.
    pub time_ns: u64,
    /// Id of the rule, or of the limiter.
    pub rule: u32,
    /// The source, as far as a limiter counts it.
    pub address: IpAddr,
    /// Of a limiter's: whether it leaves the table. `None`: of a rule.
    pub leaves: Option<bool>,
}

impl Overload {
    /// Reads a record of the ring (`struct weir_source_overload`).
    fn read(record: &[u8]) -> Option<Self> {
        let bytes = |at: u32| record.get(at as usize..);
        let word = |at: u32| Some(u32::from_ne_bytes(*bytes(at)?.first_chunk()?));
        let family = word(source_overload::FAMILY)?;
        let addr = bytes(source_overload::ADDR)?.first_chunk()?;
        let (address, leaves) = match limited::address(family, addr) {
            Some((address, leaves)) => (address, Some(leaves)),
            None => (sources::address(family, addr)?, None),
        };
        let time_ns = u64::from_ne_bytes(*bytes(source_overload::TIME_NS)?.first_chunk()?);
        let rule = word(source_overload::RULE)?;
        Some(Self { time_ns, rule, address, leaves })
    }
}

impl Firewall {
    /// Opens the ring buffer of logged packets.
    ///
    /// # Errors
    /// What the system returned when the buffer was mapped.
    pub fn log_reader(&self) -> io::Result<LogReader> {
        Reader::open(&self.log).map(LogReader)
    }

    /// Opens the ring buffer of overloaded sources.
    ///
    /// # Errors
    /// What the system returned when the buffer was mapped.
    pub fn overload_reader(&self) -> io::Result<OverloadReader> {
        Reader::open(&self.overloads).map(OverloadReader)
    }

    /// Opens the ring buffer of copies of states, and of the ends of those that another firewall
    /// has (`struct weir_fw_change`). Nobody is woken by what comes there.
    ///
    /// # Errors
    /// What the system returned when the buffer was mapped.
    pub fn change_reader(&self) -> io::Result<EventReader> {
        Reader::open(&self.changes).map(EventReader)
    }

    /// Opens the ring buffer of answers that wait for their states.
    ///
    /// # Errors
    /// What the system returned when the buffer was mapped.
    pub fn deferred_reader(&self) -> io::Result<DeferredReader> {
        Reader::open(&self.deferred).map(DeferredReader)
    }

    /// Opens the ring buffer of states that ended.
    ///
    /// # Errors
    /// What the system returned when the buffer was mapped.
    pub fn event_reader(&self) -> io::Result<EventReader> {
        Reader::open(&self.events).map(EventReader)
    }
}

impl EventReader {
    /// The events that have come (`struct weir_fw_event`, or `weir_fw_change`), waiting for the
    /// first one for at most `timeout`.
    ///
    /// # Errors
    /// What the system returned; an interrupted wait is no error.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Vec<u8>>> {
        self.0.read(timeout)
    }
}

impl DeferredReader {
    /// The frames that have come, waiting for the first one for at most `timeout`.
    ///
    /// # Errors
    /// What the system returned; an interrupted wait is no error.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Deferred>> {
        let records = self.0.read(timeout)?;
        Ok(records.iter().filter_map(|record| Deferred::read(record)).collect())
    }
}

impl LogReader {
    /// The records that have come, waiting for the first one for at most `timeout`.
    ///
    /// # Errors
    /// What the system returned; an interrupted wait is no error.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Vec<u8>>> {
        self.0.read(timeout)
    }
}

impl OverloadReader {
    /// The sources that have come, waiting for the first one for at most `timeout`.
    ///
    /// # Errors
    /// What the system returned; an interrupted wait is no error.
    pub fn read(&mut self, timeout: Duration) -> io::Result<Vec<Overload>> {
        let records = self.0.read(timeout)?;
        Ok(records.iter().filter_map(|record| Overload::read(record)).collect())
    }
}

impl Reader {
    fn open(map: &MapHandle) -> io::Result<Self> {
        let failed = |error: libbpf_rs::Error| io::Error::other(error.to_string());
        let records = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&records);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |record| {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(record.to_vec());
                0
            })
            .map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        Ok(Self { ring, records })
    }

    fn read(&mut self, timeout: Duration) -> io::Result<Vec<Vec<u8>>> {
        // Who does not wait does not ask either whether the wake-up has come: it may be late.
        let read = if timeout.is_zero() { self.ring.consume() } else { self.ring.poll(timeout) };
        match read {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(io::Error::other(error.to_string()));
            }
            _ => {}
        }
        Ok(std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

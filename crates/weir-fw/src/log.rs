//! Packets of rules with `log`, as a pcap file of link type PFLOG, which `tcpdump -r` reads
//! (FreeBSD, `if_pflog.h`; tcpdump's `print-pflog.c`).
//!
//! The data path writes records into a ring (`bpf/include/weir/fw/log.h`); what finds no room there
//! is counted. Here they become packets with the number of the rule as it is loaded now. A file
//! that cannot be written, or that somebody has moved away (and says so), is opened anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bpf::firewall::layout::{RECORD_PACKET, direction, family, log_record, outcome};

use crate::engine::{RulePlace, boot_ns};
use crate::shared::Shared;

/// `DLT_PFLOG`.
const LINK_TYPE: u32 = 117;
/// pcap's magic number for times in nanoseconds, and its version.
const PCAP_MAGIC: u32 = 0xa1b2_3c4d;
const PCAP_VERSION: [u16; 2] = [2, 4];
const SNAP_BYTES: u32 = 65_535;
/// Access to a new file, as pflogd(8) has it.
const MODE: u32 = 0o600;

/// `sizeof(struct pfloghdr)`, and what its length field says.
const HEADER_BYTES: usize = 64;
const HEADER_LENGTH: u8 = 61;
const NAME_BYTES: usize = 16;
/// `AF_INET` and FreeBSD's `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 28];
/// "no rule": -1.
const NO_RULE: u32 = u32::MAX;

/// How long it waits for packets before it looks whether it should stop.
const POLL: Duration = Duration::from_millis(200);
/// Before a file that could not be written is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// A record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Slot of the interface.
    pub(crate) slot: u32,
    /// `CLOCK_BOOTTIME`, ns.
    pub(crate) time_ns: u64,
    /// Identifier of the rule.
    pub(crate) rule: u32,
    /// Length of the packet from its IP header on.
    pub(crate) ip_bytes: u32,
    /// It goes out.
    pub(crate) is_out: bool,
    /// It was blocked.
    pub(crate) is_blocked: bool,
    /// Index of the reason.
    pub(crate) reason: u8,
    pub(crate) is_ipv6: bool,
    /// Its beginning, from its IP header on.
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    /// Reads a record; `None` if it is of another kind, or cut short.
    #[must_use]
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let bytes = |at: u32| record.get(at as usize..);
        let byte = |at: u32| bytes(at)?.first().copied();
        let word = |at: u32| Some(u32::from_ne_bytes(*bytes(at)?.first_chunk()?));
        if word(log_record::KIND)? != RECORD_PACKET {
            return None;
        }
        let size = u16::from_ne_bytes(*bytes(log_record::CAPTURED_BYTES)?.first_chunk()?);
        Some(Self {
            slot: word(log_record::INTERFACE)?,
            time_ns: u64::from_ne_bytes(*bytes(log_record::TIME_NS)?.first_chunk()?),
            rule: word(log_record::RULE)?,
            ip_bytes: word(log_record::IP_BYTES)?,
            is_out: byte(log_record::DIRECTION)? == direction::OUT,
            is_blocked: byte(log_record::OUTCOME)? == outcome::BLOCK,
            reason: byte(log_record::REASON)?,
            is_ipv6: byte(log_record::FAMILY)? == family::INET6,
            bytes: bytes(log_record::PACKET)?.get(..usize::from(size))?.to_vec(),
        })
    }

    /// `struct pfloghdr`, of a rule at a place.
    #[must_use]
    pub(crate) fn header(&self, interface: &str, place: Option<&RulePlace>) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let number = place.map_or(NO_RULE, |place| place.number);
        let anchor = place.map_or("", |place| place.anchor.as_str());
        // In an anchor, the number of the rule that leads there comes first.
        let (number, inner) = if anchor.is_empty() {
            (number, NO_RULE)
        } else {
            (place.and_then(|place| place.caller).unwrap_or(NO_RULE), number)
        };
        (out[0], out[1]) = (HEADER_LENGTH, FAMILIES[usize::from(self.is_ipv6)]);
        (out[2], out[3]) = (u8::from(self.is_blocked), self.reason);
        put_name(&mut out[4..4 + NAME_BYTES], interface);
        put_name(&mut out[20..20 + NAME_BYTES], anchor);
        out[36..40].copy_from_slice(&number.to_be_bytes());
        out[40..44].copy_from_slice(&inner.to_be_bytes());
        // uid, pid and those of who loaded the rule: unknown.
        out[44..60].fill(0xff);
        out[60] = if self.is_out { 2 } else { 1 };
        out
    }
}

/// A name with a zero behind it.
fn put_name(out: &mut [u8], name: &str) {
    let size = name.len().min(out.len() - 1);
    out[..size].copy_from_slice(&name.as_bytes()[..size]);
}

/// The header of a pcap file.
#[must_use]
pub(crate) fn file_header() -> Vec<u8> {
    let mut out = PCAP_MAGIC.to_le_bytes().to_vec();
    out.extend(PCAP_VERSION.iter().flat_map(|field| field.to_le_bytes()));
    out.extend([0; 8]);
    out.extend(SNAP_BYTES.to_le_bytes());
    out.extend(LINK_TYPE.to_le_bytes());
    out
}

/// A packet of a pcap file.
#[must_use]
pub(crate) fn file_record(unix_ns: u64, header: &[u8], packet: &Packet) -> Vec<u8> {
    let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let captured = size(header.len() + packet.bytes.len());
    let whole = size(header.len()).saturating_add(packet.ip_bytes);
    let words = [low(unix_ns / 1_000_000_000), low(unix_ns % 1_000_000_000), captured, whole];
    let mut out: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    out.extend_from_slice(header);
    out.extend_from_slice(&packet.bytes);
    out
}

/// The file of `--log`.
#[derive(Debug)]
pub(crate) struct LogFile(File);

impl LogFile {
    /// Opens a file to append to; a new one gets its header.
    ///
    /// # Errors
    ///
    /// What the system said, with the path; or that it is another kind of file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        // Packets are nobody else's business.
        let opened = OpenOptions::new().create(true).read(true).append(true).mode(MODE).open(path);
        let mut file = opened.map_err(named)?;
        let metadata = file.metadata().map_err(named)?;
        if metadata.len() == 0 || !metadata.is_file() {
            file.write_all(&file_header()).map_err(named)?;
            return Ok(Self(file));
        }
        let mut start = vec![0; file_header().len()];
        let read = io::Read::read_exact(&mut file, &mut start);
        if read.is_err() || start != file_header() {
            let text = "the file there is not a log of weir fw; move it away";
            return Err(named(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        Ok(Self(file))
    }

    /// Adds packets, all or none; somebody may have emptied the file meanwhile.
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let metadata = self.0.metadata()?;
        let before_bytes = metadata.is_file().then_some(metadata.len());
        let header = if before_bytes == Some(0) { file_header() } else { Vec::new() };
        let written = self.0.write_all(&[&header, text].concat());
        if let (Err(_), Some(bytes)) = (&written, before_bytes) {
            // Half a packet would make the rest unreadable. What failed is told already.
            drop(self.0.set_len(bytes));
        }
        written
    }
}

/// Writes packets into a file that may come and go.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    file: Option<LogFile>,
    retry_at: Option<Instant>,
    /// Packets that are not written down, since it last worked.
    lost_count: u64,
}

impl Writer {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// As [`LogFile::open`].
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // The daemon leaves its directory.
        let path = std::path::absolute(path)?;
        let file = Some(LogFile::open(&path)?);
        Ok(Self { path, file, retry_at: None, lost_count: 0 })
    }

    /// Adds packets; gives what somebody should know.
    fn put(&mut self, text: &[u8], packet_count: u64, now: Instant) -> Option<String> {
        if self.file.is_none() && self.retry_at.is_some_and(|at| now < at) {
            self.lost_count += packet_count;
            return None;
        }
        let file = match self.file.take() {
            Some(file) => Ok(file),
            None => LogFile::open(&self.path),
        };
        let named =
            |error: io::Error| io::Error::other(format!("{}: {error}", self.path.display()));
        let written = file.and_then(|mut file| file.append(text).map(|()| file).map_err(named));
        match written {
            Ok(file) => {
                self.file = Some(file);
                let lost_count = std::mem::take(&mut self.lost_count);
                (lost_count > 0).then(|| {
                    format!("logging again; {lost_count} packets are missing from the log")
                })
            }
            Err(error) => self.failed(&error, packet_count, now),
        }
    }

    /// Opens the file anew: what was there may have been moved away.
    fn reopen(&mut self, now: Instant) -> Option<String> {
        match LogFile::open(&self.path) {
            Ok(file) => {
                (self.file, self.retry_at) = (Some(file), None);
                None
            }
            Err(error) => {
                self.file = None;
                self.failed(&error, 0, now)
            }
        }
    }

    fn failed(&mut self, error: &io::Error, packet_count: u64, now: Instant) -> Option<String> {
        let is_new = self.lost_count == 0;
        self.retry_at = Some(now + RETRY_INTERVAL);
        self.lost_count += packet_count;
        is_new.then(|| {
            let seconds = RETRY_INTERVAL.as_secs();
            format!("cannot write the log, retrying every {seconds} s: {error}")
        })
    }
}

/// Reads the ring until the daemon stops; without a file, packets are let go. The file is opened
/// anew when `is_moved` is set.
pub(crate) fn run(shared: &Arc<Shared>, mut writer: Option<Writer>, is_moved: &AtomicBool) {
    let firewall = Arc::clone(shared.engine().firewall());
    let mut reader = match firewall.log_reader() {
        Ok(reader) => reader,
        Err(error) => {
            shared.messages.tell(&format!("the log cannot be read: {error}"));
            return;
        }
    };
    let tell = |message: Option<String>| message.iter().for_each(|text| shared.messages.tell(text));
    while !shared.stop.is_requested() {
        if is_moved.swap(false, Ordering::AcqRel) {
            tell(writer.as_mut().and_then(|writer| writer.reopen(Instant::now())));
        }
        let records = match reader.read(POLL) {
            Ok(records) => records,
            Err(error) => {
                shared.messages.tell(&format!("the log cannot be read: {error}"));
                shared.stop.wait(Duration::from_secs(1));
                continue;
            }
        };
        let Some(writer) = writer.as_mut().filter(|_| !records.is_empty()) else { continue };
        let (mut text, mut packet_count) = (Vec::new(), 0);
        {
            let engine = shared.engine();
            let unix_ns = unix_ns_of_boot();
            for packet in records.iter().filter_map(|record| Packet::read(record)) {
                let place = engine.rule_place(packet.rule);
                let header = packet.header(&engine.interface_name(packet.slot), place.as_ref());
                text.extend(file_record(unix_ns.saturating_add(packet.time_ns), &header, &packet));
                packet_count += 1;
            }
        }
        tell(writer.put(&text, packet_count, Instant::now()));
    }
}

/// When the machine started, ns since 1970.
fn unix_ns_of_boot() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    u64::try_from(now).unwrap_or(0).saturating_sub(boot_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Vec<u8> {
        let mut out = vec![0; log_record::SIZE_BYTES as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(log_record::KIND, &RECORD_PACKET.to_ne_bytes());
        put(log_record::INTERFACE, &3_u32.to_ne_bytes());
        put(log_record::RULE, &9_u32.to_ne_bytes());
        put(log_record::IP_BYTES, &1500_u32.to_ne_bytes());
        put(log_record::CAPTURED_BYTES, &20_u16.to_ne_bytes());
        put(log_record::OUTCOME, &[1]);
        put(log_record::FAMILY, &[1]);
        put(log_record::PACKET, &[0x60]);
        out
    }

    #[test]
    fn records_become_packets() {
        let packet = Packet::read(&record()).unwrap();
        assert_eq!((packet.slot, packet.rule, packet.ip_bytes), (3, 9, 1500));
        assert!(packet.is_blocked && packet.is_ipv6 && !packet.is_out);
        assert_eq!((packet.bytes.len(), packet.bytes[0]), (20, 0x60));
        assert_eq!(Packet::read(&record()[..40]), None, "cut short");
        assert_eq!(Packet::read(&[2, 0, 0, 0]), None, "another kind");
    }

    #[test]
    fn the_header_is_pflogs() {
        let packet = Packet::read(&record()).unwrap();
        let place = |caller| RulePlace { number: 7, caller, anchor: "ftp-proxy".to_owned() };
        let header = packet.header("em0", Some(&place(Some(4))));
        assert_eq!(header[..8], [61, 28, 1, 0, b'e', b'm', b'0', 0]);
        assert_eq!(&header[20..30], b"ftp-proxy\0");
        assert_eq!(
            (&header[36..40], &header[40..44], header[60]),
            (&[0, 0, 0, 4][..], &[0, 0, 0, 7][..], 1)
        );
        let main = RulePlace { anchor: String::new(), ..place(None) };
        let header = packet.header("em0", Some(&main));
        assert_eq!((&header[36..40], &header[40..44]), (&[0, 0, 0, 7][..], &[0xff; 4][..]));
        let header = packet.header("an-interface-of-many-letters", None);
        assert_eq!((header[19], &header[36..40]), (0, &[0xff; 4][..]));
        let out = file_record(1_500_000_000_000_000_001, &header, &packet);
        assert_eq!(out.len(), 16 + HEADER_BYTES + 20);
        assert_eq!(out[4..8], 1_u32.to_le_bytes());
        assert_eq!(out[12..16], 1564_u32.to_le_bytes());
    }

    #[test]
    fn a_file_that_is_moved_or_emptied_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("pflog"), dir.path().join("pflog.1"));
        let read = |path: &Path| std::fs::read(path).unwrap();
        let with = |text: &[u8]| [&file_header(), text].concat();
        let mut writer = Writer::open(&path).unwrap();
        let now = Instant::now();
        assert_eq!(writer.put(b"one", 1, now), None);
        std::fs::rename(&path, &old).unwrap();
        assert_eq!(writer.put(b"two", 1, now), None, "nobody has said so yet");
        assert_eq!((writer.reopen(now), writer.put(b"three", 1, now)), (None, None));
        assert_eq!((read(&old), read(&path)), (with(b"onetwo"), with(b"three")));
        // `copytruncate` of logrotate says nothing.
        File::create(&path).unwrap();
        assert_eq!(writer.put(b"four", 1, now), None);
        assert_eq!(read(&path), with(b"four"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pflog");
        let mut writer = Writer::open(&path).unwrap();
        let now = Instant::now();
        // All that is written into it fails.
        writer.file = Some(LogFile(OpenOptions::new().append(true).open("/dev/full").unwrap()));
        let message = writer.put(b"one", 2, now).unwrap();
        assert!(message.contains("pflog") && message.contains("No space left"), "{message}");
        assert_eq!(writer.put(b"two", 3, now), None, "not again at once");
        let message = writer.put(b"three", 1, now + RETRY_INTERVAL).unwrap();
        assert!(message.contains("5 packets are missing"), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), [&file_header(), &b"three"[..]].concat());
    }

    #[test]
    fn a_log_is_appended_to_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pflog");
        drop(LogFile::open(&path).unwrap());
        drop(LogFile::open(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), file_header());
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, MODE);
        std::fs::write(&path, "other").unwrap();
        assert!(LogFile::open(&path).unwrap_err().to_string().contains("not a log of weir fw"));
    }
}

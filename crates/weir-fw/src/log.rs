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

use crate::daemon::Shared;
use crate::engine::boot_ns;

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

/// `struct weir_fw_log_record`: offsets of its fields.
mod at {
    pub(super) const KIND: usize = 0;
    pub(super) const INTERFACE: usize = 4;
    pub(super) const TIME_NS: usize = 8;
    pub(super) const RULE: usize = 16;
    pub(super) const IP_BYTES: usize = 20;
    pub(super) const CAPTURED_BYTES: usize = 24;
    pub(super) const DIRECTION: usize = 26;
    pub(super) const OUTCOME: usize = 27;
    pub(super) const REASON: usize = 28;
    pub(super) const FAMILY: usize = 29;
    pub(super) const PACKET: usize = 32;
}
/// `WEIR_FW_RECORD_PACKET`.
const KIND_PACKET: u32 = 1;

/// A record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Slot of the interface.
    pub slot: u32,
    /// `CLOCK_BOOTTIME`, ns.
    pub time_ns: u64,
    /// Identifier of the rule.
    pub rule: u32,
    /// Length of the packet from its IP header on.
    pub ip_bytes: u32,
    /// It goes out.
    pub is_out: bool,
    /// It was blocked.
    pub is_blocked: bool,
    /// Index of the reason.
    pub reason: u8,
    /// IPv6.
    pub is_ipv6: bool,
    /// Its beginning, from its IP header on.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Reads a record; `None` if it is of another kind, or cut short.
    #[must_use]
    pub fn read(record: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
        if word(at::KIND)? != KIND_PACKET {
            return None;
        }
        let size = record.get(at::CAPTURED_BYTES..at::CAPTURED_BYTES + 2)?.try_into().ok()?;
        let size = usize::from(u16::from_ne_bytes(size));
        let time = record.get(at::TIME_NS..at::TIME_NS + 8)?.try_into().ok()?;
        Some(Self {
            slot: word(at::INTERFACE)?,
            time_ns: u64::from_ne_bytes(time),
            rule: word(at::RULE)?,
            ip_bytes: word(at::IP_BYTES)?,
            is_out: *record.get(at::DIRECTION)? != 0,
            is_blocked: *record.get(at::OUTCOME)? != 0,
            reason: *record.get(at::REASON)?,
            is_ipv6: *record.get(at::FAMILY)? != 0,
            bytes: record.get(at::PACKET..at::PACKET + size)?.to_vec(),
        })
    }

    /// `struct pfloghdr`. `place` is the rule's number, and the anchor's path with the number in
    /// it.
    #[must_use]
    pub fn header(&self, interface: &str, place: Option<&(u32, String)>) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let (number, anchor) = place.map_or((NO_RULE, ""), |(number, own)| (*number, own.as_str()));
        // In an anchor pf has the number of the anchor's rule first; here both are the inner one.
        let inner = if anchor.is_empty() { NO_RULE } else { number };
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
pub fn file_header() -> Vec<u8> {
    let mut out = PCAP_MAGIC.to_le_bytes().to_vec();
    out.extend(PCAP_VERSION.iter().flat_map(|own| own.to_le_bytes()));
    out.extend([0; 8]);
    out.extend(SNAP_BYTES.to_le_bytes());
    out.extend(LINK_TYPE.to_le_bytes());
    out
}

/// A packet of a pcap file.
#[must_use]
pub fn file_record(unix_ns: u64, header: &[u8], packet: &Packet) -> Vec<u8> {
    let low = |own: u64| u32::try_from(own & u64::from(u32::MAX)).unwrap_or(0);
    let size = |own: usize| u32::try_from(own).unwrap_or(u32::MAX);
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
pub struct LogFile(File);

impl LogFile {
    /// Opens a file to append to; a new one gets its header.
    ///
    /// # Errors
    ///
    /// What the system said, with the path; or that it is another kind of file.
    pub fn open(path: &Path) -> io::Result<Self> {
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
            let text = "there is a file that is no log of weir fw; move it away";
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
                    format!("the log is written again; {lost_count} packets are missing in it")
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
            format!("the log cannot be written, and is tried again every {seconds} s: {error}")
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
    let tell = |told: Option<String>| told.iter().for_each(|own| shared.messages.tell(own));
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
        let mut out = vec![0; at::PACKET + 160];
        out[at::KIND..at::KIND + 4].copy_from_slice(&KIND_PACKET.to_ne_bytes());
        out[at::INTERFACE..at::INTERFACE + 4].copy_from_slice(&3_u32.to_ne_bytes());
        out[at::RULE..at::RULE + 4].copy_from_slice(&9_u32.to_ne_bytes());
        out[at::IP_BYTES..at::IP_BYTES + 4].copy_from_slice(&1500_u32.to_ne_bytes());
        out[at::CAPTURED_BYTES..at::CAPTURED_BYTES + 2].copy_from_slice(&20_u16.to_ne_bytes());
        (out[at::OUTCOME], out[at::FAMILY], out[at::PACKET]) = (1, 1, 0x60);
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
        let header = packet.header("em0", Some(&(7, "ftp-proxy".to_owned())));
        assert_eq!(header[..8], [61, 28, 1, 0, b'e', b'm', b'0', 0]);
        assert_eq!(&header[20..30], b"ftp-proxy\0");
        assert_eq!(
            (&header[36..40], &header[40..44], header[60]),
            (&[0, 0, 0, 7][..], &[0, 0, 0, 7][..], 1)
        );
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
        let told = writer.put(b"one", 2, now).unwrap();
        assert!(told.contains("pflog") && told.contains("No space left"), "{told}");
        assert_eq!(writer.put(b"two", 3, now), None, "not again at once");
        let told = writer.put(b"three", 1, now + RETRY_INTERVAL).unwrap();
        assert!(told.contains("5 packets are missing"), "{told}");
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
        assert!(LogFile::open(&path).unwrap_err().to_string().contains("no log of weir fw"));
    }
}

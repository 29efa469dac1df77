//! Classic pcap files of Ethernet frames (draft-ietf-opsawg-pcap), over byte slices.
//!
//! [`Writer`] appends to a `Vec`; [`Reader`] yields records of a slice. Both magics (microseconds
//! and nanoseconds) are read in both byte orders; files are written with nanoseconds, in the byte
//! order of x86 and ARM, unless asked otherwise. Other link types, pcapng and frames that carry
//! their FCS are refused. A file that ends in the middle of a record yields what stands before it.

use alloc::vec::Vec;
use core::fmt;

use crate::bytes::{u16_at, u32_at};

/// Size of the file header, bytes.
pub(crate) const FILE_HEADER_BYTES: usize = 24;

/// Size of a record's header, bytes.
pub const RECORD_HEADER_BYTES: usize = 16;

/// Largest record that is written or read, bytes: libpcap's own bound for Ethernet.
pub(crate) const CAPTURED_BYTES_MAX: u32 = 262_144;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
const LINK_TYPE_ETHERNET: u32 = 1;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// Unit of the fraction of a second in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resolution {
    Microseconds,
    Nanoseconds,
}

impl Resolution {
    const fn unit_ns(self) -> u32 {
        match self {
            Self::Microseconds => 1000,
            Self::Nanoseconds => 1,
        }
    }
}

/// Byte order of a file's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

impl ByteOrder {
    const fn u32_bytes(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    const fn u16_bytes(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        match self {
            Self::Little => u32_at(bytes, at).swap_bytes(),
            Self::Big => u32_at(bytes, at),
        }
    }

    fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        match self {
            Self::Little => u16_at(bytes, at).swap_bytes(),
            Self::Big => u16_at(bytes, at),
        }
    }
}

/// A frame that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record<'a> {
    /// Time, nanoseconds since the epoch that the recorder used; usually 1970.
    pub time_ns: u64,
    /// The frame's size on the wire, bytes without FCS; over `frame.len()` if it was cut.
    pub wire_bytes: u32,
    /// The frame, as much of it as was kept.
    pub frame: &'a [u8],
}

impl Record<'_> {
    /// Whether a part of the frame is missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.frame.len() < usize::try_from(self.wire_bytes).unwrap_or(usize::MAX)
    }
}

/// Why bytes are not a pcap file that can be used. Offsets are from the start of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file ends inside a header or a frame.
    #[error(
        "the file is truncated: {what} at offset {offset} needs {needed_bytes} bytes, but \
         {got_bytes} are left"
    )]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Where it starts.
        offset: usize,
        /// Its size, bytes.
        needed_bytes: usize,
        /// What there is of it, bytes.
        got_bytes: usize,
    },
    /// The file starts with another magic number.
    #[error("this is not a pcap file: it starts with {0:#010x}")]
    Magic(u32),
    /// The file is a pcapng file.
    #[error("this is a pcapng file: convert it with `editcap -F pcap IN OUT`")]
    Pcapng,
    /// The file's version is not 2.4.
    #[error("pcap version {major}.{minor} is not supported: 2.4 is")]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The frames are not Ethernet.
    #[error("link type {0} is not Ethernet (1): record on an Ethernet interface")]
    LinkType(u32),
    /// The frames carry their frame check sequence.
    #[error("the frames carry {0} bytes of FCS, which weir's frames do not")]
    Fcs(u32),
    /// A record is larger than any frame.
    #[error(
        "the record at offset {offset} has {captured_bytes} bytes, more than {CAPTURED_BYTES_MAX}"
    )]
    RecordSize {
        /// Where the record starts.
        offset: usize,
        /// Its size field.
        captured_bytes: u32,
    },
    /// A record claims to hold more than was on the wire.
    #[error(
        "the record at offset {offset} holds {captured_bytes} bytes of a frame of {wire_bytes}"
    )]
    RecordLength {
        /// Where the record starts.
        offset: usize,
        /// Bytes kept.
        captured_bytes: u32,
        /// Bytes on the wire.
        wire_bytes: u32,
    },
    /// A fraction of a second is a second or more.
    #[error("the time of the record at offset {offset} has {fraction} parts of a second")]
    Time {
        /// Where the record starts.
        offset: usize,
        /// The field.
        fraction: u32,
    },
}

/// A frame that a pcap file cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The frame is too large.
    #[error("a frame of {0} bytes is larger than pcap's {CAPTURED_BYTES_MAX}")]
    Size(usize),
    /// The time is past what 32 bits of seconds hold.
    #[error("{0} ns is past the last second of a pcap file (in 2106)")]
    Time(u64),
}

/// Writes a file piece by piece: [`Writer::header`] once, then [`Writer::record`] for each frame.
/// The caller may take the bytes away between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Writer {
    /// Unit of time.
    pub resolution: Resolution,
    /// Byte order of the headers.
    pub byte_order: ByteOrder,
}

impl Default for Writer {
    fn default() -> Self {
        Self { resolution: Resolution::Nanoseconds, byte_order: ByteOrder::Little }
    }
}

impl Writer {
    /// Appends the file header.
    pub fn header(&self, out: &mut Vec<u8>) {
        let order = self.byte_order;
        let magic = match self.resolution {
            Resolution::Microseconds => MAGIC_MICROSECONDS,
            Resolution::Nanoseconds => MAGIC_NANOSECONDS,
        };
        out.extend(order.u32_bytes(magic));
        out.extend(order.u16_bytes(2));
        out.extend(order.u16_bytes(4));
        // Reserved: once the time zone and the accuracy.
        out.extend([0; 8]);
        out.extend(order.u32_bytes(CAPTURED_BYTES_MAX));
        out.extend(order.u32_bytes(LINK_TYPE_ETHERNET));
    }

    /// Appends a whole frame, recorded at `time_ns`; what the resolution cannot hold is cut off.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if the frame or the time is too large; nothing is appended then.
    pub fn record(&self, out: &mut Vec<u8>, time_ns: u64, frame: &[u8]) -> Result<(), WriteError> {
        let size = u32::try_from(frame.len()).ok().filter(|size| *size <= CAPTURED_BYTES_MAX);
        let size = size.ok_or(WriteError::Size(frame.len()))?;
        let seconds = u32::try_from(time_ns / NS_PER_SECOND);
        let seconds = seconds.map_err(|_| WriteError::Time(time_ns))?;
        let fraction = time_ns % NS_PER_SECOND / u64::from(self.resolution.unit_ns());
        let fraction = fraction as u32;
        for field in [seconds, fraction, size, size] {
            out.extend(self.byte_order.u32_bytes(field));
        }
        out.extend(frame);
        Ok(())
    }
}

/// Reads a file, record after record. After an error it yields nothing more.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
    resolution: Resolution,
    byte_order: ByteOrder,
}

impl<'a> Reader<'a> {
    /// Reads the file header.
    ///
    /// # Errors
    ///
    /// [`PcapError`] if the file is no pcap file of Ethernet frames.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PcapError> {
        let (resolution, byte_order) = match bytes.first_chunk::<4>() {
            Some(magic) => read_magic(*magic)?,
            None => return Err(truncated("the file header", 0, FILE_HEADER_BYTES, bytes.len())),
        };
        if bytes.len() < FILE_HEADER_BYTES {
            return Err(truncated("the file header", 0, FILE_HEADER_BYTES, bytes.len()));
        }
        let (major, minor) = (byte_order.u16_at(bytes, 4), byte_order.u16_at(bytes, 6));
        if (major, minor) != (2, 4) {
            return Err(PcapError::Version { major, minor });
        }
        // Below the link type stand flags: bit 26 says that bits 28 to 31 count words of FCS.
        let link = byte_order.u32_at(bytes, 20);
        if link & 0xffff != LINK_TYPE_ETHERNET {
            return Err(PcapError::LinkType(link & 0xffff));
        }
        let fcs_bytes = (link >> 28) * 2;
        if link & 1 << 26 != 0 && fcs_bytes != 0 {
            return Err(PcapError::Fcs(fcs_bytes));
        }
        Ok(Self { bytes, offset: FILE_HEADER_BYTES, resolution, byte_order })
    }

    /// Unit of time of the file.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Byte order of the file.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Where the next record starts, from the start of the file.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The record at the offset, and where the next one starts.
    fn read(&self) -> Result<(Record<'a>, usize), PcapError> {
        let offset = self.offset;
        let rest = &self.bytes[offset..];
        if rest.len() < RECORD_HEADER_BYTES {
            let what = "the record header";
            return Err(truncated(what, offset, RECORD_HEADER_BYTES, rest.len()));
        }
        let field = |index: usize| self.byte_order.u32_at(rest, index * 4);
        let (seconds, fraction, captured_bytes, wire_bytes) =
            (field(0), field(1), field(2), field(3));
        if captured_bytes > CAPTURED_BYTES_MAX {
            return Err(PcapError::RecordSize { offset, captured_bytes });
        }
        if captured_bytes > wire_bytes {
            return Err(PcapError::RecordLength { offset, captured_bytes, wire_bytes });
        }
        let fraction_ns = u64::from(fraction) * u64::from(self.resolution.unit_ns());
        if fraction_ns >= NS_PER_SECOND {
            return Err(PcapError::Time { offset, fraction });
        }
        let body = &rest[RECORD_HEADER_BYTES..];
        let size = usize::try_from(captured_bytes).unwrap_or(usize::MAX);
        let Some(frame) = body.get(..size) else {
            return Err(truncated("the frame", offset + RECORD_HEADER_BYTES, size, body.len()));
        };
        let time_ns = u64::from(seconds) * NS_PER_SECOND + fraction_ns;
        Ok((Record { time_ns, wire_bytes, frame }, offset + RECORD_HEADER_BYTES + size))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        match self.read() {
            Ok((record, next)) => {
                self.offset = next;
                Some(Ok(record))
            }
            Err(error) => {
                self.offset = self.bytes.len();
                Some(Err(error))
            }
        }
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        })
    }
}

fn read_magic(magic: [u8; 4]) -> Result<(Resolution, ByteOrder), PcapError> {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        match order.u32_at(&magic, 0) {
            MAGIC_MICROSECONDS => return Ok((Resolution::Microseconds, order)),
            MAGIC_NANOSECONDS => return Ok((Resolution::Nanoseconds, order)),
            _ => {}
        }
    }
    match u32::from_be_bytes(magic) {
        MAGIC_PCAPNG => Err(PcapError::Pcapng),
        other => Err(PcapError::Magic(other)),
    }
}

const fn truncated(
    what: &'static str,
    offset: usize,
    needed_bytes: usize,
    got_bytes: usize,
) -> PcapError {
    PcapError::Truncated { what, offset, needed_bytes, got_bytes }
}

#[cfg(test)]
mod tests;

//! The signature that weir's generator writes into every payload.
//!
//! Eighteen bytes at the start of the UDP payload, which is bytes 42 to 60 of an untagged
//! Ethernet frame: the smallest frame holds it exactly. All fields are big-endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic, `0x77656972` ("weir") |
//! | 4 | 1 | stream |
//! | 5 | 1 | thread |
//! | 6 | 6 | sequence number, counted per stream and thread, modulo 2^48 |
//! | 12 | 6 | time of sending: nanoseconds of `CLOCK_MONOTONIC` modulo 2^48; 0 = not stamped |
//!
//! A frame without the magic is foreign traffic, never a lost packet of ours.

/// The first four bytes of every signature: "weir".
pub const MAGIC: u32 = 0x7765_6972;

/// Size of a signature, bytes.
pub const SIZE_BYTES: usize = 18;

/// Sequence numbers and timestamps wrap at this value (2^48).
#[cfg(test)]
pub(crate) const WRAP: u64 = 1 << 48;

mod field {
    use core::ops::Range;

    pub(super) const MAGIC: Range<usize> = 0..4;
    pub(super) const STREAM: usize = 4;
    pub(super) const THREAD: usize = 5;
    pub(super) const SEQUENCE: Range<usize> = 6..12;
    pub(super) const TIMESTAMP: Range<usize> = 12..18;
}

/// What a payload says about the packet that carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Signature {
    /// Number of the stream within the generator.
    pub stream: u8,
    /// Number of the thread that sent it.
    pub thread: u8,
    /// Sequence number; only its low 48 bits travel.
    pub sequence: u64,
    /// Nanoseconds of the monotonic clock; only the low 48 bits travel. 0 = not stamped.
    pub timestamp_ns: u64,
}

/// Why a payload holds no signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The payload is too small for a signature.
    #[error("a signature needs {SIZE_BYTES} bytes, but the payload holds {0}")]
    Truncated(usize),
    /// The payload starts with something else: the packet is foreign.
    #[error("the payload starts with {0:#010x}, not with weir's magic {MAGIC:#010x}")]
    Foreign(u32),
}

impl Signature {
    /// The wire form. Sequence number and timestamp are taken modulo 2^48.
    #[must_use]
    pub fn emit(&self) -> [u8; SIZE_BYTES] {
        let mut bytes = [0; SIZE_BYTES];
        bytes[field::MAGIC].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[field::STREAM] = self.stream;
        bytes[field::THREAD] = self.thread;
        bytes[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        bytes[field::TIMESTAMP].copy_from_slice(&self.timestamp_ns.to_be_bytes()[2..]);
        bytes
    }

    /// Reads the signature at the start of `payload`; what follows it is not looked at.
    ///
    /// # Errors
    ///
    /// [`SignatureError`] if the payload is too small or starts with another magic.
    pub fn parse(payload: &[u8]) -> Result<Self, SignatureError> {
        let (bytes, _) = payload
            .split_first_chunk::<SIZE_BYTES>()
            .ok_or(SignatureError::Truncated(payload.len()))?;
        match uint(&bytes[field::MAGIC]) {
            magic if magic == u64::from(MAGIC) => Ok(Self {
                stream: bytes[field::STREAM],
                thread: bytes[field::THREAD],
                sequence: uint(&bytes[field::SEQUENCE]),
                timestamp_ns: uint(&bytes[field::TIMESTAMP]),
            }),
            #[expect(clippy::cast_possible_truncation, reason = "four bytes were read")]
            other => Err(SignatureError::Foreign(other as u32)),
        }
    }
}

/// Big-endian unsigned number of up to eight bytes.
fn uint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden() {
        let signature = Signature {
            stream: 1,
            thread: 2,
            sequence: 0x0304_0506_0708,
            timestamp_ns: 0x090a_0b0c_0d0e,
        };
        let bytes = *b"weir\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e";
        assert_eq!(signature.emit(), bytes);
        assert_eq!(Signature::parse(&bytes), Ok(signature));
    }

    #[test]
    fn numbers_wrap_at_48_bits() {
        let signature = Signature { sequence: WRAP + 7, timestamp_ns: u64::MAX, ..<_>::default() };
        let parsed = Signature::parse(&signature.emit()).unwrap();
        assert_eq!((parsed.sequence, parsed.timestamp_ns), (7, WRAP - 1));
    }

    #[test]
    fn refuses_foreign_and_short_payloads() {
        assert_eq!(Signature::parse(b"weir"), Err(SignatureError::Truncated(4)));
        let error = Signature::parse(&[0x12; 18]).unwrap_err();
        assert_eq!(error, SignatureError::Foreign(0x1212_1212));
        let text = "the payload starts with 0x12121212, not with weir's magic 0x77656972";
        assert_eq!(error.to_string(), text);
    }

    proptest! {
        #[test]
        fn emitted_is_parsed_back(
            stream: u8, thread: u8, sequence in 0..WRAP, timestamp_ns in 0..WRAP,
            padding in prop::collection::vec(any::<u8>(), 0..40)
        ) {
            let signature = Signature { stream, thread, sequence, timestamp_ns };
            let mut payload = signature.emit().to_vec();
            payload.extend(padding);
            prop_assert_eq!(Signature::parse(&payload), Ok(signature));
        }

        #[test]
        fn never_panics(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Signature::parse(&payload);
        }
    }
}

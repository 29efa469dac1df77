//! Reads and writes the arena: words by offset, and bytes in and out.
//!
//! Programs change words at any time. A 32-bit or 64-bit word is read as a whole; anything longer
//! may be half old and half new, and the caller reads it again until it is sure.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapHandle, MapInfo};

use super::layout::PAGE_BYTES;
use crate::sys::ArenaMapping;

/// Why the arena could not be mapped, or given memory.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// It could not be mapped.
    #[error("cannot map the firewall's memory at address {address:#x}: {source}")]
    Map {
        /// Where it has to be.
        address: u64,
        /// What the kernel returned.
        source: io::Error,
    },
    /// There is no memory for some of its pages.
    #[error(
        "the system cannot provide {bytes} bytes for the firewall's memory: {source}; lower \
         `set limit states` or `set hashsize`, or raise the memory limit of the control group"
    )]
    Populate {
        /// How many bytes were wanted.
        bytes: u64,
        /// What the kernel returned.
        source: io::Error,
    },
}

/// The firewall's shared memory: 4 GiB of addresses, with memory where it was populated.
#[derive(Debug)]
pub struct Arena {
    mapping: ArenaMapping,
}

/// Pages are populated in pieces, so that an error is found before all memory is gone.
const POPULATE_BYTES: usize = 64 << 20;

impl Arena {
    pub(super) fn new(map: &MapHandle) -> Result<Self, ArenaError> {
        let failed = |address, source| ArenaError::Map { address, source };
        let info = MapInfo::new(map.as_fd())
            .map_err(|error| failed(0, io::Error::other(error.to_string())))?;
        let address = info.info.map_extra;
        let mapping =
            ArenaMapping::new(map.as_fd(), address).map_err(|source| failed(address, source))?;
        Ok(Self { mapping })
    }

    /// The 32-bit word at an offset.
    ///
    /// # Panics
    /// If the offset is not a multiple of 4.
    #[must_use]
    pub fn word32(&self, at: u32) -> &AtomicU32 {
        self.mapping.word32(at)
    }

    /// The 64-bit word at an offset.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8.
    #[must_use]
    pub fn word64(&self, at: u32) -> &AtomicU64 {
        self.mapping.word64(at)
    }

    /// Reads a 32-bit word; what its writer wrote before it is seen too.
    ///
    /// # Panics
    /// If the offset is not a multiple of 4.
    #[must_use]
    pub fn read32(&self, at: u32) -> u32 {
        self.word32(at).load(Ordering::Acquire)
    }

    /// Writes a 32-bit word, after everything that was written before.
    ///
    /// # Panics
    /// If the offset is not a multiple of 4.
    pub fn write32(&self, at: u32, value: u32) {
        self.word32(at).store(value, Ordering::Release);
    }

    /// Reads a 64-bit word; what its writer wrote before it is seen too.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8.
    #[must_use]
    pub fn read64(&self, at: u32) -> u64 {
        self.word64(at).load(Ordering::Acquire)
    }

    /// Writes a 64-bit word, after everything that was written before.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8.
    pub fn write64(&self, at: u32, value: u64) {
        self.word64(at).store(value, Ordering::Release);
    }

    /// Copies bytes out, from any offset. Words may be of different times.
    ///
    /// # Panics
    /// If the bytes end behind the arena.
    pub fn read(&self, at: u32, bytes: &mut [u8]) {
        let (mut at, mut rest) = (at, bytes);
        assert_in_arena(at, rest.len());
        while !rest.is_empty() {
            let skip = (at % 8) as usize;
            let word = self.word64(at - at % 8).load(Ordering::Relaxed).to_ne_bytes();
            let size = (8 - skip).min(rest.len());
            let (piece, behind) = rest.split_at_mut(size);
            piece.copy_from_slice(&word[skip..skip + size]);
            (at, rest) = (advance(at, size), behind);
        }
    }

    /// Copies bytes in, to any offset: aligned 64-bit words as a whole, what is left byte by byte
    /// as part of its 32-bit word, which nobody else may write at that time.
    ///
    /// # Panics
    /// If the bytes end behind the arena.
    pub fn write(&self, at: u32, bytes: &[u8]) {
        let (mut at, mut rest) = (at, bytes);
        assert_in_arena(at, rest.len());
        while let Some(&byte) = rest.first() {
            if at.is_multiple_of(8)
                && let Some((word, behind)) = rest.split_first_chunk::<8>()
            {
                self.word64(at).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                (at, rest) = (advance(at, 8), behind);
                continue;
            }
            let word = self.word32(at - at % 4);
            let mut value = word.load(Ordering::Relaxed).to_ne_bytes();
            value[(at % 4) as usize] = byte;
            word.store(u32::from_ne_bytes(value), Ordering::Relaxed);
            (at, rest) = (advance(at, 1), &rest[1..]);
        }
        std::sync::atomic::fence(Ordering::Release);
    }

    /// Fills bytes with zeros.
    ///
    /// # Panics
    /// If the bytes end behind the arena.
    pub fn clear(&self, at: u32, bytes: u64) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let (mut at, mut rest) = (at, bytes);
        while rest > 0 {
            let size = usize::try_from(rest).unwrap_or(usize::MAX).min(ZEROS.len());
            self.write(at, &ZEROS[..size]);
            (at, rest) = (advance(at, size), rest - size as u64);
        }
    }

    /// Has the kernel give memory to the pages of a range. Pages that have some keep it.
    ///
    /// # Errors
    /// [`ArenaError::Populate`] if there is not enough.
    pub fn populate(&self, at: u32, bytes: u64) -> Result<(), ArenaError> {
        let page = u64::from(PAGE_BYTES);
        let mut from = u64::from(at) / page * page;
        let end = (u64::from(at) + bytes).next_multiple_of(page);
        while from < end {
            let size = usize::try_from(end - from).unwrap_or(usize::MAX).min(POPULATE_BYTES);
            let at = u32::try_from(from).unwrap_or(u32::MAX);
            match self.mapping.populate(at, size) {
                Ok(()) => from += size as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ArenaError::Populate { bytes, source }),
            }
        }
        Ok(())
    }
}

fn assert_in_arena(at: u32, size: usize) {
    assert!(u64::from(at) + size as u64 <= super::layout::ARENA_BYTES, "behind the arena");
}

/// The offset behind `size` bytes; 0 at the arena's end, where nothing is left to copy.
fn advance(at: u32, size: usize) -> u32 {
    at.wrapping_add(u32::try_from(size).unwrap_or(0))
}

//! Collects a head that arrives in pieces. It never looks into one: its caller parses.

use super::{DecodeError, HEAD_BYTES_MAX};

/// The bytes of a head so far; empty, and without memory, while none is incomplete.
#[derive(Debug, Default)]
pub(super) struct HeadBuffer(Vec<u8>);

impl HeadBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes more bytes: how many of them are used, and the head if it is complete. `parse` gives
    /// a complete head with its length in bytes.
    pub(super) fn feed<H>(
        &mut self,
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> Result<Option<(H, usize)>, DecodeError>,
    ) -> Result<(usize, Option<H>), DecodeError> {
        let before = self.0.len();
        let new = &bytes[..bytes.len().min(HEAD_BYTES_MAX - before)];
        if before == 0 {
            // Nearly always all of it is there.
            if let Some((head, size)) = parse(new)? {
                return Ok((size, Some(head)));
            }
            self.0.extend_from_slice(new);
        } else {
            self.0.extend_from_slice(new);
            if let Some((head, size)) = parse(&self.0)? {
                self.0 = Vec::new();
                return Ok((size - before, Some(head)));
            }
        }
        if self.0.len() >= HEAD_BYTES_MAX {
            return Err(DecodeError::HeadTooLarge);
        }
        Ok((new.len(), None))
    }
}

//! A body: how much of what arrives belongs to it. It never keeps a byte.

use super::chunked::Chunked;
use super::{DecodeError, Event, Framing, Step};

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl Body {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(bytes) => Self::Length(bytes),
            Framing::Chunked => Self::Chunked(Chunked::new()),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// Goes on with the bytes that have arrived.
    pub(super) fn step<H>(&mut self, bytes: &[u8]) -> Result<Step<H>, DecodeError> {
        let (used_bytes, size) = match self {
            Self::Length(0) => return Ok(Step { used_bytes: 0, event: Event::Done }),
            Self::Length(left) => {
                let size = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= size as u64;
                (size, size)
            }
            Self::Chunked(chunked) => {
                let (used_bytes, size) = chunked.step(bytes)?;
                if size == 0 && chunked.is_done() {
                    return Ok(Step { used_bytes, event: Event::Done });
                }
                (used_bytes, size)
            }
            Self::UntilClose => (bytes.len(), bytes.len()),
        };
        let event = if size > 0 { Event::Body(size) } else { Event::More };
        Ok(Step { used_bytes, event })
    }
}

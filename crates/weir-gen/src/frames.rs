//! Where the frames come from that are made in user space: the streams of a traffic, or a file.
//!
//! Frames have numbers; the same number is the same frame whoever asks for it.

use std::sync::Arc;
use std::time::Duration;

use weir_wire::stream::{StreamFrames, StreamSet};
use weir_wire::walk::Share;

use crate::backend::RunOptions;
use crate::error::GeneratorError;
use crate::pacing::{Schedule, Timetable};
use crate::replay::{Replay, ReplayTiming};

/// A source of frames.
#[derive(Debug)]
pub(crate) enum Frames {
    Streams(StreamSet),
    Replay(Arc<Replay>, ReplayTiming),
}

/// One frame, not made yet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame<'a> {
    /// Of a stream, and its number there.
    Made(&'a StreamFrames, u64),
    /// Of a file.
    Stored(&'a [u8]),
}

impl Frames {
    /// Number of threads that share the frames: a file has one.
    pub(crate) fn thread_count(&self) -> u16 {
        match self {
            Self::Streams(set) => set.thread_count(),
            Self::Replay(..) => 1,
        }
    }

    /// The largest frame, bytes without FCS.
    pub(crate) fn size_bytes_max(&self) -> usize {
        match self {
            Self::Streams(set) => set.size_bytes_range().1.into(),
            Self::Replay(replay, _) => replay.size_bytes_range().1,
        }
    }

    /// Packet `nth` of a share.
    pub(crate) fn of_share(&self, share: &Share, nth: u64) -> Frame<'_> {
        match self {
            Self::Streams(set) => {
                let (stream, sequence) = set.pick_of(share, nth);
                Frame::Made(&set.streams()[stream], sequence)
            }
            Self::Replay(replay, _) => Frame::Stored(replay.frame(nth)),
        }
    }

    /// Packet `number` of all shares together.
    pub(crate) fn of_all(&self, number: u64) -> Frame<'_> {
        match self {
            Self::Streams(set) => {
                let (stream, sequence) = set.pick(number);
                Frame::Made(&set.streams()[stream], sequence)
            }
            Self::Replay(replay, _) => Frame::Stored(replay.frame(number)),
        }
    }

    /// When a thread's packets are due; `None` is as fast as possible.
    pub(crate) fn timetable(
        &self,
        options: &RunOptions,
    ) -> Result<Option<Timetable>, GeneratorError> {
        let schedule = options.thread_schedule(self.thread_count().into())?;
        match self {
            Self::Replay(replay, ReplayTiming::Recorded) => match schedule {
                Some(_) => Err(GeneratorError::RecordedWithRate),
                None => {
                    let first = options.first_sequence;
                    Ok(Some(Timetable::Recorded { replay: Arc::clone(replay), first }))
                }
            },
            _ => Ok(schedule.map(Timetable::Rate)),
        }
    }

    /// What a capture file gives as the time of packet `number` of a run that began with `first`:
    /// that of `schedule`, or the recorded one.
    pub(crate) fn time_ns(&self, schedule: &Schedule, first: u64, number: u64) -> u64 {
        match self {
            Self::Replay(replay, ReplayTiming::Recorded) => replay.time_ns(number),
            _ => nanoseconds(schedule.due(number - first)),
        }
    }
}

impl Frame<'_> {
    /// Size, bytes without FCS.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Made(stream, sequence) => stream.sizes().size_bytes(*sequence).into(),
            Self::Stored(frame) => frame.len(),
        }
    }

    /// Makes the frame in `room`, which has its size. What is stored is not stamped.
    pub(crate) fn write(&self, stamp_ns: u64, room: &mut [u8]) {
        match self {
            Self::Made(stream, sequence) => stream.build_into(*sequence, stamp_ns, room),
            Self::Stored(frame) => room.copy_from_slice(frame),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

//! The frames of a capture file, to be sent again: as recorded, at a rate, or as fast as possible.
//!
//! A [`Replay`] is a whole file in memory, checked before anything is sent: classic pcap of
//! Ethernet, every frame complete. Files that are replayed several times go on after a gap as long
//! as the mean one of the file. Frames are numbered through all rounds. Nothing is read from a disk
//! and nothing is sent here; [`crate::packet`] and [`crate::pcap`] do that.

use std::time::Duration;

use weir_wire::ethernet;
use weir_wire::mac::MacAddr;
use weir_wire::pcap::{PcapError, RECORD_HEADER_BYTES, Reader};

/// When a replay's frames are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayTiming {
    /// As far apart as they were recorded; the run's rate must be `max`, which adds nothing to it.
    Recorded,
    /// As the run's rate says.
    Rate,
}

/// Why a file cannot be replayed. Records count from 1, as packets do in tcpdump and Wireshark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It is no capture file of Ethernet, or damaged.
    #[error(transparent)]
    File(#[from] PcapError),
    /// It holds no frames.
    #[error("the file holds no packets")]
    Empty,
    /// A part of a frame was not recorded.
    #[error(
        "packet {number} was recorded only in part, {kept_bytes} of its {wire_bytes} bytes: record \
         whole packets (`tcpdump -s 0`)"
    )]
    Cut {
        /// Number of the record.
        number: usize,
        /// What was recorded, bytes.
        kept_bytes: usize,
        /// The frame's size, bytes.
        wire_bytes: u32,
    },
    /// A frame has no whole Ethernet header.
    #[error(
        "packet {number} has {size_bytes} bytes, which is not an Ethernet frame: its header \
         alone has 14"
    )]
    Short {
        /// Number of the record.
        number: usize,
        /// The frame's size, bytes.
        size_bytes: usize,
    },
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    start: usize,
    size_bytes: usize,
    /// As the file has it.
    time_ns: u64,
    /// After the first frame; never before the frames that stand in front of it.
    due_ns: u64,
}

/// A capture file that can be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    file: Vec<u8>,
    records: Vec<Recorded>,
    /// From the first frame of a round to that of the next.
    period_ns: u64,
    byte_count: u64,
}

impl Replay {
    /// Reads a whole file.
    ///
    /// # Errors
    /// [`ReplayError`] says why it cannot be replayed.
    pub fn parse(file: Vec<u8>) -> Result<Self, ReplayError> {
        let mut records: Vec<Recorded> = Vec::new();
        let mut reader = Reader::new(&file)?;
        let (mut first_ns, mut due_ns) = (None, 0);
        loop {
            let start = reader.offset() + RECORD_HEADER_BYTES;
            let Some(record) = reader.next() else { break };
            let record = record?;
            let (number, size_bytes) = (records.len() + 1, record.frame.len());
            if record.is_cut() {
                let wire_bytes = record.wire_bytes;
                return Err(ReplayError::Cut { number, kept_bytes: size_bytes, wire_bytes });
            }
            if size_bytes < ethernet::HEADER_BYTES {
                return Err(ReplayError::Short { number, size_bytes });
            }
            let time_ns = record.time_ns;
            due_ns = time_ns.saturating_sub(*first_ns.get_or_insert(time_ns)).max(due_ns);
            records.push(Recorded { start, size_bytes, time_ns, due_ns });
        }
        let gaps = (records.len() as u64).checked_sub(1).ok_or(ReplayError::Empty)?;
        let period_ns = due_ns + due_ns.checked_div(gaps).unwrap_or(0);
        let byte_count = records.iter().map(|record| record.size_bytes as u64).sum();
        Ok(Self { file, records, period_ns, byte_count })
    }

    /// Writes other MAC addresses into all frames; `None` leaves what is there.
    pub fn rewrite(&mut self, src: Option<MacAddr>, dst: Option<MacAddr>) {
        for record in &self.records {
            let header = &mut self.file[record.start..record.start + ethernet::HEADER_BYTES];
            for (mac, field) in [(dst, 0..6), (src, 6..12)] {
                if let Some(MacAddr(bytes)) = mac {
                    header[field].copy_from_slice(&bytes);
                }
            }
        }
    }

    /// Number of frames in the file, above zero.
    #[must_use]
    pub fn packet_count(&self) -> u64 {
        self.records.len() as u64
    }

    /// Bytes of all frames of the file together, without FCS.
    #[must_use]
    pub const fn byte_count(&self) -> u64 {
        self.byte_count
    }

    /// The mean frame size, bytes without FCS.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.byte_count as f64 / self.packet_count() as f64
    }

    /// The smallest and the largest frame, bytes without FCS.
    #[must_use]
    pub fn size_bytes_range(&self) -> (usize, usize) {
        let sizes = || self.records.iter().map(|record| record.size_bytes);
        (sizes().min().unwrap_or_default(), sizes().max().unwrap_or_default())
    }

    /// Number, counted from 1, of the first frame over a size.
    #[must_use]
    pub fn first_over(&self, size_bytes: usize) -> Option<usize> {
        self.records.iter().position(|record| record.size_bytes > size_bytes).map(|at| at + 1)
    }

    /// From the first frame of the file to the last one.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.records.last().map_or(0, |record| record.due_ns))
    }

    /// The record of frame `number`, and the round that it is in, both from 0.
    fn record(&self, number: u64) -> (&Recorded, u64) {
        let count = self.packet_count();
        let place = usize::try_from(number % count).unwrap_or_default();
        (&self.records[place], number / count)
    }

    /// Frame `number`, from 0, through all rounds.
    #[must_use]
    pub fn frame(&self, number: u64) -> &[u8] {
        let (record, _) = self.record(number);
        &self.file[record.start..record.start + record.size_bytes]
    }

    /// When frame `number` is due after the first one. Frames whose times run backwards in the file
    /// are due together.
    #[must_use]
    pub fn due(&self, number: u64) -> Duration {
        let (record, round) = self.record(number);
        let begin_ns = round.saturating_mul(self.period_ns);
        Duration::from_nanos(begin_ns.saturating_add(record.due_ns))
    }

    /// The time of frame `number`: as recorded, in later rounds by as much later as those begin.
    #[must_use]
    pub fn time_ns(&self, number: u64) -> u64 {
        let (record, round) = self.record(number);
        record.time_ns.saturating_add(round.saturating_mul(self.period_ns))
    }

    /// How many frames are due before `elapsed` after the first one, in as many rounds as it takes;
    /// `u64::MAX` if all frames of the file have one time.
    #[must_use]
    pub fn count_within(&self, elapsed: Duration) -> u64 {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let Some(rounds) = elapsed_ns.checked_div(self.period_ns) else { return u64::MAX };
        let rest_ns = elapsed_ns % self.period_ns;
        let rest = self.records.partition_point(|record| record.due_ns < rest_ns) as u64;
        rounds.saturating_mul(self.packet_count()).saturating_add(rest)
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::pcap::Writer;

    use super::*;

    /// A file of frames of these sizes at these times.
    fn file(frames: &[(u64, usize)]) -> Vec<u8> {
        let (writer, mut out) = (Writer::default(), Vec::new());
        writer.header(&mut out);
        for (fill, &(time_ns, size_bytes)) in (0_u8..).zip(frames) {
            writer.record(&mut out, time_ns, &vec![fill; size_bytes]).unwrap();
        }
        out
    }

    #[test]
    fn rounds_follow_each_other() {
        let replay = Replay::parse(file(&[(5_000, 60), (5_100, 70), (5_300, 80)])).unwrap();
        assert_eq!((replay.packet_count(), replay.byte_count()), (3, 210));
        assert_eq!((replay.mean_bytes(), replay.size_bytes_range()), (70.0, (60, 80)));
        assert_eq!(replay.duration(), Duration::from_nanos(300));
        let due: Vec<u128> = (0..7).map(|number| replay.due(number).as_nanos()).collect();
        assert_eq!(due, [0, 100, 300, 450, 550, 750, 900]);
        assert_eq!((replay.time_ns(2), replay.time_ns(4)), (5_300, 5_550));
        assert_eq!((replay.frame(1), replay.frame(4)), (&[1; 70][..], &[1; 70][..]));
        let within = |ns| replay.count_within(Duration::from_nanos(ns));
        let counts = [0, 1, 100, 101, 301, 450, 451].map(within);
        assert_eq!(counts, [0, 1, 1, 2, 3, 3, 4]);
        assert_eq!((replay.first_over(69), replay.first_over(80)), (Some(2), None));
    }

    #[test]
    fn times_that_run_backwards_are_due_together() {
        let replay = Replay::parse(file(&[(500, 60), (900, 60), (100, 60), (1_000, 60)])).unwrap();
        let due: Vec<u128> = (0..4).map(|number| replay.due(number).as_nanos()).collect();
        assert_eq!(due, [0, 400, 400, 500]);
        assert_eq!(replay.time_ns(2), 100);
        let at_once = Replay::parse(file(&[(500, 60), (500, 60)])).unwrap();
        assert_eq!((at_once.due(7), at_once.duration()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(at_once.count_within(Duration::from_secs(1)), u64::MAX);
    }

    #[test]
    fn addresses_are_rewritten() {
        let mut replay = Replay::parse(file(&[(0, 60), (0, 60)])).unwrap();
        replay.rewrite(Some(MacAddr([0xaa; 6])), None);
        assert_eq!(replay.frame(1), [&[1; 6][..], &[0xaa; 6], &[1; 48]].concat());
        replay.rewrite(None, Some(MacAddr([0xbb; 6])));
        assert_eq!(replay.frame(1), [&[0xbb; 6][..], &[0xaa; 6], &[1; 48]].concat());
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        let refused = |file: Vec<u8>| Replay::parse(file).unwrap_err();
        assert_eq!(refused(file(&[])), ReplayError::Empty);
        let short = ReplayError::Short { number: 2, size_bytes: 13 };
        assert_eq!(refused(file(&[(0, 60), (0, 13)])), short);
        let mut cut = file(&[(0, 60), (1, 60)]);
        // The second record's size on the wire.
        let at = 24 + 16 + 60 + 12;
        cut[at] = 90;
        let error = ReplayError::Cut { number: 2, kept_bytes: 60, wire_bytes: 90 };
        assert_eq!(refused(cut), error);
        let mut truncated = file(&[(0, 60)]);
        truncated.pop();
        assert!(matches!(refused(truncated), ReplayError::File(PcapError::Truncated { .. })));
    }
}

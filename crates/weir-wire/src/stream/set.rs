//! Several streams at once, in exact ratios: legitimate traffic beside an attack, say.
//!
//! Each thread goes through the same order of streams, that of [`weights::smooth`], and has its
//! share of every stream: of `n` threads, thread `t` sends the packets `t`, `t + n`, … of each. A
//! receiver sees, per stream and thread, sequence numbers that grow by `n`, as with one stream. The
//! set's own packet number `g` is packet `g / n` of thread `g % n`.

use alloc::vec;
use alloc::vec::Vec;

use super::StreamFrames;
use crate::sizes::SizePattern;
use crate::walk::Share;
use crate::weights::{self, WeightsError};

/// Streams and their weights.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamSet {
    streams: Vec<StreamFrames>,
    /// For each place of a period: the stream, and how often it stands before.
    order: Vec<(usize, u64)>,
    /// How often each stream stands in a period.
    turns: Vec<u64>,
    thread_count: u16,
}

/// Streams that cannot be sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamSetError {
    /// The weights make no order.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Two streams have one number, so that a receiver could not tell them apart.
    #[error("two streams have the number {0}: give each its own")]
    Number(u8),
    /// The streams are shared by different numbers of threads.
    #[error("one stream is for {0} threads, another for {1}: the streams of a set share threads")]
    Threads(u16, u16),
}

impl StreamSet {
    /// The streams with their weights.
    ///
    /// # Errors
    ///
    /// [`StreamSetError`] if there is no stream, a weight is 0, the period of the weights is over
    /// [`weights::PERIOD_MAX`], or the streams do not go together.
    pub fn new(streams: Vec<(StreamFrames, u32)>) -> Result<Self, StreamSetError> {
        let (streams, weights): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
        let order = weights::smooth(&weights)?;
        let mut numbers = [false; 256];
        for stream in &streams {
            let number = stream.spec().stream;
            if core::mem::replace(&mut numbers[usize::from(number)], true) {
                return Err(StreamSetError::Number(number));
            }
        }
        let thread_count = streams.first().map_or(1, |stream| stream.spec().thread_count);
        let mut others = streams.iter().map(|stream| stream.spec().thread_count);
        if let Some(other) = others.find(|other| *other != thread_count) {
            return Err(StreamSetError::Threads(thread_count, other));
        }
        let mut turns = vec![0; streams.len()];
        let order = order.into_iter().map(|stream| {
            turns[stream] += 1;
            (stream, turns[stream] - 1)
        });
        let order = order.collect();
        Ok(Self { streams, order, turns, thread_count })
    }

    /// The streams, in the order in which they were given.
    #[must_use]
    pub fn streams(&self) -> &[StreamFrames] {
        &self.streams
    }

    /// The stream, counted from 0, of each place of the period that every thread goes through.
    pub fn order(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.order.iter().map(|(stream, _)| *stream)
    }

    /// The stream, counted from 0, and its sequence number of the thread's packet number `nth`.
    #[must_use]
    pub fn pick_of(&self, share: &Share, nth: u64) -> (usize, u64) {
        let period = self.order.len() as u64;
        let place = usize::try_from(nth % period).unwrap_or_default();
        let (stream, before) = self.order[place];
        let turn = (nth / period).wrapping_mul(self.turns[stream]).wrapping_add(before);
        (stream, share.sequence(turn))
    }

    /// The stream, counted from 0, and its sequence number of the set's packet number `global`.
    #[must_use]
    pub fn pick(&self, global: u64) -> (usize, u64) {
        let thread_count = u64::from(self.thread_count);
        let thread = u8::try_from(global % thread_count).unwrap_or_default();
        let share = Share::new(thread, self.thread_count).unwrap_or(Share::WHOLE);
        self.pick_of(&share, global / thread_count)
    }

    /// The frame of the set's packet number `global`, not stamped with a time.
    #[must_use]
    pub fn build(&self, global: u64) -> Vec<u8> {
        let (stream, sequence) = self.pick(global);
        self.streams[stream].build(sequence)
    }

    /// Number of threads that share every stream.
    #[must_use]
    pub const fn thread_count(&self) -> u16 {
        self.thread_count
    }

    /// The smallest and the largest frame of all streams, bytes without FCS.
    #[must_use]
    pub fn size_bytes_range(&self) -> (u16, u16) {
        let sizes = || self.streams.iter().map(StreamFrames::sizes);
        let min_bytes = sizes().map(SizePattern::min_bytes).min().unwrap_or_default();
        (min_bytes, sizes().map(SizePattern::max_bytes).max().unwrap_or_default())
    }

    /// The mean size of a frame, weighted as the streams are, bytes without FCS.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "periods have at most 65,536 places")]
    pub fn mean_bytes(&self) -> f64 {
        let pairs = self.streams.iter().zip(&self.turns);
        let bytes: f64 =
            pairs.map(|(stream, turns)| stream.sizes().mean_bytes() * *turns as f64).sum();
        bytes / self.order.len().max(1) as f64
    }

    /// How many of the first `count` packets of any one thread belong to the stream at `stream`.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    #[must_use]
    pub fn turns_before(&self, stream: usize, count: u64) -> u64 {
        let (period, turns) = (self.order.len() as u64, self.turns[stream]);
        let place = usize::try_from(count % period).unwrap_or(usize::MAX);
        let rest = self.order().take(place).filter(|other| *other == stream).count() as u64;
        (count / period).wrapping_mul(turns).wrapping_add(rest)
    }

    /// How many of the set's first `total` packets belong to the stream at `stream`.
    ///
    /// # Panics
    ///
    /// If there is no such stream.
    #[must_use]
    pub fn packet_count(&self, stream: usize, total: u64) -> u64 {
        // Every thread sends `each` packets, and the first `rest` of them one more.
        let thread_count = u64::from(self.thread_count);
        let (each, rest) = (total / thread_count, total % thread_count);
        let more = if rest > 0 { self.turns_before(stream, each + 1) * rest } else { 0 };
        self.turns_before(stream, each) * (thread_count - rest) + more
    }

    /// Number of flows of all streams together. Streams that share flows count them twice.
    #[must_use]
    pub fn flow_count(&self) -> u128 {
        self.streams.iter().map(|stream| u128::from(stream.flows().flow_count())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use crate::frame::Protocol;
    use proptest::prelude::*;

    fn stream(number: u8, thread_count: u16) -> StreamFrames {
        let mut spec = spec("10.0.0.1-10.0.0.9", "10.1.0.1");
        (spec.stream, spec.thread_count) = (number, thread_count);
        StreamFrames::new(spec).unwrap()
    }

    #[test]
    fn ratios_and_sequences_are_exact() {
        let set = StreamSet::new(vec![(stream(0, 1), 300), (stream(1, 1), 100)]).unwrap();
        assert_eq!(set.order().collect::<Vec<_>>(), [0, 0, 1, 0]);
        let picks: Vec<_> = (0..8).map(|global| set.pick(global)).collect();
        let expected = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (0, 4), (1, 1), (0, 5)];
        assert_eq!(picks, expected);
        assert_eq!(set.build(6), set.streams()[1].build(1));
        assert_eq!(set.flow_count(), 18);
    }

    #[test]
    fn one_stream_is_itself() {
        let set = StreamSet::new(vec![(stream(7, 3), 5)]).unwrap();
        for global in [0, 1, 2, 3, 100, u64::MAX - 3] {
            assert_eq!(set.pick(global), (0, global));
        }
    }

    #[test]
    fn refusals() {
        let refused = |streams| StreamSet::new(streams).unwrap_err();
        assert_eq!(refused(vec![]), StreamSetError::Weights(WeightsError::Empty));
        let two = |a: (u8, u16), b: (u8, u16)| {
            refused(vec![(stream(a.0, a.1), 1), (stream(b.0, b.1), 1)])
        };
        assert_eq!(two((3, 1), (3, 1)), StreamSetError::Number(3));
        assert_eq!(two((3, 1), (4, 2)), StreamSetError::Threads(1, 2));
    }

    #[test]
    fn streams_may_differ_in_everything() {
        let mut attack = spec("[2001:2::1]-[2001:2::9]", "[2001:2:1::1]:80");
        (attack.protocol, attack.stream) = (Protocol::TCP_SYN, 1);
        attack.sizes = crate::sizes::Sizes::Fixed(92);
        let attack = StreamFrames::new(attack).unwrap();
        let set = StreamSet::new(vec![(stream(0, 1), 1), (attack, 1)]).unwrap();
        assert_eq!((set.build(0).len(), set.build(1).len()), (60, 92));
    }

    proptest! {
        #[test]
        fn every_sequence_number_is_sent_once(
            weights in prop::collection::vec(1_u32..9, 1..5), thread_count in 1_u16..5,
            total in 0_u64..400
        ) {
            let numbered = (0_u8..).zip(&weights);
            let streams = numbered.map(|(n, weight)| (stream(n, thread_count), *weight)).collect();
            let set = StreamSet::new(streams).unwrap();
            let threads = u64::from(thread_count);
            let whole = u64::try_from(set.order().len()).unwrap() * threads;
            let mut sent = vec![Vec::new(); weights.len()];
            for global in 0..whole.max(total) {
                if global == total {
                    for (index, sent) in sent.iter().enumerate() {
                        let count = u64::try_from(sent.len()).unwrap();
                        prop_assert_eq!(set.packet_count(index, total), count);
                    }
                }
                let (index, sequence) = set.pick(global);
                // The thread that sends a packet is the one that its stream signs it with.
                prop_assert_eq!(sequence % threads, global % threads);
                sent[index].push(sequence);
            }
            let set_of_whole: Vec<u64> =
                (0..weights.len()).map(|index| set.packet_count(index, whole)).collect();
            let sum: u32 = weights.iter().sum();
            for (index, weight) in weights.iter().enumerate() {
                prop_assert_eq!(set_of_whole[index] * u64::from(sum), whole * u64::from(*weight));
                let mut first: Vec<u64> = (0..whole).map(|g| set.pick(g))
                    .filter(|(other, _)| *other == index).map(|(_, sequence)| sequence).collect();
                first.sort_unstable();
                prop_assert_eq!(first, (0..set_of_whole[index]).collect::<Vec<_>>());
            }
        }
    }
}

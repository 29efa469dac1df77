//! Encodes what a thread does, and decodes what it did: `struct weir_thread` of
//! `bpf/include/weir/lane.h`.

use super::{GeneratorCounters, Interval, ThreadConfig};

/// Words of a thread.
pub(super) const WORDS: usize = 87;

/// Which word is the number of the thread's next packet.
pub(super) const NTH_WORD: usize = 1;

/// Words of a plain set's run, which a new thread does not have yet.
const RUN_WORDS: usize = 10;

/// Which words are the pacer's: interval and fraction, then (after the catch-up limit) when the
/// next packet is due, its fraction, and when the last one went.
const INTERVAL_WORD: usize = 16;
const DUE_WORD: usize = INTERVAL_WORD + 3;
const SENT_WORD: usize = INTERVAL_WORD + 5;

/// From which packet on the counters count, and which words they are.
const COUNTED_WORD: usize = 3;
const COUNTERS_WORD: usize = 22;
const COUNTERS: usize = 7;

/// Which words are the lane of a set of one stream.
const LANE_WORD: usize = 29;

const ENABLED: u64 = 1 << 0;
const PACED: u64 = 1 << 1;
const STAMPED: u64 = 1 << 2;

/// The value to write into the map for a thread that stands at `place` in the order of streams,
/// with the lane of its stream if there is only one. All its counters are zero.
pub(super) fn encode(config: &ThreadConfig, place: u64, lane: Option<&[u64]>) -> Vec<u64> {
    let paced = if config.interval.is_some() { PACED } else { 0 };
    let stamped = if config.timestamps { STAMPED } else { 0 };
    let mut words = vec![
        ENABLED | paced | stamped,
        config.first_nth,
        config.end_nth.unwrap_or(u64::MAX),
        config.first_nth,
        place,
        0,
    ];
    words.extend([0; RUN_WORDS]);
    words.extend([
        config.interval.map_or(0, |interval| interval.whole_ns),
        config.interval.map_or(0, |interval| u64::from(interval.fraction)),
        config.catch_up_ns,
    ]);
    words.resize(WORDS, 0);
    if let Some(lane) = lane {
        words[LANE_WORD..LANE_WORD + lane.len()].copy_from_slice(lane);
    }
    words
}

/// Changes the interval in the words of a thread; see `GeneratorProgram::set_interval`.
pub(super) fn set_interval(words: &mut [u64], interval: Interval) {
    words[INTERVAL_WORD] = interval.whole_ns;
    words[INTERVAL_WORD + 1] = u64::from(interval.fraction);
    let due_max_ns = words[SENT_WORD].saturating_add(interval.whole_ns);
    words[DUE_WORD] = words[DUE_WORD].min(due_max_ns);
}

/// Sets the counters in the words of a thread to zero.
pub(super) fn clear_counters(words: &mut [u64]) {
    words[COUNTED_WORD] = words[NTH_WORD];
    words[COUNTERS_WORD..COUNTERS_WORD + COUNTERS].fill(0);
}

/// The counters in the words of a thread whose frames all have `size_bytes`; `None` if they differ.
pub(super) fn counters(words: &[u64], size_bytes: Option<u16>) -> GeneratorCounters {
    let counters: Option<&[u64; COUNTERS]> =
        words.get(COUNTERS_WORD..).and_then(|rest| rest.first_chunk());
    let Some(&[bytes, over_limit, refused, early, stalls, lost_ns, gap_ns]) = counters else {
        unreachable!("the map's value size was checked when it was loaded");
    };
    let offered_packets = words[NTH_WORD] - words[COUNTED_WORD];
    GeneratorCounters {
        offered_packets,
        offered_bytes: size_bytes.map_or(bytes, |size| offered_packets * u64::from(size)),
        over_limit_packets: over_limit,
        refused_packets: refused,
        early_packets: early,
        stalls,
        stall_lost_ns: lost_ns,
        gap_max_ns: gap_ns,
    }
}

//! Encodes what a thread does, and decodes what it did: `struct weir_thread` of
//! `bpf/include/weir/lane.h`.

use super::{GeneratorCounters, Interval, ThreadConfig};
use crate::words::{pacer, pacer_counters, room, thread, thread_counters, thread_flags};

/// The value to write into the map for a thread that stands at `place` in the order of streams,
/// with the lane of its stream if there is only one. All its counters are zero.
pub(crate) fn encode(config: &ThreadConfig, place: u64, lane: Option<&[u64]>) -> Vec<u64> {
    let paced = if config.interval.is_some() { thread_flags::PACED } else { 0 };
    let stamped = if config.timestamps { thread_flags::STAMPED } else { 0 };
    let mut words = vec![0; thread::WORDS];
    words[thread::FLAGS] = thread_flags::ENABLED | paced | stamped;
    words[thread::NTH] = config.first_nth;
    words[thread::NTH_END] = config.end_nth.unwrap_or(u64::MAX);
    words[thread::NTH_COUNTED] = config.first_nth;
    words[thread::PLACE] = place;
    let pacer = &mut words[thread::PACER..];
    pacer[pacer::INTERVAL_NS] = config.interval.map_or(0, |interval| interval.whole_ns);
    pacer[pacer::INTERVAL_FRACTION] =
        config.interval.map_or(0, |interval| u64::from(interval.fraction));
    pacer[pacer::CATCH_UP_NS] = config.catch_up_ns;
    if let Some(lane) = lane {
        words[thread::LANE..thread::LANE + lane.len()].copy_from_slice(lane);
    }
    words
}

/// Puts a window in the place of the end in the words of a thread: the value to write into its map.
pub(super) fn open_window(words: &mut [u64], packets: u32, cpu_count: u32) -> Vec<u64> {
    let mut room = vec![0; room::WORDS];
    room[room::PACKETS] = packets.into();
    room[room::CPU_COUNT] = cpu_count.into();
    room[room::NTH_FIRST] = words[thread::NTH];
    room[room::NTH_END] = words[thread::NTH_END];
    words[thread::FLAGS] |= thread_flags::WINDOWED;
    words[thread::NTH_END] = words[thread::NTH];
    room
}

/// Changes the interval in the words of a thread; see `GeneratorProgram::set_interval`.
pub(super) fn set_interval(words: &mut [u64], interval: Interval) {
    let pacer = &mut words[thread::PACER..];
    pacer[pacer::INTERVAL_NS] = interval.whole_ns;
    pacer[pacer::INTERVAL_FRACTION] = u64::from(interval.fraction);
    let due_max_ns = pacer[pacer::SENT_NS].saturating_add(interval.whole_ns);
    pacer[pacer::DUE_NS] = pacer[pacer::DUE_NS].min(due_max_ns);
}

/// Sets the counters in the words of a thread to zero.
pub(super) fn clear_counters(words: &mut [u64]) {
    words[thread::NTH_COUNTED] = words[thread::NTH];
    words[thread::COUNTERS..thread::COUNTERS + thread_counters::WORDS].fill(0);
}

/// The counters in the words of a thread whose frames all have `size_bytes`; `None` if they differ.
pub(crate) fn counters(words: &[u64], size_bytes: Option<u16>) -> GeneratorCounters {
    let counters = &words[thread::COUNTERS..];
    let pacer = &counters[thread_counters::PACER..];
    let offered_packets = words[thread::NTH] - words[thread::NTH_COUNTED];
    GeneratorCounters {
        offered_packets,
        offered_bytes: match size_bytes {
            Some(size_bytes) => offered_packets * u64::from(size_bytes),
            None => counters[thread_counters::OFFERED_BYTES],
        },
        over_limit_packets: counters[thread_counters::OVER_LIMIT_PACKETS],
        refused_packets: counters[thread_counters::REFUSED_PACKETS],
        early_packets: pacer[pacer_counters::EARLY],
        stalls: pacer[pacer_counters::STALLS],
        stall_lost_ns: pacer[pacer_counters::LOST_NS],
        gap_max_ns: pacer[pacer_counters::GAP_MAX_NS],
    }
}

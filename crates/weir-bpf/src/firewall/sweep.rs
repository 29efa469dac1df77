//! Asks the sweeping program to go through the state table: to expire, to kill, or only to count.
//!
//! The program changes records under their bucket's lock, as the data path does. It ends after some
//! hundred microseconds ([`layout::SWEEP_NS_MAX`]), because its CPU handles no packets meanwhile,
//! and says how far it has come.

use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd as _;

use super::{Firewall, layout};
use crate::sys;

/// What is to happen to records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Those go whose time is over.
    #[default]
    Expire,
    /// Those go that fit a filter.
    Kill(Filter),
    /// Those go on, and no longer count in the nodes of their sources, whose source fits the
    /// filter's version and `source`.
    Untrack(Filter),
    /// What another firewall has sent lives on from now as if a packet had come, and is of its last
    /// bulk, also if that was cut.
    Stamp,
    /// What another firewall has sent, and not since its bulk began.
    Forget {
        /// Those go of which no packet has come since this tick; the others, and without it all of
        /// them, become this firewall's.
        idle_since: Option<u32>,
    },
}

/// Which records are killed: those that fit all of it. The default fits all records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// 4 or 6; 0: any. Addresses need it.
    pub ip_version: u8,
    /// IP protocol; 0: any.
    pub protocol: u8,
    /// Slot of an interface that a half is bound to; 0: any.
    pub interface: u8,
    /// Id of the rule that made a half.
    pub rule: Option<u32>,
    /// One end; IPv4 addresses in the first four bytes.
    pub source: Ends,
    /// The other one.
    pub destination: Ends,
    /// Whether `source` may also be end 1, and `destination` end 0.
    pub either_way: bool,
    /// Whether `source` is an address that translation has given, and only the world outside sees.
    pub is_outside: bool,
}

/// Addresses and ports of one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends {
    /// Address, network order.
    pub address: [u8; 16],
    /// Bits of the address that count.
    pub mask: [u8; 16],
    /// Port; 0: any.
    pub port: u16,
}

/// What the program found and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Records that are left.
    pub live_count: u64,
    /// Records that were removed.
    pub removed_count: u64,
    /// Buckets whose lock could not be had: they were left alone.
    pub busy_count: u64,
    /// Runs of the program that it took: each takes the number of states, which timeouts may
    /// depend on, as it is then.
    pub run_count: u64,
}

impl std::ops::AddAssign for Swept {
    fn add_assign(&mut self, other: Self) {
        self.live_count += other.live_count;
        self.removed_count += other.removed_count;
        self.busy_count += other.busy_count;
        self.run_count += other.run_count;
    }
}

/// Which way the index is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// It gets buckets.
    Split,
    /// It loses its last ones.
    Join,
}

/// How far that went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Buckets that there are now.
    pub(super) reached: u32,
    /// Whether it cannot go on at the moment.
    pub(super) is_stuck: bool,
}

/// Number of 32-bit words of a request, and of an answer.
pub(super) const WORDS: usize = layout::sweep::SIZE_BYTES as usize / 4;
/// They stand behind room for an Ethernet header.
const HEADER_BYTES: usize = layout::SWEEP_AT as usize;

/// Buckets that keep a thread busy for some milliseconds, and the most threads of a sweep.
const THREAD_BUCKETS: u32 = 1 << 16;
const THREADS_MAX: u32 = 8;

/// Indices of the words that a request and an answer have.
pub(super) mod word {
    use super::layout::sweep;

    pub(in super::super) const MODE: usize = sweep::MODE as usize / 4;
    pub(in super::super) const FROM: usize = sweep::FROM as usize / 4;
    pub(in super::super) const TO: usize = sweep::TO as usize / 4;
    pub(in super::super) const FLAGS: usize = sweep::FLAGS as usize / 4;
    pub(in super::super) const RULE: usize = sweep::RULE as usize / 4;
    pub(in super::super) const PORT: usize = sweep::PORT as usize / 4;
    pub(in super::super) const ADDRESS: usize = sweep::ADDR as usize / 4;
    pub(in super::super) const MASK: usize = sweep::MASK as usize / 4;
    pub(in super::super) const LIVE: usize = sweep::LIVE as usize / 4;
    pub(in super::super) const REMOVED: usize = sweep::REMOVED as usize / 4;
    pub(in super::super) const BUSY: usize = sweep::BUSY as usize / 4;
    pub(in super::super) const NEXT: usize = sweep::NEXT as usize / 4;
}

pub(super) type Words = [u32; WORDS];

fn request(mode: Mode, buckets: &Range<u32>) -> Words {
    let (mode, filter) = match mode {
        Mode::Expire => (layout::SWEEP_EXPIRE, Filter::default()),
        Mode::Kill(filter) => (layout::SWEEP_KILL, filter),
        Mode::Untrack(filter) => (layout::SWEEP_UNTRACK, filter),
        Mode::Stamp => (layout::SWEEP_STAMP, Filter::default()),
        Mode::Forget { idle_since } => {
            let mut words = words_of(layout::SWEEP_FORGET, Filter::default(), buckets);
            words[word::RULE] = u32::from(idle_since.is_some());
            words[word::PORT] = idle_since.unwrap_or(0);
            return words;
        }
    };
    words_of(mode, filter, buckets)
}

fn words_of(mode: u32, filter: Filter, buckets: &Range<u32>) -> Words {
    let mut words = [0; WORDS];
    words[word::MODE] = mode;
    (words[word::FROM], words[word::TO]) = (buckets.start, buckets.end);
    words[word::FLAGS] = u32::from(filter.ip_version)
        | u32::from(filter.protocol) << layout::SWEEP_PROTOCOL_SHIFT
        | u32::from(filter.interface) << layout::SWEEP_INTERFACE_SHIFT
        | if filter.rule.is_some() { layout::SWEEP_RULE } else { 0 }
        | if filter.either_way { layout::SWEEP_EITHER_WAY } else { 0 }
        | if filter.is_outside { layout::SWEEP_OUTSIDE } else { 0 };
    words[word::RULE] = filter.rule.unwrap_or(0);
    for (index, end) in [filter.source, filter.destination].into_iter().enumerate() {
        words[word::PORT + index] = u32::from(end.port.to_be());
        put_address(&mut words[word::ADDRESS + 4 * index..], end.address);
        put_address(&mut words[word::MASK + 4 * index..], end.mask);
    }
    words
}

pub(super) fn put_address(words: &mut [u32], address: [u8; 16]) {
    let (pieces, _) = address.as_chunks::<4>();
    for (word, piece) in words.iter_mut().zip(pieces) {
        *word = u32::from_ne_bytes(*piece);
    }
}

/// Threads that go through the whole table, if it is large.
fn thread_count() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cpus).unwrap_or(THREADS_MAX).min(THREADS_MAX)
}

impl Firewall {
    /// Goes through a range of buckets, as far as there are such.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn sweep(&self, mode: Mode, buckets: Range<u32>) -> io::Result<Swept> {
        let mut swept = Swept::default();
        let mut from = buckets.start;
        // There may be more of them meanwhile.
        while from < buckets.end.min(self.bucket_count()) {
            let answer = self.sweep_once(&request(mode, &(from..buckets.end)))?;
            swept += Swept {
                live_count: u64::from(answer[word::LIVE]),
                removed_count: u64::from(answer[word::REMOVED]),
                busy_count: u64::from(answer[word::BUSY]),
                run_count: 1,
            };
            if answer[word::NEXT] <= from {
                // There were fewer buckets as the program looked.
                break;
            }
            from = answer[word::NEXT];
        }
        Ok(swept)
    }

    /// Goes through the whole table, and misses no record that is there all the time. A large one
    /// is shared out to several threads: whoever asks for that waits for its end.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn sweep_all(&self, mode: Mode) -> io::Result<Swept> {
        let _still = self.hold_still();
        // What is in these now is in them later, or in those that there are by then.
        let bucket_count = self.bucket_count();
        let threads = bucket_count.div_ceil(THREAD_BUCKETS).clamp(1, thread_count());
        let piece = bucket_count.div_ceil(threads);
        let piece_of = |index: u32| piece * index..bucket_count.min(piece * (index + 1));
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|index| scope.spawn(move || self.sweep(mode, piece_of(index))))
                .collect();
            let mut swept = self.sweep(mode, piece_of(0))?;
            for thread in others {
                let ended = thread.join().map_err(|_| io::Error::other("a sweep has panicked"))?;
                swept += ended?;
            }
            swept += self.sweep(mode, bucket_count..u32::MAX)?;
            Ok(swept)
        })
    }

    /// Has the index move towards a number of buckets for a while.
    pub(super) fn move_buckets(&self, moves: Moves, bucket_count: u32) -> io::Result<Counts> {
        let mode = match moves {
            Moves::Split => layout::SWEEP_SPLIT,
            Moves::Join => layout::SWEEP_JOIN,
        };
        let answer = self.sweep_once(&words_of(mode, Filter::default(), &(0..bucket_count)))?;
        Ok(Counts { reached: answer[word::NEXT], is_stuck: answer[word::BUSY] != 0 })
    }

    pub(super) fn sweep_once(&self, request: &Words) -> io::Result<Words> {
        let answer = self.sweep_frame(request)?;
        let short = || io::Error::other("the sweeping program gave no answer");
        answer.first_chunk().copied().ok_or_else(short)
    }

    /// The same with a list behind the request, where the program reads so many words.
    pub(super) fn sweep_list(
        &self,
        request: &Words,
        list: &[u32],
        list_words: usize,
    ) -> io::Result<Vec<u32>> {
        let mut words = [&request[..], list].concat();
        words.resize(WORDS + list_words, 0);
        self.sweep_frame(&words)
    }

    /// The same with more than one request, or with what follows it.
    pub(super) fn sweep_frame(&self, request: &[u32]) -> io::Result<Vec<u32>> {
        let mut frame = vec![0; HEADER_BYTES + request.len() * 4];
        let (pieces, _) = frame[HEADER_BYTES..].as_chunks_mut::<4>();
        for (piece, word) in pieces.iter_mut().zip(request) {
            *piece = word.to_ne_bytes();
        }
        let mut output = frame.clone();
        let (verdict, bytes) = sys::test_run_once(self.sweep.as_fd(), &frame, &mut output)?;
        /// What the program returns when it understood the request: `XDP_PASS`.
        const UNDERSTOOD: u32 = 2;
        if verdict != UNDERSTOOD || bytes != output.len() {
            return Err(io::Error::other("the sweeping program refused its request"));
        }
        let (pieces, _) = output[HEADER_BYTES..].as_chunks::<4>();
        Ok(pieces.iter().map(|piece| u32::from_ne_bytes(*piece)).collect())
    }
}

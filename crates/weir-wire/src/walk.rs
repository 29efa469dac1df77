//! In which order a stream visits its flows, and how threads share its packets.
//!
//! The *odometer* visits every flow once before it repeats one. The *random* walk draws each
//! packet's four digits from seed and sequence number, independently of all other packets; it
//! visits flows more than once, and some late. Both are functions of the sequence number, so that
//! any packet can be built, and any thread can start, anywhere.

use core::fmt;

use crate::flow::{Digits, Flow, FlowSpace};
use crate::random::{below, halves, splitmix64};
use crate::range::Span;

/// The order in which a stream visits its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Walk {
    /// pkt-gen's: source port fastest, then source address, destination port, destination address.
    #[default]
    Odometer,
    /// Seeded pseudo-random over the same ranges. For packet `s`:
    ///
    /// ```text
    /// a = splitmix64(seed, 2 s)        b = splitmix64(seed, 2 s + 1)    (positions modulo 2^64)
    /// source port offset         = (a >> 32)        * source ports          >> 32
    /// source address offset      = (a & 0xffffffff) * source addresses      >> 32
    /// destination port offset    = (b >> 32)        * destination ports     >> 32
    /// destination address offset = (b & 0xffffffff) * destination addresses >> 32
    /// ```
    Random { seed: u64 },
}

impl Walk {
    /// The digits of packet number `sequence`.
    #[must_use]
    pub fn digits<R: Span>(&self, space: &FlowSpace<R>, sequence: u64) -> Digits {
        let Self::Random { seed } = *self else {
            return space.digits(sequence);
        };
        let position = sequence.wrapping_mul(2);
        let (src_port, src) = halves(splitmix64(seed, position));
        let (dst_port, dst) = halves(splitmix64(seed, position.wrapping_add(1)));
        let [src_ports, srcs, dst_ports, dsts] = space.radices();
        [below(src_ports, src_port), below(srcs, src), below(dst_ports, dst_port), below(dsts, dst)]
    }

    /// The flow of packet number `sequence`.
    #[must_use]
    pub fn flow<R: Span>(&self, space: &FlowSpace<R>, sequence: u64) -> Flow<R::Addr> {
        space.flow_at(self.digits(space, sequence))
    }

    /// The place in the odometer of the flow of packet number `sequence`.
    #[must_use]
    pub fn index<R: Span>(&self, space: &FlowSpace<R>, sequence: u64) -> u64 {
        space.index_at(self.digits(space, sequence))
    }
}

/// One thread's share of a stream: of `n` threads, thread `t` sends the packets `t`, `t + n`,
/// `t + 2n`, … Together they send every packet once, whatever the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    thread: u8,
    thread_count: u16,
}

/// A share that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no thread {thread} of {thread_count}: threads are numbered from 0, and there are 1 \
     to {} of them",
    Share::THREAD_COUNT_MAX
)]
pub struct ShareError {
    thread: u8,
    thread_count: u16,
}

impl Share {
    /// Most threads of a stream: the signature has eight bits for their numbers.
    pub const THREAD_COUNT_MAX: u16 = 256;

    /// All of a stream, for a single thread.
    pub const WHOLE: Self = Self { thread: 0, thread_count: 1 };

    /// The share of `thread`, from 0, of `thread_count`.
    ///
    /// # Errors
    ///
    /// [`ShareError`] if there is no such thread.
    pub fn new(thread: u8, thread_count: u16) -> Result<Self, ShareError> {
        if u16::from(thread) >= thread_count || thread_count > Self::THREAD_COUNT_MAX {
            return Err(ShareError { thread, thread_count });
        }
        Ok(Self { thread, thread_count })
    }

    /// Number of the thread, from 0.
    #[must_use]
    pub const fn thread(&self) -> u8 {
        self.thread
    }

    /// Number of threads.
    #[must_use]
    pub const fn thread_count(&self) -> u16 {
        self.thread_count
    }

    /// Sequence number of the thread's packet number `nth`, from 0.
    #[must_use]
    pub fn sequence(&self, nth: u64) -> u64 {
        nth.wrapping_mul(self.thread_count.into()).wrapping_add(self.thread.into())
    }

    /// How many of the stream's first `total` packets the thread sends.
    #[must_use]
    pub fn packet_count(&self, total: u64) -> u64 {
        let (whole, rest) =
            (total / u64::from(self.thread_count), total % u64::from(self.thread_count));
        whole + u64::from(rest > u64::from(self.thread))
    }

    /// How many flows of an odometer over `flow_count` flows the thread visits if it goes on for
    /// long enough: all of them, unless its step and the number of flows have a common divisor.
    #[cfg(test)]
    pub(crate) fn odometer_flow_count(&self, flow_count: u64) -> u64 {
        flow_count / gcd(flow_count, self.thread_count.into()).max(1)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of {}", self.thread, self.thread_count)
    }
}

/// Greatest common divisor.
pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::AddrRange;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn space(src: &str, dst: &str) -> FlowSpace<AddrRange> {
        FlowSpace::new(src.parse().unwrap(), dst.parse().unwrap()).unwrap()
    }

    /// The function written out, as a program in C would.
    #[test]
    fn the_random_walk_is_the_documented_function() {
        let space = space("10.0.0.1:1-10.0.0.70:9", "10.9.0.1:5-10.9.255.255:6");
        let walk = Walk::Random { seed: 42 };
        for s in [0, 1, 4_900, u64::MAX] {
            let (a, b) = (
                splitmix64(42, s.wrapping_mul(2)),
                splitmix64(42, s.wrapping_mul(2).wrapping_add(1)),
            );
            let expected = [
                ((a >> 32) * 9) >> 32,
                ((a & 0xffff_ffff) * 70) >> 32,
                ((b >> 32) * 2) >> 32,
                ((b & 0xffff_ffff) * 65_535) >> 32,
            ];
            assert_eq!(walk.digits(&space, s), expected);
            assert_eq!(space.index_of(&walk.flow(&space, s)), Some(walk.index(&space, s)));
        }
        assert_ne!(walk.digits(&space, 0), Walk::Random { seed: 43 }.digits(&space, 0));
    }

    #[test]
    fn the_random_walk_visits_all_flows() {
        let space = space("[2001:2::1]:7-[2001:2::a]", "[2001:2:1::1]:7-[2001:2:1::a]");
        let walk = Walk::Random { seed: 7 };
        let seen: HashSet<u64> = (0..2_000).map(|s| walk.index(&space, s)).collect();
        assert_eq!(seen.len(), 100);
    }

    #[test]
    fn shares_are_checked() {
        assert!(Share::new(255, 256).is_ok());
        assert!(Share::new(0, 0).is_err() && Share::new(0, 257).is_err());
        let error = Share::new(2, 2).unwrap_err().to_string();
        let text = "there is no thread 2 of 2: \
                    threads are numbered from 0, and there are 1 to 256 of them";
        assert_eq!(error, text);
        assert_eq!(Share::new(1, 2).unwrap().to_string(), "thread 1 of 2");
    }

    proptest! {
        #[test]
        fn shares_partition_a_stream(thread_count in 1_u16..20, total in 0_u64..500) {
            let mut sent = Vec::new();
            for thread in 0..thread_count {
                let share = Share::new(u8::try_from(thread).unwrap(), thread_count).unwrap();
                let count = share.packet_count(total);
                sent.extend((0..count).map(|nth| share.sequence(nth)));
                prop_assert!(share.sequence(count) >= total);
            }
            sent.sort_unstable();
            prop_assert_eq!(sent, (0..total).collect::<Vec<_>>());
        }

        #[test]
        fn a_share_visits_the_predicted_flows(
            thread in 0_u8..8, more in 1_u16..8, srcs in 1_u8..30, dsts in 1_u8..30
        ) {
            let share = Share::new(thread, u16::from(thread) + more).unwrap();
            let space = space(
                &format!("10.0.0.1-10.0.0.{srcs}"), &format!("10.1.0.1-10.1.0.{dsts}")
            );
            let flow_count = space.flow_count();
            let seen: HashSet<_> =
                (0..flow_count).map(|nth| space.flow(share.sequence(nth))).collect();
            let expected = share.odometer_flow_count(flow_count);
            prop_assert_eq!(u64::try_from(seen.len()).unwrap(), expected);
        }

        #[test]
        fn walks_stay_inside_the_ranges(seed: u64, sequence: u64) {
            let space = space("10.0.0.1:1-10.0.0.7:65535", "10.1.0.0:9-10.1.255.255:9");
            for walk in [Walk::Odometer, Walk::Random { seed }] {
                let flow = walk.flow(&space, sequence);
                prop_assert!(space.index_of(&flow).is_some());
                prop_assert_eq!(space.flow(walk.index(&space, sequence)), flow);
            }
        }
    }
}

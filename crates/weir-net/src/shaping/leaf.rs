//! The queue of a class that has none below it: tc-bfifo(8), tc-fq_codel(8), tc-codel(8) or
//! tc-red(8).
//!
//! This module never talks to the kernel.

use netlink_packet_route::tc::{TcAttribute, TcOption, TcQdiscFqCodelOption};
use rtnetlink::packet_core::DefaultNla;

use super::TCA_OPTIONS;

/// Of linux/pkt_sched.h.
const TCA_CODEL_TARGET: u16 = 1;
const TCA_CODEL_LIMIT: u16 = 2;
const TCA_CODEL_INTERVAL: u16 = 3;
const TCA_CODEL_ECN: u16 = 4;
const TCA_RED_PARMS: u16 = 1;
const TCA_RED_STAB: u16 = 2;
const TCA_RED_MAX_P: u16 = 3;
const TC_RED_ECN: u8 = 1;
/// Places of the table of shifts, and the largest shift.
const RED_STAB_SIZE: usize = 256;
const RED_SHIFT_MAX: u8 = 31;

/// Packets are dropped from this part of the limit on, and all of them from that part on, as by
/// `red_alloc` of ALTQ's disciplines, %.
const RED_PERCENT: [u64; 2] = [10, 30];
/// One of so many packets is dropped shortly before all are (ALTQ's `P_MAX` is its inverse).
const RED_ONE_OF: u64 = 10;
/// What waits is packets of full size.
const PACKET_BYTES: u64 = 1_500;
/// The kernel has 32 bits for a length with the fraction of its average.
const RED_BYTES_MAX: u32 = 1 << 30;

/// The queue of a class that has none below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// First in, first out.
    Fifo {
        /// Packets that wait at most.
        limit_packets: u32,
    },
    /// The same, by size.
    FifoBytes {
        /// Bytes that wait at most.
        limit_bytes: u32,
    },
    /// Flows take turns, and packets that wait for too long are dropped (RFC 8290).
    Fair {
        /// Flows that are told apart.
        flow_count: u32,
        /// Packets that wait at most, if it is said.
        limit_packets: Option<u32>,
        /// Bytes that a flow sends in its turn.
        quantum_bytes: Option<u32>,
        /// Time that packets may wait, µs.
        target_us: Option<u32>,
        /// Time after which a queue is too long, µs.
        interval_us: Option<u32>,
    },
    /// Packets that wait for too long are dropped (RFC 8289).
    Codel {
        /// Packets that wait at most.
        limit_packets: u32,
        /// Time that packets may wait, µs, if it is said.
        target_us: Option<u32>,
        /// Time after which a queue is too long, µs.
        interval_us: Option<u32>,
        /// Whether packets are marked where that is possible (RFC 3168), and not dropped.
        has_ecn: bool,
    },
    /// The longer the queue is on average, the more packets are dropped at random (RFC 2309).
    Red {
        /// Packets of full size that wait at most.
        limit_packets: u32,
        /// Whether packets are marked where that is possible (RFC 3168), and not dropped.
        has_ecn: bool,
    },
}

fn option(kind: u16, value: u32) -> TcOption {
    TcOption::Other(DefaultNla::new(kind, value.to_ne_bytes().to_vec()))
}

/// `struct tc_fifo_qopt`
fn fifo(limit: u32) -> TcAttribute {
    TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, limit.to_ne_bytes().to_vec()))
}

impl Queue {
    /// Its kind, and what is said of it at the rate of its class.
    pub(super) fn options(self, rate_bps: u64) -> (&'static str, TcAttribute) {
        match self {
            Self::Fifo { limit_packets } => ("pfifo", fifo(limit_packets)),
            Self::FifoBytes { limit_bytes } => ("bfifo", fifo(limit_bytes)),
            Self::Fair { flow_count, limit_packets, quantum_bytes, target_us, interval_us } => {
                use TcQdiscFqCodelOption::{Flows, Interval, Limit, Quantum, Target};
                let options = [
                    Some(Flows(flow_count)),
                    limit_packets.map(Limit),
                    quantum_bytes.map(Quantum),
                    target_us.map(Target),
                    interval_us.map(Interval),
                ];
                let options = options.into_iter().flatten().map(TcOption::FqCodel);
                ("fq_codel", TcAttribute::Options(options.collect()))
            }
            Self::Codel { limit_packets, target_us, interval_us, has_ecn } => {
                let options = [
                    Some(option(TCA_CODEL_LIMIT, limit_packets)),
                    target_us.map(|time| option(TCA_CODEL_TARGET, time)),
                    interval_us.map(|time| option(TCA_CODEL_INTERVAL, time)),
                    Some(option(TCA_CODEL_ECN, has_ecn.into())),
                ];
                ("codel", TcAttribute::Options(options.into_iter().flatten().collect()))
            }
            Self::Red { limit_packets, has_ecn } => {
                let red = Red::new(limit_packets, rate_bps);
                ("red", TcAttribute::Options(red.options(has_ecn)))
            }
        }
    }
}

/// What random early detection needs to know, in the kernel's terms.
#[derive(Debug, PartialEq, Eq)]
struct Red {
    limit_bytes: u32,
    /// Average lengths from which on some, and all, packets are dropped, bytes.
    thresholds_bytes: [u32; 2],
    /// The average follows the length by one part of 2 to the power of this.
    weight_log: u8,
    /// How often a packet is dropped: 1 of 2 to the power of this, for each byte above the first
    /// threshold.
    drop_log: u8,
    /// Times without packets are looked up in the table in units of 2 to the power of this, µs.
    idle_log: u8,
    /// By how much the average has shrunk after such a time: shifts.
    shifts: [u8; RED_STAB_SIZE],
}

impl Red {
    fn new(limit_packets: u32, rate_bps: u64) -> Self {
        let bytes = |packets: u64| {
            u32::try_from(packets * PACKET_BYTES).map_or(RED_BYTES_MAX, |it| it.min(RED_BYTES_MAX))
        };
        let limit = u64::from(limit_packets);
        // Queues of few packets have one between the two, at least.
        let first = (limit * RED_PERCENT[0] / 100).max(1);
        let last = (limit * RED_PERCENT[1] / 100).max(first + 1);
        let thresholds_bytes = [bytes(first), bytes(last)];
        // Slow lines forget sooner, as by red_alloc(9).
        let weight_log = match rate_bps / 8 / PACKET_BYTES {
            0..50 => 6,
            50..300 => 7,
            _ => 9,
        };
        // Both are to have room in 32 bits.
        let weight_log = weight_log.min(thresholds_bytes[1].leading_zeros().saturating_sub(1));
        let span = u64::from(thresholds_bytes[1] - thresholds_bytes[0]).max(1);
        let drop_log = (span * RED_ONE_OF).next_power_of_two().ilog2();
        let (idle_log, shifts) = shifts(weight_log, rate_bps);
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        Self {
            limit_bytes: bytes(limit.max(last)),
            thresholds_bytes,
            weight_log: small(weight_log),
            drop_log: small(drop_log),
            idle_log: small(idle_log),
            shifts,
        }
    }

    fn options(&self, has_ecn: bool) -> Vec<TcOption> {
        let [first, last] = self.thresholds_bytes;
        let mut head = super::words(&[self.limit_bytes, first, last]);
        let flags = if has_ecn { TC_RED_ECN } else { 0 };
        head.extend([self.weight_log, self.drop_log, self.idle_log, flags]);
        let most = u32::try_from((1 << 32) / RED_ONE_OF).unwrap_or(u32::MAX);
        vec![
            TcOption::Other(DefaultNla::new(TCA_RED_PARMS, head)),
            TcOption::Other(DefaultNla::new(TCA_RED_STAB, self.shifts.to_vec())),
            option(TCA_RED_MAX_P, most),
        ]
    }
}

/// The table of shifts: in the time that a packet takes at this rate the average of an empty queue
/// shrinks by one part of 2 to the power of `weight_log`. The last place stands for all that is
/// longer.
fn shifts(weight_log: u32, rate_bps: u64) -> (u32, [u8; RED_STAB_SIZE]) {
    let packet_us = (PACKET_BYTES * 8 * 1_000_000) as f64 / rate_bps.max(1) as f64;
    let per_us = -(1.0 - 0.5_f64.powi(weight_log.cast_signed())).log2() / packet_us;
    let longest_us = f64::from(RED_SHIFT_MAX) / per_us;
    let idle_log = (0..u32::from(RED_SHIFT_MAX))
        .find(|log| longest_us / f64::from(1_u32 << log) < 2.0 * RED_STAB_SIZE as f64)
        .unwrap_or(RED_SHIFT_MAX.into());
    let mut table = [RED_SHIFT_MAX; RED_STAB_SIZE];
    let mut shift = 0;
    for (at, place) in table[..RED_STAB_SIZE - 1].iter_mut().enumerate() {
        let passed = at as f64 * f64::from(1_u32 << idle_log) * per_us;
        while shift < RED_SHIFT_MAX && f64::from(shift + 1) <= passed {
            shift += 1;
        }
        *place = shift;
    }
    (idle_log, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_is_as_altq_has_it() {
        // 50 packets at 10 Mbit/s: from 5 on, all from 15 on.
        let red = Red::new(50, 10_000_000);
        assert_eq!(red.thresholds_bytes, [7_500, 22_500]);
        assert_eq!((red.limit_bytes, red.weight_log), (75_000, 9));
        // 1 of 10 over 15,000 bytes: 150,000 is between 2^17 and 2^18.
        assert_eq!(red.drop_log, 18);
        assert_eq!(Red::new(50, 1_000_000).weight_log, 7);
        assert_eq!(Red::new(50, 100_000).weight_log, 6);
        let least = Red::new(0, 1);
        assert_eq!((least.thresholds_bytes, least.limit_bytes), ([1_500, 3_000], 3_000));
        // fls(length) + weight has to stay below 32.
        let most = Red::new(u32::MAX, u64::MAX);
        assert!(32 - most.thresholds_bytes[1].leading_zeros() + u32::from(most.weight_log) < 32);
        assert_eq!(red.options(true).len(), 3);
    }

    #[test]
    fn an_empty_queue_is_forgotten_over_time() {
        let (log, table) = shifts(9, 10_000_000);
        assert!(table.is_sorted());
        assert_eq!((table[0], table[RED_STAB_SIZE - 1]), (0, 31));
        // 1.2 ms a packet: after 355 of them, 0.426 s, half of the average is left.
        let half_us = 355.0 * 1_200.0;
        let first = table.iter().position(|shift| *shift == 1).expect("a first shift");
        let unit_us = f64::from(1_u32 << log);
        assert!((first as f64 * unit_us - half_us).abs() < 2.0 * unit_us, "{first} {log}");
        let _ = shifts(0, u64::MAX);
        let _ = shifts(31, 0);
    }
}

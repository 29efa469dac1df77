//! From packets per second to the time between two packets.
//!
//! The schedule itself is kept by the program that sends (`bpf/include/weir/pacing.h`): it knows
//! the time of every packet.

use weir_bpf::generator::Interval;

const NS_PER_SECOND: f64 = 1e9;

/// The time between two packets of one of `thread_count` threads that send `rate_pps` together, to
/// the nearest 2^-32 ns. Rates that are not positive give the longest interval.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates, and both parts are not negative"
)]
pub fn interval(rate_pps: f64, thread_count: u32) -> Interval {
    const FRACTION_UNITS: f64 = (1_u64 << 32) as f64;
    if rate_pps.is_nan() || rate_pps <= 0.0 {
        return Interval { whole_ns: u64::MAX, fraction: 0 };
    }
    let interval_ns = NS_PER_SECOND * f64::from(thread_count) / rate_pps;
    let whole_ns = interval_ns.floor();
    Interval {
        whole_ns: whole_ns as u64,
        fraction: ((interval_ns - whole_ns) * FRACTION_UNITS).round() as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_keep_the_fraction() {
        assert_eq!(interval(50_000.0, 1), Interval { whole_ns: 20_000, fraction: 0 });
        assert_eq!(interval(50_000.0, 4), Interval { whole_ns: 80_000, fraction: 0 });
        assert_eq!(interval(0.5, 1), Interval { whole_ns: 2_000_000_000, fraction: 0 });
        let third = interval(3e6, 1);
        assert_eq!(third, Interval { whole_ns: 333, fraction: 1_431_655_765 });
        let fast = interval(4e9, 1);
        assert_eq!(fast, Interval { whole_ns: 0, fraction: 1 << 30 });
    }

    #[test]
    fn what_is_no_rate_never_sends() {
        for rate_pps in [0.0, -1.0, f64::NAN] {
            assert_eq!(interval(rate_pps, 1).whole_ns, u64::MAX);
        }
    }
}

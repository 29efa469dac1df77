//! Classes with curves: tc-hfsc(8), for rates that are other ones in the beginning of a burst than
//! in the long run.
//!
//! This module never talks to the kernel.

use netlink_packet_route::tc::{TcAttribute, TcOption};
use rtnetlink::packet_core::DefaultNla;

use super::{TCA_OPTIONS, words};

/// The kernel's name of it.
pub(super) const KIND: &str = "hfsc";

/// Of linux/pkt_sched.h.
const TCA_HFSC_RSC: u16 = 1;
const TCA_HFSC_FSC: u16 = 2;
const TCA_HFSC_USC: u16 = 3;

/// How much a class may have sent at a time after it had nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curve {
    /// The rate in the beginning, bits per second; at most 34 Gbit/s count, as for the other one.
    pub first_bps: u64,
    /// How long that lasts, µs; 0: there is no such beginning.
    pub first_us: u32,
    /// The rate from then on, bits per second.
    pub second_bps: u64,
}

/// The curves of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curves {
    /// What it gets in any case. Classes with others below them have none.
    pub realtime: Option<Curve>,
    /// Its part of what is left.
    pub linkshare: Curve,
    /// What it gets at most.
    pub upperlimit: Option<Curve>,
}

impl Curve {
    /// One that has a rate from the beginning.
    #[must_use]
    pub const fn straight(rate_bps: u64) -> Self {
        Self { first_bps: 0, first_us: 0, second_bps: rate_bps }
    }

    /// `struct tc_service_curve`: bytes per second, µs, bytes per second.
    fn to_bytes(self) -> Vec<u8> {
        let bytes = |rate_bps: u64| u32::try_from(rate_bps / 8).unwrap_or(u32::MAX);
        let first = if self.first_us == 0 { 0 } else { bytes(self.first_bps) };
        words(&[first, self.first_us, bytes(self.second_bps)])
    }
}

impl Curves {
    /// Whether one of them has a beginning, which a class of a token bucket cannot have.
    #[must_use]
    pub fn are_bent(&self) -> bool {
        let all = [self.realtime, Some(self.linkshare), self.upperlimit];
        all.into_iter().flatten().any(|curve| curve.first_us > 0)
    }

    /// What is said of a class.
    pub(super) fn options(&self) -> Vec<TcOption> {
        let curves = [
            (TCA_HFSC_RSC, self.realtime),
            (TCA_HFSC_FSC, Some(self.linkshare)),
            (TCA_HFSC_USC, self.upperlimit),
        ];
        let option =
            |(kind, curve): (u16, Option<Curve>)| Some(DefaultNla::new(kind, curve?.to_bytes()));
        curves.into_iter().filter_map(option).map(TcOption::Other).collect()
    }
}

/// `struct tc_hfsc_qopt`.
pub(super) fn tree_options(default: u16) -> TcAttribute {
    TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, default.to_ne_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_in_bytes_and_microseconds() {
        let bent = Curve { first_bps: 8_000_000, first_us: 10_000, second_bps: 80_000 };
        assert_eq!(bent.to_bytes(), words(&[1_000_000, 10_000, 10_000]));
        // As tc has it: a rate alone is the second one.
        assert_eq!(Curve::straight(80_000).to_bytes(), words(&[0, 0, 10_000]));
        let endless = Curve { first_bps: 1, first_us: 0, second_bps: u64::MAX };
        assert_eq!(endless.to_bytes(), words(&[0, 0, u32::MAX]));
        let straight = Curve::straight(1);
        let mut curves = Curves { realtime: None, linkshare: straight, upperlimit: Some(straight) };
        assert!(!curves.are_bent());
        assert_eq!(curves.options().len(), 2);
        curves.realtime = Some(bent);
        assert!(curves.are_bent());
    }
}

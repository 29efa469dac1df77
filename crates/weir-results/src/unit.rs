//! What a figure counts, and how it is written.
//!
//! More is better in every unit. Figures of different units are never compared and never drawn
//! along one axis. It decides nothing about figures.

use serde::{Deserialize, Serialize};

use crate::number::{self, Scale};

/// What a figure counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Packets per second.
    #[default]
    Pps,
    /// Bits per second.
    Bps,
    /// Connections per second that came through all of their steps.
    Cps,
    /// Connections that came through and stay open, all at the same time.
    Connections,
    /// Requests per second that got a whole, good answer.
    Rps,
}

impl Unit {
    /// As it is written behind a number.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pps => "pps",
            Self::Bps => "bps",
            Self::Cps => "conn/s",
            Self::Connections => "conn",
            Self::Rps => "req/s",
        }
    }

    /// In words, as it begins a title: `Packets per second`.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Pps => "Packets per second",
            Self::Bps => "Bits per second",
            Self::Cps => "Connections per second",
            Self::Connections => "Connections that came through",
            Self::Rps => "Requests answered per second",
        }
    }

    /// Whether it counts packets or their bits, which have a frame size.
    #[must_use]
    pub const fn is_of_packets(self) -> bool {
        matches!(self, Self::Pps | Self::Bps)
    }

    /// What is sent, lost and delivered: `packets`.
    #[must_use]
    pub const fn things(self) -> &'static str {
        match self {
            Self::Pps | Self::Bps => "packets",
            Self::Cps | Self::Connections => "connections",
            Self::Rps => "requests",
        }
    }

    /// The same at the head of a column.
    #[must_use]
    pub(crate) const fn things_title(self) -> &'static str {
        match self {
            Self::Pps | Self::Bps => "Packets",
            Self::Cps | Self::Connections => "Connections",
            Self::Rps => "Requests",
        }
    }

    /// What those have in common that a figure counts: `Delivered`.
    #[must_use]
    pub(crate) const fn done(self) -> &'static str {
        match self {
            Self::Pps | Self::Bps => "Delivered",
            Self::Cps => "Completed",
            Self::Connections => "Came through",
            Self::Rps => "Answered",
        }
    }

    /// What a DUT does with them: `forwards`. That it holds connections is for the DUT to say.
    #[must_use]
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Pps | Self::Bps => "forwards",
            Self::Cps | Self::Rps => "carries",
            Self::Connections => "lets through",
        }
    }

    /// What its samples count: how fast connections are opened that are held.
    #[must_use]
    pub const fn of_samples(self) -> Self {
        match self {
            Self::Connections => Self::Cps,
            unit => unit,
        }
    }

    /// What a figure of that size is written in.
    #[must_use]
    pub(crate) fn scale(self, value: f64) -> Scale {
        match self {
            Self::Pps => Scale::pps(value),
            Self::Bps => Scale::bps(value),
            Self::Cps => Scale::cps(value),
            Self::Connections => Scale::connections(value),
            Self::Rps => Scale::rps(value),
        }
    }

    /// A figure with its unit: `366.3 kpps`.
    #[must_use]
    pub fn written(self, value: f64) -> String {
        number::in_scale(value, self.scale(value))
    }

    /// Two figures, the lower first.
    #[must_use]
    pub fn range(self, low: f64, high: f64) -> String {
        number::range((low, self.scale(low)), (high, self.scale(high)))
    }
}

/// Whether files leave a unit out: there was no other when the first of them were written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
pub(crate) fn is_pps(unit: &Unit) -> bool {
    *unit == Unit::Pps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_in_the_unit_that_suits_them() {
        assert_eq!(Unit::Pps.written(870_000.0), number::pps(870_000.0));
        assert_eq!(Unit::Pps.range(1_201_000.0, 1_234_000.0), "1.201–1.234 Mpps");
        assert_eq!(Unit::Pps.range(98_210.0, 101_200.0), "98.21 kpps–0.1012 Mpps");
        assert_eq!(Unit::Pps.range(0.0, 0.0), "0 pps");
        assert_eq!(Unit::Bps.range(48e3, 480e6), "48.00 kbit/s–480.0 Mbit/s");
        assert_eq!(Unit::Cps.written(52_340.0), "52.34 kconn/s");
        assert_eq!(Unit::Cps.range(52_340.0, 52_340.0), "52.34 kconn/s");
        assert_eq!(Unit::Connections.written(2e6), "2.000 Mconn");
        assert_eq!(Unit::Connections.written(12.0), "12.00 conn");
        assert_eq!(Unit::Rps.written(52_340.0), "52.34 kreq/s");
    }

    #[test]
    fn files_name_units_as_they_did_before_there_were_connections() {
        let names = [Unit::Pps, Unit::Bps, Unit::Cps, Unit::Connections, Unit::Rps];
        let names = names.map(|unit| serde_json::to_string(&unit).expect("writable"));
        assert_eq!(names, ["\"pps\"", "\"bps\"", "\"cps\"", "\"connections\"", "\"rps\""]);
    }
}

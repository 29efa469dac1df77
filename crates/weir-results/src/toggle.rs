//! Two settings of one live DUT, taken in turns: what was counted.
//!
//! A trial of a DUT with a toggle measures *windows*: the setting is switched, the DUT settles, and
//! CPU time and packets are counted for a while, with the traffic running all the time. Two windows
//! that follow each other are a pair: `on` and `off` in random order, or, as a control, `off` and
//! `off` after the same command has run again. The control shows what the method itself finds
//! where nothing differs. The windows are the record; what is derived from them is the summary's.

use serde::{Deserialize, Serialize};

/// The two settings of a DUT: lines for a shell in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toggle {
    /// What is tried.
    pub on: String,
    /// What it is compared with.
    pub off: String,
}

/// What a window is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// With `on`, of a pair with [`Role::Off`].
    On,
    /// With `off`, of a pair with [`Role::On`].
    Off,
    /// With `off`, in the place that `on` has in other pairs.
    ControlOn,
    /// With `off`, in the place that `off` has in other pairs.
    ControlOff,
}

impl Role {
    /// Whether `on` applies in it.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// A window: what was counted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Number of its pair in the trial, from 0.
    pub pair: u32,
    /// What it is of.
    pub role: Role,
    /// When it began, from the first window's beginning.
    pub t_ns: u64,
    /// How long it was.
    pub elapsed_ns: u64,
    /// CPU time of the DUT.
    pub run_ns: u64,
    /// Packets that the DUT received.
    pub received_packets: u64,
    /// Packets that arrived at the sink.
    pub delivered_packets: u64,
}

impl Window {
    /// CPU time per packet; `None` if none was received.
    #[must_use]
    pub fn cost_ns(&self) -> Option<f64> {
        ratio(self.run_ns, self.received_packets)
    }

    /// Packets per second at the sink.
    #[must_use]
    pub fn rate_pps(&self) -> Option<f64> {
        ratio(self.delivered_packets, self.elapsed_ns).map(|per_ns| per_ns * 1e9)
    }
}

#[expect(clippy::cast_precision_loss, reason = "times and packets of a window are below 2^53")]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (part > 0 && whole > 0).then(|| part as f64 / whole as f64)
}

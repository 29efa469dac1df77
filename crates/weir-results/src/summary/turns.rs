//! What the windows of a DUT with a toggle come to: `on` against `off`, and the control.

use serde::{Deserialize, Serialize};
use weir_stats::Level;
use weir_stats::paired::PairedRatio;

use super::Spread;
use crate::number;
use crate::record::{TrialRecord, VerdictKind};
use crate::toggle::{Role, Toggle, Window};

/// A ratio of pairs in words that carry their unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Pairs that it rests on.
    pub pairs: usize,
    /// `on` against `off`, in per cent of `off`.
    pub difference_percent: f64,
    /// Lower end of its interval, at the level at which all of this kind hold together.
    pub low_percent: f64,
    /// Upper end of its interval.
    pub high_percent: f64,
    /// Two-sided p-value, alone.
    pub p_value: f64,
}

impl Change {
    fn of(pairs: &[(f64, f64)], family_size: usize) -> Option<Self> {
        let found = PairedRatio::of(pairs, Level::P95, family_size)?;
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        Some(Self {
            pairs: found.count,
            difference_percent: percent(found.ratio),
            low_percent: percent(found.interval.low),
            high_percent: percent(found.interval.high),
            p_value: found.p_value,
        })
    }

    /// Whether the interval leaves out "no difference".
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.low_percent > 0.0 || self.high_percent < 0.0
    }

    /// `−30.4 % [−31.4, −29.4]`.
    #[must_use]
    pub fn text(&self) -> String {
        let decimals = number::decimals_for((self.high_percent - self.low_percent) / 2.0).min(2);
        let signed = |value: f64| {
            let text = number::signed(value, decimals);
            if value > 0.0 { format!("+{text}") } else { text }
        };
        let (low, high) = (signed(self.low_percent), signed(self.high_percent));
        format!("{} % [{low}, {high}]", signed(self.difference_percent))
    }
}

/// What the windows of a series come to, over all iterations that are not invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToggleSummary {
    /// The settings.
    pub toggle: Toggle,
    /// Iterations with windows that count; disturbed ones do.
    pub iterations: usize,
    /// Median CPU time per packet with `on`.
    pub on_ns: Option<f64>,
    /// Median CPU time per packet with `off`.
    pub off_ns: Option<f64>,
    /// The part of it that is the sink's work on the DUT's CPUs: the median over the iterations, of
    /// both settings together; absent where the sink is elsewhere.
    pub apparatus_ratio: Option<f64>,
    /// The CPU time per packet, `on` against `off`; absent for too few pairs.
    pub cost: Option<Change>,
    /// The same of the control: what is found where nothing differs.
    pub control: Option<Change>,
    /// The rate at the sink, `on` against `off`.
    pub rate: Option<Change>,
    /// `cheaper`, `dearer`, `undecided`, or `control-failed`: what the control finds where nothing
    /// differs is proven, and as large as what is asked.
    pub word: String,
}

impl ToggleSummary {
    /// Over the trials of a series; `None` unless they have windows. The intervals hold for
    /// `family_size` series together.
    #[must_use]
    pub(crate) fn of(records: &[&TrialRecord], family_size: usize) -> Option<Self> {
        let toggle = records.first()?.dut.as_ref()?.toggle.clone()?;
        let counted = records.iter().filter(|r| !r.windows.is_empty());
        let counted: Vec<&TrialRecord> =
            counted.filter(|r| r.verdict.kind != VerdictKind::Invalid).copied().collect();
        let values = |role: Role| -> Vec<f64> {
            let windows = counted.iter().flat_map(|r| &r.windows);
            windows.filter(|w| w.role == role).filter_map(Window::cost_ns).collect()
        };
        let median = |role| Spread::of(&values(role)).map(|spread| spread.median);
        let apparatus: Vec<f64> = counted.iter().filter_map(|r| r.cost?.apparatus_ratio).collect();
        let change = |roles, of: fn(&Window) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> =
                counted.iter().flat_map(|r| pairs(&r.windows, roles, of)).collect();
            Change::of(&pairs, family_size)
        };
        let cost = change((Role::Off, Role::On), Window::cost_ns);
        let control = change((Role::ControlOff, Role::ControlOn), Window::cost_ns);
        Some(Self {
            toggle,
            iterations: counted.len(),
            on_ns: median(Role::On),
            off_ns: median(Role::Off),
            apparatus_ratio: Spread::of(&apparatus).map(|spread| spread.median),
            rate: change((Role::Off, Role::On), Window::rate_pps),
            word: word(cost.as_ref(), control.as_ref()).to_owned(),
            cost,
            control,
        })
    }
}

fn word(cost: Option<&Change>, control: Option<&Change>) -> &'static str {
    let Some(cost) = cost.filter(|cost| cost.is_proven()) else {
        return "undecided";
    };
    let control = control.filter(|control| control.is_proven());
    if control.is_some_and(|c| c.difference_percent.abs() >= cost.difference_percent.abs()) {
        return "control-failed";
    }
    if cost.difference_percent < 0.0 { "cheaper" } else { "dearer" }
}

/// The values of both windows of each pair of these roles, the first role's first.
fn pairs(
    windows: &[Window],
    (first, second): (Role, Role),
    of: fn(&Window) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let value = |pair: u32, role: Role| {
        let window = windows.iter().find(|w| w.pair == pair && w.role == role)?;
        of(window)
    };
    let numbers = windows.iter().filter(|w| w.role == first).map(|w| w.pair);
    numbers.filter_map(|pair| Some((value(pair, first)?, value(pair, second)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::fixture;

    fn window(pair: u32, role: Role, cost_ns: u64) -> Window {
        let received_packets = 100_000;
        Window {
            pair,
            role,
            t_ns: 0,
            elapsed_ns: 500_000_000,
            run_ns: cost_ns * received_packets,
            received_packets,
            delivered_packets: 100_000_000 / cost_ns,
        }
    }

    /// Two pairs and a control, six times.
    fn windows(on_ns: u64, off_ns: u64, control_ns: u64) -> Vec<Window> {
        let mut all = Vec::new();
        for round in 0..6 {
            let wobble = u64::from(round % 3);
            for pair in [round * 3, round * 3 + 1] {
                all.push(window(pair, Role::On, on_ns + wobble));
                all.push(window(pair, Role::Off, off_ns + 2 - wobble));
            }
            all.push(window(round * 3 + 2, Role::ControlOff, off_ns + wobble));
            all.push(window(round * 3 + 2, Role::ControlOn, control_ns + 2 - wobble));
        }
        all
    }

    fn summary(windows: Vec<Window>) -> ToggleSummary {
        let mut data = fixture::usual();
        let record = &mut data.cells[0].0;
        record.windows = windows;
        let toggle = Toggle { on: "on".into(), off: "off".into() };
        record.dut.as_mut().unwrap().toggle = Some(toggle);
        ToggleSummary::of(&[&data.cells[0].0], 1).unwrap()
    }

    #[test]
    fn pairs_give_the_change_and_the_control_none() {
        let found = summary(windows(700, 1_000, 1_000));
        assert_eq!((found.word.as_str(), found.on_ns), ("cheaper", Some(701.0)));
        let (cost, control) = (found.cost.unwrap(), found.control.unwrap());
        assert_eq!((cost.pairs, control.pairs), (12, 6));
        assert!((cost.difference_percent + 30.0).abs() < 0.1 && !control.is_proven());
        assert!(found.rate.unwrap().difference_percent > 40.0);
        let text = cost.text();
        assert!(text.starts_with('−') && text.ends_with(']'), "{text}");
        assert_eq!(summary(windows(1_300, 1_000, 1_000)).word, "dearer");
        assert_eq!(summary(windows(1_000, 1_000, 1_000)).word, "undecided");
        // What the method finds where nothing differs takes the proof out of what it finds.
        assert_eq!(summary(windows(950, 1_000, 900)).word, "control-failed");
        let few = summary(windows(700, 1_000, 1_000).into_iter().take(4).collect());
        assert!(few.cost.is_none() && few.word == "undecided");
    }

    #[test]
    fn a_window_without_packets_breaks_its_pair_alone() {
        let mut list = windows(700, 1_000, 1_000);
        list[0].received_packets = 0;
        assert_eq!(summary(list).cost.unwrap().pairs, 11);
    }
}

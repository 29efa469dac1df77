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

impl From<PairedRatio> for Change {
    fn from(found: PairedRatio) -> Self {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        Self {
            pairs: found.count,
            difference_percent: percent(found.ratio),
            low_percent: percent(found.interval.low),
            high_percent: percent(found.interval.high),
            p_value: found.p_value,
        }
    }
}

impl Change {
    fn of(pairs: &[(f64, f64)], family_size: usize) -> Option<Self> {
        PairedRatio::of(pairs, Level::P95, family_size).map(Self::from)
    }

    /// Whether the interval leaves out "no difference".
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.low_percent > 0.0 || self.high_percent < 0.0
    }

    /// Whether this control finds a difference where nothing differs, as large as what is claimed.
    pub(crate) fn refutes(&self, claimed: &Self) -> bool {
        self.is_proven() && self.difference_percent.abs() >= claimed.difference_percent.abs()
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
    /// CPU time per packet with `on`: the geometric mean over the pairs, so that its ratio to that
    /// with `off` is that of the difference; absent for too few pairs.
    pub on_ns: Option<f64>,
    /// The same with `off`.
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
        let counted: Vec<&TrialRecord> = counted(records).collect();
        let costs_ns = cost_pairs_ns(records);
        let apparatus: Vec<f64> = counted.iter().filter_map(|r| r.cost?.apparatus_ratio).collect();
        let change = |roles, of: fn(&Window) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> =
                counted.iter().flat_map(|r| pairs(&r.windows, roles, of)).collect();
            Change::of(&pairs, family_size)
        };
        let cost = Change::of(&costs_ns, family_size);
        let mean = |of: fn(&(f64, f64)) -> f64| {
            geometric_mean(costs_ns.iter().map(of)).filter(|_| cost.is_some())
        };
        let control = change((Role::ControlOff, Role::ControlOn), Window::cost_ns);
        Some(Self {
            toggle,
            iterations: counted.len(),
            on_ns: mean(|(_, on_ns)| *on_ns),
            off_ns: mean(|(off_ns, _)| *off_ns),
            apparatus_ratio: Spread::of(&apparatus).map(|spread| spread.median),
            rate: change((Role::Off, Role::On), Window::rate_pps),
            word: word(cost.as_ref(), control.as_ref()).to_owned(),
            cost,
            control,
        })
    }
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    Spread::of(&logarithms).map(|spread| spread.mean.exp())
}

/// The trials whose windows count.
fn counted<'a>(records: &[&'a TrialRecord]) -> impl Iterator<Item = &'a TrialRecord> {
    let counts = |r: &&TrialRecord| !r.windows.is_empty() && r.verdict.kind != VerdictKind::Invalid;
    records.iter().copied().filter(counts)
}

/// CPU time per packet of every pair that counts, in nanoseconds: with `off`, with `on`.
fn cost_pairs_ns(records: &[&TrialRecord]) -> Vec<(f64, f64)> {
    let of_record = |r: &'_ TrialRecord| pairs(&r.windows, (Role::Off, Role::On), Window::cost_ns);
    counted(records).flat_map(of_record).collect()
}

/// The same, one pair for each iteration that nothing disturbed: the geometric means of its
/// windows. What differs from one start of a DUT to the next is between them, and what disturbs a
/// trial makes both settings dearer and changes their ratio: neither may be taken for a difference
/// between stores.
pub(crate) fn iteration_pairs_ns(records: &[&TrialRecord], roles: (Role, Role)) -> Vec<(f64, f64)> {
    let undisturbed = counted(records).filter(|record| !record.verdict.kind.is_void());
    let of_record = |record: &TrialRecord| {
        let pairs = pairs(&record.windows, roles, Window::cost_ns);
        let first = geometric_mean(pairs.iter().map(|(first, _)| *first));
        first.zip(geometric_mean(pairs.iter().map(|(_, second)| *second)))
    };
    undisturbed.filter_map(of_record).collect()
}

fn word(cost: Option<&Change>, control: Option<&Change>) -> &'static str {
    let Some(cost) = cost.filter(|cost| cost.is_proven()) else {
        return "undecided";
    };
    if control.is_some_and(|control| control.refutes(cost)) {
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
        assert_eq!(found.word, "cheaper");
        let (on_ns, off_ns) = found.on_ns.zip(found.off_ns).expect("pairs");
        assert!((on_ns - 701.0).abs() < 0.01 && (off_ns - 1_001.0).abs() < 0.01);
        // Whoever divides the two gets the difference.
        let percent = found.cost.unwrap().difference_percent;
        assert!(((on_ns / off_ns - 1.0) * 100.0 - percent).abs() < 1e-9, "{percent}");
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

//! Series whose DUTs have a toggle: whether `on` changes the CPU time per packet as much in one
//! store as in the other.
//!
//! Each store has the ratio of its settings from pairs of windows, in which whatever drifts
//! cancels. Two such ratios are held against each other as a ratio of ratios, with one ratio for
//! each iteration that nothing disturbed. The controls are held against each other alike: what they
//! differ by is taken off. The figures of these series are those of `off` alone, and are not
//! compared beside it.

use weir_stats::paired::{PAIRS_MIN, PairedRatio};

use super::{Asked, HostChange, Report, host, matching};
use crate::collection::CollectedToggle;
use crate::document::{Block, Cell, Column, Line, Row, Table, prose};
use crate::number;
use crate::proof::at_least;
use crate::summary::turns::Change;

/// A series of the baseline and its partner, each with a toggle.
#[derive(Debug)]
pub struct ToggleMatched<'a> {
    /// Number of the collection that it is compared with, from 1.
    pub other_index: usize,
    /// Name of the baseline's series.
    pub series: &'a str,
    pub baseline: &'a CollectedToggle,
    pub other: &'a CollectedToggle,
    /// `on` against `off` in the other, against the same in the baseline; absent for too few
    /// iterations.
    pub change: Option<Change>,
    /// What that proves.
    pub claim: ToggleClaim,
    /// Whether a rise beyond what is allowed is proven.
    pub regressed: bool,
}

/// What may be said of two toggles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ToggleClaim {
    /// `on` costs less against `off` in the other than in the baseline, by at least this share.
    Cheaper(f64),
    /// It costs more.
    Dearer(f64),
    /// No difference is proven.
    Undecided,
    /// Nothing: the controls, where nothing differs, differ between the two sides by as much.
    ControlFailed,
    /// Nothing: the two sides are from hosts that were not equally fast.
    HostDiffers,
    /// Nothing: a side has too few iterations that nothing disturbed.
    TooFew,
}

impl ToggleClaim {
    /// The word alone, in data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cheaper(_) => "cheaper",
            Self::Dearer(_) => "dearer",
            Self::Undecided => "undecided",
            Self::ControlFailed => "control-failed",
            Self::HostDiffers => "host-differs",
            Self::TooFew => "none",
        }
    }

    /// Whether the intervals decide, and nothing that stands in their way.
    const fn is_tested(self) -> bool {
        matches!(self, Self::Cheaper(_) | Self::Dearer(_) | Self::Undecided)
    }

    /// In a table.
    fn words(self) -> String {
        let by = |ratio: f64| match ratio {
            0.0 => String::new(),
            ratio => format!(" by at least {:.2} %", ratio * 100.0),
        };
        match self {
            Self::Cheaper(ratio) => format!("cheaper{}", by(ratio)),
            Self::Dearer(ratio) => format!("dearer{}", by(ratio)),
            Self::Undecided => "no difference proven".to_owned(),
            Self::ControlFailed => {
                "not judged (the controls differ by as much, and should not)".to_owned()
            }
            Self::HostDiffers => "not compared (the host differs)".to_owned(),
            Self::TooFew => format!(
                "not comparable: it takes {PAIRS_MIN} iterations on each side that nothing \
                 disturbed"
            ),
        }
    }
}

/// The toggles of a pair, where both series have one.
pub(super) fn both<'a>(
    pair: &matching::Pair<'a>,
) -> Option<(&'a CollectedToggle, &'a CollectedToggle)> {
    pair.baseline.toggle.as_ref().zip(pair.other.toggle.as_ref())
}

/// The comparisons of all pairs with toggles, which are read together.
pub(super) fn of<'a>(
    pairs: &[matching::Pair<'a>],
    asked: &Asked,
    hosts: &[HostChange],
) -> Vec<ToggleMatched<'a>> {
    let matched = |pair: &matching::Pair<'a>| {
        let (baseline, other) = both(pair)?;
        let between = |of: fn(&CollectedToggle) -> &[(f64, f64)]| {
            let found = PairedRatio::between(of(baseline), of(other), asked.level, pairs.len());
            found.map(Change::from)
        };
        let change = between(|side| &side.iterations_ns);
        let claim = match host::differs(hosts, pair.other_index) {
            true => ToggleClaim::HostDiffers,
            false => claim(change.as_ref(), between(|side| &side.controls_ns).as_ref()),
        };
        let is_beyond = |rise: f64| asked.cost_ratio.is_some_and(|allowed| rise > allowed);
        Some(ToggleMatched {
            other_index: pair.other_index,
            series: &pair.baseline.name,
            baseline,
            other,
            change,
            claim,
            regressed: matches!(claim, ToggleClaim::Dearer(rise) if is_beyond(rise)),
        })
    };
    pairs.iter().filter_map(matched).collect()
}

fn claim(change: Option<&Change>, control: Option<&Change>) -> ToggleClaim {
    let Some(change) = change else { return ToggleClaim::TooFew };
    if !change.is_proven() {
        return ToggleClaim::Undecided;
    }
    // What the method finds where nothing differs.
    let bias = control.filter(|control| control.is_proven());
    let bias = bias.map_or(0.0, |control| control.difference_percent.abs());
    let proven =
        if change.difference_percent < 0.0 { -change.high_percent } else { change.low_percent };
    if proven <= bias {
        return ToggleClaim::ControlFailed;
    }
    let ratio = at_least((proven - bias) / 100.0);
    if change.difference_percent < 0.0 {
        ToggleClaim::Cheaper(ratio)
    } else {
        ToggleClaim::Dearer(ratio)
    }
}

/// How many there are, and of what words: `2 comparisons of two settings: 1 cheaper, 1 undecided`.
pub(super) fn answer(report: &Report<'_>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for matched in &report.toggled {
        let name = match matched.claim {
            ToggleClaim::TooFew => "not comparable",
            ToggleClaim::ControlFailed => "not judged, as the controls differ",
            ToggleClaim::HostDiffers => "not compared, as the host differs",
            claim => claim.name(),
        };
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let counts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let comparisons = number::counted_len(report.toggled.len(), "comparison");
    format!("{comparisons} of two settings: {}", counts.join(", "))
}

/// How many have iterations that count in the baseline, and none in the other.
pub(super) fn lacks(report: &Report<'_>) -> usize {
    let is_void = |matched: &&ToggleMatched<'_>| {
        matched.other.iterations_ns.is_empty() && !matched.baseline.iterations_ns.is_empty()
    };
    report.toggled.iter().filter(is_void).count()
}

/// How many could not be tested.
pub(super) fn untested(report: &Report<'_>) -> usize {
    report.toggled.iter().filter(|matched| !matched.claim.is_tested()).count()
}

/// The names of the two stores.
fn names<'r>(report: &'r Report<'_>, matched: &ToggleMatched<'_>) -> (&'r str, &'r str) {
    (&report.collections[0].name, &report.collections[matched.other_index].name)
}

/// One comparison in a sentence.
pub(super) fn sentence(report: &Report<'_>, matched: &ToggleMatched<'_>) -> Line {
    let (before, after) = names(report, matched);
    let side = |toggle: &CollectedToggle| match &toggle.summary.cost {
        Some(cost) => format!("{} ({})", cost.text(), number::counted_len(cost.pairs, "pair")),
        None => "not known (too few pairs)".to_owned(),
    };
    let line = Line::new().strong(matched.series).prose(&format!(
        ": the CPU time per packet with `on` against `off` is {} in {before} and {} in {after}",
        side(matched.baseline),
        side(matched.other)
    ));
    let line = match &matched.change {
        Some(change) => line.text(format!("; from the one to the other, {}: ", change.text())),
        None => line.text(": "),
    };
    let words = match matched.claim {
        ToggleClaim::Cheaper(_) | ToggleClaim::Dearer(_) => {
            format!("`on` is {} in {after}", matched.claim.words())
        }
        ToggleClaim::Undecided => "no difference is proven".to_owned(),
        claim => claim.words(),
    };
    line.strong(prose(&words)).text(".")
}

/// What stands under the table.
const NOTE: &str = "CPU time per packet with `on` against `off` of one live DUT in each store, \
    over all its pairs with an interval of its own, and the one of these ratios against the other. \
    The difference rests on one ratio for each iteration that nothing disturbed; Welch's \
    intervals, on the logarithms of these, hold for all of this table together. What a packet \
    costs with `off`, and the rate, may differ between the stores; that is not judged here.";

/// The section of the report.
pub(super) fn blocks(report: &Report<'_>) -> Vec<Block> {
    if report.toggled.is_empty() {
        return Vec::new();
    }
    let several = report.collections.len() > 2;
    let against = several.then(|| Column::words("Against"));
    let columns = [Column::words("Series")].into_iter().chain(against).chain([
        Column::numbers("Baseline").unit("on against off"),
        Column::numbers("Other").unit("on against off"),
        Column::numbers("Difference").unit("of the ratios"),
        Column::words("Verdict"),
    ]);
    let change = |change: Option<&Change>| {
        let text = Cell::from(number::or_dash(change.map(Change::text)));
        text.sorted(change.map(|c| c.difference_percent))
    };
    let side = |toggle: &CollectedToggle| {
        let cost = toggle.summary.cost.as_ref();
        let pairs = cost.map_or(0, |cost| cost.pairs);
        change(cost).under(number::counted_len(pairs, "pair"))
    };
    let row = |matched: &ToggleMatched<'_>| -> Row {
        let (before, after) = names(report, matched);
        let words = matched.claim.words();
        let verdict = match matched.regressed {
            true => Cell::from(Line::new().strong(words)).style("regressed"),
            false => words.into(),
        };
        let against = several.then(|| Cell::from(after));
        let cells = [Cell::from(matched.series)].into_iter().chain(against).chain([
            side(matched.baseline),
            side(matched.other),
            change(matched.change.as_ref()),
            verdict,
        ]);
        Row {
            cells: cells.collect(),
            because: settings(matched, (before, after)),
            ..Row::default()
        }
    };
    let rows = report.toggled.iter().map(row);
    let table = Table::new(columns.collect(), rows).style("compared");
    vec![table.into(), Block::note(prose(NOTE))]
}

/// The lines of the settings, once where both sides have the same.
fn settings(matched: &ToggleMatched<'_>, (before, after): (&str, &str)) -> Vec<Line> {
    let line = |toggle: &CollectedToggle, start: String| {
        let toggle = &toggle.summary.toggle;
        let line = Line::new().text(start).text("on: ").code(&toggle.on);
        line.text(", off: ").code(&toggle.off)
    };
    if matched.baseline.summary.toggle == matched.other.summary.toggle {
        return vec![line(matched.baseline, String::new())];
    }
    vec![line(matched.baseline, format!("{before}: ")), line(matched.other, format!("{after}: "))]
}

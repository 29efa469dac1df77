//! The ordered list that is searched, and the one series of each of its entries.

use globset::GlobBuilder;

use crate::collection::{DUT, IMAGE};
use crate::matrix::Series;

/// The most names that a message lists.
const SHOWN_MAX: usize = 8;

/// The candidates, from the good one to the bad one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// What they are: [`DUT`], [`IMAGE`], or the name of a sweep.
    pub dimension: String,
    /// Two or more.
    pub entries: Vec<Entry>,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the dimension.
    pub name: String,
    /// Its series: index into the series of the specification.
    pub series_index: usize,
}

/// Why a specification gives no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A name that nothing has.
    #[error("--{option} `{name}` is neither a DUT nor the value of a sweep; there are: {known}")]
    Unknown {
        /// `good` or `bad`.
        option: &'static str,
        /// As it was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// The two are of different kinds.
    #[error(
        "--good `{good}` and --bad `{bad}` are not in the same list: both must be DUTs, or values \
         of the same sweep; there are: {known}"
    )]
    Apart {
        /// As it was given.
        good: String,
        /// As it was given.
        bad: String,
        /// What there is.
        known: String,
    },
    /// Several lists hold both.
    #[error(
        "--good `{good}` and --bad `{bad}` are in more than one list ({dimensions}): write \
         `--good {first}={good} --bad {first}={bad}`"
    )]
    Ambiguous {
        /// As it was given.
        good: String,
        /// As it was given.
        bad: String,
        /// Which lists.
        dimensions: String,
        /// One of them.
        first: String,
    },
    /// Nothing lies between a name and itself.
    #[error("--good and --bad are both `{name}`: they must differ")]
    Same { name: String },
    /// The metric is no pattern.
    #[error("--metric `{metric}` is not a pattern: {cause}")]
    Pattern {
        /// As it was given.
        metric: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A candidate has no series of the metric.
    #[error("--metric `{metric}` leaves no series of `{candidate}`, which has: {series}")]
    None {
        /// As it was given.
        metric: String,
        candidate: String,
        /// Its series, without its own name.
        series: String,
    },
    /// A candidate has several.
    #[error(
        "each candidate must have exactly one series, and `{candidate}` has {count}: choose one \
         with --metric: {series}"
    )]
    Several {
        candidate: String,
        /// How many.
        count: usize,
        /// Those, without its own name.
        series: String,
    },
}

/// A dimension of the matrix and its values, in the order of the specification.
struct Dimension {
    name: String,
    values: Vec<String>,
}

impl Dimension {
    /// The place of a value, given as `VALUE` or `DIMENSION=VALUE`.
    fn position(&self, given: &str) -> Option<usize> {
        let named_value = given.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('='));
        let place = |value: &str| self.values.iter().position(|v| v == value);
        place(given).or_else(|| named_value.and_then(place))
    }
}

impl List {
    /// The list between two names, in the order of the specification or against it.
    ///
    /// # Errors
    /// When a name is unknown or ambiguous, or the metric leaves not one series of each.
    pub fn of(
        series: &[Series],
        good: &str,
        bad: &str,
        metric: Option<&str>,
    ) -> Result<Self, ListError> {
        let dimensions = dimensions(series);
        let known = || known(&dimensions);
        for (option, name) in [("good", good), ("bad", bad)] {
            if dimensions.iter().all(|d| d.position(name).is_none()) {
                return Err(ListError::Unknown { option, name: name.to_owned(), known: known() });
            }
        }
        let places = |d| Some((d, Dimension::position(d, good)?, Dimension::position(d, bad)?));
        let found: Vec<_> = dimensions.iter().filter_map(places).collect();
        let (good, bad) = (good.to_owned(), bad.to_owned());
        let (dimension, first, last) = match found[..] {
            [] => return Err(ListError::Apart { good, bad, known: known() }),
            [one] => one,
            [(first, ..), ..] => {
                let names: Vec<&str> = found.iter().map(|(d, ..)| d.name.as_str()).collect();
                let (dimensions, first) = (names.join(", "), first.name.clone());
                return Err(ListError::Ambiguous { good, bad, dimensions, first });
            }
        };
        let mut names: Vec<&String> =
            dimension.values[first.min(last)..=first.max(last)].iter().collect();
        if first > last {
            names.reverse();
        }
        if names.len() < 2 {
            return Err(ListError::Same { name: names[0].clone() });
        }
        let metric = Metric::new(series, &dimension.name, metric)?;
        let entries = names.into_iter().map(|name| metric.entry(series, &dimension.name, name));
        Ok(Self { dimension: dimension.name.clone(), entries: entries.collect::<Result<_, _>>()? })
    }
}

fn dimensions(series: &[Series]) -> Vec<Dimension> {
    let mut dimensions: Vec<Dimension> = Vec::new();
    let mut add = |name: &str, value: &str| {
        let at = dimensions.iter().position(|d| d.name == name).unwrap_or_else(|| {
            dimensions.push(Dimension { name: name.to_owned(), values: Vec::new() });
            dimensions.len() - 1
        });
        let values = &mut dimensions[at].values;
        if !values.iter().any(|v| v == value) {
            values.push(value.to_owned());
        }
    };
    for series in series {
        for (name, value) in levels(series) {
            add(name, value);
        }
    }
    dimensions
}

/// A series' place in every dimension that can be a list.
fn levels(series: &Series) -> impl Iterator<Item = (&str, &str)> {
    let image = series.image.iter().map(|image| (IMAGE, image.as_str()));
    let sweep = series.sweep.iter().map(|(name, value)| (name.as_str(), value.label.as_str()));
    image.chain([(DUT, series.dut.name.as_str())]).chain(sweep)
}

fn known(dimensions: &[Dimension]) -> String {
    let list = |d: &Dimension| format!("{} {}", d.name, shown(d.values.iter().cloned()));
    dimensions.iter().map(list).collect::<Vec<_>>().join("; ")
}

/// Some names, and that there are more.
fn shown(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.take(SHOWN_MAX + 1).collect();
    if names.len() > SHOWN_MAX {
        names[SHOWN_MAX] = "…".to_owned();
    }
    names.join(", ")
}

/// The name of a series without its place in one dimension: what its candidates have in common.
fn rest(series: &Series, dimension: &str) -> String {
    // As the plan puts names together: [IMAGE.]DUT[.SWEEP=VALUE…].TRAFFIC
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (name, value) in levels(series) {
        let is_sweep = series.sweep.iter().any(|(sweep, _)| sweep == name);
        parts.push((name, if is_sweep { format!("{name}={value}") } else { value.to_owned() }));
    }
    let length: usize = parts.iter().map(|(_, part)| part.len() + 1).sum();
    let traffic = series.name.get(length..).unwrap_or_default().to_owned();
    let kept = parts.into_iter().filter(|(name, _)| *name != dimension).map(|(_, part)| part);
    kept.chain([traffic]).collect::<Vec<_>>().join(".")
}

/// Which series of a candidate is measured.
enum Metric {
    /// The only one.
    Only,
    /// The one with this rest.
    Rest(String, String),
    /// Those that match.
    Glob(String, globset::GlobMatcher),
}

impl Metric {
    fn new(series: &[Series], dimension: &str, metric: Option<&str>) -> Result<Self, ListError> {
        let Some(metric) = metric else {
            return Ok(Self::Only);
        };
        // The name of one candidate's series stands for that of all.
        if let Some(series) = series.iter().find(|s| s.name == metric) {
            return Ok(Self::Rest(metric.to_owned(), rest(series, dimension)));
        }
        match GlobBuilder::new(metric).literal_separator(true).build() {
            Ok(glob) => Ok(Self::Glob(metric.to_owned(), glob.compile_matcher())),
            Err(error) => Err(ListError::Pattern {
                metric: metric.to_owned(),
                cause: error.kind().to_string(),
            }),
        }
    }

    fn entry(&self, series: &[Series], dimension: &str, name: &str) -> Result<Entry, ListError> {
        let all = series.iter().enumerate();
        let its = all.filter(|(_, s)| levels(s).any(|level| level == (dimension, name)));
        let its: Vec<(usize, String)> = its.map(|(index, s)| (index, rest(s, dimension))).collect();
        let matches = |(index, rest): &&(usize, String)| match self {
            Self::Only => true,
            Self::Rest(_, expected) => rest == expected,
            Self::Glob(_, glob) => glob.is_match(rest) || glob.is_match(&series[*index].name),
        };
        let left: Vec<&(usize, String)> = its.iter().filter(matches).collect();
        let candidate = name.to_owned();
        match (&left[..], self) {
            ([(series_index, _)], _) => Ok(Entry { name: candidate, series_index: *series_index }),
            ([], Self::Rest(metric, _) | Self::Glob(metric, _)) => Err(ListError::None {
                metric: metric.clone(),
                candidate,
                series: shown(its.into_iter().map(|(_, rest)| rest)),
            }),
            _ => Err(ListError::Several {
                candidate,
                count: left.len(),
                series: shown(left.into_iter().map(|(_, rest)| rest.clone())),
            }),
        }
    }
}

//! What is asked of a specification, and of the store that was made for it: a campaign, a bisection
//! or a rate search.
//!
//! A store keeps the question beside the specification, so that whoever goes on with it, or reports
//! what it holds, needs nothing else.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bisect::{self, Bisection};
use crate::campaign::Campaign;
use crate::model::{Plan, SpecSource};
use crate::runner::{RunError, Schedule};
use crate::search::Searches;
use crate::store::{Kind, PlanRecord, Store, StoreError};
use weir_machine::ssh::quote;
use weir_results::bisect::Question;
use weir_results::search::Terms;
use weir_stats::search::goal::Preset;

/// Version of `search.json`.
const SEARCH_SCHEMA: u32 = 2;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// Every cell of the plan.
    Campaign,
    /// The first bad one of a list.
    Bisection(Question),
    /// The rates that are still forwarded.
    Search(Box<Terms>),
}

/// The content of `search.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchFile {
    /// [`SEARCH_SCHEMA`].
    schema: u32,
    /// What is asked for.
    // Stores that were made before have this key.
    #[serde(rename = "wanted")]
    terms: Terms,
}

/// A store that was made for something else.
#[derive(Debug, thiserror::Error)]
pub enum OtherTask {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is of another kind.
    #[error(
        "{root} holds {found}, not {asked}: continue with `weir lab resume {root}`, or choose \
         another directory with --out",
        root = .root.display(),
        found = .found.name(),
        asked = .asked.name()
    )]
    Kind {
        /// The store.
        root: PathBuf,
        /// What it was made for.
        found: Kind,
        /// What is asked now.
        asked: Kind,
    },
    /// It is a bisection of another list, or of other figures.
    #[error(
        "{root} holds another bisection: --good {good} --bad {bad}{metric}; choose another \
         directory with --out",
        root = .root.display()
    )]
    Question {
        /// The store.
        root: PathBuf,
        /// Its good end.
        good: String,
        /// Its bad end.
        bad: String,
        /// Its metric, as the option is written.
        metric: String,
    },
}

impl Task {
    /// What a store was made for.
    ///
    /// # Errors
    /// When the file that says it is damaged.
    pub fn of(store: &Store) -> Result<Self, StoreError> {
        let kind = store.kind();
        let path = store.root().join(kind.file().unwrap_or_default());
        Ok(match kind {
            Kind::Campaign => Self::Campaign,
            Kind::Bisection => Self::Bisection(store.read_json(&path)?),
            Kind::Search => Self::Search(Box::new(store.read_json::<SearchFile>(&path)?.terms)),
        })
    }

    /// The kind of store that it makes.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Campaign => Kind::Campaign,
            Self::Bisection(_) => Kind::Bisection,
            Self::Search(_) => Kind::Search,
        }
    }

    /// Makes a new store for it.
    ///
    /// # Errors
    /// When the directory holds anything already, or cannot be written.
    pub fn create(
        &self,
        root: &Path,
        spec: &SpecSource,
        plan: &PlanRecord,
    ) -> Result<Store, StoreError> {
        Store::create_with(root, spec, plan, |store| self.keep(store))
    }

    /// Puts newer editions of the specification and of the question in place of those in a store.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn replace(
        &self,
        store: &Store,
        spec: &SpecSource,
        plan: &PlanRecord,
    ) -> Result<(), StoreError> {
        store.replace_specification(spec, plan)?;
        self.keep(store)
    }

    fn keep(&self, store: &Store) -> Result<(), StoreError> {
        let name = self.kind().file().unwrap_or_default();
        match self {
            Self::Campaign => Ok(()),
            Self::Bisection(question) => store.write_json(name, question),
            Self::Search(terms) => {
                let file = SearchFile { schema: SEARCH_SCHEMA, terms: terms.as_ref().clone() };
                store.write_json(name, &file)
            }
        }
    }

    /// The command line that asks for it again, into a store of its own.
    #[must_use]
    pub(crate) fn command_line(&self, plan: &PlanRecord) -> String {
        let option = |name: &str, value: &str| format!(" {name} {}", quote(value));
        let percent = |ratio: f64| {
            // Digits beyond these are those of a division by 100.
            let text = format!("{:.6}", ratio * 100.0);
            format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
        };
        let iterations = plan.iterations.map(|count| option("-n", &count.to_string()));
        let only = plan.only.as_ref().map(|only| option("--only", only));
        let (name, options) = match self {
            Self::Campaign => ("run", iterations.into_iter().chain(only).collect()),
            Self::Bisection(question) => {
                let metric = question.metric.iter().map(|metric| option("--metric", metric));
                let mut options = option("--good", &question.good);
                options.push_str(&option("--bad", &question.bad));
                options.extend(metric);
                options.push_str(&format!(" --confidence {}", percent(question.confidence)));
                options.push_str(&format!(" --margin {}", percent(question.margin_ratio)));
                options.push_str(&option("--max-runs", &question.runs_max.to_string()));
                ("bisect", options)
            }
            Self::Search(terms) => {
                let loss_ratios = terms.goals.iter().map(|goal| goal.loss_ratio);
                let lossless = match terms.preset == Preset::Rfc2544.name() {
                    true => " --rfc2544",
                    false => " --ndr",
                };
                let goals = loss_ratios.map(|loss_ratio| match loss_ratio {
                    0.0 => lossless.to_owned(),
                    _ => format!(" --pdr {}", percent(loss_ratio)),
                });
                ("search", goals.chain(only).collect::<String>())
            }
        };
        format!("weir lab {name} {}{options}", quote(&plan.spec_path))
    }

    /// Checks that a store was made for this. How sure an answer has to be may differ; whether what
    /// was measured fits is for [`Task::schedule`] to say.
    ///
    /// # Errors
    /// When it was made for something else, or cannot be read.
    pub fn check(&self, store: &Store) -> Result<(), OtherTask> {
        let (root, found, asked) = (store.root().to_owned(), store.kind(), self.kind());
        if found != asked {
            return Err(OtherTask::Kind { root, found, asked });
        }
        let (Self::Bisection(asked), Self::Bisection(earlier)) = (self, Self::of(store)?) else {
            return Ok(());
        };
        if asked.continues(&earlier) {
            return Ok(());
        }
        let Question { good, bad, metric, .. } = earlier;
        let metric = metric.map_or_else(String::new, |metric| format!(" --metric '{metric}'"));
        Err(OtherTask::Question { root, good, bad, metric })
    }

    /// What decides which trial is next, from what stands in a store.
    ///
    /// # Errors
    /// When the store cannot be read or holds something that was taken under other conditions, or
    /// when the specification is not one for this.
    pub fn schedule<'a>(
        &'a self,
        plan: &'a Plan,
        store: &'a Store,
    ) -> Result<Box<dyn Schedule + 'a>, RunError> {
        Ok(match self {
            Self::Campaign => Box::new(Campaign::new(plan, store)?),
            Self::Bisection(question) => Box::new(Bisection::new(plan, question, store)?),
            Self::Search(terms) => Box::new(Searches::new(plan, terms, store)?),
        })
    }

    /// The plan that a report of cells speaks of: a bisection is complete with what it has run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn reported<'p>(&self, plan: &'p Plan, store: &Store) -> Result<Cow<'p, Plan>, StoreError> {
        match self {
            Self::Bisection(_) => bisect::finished(plan, store).map(Cow::Owned),
            Self::Campaign | Self::Search(_) => Ok(Cow::Borrowed(plan)),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_results::search::FrameSize;

    use super::*;

    /// As stores hold it.
    const SEARCH: &str = r#"{
  "schema": 2,
  "wanted": {
    "preset": "csit",
    "goals": [
      {
        "loss_ratio": 0.005,
        "exceed_ratio": 0.5,
        "final_trial_s": 1.0,
        "duration_sum_s": 21.0,
        "width_ratio": 0.005,
        "initial_trial_s": null
      }
    ],
    "tests": [
      "throughput",
      "back-to-back"
    ],
    "sizes": [
      "own",
      {
        "bytes": 60
      },
      "imix"
    ],
    "min_load_pps": null,
    "max_load_pps": 1000000.0,
    "warmup_s": null,
    "time_max_s": 600.0,
    "trials_max": 200,
    "curve_step_ratio": 0.1,
    "curve_trial_s": 10.0,
    "latency_trial_s": 60.0,
    "latency_repeats": 3,
    "burst_packets_max": null,
    "burst_repeats": 50,
    "burst_width_ratio": 0.01
  }
}"#;

    #[test]
    fn the_command_line_that_asks_for_the_same_again_has_all_its_options() {
        let mut plan = PlanRecord {
            schema: 1,
            spec_path: "/srv/my labs/lab.toml".to_owned(),
            iterations: Some(3),
            only: Some("nft.*".to_owned()),
            weir: "0.1.0".to_owned(),
        };
        let run = "weir lab run '/srv/my labs/lab.toml' -n 3 --only 'nft.*'";
        assert_eq!(Task::Campaign.command_line(&plan), run);
        (plan.iterations, plan.only) = (None, None);
        assert_eq!(Task::Campaign.command_line(&plan), "weir lab run '/srv/my labs/lab.toml'");
        plan.spec_path = "lab.toml".to_owned();
        let question = Question {
            schema: 1,
            good: "v1".to_owned(),
            bad: "v9".to_owned(),
            metric: Some("*.many".to_owned()),
            confidence: 0.99,
            margin_ratio: 0.005,
            runs_max: 40,
        };
        assert_eq!(
            Task::Bisection(question).command_line(&plan),
            "weir lab bisect lab.toml --good v1 --bad v9 --metric '*.many' --confidence 99% \
             --margin 0.5% --max-runs 40"
        );
        let file: SearchFile = serde_json::from_str(SEARCH).expect("readable");
        let search = Task::Search(Box::new(file.terms));
        assert_eq!(search.command_line(&plan), "weir lab search lab.toml --pdr 0.5%");
    }

    #[test]
    fn the_terms_of_a_search_keep_their_names_in_stores() {
        let file: SearchFile = serde_json::from_str(SEARCH).expect("readable");
        let sizes = [FrameSize::OfTraffic, FrameSize::Bytes(60), FrameSize::Imix];
        assert_eq!(file.terms.sizes, sizes);
        assert_eq!(serde_json::to_string_pretty(&file).expect("writable"), SEARCH);
    }
}

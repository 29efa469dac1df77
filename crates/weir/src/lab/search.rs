//! `weir lab search`: preflight, searches, summary.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_gen::units::{Rate, format_count, format_duration};
use weir_lab::cancel::Cancel;
use weir_lab::environment;
use weir_lab::event::Event;
use weir_lab::material;
use weir_lab::model::Plan;
use weir_lab::record::{TrialRecord, VerdictKind};
use weir_lab::search::record::ItemResult;
use weir_lab::search::show::{SearchSummary, figure};
use weir_lab::search::store::SEARCH_STORE_SCHEMA;
use weir_lab::search::wanted::{self, Asked, Wanted};
use weir_lab::search::{
    Item, Run, SearchError, SearchEvent, SearchFile, SearchObserver, SearchStore, items,
};
use weir_lab::testbed::Testbed;

use super::{absolute, read_plan, run};
use crate::cli::Selection;
use crate::cli::search::SearchArgs;
use crate::exit::Outcome;
use crate::{progress, signals};

/// `weir lab search`.
pub(super) fn command(args: &SearchArgs) -> anyhow::Result<Outcome> {
    // A search has trials of its own making: one iteration stands for the series.
    let selection =
        Selection { spec: args.spec.clone(), iterations: Some(1), only: args.only.clone() };
    let Some(plan) = read_plan(&selection) else { return Ok(Outcome::Refused) };
    let asked = Asked { ndr: args.ndr, pdr: args.pdr.clone(), rfc2544: args.rfc2544 };
    let wanted = wanted::resolve(&plan.search, &asked)
        .context("what [search] and the options ask for does not go together")?;
    let items = items(&plan, &wanted)?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    if !plan.testbed.has_direct_path() {
        bail!(
            "a search begins with what the path delivers without the DUT, which cannot be had on \
             testbed kind \"{}\": search on kind \"netns\", or run the rates as a [[sweep]] with \
             `weir lab run`",
            plan.testbed.kind()
        );
    }
    let all = run::Left::all(&plan);
    let testbed = run::preflight("weir lab search", &plan, &args.spec, (true, &all), &cancel)?;
    let root = match &args.out {
        Some(out) => out.clone(),
        None => run::default_out(&format!("{}-search", plan.campaign.name))?,
    };
    let made_of = all.material(&plan, testbed.as_ref(), &cancel)?;
    if args.resume {
        material::compare(&root, &made_of)?;
    }
    let file = SearchFile {
        schema: SEARCH_STORE_SCHEMA,
        spec_path: absolute(&args.spec)?.display().to_string(),
        weir: crate::VERSION.to_owned(),
        wanted: wanted.clone(),
        files: plan.source.texts().map_err(|path| {
            anyhow::anyhow!("{path} is not text in UTF-8, which a search cannot keep")
        })?,
    };
    let store = if args.resume && SearchStore::is_at(&root) {
        SearchStore::resume(&root, &plan.source, &file, &items)?
    } else {
        SearchStore::create(&root, &plan.source, &file)?
    };
    material::keep(store.files(), &made_of)?;
    keep_environment(&store, &args.spec, testbed.as_ref())?;
    let searches = Searches { plan: &plan, wanted: &wanted, items: &items, store: &store };
    searches.run(testbed.as_ref(), &cancel, &root, args.json.json)
}

/// Writes `env.json` where there is none, or notes what has changed.
fn keep_environment(store: &SearchStore, spec: &Path, testbed: &dyn Testbed) -> anyhow::Result<()> {
    let spec_dir = absolute(spec)?.parent().map_or_else(PathBuf::new, Path::to_owned);
    let now = environment::read(crate::VERSION, &spec_dir, &testbed.environment());
    let files = store.files();
    let path = files.root().join("env.json");
    if !path.exists() {
        return Ok(files.write_json("env.json", &now)?);
    }
    let mut first: serde_json::Value = files.read_json(&path)?;
    if let Some(note) = environment::resumed(&mut first, &now) {
        progress::warn(&note);
    }
    Ok(files.write_json("env.json", &first)?)
}

/// What is searched and where it goes.
#[derive(Clone, Copy)]
struct Searches<'a> {
    plan: &'a Plan,
    wanted: &'a Wanted,
    items: &'a [Item],
    store: &'a SearchStore,
}

impl Searches<'_> {
    fn run(
        self,
        testbed: &dyn Testbed,
        cancel: &Cancel,
        root: &Path,
        json: bool,
    ) -> anyhow::Result<Outcome> {
        let Self { plan, wanted, items, store } = self;
        let observer = &mut Lines;
        let mut run = Run { plan, wanted, items, store, testbed, cancel, observer };
        let ran = run.run();
        let results = run.results()?;
        let summary = self.summary(results)?;
        let signal = match ran {
            Ok(()) => None,
            Err(SearchError::Cancelled { signal }) => Some(signal),
            Err(error) => return Err(error.into()),
        };
        show(&summary, root, json)?;
        let Some(signal) = signal else {
            return Ok(if summary.is_whole() { Outcome::Done } else { Outcome::No });
        };
        progress::warn(&format!(
            "interrupted; finished trials are kept. Go on with: the same command, --out {} \
             --resume",
            root.display()
        ));
        Ok(Outcome::Signal(signal))
    }

    /// Writes what is derived from the results.
    fn summary(self, items: Vec<ItemResult>) -> anyhow::Result<SearchSummary> {
        let summary = SearchSummary {
            campaign: self.plan.campaign.name.clone(),
            wanted: self.wanted.clone(),
            planned_items: self.items.len(),
            items,
        };
        let files = self.store.files();
        files.write_json("summary.json", &summary)?;
        files.write("summary.md", summary.markdown().as_bytes())?;
        Ok(summary)
    }
}

fn show(summary: &SearchSummary, root: &Path, json: bool) -> anyhow::Result<()> {
    let path = absolute(&root.join("summary.md"))?;
    let text = if json {
        let mut value = serde_json::to_value(summary)?;
        value["summary"] = path.display().to_string().into();
        serde_json::to_string_pretty(&value)? + "\n"
    } else {
        format!("\n{}summary: {}\n", summary.text(), path.display())
    };
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output; the results are complete in the store")
}

/// A line on standard error for whatever is finished.
struct Lines;

impl Lines {
    fn line(text: &str) {
        // A closed standard error must not end a measurement.
        drop(writeln!(anstream::stderr(), "{text}"));
    }

    fn trial(name: &str, record: &TrialRecord, replayed: bool) {
        let ledger = &record.ledger;
        let count = |point: Option<&weir_lab::record::Point>| point.map_or(0, |p| p.packets);
        let offered = count(ledger.points.first());
        let lost = i128::from(offered) - i128::from(count(ledger.points.last()));
        let duration = Duration::from_nanos(record.times.duration_ns);
        let note = match (replayed, record.verdict.kind) {
            (true, _) => "  (kept)".to_owned(),
            (false, VerdictKind::Invalid) => format!("  invalid: {}", record.verdict.reason),
            (false, _) => String::new(),
        };
        Self::line(&format!(
            "  {name:<40} {:>13} for {:>7}  lost {lost} of {}{note}",
            rate(record.traffic.rate),
            format_duration(rounded(duration)),
            format_count(offered),
        ));
    }
}

/// A rate in whole packets per second.
fn rate(rate: Rate) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion from floating point saturates; rates are not negative"
    )]
    match rate {
        Rate::Pps(rate_pps) => format!("{} pps", format_count(rate_pps.round() as u64)),
        other => other.to_string(),
    }
}

/// A duration in whole milliseconds, or microseconds where it is shorter.
fn rounded(duration: Duration) -> Duration {
    match u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) {
        0 => Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
        millis => Duration::from_millis(millis),
    }
}

impl SearchObserver for Lines {
    fn event(&mut self, event: &SearchEvent<'_>) {
        match event {
            SearchEvent::Started { items, done } => {
                Self::line(&format!("{items} searches, {done} done"));
            }
            SearchEvent::ItemStarted { position, to_do, name } => {
                Self::line(&format!("[{position}/{to_do}] {name}"));
            }
            SearchEvent::TrialFinished { name, record, replayed } => {
                Self::trial(name, record, *replayed);
            }
            SearchEvent::ItemFinished(result) => {
                for goal in &result.goals {
                    let (name, limit) = (&goal.name, goal.limit.name());
                    Self::line(&format!("  {name}: {} pps, {limit}", figure(goal)));
                }
            }
            SearchEvent::Inside(Event::Warning(text)) => progress::warn(text),
            SearchEvent::Inside(_) => {}
        }
    }
}

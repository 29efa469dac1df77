//! `weir lab bisect`: the store, the search, what it shows as it goes and at the end.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::{Context as _, bail};
use weir_gen::units::format_pps;
use weir_lab::bisect::{
    self, Answer, BISECT_SCHEMA, Bisect, BisectError, CandidateReport, List, Question, Report,
    Watcher,
};
use weir_lab::campaign::CampaignError;
use weir_lab::derive;
use weir_lab::event::{Event, Observer};
use weir_lab::material::{self, Material};
use weir_lab::model::Plan;
use weir_lab::record::VerdictKind;
use weir_lab::store::{PlanRecord, STORE_SCHEMA, Store};

use super::run::{Left, default_out, keep_environment, keep_material, preflight};
use super::{absolute, read_plan};
use crate::cli::Selection;
use crate::cli::bisect::BisectArgs;
use crate::exit::{self, Outcome};
use crate::{progress, signals};

/// Runs the command.
pub(super) fn command(args: &BisectArgs) -> anyhow::Result<Outcome> {
    let selection = Selection { spec: args.spec.clone(), iterations: None, only: None };
    let Some(plan) = read_plan(&selection) else {
        return Ok(Outcome::Refused);
    };
    let question = Question {
        schema: BISECT_SCHEMA,
        good: args.good.clone(),
        bad: args.bad.clone(),
        metric: args.metric.clone(),
        confidence: args.confidence,
        margin_ratio: args.margin,
        runs_max: usize::try_from(args.max_runs)?,
    };
    let list = List::of(&plan, &args.good, &args.bad, args.metric.as_deref())?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    let spec = absolute(&args.spec)?;
    let all = Left::all(&plan);
    let testbed = preflight("weir lab bisect", &plan, &spec, (args.yes.yes, &all), &cancel)?;
    let made_of = all.material(&plan, testbed.as_ref(), &cancel)?;
    let store = open(args, &plan, &list, (&question, &made_of))?;
    keep_material(&store, &made_of)?;
    keep_environment(&store, testbed.as_ref())?;
    let mut watcher = Lines::default();
    let mut search = Bisect {
        plan: &plan,
        list: &list,
        question: &question,
        store: &store,
        testbed: testbed.as_ref(),
        cancel: &cancel,
        watcher: &mut watcher,
    };
    let (report, signal) = match search.run() {
        Ok(report) => (report, None),
        Err(BisectError::Campaign(CampaignError::Cancelled { signal })) => {
            (bisect::report(&plan, &list, &question, &store)?, Some(signal))
        }
        Err(error) => {
            // What is measured is worth a report, but the error is what must be told.
            drop(derive(&store, &plan));
            return Err(error.into());
        }
    };
    derive(&store, &plan)?;
    let shown = show(&store, &report, args.json.json);
    if let Some(signal) = signal {
        progress::warn(&format!(
            "interrupted; finished runs are kept. Go on with the same command and: --out {} \
             --resume",
            store.root().display()
        ));
        return Ok(Outcome::Signal(signal));
    }
    shown?;
    Ok(if report.answer == Answer::Found { Outcome::Done } else { Outcome::No })
}

/// Makes the store, or opens the one that the search goes on in.
fn open(
    args: &BisectArgs,
    plan: &Plan,
    list: &List,
    (question, made_of): (&Question, &Material),
) -> anyhow::Result<Store> {
    let root = match &args.out {
        Some(out) => out.clone(),
        None => default_out(&format!("{}-bisect", plan.campaign.name))?,
    };
    let record = PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: absolute(&args.spec)?.display().to_string(),
        iterations: None,
        only: None,
        weir: crate::VERSION.to_owned(),
    };
    let store = if args.resume && root.join("campaign.toml").is_file() {
        let store = Store::open(&root)?;
        let shown = root.display();
        match bisect::question(&store)? {
            Some(earlier) if question.continues(&earlier) => {}
            Some(Question { good, bad, metric, .. }) => {
                let metric = metric.map_or_else(String::new, |m| format!(" --metric '{m}'"));
                bail!(
                    "{shown} holds another search: --good {good} --bad {bad}{metric}; choose \
                     another directory with --out"
                );
            }
            None => {
                bail!("{shown} holds a campaign, not a search: choose another directory with --out")
            }
        }
        // A conflict must show before the specification in the store is replaced.
        material::compare(&root, made_of)?;
        bisect::report(plan, list, question, &store)?;
        store.replace_specification(&plan.source, &record)?;
        store
    } else {
        Store::create(&root, &plan.source, &record)?
    };
    bisect::keep_question(&store, question)?;
    Ok(store)
}

/// Writes the derived files of what was run.
fn derive(store: &Store, plan: &Plan) -> anyhow::Result<()> {
    derive::write(store, &bisect::finished(plan, store)?)?;
    Ok(())
}

/// Shows a line for each run, with what is known after it.
#[derive(Debug, Default)]
struct Lines {
    /// The run that has just ended.
    finished: Option<String>,
    /// What was warned of: every run says the same of its testbed.
    warned: BTreeSet<String>,
}

impl Lines {
    fn line(text: &str) {
        // A closed standard error must not end a measurement.
        drop(writeln!(anstream::stderr(), "{text}"));
    }
}

impl Observer for Lines {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::TrialFinished { name, record } => {
                let verdict = record.verdict.kind.name();
                let rate = format_pps(record.result.rate_pps);
                let line = format!("{name:<28} {rate:>12}  {verdict}");
                if record.verdict.kind == VerdictKind::Invalid {
                    self.finished = Some(format!("{line}: {}", record.verdict.reason));
                } else if record.dut.is_some() {
                    self.finished = Some(line);
                } else {
                    Self::line(&line);
                }
            }
            Event::Warning(text) => {
                if self.warned.insert(text.clone()) {
                    progress::warn(text);
                }
            }
            Event::Started { .. }
            | Event::TrialStarted { .. }
            | Event::Phase { .. }
            | Event::SeriesStopped { .. }
            | Event::Live { .. } => {}
        }
    }
}

impl Watcher for Lines {
    fn assessed(&mut self, report: &Report) {
        let Some(finished) = self.finished.take() else {
            let list = &report.candidates;
            Self::line(&format!(
                "{} candidates from {} to {}, {} runs done, {} at most",
                list.len(),
                list[0].name,
                list[list.len() - 1].name,
                report.runs,
                report.runs_max
            ));
            return;
        };
        let mut places: Vec<&CandidateReport> = report.candidates.iter().skip(1).collect();
        places.sort_by(|a, b| b.first_bad_probability.total_cmp(&a.first_bad_probability));
        let shown = places.iter().take(3).filter(|c| c.first_bad_probability >= 0.005);
        let mut posterior: Vec<String> =
            shown.map(|c| format!("{} {}", c.name, percent(c.first_bad_probability))).collect();
        posterior.push(format!("no change {}", percent(report.no_change_probability)));
        Self::line(&format!("[{}] {finished}  {}", report.runs, posterior.join(", ")));
    }
}

/// A probability; only what is certain is 0 or 100 %.
fn percent(probability: f64) -> String {
    match probability * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "<0.1 %".to_owned(),
        percent if percent > 99.9 && percent < 100.0 => ">99.9 %".to_owned(),
        percent if (0.1..9.95).contains(&percent) || (99.0..99.95).contains(&percent) => {
            format!("{percent:.1} %")
        }
        percent => format!("{percent:.0} %"),
    }
}

/// Packets per second with enough digits to see a small change.
fn digits(rate_pps: f64) -> String {
    match rate_pps.abs() {
        rate if rate >= 1e6 => format!("{:.4} Mpps", rate_pps / 1e6),
        rate if rate >= 1e3 => format!("{:.3} kpps", rate_pps / 1e3),
        _ => format!("{rate_pps:.1} pps"),
    }
}

/// A change, with its sign.
fn signed(ratio: f64) -> String {
    format!("{:+.2} %", ratio * 100.0)
}

/// Prints the result.
fn show(store: &Store, report: &Report, json: bool) -> anyhow::Result<()> {
    let html = absolute(&store.root().join("report.html"))?;
    let mut out = anstream::stdout();
    let text = if json {
        let mut value = serde_json::to_value(report)?;
        value["store"] = absolute(store.root())?.display().to_string().into();
        value["report"] = html.display().to_string().into();
        format!("{}\n", serde_json::to_string_pretty(&value)?)
    } else {
        format!("\n{}\n{}\nreport: {}\n", table(report), answer(report), html.display())
    };
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| {
            let dir = store.root().display();
            anyhow::anyhow!("{}; the results are complete in {dir}", exit::told(&error.into()))
        })
        .context("cannot write to standard output")
}

fn table(report: &Report) -> String {
    let names = report.candidates.iter().map(|c| c.name.chars().count());
    let width = names.max().unwrap_or(0).max(report.dimension.chars().count());
    let mut text = format!(
        "{:<width$} {:>4} {:>14} {:>8} {:>10}\n",
        report.dimension, "n", "median", "is bad", "first bad"
    );
    for candidate in &report.candidates {
        let median = candidate.median_pps.map_or_else(|| "–".to_owned(), digits);
        let mut line = format!(
            "{:<width$} {:>4} {median:>14} {:>8} {:>10}",
            candidate.name,
            candidate.measurements,
            percent(candidate.bad_probability),
            percent(candidate.first_bad_probability),
        );
        if candidate.skipped {
            line += &format!("  passed over: {} invalid runs", candidate.invalid);
        } else if candidate.invalid > 0 {
            line += &format!("  and {} invalid", candidate.invalid);
        }
        if candidate.misfit {
            line += "  on neither level";
        }
        text += &line;
        text.push('\n');
    }
    let no_change = percent(report.no_change_probability);
    text += &format!("no change of {} or more: {no_change}\n", margin(report));
    text
}

fn margin(report: &Report) -> String {
    format!("{} %", report.margin_ratio * 100.0)
}

/// The answer in a sentence or two.
fn answer(report: &Report) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let probability = percent(report.probability.unwrap_or_default());
    let confidence = format!("{} %", report.confidence * 100.0);
    let mut text = match report.answer {
        Answer::Found => format!(
            "{} is the first bad one, with a probability of {probability}; {} before it is good.",
            name(&report.first_bad),
            name(&report.last_good)
        ),
        Answer::OneOf => format!(
            "The first bad one is one of those from {} to {}, with a probability of \
             {probability}: those before {} cannot be measured.",
            name(&report.first_bad),
            name(&report.first_bad_latest),
            name(&report.first_bad_latest)
        ),
        Answer::NoChange => format!(
            "Nothing changes by {} or more between {} and {}, with a probability of {probability}.",
            margin(report),
            report.candidates[0].name,
            report.candidates[report.candidates.len() - 1].name
        ),
        Answer::Undecided => format!(
            "Undecided after {} runs, which are the limit: no answer has a probability of \
             {confidence}. Go on with a higher --max-runs and --resume.",
            report.runs
        ),
        Answer::Open => format!("Open after {} runs.", report.runs),
    };
    if let Some(change) = report.change
        && report.answer != Answer::NoChange
    {
        text += &format!(
            "\nThe change: {} to {}, {} ({} to {} at {confidence}); single runs vary by {:.2} %.",
            digits(change.good_pps),
            digits(change.bad_pps),
            signed(change.change_ratio),
            signed(change.change_low_ratio),
            signed(change.change_high_ratio),
            change.noise_ratio * 100.0
        );
        if change.change_ratio > 0.0 && report.first_bad.is_some() {
            text += " It is an improvement.";
        }
    }
    if report.candidates.iter().any(|c| c.misfit) {
        text += "\nSome candidates lie on neither level: the list may change more than once, and \
                 the place that explains most is named. Search the parts before and behind it.";
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::{digits, percent, signed};

    #[test]
    fn figures_keep_the_digits_that_matter() {
        let shown = [0.0, 1e-9, 0.034, 0.45, 0.994, 0.999_5, 1.0].map(percent);
        assert_eq!(shown, ["0 %", "<0.1 %", "3.4 %", "45 %", "99.4 %", ">99.9 %", "100 %"]);
        assert_eq!(digits(1_234_567.0), "1.2346 Mpps");
        assert_eq!(digits(98_765.4), "98.765 kpps");
        assert_eq!(signed(-0.0213), "-2.13 %");
    }
}

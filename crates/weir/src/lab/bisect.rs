//! `weir lab bisect`: what is asked.

use weir_lab::task::Task;
use weir_results::bisect::{BISECT_SCHEMA, List, Question};

use super::show::Shown;
use super::{read_plan, run};
use crate::cli::Selection;
use crate::cli::bisect::BisectArgs;
use crate::exit::Outcome;

/// Runs the command.
pub(super) fn command(args: &BisectArgs) -> anyhow::Result<Outcome> {
    let selection = Selection { spec: args.spec.clone(), iterations: None, only: None };
    let Some(plan) = read_plan(&selection) else {
        return Ok(Outcome::Refused);
    };
    // What gives no list is refused before anything is looked at.
    List::of(&plan.series, &args.good, &args.bad, args.metric.as_deref())?;
    let question = Question {
        schema: BISECT_SCHEMA,
        good: args.good.clone(),
        bad: args.bad.clone(),
        metric: args.metric.clone(),
        confidence: args.confidence,
        margin_ratio: args.margin,
        runs_max: usize::try_from(args.max_runs)?,
    };
    let asked = run::Asked {
        command: "weir lab bisect",
        selection: &selection,
        plan: &plan,
        task: Task::Bisection(question),
        out: args.out.clone(),
        resume: args.resume,
    };
    run::new(
        asked,
        run::How { yes: args.yes.yes, wait: args.wait.duration(), shown: Shown::brief(args.json) },
    )
}

//! `weir lab search`: what is asked.

use anyhow::Context as _;
use weir_lab::model::search::{self, Asked};
use weir_lab::search::items;
use weir_lab::task::Task;

use super::show::Shown;
use super::{read_plan, run};
use crate::cli::Selection;
use crate::cli::search::SearchArgs;
use crate::exit::Outcome;

/// `weir lab search`.
pub(super) fn command(args: &SearchArgs) -> anyhow::Result<Outcome> {
    // A search has trials of its own making: one iteration stands for the series.
    let selection =
        Selection { spec: args.spec.clone(), iterations: Some(1), only: args.only.clone() };
    let Some(plan) = read_plan(&selection) else { return Ok(Outcome::Refused) };
    let asked = Asked { ndr: args.ndr, pdr: args.pdr.clone(), rfc2544: args.rfc2544 };
    let terms = search::resolve(&plan.search, &asked)
        .context("[search] and the options do not go together")?;
    // What cannot be searched is refused before anything is looked at.
    items(&plan, &terms)?;
    let asked = run::Asked {
        command: "weir lab search",
        selection: &selection,
        plan: &plan,
        task: Task::Search(Box::new(terms)),
        out: args.out.clone(),
        resume: args.resume,
    };
    run::new(
        asked,
        run::How { yes: args.yes.yes, wait: args.wait.duration(), shown: Shown::brief(args.json) },
    )
}

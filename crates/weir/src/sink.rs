//! `weir sink`: attaches the observing sink, shows what it has seen, detaches it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use weir_gen::expect::Expectation;
use weir_gen::observer::{Observed, Observer, ObserverError};

use crate::cli::SinkOptions;
use crate::exit::Outcome;
use crate::receive::{Screen, Session};

mod report;

use report::Report;

/// Runs the command.
pub(crate) fn command(options: &SinkOptions) -> anyhow::Result<Outcome> {
    let expectation = match &options.expect {
        Some(path) => read_expectation(path)?,
        None => Expectation::default(),
    };
    let session = Session::open("weir sink", &options.receive)?;
    let attached = Observer::attach(session.link.ifindex, session.mode, expectation);
    let mut observer = attached.map_err(|error| match error {
        ObserverError::Attach(error) => session.explain(&error),
        other => other.into(),
    })?;
    let queue_count = usize::try_from(session.queue_count()).unwrap_or(1);
    let first = observer.observed()?;
    let mut screen = Screen::new(session.json);
    let mut last = first.clone();
    let outcome = session.run(|| {
        let now = observer.observed()?;
        show(&mut screen, &Report::new("interval", &first, &last, &now, queue_count))?;
        last = now;
        Ok(())
    });
    observer.detach();
    let total: Observed = observer.observed()?;
    let report = Report::new("total", &first, &first, &total, queue_count);
    screen.total(|| serde_json::to_string(&report), || format!("total\n{}", report.block()))?;
    outcome
}

fn show(screen: &mut Screen, report: &Report) -> anyhow::Result<()> {
    screen.interval(|| serde_json::to_string(report), || report.line(), || report.block())
}

fn read_expectation(path: &Path) -> anyhow::Result<Expectation> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {} (--expect)", path.display()))?;
    Expectation::parse(&text).with_context(|| format!("{} (--expect)", path.display()))
}

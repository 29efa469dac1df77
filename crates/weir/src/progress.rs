//! How work looks that takes a while: a bar on a terminal, plain lines elsewhere; warnings, notes.
//!
//! Everything here goes to standard error, so that standard output stays clean for results.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anstyle::AnsiColor;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use weir_results::document::{Document, Terminal};

/// The bar, short enough for its line to fit 80 columns.
pub(crate) const TEMPLATE: &str = "{bar:10.cyan/dim} {pos}/{len}  {wide_msg}";

/// The same where nobody knows how much is to run.
pub(crate) const OPEN_TEMPLATE: &str = "{spinner:.cyan}  {wide_msg}";

/// Steps of the same kind: a bar, or a line now and then.
pub(crate) struct Steps {
    bar: Option<ProgressBar>,
    what: &'static str,
    every: Duration,
    said: Cell<Instant>,
}

impl Steps {
    /// `what` says what is counted; without a bar, a line says so after each span of `every`.
    pub(crate) fn new(what: &'static str, every: Duration, now: Instant) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(TEMPLATE)).flatten();
        if let Some(bar) = &bar {
            bar.set_message(what);
        }
        Self { bar, what, every, said: Cell::new(now) }
    }

    /// Shows how far it is.
    pub(crate) fn show(&self, done: usize, all: usize, now: Instant) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
            }
            None if now.duration_since(self.said.get()) >= self.every => {
                self.said.set(now);
                // A closed standard error must not end the work.
                drop(writeln!(anstream::stderr(), "{done} of {all} {}", self.what));
            }
            None => {}
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The bar; `None` where it would not show (`TERM=dumb`).
pub(crate) fn bar(template: &str) -> Option<ProgressBar> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if bar.is_hidden() {
        return None;
    }
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    Some(bar)
}

/// Whether standard error is to show colours (`NO_COLOR`, `CLICOLOR`, `TERM`, a terminal).
pub(crate) fn has_colour() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// A document for standard output, as wide as the terminal there; what is written to a file or a
/// pipe is not broken.
pub(crate) fn text(document: &Document) -> String {
    let stdout = std::io::stdout();
    let width = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    let colour = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
    document.text(Terminal { width, colour })
}

/// Shows a warning on standard error.
pub(crate) fn warn(text: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(anstream::stderr(), "{}", warning(text)));
}

/// Says on standard error where something is.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(anstream::stderr(), "{text}"));
}

pub(crate) fn warning(text: &str) -> String {
    let yellow = AnsiColor::Yellow.on_default();
    format!("{yellow}warning:{yellow:#} {text}")
}

/// A time in whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64().round()).unwrap_or(duration)
}

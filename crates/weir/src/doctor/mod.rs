//! `weir doctor`: what this machine has for a lab, what it lacks, what that costs, how to get it.
//!
//! Kernel features are tried, not guessed from version numbers: a program is loaded, frames are
//! injected and XDP is attached, inside a network namespace that is removed again. Never changes a
//! setting, and never sends a packet outside that namespace.
//!
//! One list ([`list::CHECKS`]) feeds the text, the JSON and `docs/doctor.md`.

mod cpu;
mod finding;
mod host;
mod kernel;
mod list;
mod probes;
mod render;
#[cfg(test)]
mod tests;
mod tools;

use serde::Serialize;

use host::Host;
pub(crate) use render::render_text;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing when figures are read; nothing to repair.
    Info,
    /// Figures suffer, or a part of weir cannot be used.
    Warn,
    /// `weir lab` cannot run.
    Fail,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Stable name, `group.name`.
    pub(crate) id: &'static str,
    /// What is checked, in a few words.
    pub(crate) title: &'static str,
    /// How it came out.
    pub(crate) status: Status,
    /// Whether `weir lab` can do without.
    pub(crate) required: bool,
    /// What was seen.
    pub(crate) seen: String,
    /// What the lack costs; absent when all is well.
    pub(crate) cost: Option<&'static str>,
    /// What to do about it; absent when there is nothing to do.
    pub(crate) fix: Option<&'static str>,
}

/// All checks of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// Whether `weir lab` can run here.
    pub(crate) ready: bool,
    /// In the order of the list.
    pub(crate) checks: Vec<Check>,
}

impl Report {
    /// 0 if everything that `weir lab` requires is there, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        u8::from(!self.ready)
    }

    fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }
}

/// Examines this machine. Takes about a second: some kernel features are tried.
pub(crate) fn run() -> Report {
    examine(&Host::this_machine())
}

fn examine(host: &Host) -> Report {
    let checks: Vec<Check> = list::CHECKS.iter().map(|spec| spec.look_at(host)).collect();
    let ready = checks.iter().all(|check| check.status != Status::Fail);
    Report { ready, checks }
}

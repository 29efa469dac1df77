//! The verdict on an imported run, by what its files show.
//!
//! An archive has no ledger and no calibration, so most runs get none: that the DUT limited a rate
//! cannot be told from what lies between two pkt-gens. What can be told: that a program died, that
//! nothing was sent, that all that was offered came through, and that a DUT that answered
//! afterwards let nothing through.

use weir_results::number::pps;
use weir_results::record::{Verdict, VerdictKind};
use weir_results::verdict::{IMPORTED_GENERATOR_BOUND_MIN, OVERLOADED_MAX};
use weir_stats::summary::Summary;

use super::Figure;
use super::log::Log;
use super::published::POINTS_MIN;
use weir_gen::pkt_gen::lines::Line;

/// Lines that bench-lab-ministat.sh drops at the beginning of a log, and at its end.
const DROPPED_FIRST: u64 = 15;
const DROPPED_LAST: u64 = 10;

/// How a machine that cannot be reached is reported.
const UNREACHABLE: [&str; 16] = [
    "Connection refused",
    "Connection timed out",
    "Operation timed out",
    "No route to host",
    "Host is down",
    "Connection closed",
    "Connection reset",
    "lost connection",
    "Network is unreachable",
    "Network is down",
    "Could not resolve hostname",
    "Name or service not known",
    "Name does not resolve",
    "hostname nor servname provided",
    "Temporary failure in name resolution",
    "Broken pipe",
];

/// How lines begin that are ssh's own, and none of the machine behind it.
const SSH_LINES: [&str; 6] = [
    "ssh: ",
    "ssh_",
    "kex_exchange_identification",
    "Connection closed by",
    "client_loop: ",
    "packet_write_wait: ",
];

/// Whether a line tells that a machine cannot be reached.
fn is_unreachable(line: &str) -> bool {
    let is_timeout = line.starts_with("Timeout, server ") && line.contains("not responding");
    is_timeout
        || SSH_LINES.iter().any(|begin| line.starts_with(begin))
        || UNREACHABLE.iter().any(|words| line.contains(words))
}

/// Whether a line is among those that count.
pub(super) fn counts(log: &Log, sample: &Line) -> bool {
    let last = log.line_count.saturating_sub(DROPPED_LAST);
    sample.line > DROPPED_FIRST && sample.line <= last && sample.rate_pps > 0.0
}

/// The figure of a log, as bench-lab-ministat.sh reduces it; `None` with fewer than three samples.
pub(super) fn figure(log: &Log) -> Option<Figure> {
    let counting = log.samples.iter().filter(|sample| counts(log, sample));
    let rates: Vec<f64> = counting.map(|sample| sample.rate_pps).collect();
    let summary = Summary::of(&rates).filter(|summary| summary.count >= POINTS_MIN)?;
    Some(Figure {
        median: summary.median,
        minimum: summary.min,
        maximum: summary.max,
        sample_count: summary.count,
    })
}

/// The files of a run, read.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Path and content of the receiver's log.
    pub(super) receiver: Option<(String, Log)>,
    /// Paths and contents of the generators' logs.
    pub(super) senders: Vec<(String, Log)>,
    /// What was kept of the DUT's answers after the traffic.
    pub(super) after: Option<Answer>,
}

/// Whether a machine answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It printed something.
    Given,
    /// The file is empty, or says that the machine cannot be reached.
    Missing,
}

impl Answer {
    /// By what was printed.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let is_answer = |line: &str| {
            let is_echo = line.starts_with("CMD") || line.starts_with("+ ");
            !line.trim().is_empty() && !is_echo && !is_unreachable(line.trim_start())
        };
        if text.lines().any(is_answer) { Self::Given } else { Self::Missing }
    }
}

impl Run {
    /// What was sent, packets per second: the sum over the generators; `None` if one of them gives
    /// no figure.
    pub(super) fn offered_pps(&self) -> Option<f64> {
        let rates: Option<Vec<f64>> =
            self.senders.iter().map(|(_, log)| Some(figure(log)?.median)).collect();
        rates.filter(|rates| !rates.is_empty()).map(|rates| rates.iter().sum())
    }

    /// Reaches the verdict; `None` where the files do not say.
    pub(super) fn judge(&self, figure: Option<&Figure>) -> Option<Verdict> {
        self.crash().or_else(|| match figure {
            Some(figure) => self.limit(figure.median),
            None => Some(self.without_figure()),
        })
    }

    fn crash(&self) -> Option<Verdict> {
        let (path, line, words) =
            self.receiver.iter().chain(&self.senders).find_map(|(path, log)| {
                log.crash.as_ref().map(|(line, text)| (path, line, text))
            })?;
        Some(invalid(format!("a program died: {path}:{line}: {words}")))
    }

    fn limit(&self, received_pps: f64) -> Option<Verdict> {
        let offered_pps = self.offered_pps().filter(|offered| *offered > 0.0)?;
        let share = received_pps / offered_pps;
        let rates = format!(
            "received {} of {} offered ({:.2} %)",
            pps(received_pps),
            pps(offered_pps),
            share * 100.0
        );
        if share >= IMPORTED_GENERATOR_BOUND_MIN.value {
            let reason = format!("{rates}: the DUT forwarded what was offered");
            return Some(Verdict { kind: VerdictKind::GeneratorBound, reason });
        }
        let is_overloaded = share <= OVERLOADED_MAX.value && self.after == Some(Answer::Given);
        is_overloaded
            .then(|| overloaded(format!("{rates}, and the DUT answered after the traffic")))
    }

    fn without_figure(&self) -> Verdict {
        let Some((path, receiver)) = &self.receiver else {
            return invalid("there is no log of the receiver");
        };
        if self.senders.is_empty() {
            return invalid(format!("{path} gives no figure, and there is no log of a generator"));
        }
        let has_sent = |log: &Log| {
            log.samples.iter().any(|s| s.rate_pps > 0.0) || log.total_packets.is_some_and(|n| n > 0)
        };
        if !self.senders.iter().any(|(_, log)| has_sent(log)) {
            return invalid("the generator sent nothing");
        }
        let counting = receiver.samples.iter().filter(|s| counts(receiver, s)).count();
        let last = receiver.line_count.saturating_sub(DROPPED_LAST);
        let zeros = receiver
            .samples
            .iter()
            .filter(|s| s.line > DROPPED_FIRST && s.line <= last && s.rate_pps == 0.0);
        if counting > 0 || zeros.count() < POINTS_MIN {
            return invalid(format!(
                "{counting} samples are left of {path} without its first {DROPPED_FIRST} and last \
                 {DROPPED_LAST} lines: a median needs {POINTS_MIN}"
            ));
        }
        match self.after {
            Some(Answer::Given) => overloaded(
                "the generator sent, nothing arrived, and the DUT answered after the traffic",
            ),
            Some(Answer::Missing) => invalid(
                "the generator sent, nothing arrived, and the DUT did not answer after the traffic",
            ),
            None => invalid(
                "the generator sent, nothing arrived, and no file says whether the DUT was alive",
            ),
        }
    }
}

fn invalid(reason: impl Into<String>) -> Verdict {
    Verdict { kind: VerdictKind::Invalid, reason: reason.into() }
}

fn overloaded(reason: impl Into<String>) -> Verdict {
    Verdict { kind: VerdictKind::Overloaded, reason: reason.into() }
}

#[cfg(test)]
mod tests;

//! The verdict on a run of the client: what limited its figures, or why they are void.
//!
//! All thresholds stand in one table, [`THRESHOLDS`]; the rules are tried in the order of
//! [`judge`], and the first that holds decides. Nothing here changes a number.

use serde::Serialize;
use weir_stats::Threshold;

use crate::figures::{Failure, Figures};

const LAG_MAX: Threshold = Threshold::new(
    "lag_max",
    0.10,
    "of the latency's median, or of 10 ms",
    "with a rate: a client whose p99 of send lag is above this share of the larger of both was \
     late itself: it is saturated",
);
const BUSY_MAX: Threshold = Threshold::new(
    "busy_max",
    0.95,
    "of a CPU's time",
    "a worker that ran, or waited for a CPU, for more than this is saturated",
);
const PORTS_MAX: Threshold = Threshold::new(
    "ports_max",
    0.0,
    "of requests",
    "more requests than this for which the client had no port left make it saturated",
);
const RATE_KEPT_MIN: Threshold = Threshold::new(
    "rate_kept_min",
    0.99,
    "of requested",
    "fewer answers than this share of a requested rate: the other end did not keep it",
);
const FAILED_MAX: Threshold = Threshold::new(
    "failed_max",
    0.001,
    "of requests",
    "with more failures than this, what is measured did not do what was asked of it",
);

/// Every threshold, for code, output and documentation.
pub const THRESHOLDS: [Threshold; 5] = [LAG_MAX, BUSY_MAX, PORTS_MAX, RATE_KEPT_MIN, FAILED_MAX];

/// What [`LAG_MAX`] is a share of at least, nanoseconds: what the kernel's timers and scheduler
/// cause is never held against a client.
const LAG_REFERENCE_NS: f64 = 10e6;

/// What limited a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The server, or what stands between: it answered less than was asked, or as fast as it can.
    DutBound,
    /// The offer: all of it was answered.
    GeneratorBound,
    /// The client itself.
    GeneratorSaturated,
    /// Nothing was measured.
    Invalid,
}

impl Kind {
    /// As CLI and reports write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DutBound => "dut-bound",
            Self::GeneratorBound => "generator-bound",
            Self::GeneratorSaturated => "generator-saturated",
            Self::Invalid => "invalid",
        }
    }
}

/// What limited a run, and why this is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub kind: Kind,
    pub reason: String,
}

/// What a verdict is reached from.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub figures: &'a Figures,
    /// Requests per second that were asked for; `None` in a closed loop.
    pub rate_rps: Option<f64>,
    /// Requests per second that were answered below status 400.
    pub answered_rps: f64,
    /// Of the busiest worker: the share of the run in which it ran or waited for a CPU.
    pub busy_ratio: f64,
    /// Connections that a listening socket in the client's network namespace had no room for.
    pub listen_overflows: u64,
}

/// Reaches the verdict.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    void(evidence).or_else(|| saturated(evidence)).unwrap_or_else(|| limit(evidence))
}

fn verdict(kind: Kind, reason: String) -> Verdict {
    Verdict { kind, reason }
}

fn void(e: &Evidence<'_>) -> Option<Verdict> {
    let counts = &e.figures.counts;
    let reason = if counts.unaccounted() != 0 {
        format!("{} requests are missing in the client's account", counts.unaccounted())
    } else if counts.due == 0 {
        "no request was due".to_owned()
    } else if counts.answered == 0 && counts.aborted == 0 {
        "no request got a good answer".to_owned()
    } else {
        return None;
    };
    Some(verdict(Kind::Invalid, reason))
}

/// The client bounded the figure.
fn saturated(e: &Evidence<'_>) -> Option<Verdict> {
    let counts = &e.figures.counts;
    let ports = counts.failures.of(Failure::Ports) + counts.not_opened.of(Failure::Ports);
    let reason = if ports as f64 > PORTS_MAX.value * counts.due as f64 {
        format!(
            "the client had no port left for {ports} connections: give more addresses (--source), \
             or a wider net.ipv4.ip_local_port_range"
        )
    } else if let Some((lag_ns, most_ns)) = late(e) {
        format!(
            "it sent late: p99 of its send lag is {:.1} ms, and more than {:.1} ms is held against \
             it; give more --workers, or a lower --rate",
            lag_ns / 1e6,
            most_ns / 1e6
        )
    } else if e.busy_ratio > BUSY_MAX.value {
        format!(
            "a worker ran or waited for a CPU for {:.0} % of the time: give more --workers, or the \
             client CPUs of its own",
            e.busy_ratio * 100.0
        )
    } else if e.listen_overflows > 0 {
        format!(
            "{} connections found the queue of a listening socket of this network namespace full: \
             raise net.core.somaxconn and the server's backlog",
            e.listen_overflows
        )
    } else {
        return None;
    };
    Some(verdict(Kind::GeneratorSaturated, reason))
}

/// The p99 of the send lag and what it may be, nanoseconds, if it is above that.
fn late(e: &Evidence<'_>) -> Option<(f64, f64)> {
    e.rate_rps?;
    let lag_ns = e.figures.lag.quantile_ns(0.99)? as f64;
    let median_ns = e.figures.latency.quantile_ns(0.5).unwrap_or(0) as f64;
    let most_ns = LAG_MAX.value * median_ns.max(LAG_REFERENCE_NS);
    (lag_ns > most_ns).then_some((lag_ns, most_ns))
}

fn limit(e: &Evidence<'_>) -> Verdict {
    let counts = &e.figures.counts;
    let failed = counts.failures.sum();
    let failed_ratio = failed as f64 / counts.due as f64;
    if failed_ratio > FAILED_MAX.value {
        let reason = format!("{:.2} % of the requests failed", failed_ratio * 100.0);
        return verdict(Kind::DutBound, reason);
    }
    let Some(rate_rps) = e.rate_rps else {
        let reason = "closed loop: each connection had its next request as soon as it had its \
                      answer, and the client had CPU time left";
        return verdict(Kind::DutBound, reason.to_owned());
    };
    let kept = (e.answered_rps + aborted_rps(e)) / rate_rps;
    if kept < RATE_KEPT_MIN.value {
        let reason = format!(
            "{:.1} % of the requested rate was answered, though the client was on time",
            kept * 100.0
        );
        return verdict(Kind::DutBound, reason);
    }
    let reason = "all that was asked was answered: the other end can do at least this";
    verdict(Kind::GeneratorBound, reason.to_owned())
}

/// What the client reset on purpose needed no answer.
fn aborted_rps(e: &Evidence<'_>) -> f64 {
    let counts = &e.figures.counts;
    e.answered_rps * counts.aborted as f64 / counts.answered.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 requests, answered in 2 ms each and sent 50 µs late.
    fn figures() -> Figures {
        let mut figures = Figures::default();
        figures.counts.due = 1000;
        figures.counts.answered = 1000;
        for _ in 0..1000 {
            figures.latency.record(2_000_000);
            figures.lag.record(50_000);
        }
        figures
    }

    fn evidence(figures: &Figures) -> Evidence<'_> {
        Evidence {
            figures,
            rate_rps: Some(1000.0),
            answered_rps: 1000.0,
            busy_ratio: 0.5,
            listen_overflows: 0,
        }
    }

    #[track_caller]
    fn is(evidence: &Evidence<'_>, kind: Kind, word: &str) {
        let found = judge(evidence);
        assert_eq!(found.kind, kind, "{found:?}");
        assert!(found.reason.contains(word), "{found:?}");
    }

    #[test]
    fn all_that_was_asked_was_answered() {
        let figures = figures();
        is(&evidence(&figures), Kind::GeneratorBound, "at least this");
    }

    #[test]
    fn a_server_that_does_not_keep_up_is_the_limit() {
        let figures = figures();
        is(&Evidence { answered_rps: 900.0, ..evidence(&figures) }, Kind::DutBound, "90.0 %");
        is(&Evidence { rate_rps: None, ..evidence(&figures) }, Kind::DutBound, "closed loop");
        let mut failing = figures;
        failing.counts.answered = 990;
        for _ in 0..10 {
            failing.counts.failures.add(Failure::ServerError);
        }
        is(&evidence(&failing), Kind::DutBound, "1.00 %");
    }

    #[test]
    fn a_client_at_its_limits_is_saturated() {
        let figures = figures();
        let saturated = Kind::GeneratorSaturated;
        is(&Evidence { busy_ratio: 0.96, ..evidence(&figures) }, saturated, "96 %");
        is(&Evidence { listen_overflows: 3, ..evidence(&figures) }, saturated, "3 connections");
        let mut late = figures.clone();
        for _ in 0..11 {
            late.lag.record(30_000_000);
        }
        is(&evidence(&late), saturated, "sent late");
        // A closed loop has no times at which something was due.
        is(&Evidence { rate_rps: None, ..evidence(&late) }, Kind::DutBound, "closed");
        let mut portless = figures;
        portless.counts.due += 1;
        portless.counts.failures.add(Failure::Ports);
        is(&evidence(&portless), saturated, "--source");
    }

    #[test]
    fn what_measured_nothing_is_invalid() {
        let mut nothing = Figures::default();
        is(&evidence(&nothing), Kind::Invalid, "no request was due");
        nothing.counts.due = 3;
        is(&evidence(&nothing), Kind::Invalid, "missing");
        nothing.counts.unfinished = 3;
        is(&evidence(&nothing), Kind::Invalid, "good answer");
    }
}

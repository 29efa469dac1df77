//! The verdict on a run of the client: what limited its figures, or why they are void.
//!
//! All thresholds stand in one table, [`THRESHOLDS`]; the rules are tried in the order of
//! [`judge`], and the first that holds decides. Nothing here changes a number.

use std::fmt::Write as _;

use serde::Serialize;
use weir_stats::Threshold;

use crate::figures::{Failure, Figures};

const LAG_MAX: Threshold = Threshold::new(
    "lag_max",
    0.10,
    "of the latency's median, or of lag_reference_s",
    "with a rate: a client whose p99 of send lag is above this share of the larger of both was \
     late itself, and is saturated; of few requests, two have to be that late",
);
const LAG_REFERENCE_S: Threshold = Threshold::new(
    "lag_reference_s",
    0.010,
    "s",
    "lag_max is a share of this at least: what the kernel's timers and scheduler cause is never \
     held against a client",
);
const BUSY_MAX: Threshold = Threshold::new(
    "busy_max",
    0.95,
    "of a CPU's time",
    "a worker that ran, or waited for a CPU, for more than this is saturated",
);
/// How much of a run a worker may stand still.
pub const STILL_MAX: Threshold = Threshold::new(
    "still_max",
    0.05,
    "of the run",
    "a worker that slept past the moment at which it was to wake, by more than lag_reference_s \
     each time and this share of the run together, was stopped, or had lost its CPU: it is \
     saturated",
);
const PORTS_MAX: Threshold = Threshold::new(
    "ports_max",
    0.0,
    "of requests",
    "more requests than this for which the client had no port left make it saturated",
);
const LISTEN_OVERFLOWS_MAX: Threshold = Threshold::new(
    "listen_overflows_max",
    0.0,
    "connections",
    "if a listening socket of the client's network namespace had no room for more connections than \
     this, the client's host is saturated",
);
const RATE_KEPT_MIN: Threshold = Threshold::new(
    "rate_kept_min",
    0.99,
    "of requested",
    "fewer answers until the end of the run than this share of a requested rate, with what is \
     normally under way (in_flight_deviations): the other end did not keep it",
);
const IN_FLIGHT_DEVIATIONS: Threshold = Threshold::new(
    "in_flight_deviations",
    4.0,
    "standard deviations",
    "at the end of a run as many requests are normally under way as are due in the median service \
     time, and so many standard deviations of a Poisson number more",
);
const UNSENT_MAX: Threshold = Threshold::new(
    "unsent_max",
    0.01,
    "of requests",
    "if more than this share found no free connection until the end, a requested rate may have \
     been missed for want of connections",
);
const FAILED_MAX: Threshold = Threshold::new(
    "failed_max",
    0.001,
    "of requests",
    "with more failures than this, what is measured did not do what was asked of it",
);

/// Every threshold, for code, output and documentation.
pub const THRESHOLDS: [Threshold; 10] = [
    LAG_MAX,
    LAG_REFERENCE_S,
    BUSY_MAX,
    STILL_MAX,
    PORTS_MAX,
    LISTEN_OVERFLOWS_MAX,
    RATE_KEPT_MIN,
    IN_FLIGHT_DEVIATIONS,
    UNSENT_MAX,
    FAILED_MAX,
];

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
    /// Requests per second that were due; `None` in a closed loop.
    pub rate_rps: Option<f64>,
    /// Requests that were answered below status 400 until the end of the run: its account goes on
    /// until the last answer has come.
    pub answered_in_time: u64,
    /// Median of the service time of those.
    pub service_in_time_ns: u64,
    /// For how long a user waited between an answer and the next request.
    pub think_ns: u64,
    /// Of the busiest worker: the share of the run in which it ran or waited for a CPU.
    pub busy_ratio: f64,
    /// Of the worker that did most of that: the share of the run in which it slept past the moment
    /// at which it was to wake.
    pub still_ratio: f64,
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
    } else if counts.refused_sources() > 0 {
        format!(
            "{} connections could not be made: their source was not an address of this network \
             namespace any more",
            counts.refused_sources()
        )
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
    } else if e.still_ratio > STILL_MAX.value {
        format!(
            "a worker stood still for {:.0} % of the time: something stopped it, or took its CPU",
            e.still_ratio * 100.0
        )
    } else if e.busy_ratio > BUSY_MAX.value {
        format!(
            "a worker ran or waited for a CPU for {:.0} % of the time: give more --workers, or the \
             client CPUs of its own",
            e.busy_ratio * 100.0
        )
    } else if e.listen_overflows as f64 > LISTEN_OVERFLOWS_MAX.value {
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
    // One request may be late by chance: the last but one, where p99 would be the last.
    let count = e.figures.lag.count() as f64;
    let share = 0.99_f64.min((count - 1.5) / count).max(0.0);
    let lag_ns = e.figures.lag.quantile_ns(share)? as f64;
    let median_ns = e.figures.latency.quantile_ns(0.5).unwrap_or(0) as f64;
    let most_ns = LAG_MAX.value * median_ns.max(LAG_REFERENCE_S.value * 1e9);
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
    let Some(rate_rps) = e.rate_rps else { return closed(e) };
    // What the client reset on purpose needed no answer.
    let kept = e.answered_in_time + counts.aborted;
    let under_way = in_flight(rate_rps, e.service_in_time_ns);
    if kept as f64 + under_way < RATE_KEPT_MIN.value * counts.due as f64 {
        let behind = counts.due.saturating_sub(kept + failed);
        let mut reason = format!(
            "{:.1} % of the requested rate was answered, though the client was on time: {behind} \
             requests behind at the end",
            kept as f64 / counts.due as f64 * 100.0
        );
        if counts.unsent as f64 > UNSENT_MAX.value * counts.due as f64 {
            let _ = write!(
                reason,
                "; {} of them found all connections busy, so that more --connections may do more",
                counts.unsent
            );
        }
        return verdict(Kind::DutBound, reason);
    }
    let reason = match (counts.answered, counts.aborted) {
        (_, 0) => "all that was asked was answered: the other end can do at least this".to_owned(),
        (0, _) => "all requests were reset on purpose (--abort): nothing says what the other end \
                   can do"
            .to_owned(),
        (_, aborted) => format!(
            "all that was asked was answered, but for {aborted} requests that were reset on \
             purpose (--abort): the other end can do at least this"
        ),
    };
    verdict(Kind::GeneratorBound, reason)
}

fn closed(e: &Evidence<'_>) -> Verdict {
    if e.think_ns > 0 {
        let reason = "closed loop with pauses (--think): all that the users asked was answered, \
                      and more of them may ask for more";
        return verdict(Kind::GeneratorBound, reason.to_owned());
    }
    let reason = "closed loop: each connection had its next request as soon as it had its answer, \
                  and the client had CPU time left";
    verdict(Kind::DutBound, reason.to_owned())
}

/// How many requests are under way at a time, at most, where none waits.
fn in_flight(rate_rps: f64, service_ns: u64) -> f64 {
    let mean = rate_rps * service_ns as f64 / 1e9;
    (mean + IN_FLIGHT_DEVIATIONS.value * mean.sqrt()).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;

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
            answered_in_time: 1000,
            service_in_time_ns: 2_000_000,
            think_ns: 0,
            busy_ratio: 0.5,
            still_ratio: 0.01,
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
        is(&Evidence { answered_in_time: 900, ..evidence(&figures) }, Kind::DutBound, "90.0 %");
        is(&Evidence { rate_rps: None, ..evidence(&figures) }, Kind::DutBound, "closed loop");
        let mut failing = figures;
        failing.counts.answered = 990;
        for _ in 0..10 {
            failing.counts.failures.add(Failure::ServerError);
        }
        is(&evidence(&failing), Kind::DutBound, "1.00 %");
    }

    /// 1,000 a second at a server that can do 800: all are answered in the end, 200 of them late.
    /// The median service time of those in time is half of what the last of them had.
    #[test]
    fn answers_behind_the_end_do_not_hide_an_overload() {
        let figures = figures();
        let overload = Evidence { answered_in_time: 800, ..evidence(&figures) };
        is(&overload, Kind::DutBound, "200 requests behind");
        let slow = Evidence { service_in_time_ns: 100_000_000, ..overload };
        is(&slow, Kind::DutBound, "200 requests behind");
        // With 200 ms for each answer, 200 are under way all the time.
        let far = Evidence { service_in_time_ns: 200_000_000, ..overload };
        is(&far, Kind::GeneratorBound, "at least this");
        let mut few = figures.clone();
        few.counts.answered = 900;
        few.counts.unsent = 100;
        let few = Evidence { figures: &few, ..overload };
        is(&few, Kind::DutBound, "100 of them found all connections busy");
    }

    #[test]
    fn what_is_reset_on_purpose_needs_no_answer() {
        let mut figures = figures();
        (figures.counts.answered, figures.counts.aborted) = (900, 100);
        let some = Evidence { answered_in_time: 900, ..evidence(&figures) };
        is(&some, Kind::GeneratorBound, "but for 100 requests that were reset");
        // What nobody waits for says nothing about who would have answered.
        (figures.counts.answered, figures.counts.aborted) = (0, 1000);
        let all = Evidence { answered_in_time: 0, ..evidence(&figures) };
        is(&all, Kind::GeneratorBound, "nothing says what the other end can do");
    }

    #[test]
    fn users_that_think_are_the_limit_unless_something_failed() {
        let figures = figures();
        let thinking = Evidence { rate_rps: None, think_ns: 1, ..evidence(&figures) };
        is(&thinking, Kind::GeneratorBound, "--think");
        let mut failing = figures.clone();
        failing.counts.answered = 990;
        for _ in 0..10 {
            failing.counts.failures.add(Failure::Reset);
        }
        is(&Evidence { figures: &failing, ..thinking }, Kind::DutBound, "failed");
    }

    #[test]
    fn a_client_at_its_limits_is_saturated() {
        let figures = figures();
        let saturated = Kind::GeneratorSaturated;
        is(&Evidence { busy_ratio: 0.96, ..evidence(&figures) }, saturated, "96 %");
        is(&Evidence { still_ratio: 0.4, rate_rps: None, ..evidence(&figures) }, saturated, "40 %");
        is(&Evidence { listen_overflows: 3, ..evidence(&figures) }, saturated, "3 connections");
        let mut late = figures.clone();
        for _ in 0..11 {
            late.lag.record(30_000_000);
        }
        is(&evidence(&late), saturated, "sent late");
        let mut few = Figures { lag: Times::default(), ..figures.clone() };
        for lag_ns in [50_000, 50_000, 50_000, 30_000_000] {
            few.lag.record(lag_ns);
        }
        is(&evidence(&few), Kind::GeneratorBound, "at least this");
        few.lag.record(30_000_000);
        is(&evidence(&few), saturated, "sent late");
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
        let mut homeless = figures();
        homeless.counts.not_opened.add(Failure::Source);
        is(&evidence(&homeless), Kind::Invalid, "not an address of this");
    }
}

//! What `weir connect` prints: before the start, each second, at the end.
//!
//! It computes nothing but rates from counts. With `--json` standard output has one object a line,
//! and text goes to standard error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use weir_bpf::histogram::Histogram;
use weir_gen::connect::ClientReport;
use weir_gen::connect::ledger::{self, Counts, Course, Ledger, Missing};
use weir_results::number::{counted, counted_len, delay_ns};
use weir_wire::units::{Rate, format_count, format_duration};

use super::plan::Plan;
use crate::exit;
use crate::traffic::show::{Distribution, line, nanoseconds, say, show_total};

/// The kinds of the last objects of both ends, which `weir connect ledger` reads.
pub(super) const CLIENT_TOTALS: &str = "result";
pub(super) const SERVER_TOTALS: &str = "total";

/// Wide enough for the longest name.
const NAME_WIDTH: usize = 27;

/// Says what will be done.
pub(super) fn start(plan: &Plan) {
    let path = &plan.path;
    let threads = counted_len(plan.cpus.len(), "thread");
    let link = &path.link.name;
    let again = match plan.config.retries {
        0 => "nothing is sent again".to_owned(),
        retries => format!("SYNs are sent again up to {}", counted(retries.into(), "time")),
    };
    say(&format!(
        "{} flows, {} connections/s, {threads}, from {link} ({}); {again}",
        plan.flow_count, plan.requested, path.driver
    ));
    if let Some(held) = plan.concurrent {
        let hold = format_duration(Duration::from_nanos(plan.course.hold_ns));
        say(&format!("each is held for {hold}: {} at a time", format_count(held)));
    }
}

/// The counters of one end after a second.
#[derive(Debug, Serialize)]
struct Second {
    kind: &'static str,
    end: &'static str,
    t_ns: u64,
    opened_cps: f64,
    held: Option<u64>,
    counts: Counts,
}

/// Lines of a run.
pub(super) struct Progress {
    json: bool,
    last: (Duration, u64),
}

impl Progress {
    pub(super) const fn new(json: bool) -> Self {
        Self { json, last: (Duration::ZERO, 0) }
    }

    pub(super) fn show(
        &mut self,
        elapsed: Duration,
        counts: &Counts,
        held: Option<u64>,
    ) -> anyhow::Result<()> {
        let (then, before) = self.last;
        let opened = counts.syn.saturating_sub(before);
        let opened_cps = per_second(opened, elapsed.saturating_sub(then));
        self.last = (elapsed, counts.syn);
        let mut text = format!("{:>6.1} s  {}/s", elapsed.as_secs_f64(), format_rate(opened_cps));
        for (name, count) in Ledger::new(counts, None).rows() {
            if let Some(count) = count.filter(|count| *count > 0) {
                let _ = write!(text, ", {name} {}", format_count(count));
            }
        }
        if let Some(held) = held {
            let _ = write!(text, ", held {}", format_count(held));
        }
        say(&text);
        if !self.json {
            return Ok(());
        }
        let t_ns = nanoseconds(elapsed);
        let (kind, end, counts) = ("second", "client", *counts);
        line(&Second { kind, end, t_ns, opened_cps, held, counts }).context(exit::NO_OUTPUT)
    }
}

/// A run that has ended.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    pub(super) report: &'a ClientReport,
    pub(super) counts: Counts,
    pub(super) concurrent_max: u64,
    /// At the end.
    pub(super) held: u64,
    /// Until the last connection was seen to be opened; zero if none was seen.
    pub(super) opening: Duration,
    pub(super) ended_by: &'static str,
}

/// The JSON object of a client.
#[derive(Debug, Serialize)]
pub(super) struct ClientResult {
    kind: &'static str,
    end: &'static str,
    interface: String,
    ended_by: &'static str,
    course: Course,
    reply_bytes: u16,
    flow_count: u128,
    requested: String,
    requested_cps: Option<f64>,
    duration_ns: u64,
    opened_cps: f64,
    /// Connections that came through all of their steps, as the client sees them.
    through: u64,
    through_cps: f64,
    /// How often a SYN is sent again that nobody answers; `counts` says how many were.
    retries: u8,
    ledger: Ledger,
    missing: Vec<Missing>,
    unexpected: BTreeMap<&'static str, u64>,
    counts: Counts,
    handshake_ns: Option<Distribution>,
    reply_ns: Option<Distribution>,
    gap_ns: Option<Distribution>,
    stalls: Option<u64>,
    stall_lost_ns: Option<u64>,
    concurrent: Option<u64>,
    concurrent_max: Option<u64>,
    /// Connections that were established, and whose time was not over.
    left_held: Option<u64>,
}

impl ClientResult {
    pub(super) fn new(run: &Run<'_>, [handshakes, replies]: [Histogram; 2]) -> Self {
        let Run { plan, report, counts, .. } = run;
        let is_held = plan.concurrent.is_some();
        let (opened, ended) = (report.sent.syns.offered_packets, report.sent.ends.offered_packets);
        let requested_cps = match plan.requested.0 {
            Rate::Pps(rate_cps) => Some(rate_cps),
            _ => None,
        };
        let is_paced = requested_cps.is_some();
        // The threads go on after the last SYN, for what is held or may have to be sent again.
        let goes_on = is_held || plan.config.retries > 0;
        let through = ledger::through(&plan.course, counts);
        let opening = Some(run.opening).filter(|time| goes_on && !time.is_zero());
        Self {
            kind: CLIENT_TOTALS,
            end: "client",
            interface: plan.path.link.name.clone(),
            ended_by: run.ended_by,
            course: plan.course,
            reply_bytes: plan.config.reply_bytes,
            flow_count: plan.flow_count,
            requested: plan.requested.to_string(),
            requested_cps,
            duration_ns: nanoseconds(report.duration),
            opened_cps: per_second(opened, opening.unwrap_or(report.duration)),
            through,
            through_cps: per_second(through, opening.unwrap_or(report.duration)),
            retries: plan.config.retries,
            ledger: Ledger::new(counts, None),
            missing: ledger::missing(&plan.course, counts, None),
            unexpected: counts.unexpected().map(|(name, _, count)| (name, count)).collect(),
            counts: *counts,
            handshake_ns: Distribution::new(&handshakes),
            reply_ns: Distribution::new(&replies),
            gap_ns: Distribution::new(&report.gaps_ns),
            stalls: is_paced.then_some(report.sent.syns.stalls),
            stall_lost_ns: is_paced.then_some(report.sent.syns.stall_lost_ns),
            concurrent: plan.concurrent,
            concurrent_max: is_held.then_some(run.concurrent_max),
            left_held: is_held.then_some(opened.saturating_sub(ended).min(run.held)),
        }
    }

    pub(super) fn show(&self, json: bool) -> anyhow::Result<()> {
        show_total(self, &self.text(), json)
    }

    fn text(&self) -> String {
        let again = match self.retries {
            0 => "nothing".to_owned(),
            _ => counted(self.counts.retry, "SYN"),
        };
        let mut text = format!(
            "{} connections/s came through, {}/s were opened for {:.3} s, requested {}; {again} \
             sent again\n",
            format_rate(self.through_cps),
            format_rate(self.opened_cps),
            Duration::from_nanos(self.duration_ns).as_secs_f64(),
            self.requested,
        );
        text += &ledger(&self.ledger);
        text += &missing(&self.missing);
        text += &unexpected("unexpected:", &self.counts);
        for (name, times) in [("SYN to SYN-ACK", &self.handshake_ns), ("reply", &self.reply_ns)] {
            if let Some(times) = times {
                let _ = writeln!(text, "{name:<NAME_WIDTH$}{}", times.words());
            }
        }
        if let (Some(stalls), Some(lost_ns)) = (self.stalls, self.stall_lost_ns) {
            let lost = delay_ns(lost_ns);
            let _ = writeln!(text, "{:<NAME_WIDTH$}{stalls}, which lost {lost}", "stalls");
        }
        if let (Some(most), Some(left)) = (self.concurrent_max, self.left_held) {
            let (most, left) = (format_count(most), format_count(left));
            let _ = writeln!(text, "{:<NAME_WIDTH$}{most} at most, {left} left open", "held");
        }
        if self.counts.syn > 0 && self.counts.syn_ack + self.counts.refused == 0 {
            text += "nobody answered: see that the device under test forwards to --dst, and that \
                     the way back to --src leads to this interface\n";
        }
        let is_translated = self.counts.stranger > 0 && self.counts.fin > self.counts.closed;
        if self.concurrent.is_some() && is_translated {
            text += "the server's numbers are not those of `weir connect serve` at the same \
                     addresses: connections to it that are held can be ended with --close rst \
                     alone\n";
        }
        text
    }
}

/// The counters of the server.
#[derive(Debug, Serialize)]
pub(super) struct ServerReport {
    kind: &'static str,
    end: &'static str,
    duration_ns: u64,
    established_cps: f64,
    counts: Counts,
    unexpected: BTreeMap<&'static str, u64>,
}

impl ServerReport {
    /// Counts since the start; the rate is of the time since `from`, when `before` were
    /// established.
    pub(super) fn new(
        kind: &'static str,
        begin: Instant,
        (from, before): (Instant, u64),
        counts: Counts,
    ) -> Self {
        Self {
            kind,
            end: "server",
            duration_ns: nanoseconds(begin.elapsed()),
            established_cps: per_second(counts.established - before, from.elapsed()),
            unexpected: counts.unexpected().map(|(name, _, count)| (name, count)).collect(),
            counts,
        }
    }

    /// Name and count of each step that the server sees.
    const fn rows(&self) -> [(&'static str, u64); 8] {
        let counts = &self.counts;
        [
            ("SYN seen", counts.syn),
            ("SYN-ACK sent", counts.syn_ack),
            ("established", counts.established),
            ("request seen", counts.request),
            ("reply sent", counts.reply),
            ("FIN seen", counts.fin),
            ("closed", counts.closed),
            ("reset", counts.reset),
        ]
    }

    pub(super) fn line(&self) -> String {
        let seconds = Duration::from_nanos(self.duration_ns).as_secs_f64();
        let mut text = format!("{seconds:>6.1} s  {}/s", format_rate(self.established_cps));
        for (name, count) in self.rows().into_iter().filter(|(_, count)| *count > 0) {
            let _ = write!(text, ", {name} {}", format_count(count));
        }
        text
    }

    pub(super) fn block(&self) -> String {
        let mut text = String::new();
        for (name, count) in self.rows() {
            let _ = writeln!(text, "{name:<NAME_WIDTH$}{}", format_count(count));
        }
        text += &unexpected("unexpected:", &self.counts);
        let passed = format_count(self.counts.passed_packets);
        let _ = writeln!(text, "{passed} other packets went to the network stack");
        text
    }
}

/// The eight counters.
pub(super) fn ledger(ledger: &Ledger) -> String {
    let mut text = String::new();
    for (name, count) in ledger.rows() {
        let count = count.map_or_else(|| "- (the server's own count)".to_owned(), format_count);
        let _ = writeln!(text, "{name:<NAME_WIDTH$}{count}");
    }
    text
}

/// Where connections were lost.
pub(super) fn missing(missing: &[Missing]) -> String {
    let name = |step: &str| step.replace('_', " ");
    let mut text = String::new();
    for lost in missing {
        let (after, before) = (name(lost.after), name(lost.before));
        let count = format_count(lost.count.unsigned_abs());
        let _ = if lost.count > 0 {
            writeln!(
                text,
                "{:<NAME_WIDTH$}{count} between {after} and {before}: {}",
                "missing", lost.place
            )
        } else {
            writeln!(
                text,
                "{:<NAME_WIDTH$}{count} more {before} than {after}: sent again by the other end",
                "repeated"
            )
        };
    }
    if missing.is_empty() {
        text += "nothing is missing\n";
    }
    text
}

/// What belongs to no step of a connection, behind a word of who saw it.
pub(super) fn unexpected(who: &str, counts: &Counts) -> String {
    let mut text = String::new();
    for (_, what, count) in counts.unexpected() {
        let _ = writeln!(text, "{who:<NAME_WIDTH$}{} {what}", format_count(count));
    }
    text
}

fn per_second(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// A rate in whole connections per second.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates, and rates are not negative"
)]
fn format_rate(rate_cps: f64) -> String {
    format_count(rate_cps.round() as u64)
}

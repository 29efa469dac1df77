//! `weir reflect`: attaches the reflector, shows its counters, detaches it.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use weir_bpf::reflect::{ReflectCounters, ReflectProgram};
use weir_results::number::pps;
use weir_wire::units::format_count;

use crate::cli::ReceiveOptions;
use crate::exit::Outcome;
use crate::progress;
use crate::receive::{Screen, Session};

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    kind: &'static str,
    duration_ns: u64,
    rate_pps: f64,
    reflected_packets: u64,
    reflected_bytes: u64,
    passed_packets: u64,
}

impl Report {
    /// Counts since the start; the rate is of the time since `from`, when it was `before`.
    fn new(
        kind: &'static str,
        begin: Instant,
        (from, before): (Instant, u64),
        counters: &ReflectCounters,
    ) -> Self {
        let packets = counters.reflected_packets - before;
        Self {
            kind,
            duration_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            rate_pps: packets as f64 / from.elapsed().as_secs_f64().max(1e-9),
            reflected_packets: counters.reflected_packets,
            reflected_bytes: counters.reflected_bytes,
            passed_packets: counters.passed_packets,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{:.0} s  {}  {} packets returned, {} bytes; {} passed to the network stack",
            std::time::Duration::from_nanos(self.duration_ns).as_secs_f64(),
            pps(self.rate_pps),
            format_count(self.reflected_packets),
            format_count(self.reflected_bytes),
            format_count(self.passed_packets),
        );
        text
    }
}

/// Runs the command.
pub(crate) fn command(options: &ReceiveOptions) -> anyhow::Result<Outcome> {
    let session = Session::open("weir reflect", options)?;
    if let Some(note) = session.returning_note() {
        progress::warn(&note);
    }
    let program = ReflectProgram::load()?;
    let attached = program.attach(session.link.ifindex, session.mode);
    let link = attached.map_err(|error| session.explain(&error))?;
    let mut screen = Screen::new(session.json);
    let begin = Instant::now();
    let mut last = (begin, 0);
    let outcome = session.run(|| {
        let counters = program.counters()?;
        let report = Report::new("interval", begin, last, &counters);
        last = (Instant::now(), counters.reflected_packets);
        screen.interval(
            || serde_json::to_string(&report),
            || report.text(),
            || report.text() + "\n",
        )
    });
    drop(link);
    let report = Report::new("total", begin, (begin, 0), &program.counters()?);
    screen.total(|| serde_json::to_string(&report), || format!("total: {}\n", report.text()))?;
    outcome
}

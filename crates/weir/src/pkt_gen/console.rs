//! pkt-gen's lines on standard error, and when a report is due.

use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime};

use weir_gen::pkt_gen::Plan;
use weir_gen::pkt_gen::print::{self, Counters, Reporter};

use super::elapsed_us;

/// Prints a line: function and place in the program, text.
pub(super) fn log(function: &str, line: u32, text: &(impl fmt::Display + ?Sized)) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let line = print::log_line(now, function, line, text);
    // Nobody is left to tell if standard error is closed.
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Prints a report each interval.
pub(super) struct ReportTimer {
    reporter: Reporter,
    interval: Duration,
    last: Instant,
    packets: u64,
}

impl ReportTimer {
    /// The first interval begins now.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            reporter: Reporter::new(plan.style),
            interval: plan.report_interval,
            last: Instant::now(),
            packets: 0,
        }
    }

    /// When the next report is due.
    pub(super) fn due(&self) -> Instant {
        self.last + self.interval
    }

    /// Whether it is.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due()
    }

    /// Prints what was counted since the last report, if that is long enough ago.
    pub(super) fn print(&mut self, now: Counters) {
        let now_at = Instant::now();
        if let Some(report) = self.reporter.report(now, elapsed_us(self.last)) {
            log("main_thread", line!(), &report);
            self.last = now_at;
            self.packets = now.packets;
        }
    }

    /// The report of an interval that the end has cut short; nothing if nothing came in it.
    pub(super) fn end(&mut self, now: Counters) {
        if now.packets > self.packets {
            self.print(now);
        }
    }
}

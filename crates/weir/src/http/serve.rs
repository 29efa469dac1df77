//! `weir http serve`: starts the workers, shows what they count, ends them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weir_http::served::{Served, Stats};
use weir_load::crew::{Program, Role};
use weir_load::server::tls::Certificate;
use weir_load::server::{Server, ServerOptions};
use weir_net::cpu;
use weir_results::number::{counted, counted_len, duration};
use weir_wire::units::{format_count, whole_ns};

use super::buckets::Buckets;
use crate::cli::http_serve::ServeArgs;
use crate::exit::Outcome;
use crate::receive::Screen;
use crate::{progress, signals};

/// How often is looked for signals.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Between two lines of --progress.
const INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn command(args: &ServeArgs) -> anyhow::Result<Outcome> {
    let online = cpu::online()?;
    let cpus: Vec<usize> = args.pin.iter().flat_map(|cpus| cpus.iter()).collect();
    for cpu in &cpus {
        ensure!(online.contains(*cpu), "--pin: this process may use CPU {online}, and not {cpu}");
    }
    let default_count = if cpus.is_empty() { online.count() } else { cpus.len() };
    let cancel = signals::listen_alone()?;
    let buckets = Buckets::new(args)?;
    let bucket_count = buckets.as_ref().map(|buckets| buckets.listeners.len());
    let (listeners, _steering) = match buckets {
        Some(Buckets { listeners, steering }) => (listeners, Some(steering)),
        None => (Vec::new(), None),
    };
    let options = ServerOptions {
        program: Program::worker(Role::Server).context(super::NO_PROGRAM)?,
        listen: args.listen.clone(),
        listeners,
        worker_count: bucket_count.or(args.workers.map(usize::from)).unwrap_or(default_count),
        cpus,
        certificate: certificate(args),
    };
    let mut server = Server::start(&options)?;
    let workers = counted_len(server.worker_count(), "worker");
    for address in server.addresses() {
        let scheme = if args.tls { "https" } else { "http" };
        progress::note(&format!("serving {scheme}://{address}/ with {workers}"));
    }
    if options.certificate == Some(Certificate::SelfSigned) {
        progress::note("its certificate is signed by itself: clients have to take any");
    }
    let mut screen = Screen::new(args.json.json);
    let begin = Instant::now();
    let end = args.duration.and_then(|duration| begin.checked_add(duration));
    let mut last = Report::new("interval", begin, None, server.stats()?);
    let mut next = begin + INTERVAL;
    let outcome = loop {
        if let Some(signal) = cancel.signal() {
            break Outcome::Signal(signal);
        }
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break Outcome::Done;
        }
        let left = end.map_or(LOOK_AGAIN, |end| end.duration_since(now));
        server.run_for(left.min(LOOK_AGAIN))?;
        if args.progress && Instant::now() >= next {
            next = Instant::now() + INTERVAL;
            let report = Report::new("interval", begin, Some(&last), server.stats()?);
            screen.interval(
                || serde_json::to_string(&report),
                || report.line(),
                || report.line() + "\n",
            )?;
            last = report;
        }
    };
    let report = Report::new("total", begin, None, server.stop()?);
    screen.total(|| serde_json::to_string(&report), || report.block())?;
    Ok(outcome)
}

/// What TLS is served with.
fn certificate(args: &ServeArgs) -> Option<Certificate> {
    args.tls.then(|| match (&args.cert, &args.key) {
        (Some(certificate), Some(key)) => {
            Certificate::Files { certificate: certificate.clone(), key: key.clone() }
        }
        _ => Certificate::SelfSigned,
    })
}

/// What was counted up to some time.
#[derive(Debug, Serialize)]
struct Report {
    kind: &'static str,
    /// Since the start.
    t_ns: u64,
    /// Of an interval, or of the whole time.
    connections_cps: f64,
    requests_rps: f64,
    #[serde(flatten)]
    stats: Stats,
}

impl Report {
    /// Rates are those since `last`, or since the start.
    fn new(kind: &'static str, begin: Instant, last: Option<&Self>, stats: Stats) -> Self {
        let t_ns = whole_ns(begin.elapsed());
        let (since_ns, before) =
            last.map_or((0, Served::default()), |last| (last.t_ns, last.stats.served));
        let elapsed_s = Duration::from_nanos(t_ns - since_ns).as_secs_f64().max(1e-9);
        let rate = |now: u64, before: u64| (now - before) as f64 / elapsed_s;
        Self {
            kind,
            t_ns,
            connections_cps: rate(stats.served.connections, before.connections),
            requests_rps: rate(stats.served.requests, before.requests),
            stats,
        }
    }

    fn line(&self) -> String {
        let served = &self.stats.served;
        let elapsed_s = Duration::from_nanos(self.t_ns).as_secs_f64();
        let mut text = format!(
            "{elapsed_s:>6.1} s  {:.0} connections/s, {:.0} requests/s, {} open",
            self.connections_cps,
            self.requests_rps,
            format_count(served.open)
        );
        for (name, count) in troubles(&self.stats) {
            if count > 0 {
                text += &format!(", {name} {}", format_count(count));
            }
        }
        text
    }

    fn block(&self) -> String {
        let served = &self.stats.served;
        let mut text = format!(
            "{} ({} open), {}, {}\n",
            counted(served.connections, "connection"),
            format_count(served.open),
            counted(served.requests, "request"),
            counted(served.responses(), "response"),
        );
        let rows = [
            ("full handshakes", served.handshakes_full),
            ("resumed handshakes", served.handshakes_resumed),
            ("closed by clients", served.closed_by_client),
            ("closed by the server", served.closed_by_server),
            ("responses 2xx", served.responses_2xx),
            ("responses 3xx", served.responses_3xx),
            ("bytes received", served.received_bytes),
            ("of them bodies", served.body_received_bytes),
            ("bytes sent", served.sent_bytes),
        ];
        for (name, count) in rows.into_iter().chain(troubles(&self.stats)) {
            if count > 0 {
                text += &format!("  {name:<22}{:>20}\n", format_count(count));
            }
        }
        // In milliseconds, which is what anybody reads.
        let cpu_time = duration(served.cpu_ns / 1_000_000 * 1_000_000);
        text + &format!("  {:<22}{cpu_time:>20}\n", "CPU time of workers")
    }
}

/// What there would be none of if all went well.
fn troubles(stats: &Stats) -> [(&'static str, u64); 8] {
    let served = &stats.served;
    [
        ("failed handshakes", served.handshakes_failed),
        ("responses 4xx", served.responses_4xx),
        ("responses 5xx", served.responses_5xx),
        ("bad requests", served.bad_requests),
        ("closed early", served.closed_early),
        ("reset", served.reset),
        ("accept stalls", served.accept_stalls),
        ("listen overflows", stats.listen_overflows),
    ]
}

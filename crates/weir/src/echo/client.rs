//! `weir echo client`.

use std::time::{Duration, Instant};

use anyhow::ensure;
use weir_gen::echo::client::{Client, ClientOptions, PAYLOAD_BYTES_MIN};
use weir_gen::echo::report::{self, Announcement};
use weir_machine::cancel::Cancel;
use weir_wire::rss::Settings;
use weir_wire::traffic;

use super::flows::ClientFlow;
use super::interval::{Interval, Reading};
use super::totals::ClientReport;
use super::{flows, in_turn, machines, written};
use crate::cli::echo::ClientArgs;
use crate::exit::Outcome;
use crate::receive::Screen;
use crate::{progress, signals};

/// How long it sends, if nothing says it.
const DURATION: Duration = Duration::from_secs(10);
/// How often is looked whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Ethernet's and UDP's headers, and those of IPv4 and IPv6.
const HEADERS_BYTES: [usize; 2] = [14 + 8 + 20, 14 + 8 + 40];

pub(super) fn command(args: &ClientArgs) -> anyhow::Result<Outcome> {
    let payload_bytes = payload_bytes(args)?;
    if !args.on.is_empty() {
        return machines::command(args);
    }
    ensure!(!args.remote.is_given(), "--ssh-config and --program are of machines: name one (--on)");
    let rate = traffic::resolve_rate(args.rate, args.size.into(), None)?;
    let rate_pps = traffic::rate_pps(rate)?;
    let cancel = signals::listen_alone()?;
    let announced = match report::ask(args.server) {
        Ok(announced) => Some(announced),
        Err(error) => {
            progress::note(&format!("{error}; what it counts is not shown"));
            None
        }
    };
    let settings = settings(args, announced.as_ref())?;
    let flows = flows::flows(args, settings.as_ref())?;
    let options = ClientOptions {
        server: args.server,
        sources: flows.iter().map(|flow| flow.source).collect(),
        thread_count: args.clients.into(),
        cpus: in_turn(args.cpus.iter().flat_map(|cpus| cpus.iter())),
        payload_bytes,
        rate_pps,
        packet_limit: args.count,
    };
    let client = Client::start(&options)?;
    let mut screen = Screen::new(args.json.json);
    let stopped = watch(args, (&client, &flows), &cancel, &mut screen)?;
    client.finish();
    let counts = client.join()?;
    let server = announced.and_then(|before| {
        let after = report::ask(args.server);
        let why = |error| progress::warn(&format!("{error}; what it has counted is not shown"));
        Some((before, after.map_err(why).ok()?))
    });
    let mut report = ClientReport::new(&flows, &counts);
    if let Some(server) = &server {
        report.add_server(settings.as_ref(), server);
    }
    screen.total(|| serde_json::to_string(&report), || report.text())?;
    Ok(stopped.map_or(Outcome::Done, Outcome::Signal))
}

fn payload_bytes(args: &ClientArgs) -> anyhow::Result<usize> {
    let headers = HEADERS_BYTES[usize::from(args.server.is_ipv6())];
    let least = headers + PAYLOAD_BYTES_MIN;
    ensure!(
        (least..=1514).contains(&args.size.into()),
        "--size {}: a frame of this client has {least} to 1514 bytes, without FCS",
        args.size
    );
    Ok(usize::from(args.size) - headers)
}

fn settings(
    args: &ClientArgs,
    announced: Option<&Announcement>,
) -> anyhow::Result<Option<Settings>> {
    if let Some(settings) = written(&args.spread) {
        return Ok(Some(settings));
    }
    announced
        .map(|announced| announced.settings().map_err(|why| anyhow::anyhow!("{why}")))
        .transpose()
}

/// Shows what there is until it has ended; the signal that ended it.
fn watch(
    args: &ClientArgs,
    (client, flows): (&Client, &[ClientFlow]),
    cancel: &Cancel,
    screen: &mut Screen,
) -> anyhow::Result<Option<i32>> {
    let begin = Instant::now();
    let duration = args.duration.or_else(|| args.count.is_none().then_some(DURATION));
    let end = duration.and_then(|duration| begin.checked_add(duration));
    let (mut next, mut last) = (begin + args.interval, Reading::first(begin));
    while client.is_running() {
        let wake = end.map_or(next, |end| end.min(next)).min(Instant::now() + LOOK_AGAIN);
        if !cancel.sleep_until(wake) {
            return Ok(cancel.signal());
        }
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if now >= next {
            next = now + args.interval;
            let reading = Reading::new(now, flows, &client.counts()?);
            let interval = Interval::new(begin, &last, &reading);
            screen.interval(
                || serde_json::to_string(&interval),
                || interval.line(),
                || interval.text(),
            )?;
            last = reading;
        }
    }
    Ok(None)
}

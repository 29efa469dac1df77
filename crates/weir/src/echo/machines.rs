//! Clients on other machines: `weir echo client` runs on each of them, on all at once.
//!
//! Each counts for itself. What the server has counted is asked for, from the first machine, before
//! any of them begins and after all have ended, so that it is what they all have sent. This machine
//! need not reach the server.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weir_gen::echo::report::Announcement;
use weir_machine::cancel::Cancel;
use weir_machine::host::Host as _;
use weir_machine::ssh::SshHost;
use weir_results::document::{Column, Row, Table, Terminal};
use weir_wire::traffic;
use weir_wire::units::Rate;

use super::interval::Interval;
use super::totals::{CLIENT_COLUMNS, ClientReport};
use super::written;
use crate::cli::echo::{ClientArgs, SpreadArgs};
use crate::exit::Outcome;
use crate::receive::Screen;
use crate::{progress, remote, signals};

/// How often is looked what clients have told.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long clients may take to sum up; they wait for answers for two seconds.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// All clients together, and one by one.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    all: ClientReport,
    clients: Vec<Client>,
}

#[derive(Debug, Serialize)]
struct Client {
    machine: String,
    #[serde(flatten)]
    counted: ClientReport,
}

pub(super) fn command(args: &ClientArgs) -> anyhow::Result<Outcome> {
    check(args)?;
    let cancel = signals::listen_alone()?;
    let mut screen = Screen::new(args.json.json);
    let report = run(args, &cancel, &mut screen)?;
    screen.total(|| serde_json::to_string(&report), || report.text())?;
    Ok(cancel.signal().map_or(Outcome::Done, Outcome::Signal))
}

/// What does not go together with several machines.
fn check(args: &ClientArgs) -> anyhow::Result<()> {
    let count = args.on.len() as u64;
    ensure!(
        args.source.is_none() || count == 1,
        "--source: {count} machines cannot all have the same addresses: leave it out, and each \
         sends from its own"
    );
    ensure!(
        args.count.is_none_or(|packets| packets >= count),
        "--count: fewer datagrams than there are machines"
    );
    for (index, name) in args.on.iter().enumerate() {
        ensure!(
            !args.on[..index].contains(name),
            "--on {name} is given twice: --clients has several threads there"
        );
    }
    Ok(())
}

fn run(args: &ClientArgs, cancel: &Cancel, screen: &mut Screen) -> anyhow::Result<Report> {
    let hosts = args.on.iter().map(|name| remote::connect(&args.remote, name, cancel));
    let hosts: Vec<SshHost> = hosts.collect::<anyhow::Result<_>>()?;
    let first = hosts.first().context("--on names no machine")?;
    let counted_there = || {
        let note =
            |error| progress::note(&format!("{error:#}; what the server counts is not shown"));
        ask(args, first).map_err(note).ok()
    };
    let before = counted_there();
    let clients = all_at_once(args, &hosts, cancel, screen)?;
    // Without it, the clients' own totals are as good as with it.
    let after = before.as_ref().and_then(|_| counted_there());
    let counted = clients.into_iter().map(ClientReport::without_server);
    let counted: Vec<ClientReport> = counted.collect();
    let mut all = ClientReport::of_all(&counted);
    if let (Some(before), Some(after)) = (before, after) {
        let settings = match written(&args.spread) {
            Some(settings) => Some(settings),
            None => before.settings().ok(),
        };
        all.add_server(settings.as_ref(), &(before, after));
    }
    let named = args.on.iter().cloned().zip(counted);
    let clients = named.map(|(machine, counted)| Client { machine, counted }).collect();
    Ok(Report { all, clients })
}

fn ask(args: &ClientArgs, host: &SshHost) -> anyhow::Result<Announcement> {
    let words = ["echo", "ask", &args.server.to_string(), "--json"].map(str::to_owned);
    let text = remote::run(host, &args.remote, &words, Duration::ZERO, false)?;
    serde_json::from_str(&text).with_context(|| format!("{}: no announcement", host.name()))
}

/// A client, and what it has told.
struct Started<'a> {
    running: remote::Running<'a>,
    has_ended: bool,
    last: Option<Interval>,
    total: Option<ClientReport>,
}

impl Started<'_> {
    fn look(&mut self) -> anyhow::Result<()> {
        let Self { running, has_ended, last, total } = self;
        *has_ended = *has_ended
            || running.look(|line| {
                // Both have a kind, which tells them apart by what else they have to have.
                if let Ok(report) = serde_json::from_str(line) {
                    *total = Some(report);
                } else if let Ok(interval) = serde_json::from_str(line) {
                    *last = Some(interval);
                }
            })?;
        Ok(())
    }
}

/// Runs a client on each machine; the first that fails ends all. A signal makes them sum up.
fn all_at_once(
    args: &ClientArgs,
    hosts: &[SshHost],
    cancel: &Cancel,
    screen: &mut Screen,
) -> anyhow::Result<Vec<ClientReport>> {
    let mut clients = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let words = words(args, index)?;
        let running = remote::Running::start(host, &args.remote, &words)?;
        clients.push(Started { running, has_ended: false, last: None, total: None });
    }
    let (begin, mut asked) = (Instant::now(), None);
    let mut next = begin + args.interval;
    while !clients.iter().all(|client| client.has_ended) {
        thread::sleep(LOOK_AGAIN);
        clients.iter_mut().try_for_each(Started::look)?;
        let now = Instant::now();
        if cancel.signal().is_some() && asked.is_none() {
            asked = Some(now);
            clients.iter_mut().try_for_each(|client| client.running.interrupt())?;
        }
        ensure!(
            asked.is_none_or(|asked| now < asked + END_PATIENCE),
            "clients do not sum up within {END_PATIENCE:?} after they were told to end"
        );
        if now >= next {
            next = now + args.interval;
            if let Some(all) = Interval::of_all(clients.iter().map(|client| &client.last)) {
                screen.interval(|| serde_json::to_string(&all), || all.line(), || all.text())?;
            }
        }
    }
    let total = |(client, host): (Started<'_>, &SshHost)| {
        client.total.with_context(|| format!("{}: no totals of a client", host.name()))
    };
    clients.into_iter().zip(hosts).map(total).collect()
}

/// What is run on the machine of that number. Rate and count are of all machines together.
fn words(args: &ClientArgs, index: usize) -> anyhow::Result<Vec<String>> {
    let machine_count = args.on.len();
    let mut words: Vec<String> = ["echo", "client"].map(str::to_owned).into();
    words.push(args.server.to_string());
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([name.to_owned(), value]);
        }
    };
    add("--size", Some(args.size.to_string()));
    add("--clients", Some(args.clients.to_string()));
    add("--buckets", args.buckets.clone());
    add("--flows", args.flows.map(|flows| flows.to_string()));
    add("--source", args.source.map(|source| source.to_string()));
    add("--cpus", args.cpus.as_ref().map(ToString::to_string));
    add("--rate", rate(args, machine_count)?);
    let share = |packets: u64| {
        let (count, number) = (machine_count as u64, index as u64);
        packets / count + u64::from(number < packets % count)
    };
    add("--count", args.count.map(|packets| share(packets).to_string()));
    add("--interval", Some(format!("{}us", args.interval.as_micros())));
    add("--duration", args.duration.map(|duration| format!("{}us", duration.as_micros().max(1))));
    let SpreadArgs { table, key, fields } = &args.spread;
    let queues = |table: &weir_wire::rss::Table| {
        let queues: Vec<String> = table.queues().iter().map(ToString::to_string).collect();
        queues.join(",")
    };
    add("--table", table.as_ref().map(queues));
    add("--key", key.as_ref().map(ToString::to_string));
    add("--fields", fields.map(|fields| fields.to_string()));
    words.push("--json".to_owned());
    Ok(words)
}

fn rate(args: &ClientArgs, machine_count: usize) -> anyhow::Result<Option<String>> {
    let rate = traffic::resolve_rate(args.rate, args.size.into(), None)?;
    Ok(match rate {
        Rate::Max => None,
        _ => {
            let rate_pps = traffic::rate_pps(rate)?.unwrap_or_default() / machine_count as f64;
            Some(format!("{rate_pps:.6}pps"))
        }
    })
}

impl Report {
    fn text(&self) -> String {
        let columns = CLIENT_COLUMNS.map(Column::numbers).to_vec();
        let rows = self
            .clients
            .iter()
            .map(|client| Row::from_iter(client.counted.columns(&client.machine)));
        let table = Table::new(columns, rows).text(Terminal::default());
        format!("{}\n{table}", self.all.text())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::echo::EchoCommand;
    use crate::cli::{Cli, Command};

    fn args(more: &[&str]) -> ClientArgs {
        let line = ["weir", "echo", "client", "10.0.0.1:7", "--on", "a", "--on", "b", "--on", "c"];
        let cli = Cli::try_parse_from([&line[..], more].concat()).unwrap();
        match cli.command {
            Command::Echo(EchoCommand::Client(args)) => *args,
            _ => panic!("another command"),
        }
    }

    #[test]
    fn rate_and_count_are_divided_and_the_rest_is_of_each() {
        let args = args(&["--count", "8", "--rate", "3kpps", "--buckets", "0-3", "--clients", "2"]);
        let shares: Vec<String> =
            (0..3).map(|index| words(&args, index).unwrap().join(" ")).collect();
        for (share, count) in shares.iter().zip([3, 3, 2]) {
            assert!(share.contains(&format!("--count {count} ")), "{share}");
            assert!(share.contains("--rate 1000.000000pps"), "{share}");
            assert!(share.contains("--buckets 0-3 ") && share.contains("--clients 2"), "{share}");
            assert!(share.ends_with("--json"), "{share}");
        }
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        for (more, why) in [
            (&["--count", "2"][..], "fewer datagrams"),
            (&["--source", "10.0.0.2"], "leave it out"),
            (&["--on", "b"], "given twice"),
        ] {
            let error = check(&args(more)).unwrap_err().to_string();
            assert!(error.contains(why), "{more:?}: {error}");
        }
    }
}

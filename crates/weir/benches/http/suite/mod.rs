//! What `make bench-http` measures; the tests run the same, tiny. Requests take seconds even then.
//!
//! Namespaces are written down before they are made. Both ends of connections without sockets, and
//! what stands between them, work on one CPU: each veth hands packets on where they were sent. Of
//! kernel sockets the client has that CPU, and only its time counts.

mod bed;
mod held;
mod requests;
pub(crate) mod rows;
mod servers;
pub(crate) mod show;
mod sockets;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use weir_machine::cancel::Cancel;
use weir_net::cpu;

pub(crate) use crate::limits::{Row, RowSpec, Samples};
use crate::near::Near;
pub(crate) use crate::support::report::Machine;
use bed::{Bed, Between};
use requests::{Case, Client, Names};
use rows::{CONNECT, FW, LEDGER_FW, LEDGER_NFT, NFT, SOCKETS};
use rows::{HELD, MEMORY, NGINX, OPENING, SERVE, TIMES_NGINX, WRK_64, WRK_1000, WRK_CLOSE};
use rows::{HTTP_64, HTTP_1000, HTTP_CLOSE, TIMES_WRK_64, TIMES_WRK_1000, TIMES_WRK_CLOSE};
use rows::{OHA_64, OHA_1000, TIMES_OHA_64, TIMES_OHA_1000};
use rows::{TIMES_FW, TIMES_HTTP, TIMES_SOCKETS};

/// What a step of the benchmark returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How much is measured.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long a sample waits for CPUs that share a cache.
    pub(crate) patience: Duration,
    /// Number of rounds.
    pub(crate) repeats: u32,
    /// How long each way to connect is measured in each round.
    pub(crate) sample: Duration,
    /// Connections of which the ledger is compared with the firewall's own count.
    pub(crate) ledger_connections: u64,
    /// Connections that are held at a time, and those of which the memory is measured.
    pub(crate) held_connections: u64,
    /// What is measured: [`rows::ROWS`], or some of them.
    pub(crate) rows: Vec<&'static RowSpec>,
    /// The binary that is the firewall.
    pub(crate) weir: PathBuf,
}

impl Settings {
    fn wants(&self, names: &[&str]) -> bool {
        self.rows.iter().any(|row| names.contains(&row.name))
    }
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it ran on.
    pub(crate) machine: Machine,
    /// In the order of the settings'.
    pub(crate) rows: Vec<Row>,
    /// Samples that were taken while the first two CPUs were far apart.
    pub(crate) far_count: u32,
}

/// Measures everything, row after row in each round; `say` is told how far it is.
pub(crate) fn run(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let machine = Machine::read();
    let mut samples = Samples::new();
    let near = Near::new(cpu::first_two()?, settings.patience);
    for round in 1..=settings.repeats {
        say(&format!("round {round} of {}", settings.repeats));
        if settings.wants(&[CONNECT, SOCKETS, TIMES_SOCKETS, TIMES_HTTP]) {
            direct(settings, (&near, cancel), &mut samples)?;
        }
        if settings.wants(&[FW, NFT, TIMES_FW]) {
            through(settings, (&near, cancel), &mut samples)?;
        }
        for (case, names) in CASES {
            requests(settings, (&near, cancel), &mut samples, (case, names))?;
        }
        if settings.wants(&[TIMES_HTTP]) {
            let last = |name| samples.get(name).and_then(|all| all.last()).copied();
            let times = last(CONNECT).zip(last(HTTP_CLOSE)).map(|(connect, http)| connect / http);
            add(&mut samples, TIMES_HTTP, times.ok_or("neither has a sample")?);
        }
        if settings.wants(&[SERVE, NGINX, TIMES_NGINX]) {
            let bed = Bed::new(Between::Nothing, settings)?;
            let (weir, nginx) = near.sample(cancel, || servers::rates(&bed, settings, cancel))?;
            add(&mut samples, SERVE, weir);
            if let Some(nginx) = nginx {
                add(&mut samples, NGINX, nginx);
                add(&mut samples, TIMES_NGINX, weir / nginx);
            }
        }
        if settings.wants(&[MEMORY, HELD, OPENING]) {
            let bed = Bed::new(Between::Nothing, settings)?;
            let held = held::hold(&bed, settings, cancel)?;
            add(&mut samples, MEMORY, held.connection_bytes);
            add(&mut samples, HELD, held.good_ratio);
            add(&mut samples, OPENING, held.opening_s);
        }
        for (name, between) in [(LEDGER_FW, Between::Weir), (LEDGER_NFT, Between::Nftables)] {
            if settings.wants(&[name]) {
                let bed = Bed::new(between, settings)?;
                add(&mut samples, name, bed.agreement(settings, cancel)?);
            }
        }
    }
    let rows = settings.rows.iter().map(|&spec| Row::new(spec, &samples)).collect();
    Ok(Outcome { machine, rows, far_count: near.far_count() })
}

/// Where samples are taken, and how it is ended.
type Place<'a> = (&'a Near, &'a Cancel);

/// Nothing between the ends.
fn direct(settings: &Settings, (near, cancel): Place<'_>, samples: &mut Samples) -> Result<()> {
    let bed = Bed::new(Between::Nothing, settings)?;
    let (connect, sockets) = near.sample(cancel, || -> Result<(f64, f64)> {
        Ok((bed.rate(settings, cancel)?, sockets::rate(&bed, settings, cancel)?))
    })?;
    add(samples, CONNECT, connect);
    add(samples, SOCKETS, sockets);
    add(samples, TIMES_SOCKETS, connect / sockets);
    Ok(())
}

/// Requests, and the rows of weir and of other clients.
const CASES: [(Case, Names); 3] = [
    (
        Case { connections: 64, closes: false },
        Names {
            weir: HTTP_64,
            others: &[(Client::Wrk, WRK_64, TIMES_WRK_64), (Client::Oha, OHA_64, TIMES_OHA_64)],
        },
    ),
    (
        Case { connections: 1000, closes: false },
        Names {
            weir: HTTP_1000,
            others: &[
                (Client::Wrk, WRK_1000, TIMES_WRK_1000),
                (Client::Oha, OHA_1000, TIMES_OHA_1000),
            ],
        },
    ),
    (
        Case { connections: 64, closes: true },
        Names { weir: HTTP_CLOSE, others: &[(Client::Wrk, WRK_CLOSE, TIMES_WRK_CLOSE)] },
    ),
];

/// Over HTTP, nothing between: by weir, and by each other client that is chosen and there.
fn requests(
    settings: &Settings,
    (near, cancel): Place<'_>,
    samples: &mut Samples,
    (case, Names { weir, others }): (Case, Names),
) -> Result<()> {
    let chosen: Vec<_> =
        others.iter().filter(|(_, by, times)| settings.wants(&[by, times])).collect();
    let is_asked = settings.wants(&[weir]) || (case.closes && settings.wants(&[TIMES_HTTP]));
    if chosen.is_empty() && !is_asked {
        return Ok(());
    }
    let bed = Bed::new(Between::Nothing, settings)?;
    let (rate, rates) = near.sample(cancel, || {
        let clients = chosen.iter().map(|(client, ..)| *client);
        requests::rates(&bed, settings, cancel, (case, clients))
    })?;
    add(samples, weir, rate);
    for ((_, by, times), other) in chosen.into_iter().zip(rates) {
        if let Some(other) = other {
            add(samples, by, other);
            add(samples, times, rate / other);
        }
    }
    Ok(())
}

/// Through firewalls with the same rule; each is fresh, so that no table fills up.
fn through(settings: &Settings, (near, cancel): Place<'_>, samples: &mut Samples) -> Result<()> {
    let rate = |between| Bed::new(between, settings)?.rate(settings, cancel);
    let (weir, nft) = near.sample(cancel, || -> Result<(f64, f64)> {
        Ok((rate(Between::Weir)?, rate(Between::Nftables)?))
    })?;
    add(samples, FW, weir);
    add(samples, NFT, nft);
    add(samples, TIMES_FW, weir / nft);
    Ok(())
}

/// Adds a round's figure to its row.
fn add(samples: &mut Samples, name: &'static str, value: f64) {
    samples.entry(name).or_default().push(value);
}

fn wait(time: Duration, cancel: &Cancel) -> Result<()> {
    if cancel.sleep(time) { Ok(()) } else { Err("interrupted".into()) }
}

//! `weir rerss`: hands an interface's packets to CPUs by the flow that they carry.
//!
//! The program and its queues are [`weir_bpf::rerss`]'s; here is judged when they are worth it, and
//! shown what they do.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use weir_bpf::rerss::Rerss;
use weir_bpf::{attach, ethtool};
use weir_machine::rss::card::{self, CardError};
use weir_net::{CpuList, Netlink, cpu};
use weir_wire::rss::inner::FRAGMENT_TIMEOUT_NS;
use weir_wire::rss::table::BUCKET_COUNT_DEFAULT;
use weir_wire::rss::{Fields, Key, Settings, Symmetry, Table};

use crate::cli::ReceiveOptions;
use crate::cli::rerss::{RerssCommand, RunArgs};
use crate::exit::Outcome;
use crate::receive::{Screen, Session};
use crate::{cpus, progress};

mod gate;
mod show;
mod stop;

use gate::Gate;
use show::{Report, Seen};

/// Time between two looks at the counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// Runs a command.
pub(crate) fn command(command: &RerssCommand) -> anyhow::Result<Outcome> {
    match command {
        RerssCommand::Run(args) => run(args),
        RerssCommand::Stop(args) => stop::command(args),
    }
}

fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    refuse_firewall(&args.interface)?;
    let options = ReceiveOptions {
        interface: args.interface.clone(),
        duration: args.duration,
        interval: INTERVAL,
        generic: false,
        json: args.json,
    };
    let session = Session::open("weir rerss", &options)?;
    refuse_hidden_tags(&args.interface, ethtool::hides_tags(&args.interface)?)?;
    let settings = settings(args)?;
    let timeout = Duration::from_nanos(FRAGMENT_TIMEOUT_NS);
    let mut rerss = Rerss::load(&settings, args.queue, timeout)?;
    let link = rerss.attach(session.link.ifindex);
    let link = link.map_err(|error| session.explain_without_generic(&error))?;
    let mut gate = Gate::new(args.from);
    if gate.judge(false, 0.0) {
        // Only now, so that what has come before is waited for.
        switch(&mut rerss, &settings, true)?;
    }
    let mut screen = Screen::new(session.json);
    let mut last = Seen::new(&rerss)?;
    let begin = last.clone();
    let mut outcome = session.run(|| {
        if !attach::attached(session.link.ifindex)?.is_some_and(|it| show::is_ours(&it.name)) {
            bail!("somebody took the program off `{}`: it has ended", args.interface);
        }
        refuse_hidden_tags(&args.interface, ethtool::hides_tags(&args.interface)?)?;
        let now = Seen::new(&rerss)?;
        let report = Report::new("interval", &args.interface, &settings, &begin, &last, &now);
        let rate_pps = report.rate_pps();
        screen.interval(|| serde_json::to_string(&report), || report.line(), || report.block())?;
        last = now;
        let is_on = gate.judge(rerss.is_on(), rate_pps);
        if is_on != rerss.is_on() {
            switch(&mut rerss, &settings, is_on)?;
        }
        Ok(())
    });
    if rerss.is_on() {
        // So that nothing is in the queues when packets go on without them.
        let ended = switch(&mut rerss, &settings, false);
        outcome = outcome.and_then(|outcome| ended.map(|()| outcome));
    }
    drop(link);
    let now = Seen::new(&rerss)?;
    let report = Report::new("total", &args.interface, &settings, &begin, &begin, &now);
    screen.total(|| serde_json::to_string(&report), || report.block())?;
    outcome
}

fn switch(rerss: &mut Rerss, settings: &Settings, is_on: bool) -> anyhow::Result<()> {
    let change = rerss.change(is_on.then_some(&settings.table))?;
    if !change.is_drained {
        progress::warn(
            "the queues were not worked off within a second: flows may have been reordered once",
        );
    }
    Ok(())
}

/// An interface has one XDP program, and weir's firewall is one.
fn refuse_firewall(interface: &str) -> anyhow::Result<()> {
    let Ok(link) = Netlink::open()?.link(interface) else { return Ok(()) };
    let attached = attach::attached(link.ifindex)?;
    if attached.is_some_and(|program| program.name.starts_with("weir_fw")) {
        bail!(
            "`weir fw` is attached to `{interface}`, and an interface has one XDP program: leave \
             `{interface}` out of the firewall (`set skip on {interface}`) and have it filter at \
             the devices above it (VLAN, bridge, tunnel), or stop it with `weir fw stop`"
        );
    }
    Ok(())
}

/// What is handed to another CPU is made anew from its frame: what the driver took out is lost.
fn refuse_hidden_tags(interface: &str, are_hidden: bool) -> anyhow::Result<()> {
    ensure!(
        !are_hidden,
        "the driver of `{interface}` takes VLAN tags out of frames, so that a packet which is \
         handed to another CPU would lose its VLAN: `ethtool -K {interface} rxvlan off` leaves \
         them in"
    );
    Ok(())
}

/// How packets are hashed, and the CPU of each bucket.
fn settings(args: &RunArgs) -> anyhow::Result<Settings> {
    // Those that this process may run on; others can be named, because it is not what runs there.
    let cpus = args.cpus.clone().map_or_else(cpu::online, Ok)?;
    let (key, symmetry) = match &args.key {
        Some(key) => (key.clone(), Symmetry::None),
        None => of_interface(&args.interface)?,
    };
    let mut fields = [Fields::FourTuple; 4];
    for (kind, choice) in args.fields.iter().flat_map(|choices| &choices.0) {
        fields[*kind as usize] = *choice;
    }
    Ok(Settings { key, symmetry, fields, table: table(args, &cpus, &cpus::of_machine()?)? })
}

/// The table with CPUs in it.
fn table(args: &RunArgs, cpus: &CpuList, online: &CpuList) -> anyhow::Result<Table> {
    if let Some(absent) = cpus.iter().find(|cpu| !online.contains(*cpu)) {
        bail!("--cpus: CPU {absent} is not there, or not online: there are {online}");
    }
    let cpus: Result<Vec<u16>, _> = cpus.iter().map(u16::try_from).collect();
    let cpus = cpus.context("--cpus: numbers of CPUs go up to 65,534")?;
    let places = match &args.table {
        Some(shape) => shape.of_size(BUCKET_COUNT_DEFAULT).context("--table")?,
        None => {
            let count = u16::try_from(cpus.len())?;
            Table::equal(count, BUCKET_COUNT_DEFAULT.max(cpus.len()))?
        }
    };
    let cpu = |place: &u16| cpus.get(usize::from(*place)).copied();
    let places: Option<Vec<u16>> = places.queues().iter().map(cpu).collect();
    ensure!(
        places.is_some(),
        "--table names more CPUs than the {} of --cpus: its numbers are places in that list",
        cpus.len()
    );
    Ok(Table::new(places.unwrap_or_default())?)
}

/// The interface's key, and what it does to the fields before. Where it is not the card's, as the
/// kernel's may not be, flows are spread no worse.
fn of_interface(interface: &str) -> anyhow::Result<(Key, Symmetry)> {
    let read = card::open(interface).and_then(|card| {
        let mut state = card.read()?;
        state.assume_kernel_key();
        state.key_and_symmetry(interface)
    });
    match read {
        Ok(input) => Ok(input),
        Err(CardError::None { .. }) => Ok((Key::microsoft(), Symmetry::None)),
        Err(error @ CardError::Unknown { .. }) => Err(anyhow!("{error}; --key gives another one")),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_takes_tags_out_is_refused_with_what_can_be_done() {
        let error = refuse_hidden_tags("eth1", true).unwrap_err().to_string();
        assert!(error.contains("`ethtool -K eth1 rxvlan off`"), "{error}");
        refuse_hidden_tags("eth1", false).unwrap();
    }
}

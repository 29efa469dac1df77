//! `weir pkt-gen`: pkt-gen's command line and output over weir's generator, sink and reflector.
//!
//! It measures nothing itself: it reads counters, and prints them in pkt-gen's lines.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_bpf::attach::{AttachError, Link, Mode};
use weir_gen::pkt_gen::{self, Function, Host, Parsed, Plan, print};
use weir_machine::cancel::Cancel;

use crate::cli::{JsonFlag, ReceiveOptions};
use crate::exit::{Outcome, put};
use crate::receive::Session;
use crate::{cpus, lab};

mod console;
mod ping;
mod receive;
mod sender;
#[cfg(test)]
mod tests;
mod transmit;

/// How often is looked whether something has ended, or begun.
const POLL: Duration = Duration::from_millis(20);

/// What the binary is called to be pkt-gen without a command.
const NAME: &str = "pkt-gen";

/// Whether the program was called by pkt-gen's name.
pub(crate) fn is_called_by(program: &OsString) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == NAME)
}

/// Runs the command. The words are those behind the name.
pub(crate) fn command(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Outcome> {
    let plan = match pkt_gen::parse(words, host()?)? {
        Parsed::Help => {
            put(&pkt_gen::usage())?;
            return Ok(Outcome::Done);
        }
        Parsed::Plan(plan) => *plan,
    };
    lab::require_root("weir pkt-gen", "loads BPF programs (CAP_BPF and CAP_NET_ADMIN)")?;
    for note in &plan.notes {
        console::log("main", line!(), note);
    }
    match plan.function {
        Function::Tx => transmit::command(&plan),
        Function::Rx => receive::command(&plan),
        Function::Ping => ping::command(&plan),
        Function::Pong => receive::pong(&plan),
    }
}

/// This machine, as `-a` and `-c` see it.
fn host() -> anyhow::Result<Host> {
    let last = cpus::of_machine()?.iter().max().unwrap_or_default();
    Ok(Host { cpu_count: u32::try_from(last + 1).unwrap_or(u32::MAX) })
}

/// The first lines of every function: what will be done where.
fn open(plan: &Plan, queue_count: u32) -> anyhow::Result<()> {
    let queue_count = usize::try_from(queue_count).unwrap_or(usize::MAX);
    let shown = &plan.interface.shown;
    let cpus = plan.placement.shown;
    put(&print::opening(plan.function, shown, queue_count, plan.threads, cpus))
}

/// `-w`. False if a signal came.
fn wait(plan: &Plan, cancel: &Cancel) -> bool {
    let seconds = plan.wait.as_secs();
    console::log("main", line!(), &format!("Wait {seconds} secs for phy reset"));
    cancel.sleep(plan.wait)
}

/// After the wait: whatever arrives from here on counts.
fn ready() {
    console::log("main", line!(), "Ready...");
}

/// How it ended, if nothing failed.
fn outcome(cancel: &Cancel) -> Outcome {
    cancel.signal().map_or(Outcome::Done, Outcome::Signal)
}

/// An interface that will have a program attached, looked at.
fn session(plan: &Plan) -> anyhow::Result<Session> {
    let interface = plan.interface.name.clone();
    let options = ReceiveOptions {
        interface,
        duration: None,
        interval: Duration::from_secs(1),
        generic: false,
        json: JsonFlag { json: false },
    };
    Session::open(&format!("weir pkt-gen -f {}", plan.function), &options)
}

/// Attaches a program in native mode, or, behind a driver that has none, in generic mode.
fn attach(
    session: &Session,
    program: impl Fn(Mode) -> Result<Link, AttachError>,
) -> anyhow::Result<Link> {
    match program(Mode::Native) {
        Ok(link) => Ok(link),
        Err(error) if error.is_unsupported() => {
            let text = format!(
                "`{}` does not take an XDP program in native mode ({}): generic XDP is used, which \
                 is several times slower",
                session.link.name, error.source
            );
            console::log("main", line!(), &text);
            Ok(program(Mode::Generic)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Microseconds since `begin`.
fn elapsed_us(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX)
}

//! weir: a performance lab for software routers and firewalls.
//!
//! This crate is the command line: it parses arguments, draws diagnostics and progress, and turns
//! results into exit codes. What a command does is in the library crates.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

mod buckets;
mod cli;
mod connect;
mod console;
mod cpus;
mod diagnose;
mod doctor;
mod draw;
mod echo;
mod exit;
mod fw;
mod generate;
mod http;
mod lab;
mod ministat;
mod pfctl;
mod pkt_gen;
mod progress;
mod pxe;
mod queues;
mod rates;
mod receive;
mod reflect;
mod remote;
mod rerss;
mod rss;
mod signals;
mod sink;
mod traffic;

use cli::{Cli, Command};

/// Version and git revision.
const VERSION: &str = env!("WEIR_VERSION");

fn main() -> ExitCode {
    let mut words = std::env::args_os().peekable();
    match words.next() {
        Some(program) if pkt_gen::is_called_by(&program) => {
            return exit::code(pkt_gen::command(words));
        }
        Some(program) if ministat::is_called_by(&program) => {
            return exit::code(ministat::command(words));
        }
        Some(program) if pfctl::is_called_by(&program) => {
            return exit::code(pfctl::command(words));
        }
        _ => {}
    }
    if words.next_if(|word| http::begins_worker(word)).is_some() {
        return exit::code(http::work(words));
    }
    // Before clap, which would keep a `--` for itself.
    if words.next_if(|word| ministat::is_called_by(word)).is_some() {
        return exit::code(ministat::command(words));
    }
    if words.next_if(|word| pfctl::is_called_by(word)).is_some() {
        return exit::code(pfctl::command(words));
    }
    let parsed = match std::env::args_os().next() {
        Some(program) if lab::bench_lab::is_called_by(&program) => {
            let first = ["weir", "bench-lab"].map(OsString::from);
            Cli::try_parse_from(first.into_iter().chain(words))
        }
        _ => Cli::try_parse(),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        // Help and version go to standard output and are no failure; the rest is usage.
        Err(error) => {
            drop(error.print());
            return if error.use_stderr() { exit::REFUSED.into() } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::BenchLab(args) => lab::bench_lab::command(&args),
        Command::Connect(args) => connect::command(&args),
        Command::Console(args) => console::command(&args),
        Command::Doctor(flag) => diagnose::command(flag.json),
        Command::Echo(command) => echo::command(&command),
        Command::Fw(command) => fw::command(command),
        Command::Gen(args) => traffic::command(&args),
        Command::Http(args) => http::command(&args),
        Command::Lab(command) => lab::command(command),
        Command::Ministat { words } => ministat::command(words),
        Command::Pfctl { words } => pfctl::command(words),
        Command::PktGen { words } => pkt_gen::command(words),
        Command::Pxe(command) => pxe::command(&command),
        Command::Queues(args) => queues::command(&args),
        Command::Rates(args) => rates::command(&args),
        Command::Rerss(command) => rerss::command(&command),
        Command::Rss(command) => rss::command(&command),
        Command::Sink(options) => sink::command(&options),
        Command::Reflect(options) => reflect::command(&options),
        Command::Completions { shell } => generate::completions(shell, &mut Cli::command()),
        Command::Man { out } => generate::manual(&out, Cli::command()),
    };
    exit::code(result)
}

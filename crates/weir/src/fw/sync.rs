//! `weir fw sync`: carries states between this firewall's daemon and another one's.
//!
//! The daemon opens no connection and knows of no keys; what it says on its control socket, and
//! what it is told there, goes by one TLS connection that these processes keep. They see bytes, and
//! no states.

mod drain;
mod key;
mod local;
mod repeats;
mod serve;
mod status;
#[cfg(test)]
mod tests;
mod to;
mod track;
mod trust;
mod tunnel;
mod wire;

use std::io::{self, Write as _};

use anyhow::ensure;
use serde_json::json;
use weir_fw::protocol::{Names, SyncDirection};

use self::key::{PrivateKey, PublicKey};
use self::local::Daemon;
use crate::cli::fw_sync::{KeygenArgs, ServeArgs, SyncCommand, ToArgs, TrustArgs};
use crate::exit::{Outcome, put};
use crate::signals;

/// Says what has happened, a line each.
type Voice<'a> = &'a (dyn Fn(&str) + Sync);

/// Runs the command.
pub(super) fn command(command: &SyncCommand) -> anyhow::Result<Outcome> {
    match command {
        SyncCommand::Keygen(args) => keygen(args),
        SyncCommand::To(args) => to(args),
        SyncCommand::Serve(args) => serve(args),
        SyncCommand::Status(args) => status::command(args),
        SyncCommand::Drain(args) => drain::command(args, &signals::listen_alone()?),
        SyncCommand::Track(args) => track::command(args, &signals::listen_alone()?, &tell),
    }
}

fn keygen(args: &KeygenArgs) -> anyhow::Result<Outcome> {
    let key = if args.public {
        PrivateKey::read(&args.key)?
    } else {
        let key = PrivateKey::new()?;
        key.write(&args.key, args.force)?;
        key
    };
    let public = key.public.to_string();
    if args.json.json {
        super::put_json(&json!({ "public_key": public, "file": args.key }))?;
    } else {
        put(&format!("{public}\n"))?;
    }
    Ok(Outcome::Done)
}

/// This firewall's key, and those of others.
fn keys(args: &TrustArgs) -> anyhow::Result<(PrivateKey, Vec<PublicKey>)> {
    let mut peers = Vec::new();
    for word in &args.peers {
        peers.extend(key::peers(word)?);
    }
    Ok((PrivateKey::read(&args.key)?, peers))
}

fn tell(text: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "weir fw sync: {text}"));
}

fn to(args: &ToArgs) -> anyhow::Result<Outcome> {
    let (key, peers) = keys(&args.trust)?;
    let cancel = signals::listen_alone()?;
    let link = to::Link {
        host: &args.host,
        bind: args.bind,
        trust: &trust::Caller::new(&key, peers)?,
        firewall: &Daemon(SyncDirection::Out { defers: args.defer }),
        voice: &tell,
        stop: &|| cancel.signal().is_some(),
    };
    link.run();
    Ok(Outcome::Signal(cancel.signal().unwrap_or_default()))
}

/// Names of the other firewall's interfaces here, each said once.
fn names(pairs: &[(String, String)]) -> anyhow::Result<Names> {
    let mut names = Names::new();
    for (theirs, ours) in pairs {
        ensure!(
            !names.values().any(|other| other == ours),
            "--interface: two of the other firewall's interfaces are {ours} here"
        );
        let before = names.insert(theirs.clone(), ours.clone());
        ensure!(before.is_none(), "--interface: {theirs} has two names here");
    }
    Ok(names)
}

fn serve(args: &ServeArgs) -> anyhow::Result<Outcome> {
    let (key, peers) = keys(&args.trust)?;
    let cancel = signals::listen_alone()?;
    let trust = trust::Listener::new(&key, peers)?;
    let interfaces = names(&args.interfaces)?;
    let firewall = Daemon(SyncDirection::In { interfaces, defers: args.defer });
    let stop = || cancel.signal().is_some();
    let server = serve::Server::new(args.listen, &trust, &firewall, &tell, &stop)?;
    tell(&format!("listening at {}", server.address()?));
    server.run()?;
    Ok(Outcome::Signal(cancel.signal().unwrap_or_default()))
}

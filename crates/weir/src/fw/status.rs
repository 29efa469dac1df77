//! `weir fw status`, `stats` and `stop`.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_fw::engine::{Engine, stats_text, status_text};
use weir_fw::protocol::{Client, ClientError, Request};

use super::{put, put_json};
use crate::cli::fw_run::StatsArgs;
use crate::exit::Outcome;
use crate::{lab, progress};

/// How long a daemon that was told to stop may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether it is gone.
const POLL: Duration = Duration::from_millis(20);

/// How it runs.
pub(super) fn status(is_json: bool) -> anyhow::Result<Outcome> {
    ask(is_json, &Request::Status, status_text)
}

/// What it has counted.
pub(super) fn stats(args: StatsArgs) -> anyhow::Result<Outcome> {
    ask(args.json.json, &Request::Stats { has_rules: args.rules }, stats_text)
}

fn ask(
    is_json: bool,
    request: &Request,
    text: fn(&serde_json::Value) -> String,
) -> anyhow::Result<Outcome> {
    let answered = Client::connect().and_then(|mut client| client.ask(request, |_| Ok(())));
    match answered {
        Ok(answered) => {
            let value = answered.value.unwrap_or_default();
            if is_json {
                put_json(&value)?;
            } else {
                put(&text(&value))?;
            }
            Ok(Outcome::Done)
        }
        Err(error @ ClientError::NotRunning) => {
            // Who may not ask that is told what is known.
            let filtered = Engine::filtered().unwrap_or_default();
            if is_json {
                put_json(&json!({ "running": false, "filtered_without_daemon": filtered }))?;
            }
            progress::warn(&if filtered.is_empty() {
                error.to_string()
            } else {
                format!(
                    "no daemon of weir fw runs in this network namespace, but its programs filter \
                     on {}: `weir fw run -f FILE` goes on with their states, `weir fw stop` \
                     removes them",
                    filtered.join(", ")
                )
            });
            Ok(Outcome::No)
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes everything, with the daemon's help or without.
pub(super) fn stop(is_json: bool) -> anyhow::Result<Outcome> {
    let answered = Client::connect().and_then(|mut client| client.ask(&Request::Stop, |_| Ok(())));
    let is_stopped = match answered {
        Ok(_) => {
            wait_gone();
            true
        }
        Err(ClientError::NotRunning) => {
            lab::require_root("weir fw stop", "removes the programs of a firewall without daemon")?;
            Engine::remove_orphan()?
        }
        Err(error) => return Err(error.into()),
    };
    if is_json {
        put_json(&json!({ "stopped": is_stopped }))?;
    }
    if is_stopped {
        return Ok(Outcome::Done);
    }
    progress::warn("no weir fw runs in this network namespace");
    Ok(Outcome::No)
}

/// Waits until the daemon has let go of its socket, so that another one can start at once.
fn wait_gone() {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if matches!(Client::connect(), Err(ClientError::NotRunning)) {
            return;
        }
        std::thread::sleep(POLL);
    }
}

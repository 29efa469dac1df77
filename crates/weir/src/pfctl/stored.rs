//! The file of `--store-states` and `-L`: written whole or not at all, and read whole before any of
//! it is loaded.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use weir_fw::protocol::{Answered, Bytes, Client, ClientError, Reply, Request, Restored, Stored};
use weir_fw::sync::{self, Decoder, Record};

use super::failure::Failure;

/// States that are loaded in one go: the firewall answers nobody else meanwhile.
const STATES_AT_ONCE: u64 = 2000;

/// Writes the states of the firewall to a file; gives what is to be said.
pub(super) fn store(client: &mut Client, path: &Path) -> Result<String, Failure> {
    let beside = beside(path);
    let stored = write(client, &beside).inspect_err(|_| drop(fs::remove_file(&beside)));
    let stored = stored.map_err(|failure| match failure {
        Failure::Client(ClientError::Output { source }) => cannot(path, &source),
        other => other,
    })?;
    fs::rename(&beside, path).map_err(|error| {
        drop(fs::remove_file(&beside));
        cannot(path, &error)
    })?;
    let mut text = format!("{} states stored", stored.state_count);
    for (reason, count) in &stored.left_out {
        text += &format!(", {count} left out: {reason}");
    }
    Ok(text)
}

/// Where a file is written before it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::Words(format!("{}: {error}", path.display()))
}

fn write(client: &mut Client, path: &Path) -> Result<Stored, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| cannot(path, &error))?;
    let mut out = io::BufWriter::new(file);
    let answered = client.ask(&Request::StoreStates, |reply| match reply {
        Reply::Text(text) => out.write_all(&Bytes::of_text(text).to_vec()),
        _ => Ok(()),
    })?;
    let file = out.into_inner().map_err(|error| cannot(path, error.error()))?;
    file.sync_all().map_err(|error| cannot(path, &error))?;
    value(answered)
}

/// Loads the states of a file; gives what is to be said.
pub(super) fn load(client: &mut Client, path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| cannot(path, &error))?;
    let wrong = |error: sync::Error| Failure::Words(format!("{}: {error}", path.display()));
    check(&bytes).map_err(wrong)?;
    let mut all = Restored::default();
    let mut parts = Parts::default();
    for record in Decoder::new(&bytes).map_err(wrong)? {
        match record.map_err(wrong)? {
            Record::Name { kind, number, name } => {
                // What came before it means what it meant there.
                if parts.state_count > 0 {
                    send(client, &mut parts, &mut all)?;
                }
                parts.name(kind, number, &name);
            }
            Record::State(state) => {
                sync::put_state(&mut parts.states, &state);
                parts.state_count += 1;
            }
            Record::Unknown(_) => all.skipped_count += 1,
            Record::End { .. } => {}
        }
        if parts.state_count >= STATES_AT_ONCE {
            send(client, &mut parts, &mut all)?;
        }
    }
    send(client, &mut parts, &mut all)?;
    Ok(said(&all))
}

/// Whether a file is whole and right.
fn check(bytes: &[u8]) -> Result<(), sync::Error> {
    let mut is_over = false;
    for record in Decoder::new(bytes)? {
        is_over = matches!(record?, Record::End { .. });
    }
    let cause = sync::Cause::Truncated;
    if is_over { Ok(()) } else { Err(sync::Error { at: bytes.len(), cause }) }
}

/// A part of a file as a stream.
#[derive(Default)]
struct Parts {
    names: Vec<u8>,
    states: Vec<u8>,
    state_count: u64,
}

impl Parts {
    fn name(&mut self, kind: sync::Kind, number: u16, name: &str) {
        // What was read can be written.
        let _ = sync::put_name(&mut self.names, kind, number, name);
    }
}

fn send(client: &mut Client, parts: &mut Parts, all: &mut Restored) -> Result<(), Failure> {
    let mut stream = Vec::new();
    sync::put_header(&mut stream);
    stream.extend(&parts.names);
    stream.append(&mut parts.states);
    sync::put_end(&mut stream, std::mem::take(&mut parts.state_count));
    let request = Request::LoadStates { stream: Bytes::new(&stream) };
    let part: Restored = value(client.ask(&request, |_| Ok(()))?)?;
    all.loaded_count += part.loaded_count;
    all.present_count += part.present_count;
    all.default_rule_count += part.default_rule_count;
    all.skipped_count += part.skipped_count;
    for (reason, count) in part.left_out {
        *all.left_out.entry(reason).or_default() += count;
    }
    Ok(())
}

fn value<T: DeserializeOwned>(answered: Answered) -> Result<T, Failure> {
    let value = answered.value.unwrap_or_default();
    serde_json::from_value(value)
        .map_err(|error| Failure::Words(format!("the firewall's answer cannot be read: {error}")))
}

fn said(all: &Restored) -> String {
    let mut text = format!("{} states loaded", all.loaded_count);
    for (count, what) in [
        (all.present_count, "present already"),
        (all.default_rule_count, "of them without their rule"),
        (all.skipped_count, "unknown records skipped"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    for (reason, count) in &all.left_out {
        text += &format!(", {count} left out: {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_one_line() {
        let mut all = Restored { loaded_count: 120, ..Restored::default() };
        assert_eq!(said(&all), "120 states loaded");
        all.present_count = 2;
        all.left_out.insert("interface em9 is not here".to_owned(), 1);
        let line = "120 states loaded, 2 present already, 1 left out: interface em9 is not here";
        assert_eq!(said(&all), line);
    }

    #[test]
    fn a_file_without_its_end_is_not_whole() {
        let mut bytes = Vec::new();
        sync::put_header(&mut bytes);
        let error = check(&bytes).unwrap_err();
        assert_eq!((error.at, error.cause), (bytes.len(), sync::Cause::Truncated));
        sync::put_end(&mut bytes, 0);
        assert_eq!(check(&bytes), Ok(()));
    }
}

//! What a machine and its running processes share: the connection, the log, the secrets.
//!
//! Every command is noted with the time at which it began, how long it took, how it ended and what
//! it said. This module never decides what runs.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::connection::{ConnectError, Connection};
use super::secrets::Secrets;
use crate::access::RemoteSpec;
use crate::cancel::Cancel;
use crate::host::HostError;

/// How much of what a command said is in the log.
const NOTED_BYTES_MAX: usize = 2_000;

/// The shared part of a machine.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) remote: RemoteSpec,
    pub(super) secrets: Secrets,
    /// Working directory on the machine.
    pub(super) directory: String,
    connection: Mutex<Connection>,
    log: Mutex<String>,
    /// A number for each mark.
    count: std::sync::atomic::AtomicU64,
}

impl Shared {
    pub(super) fn new(
        remote: &RemoteSpec,
        secrets: &Secrets,
        directory: String,
        cancel: &Cancel,
    ) -> Self {
        Self {
            remote: remote.clone(),
            secrets: secrets.clone(),
            directory,
            connection: Mutex::new(Connection::new(remote, cancel)),
            log: Mutex::default(),
            count: std::sync::atomic::AtomicU64::new(0),
        }
    }

    pub(super) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mark that no command prints by chance, and none prints twice.
    pub(super) fn mark(&self) -> String {
        let number = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let unique = self.directory.rsplit('-').next().unwrap_or_default();
        format!("weir-end-{unique}-{number}")
    }

    /// Writes a line about a command into the log.
    pub(super) fn note(&self, started: Instant, command: &str, end: &str, said: &str) {
        // Before anything is cut or escaped: a part of a secret, or another form, is not found.
        let [command, end, said] = [command, end, said].map(|text| self.secrets.redact(text));
        let line = format!(
            "{}\t{}\t{:.3}s\t{}\t{}\t{}\n",
            jiff::Timestamp::now(),
            self.remote.name,
            started.elapsed().as_secs_f64(),
            one_line(&end),
            one_line(&command),
            one_line(&beginning(&said)),
        );
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line);
    }

    pub(super) fn take_log(&self) -> String {
        std::mem::take(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An error without the secrets in it.
    pub(super) fn error(&self, what: impl std::fmt::Display) -> HostError {
        HostError::new(&self.remote.name, self.secrets.redact(&what.to_string()))
    }

    /// The same of a machine that is gone.
    pub(super) fn gone(&self, what: impl std::fmt::Display) -> HostError {
        HostError::gone(&self.remote.name, self.secrets.redact(&what.to_string()))
    }

    /// An error of the step `step`.
    pub(super) fn not_connected(&self, step: &str, error: &ConnectError) -> HostError {
        let what = format!("{step}: {}", error.what);
        HostError::unreached(&self.remote.name, self.secrets.redact(&what))
    }

    /// Why what was asked was not waited for, once somebody has asked to stop.
    pub(super) fn cancelled(&self, step: &str) -> HostError {
        self.error(format!(
            "{step}: cancelled, because weir was told to stop; finished iterations are kept, and \
             `weir lab resume` continues"
        ))
    }

    /// Why a command has no end: the connection broke, or somebody ended it from outside.
    pub(super) fn lost(&self, command: &str, said: &str) -> HostError {
        let by_hand = {
            let mut connection = self.connection();
            if connection.is_alive() {
                return self.error(format!(
                    "`{command}` was killed together with the shell around it{}; look at the \
                     machine's log for who did that (out of memory, an administrator)",
                    said_before(said)
                ));
            }
            connection.close();
            connection.by_hand()
        };
        self.gone(format!(
            "the connection broke while `{command}` ran{}: the machine crashed, rebooted, or lost \
             its network; look at its console, then try `{by_hand} uptime`",
            said_before(said)
        ))
    }
}

/// What a command had said, for the middle of a sentence.
pub(super) fn said_before(said: &str) -> String {
    match said.trim() {
        "" => String::new(),
        said => format!(" (it had said: {})", one_line(&beginning(said))),
    }
}

fn one_line(text: &str) -> String {
    text.trim_end().replace('\\', r"\\").replace('\t', r"\t").replace(['\n', '\r'], r"\n")
}

/// A text up to the limit, and how much is missing.
fn beginning(text: &str) -> String {
    if text.len() <= NOTED_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=NOTED_BYTES_MAX).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let mut short = text[..end].to_owned();
    let _ = write!(short, " [{} more bytes]", text.len() - end);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Shared {
        shared_with("hunter2")
    }

    fn shared_with(secret: &str) -> Shared {
        let remote = RemoteSpec { name: "dut".to_owned(), ..RemoteSpec::default() };
        let secrets = Secrets::new(vec![("PDU".to_owned(), secret.to_owned())]).unwrap();
        Shared::new(&remote, &secrets, "/tmp/weir-lab-x-1-ab".to_owned(), &Cancel::default())
    }

    #[test]
    fn a_line_of_the_log_has_its_fields_and_no_secret() {
        let shared = shared();
        shared.note(Instant::now(), "pdu -p hunter2\ntwo", "exit code 0", "on\toff hunter2\n");
        let log = shared.take_log();
        let fields: Vec<&str> = log.trim_end().split('\t').collect();
        assert_eq!(fields.len(), 6, "{log}");
        assert_eq!(fields[1], "dut");
        assert_eq!(fields[3..], ["exit code 0", r"pdu -p ***PDU***\ntwo", r"on\toff ***PDU***"]);
        assert_eq!(shared.take_log(), "");
        assert!(!shared.error("no hunter2 here").to_string().contains("hunter2"));
    }

    #[test]
    fn no_form_and_no_part_of_a_secret_is_in_the_log() {
        let secret = "back\\slash and\ttab";
        let shared = shared_with(secret);
        let said = format!("{}{secret}", "x".repeat(NOTED_BYTES_MAX - 4));
        shared.note(Instant::now(), &format!("pdu {secret}"), "exit code 0", &said);
        let log = shared.take_log();
        assert!(log.contains("pdu ***PDU***\t"), "{log}");
        assert!(!log.contains("back") && !log.contains("slash"), "{log}");
    }

    #[test]
    fn what_was_said_is_cut_between_letters() {
        let text = "é".repeat(NOTED_BYTES_MAX);
        assert!(beginning(&text).ends_with("é [2000 more bytes]"), "{}", beginning(&text));
    }
}

//! What is said on the control socket: a question is one line of JSON, its answer one or more.
//!
//! The socket is a file that only root can reach (`socket.rs`), and who connects to it needs
//! `CAP_NET_ADMIN`, or is not answered (`peer.rs`). A connection carries one question after the
//! other.

mod client;
mod sync;

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use client::{Answered, Client, ClientError};
pub use sync::{Names, SyncDirection, SyncInStatus, SyncOutStatus, SyncStatus};

/// A question may be this long: a ruleset and the files that it names are in it.
pub(crate) const QUESTION_SIZE_BYTES_MAX: u64 = 256 << 20;

/// A file's bytes as JSON has them: each byte is one character, U+0000 to U+00FF. A pf.conf is
/// mostly ASCII, and nothing of it may be lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(String);

impl Bytes {
    /// From the bytes of a file.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|byte| char::from(*byte)).collect())
    }

    /// From the text that they have become.
    #[must_use]
    pub fn of_text(text: String) -> Self {
        Self(text)
    }

    /// The text that they become.
    #[must_use]
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// The bytes of the file. What is no byte becomes `?`.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap_or(b'?')).collect()
    }
}

/// A file that the ruleset names: as it is written there, in which file, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// The path as written.
    pub path: String,
    /// The file that names it.
    pub from: String,
    /// What it holds.
    pub bytes: Bytes,
}

/// How far filter rules are optimised before they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As written.
    None,
    /// `-o basic`
    Basic,
    /// `-o profile`, with the counters of what runs.
    Profile,
}

/// A ruleset to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Name of the file, for messages.
    pub name: String,
    pub text: Bytes,
    /// The files that it names.
    pub files: Vec<NamedFile>,
    /// Macros of the command line.
    pub macros: Vec<(String, String)>,
    /// Addresses of host names, which whoever loads has asked for.
    #[serde(default)]
    pub hosts: Vec<(String, Vec<IpAddr>)>,
    /// Lines of dnctl(8) that go before those that the firewall knows
    /// ([`weir_rules::facts::pipe_lines`]).
    #[serde(default)]
    pub pipes: String,
    /// `freebsd` or `openbsd`; `None` sees it from the text.
    pub dialect: Option<String>,
    /// `None` leaves it to the file, or else basic.
    pub level: Option<Level>,
    /// The anchor to load it into; empty for the main ruleset.
    pub anchor: String,
    /// `-R`, `-O`, ...: which parts are loaded.
    pub parts: LoadParts,
    /// `-m`: settings that the file does not name stay.
    pub is_merged: bool,
    /// Who loads, for `pfctl -vsr`.
    pub pid: u32,
}

/// Which parts of a file are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadParts {
    /// `set`
    pub options: bool,
    /// Filter rules, and those that normalise.
    pub rules: bool,
    /// FreeBSD's `nat`, `rdr` and `binat` rules.
    pub translation: bool,
    pub tables: bool,
}

impl LoadParts {
    /// Everything.
    pub const ALL: Self = Self { options: true, rules: true, translation: true, tables: true };
}

/// What `-s` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// `-s info`
    Info,
    /// `-s memory`
    Memory,
    /// `-s states`
    States,
    /// `-s rules`
    Rules,
    /// `-s nat`
    Nat,
    /// `-s queue`
    Queue,
    /// `-s Tables`
    Tables,
    /// `-s timeouts`
    Timeouts,
    /// `-s Interfaces`
    Interfaces,
    /// `-s osfp`
    Osfp,
    /// `-s labels`
    Labels,
    /// `-s Anchors`
    Anchors,
    /// `-s Sources`
    Sources,
    /// `-s Stlimiters`
    StateLimiters,
    /// `-s Srclimiters`
    SourceLimiters,
    /// `-s Running`
    Running,
    /// `-s all`
    All,
}

/// How it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct How {
    /// How often `-v` was given.
    pub verbosity: u8,
    /// `-g`
    pub has_skip_steps: bool,
    /// `-P`
    pub has_numeric_ports: bool,
    /// `-i`
    pub interface: Option<String>,
    /// `-a`
    pub anchor: String,
}

/// What `-F` flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flushed {
    /// `-F states`
    States,
    /// `-F rules`
    Rules,
    /// `-F nat`
    Nat,
    /// `-F info`
    Info,
    /// `-F Tables`
    Tables,
    /// `-F Sources`
    Sources,
    /// `-F osfp`
    Osfp,
    /// `-F all`
    All,
}

/// Which states end (`-k`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Killed {
    /// From these networks, to those (all, if none is named): `ADDRESS[/BITS]`.
    Hosts {
        /// Networks of the maker.
        from: Vec<String>,
        /// Networks of the other end.
        to: Vec<String>,
    },
    /// Of rules with this label.
    Label { label: String },
    /// With an address of these networks that they have outside alone: `ADDRESS[/BITS]`.
    Nat { networks: Vec<String> },
    /// The one of this identity, as `-vvss` prints it.
    Id {
        /// The identity.
        id: u64,
    },
}

/// What `-T` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableAction {
    /// `-T add`
    Add,
    /// `-T delete`
    Delete,
    /// `-T replace`
    Replace,
    /// `-T show`
    Show,
    /// `-T test`
    Test,
    /// `-T flush`
    Flush,
    /// `-T zero`: entries are as old as if they were added now.
    Zero,
    /// `-T expire`
    Expire {
        /// What was added or cleared so many seconds ago, or later, stays.
        older_than_s: u32,
    },
    /// `-T kill`
    Kill,
}

/// Lines, and the name of the file that they are from; `None`: they are from a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// For messages.
    pub name: Option<String>,
    /// The lines.
    pub text: String,
}

/// What `weir fw table` does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypedAction {
    /// Makes tables, all or none.
    Create {
        /// Of at most 63 bytes.
        names: Vec<String>,
        /// `addr`, `iface`, `number`, `flow` or `flow:...`.
        key: String,
        /// `tag,nexthop` and the like.
        values: String,
        /// Entries that each may have.
        limit: Option<u64>,
    },
    /// Removes tables, all or none.
    Destroy { names: Vec<String> },
    /// Adds entries, or gives them other values, all or none.
    Add { name: String, entries: Vec<Named> },
    /// Removes entries, all or none.
    Delete { name: String, keys: Vec<Named> },
    /// Gives a table these entries and no others.
    Replace { name: String, entries: Vec<Named> },
    /// Removes all entries.
    Flush { name: String },
    /// Looks keys up.
    Lookup { name: String, keys: Vec<String> },
    /// All entries, as text, and what [`TypedAction::Info`] says.
    List { name: String },
    /// What tables are; without a name all of the set.
    Info { names: Vec<String> },
    /// Two tables change their contents.
    Swap { name: String, other: String },
    /// All tables of two sets change places.
    SwapSets { other: u8 },
    /// It cannot be changed, or can again.
    Lock { name: String, is_locked: bool },
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// How it is: one [`Reply::Value`].
    Status,
    /// What it counted: one [`Reply::Value`].
    Stats {
        /// The counters of rules too, for which every state is looked at.
        has_rules: bool,
    },
    /// The counters as OpenMetrics text.
    Metrics,
    /// Detaches everything, and ends the daemon.
    Stop,
    /// Loads a ruleset.
    Load(Box<Load>),
    /// `-e`
    Enable,
    /// `-d`
    Disable,
    /// `-x`
    Debug {
        /// `none`, `urgent`, `misc` or `loud`.
        level: String,
    },
    /// `-s`
    Show { what: Shown, how: How },
    /// `-F`
    Flush {
        what: Flushed,
        /// `-i`, `-a`
        how: How,
    },
    /// `-k`
    Kill {
        which: Killed,
        /// `-i`
        interface: Option<String>,
    },
    /// `--store-states`: a stream of [`crate::sync`] as texts of [`Bytes`], and one
    /// [`Reply::Value`] of [`Stored`].
    StoreStates,
    /// `-L`: one [`Reply::Value`] of [`Restored`].
    LoadStates {
        /// A stream of [`crate::sync`].
        stream: Bytes,
    },
    /// Makes the connection one by which states go to another firewall, or come from one: after the
    /// reply it is a stream of [`crate::sync::stream`] in both directions.
    Sync { direction: SyncDirection },
    /// How that is: one [`Reply::Value`] of [`SyncStatus`].
    SyncStatus,
    /// `-K`
    KillSources {
        /// Networks of the source.
        from: Vec<String>,
        /// Networks of the other end.
        to: Vec<String>,
    },
    /// `-t TABLE -T ACTION`
    Table {
        name: String,
        /// `-a`
        anchor: String,
        /// What is done.
        action: TableAction,
        /// `[!]ADDRESS[/BITS]`
        entries: Vec<String>,
        /// How often `-v` was given.
        verbosity: u8,
    },
    /// `weir fw table`: one [`Reply::Value`], and of entries a text.
    TypedTable {
        /// 0 to 31; rules name tables of set 0.
        set: u8,
        action: TypedAction,
    },
}

/// A line of an answer. The last one is `Done` or `Failed`. Who asks is told of a text that follows
/// as of any other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// A piece of text for standard output.
    Text(String),
    /// So many bytes of text for standard output follow the line: where there is much of it.
    Follows(u32),
    /// Text for standard error: what was done.
    Note(String),
    Value(serde_json::Value),
    /// That was all; the exit code for pfctl.
    Done(u8),
    /// It could not be done; nothing was changed.
    Failed(String),
}

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stored {
    pub state_count: u64,
    /// States that were left out, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// What became of states that were to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Restored {
    pub loaded_count: u64,
    /// States that were there already, and stay as they are.
    pub present_count: u64,
    /// Of those that were loaded: their rules are not, and they are the default rule's.
    pub default_rule_count: u64,
    /// Records of a kind that is not known here.
    pub skipped_count: u64,
    /// States that were left out, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// Reads one line, but not more than it may have; `None` at the end.
pub(crate) fn read_line(source: &mut impl BufRead, size_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut limited = io::Read::take(source, size_max);
    let size = limited.read_until(b'\n', &mut line)?;
    if size == 0 {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is cut short or too long"));
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_survive_the_line() {
        let load = Load {
            name: "pf.conf".to_owned(),
            text: Bytes::new(b"block all # \xe4\x00\n"),
            files: vec![NamedFile {
                path: "bad".to_owned(),
                from: "pf.conf".to_owned(),
                bytes: Bytes::new(b"10.0.0.1\n"),
            }],
            macros: vec![("a".to_owned(), "1".to_owned())],
            hosts: vec![("www.example".into(), vec!["192.0.2.80".parse().unwrap()])],
            pipes: "pipe 1 config bw 1Mbit/s\n".to_owned(),
            dialect: None,
            level: Some(Level::Basic),
            anchor: String::new(),
            parts: LoadParts::ALL,
            is_merged: false,
            pid: 1,
        };
        let how = How { verbosity: 2, ..How::default() };
        for request in [
            Request::Status,
            Request::Load(Box::new(load)),
            Request::Show { what: Shown::States, how },
            Request::Kill { which: Killed::Id { id: u64::MAX }, interface: None },
        ] {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        assert_eq!(Bytes::new(b"\xe4\x00").to_vec(), b"\xe4\x00");
    }

    #[test]
    fn a_line_has_an_end_and_a_limit() {
        let mut source = &b"one\ntwo"[..];
        assert_eq!(read_line(&mut source, 10).unwrap().as_deref(), Some(&b"one\n"[..]));
        assert!(read_line(&mut source, 10).is_err());
        assert_eq!(read_line(&mut source, 10).unwrap(), None);
        assert!(read_line(&mut &b"far too long\n"[..], 4).is_err());
    }
}

//! The device under test as a record holds it: its kind, and everything it is configured with.
//!
//! Values only: nothing here looks a file up or touches a machine.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::toggle::Toggle;

/// A device under test, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dut {
    /// Name in the specification.
    pub name: String,
    /// What it is.
    pub kind: DutKind,
    /// Two settings that take turns while it runs; absent: it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toggle: Option<Toggle>,
}

/// How a DUT is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DutKind {
    /// The kernel's forwarding.
    Linux {
        /// Settings (`net.ipv4.ip_forward`, …) to apply, by name.
        sysctls: BTreeMap<String, String>,
        /// An nftables ruleset for `nft -f`.
        nft: Option<DutFile>,
    },
    /// Any program, run inside the DUT.
    Command {
        /// Settings to apply first, by name.
        sysctls: BTreeMap<String, String>,
        /// Files put into the DUT's working directory before the start.
        files: Vec<DutFile>,
        /// Shell command that starts it, and stays in the foreground.
        start: String,
        /// Shell command that exits with 0 once it is ready; asked again until the time-out.
        ready: Option<String>,
        /// How long it may take to get ready.
        ready_timeout: Duration,
        /// Shell command that stops it; absent: SIGTERM, then SIGKILL.
        stop: Option<String>,
        /// Shell command that prints what it counts itself, after a measurement: a name and a
        /// number in a line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        levels: Option<String>,
    },
    /// weir's own firewall, as a program like any other.
    #[serde(rename = "weir-fw")]
    WeirFw {
        /// Settings to apply first, by name.
        sysctls: BTreeMap<String, String>,
        /// The ruleset: a pf.conf.
        rules: DutFile,
        /// Files that the ruleset names, beside it.
        files: Vec<DutFile>,
        /// The command; absent: the program that runs the lab.
        program: Option<String>,
        /// How long it may take to get ready.
        ready_timeout: Duration,
        /// A second firewall beside it; absent: there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backup: Option<Backup>,
    },
    /// A machine that configures itself when it boots, by files that were laid over its root.
    Tree {
        /// What it runs.
        system: System,
        /// Settings to apply once it is up, by name.
        sysctls: BTreeMap<String, String>,
        /// The files; absent: it stays as it is installed.
        tree: Option<Tree>,
        /// Shell command on the machine that ends with 0 if its configuration is in effect.
        check: Option<String>,
    },
}

impl DutKind {
    /// The second firewall of a firewall that has one.
    #[must_use]
    pub fn backup(&self) -> Option<Backup> {
        match self {
            Self::WeirFw { backup, .. } => *backup,
            Self::Linux { .. } | Self::Command { .. } | Self::Tree { .. } => None,
        }
    }

    /// Whether it is likely to keep a state for each flow, by its rules: only when they are loaded
    /// is it certain.
    #[must_use]
    pub fn seems_to_keep_flows(&self) -> bool {
        let any = |text: &str, keeps: fn(&str) -> bool| {
            text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).any(keeps)
        };
        match self {
            Self::Linux { nft: Some(file), .. } => any(&file.text, |rule| {
                let words = [" ct ", "masquerade", "snat ", "dnat "];
                rule.starts_with("ct ") || words.iter().any(|word| rule.contains(word))
            }),
            Self::WeirFw { rules, .. } => {
                any(&rules.text, |rule| rule.starts_with("pass") && !rule.contains("no state"))
            }
            Self::Linux { nft: None, .. } | Self::Command { .. } | Self::Tree { .. } => false,
        }
    }
}

/// A second firewall with the same rules, which has the states of the first one by `weir fw sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Why it takes over in the middle of a measurement; absent: it does not, and no packet comes
    /// its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover: Option<Takeover>,
}

/// Why a second firewall takes over from the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Takeover {
    /// By plan: the first one waits until the second one has all states, and lets go.
    Drain,
    /// The first one is cut off without a word.
    Kill,
}

impl Takeover {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::Drain, Self::Kill];

    /// Its name in specifications.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Kill => "kill",
        }
    }
}

/// A file of a DUT, substituted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DutFile {
    /// Its path as the specification writes it.
    pub path: String,
    /// Its content after substitution.
    pub text: String,
}

/// What a machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// FreeBSD and what is made of it.
    Freebsd,
    /// OpenBSD.
    Openbsd,
    Linux,
    /// Anything with a shell behind SSH.
    Generic,
}

impl System {
    /// Every system.
    pub const ALL: [Self; 4] = [Self::Freebsd, Self::Openbsd, Self::Linux, Self::Generic];

    /// Its name in specifications.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Freebsd => "freebsd",
            Self::Openbsd => "openbsd",
            Self::Linux => "linux",
            Self::Generic => "generic",
        }
    }
}

/// Files that are laid over a machine's root directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// The folder, as the specification names it.
    pub path: String,
    /// Its files, by their paths from the root, without a slash at the beginning.
    pub files: Vec<TreeFile>,
}

/// A file of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFile {
    /// Path from the root.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Its content after substitution.
    #[serde(alias = "text")]
    pub content: Content,
}

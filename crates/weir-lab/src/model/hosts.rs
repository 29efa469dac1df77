//! The testbed kind `hosts`, resolved: which machines there are, what each does, how it is reached.
//!
//! Passwords never stand here: a specification is kept in the store. It names environment variables
//! ([`HostsSpec::secrets`]) or leaves them to the tools that are called (ssh, snmp, ipmitool).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_machine::access::{BoxSpec, RemoteSpec};
use weir_machine::switch::SwitchSpec;

/// Machines that are reached by SSH, or are this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostsSpec {
    /// Rate of the slowest link of the path, bits per second; absent: not known.
    pub link_rate_bps: Option<u64>,
    /// Environment variables of the manager whose values appear nowhere.
    pub secrets: Vec<String>,
    /// Whether each series has one run more that is not counted, with a profile of the DUT.
    pub profile: bool,
    /// One at least; each sends an equal share of the rate.
    pub generators: Vec<EndSpec>,
    /// Where the traffic arrives; it may be a generator's machine.
    pub receiver: EndSpec,
    /// The device under test.
    pub dut: BoxSpec,
    /// A machine beside the path that the DUT needs: the other end of its tunnels.
    pub reference: Option<RemoteSpec>,
    /// What counts the packets between the machines.
    pub switches: Vec<SwitchSpec>,
}

/// A generator or a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSpec {
    /// Its machine.
    pub remote: RemoteSpec,
    /// The interface that it sends or receives on.
    pub interface: String,
    /// Its address as a source; absent: the interface's own.
    pub mac: Option<String>,
    /// Of a generator: the address that its frames go to.
    pub next_hop_mac: Option<String>,
    /// The program that does it.
    pub driver: DriverSpec,
}

/// How a program is started and its figures are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverSpec {
    /// Whose lines it prints.
    pub kind: DriverKind,
    /// The program; absent: the kind's own name, looked up in the far `PATH`.
    pub program: Option<String>,
    /// More arguments, as a shell line has them.
    pub options: Option<String>,
    /// A shell line instead of the one that the kind makes.
    pub start: Option<String>,
    /// A shell line that stops it. Of `command`: instead of SIGINT; of others: what SIGINT does not
    /// end, and else when all programs of the trial have ended. SIGTERM and SIGKILL follow.
    pub stop: Option<String>,
    /// Of `command`: pattern whose first group is the number of packets so far.
    pub packets: Option<String>,
}

/// The programs whose lines are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// `weir gen`, `weir sink`.
    Weir,
    /// netmap's pkt-gen, or `weir pkt-gen`.
    PktGen,
    /// netsniff-ng's trafgen: sends only.
    Trafgen,
    /// Anything else, by a pattern.
    Command,
}

impl DriverKind {
    /// Its name in specifications.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weir => "weir",
            Self::PktGen => "pkt-gen",
            Self::Trafgen => "trafgen",
            Self::Command => "command",
        }
    }
}

/// What a DUT's machine runs for a block of the campaign, and how it gets onto it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Name in the specification.
    pub name: String,
    /// A file of the manager: a path, from the folder of the specification.
    pub file: Option<String>,
    /// SHA-256 (hex) that the file must have.
    pub sha256: Option<String>,
    /// Shell line that installs it, with the file as its standard input where it runs on the DUT,
    /// and its path in `WEIR_IMAGE` where it runs on the manager; absent: it is there already.
    pub install: Option<String>,
    /// Where that line runs.
    pub on: InstallOn,
    /// Shell line on the DUT that ends with 0 if and only if this image runs.
    pub check: Option<String>,
    /// How long the installation may take.
    pub timeout: Duration,
}

/// Where an installation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallOn {
    /// On the DUT.
    Dut,
    /// On the manager.
    Manager,
}

//! The testbed kind `hosts`, resolved: which machines there are, what each does, how it is reached.
//!
//! Passwords never stand here: a specification is kept in the store. It names environment variables
//! ([`HostsSpec::secrets`]) or leaves them to the tools that are called (ssh, snmp, ipmitool).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::content::Content;

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

/// A machine and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSpec {
    /// Name in messages and logs.
    pub name: String,
    /// Destination for ssh(1); absent: this machine.
    pub ssh: Option<String>,
    /// Configuration file for ssh(1), as with its `-F`; absent: the user's own.
    pub config: Option<String>,
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

/// What a machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// FreeBSD and what is made of it.
    Freebsd,
    /// OpenBSD.
    Openbsd,
    /// Linux.
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

/// The DUT's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxSpec {
    /// The machine.
    pub remote: RemoteSpec,
    /// What it runs.
    pub system: System,
    /// Interfaces on which the traffic comes in, or their Ethernet addresses; empty: those that
    /// have a generator's [`EndSpec::next_hop_mac`].
    pub receives: Vec<String>,
    /// Interfaces on which it leaves, or their Ethernet addresses; empty: not known.
    pub sends: Vec<String>,
    /// How it is started afresh before each run.
    pub reboot: Reset,
    /// How its power is switched off and on, for when it does not come back.
    pub power: Reset,
    /// How long it may take from the reset until it is online.
    pub boot_timeout: Duration,
    /// About how long that takes, for estimates.
    pub boot_time: Duration,
    /// When it is online.
    pub online: Online,
    /// How a configuration tree gets onto it.
    pub upload: Upload,
}

/// A way to start a machine afresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Reset {
    /// Not at all.
    None,
    /// A command on the machine itself; absent: the system's own.
    Ssh {
        /// The shell line.
        command: Option<String>,
    },
    /// A command of the manager: a power distribution unit, a script.
    Command {
        /// The shell line.
        command: String,
    },
    /// `ipmitool` on the manager.
    Ipmi {
        /// Address of the controller.
        host: String,
        /// User; absent: ipmitool's own choice.
        user: Option<String>,
        /// Environment variable that holds the password, one of [`HostsSpec::secrets`]; absent:
        /// ipmitool asks for none.
        password: Option<String>,
        /// Interface, as ipmitool's `-I` names it.
        interface: String,
    },
}

/// When a machine is online again. SSH has to answer in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Online {
    /// Address that must answer to ping from the manager first.
    pub ping: Option<String>,
    /// Shell line on the machine that must end with 0.
    pub command: Option<String>,
}

/// How a configuration tree gets onto a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The program that carries it.
    pub method: UploadMethod,
    /// Shell line on the machine before it: the root file system is made writable.
    pub before: Option<String>,
    /// Shell line after it: what was written is kept over a reboot.
    pub after: Option<String>,
}

/// The program that carries a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadMethod {
    /// rsync where both ends have it, tar otherwise.
    Auto,
    /// rsync over SSH.
    Rsync,
    /// tar through SSH.
    Tar,
}

/// A switch: counters that are nobody's who sends, forwards or receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSpec {
    /// Name in messages and in the ledger.
    pub name: String,
    /// How its counters are read.
    pub read: SwitchRead,
    /// For each place between the machines, where its count is found: an object identifier for
    /// SNMP, a pattern whose first group is the number for a command.
    pub counters: Vec<(SwitchPlace, String)>,
}

/// How a switch is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum SwitchRead {
    /// `snmpget` on the manager. Community and keys come out of net-snmp's own `snmp.conf`.
    Snmp {
        /// Address of the switch.
        host: String,
    },
    /// A shell line of the manager that prints the counters.
    Command {
        /// The shell line.
        command: String,
    },
}

/// Where a switch counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SwitchPlace {
    /// Frames that came from the generators.
    FromGenerator,
    /// Frames that went to the DUT.
    ToDut,
    /// Frames that came from the DUT.
    FromDut,
    /// Frames that went to the receiver.
    ToReceiver,
}

impl SwitchPlace {
    /// Every place, in the order of a packet's way.
    pub const ALL: [Self; 4] = [Self::FromGenerator, Self::ToDut, Self::FromDut, Self::ToReceiver];

    /// Its name in specifications and counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FromGenerator => "from_generator",
            Self::ToDut => "to_dut",
            Self::FromDut => "from_dut",
            Self::ToReceiver => "to_receiver",
        }
    }

    /// The counting point of the ledger that it stands beside.
    #[must_use]
    pub fn point(self) -> &'static str {
        match self {
            Self::FromGenerator => "accepted",
            Self::ToDut => "dut_received",
            Self::FromDut => "dut_forwarded",
            Self::ToReceiver => "delivered",
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

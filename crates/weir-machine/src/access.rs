//! How a machine is reached, started again, and given files.
//!
//! Passwords never stand here: a specification is kept in the store. They are left to the tools
//! that are called (ssh, ipmitool).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_results::dut::System;

/// A machine and how it is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSpec {
    /// Name in messages and logs.
    pub name: String,
    /// Destination for ssh(1); absent: this machine.
    pub ssh: Option<String>,
    /// Configuration file for ssh(1), as with its `-F`; absent: the user's own.
    pub config: Option<String>,
    /// Names of programs that belong to a measurement although nobody starts them from here: the
    /// machine's own daemons that carry packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<String>,
}

/// The DUT's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxSpec {
    /// The machine.
    pub remote: RemoteSpec,
    /// What it runs.
    pub system: System,
    /// Interfaces on which the traffic comes in, or their Ethernet addresses; empty: those that
    /// have a generator's `next_hop_mac`.
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
        /// Environment variable that holds the password, one of a specification's `secrets`;
        /// absent: ipmitool asks for none.
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

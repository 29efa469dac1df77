//! What is to be measured: the plan that a specification resolves to.
//!
//! These types hold resolved values only: every `${name}` is substituted, every file is read,
//! every range is checked. They never hold a path that has still to be looked up, and nothing
//! here touches the system.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_bpf::generator::SIZE_BYTES_MAX;
use weir_results::matrix::{Campaign, Series};
use weir_wire::rss::{Fields, Settings, Symmetry};

pub mod hosts;
pub mod qemu;
pub mod search;

pub use hosts::{DriverKind, DriverSpec, EndSpec, HostsSpec, Image, InstallOn};
pub use search::SearchTable;

/// MTU of Ethernet, and its header: bytes.
pub(crate) const MTU_BYTES_DEFAULT: u32 = 1500;
pub(crate) const ETHERNET_BYTES: u32 = 14;

/// A whole campaign, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `[campaign]` table.
    pub campaign: Campaign,
    /// The `[trial]` table.
    pub trial: TrialTimes,
    /// How often a trial is repeated that something else disturbed.
    pub retries: u32,
    /// The `[testbed]` table; where it refers to sweeps, at their first values.
    pub testbed: TestbedSpec,
    /// Where it refers to sweeps: the table of each series, by the series' id.
    pub places: BTreeMap<String, TestbedSpec>,
    /// Every `[[image]]`; empty on testbeds without.
    pub images: Vec<Image>,
    /// The `[search]` table; empty where there is none.
    pub search: SearchTable,
    /// Every series of the matrix, in the order of the specification.
    pub series: Vec<Series>,
    /// Every cell, in the order in which it is to be run.
    pub cells: Vec<Cell>,
    /// The specification as text, for the store.
    pub source: SpecSource,
}

/// The specification that a plan came from.
#[derive(Debug, Clone)]
pub struct SpecSource {
    /// Where it was read from, for messages.
    pub path: std::path::PathBuf,
    /// Its text, byte for byte.
    pub text: String,
    /// Every file it names: the path as written there, and its content before substitution.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The `[trial]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialTimes {
    /// Traffic before the measurement, in the same run of the generator.
    pub warmup: Duration,
    /// Length of the measurement.
    pub duration: Duration,
    /// Pause between the generator's stop and the reading of counters.
    pub drain: Duration,
    /// Distance of the samples.
    pub sample: Duration,
    /// Length of the latency phase after the measurement; absent: latency is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
}

/// The `[testbed]` table, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TestbedSpec {
    /// Three network namespaces of this host, joined by veth pairs.
    Netns(NetnsSpec),
    /// Machines behind SSH.
    Hosts(Box<HostsSpec>),
    /// A virtual machine between two namespaces of this host.
    Qemu(Box<qemu::QemuSpec>),
}

impl TestbedSpec {
    /// Its kind, as specifications name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Netns(_) => "netns",
            Self::Hosts(_) => "hosts",
            Self::Qemu(_) => "qemu",
        }
    }

    /// The largest frame that its links carry, bytes without FCS.
    #[must_use]
    pub fn size_bytes_max(&self) -> u32 {
        let mtu_bytes = match self {
            Self::Netns(netns) => netns.mtu_bytes,
            Self::Hosts(_) | Self::Qemu(_) => None,
        };
        mtu_bytes.unwrap_or(MTU_BYTES_DEFAULT) + ETHERNET_BYTES
    }

    /// Whether each series has one run more that is not counted, with a profile of the DUT.
    #[must_use]
    pub fn profile(&self) -> bool {
        match self {
            Self::Netns(_) => false,
            Self::Hosts(hosts) => hosts.profile,
            Self::Qemu(qemu) => qemu.profile,
        }
    }

    /// Whether the DUT can be left out of the path, so that the rest of it can be calibrated.
    #[must_use]
    pub fn has_direct_path(&self) -> bool {
        matches!(self, Self::Netns(_) | Self::Qemu(_))
    }

    /// Links through the DUT.
    #[must_use]
    pub fn links(&self) -> u16 {
        match self {
            Self::Netns(netns) => netns.links,
            Self::Hosts(_) | Self::Qemu(_) => 1,
        }
    }
}

/// Placement of a `netns` testbed. CPU lists do not overlap; `None` means "choose for this host".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetnsSpec {
    /// CPUs of the generator's threads.
    pub generator_cpus: Option<String>,
    /// CPUs of the DUT's NAPI threads.
    pub dut_cpus: Option<String>,
    /// CPUs of the sink's NAPI threads; absent: the sink's work runs on the CPU that delivers.
    pub sink_cpus: Option<String>,
    /// CPUs of the NAPI threads of the DUT's devices, of the DUT's; absent: all of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_cpus: Option<String>,
    /// CPUs among which receive packet steering spreads the DUT's flows; absent: it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps_cpus: Option<String>,
    /// Queues of every veth device.
    pub queues: u32,
    /// Receive side scaling of the DUT's devices; absent: a generator's CPU decides on the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<Box<RssSpec>>,
    /// Links through the DUT, each with two of its ports.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub links: u16,
    /// MTU of every veth device, bytes of an IP packet; absent: Ethernet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// Connections that this host may track while the campaign runs; absent: as it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack_max: Option<u64>,
}

impl NetnsSpec {
    /// Whether frames leave the generators through the kernel's stack: to be spread over queues as
    /// a card would, or because they may be larger than a live frame, which has a single page.
    #[must_use]
    pub fn sends_through_stack(&self) -> bool {
        self.rss.is_some() || self.has_jumbo_frames()
    }

    /// Whether frames may be larger than a single page holds.
    #[must_use]
    pub fn has_jumbo_frames(&self) -> bool {
        self.mtu_bytes.is_some_and(|mtu| mtu + ETHERNET_BYTES > u32::from(SIZE_BYTES_MAX))
    }
}

/// How packets are spread over the queues of the DUT's devices, as a card would. Each is as it is
/// written, and was read once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RssSpec {
    /// The key of the hash, in hexadecimal digits.
    pub key: String,
    /// The indirection table: a queue for each bucket.
    pub table: String,
    /// What is hashed of every kind of flow: `2-tuple` or `4-tuple`.
    pub fields: String,
}

impl RssSpec {
    /// The settings of the card that it is like.
    ///
    /// # Errors
    /// In words, where one is not what it should be: in a store that was changed by hand.
    pub fn settings(&self) -> Result<Settings, String> {
        let fields: Fields = self.fields.parse().map_err(|error| format!("{error}"))?;
        Ok(Settings {
            key: self.key.parse().map_err(|error| format!("{error}"))?,
            table: self.table.parse().map_err(|error| format!("{error}"))?,
            symmetry: Symmetry::None,
            fields: [fields; 4],
        })
    }
}

const fn one() -> u16 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(count: &u16) -> bool {
    *count == 1
}

/// One run: a series and an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Index into [`Plan::series`].
    pub series_index: usize,
    /// Iteration, from 1.
    pub iteration: u32,
    /// SHA-256 (hex) of the series' id and the iteration.
    pub id: String,
}

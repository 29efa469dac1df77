//! What is to be measured: the plan that a specification resolves to.
//!
//! These types hold resolved values only: every `${name}` is substituted, every file is read,
//! every range is checked. They never hold a path that has still to be looked up, and nothing
//! here touches the system.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_stats::{Level, stopping};

pub(crate) mod content;
pub mod hosts;
pub mod qemu;
mod search;
mod traffic;

pub use content::Content;
pub use hosts::{
    BoxSpec, DriverKind, DriverSpec, EndSpec, HostsSpec, Image, InstallOn, Online, RemoteSpec,
    Reset, SwitchPlace, SwitchRead, SwitchSpec, System, Tree, TreeFile, Upload, UploadMethod,
};
pub use search::{FrameSize, SearchTable, Test};
pub(crate) use traffic::NO_MACS;
pub use traffic::{Streams, Traffic};

/// A whole campaign, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `[campaign]` table.
    pub campaign: Campaign,
    /// The `[trial]` table.
    pub trial: TrialTimes,
    /// The `[testbed]` table.
    pub testbed: TestbedSpec,
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

impl SpecSource {
    /// The files as texts. Only configuration trees have others.
    ///
    /// # Errors
    /// The path of a file that is not text in UTF-8.
    pub fn texts(&self) -> Result<BTreeMap<String, String>, &str> {
        self.files
            .iter()
            .map(|(path, bytes)| match String::from_utf8(bytes.clone()) {
                Ok(text) => Ok((path.clone(), text)),
                Err(_) => Err(path.as_str()),
            })
            .collect()
    }
}

/// The `[campaign]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Name: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Iterations of every series; the most of them where `auto` is there.
    pub iterations: u32,
    /// When a series is stopped before that; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<AutoIterations>,
    /// Order of the cells.
    pub order: Order,
    /// Seed of the randomised blocks.
    pub seed: u64,
}

/// What `iterations = "auto"` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AutoIterations {
    /// Half width of the interval that stops a series, as a share of its mean.
    pub half_width_ratio: f64,
    /// Confidence of that interval, in per cent.
    pub confidence_percent: f64,
    /// Fewest valid iterations of a series.
    pub iterations_min: u32,
}

impl AutoIterations {
    /// The half width in per cent.
    #[must_use]
    pub fn half_width_percent(&self) -> f64 {
        // Rounded far below any that is asked for, so that 0.7 % is not 0.7000000000000001 %.
        (self.half_width_ratio * 1e10).round() / 1e8
    }
}

impl Campaign {
    /// How many iterations a series has, for people: `5`, or `5 to 30`.
    #[must_use]
    pub fn iterations_text(&self) -> String {
        match self.iterations_min() {
            least if least < self.iterations => format!("{least} to {}", self.iterations),
            _ => self.iterations.to_string(),
        }
    }

    /// The fewest iterations of a series.
    #[must_use]
    pub fn iterations_min(&self) -> u32 {
        self.auto.map_or(self.iterations, |auto| auto.iterations_min)
    }

    /// The rule that stops a series early, with `iterations = "auto"`.
    #[must_use]
    pub fn stopping_rule(&self) -> Option<stopping::Rule> {
        let auto = self.auto?;
        Some(stopping::Rule {
            half_width_ratio: auto.half_width_ratio,
            level: Level::from_percent(auto.confidence_percent).unwrap_or_default(),
            values_min: usize::try_from(auto.iterations_min).unwrap_or(usize::MAX),
            runs_max: usize::try_from(self.iterations).unwrap_or(usize::MAX),
        })
    }
}

/// In which order the cells of a campaign run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Randomised blocks: each block holds every series once, shuffled by the seed.
    Interleaved,
    /// Series by series, as written.
    Sequential,
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

    /// About what a trial takes beside its own times, beyond what every testbed needs.
    #[must_use]
    pub fn overhead(&self) -> Duration {
        match self {
            Self::Netns(_) => Duration::ZERO,
            Self::Qemu(_) => qemu::BOOT_TIME,
            // Programs are started over SSH, several times: probes, traffic, counters.
            Self::Hosts(hosts) => hosts.dut.boot_time + Duration::from_secs(4),
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
    /// Queues of every veth device.
    pub queues: u32,
    /// Connections that this host may track while the campaign runs; absent: as it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack_max: Option<u64>,
}

/// A value of a sweep: as written, and as a number where it is one (`64Ki` is 65,536).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepValue {
    /// As written in the specification.
    pub label: String,
    /// Its numeric value, if it has one.
    pub number: Option<f64>,
}

/// One point of the matrix image × DUT × sweep values × traffic.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name, and folder in the store: `[<image>.]<dut>[.<sweep>=<value>…].<traffic>`.
    pub name: String,
    /// SHA-256 (hex) of everything that determines the series.
    pub id: String,
    /// The image, on testbeds that have images.
    pub image: Option<String>,
    /// The DUT, substituted.
    pub dut: Dut,
    /// Values of the sweeps, in their order.
    pub sweep: Vec<(String, SweepValue)>,
    /// The traffic, substituted.
    pub traffic: Traffic,
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

/// A device under test, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dut {
    /// Name in the specification.
    pub name: String,
    /// What it is.
    pub kind: DutKind,
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

/// A file of a DUT, substituted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DutFile {
    /// Its path as the specification writes it.
    pub path: String,
    /// Its content after substitution.
    pub text: String,
}

/// Serialises through `Display` and `FromStr`.
pub mod display {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes `value` as its text.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    /// Reads a value from its text.
    ///
    /// # Errors
    /// When the text is not one.
    pub fn deserialize<'de, T, D>(d: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

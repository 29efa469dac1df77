//! What a `[testbed]` of the kind `qemu` asks for. Values only; paths are as they are written.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_machine::image::DiskFormat;
use weir_machine::qemu::Accel;
use weir_results::dut::System;

use super::NetnsSpec;

/// About what a trial takes beside its own times: an emulated machine boots.
pub(crate) const BOOT_TIME: Duration = Duration::from_secs(25);

/// A virtual machine as the DUT. What is absent is taken from the file beside the image, if there
/// is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QemuSpec {
    /// The disk, relative to the folder of the specification.
    pub image: String,
    /// Format of the disk; absent: as its first bytes say.
    pub format: Option<DiskFormat>,
    /// The kernel, for an image that is not booted by a loader of its own.
    pub kernel: Option<String>,
    /// The initial RAM disk.
    pub initrd: Option<String>,
    /// The kernel's command line.
    pub append: Option<String>,
    /// Memory of the machine.
    pub memory_bytes: u64,
    pub cpus: u32,
    /// Model of its network cards, as QEMU names it.
    pub nic: String,
    /// Queues of each of the two cards that carry the traffic.
    pub queues: u32,
    /// What runs its instructions.
    pub accel: Accel,
    /// User to log in as.
    pub ssh_user: Option<String>,
    /// File of the private key.
    pub ssh_key: Option<String>,
    /// The machine's own public key.
    pub ssh_host_key: Option<String>,
    /// Port of its SSH server.
    pub ssh_port: u16,
    /// Text on the serial console that says that it is up.
    pub console_ready: Option<String>,
    /// How long it may take from its start until SSH answers.
    pub boot_timeout: Duration,
    /// Who gives its cards addresses, neighbours and routes.
    pub setup: Setup,
    /// What the machine runs.
    pub system: System,
    /// Whether each series has one run more that is not counted, with a profile of the DUT.
    pub profile: bool,
    /// Programs of the machine that belong to the DUT although nobody starts them from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<String>,
    /// CPU of this host that the generator runs on.
    pub generator_cpus: Option<String>,
    /// CPUs of this host that the machine runs on.
    pub dut_cpus: Option<String>,
}

impl QemuSpec {
    /// The parts of it that are as in a testbed of namespaces: where the generator, and what
    /// stands in the DUT's place in a calibration, run.
    #[must_use]
    pub fn placement(&self) -> NetnsSpec {
        NetnsSpec {
            generator_cpus: self.generator_cpus.clone(),
            dut_cpus: self.dut_cpus.clone(),
            sink_cpus: None,
            napi_cpus: None,
            rps_cpus: None,
            queues: 1,
            links: 1,
            rss: None,
            mtu_bytes: None,
            conntrack_max: None,
        }
    }
}

/// Who gives the machine's cards addresses, neighbours and routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setup {
    /// The lab, by `ip` over SSH.
    Linux,
    /// The image, or the DUT's configuration.
    None,
}

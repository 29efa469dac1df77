//! Arguments of `weir lab image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_wire::units::parse_count;

use super::JsonFlag;

pub(crate) const HELP: &str = "\
Writes a disk for a machine of the testbed kind \"qemu\" (docs/qemu.md), and beside it, under the
same name with an ending: how it is booted (.toml), kernel and initial RAM disk (.kernel, .initrd),
and the key that logs in (.key). Packages come from where apt of this host has Debian from.

Needs root, and the Debian packages mmdebstrap, e2fsprogs, openssh-client and qemu-utils. Takes
about a minute. The machine has Linux, sysvinit, sshd, a serial console, nftables, ethtool,
iproute2 and rsync; root logs in by key over SSH, and without a password on the console.

Examples:
  sudo weir lab image debian --out debian.qcow2
  sudo weir lab image debian --out router.qcow2 --package frr --package linux-perf --size 2Gi";

/// What an image is made of.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build a small Debian machine out of the distribution's packages.
    #[command(after_help = HELP)]
    Debian(DebianArgs),
}

/// What `weir lab image debian` is asked for.
#[derive(Debug, Args)]
pub(crate) struct DebianArgs {
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Format of the disk [default: raw for a FILE that ends in .raw or .img, qcow2 otherwise].
    #[arg(long, value_enum)]
    pub(crate) format: Option<DiskFormat>,
    /// Size of the disk in bytes, at least 512Mi.
    #[arg(long, value_name = "N", default_value = "1Gi", value_parser = parse_count)]
    pub(crate) size: u64,
    /// Release of Debian [default: this host's].
    #[arg(long, value_name = "NAME")]
    pub(crate) suite: Option<String>,
    /// Where packages come from [default: as apt of this host has it].
    #[arg(long, value_name = "URL")]
    pub(crate) mirror: Option<String>,
    /// A package beside the usual ones; may be given several times.
    #[arg(long = "package", value_name = "NAME")]
    pub(crate) packages: Vec<String>,
    /// Replace an image that is there; what no build has made is never overwritten.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Formats of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskFormat {
    /// QEMU's own, which takes no room for what is empty.
    Qcow2,
    /// The bytes of the disk.
    Raw,
}

impl DebianArgs {
    /// Whether the disk is to be in QEMU's own format.
    pub(crate) fn is_qcow2(&self) -> bool {
        let ending = self.out.extension().and_then(|ending| ending.to_str());
        match self.format {
            Some(format) => format == DiskFormat::Qcow2,
            None => !matches!(ending, Some("raw" | "img")),
        }
    }
}

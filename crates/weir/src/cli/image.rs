//! Arguments of `weir lab image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_wire::units::parse_count;

use super::JsonFlag;

pub(crate) const HELP: &str = "\
Writes a disk for a machine of the testbed kind \"qemu\" (docs/qemu.md), and beside it, under the
same name with an ending: how it is booted (.toml), kernel and initial RAM disk (.kernel, .initrd),
and the key that logs in (.key). Packages come from the sources that apt on this host uses.

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
    /// Make a DUT of a FreeBSD medium or published disk, over its serial console.
    #[command(after_help = FREEBSD_HELP)]
    Freebsd(BsdArgs),
    /// Make a DUT of an OpenBSD medium, over its serial console.
    #[command(after_help = OPENBSD_HELP)]
    Openbsd(BsdArgs),
}

const FREEBSD_HELP: &str = "\
FILE is what you have downloaded and unpacked: a disk (FreeBSD-14.2-RELEASE-amd64.qcow2 or .raw), or
a medium with the sets on it (disc1, dvd1 or memstick). It is not written to. The image gets sshd
and a key, the serial console, forwarding, and the addresses of the lab's cards; docs/qemu.md has
more. Takes minutes from a disk with KVM, and up to hours from a medium without.

Examples:
  weir lab image freebsd FreeBSD-14.2-RELEASE-amd64.qcow2 --out freebsd.qcow2
  weir lab image freebsd FreeBSD-14.2-RELEASE-amd64-disc1.iso --out fb.qcow2 --log fb.log";

const OPENBSD_HELP: &str = "\
FILE is a medium that you have downloaded: install76.iso or install76.img. It is not written to. The
image gets sshd and a key, the serial console, forwarding, and the addresses of the lab's cards;
docs/qemu.md has more. Takes ten minutes with KVM, and up to hours without.

Example:
  weir lab image openbsd install76.iso --out openbsd.qcow2 --log install.log";

/// What `weir lab image freebsd` and `openbsd` are asked for.
#[derive(Debug, Args)]
pub(crate) struct BsdArgs {
    /// The medium or disk that you have downloaded.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The file to write, in QEMU's own format.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Take FILE for a medium to install from, whatever its name is.
    #[arg(long, conflicts_with = "disk")]
    pub(crate) medium: bool,
    /// Take FILE for a disk with a system on it.
    #[arg(long)]
    pub(crate) disk: bool,
    /// Size of the disk that is installed on, in bytes, at least 4Gi.
    #[arg(long, value_name = "N", default_value = "8Gi", value_parser = parse_count)]
    pub(crate) size: u64,
    /// Append everything that the machine says to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Replace an image that is there; a file that no build made is never overwritten.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
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
    /// Where packages come from [default: the sources of apt on this host].
    #[arg(long, value_name = "URL")]
    pub(crate) mirror: Option<String>,
    /// A package in addition to the usual ones; may be given several times.
    #[arg(long = "package", value_name = "NAME")]
    pub(crate) packages: Vec<String>,
    /// Replace an image that is there; a file that no build made is never overwritten.
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

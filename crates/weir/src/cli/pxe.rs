//! The arguments of `weir pxe`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::JsonFlag;

pub(crate) const EXAMPLES: &str = "\
Examples:
  weir pxe check --dir /srv/pxe                  what is missing, and where it comes from
  sudo weir pxe serve --interface eth1 --dir /srv/pxe
  weir console /dev/ttyUSB0 --script install.toml    choose from the menu, unattended";

const SERVE_HELP: &str = "\
Answers DHCP and TFTP on that interface (by dnsmasq) and HTTP, until SIGINT or SIGTERM. What is
offered is listed in pxe.toml in the directory; docs/pxe.md has its format. A menu comes up on the
machine's serial port and screen; a [[host]] boots its entry without being asked.

The interface needs an address in the network of the range, and no other server may answer DHCP
there. Each line of output says who asked for what: machines that ask, addresses, files sent, files
that are missing. Nothing is downloaded: weir pxe check says where files come from.

Examples:
  sudo weir pxe serve --interface eth1 --dir /srv/pxe
  sudo weir pxe serve --interface eth1 --dir /srv/pxe --log /var/log/weir-pxe.log --json";

/// `weir pxe`.
#[derive(Debug, Subcommand)]
pub(crate) enum PxeCommand {
    /// Serve menus, boot loaders and files to machines that boot from the network.
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// List the files that are missing, and where each comes from.
    #[command(after_help = "Example: weir pxe check --dir /srv/pxe --interface eth1")]
    Check(CheckArgs),
}

/// `weir pxe serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The interface towards the machines.
    #[arg(long, value_name = "IF")]
    pub(crate) interface: String,
    /// The directory with pxe.toml and the files that it names.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Append every event, and dnsmasq's own lines, to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// `weir pxe check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The directory with pxe.toml and the files that it names.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The interface that is to serve: whether the range is in its network.
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

//! The arguments of `weir fw sync`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use weir_wire::units::parse_duration;

use super::JsonFlag;
use super::queues::interval;

/// Where a firewall's key is.
const KEY_FILE: &str = "/etc/weir/sync.key";

pub(crate) const SYNC_HELP: &str = "\
What pfsync does for pf: a second firewall has the states of this one, and takes over without a
connection being lost. `to` runs on the firewall that forwards, `serve` on its backup, both on both
if either may forward; they carry states between the two daemons over one TLS 1.3 connection, on
which each side shows an Ed25519 key and takes the other one's alone. docs/fw-sync.md is the guide.

Examples:
  sudo weir fw sync keygen
  sudo weir fw sync serve --listen 192.0.2.2:7467 --peer ed25519:52…
  sudo weir fw sync to 192.0.2.2:7467 --peer /etc/weir/sync.peers
  sudo weir fw sync status
  sudo weir fw sync drain";

const KEYGEN_HELP: &str = "\
The public key is printed, for --peer on the other firewall. The file is readable by its owner
alone; a directory that is missing is made. A key that openssl genpkey -algorithm ed25519 makes does
as well.

Examples:
  sudo weir fw sync keygen
  sudo weir fw sync keygen --public
  ssh backup sudo weir fw sync keygen --public >> /etc/weir/sync.peers";

const TO_HELP: &str = "\
Runs until Ctrl-C or SIGTERM. It connects, and connects again after 0.1 to 5 seconds whenever the
connection is lost; that it is lost, and that it is there again, is said once on standard error.
Bytes that the other side has not acknowledged, or not read, for 5 seconds end a connection, and so
do 5 seconds without an answer while nothing is sent. Each new connection begins with all states.

Examples:
  sudo weir fw sync to 192.0.2.2:7467 --peer ed25519:52…
  sudo weir fw sync to '[2001:db8::2]:7467' --bind 2001:db8::1 --peer /etc/weir/sync.peers
  sudo weir fw sync to 192.0.2.2:7467 --peer ed25519:52… --defer";

const SERVE_HELP: &str = "\
Runs until Ctrl-C or SIGTERM. One firewall's states come at a time; if the same one connects again,
the new connection takes the place of the old one. Whoever shows no key that --peer names, is not
done with that after 5 seconds, or is the 17th to try at once, is refused; that is said once for
each burst, with the key that was shown.

Examples:
  sudo weir fw sync serve --listen 192.0.2.2:7467 --peer ed25519:52…
  sudo weir fw sync serve --listen '[::]:7467' --peer /etc/weir/sync.peers
  sudo weir fw sync serve --listen 192.0.2.2:7467 --peer ed25519:52… --interface eth0=ens3";

const STATUS_HELP: &str = "\
Exit code 1 if no session lives in either direction. With --every it is shown again and again until
Ctrl-C, or until no firewall runs; --json then has a line for each time.

Examples:
  sudo weir fw sync status
  sudo weir fw sync status --json | jq '.out.lag_ms'
  sudo weir fw sync status --every 100ms --json | jq --unbuffered '.out.lag_ms'";

const DRAIN_HELP: &str = "\
For a handover by plan, on the firewall that forwards: returns when the other firewall has
acknowledged every change that there was when the command began, and says how long that took; exit
code 1 if it has not after --timeout. Forwarding goes on, and so do changes: demote this firewall
right after it (let keepalived give the address away), which leaves those of the moment between.
States that are not answered yet, and those that stay on their firewall, are not waited for.

Examples:
  sudo weir fw sync drain && sudo systemctl stop keepalived
  sudo weir fw sync drain --timeout 1m --json | jq '.took_ms'";

const TRACK_HELP: &str = "\
Runs until Ctrl-C or SIGTERM. The file says what VRRP is to add to this firewall's priority: 0 once
a bulk of the other firewall's states has come, or once this firewall has been alone for
--alone-after, and -100 before that and while no firewall runs here. This keeps a firewall that
comes back with an empty table from taking over connections that it does not know. It stays ready
if the connection is lost later on. The file stays when the command ends.

Examples:
  sudo weir fw sync track /run/weir-sync/priority
  sudo weir fw sync track /run/weir-sync/priority --alone-after 2m";

/// `weir fw sync`.
#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    #[command(subcommand)]
    pub(crate) command: SyncCommand,
}

/// What is done.
#[derive(Debug, Subcommand)]
pub(crate) enum SyncCommand {
    /// Make this firewall's key, and print the public one.
    #[command(after_help = KEYGEN_HELP)]
    Keygen(KeygenArgs),
    /// Send this firewall's states to another one, as long as it runs.
    #[command(after_help = TO_HELP)]
    To(ToArgs),
    /// Take the states of another firewall, as long as it runs.
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Show how states go and come: lag, bulk, rates, what was left out.
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// Wait until the other firewall has all states.
    #[command(after_help = DRAIN_HELP)]
    Drain(DrainArgs),
    /// Keep a file for keepalived that says whether this firewall may be master.
    #[command(after_help = TRACK_HELP)]
    Track(TrackArgs),
}

/// `weir fw sync keygen`.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// The file of the private key.
    #[arg(long, value_name = "FILE", default_value = KEY_FILE)]
    pub(crate) key: PathBuf,
    /// Replace a key that is there.
    #[arg(long, conflicts_with = "public")]
    pub(crate) force: bool,
    /// Make none: print the public key of the one that is there.
    #[arg(long)]
    pub(crate) public: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Whose key this firewall shows, and whose it takes.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The file of this firewall's private key.
    #[arg(long, value_name = "FILE", default_value = KEY_FILE)]
    pub(crate) key: PathBuf,
    /// The other firewall's public key, or a file with keys, one on each line; # begins a comment.
    /// Repeated: any of them.
    #[arg(long = "peer", value_name = "KEY|FILE", required = true)]
    pub(crate) peers: Vec<String>,
}

/// `weir fw sync to`.
#[derive(Debug, Args)]
pub(crate) struct ToArgs {
    /// Where the other firewall's weir fw sync serve listens.
    #[arg(value_name = "HOST:PORT", value_parser = host_and_port)]
    pub(crate) host: String,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// Connect from this address.
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Option<IpAddr>,
    /// Send new states before anybody has answered, because answers come to the other firewall
    /// where serve --defer has them wait. A flood of new flows then goes to it, too.
    #[arg(long)]
    pub(crate) defer: bool,
}

/// `weir fw sync serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen at. Port 0 is one that is free.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    /// The other firewall's interface THEIRS is OURS here, also in the text of rules. Repeated:
    /// several.
    #[arg(long = "interface", value_name = "THEIRS=OURS", value_parser = renamed)]
    pub(crate) interfaces: Vec<(String, String)>,
    /// Have what the rules block on its way in, and what may answer a packet that went by the other
    /// firewall, wait 5 ms for its state, and judge it then. For paths that are not symmetric; the
    /// other firewall's to needs --defer.
    #[arg(long)]
    pub(crate) defer: bool,
}

/// `weir fw sync status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it again after each such time, 10 ms at least.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) every: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// `weir fw sync drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// How long to wait at most.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// `weir fw sync track`.
#[derive(Debug, Args)]
pub(crate) struct TrackArgs {
    /// The file to write; its directory must exist.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How long to wait for another firewall's states before becoming ready without them.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub(crate) alone_after: Duration,
}

/// An interface of the other firewall, and its name here.
fn renamed(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((theirs, ours)) if !theirs.is_empty() && !ours.is_empty() => {
            Ok((theirs.to_owned(), ours.to_owned()))
        }
        _ => Err(format!("`{text}` is not THEIRS=OURS, such as eth0=ens3")),
    }
}

/// A name or an address, and a port that is one.
fn host_and_port(text: &str) -> Result<String, String> {
    let wrong =
        || format!("`{text}` is not HOST:PORT, such as 192.0.2.2:7467 or [2001:db8::2]:7467");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if host.is_empty() || !is_port || (host.contains(':') && !is_bracketed) {
        return Err(wrong());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_port() {
        for good in ["192.0.2.2:7467", "[2001:db8::2]:7467", "backup.example:1"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for bad in ["192.0.2.2", ":7467", "backup:0", "backup:70000", "2001:db8::2:7467", "a:b"] {
            assert!(host_and_port(bad).unwrap_err().contains("HOST:PORT"), "{bad}");
        }
    }
}

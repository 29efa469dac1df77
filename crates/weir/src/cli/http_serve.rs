//! The arguments of `weir http serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_http::ask::USAGE;
use weir_net::CpuList;
use weir_wire::rss::Table;

use super::JsonFlag;
use super::echo::EachName;
use super::traffic::some_time;

const METHODS: &str =
    "HTTP/1.1, methods GET, HEAD, POST and PUT. What a request gets stands in its URL:";

const WORKERS_AND_EXAMPLES: &str = "\
Each worker is a process with the limit of descriptors for itself: a hard limit of 20,000 is room
for about 20,000 connections a worker. Those for which there is no room wait to be accepted, and
`accept_stalls` counts how often that began. It ends by Ctrl-C; connections that are open then are
in the total as open. [::] takes IPv6 alone: give 0.0.0.0 as well.

Examples:
  weir http serve --listen 10.0.0.1:80
  weir http serve --listen 0.0.0.0:80 --listen [::]:80 --workers 14 --progress
  weir http serve --listen 10.0.0.1:443 --tls --cert chain.pem --key key.pem
  weir http serve --listen 10.0.0.1:80 --pin 2-5 --json > served.json
  weir http serve --listen 10.0.0.1:80 -i eth1 --each bucket";

/// What requests get stands here in the server's words, without the line that introduces them.
pub(crate) fn serve_help() -> String {
    let answers = USAGE.split_once('\n').map_or(USAGE, |(_, answers)| answers);
    format!("{METHODS}\n{answers}\n{WORKERS_AND_EXAMPLES}")
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen at; repeated: several. Port 0 is one that is free.
    #[arg(long, value_name = "ADDR:PORT", required = true)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Speak TLS 1.2 and 1.3 at every address, with HTTP/1.1 on it. Without --cert the certificate
    /// is made at the start, for these addresses, and signed by itself.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Certificate of the server, and those between it and its authority, PEM.
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"])]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Number of workers, 1 to 1024 [default: one for each of --pin, or for each CPU that may be
    /// used].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// A worker for each receive queue of this interface, which gets the connections that are
    /// hashed there, by its key and table.
    #[arg(short = 'i', value_name = "IF", conflicts_with = "workers")]
    pub(crate) interface: Option<String>,
    /// The same by this table, with Microsoft's key: a queue for each bucket (0,1,0,2),
    /// equal:QUEUES[/SIZE] or weights:W,W,…[/SIZE].
    #[arg(long, value_name = "LIST", conflicts_with_all = ["workers", "interface"])]
    pub(crate) table: Option<Table>,
    /// What there is a worker for: each queue, up to the last that the table names, or each bucket
    /// [default: queue].
    #[arg(long, value_name = "NAME")]
    pub(crate) each: Option<EachName>,
    /// CPUs to pin workers to, in turn: 0-1,3 [default: the kernel places them].
    #[arg(long, value_name = "LIST")]
    pub(crate) pin: Option<CpuList>,
    /// Serve for this long [default: until Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// Show the counters each second.
    #[arg(long)]
    pub(crate) progress: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_server_say_the_same() {
        for line in USAGE.lines().skip(1) {
            assert!(serve_help().contains(&format!("{line}\n")), "{line}");
        }
    }
}

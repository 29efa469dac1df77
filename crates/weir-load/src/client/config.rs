//! What a worker of the client is to do, what it is told, and what it says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_http::figures::{Counts, Figures, Times};
use weir_http::pacing::{Pace, Share};
use weir_net::Prefix;

/// Most requests that are due and wait for a connection, for each worker; more are not sent.
pub const BACKLOG_MAX: usize = 1 << 20;
/// Most sizes of a distribution.
pub const SIZES_MAX: usize = 64;
/// How often a worker says where it stands, for somebody who looks on.
pub const REPORT_NS: u64 = 250_000_000;

/// What one worker is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerConfig {
    /// Its part of the load. Numbers of connections and requests are of all workers.
    pub share: Share,
    /// The CPU that it is pinned to.
    pub cpu: Option<usize>,
    pub server: SocketAddr,
    /// `None`: in the clear.
    pub tls: Option<TlsConfig>,
    /// Where connections come from; without it, the kernel chooses.
    pub sources: Option<Sources>,
    /// Connections at a time.
    pub connections: u64,
    /// Connections opened per second before the first request.
    pub connect_rate_cps: f64,
    pub load: Load,
    /// Requests on a connection before the client closes it; `None`: as many as the server allows.
    pub keepalive: Option<u64>,
    pub close: Close,
    /// Share of requests that the client resets once they are sent, 0 to 1.
    pub abort_ratio: f64,
    /// How long a user waits after an answer before the next request.
    pub think_ns: u64,
    /// How long a request may take, from when it is begun; a connection, from its SYN.
    pub timeout_ns: u64,
    pub request: RequestConfig,
    /// How often it says where it stands.
    pub report_ns: u64,
    /// Of all that is drawn.
    pub seed: u64,
}

impl WorkerConfig {
    /// Whether connections are opened before there are requests: each has more than one.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.keepalive != Some(1)
    }
}

/// TLS on each connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsConfig {
    /// The server's name or address, as its certificate has it.
    pub name: String,
    /// Certificates of authorities, PEM; `None`: those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// Whether the server's certificate has to be good.
    pub verifies: bool,
    /// Whether sessions are resumed where the server lets the client.
    pub resumes: bool,
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Load {
    /// At a rate, however long answers take.
    Open(Pace),
    /// On each connection as soon as the answer before has come.
    Closed,
}

/// How the client ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// The last request says `Connection: close`.
    Fin,
    /// With a RST (SO_LINGER of 0, socket(7)).
    Rst,
}

/// Addresses that connections come from, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    pub first: IpAddr,
    /// At least 1.
    pub count: u64,
}

impl Sources {
    /// All addresses of a network. Of IPv4 networks with more than two, those whose host bits are
    /// all zero or all one are no sources (RFC 1122 section 3.2.1.3).
    #[must_use]
    pub fn of(prefix: Prefix) -> Self {
        let first = prefix.network().address();
        let bits = if first.is_ipv4() { 32 } else { 128 };
        let count = 1_u64.checked_shl(u32::from(bits - prefix.length())).unwrap_or(u64::MAX);
        match first {
            IpAddr::V4(address) if count > 2 => {
                Self { first: Ipv4Addr::from(u32::from(address) + 1).into(), count: count - 2 }
            }
            _ => Self { first, count },
        }
    }

    /// An address; behind the last one comes the first.
    #[must_use]
    pub fn nth(&self, index: u64) -> IpAddr {
        let offset = index % self.count;
        match self.first {
            // The count is that of a network, so that the sum fits.
            IpAddr::V4(first) => {
                let offset = u32::try_from(offset).unwrap_or(0);
                Ipv4Addr::from(u32::from(first).wrapping_add(offset)).into()
            }
            IpAddr::V6(first) => {
                Ipv6Addr::from(u128::from(first).wrapping_add(offset.into())).into()
            }
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestConfig {
    pub method: String,
    /// Path and query; `{size}` stands for one of `sizes`.
    pub target: String,
    /// Value of `Host`.
    pub host: String,
    /// Further header fields.
    pub headers: Vec<(String, String)>,
    pub body: BodyConfig,
    /// Sizes with their weights; empty if the target has none.
    pub sizes: Vec<(u64, f64)>,
}

/// The body of each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BodyConfig {
    None,
    /// So many bytes.
    Size(u64),
    File(PathBuf),
}

/// What a worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Send requests from one time to another, nanoseconds of the monotonic clock.
    Begin { at_ns: u64, end_ns: u64 },
    /// Send no more requests; the run ends now, and answers to what was sent may still come.
    End,
    /// Stop at once, and say what was measured.
    Stop,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frame {
    /// Connections are open, as far as they can be.
    Opened { open: u64 },
    /// Where it stands: now and then.
    Stand(Box<Stand>),
    /// It has ended.
    Done(Box<Done>),
}

/// Where a worker stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stand {
    /// When that was, nanoseconds of the monotonic clock.
    pub at_ns: u64,
    pub counts: Counts,
    /// Since it last said so.
    pub latency: Times,
}

impl Stand {
    /// When that was, and what it had counted.
    pub(super) const fn of(&self) -> (u64, Counts) {
        (self.at_ns, self.counts)
    }
}

/// What one worker has measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Done {
    pub figures: Figures,
    /// Good answers until the run's end; later ones are counted, too, but are none of its rate.
    pub answered_in_time: u64,
    /// Their service times.
    pub service_in_time: Times,
    /// Bytes received until the run's end.
    pub received_in_time_bytes: u64,
    /// From the first request's time to the end of the run, nanoseconds.
    pub run_ns: u64,
    /// CPU time in that time, and time for which it waited for a CPU.
    pub ran_ns: u64,
    pub waited_ns: u64,
    /// Time in that time for which it slept past the moment at which it was to wake.
    pub still_ns: u64,
    /// The most connections that were open at a time.
    pub open_max: u64,
    /// What was wrong with TLS when it failed first.
    pub tls_failure: Option<String>,
}

/// A closed loop over one connection to nobody.
#[cfg(test)]
pub(super) fn example() -> WorkerConfig {
    WorkerConfig {
        share: Share::ALL,
        cpu: None,
        server: "127.0.0.1:9".parse().unwrap(),
        tls: None,
        sources: None,
        connections: 1,
        connect_rate_cps: 1e3,
        load: Load::Closed,
        keepalive: None,
        close: Close::Fin,
        abort_ratio: 0.0,
        think_ns: 0,
        timeout_ns: 1_000_000_000,
        request: RequestConfig {
            method: "GET".into(),
            target: "/".into(),
            host: "h".into(),
            headers: Vec::new(),
            body: BodyConfig::None,
            sizes: Vec::new(),
        },
        report_ns: REPORT_NS,
        seed: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prefix: &str) -> Sources {
        Sources::of(prefix.parse().unwrap())
    }

    #[test]
    fn a_networks_sources_are_its_hosts() {
        let network = of("198.18.3.7/24");
        assert_eq!(network, Sources { first: [198, 18, 3, 1].into(), count: 254 });
        assert_eq!(network.nth(253), IpAddr::from([198, 18, 3, 254]));
        assert_eq!(network.nth(254), IpAddr::from([198, 18, 3, 1]));
        assert_eq!(of("198.18.0.0/16").count, 65_534);
        assert_eq!(of("10.0.0.9/32"), Sources { first: [10, 0, 0, 9].into(), count: 1 });
        assert_eq!(of("10.0.0.8/31").count, 2);
        let six = of("2001:2::/64");
        assert_eq!(six.nth(2).to_string(), "2001:2::2");
    }
}

//! The arguments of `weir http`.
//!
//! Nothing is looked up here; what can be judged from the text alone is.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use weir_load::client::config::{Close, SIZES_MAX};
use weir_net::{CpuList, Prefix};
use weir_wire::units::{Rate, parse_count, parse_number, parse_rate};

use super::JsonFlag;
use super::http_serve::{ServeArgs, serve_help};
use super::traffic::{positive, some_time};

pub(crate) const EXAMPLES: &str = "\
With --rate the loop is open: requests are due at that rate, however slow the answers are, and
latency counts from when a request was due. Without it the loop is closed: each connection has its
next request as soon as it has its answer. docs/http.md explains both, and the verdict, without
which no figure is printed.

A name in the URL is looked up once, at the start. HTTP/1.1 only, in the clear or over TLS
(https://); HTTP/2 is refused.

Examples:
  weir http http://198.19.0.1/b/128 --connections 64 --duration 30s
      as many requests as 64 connections can make
  weir http http://198.19.0.1/b/128 --connections 1000 --rate 20k --arrivals poisson
      20,000 requests a second, as independent users send them, and their latency
  weir http http://198.19.0.1/b/128 --connections 64 --close fin
      a connection for each request
  sudo weir http http://198.19.0.1/b/128 --source 198.18.0.0/16 --connections 250k \\
      --connect-rate 15k --rate 1 --close rst --keepalive 1000
      250,000 connections at a time from 65,534 addresses
  weir http 'http://198.19.0.1/b/{size}' --sizes 128:0.9,1Mi:0.1
      a tenth of the replies are large
  weir http https://198.19.0.1/b/128 --insecure --close fin --tls-resume off
      a full handshake of TLS for each request, with a server whose certificate is not looked at
  weir http https://www.example.org/ --ca ca.pem --rate 100
      a server that has to show a certificate of this name, signed by this authority
  weir http --pool pools.toml --rate 10k --duration 1m --json
      several kinds of users at the same time
  weir http serve --listen 198.19.0.1:80
      the other end; any server, and any client, can be either";

/// `weir http`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HttpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<HttpCommand>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// What `weir http` does besides sending requests.
#[derive(Debug, Subcommand)]
pub(crate) enum HttpCommand {
    /// Answer requests with bodies of any size, by what the URL says, and count them.
    #[command(after_help = serve_help())]
    Serve(ServeArgs),
}

/// What sends requests: `weir http` without a subcommand.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// What to ask for: `http://HOST[:PORT][/PATH]` or `https://`…, with the server's name or
    /// address, `[ADDRESS]` for IPv6. `{size}` stands for one of --sizes.
    #[arg(value_name = "URL", required_unless_present = "pool", conflicts_with = "pool")]
    url: Option<String>,
    /// Several pools at once, from a TOML file: each is a `[[pool]]` with a `name`, a `url` and
    /// any of the options below. With --rate each has its part of it, by its `weight`.
    #[arg(long, value_name = "FILE")]
    pub(crate) pool: Option<PathBuf>,
    /// Connect from all addresses of a network, `ADDRESS[/LENGTH]`, one after the other. They are
    /// made this network namespace's for the run; on the host itself only with --yes
    /// [default: the kernel chooses].
    #[arg(long, value_name = "CIDR", value_parser = source, conflicts_with = "pool")]
    pub(crate) source: Option<Prefix>,
    /// Connections at a time [default: 64].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "pool")]
    connections: Option<u64>,
    /// Connections opened per second, before the first request [default: 10k]. Not with --close
    /// alone, where each request opens its connection.
    #[arg(long, value_name = "CPS", value_parser = per_second, conflicts_with = "pool")]
    pub(crate) connect_rate: Option<f64>,
    /// Requests per second (open loop), all workers together: a number such as `500` or `20k`.
    #[arg(long, value_name = "RPS", value_parser = per_second)]
    pub(crate) rate: Option<f64>,
    /// The times between requests: all the same, or as those of independent users
    /// [default: constant].
    #[arg(long, value_name = "HOW", requires = "rate", conflicts_with = "pool")]
    pub(crate) arrivals: Option<ArrivalsArg>,
    /// Let the rate rise evenly from zero for this long, at most --duration.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = some_time,
        requires = "rate",
        conflicts_with = "pool"
    )]
    pub(crate) ramp: Option<Duration>,
    /// Send the next request on each connection when its answer has come (closed loop): what
    /// happens without --rate.
    #[arg(long, conflicts_with_all = ["rate", "pool"])]
    pub(crate) closed: bool,
    /// Send requests for this long [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    duration: Option<Duration>,
    /// Requests on a connection, before the client closes it [default: as many as the server
    /// allows; with --close 1].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "pool")]
    keepalive: Option<u64>,
    /// How the client ends connections: `fin` (the last request says `Connection: close`) or `rst`
    /// [default: fin].
    #[arg(long, value_name = "HOW", conflicts_with = "pool")]
    close: Option<CloseArg>,
    /// Reset this share of connections once their request is sent: 0 to 1, or per cent as in `5%`
    /// [default: 0].
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "pool")]
    abort: Option<f64>,
    /// Method of the requests [default: GET, or POST with a --body].
    #[arg(long, value_name = "WORD", conflicts_with = "pool")]
    method: Option<String>,
    /// A header field, `NAME: VALUE`; may be given several times.
    #[arg(long, value_name = "FIELD", value_parser = header, conflicts_with = "pool")]
    pub(crate) header: Vec<(String, String)>,
    /// Body of the requests: that many bytes (`64Ki`), or a file.
    #[arg(long, value_name = "SIZE|FILE", value_parser = body, conflicts_with = "pool")]
    pub(crate) body: Option<BodyArg>,
    /// Sizes that stand for `{size}` in the URL, with weights: `128:0.9,1Mi:0.1`, up to 64.
    #[arg(long, value_name = "LIST", value_parser = sizes, conflicts_with = "pool")]
    sizes: Option<Sizes>,
    /// Wait this long between an answer and the next request on its connection (closed loop).
    #[arg(
        long,
        value_name = "TIME",
        value_parser = some_time,
        conflicts_with_all = ["rate", "pool"]
    )]
    pub(crate) think: Option<Duration>,
    /// How long a request may take, its connection included [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with = "pool")]
    timeout: Option<Duration>,
    /// Certificates of the authorities that may have signed the server's, PEM (https://)
    /// [default: those that this machine trusts].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure", "pool"])]
    pub(crate) ca: Option<PathBuf>,
    /// Take any certificate, of whatever name, signed by anybody (https://).
    #[arg(long, conflicts_with = "pool")]
    pub(crate) insecure: bool,
    /// Resume sessions of TLS, or make every handshake a full one: `on` or `off` (https://)
    /// [default: on].
    #[arg(long, value_name = "HOW", conflicts_with = "pool")]
    pub(crate) tls_resume: Option<ResumeArg>,
    /// Worker processes, 1 to 1024 [default: as few as have descriptors for the connections].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1024),
        conflicts_with = "pool"
    )]
    pub(crate) workers: Option<u32>,
    /// CPUs to pin workers to, in turn: 0-1,3 [default: the kernel places them].
    #[arg(long, value_name = "LIST", conflicts_with = "pool")]
    pub(crate) cpus: Option<CpuList>,
    /// Of what is drawn at random: --arrivals, --sizes, --abort [default: 1].
    #[arg(long, value_name = "N", conflicts_with = "pool")]
    seed: Option<u64>,
    /// Make the addresses of --source this host's without asking, where they are not in a network
    /// namespace.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Show now and then where it stands, a line each time; a terminal has a live view without it.
    #[arg(long)]
    pub(crate) progress: bool,
    /// Time between two lines of --progress, or two states of the live view.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl ClientArgs {
    /// clap does not ask for it where a subcommand is given.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.unwrap_or(64)
    }

    /// Per second.
    pub(crate) fn connect_rate_cps(&self) -> f64 {
        self.connect_rate.unwrap_or(10e3)
    }

    pub(crate) fn duration(&self) -> Duration {
        self.duration.unwrap_or(Duration::from_secs(10))
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(5))
    }

    /// Requests on a connection; `None`: as many as the server allows.
    pub(crate) fn keepalive(&self) -> Option<u64> {
        self.keepalive.or(self.close.map(|_| 1))
    }

    pub(crate) fn close(&self) -> Close {
        match self.close {
            Some(CloseArg::Rst) => Close::Rst,
            Some(CloseArg::Fin) | None => Close::Fin,
        }
    }

    pub(crate) fn abort_ratio(&self) -> f64 {
        self.abort.unwrap_or(0.0)
    }

    pub(crate) fn method(&self) -> &str {
        let default = if self.body.is_some() { "POST" } else { "GET" };
        self.method.as_deref().unwrap_or(default)
    }

    /// Sizes with their weights.
    pub(crate) fn sizes(&self) -> &[(u64, f64)] {
        self.sizes.as_ref().map_or(&[], |sizes| &sizes.0)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalsArg {
    Constant,
    Poisson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResumeArg {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CloseArg {
    Fin,
    Rst,
}

/// `--body`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyArg {
    Size(u64),
    File(PathBuf),
}

/// `--sizes`.
#[derive(Debug, Clone, PartialEq)]
struct Sizes(Vec<(u64, f64)>);

fn source(text: &str) -> Result<Prefix, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        let length = if address.is_ipv4() { 32 } else { 128 };
        return Prefix::new(address, length).map_err(|error| error.to_string());
    }
    text.parse::<Prefix>().map_err(|error| error.to_string())
}

fn per_second(text: &str) -> Result<f64, String> {
    match parse_rate(&format!("{text}pps")) {
        Ok(Rate::Pps(rate)) => Ok(rate),
        _ => Err("write a number per second above zero, such as `500` or `20k`".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let (number, divisor) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = parse_number(number).map_err(|error| error.to_string())? / divisor;
    let is_share = (0.0..=1.0).contains(&share);
    is_share.then_some(share).ok_or_else(|| "write a share from 0 to 1, or `5%`".into())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `NAME: VALUE`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn body(text: &str) -> Result<BodyArg, String> {
    Ok(parse_count(text).map_or_else(|_| BodyArg::File(text.into()), BodyArg::Size))
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for item in text.split(',') {
        let (size, weight) = item.split_once(':').unwrap_or((item, "1"));
        let size = parse_count(size).map_err(|error| error.to_string())?;
        let weight = parse_number(weight).map_err(|error| error.to_string())?;
        if weight <= 0.0 {
            return Err(format!("the weight in `{item}` must be above zero"));
        }
        sizes.push((size, weight));
    }
    if sizes.len() > SIZES_MAX {
        return Err(format!("{} sizes are more than {SIZES_MAX}", sizes.len()));
    }
    Ok(Sizes(sizes))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn client(words: &[&str]) -> Result<ClientArgs, clap::Error> {
        let cli = Cli::try_parse_from([&["weir", "http"], words].concat())?;
        match cli.command {
            Command::Http(args) => Ok(args.client),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_read() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.5"), Ok(0.5));
        assert!(share("1.1").is_err() && share("-1").is_err() && share("x").is_err());
        assert_eq!(per_second("20k"), Ok(20e3));
        assert!(per_second("0").is_err() && per_second("5%").is_err());
        assert_eq!(header("Host:  a.example "), Ok(("Host".into(), "a.example".into())));
        assert!(header("Host").is_err());
        assert_eq!(body("64Ki"), Ok(BodyArg::Size(65_536)));
        assert_eq!(body("./b"), Ok(BodyArg::File("./b".into())));
        assert_eq!(sizes("128:3,1Ki"), Ok(Sizes(vec![(128, 3.0), (1024, 1.0)])));
        assert!(sizes("128:0").is_err() && sizes("").is_err() && sizes("1,").is_err());
        assert_eq!(source("10.0.0.1").unwrap().length(), 32);
        assert_eq!(source("2001:2::/64").unwrap().length(), 64);
        assert!(source("10.0.0.1/33").is_err());
    }

    #[test]
    fn connections_end_as_is_said() {
        let url = "http://10.0.0.1/";
        let of = |words: &[&str]| {
            let args = client(&[&[url], words].concat()).unwrap();
            (args.keepalive(), args.close())
        };
        assert_eq!(of(&[]), (None, Close::Fin));
        assert_eq!(of(&["--close", "rst"]), (Some(1), Close::Rst));
        assert_eq!(of(&["--close", "rst", "--keepalive", "9"]), (Some(9), Close::Rst));
        assert_eq!(of(&["--keepalive", "9"]), (Some(9), Close::Fin));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let url = "http://10.0.0.1/";
        for words in [
            &[url, "--closed", "--rate", "1"][..],
            &[url, "--think", "1s", "--rate", "1"],
            &[url, "--arrivals", "poisson"],
            &[url, "--ca", "file", "--insecure"],
            &[url, "--tls-resume", "perhaps"],
            &[url, "--pool", "file"],
            &["--pool", "file", "--connections", "3"],
            &[],
        ] {
            assert!(client(words).is_err(), "{words:?}");
        }
        assert!(client(&["--pool", "file", "--rate", "3", "--duration", "1s"]).is_ok());
        assert_eq!(client(&[url, "--body", "3"]).unwrap().method(), "POST");
    }
}

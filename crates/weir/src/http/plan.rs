//! From the arguments of `weir http` to what its workers do.
//!
//! Everything that can be refused is refused here, before anything is made or sent.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_http::pacing::{Arrivals, Pace, Share};
use weir_load::client::config::{
    BodyConfig, Load, REPORT_NS, RequestConfig, Sources, TlsConfig, WorkerConfig,
};
use weir_load::client::manager::{Job, Pool};
use weir_load::client::requests::{Requests, SIZE_MARK};
use weir_load::client::route;
use weir_load::client::tls::Connector;
use weir_load::crew::{Program, Role};
use weir_load::{descriptors, limits};
use weir_net::{Prefix, cpu};
use weir_wire::units::{format_count, format_duration, whole_ns};

use super::url::{self, Url};
use super::{NO_PROGRAM, pools};
use crate::cli::http::{ArrivalsArg, BodyArg, ClientArgs, ResumeArg};

/// What will be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) pools: Vec<PoolPlan>,
    pub(super) duration: Duration,
    /// Between two lines of where it stands.
    interval: Duration,
}

/// What one pool will do.
#[derive(Debug)]
pub(super) struct PoolPlan {
    /// Without it, it is the only one, of the command line.
    pub(super) name: Option<String>,
    pub(super) url: String,
    pub(super) source: Option<Prefix>,
    pub(super) pool: Pool,
}

impl Plan {
    pub(super) fn new(args: &ClientArgs) -> anyhow::Result<Self> {
        let duration = args.duration();
        let pools = match &args.pool {
            Some(file) => pools::read(file, args)?
                .into_iter()
                .map(|(name, args)| {
                    let plan = PoolPlan::new(Some(name.clone()), &args, duration);
                    plan.with_context(|| format!("pool `{name}`"))
                })
                .collect::<anyhow::Result<_>>()?,
            None => vec![PoolPlan::new(None, args, duration)?],
        };
        Ok(Self { pools, duration, interval: args.interval })
    }

    /// What runs it.
    pub(super) fn job(&self) -> anyhow::Result<Job> {
        let program = Program::worker(Role::Client).context(NO_PROGRAM)?;
        let pools = self.pools.iter().map(|plan| plan.pool.clone()).collect();
        Ok(Job { program, pools, duration: self.duration, interval: self.interval })
    }

    /// The networks of --source, and the servers that are connected to from them.
    pub(super) fn networks(&self) -> Vec<(Prefix, SocketAddr)> {
        let of = |plan: &PoolPlan| Some((plan.source?, plan.pool.config.server));
        self.pools.iter().filter_map(of).collect()
    }

    /// Of all pools.
    pub(super) fn connections(&self) -> u64 {
        self.pools.iter().map(|plan| plan.pool.config.connections).sum()
    }
}

impl PoolPlan {
    /// The duration is that of the run.
    fn new(name: Option<String>, args: &ClientArgs, duration: Duration) -> anyhow::Result<Self> {
        let Some(text) = args.url() else {
            bail!("a URL is missing: http://ADDRESS/PATH");
        };
        let url = Url::parse(text)?;
        let server = url.server(args.source.map(|source| source.address()), url::resolve)?;
        let tls = tls(args, &url)?;
        let request = request(args, url.host, url.target)?;
        // As a worker will: what it would refuse is refused now.
        Requests::new(&request)?;
        if let Some(prefix) = args.source.filter(|one| one.address().is_ipv4() != server.is_ipv4())
        {
            bail!("--source {prefix} and the server {} are of different IP versions", server.ip());
        }
        check_times(args, duration)?;
        let sources = args.source.map(Sources::of);
        let connections = args.connections();
        check_ports(connections, sources)?;
        let workers = workers(args, connections)?;
        let config = WorkerConfig {
            share: Share::ALL,
            cpu: None,
            server,
            tls,
            sources,
            connections,
            connect_rate_cps: args.connect_rate_cps(),
            load: load(args),
            keepalive: args.keepalive(),
            close: args.close(),
            abort_ratio: args.abort_ratio(),
            think_ns: args.think.map_or(0, whole_ns),
            timeout_ns: whole_ns(args.timeout()),
            request,
            report_ns: REPORT_NS,
            seed: args.seed(),
        };
        let pool = Pool { config, workers, cpus: cpus(args)? };
        Ok(Self { name, url: text.to_owned(), source: args.source, pool })
    }

    /// Refuses a server that cannot be reached from where connections come from.
    pub(super) fn check_route(&self) -> anyhow::Result<()> {
        let WorkerConfig { server, sources, .. } = &self.pool.config;
        let source = sources.map(|sources| sources.first);
        let from = source.map(|source| format!(" from {source}")).unwrap_or_default();
        route::check(source, *server)
            .with_context(|| format!("{} cannot be reached{from}; nothing was sent", server.ip()))
    }
}

/// TLS as the URL asks for it; what a worker would refuse is refused now.
fn tls(args: &ClientArgs, url: &Url) -> anyhow::Result<Option<TlsConfig>> {
    if !url.is_tls {
        for (is_given, option) in [
            (args.ca.is_some(), "--ca"),
            (args.insecure, "--insecure"),
            (args.tls_resume.is_some(), "--tls-resume"),
        ] {
            if is_given {
                bail!("{option} is about TLS: give a URL that begins with https://");
            }
        }
        return Ok(None);
    }
    let ca = args.ca.as_deref().map(|path| {
        std::path::absolute(path)
            .with_context(|| format!("{} cannot be made an absolute path", path.display()))
    });
    let config = TlsConfig {
        name: url.name.clone(),
        ca: ca.transpose()?,
        verifies: !args.insecure,
        resumes: args.tls_resume != Some(ResumeArg::Off),
    };
    Connector::new(&config, 1)?;
    Ok(Some(config))
}

fn request(args: &ClientArgs, host: String, target: String) -> anyhow::Result<RequestConfig> {
    match (target.contains(SIZE_MARK), args.sizes().is_empty()) {
        (true, true) => bail!("`{SIZE_MARK}` in the URL stands for one of --sizes: give some"),
        (false, false) => bail!("--sizes needs `{SIZE_MARK}` in the URL, such as /b/{SIZE_MARK}"),
        _ => {}
    }
    let body = match &args.body {
        None => BodyConfig::None,
        Some(BodyArg::Size(bytes)) => BodyConfig::Size(*bytes),
        Some(BodyArg::File(path)) => BodyConfig::File(
            std::path::absolute(path)
                .with_context(|| format!("{} cannot be made an absolute path", path.display()))?,
        ),
    };
    Ok(RequestConfig {
        method: args.method().to_owned(),
        target,
        host,
        headers: args.header.clone(),
        body,
        sizes: args.sizes().to_vec(),
    })
}

fn load(args: &ClientArgs) -> Load {
    let Some(rate_per_s) = args.rate.filter(|_| !args.closed) else { return Load::Closed };
    let arrivals = match args.arrivals {
        Some(ArrivalsArg::Poisson) => Arrivals::Poisson,
        Some(ArrivalsArg::Constant) | None => Arrivals::Constant,
    };
    Load::Open(Pace { arrivals, rate_per_s, ramp_ns: args.ramp.map_or(0, whole_ns) })
}

/// Refuses times of which nothing would be seen.
fn check_times(args: &ClientArgs, duration: Duration) -> anyhow::Result<()> {
    if args.connect_rate.is_some() && args.keepalive() == Some(1) {
        bail!(
            "--connect-rate has no effect where each request opens its connection (--close without \
             --keepalive, or --keepalive 1): give a --rate"
        );
    }
    if let Some(ramp) = args.ramp.filter(|ramp| *ramp > duration) {
        bail!(
            "--ramp {} is longer than the --duration of {}: the rate would never be reached",
            format_duration(ramp),
            format_duration(duration)
        );
    }
    Ok(())
}

/// One address has so many connections to a server as there are ports.
fn check_ports(connections: u64, sources: Option<Sources>) -> anyhow::Result<()> {
    let ports = limits::ports_per_source()?;
    let count = sources.map_or(1, |sources| sources.count);
    if connections > ports.saturating_mul(count) {
        bail!(
            "{} connections need more ports than {} has, {} for each: give a larger network with \
             --source, or a wider net.ipv4.ip_local_port_range",
            format_count(connections),
            if count == 1 { "one address".to_owned() } else { format!("{count} addresses") },
            format_count(ports),
        );
    }
    Ok(())
}

/// How many workers there are: each has a descriptor for each of its connections.
fn workers(args: &ClientArgs, connections: u64) -> anyhow::Result<u32> {
    let most = descriptors::for_connections()?.max(1);
    let needed = connections.div_ceil(most).max(1);
    let workers = match args.workers {
        Some(workers) if u64::from(workers) < needed => bail!(
            "{workers} workers may have {} connections each (the limit of descriptors, `ulimit \
             -Hn`); {} need {needed} workers",
            format_count(most),
            format_count(connections)
        ),
        Some(workers) => u64::from(workers),
        None => needed,
    };
    if workers > connections {
        bail!("{workers} workers are more than there are connections, {connections}");
    }
    u32::try_from(workers).context("too many workers")
}

fn cpus(args: &ClientArgs) -> anyhow::Result<Vec<usize>> {
    let Some(list) = &args.cpus else { return Ok(Vec::new()) };
    let online = cpu::online()?;
    if let Some(cpu) = list.iter().find(|cpu| !online.contains(*cpu)) {
        bail!("--cpus: CPU {cpu} is not online, or not allowed here ({online} are)");
    }
    Ok(list.iter().collect())
}

impl PoolPlan {
    /// What the user should know of requests that are not sent again when a server has closed an
    /// idle connection.
    pub(super) fn note(&self) -> Option<String> {
        let config = &self.pool.config;
        (config.is_kept() && !Requests::is_idempotent(&config.request)).then(|| {
            format!(
                "a {} is not sent again by itself: one that meets a connection that the server has \
                 just closed counts as failed",
                config.request.method
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted_for_each_source() {
        check_ports(1, None).unwrap();
        let sources = Sources { first: [10, 0, 0, 1].into(), count: 2 };
        let error = check_ports(200_000, Some(sources)).unwrap_err().to_string();
        assert!(error.contains("2 addresses"), "{error}");
    }
}

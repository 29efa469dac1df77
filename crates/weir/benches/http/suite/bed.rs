//! Where connections go: a client and a server in namespaces of their own, and nothing, nftables or
//! `weir fw` between them.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use weir_bpf::attach::{Link, Mode};
use weir_bpf::connect::{ClientConfig, Close, ConnectServer, ServerConfig};
use weir_bpf::ethtool;
use weir_gen::backend::RunOptions;
use weir_gen::connect::ledger::Counts;
use weir_gen::connect::{self, Client, REPLY_BYTES_DEFAULT, REQUEST_BYTES_DEFAULT, RETRY_AFTER};
use weir_machine::cancel::Cancel;
use weir_net::{Netlink, Netns, NetnsGuard, Prefix, VethEnd, cpu, sysctl};
use weir_wire::mac::MacAddr;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use super::{Result, Settings, wait};
use crate::closing::Closing;

/// Sources and destinations, which no interface has.
const SRC: &str = "198.18.0.1:1024-198.18.0.250:65535";
const DST: &str = "198.19.0.1:80";
/// Addresses of the interfaces: with nothing between them they are in one network.
pub(super) const CLIENT: &str = "10.1.0.2/24";
const SERVER: &str = "10.2.0.2/24";
pub(super) const SERVER_DIRECT: &str = "10.1.0.3/24";
const CLIENT_IF: &str = "c0";
const SERVER_IF: &str = "s0";

/// Room for as many connections in each firewall: none may have to refuse what another one takes.
const STATES_MAX: u64 = 4_000_000;
/// The same of Linux, for the whole host, and the buckets of its hash.
const CONNTRACK_MAX: &str = "net.netfilter.nf_conntrack_max";
const CONNTRACK_BUCKETS: &str = "net.netfilter.nf_conntrack_buckets";

/// Slow enough for anything between the ends.
const LEDGER_RATE_CPS: f64 = 20e3;

const SETTLE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(60);

/// Both accept what belongs to a connection, and new ones.
const NFT_RULES: &str = "\
table inet bench {
 chain forward {
  type filter hook forward priority filter; policy drop;
  ct state established counter accept
  ct state new counter accept
 }
}
";
const PF_RULES: &str = "\
set timeout { adaptive.start 0, adaptive.end 0 }
pass all no state
pass proto tcp keep state
";

/// What stands between the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    Nftables,
    Weir,
}

/// Two ends and what stands between them; removed when dropped.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(super) client: NetnsGuard,
    pub(super) server: NetnsGuard,
    router: Option<NetnsGuard>,
    between: Between,
    weir: std::path::PathBuf,
    /// Closed behind the namespaces: if one is still there, the record stays, and the next lab
    /// cleans up.
    record: Closing,
    macs: [MacAddr; 2],
    pub(super) cpus: [usize; 2],
}

impl Bed {
    pub(crate) fn new(between: Between, settings: &Settings) -> Result<Self> {
        let id = std::process::id();
        let names = ["c", "r", "s"].map(|which| format!("weirbench{id}{which}"));
        let record = Closing::record(&names)?;
        let [client, router, server] = [
            Netns::create(&names[0])?.guard(),
            Netns::create(&names[1])?.guard(),
            Netns::create(&names[2])?.guard(),
        ];
        let router = if between == Between::Nothing {
            client.run(|| -> Result<()> {
                let far = VethEnd::new(SERVER_IF).in_netns(&server);
                Ok(Netlink::open()?.create_veth(&VethEnd::new(CLIENT_IF), &far, 1)?)
            })??;
            end(&client, CLIENT_IF, CLIENT)?;
            end(&server, SERVER_IF, SERVER_DIRECT)?;
            drop(router);
            None
        } else {
            connect_router(&client, &router, &server)?;
            Some(router)
        };
        let next = match &router {
            Some(router) => mac(router, "b0")?,
            None => mac(&server, SERVER_IF)?,
        };
        let macs = [mac(&client, CLIENT_IF)?, next];
        let cpus = cpu::first_two()?;
        let weir = settings.weir.clone();
        let mut bed = Self { client, server, router, between, weir, record, macs, cpus };
        bed.start_firewall()?;
        Ok(bed)
    }

    /// Has the server answer a network by way of the client, with nothing between them.
    pub(super) fn lead_back(&self, network: &str) -> Result<()> {
        let (network, client): (Prefix, Prefix) = (network.parse()?, CLIENT.parse()?);
        self.server.run(|| -> Result<()> {
            Ok(Netlink::open()?.add_route(network, Some(client.address()), SERVER_IF)?)
        })?
    }

    fn start_firewall(&mut self) -> Result<()> {
        match self.between {
            Between::Nothing => Ok(()),
            Between::Nftables => {
                self.at_router(Path::new("nft"), &["-f", "-"], NFT_RULES)?;
                let record = self.record.0.as_mut().ok_or("the record is closed")?;
                let buckets = STATES_MAX.next_power_of_two();
                record.change_host(CONNTRACK_BUCKETS, &buckets.to_string())?;
                Ok(record.change_host(CONNTRACK_MAX, &STATES_MAX.to_string())?)
            }
            Between::Weir => {
                let file = tempfile::NamedTempFile::new()?;
                let rules = format!("set limit states {STATES_MAX}\n{PF_RULES}");
                fs::write(file.path(), rules)?;
                let path = file.path().to_string_lossy().into_owned();
                self.at_router(&self.weir, &["fw", "run", "-f", &path], "").map(drop)
            }
        }
    }

    /// Runs a program where the firewall is.
    fn at_router(&self, program: &Path, words: &[&str], input: &str) -> Result<Output> {
        let router = self.router.as_ref().ok_or("there is nothing between the ends")?;
        let output = router.run(|| -> std::io::Result<Output> {
            let mut command = Command::new(program);
            command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.stderr(Stdio::piped()).spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input.as_bytes())?;
            }
            child.wait_with_output()
        })??;
        if output.status.success() {
            return Ok(output);
        }
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("{} {words:?}: {error}", program.display()).into())
    }

    /// Connections that went through all their steps, per second of CPU time.
    pub(crate) fn rate(&self, settings: &Settings, cancel: &Cancel) -> Result<f64> {
        let run = self.connect(Close::Fin, Rate::Max, None, || wait(settings.sample, cancel))?;
        if run.client.closed == 0 {
            return Err(format!("no connection was closed: {:?}", run.client).into());
        }
        Ok(run.client.closed as f64 / run.cpu_time.as_secs_f64())
    }

    /// The client's count of connections over the firewall's count of what it has made for them, or
    /// the other way round, whichever is below 1.
    pub(crate) fn agreement(&self, settings: &Settings, cancel: &Cancel) -> Result<f64> {
        let (count, before) = (settings.ledger_connections, self.states()?);
        let rate = Rate::Pps(LEDGER_RATE_CPS);
        let end = Instant::now() + PATIENCE;
        let run = self.connect(Close::None, rate, Some(count), || {
            if Instant::now() > end { Err("it does not end".into()) } else { wait(SETTLE, cancel) }
        })?;
        let (counted, made) = (run.client.established as f64, (self.states()? - before) as f64);
        Ok((counted / made).min(made / counted))
    }

    /// States that the firewall has made.
    fn states(&self) -> Result<u64> {
        if self.between == Between::Nftables {
            let router = self.router.as_ref().ok_or("there is nothing between the ends")?;
            let read = || fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count");
            return Ok(router.run(read)??.trim().parse()?);
        }
        let output = self.at_router(&self.weir, &["pfctl", "-si"], "")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.trim_start().starts_with("inserts"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(number.ok_or("pfctl -si has no inserts")?.parse()?)
    }

    /// Opens connections from one CPU until the limit is reached, or `time` has passed.
    fn connect(
        &self,
        close: Close,
        rate: Rate,
        limit: Option<u64>,
        mut time: impl FnMut() -> Result<()>,
    ) -> Result<Run> {
        let cpu = u32::try_from(self.cpus[0])?;
        let flows = connect::flows(self.macs[0], self.macs[1], SRC.parse()?, DST.parse()?);
        let config = ClientConfig {
            set: Traffic::one(flows)?.set(1)?,
            close,
            hold: Duration::ZERO,
            request_bytes: REQUEST_BYTES_DEFAULT,
            reply_bytes: REPLY_BYTES_DEFAULT,
            retries: 0,
            retry_after: RETRY_AFTER,
        };
        let serving = ServerConfig { listen: None, reply_bytes: REPLY_BYTES_DEFAULT };
        let server = ConnectServer::load(&serving)?;
        let _link = self.server.run(|| -> Result<Link> {
            Ok(server.attach(Netlink::open()?.ifindex(SERVER_IF)?, Mode::Native)?)
        })??;
        let mut client = self.client.run(|| -> Result<Client> {
            Ok(Client::attach(&config, Netlink::open()?.ifindex(CLIENT_IF)?, &[cpu])?)
        })??;
        let before = cpu_time(UsageWho::RUSAGE_SELF, self.cpus[0])?;
        client.start(&RunOptions {
            rate,
            ramp: Duration::ZERO,
            packet_limit: limit,
            first_sequence: 0,
            timestamps: true,
        })?;
        time()?;
        while limit.is_some() && client.is_running() {
            time()?;
        }
        client.stop()?;
        let cpu_time = cpu_time(UsageWho::RUSAGE_SELF, self.cpus[0])? - before;
        std::thread::sleep(SETTLE);
        let client = Counts::from(client.counters()?.0);
        Ok(Run { client, cpu_time })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.between == Between::Weir {
            // What still runs goes with its namespace.
            drop(self.at_router(&self.weir, &["fw", "stop"], ""));
        }
    }
}

/// What a run of the client came to.
#[derive(Debug)]
struct Run {
    client: Counts,
    cpu_time: Duration,
}

/// CPU time of this process or thread, and of the kernel's thread that receives on that CPU when
/// there is much to do.
pub(super) fn cpu_time(who: UsageWho, cpu: usize) -> Result<Duration> {
    let usage = getrusage(who)?;
    let of = |time: nix::sys::time::TimeVal| -> Result<Duration> {
        let (seconds, microseconds) = (time.tv_sec().try_into()?, time.tv_usec().try_into()?);
        Ok(Duration::new(seconds, 0) + Duration::from_micros(microseconds))
    };
    Ok(of(usage.user_time())? + of(usage.system_time())? + softirq_thread_time(cpu)?)
}

/// For how long `ksoftirqd` of a CPU has run (Documentation/scheduler/sched-stats.rst).
fn softirq_thread_time(cpu: usize) -> Result<Duration> {
    let name = format!("ksoftirqd/{cpu}");
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        if fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            let text = fs::read_to_string(path.join("schedstat"))?;
            let ran_ns = text.split(' ').next().ok_or("a time")?.parse()?;
            return Ok(Duration::from_nanos(ran_ns));
        }
    }
    // A container does not show the kernel's threads: what they do is not counted.
    Ok(Duration::ZERO)
}

/// Gives an end its address, and has it take what is redirected to it.
fn end(netns: &Netns, name: &str, address: &str) -> Result<()> {
    netns.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        netlink.add_address(name, address.parse()?)?;
        ethtool::set_gro(name, true)?;
        Ok(netlink.set_up(name)?)
    })?
}

/// Puts a router between the ends: `b0` towards the client, `b1` towards the server.
fn connect_router(client: &Netns, router: &Netns, server: &Netns) -> Result<()> {
    router.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        for (near, far, netns) in [("b0", CLIENT_IF, client), ("b1", SERVER_IF, server)] {
            let far = VethEnd::new(far).in_netns(netns);
            netlink.create_veth(&VethEnd::new(near), &far, 1)?;
        }
        Ok(sysctl::write("net.ipv4.ip_forward", "1")?)
    })??;
    end(router, "b0", "10.1.0.1/24")?;
    end(router, "b1", "10.2.0.1/24")?;
    end(client, CLIENT_IF, CLIENT)?;
    end(server, SERVER_IF, SERVER)?;
    let macs = [mac(client, CLIENT_IF)?, mac(server, SERVER_IF)?];
    router.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        let ways = [("b0", "198.18.0.0/16", CLIENT), ("b1", "198.19.0.0/16", SERVER)];
        for ((name, network, via), MacAddr(mac)) in ways.into_iter().zip(macs) {
            netlink.wait_operational(name, PATIENCE)?;
            let via: Prefix = via.parse()?;
            netlink.add_neighbour(name, via.address(), mac)?;
            netlink.add_route(network.parse()?, Some(via.address()), name)?;
        }
        Ok(())
    })?
}

fn mac(netns: &Netns, name: &str) -> Result<MacAddr> {
    let link = netns.run(|| -> Result<_> { Ok(Netlink::open()?.link(name)?) })??;
    Ok(MacAddr(link.mac.ok_or("a veth has a MAC address")?))
}

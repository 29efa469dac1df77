//! Two firewalls, what sends through the first one and what answers, each in a namespace.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_bpf::ethtool;
use weir_fw::protocol::{Client, Request, SyncStatus};
use weir_net::registry::{Record, Registry};
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd, sysctl};
use weir_wire::mac::MacAddr;

use super::{Result, Settings};

/// The namespaces of the firewalls, of the generator, and of the reflector.
pub(super) const FIRST: usize = 0;
pub(super) const SECOND: usize = 1;
const GENERATOR: usize = 2;
const REFLECTOR: usize = 3;

/// Sources that no interface has; each with each port is a flow.
const SOURCES: &str = "198.18.0.2:1024-198.18.3.250:65535";
const SOURCE_NET: &str = "198.18.0.0/16";
const SINK_ADDRESS: &str = "10.2.0.2:7";
const SERVE_AT: &str = "192.0.2.2:7467";

const PATIENCE: Duration = Duration::from_secs(60);

/// The bed; removed when dropped.
#[derive(Debug)]
pub(super) struct Bed {
    netns: [NetnsGuard; 4],
    weir: PathBuf,
    /// Where packets to the first firewall go.
    first_mac: MacAddr,
    /// Keys and rules.
    folder: tempfile::TempDir,
    /// Closed behind the namespaces: if one is still there, the record stays, and the next lab
    /// cleans up.
    _record: Closing,
}

impl Bed {
    /// With room for so many states in both firewalls.
    pub(super) fn new(settings: &Settings, state_limit: u64) -> Result<Self> {
        let id = std::process::id();
        let names = ["a", "b", "g", "r"].map(|which| format!("weirbench{id}{which}"));
        let record = Closing(Some(Registry::default().record(&names)?));
        let [first, second, generator, reflector] = &names;
        let netns = [
            Netns::create(first)?.guard(),
            Netns::create(second)?.guard(),
            Netns::create(generator)?.guard(),
            Netns::create(reflector)?.guard(),
        ];
        connect(&netns)?;
        let first_mac = mac(&netns[FIRST], "a0")?;
        let (weir, folder) = (settings.weir.clone(), tempfile::tempdir()?);
        let bed = Self { netns, weir, first_mac, folder, _record: record };
        let rules = format!(
            "set limit states {state_limit}\nset skip on {{ a2 b2 }}\n\
             set timeout {{ udp.first 7200, udp.single 7200, udp.multiple 7200 }}\n\
             set timeout {{ adaptive.start 0, adaptive.end 0 }}\npass\n"
        );
        fs::write(bed.path("pf.conf"), rules)?;
        for (which, name) in [(FIRST, "first"), (SECOND, "second")] {
            bed.run(which, &["fw", "run", "-f", &bed.path("pf.conf")])?;
            let key = bed.path(name);
            let output = bed.run(which, &["fw", "sync", "keygen", "--key", &key])?;
            fs::write(format!("{key}.pub"), output.stdout)?;
        }
        Ok(bed)
    }

    pub(super) fn netns(&self, which: usize) -> &Netns {
        &self.netns[which]
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Runs weir in a namespace, to a good end.
    fn run(&self, which: usize, words: &[&str]) -> Result<Output> {
        let run = || Command::new(&self.weir).args(words).stdin(Stdio::null()).output();
        let output = self.netns[which].run(run)??;
        if output.status.success() {
            return Ok(output);
        }
        Err(format!("weir {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    /// Starts weir in a namespace.
    fn start(&self, which: usize, words: &[&str]) -> Result<Process> {
        let log = fs::File::create(self.path(&format!("log{which}")))?;
        let start = || -> io::Result<Child> {
            let mut command = Command::new(&self.weir);
            command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(log).spawn()
        };
        Ok(Process(self.netns[which].run(start)??))
    }

    /// The second firewall takes states.
    pub(super) fn serve(&self) -> Result<Process> {
        let (key, peer) = (self.path("second"), self.path("first.pub"));
        let words = ["fw", "sync", "serve", "--listen", SERVE_AT, "--key", &key, "--peer", &peer];
        self.start(SECOND, &words)
    }

    /// The first firewall sends its states.
    pub(super) fn send(&self) -> Result<Process> {
        let (key, peer) = (self.path("first"), self.path("second.pub"));
        self.start(FIRST, &["fw", "sync", "to", SERVE_AT, "--key", &key, "--peer", &peer])
    }

    /// Waits until the second firewall has what the first one has now, but for flows that nobody
    /// has answered.
    pub(super) fn drain(&self) -> Result<()> {
        let patience = format!("{}s", PATIENCE.as_secs());
        self.run(FIRST, &["fw", "sync", "drain", "--timeout", &patience]).map(drop)
    }

    /// What comes to the reflector goes back.
    pub(super) fn reflect(&self) -> Result<Process> {
        self.start(REFLECTOR, &["reflect", "-i", "r0"])
    }

    /// Sends a packet of each of so many flows.
    pub(super) fn generate(&self, count: u64, rate_pps: u32) -> Result<Process> {
        let (mac, count) = (self.first_mac.to_string(), count.to_string());
        let rate = format!("{rate_pps}pps");
        let flows = ["gen", "-i", "g0", "--src", SOURCES, "--dst", SINK_ADDRESS];
        let how = ["--dst-mac", &mac, "--count", &count, "--rate", &rate];
        self.start(GENERATOR, &[&flows[..], &how].concat())
    }

    /// States that a firewall has now.
    pub(super) fn states(&self, which: usize) -> Result<u64> {
        let output = self.run(which, &["fw", "stats", "--json"])?;
        let stats: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(stats["states"]["current_count"].as_u64().ok_or("`weir fw stats` has no states")?)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for which in [FIRST, SECOND] {
            // What still runs goes with its namespace.
            drop(self.run(which, &["fw", "stop"]));
        }
    }
}

/// A process, ended when dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.0.id().try_into()?), signal)?)
    }

    /// Whether it has ended, and well.
    pub(super) fn has_ended(&mut self) -> Result<bool> {
        match self.0.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(format!("a process of weir ended: {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How both directions of a firewall's synchronisation are.
pub(super) fn status(netns: &Netns) -> Result<SyncStatus> {
    let ask = || Client::connect()?.ask(&Request::SyncStatus, |_| Ok(()));
    let answered = netns.run(ask)??;
    Ok(serde_json::from_value(answered.value.ok_or("no status")?)?)
}

/// Generator, first firewall, reflector; and from the first firewall to the second one.
fn connect([first, second, generator, reflector]: &[NetnsGuard; 4]) -> Result<()> {
    first.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        for (near, far, netns) in
            [("a0", "g0", generator), ("a1", "r0", reflector), ("a2", "b2", second)]
        {
            let far = VethEnd::new(far).in_netns(netns);
            netlink.create_veth(&VethEnd::new(near), &far, 1)?;
        }
        Ok(sysctl::write("net.ipv4.ip_forward", "1")?)
    })??;
    let ends = [
        (first, "a0", "10.1.0.1/24"),
        (first, "a1", "10.2.0.1/24"),
        (first, "a2", "192.0.2.1/24"),
        (generator, "g0", "10.1.0.2/24"),
        (reflector, "r0", "10.2.0.2/24"),
        (second, "b2", "192.0.2.2/24"),
    ];
    for (netns, name, address) in ends {
        netns.run(|| -> Result<()> {
            let netlink = Netlink::open()?;
            netlink.add_address(name, address.parse()?)?;
            ethtool::set_gro(name, true)?;
            Ok(netlink.set_up(name)?)
        })??;
    }
    let macs = [mac(generator, "g0")?, mac(reflector, "r0")?];
    first.run(|| -> Result<()> {
        let netlink = Netlink::open()?;
        for (name, address, MacAddr(mac)) in
            [("a0", "10.1.0.2", macs[0]), ("a1", "10.2.0.2", macs[1])]
        {
            netlink.wait_operational(name, PATIENCE)?;
            netlink.add_neighbour(name, address.parse()?, mac)?;
        }
        Ok(netlink.add_route(SOURCE_NET.parse()?, Some("10.1.0.2".parse()?), "a0")?)
    })?
}

fn mac(netns: &Netns, name: &str) -> Result<MacAddr> {
    let link = netns.run(|| -> Result<_> { Ok(Netlink::open()?.link(name)?) })??;
    Ok(MacAddr(link.mac.ok_or("a veth has a MAC address")?))
}

/// What was written down before namespaces were made.
#[derive(Debug)]
struct Closing(Option<Record>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            let _ = record.close();
        }
    }
}

//! The second firewall takes over, with the connections that the first one had: by plan, or because
//! that one is gone. keepalived moves the addresses, as `dist/keepalived.conf` says.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use weir_bpf::ethtool;
use weir_machine::cancel::Cancel;
use weir_net::{Netlink, VethEnd, sysctl};

use super::boxes::{Boxes, FIRST, LINK, Process, SECOND, polling, status};
use super::{Result, Settings, wait, wait_until};
use crate::keepalived;

/// The namespaces of switches and hosts, behind those of the firewalls.
const INSIDE: usize = 2;
const OUTSIDE: usize = 3;
const CLIENT: usize = 4;
const SERVER: usize = 5;

const RULES: &str = "set skip on y0\npass quick proto vrrp no state\npass\n";
/// keepalived's priorities.
const PRIORITIES: [&str; 2] = ["150", "100"];
const URL: &str = "http://10.2.0.2/b/4Ki";
/// Requests of each connection per second. They are spread evenly: a burst of all connections would
/// find no room in the veths' rings.
const RATE_RPS: u32 = 5;
/// How long requests are sent, and when the other firewall takes over.
const RUN: Duration = Duration::from_secs(8);
const LEAD: Duration = Duration::from_secs(3);

/// Why the other one takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It does not: what requests take anyway.
    Never,
    /// `weir fw sync drain`, and keepalived is stopped.
    Plan,
    /// Nothing leaves the first firewall any more.
    Death,
}

/// What the connections saw of it.
#[derive(Debug)]
pub(super) struct Found {
    /// The longest time from a request to its answer.
    pub(super) pause: Duration,
    /// Connections without a failure.
    pub(super) kept_share: f64,
}

/// What is under way.
struct Cluster {
    boxes: Boxes<6>,
    _sync: Vec<Process>,
    keepalived: [Process; 2],
    _server: Process,
}

/// Connections send requests while the firewalls change.
pub(super) fn run(settings: &Settings, cancel: &Cancel, why: Why) -> Result<Found> {
    let mut cluster = Cluster::new(settings)?;
    cluster.wait_until_ready(cancel)?;
    let mut client = cluster.load(settings.transfer_count)?;
    wait(LEAD, cancel)?;
    match why {
        Why::Never => {}
        Why::Plan => {
            cluster.boxes.drain()?;
            let first = &mut cluster.keepalived[FIRST];
            first.signal(Signal::SIGTERM)?;
            wait_until("keepalived's end", cancel, || first.has_ended())?;
        }
        Why::Death => {
            for switch in [INSIDE, OUTSIDE] {
                ip(&cluster.boxes, switch, "link set f0 down")?;
            }
            ip(&cluster.boxes, SECOND, "link set y0 down")?;
        }
    }
    let master = if why == Why::Never { FIRST } else { SECOND };
    cluster.wait_for_addresses(master, cancel)?;
    wait_until("the end of the requests", cancel, || client.has_ended())?;
    found(&fs::read(cluster.boxes.path("http.json"))?, settings.transfer_count)
}

/// What `weir http` says of it.
fn found(json: &[u8], count: u32) -> Result<Found> {
    let result: Value = serde_json::from_slice(json)?;
    let number = |value: &Value| value.as_u64().ok_or("a number is missing in `weir http`");
    let (open, counts) = (number(&result["connections_open_max"])?, &result["counts"]);
    if open != u64::from(count) {
        return Err(format!("{open} of {count} connections were opened").into());
    }
    let failures = counts["failures"].as_object().ok_or("`weir http` has no failures")?;
    let failures = failures.values().filter_map(Value::as_u64).sum::<u64>();
    let share = 1.0 - (failures as f64 / f64::from(count)).min(1.0);
    let pause = Duration::from_nanos(number(&result["service_ns"]["max"])?);
    Ok(Found { pause, kept_share: share })
}

impl Cluster {
    fn new(settings: &Settings) -> Result<Self> {
        let boxes = Boxes::new(settings)?;
        connect(&boxes)?;
        boxes.filter(RULES)?;
        let mut sync = Vec::new();
        for which in [FIRST, SECOND] {
            sync.push(boxes.serve(which)?);
            sync.push(boxes.send(which)?);
            sync.push(boxes.start(which, &["fw", "sync", "track", &tracked(&boxes, which)])?);
        }
        let keepalived = [start_keepalived(&boxes, FIRST)?, start_keepalived(&boxes, SECOND)?];
        let server = boxes.start(SERVER, &["http", "serve", "--listen", "10.2.0.2:80"])?;
        Ok(Self { boxes, _sync: sync, keepalived, _server: server })
    }

    /// Waits until the first firewall has the addresses, and each has the other one's states.
    fn wait_until_ready(&self, cancel: &Cancel) -> Result<()> {
        self.wait_for_addresses(FIRST, cancel)?;
        for which in [FIRST, SECOND] {
            let netns = self.boxes.netns(which);
            wait_until("states", cancel, || Ok(status(netns)?.incoming.bulk_count > 0))?;
        }
        Ok(())
    }

    fn wait_for_addresses(&self, which: usize, cancel: &Cancel) -> Result<()> {
        wait_until("the shared addresses", cancel, || {
            let shown = ip(&self.boxes, which, "-4 addr")?;
            Ok(shown.contains(" 10.1.0.1/32") && shown.contains(" 10.2.0.1/32"))
        })
    }

    fn load(&self, connections: u32) -> Result<Process> {
        let (count, time) = (connections.to_string(), format!("{}s", RUN.as_secs()));
        let rate = (connections * RATE_RPS).to_string();
        let mut command = self.boxes.weir();
        command.args(["http", URL, "--connections", &count, "--rate", &rate]);
        command.args(["--duration", &time, "--json"]);
        command.stdout(File::create(self.boxes.path("http.json"))?);
        self.boxes.start_program(CLIENT, command)
    }
}

fn tracked(boxes: &Boxes<6>, which: usize) -> String {
    boxes.path(&format!("priority{which}"))
}

/// Starts keepalived at a firewall.
fn start_keepalived(boxes: &Boxes<6>, which: usize) -> Result<Process> {
    let text = keepalived::config(&[
        ("eth1", "b0"),
        ("eth0", "b1"),
        ("$PRIORITY=150", &format!("$PRIORITY={}", PRIORITIES[which])),
        ("preempt_delay 10", "preempt_delay 0"),
        ("/run/weir-sync/priority", &tracked(boxes, which)),
    ])?;
    let path = |name: &str| boxes.path(&format!("{name}{which}"));
    fs::write(path("keepalived"), text)?;
    let mut command = Command::new("keepalived");
    command.args(["--dont-fork", "--vrrp", "--log-console", "--use-file", &path("keepalived")]);
    command.args(["--pid", &path("pid"), "--vrrp_pid", &path("vrrp_pid")]);
    command.stdout(File::create(path("keepalived_log"))?);
    let started = boxes.start_program(which, command);
    Ok(started.map_err(|error| format!("keepalived: {error}; is it installed?"))?)
}

/// Runs `ip` in a namespace.
fn ip(boxes: &Boxes<6>, which: usize, words: &str) -> Result<String> {
    let output = boxes.run_program(which, Command::new("ip").args(words.split(' ')))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Two switches, each with a host and both firewalls, and a link between these.
fn connect(boxes: &Boxes<6>) -> Result<()> {
    for switch in [INSIDE, OUTSIDE] {
        ip(boxes, switch, "link add br0 type bridge")?;
        ip(boxes, switch, "link set br0 up")?;
    }
    for which in [FIRST, SECOND] {
        for (name, switch, net) in [("b0", INSIDE, 1), ("b1", OUTSIDE, 2)] {
            cable(boxes, (which, name), (switch, &format!("f{which}")))?;
            ip(boxes, which, &format!("addr add 10.{net}.0.25{which}/24 dev {name}"))?;
        }
        ip(boxes, which, "link set lo up")?;
        boxes.netns(which).run(|| sysctl::write("net.ipv4.ip_forward", "1"))??;
    }
    veth(boxes, (FIRST, "y0"), (SECOND, "y0"))?;
    for which in [FIRST, SECOND] {
        ip(boxes, which, &format!("addr add {}/24 dev y0", LINK[which]))?;
        ip(boxes, which, "link set y0 up")?;
    }
    for (host, switch, net) in [(CLIENT, INSIDE, 1), (SERVER, OUTSIDE, 2)] {
        cable(boxes, (host, "h0"), (switch, "host"))?;
        ip(boxes, host, &format!("addr add 10.{net}.0.2/24 dev h0"))?;
        ip(boxes, host, &format!("route add default via 10.{net}.0.1"))?;
    }
    Ok(())
}

/// A cable from a box to a port of a switch, by which frames go as they would go by a wire.
fn cable(boxes: &Boxes<6>, end: (usize, &str), port: (usize, &str)) -> Result<()> {
    veth(boxes, end, port)?;
    for (which, name) in [end, port] {
        boxes.netns(which).run(|| -> Result<()> {
            ethtool::set_tx_checksums(name, false)?;
            polling(name)
        })??;
    }
    ip(boxes, port.0, &format!("link set {} master br0", port.1)).map(drop)
}

fn veth(boxes: &Boxes<6>, one: (usize, &str), two: (usize, &str)) -> Result<()> {
    let far = VethEnd::new(two.1).in_netns(boxes.netns(two.0));
    boxes.netns(one.0).run(|| -> Result<()> {
        Ok(Netlink::open()?.create_veth(&VethEnd::new(one.1), &far, 1)?)
    })?
}

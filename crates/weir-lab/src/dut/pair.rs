//! The second firewall of a DUT of the kind `weir-fw`: `weir fw sync` carries states to it, and
//! where it is to take over, keepalived on both says who forwards, as `dist/keepalived.conf` has
//! it.
//!
//! What a testbed puts in place for that has its names and addresses here. What the packets of a
//! takeover come to is counted by the testbed, and not here.

use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_machine::cancel::Cancel;
use weir_machine::host::{Host, Process, STOP_PATIENCE};
use weir_machine::ssh::quote;
use weir_results::dut::{Backup, Takeover};
use weir_results::record::Check;

use super::DutError;
use super::weir_command::Weir;

/// The device of the link between both.
pub(crate) const LINK_DEVICE: &str = "sync0";
/// Their addresses on it (RFC 5737).
pub(crate) const LINK_ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// What hosts on either side send to, and what VRRP moves therefore.
pub(crate) const SHARED_ADDRESSES: [&str; 2] = ["198.18.0.1", "198.19.0.1"];
/// Virtual router identifiers of these, which their MAC addresses end with.
pub(crate) const VRRP_ROUTERS: [u8; 2] = [51, 52];
/// The ports of the first firewall's switches.
pub(crate) const PORTS_OF_FIRST: [&str; 2] = ["first0", "first1"];

/// Where a firewall takes states.
const PORT: u16 = 7467;
/// Files in the working directory of each firewall.
const KEY: &str = "sync.key";
const SEEN: &str = "sync.jsonl";
const PRIORITY_FILE: &str = "priority";
const KEEPALIVED_CONFIG: &str = "keepalived.conf";
const KEEPALIVED_PID: &str = "keepalived.pid";
/// What has the second one take over.
const TAKEOVER: &str = "takeover";
const PRIORITIES: [u8; 2] = [150, 100];
/// How often is looked how far behind the second one is.
const LOOK: &str = "20ms";
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two questions whether they are ready.
const READY_POLL: Duration = Duration::from_millis(50);

/// `weir fw sync status --json`, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Status {
    out: Out,
    incoming: Incoming,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Out {
    is_live: bool,
    /// States and ends of states.
    sent_count: u64,
    lag_ms: u64,
    changes_per_second: u64,
    bytes_per_second: u64,
}

#[derive(Debug, Deserialize)]
struct Incoming {
    bulk_count: u64,
}

/// The addresses of a firewall, of which the first one has number 0, beside the shared ones.
pub(crate) fn box_addresses(shared: &[String; 2], number: usize) -> [String; 2] {
    shared.each_ref().map(|text| {
        let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
        let net = address.rfind(['.', ':']).map_or(0, |at| at + 1);
        format!("{}{}/{bits}", &address[..net], 251 + number)
    })
}

/// What runs beside both firewalls.
pub(super) struct Pair {
    takeover: Option<Takeover>,
    /// What it is, on which of both, and the process.
    processes: Vec<(&'static str, usize, Box<dyn Process>)>,
    /// Bulks that the second one had when both were ready.
    bulk_count: u64,
    /// Bytes of looks before the measurement.
    seen_bytes: u64,
}

impl Pair {
    /// Starts it: first and second firewall run.
    pub(super) fn start(
        weir: &Weir,
        boxes: [&dyn Host; 2],
        backup: Backup,
    ) -> Result<Self, DutError> {
        let key = |host| weir.run(host, &["fw", "sync", "keygen", "--key", KEY], PATIENCE);
        let keys = [key(boxes[0])?, key(boxes[1])?];
        let (takeover, processes) = (backup.takeover, Vec::new());
        let mut pair = Self { takeover, processes, bulk_count: 0, seen_bytes: 0 };
        let mut start = |what: &'static str, number: usize, words: &str| {
            let host = boxes[number];
            let line = format!("exec {words} >{what}.log 2>&1");
            let process = host.spawn(&line, &format!("{what}.{}.log", number + 1));
            pair.processes.push((what, number, process.map_err(|error| weir.failed(error))?));
            Ok::<_, DutError>(())
        };
        let program = quote(&weir.path()?);
        // Who may have been master sends to who may become it.
        let ways: &[usize] = if backup.takeover.is_some() { &[0, 1] } else { &[0] };
        for &from in ways {
            let to = 1 - from;
            let keyed = |peer: &str| format!("--key {KEY} --peer {}", quote(peer.trim()));
            let at = format!("{}:{PORT}", LINK_ADDRESSES[to]);
            let serve = format!("{program} fw sync serve --listen {at} {}", keyed(&keys[from]));
            start("serve", to, &serve)?;
            start("to", from, &format!("{program} fw sync to {at} {}", keyed(&keys[to])))?;
        }
        if backup.takeover.is_none() {
            // What is printed goes to a file, and what is said to the log.
            let look = format!("exec {program} fw sync status --every {LOOK} --json >{SEEN}");
            start("status", 0, &format!("sh -c {}", quote(&look)))?;
        } else {
            for (number, host) in boxes.into_iter().enumerate() {
                let write = |name: &str, text: &str| {
                    host.write_file(name, text).map_err(|error| weir.failed(error))
                };
                let priority = write(PRIORITY_FILE, "-100\n")?;
                let config = write(KEEPALIVED_CONFIG, &keepalived(number, &priority))?;
                start("track", number, &format!("{program} fw sync track {PRIORITY_FILE}"))?;
                let words = "keepalived --dont-fork --vrrp --log-console --use-file";
                let pids = format!("--pid {KEEPALIVED_PID} --vrrp_pid vrrp.pid");
                start("keepalived", number, &format!("{words} {} {pids}", quote(&config)))?;
            }
        }
        Ok(pair)
    }

    /// Waits until the second one has the states of the first one, and the addresses are where
    /// they are to be.
    pub(super) fn wait(
        &mut self,
        weir: &Weir,
        boxes: [&dyn Host; 2],
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<(), DutError> {
        let deadline = Instant::now() + patience;
        while let Some(missing) = self.missing(weir, boxes)? {
            if let Some(what) = self.ended(weir)? {
                let logs = boxes.map(|host| log(weir, host, what)).join("\n");
                return Err(weir.wrong(format!("what runs beside it has ended: {what}\n{logs}")));
            }
            if Instant::now() >= deadline {
                let after = weir_wire::units::format_duration(patience);
                return Err(weir.not_ready(format!("after {after}, {missing}")));
            }
            if !cancel.sleep(READY_POLL) {
                return Err(DutError::Cancelled);
            }
        }
        self.bulk_count = status(weir, boxes[1])?.incoming.bulk_count;
        Ok(())
    }

    /// What is not as it is to be yet, in words.
    fn missing(&self, weir: &Weir, boxes: [&dyn Host; 2]) -> Result<Option<String>, DutError> {
        let receivers = if self.takeover.is_some() { &boxes[..] } else { &boxes[1..] };
        for host in receivers {
            if status(weir, *host)?.incoming.bulk_count == 0 {
                return Ok(Some(format!("{} has not got the other one's states", host.name())));
            }
        }
        let is_missing = self.takeover.is_some() && !has_addresses(weir, boxes[0])?;
        Ok(is_missing.then(|| format!("VRRP has not given {} its addresses", boxes[0].name())))
    }

    /// The name of a process that has ended and should not have.
    fn ended(&mut self, weir: &Weir) -> Result<Option<&'static str>, DutError> {
        let takeover = self.takeover;
        for (what, number, process) in &mut self.processes {
            let ended = process.ended().map_err(|error| weir.failed(error))?;
            let is_right = match *what {
                TAKEOVER => ended.as_ref().is_none_or(|ended| ended.success),
                // Where the first one has been asked to let go, it has.
                "keepalived" => *number == 0 && takeover == Some(Takeover::Drain),
                _ => false,
            };
            if ended.is_some() && !is_right {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }

    /// Has the second one take over in the middle of what begins now.
    pub(super) fn measuring(
        &mut self,
        weir: &Weir,
        (switches, boxes): (&dyn Host, [&dyn Host; 2]),
        duration: Duration,
    ) -> Result<(), DutError> {
        let Some(takeover) = self.takeover else {
            let size = weir.shell(boxes[0], &format!("wc -c <{SEEN}"), PATIENCE)?;
            self.seen_bytes = size.trim().parse().unwrap_or(0);
            return Ok(());
        };
        let wait = format!("sleep {:.3}", duration.as_secs_f64() / 2.0);
        let [inside, outside] = PORTS_OF_FIRST;
        let acts = match takeover {
            Takeover::Drain => {
                let drain = format!("{} fw sync drain --timeout 5s", quote(&weir.path()?));
                let leave = format!("kill -TERM $(cat {KEEPALIVED_PID})");
                vec![(boxes[0], format!("{wait}; {drain} && {leave}"))]
            }
            Takeover::Kill => {
                // The switches do not see that anything has happened: the ports stay up, and the
                // addresses behind them known.
                let cut =
                    [inside, outside].map(|port| format!("bridge link set dev {port} state 0"));
                let cut = cut.join(" && ");
                let alone = format!("ip link set {LINK_DEVICE} down");
                vec![(switches, format!("{wait}; {cut}")), (boxes[1], format!("{wait}; {alone}"))]
            }
        };
        for (number, (host, line)) in acts.into_iter().enumerate() {
            let log = format!("{TAKEOVER}.{}.log", number + 1);
            let process = host.spawn(&line, &log).map_err(|error| weir.failed(error))?;
            self.processes.push((TAKEOVER, number, process));
        }
        Ok(())
    }

    /// That both were in step, or that the second one has taken over.
    pub(super) fn check(&mut self, weir: &Weir, boxes: [&dyn Host; 2]) -> Result<Check, DutError> {
        let check = |passed, detail: &str| Check {
            name: "weir-fw backup".to_owned(),
            passed,
            detail: detail.to_owned(),
        };
        if let Some(what) = self.ended(weir)? {
            let detail = format!("what runs beside it has ended: {what}; its log is an artefact");
            return Ok(check(false, &detail));
        }
        if self.takeover.is_some() {
            return Ok(match has_addresses(weir, boxes[1])? {
                true => check(true, "it has taken over"),
                false => check(false, "it has not taken over: VRRP has given it no address"),
            });
        }
        if !status(weir, boxes[0])?.out.is_live {
            return Ok(check(false, "it gets no states: the session has ended"));
        }
        Ok(match status(weir, boxes[1])?.incoming.bulk_count == self.bulk_count {
            true => check(true, "it gets the states"),
            false => check(false, "it had to get all states once more: the session was lost"),
        })
    }

    /// How far behind the second one was while states changed, and how much was sent.
    pub(super) fn levels(
        &self,
        weir: &Weir,
        first: &dyn Host,
    ) -> Result<Vec<(&'static str, u64)>, DutError> {
        // Nobody looks: after a takeover the lag is that of a lost session.
        if self.takeover.is_some() {
            return Ok(Vec::new());
        }
        let seen = format!("tail -c +{} {SEEN}", self.seen_bytes + 1);
        let seen = weir.shell(first, &seen, PATIENCE)?;
        // The last line may not be whole.
        let looks = seen.lines().filter_map(|line| serde_json::from_str::<Status>(line).ok());
        Ok(busy_levels(&looks.map(|look| look.out).collect::<Vec<_>>()))
    }

    /// Ends what runs.
    pub(super) fn stop(self, weir: &Weir) -> Result<(), DutError> {
        let mut result = Ok(());
        for (.., mut process) in self.processes.into_iter().rev() {
            result = result.and(process.stop(STOP_PATIENCE).map_err(|error| weir.failed(error)));
        }
        result
    }
}

fn status(weir: &Weir, host: &dyn Host) -> Result<Status, DutError> {
    let output = weir.ask(host, &["fw", "sync", "status", "--json"], PATIENCE)?;
    // Without a session its exit code is 1, with the status all the same.
    serde_json::from_str(&output.stdout).map_err(|_| {
        weir.wrong(format!("`weir fw sync status --json` printed no status: {}", output.said()))
    })
}

/// What a process has written last on a host.
fn log(weir: &Weir, host: &dyn Host, what: &str) -> String {
    let shown = weir.shell(host, &format!("tail -c 1000 {what}.log"), PATIENCE);
    shown.unwrap_or_else(|error| error.to_string())
}

/// Whether VRRP has given a firewall both addresses.
fn has_addresses(weir: &Weir, host: &dyn Host) -> Result<bool, DutError> {
    let shown = weir.shell(host, "ip -4 -o address", PATIENCE)?;
    Ok(SHARED_ADDRESSES.iter().all(|shared| shown.contains(&format!(" {shared}/32 "))))
}

/// The levels that looks at a status come to, of those in which something had been sent since the
/// look before; none if there are none.
fn busy_levels(looks: &[Out]) -> Vec<(&'static str, u64)> {
    let is_busy = |pair: &&[Out]| pair[1].is_live && pair[1].sent_count > pair[0].sent_count;
    let busy: Vec<Out> = looks.windows(2).filter(is_busy).map(|pair| pair[1]).collect();
    if busy.is_empty() {
        return Vec::new();
    }
    let sorted = |value: fn(&Out) -> u64| {
        let mut values: Vec<u64> = busy.iter().map(value).collect();
        values.sort_unstable();
        values
    };
    let lags_ms = sorted(|out| out.lag_ms);
    let at = |values: &[u64], percent: usize| {
        values.get(values.len() * percent / 100).or(values.last()).copied().unwrap_or(0)
    };
    let median = |value: fn(&Out) -> u64| at(&sorted(value), 50);
    vec![
        ("sync_lag_p99_ms", at(&lags_ms, 99)),
        ("sync_lag_max_ms", at(&lags_ms, 100)),
        ("sync_changes_per_second", median(|out| out.changes_per_second)),
        ("sync_bytes_per_second", median(|out| out.bytes_per_second)),
    ]
}

/// `dist/keepalived.conf` for one of both, without IPv6, whose addresses do not move here.
fn keepalived(number: usize, priority_file: &str) -> String {
    const TEXT: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/keepalived.conf"));
    let priority = format!("$PRIORITY={}", PRIORITIES[number]);
    let mut text = TEXT.split("\n# IPv6 ").next().unwrap_or(TEXT).to_owned();
    let sides = [("eth1", "dut0", "10.1.0.1/32"), ("eth0", "dut1", "10.2.0.1/32")];
    for ((named, device, address), shared) in sides.into_iter().zip(SHARED_ADDRESSES) {
        text = text
            .replace(address, &format!("{shared}/32"))
            .replace(&format!("interface {named}"), &format!("interface {device}"));
    }
    text.replace("        inside6\n        outside6\n", "")
        .replace("$PRIORITY=150", &priority)
        .replace("preempt_delay 10", "preempt_delay 0")
        .replace("/run/weir-sync/priority", priority_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalived_moves_the_shared_addresses_with_their_mac_addresses() {
        let text = keepalived(1, "/tmp/priority");
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty())
            .collect();
        let count = |line: &str| lines.iter().filter(|one| **one == line).count();
        assert_eq!(count("$PRIORITY=100"), 1);
        assert_eq!(count("file \"/tmp/priority\""), 1);
        assert_eq!((count("use_vmac"), count("preempt_delay 0")), (2, 2));
        for (device, router, shared) in
            [("dut0", 51, SHARED_ADDRESSES[0]), ("dut1", 52, SHARED_ADDRESSES[1])]
        {
            assert_eq!(count(&format!("interface {device}")), 1, "{text}");
            assert_eq!(count(&format!("virtual_router_id {router}")), 1, "{text}");
            assert_eq!(count(&format!("{shared}/32")), 1, "{text}");
        }
        assert_eq!(VRRP_ROUTERS, [51, 52]);
        assert!(!lines.iter().any(|line| line.contains("eth") || line.contains("side6")), "{text}");
    }

    #[test]
    fn levels_are_of_the_looks_in_which_states_changed() {
        let looks: Vec<Out> = (0..=200)
            .map(|lag_ms| Out {
                is_live: true,
                sent_count: lag_ms,
                lag_ms,
                changes_per_second: 1000,
                bytes_per_second: 150_000,
            })
            .collect();
        let levels = busy_levels(&looks);
        assert_eq!(levels[0], ("sync_lag_p99_ms", 199));
        assert_eq!(levels[1], ("sync_lag_max_ms", 200));
        assert_eq!(levels[3], ("sync_bytes_per_second", 150_000));
        // Nothing was sent in these.
        let idle = [looks[0]; 3];
        assert_eq!(busy_levels(&[&idle[..], &looks].concat()), levels);
        assert!(busy_levels(&idle).is_empty() && busy_levels(&[]).is_empty());
    }
}

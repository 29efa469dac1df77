//! The DUT kind `weir-fw`: weir's own firewall, as a foreign box.
//!
//! It is the command `weir fw run` in the DUT's namespace, and what is known of it is what its
//! commands print as JSON: `weir fw status` says when it is ready, `weir fw stats` has its states,
//! rules and drops. Nothing of it is linked, and none of its memory is looked at. Forwarding is
//! switched on by itself, as for the kind `linux`, because routes are the kernel's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_machine::cancel::Cancel;
use weir_machine::host::{Command, Host, Process, Program, STOP_PATIENCE};
use weir_machine::ssh::quote;
use weir_results::counters::{Counters, DropRule, Place, Selection};
use weir_results::dut::{Backup, Dut, DutFile, DutKind};
use weir_results::record::Check;
use weir_wire::frame::Protocol;
use weir_wire::stream::StreamSpec;

use super::linux::{forwarding, stack_drops};
use super::pair::Pair;
use super::weir_command::Weir;
use super::{DutDriver, DutError, apply_sysctls, check_sysctls, conntrack};

/// Source of its counters.
const SOURCE: &str = "weir-fw";
/// The testbed's count of what XDP programs drop, all of which have a reason here.
const XDP_DROPS: &str = "dut_xdp_drops";
/// Pause between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(50);
/// How long a question may take: for its rules' counters, the program adds up all states.
const ASK_TIMEOUT: Duration = Duration::from_secs(60);
/// What asks for everything but the rules, and what asks for them too.
const STATS: [&str; 3] = ["fw", "stats", "--json"];
const STATS_AND_RULES: [&str; 4] = ["fw", "stats", "--json", "--rules"];
/// How long it may take to put everything away, and how often it is looked at.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// What takes everything off.
const STOP: [&str; 2] = ["fw", "stop"];
/// What it writes, in its working directory.
const LOG: &str = "weir-fw.log";

/// A driver for `weir fw run`.
pub(super) struct WeirFw {
    name: String,
    sysctls: BTreeMap<String, String>,
    /// The ruleset, and the files that it names.
    rules: DutFile,
    files: Vec<DutFile>,
    weir: Weir,
    ready_timeout: Duration,
    /// Of each box.
    processes: Vec<Box<dyn Process>>,
    /// A second firewall, and what runs beside both.
    backup: Option<Backup>,
    pair: Option<Pair>,
    /// Whether a rule keeps state.
    keeps_state: bool,
    /// Drop counters that were ever seen.
    drops: RefCell<BTreeSet<String>>,
}

/// `weir fw status --json`, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Status {
    running: bool,
}

/// `weir fw stats --json`, as far as it matters here.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Stats {
    states: States,
    drops: Vec<DropCount>,
    /// Where they were asked for.
    #[serde(default)]
    rules: Vec<Rule>,
    interfaces: Vec<Interface>,
    forwarded_packets: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct States {
    current_count: u64,
    limit_count: u64,
    bucket_count: u64,
    index_bytes: u64,
    table_bytes: u64,
    inserts_count: u64,
    removals_count: u64,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct DropCount {
    direction: String,
    reason: String,
    packets: u64,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Rule {
    number: u64,
    text: String,
    packets: u64,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Interface {
    name: String,
    mode: String,
}

impl Stats {
    /// Its counters by name. The drops of all interfaces are added up by direction and reason.
    fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::from([
            ("forwarded_packets".to_owned(), self.forwarded_packets),
            ("state_inserts".to_owned(), self.states.inserts_count),
            ("state_removals".to_owned(), self.states.removals_count),
        ]);
        for drop in &self.drops {
            *counters.entry(drop_counter(drop)).or_default() += drop.packets;
        }
        counters.extend(self.rules.iter().map(|rule| (rule_counter(rule), rule.packets)));
        counters
    }

    fn keeps_state(&self) -> bool {
        let keeps = |rule: &Rule| rule.text.contains(" state") && !rule.text.contains("no state");
        self.rules.iter().any(keeps)
    }
}

fn drop_counter(drop: &DropCount) -> String {
    format!("drop {} {}", drop.direction, drop.reason)
}

fn rule_counter(rule: &Rule) -> String {
    format!("rule {} `{}`", rule.number, rule.text)
}

impl WeirFw {
    /// # Panics
    /// When `dut` is of another kind.
    pub(super) fn new(dut: &Dut) -> Self {
        let DutKind::WeirFw { sysctls, rules, files, program, ready_timeout, backup } =
            dut.kind.clone()
        else {
            panic!("`{}` is not of the kind `weir-fw`", dut.name);
        };
        Self {
            name: dut.name.clone(),
            sysctls: forwarding(sysctls),
            rules,
            files,
            weir: Weir { dut: dut.name.clone(), program },
            ready_timeout,
            processes: Vec::new(),
            backup,
            pair: None,
            keeps_state: false,
            drops: RefCell::default(),
        }
    }

    /// The boxes that packets may come by, the one that forwards first before the other one.
    fn forwarders<'h>(&self, host: &'h dyn Host) -> Vec<&'h dyn Host> {
        let mut boxes = boxes(host);
        if !self.is_taken_over() {
            boxes.truncate(1);
        }
        boxes
    }

    fn stats(&self, host: &dyn Host, question: &[&str]) -> Result<Stats, DutError> {
        let printed = self.weir.run(host, question, ASK_TIMEOUT)?;
        serde_json::from_str(&printed).map_err(|error| {
            self.weir.wrong(format!("`weir fw stats --json` is not what was expected: {error}"))
        })
    }

    /// How a process of a box ended, with what it said last; `None` while all run.
    fn ended(&mut self, host: &dyn Host) -> Result<Option<String>, DutError> {
        if self.processes.is_empty() {
            return Ok(Some("it was never started".to_owned()));
        }
        for (process, host) in self.processes.iter_mut().zip(boxes(host)) {
            if let Some(ended) = process.ended().map_err(DutError::host(&self.name))? {
                return Ok(Some(format!("`weir fw run` ended: {}\n{}", ended.how, log(host))));
            }
        }
        Ok(None)
    }

    /// Waits until the firewall of a box says that it runs.
    fn wait_for(
        &mut self,
        (host, all): (&dyn Host, &dyn Host),
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), DutError> {
        loop {
            if let Some(how) = self.ended(all)? {
                return Err(self.weir.wrong(how));
            }
            let left = deadline.saturating_duration_since(Instant::now()).max(READY_POLL);
            let answer = match self.weir.ask(host, &["fw", "status", "--json"], left) {
                Ok(output) if output.success() => {
                    match serde_json::from_str::<Status>(&output.stdout) {
                        Ok(Status { running: true }) => return Ok(()),
                        Ok(_) => "it is not running yet".to_owned(),
                        Err(error) => format!("`weir fw status --json` printed no status: {error}"),
                    }
                }
                Ok(output) => output.said().to_owned(),
                Err(error) => error.to_string(),
            };
            if cancel.signal().is_some() {
                return Err(DutError::Cancelled);
            }
            if Instant::now() >= deadline {
                return Err(self.weir.not_ready(format!(
                    "`weir fw status` still says after {}: {answer}",
                    weir_wire::units::format_duration(self.ready_timeout)
                )));
            }
            if !cancel.sleep(READY_POLL) {
                return Err(DutError::Cancelled);
            }
        }
    }

    /// That packets met the ruleset: a rule counted some, or, with none, they were forwarded.
    fn rules_check(&self, stats: &Stats, run: &Counters) -> Check {
        let none = BTreeMap::new();
        let run = run.get(SOURCE).unwrap_or(&none);
        let of = |name: &str| run.get(name).copied().unwrap_or(0);
        let moved = stats.rules.iter().map(|rule| (rule, of(&rule_counter(rule))));
        let moved: Vec<_> = moved.filter(|(_, packets)| *packets > 0).collect();
        let (passed, detail) = match (moved.first(), stats.rules.len()) {
            (Some((rule, packets)), _) => {
                (true, format!("rule {} `{}`: {packets} packets", rule.number, rule.text))
            }
            (None, 0) => {
                let forwarded = of("forwarded_packets");
                (forwarded > 0, format!("no rules; {forwarded} packets forwarded"))
            }
            (None, 1) => (false, "no packet met its rule".to_owned()),
            (None, count) => (false, format!("no packet met one of its {count} rules")),
        };
        Check { name: format!("weir-fw {}", self.rules.path), passed, detail }
    }
}

/// Both machines of a DUT that has two.
fn both<'h>(weir: &Weir, host: &'h dyn Host) -> Result<[&'h dyn Host; 2], DutError> {
    let two = <[&dyn Host; 2]>::try_from(boxes(host));
    two.map_err(|_| weir.wrong("this testbed has room for one firewall only".to_owned()))
}

/// The machines of the DUT: the only one, or the two that it consists of.
fn boxes(host: &dyn Host) -> Vec<&dyn Host> {
    let boxes = host.boxes();
    if boxes.is_empty() { vec![host] } else { boxes }
}

/// What the program has written so far, or its end.
fn log(host: &dyn Host) -> String {
    let output = host.run(&Command {
        program: Program::Arguments(&["tail", "-c", "4000", LOG]),
        stdin: "",
        timeout: ASK_TIMEOUT,
        cancellable: false,
    });
    output.map_or_else(|error| error.what, |output| output.said().to_owned())
}

/// The last part of a file's path: its name in the working directory.
fn file_name(file: &DutFile) -> &str {
    file.path.rsplit('/').next().unwrap_or(&file.path)
}

impl DutDriver for WeirFw {
    fn prepare(&mut self, host: &dyn Host) -> Result<(), DutError> {
        for host in boxes(host) {
            for file in self.files.iter().chain([&self.rules]) {
                host.write_file(file_name(file), &file.text).map_err(DutError::host(&self.name))?;
            }
            apply_sysctls(&self.name, host, &self.sysctls)?;
        }
        Ok(())
    }

    fn start(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let line = format!(
            "exec {} fw run -f {} --foreground >{LOG} 2>&1",
            quote(&self.weir.path()?),
            quote(file_name(&self.rules))
        );
        for (number, host) in (1..).zip(boxes(host)) {
            let log = match number {
                1 => format!("{}.log", self.name),
                _ => format!("{}.{number}.log", self.name),
            };
            let process = host.spawn(&line, &log).map_err(DutError::host(&self.name))?;
            self.processes.push(process);
        }
        Ok(())
    }

    fn ready(&mut self, host: &dyn Host, cancel: &Cancel) -> Result<(), DutError> {
        let deadline = Instant::now() + self.ready_timeout;
        for one in boxes(host) {
            self.wait_for((one, host), deadline, cancel)?;
        }
        if let Some(backup) = self.backup {
            let both = both(&self.weir, host)?;
            let pair = self.pair.insert(Pair::start(&self.weir, both, backup)?);
            let left = deadline.saturating_duration_since(Instant::now());
            pair.wait(&self.weir, both, left, cancel)?;
        }
        let first = boxes(host)[0];
        self.keeps_state = self.stats(first, &STATS_AND_RULES)?.keeps_state();
        Ok(())
    }

    fn keeps_flows(&self) -> bool {
        self.keeps_state
    }

    fn flows(&self, host: &dyn Host) -> Result<Option<u64>, DutError> {
        if !self.keeps_state {
            return Ok(None);
        }
        Ok(Some(self.stats(boxes(host)[0], &STATS)?.states.current_count))
    }

    fn flows_of(&self, spec: &StreamSpec) -> Result<u64, String> {
        conntrack::connections(spec).map_err(|why| match spec.protocol {
            Protocol::Tcp { flags } => format!(
                "whether TCP packets with the flags `{flags}` make a state depends on the rules"
            ),
            _ => why,
        })
    }

    fn flow_limit(&self, host: &dyn Host) -> Result<Option<String>, DutError> {
        let limit = self.stats(boxes(host)[0], &STATS)?.states.limit_count;
        Ok(Some(format!("`set limit states` is {limit}")))
    }

    fn measuring(&mut self, host: &dyn Host, duration: Duration) -> Result<(), DutError> {
        let Some(pair) = &mut self.pair else { return Ok(()) };
        pair.measuring(&self.weir, (host, both(&self.weir, host)?), duration)
    }

    fn is_taken_over(&self) -> bool {
        self.backup.is_some_and(|backup| backup.takeover.is_some())
    }

    fn counters(&self, host: &dyn Host) -> Result<Counters, DutError> {
        let mut all = Counters::new();
        for host in self.forwarders(host) {
            let mut counters = host.stack_counters().map_err(DutError::host(&self.name))?;
            let stats = self.stats(host, &STATS_AND_RULES)?;
            self.drops.borrow_mut().extend(stats.drops.iter().map(drop_counter));
            counters.insert(SOURCE.to_owned(), stats.counters());
            for (source, values) in counters {
                let sums = all.entry(source).or_default();
                for (name, value) in values {
                    *sums.entry(name).or_insert(0) += value;
                }
            }
        }
        Ok(all)
    }

    fn drops(&self) -> Vec<DropRule> {
        let rule = |counter: &String| {
            let name = format!("weir-fw {counter}");
            let counters = Selection::new(SOURCE, &[counter]);
            DropRule::new(&name, "dut_received", Place::Dut, counters)
        };
        if self.is_taken_over() {
            // They count VRRP's and each other's packets, too.
            return Vec::new();
        }
        let mut rules = stack_drops();
        rules.extend(self.drops.borrow().iter().map(rule));
        rules
    }

    fn names_drops_of(&self) -> &'static [&'static str] {
        &[XDP_DROPS]
    }

    fn is_opaque(&self) -> bool {
        // What switches lose while they do not know where to.
        self.is_taken_over()
    }

    fn levels(&self, host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        let boxes = boxes(host);
        let states = self.stats(boxes[0], &STATS)?.states;
        let mut levels: BTreeMap<String, u64> = [
            ("states", states.current_count),
            ("state_limit", states.limit_count),
            ("index_buckets", states.bucket_count),
            ("index_size_bytes", states.index_bytes),
            ("table_size_bytes", states.table_bytes),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if let (Some(pair), Some(second)) = (&self.pair, boxes.get(1)) {
            let all = pair.levels(&self.weir, boxes[0])?.into_iter();
            let second = self.stats(*second, &STATS)?.states.current_count;
            let all = all.chain([("backup_states", second)]);
            levels.extend(all.map(|(name, value)| (name.to_owned(), value)));
        }
        Ok(levels)
    }

    fn took_effect(&mut self, host: &dyn Host, run: &Counters) -> Result<Vec<Check>, DutError> {
        let forwarders = self.forwarders(host);
        let last = forwarders.last().copied().unwrap_or(host);
        let mut checks = check_sysctls(&self.name, last, &self.sysctls)?;
        let ended = self.ended(host)?;
        checks.push(Check {
            name: "dut-alive".to_owned(),
            passed: ended.is_none(),
            detail: ended.unwrap_or_else(|| "`weir fw run` runs".to_owned()),
        });
        if let Some(pair) = &mut self.pair {
            checks.push(pair.check(&self.weir, both(&self.weir, host)?)?);
        }
        let stats = self.stats(last, &STATS_AND_RULES)?;
        checks.push(self.rules_check(&stats, run));
        let mode = |i: &Interface| format!("{} {}", i.name, i.mode);
        checks.push(Check {
            name: "weir-fw native".to_owned(),
            passed: stats.interfaces.iter().all(|i| i.mode != "generic"),
            detail: stats.interfaces.iter().map(mode).collect::<Vec<_>>().join(", "),
        });
        Ok(checks)
    }

    fn stop(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let paired = self.pair.take().map_or(Ok(()), |pair| pair.stop(&self.weir));
        let mut ended = Ok(());
        for (mut process, host) in self.processes.drain(..).zip(boxes(host)) {
            // Programs stay behind when the process ends; this takes them off and ends it. Whether
            // it worked shows in the next line: what still runs is ended, and the namespace goes.
            drop(self.weir.put_back(host, &STOP, STOP_TIMEOUT));
            ended = ended.and(process.stop(STOP_PATIENCE).map_err(DutError::host(&self.name)));
        }
        paired.and(ended)
    }
}

#[cfg(test)]
mod tests;

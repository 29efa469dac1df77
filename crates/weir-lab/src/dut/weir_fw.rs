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
use weir_machine::host::{Command, Host, Output, Process, Program, STOP_PATIENCE};
use weir_machine::ssh::quote;
use weir_results::counters::{Counters, DropRule, Place, Selection};
use weir_results::dut::{Dut, DutFile, DutKind};
use weir_results::record::Check;
use weir_wire::frame::Protocol;
use weir_wire::stream::StreamSpec;

use super::linux::{forwarding, stack_drops};
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
    program: Option<String>,
    ready_timeout: Duration,
    process: Option<Box<dyn Process>>,
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
        let DutKind::WeirFw { sysctls, rules, files, program, ready_timeout } = dut.kind.clone()
        else {
            panic!("`{}` is not of the kind `weir-fw`", dut.name);
        };
        Self {
            name: dut.name.clone(),
            sysctls: forwarding(sysctls),
            rules,
            files,
            program,
            ready_timeout,
            process: None,
            keeps_state: false,
            drops: RefCell::default(),
        }
    }

    /// The path of the command: the one that was asked for, or this program.
    fn program(&self) -> Result<String, DutError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let program = std::env::current_exe().map_err(|e| self.configuration(format!("{e}")))?;
        let program = program.into_os_string().into_string();
        program.map_err(|path| {
            self.configuration(format!("the path of weir, {}, is not UTF-8", path.display()))
        })
    }

    fn ask(&self, host: &dyn Host, question: &[&str], patience: Duration) -> Asked {
        let program = self.program()?;
        let argv: Vec<&str> =
            std::iter::once(program.as_str()).chain(question.iter().copied()).collect();
        host.run(&Command {
            program: Program::Arguments(&argv),
            stdin: "",
            timeout: patience,
            cancellable: question != STOP,
        })
        .map_err(DutError::host(&self.name))
    }

    fn stats(&self, host: &dyn Host, question: &[&str]) -> Result<Stats, DutError> {
        let output = self.ask(host, question, ASK_TIMEOUT)?;
        if !output.success() {
            let what = format!("`weir fw stats` failed: {}", output.said());
            return Err(self.configuration(what));
        }
        serde_json::from_str(&output.stdout).map_err(|error| {
            self.configuration(format!("`weir fw stats --json` is not what was expected: {error}"))
        })
    }

    /// How its process ended, with what it said last; `None` while it runs.
    fn ended(&mut self, host: &dyn Host) -> Result<Option<String>, DutError> {
        let Some(process) = &mut self.process else {
            return Ok(Some("it was never started".to_owned()));
        };
        let Some(ended) = process.ended().map_err(DutError::host(&self.name))? else {
            return Ok(None);
        };
        Ok(Some(format!("`weir fw run` ended: {}\n{}", ended.how, log(host))))
    }

    fn configuration(&self, what: String) -> DutError {
        DutError::Configuration { dut: self.name.clone(), what }
    }

    fn not_ready(&self, what: String) -> DutError {
        DutError::NotReady { dut: self.name.clone(), what }
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

type Asked = Result<Output, DutError>;

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
        for file in self.files.iter().chain([&self.rules]) {
            host.write_file(file_name(file), &file.text).map_err(DutError::host(&self.name))?;
        }
        apply_sysctls(&self.name, host, &self.sysctls)
    }

    fn start(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let line = format!(
            "exec {} fw run -f {} --foreground >{LOG} 2>&1",
            quote(&self.program()?),
            quote(file_name(&self.rules))
        );
        let log = format!("{}.log", self.name);
        self.process = Some(host.spawn(&line, &log).map_err(DutError::host(&self.name))?);
        Ok(())
    }

    fn ready(&mut self, host: &dyn Host, cancel: &Cancel) -> Result<(), DutError> {
        let deadline = Instant::now() + self.ready_timeout;
        loop {
            if let Some(how) = self.ended(host)? {
                return Err(self.configuration(how));
            }
            let left = deadline.saturating_duration_since(Instant::now()).max(READY_POLL);
            let answer = match self.ask(host, &["fw", "status", "--json"], left) {
                Ok(output) if output.success() => {
                    match serde_json::from_str::<Status>(&output.stdout) {
                        Ok(Status { running: true }) => break,
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
                return Err(self.not_ready(format!(
                    "`weir fw status` still says after {}: {answer}",
                    weir_wire::units::format_duration(self.ready_timeout)
                )));
            }
            if !cancel.sleep(READY_POLL) {
                return Err(DutError::Cancelled);
            }
        }
        self.keeps_state = self.stats(host, &STATS_AND_RULES)?.keeps_state();
        Ok(())
    }

    fn keeps_flows(&self) -> bool {
        self.keeps_state
    }

    fn flows(&self, host: &dyn Host) -> Result<Option<u64>, DutError> {
        if !self.keeps_state {
            return Ok(None);
        }
        Ok(Some(self.stats(host, &STATS)?.states.current_count))
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
        let limit = self.stats(host, &STATS)?.states.limit_count;
        Ok(Some(format!("`set limit states` is {limit}")))
    }

    fn counters(&self, host: &dyn Host) -> Result<Counters, DutError> {
        let mut counters = host.stack_counters().map_err(DutError::host(&self.name))?;
        let stats = self.stats(host, &STATS_AND_RULES)?;
        self.drops.borrow_mut().extend(stats.drops.iter().map(drop_counter));
        counters.insert(SOURCE.to_owned(), stats.counters());
        Ok(counters)
    }

    fn drops(&self) -> Vec<DropRule> {
        let rule = |counter: &String| {
            let name = format!("weir-fw {counter}");
            let counters = Selection::new(SOURCE, &[counter]);
            DropRule::new(&name, "dut_received", Place::Dut, counters)
        };
        let mut rules = stack_drops();
        rules.extend(self.drops.borrow().iter().map(rule));
        rules
    }

    fn names_drops_of(&self) -> &'static [&'static str] {
        &[XDP_DROPS]
    }

    fn is_opaque(&self) -> bool {
        false
    }

    fn levels(&self, host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        let states = self.stats(host, &STATS)?.states;
        Ok([
            ("states", states.current_count),
            ("state_limit", states.limit_count),
            ("index_buckets", states.bucket_count),
            ("index_size_bytes", states.index_bytes),
            ("table_size_bytes", states.table_bytes),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
    }

    fn took_effect(&mut self, host: &dyn Host, run: &Counters) -> Result<Vec<Check>, DutError> {
        let mut checks = check_sysctls(&self.name, host, &self.sysctls)?;
        let ended = self.ended(host)?;
        checks.push(Check {
            name: "dut-alive".to_owned(),
            passed: ended.is_none(),
            detail: ended.unwrap_or_else(|| "`weir fw run` runs".to_owned()),
        });
        let stats = self.stats(host, &STATS_AND_RULES)?;
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
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        // Programs stay behind when the process ends; this takes them off and ends it. Whether it
        // worked shows in the next line: what still runs is ended, and the namespace goes.
        drop(self.ask(host, &STOP, STOP_TIMEOUT));
        process.stop(STOP_PATIENCE).map_err(DutError::host(&self.name))
    }
}

#[cfg(test)]
mod tests;

//! The testbed against machines that are formulas: what was sent is in a world that they share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_machine::host::{Ended, HostError, LineSink, Output, Process};
use weir_results::counters::{Counters, DropRule, Selection};
use weir_results::record::VerdictKind;
use weir_results::{unit::Unit, verdict};

use super::device::Device;
use super::*;
use crate::event::Silent;
use crate::plan::{self, Overrides};
use crate::runner;
use crate::spec::files::MemoryFiles;
use crate::trial::{self, Failed, Outcome, Trial};

const SPEC: &str = r#"
[campaign]
name = "c"
iterations = 2
order = "sequential"

[trial]
warmup = "50ms"
duration = "400ms"
drain = "50ms"
sample = "50ms"

[testbed]
kind = "hosts"
link_rate = "10G"

[[testbed.generator]]
name = "gen"
ssh = "root@gen"
interface = "eth1"
next_hop_mac = "02:00:00:00:00:01"
driver = "weir"

[testbed.receiver]
name = "sink"
ssh = "root@sink"
interface = "eth1"
driver = "weir"

[testbed.dut]
name = "box"
ssh = "root@box"
system = "linux"
receives = ["eth1"]
sends = ["eth2"]
reboot = "none"

[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "t"
src = "10.0.0.1:2000-10.0.0.8"
dst = "10.1.0.1:2000-10.1.0.16"
rate = "1Mpps"
"#;

mod nights;

/// What happens, and what has happened.
#[derive(Debug, Default)]
struct World {
    sent: AtomicU64,
    /// What the DUT forwards of 100 packets.
    forwards_percent: AtomicU64,
    /// The receiver sees nothing of it.
    blind: AtomicBool,
    /// The generator dies after so many packets; 0: never.
    dies_after: AtomicU64,
    /// Machines that do not answer.
    silent: Mutex<Vec<String>>,
    /// The generator ends without a word.
    mute: AtomicBool,
    /// How far the receiver's clock jumps once 10,000 packets were sent; negative: back.
    clock_jump_s: AtomicI64,
    /// The DUT is gone once so many packets were sent; 0: never.
    gone_after: AtomicU64,
    /// How many installations fail.
    bad_installations: AtomicU64,
    /// What the receiver's interface misses of 100 packets.
    misses_percent: AtomicU64,
    /// The machine that slows down for heat.
    hot: Mutex<&'static str>,
    asked: AtomicU64,
    commands: Mutex<Vec<String>>,
    /// What runs, by machine, and how it is killed.
    running: Mutex<Vec<(&'static str, Arc<AtomicBool>)>>,
}

impl World {
    fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    fn forwarded(&self) -> u64 {
        self.sent() * self.forwards_percent.load(Ordering::SeqCst) / 100
    }

    fn missed(&self) -> u64 {
        self.forwarded() * self.misses_percent.load(Ordering::SeqCst) / 100
    }

    /// What a line prints: the counters of the receiver, how often a CPU slowed down, a link.
    fn printed(&self, machine: &str, line: &str) -> String {
        if machine == "sink" && line.contains("/statistics/") {
            let dir = "/sys/class/net/eth1/statistics";
            let (packets, missed) = (self.forwarded() - self.missed(), self.missed());
            return format!(
                "== eth1\n{dir}/rx_packets:{packets}\n{dir}/rx_missed_errors:{missed}\n"
            );
        }
        if line.contains("thermal_throttle") {
            let hot = *self.hot.lock().unwrap() == machine;
            let count = if hot { self.asked.fetch_add(1, Ordering::SeqCst) } else { 7 };
            let dir = "/sys/devices/system/cpu/cpu0/thermal_throttle";
            return format!("{dir}/core_throttle_count:{count}\n");
        }
        "eth1: <UP>\n".to_owned()
    }

    fn ran(&self, part: &str) -> usize {
        self.commands.lock().unwrap().iter().filter(|c| c.contains(part)).count()
    }
}

struct Formula {
    name: &'static str,
    world: Arc<World>,
}

impl Formula {
    fn answers(&self) -> Result<(), HostError> {
        let gone = self.world.gone_after.load(Ordering::SeqCst);
        let silent = self.world.silent.lock().unwrap();
        let silent = silent.iter().any(|name| name.split(" until").next() == Some(self.name));
        if silent || self.name == "box" && gone > 0 && self.world.sent() >= gone {
            return Err(HostError::gone(self.name, "connection timed out"));
        }
        Ok(())
    }
}

impl Host for Formula {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        self.answers()?;
        let line = match command.program {
            Program::Shell(line) => line.to_owned(),
            Program::Arguments(argv) => argv.join(" "),
        };
        let is_check = line.contains("is-running");
        let installed = self.world.ran("install-it") > 0;
        self.world.commands.lock().unwrap().push(format!("{}: {line}", self.name));
        if line.contains("pkill") {
            let running = self.world.running.lock().unwrap();
            let here = running.iter().filter(|(machine, _)| *machine == self.name);
            here.for_each(|(_, killed)| killed.store(true, Ordering::SeqCst));
        }
        let exit_code = Some(i32::from(is_check && !installed));
        let stdout = self.world.printed(self.name, &line);
        Ok(Output { exit_code, stdout, stderr: String::new() })
    }

    fn spawn(&self, _shell: &str, _log: &str) -> Result<Box<dyn Process>, HostError> {
        Err(HostError::new(self.name, "nothing is started here"))
    }

    fn spawn_lines(
        &self,
        shell: &str,
        log: &str,
        mut lines: LineSink,
    ) -> Result<Box<dyn Process>, HostError> {
        self.answers()?;
        self.world.commands.lock().unwrap().push(format!("{} ({log}): {shell}", self.name));
        let (world, stop) = (Arc::clone(&self.world), Arc::new(AtomicBool::new(false)));
        let (asked, killed) = (Arc::clone(&stop), Arc::new(AtomicBool::new(false)));
        self.world.running.lock().unwrap().push((self.name, Arc::clone(&killed)));
        // What reads the machines' sensors meanwhile is nobody's clock.
        let (sends, jumps) = (shell.contains(" gen "), shell.contains(" sink "));
        let limit = shell.split_once("--count ").map(|(_, n)| n.parse::<u64>().expect("a count"));
        let limit = limit.filter(|limit| *limit > 0);
        let thread = std::thread::spawn(move || match sends {
            true => generate(&world, limit, [&asked, &killed], &mut lines),
            false => receive(&world, jumps, [&asked, &killed], &mut lines),
        });
        Ok(Box::new(Running { thread: Some(thread), stop }))
    }

    fn write_file(&self, name: &str, _content: &str) -> Result<String, HostError> {
        self.answers().map(|()| name.to_owned())
    }

    fn set_sysctl(&self, _name: &str, _value: &str) -> Result<String, HostError> {
        self.answers().map(|()| "1".to_owned())
    }

    fn sysctl(&self, _name: &str) -> Result<String, HostError> {
        self.answers().map(|()| "1".to_owned())
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        self.answers().map(|()| BTreeMap::new())
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        // The stack carries the connection that these commands come over, too.
        let managed = self.world.asked.fetch_add(1000, Ordering::SeqCst);
        let values = [
            ("Ip.ForwDatagrams".to_owned(), self.world.forwarded()),
            ("Ip.InDelivers".to_owned(), managed),
        ];
        let values = BTreeMap::from(values);
        self.answers().map(|()| Counters::from([("ip".to_owned(), values)]))
    }

    fn fresh(&self) -> Result<(), HostError> {
        let mut silent = self.world.silent.lock().unwrap();
        silent.retain(|name| name.strip_suffix(" until its reset") != Some(self.name));
        drop(silent);
        self.answers()
    }

    fn take_log(&self) -> String {
        format!("a command of {}\n", self.name)
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

/// Sends 500,000 packets a second, makes up for moments in which it did not run, and says so. Who
/// asks is told the total, who kills is not.
fn generate(
    world: &World,
    limit: Option<u64>,
    [asked, killed]: [&AtomicBool; 2],
    lines: &mut LineSink,
) -> Result<(), String> {
    let (started, mut sent) = (std::time::Instant::now(), 0);
    let mut tick = |kind: &str, sent: u64| {
        let time = if kind == "second" { "t_ns" } else { "duration_ns" };
        lines(&format!(
            "{{\"kind\":\"{kind}\",\"{time}\":{},\"offered_packets\":{sent},\
             \"accepted_packets\":{sent}}}",
            sent + 1
        ));
    };
    while !asked.load(Ordering::SeqCst) && limit.is_none_or(|limit| sent < limit) {
        let due = 1_000 + u64::try_from(started.elapsed().as_micros()).expect("short") / 2;
        let step = limit.map_or(due, |limit| limit.min(due)) - sent;
        sent += step;
        world.sent.fetch_add(step, Ordering::SeqCst);
        tick("second", sent);
        let dies = world.dies_after.load(Ordering::SeqCst);
        if dies > 0 && world.sent() >= dies {
            lines("ouch, thread 0 exited with error");
            return Err("exit code 1".to_owned());
        }
        if killed.load(Ordering::SeqCst) {
            return Err("killed by signal 15".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if !world.mute.load(Ordering::SeqCst) {
        tick("result", sent);
    }
    Ok(())
}

fn receive(
    world: &World,
    jumps: bool,
    [asked, killed]: [&AtomicBool; 2],
    lines: &mut LineSink,
) -> Result<(), String> {
    let (started, mut set_ns) = (std::time::Instant::now(), 10_000_000_000_i64);
    let mut shown = 0;
    while !asked.load(Ordering::SeqCst) {
        if killed.load(Ordering::SeqCst) {
            return Err("killed by signal 15".to_owned());
        }
        let blind = world.blind.load(Ordering::SeqCst);
        let packets = if blind { 0 } else { world.forwarded() - world.missed() };
        // A jump before the first line is none that anybody could see.
        if jumps && shown >= 2 && world.sent() >= 10_000 {
            set_ns += world.clock_jump_s.swap(0, Ordering::SeqCst) * 1_000_000_000;
        }
        let time_ns = i64::try_from(started.elapsed().as_nanos()).expect("short") + set_ns;
        lines(&format!(
            "{{\"kind\":\"interval\",\"duration_ns\":{time_ns},\"packets\":{packets},\
             \"bytes\":{},\"foreign_packets\":3}}",
            packets * 60
        ));
        shown += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

struct Running {
    thread: Option<std::thread::JoinHandle<Result<(), String>>>,
    stop: Arc<AtomicBool>,
}

impl Process for Running {
    fn ended(&mut self) -> Result<Option<Ended>, HostError> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(None);
        }
        let result = self.thread.take().map_or(Ok(()), |thread| thread.join().expect("no panic"));
        let how = result.clone().err().unwrap_or_else(|| "exit code 0".to_owned());
        Ok(Some(Ended { success: result.is_ok(), how }))
    }

    fn signal(&mut self, _signal: &str) -> Result<(), HostError> {
        self.stop.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn stop(&mut self, _patience: Duration) -> Result<(), HostError> {
        self.stop.store(true, Ordering::SeqCst);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// The DUT, and whether what leaves it is counted.
struct Box0(Formula, bool);

impl Device for Box0 {
    fn host(&self) -> &dyn Host {
        &self.0
    }

    fn counters(&self) -> Result<Counters, HostError> {
        self.0.answers()?;
        let one = |name: &str, value| BTreeMap::from([(name.to_owned(), value)]);
        let world = &self.0.world;
        Ok(Counters::from([
            ("eth1".to_owned(), one("rx_packets", world.sent())),
            ("eth2".to_owned(), one("tx_packets", world.forwarded())),
        ]))
    }

    fn interfaces(&self) -> Result<Vec<String>, HostError> {
        Ok(["eth1", "eth2"].map(str::to_owned).to_vec())
    }

    fn received(&self) -> Option<Selection> {
        Some(Selection::new("eth1", &["rx_packets"]))
    }

    fn forwarded(&self) -> Option<Selection> {
        self.1.then(|| Selection::new("eth2", &["tx_packets"]))
    }

    fn drops(&self) -> Vec<DropRule> {
        Vec::new()
    }

    fn online(&self) -> Result<(), HostError> {
        self.0.answers()
    }

    fn environment(&self) -> Value {
        Value::Null
    }

    fn feed(&self, line: &str, _file: &Path, _timeout: Duration) -> Result<Output, HostError> {
        let world = &self.0.world;
        let bad = world.bad_installations.load(Ordering::SeqCst);
        if bad > 0 {
            world.bad_installations.store(bad - 1, Ordering::SeqCst);
            world.commands.lock().unwrap().push("fed in vain".to_owned());
            let stderr = "upgrade: slice is busy".to_owned();
            return Ok(Output { exit_code: Some(1), stdout: String::new(), stderr });
        }
        world.commands.lock().unwrap().push(format!("fed: {line}"));
        Ok(Output { exit_code: Some(0), stdout: String::new(), stderr: String::new() })
    }
}

struct Lab {
    world: Arc<World>,
    plan: Plan,
    testbed: HostsTestbed,
}

fn lab_of(text: &str) -> Lab {
    let loaded = plan::from_text(
        Path::new("lab.toml"),
        text,
        &MemoryFiles::default(),
        &Overrides::default(),
    );
    let (plan, _) = loaded.expect("a good specification");
    let world = Arc::new(World::default());
    world.forwards_percent.store(100, Ordering::SeqCst);
    let names = ["gen", "gen2", "sink", "manager"];
    let hosts =
        names.map(|name| -> Rc<dyn Host> { Rc::new(Formula { name, world: Arc::clone(&world) }) });
    let host =
        |name: &str| Rc::clone(hosts.iter().find(|host| host.name() == name).expect("a machine"));
    let TestbedSpec::Hosts(spec) = &plan.testbed else { panic!("not hosts") };
    let dut = Formula { name: "box", world: Arc::clone(&world) };
    let parts = Parts {
        spec: HostsSpec::clone(spec),
        generators: spec.generators.iter().map(|end| host(&end.remote.name)).collect(),
        receiver: host(&spec.receiver.remote.name),
        device: Box::new(Box0(dut, !spec.dut.sends.is_empty())),
        reference: None,
        manager: host("manager"),
        total_patience: Duration::from_secs(1),
    };
    let (parts, cancel) = (Rc::new(parts), Cancel::default());
    let testbed = HostsTestbed::with(parts, &plan, Path::new(""), &cancel);
    Lab { world, plan, testbed }
}

const IMAGE: &str = "[[image]]\nname = \"v1\"\nfile = \"v1.img\"\ninstall = \"install-it\"\n\
                     check = \"is-running\"\n\n[[dut]]";

fn lab() -> Lab {
    lab_of(SPEC)
}

impl Lab {
    fn run(&self) -> Result<Outcome, Failed> {
        let series = &self.plan.series[0];
        self.testbed.prepare(series, &self.plan.testbed).expect("it is of that kind");
        let trial = Trial {
            testbed: &self.testbed,
            dut: Some(crate::dut::driver(&series.dut)),
            turns: None,
            traffic: &series.traffic,
            times: self.plan.trial,
            packet_limit: None,
            cancel: &Cancel::default(),
            observer: &mut Silent,
        };
        let second = Duration::from_secs(1);
        trial::run_within(trial, trial::Patience { probe: second, burst: second })
    }

    fn judged(&self) -> weir_results::record::Verdict {
        let outcome = self.run().expect("the campaign goes on");
        runner::judge(&outcome, verdict::Path::LineRate(14.88e6), Unit::Pps)
    }
}

#[test]
fn a_trial_counts_from_the_generator_to_the_receiver() {
    let lab = lab();
    let outcome = lab.run().unwrap();
    assert_eq!(outcome.not_measured, None);
    let points: Vec<&str> = outcome.ledger.points.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(points, ["offered", "accepted", "dut_received", "dut_forwarded", "delivered"]);
    let offered = outcome.ledger.points[0].packets;
    assert!(outcome.ledger.points.iter().all(|p| p.packets == offered), "{:?}", outcome.ledger);
    assert!(offered > 10_000 && outcome.result.sample_count >= 10, "{:?}", outcome.result);
    assert!(outcome.result.offered_pps > 0.0);
    let verdict = runner::judge(&outcome, verdict::Path::LineRate(14.88e6), Unit::Pps);
    assert_eq!(verdict.kind, VerdictKind::GeneratorBound, "{}", verdict.reason);
    for host in ["box", "gen", "sink", "manager"] {
        assert!(outcome.host_log.contains(&format!("a command of {host}")), "{host}");
    }
}

#[test]
fn what_the_dut_does_not_forward_is_its_loss() {
    let lab = lab();
    lab.world.forwards_percent.store(50, Ordering::SeqCst);
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::DutBound, "{}", verdict.reason);
    assert!(verdict.reason.contains("`inside_the_dut`"), "{}", verdict.reason);
    assert!(verdict.reason.contains("of the line rate"), "{}", verdict.reason);
}

#[test]
fn a_receiver_that_shows_zero_is_named_with_what_to_look_at() {
    let lab = lab();
    lab.world.blind.store(true, Ordering::SeqCst);
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    let reason = &verdict.reason;
    assert!(reason.contains("`dut_forwarded`"), "{reason}");
    assert!(reason.contains("receiver sink shows zero packets"), "{reason}");
    assert!(reason.contains("eth1"), "{reason}");
}

#[test]
fn a_generator_that_crashes_voids_its_trial_and_tells_its_last_words() {
    let lab = lab();
    lab.world.dies_after.store(20_000, Ordering::SeqCst);
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    let reason = &verdict.reason;
    assert!(reason.contains("generator gen"), "{reason}");
    assert!(reason.contains("exit code 1") && reason.contains("ouch"), "{reason}");
    assert!(reason.contains("generator-gen-2.log among the artefacts"), "{reason}");
    // The next trial runs.
    lab.world.dies_after.store(0, Ordering::SeqCst);
    assert_eq!(lab.judged().kind, VerdictKind::GeneratorBound);
}

#[test]
fn a_generator_without_a_total_voids_its_trial() {
    let lab = lab();
    let mute = Arc::clone(&lab.world);
    // Its probe sums up, its measurement does not.
    let watch = std::thread::spawn(move || {
        while mute.sent() < 10_000 {
            std::thread::yield_now();
        }
        mute.mute.store(true, Ordering::SeqCst);
    });
    let verdict = lab.judged();
    watch.join().expect("no panic");
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    let reason = &verdict.reason;
    assert!(reason.contains("generator gen") && reason.contains("without its total"), "{reason}");
}

#[test]
fn a_dut_that_is_gone_voids_its_trial() {
    let lab = lab();
    lab.world.gone_after.store(20_000, Ordering::SeqCst);
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert!(verdict.reason.contains("DUT gone"), "{}", verdict.reason);
    assert!(verdict.reason.contains("box"), "{}", verdict.reason);
}

#[test]
fn a_machine_of_the_path_that_is_gone_ends_the_campaign_unmarked() {
    let lab = lab();
    lab.world.silent.lock().unwrap().push("gen".to_owned());
    let failed = lab.run().expect_err("no trial can run");
    let error = failed.to_string();
    assert!(error.contains("generator gen does not answer"), "{error}");
    assert!(error.contains("weir lab resume"), "{error}");
    assert!(failed.traces.host_log.contains("a command of box"), "{:?}", failed.traces);
}

#[test]
fn a_suspended_manager_voids_the_trial() {
    let mut lab = lab();
    let calls = Cell::new(0_u64);
    lab.testbed.clocks = Box::new(move || {
        calls.set(calls.get() + 1);
        let monotonic = Duration::from_secs(calls.get());
        // Nothing of the second trial's seconds but these was lived through.
        let asleep = Duration::from_secs(if calls.get() == 4 { 35 } else { 0 });
        Clocks { boot: monotonic + asleep, monotonic }
    });
    assert_eq!(lab.judged().kind, VerdictKind::GeneratorBound);
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert!(verdict.reason.contains("suspended for 35.0 s"), "{}", verdict.reason);
    assert!(verdict.reason.contains("systemd-inhibit"), "{}", verdict.reason);
}

#[test]
fn a_clock_that_jumps_on_the_receiver_voids_the_trial_and_is_named() {
    for (seconds, expected) in [(3_600, "jumped: 36"), (-5, "its clock went back")] {
        let lab = lab();
        lab.world.clock_jump_s.store(seconds, Ordering::SeqCst);
        let verdict = lab.judged();
        let left_s = lab.world.clock_jump_s.load(Ordering::SeqCst);
        assert_eq!(verdict.kind, VerdictKind::Invalid, "{seconds}, {left_s}: {}", verdict.reason);
        let reason = &verdict.reason;
        assert!(reason.contains("receiver sink") && reason.contains(expected), "{reason}");
        // The next trial runs.
        assert_eq!(lab.judged().kind, VerdictKind::GeneratorBound);
    }
}

/// The specification with a second generator on this machine.
fn with_second(machine: &str) -> String {
    let second = format!(
        "[[testbed.generator]]\nname = \"{machine}\"\nssh = \"root@{machine}\"\n\
         interface = \"eth1\"\nnext_hop_mac = \"02:00:00:00:00:01\"\ndriver = \"weir\"\n\n\
         [testbed.receiver]"
    );
    SPEC.replace("[testbed.receiver]", &second)
}

#[test]
fn generators_share_rate_and_packets() {
    let lab = lab_of(&with_second("gen2"));
    let outcome = lab.run().unwrap();
    assert_eq!(outcome.not_measured, None);
    // Ten packets of the probe, and half of a million a second each.
    assert!(lab.world.ran("-gen-2.log): exec weir gen") == 1 && lab.world.ran("--count 5") >= 4);
    assert!(lab.world.ran("-gen2-2.log): exec weir gen") == 1);
    assert_eq!(lab.world.ran("--rate 500kpps"), 2);
    let offered = outcome.ledger.points[0].packets;
    assert_eq!(outcome.ledger.point("delivered"), Some(offered));
}

#[test]
fn generators_of_one_machine_have_counters_and_artefacts_of_their_own() {
    let lab = lab_of(&with_second("gen"));
    let outcome = lab.run().unwrap();
    assert_eq!(outcome.not_measured, None);
    let counted = &outcome.counters["generator"];
    let of = |name: &str| counted[&format!("{name} offered_packets")];
    assert!(of("gen") > 0 && of("gen+2") > 0, "{counted:?}");
    assert_eq!(of("gen") + of("gen+2"), counted["offered_packets"]);
    for log in ["gen (generator-gen-2.log): ", "gen (generator-gen+2-2.log): "] {
        assert_eq!(lab.world.ran(log), 1, "{log}");
    }
}

#[test]
fn a_line_that_kills_every_program_of_its_machine_costs_no_total() {
    // Two senders and the receiver on one machine, as a bench-lab.config has them.
    let stops =
        |text: &str| text.replace("driver = \"weir\"", "driver = \"weir\"\nstop = \"pkill weir\"");
    let one = stops(&with_second("gen")).replace("sink\"", "gen\"");
    let lab = lab_of(&one);
    for trials in 1..=2 {
        let verdict = lab.judged();
        assert_eq!(verdict.kind, VerdictKind::GeneratorBound, "{}", verdict.reason);
        // Once for all, when nothing runs that it could hit.
        assert_eq!(lab.world.ran("gen: pkill weir"), trials);
    }
}

#[test]
fn commands_that_are_stopped_by_one_line_do_not_count_as_dead() {
    let command = "driver = \"command\"\nstart = \"my gen --count ${count}\"\n\
                   stop = \"pkill my\"\npackets = '\"offered_packets\":([0-9]+)'";
    let (generators, rest) =
        with_second("gen").split_once("[testbed.receiver]").map(owned).unwrap();
    let generators = generators.replace("driver = \"weir\"", command);
    let lab = lab_of(&format!("{generators}[testbed.receiver]{rest}"));
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::GeneratorBound, "{}", verdict.reason);
    assert!(lab.world.ran("gen: pkill my") >= 2);
}

fn owned((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn what_the_receivers_interface_missed_is_not_the_duts_loss() {
    let uncounted = SPEC.replace("sends = [\"eth2\"]\n", "");
    let opaque = uncounted.replace("kind = \"linux\"\n\n", "kind = \"generic\"\n\n");
    assert_ne!(opaque, uncounted);
    for text in [SPEC, &uncounted, &opaque] {
        let lab = lab_of(text);
        lab.world.misses_percent.store(40, Ordering::SeqCst);
        let verdict = lab.judged();
        assert_eq!(verdict.kind, VerdictKind::SinkBound, "{}", verdict.reason);
    }
    for text in [&uncounted, &opaque] {
        let lab = lab_of(text);
        assert!(lab.testbed.warnings().iter().any(|warning| warning.contains("`sends`")));
        lab.world.forwards_percent.store(50, Ordering::SeqCst);
        let verdict = lab.judged();
        assert_eq!(verdict.kind, VerdictKind::DutBound, "{}", verdict.reason);
        assert!(verdict.reason.contains("`not_delivered`"), "{}", verdict.reason);
    }
    assert!(!lab().testbed.warnings().iter().any(|warning| warning.contains("`sends`")));
}

#[test]
fn a_machine_that_slows_down_is_found_beside_a_dut_that_shows_nothing() {
    let text = SPEC.replace("system = \"linux\"", "system = \"generic\"");
    let lab = lab_of(&text.replace("kind = \"linux\"\n\n", "kind = \"generic\"\n\n"));
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::GeneratorBound, "{}", verdict.reason);
    *lab.world.hot.lock().unwrap() = "gen";
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    assert!(verdict.reason.contains("gen slowed down: cpu0/"), "{}", verdict.reason);
}

#[test]
fn an_image_is_installed_once_and_checked() {
    let lab = lab_of(&SPEC.replace("[[dut]]", IMAGE));
    assert_eq!(lab.plan.series[0].name, "v1.linux.t");
    // The image that the file's command was fed with does not run: nothing says so.
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::GeneratorBound, "{}", verdict.reason);
    assert_eq!((lab.world.ran("fed: install-it"), lab.world.ran("is-running")), (1, 2));
    lab.judged();
    assert_eq!(lab.world.ran("fed: install-it"), 1);
}

#[test]
fn an_image_that_cannot_be_installed_voids_its_cells_and_is_tried_twice_a_block() {
    let mut lab = lab_of(&SPEC.replace("[[dut]]", IMAGE));
    lab.world.bad_installations.store(5, Ordering::SeqCst);
    let judged = |lab: &Lab, parts: &[&str]| {
        let verdict = lab.judged();
        assert_eq!(verdict.kind, VerdictKind::Invalid);
        for part in parts {
            assert!(verdict.reason.contains(part), "{part:?} is not in: {}", verdict.reason);
        }
    };
    let why = "installing image v1 on DUT box: `install-it`: exit code 1; it says: upgrade: slice";
    judged(&lab, &[why, "correct `install`", "the next cell tries again"]);
    for _ in 0..2 {
        judged(&lab, &[why, "tried 2 times", "weir lab resume"]);
    }
    assert_eq!(lab.world.ran("fed in vain"), 2);
    // A resumed campaign tries it anew.
    let parts = Rc::clone(&lab.testbed.parts);
    lab.testbed = HostsTestbed::with(parts, &lab.plan, Path::new(""), &Cancel::default());
    judged(&lab, &[why, "the next cell tries again"]);
    assert_eq!(lab.world.ran("fed in vain"), 3);
    // And so does another block of the same one.
    judged(&lab, &[why]);
    let other = Series { image: Some("v2".to_owned()), ..lab.plan.series[0].clone() };
    lab.testbed.images.push(Image { name: "v2".to_owned(), ..lab.testbed.images[0].clone() });
    lab.testbed.prepare(&other, &lab.plan.testbed).expect("it is of that kind");
    assert!(lab.testbed.image().is_err());
    assert_eq!(lab.world.ran("fed in vain"), 5);
    assert_ne!(lab.judged().kind, VerdictKind::Invalid);
}

#[test]
fn an_installation_that_failed_once_is_mended_by_the_next_cell() {
    let lab = lab_of(&SPEC.replace("[[dut]]", IMAGE));
    lab.world.bad_installations.store(1, Ordering::SeqCst);
    let outcome = lab.run().expect("the campaign goes on");
    assert!(outcome.not_measured.is_some());
    assert!(outcome.host_log.contains("a command of box"), "{:?}", outcome.host_log);
    let verdict = lab.judged();
    assert_ne!(verdict.kind, VerdictKind::Invalid, "{}", verdict.reason);
    assert_eq!((lab.world.ran("fed in vain"), lab.world.ran("fed: install-it")), (1, 1));
}

#[test]
fn an_image_that_does_not_run_and_cannot_be_installed_is_told() {
    let image = "[[image]]\nname = \"v1\"\ncheck = \"is-running\"\n\n[[dut]]";
    let lab = lab_of(&SPEC.replace("[[dut]]", image));
    let verdict = lab.judged();
    assert_eq!(verdict.kind, VerdictKind::Invalid);
    for part in ["image v1 does not run on DUT box", "`is-running` fails", "`install`"] {
        assert!(verdict.reason.contains(part), "{part:?} is not in: {}", verdict.reason);
    }
}

#[test]
fn the_table_has_a_row_for_everything_that_a_trial_needs() {
    let lab = lab();
    let rows = lab.testbed.look();
    assert!(rows.iter().all(|row| row.passed), "{rows:?}");
    let seen: Vec<String> =
        rows.iter().map(|row| format!("{} {} {}", row.role, row.machine, row.what)).collect();
    assert_eq!(
        seen,
        [
            "generator gen ssh",
            "generator gen program",
            "generator gen interface",
            "receiver sink ssh",
            "receiver sink program",
            "receiver sink interface",
            "dut box ssh",
            "dut box online",
            "dut box interface",
            "dut box interface",
            "dut box counters",
        ]
    );
    lab.world.silent.lock().unwrap().push("sink".to_owned());
    let rows = lab.testbed.look();
    let failed: Vec<_> = rows.iter().filter(|row| !row.passed).collect();
    assert_eq!(failed.len(), 1, "what is not reached is not looked at further: {rows:?}");
    assert_eq!(
        (failed[0].machine.as_str(), failed[0].detail.as_str()),
        ("sink", "connection timed out")
    );
}

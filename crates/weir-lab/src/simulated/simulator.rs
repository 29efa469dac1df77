//! A testbed without packets: capacity, losses and failures are scripted, and every call is
//! written down. It never looks at the real clock for its counters, so figures are exact.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use weir_machine::host::{Command, Host, HostError, Output, Process, Program};
use weir_results::counters::{Counters, DropRule, Place, PointRule, Selection};
use weir_results::machine_use::{CpuUse, MachineUse};
use weir_results::record::{Check, Delays};
use weir_results::traffic::Traffic;
use weir_wire::units::Rate;

use crate::testbed::{
    Accounting, Burst, DirectionRules, Machines, Observed, Reading, Rig, Testbed, TestbedError,
    Topology,
};

/// Packets that a burst without limit offers between two readings.
const STEP_PACKETS: u64 = 1_000;
/// Time between two readings.
const STEP_NS: u64 = 10_000_000;

/// Told of every call.
type Callback = Box<dyn FnMut(&str)>;

/// A device and a sender that are formulas: rates in packets per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formula {
    /// What the device forwards.
    pub(crate) capacity_pps: f64,
    /// Packets that it can hold beside that.
    pub(crate) buffer_packets: f64,
    /// What the generator offers at most.
    pub(crate) sender_pps: f64,
}

/// What happens, and what has happened.
#[derive(Default)]
pub(crate) struct Script {
    /// Packets are sent at the rate that is asked for, and lost above a capacity; absent: a
    /// thousand go in each step, whatever is asked for.
    pub(crate) formula: Cell<Option<Formula>>,
    /// Share of the packets, in per cent, that the DUT loses.
    pub(crate) loss_percent: Cell<u64>,
    /// The call that fails, by its name in the log.
    pub(crate) fails_at: RefCell<Option<&'static str>>,
    /// Called with each entry of the log.
    pub(crate) on_call: RefCell<Option<Callback>>,
    /// What share of its CPU something else takes.
    pub(crate) foreign_ratio: Cell<f64>,
    log: RefCell<Vec<String>>,
    count: Cell<Count>,
}

impl Script {
    fn call(&self, name: &str) -> Result<(), TestbedError> {
        self.log.borrow_mut().push(name.to_owned());
        if let Some(callback) = &mut *self.on_call.borrow_mut() {
            callback(name);
        }
        match *self.fails_at.borrow() {
            Some(failing) if failing == name => Err(TestbedError::new(format!("{name} fails"))),
            _ => Ok(()),
        }
    }

    /// The calls so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }
}

/// The testbed.
pub(crate) struct Simulator {
    pub(crate) script: Rc<Script>,
}

impl Testbed for Simulator {
    fn environment(&self) -> serde_json::Value {
        serde_json::json!({"kind": "simulated"})
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn build(&self, topology: Topology) -> Result<Box<dyn Rig>, TestbedError> {
        self.script.call("build")?;
        let script = Rc::clone(&self.script);
        let host = (topology == Topology::Dut)
            .then(|| SimHost { script: Rc::clone(&script), sysctls: RefCell::default() });
        let rate = Cell::new(Rate::Max);
        let flow = Cell::default();
        let senders = Cell::new(1);
        Ok(Box::new(SimRig { script, host, limit: Cell::default(), rate, flow, senders }))
    }
}

/// What the sink measures of latency.
const OBSERVED: Observed = Observed {
    packets: 9,
    delays: Delays {
        sample_count: 7,
        min_ns: 1,
        p50_ns: 5,
        p90_ns: 6,
        p99_ns: 7,
        p999_ns: 8,
        max_ns: 9,
    },
    directions: Vec::new(),
};

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    t_ns: u64,
    offered: u64,
    delivered: u64,
}

struct SimRig {
    script: Rc<Script>,
    host: Option<SimHost>,
    /// What is left of the burst; `None` while none runs.
    limit: Cell<Option<u64>>,
    rate: Cell<Rate>,
    flow: Cell<Flow>,
    /// Generators of the traffic: each sends the same, and the DUT loses as much of each.
    senders: Cell<u64>,
}

/// What a formula carries from one step to the next, packets.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// What is due and not sent, below one.
    due: f64,
    /// What the device can take now.
    room: f64,
}

impl SimRig {
    /// Packets of a step that are offered, and those of them that come through.
    fn flow(&self, formula: Formula, left: u64) -> (u64, u64) {
        #[expect(clippy::cast_precision_loss, reason = "a step's time")]
        let step_s = STEP_NS as f64 / 1e9;
        let rate_pps = match self.rate.get() {
            Rate::Pps(rate_pps) => rate_pps.min(formula.sender_pps),
            _ => formula.sender_pps,
        };
        let Flow { due, room } = self.flow.get();
        let due = due + rate_pps * step_s;
        let offered = whole(due).min(left);
        let gain = formula.capacity_pps * step_s;
        let room = (room + gain).min(formula.buffer_packets.max(gain + 1.0));
        let delivered = if self.host.is_some() { offered.min(whole(room)) } else { offered };
        #[expect(clippy::cast_precision_loss, reason = "a step's packets")]
        self.flow.set(Flow { due: due - whole(due) as f64, room: room - delivered as f64 });
        (offered, delivered)
    }

    /// Time goes on by one step.
    fn step(&self) {
        let mut count = self.script.count.get();
        count.t_ns += STEP_NS;
        if let (Some(left), Some(formula)) = (self.limit.get(), self.script.formula.get()) {
            let (offered, delivered) = self.flow(formula, left);
            self.limit.set(Some(left - offered));
            count.offered += offered;
            count.delivered += delivered;
        } else if let Some(left) = self.limit.get() {
            let packets = left.min(STEP_PACKETS);
            self.limit.set(Some(left - packets));
            count.offered += packets;
            let loss = if packets < STEP_PACKETS { 0 } else { self.script.loss_percent.get() };
            count.delivered += packets - packets * loss / 100;
        }
        self.script.count.set(count);
    }
}

impl Rig for SimRig {
    fn dut_host(&self) -> Option<&dyn Host> {
        self.host.as_ref().map(|h| h as &dyn Host)
    }

    fn load(&mut self, traffic: &Traffic) -> Result<(), TestbedError> {
        assert!(traffic.flow_count() > 0);
        self.senders.set(traffic.each_sender().len().try_into().expect("a few"));
        self.script.call("load")
    }

    fn start(&mut self, burst: Burst) -> Result<(), TestbedError> {
        let name = match (burst.packet_limit, burst.rate) {
            (Some(_), Rate::Pps(_)) if burst.sender > Some(0) => "send back",
            (Some(_), Rate::Pps(_)) => "send",
            (None, Rate::Pps(_)) => "send endlessly",
            (None, _) => "start",
            (Some(_), _) => "send unpaced",
        };
        self.limit.set(Some(burst.packet_limit.unwrap_or(u64::MAX)));
        self.rate.set(burst.rate);
        let room = self.script.formula.get().map_or(0.0, |formula| formula.buffer_packets);
        self.flow.set(Flow { due: 0.0, room });
        self.script.call(name)
    }

    fn finished(&self) -> bool {
        while self.limit.get().is_some_and(|left| left > 0 && left < u64::MAX / 2) {
            self.step();
        }
        true
    }

    fn stop(&mut self) -> Result<(), TestbedError> {
        self.limit.set(None);
        self.script.call("stop")
    }

    fn reading(&self) -> Result<Reading, TestbedError> {
        Ok(Reading::total(&self.readings()?))
    }

    fn readings(&self) -> Result<Vec<Reading>, TestbedError> {
        self.step();
        let count = self.script.count.get();
        let reading = Reading {
            t_ns: count.t_ns,
            rx_packets: count.delivered,
            rx_bytes: count.delivered * 60,
            tx_packets: count.offered,
        };
        Ok((0..self.senders.get()).map(|_| reading).collect())
    }

    fn counters(&self) -> Result<Counters, TestbedError> {
        self.script.call("counters")?;
        let count = self.script.count.get();
        let values: BTreeMap<String, u64> = [
            ("offered", count.offered),
            ("delivered", count.delivered),
            ("ring_full", count.offered - count.delivered),
        ]
        .map(|(n, v)| (n.to_owned(), v))
        .into();
        Ok(Counters::from([("sim".to_owned(), values)]))
    }

    fn accounting(&self) -> Accounting {
        let select = |counter| Selection::new("sim", &[counter]);
        let point = |name, counter| PointRule { name, counters: select(counter) };
        let mut points = vec![point("offered", "offered")];
        if self.host.is_some() {
            points.push(point("dut_forwarded", "delivered"));
        }
        points.push(point("delivered", "delivered"));
        let place = if self.host.is_some() { Place::Dut } else { Place::Sink };
        let drops = vec![DropRule::new("ring_full", "offered", place, select("ring_full"))];
        if self.senders.get() == 1 {
            return Accounting { points, drops, ..Accounting::default() };
        }
        let rules = |port| DirectionRules {
            name: format!("dut{port} → dut{}", port ^ 1),
            points: points.clone(),
            drops: drops.clone(),
            is_merged: false,
        };
        let directions = (0..self.senders.get()).map(rules).collect();
        Accounting { directions, ..Accounting::default() }
    }

    fn observe(&mut self) -> Result<(), TestbedError> {
        self.script.call("observe")
    }

    fn observed(&mut self) -> Result<Observed, TestbedError> {
        self.script.call("observed")?;
        let count = self.senders.get();
        let directions = (0..count).filter(|_| count > 1).map(|_| OBSERVED).collect();
        Ok(Observed { directions, ..OBSERVED })
    }

    fn checks(&self) -> Result<Vec<Check>, TestbedError> {
        self.script.call("checks")?;
        Ok(Vec::new())
    }

    fn machines(&self) -> Machines {
        let foreign_ratio = Some(self.script.foreign_ratio.get());
        let used = CpuUse { foreign_ratio, busy_ratio: 1.0, ..CpuUse::default() };
        let cpus = BTreeMap::from([(0, used)]);
        Machines { dut: Some(MachineUse { cpus, ..MachineUse::default() }), ..Machines::default() }
    }

    fn teardown(self: Box<Self>) -> Result<(), TestbedError> {
        self.script.call("teardown")
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, not negative")]
fn whole(packets: f64) -> u64 {
    (packets + 1e-6) as u64
}

/// A host that remembers settings and answers every command with success.
struct SimHost {
    script: Rc<Script>,
    sysctls: RefCell<BTreeMap<String, String>>,
}

impl SimHost {
    fn call(&self, name: &str) -> Result<(), HostError> {
        self.script.call(name).map_err(|e| HostError::new("sim", e))
    }
}

impl Host for SimHost {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn run(&self, command: &Command<'_>) -> Result<Output, HostError> {
        let name = match command.program {
            Program::Arguments(argv) => argv.join(" "),
            Program::Shell(line) => line.to_owned(),
        };
        self.call(&name)?;
        Ok(Output { exit_code: Some(0), stdout: String::new(), stderr: String::new() })
    }

    fn spawn(&self, shell: &str, _log: &str) -> Result<Box<dyn Process>, HostError> {
        Err(HostError::new("sim", format!("nothing runs here, not even `{shell}`")))
    }

    fn write_file(&self, name: &str, _content: &str) -> Result<String, HostError> {
        Ok(name.to_owned())
    }

    fn set_sysctl(&self, name: &str, value: &str) -> Result<String, HostError> {
        self.call("set_sysctl")?;
        let before = self.sysctls.borrow_mut().insert(name.to_owned(), value.to_owned());
        Ok(before.unwrap_or_else(|| "0".to_owned()))
    }

    fn sysctl(&self, name: &str) -> Result<String, HostError> {
        Ok(self.sysctls.borrow().get(name).cloned().unwrap_or_else(|| "0".to_owned()))
    }

    fn sysctls(&self) -> Result<BTreeMap<String, String>, HostError> {
        Ok(self.sysctls.borrow().clone())
    }

    fn stack_counters(&self) -> Result<Counters, HostError> {
        // The simulated kernel's own count is as good as that of its devices.
        let delivered = self.script.count.get().delivered;
        let forwarded = BTreeMap::from([("Ip.ForwDatagrams".to_owned(), delivered)]);
        Ok(Counters::from([("ip".to_owned(), forwarded)]))
    }

    fn take_log(&self) -> String {
        "a command\n".to_owned()
    }

    fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
}

/// Times so short that a simulated trial takes milliseconds.
pub(crate) const SAMPLE: Duration = Duration::from_millis(10);

//! Running a packet test against a device, and telling what is not as expected.

use std::fmt;

use crate::device::{Device, DeviceError, RuleText};
use crate::format::{PacketStep, StateExpectation, StepKind, TestFile};
use crate::outcome::{DropReason, Outcome, Sent};
use crate::reference;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::value::Direction;
use weir_rules::{Compiled, compile};

/// Something that was not as the test says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What was expected, and what was found.
    pub message: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Runs a test. After a difference it goes on, but for a device that fails.
#[must_use]
pub fn run(test: &TestFile, device: &mut dyn Device) -> Vec<Difference> {
    let mut run = Run { test, device, now_ns: 0, line: 0, differences: Vec::new() };
    if let Err(error) = run.all() {
        run.differ(format!("the device fails: {error}"));
    }
    run.differences
}

struct Run<'a> {
    test: &'a TestFile,
    device: &'a mut dyn Device,
    now_ns: u64,
    line: u32,
    differences: Vec<Difference>,
}

impl Run<'_> {
    fn differ(&mut self, message: String) {
        let (file, line) = (self.test.name.clone(), self.line);
        self.differences.push(Difference { file, line, message });
    }

    fn all(&mut self) -> Result<(), DeviceError> {
        let test = self.test;
        self.device.configure(&test.network)?;
        for step in &test.steps {
            self.line = step.line;
            self.step(&step.kind)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &StepKind) -> Result<(), DeviceError> {
        match step {
            StepKind::Load { text, is_refused } => self.load(text, *is_refused),
            StepKind::SetTime(time_ns) if *time_ns < self.now_ns => {
                self.differ("the clock cannot be put back".to_owned());
            }
            StepKind::SetTime(time_ns) => self.now_ns = *time_ns,
            StepKind::Advance(time_ns) => self.now_ns += time_ns,
            StepKind::Packet(packet) => self.packet(packet)?,
            StepKind::StateCount(expected) => {
                let found = self.device.states(self.now_ns)?;
                if found.len() as u64 != *expected {
                    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
                    let list = list.join("\n  ");
                    let count = found.len();
                    self.differ(format!("{expected} states expected, {count} found:\n  {list}"));
                }
            }
            StepKind::State(expected) => self.state(expected)?,
            StepKind::NoState(start) => {
                let found = self.device.states(self.now_ns)?;
                let found =
                    found.iter().find(|found| found.to_string().starts_with(start.as_str()));
                if let Some(found) = found {
                    self.differ(format!("a state that should not be there: {found}"));
                }
            }
            StepKind::Drops(expected) => self.drops(expected)?,
            StepKind::Inserts(expected) => {
                let found = self.device.counters(self.now_ns)?.inserts;
                self.compare("inserts", *expected, found);
            }
            StepKind::Removals(expected) => {
                let found = self.device.counters(self.now_ns)?.removals;
                self.compare("removals", *expected, found);
            }
        }
        Ok(())
    }

    fn compare(&mut self, what: &str, expected: u64, found: u64) {
        if expected != found {
            self.differ(format!("{what}: {expected} expected, {found} found"));
        }
    }

    fn load(&mut self, text: &str, is_refused: bool) {
        let compiled = self.compile(text);
        if compiled.error_count > 0 {
            let errors: Vec<String> = compiled
                .diagnostics
                .iter()
                .map(|diagnostic| diagnostic.line(&compiled.sources))
                .collect();
            self.differ(format!("the rules are wrong:\n  {}", errors.join("\n  ")));
            return;
        }
        let (name, first_line) = (&*self.test.name, self.line + 1);
        let rules = RuleText { name, first_line, text, compiled: &compiled };
        match (self.device.load(&rules), is_refused) {
            (Ok(()), true) => self.differ("the ruleset should have been refused".to_owned()),
            (Err(error), false) => self.differ(format!("the ruleset is refused: {error}")),
            _ => {}
        }
    }

    fn compile(&self, text: &str) -> Compiled {
        let input = ParseInput {
            name: &self.test.name,
            bytes: text.as_bytes(),
            dialect: self.test.dialect,
            macros: &[],
            provider: &crate::systems::files(),
            limits: Limits::default(),
        };
        compile(input, &self.test.network.facts)
    }

    fn packet(&mut self, step: &PacketStep) -> Result<(), DeviceError> {
        let packet = &step.frame.packet;
        let (direction, interface) = (packet.direction, packet.interface.clone());
        let sent = self.device.send(&step.frame.build(), direction, &interface, self.now_ns)?;
        if sent.outcome != step.outcome {
            let message = format!("`{}` expected, `{}` found", step.outcome, sent.outcome);
            self.differ(message);
            return Ok(());
        }
        if let (Some(expected), Some(found)) = (step.logged, sent.logged)
            && expected != found
        {
            let word = if found { "it is logged" } else { "it is not logged" };
            self.differ(word.to_owned());
        }
        self.ends(step, &sent);
        self.header(step, &sent);
        Ok(())
    }

    /// Where the frame comes from and goes to as it leaves, and its checksum.
    fn ends(&mut self, step: &PacketStep, sent: &Sent) {
        let is_sound = |frame: &[u8]| reference::ends(frame).is_none_or(|ends| ends.is_sound);
        // A frame that the stack gets as it came is not told.
        let came = step.frame.build();
        let frame = sent.frame.as_ref().unwrap_or(&came);
        if is_sound(&came) && !is_sound(frame) {
            self.differ("the frame that left has a wrong checksum".to_owned());
        }
        let Some(found) = reference::ends(frame) else { return };
        let [from, to] = found.ends;
        let quoted = found.quoted.map(|[from, to]| format!("{from} > {to}"));
        let about = step.about.as_ref().map(|[from, to]| format!("{from} > {to}"));
        let expected = [&step.from, &step.to, &about].into_iter();
        let found = [Some(from), Some(to), quoted];
        for (what, (expected, found)) in
            ["from", "to", "about"].into_iter().zip(expected.zip(found))
        {
            let Some(expected) = expected else { continue };
            let found = found.unwrap_or_else(|| "nothing".to_owned());
            if *expected != found {
                self.differ(format!("{what}: {expected} expected, {found} found"));
            }
        }
    }

    fn header(&mut self, step: &PacketStep, sent: &Sent) {
        let Some(frame) = sent.frame.as_ref().filter(|_| sent.outcome != Outcome::Box) else {
            return;
        };
        let Some(found) = Header::read(frame) else {
            self.differ("the frame that left has no IP header".to_owned());
            return;
        };
        let byte = |number: Option<u8>| number.map(u64::from);
        if let Some(expected) = byte(step.ttl) {
            self.compare("ttl", expected, found.ttl.into());
        }
        if let Some(expected) = byte(step.tos) {
            self.compare("tos", expected, found.tos.into());
        }
        if let Some(expected) = step.dont_fragment {
            self.compare("don't-fragment bit", expected.into(), found.dont_fragment.into());
        }
        // What the box sent was its own work.
        if !found.is_sound && step.frame.packet.direction == Direction::In {
            self.differ("the frame that left has a wrong IPv4 header checksum".to_owned());
        }
    }

    fn state(&mut self, expected: &StateExpectation) -> Result<(), DeviceError> {
        let states = self.device.states(self.now_ns)?;
        let Some(found) = states.iter().find(|state| state.line() == expected.line) else {
            let list: Vec<String> = states.iter().map(ToString::to_string).collect();
            let list = list.join("\n  ");
            self.differ(format!("no state `{}`; there are:\n  {list}", expected.line));
            return Ok(());
        };
        let is_other = expected.halves.as_ref().is_some_and(|halves| halves != found.halves())
            || expected.packets.is_some_and(|packet| packet != found.packets)
            || expected.expires_s.is_some_and(|expires_s| expires_s != found.expires_s);
        if is_other {
            self.differ(format!("the state is `{found}`"));
        }
        Ok(())
    }

    fn drops(&mut self, expected: &[(DropReason, u64)]) -> Result<(), DeviceError> {
        let found = self.device.counters(self.now_ns)?.drops;
        for reason in DropReason::ALL {
            let named = expected.iter().find(|expected| expected.0 == *reason);
            let found = found.get(reason).copied().unwrap_or(0);
            self.compare(reason.as_str(), named.map_or(0, |named| named.1), found);
        }
        Ok(())
    }
}

/// What is looked at of a frame that left.
struct Header {
    ttl: u8,
    tos: u8,
    dont_fragment: bool,
    /// The header's checksum is right, if it has one.
    is_sound: bool,
}

impl Header {
    fn read(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xa8]) {
            at += 4;
        }
        let ip = frame.get(at + 2..)?;
        match (frame.get(at..at + 2)?, ip.first()? >> 4) {
            ([0x08, 0x00], 4) if ip.len() >= 20 => {
                let header = ip.get(..usize::from(ip[0] & 15) * 4)?;
                let sum = weir_wire::checksum::ipv4_header(header);
                Some(Self {
                    ttl: ip[8],
                    tos: ip[1],
                    dont_fragment: ip[6] & 0x40 != 0,
                    is_sound: header[10..12] == sum.to_be_bytes(),
                })
            }
            ([0x86, 0xdd], 6) if ip.len() >= 40 => Some(Self {
                ttl: ip[7],
                tos: ip[0] << 4 | ip[1] >> 4,
                dont_fragment: true,
                is_sound: true,
            }),
            _ => None,
        }
    }
}

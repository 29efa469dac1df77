//! Makes a packet test on which the two devices differ as short as it can be, so that it can be
//! read, and kept.

use weir_oracle::device::{Device, DeviceError, RuleText};
use weir_oracle::format::{StepKind, TestFile};
use weir_oracle::outcome::{DropReason, Sent};
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::{Compiled, compile};

/// Where two devices differ.
struct Found {
    /// The test's line; 0 is its end.
    line: u32,
    first: String,
    second: String,
}

impl Found {
    /// Whether it may be the same fault: the same packet's fate, or something at the end.
    fn is_like(&self, other: &Self) -> bool {
        let is_same = self.first == other.first && self.second == other.second;
        (self.line == 0) == (other.line == 0) && (is_same || self.line == 0)
    }
}

fn rules(test: &TestFile, text: &str) -> Option<Compiled> {
    let input = ParseInput {
        name: &test.name,
        bytes: text.as_bytes(),
        dialect: test.dialect,
        macros: &[],
        provider: &weir_oracle::systems::files(),
        limits: Limits::default(),
    };
    let compiled = compile(input, &test.network.facts);
    (compiled.error_count == 0).then_some(compiled)
}

fn differ(one: &Sent, other: &Sent) -> Option<(String, String)> {
    let text = |sent: &Sent| {
        format!("{} logged: {:?} copied: {:?}", sent.outcome, sent.logged, sent.copied)
    };
    if one.outcome != other.outcome || one.logged != other.logged {
        return Some((text(one), text(other)));
    }
    let (first, second) = (one.frame.as_ref()?.get(12..), other.frame.as_ref()?.get(12..));
    (first != second).then(|| (format!("{first:02x?}"), format!("{second:02x?}")))
}

/// States and counters as text.
pub(crate) fn state_text(device: &mut dyn Device, now_ns: u64) -> Result<String, DeviceError> {
    let mut lines: Vec<String> = device.states(now_ns)?.iter().map(ToString::to_string).collect();
    lines.sort();
    let counters = device.counters(now_ns)?;
    for reason in DropReason::ALL {
        let count = counters.drops.get(reason).copied().unwrap_or(0);
        if count != 0 {
            lines.push(format!("dropped {reason}: {count}"));
        }
    }
    lines.push(format!("inserts {} removals {}", counters.inserts, counters.removals));
    Ok(lines.join("\n"))
}

/// The first difference; `None` if there is none, or the test is none any more.
fn difference(text: &str, first: &mut dyn Device, second: &mut dyn Device) -> Option<Found> {
    let test = TestFile::parse("found", text).ok()?;
    first.configure(&test.network).ok()?;
    second.configure(&test.network).ok()?;
    let mut now_ns = 0;
    for step in &test.steps {
        match &step.kind {
            StepKind::Load { text, .. } => {
                let compiled = rules(&test, text)?;
                let first_line = step.line + 1;
                let rules = RuleText { name: "found", first_line, text, compiled: &compiled };
                first.load(&rules).ok()?;
                second.load(&rules).ok()?;
            }
            StepKind::SetTime(time_ns) => now_ns = *time_ns,
            StepKind::Advance(time_ns) => now_ns += time_ns,
            StepKind::Packet(packet) => {
                let (frame, described) = (packet.frame.build(), &packet.frame.packet);
                let other =
                    second.send(&frame, described.direction, &described.interface, now_ns).ok()?;
                first.choose_as(&other, second.states(now_ns).ok()?);
                let one =
                    first.send(&frame, described.direction, &described.interface, now_ns).ok()?;
                first.states(now_ns).ok()?;
                if let Some((first, second)) = differ(&one, &other) {
                    return Some(Found { line: step.line, first, second });
                }
            }
            _ => {}
        }
    }
    let (one, other) = (state_text(first, now_ns).ok()?, state_text(second, now_ns).ok()?);
    (one != other).then_some(Found { line: 0, first: one, second: other })
}

/// Leaves out what is not needed for a difference, line by line.
pub(crate) fn minimise(text: &str, first: &mut dyn Device, second: &mut dyn Device) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let mut found = difference(&lines.join("\n"), first, second);
    let mut before = lines.len() + 1;
    while lines.len() < before {
        before = lines.len();
        for at in (0..lines.len()).rev() {
            let mut shorter = lines.clone();
            shorter.remove(at);
            let still = difference(&shorter.join("\n"), first, second);
            let Some(still) = still else { continue };
            if found.as_ref().is_some_and(|found| found.is_like(&still)) {
                (lines, found) = (shorter, Some(still));
            }
        }
    }
    let difference = found.map_or_else(
        || "no difference when it is run again".to_owned(),
        |left| format!("line {}:\n  first: {}\n  second: {}", left.line, left.first, left.second),
    );
    format!("{}\n{difference}", lines.join("\n"))
}

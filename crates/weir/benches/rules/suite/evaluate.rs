//! The reference evaluator: packets per second over rulesets without `quick`, so that every packet
//! meets every rule.

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use weir_machine::cancel::Cancel;
use weir_rules::evaluate::packet::SYN;
use weir_rules::evaluate::{AllRouted, Decision, Evaluator, Moment, NoStates, Packet};
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;
use weir_rules::value::Direction;
use weir_rules::{Compiled, Dialect};
use weir_wire::protocol::{TCP, UDP};

use super::{Result, Samples, Settings, rows, ruleset};

/// Packets that are asked about, in turns.
const PACKET_COUNT: u32 = 4096;
/// Packets between two looks at the clock.
const BATCH: usize = 256;
/// Entries of the table that a fifth of the rules look into.
const ENTRY_COUNT: u32 = 10_000;

/// Measures both rulesets, once a round.
pub(super) fn measure(
    settings: &Settings,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
    samples: &mut Samples,
) -> Result<()> {
    for (row, rule_count) in [(rows::EVALUATE_100, 100), (rows::EVALUATE_10000, 10_000)] {
        if !settings.wants(&[row]) {
            continue;
        }
        let facts = Facts::parse(ruleset::FACTS).map_err(|error| error.message)?;
        let compiled = compiled(rule_count, &facts)?;
        let evaluator = Evaluator::new(&compiled.ruleset, &[], &facts)?;
        let packets = packets(rule_count);
        for round in 1..=settings.repeats {
            if cancel.signal().is_some() {
                return Err("interrupted".into());
            }
            let rate_pps = rate_pps(&evaluator, &packets, settings.sample)?;
            say(&format!("{row}, {round} of {}: {rate_pps:.0} pps", settings.repeats));
            samples.entry(row).or_default().push(rate_pps);
        }
    }
    Ok(())
}

fn compiled(rule_count: u32, facts: &Facts) -> Result<Compiled> {
    let table = ruleset::table(ENTRY_COUNT);
    let provider = MemorySources::default().with(ruleset::TABLE_FILE, table);
    let text = ruleset::written(rule_count, false);
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(Dialect::OpenBsd),
        macros: &[],
        provider: &provider,
        limits: Limits::default(),
    };
    let compiled = weir_rules::compile(input, facts);
    match compiled.diagnostics.first() {
        Some(problem) => Err(problem.line(&compiled.sources).into()),
        None => Ok(compiled),
    }
}

/// Packets for the rules, each as one of the rules has it: all kinds of rules are met.
fn packets(rule_count: u32) -> Vec<Packet> {
    let packets = (0..PACKET_COUNT).map(|index| {
        // The factor has no divisor in common with the numbers of rules.
        let number = index.wrapping_mul(7919) % rule_count;
        let [_, _, b, c] = number.to_be_bytes();
        let v4 = |a, b, c, d| Ipv4Addr::new(a, b, c, d).into();
        let v6 = |b: u8, c: u8| {
            Ipv6Addr::new(0x2001, 0xdb8, u16::from(b), 0, 0, 0, 0, u16::from(c)).into()
        };
        let new = |direction, interface, ends, protocol| {
            Packet::new(direction, interface, ends, protocol)
        };
        let mut packet = match number % 5 {
            0 => new(Direction::In, "em0", (v4(10, b, c, 7), v4(192, 0, 2, c)), TCP),
            1 => new(Direction::In, "em0", (v4(172, 0, b, c), v4(192, 0, 2, 9)), UDP),
            2 => new(Direction::Out, "em1", (v4(192, 168, 1, 4), v4(10, b, c, 53)), UDP),
            3 => new(Direction::In, "em0", (v4(198, 18, b, c), v4(192, 168, b, c)), TCP),
            _ => new(Direction::In, "em1", (v6(9, 9), v6(b, c)), TCP),
        };
        packet.source_port = 40_000;
        packet.destination_port = u16::try_from(1024 + number % 60_000).unwrap_or(u16::MAX);
        packet.tcp_flags = if packet.protocol == TCP { SYN } else { 0 };
        packet
    });
    packets.collect()
}

/// Packets per second over at least the time of a sample; the time for which this thread waited
/// for its CPU is not counted.
fn rate_pps(evaluator: &Evaluator<'_>, packets: &[Packet], sample: Duration) -> Result<f64> {
    let mut random = || 0;
    let mut states = NoStates;
    let routes = AllRouted;
    let mut moment =
        Moment { now_ns: 0, random: &mut random, states: &mut states, routes: &routes };
    let (mut count, mut passed) = (0_u32, 0_u32);
    let (began, waited) = (Instant::now(), super::waited("/proc/thread-self"));
    loop {
        for batch in packets.chunks(BATCH) {
            for packet in batch {
                let verdict = black_box(evaluator.evaluate(black_box(packet), &mut moment));
                passed += u32::from(verdict.decision == Decision::Pass);
                count += 1;
            }
            if began.elapsed() >= sample {
                let waited = super::waited("/proc/thread-self").saturating_sub(waited);
                let elapsed = began.elapsed().saturating_sub(waited);
                // Rules that nothing matches would be another measurement.
                if passed == 0 || passed == count {
                    return Err(format!("{passed} of {count} packets passed").into());
                }
                return Ok(f64::from(count) / elapsed.as_secs_f64());
            }
        }
    }
}

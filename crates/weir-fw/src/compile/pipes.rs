//! Pipes and queues of dummynet (dnctl(8)), as rules name them by `dnpipe` and `dnqueue`: the trees
//! of classes that they come to ([`weir_net::shaping`]), one on each filtered interface.
//!
//! A pipe is a class of its rate. Queues of a pipe are classes below it, which share it by their
//! weights, and of which each takes what the others leave; packets that a rule sends to such a pipe
//! itself are one more, of weight 1. What no rule sends anywhere is in a class without a limit.
//! There is a class only for what rules name. Numbers are shared with the queues of `altq` and
//! `queue`, which a ruleset with pipes has not.
//!
//! This module never talks to the kernel.

use std::collections::{BTreeMap, BTreeSet};

use weir_bpf::firewall::layout::{SCRUB_DIRECTED_SHIFT, SCRUB_FAST_QUEUE_SHIFT, SCRUB_QUEUE_SHIFT};
use weir_net::shaping::{Class, Queue as Leaf, Tree};
use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::dummynet::{Pipe, PipeQueue, QueueLimit};
use weir_rules::ir::{Prelude, Rule};
use weir_rules::resolve::Resolver;
use weir_rules::source::Span;

use super::known::Known;
use super::queues::{self, Numbers, UNLIMITED_BPS};
use super::{Builder, Input, Refused};
use crate::pipes::{self, Named};

/// The class of what no rule sends anywhere: no queue has its number.
const DEFAULT: u16 = 256;
/// Packets of it that wait while the interface is busy, as in the kernel's queue of an interface.
const DEFAULT_LIMIT_PACKETS: u32 = 1_000;
/// Pipes that have queues: no queue has such numbers.
const ABOVE: u16 = 512;
/// The kernel's clock keeps no smaller rate, bits per second.
const LEAST_BPS: u64 = 64;
/// What the queue with the least weight sends in its turn, bytes: a packet.
const TURN_BYTES: u64 = 1_600;
/// The most that is sent in a turn, bytes.
const TURN_BYTES_MAX: u64 = 60_000;

/// All that rules name, with the place of the first that does; or what is not configured.
fn named(input: &Input<'_>) -> Result<BTreeMap<Named, Span>, Refused> {
    let errors = pipes::unconfigured(input.evaluator.rules(), input.resolver);
    if !errors.is_empty() {
        return Err(Refused(errors));
    }
    let mut named = BTreeMap::new();
    for rule in input.evaluator.rules() {
        for one in Named::of_rule(rule) {
            named.entry(one).or_insert(rule.span);
        }
    }
    Ok(named)
}

/// The trees of all interfaces, and the numbers of all queues; or all that is wrong with them.
pub(super) fn shaped(
    input: &Input<'_>,
    known: &mut Known,
) -> Result<(Vec<Tree>, Numbers), Refused> {
    let ruleset = input.evaluator.ruleset();
    let named = named(input)?;
    let numbers = queues::numbers(ruleset, named.keys().map(Named::to_string), known)?;
    let mut trees = queues::trees(ruleset, input.evaluator.rules(), &numbers)?;
    let Some(first) = named.values().next() else { return Ok((trees, numbers)) };
    let is_queue = |prelude: &Prelude| matches!(prelude, Prelude::Altq(_) | Prelude::Queue(_));
    if ruleset.prelude.iter().any(is_queue) {
        let message = "`dnpipe` and `dnqueue` do not go with `altq` and `queue`";
        let problem = Diagnostic::error(Code::BadValue, *first, message);
        let problem = problem.label("interfaces have one tree of queues");
        return Err(Refused(vec![problem.help("shape all traffic by the ones or by the others")]));
    }
    let classes = classes(&named.into_keys().collect(), &numbers, input.resolver);
    let names = input.slots.iter().map(|slot| &slot.interface);
    for interface in names.filter(|name| !input.evaluator.skips(name)) {
        let (interface, classes) = (interface.clone(), classes.clone());
        trees.push(Tree { interface, default: DEFAULT, classes });
    }
    Ok((trees, numbers))
}

fn leaf(limit: QueueLimit) -> Option<Leaf> {
    Some(match limit {
        QueueLimit::Packets(limit_packets) => Leaf::Fifo { limit_packets },
        QueueLimit::Bytes(limit_bytes) => Leaf::FifoBytes { limit_bytes },
    })
}

/// A class that has what it may have, and no more.
fn class(number: u16, rate_bps: u64, queue: Option<Leaf>) -> Class {
    Class {
        number,
        parent: 0,
        rate_bps,
        ceil_bps: rate_bps,
        burst_bytes: 0,
        priority: 0,
        quantum_bytes: u32::try_from(TURN_BYTES_MAX).unwrap_or(u32::MAX),
        curves: None,
        queue,
    }
}

/// The classes of an interface.
fn classes(named: &BTreeSet<Named>, numbers: &Numbers, resolver: &dyn Resolver) -> Vec<Class> {
    let rest = Leaf::Fifo { limit_packets: DEFAULT_LIMIT_PACKETS };
    let mut classes = vec![class(DEFAULT, UNLIMITED_BPS, Some(rest))];
    let pipes = named.iter().filter_map(|one| one.pipe(resolver));
    let pipes: BTreeMap<u16, &Pipe> = pipes.map(|pipe| (pipe.number, pipe)).collect();
    let number = |one: Named| numbers.get(&one.to_string()).copied().unwrap_or(0);
    for (above, pipe) in (ABOVE..).zip(pipes.into_values()) {
        let rate_bps = pipe.rate_bps.unwrap_or(UNLIMITED_BPS);
        let queue_of = |one: &Named| match one {
            Named::Queue(number) => resolver.pipe_queue(*number),
            Named::Pipe(_) => None,
        };
        let queues = named.iter().filter_map(queue_of);
        let queues: Vec<&PipeQueue> = queues.filter(|queue| queue.pipe == pipe.number).collect();
        let itself = Named::Pipe(pipe.number);
        if queues.is_empty() {
            classes.push(class(number(itself), rate_bps, leaf(pipe.limit)));
            continue;
        }
        let mut shares: Vec<(u16, u32, QueueLimit)> = queues
            .iter()
            .map(|queue| (number(Named::Queue(queue.number)), queue.weight, queue.limit))
            .collect();
        if named.contains(&itself) {
            shares.push((number(itself), 1, pipe.limit));
        }
        classes.push(class(above, rate_bps, None));
        classes.extend(shared(above, rate_bps, &shares));
    }
    classes
}

/// The classes that share one above them by their weights: number, weight, and what waits at most.
fn shared(above: u16, rate_bps: u64, shares: &[(u16, u32, QueueLimit)]) -> Vec<Class> {
    let total: u64 = shares.iter().map(|(_, weight, _)| u64::from(*weight)).sum();
    let least = shares.iter().map(|(_, weight, _)| u64::from(*weight)).min().unwrap_or(1).max(1);
    let of = |(number, weight, limit): &(u16, u32, QueueLimit)| {
        let weight = u64::from(*weight);
        let turn_bytes = (TURN_BYTES * weight / least).min(TURN_BYTES_MAX);
        Class {
            parent: above,
            rate_bps: (rate_bps * weight / total.max(1)).max(LEAST_BPS).min(rate_bps),
            ceil_bps: rate_bps,
            quantum_bytes: u32::try_from(turn_bytes).unwrap_or(u32::MAX),
            ..class(*number, rate_bps, leaf(*limit))
        }
    };
    shares.iter().map(of).collect()
}

impl Builder<'_> {
    /// The pipes or queues of dummynet that a rule names, as a part of its word.
    pub(super) fn pipe_word(&self, rule: &Rule) -> u64 {
        let Some(dummynet) = rule.options.dummynet else { return 0 };
        let number = |one: Option<Named>| {
            let number = one.and_then(|one| self.queue_numbers.get(&one.to_string()));
            number.map_or(0, |number| u64::from(*number))
        };
        let [forward, reverse] = Named::of(dummynet).map(number);
        let numbers = forward << SCRUB_QUEUE_SHIFT | reverse << SCRUB_FAST_QUEUE_SHIFT;
        numbers | u64::from(numbers != 0) << SCRUB_DIRECTED_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use weir_rules::Dialect;
    use weir_rules::evaluate::Evaluator;
    use weir_rules::facts::Facts;

    use super::*;
    use crate::compile::{Compiled, CountedTables, Slot, compile};
    use crate::testing::ruleset;

    const FACTS: &str = "interface em0 192.0.2.1/24\ninterface em1\ninterface em2\n\
        pipe 1 config bw 10Mbit/s queue 20\npipe 2 config bw 4Mbit/s queue 10KBytes\n\
        pipe 3 config\nqueue 1 config pipe 2 weight 30\nqueue 2 config pipe 2 weight 10\n\
        queue 3 config pipe 9\n";

    fn compiled(rules: &str) -> Result<Compiled, Vec<Diagnostic>> {
        let facts = Facts::parse(FACTS).unwrap();
        let ruleset = ruleset(rules, Dialect::FreeBsd, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        let names = (1..).zip(["em0", "em1", "em2"]);
        let slots: Vec<Slot> =
            names.map(|(number, name)| Slot { number, interface: name.to_owned() }).collect();
        let input = Input {
            evaluator: &evaluator,
            resolver: &facts,
            slots: &slots,
            known: &Known::default(),
            counted: &CountedTables::new(),
            typed: &Default::default(),
        };
        compile(&input).map_err(|Refused(errors)| errors)
    }

    fn shown(tree: &Tree) -> Vec<(u16, u16, u64, u64, u32, Option<Leaf>)> {
        let of = |class: &Class| {
            let rates = [class.rate_bps, class.ceil_bps].map(|rate_bps| rate_bps / 1000);
            let (number, parent) = (class.number, class.parent);
            (number, parent, rates[0], rates[1], class.quantum_bytes, class.queue)
        };
        tree.classes.iter().map(of).collect()
    }

    #[test]
    fn pipes_are_classes_on_each_interface_that_is_filtered() {
        let rules = "set skip on em2\npass in dnpipe (1, 2)\npass out proto udp dnqueue 2\n\
                     pass in proto icmp dnpipe (0, 3)\npass out proto tcp dnqueue (2, 1)\n";
        let compiled = compiled(rules).unwrap();
        let [first, second] = &compiled.trees[..] else { panic!("{:?}", compiled.trees) };
        assert_eq!((first.interface.as_str(), second.interface.as_str()), ("em0", "em1"));
        assert_eq!((&first.classes, first.default), (&second.classes, DEFAULT));
        let fifo = |limit_packets| Some(Leaf::Fifo { limit_packets });
        let bytes = Some(Leaf::FifoBytes { limit_bytes: 10_240 });
        // In the order of their names: pipes 1 to 3, queues 1 and 2.
        assert_eq!(
            shown(first),
            [
                (DEFAULT, 0, 100_000_000, 100_000_000, 60_000, fifo(1_000)),
                (1, 0, 10_000, 10_000, 60_000, fifo(20)),
                (ABOVE + 1, 0, 4_000, 4_000, 60_000, None),
                (4, ABOVE + 1, 2_926, 4_000, 48_000, fifo(50)),
                (5, ABOVE + 1, 975, 4_000, 16_000, fifo(50)),
                (2, ABOVE + 1, 97, 4_000, 1_600, bytes),
                (3, 0, 100_000_000, 100_000_000, 60_000, fifo(50)),
            ]
        );
        let words: Vec<u64> =
            compiled.scrubs.iter().map(|word| word >> SCRUB_QUEUE_SHIFT).collect();
        let directed = 1 << (SCRUB_DIRECTED_SHIFT - SCRUB_QUEUE_SHIFT);
        assert_eq!(
            words,
            [2 << 8 | 1 | directed, 5 | directed, 3 << 8 | directed, 4 << 8 | 5 | directed]
        );
    }

    #[test]
    fn what_is_not_configured_is_named_with_the_line_to_add() {
        for (rules, message, help) in [
            ("pass\npass in dnpipe 7\n", "pipe 7 is not configured", "`pipe 7 config bw 10Mbit/s`"),
            ("pass out dnpipe (1, 7)\n", "pipe 7 is not configured", "`pipe 7 config"),
            ("pass dnqueue 7\n", "queue 7 is not configured", "`queue 7 config pipe 1 weight 1`"),
            ("pass dnqueue 3\n", "queue 3 is in pipe 9, which is not", "`pipe 9 config"),
            (
                "altq on em0 cbq bandwidth 1Mb queue { a }\nqueue a cbq(default)\npass dnpipe 1\n",
                "`dnpipe` and `dnqueue` do not go with `altq`",
                "shape all traffic by the ones",
            ),
        ] {
            let errors = compiled(rules).unwrap_err();
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].message.contains(message), "{errors:?}");
            assert!(errors[0].help.as_ref().unwrap().contains(help), "{errors:?}");
        }
        let errors = compiled("pass inet dnpipe (7, 8)\npass inet6 dnqueue 7\n").unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(compiled("pass dnpipe 0\n").unwrap().trees.is_empty());
    }
}

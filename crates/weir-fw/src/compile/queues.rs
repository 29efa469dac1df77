//! Queues: the trees of classes that OpenBSD's `queue` and FreeBSD's `altq` come to, in the
//! kernel's terms ([`weir_net::shaping`]), and the queues that rules name.
//!
//! A queue has its `bandwidth` in any case, or its `min` if that is more, and takes what others
//! leave up to its `max`, in proportion to its bandwidth. Without a `max` that is as much as the
//! queue above it may have, and at the root there is no limit. `cbq` takes what others leave if it
//! says `borrow`; `priq` serves its queues by priority; `hfsc` is the same as OpenBSD's. Where a
//! curve of a tree has two slopes, all of its classes have curves. `fairq` is as `cbq` with
//! `borrow`, and its queues are fair among flows. Queues are numbered by their names: one name is
//! one number on all interfaces.

use std::collections::{BTreeSet, HashMap, HashSet};

use weir_bpf::firewall::layout::{QUEUE_COUNT_MAX, SCRUB_FAST_QUEUE_SHIFT, SCRUB_QUEUE_SHIFT};
use weir_net::shaping::{Class, Curve, Curves, Queue as Leaf, Tree};
use weir_rules::Dialect;
use weir_rules::ast::{Bandwidth, Queue, QueueRate, Scheduler};
use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::ir::{AltqOn, Prelude, Rule, Ruleset};
use weir_rules::source::Span;
use weir_rules::value::{QueueName, Spanned, Text};

use super::known::Known;
use super::numbers::Exhausted;
use super::{Builder, Refused, refused};

/// What a queue may have that nothing limits, bits per second.
pub(super) const UNLIMITED_BPS: u64 = 100_000_000_000;
/// A queue that is served by priority alone has this in any case, bits per second.
const LEAST_BPS: u64 = 8_000;
/// `qlimit` of pf, packets.
const LIMIT_PACKETS: u32 = 50;
/// Most flows of a queue.
const FLOW_COUNT_MAX: u32 = 65_536;
/// `buckets` of `fairq`.
const FAIRQ_BUCKETS: u64 = 256;
/// The class above the queues of `altq`: no queue has its number.
const ALTQ_ROOT: u16 = 256;
/// Priorities of the kernel's classes; 0 is served first.
const PRIORITY_COUNT: usize = 8;
/// What a class sends in its turn, bytes: a packet at least.
const TURN_BYTES: std::ops::RangeInclusive<u64> = 1_600..=60_000;

/// Names of queues, and their numbers.
pub(super) type Numbers = HashMap<String, u16>;

fn wrong(span: Span, message: String, label: &'static str) -> Refused {
    Refused(vec![Diagnostic::error(Code::BadValue, span, message).label(label)])
}

fn queues(ruleset: &Ruleset) -> impl Iterator<Item = &Queue> {
    ruleset.prelude.iter().filter_map(|prelude| match prelude {
        Prelude::Queue(queue) => Some(&**queue),
        _ => None,
    })
}

/// The numbers of the queues that a ruleset defines, and of those of these names.
pub(super) fn numbers(
    ruleset: &Ruleset,
    more: impl Iterator<Item = String>,
    known: &mut Known,
) -> Result<Numbers, Refused> {
    let defined = queues(ruleset).map(|queue| queue.name.value.to_string());
    let names: BTreeSet<String> = defined.chain(more).collect();
    let assigned = known.queues.assign(&names, QUEUE_COUNT_MAX as usize);
    assigned.map_err(|Exhausted { given_count, held_count }| {
        let span = queues(ruleset).next().map(|queue| queue.name.span).unwrap_or_default();
        let message = format!(
            "there may be {QUEUE_COUNT_MAX} queues at most, and the ruleset has {given_count}, \
             besides {held_count} of earlier rulesets that states still have"
        );
        refused(span, message)
    })
}

/// The trees of a ruleset; or all that is wrong with them, and with the queues that rules name.
pub(super) fn trees<'a>(
    ruleset: &Ruleset,
    rules: impl Iterator<Item = &'a Rule>,
    numbers: &Numbers,
) -> Result<Vec<Tree>, Refused> {
    let mut forest = Forest { ruleset, numbers, trees: Vec::new() };
    let (mut errors, mut lost) = (Vec::new(), Vec::new());
    for prelude in &ruleset.prelude {
        let grown = match prelude {
            Prelude::Altq(altq) => forest.altq(altq),
            // What is below a queue that is wrong is not said to be wrong, too.
            Prelude::Queue(queue)
                if queue.parent.as_ref().is_some_and(|one| lost.contains(&&one.value)) =>
            {
                lost.push(&queue.name.value);
                Ok(())
            }
            // FreeBSD's stand below the `altq` that names them.
            Prelude::Queue(queue) if !forest.is_of_altq(queue) => {
                let grown = forest.queue(queue);
                lost.extend(grown.is_err().then_some(&queue.name.value));
                grown
            }
            _ => Ok(()),
        };
        errors.extend(grown.err().into_iter().flat_map(|Refused(found)| found));
    }
    let mut trees = Vec::new();
    for growing in forest.trees {
        // What was wrong is what it lacks, maybe; but nothing makes defaults fewer.
        let is_said = errors.is_empty() || growing.defaults.len() > 1;
        match finished(growing) {
            Ok(tree) => trees.push(tree),
            Err(Refused(found)) => errors.extend(found.into_iter().filter(|_| is_said)),
        }
    }
    let has_all = errors.is_empty();
    for rule in rules {
        errors.extend(wrong_queues(rule, (ruleset, numbers), has_all.then_some(&trees)));
    }
    // A rule is expanded to several, which name the same.
    let mut seen = HashSet::new();
    errors.retain(|error| seen.insert((error.span, error.message.clone())));
    if errors.is_empty() { Ok(trees) } else { Err(Refused(errors)) }
}

/// The queues that a rule names, for packets and for those that are to be fast.
fn named(rule: &Rule) -> impl Iterator<Item = &Text> {
    let queue = rule.options.queue.iter();
    queue.flat_map(|QueueName { name, priority }| [Some(name), priority.as_ref()]).flatten()
}

/// What is wrong with the queues that a rule names; `trees` are all that there are. FreeBSD's pf
/// takes a name that no `altq` has: such packets go by the default queue (`pf_qname2qid` of
/// pf_ioctl.c makes a number of any name, and altq(9) has a default for what it does not know).
fn wrong_queues(
    rule: &Rule,
    (ruleset, numbers): (&Ruleset, &Numbers),
    trees: Option<&Vec<Tree>>,
) -> Vec<Diagnostic> {
    let of = |name: &Text| {
        let Some(number) = numbers.get(&**name) else {
            if ruleset.dialect == Dialect::FreeBsd {
                return None;
            }
            let message = format!("queue `{name}` is not defined");
            return Some(wrong(rule.span, message, "the rule names it"));
        };
        let mut classes = trees.into_iter().flatten().flat_map(|tree| &tree.classes);
        let is_above = classes.any(|class| class.number == *number && class.queue.is_none());
        is_above.then(|| {
            wrong(rule.span, format!("queue `{name}` has queues below it"), "packets go to those")
        })
    };
    named(rule).filter_map(of).flat_map(|Refused(found)| found).collect()
}

/// A tree as it grows.
struct Growing {
    tree: Tree,
    /// Where it is defined.
    span: Span,
    /// What the leaves are, by number.
    leaves: HashMap<u16, Leaf>,
    /// Numbers of the queues that say `default`.
    defaults: Vec<u16>,
}

struct Forest<'a> {
    ruleset: &'a Ruleset,
    numbers: &'a Numbers,
    trees: Vec<Growing>,
}

fn rate(of: Bandwidth, whole_bps: u64) -> u64 {
    match of {
        Bandwidth::Absolute(rate_bps) => rate_bps,
        Bandwidth::Percent(percent) => whole_bps / 100 * u64::from(percent),
    }
}

/// A rate, and its burst, as a curve.
fn curve_of(of: QueueRate, whole_bps: u64) -> Curve {
    bent(of.burst, of.rate, whole_bps)
}

/// A curve with this first slope and its length, ms, if it has one.
fn bent(first: Option<(Bandwidth, u32)>, second: Bandwidth, whole_bps: u64) -> Curve {
    let (first_bps, first_ms) =
        first.map_or((0, 0), |(of, time_ms)| (rate(of, whole_bps), time_ms));
    Curve {
        first_bps,
        first_us: first_ms.saturating_mul(1000),
        second_bps: rate(second, whole_bps),
    }
}

/// Bytes of `burst RATE for TIME`.
fn burst_bytes(of: Option<QueueRate>, whole_bps: u64) -> u32 {
    let Some((burst, time_ms)) = of.and_then(|of| of.burst) else { return 0 };
    let bytes = rate(burst, whole_bps) / 8 * u64::from(time_ms) / 1000;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Growing {
    fn new(interface: &Text, span: Span) -> Self {
        let tree = Tree { interface: interface.to_string(), default: 0, classes: Vec::new() };
        Self { tree, span, leaves: HashMap::new(), defaults: Vec::new() }
    }

    fn class(&self, number: u16) -> Option<&Class> {
        self.tree.classes.iter().find(|class| class.number == number)
    }

    fn add(&mut self, class: Class, name: &Spanned<Text>) -> Result<(), Refused> {
        if self.class(class.number).is_some() {
            let interface = &self.tree.interface;
            let message = format!("queue `{}` stands twice on `{interface}`", name.value);
            return Err(wrong(name.span, message, "here again"));
        }
        self.tree.classes.push(class);
        Ok(())
    }
}

impl Forest<'_> {
    fn number(&self, name: &str) -> u16 {
        self.numbers.get(name).copied().unwrap_or(0)
    }

    fn is_of_altq(&self, queue: &Queue) -> bool {
        let is_it =
            |names: &[Spanned<Text>]| names.iter().any(|name| name.value == queue.name.value);
        let by_altq = self.ruleset.prelude.iter().any(|prelude| match prelude {
            Prelude::Altq(altq) => is_it(&altq.altq.queues),
            _ => false,
        });
        by_altq || queues(self.ruleset).any(|other| is_it(&other.queues))
    }

    /// Begins the tree of an interface.
    fn start(&mut self, interface: &Text, span: Span) -> Result<(), Refused> {
        if self.trees.iter().any(|growing| *growing.tree.interface == **interface) {
            let message = format!("`{interface}` has two queues at its root");
            return Err(wrong(span, message, "all queues of an interface are below one"));
        }
        self.trees.push(Growing::new(interface, span));
        Ok(())
    }

    /// OpenBSD's.
    fn queue(&mut self, queue: &Queue) -> Result<(), Refused> {
        let span = queue.name.span;
        let name = &queue.name.value;
        let places: Vec<usize> = match &queue.parent {
            None => {
                for interface in &queue.interfaces {
                    self.start(&interface.name.value, span)?;
                }
                (self.trees.len() - queue.interfaces.len()..self.trees.len()).collect()
            }
            Some(parent) => {
                let number = self.number(&parent.value);
                let has = |at: &usize| self.trees[*at].class(number).is_some() && number != 0;
                (0..self.trees.len()).filter(has).collect()
            }
        };
        if places.is_empty() {
            let message = match &queue.parent {
                Some(parent) => {
                    format!("queue `{name}`: its parent `{}` is not defined above it", parent.value)
                }
                None => format!("queue `{name}` has neither `on` nor `parent`"),
            };
            return Err(wrong(span, message, "it belongs to no interface"));
        }
        for at in places {
            self.openbsd_class(queue, at)?;
        }
        Ok(())
    }

    fn openbsd_class(&mut self, queue: &Queue, at: usize) -> Result<(), Refused> {
        let number = self.number(&queue.name.value);
        let parent = queue.parent.as_ref().map_or(0, |parent| self.number(&parent.value));
        let (above_bps, above_ceil_bps) = self.trees[at]
            .class(parent)
            .map_or((UNLIMITED_BPS, UNLIMITED_BPS), |above| (above.rate_bps, above.ceil_bps));
        let of = |of: Option<QueueRate>| of.map(|of| rate(of.rate, above_bps));
        let ceil_bps = of(queue.max).unwrap_or(above_ceil_bps);
        // What is at the root is its own limit.
        let least_bps = if parent == 0 { ceil_bps } else { LEAST_BPS };
        let share_bps = of(queue.bandwidth).filter(|_| parent != 0).unwrap_or(least_bps);
        let rate_bps = share_bps.max(of(queue.min).unwrap_or(0)).min(ceil_bps);
        let curve = |of: Option<QueueRate>| of.map(|of| curve_of(of, above_bps));
        let linkshare = curve(queue.bandwidth).filter(|_| parent != 0);
        let curves = Curves {
            realtime: curve(queue.min),
            linkshare: linkshare.unwrap_or(Curve::straight(share_bps)),
            upperlimit: curve(queue.max),
        };
        let class = Class {
            number,
            parent,
            rate_bps: rate_bps.max(LEAST_BPS),
            ceil_bps: ceil_bps.max(LEAST_BPS),
            burst_bytes: burst_bytes(queue.bandwidth, above_bps),
            priority: 0,
            quantum_bytes: 0,
            curves: Some(curves),
            queue: None,
        };
        let growing = &mut self.trees[at];
        growing.add(class, &queue.name)?;
        growing.leaves.insert(number, leaf(queue)?);
        if queue.is_default {
            growing.defaults.push(number);
        }
        Ok(())
    }

    /// FreeBSD's.
    fn altq(&mut self, altq: &AltqOn) -> Result<(), Refused> {
        let of_list = altq.altq.queues.first().map(|name| name.span);
        let of_interface = altq.altq.interfaces.first().map(|interface| interface.name.span);
        let span = of_interface.or(of_list).unwrap_or_default();
        let interface = &altq.interface;
        let scheduler = altq.altq.scheduler.as_ref();
        let kind = scheduler.map_or("", |scheduler| scheduler.name);
        let Some(Bandwidth::Absolute(rate_bps)) = altq.bandwidth else {
            let message = format!("altq on `{interface}` says no bandwidth");
            return Err(wrong(span, message, "the interface does not say how fast it is"));
        };
        self.start(interface, span)?;
        let Some(mut growing) = self.trees.pop() else { return Ok(()) };
        let root = Class {
            number: ALTQ_ROOT,
            parent: 0,
            rate_bps,
            ceil_bps: rate_bps,
            burst_bytes: 0,
            priority: 0,
            quantum_bytes: 0,
            curves: (kind == "hfsc").then(|| Curves {
                realtime: None,
                linkshare: Curve::straight(rate_bps),
                upperlimit: Some(Curve::straight(rate_bps)),
            }),
            queue: None,
        };
        growing.tree.classes.push(root);
        if let Some(scheduler) = scheduler.filter(|scheduler| scheduler.name == "codel") {
            let limit_packets = altq.altq.queue_limit.unwrap_or(LIMIT_PACKETS);
            growing.leaves.insert(ALTQ_ROOT, codel(scheduler, limit_packets));
            growing.defaults.push(ALTQ_ROOT);
        }
        let ranks = self.ranks(&altq.altq.queues, kind)?;
        self.altq_classes(&mut growing, &altq.altq.queues, (ALTQ_ROOT, kind), &ranks)?;
        self.trees.push(growing);
        Ok(())
    }

    /// The definition of a queue, on an interface.
    fn definition(&self, name: &Spanned<Text>, interface: &str) -> Result<&Queue, Refused> {
        let is_on = |queue: &&Queue| {
            let on = &queue.interfaces;
            on.is_empty() || on.iter().any(|one| *one.name.value == *interface)
        };
        let mut found = queues(self.ruleset).filter(|queue| queue.name.value == name.value);
        found.find(is_on).ok_or_else(|| {
            let message = format!("queue `{}` is not defined", name.value);
            wrong(name.span, message, "there is no `queue` statement for it")
        })
    }

    /// The kernel's priorities of what `priq` has, the largest first.
    fn ranks(&self, names: &[Spanned<Text>], kind: &str) -> Result<Vec<u32>, Refused> {
        if kind != "priq" {
            return Ok(Vec::new());
        }
        let of = |name: &Spanned<Text>| {
            let mut all = queues(self.ruleset).filter(|queue| queue.name.value == name.value);
            all.next().and_then(|queue| queue.priority).unwrap_or(1)
        };
        let all: BTreeSet<u32> = names.iter().map(of).collect();
        if all.len() > PRIORITY_COUNT {
            let span = names.first().map(|name| name.span).unwrap_or_default();
            let message = format!("{} different priorities of queues", all.len());
            return Err(wrong(span, message, "the kernel has eight"));
        }
        Ok(all.into_iter().rev().collect())
    }

    fn altq_classes(
        &self,
        growing: &mut Growing,
        names: &[Spanned<Text>],
        (parent, kind): (u16, &str),
        ranks: &[u32],
    ) -> Result<(), Refused> {
        for name in names {
            let queue = self.definition(name, &growing.tree.interface)?;
            let above = growing.class(parent).map(|above| (above.rate_bps, above.ceil_bps));
            let (above_bps, above_ceil_bps) = above.unwrap_or((0, 0));
            let scheduler = queue.scheduler.as_ref();
            let flags = scheduler.map_or(&[][..], |scheduler| &scheduler.flags);
            let share_bps =
                queue.bandwidth.map_or(above_bps, |bandwidth| rate(bandwidth.rate, above_bps));
            let priority = queue.priority.unwrap_or(1);
            let mut curves = None;
            let (rate_bps, ceil_bps, priority) = match kind {
                "fairq" => (share_bps, above_ceil_bps, 7 - priority.min(7)),
                "cbq" if flags.contains(&"borrow") => {
                    (share_bps, above_ceil_bps, 7 - priority.min(7))
                }
                "cbq" => (share_bps, share_bps, 7 - priority.min(7)),
                "priq" => {
                    let rank = ranks.iter().position(|rank| *rank == priority).unwrap_or(0);
                    (LEAST_BPS, above_ceil_bps, u32::try_from(rank).unwrap_or(0))
                }
                _ => {
                    let curve = |name| curve(scheduler, name, above_bps);
                    let [realtime, upperlimit] = ["realtime", "upperlimit"].map(curve);
                    let linkshare = curve("linkshare").unwrap_or(Curve::straight(share_bps));
                    curves = Some(Curves { realtime, linkshare, upperlimit });
                    let lasting = |curve: Option<Curve>| curve.map(|curve| curve.second_bps);
                    let rate_bps = linkshare.second_bps.max(lasting(realtime).unwrap_or(0));
                    (rate_bps, lasting(upperlimit).unwrap_or(above_ceil_bps), 0)
                }
            };
            let number = self.number(&name.value);
            let ceil_bps = ceil_bps.max(LEAST_BPS);
            let class = Class {
                number,
                parent,
                rate_bps: rate_bps.clamp(LEAST_BPS, ceil_bps),
                ceil_bps,
                burst_bytes: 0,
                priority: u8::try_from(priority).unwrap_or(0),
                quantum_bytes: 0,
                curves,
                queue: None,
            };
            growing.add(class, &queue.name)?;
            growing.leaves.insert(number, leaf(queue)?);
            if flags.contains(&"default") {
                growing.defaults.push(number);
            }
            self.altq_classes(growing, &queue.queues, (number, kind), ranks)?;
        }
        Ok(())
    }
}

/// A curve of `hfsc`, if it is given.
fn curve(scheduler: Option<&Scheduler>, name: &str, whole_bps: u64) -> Option<Curve> {
    let curves = scheduler.map_or(&[][..], |scheduler| &scheduler.curves);
    let (_, curve) = curves.iter().find(|(known, _)| *known == name)?;
    Some(bent(curve.first, curve.second, whole_bps))
}

/// The queue of `codel(target … interval … ecn)`.
fn codel(scheduler: &Scheduler, limit_packets: u32) -> Leaf {
    let time_us = |name: &str| {
        let found = scheduler.numbers.iter().find(|(known, _)| *known == name);
        found.map(|(_, ms)| u32::try_from(ms.saturating_mul(1000)).unwrap_or(u32::MAX))
    };
    Leaf::Codel {
        limit_packets,
        target_us: time_us("target"),
        interval_us: time_us("interval"),
        has_ecn: scheduler.flags.contains(&"ecn"),
    }
}

/// Flows that the kernel tells apart (tc-fq_codel(8)).
fn flows(queue: &Queue, count: u64) -> Result<u32, Refused> {
    let found = u32::try_from(count).ok().filter(|count| (1..=FLOW_COUNT_MAX).contains(count));
    found.ok_or_else(|| {
        let name = &queue.name.value;
        let message = format!("queue `{name}`: {count} flows or buckets");
        wrong(queue.name.span, message, "the kernel tells 1 to 65,536 apart")
    })
}

/// What a queue is if there is none below it.
fn leaf(queue: &Queue) -> Result<Leaf, Refused> {
    let Some(flow_count) = queue.flow_count else {
        let of_flows = [queue.quantum_bytes, queue.interval_ms, queue.target_ms];
        if of_flows.iter().any(Option::is_some) {
            let name = &queue.name.value;
            let message = format!("queue `{name}`: quantum, interval and target need `flows`");
            return Err(wrong(queue.name.span, message, "its packets leave as they come"));
        }
        let limit_packets = queue.queue_limit.unwrap_or(LIMIT_PACKETS);
        let Some(scheduler) = &queue.scheduler else { return Ok(Leaf::Fifo { limit_packets }) };
        let has = |flag: &str| scheduler.flags.contains(&flag);
        return Ok(if scheduler.name == "fairq" {
            let buckets = scheduler.numbers.iter().find(|(name, _)| *name == "buckets");
            Leaf::Fair {
                flow_count: flows(queue, buckets.map_or(FAIRQ_BUCKETS, |(_, count)| *count))?,
                limit_packets: queue.queue_limit,
                quantum_bytes: None,
                target_us: None,
                interval_us: None,
            }
        } else if has("codel") {
            codel(scheduler, limit_packets)
        } else if has("red") || has("ecn") {
            Leaf::Red { limit_packets, has_ecn: has("ecn") }
        } else {
            Leaf::Fifo { limit_packets }
        });
    };
    Ok(Leaf::Fair {
        flow_count: flows(queue, flow_count.into())?,
        limit_packets: queue.queue_limit,
        quantum_bytes: queue.quantum_bytes,
        target_us: queue.target_ms.map(|ms| ms.saturating_mul(1000)),
        interval_us: queue.interval_ms.map(|ms| ms.saturating_mul(1000)),
    })
}

/// Gives the classes that have none below them their queues, and all their turns.
fn finished(growing: Growing) -> Result<Tree, Refused> {
    let Growing { mut tree, span, leaves, defaults } = growing;
    let parents: BTreeSet<u16> = tree.classes.iter().map(|class| class.parent).collect();
    let most_bps = tree.classes.iter().map(|class| class.rate_bps).max().unwrap_or(1);
    let are_bent = tree.classes.iter().filter_map(|class| class.curves).any(|of| of.are_bent());
    for class in &mut tree.classes {
        if !are_bent {
            class.curves = None;
        } else if let Some(curves) = &mut class.curves
            && parents.contains(&class.number)
        {
            curves.realtime = None;
        }
        let turn_bytes = u128::from(*TURN_BYTES.end()) * u128::from(class.rate_bps);
        let turn_bytes = u64::try_from(turn_bytes / u128::from(most_bps.max(1))).unwrap_or(0);
        let turn_bytes = turn_bytes.clamp(*TURN_BYTES.start(), *TURN_BYTES.end());
        class.quantum_bytes = u32::try_from(turn_bytes).unwrap_or(u32::MAX);
        if !parents.contains(&class.number) {
            class.queue = leaves.get(&class.number).copied();
        }
    }
    let interface = &tree.interface;
    match defaults[..] {
        [number] if !parents.contains(&number) => tree.default = number,
        [_] => {
            let message = format!("the default queue of `{interface}` has queues below it");
            return Err(wrong(span, message, "packets go to those"));
        }
        _ => {
            let message = format!("`{interface}` has {} default queues", defaults.len());
            return Err(wrong(span, message, "one of its queues has to say `default`"));
        }
    }
    Ok(tree)
}

impl Builder<'_> {
    /// The queues that a rule names, as a part of its word.
    pub(super) fn queue_word(&self, rule: &Rule) -> u64 {
        let Some(QueueName { name, priority }) = &rule.options.queue else { return 0 };
        // All that rules name were looked for when the trees were made.
        let number = |name: &Text| u64::from(self.queue_numbers.get(&**name).copied().unwrap_or(0));
        let fast = priority.as_ref().map_or(0, number);
        number(name) << SCRUB_QUEUE_SHIFT | fast << SCRUB_FAST_QUEUE_SHIFT
    }
}

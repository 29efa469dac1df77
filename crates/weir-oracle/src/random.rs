//! Random rulesets and packets, the same for the same seed, to hold two devices against each
//! other. A case can be written as a packet test, so that a difference becomes one that stays.
//!
//! ```
//! use weir_oracle::random::{Case, Features};
//! use weir_oracle::reference::Reference;
//!
//! let case = Case::new(7, &Features::ALL, 50);
//! let (mut one, mut other) = (Reference::new(), Reference::new());
//! assert!(case.compare(&mut one, &mut other).unwrap().is_none());
//! ```

mod draw;
mod follow;
mod packets;
mod rules;
mod translation;

use std::fmt::Write as _;

use crate::device::{Device, DeviceError, Network, RuleText};
use crate::format::{FormatError, TestFile};
use crate::frame::FrameSpec;
use crate::outcome::{Outcome, Sent, StateInfo};
use crate::reference;
use draw::Draw;
use packets::Traffic;
use weir_rules::facts::Facts;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::{Compiled, compile};

/// Interfaces and routes of all cases.
pub const NETWORK: &str = "\
interface em0 10.0.0.1/24 broadcast 10.0.0.255 2001:db8::1/64 group lan
interface em1 192.0.2.1/24 broadcast 192.0.2.255 2001:db8:1::1/64
interface em2 10.2.0.1/24 broadcast 10.2.0.255 2001:db8:22::1/64 group lan
route 0.0.0.0/0 em1
route 2001:db8::/32 em1
";

/// Which constructs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a construct that a device may lack")]
pub struct Features {
    /// `quick`
    pub quick: bool,
    pub tables: bool,
    /// Anchors with rules in braces, and `quick` on them.
    pub anchors: bool,
    pub ipv6: bool,
    /// ICMP rules, echo messages and errors.
    pub icmp: bool,
    /// A protocol without ports.
    pub other_protocols: bool,
    /// Fragments, and rules for them.
    pub fragments: bool,
    /// `no state`
    pub no_state: bool,
    /// `sloppy`
    pub sloppy: bool,
    /// Bound and floating states.
    pub if_bound: bool,
    /// `set limit states` and `max`.
    pub limits: bool,
    /// Limits by source, and `overload`.
    pub sources: bool,
    /// `set timeout` and timeouts of rules; the clock moves without it too.
    pub timeouts: bool,
    /// `return` and `set block-policy`.
    pub returns: bool,
    /// `set skip`
    pub skip: bool,
    /// `log`
    pub log: bool,
    /// `tag`, `tagged`
    pub tags: bool,
    /// `received-on`
    pub received_on: bool,
    /// `user`, `group`; what the box sends is root's, and of no group.
    pub owners: bool,
    /// `os`, and SYNs with other options.
    pub systems: bool,
    /// `no-route`, `urpf-failed`
    pub routes: bool,
    /// `(em0)` and its like.
    pub interface_addresses: bool,
    /// `tos`
    pub tos: bool,
    /// `set tos` and `scrub (…)`, FreeBSD's `scrub` rules, and packets that these change.
    pub rewrites: bool,
    /// VLAN tags and `prio`.
    pub vlan: bool,
    /// IP options, extension headers and `allow-opts`.
    pub options: bool,
    /// Frames that are cut off or lie.
    pub malformed: bool,
    /// Packets from and to groups, the box itself, and addresses that no router forwards.
    pub specials: bool,
    /// Another ruleset, or the same once more, in place of the one that runs.
    pub reload: bool,
    /// How many of a hundred rulesets have limiters, which every fourth rule with states names.
    pub limiter_percent: u32,
    /// How many of a hundred rulesets translate, in either dialect; and packets to and from
    /// translated ends.
    pub translation_percent: u32,
    /// How many of a hundred rulesets have `route-to` and `reply-to`.
    pub gateway_percent: u32,
    /// How many of a hundred rulesets have `modulate state`, in every third rule that may; and
    /// answers to sequence numbers as they left.
    pub modulate_percent: u32,
    /// How many of a hundred rulesets are OpenBSD's with `divert-to` and `divert-reply`, which
    /// translate nothing.
    pub divert_percent: u32,
    /// How many of a hundred rulesets are OpenBSD's with `af-to`; and packets to hosts of the other
    /// family, and their answers.
    pub family_percent: u32,
}

impl Features {
    /// Everything, but for what changes sequence numbers and families, sockets and `os`.
    pub const ALL: Self = Self {
        quick: true,
        tables: true,
        anchors: true,
        ipv6: true,
        icmp: true,
        other_protocols: true,
        fragments: true,
        no_state: true,
        sloppy: true,
        if_bound: true,
        limits: true,
        limiter_percent: 15,
        sources: true,
        timeouts: true,
        returns: true,
        skip: true,
        log: true,
        tags: true,
        received_on: true,
        owners: true,
        systems: false,
        routes: true,
        interface_addresses: true,
        tos: true,
        rewrites: true,
        vlan: true,
        options: true,
        malformed: true,
        specials: true,
        reload: true,
        translation_percent: 35,
        gateway_percent: 15,
        modulate_percent: 0,
        divert_percent: 0,
        family_percent: 0,
    };

    /// Stateful filtering by addresses, ports and tables, of both families.
    pub const CORE: Self = Self {
        anchors: false,
        other_protocols: false,
        fragments: false,
        sloppy: false,
        if_bound: false,
        limits: false,
        limiter_percent: 0,
        sources: false,
        timeouts: false,
        skip: false,
        log: false,
        tags: false,
        received_on: false,
        owners: false,
        routes: false,
        tos: false,
        rewrites: false,
        vlan: false,
        options: false,
        malformed: false,
        specials: false,
        reload: false,
        translation_percent: 0,
        gateway_percent: 0,
        modulate_percent: 0,
        divert_percent: 0,
        family_percent: 0,
        ..Self::ALL
    };
}

/// What happens in a case.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Advance(u64),
    /// The text of a ruleset.
    Reload(String),
    /// Words of a packet, and whether it goes where translation has put its flow, if it has.
    Packet(String, bool),
}

/// A ruleset and what comes at it.
#[derive(Debug, Clone)]
pub struct Case {
    /// The ruleset.
    pub rules: String,
    events: Vec<Event>,
}

/// Where two devices differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The packet, or `states` or `counters` at the end.
    pub at: String,
    /// What the first device says.
    pub first: String,
    /// What the second says.
    pub second: String,
    /// The case up to there as a packet test, with what the first device says.
    pub test: String,
}

/// How often each outcome came, for a look at how well they are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mix {
    /// Packets that left.
    pub out_count: u64,
    /// Packets for the box.
    pub box_count: u64,
    /// Packets that were dropped.
    pub blocked_count: u64,
    /// Packets that left, or that the box got, with other ends than they came with.
    pub translated_count: u64,
}

/// How many rules a ruleset has at most, but for those of anchors.
const RULE_COUNT_MAX: u32 = 10;
const FLOW_COUNT_MAX: u32 = 9;

impl Case {
    /// A case of so many packets.
    #[must_use]
    pub fn new(seed: u64, features: &Features, packet_count: usize) -> Self {
        let mut draw = Draw::new(seed);
        let rules = rules::ruleset(&mut draw, features, RULE_COUNT_MAX);
        let flow_count = 2 + draw.below(FLOW_COUNT_MAX - 1);
        let mut traffic = Traffic::new(&mut draw, features, flow_count);
        let mut events = Vec::new();
        for _ in 0..packet_count {
            if draw.happens(8) {
                // Never a timeout to the millisecond, which packet tests look at: a data path's
                // clock may be that much ahead.
                events.push(Event::Advance(draw.pick(&[103, 1009, 3011, 11_027, 35_051])));
            }
            if features.reload && draw.happens(1) {
                let is_same = draw.happens(30);
                let other = rules::ruleset(&mut draw, features, RULE_COUNT_MAX);
                let next = if is_same { rules.clone() } else { changed(&rules, &other) };
                events.push(Event::Reload(next));
            }
            let words = traffic.next(&mut draw, features);
            let is_changed = features.translation_percent > 0
                || features.modulate_percent > 0
                || features.family_percent > 0;
            let follows = is_changed && draw.happens(85);
            events.push(Event::Packet(words, follows));
        }
        Self { rules, events }
    }

    /// How many packets it has.
    #[must_use]
    pub fn packet_count(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Packet(..))).count()
    }

    /// The network of all cases.
    ///
    /// # Errors
    ///
    /// None that happen: the text is part of the program.
    pub fn network() -> Result<Network, FormatError> {
        Ok(TestFile::parse("network", NETWORK)?.network)
    }

    /// The ruleset, compiled.
    #[must_use]
    pub fn compile(&self, facts: &Facts) -> Compiled {
        compiled(&self.rules, facts)
    }

    /// Runs the case on two devices, and finds the first packet that they treat otherwise, or
    /// what else they tell differently at the end. Both are set up anew.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if one of them fails, or the ruleset is refused.
    pub fn compare(
        &self,
        first: &mut dyn Device,
        second: &mut dyn Device,
    ) -> Result<Option<Disagreement>, DeviceError> {
        let network = Self::network().map_err(|error| DeviceError(error.to_string()))?;
        let compiled = self.compile(&network.facts);
        self.compare_as(&network, (&compiled, &compiled), first, second)
    }

    /// As [`Case::compare`], with a ruleset for each: to compare what an optimiser made of one.
    ///
    /// # Errors
    ///
    /// As [`Case::compare`].
    pub fn compare_as(
        &self,
        network: &Network,
        compiled: (&Compiled, &Compiled),
        first: &mut dyn Device,
        second: &mut dyn Device,
    ) -> Result<Option<Disagreement>, DeviceError> {
        first.configure(network)?;
        second.configure(network)?;
        load(&self.rules, compiled.0, first)?;
        load(&self.rules, compiled.1, second)?;
        self.run(network, first, second)
    }

    fn run(
        &self,
        network: &Network,
        first: &mut dyn Device,
        second: &mut dyn Device,
    ) -> Result<Option<Disagreement>, DeviceError> {
        let mut test = format!("{NETWORK}\nrules {{\n{}}}\n\n", self.rules);
        let (mut now_ns, mut has_choices) = (0, chooses(&self.rules));
        for event in &self.events {
            let words = match event {
                Event::Advance(time_ms) => {
                    now_ns += time_ms * 1_000_000;
                    // Writing to a string does not fail.
                    let _ = writeln!(test, "at +{time_ms}ms");
                    continue;
                }
                Event::Reload(text) => {
                    let compiled = compiled(text, &network.facts);
                    load(text, &compiled, first)?;
                    load(text, &compiled, second)?;
                    has_choices |= chooses(text);
                    let _ = write!(test, "rules {{\n{text}}}\n");
                    continue;
                }
                Event::Packet(words, follows) if *follows && has_choices => {
                    follow::translated(words, network, &second.states(now_ns)?)
                }
                Event::Packet(words, _) => words.clone(),
            };
            let frame = frame(&words, network)?;
            let (direction, interface) = (frame.packet.direction, frame.packet.interface.clone());
            let bytes = frame.build();
            // The second one chooses freely, and the first does as it did.
            let other = second.send(&bytes, direction, &interface, now_ns)?;
            if has_choices {
                first.choose_as(&other, second.states(now_ns)?);
            }
            let one = first.send(&bytes, direction, &interface, now_ns)?;
            if has_choices {
                // As the second one's were: what has expired by now goes.
                first.states(now_ns)?;
            }
            let _ = writeln!(test, "{words} => {}", one.outcome);
            let found = difference(&one, &other).or_else(|| broken(&bytes, &other));
            if let Some((first, second)) = found {
                return Ok(Some(Disagreement { at: words, first, second, test }));
            }
        }
        let (one, other) = (state_text(first, now_ns)?, state_text(second, now_ns)?);
        let at = "states and counters".to_owned();
        Ok((one != other).then_some(Disagreement { at, first: one, second: other, test }))
    }

    /// Runs the case on one device, and counts what became of its packets.
    ///
    /// # Errors
    ///
    /// As [`Case::compare`].
    pub fn mix(&self, device: &mut dyn Device, mix: &mut Mix) -> Result<(), DeviceError> {
        let network = Self::network().map_err(|error| DeviceError(error.to_string()))?;
        device.configure(&network)?;
        load(&self.rules, &self.compile(&network.facts), device)?;
        let mut now_ns = 0;
        for event in &self.events {
            match event {
                Event::Advance(time_ms) => now_ns += time_ms * 1_000_000,
                Event::Reload(text) => load(text, &compiled(text, &network.facts), device)?,
                Event::Packet(words, follows) => {
                    let states = if *follows { device.states(now_ns)? } else { Vec::new() };
                    let words = follow::translated(words, &network, &states);
                    let frame = frame(&words, &network)?;
                    let (direction, name) =
                        (frame.packet.direction, frame.packet.interface.clone());
                    let bytes = frame.build();
                    let sent = device.send(&bytes, direction, &name, now_ns)?;
                    let ends = |frame: &[u8]| reference::ends(frame).map(|ends| ends.ends);
                    let after = sent.frame.as_deref().and_then(ends);
                    mix.translated_count += u64::from(after.is_some() && after != ends(&bytes));
                    match sent.outcome {
                        Outcome::Out(_) => mix.out_count += 1,
                        Outcome::Box => mix.box_count += 1,
                        Outcome::Blocked(..) => mix.blocked_count += 1,
                    }
                }
            }
        }
        Ok(())
    }
}

fn frame(words: &str, network: &Network) -> Result<FrameSpec, DeviceError> {
    FrameSpec::parse(words, &network.facts)
        .map_err(|error| DeviceError(format!("{words}: {error}")))
}

/// A frame that left with a wrong checksum although it came with a right one.
fn broken(frame: &[u8], sent: &Sent) -> Option<(String, String)> {
    let is_sound = |frame: &[u8]| reference::ends(frame).is_none_or(|ends| ends.is_sound);
    let is_broken = is_sound(frame) && !sent.frame.as_deref().is_none_or(is_sound);
    is_broken.then(|| ("a right checksum".to_owned(), format!("{:02x?}", sent.frame)))
}

/// Whether there are choices of one device that another one follows: where rules translate, and
/// where they change identifications or sequence numbers.
#[must_use]
pub fn chooses(rules: &str) -> bool {
    translates(rules) || rules.contains("random-id") || rules.contains("modulate state")
}

fn translates(rules: &str) -> bool {
    rules.contains("->") || rules.contains("-to ")
}

/// Whether the rules are those of one dialect alone.
fn is_of_a_dialect(rules: &str) -> bool {
    translates(rules) || rules.lines().any(|line| line.split(' ').any(|word| word == "scrub"))
}

fn compiled(text: &str, facts: &Facts) -> Compiled {
    let input = ParseInput {
        name: "random",
        bytes: text.as_bytes(),
        dialect: None,
        macros: &[],
        provider: &crate::systems::files(),
        limits: Limits::default(),
    };
    compile(input, facts)
}

fn load(text: &str, compiled: &Compiled, device: &mut dyn Device) -> Result<(), DeviceError> {
    if let Some(error) = compiled.diagnostics.first().filter(|_| compiled.error_count > 0) {
        let line = error.line(&compiled.sources);
        return Err(DeviceError(format!("{line}\n{text}")));
    }
    device.load(&RuleText { name: "random", first_line: 1, text, compiled })
}

/// Another ruleset, and behind it the first half of the rules of this one.
fn changed(rules: &str, other: &str) -> String {
    let heads = ["set ", "table ", "state limiter ", "source limiter "];
    let is_head = |line: &&str| heads.iter().any(|head| line.starts_with(head));
    // All that have some have the same.
    if rules.contains(" limiter ") != other.contains(" limiter ") {
        return other.to_owned();
    }
    // Rules of either dialect are no ruleset of one.
    if is_of_a_dialect(rules) || is_of_a_dialect(other) {
        return other.to_owned();
    }
    let has_anchors = rules.contains('{') && rules.lines().any(|line| line == "}");
    if has_anchors || other.lines().any(|line| line == "}") {
        return other.to_owned();
    }
    let lines_here = rules.lines().filter(|line| !is_head(line));
    let count = lines_here.clone().count() / 2;
    let lines = other.lines().chain(lines_here.take(count));
    lines.map(|line| format!("{line}\n")).collect()
}

/// What of two answers differs; what one device cannot tell is not compared.
fn difference(one: &Sent, other: &Sent) -> Option<(String, String)> {
    if one.outcome != other.outcome {
        return Some((one.outcome.to_string(), other.outcome.to_string()));
    }
    if let (Some(one), Some(other)) = (one.logged, other.logged)
        && one != other
    {
        return Some((format!("logged: {one}"), format!("logged: {other}")));
    }
    if let (Some(one), Some(other)) = (one.copied, other.copied)
        && one != other
    {
        return Some((format!("copied: {one}"), format!("copied: {other}")));
    }
    // MAC addresses are the first twelve bytes.
    let (one, other) = (one.frame.as_ref()?, other.frame.as_ref()?);
    let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (one.get(12..) != other.get(12..)).then(|| (text(one), text(other)))
}

/// States and counters in a fixed order.
fn state_text(device: &mut dyn Device, now_ns: u64) -> Result<String, DeviceError> {
    let mut states: Vec<String> = device.states(now_ns)?.iter().map(StateInfo::to_string).collect();
    states.sort();
    let counters = device.counters(now_ns)?;
    let drops: Vec<String> = counters
        .drops
        .iter()
        .filter(|entry| *entry.1 != 0)
        .map(|entry| format!("{} {}", entry.0, entry.1))
        .collect();
    let (inserts, removals) = (counters.inserts, counters.removals);
    let (states, drops) = (states.join("\n"), drops.join(", "));
    Ok(format!("{states}\ndrops: {drops}\ninserts: {inserts}\nremovals: {removals}"))
}

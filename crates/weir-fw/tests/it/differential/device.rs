//! The firewall's programs as a device of packet tests, by test runs.
//!
//! Time is the test's: one tick of the data path is a millisecond here instead of 2^24 ns, timeout
//! tables are written in it, and `clock_offset` makes the present tick that of the test before each
//! run. The programs do not know the difference.
//!
//! What the ingress program leaves to the kernel is `box`, as for the reference.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::Duration;

use nix::time::{ClockId, clock_getres, clock_gettime};
use weir_bpf::attach::Link;
use weir_bpf::firewall::layout::{
    self, BLANK_AT, CONTROL_ENABLED, MAGIC, Sizes, control, errand, interface,
};
use weir_bpf::firewall::sweep::{Ends, Filter, Mode};
use weir_bpf::firewall::{
    Arena, FirewallError, LogReader, Options, Overload, OverloadReader, Rehearsal, Verdict,
};
use weir_fw::compile::known::Known;
use weir_fw::compile::{Input, Slot, TableName, compile};
use weir_fw::heap::Heap;
use weir_fw::image::Settings;
use weir_fw::install::{Installer, contents};
use weir_fw::timeouts::profile_seconds;
use weir_oracle::bench::DropCounter;
use weir_oracle::device::{Device, DeviceError, Network, RuleText};
use weir_oracle::outcome::{Answer, Counters, Outcome, Sent, StateInfo};
use weir_rules::evaluate::Evaluator;
use weir_rules::ir::{Prelude, Ruleset, Table, TableEntry};
use weir_rules::names;
use weir_rules::value::{Direction, Flush, Setting, Text};

use super::observed::{self, Totals};
use super::oracle;
use super::wires::{self, Wire, failed};
use crate::programs::{Lent, possible_cpu_count};

/// Room for rules and tables.
const HEAP_BYTES: u32 = 16 << 20;
/// The key of the hash of flows, and of what is added to sequence numbers.
pub(super) const HASH_SEED: [u64; 8] = [3, 1, 4, 1, 5, 9, 2, 6];
/// So few buckets that records share them.
const BUCKET_COUNT: u32 = 64;
const OVERFLOW_COUNT: u32 = 4096;
/// Ticks between two tests, so that no fragment is of another one: more than `frag` is by default.
const GAP_MS: u64 = 100_000;
/// After so long on the programs' clock it begins anew: ticks are compared as signed numbers.
const EPOCH_MS: u64 = 10 * 24 * 3600 * 1000;

/// Ethernet's header.
const ETHERNET_BYTES: usize = 14;

/// Actions of programs.
mod action {
    pub(super) const XDP_DROP: i32 = 1;
    pub(super) const XDP_PASS: i32 = 2;
    pub(super) const XDP_TX: i32 = 3;
    pub(super) const XDP_REDIRECT: i32 = 4;
    pub(super) const TCX_NEXT: i32 = -1;
    pub(super) const TCX_DROP: i32 = 2;
    /// To the box itself: an answer to what it sent.
    pub(super) const TCX_REDIRECT: i32 = 7;
}

/// The device; lives in the thread, and thereby in the namespace, that made it.
pub(crate) struct DataPath {
    firewall: Lent,
    /// Packets are judged in two stages, by this program.
    stages: Option<Rehearsal>,
    /// Packets that were left to the second stage.
    staged_count: Cell<u64>,
    log: LogReader,
    overload_ring: OverloadReader,
    fragment_count_max: u32,
    /// Makes veths have the receive queues that test runs ask for, and drops what strays in.
    keeper: DropCounter,
    links: Vec<Link>,
    network: Network,
    wires: Vec<Wire>,
    known: Known,
    /// By identifier of the rule.
    /// The tables of the ruleset, in the order of its directory.
    tables: Vec<TableName>,
    /// What sources over their limits have put into tables: anchor, table, address.
    overloaded: Vec<(Text, Text, IpAddr)>,
    /// The tick of the test's start, and of the last call.
    start_ms: u64,
    now_ms: u64,
    /// Counters at [`Device::configure`].
    before: Totals,
    is_loaded: bool,
    /// The compiler has refused a ruleset since [`Device::configure`].
    is_refused: bool,
    /// The real clock's tick changed during some run since [`Device::configure`], so that the
    /// programs may have been a millisecond ahead.
    pub(crate) has_slipped: bool,
    /// Runs begin when that will not happen: slower, for the second try.
    pub(crate) is_careful: bool,
}

/// Programs that follow so many packets in fragments: the size of that table is fixed at a load.
fn load(fragment_count_max: u32) -> Result<Option<Lent>, FirewallError> {
    let options = Options {
        hash_seed: HASH_SEED,
        fragment_count_max,
        source_count_max: 1 << 16,
        log_bytes: 1 << 16,
        event_bytes: 1 << 16,
        change_bytes: 1 << 16,
    };
    let sizes = Sizes {
        bucket_count: BUCKET_COUNT,
        overflow_count: OVERFLOW_COUNT,
        heap_bytes: HEAP_BYTES,
        cpu_count: possible_cpu_count(),
    };
    Lent::new(options, sizes)
}

/// The kernel's coarse clock in ticks, as the programs read it.
fn real_tick() -> Result<u32, DeviceError> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_err(|e| failed("clock", e))?;
    let ticks = Duration::from(time).as_nanos() >> layout::TICK_SHIFT;
    Ok(low(u64::try_from(ticks).unwrap_or(u64::MAX)))
}

/// Waits until the coarse clock, which lags behind, has passed into the present tick, and the next
/// one is some milliseconds away.
fn wait_for_a_new_tick() -> Result<(), DeviceError> {
    const TICK_NS: u128 = 1 << layout::TICK_SHIFT;
    const SPARE_NS: u128 = 3_000_000;
    let read = |result: nix::Result<_>| result.map_err(|error| failed("clock", error));
    let lag_ns = Duration::from(read(clock_getres(ClockId::CLOCK_MONOTONIC_COARSE))?).as_nanos();
    loop {
        let now = Duration::from(read(clock_gettime(ClockId::CLOCK_MONOTONIC))?);
        let since_ns = now.as_nanos() % TICK_NS;
        if since_ns > lag_ns && since_ns < TICK_NS - SPARE_NS {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn low(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// `weir_fw_interface.flags` of all interfaces.
const FLAGS: u32 = layout::INTERFACE_PRESENT | layout::INTERFACE_ATTACHED | layout::INTERFACE_XMIT;

/// What a ruleset says beside its rules; a tick is a millisecond.
fn settings(ruleset: &Ruleset, known: &Known) -> Settings {
    let seconds = profile_seconds(&ruleset.settings.timeouts);
    let profiles = known.timeouts(&seconds).into_iter();
    Settings {
        state_limit: ruleset.settings.limits[0],
        reserved_count: ruleset.settings.state_reserve,
        source_limit: ruleset.settings.limits[1],
        adaptive: adaptive(ruleset),
        flood: [0; 2],
        profiles: profiles
            .map(|timeouts| timeouts.map(|seconds| seconds.saturating_mul(1000)))
            .collect(),
    }
}

/// `adaptive.start` and `adaptive.end`, which follow `set limit states` unless they are set
/// (pfctl.c).
fn adaptive(ruleset: &Ruleset) -> [u32; 2] {
    let (mut is_set, mut limit) = (false, None);
    for line in &ruleset.prelude {
        match line {
            Prelude::Set(Setting::Timeout(index, _), _) => {
                is_set |= names::timeout_name(*index).starts_with("adaptive.");
            }
            Prelude::Set(Setting::Limit(0, count), _) => limit = Some(*count),
            _ => {}
        }
    }
    if let (Some(limit), false) = (limit, is_set) {
        return [limit / 10 * 6, limit / 10 * 12];
    }
    ["adaptive.start", "adaptive.end"].map(|name| {
        let index = names::timeout(name).map(usize::from);
        index.and_then(|index| ruleset.settings.timeouts.get(index)).copied().unwrap_or(0)
    })
}

impl DataPath {
    /// Loads the programs. To be called inside a namespace of its own. `None` without privileges.
    pub(crate) fn new() -> Result<Option<Self>, DeviceError> {
        let fragment_count_max = names::LIMITS[2].1;
        let firewall = load(fragment_count_max).map_err(|error| failed("load", error))?;
        let Some(firewall) = firewall else { return Ok(None) };
        wires::prepare_namespace()?;
        Ok(Some(Self {
            log: firewall.log_reader().map_err(|error| failed("ring buffer", error))?,
            overload_ring: firewall
                .overload_reader()
                .map_err(|error| failed("ring buffer", error))?,
            before: Totals::read(&firewall, 0),
            firewall,
            stages: None,
            staged_count: Cell::new(0),
            fragment_count_max,
            keeper: DropCounter::load().map_err(|error| failed("load", error))?,
            links: Vec::new(),
            network: Network::default(),
            wires: Vec::new(),
            known: Known::default(),
            tables: Vec::new(),
            overloaded: Vec::new(),
            start_ms: GAP_MS,
            now_ms: GAP_MS,
            is_loaded: false,
            is_refused: false,
            has_slipped: false,
            is_careful: false,
        }))
    }

    /// Has packets judged in two stages from the next [`Device::configure`] on.
    pub(crate) fn use_two_stages(&mut self) -> Result<(), DeviceError> {
        let rehearsal = self.firewall.rehearsal();
        self.stages = Some(rehearsal.map_err(|error| failed("load", error))?);
        Ok(())
    }

    /// Packets that were left to the second stage.
    pub(crate) fn staged_count(&self) -> u64 {
        self.staged_count.get()
    }

    /// Whether the compiler has refused a ruleset of this test.
    pub(crate) fn was_refused(&self) -> bool {
        self.is_refused
    }

    /// Other programs, and memory as after a load.
    fn reload(&mut self, fragment_count_max: u32) -> Result<(), DeviceError> {
        let lent = load(fragment_count_max).map_err(|error| failed("load", error))?;
        let lent = lent.ok_or_else(|| failed("load", "there were privileges before"))?;
        self.log = lent.log_reader().map_err(|error| failed("ring buffer", error))?;
        let ring = lent.overload_reader();
        self.overload_ring = ring.map_err(|error| failed("ring buffer", error))?;
        self.firewall = lent;
        if self.stages.is_some() {
            self.use_two_stages()?;
        }
        self.fragment_count_max = fragment_count_max;
        self.start_ms = GAP_MS;
        self.now_ms = GAP_MS;
        self.start()
    }

    /// No rules, no states, and counters from here on.
    fn start(&mut self) -> Result<(), DeviceError> {
        let (arena, regions) = (self.firewall.arena(), self.firewall.regions());
        let swept = self.firewall.sweep_all(Mode::Kill(Filter::default()));
        let swept = swept.map_err(|error| failed("sweep", error))?;
        if swept.live_count + swept.busy_count != 0 || arena.read64(control::STATE_COUNT) != 0 {
            return Err(DeviceError(format!("states that cannot be killed: {swept:?}")));
        }
        self.firewall.end_limited_sources(true).map_err(|error| failed("sweep", error))?;
        arena.write32(control::ACTIVE, BLANK_AT);
        arena.write32(control::FLAGS, CONTROL_ENABLED);
        arena.clear(layout::SCRUBS_AT, u64::from(layout::SCRUB_COUNT_MAX + 1) * 8);
        Heap::format(arena, regions.heap.at, HEAP_BYTES).map_err(|error| failed("heap", error))?;
        self.known = Known::default();
        self.tables.clear();
        self.overloaded.clear();
        arena.write32(control::SECOND_TICKS, 1000);
        for slot in 0..layout::INTERFACE_COUNT_MAX {
            arena.clear(
                regions.interfaces.at + slot * interface::SIZE_BYTES,
                interface::SIZE_BYTES.into(),
            );
        }
        arena.clear(regions.ifslots.at, layout::IFINDEX_COUNT_MAX.into());
        self.firewall.load_second_program().map_err(|error| failed("program", error))?;
        for wire in &self.wires {
            let at = regions.interfaces.at + u32::from(wire.slot) * interface::SIZE_BYTES;
            arena.write32(at + interface::IFINDEX, wire.ifindex);
            arena.write32(at + interface::MTU_BYTES, wire.mtu_bytes);
            arena.write(at + interface::MAC, &wire.mac);
            arena.write(at + interface::NAME, wire.name.as_bytes());
            arena.write(at + interface::READ_AS, &[wire.slot]);
            arena.write32(at + interface::FLAGS, FLAGS);
            arena.write(regions.ifslots.at + wire.ifindex, &[wire.slot]);
            let opened = self.firewall.open_exit(wire.slot.into(), wire.ifindex);
            opened.map_err(|error| failed("exit", error))?;
        }
        let stages = if self.stages.is_some() { layout::STAGES_TWO } else { layout::STAGES_ONE };
        arena.write32(control::STAGES, stages);
        let generation = arena.read32(control::GENERATION) % 0xffff + 1;
        arena.write32(control::GENERATION, generation);
        self.log.read(Duration::ZERO).map_err(|error| failed("ring buffer", error))?;
        self.overload_ring.read(Duration::ZERO).map_err(|error| failed("ring buffer", error))?;
        self.before = Totals::read(&self.firewall, self.slot_max());
        self.is_loaded = false;
        Ok(())
    }

    fn slot_max(&self) -> u32 {
        u32::try_from(self.wires.len()).unwrap_or(0)
    }

    fn wire(&self, name: &str) -> Result<&Wire, DeviceError> {
        let found = self.wires.iter().find(|known| known.name == name);
        found.ok_or_else(|| DeviceError(format!("`{name}` is no interface")))
    }

    /// The present tick of the test.
    fn tick(&self) -> u32 {
        low(self.now_ms)
    }

    /// Sets the programs' clock, and lets what is due expire.
    fn set_time(&mut self, now_ns: u64) -> Result<(), DeviceError> {
        if self.is_careful {
            wait_for_a_new_tick()?;
        }
        self.now_ms = self.start_ms + now_ns / 1_000_000;
        let offset = self.tick().wrapping_sub(real_tick()?);
        self.firewall.arena().write32(control::CLOCK_OFFSET, offset);
        let swept =
            self.firewall.sweep_all(Mode::Expire).map_err(|error| failed("sweep", error))?;
        self.firewall.expire_sources().map_err(|error| failed("sweep", error))?;
        // The second run saw fewer states, by which adaptive timeouts are longer.
        self.has_slipped |= swept.run_count > 1 && swept.removed_count > 0;
        self.check_time()
    }

    fn check_time(&mut self) -> Result<(), DeviceError> {
        let offset = self.firewall.arena().read32(control::CLOCK_OFFSET);
        self.has_slipped |= real_tick()?.wrapping_add(offset) != self.tick();
        Ok(())
    }

    fn ingress(&self, frame: &[u8], wire: &Wire) -> Result<(Verdict, Totals), DeviceError> {
        let mut frame = frame.to_vec();
        if let Some(destination) = frame.get_mut(..6) {
            destination.copy_from_slice(&wire.mac);
        }
        let before = Totals::read(&self.firewall, self.slot_max());
        let verdict = match &self.stages {
            None => self.firewall.run_ingress(wire.ifindex, &frame),
            Some(rehearsal) => rehearsal.run(wire.ifindex, &frame),
        };
        let verdict = verdict.map_err(|error| failed("ingress", error))?;
        let counted = Totals::read(&self.firewall, self.slot_max()).since(&before);
        self.staged_count.set(self.staged_count.get() + counted.staged);
        Ok((verdict, counted))
    }

    fn egress(&self, frame: &[u8], wire: &Wire) -> Result<(Verdict, Totals), DeviceError> {
        let before = Totals::read(&self.firewall, self.slot_max());
        let verdict = self.firewall.run_egress(wire.ifindex, frame);
        let verdict = verdict.map_err(|error| failed("egress", error))?;
        Ok((verdict, Totals::read(&self.firewall, self.slot_max()).since(&before)))
    }

    /// By which interface a frame leaves.
    fn leaves_by(&self, frame: &[u8]) -> Result<&str, DeviceError> {
        let found = self.wires.iter().find(|known| frame.get(..6) == Some(&known.neighbour_mac));
        let Some(wire) = found else {
            return Err(DeviceError(format!("a frame for nobody: {:02x?}", frame.get(..12))));
        };
        if frame.get(6..12) != Some(&wire.mac) {
            return Err(DeviceError(format!("a frame of nobody's: {:02x?}", frame.get(..12))));
        }
        Ok(&wire.name)
    }

    fn installer(&self) -> Result<Installer<'_, Arena>, DeviceError> {
        let arena = self.firewall.arena();
        let heap = Heap::adopt(arena, self.firewall.regions().heap.at, HEAP_BYTES);
        let heap = heap.map_err(|error| failed("heap", error))?;
        Ok(Installer::new(arena, heap, possible_cpu_count(), 0x1234_5678))
    }

    /// The table that a name means in an anchor: whose it is, and its place in the directory.
    fn table<'a>(&self, anchor: &'a str, name: &str) -> Option<(&'a str, usize)> {
        [anchor, ""].into_iter().find_map(|anchor| {
            let key = TableName::Named(anchor.into(), name.into());
            Some((anchor, self.tables.iter().position(|known| *known == key)?))
        })
    }

    /// What the control process does when a source has gone over its limits.
    fn overload(&mut self, over: &Overload) -> Result<(), DeviceError> {
        // The rule of a state may have gone, as in the control process (engine/overload.rs).
        let Some(overload) = self.known.overload(over.rule) else { return Ok(()) };
        let place = self.table(&overload.anchor, &overload.table);
        let anchor = place.map_or(overload.anchor.as_str(), |(anchor, _)| anchor);
        let word = (Text::from(anchor), Text::from(overload.table.as_str()), over.address);
        if let Some((_, index)) = place.filter(|_| !self.overloaded.contains(&word)) {
            let installer = self.installer()?;
            let mut entries = installer.table_entries(index);
            entries.push(entry(over.address));
            let now_ns = self.now_ms * 1_000_000;
            let replaced = installer.replace_table(index, &entries, now_ns);
            replaced.map_err(|error| failed("table", error))?;
        }
        let rule = match overload.flush {
            Flush::No => None,
            Flush::Rule => Some(Some(over.rule)),
            Flush::Global => Some(None),
        };
        if !self.overloaded.contains(&word) {
            self.overloaded.push(word);
        }
        let Some(rule) = rule else { return Ok(()) };
        let (ip_version, address) = match over.address {
            IpAddr::V4(source) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&source.octets());
                (4, bytes)
            }
            IpAddr::V6(source) => (6, source.octets()),
        };
        let source = Ends { address, mask: [0xff; 16], port: 0 };
        let filter = Filter { ip_version, source, rule, ..Filter::default() };
        let swept = self.firewall.sweep_all(Mode::Kill(filter));
        swept.map(|_| ()).map_err(|error| failed("sweep", error))
    }

    /// Of a frame that comes in: what becomes of it, how it leaves, and whether it is copied.
    fn received(&self, wire: &Wire, frame: &[u8]) -> Result<Seen, DeviceError> {
        // No driver hands such a frame on, and no test run takes it.
        if frame.len() < ETHERNET_BYTES {
            return Ok((Outcome::Box, None, Some(false)));
        }
        let (outcome, frame) = self.judged(wire, frame)?;
        let Some((errand, rest)) = frame.as_deref().and_then(errand) else {
            return Ok((outcome, frame, Some(false)));
        };
        Ok((outcome, Some(rest.to_vec()), Some(errand != 0)))
    }

    fn judged(&self, wire: &Wire, frame: &[u8]) -> Result<(Outcome, Option<Vec<u8>>), DeviceError> {
        let (verdict, counted) = self.ingress(frame, wire)?;
        let reason = counted.reason()?;
        match (verdict.action, reason) {
            // The second stage cannot send one back: it counts what it would have answered.
            (action::XDP_DROP, Some(reason)) if counted.staged == 1 && counted.unanswered == 1 => {
                Ok((Outcome::Blocked(reason, Answer::Rst), None))
            }
            (action::XDP_DROP, Some(reason)) => Ok((Outcome::Blocked(reason, Answer::None), None)),
            // An answer: by a redirection to where the packet came from, where that can be.
            (action::XDP_TX | action::XDP_REDIRECT, Some(reason)) => {
                Ok((Outcome::Blocked(reason, answer(&verdict.frame)?), None))
            }
            (action::XDP_PASS, None) => Ok((Outcome::Box, Some(verdict.frame))),
            (action::XDP_TX | action::XDP_REDIRECT, None) => {
                let name = self.leaves_by(&verdict.frame)?;
                if verdict.action == action::XDP_TX && name != wire.name {
                    return Err(DeviceError(format!("sent back, with the MAC address of {name}")));
                }
                Ok((Outcome::Out(name.into()), Some(verdict.frame)))
            }
            (action, reason) => {
                Err(DeviceError(format!("the ingress program returns {action}, {reason:?}")))
            }
        }
    }

    fn sent(&self, wire: &Wire, frame: &[u8]) -> Result<Seen, DeviceError> {
        let (verdict, counted) = self.egress(frame, wire)?;
        let copied = Some(counted.copies > 0);
        let (outcome, frame) = match (verdict.action, counted.reason()?) {
            (action::TCX_DROP, Some(reason)) => Ok((Outcome::Blocked(reason, Answer::None), None)),
            (action::TCX_REDIRECT, Some(reason)) => {
                Ok((Outcome::Blocked(reason, answer(&verdict.frame)?), None))
            }
            (action::TCX_NEXT, None) => {
                Ok((Outcome::Out(wire.name.as_str().into()), Some(verdict.frame)))
            }
            // To a gateway: by the interface that has counted it.
            (action::TCX_REDIRECT, None) => {
                let slot = counted.left.iter().position(|count| *count == 1);
                let found = self.wires.iter().find(|wire| Some(wire.slot.into()) == slot);
                let name = found.ok_or_else(|| DeviceError("it left nowhere".to_owned()))?;
                Ok((Outcome::Out(name.name.as_str().into()), Some(verdict.frame)))
            }
            (action, reason) => {
                Err(DeviceError(format!("the egress program returns {action}, {reason:?}")))
            }
        }?;
        Ok((outcome, frame, copied))
    }
}

/// What became of a frame, how it left, and whether it was to be sent elsewhere as well.
type Seen = (Outcome, Option<Vec<u8>>, Option<bool>);

/// What is left to do for a frame by what stands before it, `weir_fw_errand.copy_at`, and the
/// frame itself.
fn errand(frame: &[u8]) -> Option<(u32, &[u8])> {
    let (errand, rest) = frame.split_at_checked(errand::SIZE_BYTES as usize)?;
    let word = |at: u32| errand.get(at as usize..)?.first_chunk().copied().map(u32::from_ne_bytes);
    (word(errand::MAGIC)? == MAGIC).then_some((word(errand::COPY_AT)?, rest))
}

fn answer(frame: &[u8]) -> Result<Answer, DeviceError> {
    observed::answer(frame).ok_or_else(|| DeviceError(format!("no answer: {frame:02x?}")))
}

fn entry(address: IpAddr) -> TableEntry {
    TableEntry { address, bits: if address.is_ipv4() { 32 } else { 128 }, not: false }
}

impl Device for DataPath {
    fn configure(&mut self, network: &Network) -> Result<(), DeviceError> {
        let is_same =
            self.network.interfaces == network.interfaces && self.network.routes == network.routes;
        if !is_same {
            self.links.clear();
            wires::remove(&self.wires)?;
            self.wires.clear();
            self.wires = wires::make(network)?;
            for wire in &self.wires {
                let link = self.keeper.attach(wire.ifindex);
                self.links.push(link.map_err(|error| failed("attach", error))?);
            }
        }
        self.network = network.clone();
        self.is_refused = false;
        self.has_slipped = false;
        self.start_ms = self.now_ms + GAP_MS;
        self.now_ms = self.start_ms;
        if self.start_ms > EPOCH_MS {
            return self.reload(self.fragment_count_max);
        }
        self.start()
    }

    fn load(&mut self, rules: &RuleText<'_>) -> Result<(), DeviceError> {
        let ruleset = &rules.compiled.ruleset;
        if let Some(load) = ruleset.loads.first() {
            self.is_refused = true;
            return Err(DeviceError(format!("{}: anchor `{}` is a file", rules.name, load.name)));
        }
        // The map of fragments has its size from its making.
        if !self.is_loaded && ruleset.settings.limits[2] != self.fragment_count_max {
            self.reload(ruleset.settings.limits[2])?;
        }
        let facts = self.network.facts.clone();
        let evaluator = Evaluator::new(ruleset, &[], &facts);
        let evaluator = evaluator.map_err(|error| failed(rules.name, error))?;
        let slot = |wire: &Wire| Slot { number: wire.slot, interface: wire.name.clone() };
        let slots: Vec<Slot> = self.wires.iter().map(slot).collect();
        let (resolver, counted) = (&facts, crate::counted_tables(ruleset));
        let known = &self.known;
        let (slots, counted) = (&slots, &counted);
        let typed = &weir_fw::compile::declared_values(ruleset);
        let input = Input { evaluator: &evaluator, resolver, slots, known, counted, typed };
        let mut compiled = compile(&input).map_err(|refused| {
            self.is_refused = true;
            let lines = refused.0.iter().map(|refusal| refusal.line(&rules.compiled.sources));
            DeviceError(lines.collect::<Vec<_>>().join("\n"))
        })?;
        compiled.settings = settings(ruleset, &compiled.known);
        compiled.typed_at = crate::place_typed(&self.installer()?, ruleset);
        // A table that the new rules fill is as they say; others keep what came in.
        self.overloaded.retain(|(anchor, name, _)| {
            let is_it = |table: &&Table| table.anchor == *anchor && table.name == *name;
            ruleset.tables.iter().find(is_it).is_none_or(|table| table.sources.is_empty())
        });
        self.tables.clone_from(&compiled.tables);
        let mut tables = contents("", ruleset);
        for (anchor, name, address) in &self.overloaded {
            let anchor = self.table(anchor, name).map_or(&**anchor, |(anchor, _)| anchor);
            tables.entry((anchor.into(), name.clone())).or_default().push(entry(*address));
        }
        let installer = self.installer()?;
        let known = installer
            .activate(&compiled, &evaluator, &tables, self.now_ms * 1_000_000)
            .map_err(|error| failed("activate", error))?;
        installer.renew(&known, compiled.rules.iter().map(|info| info.id));
        self.known = known;
        self.is_loaded = true;
        Ok(())
    }

    fn send(
        &mut self,
        frame: &[u8],
        direction: Direction,
        interface: &str,
        now_ns: u64,
    ) -> Result<Sent, DeviceError> {
        if direction == Direction::Out && oracle::cannot_be_sent(frame) {
            return Ok(oracle::not_sent());
        }
        self.set_time(now_ns)?;
        let wire = self.wire(interface)?;
        let (outcome, frame, copied) = match direction {
            Direction::In => self.received(wire, frame)?,
            Direction::Out => self.sent(wire, frame)?,
        };
        self.check_time()?;
        let records = self.log.read(Duration::ZERO);
        let records = records.map_err(|error| failed("ring buffer", error))?;
        let is_logged = !records.is_empty();
        let over = self.overload_ring.read(Duration::ZERO);
        for record in over.map_err(|error| failed("ring buffer", error))? {
            self.overload(&record)?;
        }
        let copied = copied.filter(|_| !matches!(outcome, Outcome::Blocked(..)));
        Ok(Sent { outcome, frame, logged: Some(is_logged), copied })
    }

    fn counters(&mut self, now_ns: u64) -> Result<Counters, DeviceError> {
        self.set_time(now_ns)?;
        let counted = Totals::read(&self.firewall, self.slot_max()).since(&self.before);
        let mut counters = Counters {
            inserts: counted.inserts,
            removals: counted.removals,
            ..Counters::default()
        };
        for (at, count) in counted.drops.iter().enumerate().filter(|(_, count)| **count != 0) {
            counters.drops.insert(observed::reason(at)?, *count);
        }
        Ok(counters)
    }

    fn states(&mut self, now_ns: u64) -> Result<Vec<StateInfo>, DeviceError> {
        self.set_time(now_ns)?;
        Ok(observed::states(&self.firewall, self.tick()))
    }
}

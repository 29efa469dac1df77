//! The object that owns a running data path: loads and replaces rulesets, attaches to interfaces,
//! adopts what a dead daemon left, and removes everything.
//!
//! What a ruleset changes happens in one order: it is compiled whole, then what may be refused (an
//! interface without XDP, memory) is tried, and then one store makes it active. On any error before
//! that the running ruleset stays as it is.

mod answers;
mod clock;
pub mod counters;
mod divert;
mod document;
mod elsewhere;
mod exchanged;
mod flows;
mod forwarding;
mod gateways;
mod interfaces;
mod kill;
mod limiters;
mod load;
mod memory;
mod overload;
mod preview;
mod queues;
mod scrubs;
mod source;
mod sources;
mod stages;
mod start;
mod status;
mod stored;
mod tables;
#[cfg(test)]
mod tests;
mod typed;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{CONTROL_ENABLED, control, kept_set};
use weir_net::{LinkInfo, Netlink};
use weir_rules::evaluate::List;
use weir_rules::facts::Facts;

use crate::compile::known::{Gateway, Known};
use crate::compile::{RuleInfo, TableName};
use crate::heap::Heap;
use crate::install::Installer;
use crate::show::rules::Loader;
use counters::Totals;
use interfaces::Interfaces;
use source::Source;
use tables::Tables;
use typed::TypedTables;

pub(crate) use answers::STATES_TITLE;
pub(crate) use answers::StatesPrinter;
pub(crate) use answers::now_tick;
pub(crate) use clock::{boot_ns, monotonic_ns};
pub(crate) use counters::LiveCounts;
pub(crate) use counters::live_counts;
pub(crate) use exchanged::{EXCHANGED, Exchanged, SyncCounters};
pub(crate) use flows::FlowCounters;
pub(crate) use kill::kill;
pub use preview::{refusals_of_anchor, refusals_of_whole, unfilterable};
pub(crate) use sources::kill_sources;
pub(crate) use stages::Ways;
pub use status::{stats_text, status_text};
pub(crate) use stored::{Meaning, STALE, StatesStorer, leave_out, ticks};

/// Why something could not be done; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl Refused {
    pub(crate) fn because(cause: impl std::fmt::Display) -> Self {
        Self(cause.to_string())
    }
}

/// What is known of the machine; the command line has it.
pub trait Machine: Send + Sync {
    /// Interfaces, groups, addresses and names as they are now.
    ///
    /// # Errors
    ///
    /// Why they cannot be told.
    fn facts(&self) -> Result<Facts, String>;
}

/// How the data path runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Interfaces without native XDP get generic XDP.
    pub is_generic: bool,
}

/// The generation of next hops has 16 bits, and is never 0.
const GENERATION_MAX: u32 = u16::MAX as u32;

/// A running data path.
pub struct Engine {
    firewall: Arc<Firewall>,
    machine: Arc<dyn Machine>,
    options: Options,
    facts: Facts,
    main: Source,
    /// Loaded into anchors, by path.
    anchors: Vec<Source>,
    known: Known,
    /// To whom rules of the ruleset that runs have packets copied.
    copied_to: Vec<Gateway>,
    /// The rules of the active image.
    rules: Vec<RuleInfo>,
    /// The tables of the active image.
    directory: Vec<TableName>,
    tables: Tables,
    typed: TypedTables,
    /// What rules with `overload` do, by identifier.
    interfaces: Interfaces,
    stages: stages::Choice,
    scrubs: scrubs::Release,
    queues: queues::Made,
    baseline: Totals,
    flow_counters: Arc<FlowCounters>,
    sync_counters: Arc<SyncCounters>,
    debug: String,
    loader: Loader,
    loaded_unix_s: i64,
    /// When counters of interfaces began.
    started_unix_s: i64,
    seed: u64,
    is_adopted: bool,
    /// The programs were taken off, and stay off.
    is_stopped: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("file", &self.main.load.name).finish_non_exhaustive()
    }
}

impl Engine {
    /// The programs and their memory.
    #[must_use]
    pub fn firewall(&self) -> &Arc<Firewall> {
        &self.firewall
    }

    /// Whether it was running before this process.
    #[must_use]
    pub(crate) fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Seconds between two looks at every state (`set timeout interval`).
    #[must_use]
    pub fn interval_s(&self) -> u32 {
        let index = weir_rules::names::timeout("interval").map(usize::from);
        let timeouts = &self.main.ruleset.settings.timeouts;
        index.and_then(|index| timeouts.get(index)).copied().unwrap_or(10).max(1)
    }

    /// The name of the interface in a slot.
    #[must_use]
    pub fn interface_name(&self, slot: u32) -> String {
        self.interfaces.name(usize::try_from(slot).unwrap_or(0)).to_owned()
    }

    /// The filter rules, without those of lists that translate.
    pub(crate) fn filter_rules(&self) -> impl Iterator<Item = &RuleInfo> {
        self.rules.iter().filter(|info| info.list == List::Filter)
    }

    /// Where a rule is, by its identifier, in what is loaded now.
    #[must_use]
    pub(crate) fn rule_place(&self, id: u32) -> Option<RulePlace> {
        let rule = self.rules.iter().find(|rule| rule.id == id)?;
        let is_caller = |path: &str| {
            rule.anchor
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut callers = self.filter_rules().filter(|_| !rule.anchor.is_empty());
        let caller = callers.find(|caller| {
            caller.anchor.is_empty()
                && answers::called(&caller.text, "").is_some_and(|path| is_caller(&path))
        });
        Some(RulePlace {
            number: rule.number,
            caller: caller.map(|caller| caller.number),
            anchor: rule.anchor.to_string(),
        })
    }

    /// Frees what no packet can be reading any more.
    pub fn reap(&self) {
        // A damaged heap is told by whoever needs it next.
        if let Ok(installer) = self.installer() {
            drop(installer.heap().reap(boot_ns()));
        }
    }

    /// Whether rules depend on which interface default routes use (the group `egress`).
    #[must_use]
    pub(crate) fn depends_on_routes(&self) -> bool {
        self.rules.iter().any(|rule| rule.text.contains("egress"))
    }

    /// Whether some rule logs.
    #[must_use]
    pub(crate) fn has_log_rules(&self) -> bool {
        self.main.ruleset.main.filter.iter().any(|rule| rule.log.is_some())
    }

    /// Whether flows of some rule are to be exported.
    pub(crate) fn has_pflow_rules(&self) -> bool {
        self.rules.iter().any(|rule| rule.has_pflow)
    }

    /// What was exported of flows.
    pub(crate) fn flow_counters(&self) -> &Arc<FlowCounters> {
        &self.flow_counters
    }

    /// What was sent to another firewall, and what has come from one.
    pub(crate) fn sync_counters(&self) -> &Arc<SyncCounters> {
        &self.sync_counters
    }

    /// Looks which interfaces take redirected frames now: a veth does while its peer has XDP or
    /// GRO.
    pub(crate) fn refresh_redirects(&mut self) {
        if self.interfaces.refresh_redirects() {
            self.interfaces.publish(&self.firewall);
            renew_next_hops(&self.firewall);
        }
    }

    /// Makes room for what states' packets are changed by. To be called once a second.
    pub(crate) fn release_scrubs(&mut self) {
        self.scrubs.look(&self.firewall);
    }

    /// What has been seen of interfaces since this was asked last.
    pub(crate) fn note_partial(&mut self) -> Vec<String> {
        self.interfaces.note_partial(&self.firewall)
    }

    fn is_enabled(&self) -> bool {
        self.firewall.arena().read32(control::FLAGS) & CONTROL_ENABLED != 0
    }

    /// `pfctl -e`, `-d`.
    ///
    /// # Errors
    ///
    /// pfctl's words if it is so already.
    pub fn enable(&mut self, is_enabled: bool) -> Result<&'static str, Refused> {
        if self.is_enabled() == is_enabled {
            let word = if is_enabled { "pf already enabled" } else { "pf not enabled" };
            return Err(Refused::because(word));
        }
        self.set_enabled(is_enabled);
        Ok(if is_enabled { "pf enabled" } else { "pf disabled" })
    }

    fn set_enabled(&self, is_enabled: bool) {
        let arena = self.firewall.arena();
        arena.write64(control::ENABLED_NS, boot_ns());
        let flags = arena.word32(control::FLAGS);
        if is_enabled {
            flags.fetch_or(CONTROL_ENABLED, Ordering::AcqRel);
        } else {
            flags.fetch_and(!CONTROL_ENABLED, Ordering::AcqRel);
        }
    }

    /// `pfctl -x`: kept and shown.
    ///
    /// # Errors
    ///
    /// If the shared memory is damaged or full.
    pub(crate) fn set_debug(&mut self, level: &str) -> Result<(), Refused> {
        level.clone_into(&mut self.debug);
        self.write_document()
    }

    /// `pfctl -F info`: counts from now on.
    ///
    /// # Errors
    ///
    /// If the shared memory is damaged or full.
    pub fn clear_counters(&mut self) -> Result<(), Refused> {
        self.baseline = Totals::read(&self.firewall);
        self.flow_counters.clear();
        self.sync_counters.clear();
        self.write_document()
    }

    /// Takes all programs off, for good: nothing is loaded or attached any more. Memory and states
    /// go when the last process that has them open ends.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.interfaces.detach(&self.firewall);
        elsewhere::detach(&self.firewall);
        queues::remove_all();
        divert::leave_marked();
    }

    fn installer(&self) -> Result<Installer<'_, weir_bpf::firewall::Arena>, Refused> {
        let (arena, regions) = (self.firewall.arena(), self.firewall.regions());
        let heap = Heap::adopt(arena, regions.heap.at, regions.sizes.heap_bytes);
        let heap = heap.map_err(Refused::because)?;
        Ok(Installer::new(arena, heap, regions.sizes.cpu_count, self.seed))
    }
}

/// Where a rule is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RulePlace {
    /// Its number in its anchor.
    pub(crate) number: u32,
    /// The number of the main ruleset's rule that leads to the anchor.
    pub(crate) caller: Option<u32>,
    /// The path of its anchor.
    pub(crate) anchor: String,
}

/// Makes all next hops stale: a route, a neighbour, an interface or an address has changed.
pub fn renew_next_hops(firewall: &Firewall) {
    let word = firewall.arena().word32(control::GENERATION);
    let next = |generation: u32| Some(generation % GENERATION_MAX + 1);
    // The closure always gives a value.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
}

/// Forgets kept routes of generations that have passed, before their numbers come again.
///
/// Their CPUs may write them meanwhile: what they lose by that they ask the kernel for once more.
pub fn forget_routes(firewall: &Firewall) {
    let (arena, kept) = (firewall.arena(), &firewall.regions().kept);
    let now = arena.read32(control::GENERATION);
    let end = u32::try_from(u64::from(kept.at) + kept.bytes).unwrap_or(u32::MAX);
    for at in (kept.at..end).step_by(kept_set::SIZE_BYTES as usize) {
        let generation = arena.word32(at + kept_set::GENERATION);
        let then = generation.load(Ordering::Relaxed);
        if then != 0 && then != now {
            generation.store(0, Ordering::Relaxed);
        }
    }
}

/// The interfaces of the calling thread's network namespace.
fn links() -> Result<Vec<LinkInfo>, Refused> {
    let netlink = Netlink::open().map_err(Refused::because)?;
    netlink.links().map_err(Refused::because)
}

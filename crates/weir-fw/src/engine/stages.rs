//! In how many stages packets are judged: what `set weir-stages` says, as far as two are right, and
//! by default what the number of states calls for.
//!
//! Two stages cost every packet a little and save the wait for its state's memory, which only large
//! tables make. They are right where the destination alone determines the way, no rule answers what
//! it blocks, and every program is in the driver. [`Ways`] follows the first of these.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_bpf::firewall::layout::{
    CONTROL_FAMILIES, CONTROL_ROUTED, CONTROL_TRANSLATED, control, image, image_flags, table,
};
use weir_bpf::firewall::{Firewall, Stages};
use weir_net::Netlink;
use weir_net::route::Fork;
use weir_rules::value::WeirStages;

use super::{Engine, counters};

/// States from which on two stages are the faster ones, and below which one is: they are on a par
/// at about 5,000.
const TWO_FROM_STATE_COUNT: u64 = 8_000;
const ONE_BELOW_STATE_COUNT: u64 = 4_000;
/// Packets of a group, on average, below which two stages save nothing.
const GROUP_PACKETS_MIN: u64 = 2;
/// Groups that an average is taken of.
const GROUP_COUNT_MIN: u64 = 1_000;
/// Looks after which no packet goes by an image any more that another one took the place of.
const OVER_LOOKS: u32 = 4;
/// Looks, a second each, for which one stage stays when groups were too small.
const SMALL_GROUP_LOOKS: u32 = 60;

/// Looks for which a program that the kernel has refused is not loaded again.
const REFUSED_LOOKS: u32 = 60;

/// What is known of the routes: whether the destination alone determines the way.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// All was looked at, and nothing has changed since that may make a way fork.
    are_known: AtomicBool,
}

impl Ways {
    /// They may fork from now on: no packet is left to the second stage any more.
    pub(crate) fn forget(&self, firewall: &Firewall) {
        self.are_known.store(false, Ordering::SeqCst);
        firewall.leave_second_stage();
    }

    /// Whether they are what the last look has found.
    pub(crate) fn are_known(&self) -> bool {
        self.are_known.load(Ordering::SeqCst)
    }

    /// Looks at all rules and routes of the calling thread's network namespace.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub(crate) fn look(&self) -> Result<Option<Fork>, String> {
        // Before the look: what changes meanwhile is not known after it.
        self.are_known.store(true, Ordering::SeqCst);
        let found = Netlink::open().and_then(|netlink| netlink.fork());
        found.map_err(|error| error.to_string())
    }
}

/// How it stands with the stages.
#[derive(Debug)]
pub(super) struct Choice {
    /// Why there is one; `None`: there are two.
    reason: Option<String>,
    /// Somebody has looked before.
    has_looked: bool,
    /// Looks until the second stage's program is tried again, which the kernel has refused.
    refused_looks: u32,
    /// It is to be loaded now.
    is_program_due: bool,
    /// What makes a way fork, as it was found last.
    fork: Result<Option<Fork>, String>,
    /// Packets and groups of the last look.
    counted: [u64; 2],
    /// Looks for which groups were too small to be worth it.
    small_group_looks: u32,
    /// Since when neither the ruleset nor any state has translated.
    untranslated: Since,
    /// Since when none has had a gateway.
    unrouted: Since,
}

/// Looks in a row for which something of a ruleset and of all states was not there.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    look_count: u32,
}

impl Since {
    /// Whether that is so for good, by one more look.
    fn look(&mut self, is_there: bool) -> bool {
        self.look_count = if is_there { 0 } else { self.look_count.saturating_add(1) };
        self.look_count >= OVER_LOOKS
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            reason: Some("nobody has looked at the routes yet".to_owned()),
            has_looked: false,
            refused_looks: 0,
            is_program_due: false,
            fork: Err("nobody has looked at the routes yet".to_owned()),
            counted: [0; 2],
            small_group_looks: 0,
            untranslated: Since::default(),
            unrouted: Since::default(),
        }
    }
}

/// What a choice depends on, beside the reasons that forbid two stages.
#[derive(Debug, Clone, Copy)]
struct Load {
    setting: WeirStages,
    now: Stages,
    state_count: u64,
    are_groups_small: bool,
}

impl Load {
    /// Why there are never to be two stages.
    fn setting_forbids_two(self) -> Option<String> {
        (self.setting == WeirStages::One).then(|| "`set weir-stages one`".to_owned())
    }

    /// Why there is to be one stage now, where two are right; `None`: two.
    fn reason(self) -> Option<String> {
        let has_enough = match self.now {
            Stages::One => self.state_count >= TWO_FROM_STATE_COUNT,
            Stages::Two => self.state_count >= ONE_BELOW_STATE_COUNT,
        };
        match self.setting {
            WeirStages::One => self.setting_forbids_two(),
            WeirStages::Two => None,
            WeirStages::Auto if !has_enough => {
                Some(format!("{} states are too few for it to pay", self.state_count))
            }
            WeirStages::Auto if self.are_groups_small => {
                Some("packets come one by one, so that nothing is read side by side".to_owned())
            }
            WeirStages::Auto => None,
        }
    }
}

impl Engine {
    /// What makes a way fork, as [`Ways::look`] has found it.
    pub(crate) fn note_ways(&mut self, fork: Result<Option<Fork>, String>) {
        self.stages.fork = fork;
    }

    /// Whether the way of some packet was found to fork, or could not be told.
    pub(crate) fn has_forks(&self) -> bool {
        !matches!(self.stages.fork, Ok(None))
    }

    /// Goes to the number of stages that is right now. To be called once a second.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(crate) fn choose_stages(&mut self, ways: &Ways) -> Result<(), String> {
        if self.is_stopped {
            return Ok(());
        }
        self.forget_translation();
        self.forget_gateways();
        let are_groups_small = self.are_groups_small();
        let load = Load {
            setting: self.main.ruleset.settings.stages,
            now: self.firewall.stages(),
            state_count: self.firewall.arena().read64(control::STATE_COUNT),
            are_groups_small,
        };
        let forbidden = self.forbids_two(ways).or_else(|| load.setting_forbids_two());
        // Before they are needed, because the kernel verifies the program for half a second, and
        // for longer in a flood; but not while whoever has started the firewall waits for it.
        let is_early = !std::mem::replace(&mut self.stages.has_looked, true);
        let lacking = match forbidden {
            None if !is_early || load.reason().is_none() => self.lacks_exit(),
            _ => None,
        };
        let reason = forbidden.or_else(|| load.reason()).or(lacking);
        let target = if reason.is_some() { Stages::One } else { Stages::Two };
        self.stages.reason = reason;
        let done = self.firewall.set_stages(target, || ways.are_known());
        done.map_err(|error| {
            let cause = format!("the kernel cannot be waited for (membarrier): {error}");
            self.stages.reason = Some(cause.clone());
            cause
        })
    }

    /// Opens the exits that are missing; says what about them makes two stages wrong. A program
    /// that the kernel refuses is not tried at every look.
    fn lacks_exit(&mut self) -> Option<String> {
        if self.firewall.has_second_program() {
            return self.interfaces.lacks_exit(&self.firewall);
        }
        if self.stages.refused_looks > 0 {
            self.stages.refused_looks -= 1;
            return Some("the kernel has refused the second stage's program".to_owned());
        }
        self.stages.is_program_due = true;
        Some("the second stage's program is not loaded yet".to_owned())
    }

    /// Whether the second stage's program is to be loaded ([`Firewall::load_second_program`]). That
    /// takes the kernel half a second, for which nobody who needs the engine is to wait.
    pub(crate) fn take_program_due(&mut self) -> bool {
        std::mem::take(&mut self.stages.is_program_due)
    }

    /// The kernel has refused it.
    pub(crate) fn note_program_refused(&mut self) {
        self.stages.refused_looks = REFUSED_LOOKS;
    }

    /// What makes two stages wrong.
    fn forbids_two(&self, ways: &Ways) -> Option<String> {
        let arena = self.firewall.arena();
        if arena.read32(control::FLAGS) & CONTROL_TRANSLATED != 0 {
            return Some("addresses are translated".to_owned());
        }
        if arena.read32(control::FLAGS) & CONTROL_ROUTED != 0 {
            return Some("rules, or states of earlier ones, choose gateways".to_owned());
        }
        let active = arena.read32(control::ACTIVE);
        if arena.read32(active + image::FLAGS) & image_flags::STAGES == 0 {
            return Some("a rule answers what it blocks, or chooses a routing table".to_owned());
        }
        if let Some(reason) = self.interfaces.forbids_two() {
            return Some(reason);
        }
        match &self.stages.fork {
            Err(cause) => Some(format!("the routes are not known: {cause}")),
            Ok(Some(fork)) => Some(fork.to_string()),
            Ok(None) if !ways.are_known() => Some("the routes have just changed".to_owned()),
            Ok(None) => None,
        }
    }

    /// A ruleset that translates has begun to run: it may have ended again before the next look.
    pub(super) fn note_translation(&mut self) {
        self.stages.untranslated = Since::default();
    }

    /// Says to the programs that there are no aliases, once that is so for good.
    fn forget_translation(&mut self) {
        let arena = self.firewall.arena();
        let flags = arena.read32(arena.read32(control::ACTIVE) + image::FLAGS);
        let is_translated =
            flags & image_flags::TRANSLATES != 0 || arena.read64(control::ALIAS_COUNT) > 0;
        if is_translated {
            // Of another firewall's states, whose first came while this looked.
            arena.word32(control::FLAGS).fetch_or(CONTROL_TRANSLATED, Ordering::AcqRel);
        }
        let is_over = self.stages.untranslated.look(is_translated);
        if is_over && arena.read32(control::FLAGS) & CONTROL_TRANSLATED != 0 {
            let both = CONTROL_TRANSLATED | CONTROL_FAMILIES;
            let before = arena.word32(control::FLAGS).fetch_and(!both, Ordering::AcqRel);
            if before & CONTROL_FAMILIES != 0 {
                self.detach_idle_divert();
            }
        }
    }

    /// A ruleset with gateways has begun to run.
    pub(super) fn note_gateways(&mut self) {
        self.stages.unrouted = Since::default();
    }

    /// Says to the programs that no state has a gateway, once that is so for good: every load looks
    /// which of earlier rulesets states still have.
    fn forget_gateways(&mut self) {
        let arena = self.firewall.arena();
        let flags = arena.read32(arena.read32(control::ACTIVE) + image::FLAGS);
        let is_routed = flags & image_flags::GATEWAYS != 0 || self.known.gateways.is_any();
        let is_over = self.stages.unrouted.look(is_routed);
        if is_over && arena.read32(control::FLAGS) & CONTROL_ROUTED != 0 {
            arena.word32(control::FLAGS).fetch_and(!CONTROL_ROUTED, Ordering::AcqRel);
        }
    }

    /// Whether groups were too small of late, or not long ago.
    fn are_groups_small(&mut self) -> bool {
        let totals = [table::STAGED_PACKETS, table::STAGE_GROUPS]
            .map(|counter| counters::table_counter(&self.firewall, counter));
        let [packets, groups] = [0, 1].map(|at| totals[at].saturating_sub(self.stages.counted[at]));
        let choice = &mut self.stages;
        choice.small_group_looks = choice.small_group_looks.saturating_sub(1);
        if groups >= GROUP_COUNT_MIN {
            choice.counted = totals;
            if packets < groups * GROUP_PACKETS_MIN {
                choice.small_group_looks = SMALL_GROUP_LOOKS;
            }
        }
        choice.small_group_looks > 0
    }

    /// The number of stages, and why it is one.
    pub(super) fn stage_status(&self) -> (u32, Option<&str>) {
        if self.firewall.has_second_stage() {
            return (2, None);
        }
        (
            1,
            Some(
                self.stages.reason.as_deref().unwrap_or("the next look, within a second, decides"),
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_states_decides_with_hysteresis() {
        let load = Load {
            setting: WeirStages::Auto,
            now: Stages::One,
            state_count: 7_999,
            are_groups_small: false,
        };
        assert_eq!(load.reason().as_deref(), Some("7999 states are too few for it to pay"));
        assert_eq!(Load { state_count: 8_000, ..load }.reason(), None);
        let two = Load { now: Stages::Two, ..load };
        assert_eq!(Load { state_count: 4_000, ..two }.reason(), None);
        assert!(Load { state_count: 3_999, ..two }.reason().is_some());
        let small = Load { are_groups_small: true, ..two }.reason().unwrap();
        assert!(small.contains("one by one"), "{small}");
    }

    #[test]
    fn translation_is_over_after_some_looks_and_stays_so() {
        let mut since = Since::default();
        let expected = [false, false, false, true, true, true];
        // It stays over: what has noted a translation after the fourth look is seen, too.
        assert_eq!([(); 6].map(|()| since.look(false)), expected);
        assert!(!since.look(true));
        assert_eq!([(); 6].map(|()| since.look(false)), expected);
    }

    #[test]
    fn a_setting_is_obeyed() {
        let load = Load {
            setting: WeirStages::Two,
            now: Stages::One,
            state_count: 0,
            are_groups_small: true,
        };
        assert_eq!(load.reason(), None);
        let one = Load { setting: WeirStages::One, state_count: 1 << 20, ..load }.reason();
        assert_eq!(one.as_deref(), Some("`set weir-stages one`"));
    }
}

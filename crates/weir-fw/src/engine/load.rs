//! Makes a ruleset the one that runs.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use weir_bpf::firewall::layout::{
    CONTROL_FULL_RESERVED, CONTROL_IF_BOUND, CONTROL_NO_RULES, CONTROL_OPENBSD, PROFILE_COUNT_MAX,
    control, profile,
};
use weir_rules::evaluate::{Evaluator, LoadedAnchor};
use weir_rules::facts::Facts;
use weir_rules::ir::{Rule, Ruleset};
use weir_rules::resolve::{Resolver as _, interfaces_named};
use weir_rules::{Dialect, names};

use super::answers::live_counts;
use super::interfaces::{self, Wanted};
use super::source::{Size, Source};
use super::tables::{self, Tables};
use super::{Engine, Refused, clock, counters, links};
use crate::compile::{self, Compiled, Input, profile_seconds, ticks};
use crate::image::image_flags;
use crate::protocol::{Load, LoadParts};
use crate::show::rules::Loader;
use crate::states;

/// What is to run.
pub(super) struct Next {
    pub(super) main: Source,
    pub(super) anchors: Vec<Source>,
    pub(super) tables: Tables,
}

/// The rules of anchors: those that files load, and above them what was loaded into them since.
pub(super) fn loaded_anchors(main: &Source, anchors: &[Source]) -> Vec<LoadedAnchor> {
    let of_files = main.anchors.iter().chain(anchors.iter().flat_map(|own| &own.anchors));
    let mut all: Vec<LoadedAnchor> = of_files.cloned().collect();
    for own in anchors {
        all.retain(|other| *other.path != *own.load.anchor);
        let path = own.load.anchor.as_str().into();
        all.push(LoadedAnchor { path, ruleset: own.ruleset.clone() });
    }
    all
}

/// Where the programs belong, by the rules.
pub(super) fn wanted(evaluator: &Evaluator<'_>, facts: &Facts) -> Wanted {
    let skipped = facts.interfaces().iter().filter(|own| evaluator.skips(&own.name));
    let skipped: BTreeSet<String> = skipped.map(|own| own.name.clone()).collect();
    let mut named = BTreeSet::new();
    let mut is_any = true;
    for rule in evaluator.rules().filter(|rule| is_filter(rule)) {
        let Some(own) = rule.interface.as_ref().filter(|own| !own.not) else {
            return Wanted { skipped, named: None };
        };
        is_any = false;
        named.extend(interfaces_named(facts, &own.name).map(|facts| facts.name.clone()));
    }
    Wanted { skipped, named: (!is_any).then_some(named) }
}

/// `pass`, `block`, `match`: what says something of packets.
fn is_filter(rule: &Rule) -> bool {
    use weir_rules::ir::Action;
    let filters = matches!(rule.action, Action::Pass | Action::Block(_) | Action::Match);
    filters && rule.anchor.is_none()
}

impl Engine {
    /// Loads a ruleset; gives warnings. On an error everything is as before.
    ///
    /// # Errors
    ///
    /// Lines `FILE:LINE: MESSAGE`, or what else stands in its way.
    pub fn load(&mut self, load: Load, uid: u32) -> Result<Vec<String>, Refused> {
        self.facts = self.machine.facts().map_err(Refused)?;
        let loader = Loader { uid, pid: load.pid };
        let path = load.anchor.trim_matches('/').to_owned();
        let not_ethernet = interfaces::not_ethernet(&links()?);
        let source = Source::compile(load, &self.facts, &not_ethernet, || self.profile());
        let source = source.map_err(Refused)?;
        let tables = if source.load.parts.tables {
            self.tables.with(&path, &source.ruleset)
        } else {
            self.tables.clone()
        };
        let mut next = Next { main: self.main.clone(), anchors: self.anchors.clone(), tables };
        let parts = source.load.parts;
        if !path.is_empty() {
            next.anchors.retain(|own| own.load.anchor != path);
            let load = Load { anchor: path, ..source.load.clone() };
            next.anchors.push(Source { load, ..source });
        } else if parts == LoadParts::ALL {
            next.main = source;
        } else {
            merge(&mut next.main, source);
        }
        let warnings = self.install(next, true)?;
        self.loader = loader;
        self.loaded_unix_s = clock::unix_s();
        Ok(warnings)
    }

    /// `pfctl -F rules`: of the main ruleset, or of an anchor.
    ///
    /// # Errors
    ///
    /// If the shared memory is damaged.
    pub fn flush_rules(&mut self, anchor: &str) -> Result<(), Refused> {
        let mut next = Next {
            main: self.main.clone(),
            anchors: self.anchors.clone(),
            tables: self.tables.clone(),
        };
        if anchor.is_empty() {
            next.main.ruleset.main = weir_rules::ir::Rules::default();
            next.main.anchors.clear();
        } else {
            next.anchors.retain(|own| own.load.anchor != anchor);
        }
        self.install(next, true).map(drop)
    }

    /// Looks at interfaces, addresses and groups, and compiles the ruleset again if they have
    /// changed. Gives what somebody should read.
    ///
    /// # Errors
    ///
    /// If the machine cannot be asked, or the ruleset means something that cannot run now.
    pub fn refresh(&mut self) -> Result<Vec<String>, Refused> {
        let facts = self.machine.facts().map_err(Refused)?;
        let is_same = facts.interfaces() == self.facts.interfaces();
        let have_slots_changed = self.interfaces.update(&links()?);
        self.facts = facts;
        if is_same && !have_slots_changed {
            self.interfaces.publish(&self.firewall);
            super::renew_next_hops(&self.firewall);
            return Ok(Vec::new());
        }
        let next = Next {
            main: self.main.clone(),
            anchors: self.anchors.clone(),
            tables: self.tables.clone(),
        };
        self.install(next, false)
    }

    /// Compiles and activates. `is_strict` refuses interfaces that cannot be attached.
    pub(super) fn install(&mut self, next: Next, is_strict: bool) -> Result<Vec<String>, Refused> {
        self.interfaces.update(&links()?);
        self.check_limits(&next.main)?;
        let anchors = loaded_anchors(&next.main, &next.anchors);
        let facts = self.facts.clone();
        let evaluator = Evaluator::new(&next.main.ruleset, &anchors, &facts);
        let evaluator = evaluator.map_err(Refused::because)?;
        let compiled = self.compile(&next, &evaluator, &facts)?;
        let mut tables = next.tables.clone();
        tables.drop_unused(&compiled.tables);
        let limit = usize::try_from(next.main.limit("table-entries")).unwrap_or(usize::MAX);
        if tables.entry_count() > limit {
            return Err(next.main.refused(
                &[Size::Limit("table-entries")],
                tables::too_many_entries(tables.entry_count(), limit),
            ));
        }
        let wanted = wanted(&evaluator, &facts);
        let is_generic = self.options.is_generic;
        let mut told: Vec<String> =
            compiled.warnings.iter().map(|own| next.main.told(std::slice::from_ref(own))).collect();
        let asks_routes = compiled.flags() & image_flags::ROUTES != 0;
        // All that may fail comes first, and nothing of what runs changes by it.
        let prepared = self.installer()?.prepare(&compiled, &evaluator, &tables.contents());
        let prepared = prepared.map_err(Refused::because)?;
        match self.interfaces.attach(&self.firewall, &wanted, is_generic, is_strict) {
            Ok(mut attached) => told.append(&mut attached),
            Err(problem) => {
                self.installer()?.abandon(prepared).map_err(Refused::because)?;
                return Err(Refused(problem));
            }
        }
        self.interfaces.publish(&self.firewall);
        self.publish_profiles(&next.main, &compiled);
        let known = self.installer()?.commit(prepared, clock::boot_ns());
        self.known = known.map_err(Refused::because)?;
        self.publish_settings(&next.main, compiled.rules.is_empty());
        self.interfaces.skip(&wanted);
        self.interfaces.publish(&self.firewall);
        self.overloads = super::overload::of_rules(&evaluator, &compiled.rules);
        self.rules = compiled.rules;
        self.directory = compiled.tables;
        let Next { main, anchors: sources, .. } = next;
        (self.main, self.anchors, self.tables) = (main, sources, tables);
        super::renew_next_hops(&self.firewall);
        told.append(&mut self.interfaces.detach_surplus(&self.firewall, &wanted));
        if let Err(error) = self.write_document() {
            told.push(format!("the ruleset runs, but a daemon after this one could not: {error}"));
        }
        told.append(&mut self.interfaces.told(&wanted, is_strict));
        if is_strict {
            told.append(&mut super::forwarding::told(&facts, &wanted, asks_routes));
        }
        Ok(told)
    }

    fn compile(
        &self,
        next: &Next,
        evaluator: &Evaluator<'_>,
        facts: &Facts,
    ) -> Result<Compiled, Refused> {
        let mut known = self.known.clone();
        known.release(|id| counters::of_rule(&self.firewall, &self.known, id).state_count == 0);
        if known.is_short_of_tags() {
            let kept = states::View::new(&self.firewall).tags();
            known.release_tags(|number| kept >> number & 1 == 0);
        }
        let slots = self.interfaces.slots();
        let input = Input { evaluator, resolver: facts, slots: &slots, known: &known };
        compile::compile(&input).map_err(|refused| Refused(next.main.told(&refused.0)))
    }

    /// Timeout tables: they stand before the image that names them. What `set timeout` changes
    /// changes for all states.
    fn publish_profiles(&self, main: &Source, compiled: &Compiled) {
        let (arena, at) = (self.firewall.arena(), self.firewall.regions().profiles.at);
        let write = |number: usize, table: [u32; 16]| {
            let place = at + u32::try_from(number).unwrap_or(0) * profile::SIZE_BYTES;
            for (index, ticks) in (0..).zip(table) {
                arena.write32(place + index * 4, ticks);
            }
        };
        let count = usize::try_from(PROFILE_COUNT_MAX).unwrap_or(0);
        let all = compiled.known.timeouts(&profile_seconds(&main.timeouts()));
        for (number, seconds) in all.into_iter().enumerate().take(count) {
            write(number, seconds.map(ticks));
        }
    }

    /// What the control page says of the ruleset's settings.
    fn publish_settings(&self, main: &Source, is_empty: bool) {
        let arena = self.firewall.arena();
        let settings = &main.ruleset.settings;
        let timeouts = main.timeouts();
        let timeout = |name: &str| {
            let index = names::timeout(name).map(usize::from);
            index.and_then(|index| timeouts.get(index)).copied().unwrap_or(0)
        };
        arena.write32(control::ADAPTIVE_START, timeout("adaptive.start"));
        arena.write32(control::ADAPTIVE_END, timeout("adaptive.end"));
        arena.write32(control::STATE_LIMIT, main.limit("states"));
        arena.write32(control::RESERVED_COUNT, settings.state_reserve);
        arena.write32(control::SOURCE_LIMIT, main.limit("src-nodes"));
        arena.write32(control::HOST_ID, self.host_id(settings.host_id));
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let set = bit(is_empty, CONTROL_NO_RULES)
            | bit(settings.if_bound, CONTROL_IF_BOUND)
            | bit(main.ruleset.dialect == Dialect::OpenBsd, CONTROL_OPENBSD);
        let all = CONTROL_NO_RULES | CONTROL_IF_BOUND | CONTROL_OPENBSD | CONTROL_FULL_RESERVED;
        let flags = arena.word32(control::FLAGS);
        // The closure always gives a value.
        let _ =
            flags.fetch_update(Ordering::AcqRel, Ordering::Acquire, |own| Some(own & !all | set));
    }

    /// `set hostid`, or a number that was drawn once.
    fn host_id(&self, wanted: Option<u32>) -> u32 {
        let own = self.firewall.arena().read32(control::HOST_ID);
        let drawn = u32::try_from(self.seed & u64::from(u32::MAX)).unwrap_or(1) | 1;
        wanted.unwrap_or(if own == 0 { drawn } else { own })
    }

    /// The counters of the rules that run, for `-o profile`.
    fn profile(&self) -> String {
        self.show_rules("", 1, (false, false), &live_counts(&self.firewall))
    }
}

/// Parts of a file take the place of parts of what runs.
fn merge(main: &mut Source, source: Source) {
    let parts = source.load.parts;
    let is_merged = source.load.is_merged;
    let Ruleset { prelude, settings, tables, main: rules, .. } = source.ruleset;
    if parts.rules {
        main.ruleset.main = rules;
        main.anchors = source.anchors;
        main.sources = source.sources;
    }
    if parts.tables {
        main.ruleset.tables = tables;
    }
    if parts.options && !is_merged {
        main.ruleset.settings = settings;
        main.ruleset.prelude = prelude;
        main.settings = source.settings;
    } else if parts.options {
        super::source::merge_settings(&mut main.ruleset.settings, &prelude, settings);
        main.ruleset.prelude.extend(prelude);
        main.settings.extend(source.settings);
    }
}

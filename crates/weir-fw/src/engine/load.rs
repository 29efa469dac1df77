//! Makes a ruleset the one that runs.
//!
//! One store does it, that of the image: rules, `set skip`, limits and timeouts change with it, and
//! a packet meets those of one ruleset. Nothing else that the data path judges by is written here;
//! what is known of interfaces follows the image, never the other way round (`interfaces.rs`).

use std::collections::BTreeSet;

use weir_bpf::firewall::layout::{Slots, control, image};
use weir_rules::evaluate::{Evaluator, Table};
use weir_rules::facts::Facts;
use weir_rules::ir::{Prelude, Rule, Rules, Ruleset};
use weir_rules::names;
use weir_rules::resolve::{Resolver as _, interfaces_named};
use weir_rules::value::Setting;

use super::document::{self, About};
use super::interfaces::{self, Coverage};
use super::source::{Size, Source, loaded_anchors, take_parts};
use super::tables::{self, Tables};
use super::typed::TypedTables;
use super::{Engine, Refused, clock, counters, links};
use crate::compile::known::{Known, TAG_COUNT_MAX};
use crate::compile::{self, Compiled, Input, spread, translation};
use crate::image::{Settings, image_flags};
use crate::install::Prepared;
use crate::protocol::{Load, LoadParts};
use crate::show::rules::Loader;
use crate::states;
use crate::timeouts::{profile_seconds, ticks};

/// What is to run.
pub(super) struct Next {
    /// What was known of the machine when it was compiled.
    pub(super) facts: Facts,
    pub(super) main: Source,
    pub(super) anchors: Vec<Source>,
    pub(super) tables: Tables,
    pub(super) typed: TypedTables,
}

impl Next {
    /// Adds the pipes that came with the rulesets to what is known of the machine.
    fn add_pipes(&mut self) -> Result<(), Refused> {
        // Those of the main ruleset count where an anchor has the same number.
        for source in self.anchors.iter().chain([&self.main]) {
            self.facts.add_names(&source.load.pipes).map_err(Refused::because)?;
        }
        Ok(())
    }

    /// Takes parts of what is in an anchor away, whose other parts stay: of what was loaded into
    /// it, and of what `load anchor` has brought.
    fn empty_anchor(&mut self, path: &str, parts: LoadParts) {
        for source in self.anchors.iter_mut().filter(|source| source.load.anchor == path) {
            source.leave_out(parts);
        }
        self.anchors.retain(|source| source.load.anchor != path || source.has_rules());
        let of_files = self.anchors.iter_mut().flat_map(|source| &mut source.anchors);
        for anchor in self.main.anchors.iter_mut().chain(of_files) {
            if *anchor.path == *path {
                take_parts(&mut anchor.ruleset.main, Rules::default(), parts);
            }
        }
    }
}

/// Who wants it to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Somebody: an interface that cannot be attached refuses it.
    Asked,
    /// A daemon that goes on where another one ended: what ran is not left alone because of an
    /// interface that has come meanwhile.
    Adopted,
    /// Interfaces or addresses have changed; what was told before is not told again.
    Followed,
}

/// A ruleset that may not fail any more: all of it stands in the memory, and the programs are where
/// it wants them. Nobody reads it yet.
pub(super) struct Staged {
    next: Next,
    /// What the state table may grow to.
    slots: Slots,
    tables: Tables,
    compiled: Compiled,
    pub(super) prepared: Prepared,
    document_at: u32,
    coverage: Coverage,
    warnings: Vec<String>,
}

/// Where the programs belong, by the rules. `has_gateways`: states may have some of earlier rules.
fn coverage(evaluator: &Evaluator<'_>, facts: &Facts, has_gateways: bool) -> Coverage {
    let skipped = facts.interfaces().iter().filter(|interface| evaluator.skips(&interface.name));
    let skipped: BTreeSet<String> = skipped.map(|interface| interface.name.clone()).collect();
    // What the kernel sends gets its gateway, its queue and its priority where it leaves.
    let is_of_kernel = |rule: &Rule| {
        let options = &rule.options;
        let is_queued = options.queue.is_some() || options.dummynet.is_some();
        rule.route.is_some() || is_queued || options.set.prio.is_some()
    };
    if has_gateways || evaluator.rules().any(is_of_kernel) {
        return Coverage { skipped, named: None };
    }
    let mut named = BTreeSet::new();
    let mut is_any = true;
    for rule in evaluator.rules().filter(|rule| is_about_packets(rule)) {
        let Some(interface) = rule.interface.as_ref().filter(|interface| !interface.not) else {
            return Coverage { skipped, named: None };
        };
        is_any = false;
        named.extend(interfaces_named(facts, &interface.name).map(|facts| facts.name.clone()));
    }
    Coverage { skipped, named: (!is_any).then_some(named) }
}

/// `pass`, `block`, `match`, and what translates: what says something of packets.
fn is_about_packets(rule: &Rule) -> bool {
    use weir_rules::ir::Action::{Block, Match, Pass, Translate};
    let is_it = matches!(rule.action, Pass | Block(_) | Match | Translate { .. });
    is_it && rule.anchor.is_none()
}

impl Engine {
    /// Loads a ruleset; gives warnings. On an error everything is as before.
    ///
    /// # Errors
    ///
    /// Lines `FILE:LINE: MESSAGE`, or what else stands in its way.
    pub fn load(&mut self, load: Load, uid: u32) -> Result<Vec<String>, Refused> {
        let facts = self.machine.facts().map_err(Refused)?;
        let loader = Loader { uid, pid: load.pid };
        let path = load.anchor.trim_matches('/').to_owned();
        let unfilterable = interfaces::unfilterable(&links()?);
        let fingerprints = self.main.ruleset.fingerprints.clone();
        let profile = || self.profile();
        let source = Source::compile(load, &facts, &unfilterable, fingerprints, profile);
        let source = source.map_err(Refused)?;
        let tables = if source.load.parts.tables {
            self.tables.with_all(&path, &source.ruleset, &source.anchors)
        } else {
            self.tables.clone()
        };
        let (main, anchors) = (self.main.clone(), self.anchors.clone());
        let loaded = path.clone();
        let has_tables = source.load.parts.tables && path.is_empty();
        if !path.is_empty() && source.ruleset.tables.iter().any(|table| table.typed.is_some()) {
            let why = "a typed table stands in the main ruleset, and rules of anchors see it";
            return Err(Refused::because(why));
        }
        if !path.is_empty() && source.ruleset.limiters().next().is_some() {
            let why = "a limiter stands in the main ruleset; rules of anchors name it by its `id`";
            return Err(Refused::because(why));
        }
        let (typed, fresh) = self.declared(&source.ruleset, has_tables)?;
        let mut next = Next { facts, main, anchors, tables, typed };
        let parts = source.load.parts;
        if !path.is_empty() {
            next.empty_anchor(&path, parts);
            let load = Load { anchor: path, ..source.load.clone() };
            next.anchors.push(Source { load, ..source });
        } else if parts == LoadParts::ALL {
            next.main = source;
        } else {
            merge(&mut next.main, source);
        }
        let warnings = self.install_declared(next, Manner::Asked, fresh)?;
        if parts.rules {
            self.renew_rules(&loaded)?;
        }
        self.loader = loader;
        self.loaded_unix_s = clock::unix_s();
        Ok(warnings)
    }

    /// Has rules with `once` of what was just loaded match once more: those of an anchor, or all
    /// that are not of an anchor which is loaded by itself.
    fn renew_rules(&self, loaded: &str) -> Result<(), Refused> {
        let is_below = |anchor: &str, path: &str| {
            anchor.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_elsewhere =
            |anchor: &str| self.anchors.iter().any(|one| is_below(anchor, &one.load.anchor));
        let is_loaded = |anchor: &str| {
            if loaded.is_empty() { !is_elsewhere(anchor) } else { is_below(anchor, loaded) }
        };
        let infos = self.rules.iter().filter(|info| is_loaded(&info.anchor));
        self.installer()?.renew(&self.known, infos.map(|info| info.id));
        Ok(())
    }

    /// `pfctl -F rules`: of the main ruleset, or of an anchor.
    ///
    /// # Errors
    ///
    /// If the shared memory is damaged.
    pub(crate) fn flush_rules(&mut self, anchor: &str) -> Result<(), Refused> {
        let mut next = self.next(self.facts.clone());
        if anchor.is_empty() {
            let filter = LoadParts { translation: false, ..LoadParts::ALL };
            take_parts(&mut next.main.ruleset.main, Rules::default(), filter);
            next.main.anchors.clear();
        } else {
            next.empty_anchor(anchor, LoadParts { translation: false, ..LoadParts::ALL });
        }
        self.install(next, Manner::Asked).map(drop)
    }

    /// `pfctl -F nat`: translation rules of the main ruleset, or of an anchor. States stay
    /// translated.
    ///
    /// # Errors
    ///
    /// If the shared memory is damaged.
    pub(crate) fn flush_translation(&mut self, anchor: &str) -> Result<(), Refused> {
        let mut next = self.next(self.facts.clone());
        let translation = LoadParts { rules: false, ..LoadParts::ALL };
        if anchor.is_empty() {
            take_parts(&mut next.main.ruleset.main, Rules::default(), translation);
        } else {
            next.empty_anchor(anchor, translation);
        }
        self.install(next, Manner::Asked).map(drop)
    }

    /// `pfctl -F osfp`: as long as rules ask for them, they cannot go.
    ///
    /// # Errors
    ///
    /// If rules ask for them, or the shared memory is damaged.
    pub(crate) fn flush_fingerprints(&mut self) -> Result<(), Refused> {
        let mut next = self.next(self.facts.clone());
        if next.main.ruleset.fingerprints.take().is_none() {
            return Ok(());
        }
        let arena = self.firewall.arena();
        let flags = arena.read32(arena.read32(control::ACTIVE) + image::FLAGS);
        if flags & image_flags::SYSTEMS != 0 {
            return Err(Refused::because("rules with `os` ask for the fingerprints"));
        }
        self.install(next, Manner::Asked).map(drop)
    }

    /// What runs, as it would be by other facts.
    pub(super) fn next(&self, facts: Facts) -> Next {
        let (main, anchors) = (self.main.clone(), self.anchors.clone());
        Next { facts, main, anchors, tables: self.tables.clone(), typed: self.typed.clone() }
    }

    /// Looks at interfaces, addresses and groups, and compiles the ruleset again if they have
    /// changed. Gives what somebody should read.
    ///
    /// # Errors
    ///
    /// If the machine cannot be asked, or the ruleset means something that cannot run now.
    pub fn refresh(&mut self) -> Result<Vec<String>, Refused> {
        if self.is_stopped {
            return Ok(Vec::new());
        }
        let facts = self.machine.facts().map_err(Refused)?;
        let is_same = facts.interfaces() == self.facts.interfaces();
        let before = self.interfaces.attached();
        let have_slots_changed = self.interfaces.update(&links()?);
        if before.iter().any(|ifindex| !self.interfaces.attached().contains(ifindex)) {
            super::elsewhere::detach(&self.firewall);
        }
        if is_same && !have_slots_changed && self.interfaces.are_settled() {
            let mut next = self.next(facts);
            next.add_pipes()?;
            self.facts = next.facts;
            self.interfaces.publish(&self.firewall);
            super::renew_next_hops(&self.firewall);
            return Ok(Vec::new());
        }
        self.install(self.next(facts), Manner::Followed)
    }

    /// What runs, with other contents of tables, which are in its image.
    pub(super) fn install_with(&mut self, tables: Tables) -> Result<(), Refused> {
        let next = self.next(self.facts.clone());
        self.install(Next { tables, ..next }, Manner::Followed).map(drop)
    }

    /// Installs a ruleset for whose typed tables these sets were made.
    pub(super) fn install_declared(
        &mut self,
        next: Next,
        manner: Manner,
        fresh: Vec<u32>,
    ) -> Result<Vec<String>, Refused> {
        let before: Vec<u32> = self.typed.all.values().map(|table| table.set_at).collect();
        let result = self.install(next, manner);
        self.retire_sets(before.into_iter().chain(fresh))?;
        result
    }

    /// Compiles and activates.
    pub(super) fn install(&mut self, next: Next, manner: Manner) -> Result<Vec<String>, Refused> {
        let staged = self.stage(next, manner)?;
        let old_document_at = self.announce(&staged);
        let warnings = self.commit(staged, manner)?;
        // The notes of what ran before are kept until something else runs.
        self.retire_document(old_document_at)?;
        Ok(warnings)
    }

    /// All that may fail, and nothing of what runs changes by it.
    pub(super) fn stage(&mut self, mut next: Next, manner: Manner) -> Result<Staged, Refused> {
        if self.is_stopped {
            return Err(Refused::because("weir fw was stopped"));
        }
        self.interfaces.update(&links()?);
        let slots = self.check_limits(&next.main)?;
        next.add_pipes()?;
        let anchors = loaded_anchors(&next.main, &next.anchors);
        let evaluator = Evaluator::new(&next.main.ruleset, &anchors, &next.facts);
        let mut evaluator = evaluator.map_err(Refused::because)?;
        // Pools are compiled with what their tables hold now.
        let mut pools = translation::pool_tables(&evaluator);
        pools.append(&mut spread::pool_tables(&evaluator));
        for (anchor, name) in pools {
            let entries = next.tables.entries(&anchor, &name);
            evaluator.tables.set(&anchor, &name, Table::new(entries.iter()));
        }
        let compiled = self.compile(&next, &evaluator)?;
        let mut tables = next.tables.clone();
        tables.drop_unused(&compiled.tables);
        let limit = usize::try_from(next.main.limit("table-entries")).unwrap_or(usize::MAX);
        let count = tables.entry_count() + next.typed.entry_count();
        if count > limit {
            let message = tables::too_many_entries(count, limit);
            return Err(next.main.refused(&[Size::Limit("table-entries")], message));
        }
        let coverage = coverage(&evaluator, &next.facts, compiled.known.gateways.is_any());
        let mut warnings: Vec<String> = compiled
            .warnings
            .iter()
            .map(|warning| next.main.lines(std::slice::from_ref(warning)))
            .collect();
        let installer = self.installer()?;
        let prepared = installer.prepare(&compiled, &evaluator, &tables.contents());
        let prepared = prepared.map_err(Refused::because)?;
        let about = About {
            known: prepared.known(),
            anchors: &next.anchors,
            tables: &tables,
            typed: &next.typed,
            directory: &compiled.tables,
            image_at: prepared.image_at(),
        };
        let document_at = match self.put_document(&about) {
            Ok(at) => at,
            Err(error) => {
                installer.abandon(prepared).map_err(Refused::because)?;
                return Err(error);
            }
        };
        let is_strict = manner == Manner::Asked;
        let queues_before = self.queues.trees();
        if let Err(problem) = self.place(&compiled, &coverage, is_strict, &mut warnings) {
            // The first reason is the one to tell.
            drop(self.queues.apply(&queues_before));
            self.abandon_divert(&compiled);
            self.give_up(prepared, document_at)?;
            return Err(problem);
        }
        Ok(Staged { next, slots, tables, compiled, prepared, document_at, coverage, warnings })
    }

    /// Puts queues and programs where a ruleset needs them. What cannot be is a warning where an
    /// interface has come, and refuses a ruleset (`is_strict`).
    fn place(
        &mut self,
        compiled: &Compiled,
        coverage: &Coverage,
        is_strict: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(), Refused> {
        let is_generic = self.options.is_generic;
        tolerated(self.queues.apply(&compiled.trees), is_strict, warnings)?;
        let attached = self.interfaces.attach(&self.firewall, coverage, is_generic, is_strict);
        warnings.append(&mut attached.map_err(Refused)?);
        tolerated(self.begin_to_divert(compiled), is_strict, warnings)
    }

    /// Frees what was written for a ruleset that is not to run.
    fn give_up(&self, prepared: Prepared, document_at: u32) -> Result<(), Refused> {
        let installer = self.installer()?;
        installer.heap().free(document_at).map_err(Refused::because)?;
        installer.abandon(prepared).map_err(Refused::because)
    }

    /// Publishes the notes, which may stand there before a ruleset is active: a daemon that is
    /// killed between this and [`Self::commit`] leaves notes of both. Gives where those of what
    /// runs are.
    pub(super) fn announce(&self, staged: &Staged) -> u32 {
        document::announce(self.firewall.arena(), staged.document_at)
    }

    /// Makes it the one that runs.
    fn commit(&mut self, staged: Staged, manner: Manner) -> Result<Vec<String>, Refused> {
        let Staged { next, slots, tables, compiled, prepared, coverage, .. } = staged;
        let mut warnings = staged.warnings;
        // Nothing grows by it before the limit is in effect.
        self.firewall.allow(slots);
        let asks_routes = compiled.flags() & image_flags::ROUTES != 0;
        let translates = compiled.flags() & image_flags::TRANSLATES != 0;
        let has_gateways = compiled.flags() & image_flags::GATEWAYS != 0;
        let had_errands = self.may_have_errands();
        self.copied_to = compiled.copied_to().to_vec();
        let known = self.installer()?.commit(prepared, clock::boot_ns());
        let known = known.map_err(Refused::because)?;
        let before = std::mem::replace(&mut self.known, known);
        if translates {
            self.note_translation();
        }
        if has_gateways {
            self.note_gateways();
        }
        self.scrubs.hurry();
        let host_id = self.host_id(next.main.ruleset.settings.host_id);
        self.firewall.arena().write32(control::HOST_ID, host_id);
        self.interfaces.settle(&coverage, |name| self.queues.has(name));
        let surplus = self.interfaces.surplus(&coverage);
        self.interfaces.publish(&self.firewall);
        self.rules = compiled.rules;
        self.directory = compiled.tables;
        let Next { facts, main, anchors, typed, .. } = next;
        self.typed = typed;
        let had_counters = self.tables.have_counters();
        (self.main, self.anchors, self.tables) = (main, anchors, tables);
        self.facts = facts;
        super::renew_next_hops(&self.firewall);
        self.ask_gateways();
        self.cease_to_divert(&before);
        if had_errands {
            self.detach_idle_divert();
        }
        warnings.append(&mut self.interfaces.detach_surplus(&self.firewall, surplus));
        let is_all = manner != Manner::Followed;
        warnings.append(&mut self.interfaces.warnings(&coverage, is_all));
        if is_all {
            warnings.append(&mut super::forwarding::warnings(&self.facts, &coverage, asks_routes));
        }
        self.forget_gone(had_counters)?;
        Ok(warnings)
    }

    fn compile(&self, next: &Next, evaluator: &Evaluator<'_>) -> Result<Compiled, Refused> {
        let mut known = self.known.clone();
        known.release(|id| counters::of_rule(&self.firewall, &self.known, id).state_count == 0);
        if known.tags.is_short(TAG_COUNT_MAX) {
            let kept = states::View::new(&self.firewall).tags();
            known.tags.release(|number| kept >> number & 1 == 0);
        }
        if known.gateways.has_old() {
            let kept = states::View::new(&self.firewall).gateways();
            known.gateways.release(|number| kept >> number & 1 == 0);
        }
        if known.queues.has_old() {
            let kept = super::scrubs::queues(&self.firewall);
            known.queues.release(|number| !kept.contains(&number));
        }
        let slots = self.interfaces.slots();
        let counted = next.tables.counted();
        let resolver = &next.facts;
        let (slots, known, counted) = (&slots, &known, &counted);
        let typed = &next.typed.values();
        let input = Input { evaluator, resolver, slots, known, counted, typed };
        let compiled = compile::compile(&input);
        let mut compiled = compiled.map_err(|refused| Refused(next.main.lines(&refused.0)))?;
        compiled.settings = settings(&next.main, &compiled.known);
        compiled.typed_at = next.typed.places();
        Ok(compiled)
    }

    /// `set hostid`, or a number that was drawn once.
    fn host_id(&self, set: Option<u32>) -> u32 {
        let old = self.firewall.arena().read32(control::HOST_ID);
        let drawn = u32::try_from(self.seed & u64::from(u32::MAX)).unwrap_or(1) | 1;
        set.unwrap_or(if old == 0 { drawn } else { old })
    }

    /// The counters of the rules that run, for `-o profile`.
    fn profile(&self) -> String {
        self.show_rules("", 1, (false, false), &counters::live_counts(&self.firewall))
    }
}

/// What the image says beside the rules. What `set timeout` changes changes for all states.
fn settings(main: &Source, known: &Known) -> Settings {
    let timeouts = main.timeouts();
    let timeout = |name: &str| {
        let index = names::timeout(name).map(usize::from);
        index.and_then(|index| timeouts.get(index)).copied().unwrap_or(0)
    };
    let profiles = known.timeouts(&profile_seconds(&timeouts));
    let state_limit = main.limit("states");
    Settings {
        state_limit,
        flood: main.ruleset.settings.syncookies.levels(state_limit).unwrap_or_default(),
        reserved_count: main.ruleset.settings.state_reserve,
        source_limit: main.limit("src-nodes"),
        adaptive: [timeout("adaptive.start"), timeout("adaptive.end")],
        profiles: profiles.into_iter().map(|seconds| seconds.map(ticks)).collect(),
    }
}

/// Parts of a file take the place of parts of what runs.
fn merge(main: &mut Source, source: Source) {
    let parts = source.load.parts;
    let is_merged = source.load.is_merged;
    let Ruleset { prelude, settings, tables, main: rules, fingerprints, .. } = source.ruleset;
    let is_named = |entry: &Prelude| matches!(entry, Prelude::Set(Setting::Fingerprints(_), _));
    // Names of rules that are loaded were looked up in them; rules that stay keep theirs.
    let is_of_rules = parts.rules || parts.translation;
    if fingerprints.is_some() && (is_of_rules || prelude.iter().any(is_named)) {
        main.ruleset.fingerprints = fingerprints;
    }
    main.load.pipes.push_str(&source.load.pipes);
    let limiters = limiters(&main.ruleset.prelude, &prelude, parts.rules);
    take_parts(&mut main.ruleset.main, rules, parts);
    if parts.rules {
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
    main.ruleset.prelude.retain(|entry| !matches!(entry, Prelude::Limiter(_)));
    main.ruleset.prelude.extend(limiters);
}

/// The limiters after a load by parts: with rules come those of the file, in the place of all that
/// there are; without, those stay that the file does not define anew.
fn limiters(old: &[Prelude], new: &[Prelude], with_rules: bool) -> Vec<Prelude> {
    let of = |list: &[Prelude]| -> Vec<Prelude> {
        list.iter().filter(|entry| matches!(entry, Prelude::Limiter(_))).cloned().collect()
    };
    let key = |entry: &Prelude| match entry {
        Prelude::Limiter(limiter) => Some((limiter.kind, limiter.id)),
        _ => None,
    };
    let fresh = of(new);
    let mut all = if with_rules { Vec::new() } else { of(old) };
    all.retain(|entry| !fresh.iter().any(|other| key(other) == key(entry)));
    all.extend(fresh);
    all
}

/// What stands in the way of a ruleset: a warning, unless it is to be refused for that.
fn tolerated(
    result: Result<(), Refused>,
    is_strict: bool,
    warnings: &mut Vec<String>,
) -> Result<(), Refused> {
    match result {
        Err(problem) if !is_strict => {
            warnings.push(problem.0);
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_rules::Dialect;

    /// The interfaces that the programs belong on; `None`: all.
    fn named(text: &str, has_gateways: bool) -> Option<BTreeSet<String>> {
        let facts = Facts::parse("interface em0 192.0.2.1/24\ninterface em1\n").unwrap();
        let ruleset = crate::testing::ruleset(text, Dialect::FreeBsd, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        coverage(&evaluator, &facts, has_gateways).named
    }

    #[test]
    fn programs_are_everywhere_where_packets_leave_by_other_interfaces_than_rules_name() {
        assert_eq!(named("pass in on em0\n", false), Some(BTreeSet::from(["em0".to_owned()])));
        assert_eq!(named("pass in on em0\n", true), None, "states of earlier rules have gateways");
        for rule in [
            "pass",
            "pass in on em0 route-to (em1 198.51.100.1)",
            "pass in on em0 queue slow",
            "pass in on em0 dnpipe 1",
            "pass in on em0 set prio 3",
        ] {
            assert_eq!(named(&format!("{rule}\n"), false), None, "{rule}");
        }
    }

    #[test]
    fn limiters_come_with_the_rules_that_name_them() {
        let prelude =
            |text: &str| crate::testing::ruleset(text, Dialect::OpenBsd, &Facts::new()).prelude;
        let old = prelude("state limiter a id 1 limit 5\nstate limiter b id 2 limit 5\npass\n");
        let new = prelude("state limiter a id 1 limit 9\npass\n");
        let other = prelude("set timeout tcp.first 9\npass\n");
        let limits = |all: &[Prelude]| -> Vec<(u32, Option<u32>)> {
            let of = |entry: &Prelude| match entry {
                Prelude::Limiter(limiter) => (limiter.id, limiter.limit),
                _ => panic!("{entry:?}"),
            };
            all.iter().map(of).collect()
        };
        assert_eq!(limits(&limiters(&old, &new, true)), [(1, Some(9))]);
        assert_eq!(limits(&limiters(&old, &new, false)), [(2, Some(5)), (1, Some(9))]);
        assert_eq!(limits(&limiters(&old, &other, false)), [(1, Some(5)), (2, Some(5))]);
    }
}

//! From the text of a ruleset, as a client has sent it, to its rules.

use std::fmt::Display;
use std::sync::Arc;

use weir_rules::diagnostic::{Diagnostic, Severity};
use weir_rules::evaluate::LoadedAnchor;
use weir_rules::facts::Facts;
use weir_rules::fingerprint::Fingerprints;
use weir_rules::ir::{Prelude, Rule, Rules, Ruleset, Settings};
use weir_rules::limits::Limits;
use weir_rules::names;
use weir_rules::optimise::{self, Level as Optimise, Profile};
use weir_rules::parse::ParseInput;
use weir_rules::resolve::Resolver as _;
use weir_rules::source::{SourceMap, SourceProvider};
use weir_rules::value::Setting;
use weir_rules::{Compiled, Dialect};

use super::Refused;
use crate::protocol::{Level, Load, LoadParts, NamedFile};
use crate::refuse;

/// A ruleset, or an anchor's, with the text that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) load: Load,
    pub(super) ruleset: Ruleset,
    /// `load anchor` files.
    pub(super) anchors: Vec<LoadedAnchor>,
    pub(super) sources: SourceMap,
    /// `FILE:LINE` of each setting, in their order: files that were merged have sources of their
    /// own.
    pub(super) settings: Vec<(Setting, String)>,
}

/// The rules of anchors: those that files load, and above them what was loaded into them since, in
/// one step or by parts.
pub(super) fn loaded_anchors(main: &Source, anchors: &[Source]) -> Vec<LoadedAnchor> {
    let of_files = main.anchors.iter().chain(anchors.iter().flat_map(|source| &source.anchors));
    let mut all: Vec<LoadedAnchor> = of_files.cloned().collect();
    for source in anchors {
        let path = &*source.load.anchor;
        let Some(other) = all.iter_mut().find(|other| *other.path == *path) else {
            all.push(LoadedAnchor { path: path.into(), ruleset: source.ruleset.clone() });
            continue;
        };
        take_parts(&mut other.ruleset.main, source.ruleset.main.clone(), source.load.parts);
        let tables = &mut other.ruleset.tables;
        let has = |name: &str| tables.iter().any(|table| *table.name == *name);
        let more = source.ruleset.tables.iter().filter(|table| !has(&table.name));
        let more: Vec<_> = more.cloned().collect();
        tables.extend(more);
    }
    all
}

/// A limit by its name.
pub(super) fn limit_of(ruleset: &Ruleset, name: &str) -> u32 {
    let at = names::LIMITS.iter().position(|(limit, _)| *limit == name);
    at.and_then(|at| ruleset.settings.limits.get(at)).copied().unwrap_or(0)
}

/// A setting that limits what fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// `set limit`, by its name.
    Limit(&'static str),
    /// `set hashsize`
    Hash,
    /// `set state-reserve`
    Reserve,
}

impl Size {
    pub(super) fn is(self, setting: &Setting) -> bool {
        match (self, setting) {
            (Self::Limit(name), Setting::Limit(at, _)) => {
                names::LIMITS.get(usize::from(*at)).is_some_and(|(limit, _)| *limit == name)
            }
            (Self::Hash, Setting::HashSize(_)) | (Self::Reserve, Setting::StateReserve(_)) => true,
            _ => false,
        }
    }
}

/// The files of a load.
struct Sent<'a>(&'a [NamedFile]);

impl SourceProvider for Sent<'_> {
    fn read(&self, path: &str, from: &str) -> Result<Vec<u8>, String> {
        let files = self.0.iter().filter(|file| file.path == path);
        let found = files.clone().find(|file| file.from == from).or_else(|| files.clone().next());
        found.map(|file| file.bytes.to_vec()).ok_or_else(|| "the client did not send it".to_owned())
    }
}

impl Source {
    /// Nothing: what runs behind `-F rules`.
    pub(super) fn empty() -> Self {
        let load = Load {
            name: "(no rules)".to_owned(),
            text: crate::protocol::Bytes::default(),
            files: Vec::new(),
            macros: Vec::new(),
            hosts: Vec::new(),
            pipes: String::new(),
            dialect: None,
            level: None,
            anchor: String::new(),
            parts: LoadParts::ALL,
            is_merged: false,
            pid: 0,
        };
        let (ruleset, sources) = (Ruleset::default(), SourceMap::default());
        Self { load, ruleset, anchors: Vec::new(), sources, settings: Vec::new() }
    }

    /// Compiles a load. Rules about interfaces of `unfilterable` are refused; `profile` has the
    /// counters for `-o profile`. An anchor's rules have the fingerprints of the main ruleset.
    pub(super) fn compile(
        load: Load,
        facts: &Facts,
        unfilterable: &[String],
        fingerprints: Option<Arc<Fingerprints>>,
        profile: impl FnOnce() -> String,
    ) -> Result<Self, String> {
        let dialect = load.dialect.as_deref().and_then(Dialect::parse);
        let facts = &with_client(facts, &load)?;
        let machine = (facts, unfilterable);
        let is_anchor = !load.anchor.trim_matches('/').is_empty();
        let place = is_anchor.then_some(fingerprints);
        let file = (load.name.as_str(), &load.text.to_vec()[..], place);
        let mut compiled = compile(&load, file, dialect, machine)?;
        let mut anchors = Vec::new();
        for file in &compiled.ruleset.loads {
            let sent = Sent(&load.files);
            let bytes = sent
                .read(&file.file, &load.name)
                .map_err(|cause| format!("{}: {cause}", file.file))?;
            let dialect = Some(compiled.ruleset.dialect);
            let place = Some(compiled.ruleset.fingerprints.clone());
            let inner = compile(&load, (&file.file, &bytes, place), dialect, machine)?;
            anchors.push(LoadedAnchor { path: file.name.clone(), ruleset: inner.ruleset });
        }
        let in_file = || match compiled.ruleset.settings.ruleset_optimization.as_deref() {
            Some("none") => Level::None,
            Some("profile") => Level::Profile,
            _ => Level::Basic,
        };
        match load.level.unwrap_or_else(in_file) {
            Level::None => {}
            Level::Profile => {
                let profile = Profile::parse(&profile()).unwrap_or_default();
                optimise::optimise(&mut compiled.ruleset, Optimise::Profile(&profile), facts);
            }
            Level::Basic => {
                optimise::optimise(&mut compiled.ruleset, Optimise::Basic, facts);
            }
        }
        let Compiled { mut ruleset, sources, .. } = compiled;
        let rules = std::mem::take(&mut ruleset.main);
        take_parts(&mut ruleset.main, rules, load.parts);
        let settings = ruleset.prelude.iter().filter_map(|statement| match statement {
            Prelude::Set(setting, span) => Some((setting.clone(), sources.place(*span))),
            _ => None,
        });
        let settings = settings.collect();
        Ok(Self { load, ruleset, anchors, sources, settings })
    }

    /// Goes on without parts of its rules.
    pub(super) fn leave_out(&mut self, parts: LoadParts) {
        take_parts(&mut self.ruleset.main, Rules::default(), parts);
        let kept = &mut self.load.parts;
        kept.rules &= !parts.rules;
        kept.translation &= !parts.translation;
    }

    /// Whether it has a rule left of the parts that it was loaded for.
    pub(super) fn has_rules(&self) -> bool {
        let Rules { ether, scrub, nat, rdr, binat, filter } = &self.ruleset.main;
        let is_any = |lists: &[&Vec<Rule>]| lists.iter().any(|list| !list.is_empty());
        let parts = self.load.parts;
        (parts.rules && (!ether.is_empty() || is_any(&[scrub, filter])))
            || (parts.translation && is_any(&[nat, rdr, binat]))
    }

    /// Whether a setting is in the file.
    fn sets(&self, matches: impl Fn(&Setting) -> bool) -> bool {
        self.settings.iter().any(|(setting, _)| matches(setting))
    }

    /// A refusal of sizes, with the place of the first of them that a file sets.
    pub(super) fn refused(&self, sizes: &[Size], cause: impl Display) -> Refused {
        let place = sizes.iter().find_map(|size| {
            let found = self.settings.iter().rev().find(|(setting, _)| size.is(setting));
            found.map(|(_, place)| format!("{place}: "))
        });
        Refused(format!("{}{cause}", place.unwrap_or_default()))
    }

    /// The timeouts in force: the adaptive ones follow the limit of states, as pfctl has it, unless
    /// the file names one of them.
    pub(super) fn timeouts(&self) -> Vec<u32> {
        let settings = &self.ruleset.settings;
        let mut timeouts = settings.timeouts.clone();
        let index = |name| names::timeout(name).map(usize::from);
        let (start, end) = (index("adaptive.start"), index("adaptive.end"));
        let is_adaptive = |setting: &Setting| {
            let Setting::Timeout(timeout, _) = setting else { return false };
            Some(usize::from(*timeout)) == start || Some(usize::from(*timeout)) == end
        };
        if self.sets(is_adaptive) {
            return timeouts;
        }
        let tenth = self.limit("states") / 10;
        for (at, tenths) in [(start, 6), (end, 12)] {
            if let Some(adaptive) = at.and_then(|at| timeouts.get_mut(at)) {
                *adaptive = tenth.saturating_mul(tenths);
            }
        }
        timeouts
    }

    /// A limit by its name.
    pub(super) fn limit(&self, name: &str) -> u32 {
        limit_of(&self.ruleset, name)
    }

    /// Errors as lines `FILE:LINE: MESSAGE: REASON`.
    pub(super) fn lines(&self, list: &[Diagnostic]) -> String {
        lines(list, &self.sources)
    }
}

/// What is known of the machine, and what came with a load: the host names that a client has asked
/// for, and pipes.
fn with_client(facts: &Facts, load: &Load) -> Result<Facts, String> {
    let mut facts = facts.clone();
    for (name, addresses) in &load.hosts {
        if !facts.host(name).is_empty() {
            continue;
        }
        for address in addresses {
            facts.add_host(name, *address);
        }
    }
    facts.add_names(&load.pipes).map_err(|error| error.to_string())?;
    Ok(facts)
}

/// The fingerprints that the main ruleset has, where a file is an anchor's.
type Place = Option<Option<Arc<Fingerprints>>>;

/// Compiles a file: its name, its text, and its place.
fn compile(
    load: &Load,
    (name, bytes, place): (&str, &[u8], Place),
    dialect: Option<Dialect>,
    (facts, unfilterable): (&Facts, &[String]),
) -> Result<Compiled, String> {
    let input = ParseInput {
        name,
        bytes,
        dialect,
        macros: &load.macros,
        provider: &Sent(&load.files),
        limits: Limits::default(),
    };
    let is_anchor = place.is_some();
    let compiled = match place {
        Some(fingerprints) => weir_rules::compile_anchor(input, facts, fingerprints),
        None => weir_rules::compile(input, facts),
    };
    let mut found = compiled.diagnostics.clone();
    // Each file's own, so that an anchor's rules are refused with their places too.
    if load.parts.rules || load.parts.translation {
        found.extend(refuse::diagnostics(&compiled.ruleset));
        found.extend(refuse::interfaces(&compiled.ruleset, facts, unfilterable));
        found.extend(refuse::pipes(&compiled.ruleset, facts));
        if is_anchor {
            found.extend(refuse::of_anchor(&compiled.ruleset));
        }
    }
    found.retain(|diagnostic| diagnostic.severity == Severity::Error);
    if found.is_empty() {
        return Ok(compiled);
    }
    Err(lines(&found, &compiled.sources))
}

fn lines(list: &[Diagnostic], sources: &SourceMap) -> String {
    let lines = list.iter().map(|diagnostic| {
        let parted = if diagnostic.label.is_empty() { "" } else { ": " };
        format!(
            "{}: {}{parted}{}",
            sources.place(diagnostic.span),
            diagnostic.message,
            diagnostic.label
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Puts those rules that are loaded in the place of what is there.
pub(super) fn take_parts(rules: &mut Rules, new: Rules, parts: LoadParts) {
    let Rules { ether, scrub, nat, rdr, binat, filter } = new;
    if parts.rules {
        (rules.ether, rules.scrub, rules.filter) = (ether, scrub, filter);
    }
    if parts.translation {
        (rules.nat, rules.rdr, rules.binat) = (nat, rdr, binat);
    }
}

/// What a file sets, if it does.
fn replace<T>(place: &mut T, value: T, is_set: bool) {
    if is_set {
        *place = value;
    }
}

/// `pfctl -m`: what the file sets takes its place, all else stays.
pub(super) fn merge_settings(settings: &mut Settings, prelude: &[Prelude], new: Settings) {
    let Settings {
        block_policy,
        fail_policy,
        if_bound,
        skip,
        timeouts,
        limits,
        log_interface,
        reassemble,
        reassemble_no_df,
        hash_size,
        state_reserve,
        stages,
        syncookies,
        optimization,
        ruleset_optimization,
        debug,
        host_id,
    } = new;
    let set = |matches: &dyn Fn(&Setting) -> bool| {
        prelude.iter().any(|entry| matches!(entry, Prelude::Set(setting, _) if matches(setting)))
    };
    for (index, value) in timeouts.into_iter().enumerate() {
        let is_it =
            |one: &Setting| matches!(one, Setting::Timeout(at, _) if usize::from(*at) == index);
        let is_set = set(&is_it) || set(&|setting| matches!(setting, Setting::Optimization(_)));
        if let Some(timeout) = settings.timeouts.get_mut(index).filter(|_| is_set) {
            *timeout = value;
        }
    }
    for (index, value) in limits.into_iter().enumerate() {
        let is_it =
            |one: &Setting| matches!(one, Setting::Limit(at, _) if usize::from(*at) == index);
        if let Some(limit) = settings.limits.get_mut(index).filter(|_| set(&is_it)) {
            *limit = value;
        }
    }
    let is_set = set(&|setting| matches!(setting, Setting::BlockPolicy(_)));
    replace(&mut settings.block_policy, block_policy, is_set);
    let is_set = set(&|setting| matches!(setting, Setting::FailPolicy(_)));
    replace(&mut settings.fail_policy, fail_policy, is_set);
    let is_set = set(&|setting| matches!(setting, Setting::StatePolicyIfBound(_)));
    replace(&mut settings.if_bound, if_bound, is_set);
    let is_set = set(&|setting| matches!(setting, Setting::Skip(_)));
    replace(&mut settings.skip, skip, is_set);
    settings.log_interface = log_interface.or_else(|| settings.log_interface.take());
    if set(&|setting| matches!(setting, Setting::Reassemble { .. })) {
        settings.reassemble = reassemble;
        settings.reassemble_no_df = reassemble_no_df;
    }
    settings.hash_size = hash_size.or(settings.hash_size);
    if set(&|setting| matches!(setting, Setting::StateReserve(_))) {
        settings.state_reserve = state_reserve;
    }
    if set(&|setting| matches!(setting, Setting::WeirStages(_))) {
        settings.stages = stages;
    }
    if set(&|setting| matches!(setting, Setting::Syncookies(_))) {
        settings.syncookies = syncookies;
    }
    if set(&|setting| matches!(setting, Setting::Optimization(_))) {
        settings.optimization = optimization;
    }
    settings.ruleset_optimization =
        ruleset_optimization.or_else(|| settings.ruleset_optimization.take());
    settings.debug = debug.or_else(|| settings.debug.take());
    settings.host_id = host_id.or(settings.host_id);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Bytes;

    fn load(anchor: &str, text: &str, files: Vec<NamedFile>) -> Load {
        Load {
            name: "pf.conf".to_owned(),
            text: Bytes::new(text.as_bytes()),
            files,
            anchor: anchor.to_owned(),
            parts: LoadParts::ALL,
            ..Source::empty().load
        }
    }

    #[test]
    fn rules_of_anchors_are_refused_with_their_places() {
        let facts = Facts::parse("interface em0 192.0.2.1/24").unwrap();
        let refusal = |load| Source::compile(load, &facts, &[], None, String::new).unwrap_err();
        let ether = "pass\nether block in on em0\n";
        let found = refusal(load("ftp", ether, Vec::new()));
        assert!(found.starts_with("pf.conf:2: "), "{found}");
        assert!(found.contains("layer 2 is not filtered"), "{found}");

        let file = NamedFile {
            path: "ftp.conf".to_owned(),
            from: "pf.conf".to_owned(),
            bytes: Bytes::new(ether.as_bytes()),
        };
        let main = "anchor ftp\nload anchor ftp from \"ftp.conf\"\n";
        let found = refusal(load("", main, vec![file]));
        assert!(found.starts_with("ftp.conf:2: "), "{found}");
        let found = refusal(load("ftp", "table <hops> type addr\npass\n", Vec::new()));
        assert!(found.starts_with("pf.conf:1: a typed table stands in the main"), "{found}");
    }

    #[test]
    fn parts_that_are_loaded_into_an_anchor_take_the_place_of_its_files_alone() {
        let facts = Facts::parse("interface em0 192.0.2.1/24").unwrap();
        let compiled = |load| Source::compile(load, &facts, &[], None, String::new).unwrap();
        let file = NamedFile {
            path: "a.conf".to_owned(),
            from: "pf.conf".to_owned(),
            bytes: Bytes::new(b"nat on em0 inet from any to any -> 192.0.2.1\nblock in\n"),
        };
        let text = "nat-anchor a\nanchor a\nload anchor a from \"a.conf\"\n";
        let main = compiled(load("", text, vec![file]));
        let nat = "nat on em0 inet from any to any -> 192.0.2.9\n";
        let parts = LoadParts { rules: false, ..LoadParts::ALL };
        let mut part = compiled(Load { parts, ..load("a", nat, Vec::new()) });
        let found = loaded_anchors(&main, std::slice::from_ref(&part));
        let rules = &found[0].ruleset.main;
        assert_eq!((found.len(), rules.nat.len(), rules.filter.len()), (1, 1, 1));
        assert!(format!("{:?}", rules.nat[0]).contains("192.0.2.9"), "{:?}", rules.nat[0]);
        assert!(part.has_rules());
        part.leave_out(parts);
        assert!(!part.has_rules(), "nothing is left of it");
        let all = compiled(load("a", "pass in\nblock out\n", Vec::new()));
        let found = loaded_anchors(&main, &[all]);
        let rules = &found[0].ruleset.main;
        assert_eq!((rules.nat.len(), rules.filter.len()), (0, 2));
    }

    #[test]
    fn addresses_of_names_come_with_the_load() {
        let facts = Facts::parse("interface em0 192.0.2.1/24\nhost known 192.0.2.9\n").unwrap();
        let text = "pass in from www.example\npass in from known\n";
        let compiled = |hosts: &[(&str, &str)]| {
            let host = |(name, address): &(&str, &str)| {
                (name.to_string(), vec![address.parse().expect("an address")])
            };
            let hosts = hosts.iter().map(host).collect();
            let load = Load { hosts, ..load("", text, Vec::new()) };
            Source::compile(load, &facts, &[], None, String::new)
        };
        let refusal = compiled(&[]).unwrap_err();
        assert!(refusal.starts_with("pf.conf:1: no address is known"), "{refusal}");
        let found = compiled(&[("www.example", "2001:db8::80"), ("known", "10.0.0.1")]).unwrap();
        let from = |at: usize| format!("{:?}", found.ruleset.main.filter[at].from.address);
        assert!(from(0).contains("2001:db8::80"), "{}", from(0));
        assert!(from(1).contains("192.0.2.9"), "{}", from(1));
    }

    #[test]
    fn rules_about_what_cannot_be_filtered_are_refused() {
        let facts = "interface em0 192.0.2.1/24\ninterface tun9 10.9.0.1/24 group vpn\n";
        let facts = Facts::parse(facts).unwrap();
        let tun = ["tun9".to_owned()];
        let refusal_of = |text: &str| {
            Source::compile(load("", text, Vec::new()), &facts, &tun, None, String::new).err()
        };
        for text in [
            "pass\nblock in on tun9\n",
            "pass\npass on { tun9 }\n",
            "pass\npass on vpn\n",
            "pass\nanchor on tun9 {\nblock\n}\n",
            "anchor {\nblock in on tun\n}\n",
        ] {
            let refusal = refusal_of(text).unwrap_or_else(|| panic!("{text}"));
            assert!(
                refusal.starts_with("pf.conf:2: ") && refusal.contains("`tun9`"),
                "{text}{refusal}"
            );
        }
        for text in [
            "pass\nblock in on em0\n",
            "pass\nblock in on ! tun9\n",
            "pass\nblock in on tun8\n",
            "set skip on tun9\nblock in on tun9\n",
        ] {
            assert_eq!(refusal_of(text), None, "{text}");
        }
    }
}

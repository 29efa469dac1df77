//! From a ruleset of `weir-rules` to the image that the data path evaluates
//! (`bpf/include/weir/fw/image.h`).
//!
//! A packet meets the rules in the order of [`weir_rules::evaluate::Evaluator::steps`]: anchors'
//! rules stand in their places, an anchor that does not match leads behind its last rule, and one
//! with `quick` has an end of its own, which asks whether a rule in it has decided. What names mean
//! is asked of that evaluator too, so that both read one meaning.
//!
//! An image has no addresses in it but those of what outlives it: the directory of tables and the
//! places of counters, which [`Compiled::link`] fills in.

mod action;
mod classes;
mod copies;
mod criteria;
mod gateways;
pub mod known;
pub(crate) mod limiters;
mod numbers;
mod pipes;
mod queues;
mod scrub;
pub(crate) mod spread;
mod systems;
pub(crate) mod translation;
mod typed;

use std::collections::{HashMap, HashSet};

use weir_bpf::firewall::layout::TIMEOUT_COUNT;
use weir_net::shaping::Tree;
use weir_rules::Dialect;
use weir_rules::diagnostic::{Code, Diagnostic, Severity};
use weir_rules::evaluate::{Evaluator, List, RuleId, RuleRef, Step};
use weir_rules::ir::{Address, Rule};
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::resolve::Resolver;
use weir_rules::source::Span;
use weir_rules::value::{Direction, Text};

use crate::image::{
    self, Criteria, Header, IMAGE_BYTES, PlaceKind, RULE_BYTES, RuleKind, Settings, Translation,
};
use crate::image::{decision, image_flags};
use crate::refuse;
use known::{Gateway, ID_COUNT_MAX, Known, OfStates, RuleKey, TAG_COUNT_MAX};
use limiters::Limiters;
use numbers::Exhausted;

pub use criteria::TableName;
pub(crate) use gateways::Numbered;
pub use typed::{TypedValues, declared_values, numbered_values};

/// Rules that an image may have, those of anchors that are entered twice counted twice.
pub const RULE_COUNT_MAX: usize = 1_000_000;
/// From this many rules on, candidates are found by bit vectors; below, rules are asked one by one.
/// Measured; docs/fw-rules.md has the figures.
pub(crate) const CLASSES_RULE_COUNT_MIN: usize = 8;
/// Networks of one pool, those of its tables and interfaces included: a new flow looks at each.
pub(crate) const POOL_NETWORK_COUNT_MAX: usize = 1024;
/// Addresses of a pool with `least-states`: a new flow looks at the states of each.
pub(crate) const LEAST_STATES_COUNT_MAX: u64 = 256;
/// Tables that an image may ask, those of interfaces' addresses included.
pub(crate) const TABLE_COUNT_MAX: usize = 65_534;
/// Triples of `user`, `group` and `os`: twelve bits of criteria number them, from 1.
const OWNER_COUNT_MAX: usize = 4095;

/// Tables with `counters`, by anchor (empty for the main ruleset) and name: their numbers, from 1.
pub type CountedTables = HashMap<(Text, Text), u32>;

/// What rules count of tables' entries, by the rules' identifiers: for their sources, and for their
/// destinations.
type CountedEnds = HashMap<u32, [image::Counted; 2]>;
/// By id of a rule with `max-pkt-rate`: packets, and seconds.
type Rates = HashMap<u32, [u32; 2]>;

/// An interface that has a slot in the data path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The slot, 1 to 63.
    pub number: u8,
    /// The interface's name.
    pub interface: String,
}

/// What a compilation needs.
pub struct Input<'a> {
    /// The ruleset, with its anchors and what is known of the machine.
    pub evaluator: &'a Evaluator<'a>,
    /// The same machine's facts.
    pub resolver: &'a dyn Resolver,
    /// The slots of the interfaces that are there.
    pub slots: &'a [Slot],
    /// Identifiers and timeout tables so far.
    pub known: &'a Known,
    /// Numbers of the tables with `counters`.
    pub counted: &'a CountedTables,
    /// What entries of typed tables have.
    pub typed: &'a TypedValues,
}

/// A rule of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleInfo {
    /// Its place in the evaluator.
    pub rule: RuleId,
    /// Its list: the filter rules, or one of FreeBSD's for translation.
    pub list: List,
    /// Its identifier, which states and counters have.
    pub id: u32,
    /// The path of its anchor.
    pub anchor: Text,
    /// pfctl's number in its anchor.
    pub number: u32,
    /// Its printed text.
    pub text: String,
    pub labels: Vec<Text>,
    /// Flows of its states are exported.
    pub has_pflow: bool,
}

/// A compiled ruleset.
#[derive(Debug, Clone)]
pub struct Compiled {
    header: Header,
    criteria: Vec<Criteria>,
    actions: Vec<image::Rule>,
    /// What each of them translates to.
    translations: Vec<Option<Translation>>,
    /// What each of them changes in packets, and behind that what lists change by direction and
    /// interface: `weir_fw_scrub` of layout.h. Nothing if none changes anything.
    scrubs: Vec<u64>,
    gateways: Vec<image::Gateways>,
    owners: Vec<image::Owner>,
    systems: systems::Systems,
    counted: CountedEnds,
    rates: Rates,
    copies: copies::Copies,
    limiters: Limiters,
    /// What all numbers of gateways stand for.
    pub(crate) numbered: Vec<Numbered>,
    /// The queues of interfaces.
    pub(crate) trees: Vec<Tree>,
    operands: Vec<u8>,
    /// The rules, one entry for each identifier, in the order of the evaluator: the filter rules,
    /// and then those of FreeBSD's lists that translate.
    pub rules: Vec<RuleInfo>,
    /// The tables of the directory, in its order.
    pub tables: Vec<TableName>,
    /// Paths of anchors; `weir_fw_rule.anchor` is an index. The first is the main ruleset.
    pub anchors: Vec<Text>,
    /// Identifiers that the last ruleset did not have.
    pub fresh: Vec<u32>,
    /// Numbers of limiters that the last ruleset did not have.
    pub fresh_limiters: Vec<u32>,
    /// What is known from now on; to be kept if the image is installed.
    pub known: Known,
    /// Warnings: what is accepted and changes nothing.
    pub warnings: Vec<Diagnostic>,
    /// What is set beside the rules; for the caller to fill in.
    pub settings: Settings,
    /// What entries of typed tables have, by the tables' places in the directory.
    typed: Vec<(usize, Vec<u32>)>,
    /// Where the sets of typed tables stand, by name; for the caller to fill in.
    pub typed_at: HashMap<Text, u32>,
}

/// A ruleset that the data path cannot run: the reasons, those of queues last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<Diagnostic>);

/// Compiles a ruleset.
///
/// # Errors
/// [`Refused`] if it has anything that the data path has not (see [`crate::refuse`]), or too much.
pub fn compile(input: &Input<'_>) -> Result<Compiled, Refused> {
    let found = refuse::diagnostics(input.evaluator.ruleset());
    let (mut errors, warnings): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
    let mut known = input.known.clone();
    let shaped = pipes::shaped(input, &mut known);
    let (trees, queue_numbers) = shaped.unwrap_or_else(|Refused(found)| {
        errors.extend(found);
        Default::default()
    });
    if !errors.is_empty() {
        return Err(Refused(errors));
    }
    typed::check(input)?;
    let rules = infos(input, &mut known)?;
    let steps = input.evaluator.steps(List::Filter);
    if steps.len() > RULE_COUNT_MAX {
        return Err(limit("rules", steps.len(), RULE_COUNT_MAX));
    }
    let tags = tags(input, &mut known)?;
    let gateway_numbers = gateways::numbers(input, &mut known)?;
    let mut builder = Builder {
        names: criteria::Names::new(input.evaluator, input.resolver, input.slots, tags),
        known,
        ids: rules.iter().map(|info| (info.rule, info.id)).collect(),
        anchors: vec!["".into()],
        anchor_indices: HashMap::from([("".into(), 0)]),
        criteria: Vec::with_capacity(steps.len()),
        actions: Vec::with_capacity(steps.len()),
        translations: Vec::with_capacity(steps.len()),
        scrubs: Vec::with_capacity(steps.len()),
        gateway_numbers,
        gateways: Vec::new(),
        queue_numbers,
        trees,
        counted_tables: input.counted,
        counted: CountedEnds::new(),
        rates: Rates::new(),
        copies: copies::Copies::default(),
        open: Vec::new(),
    };
    for step in steps {
        builder.step(step)?;
    }
    let rule_count = builder.criteria.len();
    let list_ends = builder.lists()?;
    builder.check_words(input.evaluator)?;
    let scrubs = builder.scrub_list();
    builder.name_limiters_tables();
    builder.check_names()?;
    let typed = builder.typed_words(input);
    let old: HashSet<u32> = input.known.rules.iter().map(|(_, id)| *id).collect();
    let mut compiled = builder.finish(rules, warnings, rule_count);
    compiled.check_proxies()?;
    compiled.header.list_ends = list_ends;
    compiled.header.flags |= if typed.is_empty() { 0 } else { image_flags::TYPED };
    compiled.header.flags |= compiled.errand_flags();
    compiled.limit(input);
    compiled.typed = typed;
    compiled.header.skipped = skipped(input);
    compiled.change_by(&scrubs);
    compiled.numbered = gateways::numbered(&compiled.known, input.slots);
    compiled.fresh =
        compiled.rules.iter().map(|info| info.id).filter(|id| !old.contains(id)).collect();
    Ok(compiled)
}

impl Compiled {
    /// Puts the ruleset's limiters in.
    fn limit(&mut self, input: &Input<'_>) {
        self.limiters = Limiters::of(input.evaluator.ruleset());
        self.known.limiters = self.limiters.numbers();
        self.fresh_limiters.clone_from(&self.known.limiters);
        self.fresh_limiters.retain(|number| !input.known.limiters.contains(number));
        if self.known.has_limiters() {
            self.header.flags |= image_flags::LIMITERS;
        }
    }
}

fn refused(span: Span, message: String) -> Refused {
    Refused(vec![Diagnostic::error(Code::Limit, span, message)])
}

fn limit(what: &str, count: usize, count_max: usize) -> Refused {
    refused(Span::default(), format!("{count} {what}: the data path takes at most {count_max}"))
}

/// The numbers of the tags that rules give, and of those that they ask for and states may have.
fn tags(input: &Input<'_>, known: &mut Known) -> Result<HashMap<Text, u16>, Refused> {
    let rules = || input.evaluator.rules();
    let given = typed::tags_of(input);
    let assigned = known.tags.assign(&given, TAG_COUNT_MAX);
    let assigned = assigned.map_err(|Exhausted { given_count, held_count }| {
        let span = rules().find(|rule| rule.options.tag.is_some()).map(|rule| rule.span);
        let message = format!(
            "states keep at most {TAG_COUNT_MAX} different tags, and rules give {given_count}, \
             besides {held_count} of earlier rulesets that states still have"
        );
        refused(span.unwrap_or_default(), message)
    })?;
    let asked = rules().filter_map(|rule| rule.options.tagged.as_ref());
    let asked = asked.filter_map(|(_, name)| {
        known.tags.number_of(&name.to_string()).map(|number| (name.clone(), number))
    });
    let given = assigned.into_iter().map(|(name, number)| (name.as_str().into(), number));
    Ok(given.chain(asked).collect())
}

/// The rules with their identifiers.
fn infos(input: &Input<'_>, known: &mut Known) -> Result<Vec<RuleInfo>, Refused> {
    let evaluator = input.evaluator;
    let dialect = evaluator.ruleset().dialect;
    let printer = Printer { dialect, resolver: input.resolver, options: PrintOptions::default() };
    let mut ordinals: HashMap<(&str, String), u32> = HashMap::new();
    let mut infos = Vec::new();
    let mut keys = Vec::new();
    let filter = evaluator.rule_refs().filter(|found| found.list == List::Filter);
    for found in filter.chain(evaluator.rule_refs().filter(translation::is_listed)) {
        let text = printer.rule(found.rule);
        let ordinal = ordinals.entry((found.anchor, text.clone())).or_default();
        let (ruleset, anchor) = (evaluator.ruleset(), found.anchor);
        let known_by = format!("{text}{}", limiters::suffix(ruleset, found.rule));
        let key = RuleKey { anchor: anchor.into(), text: known_by, ordinal: *ordinal };
        let limited = limiters::word(ruleset, found.rule);
        keys.push((key, OfStates::new(anchor, found.rule, limited)));
        *ordinal += 1;
        infos.push(RuleInfo {
            rule: found.id,
            list: found.list,
            id: 0,
            anchor: found.anchor.into(),
            number: found.number,
            text,
            labels: found.rule.options.labels.clone(),
            has_pflow: found.rule.options.state.as_ref().is_some_and(|state| state.pflow),
        });
    }
    let count = keys.len();
    let ids = known
        .assign(keys)
        .map_err(|_| limit("rules over all reloads", count, ID_COUNT_MAX as usize))?;
    for (info, id) in infos.iter_mut().zip(ids) {
        info.id = id;
    }
    Ok(infos)
}

struct Builder<'a> {
    names: criteria::Names<'a>,
    known: Known,
    ids: HashMap<RuleId, u32>,
    anchors: Vec<Text>,
    anchor_indices: HashMap<Text, u32>,
    criteria: Vec<Criteria>,
    actions: Vec<image::Rule>,
    translations: Vec<Option<Translation>>,
    scrubs: Vec<u64>,
    gateway_numbers: HashMap<Gateway, u16>,
    gateways: Vec<image::Gateways>,
    queue_numbers: queues::Numbers,
    trees: Vec<Tree>,
    counted_tables: &'a CountedTables,
    counted: CountedEnds,
    rates: Rates,
    copies: copies::Copies,
    /// Places of the anchors that are entered and not left.
    open: Vec<usize>,
}

impl<'a> Builder<'a> {
    /// Refuses more tables, or more that rules ask of senders, than there are numbers for.
    fn check_names(&self) -> Result<(), Refused> {
        let (table_count, owner_count) = (self.names.tables.len(), self.names.owners.len());
        if table_count > TABLE_COUNT_MAX {
            return Err(limit("tables", table_count, TABLE_COUNT_MAX));
        }
        if owner_count > OWNER_COUNT_MAX {
            let what = "different `user`, `group` and `os`";
            return Err(limit(what, owner_count, OWNER_COUNT_MAX));
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), Refused> {
        match step {
            Step::Rule(id) | Step::Enter(id) => {
                let Some(found) = self.names.evaluator.rule(id) else { return Ok(()) };
                if matches!(step, Step::Enter(_)) {
                    self.open.push(self.criteria.len());
                }
                self.rule(&found)
            }
            Step::Leave(id) => {
                let rule = self.names.evaluator.rule(id).map(|found| found.rule);
                self.leave(rule);
                Ok(())
            }
        }
    }

    fn rule(&mut self, rule: &RuleRef<'a>) -> Result<(), Refused> {
        let criteria = self.names.criteria(rule.rule, rule.anchor);
        let is_counted = self.count_entries(rule, &criteria);
        self.row(rule, criteria, None)?;
        if let Some(rate) = rule.rule.options.max_pkt_rate {
            let id = self.ids.get(&rule.id).copied().unwrap_or(0);
            self.rates.insert(id, [rate.limit, rate.seconds]);
        }
        if let Some(action) = self.actions.last_mut().filter(|_| is_counted) {
            action.decision |= decision::COUNTED;
        }
        // A rule that translates is for one direction; the others are refused.
        self.translate(rule, rule.rule.direction.unwrap_or(Direction::In))
    }

    /// Tables that limiters fill are in the directory whether rules ask them or not.
    fn name_limiters_tables(&mut self) {
        let ruleset = self.names.evaluator.ruleset();
        for table in ruleset.limiters().filter_map(|limiter| limiter.table.as_ref()) {
            self.names.named_table("", &table.name);
        }
    }

    /// A rule with its criteria, which does not translate so far.
    fn row(
        &mut self,
        rule: &RuleRef<'a>,
        criteria: Criteria,
        kind: Option<RuleKind>,
    ) -> Result<(), Refused> {
        let Some(mut action) = self.names.action(rule.rule, rule.anchor, &mut self.known) else {
            let message = "more than 255 different sets of timeouts in rules, those of earlier \
                           rulesets with states included";
            return Err(refused(rule.rule.span, message.into()));
        };
        action.id = self.ids.get(&rule.id).copied().unwrap_or(0);
        action.number = rule.number;
        action.anchor = self.anchor(rule.anchor);
        action.gateways = self.gateways(rule.rule, rule.anchor)?;
        self.copy(action.id, rule.rule, rule.anchor)?;
        action.kind = kind.unwrap_or(action.kind);
        self.criteria.push(criteria);
        self.actions.push(action);
        self.translations.push(None);
        let word = self.word(rule.rule);
        self.scrubs.push(word);
        Ok(())
    }

    /// Notes which tables with `counters` a rule asks, and says whether it asks any.
    fn count_entries(&mut self, rule: &RuleRef<'a>, criteria: &Criteria) -> bool {
        let ends = [(&rule.rule.from, criteria.from[0]), (&rule.rule.to, criteria.to[0])];
        let counted = ends.map(|(peer, index)| {
            let Address::Table(name) = &peer.address else { return image::Counted::default() };
            let anchor = self.names.evaluator.table_anchor(rule.anchor, name);
            let table = self.counted_tables.get(&(anchor, name.clone())).copied().unwrap_or(0);
            image::Counted { table, index, is_not: peer.not }
        });
        let is_counted = counted.iter().any(|end| end.table != 0);
        if is_counted {
            let id = self.ids.get(&rule.id).copied().unwrap_or(0);
            self.counted.insert(id, counted);
        }
        is_counted
    }

    fn anchor(&mut self, path: &str) -> u32 {
        if let Some(at) = self.anchor_indices.get(path) {
            return *at;
        }
        let at = u32::try_from(self.anchors.len()).unwrap_or(u32::MAX);
        self.anchors.push(path.into());
        self.anchor_indices.insert(path.into(), at);
        at
    }

    /// Closes an anchor: one with `quick` gets its end.
    fn leave(&mut self, rule: Option<&Rule>) {
        let Some(start) = self.open.pop() else { return };
        if rule.is_some_and(|rule| rule.quick) {
            // It is only reached from within, so it asks nothing. The winner's number is counted
            // from 1: larger than the anchor's own place means behind it.
            let number = u32::try_from(start + 1).unwrap_or(u32::MAX);
            self.criteria.push(Criteria::default());
            self.actions.push(image::Rule {
                kind: RuleKind::AnchorEnd,
                number,
                ..image::Rule::default()
            });
            self.translations.push(None);
            self.scrubs.push(0);
        }
        self.criteria[start].end = u32::try_from(self.criteria.len()).unwrap_or(u32::MAX);
    }

    /// `WEIR_FW_IMAGE_*`; `rule_count`: rules without those of lists.
    fn flags(&self, rule_count: usize) -> u32 {
        let ruleset = self.names.evaluator.ruleset();
        let mut flags = 0;
        let mut flag = |bit: u32, is_set: bool| flags |= if is_set { bit } else { 0 };
        flag(image_flags::OPENBSD, ruleset.dialect == Dialect::OpenBsd);
        flag(image_flags::TAGS, self.names.has_tags());
        let asks = |asks: &dyn Fn(&Criteria) -> bool| self.criteria.iter().any(asks);
        flag(image_flags::ROUTES, asks(&|criteria| criteria.from_kind == PlaceKind::UrpfFailed));
        flag(
            image_flags::NO_ROUTE_BACK,
            asks(&|criteria| criteria.from_kind == PlaceKind::NoRoute),
        );
        flag(image_flags::NO_ROUTE_TO, asks(&|criteria| criteria.to_kind == PlaceKind::NoRoute));
        let decides = |bit: u32| self.actions.iter().any(|action| action.decision & bit != 0);
        let translates = self.translations.iter().any(Option::is_some);
        flag(image_flags::TRANSLATES, translates);
        let changes_family = |translation: &Translation| translation.prefix_octets.is_some();
        flag(image_flags::FAMILIES, self.translations.iter().flatten().any(changes_family));
        flag(image_flags::BOUND, ruleset.settings.if_bound);
        flag(image_flags::NO_DF, ruleset.settings.reassemble_no_df);
        flag(image_flags::STATES, decides(decision::KEEP_STATE) || translates);
        flag(image_flags::SOURCES, decides(decision::SOURCE_TRACK));
        flag(image_flags::IF_BOUND, decides(decision::IF_BOUND));
        let is_elsewhere = |action: &image::Rule| action.answers != 0 || action.routing_table != 0;
        flag(image_flags::GATEWAYS, !self.gateways.is_empty());
        flag(image_flags::OWNERS, self.names.owners.iter().any(image::Owner::is_of_socket));
        flag(image_flags::SYSTEMS, !self.names.systems.is_empty());
        flag(image_flags::COUNTED, !self.counted.is_empty());
        flag(image_flags::RATES, !self.rates.is_empty());
        let proxies = decides(decision::SYNPROXY | decision::ADAPTIVE);
        flag(image_flags::PROXIES, proxies);
        let is_routed = !self.gateways.is_empty() || self.copies.is_any();
        let is_plain = !translates && !proxies && !is_routed;
        flag(image_flags::STAGES, is_plain && !self.actions.iter().any(is_elsewhere));
        flag(image_flags::CLASSES, rule_count >= CLASSES_RULE_COUNT_MIN);
        flags
    }

    /// The same count.
    fn finish(
        self,
        rules: Vec<RuleInfo>,
        warnings: Vec<Diagnostic>,
        rule_count: usize,
    ) -> Compiled {
        let header = Header {
            flags: self.flags(rule_count),
            rule_count: u32::try_from(rule_count).unwrap_or(u32::MAX),
            judged: judged(&self.criteria[..rule_count], &self.actions[..rule_count]),
            ..Header::default()
        };
        Compiled {
            header,
            criteria: self.criteria,
            actions: self.actions,
            translations: self.translations,
            scrubs: self.scrubs,
            gateways: self.gateways,
            owners: self.names.owners,
            systems: self.names.systems,
            counted: self.counted,
            rates: self.rates,
            copies: self.copies,
            limiters: Limiters::default(),
            numbered: Vec::new(),
            trees: self.trees,
            operands: self.names.operands,
            rules,
            tables: self.names.tables,
            anchors: self.anchors,
            fresh: Vec::new(),
            fresh_limiters: Vec::new(),
            known: self.known,
            warnings,
            settings: Settings::default(),
            typed: Vec::new(),
            typed_at: HashMap::new(),
        }
    }
}

/// The slots of the interfaces with `set skip`.
fn skipped(input: &Input<'_>) -> u64 {
    let skipped = input.slots.iter().filter(|slot| input.evaluator.skips(&slot.interface));
    skipped.fold(0, |set, slot| set | 1 << slot.number)
}

/// The slots on which some rule can match, by direction.
fn judged(criteria: &[Criteria], actions: &[image::Rule]) -> [u64; 2] {
    let mut judged = [0; 2];
    for (criterion, action) in criteria.iter().zip(actions) {
        if action.kind == RuleKind::AnchorEnd {
            continue;
        }
        for (direction, set) in judged.iter_mut().enumerate() {
            if criterion.hooks >> direction & 1 == 1 {
                *set |= criterion.interfaces;
            }
        }
    }
    judged
}

fn padded(out: &mut Vec<u8>) -> u32 {
    out.resize(out.len().next_multiple_of(64), 0);
    u32::try_from(out.len()).unwrap_or(u32::MAX)
}

impl Compiled {
    /// How many rules a packet may meet, ends of anchors included.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.criteria.len()
    }

    /// Chooses how the rules are evaluated, whatever their number: by bit vectors, or one by one.
    /// For tests and benchmarks.
    pub fn classify(&mut self, by_classes: bool) {
        self.header.flags &= !image_flags::CLASSES;
        self.header.flags |= if by_classes { image_flags::CLASSES } else { 0 };
    }

    /// `WEIR_FW_IMAGE_*` of the image.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.header.flags
    }

    /// The image's bytes: `tables_at` has the place of each table's content from the arena's start
    /// (0: empty) in the order of [`Compiled::tables`], `counters_at` gives that of a rule's
    /// counters (0: not counted), and limiters count at `limiter_counts_at`.
    ///
    /// # Panics
    /// If there are not as many places as tables.
    #[must_use]
    pub fn link(
        &self,
        tables_at: &[u32],
        counters_at: impl Fn(u32) -> u32,
        limiter_counts_at: u32,
    ) -> Vec<u8> {
        assert_eq!(tables_at.len(), self.tables.len(), "a place for each table");
        let mut out = vec![0; IMAGE_BYTES];
        let mut header = self.header;
        let row_count = u32::try_from(self.criteria.len()).unwrap_or(u32::MAX);
        let criteria_at = padded(&mut out);
        let operands_at = criteria_at + row_count * 2 * u32::try_from(RULE_BYTES).unwrap_or(0);
        for criterion in &self.criteria {
            relocated(criterion, operands_at).write(&mut out);
        }
        header.criteria_at = criteria_at;
        header.rules_at = padded(&mut out);
        for action in &self.actions {
            let is_counted = action.kind != RuleKind::AnchorEnd;
            let counters_at = if is_counted { counters_at(action.id) } else { 0 };
            image::Rule { counters_at, ..*action }.write(&mut out);
        }
        out.extend(&self.operands);
        if self.header.flags & image_flags::CLASSES != 0 {
            let count = header.rule_count as usize;
            let kinds = self.actions[..count].iter().map(|action| action.kind);
            let kinds: Vec<RuleKind> = kinds.collect();
            padded(&mut out);
            let criteria = &self.criteria[..count];
            header.classes_at = classes::write(criteria, &kinds, &self.operands, &mut out);
        }
        header.translations_at = self.link_translations(&mut out);
        header.scrubs_at = padded(&mut out);
        out.extend(self.scrubs.iter().flat_map(|word| word.to_ne_bytes()));
        header.gateways_at = padded(&mut out);
        self.gateways.iter().for_each(|pool| pool.write(&mut out));
        let systems = self.systems.link(&mut out, padded);
        header.systems_at = systems.at;
        header.owners_at = padded(&mut out);
        for owner in &self.owners {
            owner.write(systems.set_at(owner.systems), &mut out);
        }
        header.tables_at = padded(&mut out);
        header.table_count = u32::try_from(tables_at.len()).unwrap_or(u32::MAX);
        out.extend(tables_at.iter().flat_map(|at| at.to_ne_bytes()));
        header.typed_at = self.link_typed(&mut out);
        header.counters_at = padded(&mut out);
        header.id_count = self.known.id_count;
        out.extend((0..self.known.id_count).flat_map(|id| counters_at(id).to_ne_bytes()));
        header.counted_at = self.link_counted(&mut out);
        header.rates_at = self.link_rates(&mut out);
        header.copies_at = self.link_copies(&mut out);
        header.limiter_counts_at = limiter_counts_at;
        [header.limiters_at, header.limited_at] = self.limiters.link(&mut out, &self.known);
        header.profiles_at = padded(&mut out);
        let blank = [[0; TIMEOUT_COUNT]];
        let profiles = &self.settings.profiles;
        let profiles = if profiles.is_empty() { &blank[..] } else { profiles };
        header.profile_count = u32::try_from(profiles.len()).unwrap_or(u32::MAX);
        out.extend(profiles.as_flattened().iter().flat_map(|ticks| ticks.to_ne_bytes()));
        header.bytes = padded(&mut out);
        out[..IMAGE_BYTES].copy_from_slice(&header.to_bytes(&self.settings));
        out
    }
}

impl Compiled {
    /// Refuses what no packet has had by then. What of it stands in one file was found before.
    fn check_proxies(&self) -> Result<(), Refused> {
        let has = |flag: u32| self.flags() & flag != 0;
        if has(image_flags::SYSTEMS) && has(image_flags::PROXIES) {
            return Err(refused(Span::default(), refuse::os_with_proxy()));
        }
        Ok(())
    }

    /// By row what it translates to, if some rule translates; gives where it stands.
    fn link_translations(&self, out: &mut Vec<u8>) -> u32 {
        if self.header.flags & image_flags::TRANSLATES == 0 {
            return 0;
        }
        padded(out);
        let write = |translation: &Option<Translation>| {
            translation.as_ref().map_or(0, |translation| translation.write(out))
        };
        let places: Vec<u32> = self.translations.iter().map(write).collect();
        let at = padded(out);
        out.extend(places.iter().flat_map(|at| at.to_ne_bytes()));
        at
    }

    /// By rule id which tables with `counters` it asks, if some rule does; gives where it stands.
    fn link_counted(&self, out: &mut Vec<u8>) -> u32 {
        if self.counted.is_empty() {
            return 0;
        }
        let at = padded(out);
        for id in 0..self.known.id_count {
            let ends = self.counted.get(&id).copied().unwrap_or_default();
            ends.iter().for_each(|end| end.write(out));
        }
        at
    }

    /// By rule id `max-pkt-rate`, if some rule has it; gives where it stands.
    fn link_rates(&self, out: &mut Vec<u8>) -> u32 {
        if self.rates.is_empty() {
            return 0;
        }
        let at = padded(out);
        for id in 0..self.known.id_count {
            let rate = self.rates.get(&id).copied().unwrap_or_default();
            out.extend(rate.map(u32::to_ne_bytes).as_flattened());
        }
        at
    }
}

/// Criteria with the places of their operands in the image.
fn relocated(criteria: &Criteria, operands_at: u32) -> Criteria {
    let mut moved = *criteria;
    let is_far = |kind| matches!(kind, PlaceKind::Net6 | PlaceKind::Range6);
    moved.from[0] += if is_far(criteria.from_kind) { operands_at } else { 0 };
    moved.to[0] += if is_far(criteria.to_kind) { operands_at } else { 0 };
    moved
}

#[cfg(test)]
mod tests;

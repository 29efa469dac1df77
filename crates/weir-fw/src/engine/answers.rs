//! Answers to pfctl's questions: what is shown.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{STATE_SLOPPY, STATE_TRACKED, control};
use weir_bpf::firewall::reasons::REASONS;
use weir_rules::evaluate::{Evaluator, List, anchor_path};
use weir_rules::facts::Facts;
use weir_rules::fingerprint::Fingerprints;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::resolve::Resolver as _;
use weir_rules::value::{LimiterKind, Syncookies};

use super::counters::{self, LIMIT_NAMES, LiveCounts, Totals};
use super::source::loaded_anchors;
use super::{Engine, Refused, clock};
use crate::compile::RuleInfo;
use crate::compile::known::Gateway;
use crate::protocol::{How, Shown};
use crate::show::info::{CookieInfo, Info, LogInterface};
use crate::show::rules::{RuleCounts, put_counts, put_labels};
use crate::show::states::{End, Line};
use crate::show::{interfaces, settings, states};
use crate::states::{Record, View};

/// pf's own reasons stand first in the list, and are so many.
const PF_REASON_COUNT: usize = 16;
/// Text is handed over in pieces of about this size.
const PIECE_SIZE_BYTES: usize = 1 << 16;

/// The title of states in `-s all`.
pub(crate) const STATES_TITLE: &str = "STATES:";

/// Takes text as it comes; `Err` if whoever asked is gone.
pub(crate) type Out<'a> = &'a mut dyn FnMut(String) -> std::io::Result<()>;

/// What it takes to print states, without holding up the engine for as long as it takes.
#[derive(Debug, Clone)]
pub(crate) struct StatesPrinter {
    firewall: std::sync::Arc<Firewall>,
    interfaces: Vec<String>,
    /// Numbers of the main ruleset's rules by identifier.
    rule_numbers: HashMap<u32, u32>,
    protocols: Vec<Option<String>>,
    /// By their numbers, from 1 on.
    gateways: Vec<String>,
    host_id: u32,
    how: How,
}

impl StatesPrinter {
    /// Prints all states; gives their number.
    ///
    /// # Errors
    ///
    /// If `out` fails.
    pub(crate) fn print(&self, out: Out<'_>) -> std::io::Result<u64> {
        let view = View::new(&self.firewall);
        let now = now_tick(&self.firewall);
        let mut text = String::with_capacity(2 * PIECE_SIZE_BYTES);
        let mut count = 0;
        view.try_for_all(|record| {
            let line = self.line(&view, record, now);
            if self.how.interface.as_deref().is_none_or(|name| name == line.interface) {
                states::put(&mut text, &line, self.how.verbosity);
                count += 1;
            }
            if text.len() < PIECE_SIZE_BYTES {
                return Ok(());
            }
            let piece = std::mem::replace(&mut text, String::with_capacity(2 * PIECE_SIZE_BYTES));
            out(piece)
        })?;
        out(text).map(|()| count)
    }

    fn gateway(&self, number: u8) -> Option<&str> {
        self.gateways.get(usize::from(number).checked_sub(1)?).map(String::as_str)
    }

    fn line<'a>(&'a self, view: &View<'_>, record: &Record, now: u32) -> Line<'a> {
        // A record with both halves is shown as the state of the side where it came in, unless only
        // the other side shows that it is translated.
        let other_family = record.other_family();
        let is_translated_out = record.wire[1].is_some() && other_family.is_none();
        let is_shown_out = is_translated_out || !record.has_half(0);
        let half = usize::from(is_shown_out);
        let slot = usize::from(record.interfaces[half]);
        let made_on = self.interfaces.get(slot).map_or("", String::as_str);
        let end = |at: usize| End {
            address: record.ends[at].0,
            port: record.ends[at].1,
            phase: record.phase[at],
            seq: record.seq[at],
            wscale: record.wscale[at],
            packet_count: record.packets[at],
            size_bytes: record.bytes[at],
        };
        let has = |bit: u32| record.flags & bit != 0;
        // What only `-v` shows is not looked for without it.
        let is_verbose = self.how.verbosity > 0;
        let (mut age_s, mut expires_in_s, mut rule) = (0, 0, None);
        if is_verbose {
            (age_s, expires_in_s) =
                (crate::states::age_s(record, now), view.expires_in_s(record, now));
            rule = record.rules[half].and_then(|id| self.rule_numbers.get(&id).copied());
        }
        Line {
            interface: if record.is_bound(half) { made_on } else { "all" },
            made_on,
            is_out: half == 1,
            protocol: record.protocol,
            protocol_name: self.protocols[usize::from(record.protocol)].as_deref(),
            from: end(0),
            to: end(1),
            from_outside: outside(record, 1, 0),
            to_outside: outside(record, 0, 1),
            other_family,
            age_s,
            expires_in_s,
            rule,
            is_sloppy: has(STATE_SLOPPY),
            is_no_sync: record.are_no_sync.contains(&true),
            is_source_tracked: has(STATE_TRACKED),
            is_logged: record.log_all[half],
            gateways: record.gateways.map(|number| self.gateway(number)),
            id: record.id(),
            creator_id: self.host_id,
        }
    }
}

/// An end of a flow as it is outside of a half, where it is translated.
fn outside(record: &Record, half: usize, end: usize) -> Option<(IpAddr, u16)> {
    record.wire[half].map(|ends| ends[end]).filter(|outside| *outside != record.ends[end])
}

/// The data path's clock.
pub(crate) fn now_tick(firewall: &Firewall) -> u32 {
    crate::states::tick(firewall, clock::monotonic_ns())
}

impl Engine {
    /// What prints states, as they are when it runs.
    #[must_use]
    pub(crate) fn states_printer(&self, how: &How) -> StatesPrinter {
        let main = self.filter_rules().filter(|rule| rule.anchor.is_empty());
        let name = |number: u8| self.facts.protocol_name(number).map(|name| name.to_string());
        let of_number = |held: &Option<Gateway>| held.as_ref().map(ToString::to_string);
        let gateways =
            self.known.gateways.held.iter().map(of_number).map(Option::unwrap_or_default);
        let gateways = gateways.collect();
        StatesPrinter {
            firewall: std::sync::Arc::clone(&self.firewall),
            interfaces: (0..64).map(|slot| self.interfaces.name(slot).to_owned()).collect(),
            rule_numbers: main.map(|rule| (rule.id, rule.number)).collect(),
            protocols: (0..=u8::MAX).map(name).collect(),
            gateways,
            host_id: self.firewall.arena().read32(control::HOST_ID),
            how: how.clone(),
        }
    }

    /// `pfctl -s`, all but states and `all`. The exit code is 1 where the answer is no.
    pub(crate) fn shown(
        &self,
        what: Shown,
        how: &How,
        live: &LiveCounts,
    ) -> Result<(String, u8), Refused> {
        let text = match what {
            Shown::Info => {
                let is_verbose = how.verbosity > 0;
                self.info(how.interface.as_deref(), is_verbose)?.text(is_verbose)
            }
            Shown::Memory => settings::limits(&self.main.ruleset.settings.limits),
            Shown::Timeouts => settings::timeouts(&self.main.timeouts()),
            Shown::Rules => {
                let (is_numeric, has_steps) = (how.has_numeric_ports, how.has_skip_steps);
                let rules =
                    self.show_rules(&how.anchor, how.verbosity, (is_numeric, has_steps), live);
                self.scrub_rules(how) + &rules
            }
            Shown::Labels => self.labels(&how.anchor, live),
            Shown::Tables => self.show_tables(&how.anchor, how.verbosity),
            Shown::Interfaces => self.show_interfaces(how),
            Shown::Osfp => {
                let fingerprints = self.main.ruleset.fingerprints.as_deref();
                fingerprints.map(Fingerprints::listing).unwrap_or_default()
            }
            Shown::Anchors => self.show_anchors(&how.anchor),
            Shown::Running => {
                let is_enabled = self.is_enabled();
                let word = if is_enabled { "Enabled" } else { "Disabled" };
                return Ok((format!("{word}\n"), u8::from(!is_enabled)));
            }
            Shown::Sources => self.show_sources(how)?,
            Shown::StateLimiters => self.show_limiters(LimiterKind::State, how)?,
            Shown::SourceLimiters => self.show_limiters(LimiterKind::Source, how)?,
            Shown::Nat => self.show_translation(how, live),
            Shown::Queue => self.show_queues(how.verbosity),
            Shown::States | Shown::All => String::new(),
        };
        Ok((text, 0))
    }

    /// `pfctl -s all`, in pfctl's order: titles and texts. That of states is left to the caller.
    pub(crate) fn parts_of_all(
        &self,
        how: &How,
        live: &LiveCounts,
    ) -> Result<Vec<(&'static str, String)>, Refused> {
        let parts = [
            ("TRANSLATION RULES:", Shown::Nat),
            ("FILTER RULES:", Shown::Rules),
            (STATES_TITLE, Shown::States),
            ("SOURCE TRACKING NODES:", Shown::Sources),
            ("INFO:", Shown::Info),
            ("LABEL COUNTERS:", Shown::Labels),
            ("TIMEOUTS:", Shown::Timeouts),
            ("LIMITS:", Shown::Memory),
            ("TABLES:", Shown::Tables),
        ];
        let text = |(title, what)| self.shown(what, how, live).map(|(text, _)| (title, text));
        // Of fingerprints only the number is shown there.
        let count = self.main.ruleset.fingerprints.as_deref().map_or(0, Fingerprints::count);
        let loaded =
            if count == 0 { String::new() } else { format!("{count} fingerprints loaded\n") };
        let fingerprints = Ok(("OS FINGERPRINTS:", loaded));
        parts.into_iter().map(text).chain([fingerprints]).collect()
    }

    /// Counters since the last `-F info`.
    pub(super) fn totals(&self) -> Totals {
        Totals::read(&self.firewall).since(&self.baseline)
    }

    /// Fragments are counted one by one, for `-v` alone.
    fn info(&self, interface: Option<&str>, is_verbose: bool) -> Result<Info, Refused> {
        let fragment_count = if is_verbose {
            let counted = self.firewall.fragment_count(now_tick(&self.firewall));
            counted.map_err(Refused::because)?
        } else {
            0
        };
        let totals = self.totals();
        let arena = self.firewall.arena();
        let since_ns = arena.read64(control::ENABLED_NS);
        let since = (since_ns > 0).then(|| clock::boot_ns().saturating_sub(since_ns));
        let settings = &self.main.ruleset.settings;
        let logged = interface.or(settings.log_interface.as_deref());
        let reason = |(at, reason): (usize, &weir_bpf::firewall::reasons::Reason)| {
            (reason.name, totals.dropped(at))
        };
        let mut reasons: Vec<_> = REASONS.iter().enumerate().map(reason).collect();
        let weir_reasons = reasons.split_off(PF_REASON_COUNT.min(reasons.len()));
        let table = &totals.table;
        Ok(Info {
            is_enabled: self.is_enabled(),
            since_s: since.map(|ns| ns / 1_000_000_000),
            debug: debug_word(&self.debug),
            host_id: arena.read32(control::HOST_ID),
            checksum: self.checksum(),
            interface: logged.map(|name| self.log_interface(name, &totals)),
            state_count: arena.read64(control::STATE_COUNT),
            table: vec![
                ("searches", table.search_count),
                ("inserts", table.insert_count),
                ("removals", table.removal_count),
            ],
            source_node_count: u64::from(arena.read32(control::SOURCE_COUNT)),
            source_nodes: vec![
                ("searches", table.source_search_count),
                ("inserts", table.source_insert_count),
                ("removals", table.source_removal_count),
            ],
            fragment_count,
            reasons,
            limits: LIMIT_NAMES.into_iter().zip(table.limits).collect(),
            weir_reasons,
            pflow: self.flow_counters.list(table.events_lost_count),
            sync: self.sync_counters.list(table.sync_lost_count),
            syncookies: self.cookies(),
        })
    }

    /// What becomes of SYNs.
    fn cookies(&self) -> CookieInfo {
        let (arena, mode) = (self.firewall.arena(), self.main.ruleset.settings.syncookies);
        CookieInfo {
            mode: mode.as_str(),
            is_active: match mode {
                Syncookies::Never => false,
                Syncookies::Always => true,
                Syncookies::Adaptive { .. } => arena.read32(control::IS_FLOODED) != 0,
            },
            half_open_count: arena.read32(control::HALF_OPEN_COUNT),
            levels: mode.levels(self.main.limit("states")),
        }
    }

    /// Tells rulesets apart: FNV-1a of the printed rules, in both halves.
    fn checksum(&self) -> [u8; 16] {
        let hash = |start: u64| {
            let bytes = self.rules.iter().flat_map(|rule| rule.text.bytes().chain([b'\n']));
            bytes.fold(start, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4));
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }

    /// Counters by family, direction, outcome of an interface, or of all of a group.
    fn log_interface(&self, name: &str, totals: &Totals) -> LogInterface {
        let mut interface = LogInterface { name: name.to_owned(), ..LogInterface::default() };
        let names: Vec<&str> = weir_rules::resolve::interfaces_named(&self.facts, name)
            .map(|facts| facts.name.as_str())
            .collect();
        for (number, known) in self.interfaces.all() {
            if known.name != name && !names.contains(&known.name.as_str()) {
                continue;
            }
            let Some(counted) = totals.interfaces.get(number) else { continue };
            for family in 0..2 {
                for direction in 0..2 {
                    for outcome in 0..2 {
                        interface.packets[family][direction][outcome] +=
                            counted.packets[direction][outcome][family];
                        interface.bytes[family][direction] +=
                            counted.bytes[direction][outcome][family];
                    }
                }
            }
        }
        interface
    }

    fn show_interfaces(&self, how: &How) -> String {
        let totals = self.totals();
        let mut all = interfaces::Interface {
            name: "all".to_owned(),
            cleared_unix_s: self.started_unix_s,
            ..interfaces::Interface::default()
        };
        let mut list = Vec::new();
        for (number, known) in self.interfaces.all() {
            let Some(counted) = totals.interfaces.get(number) else { continue };
            let mut interface = interfaces::Interface {
                name: known.name.clone(),
                is_skipped: known.is_skipped,
                cleared_unix_s: self.started_unix_s,
                rule_count: self.rules_on(&known.name),
                ..interfaces::Interface::default()
            };
            for family in 0..2 {
                for direction in 0..2 {
                    for outcome in 0..2 {
                        let packets = counted.packets[direction][outcome][family];
                        let bytes = counted.bytes[direction][outcome][family];
                        interface.packet_count[family][direction][outcome] = packets;
                        interface.size_bytes[family][direction][outcome] = bytes;
                        all.packet_count[family][direction][outcome] += packets;
                        all.size_bytes[family][direction][outcome] += bytes;
                    }
                }
            }
            list.push(interface);
        }
        list.push(all);
        list.sort_by(|a, b| a.name.cmp(&b.name));
        let mut out = String::new();
        let is_asked = |interface: &&interfaces::Interface| {
            how.interface.as_deref().is_none_or(|name| name == interface.name)
        };
        for interface in list.iter().filter(is_asked) {
            interfaces::put(&mut out, interface, how.verbosity);
        }
        out
    }

    /// Rules of the main ruleset that name an interface.
    fn rules_on(&self, name: &str) -> u32 {
        let rules = &self.main.ruleset.main.filter;
        let count = rules.iter().filter(|rule| {
            rule.interface.as_ref().is_some_and(|interface| *interface.name == *name)
        });
        u32::try_from(count.count()).unwrap_or(u32::MAX)
    }

    /// Anchors directly below a path.
    fn show_anchors(&self, path: &str) -> String {
        let mut names: Vec<&str> = self.rules.iter().map(|rule| &*rule.anchor).collect();
        names.extend(self.anchors.iter().map(|source| source.load.anchor.as_str()));
        children(path, &names).into_iter().map(|name| format!("  {name}\n")).collect()
    }

    /// What rules have counted, their states included.
    pub(super) fn all_rule_counts(&self, live: &LiveCounts) -> HashMap<u32, RuleCounts> {
        let mut all = live.clone();
        for info in &self.rules {
            let base = counters::of_rule(&self.firewall, &self.known, info.id);
            let counts = all.entry(info.id).or_default();
            counts.evaluation_count = base.evaluation_count;
            counts.created_count = base.created_count;
            counts.state_count = base.state_count;
            counts.is_spent = base.is_spent;
            for direction in 0..2 {
                counts.packet_count[direction] += base.packet_count[direction];
                counts.size_bytes[direction] += base.size_bytes[direction];
            }
        }
        all
    }

    fn printer<'a>(&'a self, facts: &'a Facts, is_numeric: bool) -> Printer<'a> {
        Printer {
            dialect: self.main.ruleset.dialect,
            resolver: facts,
            options: PrintOptions { numeric_ports: is_numeric, ..PrintOptions::default() },
        }
    }

    /// `scrub` rules of the main ruleset, which stand in front.
    fn scrub_rules(&self, how: &How) -> String {
        if !how.anchor.is_empty() {
            return String::new();
        }
        let printer = self.printer(&self.facts, how.has_numeric_ports);
        let rules = self.main.ruleset.main.scrub.iter();
        rules.map(|rule| printer.rule(rule) + "\n").collect()
    }

    /// The filter rules of an anchor; with `verbosity` their counters, and then their numbers. `*`
    /// at the end of its path shows those of the anchors that they call as well.
    pub(super) fn show_rules(
        &self,
        anchor: &str,
        verbosity: u8,
        (is_numeric, has_skip_steps): (bool, bool),
        live: &LiveCounts,
    ) -> String {
        let (path, is_recursive) = below(anchor);
        let anchors = loaded_anchors(&self.main, &self.anchors);
        let listing = Listing {
            list: List::Filter,
            evaluator: Evaluator::new(&self.main.ruleset, &anchors, &self.facts).ok(),
            printer: self.printer(&self.facts, is_numeric),
            counts: if verbosity > 0 { self.all_rule_counts(live) } else { HashMap::new() },
            table_sizes: if verbosity > 1 { self.table_sizes() } else { Vec::new() },
            verbosity,
            is_numeric,
            has_skip_steps,
            is_recursive,
        };
        let mut out = String::new();
        self.list_rules(&listing, path, 0, &mut out);
        out
    }

    /// FreeBSD's translation rules, list by list, each with numbers of its own.
    fn show_translation(&self, how: &How, live: &LiveCounts) -> String {
        let (is_numeric, is_counted) = (how.has_numeric_ports, how.verbosity > 0);
        let anchors = loaded_anchors(&self.main, &self.anchors);
        let (path, is_recursive) = below(&how.anchor);
        let mut listing = Listing {
            list: List::Nat,
            evaluator: Evaluator::new(&self.main.ruleset, &anchors, &self.facts).ok(),
            printer: self.printer(&self.facts, is_numeric),
            counts: if is_counted { self.all_rule_counts(live) } else { HashMap::new() },
            table_sizes: if how.verbosity > 1 { self.table_sizes() } else { Vec::new() },
            verbosity: how.verbosity,
            is_numeric,
            has_skip_steps: false,
            is_recursive,
        };
        let mut out = String::new();
        for list in [List::Nat, List::Rdr, List::Binat] {
            listing.list = list;
            self.list_rules(&listing, path, 0, &mut out);
        }
        out
    }

    /// What `-vv` prints for tables: their names with the number of their entries.
    fn table_sizes(&self) -> Vec<(String, String)> {
        let main = self.tables.all.iter().filter(|((anchor, _), _)| anchor.is_empty());
        main.map(|((_, name), table)| {
            (format!("<{name}>"), format!("<{name}:{}>", table.entries.len()))
        })
        .collect()
    }

    /// Appends the rules of an anchor, and of those that they call if that is asked for.
    fn list_rules(&self, listing: &Listing<'_>, path: &str, depth: usize, out: &mut String) {
        let Listing { verbosity, has_skip_steps, .. } = *listing;
        let steps = if has_skip_steps && path.is_empty() {
            weir_rules::skip::skip_steps(&self.main.ruleset.main.filter)
        } else {
            Vec::new()
        };
        let is_of = |info: &&RuleInfo| info.list == listing.list && *info.anchor == *path;
        let is_hidden = |info: &&RuleInfo| verbosity == 0 && self.has_ended(info);
        for info in self.rules.iter().filter(is_of).filter(|info| !is_hidden(info)) {
            out.push_str(&"  ".repeat(depth));
            if verbosity > 1 || has_skip_steps {
                out.push_str(&format!("@{} ", info.number));
            }
            let evaluator = listing.evaluator.as_ref().filter(|_| listing.is_numeric);
            let mut text = match evaluator.and_then(|evaluator| evaluator.rule(info.rule)) {
                Some(rule) => listing.printer.rule(rule.rule),
                None => info.text.clone(),
            };
            for (name, sized) in &listing.table_sizes {
                text = text.replace(name, sized);
            }
            out.push_str(&text);
            let entered = called(&info.text, path)
                .filter(|_| listing.is_recursive && depth < ANCHOR_DEPTH_MAX);
            out.push_str(if entered.is_some() { " {\n" } else { "\n" });
            if let Some(steps) = steps.get(usize::try_from(info.number).unwrap_or(usize::MAX)) {
                out.push_str(&steps.line(self.main.ruleset.dialect));
                out.push('\n');
            }
            if verbosity > 0 {
                let counts = listing.counts.get(&info.id).copied().unwrap_or_default();
                put_counts(out, &counts, self.loader);
            }
            if let Some(entered) = entered {
                self.list_rules(listing, &entered, depth + 1, out);
                out.push_str(&"  ".repeat(depth));
                out.push_str("}\n");
            }
        }
    }

    /// Whether a rule is a `once` rule, and has had its match.
    fn has_ended(&self, info: &RuleInfo) -> bool {
        counters::of_rule(&self.firewall, &self.known, info.id).is_spent
    }

    fn labels(&self, anchor: &str, live: &LiveCounts) -> String {
        let counts = self.all_rule_counts(live);
        let mut out = String::new();
        for info in self.filter_rules().filter(|info| *info.anchor == *anchor) {
            let counts = counts.get(&info.id).copied().unwrap_or_default();
            put_labels(&mut out, info.labels.iter().map(|label| &**label), &counts);
        }
        out
    }
}

/// How deep anchors are shown in one another: pf's limit on their nesting.
const ANCHOR_DEPTH_MAX: usize = 64;

/// What it takes to print rules.
struct Listing<'a> {
    list: List,
    evaluator: Option<Evaluator<'a>>,
    printer: Printer<'a>,
    counts: HashMap<u32, RuleCounts>,
    /// Tables as rules have them, and with their sizes.
    table_sizes: Vec<(String, String)>,
    verbosity: u8,
    is_numeric: bool,
    has_skip_steps: bool,
    is_recursive: bool,
}

/// The path in `-a`, and whether `*` behind it asks for the anchors below, too.
fn below(anchor: &str) -> (&str, bool) {
    match anchor.strip_suffix('*') {
        Some(path) => (path.strip_suffix('/').unwrap_or(path), true),
        None => (anchor, false),
    }
}

/// The path of the anchor that a rule of another one calls, by its printed text; `*` behind it
/// stands for all below, and is no part of it, as in pfctl.
pub(super) fn called(text: &str, from: &str) -> Option<String> {
    let of_kind = ["nat-", "rdr-", "binat-"].iter().find_map(|kind| text.strip_prefix(kind));
    let name = of_kind.unwrap_or(text).strip_prefix("anchor \"")?.split('"').next()?;
    let path = anchor_path(from, name)?;
    let above = path.strip_suffix('*').map(|above| above.trim_end_matches('/').to_owned());
    Some(above.unwrap_or(path))
}

/// The paths directly below a path that lead to one of `names`, each once.
fn children<'a>(path: &str, names: &[&'a str]) -> BTreeSet<&'a str> {
    let child = |name: &&'a str| {
        let rest = match path {
            "" => *name,
            _ => name.strip_prefix(path)?.strip_prefix('/')?,
        };
        let size = rest.find('/').unwrap_or(rest.len());
        (size > 0).then(|| &name[..name.len() - rest.len() + size])
    };
    names.iter().filter_map(child).collect()
}

fn debug_word(level: &str) -> &'static str {
    match level {
        "none" => "None",
        "misc" => "Misc",
        "loud" => "Loud",
        _ => "Urgent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_anchors_lead_to_a_path() {
        assert_eq!(called("anchor \"a/*\" all", "").as_deref(), Some("a"));
        assert_eq!(called("anchor \"b\" in on em0 all", "a").as_deref(), Some("a/b"));
        assert_eq!(called("anchor \"/c\" all", "a").as_deref(), Some("c"));
        assert_eq!(called("anchor \"../c/*\" all", "a/b").as_deref(), Some("a/c"));
        assert_eq!(called("anchor \"../*\" all", "a/b").as_deref(), Some("a"));
        assert_eq!(called("pass all label \"anchor\"", ""), None);
    }

    #[test]
    fn anchors_have_children() {
        let names = ["", "foo/bar/baz", "foo/bar", "food", "a"];
        let list = |path: &str| children(path, &names).into_iter().collect::<Vec<_>>();
        assert_eq!(list(""), ["a", "foo", "food"]);
        assert_eq!((list("foo"), list("foo/bar")), (vec!["foo/bar"], vec!["foo/bar/baz"]));
        assert_eq!(list("a"), Vec::<&str>::new());
    }
}

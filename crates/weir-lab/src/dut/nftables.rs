//! An nftables ruleset on a Linux DUT: loaded by `nft -f`, proven by its counters.
//!
//! The ruleset is read back as JSON (libnftables-json(5)), without the elements of sets and maps,
//! which may be millions. Its `counter` statements and named counters tell which rules packets
//! met; those that count nothing but what the same rule drops are named losses. Nothing is guessed:
//! a rule without a counter, the policy of a chain and the elements of sets and maps say nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use weir_machine::host::{Command, Host, HostError, Output, Program};
use weir_results::counters::{Counters, DropRule, Place, Selection};
use weir_results::dut::DutFile;
use weir_results::record::Check;

use super::DutError;

/// How long `nft` may take: a ruleset with a million elements loads in seconds.
const NFT_TIMEOUT: Duration = Duration::from_secs(60);

/// How the ruleset is read back.
const LIST: [&str; 5] = ["nft", "--json", "--terse", "list", "ruleset"];

/// What is taken for a counter, for messages.
const FORMS: &str = "packets are counted by `counter` in a rule and by a named counter that a rule \
                     refers to; counters of the elements of sets and maps, and policies of \
                     chains, are not read";

/// What to do about a ruleset that cannot be read back.
const TOO_LARGE: &str = "if the ruleset is too large to be listed, let a set or a map do the work \
                         of many rules: their elements are left out";

/// How many counters a message lists.
const LISTED_COUNTER_COUNT_MAX: usize = 8;

/// The setting that tells how many connections are tracked.
const TRACKED: &str = "net.netfilter.nf_conntrack_count";

/// A ruleset and what is known of it once it is loaded.
#[derive(Debug)]
pub(super) struct Nftables {
    dut: String,
    file: DutFile,
    known: Known,
    tracks_connections: bool,
    /// Connections that are tracked without the traffic: the lab's own to a machine.
    tracked_before: u64,
}

/// What a ruleset counts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Known {
    counters: Vec<Counter>,
    /// Rules whose `drop` or `reject` has no counter of its own.
    uncounted_drop_count: usize,
}

/// A counter of the ruleset.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counter {
    /// `<family> <table> <chain> handle <n>` of a rule, `<family> <table> counter <name>` of a
    /// named counter.
    name: String,
    packets: u64,
    /// Whether it counts what a rule drops, and nothing else.
    drops: bool,
}

impl Nftables {
    pub(super) fn new(dut: &str, file: DutFile) -> Self {
        Self {
            dut: dut.to_owned(),
            file,
            known: Known::default(),
            tracks_connections: false,
            tracked_before: 0,
        }
    }

    /// Loads the ruleset and reads it back.
    pub(super) fn load(&mut self, host: &dyn Host) -> Result<(), DutError> {
        let output = self.nft(host, &["nft", "-f", "-"], &self.file.text)?;
        if !output.success() {
            return Err(self.error(format!(
                "`nft -f {}` failed:\n{}",
                self.file.path,
                // nft names its standard input; the user knows the file by its path.
                output.said().replace("/dev/stdin", &self.file.path)
            )));
        }
        let ruleset = self.ruleset(host)?;
        self.tracks_connections = uses_conntrack(&ruleset);
        self.known = Known::of(&ruleset);
        Ok(())
    }

    /// Whether the ruleset looks at the state of connections.
    pub(super) fn tracks_connections(&self) -> bool {
        self.tracks_connections
    }

    /// Takes what is tracked now for what is not the traffic's.
    pub(super) fn before_traffic(&mut self, host: &dyn Host) -> Result<(), DutError> {
        if self.tracks_connections {
            self.tracked_before = self.number(host, TRACKED)?;
        }
        Ok(())
    }

    /// Connections of the traffic that are tracked now.
    pub(super) fn tracked(&self, host: &dyn Host) -> Result<u64, DutError> {
        Ok(self.number(host, TRACKED)?.saturating_sub(self.tracked_before))
    }

    /// How many connections can be tracked: packets of further ones are dropped.
    pub(super) fn limit(&self, host: &dyn Host) -> Result<u64, DutError> {
        self.number(host, "net.netfilter.nf_conntrack_max")
    }

    fn number(&self, host: &dyn Host, setting: &str) -> Result<u64, DutError> {
        let text = host.sysctl(setting).map_err(DutError::host(&self.dut))?;
        text.trim().parse().map_err(|_| self.error(format!("{setting} is `{text}`, not a number")))
    }

    /// Packets by counter.
    pub(super) fn counters(&self, host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        let known = Known::of(&self.ruleset(host)?);
        Ok(known.counters.into_iter().map(|c| (c.name, c.packets)).collect())
    }

    /// Counters of what rules drop.
    pub(super) fn drops(&self) -> Vec<DropRule> {
        self.known
            .counters
            .iter()
            .filter(|c| c.drops)
            .map(|c| {
                DropRule::new(
                    &format!("nft {}", c.name),
                    "dut_received",
                    Place::Dut,
                    Selection::new("nft", &[&c.name]),
                )
            })
            .collect()
    }

    /// Whether the run moved a counter of the ruleset.
    pub(super) fn took_effect(&self, run: &Counters) -> Check {
        let moved: Vec<String> = run
            .get("nft")
            .into_iter()
            .flatten()
            .filter(|&(_, &packets)| packets > 0)
            .map(|(counter, packets)| format!("{counter}: {packets} packets"))
            .collect();
        let detail = if self.known.counters.is_empty() {
            format!(
                "the ruleset has no counter, so nothing proves that packets met it: add `counter` \
                 to a rule that the traffic must match ({FORMS})"
            )
        } else if moved.is_empty() {
            let count = self.known.counters.len();
            format!("none of the {count} counters of the ruleset moved ({FORMS})")
        } else {
            let mut detail = moved[..moved.len().min(LISTED_COUNTER_COUNT_MAX)].join("; ");
            if let Some(more) = moved.len().checked_sub(LISTED_COUNTER_COUNT_MAX + 1) {
                detail.push_str(&format!("; and {} more", more + 1));
            }
            if self.known.uncounted_drop_count > 0 {
                detail.push_str(&format!(
                    "; {} rules drop without a `counter` of their own right before `drop` or \
                     `reject`: their losses cannot be attributed",
                    self.known.uncounted_drop_count
                ));
            }
            detail
        };
        Check { name: format!("nft {}", self.file.path), passed: !moved.is_empty(), detail }
    }

    fn ruleset(&self, host: &dyn Host) -> Result<Value, DutError> {
        let shown = LIST.join(" ");
        let output = self.nft(host, &LIST, "").map_err(|error| match error {
            DutError::Host { dut, source } => {
                let what = format!("{} ({TOO_LARGE})", source.what);
                DutError::Host { dut, source: HostError { what, ..source } }
            }
            other => other,
        })?;
        if !output.success() {
            return Err(self.error(format!("`{shown}` failed: {}", output.said())));
        }
        serde_json::from_str(&output.stdout).map_err(|e| {
            self.error(format!(
                "`{shown}` did not print JSON in its {} bytes: {e}; see what it prints by hand, \
                 and whether nft is built with JSON support",
                output.stdout.len()
            ))
        })
    }

    fn nft(&self, host: &dyn Host, argv: &[&str], stdin: &str) -> Result<Output, DutError> {
        host.run(&Command {
            program: Program::Arguments(argv),
            stdin,
            timeout: NFT_TIMEOUT,
            cancellable: true,
        })
        .map_err(DutError::host(&self.dut))
    }

    fn error(&self, what: String) -> DutError {
        DutError::Configuration { dut: self.dut.clone(), what }
    }
}

impl Known {
    /// What the ruleset of libnftables-json counts.
    fn of(ruleset: &Value) -> Self {
        let objects = ruleset["nftables"].as_array().map_or(&[][..], Vec::as_slice);
        let each = |kind: &'static str| objects.iter().filter_map(move |o| o.get(kind));
        let mut known = Self::default();
        let named_drops = named_drops(&each("rule").collect::<Vec<_>>(), each("map"));
        for rule in each("rule") {
            let statements = statements(rule);
            let drop_counter = drop_counter(statements);
            let is_counted = match drop_counter {
                Some(DropCounter::Anonymous) => true,
                Some(DropCounter::Named(name)) => {
                    scope(rule).is_some_and(|s| named_drops.contains(&(s, name)))
                }
                None => false,
            };
            if statements.iter().any(is_drop) && !is_counted {
                known.uncounted_drop_count += 1;
            }
            known.counters.extend(rule_counter(rule, drop_counter == Some(DropCounter::Anonymous)));
        }
        known.counters.extend(each("counter").filter_map(|counter| {
            let (family, table) = scope(counter)?;
            let name = counter["name"].as_str()?;
            Some(Counter {
                name: format!("{family} {table} counter {name}"),
                packets: counter["packets"].as_u64()?,
                drops: named_drops.contains(&((family, table), name)),
            })
        }));
        known
    }
}

/// Family and table of an object.
type Scope<'a> = (&'a str, &'a str);

fn scope(object: &Value) -> Option<Scope<'_>> {
    Some((object["family"].as_str()?, object["table"].as_str()?))
}

fn statements(rule: &Value) -> &[Value] {
    rule["expr"].as_array().map_or(&[], Vec::as_slice)
}

/// The counter of a rule; of several, the one closest to its verdict.
fn rule_counter(rule: &Value, drops: bool) -> Option<Counter> {
    let (family, table) = scope(rule)?;
    let packets = statements(rule).iter().rev().find_map(|s| s["counter"]["packets"].as_u64())?;
    Some(Counter {
        name: format!(
            "{family} {table} {} handle {}",
            rule["chain"].as_str()?,
            rule["handle"].as_u64()?
        ),
        packets,
        drops,
    })
}

/// Which counter of a rule counts what the rule drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropCounter<'a> {
    Anonymous,
    /// A named one, if no other rule refers to it.
    Named(&'a str),
}

/// The counter of a rule after which every packet reaches the rule's `drop` or `reject`.
fn drop_counter(statements: &[Value]) -> Option<DropCounter<'_>> {
    let verdict = statements.iter().position(is_drop)?;
    let mut named = None;
    for statement in statements[..verdict].iter().rev() {
        match &statement["counter"] {
            Value::String(name) => named = named.or(Some(DropCounter::Named(name))),
            anonymous if anonymous["packets"].is_u64() => return Some(DropCounter::Anonymous),
            _ if lets_every_packet_pass(statement) => {}
            _ => break,
        }
    }
    named
}

fn is_drop(statement: &Value) -> bool {
    statement.get("drop").is_some() || statement.get("reject").is_some()
}

/// Whether a rule always goes on after this statement. Most can end it, and not only matches: a
/// limit or a quota that is used up, a set that is full, a field that the packet does not have.
fn lets_every_packet_pass(statement: &Value) -> bool {
    let mangle = &statement["mangle"];
    statement.get("log").is_some()
        || (mangle["key"]["meta"].is_object() && mangle["value"].is_u64())
}

/// Named counters that count what one rule drops, and nothing else.
fn named_drops<'a>(
    rules: &[&'a Value],
    maps: impl Iterator<Item = &'a Value>,
) -> BTreeSet<(Scope<'a>, &'a str)> {
    let mut reference_counts = BTreeMap::<(Scope<'a>, &'a str), usize>::new();
    for rule in rules {
        let mut names = Vec::new();
        referred(&rule["expr"], &mut names);
        for name in names {
            if let Some(scope) = scope(rule) {
                *reference_counts.entry((scope, name)).or_default() += 1;
            }
        }
    }
    // The elements of such a map are not listed: it may refer to any counter of its table.
    let any: BTreeSet<Scope<'a>> =
        maps.filter(|map| map["map"] == "counter").filter_map(scope).collect();
    rules
        .iter()
        .filter_map(|rule| match drop_counter(statements(rule))? {
            DropCounter::Named(name) => Some((scope(rule)?, name)),
            DropCounter::Anonymous => None,
        })
        .filter(|key| reference_counts.get(key) == Some(&1) && !any.contains(&key.0))
        .collect()
}

/// The named counters that a rule refers to: `{"counter": "x"}`, and `{"counter": {"map": …}}` with
/// the names as the values of a map without a name.
fn referred<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if key == "counter" {
                    names.extend(inner.as_str());
                    let elements = inner["map"]["data"]["set"].as_array().into_iter().flatten();
                    names.extend(elements.filter_map(|element| element[1].as_str()));
                } else {
                    referred(inner, names);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| referred(item, names)),
        _ => {}
    }
}

/// Whether an expression anywhere in the ruleset makes the kernel track connections.
fn uses_conntrack(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, inner)| {
            matches!(key.as_str(), "ct" | "ct count" | "masquerade" | "snat" | "dnat" | "redirect")
                || uses_conntrack(inner)
        }),
        Value::Array(items) => items.iter().any(uses_conntrack),
        _ => false,
    }
}

#[cfg(test)]
mod tests;

//! An nftables ruleset on a Linux DUT: loaded by `nft -f`, proven by its counters.
//!
//! The ruleset is read back as JSON (libnftables-json(5)); its `counter` statements tell which
//! rules packets met, and those before a `drop` or `reject` are named losses. Rules without a
//! counter are never guessed about.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::DutError;
use crate::counters::{Counters, DropRule, Selection};
use crate::host::{Command, Host, Output, Program};
use crate::model::DutFile;
use crate::record::{Check, Place};

/// How long `nft` may take: a ruleset with a million elements loads in seconds.
const NFT_TIMEOUT: Duration = Duration::from_secs(60);

/// A ruleset and what is known of it once it is loaded.
#[derive(Debug)]
pub(super) struct Nftables {
    dut: String,
    file: DutFile,
    rules: Vec<Rule>,
    tracks_connections: bool,
}

/// A rule that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// `<family> <table> <chain> handle <n>`.
    name: String,
    packets: u64,
    drops: bool,
}

impl Nftables {
    pub(super) fn new(dut: &str, file: DutFile) -> Self {
        Self { dut: dut.to_owned(), file, rules: Vec::new(), tracks_connections: false }
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
        self.rules = rules(&ruleset);
        Ok(())
    }

    /// Whether the ruleset looks at the state of connections.
    pub(super) fn tracks_connections(&self) -> bool {
        self.tracks_connections
    }

    /// Connections that are tracked now.
    pub(super) fn tracked(&self, host: &dyn Host) -> Result<u64, DutError> {
        let text =
            host.sysctl("net.netfilter.nf_conntrack_count").map_err(DutError::host(&self.dut))?;
        text.parse().map_err(|_| self.error(format!("nf_conntrack_count is `{text}`")))
    }

    /// Packets by rule.
    pub(super) fn counters(&self, host: &dyn Host) -> Result<BTreeMap<String, u64>, DutError> {
        Ok(rules(&self.ruleset(host)?).into_iter().map(|r| (r.name, r.packets)).collect())
    }

    /// Rules that drop what they count.
    pub(super) fn drops(&self) -> Vec<DropRule> {
        self.rules
            .iter()
            .filter(|r| r.drops)
            .map(|r| {
                DropRule::new(
                    &format!("nft {}", r.name),
                    "dut_received",
                    Place::Dut,
                    Selection::new("nft", &[&r.name]),
                )
            })
            .collect()
    }

    /// Whether the run moved a counter of the ruleset.
    pub(super) fn took_effect(&self, run: &Counters) -> Check {
        let name = format!("nft {}", self.file.path);
        if self.rules.is_empty() {
            return Check {
                name,
                passed: false,
                detail: "no rule has a counter, so nothing proves that packets met the ruleset: \
                         add `counter` to a rule that the traffic must match"
                    .to_owned(),
            };
        }
        let moved: Vec<String> = run
            .get("nft")
            .into_iter()
            .flatten()
            .filter(|&(_, &packets)| packets > 0)
            .map(|(rule, packets)| format!("{rule}: {packets} packets"))
            .collect();
        Check {
            name,
            passed: !moved.is_empty(),
            detail: if moved.is_empty() {
                format!("none of the {} counters of the ruleset moved", self.rules.len())
            } else {
                moved.join("; ")
            },
        }
    }

    fn ruleset(&self, host: &dyn Host) -> Result<Value, DutError> {
        let output = self.nft(host, &["nft", "--json", "list", "ruleset"], "")?;
        if !output.success() {
            return Err(self.error(format!("`nft list ruleset` failed: {}", output.said())));
        }
        serde_json::from_str(&output.stdout)
            .map_err(|e| self.error(format!("`nft --json list ruleset` printed no JSON: {e}")))
    }

    fn nft(&self, host: &dyn Host, argv: &[&str], stdin: &str) -> Result<Output, DutError> {
        host.run(&Command { program: Program::Arguments(argv), stdin, timeout: NFT_TIMEOUT })
            .map_err(DutError::host(&self.dut))
    }

    fn error(&self, what: String) -> DutError {
        DutError::Configuration { dut: self.dut.clone(), what }
    }
}

/// The rules of a ruleset that count, from libnftables-json.
fn rules(ruleset: &Value) -> Vec<Rule> {
    let objects = ruleset["nftables"].as_array().map_or(&[][..], Vec::as_slice);
    objects
        .iter()
        .filter_map(|object| {
            let rule = object.get("rule")?;
            let expressions = rule["expr"].as_array()?;
            let packets = expressions.iter().find_map(|e| e["counter"]["packets"].as_u64())?;
            Some(Rule {
                name: format!(
                    "{} {} {} handle {}",
                    rule["family"].as_str()?,
                    rule["table"].as_str()?,
                    rule["chain"].as_str()?,
                    rule["handle"].as_u64()?
                ),
                packets,
                drops: expressions
                    .iter()
                    .any(|e| e.get("drop").is_some() || e.get("reject").is_some()),
            })
        })
        .collect()
}

/// Whether an expression anywhere in the ruleset makes the kernel track connections.
fn uses_conntrack(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, inner)| {
            matches!(key.as_str(), "ct" | "masquerade" | "snat" | "dnat" | "redirect")
                || uses_conntrack(inner)
        }),
        Value::Array(items) => items.iter().any(uses_conntrack),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULESET: &str = r#"{"nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {"table": {"family": "inet", "name": "f", "handle": 1}},
        {"chain": {"family": "inet", "table": "f", "name": "fwd", "handle": 1, "policy": "drop"}},
        {"rule": {"family": "inet", "table": "f", "chain": "fwd", "handle": 2, "expr": [
            {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established"]}},
            {"counter": {"packets": 7, "bytes": 700}}, {"accept": null}]}},
        {"rule": {"family": "inet", "table": "f", "chain": "fwd", "handle": 3, "expr": [
            {"counter": {"packets": 2, "bytes": 92}}, {"drop": null}]}},
        {"rule": {"family": "inet", "table": "f", "chain": "fwd", "handle": 4, "expr": [
            {"accept": null}]}}]}"#;

    fn nftables() -> Nftables {
        let value: Value = serde_json::from_str(RULESET).unwrap();
        let file = DutFile { path: "r.nft".into(), text: String::new() };
        Nftables { rules: rules(&value), ..Nftables::new("nft", file) }
    }

    #[test]
    fn counting_rules_are_found_and_dropping_ones_are_losses() {
        let value: Value = serde_json::from_str(RULESET).unwrap();
        assert!(uses_conntrack(&value));
        let found = rules(&value);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "inet f fwd handle 2");
        assert_eq!((found[0].packets, found[0].drops), (7, false));
        assert_eq!((found[1].packets, found[1].drops), (2, true));
        let drops = nftables().drops();
        assert_eq!(drops.len(), 1);
        assert_eq!(drops[0].name, "nft inet f fwd handle 3");
    }

    #[test]
    fn a_ruleset_whose_counters_stand_still_did_not_take_effect() {
        let still = Counters::from([(
            "nft".to_owned(),
            BTreeMap::from([("inet f fwd handle 2".to_owned(), 0)]),
        )]);
        assert!(!nftables().took_effect(&still).passed);
        let moved = Counters::from([(
            "nft".to_owned(),
            BTreeMap::from([("inet f fwd handle 2".to_owned(), 9)]),
        )]);
        let check = nftables().took_effect(&moved);
        assert!(check.passed);
        assert_eq!(check.detail, "inet f fwd handle 2: 9 packets");
    }

    #[test]
    fn a_ruleset_without_counters_proves_nothing() {
        let file = DutFile { path: "r.nft".into(), text: String::new() };
        assert!(!Nftables::new("nft", file).took_effect(&Counters::new()).passed);
    }
}

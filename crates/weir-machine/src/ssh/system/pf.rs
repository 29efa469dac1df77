//! pf's counters: `pfctl -si` and `pfctl -vvsr` of FreeBSD and OpenBSD.
//!
//! Only text in, numbers out. The number of states now is a level, not a counter, and is left out.

use std::collections::BTreeMap;

/// Why pf drops: the reasons of `pfctl -si` (`PFRES_NAMES` in `pfvar.h`) but `match`, which also
/// counts what rules let through; and what rules block.
pub(super) const DROPS: [(&str, &str, &str); 17] = [
    ("pf_block_rules", "pf", "blocked_packets"),
    ("pf_bad_offset", "pf", "bad-offset"),
    ("pf_fragment", "pf", "fragment"),
    ("pf_short", "pf", "short"),
    ("pf_normalize", "pf", "normalize"),
    ("pf_memory", "pf", "memory"),
    ("pf_bad_timestamp", "pf", "bad-timestamp"),
    ("pf_congestion", "pf", "congestion"),
    ("pf_ip_option", "pf", "ip-option"),
    ("pf_proto_cksum", "pf", "proto-cksum"),
    ("pf_state_mismatch", "pf", "state-mismatch"),
    ("pf_state_insert", "pf", "state-insert"),
    ("pf_state_limit", "pf", "state-limit"),
    ("pf_src_limit", "pf", "src-limit"),
    ("pf_synproxy", "pf", "synproxy"),
    ("pf_translate", "pf", "translate"),
    ("pf_map_failed", "pf", "map-failed"),
];

/// Whether `pfctl -si` says that pf runs.
pub(super) fn is_enabled(info: &str) -> bool {
    info.lines().any(|line| line.trim_start().starts_with("Status: Enabled"))
}

/// The state table's searches, inserts and removals, and the reasons' counters.
pub(super) fn info(text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    let mut prefix = None;
    for line in text.lines() {
        if !line.starts_with(' ') {
            prefix = match line.split("  ").next().unwrap_or_default().trim() {
                "State Table" => Some("states_"),
                "Counters" => Some(""),
                // Source nodes, limits and the interface of `set loginterface`.
                _ => None,
            };
            continue;
        }
        let Some(prefix) = prefix else { continue };
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| word.parse::<u64>().is_ok()) else { continue };
        let name = words[..at].join("-");
        if name == "current-entries" || name == "half-open-tcp" {
            continue;
        }
        if let Ok(value) = words[at].parse() {
            values.insert(format!("{prefix}{name}"), value);
        }
    }
    values
}

/// Packets of each rule by its number, and the sum of those that block.
pub(super) fn rules(text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    let mut rule: Option<(&str, bool)> = None;
    let mut blocked = None;
    for line in text.lines() {
        if let Some((number, what)) = line.strip_prefix('@').and_then(|l| l.split_once(' ')) {
            let number = number.split('(').next().unwrap_or(number);
            let blocks = what.split_whitespace().next() == Some("block");
            // Scrub rules of FreeBSD have numbers of their own, and pass.
            rule = (!what.starts_with("scrub")).then_some((number, blocks));
            continue;
        }
        let (Some((number, blocks)), Some(packets)) = (rule, after(line, "Packets:")) else {
            continue;
        };
        values.insert(format!("rule_{number}_packets"), packets);
        if blocks {
            *blocked.get_or_insert(0) += packets;
        }
    }
    values.extend(blocked.map(|packets| ("blocked_packets".to_owned(), packets)));
    values
}

/// The number that follows a word.
fn after(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

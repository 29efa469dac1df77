//! Counters of the BSDs' network stack: `netstat -s`.
//!
//! FreeBSD and OpenBSD print a number and a phrase, in the singular for one; the phrase, always in
//! the plural, is the counter's name. Phrases are those of `usr.bin/netstat/inet.c` and `inet6.c`
//! of both. This module only reads text.

use std::collections::BTreeMap;

use weir_results::counters::Counters;

/// The command whose answer [`read_stack`] reads.
pub(super) const STACK: &str =
    "for p in ip ip6; do echo \"== $p\"; netstat -s -p $p 2>/dev/null; done; :";

/// Words that stand in the singular after a 1.
const WORDS: [&str; 13] = [
    "packet", "fragment", "datagram", "checksum", "option", "redirect", "message", "route",
    "header", "error", "drop", "queue", "entry",
];

/// Counters by source: both protocols under `ip`, the names with `ip.` or `ip6.` before them.
pub(super) fn read_stack(text: &str) -> Counters {
    let mut counters = BTreeMap::new();
    for (protocol, body) in super::sections::sections(text) {
        for (name, value) in phrases(&body) {
            counters.insert(format!("{protocol}.{name}"), value);
        }
    }
    Counters::from([("ip".to_owned(), counters)])
}

/// `<number> <phrase>` of each line that has it; a phrase that stands twice is told once, with the
/// sum.
pub(super) fn phrases(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let Some((number, phrase)) = line.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        // `5 packets forwarded (3 packets fast forwarded)`
        let phrase = phrase.split(" (").next().unwrap_or(phrase);
        *found.entry(plural(phrase)).or_insert(0) += number;
    }
    found
}

/// A phrase as it stands after a number that is not 1.
fn plural(phrase: &str) -> String {
    let word = |word: &str| match word.trim_end_matches(',') {
        bare if WORDS.contains(&bare) => format!("{}s{}", bare, &word[bare.len()..]),
        _ => word.to_owned(),
    };
    phrase.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Whether a name of FreeBSD's sysctl is that of something that counts, not of a setting.
pub(super) fn is_counter(name: &str) -> bool {
    const COUNTS: [&str; 12] = [
        "stats", "count", "curr", "drops", "misses", "hits", "frags", "inuse", "_total", "epoch",
        "isn_", "work",
    ];
    let last = name.rsplit('.').next().unwrap_or(name);
    COUNTS.iter().any(|part| last.contains(part))
}

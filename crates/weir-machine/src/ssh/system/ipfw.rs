//! ipfw's counters: `ipfw -a list`, a line `<number> <packets> <bytes> <rule>` for each rule.
//!
//! Only text in, numbers out.

use std::collections::BTreeMap;

/// What rules of ipfw drop.
pub(super) const DROPS: [(&str, &str, &str); 1] = [("ipfw_deny_rules", "ipfw", "denied_packets")];

/// Actions after which a packet is gone.
const DENIES: [&str; 6] = ["deny", "drop", "reject", "unreach", "unreach6", "reset"];

/// Packets of each rule, by its number; several rules of one number are told as one. And the sum
/// of those that deny.
pub(super) fn rules(text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [number, packets, bytes, rest @ ..] = words.as_slice() else { continue };
        let (Ok(number), Ok(packets)) = (number.parse::<u32>(), packets.parse::<u64>()) else {
            continue;
        };
        if bytes.parse::<u64>().is_err() {
            continue;
        }
        // `set 3 deny …`, `prob 0.5 deny …`
        let mut rest = rest;
        while let ["set" | "prob", _, more @ ..] = rest {
            rest = more;
        }
        *values.entry(format!("rule_{number}_packets")).or_insert(0) += packets;
        if rest.first().is_some_and(|action| DENIES.contains(action)) {
            *values.entry("denied_packets".to_owned()).or_insert(0) += packets;
        }
    }
    values
}

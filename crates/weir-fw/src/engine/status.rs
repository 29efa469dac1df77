//! `weir fw status` and `weir fw stats`: the same values as JSON for programs and as text for
//! people. Keys carry units.

use std::fmt::Write as _;

use serde_json::{Value, json};
use weir_bpf::firewall::Path;
use weir_bpf::firewall::layout::{Region, Slots, account, control, state};
use weir_bpf::firewall::reasons::REASONS;

use super::counters::Totals;
use super::interfaces::paths;
use super::{Engine, LiveCounts, clock};
use crate::show::rules::RuleCounts;

const DIRECTIONS: [&str; 2] = ["in", "out"];

/// Bytes of the buckets among some slots, with their accounts.
fn index_bytes(slots: Slots) -> u64 {
    Slots { overflow_count: 0, ..slots }.bytes()
}

fn mode_word(path: Option<Path>) -> &'static str {
    path.map_or("none", paths::word)
}

impl Engine {
    /// How it runs.
    #[must_use]
    pub fn status(&self) -> Value {
        let (arena, regions) = (self.firewall.arena(), self.firewall.regions());
        let region = |region: &Region| {
            let size_bytes = self.region_bytes(region);
            json!({ "name": region.name, "size_bytes": size_bytes })
        };
        let limit = self.main.limit("states");
        let (ready, allowed) = (self.firewall.ready(), self.firewall.allowed());
        let table_bytes_of = self.firewall.table_bytes().ok();
        let (stage_count, one_stage_because) = self.stage_status();
        json!({
            "running": true,
            "enabled": self.is_enabled(),
            "pid": std::process::id(),
            "adopted": self.is_adopted,
            "file": self.main.load.name,
            "dialect": self.main.ruleset.dialect.as_str(),
            "loaded_unix_s": self.loaded_unix_s,
            "started_unix_s": self.started_unix_s,
            "rule_count": self.filter_rules().count(),
            "table_count": self.tables.all.len(),
            "stages": {
                "setting": self.main.ruleset.settings.stages.as_str(),
                "count": stage_count,
                "one_because": one_stage_because,
            },
            "next_hop_generation": arena.read32(control::GENERATION),
            "states": {
                "current_count": arena.read64(control::STATE_COUNT),
                "limit_count": limit,
                "bucket_count": self.firewall.bucket_count(),
                "overflow_slot_count": ready.overflow_count,
                "index_bytes": index_bytes(ready),
                "table_bytes": ready.bytes(),
                "is_index_fixed": self.firewall.is_index_fixed(),
                "bucket_count_at_limit": allowed.bucket_count,
                "table_bytes_at_limit": allowed.bytes(),
                "bytes_per_flow_at_limit": ratio(allowed.bytes(), u64::from(limit)),
            },
            "memory": {
                "regions": regions.all().map(region),
                "populated_bytes": self.populated_bytes(),
                "total_bytes": regions.total_bytes,
                "fragment_table_bytes": table_bytes_of.map(|bytes| bytes.fragments),
                "source_table_bytes": table_bytes_of.map(|bytes| bytes.sources),
                "counted_table_bytes": table_bytes_of.map(|bytes| bytes.counted),
            },
            "interfaces": self.interfaces_status(),
            "interfaces_without_slot": self.interfaces.without_slot,
            "interfaces_unfilterable": self.interfaces.unfilterable,
        })
    }

    /// A line for each way by which interfaces are filtered, with what it costs.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        paths::lines(&self.interfaces.all().map(|(_, known)| known))
    }

    /// Those whose packets are filtered.
    fn interfaces_status(&self) -> Vec<Value> {
        self.interfaces
            .all()
            .filter(|(_, known)| known.ifindex != 0)
            .map(|(slot, known)| {
                json!({
                    "name": known.name,
                    "slot": slot,
                    "ifindex": known.ifindex,
                    "mode": mode_word(known.path),
                    "cost": known.path.and_then(paths::cost),
                    "egress": known.has_egress,
                    "has_queues": known.has_queues,
                    "skipped": known.is_skipped,
                    "takes_redirected": known.takes_redirected,
                    "hides_vlan_tags": known.hides_tags,
                    "peer_leaves_checksums": known.saw_partial,
                    "vlan_id": known.vlan.map(|(_, id)| id),
                    "problem": known.problem,
                })
            })
            .collect()
    }

    /// Bytes of a region; of states and their accounts, those that have memory.
    fn region_bytes(&self, region: &Region) -> u64 {
        let (ready, regions) = (self.firewall.ready(), self.firewall.regions());
        let slots = u64::from(ready.bucket_count) + u64::from(ready.overflow_count);
        if *region == regions.states {
            slots * u64::from(state::SIZE_BYTES)
        } else if *region == regions.accounts {
            slots * u64::from(account::SIZE_BYTES)
        } else {
            region.bytes
        }
    }

    /// Bytes of the arena that have memory: of states what they have, of the heap all up to what
    /// was used.
    fn populated_bytes(&self) -> u64 {
        let regions = self.firewall.regions();
        let used = self.installer().ok().and_then(|installer| installer.heap().blocks().ok());
        let end = used.into_iter().flatten().filter(|block| block.kind != crate::heap::Kind::Free);
        let end = end.map(|block| u64::from(block.at) + u64::from(block.byte_count)).max();
        let heap_at = u64::from(regions.heap.at);
        let heap_bytes = end.unwrap_or(heap_at).saturating_sub(heap_at);
        u64::from(regions.states.at) + self.firewall.ready().bytes() + heap_bytes
    }

    /// What it has counted; `live` adds the counters of rules.
    #[must_use]
    pub fn stats(&self, live: Option<&LiveCounts>) -> Value {
        let (arena, ready) = (self.firewall.arena(), self.firewall.ready());
        let totals = self.totals();
        let table = &totals.table;
        let since_ns = clock::boot_ns().saturating_sub(arena.read64(control::ENABLED_NS));
        let (interfaces, drops) = self.interface_values(&totals);
        let rules = live.map(|live| self.rule_values(live));
        let mut value = json!({
            "enabled": self.is_enabled(),
            "since_enabled_ns": since_ns,
            "states": {
                "current_count": arena.read64(control::STATE_COUNT),
                "limit_count": self.main.limit("states"),
                "reserved_count": self.main.ruleset.settings.state_reserve,
                "bucket_count": self.firewall.bucket_count(),
                "index_bytes": index_bytes(ready),
                "table_bytes": ready.bytes(),
                "searches_count": table.search_count,
                "inserts_count": table.insert_count,
                "removals_count": table.removal_count,
                "overflow_steps_count": table.overflow_step_count,
                "lock_waits_count": table.lock_wait_count,
            },
            "translation": {
                "current_count": arena.read64(control::ALIAS_COUNT),
                "flows_count": table.translation_count,
                "port_probes_count": table.port_probe_count,
            },
            "drops": drops,
            "interfaces": interfaces,
            "forwarded_packets": table.forwarded_packets,
            "to_kernel_packets": table.passed_packets,
            "replies_packets": table.reply_count,
            "unanswered_packets": table.unanswered_count,
            "evaluations_count": table.evaluation_count,
            "fib_lookups_count": table.fib_lookup_count,
            "staged_packets": table.staged_packets,
            "stage_groups_count": table.stage_group_count,
            "log_lost_count": table.log_lost_count,
            "pflow": self.flow_counters.value(table.events_lost_count),
            "sync": self.sync_counters.value(table.sync_lost_count),
            "deferred_packets": table.deferred_packets,
            "defer_lost_packets": table.defer_lost_packets,
            "uncounted_packets": table.uncounted_count,
            "copied_packets": table.copied_packets,
            "copy_lost_packets": table.copy_lost_packets,
            "limiters": self.limiter_values(),
        });
        if let Some(rules) = rules {
            value["rules"] = Value::Array(rules);
        }
        value
    }

    /// What the interfaces counted, and what was dropped there.
    fn interface_values(&self, totals: &Totals) -> (Vec<Value>, Vec<Value>) {
        let mut drops = Vec::new();
        let mut interfaces = Vec::new();
        for (slot, known) in self.interfaces.all() {
            let Some(counted) = totals.interfaces.get(slot) else { continue };
            for (direction, word) in DIRECTIONS.into_iter().enumerate() {
                for (at, reason) in REASONS.iter().enumerate() {
                    let packets = counted.dropped[direction][at];
                    if packets > 0 {
                        drops.push(json!({
                            "interface": known.name,
                            "direction": word,
                            "reason": reason.name,
                            "packets": packets,
                        }));
                    }
                }
            }
            let packets = |direction: usize, outcome: usize| -> u64 {
                counted.packets[direction][outcome].iter().sum()
            };
            let bytes = |direction: usize, outcome: usize| -> u64 {
                counted.bytes[direction][outcome].iter().sum()
            };
            interfaces.push(json!({
                "name": known.name,
                "mode": mode_word(known.path),
                "passed_in_packets": packets(0, 0),
                "blocked_in_packets": packets(0, 1),
                "passed_out_packets": packets(1, 0),
                "blocked_out_packets": packets(1, 1),
                "passed_in_bytes": bytes(0, 0),
                "blocked_in_bytes": bytes(0, 1),
                "passed_out_bytes": bytes(1, 0),
                "blocked_out_bytes": bytes(1, 1),
            }));
        }
        (interfaces, drops)
    }

    fn rule_values(&self, live: &LiveCounts) -> Vec<Value> {
        let counts = self.all_rule_counts(live);
        let described = |rule: &crate::compile::RuleInfo| {
            let counts: RuleCounts = counts.get(&rule.id).copied().unwrap_or_default();
            json!({
                "anchor": &*rule.anchor,
                "number": rule.number,
                "text": rule.text,
                "evaluations": counts.evaluation_count,
                "packets": counts.packet_count.iter().sum::<u64>(),
                "bytes": counts.size_bytes.iter().sum::<u64>(),
                "states": counts.state_count,
                "states_created": counts.created_count,
            })
        };
        self.filter_rules().map(described).collect()
    }
}

/// A quotient with two decimals; 0 without a divisor.
fn ratio(dividend: u64, divisor: u64) -> f64 {
    if divisor == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "two decimals of bytes per flow")]
    let exact = dividend as f64 / divisor as f64;
    (exact * 100.0).round() / 100.0
}

/// A status for people.
#[must_use]
pub fn status_text(value: &Value) -> String {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let number = |field: &Value| field.as_u64().unwrap_or(0);
    let mut out = String::new();
    let word =
        if value["enabled"] == json!(true) { "filtering" } else { "disabled: everything passes" };
    let _ = writeln!(out, "weir fw: {word} (process {})", number(&value["pid"]));
    let loaded = value["loaded_unix_s"].as_i64().unwrap_or(0);
    let _ = writeln!(
        out,
        "rules:      {} of {}, loaded {}",
        number(&value["rule_count"]),
        text(&value["file"]),
        crate::show::ctime(loaded)
    );
    let states = &value["states"];
    let _ = writeln!(
        out,
        "states:     {} of {} (one per flow)",
        number(&states["current_count"]),
        number(&states["limit_count"])
    );
    let mib = |bytes: u64| bytes >> 20;
    let _ = writeln!(
        out,
        "hashsize:   {} buckets, {} MiB; the whole state table {} MiB; at the limit {} buckets, {} \
         MiB, {} bytes per flow",
        number(&states["bucket_count"]),
        mib(number(&states["index_bytes"])),
        mib(number(&states["table_bytes"])),
        number(&states["bucket_count_at_limit"]),
        mib(number(&states["table_bytes_at_limit"])),
        states["bytes_per_flow_at_limit"]
    );
    let stages = &value["stages"];
    let why = stages["one_because"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
    let _ = writeln!(out, "stages:     {}{why}", number(&stages["count"]));
    let memory = &value["memory"];
    let _ = writeln!(out, "memory:     {} MiB in use", mib(number(&memory["populated_bytes"])));
    for region in memory["regions"].as_array().into_iter().flatten() {
        let bytes = number(&region["size_bytes"]);
        let _ = writeln!(out, "            {bytes:>12} bytes  {}", text(&region["name"]));
    }
    out.push_str("interfaces:\n");
    for line in interface_lines(value) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// A line for each interface: by which way it is filtered, and what is wrong with it.
fn interface_lines(status: &Value) -> Vec<String> {
    let list = |key: &str| status[key].as_array().into_iter().flatten();
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let filtered = list("interfaces").map(|interface| {
        let mode = if interface["skipped"] == json!(true) {
            "skipped".to_owned()
        } else {
            let cost = interface["cost"].as_str().map(|cost| format!(" ({cost})"));
            text(&interface["mode"]) + &cost.unwrap_or_default()
        };
        let egress =
            if interface["egress"] == json!(true) { "" } else { ", not judged on its way out" };
        let problem =
            interface["problem"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let tags = if interface["hides_vlan_tags"] == json!(true) {
            ", VLAN tags are not seen (`ethtool -K IF rxvlan off`)"
        } else {
            ""
        };
        let queues = if interface["has_queues"] == json!(true) {
            ", what leaves waits in queues, so the kernel forwards it"
        } else {
            ""
        };
        format!("{:<16} {mode}{egress}{queues}{tags}{problem}", text(&interface["name"]))
    });
    let others = [
        ("interfaces_unfilterable", "its frames are neither Ethernet's nor IP packets alone"),
        ("interfaces_without_slot", "at most 63 interfaces"),
    ];
    let others = others.into_iter().flat_map(|(key, why)| {
        list(key).map(move |name| format!("{:<16} not filtered: {why}", text(name)))
    });
    filtered.chain(others).collect()
}

/// Counters for people: drops are those that happened; rates are since it was enabled.
#[must_use]
pub fn stats_text(value: &Value) -> String {
    let number = |field: &Value| field.as_u64().unwrap_or(0);
    let seconds = (number(&value["since_enabled_ns"]) / 1_000_000_000).max(1);
    let rate = |count: u64| ratio(count, seconds);
    let mut out = String::new();
    let mut put = |name: &str, count: u64| {
        let _ = writeln!(out, "{name:<24} {count:>16} {:>16.1}/s", rate(count));
    };
    for (name, key) in [
        ("forwarded packets", "forwarded_packets"),
        ("to the kernel", "to_kernel_packets"),
        ("replies made", "replies_packets"),
        ("replies not made", "unanswered_packets"),
        ("rulesets gone through", "evaluations_count"),
        ("routes looked up", "fib_lookups_count"),
        ("judged in two stages", "staged_packets"),
        ("log records lost", "log_lost_count"),
    ] {
        put(name, number(&value[key]));
    }
    for (name, key) in [
        ("records", "records_count"),
        ("packets", "packets_count"),
        ("send errors", "send_errors_count"),
        ("lost states", "lost_states_count"),
    ] {
        put(&format!("pflow: {name}"), number(&value["pflow"][key]));
    }
    for (name, key, _) in super::EXCHANGED {
        put(&format!("sync: {name}"), number(&value["sync"][key]));
    }
    put("sync: answers waited", number(&value["deferred_packets"]));
    put("sync: no room to wait", number(&value["defer_lost_packets"]));
    for (name, key) in [
        ("searches", "searches_count"),
        ("inserts", "inserts_count"),
        ("removals", "removals_count"),
    ] {
        put(&format!("states: {name}"), number(&value["states"][key]));
    }
    if number(&value["translation"]["flows_count"]) > 0 {
        put("translated flows", number(&value["translation"]["flows_count"]));
        put("ports looked at", number(&value["translation"]["port_probes_count"]));
    }
    for interface in value["interfaces"].as_array().into_iter().flatten() {
        let name = interface["name"].as_str().unwrap_or_default();
        for (word, key) in [
            ("in, passed", "passed_in_packets"),
            ("in, blocked", "blocked_in_packets"),
            ("out, passed", "passed_out_packets"),
            ("out, blocked", "blocked_out_packets"),
        ] {
            put(&format!("{name} {word}"), number(&interface[key]));
        }
    }
    for drop in value["drops"].as_array().into_iter().flatten() {
        let text = |key: &str| drop[key].as_str().unwrap_or_default().to_owned();
        let name = format!("drop: {} {} {}", text("interface"), text("direction"), text("reason"));
        put(&name, number(&drop["packets"]));
    }
    for rule in value["rules"].as_array().into_iter().flatten() {
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let parted = if text("anchor").is_empty() { "" } else { " " };
        put(
            &format!("rule {}{parted}@{}", text("anchor"), rule["number"]),
            number(&rule["packets"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_what_happened() {
        let stats = json!({
            "since_enabled_ns": 2_000_000_000_u64,
            "forwarded_packets": 10,
            "states": { "searches_count": 4 },
            "drops": [
                { "interface": "em0", "direction": "in", "reason": "match", "packets": 6 }
            ],
        });
        let text = stats_text(&stats);
        assert!(text.contains("drop: em0 in match"), "{text}");
        let line = text.lines().find(|line| line.starts_with("forwarded")).unwrap();
        assert!(line.ends_with("10              5.0/s"), "{line}");
        let status = json!({
            "enabled": true,
            "pid": 7,
            "rule_count": 3,
            "file": "/etc/pf.conf",
            "states": { "current_count": 1, "limit_count": 100 },
            "memory": { "regions": [{ "name": "states", "size_bytes": 4096 }] },
            "interfaces": [
                { "name": "em0", "mode": "native", "cost": null, "egress": true },
                { "name": "tun0", "mode": "tcx", "cost": "slower", "egress": true },
            ],
        });
        let text = status_text(&status);
        assert!(text.contains("  tun0             tcx (slower)\n"), "{text}");
        assert!(text.starts_with("weir fw: filtering (process 7)\n"), "{text}");
        assert!(text.contains("3 of /etc/pf.conf") && text.contains("  em0              native\n"));
    }

    #[test]
    fn quotients_have_two_decimals() {
        assert!((ratio(1000, 7) - 142.86).abs() < 1e-9);
        assert!(ratio(1, 0).abs() < 1e-9);
    }
}

//! What limiters have counted: `pfctl -s Stlimiters`, `-s Srclimiters`, and `weir fw stats`; and
//! the tables that source limiters fill. Limits are the data path's matter alone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use weir_bpf::firewall::Overload;
use weir_bpf::firewall::layout::limiter_counts;
use weir_rules::ast::Limiter;
use weir_rules::ir::Prelude;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::value::LimiterKind;

use super::tables::Key;
use super::{Engine, Refused};
use crate::compile::limiters::{masks, number};
use crate::protocol::{How, TableAction};
use crate::show::limiters::{Counts, Source, put};

/// A network that goes into a limiter's table, or out of it.
pub(super) type Change = (TableAction, (IpAddr, u8));

/// Bits that a limiter keeps of an address.
fn bits_of(limiter: &Limiter, address: IpAddr) -> u8 {
    let [inet, inet6] = masks(limiter);
    if address.is_ipv4() { inet } else { inet6 }
}

fn word(kind: LimiterKind) -> &'static str {
    match kind {
        LimiterKind::State => "state",
        LimiterKind::Source => "source",
    }
}

impl Engine {
    fn limiter_counts(&self, limiter: &Limiter) -> Counts {
        let first = self.known.limiter_counts_at;
        if first == 0 {
            return Counts::default();
        }
        let at = first + number(limiter.kind, limiter.id) * limiter_counts::SIZE_BYTES;
        let arena = self.firewall.arena();
        Counts {
            state_count: arena.read32(at + limiter_counts::IN_USE),
            source_count: arena.read32(at + limiter_counts::SOURCE_COUNT),
            admitted_count: arena.read64(at + limiter_counts::ADMITTED),
            hard_limited_packets: arena.read64(at + limiter_counts::HARD_LIMITED),
            rate_limited_packets: arena.read64(at + limiter_counts::RATE_LIMITED),
            sources_limited_packets: arena.read64(at + limiter_counts::SOURCES_LIMITED),
            source_makes_count: arena.read64(at + limiter_counts::SOURCE_MAKES),
            no_memory_count: arena.read64(at + limiter_counts::NO_MEMORY),
        }
    }

    /// Limiters of a kind, as pfctl shows them; with `-v`, sources too.
    pub(super) fn show_limiters(&self, kind: LimiterKind, how: &How) -> Result<String, Refused> {
        let is_long = how.verbosity > 0 && kind == LimiterKind::Source;
        let known = if is_long { self.firewall.limited_sources() } else { Ok(Vec::new()) };
        let known = known.map_err(Refused::because)?;
        let mut out = String::new();
        let ruleset = &self.main.ruleset;
        let options = PrintOptions::default();
        let printer = Printer { dialect: ruleset.dialect, resolver: &self.facts, options };
        for prelude in &ruleset.prelude {
            let Prelude::Limiter(limiter) = prelude else { continue };
            if limiter.kind != kind {
                continue;
            }
            let of_it = known.iter().filter(|source| source.limiter == limiter.id);
            let sources: Vec<Source> = of_it
                .map(|source| Source {
                    address: source.address,
                    bits: bits_of(limiter, source.address),
                    state_count: source.state_count,
                    is_listed: source.is_listed,
                })
                .collect();
            let sources = (kind == LimiterKind::Source).then_some(&sources[..]);
            let mut statement = String::new();
            printer.prelude(&mut statement, ruleset, prelude);
            put(&mut out, &statement, &self.limiter_counts(limiter), sources);
        }
        Ok(out)
    }

    /// The same for `weir fw stats`.
    pub(super) fn limiter_values(&self) -> Vec<Value> {
        let value = |limiter: &Limiter| {
            let counts = self.limiter_counts(limiter);
            let mut value = json!({
                "kind": word(limiter.kind),
                "id": limiter.id,
                "name": &*limiter.name.value,
                "limit_count": limiter.limit,
                "states_count": counts.state_count,
                "admitted_count": counts.admitted_count,
                "hard_limited_packets": counts.hard_limited_packets,
                "rate_limited_packets": counts.rate_limited_packets,
            });
            if limiter.kind == LimiterKind::Source {
                value["entries_count"] = limiter.entries.into();
                value["sources_count"] = counts.source_count.into();
                value["sources_limited_packets"] = counts.sources_limited_packets.into();
                value["source_makes_count"] = counts.source_makes_count.into();
                value["no_memory_count"] = counts.no_memory_count.into();
            }
            value
        };
        self.main.ruleset.limiters().map(value).collect()
    }

    /// Has tables follow their limiters: a source is in the table if the data path says by now that
    /// it is, whatever order the changes came in.
    pub(super) fn list_sources(&mut self, list: &[Overload]) -> Result<(), Refused> {
        let mut changes: BTreeMap<Key, Vec<Change>> = BTreeMap::new();
        for change in list {
            let Some(leaves) = change.leaves else { continue };
            let is_it = |one: &&Limiter| (one.kind, one.id) == (LimiterKind::Source, change.rule);
            // It may have gone, or have no table any more.
            let Some(limiter) = self.main.ruleset.limiters().find(is_it) else { continue };
            let Some(table) = &limiter.table else { continue };
            let found = self.firewall.is_listed(limiter.id, change.address);
            let stays = found.map_err(Refused::because)?.unwrap_or(!leaves);
            let action = if stays { TableAction::Add } else { TableAction::Delete };
            let network = (change.address, bits_of(limiter, change.address));
            let key = (String::new(), table.name.to_string());
            changes.entry(key).or_default().push((action, network));
        }
        let mut result = Ok(());
        for (key, changes) in changes {
            for (action, network) in changes {
                result = self.change_sources(&key, action, &[network]).and(result);
            }
        }
        result
    }
}

//! What rules count of sources: `pfctl -s Sources`, `-K` and `-F Sources`.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::STATE_TRACKED;
use weir_bpf::firewall::sweep::Filter;

use super::answers::now_tick;
use super::kill::filter_of;
use super::{Engine, Refused};
use crate::protocol::How;
use crate::show::sources::{Line, put};
use crate::states::{View, seconds};

/// Packets and bytes of the states that there are, by source and rule.
type Sums = HashMap<(IpAddr, Option<u32>), [u64; 2]>;

/// Ends nodes of sources, and says how many.
///
/// # Errors
///
/// What the kernel returned.
pub(crate) fn kill_sources(firewall: &Firewall, filters: &[Filter]) -> Result<u64, Refused> {
    let mut count = 0;
    for filter in filters {
        count += firewall.kill_sources(*filter).map_err(Refused::because)?;
    }
    Ok(count)
}

impl Engine {
    /// `pfctl -s Sources`. Packets and bytes, with `-v`, are those of the states that there are.
    pub(super) fn show_sources(&self, how: &How) -> Result<String, Refused> {
        let firewall = self.firewall();
        let sources = firewall.sources().map_err(Refused::because)?;
        let now = now_tick(firewall);
        let sums = if how.verbosity > 0 { self.sums() } else { Sums::new() };
        let ticks = |later: u32, sooner: u32| {
            u64::from(later.wrapping_sub(sooner).cast_signed().max(0).cast_unsigned())
        };
        let mut out = String::new();
        for source in sources {
            let [packet_count, size_bytes] =
                sums.get(&(source.address, source.rule)).copied().unwrap_or_default();
            let is_it = |info: &&crate::compile::RuleInfo| {
                Some(info.id) == source.rule && info.anchor.is_empty()
            };
            let line = Line {
                address: source.address,
                state_count: source.state_count,
                connection_count: source.connection_count,
                rate_thousandths: source.rate_thousandths,
                rate_seconds: source.rate_seconds,
                age_s: seconds(ticks(now, source.created_tick)),
                expires_in_s: seconds(ticks(source.expires_tick, now)),
                packet_count,
                size_bytes,
                rule: self.rules.iter().find(is_it).map(|info| info.number),
            };
            put(&mut out, &line, how.verbosity);
        }
        Ok(out)
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::new();
        View::new(self.firewall()).for_all(|record| {
            if record.flags & STATE_TRACKED == 0 {
                return;
            }
            for (half, end) in record.source_end.into_iter().enumerate() {
                if !record.has_half(half) {
                    continue;
                }
                let source = record.ends[end].0;
                let counted = [record.packets, record.bytes].map(|both| both[0] + both[1]);
                // Whether the rule tracks for itself or for all, its node has this state.
                for rule in [record.rules[half], None] {
                    let sum = sums.entry((source, rule)).or_default();
                    *sum = [sum[0] + counted[0], sum[1] + counted[1]];
                }
            }
        });
        sums
    }

    /// Which nodes `-K` means: those of sources in one of these networks. A second host is the
    /// other end of a translation, which there is not: only a network with the address 0 has it.
    pub(crate) fn source_filters(
        &self,
        from: &[String],
        to: &[String],
    ) -> Result<Vec<Filter>, Refused> {
        let base = Filter::default();
        let has_none = |network: &String| {
            let prefix = network.parse::<weir_net::Prefix>();
            prefix.is_ok_and(|prefix| prefix.network().address().is_unspecified())
        };
        if !to.is_empty() && !to.iter().any(has_none) {
            return Ok(Vec::new());
        }
        let filters = from.iter().map(|from| filter_of(base, from, None));
        Ok(filters.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

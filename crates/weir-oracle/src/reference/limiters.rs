//! `state limiter` and `source limiter` (`pf_match_rule` of OpenBSD's pf.c): what is left of them.
//! A limiter counts records, not pf's states, of which a forwarded flow has two; a record that
//! holds one needs no more of it for its other half.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_net::Prefix;
use weir_rules::ast::Limiter;
use weir_rules::ir::Ruleset;
use weir_rules::value::{LimiterKind, LimiterUse, Rate};

use super::key::Key;
use super::states::{Half, Held, Record, States};

/// A source that a limiter counts.
type Counted = (u32, IpAddr);

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    paced_ns: Option<i64>,
    /// When it goes, of one without states.
    until_ns: Option<u64>,
    rate_ns: u64,
    /// Bits that were kept of it.
    bits: u8,
}

/// What limiters remember beside the states that there are.
#[derive(Debug, Clone, Default)]
pub(super) struct Limiters {
    /// Of state limiters, when as many as there are would all have had their time.
    paced_ns: BTreeMap<u32, i64>,
    sources: BTreeMap<Counted, Source>,
}

const SECOND_NS: u64 = 1_000_000_000;

/// The bits of an address that a source limiter counts.
fn masked(limiter: &Limiter, source: IpAddr) -> (IpAddr, u8) {
    let bits = match source {
        IpAddr::V4(_) => limiter.inet_bits.unwrap_or(32),
        IpAddr::V6(_) => limiter.inet6_bits.unwrap_or(128),
    };
    (network(source, bits), bits)
}

/// An address without its bits behind a prefix; lengths are those of the rules' parser.
fn network(address: IpAddr, bits: u8) -> IpAddr {
    Prefix::new(address, bits).map_or(address, |prefix| prefix.network().address())
}

/// One state more of a rate; `None` if it is too early. There is time before that of a test, too.
fn pace(paced_ns: Option<i64>, rate: Rate, now_ns: u64) -> Option<i64> {
    let now_ns = now_ns.cast_signed();
    let bucket_ns = (u64::from(rate.seconds) * SECOND_NS).cast_signed();
    let token_ns = bucket_ns / i64::from(rate.limit);
    let passed_ns = paced_ns.map_or(bucket_ns, |paced| (now_ns - paced).clamp(0, bucket_ns));
    (passed_ns >= token_ns).then_some(now_ns - passed_ns + token_ns)
}

/// What a half by a rule with these limiters holds, of a packet from a source.
pub(super) fn held(named: &[LimiterUse], source: IpAddr) -> Vec<Held> {
    let of = |one: &LimiterUse| match one.kind {
        LimiterKind::State => Some((one.kind, one.id()?, None)),
        LimiterKind::Source => Some((one.kind, one.id()?, Some(source))),
    };
    named.iter().filter_map(of).collect()
}

impl Limiters {
    /// Whether a limiter has no room for a state of a source, but for that of a record.
    pub(super) fn is_exceeded(
        &mut self,
        states: &States,
        limiter: &Limiter,
        source: IpAddr,
        record: Option<Key>,
        now_ns: u64,
    ) -> bool {
        let is_of_sources = limiter.kind == LimiterKind::Source;
        let held = (limiter.kind, limiter.id, is_of_sources.then_some(source));
        let its = record.and_then(|key| states.get(key));
        if its.is_some_and(|record| record.held().contains(&held)) {
            return false;
        }
        let limit = usize::try_from(limiter.limit.unwrap_or(0)).unwrap_or(usize::MAX);
        let early = |paced| limiter.rate.is_some_and(|rate| pace(paced, rate, now_ns).is_none());
        if !is_of_sources {
            let count = states.records().flat_map(Record::held).filter(|one| *one == held).count();
            return count >= limit || early(self.paced_ns.get(&limiter.id).copied());
        }
        self.settle(states, now_ns);
        let (of, bits) = masked(limiter, source);
        match self.sources.get(&(limiter.id, of)) {
            Some(found) => {
                let count = count_of(states, (limiter.id, of), bits);
                count >= limit || early(found.paced_ns)
            }
            None => {
                let of_it = self.sources.keys().filter(|(id, _)| *id == limiter.id).count();
                of_it >= usize::try_from(limiter.entries.unwrap_or(0)).unwrap_or(usize::MAX)
            }
        }
    }

    /// A half has been made: what its record has not held before is counted.
    pub(super) fn take(&mut self, ruleset: &Ruleset, taken: &[Held], now_ns: u64) {
        for (kind, id, source) in taken {
            let is_it = |one: &&Limiter| (one.kind, one.id) == (*kind, *id);
            let Some(limiter) = ruleset.limiters().find(is_it) else { continue };
            let rate = limiter.rate;
            let Some(source) = source else {
                let paced = self.paced_ns.get(id).copied();
                if let Some(paced) = rate.and_then(|rate| pace(paced, rate, now_ns)) {
                    self.paced_ns.insert(*id, paced);
                }
                continue;
            };
            let (of, bits) = masked(limiter, *source);
            let found = self.sources.entry((*id, of)).or_default();
            if let Some(paced) = rate.and_then(|rate| pace(found.paced_ns, rate, now_ns)) {
                found.paced_ns = Some(paced);
            }
            found.rate_ns = rate.map_or(0, |rate| u64::from(rate.seconds) * SECOND_NS);
            found.bits = bits;
            found.until_ns = None;
        }
    }

    /// Sources without states go, when their time is over.
    pub(super) fn settle(&mut self, states: &States, now_ns: u64) {
        self.sources.retain(|counted, source| {
            if count_of(states, *counted, source.bits) != 0 {
                source.until_ns = None;
                return true;
            }
            *source.until_ns.get_or_insert(now_ns + source.rate_ns) > now_ns
        });
    }
}

/// States of a source that a limiter counts.
fn count_of(states: &States, (id, of): Counted, bits: u8) -> usize {
    let is_its = |one: &Held| {
        one.0 == LimiterKind::Source
            && one.1 == id
            && one.2.is_some_and(|address| {
                address.is_ipv4() == of.is_ipv4() && network(address, bits) == of
            })
    };
    states.records().flat_map(Record::held).filter(is_its).count()
}

/// What a record would hold more by a half, once that is in its place.
pub(super) fn missing(states: &States, record: Key, half: &Half) -> Vec<Held> {
    let its = states.get(record).map(Record::held).unwrap_or_default();
    half.limited.iter().filter(|one| !its.contains(one)).copied().collect()
}

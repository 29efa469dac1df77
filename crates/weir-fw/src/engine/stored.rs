//! States that leave for a file, and that come back: between the records of the table and those of
//! [`crate::sync`].
//!
//! What a record needs besides itself stays behind, and is counted by the reason: another family, a
//! socket, changed sequence numbers, what packets are changed by, a count at its source.
//! This module never writes a file.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_bpf::firewall::layout::{self, Slots, control, image, rule};
use weir_bpf::firewall::restore::{Outcome, Restored as Request, Wire};
use weir_bpf::firewall::{Arena, Firewall};

use super::answers::now_tick;
use super::{Engine, Refused};
use crate::compile::RuleInfo;
use crate::compile::known::Gateway;
use crate::protocol::{Names, Restored, Stored};
use crate::states::{Record, View, timeout_of};
use crate::sync::{self, Half, Kind, Peer, State};

/// Bytes are handed over in pieces of about this size.
const PIECE_SIZE_BYTES: usize = 1 << 16;
/// Slots that get memory at a time when a state finds none.
const SLOTS_PER_EXTENSION: u32 = 1 << 12;
/// Buckets of the index for each state, as it has them in the long run.
const BUCKETS_PER_STATE: u64 = 4;
/// What an account can count.
const PACKETS_MAX: u64 = (1 << layout::ACCOUNT_RULE_SHIFT) - 1;
const BYTES_MAX: u64 = (1 << layout::ACCOUNT_SCRUB_SHIFT) - 1;
/// How often a bucket's lock is asked for.
const TRIES: u32 = 8;
/// Why a state is none here whose gateway has come with a ruleset since the names were taken.
pub(crate) const STALE: &str = "their gateway has no name so far";

/// What was left out, by the reason.
type LeftOut = BTreeMap<String, u64>;

/// Takes bytes as they come; `Err` if whoever asked is gone.
pub(crate) type Out<'a> = &'a mut dyn FnMut(&[u8]) -> std::io::Result<()>;

/// What it takes to store states, without holding up the engine for as long as it takes.
#[derive(Debug)]
pub(crate) struct StatesStorer {
    pub(crate) firewall: Arc<Firewall>,
    /// Names by slot, and by number from 1 on.
    interfaces: Vec<String>,
    tags: Vec<String>,
    gateways: Vec<String>,
    /// Names of rules everywhere, by identifier.
    rules: HashMap<u32, u64>,
}

impl StatesStorer {
    /// Hands over all states as a stream.
    ///
    /// # Errors
    ///
    /// If `out` fails.
    pub(crate) fn store(&self, out: Out<'_>) -> std::io::Result<Stored> {
        let view = View::new(&self.firewall);
        let now = now_tick(&self.firewall);
        let mut stored = Stored::default();
        let mut bytes = Vec::with_capacity(2 * PIECE_SIZE_BYTES);
        sync::put_header(&mut bytes);
        self.put_names(&mut bytes);
        view.try_for_all(|record| {
            match self.state(&view, record, now) {
                Ok(state) => {
                    sync::put_state(&mut bytes, &state);
                    stored.state_count += 1;
                }
                Err(reason) => leave_out(&mut stored.left_out, reason.to_owned()),
            }
            if bytes.len() >= PIECE_SIZE_BYTES {
                out(&bytes)?;
                bytes.clear();
            }
            Ok::<(), std::io::Error>(())
        })?;
        sync::put_end(&mut bytes, stored.state_count);
        out(&bytes).map(|()| stored)
    }

    /// Appends what its numbers stand for.
    pub(crate) fn put_names(&self, bytes: &mut Vec<u8>) {
        for (kind, names) in [
            (Kind::Interface, &self.interfaces),
            (Kind::Tag, &self.tags),
            (Kind::Gateway, &self.gateways),
        ] {
            for (number, name) in (0..).zip(names) {
                // Numbers that stand for nothing have no name; nothing refers to them.
                let _ = sync::put_name(bytes, kind, number, name);
            }
        }
    }

    /// Whether its numbers stand for the same as those of another one.
    pub(crate) fn has_names_of(&self, other: &Self) -> bool {
        self.interfaces == other.interfaces
            && self.tags == other.tags
            && self.gateways == other.gateways
    }

    /// Whether gateways have names.
    fn check_gateways(&self, record: &Record) -> Result<(), &'static str> {
        for number in record.gateways.into_iter().filter(|number| *number != 0) {
            let name = self.gateways.get(usize::from(number)).ok_or(STALE)?;
            if name.is_empty() {
                return Err("a socket has their packets (divert-to)");
            }
        }
        Ok(())
    }

    /// A record as a state, or why it is none.
    pub(crate) fn state(
        &self,
        view: &View<'_>,
        record: &Record,
        now: u32,
    ) -> Result<State, &'static str> {
        if let Some(reason) = needs_more(record) {
            return Err(reason);
        }
        self.check_gateways(record)?;
        let has = |bit: u32| record.flags & bit != 0;
        let give = |flag: u16, is_given: bool| if is_given { flag } else { 0 };
        let is_connected = record.wscale[0] & layout::WSCALE_CONNECTED != 0;
        let peer = |end: usize| Peer {
            phase: record.phase[end],
            wscale: record.wscale[end] & (layout::WSCALE_MASK | layout::WSCALE_FLAG),
            max_win: record.max_win[end],
            seq: record.seq[end],
        };
        let half = |half: usize| {
            if !record.has_half(half) {
                return Half::default();
            }
            Half {
                flags: sync::PRESENT
                    | give(sync::IF_BOUND, record.is_bound(half))
                    | give(sync::NO_SYNC, record.are_no_sync[half])
                    | give(sync::LOG_ALL, record.log_all[half])
                    | give(sync::ALLOW_OPTIONS, record.allow_options[half])
                    | give(sync::WATCHED, has(layout::STATE_WATCHED))
                    | give(sync::PFLOW, record.pflow[half]),
                interface: record.interfaces[half].into(),
                tag: record.tags[half].into(),
                rule: record.rules[half].and_then(|id| self.rules.get(&id)).copied().unwrap_or(0),
            }
        };
        // Of half A end 1 is translated, of half B end 0.
        let wire = |half: usize| {
            let end = record.wire[half]?[1 - half];
            let rule = record.translator[half].and_then(|id| self.rules.get(&id));
            Some(sync::Wire { end, rule: rule.copied().unwrap_or(0) })
        };
        let is_tcp = record.protocol == weir_wire::protocol::TCP;
        let since = |tick| now.wrapping_sub(tick).cast_signed().max(0).cast_unsigned().into();
        Ok(State {
            protocol: record.protocol,
            flags: give(sync::SLOPPY, has(layout::STATE_SLOPPY))
                | give(sync::FIRST, has(layout::STATE_FIRST))
                | give(sync::CONNECTED, is_tcp && is_connected),
            ends: record.ends,
            wire: [wire(0), wire(1)],
            gateways: record.gateways.map(u16::from),
            peers: [peer(0), peer(1)],
            halves: [half(0), half(1)],
            packets: record.packets,
            bytes: record.bytes,
            age_ms: milliseconds(since(record.created_tick)),
            remaining_ms: milliseconds(view.expires_in_ticks(record, now)),
            idle_ms: match record.imported {
                Some(_) => sync::SECOND_HAND,
                None => milliseconds(since(record.last_tick)),
            },
        })
    }
}

/// What a record needs that a stored state does not have.
fn needs_more(record: &Record) -> Option<&'static str> {
    let has = |bit: u32| record.flags & bit != 0;
    if record.other_family().is_some() {
        Some("they are of two IP versions (af-to)")
    } else if record.is_modulated {
        Some("their sequence numbers are changed (modulate, synproxy)")
    } else if has(layout::STATE_SCRUB) || record.scrubs != [0, 0] {
        Some("rules change their packets (scrub, set tos, queues)")
    } else if has(layout::STATE_TRACKED) {
        Some("they count for their source")
    } else {
        None
    }
}

/// Ticks as milliseconds, rounded down.
const fn milliseconds(ticks: u64) -> u64 {
    (ticks << layout::TICK_SHIFT) / 1_000_000
}

/// Milliseconds as ticks, at most as many as are in the future or the past.
pub(crate) fn ticks(ms: u64) -> u32 {
    const MAX: u32 = i32::MAX.cast_unsigned();
    let ticks = (u128::from(ms) * 1_000_000) >> layout::TICK_SHIFT;
    u32::try_from(ticks).unwrap_or(MAX).min(MAX)
}

/// What interfaces that are here are called by the other firewall, where it has other names. Its
/// names for others are none of ours.
fn their_names(interfaces: &Names) -> HashMap<&str, &str> {
    let others = interfaces.keys().map(|theirs| (theirs.as_str(), ""));
    let named = interfaces.iter().map(|(theirs, ours)| (ours.as_str(), theirs.as_str()));
    others.chain(named).collect()
}

/// A rule's text with the other firewall's names of interfaces.
fn in_their_words<'t>(text: &'t str, names: &HashMap<&str, &str>) -> Cow<'t, str> {
    if names.is_empty() {
        return Cow::Borrowed(text);
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let (mut renamed, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let word = rest.split(|c| !is_of_word(c)).next().unwrap_or_default();
        renamed.push_str(names.get(word).copied().unwrap_or(word));
        rest = &rest[word.len()..];
        let between = rest.split(is_of_word).next().unwrap_or_default();
        renamed.push_str(between);
        rest = &rest[between.len()..];
    }
    Cow::Owned(renamed)
}

/// What names rules everywhere, in their order; `names` are those of [`their_names`].
fn hashes<'r>(
    rules: &'r [RuleInfo],
    names: &'r HashMap<&str, &str>,
) -> impl Iterator<Item = (u32, u64)> + 'r {
    let mut seen: HashMap<(&str, Cow<'_, str>), u32> = HashMap::new();
    rules.iter().map(move |info| {
        let (anchor, text): (&str, _) = (&info.anchor, in_their_words(&info.text, names));
        let ordinal = seen.entry((anchor, text.clone())).or_default();
        let hash = sync::rule_hash(anchor, &text, *ordinal);
        *ordinal += 1;
        (info.id, hash)
    })
}

/// The timeout tables of the rules of the active image, by identifier: of those that have one.
fn profiles(arena: &Arena) -> HashMap<u32, u8> {
    let at = arena.read32(control::ACTIVE);
    let (first, count) =
        (at + arena.read32(at + image::RULES_AT), arena.read32(at + image::RULE_COUNT));
    let profile = |index: u32| {
        let line = first + index * rule::SIZE_BYTES;
        let word = arena.read32(line + rule::PROFILE / 4 * 4).to_ne_bytes();
        (arena.read32(line + rule::ID), word[(rule::PROFILE % 4) as usize])
    };
    (0..count).map(profile).filter(|(_, profile)| *profile != 0).collect()
}

/// What a stream's numbers and names stand for here.
#[derive(Debug)]
pub(crate) struct Meaning {
    /// Their identifiers here, and their timeout tables.
    rules: HashMap<u64, (u32, u8)>,
    here: HashMap<(Kind, String), u8>,
    interfaces: Numbers,
    tags: Numbers,
    gateways: Numbers,
}

/// Names of a stream by their number there, each with its number here.
type Numbers = Vec<Option<(String, Option<u8>)>>;

/// What a half is here.
#[derive(Debug, Clone, Copy, Default)]
struct Made {
    /// `layout::HALF_*` above the rule's identifier.
    half: u32,
    /// The timeout table of its rule.
    profile: u8,
    /// The slot of its interface.
    slot: u8,
    /// Its rule is the default rule for want of its maker.
    has_lost_rule: bool,
}

impl Meaning {
    /// Takes the names of a stream over that goes on, after rules or interfaces have changed.
    pub(crate) fn rename(&mut self, before: Self) {
        for (kind, numbers) in [
            (Kind::Interface, before.interfaces),
            (Kind::Tag, before.tags),
            (Kind::Gateway, before.gateways),
        ] {
            for (number, named) in (0..).zip(numbers) {
                if let Some((name, _)) = named {
                    self.name(kind, number, name);
                }
            }
        }
    }

    pub(crate) fn name(&mut self, kind: Kind, number: u16, name: String) {
        let here = self.here.get(&(kind, name.clone())).copied();
        let numbers = match kind {
            Kind::Interface => &mut self.interfaces,
            Kind::Tag => &mut self.tags,
            Kind::Gateway => &mut self.gateways,
        };
        let index = usize::from(number);
        numbers.resize(numbers.len().max(index + 1), None);
        numbers[index] = Some((name, here));
    }

    /// What a half is here; or why the state is left out.
    fn half(&self, half: &Half) -> Result<Made, String> {
        let has = |flag: u16| half.flags & flag != 0;
        if !has(sync::PRESENT) {
            return Ok(Made::default());
        }
        let slot = match self.interfaces.get(usize::from(half.interface)) {
            Some(Some((_, Some(slot)))) => *slot,
            Some(Some((name, None))) if has(sync::IF_BOUND) => {
                return Err(format!("interface {name} is not here"));
            }
            None | Some(None) if has(sync::IF_BOUND) && half.interface != 0 => {
                return Err("their interface has no name".to_owned());
            }
            _ => 0,
        };
        let tag = match self.tags.get(usize::from(half.tag)) {
            Some(Some((_, Some(number)))) => *number,
            _ => 0,
        };
        let rule = if half.rule == 0 { None } else { self.rules.get(&half.rule).copied() };
        let (id, profile) = rule.unwrap_or((layout::RULE_NONE, 0));
        let give = |flag: u16, shift: u32| if has(flag) { 1 << shift } else { 0 };
        Ok(Made {
            half: id
                | u32::from(tag) << layout::HALF_TAG_SHIFT
                | give(sync::NO_SYNC, layout::HALF_NO_SYNC_SHIFT)
                | give(sync::LOG_ALL, layout::HALF_LOG_SHIFT)
                | give(sync::ALLOW_OPTIONS, layout::HALF_OPTIONS_SHIFT)
                | give(sync::PFLOW, layout::HALF_PFLOW_SHIFT),
            profile,
            slot,
            has_lost_rule: rule.is_none() && half.rule != 0,
        })
    }

    /// The number of a gateway here; or why the state is left out.
    fn gateway(&self, number: u16) -> Result<u8, String> {
        match self.gateways.get(usize::from(number)) {
            _ if number == 0 => Ok(0),
            Some(Some((_, Some(number)))) => Ok(*number),
            Some(Some((name, None))) => Err(format!("no rule here has the gateway {name}")),
            _ => Err("their gateway has no name".to_owned()),
        }
    }

    /// A state in this firewall's numbers, and whether it lost a rule; or why it is left out.
    pub(crate) fn state(
        &self,
        view: &View<'_>,
        state: &State,
        now: u32,
    ) -> Result<(Request, bool), String> {
        let [a, b] = [self.half(&state.halves[0])?, self.half(&state.halves[1])?];
        let is_there = |half: usize| state.halves[half].flags & sync::PRESENT != 0;
        // How long it lives is up to the rule that made it.
        let profile = if is_there(0) { a.profile } else { b.profile };
        let mut flags = 0;
        let mut give = |bit: u32, is_given: bool| flags |= if is_given { bit } else { 0 };
        give(layout::STATE_SLOPPY, state.flags & sync::SLOPPY != 0);
        give(layout::STATE_FIRST, state.flags & sync::FIRST != 0);
        give(layout::STATE_HALF_A, is_there(0));
        give(layout::STATE_HALF_B, is_there(1));
        let [bound_a, bound_b] = state.halves.map(|half| half.flags & sync::IF_BOUND != 0);
        give(layout::STATE_IF_BOUND_A, bound_a && is_there(0));
        give(layout::STATE_IF_BOUND_B, bound_b && is_there(1));
        let is_watched = |half: &Half| half.flags & (sync::WATCHED | sync::LOG_ALL) != 0;
        give(layout::STATE_WATCHED, state.halves.iter().any(is_watched));
        let phase = state.peers.map(|peer| peer.phase);
        let class = timeout_of(state.protocol, state.flags & sync::FIRST != 0, phase);
        let timeout = view.timeout_ticks(class, profile);
        let idle = timeout.saturating_sub(ticks(state.remaining_ms).into());
        let idle = u32::try_from(idle).unwrap_or(0);
        let mut wscale = state.peers.map(|peer| peer.wscale);
        if state.flags & sync::CONNECTED != 0 {
            wscale[0] |= layout::WSCALE_CONNECTED;
        }
        let wire = |wire: sync::Wire| {
            let rule = self.rules.get(&wire.rule).filter(|_| wire.rule != 0);
            let has_lost_rule = rule.is_none() && wire.rule != 0;
            let id = rule.map_or(layout::RULE_NONE, |(id, _)| *id);
            (Wire { end: wire.end, rule: id }, has_lost_rule)
        };
        let wires = state.wire.map(|half| half.map(wire));
        let has_lost_translator = wires.iter().flatten().any(|(_, has_lost_rule)| *has_lost_rule);
        let [there, back] = state.gateways;
        let request = Request {
            ends: state.ends,
            gateways: [self.gateway(there)?, self.gateway(back)?],
            wire: wires.map(|half| half.map(|(wire, _)| wire)),
            protocol: state.protocol,
            flags,
            profile,
            halves: [a.half, b.half],
            interfaces: [a.slot, b.slot],
            phase,
            seq: state.peers.map(|peer| peer.seq),
            max_win: state.peers.map(|peer| peer.max_win),
            wscale,
            packets: state.packets.map(|count| count.min(PACKETS_MAX)),
            bytes: state.bytes.map(|count| count.min(BYTES_MAX)),
            created_tick: now.wrapping_sub(ticks(state.age_ms)),
            last_tick: now.wrapping_sub(idle),
        };
        Ok((request, a.has_lost_rule || b.has_lost_rule || has_lost_translator))
    }
}

impl Engine {
    /// What stores states, as they are when it runs.
    #[must_use]
    pub(crate) fn states_storer(&self) -> StatesStorer {
        let tags = self.known.tags.held.iter().map(|tag| tag.clone().unwrap_or_default());
        StatesStorer {
            firewall: Arc::clone(&self.firewall),
            interfaces: (0..64).map(|slot| self.interfaces.name(slot).to_owned()).collect(),
            tags: std::iter::once(String::new()).chain(tags).collect(),
            gateways: std::iter::once(String::new()).chain(self.gateway_names()).collect(),
            rules: hashes(&self.rules, &HashMap::new()).collect(),
        }
    }

    /// Makes states of a stream, as far as they are none yet.
    ///
    /// # Errors
    ///
    /// Why the bytes are no stream, before anything was changed; or what the kernel returned.
    pub(crate) fn load_states(&self, bytes: &[u8]) -> Result<Restored, Refused> {
        let records = sync::Decoder::new(bytes).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let records = records.map_err(Refused::because)?;
        let mut meaning = self.meaning(&Names::default());
        let state_count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        self.make_room(state_count)?;
        let view = View::new(&self.firewall);
        let now = now_tick(&self.firewall);
        let mut restored = Restored::default();
        for record in records {
            match record {
                sync::Record::Name { kind, number, name } => meaning.name(kind, number, name),
                sync::Record::Unknown(_) => restored.skipped_count += 1,
                sync::Record::End { .. } => {}
                sync::Record::State(state) => match meaning.state(&view, &state, now) {
                    Ok((request, lost_rule)) => self.restore(&request, lost_rule, &mut restored)?,
                    Err(reason) => leave_out(&mut restored.left_out, reason),
                },
            }
        }
        Ok(restored)
    }

    /// Names of gateways by number, from 1 on; sockets have none.
    fn gateway_names(&self) -> impl Iterator<Item = String> {
        let name = |held: &Option<Gateway>| match held {
            Some(gateway) if gateway.socket.is_none() => gateway.to_string(),
            _ => String::new(),
        };
        self.known.gateways.held.iter().map(name)
    }

    /// What the words of a firewall mean here that calls some interfaces otherwise.
    pub(crate) fn meaning(&self, names: &Names) -> Meaning {
        let tags = self.known.tags.held.iter().zip(1..).filter_map(|(name, number)| {
            Some(((Kind::Tag, name.clone()?), u8::try_from(number).ok()?))
        });
        let present = self.interfaces.all().filter(|(_, known)| known.ifindex != 0);
        let names = their_names(names);
        let interfaces = present.filter_map(|(slot, known)| {
            let name = names.get(known.name.as_str()).map_or(known.name.as_str(), |theirs| theirs);
            Some(((Kind::Interface, name.to_owned()), u8::try_from(slot).ok()?))
        });
        let gateways = self.gateway_names().zip(1_u16..).filter_map(|(name, number)| {
            let theirs = in_their_words(&name, &names).into_owned();
            let is_one = !name.is_empty() && self.known.gateways.is_given(number);
            is_one.then_some(((Kind::Gateway, theirs), u8::try_from(number).ok()?))
        });
        let profiles = profiles(self.firewall.arena());
        let rule = |(id, hash)| (hash, (id, profiles.get(&id).copied().unwrap_or(0)));
        Meaning {
            rules: hashes(&self.rules, &names).map(rule).collect(),
            here: tags.chain(interfaces).chain(gateways).collect(),
            interfaces: Numbers::new(),
            tags: Numbers::new(),
            gateways: Numbers::new(),
        }
    }

    fn restore(
        &self,
        request: &Request,
        lost_rule: bool,
        restored: &mut Restored,
    ) -> Result<(), Refused> {
        for _ in 0..TRIES {
            match self.firewall.restore(request).map_err(Refused::because)? {
                Outcome::Made => {
                    restored.loaded_count += 1;
                    restored.default_rule_count += u64::from(lost_rule);
                    return Ok(());
                }
                // The others are answers to imports.
                Outcome::Present | Outcome::Updated | Outcome::Ended | Outcome::Absent => {
                    restored.present_count += 1;
                    return Ok(());
                }
                Outcome::Limit => {
                    leave_out(&mut restored.left_out, "set limit states is reached".to_owned());
                    return Ok(());
                }
                Outcome::Memory => self.extend_slots()?,
                Outcome::Busy => {}
            }
        }
        leave_out(&mut restored.left_out, "there was no room for them".to_owned());
        Ok(())
    }

    /// Memory for more records that are not the first of their bucket, and for IPv6 addresses.
    pub(crate) fn extend_slots(&self) -> Result<(), Refused> {
        let (ready, allowed) = (self.firewall.ready(), self.firewall.allowed());
        let more = ready.overflow_count.saturating_add(SLOTS_PER_EXTENSION);
        let overflow_count = more.min(allowed.overflow_count).max(ready.overflow_count);
        self.firewall.extend(Slots { overflow_count, ..ready }).map_err(Refused::because)
    }

    /// Has the index be as large as it is to be with so many states more.
    fn make_room(&self, state_count: u64) -> Result<(), Refused> {
        let firewall = &self.firewall;
        let count = firewall.arena().read64(control::STATE_COUNT).saturating_add(state_count);
        let enough = u32::try_from(count.saturating_mul(BUCKETS_PER_STATE)).unwrap_or(u32::MAX);
        let enough = enough.min(firewall.allowed().bucket_count);
        if enough <= firewall.bucket_count() {
            return Ok(());
        }
        let ready = firewall.ready();
        let bucket_count = enough.max(ready.bucket_count);
        firewall.extend(Slots { bucket_count, ..ready }).map_err(Refused::because)?;
        // What it does not reach now it reaches later: that makes states slower, not fewer.
        firewall.resize(enough).map(drop).map_err(Refused::because)
    }
}

/// Reasons that are told apart: names in them come from the other firewall.
const REASONS_MAX: usize = 64;

/// Counts a state that is left out.
pub(crate) fn leave_out(left_out: &mut LeftOut, reason: String) {
    let is_room = left_out.len() < REASONS_MAX || left_out.contains_key(&reason);
    let reason = if is_room { reason } else { "for other reasons".to_owned() };
    *left_out.entry(reason).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_are_made_up_do_not_fill_memory() {
        let mut left_out = LeftOut::new();
        (0..1000).for_each(|number| leave_out(&mut left_out, format!("interface x{number}")));
        assert_eq!(left_out.len(), REASONS_MAX + 1);
        assert_eq!(left_out.values().sum::<u64>(), 1000);
        leave_out(&mut left_out, "interface x7".to_owned());
        assert_eq!(left_out["interface x7"], 2);
    }

    #[test]
    fn rules_are_read_with_the_names_of_the_other_firewall() {
        let names = [("eth0", "wan0"), ("lan0", "eth1")]
            .map(|(theirs, ours)| (theirs.to_owned(), ours.to_owned()));
        let names = Names::from(names);
        let names = their_names(&names);
        for (ours, theirs) in [
            (
                "pass in on wan0 from (eth1:network) to any",
                "pass in on eth0 from (lan0:network) to any",
            ),
            ("pass on wan0.5 tag wan0", "pass on wan0.5 tag eth0"),
            // Another interface than theirs of that name.
            ("pass on { eth0, eth2 }", "pass on { , eth2 }"),
            ("", ""),
        ] {
            assert_eq!(in_their_words(ours, &names), theirs);
        }
        assert_eq!(in_their_words("pass on eth0", &HashMap::new()), "pass on eth0");
    }
}

//! Fragments on their way: each goes where its first one went.

use std::net::IpAddr;

use weir_rules::evaluate::Packet;
use weir_rules::value::Direction;

use super::super::dissect::Piece;
use super::super::fragments::{Fate, Followed};
use super::super::key::Key;
use super::super::states::{Tracking, half_index};
use super::Trip;
use crate::outcome::{Answer, DropReason, Outcome};

/// A source and a destination.
type Addresses = (IpAddr, IpAddr);

impl Trip<'_> {
    /// A fragment that goes where its first one went, unless the box's stack has to have it. It was
    /// looked for at an interface in a direction; `is_received`: it came in, there or elsewhere.
    pub(super) fn follow(
        &mut self,
        outcome: Outcome,
        direction: Direction,
        interface: &str,
        is_received: bool,
    ) -> Outcome {
        if matches!(outcome, Outcome::Blocked(..)) {
            return outcome;
        }
        let is_in = direction == Direction::In;
        if is_in {
            let came = (self.dissected.packet.source, self.dissected.packet.destination);
            self.change_piece(direction, interface, came);
        }
        let extensions = self.dissected.packet.extensions;
        let is_odd = extensions.ipv4_options || self.dissected.packet.prio.is_some();
        if self.is_last_hop(direction) || (is_in && is_odd) {
            (self.packet.source, self.packet.destination) = self.inside;
            return Outcome::Box;
        }
        if let Outcome::Out(out) = &outcome {
            self.ttl -= u8::from(is_received);
            self.change_piece(Direction::Out, out, self.inside);
        }
        outcome
    }

    /// What is changed in a later fragment at an interface, where it has these addresses.
    fn change_piece(&mut self, direction: Direction, interface: &str, ends: (IpAddr, IpAddr)) {
        if self.evaluator.skips(interface) {
            return;
        }
        let mut packet = Packet { direction, ..self.dissected.packet.clone() };
        packet.interface = interface.into();
        (packet.source, packet.destination) = ends;
        let listed = self.listed(&packet);
        self.act(&listed);
        let states = &self.world.states;
        let found = self.followed.and_then(|key| states.find(key));
        let half = found.and_then(|(key, forward)| {
            states.get(key)?.halves[half_index(direction, forward)].clone()
        });
        if let Some(half) = half {
            self.act(&half.actions);
        }
    }

    /// What becomes of a fragment by what came of its packet before; `None`: it is judged.
    pub(super) fn gather(&mut self, piece: Piece) -> Option<Outcome> {
        match self.world.fragments.follow(self.dissected, piece) {
            Fate::Follows(Followed { outcome, state, had_state, ends, inside }) => {
                self.is_copied = None;
                self.followed = Some(state);
                let is_translated = ends != self.ends() || inside != self.ends();
                let found = match had_state {
                    true => self.world.states.find(state),
                    false => self.came_later(state),
                };
                if let Some((key, forward)) = found.filter(|at| self.is_judged(*at, &outcome)) {
                    self.count_piece(key, forward);
                }
                (self.packet.source, self.packet.destination) = ends;
                self.inside = inside;
                if is_translated {
                    let Some((inside, outside)) = self.translated_now(state) else {
                        let reason = DropReason::Fragment;
                        return Some(Outcome::Blocked(reason, Answer::None));
                    };
                    self.inside = inside;
                    (self.packet.source, self.packet.destination) = outside;
                }
                return Some(outcome);
            }
            Fate::Refused(reason) => return Some(Outcome::Blocked(reason, Answer::None)),
            Fate::Unknown => {}
        }
        let limit = self.world.limits.get(2).copied().unwrap_or(u32::MAX);
        let is_too_many = piece.offset_bytes == 0 && self.world.fragments.is_full(limit);
        is_too_many.then_some(Outcome::Blocked(DropReason::Memory, Answer::None))
    }

    /// The addresses, inside and as it leaves, that the state of a packet gives a later fragment:
    /// that which has translated the first one, or another that has come to its place; `None` if
    /// that is not there, or translates nothing.
    fn translated_now(&self, state: Key) -> Option<(Addresses, Addresses)> {
        let (key, forward) = self.world.states.find(state)?;
        let record = self.world.states.get(key)?;
        if record.halves.iter().flatten().all(|half| half.wire == key) {
            return None;
        }
        let half = record.halves[half_index(Direction::Out, forward)].as_ref();
        let leaves = half.map_or(key, |half| half.wire);
        let ends = |key: Key| {
            let key = if forward { key } else { key.reversed() };
            (key.source.0, key.destination.0)
        };
        Some((ends(key), ends(leaves)))
    }

    /// A state that came after the first fragment, which had none: if such a packet would be its
    /// own where it comes in, or else where it leaves.
    fn came_later(&self, state: Key) -> Option<(Key, bool)> {
        let states = &self.world.states;
        let covers_out = |(key, forward): &(Key, bool)| {
            let half = half_index(Direction::Out, *forward);
            states.get(*key).is_some_and(|record| record.halves[half].is_some())
        };
        let leaves = || states.find(state).filter(covers_out);
        states.meet(state, self.dissected.packet.direction).or_else(leaves)
    }

    /// Whether a fragment that goes on meets its state where anything is filtered.
    fn is_judged(&self, (key, forward): (Key, bool), outcome: &Outcome) -> bool {
        let Outcome::Out(out) = outcome else { return false };
        let half = half_index(Direction::In, forward);
        let has_in =
            || self.world.states.get(key).is_some_and(|state| state.halves[half].is_some());
        !self.evaluator.skips(out) || has_in()
    }

    /// A later fragment of a packet that was sent on, but for TCP, which would look for a header.
    fn count_piece(&mut self, key: Key, forward: bool) {
        let Some(record) = self.world.states.get_mut(key) else {
            return;
        };
        if !matches!(record.tracking, Tracking::Tcp(..)) {
            record.packets[usize::from(!forward)] += 1;
            record.follow_pair(key.protocol, forward);
            record.touched_ns = self.now_ns;
        }
    }
}

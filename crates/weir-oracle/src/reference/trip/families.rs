//! Packets that change their family (`af-to`): their states, and the rest of their way.

use super::super::family;
use super::super::key::Key;
use super::super::states::Half;
use super::{Crossing, Stage, Trip, blocked};
use crate::outcome::{Answer, DropReason, Outcome};
use weir_rules::evaluate::{NewState, Translated, Verdict};
use weir_rules::value::Direction;
use weir_wire::protocol::other_family;

impl Trip<'_> {
    /// Makes a state of two families, whose halves are made at once.
    pub(super) fn keep_family(
        &mut self,
        verdict: &Verdict<'_>,
        state: &NewState<'_>,
        interface: &str,
        (record, new): (Option<(Key, bool)>, &Translated<'_>),
    ) -> Stage {
        let comes = Key::of(&self.packet);
        let query = family::echo(self.packet.protocol, self.packet.icmp.kind);
        let other = Key {
            protocol: other_family(self.packet.protocol),
            source: (new.source, new.source_port),
            destination: (new.destination, query.map_or(new.destination_port, u16::from)),
        };
        let crossing = Crossing { direction: Direction::In, interface, record, becomes: comes };
        let half = self.half(verdict, state, &crossing);
        self.check_nodes(&half)?;
        let is_its = |at: &(Key, bool)| at.0 == comes || at.0 == comes.reversed();
        let found = record.filter(is_its).or_else(|| self.world.states.find(comes));
        if found.is_some_and(|at| !self.is_reopened(at.0)) {
            self.check_limit(state)?;
            return blocked(DropReason::StateInsert);
        }
        let at = (self.open(state, (comes, other), found.map(|at| at.0))?, true);
        if !std::mem::replace(&mut self.progress.is_counted, true)
            && let Some(record) = self.world.states.get_mut(at.0)
        {
            record.packets[0] += 1;
        }
        self.state = Some(at);
        self.modulate(state, at);
        self.limit(at.0, &half);
        let back = Half { wire: other, interface: None, node: None, ..half.clone() };
        self.world.states.attach(at.0, 0, Half { wire: comes, ..half });
        self.world.states.attach(at.0, 1, back);
        self.family = Some((other, false));
        Ok(())
    }

    /// Whether a packet that the box sends has the ends of one that has changed its family.
    pub(super) fn has_changed(&self) -> bool {
        let key = match self.inner {
            Some(Ok(inner)) if inner.source == self.packet.destination => inner.against(),
            Some(_) => return false,
            None => Key::of(&self.packet),
        };
        let is_whole = self.dissected.piece.is_none();
        self.is_filtered && is_whole && self.world.states.is_other_family(key)
    }

    /// The rest of the way of a packet that has passed, and leaves in the other family.
    pub(super) fn change_family(&mut self, flow: Key, is_answer: bool) -> Result<Outcome, Outcome> {
        let id = self.world.chosen_id.unwrap_or_default();
        let frame = self.rewritten(true);
        let (dissected, is_error) = (self.dissected, self.inner.is_some());
        let change =
            |frame: &[u8]| family::Changing { frame, dissected, flow, is_answer, id }.changed();
        let Some(changed) = change(&frame) else { return blocked(DropReason::AfTo) };
        let is_v4 = dissected.packet.source.is_ipv4();
        let refused = |reason, kinds: [(u8, u8); 2]| {
            let (kind, code) = if is_v4 { kinds[0] } else { kinds[1] };
            let answer = if is_error { Answer::None } else { Answer::Icmp(kind, code) };
            Err(Outcome::Blocked(reason, self.answer(answer)))
        };
        if self.is_last_hop(Direction::In) {
            return refused(DropReason::Ttl, [(11, 0), (3, 0)]);
        }
        let destination = flow.destination.0;
        let is_known = !self.device.is_for_box(destination);
        let out = self.routes.interface(destination).filter(|_| is_known).cloned();
        let growth = if is_error { 40 } else { 20 };
        let before = dissected.ip_bytes;
        let size = if is_v4 { before + growth } else { before - growth };
        let mtu_bytes = out.as_ref().map_or(u32::MAX, |out| self.device.mtu_bytes(out));
        let is_long = size > mtu_bytes as usize;
        if is_long && (is_v4 || size > family::WHOLE_BYTES) {
            return refused(DropReason::TooBig, [(3, 4), (2, 0)]);
        }
        let is_tagged = dissected.packet.prio.is_some();
        let Some(out) = out.filter(|_| !is_tagged && !is_long) else {
            self.changed = Some(changed);
            return Ok(Outcome::Box);
        };
        self.ttl -= 1;
        let frame = self.rewritten(true);
        self.changed = change(&frame);
        Ok(Outcome::Out(out))
    }
}

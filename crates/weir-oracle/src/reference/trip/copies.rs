//! Packets that are sent elsewhere as well (`dup-to`): which the box's stack has to have. Where the
//! copies go this never says.

use weir_rules::value::{Direction, RouteKind};

use super::super::states::{Half, half_index};
use super::Trip;

impl Trip<'_> {
    /// Whether packets of a half are sent elsewhere as well.
    pub(super) fn copies(&self, half: &Half) -> bool {
        let is_there = half.rule.is_some_and(|rule| self.device.rule_of(rule).is_some());
        is_there && half.route.as_ref().is_some_and(|route| route.kind == RouteKind::DupTo)
    }

    /// Whether the packet, which has come in, has to be copied, or may have to be where it leaves.
    pub(super) fn is_for_copying(&self) -> bool {
        if !self.device.has_copies {
            return false;
        }
        let half = self.state.and_then(|(key, forward)| {
            self.world.states.get(key)?.halves[half_index(Direction::Out, forward)].as_ref()
        });
        let passes = |half: &Half| half.interface.is_none() && !self.copies(half);
        self.is_copied == Some(true) || !self.is_met || !half.is_some_and(passes)
    }
}

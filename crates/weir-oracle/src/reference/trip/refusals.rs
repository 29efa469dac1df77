//! What becomes of a packet that rules or a state refuse, and who hears of it.

use weir_rules::evaluate::packet::is_martian;
use weir_rules::evaluate::{Reason, Response, Verdict};
use weir_rules::value::{Direction, LimiterKind};

use super::Trip;
use crate::outcome::{Answer, DropReason, Outcome};

impl Trip<'_> {
    /// What is sent to who gets an answer: nothing to a group, or where no route leads.
    pub(super) fn answer(&self, answer: Answer) -> Answer {
        let (source, destination) =
            (self.dissected.packet.source, self.dissected.packet.destination);
        let is_outgoing = self.dissected.packet.direction == Direction::Out;
        let is_reached = match answer {
            Answer::Icmp(..) if !is_outgoing => {
                self.routes.interface(source).is_some() && !self.device.is_for_box(source)
            }
            _ => true,
        };
        if is_reached && !is_martian(source, destination) { answer } else { Answer::None }
    }

    pub(super) fn refused(
        &self,
        verdict: &Verdict<'_>,
        by_state: Option<(DropReason, Answer)>,
    ) -> Outcome {
        if let (Reason::StateMismatch, Some((reason, answer))) = (verdict.reason, by_state) {
            return Outcome::Blocked(reason, self.answer(answer));
        }
        let reason = match verdict.reason {
            Reason::Malformed => DropReason::Normalize,
            Reason::Options => DropReason::IpOption,
            Reason::StateMismatch => DropReason::StateMismatch,
            Reason::StateLimit | Reason::Limiter(LimiterKind::State) => DropReason::StateLimit,
            Reason::SourceLimit | Reason::Limiter(LimiterKind::Source) => DropReason::SrcLimit,
            Reason::Translation | Reason::Route => DropReason::MapFailed,
            Reason::Family => DropReason::AfTo,
            Reason::Rule
            | Reason::Default
            | Reason::Skip
            | Reason::State
            | Reason::TranslationPass => DropReason::Match,
        };
        self.blocked_by(reason, verdict.response)
    }

    /// What was asked for, and could not be made.
    pub(super) fn failed(&self, outcome: Outcome, verdict: &Verdict<'_>) -> Outcome {
        use DropReason::{SrcLimit, StateInsert, StateLimit};
        match outcome {
            Outcome::Blocked(reason @ (SrcLimit | StateInsert | StateLimit), Answer::None) => {
                self.blocked_by(reason, verdict.failure)
            }
            other => other,
        }
    }

    fn blocked_by(&self, reason: DropReason, response: Response) -> Outcome {
        let answer = match response {
            Response::None => Answer::None,
            // A segment with a wrong checksum is not answered by a RST; the box's own get theirs
            // later.
            Response::Rst { .. }
                if self.dissected.packet.direction == Direction::In
                    && !self.dissected.has_right_checksum(self.frame) =>
            {
                return Outcome::Blocked(DropReason::ProtoCksum, Answer::None);
            }
            Response::Rst { .. } => Answer::Rst,
            Response::Icmp { kind, code } => Answer::Icmp(kind, code),
            Response::SctpAbort => Answer::Abort,
        };
        Outcome::Blocked(reason, self.answer(answer))
    }
}

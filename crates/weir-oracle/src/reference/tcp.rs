//! The two ends of a TCP connection as a firewall between them sees them: states, and the window
//! of sequence numbers that each may send (van Rooij, "Real Stateful TCP Packet Filtering in IP
//! Filter", 2001, as pf has it: `pf_tcp_track_full` and `pf_tcp_track_sloppy` of pf.c).
//!
//! Sequence numbers are those that the ends choose, also where they are modulated. TCP's timestamps
//! are not compared.

use super::dissect::Segment;
use weir_rules::evaluate::packet::{ACK, FIN, RST, SYN};

/// How far beside its window a segment may still be after a loss of sight (`MAXACKWINDOW`).
const SKEW_MAX: u32 = 0xffff + 1500;

/// Largest window that is not scaled (`TCP_MAXWIN`).
const WINDOW_MAX: u32 = 0xffff;

/// States of one end, in the order of RFC 9293's life; the names are pf's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
    Closed = 0,
    SynSent = 2,
    Established = 4,
    Closing = 7,
    FinWait2 = 9,
    TimeWait = 10,
}

impl Phase {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::SynSent => "SYN_SENT",
            Self::Established => "ESTABLISHED",
            Self::Closing => "CLOSING",
            Self::FinWait2 => "FIN_WAIT_2",
            Self::TimeWait => "TIME_WAIT",
        }
    }
}

/// One end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) phase: Phase,
    /// Next sequence number that it sends; 0 while it has sent nothing.
    pub(super) low: u32,
    /// First sequence number that it may not send; 1 while that is not known.
    pub(super) high: u32,
    /// Largest window that it has offered, before scaling, at least 1.
    pub(super) window_max: u32,
    /// Its window scale; `None` if it sent none, or nothing of it is known.
    pub(super) scale: Option<u8>,
}

/// What a segment did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracked {
    /// It fits.
    Fits {
        /// The handshake is now complete.
        is_established: bool,
    },
    /// It fits loosely: the timeout does not begin anew.
    Loose,
    /// It does not fit.
    Refused {
        /// Both ends are in the handshake: the sender gets a RST.
        resets: bool,
    },
    /// A SYN in the middle of a connection: the sender gets an ACK.
    Challenged,
}

fn at_least(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) < 1 << 31
}

fn above(a: u32, b: u32) -> bool {
    a != b && at_least(a, b)
}

/// Divides a window of a SYN, which is never scaled, as later ones are.
fn unscaled(window: u32, scale: u8) -> u32 {
    (window + (1 << scale) - 1) >> scale
}

/// The ends of a connection that begins with this segment: source and destination.
pub(super) fn begin(segment: &Segment) -> (Peer, Peer) {
    let is_syn = segment.flags & SYN != 0;
    let ends = u32::from(is_syn) + u32::from(segment.flags & FIN != 0);
    let scale = segment.scale.filter(|_| is_syn);
    let mut window_max = u32::from(segment.window).max(1);
    if let Some(scale) = scale.filter(|scale| *scale != 0) {
        window_max = unscaled(window_max, scale);
    }
    let high = segment.sequence.wrapping_add(segment.payload_bytes + 1).wrapping_add(ends);
    let source = Peer { phase: Phase::SynSent, low: segment.sequence, high, window_max, scale };
    let destination = Peer { phase: Phase::Closed, low: 0, high: 1, window_max: 1, scale: None };
    (source, destination)
}

/// Follows a segment from `source` to `destination`, the ends as the segment has them.
pub(super) fn track(source: &mut Peer, destination: &mut Peer, segment: &Segment) -> Tracked {
    let is_syn = segment.flags & SYN != 0;
    let data_end = segment.sequence.wrapping_add(segment.payload_bytes).wrapping_add(is_syn.into());
    let end = data_end.wrapping_add(u32::from(segment.flags & FIN != 0));
    let Offer { window, source_scale, destination_scale } = if source.low == 0 {
        first_of(source, destination, segment, end)
    } else {
        Offer::new(source, destination, segment)
    };
    let has_ack = segment.flags & ACK != 0;
    let is_reset = segment.flags & RST != 0;
    let acknowledges_nothing = !has_ack
        || (segment.acknowledgement == 0 && is_reset)
        || destination.phase < Phase::SynSent;
    let ack = if acknowledges_nothing { destination.low } else { segment.acknowledgement };
    let (sequence, end, data_end) = if segment.sequence == end {
        (source.low, source.low, source.low)
    } else {
        (segment.sequence, end, data_end)
    };
    let step = Step { sequence, end, ack, window, source_scale };
    let skew = i64::from(destination.low.wrapping_sub(ack).cast_signed());
    let skew_max = i64::from(SKEW_MAX);
    let reset_fits = !is_reset || segment.sequence.wrapping_sub(source.low).wrapping_add(1) <= 2;
    let back = destination.window_max << destination_scale;
    if at_least(source.high, data_end)
        && at_least(sequence, source.low.wrapping_sub(back))
        && skew >= -skew_max
        && skew <= skew_max << source_scale
        && reset_fits
    {
        step.slide(source, destination);
        let is_established = advance(source, destination, segment.flags, false);
        return Tracked::Fits { is_established };
    }
    let is_blind = destination.phase < Phase::SynSent
        || destination.phase >= Phase::FinWait2
        || source.phase >= Phase::FinWait2;
    if is_blind
        && at_least(source.high.wrapping_add(SKEW_MAX), data_end)
        && at_least(sequence, source.low.wrapping_sub(SKEW_MAX))
    {
        step.slide(source, destination);
        if segment.flags & FIN != 0 {
            source.phase = source.phase.max(Phase::Closing);
        }
        if is_reset {
            (source.phase, destination.phase) = (Phase::TimeWait, Phase::TimeWait);
        }
        return Tracked::Loose;
    }
    let in_handshake = (source.phase, destination.phase) == (Phase::SynSent, Phase::SynSent);
    if in_handshake {
        (source.low, source.high, source.window_max) = (0, 1, 1);
    }
    Tracked::Refused { resets: in_handshake && !is_reset }
}

/// The window that a segment offers, and how far this and the other end's are scaled.
struct Offer {
    window: u32,
    source_scale: u8,
    destination_scale: u8,
}

impl Offer {
    /// Scaling needs both ends, and never holds for a SYN.
    fn new(source: &Peer, destination: &Peer, segment: &Segment) -> Self {
        let (source_scale, destination_scale) = match (source.scale, destination.scale) {
            (Some(sender), Some(other)) if segment.flags & SYN == 0 => (sender, other),
            _ => (0, 0),
        };
        Self { window: segment.window.into(), source_scale, destination_scale }
    }
}

/// The first segment of an end, up to the sequence number `end`: it says where the end's window
/// begins.
fn first_of(source: &mut Peer, destination: &mut Peer, segment: &Segment, end: u32) -> Offer {
    let mut offer = Offer::new(source, destination, segment);
    if segment.flags & SYN != 0
        && let Some(scale) = destination.scale
    {
        source.scale = segment.scale;
        if let Some(shift) = source.scale {
            offer.source_scale = shift;
            offer.window = unscaled(offer.window, shift);
            offer.destination_scale = scale;
        } else {
            destination.window_max = (destination.window_max << scale).min(WINDOW_MAX);
            destination.scale = None;
        }
    }
    source.low = segment.sequence;
    source.phase = source.phase.max(Phase::SynSent);
    let room = (destination.window_max << offer.destination_scale).max(1);
    let high = end.wrapping_add(room);
    if source.high == 1 || at_least(high, source.high) {
        source.high = high;
    }
    source.window_max = source.window_max.max(offer.window);
    offer
}

/// What a segment that fits moves.
struct Step {
    sequence: u32,
    end: u32,
    ack: u32,
    window: u32,
    source_scale: u8,
}

impl Step {
    fn slide(&self, source: &mut Peer, destination: &mut Peer) {
        debug_assert!(self.sequence == self.end || at_least(self.end, self.sequence));
        source.window_max = source.window_max.max(self.window);
        if above(self.end, source.low) {
            source.low = self.end;
        }
        let room = self.window << self.source_scale;
        if at_least(self.ack.wrapping_add(room), destination.high) {
            destination.high = self.ack.wrapping_add(room.max(1));
        }
    }
}

/// Moves the states on by flags; says whether the handshake is now complete. A connection that may
/// be seen from one side only is also followed.
fn advance(source: &mut Peer, destination: &mut Peer, flags: u8, is_one_sided: bool) -> bool {
    let mut is_established = false;
    if flags & SYN != 0 {
        source.phase = source.phase.max(Phase::SynSent);
    }
    if flags & FIN != 0 {
        source.phase = source.phase.max(Phase::Closing);
    }
    if flags & ACK != 0 {
        if destination.phase == Phase::SynSent {
            destination.phase = Phase::Established;
            is_established = source.phase == Phase::Established;
        } else if destination.phase == Phase::Closing {
            destination.phase = Phase::FinWait2;
        } else if is_one_sided {
            is_established = advance_alone(source, destination);
        }
    }
    if flags & RST != 0 {
        (source.phase, destination.phase) = (Phase::TimeWait, Phase::TimeWait);
    }
    is_established
}

/// What an ACK means where the other side may never be seen.
fn advance_alone(source: &mut Peer, destination: &mut Peer) -> bool {
    if source.phase == Phase::SynSent && destination.phase < Phase::SynSent {
        (source.phase, destination.phase) = (Phase::Established, Phase::Established);
        return true;
    }
    let is_unseen = destination.phase == Phase::Established && destination.low == 0;
    if source.phase == Phase::Closing && is_unseen {
        destination.phase = Phase::Closing;
    }
    false
}

/// Whether a segment would begin a connection anew that both ends have (`pf_test_state` of pf.c).
pub(super) fn is_challenged(source: &Peer, destination: &Peer, flags: u8) -> bool {
    flags & (SYN | ACK) == SYN
        && source.phase >= Phase::Established
        && destination.phase >= Phase::Established
}

/// `sloppy`: flags alone; says whether the connection is now established.
pub(super) fn track_sloppy(source: &mut Peer, destination: &mut Peer, flags: u8) -> bool {
    advance(source, destination, flags, true)
}

/// Whether a sequence number that an ICMP error quotes is one that `sender` may have sent.
pub(super) fn is_in_window(sender: &Peer, receiver: &Peer, sequence: u32) -> bool {
    let scale = match (sender.scale, receiver.scale) {
        (Some(_), Some(scale)) => scale,
        _ => 0,
    };
    let back = receiver.window_max << scale;
    at_least(sender.high, sequence) && at_least(sequence, sender.low.wrapping_sub(back))
}

//! Fragments: the first one of a packet decides, and the others follow it by addresses and
//! identification (RFC 8200, section 4.5), of IPv4 also by protocol (RFC 791), as if the packet had
//! been put together.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::dissect::{Dissected, Piece};
use super::key::Key;
use crate::outcome::{DropReason, Outcome};

type FragmentKey = (IpAddr, IpAddr, u32, u8);

/// What the first fragment of a packet has decided for the later ones.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    pub(super) outcome: Outcome,
    /// What its state is found by, which counts the later fragments: that may be a state that came
    /// to be after the first one had passed without.
    pub(super) state: Key,
    /// It had one: `state` is its key inside, and else that of the packet as it came.
    pub(super) had_state: bool,
    /// The addresses that it left with.
    pub(super) ends: (IpAddr, IpAddr),
    /// Those that the box's own stack sees.
    pub(super) inside: (IpAddr, IpAddr),
}

/// A packet whose first fragment has passed.
#[derive(Debug, Clone)]
struct Flow {
    followed: Followed,
    pieces: Vec<(u32, u32)>,
    /// Size of the whole, once the last piece has been seen.
    total_bytes: Option<u32>,
    expires_ns: u64,
}

impl Flow {
    /// Enters a piece; `false` if it overlaps another.
    fn enter(&mut self, piece: Piece) -> bool {
        let (first, end) = (piece.offset_bytes, piece.offset_bytes + piece.size_bytes);
        let goes_over = self.total_bytes.is_some_and(|total| end > total);
        let overlaps = self.pieces.iter().any(|piece| first < piece.1 && piece.0 < end);
        let ends_early = !piece.more && self.pieces.iter().any(|piece| piece.1 > end);
        if goes_over || overlaps || ends_early || (!piece.more && self.total_bytes.is_some()) {
            return false;
        }
        if !piece.more {
            self.total_bytes = Some(end);
        }
        self.pieces.push((first, end));
        true
    }

    fn is_complete(&self) -> bool {
        let seen: u32 = self.pieces.iter().map(|piece| piece.1 - piece.0).sum();
        self.total_bytes == Some(seen)
    }
}

/// The packets that are on their way in pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct Fragments {
    flows: BTreeMap<FragmentKey, Flow>,
}

/// What becomes of a fragment.
pub(super) enum Fate {
    /// As its first one.
    Follows(Followed),
    /// It overlaps.
    Refused(DropReason),
    /// Its first one has not been seen.
    Unknown,
}

fn key(dissected: &Dissected, piece: Piece) -> FragmentKey {
    // A first fragment may have headers that the later ones do not show.
    let protocol = dissected.ip_protocol;
    (dissected.packet.source, dissected.packet.destination, piece.ident, protocol)
}

impl Fragments {
    pub(super) fn expire(&mut self, now_ns: u64) {
        self.flows.retain(|_, flow| flow.expires_ns > now_ns);
    }

    /// Looks a fragment up: also a first one, of which a second copy overlaps.
    pub(super) fn follow(&mut self, dissected: &Dissected, piece: Piece) -> Fate {
        let key = key(dissected, piece);
        let Some(flow) = self.flows.get_mut(&key) else {
            return Fate::Unknown;
        };
        if !flow.enter(piece) {
            return Fate::Refused(DropReason::Fragment);
        }
        let fate = Fate::Follows(flow.followed.clone());
        if flow.is_complete() {
            self.flows.remove(&key);
        }
        fate
    }

    pub(super) fn is_full(&self, limit: u32) -> bool {
        self.flows.len() >= limit as usize
    }

    /// Enters the first fragment of a packet, which has passed.
    pub(super) fn open(
        &mut self,
        dissected: &Dissected,
        piece: Piece,
        followed: Followed,
        expires_ns: u64,
    ) {
        let mut flow = Flow { followed, pieces: Vec::new(), total_bytes: None, expires_ns };
        flow.enter(piece);
        self.flows.insert(key(dissected, piece), flow);
    }
}

//! Ends states whose time is over.
//!
//! As pf, every state is looked at once in each `interval` (10 s by default), but at least every
//! half a minute: next hops whose generation has long passed are forgotten on the way, before its
//! number comes again. The work is spread over that time in pieces of a tenth of a second, so that
//! no CPU is taken away from packets for long; an empty table costs nothing. Sources without states
//! are looked for as often, and so are routes that are kept beside, where nothing is filtered, in
//! one piece. What programs have seen of interfaces is told, and gateways are asked for, on the
//! way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::control;
use weir_bpf::firewall::sweep::Mode;

use super::sync;
use crate::engine;
use crate::shared::Shared;

/// Between two pieces.
const PIECE: Duration = Duration::from_millis(100);
const PIECES_PER_SECOND: u32 = 10;
/// Between two questions to gateways: the kernel soon forgets neighbours to whom it sends nothing.
const GATEWAY_INTERVAL_S: u32 = 10;
/// A generation's number comes again after 65,535 changes of routes; see `sweep.h`.
const INTERVAL_MAX_S: u32 = 30;

/// How many pieces the table is looked at in.
fn piece_count(interval_s: u32) -> u32 {
    interval_s.clamp(1, INTERVAL_MAX_S) * PIECES_PER_SECOND
}

/// Runs until the daemon stops.
pub(super) fn run(shared: &Arc<Shared>) {
    let firewall = Arc::clone(shared.engine().firewall());
    // Before anything expires.
    sync::end_left(shared);
    let (mut from, mut piece, mut has_failed) = (0, 0_u32, false);
    let mut interval_s = 1;
    while !shared.stop.wait(PIECE) {
        if piece.is_multiple_of(PIECES_PER_SECOND) {
            let mut engine = shared.engine();
            interval_s = engine.interval_s();
            engine.reap();
            engine.release_scrubs();
            let notes = engine.note_partial();
            drop(engine);
            for note in &notes {
                shared.messages.tell(note);
            }
        }
        if piece.is_multiple_of(GATEWAY_INTERVAL_S * PIECES_PER_SECOND) {
            shared.engine().ask_gateways();
        }
        if piece.is_multiple_of(INTERVAL_MAX_S * PIECES_PER_SECOND) {
            engine::forget_routes(&firewall);
        }
        let pieces = piece_count(interval_s);
        let sources = if piece.is_multiple_of(pieces) { firewall.expire_sources() } else { Ok(0) };
        piece = piece.wrapping_add(1);
        match sources.and_then(|_| expire(&firewall, from, pieces)) {
            Ok(next) => (from, has_failed) = (next, false),
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    shared.messages.tell(&format!("states cannot be expired: {error}"));
                }
            }
        }
    }
}

/// Looks at the states of one piece, which begins at bucket `from`; gives where the next one does.
fn expire(firewall: &Firewall, from: u32, pieces: u32) -> io::Result<u32> {
    if firewall.arena().read64(control::STATE_COUNT) == 0 {
        return Ok(0);
    }
    // The index may grow and shrink meanwhile: what is missed is looked at in the next round.
    let bucket_count = firewall.bucket_count();
    let to = bucket_count.min(from + bucket_count.div_ceil(pieces));
    firewall.sweep(Mode::Expire, from..to)?;
    Ok(if to >= bucket_count { 0 } else { to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_gone_through_in_time() {
        assert_eq!((piece_count(10), piece_count(1)), (100, 10));
        assert_eq!((piece_count(0), piece_count(u32::MAX)), (10, 300));
    }
}

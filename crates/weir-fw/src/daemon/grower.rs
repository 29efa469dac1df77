//! Has the state table follow the number of states: memory for its slots, and buckets of its index.
//!
//! A hundred times a second it looks at a few counters, and does nothing if they have not changed
//! much. It never waits for the engine, which may be busy with a large ruleset while states come,
//! nor for packets: where those take all of a CPU, states would be refused for lack of memory that
//! is there. So that packets do not wait for it either, it works in bits of a few hundred
//! microseconds, and rests after each: a ring of 256 packets overflows in less than a millisecond.
//! What is not urgent it does in a quarter of its time at most, what is urgent in half of it.
//! Memory only ever grows: what was taken stays taken, for as many states again. A bulk of another
//! firewall says how many states come: the index is there before them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{Slots, control};

use crate::limits::OVERFLOW_COUNT_SPARE;
use crate::shared::Shared;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Between two looks after the system has refused something.
const REFUSED: Duration = Duration::from_secs(1);
/// Buckets for each state that the index grows to: then 12 of 100 are not the first of theirs.
const GROW: u64 = 4;
/// Fewer buckets for each state are urgent.
const URGENT: u64 = 1;
/// It rests so many times as long as what it did took: if that was urgent, and if not.
const REST_URGENT: u32 = 1;
const REST: u32 = 3;
/// Buckets for each state above which it shrinks, and those that it shrinks to.
const SHRINK: (u64, u64) = (16, 8);
/// The index changes by at least one in so many of its buckets.
const STEP_SHARE: u32 = 16;
/// Buckets that it changes by in one go, at most.
const STEP_COUNT_MAX: u32 = 1 << 10;
/// Slots get memory so many at a time, so that both their lines and their accounts fill pages: as
/// many as it takes about a tenth of a millisecond for.
const SLOTS_PER_EXTENSION: u32 = 1 << 10;
/// Of the slots besides that are in use, one in so many is kept ready.
const SPARE_SHARE: u32 = 8;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// States that are there, or that are about to come.
    state_count: u64,
    bucket_count: u32,
    bucket_floor: u32,
    /// Slots besides buckets that nothing is in.
    spare_count: u32,
    ready: Slots,
    allowed: Slots,
}

impl Seen {
    fn of(firewall: &Firewall, expected_count: u64) -> Self {
        let arena = firewall.arena();
        let (ready, used) = (firewall.ready(), arena.read32(control::FRESH_COUNT));
        let unused = ready.overflow_count.saturating_sub(used);
        Self {
            state_count: arena.read64(control::STATE_COUNT).max(expected_count),
            bucket_count: firewall.bucket_count(),
            bucket_floor: firewall.bucket_floor(),
            spare_count: unused.saturating_add(arena.read32(control::FREE_COUNT)),
            ready,
            allowed: firewall.allowed(),
        }
    }

    /// Slots besides buckets that are to have memory.
    fn overflow(&self) -> u32 {
        let in_use = self.ready.overflow_count.saturating_sub(self.spare_count);
        let spare = OVERFLOW_COUNT_SPARE.max(in_use / SPARE_SHARE);
        // Not for every handful that was taken.
        if self.spare_count >= spare - spare / 4 {
            return self.ready.overflow_count;
        }
        let limit = self.allowed.overflow_count.max(self.ready.overflow_count);
        self.ready.overflow_count.saturating_add(SLOTS_PER_EXTENSION).min(limit)
    }

    /// Buckets that there are to be.
    fn buckets(&self) -> u32 {
        let each_has =
            |each: u64| u32::try_from(self.state_count.saturating_mul(each)).unwrap_or(u32::MAX);
        // States above a limit that was lowered keep their buckets.
        let kept = self.bucket_count.min(each_has(GROW));
        let most = self.allowed.bucket_count.max(self.bucket_floor).max(kept);
        let of = |each: u64| each_has(each).clamp(self.bucket_floor, most);
        let (have, step) = (self.bucket_count, self.bucket_count / STEP_SHARE);
        let (least, too_many) = (of(GROW), of(SHRINK.0));
        if have < least && (least - have >= step || least == most) {
            least.min(have.saturating_add(STEP_COUNT_MAX))
        } else if have > too_many {
            of(SHRINK.1).max(have.saturating_sub(STEP_COUNT_MAX))
        } else {
            have
        }
    }
}

/// What one look was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// There was nothing to do.
    Nothing,
    /// More or less of what can wait.
    Leisure,
    /// Without it, states would be refused or slow.
    Urgent,
}

/// One look, when so many states are expected.
fn look(firewall: &Firewall, expected_count: u64) -> Result<Done, String> {
    let seen = Seen::of(firewall, expected_count);
    let overflow_count = seen.overflow();
    let is_short = overflow_count > seen.ready.overflow_count;
    if is_short {
        let slots = Slots { overflow_count, ..seen.ready };
        firewall.extend(slots).map_err(|error| error.to_string())?;
    }
    let bucket_count = seen.buckets();
    if bucket_count == seen.bucket_count {
        return Ok(if is_short { Done::Urgent } else { Done::Nothing });
    }
    if bucket_count > seen.ready.bucket_count {
        let most = seen.allowed.bucket_count.max(bucket_count);
        let slots = Slots {
            bucket_count: bucket_count.next_multiple_of(SLOTS_PER_EXTENSION).min(most),
            ..firewall.ready()
        };
        firewall.extend(slots).map_err(|error| error.to_string())?;
    }
    let reached = firewall.resize(bucket_count).map_err(|error| error.to_string())?;
    let is_crowded = u64::from(reached) < seen.state_count.saturating_mul(URGENT);
    Ok(match reached == bucket_count {
        _ if is_short => Done::Urgent,
        true if is_crowded => Done::Urgent,
        true => Done::Leisure,
        // Somebody holds the index still, or a lock: nothing is won by haste.
        false => Done::Nothing,
    })
}

/// Runs until the daemon stops.
pub(super) fn run(shared: &Arc<Shared>) {
    let firewall = Arc::clone(shared.engine().firewall());
    // Without the right to it, it waits its turn like everybody else.
    let _ = weir_bpf::priority::go_first();
    let (mut pause, mut has_failed) = (LOOK, false);
    while !shared.stop.wait(pause) {
        let begin = Instant::now();
        // An index that grew with the states of a bulk would split buckets that have many.
        let expected_count = shared.sessions.incoming.status().bulk_state_count;
        let done = look(&firewall, expected_count);
        has_failed &= done.is_err();
        pause = match done {
            Ok(Done::Urgent) => begin.elapsed() * REST_URGENT,
            Ok(Done::Leisure) => begin.elapsed() * REST,
            Ok(Done::Nothing) => LOOK,
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    let message = format!("the state table cannot follow its states: {error}");
                    shared.messages.tell(&message);
                }
                REFUSED
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: u32 = 1 << 15;

    fn seen(state_count: u64, bucket_count: u32) -> Seen {
        Seen {
            state_count,
            bucket_count,
            bucket_floor: FLOOR,
            spare_count: OVERFLOW_COUNT_SPARE,
            ready: Slots { bucket_count, overflow_count: OVERFLOW_COUNT_SPARE },
            allowed: Slots { bucket_count: 1 << 23, overflow_count: 4_000_000 },
        }
    }

    #[test]
    fn the_index_follows_the_states_with_hysteresis() {
        for (states, buckets, next) in [
            (0, FLOOR, FLOOR),
            (8_000, FLOOR, FLOOR),
            (9_000, FLOOR, FLOOR + STEP_COUNT_MAX),
            (8_300, FLOOR, FLOOR),
            (10_000, 40_000, 40_000),
            (2_600, 40_000, 40_000),
            (2_400, 40_000, 40_000 - STEP_COUNT_MAX),
            (10_000, 200_000, 200_000 - STEP_COUNT_MAX),
            (1_000_000, 1 << 20, (1 << 20) + STEP_COUNT_MAX),
            (9_999_999, (1 << 23) - 5, 1 << 23),
            (10_000_000, 1 << 23, 1 << 23),
            (1, 1 << 23, (1 << 23) - STEP_COUNT_MAX),
        ] {
            assert_eq!(seen(states, buckets).buckets(), next, "{states} states, {buckets} buckets");
        }
        let mut lowered = seen(40_000, 160_000);
        lowered.allowed.bucket_count = 64;
        assert_eq!(lowered.buckets(), 160_000, "states above a lowered limit keep their buckets");
        assert_eq!(Seen { state_count: 39_000, ..lowered }.buckets(), 160_000 - STEP_COUNT_MAX);
        assert_eq!(Seen { state_count: 100, ..lowered }.buckets(), 160_000 - STEP_COUNT_MAX);
        let mut fixed = Seen { bucket_floor: 1 << 10, ..seen(1_000_000, 1 << 10) };
        fixed.allowed.bucket_count = 1 << 10;
        assert_eq!(fixed.buckets(), 1 << 10);
        assert_eq!(Seen { state_count: 0, ..fixed }.buckets(), 1 << 10);
    }

    #[test]
    fn slots_are_ready_before_they_are_needed() {
        let now = seen(0, FLOOR);
        assert_eq!(now.overflow(), now.ready.overflow_count);
        let used = Seen { spare_count: OVERFLOW_COUNT_SPARE / 2, ..now };
        assert_eq!(used.overflow(), OVERFLOW_COUNT_SPARE + SLOTS_PER_EXTENSION);
        let many = Slots { overflow_count: 3_999_000, ..now.ready };
        let full = Seen { ready: many, spare_count: 10, ..now };
        assert_eq!(full.overflow(), 4_000_000, "no more than the limit allows");
        let lowered = Seen { allowed: Slots { overflow_count: 100, ..full.allowed }, ..full };
        assert_eq!(lowered.overflow(), 3_999_000, "what is there stays");
    }
}

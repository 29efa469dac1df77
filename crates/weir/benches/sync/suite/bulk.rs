//! All states of a firewall go to one that has none.

use std::io::Write as _;
use std::time::{Duration, Instant};

use weir_fw::protocol::{Client, Names, SyncDirection};
use weir_fw::sync::stream::{self, Mark, Session};
use weir_fw::sync::{self, State};
use weir_machine::cancel::Cancel;

use super::bed::{Bed, Flows};
use super::boxes::{FIRST, SECOND, status};
use super::{Result, Settings, wait_until};

/// States whose bytes are made at a time.
const PIECE: usize = 10_000;

/// How long it takes from the start of `weir fw sync to` until the other firewall has them all.
pub(super) fn send(settings: &Settings, cancel: &Cancel) -> Result<Duration> {
    let bed = Bed::new(settings, u64::from(settings.state_count) + 1000)?;
    fill(&bed, Flows::Connections.states(settings.state_count), cancel)?;
    let _serving = bed.serve(SECOND)?;
    let begin = Instant::now();
    let _sending = bed.send(FIRST)?;
    wait_until("a bulk", cancel, || {
        let incoming = status(bed.netns(SECOND))?.incoming;
        let out = status(bed.netns(FIRST))?.out;
        Ok(incoming.bulk_count > 0 && out.unacknowledged_count == 0)
    })?;
    let took = begin.elapsed();
    let found = status(bed.netns(SECOND))?.incoming.inserted_count;
    if found < settings.state_count.into() {
        return Err(format!("{found} of {} states have come", settings.state_count).into());
    }
    Ok(took)
}

/// Gives the first firewall states, as another firewall would that ends then.
pub(super) fn fill(
    bed: &Bed,
    states: impl ExactSizeIterator<Item = State>,
    cancel: &Cancel,
) -> Result<()> {
    let netns = bed.netns(FIRST);
    let direction = SyncDirection::In { interfaces: Names::new(), defers: false };
    let mut session = netns.run(|| -> Result<_> { Ok(Client::connect()?.sync(direction)?) })??;
    let mut bytes = Vec::new();
    sync::put_header(&mut bytes);
    stream::put_session(&mut bytes, Session { id: 1, table: 1 });
    let record_count = u32::try_from(states.len())?;
    for (number, state) in states.enumerate() {
        sync::put_state(&mut bytes, &state);
        if number % PIECE == PIECE - 1 {
            session.write_all(&bytes)?;
            bytes.clear();
        }
    }
    stream::put_mark(&mut bytes, Mark { sequence: 1, sent_ms: 0, record_count });
    session.write_all(&bytes)?;
    wait_until("states", cancel, || Ok(status(netns)?.incoming.sequence == 1))?;
    drop(session);
    wait_until("the end of a session", cancel, || Ok(!status(netns)?.incoming.is_live))
}

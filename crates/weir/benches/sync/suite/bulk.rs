//! All states of a firewall go to one that has none.

use std::io::Write as _;
use std::time::{Duration, Instant};

use weir_fw::protocol::{Client, Names, SyncDirection};
use weir_fw::sync::stream::{self, Mark, Session};
use weir_fw::sync::{self, Half, Peer, State};
use weir_machine::cancel::Cancel;

use super::bed::Bed;
use super::boxes::{FIRST, SECOND, status};
use super::{Result, Settings, wait_until};

/// States whose bytes are made at a time.
const PIECE: u32 = 10_000;

/// How long it takes from the start of `weir fw sync to` until the other firewall has them all.
pub(super) fn send(settings: &Settings, cancel: &Cancel) -> Result<Duration> {
    let bed = Bed::new(settings, u64::from(settings.state_count) + 1000)?;
    fill(&bed, settings.state_count, cancel)?;
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

/// Gives the first firewall states of established connections, as another firewall would that ends
/// then.
fn fill(bed: &Bed, count: u32, cancel: &Cancel) -> Result<()> {
    let netns = bed.netns(FIRST);
    let direction = SyncDirection::In(Names::new());
    let mut session = netns.run(|| -> Result<_> { Ok(Client::connect()?.sync(direction)?) })??;
    let mut bytes = Vec::new();
    sync::put_header(&mut bytes);
    stream::put_session(&mut bytes, Session { id: 1, table: 1 });
    for number in 0..count {
        sync::put_state(&mut bytes, &state(number));
        if number % PIECE == PIECE - 1 {
            session.write_all(&bytes)?;
            bytes.clear();
        }
    }
    stream::put_mark(&mut bytes, Mark { sequence: 1, sent_ms: 0, record_count: count });
    session.write_all(&bytes)?;
    wait_until("states", cancel, || Ok(status(netns)?.incoming.sequence == 1))?;
    drop(session);
    wait_until("the end of a session", cancel, || Ok(!status(netns)?.incoming.is_live))
}

fn state(number: u32) -> State {
    let [_, a, b, c] = number.to_be_bytes();
    let peer = Peer { phase: 4, wscale: 0, max_win: 1000, seq: [1, 1000] };
    State {
        protocol: 6,
        flags: sync::CONNECTED,
        ends: [([10, a, b, c].into(), 1000), ([192, 0, 2, 1].into(), 80)],
        peers: [peer; 2],
        halves: [Half { flags: sync::PRESENT, ..Half::default() }, Half::default()],
        packets: [2; 2],
        bytes: [120; 2],
        age_ms: 1000,
        remaining_ms: 3_600_000,
        idle_ms: 1000,
    }
}

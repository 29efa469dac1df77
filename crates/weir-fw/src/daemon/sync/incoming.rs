//! States that come from another firewall: they are made, updated and ended as it says, in its
//! order, and what was taken in is acknowledged.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{self, control};
use weir_bpf::firewall::restore::{Import, Outcome, Restored};
use weir_bpf::firewall::sweep::Mode;

use super::deferred::{self, Deferring};
use super::pipe::Pipe;
use super::{Failure, SILENCE};
use crate::engine::{Exchanged, Meaning, SyncCounters, leave_out, now_tick, ticks};
use crate::protocol::{Names, SyncInStatus};
use crate::sessions::Sender;
use crate::shared::Shared;
use crate::states::View;
use crate::sync::stream::{self, Decoder, Item, Key, Mark, Session};
use crate::sync::{self, Record};

/// How long it waits for bytes before it looks whether the daemon ends.
const POLL: Duration = Duration::from_millis(200);
/// Rules and interfaces are looked at so often, and whenever a ruleset is loaded.
const SECOND: Duration = Duration::from_secs(1);
/// Records that are taken in at once.
const BATCH: usize = 256;
/// Whoever reads no acknowledgements is left with so many bytes of them.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// States of which the other firewall hears once more, at a time: more than that change firewalls
/// by a bulk.
const CONTESTED_MAX: usize = 1 << 16;
/// How often a bucket's lock, or memory, is asked for.
const TRIES: u32 = 8;

struct Receiver<'a> {
    shared: &'a Shared,
    firewall: Arc<Firewall>,
    counters: Arc<SyncCounters>,
    interfaces: &'a Names,
    meaning: Meaning,
    active: u32,
    renewed: Instant,
    pipe: Pipe<'a>,
    decoder: Decoder,
    session: Option<Session>,
    is_odd: bool,
    /// When the last mark came.
    marked: Instant,
    /// When the bulk began that is under way.
    bulk_tick: u32,
    /// What has come and is to be taken in.
    batch: Vec<Item>,
    /// What the other firewall has sent of which the last packet came here: when, and which. Unless
    /// it hears of that, both would have it, and the one that gets no more packets of it would not
    /// know where its connection is.
    contested: VecDeque<(Instant, Key)>,
    deferring: &'a Deferring,
    status: SyncInStatus,
}

/// Has answers wait no more when it is dropped.
struct Over<'a>(&'a Deferring);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// Takes states in until the other side or the daemon ends.
pub(super) fn run(
    shared: &Arc<Shared>,
    interfaces: &Names,
    defers: bool,
    stream: &UnixStream,
    first: &[u8],
) -> Result<(), Failure> {
    let deferring = Deferring::default();
    let mut receiver =
        Receiver::new(shared, interfaces, stream, &deferring).map_err(|error| error.to_string())?;
    receiver.decoder.push(first);
    receiver.publish();
    let firewall = Arc::clone(&receiver.firewall);
    let ended = std::thread::scope(|scope| {
        if defers {
            scope.spawn(|| deferred::run(shared, &firewall, &deferring));
        }
        let _over = Over(&deferring);
        receiver.serve()
    });
    let left = receiver.leave();
    receiver.status.is_live = false;
    (receiver.status.is_bulk, receiver.status.bulk_state_count) = (false, 0);
    receiver.publish();
    ended.and(left)
}

impl<'a> Receiver<'a> {
    fn new(
        shared: &'a Shared,
        interfaces: &'a Names,
        stream: &'a UnixStream,
        deferring: &'a Deferring,
    ) -> std::io::Result<Self> {
        let (firewall, meaning, counters) = {
            let engine = shared.engine();
            let counters = Arc::clone(engine.sync_counters());
            (Arc::clone(engine.firewall()), engine.meaning(interfaces), counters)
        };
        let session_count = shared.sessions.incoming.status().session_count + 1;
        let status = SyncInStatus { is_live: true, session_count, ..SyncInStatus::default() };
        let mut receiver = Self {
            shared,
            active: firewall.arena().read32(control::ACTIVE),
            is_odd: firewall.arena().read32(control::SYNC_IN) & layout::SYNC_IN_ODD != 0,
            firewall,
            counters,
            interfaces,
            meaning,
            renewed: Instant::now(),
            pipe: Pipe::new(stream)?,
            decoder: Decoder::new(),
            session: None,
            marked: Instant::now(),
            bulk_tick: 0,
            batch: Vec::new(),
            contested: VecDeque::new(),
            deferring,
            status,
        };
        sync::put_header(receiver.pipe.out());
        Ok(receiver)
    }

    fn serve(&mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| error.to_string();
        let mut is_open = true;
        while !self.shared.stop.is_requested() {
            while let Some(item) = self.decoder.next_item().map_err(|error| error.to_string())? {
                self.take(item)?;
            }
            self.flush()?;
            match self.pipe.write() {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
            self.publish();
            if !is_open {
                let is_cut = self.decoder.is_in_a_record();
                return if is_cut { Err("it was cut in a record".to_owned()) } else { Ok(()) };
            }
            if self.pipe.waiting_bytes() > WAITING_BYTES_MAX {
                return Err("the other side reads no acknowledgements".to_owned());
            }
            self.pipe.wait(POLL);
            self.renew();
            self.tell()?;
            let read = self.pipe.read().map_err(failed)?;
            is_open = read.is_some();
            let read = read.unwrap_or_default();
            if read.is_empty() && is_open && self.marked.elapsed() >= SILENCE {
                return Err(format!("no mark came for {} s", SILENCE.as_secs()));
            }
            self.decoder.push(read);
        }
        Ok(())
    }

    /// Has the other firewall hear of what is contested. That waits a while, as packets may come to
    /// both of them.
    fn tell(&mut self) -> Result<(), Failure> {
        let is_due = |contested: &&(Instant, Key)| contested.0.elapsed() >= SECOND;
        let count = self.contested.iter().take(BATCH).take_while(is_due).count();
        let tell =
            |(_, key): (Instant, Key)| Import::Tell { ends: key.ends, protocol: key.protocol };
        let imports: Vec<Import> = self.contested.drain(..count).map(tell).collect();
        self.firewall.import(&imports, self.is_odd).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Rules and interfaces may have other numbers by now.
    fn renew(&mut self) {
        let active = self.firewall.arena().read32(control::ACTIVE);
        if active == self.active && self.renewed.elapsed() < SECOND {
            return;
        }
        let mut meaning = self.shared.engine().meaning(self.interfaces);
        std::mem::swap(&mut meaning, &mut self.meaning);
        self.meaning.rename(meaning);
        (self.active, self.renewed) = (active, Instant::now());
    }

    fn take(&mut self, item: Item) -> Result<(), Failure> {
        if self.session.is_none() && !matches!(item, Item::Session(_)) {
            return Err("the other side does not say who it is".to_owned());
        }
        match item {
            Item::Session(session) if self.session.is_none() => {
                self.session = Some(session);
                self.status.session_id = session.id;
            }
            Item::Session(_) => return Err("a session begins in another one".to_owned()),
            Item::Record(Record::Name { kind, number, name }) => {
                self.flush()?;
                self.meaning.name(kind, number, name);
            }
            Item::Record(Record::State(_)) => self.add(item)?,
            Item::Record(Record::Unknown(_) | Record::End { .. }) => {
                self.status.skipped_count += 1;
                self.counters.add(Exchanged::Skipped, 1);
            }
            Item::Gone(_) => self.add(item)?,
            Item::Mark(mark) => self.acknowledge(mark)?,
            Item::BulkBegin(state_count) => self.begin_bulk(state_count)?,
            Item::BulkEnd(_) => self.end_bulk()?,
            Item::Acknowledgement(_) => {
                return Err("the other side acknowledges what was not sent".to_owned());
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, reason: String) {
        leave_out(&mut self.status.left_out, reason);
        self.counters.add(Exchanged::LeftOut, 1);
    }

    fn add(&mut self, item: Item) -> Result<(), Failure> {
        self.batch.push(item);
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// What has come in this firewall's numbers, and of each whether it has lost its rule: `None`
    /// once it is counted.
    fn imports(&mut self) -> (Vec<Import>, Vec<Option<bool>>) {
        let mut items = std::mem::take(&mut self.batch);
        let (mut imports, mut losses) = (Vec::new(), Vec::new());
        if items.is_empty() {
            return (imports, losses);
        }
        let firewall = Arc::clone(&self.firewall);
        let (view, now) = (View::new(&firewall), now_tick(&firewall));
        imports.reserve(items.len());
        for item in items.drain(..) {
            match item {
                Item::Record(Record::State(state)) => {
                    match self.meaning.state(&view, &state, now) {
                        Ok((request, lost_rule)) => {
                            let import = if state.idle_ms == sync::SECOND_HAND {
                                Import::SecondHand(request)
                            } else {
                                // Whatever timeouts the other firewall has. It is rounded down.
                                let last_tick = now.wrapping_sub(ticks(state.idle_ms) + 1);
                                Import::State(Restored { last_tick, ..request })
                            };
                            imports.push(import);
                            losses.push(Some(lost_rule));
                        }
                        Err(reason) => self.leave_out(reason),
                    }
                }
                Item::Gone(key) => {
                    imports.push(Import::Gone { ends: key.ends, protocol: key.protocol });
                    losses.push(Some(false));
                }
                _ => {}
            }
        }
        // Its memory is there for what comes next.
        self.batch = items;
        (imports, losses)
    }

    /// Takes in what has come, in its order.
    fn flush(&mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| error.to_string();
        let (imports, mut losses) = self.imports();
        let (mut rest, mut losses, mut tries) = (&imports[..], &mut losses[..], 0);
        while !rest.is_empty() {
            let outcomes = self.firewall.import(rest, self.is_odd).map_err(failed)?;
            let is_late = |outcome: &Outcome| matches!(outcome, Outcome::Memory | Outcome::Busy);
            // What follows that is taken in once more: what was said last is what counts. But what
            // became of it is counted now.
            let done = outcomes.iter().position(is_late).unwrap_or(outcomes.len());
            for (outcome, (import, lost_rule)) in
                outcomes.iter().zip(rest.iter().zip(losses.iter_mut()))
            {
                if is_late(outcome) {
                    continue;
                }
                let Some(lost_rule) = lost_rule.take() else { continue };
                self.count(*outcome, lost_rule);
                if let (Outcome::Present, Import::State(state)) = (outcome, import) {
                    self.contest(Key { protocol: state.protocol, ends: state.ends });
                }
            }
            if done > 0 {
                tries = 0;
            }
            (rest, losses) = (&rest[done..], &mut losses[done..]);
            if rest.is_empty() {
                break;
            }
            if outcomes[done] == Outcome::Memory {
                self.shared.engine().extend_slots().map_err(|error| error.to_string())?;
            }
            tries += 1;
            if tries > TRIES {
                self.leave_out("there was no room for them".to_owned());
                (rest, losses, tries) = (&rest[1..], &mut losses[1..], 0);
            }
        }
        Ok(())
    }

    fn contest(&mut self, key: Key) {
        if !self.status.is_bulk && self.contested.len() < CONTESTED_MAX {
            self.contested.push_back((Instant::now(), key));
        }
    }

    fn count(&mut self, outcome: Outcome, lost_rule: bool) {
        let (field, counter) = match outcome {
            Outcome::Made => {
                self.status.default_rule_count += u64::from(lost_rule);
                (&mut self.status.inserted_count, Some(Exchanged::Inserts))
            }
            Outcome::Updated => (&mut self.status.updated_count, Some(Exchanged::Updates)),
            Outcome::Ended => (&mut self.status.deleted_count, Some(Exchanged::Deletes)),
            Outcome::Present => (&mut self.status.present_count, Some(Exchanged::Present)),
            Outcome::Absent => (&mut self.status.absent_count, None),
            Outcome::Limit | Outcome::Memory | Outcome::Busy => {
                return self.leave_out("set limit states is reached".to_owned());
            }
        };
        *field += 1;
        if let Some(counter) = counter {
            self.counters.add(counter, 1);
        }
    }

    fn acknowledge(&mut self, mark: Mark) -> Result<(), Failure> {
        if mark.sequence != self.status.sequence + 1 {
            return Err(format!("mark {} is not the next one", mark.sequence));
        }
        self.flush()?;
        (self.status.sequence, self.marked) = (mark.sequence, Instant::now());
        let now_ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
        self.status.lag_ms = now_ms.saturating_sub(mark.sent_ms);
        stream::put_acknowledgement(self.pipe.out(), mark.sequence);
        Ok(())
    }

    /// All states follow: those of before are known by not being of this bulk. The index grows to
    /// what they need from now on (`grower.rs`).
    fn begin_bulk(&mut self, state_count: u64) -> Result<(), Failure> {
        if self.status.is_bulk {
            return Err("a bulk begins in another one".to_owned());
        }
        self.flush()?;
        self.is_odd = !self.is_odd;
        (self.status.is_bulk, self.status.bulk_state_count) = (true, state_count);
        self.publish();
        self.bulk_tick = now_tick(&self.firewall);
        self.firewall.keep_imported(true, self.is_odd, true);
        Ok(())
    }

    /// What the bulk has not brought ends, or becomes this firewall's.
    fn end_bulk(&mut self) -> Result<(), Failure> {
        if !self.status.is_bulk {
            return Err("a bulk ends that has not begun".to_owned());
        }
        self.flush()?;
        let idle_since = if self.status.bulk_count > 0 {
            Some(self.bulk_tick)
        } else {
            let last = *self.last_sender();
            let is_same =
                |sender: &Sender| self.session.is_some_and(|session| session.table == sender.table);
            last.filter(is_same).map(|sender| sender.ended_tick)
        };
        let swept = self.firewall.sweep_all(Mode::Forget { idle_since });
        let swept = swept.map_err(|error| error.to_string())?;
        self.status.deleted_count += swept.removed_count;
        self.counters.add(Exchanged::Deletes, swept.removed_count);
        self.firewall.keep_imported(true, self.is_odd, false);
        (self.status.is_bulk, self.status.bulk_state_count) = (false, 0);
        self.status.bulk_count += 1;
        Ok(())
    }

    fn last_sender(&self) -> std::sync::MutexGuard<'_, Option<Sender>> {
        self.shared.sessions.last_sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was sent lives on by its timeouts.
    fn leave(&self) -> Result<(), Failure> {
        let Some(session) = self.session else { return Ok(()) };
        let stamped = self.firewall.sweep_all(Mode::Stamp);
        self.firewall.keep_imported(false, self.is_odd, false);
        let ended_tick = now_tick(&self.firewall);
        *self.last_sender() = Some(Sender { table: session.table, ended_tick });
        stamped.map(drop).map_err(|error| error.to_string())
    }

    fn publish(&mut self) {
        self.status.is_deferring = self.deferring.is_live.load(Ordering::Acquire);
        self.shared.sessions.incoming.status().clone_from(&self.status);
    }
}

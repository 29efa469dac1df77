//! States that go to another firewall: what has changed, all that are there where a bulk is under
//! way, and the ends of those that were sent.
//!
//! Copies and ends come by one ring, in the order in which they happened to each state. Nothing is
//! read from it as long as the other side does not read what was sent before: then changes stay
//! marked, and ends that find no room are counted, after which everything is sent once more.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_bpf::firewall::copies::SLOTS_MAX;
use weir_bpf::firewall::layout::{self, control};
use weir_bpf::firewall::{EventReader, Firewall};

use super::pipe::Pipe;
use super::scan::{Bulk, Scanner};
use super::{Failure, SILENCE};
use crate::engine::{Exchanged, STALE, StatesStorer, SyncCounters, leave_out, now_tick};
use crate::protocol::SyncOutStatus;
use crate::shared::Shared;
use crate::states::{Change, Record, View, change};
use crate::sync::stream::{self, Decoder, Item, Key, Mark, Session};
use crate::sync::{self, State};

/// Between two looks, if nothing is to be done; and at least so many times what a look costs.
const LOOK: Duration = Duration::from_millis(20);
/// The same where the other firewall may have an answer that waits for its state.
const DEFERRED_LOOK: Duration = Duration::from_millis(1);
const LOOK_FACTOR: u32 = 9;
/// Marks come at least so often, and what numbers stand for is looked at.
const SECOND: Duration = Duration::from_secs(1);
/// With so much unwritten nothing is added.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Slots of a bulk, and changes, between two looks at the other side.
const BULK_SLOTS: usize = 4 * SLOTS_MAX;
const CHANGES_MAX: usize = 16 * SLOTS_MAX;
/// How often slots are copied whose bucket could not be had.
const TRIES: u32 = 8;

/// Why states stay here that the other firewall never gets.
const THEIRS: &str = "the other firewall has sent them";
const NO_SYNC: &str = "their rules say no-sync";

/// A mark that is not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Pending {
    sequence: u64,
    record_count: u32,
    made: Instant,
    /// Nothing before it has changed earlier.
    since: Instant,
    has_changes: bool,
}

struct Sender<'a> {
    shared: &'a Shared,
    firewall: Arc<Firewall>,
    counters: Arc<SyncCounters>,
    storer: StatesStorer,
    active: u32,
    renewed: Instant,
    reader: EventReader,
    pipe: Pipe<'a>,
    decoder: Decoder,
    scanner: Scanner,
    /// Between two looks.
    pause: Duration,
    bulk: Option<Bulk>,
    /// Ends were lost, of which only a bulk that begins after that tells.
    is_bulk_due: bool,
    /// All slots of the bulk are passed: it ends once what has changed meanwhile is sent.
    is_bulk_passed: bool,
    bulk_count: u64,
    lost_count: u64,
    pending: VecDeque<Pending>,
    /// Since the last mark.
    record_count: u32,
    has_changes: bool,
    marked: Instant,
    /// When the last look began that has found all changes before.
    looked: Instant,
    /// When changes are looked for again, which reads all hints.
    due: Instant,
    status: SyncOutStatus,
    /// Of the status a second ago: records and bytes.
    before: (Instant, u64, u64),
}

/// Sends until the other side or the daemon ends.
pub(super) fn run(
    shared: &Arc<Shared>,
    defers: bool,
    stream: &UnixStream,
    first: &[u8],
) -> Result<(), Failure> {
    let mut sender = Sender::new(shared, defers, stream).map_err(|error| error.to_string())?;
    sender.decoder.push(first);
    sender.publish();
    let ended = sender.serve();
    sender.firewall.tell_changes(false, false);
    sender.status.is_live = false;
    sender.status.bulk_percent = None;
    // Whoever gets them next gets all.
    sender.pending.clear();
    sender.publish();
    ended
}

impl<'a> Sender<'a> {
    fn new(shared: &'a Shared, defers: bool, stream: &'a UnixStream) -> std::io::Result<Self> {
        let (firewall, storer, counters) = {
            let engine = shared.engine();
            let counters = Arc::clone(engine.sync_counters());
            (Arc::clone(engine.firewall()), engine.states_storer(), counters)
        };
        let now = Instant::now();
        let session = Session {
            id: u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0),
            table: firewall.arena().read64(control::STARTED_NS),
        };
        let session_count = shared.sessions.out.status().session_count + 1;
        let status = SyncOutStatus {
            is_live: true,
            session_count,
            session_id: session.id,
            ..SyncOutStatus::default()
        };
        let mut reader = firewall.change_reader()?;
        // Of the session before.
        drop(reader.read(Duration::ZERO)?);
        let mut sender = Self {
            shared,
            active: firewall.arena().read32(control::ACTIVE),
            lost_count: firewall.lost_ends(),
            firewall,
            counters,
            storer,
            renewed: now,
            reader,
            pipe: Pipe::new(stream)?,
            decoder: Decoder::new(),
            scanner: Scanner::new(defers),
            pause: if defers { DEFERRED_LOOK } else { LOOK },
            bulk: None,
            is_bulk_due: false,
            is_bulk_passed: false,
            bulk_count: 0,
            pending: VecDeque::new(),
            record_count: 0,
            has_changes: false,
            marked: now,
            looked: now,
            due: now,
            status,
            before: (now, 0, 0),
        };
        sync::put_header(sender.pipe.out());
        stream::put_session(sender.pipe.out(), session);
        sender.storer.put_names(sender.pipe.out());
        sender.begin_bulk();
        Ok(sender)
    }

    fn serve(&mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| error.to_string();
        while !self.shared.stop.is_requested() {
            if !self.listen()? {
                return Ok(());
            }
            self.renew();
            let mut is_busy = false;
            if self.pipe.waiting_bytes() < WAITING_BYTES_MAX {
                is_busy = self.look().map_err(failed)?;
            }
            match self.pipe.write() {
                Ok(size) => self.note_written(size),
                // Whoever has carried it is gone.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
            self.publish();
            let is_full = self.pipe.waiting_bytes() >= WAITING_BYTES_MAX;
            if !is_busy || is_full {
                let rest = self.due.saturating_duration_since(Instant::now());
                self.pipe.wait(if is_full { LOOK } else { rest.max(Duration::from_millis(1)) });
            }
        }
        Ok(())
    }

    /// Takes in what the other side says; false if it says no more.
    fn listen(&mut self) -> Result<bool, Failure> {
        let read = self.pipe.read().map_err(|error| error.to_string())?;
        let is_open = read.is_some();
        self.decoder.push(read.unwrap_or_default());
        while let Some(item) = self.decoder.next_item().map_err(|error| error.to_string())? {
            match item {
                Item::Acknowledgement(sequence) => self.acknowledge(sequence)?,
                Item::Record(sync::Record::Unknown(_)) => {
                    self.status.skipped_count += 1;
                    self.counters.add(Exchanged::Skipped, 1);
                }
                _ => return Err("the other side answers with states".to_owned()),
            }
        }
        let oldest = self.pending.front();
        if is_open && oldest.is_some_and(|mark| mark.made.elapsed() >= SILENCE) {
            return Err(format!("nothing was acknowledged for {} s", SILENCE.as_secs()));
        }
        Ok(is_open)
    }

    fn acknowledge(&mut self, sequence: u64) -> Result<(), Failure> {
        if sequence > self.status.sequence || sequence <= self.status.acknowledged_sequence {
            return Err(format!("the other side acknowledges {sequence}, which is not due"));
        }
        while let Some(mark) = self.pending.pop_front_if(|mark| mark.sequence <= sequence) {
            self.status.acknowledged_count += u64::from(mark.record_count);
        }
        self.status.acknowledged_sequence = sequence;
        Ok(())
    }

    /// Numbers may stand for something else by now.
    fn renew(&mut self) {
        let active = self.firewall.arena().read32(control::ACTIVE);
        if active == self.active && self.renewed.elapsed() < SECOND {
            return;
        }
        let storer = self.shared.engine().states_storer();
        // What waits in the ring has the numbers of before, or of now: names tell either.
        if !storer.has_names_of(&self.storer) {
            storer.put_names(self.pipe.out());
        }
        (self.storer, self.active, self.renewed) = (storer, active, Instant::now());
    }

    fn begin_bulk(&mut self) {
        // From here on what moves is marked.
        self.firewall.tell_changes(true, true);
        self.scanner.begin_bulk(&self.firewall);
        let state_count = self.firewall.arena().read64(control::STATE_COUNT);
        stream::put_bulk_begin(self.pipe.out(), state_count);
        (self.bulk, self.bulk_count, self.is_bulk_passed) = (Some(Bulk::new()), 0, false);
        self.is_bulk_due = false;
    }

    /// Sends what is due; whether more is.
    fn look(&mut self) -> std::io::Result<bool> {
        let began = Instant::now();
        let is_due = began >= self.due;
        if !is_due && self.bulk.is_none() {
            return Ok(false);
        }
        self.drain(true)?;
        let is_done = !is_due || self.changes()?;
        if is_done {
            self.bulk()?;
        }
        if self.record_count > 0 || self.marked.elapsed() >= SECOND {
            self.mark();
        }
        if is_due && is_done {
            self.looked = began;
        }
        Ok(!is_done || self.bulk.is_some())
    }

    /// Looks for what has changed, and sends it; whether that was all.
    fn changes(&mut self) -> std::io::Result<bool> {
        let lost_count = self.firewall.lost_ends();
        if lost_count != self.lost_count {
            (self.lost_count, self.is_bulk_due) = (lost_count, true);
        }
        // One that is under way comes to its end before: the other side knows only what is of this
        // bulk from what is of the one before.
        if self.is_bulk_due && self.bulk.is_none() {
            self.begin_bulk();
        }
        let due = self.scanner.look(&self.firewall, now_tick(&self.firewall), CHANGES_MAX);
        self.status.waiting_count = due.waiting_count;
        let is_all = due.slots.len() < CHANGES_MAX;
        let is_done = self.copy(&due.slots, false)? && is_all;
        if is_done {
            self.due = Instant::now() + self.pause.max(due.cost * LOOK_FACTOR);
            if self.is_bulk_passed {
                self.end_bulk();
            }
        }
        Ok(is_done)
    }

    /// Goes on with the bulk.
    fn bulk(&mut self) -> std::io::Result<()> {
        let Some(bulk) = &mut self.bulk else { return Ok(()) };
        let now = now_tick(&self.firewall);
        let slots = bulk.look(&self.firewall, now, BULK_SLOTS, &mut self.scanner);
        self.status.bulk_percent = Some(bulk.percent(&self.firewall));
        self.is_bulk_passed = slots.is_none();
        if self.is_bulk_passed {
            // What has changed meanwhile is all that it lacks.
            self.due = Instant::now();
        }
        self.copy(&slots.unwrap_or_default(), true).map(drop)
    }

    fn end_bulk(&mut self) {
        self.firewall.tell_changes(true, false);
        self.scanner.end_bulk();
        stream::put_bulk_end(self.pipe.out(), self.bulk_count);
        (self.bulk, self.is_bulk_passed) = (None, false);
        self.status.bulk_count += 1;
        self.status.bulk_percent = None;
        self.counters.add(Exchanged::SentBulks, 1);
    }

    /// Copies what stands in some slots, and sends it. False: not all of it was to be had, and the
    /// rest is found again.
    fn copy(&mut self, slots: &[u32], is_bulk: bool) -> std::io::Result<bool> {
        let (mut rest, mut tries) = (slots, 0);
        while !rest.is_empty() {
            let group = &rest[..rest.len().min(SLOTS_MAX)];
            let copied = self.firewall.copy(group, is_bulk)?;
            self.drain(!is_bulk)?;
            let is_missing = copied.busy_count > 0 && is_bulk && tries < TRIES;
            if is_missing || (copied.done_count == 0 && tries < TRIES) {
                tries += 1;
                continue;
            }
            if copied.busy_count > 0 || copied.done_count == 0 {
                self.scanner.put_back(group);
            }
            if copied.done_count == 0 {
                self.scanner.put_back(rest);
                return Ok(false);
            }
            (rest, tries) = (&rest[copied.done_count..], 0);
        }
        Ok(true)
    }

    /// Sends what is in the ring.
    fn drain(&mut self, are_changes: bool) -> std::io::Result<()> {
        let firewall = Arc::clone(&self.firewall);
        let events = self.reader.read(Duration::ZERO)?;
        if events.is_empty() {
            return Ok(());
        }
        let (view, now) = (View::new(&firewall), now_tick(&firewall));
        for event in events.iter().filter_map(|event| change(event)) {
            self.send(&view, &event, now, are_changes);
        }
        Ok(())
    }

    fn send(&mut self, view: &View<'_>, event: &Change, now: u32, is_change: bool) {
        let (record, is_gone) = match event {
            Change::Now(record) => (record, false),
            Change::Gone(record) => (record, true),
        };
        let state = self.judge(view, record, now);
        let has_copy = record.flags & layout::STATE_ACKED != 0;
        match state {
            Ok(state) if !is_gone => {
                sync::put_state(self.pipe.out(), &state);
                self.counters.add(Exchanged::SentStates, 1);
                self.bulk_count += u64::from(!is_change);
            }
            // Also of a state that was one to be sent, and is none any more.
            Err(reason) if !is_gone => {
                // It is not marked any more: all are sent once more, by the names of then.
                self.is_bulk_due |= reason == STALE;
                leave_out(&mut self.status.left_out, reason.to_owned());
                if !has_copy || [THEIRS, NO_SYNC].contains(&reason) {
                    return;
                }
                self.send_end(record);
            }
            Ok(_) => self.send_end(record),
            Err(_) => return,
        }
        self.record_count += 1;
        self.status.sent_count += 1;
        self.has_changes |= is_change || is_gone;
    }

    fn send_end(&mut self, record: &Record) {
        let key = Key { protocol: record.protocol, ends: record.ends };
        stream::put_gone(self.pipe.out(), &key);
        self.status.deletes_count += 1;
        self.counters.add(Exchanged::SentDeletes, 1);
    }

    /// What the other firewall gets of a record; or why nothing.
    fn judge(&self, view: &View<'_>, record: &Record, now: u32) -> Result<State, &'static str> {
        let incoming = self.firewall.arena().read32(control::SYNC_IN);
        let is_odd = incoming & layout::SYNC_IN_ODD != 0;
        if incoming & layout::SYNC_IN_LIVE != 0 && record.imported == Some(is_odd) {
            return Err(THEIRS);
        }
        if (0..2).any(|half| record.has_half(half) && record.are_no_sync[half]) {
            return Err(NO_SYNC);
        }
        self.storer.state(view, record, now)
    }

    fn mark(&mut self) {
        self.status.sequence += 1;
        let sequence = self.status.sequence;
        let sent_ms = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
        let record_count = std::mem::take(&mut self.record_count);
        stream::put_mark(self.pipe.out(), Mark { sequence, sent_ms, record_count });
        let has_changes = std::mem::take(&mut self.has_changes);
        self.marked = Instant::now();
        let (made, since) = (self.marked, self.looked);
        self.pending.push_back(Pending { sequence, record_count, made, since, has_changes });
    }

    fn note_written(&mut self, size: usize) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        self.status.sent_bytes += size;
        self.counters.add(Exchanged::SentBytes, size);
    }

    fn publish(&mut self) {
        let oldest = self.pending.iter().find(|mark| mark.has_changes);
        let lag = oldest.map_or(Duration::ZERO, |mark| mark.since.elapsed());
        let status = &mut self.status;
        status.lag_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        status.unacknowledged_count = status.sent_count - status.acknowledged_count;
        let (then, records, bytes) = self.before;
        let passed_ms = u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX);
        if passed_ms >= 1000 {
            let rate = |count: u64| count.saturating_mul(1000) / passed_ms;
            status.changes_per_second = rate(status.sent_count - records);
            status.bytes_per_second = rate(status.sent_bytes - bytes);
            self.before = (Instant::now(), status.sent_count, status.sent_bytes);
        }
        self.shared.sessions.out.status().clone_from(status);
    }
}

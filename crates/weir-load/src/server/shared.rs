//! What the connections of one worker share: counters, buffers, alarms, the time. It never touches
//! a connection.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_http::reply::Reply;
use weir_http::served::Served;
use weir_wire::random::{halves, splitmix64};

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// A time when a connection is to be woken: which one, and for which of its waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    due: Instant,
    pub(super) key: usize,
    pub(super) wait: u64,
}

pub(super) struct Shared {
    pub(super) counts: Served,
    pub(super) buffer: Vec<u8>,
    /// A reply that is being made; nearly all are sent at once.
    pub(super) reply: Reply,
    /// Connections that wait for the counters of all workers, in the order in which they asked.
    pub(super) asking: VecDeque<(usize, u64)>,
    /// Of these, the last so many have not been passed on.
    pub(super) new_asks: usize,
    date: String,
    date_s: u64,
    alarms: BinaryHeap<Reverse<Alarm>>,
    wait_count: u64,
    seed: u64,
    draw_count: u64,
}

impl Shared {
    pub(super) fn new(seed: u64) -> Self {
        let mut shared = Self {
            counts: Served::default(),
            buffer: vec![0; BUFFER_BYTES],
            reply: Reply::default(),
            asking: VecDeque::new(),
            new_asks: 0,
            date: String::new(),
            date_s: 0,
            alarms: BinaryHeap::new(),
            wait_count: 0,
            seed,
            draw_count: 0,
        };
        shared.set_date(SystemTime::now());
        shared
    }

    /// The time has come so far: Date follows it.
    pub(super) fn set_date(&mut self, now: SystemTime) {
        let now_s = now.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        if now_s != self.date_s {
            self.date_s = now_s;
            self.date = httpdate::fmt_http_date(now);
        }
    }

    /// The value of Date.
    pub(super) fn date(&self) -> &str {
        &self.date
    }

    /// A random number.
    pub(super) fn draw(&mut self) -> u32 {
        self.draw_count += 1;
        halves(splitmix64(self.seed, self.draw_count)).0
    }

    /// A number for a wait that no other has.
    pub(super) fn new_wait(&mut self) -> u64 {
        self.wait_count += 1;
        self.wait_count
    }

    /// Has a connection woken so much later, in a wait of its that gets the number returned.
    pub(super) fn wake_after(&mut self, delay: Duration, key: usize) -> u64 {
        let wait = self.new_wait();
        self.alarms.push(Reverse(Alarm { due: Instant::now() + delay, key, wait }));
        wait
    }

    /// The next alarm that is due.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<Alarm> {
        let is_due = self.alarms.peek().is_some_and(|Reverse(alarm)| alarm.due <= now);
        is_due.then(|| self.alarms.pop()).flatten().map(|Reverse(alarm)| alarm)
    }

    /// How long it is until the next one.
    pub(super) fn until_alarm(&self) -> Option<Duration> {
        let Reverse(alarm) = self.alarms.peek()?;
        Some(alarm.due.saturating_duration_since(Instant::now()))
    }
}

//! What a far program has said so far, with the moment at which each count came, by this machine's
//! monotonic clock. Far clocks are kept with their counts and compared with nothing but themselves.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_machine::host::LineSink;

use super::lines::{Count, Lines, Parsed};

/// Lines without figures that are kept, for messages, and characters of each.
const WORDS_MAX: usize = 4;
const WORDS_LENGTH_MAX: usize = 500;

/// How much later than a question a line must come to answer it: it was written before it came.
const UNDER_WAY: Duration = Duration::from_millis(150);

/// From when on a line that comes was written after now.
pub(super) fn asked_now() -> Instant {
    Instant::now() + UNDER_WAY
}

/// A count and when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    /// By this machine's monotonic clock.
    pub(super) at: Instant,
    /// What was said.
    pub(super) count: Count,
}

/// What one program has said.
#[derive(Debug, Default)]
struct Said {
    counts: Vec<Arrived>,
    /// Whether the last count is the program's total.
    is_total: bool,
    /// The last line with a count.
    line: String,
    words: VecDeque<String>,
    unusable: Option<String>,
}

/// Shared with the thread that reads the lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Feed(Arc<(Mutex<Said>, Condvar)>);

impl Feed {
    /// A feed, and what its lines are to be given to.
    pub(super) fn open(mut lines: Lines) -> (Self, LineSink) {
        let feed = Self::default();
        let shared = feed.clone();
        let sink = Box::new(move |line: &str| shared.take(lines.read(line), line, Instant::now()));
        (feed, sink)
    }

    fn take(&self, parsed: Parsed, line: &str, at: Instant) {
        let (said, news) = &*self.0;
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        match parsed {
            Parsed::Count(count) => {
                // Packets do not become fewer: what goes back is another program's line.
                let last = said.counts.last().map(|last| last.count).unwrap_or_default();
                if count.packets < last.packets {
                    said.unusable
                        .get_or_insert_with(|| format!("its count went backwards: `{line}`"));
                } else if count.t_ns < last.t_ns {
                    said.unusable.get_or_insert_with(|| {
                        format!("its clock went backwards: `{line}`; check what sets it (`ntpd`)")
                    });
                } else {
                    said.counts.push(Arrived { at, count });
                    line.clone_into(&mut said.line);
                }
            }
            Parsed::Total(count) => {
                said.counts.push(Arrived { at, count });
                line.clone_into(&mut said.line);
                said.is_total = true;
            }
            Parsed::Unusable(why) => {
                said.unusable.get_or_insert(why);
            }
            Parsed::Nothing => {
                if !line.trim().is_empty() {
                    said.words.push_back(line.trim().chars().take(WORDS_LENGTH_MAX).collect());
                }
                if said.words.len() > WORDS_MAX {
                    said.words.pop_front();
                }
            }
        }
        news.notify_all();
    }

    fn read<R>(&self, read: impl FnOnce(&Said) -> R) -> R {
        read(&self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last count.
    pub(super) fn last(&self) -> Option<Arrived> {
        self.read(|said| said.counts.last().copied())
    }

    /// The line with the last count.
    pub(super) fn last_line(&self) -> String {
        self.read(|said| said.line.clone())
    }

    /// How long it has been between the first count and the last, by the program's own clock and by
    /// this machine's.
    pub(super) fn span(&self) -> Option<(Duration, Duration)> {
        self.read(|said| {
            let (first, last) = (said.counts.first()?, said.counts.last()?);
            let program_ns = last.count.t_ns?.saturating_sub(first.count.t_ns?);
            Some((Duration::from_nanos(program_ns), last.at.saturating_duration_since(first.at)))
        })
    }

    /// Every count that came between two moments.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Vec<Arrived> {
        self.read(|said| {
            said.counts.iter().filter(|count| count.at >= from && count.at <= to).copied().collect()
        })
    }

    /// Packets at a moment, between the counts around it; `start` is when there were none.
    pub(super) fn packets_at(&self, start: Instant, moment: Instant) -> u64 {
        self.read(|said| {
            let mut before = (start, 0);
            for arrived in &said.counts {
                let now = (arrived.at, arrived.count.packets);
                if now.0 > moment {
                    return between(before, now, moment);
                }
                before = now;
            }
            before.1
        })
    }

    /// Why its figures cannot be used, if they cannot.
    pub(super) fn unusable(&self) -> Option<String> {
        self.read(|said| said.unusable.clone())
    }

    /// The last lines without figures, for messages.
    pub(super) fn words(&self) -> String {
        self.read(|said| said.words.iter().map(String::as_str).collect::<Vec<_>>().join(" | "))
    }

    /// Waits until the program has summed up, at most until `deadline`. Returns whether it has.
    pub(super) fn wait_total(&self, deadline: Instant) -> bool {
        self.wait_for(deadline, |said| said.is_total)
    }

    /// Waits until `is_enough` of the last count, at most until `deadline`. Returns whether it is.
    pub(super) fn wait(
        &self,
        deadline: Instant,
        is_enough: impl Fn(Option<Arrived>) -> bool,
    ) -> bool {
        self.wait_for(deadline, |said| is_enough(said.counts.last().copied()))
    }

    fn wait_for(&self, deadline: Instant, is_enough: impl Fn(&Said) -> bool) -> bool {
        let (said, news) = &*self.0;
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if is_enough(&said) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // Waking now and then lets the caller's deadline hold whatever happens.
            let left = left.min(Duration::from_millis(100));
            said = news.wait_timeout(said, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A straight line between two counts.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "packets of a run stay far below 2^53 and grow"
)]
fn between(before: (Instant, u64), after: (Instant, u64), moment: Instant) -> u64 {
    let whole = after.0.saturating_duration_since(before.0).as_secs_f64();
    let part = moment.saturating_duration_since(before.0).as_secs_f64();
    if whole <= 0.0 {
        return after.1;
    }
    let packets = after.1.saturating_sub(before.1) as f64;
    before.1 + (packets * (part / whole).clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DriverKind;

    fn count(packets: u64) -> Parsed {
        Parsed::Count(Count { packets, ..Count::default() })
    }

    #[test]
    fn packets_lie_on_a_line_between_the_counts() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let feed = Feed::default();
        feed.take(count(100), "", start + second);
        feed.take(count(300), "", start + 2 * second);
        assert_eq!(feed.packets_at(start, start), 0);
        assert_eq!(feed.packets_at(start, start + second / 2), 50);
        assert_eq!(feed.packets_at(start, start + second * 3 / 2), 200);
        assert_eq!(feed.packets_at(start, start + second * 9), 300);
    }

    #[test]
    fn a_count_that_goes_back_is_unusable() {
        let feed = Feed::default();
        feed.take(count(5), "five", Instant::now());
        feed.take(count(4), "four", Instant::now());
        assert_eq!(feed.last().map(|last| last.count.packets), Some(5));
        assert_eq!(feed.unusable().as_deref(), Some("its count went backwards: `four`"));
    }

    #[test]
    fn the_last_words_are_kept_and_counts_are_waited_for() {
        let lines = Lines::new(DriverKind::Command, Some("n=([0-9]+)")).unwrap();
        let (feed, mut sink) = Feed::open(lines);
        assert!(!feed.wait(Instant::now(), |last| last.is_some()));
        let said = std::thread::spawn(move || {
            for line in ["one", "two", "three", "four", "five", "n=7"] {
                sink(line);
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(feed.wait(deadline, |last| last.is_some_and(|last| last.count.packets == 7)));
        said.join().unwrap();
        assert_eq!(feed.words(), "two | three | four | five");
    }
}

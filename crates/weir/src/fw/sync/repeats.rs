//! What is said of connections: the first of each kind at once, and of those that follow how many
//! there were. Whoever floods the port, or is cut again and again, does not flood the log.

use std::time::{Duration, Instant};

/// After so long without one, the next is the first again.
const QUIET: Duration = Duration::from_secs(10);
/// While they go on, their number is said so often.
const EVERY: Duration = Duration::from_secs(60);

/// Kinds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A key that was not named.
    Key,
    /// Nobody who speaks this.
    Stranger,
    /// Nothing, or not enough, in time.
    Silent,
    /// More than there is room for.
    Many,
    /// The key is right, and there is no session to be had.
    Busy,
    /// States go, or come.
    Begun,
    /// They do no more.
    Ended,
}

const KIND_COUNT: usize = Kind::Ended as usize + 1;

impl Kind {
    /// Lines that are said before their number is.
    const fn free_count(self) -> u32 {
        match self {
            Self::Begun | Self::Ended => 8,
            _ => 1,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Burst {
    said_count: u32,
    unsaid_count: u64,
    last: Option<Instant>,
    said: Option<Instant>,
    last_text: String,
}

/// Counts lines.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    bursts: [Burst; KIND_COUNT],
}

impl Repeats {
    /// Counts one; what is to be said at once.
    pub(super) fn add(&mut self, kind: Kind, text: String, now: Instant) -> Option<String> {
        let burst = &mut self.bursts[kind as usize];
        if burst.unsaid_count == 0 && burst.last.is_none_or(|last| now - last >= QUIET) {
            burst.said_count = 0;
        }
        burst.last = Some(now);
        if burst.said_count < kind.free_count() {
            burst.said_count += 1;
            burst.said = Some(now);
            return Some(text);
        }
        burst.unsaid_count += 1;
        burst.last_text = text;
        None
    }

    /// What is to be said by now of those that were counted.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for burst in self.bursts.iter_mut().filter(|burst| burst.unsaid_count > 0) {
            let since = |then: Option<Instant>| then.map_or(EVERY, |then| now - then);
            if since(burst.last) >= QUIET || since(burst.said) >= EVERY {
                let count = std::mem::take(&mut burst.unsaid_count);
                burst.said = Some(now);
                lines.push(format!("{count} more, the last: {}", burst.last_text));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_said_once_and_then_its_number() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut repeats = Repeats::default();
        let text = |number: u32| format!("number {number}");
        assert_eq!(repeats.add(Kind::Key, text(0), at(0)), Some(text(0)));
        for number in 1..5_000 {
            let now = at(number.into());
            assert_eq!(repeats.add(Kind::Key, text(number), now), None);
            assert_eq!(repeats.due(now), [""; 0]);
        }
        // Another kind is not hidden by it.
        assert_eq!(repeats.add(Kind::Silent, text(7), at(5_000)), Some(text(7)));
        assert_eq!(repeats.due(at(14_998)), [""; 0]);
        assert_eq!(repeats.due(at(14_999)), ["4999 more, the last: number 4999"]);
        assert_eq!(repeats.due(at(90_000)), [""; 0]);
        assert_eq!(repeats.add(Kind::Key, text(8), at(90_000)), Some(text(8)));
    }

    #[test]
    fn some_sessions_are_said_each() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        let said = |repeats: &mut Repeats, after_s| {
            let now = start + Duration::from_secs(after_s);
            repeats.add(Kind::Ended, "cut".to_owned(), now).is_some()
        };
        assert!((0..8).all(|second| said(&mut repeats, second)));
        assert!(!said(&mut repeats, 8));
        assert_eq!(repeats.due(start + Duration::from_secs(18)), ["1 more, the last: cut"]);
        assert!(said(&mut repeats, 19), "the next ones are again");
    }

    #[test]
    fn one_that_does_not_end_is_said_every_minute() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        let mut lines = Vec::new();
        for second in 0..=180 {
            let now = start + Duration::from_secs(second);
            lines.extend(repeats.add(Kind::Many, "no room".to_owned(), now));
            lines.extend(repeats.due(now));
        }
        let said: Vec<&str> = lines.iter().map(String::as_str).collect();
        let more = "60 more, the last: no room";
        assert_eq!(said, ["no room", more, more, more]);
    }
}

//! What is said of connections that are refused: the first of each kind at once, and of those that
//! follow how many there were. Whoever floods the port does not flood the log.

use std::time::{Duration, Instant};

/// After so long without one, the next is the first again.
const QUIET: Duration = Duration::from_secs(10);
/// While they go on, their number is said so often.
const EVERY: Duration = Duration::from_secs(60);

/// Kinds of refusals.
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
}

const KINDS: [Kind; 5] = [Kind::Key, Kind::Stranger, Kind::Silent, Kind::Many, Kind::Busy];

#[derive(Debug, Clone, Default)]
struct Burst {
    unsaid_count: u64,
    last: Option<Instant>,
    said: Option<Instant>,
    last_text: String,
}

/// Counts refusals.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    bursts: [Burst; KINDS.len()],
}

impl Refusals {
    /// Counts one; what is to be said at once.
    pub(super) fn add(&mut self, kind: Kind, text: String, now: Instant) -> Option<String> {
        let burst = &mut self.bursts[kind as usize];
        let is_first = burst.last.is_none_or(|last| now - last >= QUIET);
        burst.last = Some(now);
        if is_first && burst.unsaid_count == 0 {
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
        let mut refusals = Refusals::default();
        let text = |number: u32| format!("number {number}");
        assert_eq!(refusals.add(Kind::Key, text(0), at(0)), Some(text(0)));
        for number in 1..5_000 {
            let now = at(number.into());
            assert_eq!(refusals.add(Kind::Key, text(number), now), None);
            assert_eq!(refusals.due(now), [""; 0]);
        }
        // Another kind is not hidden by it.
        assert_eq!(refusals.add(Kind::Silent, text(7), at(5_000)), Some(text(7)));
        assert_eq!(refusals.due(at(14_998)), [""; 0]);
        assert_eq!(refusals.due(at(14_999)), ["4999 more, the last: number 4999"]);
        assert_eq!(refusals.due(at(90_000)), [""; 0]);
        assert_eq!(refusals.add(Kind::Key, text(8), at(90_000)), Some(text(8)));
    }

    #[test]
    fn one_that_does_not_end_is_said_every_minute() {
        let start = Instant::now();
        let mut refusals = Refusals::default();
        let mut lines = Vec::new();
        for second in 0..=180 {
            let now = start + Duration::from_secs(second);
            lines.extend(refusals.add(Kind::Many, "no room".to_owned(), now));
            lines.extend(refusals.due(now));
        }
        let said: Vec<&str> = lines.iter().map(String::as_str).collect();
        let more = "60 more, the last: no room";
        assert_eq!(said, ["no room", more, more, more]);
    }
}

//! What a client counts and times, by worker or of all workers: one struct, added up.
//!
//! Every request that was due ends in exactly one of the places of [`Counts`]; nothing is dropped
//! on the way.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Times above this are counted as this, nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 3;

/// Why a request has no good answer. Each request has at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens: a RST answered the SYN.
    Refused,
    /// The other end reset the connection.
    Reset,
    /// No whole answer within the timeout, that for the connection included.
    Timeout,
    /// The status was from 400 to 499.
    ClientError,
    /// The status was from 500 to 599.
    ServerError,
    /// The connection was closed before the answer was whole.
    Short,
    /// What came is not HTTP/1.1.
    Protocol,
    /// TLS could not be agreed on, or what came behind that cannot be decrypted.
    Tls,
    /// The network or the kernel refused the connection otherwise: no route, for instance.
    Unreachable,
    /// The client had no port left for the connection.
    Ports,
    /// The address that it was to come from is none of the client's network namespace.
    Source,
}

/// Number of kinds of failures.
const FAILURES: usize = 11;

/// Every failure, with its name in JSON and its words.
pub const FAILURE_NAMES: [(Failure, &str, &str); FAILURES] = [
    (Failure::Refused, "refused", "refused"),
    (Failure::Reset, "reset", "reset by the other end"),
    (Failure::Timeout, "timeout", "no whole answer in time"),
    (Failure::ClientError, "status_4xx", "status 4xx"),
    (Failure::ServerError, "status_5xx", "status 5xx"),
    (Failure::Short, "short", "closed before the answer was whole"),
    (Failure::Protocol, "protocol", "not HTTP/1.1"),
    (Failure::Tls, "tls", "TLS failed"),
    (Failure::Unreachable, "unreachable", "unreachable"),
    (Failure::Ports, "ports", "no port left at the client"),
    (Failure::Source, "source", "the source is not an address of this namespace"),
];

/// How many failures there were of each kind; in JSON an object with each kind's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures([u64; FAILURES]);

impl Failures {
    /// Adds one.
    pub const fn add(&mut self, failure: Failure) {
        self.0[failure as usize] += 1;
    }

    /// How many there were of a kind.
    #[must_use]
    pub const fn of(&self, failure: Failure) -> u64 {
        self.0[failure as usize]
    }

    /// Of all kinds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Name in JSON, words and count of each kind.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        FAILURE_NAMES.iter().map(|(failure, name, words)| (*name, *words, self.of(*failure)))
    }
}

impl Serialize for Failures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.named().map(|(name, _, count)| (name, count)))
    }
}

impl<'de> Deserialize<'de> for Failures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        Ok(Self(FAILURE_NAMES.map(|(_, name, _)| count(name))))
    }
}

/// What was counted.
///
/// `due = answered + failures + aborted + unsent + unfinished`, while a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were to be sent.
    pub due: u64,
    /// Requests that got a whole answer below status 400.
    pub answered: u64,
    /// Requests that did not.
    pub failures: Failures,
    /// Requests that the client reset on purpose.
    pub aborted: u64,
    /// Requests that were due, and for which no connection was free until the end.
    pub unsent: u64,
    /// Requests that were under way when the run ended.
    pub unfinished: u64,
    /// Requests sent again, once, because the server had closed the idle connection.
    pub retried: u64,
    /// Connections of which a SYN was sent.
    pub opened: u64,
    /// Connections that were established.
    pub established: u64,
    /// Handshakes of TLS with the server's certificate, and those that resumed a session.
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    /// Connections that could not be opened, though no request needed them yet, by reason.
    pub not_opened: Failures,
    /// Idle connections that the server closed.
    pub closed_idle: u64,
    /// Connections that are open.
    pub open: u64,
    /// Bytes received, heads included; of TLS, what it carries.
    pub received_bytes: u64,
    /// Bytes sent, heads included; of TLS, what it carries.
    pub sent_bytes: u64,
}

impl Counts {
    /// Adds what another worker has counted.
    pub fn add(&mut self, other: &Self) {
        let mut others = *other;
        for (mine, theirs) in self.numbers().into_iter().zip(others.numbers()) {
            *mine += *theirs;
        }
        for (mine, theirs) in self.failures.0.iter_mut().zip(other.failures.0) {
            *mine += theirs;
        }
        for (mine, theirs) in self.not_opened.0.iter_mut().zip(other.not_opened.0) {
            *mine += theirs;
        }
    }

    /// Every number; whoever adds a field adds it here.
    fn numbers(&mut self) -> [&mut u64; 14] {
        let Self {
            due,
            answered,
            failures: _,
            aborted,
            unsent,
            unfinished,
            retried,
            opened,
            established,
            handshakes_full,
            handshakes_resumed,
            not_opened: _,
            closed_idle,
            open,
            received_bytes,
            sent_bytes,
        } = self;
        [
            due,
            answered,
            aborted,
            unsent,
            unfinished,
            retried,
            opened,
            established,
            handshakes_full,
            handshakes_resumed,
            closed_idle,
            open,
            received_bytes,
            sent_bytes,
        ]
    }

    /// Requests that came to an end of which the client knows.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.answered + self.failures.sum() + self.aborted
    }

    /// Connections, for a request or not, whose source was no address of this namespace.
    #[must_use]
    pub const fn refused_sources(&self) -> u64 {
        self.failures.of(Failure::Source) + self.not_opened.of(Failure::Source)
    }

    /// Requests that are missing in the account; zero after a run, if nothing is wrong with it.
    #[must_use]
    pub fn unaccounted(&self) -> i128 {
        let places = self.ended() + self.unsent + self.unfinished;
        i128::from(self.due) - i128::from(places)
    }
}

/// How often which times were seen, nanoseconds, to three digits.
#[derive(Debug, Clone, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // The limits are constants that it takes.
        Self(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the limits are in order"))
    }
}

impl Times {
    /// Adds one.
    pub fn record(&mut self, time_ns: u64) {
        self.0.saturating_record(time_ns);
    }

    /// Adds what another worker has seen.
    pub fn add(&mut self, other: &Self) {
        // Both have the same limits, so that everything fits.
        self.0.add(&other.0).expect("the same limits");
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that a share of all times, 0 to 1, does not exceed; `None` without times.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.0.value_at_quantile(share))
    }

    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.min())
    }

    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.max())
    }

    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean())
    }

    /// Lowest and highest time of each bucket that has some, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.0.iter_recorded().map(|bucket| {
            let highest = bucket.value_iterated_to();
            (self.0.lowest_equivalent(highest), highest, bucket.count_at_value())
        })
    }
}

/// As a list of buckets: what was recorded, and how often.
impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.buckets().map(|(lowest, _, count)| (lowest, count)))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut times = Self::default();
        for (time_ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            times.0.saturating_record_n(time_ns, count);
        }
        Ok(times)
    }
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    pub counts: Counts,
    /// From when a request was due to the end of its answer.
    pub latency: Times,
    /// From when it was begun: sent, or its connection opened.
    pub service: Times,
    /// From when it was due to when the worker turned to it: its lateness.
    pub lag: Times,
    /// From SYN to established connection.
    pub connect: Times,
    /// From established connection to agreed TLS.
    pub handshake: Times,
}

impl Figures {
    /// Adds what another worker has measured.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        self.connect.add(&other.connect);
        self.handshake.add(&other.handshake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_the_places_of_their_failures() {
        for (place, (failure, _, _)) in FAILURE_NAMES.iter().enumerate() {
            assert_eq!(*failure as usize, place);
        }
        let mut failures = Failures::default();
        failures.add(Failure::Ports);
        failures.add(Failure::Short);
        failures.add(Failure::Short);
        assert_eq!((failures.of(Failure::Short), failures.sum()), (2, 3));
        let named: Vec<(&str, u64)> = failures
            .named()
            .filter(|(_, _, count)| *count > 0)
            .map(|(name, _, count)| (name, count))
            .collect();
        assert_eq!(named, [("short", 2), ("ports", 1)]);
    }

    #[test]
    fn workers_add_up_and_nothing_is_lost_on_the_pipe() {
        let mut one = Figures::default();
        one.counts.due = 5;
        one.counts.answered = 3;
        one.counts.failures.add(Failure::Timeout);
        one.counts.unsent = 1;
        one.counts.not_opened.add(Failure::Refused);
        for time_ns in [1, 999, 1_000_000, 123_456_789, 200_000_000_000] {
            one.latency.record(time_ns);
            one.lag.record(time_ns / 2);
        }
        let text = serde_json::to_string(&one).unwrap();
        let read: Figures = serde_json::from_str(&text).unwrap();
        assert_eq!(read.counts, one.counts);
        let buckets = |figures: &Figures| figures.latency.buckets().collect::<Vec<_>>();
        assert_eq!(buckets(&read), buckets(&one));
        let mut both = one.clone();
        both.add(&read);
        assert_eq!((both.counts.due, both.counts.answered), (10, 6));
        assert_eq!(both.counts.failures.of(Failure::Timeout), 2);
        assert_eq!(both.counts.not_opened.of(Failure::Refused), 2);
        assert_eq!((both.latency.count(), both.lag.count()), (10, 10));
        assert_eq!(both.counts.unaccounted(), 0);
    }

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut times = Times::default();
        assert_eq!((times.quantile_ns(0.5), times.min_ns(), times.max_ns()), (None, None, None));
        for milliseconds in 1..=1000 {
            times.record(milliseconds * 1_000_000);
        }
        let p99_ns = times.quantile_ns(0.99).unwrap() as f64;
        assert!((p99_ns / 990e6 - 1.0).abs() < 1e-3, "{p99_ns}");
        times.record(u64::MAX);
        assert!(times.max_ns().unwrap() as f64 >= LONGEST_NS as f64 * 0.999);
    }
}

//! A stream of one flow for each bucket of a card: what loads all of its queues alike.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::str::FromStr;

use super::fields::{Fields, Symmetry};
use super::key::Key;
use super::pick::{Picked, Wish, pick};
use super::steering::Steering;
use super::table::{BUCKET_COUNT_MAX, Table};
use super::toeplitz::Toeplitz;
use crate::flow::{Flow, FlowSpace};
use crate::range::AddrRange;

/// Most flows that are tried: a fraction of a second's work.
const TRIES_MAX: u64 = 1 << 22;

/// How the flows of a stream are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// How many buckets get a flow each: the hash modulo this.
    pub bucket_count: usize,
    /// The card's key, where it is written.
    pub key: Option<Key>,
}

/// What the card is, where that is known: its key, and what it hashes.
pub type Card<'a> = (&'a Key, Fields);

/// A text that says nothing of buckets, or ranges that do not reach all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    #[error("`{text}` is not understood: write buckets:COUNT or buckets:COUNT/KEY")]
    Text { text: String },
    #[error(transparent)]
    Key(#[from] super::key::KeyError),
    #[error("{count} buckets: there are 1 to {BUCKET_COUNT_MAX}")]
    Count { count: usize },
    #[error(
        "the ranges reach {reached_count} of {bucket_count} buckets: give more addresses or ports \
         (where only addresses are hashed, ports make no difference)"
    )]
    OutOfReach { reached_count: usize, bucket_count: usize },
}

impl FromStr for Spread {
    type Err = SpreadError;

    fn from_str(text: &str) -> Result<Self, SpreadError> {
        let malformed = || SpreadError::Text { text: text.into() };
        let rest = text.strip_prefix("buckets:").ok_or_else(malformed)?;
        let (count, key) = match rest.split_once('/') {
            Some((count, key)) => (count, Some(key.parse()?)),
            None => (rest, None),
        };
        let is_plain = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let count = count.parse::<usize>().ok().filter(|_| is_plain).ok_or_else(malformed)?;
        if !(1..=BUCKET_COUNT_MAX).contains(&count) {
            return Err(SpreadError::Count { count });
        }
        Ok(Self { bucket_count: count, key })
    }
}

impl Spread {
    /// One flow of the space for each bucket, that of bucket 0 first. The card is what the text
    /// says, or else what is given, or else one with Microsoft's key that hashes addresses and
    /// ports.
    ///
    /// # Errors
    ///
    /// [`SpreadError::OutOfReach`] if a bucket has none among the first four million flows.
    pub fn flows(
        &self,
        space: &FlowSpace<AddrRange>,
        card: Option<Card<'_>>,
    ) -> Result<Vec<Flow<IpAddr>>, SpreadError> {
        let microsoft = Key::microsoft();
        let (key, fields) = card.unwrap_or((&microsoft, Fields::FourTuple));
        let table = Table::equal(1, self.bucket_count)
            .map_err(|_| SpreadError::Count { count: self.bucket_count })?;
        let steering = Steering {
            toeplitz: Toeplitz::new(self.key.as_ref().unwrap_or(key)),
            fields,
            symmetry: Symmetry::None,
            table,
        };
        let buckets = (0..self.bucket_count).collect();
        let wish = Wish { buckets, flows_per_bucket: 1, answers: None };
        let found = pick(&steering, space, &wish, TRIES_MAX);
        if !found.missing.is_empty() {
            let reached_count = self.bucket_count - found.missing.len();
            return Err(SpreadError::OutOfReach { reached_count, bucket_count: self.bucket_count });
        }
        Ok(found.picked.into_iter().map(|Picked { flow, .. }| flow).collect())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

    use super::*;

    fn space(src: &str) -> FlowSpace<AddrRange> {
        let range = |text| AddrRange::parse(text, 1234).unwrap().0;
        FlowSpace::new(range(src), range("198.19.10.1:53")).unwrap()
    }

    #[test]
    fn every_bucket_gets_one_flow_by_the_key_that_counts() {
        let space = space("198.18.10.1:1024-198.18.10.9:2000");
        let other = Key::random(3, 40, 8).unwrap().0;
        let written: Spread = format!("buckets:8/{other}").parse().unwrap();
        let plain: Spread = "buckets:8".parse().unwrap();
        assert_eq!(written.key, Some(other.clone()));
        for (spread, card, key) in [
            (&plain, None, Key::microsoft()),
            (&plain, Some((&other, Fields::FourTuple)), other.clone()),
            (&written, None, other.clone()),
        ] {
            let toeplitz = Toeplitz::new(&key);
            let flows = spread.flows(&space, card).unwrap();
            let hash = |flow: &Flow<IpAddr>| {
                toeplitz.hash(*flow, Fields::FourTuple, Symmetry::None) as usize % 8
            };
            assert_eq!(flows.iter().map(hash).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }

    #[test]
    fn what_cannot_be_spread_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Spread>().unwrap_err().to_string();
        for text in ["", "8", "buckets", "buckets:", "buckets:x", "buckets:+8", "queues:8"] {
            assert!(refused(text).contains("write buckets:COUNT"), "{text}");
        }
        assert!(refused("buckets:0").contains("1 to 65536"));
        assert!(refused("buckets:8/6d5a").contains("40 to 52 bytes, not 2"));
        let spread: Spread = "buckets:64".parse().unwrap();
        let error = spread.flows(&space("198.18.10.1:1024"), None).unwrap_err().to_string();
        assert!(error.contains("the ranges reach 1 of 64 buckets"), "{error}");
    }
}

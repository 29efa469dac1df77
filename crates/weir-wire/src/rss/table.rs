//! The indirection table: from buckets to receive queues.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Most entries of a table.
pub const BUCKET_COUNT_MAX: usize = 1 << 16;
/// Entries of a table whose size is not written.
pub const BUCKET_COUNT_DEFAULT: usize = 128;

/// One receive queue for each bucket. The size need not be a power of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table(Vec<u16>);

/// A bucket that changes its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    pub bucket: usize,
    /// The queue that had it.
    pub from: u16,
    /// The queue that gets it.
    pub to: u16,
}

/// Why something is not a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// No entries, or too many.
    #[error("an indirection table has 1 to {BUCKET_COUNT_MAX} entries, not {count}")]
    Size {
        /// Entries that it would have.
        count: usize,
    },
    /// A word that is not understood.
    #[error(
        "`{word}` in a table is not a queue: write one queue for each bucket (0,1,0,2), \
         equal:QUEUES[/SIZE], or weights:W,W,…[/SIZE]"
    )]
    Word { word: String },
    /// No queue would get a packet.
    #[error("no queue has a share of the table: give at least one a weight above zero")]
    NoWeight,
    /// More queues than buckets: some queue gets none.
    #[error("{queue_count} queues share {bucket_count} buckets: make the table as large")]
    TooSmall {
        /// Queues with a weight above zero.
        queue_count: usize,
        /// Entries of the table.
        bucket_count: usize,
    },
}

impl Table {
    /// A table of these queues, that of bucket 0 first.
    ///
    /// # Errors
    ///
    /// [`TableError::Size`] unless there are 1 to 65,536.
    pub fn new(queues: Vec<u16>) -> Result<Self, TableError> {
        check_size(queues.len())?;
        Ok(Self(queues))
    }

    /// The table that drivers begin with, and `ethtool -X IF equal N` sets: queues in turn.
    ///
    /// # Errors
    ///
    /// [`TableError`] without queues or buckets, or with fewer buckets than queues.
    pub fn equal(queue_count: u16, bucket_count: usize) -> Result<Self, TableError> {
        check_size(bucket_count)?;
        check_share(queue_count.into(), bucket_count)?;
        Ok(Self((0..queue_count).cycle().take(bucket_count).collect()))
    }

    /// The table that `ethtool -X IF weight …` sets: each queue has a stretch as long as its
    /// weight's share.
    ///
    /// # Errors
    ///
    /// [`TableError`] if all weights are zero, or there are fewer buckets than queues with one.
    pub fn weighted(weights: &[u32], bucket_count: usize) -> Result<Self, TableError> {
        check_size(bucket_count)?;
        check_share(weights.iter().filter(|weight| **weight > 0).count(), bucket_count)?;
        let sum: u64 = weights.iter().copied().map(u64::from).sum();
        let mut queues = Vec::with_capacity(bucket_count);
        let mut partial = 0;
        for (queue, weight) in (0_u16..).zip(weights) {
            partial += u64::from(*weight);
            // As ethtool(8) divides: queue n has the buckets below size × (weights up to n) ÷ sum.
            while (queues.len() as u64) < bucket_count as u64 * partial / sum {
                queues.push(queue);
            }
        }
        Ok(Self(queues))
    }

    /// Number of buckets.
    #[must_use]
    pub fn bucket_count(&self) -> usize {
        self.0.len()
    }

    /// The queues, that of bucket 0 first.
    #[must_use]
    pub fn queues(&self) -> &[u16] {
        &self.0
    }

    /// One more than the highest queue of the table.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.0.iter().max().map_or(0, |queue| usize::from(*queue) + 1)
    }

    /// The bucket of a hash.
    #[must_use]
    pub fn bucket(&self, hash: u32) -> usize {
        hash as usize % self.0.len()
    }

    /// The queue of a bucket, which must be below [`Table::bucket_count`].
    #[must_use]
    pub fn queue(&self, bucket: usize) -> u16 {
        self.0[bucket]
    }

    /// The table after these moves, whose buckets must be below [`Table::bucket_count`].
    #[must_use]
    pub fn with(&self, moves: &[Move]) -> Self {
        let mut table = self.clone();
        for one in moves {
            table.assign(one.bucket, one.to);
        }
        table
    }

    /// Gives a bucket, which must be below [`Table::bucket_count`], to a queue.
    pub(super) fn assign(&mut self, bucket: usize, queue: u16) {
        self.0[bucket] = queue;
    }
}

/// A table whose size another decides: a card, which has one of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// One that is written as a whole, with its size.
    Whole(Table),
    /// Queues in turn.
    Equal(u16),
    /// Each queue has its weight's share.
    Weights(Vec<u32>),
}

impl Shape {
    /// The table of that size.
    ///
    /// # Errors
    ///
    /// [`TableError`] as [`Table::equal`] and [`Table::weighted`]. A whole table keeps its size.
    pub fn of_size(&self, bucket_count: usize) -> Result<Table, TableError> {
        match self {
            Self::Whole(table) => Ok(table.clone()),
            Self::Equal(queue_count) => Table::equal(*queue_count, bucket_count),
            Self::Weights(weights) => Table::weighted(weights, bucket_count),
        }
    }
}

/// As a [`Table`] is read; without a size, it has the one that is given later.
impl FromStr for Shape {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        match text.split_once(':') {
            Some(("equal", values)) if !values.contains('/') => match number(values)? {
                0 => Err(TableError::NoWeight),
                queue_count => Ok(Self::Equal(queue_count)),
            },
            Some(("weights", values)) if !values.contains('/') => {
                let weights: Vec<u32> = numbers(values)?;
                let is_any = weights.iter().any(|weight| *weight > 0);
                if is_any { Ok(Self::Weights(weights)) } else { Err(TableError::NoWeight) }
            }
            _ => text.parse().map(Self::Whole),
        }
    }
}

fn check_size(count: usize) -> Result<(), TableError> {
    let fits = (1..=BUCKET_COUNT_MAX).contains(&count);
    if fits { Ok(()) } else { Err(TableError::Size { count }) }
}

/// Whether so many queues, each of which is to have packets, can share so many buckets.
fn check_share(queue_count: usize, bucket_count: usize) -> Result<(), TableError> {
    match queue_count {
        0 => Err(TableError::NoWeight),
        1.. if bucket_count < queue_count => {
            Err(TableError::TooSmall { queue_count, bucket_count })
        }
        1.. => Ok(()),
    }
}

/// A list of one queue for each bucket: what [`Table::from_str`] reads.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, queue) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{queue}")?;
        }
        Ok(())
    }
}

/// `0,1,0,2` (a queue for each bucket), `equal:QUEUES[/SIZE]` or `weights:W,W,…[/SIZE]`, the size
/// being 128 where it is not written.
impl FromStr for Table {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        let Some((kind, rest)) = text.split_once(':') else {
            return Self::new(numbers(text)?);
        };
        let (values, size) = match rest.split_once('/') {
            Some((values, size)) => (values, number(size)?),
            None => (rest, BUCKET_COUNT_DEFAULT),
        };
        match kind {
            "equal" => Self::equal(number(values)?, size),
            "weights" => Self::weighted(&numbers(values)?, size),
            _ => Err(TableError::Word { word: kind.to_string() }),
        }
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, TableError> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit());
    let value = if is_plain { word.parse().ok() } else { None };
    value.ok_or_else(|| TableError::Word { word: word.to_string() })
}

fn numbers<T: FromStr>(list: &str) -> Result<Vec<T>, TableError> {
    list.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(text: &str) -> Vec<u16> {
        text.parse::<Table>().unwrap().queues().to_vec()
    }

    #[test]
    fn tables_are_read_as_lists_shares_and_weights() {
        assert_eq!(queues("0,1,0,2"), [0, 1, 0, 2]);
        assert_eq!(queues("equal:3/8"), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(queues("equal:2").len(), 128);
        assert_eq!(queues("weights:1,0,0,3/8"), [0, 0, 3, 3, 3, 3, 3, 3]);
        assert_eq!(queues("weights:1,1,1/7"), [0, 0, 1, 1, 2, 2, 2]);
        let table: Table = "weights:2,1/6".parse().unwrap();
        assert_eq!(table.to_string(), "0,0,0,0,1,1");
        assert_eq!(table.to_string().parse(), Ok(table.clone()));
        assert_eq!((table.bucket_count(), table.queue_count()), (6, 2));
        assert_eq!((table.bucket(13), table.queue(table.bucket(13))), (1, 0));
    }

    #[test]
    fn a_shape_takes_the_size_that_is_given() {
        let table = |text: &str, size| text.parse::<Shape>().unwrap().of_size(size);
        assert_eq!(table("equal:2", 3).unwrap().queues(), [0, 1, 0]);
        assert_eq!(table("weights:1,0,1", 4).unwrap().queues(), [0, 0, 2, 2]);
        assert_eq!(table("3,1", 128).unwrap().queues(), [3, 1]);
        assert_eq!(table("equal:2/8", 128).unwrap().bucket_count(), 8);
        assert!(table("equal:4", 2).unwrap_err().to_string().contains("4 queues share 2"));
        for text in ["equal:0", "weights:0,0", "weights:0,0/4"] {
            assert_eq!(text.parse::<Shape>(), Err(TableError::NoWeight), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_table_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Table>().unwrap_err().to_string();
        assert!(refused("").contains("`` in a table is not a queue"));
        assert!(refused("0,x").contains("`x` in a table"));
        assert!(refused("0,70000").contains("`70000`"));
        assert!(refused("0,+1").contains("`+1`"));
        assert!(refused("even:4").contains("`even`"));
        assert!(refused("equal:0").contains("no queue has a share"));
        assert!(refused("weights:0,0/4").contains("no queue has a share"));
        assert!(refused("equal:4/2").contains("4 queues share 2 buckets"));
        assert!(refused("weights:1,1,1/2").contains("3 queues share 2 buckets"));
        assert!(refused("equal:2/70000").contains("1 to 65536 entries, not 70000"));
        assert!(refused("weights:1/0").contains("not 0"));
    }
}

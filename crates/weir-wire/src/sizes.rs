//! Frame sizes of a stream: one, a range, a list, or an Internet mix.
//!
//! [`Sizes`] is what a user writes; [`SizePattern`] is what it means for a stream: either a cycle
//! of sizes that is gone through by sequence number, or a seeded uniform draw. Sizes are without
//! the four bytes of FCS, except in an IMIX genome, whose letters RFC 6985 defines with them.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::ethernet::FCS_BYTES;
use crate::random::{below, halves, splitmix64};
use crate::weights;

/// Most sizes of a list, and most letters of a genome.
pub(crate) const SIZE_COUNT_MAX: usize = 4096;

/// Makes the seed of sizes another than that of the walk: "size".
const SEED_SALT: u64 = 0x7369_7a65;

/// Sizes of IP packets in the simple Internet mix, and how many of each go into twelve packets.
pub const IMIX: [(u16, u32); 3] = [(40, 7), (576, 4), (1500, 1)];

/// Letters and frame sizes, with FCS, of RFC 6985 §4. Its letter `z`, the MTU, has no size of its
/// own; upper-case letters are for sizes that the user defines.
pub(crate) const GENOME: [(char, u16); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];

const GENOME_PREFIX: &str = "imix-genome:";

/// Frame sizes, as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sizes {
    /// `60`: all frames have this size, bytes without FCS.
    Fixed(u16),
    /// `60-1514`: every size between the ends, both included, equally often in the long run.
    Uniform {
        /// Smallest, bytes without FCS.
        first_bytes: u16,
        /// Largest, bytes without FCS.
        last_bytes: u16,
    },
    /// `60,590,1514`: one after the other, bytes without FCS, again from the start after the last.
    List(Vec<u16>),
    /// `imix`: seven IP packets of 40 bytes, four of 576, one of 1,500, in the order of
    /// [`weights::smooth`].
    Imix,
    /// `imix-genome:aaafg`: one letter after the other.
    Genome(Genome),
}

/// Letters of RFC 6985 and the sizes of those that the user defines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Genome {
    letters: String,
    /// Letter and size with FCS, by letter.
    custom: Vec<(char, u16)>,
}

/// Text that is not a frame size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizesError {
    /// A word is not a number of bytes.
    #[error(
        "`{0}` is not a frame size: write bytes without FCS, such as `60`, `60-1514`, \
         `60,590,1514`, `imix` or `imix-genome:aaafg`"
    )]
    Number(String),
    /// The range runs backwards.
    #[error("the sizes {first_bytes}-{last_bytes} run backwards: write the smaller one first")]
    Reversed {
        /// The first end.
        first_bytes: u16,
        /// The second end.
        last_bytes: u16,
    },
    /// The list or the genome is too long.
    #[error("{0} sizes are too many: at most {SIZE_COUNT_MAX}")]
    TooMany(usize),
    /// The genome has no letter.
    #[error("the genome has no letter: write one as `imix-genome:aaafg`")]
    GenomeEmpty,
    /// The letter is none of RFC 6985.
    #[error("`{0}` is not a letter of an IMIX genome: they are a to j, z, and A to Z (RFC 6985)")]
    Letter(char),
    /// The letter's size is not defined.
    #[error(
        "the genome's letter `{0}` has no size: add `,{0}=BYTES`, with the 4 bytes of FCS, as \
         RFC 6985 counts"
    )]
    LetterUndefined(char),
    /// The definition defines nothing that can be defined and is used once.
    #[error(
        "`{0}` defines no letter of the genome: write `LETTER=BYTES` once for each of z and A to Z \
         that the genome uses"
    )]
    Definition(String),
}

impl Sizes {
    /// What the sizes mean for frames with `link_bytes` before the IP header, that are never under
    /// `smallest_bytes`. Only `imix`, which is defined by IP packets, depends on the two: its
    /// frames are IP packet and link header, or as small as can be. Other sizes are taken as they
    /// are, so that the caller compares [`SizePattern::min_bytes`] with what it can send.
    ///
    /// `seed` is that of the stream.
    #[must_use]
    pub fn pattern(&self, link_bytes: u16, smallest_bytes: u16, seed: u64) -> SizePattern {
        match self {
            Self::Fixed(size_bytes) => SizePattern::Cycle(vec![*size_bytes]),
            Self::Uniform { first_bytes, last_bytes } => SizePattern::Uniform {
                first_bytes: *first_bytes.min(last_bytes),
                last_bytes: *last_bytes.max(first_bytes),
                seed: splitmix64(seed ^ SEED_SALT, 0),
            },
            Self::List(sizes) => SizePattern::Cycle(sizes.clone()),
            Self::Imix => {
                let order = weights::smooth(&IMIX.map(|(_, count)| count)).unwrap_or_default();
                let size = |item: usize| IMIX[item].0.saturating_add(link_bytes);
                let sizes = order.into_iter().map(|item| size(item).max(smallest_bytes));
                SizePattern::Cycle(sizes.collect())
            }
            Self::Genome(genome) => SizePattern::Cycle(genome.sizes()),
        }
    }
}

impl Genome {
    /// Sizes without FCS, in the order of the letters.
    fn sizes(&self) -> Vec<u16> {
        let table = || GENOME.iter().chain(&self.custom);
        let size = |letter| table().find(|(other, _)| *other == letter).map(|(_, size)| *size);
        self.letters.chars().filter_map(size).map(|size| size.saturating_sub(FCS_BYTES)).collect()
    }

    /// Reads what follows the prefix.
    fn parse(text: &str) -> Result<Self, SizesError> {
        let mut words = text.split(',');
        let letters = words.next().unwrap_or_default();
        if letters.is_empty() {
            return Err(SizesError::GenomeEmpty);
        }
        let is_custom = |letter: char| letter == 'z' || letter.is_ascii_uppercase();
        let known = |letter: char| GENOME.iter().any(|(other, _)| *other == letter);
        if let Some(letter) = letters.chars().find(|&letter| !is_custom(letter) && !known(letter)) {
            return Err(SizesError::Letter(letter));
        }
        check_count(letters.len())?;
        let mut custom: Vec<(char, u16)> = Vec::new();
        for word in words {
            let error = || SizesError::Definition(word.into());
            let (name, size) = word.split_once('=').ok_or_else(error)?;
            let letter = name.parse().map_err(|_| error())?;
            let again = custom.iter().any(|(other, _)| *other == letter);
            if !is_custom(letter) || !letters.contains(letter) || again {
                return Err(error());
            }
            custom.push((letter, parse_size(size)?));
        }
        custom.sort_unstable();
        let defined = |letter| custom.iter().any(|(other, _)| *other == letter);
        match letters.chars().find(|&letter| is_custom(letter) && !defined(letter)) {
            Some(letter) => Err(SizesError::LetterUndefined(letter)),
            None => Ok(Self { letters: letters.into(), custom }),
        }
    }
}

fn check_count(count: usize) -> Result<(), SizesError> {
    if count > SIZE_COUNT_MAX { Err(SizesError::TooMany(count)) } else { Ok(()) }
}

fn parse_size(word: &str) -> Result<u16, SizesError> {
    // `parse` would also take a sign.
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let size_bytes = if digits { word.parse().ok() } else { None };
    size_bytes.ok_or_else(|| SizesError::Number(word.into()))
}

impl FromStr for Sizes {
    type Err = SizesError;

    /// Reads `N`, `A-B`, `N,N,…`, `imix` or `imix-genome:LETTERS[,LETTER=BYTES]…`.
    ///
    /// # Errors
    ///
    /// [`SizesError`] says which word is wrong. Whether a stream's headers fit is not known here.
    fn from_str(text: &str) -> Result<Self, SizesError> {
        if text == "imix" {
            return Ok(Self::Imix);
        }
        if let Some(rest) = text.strip_prefix(GENOME_PREFIX) {
            return Genome::parse(rest).map(Self::Genome);
        }
        if text.contains(',') {
            check_count(text.split(',').count())?;
            return text.split(',').map(parse_size).collect::<Result<_, _>>().map(Self::List);
        }
        let Some((first, last)) = text.split_once('-') else {
            return parse_size(text).map(Self::Fixed);
        };
        let (first_bytes, last_bytes) = (parse_size(first)?, parse_size(last)?);
        if first_bytes > last_bytes {
            return Err(SizesError::Reversed { first_bytes, last_bytes });
        }
        Ok(Self::Uniform { first_bytes, last_bytes })
    }
}

/// As it is read.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size_bytes) => write!(f, "{size_bytes}"),
            Self::Uniform { first_bytes, last_bytes } => write!(f, "{first_bytes}-{last_bytes}"),
            Self::List(sizes) => {
                for (index, size_bytes) in sizes.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{size_bytes}")?;
                }
                Ok(())
            }
            Self::Imix => f.write_str("imix"),
            Self::Genome(Genome { letters, custom }) => {
                write!(f, "{GENOME_PREFIX}{letters}")?;
                custom
                    .iter()
                    .try_for_each(|(letter, size_bytes)| write!(f, ",{letter}={size_bytes}"))
            }
        }
    }
}

/// The size of every frame of a stream, bytes without FCS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SizePattern {
    /// Frame `s` has the size at `s` modulo their number.
    Cycle(Vec<u16>),
    /// Frame `s` has `first_bytes + ((splitmix64(seed, s) >> 32) * n >> 32)` bytes, where `n` is
    /// the number of sizes. This seed is `splitmix64(seed ^ 0x73697a65, 0)` of the stream's.
    Uniform {
        /// Smallest, bytes.
        first_bytes: u16,
        /// Largest, bytes.
        last_bytes: u16,
        /// Seed of the sizes.
        seed: u64,
    },
}

impl SizePattern {
    /// The size of frame number `sequence`. An empty cycle, which no [`Sizes`] makes, has size 0.
    #[must_use]
    pub fn size_bytes(&self, sequence: u64) -> u16 {
        match self {
            Self::Cycle(sizes) => {
                let count = sizes.len().max(1) as u64;
                let index = usize::try_from(sequence % count).unwrap_or_default();
                sizes.get(index).copied().unwrap_or_default()
            }
            Self::Uniform { first_bytes, last_bytes, seed } => {
                let count = u64::from(last_bytes - first_bytes) + 1;
                let (draw, _) = halves(splitmix64(*seed, sequence));
                #[expect(clippy::cast_possible_truncation, reason = "below the number of sizes")]
                let offset = below(count, draw) as u16;
                first_bytes + offset
            }
        }
    }

    /// The smallest size, bytes.
    #[must_use]
    pub fn min_bytes(&self) -> u16 {
        match self {
            Self::Cycle(sizes) => sizes.iter().copied().min().unwrap_or_default(),
            Self::Uniform { first_bytes, .. } => *first_bytes,
        }
    }

    /// The largest size, bytes.
    #[must_use]
    pub fn max_bytes(&self) -> u16 {
        match self {
            Self::Cycle(sizes) => sizes.iter().copied().max().unwrap_or_default(),
            Self::Uniform { last_bytes, .. } => *last_bytes,
        }
    }

    /// The mean size as a fraction: bytes of so many frames. Of a uniform draw it is the expected
    /// value.
    #[must_use]
    pub(crate) fn mean_fraction(&self) -> (u64, u64) {
        match self {
            Self::Cycle(sizes) => {
                (sizes.iter().map(|size| u64::from(*size)).sum(), sizes.len() as u64)
            }
            Self::Uniform { first_bytes, last_bytes, .. } => {
                (u64::from(*first_bytes) + u64::from(*last_bytes), 2)
            }
        }
    }

    /// The mean size, bytes, rounded once.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 4096 sizes of 16 bits: exact in f64")]
    pub fn mean_bytes(&self) -> f64 {
        let (bytes, frames) = self.mean_fraction();
        bytes as f64 / frames.max(1) as f64
    }
}

#[cfg(test)]
mod tests;

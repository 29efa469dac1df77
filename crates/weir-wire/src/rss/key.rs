//! The secret key of the hash, and which buckets it leaves out of reach.
//!
//! The hash is linear: each bit of a packet that is set contributes 32 consecutive bits of the key,
//! and the contributions are added without carry. So the hashes of a run of addresses or ports form
//! a space over two elements, whose dimension is the rank of those contributions. Where the rank of
//! the bits that choose a bucket is smaller than their number, whole buckets are never reached by
//! such a run, however many flows it has. Of random keys seven in eight have such a gap for some
//! field of IPv4 or IPv6 and a table of 128 entries.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::random::splitmix64;

/// Fewest bytes of a key: as many as the addresses and ports of an IPv6 packet need.
pub const KEY_BYTES_MIN: usize = 40;
/// Most bytes of a key that drivers are known to have.
pub const KEY_BYTES_MAX: usize = 52;
/// How many keys are drawn before it is given up; a few are enough.
const DRAWS_MAX: u64 = 10_000;

/// The key of a card's hash: 40 to 52 bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Vec<u8>);

/// Why something is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has too few or too many bytes.
    #[error(
        "a key has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, not {bytes} (`ethtool -x` shows that \
         of a card)"
    )]
    Length {
        /// Bytes that it has.
        bytes: usize,
    },
    /// A word of it is not a byte.
    #[error("`{word}` in a key is not a byte in two hexadecimal digits, such as 6d")]
    Digits { word: String },
}

/// A field of a packet in the input of the hash, at the place that it has there in packets hashed
/// by addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    SourcePort,
    DestinationPort,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Source, Self::Destination, Self::SourcePort, Self::DestinationPort];

    /// Number of bits of the input up to the end of the field.
    const fn end_bits(self, is_ipv6: bool) -> usize {
        let address_bits = if is_ipv6 { 128 } else { 32 };
        match self {
            Self::Source => address_bits,
            Self::Destination => 2 * address_bits,
            Self::SourcePort => 2 * address_bits + 16,
            Self::DestinationPort => 2 * address_bits + 32,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source addresses",
            Self::Destination => "destination addresses",
            Self::SourcePort => "source ports",
            Self::DestinationPort => "destination ports",
        })
    }
}

/// A field for which a key is weak: 256 packets that differ in its last byte alone, which takes
/// all its values, miss buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weakness {
    pub field: Field,
    /// Of IPv6 packets, or of those of IPv4.
    pub is_ipv6: bool,
    /// Buckets that they reach.
    pub reached_count: u32,
    /// Buckets that they could reach.
    pub reachable_count: u32,
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.field, if self.is_ipv6 { "IPv6" } else { "IPv4" })
    }
}

/// Bits of a field whose values a run of 256 goes through.
const RUN_BITS: usize = 8;

impl Key {
    /// Microsoft's key, with which the documented values of the hash are computed and which many
    /// drivers use.
    #[must_use]
    pub fn microsoft() -> Self {
        Self(Vec::from(MICROSOFT))
    }

    /// A key of these bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] unless there are 40 to 52.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes.len()) {
            return Err(KeyError::Length { bytes: bytes.len() });
        }
        Ok(Self(Vec::from(bytes)))
    }

    /// A key of `length` bytes drawn from `seed`, weak for no field with a table of
    /// `bucket_count` entries, and the number of keys that were drawn to find it.
    ///
    /// # Errors
    ///
    /// [`KeyError::Length`] unless `length` is 40 to 52.
    ///
    /// # Panics
    ///
    /// If 10,000 draws are all weak, of which there is no chance: one in eight is not.
    pub fn random(seed: u64, length: usize, bucket_count: usize) -> Result<(Self, u64), KeyError> {
        for draw in 1..=DRAWS_MAX {
            let position = |index: usize| (draw - 1) * KEY_BYTES_MAX as u64 + index as u64;
            let byte = |index| splitmix64(seed, position(index)).to_be_bytes()[0];
            let bytes: Vec<u8> = (0..length).map(byte).collect();
            let key = Self::new(&bytes)?;
            if key.weaknesses(bucket_count).is_empty() {
                return Ok((key, draw));
            }
        }
        panic!("{DRAWS_MAX} random keys are weak");
    }

    /// The bytes, the first one first.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The 32 bits from bit `offset`: what that bit of the input contributes to the hash. Beyond
    /// the key's end come zeros.
    #[must_use]
    pub(super) fn window(&self, offset: usize) -> u32 {
        let byte = |index: usize| u64::from(self.0.get(index).copied().unwrap_or(0));
        let first = offset / 8;
        let bits = (0..5).fold(0, |bits, index| bits << 8 | byte(first + index));
        let (_, low) = crate::random::halves(bits >> (8 - offset % 8));
        low
    }

    /// The fields, of IPv4 and IPv6 packets, for which this key is weak with a table of
    /// `bucket_count` entries. Empty for a table whose size is not a power of two: there the
    /// modulus mixes all bits of the hash.
    #[must_use]
    pub fn weaknesses(&self, bucket_count: usize) -> Vec<Weakness> {
        if !bucket_count.is_power_of_two() {
            return Vec::new();
        }
        let bits = bucket_count.trailing_zeros();
        let mask = u32::try_from(bucket_count - 1).unwrap_or(u32::MAX);
        let weakness = |(field, is_ipv6): (Field, bool)| {
            let end = field.end_bits(is_ipv6);
            let rank = rank((end - RUN_BITS..end).map(|bit| self.window(bit) & mask));
            let possible = bits.min(8);
            (rank < possible).then_some(Weakness {
                field,
                is_ipv6,
                reached_count: 1 << rank,
                reachable_count: 1 << possible,
            })
        };
        Field::ALL
            .into_iter()
            .flat_map(|field| [(field, false), (field, true)])
            .filter_map(weakness)
            .collect()
    }
}

/// How many of these are independent of each other, as vectors over two elements.
fn rank(vectors: impl Iterator<Item = u32>) -> u32 {
    let mut basis = [0_u32; 32];
    let mut rank = 0;
    for mut vector in vectors {
        while vector != 0 {
            let lead = &mut basis[vector.ilog2() as usize];
            if *lead == 0 {
                *lead = vector;
                rank += 1;
                break;
            }
            vector ^= *lead;
        }
    }
    rank
}

/// As ethtool(8) writes and reads it: bytes in two hexadecimal digits, with colons between them.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Bytes in hexadecimal digits, with colons between them or without.
impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let words: Vec<String> = if text.contains(':') {
            text.split(':').map(ToString::to_string).collect()
        } else {
            let digits: Vec<char> = text.chars().collect();
            digits.chunks(2).map(|pair| pair.iter().collect()).collect()
        };
        let byte = |word: &String| match u8::from_str_radix(word, 16) {
            Ok(byte) if word.len() == 2 && !word.starts_with('+') => Ok(byte),
            _ => Err(KeyError::Digits { word: word.clone() }),
        };
        let bytes = words.iter().map(byte).collect::<Result<Vec<u8>, KeyError>>()?;
        Self::new(&bytes)
    }
}

const MICROSOFT: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn a_key_is_read_with_and_without_colons_and_printed_as_ethtool_does() {
        let key = Key::microsoft();
        let text = key.to_string();
        assert!(text.starts_with("6d:5a:56:da:25") && text.ends_with(":01:fa"), "{text}");
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_eq!(text.replace(':', "").parse(), Ok(key));
    }

    #[test]
    fn what_is_not_a_key_is_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Key>().unwrap_err().to_string();
        assert!(refused("6d:5a").contains("a key has 40 to 52 bytes, not 2"));
        assert!(refused(&"00".repeat(53)).contains("not 53"));
        assert!(refused(&"0".repeat(81)).contains("`0` in a key"));
        assert!(refused(&format!("{}:6", "6d:".repeat(39))).contains("`` in a key"));
        assert!(refused(&format!("+1{}", "00".repeat(39))).contains("`+1` in a key"));
        assert!(refused("").contains("not 0"));
        assert!("52".repeat(52).parse::<Key>().is_ok());
    }

    #[test]
    fn windows_are_the_keys_bits() {
        let key = Key::microsoft();
        assert_eq!(key.window(0), 0x6d5a_56da);
        assert_eq!(key.window(4), 0xd5a5_6da2);
        assert_eq!(key.window(288), 0xbeac_01fa);
        assert_eq!(key.window(312), 0xfa00_0000);
    }

    /// By trying all values of the field's last byte.
    #[test]
    fn a_weak_field_reaches_as_few_buckets_as_counted() {
        // The well-known key that hashes both directions alike, by repeating 16 bits.
        let symmetric = Key::new(&[0x6d, 0x5a].repeat(20)).unwrap();
        for (key, size) in [(symmetric, 128), (Key::microsoft(), 128), (Key::microsoft(), 512)] {
            let weak = key.weaknesses(size);
            for (field, is_ipv6) in Field::ALL.into_iter().flat_map(|f| [(f, false), (f, true)]) {
                let mut reached = alloc::collections::BTreeSet::new();
                for value in 0_u32..256 {
                    let bit = |bit: usize| value >> (RUN_BITS - 1 - bit) & 1 == 1;
                    let hash = (0..RUN_BITS).filter(|index| bit(*index)).fold(0, |hash, index| {
                        hash ^ key.window(field.end_bits(is_ipv6) - RUN_BITS + index)
                    });
                    reached.insert(hash as usize % size);
                }
                let found = weak.iter().find(|weak| (weak.field, weak.is_ipv6) == (field, is_ipv6));
                let expected = found.map_or(size.min(256), |weak| weak.reached_count as usize);
                assert_eq!(reached.len(), expected, "{field}, {is_ipv6}, {size}, {key}");
            }
        }
    }

    #[test]
    fn a_random_key_is_weak_for_no_field_and_comes_from_its_seed() {
        for seed in 0..50 {
            let (key, draws) = Key::random(seed, 52, 128).unwrap();
            assert_eq!(key.bytes().len(), 52);
            assert!(key.weaknesses(128).is_empty());
            assert_eq!(Key::random(seed, 52, 128), Ok((key, draws)));
        }
        assert_eq!(Key::random(1, 39, 128), Err(KeyError::Length { bytes: 39 }));
    }

    /// 57 % of random keys were found to be weak for some field of IPv4, and 68 % of the others are
    /// for one of IPv6.
    #[test]
    fn most_random_keys_are_weak() {
        let weak = (0..1000_u64).filter(|seed| Key::random(*seed, 40, 128).unwrap().1 > 1).count();
        assert!((780..930).contains(&weak), "{weak} of 1000");
    }

    #[test]
    fn a_table_of_no_power_of_two_has_no_weak_fields() {
        assert!(Key::new(&[0; 40]).unwrap().weaknesses(48).is_empty());
        assert_eq!(Key::new(&[0; 40]).unwrap().weaknesses(64).len(), 8);
    }
}

//! Pseudo-random numbers that are functions of a seed and a position, with no state between.
//!
//! [`splitmix64`] is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, in Vigna's version) taken at a
//! position instead of step by step. A program in the kernel computes the same with 64-bit
//! additions, multiplications and shifts alone. Nothing here is fit for cryptography.

/// What the generator's state grows by from one output to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Output number `position`, from 0, of SplitMix64 seeded with `seed`. All arithmetic is modulo
/// 2^64:
///
/// ```text
/// z = seed + (position + 1) * 0x9e3779b97f4a7c15
/// z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
/// z = (z ^ z >> 27) * 0x94d049bb133111eb
/// z ^ z >> 31
/// ```
#[must_use]
pub const fn splitmix64(seed: u64, position: u64) -> u64 {
    let z = seed.wrapping_add(position.wrapping_add(1).wrapping_mul(STEP));
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Maps 32 random bits to `0..count` by multiplying and shifting: `draw * count >> 32`. `count` is
/// at most 2^32, so that the product fits 64 bits. No value is favoured by more than `count / 2^32`
/// of its share.
#[must_use]
pub const fn below(count: u64, draw: u32) -> u64 {
    debug_assert!(count <= 1 << 32);
    ((draw as u64) * count) >> 32
}

/// The upper and the lower 32 bits of a number.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "taking halves is the purpose")]
pub const fn halves(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published outputs for the seed 1234567.
    #[test]
    fn golden() {
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for (position, expected) in (0..).zip(expected) {
            assert_eq!(splitmix64(1_234_567, position), expected);
        }
    }

    #[test]
    fn draws_cover_their_range_and_no_more() {
        assert_eq!((below(1, u32::MAX), below(70, 0), below(70, u32::MAX)), (0, 0, 69));
        assert_eq!(below(1 << 32, u32::MAX), u64::from(u32::MAX));
        assert_eq!(halves(0x0123_4567_89ab_cdef), (0x0123_4567, 0x89ab_cdef));
        let mut counts = [0_u32; 7];
        for position in 0..7_000 {
            let (high, low) = halves(splitmix64(1, position));
            for draw in [high, low] {
                counts[usize::try_from(below(7, draw)).unwrap()] += 1;
            }
        }
        // 2,000 each, give or take five standard deviations; the seed is fixed.
        assert!(counts.iter().all(|count| (1_790..2_210).contains(count)), "{counts:?}");
    }
}

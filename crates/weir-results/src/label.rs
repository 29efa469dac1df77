//! Numbers in labels and names: positions on an axis.
//!
//! `k` and `K`, `M`, `G` are thousands, as everywhere; `Ki`, `Mi`, `Gi`, also with a `B` behind
//! them, and `KB`, `MB`, `GB` are powers of 1024, because such labels count entries of tables.
//! Authors who write `65Ki` mean 65,536, whose thousands are 65: where a power of two lies within
//! the thousand (million, …) that a binary label names, and the label itself is none, it is that
//! power of two. That holds for whole numbers: `1.5Mi` is one and a half times 1,048,576.
//!
//! In a name, a number belongs to the word that is written onto it: `4Mstates-32KBhash` has 4
//! million states and a hash of 32,768. A number that stands alone between separators belongs to
//! the word before it, or behind it if there is none before (`rules-100`, `100-rules`).

use std::cmp::Ordering;

use crate::collection::Level;

/// What may follow a number: multiplier per step of a thousand, and whether it is binary.
const SUFFIXES: [(&str, u32, bool); 14] = [
    ("KiB", 1, true),
    ("MiB", 2, true),
    ("GiB", 3, true),
    ("Ki", 1, true),
    ("Mi", 2, true),
    ("Gi", 3, true),
    ("KB", 1, true),
    ("MB", 2, true),
    ("GB", 3, true),
    ("k", 1, false),
    ("K", 1, false),
    ("M", 2, false),
    ("G", 3, false),
    ("", 0, false),
];

/// The number that all of a label is; `None` if it is none.
pub fn number(label: &str) -> Option<f64> {
    let (mantissa, rest) = leading_number(label)?;
    let (_, power, binary) = SUFFIXES.iter().find(|(suffix, ..)| *suffix == rest)?;
    Some(scaled(mantissa, *power, *binary))
}

/// The number that the last part of a name is, or all of it: `flows-4900`, `128`.
pub(crate) fn at_the_end(name: &str) -> Option<f64> {
    number(tokens(name).last()?)
}

/// Names in the order in which a person puts them: `1K` before `10K`, and `64Ki` before `1M`.
#[must_use]
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) else {
            // What is equal so far, as `1K` and `1000` are, is told apart by its letters.
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        if let (Some((x, x_rest)), Some((y, y_rest))) = (counted(left), counted(right)) {
            match x.total_cmp(&y) {
                Ordering::Equal => (left, right) = (x_rest, y_rest),
                unequal => return unequal,
            }
            continue;
        }
        if first != second {
            return first.cmp(&second);
        }
        (left, right) = (&left[first.len_utf8()..], &right[second.len_utf8()..]);
    }
}

/// The number at the beginning with the suffix that belongs to it, and what follows.
fn counted(text: &str) -> Option<(f64, &str)> {
    let (mantissa, rest) = leading_number(text).or_else(|| {
        // A point that ends the digits separates words.
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        Some((text[..end].parse().ok()?, &text[end..]))
    })?;
    let is_word = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    SUFFIXES.iter().find_map(|(suffix, power, binary)| {
        let rest = rest.strip_prefix(suffix).filter(|rest| suffix.is_empty() || !is_word(rest))?;
        Some((scaled(mantissa, *power, *binary), rest))
    })
}

/// The numbers in a name, with the words that they belong to, in their order.
pub fn in_name(name: &str) -> Vec<Level> {
    let tokens = tokens(name);
    let mut found: Vec<Level> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let Some((dimension, value, label)) = joined(token).or_else(|| {
            let value = number(token)?;
            let before = index.checked_sub(1).and_then(|i| word(tokens[i]));
            let behind = || tokens.get(index + 1).and_then(|next| word(next));
            Some((before.or_else(behind)?, value, (*token).to_owned()))
        }) else {
            continue;
        };
        if found.iter().all(|other| other.dimension != dimension) {
            found.push(Level { dimension, label, number: Some(value) });
        }
    }
    found
}

/// The parts of a name between its separators; a point between digits is none.
fn tokens(name: &str) -> Vec<&str> {
    let bytes = name.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let inside_number = *byte == b'.' && at > 0 && is_digit(at - 1) && is_digit(at + 1);
        if b"-_.+=, /".contains(byte) && !inside_number {
            parts.push(&name[start..at]);
            start = at + 1;
        }
    }
    parts.push(&name[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// `32KBhash`: the word, the number, and how that is written.
fn joined(token: &str) -> Option<(String, f64, String)> {
    let (mantissa, rest) = leading_number(token)?;
    SUFFIXES.iter().find_map(|(suffix, power, binary)| {
        let word = word(rest.strip_prefix(suffix)?)?;
        let label = &token[..token.len() - word.len()];
        Some((word, scaled(mantissa, *power, *binary), label.to_owned()))
    })
}

/// Two letters or more, and nothing else, as the name of a dimension.
fn word(text: &str) -> Option<String> {
    let is_word = text.len() >= 2 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_word.then(|| text.to_ascii_lowercase())
}

/// Digits with an optional fraction, and what follows them.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let end = text.bytes().position(|byte| !is_part(byte)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let ends_well = digits.starts_with(|c: char| c.is_ascii_digit()) && !digits.ends_with('.');
    let value: f64 = digits.parse().ok().filter(|_| ends_well)?;
    Some((value, rest))
}

fn scaled(mantissa: f64, power: u32, binary: bool) -> f64 {
    let power = i32::try_from(power).unwrap_or(0);
    let thousands = 1000_f64.powi(power);
    if !binary {
        return mantissa * thousands;
    }
    let is_power_of_two = |value: f64| value >= 1.0 && value.log2().fract() == 0.0;
    let next = 2_f64.powi(exponent_above(mantissa * thousands));
    let is_whole = mantissa.fract() == 0.0;
    if is_whole && !is_power_of_two(mantissa) && next < (mantissa + 1.0) * thousands {
        return next;
    }
    mantissa * 1024_f64.powi(power)
}

/// The smallest exponent of two that gives `value` or more.
fn exponent_above(value: f64) -> i32 {
    (0..64).find(|&exponent| 2_f64.powi(exponent) >= value).unwrap_or(64)
}

/// Units, the largest first: how many make one, and its name.
pub(crate) type Units = [(f64, &'static str); 3];

/// What the name of a size ends with, what that is at the head of a column, and its units.
const SIZE_SUFFIXES: [(&str, &str, Units); 6] = [
    ("_bytes_per_second", " bytes per second", [(1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")]),
    ("_bytes", ", bytes", [(1e6, "MB"), (1e3, "kB"), (1.0, "B")]),
    ("_ms", ", ms", [(1.0, "ms"); 3]),
    ("_ns", "", [(1e6, "ms"), (1e3, "µs"), (1.0, "ns")]),
    ("_us", ", µs", [(1e6, "s"), (1e3, "ms"), (1.0, "µs")]),
    ("_per_second", " per second", COUNTS),
];
const COUNTS: Units = [(1e6, "M"), (1e3, "k"), (1.0, "")];

/// The name of what a DUT reports of itself, without its unit, and that.
fn size_unit(name: &str) -> (&str, &'static str, Units) {
    let of = |&(suffix, words, units)| Some((name.strip_suffix(suffix)?, words, units));
    SIZE_SUFFIXES.iter().find_map(of).unwrap_or((name, "", COUNTS))
}

/// The units of what a DUT reports of itself.
pub(crate) fn size_units(name: &str) -> Units {
    size_unit(name).2
}

/// What a DUT reports of itself, at the head of a column: `index_size_bytes` is `Index size,
/// bytes`.
pub(crate) fn size_title(name: &str) -> String {
    let (words, unit, _) = size_unit(name);
    let mut text = words.replace('_', " ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_order_of_their_numbers() {
        let expected = [
            "2", "10", "a.9", "a.1K", "a.10K", "a.64Ki", "a.1M", "a.1M.x", "b.2.pf", "b.10.pf",
            "ix2k", "kern9x", "kern10",
        ];
        let mut names = expected.map(str::to_owned).to_vec();
        names.sort();
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, expected);
        assert_eq!(natural_order("1K", "1000"), Ordering::Greater);
        assert_eq!(natural_order("é1", "é1"), Ordering::Equal);
    }

    #[test]
    fn labels_are_numbers() {
        for (label, value) in [
            ("128", 128.0),
            ("1K", 1000.0),
            ("10M", 1e7),
            ("2.5k", 2500.0),
            ("32Ki", 32_768.0),
            ("32KiB", 32_768.0),
            ("32KB", 32_768.0),
            ("65Ki", 65_536.0),
            ("65KiB", 65_536.0),
            ("131KB", 131_072.0),
            ("100Ki", 102_400.0),
            ("1Mi", 1_048_576.0),
            ("16MB", 16_777_216.0),
            ("65K", 65_000.0),
            ("1.5Mi", 1_572_864.0),
            ("7.5Ki", 7680.0),
            ("0.5Mi", 524_288.0),
            ("65.0Ki", 65_536.0),
        ] {
            assert_eq!(number(label), Some(value), "{label}");
        }
        for label in ["", "K", "1x", "inet4", "1.", ".5", "1.2.3", "4Mstates", "-1", "1e5", "nan"] {
            assert_eq!(number(label), None, "{label}");
        }
    }

    #[test]
    fn a_name_may_end_in_a_number() {
        assert_eq!(at_the_end("flows-100k"), Some(1e5));
        assert_eq!(at_the_end("10M"), Some(1e7));
        for name in ["", "fbsd10", "4Mstates", "10-flows"] {
            assert_eq!(at_the_end(name), None, "{name}");
        }
    }

    #[test]
    fn numbers_in_names_have_the_words_beside_them() {
        let read = |name: &str| -> Vec<(String, String, f64)> {
            let of = |level: Level| (level.dimension, level.label, level.number.unwrap());
            in_name(name).into_iter().map(of).collect()
        };
        let level = |dimension: &str, label: &str, number: f64| {
            (dimension.to_owned(), label.to_owned(), number)
        };
        let both = [level("states", "4M", 4e6), level("hash", "32KB", 32_768.0)];
        assert_eq!(read("4Mstates-32KBhash"), both);
        assert_eq!(read("65KBhash"), [level("hash", "65KB", 65_536.0)]);
        assert_eq!(read("rules-100"), [level("rules", "100", 100.0)]);
        assert_eq!(read("100_rules"), [level("rules", "100", 100.0)]);
        assert_eq!(read("flows.0.5M"), [level("flows", "0.5M", 500_000.0)]);
        assert_eq!(read("4Cores"), [level("cores", "4", 4.0)]);
        for name in ["pf-stateful", "inet6", "128", "r287531", "", "---", "é5"] {
            assert_eq!(read(name), [], "{name}");
        }
    }
}

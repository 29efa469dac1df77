//! Rates, counts and durations as people write them, and back.
//!
//! One place for every unit that the command line and the campaign file accept: `k`, `M`, `G` are
//! powers of 1000, `Ki`, `Mi`, `Gi` powers of 1024; `_` may separate digits. Everything that
//! [`core::fmt::Display`] prints here is read back to the same value.
//!
//! It never guesses: a comma, an exponent, a missing or unknown unit is refused, and the message
//! says what is accepted. It knows nothing about links: a percentage stays a percentage until
//! somebody who knows the line rate resolves it.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

#[cfg(test)]
mod tests;

/// The longest decimal mantissa that is read exactly.
const DIGITS_MAX: usize = 19;

/// Multipliers by prefix, longest spelling first so that `Ki` is not taken for an unknown `i`.
const PREFIXES: [(&str, u64); 6] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// Units of time and their length in nanoseconds, largest first.
const TIME_UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const ACCEPTED_NUMBER: &str =
    "digits with an optional fraction and one of k, M, G (1000) or Ki, Mi, Gi (1024)";
const ACCEPTED_COUNT: &str = "a whole number such as 4_900, 100k or 64Ki";
const ACCEPTED_RATE: &str = "`max`, packets per second (`50kpps`, `1.5Mpps`, a bare number), \
     bits per second (`500Mbps`) or a share of the line rate (`80%`)";
const ACCEPTED_DURATION: &str = "a number and a unit: `500us`, `200ms`, `3s`, `5m`, `1h`";

/// Why a text is not a number, count, rate or duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a number with a known prefix.
    #[error("`{text}` is not a {what}: {reason}; accepted is {accepted}")]
    Malformed {
        /// The text as given.
        text: String,
        /// What was expected: "rate", "duration", ….
        what: &'static str,
        /// What is wrong with it.
        reason: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// The value cannot be represented or is outside what makes sense.
    #[error("`{text}` is out of range for a {what}: {reason}")]
    OutOfRange {
        /// The text as given.
        text: String,
        /// What was expected.
        what: &'static str,
        /// Which bound it breaks.
        reason: &'static str,
    },
}

/// How fast to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// As fast as the machine can.
    Max,
    /// Packets per second, above zero and finite.
    Pps(f64),
    /// Bits per second of frames, without FCS, preamble and gap.
    Bps(u64),
    /// Share of the line rate in percent, above 0 and at most 100.
    Percent(f64),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Max => f.write_str("max"),
            Self::Pps(rate_pps) => {
                let (number, prefix) = scaled(rate_pps);
                write!(f, "{number}{prefix}pps")
            }
            Self::Bps(rate_bps) => {
                let (divisor, prefix) = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")]
                    .into_iter()
                    .find(|(divisor, _)| rate_bps != 0 && rate_bps % divisor == 0)
                    .unwrap_or((1, ""));
                write!(f, "{}{prefix}bps", rate_bps / divisor)
            }
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const WHAT: &str = "rate";
        if text == "max" {
            return Ok(Self::Max);
        }
        if let Some(number) = text.strip_suffix('%') {
            let share = Decimal::parse(number)
                .map_err(|reason| malformed(text, WHAT, reason, ACCEPTED_RATE))?
                .to_f64();
            if share <= 0.0 || share > 100.0 {
                return Err(out_of_range(text, WHAT, "above 0 % and at most 100 % of the line"));
            }
            return Ok(Self::Percent(share));
        }
        let (number, bits) = match text.strip_suffix("bps") {
            Some(number) => (number, true),
            None => (text.strip_suffix("pps").unwrap_or(text), false),
        };
        let value = Decimal::parse(number)
            .map_err(|reason| malformed(text, WHAT, reason, ACCEPTED_RATE))?;
        if value.digits == 0 {
            return Err(out_of_range(text, WHAT, "it must be above zero"));
        }
        if bits {
            return value.to_u64().map(Self::Bps).ok_or_else(|| {
                out_of_range(text, WHAT, "bits per second must be a whole number of 64 bits")
            });
        }
        Ok(Self::Pps(value.to_f64()))
    }
}

/// Reads a number with an optional sign, fraction and prefix: `65Ki` is 65536, `-1.5k` is -1500.
///
/// # Errors
/// [`UnitError`] when the text is anything else.
pub fn parse_number(text: &str) -> Result<f64, UnitError> {
    let (magnitude, sign) = match text.strip_prefix('-') {
        Some(rest) => (rest, -1.0),
        None => (text, 1.0),
    };
    Decimal::parse(magnitude)
        .map(|value| sign * value.to_f64())
        .map_err(|reason| malformed(text, "number", reason, ACCEPTED_NUMBER))
}

/// Reads a whole, non-negative number: `4_900`, `100k`, `1.5M`, `64Ki`.
///
/// # Errors
/// [`UnitError`] when the text is not a number, not whole, or needs more than 64 bits.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    const WHAT: &str = "count";
    Decimal::parse(text)
        .map_err(|reason| malformed(text, WHAT, reason, ACCEPTED_COUNT))?
        .to_u64()
        .ok_or_else(|| out_of_range(text, WHAT, "it must be a whole number of at most 64 bits"))
}

/// Reads a rate: see [`Rate`].
///
/// # Errors
/// [`UnitError`] when the text is not a rate, or zero, or above 100 %.
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    text.parse()
}

/// Reads a duration: a number and one of `ns`, `us`, `ms`, `s`, `m`, `h`. Zero is a duration.
///
/// # Errors
/// [`UnitError`] when the unit is missing or unknown, the number negative or malformed, or the
/// result finer than a nanosecond or longer than 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const WHAT: &str = "duration";
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let Some(&(_, unit_ns)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
        let reason = if unit.is_empty() {
            "it has no unit".into()
        } else {
            format!("unknown unit `{unit}`")
        };
        return Err(malformed(text, WHAT, reason, ACCEPTED_DURATION));
    };
    let value = Decimal::parse(number)
        .map_err(|reason| malformed(text, WHAT, reason, ACCEPTED_DURATION))?;
    Decimal { multiplier: unit_ns, ..value }
        .to_u64()
        .map(Duration::from_nanos)
        .ok_or_else(|| out_of_range(text, WHAT, "whole nanoseconds, less than 584 years"))
}

/// Prints a duration as a whole number of the largest unit that fits: `200ms`, `90s`, `2m`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let duration_ns = duration.as_nanos();
    if duration_ns == 0 {
        return "0s".into();
    }
    let (unit, unit_ns) = TIME_UNITS
        .into_iter()
        .find(|(_, unit_ns)| duration_ns.is_multiple_of(u128::from(*unit_ns)))
        .unwrap_or(("ns", 1));
    format!("{}{unit}", duration_ns / u128::from(unit_ns))
}

/// Prints a count with thousands separators for people: `4,900`. Not meant to be read back.
#[must_use]
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Prints a link's speed for people, in full: `2.5 Gbit/s`, `100 Mbit/s`. Not to be read back.
#[must_use]
pub fn format_bps(link_bps: u64) -> String {
    let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    let (divisor, unit) =
        units.into_iter().find(|(divisor, _)| link_bps >= *divisor).unwrap_or((1, "bit/s"));
    let fraction = format!("{:0width$}", link_bps % divisor, width = divisor.ilog10() as usize);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction} {unit}", format_count(link_bps / divisor))
}

/// A duration in whole nanoseconds; what does not fit is the largest that does.
#[must_use]
pub fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A decimal number kept exactly: `digits * multiplier / 10^fraction_digits`.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u64,
    fraction_digits: u32,
    multiplier: u64,
}

impl Decimal {
    /// Reads `DIGITS[.DIGITS][PREFIX]`; the error is a phrase for the caller's message.
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the number is missing".into());
        }
        let (mantissa, multiplier) = PREFIXES
            .iter()
            .find_map(|(prefix, multiplier)| {
                text.strip_suffix(prefix).map(|rest| (rest, *multiplier))
            })
            .unwrap_or((text, 1));
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err("there are no digits after the point".into()),
            Some((whole, fraction)) => (whole, fraction),
            None => (mantissa, ""),
        };
        if !whole.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("it does not start with a digit".into());
        }
        let mut digits: u64 = 0;
        let mut digit_count = 0;
        for character in whole.chars().chain(fraction.chars()) {
            if character == '_' {
                continue;
            }
            let Some(digit) = character.to_digit(10) else {
                return Err(format!("unexpected `{character}`"));
            };
            digit_count += usize::from(digits > 0 || digit > 0);
            if digit_count > DIGITS_MAX {
                return Err(format!("it has more than {DIGITS_MAX} digits"));
            }
            digits = digits * 10 + u64::from(digit);
        }
        let fraction_digits = fraction.chars().filter(char::is_ascii_digit).count();
        match u32::try_from(fraction_digits) {
            Ok(fraction_digits) if fraction_digits <= 19 => {
                Ok(Self { digits, fraction_digits, multiplier })
            }
            _ => Err("its fraction has more than 19 digits".into()),
        }
    }

    fn numerator(self) -> u128 {
        u128::from(self.digits) * u128::from(self.multiplier)
    }

    fn denominator(self) -> u128 {
        10_u128.pow(self.fraction_digits)
    }

    /// The value if it is whole and has at most 64 bits.
    fn to_u64(self) -> Option<u64> {
        if !self.numerator().is_multiple_of(self.denominator()) {
            return None;
        }
        u64::try_from(self.numerator() / self.denominator()).ok()
    }

    /// The nearest floating-point value (one rounding for anything below 2^53).
    fn to_f64(self) -> f64 {
        self.numerator() as f64 / self.denominator() as f64
    }
}

/// Splits a rate into a short number and a prefix that together read back to the same value.
fn scaled(value: f64) -> (String, &'static str) {
    for (divisor, prefix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        let number = (value / divisor).to_string();
        let exact = parse_number(&format!("{number}{prefix}")).is_ok_and(|read| read == value);
        if value >= divisor && exact {
            return (number, prefix);
        }
    }
    (value.to_string(), "")
}

fn malformed(text: &str, what: &'static str, reason: String, accepted: &'static str) -> UnitError {
    UnitError::Malformed { text: text.into(), what, reason, accepted }
}

fn out_of_range(text: &str, what: &'static str, reason: &'static str) -> UnitError {
    UnitError::OutOfRange { text: text.into(), what, reason }
}

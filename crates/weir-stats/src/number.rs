//! Numbers as C's `printf` writes them with `%g` (ISO C17 §7.21.6.1), and as `strtod` reads them
//! (§7.22.1.3); shares in per cent.
//!
//! ministat, gnuplot data and everything that reads them use `%g` and `%.8g`: a number of
//! significant digits, in fixed notation unless the exponent is under −4 or not under the
//! precision, without trailing zeros. The last digit is rounded correctly, ties to even, as glibc
//! and FreeBSD do. A NaN has no sign, as in FreeBSD. Locales, flags and widths are not handled: pad
//! the text.

/// A share in per cent, without the last digits of its binary form: 0.007 is 0.7 %, and not
/// 0.7000000000000001 %.
#[must_use]
pub fn percent(ratio: f64) -> f64 {
    (ratio * 1e10).round() / 1e8
}

/// `%g`: six significant digits.
#[must_use]
pub fn g(value: f64) -> String {
    g_precision(value, 6)
}

/// `%.8g`: eight significant digits, as in `gnuplot.data` and ministat's table.
#[must_use]
pub fn g8(value: f64) -> String {
    g_precision(value, 8)
}

/// `%.Ng` with `precision` significant digits; 0 counts as 1.
#[must_use]
pub fn g_precision(value: f64, precision: u16) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let digits = usize::from(precision.max(1));
    // The exponent counts after rounding: 9.9999999 is 1e+01 in four digits.
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match usize::try_from(exponent + 4) {
        // −4 ≤ exponent < precision: fixed notation with the digits that are left.
        Ok(shifted) if shifted < digits + 4 => {
            without_trailing_zeros(&format!("{value:.*}", digits + 3 - shifted)).to_owned()
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            let mantissa = without_trailing_zeros(mantissa);
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

fn without_trailing_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// White space in C's own locale.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number that all of `text` is, as `strtod` of C's own locale reads it: white space before it,
/// a sign, decimal or hexadecimal digits with an exponent, an infinity, a NaN. `None` for anything
/// else, also if something follows the number.
#[must_use]
pub fn parse(text: &[u8]) -> Option<f64> {
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let text = std::str::from_utf8(&text[start..]).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) => {
            let value = hexadecimal(digits)?;
            Some(if text.starts_with('-') { -value } else { value })
        }
        // Rust's grammar of decimal numbers is C's.
        None => text.parse().ok(),
    }
}

/// The number behind `0x`: digits, at most one point, and the power of two behind a `p`.
fn hexadecimal(text: &str) -> Option<f64> {
    /// As many digits as fit beside the bit that stands for all that follow.
    const SIGNIFICAND_MAX: u64 = 1 << 59;
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut significand = 0_u64;
    let mut power = exponent.saturating_sub(4 * i64::try_from(fraction.len()).ok()?);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if significand < SIGNIFICAND_MAX {
            significand = significand * 16 + digit;
        } else {
            // Only whether it is zero matters for rounding.
            significand |= u64::from(digit != 0);
            power = power.saturating_add(4);
        }
    }
    // In steps, because a power alone may be out of range where the product is not.
    let mut value = significand as f64;
    let mut power = i32::try_from(power.clamp(-5000, 5000)).ok()?;
    while power != 0 && value != 0.0 {
        let step = power.clamp(-1000, 1000);
        value *= 2_f64.powi(step);
        power -= step;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        for (value, six, eight) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (100_000.0, "100000", "100000"),
            (1_000_000.0, "1e+06", "1000000"),
            (999_999.5, "1e+06", "999999.5"),
            (999_999.4, "999999", "999999.4"),
            (238.047_614_284_761_7, "238.048", "238.04761"),
            (28_821_627.0, "2.88216e+07", "28821627"),
            (123_456_789.0, "1.23457e+08", "1.2345679e+08"),
            (0.000_1, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "1e-05"),
            (0.000_099_999_95, "0.0001", "9.999995e-05"),
            (-2.5e-7, "-2.5e-07", "-2.5e-07"),
            (1e300, "1e+300", "1e+300"),
            (5e-324, "4.94066e-324", "4.9406565e-324"),
            (f64::INFINITY, "inf", "inf"),
            (f64::NEG_INFINITY, "-inf", "-inf"),
            (f64::NAN, "nan", "nan"),
            (-f64::NAN, "nan", "nan"),
        ] {
            assert_eq!(g(value), six);
            assert_eq!(g8(value), eight);
        }
    }

    #[test]
    fn what_strtod_reads() {
        for (text, value) in [
            ("1", 1.0),
            (" \t-2.5e3", -2500.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8", 0.5),
            ("0x1p-1074", 5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x123456789abcdef0123", 5_373_003_642_731_685_000_000.0),
            ("0x0p999999", 0.0),
            ("0x1p9999999999", f64::INFINITY),
            ("INF", f64::INFINITY),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse(b"nan").is_some_and(f64::is_nan));
        for text in ["", " ", "1 ", "1x", "e5", ".", "1e", "0x", "0x.", "0x1p", "0xg", "1.2.3"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"1\xff"), None);
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!(g_precision(0.5, 0), "0.5");
        assert_eq!(g_precision(2.5, 1), "2");
        assert_eq!(g_precision(3.5, 1), "4");
        assert_eq!(g_precision(112.5, 3), "112");
    }

    proptest! {
        #[test]
        fn seventeen_digits_are_the_number(value in prop::num::f64::NORMAL | prop::num::f64::ZERO) {
            prop_assert_eq!(g_precision(value, 17).parse::<f64>().unwrap(), value);
        }

        #[test]
        fn hexadecimal_digits_are_exact(significand in 0_u64..1 << 53, power in -1000_i32..900) {
            let expected = significand as f64 * 2_f64.powi(power);
            let text = format!("0x{significand:x}p{power}");
            prop_assert_eq!(parse(text.as_bytes()), Some(expected));
            let text = format!("0x.{significand:014x}p{}", power + 56);
            prop_assert_eq!(parse(text.as_bytes()), Some(expected));
        }

        #[test]
        fn precise_to_half_a_digit(value in -1e12_f64..1e12, precision in 1_u16..18) {
            let read: f64 = g_precision(value, precision).parse().unwrap();
            let bound = value.abs() * 10_f64.powi(1 - i32::from(precision)) / 2.0;
            prop_assert!((read - value).abs() <= bound * 1.000_001);
        }
    }
}

//! Numbers as C's `printf` writes them with `%g` (ISO C17 §7.21.6.1).
//!
//! ministat, gnuplot data and everything that reads them use `%g` and `%.8g`: a number of
//! significant digits, in fixed notation unless the exponent is under −4 or not under the
//! precision, without trailing zeros. The last digit is rounded correctly, ties to even, as glibc
//! and FreeBSD do. A NaN has no sign, as in FreeBSD. Locales, flags and widths are not handled: pad
//! the text.

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
        fn precise_to_half_a_digit(value in -1e12_f64..1e12, precision in 1_u16..18) {
            let read: f64 = g_precision(value, precision).parse().unwrap();
            let bound = value.abs() * 10_f64.powi(1 - i32::from(precision)) / 2.0;
            prop_assert!((read - value).abs() <= bound * 1.000_001);
        }
    }
}

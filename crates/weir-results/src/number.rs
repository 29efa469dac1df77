//! Numbers as every report, table and line of output writes them: the one place where a rate gets
//! its unit and its digits.
//!
//! Counts have thousands separators, shares are in per cent, a minus is U+2212. Mpps is the unit of
//! the field, so that it begins at a tenth of one. Nothing here is meant to be read back; what is,
//! is in `units`.

/// Significant digits of a rate, wherever it is shown.
const DIGITS: u8 = 4;

/// Significant digits of a delay, and of a time per packet.
const TIME_DIGITS: u8 = 3;

/// A packet rate with the unit that suits it: `0.8700 Mpps`, `50.00 kpps`, `12.00 pps`.
#[must_use]
pub fn pps(rate_pps: f64) -> String {
    in_scale(rate_pps, Scale::pps(rate_pps))
}

/// Bits per second with the unit that suits them: `4,252 Mbit/s`, `50.00 kbit/s`.
#[must_use]
pub fn bps(rate_bps: f64) -> String {
    in_scale(rate_bps, Scale::bps(rate_bps))
}

/// A unit of rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// How many packets, bits or connections make one of it.
    pub(crate) divisor: f64,
    pub(crate) name: &'static str,
}

impl Scale {
    /// What a packet rate is written in.
    pub(crate) fn pps(rate_pps: f64) -> Self {
        Self::suited(rate_pps, [(1e6, "Mpps"), (1e3, "kpps"), (1.0, "pps")])
    }

    /// What bits per second are written in.
    pub(crate) fn bps(rate_bps: f64) -> Self {
        Self::suited(rate_bps, [(1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
    }

    /// What connections per second are written in.
    pub(crate) fn cps(rate_cps: f64) -> Self {
        Self::suited(rate_cps, [(1e6, "Mconn/s"), (1e3, "kconn/s"), (1.0, "conn/s")])
    }

    /// What requests per second are written in.
    pub(crate) fn rps(rate_rps: f64) -> Self {
        Self::suited(rate_rps, [(1e6, "Mreq/s"), (1e3, "kreq/s"), (1.0, "req/s")])
    }

    /// What a number of connections is written in.
    pub(crate) fn connections(count: f64) -> Self {
        Self::suited(count, [(1e6, "Mconn"), (1e3, "kconn"), (1.0, "conn")])
    }

    /// What a delay in nanoseconds is written in: the next one from where rounding would otherwise
    /// write `1,000`.
    pub(crate) fn delay(delay_ns: f64) -> Self {
        let (divisor, name) = match delay_ns.abs() {
            ns if ns >= 999.5e6 => (1e9, "s"),
            ns if ns >= 999.5e3 => (1e6, "ms"),
            ns if ns >= 999.5 => (1e3, "µs"),
            _ => (1.0, "ns"),
        };
        Self { divisor, name }
    }

    /// The first from a tenth of it on, the second from one of it on: from where rounding would
    /// otherwise write `1,000 pps` or `100.0 kpps`.
    pub(crate) fn suited(rate: f64, [mega, kilo, one]: [(f64, &'static str); 3]) -> Self {
        let (divisor, name) = match rate.abs() {
            rate if rate >= 99_995.0 => mega,
            rate if rate >= 999.95 => kilo,
            _ => one,
        };
        Self { divisor, name }
    }
}

pub(crate) fn in_scale(rate: f64, unit: Scale) -> String {
    format!("{} {}", significant(rate / unit.divisor, DIGITS), unit.name)
}

pub(crate) fn range((low, low_unit): (f64, Scale), (high, high_unit): (f64, Scale)) -> String {
    let whole = in_scale(high, high_unit);
    if low_unit != high_unit {
        return format!("{}–{whole}", in_scale(low, low_unit));
    }
    match significant(low / low_unit.divisor, DIGITS) {
        // Equal, as far as they are written.
        low if whole.split(' ').next() == Some(&low) => whole,
        low => format!("{low}–{whole}"),
    }
}

/// So many significant digits, all whole ones, no more than six decimals, and no exponent.
#[must_use]
pub fn significant(value: f64, digits: u8) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let mut decimals = 0;
    // The least that is written with all digits before the point, as it is rounded.
    let mut bound = 10_f64.powi(i32::from(digits) - 1) * (1.0 - 0.5 / 10_f64.powi(digits.into()));
    while value.abs() < bound && decimals < 6 {
        bound /= 10.0;
        decimals += 1;
    }
    signed(value, decimals)
}

/// A fixed number of decimals, thousands separated, with a true minus.
#[must_use]
pub fn signed(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_zero = digits.bytes().all(|b| b == b'0' || b == b'.');
    let minus = if value < 0.0 && !is_zero { "\u{2212}" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{minus}{}{point}{fraction}", grouped(whole))
}

/// A count with thousands separators.
#[must_use]
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 flow`, `4,900 flows`.
#[must_use]
pub fn counted(value: u64, singular: &str) -> String {
    counted_text(&count(value), singular)
}

/// [`counted`] of a number or a range of numbers that is written already: `3 to 5 iterations`.
#[must_use]
pub fn counted_text(count: &str, singular: &str) -> String {
    format!("{count} {singular}{}", if count == "1" { "" } else { "s" })
}

/// [`counted`] of a length.
#[must_use]
pub fn counted_len(value: usize, singular: &str) -> String {
    counted(u64::try_from(value).unwrap_or(u64::MAX), singular)
}

/// A bar of `#`, 40 of them for the most of all that stand below each other.
#[must_use]
pub fn bar(value: f64, most: f64) -> String {
    let length = if most > 0.0 { (value / most * 40.0).round() } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion from floating point saturates, and lengths are small"
    )]
    let length = length as usize;
    "#".repeat(length)
}

/// A character for each value, from `▁` for nothing to `█` for the most of all; of more values than
/// `width` those in a row share one, with their mean.
#[must_use]
pub fn heights(values: &[f64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = values.len().div_ceil(width.max(1)).max(1);
    #[expect(clippy::cast_precision_loss, reason = "there are few values")]
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let means: Vec<f64> = values.chunks(each).map(mean).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let block = |value: f64| {
        // Whatever is not nothing shows.
        let is_reached = |step: &u8| value / most * 7.0 >= f64::from(*step) - 0.5;
        let least = u8::from(value > 0.0);
        BLOCKS[usize::from((1..=7).rev().find(is_reached).unwrap_or(least))]
    };
    means.into_iter().map(block).collect()
}

/// A share in per cent: as many digits as tell it from 0 and from 100 %.
#[must_use]
pub fn share(ratio: f64) -> String {
    let percent = ratio * 100.0;
    let magnitude = percent.abs();
    let decimals = match magnitude {
        0.0 => return "0 %".to_owned(),
        m if m < 0.0005 => return "< 0.001 %".to_owned(),
        m if m < 0.095 => 3,
        m if m < 0.95 => 2,
        m if (99.5..99.95).contains(&m) => 2,
        m if m < 9.95 || (99.0..100.0).contains(&m) => 1,
        _ => 0,
    };
    format!("{} %", signed(percent, decimals))
}

/// A share that was asked for, in per cent: `0.5 %`, with every digit that it was given.
#[must_use]
pub fn percent(ratio: f64) -> String {
    format!("{} %", weir_stats::number::percent(ratio))
}

/// A probability; only what is certain is 0 or 100 %.
#[must_use]
pub fn probability(probability: f64) -> String {
    match probability * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "<0.1 %".to_owned(),
        percent if percent > 99.9 && percent < 100.0 => ">99.9 %".to_owned(),
        percent if (0.1..9.95).contains(&percent) || (99.0..99.95).contains(&percent) => {
            format!("{percent:.1} %")
        }
        percent => format!("{percent:.0} %"),
    }
}

/// Decimals at which a value is worth writing, given the half width of its interval.
#[must_use]
pub(crate) fn decimals_for(half_width: f64) -> usize {
    match half_width.abs() {
        0.0 => 1,
        w if w >= 1.95 => 0,
        w if w >= 0.195 => 1,
        w if w >= 0.0195 => 2,
        _ => 3,
    }
}

/// A duration as a person says it: `1 h 20 min`, `1 min 30 s`, `2.5 s`, `200 ms`. From an hour on
/// it is rounded to the minute, from a minute on to the second, from a second on to a tenth of it.
#[must_use]
pub fn duration(duration_ns: u64) -> String {
    const SECOND_NS: u64 = 1_000_000_000;
    let seconds = duration_ns.saturating_add(SECOND_NS / 2) / SECOND_NS;
    let minutes = seconds.saturating_add(30) / 60;
    let tenths = duration_ns.saturating_add(SECOND_NS / 20) / (SECOND_NS / 10);
    let two = |(large, large_unit): (u64, &str), (small, small_unit): (u64, &str)| {
        let large = format!("{} {large_unit}", count(large));
        if small == 0 { large } else { format!("{large} {small} {small_unit}") }
    };
    match duration_ns {
        0 => "0 s".to_owned(),
        _ if minutes >= 24 * 60 => two((minutes / 1_440, "d"), (minutes % 1_440 / 60, "h")),
        _ if seconds >= 60 * 60 => two((minutes / 60, "h"), (minutes % 60, "min")),
        _ if tenths >= 600 => two((seconds / 60, "min"), (seconds % 60, "s")),
        _ if duration_ns >= SECOND_NS && tenths.is_multiple_of(10) => format!("{} s", tenths / 10),
        _ if duration_ns >= SECOND_NS => format!("{}.{} s", tenths / 10, tenths % 10),
        n if n.is_multiple_of(1_000_000) => format!("{} ms", n / 1_000_000),
        n if n.is_multiple_of(1_000) => format!("{} µs", count(n / 1_000)),
        n => format!("{} ns", count(n)),
    }
}

/// A delay in nanoseconds, with three significant digits in the unit that suits it; below a
/// microsecond it is whole.
#[must_use]
pub fn delay(delay_ns: f64) -> String {
    let Scale { divisor, name } = Scale::delay(delay_ns);
    match name {
        "ns" => format!("{} ns", signed(delay_ns, 0)),
        _ => format!("{} {name}", significant(delay_ns / divisor, TIME_DIGITS)),
    }
}

/// [`delay`] of a count of nanoseconds.
#[must_use]
pub fn delay_ns(delay_ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "delays stay far below 2^53")]
    delay(delay_ns as f64)
}

/// A time per packet: nanoseconds in three digits.
#[must_use]
pub fn cost(cost_ns: f64) -> String {
    format!("{} ns", significant(cost_ns, TIME_DIGITS))
}

/// Sizes of frames in bytes: one, or the smallest and the largest.
#[must_use]
pub fn sizes((min_bytes, max_bytes): (u16, u16)) -> String {
    if min_bytes == max_bytes {
        min_bytes.to_string()
    } else {
        format!("{min_bytes}–{max_bytes}")
    }
}

/// A time to the second; anything but RFC 3339 in UTC is left as it is.
#[must_use]
pub(crate) fn utc(time: &str) -> String {
    match time.strip_suffix('Z').and_then(|t| t.split_once('T')) {
        Some((date, clock)) => {
            let seconds = clock.split_once('.').map_or(clock, |(seconds, _)| seconds);
            format!("{date} {seconds} UTC")
        }
        None => time.to_owned(),
    }
}

/// What stands for a figure that there is not.
#[must_use]
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_of_the_most() {
        assert_eq!(heights(&[0.0, 1.0, 50.0, 100.0], 9), "▁▂▅█");
        assert_eq!(heights(&[0.0; 3], 9), "▁▁▁");
        assert_eq!(heights(&[10.0, 10.0, 0.0, 0.0, 5.0], 3), "█▁▅");
        assert_eq!(heights(&[], 9), "");
    }

    #[test]
    fn rates_have_their_unit_and_their_digits() {
        for (rate_pps, text) in [
            (870_000.0, "0.8700 Mpps"),
            (99_996.0, "0.1000 Mpps"),
            (99_994.0, "99.99 kpps"),
            (50_000.0, "50.00 kpps"),
            (999.96, "1.000 kpps"),
            (12.0, "12.00 pps"),
            (0.0, "0 pps"),
            (-213_000.0, "\u{2212}0.2130 Mpps"),
            (14_880_952.4, "14.88 Mpps"),
            (1_488_095_238.0, "1,488 Mpps"),
        ] {
            assert_eq!(pps(rate_pps), text);
        }
        let bits = [4_252e6, 480e6, 480e3, 48e3, 480.0].map(bps);
        let written =
            ["4,252 Mbit/s", "480.0 Mbit/s", "0.4800 Mbit/s", "48.00 kbit/s", "480.0 bit/s"];
        assert_eq!(bits, written);
    }

    #[test]
    fn durations_are_words() {
        for (duration_ms, text) in [
            (500, "500 ms"),
            (3_000, "3 s"),
            (1_250, "1.3 s"),
            (59_960, "1 min"),
            (90_400, "1 min 30 s"),
            (3_599_600, "1 h"),
            (4_800_000, "1 h 20 min"),
            (86_390_000, "1 d"),
            (180_000_000, "2 d 2 h"),
        ] {
            assert_eq!(duration(duration_ms * 1_000_000), text);
        }
        assert_eq!([duration(250_000), duration(0)], ["250 µs", "0 s"]);
    }

    #[test]
    fn four_digits_are_four() {
        for (value, text) in [
            (1.488_095, "1.488"),
            (14.880_952, "14.88"),
            (595.238, "595.2"),
            (0.352_775, "0.3528"),
            (0.081_274, "0.08127"),
            (0.000_001, "0.000001"),
            (9.999_6, "10.00"),
            (1_190.476, "1,190"),
        ] {
            assert_eq!(significant(value, 4), text);
        }
    }

    #[test]
    fn counts_shares_and_times() {
        assert_eq!([count(1_234_567), count(123)], ["1,234,567", "123"]);
        assert_eq!([counted(1, "flow"), counted_len(4_900, "flow")], ["1 flow", "4,900 flows"]);
        assert_eq!(counted_text("1 to 3", "trial"), "1 to 3 trials");
        let shares = [0.0, 0.000_004, 0.12, 0.9996, 1.0].map(share);
        assert_eq!(shares, ["0 %", "< 0.001 %", "12 %", "100.0 %", "100 %"]);
        assert_eq!([0.007, 0.005, 0.9].map(percent), ["0.7 %", "0.5 %", "90 %"]);
        let probabilities = [0.0, 1e-9, 0.034, 0.45, 0.994, 0.999_5, 1.0].map(probability);
        assert_eq!(probabilities, ["0 %", "<0.1 %", "3.4 %", "45 %", "99.4 %", ">99.9 %", "100 %"]);
        let delays = [0, 999, 12_345, 999_600, 2_500_000_000].map(delay_ns);
        assert_eq!(delays, ["0 ns", "999 ns", "12.3 µs", "1.00 ms", "2.50 s"]);
        assert_eq!([999.4, 999.6, 4_100.0].map(delay), ["999 ns", "1.00 µs", "4.10 µs"]);
        assert_eq!([sizes((60, 1514)), sizes((60, 60))], ["60–1514", "60"]);
        assert_eq!(utc("2026-03-01T10:05:06.473838095Z"), "2026-03-01 10:05:06 UTC");
        assert_eq!(utc("2026-03-01T10:05:06+02:00"), "2026-03-01T10:05:06+02:00");
    }
}

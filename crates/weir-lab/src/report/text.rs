//! Numbers and words as every report writes them.
//!
//! Rates are Mpps with three significant digits, counts have thousands separators, shares are in
//! per cent. A minus is U+2212. Nothing here decides anything: the words follow the summary.

use weir_gen::units::format_bps;
use weir_stats::rates::{Duplex, LINKS_BPS, imix_link_bps, imix_pps};

use crate::record::{Place, VerdictKind};
use crate::summary::LatencySummary;

/// A rate in Mpps with three significant digits, without the unit.
pub(super) fn mpps(rate_pps: f64) -> String {
    significant(rate_pps / 1e6)
}

/// Three significant digits, without an exponent.
fn significant(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        0.0 => return "0".to_owned(),
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.09995 => 3,
        m if m >= 0.009_995 => 4,
        m if m >= 0.000_999_5 => 5,
        _ => 6,
    };
    signed(value, decimals)
}

/// A fixed number of decimals, thousands separated, with a true minus.
pub(super) fn signed(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_zero = digits.bytes().all(|b| b == b'0' || b == b'.');
    let minus = if value < 0.0 && !is_zero { "\u{2212}" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{minus}{}{point}{fraction}", group(whole))
}

/// A count with thousands separators.
pub(super) fn count(value: u64) -> String {
    group(&value.to_string())
}

fn group(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A share in per cent: as many digits as tell it from 0 and from 100 %.
pub(super) fn share(ratio: f64) -> String {
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

/// Decimals at which a value is worth writing, given the half width of its interval.
pub(super) fn decimals_for(half_width: f64) -> usize {
    match half_width.abs() {
        0.0 => 1,
        w if w >= 1.95 => 0,
        w if w >= 0.195 => 1,
        w if w >= 0.0195 => 2,
        _ => 3,
    }
}

/// `1 flow`, `4,900 flows`.
pub(super) fn counted(value: u64, singular: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {singular}{plural}", count(value))
}

/// [`counted`] of a length.
pub(super) fn counted_len(value: usize, singular: &str) -> String {
    counted(u64::try_from(value).unwrap_or(u64::MAX), singular)
}

/// A duration in the unit that suits it.
pub(super) fn duration(duration_ns: u64) -> String {
    match duration_ns {
        n if n.is_multiple_of(1_000_000_000) => format!("{} s", count(n / 1_000_000_000)),
        n if n.is_multiple_of(1_000_000) => format!("{} ms", count(n / 1_000_000)),
        n if n.is_multiple_of(1_000) => format!("{} µs", count(n / 1_000)),
        n => format!("{} ns", count(n)),
    }
}

/// A delay with three significant digits, in the unit that suits it.
pub(super) fn delay(delay_ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "delays stay far below 2^53")]
    let value = delay_ns as f64;
    match delay_ns {
        0..1_000 => format!("{delay_ns} ns"),
        1_000..999_500 => format!("{} µs", significant(value / 1e3)),
        999_500..999_500_000 => format!("{} ms", significant(value / 1e6)),
        _ => format!("{} s", significant(value / 1e9)),
    }
}

/// What a row of latencies holds.
pub(super) const DELAY_NAMES: [&str; 6] = ["Min", "p50", "p90", "p99", "p99.9", "Max"];

/// What a table of latencies rests on.
pub(super) const LATENCY_NOTE: &str = "\
    One way, from the generator to the sink, by the clock of the one host that both are on; \
    medians over the valid iterations, quantiles of the packets measured, to within 1/64. It is \
    measured in a phase of its own after the figures, because a sink that looks at every packet is \
    slower than one that counts them: traffic with a rate keeps it, traffic at `max` is sent at \
    half of what was delivered. A packet that was lost has no latency.";

/// The entries of a row, with their names.
pub(super) fn delays(latency: &LatencySummary) -> [(&'static str, String); 6] {
    let delays = latency.delays.in_order();
    std::array::from_fn(|index| (DELAY_NAMES[index], delay(delays[index])))
}

/// A median of counts.
pub(super) fn packets(median: f64) -> String {
    signed(median, 0)
}

/// Sizes of frames in bytes: one, or the smallest and the largest.
pub(super) fn sizes(min_bytes: u16, max_bytes: u16) -> String {
    if min_bytes == max_bytes {
        min_bytes.to_string()
    } else {
        format!("{min_bytes}–{max_bytes}")
    }
}

/// A time out of a record to the second; anything but RFC 3339 in UTC is left as it is.
pub(super) fn utc(time: &str) -> String {
    match time.strip_suffix('Z').and_then(|t| t.split_once('T')) {
        Some((date, clock)) => {
            let seconds = clock.split_once('.').map_or(clock, |(seconds, _)| seconds);
            format!("{date} {seconds} UTC")
        }
        None => time.to_owned(),
    }
}

/// What a verdict says of the DUT `of`: "limited by the DUT".
pub(super) fn limit(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::DutBound => "limited by the DUT",
        VerdictKind::GeneratorBound => "limited by the offer, all of which was forwarded",
        VerdictKind::LinkBound => "limited by the path, not by the DUT",
        VerdictKind::SinkBound => "limited by the sink",
        VerdictKind::Overloaded => "overloaded: alive, but delivering next to nothing",
        VerdictKind::Unstable => "not steady inside the trials",
        VerdictKind::Invalid => "void",
    }
}

/// The fastest usual link for which a rate is enough with the simple Internet mix; of a rate that
/// is too low for any, the share of what the slowest link takes.
pub(super) fn enough(rate_pps: f64) -> String {
    let link = |link_bps| format!("a full-duplex link of {} with IMIX", format_bps(link_bps));
    if let Some(link_bps) = imix_link_bps(rate_pps, Duplex::Full) {
        return format!("enough for {}", link(link_bps));
    }
    let [slowest_bps, ..] = LINKS_BPS;
    let ratio = rate_pps / imix_pps(slowest_bps, Duplex::Full);
    // A rate that is not enough never reads as if it were.
    format!("{} of what is enough for {}", share(ratio.min(0.999)), link(slowest_bps))
}

/// Whose loss it is, in words.
pub(super) fn place(place: Place) -> &'static str {
    match place {
        Place::Generator => "generator",
        Place::Dut => "DUT",
        Place::Sink => "sink",
    }
}

/// A name out of CLI vocabulary in words: `dut_received` is "DUT received".
pub(super) fn words(name: &str) -> String {
    name.split('_')
        .map(|word| if word == "dut" { "DUT" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

//! Words as every report writes them: they follow the summary and decide nothing.

use weir_stats::rates::{Duplex, LINKS_BPS, imix_link_bps, imix_pps};
use weir_wire::units::format_bps;

use crate::counters::Place;
use crate::number::{pps, share};
use crate::record::VerdictKind;
use crate::summary::{DirectionSummary, SeriesSummary, Spread};
use crate::unit::Unit;
use crate::verdict::LOSS_FREE_MAX;

/// What a verdict says of the DUT: "limited by the DUT".
pub(super) fn limit(series: &SeriesSummary) -> &'static str {
    let has_losses = series.loss_ratio.is_some_and(|loss| loss.median > LOSS_FREE_MAX.value);
    match series.verdict.kind {
        VerdictKind::GeneratorBound => match (series.unit, has_losses) {
            (Unit::Pps | Unit::Bps, false) => "limited by the offer, all of which was forwarded",
            (Unit::Pps | Unit::Bps, true) => {
                "limited by the offer, nearly all of which was forwarded"
            }
            (Unit::Cps | Unit::Connections, false) => {
                "limited by the offer, all of which came through"
            }
            (Unit::Cps | Unit::Connections, true) => {
                "limited by the offer, nearly all of which came through"
            }
            (Unit::Rps, false) => "limited by the offer, all of which was answered",
            (Unit::Rps, true) => "limited by the offer, nearly all of which was answered",
        },
        VerdictKind::DutBound => "limited by the DUT",
        VerdictKind::RingBound => "limited by a ring of the DUT, which had CPU time to spare",
        VerdictKind::LinkBound => "limited by the path, not by the DUT",
        VerdictKind::SinkBound => "limited by the sink",
        VerdictKind::Overloaded => "overloaded: alive, but delivering next to nothing",
        VerdictKind::Unstable => "not steady inside the trials",
        VerdictKind::Disturbed => "void: the machine was disturbed",
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

/// The parts of a figure that is a sum: ` (0.61 Mpps dut0 → dut1, 0.52 Mpps dut1 → dut0)`; `of`
/// takes them from the iterations as the figure is.
pub(super) fn each_direction(series: &SeriesSummary, of: fn(&Spread) -> f64) -> String {
    let part =
        |each: &DirectionSummary| Some(format!("{} {}", pps(of(&each.rate_pps?)), each.name));
    let parts: Vec<String> = series.directions.iter().filter_map(part).collect();
    match parts.len() {
        0 => String::new(),
        1..=4 => format!(" ({})", parts.join(", ")),
        count => format!(" (the sum of {count} directions)"),
    }
}

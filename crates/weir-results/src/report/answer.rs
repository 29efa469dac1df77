//! The answers of a campaign in sentences, and in ministat's layout.
//!
//! The words follow the tests and never go beyond them: where no difference is proven, the
//! sentence says so and names the differences that remain possible. It never says "equal".

use weir_stats::ministat::{self, SETS_MAX, VALUES_MIN};

use super::{Report, dut_label, group_label, words};
use crate::document::Line;
use crate::number::{self, mpps};
use crate::record::VerdictKind;
use crate::summary::{CONFIDENCE, CampaignSummary, Comparison, Difference, SeriesSummary};

/// One sentence over all comparisons, for each DUT that was compared.
pub(super) fn leads(summary: &CampaignSummary) -> Vec<Line> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (baseline, other, _) in compared(summary) {
        let pair = (dut_label(baseline), dut_label(other));
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs.iter().map(|(baseline, other)| lead(summary, baseline, other)).collect()
}

fn lead(summary: &CampaignSummary, baseline: &str, other: &str) -> Line {
    let pairs: Vec<_> = compared(summary)
        .filter(|(b, o, _)| dut_label(b) == *baseline && dut_label(o) == *other)
        .collect();
    let tested: Vec<Difference> = pairs.iter().filter_map(|(_, _, c)| c.difference).collect();
    if tested.is_empty() {
        return Line::new()
            .strong("Not enough valid iterations")
            .text(format!(" to compare {other} with {baseline}: it takes {VALUES_MIN} of each."));
    }
    let side = |slower: bool| -> Vec<&Difference> {
        tested.iter().filter(|d| d.proven && (d.difference_pps < 0.0) == slower).collect()
    };
    let clause = |sentence: Line, word: &str, differences: &[&Difference]| {
        let share = share_of(differences.len(), pairs.len());
        sentence.strong(word.to_owned()).text(format!(" than {baseline}{share}{}", by(differences)))
    };
    let (slower, faster) = (side(true), side(false));
    let start = Line::new().strong(other.to_owned()).text(" is ");
    let sentence = match (slower.is_empty(), faster.is_empty()) {
        (false, true) => clause(start, "slower", &slower),
        (true, false) => clause(start, "faster", &faster),
        (false, false) => clause(clause(start, "slower", &slower).text(" and "), "faster", &faster),
        (true, true) => Line::new()
            .strong("No difference is proven")
            .text(format!(" between {other} and {baseline}")),
    };
    let dut_limited = pairs.iter().all(|(b, o, _)| limited_by_dut(b) && limited_by_dut(o));
    sentence.text(if dut_limited { "." } else { "; not every figure was limited by the DUT." })
}

/// In how many of the groups, in words.
fn share_of(count: usize, all: usize) -> String {
    match (count, all) {
        (1, 1) => String::new(),
        (2, 2) => " under both traffics".to_owned(),
        (c, n) if c == n => format!(" under all {n} traffics"),
        (c, n) => format!(" under {c} of {n} traffics"),
    }
}

/// `, by 37 % to 44 %`.
fn by(differences: &[&Difference]) -> String {
    let mut percents: Vec<f64> =
        differences.iter().filter_map(|d| d.difference_percent).map(f64::abs).collect();
    percents.sort_by(f64::total_cmp);
    let words = |p: f64| format!("{} %", number::signed(p, usize::from(p < 9.95)));
    match (percents.first(), percents.last()) {
        (Some(&low), Some(&high)) if words(low) == words(high) => format!(", by {}", words(low)),
        (Some(&low), Some(&high)) => format!(", by {} to {}", words(low), words(high)),
        _ => String::new(),
    }
}

/// Baseline, other and test of every comparison.
fn compared(
    summary: &CampaignSummary,
) -> impl Iterator<Item = (&SeriesSummary, &SeriesSummary, &Comparison)> {
    summary.comparisons.iter().filter_map(|c| {
        Some((summary.series_named(&c.baseline)?, summary.series_named(&c.other)?, c))
    })
}

/// One sentence per comparison, and one per series that was compared with nothing.
pub(super) fn sentences(summary: &CampaignSummary) -> Vec<Line> {
    let mut sentences = Vec::new();
    for group in summary.groups() {
        let of_group: Vec<_> =
            compared(summary).filter(|(b, _, _)| group.iter().any(|s| s.name == b.name)).collect();
        if of_group.is_empty() {
            sentences.extend(group.iter().map(|series| alone(summary, series)));
        }
        for (baseline, other, comparison) in of_group {
            if baseline.rate_pps.is_some() && other.rate_pps.is_some() {
                sentences.push(comparing(summary, baseline, other, comparison));
            } else {
                sentences.extend([baseline, other].map(|series| alone(summary, series)));
            }
        }
    }
    // A series without a figure would be named once for each that it was to be compared with.
    let mut distinct: Vec<Line> = Vec::new();
    for sentence in sentences {
        if !distinct.contains(&sentence) {
            distinct.push(sentence);
        }
    }
    distinct
}

/// `with 4,900 flows`, and what else it takes to tell the group from the others.
fn under(summary: &CampaignSummary, series: &SeriesSummary) -> String {
    let same_flows =
        summary.series.iter().any(|s| s.flow_count == series.flow_count && !s.comparable(series));
    if same_flows {
        format!("under {}", group_label(series).replace(" · ", ", "))
    } else {
        format!("with {}", number::counted(series.flow_count, "flow"))
    }
}

fn rate(series: &SeriesSummary) -> String {
    series.median_pps().map_or_else(|| "no figure".to_owned(), |m| format!("{} Mpps", mpps(m)))
}

fn alone(summary: &CampaignSummary, series: &SeriesSummary) -> Line {
    if series.rate_pps.is_none() {
        return void(summary, series);
    }
    Line::new().strong(dut_label(series)).text(" forwards ").strong(rate(series)).text(format!(
        " {}, {}.",
        under(summary, series),
        words::limit(series.verdict.kind)
    ))
}

fn void(summary: &CampaignSummary, series: &SeriesSummary) -> Line {
    Line::new()
        .strong(dut_label(series))
        .text(" has ")
        .strong("no valid iteration")
        .text(format!(" {}: ", under(summary, series)))
        .prose(&series.verdict.reason)
        .text(".")
}

fn comparing(
    summary: &CampaignSummary,
    baseline: &SeriesSummary,
    other: &SeriesSummary,
    comparison: &Comparison,
) -> Line {
    let (first, second) = (dut_label(baseline), dut_label(other));
    let under = under(summary, other);
    let ending = limits(baseline, other);
    match comparison.difference {
        None => Line::new()
            .strong(second)
            .text(format!(" forwards {} and ", rate(other)))
            .strong(first)
            .text(format!(
                " {} {under}: too few valid iterations to compare them ({} and {}; it takes \
                 {VALUES_MIN} of each); {ending}.",
                rate(baseline),
                other.valid_iterations,
                baseline.valid_iterations
            )),
        Some(d) if d.proven => {
            let word = if d.difference_pps < 0.0 { "less" } else { "more" };
            Line::new()
                .strong(second)
                .text(" forwards ")
                .strong(rate(other))
                .text(", ")
                .strong(format!("{} {word}", magnitude(&d)))
                .text(format!(" than {first} ({}) {under}; {ending}.", rate(baseline)))
        }
        Some(d) => Line::new().strong("No difference is proven").text(format!(
            " between {second} ({}) and {first} ({}) {under}: {} remains possible; {ending}.",
            rate(other),
            rate(baseline),
            possible(&d, baseline)
        )),
    }
}

/// `38 % ± 4 %`, or in Mpps where there is no percentage.
fn magnitude(d: &Difference) -> String {
    match d.difference_percent.zip(d.half_width_percent) {
        Some((percent, half)) => {
            let decimals = number::decimals_for(half).min(2);
            let number = |v: f64| number::signed(v.abs(), decimals);
            format!("{} % ± {} %", number(percent), number(half))
        }
        None => {
            let number = |v: f64| mpps(v.abs());
            format!("{} Mpps ± {} Mpps", number(d.difference_pps), number(d.half_width_pps))
        }
    }
}

/// `anything from −2.3 % to +1.5 %`: the interval, as a share of the baseline's mean.
fn possible(d: &Difference, baseline: &SeriesSummary) -> String {
    let plus = |v: f64, text: String| if v > 0.0 { format!("+{text}") } else { text };
    let (low, high) = (d.difference_pps - d.half_width_pps, d.difference_pps + d.half_width_pps);
    match baseline.rate_pps.map(|s| s.mean).filter(|&mean| mean > 0.0) {
        Some(mean) => {
            let (low, high) = (low / mean * 100.0, high / mean * 100.0);
            let decimals = number::decimals_for((high - low) / 2.0).min(2);
            format!(
                "anything from {} % to {} %",
                plus(low, number::signed(low, decimals)),
                plus(high, number::signed(high, decimals))
            )
        }
        None => format!(
            "anything from {} Mpps to {} Mpps",
            plus(low, mpps(low)),
            plus(high, mpps(high))
        ),
    }
}

/// The difference as a table cell has it: `−38 % ± 4 %`, or what there is instead.
pub(super) fn short(comparison: &Comparison) -> String {
    match comparison.difference {
        None => "too few iterations".to_owned(),
        Some(d) if !d.proven => "no difference proven".to_owned(),
        Some(d) => {
            let sign = if d.difference_pps < 0.0 { "\u{2212}" } else { "+" };
            format!("{sign}{}", magnitude(&d))
        }
    }
}

/// What limited the two, and a warning where that was not the DUTs.
fn limits(baseline: &SeriesSummary, other: &SeriesSummary) -> String {
    let (a, b) = (baseline.verdict.kind, other.verdict.kind);
    let ending = if a == b {
        format!("both {}", words::limit(a))
    } else {
        let (first, second) = (dut_label(baseline), dut_label(other));
        format!("{first} {}, {second} {}", words::limit(a), words::limit(b))
    };
    if limited_by_dut(baseline) && limited_by_dut(other) {
        ending
    } else {
        format!("{ending}, so their limits are not compared")
    }
}

fn limited_by_dut(series: &SeriesSummary) -> bool {
    matches!(series.verdict.kind, VerdictKind::DutBound | VerdictKind::Overloaded)
}

/// One block per group: the first DUT against those with enough iterations.
pub(super) fn ministat(report: &Report<'_>) -> Vec<(String, String)> {
    let summary = &report.summary;
    let mut blocks = Vec::new();
    for group in summary.groups() {
        let others = compared(summary)
            .filter(|(b, _, c)| b.comparable(group[0]) && c.difference.is_some())
            .map(|(_, other, _)| other);
        let baseline = compared(summary).map(|(b, _, _)| b).find(|b| b.comparable(group[0]));
        let sets: Vec<ministat::Set<'_>> = baseline
            .into_iter()
            .chain(others)
            .take(SETS_MAX)
            .map(|s| ministat::Set { name: &s.name, values: &s.values_pps })
            .collect();
        let options = ministat::Options { confidence: CONFIDENCE, ..Default::default() };
        if sets.len() > 1
            && let Ok(block) = ministat::render(&sets, &options)
        {
            blocks.push((group_label(group[0]), block));
        }
    }
    blocks
}

/// What the figures are and how they are compared, for every report.
pub(super) fn method(report: &Report<'_>) -> String {
    let times = report.data.cells.first().map(|(r, _)| &r.times);
    let trial = times.map_or_else(String::new, |t| {
        format!(
            " sampled every {} for {} after {} of warm-up",
            number::duration(t.sample_ns),
            number::duration(t.duration_ns),
            number::duration(t.warmup_ns)
        )
    });
    format!(
        "A figure is the median over iterations; an iteration's figure is the median of packets \
         per second delivered at the sink,{trial}, on a DUT built afresh. Differences are between \
         means, tested by Student's t at {} % confidence. Frame sizes are \
         given without and with the 4 bytes of FCS. 1 Mpps is 1,000,000 packets per second. \
         A figure is enough for a full-duplex link with IMIX (7 IP packets of 40 bytes, 4 of 576, \
         1 of 1,500) if so many of those make the link's speed in both directions, counted with \
         14 bytes of Ethernet header each; that the DUT forwards those sizes as fast as the ones \
         sent is not tested.",
        CONFIDENCE.percent()
    )
}

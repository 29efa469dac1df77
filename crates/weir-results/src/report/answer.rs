//! The answers of a campaign in sentences, and in ministat's layout.
//!
//! The words follow the tests and never go beyond them: where no difference is proven, the
//! sentence says so and names the differences that remain possible. It never says "equal".

use weir_stats::ministat::{self, SETS_MAX};
use weir_stats::welch::VALUES_MIN;

use super::{Report, dut_label, group_label, toggles, words};
use crate::document::Line;
use crate::number;
use crate::record::VerdictKind;
use crate::summary::analysis::{ComparisonAnalysis, CostAnalysis};
use crate::summary::cost::CostFigure;
use crate::summary::{CONFIDENCE, CampaignSummary, Comparison, SeriesSummary};
use crate::unit::Unit;

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
    let tested: Vec<&ComparisonAnalysis> =
        pairs.iter().filter_map(|(_, _, c)| c.analysis.as_ref()).collect();
    if tested.is_empty() {
        return Line::new()
            .strong("Not enough valid iterations")
            .text(format!(" to compare {other} with {baseline}: it takes {VALUES_MIN} of each."));
    }
    let side = |slower: bool| -> Vec<&ComparisonAnalysis> {
        let proven = tested.iter().filter(|a| a.is_proven());
        proven.filter(|a| a.is_slower() == slower).copied().collect()
    };
    let clause = |sentence: Line, word: &str, differences: &[&ComparisonAnalysis]| {
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
    let dut_limited = pairs.iter().all(|(b, o, _)| both_limited(b, o));
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
fn by(differences: &[&ComparisonAnalysis]) -> String {
    let mut percents: Vec<f64> = differences.iter().map(|d| d.difference_percent.abs()).collect();
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
            sentences.extend(group.iter().map(|series| match &series.toggle {
                Some(toggle) => toggles::sentence(&under(summary, series), series, toggle),
                None => alone(summary, series),
            }));
        }
        for (baseline, other, comparison) in of_group {
            if baseline.rate_pps.is_some() && other.rate_pps.is_some() {
                let sentence = comparing(summary, baseline, other, comparison);
                sentences.push(match &comparison.cost {
                    Some(analysis) => cost(sentence, analysis),
                    None => sentence,
                });
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
    let rate = |median| {
        format!("{}{}", series.unit.written(median), words::each_direction(series, |s| s.median))
    };
    series.median_pps().map_or_else(|| "no figure".to_owned(), rate)
}

/// The mean of the iterations that were compared; what a sentence says of a difference of means has
/// to be what dividing its figures gives.
fn mean(series: &SeriesSummary, mean_pps: f64) -> String {
    // The parts are means over all valid iterations, and no parts of a mean of some of them.
    let parts = match steady(series) == series.valid_iterations {
        true => words::each_direction(series, |s| s.mean),
        false => String::new(),
    };
    format!("{}{parts}", series.unit.written(mean_pps))
}

/// Iterations that may prove something.
fn steady(series: &SeriesSummary) -> usize {
    let unstable = series.verdicts.get(VerdictKind::Unstable.name()).copied().unwrap_or(0);
    series.valid_iterations.saturating_sub(unstable)
}

fn alone(summary: &CampaignSummary, series: &SeriesSummary) -> Line {
    if series.rate_pps.is_none() {
        return void(summary, series);
    }
    Line::new().strong(dut_label(series)).text(does(series)).strong(rate(series)).text(format!(
        " {}, {}.",
        under(summary, series),
        words::limit(series)
    ))
}

/// What a DUT does, with the spaces around it: ` forwards `.
fn does(series: &SeriesSummary) -> String {
    let verb = match series.unit {
        Unit::Connections if series.knows_connections => "holds",
        unit => unit.verb(),
    };
    format!(" {verb} ")
}

/// What the second of two does, where the first has been named: nothing that need be said again.
fn too(first: &SeriesSummary, second: &SeriesSummary) -> String {
    let verb = does(second);
    if verb == does(first) { " ".to_owned() } else { verb }
}

fn void(summary: &CampaignSummary, series: &SeriesSummary) -> Line {
    Line::new()
        .strong(dut_label(series))
        .text(" has ")
        .strong("no valid iteration")
        .text(format!(" {}: ", under(summary, series)))
        .prose(&series.reason())
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
    let ending = limits(baseline, other, comparison.analysis.as_ref());
    let Some(analysis) = &comparison.analysis else {
        let (before, after) = (steady(baseline), steady(other));
        let few = before.min(after) < VALUES_MIN;
        let kind = match before + after == baseline.valid_iterations + other.valid_iterations {
            true => "valid",
            false => "valid and steady",
        };
        let why = match &comparison.problem {
            Some(problem) if !few => format!("they cannot be compared: {problem}"),
            _ => format!(
                "too few {kind} iterations to compare them ({after} and {before}; it takes \
                 {VALUES_MIN} of each)"
            ),
        };
        return Line::new()
            .strong(second)
            .text(format!("{}{} and ", does(other), rate(other)))
            .strong(first)
            .text(format!("{}{} {under}: {why}; {ending}.", too(other, baseline), rate(baseline)));
    };
    let means = (mean(baseline, analysis.baseline_mean_pps), mean(other, analysis.other_mean_pps));
    if analysis.is_proven() {
        let word = if analysis.is_slower() { "less" } else { "more" };
        let size = percent(analysis.difference_percent.abs(), decimals(analysis));
        return Line::new()
            .strong(second)
            .text(does(other))
            .strong(means.1)
            .text(" on average, ")
            .strong(format!("{size} % {word}"))
            .text(format!(
                " ({}) than {first} ({}) {under}; {ending}.",
                interval(analysis),
                means.0
            ));
    }
    if analysis.word == NOT_DUT_LIMITED {
        let line = Line::new().strong(second).text(format!("{}{} and ", does(other), rate(other)));
        let line = line.strong(first).text(format!("{}{}", too(other, baseline), rate(baseline)));
        return line.text(format!(" {under}; {ending}."));
    }
    let why = match analysis.word.as_str() {
        "other-programs" => "what other programs had of the CPUs may be all of it, and ",
        _ => "",
    };
    Line::new().strong("No difference is proven").text(format!(
        " between {second} ({} on average) and {first} ({}) {under}: {why}anything from {} \
         remains possible; {ending}.",
        means.1,
        means.0,
        interval(analysis)
    ))
}

/// The same of the CPU time per packet, behind what is said of the rates.
fn cost(sentence: Line, analysis: &CostAnalysis) -> Line {
    let figure = |figure: &CostFigure| {
        let sink = Some(figure.apparatus()).filter(|sink| !sink.is_empty());
        let sink = sink.map_or_else(String::new, |sink| format!(" ({sink})"));
        format!("{}{sink}", number::cost(figure.mean_ns))
    };
    let (before, after) = (figure(&analysis.baseline), figure(&analysis.other));
    let found = (analysis.difference_percent, analysis.low_percent, analysis.high_percent);
    let sentence = match analysis.word.as_str() {
        word @ ("cheaper" | "dearer") => {
            let size = percent(analysis.difference_percent.abs(), decimals_of(found));
            let word = if word == "cheaper" { "less" } else { "more" };
            sentence
                .text(format!(" A packet costs it {after} of CPU time, "))
                .strong(format!("{size} % {word}"))
                .text(format!(" ({}) than {before}.", interval_of(found)))
        }
        _ => sentence.text(format!(
            " No difference of the CPU time per packet is proven ({after} against {before}): \
             anything from {} remains possible.",
            interval_of(found)
        )),
    };
    match &analysis.contradiction {
        Some(why) => sentence.text(format!(" Both hold: {why}.")),
        None => sentence,
    }
}

/// A difference with the ends of its interval, in per cent; one without an upper end has none.
type Found = (f64, f64, Option<f64>);

fn found(analysis: &ComparisonAnalysis) -> Found {
    (analysis.difference_percent, analysis.low_percent, analysis.high_percent)
}

/// As many decimals as the interval deserves.
fn decimals(analysis: &ComparisonAnalysis) -> usize {
    decimals_of(found(analysis))
}

fn decimals_of((value, low, high): Found) -> usize {
    number::decimals_for((high.unwrap_or(value) - low) / 2.0).min(2)
}

fn percent(value: f64, decimals: usize) -> String {
    number::signed(value, decimals)
}

/// `−49 % to −16 %`, or `−12 % or more`: the difference as a share of the baseline's mean.
fn interval(analysis: &ComparisonAnalysis) -> String {
    interval_of(found(analysis))
}

fn interval_of(found: Found) -> String {
    let plus = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{} %", percent(value, decimals_of(found)))
    };
    let (_, low, high) = found;
    match high {
        Some(high) => format!("{} to {}", plus(low), plus(high)),
        None => format!("{} or more", plus(low)),
    }
}

/// The difference as a table cell has it: `−38 %` with its interval, or what there is instead.
pub(super) fn short(comparison: &Comparison) -> (String, String) {
    match &comparison.analysis {
        None => ("not comparable".to_owned(), String::new()),
        Some(analysis) if !analysis.is_proven() => {
            let words = match analysis.word.as_str() {
                NOT_DUT_LIMITED => "not the DUT's limit",
                _ => "no difference proven",
            };
            (words.to_owned(), interval(analysis))
        }
        Some(analysis) => {
            let sign = if analysis.is_slower() { "\u{2212}" } else { "+" };
            let size = percent(analysis.difference_percent.abs(), decimals(analysis));
            (format!("{sign}{size} %"), interval(analysis))
        }
    }
}

/// What limited the two, and a warning where that was not the DUTs.
fn limits(
    baseline: &SeriesSummary,
    other: &SeriesSummary,
    analysis: Option<&ComparisonAnalysis>,
) -> String {
    let (a, b) = (words::limit(baseline), words::limit(other));
    let ending = if a == b {
        format!("both {a}")
    } else {
        let (first, second) = (dut_label(baseline), dut_label(other));
        format!("{first} {a}, {second} {b}")
    };
    match analysis {
        Some(analysis) if analysis.word == NOT_DUT_LIMITED => {
            let but =
                if both_limited(baseline, other) { ", but not in every iteration" } else { "" };
            format!("{ending}{but}, so their limits are not compared")
        }
        // Of the side that the DUT did not limit, the figure is a lower bound.
        Some(analysis) if analysis.is_proven() && !both_limited(baseline, other) => {
            format!("{ending}, so the difference of their limits may be larger")
        }
        _ if both_limited(baseline, other) => ending,
        _ => format!("{ending}, so their limits are not compared"),
    }
}

/// The word of a comparison that says nothing of the DUTs.
const NOT_DUT_LIMITED: &str = "not-dut-limited";

fn both_limited(baseline: &SeriesSummary, other: &SeriesSummary) -> bool {
    limited_by_dut(baseline) && limited_by_dut(other)
}

fn limited_by_dut(series: &SeriesSummary) -> bool {
    series.verdict.kind.is_dut_limited()
}

/// One block per group: the first DUT against those with enough iterations.
pub(super) fn ministat(report: &Report<'_>) -> Vec<(String, String)> {
    let summary = &report.summary;
    let mut blocks = Vec::new();
    for group in summary.groups() {
        let others = compared(summary)
            .filter(|(b, _, c)| b.comparable(group[0]) && c.analysis.is_some())
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

/// Whether the links are cables between machines.
fn has_wires(report: &Report<'_>) -> bool {
    let kind = report.data.environment.pointer("/testbed/kind");
    kind.and_then(serde_json::Value::as_str) == Some("hosts")
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
    let unit = report.summary.unit();
    let counted = match unit {
        Unit::Pps | Unit::Bps => {
            format!("the median of packets per second delivered at the sink,{trial},")
        }
        Unit::Cps => format!(
            "the median of connections per second that came through all of their steps,{trial},"
        ),
        Unit::Connections => "the number of connections that came through their steps and are not \
                              closed, of those that were opened,"
            .to_owned(),
        Unit::Rps => format!(
            "the median of requests per second that got a whole answer below status 400,{trial},"
        ),
    };
    let sizes = match unit {
        Unit::Pps | Unit::Bps => {
            " Frame sizes are given without and with the 4 bytes of FCS. 1 Mpps is 1,000,000 \
             packets per second. A figure is enough for a full-duplex link with IMIX (7 IP packets \
             of 40 bytes, 4 of 576, 1 of 1,500) if so many of those make the link's speed in both \
             directions, counted with 14 bytes of Ethernet header each; that the DUT forwards \
             those sizes as fast as the ones sent is not tested."
        }
        Unit::Cps => {
            " Nothing is sent again: a lost packet is a lost connection. 1 kconn is 1,000 \
             connections."
        }
        Unit::Connections => {
            " A DUT holds them where it tells how many connections it has, and had as many more in \
             the end (the check `held`); of others it is not known how many they still had. \
             Nothing is sent again: a lost packet is a lost connection. 1 kconn is 1,000 \
             connections."
        }
        Unit::Rps if has_wires(report) => {
            " Requests go over TCP of the two ends' kernels, with the segmentation offload that \
             each machine has. 1 kreq is 1,000 requests."
        }
        Unit::Rps => {
            " Requests go over TCP of the two ends' kernels, which have no segmentation offload, \
             so that each frame is one that a wire would carry. There is no wire: bytes per second \
             are those of memory. 1 kreq is 1,000 requests."
        }
    };
    format!(
        "A figure is the median over iterations; an iteration's figure is {counted} on a DUT built \
         afresh. Differences are between means (\"on average\"), by Welch's test and Fieller's \
         interval of the ratio at {} % for all comparisons together.{sizes}",
        CONFIDENCE.percent()
    )
}

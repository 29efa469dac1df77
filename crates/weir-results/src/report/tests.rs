//! The reports against golden files, and what must hold for every report.
//!
//! `WEIR_BLESS=1` writes the golden files; `WEIR_REPORT_LOOK=DIR` writes the reports of
//! the fixtures to a directory, to be looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::document::link;
use crate::machine_use::{CpuUse, MachineUse, Pressure};
use crate::palette;
use crate::record::{Cost, VerdictKind};
use crate::summary::Rejected;
use crate::summary::fixture::{awkward, profiled, swept, usual, with_directions, with_latency};

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/report").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("a directory")).expect("the directory");
        fs::write(&path, text).expect("the golden file");
    }
    let expected = fs::read_to_string(&path).expect("the golden file");
    assert_eq!(text, expected, "{name} differs; WEIR_BLESS=1 writes it anew");
}

pub(super) fn file(data: &CampaignData, path: &str) -> String {
    files(data, None).into_iter().find(|f| f.path == path).expect("the file").text
}

/// Every trial is as wide as one can be in a table, and one of them was repeated.
fn busy() -> CampaignData {
    let mut data = usual();
    let used = CpuUse {
        softirq_ratio: 0.9996,
        stolen_ratio: 0.000_12,
        foreign_ratio: Some(0.9996),
        ..CpuUse::default()
    };
    let pressure = Some(Pressure { cpu_ratio: 0.9996, memory_ratio: 0.0 });
    let cpus = BTreeMap::from([(1, used)]);
    let machine = MachineUse { cpus, pressure, ..MachineUse::default() };
    for (record, _) in &mut data.cells {
        record.machine = Some(machine.clone());
        record.result.rate_pps_min = 31_234.0;
        record.result.trend_ratio = Some(-0.9996);
        record.result.jump_ratio = Some(-0.9996);
        let apparatus_ratio = Some(0.3);
        record.cost = Some(Cost {
            cost_ns: 12_345.0,
            apparatus_ratio,
            run_ns: 1,
            packets: 1,
            busy_cpus: None,
        });
    }
    let trial = data.cells[0].clone();
    data.rejected.push(Rejected { folder: "rejected/linux.flows-128/1".to_owned(), trial });
    data
}

/// More series than a page shows at once.
fn many() -> CampaignData {
    let mut data = usual();
    let cells = data.cells.clone();
    for number in 1..=4 {
        let renamed = |(record, samples): &Trial| {
            let mut record = record.clone();
            record.series = format!("{}-{number}", record.series);
            record.traffic.name = format!("{}-{number}", record.traffic.name);
            (record, samples.clone())
        };
        data.cells.extend(cells.iter().map(renamed));
    }
    data.planned_cells = data.cells.len();
    data
}

pub(super) fn campaigns() -> Vec<(&'static str, CampaignData)> {
    let mut void = awkward();
    for (record, _) in &mut void.cells {
        record.verdict.kind = VerdictKind::Invalid;
    }
    let mut empty = awkward();
    empty.cells.clear();
    empty.calibrations.clear();
    vec![
        ("awkward", awkward()),
        ("usual", usual()),
        ("many", many()),
        ("latency", with_latency(usual())),
        ("directions", with_directions(with_latency(usual()))),
        ("profiled", profiled(usual())),
        ("swept", swept()),
        ("void", void),
        ("busy", busy()),
        ("empty", empty),
    ]
}

#[test]
fn the_derived_texts_are_as_ever() {
    let data = awkward();
    golden("summary.json", &file(&data, "summary.json"));
    golden("summary.md", &file(&data, "summary.md"));
    golden("gnuplot.data", &file(&data, "gnuplot.data"));
    golden("gnuplot-axis.data", &file(&swept(), "gnuplot.data"));
}

#[test]
fn a_colon_separates_a_verdict_from_its_reason() {
    let (reason, data) = ("the DUT lost 87", usual());
    let text = file(&data, "summary.md");
    let before: Vec<&str> = text.split(reason).collect();
    let reasons = &before[..before.len() - 1];
    assert!(!reasons.is_empty() && reasons.iter().all(|before| before.ends_with("**: ")));
    let page = file(&data, "report.html");
    let mut reasons = page.split("<div class=\"reason\">").skip(1).peekable();
    assert!(reasons.peek().is_some());
    assert!(reasons.all(|text| text.contains(&format!("</strong></span>: {reason}"))));
}

#[test]
fn latency_and_loss_stand_in_every_text() {
    let data = with_latency(usual());
    golden("latency.md", &file(&data, "summary.md"));
    let summary = CampaignSummary::of(&data);
    let nft = summary.series_named("nft.flows-128").expect("a series");
    let latency = nft.latency.expect("it was measured");
    assert_eq!(
        (latency.iterations, latency.delays.min_ns, latency.delays.p50_ns),
        (5, 950, 14_300)
    );
    assert!((latency.loss_ratio - 3.0 / 200_000.0).abs() < 1e-12);
    let lost = nft.lost_packets.expect("a ledger").median;
    assert!((lost - (15_400_000.0 - 352_000.0 * 3.5)).abs() < 1.0, "{lost}");
    let page = file(&data, "report.html");
    for part in ["id=\"latency\"", "p99.9", "14.3\u{a0}µs", "950\u{a0}ns", "3.41\u{a0}ms"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!file(&usual(), "report.html").contains("id=\"latency\""));
    assert!(!file(&usual(), "summary.md").contains("## Latency"));
    let written = file(&data, "summary.json");
    assert!(written.contains("\"p999_ns\": 1287000"), "{written}");
}

#[test]
fn the_sum_of_two_directions_stands_beside_both() {
    let data = with_directions(with_latency(usual()));
    let summary = CampaignSummary::of(&data);
    for series in &summary.series {
        let [there, back] = &series.directions[..] else { panic!("two directions") };
        let median = |each: &crate::summary::DirectionSummary| each.rate_pps.map(|s| s.median);
        let all = series.median_pps().expect("a figure");
        assert!((median(there).expect("a figure") - all * 2.0 / 3.0).abs() < 1e-6);
        assert!((median(back).expect("a figure") - all / 3.0).abs() < 1e-6);
        assert_eq!((&back.ledger, back.latency), (&series.ledger, series.latency));
        let calibrated = back.calibration_pps.zip(series.calibration_pps).expect("calibrated");
        assert!((calibrated.0 - calibrated.1 / 3.0).abs() < 1e-6);
    }
    for (path, heading) in
        [("summary.md", "## Each direction"), ("report.html", "id=\"directions\"")]
    {
        let text = file(&data, path);
        assert!(text.contains(heading) && text.contains("dut1 → dut0"), "{path}");
        assert!(text.contains(" dut0 → dut1, "), "{path}: the answer names both");
        assert!(!file(&usual(), path).contains(heading), "{path}");
    }
}

#[test]
fn what_a_packet_costs_stands_beside_the_rate() {
    let mut data = usual();
    for (record, _) in &mut data.cells {
        let cost_ns = if record.series.starts_with("nft") { 1_700.0 } else { 900.0 };
        let apparatus_ratio = Some(300.0 / cost_ns);
        record.cost =
            Some(Cost { cost_ns, apparatus_ratio, run_ns: 1, packets: 1, busy_cpus: None });
    }
    let summary = CampaignSummary::of(&data);
    let nft = summary.series_named("nft.flows-128").expect("a series");
    let cost = nft.cost_ns.expect("every trial tells it");
    assert_eq!((cost.count, cost.median), (5, 1_700.0));
    assert!(nft.apparatus_ratio.is_some_and(|ratio| (ratio - 3.0 / 17.0).abs() < 1e-9));
    let analysis = summary.comparisons[0].cost.as_ref().expect("both tell it");
    assert_eq!((analysis.word.as_str(), analysis.family_size), ("dearer", 3));
    for path in ["report.html", "summary.md"] {
        let text = file(&data, path).replace('\u{a0}', " ");
        assert!(text.contains("of CPU time, "), "{path}");
        for part in ["CPU time", "1,700 ns", "900 ns", "18 % sink", "33 % sink"] {
            assert!(text.contains(part), "{path}: {part}");
        }
        assert!(!file(&usual(), path).contains("% sink"), "{path}");
    }
}

#[test]
fn every_page_and_plot_is_well_formed() {
    for (name, data) in campaigns() {
        for file in files(&data, None) {
            if file.path.ends_with(".html") || file.path.ends_with(".svg") {
                balanced(&file.text).unwrap_or_else(|e| panic!("{name}: {}: {e}", file.path));
            }
        }
    }
}

#[test]
fn nothing_is_fetched_and_nothing_runs() {
    for (name, data) in campaigns() {
        let page = file(&data, "report.html");
        // The only one is part of the page, and fetches nothing; before it stand the records.
        let scripts: Vec<&str> = page.split("<script").skip(1).collect();
        let (script, records) = scripts.split_last().expect("a script");
        let is_data = |text: &&str| text.starts_with(" type=\"application/json\" id=\"records\">");
        assert!(script.starts_with('>') && records.iter().all(is_data), "{name}");
        for banned in
            ["http://", "https://", "src=", "@import", "javascript:", "<link", "fetch(", "import("]
        {
            assert!(!page.contains(banned), "{name}: the page holds {banned}");
        }
        for link in page.split("href=\"").skip(1) {
            let link = link.split('"').next().expect("an end");
            let folders = ["cells/", "calibration/", "profiles/", "rejected/"];
            let is_raw = folders.iter().any(|folder| link.starts_with(folder));
            let is_inner =
                link.strip_prefix('#').is_some_and(|id| page.contains(&format!(" id=\"{id}\"")));
            assert!((is_raw || is_inner) && !link.contains(':'), "{name}: {link} leads elsewhere");
        }
        for plot in Report::new(&data).plots() {
            let rest = plot.text.replacen("http://www.w3.org/2000/svg", "", 1);
            assert!(!rest.contains("http") && !rest.contains("<script"), "{name}: {}", plot.path);
        }
    }
}

#[test]
fn profiles_are_shown_and_lead_to_their_artefacts() {
    let data = profiled(usual());
    let page = file(&data, "report.html");
    for part in [
        "<h2>Where the time went</h2>",
        "href=\"profiles/linux.flows-128/artefacts/flamegraph.svg\"",
        "<title>nft_do_chain, 26 %</title>",
        "check `profile` failed: perf may not sample",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let summary = file(&data, "summary.md");
    let link = "[flamegraph.svg](profiles/linux.flows-128/artefacts/flamegraph.svg)";
    assert!(summary.contains("## Where the time went") && summary.contains(link), "{summary}");
    for path in ["report.html", "summary.md"] {
        let text = file(&usual(), path);
        assert!(!text.contains("flamegraph") && !text.contains("Where the time"), "{path}");
    }
}

#[test]
fn every_iteration_leads_to_its_raw_records() {
    for (name, data) in campaigns() {
        let page = file(&data, "report.html");
        for (record, _) in &data.cells {
            for raw in ["trial.json", "samples.csv"] {
                let link = link(&format!("cells/{}/{}/{raw}", record.series, record.iteration));
                assert!(page.contains(&format!("href=\"{link}\"")), "{name}: {link}");
            }
        }
    }
}

#[test]
fn what_was_rejected_is_shown_and_counts_nowhere() {
    let mut data = usual();
    let before = CampaignSummary::of(&data);
    let mut trial = data.cells[0].clone();
    trial.0.verdict.kind = VerdictKind::Disturbed;
    let mut calibration = data.calibrations[0].clone();
    calibration.0.verdict.kind = VerdictKind::Invalid;
    let (series, traffic) = (trial.0.series.clone(), calibration.0.traffic.name.clone());
    for (name, trial) in [(series.clone(), trial), (traffic.clone(), calibration)] {
        data.rejected.push(Rejected { folder: format!("rejected/{name}/1"), trial });
    }
    assert_eq!(CampaignSummary::of(&data), before);
    let (page, usual) = (file(&data, "report.html"), file(&usual(), "report.html"));
    for name in [series, traffic] {
        let link = format!("href=\"rejected/{name}/1/trial.json\"");
        assert!(page.contains(&link) && !usual.contains(&link), "{link}");
        assert!(page.contains(&format!("\"rejected/{name}/1\":[")), "{name}: a record");
    }
    assert!(page.contains("Rejected calibrations") && !usual.contains("Rejected calibrations"));
    for path in ["report.html", "summary.md"] {
        assert!(file(&data, path).contains("1 repeated trial."), "{path}");
    }
}

#[test]
fn a_page_holds_records_up_to_its_bound() {
    let mut data = usual();
    let page = |data: &CampaignData| Report::new(data).document();
    let all = page(&data).records;
    assert_eq!(all.len(), data.cells.len() + data.calibrations.len());
    let (record, samples) = &data.cells[0];
    let folder = format!("cells/{}/{}", record.series, record.iteration);
    let held = all.iter().find(|held| held.folder == folder).expect("a record");
    let read: crate::record::TrialRecord = serde_json::from_str(&held.trial).expect("a record");
    assert_eq!((&read, &held.samples), (record, &crate::samples::render(samples)));
    assert!(file(&data, "report.html").contains("holds the records of all trials"));
    for (record, _) in &mut data.cells {
        record.verdict.reason = "x".repeat(300_000);
    }
    let held = page(&data).records;
    let bytes: usize = held.iter().map(|held| held.trial.len() + held.samples.len()).sum();
    assert!((1_500_000..=about::RECORDS_BYTES_MAX).contains(&bytes), "{bytes}");
    let first = format!("holds the first {} records, 2\u{a0}MiB of them", held.len());
    assert!(file(&data, "report.html").contains(&first), "{first}");
}

#[test]
fn every_number_is_finite() {
    for (name, data) in campaigns() {
        for file in files(&data, None) {
            let words = file.text.split(|c: char| !c.is_alphanumeric());
            let odd = words.filter(|w| matches!(*w, "NaN" | "inf" | "Infinity" | "nan")).count();
            assert_eq!(odd, 0, "{name}: {} holds a number that is not one", file.path);
        }
    }
}

#[test]
fn identifiers_are_unique_in_a_page() {
    for (name, data) in campaigns() {
        let page = file(&data, "report.html");
        let mut ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{name}");
    }
}

#[test]
fn paths_are_unique_and_safe() {
    let mut data = awkward();
    // Two names that become the same file name.
    data.cells[1].0.series = "a b".into();
    data.cells[2].0.series = "a&b".into();
    let files = files(&data, None);
    let mut paths: Vec<&str> = files.iter().map(|f| f.path.as_str()).collect();
    let all = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), all);
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_.=/".contains(c);
    assert!(paths.iter().all(|p| p.chars().all(safe)), "{paths:?}");
}

#[test]
fn the_report_of_a_bisection_says_its_answer_first_and_then_its_candidates() {
    let candidate = |name: &str, probability| bisect::CandidateReport {
        name: name.to_owned(),
        series: format!("{name}.flows-4900"),
        first_bad_probability: probability,
        bad_probability: probability,
        measurements: 3,
        invalid: 0,
        skipped: false,
        misfit: false,
        median_pps: Some(524_000.0),
        values_pps: vec![524_000.0; 3],
    };
    let found = bisect::Report {
        answer: bisect::Answer::Found,
        dimension: "dut".to_owned(),
        first_bad: Some("nft".to_owned()),
        first_bad_latest: None,
        last_good: Some("linux".to_owned()),
        probability: Some(0.98),
        no_change_probability: 0.02,
        confidence: 0.95,
        margin_ratio: 0.01,
        runs_max: 60,
        runs: 6,
        change: None,
        candidates: vec![candidate("linux", 0.0), candidate("nft", 0.98)],
        next: None,
    };
    let data = usual();
    let text = |path: &str| {
        let mut files = files(&data, Some(&found)).into_iter();
        files.find(|file| file.path == path).expect("the file").text
    };
    let page = text("report.html");
    let markdown = text("summary.md");
    for (text, parts) in [
        (&page, ["<p class=\"lead\">", "id=\"candidates\"", "id=\"series\"", "id=\"throughput\""]),
        (&markdown, ["\n\nnft is", "## Candidates", "## Series", "## Throughput"]),
    ] {
        let places = parts.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
        assert!(places.is_sorted(), "{places:?}");
    }
    let answer =
        "nft is the first bad one, with a probability of 98\u{a0}%; linux before it is good.";
    assert!(page.contains(&format!("<p class=\"lead\">{answer}</p>")), "{page}");
    // Everything of the cells stands below, as in a campaign.
    let sections = |page: &str| page.matches("<section id=").count();
    assert_eq!(sections(&page), sections(&file(&data, "report.html")) + 2);
}

#[test]
fn the_answer_names_who_is_slower_and_what_limited_it() {
    let data = usual();
    let answers = Report::new(&data).answers();
    assert_eq!(answers.len(), 3);
    assert_eq!(
        answers[1],
        "nft forwards 0.3306 Mpps on average, 36.8 % less (−38.0 % to −35.7 %) than linux (0.5234 \
         Mpps) with 4,900 flows; both limited by the DUT."
    );
    let page = file(&data, "report.html");
    assert!(page.contains("is <strong>slower</strong> than linux under all 3 traffics"));
}

/// Whoever divides the figures of a sentence gets its difference, however far mean and median are
/// apart.
#[test]
fn the_figures_of_a_sentence_give_its_difference() {
    let mut data = usual();
    for (record, _) in &mut data.cells {
        let cost_ns = if record.series.starts_with("nft") { 1_700.0 } else { 900.0 };
        let stray = if record.iteration == 2 { 1.06 } else { 1.0 };
        if record.series.starts_with("linux") {
            record.result.rate_pps *= stray;
        }
        let cost_ns = cost_ns * stray * (1.0 + f64::from(record.iteration) / 1e3);
        let apparatus_ratio = None;
        record.cost =
            Some(Cost { cost_ns, apparatus_ratio, run_ns: 1, packets: 1, busy_cpus: None });
    }
    let summary = CampaignSummary::of(&data);
    let linux = summary.series_named("linux.flows-128").and_then(|s| s.rate_pps).expect("rates");
    assert!((linux.mean / linux.median - 1.0).abs() > 0.01, "the fixture has to tell them apart");
    let number = |text: &str| -> f64 {
        let digits: String =
            text.chars().take_while(|c| c.is_ascii_digit() || ".,".contains(*c)).collect();
        digits.replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"))
    };
    let behind = |text: &str, word: &str| number(text.split(word).nth(1).expect(word));
    for sentence in Report::new(&data).answers() {
        let (rates, costs) = sentence.split_once(" A packet costs it ").expect("costs");
        let (other, size) = (behind(rates, "forwards "), behind(rates, "on average, "));
        let baseline = behind(rates, "than linux (");
        assert!(((1.0 - other / baseline) * 100.0 - size).abs() < 0.6, "{sentence}");
        let (other, size) = (number(costs), behind(costs, "of CPU time, "));
        let baseline = behind(costs, ") than ");
        assert!(((other / baseline - 1.0) * 100.0 - size).abs() < 0.6, "{sentence}");
    }
}

/// A page of many series shows six and folds the rest; texts have all of them in one piece.
#[test]
fn many_series_are_folded_in_a_page_alone() {
    let (page, text) = (file(&many(), "report.html"), file(&many(), "summary.md"));
    let page = page.replace('\u{a0}', " ");
    for fold in ["<summary>9 more</summary>", "Every iteration of all 30 series", "All figures of"]
    {
        assert!(page.contains(fold), "{fold}");
        assert!(!text.contains(fold.trim_start_matches("<summary>")), "{fold}");
    }
    assert_eq!(text.matches("** forwards **").count(), 15, "{text}");
    assert_eq!(page.matches("</strong> forwards <strong>").count(), 15);
    assert!(!file(&usual(), "report.html").contains(" more</summary>"));
}

/// A reason is that of one trial, and is said to be where the others have another.
#[test]
fn a_reason_names_its_iteration_where_others_have_another() {
    let mut data = usual();
    for (record, _) in &mut data.cells {
        if record.series == "nft.flows-128" {
            record.verdict.reason = format!("the DUT lost {} %", 80 + record.iteration);
        }
    }
    let summary = CampaignSummary::of(&data);
    // The fourth of its iterations is a little above the first, which is the median.
    let nft = summary.series_named("nft.flows-128").expect("a series");
    assert_eq!(nft.reason(), "in iteration 1, the DUT lost 81 %");
    let linux = summary.series_named("linux.flows-128").expect("a series");
    assert_eq!((linux.verdict_iteration, linux.reason()), (None, linux.verdict.reason.clone()));
    for path in ["report.html", "summary.md"] {
        let text = file(&data, path).replace('\u{a0}', " ");
        assert!(text.contains("in iteration 1, the DUT lost 81 %"), "{path}");
    }
}

/// The figures name what they are of as the tables do, and never by a series' identifier.
#[test]
fn a_figure_names_its_series_as_the_tables_do() {
    let mut data = swept();
    data.cells.retain(|(record, _)| record.dut.as_ref().is_some_and(|dut| dut.name == "nft"));
    let axis = file(&data, "plots/axis.svg");
    assert!(axis.contains(">\nnft · udp\n<"), "{axis}");
    let samples = file(&data, "plots/samples-nft.flows=4Ki.udp.svg");
    let shown: Vec<&str> = samples.split("<text").skip(1).collect();
    assert!(shown.iter().any(|text| text.contains("nft · udp · flows=4Ki")), "{samples}");
    assert!(shown.iter().all(|text| !text.contains("flows=4Ki.udp")), "{samples}");
}

#[test]
fn an_unproven_difference_is_never_called_none() {
    let mut data = usual();
    for (record, _) in &mut data.cells {
        if record.dut.as_ref().is_some_and(|d| d.name == "nft") {
            let rate = record.result.rate_pps;
            record.result.rate_pps = rate * if rate > 3e5 { 1.59 } else { 1.71 };
        }
    }
    for path in ["report.html", "summary.md"] {
        let text = file(&data, path);
        let lower = text.to_lowercase();
        assert!(lower.contains("no difference"), "{path}");
        for (at, _) in lower.match_indices("no difference") {
            let context: String = lower[at..].chars().take(60).collect();
            assert!(context.contains("proven"), "{path}: {context}");
        }
        assert!(text.contains("remains possible"), "{path}");
    }
}

#[test]
fn a_comparison_of_offers_is_not_sold_as_one_of_duts() {
    let mut data = usual();
    for (record, _) in &mut data.cells {
        record.verdict.kind = VerdictKind::GeneratorBound;
    }
    let answers = Report::new(&data).answers();
    assert!(answers.iter().all(|a| a.contains("their limits are not compared")), "{answers:?}");
    assert!(file(&data, "summary.md").contains("; not every figure was limited by the DUT."));
}

#[test]
fn a_drift_of_all_series_is_warned_about_where_one_has_too_few_iterations() {
    let drifts = |data: &CampaignData| {
        let warnings = Report::new(data).warnings();
        warnings.iter().any(|w| w.starts_with("the campaign: figures fall by "))
    };
    let mut data = usual();
    assert!(!drifts(&data));
    for (record, _) in &mut data.cells {
        record.result.rate_pps *= 1.0 - 0.1 * f64::from(record.iteration);
    }
    assert!(drifts(&data));
    assert!(file(&data, "summary.md").contains("over the iterations of 6 series together"));
}

#[test]
fn what_was_not_tested_is_not_judged() {
    let mut data = awkward();
    for (record, _) in &mut data.cells {
        record.verdict.kind = VerdictKind::Invalid;
    }
    let page = file(&data, "summary.md");
    assert!(page.contains("**Not enough valid iterations** to compare nft with linux"), "{page}");
    assert!(!page.contains("No difference"), "{page}");
    let answers = Report::new(&data).answers();
    assert_eq!(answers.len(), 5, "one for each series: {answers:?}");
    assert!(answers.iter().all(|a| a.contains("no valid iteration")), "{answers:?}");
}

#[test]
fn an_incomplete_campaign_says_so_in_every_text() {
    let data = awkward();
    for path in ["report.html", "summary.md"] {
        let text = file(&data, path);
        assert!(text.contains("ncomplete: 13 of 24 cells"), "{path}");
        assert!(text.contains("weir lab resume"), "{path}");
        assert!(text.contains("1 invalid"), "{path}");
    }
}

#[test]
fn the_link_that_a_figure_is_enough_for_is_named() {
    let one = "a full-duplex link of 1 Gbit/s with IMIX";
    assert_eq!(words::enough(352_775.0), format!("50 % of what is enough for {one}"));
    assert_eq!(words::enough(705_500.0), format!("99.90 % of what is enough for {one}"));
    assert_eq!(words::enough(706_000.0), format!("enough for {one}"));
    assert_eq!(words::enough(7.1e6), "enough for a full-duplex link of 10 Gbit/s with IMIX");
    let data = usual();
    let summary = CampaignSummary::of(&data);
    let (page, html) = (file(&data, "summary.md"), file(&data, "report.html"));
    for series in &summary.series {
        let enough = words::enough(series.median_pps().expect("a figure"));
        assert!(page.contains(&format!("; {enough}\n")), "{page}");
        let (number, link) = enough.split_once(" 1 Gbit/s").expect("a link");
        assert!(html.contains(&number.replace(" %", "\u{a0}%")), "{enough}{link}");
    }
}

#[test]
fn frame_sizes_are_given_both_ways() {
    let data = usual();
    assert!(file(&data, "report.html").contains("60 / 64"));
    assert!(file(&data, "summary.md").contains("60 / 64"));
}

#[test]
fn marks_stand_out_against_both_backgrounds() {
    for tone in palette::MARKS {
        for (colour, background) in
            [(tone.light, palette::BACKGROUND.light), (tone.dark, palette::BACKGROUND.dark)]
        {
            let ratio = contrast(colour, background);
            assert!(ratio >= 4.5, "{} {colour} on {background}: {ratio:.2}", tone.name);
        }
    }
}

#[test]
fn the_balance_check_finds_what_is_wrong() {
    assert!(balanced("<p>a<br>b</p>").is_ok());
    assert!(balanced("<p><b></p></b>").is_err());
    assert!(balanced("<p>").is_err());
    assert!(balanced("<p title=\"a<b\">").is_err());
}

#[test]
fn ticks_are_round_and_cover_the_range() {
    for max in [0.0001, 0.56, 0.9999, 1.0, 4.41, 14.88, 148.8] {
        let (values, decimals) = crate::plot::axis::ticks(max, 6.0);
        let last = values.last().copied().expect("ticks");
        assert!(last >= max * 0.999 && last <= max * 2.0, "{max}: {values:?}");
        for value in &values {
            let written: f64 = format!("{value:.decimals$}").parse().expect("a number");
            assert!((written - value).abs() < 1e-9, "{max}: {value} with {decimals} decimals");
        }
    }
}

#[test]
fn reports_can_be_looked_at() {
    let Some(directory) = std::env::var_os("WEIR_REPORT_LOOK") else {
        return;
    };
    for (name, data) in campaigns() {
        for file in files(&data, None) {
            let path = Path::new(&directory).join(name).join(&file.path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("the directory");
            fs::write(path, file.text).expect("the file");
        }
    }
}

/// Whether every element is closed in the order in which it was opened, every attribute is quoted
/// and no markup character stands in a text.
fn balanced(text: &str) -> Result<(), String> {
    const VOID: [&str; 3] = ["meta", "br", "hr"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        if rest[..start].contains('>') {
            return Err(format!("stray `>` in {:?}", &rest[..start]));
        }
        rest = &rest[start + 1..];
        let end = tag_end(rest).ok_or("a tag without an end")?;
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.split_whitespace().next().unwrap_or("");
        if let Some(name) = name.strip_prefix('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("</{name}> closes {last:?}"));
            }
        } else if !name.starts_with('!') && !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name);
            if matches!(name, "script" | "style") {
                let end = rest.find(&format!("</{name}>")).ok_or("a script without an end")?;
                rest = &rest[end..];
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("never closed: {open:?}")) }
}

/// The `>` that ends a tag, outside of quotes.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quoted = false;
    for (at, c) in tag.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '<' => return None,
            '>' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Contrast of two colours, after WCAG 2.2.
fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour");
        let share = f64::from(value) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

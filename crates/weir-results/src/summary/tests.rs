use super::fixture::{ODD, awkward, swept, usual};
use super::*;
use crate::machine_use::{Distance, MachineUse, Span};

#[test]
fn invalid_iterations_are_counted_and_left_out() {
    let summary = CampaignSummary::of(&awkward());
    let nft = summary.series_named("nft.few").expect("the series");
    assert_eq!((nft.iterations, nft.valid_iterations), (4, 3));
    assert_eq!(nft.values_pps, [348_000.0, 351_000.0, 346_000.0]);
    assert_eq!(nft.rate_pps.map(|s| s.max), Some(351_000.0));
    assert_eq!(nft.verdict.kind, VerdictKind::DutBound);
    assert_eq!(nft.verdicts.get("invalid"), Some(&1));
    assert_eq!(summary.counts.invalid_cells, 1);
    assert_eq!(summary.counts.verdicts.values().sum::<usize>(), 13);
    assert!(!summary.complete);
}

#[test]
fn a_series_without_a_valid_iteration_has_no_figure_but_a_verdict() {
    let mut data = awkward();
    for (record, _) in &mut data.cells {
        record.verdict = Verdict { kind: VerdictKind::Invalid, reason: "link flap".into() };
    }
    let summary = CampaignSummary::of(&data);
    for series in &summary.series {
        assert_eq!((series.rate_pps, series.ledger.as_ref()), (None, None), "{}", series.name);
        assert_eq!(series.verdict.reason, "link flap");
    }
    assert!(summary.comparisons.iter().all(|c| c.analysis.is_none()));
}

#[test]
fn the_order_is_that_of_the_specification() {
    let summary = CampaignSummary::of(&awkward());
    assert_eq!(summary.duts(), ["linux", "nft", ODD]);
    let names: Vec<&str> = summary.series.iter().map(|s| s.name.as_str()).collect();
    let odd = format!("{ODD}.few");
    assert_eq!(names, ["linux.few", "nft.few", odd.as_str(), "linux.many", "nft.many"]);
}

#[test]
fn the_first_dut_is_compared_with_each_other_one() {
    let summary = CampaignSummary::of(&awkward());
    let pairs: Vec<(&str, &str, bool)> = summary
        .comparisons
        .iter()
        .map(|c| (c.baseline.as_str(), c.other.as_str(), c.analysis.is_some()))
        .collect();
    let odd = format!("{ODD}.few");
    let expected = [
        ("linux.few", "nft.few", true),
        ("linux.few", odd.as_str(), true),
        ("linux.many", "nft.many", false),
    ];
    assert_eq!(pairs, expected);
    let analysis = summary.comparisons[0].analysis.as_ref().expect("enough iterations");
    assert!(analysis.is_slower());
    // Means are 561,500.083 and 348,333.333.
    assert!((analysis.difference_percent + 37.9638).abs() < 0.001, "{analysis:?}");
}

#[test]
fn a_baseline_that_delivers_nothing_cannot_be_compared_with() {
    let mut data = awkward();
    data.spec_text = format!("[[dut]]\nname = {ODD:?}\n");
    let summary = CampaignSummary::of(&data);
    let comparison = &summary.comparisons[0];
    assert_eq!(comparison.baseline, format!("{ODD}.few"));
    assert_eq!(comparison.analysis, None);
    let problem = comparison.problem.as_deref().expect("a reason");
    assert!(problem.contains("the baseline's mean is not above zero"), "{problem}");
}

#[test]
fn calibration_is_that_of_the_same_traffic() {
    let summary = CampaignSummary::of(&awkward());
    let many = summary.series_named("linux.many").expect("the series");
    assert_eq!(many.calibration_pps, Some(4_310_000.0));
    let ratio = many.calibration_ratio.expect("calibrated");
    assert!((ratio - 522_000.0 / 4_310_000.0).abs() < 1e-12);
}

#[test]
fn a_void_calibration_is_none() {
    let mut data = awkward();
    data.calibrations[0].0.verdict.kind = VerdictKind::Invalid;
    let summary = CampaignSummary::of(&data);
    let few = summary.series_named("linux.few").expect("the series");
    assert_eq!((few.calibration_pps, few.calibration_ratio), (None, None));
}

#[test]
fn one_iteration_has_no_deviation() {
    let summary = CampaignSummary::of(&awkward());
    let rate = summary.series_named("nft.many").and_then(|s| s.rate_pps).expect("a figure");
    assert_eq!((rate.count, rate.stddev, rate.variation_ratio()), (1, None, None));
}

#[test]
fn a_numeric_sweep_is_the_axis() {
    let summary = CampaignSummary::of(&swept());
    assert_eq!(summary.axis.as_deref(), Some("flows"));
    let axis: Vec<Option<f64>> =
        summary.series.iter().filter(|s| s.dut == "linux").map(|s| s.axis).collect();
    assert_eq!(axis.len(), 3);
    assert!(axis.contains(&Some(65_536.0)));
    assert!(summary.series.iter().all(|s| s.traffic_base == "udp"));
    assert_eq!(summary.comparisons.len(), 3);
}

#[test]
fn one_value_that_is_no_number_makes_no_axis() {
    let mut data = swept();
    for (_, value) in &mut data.cells[0].0.sweep {
        value.number = None;
    }
    assert_eq!(CampaignSummary::of(&data).axis, None);
}

#[test]
fn every_entry_of_a_ledger_is_its_median() {
    let mut data = usual();
    data.cells.truncate(3);
    for ((record, _), packets) in data.cells.iter_mut().zip([10, 1_000, 30]) {
        record.ledger.residual_packets = packets;
        record.ledger.drops[0].packets = packets * 2;
    }
    // A counter that never moved is not in the record.
    data.cells[0].0.ledger.drops.remove(1);
    let summary = CampaignSummary::of(&data);
    let ledger = summary.series[0].ledger.as_ref().expect("a ledger");
    assert_eq!(ledger.residual_packets, 30);
    assert_eq!(ledger.drops[0].packets, 60);
    let lower =
        data.cells[1].0.ledger.drops[1].packets.min(data.cells[2].0.ledger.drops[1].packets);
    assert_eq!(ledger.drops[1].packets, lower);
}

#[test]
fn the_json_is_read_back_unchanged() {
    for data in [awkward(), usual(), swept()] {
        let summary = CampaignSummary::of(&data);
        let read: CampaignSummary = serde_json::from_str(&summary.to_json()).expect("valid JSON");
        assert_eq!(read, summary);
    }
}

#[test]
fn an_empty_campaign_has_a_summary() {
    let mut data = awkward();
    data.cells.clear();
    data.calibrations.clear();
    let summary = CampaignSummary::of(&data);
    assert!(summary.series.is_empty() && summary.comparisons.is_empty() && !summary.complete);
    assert_eq!((summary.started_utc, summary.finished_utc), (None, None));
}

#[test]
fn the_order_of_the_cells_in_the_store_does_not_matter() {
    let mut data = awkward();
    let summary = CampaignSummary::of(&data);
    // Where the specification names everything: names it lacks are ordered by appearance.
    data.cells.reverse();
    data.spec_text.push_str(&format!(
        "[[dut]]\nname = {ODD:?}\n[[traffic]]\nname = \"few\"\n[[traffic]]\nname = \"many\"\n"
    ));
    assert_eq!(CampaignSummary::of(&data), summary);
}

#[test]
fn iterations_whose_cpus_were_farther_apart_are_named() {
    let mut data = usual();
    let name = data.cells[0].0.series.clone();
    let warnings = |data: &CampaignData| {
        let summary = CampaignSummary::of(data);
        let series = summary.series.into_iter().find(|series| series.name == name);
        let all = series.and_then(|series| series.analysis).expect("it is analysed").warnings;
        all.into_iter().filter(|warning| warning.kind == "moved").collect::<Vec<_>>()
    };
    for (record, _) in &mut data.cells {
        let ns = Span { min: 27.0, max: if record.iteration == 2 { 165.0 } else { 31.0 } };
        let distance = Some(Distance { ns, nearest_ns: None });
        record.machine = Some(MachineUse { distance, ..MachineUse::default() });
    }
    let found = warnings(&data);
    assert_eq!((found.len(), &found[0].iterations), (1, &vec![2]), "{found:?}");
    assert!(found[0].text.contains("up to 165 ns"), "{found:?}");
    for (record, _) in &mut data.cells {
        let ns = Span { min: 160.0, max: 170.0 };
        let distance = Some(Distance { ns, nearest_ns: None });
        record.machine = Some(MachineUse { distance, ..MachineUse::default() });
    }
    assert!(warnings(&data).is_empty(), "they are as far in all");
}

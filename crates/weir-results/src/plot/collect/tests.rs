//! Which series become which curves.

use serde_json::json;

use super::*;
use crate::collection::{CollectedPoint, Level, Origin};

fn series(labels: &[(&str, &str, Option<f64>)], values: &[f64]) -> CollectedSeries {
    let level = |(dimension, label, number): &(&str, &str, Option<f64>)| Level {
        dimension: (*dimension).into(),
        label: (*label).into(),
        number: *number,
    };
    let name = labels.iter().map(|(_, label, _)| *label).collect::<Vec<_>>().join(".");
    let point = |(index, value): (u32, &f64)| CollectedPoint {
        iteration: index,
        value: *value,
        has_figure: true,
        offered: None,
        cost: None,
        sizes: std::collections::BTreeMap::new(),
        foreign: std::collections::BTreeMap::new(),
        verdict: None,
        cell: String::new(),
    };
    CollectedSeries {
        name,
        levels: labels.iter().map(level).collect(),
        unit: Unit::Pps,
        points: (1..).zip(values).map(point).collect(),
        toggle: None,
    }
}

fn matrix(name: &str) -> Collection {
    let mut all = Vec::new();
    for (flows, number) in [("10M", 1e7), ("128", 128.0), ("1k", 1e3)] {
        for dut in ["pf", "nft"] {
            for (cores, count) in [("1", 1.0), ("2", 2.0)] {
                let levels = [
                    ("dut", dut, None),
                    // Follows from the axis, as a name that repeats it.
                    ("traffic", flows, None),
                    ("flows", flows, Some(number)),
                    ("cores", cores, Some(count)),
                ];
                all.push(series(&levels, &[count * 1e5, count * 2e5, count * 4e5]));
            }
        }
    }
    Collection {
        name: name.into(),
        origin: Origin::Campaign,
        environment: json!({}),
        yardsticks: Vec::new(),
        series: all,
    }
}

fn drawn(figure: &Figure) -> &[LinePanel] {
    match &figure.body {
        Body::Lines(panels) => panels,
        _ => panic!("no curves"),
    }
}

fn numeric_axis(collections: &[Collection]) -> Option<&str> {
    let (items, _) = items(collections, None);
    suited_axis(&items, &dimensions(collections), None)
}

#[test]
fn what_varies_makes_curves_and_what_follows_from_the_axis_does_not() {
    let all = [matrix("m")];
    assert_eq!(numeric_axis(&all), Some("flows"));
    let figure = curves(&all, &Request::default()).unwrap();
    let [panel] = drawn(&figure) else { panic!("one panel") };
    let names: Vec<&str> = panel.curves.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["pf · 1", "pf · 2", "nft · 1", "nft · 2"]);
    let first = &panel.curves[0].points;
    let xs: Vec<f64> = first.iter().map(|p| p.x).collect();
    assert_eq!(xs, [128.0, 1e3, 1e7], "in the order of the axis");
    assert_eq!((first[0].y, first[0].bar), (2e5, Some((1e5, 4e5))), "median, minimum to maximum");
    assert!(figure.note.contains("median of 3 iterations; bars span their minimum"));
}

#[test]
fn a_point_without_a_label_belongs_to_the_only_curve_that_lacks_it() {
    let level = |results: &str, dut: Option<&str>, at: f64| {
        let flows = at.to_string();
        let mut levels = vec![("results", results, None), ("flows", flows.as_str(), Some(at))];
        levels.extend(dut.map(|dut| ("dut", dut, None)));
        series(&levels, &[at])
    };
    let names = |more: &[(&str, f64)]| -> Vec<(String, usize)> {
        let mut store = matrix("m");
        store.series = vec![
            level("a", Some("pf"), 64.0),
            level("a", Some("pf"), 1024.0),
            level("a", None, 4900.0),
            level("b", None, 64.0),
            level("b", None, 4900.0),
        ];
        store.series.extend(more.iter().map(|(dut, at)| level("a", Some(dut), *at)));
        let request = Request { x: Some("flows".into()), ..Request::default() };
        let figure = curves(&[store], &request).unwrap();
        let [panel] = drawn(&figure) else { panic!("one panel") };
        panel.curves.iter().map(|c| (c.name.clone(), c.points.len())).collect()
    };
    let of = |name: &str, count| (name.to_owned(), count);
    assert_eq!(names(&[]), [of("a · pf", 3), of("b", 2)]);
    let two = names(&[("nft", 64.0)]);
    let apart = [of("a · pf", 2), of("a", 1), of("b", 2), of("a · nft", 1)];
    assert_eq!(two, apart, "it may be of either");
    let taken = names(&[("pf", 4900.0)]);
    assert_eq!(taken, [of("a · pf", 3), of("a", 1), of("b", 2)], "its place is taken");
}

#[test]
fn a_dimension_that_repeats_the_axis_in_its_own_numbers_makes_no_curves() {
    let store = |name: &str, labels: [&str; 3], positions: [f64; 3]| {
        let level = |(label, at): (&str, f64)| {
            let flows = at.to_string();
            let levels =
                [("dut", "pf", None), ("traffic", label, None), ("flows", &flows, Some(at))];
            series(&levels, &[1e5])
        };
        let series = labels.into_iter().zip(positions).map(level).collect();
        Collection {
            name: name.into(),
            origin: Origin::Campaign,
            environment: json!({}),
            yardsticks: Vec::new(),
            series,
        }
    };
    let names = |all: &[Collection]| -> Vec<String> {
        let request = Request { x: Some("flows".into()), ..Request::default() };
        let figure = curves(all, &request).unwrap();
        drawn(&figure)[0].curves.iter().map(|c| c.name.clone()).collect()
    };
    let states = store("states", ["128", "10K", "10M"], [64.0, 4900.0, 5e6]);
    let flows = store("flows", ["flows-64", "flows-5k", "flows-5M"], [64.0, 4900.0, 5e6]);
    assert_eq!(names(&[states, flows]), ["states", "flows"]);
    // Numbers of something else are curves where they are at the same place, and follow from the
    // axis where they do not, as in each store alone.
    let rules = store("rules", ["rules-10", "rules-5", "rules-20"], [64.0, 4900.0, 5e6]);
    let two = store("two", ["rules-10", "rules-20", "rules-30"], [64.0, 64.0, 5e6]);
    let of_two = ["two · rules-10", "two · rules-20", "two · rules-30"];
    assert_eq!(names(&[rules, two]), [&["rules"][..], &of_two].concat());
}

/// An archive names its configuration after the axis and says the flows twice; a campaign does
/// neither. Beside each other, each has the curves that it has alone.
#[test]
fn each_collection_has_the_curves_that_it_has_alone() {
    let archive = |dut: &str, states: &str| {
        let at = |(hash, at): (&str, f64)| {
            let dut = format!("{dut}-{hash}Bhash");
            let levels = [
                ("dut", dut.as_str(), None),
                ("traffic", states, None),
                ("flows", states, Some(2e6)),
                ("hash", hash, Some(at)),
            ];
            series(&levels, &[1e5])
        };
        [("128K", 131_072.0), ("32K", 32_768.0), ("1M", 1_048_576.0)].map(at)
    };
    let campaign = |traffic: &str| {
        let at = |(hash, at): (&str, f64)| {
            let levels = [
                ("dut", "weir-fw", None),
                ("traffic", traffic, None),
                ("flows", traffic, Some(2e6)),
                ("hash", hash, Some(at)),
            ];
            series(&levels, &[1e6])
        };
        [("32Ki", 32_768.0), ("128Ki", 131_072.0)].map(at)
    };
    let store = |name: &str, series: Vec<CollectedSeries>| Collection {
        name: name.into(),
        origin: Origin::Archive,
        environment: json!({}),
        yardsticks: Vec::new(),
        series,
    };
    let old = store("old", [archive("pf", "4M"), archive("pf", "9800")].concat());
    let new = store("new", [campaign("flows-2M"), campaign("flows-4900")].concat());
    let request = Request { x: Some("hash".into()), ..Request::default() };
    let names = |all: &[Collection]| -> Vec<(String, usize)> {
        let figure = curves(all, &request).unwrap();
        let [panel] = drawn(&figure) else { panic!("one panel") };
        panel.curves.iter().map(|c| (c.name.clone(), c.points.len())).collect()
    };
    let curve = |name: &str, points: usize| (name.to_owned(), points);
    assert_eq!(names(std::slice::from_ref(&old)), [curve("4M", 3), curve("9800", 3)]);
    let both = names(&[new, old]);
    let expected = [
        curve("new · weir-fw · flows-2M", 2),
        curve("new · weir-fw · flows-4900", 2),
        curve("old · 4M", 3),
        curve("old · 9800", 3),
    ];
    assert_eq!(both, expected, "the DUT of one store is told beside another's");
}

#[test]
fn a_dimension_is_spread_over_panels() {
    let request = Request {
        x: Some("flows".into()),
        panels: Some("cores".into()),
        bars: Bars::None,
        ..Request::default()
    };
    let figure = curves(&[matrix("a"), matrix("b")], &request).unwrap();
    let panels = drawn(&figure);
    let titles: Vec<&str> = panels.iter().filter_map(|p| p.title.as_deref()).collect();
    assert_eq!(titles, ["cores 1", "cores 2"]);
    let names: Vec<&str> = panels[0].curves.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["a · pf", "a · nft", "b · pf", "b · nft"]);
    assert_eq!(panels[0].curves[0].colour, panels[1].curves[0].colour);
    assert!(panels[0].curves[0].points[0].bar.is_none());
}

#[test]
fn what_cannot_be_drawn_is_refused_with_what_could() {
    let all = [matrix("m")];
    let ask = |x: &str| curves(&all, &Request { x: Some(x.into()), ..Request::default() });
    let error = ask("rules").unwrap_err().to_string();
    assert!(error.contains("there are: dut, traffic, flows, cores"), "{error}");
    let error = ask("dut").unwrap_err().to_string();
    assert!(error.contains("`dut` is not a numeric axis"), "{error}");
    let mut zero = matrix("m");
    zero.series[0].levels[2].number = Some(0.0);
    let log = Request { scale: Scale::Log, ..Request::default() };
    let error = curves(&[zero], &log).unwrap_err().to_string();
    assert!(error.contains("0 or below"), "{error}");
    let mut twice = matrix("m");
    let again = CollectedSeries { name: "again".into(), ..twice.series[0].clone() };
    twice.series.push(again);
    let error = curves(&[twice], &Request::default()).unwrap_err().to_string();
    assert!(error.contains("`again` are at the same flows"), "{error}");
    let mut mixed = matrix("m");
    mixed.series[3].unit = Unit::Bps;
    let error = strip(&[mixed]).unwrap_err().to_string();
    assert!(error.contains("counts pps") && error.contains("bps"), "{error}");
    let mut empty = matrix("m");
    empty.series.iter_mut().for_each(|s| s.points.clear());
    assert_eq!(curves(&[empty], &Request::default()), Err(FigureError::Nothing));
    let mut single = matrix("m");
    single.series.truncate(1);
    let error = curves(&[single], &Request::default()).unwrap_err().to_string();
    assert!(error.ends_with("what works: --x flows, --x cores, --strip"), "{error}");
    let by_dut = Request { x: Some("dut".into()), ..Request::default() };
    let error = curves(&[matrix("m")], &by_dut).unwrap_err().to_string();
    assert!(error.ends_with("there; what works: --x flows, --x cores, --strip"), "{error}");
}

#[test]
fn a_strip_has_every_point() {
    let figure = strip(&[matrix("a"), matrix("b")]).unwrap();
    let Body::Strip(strip) = &figure.body else { panic!("no strip") };
    let marks = strip.rows.iter().map(|row| match row {
        StripRow::Heading { .. } => 0,
        StripRow::Series { marks, .. } => marks.len(),
    });
    assert_eq!(marks.sum::<usize>(), 2 * 12 * 3);
}

#[test]
fn the_axis_is_the_one_with_the_longest_curves_and_not_what_sets_stores_apart() {
    let set_apart = |name: &str, build: f64| {
        let mut all = matrix(name);
        for series in &mut all.series {
            let label = build.to_string();
            let level = Level { dimension: "build".into(), label, number: Some(build) };
            series.levels.insert(0, level);
            // More positions along flows than along cores, whichever comes first.
            series.levels.rotate_right(1);
        }
        all
    };
    let both = [set_apart("a", 1.0), set_apart("b", 2.0)];
    assert_eq!(numeric_axis(&both), Some("flows"));
    let one_each = both.map(|mut c| {
        c.series.truncate(1);
        c
    });
    assert_eq!(numeric_axis(&one_each), None, "single points are no curve");
}

#[test]
fn series_without_the_dimension_are_left_out_and_told() {
    let mut all = matrix("m");
    all.series[0].levels.retain(|l| l.dimension != "flows");
    let request = Request { x: Some("flows".into()), ..Request::default() };
    let figure = curves(&[all], &request).unwrap();
    let note = "Left out because they have no flows: 1 series, pf.10M.10M.1 first.";
    assert!(figure.note.contains(note), "{}", figure.note);
    let points = drawn(&figure)[0].curves.iter().map(|c| c.points.len());
    assert_eq!(points.sum::<usize>(), 11);
}

#[test]
fn panels_of_one_level_are_told() {
    let mut all = matrix("m");
    all.series.retain(|s| s.level("cores").is_some_and(|l| l.label == "1"));
    let request = Request { panels: Some("cores".into()), ..Request::default() };
    let figure = curves(&[all], &request).unwrap();
    assert!(figure.note.contains("one panel: cores is 1 everywhere"), "{}", figure.note);
}

#[test]
fn the_ideal_is_a_straight_line_through_the_first_point() {
    let all = [matrix("a")];
    let request = Request { x: Some("cores".into()), ideal: true, ..Request::default() };
    let figure = curves(&all, &request).expect("a figure");
    let panel = &drawn(&figure)[0];
    assert_eq!(panel.curves.len(), 12, "each curve has one");
    let line = panel.curves.iter().find(|c| c.name == "pf · 128 straight").expect("a line");
    let points: Vec<(f64, f64)> = line.points.iter().map(|p| (p.x, p.y)).collect();
    assert_eq!((points, line.marks), (vec![(1.0, 2e5), (2.0, 4e5)], false));
    let share = "pf · 128: 2.00 times as much at cores 2 as at 1, 100 % of the straight line.";
    assert!(figure.note.contains(share), "{}", figure.note);
}

#[test]
fn a_size_that_duts_report_is_drawn_instead_of_the_figure() {
    let mut all = matrix("sized");
    for series in &mut all.series {
        for point in &mut series.points {
            point.sizes.insert("sync_lag_ms".into(), 12);
            point.sizes.insert("latency_p99_ns".into(), 1_234_000);
            point.sizes.insert("sent_bytes_per_second".into(), 2_500_000);
        }
    }
    // A series whose DUT reports nothing has no point.
    let without = all.series[0].name.clone();
    all.series[0].points.iter_mut().for_each(|point| point.sizes.clear());
    let all = [all];
    let ask = |y: &str| {
        curves(&all, &Request { x: Some("flows".into()), y: Some(y.into()), ..Request::default() })
    };
    let figure = ask("sync_lag_ms").expect("a figure");
    assert!(figure.title.starts_with("Sync lag, ms by flows"), "{}", figure.title);
    assert!(figure.note.contains(&without), "{}", figure.note);
    let Body::Lines(panels) = &figure.body else { panic!("{figure:?}") };
    let values = panels.iter().flat_map(|p| &p.curves).flat_map(|curve| &curve.points);
    assert!(values.clone().count() > 3 && values.clone().all(|point| point.y == 12.0));
    assert_eq!((panels[0].y.name(), panels[0].y.text(12.0)), ("ms", "12.00 ms".to_owned()));
    let Body::Lines(panels) = ask("sent_bytes_per_second").expect("a figure").body else {
        panic!()
    };
    assert_eq!(panels[0].y.name(), "MB/s");
    let figure = ask("latency_p99_ns").expect("a figure");
    assert!(figure.title.starts_with("Latency p99 by flows"), "{}", figure.title);
    let Body::Lines(panels) = figure.body else { panic!() };
    assert_eq!(panels[0].y.text(1_234_000.0), "1.234 ms");
    let refused = ask("sync_lag").expect_err("there is none").to_string();
    assert!(
        refused.contains("there are: latency_p99_ns, sent_bytes_per_second, sync_lag_ms"),
        "{refused}"
    );
}

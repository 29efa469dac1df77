//! Comparisons of collections made by hand.

use serde_json::json;

use super::*;
use crate::collection::{CollectedPoint, Level as Place, Origin, Unit, kind_levels};
use crate::document::Terminal;
use crate::record::{Cost, TrialRecord, Verdict, VerdictKind};
use crate::toggle::{Role, Toggle, Window};
use crate::traffic::Connect;
use crate::traffic::connect::Close;
use crate::yardstick::tests::reading;

fn place(dimension: &str, label: &str, number: Option<f64>) -> Place {
    Place { dimension: dimension.into(), label: label.into(), number }
}

fn series(name: &str, levels: Vec<Place>, values: &[f64]) -> CollectedSeries {
    let point = |(index, value): (u32, &f64)| CollectedPoint {
        iteration: index + 1,
        value: *value,
        has_figure: true,
        offered: None,
        cost: None,
        sizes: std::collections::BTreeMap::new(),
        foreign: std::collections::BTreeMap::new(),
        verdict: None,
        cell: format!("cells/{name}/{}", index + 1),
    };
    let points = (0..).zip(values).map(point).collect();
    CollectedSeries { name: name.into(), levels, unit: Unit::Pps, points, toggle: None }
}

fn collection(name: &str, series: Vec<CollectedSeries>) -> Collection {
    Collection {
        name: name.into(),
        origin: Origin::Archive,
        environment: json!({}),
        yardsticks: Vec::new(),
        series,
    }
}

fn text(report: &Report<'_>) -> String {
    report.document(&[]).text(Terminal::default())
}

/// Five values around `rate`, a thousandth apart.
fn around(rate: f64) -> Vec<f64> {
    [0.998, 1.001, 1.0, 0.999, 1.002].iter().map(|factor| factor * rate).collect()
}

/// A store of one image with two configurations and two numbers of flows.
fn store(name: &str, image: &str, factor: f64) -> Collection {
    let mut all = Vec::new();
    for (dut, rate) in [("pf", 4e5), ("ipfw", 6e5)] {
        for (label, flows) in [("64Ki", 65_536.0), ("1M", 1e6)] {
            let levels = vec![
                place("image", image, None),
                place("dut", dut, None),
                place("flows", label, Some(flows)),
            ];
            all.push(series(&format!("{image}.{dut}.{label}"), levels, &around(rate * factor)));
        }
    }
    collection(name, all)
}

fn asked(percent: f64) -> Asked {
    Asked { regression_ratio: Some(percent / 100.0), ..Asked::default() }
}

#[test]
fn a_host_that_differs_takes_the_proof_out_of_every_difference() {
    let with = |mut store: Collection, readings: &[(f64, f64)]| {
        let readings = readings.iter().map(|&(xdp_ns, memory_ns)| reading(xdp_ns, memory_ns));
        store.yardsticks = readings.collect();
        store
    };
    let compared = |readings: &[(f64, f64)]| {
        let old = with(store("old", "a", 1.0), &[(10.0, 100.0), (10.1, 101.0)]);
        [old, with(store("new", "b", 0.8), readings)]
    };
    let slower = compared(&[(12.5, 99.0), (12.6, 102.0)]);
    let report = compare(&slower, asked(1.0)).unwrap();
    assert!(!report.fails());
    assert!(report.matched.iter().all(|m| !m.regressed && m.result.is_ok()));
    assert_eq!(report.counts(), [("host-differs", 4)]);
    let shown = text(&report).replace('\n', " ");
    let host = "The host differs: compared with that of old, the host of new was 25 % slower in a \
                CPU's cache";
    let answer = "4 comparisons: 4 not compared, as the host differs.";
    let places = [host, answer, "4 could not be tested"].map(|part| shown.find(part));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}: {shown}");
    assert!(!shown.contains("slower by"), "{shown}");
    let data = report.json();
    assert_eq!(data["series"][0]["word"], "host-differs");
    assert_eq!(data["words"], json!({"host-differs": 4}));
    // A gain is none either.
    let gain = [
        with(store("old", "a", 0.8), &[(12.5, 99.0)]),
        with(store("new", "b", 1.0), &[(10.0, 99.0)]),
    ];
    assert_eq!(compare(&gain, asked(1.0)).unwrap().counts(), [("host-differs", 4)]);
    assert_eq!(
        (&data["hosts"][0]["collection"], &data["hosts"][0]["differs"]),
        (&json!("new"), &json!(true))
    );
    // Within the bound, and where one of them has none.
    let equal = compared(&[(10.2, 95.0)]);
    let report = compare(&equal, asked(1.0)).unwrap();
    assert!(report.fails() && !text(&report).contains("The host differs"));
    let near = "By their yardsticks, compared with that of old, the host of new was";
    assert!(text(&report).replace('\n', " ").contains(near));
    let same = compared(&[(10.05, 100.5)]);
    let shown = text(&compare(&same, asked(1.0)).unwrap()).replace('\n', " ");
    assert!(shown.contains("the hosts of new and old were equally fast."), "{shown}");
    assert!(compare(&compared(&[]), asked(1.0)).unwrap().fails());
}

/// The store, with what limited its figures.
fn judged_as(mut store: Collection, kind: VerdictKind) -> Collection {
    for point in store.series.iter_mut().flat_map(|series| &mut series.points) {
        point.verdict = Some(Verdict { kind, reason: "as measured".into() });
    }
    store
}

#[test]
fn figures_that_the_dut_did_not_limit_prove_no_regression() {
    let compared = |kinds: (VerdictKind, VerdictKind), factor: f64| {
        let old = judged_as(store("old", "a", 1.0), kinds.0);
        [old, judged_as(store("new", "b", factor), kinds.1)]
    };
    let (dut, offer) = (VerdictKind::DutBound, VerdictKind::GeneratorBound);
    // The second store was offered less, and forwarded it.
    let less = compared((offer, offer), 0.95);
    let report = compare(&less, asked(1.0)).unwrap();
    assert!(!report.fails());
    assert_eq!(report.counts(), [("not-dut-limited", 4)]);
    let verdict = report.verdict().unwrap();
    assert_eq!(verdict, "no regression beyond 1 % is proven; 4 could not be tested");
    for text in [text(&report), report.document(&[]).markdown(), report.document(&[]).html()] {
        assert!(text.contains("4 comparisons: 4 not the DUT"), "{text}");
        assert!(text.contains("\u{2212}5.00") && !text.contains("slower by"), "{text}");
    }
    // What lost its packets below what the other forwarded without a loss is slower.
    let lost = compared((offer, dut), 0.95);
    assert!(compare(&lost, asked(1.0)).unwrap().fails());
    // What forwards at least less may forward more.
    let at_least = compared((dut, offer), 0.95);
    assert_eq!(compare(&at_least, asked(1.0)).unwrap().counts(), [("not-dut-limited", 4)]);
}

#[test]
fn unstable_runs_are_shown_and_prove_nothing() {
    let stores = [
        judged_as(store("old", "a", 1.0), VerdictKind::DutBound),
        judged_as(store("new", "b", 0.5), VerdictKind::Unstable),
    ];
    let report = compare(&stores, asked(1.0)).unwrap();
    assert!(!report.fails());
    assert_eq!(report.counts(), [("none", 4)]);
    let shown = text(&report);
    assert!(shown.contains("0 of 5 steady"), "{shown}");
    assert!(shown.contains("not comparable: 0 values on a side"), "{shown}");
}

#[test]
fn a_hog_below_the_limit_of_disturbance_proves_no_regression() {
    let mut stores = [
        judged_as(store("old", "a", 1.0), VerdictKind::DutBound),
        judged_as(store("new", "b", 1.0 - 0.047), VerdictKind::DutBound),
    ];
    assert!(compare(&stores, asked(1.0)).unwrap().fails());
    for point in stores[1].series.iter_mut().flat_map(|series| &mut series.points) {
        point.foreign.insert("1".to_owned(), 0.047);
    }
    let report = compare(&stores, asked(1.0)).unwrap();
    assert!(!report.fails());
    assert_eq!(report.counts(), [("other-programs", 4)]);
    assert!(report.verdict().unwrap().contains("4 could not be tested"));
}

#[test]
fn the_bound_that_is_printed_decides_the_criterion() {
    let stores = [store("old", "a", 1.0), store("new", "b", 0.97)];
    for percent in [2.6, 2.8, 2.9] {
        let report = compare(&stores, asked(percent)).unwrap();
        for m in &report.matched {
            let words = words(&m.result, m.claim.as_ref());
            let bound = words.strip_prefix("slower by at least ").unwrap();
            let bound: f64 = bound.strip_suffix(" %").unwrap().parse().unwrap();
            assert_eq!(m.regressed, bound > percent, "{words} beyond {percent} %");
        }
    }
    // A loss that is asked about comes before equivalence within a wider margin.
    let near = [store("old", "a", 1.0), store("new", "b", 0.993)];
    let wide = Asked { margin_ratio: 0.05, ..Asked::default() };
    assert_eq!(compare(&near, wide).unwrap().counts(), [("equivalent", 4)]);
    let report = compare(&near, Asked { regression_ratio: Some(0.001), ..wide }).unwrap();
    assert!(report.fails() && report.counts() == [("slower", 4)], "{:?}", report.counts());
}

/// The store with what packets cost, and how many CPUs the DUT kept busy.
fn costing(mut store: Collection, cost_ns: f64, busy_cpus: f64) -> Collection {
    for series in &mut store.series {
        for (point, cost_ns) in series.points.iter_mut().zip(around(cost_ns)) {
            point.cost = Some(Cost {
                cost_ns,
                apparatus_ratio: Some(0.3),
                run_ns: 1,
                packets: 1,
                busy_cpus: Some(busy_cpus),
            });
        }
    }
    store
}

#[test]
fn what_packets_cost_is_compared_beside_the_rates() {
    let asked = Asked { cost_ratio: Some(0.01), ..Asked::default() };
    let stores = [
        costing(store("old", "a", 1.0), 1_000.0, 0.9),
        costing(store("new", "b", 0.7), 1_000.0, 0.63),
    ];
    // The DUT lost a third of its rate to whatever kept it from its CPU, and costs the same.
    let report = compare(&stores, asked).unwrap();
    assert!(!report.fails());
    assert_eq!(
        report.verdict().unwrap(),
        "no rise of the CPU time per packet beyond 1 % is proven"
    );
    let cost = report.matched[0].cost.as_ref().unwrap();
    assert_eq!(cost.result.as_ref().unwrap().word.name(), "equivalent");
    let why = cost.contradiction.as_ref().unwrap();
    assert!(why.contains("kept 0.63 CPU busy, the baseline 0.90 CPU"), "{why}");
    let shown = text(&report).replace('\n', " ");
    for part in ["CPU time per packet", "30 % sink, n = 5", "the rate is lower, and no difference"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let data = report.json();
    assert_eq!(data["series"][0]["cost"]["word"], json!("equivalent"));
    assert_eq!(data["fail_on_cost_percent"], json!(1.0));

    let dearer = [stores[0].clone(), costing(store("new", "b", 1.0), 1_050.0, 0.9)];
    let report = compare(&dearer, asked).unwrap();
    assert!(report.fails() && report.matched.iter().all(|m| !m.regressed));
    assert_eq!(
        report.verdict().unwrap(),
        "4 rises of the CPU time per packet beyond 1 % are proven"
    );
    let lax = Asked { cost_ratio: Some(0.1), ..asked };
    assert!(!compare(&dearer, lax).unwrap().fails());
    // Cheaper is no rise; a store that does not tell cannot be tested, and shows no table.
    let cheaper = [dearer[1].clone(), dearer[0].clone()];
    assert!(!compare(&cheaper, asked).unwrap().fails());
    let silent = [stores[0].clone(), store("new", "b", 1.0)];
    let report = compare(&silent, asked).unwrap();
    assert!(report.verdict().unwrap().ends_with("is proven, and 4 could not be tested"));
    assert!(!text(&report).contains("CPU time of the DUT"));
}

#[test]
fn a_loss_beyond_the_bound_fails_and_one_below_it_does_not() {
    let stores = [store("old", "a", 1.0), store("new", "b", 0.97)];
    let report = compare(&stores, asked(1.0)).unwrap();
    assert_eq!(report.matched.len(), 4);
    assert!(report.fails());
    assert!(report.matched.iter().all(|m| m.regressed && m.word() == "slower"));
    assert_eq!(report.verdict().unwrap(), "4 regressions beyond 1 % are proven");
    let report = compare(&stores, asked(5.0)).unwrap();
    assert!(!report.fails(), "3 % are no loss beyond 5 %");
    let report = compare(&stores, Asked::default()).unwrap();
    assert!(!report.fails(), "nothing was asked to fail on");
    // A gain is no regression.
    let gain = [stores[1].clone(), stores[0].clone()];
    let report = compare(&gain, asked(1.0)).unwrap();
    assert!(!report.fails());
    assert_eq!(report.counts(), [("faster", 4)]);
}

#[test]
fn what_is_not_proven_does_not_fail_and_is_not_called_equal() {
    let noisy = |rate: f64| [0.8, 1.1, 1.0, 0.9, 1.2].map(|f| f * rate);
    let levels = || vec![place("dut", "pf", None)];
    let stores = [
        collection("old", vec![series("pf", levels(), &noisy(1e6))]),
        collection("new", vec![series("pf", levels(), &noisy(0.98e6))]),
    ];
    let report = compare(&stores, asked(1.0)).unwrap();
    assert_eq!(report.counts(), [("undecided", 1)]);
    assert!(!report.fails());
    assert!(text(&report).contains("undecided (a difference of "), "{}", text(&report));
}

#[test]
fn a_dimension_with_one_level_on_each_side_is_what_is_compared() {
    let stores = [store("old", "a", 1.0), store("new", "b", 1.0)];
    let report = compare(&stores, Asked::default()).unwrap();
    assert_eq!(report.changed.len(), 1);
    assert_eq!((&*report.changed[0].baseline, &*report.changed[0].other), ("a", "b"));
    for m in &report.matched {
        assert_eq!(m.baseline.level("dut"), m.other.level("dut"));
        assert_eq!(m.baseline.level("flows"), m.other.level("flows"));
    }
    assert_eq!(report.counts(), [("equivalent", 4)]);
}

#[test]
fn numbers_agree_however_they_are_written() {
    let mut new = store("new", "a", 1.0);
    for level in new.series.iter_mut().flat_map(|s| &mut s.levels) {
        if level.dimension == "flows" {
            level.label = level.number.unwrap().to_string();
        }
    }
    let stores = [store("old", "a", 1.0), new];
    assert_eq!(compare(&stores, Asked::default()).unwrap().matched.len(), 4);
}

/// A store of one DUT with connections of several kinds.
fn connecting(name: &str, kinds: &[(Close, u16, u16)]) -> Collection {
    let one = |(index, &(close, request_bytes, reply_bytes)): (usize, &(Close, u16, u16))| {
        let connect = Connect { close, request_bytes, reply_bytes, count: None };
        let mut levels = vec![place("dut", "pf", None)];
        levels.extend(kind_levels((Some(&connect), None), 74.0));
        let mut series = series(&format!("pf.{index}"), levels, &around(5e4));
        series.unit = Unit::Cps;
        series
    };
    collection(name, kinds.iter().enumerate().map(one).collect())
}

#[test]
fn connections_are_paired_with_those_that_do_the_same() {
    let kinds = [(Close::Fin, 64, 128), (Close::Rst, 64, 128), (Close::Fin, 0, 2)];
    let mut turned = kinds;
    turned.reverse();
    let stores = [connecting("old", &kinds), connecting("new", &turned)];
    let report = compare(&stores, Asked::default()).unwrap();
    let pairs = report.matched.iter().map(|m| (m.baseline.name.as_str(), m.other.name.as_str()));
    let pairs: Vec<_> = pairs.collect();
    assert_eq!(pairs, [("pf.0", "pf.2"), ("pf.1", "pf.1"), ("pf.2", "pf.0")]);
    let stores = [connecting("old", &kinds[..1]), connecting("new", &kinds[1..2])];
    let report = compare(&stores, Asked::default()).unwrap();
    let changed: Vec<_> = report.changed.iter().map(|c| (&*c.dimension, &*c.other)).collect();
    assert_eq!(changed, [("close", "rst")]);
}

#[test]
fn connections_are_not_compared_with_packets_or_with_those_that_stay_open() {
    let closed = connecting("closed", &[(Close::Fin, 64, 128)]);
    let mut packets = connecting("pps", &[(Close::Fin, 64, 128)]);
    let mut open = connecting("conn", &[(Close::None, 64, 128)]);
    packets.series[0].unit = Unit::Pps;
    packets.series[0].levels = vec![place("dut", "pf", None)];
    packets.series[0].levels.extend(kind_levels((None, None), 60.0));
    open.series[0].unit = Unit::Connections;
    for (other, unit) in [(packets, "pps"), (open, "conn")] {
        let stores = [closed.clone(), other];
        let Err(error) = compare(&stores, Asked::default()) else { panic!("compared with {unit}") };
        let sentence = format!("pf.0: counts conn/s, but pf.0 of {unit} counts {unit}");
        assert!(error.to_string().contains(&sentence), "{error}");
    }
}

#[test]
fn what_has_no_partner_is_listed_with_the_reason() {
    let mut new = store("new", "b", 1.0);
    let gone = new.series.remove(0);
    new.series[0].unit = Unit::Bps;
    new.series[1].points.truncate(1);
    let twice = new.series[2].clone();
    new.series.push(CollectedSeries { name: "again".into(), ..twice });
    let stores = [store("old", "a", 1.0), new];
    let report = compare(&stores, Asked { missing_fails: true, ..asked(1.0) }).unwrap();
    let of = |owner: usize| -> Vec<String> {
        report.unmatched.iter().filter(|u| u.owner_index == owner).map(Unmatched::line).collect()
    };
    assert_eq!(report.matched.len(), 1);
    assert_eq!(report.matched[0].word(), "none", "one value cannot be compared");
    assert_eq!(of(0).len(), 3, "{:?}", of(0));
    assert!(text(&report).contains("1 value on a side"), "{}", text(&report));
    assert!(of(0)[0].contains("not in new"), "{:?} for {}", of(0), gone.name);
    assert!(of(0)[1].contains("counts pps, but"), "{:?}", of(0));
    assert!(of(0)[2].contains("several with the same levels"), "{:?}", of(0));
    assert_eq!(of(1).len(), 3, "{:?}", of(1));
    assert!(report.fails(), "missing series fail");
    assert!(report.verdict().unwrap().contains("1 could not be tested"));
    for text in [text(&report), report.document(&[]).markdown(), report.document(&[]).html()] {
        for name in ["again", "a.pf.64Ki"] {
            assert!(text.contains(name), "{name} is dropped: {text}");
        }
    }
}

#[test]
fn nothing_in_common_is_refused_with_the_reason() {
    let one = collection(
        "old",
        vec![
            series("x", vec![place("dut", "x", None), place("n", "1", Some(1.0))], &around(1.0)),
            series("z", vec![place("dut", "z", None), place("n", "2", Some(2.0))], &around(1.0)),
        ],
    );
    let two = collection(
        "new",
        vec![
            series("y", vec![place("dut", "y", None), place("n", "3", Some(3.0))], &around(1.0)),
            series("w", vec![place("dut", "w", None), place("n", "4", Some(4.0))], &around(1.0)),
        ],
    );
    let error = compare(&[one.clone(), two], Asked::default()).unwrap_err().to_string();
    assert!(error.contains("x: not in new") && error.contains("dut, n"), "{error}");
    assert!(matches!(compare(&[one], Asked::default()), Err(CompareError::TooFew(1))));
}

#[test]
fn invalid_runs_do_not_count() {
    let mut old = store("old", "a", 1.0);
    let verdict = Verdict { kind: VerdictKind::Invalid, reason: "link flap".into() };
    old.series[0].points[0] =
        CollectedPoint { value: 0.0, verdict: Some(verdict), ..old.series[0].points[0].clone() };
    let stores = [old, store("new", "a", 1.0)];
    let report = compare(&stores, Asked::default()).unwrap();
    let first = report.matched[0].result.as_ref().unwrap();
    assert_eq!((first.baseline.count, first.other.count), (4, 5));
    assert!(report.document(&["a".into(), "b".into()]).html().contains("(invalid)"));
}

#[test]
fn environments_are_compared_without_what_passes() {
    let mut stores = [store("old", "a", 1.0), store("new", "a", 1.0), store("last", "a", 1.0)];
    let environment = |kernel: &str, time: &str| {
        let host = json!({"kernel_release": kernel, "os": "x"});
        json!({"taken_utc": time, "host": host})
    };
    stores[0].environment = environment("6.1", "1");
    stores[1].environment = environment("6.18", "2");
    stores[2].environment = json!({"dut": {"uname": "FreeBSD <b>"}});
    let report = compare(&stores, Asked::default()).unwrap();
    let paths: Vec<&str> = report.environment.iter().map(|d| d.path.as_str()).collect();
    assert_eq!(paths, ["/dut", "/host/kernel_release", "/host"]);
    let kernel = &report.environment[1];
    assert!(kernel.matters);
    assert_eq!(kernel.values[..2], [Some("6.1".to_owned()), Some("6.18".to_owned())]);
    assert_eq!(report.matched.len(), 8, "both others against the first");
    assert!(report.document(&[]).markdown().contains("6.18"));
}

#[test]
fn every_form_tells_the_same() {
    let stores = [store("old & <x>", "a", 1.0), store("new", "b", 0.97)];
    let report = compare(&stores, asked(1.0)).unwrap();
    let value = report.json();
    assert_eq!(value["fails"], true);
    assert_eq!(value["series"][0]["word"], "slower");
    assert_eq!(value["series"][0]["baseline"]["name"], "a.pf.64Ki");
    let percent = value["series"][0]["comparison"]["difference_percent"].as_f64().unwrap();
    assert!((percent + 3.0).abs() < 0.01, "{percent}");
    let page = report.document(&["../old".into(), String::new()]).html();
    assert!(page.contains("href=\"../old/cells/a.pf.64Ki/1/trial.json\""), "links to raw cells");
    assert!(!page.contains("old & <x>") && page.contains("old &amp; &lt;x&gt;"));
    for text in [text(&report), report.document(&[]).markdown(), page] {
        assert!(text.contains("4 comparisons: 4 slower"), "{text}");
        assert!(text.contains("slower by at least 2"), "{text}");
        assert_eq!(text.matches("on average ").count(), 4, "{text}");
        let text = text.replace('\u{a0}', " ");
        assert!(text.contains(" in old"), "{text}");
        assert!(text.contains(", \u{2212}3.00 % (\u{2212}3.32 % to "), "{text}");
    }
    // ministat's layout is an appendix of the files.
    let blocks = report.ministat();
    assert_eq!(blocks.len(), 4);
    assert!(blocks[0].0.contains("a.pf.64Ki, old") && blocks[0].1.contains("Student's t"));
    let markdown = report.document(&[]).markdown();
    assert!(blocks.iter().all(|(_, block)| markdown.contains(block.trim_end())), "{markdown}");
    assert!(!text(&report).contains("Student's t"));
    let names: Vec<&str> = report.figures().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["iterations", "curves"]);
}

#[test]
fn warnings_of_both_sides_are_told_with_each_advice_once() {
    let levels = |dut: &str| vec![place("dut", dut, None)];
    let same = vec![4e5; 6];
    let stores = [
        collection("old", vec![series("a", levels("a"), &same), series("b", levels("b"), &same)]),
        collection(
            "new",
            vec![series("a", levels("a"), &around(4e5)), series("b", levels("b"), &same)],
        ),
    ];
    let report = compare(&stores, Asked::default()).unwrap();
    let warned = report.warnings();
    let flat = |w: &&Warned<'_>| w.warning.kind() == "no-spread";
    assert_eq!(warned.iter().filter(flat).count(), 3, "{warned:?}");
    for text in [text(&report), report.document(&[]).markdown(), report.document(&[]).html()] {
        assert_eq!(text.matches("all values are the same").count(), 1, "{text}");
        assert!(text.replace('\n', " ").contains("(also b, b)"), "{text}");
        assert_eq!(text.matches("measured rates differ in their last digits").count(), 1);
    }
    assert_eq!(report.json()["warnings"].as_array().map(Vec::len), Some(warned.len()));
}

#[test]
fn a_median_links_to_the_run_that_is_nearest_to_it() {
    let stores = [store("old", "a", 1.0), store("new", "a", 1.0)];
    let report = compare(&stores, Asked::default()).unwrap();
    let page = report.document(&["../old".into(), String::new()]).html();
    // The third value is the median.
    let point = "<a class=\"hit\" href=\"../old/cells/a.pf.64Ki/3/trial.json\" tabindex=\"-1\">\
                 <title>old: a.pf.64Ki, iteration 3\n0.4000 Mpps";
    assert!(page.contains(point), "a point tells its run");
    let link = "<a href=\"../old/cells/a.pf.64Ki/3/trial.json\">0.4000\u{a0}Mpps</a>";
    assert!(page.contains(link), "{page}");
}

#[test]
fn a_baseline_of_nothing_has_no_block_and_says_so() {
    let levels = || vec![place("dut", "pf", None)];
    let stores = [
        collection("old", vec![series("pf", levels(), &[0.0; 5])]),
        collection("new", vec![series("pf", levels(), &around(4e5))]),
    ];
    let report = compare(&stores, Asked::default()).unwrap();
    for text in [report.document(&[]).markdown(), report.document(&[]).html()] {
        assert!(text.contains("no ministat block for pf"), "{text}");
        assert!(!text.contains("inf%") && !text.contains("nan%"), "{text}");
    }
}

/// A store of one series whose DUT has a toggle that makes a packet cost `factor` of what it costs
/// without, with a control that finds `bias`.
fn toggled(name: &str, factor: f64, bias: f64) -> Collection {
    let pair = |off_ns: f64, on_ns: f64, (off, on): (Role, Role), pair: u32| {
        let window = |role, cost_ns: f64| Window {
            pair,
            role,
            t_ns: 0,
            elapsed_ns: 450_000_000,
            run_ns: format!("{:.0}", cost_ns * 1e6).parse().expect("a time"),
            received_packets: 1_000_000,
            delivered_packets: 1_000_000,
        };
        [window(off, off_ns), window(on, on_ns)]
    };
    let mut data = crate::summary::fixture::usual();
    data.campaign.name = name.to_owned();
    data.cells.truncate(1);
    let record = &mut data.cells[0].0;
    let toggle = Toggle { on: format!("sysctl -w x={factor}"), off: "sysctl -w x=0".into() };
    record.dut.as_mut().expect("a DUT").toggle = Some(toggle);
    let cell = data.cells[0].clone();
    data.cells = (1..=4_u32)
        .map(|iteration| {
            let wobble = |number: u32| 1.0 + f64::from((number * 7 + iteration * 3) % 5) * 2e-3;
            let mut cell = cell.clone();
            cell.0.iteration = iteration;
            cell.0.windows = (0..12_u32)
                .flat_map(|number| match number % 3 {
                    2 => pair(900.0, 900.0 * bias * wobble(number), CONTROLS, number),
                    _ => pair(900.0, 900.0 * factor * wobble(number), SETTINGS, number),
                })
                .collect();
            cell
        })
        .collect();
    Collection::of_campaign(&data)
}

const SETTINGS: (Role, Role) = (Role::Off, Role::On);
const CONTROLS: (Role, Role) = (Role::ControlOff, Role::ControlOn);

#[test]
fn two_toggles_are_held_against_each_other_as_a_ratio_of_ratios() {
    let costs = Asked { cost_ratio: Some(0.01), ..Asked::default() };
    let stores = |factor| [toggled("old", 0.9, 1.0), toggled("new", factor, 1.0)];
    let dearer = stores(0.95);
    let report = compare(&dearer, costs).unwrap();
    assert!(report.matched.is_empty() && report.fails());
    let [found] = &report.toggled[..] else { panic!("one pair") };
    let change = found.change.expect("pairs");
    assert!((change.difference_percent - (0.95 / 0.9 - 1.0) * 100.0).abs() < 0.1, "{change:?}");
    let ToggleClaim::Dearer(rise) = found.claim else { panic!("{:?}", found.claim) };
    assert!((0.05..0.0556).contains(&rise), "{rise}");
    let value = report.json();
    assert_eq!((&value["toggles"][0]["word"], &value["fails"]), (&"dearer".into(), &true.into()));
    let (markdown, page) = (report.document(&[]).markdown(), report.document(&[]).html());
    for text in [text(&report), markdown.replace('\\', ""), page.replace('\u{a0}', " ")] {
        for part in ["1 comparison of two settings: 1 dearer", "dearer by at least ", "32 pairs"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("sysctl -w x=0.95"), "the settings differ: {text}");
        assert!(!text.contains("not comparable"), "{text}");
    }
    let cheaper = stores(0.85);
    let report = compare(&cheaper, costs).unwrap();
    assert!(!report.fails() && matches!(report.toggled[0].claim, ToggleClaim::Cheaper(_)));
    let same = stores(0.9);
    let report = compare(&same, costs).unwrap();
    assert_eq!(report.toggled[0].claim, ToggleClaim::Undecided);
    assert!(text(&report).contains("no difference is proven"), "{}", text(&report));
}

#[test]
fn a_control_that_fails_or_another_host_takes_the_proof_out_of_toggles() {
    let failing = [toggled("old", 0.9, 1.0), toggled("new", 0.95, 1.2)];
    let costs = Asked { cost_ratio: Some(0.01), ..Asked::default() };
    let report = compare(&failing, costs).unwrap();
    assert_eq!((report.toggled[0].claim, report.fails()), (ToggleClaim::ControlFailed, false));
    let shown = text(&report);
    assert!(shown.contains("not judged (the controls differ by as much"), "{shown}");
    assert!(shown.contains("1 could not be tested"), "{shown}");
    let mut hosts = [toggled("old", 0.9, 1.0), toggled("new", 0.95, 1.0)];
    hosts[0].yardsticks = vec![reading(10.0, 100.0)];
    hosts[1].yardsticks = vec![reading(13.0, 100.0)];
    let report = compare(&hosts, costs).unwrap();
    assert_eq!((report.toggled[0].claim, report.fails()), (ToggleClaim::HostDiffers, false));
    // What differs between controls is taken off.
    let biased = [toggled("old", 0.9, 1.0), toggled("new", 0.99, 1.05)];
    let report = compare(&biased, costs).unwrap();
    let ToggleClaim::Dearer(rise) = report.toggled[0].claim else { panic!("{shown}") };
    assert!((0.03..0.05).contains(&rise), "10 % less 5 %: {rise}");
    // Too few iterations are said to be, and none of a device that no longer works is a loss.
    let mut few = [toggled("old", 0.9, 1.0), toggled("new", 0.9, 1.0)];
    few[1].series[0].toggle.as_mut().expect("a toggle").iterations_ns.truncate(2);
    let report = compare(&few, Asked { missing_fails: true, ..costs }).unwrap();
    assert!(text(&report).contains("it takes 3 iterations on each side"), "{}", text(&report));
    assert!(!report.fails());
    few[1].series[0].toggle.as_mut().expect("a toggle").iterations_ns.clear();
    assert!(compare(&few, Asked { missing_fails: true, ..costs }).unwrap().fails());
}

#[test]
fn disturbed_iterations_of_toggles_are_left_out() {
    let data = crate::summary::fixture::usual();
    let mut record = data.cells[0].0.clone();
    let window = |role, run_ns| Window {
        pair: 0,
        role,
        t_ns: 0,
        elapsed_ns: 450_000_000,
        run_ns,
        received_packets: 1_000_000,
        delivered_packets: 1_000_000,
    };
    record.windows = vec![window(Role::Off, 900_000_000), window(Role::On, 450_000_000)];
    let ratios =
        |record: &TrialRecord| crate::summary::turns::iteration_pairs_ns(&[record], SETTINGS);
    let [(off_ns, on_ns)] = ratios(&record)[..] else { panic!("one iteration") };
    assert!((off_ns - 900.0).abs() < 1e-6 && (on_ns - 450.0).abs() < 1e-6, "{off_ns}, {on_ns}");
    record.verdict.kind = VerdictKind::Disturbed;
    assert!(ratios(&record).is_empty());
}

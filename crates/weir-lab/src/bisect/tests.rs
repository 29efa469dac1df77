use std::path::Path;

use weir_results::record::VerdictKind;

use super::*;
use crate::plan::{self, Overrides};
use crate::spec::files::MemoryFiles;

const COMMITS: &str = r#"
[campaign]
name = "c"
iterations = 1
[testbed]
kind = "netns"
[[sweep]]
name = "commit"
values = ["aaa", "bbb", "ccc", "ddd"]
[[sweep]]
name = "queues"
values = [1, 2]
[[dut]]
name = "new"
kind = "command"
start = "run ${commit} ${queues}"
[[dut]]
name = "old"
kind = "command"
start = "exec run ${commit} ${queues}"
[[traffic]]
name = "small"
src = "198.18.10.1"
dst = "198.19.10.1"
[[traffic]]
name = "large"
src = "198.18.10.1"
dst = "198.19.10.1"
size = 1514
"#;

fn plan_of(text: &str) -> Plan {
    let files = MemoryFiles::default();
    plan::from_text(Path::new("lab.toml"), text, &files, &Overrides::default()).expect("good").0
}

fn list(good: &str, bad: &str, metric: Option<&str>) -> Result<(String, Vec<String>), String> {
    let plan = plan_of(COMMITS);
    let list = List::of(&plan.series, good, bad, metric).map_err(|e| e.to_string())?;
    let names = list.entries.iter().map(|entry| plan.series[entry.series_index].name.clone());
    Ok((list.dimension, names.collect()))
}

#[test]
fn the_list_lies_between_the_names_in_the_order_of_the_specification() {
    let series = |commits: &[&str]| -> Vec<String> {
        commits.iter().map(|c| format!("new.commit={c}.queues=2.small")).collect()
    };
    let metric = Some("new.queues=2.small");
    let (dimension, names) = list("bbb", "ddd", metric).unwrap();
    assert_eq!((dimension.as_str(), names), ("commit", series(&["bbb", "ccc", "ddd"])));
    assert_eq!(list("ccc", "aaa", metric).unwrap().1, series(&["ccc", "bbb", "aaa"]));
    assert_eq!(list("commit=aaa", "commit=bbb", metric).unwrap().1, series(&["aaa", "bbb"]));
    // The whole name of one candidate's series, and patterns.
    for same in ["new.commit=ddd.queues=2.small", "new.*=2.small", "new.commit=*.queues=2.small"] {
        assert_eq!(list("aaa", "bbb", Some(same)).unwrap().1, series(&["aaa", "bbb"]), "{same}");
    }
    let (dimension, names) = list("new", "old", Some("commit=aaa.queues=1.large")).unwrap();
    let expected = ["new", "old"].map(|dut| format!("{dut}.commit=aaa.queues=1.large"));
    assert_eq!((dimension.as_str(), names), ("dut", expected.to_vec()));
}

#[test]
fn what_gives_no_list_is_refused() {
    let refused = |good, bad, metric| list(good, bad, metric).unwrap_err();
    let unknown = refused("eee", "ddd", None);
    assert!(unknown.contains("--good `eee`") && unknown.contains("commit aaa, bbb"), "{unknown}");
    assert!(refused("new", "ddd", None).contains("not in the same list"));
    assert!(refused("aaa", "aaa", None).contains("both `aaa`"));
    let several = refused("aaa", "bbb", None);
    assert!(several.contains("`aaa` has 8") && several.contains("new.queues=1.small"), "{several}");
    let none = refused("aaa", "bbb", Some("newer.*"));
    assert!(none.contains("leaves no series of `aaa`"), "{none}");
    assert!(refused("aaa", "bbb", Some("[")).contains("not a pattern"));
    let doubled = COMMITS.replace("values = [1, 2]", "values = [\"aaa\", \"ddd\"]");
    let plan = plan_of(&doubled);
    let ambiguous = List::of(&plan.series, "aaa", "ddd", None).unwrap_err().to_string();
    assert!(ambiguous.contains("commit, queues") && ambiguous.contains("--good commit=aaa"));
    let chosen = List::of(&plan.series, "queues=aaa", "queues=ddd", Some("new.commit=bbb.small"));
    assert_eq!(chosen.unwrap().dimension, "queues");
}

#[test]
fn a_candidate_is_passed_over_when_more_of_its_runs_are_invalid() {
    let mut record = crate::fixture::trial("linux", "t", 1);
    let mut runs = Runs::default();
    runs.add(&record);
    record.verdict.kind = VerdictKind::Invalid;
    record.verdict.reason = "it did not build".into();
    for iteration in 2..=3 {
        record.iteration = iteration;
        runs.add(&record);
    }
    assert!(!runs.is_skipped());
    record.iteration = 4;
    runs.add(&record);
    assert!(runs.is_skipped());
    assert_eq!((runs.last, runs.values_pps.len(), runs.invalid), (4, 1, 3));
    assert_eq!(runs.reason, "it did not build");
}

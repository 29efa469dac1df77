//! The page about these scenarios says what is true: each test that it names is there, and what it
//! calls refused is refused for that reason.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{assert_exit, run, stderr};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of its tables: the cells.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/fw-scenarios.md")).expect("it is there");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = |row: &str| row.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    rows.map(cells).filter(|row| row.len() == 5).collect()
}

/// Whether a test of this path is in the sources: `firewall::nat::…` of the end-to-end tests, or
/// `datapath::states::…` of those of the data path.
fn exists(path: &str) -> bool {
    let Some((modules, name)) = path.rsplit_once("::") else { return false };
    let place = if modules.starts_with("datapath") {
        "crates/weir-fw/tests/it"
    } else {
        "crates/weir/tests/e2e"
    };
    let file = root().join(place).join(modules.replace("::", "/")).with_extension("rs");
    let text = fs::read_to_string(file).unwrap_or_default();
    text.contains(&format!("#[test]\nfn {name}() {{\n"))
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let rows = rows();
    assert!(rows.len() > 100, "{} rows", rows.len());
    for row in rows.iter().filter(|row| row[0] != "suite") {
        let (result, tests) = (&row[3], &row[4]);
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let kinds = ["passes", "differs: ", "refused: ", "does not apply: "];
        assert!(kinds.iter().any(|kind| result.starts_with(kind)), "{row:?}");
        assert!(!result.starts_with("passes") || !named.is_empty(), "{row:?}");
        for test in named {
            assert!(exists(test), "{test}: {row:?}");
        }
    }
}

const FACTS: &str = "\
interface b0 10.1.0.1/24 broadcast 10.1.0.255 fd01::1/64
interface b1 10.2.0.1/24 broadcast 10.2.0.255 fd02::1/64
";

/// Rules of the scenarios that weir does not run, by dialect, and the reason.
const REFUSED: [(&str, &str, &str); 7] = [
    ("freebsd", "nat on b1 inet all -> <t> source-hash\n", "not supported by this pool type"),
    ("freebsd", "nat on b1 inet all -> <t> random\n", "not supported by this pool type"),
    ("freebsd", "pass in on b0 inet nat-to 203.0.113.0\n", "`nat-to in a rule that is not out"),
    ("freebsd", "pass in route-to (b1 <t>) random\n", "not supported by this pool type"),
    ("freebsd", "pass in route-to (b1 10.2.0.2) prefer-ipv6-nexthop\n", "`prefer-ipv6-nexthop`"),
    ("freebsd", "pass in proto tcp divert-to 8000\n", "FreeBSD's divert-to`"),
    ("openbsd", "anchor \"a\" {\nanchor \"/a\"\n}\n", "`a` contains itself"),
];

#[test]
fn what_the_page_calls_refused_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("writable");
        path.to_string_lossy().into_owned()
    };
    let facts = file("facts", FACTS);
    for (dialect, rules, reason) in REFUSED {
        let path = file("pf.conf", rules);
        let output = run(&["fw", "check", "--dialect", dialect, "--facts", &facts, &path]);
        assert_exit(&output, 1);
        assert!(stderr(&output).contains(reason), "{rules}: {}", stderr(&output));
    }
}

#[test]
fn what_changes_nothing_draws_a_warning() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("pf.conf");
    let rules = "set timeout sctp.first 13\nset timeout sctp.opening 14\npass\n";
    fs::write(&path, rules).expect("writable");
    let output = run(&["fw", "check", &path.to_string_lossy()]);
    assert_exit(&output, 0);
    let said = stderr(&output);
    for name in ["sctp.first", "sctp.opening"] {
        assert!(said.contains(&format!("warning: `{name}` changes nothing here")), "{said}");
    }
}

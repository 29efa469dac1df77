//! Holds `docs/lab.md` against the reader of specifications.
//!
//! The reader tells a stranger which fields there are: every section is given a field that it
//! cannot have, and the names in its answer must stand in the document.

use std::collections::BTreeSet;
use std::path::Path;

use weir_lab::plan::{self, Overrides};
use weir_lab::spec::files::MemoryFiles;
use weir_results::number::percent;
use weir_stats::Threshold;

/// A name that is near no other, so that the answer is the list.
const STRANGER: &str = "qqqqqqqqqqqq = 1\n";

/// A section, and the lines that it needs before a stranger is noticed.
const SECTIONS: [(&str, &str); 11] = [
    ("", ""),
    ("[campaign]", ""),
    ("[trial]", ""),
    ("[testbed]", "kind = \"netns\"\n"),
    ("[[dut]]", "kind = \"linux\"\n"),
    ("[[dut]]", "kind = \"command\"\n"),
    ("[[dut]]", "kind = \"weir-fw\"\n"),
    ("[[dut]]", "kind = \"linux\"\n[dut.files]\n"),
    ("[[traffic]]", ""),
    ("[[traffic]]", "[[traffic.streams]]\n"),
    ("[[sweep]]", ""),
];

/// The names that the reader knows in a section.
fn names(section: &str, before: &str) -> Vec<String> {
    let text = format!("{section}\n{before}{STRANGER}");
    let files = MemoryFiles::default();
    let refused = plan::from_text(Path::new("lab.toml"), &text, &files, &Overrides::default());
    let helps = refused.unwrap_err().into_iter().filter_map(|diagnostic| diagnostic.help);
    let list = helps.into_iter().find_map(|help| {
        let list = help.strip_prefix("it has: ").or_else(|| help.strip_prefix("there are: "));
        list.map(str::to_owned)
    });
    let list = list.unwrap_or_else(|| panic!("{section} {before} names no fields"));
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_field_is_in_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut found = BTreeSet::new();
    for (section, before) in SECTIONS {
        // The section's own part of the document, where it is one.
        let part = match section {
            "" => document.as_str(),
            _ => {
                let start = document.find(&format!("\n## `{section}`"));
                let start = start.unwrap_or_else(|| panic!("docs/lab.md has no part {section}"));
                let rest = &document[start + 1..];
                rest.find("\n## ").map_or(rest, |end| &rest[..end])
            }
        };
        for name in names(section, before) {
            let is_there =
                part.contains(&format!("`{name}`")) || part.contains(&format!("[{name}]"));
            assert!(is_there, "docs/lab.md, {section}: `{name}` is missing");
            found.insert(name);
        }
    }
    // The lists were lists: sections, and fields of each of them.
    for name in [
        "sweep",
        "iterations",
        "drain",
        "queues",
        "ready_timeout",
        "program",
        "conntrack_max",
        "nft",
        "size",
        "weight",
        "latency",
    ] {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
}

#[test]
fn every_field_of_hosts_is_in_their_document() {
    const HOSTS: &str = "[testbed]\nkind = \"hosts\"\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hosts.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut found = BTreeSet::new();
    for before in [
        HOSTS.to_owned(),
        format!("{HOSTS}[[testbed.generator]]\n"),
        format!("{HOSTS}[testbed.receiver]\n"),
        format!("{HOSTS}[testbed.dut]\n"),
        format!("{HOSTS}[[testbed.switch]]\n"),
        "[[image]]\n".to_owned(),
        "[[dut]]\nkind = \"freebsd\"\n".to_owned(),
    ] {
        for name in names("", &before) {
            let is_there = [format!("`{name}`"), format!("\n{name} = "), format!(".{name}]")]
                .iter()
                .any(|shown| document.contains(shown));
            assert!(is_there, "docs/hosts.md: `{name}` is missing");
            found.insert(name);
        }
    }
    for name in ["next_hop_mac", "packets", "receives", "ipmi", "to_dut", "sha256", "tree"] {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
}

#[test]
fn every_threshold_is_in_its_document() {
    let check = |name: &str, thresholds: &[Threshold]| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let document = std::fs::read_to_string(path).unwrap();
        for Threshold { name: threshold, value, unit, .. } in thresholds {
            let row = format!("| `{threshold}` | {} {unit} |", percent(*value));
            assert!(document.contains(&row), "docs/{name} has no row {row}");
        }
    };
    check("statistics.md", &weir_stats::warning::THRESHOLDS);
    check("verdicts.md", &weir_results::verdict::THRESHOLDS);
    check("search.md", &[weir_stats::search::OFFER_KEPT_MIN]);
}

#[test]
fn the_example_in_the_document_is_accepted() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md");
    let document = std::fs::read_to_string(path).unwrap();
    let text = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut files = MemoryFiles::default();
    files.0.insert("rules.nft".into(), "# ${rule_count}\n".to_owned());
    let text = text.expect("a first block of TOML");
    let result = plan::from_text(Path::new("lab.toml"), text, &files, &Overrides::default());
    let (plan, warnings) = result.unwrap_or_else(|refused| panic!("{refused:#?}"));
    assert!(warnings.is_empty(), "{warnings:#?}");
    assert_eq!(plan.series.len(), 3);
}

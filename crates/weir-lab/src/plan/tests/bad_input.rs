//! Bad input, and exactly what is said about it: the fixtures of `bad_input.txt`.
//!
//! A fixture is `=== title`, a specification, `---`, and the expected diagnostics. Sections that
//! it leaves out are appended from a good one, unless its title ends with `(as it is)`. A line
//! `>>> path` begins a file that the specification names.

use super::*;

const FIXTURES: &str = include_str!("bad_input.txt");

/// A good section each, by the header that a fixture's own would have.
const SECTIONS: [(&str, &str); 4] = [
    ("[campaign]", "[campaign]\nname = \"c\"\niterations = 2\n"),
    ("[testbed]", "[testbed]\nkind = \"netns\"\n"),
    ("[[dut]]", "[[dut]]\nname = \"a\"\nkind = \"linux\"\n"),
    ("[[traffic]]", "[[traffic]]\nname = \"t\"\nsrc = \"198.18.10.1\"\ndst = \"198.19.10.1\"\n"),
];

struct Fixture<'f> {
    title: &'f str,
    text: String,
    files: Vec<(&'f str, &'f str)>,
    expected: &'f str,
}

fn fixtures() -> Vec<Fixture<'static>> {
    let parse = |fixture: &'static str| {
        let (title, rest) = fixture.split_once('\n').expect("a title");
        let (input, expected) = rest.split_once("---\n").expect("what is expected");
        let mut parts = input.split(">>> ");
        let mut text = parts.next().expect("a specification").to_owned();
        let files = parts.map(|file| file.split_once('\n').expect("a file")).collect();
        if !title.ends_with("(as it is)") {
            for (header, section) in SECTIONS {
                if !text.lines().any(|line| line == header) {
                    text.push_str(section);
                }
            }
        }
        Fixture { title, text, files, expected: expected.trim_end() }
    };
    FIXTURES.split("=== ").skip(1).map(parse).collect()
}

#[test]
fn every_bad_input_is_refused_as_written_down() {
    let fixtures = fixtures();
    let mut wrong = String::new();
    for fixture in &fixtures {
        let said = match try_plan(&fixture.text, &fixture.files) {
            Ok(_) => "(accepted)".into(),
            Err(diagnostics) => diagnostics.join("\n"),
        };
        if said != fixture.expected {
            wrong.push_str(&format!("=== {}\n{said}\n\n", fixture.title));
        }
    }
    assert!(wrong.is_empty(), "these say something else:\n{wrong}");
    assert!(fixtures.len() > 50, "the fixtures were read: {}", fixtures.len());
}

#[test]
fn what_the_fixtures_append_is_good() {
    let text: String = SECTIONS.iter().map(|(_, section)| *section).collect();
    assert_eq!(plan(&text, &[]).series.len(), 1);
}

//! The packet tests of `tests/packets`, on the reference device.

use std::path::{Path, PathBuf};

use weir_oracle::format::TestFile;
use weir_oracle::reference::Reference;
use weir_oracle::runner;

fn files() -> Vec<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packets");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// All differences of a test, a line each; a file that cannot be read is one.
fn differences(name: &str, text: &str) -> Vec<String> {
    match TestFile::parse(name, text) {
        Ok(test) => {
            let found = runner::run(&test, &mut Reference::new());
            found.iter().map(ToString::to_string).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn the_reference_passes_all_packet_tests() {
    let files = files();
    assert!(files.len() >= 60, "{} files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let name = format!("tests/packets/{}", path.file_name().unwrap().to_str().unwrap());
        wrong.extend(differences(&name, &std::fs::read_to_string(&path).unwrap()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const SMALL: &str = "\
interface em0 10.0.0.1/24
interface em1 192.0.2.1/24
rules {
block
pass in on em0 proto udp to port 53
pass out
}
";

#[test]
fn what_is_not_as_expected_is_told_with_its_line() {
    for (line, message) in [
        (
            "in on em0 udp 10.0.0.5:1 > 192.0.2.9:54 => out em1",
            "`out em1` expected, `blocked match` found",
        ),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => box", "`box` expected, `out em1` found"),
        (
            "in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => out em1, ttl 64",
            "ttl: 64 expected, 63 found",
        ),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => out em1, tos 4", "tos: 4 expected, 0 found"),
        (
            "in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => out em1, df",
            "don't-fragment bit: 1 expected, 0 found",
        ),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => out em1, logged", "it is not logged"),
        ("states: 1", "1 states expected, 0 found:\n  "),
        (
            "state: udp 10.0.0.5:1 -> 192.0.2.9:53 SINGLE:NO_TRAFFIC",
            "no state `udp 10.0.0.5:1 -> 192.0.2.9:53 SINGLE:NO_TRAFFIC`; there are:\n  ",
        ),
        ("drops: match 1", "match: 1 expected, 0 found"),
        ("inserts: 2", "inserts: 2 expected, 0 found"),
        ("removals: 2", "removals: 2 expected, 0 found"),
        ("refused {\npass\n}", "the ruleset should have been refused"),
        (
            "rules {\npass in rtable 1\n}",
            "the ruleset is refused: small:9: `rtable` is not followed",
        ),
        ("rules {\npass im\n}", "the rules are wrong:\n  small:1:6: error: "),
    ] {
        let found = differences("small", &format!("{SMALL}{line}\n"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(&format!("small:8: {message}")), "{}", found[0]);
    }
    let text =
        format!("{SMALL}in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => out em1\nno state: udp\n");
    let found = differences("small", &text);
    assert!(found[0].starts_with("small:9: a state that should not be there: udp"), "{found:?}");
}

#[test]
fn what_cannot_be_read_is_told_with_its_line() {
    for (line, message) in [
        ("fly", "`fly` does not begin a line of a packet test"),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53", "the packet lacks `=>`"),
        (
            "in on em9 udp 10.0.0.5:1 > 192.0.2.9:53 => box",
            "`em9` is not an interface of this test",
        ),
        ("in on em0 udp 10.0.0.5 > 192.0.2.9:53 => box", "the source has no port"),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => away", "`away` is not an outcome"),
        (
            "in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => blocked hunger",
            "`hunger` is not a drop reason; reasons are match,",
        ),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => box, ttl 3", "only a packet that goes `out`"),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 => out em1, wet", "`wet` cannot be checked"),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 ttl => box", "`ttl` needs a number"),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 ttl 300 => box", "300 is too large for `ttl`"),
        ("in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 tag A => box", "a frame does not carry `tag`"),
        ("in on em0 fragment udp 10.0.0.5 > 192.0.2.9 => box", "a fragment with an `offset`"),
        (
            "in on em0 udp 10.0.0.5:1 > 192.0.2.9:53 offset 9 => box",
            "a fragment's offset is a multiple",
        ),
        ("route 10.0.0.0 em0", "a route is `route PREFIX INTERFACE`"),
        ("interface em3 nonsense", "`nonsense`"),
        ("dialect latin", "a dialect is freebsd or openbsd"),
        ("at noon", "`noon` is not a duration"),
        ("state: udp 10.0.0.5:1", "a state is `PROTOCOL SOURCE -> DESTINATION STATE:STATE`"),
        ("drops: hunger 3", "`hunger 3` is not a drop reason with a number"),
        ("states: many", "`many` is not a number"),
        ("rules {\npass", "the block has no closing `}`"),
    ] {
        let found = differences("small", &format!("{SMALL}{line}\n"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        let is_named = found[0].starts_with("small:8: ") && found[0].contains(message);
        assert!(is_named, "{line}: {}", found[0]);
    }
}

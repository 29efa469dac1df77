use std::ffi::{OsStr, OsString};

use weir_stats::Confidence;
use weir_stats::ministat::{EvenMedian, Version};

use super::is_called_by;
use crate::cli::ministat::{HELP, Parsed, Plan, leading_integer, parse};

fn words(line: &[&str]) -> Vec<OsString> {
    line.iter().map(OsString::from).collect()
}

#[track_caller]
fn plan(line: &[&str]) -> Plan {
    match parse(&words(line)) {
        Ok(Parsed::Plan(plan)) => plan,
        other => panic!("{line:?}: {other:?}"),
    }
}

/// The first lines of a refusal, up to the usage.
#[track_caller]
fn refusal(line: &[&str]) -> String {
    let text = parse(&words(line)).expect_err("refused");
    let (whine, usage) = text.split_once("Usage: ").expect("the usage follows");
    assert!(usage.ends_with("(default 74 or terminal width)\n"), "{text}");
    whine.to_owned()
}

#[test]
fn only_the_files_name_counts() {
    for (name, is) in [("ministat", true), ("/usr/bin/ministat", true), ("weir", false)] {
        assert_eq!(is_called_by(OsStr::new(name)), is, "{name}");
    }
}

#[test]
fn options_as_getopt_has_them() {
    let given = plan(&["-snw30", "-C", "2", "-c99.5", "-d", ",;", "--", "-a", "b"]);
    assert!(given.options.separate_bars && given.options.vitals_only && given.options.plot);
    assert_eq!(given.options.confidence, Confidence::P99_5);
    assert_eq!((given.width, given.column), (Some(30), 2));
    assert_eq!(given.delimiters, b",;");
    assert_eq!(given.files, ["-a", "b"]);
    let nothing = plan(&[]);
    assert_eq!((nothing.width, nothing.column, nothing.files.len()), (None, 1, 0));
    assert_eq!((nothing.options.version, nothing.options.even_median), Default::default());
    assert!(plan(&["-qA"]).options.quiet && !plan(&["-qA"]).options.plot);
    // A level that is known remains if one that is not follows.
    assert_eq!(plan(&["-c", "90", "-c", "97"]).options.confidence, Confidence::P90);
    assert_eq!(plan(&["-c", "0x5f", "-w", " +5"]).options.confidence, Confidence::P95);
}

#[test]
fn files_end_the_options_today_and_not_in_2015() {
    assert_eq!(plan(&["a", "-n", "--"]).files, ["a", "-n", "--"]);
    let old = plan(&["a", "-n", "--compat=2015", "-", "--", "-s"]);
    assert_eq!(old.files, ["a", "-", "-s"]);
    assert!(old.options.vitals_only && !old.options.separate_bars);
    assert_eq!(old.options.version, Version::Of2015);
}

#[test]
fn own_options() {
    let old = plan(&["a", "b", "--compat=2015"]);
    assert_eq!(
        (old.options.version, old.options.even_median),
        (Version::Of2015, EvenMedian::Upper)
    );
    let both = plan(&["--median-even=mean", "--compat=2015"]);
    assert_eq!(both.options.even_median, EvenMedian::Mean);
    let upper = plan(&["--median-even=upper", "a"]);
    assert_eq!(upper.options.version, Version::Current);
    assert_eq!(upper.options.even_median, EvenMedian::Upper);
    // An argument is no option, and what follows -- neither.
    assert_eq!(plan(&["-d", "--compat=2015"]).options.version, Version::Current);
    assert_eq!(plan(&["--", "--compat=2015"]).files, ["--compat=2015"]);
    assert!(parse(&words(&["-x", "--help"])).is_err());
    assert!(matches!(parse(&words(&["a", "--help"])), Ok(Parsed::Help)));
    assert!(HELP.lines().all(|line| line.chars().count() <= 100));
    for word in ["--compat", "--compat=2014", "--median-even=lower", "--help=1"] {
        let said = refusal(&[word]);
        assert!(
            said.starts_with(&format!("No such option: {word} (the long options are ")),
            "{said}"
        );
    }
}

#[test]
fn refusals_in_their_words() {
    for (line, whine) in [
        (&["-C", "2x"][..], "Invalid column number.\n"),
        (&["-C", "0"], "Column number should be positive.\n"),
        (&["-C", ""], "Column number should be positive.\n"),
        (&["-C", "99999999999999999999"], "Column number should be positive.\n"),
        (&["-c", "foo"], "Not a floating point number\n"),
        (&["-c", "97"], "No support for confidence level\n"),
        (&["-c", ""], "No support for confidence level\n"),
        (&["-d", ""], "Can't use empty delimiter string\n"),
        (&["-w", "x"], "Invalid width, not a number.\n"),
        (&["-w", "-3"], "Unable to move beyond left margin.\n"),
        (&["-nx"], "ministat: illegal option -- x\nUnknown option\n"),
        (&["-P"], "ministat: illegal option -- P\nUnknown option\n"),
        (&["--wide"], "ministat: illegal option -- -\nUnknown option\n"),
        (&["-w"], "ministat: option requires an argument -- w\nUnknown option\n"),
        (&["--compat=2015", "-q"], "ministat: invalid option -- 'q'\nUnknown option\n"),
        (&["a"; 8], "Too many datasets.\n"),
    ] {
        assert_eq!(refusal(line), whine, "{line:?}");
    }
}

#[test]
fn integers_as_c_reads_them() {
    for (text, value, rest) in [
        ("12", 12, ""),
        (" \t-7x", -7, "x"),
        ("+3 ", 3, " "),
        ("", 0, ""),
        ("abc", 0, "abc"),
        ("-", 0, "-"),
        ("4294967301", 5, ""),
        ("99999999999999999999", -1, ""),
    ] {
        assert_eq!(leading_integer(text.as_bytes()), (value, rest.as_bytes()), "{text}");
    }
}

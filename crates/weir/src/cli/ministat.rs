//! The arguments of `weir ministat`: ministat's, read as `getopt(3)` reads them.
//!
//! FreeBSD's getopt stops at the first file, glibc's finds options behind files too; so do today's
//! version and that of 2015 here. weir's own options are long ones, and are found before and behind
//! files, up to a `--`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use weir_gen::getopt::{Getopt, Item};
use weir_stats::Confidence;
use weir_stats::ministat::{EvenMedian, Options, SETS_MAX, Version};
use weir_stats::number;

/// The command line in one line of help.
pub(crate) const USAGE: &str = "\
weir ministat [-Anqs] [-C column] [-c confidence] [-d delimiter(s)] [-w width]
                     [--compat=2015] [--median-even=mean|upper] [file [file ...]]";

/// What `--help` prints below the usage, and the command's help shows.
pub(crate) const HELP: &str = "\
Compares datasets of one number a line with the first of them, which is the reference: a plot, a
table of vitals, and Student's t test. Without a file, or for `-`, standard input is read. What
follows a # is a comment.

  -A : no plot
  -C : column to take, from 1 (default: 1)
  -c : confidence in percent: 80, 90, 95 (default), 98, 99 or 99.5
  -d : characters that separate columns (default: space and tab)
  -n : the table alone, neither plot nor test
  -q : neither the names of the datasets nor the table's header
  -s : the bars of average, median and deviation on a line for each dataset
  -w : columns of the plot, up to 10000 (default: the terminal's, or 74)
  --compat=2015       : print and read options as the version of 2015, which Debian carries
  --median-even=upper : the median of an even number of values is the larger of the middle pair, as
                        in 2015, instead of their mean
  --help              : print this

Exit codes: 0 done, 2 refused (with --compat=2015, 1 if a file cannot be opened).

Examples:
  weir ministat before.pps after.pps
  weir ministat -s -w 60 -c 99 before.pps after.pps
  weir ministat -C 2 -n gnuplot.data";

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Plan {
    /// All but the width of the plot, which may be the terminal's.
    pub(crate) options: Options,
    /// Columns of the plot, if they are given; not negative.
    pub(crate) width: Option<i32>,
    /// Column of the values, from 1.
    pub(crate) column: usize,
    /// Bytes between columns.
    pub(crate) delimiters: Vec<u8>,
    /// Files as given, seven at most; none is standard input.
    pub(crate) files: Vec<OsString>,
}

/// A command line that was understood.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// `--help`.
    Help,
    /// A request.
    Plan(Plan),
}

/// The letters of either version, as `getopt(3)` has them.
fn letters(version: Version) -> &'static str {
    match version {
        Version::Current => "AC:c:d:nqsw:",
        Version::Of2015 => "AC:c:d:nsw:",
    }
}

/// Whether a word is one of weir's options, which ministat does not have.
fn is_long(word: &[u8]) -> bool {
    let name = word.split(|byte| *byte == b'=').next().unwrap_or(word);
    [&b"--compat"[..], b"--median-even", b"--help"].contains(&name)
}

/// What a file ends: FreeBSD's getopt looks for no letters behind it, glibc's does.
fn end_letters(getopt: &mut Getopt<'_>, version: Version) {
    if version == Version::Current {
        getopt.end_letters();
    }
}

/// The version that the words ask for.
fn version(words: &[OsString]) -> Version {
    let mut getopt = Getopt::new(words, letters(Version::Current), is_long);
    while let Some(item) = getopt.next() {
        match item {
            Item::Long(word) if word == "--compat=2015" => return Version::Of2015,
            Item::Operand(_) => end_letters(&mut getopt, Version::Current),
            _ => {}
        }
    }
    Version::Current
}

/// Reads the words behind the name.
///
/// An error is the whole text for standard error.
pub(crate) fn parse(words: &[OsString]) -> Result<Parsed, String> {
    let version = version(words);
    let usage = |whine: &str| format!("{whine}\n{}", usage(version));

    let mut plan = Plan {
        options: Options { version, ..Options::default() },
        width: None,
        column: 1,
        delimiters: b" \t".to_vec(),
        files: Vec::new(),
    };
    if version == Version::Of2015 {
        plan.options.even_median = EvenMedian::Upper;
    }
    let mut confidence = None;
    let mut getopt = Getopt::new(words, letters(version), is_long);
    while let Some(item) = getopt.next() {
        match item {
            Item::Flag(letter) => set_flag(&mut plan.options, letter),
            Item::Value('c', text) => {
                set_confidence(&mut confidence, text.as_bytes()).map_err(usage)?;
            }
            Item::Value(letter, text) => {
                set_value(&mut plan, letter, text.as_bytes()).map_err(usage)?;
            }
            Item::Long(word) if word == "--help" => return Ok(Parsed::Help),
            Item::Long(word) => {
                set_long(&mut plan.options, word.as_bytes()).map_err(|why| usage(&why))?;
            }
            Item::Operand(file) => {
                plan.files.push(file.to_owned());
                end_letters(&mut getopt, version);
            }
            Item::Unknown(letter) | Item::Incomplete(letter) => {
                let missing = matches!(item, Item::Incomplete(_));
                return Err(complaint(version, letter, missing) + &usage("Unknown option"));
            }
        }
    }
    plan.options.confidence = confidence.unwrap_or_default();
    if plan.files.len() > SETS_MAX {
        return Err(usage("Too many datasets."));
    }
    Ok(Parsed::Plan(plan))
}

fn set_flag(options: &mut Options, letter: char) {
    match letter {
        'A' => options.plot = false,
        'n' => options.vitals_only = true,
        'q' => options.quiet = true,
        _ => options.separate_bars = true,
    }
}

/// `-c`. A level that there is not is an error only if no `-c` before it had one.
fn set_confidence(confidence: &mut Option<Confidence>, text: &[u8]) -> Result<(), &'static str> {
    let percent = match text {
        // To C, nothing is zero.
        [] => 0.0,
        _ => number::parse(text).ok_or("Not a floating point number")?,
    };
    *confidence = Confidence::from_percent(percent).or(*confidence);
    confidence.map(drop).ok_or("No support for confidence level")
}

/// `-C`, `-d` and `-w`.
fn set_value(plan: &mut Plan, letter: char, text: &[u8]) -> Result<(), &'static str> {
    if letter == 'd' {
        if text.is_empty() {
            return Err("Can't use empty delimiter string");
        }
        plan.delimiters = text.to_vec();
        return Ok(());
    }
    let (value, rest) = leading_integer(text);
    match letter {
        'C' if !rest.is_empty() => Err("Invalid column number."),
        'C' if value <= 0 => Err("Column number should be positive."),
        'C' => {
            plan.column = usize::try_from(value).unwrap_or(usize::MAX);
            Ok(())
        }
        _ if !rest.is_empty() => Err("Invalid width, not a number."),
        _ if value < 0 => Err("Unable to move beyond left margin."),
        _ => {
            plan.width = Some(value);
            Ok(())
        }
    }
}

/// weir's own options.
fn set_long(options: &mut Options, word: &[u8]) -> Result<(), String> {
    match word {
        b"--compat=2015" => {}
        b"--median-even=upper" => options.even_median = EvenMedian::Upper,
        b"--median-even=mean" => options.even_median = EvenMedian::Mean,
        _ => {
            let word = String::from_utf8_lossy(word);
            let known = "the long options are --compat=2015, --median-even=mean and \
                         --median-even=upper";
            return Err(format!("No such option: {word} ({known})"));
        }
    }
    Ok(())
}

/// An integer at the beginning, as C's `strtol` reads it and an `int` keeps it, and what follows.
pub(crate) fn leading_integer(text: &[u8]) -> (i32, &[u8]) {
    let space = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let digits = &text[text.iter().take_while(space).count()..];
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, digits),
    };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return (0, text);
    }
    let (digits, rest) = digits.split_at(length);
    let step = |value: i64, digit: &u8| {
        let digit = i64::from(digit - b'0');
        value.saturating_mul(10).saturating_add(if negative { -digit } else { digit })
    };
    let value = digits.iter().fold(0, step);
    // The lower half, as a conversion to int leaves it.
    let low = u32::try_from(value & 0xffff_ffff).unwrap_or_default();
    (low.cast_signed(), rest)
}

/// What getopt says of a letter: FreeBSD's or glibc's words.
fn complaint(version: Version, letter: char, missing: bool) -> String {
    match (version, missing) {
        (Version::Current, false) => format!("ministat: illegal option -- {letter}\n"),
        (Version::Current, true) => {
            format!("ministat: option requires an argument -- {letter}\n")
        }
        (Version::Of2015, false) => format!("ministat: invalid option -- '{letter}'\n"),
        (Version::Of2015, true) => {
            format!("ministat: option requires an argument -- '{letter}'\n")
        }
    }
}

/// The usage that follows a complaint.
fn usage(version: Version) -> String {
    let (flags, quiet) = match version {
        Version::Current => {
            ("Anqs", "\t-q : suppress printing summary-statistics headers and data-set names\n")
        }
        Version::Of2015 => ("Ans", ""),
    };
    let levels = Confidence::ALL.map(|level| format!("{}%", number::g(level.percent()))).join(", ");
    format!(
        "Usage: ministat [-C column] [-c confidence] [-d delimiter(s)] [-{flags}] [-w width] \
         [file [file ...]]\n\
         \tconfidence = {{{levels}}}\n\
         \t-A : print statistics only. suppress the graph.\n\
         \t-C : column number to extract (starts and defaults to 1)\n\
         \t-d : delimiter(s) string, default to \" \\t\"\n\
         \t-n : print summary statistics only, no graph/test\n\
         {quiet}\
         \t-s : print avg/median/stddev bars on separate lines\n\
         \t-w : width of graph/test output (default 74 or terminal width)\n"
    )
}

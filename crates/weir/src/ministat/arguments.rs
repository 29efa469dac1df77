//! ministat's command line, read as `getopt(3)` reads it.
//!
//! FreeBSD's getopt stops at the first file, glibc's finds options behind files too; so do today's
//! version and that of 2015 here. weir's own options are long ones, and are found before and behind
//! files, up to a `--`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

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
stands behind a # is a comment.

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
pub(super) struct Plan {
    /// All but the width of the plot, which may be the terminal's.
    pub(super) options: Options,
    /// Columns of the plot, if they are given; not negative.
    pub(super) width: Option<i32>,
    /// Column of the values, from 1.
    pub(super) column: usize,
    /// Bytes between columns.
    pub(super) delimiters: Vec<u8>,
    /// Files as given, seven at most; none is standard input.
    pub(super) files: Vec<OsString>,
}

/// A command line that was understood.
#[derive(Debug)]
pub(super) enum Parsed {
    /// `--help`.
    Help,
    /// A request.
    Plan(Plan),
}

/// What getopt finds next.
enum Item<'a> {
    Flag(u8),
    Value(u8, &'a [u8]),
    /// An option without the argument that it needs.
    Incomplete(u8),
    Unknown(u8),
    /// One of weir's own.
    Long(&'a [u8]),
}

/// A walk through the words.
struct Getopt<'a> {
    words: &'a [OsString],
    /// Letters of the word that was begun.
    cluster: &'a [u8],
    operands: Vec<OsString>,
    version: Version,
}

impl<'a> Getopt<'a> {
    fn new(words: &'a [OsString], version: Version) -> Self {
        Self { words, cluster: &[], operands: Vec::new(), version }
    }

    fn word(&mut self) -> Option<&'a OsString> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    /// The letter behind a hyphen, with its argument.
    fn letter(&mut self, letter: u8) -> Item<'a> {
        match letter {
            b'A' | b'n' | b's' => Item::Flag(letter),
            b'q' if self.version == Version::Current => Item::Flag(letter),
            b'C' | b'c' | b'd' | b'w' if !self.cluster.is_empty() => {
                Item::Value(letter, std::mem::take(&mut self.cluster))
            }
            b'C' | b'c' | b'd' | b'w' => match self.word() {
                Some(word) => Item::Value(letter, word.as_bytes()),
                None => Item::Incomplete(letter),
            },
            _ => Item::Unknown(letter),
        }
    }
}

impl<'a> Iterator for Getopt<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some((letter, rest)) = self.cluster.split_first() {
                self.cluster = rest;
                return Some(self.letter(*letter));
            }
            let word = self.word()?;
            let bytes = word.as_bytes();
            let has_files = !self.operands.is_empty() && self.version == Version::Current;
            if bytes == b"--" && !has_files {
                self.operands.extend_from_slice(self.words);
                self.words = &[];
            } else if is_own(bytes) {
                return Some(Item::Long(bytes));
            } else if has_files || bytes.len() < 2 || bytes[0] != b'-' {
                self.operands.push(word.clone());
            } else {
                self.cluster = &bytes[1..];
            }
        }
    }
}

/// Whether a word is one of weir's own options.
fn is_own(word: &[u8]) -> bool {
    let name = word.split(|byte| *byte == b'=').next().unwrap_or(word);
    [&b"--compat"[..], b"--median-even", b"--help"].contains(&name)
}

/// Reads the words behind the name.
///
/// An error is the whole text for standard error.
pub(super) fn parse(words: &[OsString]) -> Result<Parsed, String> {
    let asks_for_2015 = |item| matches!(item, Item::Long(b"--compat=2015"));
    let old = Getopt::new(words, Version::Current).any(asks_for_2015);
    let version = if old { Version::Of2015 } else { Version::Current };
    let usage = |whine: &str| format!("{whine}\n{}", usage(version));

    let mut plan = Plan {
        options: Options { version, ..Options::default() },
        width: None,
        column: 1,
        delimiters: b" \t".to_vec(),
        files: Vec::new(),
    };
    if old {
        plan.options.even_median = EvenMedian::Upper;
    }
    let mut confidence = None;
    let mut getopt = Getopt::new(words, version);
    for item in &mut getopt {
        match item {
            Item::Flag(letter) => set_flag(&mut plan.options, letter),
            Item::Value(b'c', text) => {
                set_confidence(&mut confidence, text).map_err(usage)?;
            }
            Item::Value(letter, text) => set_value(&mut plan, letter, text).map_err(usage)?,
            Item::Long(b"--help") => return Ok(Parsed::Help),
            Item::Long(word) => set_long(&mut plan.options, word).map_err(|why| usage(&why))?,
            Item::Unknown(letter) | Item::Incomplete(letter) => {
                let missing = matches!(item, Item::Incomplete(_));
                return Err(complaint(version, letter, missing) + &usage("Unknown option"));
            }
        }
    }
    plan.options.confidence = confidence.unwrap_or_default();
    plan.files = getopt.operands;
    if plan.files.len() > SETS_MAX {
        return Err(usage("Too many datasets."));
    }
    Ok(Parsed::Plan(plan))
}

fn set_flag(options: &mut Options, letter: u8) {
    match letter {
        b'A' => options.plot = false,
        b'n' => options.vitals_only = true,
        b'q' => options.quiet = true,
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
fn set_value(plan: &mut Plan, letter: u8, text: &[u8]) -> Result<(), &'static str> {
    if letter == b'd' {
        if text.is_empty() {
            return Err("Can't use empty delimiter string");
        }
        plan.delimiters = text.to_vec();
        return Ok(());
    }
    let (value, rest) = leading_integer(text);
    match letter {
        b'C' if !rest.is_empty() => Err("Invalid column number."),
        b'C' if value <= 0 => Err("Column number should be positive."),
        b'C' => {
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
            let known = "there are --compat=2015, --median-even=mean and --median-even=upper";
            return Err(format!("No such option: {word} ({known})"));
        }
    }
    Ok(())
}

/// An integer at the beginning, as C's `strtol` reads it and an `int` keeps it, and what follows.
pub(super) fn leading_integer(text: &[u8]) -> (i32, &[u8]) {
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
fn complaint(version: Version, letter: u8, missing: bool) -> String {
    let letter = char::from(letter);
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

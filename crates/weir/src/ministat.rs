//! `weir ministat`: ministat's command line, texts and exit codes over `weir_stats::ministat`.
//!
//! It reads the files and writes what the library prints; it computes nothing itself. Followed is
//! FreeBSD's `ministat(1)`; with `--compat=2015` the version that Debian carries.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use weir_stats::ministat::dataset::{self, Layout};
use weir_stats::ministat::{self, Options, Set, Version};

use crate::cli::ministat::{self as arguments, Parsed, Plan};
use crate::exit::{self, Outcome};

#[cfg(test)]
mod tests;

/// What the binary is called to be ministat without a command, and what its messages begin with.
const NAME: &str = "ministat";

/// What standard input is called.
const STDIN: &str = "<stdin>";

/// Columns of a plot that is not for a terminal.
const WIDTH: i32 = 74;

/// Whether the program was called by ministat's name.
pub(crate) fn is_called_by(program: &OsStr) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == NAME)
}

/// Why there is no result: all that goes to standard error, and how the program ends.
struct Refusal {
    text: String,
    outcome: Outcome,
}

impl Refusal {
    /// A message behind the program's name; exit code 2.
    fn new(message: impl std::fmt::Display) -> Self {
        Self { text: format!("{NAME}: {message}\n"), outcome: Outcome::Refused }
    }
}

/// Runs the command. The words are those behind the name.
pub(crate) fn command(words: impl IntoIterator<Item = OsString>) -> anyhow::Result<Outcome> {
    let words: Vec<OsString> = words.into_iter().collect();
    match run(&words) {
        Ok(text) => {
            exit::put(&text)?;
            Ok(Outcome::Done)
        }
        Err(refusal) => {
            // Nobody is left to tell if standard error is closed.
            drop(io::stderr().write_all(refusal.text.as_bytes()));
            Ok(refusal.outcome)
        }
    }
}

/// What goes to standard output.
fn run(words: &[OsString]) -> Result<String, Refusal> {
    let refused = |text| Refusal { text, outcome: Outcome::Refused };
    let plan = match arguments::parse(words).map_err(refused)? {
        Parsed::Help => {
            return Ok(format!("Usage: {}\n\n{}\n", arguments::USAGE, arguments::HELP));
        }
        Parsed::Plan(plan) => plan,
    };
    let width = plan.width.unwrap_or_else(terminal_width);
    let width = usize::try_from(width).map_err(|_| {
        Refusal::new(format_args!("the terminal has {width} columns: give a width with -w"))
    })?;
    let datasets = read_all(&plan)?;
    let sets: Vec<Set<'_>> = datasets.iter().map(|(name, values)| Set { name, values }).collect();
    ministat::render(&sets, &Options { width, ..plan.options }).map_err(Refusal::new)
}

/// Columns for a plot: on a terminal `COLUMNS` as C's `atoi` reads it, or what fits its frame.
fn terminal_width() -> i32 {
    let out = io::stdout();
    if !out.is_terminal() {
        return WIDTH;
    }
    if let Some(columns) = std::env::var_os("COLUMNS").filter(|columns| !columns.is_empty()) {
        return arguments::leading_integer(columns.as_encoded_bytes()).0;
    }
    terminal_size::terminal_size_of(out).map_or(WIDTH, |(width, _)| i32::from(width.0) - 2)
}

/// Names and values of the datasets. Today's version opens all files before it reads one, that of
/// 2015 one after the other; it matters for which error comes first.
fn read_all(plan: &Plan) -> Result<Vec<(String, Vec<f64>)>, Refusal> {
    let standard_input = [OsString::from("-")];
    let files = if plan.files.is_empty() { &standard_input[..] } else { &plan.files };
    let open = |file: &OsString| Source::open(file, plan);
    if plan.options.version == Version::Of2015 {
        return files.iter().map(|file| open(file)?.read(plan)).collect();
    }
    let sources = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    sources.into_iter().map(|source| source.read(plan)).collect()
}

/// A dataset that is open.
struct Source {
    /// Its name in output and messages.
    name: String,
    /// The file; none is standard input.
    file: Option<File>,
}

impl Source {
    fn open(path: &OsString, plan: &Plan) -> Result<Self, Refusal> {
        let name = path.to_string_lossy().into_owned();
        if path == "-" {
            // Today's version names it as it was given; `<stdin>` if nothing was.
            let named = plan.options.version == Version::Of2015 || plan.files.is_empty();
            return Ok(Self { name: if named { STDIN.to_owned() } else { name }, file: None });
        }
        match File::open(path) {
            Ok(file) => Ok(Self { name, file: Some(file) }),
            Err(error) => {
                let refusal = Refusal::new(format_args!("Cannot open {name}: {}", message(&error)));
                let old = plan.options.version == Version::Of2015;
                Err(if old { Refusal { outcome: Outcome::No, ..refusal } } else { refusal })
            }
        }
    }

    fn read(self, plan: &Plan) -> Result<(String, Vec<f64>), Refusal> {
        let Self { name, file } = self;
        let mut bytes = Vec::new();
        let read = match file {
            Some(mut file) => file.read_to_end(&mut bytes),
            None => io::stdin().lock().read_to_end(&mut bytes),
        };
        // To C a directory is a file without content.
        if let Err(error) = read
            && error.kind() != io::ErrorKind::IsADirectory
        {
            return Err(Refusal::new(format_args!("Cannot read {name}: {}", message(&error))));
        }
        let version = plan.options.version;
        let layout = Layout { column: plan.column, delimiters: &plan.delimiters, version };
        let values = dataset::read(&bytes, &name, &layout).map_err(|error| match error {
            // The one message without the program's name before it.
            dataset::DatasetError::TooFewValues(_) => {
                Refusal { text: format!("{error}\n"), outcome: Outcome::Refused }
            }
            error => Refusal::new(error),
        })?;
        Ok((name, values))
    }
}

/// The system's words for an error, without its number.
fn message(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

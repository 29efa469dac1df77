//! pfctl's command line, read as its `getopt(3)` reads it (FreeBSD, `pfctl.c`).
//!
//! Letters may stand together, a value in the same word or the next. What speaks to a running
//! firewall is refused by name.

use std::ffi::OsString;
use std::path::PathBuf;

use weir_rules::limits::ANCHOR_SIZE_MAX;

use crate::cli::fw::parse_macro;

/// The command line in one line of help.
pub(crate) const USAGE: &str = "\
weir pfctl -n [-AghNOPqRSv] [-a anchor] [-D macro=value] [-o level]
                  [--dialect=freebsd|openbsd] [--facts=FILE] [--profile=FILE] -f file";

/// What `--help` prints below the usage, and the command's help shows.
pub(crate) const HELP: &str = "\
Reads a pf.conf and, with -v, prints it as FreeBSD's pfctl -n does, macros and lists expanded.
Nothing is loaded: what speaks to a running firewall (-d -e -F -i -k -K -M -m -p -r -s -t -T -x -z,
and -f without -n) is refused, with exit code 2.

  -f : the file; - is standard input
  -n : do not load it (required)
  -v : print it; twice, with the number of each rule
  -o : none, basic or profile: how far filter rules are optimised. Without it, what the file sets
       with `set ruleset-optimization`, or else basic, as pfctl; profile needs --profile
  -a : read the file as rules of this anchor: options and queues are left out
  -D : define a macro, which a definition in the file does not change
  -A, -N, -O, -R : print only queues, translation, options, filter rules; together, all of them;
       -R wants -o none, as the optimiser makes tables
  -P : ports as numbers
  -q : not even the notes of weir; errors are printed
  -g : with -v, the skip steps below each rule, as pfctl -gsr
  -S : as it is always: no name server
  -h, --help : print this
  --dialect=D  : freebsd (default) or openbsd
  --facts=FILE : interfaces, addresses and names, instead of this machine's
  --profile=FILE : packets of each rule, as pfctl -vsr prints them, for -o profile

Errors are lines FILE:LINE: MESSAGE on standard error, and on a terminal drawn besides; the exit
code is then 1, as pfctl's. Warnings are drawn on a terminal alone: weir fw check has them all.

Examples:
  weir pfctl -nf /etc/pf.conf && echo good
  weir pfctl -o none -nvf /etc/pf.conf
  weir pfctl -nvv -D ext_if=eth0 -f pf.conf";

/// Options with a value.
const WITH_VALUE: &str = "aDfFikKopstTx";

/// Options that speak to a running firewall, and what they do there.
const OF_A_FIREWALL: &[(char, &str)] = &[
    ('d', "disables the packet filter"),
    ('e', "enables the packet filter"),
    ('F', "flushes what is loaded"),
    ('i', "restricts other options to an interface"),
    ('k', "kills states"),
    ('K', "kills source tracking entries"),
    ('m', "merges options into those that are loaded"),
    ('M', "kills matching states"),
    ('p', "names the device of a running pf"),
    ('r', "looks up names of states"),
    ('s', "shows what is loaded"),
    ('t', "names a table that is loaded"),
    ('T', "changes tables that are loaded"),
    ('x', "sets the debug level"),
    ('z', "clears counters"),
];

/// Which parts of a file are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    /// Queues (`-A`).
    pub(super) queues: bool,
    /// `nat`, `rdr`, `binat` (`-N`).
    pub(super) translation: bool,
    /// `set` (`-O`).
    pub(super) options: bool,
    /// Filter and scrub rules (`-R`).
    pub(super) filter: bool,
    /// Tables.
    pub(super) tables: bool,
    /// Layer 2 rules.
    pub(super) ether: bool,
}

impl Parts {
    const ALL: Self = Self {
        queues: true,
        translation: true,
        options: true,
        filter: true,
        tables: true,
        ether: true,
    };
    const NONE: Self = Self {
        queues: false,
        translation: false,
        options: false,
        filter: false,
        tables: false,
        ether: false,
    };
}

/// A level of optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    None,
    Basic,
    Profile,
}

/// What is asked for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) file: PathBuf,
    /// How often `-v` stands there.
    pub(super) verbosity: usize,
    pub(super) is_quiet: bool,
    pub(super) numeric_ports: bool,
    pub(super) skip_steps: bool,
    /// `None` where nothing was asked for: then the file says, or it is basic.
    pub(super) level: Option<Level>,
    pub(super) parts: Parts,
    pub(super) macros: Vec<(String, String)>,
    pub(super) dialect: Option<weir_rules::Dialect>,
    pub(super) facts: Option<PathBuf>,
    pub(super) profile: Option<PathBuf>,
}

/// A command line that was understood.
#[derive(Debug)]
pub(super) enum Parsed {
    Help,
    Plan(Box<Plan>),
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// pfctl refuses it too: exit code 1.
    Usage(String),
    /// pfctl does it, and weir does not: exit code 2.
    NotHere(String),
}

/// The letters and values that were found.
#[derive(Debug, Default)]
struct Found {
    letters: Vec<char>,
    anchor: Option<String>,
    file: Option<PathBuf>,
    level: Option<Level>,
    macros: Vec<(String, String)>,
    dialect: Option<weir_rules::Dialect>,
    facts: Option<PathBuf>,
    profile: Option<PathBuf>,
    help: bool,
}

/// Reads the words behind the name.
pub(super) fn parse(words: &[OsString]) -> Result<Parsed, Refusal> {
    let mut found = Found::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if let Some(long) = text.strip_prefix("--").filter(|long| !long.is_empty()) {
            found.long(long)?;
        } else if text == "--" {
            if let Some(rest) = words.next() {
                return Err(stray(&rest.to_string_lossy()));
            }
        } else if let Some(letters) = text.strip_prefix('-').filter(|all| !all.is_empty()) {
            found.cluster(letters, &mut words)?;
        } else {
            return Err(stray(&text));
        }
    }
    found.plan()
}

fn stray(word: &str) -> Refusal {
    Refusal::Usage(format!("unknown command line argument: {word} ..."))
}

impl Found {
    fn long(&mut self, long: &str) -> Result<(), Refusal> {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        match (name, value) {
            ("help", "") => self.help = true,
            ("profile", file) if !file.is_empty() => self.profile = Some(file.into()),
            ("profile", _) => return Err(Refusal::Usage("write it as --profile=FILE".to_owned())),
            ("facts", file) if !file.is_empty() => self.facts = Some(file.into()),
            ("dialect", name) if weir_rules::Dialect::parse(name).is_some() => {
                self.dialect = weir_rules::Dialect::parse(name);
            }
            ("dialect", _) => {
                let text = "--dialect=freebsd or --dialect=openbsd: write one of them";
                return Err(Refusal::Usage(text.to_owned()));
            }
            ("facts", _) => return Err(Refusal::Usage("write it as --facts=FILE".to_owned())),
            _ => return Err(Refusal::Usage(format!("unrecognized option -- {long}"))),
        }
        Ok(())
    }

    /// Letters of one word.
    fn cluster<'a>(
        &mut self,
        letters: &str,
        words: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<(), Refusal> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            if !WITH_VALUE.contains(letter) {
                self.flag(letter)?;
                continue;
            }
            let own = rest.as_str();
            let value = if own.is_empty() {
                let next = words.next().map(|word| word.to_string_lossy().into_owned());
                let text = format!("option requires an argument -- {letter}");
                next.ok_or(Refusal::Usage(text))?
            } else {
                own.to_owned()
            };
            return self.value(letter, value);
        }
        Ok(())
    }

    fn flag(&mut self, letter: char) -> Result<(), Refusal> {
        if letter == 'h' {
            self.help = true;
        } else if "AgnNOPqRSv".contains(letter) {
            self.letters.push(letter);
        } else {
            refuse_of_firewall(letter)?;
            return Err(Refusal::Usage(format!("illegal option -- {letter}")));
        }
        Ok(())
    }

    fn value(&mut self, letter: char, value: String) -> Result<(), Refusal> {
        refuse_of_firewall(letter)?;
        match letter {
            'f' => self.file = Some(value.into()),
            'D' => self.macros.push(parse_macro(&value).map_err(|cause| {
                Refusal::Usage(format!("could not parse macro definition {value}: {cause}"))
            })?),
            'a' => self.anchor = Some(checked_anchor(value)?),
            _ => {
                // As pfctl, which takes the beginning of a word.
                let levels =
                    [("none", Level::None), ("basic", Level::Basic), ("profile", Level::Profile)];
                let mut levels = levels.into_iter();
                let level = levels.find(|(name, _)| !value.is_empty() && name.starts_with(&*value));
                let text = format!("Unknown optimization '{value}'");
                self.level = Some(level.ok_or(Refusal::Usage(text))?.1);
            }
        }
        Ok(())
    }

    fn has(&self, letter: char) -> bool {
        self.letters.contains(&letter)
    }

    fn plan(self) -> Result<Parsed, Refusal> {
        if self.help {
            return Ok(Parsed::Help);
        }
        if self.anchor.is_some() && self.file.is_none() {
            let text = "anchors apply to -f, -F, -s, and -T only";
            return Err(Refusal::Usage(text.to_owned()));
        }
        let parts = self.parts();
        let is_dry = self.has('n');
        let (is_quiet, numeric_ports, skip_steps) = (self.has('q'), self.has('P'), self.has('g'));
        let verbosity = self.letters.iter().filter(|letter| **letter == 'v').count();
        let Some(file) = self.file else {
            return Err(Refusal::Usage("no file to read: give -n and -f file".to_owned()));
        };
        if !is_dry {
            let text = "-f without -n loads rules into a running firewall, which weir does not \
                        have yet; -n reads the file and loads nothing";
            return Err(Refusal::NotHere(text.to_owned()));
        }
        check_profile(self.level, self.profile.is_some())?;
        Ok(Parsed::Plan(Box::new(Plan {
            file,
            verbosity,
            is_quiet,
            numeric_ports,
            skip_steps,
            level: self.level,
            parts,
            macros: self.macros,
            dialect: self.dialect,
            facts: self.facts,
            profile: self.profile,
        })))
    }

    /// What is loaded, as pfctl's `loadopt` has it.
    fn parts(&self) -> Parts {
        let mut parts = if "ANOR".chars().any(|letter| self.has(letter)) {
            Parts {
                queues: self.has('A'),
                translation: self.has('N'),
                options: self.has('O'),
                filter: self.has('R'),
                ..Parts::NONE
            }
        } else {
            Parts::ALL
        };
        if self.anchor.is_some() {
            parts.options = false;
            parts.queues = false;
        }
        parts
    }
}

/// Counters of rules are needed by one level, and by no other.
fn check_profile(level: Option<Level>, has_profile: bool) -> Result<(), Refusal> {
    match (level, has_profile) {
        (Some(Level::Profile), false) => Err(Refusal::NotHere(
            "-o profile orders rules by their packets, and weir has no running firewall to ask: \
             write them into a file with pfctl -vsr, and give it with --profile=FILE"
                .to_owned(),
        )),
        (Some(Level::None | Level::Basic), true) => {
            Err(Refusal::Usage("--profile goes with -o profile alone".to_owned()))
        }
        _ => Ok(()),
    }
}

fn refuse_of_firewall(letter: char) -> Result<(), Refusal> {
    match OF_A_FIREWALL.iter().find(|(own, _)| *own == letter) {
        None => Ok(()),
        Some((letter, what)) => Err(Refusal::NotHere(format!(
            "-{letter} {what}: weir has no running firewall yet; it reads files with -n -f"
        ))),
    }
}

fn checked_anchor(name: String) -> Result<String, Refusal> {
    let problem = if name.is_empty() {
        "anchor name must not be empty".to_owned()
    } else if name.starts_with('_') || name.contains("/_") {
        "anchor names beginning with '_' cannot be modified from the command line".to_owned()
    } else if name.len() > ANCHOR_SIZE_MAX {
        format!("anchor name '{name}' too long")
    } else {
        return Ok(name);
    };
    Err(Refusal::Usage(problem))
}

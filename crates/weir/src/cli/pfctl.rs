//! The arguments of `weir pfctl`: pfctl's, read as its `getopt(3)` reads them (FreeBSD, `pfctl.c`).
//!
//! Letters may stand together, a value in the same word or the next. What pfctl does and weir does
//! not is refused by name.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use weir_fw::protocol::{Flushed, Shown, TableAction};
use weir_gen::getopt::{Getopt, Item};
use weir_rules::limits::ANCHOR_SIZE_MAX;

use super::ruleset::parse_macro;

/// The command line in one line of help.
pub(crate) const USAGE: &str = "\
weir pfctl [-AdeghmNnOPqRSv] [-a anchor] [-D macro=value] [-F modifier] [-f file]
                  [-i interface] [-K host] [-k host] [-L statefile] [-o level]
                  [-s modifier] [-t table -T command [address ...]] [-x level]
                  [--store-states=FILE]
                  [--dialect=freebsd|openbsd] [--facts=FILE] [--profile=FILE]";

/// What `--help` prints below the usage, and the command's help shows.
pub(crate) const HELP: &str = "\
FreeBSD's pfctl for the firewall that weir fw run has started in this network namespace; -n reads a
pf.conf without one.

  -f : load a file; - is standard input. States stay, and so do the counters of unchanged rules. A
       file with errors changes nothing
  -n : do not load it; with -v, print it as pfctl -n does, macros and lists expanded
  -e, -d : filter, or let everything through without states
  -s : show info, memory, states, rules, nat, Tables, timeouts, Interfaces, labels, Sources,
       Stlimiters, Srclimiters, osfp, Running or all; the beginning of a word is enough
  -F : flush states, rules, nat, info, Tables, Sources, osfp or all
  -k : end the states from a host or network; twice: from the first to the second; 0.0.0.0/0 is
       any; -k label -k NAME those of a rule's label, -k id -k ID one that -vvss shows, -k nat -k
       HOST those that are translated to a host or network, or from it
  -K : forget what rules count for a source, a host or network; its states stay
  --store-states=FILE : write the states to a file, which another weir can load (docs/fw-states.md)
  -L : load states from such a file, beside those that are there
  -t TABLE -T : add, delete, replace, show, test, flush, kill; addresses follow, or are in -f FILE;
       expire SECONDS deletes entries that were added, or cleared with zero, longer ago;
       -T load -f FILE loads only a file's tables
  -v : more; twice: all there is, and rules with their numbers
  -a : the rules or tables of an anchor
  -i : states and counters of one interface only
  -m : with -f and -O: settings that the file does not name stay
  -x : none, urgent, misc or loud: kept and shown, without effect
  -o : none, basic or profile: how far filter rules are optimised. Without it, what the file sets
       with `set ruleset-optimization`, or else basic, as in pfctl
  -D : define a macro; a definition in the file does not override it
  -N, -O, -R : only translation, options, filter rules; -A queues, only with -n. Together, all of
       them; -R needs -o none where rules are optimised, as the optimiser makes tables
  -P : ports as numbers
  -q : only errors
  -g : with -sr or -nv, the skip steps below each rule
  -S : changes nothing: no name server is ever asked
  -h, --help : print this
  --dialect=D  : freebsd (default) or openbsd
  --facts=FILE : with -n, interfaces, addresses and names, instead of this machine's;
                 without, names beside this machine's, as of weir fw run --facts
  --profile=FILE : with -n, packets of each rule, as pfctl -vsr prints them, for -o profile

Errors of a file are lines FILE:LINE: MESSAGE on standard error; a terminal shows the source as
well. Exit codes are pfctl's: 0 done; 1 refused or failed; 2 addresses that -T test did not find, or
what pfctl does and weir does not.

Examples:
  weir pfctl -nf /etc/pf.conf && weir pfctl -f /etc/pf.conf
  weir pfctl -si
  weir pfctl -ss -i eth0 | grep ESTABLISHED
  weir pfctl -k 192.0.2.7
  weir pfctl --store-states=/var/lib/weir/states && weir pfctl -L /var/lib/weir/states
  weir pfctl -t bad -T add 198.51.100.0/24
  weir pfctl -o none -nvf /etc/pf.conf";

/// pfctl's letters, as `getopt(3)` has them, less those of [`NOT_HERE`].
const LETTERS: &str = "Aa:dD:eF:f:ghi:K:k:L:mNnOo:PqRSs:T:t:vx:";

/// Options of pfctl that weir does not have, and what they do there.
const NOT_HERE: &[(char, &str)] = &[
    ('M', "kills matching states of the other side: weir has one state for both"),
    ('p', "names the device of a running pf: weir has none"),
    ('r', "looks up host names for states: weir never asks a name server"),
    ('z', "clears counters of rules: weir keeps them; -F info clears those of -s info"),
];

/// What `-s` shows, pfctl's words in pfctl's order.
const SHOWN: &[(&str, Option<Shown>)] = &[
    ("nat", Some(Shown::Nat)),
    ("queue", Some(Shown::Queue)),
    ("rules", Some(Shown::Rules)),
    ("Anchors", Some(Shown::Anchors)),
    ("Sources", Some(Shown::Sources)),
    ("states", Some(Shown::States)),
    ("info", Some(Shown::Info)),
    ("Interfaces", Some(Shown::Interfaces)),
    ("labels", Some(Shown::Labels)),
    ("timeouts", Some(Shown::Timeouts)),
    ("memory", Some(Shown::Memory)),
    ("Tables", Some(Shown::Tables)),
    ("osfp", Some(Shown::Osfp)),
    ("Running", Some(Shown::Running)),
    ("Stlimiters", Some(Shown::StateLimiters)),
    ("Srclimiters", Some(Shown::SourceLimiters)),
    ("all", Some(Shown::All)),
    ("creatorids", None),
    ("ether", None),
];

/// What `-F` flushes.
const FLUSHED: &[(&str, Option<Flushed>)] = &[
    ("nat", Some(Flushed::Nat)),
    ("queue", None),
    ("rules", Some(Flushed::Rules)),
    ("Sources", Some(Flushed::Sources)),
    ("states", Some(Flushed::States)),
    ("info", Some(Flushed::Info)),
    ("Tables", Some(Flushed::Tables)),
    ("osfp", Some(Flushed::Osfp)),
    ("Reset", None),
    ("all", Some(Flushed::All)),
    ("ethernet", None),
];

/// What `-T` does.
const TABLE_ACTIONS: &[(&str, Option<TableCommand>)] = &[
    ("kill", Some(TableCommand::Do(TableAction::Kill))),
    ("flush", Some(TableCommand::Do(TableAction::Flush))),
    ("add", Some(TableCommand::Do(TableAction::Add))),
    ("delete", Some(TableCommand::Do(TableAction::Delete))),
    ("load", Some(TableCommand::Load)),
    ("replace", Some(TableCommand::Do(TableAction::Replace))),
    ("show", Some(TableCommand::Do(TableAction::Show))),
    ("test", Some(TableCommand::Do(TableAction::Test))),
    ("zero", Some(TableCommand::Do(TableAction::Zero))),
    ("expire", Some(TableCommand::Expire)),
    ("reset", None),
];

/// What `-x` takes.
const DEBUG_LEVELS: &[&str] = &["none", "urgent", "misc", "loud"];

/// A command of `-T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableCommand {
    /// On one table.
    Do(TableAction),
    /// Deletes from one table what is older than so many seconds, the word behind.
    Expire,
    /// Loads the tables of a file.
    Load,
}

/// Which parts of a file are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Queues (`-A`).
    pub(crate) queues: bool,
    /// `nat`, `rdr`, `binat` (`-N`).
    pub(crate) translation: bool,
    /// `set` (`-O`).
    pub(crate) options: bool,
    /// Filter and scrub rules (`-R`).
    pub(crate) filter: bool,
    pub(crate) tables: bool,
    /// Layer 2 rules.
    pub(crate) ether: bool,
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
pub(crate) enum Level {
    None,
    Basic,
    Profile,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The file of `-f`.
    pub(crate) file: Option<PathBuf>,
    /// `-n`
    pub(crate) is_dry: bool,
    /// How often `-v` stands there.
    pub(crate) verbosity: usize,
    pub(crate) is_quiet: bool,
    pub(crate) numeric_ports: bool,
    pub(crate) skip_steps: bool,
    /// `None` where nothing was asked for: then the file says, or it is basic.
    pub(crate) level: Option<Level>,
    pub(crate) parts: Parts,
    pub(crate) macros: Vec<(String, String)>,
    pub(crate) dialect: Option<weir_rules::Dialect>,
    pub(crate) facts: Option<PathBuf>,
    pub(crate) profile: Option<PathBuf>,
    /// `-a`
    pub(crate) anchor: Option<String>,
    /// `-i`
    pub(crate) interface: Option<String>,
    pub(crate) enable: bool,
    pub(crate) disable: bool,
    pub(crate) is_merged: bool,
    pub(crate) show: Option<Shown>,
    pub(crate) flush: Option<Flushed>,
    /// The values of `-k`, at most two.
    pub(crate) kill: Vec<String>,
    /// The values of `-K`, at most two.
    pub(crate) kill_sources: Vec<String>,
    /// `-t` and `-T`: the table (none for `load`), what is done, and the words behind.
    pub(crate) table: Option<(Option<String>, TableCommand, Vec<String>)>,
    pub(crate) debug: Option<&'static str>,
    /// `--store-states`
    pub(crate) store_states: Option<PathBuf>,
    /// `-L`
    pub(crate) load_states: Option<PathBuf>,
}

/// A command line that was understood.
#[derive(Debug)]
pub(crate) enum Parsed {
    Help,
    Plan(Box<Plan>),
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// pfctl refuses it too: exit code 1.
    Usage(String),
    /// pfctl does it, and weir does not: exit code 2.
    NotHere(String),
}

fn text(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

fn usage<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Usage(text.into()))
}

/// The letters and values that were found.
#[derive(Debug, Default)]
struct Found {
    letters: Vec<char>,
    anchor: Option<String>,
    interface: Option<String>,
    file: Option<PathBuf>,
    level: Option<Level>,
    macros: Vec<(String, String)>,
    dialect: Option<weir_rules::Dialect>,
    facts: Option<PathBuf>,
    profile: Option<PathBuf>,
    show: Option<Shown>,
    flush: Option<Flushed>,
    kill: Vec<String>,
    kill_sources: Vec<String>,
    table: Option<String>,
    table_command: Option<TableCommand>,
    debug: Option<&'static str>,
    store_states: Option<PathBuf>,
    load_states: Option<PathBuf>,
    words: Vec<String>,
    help: bool,
}

/// Reads the words behind the name.
pub(crate) fn parse(words: &[OsString]) -> Result<Parsed, Refusal> {
    let mut found = Found::default();
    let is_long = |word: &[u8]| word.len() > 2 && word.starts_with(b"--");
    let mut getopt = Getopt::new(words, LETTERS, is_long);
    while let Some(item) = getopt.next() {
        match item {
            Item::Flag('h') => found.help = true,
            Item::Flag(letter) => found.letters.push(letter),
            Item::Value(letter, value) => found.value(letter, text(value))?,
            Item::Long(word) => {
                let word = text(word);
                found.long(word.strip_prefix("--").unwrap_or(&word))?;
            }
            // Only -T has words of its own, and they come last.
            Item::Operand(word) => {
                found.words.push(text(word));
                getopt.end_options();
            }
            Item::Incomplete(letter) => {
                return usage(format!("option requires an argument -- {letter}"));
            }
            Item::Unknown(letter) => {
                refuse(letter)?;
                return usage(format!("illegal option -- {letter}"));
            }
        }
    }
    found.plan()
}

/// An entry of a list by the beginning of its name, as pfctl looks it up.
fn lookup<T: Copy>(list: &[(&str, Option<T>)], letter: char, word: &str) -> Result<T, Refusal> {
    let is_it = |entry: &&(&str, Option<T>)| !word.is_empty() && entry.0.starts_with(word);
    match list.iter().find(is_it) {
        None => usage(format!("Unknown {} '{word}'", lookup_kind(letter))),
        Some((_, Some(value))) => Ok(*value),
        Some((name, None)) => Err(Refusal::NotHere(format!("-{letter} {name}: weir has none"))),
    }
}

/// What pfctl calls the value.
fn lookup_kind(letter: char) -> &'static str {
    match letter {
        's' => "show modifier",
        'F' => "flush modifier",
        _ => "table command",
    }
}

impl Found {
    fn long(&mut self, long: &str) -> Result<(), Refusal> {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        match (name, value) {
            ("help", "") => self.help = true,
            ("profile", file) if !file.is_empty() => self.profile = Some(file.into()),
            ("profile", _) => return usage("write it as --profile=FILE"),
            ("store-states", file) if !file.is_empty() => self.store_states = Some(file.into()),
            ("store-states", _) => return usage("write it as --store-states=FILE"),
            ("facts", file) if !file.is_empty() => self.facts = Some(file.into()),
            ("dialect", name) if weir_rules::Dialect::parse(name).is_some() => {
                self.dialect = weir_rules::Dialect::parse(name);
            }
            ("dialect", _) => {
                return usage("--dialect=freebsd or --dialect=openbsd: write one of them");
            }
            ("facts", _) => return usage("write it as --facts=FILE"),
            _ => return usage(format!("unrecognized option -- {long}")),
        }
        Ok(())
    }

    fn value(&mut self, letter: char, value: String) -> Result<(), Refusal> {
        match letter {
            'f' => self.file = Some(value.into()),
            'D' => self.macros.push(parse_macro(&value).map_err(|cause| {
                Refusal::Usage(format!("could not parse macro definition {value}: {cause}"))
            })?),
            'a' => self.anchor = Some(checked_anchor(value)?),
            'i' => self.interface = Some(value),
            's' => self.show = Some(lookup(SHOWN, letter, &value)?),
            'F' => self.flush = Some(lookup(FLUSHED, letter, &value)?),
            'T' => self.table_command = Some(lookup(TABLE_ACTIONS, letter, &value)?),
            't' => self.table = Some(checked_table(value)?),
            'L' => self.load_states = Some(value.into()),
            'k' => add_killer(&mut self.kill, letter, value)?,
            'K' => add_killer(&mut self.kill_sources, letter, value)?,
            'x' => {
                let level = DEBUG_LEVELS.iter().find(|known| known.starts_with(&*value));
                let text = format!("Unknown debug level '{value}'");
                self.debug = Some(level.ok_or(Refusal::Usage(text))?);
            }
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

    /// Whether something is asked of a running firewall besides `-f`.
    fn asks_firewall(&self) -> Option<char> {
        let asked = [
            ('d', self.has('d')),
            ('e', self.has('e')),
            ('s', self.show.is_some()),
            ('F', self.flush.is_some()),
            ('k', !self.kill.is_empty()),
            ('K', !self.kill_sources.is_empty()),
            ('T', self.table_command.is_some()),
            ('x', self.debug.is_some()),
            ('L', self.load_states.is_some()),
            ('m', self.has('m')),
            ('i', self.interface.is_some()),
        ];
        asked.into_iter().find(|(_, is_asked)| *is_asked).map(|(letter, _)| letter)
    }

    fn plan(self) -> Result<Parsed, Refusal> {
        if self.help {
            return Ok(Parsed::Help);
        }
        self.check()?;
        let parts = self.parts();
        let is_dry = self.has('n');
        let (is_quiet, numeric_ports, skip_steps) = (self.has('q'), self.has('P'), self.has('g'));
        let verbosity = self.letters.iter().filter(|letter| **letter == 'v').count();
        let (enable, disable, is_merged) = (self.has('e'), self.has('d'), self.has('m'));
        Ok(Parsed::Plan(Box::new(Plan {
            file: self.file,
            is_dry,
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
            anchor: self.anchor,
            interface: self.interface,
            enable,
            disable,
            is_merged,
            show: self.show,
            flush: self.flush,
            kill: self.kill,
            kill_sources: self.kill_sources,
            table: self.table_command.map(|command| (self.table, command, self.words)),
            debug: self.debug,
            store_states: self.store_states,
            load_states: self.load_states,
        })))
    }

    /// What cannot stand together.
    fn check(&self) -> Result<(), Refusal> {
        let stray = self.words.first().filter(|_| self.table_command.is_none());
        if let Some(word) = stray {
            return usage(format!("unknown command line argument: {word} ..."));
        }
        let takes_anchor = self.file.is_some()
            || self.flush.is_some()
            || self.show.is_some()
            || self.table_command.is_some();
        if self.anchor.is_some() && !takes_anchor {
            return usage("anchors apply to -f, -F, -s, and -T only");
        }
        match (self.table_command, &self.table) {
            (Some(TableCommand::Do(_) | TableCommand::Expire), None) => {
                return usage("-T needs a table: -t TABLE");
            }
            (None, Some(_)) => return usage("-t needs a command: -T COMMAND"),
            (Some(TableCommand::Expire), _) if self.file.is_some() || self.words.len() != 1 => {
                return usage("-T expire needs a number of seconds");
            }
            (Some(TableCommand::Load), _) if self.file.is_none() => {
                return usage("-T load needs a file: -f FILE");
            }
            _ => {}
        }
        if self.has('e') && self.has('d') {
            return usage("-e and -d contradict each other");
        }
        let asked = self.asks_firewall();
        if self.has('n') {
            if self.store_states.is_some() {
                let text = "--store-states is for a running firewall, which -n does not talk to";
                return Err(Refusal::NotHere(text.to_owned()));
            }
            if let Some(letter) = asked {
                let text = format!(
                    "-{letter} is for a running firewall, \
                     which -n does not talk to"
                );
                return Err(Refusal::NotHere(text));
            }
            if self.file.is_none() {
                return usage("no file to read: give -n and -f file");
            }
            return check_profile(self.level, self.profile.is_some());
        }
        let asks_nothing = asked.is_none_or(|letter| letter == 'i' || letter == 'm');
        if self.file.is_none() && self.store_states.is_none() && asks_nothing {
            return usage("nothing to do: give -f file, -s, -F, -k, -L, -t and -T, -e or -d");
        }
        if self.profile.is_some() {
            return usage("--profile goes with -n: a running firewall has its own");
        }
        if self.facts.is_some() && self.file.is_none() {
            return usage("--facts goes with -f file");
        }
        if self.has('A') {
            let text = "-A loads queues alone: weir loads them with all of the file";
            return Err(Refusal::NotHere(text.to_owned()));
        }
        if self.has('m') && (self.file.is_none() || !self.has('O') || self.has('R')) {
            return usage("-m merges only settings: give it with -O and -f file");
        }
        Ok(())
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
        if self.table_command == Some(TableCommand::Load) {
            parts = Parts { tables: true, ..Parts::NONE };
        }
        parts
    }
}

fn add_killer(list: &mut Vec<String>, letter: char, value: String) -> Result<(), Refusal> {
    if list.len() == 2 {
        return usage(format!("can only specify -{letter} twice"));
    }
    list.push(value);
    Ok(())
}

/// Counters of rules are needed by one level, and by no other.
fn check_profile(level: Option<Level>, has_profile: bool) -> Result<(), Refusal> {
    match (level, has_profile) {
        (Some(Level::Profile), false) => Err(Refusal::NotHere(
            "-o profile orders rules by their packets, and -n does not ask a firewall for them: \
             write them into a file with pfctl -vsr, and give it with --profile=FILE"
                .to_owned(),
        )),
        (Some(Level::None | Level::Basic), true) => usage("--profile is only for -o profile"),
        _ => Ok(()),
    }
}

fn refuse(letter: char) -> Result<(), Refusal> {
    match NOT_HERE.iter().find(|(known, _)| *known == letter) {
        None => Ok(()),
        Some((letter, what)) => Err(Refusal::NotHere(format!("-{letter} {what}"))),
    }
}

fn checked_table(name: String) -> Result<String, Refusal> {
    if name.is_empty() || name.len() > TABLE_SIZE_MAX {
        return usage(format!("table name '{name}' too long"));
    }
    Ok(name)
}

/// `PF_TABLE_NAME_SIZE` less the final zero.
const TABLE_SIZE_MAX: usize = 31;

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
    usage(problem)
}

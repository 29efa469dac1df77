//! Walks through a command line as `getopt(3)` does, for the front ends that keep the options of
//! other tools: pkt-gen, ministat and pfctl.
//!
//! Letters may be clustered (`-NU`), and an argument may follow its letter at once (`-n1000`) or as
//! the next word, whatever that looks like. `--` ends the options. What is found is told, word by
//! word; whether operands may stand before options, and what an option means, is the caller's to
//! say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// What a walk finds next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// An option that stands alone.
    Flag(char),
    /// An option with its argument.
    Value(char, &'a OsStr),
    /// An option without the argument that it needs.
    Incomplete(char),
    /// A letter that is not in the list.
    Unknown(char),
    /// A long option, hyphens and all.
    Long(&'a OsStr),
    /// A word that is no option.
    Operand(&'a OsStr),
}

/// What a word may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Options,
    LongOptions,
    Operands,
}

/// A walk.
#[derive(Debug)]
pub struct Getopt<'a> {
    words: &'a [OsString],
    /// The list of letters, a colon behind each that has an argument.
    letters: &'a str,
    is_long: fn(&[u8]) -> bool,
    /// Letters of the word that was begun.
    cluster: &'a [u8],
    phase: Phase,
}

impl<'a> Getopt<'a> {
    /// A walk through the words behind the program's name. `letters` is getopt's list, such as
    /// `ab:`; `is_long` says which words are long options.
    #[must_use]
    pub fn new(words: &'a [OsString], letters: &'a str, is_long: fn(&[u8]) -> bool) -> Self {
        Self { words, letters, is_long, cluster: &[], phase: Phase::Options }
    }

    /// From here on letters are no options any more; long options still are.
    pub fn end_letters(&mut self) {
        self.phase = Phase::LongOptions;
    }

    /// From here on every word is an operand.
    pub fn end_options(&mut self) {
        self.phase = Phase::Operands;
    }

    fn word(&mut self) -> Option<&'a OsStr> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    /// The next letter of the cluster.
    fn letter(&mut self) -> Option<Item<'a>> {
        let text = String::from_utf8_lossy(self.cluster);
        let letter = text.chars().next()?;
        // A letter of the list is one byte.
        self.cluster = &self.cluster[1..];
        let place = self.letters.find(letter).filter(|_| letter != ':');
        let has_value = place.map(|index| self.letters[index + 1..].starts_with(':'));
        Some(match has_value {
            None => Item::Unknown(letter),
            Some(false) => Item::Flag(letter),
            Some(true) if !self.cluster.is_empty() => {
                Item::Value(letter, OsStr::from_bytes(std::mem::take(&mut self.cluster)))
            }
            Some(true) => {
                self.word().map_or(Item::Incomplete(letter), |word| Item::Value(letter, word))
            }
        })
    }
}

impl<'a> Iterator for Getopt<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if !self.cluster.is_empty() {
            return self.letter();
        }
        let word = self.word()?;
        match (self.phase, word.as_bytes()) {
            (Phase::Operands, _) => Some(Item::Operand(word)),
            (Phase::Options, b"--") => {
                self.phase = Phase::Operands;
                self.next()
            }
            (_, bytes) if (self.is_long)(bytes) => Some(Item::Long(word)),
            (Phase::Options, [b'-', cluster @ ..]) if !cluster.is_empty() => {
                self.cluster = cluster;
                self.letter()
            }
            _ => Some(Item::Operand(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(line: &str, adjust: fn(&mut Getopt<'_>, Item<'_>)) -> String {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut getopt = Getopt::new(&words, "ab:", |word| word.starts_with(b"--l"));
        let mut found = Vec::new();
        while let Some(item) = getopt.next() {
            adjust(&mut getopt, item);
            found.push(match item {
                Item::Flag(letter) => letter.to_string(),
                Item::Value(letter, value) => format!("{letter}={}", value.display()),
                Item::Incomplete(letter) => format!("{letter}="),
                Item::Unknown(letter) => format!("?{letter}"),
                Item::Long(word) => format!("[{}]", word.display()),
                Item::Operand(word) => format!("<{}>", word.display()),
            });
        }
        found.join(" ")
    }

    #[test]
    fn letters_are_clustered_and_values_attached() {
        for (line, found) in [
            ("", ""),
            ("-aab1 -b 2 -b -a -b=3", "a a b=1 b=2 b=-a b==3"),
            ("-a x -a - --long=1 -- -a --long", "a <x> a <-> [--long=1] <-a> <--long>"),
            ("-ac -: -ü --x", "a ?c ?: ?ü"),
            ("-ab", "a b="),
            ("-b --", "b=--"),
        ] {
            let found_here = walk(line, |_, _| {});
            // What stands behind an unknown letter is the caller's to give up on.
            assert!(found_here.starts_with(found), "{line}: {found_here}");
        }
    }

    #[test]
    fn the_caller_says_what_an_operand_ends() {
        let to_operands = |getopt: &mut Getopt<'_>, item: Item<'_>| {
            if matches!(item, Item::Operand(_)) {
                getopt.end_options();
            }
        };
        assert_eq!(walk("-a x -a --long --", to_operands), "a <x> <-a> <--long> <-->");
        let to_long = |getopt: &mut Getopt<'_>, item: Item<'_>| {
            if matches!(item, Item::Operand(_)) {
                getopt.end_letters();
            }
        };
        assert_eq!(walk("-a x -a --long --", to_long), "a <x> <-a> [--long] <-->");
    }
}

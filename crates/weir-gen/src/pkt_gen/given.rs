//! pkt-gen's options as they were given: `getopt(3)`'s, over the table of options.
//!
//! What is not an option is refused: pkt-gen ignores it. `--help` is understood as `-h`.

use std::ffi::{OsStr, OsString};

use super::PktGenError;
use super::options::{self, OPTIONS};
use crate::getopt::{Getopt, Item};

/// An option as given: its letter, and its argument if it takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) letter: char,
    pub(super) value: String,
}

/// All options, in their order. The words are those after the program's name.
pub(super) fn split(words: impl IntoIterator<Item = OsString>) -> Result<Vec<Given>, PktGenError> {
    let words: Vec<OsString> = words.into_iter().collect();
    if let Some(word) = words.iter().find(|word| word.to_str().is_none()) {
        return Err(PktGenError::Text(word.to_string_lossy().into_owned()));
    }
    let letters: String = OPTIONS
        .iter()
        .flat_map(|option| [option.letter].into_iter().chain(option.value.map(|_| ':')))
        .collect();
    Getopt::new(&words, &letters, |word| word.starts_with(b"--")).map(given).collect()
}

fn given(item: Item<'_>) -> Result<Given, PktGenError> {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    match item {
        Item::Flag(letter) => Ok(Given { letter, value: String::new() }),
        Item::Value(letter, value) => Ok(Given { letter, value: text(value) }),
        Item::Long(word) if word == "--help" => Ok(Given { letter: 'h', value: String::new() }),
        Item::Long(word) => Err(PktGenError::Long(text(word))),
        Item::Operand(word) => Err(PktGenError::Operand(text(word))),
        Item::Unknown(letter) => Err(PktGenError::Unknown(letter)),
        Item::Incomplete(letter) => {
            let name = options::option(letter).and_then(|option| option.value).unwrap_or_default();
            Err(PktGenError::ValueMissing { letter, name })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Vec<(char, String)>, PktGenError> {
        let given = split(line.split_whitespace().map(OsString::from))?;
        Ok(given.into_iter().map(|given| (given.letter, given.value)).collect())
    }

    #[test]
    fn letters_are_clustered_and_values_attached() {
        let expected = |pairs: &[(char, &str)]| -> Vec<(char, String)> {
            pairs.iter().map(|(letter, value)| (*letter, (*value).to_owned())).collect()
        };
        assert_eq!(read("").unwrap(), expected(&[]));
        assert_eq!(
            read("-NUn1000 -i eth0 -ftx --").unwrap(),
            expected(&[('N', ""), ('U', ""), ('n', "1000"), ('i', "eth0"), ('f', "tx")])
        );
        // The argument is the next word, whatever it looks like.
        assert_eq!(read("-p -1 -n=7").unwrap(), expected(&[('p', "-1"), ('n', "=7")]));
        assert_eq!(read("--help").unwrap(), expected(&[('h', "")]));
    }

    #[test]
    fn what_is_no_option_is_refused() {
        for (line, error) in [
            ("-q", PktGenError::Unknown('q')),
            ("-Nq", PktGenError::Unknown('q')),
            ("-ü", PktGenError::Unknown('ü')),
            ("--rate 5", PktGenError::Long("--rate".into())),
            ("-n", PktGenError::ValueMissing { letter: 'n', name: "COUNT" }),
            ("eth0", PktGenError::Operand("eth0".into())),
            ("-N -", PktGenError::Operand("-".into())),
            ("-N -- -U", PktGenError::Operand("-U".into())),
        ] {
            assert_eq!(read(line).unwrap_err(), error, "{line}");
        }
    }

    #[test]
    fn words_are_utf8() {
        use std::os::unix::ffi::OsStringExt as _;
        let words = [OsString::from("-i"), OsString::from_vec(vec![b'e', 0xff])];
        assert_eq!(split(words).unwrap_err(), PktGenError::Text("e\u{fffd}".into()));
    }
}

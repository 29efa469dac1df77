//! Splits a command line as `getopt(3)` does.
//!
//! Letters may be clustered (`-NU`), and an argument may follow its letter at once (`-n1000`) or as
//! the next word. `--` ends the options. What is not an option is refused: pkt-gen ignores it.
//! `--help` is understood as `-h`.

use std::ffi::OsString;

use super::PktGenError;
use super::options;

/// An option as given: its letter, and its argument if it takes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) letter: char,
    pub(super) value: String,
}

/// All options, in their order. The words are those after the program's name.
pub(super) fn split(words: impl IntoIterator<Item = OsString>) -> Result<Vec<Given>, PktGenError> {
    let mut words = words.into_iter().map(|word| {
        word.into_string().map_err(|word| PktGenError::Text(word.to_string_lossy().into_owned()))
    });
    let mut given = Vec::new();
    while let Some(word) = words.next().transpose()? {
        if word == "--" {
            if let Some(operand) = words.next().transpose()? {
                return Err(PktGenError::Operand(operand));
            }
            break;
        }
        if word == "--help" {
            given.push(Given { letter: 'h', value: String::new() });
            continue;
        }
        let mut letters = match word.strip_prefix('-') {
            Some(long) if long.starts_with('-') => return Err(PktGenError::Long(word)),
            Some(letters) if !letters.is_empty() => letters.chars(),
            _ => return Err(PktGenError::Operand(word)),
        };
        while let Some(letter) = letters.next() {
            let option = options::option(letter).ok_or(PktGenError::Unknown(letter))?;
            let value = match option.value {
                None => String::new(),
                Some(name) => {
                    let rest = std::mem::replace(&mut letters, "".chars()).as_str().to_owned();
                    let next = if rest.is_empty() { words.next().transpose()? } else { Some(rest) };
                    next.ok_or(PktGenError::ValueMissing { letter, name })?
                }
            };
            given.push(Given { letter, value });
        }
    }
    Ok(given)
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

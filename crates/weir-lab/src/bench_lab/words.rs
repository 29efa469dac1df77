//! The words of a shell line: which is pkt-gen, and which options are its own. Nothing is run, and
//! nothing is expanded.

use std::ops::Range;

use weir_gen::pkt_gen::options::OPTIONS;

/// What may stand before a program: name, letters and long options that take the next word, and
/// how many words follow the options before the program does.
const WRAPPERS: [(&str, &str, &[&str], usize); 22] = [
    ("sudo", "CDghprRtTuU", &["--user", "--group", "--host", "--prompt", "--chdir"], 0),
    ("doas", "Cu", &[], 0),
    ("nice", "n", &["--adjustment"], 0),
    ("ionice", "cn", &["--class", "--classdata"], 0),
    ("cpuset", "dijlnprstx", &[], 0),
    ("taskset", "", &[], 1),
    ("numactl", "CimNpP", &["--cpunodebind", "--physcpubind", "--membind", "--interleave"], 0),
    ("chrt", "DPT", &[], 1),
    ("rtprio", "", &[], 1),
    ("idprio", "", &[], 1),
    ("setfib", "", &[], 1),
    ("jexec", "uU", &[], 1),
    // ip netns exec NAME
    ("ip", "", &[], 3),
    ("env", "CLPuU", &["--unset", "--chdir"], 0),
    ("timeout", "ks", &["--kill-after", "--signal"], 1),
    ("stdbuf", "eio", &["--input", "--output", "--error"], 0),
    ("time", "fo", &["--format", "--output"], 0),
    ("exec", "a", &[], 0),
    ("command", "", &[], 0),
    ("nohup", "", &[], 0),
    ("setsid", "", &[], 0),
    ("unbuffer", "", &[], 0),
];

/// Where pkt-gen and its arguments stand in a line.
#[derive(Debug)]
pub(super) struct Program<'l> {
    line: &'l str,
    /// Its own word.
    pub(super) word: Range<usize>,
    arguments: Vec<Range<usize>>,
}

/// An option of pkt-gen's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) letter: char,
    /// The letter itself.
    pub(super) at: Range<usize>,
    /// The word that it stands in.
    pub(super) word: Range<usize>,
    /// Its value, joined or in the next word.
    pub(super) value: Option<Range<usize>>,
}

impl<'l> Program<'l> {
    /// The one pkt-gen that a line starts: the first word of one of its commands, or behind
    /// `sudo`, `nice` and the like. `None` if there is none, or more than one.
    pub(super) fn find(line: &'l str) -> Option<Self> {
        let mut found = commands(line).into_iter().filter_map(|mut words| {
            let at = position(line, &words)?;
            let arguments = words.split_off(at + 1);
            Some(Self { line, word: words.pop()?, arguments })
        });
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// Its options, as getopt(3) reads them.
    pub(super) fn options(&self) -> Vec<Given> {
        let mut given = Vec::new();
        let mut words = self.arguments.iter();
        while let Some(word) = words.next() {
            let text = &self.line[word.clone()];
            if text == "--" {
                break;
            }
            let Some(letters) = text.strip_prefix('-') else { continue };
            for (offset, letter) in letters.char_indices() {
                // Behind a quote or a reference nobody knows the letters.
                if !letter.is_ascii_alphanumeric() {
                    break;
                }
                let at = word.start + 1 + offset..word.start + 2 + offset;
                let takes =
                    OPTIONS.iter().any(|option| option.letter == letter && option.value.is_some());
                let joined = at.end..word.end;
                let value = match takes {
                    true if joined.is_empty() => words.next().cloned(),
                    true => Some(joined),
                    false => None,
                };
                given.push(Given { letter, at, word: word.clone(), value });
                if takes {
                    break;
                }
            }
        }
        given
    }
}

/// A word as the program sees it, if nothing in it is to be expanded.
pub(super) fn unquoted(word: &str) -> String {
    let (mut text, mut characters, mut quote) = (String::new(), word.chars(), None);
    while let Some(character) = characters.next() {
        match (character, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(character),
            ('\\', None | Some('"')) => text.extend(characters.next()),
            _ => text.push(character),
        }
    }
    text
}

/// Which word of a command is pkt-gen, in the place of a program.
fn position(line: &str, words: &[Range<usize>]) -> Option<usize> {
    let words: Vec<String> = words.iter().map(|word| unquoted(&line[word.clone()])).collect();
    let mut at = 0;
    loop {
        let word = words.get(at)?;
        let base = word.rsplit('/').next().unwrap_or_default();
        if is_assignment(word) {
            at += 1;
        } else if base == "pkt-gen" {
            return Some(at);
        } else {
            let (_, letters, long, operands) = WRAPPERS.iter().find(|(name, ..)| *name == base)?;
            at = behind_options(&words, at + 1, letters, long) + operands;
        }
    }
}

/// Where the options of a wrapper end.
fn behind_options(words: &[String], mut at: usize, letters: &str, long: &[&str]) -> usize {
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        at += 1;
        if word == "--" {
            break;
        }
        let takes_next = match word.find(|letter| letters.contains(letter)) {
            _ if word.starts_with("--") => long.contains(&word.as_str()),
            // What follows the letter in its word is its value.
            Some(letter) => letter + 1 == word.len(),
            None => false,
        };
        at += usize::from(takes_next);
    }
    at
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    })
}

/// The words of each command of a line, without what goes to files or comes from them.
fn commands(line: &str) -> Vec<Vec<Range<usize>>> {
    let (bytes, mut at) = (line.as_bytes(), 0);
    let mut commands: Vec<Vec<Range<usize>>> = vec![Vec::new()];
    while let Some(&byte) = bytes.get(at) {
        let is_redirection = byte == b'&' && bytes.get(at + 1) == Some(&b'>');
        match byte {
            b'#' => break,
            _ if byte.is_ascii_whitespace() => at += 1,
            b'<' | b'>' => at = behind_redirection(bytes, at, commands.last_mut()),
            b'&' if is_redirection => at = behind_redirection(bytes, at, None),
            b';' | b'&' | b'|' | b'(' | b')' => {
                commands.push(Vec::new());
                at += 1;
            }
            _ => {
                let end = word_end(bytes, at);
                commands.last_mut().into_iter().for_each(|words| words.push(at..end));
                at = end;
            }
        }
    }
    commands
}

/// The end of a redirection with its file; a number right before it belongs to it.
fn behind_redirection(bytes: &[u8], at: usize, words: Option<&mut Vec<Range<usize>>>) -> usize {
    if let Some(words) = words {
        let is_number = |word: &mut Range<usize>| {
            word.end == at && bytes[word.clone()].iter().all(u8::is_ascii_digit)
        };
        words.pop_if(is_number);
    }
    let count =
        |from: usize, of: &[u8]| bytes[from..].iter().take_while(|byte| of.contains(byte)).count();
    let file = at + count(at, b"<>&|");
    word_end(bytes, file + count(file, b" \t\n"))
}

fn word_end(bytes: &[u8], mut at: usize) -> usize {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b";&|<>()".contains(byte);
    while bytes.get(at).is_some_and(|byte| !ends(byte)) {
        at = behind_part(bytes, at);
    }
    at
}

/// The end of a quotation or an expansion, or of a byte that is none.
fn behind_part(bytes: &[u8], at: usize) -> usize {
    let end = match (bytes[at], bytes.get(at + 1)) {
        (b'\\', _) => at + 2,
        (b'\'', _) => {
            let quoted = bytes[at + 1..].iter().take_while(|byte| **byte != b'\'').count();
            at + 1 + quoted + 1
        }
        (b'"', _) => behind_nested(bytes, at + 1, b'"'),
        (b'`', _) => behind_nested(bytes, at + 1, b'`'),
        (b'$', Some(b'(')) => behind_nested(bytes, at + 2, b')'),
        (b'$', Some(b'{')) => behind_nested(bytes, at + 2, b'}'),
        _ => at + 1,
    };
    end.min(bytes.len())
}

fn behind_nested(bytes: &[u8], mut at: usize, close: u8) -> usize {
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            _ if byte == close => return at + 1,
            b'(' if close == b')' => behind_nested(bytes, at + 1, b')'),
            // Between double quotes this is no quote.
            b'\'' if close == b'"' => at + 1,
            _ => behind_part(bytes, at),
        };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<(&str, Vec<&str>)> {
        let program = Program::find(line)?;
        let words = program.arguments.iter().map(|word| &line[word.clone()]).collect();
        Some((&line[program.word], words))
    }

    #[test]
    fn pkt_gen_stands_where_a_program_does() {
        for line in [
            "pkt-gen -f tx",
            "sudo /opt/pkt-gen -f tx",
            "nice -n 5 pkt-gen -f tx",
            "nice -n-20 sudo -iu root pkt-gen -f tx",
            "cpuset -l 0-3 nice --20 pkt-gen -f tx",
            "LANG=C env -i PATH=/bin taskset -c 1,2 ./pkt-gen -f tx",
            "timeout --signal INT 60 '/opt/a b/pkt-gen' -f tx",
            "ip netns exec gen pkt-gen -f tx",
            "cd /root/netmap/apps/pkt-gen && ./pkt-gen -f tx",
            "killall pkt-gen || true; pkt-gen -f tx",
            "pkt-gen -f 2>&1 tx >/tmp/log & wait # pkt-gen",
            "(pkt-gen -f tx) &> /tmp/log",
        ] {
            let (program, arguments) = found(line).unwrap_or_else(|| panic!("{line}"));
            assert!(unquoted(program).ends_with("pkt-gen"), "{line}: {program}");
            assert_eq!(arguments, ["-f", "tx"], "{line}");
        }
        for line in [
            "",
            "equilibrium -u",
            "my-pkt-gen-wrapper",
            "pkill pkt-gen",
            "sh -c 'pkt-gen -f tx'",
            "sudo -u pkt-gen ls",
            "if true; then pkt-gen -f tx; fi",
            "pkt-gen -f tx & pkt-gen -f tx",
            "echo \"$(pkt-gen -f tx)\"",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn options_are_read_as_getopt_does() {
        let line = "nice -n 5 pkt-gen -UNn300 -l \"$(cat size | head -n 1)\" -S -D x -${AF} \
                    -- -i no";
        let options = Program::find(line).expect("it is there").options();
        let given: Vec<(char, Option<&str>)> = options
            .iter()
            .map(|option| (option.letter, option.value.clone().map(|value| &line[value])))
            .collect();
        let expected = [
            ('U', None),
            ('N', None),
            ('n', Some("300")),
            ('l', Some("\"$(cat size | head -n 1)\"")),
            ('S', Some("-D")),
        ];
        assert_eq!(given, expected);
        assert_eq!(unquoted("'a b'\\ \"c'\"d"), "a b c'd");
    }
}

//! The lines that start pkt-gen: their signs become references, and options that weir needs are put
//! in. Nothing here evaluates a fragment.

use std::ops::Range;

use super::evaluate::Variables;
use super::sets::SIGNS;
use super::words::{Given, Program, unquoted};

/// What an option of a line was made of, where somebody should know.
pub(super) type Note = String;

/// Whether a line with signs is the line as it is but for them. A condition or a sum in a fragment
/// may see the sign where it expects a number, and make another line.
pub(super) fn is_the_same(values: &Variables, signs: &str, line: &str) -> bool {
    let mut restored = signs.to_owned();
    for (name, sign, _) in SIGNS {
        restored = restored.replace(sign, values.get(name).unwrap_or_default());
    }
    restored.split_whitespace().eq(line.split_whitespace())
}

/// A line with its signs replaced by references.
pub(super) fn template(line: &str) -> String {
    let mut line = escaped(line);
    if !line.contains(['"', '\'', '\\']) {
        // What continued lines leave are blanks; in quotes they may mean something.
        line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    for (_, sign, reference) in SIGNS {
        // Quotes around the sign are the reference's own.
        for quoted in [format!("\"{sign}\""), format!("'{sign}'"), (*sign).to_owned()] {
            line = line.replace(&quoted, reference);
        }
    }
    line
}

/// A line that has nothing to be replaced.
pub(super) fn escaped(line: &str) -> String {
    line.replace("${", "$${")
}

/// The line with plain numbers (`-N`) and, of a sender, with the number of packets that it is asked
/// for (`-n ${count}`): bursts end by themselves, and runs by their time.
pub(super) fn complete(name: &str, line: &str) -> (String, Vec<Note>) {
    let Some(program) = Program::find(line) else { return (line.to_owned(), Vec::new()) };
    let (given, mut notes) = (program.options(), Vec::new());
    let (mut behind, mut edits): (String, Vec<(Range<usize>, &str)>) = Default::default();
    if name.starts_with("RECEIVER") {
        let waits = given.iter().filter(|option| option.letter == 'W');
        edits.extend(waits.map(|option| (without(line, option), "")));
        if !edits.is_empty() {
            notes.push(
                "-W is left out of RECEIVER_START_CMD: weir stops the receiver itself".into(),
            );
        }
    } else {
        let why = "weir asks for as many packets as it needs";
        let numbers = || given.iter().filter(|option| option.letter == 'n');
        for value in numbers().filter_map(|option| option.value.clone()) {
            let number = &line[value.clone()];
            if !number.contains("${count}") {
                notes.push(format!("`-n {number}` of {name} is not used: {why}"));
                edits.push((value, "${count}"));
            }
        }
        if numbers().next().is_none() {
            behind.push_str(" -n ${count}");
            notes.push(format!("{name} has no `-n`: {why}"));
        }
    }
    if !given.iter().any(|option| option.letter == 'N') {
        behind.push_str(" -N");
    }
    edits.push((program.word.end..program.word.end, &behind));
    // What is put in where something is left out comes first, to be made last.
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let mut line = line.to_owned();
    // From the end on, so that what is before stays where it was.
    for (span, text) in edits.into_iter().rev() {
        line.replace_range(span, text);
    }
    (line, notes)
}

/// What to leave out for an option without a value: its word, unless it holds others.
fn without(line: &str, given: &Given) -> Range<usize> {
    if given.word.len() > 2 {
        return given.at.clone();
    }
    line[..given.word.start].trim_end().len()..given.word.end
}

/// What pkt-gen is given for an option, each time, without quotes.
pub(super) fn values(line: &str, letter: char) -> Vec<String> {
    let options = Program::find(line).map(|program| program.options()).unwrap_or_default();
    let given = options.into_iter().filter(|option| option.letter == letter);
    given.filter_map(|option| option.value).map(|value| unquoted(&line[value])).collect()
}

/// The value of an option that counts, which is the last, if it stands in the line as it is.
pub(super) fn option(line: &str, letter: char) -> Option<String> {
    values(line, letter).pop().filter(|value| !value.contains(['$', '`']))
}

/// The interface of a port of netmap's: without prefix, and without what chooses rings, pipes or
/// modes of it.
pub(super) fn interface(port: &str) -> &str {
    let port = port.strip_prefix("netmap:").unwrap_or(port);
    let name = port.split(['^', '*', '/', '{', '}', '@', '+']).next().unwrap_or_default();
    match name.rsplit_once('-') {
        Some((name, ring)) if ring.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_the_number_of_packets_that_it_is_asked_for() {
        let of = |line: &str| complete("SENDER_START_CMD", line);
        let (line, notes) = of("sudo pkt-gen -N -f tx -n ${count}");
        assert_eq!((line.as_str(), notes.len()), ("sudo pkt-gen -N -f tx -n ${count}", 0));
        let (line, notes) = of("sudo pkt-gen -f tx -n 300000000 > /tmp/log");
        assert_eq!(line, "sudo pkt-gen -N -f tx -n ${count} > /tmp/log");
        assert!(notes[0].contains("-n 300000000"), "{notes:?}");
        let (line, notes) = of("pkt-gen -N -f tx");
        assert_eq!((line.as_str(), notes.len()), ("pkt-gen -n ${count} -N -f tx", 1));
        assert_eq!(
            option("pkt-gen -i vcxl1 -D 00:11:22:33:44:55", 'D').as_deref(),
            Some("00:11:22:33:44:55")
        );
        assert_eq!(option("pkt-gen -i $if", 'i'), None);
    }

    #[test]
    fn only_options_of_pkt_gens_own_are_replaced() {
        for (line, expected) in [
            ("nice -n 5 pkt-gen -f tx", "nice -n 5 pkt-gen -n ${count} -N -f tx"),
            ("nice -n -20 pkt-gen -N -n 300", "nice -n -20 pkt-gen -N -n ${count}"),
            ("nice -n 300 pkt-gen -n300 -N", "nice -n 300 pkt-gen -n${count} -N"),
            ("pkt-gen -Nn300 -i ix0", "pkt-gen -Nn${count} -i ix0"),
            ("pkt-gen -N -n  300 -S \"a\"", "pkt-gen -N -n  ${count} -S \"a\""),
            ("pkt-gen -n '300' -N -n 5", "pkt-gen -n ${count} -N -n ${count}"),
            ("echo -N -n 3; pkt-gen -n 3 -i ix0", "echo -N -n 3; pkt-gen -N -n ${count} -i ix0"),
            ("cd pkt-gen && ./pkt-gen -n 3", "cd pkt-gen && ./pkt-gen -N -n ${count}"),
        ] {
            assert_eq!(complete("SENDER_START_CMD", line).0, expected, "{line}");
        }
        assert_eq!(option("sudo -i pkt-gen -i ix0", 'i').as_deref(), Some("ix0"));
        assert_eq!(option("sudo -i pkt-gen -iix1 | tee -i log", 'i').as_deref(), Some("ix1"));
    }

    #[test]
    fn the_quotes_around_a_value_are_its_references() {
        for (_, sign, reference) in SIGNS {
            for quote in ["", "'", "\""] {
                let line = format!("pkt-gen -x {quote}{sign}{quote} -N");
                assert_eq!(template(&line), format!("pkt-gen -x {reference} -N"), "{line}");
            }
        }
    }

    #[test]
    fn a_receiver_does_not_stop_by_itself() {
        for (line, expected) in [
            ("pkt-gen -f rx -W -i em0", "pkt-gen -N -f rx -i em0"),
            ("sudo pkt-gen -W -f rx", "sudo pkt-gen -N -f rx"),
            ("pkt-gen -NW -S '-W  x'", "pkt-gen -N -S '-W  x'"),
            ("env -W pkt-gen -N", "env -W pkt-gen -N"),
        ] {
            let (line, notes) = complete("RECEIVER_START_CMD", line);
            assert_eq!(line, expected);
            assert_eq!(notes.len(), usize::from(!expected.contains("env")), "{notes:?}");
        }
    }

    #[test]
    fn ports_of_netmaps_are_rings_of_interfaces() {
        for port in ["ix0", "netmap:ix0", "netmap:ix0-1", "ix0^", "ix0*", "netmap:ix0-12/T"] {
            assert_eq!(interface(port), "ix0", "{port}");
        }
        assert_eq!(interface("lan-east"), "lan-east");
    }
}

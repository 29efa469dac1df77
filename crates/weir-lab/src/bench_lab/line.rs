//! The lines that start pkt-gen: their signs become references, and options that weir needs are put
//! in. Nothing here evaluates a fragment.

use super::evaluate::Variables;
use super::sets::SIGNS;

/// What an option of a line was made of, where somebody should know.
pub(super) type Note = String;

/// The word of a line that is pkt-gen: the first one, or behind `sudo`, `nice`, `cpuset` and the
/// like.
pub(super) fn program(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.rsplit('/').next() == Some("pkt-gen"))
}

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
        line = line.replace(&format!("\"{sign}\""), reference).replace(sign, reference);
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
    let (mut line, mut notes) = (line.to_owned(), Vec::new());
    if !has(&line, "-N") {
        line = behind_program(&line, "-N");
    }
    if name.starts_with("RECEIVER") {
        if has(&line, "-W") {
            let words = line.split_whitespace().filter(|word| *word != "-W");
            line = words.collect::<Vec<_>>().join(" ");
            notes.push(
                "-W is left out of RECEIVER_START_CMD: weir stops the receiver itself".into(),
            );
        }
        return (line, notes);
    }
    if line.contains("${count}") {
        return (line, notes);
    }
    let why = "weir asks for as many packets as it needs";
    let number = line.split_whitespace().skip_while(|word| *word != "-n").nth(1);
    let number = number.filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(number) = number.map(str::to_owned) {
        line = line.replacen(&format!("-n {number}"), "-n ${count}", 1);
        notes.push(format!("`-n {number}` of {name} is not used: {why}"));
    } else {
        line = behind_program(&line, "-n ${count}");
        notes.push(format!("{name} has no `-n`: {why}"));
    }
    (line, notes)
}

/// The value of an option, if it stands in the line as it is.
pub(super) fn option<'l>(line: &'l str, option: &str) -> Option<&'l str> {
    let value = line.split_whitespace().skip_while(|word| *word != option).nth(1)?;
    (!value.contains(['$', '"', '\'', '\\', ';'])).then_some(value)
}

fn has(line: &str, option: &str) -> bool {
    line.split_whitespace().any(|word| word == option)
}

/// The line with an option behind pkt-gen.
fn behind_program(line: &str, option: &str) -> String {
    let program = program(line).unwrap_or_default();
    line.replacen(program, &format!("{program} {option}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkt_gen_may_stand_behind_other_words() {
        for line in ["pkt-gen -f tx", "sudo /opt/pkt-gen -f tx", "nice -n 5 pkt-gen -f tx"] {
            let found = program(line).expect("it is there");
            assert!(found.ends_with("pkt-gen"), "{line}: {found}");
        }
        assert_eq!(program("equilibrium -u"), None);
        assert_eq!(program("my-pkt-gen-wrapper"), None);
    }

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
            option("pkt-gen -i vcxl1 -D 00:11:22:33:44:55", "-D"),
            Some("00:11:22:33:44:55")
        );
        assert_eq!(option("pkt-gen -i $if", "-i"), None);
        let (line, _) = complete("RECEIVER_START_CMD", "pkt-gen -f rx -W -i em0");
        assert_eq!(line, "pkt-gen -N -f rx -i em0");
    }
}

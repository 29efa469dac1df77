//! What a generator was told: the flows and the frame size in pkt-gen's command line.

use weir_gen::pkt_gen::options::option;
use weir_wire::range::{AddrRange, Span as _};

/// What a command line of pkt-gen says of its packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Flows: pairs of address and port at one end times those at the other; absent if the command
    /// names no ranges, or not in pkt-gen's syntax.
    pub(super) flow_count: Option<u64>,
    /// Frame size without FCS, bytes.
    pub(super) size_bytes: Option<u16>,
}

/// Reads a command; nothing is known of one that is not pkt-gen's.
pub(super) fn parse(command: &str) -> Sent {
    let words = words(command);
    let mut words = words.iter().map(String::as_str);
    let program = words.next().and_then(|program| program.rsplit('/').next());
    if program != Some("pkt-gen") {
        return Sent::default();
    }
    let mut sent = Sent::default();
    let (mut src, mut dst) = (None, None);
    while let Some(word) = words.next() {
        let Some(letter) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) else {
            continue;
        };
        if option(letter).is_none_or(|known| known.value.is_none()) {
            continue;
        }
        let attached = &word[1 + letter.len_utf8()..];
        let value = if attached.is_empty() { words.next() } else { Some(attached) };
        match (letter, value) {
            ('s', Some(range)) => src = ends(range),
            ('d', Some(range)) => dst = ends(range),
            ('l', Some(size)) => sent.size_bytes = size.parse().ok(),
            _ => {}
        }
    }
    sent.flow_count = src.zip(dst).and_then(|(src, dst)| src.checked_mul(dst));
    sent
}

/// Pairs of address and port in a range.
fn ends(text: &str) -> Option<u64> {
    /// pkt-gen's own; how many there are does not depend on it.
    const DEFAULT_PORT: u16 = 1234;
    AddrRange::parse(text, DEFAULT_PORT).ok().map(|(range, _)| range.pair_count())
}

/// The words of a command, without their quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in command.chars() {
        match (quote, character) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_and_sizes_are_those_of_the_command() {
        let sent = |command: &str| {
            let Sent { flow_count, size_bytes } = parse(command);
            (flow_count, size_bytes)
        };
        let command = "pkt-gen -N -f tx -w 2 -i igb2 -n 300000000 -l 60 -4 -U -S 00:1b:21:c4:95:7a \
                       -s 198.18.10.1:2000-198.18.10.20 -D 00:08:a2:09:33:da \
                       -d 198.19.10.1:2000-198.19.10.100";
        assert_eq!(sent(command), (Some(2000), Some(60)));
        let six = "pkt-gen -f tx -l 62 -6 -d \"[2001:2:0:8010::1]-[2001:2:0:8010::64]\" \
                   -s \"[2001:2:0:10::1]-[2001:2:0:10::14]\"";
        assert_eq!(sent(six), (Some(2000), Some(62)));
        assert_eq!(sent("pkt-gen -f rx -i igb3 -w 4"), (None, None));
        assert_eq!(sent("/usr/local/bin/pkt-gen -l1514 -s 1.1.1.1 -d oops"), (None, Some(1514)));
        assert_eq!(sent("equilibrium -4 -u -d 00:0d:b9:41:ca:3d"), (None, None));
        assert_eq!(sent(""), (None, None));
    }
}

//! `pfctl -s Tables` and `pfctl -T show` (FreeBSD, `pfctl_table.c`).

use std::fmt::Write as _;
use std::net::IpAddr;

use weir_bpf::firewall::Counts;

/// A table, without its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub name: String,
    /// Its anchor; empty for the main ruleset.
    pub anchor: String,
    /// `const`
    pub is_const: bool,
    /// `persist`
    pub is_persist: bool,
    /// `counters`
    pub has_counters: bool,
    /// A rule names it.
    pub is_referenced: bool,
    /// Rules that name it.
    pub rule_count: u32,
    /// Its entries.
    pub entry_count: usize,
}

/// Appends a table; `verbosity` is how often `-v` was given.
pub fn put(out: &mut String, table: &Table, verbosity: u8) {
    if verbosity > 0 {
        let flag = |is_set: bool, letter| if is_set { letter } else { '-' };
        let flags = [
            flag(table.is_const, 'c'),
            flag(table.is_persist, 'p'),
            'a',
            '-',
            flag(table.is_referenced, 'r'),
            '-',
            flag(table.has_counters, 'C'),
        ];
        out.extend(flags);
        out.push('\t');
    }
    out.push_str(&table.name);
    if !table.anchor.is_empty() {
        let _ = write!(out, "\t{}", table.anchor);
    }
    out.push('\n');
    if verbosity > 1 {
        let _ = writeln!(out, "\tAddresses:   {}", table.entry_count);
        let _ =
            writeln!(out, "\tReferences:  [ Anchors: {:<18} Rules: {:<18} ]", 0, table.rule_count);
    }
}

/// Appends an entry: `is_match` marks what was asked for and is there (`-T test -v`).
pub(crate) fn put_entry(out: &mut String, address: IpAddr, bits: u8, not: bool) {
    let sign = if not { '!' } else { ' ' };
    let _ = write!(out, "  {sign}{address}");
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    if bits < bits_max {
        let _ = write!(out, "/{bits}");
    }
    out.push('\n');
}

/// Appends what was counted of an entry.
pub(crate) fn put_counts(out: &mut String, counts: &Counts) {
    for (direction, word) in ["In", "Out"].into_iter().enumerate() {
        // pf's order.
        for (outcome, what) in [(1, "Block"), (0, "Pass")] {
            let (packets, bytes) =
                (counts.packets[direction][outcome], counts.bytes[direction][outcome]);
            let name = format!("{word}/{what}:");
            let _ = writeln!(out, "\t{name:<12} [ Packets: {packets:<18} Bytes: {bytes:<18} ]");
        }
    }
}

/// Appends when an entry was added, or cleared.
pub(crate) fn put_cleared(out: &mut String, unix_s: i64) {
    let _ = writeln!(out, "\tCleared:     {}", super::ctime(unix_s));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_pfctls() {
        let table = Table {
            name: "bad".to_owned(),
            is_persist: true,
            is_referenced: true,
            rule_count: 2,
            entry_count: 7,
            ..Table::default()
        };
        let text = |table: &Table, verbosity| {
            let mut out = String::new();
            put(&mut out, table, verbosity);
            out
        };
        assert_eq!(text(&table, 0), "bad\n");
        assert_eq!(text(&table, 1), "-pa-r--\tbad\n");
        assert_eq!(text(&table, 2).lines().nth(1), Some("\tAddresses:   7"));
        let nested = Table { anchor: "a/b".to_owned(), is_const: true, ..table };
        assert_eq!(text(&nested, 1), "cpa-r--\tbad\ta/b\n");
    }

    #[test]
    fn entries_are_pfctls() {
        let mut out = String::new();
        put_entry(&mut out, "10.0.0.0".parse().unwrap(), 8, false);
        put_entry(&mut out, "10.1.2.3".parse().unwrap(), 32, true);
        put_entry(&mut out, "2001:db8::".parse().unwrap(), 32, false);
        assert_eq!(out, "   10.0.0.0/8\n  !10.1.2.3\n   2001:db8::/32\n");
        out.clear();
        put_counts(&mut out, &Counts { packets: [[1, 2], [3, 4]], bytes: [[5, 6], [7, 8]] });
        let line = "\tIn/Block:    [ Packets: 2                  Bytes: 6                  ]";
        assert_eq!(out.lines().next(), Some(line));
        let words = out.lines().map(|line| line.split_whitespace().next().unwrap());
        assert_eq!(words.collect::<Vec<_>>(), ["In/Block:", "In/Pass:", "Out/Block:", "Out/Pass:"]);
    }
}

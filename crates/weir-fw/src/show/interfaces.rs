//! `pfctl -s Interfaces` (FreeBSD, `print_iface`).

use std::fmt::Write as _;

use super::ctime;

/// An interface and what it counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its name; `all` for the sum.
    pub name: String,
    /// `set skip`
    pub is_skipped: bool,
    /// When it began to count, seconds since 1970.
    pub cleared_unix_s: i64,
    /// Rules that name it.
    pub rule_count: u32,
    /// Packets by family, direction and outcome (passed, blocked).
    pub packet_count: [[[u64; 2]; 2]; 2],
    /// Bytes of those packets.
    pub size_bytes: [[[u64; 2]; 2]; 2],
}

/// Appends an interface; `verbosity` is how often `-v` was given.
pub fn put(out: &mut String, interface: &Interface, verbosity: u8) {
    let skip = if verbosity > 0 && interface.is_skipped { " (skip)" } else { "" };
    let _ = writeln!(out, "{}{skip}", interface.name);
    if verbosity < 2 {
        return;
    }
    let _ = writeln!(out, "\tCleared:     {}", ctime(interface.cleared_unix_s));
    let _ = writeln!(out, "\tReferences:  {:<18}", interface.rule_count);
    for (family, number) in [4, 6].into_iter().enumerate() {
        for (direction, word) in ["In", "Out"].into_iter().enumerate() {
            for (outcome, end) in ["Pass", "Block"].into_iter().enumerate() {
                let name = format!("{word}{number}/{end}:");
                let packets = interface.packet_count[family][direction][outcome];
                let bytes = interface.size_bytes[family][direction][outcome];
                let _ = writeln!(out, "\t{name:<12} [ Packets: {packets:<18} Bytes: {bytes:<18} ]");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pfctls() {
        let interface =
            Interface { name: "em0".to_owned(), is_skipped: true, ..Interface::default() };
        let text = |verbosity| {
            let mut out = String::new();
            put(&mut out, &interface, verbosity);
            out
        };
        assert_eq!(text(0), "em0\n");
        assert_eq!(text(1), "em0 (skip)\n");
        let long = text(2);
        let lines: Vec<&str> = long.lines().collect();
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[2], "\tReferences:  0                 ");
        let end = "[ Packets: 0                  Bytes: 0                  ]";
        assert_eq!(lines[3], format!("\tIn4/Pass:    {end}"));
        assert_eq!(lines[10], format!("\tOut6/Block:  {end}"));
    }
}

//! What `pfctl -s rules -v` adds below a rule, and the lines of `pfctl -s labels` (FreeBSD,
//! `pfctl_print_rule_counters`, `pfctl_show_rules`). The rule's own text comes from `weir-rules`.

use std::fmt::Write as _;

/// What a rule has counted. Packets and bytes by direction: in, out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// How often it was asked.
    pub evaluation_count: u64,
    /// Packets that it decided, those of its states included.
    pub packet_count: [u64; 2],
    /// Bytes of those packets.
    pub size_bytes: [u64; 2],
    /// States that it has now.
    pub state_count: u64,
    /// States that it ever made.
    pub created_count: u64,
    /// It is a `once` rule, and has had its match.
    pub is_spent: bool,
}

/// Who loaded the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loader {
    /// User.
    pub uid: u32,
    /// Process.
    pub pid: u32,
}

/// Appends the lines below a rule.
pub(crate) fn put_counts(out: &mut String, counts: &RuleCounts, loader: Loader) {
    let _ = writeln!(
        out,
        "  [ Evaluations: {:<8}  Packets: {:<8}  Bytes: {:<10}  States: {:<6}]",
        counts.evaluation_count,
        counts.packet_count[0].saturating_add(counts.packet_count[1]),
        counts.size_bytes[0].saturating_add(counts.size_bytes[1]),
        counts.state_count
    );
    let _ = writeln!(
        out,
        "  [ Inserted: uid {} pid {} State Creations: {:<6}]",
        loader.uid, loader.pid, counts.created_count
    );
    if counts.is_spent {
        out.push_str("  [ Expired: it has had its match ]\n");
    }
}

/// Appends the line of a rule with labels.
pub(crate) fn put_labels<'a>(
    out: &mut String,
    labels: impl IntoIterator<Item = &'a str>,
    counts: &RuleCounts,
) {
    let mut has_label = false;
    for label in labels {
        has_label = true;
        let _ = write!(out, "{label} ");
    }
    if !has_label {
        return;
    }
    let [packets_in, packets_out] = counts.packet_count;
    let [bytes_in, bytes_out] = counts.size_bytes;
    let _ = writeln!(
        out,
        "{} {} {} {packets_in} {bytes_in} {packets_out} {bytes_out} {}",
        counts.evaluation_count,
        packets_in.saturating_add(packets_out),
        bytes_in.saturating_add(bytes_out),
        counts.created_count
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: RuleCounts = RuleCounts {
        evaluation_count: 100,
        packet_count: [5, 4],
        size_bytes: [420, 380],
        state_count: 1,
        created_count: 2,
        is_spent: false,
    };

    #[test]
    fn counters_are_pfctls() {
        let mut out = String::new();
        put_counts(&mut out, &COUNTS, Loader { uid: 0, pid: 77 });
        let expected = "  \
  [ Evaluations: 100       Packets: 9         Bytes: 800         States: 1     ]
  [ Inserted: uid 0 pid 77 State Creations: 2     ]
";
        assert_eq!(out, expected);
        put_counts(&mut out, &RuleCounts { is_spent: true, ..COUNTS }, Loader { uid: 0, pid: 77 });
        assert!(
            out.ends_with("Creations: 2     ]\n  [ Expired: it has had its match ]\n"),
            "{out}"
        );
    }

    #[test]
    fn labels_have_eight_numbers() {
        let mut out = String::new();
        put_labels(&mut out, ["web", "dmz"], &COUNTS);
        put_labels(&mut out, [], &COUNTS);
        assert_eq!(out, "web dmz 100 9 800 5 420 4 380 2\n");
    }
}

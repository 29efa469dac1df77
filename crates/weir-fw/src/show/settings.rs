//! `pfctl -s memory` and `pfctl -s timeouts` (FreeBSD, `pfctl_show_limits`,
//! `pfctl_show_timeouts`).

use std::fmt::Write as _;

use weir_rules::names::{LIMITS, TIMEOUTS};

/// Limits that FreeBSD's pfctl prints, in its order.
const SHOWN_LIMITS: &[&str] = &["states", "src-nodes", "frags", "table-entries"];

/// The limits; `values` in the order of [`LIMITS`].
#[must_use]
pub fn limits(values: &[u32]) -> String {
    let mut out = String::new();
    for name in SHOWN_LIMITS {
        let at = LIMITS.iter().position(|(limit, _)| limit == name);
        let Some(value) = at.and_then(|at| values.get(at)) else { continue };
        let _ = match *value {
            u32::MAX => writeln!(out, "{name:<13} unlimited"),
            value => writeln!(out, "{name:<13} hard limit {value:>8}"),
        };
    }
    out
}

/// The timeouts; `seconds` in the order of [`TIMEOUTS`].
#[must_use]
pub fn timeouts(seconds: &[u32]) -> String {
    let mut out = String::new();
    for ((name, _), value) in TIMEOUTS.iter().zip(seconds) {
        let unit = if name.starts_with("adaptive.") { " states" } else { "s" };
        let _ = writeln!(out, "{name:<20} {value:>10}{unit}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_pfctls() {
        let mut values: Vec<u32> = LIMITS.iter().map(|(_, count)| *count).collect();
        values[1] = u32::MAX;
        let expected = "\
states        hard limit   100000
src-nodes     unlimited
frags         hard limit     5000
table-entries hard limit   200000
";
        assert_eq!(limits(&values), expected);
    }

    #[test]
    fn timeouts_are_pfctls() {
        let values: Vec<u32> = TIMEOUTS.iter().map(|(_, seconds)| *seconds).collect();
        let text = timeouts(&values);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tcp.first                   120s");
        assert!(lines.contains(&"adaptive.end             120000 states"), "{text}");
        assert_eq!(lines.len(), TIMEOUTS.len());
    }
}

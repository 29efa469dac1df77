//! Why the firewall drops packets: the list of `bpf/include/weir/fw/reasons.h`, in its order, which
//! is the order of the counters.

use super::layout::reason;

/// One reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// pf's name, or one of weir's own in the same style.
    pub name: &'static str,
    /// What it means.
    pub text: &'static str,
}

/// All reasons; the index is the one that counters and programs use.
pub const REASONS: &[Reason] = &include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

/// Room that counters keep for reasons.
pub const REASON_COUNT_MAX: usize = reason::COUNT_MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pf_reasons_come_first_in_pf_order() {
        let names: Vec<&str> = REASONS.iter().map(|reason| reason.name).collect();
        assert_eq!(names[0], "match");
        assert_eq!(names[10], "state-mismatch");
        assert_eq!(names[15], "map-failed");
        assert!(names.len() > 16 && names.len() <= REASON_COUNT_MAX);
    }

    #[test]
    fn names_differ_and_have_a_meaning() {
        for (index, reason) in REASONS.iter().enumerate() {
            assert!(!reason.text.is_empty(), "{}", reason.name);
            assert!(!REASONS[..index].iter().any(|other| other.name == reason.name));
        }
    }
}

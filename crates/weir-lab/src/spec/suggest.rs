//! "Did you mean": the nearest of a few known words.

/// The candidate that `word` is probably a misspelling of: at most a third of it differs.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let distance_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            // One letter for another is a misspelling only where other letters are left over.
            *distance <= distance_max && candidate.chars().count() > *distance
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits between two words, ignoring case; a swap of neighbours is one.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&a.to_lowercase(), &b.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("warmup", "warmpu", 1),
            ("warmup", "warmup_time", 5),
            ("drian", "drain", 1),
            ("Name", "name", 0),
            ("sise", "size", 1),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn suggests_only_what_is_near() {
        let fields = ["warmup", "duration", "drain", "sample"];
        assert_eq!(nearest("warm_up", fields), Some("warmup"));
        assert_eq!(nearest("durration", fields), Some("duration"));
        assert_eq!(nearest("samples", fields), Some("sample"));
        assert_eq!(nearest("colour", fields), None);
        assert_eq!(nearest("a", ["b"]), None);
    }
}

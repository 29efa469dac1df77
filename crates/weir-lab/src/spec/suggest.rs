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

/// Edits (insert, delete, replace, swap two neighbours) between two words, ignoring case.
///
/// "Optimal string alignment": no part is edited twice.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
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

//! Lists of buckets, as options have them.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};

/// `all`, or numbers and stretches of them.
pub(crate) fn parse(text: &str, bucket_count: usize) -> anyhow::Result<Vec<usize>> {
    if text == "all" {
        return Ok((0..bucket_count).collect());
    }
    let number = |word: &str| {
        word.parse::<usize>().with_context(|| {
            format!("--buckets: `{word}` is not a bucket: write all, or a list such as 0-7,12")
        })
    };
    let mut buckets = BTreeSet::new();
    for word in text.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (number(first)?, number(last)?);
        if last >= bucket_count || first > last {
            bail!(
                "--buckets: {word} is not part of the table, whose buckets are 0 to {}",
                bucket_count - 1
            );
        }
        buckets.extend(first..=last);
    }
    Ok(buckets.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_lists_and_stretches_inside_the_table() {
        assert_eq!(parse("all", 3).unwrap(), [0, 1, 2]);
        assert_eq!(parse("5,0-2,1", 8).unwrap(), [0, 1, 2, 5]);
        for (text, why) in [
            ("8", "buckets are 0 to 7"),
            ("3-2", "not part of the table"),
            ("x", "`x` is not a bucket"),
            ("", "`` is not a bucket"),
        ] {
            let error = parse(text, 8).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

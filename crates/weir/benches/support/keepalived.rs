//! `dist/keepalived.conf`, with what is different where it is used.

use std::fs;

/// Its text, in which each word stands for another one here.
///
/// # Errors
/// That it cannot be read, or that a word is not in it any more.
pub(crate) fn config(words: &[(&str, &str)]) -> Result<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/keepalived.conf");
    let mut text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    for (word, here) in words {
        if !text.contains(word) {
            return Err(format!("{path} has no `{word}`"));
        }
        text = text.replace(word, here);
    }
    Ok(text)
}

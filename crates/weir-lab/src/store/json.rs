//! Records as JSON, checked by reading them back before anything is written.
//!
//! JSON has no infinite number and no NaN: they become `null`, which is either refused when the
//! record is read, or taken for a value that is absent.

use std::fmt::Debug;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;

/// The text of a record that is to be written to `path`.
pub(super) fn render<T>(path: &Path, value: &T) -> Result<String, StoreError>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let unreadable = |cause| StoreError::Unreadable { path: path.to_owned(), cause };
    let mut text = serde_json::to_string_pretty(value).map_err(|e| unreadable(e.to_string()))?;
    text.push('\n');
    let back: T = serde_json::from_str(&text).map_err(|e| {
        let line = text.lines().nth(e.line().saturating_sub(1)).unwrap_or_default();
        unreadable(format!("`{}`: {e}", line.trim().trim_end_matches(',')))
    })?;
    if back == *value { Ok(text) } else { Err(unreadable(difference(value, &back))) }
}

/// The first difference between what was to be written and what would be read.
fn difference<T: Debug>(written: &T, read: &T) -> String {
    let (written, read) = (format!("{written:#?}"), format!("{read:#?}"));
    let mut written = written.lines().map(str::trim);
    let mut read = read.lines().map(str::trim);
    while let Some(line) = written.next() {
        let other = read.next().unwrap_or_default();
        if line == other {
            continue;
        }
        // A value in brackets begins on the next line.
        let value = if line.ends_with('(') { written.next().unwrap_or_default() } else { "" };
        return format!("`{line}{}` would be read as `{}`", comma_off(value), comma_off(other));
    }
    "a number in it is not one".into()
}

fn comma_off(text: &str) -> &str {
    text.trim_end_matches(',')
}

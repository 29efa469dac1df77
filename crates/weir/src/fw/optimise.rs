//! `-o` of `weir fw print` and `weir pfctl`: the optimiser, and the counters that it goes by.

use std::path::Path;

use weir_rules::Compiled;
use weir_rules::optimise::{self, Level, Profile};

use super::files;
use super::load::Language;

/// Reads the counters of rules, as `pfctl -vsr` prints them; `-` is standard input.
///
/// # Errors
///
/// What is wrong, with the file and, of its text, the line.
pub(crate) fn profile(path: &Path) -> Result<Profile, String> {
    let (name, bytes) =
        files::first(path).map_err(|cause| format!("cannot read {}: {cause}", path.display()))?;
    let parsed = Profile::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| {
        format!("{name}:{}: {}; write it with `pfctl -vsr`", error.line, error.cause)
    })?;
    if parsed.is_empty() {
        return Err(format!("{name} has no packet counts of rules; write it with `pfctl -vsr`"));
    }
    Ok(parsed)
}

/// Optimises the filter rules of a ruleset.
pub(crate) fn apply(compiled: &mut Compiled, level: Level<'_>, language: &Language) {
    optimise::optimise(&mut compiled.ruleset, level, &language.facts);
}

//! What unit tests of several modules need.

use weir_rules::Dialect;
use weir_rules::facts::Facts;
use weir_rules::ir::Ruleset;
use weir_rules::limits::Limits;
use weir_rules::parse::ParseInput;
use weir_rules::source::MemorySources;

/// A ruleset without errors.
#[track_caller]
pub(crate) fn ruleset(text: &str, dialect: Dialect, facts: &Facts) -> Ruleset {
    let input = ParseInput {
        name: "pf.conf",
        bytes: text.as_bytes(),
        dialect: Some(dialect),
        macros: &[],
        provider: &MemorySources::default(),
        limits: Limits::default(),
    };
    let compiled = weir_rules::compile(input, facts);
    assert_eq!(compiled.error_count, 0, "{text}: {:?}", compiled.diagnostics);
    compiled.ruleset
}

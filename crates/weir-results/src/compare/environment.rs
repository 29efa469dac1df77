//! What differs between the environments of several collections.
//!
//! [`crate::environment::differences`] says what is there to stay; here it is asked for every
//! collection against the first, and what is known to change figures comes first.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::collection::Collection;
use crate::environment;

/// An entry that is not the same in all environments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where it stands, as a path in the stored environment.
    pub path: String,
    /// Its value in each collection, in their order; absent where there is none.
    pub values: Vec<Option<String>>,
    /// Whether it is known to change figures: kernel, CPU, settings, versions.
    pub matters: bool,
}

/// Beginnings of paths that are known to change figures; the whole list of a machine's state has
/// much that does not.
const MATTERS: [&str; 9] = [
    "/host/kernel_release",
    "/host/kernel_command_line",
    "/host/product",
    "/cpu",
    "/mitigations",
    "/sysctls",
    "/testbed",
    "/tools/nft",
    "/dut",
];

/// The entries that differ, those that are known to matter first.
pub(super) fn differences(collections: &[Collection]) -> Vec<Difference> {
    let Some((first, others)) = collections.split_first() else { return Vec::new() };
    let count = collections.len();
    let mut found: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for (index, other) in others.iter().enumerate() {
        for (path, (a, b)) in environment::differences(&first.environment, &other.environment) {
            // What came from where is told by the collections themselves.
            if path.starts_with("/archive") {
                continue;
            }
            let values = found.entry(path).or_insert_with(|| vec![scalar(&a); count]);
            values[index + 1] = scalar(&b);
        }
    }
    for section in sections(collections) {
        let kept = |c: &Collection| c.environment.get(&section).is_some_and(|v| !v.is_null());
        if collections.iter().all(kept) {
            continue;
        }
        let value = |c: &Collection| Some(if kept(c) { "kept" } else { "not kept" }.to_owned());
        found.insert(format!("/{section}"), collections.iter().map(value).collect());
    }
    let difference = |(path, values): (String, _)| {
        let matters = MATTERS.iter().any(|m| {
            path.strip_prefix(m).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        Difference { path, values, matters }
    };
    let mut differences: Vec<Difference> = found.into_iter().map(difference).collect();
    differences.sort_by_key(|d| !d.matters);
    differences
}

/// The sections that any environment has: what one store does not keep cannot be compared, and
/// that is said.
fn sections(collections: &[Collection]) -> Vec<String> {
    let mut names: Vec<String> = collections
        .iter()
        .filter_map(|c| c.environment.as_object())
        .flat_map(|map| map.keys())
        .filter(|name| !["archive", "schema", "taken_utc", "resumed"].contains(&name.as_str()))
        .cloned()
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A value as text; `None` for what is not there.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

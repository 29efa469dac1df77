//! Finds the paths of a source that reach outside: `std::fs`, and `use std::{fs, …}` alike.

use crate::paths;

/// Paths that a pure crate must not name, with everything below them.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
];

/// A wildcard import of these would bring an impure name in unseen.
const NO_WILDCARD: &[&str] = &["std", "std::time", "std::net"];

/// Lines (from 1) and impure paths in a source whose comments and literals are blanked.
pub(super) fn impure(code: &str) -> Vec<(usize, String)> {
    let tokens = paths::tokens(code);
    (0..tokens.len())
        .filter(|&index| tokens[index].text == "std" && paths::begins(&tokens, index))
        .flat_map(|index| paths::at(&tokens, index))
        .map(|path| (path.line, path.text()))
        .filter(|(_, path)| is_impure(path))
        .collect()
}

fn is_impure(path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let wildcard = path.strip_suffix("::*").is_some_and(|root| NO_WILDCARD.contains(&root));
    wildcard || IMPURE.iter().any(|root| below(root))
}

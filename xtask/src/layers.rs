//! The direction of dependencies between weir's crates.
//!
//! A packet and a number flow one way through the crates (ARCHITECTURE.md), so dependencies do
//! too. The table is closed: a new crate or a new arrow is entered here, on purpose. What may never
//! be linked, not even by way of others, is a table of its own. `modules` does the same inside.

use anyhow::Result;

use crate::modules;
use crate::problem::Problem;
use crate::workspace::Packages;

/// Each crate with the crates of ours that it may link.
pub(crate) const MAY_USE: &[(&str, &[&str])] = &[
    ("weir-wire", &[]),
    ("weir-stats", &["weir-wire"]),
    ("weir-rules", &["weir-wire"]),
    ("weir-bpf", &["weir-wire"]),
    ("weir-net", &[]),
    ("weir-rss", &["weir-wire", "weir-bpf"]),
    ("weir-gen", &["weir-wire", "weir-bpf", "weir-net", "weir-rss"]),
    ("weir-fw", &["weir-wire", "weir-rules", "weir-bpf", "weir-net"]),
    ("weir-http", &["weir-wire", "weir-stats"]),
    ("weir-load", &["weir-wire", "weir-http", "weir-net"]),
    ("weir-results", &["weir-wire", "weir-stats"]),
    ("weir-machine", &["weir-wire", "weir-results", "weir-bpf", "weir-net", "weir-rss"]),
    (
        "weir-lab",
        &[
            "weir-wire",
            "weir-stats",
            "weir-results",
            "weir-bpf",
            "weir-net",
            "weir-machine",
            "weir-gen",
            "weir-http",
            "weir-load",
        ],
    ),
    ("weir-oracle", &["weir-wire", "weir-stats", "weir-rules", "weir-bpf", "weir-net"]),
    (
        "weir",
        &[
            "weir-wire",
            "weir-stats",
            "weir-rules",
            "weir-results",
            "weir-bpf",
            "weir-net",
            "weir-rss",
            "weir-machine",
            "weir-gen",
            "weir-http",
            "weir-load",
            "weir-fw",
            "weir-lab",
        ],
    ),
    ("xtask", &[]),
];

/// Crates that another must not link, directly or not. `*` is every crate.
const NEVER: &[(&str, &str)] = &[
    // It treats weir's own firewall as a foreign box.
    ("weir-lab", "weir-fw"),
    // What tests hold the product against is no part of it.
    ("*", "weir-oracle"),
];

/// Checks the workspace as cargo resolves it, and the modules of its crates.
pub(crate) fn check() -> Result<Vec<Problem>> {
    let packages = Packages::read()?;
    let mut problems = check_packages(&packages, MAY_USE);
    problems.extend(check_never(&packages, NEVER));
    problems.extend(modules::check()?);
    Ok(problems)
}

fn check_never(packages: &Packages, table: &[(&str, &str)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (who, what) in table {
        let members = packages.members.iter();
        for member in members.filter(|member| *who == "*" || *who == member.as_str()) {
            if packages.closure(member).contains(*what) {
                let message =
                    format!("{member} must never link {what}, and does, by way of others");
                problems.push(Problem::file("xtask/src/layers.rs", message));
            }
        }
    }
    problems
}

fn check_packages(packages: &Packages, table: &[(&str, &[&str])]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for member in &packages.members {
        let Some((_, allowed)) = table.iter().find(|(name, _)| name == member) else {
            let message = format!("{member} is not in the table of layers: enter it there");
            problems.push(Problem::file("xtask/src/layers.rs", message));
            continue;
        };
        let direct = packages.direct(member);
        let members = direct.intersection(&packages.members);
        for used in members.filter(|used| !allowed.contains(&used.as_str())) {
            let message = format!("{member} must not depend on {used} (see ARCHITECTURE.md)");
            problems.push(Problem::file("xtask/src/layers.rs", message));
        }
    }
    for (name, _) in table {
        if !packages.members.contains(*name) {
            let message = format!("{name} is in the table of layers, but not in the workspace");
            problems.push(Problem::file("xtask/src/layers.rs", message));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::METADATA;

    #[test]
    fn the_table_is_closed_both_ways() {
        let packages = Packages::parse(METADATA.as_bytes()).unwrap();
        assert_eq!(check_packages(&packages, &[("pure", &[]), ("top", &["pure"])]), []);
        let backwards = check_packages(&packages, &[("pure", &["top"]), ("top", &[])]);
        assert!(backwards[0].message.contains("top must not depend on pure"), "{backwards:?}");
        let unknown = check_packages(&packages, &[("pure", &[])]);
        assert!(unknown[0].message.contains("top is not in the table"), "{unknown:?}");
        let gone = check_packages(&packages, &[("pure", &[]), ("top", &["pure"]), ("old", &[])]);
        assert!(gone[0].message.contains("old is in the table"), "{gone:?}");
    }

    #[test]
    fn what_is_never_linked_is_not_linked_by_way_of_others() {
        let packages = Packages::parse(METADATA.as_bytes()).unwrap();
        assert_eq!(check_never(&packages, &[("pure", "top"), ("*", "libc")]), []);
        let by_way = check_never(&packages, &[("top", "derive")]);
        assert!(by_way[0].message.contains("top must never link derive"), "{by_way:?}");
        assert_eq!(check_never(&packages, &[("*", "derive")]).len(), 2);
    }
}

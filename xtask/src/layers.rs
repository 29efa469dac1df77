//! The direction of dependencies between weir's crates.
//!
//! A packet and a number flow one way through the crates (ARCHITECTURE.md), so dependencies do
//! too. The table is closed: a new crate or a new arrow is entered here, on purpose.

use anyhow::Result;

use crate::problem::Problem;
use crate::workspace::Packages;

/// Each crate with the crates of ours that it may link.
const MAY_USE: &[(&str, &[&str])] = &[
    ("weir-wire", &[]),
    ("weir-stats", &["weir-wire"]),
    ("weir-rules", &["weir-wire"]),
    ("weir-bpf", &["weir-wire"]),
    ("weir-net", &[]),
    ("weir-gen", &["weir-wire", "weir-bpf", "weir-net"]),
    ("weir-fw", &["weir-wire", "weir-rules", "weir-bpf", "weir-net"]),
    ("weir-lab", &["weir-wire", "weir-stats", "weir-bpf", "weir-net", "weir-gen"]),
    (
        "weir",
        &[
            "weir-wire",
            "weir-stats",
            "weir-rules",
            "weir-bpf",
            "weir-net",
            "weir-gen",
            "weir-fw",
            "weir-lab",
        ],
    ),
    ("xtask", &[]),
];

/// Checks the workspace as cargo resolves it.
pub(crate) fn check() -> Result<Vec<Problem>> {
    Ok(check_packages(&Packages::read()?, MAY_USE))
}

fn check_packages(packages: &Packages, table: &[(&str, &[&str])]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for member in &packages.members {
        let Some((_, allowed)) = table.iter().find(|(name, _)| name == member) else {
            let message = format!("{member} is not in the table of layers: enter it there");
            problems.push(Problem::file("xtask/src/layers.rs", message));
            continue;
        };
        let own = packages.direct(member);
        let own = own.intersection(&packages.members);
        for used in own.filter(|used| !allowed.contains(&used.as_str())) {
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
}

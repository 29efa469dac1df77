//! Circles among the modules that have the same parent.
//!
//! What is anywhere below a module counts as its own, so that a circle shows at the level where it
//! can be cut. A module's own file and the modules below it are one room: a parent puts its parts
//! together and holds what they share, so between those two both directions are allowed.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Name, Reference};

/// An arrow of a circle: two modules of one parent, the first of which names the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrow {
    /// Their parent.
    pub(super) parent: Name,
    pub(super) from: String,
    pub(super) to: String,
    /// One place where it is.
    pub(super) reference: Reference,
}

type Graph = BTreeMap<String, BTreeMap<String, Reference>>;

/// The arrows that are part of a circle.
pub(super) fn arrows(references: &[Reference]) -> Vec<Arrow> {
    let mut levels: BTreeMap<Name, Graph> = BTreeMap::new();
    for reference in references {
        let (from, to) = (&reference.from, &reference.to);
        let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) else { continue };
        let graph = levels.entry(from[..shared].to_vec()).or_default();
        let arrows = graph.entry(a.clone()).or_default();
        arrows.entry(b.clone()).or_insert_with(|| reference.clone());
    }
    let mut found = Vec::new();
    for (parent, graph) in levels {
        for (from, arrows) in &graph {
            for (to, reference) in arrows {
                if reaches(&graph, to, from) {
                    let (from, to) = (from.clone(), to.clone());
                    let (parent, reference) = (parent.clone(), reference.clone());
                    found.push(Arrow { parent, from, to, reference });
                }
            }
        }
    }
    found
}

/// Whether one can go from `start` to `end` along arrows.
fn reaches(graph: &Graph, start: &str, end: &str) -> bool {
    let mut open = vec![start];
    let mut seen = BTreeSet::from([start]);
    while let Some(at) = open.pop() {
        if at == end {
            return true;
        }
        let next = graph.get(at).into_iter().flat_map(BTreeMap::keys);
        open.extend(next.map(String::as_str).filter(|name| seen.insert(name)));
    }
    false
}

//! Queues of interfaces: their trees of classes are made as the ruleset has them, and taken away
//! with it. Trees of somebody else are never touched.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_bpf::firewall::layout::QUEUE_MAJOR;
use weir_net::Netlink;
use weir_net::shaping::{ClassCounters, Tree};
use weir_rules::ir::Prelude;
use weir_rules::print::{PrintOptions, Printer};
use weir_rules::resolve::Resolver as _;

use super::{Engine, Refused};
use crate::pipes::Named;

/// The number of all trees that are made here.
const MAJOR: u16 = {
    let [low, high, ..] = QUEUE_MAJOR.to_le_bytes();
    u16::from_le_bytes([low, high])
};

/// The trees that were made, by interface, with its index: one that went and came back has none.
#[derive(Debug, Clone, Default)]
pub(super) struct Made(BTreeMap<String, (u32, Tree)>);

impl Made {
    /// What a daemon that is dead has left: its trees are made anew, or taken away.
    pub(super) fn adopt() -> Self {
        let Ok(netlink) = Netlink::open() else { return Self::default() };
        let mut made = BTreeMap::new();
        for link in netlink.links().unwrap_or_default() {
            // One that has just gone has no tree.
            let root = netlink.root_queue(&link.name).ok().flatten();
            if root.is_some_and(|root| root.major == MAJOR) {
                let unknown =
                    Tree { interface: link.name.clone(), default: 0, classes: Vec::new() };
                made.insert(link.name, (link.ifindex, unknown));
            }
        }
        Self(made)
    }

    /// What was made, without what it stands on.
    pub(super) fn trees(&self) -> Vec<Tree> {
        self.0.values().map(|(_, tree)| tree.clone()).collect()
    }

    /// Makes the trees of the interfaces that are there, and takes away those that are not in the
    /// list any more. What stays as it is keeps what waits in it.
    ///
    /// # Errors
    ///
    /// What stands in the way; then all is as before, as far as the kernel allows.
    pub(super) fn apply(&mut self, trees: &[Tree]) -> Result<(), Refused> {
        if trees.is_empty() && self.0.is_empty() {
            return Ok(());
        }
        let netlink = Netlink::open().map_err(Refused::because)?;
        let before = self.trees();
        let applied = self.try_apply(&netlink, trees);
        if applied.is_err() {
            // The first reason is the one to tell.
            drop(self.try_apply(&netlink, &before));
        }
        applied
    }

    fn try_apply(&mut self, netlink: &Netlink, trees: &[Tree]) -> Result<(), Refused> {
        let is_over = |name: &&String| !trees.iter().any(|tree| tree.interface == **name);
        let over: Vec<String> = self.0.keys().filter(is_over).cloned().collect();
        for name in over {
            // One that has gone has taken its tree with it.
            drop(netlink.remove_tree(&name, MAJOR));
            self.0.remove(&name);
        }
        for tree in trees {
            let name = &tree.interface;
            // It may come later.
            let Ok(ifindex) = netlink.ifindex(name) else {
                self.0.remove(name);
                continue;
            };
            let root = netlink.root_queue(name).map_err(Refused::because)?;
            if let Some(other) = root.as_ref().filter(|root| root.major != MAJOR) {
                return Err(Refused(format!(
                    "interface {name} has queues of somebody else's ({}): `tc qdisc del dev {name} \
                     root` takes them away",
                    other.kind
                )));
            }
            let made = (ifindex, tree.clone());
            if root.is_some() && self.0.get(name) == Some(&made) {
                continue;
            }
            netlink.set_tree(tree, MAJOR).map_err(Refused::because)?;
            self.0.insert(name.clone(), made);
        }
        Ok(())
    }

    /// Whether what leaves by an interface waits in queues.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// What a queue has sent, a few lines for each interface.
fn counters_of(name: &str, counters: &[(String, &str, ClassCounters)]) -> String {
    let mut text = String::new();
    for (_, interface, counted) in counters.iter().filter(|(known, ..)| known == name) {
        let ClassCounters { packet_count, size_bytes, dropped_count, waiting_count, .. } = counted;
        let _ = writeln!(
            text,
            "  [ on {interface}: pkts: {packet_count:>10}  bytes: {size_bytes:>10}  \
             dropped pkts: {dropped_count:>6} ]\n  [ qlength: {waiting_count:>3} ]"
        );
    }
    text
}

/// Takes all trees away that were made here, also by a daemon that is dead.
pub(super) fn remove_all() {
    let Ok(netlink) = Netlink::open() else { return };
    for link in netlink.links().unwrap_or_default() {
        // One that has just gone has taken its tree with it.
        drop(netlink.remove_tree(&link.name, MAJOR));
    }
}

impl Engine {
    /// `pfctl -s queue`: the statements, or dnctl(8)'s lines of the pipes and queues that rules
    /// name, and with `-v` what each queue has sent so far.
    pub(crate) fn show_queues(&self, verbosity: u8) -> String {
        let ruleset = &self.main.ruleset;
        let (dialect, resolver) = (ruleset.dialect, &self.facts);
        let printer = Printer { dialect, resolver, options: PrintOptions::default() };
        let counters = if verbosity > 0 { self.queue_counters() } else { Vec::new() };
        let mut text = String::new();
        for prelude in &ruleset.prelude {
            let name = match prelude {
                Prelude::Queue(queue) => Some(&*queue.name.value),
                Prelude::Altq(_) => None,
                _ => continue,
            };
            printer.prelude(&mut text, ruleset, prelude);
            text += &counters_of(name.unwrap_or(""), &counters);
        }
        for (named, line) in self.pipe_lines() {
            text += &format!("{line}\n{}", counters_of(&named.to_string(), &counters));
        }
        text
    }

    /// The pipes and queues of dummynet that rules name, and the pipes of such queues.
    fn pipe_lines(&self) -> BTreeMap<Named, String> {
        let known = &self.known.queues;
        let held = known.given.iter().filter_map(|number| {
            let at = usize::from(*number).checked_sub(1)?;
            known.held.get(at)?.as_deref().and_then(Named::parse)
        });
        let mut lines = BTreeMap::new();
        for named in held {
            if let Some(pipe) = named.pipe(&self.facts) {
                lines.insert(Named::Pipe(pipe.number), pipe.to_string());
            }
            if let Named::Queue(number) = named
                && let Some(queue) = self.facts.pipe_queue(number)
            {
                lines.insert(named, queue.to_string());
            }
        }
        lines
    }

    /// What the queues have sent: name, interface, counters.
    fn queue_counters(&self) -> Vec<(String, &str, ClassCounters)> {
        let Ok(netlink) = Netlink::open() else { return Vec::new() };
        let mut all = Vec::new();
        for interface in self.queues.0.keys() {
            // One that has just gone has counted nothing.
            let counted = netlink.class_counters(interface, MAJOR).unwrap_or_default();
            for class in counted {
                let at = usize::from(class.number).checked_sub(1);
                let name = at.and_then(|at| self.known.queues.held.get(at)?.clone());
                all.extend(name.map(|name| (name, interface.as_str(), class)));
            }
        }
        all
    }
}

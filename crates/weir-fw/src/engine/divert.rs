//! `divert-to` and `divert-reply`: what the kernel needs to hand packets for other hosts to sockets
//! of this one. That is the program that finds the socket, on each interface behind the one that
//! judges, and a policy rule by which marked packets are taken. Both are there as long as a state
//! may have such a socket.
//!
//! The same program sends what `af-to` has made packets of IPv4 and XDP cannot send, because the
//! kernel takes none from an address of its box (`family_skb.h`): it is there as long as a state
//! may be of two families. So it is as long as rules leave it something to do (`errand.h`): copies,
//! and packets that go to gateways without a state.

use weir_bpf::firewall::layout::{CONTROL_FAMILIES, SOCKET_MARK, control, image, image_flags};
use weir_net::Netlink;

use super::{Engine, Refused};
use crate::compile::Compiled;
use crate::compile::known::Known;

/// Before the kernel's rules for the main table, behind that for local addresses.
const RULE_PRIORITY: u32 = 100;

/// Whether a rule, or a state of an earlier one, hands packets to sockets.
fn diverts(known: &Known) -> bool {
    known.gateways.held.iter().flatten().any(|gateway| gateway.socket.is_some())
}

/// Whether a rule changes the family of packets.
fn changes_families(compiled: &Compiled) -> bool {
    compiled.flags() & image_flags::FAMILIES != 0
}

/// Whether XDP leaves something to do for packets of a rule.
fn has_errands(compiled: &Compiled) -> bool {
    compiled.flags() & image_flags::ERRANDS != 0
}

impl Engine {
    /// Makes everything ready before a ruleset is in effect; nothing if it does not divert, nor
    /// changes families, nor leaves anything to do.
    ///
    /// # Errors
    ///
    /// What the kernel refuses.
    pub(super) fn begin_to_divert(&mut self, compiled: &Compiled) -> Result<(), Refused> {
        let has_sockets = diverts(&compiled.known);
        if has_sockets {
            let netlink = Netlink::open().map_err(Refused::because)?;
            netlink.take_marked(SOCKET_MARK, RULE_PRIORITY).map_err(Refused::because)?;
        }
        let is_by_rules = has_sockets || changes_families(compiled) || has_errands(compiled);
        if is_by_rules || self.may_change_families() || self.may_have_errands() {
            self.interfaces.attach_divert(&self.firewall).map_err(Refused)?;
        }
        Ok(())
    }

    /// Takes it away that another ruleset than the one that runs has needed, once nothing does.
    pub(super) fn cease_to_divert(&mut self, other: &Known) {
        if diverts(other) && !diverts(&self.known) {
            leave_marked();
            self.detach_idle_divert();
        }
    }

    /// The same of a ruleset that is not to run after all.
    pub(super) fn abandon_divert(&mut self, compiled: &Compiled) {
        self.cease_to_divert(&compiled.known);
        if changes_families(compiled) || has_errands(compiled) {
            self.detach_idle_divert();
        }
    }

    /// Takes the program off if nothing needs it.
    pub(super) fn detach_idle_divert(&self) {
        if !diverts(&self.known) && !self.may_change_families() && !self.may_have_errands() {
            self.interfaces.detach_divert(&self.firewall);
        }
    }

    /// Whether XDP leaves something to do for packets of the ruleset that runs.
    pub(super) fn may_have_errands(&self) -> bool {
        let arena = self.firewall.arena();
        let flags = arena.read32(arena.read32(control::ACTIVE) + image::FLAGS);
        flags & image_flags::ERRANDS != 0
    }

    /// Whether a state may be of two families.
    fn may_change_families(&self) -> bool {
        self.firewall.arena().read32(control::FLAGS) & CONTROL_FAMILIES != 0
    }
}

/// Takes the policy rule away, also that of a daemon that is dead.
pub(super) fn leave_marked() {
    if let Ok(netlink) = Netlink::open() {
        // What is not there need not be taken away.
        drop(netlink.leave_marked(SOCKET_MARK, RULE_PRIORITY));
    }
}

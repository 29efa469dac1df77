//! `divert-to` and `divert-reply`: what the kernel needs to hand packets for other hosts to sockets
//! of this one. That is the program that finds the socket, on each interface behind the one that
//! judges, and a policy rule by which marked packets are taken. Both are there as long as a state
//! may have such a socket.

use weir_bpf::firewall::layout::SOCKET_MARK;
use weir_net::Netlink;

use super::{Engine, Refused};
use crate::compile::known::Known;

/// Before the kernel's rules for the main table, behind that for local addresses.
const RULE_PRIORITY: u32 = 100;

/// Whether a rule, or a state of an earlier one, hands packets to sockets.
fn diverts(known: &Known) -> bool {
    known.gateways.held.iter().flatten().any(|gateway| gateway.socket.is_some())
}

impl Engine {
    /// Makes everything ready before a ruleset is in effect; nothing if it does not divert.
    ///
    /// # Errors
    ///
    /// What the kernel refuses.
    pub(super) fn begin_to_divert(&mut self, known: &Known) -> Result<(), Refused> {
        if !diverts(known) {
            return Ok(());
        }
        let netlink = Netlink::open().map_err(Refused::because)?;
        netlink.take_marked(SOCKET_MARK, RULE_PRIORITY).map_err(Refused::because)?;
        self.interfaces.attach_divert(&self.firewall).map_err(Refused)
    }

    /// Takes it away that another ruleset than the one that runs has needed, once nothing does.
    pub(super) fn cease_to_divert(&mut self, other: &Known) {
        if diverts(other) && !diverts(&self.known) {
            self.interfaces.detach_divert(&self.firewall);
            leave_marked();
        }
    }
}

/// Takes the policy rule away, also that of a daemon that is dead.
pub(super) fn leave_marked() {
    if let Ok(netlink) = Netlink::open() {
        // What is not there need not be taken away.
        drop(netlink.leave_marked(SOCKET_MARK, RULE_PRIORITY));
    }
}

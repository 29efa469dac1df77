//! Keeps the gateways that rules name, those of copies too, and those of states, in the kernel's
//! table of neighbours.
//!
//! The data path sends only to neighbours that the kernel knows. It would ask for a gateway with
//! the first packet that is on its way there, but that packet waits first for the gateway of the
//! kernel's default route, which may be the one that is down.

use weir_net::Netlink;
use weir_rules::evaluate::interface_to;

use super::Engine;
use crate::compile::known::Gateway;

impl Engine {
    /// Has the kernel ask who has the addresses of gateways. It does not wait for answers.
    pub(crate) fn ask_gateways(&self) {
        if !self.known.gateways.is_any() && self.copied_to.is_empty() {
            return;
        }
        let Ok(netlink) = Netlink::open() else { return };
        let held = self.known.gateways.held.iter().flatten();
        for Gateway { interface, address, socket } in held.chain(&self.copied_to) {
            let Some(address) = address.filter(|_| socket.is_none()) else { continue };
            let interface = interface.as_deref().or_else(|| interface_to(address, &self.facts));
            if let Some(interface) = interface {
                // An interface that is down or gone has no neighbours, and a tunnel needs none.
                drop(netlink.ask_neighbour(interface, address));
            }
        }
    }
}

//! `dup-to`: to whom rules have their packets copied, as `struct weir_fw_copy` by the rules'
//! identifiers. Such gateways are in no state, and never have numbers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_bpf::firewall::layout::{copy, gateway, gateway_flags};
use weir_rules::ir::Rule;

use super::known::Gateway;
use super::spread::{self, TooMany, copies};
use super::{Builder, Compiled, Refused, gateways, padded, refused};
use crate::image::{Bytes, image_flags};

const COPY_BYTES: usize = copy::SIZE_BYTES as usize;

/// What the rules of an image have, by their identifiers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Copies {
    lines: BTreeMap<u32, [u8; COPY_BYTES]>,
    /// All to whom they send.
    to: Vec<Gateway>,
}

/// A link-local address is one of some link.
fn is_on_any_link(gateway: &Gateway) -> bool {
    let is_local = |address: IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    gateway.interface.is_none() && gateway.address.is_some_and(is_local)
}

impl Builder<'_> {
    /// Notes to whom a rule of an anchor has its packets copied, if it has.
    pub(super) fn copy(&mut self, id: u32, rule: &Rule, anchor: &str) -> Result<(), Refused> {
        let Some(route) = rule.route.as_deref().filter(|_| copies(rule)) else { return Ok(()) };
        for name in spread::tables_of(rule) {
            self.names.named_table(anchor, name);
        }
        let many = |count: u128| {
            let message = format!(
                "`dup-to` with {count} gateways: the data path sends a packet to one of each \
                 family besides"
            );
            refused(rule.span, message)
        };
        // One of each family, and an interface alone is one of both.
        let found = spread::of_pool(self.names.evaluator, &route.pool, anchor, 2);
        let found = found.map_err(|TooMany(count)| many(count))?;
        let mut line = Bytes::<COPY_BYTES>::new();
        for (at, networks) in (0..).step_by(gateway::SIZE_BYTES as usize).zip(&found) {
            let all: Vec<&Gateway> = networks.iter().flat_map(|it| &it.gateways).collect();
            let [to] = all[..] else {
                if all.len() > 1 {
                    return Err(many(all.len() as u128));
                }
                line.put(at + gateway::FLAGS, &[gateway_flags::ABSENT]);
                continue;
            };
            if is_on_any_link(to) {
                let message = "a link-local address may be on every link: name its interface";
                return Err(refused(rule.span, message.to_owned()));
            }
            line.put(at, &gateways::line(to, self.names.slots));
            self.copies.to.push(to.clone());
        }
        self.copies.lines.insert(id, line.0);
        Ok(())
    }
}

impl Copies {
    /// Whether some rule has any.
    pub(super) fn is_any(&self) -> bool {
        !self.lines.is_empty()
    }
}

impl Compiled {
    /// Those of `WEIR_FW_IMAGE_*` that say that XDP leaves something to do to others.
    pub(super) fn errand_flags(&self) -> u32 {
        let has_copies = self.copies.is_any();
        let has_errands = has_copies || self.actions.iter().any(gateways::is_stateless);
        let copies = if has_copies { image_flags::COPIES } else { 0 };
        copies | if has_errands { image_flags::ERRANDS } else { 0 }
    }

    /// All to whom packets are copied.
    pub(crate) fn copied_to(&self) -> &[Gateway] {
        &self.copies.to
    }

    /// By rule id where its copies go, and this, if some rule has any; gives where it stands.
    pub(super) fn link_copies(&self, out: &mut Vec<u8>) -> u32 {
        if self.copies.lines.is_empty() {
            return 0;
        }
        let mut places = vec![0; self.known.id_count as usize];
        for (id, line) in &self.copies.lines {
            places[*id as usize] = padded(out);
            out.extend(line);
        }
        let at = padded(out);
        out.extend(places.iter().flat_map(|place| place.to_ne_bytes()));
        at
    }
}

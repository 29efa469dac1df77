//! The interfaces of the namespace in the data path: a slot for each, what is known of it, and
//! where the programs are attached. Where a driver has no native XDP, or packets have no Ethernet
//! header, the programs on the kernel's packets (tcx) take the place of XDP's.
//!
//! A slot keeps its interface's name for as long as there are others: counters and states of an
//! interface that goes and comes again are its own.
//!
//! Rulesets know interfaces by their slots, `set skip` too, and an image never changes. So an
//! interface that comes gets an image, and its slot is published behind that one's commit: until
//! then its packets are those of an unknown interface, as they were before, and never those of
//! whoever had the slot. Were the active image's set of skipped slots changed instead, its rules
//! would still not know the slot, and a slot that changes hands would be skipped by the one or
//! judged by the other's rules meanwhile.

pub(super) mod paths;
#[cfg(test)]
mod tests;
mod veth;

use std::collections::BTreeSet;

use weir_bpf::attach::{AttachError, Mode};
use weir_bpf::ethtool;
use weir_bpf::firewall::layout::{
    IFINDEX_COUNT_MAX, INTERFACE_ATTACHED, INTERFACE_COUNT_MAX, INTERFACE_EGRESS,
    INTERFACE_GENERIC, INTERFACE_PRESENT, INTERFACE_QUEUED, INTERFACE_VETH, INTERFACE_VIRTUAL,
    INTERFACE_WHOLE, INTERFACE_XMIT, interface,
};
use weir_bpf::firewall::{Attachment, Firewall, Framing, Path};
use weir_net::{LinkInfo, xdp};

use crate::compile::Slot;

/// Slots that interfaces can have; slot 0 is none.
const SLOT_COUNT: usize = INTERFACE_COUNT_MAX as usize;
const NAME_SIZE_BYTES: usize = 16;
const VIRTUAL_MACS_MAX: usize = weir_bpf::firewall::layout::VIRTUAL_MACS_MAX as usize;
/// Bytes from one virtual MAC address to the next.
const VIRTUAL_MAC_STEP: usize = 8;
/// VLAN interfaces that stand on one another, at most: their indices may be another namespace's.
const VLAN_DEPTH_MAX: usize = 8;

/// An interface in its slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Known {
    pub(super) name: String,
    /// 0: it is not there now.
    pub(super) ifindex: u32,
    pub(super) mac: [u8; 6],
    /// Those of macvlan interfaces on it that are up, as many as the data path knows.
    virtual_macs: Vec<[u8; 6]>,
    pub(super) mtu_bytes: u32,
    /// Interface below and VLAN identifier.
    pub(super) vlan: Option<(u32, u16)>,
    pub(super) is_skipped: bool,
    /// The active image has this interface in this slot.
    is_settled: bool,
    /// Its packets have no Ethernet header.
    pub(super) is_bare: bool,
    /// Which program judges what comes in, if one is attached.
    pub(super) path: Option<Path>,
    /// The egress program is attached.
    pub(super) has_egress: bool,
    /// Frames can be redirected to it.
    pub(super) takes_redirected: bool,
    /// What leaves by it waits in queues.
    pub(super) has_queues: bool,
    /// VLAN tags are taken out of frames before a program sees them.
    pub(super) hides_tags: bool,
    /// It is a veth, and filtered in native mode.
    pub(super) is_veth: bool,
    /// Packets have come by it whose checksum was missing.
    pub(super) saw_partial: bool,
    /// Why the ingress program is not attached though it should be.
    pub(super) problem: Option<String>,
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    slots: Vec<Option<Known>>,
    /// Interfaces without a slot, because there is none left.
    pub(super) without_slot: Vec<String>,
    /// Those whose packets have another link header than Ethernet's: they cannot be filtered there.
    pub(super) unfilterable: Vec<String>,
    /// What was told of interfaces that are not filtered, so that it is told once.
    warned: BTreeSet<String>,
}

/// Which interfaces the programs belong on.
#[derive(Debug, Clone, Default)]
pub(super) struct Coverage {
    /// `set skip`
    pub(super) skipped: BTreeSet<String>,
    /// Those that rules name; `None`: some rule names none, or there is no rule.
    pub(super) named: Option<BTreeSet<String>>,
}

impl Coverage {
    pub(super) fn covers(&self, name: &str) -> bool {
        let is_named = self.named.as_ref().is_none_or(|named| named.contains(name));
        is_named && !self.skipped.contains(name)
    }
}

impl Interfaces {
    /// Those that the memory of a running data path knows.
    pub(super) fn adopt(firewall: &Firewall) -> Self {
        let arena = firewall.arena();
        let mut slots = vec![None; SLOT_COUNT];
        for (number, slot) in slots.iter_mut().enumerate().skip(1) {
            let mut name = [0; NAME_SIZE_BYTES];
            arena.read(place(firewall, number) + interface::NAME, &mut name);
            let size = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_SIZE_BYTES);
            if size > 0 {
                let name = String::from_utf8_lossy(&name[..size]).into_owned();
                *slot = Some(Known { name, is_settled: true, ..Known::default() });
            }
        }
        Self { slots, ..Self::default() }
    }

    /// Takes in what there is now. Tells whether an interface came, went or was renamed.
    pub(super) fn update(&mut self, links: &[LinkInfo]) -> bool {
        self.slots.resize(SLOT_COUNT, None);
        self.without_slot.clear();
        self.unfilterable = unfilterable(links);
        let before = self.present();
        for known in self.slots.iter_mut().flatten() {
            if !links.iter().any(|link| link.name == known.name && link.ifindex == known.ifindex) {
                let name = std::mem::take(&mut known.name);
                *known = Known { name, is_settled: known.is_settled, ..Known::default() };
            }
        }
        let is_readable = |link: &&LinkInfo| link.is_ethernet || link.is_bare;
        for link in links.iter().filter(is_readable).filter(|link| !link.is_loopback) {
            let index_max = IFINDEX_COUNT_MAX;
            let Some(number) = self.slot_for(&link.name).filter(|_| link.ifindex < index_max)
            else {
                self.without_slot.push(link.name.clone());
                continue;
            };
            let old = self.slots[number].take().unwrap_or_default();
            self.slots[number] = Some(Known {
                name: link.name.clone(),
                ifindex: link.ifindex,
                mac: link.mac.unwrap_or_default(),
                virtual_macs: virtual_macs(link, links),
                mtu_bytes: link.mtu,
                vlan: link.vlan.map(|vlan| (vlan.parent_ifindex, vlan.id)),
                is_bare: link.is_bare,
                // Frames have Ethernet headers.
                takes_redirected: link.is_ethernet
                    && xdp::takes_redirected(link.ifindex).ok().flatten() == Some(true),
                is_settled: old.is_settled && old.name == link.name,
                ..old
            });
        }
        before != self.present()
    }

    /// Asks again which interfaces take redirected frames. Tells whether that has changed.
    pub(super) fn refresh_redirects(&mut self) -> bool {
        let mut has_changed = false;
        let is_asked = |known: &&mut Known| known.ifindex != 0 && !known.is_bare;
        for known in self.slots.iter_mut().flatten().filter(is_asked) {
            let Ok(takes) = xdp::takes_redirected(known.ifindex) else { continue };
            let takes = takes == Some(true);
            has_changed |= std::mem::replace(&mut known.takes_redirected, takes) != takes;
        }
        has_changed
    }

    /// What is to be said of interfaces by which packets have come without checksums, once.
    pub(super) fn note_partial(&mut self, firewall: &Firewall) -> Vec<String> {
        let mut list = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(known) = slot.as_mut().filter(|known| known.is_veth) else { continue };
            let at = place(firewall, number) + interface::SAW_PARTIAL;
            if !known.saw_partial && veth::saw_partial(firewall, at) {
                known.saw_partial = true;
                list.push(veth::partial(&known.name));
            }
        }
        list
    }

    /// Where programs are, as far as that is known.
    pub(super) fn attached(&self) -> BTreeSet<u32> {
        let has_one = |known: &&Known| known.path.is_some() || known.has_egress;
        self.slots.iter().flatten().filter(has_one).map(|known| known.ifindex).collect()
    }

    /// By slot, what is there. One that went and came back has another index, and no programs.
    fn present(&self) -> Vec<Option<(String, u32)>> {
        let of_slot =
            |slot: &Option<Known>| slot.as_ref().map(|known| (known.name.clone(), known.ifindex));
        self.slots.iter().map(of_slot).collect()
    }

    /// The slot of a name, a new one, or one whose interface is gone.
    fn slot_for(&self, name: &str) -> Option<usize> {
        let first = |fits: &dyn Fn(&Option<Known>) -> bool| {
            (1..self.slots.len()).find(|number| fits(&self.slots[*number]))
        };
        first(&|slot| slot.as_ref().is_some_and(|known| known.name == name))
            .or_else(|| first(&Option::is_none))
            .or_else(|| first(&|slot| slot.as_ref().is_some_and(|known| known.ifindex == 0)))
    }

    /// The interfaces that are there, with their slots.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Known)> + Clone {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    /// The name in a slot.
    pub(super) fn name(&self, number: usize) -> &str {
        let slot = self.slots.get(number).and_then(Option::as_ref);
        slot.map_or("", |known| known.name.as_str())
    }

    /// What the compiler of rules wants to know.
    pub(super) fn slots(&self) -> Vec<Slot> {
        let present = self.all().filter(|(_, known)| known.ifindex != 0);
        let slot = |(number, known): (usize, &Known)| {
            let number = u8::try_from(number).ok()?;
            Some(Slot { number, interface: known.name.clone() })
        };
        present.filter_map(slot).collect()
    }

    /// Attaches the programs where they belong; nothing is taken off. `is_strict` refuses an
    /// interface on which they cannot be; else the reason is kept and told.
    ///
    /// # Errors
    /// The interface that could not be attached; nothing that was attached now stays.
    pub(super) fn attach(
        &mut self,
        firewall: &Firewall,
        coverage: &Coverage,
        is_generic: bool,
        is_strict: bool,
    ) -> Result<Vec<String>, String> {
        let parents = self.parents(coverage);
        let mut warnings = Vec::new();
        let mut fresh: Vec<u32> = Vec::new();
        let mut refused = None;
        for known in self.slots.iter_mut().flatten().filter(|known| known.ifindex != 0) {
            known.problem = None;
            let place = known.place(coverage, &parents);
            match put(firewall, known, place, is_generic) {
                Ok(true) => fresh.push(known.ifindex),
                Ok(false) => {}
                Err(problem) if is_strict => {
                    refused = Some(problem);
                    break;
                }
                Err(problem) => {
                    warnings.push(problem.clone());
                    known.problem = Some(problem);
                }
            }
        }
        let Some(problem) = refused else { return Ok(warnings) };
        let is_fresh = |known: &&mut Known| fresh.contains(&known.ifindex);
        for known in self.slots.iter_mut().flatten().filter(is_fresh) {
            // An interface that has just gone has taken them with it.
            drop(firewall.detach(known.ifindex));
            (known.path, known.has_egress) = (None, false);
        }
        Err(problem)
    }

    /// Puts the program that hands packets to sockets where packets are judged as they come in.
    ///
    /// # Errors
    /// The interface on which it cannot be.
    pub(super) fn attach_divert(&self, firewall: &Firewall) -> Result<(), String> {
        let is_judged = |known: &&Known| known.ifindex != 0 && known.path.is_some();
        for known in self.slots.iter().flatten().filter(is_judged) {
            let attached = firewall.attach_divert(known.ifindex, known.framing());
            attached.map_err(|cause| format!("interface {}: {cause}", known.name))?;
        }
        Ok(())
    }

    /// Takes it off again, as far as it is there.
    pub(super) fn detach_divert(&self, firewall: &Firewall) {
        for known in self.slots.iter().flatten().filter(|known| known.ifindex != 0) {
            // An interface that has just gone has taken it with it.
            drop(firewall.detach_divert(known.ifindex));
        }
    }

    /// The image that was made for these slots is the active one.
    pub(super) fn settle(&mut self, coverage: &Coverage, has_queues: impl Fn(&str) -> bool) {
        for known in self.slots.iter_mut().flatten() {
            // Of one that is not there the image knows nothing.
            known.is_settled = known.ifindex != 0;
            known.is_skipped = coverage.skipped.contains(&known.name);
            known.has_queues = has_queues(&known.name);
        }
    }

    /// Whether the active image was made for these slots.
    pub(super) fn are_settled(&self) -> bool {
        self.slots.iter().flatten().all(|known| known.is_settled || known.ifindex == 0)
    }

    /// Where programs do not belong any more: from the next [`Self::publish`] on the data path
    /// knows that what comes by these interfaces is no longer judged there, so that it is tracked
    /// where it leaves. A packet that is tracked twice meanwhile does no harm, one that is not
    /// tracked at all may end its connection.
    pub(super) fn surplus(&mut self, coverage: &Coverage) -> Vec<Surplus> {
        let parents = self.parents(coverage);
        let mut surplus = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(known) = slot.as_mut().filter(|known| known.ifindex != 0) else { continue };
            let place = known.place(coverage, &parents);
            let path = known.path.take_if(|_| !place.has_ingress);
            let has_egress = known.has_egress && !place.has_egress;
            known.has_egress &= place.has_egress;
            if path.is_some() || has_egress {
                surplus.push(Surplus { number, path, has_egress });
            }
        }
        surplus
    }

    /// Takes these programs off, each by itself: where one of them stays, nothing passes it
    /// meanwhile. Gives what could not be done.
    pub(super) fn detach_surplus(
        &mut self,
        firewall: &Firewall,
        surplus: Vec<Surplus>,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for Surplus { number, path, has_egress } in surplus {
            let Some(known) = self.slots[number].as_mut() else { continue };
            let mut failed = |error: &dyn std::fmt::Display| {
                warnings.push(format!("interface {}: {error}: it is still filtered", known.name));
            };
            if path.is_some()
                && let Err(error) = firewall.detach_ingress(known.ifindex)
            {
                known.path = path;
                failed(&error);
            }
            if has_egress && let Err(error) = firewall.detach_egress(known.ifindex) {
                known.has_egress = true;
                failed(&error);
            }
        }
        if !warnings.is_empty() {
            self.publish(firewall);
        }
        warnings
    }

    /// Interfaces below VLANs that are filtered: frames are read there.
    fn parents(&self, coverage: &Coverage) -> BTreeSet<u32> {
        self.all()
            .filter(|(_, known)| coverage.covers(&known.name))
            .filter_map(|(_, known)| known.vlan.map(|(parent, _)| parent))
            .collect()
    }

    /// What somebody should know of interfaces that are not filtered, or not as they seem: all of
    /// it, or what was not told before.
    pub(super) fn warnings(&mut self, coverage: &Coverage, is_all: bool) -> Vec<String> {
        let mut list: Vec<String> = self
            .without_slot
            .iter()
            .map(|name| {
                format!(
                    "interface {name}: no slot is left (at most 63): its packets are not filtered"
                )
            })
            .collect();
        list.extend(self.unfilterable.iter().filter(|name| coverage.covers(name)).map(|name| {
            format!(
                "interface {name}: its frames are neither Ethernet's nor IP packets alone: what \
                 comes in or goes out through it is not filtered (`set skip on {name}` says that \
                 this is intended)"
            )
        }));
        let present = || self.all().map(|(_, known)| known).filter(|known| known.ifindex != 0);
        let below = |ifindex: u32| present().find(|known| known.ifindex == ifindex);
        for known in present().filter(|known| coverage.covers(&known.name)) {
            let Some((parent, _)) = known.vlan else { continue };
            if let Some(parent) = below(parent).filter(|parent| parent.vlan.is_some()) {
                let (name, parent) = (&known.name, &parent.name);
                list.push(format!(
                    "interface {name} is a VLAN inside a VLAN: what comes in through it is judged \
                     by the rules of {parent}"
                ));
            }
        }
        for known in present().filter(|known| known.path.is_some() && known.hides_tags) {
            let name = &known.name;
            list.push(format!(
                "interface {name}: its driver takes VLAN tags out of frames before they are read, \
                 so all VLANs are judged as {name} itself: `ethtool -K {name} rxvlan off`"
            ));
        }
        list.extend(present().filter_map(veth::deaf));
        let paths: Vec<String> = present().filter_map(paths::slow).collect();
        let before = std::mem::take(&mut self.warned);
        self.warned = list.iter().chain(&paths).cloned().collect();
        if !is_all {
            // Who asks for a ruleset is not told again what no ruleset changes.
            list.extend(paths);
            list.retain(|text| !before.contains(text));
        }
        list
    }

    /// Writes what is known into the shared memory, of the interfaces that the active image knows.
    ///
    /// Exits follow: an interface that has another one's slot gets its exit when no packet is on
    /// its way to the other one any more.
    pub(super) fn publish(&self, firewall: &Firewall) {
        if self.forbids_two().is_some() {
            // Before it has a slot, without which nothing that comes by it is staged.
            firewall.leave_second_stage();
        }
        let are_changed = self.close_exits(firewall);
        let mut ifslots = vec![0_u8; IFINDEX_COUNT_MAX as usize];
        for (number, slot) in self.slots.iter().enumerate().skip(1) {
            let at = place(firewall, number);
            let Some(known) = slot.as_ref().filter(|known| known.is_settled) else {
                firewall.arena().write32(at + interface::FLAGS, 0);
                continue;
            };
            if known.ifindex != 0
                && let Some(address_slot) = ifslots.get_mut(known.ifindex as usize)
            {
                *address_slot = u8::try_from(number).unwrap_or(0);
            }
            firewall.arena().write(at, &self.record(number, known));
        }
        let ifslots_at = firewall.regions().ifslots.at;
        let mut are_over = true;
        if are_changed {
            // What has gone, first: next hops have slots.
            let mut before = vec![0_u8; ifslots.len()];
            firewall.arena().read(ifslots_at, &mut before);
            let stays: Vec<u8> = ifslots
                .iter()
                .zip(&before)
                .map(|(now, before)| if now == before { *now } else { 0 })
                .collect();
            firewall.arena().write(ifslots_at, &stays);
            super::renew_next_hops(firewall);
            // Without the wait for this an exit stays closed; see `lacks_exit`.
            are_over = firewall.wait_for_polls().is_ok();
        }
        // Before any packet can be on its way to one. Until the second stage's program is loaded,
        // there are none. What fails is an interface that has just gone, or is why there is one
        // stage.
        if are_over && firewall.has_second_program() {
            let _ = self.lacks_exit(firewall);
        }
        firewall.arena().write(ifslots_at, &ifslots);
    }

    /// The interface that a slot's exit belongs to.
    fn exit_of(&self, number: usize) -> Option<u32> {
        let known = self.slots.get(number)?.as_ref()?;
        (known.is_settled && known.ifindex != 0).then_some(known.ifindex)
    }

    /// Closes the exits of interfaces that have gone from their slots. Tells whether there were
    /// any.
    fn close_exits(&self, firewall: &Firewall) -> bool {
        let mut are_changed = false;
        for (number, slot) in (1..SLOT_COUNT).zip(1_u32..) {
            let before = firewall.exit(slot).ok().flatten();
            if before.is_some() && before != self.exit_of(number) {
                are_changed = true;
                // One that is there no more cannot be closed.
                drop(firewall.close_exit(slot));
            }
        }
        are_changed
    }

    /// What about the interfaces makes two stages wrong.
    pub(super) fn forbids_two(&self) -> Option<String> {
        let is_generic = |known: &Known| known.ifindex != 0 && known.path == Some(Path::Generic);
        let (_, known) = self.all().find(|(_, known)| is_generic(known))?;
        Some(format!("interface {} is in generic mode", known.name))
    }

    /// Opens the exits that are missing; says which interface has none then, though frames can be
    /// redirected to it.
    pub(super) fn lacks_exit(&self, firewall: &Firewall) -> Option<String> {
        let mut lacking = None;
        for (number, known) in self.all().filter(|(_, known)| known.ifindex != 0) {
            let slot = u32::try_from(number).unwrap_or(0);
            let (there, right) = (firewall.exit(slot).ok().flatten(), self.exit_of(number));
            let is_right = match (there, right) {
                (None, Some(ifindex)) => firewall.open_exit(slot, ifindex).is_ok(),
                _ => there == right,
            };
            if !is_right && known.takes_redirected && lacking.is_none() {
                lacking = Some(format!("interface {} has no exit", known.name));
            }
        }
        lacking
    }

    /// `struct weir_fw_interface`.
    fn record(&self, number: usize, known: &Known) -> Vec<u8> {
        let mut out = vec![0_u8; interface::SIZE_BYTES as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            let at = at as usize;
            out[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let flags = bit(known.ifindex != 0, INTERFACE_PRESENT)
            | bit(known.path.is_some(), INTERFACE_ATTACHED)
            | bit(known.path == Some(Path::Generic), INTERFACE_GENERIC)
            | bit(known.takes_redirected, INTERFACE_XMIT)
            | bit(known.is_veth, INTERFACE_VETH)
            | bit(known.has_queues, INTERFACE_QUEUED)
            | bit(known.has_egress, INTERFACE_EGRESS)
            | bit(!known.virtual_macs.is_empty(), INTERFACE_VIRTUAL)
            | bit(known.path == Some(Path::Native) && !known.hides_tags, INTERFACE_WHOLE);
        put(interface::IFINDEX, &known.ifindex.to_ne_bytes());
        put(interface::FLAGS, &flags.to_ne_bytes());
        put(interface::MTU_BYTES, &known.mtu_bytes.to_ne_bytes());
        put(interface::VLAN_ID, &known.vlan.map_or(0, |(_, id)| id).to_ne_bytes());
        let children = self.children(known.ifindex);
        put(interface::VLAN_FIRST, &[children.first().copied().unwrap_or(0)]);
        let next = known.vlan.map(|(parent, _)| self.children(parent)).and_then(|siblings| {
            let at = siblings.iter().position(|slot| usize::from(*slot) == number)?;
            siblings.get(at + 1).copied()
        });
        put(interface::VLAN_NEXT, &[next.unwrap_or(0)]);
        put(interface::MAC, &known.mac);
        let others = known.virtual_macs.iter().chain(std::iter::repeat(&known.mac));
        for (at, mac) in
            (interface::VIRTUAL_MAC..).step_by(VIRTUAL_MAC_STEP).zip(others.take(VIRTUAL_MACS_MAX))
        {
            put(at, mac);
        }
        put(interface::READ_AS, &[self.read_as(number, known)]);
        put(interface::SAW_PARTIAL, &[u8::from(known.saw_partial)]);
        let name = known.name.as_bytes();
        put(interface::NAME, &name[..name.len().min(NAME_SIZE_BYTES)]);
        out
    }

    /// The slot as which a program reads what comes by an interface: frames of a VLAN on the
    /// interface below, and those of a VLAN inside a VLAN as the outer one's. 0: none does.
    fn read_as(&self, number: usize, known: &Known) -> u8 {
        let below = |known: &Known| {
            let (parent, _) = known.vlan?;
            self.all().find(|(_, other)| other.ifindex == parent)
        };
        let (mut slot, mut outer_known) = (number, known);
        for _ in 0..VLAN_DEPTH_MAX {
            match below(outer_known) {
                Some((outer, parent)) if parent.vlan.is_some() => {
                    (slot, outer_known) = (outer, parent);
                }
                reader => {
                    let reader = reader.map_or(outer_known, |(_, parent)| parent);
                    let is_read = reader.path.is_some() && outer_known.is_settled;
                    return if is_read { u8::try_from(slot).unwrap_or(0) } else { 0 };
                }
            }
        }
        0
    }

    /// Slots of the VLANs on an interface, in their order.
    fn children(&self, ifindex: u32) -> Vec<u8> {
        let below = self.all().filter(|(_, known)| {
            ifindex != 0
                && known.ifindex != 0
                && known.is_settled
                && known.vlan.is_some_and(|(parent, _)| parent == ifindex)
        });
        below.filter_map(|(number, _)| u8::try_from(number).ok()).collect()
    }

    /// Takes all programs off.
    pub(super) fn detach(&mut self, firewall: &Firewall) {
        for known in self.slots.iter_mut().flatten().filter(|known| known.ifindex != 0) {
            // An interface that has just gone has taken them with it.
            drop(firewall.detach(known.ifindex));
            (known.path, known.has_egress) = (None, false);
        }
    }
}

/// The other MAC addresses that the kernel takes frames for by an interface, as many as the data
/// path knows: VRRP's virtual one, of a master (RFC 9568, section 7.3).
fn virtual_macs(link: &LinkInfo, links: &[LinkInfo]) -> Vec<[u8; 6]> {
    let on_it = links.iter().filter(|other| other.macvlan_parent == Some(link.ifindex));
    let macs = on_it.filter(|other| other.is_up).filter_map(|other| other.mac);
    macs.filter(|mac| link.mac != Some(*mac)).take(VIRTUAL_MACS_MAX).collect()
}

fn place(firewall: &Firewall, number: usize) -> u32 {
    let number = u32::try_from(number).unwrap_or(0);
    firewall.regions().interfaces.at + number * interface::SIZE_BYTES
}

/// Programs that do not belong where they are.
#[derive(Debug)]
pub(super) struct Surplus {
    number: usize,
    path: Option<Path>,
    has_egress: bool,
}

/// Which programs belong on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    has_ingress: bool,
    has_egress: bool,
}

impl Known {
    fn framing(&self) -> Framing {
        if self.is_bare { Framing::Bare } else { Framing::Ethernet }
    }

    /// `parents` are the interfaces below VLANs that are filtered.
    fn place(&self, coverage: &Coverage, parents: &BTreeSet<u32>) -> Place {
        let is_covered = coverage.covers(&self.name);
        let is_read = is_covered || parents.contains(&self.ifindex);
        Place { has_ingress: self.vlan.is_none() && is_read, has_egress: is_covered }
    }
}

/// The interfaces whose packets cannot be filtered: they have a link header, and it is not
/// Ethernet's.
pub(super) fn unfilterable(links: &[LinkInfo]) -> Vec<String> {
    let is_other = |link: &&LinkInfo| !link.is_ethernet && !link.is_bare && !link.is_loopback;
    let unattachable = links.iter().filter(is_other);
    unattachable.map(|link| link.name.clone()).collect()
}

/// Puts programs on an interface where they belong and are not. Tells whether none was before. On
/// an error those are there that were.
fn put(
    firewall: &Firewall,
    known: &mut Known,
    place: Place,
    is_generic: bool,
) -> Result<bool, String> {
    let ifindex = known.ifindex;
    let name = known.name.clone();
    let failed = |cause: &dyn std::fmt::Display| format!("interface {name}: {cause}");
    let before = firewall.attachment(ifindex).map_err(|error| failed(&error))?;
    (known.path, known.has_egress) = (before.ingress, before.egress);
    let result = put_missing(firewall, known, place, is_generic);
    if let Err(cause) = result {
        if before == Attachment::default() {
            // An interface that has just gone has taken them with it.
            drop(firewall.detach(ifindex));
        } else if let Some(path) = before.ingress.filter(|_| known.path.is_none()) {
            drop(put_ingress(firewall, known, path));
        }
        (known.path, known.has_egress) = (before.ingress, before.egress);
        return Err(failed(&cause));
    }
    let is_xdp = matches!(known.path, Some(Path::Native | Path::Generic));
    known.hides_tags = is_xdp && ethtool::hides_tags(&known.name).unwrap_or(false);
    known.is_veth = known.path == Some(Path::Native) && veth::is_one(&known.name);
    Ok(before.ingress.is_none() && !before.egress)
}

fn put_missing(
    firewall: &Firewall,
    known: &mut Known,
    place: Place,
    is_generic: bool,
) -> Result<(), String> {
    // What takes the place of native XDP, if it is needed.
    let second = if is_generic && !known.is_bare { Path::Generic } else { Path::Tcx };
    let other = if second == Path::Tcx { Path::Generic } else { Path::Tcx };
    if known.path == Some(other) {
        firewall.detach_ingress(known.ifindex).map_err(|error| error.to_string())?;
        known.path = None;
    }
    if place.has_ingress && known.path.is_none() {
        known.path = Some(put_first(firewall, known, second)?);
    }
    if place.has_egress && !known.has_egress {
        let attached = firewall.attach_egress(known.ifindex, known.framing());
        attached.map_err(|error| error.to_string())?;
        known.has_egress = true;
    }
    Ok(())
}

/// Attaches native XDP's program, or `second` where the driver does not take it; gives which.
fn put_first(firewall: &Firewall, known: &Known, second: Path) -> Result<Path, String> {
    if !known.is_bare {
        match put_ingress(firewall, known, Path::Native) {
            Ok(()) => return Ok(Path::Native),
            Err(PutError::NoSupport(_)) => {}
            Err(PutError::Failed(cause)) => return Err(cause),
        }
    }
    match put_ingress(firewall, known, second) {
        Ok(()) => Ok(second),
        Err(PutError::NoSupport(cause) | PutError::Failed(cause)) => Err(cause),
    }
}

/// Why a program is not on an interface.
enum PutError {
    /// Its driver does not take this one.
    NoSupport(String),
    Failed(String),
}

impl From<AttachError> for PutError {
    fn from(error: AttachError) -> Self {
        let is_unsupported = error.is_unsupported() || error.is_too_long();
        let text = error.to_string();
        if is_unsupported { Self::NoSupport(text) } else { Self::Failed(text) }
    }
}

fn put_ingress(firewall: &Firewall, known: &Known, path: Path) -> Result<(), PutError> {
    let mode = match path {
        Path::Native => Mode::Native,
        Path::Generic => Mode::Generic,
        Path::Tcx => {
            let attached = firewall.attach_entry(known.ifindex, known.framing());
            return attached.map_err(|error| PutError::Failed(error.to_string()));
        }
    };
    Ok(firewall.attach(known.ifindex, mode)?)
}

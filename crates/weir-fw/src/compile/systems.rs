//! Fingerprints of operating systems as the data path looks for them
//! (`bpf/include/weir/fw/system.h`), and the sets of them that rules ask for.

use std::collections::HashMap;

use weir_bpf::firewall::layout::{
    SYSTEM_DF, SYSTEM_FIRST, SYSTEM_UNKNOWN, SYSTEM_ZERO_TIMESTAMP, system, system_how as how,
    system_order, systems,
};
use weir_rules::fingerprint::{
    Asked, FINGERPRINT_COUNT_MAX, Fingerprint, Fingerprints, Number, Signature, Window,
};

use crate::image::Bytes;

const _: () = assert!(FINGERPRINT_COUNT_MAX < 1 << 15, "numbers of systems have 16 bits");

/// What a SYN has to have exactly: its options, how many, and flags.
type Exact = (u64, u8, u8);

/// The fingerprints of an image, and sets of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Systems {
    /// By what is exact, in the order of the file; the places are numbers from `SYSTEM_FIRST` on.
    signatures: Vec<Signature>,
    /// First and count of each in `signatures`.
    orders: Vec<(Exact, [u16; 2])>,
    /// What rules ask for, as bits by number.
    sets: Vec<Vec<u64>>,
    numbers: HashMap<Option<Asked>, u32>,
    /// The number of each fingerprint of the file.
    places: Vec<u32>,
}

impl Systems {
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The number of the set that a name means, from 1. What no fingerprint has is no packet's.
    pub(super) fn set(&mut self, fingerprints: &Fingerprints, name: &str) -> u32 {
        if self.places.is_empty() {
            self.place(fingerprints.list());
        }
        let asked = fingerprints.asked(name);
        let next = u32::try_from(self.sets.len() + 1).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(asked).or_insert(next);
        if number == next {
            let set = asked.map_or_else(|| self.none(), |asked| self.bits(fingerprints, asked));
            self.sets.push(set);
        }
        number
    }

    fn none(&self) -> Vec<u64> {
        vec![0; (self.places.len() + SYSTEM_FIRST as usize).div_ceil(64)]
    }

    fn bits(&self, fingerprints: &Fingerprints, asked: Asked) -> Vec<u64> {
        let mut set = self.none();
        let mut put = |number: u32| set[number as usize / 64] |= 1 << (number % 64);
        if fingerprints.holds(None, asked) {
            put(0);
            put(SYSTEM_UNKNOWN);
        }
        for (at, number) in self.places.iter().enumerate() {
            if fingerprints.holds(Some(at), asked) {
                put(*number);
            }
        }
        set
    }

    /// Numbers the fingerprints.
    fn place(&mut self, list: &[Fingerprint]) {
        let mut found: Vec<Exact> = list.iter().map(|one| exact(&one.signature)).collect();
        let exacts = found.clone();
        found.sort_unstable();
        found.dedup();
        self.places = vec![0; list.len()];
        for one in found {
            let first = u16::try_from(self.signatures.len()).unwrap_or(u16::MAX);
            for (at, fingerprint) in list.iter().enumerate().filter(|(at, _)| exacts[*at] == one) {
                self.places[at] =
                    u32::try_from(self.signatures.len()).unwrap_or(u32::MAX) + SYSTEM_FIRST;
                self.signatures.push(fingerprint.signature);
            }
            let end = u16::try_from(self.signatures.len()).unwrap_or(u16::MAX);
            self.orders.push((one, [first, end - first]));
        }
    }

    /// Appends the fingerprints and the sets at multiples of 64; gives where they stand.
    pub(super) fn link(&self, out: &mut Vec<u8>, padded: fn(&mut Vec<u8>) -> u32) -> Linked {
        if self.is_empty() {
            return Linked::default();
        }
        let at = padded(out);
        out.resize(out.len() + systems::SIZE_BYTES as usize, 0);
        let orders_at = padded(out);
        let table = table(&self.orders);
        let mask = u32::try_from(table.len() - 1).unwrap_or(0);
        for order in &table {
            let mut line = Bytes::<{ system_order::SIZE_BYTES as usize }>::new();
            if let Some(((options, option_count, flags), [first, count])) = order {
                line.put(system_order::OPTIONS, &options.to_ne_bytes());
                line.put(system_order::OPTION_COUNT, &[*option_count]);
                line.put(system_order::FLAGS, &[*flags]);
                line.put(system_order::FIRST, &first.to_ne_bytes());
                line.put(system_order::COUNT, &count.to_ne_bytes());
            }
            out.extend(line.0);
        }
        let systems_at = padded(out);
        self.signatures.iter().for_each(|signature| out.extend(bytes_of(signature)));
        let mut head = Bytes::<{ systems::SIZE_BYTES as usize }>::new();
        head.put(systems::ORDER_MASK, &mask.to_ne_bytes());
        head.put(systems::ORDERS_AT, &orders_at.to_ne_bytes());
        head.put(systems::SYSTEMS_AT, &systems_at.to_ne_bytes());
        out[at as usize..][..head.0.len()].copy_from_slice(&head.0);
        let sets = self.sets.iter().map(|set| {
            let at = padded(out);
            out.extend(set.iter().flat_map(|word| word.to_ne_bytes()));
            at
        });
        Linked { at, sets: sets.collect() }
    }
}

/// Where the parts stand in an image.
#[derive(Default)]
pub(super) struct Linked {
    pub(super) at: u32,
    sets: Vec<u32>,
}

impl Linked {
    /// Where the set of a number stands; 0: the number is.
    pub(super) fn set_at(&self, number: u32) -> u32 {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| self.sets.get(index)).copied().unwrap_or(0)
    }
}

fn exact(signature: &Signature) -> Exact {
    let flag = |bit: u32, is_set: bool| if is_set { bit } else { 0 };
    let flags =
        flag(SYSTEM_DF, signature.df) | flag(SYSTEM_ZERO_TIMESTAMP, signature.zero_timestamp);
    (signature.order.packed, signature.order.count, u8::try_from(flags).unwrap_or(0))
}

/// Orders by their hash, at most every second place of a power of two taken.
fn table(orders: &[(Exact, [u16; 2])]) -> Vec<Option<(Exact, [u16; 2])>> {
    let mut table = vec![None; (orders.len() * 2).next_power_of_two()];
    let mask = table.len() - 1;
    for order in orders {
        let mut place = hash(order.0) & mask;
        while table[place].is_some() {
            place = (place + 1) & mask;
        }
        table[place] = Some(*order);
    }
    table
}

/// `weir_fw_system_hash()` of system.h.
fn hash((options, option_count, flags): Exact) -> usize {
    let rest = u64::from(option_count) << 8 | u64::from(flags);
    let mixed = (options ^ rest << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 32).unwrap_or(0)
}

fn of_number(number: Number) -> (u8, u16) {
    match number {
        Number::Any => (how::ANY, 0),
        Number::Equal(number) => (how::EQUAL, number),
        Number::MultipleOf(number) => (how::MULTIPLE, number),
    }
}

fn bytes_of(signature: &Signature) -> [u8; system::SIZE_BYTES as usize] {
    let (window_how, window) = match signature.window {
        Window::Plain(number) => of_number(number),
        Window::Segments(count) => (how::SEGMENTS, count),
        Window::Packets(count) => (how::PACKETS, count),
    };
    let (bytes_how, bytes) = of_number(signature.size_bytes);
    let (mss_how, mss) = of_number(signature.mss);
    let (wscale_how, wscale) = of_number(signature.wscale);
    let mut line = Bytes::<{ system::SIZE_BYTES as usize }>::new();
    line.put(system::WINDOW, &window.to_ne_bytes());
    line.put(system::BYTES, &bytes.to_ne_bytes());
    line.put(system::MSS, &mss.to_ne_bytes());
    line.put(system::WSCALE, &[u8::try_from(wscale).unwrap_or(u8::MAX)]);
    line.put(system::TTL, &[signature.ttl]);
    line.put(system::WINDOW_HOW, &[window_how]);
    line.put(system::BYTES_HOW, &[bytes_how]);
    line.put(system::MSS_HOW, &[mss_how]);
    line.put(system::WSCALE_HOW, &[wscale_how]);
    line.0
}

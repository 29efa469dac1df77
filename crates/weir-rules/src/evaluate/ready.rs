//! The rules of a ruleset as evaluation meets them: in lists and blocks, their names looked up.

use super::Ip;
use crate::ir::Rule;
use crate::value::{Comparison, Direction, Text};

/// The lists of rules of one ruleset, by their processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// `scrub` (FreeBSD).
    Scrub,
    /// `nat` (FreeBSD).
    Nat,
    /// `rdr` (FreeBSD).
    Rdr,
    /// `binat` (FreeBSD).
    Binat,
    /// `pass`, `block`, `match`.
    Filter,
}

pub(super) const LISTS: [List; 5] = [List::Scrub, List::Nat, List::Rdr, List::Binat, List::Filter];

impl List {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scrub => "scrub",
            Self::Nat => "nat",
            Self::Rdr => "rdr",
            Self::Binat => "binat",
            Self::Filter => "filter",
        }
    }
}

/// The rules at one path.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) path: Text,
    /// Its rules are from a [`super::LoadedAnchor`], and their spans of other files.
    pub(super) is_loaded: bool,
    /// First and after the last, for each of [`LISTS`].
    pub(super) lists: [(u32, u32); 5],
}

/// An address, looked up.
#[derive(Debug)]
pub(super) enum Place {
    Any,
    Net4(u32, u32),
    Net6(u128, u128),
    Range(Ip, Ip),
    Table(usize),
    /// A typed table of the main ruleset.
    Typed(Text),
    /// What an interface has.
    Prefixes(Box<[(Ip, u8)]>),
    NoRoute,
    UrpfFailed,
    RouteLabel(Text),
    /// A name that could not be looked up.
    Nothing,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) not: bool,
    pub(super) place: Place,
    pub(super) port: Option<Comparison<u16>>,
}

/// A rule with what its names mean.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) rule: &'a Rule,
    /// Its number in its list, as pfctl counts.
    pub(super) number: u32,
    pub(super) block: u32,
    pub(super) list: List,
    /// Index of the interface's name, and whether it is negated.
    pub(super) interface: Option<(u32, bool)>,
    pub(super) received_on: Option<(u32, bool)>,
    pub(super) direction: Option<Direction>,
    /// IP protocol; 0 is any, as in the kernel.
    pub(super) protocol: u8,
    pub(super) from: End,
    pub(super) to: End,
    /// Whether it has a criterion that few rules have.
    pub(super) is_rare: bool,
    /// The blocks that it enters, in order.
    pub(super) call: Option<Box<[u32]>>,
}

/// Bits for the interface names that rules use.
pub(super) type NameBits = Box<[u64]>;

/// Whether the bit of a name is set.
pub(super) fn has_bit(bits: &[u64], at: u32) -> bool {
    bits.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
}

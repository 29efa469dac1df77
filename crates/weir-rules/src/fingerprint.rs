//! Passive fingerprints of operating systems: which SYN is whose (pf.os(5), and "OPERATING SYSTEM
//! FINGERPRINTING" of pf.conf(5)).
//!
//! A file of them is read as pfctl reads it (pfctl_osfp.c): a range of versions stands for each of
//! them, each line is for IPv4 and IPv6, and lines that say the same of a SYN are one fingerprint
//! of several systems. A SYN has the first fingerprint of the file that it fits (`pf_osfp_find` of
//! pf_osfp.c), or none, and is of an unknown system. Nothing is opened here.
//!
//! The scale of a SYN's window is compared as it is, as pf.os(5) says; pf's kernel reads it in the
//! wrong order of bytes where the smallest comes first, so that there only `W0` and `W*` fit.

mod load;
mod names;
mod read;
mod syn;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::value::Text;

pub use load::{DEFAULT_FILE, Known};
use names::Names;
pub use syn::{Order, Syn};

/// Fingerprints that a file may have, by what they say of a SYN: the data path looks at those of
/// one order of options each.
pub const FINGERPRINT_COUNT_MAX: usize = 4096;
/// Names that they may have together, each version of a range for itself.
const SYSTEM_COUNT_MAX: usize = 65_536;
/// A SYN comes over so many routers at most (`PF_OSFP_MAXTTL_OFFSET`).
pub const HOP_COUNT_MAX: u8 = 40;
/// A size of segments that routers put into SYNs (`SMART_MSS` of pf_osfp.c).
pub const USUAL_MSS: u16 = 1460;
/// What the headers of a segment add to that.
pub const HEADERS_BYTES: u16 = 40;

/// What a number of a SYN has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// `*`
    Any,
    Equal(u16),
    /// `%n`; none is one of 0.
    MultipleOf(u16),
}

impl Number {
    fn holds(self, number: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Equal(equal) => number == equal,
            Self::MultipleOf(divisor) => divisor != 0 && number.is_multiple_of(divisor),
        }
    }
}

/// What the window of a SYN has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    Plain(Number),
    /// `Sn`: so many segments, of the SYN's size or of [`USUAL_MSS`].
    Segments(u16),
    /// `Tn`: so many packets, as large as those segments with [`HEADERS_BYTES`].
    Packets(u16),
}

impl Window {
    fn holds(self, syn: &Syn) -> bool {
        let is_multiple = |count: u16, added: u16| {
            let sizes = [syn.mss, USUAL_MSS].map(|size| u32::from(size) + u32::from(added));
            let window = u32::from(syn.window);
            syn.mss != 0 && sizes.iter().any(|size| u32::from(count) * size == window)
        };
        match self {
            Self::Plain(number) => number.holds(syn.window),
            Self::Segments(count) => is_multiple(count, 0),
            Self::Packets(count) => is_multiple(count, HEADERS_BYTES),
        }
    }
}

/// What a fingerprint says of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature {
    pub window: Window,
    /// The TTL with which it was sent.
    pub ttl: u8,
    /// Its don't-fragment bit; of IPv6 it counts as set.
    pub df: bool,
    /// Its length, IP header included, bytes.
    pub size_bytes: Number,
    pub order: Order,
    pub mss: Number,
    pub wscale: Number,
    /// Its timestamp is 0.
    pub zero_timestamp: bool,
    /// It was made for IPv6, with its larger header. Packets are not asked for it.
    pub is_inet6: bool,
}

impl Signature {
    fn holds(&self, syn: &Syn) -> bool {
        self.order == syn.order
            && self.ttl.checked_sub(syn.ttl).is_some_and(|hops| hops <= HOP_COUNT_MAX)
            && (self.df, self.zero_timestamp) == (syn.df, syn.zero_timestamp)
            && self.size_bytes.holds(syn.size_bytes)
            && self.mss.holds(syn.mss)
            && self.wscale.holds(syn.wscale.into())
            && self.window.holds(syn)
    }
}

/// A system, or what a rule asks for: numbers of class, version and subtype; 0 is none, and for a
/// rule any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct System {
    class: u32,
    version: u32,
    subtype: u32,
}

/// What `os` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// `unknown`: a SYN without a fingerprint, and what is no SYN.
    Unknown,
    Known(System),
}

impl Asked {
    /// `pf_osfp_match` of pf_osfp.c.
    fn holds(self, system: System) -> bool {
        let Self::Known(asked) = self else { return false };
        let is = |asked: u32, number: u32| asked == 0 || asked == number;
        is(asked.class, system.class)
            && is(asked.version, system.version)
            && is(asked.subtype, system.subtype)
    }
}

/// A fingerprint, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    pub signature: Signature,
    systems: Vec<System>,
    /// Their names as the file has them, without the versions of ranges one by one.
    names: Vec<Text>,
}

/// The fingerprints of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprints {
    list: Vec<Fingerprint>,
    names: Names,
    count: usize,
}

impl Fingerprints {
    /// The word for what no fingerprint fits.
    pub const UNKNOWN: &str = "unknown";

    /// All of them, in the order of the file.
    #[must_use]
    pub fn list(&self) -> &[Fingerprint] {
        &self.list
    }

    /// How many pfctl counts: each version of a range by itself, for IPv4 and for IPv6.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The place of the fingerprint that a SYN has.
    #[must_use]
    pub fn find(&self, syn: &Syn) -> Option<usize> {
        self.list.iter().position(|fingerprint| fingerprint.signature.holds(syn))
    }

    /// What a name of a rule asks for, in any case of letters; `None` if no fingerprint has it.
    #[must_use]
    pub fn asked(&self, name: &str) -> Option<Asked> {
        if name.eq_ignore_ascii_case(Self::UNKNOWN) {
            return Some(Asked::Unknown);
        }
        self.names.system(name).map(Asked::Known)
    }

    /// Whether a SYN with the fingerprint at a place, or one without, is what a rule asks for.
    #[must_use]
    pub fn holds(&self, found: Option<usize>, asked: Asked) -> bool {
        match found.and_then(|at| self.list.get(at)) {
            None => asked == Asked::Unknown,
            Some(found) => found.systems.iter().any(|system| asked.holds(*system)),
        }
    }

    /// Whether a system of this name is what a rule asks for.
    #[must_use]
    pub(crate) fn is(&self, name: &str, asked: Asked) -> bool {
        match self.asked(name) {
            None | Some(Asked::Unknown) => asked == Asked::Unknown,
            Some(Asked::Known(system)) => asked.holds(system),
        }
    }

    /// Whose the fingerprint at a place is, in words.
    #[must_use]
    pub fn name_of(&self, found: Option<usize>) -> String {
        match found.and_then(|at| self.list.get(at)) {
            None => Self::UNKNOWN.to_owned(),
            Some(found) => found.names.join(" or "),
        }
    }

    /// The names that rules can have.
    pub(crate) fn all_names(&self) -> Vec<Text> {
        self.names.all()
    }

    /// The classes, versions and subtypes, as `pfctl -s osfp` lists them; nothing if there are none
    /// (`pfctl_show_fingerprints` of pfctl_osfp.c).
    #[must_use]
    pub fn listing(&self) -> String {
        let mut out = String::new();
        if self.list.is_empty() {
            return out;
        }
        // A String takes what is written.
        let _ = writeln!(out, "Class\tVersion\tSubtype(subversion)");
        let _ = writeln!(out, "-----\t-------\t-------------------");
        self.names.put(&mut out);
        out
    }

    /// Adds a system to the fingerprint of a signature.
    fn add(&mut self, signature: Signature, [class, version, subtype]: [&str; 3], is_range: bool) {
        let system = self.names.add([class, version, subtype]);
        self.count += 1;
        let at = self.list.iter().position(|known| known.signature == signature);
        let at = at.unwrap_or_else(|| {
            let (systems, names) = (Vec::new(), Vec::new());
            self.list.push(Fingerprint { signature, systems, names });
            self.list.len() - 1
        });
        let known = &mut self.list[at];
        if known.systems.contains(&system) {
            return;
        }
        known.systems.push(system);
        if !is_range {
            known.names.push(names::full([class, version, subtype]).into());
        }
    }
}

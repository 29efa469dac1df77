//! Puts compiled rulesets and tables into the shared memory, where one store makes them active.
//!
//! The order is that of a crash that may come at any moment: what is new is written whole, then the
//! control page's `active` (or one word of the active image's directory) changes, then what is old
//! is retired. It is freed after [`GRACE_NS`], when no packet can be reading it any more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use weir_bpf::firewall::layout::{
    BLANK_AT, CONTROL_FAMILIES, CONTROL_ROUTED, CONTROL_TRANSLATED, GATEWAYS_AT, IMAGE_MAGIC,
    LIMITER_COUNT, PAGE_BYTES, control, gateway, image, image_flags, limiter_counts, rule_counters,
};
use weir_bpf::firewall::{Arena, ArenaError};
use weir_rules::evaluate::Evaluator;
use weir_rules::ir::{Ruleset, TableEntry};
use weir_rules::typed::{Key, KeyType};
use weir_rules::value::Text;

use crate::compile::known::{Known, SLAB_RULE_COUNT};
use crate::compile::{Compiled, Numbered, TableName};
use crate::heap::{Heap, HeapError, Kind, Memory};
use crate::prefix::{self, TooLarge};

/// What one CPU's counters of a rule take.
const COUNTERS_BYTES: usize = rule_counters::SIZE_BYTES as usize;
/// What a limiter has counted.
const LIMITER_COUNTS_BYTES: usize = limiter_counts::SIZE_BYTES as usize;

/// How long a packet may look at what was replaced, at the very most.
pub(crate) const GRACE_NS: u64 = 2_000_000_000;

impl Memory for Arena {
    fn load32(&self, at: u32) -> u32 {
        self.read32(at)
    }

    fn store32(&self, at: u32, value: u32) {
        self.write32(at, value);
    }

    fn set_bits(&self, at: u32, bits: u32) {
        self.word32(at).fetch_or(bits, Ordering::AcqRel);
    }

    fn load64(&self, at: u32) -> u64 {
        self.read64(at)
    }

    fn store64(&self, at: u32, value: u64) {
        self.write64(at, value);
    }

    fn write(&self, at: u32, bytes: &[u8]) {
        Self::write(self, at, bytes);
    }

    fn read(&self, at: u32, byte_count: u32) -> Vec<u8> {
        let mut bytes = vec![0; byte_count as usize];
        Self::read(self, at, &mut bytes);
        bytes
    }

    fn populate(&self, at: u32, byte_count: u32) -> Result<(), String> {
        let start = at - at % PAGE_BYTES;
        let bytes = u64::from(at - start) + u64::from(byte_count);
        let bytes = bytes.next_multiple_of(u64::from(PAGE_BYTES));
        Self::populate(self, start, bytes).map_err(|error: ArenaError| error.to_string())
    }
}

/// Why something could not be put into the shared memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The heap has no room, or is damaged.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A table is larger than any memory.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// What tables hold, by anchor (empty for the main ruleset) and name.
pub type Contents = HashMap<(Text, Text), Vec<TableEntry>>;

/// The contents that a ruleset gives its tables. `path` is the anchor that it is loaded at.
#[must_use]
pub fn contents(path: &str, ruleset: &Ruleset) -> Contents {
    let mut contents = Contents::new();
    for table in ruleset.tables.iter().filter(|table| table.typed.is_none()) {
        let anchor = match (path, &*table.anchor) {
            ("", anchor) => anchor.to_owned(),
            (path, "") => path.to_owned(),
            (path, anchor) => format!("{path}/{anchor}"),
        };
        contents.insert((anchor.into(), table.name.clone()), table.entries().copied().collect());
    }
    contents
}

/// The entries of a table that stands for addresses of interfaces.
#[must_use]
pub(crate) fn dynamic_entries(networks: &[(IpAddr, u8)]) -> Vec<TableEntry> {
    networks
        .iter()
        .map(|(address, bits)| TableEntry { address: *address, bits: *bits, not: false })
        .collect()
}

/// A ruleset that stands in the memory and is not active yet.
#[derive(Debug)]
pub struct Prepared {
    image_at: u32,
    known: Known,
    placed: Vec<u32>,
    gateways: Vec<Numbered>,
}

impl Prepared {
    /// Where its image stands.
    #[must_use]
    pub const fn image_at(&self) -> u32 {
        self.image_at
    }

    /// What is known once it is the active one.
    #[must_use]
    pub const fn known(&self) -> &Known {
        &self.known
    }
}

/// The rulesets, tables and counters of one shared memory.
#[derive(Debug)]
pub struct Installer<'m, M: ?Sized> {
    memory: &'m M,
    heap: Heap<'m, M>,
    cpu_count: u32,
    /// For the places of prefixes in tables.
    seed: u64,
}

impl<'m, M: Memory + ?Sized> Installer<'m, M> {
    /// On a heap. `seed` is a random number.
    #[must_use]
    pub fn new(memory: &'m M, heap: Heap<'m, M>, cpu_count: u32, seed: u64) -> Self {
        Self { memory, heap, cpu_count, seed }
    }

    #[must_use]
    pub fn heap(&self) -> &Heap<'m, M> {
        &self.heap
    }

    fn place(&self, bytes: &[u8], kind: Kind) -> Result<u32, HeapError> {
        let at = self.heap.allocate(bytes.len(), kind)?;
        self.memory.write(at, bytes);
        Ok(at)
    }

    /// Puts the entries of a typed table, with the numbers of their values, into the heap, where
    /// nobody finds them so far; 0 for none.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn place_typed(&self, of: KeyType, entries: &[(Key, u32)]) -> Result<u32, InstallError> {
        if entries.is_empty() {
            return Ok(0);
        }
        let bytes = prefix::typed::build(of, entries, self.seed)?;
        Ok(self.place(&bytes, Kind::Prefixes)?)
    }

    /// Gives a typed table of the active ruleset another set: one store.
    pub(crate) fn point(&self, index: usize, set_at: u32) {
        let directory = self.directory(self.memory.load32(control::ACTIVE));
        if let Some(word) = directory.get(index) {
            self.memory.store32(*word, set_at);
        }
    }

    /// Puts a set of prefixes into the heap; 0 for an empty one.
    fn place_table(&self, entries: &[TableEntry]) -> Result<u32, InstallError> {
        if entries.is_empty() {
            return Ok(0);
        }
        let bytes = prefix::build(entries.iter(), self.seed)?;
        Ok(self.place(&bytes, Kind::Prefixes)?)
    }

    /// Makes a compiled ruleset the active one; what was before is retired. Tables get `contents`,
    /// and those of interfaces' addresses what `evaluator` knows of them; one without contents is
    /// empty. Gives what is known from now on.
    ///
    /// # Errors
    /// [`InstallError`]; nothing has changed then.
    pub fn activate(
        &self,
        compiled: &Compiled,
        evaluator: &Evaluator<'_>,
        contents: &Contents,
        now_ns: u64,
    ) -> Result<Known, InstallError> {
        let prepared = self.prepare(compiled, evaluator, contents)?;
        Ok(self.commit(prepared, now_ns)?)
    }

    /// Everything of [`Self::activate`] that may fail: what is new is written whole, and nobody
    /// reads it yet. Either [`Self::commit`] or [`Self::abandon`] has to follow.
    ///
    /// # Errors
    /// [`InstallError`]; nothing has changed then.
    pub fn prepare(
        &self,
        compiled: &Compiled,
        evaluator: &Evaluator<'_>,
        contents: &Contents,
    ) -> Result<Prepared, InstallError> {
        let mut placed = Vec::new();
        match self.write(compiled, evaluator, contents, &mut placed) {
            Ok((image_at, known)) => {
                placed.push(image_at);
                let gateways = compiled.numbered.clone();
                Ok(Prepared { image_at, known, placed, gateways })
            }
            Err(error) => {
                for at in placed {
                    self.heap.free(at)?;
                }
                Err(error)
            }
        }
    }

    /// Makes what was prepared the active ruleset by one store; what was before is retired.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub fn commit(&self, prepared: Prepared, now_ns: u64) -> Result<Known, HeapError> {
        let old = self.memory.load32(control::ACTIVE);
        for Numbered { number, line } in &prepared.gateways {
            self.memory.write(GATEWAYS_AT + number * gateway::SIZE_BYTES, line);
        }
        // Before any packet can have made an alias, or got a gateway. The engine takes them away
        // when there are none.
        let of_image = self.memory.load32(prepared.image_at + image::FLAGS);
        let mut flags = 0;
        for (of_rules, of_states) in [
            (image_flags::TRANSLATES, CONTROL_TRANSLATED),
            (image_flags::FAMILIES, CONTROL_FAMILIES),
            (image_flags::GATEWAYS, CONTROL_ROUTED),
        ] {
            flags |= if of_image & of_rules == 0 { 0 } else { of_states };
        }
        self.memory.set_bits(control::FLAGS, flags);
        self.memory.store32(control::ACTIVE, prepared.image_at);
        self.retire_image(old, now_ns)?;
        Ok(prepared.known)
    }

    /// Has rules with `once` match once more, by their identifiers: those that were just loaded.
    pub fn renew(&self, known: &Known, ids: impl IntoIterator<Item = u32>) {
        for at in ids.into_iter().filter_map(|id| known.counters_at(id, self.cpu_count)) {
            self.memory.store32(at + rule_counters::IS_SPENT, 0);
        }
    }

    /// Frees what was prepared and is not wanted after all.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub fn abandon(&self, prepared: Prepared) -> Result<(), HeapError> {
        prepared.placed.into_iter().try_for_each(|at| self.heap.free(at))
    }

    fn write(
        &self,
        compiled: &Compiled,
        evaluator: &Evaluator<'_>,
        contents: &Contents,
        placed: &mut Vec<u32>,
    ) -> Result<(u32, Known), InstallError> {
        let mut known = compiled.known.clone();
        let slab_bytes = SLAB_RULE_COUNT as usize * self.cpu_count as usize * COUNTERS_BYTES;
        while known.slabs.len() < known.slab_count() {
            let at = self.place(&vec![0; slab_bytes], Kind::Counters)?;
            placed.push(at);
            known.slabs.push(at);
        }
        let mut tables_at = Vec::with_capacity(compiled.tables.len());
        for name in &compiled.tables {
            let at = match name {
                TableName::Named(anchor, name) => {
                    let found = contents.get(&(anchor.clone(), name.clone()));
                    self.place_table(found.map_or(&[], Vec::as_slice))?
                }
                TableName::Dynamic(dynamic) => {
                    self.place_table(&dynamic_entries(&evaluator.networks_of(dynamic)))?
                }
                // It is the table's, and stays when the image goes.
                TableName::Typed(name) => {
                    tables_at.push(compiled.typed_at.get(name).copied().unwrap_or(0));
                    continue;
                }
                TableName::Held(_, addresses) => {
                    let whole = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
                    let networks = addresses.iter().map(|address| (*address, whole(address)));
                    self.place_table(&dynamic_entries(&networks.collect::<Vec<_>>()))?
                }
            };
            placed.extend((at != 0).then_some(at));
            tables_at.push(at);
        }
        if known.limiter_counts_at == 0 && compiled.flags() & image_flags::LIMITERS != 0 {
            let counts = vec![0; LIMITER_COUNT as usize * LIMITER_COUNTS_BYTES];
            known.limiter_counts_at = self.place(&counts, Kind::Counters)?;
            placed.push(known.limiter_counts_at);
        }
        self.clear_new(compiled, &known);
        let counters_at = |id| known.counters_at(id, self.cpu_count).unwrap_or(0);
        let image = compiled.link(&tables_at, counters_at, known.limiter_counts_at);
        let image_at = self.place(&image, Kind::Image)?;
        Ok((image_at, known))
    }

    /// Identifiers that are used again begin with counters at 0.
    fn clear_new(&self, compiled: &Compiled, known: &Known) {
        for id in &compiled.fresh {
            let Some(at) = known.counters_at(*id, self.cpu_count) else { continue };
            self.memory.write(at, &vec![0; self.cpu_count as usize * COUNTERS_BYTES]);
        }
        // So do limiters that the last ruleset did not have; states of rules that are gone may
        // still hold some.
        for number in compiled.fresh_limiters.iter().filter(|_| known.limiter_counts_at != 0) {
            let at = known.limiter_counts_at + number * limiter_counts::SIZE_BYTES;
            for field in [
                limiter_counts::PACED,
                limiter_counts::ADMITTED,
                limiter_counts::HARD_LIMITED,
                limiter_counts::RATE_LIMITED,
                limiter_counts::SOURCES_LIMITED,
                limiter_counts::SOURCE_MAKES,
                limiter_counts::NO_MEMORY,
            ] {
                self.memory.store64(at + field, 0);
            }
        }
    }

    /// Lets an image go with its tables, once no packet can be reading them any more.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub(crate) fn retire_image(&self, at: u32, now_ns: u64) -> Result<(), HeapError> {
        if at == 0 || at == BLANK_AT {
            return Ok(());
        }
        let until = now_ns + GRACE_NS;
        for word in self.directory(at) {
            let table = self.memory.load32(word);
            if table != 0 && !prefix::typed::is_typed(self.memory, table) {
                self.heap.retire(table, until)?;
            }
        }
        self.heap.retire(at, until)
    }

    /// Offsets of the words of an image's directory.
    fn directory(&self, image_at: u32) -> Vec<u32> {
        if image_at == 0 || self.memory.load32(image_at) != IMAGE_MAGIC {
            return Vec::new();
        }
        let first = image_at + self.memory.load32(image_at + image::TABLES_AT);
        let count = self.memory.load32(image_at + image::TABLE_COUNT);
        (0..count).map(|index| first + index * 4).collect()
    }

    /// Gives a table of the active ruleset new content, all at once.
    ///
    /// # Errors
    /// [`InstallError`]; nothing has changed then.
    pub fn replace_table(
        &self,
        index: usize,
        entries: &[TableEntry],
        now_ns: u64,
    ) -> Result<(), InstallError> {
        let directory = self.directory(self.memory.load32(control::ACTIVE));
        let Some(word) = directory.get(index) else { return Ok(()) };
        let at = self.place_table(entries)?;
        let old = self.memory.load32(*word);
        self.memory.store32(*word, at);
        if old != 0 {
            self.heap.retire(old, now_ns + GRACE_NS)?;
        }
        Ok(())
    }

    /// Takes entries out of a table of the active ruleset, and puts others into it, without a copy
    /// of it. `false` if it needs new content instead: then some may have come and gone.
    #[must_use]
    pub(crate) fn change_table(
        &self,
        index: usize,
        removed: &[(IpAddr, u8)],
        added: &[TableEntry],
    ) -> bool {
        let directory = self.directory(self.memory.load32(control::ACTIVE));
        let found = directory.get(index).map(|word| self.memory.load32(*word));
        found.is_some_and(|at| prefix::change(self.memory, at, removed, added))
    }

    /// What a table of the active ruleset holds, sorted.
    #[must_use]
    pub fn table_entries(&self, index: usize) -> Vec<TableEntry> {
        let directory = self.directory(self.memory.load32(control::ACTIVE));
        let found = directory.get(index).map(|word| self.memory.load32(*word));
        found.map_or_else(Vec::new, |at| prefix::entries(self.memory, at))
    }

    /// How many entries a table of the active ruleset has.
    #[must_use]
    pub fn table_entry_count(&self, index: usize) -> u64 {
        let directory = self.directory(self.memory.load32(control::ACTIVE));
        let found = directory.get(index).map(|word| self.memory.load32(*word));
        found.map_or(0, |at| prefix::entry_count(self.memory, at))
    }
}

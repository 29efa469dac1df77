//! The heap of the shared memory: rulesets, contents of tables and counters of rules, which come
//! and go while the data path runs.
//!
//! Its book-keeping is in the heap itself, so that a restarted daemon goes on where the last one
//! died: blocks lie one behind the other from the heap's first byte to its last, each with a header
//! of one cache line that says how long it is and what it holds. Every change is one store of a
//! word or a store into what nobody reads yet, so that the chain is whole at any moment. There is
//! one writer, the daemon.
//!
//! Blocks that the data path may still be reading are *retired* with the time from which they may
//! be reused, and become free when that has passed.

/// Memory that is addressed by offsets from its start: the arena, or bytes in a test. Offsets are
/// multiples of the word that is read or written.
pub trait Memory {
    /// A 32-bit word.
    fn load32(&self, at: u32) -> u32;
    /// Stores a 32-bit word at once.
    fn store32(&self, at: u32, value: u32);
    /// Sets bits of a 32-bit word of which somebody else may set others.
    fn set_bits(&self, at: u32, bits: u32);
    /// A 64-bit word.
    fn load64(&self, at: u32) -> u64;
    /// Stores a 64-bit word at once.
    fn store64(&self, at: u32, value: u64);

    /// Makes sure that there is memory, before anything is written there.
    ///
    /// # Errors
    /// What the system said.
    fn populate(&self, _at: u32, _byte_count: u32) -> Result<(), String> {
        Ok(())
    }

    /// Copies bytes, whole words at a time; `at` is a multiple of 8.
    fn write(&self, at: u32, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut at = at;
        for word in words {
            self.store64(at, u64::from_ne_bytes(*word));
            at += 8;
        }
        if !rest.is_empty() {
            let mut last = [0_u8; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.store64(at, u64::from_ne_bytes(last));
        }
    }

    /// Reads bytes; `at` is a multiple of 8.
    fn read(&self, at: u32, byte_count: u32) -> Vec<u8> {
        let words = (0..byte_count.div_ceil(8)).map(|word| self.load64(at + word * 8));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        bytes.truncate(byte_count as usize);
        bytes
    }
}

/// Of a block's header, and what blocks are aligned to.
pub const HEADER_BYTES: u32 = 64;
const MAGIC: u32 = 0x7765_6862;

const MAGIC_AT: u32 = 0;
const BYTES_AT: u32 = 4;
const KIND_AT: u32 = 8;
const RETIRED_AT: u32 = 16;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Free,
    /// A compiled ruleset.
    Image,
    /// The content of a table.
    Prefixes,
    /// Counters of rules.
    Counters,
    /// What the daemon knows of what runs.
    Document,
}

const KINDS: [Kind; 5] = [Kind::Free, Kind::Image, Kind::Prefixes, Kind::Counters, Kind::Document];

/// Why the heap could not serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// It is full.
    #[error(
        "the rules, tables and counters need {needed_bytes} bytes at once, and the largest free \
         part of their {heap_bytes} bytes is {largest_bytes}"
    )]
    Full {
        /// What was asked for.
        needed_bytes: u64,
        /// The largest free block.
        largest_bytes: u32,
        /// The whole heap.
        heap_bytes: u32,
    },
    /// The system has no memory.
    #[error("{0}")]
    Memory(String),
    /// The chain of blocks is broken.
    #[error(
        "the heap of the shared memory is damaged at offset {at}; `weir fw stop` and start again"
    )]
    Damaged {
        /// Offset of the header that is none.
        at: u32,
    },
}

/// A block, as [`Heap::blocks`] shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Offset of its content.
    pub at: u32,
    /// Bytes of its content.
    pub byte_count: u32,
    /// What it holds.
    pub kind: Kind,
    /// When it may be reused, if it is retired: nanoseconds of the clock that [`Heap::retire`] got.
    pub retired_until_ns: Option<u64>,
}

/// The allocator.
#[derive(Debug)]
pub struct Heap<'m, M: ?Sized> {
    memory: &'m M,
    start: u32,
    byte_count: u32,
}

impl<'m, M: Memory + ?Sized> Heap<'m, M> {
    /// Makes a heap of one free block. `start` and `byte_count` are multiples of
    /// [`HEADER_BYTES`].
    ///
    /// # Errors
    /// [`HeapError::Memory`] if the system has none.
    pub fn format(memory: &'m M, start: u32, byte_count: u32) -> Result<Self, HeapError> {
        let heap = Self { memory, start, byte_count };
        memory.populate(start, HEADER_BYTES).map_err(HeapError::Memory)?;
        heap.header(start, byte_count, Kind::Free);
        Ok(heap)
    }

    /// The heap that is there already.
    ///
    /// # Errors
    /// [`HeapError::Damaged`] if the chain of blocks does not end where the heap does.
    pub fn adopt(memory: &'m M, start: u32, byte_count: u32) -> Result<Self, HeapError> {
        let heap = Self { memory, start, byte_count };
        heap.blocks()?;
        Ok(heap)
    }

    fn header(&self, at: u32, byte_count: u32, kind: Kind) {
        let code = KINDS.iter().position(|known| *known == kind).unwrap_or(0);
        self.memory.store32(at + KIND_AT, u32::try_from(code).unwrap_or(0));
        self.memory.store64(at + RETIRED_AT, 0);
        self.memory.store32(at + BYTES_AT, byte_count);
        self.memory.store32(at + MAGIC_AT, MAGIC);
    }

    fn end(&self) -> u64 {
        u64::from(self.start) + u64::from(self.byte_count)
    }

    /// All blocks in the order of their places.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub fn blocks(&self) -> Result<Vec<Block>, HeapError> {
        let mut blocks = Vec::new();
        let mut at = u64::from(self.start);
        while at < self.end() {
            let header = u32::try_from(at).unwrap_or(u32::MAX);
            let magic = self.memory.load32(header + MAGIC_AT);
            let bytes = self.memory.load32(header + BYTES_AT);
            let kind = KINDS.get(self.memory.load32(header + KIND_AT) as usize);
            let fits = bytes >= HEADER_BYTES && at + u64::from(bytes) <= self.end();
            let (Some(kind), true) = (kind, magic == MAGIC && fits) else {
                return Err(HeapError::Damaged { at: header });
            };
            let retired = self.memory.load64(header + RETIRED_AT);
            blocks.push(Block {
                at: header + HEADER_BYTES,
                byte_count: bytes - HEADER_BYTES,
                kind: *kind,
                retired_until_ns: (retired != 0).then_some(retired),
            });
            at += u64::from(bytes);
        }
        Ok(blocks)
    }

    /// Finds room, and returns the offset of its first byte, a multiple of 64. The content is
    /// whatever was there. The pages of the arena come to be when they are written.
    ///
    /// # Errors
    /// [`HeapError::Full`].
    pub(crate) fn allocate(&self, byte_count: usize, kind: Kind) -> Result<u32, HeapError> {
        let block_bytes = (byte_count as u64).div_ceil(u64::from(HEADER_BYTES)) + 1;
        let block_bytes = block_bytes * u64::from(HEADER_BYTES);
        let blocks = self.blocks()?;
        let free = blocks.iter().filter(|block| block.kind == Kind::Free);
        let bytes_of = |block: &Block| block.byte_count + HEADER_BYTES;
        let found = free.clone().filter(|block| u64::from(bytes_of(block)) >= block_bytes);
        let Some(found) = found.min_by_key(|block| block.byte_count) else {
            return Err(HeapError::Full {
                needed_bytes: block_bytes,
                largest_bytes: free.map(bytes_of).max().unwrap_or(0),
                heap_bytes: self.byte_count,
            });
        };
        let (at, has) = (found.at - HEADER_BYTES, bytes_of(found));
        let block_bytes = u32::try_from(block_bytes).unwrap_or(u32::MAX);
        let touched = has.min(block_bytes + HEADER_BYTES);
        self.memory.populate(at, touched).map_err(HeapError::Memory)?;
        if has - block_bytes >= 2 * HEADER_BYTES {
            self.header(at + block_bytes, has - block_bytes, Kind::Free);
            self.memory.store32(at + BYTES_AT, block_bytes);
        }
        let code = KINDS.iter().position(|known| *known == kind).unwrap_or(0);
        self.memory.store32(at + KIND_AT, u32::try_from(code).unwrap_or(0));
        Ok(at + HEADER_BYTES)
    }

    /// Frees a block that nobody reads; joins it with its free neighbours.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub fn free(&self, at: u32) -> Result<(), HeapError> {
        let header = at - HEADER_BYTES;
        if self.memory.load32(header + MAGIC_AT) != MAGIC {
            return Err(HeapError::Damaged { at: header });
        }
        self.memory.store32(header + KIND_AT, 0);
        self.memory.store64(header + RETIRED_AT, 0);
        self.join()
    }

    /// Says that a block may be freed from `until_ns` on (not 0), by a clock that goes on across
    /// restarts of the daemon.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub(crate) fn retire(&self, at: u32, until_ns: u64) -> Result<(), HeapError> {
        let header = at - HEADER_BYTES;
        if self.memory.load32(header + MAGIC_AT) != MAGIC {
            return Err(HeapError::Damaged { at: header });
        }
        self.memory.store64(header + RETIRED_AT, until_ns.max(1));
        Ok(())
    }

    /// Frees the retired blocks whose time has come, and says how many there were.
    ///
    /// # Errors
    /// [`HeapError::Damaged`].
    pub fn reap(&self, now_ns: u64) -> Result<usize, HeapError> {
        let mut count = 0;
        for block in self.blocks()? {
            if block.retired_until_ns.is_some_and(|until| until <= now_ns) {
                let header = block.at - HEADER_BYTES;
                self.memory.store32(header + KIND_AT, 0);
                self.memory.store64(header + RETIRED_AT, 0);
                count += 1;
            }
        }
        self.join()?;
        Ok(count)
    }

    /// Joins neighbours that are free: the first one's length grows over the second in one store.
    fn join(&self) -> Result<(), HeapError> {
        let blocks = self.blocks()?;
        let mut last: Option<(u32, u32)> = None;
        for block in blocks {
            if block.kind != Kind::Free {
                last = None;
                continue;
            }
            let bytes = block.byte_count + HEADER_BYTES;
            last = Some(match last {
                None => (block.at - HEADER_BYTES, bytes),
                Some((at, before)) => {
                    self.memory.store32(at + BYTES_AT, before + bytes);
                    (at, before + bytes)
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Memory of a test.
    pub(crate) struct Bytes(RefCell<Vec<u8>>);

    impl Bytes {
        pub(crate) fn new(byte_count: usize) -> Self {
            Self(RefCell::new(vec![0xa5; byte_count]))
        }
    }

    impl Memory for Bytes {
        fn load32(&self, at: u32) -> u32 {
            let at = at as usize;
            u32::from_ne_bytes(self.0.borrow()[at..at + 4].try_into().unwrap())
        }

        fn store32(&self, at: u32, value: u32) {
            let at = at as usize;
            self.0.borrow_mut()[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }

        fn set_bits(&self, at: u32, bits: u32) {
            self.store32(at, self.load32(at) | bits);
        }

        fn load64(&self, at: u32) -> u64 {
            let at = at as usize;
            u64::from_ne_bytes(self.0.borrow()[at..at + 8].try_into().unwrap())
        }

        fn store64(&self, at: u32, value: u64) {
            let at = at as usize;
            self.0.borrow_mut()[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
    }

    #[test]
    fn blocks_are_split_joined_and_adopted() {
        let memory = Bytes::new(8192);
        let heap = Heap::format(&memory, 1024, 4096).unwrap();
        let first = heap.allocate(100, Kind::Image).unwrap();
        let second = heap.allocate(64, Kind::Counters).unwrap();
        let third = heap.allocate(1, Kind::Prefixes).unwrap();
        assert_eq!((first, second, third), (1088, 1088 + 192, 1088 + 192 + 128));
        memory.write(first, &[7; 100]);
        assert_eq!(memory.read(first, 100), [7; 100]);

        heap.retire(second, 50).unwrap();
        assert_eq!(heap.reap(49).unwrap(), 0);
        assert_eq!(heap.reap(50).unwrap(), 1);
        let again = Heap::adopt(&memory, 1024, 4096).unwrap();
        let kinds: Vec<_> = again.blocks().unwrap().iter().map(|block| block.kind).collect();
        assert_eq!(kinds, [Kind::Image, Kind::Free, Kind::Prefixes, Kind::Free]);
        again.free(first).unwrap();
        again.free(third).unwrap();
        assert_eq!(again.blocks().unwrap().len(), 1);
        assert_eq!(again.blocks().unwrap()[0].byte_count, 4096 - 64);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_figures() {
        let memory = Bytes::new(4096);
        let heap = Heap::format(&memory, 0, 4096).unwrap();
        heap.allocate(2000, Kind::Image).unwrap();
        let error = heap.allocate(4000, Kind::Image).unwrap_err();
        let (largest_bytes, heap_bytes) = (4096 - 2048 - 64, 4096);
        assert_eq!(error, HeapError::Full { needed_bytes: 4096, largest_bytes, heap_bytes });
        memory.store32(2112, 0);
        assert_eq!(heap.allocate(1, Kind::Image), Err(HeapError::Damaged { at: 2112 }));
    }
}

//! What a restarted daemon needs to go on, as JSON in the heap of the shared memory: identifiers of
//! rules, names of tables, what is loaded into anchors, baselines.
//!
//! A document says which image it is about, and is announced before that image becomes the active
//! one, with the offset of the document before it: whoever adopts takes the one that is about what
//! is active, wherever the daemon before was killed.

use serde::{Deserialize, Serialize};
use weir_bpf::firewall::layout::{BLANK_AT, control};

use super::counters::Totals;
use super::source::Source;
use super::tables::{KeptTable, Tables};
use super::typed::{KeptTyped, TypedTables};
use super::{Engine, Refused, clock};
use crate::compile::TableName;
use crate::compile::known::Known;
use crate::heap::{Kind, Memory};
use crate::install::{GRACE_NS, Installer};
use crate::protocol::Load;

/// The length of the text stands in front of it, so that one store replaces both.
const LENGTH_BYTES: u32 = 8;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) known: Known,
    pub(super) anchors: Vec<Load>,
    pub(super) tables: Vec<KeptTable>,
    #[serde(default)]
    pub(super) typed: Vec<KeptTyped>,
    pub(super) baseline: Totals,
    pub(super) debug: String,
    pub(super) started_unix_s: i64,
    pub(super) seed: u64,
    /// Offset of the image that it is about.
    image_at: u32,
    /// Offset of the document that was there when it was written; 0: none. It is there for as long
    /// as `image_at` is not the active image.
    before_at: u32,
}

/// What a document says of a ruleset.
pub(super) struct About<'a> {
    pub(super) known: &'a Known,
    pub(super) anchors: &'a [Source],
    pub(super) tables: &'a Tables,
    pub(super) typed: &'a TypedTables,
    pub(super) directory: &'a [TableName],
    pub(super) image_at: u32,
}

impl Document {
    fn at<M: Memory + ?Sized>(memory: &M, at: u32) -> Result<Self, Refused> {
        let size = u32::try_from(memory.load64(at)).unwrap_or(0);
        let bytes = memory.read(at + LENGTH_BYTES, size);
        serde_json::from_slice(&bytes).map_err(|error| damaged(&error))
    }

    /// Reads what a daemon has written about the active image; `None` if nothing ever was active.
    /// What is about an image that did not become the active one is given back to the heap.
    pub(super) fn adopt<M: Memory + ?Sized>(
        installer: &Installer<'_, M>,
        memory: &M,
        now_ns: u64,
    ) -> Result<Option<Self>, Refused> {
        let active = memory.load32(control::ACTIVE);
        let at = memory.load32(control::DOCUMENT_AT);
        if active == BLANK_AT || at == 0 {
            return Ok(None);
        }
        let newest = Self::at(memory, at)?;
        if newest.image_at == active {
            return Ok(Some(newest));
        }
        if newest.before_at == 0 {
            return Err(damaged(&"they are about other rules"));
        }
        let document = Self::at(memory, newest.before_at)?;
        if document.image_at != active {
            return Err(damaged(&"they are about other rules"));
        }
        announce(memory, newest.before_at);
        let slabs = newest.known.slabs.iter().filter(|slab| !document.known.slabs.contains(slab));
        let until_ns = now_ns + GRACE_NS;
        let retired = slabs.chain([&at]).try_for_each(|at| installer.heap().retire(*at, until_ns));
        retired.map_err(Refused::because)?;
        installer.retire_image(newest.image_at, now_ns).map_err(Refused::because)?;
        Ok(Some(document))
    }

    /// Puts it into the heap; nobody finds it there before [`announce`].
    fn put<M: Memory + ?Sized>(
        &self,
        installer: &Installer<'_, M>,
        memory: &M,
    ) -> Result<u32, Refused> {
        let text = serde_json::to_vec(self).map_err(Refused::because)?;
        let mut bytes = u64::try_from(text.len()).unwrap_or(0).to_ne_bytes().to_vec();
        bytes.extend(text);
        let at = installer.heap().allocate(bytes.len(), Kind::Document);
        let at = at.map_err(Refused::because)?;
        memory.write(at, &bytes);
        Ok(at)
    }
}

fn damaged(cause: &dyn std::fmt::Display) -> Refused {
    Refused(format!(
        "the running firewall left notes that cannot be read ({cause}): `weir fw stop` and start \
         it again"
    ))
}

/// Makes a document the one that is found first; gives the offset of the one before, or 0.
pub(super) fn announce<M: Memory + ?Sized>(memory: &M, at: u32) -> u32 {
    let old = memory.load32(control::DOCUMENT_AT);
    memory.store32(control::DOCUMENT_AT, at);
    old
}

impl Engine {
    /// Writes the document anew.
    pub(super) fn write_document(&self) -> Result<(), Refused> {
        let about = About {
            known: &self.known,
            anchors: &self.anchors,
            tables: &self.tables,
            typed: &self.typed,
            directory: &self.directory,
            image_at: self.firewall.arena().read32(control::ACTIVE),
        };
        let at = self.put_document(&about)?;
        self.retire_document(announce(self.firewall.arena(), at))
    }

    /// Puts a document into the heap, and gives its offset.
    pub(super) fn put_document(&self, about: &About<'_>) -> Result<u32, Refused> {
        let arena = self.firewall.arena();
        let document = Document {
            known: about.known.clone(),
            anchors: about.anchors.iter().map(|source| source.load.clone()).collect(),
            tables: about.tables.kept(about.directory),
            typed: about.typed.kept(),
            baseline: self.baseline.clone(),
            debug: self.debug.clone(),
            started_unix_s: self.started_unix_s,
            seed: self.seed,
            image_at: about.image_at,
            before_at: arena.read32(control::DOCUMENT_AT),
        };
        document.put(&self.installer()?, arena)
    }

    /// Lets a document go that is no longer found.
    pub(super) fn retire_document(&self, at: u32) -> Result<(), Refused> {
        if at == 0 {
            return Ok(());
        }
        let until_ns = clock::boot_ns() + GRACE_NS;
        self.installer()?.heap().retire(at, until_ns).map_err(Refused::because)
    }
}

//! What a restarted daemon needs to go on, as JSON in the heap of the shared memory: identifiers of
//! rules, names of tables, what is loaded into anchors, baselines.

use serde::{Deserialize, Serialize};
use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::control;

use super::counters::Totals;
use super::tables::KeptTable;
use super::{Engine, Refused, clock};
use crate::compile::known::Known;
use crate::heap::{Kind, Memory};
use crate::install::GRACE_NS;
use crate::protocol::Load;

/// The length of the text stands in front of it, so that one store replaces both.
const LENGTH_BYTES: u32 = 8;

/// The document.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) known: Known,
    pub(super) anchors: Vec<Load>,
    pub(super) tables: Vec<KeptTable>,
    pub(super) baseline: Totals,
    pub(super) debug: String,
    pub(super) started_unix_s: i64,
    pub(super) seed: u64,
}

impl Document {
    /// Reads what a daemon has written; `None` if there is none.
    pub(super) fn read(firewall: &Firewall) -> Result<Option<Self>, Refused> {
        let arena = firewall.arena();
        let at = arena.read32(control::DOCUMENT_AT);
        if at == 0 {
            return Ok(None);
        }
        let size = u32::try_from(arena.read64(at)).unwrap_or(0);
        let bytes = Memory::read(arena, at + LENGTH_BYTES, size);
        let document = serde_json::from_slice(&bytes);
        document.map(Some).map_err(|error| {
            Refused(format!(
                "the firewall that runs left notes that cannot be read ({error}): `weir fw stop` \
                 and start it again"
            ))
        })
    }
}

impl Engine {
    /// Writes the document anew.
    pub(super) fn write_document(&self) -> Result<(), Refused> {
        let document = Document {
            known: self.known.clone(),
            anchors: self.anchors.iter().map(|own| own.load.clone()).collect(),
            tables: self.tables.kept(&self.directory),
            baseline: self.baseline.clone(),
            debug: self.debug.clone(),
            started_unix_s: self.started_unix_s,
            seed: self.seed,
        };
        let text = serde_json::to_vec(&document).map_err(Refused::because)?;
        let mut bytes = u64::try_from(text.len()).unwrap_or(0).to_ne_bytes().to_vec();
        bytes.extend(text);
        let installer = self.installer()?;
        let heap = installer.heap();
        let at = heap.allocate(bytes.len(), Kind::Document).map_err(Refused::because)?;
        let arena = self.firewall.arena();
        Memory::write(arena, at, &bytes);
        let old = arena.read32(control::DOCUMENT_AT);
        arena.write32(control::DOCUMENT_BYTES, u32::try_from(bytes.len()).unwrap_or(0));
        arena.write32(control::DOCUMENT_AT, at);
        if old != 0 {
            heap.retire(old, clock::boot_ns() + GRACE_NS).map_err(Refused::because)?;
        }
        Ok(())
    }
}

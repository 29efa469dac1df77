//! A ruleset on its way to the daemon: the text and every file that it names, as this process reads
//! them. The daemon opens no file that a client names.

use std::cell::RefCell;

use weir_fw::protocol::{Bytes, Load, LoadParts, NamedFile};
use weir_rules::Compiled;
use weir_rules::source::SourceProvider;

use super::files::Disk;
use super::load::Language;

/// Files of this machine, remembered as they are read.
#[derive(Default)]
struct Recorder {
    disk: Disk,
    files: RefCell<Vec<NamedFile>>,
}

impl SourceProvider for Recorder {
    fn read(&self, path: &str, from: &str) -> Result<Vec<u8>, String> {
        let bytes = self.disk.read(path, from)?;
        let mut files = self.files.borrow_mut();
        if !files.iter().any(|file| file.path == path && file.from == from) {
            files.push(NamedFile {
                path: path.to_owned(),
                from: from.to_owned(),
                bytes: Bytes::new(&bytes),
            });
        }
        Ok(bytes)
    }
}

/// Compiles a text here, so that all that is wrong is told at once, and packs it for the daemon.
pub(crate) fn prepare(language: &Language, name: &str, bytes: &[u8]) -> (Compiled, Load) {
    let recorder = Recorder::default();
    let mut compiled = language.compile_with(name, bytes, &recorder);
    for load in compiled.ruleset.loads.clone() {
        // That it is missing is a warning already; the daemon refuses it.
        let Ok(inner) = recorder.read(&load.file, name) else { continue };
        let inner = language.compile_with(&load.file, &inner, &recorder);
        compiled.error_count += inner.error_count;
        if inner.error_count > 0 {
            super::show::diagnostics(&inner.diagnostics, &inner.sources, inner.dropped_count);
        }
    }
    let load = Load {
        name: name.to_owned(),
        text: Bytes::new(bytes),
        files: recorder.files.into_inner(),
        macros: language.macros.clone(),
        dialect: Some(compiled.ruleset.dialect.as_str().to_owned()),
        level: None,
        anchor: String::new(),
        parts: LoadParts::ALL,
        is_merged: false,
        pid: std::process::id(),
    };
    (compiled, load)
}

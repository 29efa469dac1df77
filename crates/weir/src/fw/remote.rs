//! A ruleset on its way to the daemon: the text, every file that it names, as this process reads
//! them, and the addresses of its host names. The daemon opens no file that a client names, and
//! asks for no name.

use std::cell::RefCell;

use weir_fw::protocol::{Bytes, Load, LoadParts, NamedFile};
use weir_rules::Compiled;
use weir_rules::source::SourceProvider;
use weir_rules::value::Text;

use super::files::Disk;
use super::load::Language;
use super::names::Names;

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

/// A text as it is read here, so that all that is wrong is said at once, and what goes to the
/// daemon.
pub(crate) struct Prepared {
    pub(crate) compiled: Compiled,
    /// The files that it loads into anchors, with their paths.
    pub(crate) anchors: Vec<(Text, Compiled)>,
    pub(crate) load: Load,
}

impl Prepared {
    /// Errors of all files.
    pub(crate) fn error_count(&self) -> usize {
        let of_anchors: usize = self.anchors.iter().map(|(_, anchor)| anchor.error_count).sum();
        self.compiled.error_count + of_anchors
    }

    /// Shows what is said of the files of anchors with errors.
    pub(crate) fn show_anchors(&self) {
        for (_, anchor) in self.anchors.iter().filter(|(_, anchor)| anchor.error_count > 0) {
            super::show::diagnostics(&anchor.diagnostics, &anchor.sources, anchor.dropped_count);
        }
    }
}

/// Compiles a text, and packs it for the daemon. An anchor's path is empty for the main ruleset.
pub(crate) fn prepare(language: &Language, name: &str, bytes: &[u8], anchor: &str) -> Prepared {
    let recorder = Recorder::default();
    let compiled = if anchor.is_empty() {
        language.compile_with(name, bytes, &recorder)
    } else {
        language.compile_anchor(name, bytes, &recorder)
    };
    let anchors = language.anchors(&compiled, name, &recorder);
    let load = Load {
        name: name.to_owned(),
        text: Bytes::new(bytes),
        files: recorder.files.into_inner(),
        macros: language.macros.clone(),
        hosts: language.names.as_ref().map(Names::found).unwrap_or_default(),
        pipes: String::new(),
        dialect: Some(compiled.ruleset.dialect.as_str().to_owned()),
        level: None,
        anchor: anchor.to_owned(),
        parts: LoadParts::ALL,
        is_merged: false,
        pid: std::process::id(),
    };
    Prepared { compiled, anchors, load }
}

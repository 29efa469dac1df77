//! What the tests of fixtures share.

use std::path::PathBuf;

use weir_rules::source::SourceProvider;

/// The files of a directory, for `include` and tables.
pub(crate) struct Directory(pub(crate) PathBuf);

impl SourceProvider for Directory {
    fn read(&self, path: &str, _from: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(path)).map_err(|_| "no such file".to_owned())
    }
}

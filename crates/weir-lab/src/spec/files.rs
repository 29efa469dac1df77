//! Where a specification's files come from: the disk, or memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The largest file that is read, in bytes. A ruleset of a million rules is smaller.
pub const FILE_SIZE_BYTES_MAX: u64 = 16 << 20;

/// The most files of a configuration tree.
const TREE_FILES_MAX: usize = 10_000;

/// Finds and reads text files.
pub trait FileSource {
    /// Where the file is that a specification in `folder` calls `name`.
    fn locate(&self, folder: &Path, name: &str) -> PathBuf {
        folder.join(name)
    }

    /// The content of the file at `path`.
    ///
    /// # Errors
    /// When there is no such file, or it is not text, or larger than [`FILE_SIZE_BYTES_MAX`].
    fn read(&self, path: &Path) -> Result<String>;

    /// What is in the folder at `path`, whose name ends with `/`: a line a file, sorted, with its
    /// permission bits in octal, a blank, and its path from there.
    ///
    /// # Errors
    /// When there is no such folder, or it holds what is neither a file nor a folder.
    fn manifest(&self, path: &Path) -> Result<String> {
        self.read(path)
    }
}

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskFiles;

impl FileSource for DiskFiles {
    fn read(&self, path: &Path) -> Result<String> {
        // Opening a named pipe may never return, and reading a device may never end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_SIZE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_SIZE_BYTES_MAX {
            let message = format!("it is larger than {} MiB", FILE_SIZE_BYTES_MAX >> 20);
            return Err(Error::new(ErrorKind::FileTooLarge, message));
        }
        String::from_utf8(bytes)
            .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))
    }

    fn manifest(&self, path: &Path) -> Result<String> {
        let mut lines = Vec::new();
        let mut folders = vec![(path.to_owned(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_str().filter(|name| !name.contains('\n'));
                let Some(name) = name.map(|name| format!("{prefix}{name}")) else {
                    let shown = entry.path();
                    return Err(Error::other(format!("the name of {shown:?} is not plain text")));
                };
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push((entry.path(), format!("{name}/")));
                } else if kind.is_file() {
                    let mode = entry.metadata()?.permissions().mode() & 0o7777;
                    lines.push((name, mode));
                } else {
                    return Err(Error::other(format!("{name} in it is neither file nor folder")));
                }
                if lines.len() > TREE_FILES_MAX {
                    let message = format!("it holds more than {TREE_FILES_MAX} files");
                    return Err(Error::other(message));
                }
            }
        }
        lines.sort();
        Ok(lines.into_iter().map(|(name, mode)| format!("{mode:o} {name}\n")).collect())
    }
}

/// Files in memory, by path.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles(pub BTreeMap<PathBuf, String>);

impl FileSource for MemoryFiles {
    fn read(&self, path: &Path) -> Result<String> {
        let missing = || Error::new(ErrorKind::NotFound, "No such file or directory (os error 2)");
        self.0.get(path).cloned().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_refuses_what_is_not_a_text_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let read = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("writing a test file");
            DiskFiles.read(&path).map_err(|e| e.to_string())
        };
        assert_eq!(read("good", "é\n".as_bytes()), Ok("é\n".into()));
        assert_eq!(read("bytes", &[0xff]), Err("it is not text in UTF-8".into()));
        let large = vec![b' '; usize::try_from(FILE_SIZE_BYTES_MAX).expect("fits") + 1];
        assert_eq!(read("large", &large), Err("it is larger than 16 MiB".into()));
        let folder_error = DiskFiles.read(folder.path()).expect_err("a folder").to_string();
        assert_eq!(folder_error, "it is not a regular file");
        let missing = DiskFiles.read(&folder.path().join("none")).expect_err("missing");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }
}

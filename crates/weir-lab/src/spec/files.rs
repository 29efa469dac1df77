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

/// The most folders below each other in a configuration tree.
const TREE_DEPTH_MAX: usize = 32;

/// Finds and reads text files.
pub trait FileSource {
    /// Where the file is that a specification in `folder` calls `name`.
    fn locate(&self, folder: &Path, name: &str) -> PathBuf {
        folder.join(name)
    }

    /// The content of the file at `path`.
    ///
    /// # Errors
    /// When there is no such file, or it is larger than [`FILE_SIZE_BYTES_MAX`].
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>>;

    /// The text in the file at `path`.
    ///
    /// # Errors
    /// Those of [`FileSource::read_bytes`], or when it is not text.
    fn read(&self, path: &Path) -> Result<String> {
        String::from_utf8(self.read_bytes(path)?)
            .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))
    }

    /// What is in the folder at `path`, whose name ends with `/`: a line a file, sorted, with its
    /// permission bits in octal, a blank, and its path from there. Symbolic links stand for what
    /// they lead to, as for scp(1).
    ///
    /// # Errors
    /// When there is no such folder, or it holds what is neither a file nor a folder nor a link to
    /// one of those.
    fn manifest(&self, path: &Path) -> Result<String> {
        self.read(path)
    }
}

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskFiles;

impl FileSource for DiskFiles {
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        // Opening a named pipe may never return, and reading a device may never end.
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(Error::other("it is a directory; name the file in it"));
        }
        if !metadata.is_file() {
            return Err(Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_SIZE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_SIZE_BYTES_MAX {
            let message = format!("it is larger than {} MiB", FILE_SIZE_BYTES_MAX >> 20);
            return Err(Error::new(ErrorKind::FileTooLarge, message));
        }
        Ok(bytes)
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
                let found = std::fs::metadata(entry.path()).map_err(|error| {
                    Error::new(error.kind(), format!("{name} in it cannot be read: {error}"))
                })?;
                if found.is_dir() {
                    if name.split('/').count() > TREE_DEPTH_MAX {
                        let message = format!(
                            "{name} in it is more than {TREE_DEPTH_MAX} directories deep; does a \
                             symbolic link lead in a circle?"
                        );
                        return Err(Error::other(message));
                    }
                    folders.push((entry.path(), format!("{name}/")));
                } else if found.is_file() {
                    lines.push((name, found.permissions().mode() & 0o7777));
                } else {
                    return Err(Error::other(format!(
                        "{name} in it is neither file nor directory"
                    )));
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
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        let missing = || Error::new(ErrorKind::NotFound, "No such file or directory (os error 2)");
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_refuses_what_is_not_a_text_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let read = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("writing a test file");
            DiskFiles.read(&path).map_err(|e| e.to_string())
        };
        assert_eq!(read("good", "é\n".as_bytes()), Ok("é\n".into()));
        assert_eq!(read("bytes", &[0xff]), Err("it is not text in UTF-8".into()));
        let large = vec![b' '; usize::try_from(FILE_SIZE_BYTES_MAX).expect("fits") + 1];
        assert_eq!(read("large", &large), Err("it is larger than 16 MiB".into()));
        let folder_error = DiskFiles.read(folder.path()).expect_err("a directory").to_string();
        assert_eq!(folder_error, "it is a directory; name the file in it");
        let device_error = DiskFiles.read(Path::new("/dev/null")).expect_err("a device");
        assert_eq!(device_error.to_string(), "it is not a regular file");
        let missing = DiskFiles.read(&folder.path().join("none")).expect_err("missing");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn links_in_a_tree_stand_for_what_they_lead_to() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| folder.path().join(name);
        for made in ["set/etc", "common"] {
            std::fs::create_dir_all(at(made)).expect("a directory");
        }
        for (name, mode) in [("common/motd", 0o644), ("common/key", 0o600)] {
            std::fs::write(at(name), [0xff, 0]).expect("a file");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(at(name), mode).expect("its permissions");
        }
        symlink("../../common/key", at("set/etc/key")).expect("a link to a file");
        symlink("../../common", at("set/etc/all")).expect("a link to a directory");
        let listed = DiskFiles.manifest(&at("set/")).map_err(|e| e.to_string());
        assert_eq!(listed, Ok("600 etc/all/key\n644 etc/all/motd\n600 etc/key\n".to_owned()));
        assert_eq!(DiskFiles.read_bytes(&at("set/etc/key")).expect("its bytes"), [0xff, 0]);

        symlink("..", at("set/etc/up")).expect("a link in a circle");
        let refused = DiskFiles.manifest(&at("set/")).expect_err("a circle").to_string();
        assert!(refused.contains("directories deep"), "{refused}");
        std::fs::remove_file(at("set/etc/up")).expect("the link goes");
        symlink("nowhere", at("set/etc/lost")).expect("a link to nothing");
        let refused = DiskFiles.manifest(&at("set/")).expect_err("a lost link").to_string();
        assert!(refused.starts_with("etc/lost in it cannot be read: No such file"), "{refused}");
    }
}

//! SHA-256 of files that are too large to be held in memory, such as images.
//!
//! Nothing is remembered from one reading to the next: a file may have been replaced since, with
//! its times as they were.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::cancel::Cancel;

/// A file of this size takes about a second to be read, and that is told.
pub(crate) const LARGE_FILE_BYTES: u64 = 256 << 20;

const CHUNK_BYTES: usize = 1 << 20;

/// How files are read: who may end it, and who is told of a large one, with its size in bytes.
pub struct Reader<'a> {
    /// Ends the reading.
    pub cancel: &'a Cancel,
    /// Is called before a file of [`LARGE_FILE_BYTES`] or more is read.
    pub tell: &'a dyn Fn(&Path, u64),
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("cancel", self.cancel).finish_non_exhaustive()
    }
}

impl Reader<'_> {
    /// The SHA-256 of a file, in hexadecimal digits.
    ///
    /// # Errors
    /// When it cannot be read to its end, or is no file, or the reading is ended.
    pub fn sha256(&self, path: &Path) -> io::Result<String> {
        self.sha256_of(LARGE_FILE_BYTES, path)
    }

    fn sha256_of(&self, large_bytes: u64, path: &Path) -> io::Result<String> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // A pipe or a device would be read for ever, or differ each time.
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if metadata.len() >= large_bytes {
            (self.tell)(path, metadata.len());
        }
        sha256(file, self.cancel)
    }
}

/// The SHA-256 of what is left in a file, in hexadecimal digits.
///
/// # Errors
/// When it cannot be read, or somebody asked to stop.
pub fn sha256(mut file: File, cancel: &Cancel) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if cancel.signal().is_some() {
            return Err(io::Error::other("stopped by a signal before it was read to its end"));
        }
        match file.read(&mut chunk)? {
            0 => break,
            count => digest.update(&chunk[..count]),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_and_a_large_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (small, large) = (dir.path().join("small"), dir.path().join("large"));
        std::fs::write(&small, "abc").unwrap();
        // More than is read at a time.
        let large_bytes = 4 << 20;
        File::create(&large).unwrap().set_len(large_bytes).unwrap();
        let reported = RefCell::new(Vec::new());
        let tell = |path: &Path, size: u64| reported.borrow_mut().push((path.to_owned(), size));
        let cancel = Cancel::default();
        let reader = Reader { cancel: &cancel, tell: &tell };
        let sha256 = |path: &Path| reader.sha256_of(large_bytes, path);
        assert_eq!(
            sha256(&small).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(reported.borrow().is_empty());
        // As sha256sum(1) prints it for 4 MiB of zeros.
        assert_eq!(
            sha256(&large).unwrap(),
            "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"
        );
        assert_eq!(*reported.borrow(), [(large.clone(), large_bytes)]);
        assert!(
            reader.sha256(dir.path()).is_err() && reader.sha256(Path::new("/dev/null")).is_err()
        );
        cancel.request(2);
        assert!(sha256(&large).unwrap_err().to_string().contains("signal"));
    }
}

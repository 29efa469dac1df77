//! One lab at a time: two would measure each other, and nothing in their figures would show it.
//!
//! A lock on a file of the registry's directory, which goes with the process that holds it. It
//! says nothing of other programs that use the same CPUs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;

use weir_net::registry::REGISTRY_DIR;

use crate::testbed::TestbedError;

/// The right to measure on this host.
#[derive(Debug)]
pub(super) struct Exclusive(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl Exclusive {
    /// Takes the right, or says who has it.
    pub(super) fn take() -> Result<Self, TestbedError> {
        Self::take_in(Path::new(REGISTRY_DIR))
    }

    fn take_in(directory: &Path) -> Result<Self, TestbedError> {
        let path = directory.join("measuring.lock");
        let error = |e: std::io::Error| TestbedError::new(format!("{}: {e}", path.display()));
        fs::create_dir_all(directory).map_err(error)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Without the number the message still says what matters.
                drop(file.read_to_string(&mut owner));
                return Err(TestbedError::new(format!(
                    "another lab is measuring on this host (process {}); two at once would \
                     measure each other: wait until it has ended",
                    owner.trim()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(error(e)),
        }
        file.set_len(0).map_err(error)?;
        writeln!(file, "{}", std::process::id()).map_err(error)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_is_first_and_may_go_on_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = Exclusive::take_in(dir.path()).unwrap();
        let error = Exclusive::take_in(dir.path()).unwrap_err();
        assert!(error.what.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        assert!(Exclusive::take_in(dir.path()).is_ok());
    }
}

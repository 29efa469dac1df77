//! One lab at a time: two would measure each other, and nothing in their figures would show it.
//!
//! A lock on a file of the registry's directory, which goes with the process that holds it. It
//! says nothing of other programs that use the same CPUs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use weir_machine::cancel::Cancel;
use weir_net::registry::REGISTRY_DIR;

use crate::testbed::TestbedError;

/// How often a lab that waits looks whether the other one has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The right to measure on this host.
#[derive(Debug)]
pub(super) struct Exclusive(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl Exclusive {
    /// Takes the right, or says who has it when it has waited for so long, or was asked to stop.
    pub(super) fn take(wait: Duration, cancel: &Cancel) -> Result<Self, TestbedError> {
        Self::take_in(Path::new(REGISTRY_DIR), wait, cancel)
    }

    fn take_in(directory: &Path, wait: Duration, cancel: &Cancel) -> Result<Self, TestbedError> {
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
        let deadline = cancel.now() + wait;
        let taken = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock)
                    if cancel.now() < deadline && cancel.sleep(LOOK_AGAIN) => {}
                taken => break taken,
            }
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Without the number the message still says what matters.
                drop(file.read_to_string(&mut owner));
                return Err(TestbedError::new(format!(
                    "another lab is measuring on this host (process {}); two at once would \
                     measure each other: wait until it has ended, \
                     with --wait 10m for example",
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
        let take = |wait| Exclusive::take_in(dir.path(), wait, &Cancel::default());
        let first = take(Duration::ZERO).unwrap();
        let error = take(Duration::ZERO).unwrap_err();
        assert!(error.what.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        assert!(take(Duration::ZERO).is_ok());
    }

    #[test]
    fn one_that_waits_begins_when_the_first_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let take = |wait, cancel: &Cancel| Exclusive::take_in(dir.path(), wait, cancel);
        let first = take(Duration::ZERO, &Cancel::default()).unwrap();
        let hour = Duration::from_secs(3600);
        // By a clock that only waiting advances.
        let error = take(hour, &Cancel::simulated()).unwrap_err();
        assert!(error.what.contains("another lab is measuring"), "{error}");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| take(hour, &Cancel::default()).map(drop));
            drop(first);
            second.join().unwrap().unwrap();
        });
    }
}

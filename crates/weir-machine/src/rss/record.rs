//! The settings that an interface had before weir changed them, on disk until they are back.
//!
//! One file for each interface, written before the first change, whole or not at all. It outlives
//! the process, so that `weir rss undo` finds it after a crash; it does not outlive a boot, which
//! forgets the settings too. While somebody changes an interface again and again, the file is
//! locked: nobody else changes it then.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use weir_bpf::namespace::network_cookie;
use weir_rss::card::State;

/// Where the records are.
pub const RECORDS_DIR: &str = "/run/weir/rss";

/// How long a lock is tried for, and how often. A program that another thread of this process
/// starts has the file, and so the lock, until it is executed.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);
const LOCK_STEP: Duration = Duration::from_millis(5);

/// What an interface was set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Its name, and its index, which a later interface of that name does not have.
    pub interface: String,
    pub ifindex: u32,
    /// [`network_cookie`]: the directory's name may be that of a namespace that is gone.
    pub netns_cookie: u64,
    /// Empty if it does not show it.
    pub key: Vec<u8>,
    pub table: Vec<u32>,
    /// As [`State::fields`].
    pub fields: [Option<u64>; 4],
}

/// Why a record cannot be kept, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system refuses.
    #[error("cannot {verb} the record of former settings {}: {source}", path.display())]
    System { verb: &'static str, path: PathBuf, source: io::Error },
    /// Somebody has changed the file.
    #[error("{} is not a record of former settings: {source}; remove it", path.display())]
    Unreadable { path: PathBuf, source: serde_json::Error },
    /// Another process changes the interface.
    #[error(
        "another `weir rss set` or `weir rss balance` changes interface `{interface}`: wait for it \
         to end, or stop it"
    )]
    Locked { interface: String },
}

/// The records of the interfaces of a network namespace.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
    netns_cookie: u64,
    /// An interface that nobody else changes, as long as this lives.
    held: Option<(String, File)>,
}

/// A record, locked for this process.
#[derive(Debug)]
pub struct Record {
    pub former: Former,
    /// Whether it was written now: nothing was changed before.
    pub is_new: bool,
    path: PathBuf,
    _lock: File,
}

impl Records {
    /// Those of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`RecordError::System`] if `/proc` is not there.
    pub fn here() -> Result<Self, RecordError> {
        Self::of_namespace(Path::new(RECORDS_DIR))
    }

    /// The same below another directory.
    pub(crate) fn of_namespace(directory: &Path) -> Result<Self, RecordError> {
        use std::os::unix::fs::MetadataExt as _;
        const NETNS: &str = "/proc/thread-self/ns/net";
        let meta = fs::metadata(NETNS);
        let meta = meta.map_err(|source| system("look for", Path::new(NETNS), source))?;
        let netns_cookie =
            network_cookie().map_err(|source| system("look for", Path::new(NETNS), source))?;
        Ok(Self { directory: directory.join(meta.ino().to_string()), netns_cookie, held: None })
    }

    /// Keeps others from changing an interface as long as this lives.
    ///
    /// # Errors
    /// [`RecordError`] if another process has it.
    pub fn hold(&mut self, interface: &str) -> Result<(), RecordError> {
        self.held = Some((interface.to_owned(), self.lock(interface)?));
        Ok(())
    }

    /// The record of an interface: the one that is there, or a new one of this state.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be written, or another process has it.
    pub fn keep(&self, interface: &str, state: &State) -> Result<Record, RecordError> {
        let lock = self.lock(interface)?;
        if let Some(record) = self.read(interface, &lock)? {
            return Ok(record);
        }
        let former = Former {
            interface: interface.to_owned(),
            ifindex: ifindex(interface),
            netns_cookie: self.netns_cookie,
            key: state.key.clone(),
            table: state.table.clone(),
            fields: state.fields,
        };
        let path = self.path(interface);
        let failed = |source| system("write", &path, source);
        let text = serde_json::to_vec_pretty(&former)
            .map_err(|source| RecordError::Unreadable { path: path.clone(), source })?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(Record { former, is_new: true, path, _lock: lock })
    }

    /// The record of an interface, if there is one.
    ///
    /// # Errors
    /// [`RecordError`] if it cannot be read, or another process has it.
    pub fn find(&self, interface: &str) -> Result<Option<Record>, RecordError> {
        if !self.path(interface).exists() {
            return Ok(None);
        }
        let lock = self.lock(interface)?;
        self.read(interface, &lock)
    }

    fn read(&self, interface: &str, lock: &File) -> Result<Option<Record>, RecordError> {
        let path = self.path(interface);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(system("read", &path, source)),
        };
        let former: Former = serde_json::from_slice(&text)
            .map_err(|source| RecordError::Unreadable { path: path.clone(), source })?;
        if (former.ifindex, former.netns_cookie) != (ifindex(interface), self.netns_cookie) {
            // Of an interface that is gone: what has its name now was never changed.
            return Ok(None);
        }
        let lock = lock.try_clone().map_err(|source| system("lock", &path, source))?;
        Ok(Some(Record { former, is_new: false, path, _lock: lock }))
    }

    fn path(&self, interface: &str) -> PathBuf {
        self.directory.join(format!("{interface}.json"))
    }

    /// Keeps others from changing the interface as long as the file is open.
    fn lock(&self, interface: &str) -> Result<File, RecordError> {
        let path = self.directory.join(format!("{interface}.lock"));
        let failed = |source| system("lock", &path, source);
        if let Some((_, file)) = self.held.as_ref().filter(|(held, _)| held == interface) {
            return file.try_clone().map_err(failed);
        }
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(LOCK_STEP);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(RecordError::Locked { interface: interface.to_owned() });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }
}

impl Record {
    /// Forgets the former settings.
    ///
    /// # Errors
    /// [`RecordError`] if the file cannot be removed.
    pub fn remove(self) -> Result<(), RecordError> {
        fs::remove_file(&self.path).map_err(|source| system("remove", &self.path, source))
    }
}

fn system(verb: &'static str, path: &Path, source: io::Error) -> RecordError {
    RecordError::System { verb, path: path.to_owned(), source }
}

/// The index of an interface; 0, which none has, if it is not there.
fn ifindex(interface: &str) -> u32 {
    nix::net::if_::if_nametoindex(interface).unwrap_or(0)
}

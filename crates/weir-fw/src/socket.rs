//! Where the control socket of a network namespace is: a file in a directory that nobody but root
//! may enter, named by the namespace's inode.
//!
//! An abstract socket would belong to the namespace by itself, but its name to whoever takes it
//! first, and everybody could connect. The price is that a command finds the daemon only where it
//! sees the daemon's `/run`.
//!
//! Two files stand for a daemon: the socket, and the lock that it holds for as long as it lives.
//! Both go with it; what one that was killed has left is removed by the next start, of whichever
//! namespace. This module never looks at who connects, and reads and writes nothing.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The directory of all control sockets.
pub const DIRECTORY: &str = "/run/weir/fw";
/// The calling thread's network namespace: `/proc/net` is the main thread's.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
const LOCK: &str = "lock";
/// How often somebody who cleans up may hold a lock in passing, and for how long it is waited.
const LOCK_TRIES: u32 = 100;
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The directory is somebody else's, or open to others.
    #[error(
        "{} {found}, and whoever could write there could pass for the firewall: nothing was sent; \
         remove it (`rm -r {}`), and start again",
        path.display(), path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// A daemon has it.
    #[error("a weir fw runs already")]
    Taken,
    /// The system refused something.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> SocketError {
    let path = path.to_owned();
    move |source| SocketError::System { path, source }
}

/// The name of this network namespace's socket.
fn name() -> Result<String, SocketError> {
    let namespace = fs::metadata(NAMESPACE).map_err(system(Path::new(NAMESPACE)))?;
    Ok(format!("net-{}", namespace.ino()))
}

/// Nobody but root may have anything to do with it. `None`: it is not there.
fn check(path: &Path, forbidden_mode: u32) -> Result<Option<()>, SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system(path)(error)),
    };
    let mode = found.mode() & 0o7777;
    let found = if !found.is_dir() {
        "is not a directory".to_owned()
    } else if found.uid() != 0 {
        format!("belongs to user {}, and not to root", found.uid())
    } else if mode & forbidden_mode != 0 {
        format!("is open to others (mode {mode:o})")
    } else {
        return Ok(Some(()));
    };
    Err(SocketError::Foreign { path: path.to_owned(), found })
}

fn check_both(directory: &Path) -> Result<Option<()>, SocketError> {
    let above = directory.parent().unwrap_or(directory);
    Ok(check(above, 0o022)?.and(check(directory, 0o077)?))
}

/// The directory, made if it is not there.
///
/// # Errors
///
/// [`SocketError`] if it cannot be made, or is not root's alone.
pub fn directory() -> Result<&'static Path, SocketError> {
    let directory = Path::new(DIRECTORY);
    prepare(directory)?;
    Ok(directory)
}

fn prepare(directory: &Path) -> Result<(), SocketError> {
    let above = directory.parent().unwrap_or(directory);
    for (path, mode) in [(above, 0o755), (directory, 0o700)] {
        match DirBuilder::new().mode(mode).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(system(path)(error));
            }
            _ => {}
        }
    }
    check_both(directory).map(drop)
}

/// Connects to the daemon of this network namespace; `None` if there is none.
///
/// # Errors
///
/// [`SocketError`] if the directory is not root's alone, or may not be entered.
pub(crate) fn connect() -> Result<Option<UnixStream>, SocketError> {
    connect_in(Path::new(DIRECTORY), &name()?)
}

fn connect_in(directory: &Path, name: &str) -> Result<Option<UnixStream>, SocketError> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    if check_both(directory)?.is_none() {
        return Ok(None);
    }
    let path = directory.join(name);
    match UnixStream::connect(&path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => Ok(None),
        Err(error) => Err(system(&path)(error)),
    }
}

/// A socket that listens; its files go with it.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    // Behind the socket: it is let go of when that is gone.
    _lock: Lock,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have been removed by somebody.
        drop(fs::remove_file(&self.path));
    }
}

/// Listens for commands of this network namespace.
///
/// # Errors
///
/// [`SocketError::Taken`] if a daemon does already.
pub(crate) fn listen() -> Result<Listening, SocketError> {
    listen_in(Path::new(DIRECTORY), &name()?)
}

fn listen_in(directory: &Path, name: &str) -> Result<Listening, SocketError> {
    prepare(directory)?;
    let mut tries = 0;
    let lock = loop {
        if let Some(lock) = Lock::take(&directory.join(name).with_extension(LOCK))? {
            break lock;
        }
        tries += 1;
        if tries >= LOCK_TRIES || connect_in(directory, name)?.is_some() {
            return Err(SocketError::Taken);
        }
        thread::sleep(LOCK_POLL);
    };
    remove_left(directory);
    let path = directory.join(name);
    drop(fs::remove_file(&path));
    let listener = UnixListener::bind(&path).map_err(system(&path))?;
    Ok(Listening { listener, path, _lock: lock })
}

/// Removes what daemons have left that were killed. What cannot be removed harms nobody.
fn remove_left(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == LOCK)
            && let Ok(Some(_lock)) = Lock::take(&path)
        {
            drop(fs::remove_file(path.with_extension("")));
        }
    }
}

/// A file that is locked by whoever has it open, and removed by them.
#[derive(Debug)]
struct Lock {
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// `None`: somebody has it.
    fn take(path: &Path) -> Result<Option<Self>, SocketError> {
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(path).map_err(system(path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(system(path)(error)),
            }
            // Whoever had it may have removed the file between the two.
            let locked = file.metadata().map_err(system(path))?;
            if fs::symlink_metadata(path).is_ok_and(|now| now.ino() == locked.ino()) {
                return Ok(Some(Self { _file: file, path: path.to_owned() }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is locked: whoever opens it now sees that it is no longer the one.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    /// `None`, and the reason is printed, without root: the directories have to be root's.
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn place() -> Option<(tempfile::TempDir, PathBuf)> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: the directory of sockets needs root");
            return None;
        }
        let above = tempfile::tempdir().unwrap();
        let directory = above.path().join("fw");
        Some((above, directory))
    }

    #[test]
    fn one_listens_and_leaves_nothing() {
        let Some((_above, directory)) = place() else { return };
        assert!(connect_in(&directory, "net-1").unwrap().is_none(), "no directory");
        let listening = listen_in(&directory, "net-1").unwrap();
        assert!(connect_in(&directory, "net-1").unwrap().is_some());
        assert!(matches!(listen_in(&directory, "net-1"), Err(SocketError::Taken)));
        assert!(connect_in(&directory, "net-2").unwrap().is_none(), "another namespace's");
        let other = listen_in(&directory, "net-2").unwrap();
        drop(listening);
        assert!(connect_in(&directory, "net-1").unwrap().is_none());
        drop(other);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_daemon_left_is_removed() {
        let Some((_above, directory)) = place() else { return };
        prepare(&directory).unwrap();
        for name in ["net-1", "net-2"] {
            drop(UnixListener::bind(directory.join(name)).unwrap());
            fs::write(directory.join(name).with_extension(LOCK), "").unwrap();
        }
        assert!(connect_in(&directory, "net-1").unwrap().is_none(), "nobody listens");
        let listening = listen_in(&directory, "net-1").unwrap();
        assert!(connect_in(&directory, "net-1").unwrap().is_some());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "its socket and its lock");
        drop(listening);
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let Some((above, directory)) = place() else { return };
        let refusal = |directory: &Path| {
            let listens = listen_in(directory, "net-1").unwrap_err().to_string();
            let connects = connect_in(directory, "net-1").unwrap_err().to_string();
            assert_eq!(listens, connects);
            assert!(listens.contains("rm -r"), "{listens}");
            listens
        };
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(refusal(&directory).contains("mode 770"));
        chown(&directory, Some(65_534), None).unwrap();
        assert!(refusal(&directory).contains("user 65534"));
        fs::remove_dir(&directory).unwrap();
        fs::write(&directory, "").unwrap();
        assert!(refusal(&directory).contains("not a directory"));
        fs::remove_file(&directory).unwrap();
        chown(above.path(), Some(65_534), None).unwrap();
        assert!(refusal(&directory).contains("user 65534"));
        chown(above.path(), Some(0), None).unwrap();
        assert!(listen_in(&directory, "net-1").is_ok());
    }
}

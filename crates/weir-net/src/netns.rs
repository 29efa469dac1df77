//! Named network namespaces, compatible with `ip netns` (see ip-netns(8)), and threads inside them.
//!
//! A name is a bind mount of the namespace on `/run/netns/NAME`; that directory is a shared mount
//! point, so that names made here are seen, and can be removed, in every mount namespace.
//!
//! A closure runs inside a namespace on a thread of its own, which has a mount namespace of its
//! own with a fresh sysfs, so that `/sys/class/net` shows the interfaces of that namespace (as
//! `ip netns exec` does). Threads and processes started by the closure are inside too.
//!
//! Two traps for code inside: `/proc/net` and `/proc/self/net` belong to the *main* thread's
//! namespace (use `/proc/thread-self/net`), whereas `/proc/sys/net` follows the calling thread.
//!
//! This module never moves the calling thread to another namespace.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs, statfs};

use crate::error::describe;

/// Where `ip netns` keeps the names.
pub(crate) const NETNS_DIR: &str = "/run/netns";

/// A namespace of the calling thread, as a file.
const THREAD_NETNS: &str = "/proc/thread-self/ns/net";

/// Names may be stacked by mistake (a mount over a mount); this many are taken off.
const STACKED_MOUNTS_MAX: usize = 16;

/// Why a network namespace could not be made, entered or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The name cannot be the name of a namespace.
    #[error("`{name}` cannot name a network namespace: {reason}")]
    BadName {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The name is taken.
    #[error(
        "network namespace `{name}` exists already; remove it with `ip netns delete {name}` \
         (or `weir lab clean`, if an earlier run left it)"
    )]
    Exists { name: String },
    /// There is no namespace of that name.
    #[error("there is no network namespace `{name}`; `ip netns list` shows those that exist")]
    Missing { name: String },
    /// The file of that name is no namespace.
    #[error("`{}` is not a network namespace but an ordinary file; remove it", path.display())]
    NotANamespace {
        /// The file.
        path: PathBuf,
    },
    /// The calling thread has a mount namespace of its own, in which a name would not be seen by
    /// others.
    #[error(
        "network namespace `{name}` cannot be {operation} from inside another one: do it outside \
         `Netns::run`"
    )]
    Inside {
        name: String,
        /// `created` or `deleted`.
        operation: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {operation} network namespace `{name}`: {step}: {}", describe(source))]
    System {
        name: String,
        /// `create`, `open`, `enter`, `delete`.
        operation: &'static str,
        /// The step that failed.
        step: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// A named network namespace.
///
/// The value holds the namespace open: it stays alive, even if its name is removed by others,
/// until the value is dropped. Dropping it does not remove the name; [`Netns::delete`] does, and
/// so does dropping a [`NetnsGuard`].
#[derive(Debug)]
pub struct Netns {
    name: String,
    path: PathBuf,
    file: File,
    inode: u64,
}

impl Netns {
    /// Makes a new namespace and its name, with nothing in it but a loopback interface that is
    /// down.
    ///
    /// # Errors
    ///
    /// If the name is bad or taken, if called inside [`Netns::run`], or if the system refuses.
    pub fn create(name: &str) -> Result<Self, NetnsError> {
        check_name(name)?;
        outside_only(name, "created")?;
        let system = |step| {
            move |source| NetnsError::System {
                name: name.to_owned(),
                operation: "create",
                step,
                source,
            }
        };
        prepare_directory().map_err(system("preparing /run/netns"))?;
        let path = Path::new(NETNS_DIR).join(name);
        OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path).map_err(
            |error| {
                if error.kind() == io::ErrorKind::AlreadyExists {
                    NetnsError::Exists { name: name.to_owned() }
                } else {
                    system("making its file")(error)
                }
            },
        )?;
        let made = bind_new_namespace(&path);
        match made {
            Ok(file) => Self::from_file(name, path, file).map_err(system("reading its inode")),
            Err((step, error)) => {
                let _ = umount2(&path, MntFlags::MNT_DETACH);
                let _ = fs::remove_file(&path);
                Err(system(step)(error))
            }
        }
    }

    /// Opens the namespace of that name.
    ///
    /// # Errors
    ///
    /// If there is none, or the file of that name is no namespace.
    pub fn open(name: &str) -> Result<Self, NetnsError> {
        check_name(name)?;
        let path = Path::new(NETNS_DIR).join(name);
        let system = |step| {
            move |source| NetnsError::System {
                name: name.to_owned(),
                operation: "open",
                step,
                source,
            }
        };
        let file = File::open(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                NetnsError::Missing { name: name.to_owned() }
            } else {
                system("opening its file")(error)
            }
        })?;
        let kind = fstatfs(&file).map_err(io::Error::from).map_err(system("statfs"))?;
        if kind.filesystem_type() != NSFS_MAGIC {
            return Err(NetnsError::NotANamespace { path });
        }
        Self::from_file(name, path, file).map_err(system("reading its inode"))
    }

    fn from_file(name: &str, path: PathBuf, file: File) -> io::Result<Self> {
        let inode = file.metadata()?.ino();
        Ok(Self { name: name.to_owned(), path, file, inode })
    }

    /// Removes the name. The namespace itself goes, with its interfaces, once no process and no
    /// open file holds it any more.
    ///
    /// # Errors
    ///
    /// If the name is gone already, if called inside [`Netns::run`], or if the system refuses.
    pub fn delete(self) -> Result<(), NetnsError> {
        delete(&self.name)
    }

    /// The same namespace with a guard that deletes it when dropped.
    #[must_use]
    pub fn guard(self) -> NetnsGuard {
        NetnsGuard(self)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for the namespace, `/run/netns/NAME`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The namespace's inode number, the `N` of `net:[N]` in `/proc/PID/ns/net`: the way to find
    /// the processes inside ([`crate::process::processes_in_netns`]).
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Runs the closure inside the namespace, on a thread of its own, and returns what it returns.
    ///
    /// Threads and processes that the closure starts are inside too. A panic in the closure goes
    /// on in the caller.
    ///
    /// # Errors
    ///
    /// If the thread cannot be made or cannot enter; the closure has not run then.
    pub fn run<F, R>(&self, closure: F) -> Result<R, NetnsError>
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        thread::scope(|scope| {
            let worker = thread::Builder::new()
                .name(format!("netns {}", self.name))
                .spawn_scoped(scope, || {
                    enter(&self.name, self.file.as_fd())?;
                    Ok(closure())
                })
                .map_err(|source| self.thread_error(source))?;
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Like [`Netns::run`], but the caller goes on at once and joins the thread later.
    ///
    /// # Errors
    ///
    /// If the thread cannot be made or cannot enter; the closure has not run then.
    pub fn spawn<F, R>(&self, closure: F) -> Result<NetnsThread<R>, NetnsError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let name = self.name.clone();
        let file = self.file.try_clone().map_err(|source| self.thread_error(source))?;
        let (entered, wait) = mpsc::sync_channel(1);
        let worker = thread::Builder::new()
            .name(format!("netns {name}"))
            .spawn(move || {
                let result = enter(&name, file.as_fd());
                // The closure may run for long; this handle must not outlive the guard's.
                drop(file);
                let inside = result.is_ok();
                let _ = entered.send(result);
                inside.then(closure)
            })
            .map_err(|source| self.thread_error(source))?;
        match wait.recv() {
            Ok(result) => result.map(|()| NetnsThread(worker)),
            Err(_) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(_) => Err(self.thread_error(io::Error::other("it ended before it was inside"))),
            },
        }
    }

    fn thread_error(&self, source: io::Error) -> NetnsError {
        NetnsError::System {
            name: self.name.clone(),
            operation: "enter",
            step: "starting a thread",
            source,
        }
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A thread started by [`Netns::spawn`]. Dropping it leaves the thread running.
#[derive(Debug)]
pub struct NetnsThread<R>(thread::JoinHandle<Option<R>>);

impl<R> NetnsThread<R> {
    /// Waits for the closure and returns what it returned.
    ///
    /// # Panics
    ///
    /// If the closure panicked: its panic goes on here.
    #[must_use]
    pub fn join(self) -> R {
        match self.0.join() {
            Ok(Some(result)) => result,
            Ok(None) => unreachable!("a thread that could not enter is never handed out"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Whether the closure has returned.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// A namespace that is deleted when the guard is dropped; it derefs to [`Netns`].
#[derive(Debug)]
pub struct NetnsGuard(Netns);

impl NetnsGuard {
    /// Deletes the namespace now, and says if that failed (a drop cannot).
    ///
    /// # Errors
    ///
    /// As [`Netns::delete`].
    pub fn delete(self) -> Result<(), NetnsError> {
        delete(&self.0.name)
    }
}

impl std::ops::Deref for NetnsGuard {
    type Target = Netns;

    fn deref(&self) -> &Netns {
        &self.0
    }
}

impl Drop for NetnsGuard {
    fn drop(&mut self) {
        // Gone already is what was wanted; nothing else can be reported from here.
        let _ = delete(&self.0.name);
    }
}

/// The names of all namespaces, sorted, as `ip netns list` shows them.
///
/// # Errors
///
/// If `/run/netns` exists but cannot be read.
pub fn list() -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(NETNS_DIR) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Removes the name of a namespace, also if it is only the empty file of a creation that was cut
/// off in the middle. See [`Netns::delete`].
///
/// # Errors
///
/// If there is none of that name, if called inside [`Netns::run`], or if the system refuses.
pub fn delete(name: &str) -> Result<(), NetnsError> {
    check_name(name)?;
    outside_only(name, "deleted")?;
    let path = Path::new(NETNS_DIR).join(name);
    let system = |step| {
        move |source: io::Error| {
            if source.kind() == io::ErrorKind::NotFound {
                NetnsError::Missing { name: name.to_owned() }
            } else {
                NetnsError::System { name: name.to_owned(), operation: "delete", step, source }
            }
        }
    };
    for _ in 0..STACKED_MOUNTS_MAX {
        match umount2(&path, MntFlags::MNT_DETACH) {
            Ok(()) => {}
            // Not (or no longer) a mount point: only the file is left.
            Err(nix::Error::EINVAL) => break,
            Err(error) => return Err(system("unmounting it")(error.into())),
        }
    }
    fs::remove_file(&path).map_err(system("removing its file"))
}

/// The inode number of the calling thread's network namespace.
///
/// # Errors
///
/// If `/proc` is not there.
pub(crate) fn current_inode() -> io::Result<u64> {
    Ok(fs::metadata(THREAD_NETNS)?.ino())
}

/// Whether the calling thread's network namespace is that of the first process: the host's, or its
/// container's. Where nobody may look at that process, one that has no name counts as the host's.
///
/// # Errors
///
/// If `/proc` or `/run/netns` cannot be read.
pub fn is_of_host() -> io::Result<bool> {
    let here = current_inode()?;
    if let Ok(first) = fs::metadata("/proc/1/ns/net") {
        return Ok(first.ino() == here);
    }
    let is_here = |name: &String| {
        fs::metadata(Path::new(NETNS_DIR).join(name)).is_ok_and(|meta| meta.ino() == here)
    };
    Ok(!list()?.iter().any(is_here))
}

/// The other network namespaces that have a name or a process, each once, as files to enter it by.
///
/// # Errors
///
/// If `/proc` cannot be read.
pub(crate) fn others() -> io::Result<Vec<PathBuf>> {
    let here = current_inode()?;
    let mut namespaces = BTreeMap::new();
    let named = fs::read_dir(NETNS_DIR).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path().join("ns/net"));
    for path in named.chain(of_processes) {
        if let Ok(meta) = fs::metadata(&path)
            && meta.ino() != here
        {
            namespaces.entry((meta.dev(), meta.ino())).or_insert(path);
        }
    }
    Ok(namespaces.into_values().collect())
}

/// Runs the closure in each other network namespace that has a name or a process, on a thread that
/// goes there. Those that cannot be entered are passed over.
///
/// # Errors
///
/// If `/proc` cannot be read.
pub fn for_all_others(closure: impl Fn() + Sync) -> io::Result<()> {
    for path in others()? {
        // One that has just gone, or is a file that is no namespace.
        let Ok(file) = File::open(&path) else { continue };
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                if setns(file, CloneFlags::CLONE_NEWNET).is_ok() {
                    closure();
                }
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
    Ok(())
}

/// Checks that the name can be a file name in `/run/netns`, and an argument of `ip netns`.
pub(crate) fn check_name(name: &str) -> Result<(), NetnsError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > 255 {
        "it is longer than 255 bytes"
    } else if name == "." || name == ".." {
        "it is a directory"
    } else if name.starts_with('-') {
        "it begins with a hyphen"
    } else if name.contains(|c: char| c == '/' || c.is_control() || c.is_whitespace()) {
        "it contains a slash, a space or a control character"
    } else {
        return Ok(());
    };
    Err(NetnsError::BadName { name: name.to_owned(), reason })
}

/// A thread that is inside a namespace has a mount namespace of its own: a name that it mounted
/// or unmounted there would be so for that thread alone.
fn outside_only(name: &str, operation: &'static str) -> Result<(), NetnsError> {
    let thread = fs::metadata("/proc/thread-self/ns/mnt").map(|meta| meta.ino());
    let process = fs::metadata("/proc/self/ns/mnt").map(|meta| meta.ino());
    match (thread, process) {
        (Ok(thread), Ok(process)) if thread != process => {
            Err(NetnsError::Inside { name: name.to_owned(), operation })
        }
        _ => Ok(()),
    }
}

/// Makes `/run/netns` a shared mount point, as `ip netns add` does, so that names propagate.
fn prepare_directory() -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(NETNS_DIR)?;
    // Two processes that make the first name at once would mount the directory twice; `ip` takes
    // the same lock.
    let directory = File::open(NETNS_DIR)?;
    directory.lock()?;
    let share = || {
        mount(
            None::<&str>,
            NETNS_DIR,
            None::<&str>,
            MsFlags::MS_SHARED | MsFlags::MS_REC,
            None::<&str>,
        )
    };
    match share() {
        Err(nix::Error::EINVAL) => {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(NETNS_DIR), NETNS_DIR, None::<&str>, flags, None::<&str>)?;
            share()?;
            Ok(())
        }
        other => Ok(other?),
    }
}

/// Makes a namespace on a thread of its own (the calling thread must stay where it is) and binds
/// it to the file.
fn bind_new_namespace(path: &Path) -> Result<File, (&'static str, io::Error)> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("netns create".to_owned())
            .spawn_scoped(scope, || {
                unshare(CloneFlags::CLONE_NEWNET).map_err(|e| ("unshare", e.into()))?;
                let flags = MsFlags::MS_BIND;
                mount(Some(THREAD_NETNS), path, None::<&str>, flags, None::<&str>)
                    .map_err(|e| ("mounting it on its file", e.into()))?;
                File::open(path).map_err(|e| ("opening its file", e))
            })
            .map_err(|e| ("starting a thread", e))?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread into the namespace, with a mount namespace and a sysfs of its own.
/// Only for threads made for it: there is no way back.
fn enter(name: &str, namespace: BorrowedFd<'_>) -> Result<(), NetnsError> {
    let system = |step| {
        move |error: nix::Error| NetnsError::System {
            name: name.to_owned(),
            operation: "enter",
            step,
            source: error.into(),
        }
    };
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(system("setns"))?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(system("unshare"))?;
    // Slave rather than private: what is mounted here stays here, but a name that is removed
    // outside goes here too. A private copy would keep the namespace alive for as long as the
    // thread, or a daemon started by it, runs.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_SLAVE | MsFlags::MS_REC, None::<&str>)
        .map_err(system("making its mounts its own"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(name), "/sys", Some("sysfs"), flags, None::<&str>).map_err(system("mounting sysfs"))
}

/// Whether the path is a mounted namespace rather than an ordinary file.
pub(crate) fn is_namespace(path: &Path) -> bool {
    statfs(path).is_ok_and(|status| status.filesystem_type() == NSFS_MAGIC)
}

#[cfg(test)]
mod tests;

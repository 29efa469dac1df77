//! Threaded NAPI: a kernel thread per receive queue, and the CPU it runs on.
//!
//! Without it, a veth's packets are processed by the CPU that sent them: generator and DUT would
//! share a core. See `Documentation/networking/napi.rst` in the kernel tree.
//!
//! **The order of calls matters.** A veth has NAPI instances only while it is up *and* has an XDP
//! program attached or GRO switched on. So: link up, then GRO on (or XDP attached), then
//! [`set_threaded`], then [`pin_expecting`]. Setting the link down, or switching off GRO and
//! XDP, ends the threads; those made afterwards are new ones, not pinned.
//!
//! All functions act on the namespace of the calling thread, and expect its `/sys` to show it
//! (inside [`crate::Netns::run`] it does). They never touch a thread of another namespace's
//! interface of the same name: from Linux 6.8 on the kernel says which thread belongs to which
//! interface (the `netdev` generic-netlink family); before, a name that exists in two namespaces
//! is refused, and threads of a deleted namespace's interface are told by there being too many:
//! [`threads_expecting`].

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

use crate::cpu::{self, CpuError, CpuList};
use crate::error::describe;
use crate::genetlink;
use crate::link::check_name;
use crate::netlink::NetlinkError;
use crate::netns::others;
use crate::procfs;

const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_PID: u16 = 4;

/// How long to wait before the threads are looked for again.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The kernel thread of one NAPI instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NapiThread {
    /// The NAPI instance's id, unique on the host.
    pub napi_id: u32,
    /// The thread's process id.
    pub pid: i32,
}

/// Why NAPI could not be switched, or its threads not be found or pinned.
#[derive(Debug, thiserror::Error)]
pub enum NapiError {
    /// The name cannot be an interface's.
    #[error(transparent)]
    Name(#[from] NetlinkError),
    /// There is no interface of that name, or `/sys` shows another namespace's.
    #[error("there is no interface `{link}` in this network namespace's /sys/class/net")]
    NoLink {
        /// The interface.
        link: String,
    },
    /// The interface has no NAPI instance.
    #[error(
        "cannot switch threaded NAPI on interface `{link}`: {}; a veth has NAPI only while it is \
         up with GRO on or an XDP program attached",
        describe(source)
    )]
    NoNapi {
        /// The interface.
        link: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel is too old.
    #[error("interface `{link}` has no `threaded` setting: the kernel is older than 5.12")]
    NoThreaded {
        /// The interface.
        link: String,
    },
    /// The kernel refused.
    #[error("cannot {action} of interface `{link}`: {}", describe(source))]
    System {
        /// The interface.
        link: String,
        /// What was to be done.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Before Linux 6.8: the threads' names do not tell which namespace they belong to.
    #[error(
        "cannot tell the NAPI threads of interface `{link}` from those of an interface of the \
         same name in network namespace {other}: give it a different name, or use Linux 6.8 or \
         later"
    )]
    Ambiguous {
        /// The interface.
        link: String,
        /// The other namespace, by path.
        other: String,
    },
    /// There are not as many threads as there should be.
    #[error(
        "interface `{link}` should have {expected} NAPI threads, one per receive queue, but has \
         {}: {found:?}; is it up, with GRO on or an XDP program attached, and threaded NAPI on?",
        found.len()
    )]
    Count {
        /// The interface.
        link: String,
        /// How many there should be.
        expected: u32,
        /// The process ids of those that are there.
        found: Vec<i32>,
    },
    /// A thread could not be pinned.
    #[error(transparent)]
    Pin(#[from] CpuError),
}

/// Switches threaded NAPI on or off for all queues of an interface.
///
/// # Errors
///
/// If there is no such interface, it has no NAPI at the moment, or the kernel refuses.
pub fn set_threaded(link: &str, on: bool) -> Result<(), NapiError> {
    let path = sysfs(link)?.join("threaded");
    let value = if on { "1" } else { "0" };
    fs::write(&path, value).map_err(|source| match source.raw_os_error() {
        Some(code) if code == nix::Error::EOPNOTSUPP as i32 => {
            NapiError::NoNapi { link: link.to_owned(), source }
        }
        Some(code) if code == nix::Error::ENOENT as i32 || code == nix::Error::EACCES as i32 => {
            NapiError::NoThreaded { link: link.to_owned() }
        }
        _ => system(link, "switch threaded NAPI", source),
    })
}

/// Whether threaded NAPI is on.
///
/// # Errors
///
/// If there is no such interface, or the kernel does not say.
pub fn is_threaded(link: &str) -> Result<bool, NapiError> {
    let path = sysfs(link)?.join("threaded");
    let value =
        fs::read_to_string(path).map_err(|source| system(link, "read the NAPI setting", source))?;
    Ok(value.trim() != "0")
}

/// The NAPI threads of an interface, by NAPI id. Empty if it has none at the moment.
///
/// # Errors
///
/// If there is no such interface, or its threads cannot be told from another's.
pub fn threads(link: &str) -> Result<Vec<NapiThread>, NapiError> {
    let ifindex = ifindex(link)?;
    let filter = ifindex.to_ne_bytes();
    let answers =
        genetlink::dump("netdev", NETDEV_CMD_NAPI_GET, &[(NETDEV_A_NAPI_IFINDEX, &filter)]);
    let mut threads = match answers {
        Ok(answers) => parse_napi(&answers, ifindex),
        // Linux before 6.8: no such family, or no such command.
        Err(error) if is_unsupported(&error) => threads_by_name(link)?,
        Err(source) => return Err(system(link, "list the NAPI instances", source)),
    };
    threads.sort_unstable();
    Ok(threads)
}

/// The NAPI threads of an interface, by NAPI id, once there are exactly `count`: as many as the
/// interface has receive queues.
///
/// Threads may be made or ended while this is asked. Before Linux 6.8, also those of an interface
/// of the same name are found whose namespace is deleted but not yet taken apart; with them there
/// are too many, and they are waited out.
///
/// # Errors
///
/// [`NapiError::Count`] if there are fewer or more when `patience` has passed; as [`threads`].
pub fn threads_expecting(
    link: &str,
    count: u32,
    patience: Duration,
) -> Result<Vec<NapiThread>, NapiError> {
    Expecting::new(link, count, patience).threads(&mut || threads(link))
}

/// Pins the `count` threads of an interface, each to one CPU, round-robin through the list in
/// the order of their NAPI ids; says which process id went where. When a thread ends before it is
/// pinned, all are looked for again.
///
/// # Errors
///
/// If a CPU is not online, or a thread is gone when `patience` has passed; as
/// [`threads_expecting`]. The threads before the failing one stay pinned.
pub fn pin_expecting(
    link: &str,
    count: u32,
    cpus: &CpuList,
    patience: Duration,
) -> Result<Vec<(i32, usize)>, NapiError> {
    Expecting::new(link, count, patience).pin(cpus, &mut || threads(link))
}

/// Pins each thread to one CPU, round-robin through the list, and says which went where.
///
/// # Errors
///
/// If a CPU is not online, or a thread is gone. The threads before it stay pinned.
pub fn pin(pids: &[i32], cpus: &CpuList) -> Result<Vec<(i32, usize)>, NapiError> {
    let mut placed = Vec::with_capacity(pids.len());
    for (pid, cpu) in pids.iter().zip(cpus.iter().cycle()) {
        let one = CpuList::new([cpu]).unwrap_or_else(|| cpus.clone());
        cpu::pin_pid(*pid, &format!("NAPI thread {pid}"), &one)?;
        placed.push((*pid, cpu));
    }
    Ok(placed)
}

/// Asks again until the answer is as expected.
#[derive(Debug)]
struct Expecting<'a> {
    link: &'a str,
    count: u32,
    deadline: Instant,
}

impl<'a> Expecting<'a> {
    fn new(link: &'a str, count: u32, patience: Duration) -> Self {
        Self { link, count, deadline: Instant::now() + patience }
    }

    /// Whether to ask again; it has then waited.
    fn go_on(&self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        thread::sleep(left.min(RETRY_INTERVAL));
        !left.is_zero()
    }

    fn threads(
        &self,
        read: &mut dyn FnMut() -> Result<Vec<NapiThread>, NapiError>,
    ) -> Result<Vec<NapiThread>, NapiError> {
        loop {
            let error = match read() {
                Ok(mut threads) if u32::try_from(threads.len()) == Ok(self.count) => {
                    threads.sort_unstable();
                    return Ok(threads);
                }
                Ok(found) => NapiError::Count {
                    link: self.link.to_owned(),
                    expected: self.count,
                    found: found.iter().map(|thread| thread.pid).collect(),
                },
                // The other namespace may be on its way out.
                Err(error @ NapiError::Ambiguous { .. }) => error,
                Err(error) => return Err(error),
            };
            if !self.go_on() {
                return Err(error);
            }
        }
    }

    fn pin(
        &self,
        cpus: &CpuList,
        read: &mut dyn FnMut() -> Result<Vec<NapiThread>, NapiError>,
    ) -> Result<Vec<(i32, usize)>, NapiError> {
        loop {
            let pids: Vec<i32> = self.threads(read)?.iter().map(|thread| thread.pid).collect();
            match pin(&pids, cpus) {
                Err(error) if is_gone(&error) && self.go_on() => {}
                result => return result,
            }
        }
    }
}

/// Whether a thread had ended when it was to be pinned.
fn is_gone(error: &NapiError) -> bool {
    matches!(error, NapiError::Pin(CpuError::Pin { source, .. })
        if source.raw_os_error() == Some(nix::Error::ESRCH as i32))
}

fn system(link: &str, action: &'static str, source: io::Error) -> NapiError {
    NapiError::System { link: link.to_owned(), action, source }
}

/// The interface's directory in sysfs, after a check that sysfs shows this thread's namespace.
pub(crate) fn sysfs(link: &str) -> Result<PathBuf, NapiError> {
    let ifindex = ifindex(link)?;
    let directory = PathBuf::from("/sys/class/net").join(link);
    let shown = fs::read_to_string(directory.join("ifindex")).unwrap_or_default();
    if shown.trim().parse() == Ok(ifindex) {
        Ok(directory)
    } else {
        Err(NapiError::NoLink { link: link.to_owned() })
    }
}

fn ifindex(link: &str) -> Result<u32, NapiError> {
    check_name(link)?;
    nix::net::if_::if_nametoindex(link).map_err(|_| NapiError::NoLink { link: link.to_owned() })
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(nix::Error::EOPNOTSUPP as i32)
}

fn parse_napi(answers: &[Vec<genetlink::Attribute>], ifindex: u32) -> Vec<NapiThread> {
    answers
        .iter()
        .filter_map(|answer| {
            let value =
                |kind| answer.iter().find(|attribute| attribute.kind == kind).and_then(|a| a.u32());
            let pid = i32::try_from(value(NETDEV_A_NAPI_PID)?).ok()?;
            (value(NETDEV_A_NAPI_IFINDEX)? == ifindex)
                .then_some(NapiThread { napi_id: value(NETDEV_A_NAPI_ID)?, pid })
        })
        .collect()
}

/// Finds threads by their names, `napi/<interface>-<id>`, which Linux 5.17 and later show in full.
fn threads_by_name(link: &str) -> Result<Vec<NapiThread>, NapiError> {
    if let Some(other) =
        same_name_elsewhere(link).map_err(|source| system(link, "look for namesakes", source))?
    {
        return Err(NapiError::Ambiguous { link: link.to_owned(), other });
    }
    let entries =
        fs::read_dir("/proc").map_err(|source| system(link, "list the threads", source))?;
    let mut threads = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may call itself anything.
        if !procfs::stat(pid).is_some_and(|stat| stat.is_kernel_thread && !stat.has_ended()) {
            continue;
        }
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if let Some(napi_id) = parse_comm(comm.trim_end_matches('\n'), link) {
            threads.push(NapiThread { napi_id, pid });
        }
    }
    Ok(threads)
}

/// The NAPI id in a thread's name, if it is a NAPI thread of that interface.
fn parse_comm(comm: &str, link: &str) -> Option<u32> {
    let id = comm.strip_prefix("napi/")?.strip_prefix(link)?.strip_prefix('-')?;
    if !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    id.parse().ok()
}

/// The path of another namespace that has an interface of the same name, if there is one among
/// those that have a name or a process.
fn same_name_elsewhere(link: &str) -> io::Result<Option<String>> {
    let found = others()?.into_iter().find(|path| has_link(path, link));
    Ok(found.map(|path| path.display().to_string()))
}

/// Whether that namespace has an interface of that name, asked on a thread that goes there.
fn has_link(namespace: &std::path::Path, link: &str) -> bool {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let Ok(file) = File::open(namespace) else {
                return false;
            };
            setns(file, CloneFlags::CLONE_NEWNET).is_ok()
                && nix::net::if_::if_nametoindex(link).is_ok()
        });
        worker.join().unwrap_or(false)
    })
}

#[cfg(test)]
mod tests;

//! Whether a process may command the firewall: if it has `CAP_NET_ADMIN` in the user namespace that
//! owns the network namespace, as for everything else that rules its network (capabilities(7),
//! user_namespaces(7); `cap_capable` of the kernel). The number of its user says nothing: in a
//! container it may be 0 without any capability, and whoever makes a user namespace is 0 in it, and
//! has all capabilities there.
//!
//! The kernel says which process has connected (`SO_PEERCRED`), and `/proc` what it may. The
//! process might end in between, and its number be another one's: its pidfd (`SO_PEERPIDFD`) is
//! asked afterwards whether it still lives.
//!
//! What this does not cover. The question is put once, when a process connects; a connection that
//! is handed to another process keeps its right. The credentials are those of the process's first
//! thread, at the time of the question: one that executes another program between connecting and
//! the question has that program's, but never more than its bounding set allows it. The daemon has
//! to see the process: one of a PID namespace that is not below the daemon's is refused.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use weir_bpf::namespace;

/// `CAP_NET_ADMIN` as a bit of a set.
const CAP_NET_ADMIN: u64 = 1 << 12;

/// A namespace: device and inode of its file.
type Id = (u64, u64);

fn id(of: &Metadata) -> Id {
    (of.dev(), of.ino())
}

/// A user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    id: Id,
    /// The user who made it.
    creator_uid: u32,
}

/// What a process may, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Credentials {
    user_namespace: Id,
    effective_uid: u32,
    /// Effective capabilities, as bits.
    effective: u64,
}

/// Why a process is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejected(String);

impl fmt::Display for Rejected {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// Knows who may command the firewall of a network namespace.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The user namespace that owns it, and those above, as far as the daemon sees.
    levels: Vec<Level>,
}

impl Gate {
    /// Of the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel does not say who owns it.
    pub(crate) fn new() -> io::Result<Self> {
        let network = File::open("/proc/thread-self/ns/net")?;
        let mut levels = Vec::new();
        let mut next = Some(namespace::owner(network.as_fd())?);
        while let Some(user_namespace) = next {
            let creator_uid = namespace::creator_uid(&user_namespace)?;
            levels.push(Level { id: id(&user_namespace.metadata()?), creator_uid });
            next = namespace::parent(&user_namespace)?;
        }
        Ok(Self { levels })
    }

    /// The user of the process that has connected, if it may command the firewall.
    ///
    /// # Errors
    /// Why it may not, in words that it is told.
    pub(crate) fn admit(&self, stream: &UnixStream) -> Result<u32, Rejected> {
        let unknown =
            |error: nix::Error| Rejected(format!("the kernel does not know you: {error}"));
        let peer = getsockopt(stream, sockopt::PeerCredentials).map_err(unknown)?;
        let pidfd = getsockopt(stream, sockopt::PeerPidfd).map_err(unknown)?;
        if peer.pid() <= 0 {
            return Err(Rejected(
                "your process is in a PID namespace that weir fw does not see into: run the \
                 command in that of the daemon"
                    .to_owned(),
            ));
        }
        let credentials = credentials(peer.pid()).map_err(|error| {
            let pid = peer.pid();
            Rejected(format!(
                "weir fw cannot see what process {pid} may do (/proc/{pid}: {error}): the daemon \
                 needs CAP_SYS_PTRACE for that"
            ))
        })?;
        // Readable once the process has ended.
        let mut ended = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ended, PollTimeout::ZERO).map_err(unknown)? != 0 {
            return Err(Rejected("the process that connected has ended".to_owned()));
        }
        if self.lets_in(&credentials) {
            return Ok(peer.uid());
        }
        Err(Rejected(format!(
            "process {} (user {}) does not have CAP_NET_ADMIN in the user namespace that owns this \
             network namespace: run the command as root, and not in a container that takes this \
             capability away",
            peer.pid(),
            peer.uid()
        )))
    }

    /// As the kernel decides: a capability counts in its user namespace and in all below, and who
    /// made one from the namespace above it has all capabilities in it.
    fn lets_in(&self, who: &Credentials) -> bool {
        let Some(at) = self.levels.iter().position(|level| level.id == who.user_namespace) else {
            return false;
        };
        let below = at.checked_sub(1).and_then(|at| self.levels.get(at));
        who.effective & CAP_NET_ADMIN != 0
            || below.is_some_and(|below| below.creator_uid == who.effective_uid)
    }
}

/// Reads what a process may do.
fn credentials(pid: i32) -> io::Result<Credentials> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let user_namespace = id(&fs::metadata(format!("/proc/{pid}/ns/user"))?);
    let parsed = parse_status(&status);
    let (effective_uid, effective) = parsed.ok_or(io::ErrorKind::InvalidData)?;
    Ok(Credentials { user_namespace, effective_uid, effective })
}

/// Effective user and effective capabilities of proc_pid_status(5).
fn parse_status(status: &str) -> Option<(u32, u64)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let uid = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    let effective = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
    Some((uid, effective))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = (1 << 41) - 1;

    fn gate() -> Gate {
        // A network namespace of a container that user 1000 made, in another one, in the first.
        let level = |inode, creator_uid| Level { id: (4, inode), creator_uid };
        Gate { levels: vec![level(12, 1000), level(11, 7), level(10, 0)] }
    }

    #[test]
    fn a_capability_counts_where_it_is_and_below() {
        let lets_in = |inode, effective_uid, effective| {
            gate().lets_in(&Credentials { user_namespace: (4, inode), effective_uid, effective })
        };
        assert!(lets_in(12, 0, ALL) && lets_in(11, 0, ALL) && lets_in(10, 0, ALL));
        assert!(lets_in(10, 1234, CAP_NET_ADMIN), "whoever it is");
        for inode in [10, 11, 12] {
            assert!(!lets_in(inode, 0, 0), "0 is a number");
            assert!(!lets_in(inode, 0, ALL & !CAP_NET_ADMIN));
        }
        assert!(!lets_in(13, 0, ALL), "a user namespace beside or below has nothing here");
        assert!(lets_in(11, 1000, 0), "who made it, from above");
        assert!(!lets_in(10, 1000, 0), "but not from farther above");
        assert!(!lets_in(12, 1000, 0), "nor from inside");
    }

    #[test]
    fn a_status_is_read() {
        let status =
            "Name:\tweir\nUid:\t1000\t0\t1000\t1000\nCapPrm:\t0\nCapEff:\t0000000000001000\n";
        assert_eq!(parse_status(status), Some((0, CAP_NET_ADMIN)));
        assert_eq!(parse_status("Uid:\t0\t0\t0\t0\n"), None);
    }

    #[test]
    fn who_connects_is_known() {
        let Ok(gate) = Gate::new() else { return };
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let admitted = gate.admit(&ours);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let (uid, effective) = parse_status(&status).unwrap();
        if effective & CAP_NET_ADMIN != 0 {
            assert_eq!(admitted, Ok(uid));
        } else {
            assert!(admitted.unwrap_err().0.contains("CAP_NET_ADMIN"));
        }
    }
}

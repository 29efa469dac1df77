//! How Linux namespaces stand to each other (ioctl_nsfs(2)): which user namespace owns one, and
//! whose child a user namespace is; and what tells network namespaces apart, whose inodes' numbers
//! are used again.
//!
//! It makes no namespace, enters none, and decides nothing.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use crate::sys::{self, sockets};

/// The number of the calling thread's network namespace, which no other one has until the next
/// boot (socket(7), `SO_NETNS_COOKIE`).
///
/// # Errors
/// What the kernel returned; Linux 5.14 or later has it.
pub fn network_cookie() -> io::Result<u64> {
    sockets::netns_cookie(UnixDatagram::unbound()?.as_fd())
}

/// The user namespace that owns a namespace which is not one itself: capabilities over what is in
/// it are those of this user namespace.
///
/// # Errors
/// What the kernel returned: `EPERM` if the owner is outside of the caller's user namespace.
pub fn owner(namespace: BorrowedFd<'_>) -> io::Result<File> {
    sys::related_namespace(namespace, libc::NS_GET_USERNS).map(File::from)
}

/// The parent of a user namespace; `None` of the first one, and of the caller's, beyond which the
/// kernel does not let it look.
///
/// # Errors
/// What the kernel returned.
pub fn parent(user_namespace: &File) -> io::Result<Option<File>> {
    match sys::related_namespace(user_namespace.as_fd(), libc::NS_GET_PARENT) {
        Ok(parent) => Ok(Some(File::from(parent))),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The user who made a user namespace, as the caller's user namespace numbers users.
///
/// # Errors
/// What the kernel returned.
pub fn creator_uid(user_namespace: &File) -> io::Result<u32> {
    sys::namespace_owner_uid(user_namespace.as_fd())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_network_namespace_belongs_to_a_user_namespace() {
        let network = File::open("/proc/thread-self/ns/net").unwrap();
        let found = owner(network.as_fd()).unwrap();
        let ours = std::fs::metadata("/proc/thread-self/ns/user").unwrap();
        // A test in a container with the host's network is refused above.
        assert_eq!(found.metadata().unwrap().ino(), ours.ino());
        assert!(parent(&found).unwrap().is_none(), "one's own is the last that one sees");
        creator_uid(&found).unwrap();
        assert!(owner(File::open("/dev/null").unwrap().as_fd()).is_err(), "no namespace");
    }
}

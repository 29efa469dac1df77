//! A network namespace without a name, for devices that nobody else is to see.
//!
//! It lives as long as its value: the kernel removes it, with what is in it, when the process ends,
//! however it ends. Nothing has to be written down or cleaned up.
//!
//! This module never moves the calling thread to another namespace.

use std::fs::File;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::describe;

/// A network namespace was not made or not entered.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} a private network namespace: {}", describe(source))]
pub struct PrivateNetnsError {
    operation: &'static str,
    source: io::Error,
}

/// A network namespace without a name; dropping it removes it.
#[derive(Debug)]
pub struct PrivateNetns {
    file: File,
}

impl PrivateNetns {
    /// Makes a namespace with nothing in it but a loopback interface that is down.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn create() -> Result<Self, PrivateNetnsError> {
        let failed = |source| PrivateNetnsError { operation: "make", source };
        let file = on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        })
        .map_err(failed)?;
        Ok(Self { file })
    }

    /// Runs the closure inside the namespace, on a thread of its own, and returns what it returns.
    /// Its `/sys` is the caller's: it does not show the namespace's interfaces.
    ///
    /// # Errors
    ///
    /// If the thread cannot be made or cannot enter; the closure has not run then.
    pub fn run<R: Send>(&self, closure: impl FnOnce() -> R + Send) -> Result<R, PrivateNetnsError> {
        let failed = |source| PrivateNetnsError { operation: "enter", source };
        on_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok(closure())
        })
        .map_err(failed)
    }
}

/// Runs a job on a thread of its own; its panic goes on here.
fn on_thread<R: Send>(job: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("netns".into()).spawn_scoped(scope, job)?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VethEnd;
    use crate::netlink::Netlink;

    #[test]
    fn devices_inside_are_not_seen_outside() {
        let private = PrivateNetns::create().unwrap();
        let name = format!("wp{}", std::process::id());
        let inside = private
            .run(|| {
                let netlink = Netlink::open().unwrap();
                netlink.create_veth(&VethEnd::new(&name), &VethEnd::new("peer"), 1).unwrap();
                netlink.links().unwrap().len()
            })
            .unwrap();
        assert_eq!(inside, 3, "loopback and the pair");
        assert!(Netlink::open().unwrap().link(&name).is_err());
    }
}

//! Network namespaces for tests, made with `ip` and removed whatever happens.

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};

/// A namespace of its own name, deleted when dropped.
pub(crate) struct Namespace {
    name: String,
}

/// True if the test may make namespaces; says that the test is skipped otherwise.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
pub(crate) fn privileged() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: network namespaces need root");
    }
    root
}

/// Runs `ip` with the words of a line.
pub(crate) fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output().expect("ip runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {line}: {error}");
}

impl Namespace {
    /// Makes a namespace; tests that run at the same time get different ones.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weirgen{}x{next}", std::process::id());
        ip(&format!("netns add {name}"));
        let namespace = Self { name };
        // No neighbour discovery: only the packets of the test are to be seen.
        namespace.inside(|| {
            for which in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                std::fs::write(path, "1").expect("the sysctl is written");
            }
        });
        namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip -n <this namespace>`.
    pub(crate) fn ip(&self, line: &str) {
        ip(&format!("-n {} {line}", self.name));
    }

    /// Index of an interface.
    pub(crate) fn ifindex(&self, name: &str) -> u32 {
        self.inside(|| if_nametoindex(name).expect("the interface exists"))
    }

    /// Runs a closure on a thread inside the namespace.
    pub(crate) fn inside<R: Send>(&self, job: impl FnOnce() -> R + Send) -> R {
        let path = format!("/run/netns/{}", self.name);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(path).expect("the namespace exists");
                setns(file, CloneFlags::CLONE_NEWNET).expect("the namespace can be entered");
                job()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}
